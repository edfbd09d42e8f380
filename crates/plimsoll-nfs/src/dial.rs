// SPDX-License-Identifier: Apache-2.0
//! Opens connections: bounded in time, and from a privileged port where that is possible, because
//! many servers (those of Linux by default) take no others.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Ports that only root may use, from above, leaving those below for services.
const PRIVILEGED: std::ops::RangeInclusive<u16> = 665..=1023;

/// A connection that does not block, from a privileged port when this process may have one.
pub(crate) fn dial(to: SocketAddr, limit: Duration) -> io::Result<TcpStream> {
    for port in PRIVILEGED.rev() {
        match dial_from(to, Some(port), limit) {
            // In use, or still known from a connection before: another will do.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable
                ) => {}
            // Whom they belong to is a setting of the machine: where it is root alone, others get none.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => break,
            other => return other,
        }
    }
    dial_from(to, None, limit)
}

fn dial_from(to: SocketAddr, port: Option<u16>, limit: Duration) -> io::Result<TcpStream> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(port) = port {
        let from: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, port).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, port).into(),
        };
        bind(&socket, &from)?;
        // A port that was closed in the usual way stays in use for a minute. A run of short trials would use
        // up all privileged ports, and the server refuses others. Nothing is lost: each call has its reply.
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
    }
    match connect(&socket, &to) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => finish(&socket, limit)?,
        Err(errno) => return Err(errno.into()),
    }
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn finish(socket: &OwnedFd, limit: Duration) -> io::Result<()> {
    let mut waiting = [PollFd::new(socket, PollFlags::OUT)];
    loop {
        match poll(&mut waiting, Some(&timespec(limit))) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    sockopt::socket_error(socket)?.map_err(Into::into)
}

/// A time as the system wants it.
pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// More connections one after the other than there are privileged ports.
    #[test]
    fn a_port_can_be_used_again_at_once() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap();
        let is_root = rustix::process::geteuid().is_root();
        for n in 0..2 * PRIVILEGED.count() {
            let client = dial(to, Duration::from_secs(5)).unwrap();
            let accepted = server.accept().unwrap();
            let port = client.local_addr().unwrap().port();
            // The side that closes first keeps the port.
            drop(client);
            drop(accepted);
            assert_eq!(
                PRIVILEGED.contains(&port),
                is_root,
                "connection {n}: port {port}"
            );
        }
    }
}
