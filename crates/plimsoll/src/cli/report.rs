// SPDX-License-Identifier: Apache-2.0
//! `plimsoll report`: show a run again from its folder.

use clap::builder::PossibleValuesParser;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult, failed};
use plimsoll_console::terminal;
use plimsoll_core::event::RunFolderContents;
use plimsoll_report::ReportExportFormat;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show the report of a run again, from its folder.
///
/// The report of a killed run covers everything up to its last second.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll report plimsoll-results/20260101-120000-4711
  plimsoll report plimsoll-results/20260101-120000-4711 --export run.md,trials.csv,intervals.parquet
  plimsoll report plimsoll-results/20260101-120000-4711 --csv > trials.csv

Formats of --export: .md (Markdown), .csv and .parquet (every second), .trials.csv and .trials.parquet
(every trial; also the names trials.csv, trials.parquet), .xlsx, .json, .hlog (HdrHistogram), .xml (JUnit).
docs/exports.md describes all formats.")]
pub(super) struct ReportArgs {
    /// Run folder.
    folder: PathBuf,
    /// Write the HTML page to FILE instead of into the run folder.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Export the run to files for other programs; the name of each file sets its format.
    #[arg(
        long,
        value_name = "FILE",
        value_delimiter = ',',
        conflicts_with_all = ["html", "csv", "classic", "json"]
    )]
    export: Vec<PathBuf>,
    /// Format of the single file of --export, whatever its name.
    #[arg(long = "as", value_name = "FORMAT", requires = "export",
        value_parser = PossibleValuesParser::new(ReportExportFormat::ALL.map(ReportExportFormat::name)))]
    format: Option<String>,
    /// Overwrite existing files.
    #[arg(long, requires = "export")]
    force: bool,
    /// Print one line per trial and kind of operation as CSV.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print each trial of a classic benchmark in the original program's format instead.
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    classic: bool,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

/// Refuses a folder that is not there, with the latest run that is.
pub(super) fn check_run_folder(folder: &Path) -> Result<(), CliError> {
    if folder.exists() {
        return Ok(());
    }
    let error = CliError::invalid(format!("there is no run folder {}", folder.display()));
    let entries = std::fs::read_dir(super::defaults::results())
        .into_iter()
        .flatten()
        .flatten();
    let runs = entries.filter(|entry| plimsoll_archive::manifest(&entry.path()).is_ok());
    let latest = runs.max_by_key(|run| run.metadata().and_then(|facts| facts.modified()).ok());
    Err(match latest {
        Some(run) => error.hint(format!("the latest run here is {}", run.path().display())),
        None => error.hint("a run folder is what -o of run, compare and loadline names"),
    })
}

pub(super) fn main(args: &ReportArgs) -> CliResult {
    check_run_folder(&args.folder)?;
    if !args.export.is_empty() {
        return export(args);
    }
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

/// Writes the files of `--export`. Nothing is read before it is known that all of them can be written.
fn export(args: &ReportArgs) -> CliResult {
    if args.format.is_some() && args.export.len() > 1 {
        return Err(
            CliError::usage("export in one format: --as is for one FILE")
                .hint("leave --as out and name each file with its suffix"),
        );
    }
    let mut files = Vec::new();
    for path in &args.export {
        files.push((path, export_format(args, path)?));
        plimsoll_console::output::check_output(path, args.force || is_device(path))?;
    }
    let mut results =
        plimsoll_archive::open_whole(&args.folder).map_err(failed(CliExitCode::Usage))?;
    results.comparisons = plimsoll_stats::compare_all(&results.manifest, &results.trials);
    for (path, format) in files {
        let wrong = |error: String| {
            let text = format!("write {}: {error}", path.display());
            CliError::new(CliExitCode::Failed, text)
        };
        let bytes = plimsoll_report::export(format, &results);
        let bytes = bytes.map_err(|error| wrong(error.to_string()))?;
        plimsoll_archive::write_result(path, bytes).map_err(|error| wrong(error.to_string()))?;
        terminal::say(&format!("Wrote {} ({})", path.display(), format.name()));
    }
    Ok(ExitCode::SUCCESS)
}

/// Paths by which shells and pipes are reached exist already, and take what is written.
fn is_device(path: &Path) -> bool {
    path.starts_with("/dev") || path.starts_with("/proc")
}

fn export_format(args: &ReportArgs, path: &Path) -> Result<ReportExportFormat, CliError> {
    if let Some(format) = args.format.as_deref().and_then(ReportExportFormat::named) {
        return Ok(format);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ReportExportFormat::of_file(&name).ok_or_else(|| {
        let suffixes = ReportExportFormat::ALL.map(ReportExportFormat::suffix);
        let text = format!(
            "export to {}: its name does not tell the format",
            path.display()
        );
        CliError::usage(text).hint(format!(
            "end it with one of {}, or give --as",
            suffixes.join(" ")
        ))
    })
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

/// The answer alone, on one screen of a terminal.
pub(super) fn as_screen(results: &RunFolderContents) -> String {
    let report = plimsoll_report::build(results);
    plimsoll_report::terminal_screen(&report, terminal::width(), terminal::colour())
}

/// The results for a machine.
pub(super) fn as_json(results: &RunFolderContents, folder: &Path) -> serde_json::Value {
    let mut document = plimsoll_report::results_document(results);
    document.folder = Some(folder.display().to_string());
    serde_json::to_value(document).expect("the document is plain data")
}
