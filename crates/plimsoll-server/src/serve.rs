// SPDX-License-Identifier: Apache-2.0
//! `plimsoll serve`: the live page.
//!
//! Manual: `docs/serve.md`.

use crate::team::database;
use plimsoll_console::context;
use plimsoll_console::failure::{self, CliError, CliExitCode, CliResult};
use plimsoll_console::terminal;
use plimsoll_machine::host::facts;
use plimsoll_remote::command::ServeArgs;
use plimsoll_serve::{PushLimits, ServeEnd, ServeError, ServeOptions};

/// The name of the measuring program, which lies beside this one.
const MEASURING: &str = "plimsoll";

/// The error of the server as one of the command.
fn failed(error: &ServeError) -> CliError {
    match error {
        ServeError::Usage { text, hint } => CliError::invalid(text).hint(hint),
        ServeError::Io { .. } | ServeError::Certificate { .. } => {
            CliError::sentence(CliExitCode::Usage, error)
        }
        ServeError::Listen { .. } => CliError::sentence(CliExitCode::Failed, error)
            .hint("another server may be there; --listen 127.0.0.1:0 takes a free port"),
        ServeError::History(error) => database::failed(error),
        ServeError::System(_) => CliError::sentence(CliExitCode::Failed, error),
    }
}

pub(super) fn main(args: &ServeArgs) -> CliResult {
    let drawer = std::env::current_exe().map_err(|error| {
        CliError::new(CliExitCode::Failed, format!("find this program: {error}"))
    })?;
    let history = database::given(&args.database)?;
    let limits = PushLimits {
        file_bytes: args.push_file_limit,
        run_bytes: args.push_run_limit,
        user_bytes: args.push_user_limit,
    };
    let ended = plimsoll_serve::serve(ServeOptions {
        folder: args.folder.clone(),
        listen: args.listen,
        tls: args.tls_cert.clone().zip(args.tls_key.clone()),
        token_file: args.token_file.clone(),
        origins: args.origins.clone(),
        inventories: args.inventories.clone(),
        targets: args.targets.clone(),
        trusted: args
            .trust
            .iter()
            .map(|file| file.display().to_string())
            .collect(),
        program: drawer.with_file_name(MEASURING),
        drawer,
        version: env!("CARGO_PKG_VERSION"),
        host: facts::machine().host,
        meaning: failure::meaning,
        say: terminal::say,
        history: history.map(|address| (address, limits)),
        stop: context::stop_flag()?,
    });
    tell_stacks();
    match ended.map_err(|error| failed(&error))? {
        ServeEnd::Quiet => Ok(std::process::ExitCode::SUCCESS),
        ServeEnd::JobsLeft => Ok(CliExitCode::Interrupted.into()),
    }
}

/// Stacks outlive the server, which is easily forgotten.
fn tell_stacks() {
    let Ok(state) = context::state_dir() else {
        return;
    };
    let up = plimsoll_lab::stacks::manage::names_up(&state);
    if !up.is_empty() {
        terminal::say(&format!(
            "still up: {}; plimsoll stack down takes a stack down",
            up.join(", ")
        ));
    }
}
