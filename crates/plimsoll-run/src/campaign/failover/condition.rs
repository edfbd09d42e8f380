// SPDX-License-Identifier: Apache-2.0
//! A trial while a stack is degraded, slow, busy or full, from before the measured part until after it.
//!
//! Invariants: a fault is in the stack's journal before it is injected; whatever comes of the trial, the
//! server is brought back, or the error says that it could not be.

use super::fill_file::FillFile;
use super::injection::cannot_heal;
use super::under::{only_on_nodes, planned};
use super::{FailoverContext, FailoverFault};
use crate::campaign::{ArmSet, CampaignOptions};
use plimsoll_console::failure::stopped;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::event::{RunWarning, TrialId};
use plimsoll_core::failover::{FULL_SHARE, StackCondition, StackConditionState};
use plimsoll_core::fault::FaultKind;
use plimsoll_core::num::to_usize;
use plimsoll_core::plan::PlanAction;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::target::NodeTarget;
use plimsoll_core::units::{self, Nanos};
use plimsoll_lab::faults;
use plimsoll_lab::stacks::{self, StackChange};
use plimsoll_machine::host::{HostTimeSource as _, SystemClock};
use plimsoll_machine::set_on_drop::SetOnDrop;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Time between two looks at whether the trial is over.
const LOOK: Duration = Duration::from_millis(50);

/// Most bytes of writes that a server misses before it is rebuilt.
const MISSED_BYTES: u64 = 256 << 20;

/// The file that these writes go into.
const MISSED_FILE: &str = "plimsoll.missed";

/// The file that is written to see whether a stack answers again.
const SETTLE_FILE: &str = "plimsoll.settle";

/// Line of a dry run about the condition; `None` for a healthy stack.
pub(super) fn intention(condition: &StackCondition) -> Option<String> {
    (!condition.is_healthy()).then(|| while_text(condition))
}

fn while_text(condition: &StackCondition) -> String {
    let victim = match condition.victim.as_deref() {
        None => "one server of the stack, another one in each block".into(),
        Some(name) => format!("server {name}"),
    };
    let what = match condition.state {
        Some(StackConditionState::Rebuild) => format!(
            "{victim}, is killed before each trial and misses up to {} of writes; the trial begins when it is \
             started again",
            units::size(MISSED_BYTES as f64)
        ),
        Some(StackConditionState::Scrub) => {
            "the data of the stack are scrubbed again and again during each trial".into()
        }
        Some(StackConditionState::Full) => format!(
            "its file system is filled to {:.0} % before each trial, the data of the workload included",
            FULL_SHARE * 100.0
        ),
        None => format!(
            "{victim}, has the fault '{}' from before each trial until after it; the trial begins when the \
             stack answers again",
            condition.fault.map_or("", FaultKind::name)
        ),
    };
    format!("while {}: {what}", condition.name())
}

/// Looks at whether every stack can be in the conditions; gives what a reader of the results should know of
/// them.
pub(super) fn check(
    arms: &ArmSet,
    settings: &CampaignOptions,
) -> Result<Vec<RunWarning>, CliError> {
    let mut notes = Vec::new();
    let troubled = |one: &&StackCondition| !one.is_healthy();
    for condition in settings.conditions.iter().filter(troubled) {
        for (arm, target) in arms.probed() {
            if target.here.is_none() {
                return Err(only_on_nodes(arm));
            }
            check_one(arm, arms, condition)?;
        }
        notes.push(RunWarning {
            about: "conditions".into(),
            text: while_text(condition),
        });
    }
    Ok(notes)
}

fn check_one(arm: &str, arms: &ArmSet, condition: &StackCondition) -> Result<(), CliError> {
    let mut context = FailoverContext::of(arm, arms, Nanos(0), Nanos(0))?;
    if condition.state == Some(StackConditionState::Scrub) {
        context.scrub_plan()?;
    }
    let Some(fault) = condition.injected() else {
        return Ok(());
    };
    let all = context.plan_all(fault, condition.victim.as_deref())?;
    let lost = all.iter().find(|one| {
        fault == FaultKind::Kill && !faults::is_survivable(&one.victim.name, &context.made)
    });
    match lost {
        None => Ok(()),
        Some(lost) => Err(CliError::usage(format!(
            "measure {arm} while {}: it does not go on without {}",
            condition.name(),
            lost.victim.name
        ))
        .hint("choose a redundant stack, or another server with --victim")),
    }
}

/// Measures while the trial's stack is in the condition. A rebuild may be over before the trial is: then it
/// says how long it took.
pub(in crate::campaign) fn under_condition<T>(
    (trial, condition, data_bytes): (&TrialId, &StackCondition, u64),
    arms: &ArmSet,
    stop: &AtomicBool,
    measure: impl FnOnce() -> Result<T, CliError>,
) -> Result<(T, Option<Nanos>), CliError> {
    if condition.is_healthy() {
        return Ok((measure()?, None));
    }
    let mut context = FailoverContext::of(&trial.arm, arms, Nanos(0), condition.settle_timeout)?;
    let target = arms.target(&trial.arm).local_reach();
    if condition.state == Some(StackConditionState::Full) {
        let _filled = fill(target, data_bytes, &context.name)?;
        return Ok((measure()?, None));
    }
    let trouble = match condition.injected() {
        None => StackTrouble::Scrub(context.scrub_plan()?),
        Some(fault) => {
            let all = context.plan_all(fault, condition.victim.as_deref())?;
            let who = (trial, condition.victim.as_deref());
            let fault = planned(&mut context, &all, who)?.clone();
            StackTrouble::Fault(Box::new(fault))
        }
    };
    let (is_over, name) = (AtomicBool::new(false), context.name.clone());
    let (ready, begun) = sync_channel(1);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        let missed = missed_writes(target, condition);
        // The sender goes with the thread: who waits for it learns of an early end.
        let holder = scope.spawn(move || match trouble {
            StackTrouble::Scrub(plan) => context.keep_scrubbing(&plan, &ready, (is_over, stop)),
            StackTrouble::Fault(fault) => {
                context.hold(&fault, missed.as_ref(), &ready, (is_over, stop))
            }
        });
        // The fault is kept until the trial is over, however it ends.
        let over = SetOnDrop(is_over);
        let measured = match begun.recv() {
            Ok(()) => settle(target, condition, &name, stop).and_then(|()| measure()),
            // The holder says why.
            Err(_) => Err(stopped()),
        };
        drop(over);
        let held = holder.join();
        let held = held.unwrap_or_else(|_| {
            let text = format!("the fault on {name} was not recovered: its thread panicked");
            Err(CliError::sentence(CliExitCode::NotCleaned, text))
        });
        held.and_then(|rebuilt| Ok((measured?, rebuilt)))
    })
}

/// Fault or scrub of a stack beside a trial.
enum StackTrouble {
    Fault(Box<FailoverFault>),
    Scrub(Vec<(String, PlanAction)>),
}

/// Writes that a server misses before it is rebuilt: into this file.
struct MissedWrites {
    path: PathBuf,
    timeout: Nanos,
}

impl Drop for MissedWrites {
    fn drop(&mut self) {
        // It may never have been written; what is left goes with the directory of the stack.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The file for missed writes; `None` unless the condition is a rebuild and the target a directory.
fn missed_writes(target: &NodeTarget, condition: &StackCondition) -> Option<MissedWrites> {
    let NodeTarget::Directory { path, .. } = target else {
        return None;
    };
    (condition.state == Some(StackConditionState::Rebuild)).then(|| MissedWrites {
        path: path.join(MISSED_FILE),
        timeout: condition.settle_timeout,
    })
}

/// Fills the file system of a stack for as long as what this gives lives.
fn fill(target: &NodeTarget, data_bytes: u64, name: &str) -> Result<Option<FillFile>, CliError> {
    let NodeTarget::Directory { path, .. } = target else {
        return Ok(None);
    };
    let filled = FillFile::fill(path, FULL_SHARE, data_bytes);
    filled.map(Some).map_err(doing(
        CliExitCode::Failed,
        format!("fill {name} to {:.0} %", FULL_SHARE * 100.0),
    ))
}

impl FailoverContext {
    /// Injects a fault, keeps it until the trial is over, and recovers it. With missed writes the trial is
    /// measured while it is recovered; then this gives how long that took.
    fn hold(
        &mut self,
        fault: &FailoverFault,
        missed: Option<&MissedWrites>,
        ready: &SyncSender<()>,
        (is_over, stop): (&AtomicBool, &AtomicBool),
    ) -> Result<Option<Nanos>, CliError> {
        let processes = self.processes(fault).unwrap_or_default();
        let noted = self.note(fault)?;
        let plan = &fault.fault_plan;
        let first = self.begin(fault, Duration::ZERO, stop);
        let injected = first.and_then(|()| self.carry_out(&plan.inject, fault));
        let heal = match injected.is_ok() || plan.halfway.is_empty() {
            true => &plan.heal,
            false => &plan.halfway,
        };
        // Who waits for it may have given up: then it is over at once.
        let begin = || ready.send(()).unwrap_or_default();
        let kept = injected.and_then(|()| match missed {
            Some(missed) => self.miss(missed, stop),
            None => {
                begin();
                self.keep(fault, is_over)
            }
        });
        // Who uses the stack must not lose its mount: the trial begins behind that.
        let (first, rest) = match missed.is_some() && kept.is_ok() {
            true => heal.split_at(faults::remounted_at(heal, &self.made)),
            false => (&heal[..0], &heal[..]),
        };
        let remounted = match first {
            [] => Ok(()),
            first => self.carry_out(first, fault),
        };
        if missed.is_some() && kept.is_ok() && remounted.is_ok() {
            begin();
        }
        let began = self.clock.now();
        let mended =
            remounted.and_then(|()| self.mend(fault, (rest, &processes), &mut || (), stop));
        let took = self.clock.now().saturating_sub(began);
        mended.map_err(cannot_heal)?;
        noted
            .healed()
            .map_err(doing(CliExitCode::Failed, "write the journal of the stack"))?;
        kept?;
        let is_shorter = missed.is_some() && !is_over.load(Ordering::Relaxed);
        self.wait_until_over(is_over);
        Ok(is_shorter.then(|| Nanos::from_secs_f64(took.as_secs_f64())))
    }

    /// Writes what a lost server then lacks.
    fn miss(&self, missed: &MissedWrites, stop: &AtomicBool) -> Result<(), CliError> {
        let path = missed.path.clone();
        let written = in_time(missed.timeout, stop, move || write_missed(&path));
        match written {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(CliError::new(
                CliExitCode::Failed,
                format!("write to {} while a server is lost: {error}", self.name),
            )),
            None if stop.load(Ordering::Relaxed) => Err(stopped()),
            None => Err(no_answer(&self.name, "degraded", missed.timeout)),
        }
    }

    /// Steps that read all data of the stack and compare them.
    fn scrub_plan(&mut self) -> Result<Vec<(String, PlanAction)>, CliError> {
        let plan = stacks::change::planned(
            &self.name,
            StackChange::Scrub,
            None,
            &self.state,
            &mut self.nodes,
        );
        let failed = doing(CliExitCode::Usage, format!("scrub {}", self.name));
        let steps = plan.map_err(failed)?.steps.into_iter();
        Ok(steps.map(|step| (step.node, step.apply)).collect())
    }

    /// Scrubs until the trial is over, again and again: there is nothing to undo.
    fn keep_scrubbing(
        &mut self,
        plan: &[(String, PlanAction)],
        ready: &SyncSender<()>,
        (is_over, stop): (&AtomicBool, &AtomicBool),
    ) -> Result<Option<Nanos>, CliError> {
        let _ = ready.send(());
        while !is_over.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
            faults::carry_out(plan, &self.id, &mut self.nodes).map_err(doing(
                CliExitCode::Failed,
                format!("scrub {} during a trial", self.name),
            ))?;
        }
        Ok(None)
    }

    fn wait_until_over(&self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            self.clock.pause(LOOK);
        }
    }

    /// Keeps a fault; one that comes and goes is recovered and injected in turn.
    fn keep(&mut self, fault: &FailoverFault, is_over: &AtomicBool) -> Result<(), CliError> {
        let Some(cycle) = fault.fault_plan.cycle else {
            self.wait_until_over(is_over);
            return Ok(());
        };
        loop {
            self.clock.pause(cycle.on);
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.carry_out(&fault.fault_plan.heal, fault)?;
            self.clock.pause(cycle.off);
            self.carry_out(&fault.fault_plan.inject, fault)?;
        }
    }
}

/// Waits until a stack answers: until a synced write to it has ended.
fn settle(
    target: &NodeTarget,
    condition: &StackCondition,
    name: &str,
    stop: &AtomicBool,
) -> Result<(), CliError> {
    let NodeTarget::Directory { path, .. } = target else {
        return Ok(());
    };
    let path = path.join(SETTLE_FILE);
    match in_time(condition.settle_timeout, stop, move || write_synced(&path)) {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(CliError::new(
            CliExitCode::Failed,
            format!("write to {name} while {}: {error}", condition.name()),
        )),
        None if stop.load(Ordering::Relaxed) => Err(stopped()),
        None => Err(no_answer(name, condition.name(), condition.settle_timeout)),
    }
}

fn no_answer(name: &str, state: &str, timeout: Nanos) -> CliError {
    let timeout = units::clock_duration(timeout);
    let text = format!("{name} did not answer within {timeout} while {state}");
    CliError::sentence(CliExitCode::Failed, text).hint("give it more time with --recovery-timeout")
}

fn write_synced(path: &Path) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&[0; 4096])?;
    file.sync_all()?;
    std::fs::remove_file(path)
}

/// Writes what cannot be compressed, as much as a quarter of the room that is left at most.
fn write_missed(path: &Path) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let room = rustix::fs::fstatvfs(&file)?;
    let mut left = MISSED_BYTES.min(room.f_bavail.saturating_mul(room.f_frsize) / 4);
    let mut rng = Rng::new(Seed(0));
    let mut piece = vec![0; 1 << 20];
    while left > 0 {
        for eight in piece.chunks_exact_mut(8) {
            eight.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
        let length = to_usize(left).min(piece.len());
        file.write_all(&piece[..length])?;
        left -= length as u64;
    }
    file.sync_all()
}

/// Result of the work, if it ends in time. It is not waited for longer: it may hang for as long as
/// a stack does.
fn in_time<T: Send + 'static>(
    limit: Nanos,
    stop: &AtomicBool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (send, ended) = sync_channel(1);
    std::thread::spawn(move || send.send(work()));
    wait(&ended, limit, stop)
}

/// Value that arrives within this time; `None` when it does not, or the user stops.
fn wait<T>(ended: &Receiver<T>, limit: Nanos, stop: &AtomicBool) -> Option<T> {
    let clock = SystemClock::new();
    let until = clock.now() + Duration::from_nanos(limit.0);
    loop {
        match ended.recv_timeout(LOOK) {
            Ok(value) => return Some(value),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if clock.now() >= until || stop.load(Ordering::Relaxed) {
            return None;
        }
    }
}
