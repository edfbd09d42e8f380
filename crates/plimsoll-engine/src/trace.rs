// SPDX-License-Identifier: Apache-2.0
//! The operations of a workload in order, without doing them: so that a definition can be held
//! against its original operation by operation.
//!
//! The real sources play against a simulated disk on which everything takes a microsecond; all
//! threads take part, since they share files, events and signals, and one of them is written down.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::op::{Kind, Request, Sample};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::files::Over;
use plimsoll_core::workload::series::Body;
use plimsoll_core::workload::{FileLoop, Workload};

use crate::clock::SimClock;
use crate::drive::{Limits, drive};
use crate::engine::Engine;
use crate::error::Error;
use crate::file_loop::{FileLoopSource, Play, check};
use crate::recorder::Recorder;
use crate::sim::{Law, SimDisk};
use crate::source::{Next, Source};
use crate::trees::{Known, Trees};

/// Operations of all threads after which a thread is given up that does not get on.
const OPS_MAX: u64 = 20_000_000;

/// One operation of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedOp {
    /// Which phase of a series, from 0; 0 for other workloads.
    pub phase: u32,
    /// What is done.
    pub kind: Kind,
    /// Path of the file below the directory of the workload; empty for [`Kind::SyncAll`].
    pub file: String,
    /// Byte offset, where the kind has one.
    pub offset: u64,
    /// Bytes that move. For an append the drawn size, for a whole file its size.
    pub len: u32,
}

/// The first `count` operations of the first thread of group `group` of a workload; of a series, of
/// each phase that has such a group.
///
/// # Errors
/// When the workload does not make sense, or is one whose operations cannot be said beforehand.
pub fn trace_ops(
    workload: &Workload,
    group: u32,
    seed: Seed,
    count: usize,
) -> Result<Vec<TracedOp>, Error> {
    let mut known = Known::new();
    match workload {
        Workload::Files(files) => trace_loop(files, (0, group), seed, count, &mut known),
        Workload::Series(series) => {
            let mut traced = Vec::new();
            for (phase, body) in (0..).zip(series.phases.iter().map(|phase| &phase.body)) {
                let Body::Files(files) = body else {
                    return Err(no_trace(&series.phases[phase as usize].name));
                };
                traced.extend(trace_loop(files, (phase, group), seed, count, &mut known)?);
            }
            Ok(traced)
        }
        other => Err(no_trace(other.name())),
    }
}

fn no_trace(name: &str) -> Error {
    Error::Workload(format!(
        "'{name}' is no loop of file operations, and only those are traced"
    ))
}

fn trace_loop(
    files: &FileLoop,
    (phase, group): (u32, u32),
    seed: Seed,
    count: usize,
    known: &mut Known,
) -> Result<Vec<TracedOp>, Error> {
    check(files)?;
    let threads = files.threads();
    let before = files.groups.iter().take(group as usize);
    let thread: u32 = before.map(|group| group.threads).sum();
    let trees = Arc::new(Trees::new(files, seed, known));
    let play = Arc::new(Play::new(files, Arc::clone(&trees)));
    let mut source = Watched {
        inner: play.source((0, threads), Nanos::MAX, None, seed)?,
        trees,
        thread,
        phase,
        count,
        // Later phases need the files of one that goes over them.
        to_the_end: files.over != Over::Rotor,
        ops_left: OPS_MAX,
        traced: Vec::new(),
    };
    let clock = SimClock::new();
    let disk = SimDisk {
        service: Nanos(1_000),
        ns_per_byte: 0.0,
        servers: threads,
        law: Law::Constant,
    };
    let mut engine: Box<dyn Engine> = Box::new(disk.engine(threads, clock.clone(), seed));
    let mut recorder = Recorder::new(Nanos(0), ());
    let limits = Limits::simulated(Nanos::MAX);
    let go = AtomicBool::new(false);
    drive(
        engine.as_mut(),
        &clock,
        &mut source,
        &mut recorder,
        limits,
        &go,
    )?;
    Ok(std::mem::take(&mut source.traced))
}

/// A source of which one thread is watched.
struct Watched {
    inner: FileLoopSource,
    trees: Arc<Trees>,
    thread: u32,
    phase: u32,
    count: usize,
    to_the_end: bool,
    ops_left: u64,
    traced: Vec<TracedOp>,
}

impl Watched {
    fn write_down(&mut self, request: &Request) {
        let file = match request.kind {
            Kind::SyncAll => String::new(),
            _ => self.trees.path(request.file),
        };
        self.traced.push(TracedOp {
            phase: self.phase,
            kind: request.kind,
            file,
            offset: request.offset,
            len: request.len,
        });
    }
}

impl Source for Watched {
    fn next(&mut self, now: Nanos, slot: u32) -> Result<Next, Error> {
        let enough = self.traced.len() >= self.count && !self.to_the_end;
        if enough || self.ops_left == 0 {
            return Ok(Next::End);
        }
        self.inner.next(now, slot)
    }

    fn completed(&mut self, slot: u32, sample: &Sample) {
        self.ops_left = self.ops_left.saturating_sub(1);
        if self.inner.holder(slot) == Some(self.thread) && self.traced.len() < self.count {
            self.write_down(&sample.request);
        }
        self.inner.completed(slot, sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::comparison::Metric;
    use plimsoll_core::workload::blocks::Blocks;
    use plimsoll_core::workload::files::{FileOp, FileSet, LoopGroup, LoopOp, Order, Sizes, Tree};
    use plimsoll_core::workload::series::{Phase, Series};

    /// A phase over eight files of two threads, each with a directory of its own.
    fn phase(name: &str, ops: &[FileOp], made_earlier: bool) -> Phase {
        let set = FileSet {
            prealloc: 0.0,
            tree: Tree::Even(2),
            made_earlier,
            ..FileSet::flat("set", 8, 100, Sizes::Constant)
        };
        let group = LoopGroup {
            name: "group".into(),
            threads: 2,
            ops: ops.iter().copied().map(LoopOp::from).collect(),
            direct: false,
            sync: false,
        };
        Phase {
            name: name.into(),
            body: Body::Files(FileLoop {
                name: name.into(),
                sets: vec![set],
                groups: vec![group],
                over: Over::Each(Order::Numbered),
                events_per_s: None,
                sync_at_end: false,
            }),
            metric: Metric::OpsPerSecond,
            stonewall: false,
            limit: None,
            cold: false,
        }
    }

    #[test]
    fn a_series_is_traced_phase_by_phase_on_the_same_files() {
        let whole = FileOp::WriteWhole { piece_bytes: 64 };
        let create = [FileOp::Create, whole, FileOp::Close];
        let series = Workload::Series(Series {
            name: "series".into(),
            classic: None,
            phases: vec![
                phase("create", &create, false),
                phase("stat", &[FileOp::Stat], true),
                phase("delete", &[FileOp::Delete], true),
            ],
        });
        let traced = trace_ops(&series, 0, Seed(1), 100).unwrap();
        let short = |op: &TracedOp| format!("{} {} {} {}", op.phase, op.kind, op.file, op.len);
        let lines: Vec<String> = traced.iter().map(short).collect();
        assert_eq!(lines.len(), 4 * (3 + 1 + 1), "{lines:?}");
        assert_eq!(lines[0], "0 create set/00000000/00000000 0");
        assert_eq!(lines[4], "0 write_whole set/00000000/00000001 100");
        assert_eq!(lines[12], "1 stat set/00000000/00000000 0");
        assert_eq!(lines[19], "2 delete set/00000000/00000003 0");
    }

    #[test]
    fn what_is_no_file_loop_is_refused_by_name() {
        let blocks = Workload::Blocks(Blocks::random("randread", 1.0));
        let error = trace_ops(&blocks, 0, Seed(1), 1).unwrap_err().to_string();
        assert!(error.contains("'randread'"), "{error}");
    }
}
