// SPDX-License-Identifier: Apache-2.0
//! Directories that carry our mark file, made and removed so that no moment leaves one unmarked.
//!
//! Making: under a name that holds the identifier, mark inside, then renamed. Removing: renamed
//! back, then emptied, the mark last. So one under the temporary name carries the mark, or is empty.
//!
//! The mark also says how many of the directories above were made for it: they go with it when
//! they are empty. Only a kill between making them and the mark leaves one, empty.
//!
//! Invariant: whatever the umask, only their owner may enter directories of ours: what other users of
//! the machine could reach below them (disks, exports, mounts, sockets, keys) is closed to them there.

use rustix::fs::{Mode, OFlags, RenameFlags, renameat, renameat_with};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::clock::{HostTimeSource as _, SystemClock};
use super::error::HostError;
use super::{MARK_FILE, files, places, removal};

/// How the names of our directories begin, where they do not lie in another one of ours.
const NAME_START: &str = "plimsoll-";

/// Mode of all that is made here: the files of a stack or a run are private to this user.
const PRIVATE: u32 = 0o700;

/// Most bytes of a mark file; ours have some fifty.
const MARK_BYTES: u64 = 4096;
/// How often, and at which distance, a mark is looked for in a directory of our name that has other contents.
const MARK_READS: usize = 10;
const MARK_PAUSE: Duration = Duration::from_millis(100);

/// The text of a mark file: the identifier of the journal, then how many of the directories above
/// were made for this one, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    id: String,
    parents: usize,
}

impl Mark {
    fn read(dir: &Path) -> Option<Mark> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Self::read_in(&rustix::fs::open(dir, flags, Mode::empty()).ok()?)
    }

    /// Whether it was created, and its writer was killed before a word was in it.
    fn is_begun_in(dir: &OwnedFd) -> bool {
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::statat(dir, MARK_FILE, flags).is_ok_and(|found| {
            let kind = rustix::fs::FileType::from_raw_mode(found.st_mode);
            kind == rustix::fs::FileType::RegularFile && found.st_size == 0
        })
    }

    /// The mark in a directory that is held.
    fn read_in(dir: &OwnedFd) -> Option<Mark> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(dir, MARK_FILE, flags, Mode::empty()).ok()?);
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut text = String::new();
        file.take(MARK_BYTES).read_to_string(&mut text).ok()?;
        let mut lines = text.lines();
        Some(Mark {
            id: lines.next()?.into(),
            parents: lines.next().and_then(|n| n.parse().ok()).unwrap_or(0),
        })
    }

    fn write_in(&self, dir: &OwnedFd) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(
            dir,
            MARK_FILE,
            flags,
            Mode::from_raw_mode(0o600),
        )?);
        writeln!(file, "{}", self.id)?;
        if self.parents > 0 {
            writeln!(file, "{}", self.parents)?;
        }
        file.sync_all()
    }
}

/// The identifier of the journal that a directory of ours belongs to; `None` when it is not ours.
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
    let above = path.parent().unwrap_or(Path::new("/"));
    if rustix::process::geteuid().is_root() {
        // Another user could lead root's directories anywhere; others risk only their own files.
        places::check_way(above)?;
    }
    let mark = Mark {
        id: id.into(),
        parents: make_parents(above).map_err(HostError::io("create", above))?,
    };
    let early = temporary(path, id);
    let (parent, name) = removal::parent_of(path).map_err(HostError::io("open", above))?;
    let early_name = early.file_name().unwrap_or_default();
    rustix::fs::mkdirat(&parent, early_name, Mode::from_raw_mode(PRIVATE))
        .map_err(HostError::sys("create", &early))?;
    let inside = places::open_directory(&parent, early_name);
    let inside = inside.map_err(HostError::sys("open", &early))?;
    mark.write_in(&inside)
        .map_err(HostError::io("mark", &early))?;
    match renameat_with(&parent, early_name, &parent, name, RenameFlags::NOREPLACE) {
        // Some file systems cannot promise not to replace; we looked above.
        Err(Errno::INVAL) => renameat(&parent, early_name, &parent, name),
        other => other,
    }
    .map_err(HostError::sys("create", path))
}

/// Makes directories that only their owner may enter.
pub(crate) fn private(with_parents: bool) -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(with_parents).mode(PRIVATE);
    builder
}

/// Makes a directory and those above it; gives how many from `dir` upwards were made by us, now
/// or for a directory of ours that is still in `dir`.
fn make_parents(dir: &Path) -> io::Result<usize> {
    let absent = |dir: &&Path| !dir.exists();
    let made = dir.ancestors().take_while(absent).count();
    if made > 0 {
        private(true).create(dir)?;
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
        // Files of others keep it, and those above.
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

/// The same; what is absent since its file system is not mounted there now is not gone.
pub(crate) fn remove_of(path: &Path, file_system: &str, id: &str) -> Result<(), HostError> {
    let nearest = path.ancestors().find(|dir| dir.symlink_metadata().is_ok());
    let nearest = nearest.unwrap_or(Path::new("/"));
    let is_absent = [path, &temporary(path, id)].iter().all(|dir| !dir.exists());
    if is_absent && file_system_of(nearest).is_some_and(|there| there != file_system) {
        let path = path.display();
        return Err(HostError::State(format!(
            "{path} was made on another file system than is mounted there now; mount that one, then run plimsoll \
             raze; if it no longer exists: plimsoll raze --forget-node {path}"
        )));
    }
    remove(path, id)
}

/// The identity of the file system of a path, also when it is mounted again.
pub fn file_system_of(path: &Path) -> Option<String> {
    let known = rustix::fs::statvfs(path).ok()?.f_fsid;
    if known != 0 {
        return Some(format!("{known:x}"));
    }
    // Network file systems and those of programs have none.
    let device = rustix::fs::stat(path).ok()?.st_dev;
    Some(format!("device {device:x}"))
}

fn remove_one(path: &Path, early: &Path, id: &str) -> Result<(), HostError> {
    let (parent, name) = match removal::parent_of(path) {
        Err(error) if files::is_absent(&error) => return Ok(()),
        other => other.map_err(HostError::io("open the directory of", path))?,
    };
    let early_name = early.file_name().unwrap_or_default().to_owned();
    if let Some(inside) = open(&parent, &early_name, early)? {
        // Without a mark it is ours only as it was made: empty.
        if Mark::read_in(&inside).is_some_and(|mark| mark.id != id) {
            return Err(not_ours(early, id));
        }
        if Mark::read_in(&inside).is_none() {
            if Mark::is_begun_in(&inside) {
                let flags = rustix::fs::AtFlags::empty();
                rustix::fs::unlinkat(&inside, MARK_FILE, flags)
                    .map_err(HostError::sys("remove the mark of", early))?;
            }
            return match rustix::fs::unlinkat(&parent, &early_name, rustix::fs::AtFlags::REMOVEDIR)
            {
                Ok(()) | Err(Errno::NOENT) => remove_marked((path, name), &parent, &early_name, id),
                Err(Errno::NOTEMPTY | Errno::EXIST) => Err(not_ours(early, id)),
                Err(errno) => Err(HostError::sys("remove", early)(errno)),
            };
        }
        remove_tree(early, (&parent, &early_name), &inside)?;
    }
    remove_marked((path, name), &parent, &early_name, id)
}

/// Removes what lies at the path, if it carries our mark.
fn remove_marked(
    (path, name): (&Path, &OsStr),
    parent: &OwnedFd,
    early: &OsString,
    id: &str,
) -> Result<(), HostError> {
    let Some(inside) = open(parent, name, path)? else {
        return Ok(());
    };
    let mut mark = Mark::read_in(&inside);
    let is_named = name.to_string_lossy().contains(id);
    // A cluster that moves its files to a new node may show none for a moment.
    let clock = SystemClock::new();
    for _ in 0..MARK_READS {
        if mark.is_some() || !is_named {
            break;
        }
        // Another process removed the contents, our mark first. Only an empty directory of our name may go.
        match rustix::fs::unlinkat(parent, name, rustix::fs::AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(_) => clock.pause(MARK_PAUSE),
        }
        mark = Mark::read_in(&inside);
    }
    if mark.is_none_or(|mark| mark.id != id) {
        return Err(not_ours(path, id));
    }
    removal::check_no_mounts(path)?;
    renameat(parent, name, parent, early).map_err(HostError::sys("rename", path))?;
    remove_tree(&path.with_file_name(early), (parent, early), &inside)
}

fn remove_tree(
    dir: &Path,
    (parent, name): (&OwnedFd, &OsStr),
    inside: &OwnedFd,
) -> Result<(), HostError> {
    removal::check_no_mounts(dir)?;
    removal::tree(parent, name, inside, Some(MARK_FILE)).map_err(HostError::sys("remove", dir))
}

/// Opens a directory that is to be removed; `None` when it is not there.
fn open(parent: &OwnedFd, name: &OsStr, path: &Path) -> Result<Option<OwnedFd>, HostError> {
    match places::open_directory(parent, name) {
        Ok(inside) => Ok(Some(inside)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(refuse(path, "it is not a directory")),
        Err(errno) => Err(HostError::sys("open", path)(errno)),
    }
}

fn not_ours(path: &Path, id: &str) -> HostError {
    refuse(
        path,
        &format!(
            "its file {MARK_FILE} does not name {id}, so it is not ours; if you have removed what was in it, remove \
             the rest, then: plimsoll raze --forget-node {}",
            path.display()
        ),
    )
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

/// Whether a directory carries the mark of the journal `id`, and no other user can have put the mark or the
/// other contents there: the mark alone can be copied.
pub(crate) fn carries_our_mark(dir: &Path, id: &str) -> bool {
    trusted_mark(dir).is_some_and(|mark| mark.id == id)
}

/// The same with the mark of any journal.
pub(crate) fn is_ours_alone(dir: &Path) -> bool {
    trusted_mark(dir).is_some()
}

fn trusted_mark(dir: &Path) -> Option<Mark> {
    Mark::read_in(&places::hold(dir).ok().flatten()?)
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
    fn one_whose_maker_was_killed_before_it_had_written_the_mark_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("ours");
        let early = temporary(&dir, "a");
        fs::create_dir(&early).unwrap();
        fs::write(early.join(MARK_FILE), "").unwrap();
        remove(&dir, "a").unwrap();
        assert!(!early.exists());
        // Another file beside the mark stays, with the directory.
        fs::create_dir(&early).unwrap();
        fs::write(early.join(MARK_FILE), "").unwrap();
        fs::write(early.join("file"), "x").unwrap();
        assert!(matches!(remove(&dir, "a"), Err(HostError::Refused { .. })));
        assert!(early.join("file").exists());
    }

    #[test]
    fn only_their_owner_may_enter_what_is_made() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("above/ours");
        make(&dir, "a").unwrap();
        make(&dir.join("below"), "a").unwrap();
        for made in ["above", "above/ours", "above/ours/below"] {
            let mode = base.path().join(made).metadata().unwrap().permissions();
            assert_eq!(mode.mode() & 0o7777, 0o700, "{made}");
        }
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
        let early = temporary(&dir, "a");
        // Killed while making.
        fs::create_dir(&early).unwrap();
        remove(&dir, "a").unwrap();
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
        // Killed while removing.
        make(&dir, "a").unwrap();
        fs::write(dir.join("file"), "x").unwrap();
        fs::rename(&dir, &early).unwrap();
        remove(&dir, "a").unwrap();
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_has_our_temporary_name_and_not_our_mark_stays() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("ours");
        let early = temporary(&dir, "a");
        fs::create_dir(&early).unwrap();
        fs::write(early.join("thesis"), "x").unwrap();
        for mark in [None, Some("b\n")] {
            if let Some(mark) = mark {
                fs::write(early.join(MARK_FILE), mark).unwrap();
            }
            assert!(matches!(remove(&dir, "a"), Err(HostError::Refused { .. })));
            assert!(early.join("thesis").exists());
        }
    }

    #[test]
    fn what_lost_its_mark_goes_when_it_is_empty_and_else_says_the_way() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("plimsoll-run-1");
        make(&dir, "run-1").unwrap();
        fs::write(dir.join("file"), "x").unwrap();
        fs::remove_file(dir.join(MARK_FILE)).unwrap();
        let error = remove(&dir, "run-1").unwrap_err().to_string();
        assert!(error.contains("raze --forget-node"), "{error}");
        assert_eq!(error.lines().count(), 1);
        assert!(dir.join("file").exists());
        fs::remove_file(dir.join("file")).unwrap();
        // The name is ours by our identifier alone.
        assert!(remove(&dir, "run-2").is_err());
        remove(&dir, "run-1").unwrap();
        assert!(!dir.exists());
    }

    #[test]
    fn what_is_out_of_reach_is_not_gone() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("ours");
        let here = file_system_of(base.path()).unwrap();
        let error = remove_of(&dir, "another", "a").unwrap_err().to_string();
        assert!(error.contains("raze --forget-node"), "{error}");
        remove_of(&dir, &here, "a").unwrap();
        // The directory is ours by its mark, however its file system is called now.
        make(&dir, "a").unwrap();
        remove_of(&dir, "another", "a").unwrap();
        assert!(!dir.exists());
    }

    #[test]
    fn a_mark_behind_a_link_is_none() {
        let base = tempfile::tempdir().unwrap();
        let (dir, theirs) = (base.path().join("ours"), base.path().join("theirs"));
        make(&dir, "a").unwrap();
        fs::create_dir(&theirs).unwrap();
        std::os::unix::fs::symlink(dir.join(MARK_FILE), theirs.join(MARK_FILE)).unwrap();
        assert!(matches!(
            remove(&theirs, "a"),
            Err(HostError::Refused { .. })
        ));
        std::os::unix::fs::symlink(&dir, base.path().join("link")).unwrap();
        let link = base.path().join("link");
        assert!(matches!(remove(&link, "a"), Err(HostError::Refused { .. })));
        assert!(!carries_mark(&link, "a") && carries_mark(&dir, "a"));
    }

    #[test]
    fn what_root_makes_lies_in_no_place_of_others() {
        use std::os::unix::fs::{MetadataExt, chown};
        let base = tempfile::tempdir().unwrap();
        let theirs = base.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        make(&theirs.join("ours"), "a").unwrap();
        assert_eq!(
            theirs.join("ours").metadata().unwrap().mode() & 0o777,
            0o700
        );
        if chown(&theirs, Some(12_345), None).is_err() {
            println!("SKIPPED: only root can give a directory away");
            return;
        }
        let error = make(&theirs.join("more"), "a").unwrap_err().to_string();
        assert!(error.contains("belongs to user 12345"), "{error}");
        assert!(!carries_our_mark(&theirs.join("ours"), "a"));
        // Directories made before go all the same.
        remove(&theirs.join("ours"), "a").unwrap();
        assert_eq!(fs::read_dir(&theirs).unwrap().count(), 0);
    }
}
