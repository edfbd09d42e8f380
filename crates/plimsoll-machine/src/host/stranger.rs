// SPDX-License-Identifier: Apache-2.0
//! The gains of another user of this machine from a stack, found out as he would: by a thread that is
//! that user, without any right or secret.
//!
//! Invariants: nothing is changed, neither on the machine nor on what is served; every wait is bounded.
//! Only the thread becomes another user (the kernel's ids are a thread's own), and it ends afterwards.

mod protocols;
mod ways;

use plimsoll_core::plan::StackSelfTest;
use plimsoll_nfs::{NfsAddress, NfsMount};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::error::HostError;
use super::{command, loops, mounts, ports, processes};

/// The user `nobody`, who owns nothing.
const NOBODY: u32 = 65_534;

/// The possible gains of a stranger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrangerReport {
    /// His gains, each completing "another user could …".
    pub gained: Vec<String>,
    /// Listeners that were not tried, since their protocol is not known here.
    pub unknown: Vec<String>,
    /// Directories and disks that he tried to look into.
    pub places: usize,
    /// Addresses at which he asked.
    pub doors: usize,
    /// Other ways to them that he tried: sockets bound to an interface.
    pub ways: usize,
}

/// A listening socket of a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Door {
    at: SocketAddr,
    program: String,
}

/// The answer at a door.
enum DoorAnswer {
    Refused,
    Gained(String),
    Unknown(String),
}

/// Tries the accesses that [`StackSelfTest::Closed`] rules out; for other self-tests the report is empty.
pub(super) fn look(proof: &StackSelfTest) -> Result<StrangerReport, HostError> {
    let StackSelfTest::Closed {
        dirs,
        marks,
        addresses,
        exports,
        ..
    } = proof
    else {
        return Ok(StrangerReport::default());
    };
    let doors = doors(marks, addresses);
    let disks = disks(dirs);
    let mut report = StrangerReport {
        places: dirs.len() + disks.len(),
        doors: doors.len() + exports.len(),
        ..StrangerReport::default()
    };
    let (dirs, exports) = (dirs.clone(), exports.clone());
    let tried = std::thread::spawn(move || {
        if rustix::process::geteuid().is_root() {
            become_nobody()?;
            let (mut gained, unknown) = tries(&dirs, &disks, &doors, &exports);
            let ways = ways::past_routing(doors.iter().map(|door| door.at));
            gained.extend(ways::open_of(&ways));
            return Ok::<_, HostError>((gained, unknown, ways.len()));
        }
        // Who cannot become another user looks at what he has forbidden others, and knocks himself.
        let (mut gained, unknown) = tries(&[], &[], &doors, &exports);
        gained.extend(
            dirs.iter()
                .filter(|dir| is_open(dir))
                .map(|dir| format!("enter {dir}")),
        );
        Ok((gained, unknown, 0))
    });
    let (gained, unknown, ways) = match tried.join() {
        Ok(tried) => tried?,
        Err(_) => {
            return Err(HostError::State(
                "the check as another user was aborted".into(),
            ));
        }
    };
    report.gained.extend(gained);
    report.unknown = unknown;
    report.ways = ways;
    Ok(report)
}

/// Makes this thread the user `nobody`, for good.
fn become_nobody() -> Result<(), HostError> {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    set_thread_groups(&[])
        .and_then(|()| set_thread_res_gid(group, group, group))
        // Last: with it go all rights.
        .and_then(|()| set_thread_res_uid(user, user, user))
        .map_err(HostError::sys("become another user", Path::new("nobody")))
}

/// Whether others than its owner have any right to a directory.
fn is_open(dir: &str) -> bool {
    fs::metadata(dir).is_ok_and(|data| data.permissions().mode() & 0o077 != 0)
}

/// Everything, as the user that this thread is: what he gained, and what was not asked.
fn tries(
    dirs: &[String],
    disks: &[PathBuf],
    doors: &[Door],
    exports: &[String],
) -> (Vec<String>, Vec<String>) {
    let (mut gained, mut unknown) = (Vec::new(), Vec::new());
    for dir in dirs {
        if fs::read_dir(dir).is_ok() {
            gained.push(format!("list {dir}"));
        } else if Path::new(dir)
            .join(super::MARK_FILE)
            .symlink_metadata()
            .is_ok()
        {
            gained.push(format!("enter {dir}"));
        }
    }
    for disk in disks {
        if File::open(disk).is_ok() {
            gained.push(format!("read {}", disk.display()));
        }
    }
    let exports = exports.iter().map(|address| nfs(address));
    for answered in doors.iter().map(Door::knock).chain(exports) {
        match answered {
            DoorAnswer::Refused => {}
            DoorAnswer::Gained(what) => gained.push(what),
            DoorAnswer::Unknown(what) => unknown.push(what),
        }
    }
    (gained, unknown)
}

/// Devices of what is mounted below the directories, and loop devices of files in them.
fn disks(dirs: &[String]) -> Vec<PathBuf> {
    let is_below = |path: &Path| dirs.iter().any(|dir| path.starts_with(dir));
    let mounted = mounts::mounts().unwrap_or_default();
    let mounted = mounted.into_iter().filter(|mount| is_below(&mount.point));
    let sources = mounted.map(|mount| PathBuf::from(mount.source));
    // FUSE mounts name /dev/fuse as their source, which everyone may open and which holds no data.
    let devices = sources.filter(|source| holds_data(source));
    let loops = loops::all().unwrap_or_default().into_iter();
    let loops = loops
        .filter(|(_, file)| is_below(file))
        .map(|(device, _)| device);
    let all: BTreeSet<PathBuf> = devices.chain(loops).collect();
    all.into_iter().collect()
}

/// Whether a path is a block device.
fn holds_data(source: &Path) -> bool {
    fs::metadata(source).is_ok_and(|data| data.file_type().is_block_device())
}

/// Where the processes of these marks listen. One that listens at every address of its network is asked
/// at those that its nodes have.
fn doors(marks: &[String], addresses: &[String]) -> Vec<Door> {
    let mut doors = BTreeSet::new();
    for pid in marks.iter().flat_map(|mark| processes::marked(mark)) {
        let program = command::name_of(pid);
        for (address, port) in ports::listening(pid) {
            let given = addresses.iter().filter_map(|address| address.parse().ok());
            let all: Vec<IpAddr> = match address.is_unspecified() {
                true => given.chain([Ipv4Addr::LOCALHOST.into()]).collect(),
                false => vec![address],
            };
            doors.extend(all.into_iter().map(|address| Door {
                at: SocketAddr::new(address, port),
                program: program.clone(),
            }));
        }
    }
    doors.into_iter().collect()
}

impl Door {
    /// Asks for what is served there, in the protocol of the program.
    fn knock(&self) -> DoorAnswer {
        let answered = match self.program.as_str() {
            "nbdkit" | "qemu-storage-da" => protocols::nbd(self.at),
            "tgtd" => protocols::iscsi(self.at),
            name if name.starts_with("gluster") => protocols::gluster(self.at),
            name if name.starts_with("ganesha") => return self.ganesha(),
            // They give no secret away and accept no changes: the first two list ports and exports, and
            // Ceph's daemons ask for a key.
            "rpcbind" | "rpc.mountd" => Ok(None),
            name if name.starts_with("ceph-") => Ok(None),
            name => {
                return DoorAnswer::Unknown(format!("what {name} serves at {}", self.at));
            }
        };
        match answered {
            // Without a connection or an answer there is no access.
            Err(_) | Ok(None) => DoorAnswer::Refused,
            Ok(Some(what)) => DoorAnswer::Gained(format!("{what} at {}", self.at)),
        }
    }

    /// The server has several ports, of which one is that of NFS.
    fn ganesha(&self) -> DoorAnswer {
        const NFS: u16 = 2049;
        match self.at.port() {
            NFS => nfs(&format!(
                "nfs://{}/export?mountport={}",
                self.at.ip(),
                super::ports::MOUNT_PORT
            )),
            _ => DoorAnswer::Refused,
        }
    }
}

/// Mounts an export as a client that claims to be root, and looks at what is in it.
fn nfs(address: &str) -> DoorAnswer {
    let Ok(mut wanted) = address.parse::<NfsAddress>() else {
        return DoorAnswer::Unknown(format!("what is served at {address}"));
    };
    wanted.ids = Some((0, 0));
    let listed = NfsMount::mount(&wanted).and_then(|share| share.session()?.list(&share.root()));
    match listed {
        Ok(_) => DoorAnswer::Gained(format!("read and write {address} as root")),
        Err(_) => DoorAnswer::Refused,
    }
}

#[cfg(test)]
mod tests;
