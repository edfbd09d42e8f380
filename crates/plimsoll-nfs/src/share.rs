// SPDX-License-Identifier: Apache-2.0
//! A mounted export: what is known of it, and ways to it.

use nfs3_client::nfs3_types::mount::{PROGRAM as MOUNT_PROGRAM, VERSION as MOUNT_VERSION, dirpath};
use nfs3_client::nfs3_types::portmap::{IPPROTO_TCP, PMAP_PORT};
use nfs3_client::nfs3_types::rpc::{auth_unix, opaque_auth};
use nfs3_client::nfs3_types::xdr_codec::Opaque;
use nfs3_client::{MountClient, MountError, PortmapError, PortmapperClient};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use crate::address::{NFS_PORT, NfsAddress};
use crate::dial::dial;
use crate::line::RpcConnection;
use crate::session::{NfsExportSpace, NfsSession, RpcStream, fault, now};
use crate::wire::{self, NfsFileHandle};

/// How long a server may take to accept a connection.
pub(crate) const DIAL_LIMIT: Duration = Duration::from_secs(5);

/// Bytes of one read or write we ask for at most, whatever a server allows: a megabyte is what
/// kernels use, and bounds the memory that a foreign number decides.
const TRANSFER_MAX: u32 = 1 << 20;

/// The least that a server must move in one call to be of use.
const TRANSFER_MIN: u32 = 4096;

/// Bytes that one call may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NfsTransferLimits {
    /// Of a read.
    pub read_bytes: u32,
    /// Of a write.
    pub write_bytes: u32,
}

/// A mounted export. Nothing of it is kept open: sessions and lines are made from it.
#[derive(Debug, Clone)]
pub struct NfsMount {
    address: NfsAddress,
    server: SocketAddr,
    root: NfsFileHandle,
    limits: NfsTransferLimits,
    ids: (u32, u32),
}

impl NfsMount {
    /// Mounts the export of an address: looks for the server, asks it for the export's handle and
    /// for its limits.
    ///
    /// # Errors
    /// When the server cannot be reached, refuses the export, or answers nonsense.
    pub fn mount(address: &NfsAddress) -> io::Result<Self> {
        let port = address.port.unwrap_or(NFS_PORT);
        let server = (address.host.as_str(), port).to_socket_addrs();
        let server = server.map_err(|e| fault(&format!("no address of '{}'", address.host), &e))?;
        let server = server
            .into_iter()
            .next()
            .ok_or_else(|| io::Error::other(format!("'{}' has no address", address.host)))?;
        let own = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let ids = address.ids.unwrap_or(own);
        let mount_port = match address.mount_port {
            Some(port) => port,
            None => ask_mount_port(server)?,
        };
        let root = ask_root(SocketAddr::new(server.ip(), mount_port), address, ids)?;
        let mut share = NfsMount {
            address: address.clone(),
            server,
            root,
            limits: NfsTransferLimits {
                read_bytes: TRANSFER_MIN,
                write_bytes: TRANSFER_MIN,
            },
            ids,
        };
        let (read, write) = share.session()?.transfer_limits(&root)?;
        if read < TRANSFER_MIN || write < TRANSFER_MIN {
            return Err(io::Error::other(format!(
                "{address} moves only {} bytes per call; {TRANSFER_MIN} are needed",
                read.min(write)
            )));
        }
        share.limits = NfsTransferLimits {
            read_bytes: read.min(TRANSFER_MAX),
            write_bytes: write.min(TRANSFER_MAX),
        };
        Ok(share)
    }

    /// Where it is.
    pub fn address(&self) -> &NfsAddress {
        &self.address
    }

    /// Handle of the export's root.
    pub fn root(&self) -> NfsFileHandle {
        self.root
    }

    /// The most that one call may move.
    pub fn limits(&self) -> NfsTransferLimits {
        self.limits
    }

    /// Room on the server.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn room(&self) -> io::Result<NfsExportSpace> {
        self.session()?.room(&self.root)
    }

    /// A connection for names and attributes.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub fn session(&self) -> io::Result<NfsSession> {
        Ok(NfsSession::new(self.connect()?, sys(self.ids), self.root))
    }

    /// A connection for data: calls of at most `len_max` bytes, with room for `calls` of them.
    ///
    /// # Errors
    /// When the server does not accept one within `limit`.
    pub fn line(&self, len_max: u32, calls: u32, limit: Duration) -> io::Result<RpcConnection> {
        let socket = dial(self.server, limit)?;
        let credential = wire::credential(self.ids.0, self.ids.1);
        Ok(RpcConnection::new(socket, credential, len_max, calls))
    }

    fn connect(&self) -> io::Result<RpcStream> {
        let stream = dial(self.server, DIAL_LIMIT);
        let stream = stream.map_err(|e| fault(&format!("no connection to {}", self.server), &e))?;
        RpcStream::new(stream)
    }
}

/// A share of a server that a test plays, which moves at most `len_max` bytes in a call: nothing is
/// asked of it.
#[doc(hidden)]
pub fn share_of(address: NfsAddress, server: SocketAddr, len_max: u32) -> NfsMount {
    NfsMount {
        address,
        server,
        root: NfsFileHandle::new(b"root").expect("a short handle"),
        limits: NfsTransferLimits {
            read_bytes: len_max,
            write_bytes: len_max,
        },
        ids: (0, 0),
    }
}

fn ask_mount_port(server: SocketAddr) -> io::Result<u16> {
    let mapper = SocketAddr::new(server.ip(), PMAP_PORT);
    let help = "name the port in the address (?mountport=PORT), or start rpcbind there";
    let stream = dial(mapper, DIAL_LIMIT).and_then(RpcStream::new);
    let stream = stream.map_err(|e| fault(&format!("no port mapper at {mapper}; {help}"), &e))?;
    let mut client = PortmapperClient::new(stream);
    now(client.getport(MOUNT_PROGRAM, MOUNT_VERSION, IPPROTO_TCP)).map_err(|error| match error {
        PortmapError::ProgramUnavailable => io::Error::other(format!(
            "the server has no mount service of version 3 (is NFSv3 on?); {help}"
        )),
        other => io::Error::other(format!("asking {mapper} for the mount service: {other}")),
    })
}

fn ask_root(at: SocketAddr, address: &NfsAddress, ids: (u32, u32)) -> io::Result<NfsFileHandle> {
    let stream = dial(at, DIAL_LIMIT).and_then(RpcStream::new);
    let stream = stream.map_err(|e| fault(&format!("no mount service at {at}"), &e))?;
    let mut client = MountClient::new_with_auth(stream, sys(ids), opaque_auth::default());
    let export = dirpath(Opaque::borrowed(address.export.as_bytes()));
    let mounted = now(client.mnt(export)).map_err(|error| match error {
        MountError::Denied(why) => io::Error::other(format!(
            "the server refuses the export '{}' ({why}); see what it exports, and to whom",
            address.export
        )),
        other => io::Error::other(format!("asking {at} for '{}': {other}", address.export)),
    })?;
    NfsFileHandle::new(&mounted.fhandle.0)
        .ok_or_else(|| io::Error::other("the server gave a handle that is too long"))
}

fn sys((uid, gid): (u32, u32)) -> opaque_auth<'static> {
    opaque_auth::auth_unix(&auth_unix {
        stamp: 0,
        machinename: Opaque::borrowed(b"plimsoll"),
        uid,
        gid,
        gids: Vec::new(),
    })
}
