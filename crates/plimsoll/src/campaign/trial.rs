// SPDX-License-Identifier: Apache-2.0
//! One trial: lay out the files, play the workload, hold the load against the model.

use super::programs::ProgramTrialResult;
use super::{ArmSet, CampaignOptions};
use crate::failure::{CliError, CliExitCode, failed};
use crate::recorder::DeviceWatch;
use plimsoll_core::event::{
    GeneratorStats, OpStats, RunEvent, RunListener, RunWarning, ServerUse, TrialId, TrialInterval,
    TrialResult, WorkloadEntry,
};
use plimsoll_core::load::start_spread;
use plimsoll_core::model::{
    DirectionLoad, FidelityCheck, IoDirection, ModelExcerpt, ModelInterval, ModelSliceSelection,
    WorkloadModel,
};
use plimsoll_core::num::{ratio, saturating_u32};
use plimsoll_core::others::{NeighbourDiskUse, NeighbourUse};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::{CommandWorkload, Workload};
use plimsoll_engine::PreparedWorkload;
use plimsoll_engine::TargetLocation;
use plimsoll_engine::clock::RunClock;
use plimsoll_engine::sys::clock::HostClock;
use plimsoll_engine::{RunOptions, RunResult};
use plimsoll_lab::busy::{self, BusyWatch, DiskLook};
use plimsoll_lab::host::facts;
use plimsoll_lab::host::{HostPool, HostTimeSource as _, SystemClock};
use plimsoll_lab::watch::{self, ServerWatchScope};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Requests in flight at most under a model: what one disk queue of today holds.
const DEPTH_MAX: u32 = 256;
/// The generator is to blame when its own delays reach this share of all response time.
const LAG_SHARE_MAX: f64 = 0.1;
/// Disks count as quiet after this many looks without a transfer.
const QUIET_POLLS: u32 = 3;
/// Time between two looks.
const QUIET_POLL: Duration = Duration::from_millis(50);
/// Other programs may use the disk for ever; after this the trial begins all the same.
const SETTLE_MAX: Duration = Duration::from_secs(2);
/// Nodes whose starts are further apart are said not to have started together.
const SPREAD_MAX: Nanos = Nanos(100_000_000);

/// Bad blocks that a remark names; all are in the run folder, up to a limit.
const FINDINGS_SHOWN: usize = 5;

/// What a trial plays.
#[derive(Debug)]
pub(crate) enum TrialLoad {
    /// As fast as the storage lets it.
    Closed,
    /// All recorded intervals.
    Whole(ModelExcerpt),
    /// One-second slices of it.
    Slices(ModelExcerpt, ModelSliceSelection),
    /// Recorded requests, all or a stretch of them.
    Requests(ModelExcerpt),
}

impl TrialLoad {
    /// What `entry` plays in `block`: the same for every arm of the block.
    pub(crate) fn of(entry: &WorkloadEntry, whole: bool, seed: Seed, block: u32) -> TrialLoad {
        let Workload::Model(model) = &entry.workload else {
            return TrialLoad::Closed;
        };
        if whole {
            let excerpt = model.whole(entry.scale);
            return match model.requests {
                Some(_) => TrialLoad::Requests(excerpt),
                None => TrialLoad::Whole(excerpt),
            };
        }
        let seconds = saturating_u32(entry.length.0 / Nanos::SECOND.0).max(1);
        let seed = block_seed(seed, block);
        if let Some(excerpt) = model.stretch(seconds, entry.scale, seed) {
            return TrialLoad::Requests(excerpt);
        }
        let selection = model.play_slices(seconds, entry.scale, seed);
        TrialLoad::Slices(ModelExcerpt::cells(selection.cells.clone()), selection)
    }

    fn excerpt(&self) -> Option<&ModelExcerpt> {
        match self {
            TrialLoad::Closed => None,
            TrialLoad::Whole(excerpt)
            | TrialLoad::Slices(excerpt, _)
            | TrialLoad::Requests(excerpt) => Some(excerpt),
        }
    }

    /// The load that was handed over, held against the recording.
    fn fidelity(
        &self,
        model: &WorkloadModel,
        scale: f64,
        submitted: &[ModelInterval],
    ) -> Vec<FidelityCheck> {
        match self {
            TrialLoad::Closed => Vec::new(),
            // How much is handed over is what the storage makes of it.
            TrialLoad::Requests(_) if model.waits() => Vec::new(),
            TrialLoad::Whole(excerpt) => {
                plimsoll_trace::fidelity(&excerpt.cells, submitted, &model.bursts)
            }
            TrialLoad::Requests(excerpt) => requests_fidelity(&excerpt.cells, submitted),
            TrialLoad::Slices(_, selection) => {
                model.slice_fidelity(submitted, &selection.picked, scale)
            }
        }
    }
}

/// The largest error of the totals of recorded requests.
const REQUESTS_GATE: f64 = 0.02;

/// What was handed over, held against what was recorded in that part. When, is told by the lag.
fn requests_fidelity(asked: &[ModelInterval], submitted: &[ModelInterval]) -> Vec<FidelityCheck> {
    let lines = IoDirection::BOTH.map(|direction| {
        let total = |cells: &[ModelInterval]| {
            let mut sum = DirectionLoad::default();
            for load in cells.iter().map(|cell| cell.load(direction)) {
                sum.ops += load.ops;
                sum.bytes += load.bytes;
            }
            sum
        };
        let (asked, submitted) = (total(asked), total(submitted));
        let line = |what: &str, asked: u64, submitted: u64| {
            let name = format!("{} {what} submitted", direction.name());
            FidelityCheck::relative(name, asked as f64, submitted as f64, REQUESTS_GATE)
        };
        [
            line("operations", asked.ops, submitted.ops),
            line("bytes", asked.bytes, submitted.bytes),
        ]
    });
    lines.concat()
}

/// Arms of one block share slices, offsets and file sizes, so that only the storage differs.
fn block_seed(seed: Seed, block: u32) -> Seed {
    seed.derive("block", u64::from(block))
}

/// Runs one trial and tells the listener everything.
pub(crate) fn run_trial(
    trial: &TrialId,
    arms: &ArmSet,
    entry: &WorkloadEntry,
    settings: &CampaignOptions,
    stop: &AtomicBool,
    listener: &mut dyn RunListener,
) -> Result<TrialResult, CliError> {
    listener.event(&RunEvent::TrialBegan(trial.clone()));
    arms.check_mount(&trial.arm)?;
    let result = play_trial(trial, arms, entry, settings, stop, listener)?;
    // What was measured meanwhile was something else.
    arms.check_mount(&trial.arm)?;
    Ok(result)
}

fn play_trial(
    trial: &TrialId,
    arms: &ArmSet,
    entry: &WorkloadEntry,
    settings: &CampaignOptions,
    stop: &AtomicBool,
    listener: &mut dyn RunListener,
) -> Result<TrialResult, CliError> {
    if let Workload::Commands(commands) = &entry.workload {
        return run_programs(trial, arms, commands, stop, listener);
    }
    if arms.load().is_some() {
        return super::on_nodes::run_trial(trial, arms, entry, settings, stop, listener);
    }
    let grounds = arms.grounds();
    let part = NodeTrial {
        trial,
        entry,
        place: arms.target(&trial.arm).place(),
        grounds: &grounds,
        devices: arms.devices(),
        settings,
    };
    let mut ready = part.prepare(stop)?;
    listener.event(&RunEvent::Prepared {
        trial: trial.clone(),
        took: ready.took,
    });
    let mut device = arms
        .device(&trial.arm)
        .map(|name| DeviceWatch::begin(name, warmup(&entry.workload, settings)));
    let mut on_interval = |interval: TrialInterval| {
        if let Some(device) = &mut device {
            device.interval(&interval);
        }
        listener.event(&RunEvent::Interval {
            place: trial.place,
            interval,
        });
    };
    let (outcome, servers) = watched(arms.subjects(&trial.arm), || {
        part.measure(&mut ready, Nanos(0), stop, &mut on_interval)
    });
    let result = TrialResult {
        servers,
        device: device.and_then(DeviceWatch::end),
        ..part.result(ready, outcome?)?
    };
    tell(&result, is_lag_ours(&entry.workload), listener);
    Ok(result)
}

/// What one machine does of a trial.
pub(super) struct NodeTrial<'a> {
    pub(super) trial: &'a TrialId,
    pub(super) entry: &'a WorkloadEntry,
    pub(super) place: TargetLocation<'a>,
    /// Directories and devices whose file systems, or which themselves, earlier trials wrote to.
    pub(super) grounds: &'a [PathBuf],
    /// Disks below the place (major:minor) that can be watched for traffic.
    pub(super) devices: &'a [String],
    pub(super) settings: &'a CampaignOptions,
}

/// A part whose files are laid out.
pub(super) struct PreparedTrial {
    prepared: PreparedWorkload,
    play: TrialLoad,
    /// What a disk did just before, while nothing was asked of it.
    disk: Option<NeighbourDiskUse>,
    /// What others did while it was measured.
    others: Option<NeighbourUse>,
    /// How long that took.
    pub(super) took: Nanos,
}

impl NodeTrial<'_> {
    fn seed(&self) -> Seed {
        block_seed(self.settings.seed, self.trial.block)
    }

    /// Lays out the files, and waits until the disks are quiet.
    pub(super) fn prepare(&self, stop: &AtomicBool) -> Result<PreparedTrial, CliError> {
        let settings = self.settings;
        let play = TrialLoad::of(self.entry, settings.whole, settings.seed, self.trial.block);
        let clock = HostClock::start();
        let prepared = plimsoll_engine::prepare(
            self.place,
            &self.entry.workload,
            play.excerpt(),
            self.seed(),
            settings.engine,
            stop,
        )
        .map_err(failed(CliExitCode::Failed))?;
        let disk = settle(self.grounds, self.devices, stop);
        Ok(PreparedTrial {
            prepared,
            play,
            disk,
            others: None,
            took: clock.now(),
        })
    }

    /// Plays it, from this instant of the machine's clock on.
    pub(super) fn measure(
        &self,
        ready: &mut PreparedTrial,
        start_at: Nanos,
        stop: &AtomicBool,
        on_interval: &mut dyn FnMut(TrialInterval),
    ) -> Result<RunResult, CliError> {
        let (entry, settings) = (self.entry, self.settings);
        let options = RunOptions {
            length: entry.length,
            warmup: warmup(&entry.workload, settings),
            depth_max: depth_max(&entry.workload),
            seed: self.seed(),
            data_check: settings.data_check,
            // The place is another for every trial, also of two arms on one system.
            stamp_seed: settings.stamp_seed.derive("trial", self.trial.place.into()),
            start_at,
        };
        let watch = BusyWatch::begin();
        let ran = ready.prepared.run(&options, stop, on_interval);
        // In virtual time nobody is in the way.
        let is_real = !matches!(self.place, TargetLocation::Sim(_));
        ready.others = is_real.then(|| others_during(&watch, ready.disk.take()));
        ran.map_err(failed(CliExitCode::Failed))
    }

    /// What it gave, held against the model; cleans up what the next trial builds anew.
    pub(super) fn result(
        &self,
        mut ready: PreparedTrial,
        outcome: RunResult,
    ) -> Result<TrialResult, CliError> {
        let entry = self.entry;
        let others = ready.others.take();
        // What phases and loops leave is built anew for every trial, as their originals do; a data
        // file serves all trials of its arm and goes with the arm's directory.
        if matches!(entry.workload, Workload::Files(_) | Workload::Series(_)) {
            ready
                .prepared
                .remove()
                .map_err(failed(CliExitCode::Failed))?;
        }
        let fidelity = match &entry.workload {
            Workload::Model(model) if !outcome.interrupted => {
                let submitted = &outcome.submitted;
                ready.play.fidelity(model, entry.scale, submitted)
            }
            _ => Vec::new(),
        };
        Ok(TrialResult {
            trial: self.trial.clone(),
            length: outcome.length,
            prepare: ready.took,
            stats: outcome.stats,
            phases: outcome.phases,
            workers: outcome.workers,
            generator: outcome.generator,
            fidelity,
            interrupted: outcome.interrupted,
            failed: outcome.failed,
            data_check: outcome.data_check,
            servers: Vec::new(),
            device: None,
            others,
            nodes: Vec::new(),
        })
    }
}

/// Tells the listener of a result and of what a reader of it should know.
pub(super) fn tell(result: &TrialResult, lag_is_ours: bool, listener: &mut dyn RunListener) {
    listener.event(&RunEvent::TrialEnded(Box::new(result.clone())));
    for text in remarks(result, lag_is_ours) {
        let about = format!("{} on {}", result.trial.workload, result.trial.arm);
        listener.event(&RunEvent::Warning(RunWarning { about, text }));
    }
}

/// A trial of programs: nothing is laid out by us, and each program is a phase.
fn run_programs(
    trial: &TrialId,
    arms: &ArmSet,
    commands: &CommandWorkload,
    stop: &AtomicBool,
    listener: &mut dyn RunListener,
) -> Result<TrialResult, CliError> {
    let disk = settle(&arms.grounds(), arms.devices(), stop);
    let directory = arms.directory(&trial.arm)?;
    let clock = HostClock::start();
    let watch = BusyWatch::begin();
    let (played, servers) = watched(arms.subjects(&trial.arm), || {
        super::programs::run(commands, directory, arms.scratch(), arms.host(), stop)
    });
    let ProgramTrialResult {
        phases,
        wall,
        notes,
    } = played?;
    let others = Some(others_during(&watch, disk));
    for text in notes {
        let about = format!("{} on {}", trial.workload, trial.arm);
        listener.event(&RunEvent::Warning(RunWarning { about, text }));
    }
    let mut stats = OpStats::default();
    phases.iter().for_each(|phase| stats.merge(&phase.stats));
    let result = TrialResult {
        trial: trial.clone(),
        length: wall,
        prepare: clock.now().since(wall),
        stats,
        generator: GeneratorStats {
            engine: "the original program".into(),
            user_cpu_ns: phases.iter().map(|phase| phase.user_cpu_ns).sum(),
            system_cpu_ns: phases.iter().map(|phase| phase.system_cpu_ns).sum(),
            ..GeneratorStats::default()
        },
        phases,
        workers: Vec::new(),
        fidelity: Vec::new(),
        interrupted: stop.load(Ordering::Relaxed),
        failed: None,
        data_check: None,
        servers,
        device: None,
        others,
        nodes: Vec::new(),
    };
    tell(&result, false, listener);
    Ok(result)
}

/// Does something while these are watched.
pub(super) fn watched<T>(
    subjects: Option<(ServerWatchScope<'_>, HostPool)>,
    work: impl FnOnce() -> T,
) -> (T, Vec<ServerUse>) {
    let Some((subjects, mut nodes)) = subjects else {
        return (work(), Vec::new());
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher =
            scope.spawn(|| watch::watch(&subjects, &mut nodes, &SystemClock::new(), &stop));
        let done = work();
        stop.store(true, Ordering::Relaxed);
        // A watcher that fell over watches no more; the trial counts all the same.
        (done, watcher.join().unwrap_or_default())
    })
}

/// Waits until earlier trials burden this one no more: what they left in the page cache is written
/// out, and the disks below have had nothing to do for a moment (a file system may discard freed
/// blocks in the background long after its files were removed).
///
/// Only the file systems that take part are synced: sync(2) waits for every one of the machine, also
/// for that of somebody else whose server hangs.
///
/// Returns what the busiest disk had to do when they were not quiet to the end: others were at work.
fn settle(grounds: &[PathBuf], devices: &[String], stop: &AtomicBool) -> Option<NeighbourDiskUse> {
    for ground in grounds {
        // What cannot be opened or synced shows in the trial itself.
        if let Ok(file) = File::open(ground) {
            let is_device = facts::is_block_device(ground);
            let _ = match is_device {
                true => file.sync_all(),
                false => rustix::fs::syncfs(&file).map_err(Into::into),
            };
        }
    }
    let bytes = || -> Vec<_> {
        devices
            .iter()
            .filter_map(|device| facts::device_bytes(device).ok())
            .collect()
    };
    let clock = SystemClock::new();
    let began = clock.now();
    let (mut last, mut quiet) = (bytes(), 0);
    // What earlier trials left is done by then; the second half tells of others.
    let mut half: Option<(Duration, Vec<DiskLook>)> = None;
    while quiet < QUIET_POLLS
        && clock.now().saturating_sub(began) < SETTLE_MAX
        && !stop.load(Ordering::Relaxed)
    {
        clock.pause(QUIET_POLL);
        let now = bytes();
        quiet = if now == last { quiet + 1 } else { 0 };
        last = now;
        if half.is_none() && clock.now().saturating_sub(began) >= SETTLE_MAX / 2 {
            half = Some((clock.now(), busy::look_at_disks(devices)));
        }
    }
    let (since, looks) = half.filter(|_| quiet < QUIET_POLLS)?;
    let length = clock.now().saturating_sub(since);
    busy::busiest(&looks, &busy::look_at_disks(devices), length)
}

/// What others did while they were watched, and on a disk before it.
fn others_during(watch: &BusyWatch, disk: Option<NeighbourDiskUse>) -> NeighbourUse {
    NeighbourUse {
        disk,
        ..watch.others()
    }
}

/// Requests in flight at most: those of the threads that a model declares, if it does.
fn depth_max(workload: &Workload) -> u32 {
    match workload {
        Workload::Model(model) => {
            let threads = model.facts.threads.map(|threads| threads.value);
            threads.map_or(DEPTH_MAX, |threads| threads.min(DEPTH_MAX))
        }
        _ => DEPTH_MAX,
    }
}

/// Whether what starts late was held back by us: instants set the pace, and no thread of the load
/// was to be waited for.
pub(super) fn is_lag_ours(workload: &Workload) -> bool {
    workload.is_open_loop() && !workload.waits_for_threads()
}

/// A model has no warm-up: every second of it is part of the recording. Neither has work that is
/// done once.
pub(super) fn warmup(workload: &Workload, settings: &CampaignOptions) -> Nanos {
    if matches!(workload, Workload::Model(_)) || workload.ends_by_itself() {
        return Nanos(0);
    }
    settings.warmup
}

/// What a reader of this result should know.
fn remarks(result: &TrialResult, lag_is_ours: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(reason) = &result.failed {
        remarks.push(format!("the trial was aborted: {reason}"));
    }
    let errors = result.stats.errors();
    if errors > 0 {
        let ops = result.stats.ops();
        remarks.push(format!("{errors} of {ops} operations failed"));
    }
    remarks.extend(remark_on_data(result));
    if let Some(spread) = start_spread(&result.nodes).filter(|spread| *spread > SPREAD_MAX) {
        remarks.push(format!(
            "the nodes did not start together: the last one started {} after the first; the \
             seconds of the trial count from the start of each node",
            units::duration(spread)
        ));
    }
    remarks.extend(remarks_on_load(result, lag_is_ours));
    // What an overloaded system left unserved is missing from every figure of the load.
    let is_overloaded = (result.generator.open.iter())
        .filter_map(plimsoll_stats::overload::backlog)
        .any(|left| left.grew);
    let missed = result.fidelity.iter().filter(|line| !line.passed());
    for line in missed.filter(|_| !is_overloaded) {
        remarks.push(format!(
            "the load missed a gate: {} is off by {} (gate {})",
            line.metric,
            units::signed_percent(line.error),
            units::signed_percent(line.gate).trim_start_matches('+')
        ));
    }
    remarks
}

/// What a reader should know of how the load was served, and of how it was made.
fn remarks_on_load(result: &TrialResult, lag_is_ours: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    let generator = &result.generator;
    for open in &generator.open {
        let left = plimsoll_stats::overload::backlog(open);
        if let Some(left) = left.filter(|left| left.grew) {
            remarks.push(format!(
                "overloaded: {} of {} requests completed in time, and the backlog grew to the end; \
                 response time is unbounded at this load",
                left.served, left.offered
            ));
        }
    }
    if generator.unfinished > 0 {
        remarks.push(format!(
            "{} requests were still in flight when the trial was cut off; they do not count as \
             errors",
            generator.unfinished
        ));
    }
    if generator.held_up > Nanos(0) {
        remarks.push(format!(
            "plimsoll itself was suspended for {} (stopped, frozen or without CPU time){}",
            units::duration(generator.held_up),
            if result.was_held_up() {
                "; the trial is not compared"
            } else {
                ""
            }
        ));
    }
    let own = result
        .stats
        .lag()
        .sum_ns()
        .saturating_sub(generator.queue_lag_ns());
    let share = ratio(own as f64, result.stats.response().sum_ns() as f64);
    if lag_is_ours && share > LAG_SHARE_MAX {
        remarks.push(format!(
            "the load generator was late: {:.0} % of the response time passed before the requests \
             were submitted, although the queue was not full",
            share * 100.0
        ));
    }
    remarks
}

/// What a reader should know of the verification of its data.
fn remark_on_data(result: &TrialResult) -> Option<String> {
    let check = result.data_check.as_ref()?;
    if check.bad.total() > 0 {
        let first = check.first_words(FINDINGS_SHOWN);
        return Some(format!(
            "data verification failed: {check}; first: {first}; the trial is not compared"
        ));
    }
    let unread = check.errors > result.stats.errors();
    (unread || check.interrupted).then(|| {
        format!(
            "data verification is incomplete: {check}, {} errors",
            check.errors
        )
    })
}
