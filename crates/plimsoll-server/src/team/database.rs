// SPDX-License-Identifier: Apache-2.0
//! Which database is meant: an option, or the environment, where a password may be in it.

use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_console::terminal;
use plimsoll_history::{HistoryAddress, HistoryAuditEntry, HistoryDatabase, HistoryError};
use plimsoll_remote::command::DatabaseArgs;

/// The address that was given, if any was.
pub(crate) fn given(args: &DatabaseArgs) -> Result<Option<HistoryAddress>, CliError> {
    let found = match &args.database {
        Some(text) => HistoryAddress::from_command_line(text).map(Some),
        None => std::env::var("PLIMSOLL_DATABASE")
            .ok()
            .filter(|text| !text.is_empty())
            .map(|text| HistoryAddress::from_environment(&text))
            .transpose(),
    };
    found.map_err(|error| failed(&error))
}

/// Does one piece of work with the database.
pub(crate) fn with<T>(
    args: &DatabaseArgs,
    work: impl AsyncFnOnce(HistoryDatabase) -> Result<T, HistoryError>,
) -> Result<T, CliError> {
    let address = given(args)?.ok_or_else(|| {
        CliError::invalid("no database is given")
            .hint("give --database postgres://USER@HOST/DATABASE or sqlite:FILE, or set PLIMSOLL_DATABASE")
    })?;
    HistoryDatabase::with(&address, work).map_err(|error| failed(&error))
}

/// An error of the history as one of the command.
pub(crate) fn failed(error: &HistoryError) -> CliError {
    match error {
        HistoryError::Invalid { hint, .. } => CliError::invalid(error).hint(hint),
        HistoryError::Run(_) => CliError::invalid(error),
        HistoryError::Unavailable { .. } => CliError::sentence(CliExitCode::Failed, error)
            .hint("is it up, and does the address name its host, port and database?"),
        HistoryError::Database { .. } => CliError::sentence(CliExitCode::Failed, error),
    }
}

/// An entry of the audit trail about a command that was typed here.
pub(super) fn entry(action: &str, subject: &str, detail: &str) -> HistoryAuditEntry {
    let uid = rustix::process::getuid().as_raw();
    HistoryAuditEntry {
        who: format!("system user {uid}"),
        from_where: "this machine".into(),
        action: action.into(),
        subject: subject.into(),
        detail: detail.into(),
        ..HistoryAuditEntry::default()
    }
}

/// Milliseconds since 1970 as people read them.
pub(super) fn time(at_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at_ms);
    at.map_or_else(
        |_| at_ms.to_string(),
        |at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
    )
}

/// Rows with their columns one below the other.
pub(super) fn table(rows: &[Vec<String>]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate();
        let line: String = cells
            .map(|(column, cell)| format!("{cell:<0$}  ", width(column).unwrap_or(0)))
            .collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    terminal::print(&text);
}
