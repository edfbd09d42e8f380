// SPDX-License-Identifier: Apache-2.0
//! The disk on a Unix socket, by the protocol of network block devices (doc/proto.md of the nbd project):
//! the fixed newstyle handshake, simple replies.
//!
//! Requests of one connection are carried out one after another, so the log has the order in which they
//! were completed. A connection that sends what the protocol does not have is closed.

use super::log::{DiskPart, LoggedDisk};
use plimsoll_core::num::to_usize;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

/// Fixed newstyle, and no zeros behind the old export reply.
const HANDSHAKE_FLAGS: u16 = 1 | 2;
/// Flags, flush, FUA, trim, zeros, several connections.
const EXPORT_FLAGS: u16 = 1 | 4 | 8 | 32 | 64 | 256;

const OPTION_EXPORT_NAME: u32 = 1;
const OPTION_ABORT: u32 = 2;
const OPTION_INFO: u32 = 6;
const OPTION_GO: u32 = 7;

const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = (1 << 31) | 1;

const COMMAND_READ: u16 = 0;
const COMMAND_WRITE: u16 = 1;
const COMMAND_DISCONNECT: u16 = 2;
const COMMAND_FLUSH: u16 = 3;
const COMMAND_TRIM: u16 = 4;
const COMMAND_ZERO: u16 = 6;
const FLAG_FUA: u16 = 1;

/// Most bytes of an option: names of exports are far shorter.
const OPTION_MAX: u32 = 4096;
/// Options that a client may try.
const OPTIONS_MAX: usize = 64;
/// Most bytes of a request, as the protocol has it where nothing else is agreed.
const REQUEST_MAX: u32 = 32 << 20;

/// How often the server looks whether it is to end.
const LOOK: Duration = Duration::from_millis(5);

/// A part of a disk that is served until this is dropped.
#[derive(Debug)]
pub struct NbdServer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NbdServer {
    /// Serves a part of a disk at a new socket.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn start(disk: &Arc<LoggedDisk>, part: u64, socket: &Path) -> io::Result<NbdServer> {
        let listener = UnixListener::bind(socket)?;
        listener.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("disk".into()).spawn({
            let (disk, stop) = (Arc::clone(disk), Arc::clone(&stop));
            move || accept(&listener, disk.part(part), &stop)
        })?;
        Ok(NbdServer {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A server that panicked has closed its connections.
            let _ = thread.join();
        }
    }
}

/// Takes connections until it is to end, and waits for those that are left.
fn accept(listener: &UnixListener, disk: DiskPart<'_>, stop: &AtomicBool) {
    std::thread::scope(|scope| {
        let mut open: Vec<UnixStream> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            match listener.accept() {
                Ok((stream, _)) => {
                    open.extend(stream.try_clone());
                    // The client is ours: it hears of an error by the end of its connection.
                    scope.spawn(move || {
                        stream
                            .set_nonblocking(false)
                            .and_then(|()| serve(&mut &stream, disk))
                    });
                }
                Err(_) => pause(),
            }
        }
        for stream in open {
            // Fine when it is closed already.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    });
}

#[expect(
    clippy::disallowed_methods,
    reason = "a server waits in real time, whatever the load's clock"
)]
fn pause() {
    std::thread::sleep(LOOK);
}

/// Serves one connection to its end.
///
/// # Errors
/// When it fails, or breaks the protocol.
pub fn serve(stream: &mut (impl Read + Write), disk: DiskPart<'_>) -> io::Result<()> {
    if !agree(stream, disk)? {
        return Ok(());
    }
    let mut data = Vec::new();
    while answer(stream, disk, &mut data)? {}
    Ok(())
}

/// The handshake; whether requests follow.
fn agree(stream: &mut (impl Read + Write), disk: DiskPart<'_>) -> io::Result<bool> {
    let mut hello = Vec::new();
    hello.extend(MAGIC.to_be_bytes());
    hello.extend(OPTION_MAGIC.to_be_bytes());
    hello.extend(HANDSHAKE_FLAGS.to_be_bytes());
    stream.write_all(&hello)?;
    // Of the flags of the client only the absence of zeros matters, and both sides have it.
    let client = u32::from_be_bytes(read(stream)?);
    for _ in 0..OPTIONS_MAX {
        if u64::from_be_bytes(read(stream)?) != OPTION_MAGIC {
            return Err(broken("an option without its magic number"));
        }
        let option = u32::from_be_bytes(read(stream)?);
        let bytes = u32::from_be_bytes(read(stream)?);
        if bytes > OPTION_MAX {
            return Err(broken("an option of such a length"));
        }
        skip(stream, bytes)?;
        match option {
            OPTION_EXPORT_NAME => {
                let mut reply = Vec::new();
                reply.extend(disk.bytes().to_be_bytes());
                reply.extend(EXPORT_FLAGS.to_be_bytes());
                if client & 2 == 0 {
                    reply.extend([0; 124]);
                }
                stream.write_all(&reply)?;
                return Ok(true);
            }
            OPTION_GO | OPTION_INFO => {
                // Kind 0: the size and the flags of the export.
                let mut info = vec![0, 0];
                info.extend(disk.bytes().to_be_bytes());
                info.extend(EXPORT_FLAGS.to_be_bytes());
                reply_to_option(stream, option, REPLY_INFO, &info)?;
                reply_to_option(stream, option, REPLY_ACK, &[])?;
                if option == OPTION_GO {
                    return Ok(true);
                }
            }
            OPTION_ABORT => {
                reply_to_option(stream, option, REPLY_ACK, &[])?;
                return Ok(false);
            }
            _ => reply_to_option(stream, option, REPLY_UNSUPPORTED, &[])?,
        }
    }
    Err(broken("options without end"))
}

fn reply_to_option(stream: &mut impl Write, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut reply = Vec::new();
    reply.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    reply.extend(option.to_be_bytes());
    reply.extend(kind.to_be_bytes());
    reply.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    reply.extend(data);
    stream.write_all(&reply)
}

/// Carries out a request; whether another one may follow.
fn answer(
    stream: &mut (impl Read + Write),
    disk: DiskPart<'_>,
    data: &mut Vec<u8>,
) -> io::Result<bool> {
    let mut head = [0; 28];
    match stream.read_exact(&mut head) {
        // A client that goes away without a word is one that was killed.
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
        read => read?,
    }
    let (magic, rest) = take::<4>(&head);
    let (flags, rest) = take::<2>(rest);
    let (command, rest) = take::<2>(rest);
    let (cookie, rest) = take::<8>(rest);
    let (offset, bytes) = take::<8>(rest);
    let (bytes, _) = take::<4>(bytes);
    if u32::from_be_bytes(magic) != REQUEST_MAGIC {
        return Err(broken("a request without its magic number"));
    }
    let fua = u16::from_be_bytes(flags) & FLAG_FUA != 0;
    let (offset, bytes) = (u64::from_be_bytes(offset), u32::from_be_bytes(bytes));
    let command = u16::from_be_bytes(command);
    let has_data = command == COMMAND_READ || command == COMMAND_WRITE;
    if has_data && bytes > REQUEST_MAX {
        return Err(broken("a request of such a length"));
    }
    data.clear();
    let done = match command {
        COMMAND_READ => {
            data.resize(to_usize(bytes.into()), 0);
            disk.read(data, offset)
        }
        COMMAND_WRITE => {
            data.resize(to_usize(bytes.into()), 0);
            stream.read_exact(data)?;
            let done = disk.write(data, offset, fua);
            data.clear();
            done
        }
        COMMAND_DISCONNECT => return Ok(false),
        COMMAND_FLUSH => disk.flush(),
        COMMAND_TRIM | COMMAND_ZERO => disk.zero(offset, bytes.into(), fua),
        _ => Err(rustix::io::Errno::INVAL.into()),
    };
    if done.is_err() {
        data.clear();
    }
    let mut reply = Vec::with_capacity(16 + data.len());
    reply.extend(REPLY_MAGIC.to_be_bytes());
    reply.extend(code_of(&done).to_be_bytes());
    reply.extend(cookie);
    reply.append(data);
    stream.write_all(&reply)?;
    Ok(true)
}

/// The protocol's number of an error: those of Linux, of which it knows these.
fn code_of(done: &io::Result<()>) -> u32 {
    match done {
        Ok(()) => 0,
        Err(error) => match rustix::io::Errno::from_io_error(error) {
            Some(rustix::io::Errno::INVAL) => 22,
            Some(rustix::io::Errno::NOSPC) => 28,
            _ => 5,
        },
    }
}

fn read<const N: usize>(stream: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The first bytes of a request, and those behind them.
fn take<const N: usize>(bytes: &[u8]) -> ([u8; N], &[u8]) {
    let (first, rest) = bytes.split_at(N);
    (first.try_into().unwrap_or([0; N]), rest)
}

fn skip(stream: &mut impl Read, bytes: u32) -> io::Result<()> {
    let mut rest = vec![0; to_usize(bytes.into())];
    stream.read_exact(&mut rest)
}

fn broken(text: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}
