// SPDX-License-Identifier: Apache-2.0
//! The program behind `plimsoll serve`, `plimsoll team` and `plimsoll history`: the live page and a team's
//! history, whose web server and databases the measuring program does without.
#![forbid(unsafe_code)]

mod draw;
mod history;
mod serve;
mod team;

use clap::Parser;
use plimsoll_console::context;
use plimsoll_console::failure::{CliResult, EXIT_CODES};
use plimsoll_console::terminal;
use plimsoll_remote::command::ServerCommand;
use std::process::ExitCode;

/// Serve the live page and a team's history; plimsoll starts it.
#[derive(Debug, Parser)]
#[command(name = "plimsoll-server", version, after_help = EXIT_CODES)]
struct ServerCli {
    #[command(subcommand)]
    command: ServerCommand,
}

fn main() -> ExitCode {
    context::print_notices_with(terminal::say);
    let done = match std::env::args_os().nth(1) {
        Some(word) if word == plimsoll_serve::DRAW_COMMAND => draw::main(),
        _ => carry_out(&ServerCli::parse().command),
    };
    let code = done.unwrap_or_else(|failure| {
        terminal::say(&failure.to_string());
        failure.code.into()
    });
    terminal::ended(code)
}

fn carry_out(command: &ServerCommand) -> CliResult {
    match command {
        ServerCommand::Serve(args) => serve::main(args),
        ServerCommand::Team(args) => team::main(args),
        ServerCommand::History(args) => history::main(args),
    }
}
