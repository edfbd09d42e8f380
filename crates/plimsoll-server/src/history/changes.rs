// SPDX-License-Identifier: Apache-2.0
//! `plimsoll history changes`: what changed in any series, for who looks once a day.

use crate::team::database;
use plimsoll_console::failure::{CliExitCode, CliResult};
use plimsoll_console::terminal;
use plimsoll_core::change::RatioChange;
use plimsoll_history::{HistorySeriesPage, HistoryViewer, now_ms};
use plimsoll_remote::command::HistoryChangesArgs;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Who opens the database sees everything.
const EVERYBODY: HistoryViewer = HistoryViewer {
    user_id: 0,
    sees_all: true,
};

pub(super) fn main(args: &HistoryChangesArgs) -> CliResult {
    let (told, series) = database::with(&args.database, async |database| {
        let (mut told, mut series, mut after) = (Vec::new(), 0, 0);
        loop {
            let some = database.series_list(EVERYBODY, after, "").await?;
            let Some(last) = some.last() else { break };
            after = last.id;
            for one in some.into_iter().filter(|one| !one.is_control) {
                series += 1;
                let Some(page) = database.page_of(EVERYBODY, one).await? else {
                    continue;
                };
                if !page.is_muted(now_ms()) || args.all {
                    told.extend(of_page(&page, args.all));
                }
            }
        }
        Ok((told, series))
    })?;
    let is_quiet = told.is_empty();
    match args.json {
        true => {
            let all: Vec<Value> = told.into_iter().map(|(value, _)| value).collect();
            terminal::print_json(&json!({ "series": series, "changes": all }));
        }
        false => {
            told.iter()
                .for_each(|(_, line)| terminal::print(&format!("{line}\n")));
            terminal::print(&format!("{} changes in {series} series\n", told.len()));
        }
    }
    match is_quiet || args.all {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(CliExitCode::Different.into()),
    }
}

/// The changes of a series: for programs, and as a line.
fn of_page(page: &HistorySeriesPage, all: bool) -> Vec<(Value, String)> {
    let series = &page.series;
    let name = [
        &format!("{} ÷ {}", series.system, series.reference),
        &series.workload,
        &series.condition,
        &series.metric,
    ]
    .into_iter()
    .filter(|word| !word.is_empty())
    .cloned()
    .collect::<Vec<_>>()
    .join(", ");
    let told = |change: &RatioChange| {
        let (at, size) = (&page.points[change.first], &change.size);
        let value = json!({ "series": series.id, "system": series.system, "reference": series.reference,
            "workload": series.workload, "condition": series.condition, "metric": series.metric,
            "run": at.folder, "revision": at.revision, "ratio": size.estimate, "low": size.low,
            "high": size.high, "p_value": change.p_value,
            "acknowledged": page.acknowledged(change).map(|mark| &mark.user) });
        let revision = match at.revision.is_empty() {
            true => String::new(),
            false => format!(" ({})", at.revision),
        };
        let line = format!(
            "{name}: ×{:.4} ({:.4} to {:.4}) from {}{revision}",
            size.estimate, size.low, size.high, at.folder
        );
        (value, line)
    };
    page.changes()
        .iter()
        .filter(|change| all || page.acknowledged(change).is_none())
        .map(told)
        .collect()
}
