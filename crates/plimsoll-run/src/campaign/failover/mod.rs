// SPDX-License-Identifier: Apache-2.0
//! Faults done to a stack while sessions use it, one after another.
//!
//! Invariants: every fault is planned before the first is done; whatever ends a fault early, it is
//! healed before this returns, or the error says that it could not be.

mod beside;
mod ceiling;
mod copies;
mod sessions;
mod strike;
mod under;

use super::{ArmSet, CampaignOptions, WorkloadRequest, entries};
use beside::BackgroundLoadOptions;
use copies::ScpCopier;
use plimsoll_agent::context;
use plimsoll_agent::failure::stopped;
use plimsoll_agent::failure::{CliError, CliExitCode, doing};
use plimsoll_core::failover::{BackgroundLoadResult, ClusterEvent, FailoverResult};
use plimsoll_core::fault::FaultKind;
use plimsoll_core::ledger::LedgerCheck;
use plimsoll_core::plan::{
    PlanAction, PlanStep, ServerQuery, StackNodes, StackOutputs, StackServer,
};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_lab::faults::{self, FaultPlan};
use plimsoll_lab::stacks;
use plimsoll_machine::host::{HostPool, HostResolver as _, SystemClock};
use plimsoll_machine::journal::StateDir;
use sessions::FailoverSessions;
pub use sessions::SessionLoadOptions;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use strike::FailoverClients;
pub use under::check_asked_under_faults;
pub(super) use under::{check as check_faults, length_under, under_fault};

/// How long filling the files of the sessions may take.
const FULL_WITHIN: Duration = Duration::from_secs(600);

/// How long the sessions work before a fault, at least.
const CALM: Duration = Duration::from_secs(5);

/// The moment of a fault is drawn from a time of this length after that.
const DRAWN: Duration = Duration::from_secs(2);

/// What is wanted.
#[derive(Debug)]
pub struct FailoverOptions<'a> {
    /// The stack, as it is named in its journal.
    pub name: &'a str,
    /// The kinds of faults; each is done `repeat` times.
    pub faults: &'a [FaultKind],
    /// Faults of each kind.
    pub repeat: u32,
    /// The server that is struck; each in turn when absent.
    pub victim: Option<&'a str>,
    /// What the sessions do.
    pub load: SessionLoadOptions,
    /// The share of what they get out of the stack at most that the sessions are given instead of the
    /// rate in `load`.
    pub share: Option<f64>,
    /// How long a fault lasts at least.
    pub lasting: Duration,
    /// How long after that the sessions are waited for.
    pub patience: Duration,
    /// What is played beside the sessions, and how.
    pub beside: &'a [WorkloadRequest],
    /// How it is played.
    pub settings: &'a CampaignOptions,
    /// Who watches beside them.
    pub witnesses: &'a [FailoverWitnessKind],
    /// Seed of the instants at which faults are injected.
    pub seed: Seed,
    /// Directory for the ledgers, not on the stack.
    pub ledgers: &'a Path,
}

/// Somebody who watches beside the sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailoverWitnessKind {
    /// Writes a line a second.
    Stamp,
    /// Copies a file again and again.
    Scp,
}

/// A fault that is going to be done.
#[derive(Clone)]
struct FailoverFault {
    fault: FaultKind,
    victim: StackServer,
    blow: FaultPlan,
}

/// How long faults last, and are waited for.
#[derive(Debug, Clone, Copy)]
struct FaultTiming {
    /// How long a fault lasts at least.
    lasting: Duration,
    /// How long after that the sessions are waited for.
    patience: Duration,
}

/// What all faults are done to.
struct FailoverContext {
    /// The stack.
    name: String,
    /// By this nobody else uses it.
    held: File,
    state: StateDir,
    timing: FaultTiming,
    /// The journal of the stack.
    id: String,
    made: StackOutputs,
    /// Another one each time: what an earlier run left on the stack must not pass for this one's.
    campaigns: Seed,
    /// The steps that made it.
    steps: Vec<PlanStep>,
    site: StackNodes,
    nodes: HostPool,
    clock: SystemClock,
}

/// Does all faults, and gives those that were done, also when one could not be. `tell` is told of each
/// before it is done.
pub fn failover(
    wanted: &FailoverOptions<'_>,
    arms: &ArmSet,
    state: &StateDir,
    stop: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(&str),
) -> Result<(FailoverResult, Result<(), CliError>), CliError> {
    let campaigns = Seed(FailoverSessions::now().0).derive("campaign", std::process::id().into());
    let copier = copier(wanted, arms, campaigns, stop)?;
    let timing = FaultTiming {
        lasting: wanted.lasting,
        patience: wanted.patience,
    };
    let (arm, target) = arms.probed().next().expect("one stack was asked for");
    let mut ground = FailoverContext::of(arm, arms, timing, campaigns, state)?;
    let planned = plan(wanted, &mut ground)?;
    let mut notes = Vec::new();
    let entries = entries(wanted.beside, arms, wanted.settings, stop, &mut notes)?;
    notes
        .iter()
        .for_each(|note| tell(&format!("{}: {}", note.about, note.text)));
    let here = target.here();
    let others = BackgroundLoadOptions {
        entries: &entries,
        settings: wanted.settings,
        stamp: wanted.witnesses.contains(&FailoverWitnessKind::Stamp),
        scp: copier.as_ref(),
        name: wanted.name,
        arms,
        target: &here,
    };
    others.check()?;
    let (load, most) = load(wanted, &ground, others, stop, tell)?;
    let mut done = FailoverResult {
        name: wanted.name.into(),
        description: ground.made.description.clone(),
        sessions: load.sessions,
        rate: load.rate,
        most,
        block_bytes: load.block_bytes,
        seed: wanted.seed.0,
        strikes: Vec::new(),
    };
    let mut rng = Rng::new(wanted.seed.derive("moments", 0));
    let count = planned.len();
    for (number, choices) in (1..).zip(&planned) {
        let next = match ground.chosen(choices) {
            Ok(next) => next,
            Err(failure) => return Ok((done, Err(failure))),
        };
        tell(&format!(
            "{number} of {count}: {} {}",
            next.fault, next.victim.name
        ));
        let ledger = wanted.ledgers.join(format!("{number:03}.ledger"));
        let calm = CALM + DRAWN.mul_f64(rng.unit());
        let seed = ground.campaigns.derive(next.fault.name(), number);
        let struck = std::thread::scope(|scope| {
            let others = others.begin(scope, (&ledger, seed), number)?;
            ground.wait_until(FULL_WITHIN, stop, || others.are_ready());
            let on = (&here, wanted.name);
            let sessions = FailoverSessions::begin(scope, on, &load, &ledger, seed);
            ground.strike(next, FailoverClients::new(sessions, others), calm, stop)
        });
        let (strike, ended) = struck.unwrap_or_else(|failure| (None, Err(failure)));
        let told = strike.filter(|strike| is_told(&strike.check));
        done.strikes.extend(told);
        let ended = match ended {
            Err(failure) if failure.code != CliExitCode::Interrupted => Err(failure),
            _ if stop.load(Ordering::Relaxed) => Err(stopped_after(done.strikes.len())),
            ended => ended,
        };
        if ended.is_err() {
            return Ok((done, ended));
        }
    }
    Ok((done, Ok(())))
}

/// What a witness copies with, where one was asked for, once there is room for that and the sessions.
fn copier(
    wanted: &FailoverOptions<'_>,
    arms: &ArmSet,
    seed: Seed,
    stop: &AtomicBool,
) -> Result<Option<ScpCopier>, CliError> {
    let copier = match wanted.witnesses.contains(&FailoverWitnessKind::Scp) {
        true => Some(ScpCopier::new(wanted.ledgers, seed, stop)?),
        false => None,
    };
    let of_sessions = u64::from(wanted.load.sessions).saturating_mul(wanted.load.file_bytes);
    let of_copies = copier.as_ref().map_or(0, |_| copies::BYTES);
    arms.check_room_for(of_sessions.saturating_add(of_copies))?;
    Ok(copier)
}

/// One that was stopped before all was read back says nothing of what is there, unless it found that
/// something is not.
fn is_told(check: &LedgerCheck) -> bool {
    !check.data.interrupted || check.data.bad.total() > 0
}

fn stopped_after(faults: usize) -> CliError {
    if faults == 0 {
        return stopped();
    }
    let text = "interrupted; the faults injected before that are reported";
    CliError::sentence(CliExitCode::Interrupted, text)
}

/// What the sessions do, and the most that they could, with all that is beside them at work, where that
/// was asked for.
fn load(
    wanted: &FailoverOptions<'_>,
    ground: &FailoverContext,
    others: BackgroundLoadOptions<'_>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<(SessionLoadOptions, Option<f64>), CliError> {
    let Some(share) = wanted.share else {
        return Ok((wanted.load, None));
    };
    let ledger = wanted.ledgers.join("most.ledger");
    let seed = ground.campaigns.derive("most", 0);
    let place = (others.target, wanted.name);
    let most = std::thread::scope(|scope| {
        // Faults are counted from 1.
        let beside = others.begin(scope, (&ledger, seed), 0)?;
        ground.wait_until(FULL_WITHIN, stop, || beside.are_ready());
        let most = ceiling::per_session(place, &wanted.load, &ledger, seed, stop)?;
        let lost = |company: &BackgroundLoadResult| company.missing > 0;
        match beside.told(stop)?.into_iter().find(lost) {
            None => Ok(most),
            Some(company) => Err(CliError::sentence(
                CliExitCode::BadData,
                format!(
                    "acknowledged writes of {} were lost on {} before any fault: {}",
                    company.name, wanted.name, company.missing
                ),
            )),
        }
    })?;
    if stop.load(Ordering::Relaxed) {
        return Err(stopped());
    }
    // What a ledger takes.
    let rate = (most * share).clamp(0.1, 50_000.0);
    tell(&format!(
        "{} sustains {most:.1} reads and as many writes per second and session; the load is {rate:.1}",
        wanted.name
    ));
    let load = SessionLoadOptions {
        rate,
        ..wanted.load
    };
    Ok((load, Some(most)))
}

/// The victim that is whoever serves at the moment.
pub const ACTIVE: &str = "active";

/// Every fault of every kind with its victim, each of which can be done. Where the victim is known only
/// when it is done, there are several to choose from.
fn plan(
    wanted: &FailoverOptions<'_>,
    ground: &mut FailoverContext,
) -> Result<Vec<Vec<FailoverFault>>, CliError> {
    let mut all = Vec::new();
    for fault in wanted.faults {
        let of_each = ground.plan_all(*fault, wanted.victim)?;
        let repeat = wanted.repeat as usize;
        match wanted.victim {
            Some(ACTIVE) => all.extend(std::iter::repeat_n(of_each, repeat)),
            _ => {
                let in_turn = of_each.into_iter().cycle().take(repeat);
                all.extend(in_turn.map(|one| vec![one]));
            }
        }
    }
    Ok(all)
}

impl FailoverContext {
    /// The servers that a fault may be injected into.
    fn victims(&self, victim: Option<&str>) -> Result<Vec<StackServer>, CliError> {
        let servers = self.made.servers.iter();
        let is_meant = |server: &&StackServer| match victim {
            None => true,
            Some(ACTIVE) => server.asked.is_some(),
            Some(name) => server.name == name,
        };
        let chosen: Vec<StackServer> = servers.clone().filter(is_meant).cloned().collect();
        if !chosen.is_empty() {
            return Ok(chosen);
        }
        let names: Vec<&str> = servers.map(|server| &*server.name).collect();
        let known = match names.is_empty() {
            true => "it has no servers of its own".to_owned(),
            false => format!("its servers are {}", names.join(", ")),
        };
        let what = match victim {
            Some(ACTIVE) => "the active server",
            named => named.unwrap_or("a server"),
        };
        Err(CliError::usage(format!(
            "inject a fault into {what} of {}: {known}",
            self.name
        )))
    }

    /// A fault of each server that it may be injected into, each of which can be done.
    fn plan_all(
        &mut self,
        fault: FaultKind,
        victim: Option<&str>,
    ) -> Result<Vec<FailoverFault>, CliError> {
        let what = || format!("do {fault} to {}", self.name);
        let unable = doing(CliExitCode::Usage, what());
        let refused = doing(CliExitCode::Usage, what());
        let mut of_each = Vec::new();
        for victim in self.victims(victim)? {
            let blow = faults::plan(fault, &victim, &self.made, &self.site).map_err(&unable)?;
            faults::carry_out(&blow.trial, &self.id, &mut self.nodes).map_err(&refused)?;
            of_each.push(FailoverFault {
                fault,
                victim,
                blow,
            });
        }
        Ok(of_each)
    }
}

impl FailoverContext {
    /// The stack that an arm is. From now on nobody else uses it: who measures it would measure the
    /// faults, and two who strike it would heal each other's.
    fn of(
        arm: &str,
        arms: &ArmSet,
        timing: FaultTiming,
        campaigns: Seed,
        state: &StateDir,
    ) -> Result<FailoverContext, CliError> {
        let Some((name, held)) = arms.held(arm) else {
            return Err(CliError::usage(format!(
                "inject faults into {arm}: it is not a stack, and only the servers of a stack are known"
            )));
        };
        stacks::hold_alone(held, &name, state)
            .map_err(doing(CliExitCode::Failed, format!("strike {name}")))?;
        let record = stacks::manage::record(&name, state).map_err(doing(
            CliExitCode::Failed,
            format!("read the journal of {name}"),
        ))?;
        let (Some(ask), Some(made)) = (record.header.ask, record.made) else {
            return Err(CliError::new(
                CliExitCode::Failed,
                format!("inject faults into {name}: its journal does not list its parts"),
            ));
        };
        let held = held
            .try_clone()
            .map_err(doing(CliExitCode::Failed, format!("hold the stack {name}")))?;
        let mut nodes = context::nodes();
        nodes.meet(&ask.site.servers);
        Ok(FailoverContext {
            name,
            held,
            state: state.clone(),
            timing,
            id: record.header.id,
            made,
            campaigns,
            steps: record.entries.into_iter().map(|entry| entry.step).collect(),
            site: ask.site,
            nodes,
            clock: SystemClock::new(),
        })
    }

    /// What the servers' logs say that they did between two times of day, told from when it was felt.
    fn events(&mut self, (from, to): (Nanos, Nanos), felt_at: Nanos) -> Vec<ClusterEvent> {
        let mut events = Vec::new();
        for server in &self.made.servers {
            let Some(cmd) = server.question(ServerQuery::Events) else {
                continue;
            };
            let said = self
                .nodes
                .on(&server.node)
                .and_then(|host| host.answer(&self.id, &cmd));
            // Figures without it are whole: it says why they are what they are.
            let Ok(said) = said else { continue };
            for (at, what) in said.lines().filter_map(|line| line.split_once(' ')) {
                let Ok(seconds) = at.parse::<f64>() else {
                    continue;
                };
                let at = Nanos::from_secs_f64(seconds);
                if (from..=to).contains(&at) {
                    events.push(ClusterEvent {
                        after: at.since(felt_at),
                        server: server.name.clone(),
                        what: what.into(),
                    });
                }
            }
        }
        events.sort_by_key(|event| event.after);
        events
    }

    /// The one whose victim serves, where there are several.
    fn chosen<'a>(&mut self, choices: &'a [FailoverFault]) -> Result<&'a FailoverFault, CliError> {
        if let [only] = choices {
            return Ok(only);
        }
        for choice in choices {
            let asked = choice
                .victim
                .question(ServerQuery::Serves)
                .map(PlanAction::Run);
            let asked: Vec<_> = asked
                .map(|action| (choice.victim.node.clone(), action))
                .into_iter()
                .collect();
            if faults::carry_out(&asked, &self.id, &mut self.nodes).is_ok() {
                return Ok(choice);
            }
        }
        Err(CliError::new(
            CliExitCode::Failed,
            "find the active server: none of the servers says that it serves",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::data_check::DataFlaw;

    #[test]
    fn a_fault_whose_data_was_not_read_back_is_told_only_with_what_is_missing() {
        let mut check = LedgerCheck::default();
        assert!(is_told(&check));
        check.data.interrupted = true;
        assert!(!is_told(&check));
        check.data.bad.count(DataFlaw::Lost);
        assert!(is_told(&check));
    }
}
