// SPDX-License-Identifier: Apache-2.0
//! Threads that repeat a list of file operations: a closed loop over a shared file set.
//!
//! Each slot of the engine is one thread of the loop and has its own place in the list, its own
//! open file and its own random numbers; on a real directory every thread has an engine of one
//! slot. An operation is meant to start when the one before it in the same thread has ended, so
//! drawing the bytes of an append (some microseconds) is part of its lag and response time.

mod check;

use std::sync::Arc;

use plimsoll_core::num::saturating_u32;
use plimsoll_core::op::{Kind, Request, Sample};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::files::FileOp;

use crate::engine::fill_random;
use crate::error::Error;
use crate::fileset::{Fileset, Pick};
use crate::source::{Next, Source};

pub use check::{check, len_max};

/// When all files that a thread could use have been busy for so long, the target hangs.
const BUSY_MAX: Nanos = Nanos(5_000_000_000);

/// The source of one or more threads of a
/// [`FileLoop`](plimsoll_core::workload::FileLoop).
#[derive(Debug)]
pub struct FileLoopSource {
    ops: Arc<[FileOp]>,
    set: Arc<Fileset>,
    threads: Vec<Thread>,
    end: Nanos,
    /// Whether there are no files behind the set, so that sizes must come from it.
    imagined: bool,
}

#[derive(Debug)]
struct Thread {
    /// Index of the next operation.
    place: usize,
    /// The file it has open.
    open: Option<u32>,
    /// The file it has picked and must release.
    picked: Option<u32>,
    free_since: Nanos,
    /// Since when every file it could use has been busy.
    blocked_since: Option<Nanos>,
    rng: Rng,
    /// Of the bytes it appends.
    contents: Rng,
}

/// What became of an operation of the list.
enum Turn {
    Request(Request),
    /// It is left out.
    LeftOut,
    /// Every file it could use is busy.
    Busy(Pick),
}

impl FileLoopSource {
    /// Threads `first..first + slots` of the loop `ops` on `set`, until `end`. `imagined` sets
    /// have no files behind them.
    #[must_use]
    pub fn new(
        ops: Arc<[FileOp]>,
        set: Arc<Fileset>,
        (first, slots): (u32, u32),
        end: Nanos,
        imagined: bool,
        seed: Seed,
    ) -> Self {
        let thread = |number: u32| Thread {
            place: 0,
            open: None,
            picked: None,
            free_since: Nanos(0),
            blocked_since: None,
            rng: Rng::new(seed.derive("file loop", u64::from(number))),
            contents: Rng::new(seed.derive("appended bytes", u64::from(number))),
        };
        FileLoopSource {
            ops,
            set,
            threads: (first..first + slots).map(thread).collect(),
            end,
            imagined,
        }
    }

    fn turn(&mut self, slot: u32, op: FileOp) -> Result<Turn, Error> {
        let thread = &mut self.threads[slot as usize];
        let pick = match op {
            FileOp::Delete | FileOp::Open | FileOp::Stat => Some(Pick::Existing),
            FileOp::Create => Some(Pick::Missing),
            _ => None,
        };
        if let Some(pick) = pick {
            thread.picked = self.set.pick(pick)?;
            if thread.picked.is_none() {
                return Ok(Turn::Busy(pick));
            }
        }
        let file = thread.picked.or(thread.open).expect("the list was checked");
        if op == FileOp::Delete && self.set.open_count(file) > 0 {
            self.set.release(file);
            thread.picked = None;
            return Ok(Turn::LeftOut);
        }
        let (kind, len) = match op {
            FileOp::Delete => (Kind::Delete, 0),
            FileOp::Create => (Kind::Create, 0),
            FileOp::Open => (Kind::Open, 0),
            FileOp::Close => (Kind::Close, 0),
            FileOp::Stat => (Kind::Stat, 0),
            FileOp::Fsync => (Kind::Fsync, 0),
            FileOp::AppendRandom { bytes } => {
                let size = thread.rng.below(u64::from(bytes.max(1)));
                (Kind::Append, saturating_u32(size))
            }
            FileOp::ReadWhole { piece_bytes } if self.imagined => {
                let size = saturating_u32(self.set.size_bytes(file));
                (Kind::ReadWhole, size.min(piece_bytes))
            }
            FileOp::ReadWhole { piece_bytes } => (Kind::ReadWhole, piece_bytes),
            other => return Err(Error::Workload(format!("{other:?} is not run here"))),
        };
        Ok(Turn::Request(Request {
            kind,
            file,
            offset: 0,
            len,
            intended_at: thread.free_since,
        }))
    }
}

impl FileLoopSource {
    /// What to do while every file that `pick` could give is in use.
    fn blocked(&mut self, slot: u32, now: Nanos, pick: Pick) -> Result<Next, Error> {
        if self.imagined {
            // Whoever holds the files is a thread of this source with an operation in flight.
            return Ok(Next::Wait);
        }
        let since = *self.threads[slot as usize].blocked_since.get_or_insert(now);
        let waited = now.since(since);
        if waited > BUSY_MAX {
            return Err(Error::FilesBusy {
                wanted: pick.name(),
                entries: self.set.entries(),
                waited,
            });
        }
        std::thread::yield_now();
        Ok(Next::Again)
    }
}

impl Source for FileLoopSource {
    fn next(&mut self, now: Nanos, slot: u32) -> Result<Next, Error> {
        if now >= self.end {
            return Ok(Next::End);
        }
        // At most one turn through the list: then every operation has been left out.
        for _ in 0..self.ops.len() {
            let thread = &mut self.threads[slot as usize];
            let op = self.ops[thread.place];
            let turn = self.turn(slot, op)?;
            if let Turn::Busy(pick) = turn {
                return self.blocked(slot, now, pick);
            }
            let thread = &mut self.threads[slot as usize];
            thread.place = (thread.place + 1) % self.ops.len();
            thread.blocked_since = None;
            if let Turn::Request(request) = turn {
                return Ok(Next::Request(request));
            }
        }
        Err(Error::NoFile {
            wanted: "a file that is not open",
            entries: self.set.entries(),
        })
    }

    /// The buffer may hold what was just read: appending that would be a gift to storage that
    /// compresses or deduplicates.
    fn fill(&mut self, slot: u32, _request: &Request, bytes: &mut [u8]) {
        fill_random(bytes, &mut self.threads[slot as usize].contents);
    }

    fn completed(&mut self, slot: u32, sample: &Sample) {
        let thread = &mut self.threads[slot as usize];
        thread.free_since = sample.completed_at;
        let (kind, file) = (sample.request.kind, sample.request.file);
        match (kind, sample.result) {
            (Kind::Create | Kind::Open, Ok(_)) => {
                self.set.opened(file);
                thread.open = Some(file);
            }
            (Kind::Delete, Ok(_)) => self.set.deleted(file),
            (Kind::Create | Kind::Open, Err(_)) => {
                // Nothing is open, so the operations that follow mean nothing: start over.
                self.set.release(file);
                thread.place = 0;
            }
            (Kind::Delete | Kind::Stat, _) => self.set.release(file),
            (Kind::Close, _) => {
                self.set.closed(file);
                thread.open = None;
            }
            (Kind::Append, Ok(bytes)) => self.set.grew(file, bytes),
            _ => {}
        }
        thread.picked = None;
    }
}

impl Drop for FileLoopSource {
    fn drop(&mut self) {
        for thread in &mut self.threads {
            if let Some(file) = thread.picked.take() {
                self.set.release(file);
            }
            // The engine's file is closed when the engine is dropped.
            if let Some(file) = thread.open.take() {
                self.set.closed(file);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::workload::FileLoop;

    fn source(ops: &[FileOp], entries: u32) -> (FileLoopSource, Arc<Fileset>) {
        source_on(ops, entries, true)
    }

    fn source_on(ops: &[FileOp], entries: u32, imagined: bool) -> (FileLoopSource, Arc<Fileset>) {
        let files = FileLoop::varmail().files;
        let files = plimsoll_core::workload::FileSet {
            entries,
            prealloc: 1.0,
            ..files
        };
        let set = Arc::new(Fileset::new(&files, Seed(1)));
        let (shared, end) = (Arc::clone(&set), Nanos::MAX);
        let source = FileLoopSource::new(ops.into(), shared, (0, 2), end, imagined, Seed(1));
        (source, set)
    }

    fn request(source: &mut FileLoopSource, slot: u32) -> Request {
        match source.next(Nanos(5), slot).unwrap() {
            Next::Request(request) => request,
            other => panic!("{other:?}"),
        }
    }

    fn end(source: &mut FileLoopSource, slot: u32, request: Request, result: Result<u64, i32>) {
        let sample = Sample {
            request,
            submitted_at: Nanos(6),
            completed_at: Nanos(9),
            result,
        };
        source.completed(slot, &sample);
    }

    #[test]
    fn deleting_a_file_that_is_open_elsewhere_is_left_out_and_not_counted() {
        let ops = [FileOp::Open, FileOp::Fsync, FileOp::Close, FileOp::Delete];
        let (mut source, set) = source(&ops, 1);
        let open = request(&mut source, 0);
        end(&mut source, 0, open, Ok(0));
        for expect in [Kind::Open, Kind::Fsync, Kind::Close, Kind::Open] {
            let next = request(&mut source, 1);
            assert_eq!(next.kind, expect, "a delete became no operation");
            end(&mut source, 1, next, Ok(0));
        }
        assert!(set.exists(0));
        assert_eq!(set.open_count(0), 2);
        drop(source);
        assert_eq!(
            set.open_count(0),
            0,
            "a source takes its open files with it"
        );
    }

    #[test]
    fn an_operation_is_meant_to_start_when_the_one_before_it_ended() {
        let append = FileOp::AppendRandom { bytes: 1 };
        let (mut source, set) = source(&[FileOp::Open, append, FileOp::Close], 1);
        let (before, open) = (set.size_bytes(0), request(&mut source, 0));
        assert_eq!(open.intended_at, Nanos(0));
        end(&mut source, 0, open, Ok(0));
        let append = request(&mut source, 0);
        assert_eq!((append.intended_at, append.len), (Nanos(9), 0));
        assert_eq!(append.kind, Kind::Append, "no bytes are an operation too");
        end(&mut source, 0, append, Ok(0));
        assert_eq!(set.size_bytes(0), before);
    }

    #[test]
    fn a_failed_open_starts_the_list_again_and_keeps_the_set_right() {
        let (mut source, set) = source(&[FileOp::Open, FileOp::Fsync, FileOp::Close], 1);
        let open = request(&mut source, 0);
        end(&mut source, 0, open, Err(2));
        assert_eq!(set.open_count(0), 0);
        assert_eq!(request(&mut source, 0).kind, Kind::Open);
    }

    #[test]
    fn a_thread_whose_files_are_all_busy_waits_and_gives_up_in_the_end() {
        let ops = [FileOp::Open, FileOp::Close];
        let after = |since: Nanos, seconds| since + Nanos(seconds * Nanos::SECOND.0);
        let (mut imagined, _) = source(&ops, 1);
        request(&mut imagined, 0);
        assert_eq!(imagined.next(Nanos(5), 1).unwrap(), Next::Wait);
        let (mut real, _) = source_on(&ops, 1, false);
        let open = request(&mut real, 0);
        for seconds in [0, 4] {
            let next = real.next(after(Nanos(5), seconds), 1).unwrap();
            assert_eq!(next, Next::Again);
        }
        let error = real.next(after(Nanos(5), 6), 1).unwrap_err().to_string();
        assert!(
            error.contains("1 entries") && error.contains("hangs"),
            "{error}"
        );
        // Once the file is free the thread goes on where it was.
        end(&mut real, 0, open, Ok(0));
        assert_eq!(request(&mut real, 1).kind, Kind::Open);
    }

    #[test]
    fn appended_bytes_are_fresh_and_differ_between_threads() {
        let append = FileOp::AppendRandom { bytes: 4096 };
        let (mut source, _) = source(&[FileOp::Open, append, FileOp::Close], 1);
        let open = request(&mut source, 0);
        let mut read = |slot| {
            // What was read before lies in the buffer.
            let mut bytes = vec![7; 4096];
            source.fill(slot, &open, &mut bytes);
            bytes
        };
        let filled = [read(0), read(0), read(1)];
        for (i, bytes) in filled.iter().enumerate() {
            let sevens = bytes.iter().filter(|b| **b == 7).count();
            assert!(sevens < 64, "{sevens} bytes of what was read");
            assert!(filled[..i].iter().all(|other| other != bytes));
        }
    }
}
