// SPDX-License-Identifier: Apache-2.0
//! The pipe against a simulated server that misbehaves by script.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use plimsoll_nfs::{NfsAddress, share_of};

use super::*;
use crate::verify::{VerifyOptions, verify_engine};

const BLOCK: usize = 4096;

/// For a server that answers, however busy the machine is.
const LONG: NfsTimeouts = NfsTimeouts {
    call: Nanos(30_000_000_000),
    operation: Nanos(120_000_000_000),
    pause: Nanos(1_000_000),
    dial: Nanos(30_000_000_000),
};

/// For one that never does: an operation lasts long enough for many calls.
const SHORT: NfsTimeouts = NfsTimeouts {
    call: Nanos(100_000_000),
    operation: Nanos(3_000_000_000),
    ..LONG
};

/// The faults of the simulated server.
#[derive(Debug, Clone, Copy, Default)]
struct Script {
    /// Closes the connection after this number of calls; the last one is carried out but not answered.
    closes_after: Option<u32>,
    /// Forgets what is not durable when it closes, as one that was killed does.
    forgets: bool,
    /// Sends answers in fragments of this number of bytes, and in pieces of 3 bytes more.
    torn: Option<usize>,
    /// Answers with another number than was asked with.
    wrong_number: bool,
    /// Moves at most this number of bytes in a call.
    short: Option<usize>,
    /// Is busy for every fifth call.
    busy: bool,
    /// Says that every commit failed.
    no_commit: bool,
    /// Never answers.
    silent: bool,
}

#[derive(Debug, Default)]
struct Disk {
    memory: BTreeMap<usize, u8>,
    durable: BTreeMap<usize, u8>,
    verifier: u32,
    calls: u32,
    commits: u32,
    closed: u32,
}

struct Server {
    disk: Arc<Mutex<Disk>>,
    end: Arc<AtomicBool>,
    at: std::net::SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let disk: Arc<Mutex<Disk>> = Arc::default();
        let end = Arc::new(AtomicBool::new(false));
        let (shared, ends) = (Arc::clone(&disk), Arc::clone(&end));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                // One that goes away in the middle is no fault of the server.
                let _ = serve(stream.unwrap(), script, &shared);
                let mut disk = shared.lock().unwrap();
                disk.closed += 1;
                if script.forgets {
                    disk.memory = disk.durable.clone();
                    disk.verifier += 1;
                }
            }
        });
        Server {
            disk,
            end,
            at,
            thread: Some(thread),
        }
    }

    fn pipe(&self, slots: u32, len: u32, stable: StableHow) -> NfsEngine {
        self.pipe_with(slots, len, stable, LONG)
    }

    fn pipe_with(
        &self,
        slots: u32,
        len: u32,
        stable: StableHow,
        patience: NfsTimeouts,
    ) -> NfsEngine {
        let address: NfsAddress = "nfs://127.0.0.1/played".parse().unwrap();
        let share = Arc::new(share_of(address, self.at, 64 << 10));
        let file = share.root();
        NfsEngine::open(share, file, (slots, len), stable, Seed(1), patience).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        // Wakes it from waiting for a connection.
        drop(TcpStream::connect(self.at));
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
        }
    }
}

fn serve(mut stream: TcpStream, script: Script, disk: &Mutex<Disk>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut calls = 0;
    // Ends when the client closes the connection.
    loop {
        let mut mark = [0; 4];
        stream.read_exact(&mut mark)?;
        let len = u32::from_be_bytes(mark) & 0x7fff_ffff;
        let mut call = vec![0; len as usize];
        stream.read_exact(&mut call)?;
        calls += 1;
        if script.silent {
            continue;
        }
        let answer = carry_out(&call, script, &mut disk.lock().unwrap());
        if script.closes_after.is_some_and(|limit| calls >= limit) {
            return Ok(());
        }
        send(&mut stream, &answer, script.torn)?;
    }
}

fn send(stream: &mut TcpStream, answer: &[u8], torn: Option<usize>) -> io::Result<()> {
    let mut bytes = Vec::new();
    let pieces: Vec<&[u8]> = answer.chunks(torn.unwrap_or(usize::MAX)).collect();
    for (n, piece) in pieces.iter().enumerate() {
        let last = u32::from(n + 1 == pieces.len()) << 31;
        let len = u32::try_from(piece.len()).unwrap();
        bytes.extend_from_slice(&(len | last).to_be_bytes());
        bytes.extend_from_slice(piece);
    }
    match torn {
        // No two fragments in one piece, and marks cut through.
        Some(torn) => bytes
            .chunks(torn + 3)
            .try_for_each(|piece| stream.write_all(piece)),
        None => stream.write_all(&bytes),
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn carry_out(call: &[u8], script: Script, disk: &mut Disk) -> Vec<u8> {
    disk.calls += 1;
    let (number, procedure) = (word(call, 0), word(call, 20));
    // Behind the header, our credential and the handle of the share.
    let args = 24 + 8 + word(call, 28) as usize + 8;
    let args = args + 4 + (word(call, args) as usize).next_multiple_of(4);
    let mut words = vec![number + u32::from(script.wrong_number), 1, 0, 0, 0, 0];
    let offset = word(call, args + 4) as usize;
    let asked = word(call, args + 8) as usize;
    let moved = asked.min(script.short.unwrap_or(usize::MAX));
    let mut data = Vec::new();
    if script.busy && disk.calls.is_multiple_of(5) {
        words.extend([10_008, 0, 0]);
    } else if procedure == 6 {
        data = (offset..offset + moved)
            .map(|at| disk.memory.get(&at).copied().unwrap_or(0))
            .collect();
        let len = u32::try_from(moved).unwrap();
        words.extend([0, 0, len, 0, len]);
    } else if procedure == 7 {
        let stable = word(call, args + 12);
        for (n, byte) in call[args + 20..][..moved].iter().enumerate() {
            disk.memory.insert(offset + n, *byte);
            if stable > 0 {
                disk.durable.insert(offset + n, *byte);
            }
        }
        let len = u32::try_from(moved).unwrap();
        words.extend([0, 0, 0, len, stable, 0, disk.verifier]);
    } else {
        disk.commits += 1;
        if script.no_commit {
            words.extend([28, 0, 0]);
        } else {
            disk.durable = disk.memory.clone();
            words.extend([0, 0, 0, 0, disk.verifier]);
        }
    }
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
    bytes.extend_from_slice(&data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn request(kind: OpKind, offset: u64, len: usize) -> OpRequest {
    OpRequest {
        kind,
        file: 0,
        offset,
        len: u32::try_from(len).unwrap(),
        intended_at: Nanos(0),
    }
}

/// One operation, to its end.
fn perform(pipe: &mut NfsEngine, request: &OpRequest) -> Result<u64, i32> {
    pipe.queue(0, request).unwrap();
    let mut done = Vec::new();
    within(|| {
        pipe.enter(Some(Nanos(1_000_000))).unwrap();
        pipe.reap(&mut done);
        Some(done.pop()?.result)
    })
}

/// Tries until there is an answer; the limit is only there to end a test that failed.
fn within<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let clock = HostClock::start();
    while clock.now() < Nanos(300_000_000_000) {
        if let Some(answer) = attempt() {
            return answer;
        }
    }
    panic!("it does not end within five minutes");
}

fn verified(script: Script, stable: StableHow) -> (Disk, u64) {
    let server = Server::start(script);
    let mut pipe = server.pipe(8, 4096, stable);
    let options = VerifyOptions {
        bytes: 64 * BLOCK as u64,
        operations: 300,
        depth: 8,
        seed: Seed(3),
    };
    let report = verify_engine(&mut pipe, 4096, &options, &AtomicBool::new(false)).unwrap();
    assert!(report.passed(), "{script:?}: {report:?}");
    drop(pipe);
    let disk = std::mem::take(&mut *server.disk.lock().unwrap());
    assert_eq!(
        disk.memory, disk.durable,
        "the last fsync reached the server"
    );
    (disk, report.checked)
}

#[test]
fn every_write_is_found_again_whatever_the_connection_does() {
    let script = Script::default();
    for script in [
        script,
        Script {
            torn: Some(7),
            ..script
        },
        Script {
            short: Some(1000),
            ..script
        },
        Script {
            closes_after: Some(40),
            ..script
        },
        Script {
            busy: true,
            ..script
        },
    ] {
        let (disk, checked) = verified(script, StableHow::Unstable);
        assert!(checked >= 64, "{script:?}");
        assert_eq!(disk.closed > 1, script.closes_after.is_some());
    }
}

#[test]
fn what_a_restarted_server_forgot_is_written_again() {
    let script = Script {
        closes_after: Some(60),
        forgets: true,
        ..Script::default()
    };
    let (disk, _) = verified(script, StableHow::Unstable);
    assert!(
        disk.verifier > 3,
        "it was restarted {} times",
        disk.verifier
    );
    // Durable writes need nothing of the kind.
    verified(script, StableHow::Data);
}

#[test]
fn data_are_kept_until_a_commit_and_one_is_made_when_they_are_too_many() {
    let server = Server::start(Script::default());
    let mut pipe = server.pipe(1, 64 << 10, StableHow::Unstable);
    let writes = KEPT_BYTES / (64 << 10) + 3;
    for n in 0..writes {
        let write = request(OpKind::Write, (n % 4) as u64 * 65_536, 64 << 10);
        assert_eq!(perform(&mut pipe, &write), Ok(64 << 10));
    }
    assert_eq!(server.disk.lock().unwrap().commits, 1);
    assert!(!pipe.kept.is_empty());
    for expect in [2, 3] {
        assert_eq!(perform(&mut pipe, &request(OpKind::Fsync, 0, 0)), Ok(0));
        assert_eq!(server.disk.lock().unwrap().commits, expect);
    }
    assert!(pipe.kept.is_empty());
}

#[test]
fn a_failed_commit_is_told() {
    let script = Script {
        no_commit: true,
        ..Script::default()
    };
    let server = Server::start(script);
    let mut pipe = server.pipe(1, 4096, StableHow::Unstable);
    assert_eq!(
        perform(&mut pipe, &request(OpKind::Write, 0, BLOCK)),
        Ok(4096)
    );
    let enospc = Errno::NOSPC.raw_os_error();
    assert_eq!(
        perform(&mut pipe, &request(OpKind::Fsync, 0, 0)),
        Err(enospc)
    );
    assert!(!pipe.kept.is_empty(), "the next may succeed");
}

#[test]
fn a_server_that_answers_what_was_not_asked_is_given_up() {
    let script = Script {
        wrong_number: true,
        ..Script::default()
    };
    let server = Server::start(script);
    let mut pipe = server.pipe(1, 4096, StableHow::Unstable);
    pipe.queue(0, &request(OpKind::Read, 0, BLOCK)).unwrap();
    let error = within(|| pipe.enter(Some(Nanos(1_000_000))).err()).to_string();
    assert!(error.contains("nfs://127.0.0.1/played"), "{error}");
    assert!(error.contains("not sent"), "{error}");
}

#[test]
fn an_operation_that_nobody_answers_ends() {
    let script = Script {
        silent: true,
        ..Script::default()
    };
    let server = Server::start(script);
    let mut pipe = server.pipe_with(1, 4096, StableHow::Unstable, SHORT);
    let timed_out = Errno::TIMEDOUT.raw_os_error();
    let read = request(OpKind::Read, 0, BLOCK);
    assert_eq!(perform(&mut pipe, &read), Err(timed_out));
    drop(pipe);
    // It was asked again; the server may still have to notice the end of what it was asked on.
    within(|| {
        nap(Nanos(1_000_000));
        (server.disk.lock().unwrap().closed > 1).then_some(())
    });
}

#[test]
fn what_nfs_does_not_have_is_refused() {
    let server = Server::start(Script::default());
    let mut pipe = server.pipe(1, 4096, StableHow::Unstable);
    for kind in [OpKind::Append, OpKind::Discard, OpKind::SyncRange] {
        assert_eq!(
            pipe.queue(0, &request(kind, 0, 0)),
            Err(UnsupportedOp(kind))
        );
    }
}
