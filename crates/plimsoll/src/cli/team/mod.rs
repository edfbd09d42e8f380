// SPDX-License-Identifier: Apache-2.0
//! `plimsoll team`: users, tokens and the audit trail of a team's server, by its database.
//!
//! Manual: `docs/team.md`.

mod database;

use crate::terminal;
use clap::Subcommand;
pub(super) use database::{DatabaseArgs, failed};
use database::{entry, table, time};
use plimsoll_agent::failure::CliResult;
use plimsoll_history::{HistoryScope, now_ms};
use serde_json::json;
use std::process::ExitCode;

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

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
pub(super) struct TeamArgs {
    #[command(subcommand)]
    command: TeamCommand,
}

#[derive(Debug, Subcommand)]
enum TeamCommand {
    User(TeamUserArgs),
    Token(TeamTokenArgs),
    Audit(TeamAuditArgs),
}

/// Add users, and list them.
#[derive(Debug, clap::Args)]
struct TeamUserArgs {
    #[command(subcommand)]
    command: TeamUserCommand,
}

#[derive(Debug, Subcommand)]
enum TeamUserCommand {
    Add(TeamUserAddArgs),
    List(TeamListArgs),
}

/// Add a user.
#[derive(Debug, clap::Args)]
struct TeamUserAddArgs {
    /// Name: up to 64 letters, digits and ._-@.
    name: String,
    #[command(flatten)]
    database: DatabaseArgs,
    /// Print the user as JSON.
    #[arg(long)]
    json: bool,
}

/// List them.
#[derive(Debug, clap::Args)]
struct TeamListArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Print the list as JSON.
    #[arg(long)]
    json: bool,
}

/// Add tokens, list them, and revoke them.
#[derive(Debug, clap::Args)]
struct TeamTokenArgs {
    #[command(subcommand)]
    command: TeamTokenCommand,
}

#[derive(Debug, Subcommand)]
enum TeamTokenCommand {
    Add(TeamTokenAddArgs),
    List(TeamListArgs),
    Revoke(TeamTokenRevokeArgs),
}

/// Draw a token for a user, and print it once.
///
/// The database keeps a digest of it. Scopes: `read` looks at runs and series, `push` pushes runs, `run`
/// starts and stops runs on the server and marks changes, `admin` sees the runs of everybody.
#[derive(Debug, clap::Args)]
struct TeamTokenAddArgs {
    /// Whose it is.
    user: String,
    /// What it is for: a list of read, push, run and admin.
    #[arg(long = "scope", default_value = "read", value_name = "LIST")]
    scopes: String,
    /// A word about it, shown in lists.
    #[arg(long, default_value = "", value_name = "TEXT")]
    note: String,
    /// It ends after so many days (default: never).
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u16).range(1..))]
    days: Option<u16>,
    #[command(flatten)]
    database: DatabaseArgs,
    /// Print token and number as JSON.
    #[arg(long)]
    json: bool,
}

/// Revoke a token: it opens nothing any more, and neither do sessions that were begun with it.
#[derive(Debug, clap::Args)]
struct TeamTokenRevokeArgs {
    /// Its number, as plimsoll team token list shows it.
    id: i64,
    #[command(flatten)]
    database: DatabaseArgs,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

/// Print the audit trail, newest first: who did what, when, from where.
#[derive(Debug, clap::Args)]
struct TeamAuditArgs {
    /// At most so many entries.
    #[arg(long, default_value_t = 100, value_name = "N")]
    last: u32,
    #[command(flatten)]
    database: DatabaseArgs,
    /// Print the entries as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &TeamArgs) -> CliResult {
    match &args.command {
        TeamCommand::User(user) => match &user.command {
            TeamUserCommand::Add(args) => user_add(args),
            TeamUserCommand::List(args) => user_list(args),
        },
        TeamCommand::Token(token) => match &token.command {
            TeamTokenCommand::Add(args) => token_add(args),
            TeamTokenCommand::List(args) => token_list(args),
            TeamTokenCommand::Revoke(args) => token_revoke(args),
        },
        TeamCommand::Audit(args) => audit(args),
    }
}

fn user_add(args: &TeamUserAddArgs) -> CliResult {
    let user = args.database.with(async |database| {
        let user = database.add_user(&args.name).await?;
        database.note(&entry("add user", &user.name, "")).await?;
        Ok(user)
    })?;
    match args.json {
        true => terminal::print_json(&json!({ "id": user.id, "name": user.name })),
        false => terminal::print(&format!("added: {}\n", user.name)),
    }
    Ok(ExitCode::SUCCESS)
}

fn user_list(args: &TeamListArgs) -> CliResult {
    let users = args
        .database
        .with(async |database| database.users().await)?;
    if args.json {
        let user = |user: &plimsoll_history::HistoryUser| json!({ "id": user.id, "name": user.name, "added_at": time(user.created_ms) });
        terminal::print_json(&users.iter().map(user).collect());
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = users
        .iter()
        .map(|user| {
            vec![
                user.name.clone(),
                format!("added {}", time(user.created_ms)),
            ]
        })
        .collect();
    table(&rows);
    Ok(ExitCode::SUCCESS)
}

fn token_add(args: &TeamTokenAddArgs) -> CliResult {
    let scopes = HistoryScope::parse_list(&args.scopes).map_err(|reason| {
        plimsoll_agent::failure::CliError::invalid(format!(
            "invalid value '{}' for --scope: {reason}",
            plimsoll_core::text::printable(&args.scopes)
        ))
    })?;
    let expires = args.days.map(|days| now_ms() + i64::from(days) * DAY_MS);
    let (id, secret) = args.database.with(async |database| {
        let (id, secret) = database
            .add_token(&args.user, &scopes, &args.note, expires)
            .await?;
        let detail = format!("{}, {}", args.user, HistoryScope::list(&scopes));
        database
            .note(&entry("add token", &format!("token {id}"), &detail))
            .await?;
        Ok((id, secret))
    })?;
    match args.json {
        true => terminal::print_json(&json!({ "id": id, "token": secret })),
        false => {
            terminal::say(&format!(
                "token {id}, shown this once; keep it in a file of mode 0600:"
            ));
            terminal::print(&format!("{secret}\n"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn token_list(args: &TeamListArgs) -> CliResult {
    let tokens = args
        .database
        .with(async |database| database.tokens().await)?;
    let state = |token: &plimsoll_history::HistoryToken| match (token.revoked_ms, token.expires_ms)
    {
        (Some(at), _) => format!("revoked {}", time(at)),
        (None, Some(at)) if at <= now_ms() => format!("ended {}", time(at)),
        (None, Some(at)) => format!("until {}", time(at)),
        (None, None) => "valid".into(),
    };
    if args.json {
        let token = |token: &plimsoll_history::HistoryToken| {
            json!({ "id": token.id, "user": token.user, "scopes": token.scopes, "note": token.note,
                "added_at": time(token.created_ms), "state": state(token) })
        };
        terminal::print_json(&tokens.iter().map(token).collect());
        return Ok(ExitCode::SUCCESS);
    }
    let row = |token: &plimsoll_history::HistoryToken| {
        let id = token.id.to_string();
        vec![
            id,
            token.user.clone(),
            token.scopes.clone(),
            state(token),
            token.note.clone(),
        ]
    };
    table(&tokens.iter().map(row).collect::<Vec<_>>());
    Ok(ExitCode::SUCCESS)
}

fn token_revoke(args: &TeamTokenRevokeArgs) -> CliResult {
    args.database.with(async |database| {
        database.revoke_token(args.id).await?;
        let subject = format!("token {}", args.id);
        database.note(&entry("revoke token", &subject, "")).await
    })?;
    match args.json {
        true => terminal::print_json(&json!({ "id": args.id, "revoked": true })),
        false => terminal::print(&format!("revoked: token {}\n", args.id)),
    }
    Ok(ExitCode::SUCCESS)
}

fn audit(args: &TeamAuditArgs) -> CliResult {
    let trail = args
        .database
        .with(async |database| database.audit(0, args.last).await)?;
    if args.json {
        let told = |entry: &plimsoll_history::HistoryAuditEntry| {
            json!({ "at": time(entry.at_ms), "who": entry.who, "token": entry.token_id,
                "from": entry.from_where, "action": entry.action, "subject": entry.subject,
                "detail": entry.detail })
        };
        terminal::print_json(&trail.iter().map(told).collect());
        return Ok(ExitCode::SUCCESS);
    }
    let row = |entry: &plimsoll_history::HistoryAuditEntry| {
        let token = entry
            .token_id
            .map_or(String::new(), |id| format!("token {id}"));
        vec![
            time(entry.at_ms),
            entry.who.clone(),
            token,
            entry.from_where.clone(),
            entry.action.clone(),
            entry.subject.clone(),
            entry.detail.clone(),
        ]
    };
    table(&trail.iter().map(row).collect::<Vec<_>>());
    Ok(ExitCode::SUCCESS)
}
