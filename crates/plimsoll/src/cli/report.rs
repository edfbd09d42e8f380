// SPDX-License-Identifier: Apache-2.0
//! `plimsoll report`: show a run again from its folder.

use crate::terminal;
use plimsoll_agent::failure::{CliError, CliExitCode, CliResult, failed};
use plimsoll_core::event::RunFolderContents;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show the report of a run again, from its folder.
///
/// A run that was killed is reported up to its last second.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll report plimsoll-results/20260101-120000-4711
  plimsoll report plimsoll-results/20260101-120000-4711 --csv > trials.csv")]
pub(super) struct ReportArgs {
    /// Run folder.
    folder: PathBuf,
    /// Write the page to FILE instead of into the run folder.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print one line per trial and kind of operation, as CSV.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print each trial of a classic benchmark in the format of the original program instead.
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    classic: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &ReportArgs) -> CliResult {
    let mut results = plimsoll_archive::open(&args.folder).map_err(failed(CliExitCode::Usage))?;
    // Verdicts are reached again from the trials: a killed run never wrote any.
    results.comparisons = plimsoll_stats::compare_all(&results.manifest, &results.trials);
    if args.csv {
        terminal::print(&plimsoll_report::csv(&results));
        return Ok(ExitCode::SUCCESS);
    }
    if args.classic {
        let texts = classic_texts(&results);
        if texts.is_empty() {
            return Err(CliError::usage(format!(
                "print {} in the format of the original program: no finished trial has such output",
                args.folder.display()
            )));
        }
        terminal::print(&texts);
        return Ok(ExitCode::SUCCESS);
    }
    let page = match &args.html {
        Some(path) => {
            write_html(path, &plimsoll_report::build(&results))?;
            path.clone()
        }
        None => write_page(&results, &args.folder)?,
    };
    if args.json {
        terminal::print_json(&as_json(&results, &args.folder));
    } else {
        terminal::print_coloured(&as_text(&results, false));
        terminal::print(&format!("Report: {}", page.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn html(results: &RunFolderContents) -> String {
    plimsoll_report::html(&plimsoll_report::build(results))
}

/// Writes a page to a file that the user named.
pub(super) fn write_html(
    path: &Path,
    report: &plimsoll_report::ReportDocument,
) -> Result<(), CliError> {
    let write = |error| {
        CliError::new(
            CliExitCode::Failed,
            format!("write {}: {error}", path.display()),
        )
    };
    plimsoll_archive::write_result(path, plimsoll_report::html(report)).map_err(write)
}

/// Every trial that does the work of a classic program, as that program would print it.
pub(super) fn classic_texts(results: &RunFolderContents) -> String {
    let mut texts = String::new();
    for trial in &results.trials {
        let entries = &results.manifest.entries;
        let entry = entries
            .iter()
            .find(|entry| entry.label == trial.trial.workload);
        let Some(text) = entry.and_then(|entry| plimsoll_classics::tell(&entry.workload, trial))
        else {
            continue;
        };
        if results.trials.len() > 1 {
            let id = &trial.trial;
            let _ = writeln!(
                texts,
                "# {} on {}, block {}",
                id.workload,
                id.arm,
                id.block + 1
            );
        }
        texts.push_str(text.trim_end());
        texts.push_str("\n\n");
    }
    texts
}

/// Writes the page into the run folder.
pub(super) fn write_page(results: &RunFolderContents, folder: &Path) -> Result<PathBuf, CliError> {
    plimsoll_archive::write_report(folder, &html(results)).map_err(failed(CliExitCode::Failed))
}

/// The results for a terminal.
pub(super) fn as_text(results: &RunFolderContents, answer_only: bool) -> String {
    let report = plimsoll_report::build(results);
    plimsoll_report::terminal(&report, terminal::width(), terminal::colour(), answer_only)
}

/// The results for a machine: verdicts, and every trial with its value and its response times.
pub(super) fn as_json(results: &RunFolderContents, folder: &Path) -> serde_json::Value {
    let metric = |workload: &str| {
        let entries = &results.manifest.entries;
        entries
            .iter()
            .find(|e| e.label == workload)
            .and_then(|e| e.workload.metric())
    };
    let trials: Vec<serde_json::Value> = results
        .trials
        .iter()
        .map(|trial| {
            let response = trial.stats.response();
            let service = trial.stats.service();
            let lag = trial.stats.lag();
            let cpu = trial.generator.user_cpu_ns + trial.generator.system_cpu_ns;
            serde_json::json!({
                "block": trial.trial.block,
                "arm": trial.trial.arm,
                "workload": trial.trial.workload,
                "metric": metric(&trial.trial.workload),
                "value": metric(&trial.trial.workload).map(|m| trial.value(m)),
                "ops": trial.stats.ops(),
                "bytes": trial.stats.bytes(),
                "errors": trial.stats.errors(),
                "length_ns": trial.length,
                "prepare_ns": trial.prepare,
                "response_ns": { "mean": response.mean_ns(), "p50": response.quantile_ns(0.5),
                    "p99": response.quantile_ns(0.99), "max": response.max_ns() },
                "service_ns": { "mean": service.mean_ns(), "p50": service.quantile_ns(0.5),
                    "p99": service.quantile_ns(0.99), "max": service.max_ns() },
                "lag_ns": { "mean": lag.mean_ns(), "p50": lag.quantile_ns(0.5),
                    "p99": lag.quantile_ns(0.99), "max": lag.max_ns() },
                "generator_cpu_ns": cpu,
                "phases": trial.phases.iter().map(plimsoll_report::phase).collect::<Vec<_>>(),
                "generator": trial.generator,
                "fidelity": trial.fidelity,
                "interrupted": trial.interrupted,
                "data_check": trial.data_check,
                "device": trial.device,
                "servers": trial.servers,
                "machines": trial.machines,
                "fault": trial.fault,
                "load_line": trial.load_line.as_ref().map(|record| record.request),
            })
        })
        .collect();
    serde_json::json!({
        "folder": folder,
        "id": results.manifest.id,
        "seed": results.manifest.seed,
        "policy": results.manifest.policy,
        "design": results.manifest.design,
        "complete": results.complete,
        "comparisons": results.comparisons,
        "secondary": plimsoll_stats::compare_secondary(&results.manifest, &results.trials),
        "loops": plimsoll_stats::compare_loops(&results.manifest, &results.trials),
        "load_lines": plimsoll_report::load_lines(results),
        "explanations": plimsoll_stats::explain::explain(results),
        "warnings": results.warnings,
        "trials": trials,
    })
}
