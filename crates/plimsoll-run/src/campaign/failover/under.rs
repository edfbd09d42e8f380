// SPDX-License-Identifier: Apache-2.0
//! A trial under a fault: the load is played as in any other trial, while sessions probe the stack and a
//! fault is injected and healed beside it.
//!
//! Invariants: the load has the same length in every trial, so that its figures can be compared; the
//! trial lasts until the fault is healed and the sessions came back, or were waited for long enough.

use super::beside::BackgroundLoadRun;
use super::sessions::{FailoverSessions, SessionLoadOptions};
use super::strike::FailoverClients;
use super::{ACTIVE, CALM, DRAWN, FailoverContext, FaultTiming};
use crate::campaign::scale::length;
use crate::campaign::{ArmSet, CampaignOptions, WorkloadRequest};
use crate::spec::TargetSpec;
use plimsoll_agent::context;
use plimsoll_agent::failure::{CliError, CliExitCode};
use plimsoll_core::event::TrialId;
use plimsoll_core::failover::{FaultInjection, FaultResult};
use plimsoll_core::num::to_usize;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_machine::host::{HostTimeSource as _, SystemClock};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long the load goes on at least after the fault should be over.
const AFTERWARDS: Nanos = Nanos(15 * Nanos::SECOND.0);

/// Time between two looks at whether the load has ended.
const LOOK: Duration = Duration::from_millis(20);

/// The load of a trial, as who injects a fault sees it.
#[derive(Debug, Default)]
pub(super) struct TrialLoadSwitch {
    /// Set when it is to end early: bringing back what the fault took would take its mount away.
    halted: AtomicBool,
    ended: AtomicBool,
}

impl TrialLoadSwitch {
    /// Ends the load, and waits until it has.
    pub(super) fn end(&self) {
        self.halted.store(true, Ordering::Relaxed);
        while !self.ended.load(Ordering::Relaxed) {
            SystemClock::new().pause(LOOK);
        }
    }
}

/// Says that the load has ended, however it did: the injector may wait for it.
struct EndOnDrop<'a>(&'a TrialLoadSwitch);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Relaxed);
    }
}

/// When a fault is injected at the latest, while the sessions are as they should be.
fn injected_until() -> Nanos {
    Nanos::from_secs_f64((CALM + DRAWN).as_secs_f64())
}

/// How long a load is played under a fault where nobody says.
pub(in crate::campaign) fn length_under(injection: &FaultInjection) -> Nanos {
    injected_until() + injection.length + AFTERWARDS
}

/// Refuses, before anything is made, faults of what is no stack, and loads that would not be there to feel
/// them.
pub fn check_asked_under_faults(
    asked: &[WorkloadRequest],
    targets: &[TargetSpec],
    settings: &CampaignOptions,
) -> Result<(), CliError> {
    let Some(injection) = settings.inject.first() else {
        return Ok(());
    };
    if !targets
        .iter()
        .all(|target| matches!(target, TargetSpec::Stack(_)))
    {
        return Err(CliError::invalid(
            "--fault needs stacks as targets: only of these plimsoll knows the servers",
        )
        .hint(
            "plimsoll stack list shows them; for other storage, see plimsoll ledger write --help",
        ));
    }
    for one in asked {
        check_load(&one.workload, length(one, settings), injection)?;
    }
    Ok(())
}

fn check_load(
    workload: &Workload,
    length: Nanos,
    injection: &FaultInjection,
) -> Result<(), CliError> {
    let name = workload.name();
    if matches!(workload, Workload::Commands(_)) || workload.ends_by_itself() {
        return Err(CliError::invalid(format!(
            "cannot inject {} under {name}: it ends by itself, so it may be over before the fault",
            injection.fault
        ))
        .hint("choose a workload that runs for a given time"));
    }
    let least = injected_until() + injection.length;
    if length < least {
        return Err(CliError::invalid(format!(
            "invalid value '{}' for --for: a fault of {} that begins up to {} after the load needs at \
             least {}",
            units::clock_duration(length),
            units::clock_duration(injection.length),
            units::clock_duration(injected_until()),
            units::clock_duration(least)
        )));
    }
    Ok(())
}

/// Refuses faults that the servers of a stack cannot be done.
pub(in crate::campaign) fn check(
    arms: &ArmSet,
    settings: &CampaignOptions,
) -> Result<(), CliError> {
    for injection in &settings.inject {
        for (arm, target) in arms.probed() {
            if target.is_only_on_nodes() {
                return Err(CliError::usage(format!(
                    "inject faults into {arm} from this machine: its sessions probe from here, and it is \
                     mounted on the nodes alone"
                )));
            }
            let mut context = context_of(injection, arm, arms, Seed(0))?;
            context.plan_all(injection.fault, injection.victim.as_deref())?;
        }
    }
    Ok(())
}

fn context_of(
    injection: &FaultInjection,
    arm: &str,
    arms: &ArmSet,
    campaigns: Seed,
) -> Result<FailoverContext, CliError> {
    let timing = FaultTiming {
        lasting: Duration::from_nanos(injection.length.0),
        patience: Duration::from_nanos(injection.recovery_timeout.0),
    };
    FailoverContext::of(arm, arms, timing, campaigns, &context::state_dir()?)
}

/// Plays a load while a fault is injected beside it; gives what both came to.
pub(in crate::campaign) fn under_fault<T>(
    (trial, injection): (&TrialId, &FaultInjection),
    arms: &ArmSet,
    (seed, ledger): (Seed, &Path),
    stop: &AtomicBool,
    play: impl FnOnce(&dyn Fn() -> bool) -> T,
) -> Result<(T, Option<FaultResult>), CliError> {
    // Another one each time: what an earlier run left on the stack must not pass for this one's.
    let campaigns = Seed(FailoverSessions::now().0).derive("campaign", std::process::id().into());
    let mut context = context_of(injection, &trial.arm, arms, campaigns)?;
    let planned = context.plan_all(injection.fault, injection.victim.as_deref())?;
    let next = match injection.victim.as_deref() {
        Some(ACTIVE) => context.chosen(&planned)?,
        // The same for both entries of the control.
        _ => &planned[to_usize(u64::from(trial.block)) % planned.len()],
    };
    // Arms of one block share the moment, too.
    let mut rng = Rng::new(seed.derive("moments", trial.block.into()));
    let calm = CALM + DRAWN.mul_f64(rng.unit());
    let load = SessionLoadOptions {
        sessions: injection.sessions,
        rate: injection.rate,
        block_bytes: injection.block_bytes,
        file_bytes: injection.file_bytes,
    };
    let (here, name) = (arms.target(&trial.arm).here(), context.name.clone());
    let own = campaigns.derive(injection.fault.name(), trial.place.into());
    let switch = TrialLoadSwitch::default();
    std::thread::scope(|scope| {
        let injector = scope.spawn(|| {
            std::thread::scope(|scope| {
                let sessions = FailoverSessions::begin(scope, (&here, &name), &load, ledger, own);
                let others = BackgroundLoadRun::of_trial(&switch, &name);
                let users = FailoverClients::new(sessions, others);
                let struck = context.strike(next, users, calm, stop);
                // Nothing is to be learnt of the load any more.
                switch.halted.fetch_or(struck.is_err(), Ordering::Relaxed);
                struck
            })
        });
        let ended = EndOnDrop(&switch);
        let is_over = || stop.load(Ordering::Relaxed) || switch.halted.load(Ordering::Relaxed);
        let played = play(&is_over);
        drop(ended);
        let panicked = || CliError::sentence(CliExitCode::Failed, "injecting the fault panicked");
        let struck = injector.join().unwrap_or_else(|_| Err(panicked()));
        let (result, ended) = struck?;
        ended?;
        Ok((
            played,
            result.filter(|result| super::is_told(&result.check)),
        ))
    })
}
