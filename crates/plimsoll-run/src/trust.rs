// SPDX-License-Identifier: Apache-2.0
//! Files that may have this program start others: those that the command line names with `--trust`.
//!
//! Invariant: a file can ask, and only the command line grants. Consent is for one file, wherever links
//! lead to it, and for none beside it.

use plimsoll_console::failure::CliError;
use plimsoll_core::plan::StackFile;
use std::fs;
use std::path::{Path, PathBuf};

/// Standard input in the place of a file.
pub const STANDARD_INPUT: &str = "-";

/// The files that are trusted, by their canonical paths.
#[derive(Debug, Clone, Default)]
pub struct TrustedFiles(Vec<PathBuf>);

impl TrustedFiles {
    /// Those of the command line.
    ///
    /// # Errors
    /// When one is not there, or is no file.
    pub fn named(files: &[PathBuf]) -> Result<TrustedFiles, CliError> {
        let canonical = |file: &PathBuf| {
            if file == Path::new(STANDARD_INPUT) {
                return Ok(file.clone());
            }
            let wrong = |reason: &dyn std::fmt::Display| {
                CliError::usage(format!("trust {}: {reason}", file.display()))
            };
            let path = fs::canonicalize(file).map_err(|error| wrong(&error))?;
            match path.is_file() {
                true => Ok(path),
                false => Err(wrong(&"it is not a file")),
            }
        };
        let files: Result<_, CliError> = files.iter().map(canonical).collect();
        files.map(TrustedFiles)
    }

    /// Whether this file is one of them.
    pub fn holds(&self, file: &Path) -> bool {
        match file == Path::new(STANDARD_INPUT) {
            true => self.0.iter().any(|known| known == file),
            false => fs::canonicalize(file).is_ok_and(|file| self.0.contains(&file)),
        }
    }

    /// Why a file that would start these programs is refused; `None` where it starts none, or is trusted.
    pub fn refusal(&self, file: &Path, starts: &[String]) -> Option<CliError> {
        if starts.is_empty() || self.holds(file) {
            return None;
        }
        let (file, starts) = (file.display(), starts.join("; "));
        let text = format!("{file} would start programs, and is not trusted: {starts}");
        Some(CliError::invalid(text).hint(format!("add --trust {file} to let it")))
    }
}

/// Every command of a stack file, as it would be typed.
pub fn commands_of_stack(stack: &StackFile) -> Vec<String> {
    let commands = stack.step.iter().flat_map(|step| {
        let all = [
            &step.apply,
            &step.start,
            &step.ready,
            &step.check,
            &step.undo,
        ];
        all.into_iter().flatten()
    });
    let said = commands.filter(|words| !words.is_empty());
    said.map(|words| typed(words)).collect()
}

/// Words as one would type them.
pub fn typed(words: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:@+%{}".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_for_one_file_and_not_for_those_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a.toml", "b.toml"] {
            fs::write(path(name), "").unwrap();
        }
        std::os::unix::fs::symlink(path("a.toml"), path("link.toml")).unwrap();
        let trusted = TrustedFiles::named(&[path("link.toml")]).unwrap();
        let starts = ["sh -c 'id'".to_owned()];
        let refused = |name: &str| trusted.refusal(&path(name), &starts).map(|one| one.text());
        assert_eq!(refused("a.toml"), None);
        assert_eq!(refused("link.toml"), None);
        assert!(refused("b.toml").unwrap().ends_with(": sh -c 'id'"));
        assert!(trusted.refusal(&path("b.toml"), &[]).is_none());
        assert!(TrustedFiles::named(&[folder.path().into()]).is_err());
        assert!(TrustedFiles::named(&[path("c.toml")]).is_err());
    }
}
