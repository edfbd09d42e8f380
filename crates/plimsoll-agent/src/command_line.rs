// SPDX-License-Identifier: Apache-2.0
//! The words of the command that is carried out: those of the program, or of a part of it that is a command
//! itself. Run folders keep them, and are resumed by the same ones only.

use std::sync::{Mutex, PoisonError};

/// The words of a part, while one is carried out.
static PART: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// The words, the name of the program first.
pub fn words() -> Vec<String> {
    let part = PART.lock().unwrap_or_else(PoisonError::into_inner);
    part.clone().unwrap_or_else(|| std::env::args().collect())
}

/// Does something as if the program had been started with these words behind its name.
pub fn with_words<T>(words: &[String], work: impl FnOnce() -> T) -> T {
    let set = |words: Option<Vec<String>>| {
        *PART.lock().unwrap_or_else(PoisonError::into_inner) = words;
    };
    let program = std::env::args().next();
    set(Some(
        program.into_iter().chain(words.iter().cloned()).collect(),
    ));
    let done = work();
    set(None);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_words_of_its_own() {
        let words_of_part = with_words(&["compare".into(), "a".into()], words);
        assert_eq!(words_of_part[1..], ["compare", "a"]);
        assert_eq!(words(), std::env::args().collect::<Vec<_>>());
    }
}
