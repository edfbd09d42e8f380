// SPDX-License-Identifier: Apache-2.0
//! A trial under a fault: the load is played as in any other trial, while sessions probe the stack and a
//! fault is injected and recovered beside it.
//!
//! Invariants: the load has the same length in every trial, so that its figures can be compared; the
//! trial lasts until the fault is recovered and the sessions came back, or were waited for long enough.

use super::copies::{self, ScpCopier};
use super::injection::FailoverClients;
use super::observers::ObserverOptions;
use super::sessions::{FailoverSessions, SessionLoadOptions};
use super::{ACTIVE, CALM, DRAWN, FailoverContext, FailoverFault, ceiling, condition};
use crate::campaign::scale::length;
use crate::campaign::trial::trial_task;
use crate::campaign::{ArmSet, CampaignOptions};
use crate::request::WorkloadRequest;
use crate::targets::TargetKind;
use plimsoll_console::failure::stopped;
use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_core::event::{RunWarning, TrialId, TrialResult, WorkloadEntry};
use plimsoll_core::failover::{FaultInjection, FaultObserver, FaultResult};
use plimsoll_core::fault::FaultKind;
use plimsoll_core::num::to_usize;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_lab::stacks::{StackPlacement, StackUpOptions, manage};
use plimsoll_machine::host::{HostTimeSource as _, SystemClock};
use plimsoll_machine::journal::StateDir;
use plimsoll_machine::set_on_drop::SetOnDrop;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
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

/// Default length of a load under a fault.
pub(in crate::campaign) fn length_under(injection: &FaultInjection) -> Nanos {
    injected_until() + injection.length + AFTERWARDS
}

/// Refuses, before anything is made, faults of what is no stack, and loads that would not be there to feel
/// them.
pub fn check_asked_under_faults(
    asked: &[WorkloadRequest],
    targets: &[Rc<dyn TargetKind>],
    settings: &CampaignOptions,
) -> Result<(), CliError> {
    let has_condition = settings.conditions.iter().any(|one| !one.is_healthy());
    let option = match settings.inject.is_empty() {
        true => "--under",
        false => "--fault",
    };
    if settings.inject.is_empty() && !has_condition {
        return Ok(());
    }
    if targets.iter().any(|target| target.stack().is_none()) {
        return Err(CliError::invalid(format!(
            "{option} needs stacks as targets: only of these plimsoll knows the servers"
        ))
        .hint(
            "plimsoll stack list shows them; for other storage, see plimsoll ledger write --help",
        ));
    }
    let Some(injection) = settings.inject.first() else {
        return Ok(());
    };
    let stacks = targets.iter().filter_map(|target| target.stack());
    let mut servers = stacks.map(|one| one.stack.shape(one).map_or(1, |shape| shape.servers));
    // Beside others such a stack is left out, with a note.
    if servers.all(|number| number == 0) {
        let names: Vec<String> = targets
            .iter()
            .filter_map(|target| Some(target.stack()?.parts.to_string()))
            .collect();
        let text = format!(
            "inject a fault into a server of {}: it has no servers of its own",
            names.join(", ")
        );
        return Err(CliError::usage(text).hint("plimsoll stack list shows stacks with servers"));
    }
    for one in asked.iter().filter(|one| !one.workload.is_idle()) {
        check_load(&one.workload, length(one, settings), injection)?;
    }
    Ok(())
}

/// Refuses, before anything is made, cuts of power where no server has a switch.
///
/// # Errors
/// With what to do instead.
pub fn check_power_cuts(
    targets: &[Rc<dyn TargetKind>],
    settings: &CampaignOptions,
    options: &StackUpOptions,
    state: &StateDir,
) -> Result<(), CliError> {
    let mut faults = settings.inject.iter();
    if !faults.any(|injection| injection.fault == FaultKind::PowerCut) {
        return Ok(());
    }
    for stack in targets.iter().filter_map(|target| target.stack()) {
        let name = stack.parts.to_string();
        let record = manage::record(&name, state).ok();
        let has_switch = match (record.and_then(|record| record.header.ask), &options.place) {
            (Some(ask), _) => ask.site.servers.iter().any(|node| !node.power.is_empty()),
            (None, Some(StackPlacement::Inventory(inventory))) => {
                let mut machines = inventory.machines.iter();
                machines.any(|machine| !machine.power.is_empty())
            }
            (None, _) => false,
        };
        if !has_switch {
            let text = format!(
                "cannot cut the power of {name}: none of its servers is a machine whose inventory names a \
                 power command (power = [...])"
            );
            return Err(CliError::invalid(text).hint(format!(
                "plimsoll vm up creates machines with one; where its disks are files: plimsoll \
                 durability '{name}'"
            )));
        }
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

/// Planned faults and stack conditions, one line each.
pub fn intentions(settings: &CampaignOptions) -> Vec<String> {
    let line = |injection: &FaultInjection| {
        let victim = match injection.victim.as_deref() {
            None => "each server in turn".into(),
            Some(ACTIVE) => "the server that serves then".into(),
            Some(name) => format!("server {name}"),
        };
        let rate = match injection.share {
            Some(share) => format!("{:.0} % of what they get at most", share * 100.0),
            None => format!(
                "{} reads and as many synced writes a second",
                injection.rate
            ),
        };
        format!(
            "inject {} into {victim}, for {} at least and {} more while sessions stand still; {} sessions, a \
             file of {} each: {rate}; then read everything back",
            injection.fault,
            units::clock_duration(injection.length),
            units::clock_duration(injection.recovery_timeout),
            injection.sessions,
            units::size(injection.file_bytes as f64)
        )
    };
    let mut lines: Vec<String> = settings.inject.iter().map(line).collect();
    lines.extend(settings.conditions.iter().filter_map(condition::intention));
    lines
}

/// Looks at whether the servers of every stack can have the faults. Of several stacks those are noted that
/// cannot, where the others go on.
///
/// # Errors
/// When one cannot and `leave_out` is not wanted, or none can.
pub(in crate::campaign) fn check(
    arms: &ArmSet,
    settings: &mut CampaignOptions,
    leave_out: bool,
) -> Result<Vec<RunWarning>, CliError> {
    let (mut refused, mut is_possible) = (None, false);
    let mut notes = condition::check(arms, settings)?;
    for injection in &mut settings.inject {
        for (arm, target) in arms.probed() {
            let checked = match target.here {
                None => Err(only_on_nodes(arm)),
                Some(_) => check_one(injection, arm, arms),
            };
            match checked {
                Ok(()) => is_possible = true,
                Err(failure) if leave_out && failure.code == CliExitCode::Usage => {
                    injection.refused.insert(arm.into(), failure.text());
                    notes.push(RunWarning {
                        about: format!("{} of {arm}", injection.fault),
                        text: failure.text(),
                    });
                    refused = Some(failure);
                }
                Err(failure) => return Err(failure),
            }
        }
    }
    match refused {
        Some(failure) if !is_possible => Err(failure),
        _ => Ok(notes),
    }
}

/// Refuses a stack that this machine cannot look at.
pub(super) fn only_on_nodes(arm: &str) -> CliError {
    CliError::usage(format!(
        "inject faults into {arm}: it is mounted on the nodes alone, and plimsoll watches it from this \
         machine"
    ))
}

fn check_one(injection: &FaultInjection, arm: &str, arms: &ArmSet) -> Result<(), CliError> {
    let mut context = FailoverContext::of(arm, arms, injection.length, injection.recovery_timeout)?;
    context.plan_all(injection.fault, injection.victim.as_deref())?;
    let is_mounted = arms.target(arm).directory().is_some();
    if !injection.observers.is_empty() && !is_mounted {
        return Err(CliError::usage(format!(
            "run observers on {arm}: they need a mounted directory"
        )));
    }
    let of_copies = match injection.observers.contains(&FaultObserver::Scp) {
        true => copies::check().map(|()| copies::BYTES)?,
        false => 0,
    };
    let of_sessions = u64::from(injection.sessions).saturating_mul(injection.file_bytes);
    arms.check_room_for(of_sessions.saturating_add(of_copies))
}

/// State that the trials under faults of one run share.
pub(in crate::campaign) struct FaultBench {
    /// Where ledgers are kept, not on the stacks.
    ledgers: PathBuf,
    /// Another one each time: what an earlier run left on the stack must not pass for this one's.
    campaigns: Seed,
    /// Copier that `scp` uses, once it is needed.
    copier: Option<ScpCopier>,
    /// The most that a session got out of a system beside a workload, where that is asked.
    ceilings: BTreeMap<CeilingKey, f64>,
    /// Stacks whose file system a fault has destroyed: what was written to their directories would go to this
    /// machine's own disk.
    destroyed: RefCell<BTreeSet<String>>,
}

/// A stack, a workload and its factor. Both entries of the A/A control are one stack, and a fault changes
/// nothing of what was there before it.
type CeilingKey = (String, String, String);

fn ceiling_key(arms: &ArmSet, arm: &str, entry: &WorkloadEntry) -> CeilingKey {
    let stack = arms.held(arm).map_or("", |(name, _)| name).to_owned();
    let workload = entry.workload.name().to_owned();
    (stack, workload, entry.scale.to_string())
}

/// Longest time that a load is played while the most is measured that sessions get beside it.
const BESIDE: Nanos = Nanos(3600 * Nanos::SECOND.0);

/// In the numbers of trials: those in which that is measured have directories of their own.
const CEILINGS_FROM: u32 = 1 << 20;

impl FaultBench {
    /// For ledgers in a directory; trials that are done have what was found before them.
    pub(in crate::campaign) fn new(
        ledgers: PathBuf,
        arms: &ArmSet,
        (entries, done): (&[WorkloadEntry], &[TrialResult]),
    ) -> Self {
        let ceiling = |result: &TrialResult| {
            let most = result.fault.as_ref()?.ceiling?;
            let mut entries = entries.iter();
            let entry = entries.find(|entry| entry.label == result.trial.workload)?;
            Some((ceiling_key(arms, &result.trial.arm, entry), most))
        };
        FaultBench {
            ledgers,
            campaigns: Seed(FailoverSessions::now().0)
                .derive("campaign", std::process::id().into()),
            copier: None,
            ceilings: done.iter().filter_map(ceiling).collect(),
            destroyed: RefCell::default(),
        }
    }

    /// A name in the directory of ledgers that is not taken: of a trial that was cut off there are some.
    fn free(&self, name: &str, ending: &str) -> PathBuf {
        let named = |attempt: u32| match attempt {
            1 => format!("{name}{ending}"),
            attempt => format!("{name}-{attempt}{ending}"),
        };
        let mut all = (1..=u32::MAX).map(|attempt| self.ledgers.join(named(attempt)));
        all.find(|path| !path.exists()).unwrap_or_default()
    }

    /// Makes what the fault of a trial needs that was not needed before; gives what was found meanwhile.
    pub(in crate::campaign) fn prepare(
        &mut self,
        trial: &TrialId,
        arms: &ArmSet,
        (entry, settings): (&WorkloadEntry, &CampaignOptions),
        stop: &AtomicBool,
    ) -> Result<Option<RunWarning>, CliError> {
        let Some(injection) = &entry.inject else {
            return Ok(None);
        };
        if injection.observers.contains(&FaultObserver::Scp) && self.copier.is_none() {
            let folder = self.free("scp", "");
            self.copier = Some(ScpCopier::new(&folder, self.campaigns, stop)?);
        }
        let key = ceiling_key(arms, &trial.arm, entry);
        if injection.share.is_none() || self.ceilings.contains_key(&key) {
            return Ok(None);
        }
        let most = self.measure_ceiling((trial, injection), arms, (entry, settings), stop)?;
        self.ceilings.insert(key, most);
        Ok(Some(RunWarning {
            about: format!("{} on {}", trial.workload, trial.arm),
            text: format!(
                "the sessions get {most:.1} reads and as many writes per second each at most; their load is \
                 {:.1}",
                injection.rate_below(Some(most))
            ),
        }))
    }

    /// The most that a session gets out of an arm while its load is played.
    fn measure_ceiling(
        &self,
        (trial, injection): (&TrialId, &FaultInjection),
        arms: &ArmSet,
        (entry, settings): (&WorkloadEntry, &CampaignOptions),
        stop: &AtomicBool,
    ) -> Result<f64, CliError> {
        let ledger = self.free(&format!("maximum-{:03}", trial.place + 1), ".ledger");
        let trial = TrialId {
            place: CEILINGS_FROM + trial.place,
            ..trial.clone()
        };
        let seed = self.campaigns.derive("most", trial.place.into());
        let here = arms.target(&trial.arm).local_reach();
        let options = SessionLoadOptions::of(injection, None);
        let measure = || ceiling::per_session((here, &trial.arm), &options, &ledger, seed, stop);
        let most = if entry.workload.is_idle() {
            measure()?
        } else {
            let entry = WorkloadEntry {
                length: BESIDE,
                ..entry.clone()
            };
            let load = arms.load();
            let mut hosts = load.hosts();
            let task = |n: usize| trial_task(&trial, arms, (&entry, settings), n);
            let mut sessions = load.prepare(&mut hosts, task, stop)?;
            let is_measured = AtomicBool::new(false);
            let (start_at, most) = std::thread::scope(|scope| {
                let measured = scope.spawn(|| {
                    let _over = SetOnDrop(&is_measured);
                    measure()
                });
                let is_over =
                    || stop.load(Ordering::Relaxed) || is_measured.load(Ordering::Relaxed);
                let start_at = sessions.play(&is_over, &mut |_| (), &mut || ());
                (start_at, measured.join())
            });
            sessions.result(&trial, start_at)?;
            most.unwrap_or_else(|_| Err(panicked()))?
        };
        match stop.load(Ordering::Relaxed) {
            true => Err(stopped()),
            false => Ok(most),
        }
    }
}

fn panicked() -> CliError {
    CliError::sentence(CliExitCode::Failed, "the sessions panicked")
}

/// Which server gets the fault in this block: the same for both entries of the control.
pub(super) fn planned<'a>(
    context: &mut FailoverContext,
    all: &'a [FailoverFault],
    (trial, victim): (&TrialId, Option<&str>),
) -> Result<&'a FailoverFault, CliError> {
    match victim {
        Some(ACTIVE) => context.chosen(all),
        _ => Ok(&all[to_usize(u64::from(trial.block)) % all.len()]),
    }
}

/// Result of a load, result of the fault, and any failure beside them.
pub(in crate::campaign) type UnderFault<T> = (T, Option<FaultResult>, Option<CliError>);

/// Plays a load while a fault is injected beside it; gives what both came to.
pub(in crate::campaign) fn under_fault<T>(
    (trial, entry, injection): (&TrialId, &WorkloadEntry, &FaultInjection),
    arms: &ArmSet,
    (seed, bench): (Seed, &FaultBench),
    stop: &AtomicBool,
    play: impl FnOnce(&dyn Fn() -> bool) -> T,
) -> Result<UnderFault<T>, CliError> {
    let mut context = FailoverContext::of(
        &trial.arm,
        arms,
        injection.length,
        injection.recovery_timeout,
    )?;
    if bench.destroyed.borrow().contains(&context.name) {
        return Err(no_file_system(&context.name));
    }
    let all = context.plan_all(injection.fault, injection.victim.as_deref())?;
    let next = planned(&mut context, &all, (trial, injection.victim.as_deref()))?;
    // All arms of a block have the fault at the same moment.
    let mut rng = Rng::new(seed.derive("moments", trial.block.into()));
    let calm = CALM + DRAWN.mul_f64(rng.unit());
    let ceiling = bench.ceilings.get(&ceiling_key(arms, &trial.arm, entry));
    let ceiling = ceiling.copied().filter(|_| injection.share.is_some());
    let load = SessionLoadOptions::of(injection, ceiling);
    let here = arms.target(&trial.arm).local_reach().clone();
    let name = context.name.clone();
    let own = (bench.campaigns).derive(injection.fault.name(), trial.place.into());
    let ledger = bench.free(&format!("{:03}", trial.place + 1), ".ledger");
    let watching = ObserverOptions {
        observers: &injection.observers,
        copier: bench.copier.as_ref(),
        name: &name,
        target: &here,
        number: trial.place + 1,
    };
    let switch = TrialLoadSwitch::default();
    let ended = std::thread::scope(|scope| {
        let injector = scope.spawn(|| {
            std::thread::scope(|scope| {
                let observers = watching.begin(scope, (&ledger, own));
                let injected = observers.and_then(|observers| {
                    let sessions =
                        FailoverSessions::begin(scope, (&here, &name), &load, &ledger, own);
                    let clients = FailoverClients::new(sessions, observers, &switch);
                    context.inject(next, clients, calm, stop)
                });
                // Nothing is to be learnt of the load any more.
                switch.halted.fetch_or(injected.is_err(), Ordering::Relaxed);
                injected
            })
        });
        let ended = EndOnDrop(&switch);
        let is_over = || stop.load(Ordering::Relaxed) || switch.halted.load(Ordering::Relaxed);
        let played = play(&is_over);
        drop(ended);
        let injected = injector.join().unwrap_or_else(|_| Err(panicked()));
        let (result, ended) = injected?;
        let result = result.filter(|result| super::counts(&result.check));
        let result = result.map(|result| FaultResult { ceiling, ..result });
        Ok((played, result, ended.err()))
    });
    if context.broken.is_some() {
        bench.destroyed.borrow_mut().insert(context.name);
    }
    ended
}

fn no_file_system(name: &str) -> CliError {
    let text = format!("{name} has no file system any more: an earlier fault destroyed it");
    CliError::sentence(CliExitCode::BadData, text)
        .hint("the results until then are kept; each further fault needs the stack made anew")
}
