// SPDX-License-Identifier: Apache-2.0
//! `plimsoll history`: a team's history as tables.
//!
//! Manual: `docs/team.md`.

mod changes;

use crate::team::database;
use plimsoll_archive::ResultFile;
use plimsoll_console::failure::{CliError, CliExitCode, CliResult};
use plimsoll_console::output::check_output;
use plimsoll_console::terminal;
use plimsoll_history::{HistoryFactRow, HistoryRun};
use plimsoll_remote::command::{HistoryArgs, HistoryCommand, HistoryExportArgs, HistoryListArgs};
use plimsoll_report::{ExportColumnType, ExportTable, ExportValue};
use serde_json::json;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Runs that wait to be written.
const RUNS_AHEAD: usize = 4;

pub(super) fn main(args: &HistoryArgs) -> CliResult {
    match &args.command {
        HistoryCommand::List(args) => list(args),
        HistoryCommand::Changes(args) => changes::main(args),
        HistoryCommand::Export(args) => export(args),
    }
}

fn list(args: &HistoryListArgs) -> CliResult {
    let runs = database::with(&args.database, async |database| database.runs().await)?;
    if args.json {
        let run = |run: &HistoryRun| {
            json!({ "folder": run.folder, "owner": run.owner, "run": run.name, "revision": run.revision,
                "shared": run.is_shared, "digest": run.digest })
        };
        terminal::print_json(&runs.iter().map(run).collect());
        return Ok(ExitCode::SUCCESS);
    }
    for run in &runs {
        let shared = if run.is_shared { "shared" } else { "private" };
        terminal::print(&format!(
            "{}  {}  {shared}  {}\n",
            run.folder, run.owner, run.revision
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn export(args: &HistoryExportArgs) -> CliResult {
    let (path, is_parquet) = match (&args.parquet, &args.lines) {
        (Some(path), _) => (path, true),
        (None, Some(path)) => (path, false),
        (None, None) => return Err(CliError::invalid("no file is given")),
    };
    check_output(path, args.force)?;
    let wrong = |error: &dyn std::fmt::Display| {
        CliError::new(
            CliExitCode::Failed,
            format!("write {}: {error}", path.display()),
        )
    };
    let mut file = ResultFile::create(path).map_err(|error| wrong(&error))?;
    let (sender, receiver) = sync_channel(RUNS_AHEAD);
    // One thread reads the database while another one writes.
    let rows = std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            database::with(&args.database, async |database| {
                for run in database.runs().await?.into_iter().rev() {
                    let facts = database.facts_of(run.id).await?;
                    if sender_is_gone(&sender, facts) {
                        break;
                    }
                }
                Ok(())
            })
        });
        let written = match is_parquet {
            true => write_parquet(&mut file, receiver),
            false => write_lines(&mut file, receiver),
        };
        let read = reading.join();
        let read =
            read.unwrap_or_else(|_| Err(CliError::new(CliExitCode::Failed, "read the history")));
        read.and_then(|()| written.map_err(|error| wrong(&error)))
    })?;
    file.finish().map_err(|error| wrong(&error))?;
    match args.json {
        true => terminal::print_json(&json!({ "rows": rows, "file": path })),
        false => terminal::print(&format!("{rows} rows in {}\n", path.display())),
    }
    Ok(ExitCode::SUCCESS)
}

fn sender_is_gone(sender: &SyncSender<Vec<HistoryFactRow>>, facts: Vec<HistoryFactRow>) -> bool {
    sender.send(facts).is_err()
}

const COLUMNS: [(&str, ExportColumnType); 18] = [
    ("run", ExportColumnType::Text),
    ("folder", ExportColumnType::Text),
    ("owner", ExportColumnType::Text),
    ("began_ms", ExportColumnType::Whole),
    ("revision", ExportColumnType::Text),
    ("program", ExportColumnType::Text),
    ("system", ExportColumnType::Text),
    ("reference", ExportColumnType::Text),
    ("workload", ExportColumnType::Text),
    ("condition", ExportColumnType::Text),
    ("metric", ExportColumnType::Text),
    ("settings", ExportColumnType::Text),
    ("block", ExportColumnType::Whole),
    ("place", ExportColumnType::Whole),
    ("value", ExportColumnType::Real),
    ("low", ExportColumnType::Real),
    ("high", ExportColumnType::Real),
    ("ratio", ExportColumnType::Real),
];

fn cells(fact: HistoryFactRow) -> Vec<ExportValue> {
    let whole = |number: i64| ExportValue::Whole(u64::try_from(number).unwrap_or(0));
    vec![
        ExportValue::Text(fact.run),
        ExportValue::Text(fact.folder),
        ExportValue::Text(fact.owner),
        whole(fact.began_ms),
        ExportValue::Text(fact.revision),
        ExportValue::Text(fact.program),
        ExportValue::Text(fact.system),
        ExportValue::Text(fact.reference),
        ExportValue::Text(fact.workload),
        ExportValue::Text(fact.condition),
        ExportValue::Text(fact.metric),
        ExportValue::Text(fact.settings),
        whole(fact.block),
        whole(fact.place),
        ExportValue::Real(Some(fact.value)),
        ExportValue::Real(fact.low),
        ExportValue::Real(fact.high),
        ExportValue::Real(fact.ratio),
    ]
}

fn write_parquet(
    file: &mut ResultFile,
    facts: Receiver<Vec<HistoryFactRow>>,
) -> Result<u64, Box<dyn std::error::Error>> {
    let mut rows = 0;
    let counted = facts.into_iter().flatten().map(|fact| {
        rows += 1;
        cells(fact)
    });
    let table = ExportTable {
        name: "facts",
        columns: COLUMNS.to_vec(),
        rows: Box::new(counted),
    };
    plimsoll_report::write_parquet(table, file)?;
    Ok(rows)
}

fn write_lines(
    file: &mut ResultFile,
    facts: Receiver<Vec<HistoryFactRow>>,
) -> Result<u64, Box<dyn std::error::Error>> {
    let mut rows = 0;
    for fact in facts.into_iter().flatten() {
        let mut line = serde_json::Map::new();
        for ((name, _), cell) in COLUMNS.iter().zip(cells(fact)) {
            let value = match cell {
                ExportValue::Text(text) => text.into(),
                ExportValue::Whole(number) => number.into(),
                ExportValue::Real(number) => number.into(),
                ExportValue::Truth(is_so) => is_so.into(),
            };
            line.insert((*name).into(), value);
        }
        serde_json::to_writer(&mut *file, &line)?;
        file.write_all(b"\n")?;
        rows += 1;
    }
    Ok(rows)
}
