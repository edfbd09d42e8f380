// SPDX-License-Identifier: Apache-2.0
//! The server's answers, as types that the page's client shares: `web/src/generated/answers.ts` is made from
//! them, and a test compares it with what is committed.

use crate::board::{NamedSeries, RunProgressFacts};
use crate::drawing::RunSectionFacts;
use crate::runs::RunFacts;
use plimsoll_core::change::RatioChange;
use plimsoll_history::{
    HistoryMark, HistoryMarkKind, HistoryPoint, HistorySeries, HistorySeriesPage,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The server itself.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ServerFacts {
    pub(crate) version: String,
    pub(crate) host: String,
    pub(crate) runs: String,
    pub(crate) started_at: String,
    /// Whether it has a team's history.
    pub(crate) history: bool,
    /// Who asks.
    pub(crate) user: String,
    /// The user's permissions.
    pub(crate) scopes: Vec<String>,
}

/// An arm of a run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunArmFacts {
    pub(crate) name: String,
    pub(crate) colour: String,
    pub(crate) control: bool,
}

/// A run with how far it is.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunDetailFacts {
    #[serde(flatten)]
    pub(crate) run: RunFacts,
    pub(crate) progress: RunProgressFacts,
    pub(crate) arms: Vec<RunArmFacts>,
    pub(crate) workloads: Vec<String>,
    /// The job that runs it, if this server started it.
    pub(crate) job: Option<String>,
}

/// A report in parts.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunSectionsFacts {
    pub(crate) answer: String,
    pub(crate) sections: Vec<RunSectionFacts>,
}

/// A stretch of the seconds of a run.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunSeriesFacts {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    pub(crate) full_to_s: f64,
    pub(crate) quantity: &'static str,
    /// The share of the run that was read so far.
    pub(crate) read: f64,
    pub(crate) series: Vec<NamedSeries>,
}

/// A node of a stack.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StackNodeFacts {
    pub(crate) name: String,
    pub(crate) state: &'static str,
    pub(crate) text: String,
}

/// A stack that is up.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StackFacts {
    pub(crate) name: String,
    pub(crate) state: &'static str,
    pub(crate) nodes: Vec<StackNodeFacts>,
    pub(crate) outputs: Vec<String>,
    pub(crate) text: String,
}

/// A step of a plan.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StackStepFacts {
    pub(crate) node: String,
    pub(crate) why: String,
}

/// The steps that would bring a stack up.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct StackPlanFacts {
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) steps: Vec<StackStepFacts>,
    pub(crate) text: String,
}

/// A series of ratios.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SeriesFacts {
    pub(crate) id: i64,
    pub(crate) system: String,
    pub(crate) reference: String,
    pub(crate) workload: String,
    pub(crate) condition: String,
    pub(crate) metric: String,
    pub(crate) control: bool,
}

/// A run's part of a series.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SeriesPointFacts {
    /// Its folder, by which the run is found.
    pub(crate) run: String,
    pub(crate) began_at: String,
    pub(crate) t_s: f64,
    pub(crate) ratio: f64,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    pub(crate) blocks: i64,
    pub(crate) revision: String,
    /// Changes since the point before: revision, settings, versions.
    pub(crate) changes: Vec<String>,
    pub(crate) acknowledged: Option<String>,
}

/// A change of the level of a series; numbers are those of its points.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SeriesChangeFacts {
    pub(crate) first: usize,
    pub(crate) earliest: usize,
    pub(crate) latest: usize,
    pub(crate) found: usize,
    /// Level after ÷ level before, and its interval.
    pub(crate) ratio: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) p_value: f64,
    /// Changes there since the points before: revision, settings, versions.
    pub(crate) around: Vec<String>,
    pub(crate) acknowledged: Option<String>,
}

/// A series with its points, oldest first.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SeriesPageFacts {
    pub(crate) series: SeriesFacts,
    pub(crate) points: Vec<SeriesPointFacts>,
    pub(crate) changes: Vec<SeriesChangeFacts>,
    /// The difference that A/A controls of the reference admit, as a fraction: no smaller change counts.
    pub(crate) floor: f64,
    /// Until when it is muted, and by whom.
    pub(crate) muted: Option<String>,
}

impl SeriesFacts {
    pub(crate) fn of(of: &HistorySeries) -> SeriesFacts {
        let of = of.clone();
        SeriesFacts {
            id: of.id,
            system: of.system,
            reference: of.reference,
            workload: of.workload,
            condition: of.condition,
            metric: of.metric,
            control: of.is_control,
        }
    }
}

impl SeriesPageFacts {
    pub(crate) fn of(page: &HistorySeriesPage, now_ms: i64) -> SeriesPageFacts {
        let before = std::iter::once(None).chain(page.points.iter().map(Some));
        let point = |(before, point): (Option<&HistoryPoint>, &HistoryPoint)| {
            let known = page.marks.iter().rev().find(|mark| {
                mark.kind == HistoryMarkKind::Acknowledged.name()
                    && mark.folder.as_ref() == Some(&point.folder)
            });
            SeriesPointFacts {
                run: point.folder.clone(),
                began_at: time(point.at_ms),
                t_s: point.at_ms as f64 / 1e3,
                ratio: point.estimate,
                low: point.interval.map(|of| of.0),
                high: point.interval.map(|of| of.1),
                blocks: point.blocks,
                revision: point.revision.clone(),
                changes: before.map_or_else(Vec::new, |before| changes(before, point)),
                acknowledged: known.map(said),
            }
        };
        let muted = |mark: &HistoryMark| match mark.until_ms {
            Some(until) => format!("until {}, {}", time(until), said(mark)),
            None => said(mark),
        };
        let points: Vec<SeriesPointFacts> = before.zip(&page.points).map(point).collect();
        let change = |change: &RatioChange| {
            // Whichever point it begins with, what changed there may be its cause.
            let span = change.earliest..=change.latest.min(points.len().saturating_sub(1));
            SeriesChangeFacts {
                first: change.first,
                earliest: change.earliest,
                latest: change.latest,
                found: change.found,
                ratio: change.size.estimate,
                low: change.size.low,
                high: change.size.high,
                p_value: change.p_value,
                around: span.flat_map(|at| points[at].changes.clone()).collect(),
                acknowledged: page.acknowledged(change).map(said),
            }
        };
        SeriesPageFacts {
            series: SeriesFacts::of(&page.series),
            changes: page.changes().iter().map(change).collect(),
            points,
            floor: page.floor,
            muted: page.muted(now_ms).map(muted),
        }
    }
}

fn time(at_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at_ms);
    at.map_or_else(
        |_| String::new(),
        |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    )
}

/// Who said something, and what.
fn said(mark: &HistoryMark) -> String {
    match mark.note.is_empty() {
        true => format!("by {}", mark.user),
        false => format!("by {}: {}", mark.user, mark.note),
    }
}

/// Changes between two points.
fn changes(before: &HistoryPoint, after: &HistoryPoint) -> Vec<String> {
    let mut all = Vec::new();
    let mut other = |what: &str, before: &str, after: &str| {
        if before != after {
            let shown = |text: &str| {
                if text.is_empty() {
                    "none".to_owned()
                } else {
                    text.to_owned()
                }
            };
            all.push(format!("{what} {} → {}", shown(before), shown(after)));
        }
    };
    other("revision", &before.revision, &after.revision);
    other("plimsoll", &before.program, &after.program);
    let versions = |point: &HistoryPoint| -> BTreeMap<String, String> {
        serde_json::from_str(&point.versions).unwrap_or_default()
    };
    let (old, new) = (versions(before), versions(after));
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let of = |all: &BTreeMap<String, String>| all.get(name).cloned().unwrap_or_default();
        other(name, &of(&old), &of(&new));
    }
    if before.settings_id != after.settings_id {
        all.push("settings of the workload".into());
    }
    all
}

#[cfg(test)]
mod tests;
