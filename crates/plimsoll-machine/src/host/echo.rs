// SPDX-License-Identifier: Apache-2.0
//! Round trips to other machines, by echo requests (RFC 792, RFC 4443): what the way there takes,
//! without what a server does.

use rustix::net::{AddressFamily, SocketType, ipproto};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use super::HostTimeSource;

/// What an echo request carries: a number of ours, so that answers to others are told apart.
const COOKIE: [u8; 8] = *b"plimsoll";

/// Bytes of the header.
const HEADER: usize = 8;

/// A way to another machine.
#[derive(Debug)]
pub struct EchoPath {
    peer: String,
    socket: UdpSocket,
    is_v6: bool,
    next: u16,
}

impl EchoPath {
    /// To a machine by its name or number; `None` where it is this machine, has no address, or may
    /// not be asked (echo requests take root, or a group that the kernel lets).
    #[must_use]
    pub fn to(peer: &str) -> Option<EchoPath> {
        let host = peer.trim_start_matches('[').trim_end_matches(']');
        let address = (host, 0).to_socket_addrs().ok()?.next()?.ip();
        if address.is_loopback() {
            return None;
        }
        let socket = open(address).ok()?;
        Some(EchoPath {
            peer: peer.into(),
            socket,
            is_v6: address.is_ipv6(),
            next: 0,
        })
    }

    /// The machine, as it was named.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// How long one round trip takes; `None` when there was no answer in time.
    pub fn round_trip(
        &mut self,
        timeout: Duration,
        clock: &dyn HostTimeSource,
    ) -> Option<Duration> {
        self.next = self.next.wrapping_add(1);
        let began = clock.now();
        self.socket.send(&request(self.is_v6, self.next)).ok()?;
        let mut answer = [0_u8; 256];
        loop {
            let left = timeout.checked_sub(clock.now().saturating_sub(began))?;
            let left = left.max(Duration::from_millis(1));
            self.socket.set_read_timeout(Some(left)).ok()?;
            let bytes = self.socket.recv(&mut answer).ok()?;
            if is_answer(&answer[..bytes], self.next) {
                return Some(clock.now().saturating_sub(began));
            }
        }
    }
}

/// A socket that sends echo requests to this address alone.
fn open(address: IpAddr) -> io::Result<UdpSocket> {
    let (family, protocol) = match address {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    let kinds = [SocketType::DGRAM, SocketType::RAW];
    let mut last = io::Error::from(io::ErrorKind::Unsupported);
    for kind in kinds {
        match rustix::net::socket(family, kind, Some(protocol)) {
            Ok(socket) => {
                let socket = UdpSocket::from(socket);
                socket.connect(SocketAddr::new(address, 0))?;
                return Ok(socket);
            }
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// An echo request with its checksum. Of version 6 the kernel fills it in.
fn request(is_v6: bool, number: u16) -> Vec<u8> {
    let kind = if is_v6 { 128 } else { 8 };
    let id = std::process::id().to_le_bytes();
    let mut packet = vec![kind, 0, 0, 0, id[0], id[1]];
    packet.extend(number.to_be_bytes());
    packet.extend(COOKIE);
    packet.extend(number.to_be_bytes());
    let sum = checksum(&packet).to_be_bytes();
    packet[2..4].copy_from_slice(&sum);
    packet
}

/// The checksum of the Internet (RFC 1071).
fn checksum(packet: &[u8]) -> u16 {
    let words = packet
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}

/// Whether this is the answer to the request of this number. Sockets of one kind put the header of
/// the network before it, whose length is in its first byte.
fn is_answer(bytes: &[u8], number: u16) -> bool {
    let skipped = match bytes.first() {
        Some(first) if first >> 4 == 4 && bytes.len() > 20 => usize::from(first & 0x0f) * 4,
        _ => 0,
    };
    let Some(packet) = bytes.get(skipped..) else {
        return false;
    };
    let is_reply = matches!(packet.first(), Some(0 | 129));
    let mut expect = COOKIE.to_vec();
    expect.extend(number.to_be_bytes());
    is_reply && packet.get(HEADER..) == Some(&expect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_number_and_its_cookie() {
        let mut packet = request(false, 7);
        // What was sent with its own checksum adds up to nothing.
        assert_eq!(checksum(&packet), 0);
        assert!(!is_answer(&packet, 7), "a request is no answer");
        packet[0] = 0;
        assert!(is_answer(&packet, 7));
        assert!(!is_answer(&packet, 8));
        let mut with_header = vec![0x45; 20];
        with_header.extend(&packet);
        assert!(is_answer(&with_header, 7));
        assert!(!is_answer(&[], 7) && !is_answer(&[0x4f; 21], 7));
        assert!(request(true, 1)[0] == 128);
    }

    #[test]
    fn this_machine_is_no_way_to_another() {
        assert!(EchoPath::to("127.0.0.1").is_none());
        assert!(EchoPath::to("[::1]").is_none());
    }
}
