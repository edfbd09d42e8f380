// SPDX-License-Identifier: Apache-2.0
//! One operation: what was asked, when it was meant to start, what became of it.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// How requests on a data file reach the kernel. File loops always use plain system calls, one thread
/// per loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EngineChoice {
    /// `io_uring` where it works, else plain system calls; these at once for one operation at a
    /// time through the page cache, as the classic programs do it.
    #[default]
    Auto,
    /// `io_uring`, or an error.
    Uring,
    /// Plain system calls: inline at depth 1, else on one thread per slot.
    Sync,
}

/// Kind of operation. The names are those of reports and files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OpKind {
    /// Read `len` bytes at `offset`.
    Read,
    /// Write `len` bytes at `offset`.
    Write,
    /// Write `len` bytes at the end of the file.
    Append,
    /// Make earlier writes of the file durable (fsync).
    Fsync,
    /// Open an existing file.
    Open,
    /// Create a file that does not exist, and open it.
    Create,
    /// Close a file.
    Close,
    /// Read a file from its start to its end in pieces of `len` bytes, the empty read at the
    /// end included.
    ReadWhole,
    /// Unlink a file.
    Delete,
    /// Ask for a file's attributes.
    Stat,
    /// Write a file from its start to its designated size in pieces of `len` bytes.
    WriteWhole,
    /// Make earlier written data of the file durable (fdatasync).
    Fdatasync,
    /// Start the write-back of the file's pages and wait for it (`sync_file_range`).
    SyncRange,
    /// Say that `len` bytes at `offset` are not needed any more.
    Discard,
    /// Make everything written on the machine durable (sync).
    SyncAll,
}

crate::named::named_variants! {
    OpKind, Display,
    /// The name in reports and files.
    name:
    Read => "read",
    Write => "write",
    Append => "append",
    Fsync => "fsync",
    Open => "open",
    Create => "create",
    Close => "close",
    ReadWhole => "read_whole",
    Delete => "delete",
    Stat => "stat",
    WriteWhole => "write_whole",
    Fdatasync => "fdatasync",
    SyncRange => "sync_range",
    Discard => "discard",
    SyncAll => "sync_all",
}

impl OpKind {
    /// Position in [`OpKind::ALL`], for tables indexed by kind.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }

    /// Whether bytes move from the target.
    #[must_use]
    pub fn is_read(self) -> bool {
        matches!(self, OpKind::Read | OpKind::ReadWhole)
    }

    /// Whether bytes move to the target.
    #[must_use]
    pub fn is_write(self) -> bool {
        matches!(self, OpKind::Write | OpKind::Append | OpKind::WriteWhole)
    }
}

/// Request of a workload: pure data, no buffers, no file descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpRequest {
    /// Kind of operation.
    pub kind: OpKind,
    /// Which file of the target: 0 where there is one, else its number there.
    pub file: u32,
    /// Byte offset, for [`OpKind::Read`] and [`OpKind::Write`].
    pub offset: u64,
    /// Bytes to move, or the piece size of [`OpKind::ReadWhole`].
    pub len: u32,
    /// When the operation was meant to start, on the run's clock. In a closed loop, the moment
    /// the operation before it ended (plus think time).
    pub intended_at: Nanos,
}

/// One finished operation.
#[derive(Debug, Clone, Copy)]
pub struct OpSample {
    /// The request.
    pub request: OpRequest,
    /// When it was submitted to the engine.
    pub submitted_at: Nanos,
    /// When the program could see that it had ended.
    pub completed_at: Nanos,
    /// Bytes moved, or the system's error number.
    pub result: Result<u64, i32>,
}

/// Operations of one kind that have the same three times, as those have that were submitted
/// together and seen to have ended together: each counts as if it were alone, at the cost of one.
#[derive(Debug, Clone, Copy)]
pub struct OpSampleBatch {
    /// Kind of operation.
    pub kind: OpKind,
    /// When they were meant to start.
    pub intended_at: Nanos,
    /// When they were submitted.
    pub submitted_at: Nanos,
    /// When the program could see that they had ended.
    pub completed_at: Nanos,
    /// How many.
    pub ops: u64,
    /// Bytes moved by those that succeeded.
    pub bytes: u64,
    /// How many failed.
    pub errors: u64,
}

impl OpSampleBatch {
    /// None, yet.
    pub const NONE: OpSampleBatch = OpSampleBatch {
        kind: OpKind::Read,
        intended_at: Nanos(0),
        submitted_at: Nanos(0),
        completed_at: Nanos(0),
        ops: 0,
        bytes: 0,
        errors: 0,
    };

    /// Only `sample`.
    #[inline]
    pub fn only(sample: &OpSample) -> Self {
        let mut alike = OpSampleBatch {
            kind: sample.request.kind,
            intended_at: sample.request.intended_at,
            submitted_at: sample.submitted_at,
            completed_at: sample.completed_at,
            ..OpSampleBatch::NONE
        };
        alike.count(sample.result);
        alike
    }

    /// Takes `sample` in, if it is like the others; whether it was.
    #[inline]
    pub fn take_in(&mut self, sample: &OpSample) -> bool {
        let like = self.ops > 0
            && self.intended_at == sample.request.intended_at
            && self.submitted_at == sample.submitted_at
            && self.completed_at == sample.completed_at
            && self.kind == sample.request.kind;
        if like {
            self.count(sample.result);
        }
        like
    }

    #[inline]
    fn count(&mut self, result: Result<u64, i32>) {
        self.ops += 1;
        match result {
            Ok(bytes) => self.bytes += bytes,
            Err(_) => self.errors += 1,
        }
    }
}

/// One operation of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TraceAccess {
    /// When it began, from the start of the trace.
    pub at: Nanos,
    /// Kind of operation.
    pub kind: OpKind,
    /// Where.
    pub offset: u64,
    /// How long.
    pub bytes: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_know_their_place_and_their_name() {
        for (index, kind) in OpKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), index);
            assert_eq!(
                serde_json::to_string(&kind).unwrap(),
                format!("\"{}\"", kind.name())
            );
        }
    }
}
