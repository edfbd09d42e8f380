// SPDX-License-Identifier: Apache-2.0
//! The words by which settings of the engine are given, on the command line and to nodes.

use super::SensitivityBoundMode;
use plimsoll_engine::DataCheck;
use plimsoll_engine::EngineChoice;

/// How operations reach the kernel.
pub(crate) const ENGINES: [(&str, EngineChoice); 3] = [
    ("auto", EngineChoice::Auto),
    ("uring", EngineChoice::Uring),
    ("sync", EngineChoice::Sync),
];

/// When what is written is verified, where it is.
pub(crate) const DATA_CHECKS: [(&str, DataCheck); 2] =
    [("end", DataCheck::End), ("always", DataCheck::Always)];

/// Which corners of a model are played.
pub(crate) const CORNERS: [(&str, SensitivityBoundMode); 3] = [
    ("ends", SensitivityBoundMode::Ends),
    ("all", SensitivityBoundMode::All),
    ("off", SensitivityBoundMode::Off),
];

/// What a word means.
pub(crate) fn meant<T: Copy>(words: &[(&str, T)], word: &str) -> Option<T> {
    let found = words.iter().find(|(known, _)| *known == word);
    found.map(|(_, meaning)| *meaning)
}

/// The word for something.
pub(crate) fn word_for<T: PartialEq>(
    words: &[(&'static str, T)],
    wanted: &T,
) -> Option<&'static str> {
    let found = words.iter().find(|(_, meaning)| meaning == wanted);
    found.map(|(word, _)| *word)
}
