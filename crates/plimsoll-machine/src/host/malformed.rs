// SPDX-License-Identifier: Apache-2.0
//! Malformed messages for servers of ours: garbage, and headers of the protocols that our stacks
//! speak which promise more than comes, or what cannot be.
//!
//! Invariants: only ports on which processes with the given mark listen are sent anything; messages
//! are small, come from a seed alone, and name no export, account or target, so none can be taken
//! for an order.

use plimsoll_core::rng::{Rng, Seed};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::error::HostError;
use super::{ports, processes};

/// Most bytes of a message.
const BYTES_MAX: u64 = 4096;

/// How long a server may take to accept a connection, and to take what it is sent.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long an answer is waited for: most servers close, some say why.
const ANSWER: Duration = Duration::from_millis(20);

/// Longest answer that is looked at.
const ANSWER_BYTES: usize = 512;

/// The form of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Like {
    Garbage,
    Iscsi,
    Rpc,
    Nbd,
    Ceph,
}

const ALL: [Like; 5] = [Like::Garbage, Like::Iscsi, Like::Rpc, Like::Nbd, Like::Ceph];

/// Sends `messages` of them to each port of the processes with this mark. A port that does not take one is no
/// error: that is the failure to provoke, and the clients of the server notice it.
///
/// # Errors
/// When `messages` is 0 and no such process listens on a port, or `address` is none.
pub(super) fn send(
    mark: &str,
    address: &str,
    (seed, messages): (u64, u32),
) -> Result<(), HostError> {
    let wrong = |what: String| HostError::State(what);
    let address: IpAddr = address.parse().map_err(|_| {
        wrong(format!(
            "{address} is not an address of the internet protocol"
        ))
    })?;
    let ports = ports_of(mark);
    // A server that ended by what it was sent has none later on.
    if ports.is_empty() && messages == 0 {
        return Err(wrong(format!(
            "no process with the mark {mark} listens on a TCP port, so no message can be sent to it"
        )));
    }
    let mut rng = Rng::new(Seed(seed));
    for port in ports {
        for _ in 0..messages {
            let message = message(&mut rng);
            // Half of them hang up while the server may still be answering.
            let waits = rng.below(2) == 0;
            let _ = deliver(SocketAddr::new(address, port), &message, waits);
        }
    }
    Ok(())
}

fn ports_of(mark: &str) -> Vec<u16> {
    let marked = processes::marked(mark);
    let mut ports: Vec<u16> = marked.into_iter().flat_map(ports::listened_on).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

fn deliver(to: SocketAddr, message: &[u8], waits: bool) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(message)?;
    if waits {
        stream.shutdown(Shutdown::Write)?;
        stream.set_read_timeout(Some(ANSWER))?;
        let _ = stream.read(&mut [0; ANSWER_BYTES])?;
    }
    Ok(())
}

/// One message: a header that something is wrong with, cut off anywhere.
fn message(rng: &mut Rng) -> Vec<u8> {
    let like = pick(rng, ALL);
    let mut bytes = match like {
        Like::Garbage => Vec::new(),
        Like::Iscsi => iscsi(rng),
        Like::Rpc => rpc(rng),
        Like::Nbd => nbd(rng),
        Like::Ceph => b"ceph v2\n".to_vec(),
    };
    let more = rng.below(BYTES_MAX - bytes.len() as u64);
    // Mostly a little: headers that break off.
    let more = if rng.below(4) == 0 { more } else { more % 32 };
    bytes.extend((0..=more).map(|_| byte(rng)));
    if rng.below(3) == 0 {
        bytes.truncate(1 + word(rng) as usize % bytes.len());
    }
    bytes
}

fn byte(rng: &mut Rng) -> u8 {
    rng.next_u64().to_be_bytes()[0]
}

fn word(rng: &mut Rng) -> u32 {
    let [a, b, c, d, ..] = rng.next_u64().to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

fn pick<T: Copy, const N: usize>(rng: &mut Rng, all: [T; N]) -> T {
    all[word(rng) as usize % N]
}

/// A length that is none: nothing, everything, or anything.
fn length(rng: &mut Rng) -> u32 {
    match rng.below(4) {
        0 => 0,
        1 => u32::MAX,
        2 => 1 << 31,
        _ => word(rng),
    }
}

/// The 48 bytes before a request: any kind of request, most of them of a session that was never begun.
fn iscsi(rng: &mut Rng) -> Vec<u8> {
    let mut header: Vec<u8> = (0..48).map(|_| byte(rng)).collect();
    header[0] = match rng.below(3) {
        // A login, at once.
        0 => 0x43,
        // A command.
        1 => 0x01,
        _ => byte(rng) % 64,
    };
    let [_, length @ ..] = length(rng).to_be_bytes();
    header[5..8].copy_from_slice(&length);
    header
}

/// A record of remote procedure calls, as NFS and Gluster have them, whose length is wrong or whose
/// credentials are longer than it is.
fn rpc(rng: &mut Rng) -> Vec<u8> {
    const LAST: u32 = 1 << 31;
    // NFS, the mounting of it, and the two of Gluster: handshake, and files.
    const PROGRAMS: [u32; 4] = [100_003, 100_005, 14_398_633, 1_298_437];
    let program = pick(rng, PROGRAMS);
    let record = match rng.below(2) {
        0 => length(rng),
        _ => LAST | (word(rng) % 256),
    };
    let version = word(rng) % 6;
    let call = word(rng) % 32;
    let words = [record, 7, 0, 2, program, version, call, 1, length(rng)];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The answer to the greeting of a network block device, and an option that is longer than it is.
fn nbd(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, byte(rng) % 4];
    bytes.extend(b"IHAVEOPT");
    bytes.extend((word(rng) % 16).to_be_bytes());
    bytes.extend(length(rng).to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_from_the_seed_and_are_small() {
        let all = |seed| {
            let mut rng = Rng::new(Seed(seed));
            (0..2000).map(|_| message(&mut rng)).collect::<Vec<_>>()
        };
        let messages = all(1);
        assert_eq!(messages, all(1));
        assert_ne!(messages, all(2));
        let fits = |bytes: &Vec<u8>| !bytes.is_empty() && bytes.len() as u64 <= BYTES_MAX;
        assert!(messages.iter().all(fits));
        for begins in [&b"ceph v2\n"[..], b"\0\0\0\x03IHAVEOPT"] {
            assert!(messages.iter().any(|bytes| bytes.starts_with(begins)));
        }
    }

    #[test]
    fn nobody_without_the_mark_is_sent_anything() {
        let error = send("plimsoll-nobody", "127.0.0.1", (1, 0)).unwrap_err();
        assert!(error.to_string().contains("listens on a TCP port"));
        assert!(send("plimsoll-nobody", "n1", (1, 0)).is_err());
    }
}
