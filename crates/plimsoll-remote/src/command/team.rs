// SPDX-License-Identifier: Apache-2.0
//! `plimsoll team`: the arguments.

use super::DatabaseArgs;
use clap::Subcommand;

/// Manage the users and tokens of a team's server, and read its audit trail.
///
/// The commands work on the database, whether or not the server is up. Who can open the database can do all
/// of it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  plimsoll team user add ada --database sqlite:team.db
  plimsoll team token add ada --scope read,push --days 365 --database sqlite:team.db
  plimsoll team token revoke 3 --database sqlite:team.db
  plimsoll team audit --last 50 --database sqlite:team.db")]
pub struct TeamArgs {
    #[command(subcommand)]
    pub command: TeamCommand,
}

#[derive(Debug, Subcommand)]
pub enum TeamCommand {
    User(TeamUserArgs),
    Token(TeamTokenArgs),
    Audit(TeamAuditArgs),
}

/// Add users, and list them.
#[derive(Debug, clap::Args)]
pub struct TeamUserArgs {
    #[command(subcommand)]
    pub command: TeamUserCommand,
}

#[derive(Debug, Subcommand)]
pub enum TeamUserCommand {
    Add(TeamUserAddArgs),
    List(TeamListArgs),
}

/// Add a user.
#[derive(Debug, clap::Args)]
pub struct TeamUserAddArgs {
    /// Name: up to 64 letters, digits and ._-@.
    pub name: String,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Print the user as JSON.
    #[arg(long)]
    pub json: bool,
}

/// List them.
#[derive(Debug, clap::Args)]
pub struct TeamListArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Print the list as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Add tokens, list them, and revoke them.
#[derive(Debug, clap::Args)]
pub struct TeamTokenArgs {
    #[command(subcommand)]
    pub command: TeamTokenCommand,
}

#[derive(Debug, Subcommand)]
pub enum TeamTokenCommand {
    Add(TeamTokenAddArgs),
    List(TeamListArgs),
    Revoke(TeamTokenRevokeArgs),
}

/// Draw a token for a user, and print it once.
///
/// The database keeps a digest of it. Scopes: `read` looks at runs and series, `push` pushes runs, `run`
/// starts and stops runs on the server and marks changes, `admin` sees the runs of everybody.
#[derive(Debug, clap::Args)]
pub struct TeamTokenAddArgs {
    /// Whose it is.
    pub user: String,
    /// Scopes that it grants: a list of read, push, run and admin.
    #[arg(long = "scope", default_value = "read", value_name = "LIST")]
    pub scopes: String,
    /// A word about it, shown in lists.
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub note: String,
    /// It ends after so many days (default: never).
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u16).range(1..))]
    pub days: Option<u16>,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Print token and number as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Revoke a token: it opens nothing any more, and neither do sessions that were begun with it.
#[derive(Debug, clap::Args)]
pub struct TeamTokenRevokeArgs {
    /// Its number, as plimsoll team token list shows it.
    pub id: i64,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Print what was done as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Print the audit trail, newest first: who did what, when, from where.
#[derive(Debug, clap::Args)]
pub struct TeamAuditArgs {
    /// At most so many entries.
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub last: u32,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Print the entries as JSON.
    #[arg(long)]
    pub json: bool,
}
