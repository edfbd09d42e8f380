// SPDX-License-Identifier: Apache-2.0
//! Undoes all that is left behind: what journals list, then what carries a mark that no journal has.

use plimsoll_core::plan::HERE;
use std::io;
use std::path::{Path, PathBuf};

use crate::host::HostResolver;
use crate::journal::{Journal, JournalError, StateDir};
use crate::memory_limit;
use crate::orphans;
use crate::raise::{RazeReport, raze};

/// What became of one journal.
#[derive(Debug)]
pub struct RazedJournal {
    /// Its file.
    pub path: PathBuf,
    /// What undoing came to, or why it was not begun.
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
    for path in state.journal_files()? {
        let result = raze_one(&path, hosts);
        all.push(RazedJournal { path, result });
    }
    raze_orphans(state, hosts, &mut all)?;
    // Nobody is in them: they only take up a name.
    for group in memory_limit::abandoned() {
        std::fs::remove_dir(&group)?;
        all.push(RazedJournal {
            path: group,
            result: Ok(RazeReport::default()),
        });
    }
    Ok(all)
}

fn raze_one(path: &Path, hosts: &mut dyn HostResolver) -> Result<RazeReport, JournalError> {
    Journal::open(path, hosts.here().clock()).map(|journal| raze(journal, hosts))
}

/// The last look: what carries marks that no journal explains, or whose journal could not undo it.
fn raze_orphans(
    state: &StateDir,
    hosts: &mut dyn HostResolver,
    all: &mut Vec<RazedJournal>,
) -> io::Result<()> {
    // What is on nodes is not found by marks here.
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
        one.result = raze_one(&one.path, hosts);
    }
    Ok(())
}
