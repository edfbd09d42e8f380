// SPDX-License-Identifier: Apache-2.0
//! A trial while a stack is degraded or slow: one of its servers has a fault from before the measured part
//! until after it.
//!
//! Invariants: the fault is in the stack's journal before it is injected; whatever comes of the trial, the
//! server is brought back, or the error says that it could not be.

use super::injection::cannot_heal;
use super::under::{only_on_nodes, planned};
use super::{FailoverContext, FailoverFault};
use crate::campaign::{ArmSet, CampaignOptions};
use plimsoll_agent::failure::stopped;
use plimsoll_agent::failure::{CliError, CliExitCode, doing};
use plimsoll_core::event::{RunWarning, TrialId};
use plimsoll_core::failover::StackCondition;
use plimsoll_core::fault::FaultKind;
use plimsoll_core::target::NodeTarget;
use plimsoll_core::units::{self, Nanos};
use plimsoll_lab::faults;
use plimsoll_machine::host::{HostTimeSource as _, SystemClock};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Time between two looks at whether the trial is over.
const LOOK: Duration = Duration::from_millis(50);

/// The file that is written to see whether a stack answers again.
const SETTLE_FILE: &str = "plimsoll.settle";

/// What a dry run says of it.
pub(super) fn intention(condition: &StackCondition) -> Option<String> {
    condition.fault.map(|_| while_text(condition))
}

fn while_text(condition: &StackCondition) -> String {
    let victim = match condition.victim.as_deref() {
        None => "one server of the stack, another one in each block".into(),
        Some(name) => format!("server {name}"),
    };
    let fault = condition.fault.map_or("", FaultKind::name);
    format!(
        "while {}: {victim}, has the fault '{fault}' from before each trial until after it; the trial \
         begins when the stack answers again",
        condition.name()
    )
}

/// Looks at whether the servers of every stack can have the conditions; gives what a reader of the results
/// should know of them.
pub(super) fn check(
    arms: &ArmSet,
    settings: &CampaignOptions,
) -> Result<Vec<RunWarning>, CliError> {
    let mut notes = Vec::new();
    for condition in &settings.conditions {
        let Some(fault) = condition.fault else {
            continue;
        };
        for (arm, target) in arms.probed() {
            if target.is_only_on_nodes() {
                return Err(only_on_nodes(arm));
            }
            let mut context = FailoverContext::of(arm, arms, Nanos(0), Nanos(0))?;
            let all = context.plan_all(fault, condition.victim.as_deref())?;
            let lost = all.iter().find(|one| {
                fault == FaultKind::Kill && !faults::is_survivable(&one.victim.name, &context.made)
            });
            if let Some(lost) = lost {
                return Err(CliError::usage(format!(
                    "measure {arm} while it is {}: it does not go on without {}",
                    condition.name(),
                    lost.victim.name
                ))
                .hint("choose a redundant stack, or another server with --victim"));
            }
        }
        notes.push(RunWarning {
            about: "conditions".into(),
            text: while_text(condition),
        });
    }
    Ok(notes)
}

/// Says that the trial is over, however it ended: the fault is kept until then.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Measures while one server of the trial's stack has the fault of the condition.
pub(in crate::campaign) fn under_condition<T>(
    (trial, condition): (&TrialId, &StackCondition),
    arms: &ArmSet,
    stop: &AtomicBool,
    measure: impl FnOnce() -> Result<T, CliError>,
) -> Result<T, CliError> {
    let Some(fault) = condition.fault else {
        return measure();
    };
    let mut context = FailoverContext::of(&trial.arm, arms, Nanos(0), condition.settle_timeout)?;
    let all = context.plan_all(fault, condition.victim.as_deref())?;
    let next = planned(&mut context, &all, (trial, condition.victim.as_deref()))?;
    let target = arms.target(&trial.arm).here();
    let (is_over, name) = (AtomicBool::new(false), context.name.clone());
    let (ready, injected) = sync_channel(1);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        // The sender goes with the thread: who waits for it learns of an early end.
        let holder = scope.spawn(move || context.hold(next, &ready, (is_over, stop)));
        let over = SetOnDrop(is_over);
        let measured = match injected.recv() {
            Ok(()) => settle(&target, condition, &name, stop).and_then(|()| measure()),
            // The holder says why.
            Err(_) => Err(stopped()),
        };
        drop(over);
        let held = holder.join();
        let held = held.unwrap_or_else(|_| {
            let text = format!("the fault on {name} was not recovered: its thread panicked");
            Err(CliError::sentence(CliExitCode::NotCleaned, text))
        });
        held.and(measured)
    })
}

impl FailoverContext {
    /// Injects a fault, keeps it until the trial is over, and recovers it.
    fn hold(
        &mut self,
        fault: &FailoverFault,
        ready: &SyncSender<()>,
        (is_over, stop): (&AtomicBool, &AtomicBool),
    ) -> Result<(), CliError> {
        let processes = self.processes(fault).unwrap_or_default();
        let noted = self.note(fault)?;
        let plan = &fault.fault_plan;
        let first = self.begin(fault, Duration::ZERO, stop);
        let injected = first.and_then(|()| self.carry_out(&plan.inject, fault));
        let heal = match injected.is_ok() || plan.halfway.is_empty() {
            true => &plan.heal,
            false => &plan.halfway,
        };
        let kept = injected.and_then(|()| {
            // Who waits for it may have given up: then it is over at once.
            let _ = ready.send(());
            self.keep(fault, is_over)
        });
        self.mend(fault, (heal, &processes), &mut || (), stop)
            .map_err(|failure| cannot_heal(failure, &self.name))?;
        noted
            .healed()
            .map_err(doing(CliExitCode::Failed, "write the journal of the stack"))?;
        kept
    }

    /// Keeps a fault; one that comes and goes is recovered and injected in turn.
    fn keep(&mut self, fault: &FailoverFault, is_over: &AtomicBool) -> Result<(), CliError> {
        let Some(cycle) = fault.fault_plan.cycle else {
            while !is_over.load(Ordering::Relaxed) {
                self.clock.pause(LOOK);
            }
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
    let (send, ended) = sync_channel(1);
    let path = path.join(SETTLE_FILE);
    // Not waited for: it may stand still for as long as the stack does.
    std::thread::spawn(move || send.send(write_synced(&path)));
    match wait(&ended, condition.settle_timeout, stop) {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(CliError::new(
            CliExitCode::Failed,
            format!("write to {name} while it is {}: {error}", condition.name()),
        )),
        None if stop.load(Ordering::Relaxed) => Err(stopped()),
        None => Err(CliError::sentence(
            CliExitCode::Failed,
            format!(
                "{name} did not answer within {} while it is {}",
                units::clock_duration(condition.settle_timeout),
                condition.name()
            ),
        )
        .hint("give it more time with --recovery-timeout")),
    }
}

fn write_synced(path: &Path) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(&[0; 4096])?;
    file.sync_all()?;
    std::fs::remove_file(path)
}

/// What comes within this time; nothing when it does not, or the user stops.
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
