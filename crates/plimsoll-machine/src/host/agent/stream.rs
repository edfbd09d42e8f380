// SPDX-License-Identifier: Apache-2.0
//! The stream of messages: a pipe each way, or a connection that brings its own way of reading.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A stream each way. Reads and writes may fail with [`io::ErrorKind::WouldBlock`]: then they are tried
/// again once the descriptor is ready.
pub trait AgentStream: fmt::Debug + Send {
    /// The descriptor to wait on before a read.
    fn input(&self) -> BorrowedFd<'_>;

    /// The descriptor to wait on before a write.
    fn output(&self) -> BorrowedFd<'_>;

    /// Whether a read would give something that has come already.
    fn holds_input(&self) -> bool {
        false
    }

    /// Reads what has come; 0 at the end.
    ///
    /// # Errors
    /// When nothing can be read.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize>;

    /// Takes some of these bytes.
    ///
    /// # Errors
    /// When none can be taken.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Sends what was taken and has not gone yet.
    ///
    /// # Errors
    /// When some of it could not go.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AgentStream for Box<dyn AgentStream> {
    fn input(&self) -> BorrowedFd<'_> {
        (**self).input()
    }

    fn output(&self) -> BorrowedFd<'_> {
        (**self).output()
    }

    fn holds_input(&self) -> bool {
        (**self).holds_input()
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (**self).read(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (**self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }
}

/// A pipe each way.
#[derive(Debug)]
pub(crate) struct AgentPipes<R, W> {
    pub(super) input: R,
    pub(super) output: W,
}

impl<R: AsFd + fmt::Debug + Send, W: AsFd + fmt::Debug + Send> AgentStream for AgentPipes<R, W> {
    fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.input, bytes)?)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.output, bytes)?)
    }
}
