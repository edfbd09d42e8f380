// SPDX-License-Identifier: Apache-2.0
//! The words of the command that is carried out: those of the program, or of a part of it that is a command
//! itself. Run folders keep them, to be told; a run is resumed by its campaign.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A part, while one is carried out.
static PART: Mutex<Option<CommandPart>> = Mutex::new(None);

/// A command that is a part of another one.
#[derive(Clone)]
struct CommandPart {
    words: Vec<String>,
    /// The file that has its words, where a person did not choose them.
    file: Option<PathBuf>,
}

fn part() -> Option<CommandPart> {
    PART.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The words, the name of the program first.
pub fn words() -> Vec<String> {
    part().map_or_else(|| std::env::args().collect(), |part| part.words)
}

/// The file that the words are from; `None` where a person typed them.
pub fn file() -> Option<PathBuf> {
    part()?.file
}

/// Does something as if the program had been started with these words behind its name. They are from
/// `file`, or were typed.
pub fn with_words<T>(words: &[String], file: Option<&Path>, work: impl FnOnce() -> T) -> T {
    let set = |part: Option<CommandPart>| {
        *PART.lock().unwrap_or_else(PoisonError::into_inner) = part;
    };
    let program = std::env::args().next();
    set(Some(CommandPart {
        words: program.into_iter().chain(words.iter().cloned()).collect(),
        file: file.map(Path::to_path_buf),
    }));
    let done = work();
    set(None);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_words_of_its_own() {
        let from = Path::new("x.toml");
        let both = || (words(), file());
        let (words_of_part, of_file) =
            with_words(&["compare".into(), "a".into()], Some(from), both);
        assert_eq!(words_of_part[1..], ["compare", "a"]);
        assert_eq!(of_file.as_deref(), Some(from));
        assert_eq!(file(), None);
        assert_eq!(words(), std::env::args().collect::<Vec<_>>());
    }
}
