// SPDX-License-Identifier: Apache-2.0
//! One trial, seen from this machine: its nodes lay out the files and play, and their reports become one
//! result. What each of them does is in `task`.

use super::device_watch::DeviceWatch;
use super::failover::{FaultBench, under_condition, under_fault};
use super::nodes::TrialSessions;
use super::pilot::PILOT_STEP;
use super::{ArmSet, CampaignOptions};
use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_core::event::{
    RunEvent, RunListener, RunWarning, TrialId, TrialInterval, TrialResult, WorkloadEntry,
};
use plimsoll_core::failover::FaultInjection;
use plimsoll_core::load::{AgentTrialTask, start_spread};
use plimsoll_core::num::ratio;
use plimsoll_core::target::NodeTarget;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_machine::host::{HostPool, HostTimeSource as _, SystemClock};
use plimsoll_machine::power::PowerMeter;
use plimsoll_machine::set_on_drop::SetOnDrop;
use plimsoll_machine::watch::{self, ServerWatchScope, WatchedUse};
use std::cell::RefCell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The generator is to blame when its own delays reach this share of all response time.
const LAG_SHARE_MAX: f64 = 0.1;
/// A remark reports nodes whose starts are further apart than this.
const SPREAD_MAX: Nanos = Nanos(100_000_000);

/// Bad blocks that a remark names; all are in the run folder, up to a limit.
const FINDINGS_SHOWN: usize = 5;

/// Runs one trial, while its system is as the entry wants it, and tells the listener everything.
pub(super) fn run_trial(
    trial: &TrialId,
    arms: &ArmSet,
    entry: &WorkloadEntry,
    with: (&CampaignOptions, Option<&mut FaultBench>),
    stop: &AtomicBool,
    listener: &mut dyn RunListener,
) -> Result<TrialResult, CliError> {
    listener.event(&RunEvent::TrialBegan(trial.clone()));
    in_condition((trial, entry), arms, stop, listener, |listener| {
        measure_trial(trial, arms, entry, with, stop, listener)
    })
}

/// Does something while the trial's system is as the entry wants it.
pub(super) fn in_condition<T>(
    (trial, entry): (&TrialId, &WorkloadEntry),
    arms: &ArmSet,
    stop: &AtomicBool,
    listener: &mut dyn RunListener,
    work: impl FnOnce(&mut dyn RunListener) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let Some(condition) = &entry.condition else {
        return work(listener);
    };
    let of = (trial, condition, entry.workload.data_set_bytes());
    let (done, rebuilt_in) = under_condition(of, arms, stop, || work(&mut *listener))?;
    let about = format!("{} on {}", entry.label, trial.arm);
    if let Some(rebuilt_in) = rebuilt_in.filter(|_| arms.is_first_time(&about)) {
        let text = format!(
            "the rebuild took {}, and the trial lasted longer: part of it measures a system that is whole again",
            units::duration(rebuilt_in)
        );
        listener.event(&RunEvent::Warning(RunWarning { about, text }));
    }
    Ok(done)
}

/// Runs it on all nodes that its load comes from. This machine is such a node.
pub(super) fn measure_trial(
    trial: &TrialId,
    arms: &ArmSet,
    entry: &WorkloadEntry,
    (settings, mut bench): (&CampaignOptions, Option<&mut FaultBench>),
    stop: &AtomicBool,
    listener: &mut dyn RunListener,
) -> Result<TrialResult, CliError> {
    if is_whole(entry) {
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
        tell(&result, entry, listener);
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
    let device = RefCell::new(device_watch(trial, arms, (entry, settings)));
    let clock = SystemClock::new();
    let mut power = PowerMeter::open(Path::new("/"), &clock);
    let mut on_interval = |interval: TrialInterval| {
        power.read(&clock);
        if let Some(device) = &mut *device.borrow_mut() {
            device.interval(&interval);
        }
        listener.event(&RunEvent::Interval {
            place: trial.place,
            interval,
        });
    };
    let mut on_phase = || leave_out(&device);
    let is_over = || stop.load(Ordering::Relaxed);
    let mut play = |sessions: &mut TrialSessions<'_>, is_over: &dyn Fn() -> bool| {
        sessions.play(is_over, &mut on_interval, &mut on_phase)
    };
    let (played, used) = watched(arms.subjects(&trial.arm), || match faults {
        None => Ok((play(&mut sessions, &is_over), None, None)),
        Some((injection, bench)) => {
            let play = |is_over: &dyn Fn() -> bool| play(&mut sessions, is_over);
            let with = (settings.seed, bench);
            under_fault((trial, entry, injection), arms, with, stop, play)
        }
    });
    let (started_at, fault, failure) = played?;
    let (result, notes) = sessions.result(trial, started_at)?;
    tell_notes(trial, notes, listener);
    let result = TrialResult {
        servers: used.servers,
        client_programs: used.client_programs,
        device: device.into_inner().and_then(DeviceWatch::end),
        energy: power.used(),
        fault,
        failed: result.failed.or(failure.map(|failure| failure.text())),
        ..result
    };
    tell(&result, entry, listener);
    note_missing_bytes(&result, settings, listener);
    // A trial whose mount changed measured something else; the healing of a fault may change it.
    if is_whole(entry) {
        arms.check_mount(&trial.arm)?;
    }
    Ok(result)
}

/// The disk below the arm of a trial, where there is one.
fn device_watch(
    trial: &TrialId,
    arms: &ArmSet,
    (entry, settings): (&WorkloadEntry, &CampaignOptions),
) -> Option<DeviceWatch> {
    let device = arms.device(&trial.arm)?;
    let warmup = warmup(&entry.workload, entry.length, settings);
    Some(DeviceWatch::begin(device, warmup))
}

/// Layout for a phase is no part of its load.
fn leave_out(device: &RefCell<Option<DeviceWatch>>) {
    if let Some(device) = &mut *device.borrow_mut() {
        device.leave_out();
    }
}

fn tell_notes(trial: &TrialId, notes: Vec<String>, listener: &mut dyn RunListener) {
    for text in notes {
        let about = about(trial);
        listener.event(&RunEvent::Warning(RunWarning { about, text }));
    }
}

/// Whether the systems are as they were made. Else their mounts may change, and files that are removed may
/// come back when a server does.
fn is_whole(entry: &WorkloadEntry) -> bool {
    entry.inject.is_none() && entry.condition.is_none()
}

/// A trial whose time was over before its bytes were moved.
fn note_missing_bytes(
    result: &TrialResult,
    settings: &CampaignOptions,
    listener: &mut dyn RunListener,
) {
    let moved = result.stats.bytes();
    let missing = settings
        .bytes
        .filter(|bytes| moved < *bytes && !result.interrupted);
    if let Some(bytes) = missing {
        let (moved, bytes) = (units::size(moved as f64), units::size(bytes as f64));
        listener.event(&RunEvent::Warning(RunWarning {
            about: about(&result.trial),
            text: format!("the time of the trial was over when {moved} of {bytes} were moved"),
        }));
    }
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
    let (ended, used) = watched(arms.subjects(&trial.arm), || match faults {
        None => Ok(((), None, None)),
        Some((injection, bench)) => {
            let with = (settings.seed, bench);
            under_fault((trial, entry, injection), arms, with, stop, |_| ())
        }
    });
    let ((), fault, failure) = ended?;
    Ok(TrialResult {
        length: Nanos::from_secs_f64(clock.now().as_secs_f64()),
        servers: used.servers,
        client_programs: used.client_programs,
        interrupted: fault
            .as_ref()
            .is_none_or(|fault| fault.check.data.interrupted),
        failed: failure.map(|failure| failure.text()),
        fault,
        ..TrialResult::of(trial.clone())
    })
}

/// Task of the node of this number in a trial.
pub(super) fn trial_task(
    trial: &TrialId,
    arms: &ArmSet,
    (entry, settings): (&WorkloadEntry, &CampaignOptions),
    n: usize,
) -> AgentTrialTask {
    let is_under_fault = !is_whole(entry);
    AgentTrialTask {
        trial: trial.clone(),
        entry: entry.on_arm(&trial.arm),
        target: match (arms.target(&trial.arm).reach()[n].clone(), is_under_fault) {
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
        settle: match settings.settle {
            true => arms.grounds(n),
            false => Vec::new(),
        },
        scratch: arms.scratch(n).map(Path::to_path_buf),
        seed: settings.seed,
        stamp_seed: settings.stamp_seed,
        warmup: warmup(&entry.workload, entry.length, settings),
        step: match settings.design {
            Some(_) => PILOT_STEP,
            None => Nanos::SECOND,
        },
        bytes: settings.bytes.map(|bytes| {
            let nodes = arms.load().nodes().len().max(1) as u64;
            bytes.div_ceil(nodes)
        }),
        whole: settings.whole,
        engine: settings.engine,
        data_check: settings.data_check,
        peers: arms.peers(&trial.arm),
    }
}

fn about(trial: &TrialId) -> String {
    format!("{} on {}", trial.workload, trial.arm)
}

/// Tells the listener of a result and of what a reader of it should know.
fn tell(result: &TrialResult, entry: &WorkloadEntry, listener: &mut dyn RunListener) {
    listener.event(&RunEvent::TrialEnded(Box::new(result.clone())));
    // Of a load line most trials are beyond what is carried: the search says so.
    let is_search = entry.load_line.is_some() && result.failed.is_none();
    if is_search && result.stats.errors() == 0 && !result.was_held_up() {
        return;
    }
    for text in remarks(result, is_lag_ours(&entry.workload)) {
        let about = about(&result.trial);
        listener.event(&RunEvent::Warning(RunWarning { about, text }));
    }
}

/// Does something while these are watched.
pub(super) fn watched<T>(
    subjects: Option<(ServerWatchScope<'_>, HostPool)>,
    work: impl FnOnce() -> T,
) -> (T, WatchedUse) {
    let Some((subjects, mut nodes)) = subjects else {
        return (work(), WatchedUse::default());
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher =
            scope.spawn(|| watch::watch(&subjects, &mut nodes, &SystemClock::new(), &stop));
        let over = SetOnDrop(&stop);
        let done = work();
        drop(over);
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
pub(super) fn warmup(workload: &Workload, length: Nanos, settings: &CampaignOptions) -> Nanos {
    if matches!(workload, Workload::Model(_)) || workload.ends_by_itself() {
        return Nanos(0);
    }
    settings.warmup.unwrap_or_else(|| usual_warmup(length))
}

/// The longest warm-up where none is given.
pub(super) const WARMUP_MAX: Nanos = Nanos::SECOND;

/// Time before the measured part of this length, where none is given: a tenth, since more would take more of
/// a short trial than it gives.
pub fn usual_warmup(length: Nanos) -> Nanos {
    Nanos(length.0 / 10).min(WARMUP_MAX)
}

/// Remarks that a reader of this result should know.
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
    // Requests that an overloaded system left unserved are missing from every figure of the load.
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

/// Remarks on how the load was served, and on how it was made.
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

/// Remark on the verification of its data.
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
