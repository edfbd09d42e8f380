// SPDX-License-Identifier: Apache-2.0
//! A stream each way, with a limit on every wait.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::frame::{FrameError, Frames, framed};
use crate::host::clock::{Clock, SystemClock};

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
pub(crate) enum Broken {
    /// The other side has ended.
    Closed,
    /// It took too long.
    TimedOut(Duration),
    /// We were told to stop.
    Stopped,
    /// The stream is not ours.
    Foreign(FrameError),
    /// The system said no.
    Io(io::Error),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Closed => f.write_str("the other side ended"),
            Broken::TimedOut(limit) => write!(f, "nothing came for {} s", limit.as_secs()),
            Broken::Stopped => f.write_str("it was stopped"),
            Broken::Foreign(error) => error.fmt(f),
            Broken::Io(error) => error.fmt(f),
        }
    }
}

/// A stream each way.
#[derive(Debug)]
pub(crate) struct Channel<R, W> {
    input: R,
    output: W,
    frames: Frames,
    clock: SystemClock,
}

impl<R: AsFd, W: AsFd> Channel<R, W> {
    pub(crate) fn new(input: R, output: W) -> Self {
        Channel {
            input,
            output,
            frames: Frames::default(),
            clock: SystemClock::new(),
        }
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &[u8], limit: Duration) -> Result<(), Broken> {
        let bytes = framed(message).map_err(Broken::Foreign)?;
        self.send_bytes(&bytes, limit)
    }

    /// Sends bytes as they are; `limit` is for the whole.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8], limit: Duration) -> Result<(), Broken> {
        let until = self.clock.now() + limit;
        let mut rest = bytes;
        while !rest.is_empty() {
            self.wait(self.output.as_fd(), PollFlags::OUT, (until, limit), None)?;
            let piece = &rest[..rest.len().min(PIECE)];
            let sent = rustix::io::write(&self.output, piece).map_err(io_error)?;
            rest = &rest[sent..];
        }
        Ok(())
    }

    /// The next message. `stop` ends the wait.
    pub(crate) fn receive(
        &mut self,
        limit: Duration,
        stop: Option<&AtomicBool>,
    ) -> Result<Vec<u8>, Broken> {
        let until = self.clock.now() + limit;
        loop {
            if let Some(message) = self.frames.next_message().map_err(Broken::Foreign)? {
                return Ok(message);
            }
            self.read_more((until, limit), stop)?;
        }
    }

    /// The next line, before any message.
    pub(crate) fn line(&mut self, limit: Duration) -> Result<String, Broken> {
        let until = self.clock.now() + limit;
        loop {
            if let Some(line) = self.frames.next_line() {
                return Ok(line);
            }
            if self.frames.waiting() > NOISE_MAX {
                return Err(Broken::Foreign(FrameError::Foreign));
            }
            self.read_more((until, limit), None)?;
        }
    }

    fn read_more(
        &mut self,
        until: (Duration, Duration),
        stop: Option<&AtomicBool>,
    ) -> Result<(), Broken> {
        self.wait(self.input.as_fd(), PollFlags::IN, until, stop)?;
        let mut bytes = vec![0; READ];
        let read = rustix::io::read(&self.input, &mut bytes[..]).map_err(io_error)?;
        if read == 0 {
            return Err(Broken::Closed);
        }
        self.frames.push(&bytes[..read]);
        Ok(())
    }

    fn wait(
        &self,
        on: BorrowedFd<'_>,
        what: PollFlags,
        (until, limit): (Duration, Duration),
        stop: Option<&AtomicBool>,
    ) -> Result<(), Broken> {
        loop {
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(Broken::Stopped);
            }
            let left = until.saturating_sub(self.clock.now());
            if left.is_zero() {
                return Err(Broken::TimedOut(limit));
            }
            let look = Timespec::try_from(left.min(LOOK))
                .map_err(|error| Broken::Io(io::Error::other(error.to_string())))?;
            match poll(&mut [PollFd::new(&on, what)], Some(&look)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(io_error(errno)),
            }
        }
    }
}

fn io_error(errno: rustix::io::Errno) -> Broken {
    match errno {
        rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET => Broken::Closed,
        other => Broken::Io(other.into()),
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
        let mut channel = Channel::new(reader, full);
        let short = Duration::from_millis(1);
        assert!(matches!(
            channel.receive(short, None),
            Err(Broken::TimedOut(_))
        ));
        assert!(matches!(channel.line(short), Err(Broken::TimedOut(_))));
        let stop = AtomicBool::new(true);
        let long = Duration::from_secs(3600);
        assert!(matches!(
            channel.receive(long, Some(&stop)),
            Err(Broken::Stopped)
        ));
        // More than a pipe holds, and nobody reads.
        let sent = channel.send(&vec![0; 1 << 20], Duration::from_millis(50));
        assert!(matches!(sent, Err(Broken::TimedOut(_))));
        drop(other);
        assert!(matches!(channel.send(b"x", long), Err(Broken::Closed)));
        drop(writer);
        assert!(matches!(channel.receive(long, None), Err(Broken::Closed)));
    }

    #[test]
    fn noise_without_end_is_refused() {
        let (reader, writer) = pipe().unwrap();
        let (other, output) = pipe().unwrap();
        let mut channel = Channel::new(reader, output);
        let mut noise = Channel::new(other, writer);
        let noisy = std::thread::spawn(move || {
            noise.send_bytes(&vec![b'x'; 2 * NOISE_MAX], Duration::from_secs(60))
        });
        let line = channel.line(Duration::from_secs(60));
        assert!(matches!(line, Err(Broken::Foreign(_))), "{line:?}");
        drop(channel);
        let _ = noisy.join().unwrap();
    }
}
