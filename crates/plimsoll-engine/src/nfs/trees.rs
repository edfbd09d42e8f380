// SPDX-License-Identifier: Apache-2.0
//! Lays out file sets on an export, as [`crate::trees::layout`] does in a directory: the same files, in the
//! same order, with the same contents, each durable when the next is begun.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use plimsoll_core::rng::Seed;
use plimsoll_nfs::NfsFileHandle;

use super::{NfsExportDir, NfsNameClient, gone};
use crate::error::EngineError;
use crate::trees::layout::{contents, order, stopped};
use crate::trees::{FileSetState, FileSetsByName};

/// Directories by their paths below that of the sets.
type Directories = BTreeMap<String, NfsFileHandle>;

/// Makes the directories and the existing files of `sets`.
pub(crate) fn lay_out(
    export: &NfsExportDir,
    sets: &FileSetsByName,
    seed: Seed,
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    let mut names = export.names()?;
    for grove in sets.values() {
        let directories = make_directories(&mut names, grove)?;
        write_files(&mut names, &directories, grove, seed, stop)?;
    }
    Ok(())
}

fn make_directories(
    names: &mut NfsNameClient,
    grove: &FileSetState,
) -> Result<Directories, EngineError> {
    let mut made = Directories::new();
    for path in paths(grove) {
        let (above, name) = split(&path);
        let above = made.get(above).copied().unwrap_or(names.root);
        let handle = names.session.make_directory(&above, name).map_err(|e| {
            let doing = "create a directory of the file set; is the target empty?";
            EngineError::at(doing, Path::new(&path), e)
        })?;
        made.insert(path, handle);
    }
    Ok(made)
}

/// The directories of a set, those above before those below.
fn paths(grove: &FileSetState) -> impl Iterator<Item = String> {
    let below = grove.shape.directories().iter();
    below.map(|below| format!("{}{below}", grove.name))
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn write_files(
    names: &mut NfsNameClient,
    directories: &Directories,
    grove: &FileSetState,
    seed: Seed,
    stop: &AtomicBool,
) -> Result<(), EngineError> {
    let mut path = String::new();
    for file in order(grove, seed) {
        stopped(stop)?;
        path.clear();
        grove.push_path(file, &mut path);
        let (directory, name) = split(&path);
        let directory = directories.get(directory).copied().unwrap_or(names.root);
        let made = names.session.create(&directory, name, true).map_err(|e| {
            let doing = "create a file of the set; is the directory empty?";
            EngineError::at(doing, Path::new(&path), e)
        })?;
        let bytes = grove.slots.designated_bytes(file);
        if bytes > 0 {
            let mut rng = contents(seed, file);
            names.write_random(&made.0, Path::new(&path), bytes, &mut rng, stop)?;
        }
    }
    Ok(())
}

/// The files of a set in the order in which its directories list them.
pub(crate) fn listing(
    export: &NfsExportDir,
    grove: &FileSetState,
) -> Result<Vec<u32>, EngineError> {
    let mut names = export.names()?;
    let mut files = Vec::new();
    for path in paths(grove) {
        let handle = find(&mut names, &path)?;
        let found = names.session.list(&handle);
        let found =
            found.map_err(|e| EngineError::at("list the directory", Path::new(&path), e))?;
        for name in found {
            // Directories have names of digits too.
            if let Some(number) = grove.number_of(&name)
                && is_file_of(grove, number, &path, &name)
            {
                files.push(number);
            }
        }
    }
    Ok(files)
}

fn is_file_of(grove: &FileSetState, number: u32, directory: &str, name: &str) -> bool {
    let mut path = String::new();
    grove.push_path(number, &mut path);
    split(&path) == (directory, name)
}

fn find(names: &mut NfsNameClient, path: &str) -> Result<NfsFileHandle, EngineError> {
    let mut here = names.root;
    for name in path.split('/') {
        let found = names.session.find(&here, name);
        here = found
            .map_err(|e| EngineError::at("find", Path::new(path), e))?
            .0;
    }
    Ok(here)
}

/// Removes every file and directory of `sets` that the layout or a run may have made; those that are
/// gone already are fine.
pub(crate) fn remove(export: &NfsExportDir, sets: &FileSetsByName) -> Result<(), EngineError> {
    let mut names = export.names()?;
    for grove in sets.values() {
        let mut above = Directories::new();
        for path in paths(grove) {
            if let Ok(handle) = find(&mut names, &path) {
                above.insert(path, handle);
            }
        }
        let mut path = String::new();
        for file in 0..grove.slots.entries() {
            path.clear();
            grove.push_path(file, &mut path);
            let (directory, name) = split(&path);
            if let Some(directory) = above.get(directory) {
                let removed = names.session.remove(directory, name);
                gone(removed).map_err(|e| EngineError::at("remove", Path::new(&path), e))?;
            }
        }
        let all: Vec<String> = paths(grove).collect();
        for path in all.iter().rev() {
            let (directory, name) = split(path);
            let directory = above.get(directory).copied().unwrap_or(names.root);
            let removed = names.session.remove_directory(&directory, name);
            gone(removed).map_err(|e| EngineError::at("remove", Path::new(path), e))?;
        }
    }
    Ok(())
}
