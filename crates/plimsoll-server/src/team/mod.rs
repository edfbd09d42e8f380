// SPDX-License-Identifier: Apache-2.0
//! `plimsoll team`: users, tokens and the audit trail of a team's server, by its database.
//!
//! Manual: `docs/team.md`.

pub(crate) mod database;

use database::{entry, table, time};
use plimsoll_console::failure::CliResult;
use plimsoll_console::terminal;
use plimsoll_history::{HistoryScope, now_ms};
use plimsoll_remote::command::{
    TeamArgs, TeamAuditArgs, TeamCommand, TeamListArgs, TeamTokenAddArgs, TeamTokenCommand,
    TeamTokenRevokeArgs, TeamUserAddArgs, TeamUserCommand,
};
use serde_json::json;
use std::process::ExitCode;

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

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
    let user = database::with(&args.database, async |database| {
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
    let users = database::with(&args.database, async |database| database.users().await)?;
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
        plimsoll_console::failure::CliError::invalid(format!(
            "invalid value '{}' for --scope: {reason}",
            plimsoll_core::text::printable(&args.scopes)
        ))
    })?;
    let expires = args.days.map(|days| now_ms() + i64::from(days) * DAY_MS);
    let (id, secret) = database::with(&args.database, async |database| {
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
    let tokens = database::with(&args.database, async |database| database.tokens().await)?;
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
    database::with(&args.database, async |database| {
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
    let trail = database::with(&args.database, async |database| {
        database.audit(0, args.last).await
    })?;
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
