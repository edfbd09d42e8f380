// SPDX-License-Identifier: Apache-2.0
//! `plimsoll agent`: what a plimsoll on another machine starts here.

use crate::campaign::EnginePlayer;
use crate::context;
use crate::failure::{CliError, CliExitCode, CliResult, failed};
use plimsoll_lab::agent_server::{AgentTaskRunner, serve};
use plimsoll_lab::host::agent::AgentProgram;
use plimsoll_lab::journal::StateDir;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Serve plimsoll on another machine, which starts this itself.
///
/// Uses standard input and output, and opens no port. Each step is written to a journal in DIR
/// before it begins: `PLIMSOLL_STATE=DIR plimsoll raze` on this machine undoes what is left. Exits
/// when its connection closes, or after ten minutes without a request.
#[derive(Debug, clap::Args)]
pub(super) struct AgentArgs {
    /// Directory for the journal and for everything that is made.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(super) fn main(args: &AgentArgs) -> CliResult {
    let (input, output) = (std::io::stdin(), std::io::stdout());
    if input.is_terminal() {
        return Err(CliError::invalid(
            "this subcommand is internal: plimsoll on another machine starts it",
        )
        .hint("name this machine in an inventory file there, and use it with --on"));
    }
    let program = AgentProgram::this().map_err(failed(CliExitCode::Failed))?;
    // A step under way is finished; a connection that ends also ends the wait for the next one.
    let stop = context::stop_flag()?;
    let state = StateDir::new(&args.dir);
    let player: Arc<dyn AgentTaskRunner> = Arc::new(EnginePlayer {
        state: Some(state.clone()),
    });
    serve(
        &mut context::host().of_state(&args.dir),
        &player,
        &state,
        &program.build,
        (input, output),
        &stop,
    )
    .map_err(|error| CliError::new(CliExitCode::Failed, format!("serve as an agent: {error}")))?;
    Ok(ExitCode::SUCCESS)
}
