// SPDX-License-Identifier: Apache-2.0
//! Commands in a virtual machine over its serial ports: no network, no keys, and several at once.
//!
//! The protocol is described in `guest/ports`, which is the other side. A port has one client at a time: a
//! lock on a file beside its socket says which is free, and goes with the process that has it.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::PORTS;
use super::machine::file_in;
use plimsoll_machine::host::{HostError, HostTimeSource};

/// Bytes in a record at most; the other side reads a length of two bytes.
const PIECE: usize = 1 << 14;

/// Time limit for the answer to a greeting; then the greeting is sent again. The machine may not have noticed
/// yet that an earlier client left. Tests have no earlier client, and the answering side may wait long for a
/// processor.
const GREETING_LIMIT: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 2 });

/// The pause before that.
const AGAIN: Duration = Duration::from_millis(300);

/// How much may come before the answer: what a client that is gone did not take.
const NOISE_MAX: usize = 1 << 20;

/// An open port.
#[derive(Debug)]
pub struct VmSerialPort {
    stream: UnixStream,
    /// Bytes that came and were not looked at yet.
    come: Vec<u8>,
    _lock: File,
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmCommandResult {
    /// Its status.
    pub status: u8,
    /// Its output.
    pub output: String,
    /// Its error output.
    pub errors: String,
}

impl VmSerialPort {
    /// Opens the first free port of a machine whose files are in `dir`, within `limit`.
    ///
    /// # Errors
    /// When no port is free, or the machine does not answer: it may be off or paused.
    pub(super) fn open(
        dir: &str,
        machine: &str,
        clock: &dyn HostTimeSource,
        limit: Duration,
    ) -> Result<VmSerialPort, HostError> {
        let began = clock.now();
        let mut tries = 0;
        loop {
            tries += 1;
            let word = format!("{}x{}x{tries}", std::process::id(), clock.now().as_nanos());
            match VmSerialPort::try_open(dir, machine, &word)? {
                Some(port) => return Ok(port),
                None if clock.now().saturating_sub(began) > limit => {
                    return Err(HostError::State(format!(
                        "machine {machine} does not answer: it is starting, paused or stuck; see \
                         plimsoll vm status"
                    )));
                }
                None => clock.pause(AGAIN),
            }
        }
    }

    /// `None` when the machine does not answer.
    fn try_open(dir: &str, machine: &str, word: &str) -> Result<Option<VmSerialPort>, HostError> {
        for number in 0..PORTS {
            let path = file_in(dir, machine, &format!("port{number}.lock"));
            let path = Path::new(&path);
            let mut options = File::options();
            let options = options.create(true).truncate(false).write(true);
            let lock = options.open(path).map_err(HostError::io("open", path))?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let socket = file_in(dir, machine, &format!("port{number}"));
            let Ok(stream) = UnixStream::connect(&socket) else {
                return Err(HostError::State(format!(
                    "machine {machine} is off; start it with: plimsoll vm on {machine}"
                )));
            };
            let mut port = VmSerialPort {
                stream,
                come: Vec::new(),
                _lock: lock,
            };
            let greeted = port.greet(word);
            // Of a machine whose power was just cut the sockets go last: the next look finds it off.
            let is_slow = |error: &io::Error| {
                use io::ErrorKind::{
                    BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof, WouldBlock,
                };
                matches!(
                    error.kind(),
                    WouldBlock | TimedOut | UnexpectedEof | ConnectionReset | BrokenPipe
                )
            };
            return match greeted {
                Ok(()) => Ok(Some(port)),
                Err(error) if is_slow(&error) => Ok(None),
                Err(error) => Err(HostError::io("greet", Path::new(&socket))(error)),
            };
        }
        Err(HostError::State(format!(
            "all {PORTS} ports of machine {machine} are in use; end one of the programs that are \
             connected to it"
        )))
    }

    fn greet(&mut self, word: &str) -> io::Result<()> {
        self.stream.set_read_timeout(Some(GREETING_LIMIT))?;
        self.stream.set_write_timeout(Some(GREETING_LIMIT))?;
        // A line of its own, whatever a client before us left unfinished, and in one piece.
        let line = format!("\nplimsoll-open {word}\n");
        self.stream.write_all(line.as_bytes())?;
        let wanted = format!("plimsoll-opened {word}\n");
        let mut bytes = [0; 4096];
        while self.come.len() < NOISE_MAX {
            let read = self.stream.read(&mut bytes)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.come.extend_from_slice(&bytes[..read]);
            let found = self
                .come
                .windows(wanted.len())
                .position(|part| part == wanted.as_bytes());
            if let Some(at) = found {
                self.come.drain(..at + wanted.len());
                return Ok(());
            }
        }
        // Of a client that left a moment ago, whose command has not noticed yet.
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Runs a command without input to its end, within `limit`.
    ///
    /// # Errors
    /// When the connection breaks, or it takes too long.
    pub fn run(
        self,
        command: &str,
        clock: &dyn HostTimeSource,
        limit: Duration,
    ) -> io::Result<VmCommandResult> {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let until = Some((clock, clock.now() + limit));
        let status = self.relay(command, None, (&mut output, &mut errors), until)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(VmCommandResult {
            status,
            output: text(output),
            errors: text(errors),
        })
    }

    /// Runs a command with this input and these outputs to its end; gives its status.
    ///
    /// # Errors
    /// When the connection breaks, an output cannot be written, or it is not done in time.
    pub fn relay(
        mut self,
        command: &str,
        mut input: Option<BorrowedFd<'_>>,
        (output, errors): (&mut dyn Write, &mut dyn Write),
        until: Option<(&dyn HostTimeSource, Duration)>,
    ) -> io::Result<u8> {
        self.stream.set_nonblocking(true)?;
        let mut waiting = record(b'c', command.as_bytes())?;
        if input.is_none() {
            waiting.extend(record(b'i', &[])?);
        }
        loop {
            while let Some((letter, bytes)) = self.next_record() {
                match letter {
                    b'o' => written(output, &bytes)?,
                    b'e' => written(errors, &bytes)?,
                    b'x' => return status_of(&bytes),
                    _ => return Err(io::Error::other("malformed response of the machine")),
                }
            }
            if let Some((clock, until)) = until
                && clock.now() > until
            {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // Nothing more is read before the machine has taken what was.
            let asked = input.filter(|_| waiting.is_empty());
            let (can_read, can_write, has_input) = self.look(!waiting.is_empty(), asked)?;
            if can_read && !self.receive()? {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the machine went off",
                ));
            }
            if can_write && !waiting.is_empty() {
                let sent = unless_blocked((&self.stream).write(&waiting))?;
                waiting.drain(..sent);
            }
            if let (true, Some(file)) = (has_input, asked) {
                let mut bytes = vec![0; PIECE];
                let read = rustix::io::read(file, &mut bytes[..])?;
                waiting = record(b'i', &bytes[..read])?;
                if read == 0 {
                    input = None;
                }
            }
        }
    }

    /// Waits until something can be done: whether there is something to read, room to write, input.
    fn look(&self, writes: bool, input: Option<BorrowedFd<'_>>) -> io::Result<(bool, bool, bool)> {
        let mut events = PollFlags::IN;
        if writes {
            events |= PollFlags::OUT;
        }
        let stream = self.stream.as_fd();
        let mut files = vec![PollFd::new(&stream, events)];
        if let Some(input) = &input {
            files.push(PollFd::new(input, PollFlags::IN));
        }
        let second = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        match poll(&mut files, Some(&second)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let found = files[0].revents();
        let gone = PollFlags::HUP | PollFlags::ERR;
        let has_input = files.get(1).is_some_and(|file| !file.revents().is_empty());
        let can_read = found.intersects(PollFlags::IN | gone);
        Ok((can_read, found.contains(PollFlags::OUT), has_input))
    }

    /// Takes what has come; false at the end.
    fn receive(&mut self) -> io::Result<bool> {
        let mut bytes = vec![0; 4 * PIECE];
        match (&self.stream).read(&mut bytes) {
            Ok(0) => Ok(false),
            Ok(read) => {
                self.come.extend_from_slice(&bytes[..read]);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn next_record(&mut self) -> Option<(u8, Vec<u8>)> {
        let (letter, length) = match self.come[..] {
            [letter, high, low, ..] => (letter, usize::from(u16::from_be_bytes([high, low]))),
            _ => return None,
        };
        let bytes = self.come.get(3..3 + length)?.to_vec();
        self.come.drain(..3 + length);
        Some((letter, bytes))
    }
}

fn record(letter: u8, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let length = u16::try_from(bytes.len())
        .map_err(|_| io::Error::other("the command is longer than 65535 bytes"))?;
    let mut record = vec![letter];
    record.extend(length.to_be_bytes());
    record.extend_from_slice(bytes);
    Ok(record)
}

fn written(to: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

fn status_of(bytes: &[u8]) -> io::Result<u8> {
    let text = std::str::from_utf8(bytes).ok();
    let status = text.and_then(|text| text.parse().ok());
    status.ok_or_else(|| io::Error::other("the machine returned no status"))
}

fn unless_blocked(sent: io::Result<usize>) -> io::Result<usize> {
    match sent {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::host::SystemClock;
    use std::os::unix::net::UnixListener;

    /// A machine that answers greetings with `answer`, its `{word}` replaced, and then reads.
    fn machine(dir: &Path, answer: &'static str) -> std::thread::JoinHandle<Vec<u8>> {
        let listener = UnixListener::bind(dir.join("n1.port0")).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The end of a line that was left unfinished, and then the line; no byte of what follows.
            let mut said = Vec::new();
            let mut byte = [0];
            while said.iter().filter(|byte| **byte == b'\n').count() < 2 {
                stream.read_exact(&mut byte).unwrap();
                said.extend(byte);
            }
            let said = String::from_utf8(said).unwrap();
            let word = said.trim().strip_prefix("plimsoll-open ").unwrap();
            stream
                .write_all(answer.replace("{word}", word).as_bytes())
                .unwrap();
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest);
            rest
        })
    }

    #[test]
    fn what_a_client_before_left_is_dropped_and_both_outputs_and_the_status_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let answer = "o\0\u{5}left\nplimsoll-opened {word}\no\0\u{2}hie\0\u{3}badx\0\u{1}3";
        let served = machine(dir.path(), answer);
        let clock = SystemClock::new();
        let path = dir.path().to_str().unwrap();
        let port = VmSerialPort::open(path, "n1", &clock, Duration::ZERO).unwrap();
        let ended = port.run("ls", &clock, Duration::from_secs(60)).unwrap();
        let expect = VmCommandResult {
            status: 3,
            output: "hi".into(),
            errors: "bad".into(),
        };
        assert_eq!(ended, expect);
        // All of it may have been said before the machine was heard to be done.
        let heard = served.join().unwrap();
        assert!(b"c\0\x02lsi\0\0".starts_with(&heard), "{heard:?}");
    }

    #[test]
    fn a_port_in_use_is_passed_over_and_what_is_off_is_said_to_be() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        let clock = SystemClock::new();
        let error = VmSerialPort::open(path, "n1", &clock, Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("is off"), "{error}");
        let taken: Vec<File> = (0..PORTS)
            .map(|n| {
                let lock = File::create(dir.path().join(format!("n1.port{n}.lock"))).unwrap();
                // A process that a parallel test is just starting may share the dropped lock.
                flock(&lock, FlockOperation::LockExclusive).unwrap();
                lock
            })
            .collect();
        let error = VmSerialPort::open(path, "n1", &clock, Duration::ZERO).unwrap_err();
        assert!(error.to_string().contains("are in use"), "{error}");
        drop(taken);
    }

    #[test]
    fn a_connection_that_breaks_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("n1.port0")).unwrap();
        let served = std::thread::spawn(move || drop(listener.accept().unwrap()));
        let clock = SystemClock::new();
        let path = dir.path().to_str().unwrap();
        // It hangs up before it answers, as a machine does that goes off.
        let error = VmSerialPort::open(path, "n1", &clock, Duration::ZERO).unwrap_err();
        assert!(!error.to_string().is_empty());
        served.join().unwrap();
    }
}
