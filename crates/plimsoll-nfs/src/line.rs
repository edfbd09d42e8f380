// SPDX-License-Identifier: Apache-2.0
//! One connection for READ, WRITE and COMMIT: many calls in flight, answers in any order.
//!
//! A line knows nothing of files that survive it: who uses it remembers what is unanswered, and
//! sends it again on the next line under the same numbers.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::dial::timespec;
use crate::wire::{self, CALL_EXTRA, NfsFileHandle, REPLY_EXTRA, RpcRecordScan, RpcRequest};

/// A connection.
#[derive(Debug)]
pub struct RpcConnection {
    socket: TcpStream,
    credential: Vec<u8>,
    out: Vec<u8>,
    sent: usize,
    inbox: Vec<u8>,
    /// Start of the bytes that arrived and are not taken: `inbox[taken..have]`.
    taken: usize,
    have: usize,
    record_max: usize,
}

impl RpcConnection {
    /// A line over a connection that does not block, for answers of at most `len_max` bytes of
    /// data, with room for `calls` calls of as many. `credential` is made by [`wire::credential`].
    pub fn new(socket: TcpStream, credential: Vec<u8>, len_max: u32, calls: u32) -> Self {
        let record_max = len_max as usize + REPLY_EXTRA;
        RpcConnection {
            socket,
            credential,
            out: Vec::with_capacity(calls as usize * (len_max as usize + CALL_EXTRA)),
            sent: 0,
            // Room for one whole record, and for most of what comes with it.
            inbox: vec![0; record_max * 2 + (64 << 10)],
            taken: 0,
            have: 0,
            record_max,
        }
    }

    /// Puts a call behind those that are not sent yet. `number` must differ from those of all calls
    /// that are unanswered.
    pub fn queue(&mut self, number: u32, handle: &NfsFileHandle, ask: RpcRequest, data: &[u8]) {
        wire::push_call(&mut self.out, number, &self.credential, handle, ask, data);
    }

    /// Whether calls wait to be sent.
    pub fn has_unsent(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Sends and fetches what can be without waiting. All that has arrived must have been taken.
    ///
    /// # Errors
    /// When the connection is broken or was closed: the line is of no more use.
    pub fn turn(&mut self) -> io::Result<()> {
        self.send()?;
        self.fetch()
    }

    /// Waits until something can be sent or has arrived, or the time is up.
    ///
    /// # Errors
    /// When the system cannot wait; a broken connection shows at the next [`RpcConnection::turn`].
    pub fn wait(&self, limit: Duration) -> io::Result<()> {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, self.has_unsent());
        let mut waiting = [PollFd::new(&self.socket, flags)];
        match poll(&mut waiting, Some(&timespec(limit))) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn send(&mut self) -> io::Result<()> {
        while self.has_unsent() {
            match self.socket.write(&self.out[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => self.sent += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    fn fetch(&mut self) -> io::Result<()> {
        if self.taken > 0 {
            self.inbox.copy_within(self.taken..self.have, 0);
            self.have -= self.taken;
            self.taken = 0;
        }
        // Whole records are taken before more is fetched, so this is a part of one.
        if self.have == self.inbox.len() {
            return Err(wire::RpcReplyError("a record in too many fragments").into());
        }
        match self.socket.read(&mut self.inbox[self.have..]) {
            Ok(0) => Err(io::Error::new(
                ErrorKind::UnexpectedEof,
                "the server closed the connection",
            )),
            Ok(n) => {
                self.have += n;
                Ok(())
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the next record that has arrived whole: the number of its call, and its bytes.
    ///
    /// # Errors
    /// When what arrived cannot be a record of ours: the line is of no more use.
    pub fn take(&mut self) -> io::Result<Option<(u32, &[u8])>> {
        let arrived = &mut self.inbox[..self.have];
        match wire::record(arrived, self.taken, self.record_max)? {
            RpcRecordScan::Nothing => Ok(None),
            RpcRecordScan::Record { start, end, next } => {
                self.taken = next;
                let record = &self.inbox[start..end];
                let number = wire::number_of(record);
                let number = number.ok_or(wire::RpcReplyError("a record without a number"))?;
                Ok(Some((number, record)))
            }
        }
    }
}
