// SPDX-License-Identifier: Apache-2.0
//! How a file of a recording is made.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Makes a file that must not be there, for its owner alone whatever the umask: a recording says what a
/// machine did when.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create_new(true).mode(0o600).open(path)
}
