// SPDX-License-Identifier: Apache-2.0
//! The operations of a workload in order, without doing them: so that a definition can be held
//! against its original operation by operation.
//!
//! The real sources play against a simulated disk on which everything takes a microsecond; all
//! threads of a file loop take part, since they share files, events and signals, and one of them is
//! written down. Workers of block I/O take part where they share their work.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::model::{ReplayAddressSpace, WorkloadModel};
use plimsoll_core::num::{saturating_u32, to_usize};
use plimsoll_core::op::{OpKind, OpRequest, OpSample};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::blocks::{BlockIoExtent, BlockIoStopCondition};
use plimsoll_core::workload::files::FileLoopSelection;
use plimsoll_core::workload::series::PhaseWorkload;
use plimsoll_core::workload::{BlockIoWorkload, FileLoop, Workload};

use crate::blocks::{self, BlockIoSharedState, BlockIoSource, BlockIoSourceMux};
use crate::check::WorkloadChecker;
use crate::clock::SimClock;
use crate::drive::{DriverLimits, drive};
use crate::engine::IoEngine;
use crate::error::EngineError;
use crate::file_loop::{FileLoopRun, FileLoopSource};
use crate::ground::OpenTarget;
use crate::layout::data_file_name;
use crate::recorder::SampleRecorder;
use crate::sim::{SimQueueSpec, SimServiceDistribution};
use crate::source::{NextRequest, RequestSource};
use crate::trees::{FileLoopSets, FileSetsByName};

/// Operations of all threads after which a thread is given up that does not get on.
const OPS_MAX: u64 = 20_000_000;

/// One operation of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedOp {
    /// Which phase of a series, from 0; 0 for other workloads.
    pub phase: u32,
    /// The kind of operation.
    pub kind: OpKind,
    /// Path of the file below the directory of the workload; empty for [`OpKind::SyncAll`].
    pub file: String,
    /// Byte offset, where the kind has one.
    pub offset: u64,
    /// Bytes that move. For an append of a file loop the drawn size, for a whole file its size; 0
    /// where none move.
    pub len: u64,
}

/// Whose operations are traced, from 0: the group, and the worker or thread in it.
pub type WorkerId = (u32, u32);

/// The first `count` operations of one worker (or thread) of a workload; of a series, of each phase
/// that has such a one, with the seeds that its phases get from `seed` when it is played.
///
/// Operations of block I/O are in the order in which they are submitted, those of file loops in
/// the order in which they end. Neither warm-up nor limits of time count, nor stonewalls.
///
/// # Errors
/// When the workload does not make sense, has no such worker, or is one whose operations cannot be
/// said beforehand: programs. A fitted model has one worker; its places are those of the recording, or
/// drawn from `seed`.
pub fn trace_worker(
    workload: &Workload,
    who: WorkerId,
    seed: Seed,
    count: usize,
) -> Result<Vec<TracedOp>, EngineError> {
    check_who(workload, who)?;
    let ground = &OpenTarget::Sim(disk(1).into());
    WorkloadChecker { ground, align: 1 }.workload(workload)?;
    let mut known = FileSetsByName::new();
    match workload {
        Workload::Blocks(blocks) => trace_blocks(blocks, who, seed, count),
        Workload::Files(files) => trace_loop(files, who, seed, count, &mut known),
        Workload::Series(series) => {
            let mut traced = Vec::new();
            for (number, phase) in (0..).zip(&series.phases) {
                let seed = seed.derive("phase", number.into());
                let of_phase = match &phase.body {
                    PhaseWorkload::Blocks(blocks) => trace_blocks(blocks, who, seed, count)?,
                    PhaseWorkload::Files(files) => trace_loop(files, who, seed, count, &mut known)?,
                };
                let in_phase = |op| TracedOp {
                    phase: number,
                    ..op
                };
                traced.extend(of_phase.into_iter().map(in_phase));
            }
            Ok(traced)
        }
        Workload::Model(model) => Ok(trace_model(model, seed, count)),
        Workload::Commands(_) => Err(no_trace(workload)),
    }
}

/// The requests of a whole play, where they were recorded exactly as they were.
fn trace_model(model: &WorkloadModel, seed: Seed, count: usize) -> Vec<TracedOp> {
    const DRAWN_ALIGN_BYTES: u32 = 512;
    let align = model.requests.as_ref().map_or(DRAWN_ALIGN_BYTES, |_| 1);
    let played = model.play(
        &model.whole(1.0),
        &ReplayAddressSpace::AsRecorded,
        align,
        seed,
    );
    let op = |request: OpRequest| TracedOp {
        phase: 0,
        kind: request.kind,
        file: data_file_name(&BlockIoExtent::default().file, None),
        offset: request.offset,
        len: u64::from(request.len),
    };
    played.take(count).map(op).collect()
}

fn no_trace(workload: &Workload) -> EngineError {
    EngineError::Workload(format!(
        "the operations of '{}' are not traced: only those of models, block I/O and file loops are",
        workload.name()
    ))
}

/// Whether the workload, or one of its phases, has this worker.
fn check_who(workload: &Workload, who: WorkerId) -> Result<(), EngineError> {
    let has = match workload {
        Workload::Blocks(blocks) => blocks_have(blocks, who),
        Workload::Files(files) => files_have(files, who),
        Workload::Series(series) => series.phases.iter().any(|phase| match &phase.body {
            PhaseWorkload::Blocks(blocks) => blocks_have(blocks, who),
            PhaseWorkload::Files(files) => files_have(files, who),
        }),
        Workload::Model(_) => who == (0, 0),
        Workload::Commands(_) => return Err(no_trace(workload)),
    };
    if has {
        return Ok(());
    }
    let (name, (group, worker)) = (workload.name(), who);
    Err(EngineError::Workload(format!(
        "'{name}' has no worker {worker} in a group {group}; both are counted from 0"
    )))
}

fn blocks_have(blocks: &BlockIoWorkload, (group, worker): WorkerId) -> bool {
    let group = blocks.groups.get(to_usize(group.into()));
    group.is_some_and(|group| worker < group.workers)
}

fn files_have(files: &FileLoop, (group, worker): WorkerId) -> bool {
    let group = files.groups.get(to_usize(group.into()));
    group.is_some_and(|group| worker < group.threads)
}

/// The simulated disk: everything takes a microsecond, nothing waits for anything else.
fn disk(slots: u32) -> SimQueueSpec {
    SimQueueSpec {
        service: Nanos(1_000),
        ns_per_byte: 0.0,
        servers: slots,
        law: SimServiceDistribution::Constant,
    }
}

/// Plays a source in virtual time until it ends.
fn play<S: RequestSource>(source: &mut S, slots: u32, seed: Seed) -> Result<(), EngineError> {
    let clock = SimClock::new();
    let mut engine: Box<dyn IoEngine> = Box::new(disk(slots).engine(slots, clock.clone(), seed));
    let mut recorder = SampleRecorder::new(Nanos(0), ());
    let limits = DriverLimits::simulated(Nanos::MAX);
    let go_on = AtomicBool::new(false);
    let engine = engine.as_mut();
    drive(engine, &clock, source, &mut recorder, limits, &go_on)?;
    Ok(())
}

fn trace_blocks(
    blocks: &BlockIoWorkload,
    (group, worker): WorkerId,
    seed: Seed,
    count: usize,
) -> Result<Vec<TracedOp>, EngineError> {
    let number = to_usize(group.into());
    let asked = blocks.groups.get(number);
    let Some(asked) = asked.filter(|group| worker < group.workers) else {
        return Ok(Vec::new());
    };
    let common = BlockIoSharedState::new(blocks, false);
    let mut posts = blocks::posts(blocks, (Nanos(0), Nanos::MAX), seed, &common);
    // Only workers that share their work have a part in what the others do.
    let shares_work = matches!(asked.work, BlockIoStopCondition::Together(_));
    posts.retain(|post| post.group_number == number && (post.worker == worker || shares_work));
    let members = posts.iter().map(|post| {
        let depth = post.group.depth;
        (BlockIoSource::new(post, depth), depth)
    });
    let mut source = BlockIoTraceSource {
        inner: BlockIoSourceMux::new(members.collect()),
        place: if shares_work {
            to_usize(worker.into())
        } else {
            0
        },
        file: data_file_name(&asked.extent.file, (!asked.extent.shared).then_some(worker)),
        count,
        traced: Vec::new(),
    };
    let slots = posts.iter().map(|post| u64::from(post.group.depth)).sum();
    play(&mut source, saturating_u32(slots), seed)?;
    Ok(source.traced)
}

fn traced(request: &OpRequest, file: String) -> TracedOp {
    TracedOp {
        phase: 0,
        kind: request.kind,
        file,
        offset: request.offset,
        len: request.len.into(),
    }
}

/// Workers of a group of which one is watched.
struct BlockIoTraceSource {
    inner: BlockIoSourceMux,
    /// Of the watched one among them.
    place: usize,
    /// The file it works on.
    file: String,
    count: usize,
    traced: Vec<TracedOp>,
}

impl RequestSource for BlockIoTraceSource {
    fn next(&mut self, now: Nanos, slot: u32) -> Result<NextRequest, EngineError> {
        if self.traced.len() >= self.count {
            return Ok(NextRequest::End);
        }
        let next = self.inner.next(now, slot)?;
        if let NextRequest::Request(request) = &next
            && self.inner.holder(slot) == self.place
        {
            self.traced.push(traced(request, self.file.clone()));
        }
        Ok(next)
    }

    fn completed(&mut self, slot: u32, sample: &OpSample) {
        self.inner.completed(slot, sample);
    }
}

fn trace_loop(
    files: &FileLoop,
    (group, worker): WorkerId,
    seed: Seed,
    count: usize,
    known: &mut FileSetsByName,
) -> Result<Vec<TracedOp>, EngineError> {
    let threads = files.threads();
    let before = files.groups.iter().take(to_usize(group.into()));
    let before: u32 = before.map(|group| group.threads).sum();
    // A phase without such a worker is played all the same: later ones need its files.
    let thread = files_have(files, (group, worker)).then_some(before + worker);
    let trees = Arc::new(FileLoopSets::new(files, seed, known));
    let loops = Arc::new(FileLoopRun::new(files, Arc::clone(&trees)));
    let mut source = FileLoopTraceSource {
        inner: loops.source((0, threads), Nanos::MAX, None, seed)?,
        trees,
        thread,
        count,
        // Later phases need the files of one that goes over them.
        to_the_end: files.over != FileLoopSelection::Rotor,
        ops_left: OPS_MAX,
        traced: Vec::new(),
    };
    play(&mut source, threads, seed)?;
    Ok(source.traced)
}

/// A source of which one thread is watched.
struct FileLoopTraceSource {
    inner: FileLoopSource,
    trees: Arc<FileLoopSets>,
    thread: Option<u32>,
    count: usize,
    to_the_end: bool,
    ops_left: u64,
    traced: Vec<TracedOp>,
}

impl FileLoopTraceSource {
    fn write_down(&mut self, request: &OpRequest) {
        let file = match request.kind {
            OpKind::SyncAll => String::new(),
            _ => self.trees.path(request.file),
        };
        let mut op = traced(request, file);
        if request.len == u32::MAX {
            // Longer than a request can say: the set knows what was meant.
            op.len = match request.kind {
                OpKind::WriteWhole => self.trees.designated_bytes(request.file),
                OpKind::ReadWhole => self.trees.size_bytes(request.file),
                _ => op.len,
            };
        }
        self.traced.push(op);
    }
}

impl RequestSource for FileLoopTraceSource {
    fn next(&mut self, now: Nanos, slot: u32) -> Result<NextRequest, EngineError> {
        let enough = self.thread.is_none() || self.traced.len() >= self.count;
        let enough = enough && !self.to_the_end;
        if enough || self.ops_left == 0 {
            return Ok(NextRequest::End);
        }
        self.inner.next(now, slot)
    }

    fn completed(&mut self, slot: u32, sample: &OpSample) {
        self.ops_left = self.ops_left.saturating_sub(1);
        let is_watched = self.thread.is_some() && self.inner.holder(slot) == self.thread;
        if is_watched && self.traced.len() < self.count {
            self.write_down(&sample.request);
        }
        self.inner.completed(slot, sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::comparison::ComparisonMetric;
    use plimsoll_core::offsets::OffsetPattern;
    use plimsoll_core::workload::CommandWorkload;
    use plimsoll_core::workload::blocks::{
        BlockIoFinalOp, BlockIoGroup, BlockIoMixEntry, BlockIoOpKind,
    };
    use plimsoll_core::workload::files::{
        FileLoopGroup, FileLoopNoFilePolicy, FileLoopOp, FileLoopOrder, FileOp, FileSet,
        FileSizeDistribution, FileTreeLayout,
    };
    use plimsoll_core::workload::series::{PhaseSeries, PhaseSpec};

    /// A phase over eight files of two threads, each with a directory of its own.
    fn phase(name: &str, ops: &[FileOp], made_earlier: bool) -> PhaseSpec {
        let set = FileSet {
            prealloc: 0.0,
            tree: FileTreeLayout::Even(2),
            made_earlier,
            ..FileSet::flat("set", 8, 100, FileSizeDistribution::Constant)
        };
        let group = FileLoopGroup {
            name: "group".into(),
            threads: 2,
            ops: ops.iter().copied().map(FileLoopOp::from).collect(),
            direct: false,
            sync: false,
        };
        PhaseSpec {
            name: name.into(),
            body: PhaseWorkload::Files(FileLoop {
                name: name.into(),
                sets: vec![set],
                groups: vec![group],
                over: FileLoopSelection::Each(FileLoopOrder::Numbered),
                events_per_s: None,
                sync_at_end: false,
                without_file: FileLoopNoFilePolicy::Fail,
            }),
            metric: ComparisonMetric::OpsPerSecond,
            stonewall: false,
            limit: None,
            cold: false,
        }
    }

    #[test]
    fn a_series_is_traced_phase_by_phase_on_the_same_files() {
        let whole = FileOp::WriteWhole { piece_bytes: 64 };
        let create = [FileOp::Create, whole, FileOp::Close];
        let series = Workload::Series(PhaseSeries {
            name: "series".into(),
            classic: None,
            phases: vec![
                phase("create", &create, false),
                phase("stat", &[FileOp::Stat], true),
                phase("delete", &[FileOp::Delete], true),
            ],
        });
        let traced = trace_worker(&series, (0, 0), Seed(1), 100).unwrap();
        let short = |op: &TracedOp| format!("{} {} {} {}", op.phase, op.kind, op.file, op.len);
        let lines: Vec<String> = traced.iter().map(short).collect();
        assert_eq!(lines.len(), 4 * (3 + 1 + 1), "{lines:?}");
        assert_eq!(lines[0], "0 create set/00000000/00000000 0");
        assert_eq!(lines[4], "0 write_whole set/00000000/00000001 100");
        assert_eq!(lines[12], "1 stat set/00000000/00000000 0");
        assert_eq!(lines[19], "2 delete set/00000000/00000003 0");
    }

    #[test]
    fn a_whole_file_that_is_longer_than_a_request_can_say_has_its_size() {
        let (piece_bytes, huge) = (1 << 20, 10 << 30);
        let ops = [
            FileOp::Create,
            FileOp::WriteWhole { piece_bytes },
            FileOp::ReadWhole { piece_bytes },
            FileOp::Close,
        ];
        let mut huge_files = phase("huge", &ops, false);
        if let PhaseWorkload::Files(files) = &mut huge_files.body {
            files.sets[0].mean_bytes = huge;
        }
        let series = Workload::Series(PhaseSeries {
            name: "series".into(),
            classic: None,
            phases: vec![huge_files],
        });
        let traced = trace_worker(&series, (0, 0), Seed(1), 4).unwrap();
        let bytes: Vec<u64> = traced.iter().map(|op| op.len).collect();
        assert_eq!(bytes, [0, huge, huge, 0]);
    }

    fn blocks(change: impl FnOnce(&mut BlockIoGroup)) -> BlockIoWorkload {
        let mut group = BlockIoGroup {
            mix: vec![BlockIoMixEntry::of(BlockIoOpKind::Update, 4096)],
            offsets: OffsetPattern::Sequential,
            ..BlockIoGroup::default()
        };
        group.extent.bytes = 3 * 4096;
        change(&mut group);
        BlockIoWorkload {
            name: "blocks".into(),
            groups: vec![group],
        }
    }

    fn lines(workload: &Workload, group: u32, count: usize) -> Vec<String> {
        let traced = trace_worker(workload, (group, 0), Seed(1), count).unwrap();
        let line = |op: &TracedOp| format!("{} {} {} {}", op.kind, op.file, op.offset, op.len);
        traced.iter().map(line).collect()
    }

    #[test]
    fn blocks_are_traced_with_syncs_and_what_comes_last() {
        let syncs = |group: &mut BlockIoGroup| {
            group.workers = 2;
            group.work = BlockIoStopCondition::Pass;
            group.extent.shared = false;
            group.syncs.every = 2;
            group.finish = vec![BlockIoFinalOp::Fsync, BlockIoFinalOp::Close];
        };
        let expect = [
            "read plimsoll.data.0 0 4096",
            "write plimsoll.data.0 0 4096",
            "read plimsoll.data.0 4096 4096",
            "write plimsoll.data.0 4096 4096",
            "fsync plimsoll.data.0 0 0",
            "read plimsoll.data.0 8192 4096",
            "write plimsoll.data.0 8192 4096",
            "fsync plimsoll.data.0 0 0",
            "close plimsoll.data.0 0 0",
        ];
        for count in [3, 9, 100] {
            let found = lines(&Workload::Blocks(blocks(syncs)), 0, count);
            assert_eq!(found, expect[..count.min(9)]);
        }
    }

    #[test]
    fn the_asked_group_is_traced_and_those_who_share_its_work_take_theirs() {
        let mut two = blocks(|group| group.work = BlockIoStopCondition::Each(1));
        two.groups
            .extend(blocks(|group| group.name = "others".into()).groups);
        for (work, workers, ops) in [
            (BlockIoStopCondition::Together(12), 3, 8),
            (BlockIoStopCondition::Each(4), 3, 8),
            (BlockIoStopCondition::Time, 1, 50),
        ] {
            two.groups[1].work = work;
            two.groups[1].workers = workers;
            let workload = Workload::Blocks(two.clone());
            for worker in 0..workers {
                let found = trace_worker(&workload, (1, worker), Seed(1), 50).unwrap();
                assert_eq!(found.len(), ops, "{work:?}");
            }
            assert!(trace_worker(&workload, (1, workers), Seed(1), 50).is_err());
        }
        assert_eq!(lines(&Workload::Blocks(two.clone()), 0, 50).len(), 2);
    }

    #[test]
    fn a_series_may_have_phases_of_both_kinds() {
        let of_blocks = PhaseSpec {
            body: PhaseWorkload::Blocks(blocks(|group| group.work = BlockIoStopCondition::Pass)),
            ..phase("blocks", &[], false)
        };
        let series = Workload::Series(PhaseSeries {
            name: "series".into(),
            classic: None,
            phases: vec![
                phase("create", &[FileOp::Create, FileOp::Close], false),
                of_blocks,
                phase("delete", &[FileOp::Delete], true),
            ],
        });
        let traced = trace_worker(&series, (0, 0), Seed(1), 100).unwrap();
        let of = |phase| traced.iter().filter(|op| op.phase == phase).count();
        assert_eq!([of(0), of(1), of(2)], [8, 6, 4]);
    }

    #[test]
    fn what_cannot_be_traced_is_said() {
        let fine = Workload::Blocks(blocks(|_| ()));
        let idle = Workload::Blocks(blocks(|group| group.workers = 0));
        let empty = Workload::Blocks(blocks(|group| group.extent.bytes = 1));
        let programs = Workload::Commands(CommandWorkload {
            name: "programs".into(),
            prepare: Vec::new(),
            phases: Vec::new(),
            finish: Vec::new(),
            data_bytes: 0,
        });
        for (workload, group, expect) in [
            (&fine, 1, "'blocks' has no worker 0 in a group 1"),
            (&idle, 0, "no worker 0"),
            (&empty, 0, "does not fit"),
            (&programs, 0, "'programs'"),
        ] {
            let error = trace_worker(workload, (group, 0), Seed(1), 1).unwrap_err();
            assert!(error.to_string().contains(expect), "{error}");
        }
    }
}
