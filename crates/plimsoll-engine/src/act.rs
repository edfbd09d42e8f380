// SPDX-License-Identifier: Apache-2.0
//! One set of workers: threads that start together, and a controller that merges their results.
//!
//! The clock of an act starts when every worker is ready. The first `warmup` is not measured;
//! seconds of the measured part are passed on as they end, over a bounded channel that a worker
//! never waits for (in virtual time it does, because the wait costs no measured time).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::thread::{Builder, ScopedJoinHandle};

use plimsoll_core::event::TrialInterval;
use plimsoll_core::model::{ModelExcerpt, ModelReplay, ReplayAddressSpace, WorkloadModel};
use plimsoll_core::num::saturating_u32;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::{BlockIoWorkload, FileLoop};

use crate::blocks::{
    self, BlockIoColdPasses, BlockIoSharedState, BlockIoSource, BlockIoSourceMux,
    BlockIoWorkerContext, CachedPart,
};
use crate::byte_budget::ByteBudget;
use crate::clock::{RunClock, SimClock};
use crate::controller::{RunController, RunSchedule, ThroughputWindow};
use crate::drive::{DriverAbortCause, DriverLimits, drive};
use crate::engine::IoEngine;
use crate::error::{EngineError, FileShortage};
use crate::file_loop::FileLoopRun;
use crate::file_sets::FileSetLocation;
use crate::gate::StartBarrier;
use crate::ground::OpenTarget;
use crate::layout::{self, DataFileOpenOptions};
use crate::linked::DependencyReplaySource;
use crate::null::NullEngine;
use crate::outcome::{RunOptions, RunResult};
use crate::recorder::SampleRecorder;
use crate::source::{OpenLoopSource, RequestSource};
use crate::sync::SyncEngine;
use crate::sys::uring::UringEngine;
use crate::verify::{DataCheckRegisterSet, DataCheckSource};
use crate::watch::WorkerStatsSource;
use crate::worker::{WorkerReport, WorkerReportChannel, WorkerRunResult};
use plimsoll_core::op::EngineChoice;

/// Reports a worker may have under way: as many seconds may pass while the controller is busy.
const REPORTS_MAX: usize = 8;

/// The workload that is played.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PhaseRunWorkload<'a> {
    Model(&'a WorkloadModel, &'a ModelExcerpt, &'a ReplayAddressSpace),
    Blocks(&'a BlockIoWorkload),
    Files(&'a FileLoop, &'a Arc<FileLoopRun>),
}

/// An act.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PhaseRun<'a> {
    pub(crate) ground: &'a OpenTarget,
    pub(crate) body: PhaseRunWorkload<'a>,
    pub(crate) choice: EngineChoice,
    pub(crate) options: &'a RunOptions,
    /// Whether the first worker that has done its work stops the counting of the others.
    pub(crate) stonewall: bool,
    /// The registers of written blocks, if data are to be verified.
    pub(crate) registers: Option<&'a DataCheckRegisterSet>,
}

/// The role of one worker.
enum WorkerRole<'a> {
    Model,
    Blocks(BlockIoWorkerContext<'a>),
    /// All workers of all groups, in virtual time.
    AllBlocks(Vec<BlockIoWorkerContext<'a>>),
    /// Threads of a file loop: the number of the first, and how many.
    Threads(u32, u32),
}

impl PhaseRun<'_> {
    /// Plays it. See [`crate::PreparedWorkload::run`].
    pub(crate) fn run(
        &self,
        stop: &AtomicBool,
        on_interval: &mut dyn FnMut(TrialInterval),
    ) -> Result<RunResult, EngineError> {
        let roles = self.roles();
        let workers = saturating_u32(roles.len() as u64);
        let shared = Shared {
            gate: StartBarrier::new(workers, self.options.start_at),
            halt: AtomicBool::new(false),
            bytes: self.options.bytes.map(ByteBudget::new),
        };
        let (sender, reports) = sync_channel(REPORTS_MAX * roles.len());
        let mut controller = RunController::new(self.plan(), workers, on_interval);
        let results: Vec<Result<WorkerRunResult, EngineError>> = std::thread::scope(|scope| {
            let mut spawned: Vec<Result<_, EngineError>> = Vec::new();
            for (number, role) in (0..).zip(&roles) {
                let (spare, spares) = channel();
                controller.spares.push(spare);
                let desk = self.desk(number, sender.clone(), spares);
                let shared = &shared;
                let work = move || self.work(role, desk, shared);
                let last = Builder::new().spawn_scoped(scope, work);
                let failed = last.is_err();
                spawned.push(last.map_err(|source| {
                    shared.fail();
                    let doing = format!("start thread {} of {workers}", number + 1);
                    EngineError::Io { doing, source }
                }));
                if failed {
                    break;
                }
            }
            drop(sender);
            let now = || shared.gate.clock().map(|clock| clock.now());
            controller.attend(&reports, now, stop, &shared.halt);
            let join = |handle: ScopedJoinHandle<'_, _>| match handle.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            let joined = spawned.into_iter().map(|handle| handle.and_then(join));
            joined.collect()
        });
        let ended = first_error(results)?;
        if let Some(shortage) = nothing_done(&ended) {
            return Err(EngineError::NoFile(shortage));
        }
        let outcome = controller.outcome(ended, stop.load(Ordering::Relaxed));
        Ok(RunResult {
            began_at: shared.gate.started_at(),
            ..outcome
        })
    }

    fn desk(
        &self,
        number: u32,
        reports: SyncSender<WorkerReport>,
        spares: std::sync::mpsc::Receiver<crate::recorder::IntervalStats>,
    ) -> WorkerReportChannel {
        let is_known = self.options.length < Nanos::MAX && self.options.bytes.is_none();
        let length = is_known.then_some(self.options.length);
        WorkerReportChannel {
            number,
            reports,
            spares,
            virtual_time: matches!(self.ground, OpenTarget::Sim(_)),
            warmup: self.options.warmup,
            step: self.options.step,
            open: self.is_open_loop().then_some(length),
        }
    }

    /// Whether instants, not ends, say when the next request is due.
    fn is_open_loop(&self) -> bool {
        match self.body {
            PhaseRunWorkload::Model(model, ..) => {
                !model.requests.as_ref().is_some_and(|r| r.is_closed())
            }
            PhaseRunWorkload::Blocks(blocks) => blocks.is_open_loop(),
            PhaseRunWorkload::Files(..) => false,
        }
    }

    fn end(&self) -> Nanos {
        self.options.warmup + self.options.length
    }

    fn plan(&self) -> RunSchedule {
        let count = match self.body {
            PhaseRunWorkload::Model(..) => ThroughputWindow::ToLastEnd,
            // The final operations of a closed loop belong to its time.
            PhaseRunWorkload::Blocks(blocks)
                if blocks.groups.iter().any(|g| !g.finish.is_empty()) =>
            {
                ThroughputWindow::ToLastEnd
            }
            PhaseRunWorkload::Blocks(blocks) if blocks.is_open_loop() => {
                ThroughputWindow::ToLastEnd
            }
            PhaseRunWorkload::Blocks(_) | PhaseRunWorkload::Files(..) => {
                ThroughputWindow::AsPlanned
            }
        };
        let may_end_early = match self.body {
            PhaseRunWorkload::Model(..) => false,
            PhaseRunWorkload::Blocks(blocks) => blocks.groups.iter().all(blocks::ends_by_itself),
            PhaseRunWorkload::Files(files, _) => files.ends_by_itself(),
        };
        let may_end_early = may_end_early || self.options.bytes.is_some();
        RunSchedule {
            warmup: self.options.warmup,
            length: self.options.length,
            step: self.options.step,
            count,
            may_end_early,
        }
    }

    fn roles(&self) -> Vec<WorkerRole<'_>> {
        match (self.body, self.ground) {
            (PhaseRunWorkload::Model(..), _) => vec![WorkerRole::Model],
            (
                PhaseRunWorkload::Files(files, _),
                OpenTarget::Storage { .. } | OpenTarget::Nfs(_),
            ) => {
                let threads = 0..files.threads();
                threads
                    .map(|thread| WorkerRole::Threads(thread, 1))
                    .collect()
            }
            (PhaseRunWorkload::Files(files, _), _) => vec![WorkerRole::Threads(0, files.threads())],
            (PhaseRunWorkload::Blocks(blocks), ground) => {
                let common = BlockIoSharedState::new(blocks, self.stonewall);
                let span = (self.options.warmup, self.end());
                let posts = blocks::posts(blocks, span, self.options.seed, &common);
                match ground {
                    OpenTarget::Sim(_) => vec![WorkerRole::AllBlocks(posts)],
                    _ => posts.into_iter().map(WorkerRole::Blocks).collect(),
                }
            }
        }
    }

    /// One worker, from its engine to its account.
    fn work(
        &self,
        role: &WorkerRole<'_>,
        desk: WorkerReportChannel,
        shared: &Shared,
    ) -> Result<WorkerRunResult, EngineError> {
        let panics = OnPanic(shared);
        let outcome = self.open_and_play(role, desk, shared);
        drop(panics);
        match &outcome {
            Err(_) => shared.fail(),
            // A target that is full or broken for one worker is so for all.
            Ok(ended) if ended.end.gave_up.is_some() => shared.halt.store(true, Ordering::Relaxed),
            Ok(_) => {}
        }
        if let PhaseRunWorkload::Files(_, play) = self.body {
            play.wake_all();
        }
        outcome
    }

    fn open_and_play(
        &self,
        role: &WorkerRole<'_>,
        desk: WorkerReportChannel,
        shared: &Shared,
    ) -> Result<WorkerRunResult, EngineError> {
        let end = self.end();
        match self.ground {
            OpenTarget::Sim(disk) => {
                let clock = SimClock::new();
                let mut engine = disk.engine(self.depth(role), clock.clone(), self.options.seed);
                let stage = WorkerSetup {
                    name: engine.describe(),
                    engine: &mut engine,
                    limits: DriverLimits::simulated(end),
                };
                self.play(role, stage, desk, shared, || Some(clock))
            }
            OpenTarget::Null => {
                let mut engine = NullEngine::new(self.depth(role));
                let stage = WorkerSetup {
                    name: engine.describe(),
                    engine: &mut engine,
                    limits: DriverLimits::real(end),
                };
                self.play(role, stage, desk, shared, || shared.gate.wait())
            }
            OpenTarget::Nop => {
                let mut engine = UringEngine::nop(self.depth(role)).map_err(EngineError::doing(
                    "set up io_uring for requests that do nothing",
                ))?;
                let stage = WorkerSetup {
                    name: engine.describe(),
                    engine: &mut engine,
                    limits: DriverLimits::real(end),
                };
                self.play(role, stage, desk, shared, || shared.gate.wait())
            }
            OpenTarget::Storage { .. } | OpenTarget::Nfs(_) => {
                let (mut engine, name) = self.open(role)?;
                let batch = match role {
                    WorkerRole::Blocks(post) if post.group.batch > 0 => {
                        Some(post.group.batch as usize)
                    }
                    _ => None,
                };
                let stage = WorkerSetup {
                    engine: engine.as_mut(),
                    name,
                    limits: DriverLimits {
                        batch,
                        ..DriverLimits::real(end)
                    },
                };
                self.play(role, stage, desk, shared, || shared.gate.wait())
            }
        }
    }

    /// Slots wanted for a worker.
    fn depth(&self, role: &WorkerRole<'_>) -> u32 {
        match role {
            WorkerRole::Model => self.options.depth_max.max(1),
            WorkerRole::Blocks(post) => post.group.depth,
            WorkerRole::AllBlocks(posts) => {
                let depths = posts.iter().map(|post| u64::from(post.group.depth));
                saturating_u32(depths.sum())
            }
            WorkerRole::Threads(_, threads) => *threads,
        }
    }

    /// Opens the engine of a worker on what it works on.
    fn open(&self, role: &WorkerRole<'_>) -> Result<(Box<dyn IoEngine>, String), EngineError> {
        let Some(data) = self.ground.data() else {
            return Err(EngineError::Workload("there is no storage to open".into()));
        };
        let seed = self.options.seed;
        match (role, self.body) {
            (WorkerRole::Threads(thread, _), PhaseRunWorkload::Files(_, play)) => {
                let nowhere = || EngineError::Workload("there is no directory for files".into());
                let place = self.ground.sets().ok_or_else(nowhere)?;
                let align = self.ground.align();
                let align = self.ground.can_bypass_cache().then_some(align);
                let target = play.target(*thread, place, align)?;
                let seed = seed.derive("worker", u64::from(*thread));
                let engine = SyncEngine::new(target, play.len_max(*thread), seed);
                let how = match place {
                    FileSetLocation::Directory(_) => engine.describe(),
                    FileSetLocation::Export(_) => "NFSv3 in this program, no cache".into(),
                };
                let name = format!("{how}, one thread per loop");
                Ok((Box::new(engine), name))
            }
            (WorkerRole::Blocks(post), _) => {
                let path = self.ground.file_of(post.group, post.worker);
                let path = path.as_ref().unwrap_or(&data);
                let wants = (post.group.direct, post.group.syncs.each_write);
                let len = blocks::len_max(post.group);
                let seed = match (post.group_number, post.worker) {
                    (0, 0) => seed,
                    (group, worker) => seed
                        .derive("group", group as u64)
                        .derive("worker", worker.into()),
                };
                self.open_file(path, wants, (post.group.depth, len), seed)
            }
            (_, PhaseRunWorkload::Model(model, excerpt, space)) => {
                let len = self.requests(model, excerpt, space).len_max();
                let wants = (true, model.facts.syncs().each_write);
                self.open_file(&data, wants, (self.depth(role), len), seed)
            }
            _ => Err(EngineError::Workload(
                "internal error: the worker does not belong to this workload".into(),
            )),
        }
    }

    pub(crate) fn open_file(
        &self,
        path: &std::path::Path,
        (direct, durable): (bool, bool),
        (depth, len): (u32, u32),
        seed: Seed,
    ) -> Result<(Box<dyn IoEngine>, String), EngineError> {
        let wants = (direct, durable, self.choice);
        self.ground.open_file(path, wants, (depth, len), seed)
    }

    fn requests(
        &self,
        model: &WorkloadModel,
        excerpt: &ModelExcerpt,
        space: &ReplayAddressSpace,
    ) -> ModelReplay {
        model.play(excerpt, space, self.ground.align(), self.options.seed)
    }

    fn play<C: RunClock>(
        &self,
        role: &WorkerRole<'_>,
        stage: WorkerSetup<'_>,
        desk: WorkerReportChannel,
        shared: &Shared,
        start: impl FnOnce() -> Option<C>,
    ) -> Result<WorkerRunResult, EngineError> {
        let (end, slots, warmup) = (self.end(), stage.engine.slots(), desk.warmup);
        match (role, self.body) {
            (_, PhaseRunWorkload::Model(model, excerpt, space)) => {
                match self.requests(model, excerpt, space) {
                    ModelReplay::Recorded(requests) if model.waits() => {
                        let source = DependencyReplaySource::new(*requests, excerpt, end);
                        let mut source = WorkerStatsSource::new(source, 1, warmup);
                        let mut ended = stage.act(&mut source, desk, shared, start)?;
                        ended.submitted = source.into_inner().into_submitted();
                        Ok(ended)
                    }
                    requests => {
                        let source = OpenLoopSource::new(requests, excerpt, end);
                        let mut source = WorkerStatsSource::new(source, 1, warmup);
                        let mut ended = stage.act(&mut source, desk, shared, start)?;
                        ended.submitted = source.into_inner().into_submitted();
                        Ok(ended)
                    }
                }
            }
            (WorkerRole::Threads(first, _), PhaseRunWorkload::Files(_, play)) => {
                let (threads, place) = ((*first, slots), self.ground.sets());
                let source = play.source(threads, end, place, self.options.seed)?;
                let mut source = WorkerStatsSource::new(source, slots, warmup);
                stage.act(&mut source, desk, shared, start)
            }
            (WorkerRole::Blocks(post), _) => {
                let source = BlockIoSource::new(post, slots);
                let mut source = source.with_passes(self.passes(post)?);
                let path = self.ground.file_of(post.group, post.worker);
                let watch = self.registers.zip(path);
                let Some((register, check_reads)) = watch.and_then(|(all, path)| all.of(&path))
                else {
                    return stage.act(&mut source, desk, shared, start);
                };
                let mut source = DataCheckSource::new(source, register, slots, check_reads);
                stage.act(&mut source, desk, shared, start)
            }
            (WorkerRole::AllBlocks(posts), _) => {
                let worker = |post: &BlockIoWorkerContext<'_>| {
                    let depth = post.group.depth;
                    (BlockIoSource::new(post, depth), depth)
                };
                let mut source = BlockIoSourceMux::new(posts.iter().map(worker).collect());
                stage.act(&mut source, desk, shared, start)
            }
            _ => Err(EngineError::Workload(
                "internal error: the worker does not belong to this workload".into(),
            )),
        }
    }
}

impl PhaseRun<'_> {
    /// The passes of a worker through its file, where each is to find the page cache empty.
    fn passes(&self, post: &BlockIoWorkerContext<'_>) -> Result<BlockIoColdPasses, EngineError> {
        let group = post.group;
        let path = match self.ground {
            OpenTarget::Storage { .. } => self.ground.file_of(group, post.worker),
            _ => None,
        };
        let Some(path) = path.filter(|_| group.cold_every_bytes > 0) else {
            return Ok(BlockIoColdPasses::new(u64::MAX, None));
        };
        let bounds = blocks::bounds(group, post.worker);
        let part = CachedPart {
            file: layout::open_data(self.ground.held()?, &path, DataFileOpenOptions::default())?,
            start: bounds.start,
            bytes: bounds.bytes,
            is_device: self.ground.device().is_some(),
        };
        Ok(BlockIoColdPasses::new(group.cold_every_bytes, Some(part)))
    }
}

/// A worker that panics must not leave the others waiting for it at the gate.
struct OnPanic<'a>(&'a Shared);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail();
        }
    }
}

/// The engine, name and limits of a worker.
struct WorkerSetup<'a> {
    engine: &'a mut dyn IoEngine,
    name: String,
    limits: DriverLimits<'a>,
}

impl WorkerSetup<'_> {
    fn act<C: RunClock, S: RequestSource>(
        self,
        source: &mut S,
        desk: WorkerReportChannel,
        shared: &Shared,
        start: impl FnOnce() -> Option<C>,
    ) -> Result<WorkerRunResult, EngineError> {
        let warmup = desk.warmup;
        let (virtual_time, open) = (desk.virtual_time, desk.open);
        let helpers = self.engine.helper_threads();
        let in_kernel = self.engine.has_kernel_threads();
        let step = desk.step;
        let messenger = desk.messenger(helpers, in_kernel);
        let mut recorder = SampleRecorder::new(warmup, messenger).in_steps(step);
        if let Some(length) = open {
            recorder = recorder.of_open_loop(length);
        }
        if !virtual_time {
            wake_in_time();
        }
        let clock = start().ok_or_else(|| EngineError::Stopped("start the run".into()))?;
        let limits = DriverLimits {
            bytes: shared.bytes.as_ref(),
            ..self.limits
        };
        let end = drive(
            self.engine,
            &clock,
            source,
            &mut recorder,
            limits,
            &shared.halt,
        )?;
        let workers = source.workers().unwrap_or_default();
        Ok(crate::worker::finish(recorder, end, self.name, workers))
    }
}

/// Linux lets a sleep end 50 µs late to save wake-ups, more than the spinning before a due request
/// covers. A worker asks for the smallest slack; where it is refused, the lag shows it.
pub(crate) fn wake_in_time() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// The file shortage that kept all workers from doing anything, if there was one.
fn nothing_done(ended: &[WorkerRunResult]) -> Option<FileShortage> {
    if ended.iter().any(|worker| worker.end.done > 0) {
        return None;
    }
    let mut gave_up = ended.iter().filter_map(|worker| worker.end.gave_up);
    gave_up.find_map(|gave_up| match gave_up.cause {
        DriverAbortCause::File(shortage) => Some(shortage),
        DriverAbortCause::Operation { .. } => None,
    })
}

/// State shared by the workers: how they start together and stop together.
struct Shared {
    gate: StartBarrier,
    halt: AtomicBool,
    /// Bytes after which all end.
    bytes: Option<ByteBudget>,
}

impl Shared {
    /// Says that a worker cannot begin or go on: the others are to stop too.
    fn fail(&self) {
        self.halt.store(true, Ordering::Relaxed);
        self.gate.fail();
    }
}

/// The error that began it all: the others were stopped because of it.
fn first_error(
    results: Vec<Result<WorkerRunResult, EngineError>>,
) -> Result<Vec<WorkerRunResult>, EngineError> {
    let mut ended = Vec::new();
    let mut worst = None;
    for result in results {
        match result {
            Ok(one) => ended.push(one),
            Err(error) if worst.is_none() || matches!(worst, Some(EngineError::Stopped(_))) => {
                worst = Some(error);
            }
            Err(_) => {}
        }
    }
    worst.map_or(Ok(ended), Err)
}
