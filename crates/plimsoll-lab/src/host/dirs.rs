// SPDX-License-Identifier: Apache-2.0
//! Directories that carry our mark file, made and removed so that no moment leaves one unmarked.
//!
//! Making: under a name that holds the identifier, mark inside, then renamed. Removing: renamed
//! back, then emptied. A directory under the temporary name is ours by that name.
//!
//! The mark also says how many of the directories above were made for it: they go with it when
//! they are empty. Only a kill between making them and the mark leaves one, empty.

use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::error::HostError;
use super::{MARK_FILE, files, mounts};

/// How the names of our directories begin, where they do not lie in another one of ours.
const NAME_START: &str = "plimsoll-";

/// What a mark file says: the identifier of the journal, then how many of the directories above
/// were made for this one, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    id: String,
    parents: usize,
}

impl Mark {
    fn read(dir: &Path) -> Option<Mark> {
        let text = fs::read_to_string(dir.join(MARK_FILE)).ok()?;
        let mut lines = text.lines();
        Some(Mark {
            id: lines.next()?.into(),
            parents: lines.next().and_then(|n| n.parse().ok()).unwrap_or(0),
        })
    }

    fn write(&self, dir: &Path) -> io::Result<()> {
        let mut file = fs::File::create_new(dir.join(MARK_FILE))?;
        writeln!(file, "{}", self.id)?;
        if self.parents > 0 {
            writeln!(file, "{}", self.parents)?;
        }
        file.sync_all()
    }
}

/// The identifier of the journal that a directory of ours belongs to; `None` when it is not ours.
#[must_use]
pub fn journal_of(directory: &Path) -> Option<String> {
    Mark::read(directory).map(|mark| mark.id)
}

/// Creates `path`, which must not exist, with the mark of the journal `id`, and missing parents.
pub(crate) fn make(path: &Path, id: &str) -> Result<(), HostError> {
    if path.symlink_metadata().is_ok() {
        return Err(HostError::State(format!(
            "{} exists already; remove it or choose another place",
            path.display()
        )));
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    let mark = Mark {
        id: id.into(),
        parents: make_parents(parent).map_err(HostError::io("create", parent))?,
    };
    let early = temporary(path, id);
    fs::create_dir(&early).map_err(HostError::io("create", &early))?;
    mark.write(&early).map_err(HostError::io("mark", &early))?;
    match renameat_with(CWD, &early, CWD, path, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // Some file systems cannot promise not to replace; we looked above.
        Err(rustix::io::Errno::INVAL) => {
            fs::rename(&early, path).map_err(HostError::io("create", path))
        }
        Err(errno) => Err(HostError::sys("create", path)(errno)),
    }
}

/// Makes a directory and those above it; gives how many from `dir` upwards were made by us, now
/// or for a directory of ours that is still in `dir`.
fn make_parents(dir: &Path) -> io::Result<usize> {
    let absent = |dir: &&Path| !dir.exists();
    let made = dir.ancestors().take_while(absent).count();
    if made > 0 {
        fs::create_dir_all(dir)?;
        return Ok(made);
    }
    // Whichever of our directories goes last takes the parents with it.
    let siblings = fs::read_dir(dir)?.flatten().filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with(NAME_START)
    });
    let marks = siblings.filter_map(|entry| Mark::read(&entry.path()));
    Ok(marks.map(|mark| mark.parents).max().unwrap_or(0))
}

/// Removes up to `parents` directories above `path`, as long as they are empty.
fn remove_empty_parents(path: &Path, parents: usize) {
    for dir in path.ancestors().skip(1).take(parents) {
        // What others have put there keeps it, and those above.
        if fs::remove_dir(dir).is_err() {
            return;
        }
    }
}

/// Removes `path` and all in it if it carries the mark of the journal `id`, and the directories
/// above that were made for it if they are empty; fine when absent.
pub(crate) fn remove(path: &Path, id: &str) -> Result<(), HostError> {
    let early = temporary(path, id);
    let marks = [path, &early].map(Mark::read).into_iter().flatten();
    let ours = marks.filter(|mark| mark.id == id);
    let parents = ours.map(|mark| mark.parents).max().unwrap_or(0);
    remove_one(path, &early, id)?;
    remove_empty_parents(path, parents);
    Ok(())
}

fn remove_one(path: &Path, early: &Path, id: &str) -> Result<(), HostError> {
    remove_tree(early)?;
    match path.symlink_metadata() {
        Err(error) if files::is_absent(&error) => return Ok(()),
        Err(error) => return Err(HostError::io("look at", path)(error)),
        Ok(data) if !data.is_dir() => return Err(refuse(path, "it is not a directory")),
        Ok(_) => {}
    }
    if !carries_mark(path, id) {
        return Err(refuse(
            path,
            &format!("its file {MARK_FILE} does not name {id}, so it is not ours"),
        ));
    }
    check_no_mounts(path)?;
    fs::rename(path, early).map_err(HostError::io("rename", path))?;
    remove_tree(early)
}

fn remove_tree(dir: &Path) -> Result<(), HostError> {
    if dir.symlink_metadata().is_err_and(|e| files::is_absent(&e)) {
        return Ok(());
    }
    check_no_mounts(dir)?;
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(HostError::io("remove", dir)(error))
        }
        _ => Ok(()),
    }
}

/// Never empties somebody's file system because it is mounted below.
fn check_no_mounts(dir: &Path) -> Result<(), HostError> {
    let below = mounts::below(dir).map_err(HostError::io("read the mounts below", dir))?;
    match below.first() {
        None => Ok(()),
        Some(mount) => Err(refuse(
            dir,
            &format!(
                "{} is still mounted at {}; unmount it, then try again",
                mount.source,
                mount.point.display()
            ),
        )),
    }
}

fn refuse(path: &Path, why: &str) -> HostError {
    HostError::Refused {
        what: format!("remove {}", path.display()),
        why: why.into(),
    }
}

/// Whether a directory carries the mark of the journal `id`.
pub(crate) fn carries_mark(dir: &Path, id: &str) -> bool {
    Mark::read(dir).is_some_and(|mark| mark.id == id)
}

/// A name beside `path` that is ours because it holds the identifier.
pub(crate) fn temporary(path: &Path, id: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.plimsoll-{id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marked_directories_are_removed() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("deep/ours");
        make(&dir, "a").unwrap();
        assert!(make(&dir, "a").is_err());
        fs::write(dir.join("file"), "x").unwrap();
        assert!(matches!(remove(&dir, "b"), Err(HostError::Refused { .. })));
        remove(&dir, "a").unwrap();
        assert!(!dir.exists());
        remove(&dir, "a").unwrap();
        fs::create_dir_all(&dir).unwrap();
        assert!(matches!(remove(&dir, "a"), Err(HostError::Refused { .. })));
    }

    #[test]
    fn what_could_never_be_made_in_a_file_is_not_there() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        fs::write(&file, "x").unwrap();
        let dir = file.join("plimsoll-a");
        assert!(make(&dir, "a").is_err());
        remove(&dir, "a").unwrap();
        assert!(file.is_file());
    }

    #[test]
    fn directories_made_above_ours_go_with_the_last_of_ours() {
        let base = tempfile::tempdir().unwrap();
        let above = base.path().join("made/deep");
        let dirs = ["plimsoll-a", "plimsoll-b"].map(|name| above.join(name));
        for first in [0, 1] {
            for dir in &dirs {
                make(dir, "a").unwrap();
            }
            remove(&dirs[first], "a").unwrap();
            assert!(above.exists());
            remove(&dirs[1 - first], "a").unwrap();
            assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn directories_above_ours_stay_when_others_use_them_or_made_them() {
        let base = tempfile::tempdir().unwrap();
        let made = base.path().join("made");
        let dir = made.join("plimsoll-a");
        make(&dir, "a").unwrap();
        fs::write(made.join("theirs"), "x").unwrap();
        remove(&dir, "a").unwrap();
        fs::remove_file(made.join("theirs")).unwrap();
        // Empty, and by now not ours.
        make(&dir, "a").unwrap();
        remove(&dir, "a").unwrap();
        assert!(made.exists());
    }

    #[test]
    fn what_a_crash_leaves_halfway_is_removed_too() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("ours");
        // Killed while making, and while removing.
        fs::create_dir(temporary(&dir, "a")).unwrap();
        fs::write(temporary(&dir, "a").join("file"), "x").unwrap();
        remove(&dir, "a").unwrap();
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }
}
