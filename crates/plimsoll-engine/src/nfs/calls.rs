// SPDX-License-Identifier: Apache-2.0
//! One call at a time on one connection, for file loops and for laying out: the call is sent again
//! when the connection breaks, and ends with an error when that takes too long.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::units::Nanos;
use plimsoll_nfs::wire::{self, RpcReply, RpcRequest};
use plimsoll_nfs::{NfsFileHandle, NfsMount, RpcConnection, StableHow};

use super::pipe::NfsTimeouts;
use crate::clock::RunClock;
use crate::sys::clock::HostClock;
use crate::sys::clock::nap;

/// Tells whether a server may have forgotten what is not durable.
pub(super) type NfsWriteVerifier = [u8; 8];

/// A connection for data.
#[derive(Debug)]
pub(super) struct NfsDataClient {
    share: Arc<NfsMount>,
    line: Option<RpcConnection>,
    number: u32,
    clock: HostClock,
    patience: NfsTimeouts,
}

/// The result of a read or a write.
#[derive(Debug, Clone, Copy)]
pub(super) struct NfsTransfer {
    pub bytes: usize,
    /// Whether a read has reached the end of the file.
    pub(super) end: bool,
    /// Of a write that is not durable yet.
    pub(super) unstable: Option<NfsWriteVerifier>,
}

impl NfsDataClient {
    pub(super) fn new(share: Arc<NfsMount>) -> Self {
        NfsDataClient {
            share,
            line: None,
            number: 0,
            clock: HostClock::start(),
            patience: NfsTimeouts::USUAL,
        }
    }

    /// Reads into `buffer`, at most what one call may move.
    pub(super) fn read(
        &mut self,
        file: &NfsFileHandle,
        offset: u64,
        buffer: &mut [u8],
    ) -> io::Result<NfsTransfer> {
        let limit = self.share.limits().read_bytes;
        let len = u32::try_from(buffer.len()).unwrap_or(u32::MAX).min(limit);
        let ask = RpcRequest::Read { offset, len };
        self.call(file, ask, len, &[], |answer| match answer {
            RpcReply::Read { data, end } => {
                buffer[..data.len()].copy_from_slice(data);
                Some(NfsTransfer {
                    bytes: data.len(),
                    end: end || data.is_empty(),
                    unstable: None,
                })
            }
            _ => None,
        })
    }

    /// Writes all of `data`. Gives the verifier of what is not durable, of which there must be one.
    pub(super) fn write_all(
        &mut self,
        file: &NfsFileHandle,
        offset: u64,
        data: &[u8],
        stable: StableHow,
    ) -> io::Result<Option<NfsWriteVerifier>> {
        let limit = self.share.limits().write_bytes as usize;
        let (mut done, mut verifier) = (0, None);
        while done < data.len() {
            let piece = &data[done..data.len().min(done + limit)];
            let ask = RpcRequest::Write {
                offset: offset + done as u64,
                stable,
            };
            let len = u32::try_from(piece.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
            let moved = self.call(file, ask, len, piece, written)?;
            if moved.bytes == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            if stable != StableHow::Unstable && moved.unstable.is_some() {
                return Err(io::Error::other(
                    "the server did not make a write durable as promised",
                ));
            }
            done += moved.bytes;
            verifier = agree(verifier, moved.unstable)?;
        }
        Ok(verifier)
    }

    /// Makes what was written durable. `before` is what the server said when it was.
    pub(super) fn commit(
        &mut self,
        file: &NfsFileHandle,
        before: Option<NfsWriteVerifier>,
    ) -> io::Result<()> {
        let found = self.call(file, RpcRequest::Commit, 0, &[], |answer| match answer {
            RpcReply::Committed { verifier } => Some(verifier),
            _ => None,
        })?;
        agree(before, Some(found)).map(drop)
    }

    fn call<T>(
        &mut self,
        file: &NfsFileHandle,
        ask: RpcRequest,
        asked: u32,
        data: &[u8],
        mut accept: impl FnMut(RpcReply<'_>) -> Option<T>,
    ) -> io::Result<T> {
        self.number = self.number.wrapping_add(1);
        let deadline = self.clock.now() + self.patience.operation;
        // Ends at the deadline at the latest.
        loop {
            let once = self.attempt(file, ask, asked, data, &mut accept);
            let Err(error) = once else { return once };
            let of_server = error.raw_os_error().is_some() && self.line.is_some();
            let busy = error.raw_os_error() == Some(rustix::io::Errno::AGAIN.raw_os_error());
            if of_server && !busy || error.kind() == io::ErrorKind::InvalidData {
                self.line = self.line.take().filter(|_| of_server);
                return Err(error);
            }
            if !of_server {
                self.line = None;
            }
            if self.clock.now() >= deadline {
                return Err(error);
            }
            nap(self.patience.pause);
        }
    }

    /// Sends the call and waits for its answer. An error of the server leaves the line as it is.
    fn attempt<T>(
        &mut self,
        file: &NfsFileHandle,
        ask: RpcRequest,
        asked: u32,
        data: &[u8],
        accept: &mut impl FnMut(RpcReply<'_>) -> Option<T>,
    ) -> io::Result<T> {
        let line = match &mut self.line {
            Some(line) => line,
            none => {
                let limits = self.share.limits();
                let len_max = limits.read_bytes.max(limits.write_bytes);
                let limit = Duration::from_nanos(self.patience.dial.0);
                none.insert(self.share.line(len_max, 1, limit)?)
            }
        };
        line.queue(self.number, file, ask, data);
        let deadline = self.clock.now() + self.patience.call;
        // Ends at the deadline at the latest.
        let answer = loop {
            let turned = line.turn();
            let taken = match turned {
                Ok(()) => line.take(),
                Err(error) => Err(error),
            };
            match taken {
                Err(error) => {
                    self.line = None;
                    return Err(error);
                }
                Ok(Some((number, record))) => {
                    if number != self.number {
                        self.line = None;
                        return Err(
                            wire::RpcReplyError("it answered a request that was not sent").into(),
                        );
                    }
                    break wire::answer(record, ask, asked)?;
                }
                Ok(None) => {}
            }
            let left = deadline.since(self.clock.now());
            if left == Nanos(0) {
                self.line = None;
                return Err(io::ErrorKind::TimedOut.into());
            }
            line.wait(Duration::from_nanos(left.0))?;
        };
        match answer {
            RpcReply::Failed(errno) => Err(io::Error::from_raw_os_error(errno)),
            other => accept(other)
                .ok_or_else(|| wire::RpcReplyError("the answer to something else").into()),
        }
    }
}

fn written(answer: RpcReply<'_>) -> Option<NfsTransfer> {
    match answer {
        RpcReply::Written {
            count,
            committed,
            verifier,
        } => Some(NfsTransfer {
            bytes: count as usize,
            end: false,
            unstable: (committed == StableHow::Unstable).then_some(verifier),
        }),
        _ => None,
    }
}

/// Both, if they are the same: else the server may have forgotten what it had answered.
pub(super) fn agree(
    before: Option<NfsWriteVerifier>,
    now: Option<NfsWriteVerifier>,
) -> io::Result<Option<NfsWriteVerifier>> {
    match (before, now) {
        (Some(before), Some(now)) if before != now => Err(io::Error::other(
            "the server was restarted before written data were durable; they may be lost",
        )),
        (before, now) => Ok(now.or(before)),
    }
}
