// SPDX-License-Identifier: Apache-2.0
//! One trial, seen from this machine: its nodes lay out the files and play, and what they tell becomes one
//! result. What each of them does is in `task`.

use super::failover::{FaultBench, under_fault};
use super::{ArmSet, CampaignOptions};
use crate::failure::{CliError, CliExitCode};
use crate::recorder::DeviceWatch;
use plimsoll_core::event::{
    RunEvent, RunListener, RunWarning, ServerUse, TrialId, TrialInterval, TrialResult,
    WorkloadEntry,
};
use plimsoll_core::failover::FaultInjection;
use plimsoll_core::load::{AgentTrialTask, start_spread};
use plimsoll_core::model::{
    DirectionLoad, FidelityCheck, IoDirection, ModelExcerpt, ModelInterval, ModelSliceSelection,
    WorkloadModel,
};
use plimsoll_core::num::{ratio, saturating_u32};
use plimsoll_core::rng::Seed;
use plimsoll_core::target::NodeTarget;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_lab::host::{HostPool, HostTimeSource as _, SystemClock};
use plimsoll_lab::watch::{self, ServerWatchScope};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The generator is to blame when its own delays reach this share of all response time.
const LAG_SHARE_MAX: f64 = 0.1;
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

    pub(super) fn excerpt(&self) -> Option<&ModelExcerpt> {
        match self {
            TrialLoad::Closed => None,
            TrialLoad::Whole(excerpt)
            | TrialLoad::Slices(excerpt, _)
            | TrialLoad::Requests(excerpt) => Some(excerpt),
        }
    }

    /// The load that was handed over, held against the recording.
    pub(super) fn fidelity(
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
pub(super) fn block_seed(seed: Seed, block: u32) -> Seed {
    seed.derive("block", u64::from(block))
}

/// Runs one trial on all nodes that its load comes from, and tells the listener everything. This machine
/// is such a node.
pub(crate) fn run_trial(
    trial: &TrialId,
    arms: &ArmSet,
    entry: &WorkloadEntry,
    (settings, mut bench): (&CampaignOptions, Option<&mut FaultBench>),
    stop: &AtomicBool,
    listener: &mut dyn RunListener,
) -> Result<TrialResult, CliError> {
    listener.event(&RunEvent::TrialBegan(trial.clone()));
    if entry.inject.is_none() {
        arms.check_mount(&trial.arm)?;
    }
    if let Some(bench) = bench.as_deref_mut() {
        let found = bench.prepare(trial, arms, (entry, settings), stop)?;
        let found = found.map(RunEvent::Warning);
        found.iter().for_each(|event| listener.event(event));
    }
    let faults = entry.inject.as_ref().zip(bench.as_deref());
    if entry.workload.is_idle() {
        let result = sessions_alone((trial, entry), arms, settings, faults, stop)?;
        tell(&result, false, listener);
        return Ok(result);
    }
    let load = arms.load();
    let mut hosts = load.hosts();
    let task = |n: usize| trial_task(trial, arms, (entry, settings), n);
    let mut sessions = load
        .prepare(&mut hosts, task, stop)
        .inspect_err(|failure| note_lost_node(failure, trial, listener))?;
    listener.event(&RunEvent::Prepared {
        trial: trial.clone(),
        took: sessions.prepared(),
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
    let is_over = || stop.load(Ordering::Relaxed);
    let (played, servers) = watched(arms.subjects(&trial.arm), || match faults {
        None => Ok((sessions.play(&is_over, &mut on_interval), None, None)),
        Some((injection, bench)) => {
            let play = |is_over: &dyn Fn() -> bool| sessions.play(is_over, &mut on_interval);
            let with = (settings.seed, bench);
            under_fault((trial, entry, injection), arms, with, stop, play)
        }
    });
    let (started_at, fault, failure) = played?;
    let (result, notes) = sessions.result(trial, started_at)?;
    for text in notes {
        let about = about(trial);
        listener.event(&RunEvent::Warning(RunWarning { about, text }));
    }
    let result = TrialResult {
        servers,
        device: device.and_then(DeviceWatch::end),
        fault,
        failed: result.failed.or(failure.map(|failure| failure.text())),
        ..result
    };
    tell(&result, is_lag_ours(&entry.workload), listener);
    // What was measured meanwhile was something else; healing a fault may take a mount away.
    if entry.inject.is_none() {
        arms.check_mount(&trial.arm)?;
    }
    Ok(result)
}

fn note_lost_node(failure: &CliError, trial: &TrialId, listener: &mut dyn RunListener) {
    if failure.code == CliExitCode::LostNode {
        listener.event(&RunEvent::Warning(RunWarning {
            about: about(trial),
            text: format!("{}; the run ends here", failure.text()),
        }));
    }
}

/// A trial in which nothing is played beside the sessions that feel a fault.
fn sessions_alone(
    (trial, entry): (&TrialId, &WorkloadEntry),
    arms: &ArmSet,
    settings: &CampaignOptions,
    faults: Option<(&FaultInjection, &FaultBench)>,
    stop: &AtomicBool,
) -> Result<TrialResult, CliError> {
    let clock = SystemClock::new();
    let (ended, servers) = watched(arms.subjects(&trial.arm), || match faults {
        None => Ok(((), None, None)),
        Some((injection, bench)) => {
            let with = (settings.seed, bench);
            under_fault((trial, entry, injection), arms, with, stop, |_| ())
        }
    });
    let ((), fault, failure) = ended?;
    Ok(TrialResult {
        length: Nanos::from_secs_f64(clock.now().as_secs_f64()),
        servers,
        interrupted: fault
            .as_ref()
            .is_none_or(|fault| fault.check.data.interrupted),
        failed: failure.map(|failure| failure.text()),
        fault,
        ..TrialResult::of(trial.clone())
    })
}

/// What the node of this number is asked to do of a trial.
pub(super) fn trial_task(
    trial: &TrialId,
    arms: &ArmSet,
    (entry, settings): (&WorkloadEntry, &CampaignOptions),
    n: usize,
) -> AgentTrialTask {
    let is_under_fault = entry.inject.is_some();
    AgentTrialTask {
        trial: trial.clone(),
        entry: entry.clone(),
        target: match (
            arms.target(&trial.arm).targets().swap_remove(n),
            is_under_fault,
        ) {
            (
                NodeTarget::Directory {
                    path,
                    direct_align_bytes,
                },
                true,
            ) => NodeTarget::Directory {
                path: path.join(format!("trial-{}", trial.place + 1)),
                direct_align_bytes,
            },
            (target, _) => target,
        },
        fresh: is_under_fault,
        settle: arms.grounds(n),
        scratch: arms.scratch().map(Path::to_path_buf),
        seed: settings.seed,
        stamp_seed: settings.stamp_seed,
        warmup: warmup(&entry.workload, settings),
        whole: settings.whole,
        engine: settings.engine,
        data_check: settings.data_check,
    }
}

fn about(trial: &TrialId) -> String {
    format!("{} on {}", trial.workload, trial.arm)
}

/// Tells the listener of a result and of what a reader of it should know.
fn tell(result: &TrialResult, lag_is_ours: bool, listener: &mut dyn RunListener) {
    listener.event(&RunEvent::TrialEnded(Box::new(result.clone())));
    for text in remarks(result, lag_is_ours) {
        let about = about(&result.trial);
        listener.event(&RunEvent::Warning(RunWarning { about, text }));
    }
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
