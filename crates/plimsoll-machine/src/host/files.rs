// SPDX-License-Identifier: Apache-2.0
//! Files we make, known again without trusting their name.
//!
//! In a directory that carries our mark every file is ours. Elsewhere a made file has a twin: a
//! second name of the same file, hidden beside it and holding the identifier of the journal. The
//! twin comes first and goes last, so whatever lies at the path is ours only if it is the twin's
//! file: what appeared there before, meanwhile or afterwards is never touched.

use std::fmt::Write as _;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::error::HostError;
use super::{dirs, places};

/// Most bytes of a file that is copied to a node: keys and certificates have some thousand.
const SMALL_BYTES: u64 = 64 << 10;

/// Creates a sparse file of `bytes` bytes at `path`, where nothing may be: no link either, even
/// if it leads nowhere.
pub(crate) fn make(path: &Path, bytes: u64, id: &str) -> Result<(), HostError> {
    if path.symlink_metadata().is_ok() {
        return Err(exists(path));
    }
    if lies_in_ours(path, id) {
        return create(path, bytes);
    }
    if rustix::process::geteuid().is_root() {
        places::check_way(path.parent().unwrap_or(Path::new("/")))?;
    }
    let twin = dirs::temporary(path, id);
    create(&twin, bytes)?;
    // A link never replaces: it fails when something appeared at the path since we looked.
    match fs::hard_link(&twin, path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(exists(path)),
        Err(source) => Err(HostError::Io {
            what: format!(
                "link {} to {} (the file system must know hard links; if it does not, choose \
                 another place)",
                path.display(),
                twin.display()
            ),
            source,
        }),
    }
}

/// Writes a text file into a directory of the journal `id`, readable by its owner alone; the line
/// in the file `secret` takes the place of every `{secret}`.
pub(crate) fn write(
    path: &Path,
    text: &str,
    secret: Option<&Path>,
    id: &str,
) -> Result<(), HostError> {
    let text = match secret {
        None => text.to_owned(),
        Some(file) => {
            let line = fs::read_to_string(file).map_err(HostError::io("read", file))?;
            text.replace("{secret}", line.trim_end())
        }
    };
    private(path, text.as_bytes(), id)
}

/// Makes a file of one line of random digits in a directory of the journal `id`.
pub(crate) fn make_secret(path: &Path, id: &str) -> Result<(), HostError> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0_u8; 16];
    File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(HostError::io("read", source))?;
    let mut line = String::new();
    for byte in bytes {
        let _ = write!(line, "{byte:02x}");
    }
    line.push('\n');
    private(path, line.as_bytes(), id)
}

/// The text of a small file in a directory of ours, which may be that of another journal: a run takes the
/// certificates of a stack to its clients.
pub(crate) fn read_ours(path: &Path) -> Result<String, HostError> {
    if !path.parent().is_some_and(dirs::is_ours_alone) {
        return Err(HostError::Refused {
            what: format!("copy {}", path.display()),
            why: "it is not in a directory of ours".into(),
        });
    }
    let file = File::open(path).map_err(HostError::io("open", path))?;
    let mut text = String::new();
    file.take(SMALL_BYTES)
        .read_to_string(&mut text)
        .map_err(HostError::io("read", path))?;
    Ok(text)
}

fn private(path: &Path, bytes: &[u8], id: &str) -> Result<(), HostError> {
    if !lies_in_ours_alone(path, id) {
        return Err(HostError::Refused {
            what: format!("write {}", path.display()),
            why: "it would not lie in a directory of ours".into(),
        });
    }
    let mut options = File::options();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(HostError::io("create", path))?;
    // Machines lose their power here on purpose, and need it afterwards.
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(HostError::io("write", path))
}

/// Removes the file at `path` if it is the one that [`make`] made for the journal `id`, or lies
/// in a directory of that journal; anything else there stays. Fine when absent.
pub(crate) fn remove(path: &Path, id: &str) -> Result<(), HostError> {
    if lies_in_ours(path, id) {
        return unlink(path);
    }
    let twin = dirs::temporary(path, id);
    let Some(ours) = look(&twin)? else {
        return Ok(());
    };
    let is_ours = |data: Metadata| (data.dev(), data.ino()) == (ours.dev(), ours.ino());
    if look(path)?.is_some_and(is_ours) {
        unlink(path)?;
    }
    unlink(&twin)
}

fn create(path: &Path, bytes: u64) -> Result<(), HostError> {
    let mut options = File::options();
    // Images of disks hold what users keep on them: they are for their owner alone.
    let options = options.write(true).create_new(true).mode(0o600);
    let file = options.open(path).map_err(HostError::io("create", path))?;
    file.set_len(bytes).map_err(HostError::io("size", path))
}

/// Whether a file lies in a directory of the journal `id`.
fn lies_in_ours(path: &Path, id: &str) -> bool {
    path.parent().is_some_and(|dir| dirs::carries_mark(dir, id))
}

/// The same, in a directory that no other user can have filled: the file may be run.
pub(crate) fn lies_in_ours_alone(path: &Path, id: &str) -> bool {
    let dir = path.parent();
    dir.is_some_and(|dir| dirs::carries_our_mark(dir, id))
}

/// The entry at a path itself, not the file that a link leads to.
fn look(path: &Path) -> Result<Option<Metadata>, HostError> {
    match path.symlink_metadata() {
        Ok(data) => Ok(Some(data)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(HostError::io("look at", path)(error)),
    }
}

fn unlink(path: &Path) -> Result<(), HostError> {
    match fs::remove_file(path) {
        Err(error) if !is_absent(&error) => Err(HostError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Whether there is nothing of this name, also since what is above it is no directory.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn exists(path: &Path) -> HostError {
    HostError::State(format!(
        "{} exists already; remove it or choose another place",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn entries(dir: &Path) -> usize {
        fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn a_secret_stands_only_in_files_of_its_owner() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("ours");
        dirs::make(&dir, "a").unwrap();
        let (secret, file) = (dir.join("secret"), dir.join("file"));
        make_secret(&secret, "a").unwrap();
        write(&file, "password={secret}\n", Some(&secret), "a").unwrap();
        let line = fs::read_to_string(&secret).unwrap();
        assert_eq!(line.trim_end().len(), 32);
        assert_eq!(
            fs::read_to_string(&file).unwrap(),
            format!("password={line}")
        );
        for path in [&secret, &file] {
            assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        }
        assert!(write(&file, "again", None, "a").is_err());
        assert!(write(&base.path().join("x"), "theirs", None, "a").is_err());
    }

    #[test]
    fn a_made_file_goes_with_its_twin_however_often_it_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("file");
        make(&path, 4096, "a").unwrap();
        assert_eq!(path.metadata().unwrap().len(), 4096);
        assert!(make(&path, 1, "b").is_err());
        // Used as the load does: written through the path, emptied, written again.
        fs::write(&path, "data").unwrap();
        remove(&path, "b").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
        for _ in 0..2 {
            remove(&path, "a").unwrap();
            assert_eq!(entries(base.path()), 0);
        }
    }

    #[test]
    fn what_a_kill_between_any_two_steps_leaves_is_removed() {
        for linked in [false, true] {
            let base = tempfile::tempdir().unwrap();
            let path = base.path().join("file");
            let twin = dirs::temporary(&path, "a");
            fs::write(&twin, "").unwrap();
            if linked {
                fs::hard_link(&twin, &path).unwrap();
            }
            remove(&path, "a").unwrap();
            assert_eq!(entries(base.path()), 0, "linked: {linked}");
        }
    }

    #[test]
    fn what_lies_at_the_path_already_is_neither_followed_nor_removed() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("file");
        // A link to nowhere: not there for those who follow it.
        symlink(base.path().join("nowhere"), &path).unwrap();
        let error = make(&path, 1, "a").unwrap_err().to_string();
        assert!(error.contains("exists already"), "{error}");
        remove(&path, "a").unwrap();
        assert!(path.is_symlink() && entries(base.path()) == 1);
    }

    #[test]
    fn what_somebody_put_in_place_of_ours_stays() {
        for put in [
            |path: &Path| fs::write(path, "theirs"),
            |path: &Path| symlink("/nowhere", path),
        ] {
            let base = tempfile::tempdir().unwrap();
            let path = base.path().join("file");
            make(&path, 1, "a").unwrap();
            fs::remove_file(&path).unwrap();
            put(&path).unwrap();
            // Also when it is undone again, without the twin.
            for _ in 0..2 {
                remove(&path, "a").unwrap();
                assert!(path.symlink_metadata().is_ok());
                assert_eq!(entries(base.path()), 1);
            }
        }
    }

    #[test]
    fn in_a_marked_directory_every_file_is_ours() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("ours");
        dirs::make(&dir, "a").unwrap();
        let (made, image) = (dir.join("made"), dir.join("image"));
        make(&made, 1, "a").unwrap();
        // No twin is needed here: the mark and the file.
        assert_eq!(entries(&dir), 2);
        fs::write(&image, "").unwrap();
        remove(&image, "b").unwrap();
        assert!(image.exists());
        for path in [made, image] {
            remove(&path, "a").unwrap();
            assert!(!path.exists());
        }
    }
}
