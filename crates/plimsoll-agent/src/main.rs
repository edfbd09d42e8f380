// SPDX-License-Identifier: Apache-2.0
//! `plimsoll-agent`: what a plimsoll on another machine copies here and starts.
#![forbid(unsafe_code)]

use plimsoll_agent::raze::{nothing_left, raze};
use plimsoll_agent::{EnginePlayer, fleet, trees, watchdog};
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, failed};
use plimsoll_machine::agent_server::{AgentTaskRunner, serve};
use plimsoll_machine::host::agent::AgentProgram;
use plimsoll_machine::journal::StateDir;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

const USAGE: &str = "\
plimsoll starts this program on the nodes of an inventory, and it starts itself as a helper.
It uses standard input and output, and opens no port. Each step is written to a journal in DIR
before it begins. It ends when its connection closes, or after ten minutes without a request.

With dial it connects to a plimsoll by itself, once on each load host that a scheduler provides. Where
that is, by which key it is known, and the token of the run are the ticket: one word in the variable
PLIMSOLL_FLEET_TICKET, or in a file. It ends with its connection, and undoes what it made.

Usage: plimsoll-agent serve DIR
       plimsoll-agent dial [TICKET-FILE]
       PLIMSOLL_STATE=DIR plimsoll-agent raze    undo what is left here, when plimsoll is gone";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match &words[..] {
        ["--version"] => {
            print(concat!("plimsoll-agent ", env!("CARGO_PKG_VERSION")));
            Ok(())
        }
        ["--help"] => {
            print(USAGE);
            Ok(())
        }
        ["serve", directory] => serve_in(Path::new(directory)),
        ["dial"] => fleet::dial_out(None),
        ["dial", ticket] => fleet::dial_out(Some(Path::new(ticket))),
        ["carry"] => fleet::keep_carrier(),
        ["raze"] => raze_here(),
        ["watchdog"] => watchdog::run().map(|said| complain(&said)),
        _ => match trees::helper(&words) {
            Some(done) => done,
            None => Err(CliError::invalid("unknown arguments").hint("see plimsoll-agent --help")),
        },
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            error.code.into()
        }
    }
}

/// A reader that went away is no failure.
fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn raze_here() -> Result<(), CliError> {
    let _stop = context::stop_flag()?;
    let done = raze(&context::state_dir()?, &mut context::nodes())?;
    if let Some(text) = done.text() {
        print(&text);
    }
    nothing_left(&done.left)
}

fn serve_in(directory: &Path) -> Result<(), CliError> {
    let (input, output) = (std::io::stdin(), std::io::stdout());
    if input.is_terminal() {
        return Err(
            CliError::invalid("this program is started by plimsoll on another machine")
                .hint("name this machine in an inventory file there, and use it with --on"),
        );
    }
    let program = AgentProgram::this().map_err(failed(CliExitCode::Failed))?;
    // A step under way is finished; a connection that ends also ends the wait for the next one.
    let stop = context::stop_flag()?;
    let state = StateDir::new(PathBuf::from(directory));
    let player: Arc<dyn AgentTaskRunner> = Arc::new(EnginePlayer {
        state: Some(state.clone()),
    });
    serve(
        &mut context::host().of_state(directory),
        &player,
        &state,
        &program.build,
        (input, output),
        &stop,
    )
    .map_err(|error| CliError::new(CliExitCode::Failed, format!("serve as an agent: {error}")))
}
