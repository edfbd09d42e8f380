// SPDX-License-Identifier: Apache-2.0
//! Disks that somebody else serves, attached to this machine as block devices.
//!
//! The client is in user space, the same chain as below the stacks `iscsi` and `nbd`, so that no
//! kernel module is needed. Attaching changes nothing on the disk: it reads what every client does.
//! Manual: `docs/stacks/attach.md`.

mod address;

pub use address::{Address, AddressError, Iscsi, Kind, Server};

use plimsoll_core::plan::{Action, Arg, Plan};
use std::fmt::Write as _;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use crate::host::{Host, HostError, loops};
use crate::stacks::node::chain::{self, Chain};
use crate::stacks::{Needs, Unmet};

/// How long operations wait for a server that is gone, in seconds, before they fail.
const FAIL_AFTER_S: u32 = 30;

/// Longest time to reach a server at first, in seconds.
const OPEN_TIMEOUT_S: u32 = 10;

/// What this machine needs to attach it.
#[must_use]
pub fn needs(address: &Address) -> Needs {
    let modules = match address.kind {
        Kind::Iscsi(_) => vec!["block-iscsi.so"],
        Kind::Nbd { .. } => vec![],
    };
    chain::needs().and(Needs {
        qemu_modules: modules,
        ..Needs::default()
    })
}

/// Checks what can be known to be missing before anything is tried.
///
/// # Errors
/// When something is.
pub fn check(address: &Address, host: &dyn Host) -> Result<(), Unmet> {
    let mut missing = needs(address).check(host).map_or_else(|u| u.0, |()| vec![]);
    let file = match &address.kind {
        Kind::Iscsi(iscsi) => iscsi.chap.as_ref().map(|(_, secret)| secret),
        Kind::Nbd {
            server: Server::Unix(socket),
            ..
        } => Some(socket),
        Kind::Nbd { .. } => None,
    };
    if let Some(file) = file.filter(|file| !host.exists(file)) {
        missing.push(format!("there is no {}", file.display()));
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Unmet(missing))
    }
}

/// Where the server of a disk is, once its name has been looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A socket of this machine.
    Unix(PathBuf),
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Peer::Tcp(address) => write!(f, "{address}"),
            Peer::Unix(socket) => write!(f, "{}", socket.display()),
        }
    }
}

/// Looks the name of the server up: the first of its addresses is used for everything.
///
/// # Errors
/// When the name has no address.
pub fn peer(address: &Address) -> io::Result<Peer> {
    let (host, port) = match &address.kind {
        Kind::Iscsi(iscsi) => (&iscsi.host, iscsi.port),
        Kind::Nbd { server, .. } => match server {
            Server::Tcp(host, port) => (host, *port),
            Server::Unix(socket) => return Ok(Peer::Unix(socket.clone())),
        },
    };
    let found = (host.as_str(), port).to_socket_addrs()?.next();
    found.map(Peer::Tcp).ok_or_else(|| {
        let text = format!("{host} has no address");
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

/// The disk, once it is attached.
#[derive(Debug)]
pub struct Attachment {
    /// The steps that attach it.
    pub plan: Plan,
    /// The file that its loop device is attached to.
    file: String,
}

impl Attachment {
    /// The steps that attach a disk, all of it in a directory `dir` that does not exist yet; `id`
    /// is the identifier of the journal.
    #[must_use]
    pub fn of(address: &Address, peer: &Peer, dir: &str, id: &str) -> Attachment {
        let chain = Chain { dir, id, number: 0 };
        let mut plan = Plan::default();
        let make = Action::MakeDir(dir.into());
        let why = "make a directory for the client";
        plan.step(why, make, Some(Action::RemoveDir(dir.into())));
        let (objects, disk) = match &address.kind {
            Kind::Iscsi(iscsi) => iscsi_disk(&mut plan, &chain, iscsi, peer),
            Kind::Nbd { export, .. } => (Vec::new(), nbd_disk(export, peer)),
        };
        chain.add_client(&mut plan, objects, &disk);
        if let Kind::Iscsi(_) = address.kind {
            chain.add_watchdog(&mut plan, &peer.to_string(), FAIL_AFTER_S);
        }
        chain.add_file(&mut plan);
        // How large it is, the server says; before it is there, the file is empty.
        chain.add_loop(&mut plan, 1, address.sector_bytes);
        Attachment {
            plan,
            file: chain.device_file(),
        }
    }

    /// The block device, after the steps have been carried out.
    ///
    /// # Errors
    /// When there is none.
    pub fn device(&self) -> Result<PathBuf, HostError> {
        let file = Path::new(&self.file);
        let found =
            loops::loops_of(file).map_err(HostError::io("find the loop device of", file))?;
        found
            .into_iter()
            .next()
            .ok_or_else(|| HostError::State(format!("no loop device is backed by {}", self.file)))
    }
}

fn iscsi_disk(
    plan: &mut Plan,
    chain: &Chain<'_>,
    iscsi: &Iscsi,
    peer: &Peer,
) -> (Vec<Arg>, String) {
    let mut disk = format!(
        "driver=iscsi,node-name=lun,transport=tcp,portal={peer},target={},lun={},\
         initiator-name={},cache.direct=on,timeout={FAIL_AFTER_S}",
        iscsi.target, iscsi.lun, iscsi.initiator
    );
    let Some((user, secret)) = &iscsi.chap else {
        return (Vec::new(), disk);
    };
    let path = chain.path("chap", ".password");
    let write = Action::WriteFile {
        path: path.clone(),
        text: "{secret}".into(),
        secret: Some(secret.display().to_string()),
    };
    // Without an end of line, which the client would take for a part of it.
    plan.step("write the secret as the client reads it", write, None);
    let _ = write!(disk, ",user={user},password-secret=chap");
    let object = format!("secret,id=chap,file={path}");
    (vec!["--object".into(), object.into()], disk)
}

fn nbd_disk(export: &str, peer: &Peer) -> String {
    let server = match peer {
        Peer::Tcp(at) => format!(
            "server.type=inet,server.host={},server.port={}",
            at.ip(),
            at.port()
        ),
        Peer::Unix(path) => format!("server.type=unix,server.path={}", path.display()),
    };
    let mut disk = format!(
        "driver=nbd,node-name=lun,{server},reconnect-delay={FAIL_AFTER_S},\
         open-timeout={OPEN_TIMEOUT_S},cache.direct=on"
    );
    if !export.is_empty() {
        let _ = write!(disk, ",export={export}");
    }
    disk
}

#[cfg(test)]
mod plan_tests;
