// SPDX-License-Identifier: Apache-2.0
//! `plimsoll team`: the arguments.

use super::DatabaseArgs;
use clap::Subcommand;

/// Manage the users, tokens and audit trail of a team's server.
///
/// The commands work on the database, whether or not the server is up. Access to the database
/// permits all of them.
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

/// Add and list users.
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
    /// Name of the user: up to 64 letters, digits and ._-@.
    pub name: String,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Print the user as JSON.
    #[arg(long)]
    pub json: bool,
}

/// List all entries.
#[derive(Debug, clap::Args)]
pub struct TeamListArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Print the list as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Add, list and revoke tokens.
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

/// Create a token for a user, and print it once.
///
/// The database keeps only a digest of the token. Scopes: `read` shows runs and series; `push`
/// pushes runs; `run` starts and stops runs on the server and marks changes; `admin` shows the runs
/// of all users.
#[derive(Debug, clap::Args)]
pub struct TeamTokenAddArgs {
    /// User who gets the token.
    pub user: String,
    /// Scopes of the token, separated by commas: read, push, run and admin.
    #[arg(long = "scope", default_value = "read", value_name = "LIST")]
    pub scopes: String,
    /// Note that lists show beside the token.
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub note: String,
    /// Number of days until the token expires (default: never).
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u16).range(1..))]
    pub days: Option<u16>,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Print the token and its number as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Revoke a token, and end the sessions that it began.
#[derive(Debug, clap::Args)]
pub struct TeamTokenRevokeArgs {
    /// Number of the token, as plimsoll team token list shows it.
    pub id: i64,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Print what was done as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Print the audit trail, newest entries first.
///
/// Each entry has user, action, time and address.
#[derive(Debug, clap::Args)]
pub struct TeamAuditArgs {
    /// Maximum number of entries.
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub last: u32,
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Print the entries as JSON.
    #[arg(long)]
    pub json: bool,
}
