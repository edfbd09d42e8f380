// SPDX-License-Identifier: Apache-2.0
//! Carrying plans out, and undoing them from the journal.
//!
//! Invariants: nothing is begun that is not in the journal; undoing goes backwards, never stops
//! early, and may be repeated; the journal is removed only when nothing is left.

use plimsoll_core::plan::{
    HERE, Plan, PlanAction, PlanCommand, PlanCommandArg, PlanStep, StackOutputs,
};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::host::{HostError, HostResolver, command_mark};
use crate::journal::{Journal, JournalContents, JournalError, StateDir};

/// Longest wait for something in one piece: so long a wish to stop may go unseen.
pub const WAIT_PIECE_S: u32 = 5;

/// How often undoing is tried. Twice: when a server below a file system is dead, unmounting hangs
/// until the rest of the chain is gone, which the first pass sees to.
const PASSES: usize = 2;

/// A plan that was carried out. Holds the journal locked until it is dropped.
#[derive(Debug)]
pub struct AppliedPlan {
    /// Its journal.
    pub journal: Journal,
}

/// Something that could not be undone.
#[derive(Debug, thiserror::Error)]
#[error("failed to undo '{action}': {source}")]
pub struct RazeError {
    /// The action that was due.
    pub action: String,
    /// The node, if it could not be reached.
    pub unreached: Option<String>,
    /// Why not.
    pub source: HostError,
}

/// The outcome of undoing.
#[derive(Debug, Default)]
pub struct RazeReport {
    /// Actions carried out.
    pub undone: usize,
    /// Errors that were mended in the end.
    pub warnings: Vec<RazeError>,
    /// Resources that are left; the journal stays, and undoing can be tried again.
    pub errors: Vec<RazeError>,
    /// Trouble with the journal itself.
    pub journal_errors: Vec<JournalError>,
}

impl RazeReport {
    /// Whether nothing is left.
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.journal_errors.is_empty()
    }

    /// Resources that are left, in words: each action, and each node out of reach with what to do.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut unreached: BTreeMap<&str, (usize, &HostError)> = BTreeMap::new();
        for error in &self.errors {
            match &error.unreached {
                Some(node) => unreached.entry(node).or_insert((0, &error.source)).0 += 1,
                None => problems.push(error.to_string()),
            }
        }
        problems.extend(unreached.into_iter().map(|(node, (count, why))| {
            format!(
                "failed to undo anything on node {node}, {count} actions: {why}; when it can be reached \
                 again: plimsoll raze; if it no longer exists: plimsoll raze --forget-node {node}"
            )
        }));
        problems.extend(self.journal_errors.iter().map(ToString::to_string));
        problems
    }
}

/// A plan that could not be carried out; the text completes "failed to …: ". Everything begun has been
/// undone, except what is named, or nothing of a change that can only go on.
#[derive(Debug)]
pub struct RaiseError {
    /// The purpose of the failed step.
    pub why: String,
    /// Its action.
    pub action: String,
    /// Why it failed.
    pub source: StepError,
    /// The outcome of undoing.
    pub razed: RazeReport,
    /// Whether nothing was undone, since the change can only go on.
    pub goes_on: bool,
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// On the machine.
    #[error(transparent)]
    Host(#[from] HostError),
    /// In the journal, so that the step was not begun or its end not noted.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Nowhere: all is to end.
    #[error("interrupted")]
    Stopped,
    /// Nowhere: the steps that a change had begun are not those of this plan.
    #[error("it was begun with other steps")]
    Differs,
}

impl RaiseError {
    /// Whether nothing failed but the user stopped it.
    pub fn is_stop(&self) -> bool {
        matches!(self.source, StepError::Stopped)
    }
}

impl fmt::Display for RaiseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "could not {}: {}", self.why, self.source)?;
        if self.goes_on {
            return f.write_str(match self.source {
                StepError::Differs => "; take the stack down, or go on with the version that began it",
                _ => {
                    "; this change can only go on, so nothing has been undone; run the same command again, \
                     or take the stack down"
                }
            });
        }
        if self.razed.is_clean() {
            return f.write_str("; everything begun before has been undone");
        }
        f.write_str("; not everything could be undone:")?;
        for problem in self.razed.problems() {
            write!(f, "\n  {problem}")?;
        }
        f.write_str("\n  try again with: plimsoll raze")
    }
}

impl std::error::Error for RaiseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Carries a plan out, each step noted in the journal before, and what it makes after.
///
/// # Errors
/// When a step fails; everything begun is then undone.
pub fn raise(
    plan: &Plan,
    made: Option<&StackOutputs>,
    hosts: &mut dyn HostResolver,
    journal: Journal,
) -> Result<AppliedPlan, Box<RaiseError>> {
    raise_telling(plan, made, hosts, journal, &mut |_| {})
}

/// The same; `watch` gets each step before it is begun.
///
/// # Errors
/// As [`raise`].
pub fn raise_telling(
    plan: &Plan,
    made: Option<&StackOutputs>,
    hosts: &mut dyn HostResolver,
    mut journal: Journal,
    watch: &mut dyn FnMut(&PlanStep),
) -> Result<AppliedPlan, Box<RaiseError>> {
    introduce(hosts, journal.record());
    if let Err((step, source)) = all_steps(&mut journal, hosts, &plan.steps, (true, watch)) {
        return Err(Box::new(RaiseError {
            why: step.why.clone(),
            action: step.apply.to_string(),
            source,
            razed: raze(journal, hosts),
            goes_on: false,
        }));
    }
    let noted = made.map_or(Ok(()), |made| journal.made(made));
    match noted.and_then(|()| journal.standing()) {
        Ok(()) => Ok(AppliedPlan { journal }),
        Err(error) => Err(Box::new(RaiseError {
            why: "record that the plan is complete".into(),
            action: "write the journal".into(),
            source: error.into(),
            razed: raze(journal, hosts),
            goes_on: false,
        })),
    }
}

/// Carries out more steps for what stands, those of a change that the journal names. When one fails, these
/// steps are undone and what stood before stays, unless the change can only go on. One that was cut off
/// there goes on with the step at which it was. `watch` gets each step before it is begun.
///
/// # Errors
/// When a step fails. Where not all of it could be undone, its journal says so.
pub fn extend(
    plan: &Plan,
    made: &StackOutputs,
    hosts: &mut dyn HostResolver,
    journal: &mut Journal,
    watch: &mut dyn FnMut(&PlanStep),
) -> Result<(), Box<RaiseError>> {
    introduce(hosts, journal.record());
    let begun = journal.record().begun_of_change().len();
    let from = journal.record().entries.len() - begun;
    // Finished steps are not left half changed.
    let steps = end_begun(journal, hosts, (plan, from), watch);
    let done = steps.and_then(|left| all_steps(journal, hosts, left, (false, watch)));
    let (why, action, source) = match done {
        Ok(()) => match journal.made(made) {
            Ok(()) => return Ok(()),
            Err(error) => (
                "record that the plan is complete".into(),
                "write the journal".into(),
                error.into(),
            ),
        },
        Err((step, source)) => (step.why.clone(), step.apply.to_string(), source),
    };
    let goes_on = journal.record().is_past_return();
    Err(Box::new(RaiseError {
        why,
        action,
        source,
        razed: if goes_on {
            RazeReport::default()
        } else {
            take_back_change(journal, hosts)
        },
        goes_on,
    }))
}

/// Ends the step of a plan at which its change was cut off, the last one in the journal, whose steps of the
/// change are those from this number on; the steps that are left. Without one that was begun, all are.
fn end_begun<'a>(
    journal: &mut Journal,
    hosts: &mut dyn HostResolver,
    (plan, from): (&'a Plan, usize),
    watch: &mut dyn FnMut(&PlanStep),
) -> Result<&'a [PlanStep], (&'a PlanStep, StepError)> {
    let begun = journal.record().begun_of_change();
    let steps = begun.iter().map(|entry| &entry.step);
    let count = begun.len().min(plan.steps.len());
    let (again, left) = plan.steps.split_at(count);
    let Some(last) = again.last() else {
        return Ok(left);
    };
    if !steps
        .map(PlanStep::noted)
        .eq(again.iter().map(PlanStep::noted))
    {
        return Err((last, StepError::Differs));
    }
    if begun.last().is_some_and(|entry| !entry.done) {
        watch(last);
        let n = from + count - 1;
        step_again(journal, hosts, last, n).map_err(|source| (last, source))?;
    }
    Ok(left)
}

/// Does a step that was cut off: what is left of it ends first.
fn step_again(
    journal: &mut Journal,
    hosts: &mut dyn HostResolver,
    step: &PlanStep,
    n: usize,
) -> Result<(), StepError> {
    let id = journal.record().header.id.clone();
    let host = hosts.on(&step.node)?;
    let mark = command_mark(&id);
    host.undo(&id, &PlanAction::Stop { mark })?;
    if let Some(undo) = &step.undo {
        host.undo(&id, undo)?;
    }
    host.apply(&id, step)?;
    journal.done(n)?;
    Ok(())
}

/// Takes back the steps and the nodes of a change that failed, or that was cut off with its process: the
/// stack stays as it was before. Steps that nothing takes back are as if they had never been; the change
/// is made anew, and looks at what it finds.
pub fn take_back_change(journal: &mut Journal, hosts: &mut dyn HostResolver) -> RazeReport {
    let Some(before) = journal.record().before_change.clone() else {
        return RazeReport::default();
    };
    let mut razed = undo_from(journal, hosts, before.steps, &|_| false);
    if razed.errors.is_empty() {
        razed
            .journal_errors
            .extend(journal.forget(before.steps).err());
    }
    if razed.is_clean() {
        let noted = before.site.map_or(Ok(()), |site| journal.site(&site));
        let noted = noted.and_then(|()| journal.changed());
        razed.journal_errors.extend(noted.err());
    }
    razed
}

/// Tells the hosts what they must know of a journal before they act for it.
pub fn introduce(hosts: &mut dyn HostResolver, record: &JournalContents) {
    let header = &record.header;
    hosts.meet(header.nodes());
    if let Some(ask) = &header.ask {
        hosts.trust(&header.id, &ask.programs);
    }
    hosts.trust(&header.id, &record.programs);
}

/// Carries all steps out; whether it may be stopped before all are done.
fn all_steps<'a>(
    journal: &mut Journal,
    hosts: &mut dyn HostResolver,
    steps: &'a [PlanStep],
    (may_stop, watch): (bool, &mut dyn FnMut(&PlanStep)),
) -> Result<(), (&'a PlanStep, StepError)> {
    for step in steps {
        if may_stop && hosts.is_stopping() {
            return Err((step, StepError::Stopped));
        }
        watch(step);
        one_step(journal, hosts, step, may_stop).map_err(|source| (step, source))?;
    }
    Ok(())
}

fn one_step(
    journal: &mut Journal,
    hosts: &mut dyn HostResolver,
    step: &PlanStep,
    may_stop: bool,
) -> Result<(), StepError> {
    let n = journal.intend(step)?;
    let id = &journal.record().header.id;
    match &step.apply {
        // Only long waits have a limit of their own.
        PlanAction::Await(cmd) if may_stop && cmd.limit_s > WAIT_PIECE_S => {
            await_stoppably(id, hosts, &step.node, cmd)?;
        }
        _ => hosts.on(&step.node)?.apply(id, step)?,
    }
    journal.done(n)?;
    Ok(())
}

/// Waits for something as long as its limit says, unless all is to end. It makes nothing, so a journal of
/// the host's own need not have it.
fn await_stoppably(
    id: &str,
    hosts: &mut dyn HostResolver,
    node: &str,
    cmd: &PlanCommand,
) -> Result<(), StepError> {
    let mut left_s = cmd.limit_s;
    loop {
        let began = hosts.here().clock().now();
        let piece_s = left_s.min(WAIT_PIECE_S);
        left_s -= piece_s;
        let piece = PlanAction::Await(cmd.clone().within_s(piece_s));
        let Err(error) = hosts.on(node)?.carry_out(id, &piece) else {
            return Ok(());
        };
        if hosts.is_stopping() {
            return Err(StepError::Stopped);
        }
        let waited = hosts.here().clock().now().saturating_sub(began);
        // A failure that comes sooner is not the end of the wait.
        if left_s == 0 || waited < Duration::from_secs(piece_s.into()) {
            return Err(error.into());
        }
    }
}

/// Undoes everything in the journal, backwards; removes the journal when nothing is left.
pub fn raze(mut journal: Journal, hosts: &mut dyn HostResolver) -> RazeReport {
    let mut razed = undo_from(&mut journal, hosts, 0, &|_| false);
    if razed.errors.is_empty() {
        razed.journal_errors.extend(journal.remove().err());
    }
    razed
}

/// Ends the commands of a journal and undoes it but for the actions that are `spared`; the journal stays.
pub(crate) fn raze_sparing(
    journal: &mut Journal,
    hosts: &mut dyn HostResolver,
    spared: &dyn Fn(&PlanAction) -> bool,
) -> RazeReport {
    undo_from(journal, hosts, 0, spared)
}

/// Undoes the steps from this number on but for those that are `spared`.
fn undo_from(
    journal: &mut Journal,
    hosts: &mut dyn HostResolver,
    from: usize,
    spared: &dyn Fn(&PlanAction) -> bool,
) -> RazeReport {
    introduce(hosts, journal.record());
    let mut razed = RazeReport::default();
    for pass in 1..=PASSES {
        razed.errors = one_pass(journal, hosts, &mut razed.undone, (from, spared));
        if razed.errors.is_empty() {
            return razed;
        }
        if pass < PASSES {
            razed.warnings.append(&mut razed.errors);
        }
    }
    razed
}

fn one_pass(
    journal: &mut Journal,
    hosts: &mut dyn HostResolver,
    undone: &mut usize,
    (from, spared): (usize, &dyn Fn(&PlanAction) -> bool),
) -> Vec<RazeError> {
    let mut errors = Vec::new();
    let id = journal.record().header.id.clone();
    let record = journal.record();
    // A node that has nothing to do with these steps need not be there.
    let entries = record.entries.iter().skip(from);
    let mut nodes: Vec<&str> = entries.map(|e| &*e.step.node).collect();
    nodes.push(HERE);
    nodes.sort_unstable();
    nodes.dedup();
    let mark = command_mark(&id);
    let stop_commands = |node: &str| {
        (
            None,
            node.to_owned(),
            PlanAction::Stop { mark: mark.clone() },
        )
    };
    let mut actions: Vec<_> = nodes.into_iter().map(stop_commands).collect();
    let steps = match from {
        0 => record.to_undo(),
        _ => record.to_take_back(from),
    };
    let steps = steps.into_iter().filter(|(_, _, action)| !spared(action));
    actions.extend(steps.map(|(n, node, action)| (Some(n), node, action)));
    let mut needed = Vec::new();
    for (n, node, action) in actions {
        let (unreached, done) = if hosts.is_gone(&node) || hosts.is_given_up(&action) {
            undo_elsewhere(hosts, &node, (&id, &action));
            (None, Ok(()))
        } else if holds_needed(&action, &node, &needed) {
            let why = "its actions could not be undone, and it is needed for that";
            (None, Err(HostError::State(why.into())))
        } else {
            match hosts.on(&node) {
                Ok(host) => (None, host.undo(&id, &action)),
                Err(error) => (Some(node.clone()), Err(error)),
            }
        };
        match done {
            Ok(()) => {
                if let Some(n) = n {
                    *undone += 1;
                    // Not noted (a full disk) means only that it is undone once more.
                    let _ = journal.undone(n);
                }
            }
            Err(source) => {
                errors.push(RazeError {
                    action: action.to_string(),
                    unreached,
                    source,
                });
                needed.extend(script_of(&action).map(|script| (node, script)));
            }
        }
    }
    errors
}

/// Files of a lost node on storage that others see: one of the others removes them. Files of its own are gone
/// with it, or stay there: no other node can tell.
fn undo_elsewhere(hosts: &mut dyn HostResolver, node: &str, (id, action): (&str, &PlanAction)) {
    let is_of_storage = action.removed_path().is_some();
    if let Some(other) = hosts.stand_in(node).filter(|_| is_of_storage)
        && let Ok(host) = hosts.on(&other)
    {
        let _ = host.undo(id, action);
    }
}

/// The script that an action carries out, if it does.
fn script_of(action: &PlanAction) -> Option<PathBuf> {
    let (PlanAction::Run(cmd)
    | PlanAction::RunIf { run: cmd, .. }
    | PlanAction::RunUnless { run: cmd, .. }) = action
    else {
        return None;
    };
    match (&*cmd.program, cmd.args.first()) {
        ("sh", Some(PlanCommandArg::Text(script))) => Some(script.into()),
        _ => None,
    }
}

/// Whether an action removes a script of this node that did not end well: without it nothing could be
/// tried again.
fn holds_needed(action: &PlanAction, node: &str, needed: &[(String, PathBuf)]) -> bool {
    let (PlanAction::RemoveDir(dir) | PlanAction::RemoveDirOf { path: dir, .. }) = action else {
        return false;
    };
    let mut scripts = needed.iter().filter(|(on, _)| on == node);
    scripts.any(|(_, script)| script.starts_with(dir))
}

/// A journal found in the state directory.
#[derive(Debug)]
pub struct JournalFile {
    /// Its file.
    pub path: PathBuf,
    /// Its contents, or why they cannot be read.
    pub record: Result<JournalContents, JournalError>,
}

impl JournalFile {
    /// The steps of undoing it, in order, for people; empty for a journal that cannot be read.
    pub fn undo_steps(&self) -> Vec<String> {
        let steps = self.record.as_ref().map(JournalContents::to_undo);
        let steps = steps.unwrap_or_default();
        steps
            .iter()
            .map(|(_, _, action)| action.to_string())
            .collect()
    }
}

/// Every journal, without changing anything.
///
/// # Errors
/// When the state directory cannot be read.
pub fn list(state: &StateDir) -> io::Result<Vec<JournalFile>> {
    let files = state.journal_files()?.into_iter();
    Ok(files
        .map(|path| JournalFile {
            record: JournalContents::read(&path),
            path,
        })
        .collect())
}
