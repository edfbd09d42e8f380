// SPDX-License-Identifier: Apache-2.0
//! The command line of the server: `plimsoll` has it in its help and its manual, `plimsoll-server` carries it
//! out.

mod history;
mod serve;
mod team;

pub use history::{
    HistoryArgs, HistoryChangesArgs, HistoryCommand, HistoryExportArgs, HistoryListArgs,
};
pub use serve::ServeArgs;
pub use team::{
    TeamArgs, TeamAuditArgs, TeamCommand, TeamListArgs, TeamTokenAddArgs, TeamTokenArgs,
    TeamTokenCommand, TeamTokenRevokeArgs, TeamUserAddArgs, TeamUserArgs, TeamUserCommand,
};

/// The database of a command.
#[derive(Debug, Clone, clap::Args)]
pub struct DatabaseArgs {
    /// Database of the team (default: value of PLIMSOLL_DATABASE).
    ///
    /// ADDRESS is postgres://USER@HOST/DATABASE or sqlite:FILE. Passwords are not accepted here,
    /// because every user of the machine can read the command line. Put the password into
    /// PLIMSOLL_DATABASE or a password file (PGPASSFILE). With ?sslmode=verify-full the connection
    /// is encrypted and the server's certificate checked.
    #[arg(long, value_name = "ADDRESS")]
    pub database: Option<String>,
}

/// A command of the server.
#[derive(Debug, clap::Subcommand)]
pub enum ServerCommand {
    Serve(ServeArgs),
    Team(TeamArgs),
    History(HistoryArgs),
}
