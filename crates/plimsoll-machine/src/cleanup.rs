// SPDX-License-Identifier: Apache-2.0
//! Undoes all that is left behind: what journals list, then what carries a mark that no journal has.

use plimsoll_core::plan::{HERE, PlanAction};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::{HostProcessId, HostResolver, HostTimeSource};
use crate::journal::{Journal, JournalContents, JournalError, JournalScope, StateDir};
use crate::memory_limit;
use crate::orphans;
use crate::raise::{RazeReport, raze, raze_sparing};

/// The outcome of razing one journal.
#[derive(Debug)]
pub struct RazedJournal {
    /// Its file.
    pub path: PathBuf,
    /// The report of undoing, or why it was not begun.
    pub result: Result<RazeReport, JournalError>,
}

/// Undoes everything whose owner is gone, and every standing stack. What its owner is at work on,
/// and what is in use, is refused with the number of that process and left as it is; the
/// others are undone all the same.
///
/// # Errors
/// When the state directory cannot be read.
pub fn raze_all(state: &StateDir, hosts: &mut dyn HostResolver) -> io::Result<Vec<RazedJournal>> {
    state.remove_abandoned()?;
    let mut all = Vec::new();
    let machines = state.journals().join(JournalScope::Machines.file_name());
    let made = JournalContents::read(&machines).map(|record| record.header.nodes);
    let order = RazeOrder::of(state.journal_files()?);
    order.end_what_uses_stacks(hosts, Journal::open);
    for path in order.files {
        let result = raze_one(&path, hosts, Journal::open);
        all.push(RazedJournal { path, result });
    }
    if let (Ok(made), false) = (made, machines.exists()) {
        hosts.lose(&made);
        raze_rest_again(hosts, &mut all);
    }
    raze_orphans(state, hosts, &mut all)?;
    // No process is in these groups: they only take up a name.
    for group in memory_limit::abandoned() {
        std::fs::remove_dir(&group)?;
        all.push(RazedJournal {
            path: group,
            result: Ok(RazeReport::default()),
        });
    }
    Ok(all)
}

/// Undoes again where something was left: what lay on virtual machines that were off or cut off is gone with
/// their disks.
fn raze_rest_again(hosts: &mut dyn HostResolver, all: &mut [RazedJournal]) {
    let has_rest = |one: &&mut RazedJournal| {
        let razed = one.result.as_ref();
        razed.is_ok_and(|razed| razed.errors.iter().any(|error| error.unreached.is_some()))
    };
    for one in all.iter_mut().filter(has_rest) {
        one.result = raze_one(&one.path, hosts, Journal::open);
    }
}

/// Which journal is undone when.
///
/// A run's resources on a stack go with the stack, and wait for it: a fault may have left its servers dead or
/// out of reach, and a look at a file there would then wait for ever. The run's programs end before, since
/// the stack cannot be unmounted while they use it.
#[derive(Debug)]
struct RazeOrder {
    files: Vec<PathBuf>,
    /// Journals of runs that made something on a stack.
    waiting: Vec<PathBuf>,
    /// Where those stacks are mounted.
    mounts: Vec<String>,
}

impl RazeOrder {
    fn of(mut files: Vec<PathBuf>) -> RazeOrder {
        let read = |path: &PathBuf| Some((path.clone(), JournalContents::read(path).ok()?));
        let records: Vec<_> = files.iter().filter_map(read).collect();
        let stacks = records.iter().map(|(_, record)| record);
        let mounts: Vec<String> = stacks.filter_map(mount_that_goes).collect();
        let is_waiting = |record: &JournalContents| {
            let mut undo = record.to_undo().into_iter();
            matches!(record.header.kind, JournalScope::Run(_))
                && undo.any(|(_, node, action)| node == HERE && is_below(&mounts, &action))
        };
        let waiting = records.iter().filter(|(_, record)| is_waiting(record));
        let waiting: Vec<PathBuf> = waiting.map(|(path, _)| path.clone()).collect();
        let is_last = |path: &PathBuf| path.ends_with(JournalScope::Machines.file_name());
        // By their names else; what stands on virtual machines goes before them.
        files.sort_by_key(|path| (is_last(path), waiting.contains(path)));
        RazeOrder {
            files,
            waiting,
            mounts,
        }
    }

    fn end_what_uses_stacks(&self, hosts: &mut dyn HostResolver, open: JournalOpener) {
        for path in &self.waiting {
            // A failure or refusal here is tried again, and reported, when it is its turn.
            if let Ok(mut journal) = open(path, hosts.here().clock()) {
                raze_sparing(&mut journal, hosts, &|action| {
                    is_below(&self.mounts, action)
                });
            }
        }
    }
}

/// Where a stack is mounted whose storage goes with it. Commands of the user may show some that stays.
fn mount_that_goes(record: &JournalContents) -> Option<String> {
    let is_recipe = record.header.ask.as_ref()?.programs.is_empty();
    let mount = record.made.as_ref()?.mount_dir.clone();
    (is_recipe && !mount.is_empty()).then_some(mount)
}

fn is_below(mounts: &[String], action: &PlanAction) -> bool {
    let path = action.removed_path().map(Path::new);
    path.is_some_and(|path| mounts.iter().any(|mount| path.starts_with(mount)))
}

/// Undoes what runs left behind that are gone, the stacks that these had brought up, and those that were
/// left unfinished. What a person brought up stays, and what others use.
///
/// # Errors
/// When the state directory cannot be read.
pub fn raze_dead_runs(
    state: &StateDir,
    hosts: &mut dyn HostResolver,
) -> io::Result<Vec<RazedJournal>> {
    raze_runs(state, hosts, |record| !record.at_work(), Journal::open)
}

/// Undoes what the runs of this very process made, and the stacks that they brought up: it panicked, and
/// ends.
///
/// # Errors
/// When the state directory cannot be read.
pub fn raze_own_runs(
    state: &StateDir,
    hosts: &mut dyn HostResolver,
) -> io::Result<Vec<RazedJournal>> {
    let this = HostProcessId::this();
    raze_runs(state, hosts, |record| *record.worker() == this, open_own)
}

fn raze_runs(
    state: &StateDir,
    hosts: &mut dyn HostResolver,
    is_over: impl Fn(&JournalContents) -> bool,
    open: JournalOpener,
) -> io::Result<Vec<RazedJournal>> {
    let read = |path: PathBuf| JournalContents::read(&path).ok().map(|of| (path, of));
    let all: Vec<_> = state
        .journal_files()?
        .into_iter()
        .filter_map(read)
        .collect();
    let is_run_over = |record: &JournalContents| {
        matches!(record.header.kind, JournalScope::Run(_)) && is_over(record)
    };
    let runs = all.iter().filter(|(_, record)| is_run_over(record));
    let owners: Vec<_> = runs
        .map(|(_, record)| record.header.owner.clone())
        .collect();
    let theirs = all
        .into_iter()
        .filter(|(_, record)| match record.header.kind {
            JournalScope::Run(_) => is_run_over(record),
            JournalScope::Stack(_) => {
                let is_theirs = owners.contains(&record.header.owner);
                (is_theirs || !record.standing) && is_over(record)
            }
            JournalScope::Part(_) | JournalScope::Machines => false,
        });
    let order = RazeOrder::of(theirs.map(|(path, _)| path).collect());
    order.end_what_uses_stacks(hosts, open);
    let mut razed = Vec::new();
    for path in order.files {
        let result = raze_one(&path, hosts, open);
        // Another process has taken the journal over by now.
        if !matches!(result, Err(JournalError::InUse { .. })) {
            razed.push(RazedJournal { path, result });
        }
    }
    Ok(razed)
}

/// How a journal is opened to be undone.
type JournalOpener = fn(&Path, &dyn HostTimeSource) -> Result<Journal, JournalError>;

/// Opens a journal that this process has: it lives, and is at work on nothing any more.
fn open_own(path: &Path, clock: &dyn HostTimeSource) -> Result<Journal, JournalError> {
    Journal::resume(path, clock, Duration::ZERO)
}

fn raze_one(
    path: &Path,
    hosts: &mut dyn HostResolver,
    open: JournalOpener,
) -> Result<RazeReport, JournalError> {
    open(path, hosts.here().clock()).map(|journal| raze(journal, hosts))
}

/// Undoes the parts of journals that this very process has: its controller is gone, and so is it soon.
///
/// # Errors
/// When the journals cannot be read.
pub fn raze_own_parts(
    state: &StateDir,
    hosts: &mut dyn HostResolver,
) -> io::Result<Vec<RazedJournal>> {
    let mut all = Vec::new();
    for path in state.journal_files()? {
        let result = raze_one(&path, hosts, open_own);
        all.push(RazedJournal { path, result });
    }
    Ok(all)
}

/// The last look: what carries marks that no journal explains, or whose journal could not undo it.
fn raze_orphans(
    state: &StateDir,
    hosts: &mut dyn HostResolver,
    all: &mut Vec<RazedJournal>,
) -> io::Result<()> {
    // Resources on nodes are not found by marks here.
    let is_stuck = |one: &&mut RazedJournal| match &one.result {
        Ok(razed) => !razed.errors.is_empty() && razed.errors.iter().all(|e| e.unreached.is_none()),
        Err(_) => false,
    };
    let failed: Vec<PathBuf> = all
        .iter_mut()
        .filter(is_stuck)
        .map(|one| one.path.clone())
        .collect();
    let orphans = orphans::find(state, &failed)?;
    if orphans.is_empty() {
        return Ok(());
    }
    for orphan in &orphans {
        let path = PathBuf::from(&orphan.name);
        let result = hosts.on(HERE).map_or_else(
            |_| Ok(RazeReport::default()),
            |host| Ok(orphans::remove(orphan, host)),
        );
        all.push(RazedJournal { path, result });
    }
    for one in all.iter_mut().filter(|one| failed.contains(&one.path)) {
        one.result = raze_one(&one.path, hosts, Journal::open);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
