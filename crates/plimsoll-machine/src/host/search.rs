// SPDX-License-Identifier: Apache-2.0
//! Looking for texts in files and their names below directories. Reads only.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::error::HostError;

/// Bytes read at once.
const PIECE: usize = 1 << 20;

/// Directories below directories that are entered: ours are far less deep.
const DEPTH_MAX: u32 = 64;

/// The first place where one of these texts stands, in a name or in a file, in words.
pub(crate) fn find(dirs: &[String], texts: &[String]) -> Result<Option<String>, HostError> {
    let mut left: Vec<(PathBuf, u32)> = dirs.iter().map(|dir| (dir.into(), 0)).collect();
    while let Some((path, depth)) = left.pop() {
        let data = match path.symlink_metadata() {
            Ok(data) => data,
            // Servers rename and remove while we look.
            Err(error) if error.kind() == ErrorKind::NotFound && depth > 0 => continue,
            Err(error) => return Err(HostError::io("look at", &path)(error)),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(text) = texts.iter().find(|text| name.contains(text.as_str())) {
            return Ok(Some(format!(
                "the name of {} contains '{text}'",
                path.display()
            )));
        }
        if data.is_dir() && depth < DEPTH_MAX {
            let entries = fs::read_dir(&path).map_err(HostError::io("list", &path))?;
            left.extend(entries.flatten().map(|entry| (entry.path(), depth + 1)));
        } else if data.is_file()
            && let Some(text) = in_file(&path, texts)?
        {
            return Ok(Some(format!("{} contains '{text}'", path.display())));
        }
    }
    Ok(None)
}

fn in_file<'a>(path: &Path, texts: &'a [String]) -> Result<Option<&'a String>, HostError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(HostError::io("open", path)(error)),
    };
    let overlap = texts.iter().map(String::len).max().unwrap_or(0);
    let mut piece = vec![0_u8; overlap + PIECE];
    let mut kept = 0;
    loop {
        let read = file.read(&mut piece[kept..]);
        let read = read.map_err(HostError::io("read", path))?;
        if read == 0 {
            return Ok(None);
        }
        let seen = &piece[..kept + read];
        // Images are mostly holes; what is all zeros holds no text.
        if seen.iter().any(|&byte| byte != 0) {
            let holds = |text: &&String| is_in(seen, text.as_bytes());
            if let Some(text) = texts.iter().find(holds) {
                return Ok(Some(text));
            }
        }
        // A text may lie across two pieces.
        let end = kept + read;
        let keep = end.min(overlap);
        piece.copy_within(end - keep..end, 0);
        kept = keep;
    }
}

fn is_in(bytes: &[u8], text: &[u8]) -> bool {
    let Some((&first, rest)) = text.split_first() else {
        return false;
    };
    let mut at = 0;
    while let Some(next) = bytes[at..].iter().position(|&byte| byte == first) {
        let begin = at + next + 1;
        if bytes[begin..].starts_with(rest) {
            return true;
        }
        at = begin;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_in_files_names_and_across_pieces() {
        let base = tempfile::tempdir().unwrap();
        let dirs = [base.path().display().to_string()];
        let texts = ["needle".to_owned()];
        fs::create_dir(base.path().join("deep")).unwrap();
        fs::write(base.path().join("deep/file"), "hay").unwrap();
        assert_eq!(find(&dirs, &texts).unwrap(), None);
        let mut bytes = vec![b'n'; PIECE + 9];
        bytes.extend_from_slice(b"eedle");
        fs::write(base.path().join("deep/file"), &bytes).unwrap();
        assert!(find(&dirs, &texts).unwrap().unwrap().contains("deep/file"));
        fs::remove_file(base.path().join("deep/file")).unwrap();
        fs::write(base.path().join("a-needle"), "").unwrap();
        assert!(
            find(&dirs, &texts)
                .unwrap()
                .unwrap()
                .contains("the name of")
        );
        assert!(find(&["/no/such/place".into()], &texts).is_err());
    }
}
