// SPDX-License-Identifier: Apache-2.0
//! Removes everything that plimsoll made on this machine and has not removed itself.

use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_machine::agent_server::{copied, forget_copy};
use plimsoll_machine::cleanup::{self, RazedJournal};
use plimsoll_machine::host::HostPool;
use plimsoll_machine::journal::StateDir;

/// The outcome of a raze.
#[derive(Debug, Default)]
pub struct RazeSummary {
    /// Journals that were found.
    pub journals: usize,
    /// Steps of theirs that were undone.
    pub undone: usize,
    /// Files that were found besides what journals name.
    pub files: usize,
    /// Things that could not be removed, and why.
    pub left: Vec<String>,
}

impl RazeSummary {
    fn add(&mut self, all: Vec<RazedJournal>) {
        self.journals += all.len();
        for journal in all {
            match journal.result {
                Ok(razed) => {
                    self.undone += razed.undone;
                    self.left.extend(razed.problems());
                }
                Err(error) => self.left.push(error.to_string()),
            }
        }
    }

    /// A sentence about the raze, where all is gone.
    pub fn text(&self) -> Option<String> {
        let RazeSummary {
            journals,
            undone,
            files,
            ..
        } = self;
        match (journals, files) {
            _ if !self.left.is_empty() => None,
            (0, 0) => Some("There is nothing of plimsoll's to remove.".into()),
            (0, _) => Some(format!(
                "Removed: {files} files that plimsoll left behind; nothing is left."
            )),
            _ => Some(format!(
                "Removed: {undone} steps of {journals} journals undone; nothing is left."
            )),
        }
    }
}

/// Undoes what the journals list and removes what killed programs left, also the copy of the agent that
/// another machine made here. It does not stop half way: undoing is bounded.
///
/// # Errors
/// When the journals cannot be read.
pub fn raze(state: &StateDir, hosts: &mut HostPool) -> Result<RazeSummary, CliError> {
    let mut summary = RazeSummary {
        files: raze_files(state)?.len(),
        ..RazeSummary::default()
    };
    let all = cleanup::raze_all(state, hosts).map_err(unreadable(state))?;
    forget_copy(state);
    // Directories that held only what is gone now go too; those with anything in them stay.
    for empty in [state.stacks(), state.journals()] {
        let _ = std::fs::remove_dir(empty);
    }
    summary.add(all);
    Ok(summary)
}

/// Undoes what an agent made that is about to end, as its own journals list it.
///
/// # Errors
/// When the journals cannot be read.
pub fn raze_own_parts(state: &StateDir, hosts: &mut HostPool) -> Result<RazeSummary, CliError> {
    let mut summary = RazeSummary::default();
    summary.add(cleanup::raze_own_parts(state, hosts).map_err(unreadable(state))?);
    Ok(summary)
}

/// Undoes what killed runs left behind, and the stacks that they had brought up: after a crash, or when the
/// machine was restarted, a run goes on from the beginning of a trial.
///
/// # Errors
/// When the journals cannot be read.
pub fn raze_dead_runs(state: &StateDir, hosts: &mut HostPool) -> Result<RazeSummary, CliError> {
    let mut summary = RazeSummary::default();
    summary.add(cleanup::raze_dead_runs(state, hosts).map_err(unreadable(state))?);
    Ok(summary)
}

/// Undoes what the runs of this very process made, and their stacks: it panicked, and ends.
///
/// # Errors
/// When the journals cannot be read.
pub fn raze_own_runs(state: &StateDir, hosts: &mut HostPool) -> Result<RazeSummary, CliError> {
    let mut summary = RazeSummary::default();
    summary.add(cleanup::raze_own_runs(state, hosts).map_err(unreadable(state))?);
    Ok(summary)
}

/// Commands that remove files which no journal names: half-made ones of killed programs, and the copy of
/// the agent. Only a machine that has no journal left does without that one.
///
/// # Errors
/// When the journals cannot be read.
pub fn raze_files(state: &StateDir) -> Result<Vec<String>, CliError> {
    let mut files = state.abandoned().map_err(unreadable(state))?;
    files.extend(copied(state));
    Ok(files
        .iter()
        .map(|path| format!("rm {}", path.display()))
        .collect())
}

/// The failure when something is left, with what it is.
///
/// # Errors
/// When something is.
pub fn nothing_left(left: &[String]) -> Result<(), CliError> {
    if left.is_empty() {
        return Ok(());
    }
    Err(CliError::new(
        CliExitCode::NotCleaned,
        format!("remove everything; left:\n  {}", left.join("\n  ")),
    )
    .hint(
        "each line says what blocks it: fix that, then run `plimsoll raze` again; for what no longer \
         exists or you removed yourself: plimsoll raze --forget-node PATH",
    ))
}

/// For `map_err`: journals could not be read.
pub fn unreadable(state: &StateDir) -> impl Fn(std::io::Error) -> CliError {
    let path = state.path().display().to_string();
    move |error| {
        CliError::new(
            CliExitCode::Failed,
            format!("read the journals in {path}: {error}"),
        )
    }
}
