// SPDX-License-Identifier: Apache-2.0
//! Remote disks (iSCSI, NBD), attached to this machine as block devices.
//!
//! The client is in user space, the same chain as below the stacks `iscsi` and `nbd`, so that no
//! kernel module is needed. Attaching changes nothing on the disk: it reads what every client does.
//! Manual: `docs/stacks/attach.md`.

mod address;

pub use address::{
    IscsiLunAddress, NbdServerAddress, RemoteDiskAddress, RemoteDiskAddressError,
    RemoteDiskTransport,
};

use plimsoll_core::plan::{Plan, PlanAction, PlanCommandArg};
use std::fmt::Write as _;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use crate::stacks::node::chain::{self, ClientDiskChain};
use crate::stacks::{PreconditionError, StackRequirements};
use plimsoll_machine::host::{Host, HostError, loops};

/// How long operations wait for a server that is gone, in seconds, before they fail.
const FAIL_AFTER_S: u32 = 30;

/// Longest time to reach a server at first, in seconds.
const OPEN_TIMEOUT_S: u32 = 10;

/// Requirements on this machine to attach it.
pub fn needs(address: &RemoteDiskAddress) -> StackRequirements {
    let modules = match address.kind {
        RemoteDiskTransport::Iscsi(_) => vec!["block-iscsi.so"],
        RemoteDiskTransport::Nbd { .. } => vec![],
    };
    chain::needs().and(StackRequirements {
        qemu_modules: modules,
        ..StackRequirements::default()
    })
}

/// Checks what can be known to be missing before anything is tried.
///
/// # Errors
/// When something is.
pub fn check(address: &RemoteDiskAddress, host: &dyn Host) -> Result<(), PreconditionError> {
    let mut missing = needs(address).check(host).map_or_else(|u| u.0, |()| vec![]);
    let file = match &address.kind {
        RemoteDiskTransport::Iscsi(iscsi) => iscsi.chap.as_ref().map(|(_, secret)| secret),
        RemoteDiskTransport::Nbd {
            server: NbdServerAddress::Unix(socket),
            ..
        } => Some(socket),
        RemoteDiskTransport::Nbd { .. } => None,
    };
    if let Some(file) = file.filter(|file| !host.exists(file)) {
        missing.push(format!("there is no {}", file.display()));
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(PreconditionError(missing))
    }
}

/// Where the server of a disk is, once its name has been looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteDiskEndpoint {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A socket of this machine.
    Unix(PathBuf),
}

impl std::fmt::Display for RemoteDiskEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RemoteDiskEndpoint::Tcp(address) => write!(f, "{address}"),
            RemoteDiskEndpoint::Unix(socket) => write!(f, "{}", socket.display()),
        }
    }
}

/// Looks the name of the server up: the first of its addresses is used for everything.
///
/// # Errors
/// When the name has no address.
pub fn peer(address: &RemoteDiskAddress) -> io::Result<RemoteDiskEndpoint> {
    let (host, port) = match &address.kind {
        RemoteDiskTransport::Iscsi(iscsi) => (&iscsi.host, iscsi.port),
        RemoteDiskTransport::Nbd { server, .. } => match server {
            NbdServerAddress::Tcp(host, port) => (host, *port),
            NbdServerAddress::Unix(socket) => return Ok(RemoteDiskEndpoint::Unix(socket.clone())),
        },
    };
    let found = (host.as_str(), port).to_socket_addrs()?.next();
    found.map(RemoteDiskEndpoint::Tcp).ok_or_else(|| {
        let text = format!("{host} has no address");
        io::Error::new(io::ErrorKind::NotFound, text)
    })
}

/// The disk, once it is attached.
#[derive(Debug)]
pub struct RemoteDiskAttachment {
    /// The steps that attach it.
    pub plan: Plan,
    /// The file that its loop device is attached to.
    file: String,
}

impl RemoteDiskAttachment {
    /// The steps that attach a disk, all of it in a directory `dir` that does not exist yet; `id`
    /// is the identifier of the journal.
    pub fn of(
        address: &RemoteDiskAddress,
        peer: &RemoteDiskEndpoint,
        dir: &str,
        id: &str,
    ) -> RemoteDiskAttachment {
        let chain = ClientDiskChain { dir, id, number: 0 };
        let mut plan = Plan::default();
        let make = PlanAction::MakeDir(dir.into());
        let why = "create the client directory";
        plan.step(why, make, Some(PlanAction::RemoveDir(dir.into())));
        let (objects, disk) = match &address.kind {
            RemoteDiskTransport::Iscsi(iscsi) => iscsi_disk(&mut plan, &chain, iscsi, peer),
            RemoteDiskTransport::Nbd { export, .. } => (Vec::new(), nbd_disk(export, peer)),
        };
        chain.add_client(&mut plan, objects, &disk);
        if let RemoteDiskTransport::Iscsi(_) = address.kind {
            chain.add_watchdog(&mut plan, &peer.to_string(), FAIL_AFTER_S);
        }
        chain.add_mount_point(&mut plan);
        // How large it is, the server says; before it is there, the file is empty.
        chain.add_loop(&mut plan, 1, address.sector_bytes);
        RemoteDiskAttachment {
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
    chain: &ClientDiskChain<'_>,
    iscsi: &IscsiLunAddress,
    peer: &RemoteDiskEndpoint,
) -> (Vec<PlanCommandArg>, String) {
    let mut disk = format!(
        "driver=iscsi,node-name=lun,transport=tcp,portal={peer},target={},lun={},\
         initiator-name={},cache.direct=on,timeout={FAIL_AFTER_S}",
        iscsi.target, iscsi.lun, iscsi.initiator
    );
    let Some((user, secret)) = &iscsi.chap else {
        return (Vec::new(), disk);
    };
    let path = chain.path("chap", ".password");
    let write = PlanAction::WriteFile {
        path: path.clone(),
        text: "{secret}".into(),
        secret: Some(secret.display().to_string()),
    };
    // Without an end of line, which the client would take for a part of it.
    plan.step("write the CHAP secret for the client", write, None);
    let _ = write!(disk, ",user={user},password-secret=chap");
    let object = format!("secret,id=chap,file={path}");
    (vec!["--object".into(), object.into()], disk)
}

fn nbd_disk(export: &str, peer: &RemoteDiskEndpoint) -> String {
    let server = match peer {
        RemoteDiskEndpoint::Tcp(at) => format!(
            "server.type=inet,server.host={},server.port={}",
            at.ip(),
            at.port()
        ),
        RemoteDiskEndpoint::Unix(path) => {
            format!("server.type=unix,server.path={}", path.display())
        }
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
