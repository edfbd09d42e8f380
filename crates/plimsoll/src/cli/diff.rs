// SPDX-License-Identifier: Apache-2.0
//! `plimsoll diff`: two runs of one campaign at two times.

use super::design::share;
use super::measure::policy;
use super::report::{check_run_folder, write_html};
use plimsoll_console::failure::{CliExitCode, CliResult, failed};
use plimsoll_console::terminal;
use plimsoll_core::comparison::ComparisonVerdict;
use plimsoll_core::run_diff::RunDiffRow;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare two runs of the same campaign.
///
/// The two runs were not interleaved. If both have the same base, each system is compared by its
/// ratio to the base in the same blocks, which cancels changes that affect both. The base itself is
/// compared directly, and has a verdict only with A/A controls in both runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll diff results/before-upgrade results/after-upgrade
  plimsoll diff results/monday results/tuesday --fail-on different --json")]
pub(super) struct DiffArgs {
    /// Run folder of the earlier run.
    before: PathBuf,
    /// Run folder of the later run.
    after: PathBuf,
    /// Equivalence margin: results within this fraction of each other are equivalent.
    #[arg(long, default_value = "5%", value_parser = share, value_name = "FRACTION")]
    margin: f64,
    /// Exit with an error code if this verdict occurs.
    ///
    /// `different`: exit code 10 if a result differs, or a system cannot carry the load in one of
    /// the runs. `worse`: exit code 10 only if a result became worse, or a system cannot carry the
    /// load. `inconclusive`: exit code 11.
    #[arg(long, value_name = "VERDICT", value_parser = ["different", "worse", "inconclusive"])]
    fail_on: Option<String>,
    /// Also write the differences to FILE as an HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the differences as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &DiffArgs) -> CliResult {
    let policy = policy(args.margin)?;
    let open = |folder: &PathBuf| {
        check_run_folder(folder)?;
        plimsoll_archive::open(folder).map_err(failed(CliExitCode::Usage))
    };
    let (before, after) = (open(&args.before)?, open(&args.after)?);
    let names = [&args.before, &args.after].map(|folder| folder.display().to_string());
    let diff = plimsoll_report::run_diff((&names[0], &before), (&names[1], &after), &policy);
    let report = plimsoll_report::run_diff_report(&diff, &policy);
    if let Some(path) = &args.html {
        write_html(path, &report)?;
    }
    if args.json {
        terminal::print_json(&serde_json::json!(diff));
    } else {
        let (width, colour) = (terminal::width(), terminal::colour());
        terminal::print_coloured(&plimsoll_report::terminal(&report, width, colour, false));
    }
    let any = |verdict| diff.results.iter().any(|row| row.verdict == verdict);
    match args.fail_on.as_deref() {
        Some("different")
            if any(ComparisonVerdict::Different) || any(ComparisonVerdict::CannotCarry) =>
        {
            super::done(CliExitCode::Different)
        }
        Some("worse") if diff.results.iter().any(RunDiffRow::is_worse) => {
            super::done(CliExitCode::Different)
        }
        Some("inconclusive") if any(ComparisonVerdict::Inconclusive) => {
            super::done(CliExitCode::Inconclusive)
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
