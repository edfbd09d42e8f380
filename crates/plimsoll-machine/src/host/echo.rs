// SPDX-License-Identifier: Apache-2.0
//! Round trips to other machines, by echo requests (RFC 792, RFC 4443): what the way there takes,
//! without what a server does.

use rustix::net::{AddressFamily, SocketType, ipproto};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use super::HostTimeSource;

/// The payload of an echo request: a number of ours, so that answers to others are not taken for ours.
const COOKIE: [u8; 8] = *b"plimsoll";

/// Bytes of the header.
const HEADER: usize = 8;

/// Packets of a train, and bytes of each: far more than a limiter lets pass at once, and as many as the
/// kernel keeps for a program that does not read them in time.
const TRAIN: u16 = 80;
const TRAIN_BYTES: usize = 1_400;

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
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Bytes per second that the way carries, by the time from the first packet of a train to its last
    /// answer (as packet trains are used; Dovrolis et al. 2001); `None` when not all were answered in
    /// time. What holds this program up only makes it look less: the largest of several trains is
    /// nearest to the truth.
    pub fn train(&mut self, timeout: Duration, clock: &dyn HostTimeSource) -> Option<f64> {
        let began = clock.now();
        let first = self.next.wrapping_add(1);
        self.next = self.next.wrapping_add(TRAIN);
        for n in 0..TRAIN {
            let packet = request(self.is_v6, first.wrapping_add(n), TRAIN_BYTES);
            self.socket.send(&packet).ok()?;
        }
        let mut answer = [0_u8; 2048];
        let mut seen = 0;
        while seen < TRAIN {
            let left = timeout.checked_sub(clock.now().saturating_sub(began))?;
            let left = left.max(Duration::from_millis(1));
            self.socket.set_read_timeout(Some(left)).ok()?;
            let bytes = self.socket.recv(&mut answer).ok()?;
            let is_ours = |n: u16| is_answer(&answer[..bytes], first.wrapping_add(n));
            seen += u16::from((0..TRAIN).any(is_ours));
        }
        let passed = clock.now().saturating_sub(began).as_secs_f64();
        let bytes = usize::from(TRAIN) * TRAIN_BYTES;
        (passed > 0.0).then(|| bytes as f64 / passed)
    }

    /// How long one round trip takes; `None` when there was no answer in time.
    pub fn round_trip(
        &mut self,
        timeout: Duration,
        clock: &dyn HostTimeSource,
    ) -> Option<Duration> {
        self.next = self.next.wrapping_add(1);
        let began = clock.now();
        let packet = request(self.is_v6, self.next, 0);
        self.socket.send(&packet).ok()?;
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
fn request(is_v6: bool, number: u16, bytes_min: usize) -> Vec<u8> {
    let kind = if is_v6 { 128 } else { 8 };
    let id = std::process::id().to_le_bytes();
    let mut packet = vec![kind, 0, 0, 0, id[0], id[1]];
    packet.extend(number.to_be_bytes());
    packet.extend(COOKIE);
    packet.extend(number.to_be_bytes());
    packet.resize(packet.len().max(bytes_min), 0);
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
    let body = packet.get(HEADER..).unwrap_or_default();
    is_reply && body.starts_with(&expect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_number_and_its_cookie() {
        let mut packet = request(false, 7, 0);
        // A packet with its own checksum adds up to nothing.
        assert_eq!(checksum(&packet), 0);
        assert!(!is_answer(&packet, 7), "a request is no answer");
        packet[0] = 0;
        assert!(is_answer(&packet, 7));
        assert!(!is_answer(&packet, 8));
        let mut with_header = vec![0x45; 20];
        with_header.extend(&packet);
        assert!(is_answer(&with_header, 7));
        assert!(!is_answer(&[], 7) && !is_answer(&[0x4f; 21], 7));
        assert!(request(true, 1, 0)[0] == 128);
        let mut long = request(false, 9, TRAIN_BYTES);
        assert_eq!((long.len(), checksum(&long)), (TRAIN_BYTES, 0));
        long[0] = 0;
        assert!(is_answer(&long, 9));
    }

    #[test]
    fn this_machine_is_no_way_to_another() {
        assert!(EchoPath::to("127.0.0.1").is_none());
        assert!(EchoPath::to("[::1]").is_none());
    }
}
