// SPDX-License-Identifier: Apache-2.0
//! Whether a place is ours to work in: whether only root and we can change what lies there, or where the way
//! to it leads.
//!
//! A user who may rename a directory on the way, or put a link there, chooses the file that we write to. So
//! every component from the root on belongs to root or to us, and others may write to none of them, by mode
//! or by access control list, unless it is sticky (as `/tmp` is), where users cannot rename each other's
//! files. Links on the way are followed if they lie in such places and belong to root or to us.

use super::acl::{self, AclWriter};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// As many links on one way as the kernel itself follows.
const LINKS_MAX: usize = 40;

/// Bits of a mode.
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;

/// A place that is not ours to work in, or could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Others could change what lies there.
    #[error("{} is not safe to work in: {} {why}", path.display(), at.display())]
    Foreign {
        /// The place.
        path: PathBuf,
        /// The part of the path that is not ours.
        at: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// The system said no.
    #[error("could not look at {}: {source}", path.display())]
    Io {
        /// At what.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl PlaceError {
    fn io(path: &Path) -> impl FnOnce(Errno) -> PlaceError {
        move |errno| PlaceError::Io {
            path: path.into(),
            source: errno.into(),
        }
    }
}

impl From<PlaceError> for io::Error {
    fn from(error: PlaceError) -> io::Error {
        match error {
            PlaceError::Io { path, source } => {
                let kind = source.kind();
                io::Error::new(
                    kind,
                    format!("could not look at {}: {source}", path.display()),
                )
            }
            foreign @ PlaceError::Foreign { .. } => {
                io::Error::new(io::ErrorKind::PermissionDenied, foreign)
            }
        }
    }
}

/// Checks the way to `path`, and `path` itself as far as it exists: what is made there is made where it
/// was asked for, and stays there.
///
/// # Errors
/// When another user than root and us could change the way.
pub fn check_way(path: &Path) -> Result<(), PlaceError> {
    HostPathWalker::to(path, false).map(drop)
}

/// Opens a directory that is ours alone, in a place that passes [`check_way`]: it is no link, belongs to us
/// or root, and no other user may write to it. `None` when it is not there.
///
/// # Errors
/// When another user could change it.
pub(crate) fn hold(path: &Path) -> Result<Option<OwnedFd>, PlaceError> {
    let walk = HostPathWalker::to(path, true)?;
    if !walk.rest.is_empty() {
        return Ok(None);
    }
    let found = rustix::fs::fstat(&walk.open).map_err(PlaceError::io(path))?;
    if kind(&found) != FileType::Directory {
        return Err(walk.foreign("is not a directory"));
    }
    if found.st_mode & STICKY != 0 {
        // On the way that is enough; here others could put things of their own.
        walk.check_writers(&found)?;
    }
    open_directory(&walk.open, ".")
        .map(Some)
        .map_err(PlaceError::io(path))
}

/// The same; what is missing of it is made first, with this mode whatever the umask (which can take
/// more away).
///
/// # Errors
/// As [`hold`], and when it cannot be made.
pub(crate) fn hold_made(path: &Path, mode: u32) -> Result<OwnedFd, PlaceError> {
    let walk = HostPathWalker::to(path, true)?;
    let mut open = walk.open;
    for name in &walk.rest {
        match rustix::fs::mkdirat(&open, name, Mode::from_raw_mode(mode)) {
            // Another plimsoll made it a moment ago; who did is looked at below.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(PlaceError::io(path)(errno)),
        }
        let below = rustix::fs::openat(&open, name, look_flags(), Mode::empty());
        open = below.map_err(PlaceError::io(path))?;
    }
    let missing = || PlaceError::io(path)(Errno::NOENT);
    hold(path)?.ok_or_else(missing)
}

/// Opens a directory for reading, without following a link.
pub(crate) fn open_directory(at: &OwnedFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// Whether only root and we can have written what this is: for files that lie in a place that was checked.
pub(crate) fn is_ours(found: &Stat) -> bool {
    is_trusted(found.st_uid) && found.st_mode & (OTHERS_WRITE | GROUP_WRITES) == 0
}

pub(crate) fn kind(found: &Stat) -> FileType {
    FileType::from_raw_mode(found.st_mode)
}

fn look_flags() -> OFlags {
    OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// A way that was gone from the root on, as far as it exists.
struct HostPathWalker {
    path: PathBuf,
    /// Where it has come to.
    at: PathBuf,
    open: OwnedFd,
    /// The rest of the path, which does not exist.
    rest: VecDeque<OsString>,
}

impl HostPathWalker {
    /// Goes the way to `path`; `is_real` when its last part must not be a link.
    fn to(path: &Path, is_real: bool) -> Result<HostPathWalker, PlaceError> {
        let whole = std::path::absolute(path).map_err(|source| PlaceError::Io {
            path: path.into(),
            source,
        })?;
        let root = rustix::fs::openat(CWD, "/", look_flags(), Mode::empty());
        let mut walk = HostPathWalker {
            path: path.into(),
            at: "/".into(),
            open: root.map_err(PlaceError::io(Path::new("/")))?,
            rest: VecDeque::new(),
        };
        walk.check()?;
        let mut left = parts(&whole);
        let mut links = 0;
        while let Some(name) = left.pop_front() {
            let below = match rustix::fs::openat(&walk.open, &name, look_flags(), Mode::empty()) {
                Ok(below) => below,
                Err(Errno::NOENT) => {
                    left.push_front(name);
                    walk.rest = left;
                    return Ok(walk);
                }
                Err(errno) => return Err(PlaceError::io(&walk.at.join(&name))(errno)),
            };
            let found = rustix::fs::fstat(&below).map_err(PlaceError::io(&walk.at))?;
            if kind(&found) != FileType::Symlink {
                (walk.open, walk.at) = match name.as_bytes() {
                    b".." => (below, walk.at.parent().unwrap_or(&walk.at).to_path_buf()),
                    _ => (below, walk.at.join(&name)),
                };
                walk.check()?;
                continue;
            }
            links += 1;
            let at = std::mem::replace(&mut walk.at, PathBuf::new());
            walk.at = at.join(&name);
            if (is_real && left.is_empty()) || !is_trusted(found.st_uid) {
                return Err(walk.foreign("is a link; name where it leads to"));
            }
            if links > LINKS_MAX {
                return Err(PlaceError::io(&walk.at)(Errno::LOOP));
            }
            walk.at = at;
            let target = rustix::fs::readlinkat(&below, "", Vec::new());
            let target = target.map_err(PlaceError::io(&walk.at))?.into_bytes();
            let target = PathBuf::from(OsString::from_vec(target));
            for part in parts(&target).into_iter().rev() {
                left.push_front(part);
            }
            if target.is_absolute() {
                let root = rustix::fs::openat(CWD, "/", look_flags(), Mode::empty());
                walk.open = root.map_err(PlaceError::io(Path::new("/")))?;
                walk.at = "/".into();
            }
        }
        Ok(walk)
    }

    /// Checks what the way has come to.
    fn check(&self) -> Result<(), PlaceError> {
        let found = rustix::fs::fstat(&self.open).map_err(PlaceError::io(&self.at))?;
        if !is_trusted(found.st_uid) {
            let (theirs, ours) = (found.st_uid, rustix::process::geteuid().as_raw());
            return Err(self.foreign(&format!(
                "belongs to user {theirs}, who could lead this program (user {ours}) elsewhere; use a directory \
                 of your own, or run plimsoll as that user"
            )));
        }
        let is_sticky = kind(&found) == FileType::Directory && found.st_mode & STICKY != 0;
        if is_sticky {
            Ok(())
        } else {
            self.check_writers(&found)
        }
    }

    fn check_writers(&self, found: &Stat) -> Result<(), PlaceError> {
        let is_private = |gid| is_private_group(gid, found.st_uid);
        let by_others = found.st_mode & OTHERS_WRITE != 0;
        let at = self.at.display();
        // With a list, the group's bits of the mode are the mask of that list.
        let writers = acl::writers(&self.open).map_err(PlaceError::io(&self.at))?;
        let (by_group, remedy) = match writers {
            None => {
                let writes = found.st_mode & GROUP_WRITES != 0;
                let by_group = writes && !is_private(found.st_gid);
                (by_group, format!("chmod go-w {at}"))
            }
            Some(writers) => {
                let is_other = |writer: &AclWriter| match *writer {
                    AclWriter::User(uid) => !is_trusted(uid) && uid != found.st_uid,
                    AclWriter::Group(gid) => !is_private(gid),
                    AclWriter::OwnGroup => !is_private(found.st_gid),
                    AclWriter::Unknown => true,
                };
                (writers.iter().any(is_other), format!("setfacl -b {at}"))
            }
        };
        if by_others || by_group {
            return Err(self.foreign(&format!(
                "can be written by other users; use a directory of your own, or: {remedy}"
            )));
        }
        Ok(())
    }

    fn foreign(&self, why: &str) -> PlaceError {
        PlaceError::Foreign {
            path: self.path.clone(),
            at: self.at.clone(),
            why: why.into(),
        }
    }
}

/// The names in a path, and steps up.
fn parts(path: &Path) -> VecDeque<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

/// Whether this is the number of root, of our user, or of users from outside this user namespace.
fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw() || is_from_outside(uid)
}

/// Whether this is the number that stands for all users whom this user namespace does not know: its makers
/// own what is above it, and no process in it can be one of them.
fn is_from_outside(uid: u32) -> bool {
    let read = |name: &str| fs::read_to_string(name).unwrap_or_default();
    if read("/proc/sys/kernel/overflowuid").trim().parse() != Ok(uid) {
        return false;
    }
    let map = read("/proc/self/uid_map");
    let is_known = map.lines().any(|line| {
        let fields: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
        matches!(fields[..], [first, _, count] if (first..first + count).contains(&uid.into()))
    });
    !map.is_empty() && !is_known
}

/// Whether a group has no other member than this user, as the groups have that some systems make for
/// each user together with a umask that lets the group write.
fn is_private_group(gid: u32, uid: u32) -> bool {
    let read = |name: &str| fs::read_to_string(name).unwrap_or_default();
    is_private_in(&read("/etc/group"), &read("/etc/passwd"), (gid, uid))
}

fn is_private_in(groups: &str, users: &str, (gid, uid): (u32, u32)) -> bool {
    let is_user = |name: &str| {
        let mut of_name = users
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>());
        of_name.any(|user| user[0] == name && user.get(2).is_some_and(|id| id.parse() == Ok(uid)))
    };
    // name:password:number:members
    let group = groups
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    let mut group = group.filter(|group| group.get(2).is_some_and(|id| id.parse() == Ok(gid)));
    let members = group.next().and_then(|group| group.get(3).copied());
    let Some(members) = members else {
        return false;
    };
    // name:password:number:group
    let is_other = |line: &str| {
        let user: Vec<&str> = line.split(':').collect();
        let number = |at: usize| user.get(at).and_then(|text| text.parse::<u32>().ok());
        number(3) == Some(gid) && number(2).is_some_and(|user| user != uid && user != 0)
    };
    let members = members.split(',').filter(|name| !name.is_empty());
    members
        .into_iter()
        .all(|name| name == "root" || is_user(name))
        && !users.lines().any(is_other)
}

/// The entry of this name in a held directory, not the file that a link leads to.
pub(crate) fn look(at: &OwnedFd, name: impl rustix::path::Arg) -> Result<Stat, Errno> {
    rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_can_write_or_rename_is_not_ours() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("above/ours");
        fs::create_dir_all(&dir).unwrap();
        chmod(&dir, 0o755);
        chmod(dir.parent().unwrap(), 0o755);
        assert!(hold(&dir).unwrap().is_some());
        assert!(hold(&dir.join("missing/deep")).unwrap().is_none());
        for (above, own, is_held, is_way) in [
            (0o755, 0o757, false, false),
            // Sticky is enough for what is on the way.
            (0o1777, 0o700, true, true),
            (0o755, 0o1777, false, true),
            (0o777, 0o700, false, false),
        ] {
            chmod(dir.parent().unwrap(), above);
            chmod(&dir, own);
            assert_eq!(hold(&dir).is_ok(), is_held, "{above:o} {own:o}");
            assert_eq!(
                check_way(&dir.join("new")).is_ok(),
                is_way,
                "{above:o} {own:o}"
            );
        }
        let error = hold(&dir).unwrap_err().to_string();
        assert!(
            error.contains("above can be written by other users"),
            "{error}"
        );
    }

    /// As `setfacl -m u:65534:rwx` makes it, of which the mode only shows the mask.
    #[test]
    fn what_an_access_control_list_lets_others_write_is_not_ours() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("shared");
        fs::create_dir(&dir).unwrap();
        chmod(&dir, 0o755);
        let entry = |tag: u16, allows: u16, number: u32| {
            let halves = [tag.to_le_bytes(), allows.to_le_bytes()].concat();
            [halves, number.to_le_bytes().to_vec()].concat()
        };
        for (allows, is_held) in [(7, false), (5, true)] {
            let list = [
                2u32.to_le_bytes().to_vec(),
                entry(0x01, 7, u32::MAX),
                entry(0x02, allows, 65_534),
                entry(0x04, 5, u32::MAX),
                entry(0x10, 7, u32::MAX),
                entry(0x20, 5, u32::MAX),
            ];
            let flags = rustix::fs::XattrFlags::empty();
            let set = rustix::fs::setxattr(&dir, "system.posix_acl_access", &list.concat(), flags);
            if set == Err(Errno::NOTSUP) {
                println!("SKIPPED: no access control lists here");
                return;
            }
            set.unwrap();
            assert_eq!(hold(&dir).is_ok(), is_held, "{allows}");
            assert_eq!(check_way(&dir.join("new")).is_ok(), is_held, "{allows}");
        }
    }

    #[test]
    fn links_are_followed_on_the_way_and_not_at_its_end() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("ours");
        fs::create_dir(&dir).unwrap();
        fs::create_dir(dir.join("deep")).unwrap();
        symlink("ours", base.path().join("link")).unwrap();
        symlink(&dir, base.path().join("whole")).unwrap();
        for name in ["link", "whole"] {
            let link = base.path().join(name);
            assert!(hold(&link).is_err(), "{name}");
            assert!(hold(&link.join("deep")).unwrap().is_some(), "{name}");
            assert!(check_way(&link.join("../ours/deep/new")).is_ok(), "{name}");
        }
        symlink("round", base.path().join("round")).unwrap();
        assert!(check_way(&base.path().join("round/x")).is_err());
        // The file behind a link is looked at like all others.
        chmod(&dir, 0o777);
        assert!(check_way(&base.path().join("link/deep")).is_err());
    }

    #[test]
    fn what_belongs_to_another_user_is_not_ours() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("theirs");
        fs::create_dir_all(dir.join("ours")).unwrap();
        if std::os::unix::fs::chown(&dir, Some(12_345), None).is_err() {
            println!("SKIPPED: only root can give a directory away");
            return;
        }
        for path in [dir.clone(), dir.join("ours"), dir.join("missing")] {
            let error = hold(&path).unwrap_err().to_string();
            assert!(error.contains("belongs to user 12345"), "{error}");
            assert!(check_way(&path).is_err());
        }
        symlink("ours", dir.join("link")).unwrap();
        assert!(check_way(&dir.join("link")).is_err());
    }

    #[test]
    fn a_group_of_one_may_write() {
        let groups = "root:x:0:\nanna:x:1000:anna\nlab:x:50:anna,ben\nleft:x:60:gone\n";
        let users = "root:x:0:0:root\nanna:x:1000:1000::\nben:x:1001:1001::\ncara:x:1002:70::\n";
        for (gid, uid, expect) in [
            (0, 0, true),
            (1000, 1000, true),
            (1000, 1001, false),
            (50, 1000, false),
            (60, 1000, false),
            (70, 1000, false),
        ] {
            assert_eq!(
                is_private_in(groups, users, (gid, uid)),
                expect,
                "{gid} {uid}"
            );
        }
    }

    #[test]
    fn missing_directories_are_made_for_their_owner() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a/b");
        hold_made(&dir, 0o700).unwrap();
        for dir in [&dir, dir.parent().unwrap()] {
            assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
        hold_made(&dir, 0o755).unwrap();
    }
}
