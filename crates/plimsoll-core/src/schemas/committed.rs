// SPDX-License-Identifier: Apache-2.0
//! Documents that tests make from the program and that are committed as plain files, because users and other
//! programs read them: schemas, the reference of commands, the types of the pages.

use std::path::Path;

/// Compares a document, whose path is from the root of the repository, with the text that it has to be.
/// With `UPDATE_SNAPSHOTS=1` it writes the text instead.
pub(crate) fn check(path: &str, text: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = root.join(path);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    let mut lines = found.lines().zip(text.lines());
    let differs = lines.find(|(old, new)| old != new);
    assert!(
        found == text,
        "{path} is not what the program says: run this test with UPDATE_SNAPSHOTS=1, which writes it anew, \
         and read the difference, which begins with {differs:?}"
    );
}
