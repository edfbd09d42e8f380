// SPDX-License-Identifier: Apache-2.0
//! Ways to an address that routing does not decide on: from a socket that is bound to an interface, which any
//! user may bind it to. An address that is closed to a plain connection is closed on them as well.

use super::super::network;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take: the network is this machine's own.
const PATIENCE: Duration = Duration::from_secs(2);

/// Most ways that are tried: each takes a thread.
const WAYS_MAX: usize = 256;

/// The port of a port mapper, which answers datagrams of everybody.
const PORT_MAPPER: u16 = 111;

/// An address, and how it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DoorWay {
    to: SocketAddr,
    interface: String,
    by: DoorWayKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DoorWayKind {
    /// A connection.
    Stream,
    /// A datagram for everybody on the network of the interface.
    Broadcast,
}

/// Every combination of an address that this thread's user cannot connect to, an interface on its network
/// and a kind. Servers that take connections of everybody ask for a secret, and are asked in their
/// protocols.
pub(super) fn past_routing(doors: impl Iterator<Item = SocketAddr>) -> Vec<DoorWay> {
    let is_closed = |at: &SocketAddr| TcpStream::connect_timeout(at, PATIENCE).is_err();
    combinations(doors.filter(is_closed), network::interfaces_on_network_of)
}

fn combinations(
    doors: impl Iterator<Item = SocketAddr>,
    interfaces_to: impl Fn(Ipv4Addr) -> Vec<String>,
) -> Vec<DoorWay> {
    let mut ways = Vec::new();
    for to in doors.filter(|at| !at.ip().is_loopback()) {
        let IpAddr::V4(address) = to.ip() else {
            continue;
        };
        for interface in interfaces_to(address) {
            let stream = DoorWay {
                to,
                interface: interface.clone(),
                by: DoorWayKind::Stream,
            };
            let broadcast = DoorWay {
                to: SocketAddr::from((Ipv4Addr::BROADCAST, PORT_MAPPER)),
                interface,
                by: DoorWayKind::Broadcast,
            };
            ways.push(stream);
            if !ways.contains(&broadcast) {
                ways.push(broadcast);
            }
        }
    }
    ways.truncate(WAYS_MAX);
    ways
}

/// Which of them lead somewhere, as the user that this thread is; each completes "another user could …".
pub(super) fn open_of(ways: &[DoorWay]) -> Vec<String> {
    std::thread::scope(|scope| {
        // Threads of this user's: they have his ids from the one that starts them.
        let tries: Vec<_> = ways
            .iter()
            .map(|way| (way, scope.spawn(|| way.is_open())))
            .collect();
        let open = tries.into_iter().filter_map(|(way, tried)| {
            // A way that could not be tried is no way in.
            let is_open = tried.join().is_ok_and(|tried| tried.unwrap_or(false));
            is_open.then(|| way.words())
        });
        open.collect()
    })
}

impl DoorWay {
    fn is_open(&self) -> io::Result<bool> {
        match self.by {
            DoorWayKind::Stream => {
                let socket = self.socket(Type::STREAM, Protocol::TCP)?;
                socket.connect_timeout(&self.to.into(), PATIENCE)?;
                Ok(true)
            }
            DoorWayKind::Broadcast => {
                let socket = self.socket(Type::DGRAM, Protocol::UDP)?;
                socket.set_broadcast(true)?;
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.send_to(&null_call(), &self.to.into())?;
                let mut answer = [std::mem::MaybeUninit::uninit(); 64];
                Ok(socket.recv_from(&mut answer).is_ok())
            }
        }
    }

    fn socket(&self, kind: Type, protocol: Protocol) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.to), kind, Some(protocol))?;
        socket.bind_device(Some(self.interface.as_bytes()))?;
        Ok(socket)
    }

    fn words(&self) -> String {
        let (to, interface) = (self.to, &self.interface);
        match self.by {
            DoorWayKind::Stream => format!("connect to {to} from a socket bound to {interface}"),
            DoorWayKind::Broadcast => {
                format!("get an answer to a broadcast from a socket bound to {interface}")
            }
        }
    }
}

/// The call of a port mapper that does nothing (RFC 5531 9, RFC 1833 3).
fn null_call() -> Vec<u8> {
    // Its number, a call, version 2 of the protocol; program, version and procedure; no credentials.
    let words: [u32; 10] = [0x706c_696d, 0, 2, 100_000, 2, 0, 0, 0, 0, 0];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_a_network_is_tried_from_the_interface_on_it() {
        let doors = [
            "10.92.7.1:2049",
            "10.92.7.2:111",
            "10.92.8.1:9",
            "127.0.0.1:9",
        ];
        let doors = doors.map(|at| at.parse().unwrap());
        let ways = combinations(doors.into_iter(), |address| match address.octets()[2] {
            7 => vec!["plimsoll7".into()],
            _ => Vec::new(),
        });
        let broadcasts = ways.iter().filter(|way| way.by == DoorWayKind::Broadcast);
        assert_eq!((ways.len(), broadcasts.count()), (3, 1));
        assert!(ways.iter().all(|way| way.interface == "plimsoll7"));
    }
}
