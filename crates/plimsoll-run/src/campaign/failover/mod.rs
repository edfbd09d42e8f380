// SPDX-License-Identifier: Apache-2.0
//! Faults injected into a stack while sessions use it, each in a trial.
//!
//! Invariants: every fault is planned before the first is injected; whatever ends a fault early, it is
//! recovered before this returns, or the error says that it could not be.

mod ceiling;
mod condition;
mod copies;
mod fill_file;
mod injection;
mod observers;
mod sessions;
mod under;

use super::ArmSet;
pub(super) use condition::under_condition;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::failover::ClusterEvent;
use plimsoll_core::fault::FaultKind;
use plimsoll_core::ledger::LedgerCheck;
use plimsoll_core::plan::{
    PlanAction, PlanStep, ServerQuery, StackNodes, StackOutputs, StackServer,
};
use plimsoll_core::units::Nanos;
use plimsoll_lab::faults::{self, FaultPlan};
use plimsoll_lab::stacks;
use plimsoll_machine::host::{HostPool, HostResolver as _, SystemClock};
use plimsoll_machine::journal::StateDir;
use std::fs::File;
use std::time::Duration;
pub(super) use under::{FaultBench, check as check_faults, length_under, under_fault};
pub use under::{check_asked_under_faults, check_power_cuts, intentions as fault_intentions};

/// How long filling the files of the sessions may take.
const FULL_WITHIN: Duration = Duration::from_secs(600);

/// How long the sessions work before a fault, at least.
const CALM: Duration = Duration::from_secs(5);

/// The moment of a fault is drawn from a time of this length after that.
const DRAWN: Duration = Duration::from_secs(2);

/// A fault that is going to be injected.
#[derive(Clone)]
struct FailoverFault {
    fault: FaultKind,
    victim: StackServer,
    fault_plan: FaultPlan,
}

/// Stack that a fault is injected into.
struct FailoverContext {
    /// The stack.
    name: String,
    /// The lock that keeps other processes from using the stack.
    held: File,
    state: StateDir,
    /// How long a fault lasts at least.
    lasting: Duration,
    /// How long after that the sessions are waited for.
    patience: Duration,
    /// The journal of the stack.
    id: String,
    made: StackOutputs,
    /// The steps that made it.
    steps: Vec<PlanStep>,
    site: StackNodes,
    nodes: HostPool,
    clock: SystemClock,
    /// Error that shows that its file system did not survive the fault, if it did not.
    broken: Option<String>,
}

/// One that was stopped before all was read back says nothing of what is there, unless it found that
/// something is not.
fn counts(check: &LedgerCheck) -> bool {
    !check.data.interrupted || check.data.bad.total() > 0
}

/// Word for the victim that is in service at the moment of the fault.
const ACTIVE: &str = "active";

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

    /// Faults that can be injected into a server, in words.
    fn possible_with(&self, victim: &StackServer) -> String {
        let kinds = FaultKind::ALL.into_iter();
        let possible =
            kinds.filter(|kind| faults::plan(*kind, victim, &self.made, &self.site).is_ok());
        let names: Vec<&str> = possible.map(FaultKind::name).collect();
        match names.is_empty() {
            true => format!("no fault can be injected into {}", victim.name),
            false => format!("possible with {}: --fault {}", victim.name, names.join(",")),
        }
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
            let fault_plan = faults::plan(fault, &victim, &self.made, &self.site)
                .map_err(|error| unable(error).hint(self.possible_with(&victim)))?;
            faults::carry_out(&fault_plan.trial, &self.id, &mut self.nodes).map_err(&refused)?;
            of_each.push(FailoverFault {
                fault,
                victim,
                fault_plan,
            });
        }
        Ok(of_each)
    }
}

impl FailoverContext {
    /// The stack of an arm. From now on no other process uses it: another run on the stack would measure
    /// the faults, and two runs that inject faults would recover each other's.
    fn of(
        arm: &str,
        arms: &ArmSet,
        lasting: Nanos,
        patience: Nanos,
    ) -> Result<FailoverContext, CliError> {
        let state = context::state_dir()?;
        let Some((name, held)) = arms.held(arm) else {
            return Err(CliError::usage(format!(
                "inject faults into {arm}: it is not a stack, and only the servers of a stack are known"
            )));
        };
        stacks::hold_alone(held, name, &state)
            .map_err(doing(CliExitCode::Failed, format!("hold {name} alone")))?;
        let record = stacks::manage::record(name, &state).map_err(doing(
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
            name: name.to_owned(),
            held,
            state,
            lasting: Duration::from_nanos(lasting.0),
            patience: Duration::from_nanos(patience.0),
            id: record.header.id,
            made,
            steps: record.entries.into_iter().map(|entry| entry.step).collect(),
            site: ask.site,
            nodes,
            clock: SystemClock::new(),
            broken: None,
        })
    }

    /// Events in the servers' logs between two times of day, counted from when the fault was felt.
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
    fn a_fault_whose_data_was_not_read_back_counts_only_with_what_is_missing() {
        let mut check = LedgerCheck::default();
        assert!(counts(&check));
        check.data.interrupted = true;
        assert!(!counts(&check));
        check.data.bad.count(DataFlaw::Lost);
        assert!(counts(&check));
    }
}
