// SPDX-License-Identifier: Apache-2.0
//! `plimsoll push`: a run into the history of a team.
//!
//! Manual: `docs/team.md`.

use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::units;
use plimsoll_remote::{PushError, PushOptions, PushToken};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Push a run to a team's server.
///
/// The command sends the run folder with the digests of its files. Success means that the folder is
/// on the server's disk and its figures are in the database: the run cannot be lost. The command
/// can be repeated at any time; files that arrived before are not sent again. Only you see the run
/// unless you share it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll push plimsoll-results/20260105-090000-4711 --server https://lab.example:7433 --token-file ~/.plimsoll-token
  PLIMSOLL_TOKEN=… plimsoll push run --server https://lab.example:7433 --revision \"$(git rev-parse HEAD)\" --share")]
pub(super) struct PushArgs {
    /// Run folder to push.
    run: PathBuf,
    /// Address of the server (default: PLIMSOLL_SERVER).
    #[arg(long = "server", value_name = "https://HOST[:PORT]")]
    to: Option<String>,
    /// Read the token from FILE, which must be yours alone (default: value of PLIMSOLL_TOKEN).
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Trust the certificates in FILE (PEM) instead of those of this machine.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Revision that was measured, such as a commit or a release.
    ///
    /// Series name the revision at their changes.
    #[arg(long, default_value = "", value_name = "TEXT")]
    revision: String,
    /// System that all others are divided by, block by block (default: the first).
    #[arg(long, value_name = "SYSTEM")]
    reference: Option<String>,
    /// Share the run with the whole team.
    #[arg(long)]
    share: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

fn set(variable: Result<String, std::env::VarError>) -> Option<String> {
    variable.ok().filter(|text| !text.is_empty())
}

pub(super) fn main(args: &PushArgs) -> CliResult {
    let to = args
        .to
        .clone()
        .or_else(|| set(std::env::var("PLIMSOLL_SERVER")));
    let to = to.ok_or_else(|| {
        CliError::invalid("no server is given")
            .hint("give --server https://HOST:PORT, or set PLIMSOLL_SERVER")
    })?;
    let token = match (&args.token_file, set(std::env::var("PLIMSOLL_TOKEN"))) {
        (Some(path), _) => PushToken::File(path.clone()),
        (None, Some(text)) => PushToken::Given(text),
        (None, None) => {
            return Err(CliError::invalid("no token is given").hint(
                "set PLIMSOLL_TOKEN, or give --token-file with a file of mode 0600; plimsoll team token add \
                 draws one",
            ));
        }
    };
    let done = plimsoll_remote::push(&PushOptions {
        run: args.run.clone(),
        to,
        token,
        ca: args.ca.clone(),
        revision: args.revision.clone(),
        reference: args.reference.clone(),
        is_shared: args.share,
    });
    let done = done.map_err(|error| failed(&error))?;
    if args.json {
        terminal::print_json(
            &json!({ "folder": done.folder, "files_sent": done.files_sent,
            "bytes_sent": done.bytes_sent, "left_out": done.left_out }),
        );
        return Ok(ExitCode::SUCCESS);
    }
    for name in &done.left_out {
        let name = plimsoll_core::text::printable(name);
        terminal::say(&format!("left out, as no part of a run: {name}"));
    }
    terminal::print(&format!(
        "pushed: {} ({} files sent, {})\n",
        done.folder,
        done.files_sent,
        units::size(done.bytes_sent as f64)
    ));
    Ok(ExitCode::SUCCESS)
}

fn failed(error: &PushError) -> CliError {
    match error {
        PushError::Usage { hint, .. } => CliError::invalid(error).hint(hint),
        PushError::Away { .. } => CliError::sentence(CliExitCode::Failed, error)
            .hint("push again: what arrived is not sent again"),
        PushError::Refused { hint, .. } => {
            let refused = CliError::invalid(error);
            match hint {
                Some(hint) => refused.hint(hint),
                None => refused,
            }
        }
    }
}
