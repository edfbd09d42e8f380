// SPDX-License-Identifier: Apache-2.0
//! `plimsoll raze`: remove everything plimsoll made on this machine and has not removed itself.

use plimsoll_agent::raze::{nothing_left, raze, raze_files, unreadable};
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::plan::{HERE, PlanAction};
use plimsoll_machine::journal::{JournalContents, JournalEntry, StateDir};
use plimsoll_machine::{orphans, raise};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Remove everything that plimsoll made and has not removed.
///
/// The command undoes all journaled steps (stacks that are up, remains of killed runs), and removes
/// objects with plimsoll's mark that no journal lists. Objects in use by a running plimsoll are
/// listed, not removed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll raze --dry-run
  plimsoll raze
  plimsoll raze --forget-node n1,n2")]
pub(super) struct RazeArgs {
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print the steps to undo; change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Give up these nodes: everything made on them counts as removed.
    ///
    /// NODES are nodes that no longer exist, separated by commas, or paths (beginning with /) that
    /// no longer exist.
    #[arg(long = "forget-node", value_name = "NODES", value_delimiter = ',')]
    forget_nodes: Vec<String>,
}

pub(super) fn main(args: &RazeArgs) -> CliResult {
    let state = context::state_dir()?;
    check_gone(&state, &args.forget_nodes)?;
    if args.dry_run {
        let files = raze_files(&state)?;
        print_steps(&state, args.json, (files, lost(&state)?), |_| true)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Ctrl-C does not stop half way: undoing is bounded, and its rest would have to be done later.
    let _stop = context::stop_flag()?;
    let done = raze(&state, &mut context::nodes().without(&args.forget_nodes))?;
    if args.json {
        terminal::print_json(
            &serde_json::json!({ "journals": done.journals, "steps_undone": done.undone,
            "files_removed": done.files, "left": done.left }),
        );
    } else if let Some(text) = done.text() {
        terminal::print(&text);
    }
    verdict(&done.left)
}

/// Objects with our mark that no journal lists, each with the steps that remove it.
fn lost(state: &StateDir) -> Result<Vec<(String, Vec<String>)>, CliError> {
    let found = orphans::find(state, &[]).map_err(unreadable(state))?;
    Ok(found
        .iter()
        .map(|one| (format!("in no journal: {}", one.name), one.steps()))
        .collect())
}

/// A node that no journal names is a mistake of the hand.
fn check_gone(state: &StateDir, gone: &[String]) -> Result<(), CliError> {
    let found = raise::list(state).map_err(unreadable(state))?;
    let records = found.iter().filter_map(|found| found.record.as_ref().ok());
    let entries = records.flat_map(|record| &record.entries);
    let known: BTreeSet<&str> = entries.map(|entry| &*entry.step.node).collect();
    let removed = |entry: &'_ JournalEntry| {
        let actions = [&entry.step.undo, &entry.step.back];
        let paths = actions
            .into_iter()
            .flatten()
            .filter_map(PlanAction::removed_path);
        paths.map(str::to_owned).collect::<Vec<_>>()
    };
    let records = found.iter().filter_map(|found| found.record.as_ref().ok());
    let paths: BTreeSet<String> = records.flat_map(|r| &r.entries).flat_map(removed).collect();
    for name in gone.iter().filter(|name| !paths.contains(*name)) {
        if name.starts_with('/') {
            return Err(CliError::invalid(format!(
                "invalid path '{name}' for --forget-node: no journal removes it"
            ))
            .hint("plimsoll raze --dry-run lists what they remove"));
        }
        if name == HERE || !known.contains(name.as_str()) {
            let known: Vec<&str> = known.iter().copied().filter(|node| *node != HERE).collect();
            let known = match known.is_empty() {
                true => "the journals name no other node".into(),
                false => format!("the journals name {}", known.join(", ")),
            };
            return Err(CliError::invalid(format!(
                "invalid node '{name}' for --forget-node: no journal names it"
            ))
            .hint(known));
        }
    }
    Ok(())
}

/// Prints what undoing would do, for the journals that `wanted` chooses, and what `files` and `lost` say
/// besides.
pub(super) fn print_steps(
    state: &StateDir,
    json: bool,
    (files, mut lost): (Vec<String>, Vec<(String, Vec<String>)>),
    wanted: impl Fn(&JournalContents) -> bool,
) -> Result<(), CliError> {
    let mut would = Vec::new();
    for found in raise::list(state).map_err(unreadable(state))? {
        match &found.record {
            Ok(record) if wanted(record) => {
                would.push((record.header.kind.to_string(), found.undo_steps()));
            }
            Ok(_) => {}
            Err(error) => terminal::say(&format!("note: {error}")),
        }
    }
    would.append(&mut lost);
    if !files.is_empty() {
        would.push(("left behind".into(), files));
    }
    if json {
        let list: Vec<_> = would
            .iter()
            .map(|(what, steps)| serde_json::json!({ "what": what, "steps": steps }))
            .collect();
        terminal::print_json(&serde_json::json!({ "would": list }));
        return Ok(());
    }
    for (what, steps) in &would {
        terminal::print(&format!("{what}:\n  {}", steps.join("\n  ")));
    }
    if would.is_empty() {
        terminal::print("There is nothing to undo.");
    }
    Ok(())
}

/// The exit code of undoing, with what is left in words.
pub(super) fn verdict(left: &[String]) -> CliResult {
    nothing_left(left).map(|()| ExitCode::SUCCESS)
}
