// SPDX-License-Identifier: Apache-2.0
//! One act: workers on their own threads that start together, one controller that merges.
//!
//! The clock of an act starts when every worker is ready. The first `warmup` is not measured;
//! seconds of the measured part are passed on as they end, over a bounded channel that a worker
//! never waits for (in virtual time it does, because nobody's time is lost).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::thread::{Builder, ScopedJoinHandle};

use plimsoll_core::event::Interval;
use plimsoll_core::model::{Excerpt, Model, Played, Space};
use plimsoll_core::num::saturating_u32;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::{Blocks, FileLoop};

use crate::blocks::{self, BlockSource, CachedPart, Common, Merged, Passes, Post};
use crate::choice::EngineChoice;
use crate::clock::{Clock, SimClock};
use crate::controller::{Controller, Count, Plan};
use crate::drive::{GaveUpCause, Limits, drive};
use crate::engine::Engine;
use crate::error::{Error, Shortage};
use crate::file_loop::Play;
use crate::file_sets::Where;
use crate::gate::Gate;
use crate::ground::Ground;
use crate::layout::{self, Opening};
use crate::linked::Linked;
use crate::null::Null;
use crate::outcome::{Outcome, RunOptions};
use crate::recorder::Recorder;
use crate::source::{OpenLoop, Source};
use crate::sync::Sync;
use crate::sys::uring::Uring;
use crate::verify::{Checked, Registers};
use crate::watch::Watched;
use crate::worker::{Desk, Ended, Report};

/// Reports a worker may have under way: as many seconds may pass while the controller is busy.
const REPORTS_MAX: usize = 8;

/// What is played.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Body<'a> {
    Model(&'a Model, &'a Excerpt, &'a Space),
    Blocks(&'a Blocks),
    Files(&'a FileLoop, &'a Arc<Play>),
}

/// An act.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Act<'a> {
    pub(crate) ground: &'a Ground,
    pub(crate) body: Body<'a>,
    pub(crate) choice: EngineChoice,
    pub(crate) options: &'a RunOptions,
    /// Whether the first worker that has done its work stops the counting of the others.
    pub(crate) stonewall: bool,
    /// What is written where, if that is to be verified.
    pub(crate) registers: Option<&'a Registers>,
}

/// What one worker is.
enum Role<'a> {
    Model,
    Blocks(Post<'a>),
    /// All workers of all groups, in virtual time.
    AllBlocks(Vec<Post<'a>>),
    /// So many threads of a file loop from this number on.
    Threads(u32, u32),
}

impl Act<'_> {
    /// Plays it. See [`crate::Prepared::run`].
    pub(crate) fn run(
        &self,
        stop: &AtomicBool,
        on_interval: &mut dyn FnMut(Interval),
    ) -> Result<Outcome, Error> {
        let roles = self.roles();
        let workers = saturating_u32(roles.len() as u64);
        let shared = Shared {
            gate: Gate::new(workers, self.options.start_at),
            halt: AtomicBool::new(false),
        };
        let (sender, reports) = sync_channel(REPORTS_MAX * roles.len());
        let mut controller = Controller::new(self.plan(), workers, on_interval);
        let results: Vec<Result<Ended, Error>> = std::thread::scope(|scope| {
            let mut spawned: Vec<Result<_, Error>> = Vec::new();
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
                    Error::Io { doing, source }
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
            return Err(Error::NoFile(shortage));
        }
        let outcome = controller.outcome(ended, stop.load(Ordering::Relaxed));
        Ok(Outcome {
            began_at: shared.gate.started_at(),
            ..outcome
        })
    }

    fn desk(
        &self,
        number: u32,
        reports: SyncSender<Report>,
        spares: std::sync::mpsc::Receiver<crate::recorder::Tally>,
    ) -> Desk {
        let length = Some(self.options.length).filter(|length| *length < Nanos::MAX);
        Desk {
            number,
            reports,
            spares,
            virtual_time: matches!(self.ground, Ground::Sim(_)),
            warmup: self.options.warmup,
            open: self.is_open_loop().then_some(length),
        }
    }

    /// Whether instants, not ends, say when the next request is due.
    fn is_open_loop(&self) -> bool {
        match self.body {
            Body::Model(model, ..) => !model.requests.as_ref().is_some_and(|r| r.is_closed()),
            Body::Blocks(blocks) => blocks.is_open_loop(),
            Body::Files(..) => false,
        }
    }

    fn end(&self) -> Nanos {
        self.options.warmup + self.options.length
    }

    fn plan(&self) -> Plan {
        let count = match self.body {
            Body::Model(..) => Count::ToLastEnd,
            // What ends the work of a closed loop belongs to its time.
            Body::Blocks(blocks) if blocks.groups.iter().any(|g| !g.finish.is_empty()) => {
                Count::ToLastEnd
            }
            Body::Blocks(blocks) if blocks.is_open_loop() => Count::ToLastEnd,
            Body::Blocks(_) | Body::Files(..) => Count::AsPlanned,
        };
        let may_end_early = match self.body {
            Body::Model(..) => false,
            Body::Blocks(blocks) => blocks.groups.iter().all(blocks::ends_by_itself),
            Body::Files(files, _) => files.ends_by_itself(),
        };
        Plan {
            warmup: self.options.warmup,
            length: self.options.length,
            count,
            may_end_early,
        }
    }

    fn roles(&self) -> Vec<Role<'_>> {
        match (self.body, self.ground) {
            (Body::Model(..), _) => vec![Role::Model],
            (Body::Files(files, _), Ground::Storage { .. } | Ground::Nfs(_)) => {
                let threads = 0..files.threads();
                threads.map(|thread| Role::Threads(thread, 1)).collect()
            }
            (Body::Files(files, _), _) => vec![Role::Threads(0, files.threads())],
            (Body::Blocks(blocks), ground) => {
                let common = Common::new(blocks, self.stonewall);
                let span = (self.options.warmup, self.end());
                let posts = blocks::posts(blocks, span, self.options.seed, &common);
                match ground {
                    Ground::Sim(_) => vec![Role::AllBlocks(posts)],
                    _ => posts.into_iter().map(Role::Blocks).collect(),
                }
            }
        }
    }

    /// One worker, from its engine to its account.
    fn work(&self, role: &Role<'_>, desk: Desk, shared: &Shared) -> Result<Ended, Error> {
        let panics = OnPanic(shared);
        let outcome = self.open_and_play(role, desk, shared);
        drop(panics);
        match &outcome {
            Err(_) => shared.fail(),
            // What has filled or broken the target for one has done so for all.
            Ok(ended) if ended.end.gave_up.is_some() => shared.halt.store(true, Ordering::Relaxed),
            Ok(_) => {}
        }
        if let Body::Files(_, play) = self.body {
            play.wake_all();
        }
        outcome
    }

    fn open_and_play(&self, role: &Role<'_>, desk: Desk, shared: &Shared) -> Result<Ended, Error> {
        let end = self.end();
        match self.ground {
            Ground::Sim(disk) => {
                let clock = SimClock::new();
                let mut engine = disk.engine(self.depth(role), clock.clone(), self.options.seed);
                let stage = Stage {
                    name: engine.describe(),
                    engine: &mut engine,
                    limits: Limits::simulated(end),
                };
                self.play(role, stage, desk, shared, || Some(clock))
            }
            Ground::Null => {
                let mut engine = Null::new(self.depth(role));
                let stage = Stage {
                    name: engine.describe(),
                    engine: &mut engine,
                    limits: Limits::real(end),
                };
                self.play(role, stage, desk, shared, || shared.gate.wait())
            }
            Ground::Nop => {
                let mut engine = Uring::nop(self.depth(role)).map_err(|source| Error::Io {
                    doing: "set up io_uring for requests that do nothing".into(),
                    source,
                })?;
                let stage = Stage {
                    name: engine.describe(),
                    engine: &mut engine,
                    limits: Limits::real(end),
                };
                self.play(role, stage, desk, shared, || shared.gate.wait())
            }
            Ground::Storage { .. } | Ground::Nfs(_) => {
                let (mut engine, name) = self.open(role)?;
                let batch = match role {
                    Role::Blocks(post) if post.group.batch > 0 => Some(post.group.batch as usize),
                    _ => None,
                };
                let stage = Stage {
                    engine: engine.as_mut(),
                    name,
                    limits: Limits {
                        batch,
                        ..Limits::real(end)
                    },
                };
                self.play(role, stage, desk, shared, || shared.gate.wait())
            }
        }
    }

    /// Slots wanted for a worker.
    fn depth(&self, role: &Role<'_>) -> u32 {
        match role {
            Role::Model => self.options.depth_max.max(1),
            Role::Blocks(post) => post.group.depth,
            Role::AllBlocks(posts) => {
                let depths = posts.iter().map(|post| u64::from(post.group.depth));
                saturating_u32(depths.sum())
            }
            Role::Threads(_, threads) => *threads,
        }
    }

    /// Opens the engine of a worker on what it works on.
    fn open(&self, role: &Role<'_>) -> Result<(Box<dyn Engine>, String), Error> {
        let Some(data) = self.ground.data() else {
            return Err(Error::Workload("there is no storage to open".into()));
        };
        let seed = self.options.seed;
        match (role, self.body) {
            (Role::Threads(thread, _), Body::Files(_, play)) => {
                let nowhere = || Error::Workload("there is no directory for files".into());
                let place = self.ground.sets().ok_or_else(nowhere)?;
                let align = self.ground.align();
                let align = self.ground.can_bypass_cache().then_some(align);
                let target = play.target(*thread, place, align)?;
                let seed = seed.derive("worker", u64::from(*thread));
                let engine = Sync::new(target, play.len_max(*thread), seed);
                let how = match place {
                    Where::Directory(_) => engine.describe(),
                    Where::Export(_) => "NFSv3 in this program, no cache".into(),
                };
                let name = format!("{how}, one thread per loop");
                Ok((Box::new(engine), name))
            }
            (Role::Blocks(post), _) => {
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
            (_, Body::Model(model, excerpt, space)) => {
                let len = self.requests(model, excerpt, space).len_max();
                let wants = (true, model.facts.syncs().each_write);
                self.open_file(&data, wants, (self.depth(role), len), seed)
            }
            _ => Err(Error::Workload("the role is none of this workload".into())),
        }
    }

    pub(crate) fn open_file(
        &self,
        path: &std::path::Path,
        (direct, durable): (bool, bool),
        (depth, len): (u32, u32),
        seed: Seed,
    ) -> Result<(Box<dyn Engine>, String), Error> {
        let wants = (direct, durable, self.choice);
        self.ground.open_file(path, wants, (depth, len), seed)
    }

    fn requests(&self, model: &Model, excerpt: &Excerpt, space: &Space) -> Played {
        model.play(excerpt, space, self.ground.align(), self.options.seed)
    }

    fn play<C: Clock>(
        &self,
        role: &Role<'_>,
        stage: Stage<'_>,
        desk: Desk,
        shared: &Shared,
        start: impl FnOnce() -> Option<C>,
    ) -> Result<Ended, Error> {
        let (end, slots, warmup) = (self.end(), stage.engine.slots(), desk.warmup);
        match (role, self.body) {
            (_, Body::Model(model, excerpt, space)) => match self.requests(model, excerpt, space) {
                Played::Recorded(requests) if model.waits() => {
                    let source = Linked::new(*requests, excerpt, end);
                    let mut source = Watched::new(source, 1, warmup);
                    let mut ended = stage.act(&mut source, desk, shared, start)?;
                    ended.submitted = source.into_inner().into_submitted();
                    Ok(ended)
                }
                requests => {
                    let source = OpenLoop::new(requests, excerpt, end);
                    let mut source = Watched::new(source, 1, warmup);
                    let mut ended = stage.act(&mut source, desk, shared, start)?;
                    ended.submitted = source.into_inner().into_submitted();
                    Ok(ended)
                }
            },
            (Role::Threads(first, _), Body::Files(_, play)) => {
                let (threads, place) = ((*first, slots), self.ground.sets());
                let source = play.source(threads, end, place, self.options.seed)?;
                let mut source = Watched::new(source, slots, warmup);
                stage.act(&mut source, desk, shared, start)
            }
            (Role::Blocks(post), _) => {
                let source = BlockSource::new(post, slots);
                let mut source = source.with_passes(self.passes(post)?);
                let path = self.ground.file_of(post.group, post.worker);
                let watch = self.registers.zip(path);
                let Some((register, check_reads)) = watch.and_then(|(all, path)| all.of(&path))
                else {
                    return stage.act(&mut source, desk, shared, start);
                };
                let mut source = Checked::new(source, register, slots, check_reads);
                stage.act(&mut source, desk, shared, start)
            }
            (Role::AllBlocks(posts), _) => {
                let worker = |post: &Post<'_>| {
                    let depth = post.group.depth;
                    (BlockSource::new(post, depth), depth)
                };
                let mut source = Merged::new(posts.iter().map(worker).collect());
                stage.act(&mut source, desk, shared, start)
            }
            _ => Err(Error::Workload("the role is none of this workload".into())),
        }
    }
}

impl Act<'_> {
    /// The passes of a worker through its file, where each is to find the page cache empty.
    fn passes(&self, post: &Post<'_>) -> Result<Passes, Error> {
        let group = post.group;
        let path = match self.ground {
            Ground::Storage { .. } => self.ground.file_of(group, post.worker),
            _ => None,
        };
        let Some(path) = path.filter(|_| group.cold_every_bytes > 0) else {
            return Ok(Passes::new(u64::MAX, None));
        };
        let bounds = blocks::bounds(group, post.worker);
        let part = CachedPart {
            file: layout::open_data(self.ground.held()?, &path, Opening::default())?,
            start: bounds.start,
            bytes: bounds.bytes,
            is_device: self.ground.device().is_some(),
        };
        Ok(Passes::new(group.cold_every_bytes, Some(part)))
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
        let (virtual_time, open) = (desk.virtual_time, desk.open);
        let helpers = self.engine.helper_threads();
        let in_kernel = self.engine.has_kernel_threads();
        let mut recorder = Recorder::new(warmup, desk.messenger(helpers, in_kernel));
        if let Some(length) = open {
            recorder = recorder.of_open_loop(length);
        }
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
        let workers = source.workers().unwrap_or_default();
        Ok(crate::worker::finish(recorder, end, self.name, workers))
    }
}

/// Linux lets a sleep end 50 µs late to save wake-ups, more than the spinning before a due request
/// covers. A worker asks for the smallest slack; where it is refused, the lag shows it.
pub(crate) fn wake_in_time() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

/// What was missing from the start, where it kept all workers from doing anything.
fn nothing_done(ended: &[Ended]) -> Option<Shortage> {
    if ended.iter().any(|worker| worker.end.done > 0) {
        return None;
    }
    let mut gave_up = ended.iter().filter_map(|worker| worker.end.gave_up);
    gave_up.find_map(|gave_up| match gave_up.cause {
        GaveUpCause::File(shortage) => Some(shortage),
        GaveUpCause::Operation { .. } => None,
    })
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
