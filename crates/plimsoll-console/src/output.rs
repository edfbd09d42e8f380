// SPDX-License-Identifier: Apache-2.0
//! Files that a command writes where its user says: refused before the work is done that is to go into them.

use crate::failure::{CliError, CliExitCode};
use std::fmt::Display;
use std::path::Path;

/// A function for `map_err`: the file could not be written.
pub fn not_written<E: Display>(path: &Path) -> impl Fn(E) -> CliError + use<E> {
    let path = path.display().to_string();
    move |error| CliError::new(CliExitCode::Failed, format!("write {path}: {error}"))
}

/// Refuses a file that cannot be written, or is not to be.
pub fn check_output(path: &Path, force: bool) -> Result<(), CliError> {
    check_directory_of(path)?;
    refuse_existing(path, force)
}

/// Refuses to write over a file unless that is wanted.
pub fn refuse_existing(path: &Path, force: bool) -> Result<(), CliError> {
    // A link is there, wherever it leads.
    if path.symlink_metadata().is_err() || force {
        return Ok(());
    }
    let text = format!("write {}: it exists", path.display());
    Err(CliError::usage(text).hint("give --force to overwrite it"))
}

/// Refuses a file in a directory that is not there, before the work is done that is to go into it.
pub fn check_directory_of(path: &Path) -> Result<(), CliError> {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() && !directory.is_dir() => {
            let (path, directory) = (path.display(), directory.display());
            let text = format!("write {path}: there is no directory {directory}");
            Err(CliError::usage(text).hint(format!("make it first: mkdir -p {directory}")))
        }
        _ => Ok(()),
    }
}
