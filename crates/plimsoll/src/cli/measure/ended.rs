// SPDX-License-Identifier: Apache-2.0
//! The end of a run: what is printed, and what was wrong.

use super::super::{raze, report, worst};
use super::{CampaignMeasurement, MeasureResult};
use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_console::terminal;
use plimsoll_core::event::RunFolderContents;
use plimsoll_core::units;
use plimsoll_run::campaign::CampaignResult;
use std::ops::ControlFlow;
use std::path::Path;

/// Bad blocks that a failure names; the report names more.
const FINDINGS_SHOWN: usize = 3;

/// The end of a run: its results are printed, whatever went wrong, and all that did.
pub(super) fn ended(
    job: &CampaignMeasurement<'_>,
    outcome: Result<CampaignResult, CliError>,
    left: &[String],
    (folder, is_stopped): (&Path, bool),
) -> Result<MeasureResult, CliError> {
    let (results, ended) = match outcome {
        Ok((results, ended)) => (Some(results), ended),
        Err(failure) => (None, Err(failure)),
    };
    let mut wrong: Vec<CliError> = ended.err().into_iter().collect();
    wrong.extend(raze::verdict(left).err());
    if let Some(results) = &results {
        // A run that failed before its first trial has nothing to show.
        if wrong.is_empty() || !results.trials.is_empty() {
            wrong.extend(show(job, results, folder).err());
        }
        let checks = [check_data, check_faults, check_nodes];
        wrong.extend(checks.iter().filter_map(|check| check(results).err()));
        if wrong.is_empty() && (results.complete || !is_stopped) {
            wrong.extend(check_trials(results).err());
        }
    }
    worst(wrong)?;
    Ok(match results {
        Some(results) if results.complete || !is_stopped => ControlFlow::Continue(results),
        _ => ControlFlow::Break(CliExitCode::Interrupted.into()),
    })
}

/// Fails when a run that is whole lost data or nodes, or the storage ended a trial.
pub(in crate::cli) fn check_whole(results: &RunFolderContents) -> Result<(), CliError> {
    let checks = [check_data, check_faults, check_nodes, check_trials];
    worst(
        checks
            .iter()
            .filter_map(|check| check(results).err())
            .collect(),
    )
}

/// Fails when the storage ended a trial: its results are kept, but it is no orderly end.
fn check_trials(results: &RunFolderContents) -> Result<(), CliError> {
    let ended = results.trials.iter().find_map(|result| {
        let reason = result.failed.as_ref()?;
        Some((&result.trial, reason))
    });
    match ended {
        None => Ok(()),
        Some((trial, reason)) => Err(CliError::sentence(
            CliExitCode::Failed,
            format!(
                "trial aborted: {} on {}: {reason}",
                trial.workload, trial.arm
            ),
        )
        .hint("what was measured until then is in the run folder")),
    }
}

/// Fails when a machine that load came from was lost: what was measured is kept.
fn check_nodes(results: &RunFolderContents) -> Result<(), CliError> {
    let mut lost = results.trials.iter();
    let lost = lost.find_map(|result| Some((&result.trial, result.lost_node()?)));
    match lost {
        None => Ok(()),
        Some((trial, (node, lost))) => Err(CliError::sentence(
            CliExitCode::LostNode,
            format!(
                "trial aborted: {} on {}: node {node} was lost {} after the start: {}",
                trial.workload,
                trial.arm,
                units::clock_duration(lost.after),
                lost.why
            ),
        )
        .hint("what was measured is in the run folder, which says that it is incomplete")),
    }
}

/// Fails when data were lost or changed: the results are kept, but that trial is not compared.
fn check_data(results: &RunFolderContents) -> Result<(), CliError> {
    let bad = results
        .trials
        .iter()
        .find_map(|result| Some((&result.trial, result.bad_data()?)));
    match bad {
        None => Ok(()),
        Some((trial, check)) => Err(CliError::sentence(
            CliExitCode::BadData,
            format!(
                "data verification failed on {} under {}: {check}; first: {}",
                trial.arm,
                trial.workload,
                check.first_words(FINDINGS_SHOWN)
            ),
        )
        .hint("the results are in the run folder, and trials with bad blocks are not compared")),
    }
}

/// Fails when writes that were acknowledged before or during a fault are missing.
fn check_faults(results: &RunFolderContents) -> Result<(), CliError> {
    let lost = results.trials.iter().find_map(|result| {
        let fault = result.fault.as_ref()?;
        (!fault.kept_its_data()).then_some((&result.trial, fault))
    });
    match lost {
        None => Ok(()),
        Some((trial, fault)) => Err(CliError::sentence(
            CliExitCode::BadData,
            format!(
                "acknowledged writes were lost on {} after {} of {}: {}",
                trial.arm, fault.fault, fault.victim, fault.check.data
            ),
        )
        .hint("the report names every fault; the ledgers are in the run folder")),
    }
}

/// Prints the results and writes the page.
fn show(
    job: &CampaignMeasurement<'_>,
    results: &RunFolderContents,
    folder: &Path,
) -> Result<(), CliError> {
    let path = report::write_page(results, folder)?;
    if job.attempt.quiet {
        return Ok(());
    }
    if job.attempt.json {
        terminal::print_json(&report::as_json(results, folder));
        return Ok(());
    }
    let is_comparison = results.manifest.arms.len() > 1;
    let classics = report::classic_texts(results);
    let is_screen = terminal::is_read_here() && !job.attempt.full;
    if is_screen {
        terminal::print(&classics);
        terminal::print_coloured(&report::as_screen(results));
        terminal::print(&format!("All of it: plimsoll report {}", folder.display()));
    } else {
        terminal::print_coloured(&report::as_text(results, is_comparison));
        if !is_comparison {
            terminal::print(&classics);
        }
    }
    terminal::print(&format!("Report: {}", path.display()));
    Ok(())
}
