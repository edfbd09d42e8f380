// SPDX-License-Identifier: Apache-2.0
//! Changes of stacks that are up: one grows, loses a node, gets it back, is scrubbed, is kept as it
//! is now.
//!
//! Invariants: the journal of the stack records each step of a change before the step is done, so that taking
//! the stack down undoes the change as well, even if a process was killed at any point. A change that fails
//! is undone and the stack stays. The next change undoes an interrupted one before it begins. A change is
//! never undone past the point where data may lie on the parts that it adds: the same command then continues
//! it.

use plimsoll_core::plan::{Plan, PlanAction, PlanStep, StackOutputs};

use super::manage::{journal_file, kernel_has_md, kernel_has_nfs, order_of};
use super::site::{add_new_nodes, grown};
use super::{
    NodeInventory, PreconditionError, ScrubCount, SiteError, SpecError, StackChange, StackConfig,
    StackPlanInput,
};
use plimsoll_machine::host::{HostError, HostResolver};
use plimsoll_machine::journal::{Journal, JournalContents, JournalError, StateDir};
use plimsoll_machine::raise::{RaiseError, extend, take_back_change};

/// An event of a change, reported while it happens.
#[derive(Debug, Clone, Copy)]
pub enum StackChangeEvent<'a> {
    /// A change before was cut off with its process, and is taken back first.
    TakesBack {
        /// Its name.
        verb: &'a str,
    },
    /// This change was cut off with its process where it can only go on, and goes on.
    GoesOn,
    /// A step begins.
    Step(&'a PlanStep),
}

/// A change that was not made; the text completes "failed to … the stack: ".
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// It is not up.
    #[error("stack '{name}' is not up; bring it up with: plimsoll stack up '{name}'")]
    NotUp {
        /// Its name.
        name: String,
    },
    /// It was left half made or half changed.
    #[error("stack '{name}' was left unfinished; clean up with: plimsoll stack down '{name}'")]
    Unfinished {
        /// Its name.
        name: String,
    },
    /// An earlier change was cut off, and can only go on.
    #[error(
        "stack '{name}' was left in the middle of '{verb}', which can only go on; go on with: plimsoll stack \
         {verb} '{name}', or clean up with: plimsoll stack down '{name}'"
    )]
    OnlyGoesOn {
        /// Its name.
        name: String,
        /// That change.
        verb: String,
    },
    /// An earlier change was killed, and could not be taken back.
    #[error("not everything of '{verb}', which was cut off, could be taken back:\n  {problems}")]
    TakingBack {
        /// The change that was cut off.
        verb: String,
        /// Remaining actions, one per line.
        problems: String,
    },
    /// It cannot be done.
    #[error("stack '{name}' does not allow it: {unmet}")]
    Unmet {
        /// Its name.
        name: String,
        /// Why not.
        unmet: PreconditionError,
    },
    /// The journal names what this program does not know.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The machine cannot be looked at.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A step failed.
    #[error(transparent)]
    Raise(#[from] Box<RaiseError>),
}

/// Changes a stack that is up. Where it grows over machines of the user, `more` names them, those
/// that it has among them. `watch` gets what happens while it happens. No other process may
/// hold the stack meanwhile; its directory may be loaded.
///
/// # Errors
/// When it is not up, in use, cannot be changed so, a node of it cannot be reached, or a step fails: then
/// the steps of this change are undone, and the stack stays. Steps past a point of no return are not undone.
pub fn change(
    name: &str,
    verb: StackChange<'_>,
    more: Option<&NodeInventory>,
    state: &StateDir,
    hosts: &mut dyn HostResolver,
    watch: &mut dyn FnMut(StackChangeEvent<'_>),
) -> Result<StackOutputs, ChangeError> {
    let path = journal_file(name, state);
    let mut journal = match Journal::open(&path, hosts.here().clock()) {
        Err(error) if error.is_absent() => return Err(ChangeError::NotUp { name: name.into() }),
        other => other?,
    };
    check_may_begin(name, verb, journal.record())?;
    if let Some(cut_off) = journal.record().changing.clone() {
        if journal.record().is_past_return() {
            watch(StackChangeEvent::GoesOn);
        } else {
            take_back(&cut_off.verb, &mut journal, hosts, watch)?;
        }
    }
    let planned = plan(name, verb, more, journal.record(), hosts)?;
    reach(&planned.plan, journal.record(), hosts)?;
    journal.changing(verb.name())?;
    // One that fails is over where it is taken back.
    carry_out(&planned, hosts, &mut journal, watch)?;
    journal.changed()?;
    Ok(planned.made)
}

/// Refuses a change where another one was cut off that can only go on.
fn check_may_begin(
    name: &str,
    verb: StackChange<'_>,
    record: &JournalContents,
) -> Result<(), ChangeError> {
    match &record.changing {
        Some(cut_off) if record.is_past_return() && cut_off.verb != verb.name() => {
            Err(ChangeError::OnlyGoesOn {
                name: name.into(),
                verb: cut_off.verb.clone(),
            })
        }
        _ => Ok(()),
    }
}

/// Takes back a change that was cut off with its process.
fn take_back(
    verb: &str,
    journal: &mut Journal,
    hosts: &mut dyn HostResolver,
    watch: &mut dyn FnMut(StackChangeEvent<'_>),
) -> Result<(), ChangeError> {
    watch(StackChangeEvent::TakesBack { verb });
    let razed = take_back_change(journal, hosts);
    if razed.is_clean() {
        return Ok(());
    }
    Err(ChangeError::TakingBack {
        verb: verb.into(),
        problems: razed.problems().join("\n  "),
    })
}

/// Counts of the last scrub of a stack that is up, where they are known.
pub fn scrubbed(name: &str, state: &StateDir, hosts: &mut dyn HostResolver) -> Option<ScrubCount> {
    let record = JournalContents::read(&journal_file(name, state)).ok()?;
    let ask = record.header.ask.as_ref()?;
    let choice = StackConfig::of(ask.parts.clone()).ok()?;
    let order = order_of(&record, ask, &choice, hosts.here());
    choice.stack.scrubbed(&order, &record, hosts)
}

/// A change as it is going to be made.
#[derive(Debug)]
struct StackChangePlan {
    plan: Plan,
    made: StackOutputs,
    /// The nodes afterwards, when there are more.
    grown: Option<plimsoll_core::plan::StackNodes>,
}

/// The steps of a change of a stack that is up, without doing anything.
///
/// # Errors
/// As [`change`].
pub fn planned(
    name: &str,
    verb: StackChange<'_>,
    more: Option<&NodeInventory>,
    state: &StateDir,
    hosts: &mut dyn HostResolver,
) -> Result<Plan, ChangeError> {
    let path = journal_file(name, state);
    let record = match JournalContents::read(&path) {
        Err(error) if error.is_absent() => return Err(ChangeError::NotUp { name: name.into() }),
        other => other?,
    };
    check_may_begin(name, verb, &record)?;
    plan(name, verb, more, &record, hosts).map(|planned| planned.plan)
}

/// Plans a change of a stack as it was before one that was cut off, which is taken back first or goes on.
fn plan(
    name: &str,
    verb: StackChange<'_>,
    more: Option<&NodeInventory>,
    now: &JournalContents,
    hosts: &mut dyn HostResolver,
) -> Result<StackChangePlan, ChangeError> {
    let record = &now.without_change();
    let unmet = |unmet| ChangeError::Unmet {
        name: name.into(),
        unmet,
    };
    let is_whole = record
        .entries
        .iter()
        .all(|entry| entry.done && !entry.undone);
    let (Some(ask), true, true) = (&record.header.ask, record.standing, is_whole) else {
        return Err(ChangeError::Unfinished { name: name.into() });
    };
    let choice = StackConfig::of(ask.parts.clone())?;
    let id = &record.header.id;
    // Of one that goes on the new nodes are there already.
    hosts.meet(now.header.nodes());
    let mut site = ask.site.clone();
    let mut plan = Plan::default();
    let mut after = None;
    if verb == StackChange::Grow {
        let shape = choice.stack.shape(&choice).map_err(unmet)?;
        let count = choice.stack.growth(&choice);
        let of = (&choice, &shape, &**id);
        site = match (&now.header.ask, now.is_past_return()) {
            (Some(ask), true) => ask.site.clone(),
            _ => grown(&site, count, of, more, hosts).map_err(|error| match error {
                SiteError::Unmet(missing) => unmet(missing),
                SiteError::Host(error) => ChangeError::Host(error),
            })?,
        };
        add_new_nodes(&mut plan, &site, ask.site.servers.len());
        after = Some(site.clone());
    }
    let order = StackPlanInput {
        id,
        choice: &choice,
        size_bytes: ask.size_bytes,
        site: &site,
        kernel_has_nfs: kernel_has_nfs(hosts.here()),
        kernel_has_md: kernel_has_md(hosts.here()),
    };
    let (mut steps, made) = choice.stack.change(verb, &order, record).map_err(unmet)?;
    let is_stop = |step: &&mut PlanStep| matches!(step.apply, PlanAction::Stop { .. });
    // A server that was ended is not started by taking that back.
    if let (StackChange::Degrade, Some(step)) = (verb, steps.steps.iter_mut().find(is_stop)) {
        step.point_of_no_return = true;
    }
    plan.steps.extend(steps.steps);
    Ok(StackChangePlan {
        plan,
        made,
        grown: after,
    })
}

/// Reaches every node that stands already before the first step: one without power would be missed
/// halfway, when what was begun on it can be neither ended nor undone.
fn reach(
    plan: &Plan,
    record: &JournalContents,
    hosts: &mut dyn HostResolver,
) -> Result<(), HostError> {
    let nodes = record.header.nodes().iter();
    for node in nodes.filter(|node| plan.steps.iter().any(|step| step.node == node.name)) {
        hosts.on(&node.name)?;
    }
    Ok(())
}

fn carry_out(
    planned: &StackChangePlan,
    hosts: &mut dyn HostResolver,
    journal: &mut Journal,
    watch: &mut dyn FnMut(StackChangeEvent<'_>),
) -> Result<(), ChangeError> {
    if let Some(grown) = &planned.grown {
        journal.site(grown)?;
    }
    let mut tell = |step: &PlanStep| watch(StackChangeEvent::Step(step));
    extend(&planned.plan, &planned.made, hosts, journal, &mut tell)?;
    Ok(())
}

#[cfg(test)]
pub(super) mod tests;
