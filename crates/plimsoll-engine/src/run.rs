// SPDX-License-Identifier: Apache-2.0
//! Runs what was prepared: workers on their own threads, one controller that merges.
//!
//! A run's clock starts when every worker is ready. The first `warmup` is not measured; seconds
//! of the measured part are passed on as they end, over a bounded channel that a worker never
//! waits for (in virtual time it does, because nobody's time is lost).

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel};

use plimsoll_core::event::{Generator, Interval, OpStats};
use plimsoll_core::model::{Arrivals, Cell};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;

use crate::choice::open_engine;
use crate::clock::{Clock, SimClock};
use crate::controller::Controller;
use crate::drive::{Limits, drive};
use crate::engine::Engine;
use crate::error::Error;
use crate::file_loop::Play;
use crate::gate::Gate;
use crate::layout;
use crate::null::Null;
use crate::prepare::{Ground, Prepared};
use crate::random::RandomLoop;
use crate::recorder::Recorder;
use crate::source::{OpenLoop, Source};
use crate::sync::Sync;
use crate::sys::uring::Uring;
use crate::worker::{Desk, Ended};

/// Reports a worker may have under way: as many seconds may pass while the controller is busy.
const REPORTS_MAX: usize = 8;

/// How to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// Length of the measured part. A model ends with its play, if that is shorter.
    pub length: Nanos,
    /// Time before the measured part. A model's play includes it.
    pub warmup: Nanos,
    /// Most operations of a model in flight; more are due but wait, which shows as lag.
    pub depth_max: u32,
    /// Seed of arrivals, sizes and offsets.
    pub seed: Seed,
}

impl Default for RunOptions {
    /// 10 s, no warm-up, at most 256 in flight.
    fn default() -> Self {
        RunOptions {
            length: Nanos(10_000_000_000),
            warmup: Nanos(0),
            depth_max: 256,
            seed: Seed(0),
        }
    }
}

/// What a run gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The measured operations: all whose intended start lies in the measured part.
    pub stats: OpStats,
    /// What operations per second are to be counted over. For models, from the end of the warm-up
    /// to the planned end or the end of the last operation, whichever is later. For closed loops
    /// the planned length (or until an interruption): the operations counted are those that were
    /// meant to start in it, and the slowest one that ends after it must not stretch it. The
    /// intervals cover everything either way.
    pub length: Nanos,
    /// The generator's own account.
    pub generator: Generator,
    /// For models, the load handed over by cell of the play, warm-up included; what was handed
    /// over after the last cell is in the last. Empty for other workloads.
    pub submitted: Vec<Cell>,
    /// Whether `stop` ended it.
    pub interrupted: bool,
}

impl Prepared {
    /// Runs the workload. `on_interval` hears of every second of the measured part about when it
    /// ends, from the calling thread, and of the last ones when everything has ended; they add up
    /// to the outcome. When `stop` is set the run ends within about 100 ms (a
    /// plain system call that hangs is waited for) and the outcome is what was measured so far.
    ///
    /// # Errors
    /// When a thread cannot be started, an engine cannot be opened or breaks, the file set runs out of files, or the first
    /// 100 operations of a worker all fail.
    pub fn run(
        &mut self,
        options: &RunOptions,
        stop: &AtomicBool,
        on_interval: &mut dyn FnMut(Interval),
    ) -> Result<Outcome, Error> {
        let workers = match (&self.workload, &self.ground) {
            (Workload::Files(files), Ground::Storage { .. }) => files.threads(),
            _ => 1,
        };
        let play = self.play_files();
        let virtual_time = matches!(self.ground, Ground::Sim(_));
        let shared = Shared {
            gate: Gate::new(workers),
            halt: AtomicBool::new(false),
        };
        let (sender, reports) = sync_channel(REPORTS_MAX * workers as usize);
        let mut controller = Controller::new(options, workers, self.is_closed_loop(), on_interval);
        let this = &*self;
        let results: Vec<Result<Ended, Error>> = std::thread::scope(|scope| {
            let mut spawn = |number: u32| {
                let (spare, spares) = channel();
                controller.spares.push(spare);
                let desk = Desk {
                    number,
                    reports: sender.clone(),
                    spares,
                    virtual_time,
                    warmup: options.warmup,
                };
                let (shared, play) = (&shared, play.clone());
                let work = move || this.work(options, desk, shared, play.as_ref());
                let spawned = std::thread::Builder::new().spawn_scoped(scope, work);
                spawned.map_err(|source| {
                    shared.fail();
                    let doing = format!("start thread {} of {workers}", number + 1);
                    Error::Io { doing, source }
                })
            };
            let mut spawned: Vec<Result<_, Error>> = Vec::new();
            for number in 0..workers {
                let last = spawn(number);
                let failed = last.is_err();
                spawned.push(last);
                if failed {
                    break;
                }
            }
            drop(sender);
            let now = || shared.gate.clock().map(|clock| clock.now());
            controller.attend(&reports, now, stop, &shared.halt);
            let join = |handle: std::thread::ScopedJoinHandle<'_, _>| match handle.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            let joined = spawned.into_iter().map(|handle| handle.and_then(join));
            joined.collect()
        });
        let ended = first_error(results)?;
        Ok(controller.outcome(ended, stop.load(Ordering::Relaxed)))
    }

    /// Whether the target sets the pace.
    fn is_closed_loop(&self) -> bool {
        !matches!(self.workload, Workload::Model(_))
    }

    fn end(&self, options: &RunOptions) -> Nanos {
        options.warmup + options.length
    }

    /// One worker, from its engine to its account.
    fn work(
        &self,
        options: &RunOptions,
        desk: Desk,
        shared: &Shared,
        play: Option<&Arc<Play>>,
    ) -> Result<Ended, Error> {
        // Sleeps of an open loop must end on time; refused only by very old kernels.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let outcome = self.open_and_play(options, desk, shared, play);
        if outcome.is_err() {
            shared.fail();
        }
        outcome
    }

    fn open_and_play(
        &self,
        options: &RunOptions,
        desk: Desk,
        shared: &Shared,
        play: Option<&Arc<Play>>,
    ) -> Result<Ended, Error> {
        let (wanted, len) = self.depth_and_len(options, desk.number, play);
        let end = self.end(options);
        match &self.ground {
            Ground::Sim(disk) => {
                let clock = SimClock::new();
                let mut engine = disk.engine(wanted, clock.clone(), options.seed);
                let name = engine.describe();
                let stage = Stage {
                    engine: &mut engine,
                    name,
                    limits: Limits::simulated(end),
                };
                self.play(options, stage, desk, shared, play, || Some(clock))
            }
            Ground::Null => {
                let mut engine = Null::new(wanted);
                let stage = Stage {
                    name: engine.describe(),
                    engine: &mut engine,
                    limits: Limits::real(end),
                };
                self.play(options, stage, desk, shared, play, || shared.gate.wait())
            }
            Ground::Nop => {
                let mut engine = Uring::nop(wanted).map_err(|source| Error::Io {
                    doing: "set up io_uring for requests that do nothing".into(),
                    source,
                })?;
                let stage = Stage {
                    name: engine.describe(),
                    engine: &mut engine,
                    limits: Limits::real(end),
                };
                self.play(options, stage, desk, shared, play, || shared.gate.wait())
            }
            Ground::Storage {
                directory, data, ..
            } => {
                let (mut engine, name) = self.open(
                    (directory.as_deref(), play),
                    data,
                    options,
                    (desk.number, wanted, len),
                )?;
                let stage = Stage {
                    engine: engine.as_mut(),
                    name,
                    limits: Limits::real(end),
                };
                self.play(options, stage, desk, shared, play, || shared.gate.wait())
            }
        }
    }

    /// Slots wanted per worker, and the largest request.
    fn depth_and_len(
        &self,
        options: &RunOptions,
        worker: u32,
        play: Option<&Arc<Play>>,
    ) -> (u32, u32) {
        if let (Some(play), Ground::Storage { .. }) = (play, &self.ground) {
            return (1, play.len_max(worker));
        }
        match (&self.workload, &self.ground) {
            (Workload::Model(_), _) => (options.depth_max.max(1), self.arrivals(options).len_max()),
            (Workload::Blocks(blocks), _) => {
                (blocks.groups[0].depth, blocks.groups[0].mix[0].bytes)
            }
            (Workload::Series(_) | Workload::Commands(_), _) => (1, 1),
            (Workload::Files(files), _) => (files.threads(), 1),
        }
    }

    fn arrivals(&self, options: &RunOptions) -> Arrivals {
        let Workload::Model(model) = &self.workload else {
            unreachable!("only models have arrivals");
        };
        Arrivals::new(
            self.cells.clone(),
            &model.assumed,
            self.align(),
            options.seed,
        )
    }

    fn open(
        &self,
        (directory, play): (Option<&Path>, Option<&Arc<Play>>),
        data: &Path,
        options: &RunOptions,
        (worker, depth, len): (u32, u32, u32),
    ) -> Result<(Box<dyn Engine>, String), Error> {
        if let (Some(play), Some(directory)) = (play, directory) {
            let seed = options.seed.derive("worker", worker.into());
            let target = play.target(worker, directory, self.may_be_direct())?;
            let engine = Sync::new(target, len, seed);
            let name = format!("{}, one thread per loop", engine.describe());
            return Ok((Box::new(engine), name));
        }
        let file = Arc::new(layout::open_data(data, self.is_direct())?);
        let (engine, mut name) = open_engine(self.choice, &file, depth, len, options.seed)?;
        if self.workload.is_direct() && !self.is_direct() {
            name.push_str("; through the page cache (no direct I/O here)");
        }
        Ok((engine, name))
    }

    fn play<C: Clock>(
        &self,
        options: &RunOptions,
        stage: Stage<'_>,
        desk: Desk,
        shared: &Shared,
        play: Option<&Arc<Play>>,
        start: impl FnOnce() -> Option<C>,
    ) -> Result<Ended, Error> {
        let end = self.end(options);
        let slots = stage.engine.slots();
        if let Some(play) = play {
            let first = desk.number * slots;
            let directory = match &self.ground {
                Ground::Storage { directory, .. } => directory.as_deref(),
                _ => None,
            };
            let mut source = play.source((first, slots), end, directory, options.seed)?;
            return stage.act(&mut source, desk, shared, start);
        }
        match &self.workload {
            Workload::Model(_) => {
                let arrivals = self.arrivals(options);
                let mut source = OpenLoop::new(arrivals, &self.cells, end);
                let mut ended = stage.act(&mut source, desk, shared, start)?;
                ended.submitted = source.into_submitted();
                Ok(ended)
            }
            Workload::Files(_) | Workload::Series(_) | Workload::Commands(_) => {
                Err(Error::Workload("phases are not run here".into()))
            }
            Workload::Blocks(blocks) => {
                let mut source = RandomLoop::new(&blocks.groups[0], slots, end, options.seed);
                stage.act(&mut source, desk, shared, start)
            }
        }
    }

    /// What the threads of a file loop share in this run.
    fn play_files(&self) -> Option<Arc<Play>> {
        match (&self.workload, &self.trees) {
            (Workload::Files(files), Some(trees)) => {
                Some(Arc::new(Play::new(files, Arc::clone(trees))))
            }
            _ => None,
        }
    }
}

/// What a worker plays on.
struct Stage<'a> {
    engine: &'a mut dyn Engine,
    name: String,
    limits: Limits,
}

impl Stage<'_> {
    fn act<C: Clock, S: Source>(
        self,
        source: &mut S,
        desk: Desk,
        shared: &Shared,
        start: impl FnOnce() -> Option<C>,
    ) -> Result<Ended, Error> {
        let warmup = desk.warmup;
        let virtual_time = desk.virtual_time;
        let helpers = self.engine.helper_threads();
        let in_kernel = self.engine.has_kernel_threads();
        let mut recorder = Recorder::new(warmup, desk.messenger(helpers, in_kernel));
        if !virtual_time {
            wake_in_time();
        }
        let clock = start().ok_or_else(|| Error::Stopped("start the run".into()))?;
        let end = drive(
            self.engine,
            &clock,
            source,
            &mut recorder,
            self.limits,
            &shared.halt,
        )?;
        Ok(crate::worker::finish(recorder, end, self.name))
    }
}

/// Linux lets a sleep end 50 µs late to save wake-ups, more than the spinning before a due request
/// covers. A worker asks for the smallest slack; where it is refused, the lag shows it.
fn wake_in_time() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// What workers share: how they start together and stop together.
struct Shared {
    gate: Gate,
    halt: AtomicBool,
}

impl Shared {
    /// Says that a worker cannot begin or go on: the others are to stop too.
    fn fail(&self) {
        self.halt.store(true, Ordering::Relaxed);
        self.gate.fail();
    }
}

/// The error that began it all: the others were stopped because of it.
fn first_error(results: Vec<Result<Ended, Error>>) -> Result<Vec<Ended>, Error> {
    let mut ended = Vec::new();
    let mut worst = None;
    for result in results {
        match result {
            Ok(one) => ended.push(one),
            Err(error) if worst.is_none() || matches!(worst, Some(Error::Stopped(_))) => {
                worst = Some(error);
            }
            Err(_) => {}
        }
    }
    worst.map_or(Ok(ended), Err)
}
