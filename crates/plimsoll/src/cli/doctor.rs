// SPDX-License-Identifier: Apache-2.0
//! `plimsoll doctor`: what this machine can do, what is missing, and what installs it.

use plimsoll_console::context;
use plimsoll_console::failure::CliResult;
use plimsoll_console::terminal;
use std::fmt::Write;
use std::process::ExitCode;

/// Check what this machine can do and what is missing.
///
/// The output names the command that installs each missing program.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  plimsoll doctor")]
pub(super) struct DoctorArgs {
    /// Print the checks as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &DoctorArgs) -> CliResult {
    let state = context::state_dir()?;
    let checks = plimsoll_lab::doctor::checks(&context::host(), state.path());
    if args.json {
        let list: Vec<serde_json::Value> = checks
            .iter()
            .map(|check| {
                serde_json::json!({ "name": check.name, "ok": check.ok, "found": check.found,
                    "needed_for": check.needed_for, "remedy": check.remedy })
            })
            .collect();
        terminal::print_json(&serde_json::json!({ "checks": list }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for check in &checks {
        let mark = if check.ok { "ok" } else { "--" };
        let _ = writeln!(text, "{mark}  {:<24} {}", check.name, check.found);
        if !check.ok {
            let remedy = check
                .remedy
                .as_deref()
                .unwrap_or("nothing can be installed for it");
            let _ = writeln!(text, "      needed for {}; {remedy}", check.needed_for);
        }
    }
    let missing = checks.iter().filter(|check| !check.ok).count();
    let _ = match missing {
        0 => writeln!(text, "Everything works here."),
        n => writeln!(
            text,
            "{n} of {} checks found something missing; the rest works.",
            checks.len()
        ),
    };
    terminal::print(&text);
    Ok(ExitCode::SUCCESS)
}
