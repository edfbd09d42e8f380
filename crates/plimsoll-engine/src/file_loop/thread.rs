// SPDX-License-Identifier: Apache-2.0
//! One thread of a loop: its place in the list, its open files, and what it does next.

use plimsoll_core::num::saturating_u32;
use plimsoll_core::op::{OpKind, OpRequest, OpSample};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::files::{FileLoopOp, FileLoopOpenMode, FileOp};

use super::each::FileLoopShare;
use super::play::FileLoopRun;
use crate::error::{EngineError, FileShortage};
use crate::fileset::FilePickKind;

/// A file that a thread has open.
#[derive(Debug, Clone, Copy)]
struct FileLoopOpenFile {
    set: u32,
    file: u32,
    /// Where sequential reads and writes go on.
    position: u64,
}

/// An operation that has not ended.
#[derive(Debug, Clone, Copy)]
struct FileLoopInFlight {
    kind: OpKind,
    set: u32,
    file: u32,
    /// Place among the open files, for operations on one.
    fd: usize,
    /// Place in the list.
    op: usize,
}

#[derive(Debug)]
pub(super) struct FileLoopThread {
    pub(super) number: u32,
    group: usize,
    /// Index of the next operation, and how often it was done.
    place: usize,
    repeated: u32,
    /// Open files by number; then, set by set, one for each file of the sets that are used in turn.
    open: Vec<Option<FileLoopOpenFile>>,
    /// By set, where its files begin in `open`, and whose turn it is.
    rotating: Vec<(usize, u32)>,
    flight: Option<FileLoopInFlight>,
    /// The rest of its share, and the file it is at.
    share: Option<FileLoopShare>,
    current: Option<u32>,
    pub(super) free_since: Nanos,
    /// Since when every file it could use has been busy.
    pub(super) blocked_since: Option<Nanos>,
    /// Whether it has asked for the posts it awaits.
    awaiting: bool,
    /// Bytes and operations since it last took events for them.
    moved_bytes: u64,
    n_done: u64,
    /// Operations and bytes by place in the list.
    done: Vec<FileLoopOpCounts>,
    /// Whether it has done its work.
    pub(super) has_left: bool,
    rng: Rng,
    /// Of the bytes it writes.
    pub(super) contents: Rng,
}

/// Operations and bytes done by an operation of the list.
#[derive(Debug, Clone, Copy, Default)]
struct FileLoopOpCounts {
    ops: u64,
    bytes: u64,
}

/// The outcome of an operation of the list.
#[derive(Debug, Clone, Copy)]
pub(super) enum FileLoopNext {
    Request(OpRequest),
    /// Nothing before this time.
    Later(Nanos),
    /// Something is in the way that only another thread can take away.
    Blocked(FileLoopBlocker),
    /// No operation, but something others may wait for.
    Signalled,
    /// It has done its work.
    Done,
    /// All have: the run is over.
    EndRun,
}

/// The obstacle in the way of a thread.
#[derive(Debug, Clone, Copy)]
pub(super) enum FileLoopBlocker {
    /// Posts that it has asked for and not got.
    Posts { signal: u32 },
    /// Those that await its post are too far behind.
    Room { signal: u32 },
    /// Every file of the set that it could use is busy.
    File { set: u32, pick: FilePickKind },
}

/// The same, where the operation may also be left out.
enum FileLoopNextOrSkip {
    Turn(FileLoopNext),
    LeftOut,
}

impl FileLoopThread {
    pub(super) fn new(
        play: &FileLoopRun,
        number: u32,
        share: Option<FileLoopShare>,
        seed: Seed,
    ) -> Self {
        let (index, group, _) = play.group(number);
        let listed = group.ops.iter().map(|op| op.fd as usize + 1);
        let mut end = listed.max().unwrap_or(0);
        let mut rotating = Vec::new();
        for set in 0..saturating_u32(play.files.sets.len() as u64) {
            rotating.push((end, 0));
            let is_used =
                |op: &FileLoopOp| op.opened == FileLoopOpenMode::Rotating && op.set == set;
            if group.ops.iter().any(is_used) {
                end += play.trees.set(set).entries() as usize;
            }
        }
        FileLoopThread {
            number,
            group: index,
            place: 0,
            repeated: 0,
            open: vec![None; end],
            rotating,
            flight: None,
            share,
            current: None,
            free_since: Nanos(0),
            blocked_since: None,
            awaiting: false,
            moved_bytes: 0,
            n_done: 0,
            done: vec![FileLoopOpCounts::default(); group.ops.len()],
            has_left: false,
            rng: Rng::new(seed.derive("file loop", u64::from(number))),
            contents: Rng::new(seed.derive("appended bytes", u64::from(number))),
        }
    }

    /// The next step of the thread. `imagined` sets have no files behind them.
    pub(super) fn next(
        &mut self,
        play: &FileLoopRun,
        imagined: bool,
        now: Nanos,
    ) -> Result<FileLoopNext, EngineError> {
        let ops = &play.files.groups[self.group].ops;
        // At most one turn through the list: then every operation has been left out.
        for _ in 0..=ops.len() {
            if self.place == 0 && self.current.is_none() && !self.begin(play) {
                return Ok(FileLoopNext::Done);
            }
            let op = ops[self.place];
            let step = if op.op.needs_open() {
                self.on_open(play, op, imagined)?
            } else if op.op.is_operation() {
                self.on_name(play, op)?
            } else {
                FileLoopNextOrSkip::Turn(self.between(play, op.op, now))
            };
            match step {
                FileLoopNextOrSkip::Turn(turn) => return Ok(turn),
                FileLoopNextOrSkip::LeftOut => self.advance(op, ops.len()),
            }
        }
        if self.share.is_some() {
            // Nothing could be done with this file; the next one may be better.
            return Ok(FileLoopNext::Later(now));
        }
        Err(EngineError::NoFile(FileShortage {
            wanted: "a file that is not open",
            entries: play.trees.set(0).entries(),
            busy_for: None,
        }))
    }

    /// Begins the list; whether there is something to do.
    fn begin(&mut self, play: &FileLoopRun) -> bool {
        let Some(share) = &mut self.share else {
            return true;
        };
        let ops = &play.files.groups[self.group].ops;
        let creates = ops
            .iter()
            .find(|op| op.set == 0 && op.op.is_operation())
            .is_some_and(|op| op.op == FileOp::Create);
        let pick = if creates {
            FilePickKind::Missing
        } else {
            FilePickKind::Existing
        };
        self.current = share.next(play.trees.set(0), pick);
        self.current.is_some()
    }

    fn advance(&mut self, op: FileLoopOp, len: usize) {
        self.repeated += 1;
        self.blocked_since = None;
        if self.repeated >= op.repeat {
            self.repeated = 0;
            self.place = (self.place + 1) % len;
            if self.place == 0 {
                self.current = None;
            }
        }
    }

    fn go_on(&mut self, play: &FileLoopRun) {
        let ops = &play.files.groups[self.group].ops;
        self.advance(ops[self.place], ops.len());
    }

    /// The step of a limit, delay, signal or end: it decides when the next operation is due.
    fn between(&mut self, play: &FileLoopRun, op: FileOp, now: Nanos) -> FileLoopNext {
        let events = match op {
            FileOp::Limit => 1,
            FileOp::LimitOps => std::mem::take(&mut self.n_done),
            FileOp::LimitBytes { bytes } => {
                let (bytes, moved) = (u64::from(bytes.max(1)), self.moved_bytes);
                self.moved_bytes = moved % bytes;
                moved / bytes
            }
            FileOp::Delay { ns } => {
                self.go_on(play);
                self.free_since = self.free_since + Nanos(ns);
                return FileLoopNext::Later(self.free_since);
            }
            FileOp::Post { signal } => {
                let posted = play.signals[signal as usize].post();
                let obstacle = (!posted).then_some(FileLoopBlocker::Room { signal });
                return self.signalled(play, obstacle, now);
            }
            FileOp::Await { signal, posts, .. } => {
                let awaited = &play.signals[signal as usize];
                if !self.awaiting {
                    self.awaiting = true;
                    awaited.ask(self.number, posts);
                    // Now there may be room for posts.
                    return FileLoopNext::Signalled;
                }
                self.awaiting = !awaited.is_given(self.number);
                let obstacle = self.awaiting.then_some(FileLoopBlocker::Posts { signal });
                return self.signalled(play, obstacle, now);
            }
            FileOp::EndAfter {
                amount,
                in_bytes,
                of,
            } => {
                let done = match of.and_then(|place| self.done.get(place as usize)) {
                    Some(done) => (done.ops, done.bytes),
                    None => play.done(),
                };
                // As in filebench, operations end the run at the amount, and bytes only above it.
                if in_bytes && done.1 > amount || !in_bytes && done.0 >= amount {
                    return FileLoopNext::EndRun;
                }
                self.go_on(play);
                return FileLoopNext::Later(self.free_since);
            }
            _ => 0,
        };
        self.go_on(play);
        if let (Some(bucket), 1..) = (&play.events, events) {
            self.free_since = self.free_since.max(bucket.take(now, events));
        }
        FileLoopNext::Later(self.free_since)
    }

    /// The time spent waiting for others belongs to no operation.
    fn signalled(
        &mut self,
        play: &FileLoopRun,
        obstacle: Option<FileLoopBlocker>,
        now: Nanos,
    ) -> FileLoopNext {
        if let Some(obstacle) = obstacle {
            self.blocked_since.get_or_insert(now);
            return FileLoopNext::Blocked(obstacle);
        }
        if self.blocked_since.is_some() {
            self.free_since = self.free_since.max(now);
        }
        self.go_on(play);
        FileLoopNext::Signalled
    }

    /// An operation that finds its file by name.
    fn on_name(
        &mut self,
        play: &FileLoopRun,
        op: FileLoopOp,
    ) -> Result<FileLoopNextOrSkip, EngineError> {
        let (kind, pick) = match op.op {
            FileOp::Create => (OpKind::Create, FilePickKind::Missing),
            FileOp::Open => (OpKind::Open, FilePickKind::Existing),
            FileOp::Delete => (OpKind::Delete, FilePickKind::Existing),
            _ => (OpKind::Stat, FilePickKind::Existing),
        };
        let fd = op.fd as usize;
        if matches!(kind, OpKind::Create | OpKind::Open) && self.open[fd].is_some() {
            return Ok(FileLoopNextOrSkip::LeftOut);
        }
        let set = play.trees.set(op.set);
        let picked = match self.current {
            Some(file) if op.set == 0 => {
                if !set.take(file, pick) {
                    return Ok(FileLoopNextOrSkip::LeftOut);
                }
                Some(file)
            }
            _ => set.pick(pick)?,
        };
        let Some(file) = picked else {
            let set = op.set;
            return Ok(FileLoopNextOrSkip::Turn(FileLoopNext::Blocked(
                FileLoopBlocker::File { set, pick },
            )));
        };
        if kind == OpKind::Delete && set.open_count(file) > 0 {
            set.release(file);
            return Ok(FileLoopNextOrSkip::LeftOut);
        }
        let (set, op) = (op.set, self.place);
        self.go_on(play);
        let flight = FileLoopInFlight {
            kind,
            set,
            file,
            fd,
            op,
        };
        Ok(self.request(play, flight, (0, 0)))
    }

    /// An operation on an open file, which is opened first where that was left to it.
    fn on_open(
        &mut self,
        play: &FileLoopRun,
        op: FileLoopOp,
        imagined: bool,
    ) -> Result<FileLoopNextOrSkip, EngineError> {
        let fd = match op.opened {
            FileLoopOpenMode::Rotating => {
                let (first, turn) = self.rotating[op.set as usize];
                first + (turn % play.trees.set(op.set).entries()) as usize
            }
            _ => op.fd as usize,
        };
        let Some(open) = self.open[fd] else {
            if op.opened == FileLoopOpenMode::Listed {
                // Its open has failed.
                return Ok(FileLoopNextOrSkip::LeftOut);
            }
            let set = op.set;
            return Ok(match play.trees.set(set).pick(FilePickKind::Existing)? {
                None => FileLoopNextOrSkip::Turn(FileLoopNext::Blocked(FileLoopBlocker::File {
                    set,
                    pick: FilePickKind::Existing,
                })),
                Some(file) => {
                    let flight = FileLoopInFlight {
                        kind: OpKind::Open,
                        set,
                        file,
                        fd,
                        op: self.place,
                    };
                    self.request(play, flight, (0, 0))
                }
            });
        };
        if op.opened == FileLoopOpenMode::Rotating {
            let turn = &mut self.rotating[op.set as usize].1;
            *turn = turn.wrapping_add(1);
        }
        let index = self.place;
        self.go_on(play);
        let (kind, place) = self.what(play, op, fd, open, imagined);
        let flight = FileLoopInFlight {
            kind,
            set: open.set,
            file: open.file,
            fd,
            op: index,
        };
        Ok(self.request(play, flight, place))
    }

    /// Kind, and offset and length in bytes, of an operation on an open file.
    fn what(
        &mut self,
        play: &FileLoopRun,
        op: FileLoopOp,
        fd: usize,
        open: FileLoopOpenFile,
        imagined: bool,
    ) -> (OpKind, (u64, u32)) {
        let set = play.trees.set(open.set);
        let size_bytes = set.size_bytes(open.file);
        let span = match op.span_bytes {
            0 => size_bytes,
            span => span.min(size_bytes),
        };
        // Where nothing is behind the set, the engine cannot know how much moves.
        let whole = |bytes: u64, piece: u32| {
            let bytes = saturating_u32(bytes);
            if imagined { bytes } else { bytes.min(piece) }
        };
        match op.op {
            FileOp::AppendRandom { bytes } => {
                let size = self.rng.below(u64::from(bytes.max(1)));
                (OpKind::Append, (0, saturating_u32(size)))
            }
            FileOp::Append { bytes } => (OpKind::Append, (0, bytes)),
            FileOp::WriteWhole { piece_bytes } => {
                let size_bytes = set.designated_bytes(open.file);
                (OpKind::WriteWhole, (0, whole(size_bytes, piece_bytes)))
            }
            FileOp::ReadWhole { .. } if imagined => (OpKind::ReadWhole, (0, whole(size_bytes, 0))),
            FileOp::ReadWhole { piece_bytes } => (OpKind::ReadWhole, (0, piece_bytes)),
            FileOp::Read { bytes, random } => {
                let place = if random {
                    self.random_block(span, bytes)
                } else {
                    self.next_piece(fd, span, bytes)
                };
                (OpKind::Read, place)
            }
            FileOp::Write { bytes, random } => {
                let offset = if random {
                    self.random_block(span, bytes).0
                } else {
                    self.next_write(fd, op.span_bytes, bytes)
                };
                (OpKind::Write, (offset, bytes))
            }
            FileOp::Fdatasync => (OpKind::Fdatasync, (0, 0)),
            FileOp::Close => (OpKind::Close, (0, 0)),
            _ => (OpKind::Fsync, (0, 0)),
        }
    }

    /// One of the whole blocks of a file; all of it when it has none.
    fn random_block(&mut self, span: u64, bytes: u32) -> (u64, u32) {
        match span / u64::from(bytes.max(1)) {
            0 => (0, saturating_u32(span)),
            blocks => (self.rng.below(blocks) * u64::from(bytes), bytes),
        }
    }

    /// The next piece to read: at the end an empty one, then from the start again.
    fn next_piece(&mut self, fd: usize, span: u64, bytes: u32) -> (u64, u32) {
        let Some(open) = &mut self.open[fd] else {
            return (0, 0);
        };
        let offset = open.position;
        let len = saturating_u32(span.saturating_sub(offset)).min(bytes);
        open.position = if len == 0 { 0 } else { offset + u64::from(len) };
        (offset, len)
    }

    /// Where is written next: beyond the end unless there is a span.
    fn next_write(&mut self, fd: usize, span: u64, bytes: u32) -> u64 {
        let Some(open) = &mut self.open[fd] else {
            return 0;
        };
        if span > 0 && open.position + u64::from(bytes) > span {
            open.position = 0;
        }
        let offset = open.position;
        open.position += u64::from(bytes);
        offset
    }

    fn request(
        &mut self,
        play: &FileLoopRun,
        flight: FileLoopInFlight,
        (offset, len): (u64, u32),
    ) -> FileLoopNextOrSkip {
        self.flight = Some(flight);
        FileLoopNextOrSkip::Turn(FileLoopNext::Request(OpRequest {
            kind: flight.kind,
            file: play.trees.number(flight.set, flight.file),
            offset,
            len,
            intended_at: self.free_since,
        }))
    }

    /// The last thread makes everything durable.
    pub(super) fn sync_all(&self) -> OpRequest {
        OpRequest {
            kind: OpKind::SyncAll,
            file: 0,
            offset: 0,
            len: 0,
            intended_at: self.free_since,
        }
    }

    /// Its operation has ended.
    pub(super) fn completed(&mut self, play: &FileLoopRun, sample: &OpSample) {
        self.free_since = sample.completed_at;
        self.n_done += 1;
        let Some(flight) = self.flight.take() else {
            return;
        };
        let FileLoopInFlight { set, file, fd, .. } = flight;
        let slots = play.trees.set(set);
        let request = &sample.request;
        let moved = match sample.result {
            Ok(bytes) if request.kind.is_read() || request.kind.is_write() => bytes,
            _ => 0,
        };
        self.moved_bytes += moved;
        let listed = &play.files.groups[self.group].ops[flight.op];
        // Opening a file that an operation needed first is none of the list.
        if request.kind != OpKind::Open || listed.op == FileOp::Open {
            let done = &mut self.done[flight.op];
            done.ops += 1;
            done.bytes += moved;
            play.count(moved);
        }
        match (request.kind, sample.result) {
            (OpKind::Create | OpKind::Open, Ok(_)) => {
                slots.opened(file);
                self.open[fd] = Some(FileLoopOpenFile {
                    set,
                    file,
                    position: 0,
                });
            }
            (OpKind::Delete, Ok(_)) => slots.deleted(file),
            (OpKind::Create | OpKind::Open | OpKind::Delete | OpKind::Stat, _) => {
                slots.release(file);
            }
            (OpKind::Close, _) => {
                slots.closed(file);
                self.open[fd] = None;
            }
            (OpKind::Append, Ok(bytes)) => slots.grew(file, bytes),
            (OpKind::Write, Ok(bytes)) => slots.reaches(file, request.offset + bytes),
            (OpKind::WriteWhole, Ok(_)) => slots.reaches(file, slots.designated_bytes(file)),
            _ => {}
        }
    }

    /// Gives back what it holds: the engine's files are closed when the engine is dropped.
    pub(super) fn let_go(&mut self, play: &FileLoopRun) {
        if let Some(flight) = self.flight.take()
            && let OpKind::Create | OpKind::Open | OpKind::Delete | OpKind::Stat = flight.kind
        {
            play.trees.set(flight.set).release(flight.file);
        }
        for open in self.open.iter_mut().filter_map(Option::take) {
            play.trees.set(open.set).closed(open.file);
        }
    }
}
