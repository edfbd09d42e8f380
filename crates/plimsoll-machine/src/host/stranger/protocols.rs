// SPDX-License-Identifier: Apache-2.0
//! Tries to log in to storage servers without a secret. Each function gives the access gained, or nothing
//! where the server refuses; an error of the connection also counts as a refusal.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::super::watchdog;

/// How long a server may take to accept a connection, and for each of its answers.
const PATIENCE: Duration = Duration::from_secs(3);

/// Most bytes of an answer that are looked at.
const ANSWER_MAX: usize = 64 << 10;

/// Most answers to one question.
const ANSWERS_MAX: usize = 16;

type Gained = io::Result<Option<String>>;

fn connect(at: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&at, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The body of a response, of the length that its header gives.
fn body(stream: &mut TcpStream, bytes: u32) -> io::Result<Vec<u8>> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if bytes > ANSWER_MAX {
        return Err(io::Error::other("malformed response: impossible length"));
    }
    let mut body = vec![0; bytes];
    stream.read_exact(&mut body)?;
    Ok(body)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map_or(0, u32::from_be_bytes)
}

/// Asks for the export without a name (NBD protocol: `NBD_OPT_GO`).
pub(super) fn nbd(at: SocketAddr) -> Gained {
    const GO: u32 = 7;
    const ACK: u32 = 1;
    const ERROR: u32 = 1 << 31;
    const BY_POLICY: u32 = ERROR + 2;
    const NEEDS_TLS: u32 = ERROR + 5;
    let let_in = || Ok(Some("read and write the disk that is served by NBD".into()));
    let mut stream = connect(at)?;
    let mut greeting = [0; 16];
    stream.read_exact(&mut greeting)?;
    if !greeting.starts_with(b"NBDMAGIC") {
        return Ok(None);
    }
    if &greeting[8..] != b"IHAVEOPT" {
        // The old greeting asks for nothing.
        return let_in();
    }
    let mut flags = [0; 2];
    stream.read_exact(&mut flags)?;
    let mut asked = u32::from(u16::from_be_bytes(flags) & 3)
        .to_be_bytes()
        .to_vec();
    asked.extend(b"IHAVEOPT");
    // The length of what follows: that of the name, and how much is asked about it.
    for word in [GO, 6, 0] {
        asked.extend(word.to_be_bytes());
    }
    asked.extend([0; 2]);
    stream.write_all(&asked)?;
    for _ in 0..ANSWERS_MAX {
        let mut header = [0; 20];
        stream.read_exact(&mut header)?;
        body(&mut stream, word(&header, 16))?;
        match word(&header, 12) {
            BY_POLICY | NEEDS_TLS => return Ok(None),
            // A name that it does not have is no refusal of who asks.
            answer if answer == ACK || answer >= ERROR => return let_in(),
            _ => {}
        }
    }
    Ok(None)
}

/// Asks a target for the names of what it has, then for a session with each, without a secret
/// (RFC 7143).
pub(super) fn iscsi(at: SocketAddr) -> Gained {
    const ME: &str = "InitiatorName=iqn.2026-01.lab.plimsoll:stranger\0AuthMethod=None\0";
    let mut stream = connect(at)?;
    let discovery = format!("{ME}SessionType=Discovery\0");
    if !is_let_in(&ask(&mut stream, &watchdog::login(discovery.as_bytes()))?.0) {
        return Ok(None);
    }
    let (_, names) = ask(&mut stream, &text_request(b"SendTargets=All\0"))?;
    let names = String::from_utf8_lossy(&names).into_owned();
    let names = names
        .split('\0')
        .filter_map(|pair| pair.strip_prefix("TargetName="));
    for name in names.take(ANSWERS_MAX) {
        let login = format!("{ME}SessionType=Normal\0TargetName={name}\0");
        let (answer, _) = ask(&mut connect(at)?, &watchdog::login(login.as_bytes()))?;
        if is_let_in(&answer) {
            return Ok(Some(format!("read and write the iSCSI disk {name}")));
        }
    }
    Ok(None)
}

/// Sends a request and gives the header and the data of the answer.
fn ask(stream: &mut TcpStream, request: &[u8]) -> io::Result<([u8; 48], Vec<u8>)> {
    stream.write_all(request)?;
    let mut header = [0; 48];
    stream.read_exact(&mut header)?;
    let length = word(&header, 4) & 0x00ff_ffff;
    let data = body(stream, length.next_multiple_of(4))?;
    Ok((header, data))
}

/// Whether the answer to a login gives the full session: of class 0, and on to the last stage.
fn is_let_in(answer: &[u8; 48]) -> bool {
    answer[0] & 0x3f == 0x23 && answer[1] & 0x83 == 0x83 && answer[36] == 0
}

fn text_request(text: &[u8]) -> Vec<u8> {
    let mut request = vec![0_u8; 48];
    request[0] = 0x04;
    request[1] = 0x80;
    let length = u32::try_from(text.len()).unwrap_or_default().to_be_bytes();
    request[5..8].copy_from_slice(&length[1..]);
    request[19] = 1;
    request[20..24].fill(0xff);
    request.extend_from_slice(text);
    request.resize(request.len().next_multiple_of(4), 0);
    request
}

/// Asks a daemon of GlusterFS for the description of a volume, and to be a client of a brick: two procedures
/// of its handshake, which a daemon without access control answers to every client.
pub(super) fn gluster(at: SocketAddr) -> Gained {
    const BE_CLIENT: u32 = 1;
    const DESCRIBE: u32 = 2;
    // Flags, the name of a volume, nothing more.
    let describe = [0, 0, 0, 0, 0, 0, 0, 4, b'd', b'a', b't', b'a', 0, 0, 0, 0];
    for (procedure, args) in [(DESCRIBE, &describe[..]), (BE_CLIENT, &[0; 4])] {
        if called(at, procedure, args).unwrap_or(false) {
            return Ok(Some("connect to a GlusterFS server as a client".into()));
        }
    }
    Ok(None)
}

/// Whether a call (ONC RPC, RFC 5531) was carried out, whatever came of it.
fn called(at: SocketAddr, procedure: u32, args: &[u8]) -> io::Result<bool> {
    const HANDSHAKE: u32 = 14_398_633;
    let mut call = Vec::new();
    // Number, a call, version 2, program, its version, procedure; neither credential nor verifier.
    for word in [1, 0, 2, HANDSHAKE, 2, procedure, 0, 0, 0, 0] {
        call.extend(word.to_be_bytes());
    }
    call.extend(args);
    let length = u32::try_from(call.len()).unwrap_or_default();
    let mut stream = connect(at)?;
    stream.write_all(&(length | 1 << 31).to_be_bytes())?;
    stream.write_all(&call)?;
    let mut mark = [0; 4];
    stream.read_exact(&mut mark)?;
    let reply = body(&mut stream, word(&mark, 0) & !(1 << 31))?;
    // Number, a reply, accepted, verifier, and how it went.
    let verifier = usize::try_from(word(&reply, 16)).unwrap_or(usize::MAX);
    let state_at = verifier.saturating_add(20);
    Ok(reply.len() >= state_at.saturating_add(4)
        && word(&reply, 8) == 0
        && word(&reply, state_at) == 0)
}
