// SPDX-License-Identifier: Apache-2.0
//! A stream each way, with a limit on every wait.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::frame::{AgentFrameParser, FrameError, framed};
use super::stream::{AgentPipes, AgentStream};
use crate::host::clock::{HostTimeSource, SystemClock};

/// A pipe that is ready takes this much without waiting (what POSIX calls `PIPE_BUF`).
const PIECE: usize = 4096;

/// Read at once.
const READ: usize = 1 << 16;

/// Most bytes before the first frame: what login scripts print.
const NOISE_MAX: usize = 1 << 16;

/// Longest single wait, so that a wish to stop is seen; a signal is seen at once.
const LOOK: Duration = Duration::from_secs(1);

/// Why nothing more comes or goes.
#[derive(Debug)]
pub enum AgentChannelError {
    /// The other side has ended.
    Closed,
    /// It took too long.
    TimedOut(Duration),
    /// A stop was requested.
    Stopped,
    /// The stream is not ours.
    Foreign(FrameError),
    /// The system said no.
    Io(io::Error),
}

impl fmt::Display for AgentChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentChannelError::Closed => f.write_str("connection closed"),
            AgentChannelError::TimedOut(limit) => {
                write!(f, "no message for {} s", limit.as_secs())
            }
            AgentChannelError::Stopped => f.write_str("interrupted"),
            AgentChannelError::Foreign(error) => error.fmt(f),
            AgentChannelError::Io(error) => error.fmt(f),
        }
    }
}

/// A stream each way.
#[derive(Debug)]
pub struct AgentChannel<S> {
    stream: S,
    frames: AgentFrameParser,
    clock: SystemClock,
}

impl<R: AsFd + fmt::Debug + Send, W: AsFd + fmt::Debug + Send> AgentChannel<AgentPipes<R, W>> {
    /// Over a pipe each way.
    pub(crate) fn new(input: R, output: W) -> Self {
        AgentChannel::over(AgentPipes { input, output })
    }
}

impl<S: AgentStream> AgentChannel<S> {
    /// Over this stream.
    pub fn over(stream: S) -> Self {
        AgentChannel {
            stream,
            frames: AgentFrameParser::default(),
            clock: SystemClock::new(),
        }
    }

    /// The same, refusing messages longer than this until [`AgentChannel::trust`].
    #[must_use]
    pub fn of_strangers(mut self, longest: usize) -> Self {
        self.frames = AgentFrameParser::at_most(longest);
        self
    }

    /// From now on messages may have any length that ours have.
    pub fn trust(&mut self) {
        self.frames.trust();
    }

    /// The descriptor to wait on until something comes; `None` when something has come already.
    pub(crate) fn waits_on(&self) -> Option<BorrowedFd<'_>> {
        let has_some = self.frames.has_message() || self.stream.holds_input();
        (!has_some).then(|| self.stream.input())
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When the stream has ended, the whole message is not sent within the limit, or it is too long.
    pub fn send(&mut self, message: &[u8], limit: Duration) -> Result<(), AgentChannelError> {
        let bytes = framed(message).map_err(AgentChannelError::Foreign)?;
        self.send_bytes(&bytes, limit)
    }

    /// Sends bytes as they are; `limit` is for the whole.
    pub(crate) fn send_bytes(
        &mut self,
        bytes: &[u8],
        limit: Duration,
    ) -> Result<(), AgentChannelError> {
        let until = self.clock.now() + limit;
        let mut rest = bytes;
        let mut is_flushed = true;
        while !rest.is_empty() || !is_flushed {
            self.wait(self.stream.output(), PollFlags::OUT, (until, limit), None)?;
            let piece = &rest[..rest.len().min(PIECE)];
            match self.stream.write(piece).and_then(|sent| {
                rest = &rest[sent..];
                self.stream.flush()
            }) {
                Ok(()) => is_flushed = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => is_flushed = false,
                Err(error) => return Err(io_error(error)),
            }
        }
        Ok(())
    }

    /// The next message. `stop` ends the wait.
    ///
    /// # Errors
    /// When none comes within the limit, or the stream has ended or is not ours.
    pub fn receive(
        &mut self,
        limit: Duration,
        stop: Option<&AtomicBool>,
    ) -> Result<Vec<u8>, AgentChannelError> {
        let until = self.clock.now() + limit;
        loop {
            if let Some(message) = self
                .frames
                .next_message()
                .map_err(AgentChannelError::Foreign)?
            {
                return Ok(message);
            }
            self.read_more((until, limit), stop)?;
        }
    }

    /// The next line, before any message.
    pub(crate) fn line(&mut self, limit: Duration) -> Result<String, AgentChannelError> {
        let until = self.clock.now() + limit;
        loop {
            if let Some(line) = self.frames.next_line() {
                return Ok(line);
            }
            if self.frames.waiting() > NOISE_MAX {
                return Err(AgentChannelError::Foreign(FrameError::Foreign));
            }
            self.read_more((until, limit), None)?;
        }
    }

    fn read_more(
        &mut self,
        until: (Duration, Duration),
        stop: Option<&AtomicBool>,
    ) -> Result<(), AgentChannelError> {
        if !self.stream.holds_input() {
            self.wait(self.stream.input(), PollFlags::IN, until, stop)?;
        }
        let mut bytes = vec![0; READ];
        match self.stream.read(&mut bytes) {
            Ok(0) => return Err(AgentChannelError::Closed),
            Ok(read) => self.frames.push(&bytes[..read]),
            // Part of what is read together, or nothing that was meant for us.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(io_error(error)),
        }
        Ok(())
    }

    fn wait(
        &self,
        on: BorrowedFd<'_>,
        what: PollFlags,
        (until, limit): (Duration, Duration),
        stop: Option<&AtomicBool>,
    ) -> Result<(), AgentChannelError> {
        loop {
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(AgentChannelError::Stopped);
            }
            let left = until.saturating_sub(self.clock.now());
            if left.is_zero() {
                return Err(AgentChannelError::TimedOut(limit));
            }
            let look = Timespec::try_from(left.min(LOOK))
                .map_err(|error| AgentChannelError::Io(io::Error::other(error.to_string())))?;
            match poll(&mut [PollFd::new(&on, what)], Some(&look)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(io_error(errno.into())),
            }
        }
    }
}

fn io_error(error: io::Error) -> AgentChannelError {
    match error.kind() {
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::UnexpectedEof => AgentChannelError::Closed,
        _ => AgentChannelError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::pipe;

    #[test]
    fn every_wait_ends() {
        let (reader, writer) = pipe().unwrap();
        let (other, full) = pipe().unwrap();
        let mut channel = AgentChannel::new(reader, full);
        let short = Duration::from_millis(1);
        assert!(matches!(
            channel.receive(short, None),
            Err(AgentChannelError::TimedOut(_))
        ));
        assert!(matches!(
            channel.line(short),
            Err(AgentChannelError::TimedOut(_))
        ));
        let stop = AtomicBool::new(true);
        let long = Duration::from_secs(3600);
        assert!(matches!(
            channel.receive(long, Some(&stop)),
            Err(AgentChannelError::Stopped)
        ));
        // More than a pipe holds, and the other end does not read.
        let sent = channel.send(&vec![0; 1 << 20], Duration::from_millis(50));
        assert!(matches!(sent, Err(AgentChannelError::TimedOut(_))));
        drop(other);
        assert!(matches!(
            channel.send(b"x", long),
            Err(AgentChannelError::Closed)
        ));
        drop(writer);
        assert!(matches!(
            channel.receive(long, None),
            Err(AgentChannelError::Closed)
        ));
    }

    #[test]
    fn noise_without_end_is_refused() {
        let (reader, writer) = pipe().unwrap();
        let (other, output) = pipe().unwrap();
        let mut channel = AgentChannel::new(reader, output);
        let mut noise = AgentChannel::new(other, writer);
        let noisy = std::thread::spawn(move || {
            noise.send_bytes(&vec![b'x'; 2 * NOISE_MAX], Duration::from_secs(60))
        });
        let line = channel.line(Duration::from_secs(60));
        assert!(
            matches!(line, Err(AgentChannelError::Foreign(_))),
            "{line:?}"
        );
        drop(channel);
        let _ = noisy.join().unwrap();
    }
}
