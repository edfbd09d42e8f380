// SPDX-License-Identifier: Apache-2.0
//! Sockets below the encryption: how they are made, and when the other machine counts as gone.

use rustix::net::sockopt;
use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// After so long without a sign from the other machine a connection counts as lost, on both sides.
pub const LOST_AFTER: Duration = Duration::from_secs(60);

/// The first question to a silent machine, and the next ones.
const ASK_AFTER: Duration = Duration::from_secs(20);
const ASK_EVERY: Duration = Duration::from_secs(10);
const ASK_TIMES: u32 = 4;

/// Connects to the first address of a name that answers within this time.
pub(crate) fn connect(address: &str, limit: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for found in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&found, limit) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Has the kernel notice when the other machine has gone without a word.
pub(crate) fn keep_alive(socket: BorrowedFd<'_>) -> io::Result<()> {
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, ASK_AFTER)?;
    sockopt::set_tcp_keepintvl(socket, ASK_EVERY)?;
    sockopt::set_tcp_keepcnt(socket, ASK_TIMES)?;
    let limit = u32::try_from(LOST_AFTER.as_millis()).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(socket, limit)?)
}
