// SPDX-License-Identifier: Apache-2.0
//! Series: one ratio over many runs, and what people said of its changes. A point of a run that the viewer
//! may not see is not there.

use crate::audit::{HistoryAuditEntry, note_by};
use crate::database::{HistoryDatabase, now_ms};
use crate::error::{HistoryError, doing};
use plimsoll_core::change::{RatioChange, RatioPoint};
use plimsoll_stats::change::{ChangeOptions, change_points};
use plimsoll_stats::events::median;
use plimsoll_stats::student;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row as _};

/// Most points of a page, and most series of a list.
const POINTS_MAX: i64 = 2000;
const SERIES_MAX: i64 = 500;
/// Confidence that intervals of runs have, unless their policy asked for another one.
const CONFIDENCE: f64 = 0.95;
/// Longest note of a mark.
const NOTE_MAX: usize = 500;

/// Who looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryViewer {
    /// Number of the user; no user has 0.
    pub user_id: i64,
    /// Whether every run may be seen.
    pub sees_all: bool,
}

/// One ratio over many runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistorySeries {
    /// Number.
    pub id: i64,
    /// System.
    pub system: String,
    /// The system that ratios divide by.
    pub reference: String,
    /// Workload, with its phase.
    pub workload: String,
    /// The condition of the system; empty: healthy.
    pub condition: String,
    /// Metric.
    pub metric: String,
    /// Whether the system is the reference itself, entered a second time.
    pub is_control: bool,
}

/// A run's part of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryPoint {
    /// Name of the run's folder in the store.
    pub folder: String,
    /// Identifier of the run.
    pub run: String,
    /// The revision measured.
    pub revision: String,
    /// Version of the program.
    pub program: String,
    /// Versions of programs and packages, as JSON.
    pub versions: String,
    /// Number of the settings of the workload: another one where they changed.
    pub settings_id: i64,
    /// When the run began.
    pub at_ms: i64,
    /// Blocks.
    pub blocks: i64,
    /// The ratio.
    pub estimate: f64,
    /// Its interval.
    pub interval: Option<(f64, f64)>,
    /// Mean of the system.
    pub value: f64,
    /// Mean of the reference.
    pub reference_value: f64,
}

/// A user's statement about a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryMarkKind {
    /// A change is known.
    Acknowledged,
    /// Nothing is to be told of the series for a time.
    Muted,
    /// It is to be told again.
    Unmuted,
}

impl HistoryMarkKind {
    /// All by their names.
    pub const ALL: [(&str, HistoryMarkKind); 3] = [
        ("acknowledged", HistoryMarkKind::Acknowledged),
        ("muted", HistoryMarkKind::Muted),
        ("unmuted", HistoryMarkKind::Unmuted),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// A mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryMark {
    /// Name of the folder of the run at which the change begins; none of the whole series.
    pub folder: Option<String>,
    /// `acknowledged`, `muted` or `unmuted`.
    pub kind: String,
    /// Who.
    pub user: String,
    /// When.
    pub at_ms: i64,
    /// Until when.
    pub until_ms: Option<i64>,
    /// Why.
    pub note: String,
}

/// A series with its points, oldest first, and its marks.
#[derive(Debug, Clone, PartialEq)]
pub struct HistorySeriesPage {
    /// Which.
    pub series: HistorySeries,
    /// Its points.
    pub points: Vec<HistoryPoint>,
    /// Statements of users.
    pub marks: Vec<HistoryMark>,
    /// The difference between two entries of the reference in these runs, as a fraction: no smaller change
    /// counts. 0 without controls.
    pub floor: f64,
}

impl HistorySeriesPage {
    /// The changes of its level; indices are of its points.
    pub fn changes(&self) -> Vec<RatioChange> {
        let points: Vec<RatioPoint> = self.points.iter().map(HistoryPoint::ratio).collect();
        let options = ChangeOptions {
            least_effect: self.floor,
            ..ChangeOptions::default()
        };
        change_points(&points, &options)
    }

    /// Who acknowledged a change: at any of the runs that it may begin with, up to the one that showed it.
    pub fn acknowledged(&self, change: &RatioChange) -> Option<&HistoryMark> {
        let last = change.found.max(change.latest);
        let around = self.points.get(change.earliest..=last)?;
        self.marks.iter().rev().find(|mark| {
            let is_at = |point: &HistoryPoint| mark.folder.as_ref() == Some(&point.folder);
            mark.kind == HistoryMarkKind::Acknowledged.name() && around.iter().any(is_at)
        })
    }

    /// Who muted it, while that lasts.
    pub fn muted(&self, now_ms: i64) -> Option<&HistoryMark> {
        let is_about = |mark: &&HistoryMark| mark.kind != HistoryMarkKind::Acknowledged.name();
        let last = self.marks.iter().rev().find(is_about)?;
        let lasts = last.until_ms.is_none_or(|until| until > now_ms);
        (last.kind == HistoryMarkKind::Muted.name() && lasts).then_some(last)
    }

    /// Whether nothing is to be told of it now.
    pub fn is_muted(&self, now_ms: i64) -> bool {
        self.muted(now_ms).is_some()
    }
}

impl HistoryPoint {
    fn ratio(&self) -> RatioPoint {
        let freedom = usize::try_from(self.blocks - 1).unwrap_or(1).max(1);
        let error = self.interval.map(|(low, high)| {
            let half = (high.ln() - low.ln()) / 2.0;
            half / student::two_sided(CONFIDENCE, freedom)
        });
        RatioPoint {
            when_unix_s: self.at_ms.div_euclid(1000),
            log_ratio: self.estimate.ln(),
            error,
        }
    }
}

const SERIES: &str = "SELECT c.id, f.system, c.reference, f.workload, f.condition, f.metric, \
                      c.is_control FROM series c JOIN figures f ON f.id = c.figure_id";
const SEEN: &str = "(r.is_shared = 1 OR r.owner_id = $2 OR $3 = 1)";

fn series(row: &AnyRow) -> HistorySeries {
    HistorySeries {
        id: row.get(0),
        system: row.get(1),
        reference: row.get(2),
        workload: row.get(3),
        condition: row.get(4),
        metric: row.get(5),
        is_control: row.get::<i64, _>(6) == 1,
    }
}

fn point(row: &AnyRow) -> HistoryPoint {
    let ends: (Option<f64>, Option<f64>) = (row.get(9), row.get(10));
    HistoryPoint {
        folder: row.get(0),
        run: row.get(1),
        revision: row.get(2),
        program: row.get(3),
        versions: row.get(4),
        settings_id: row.get(5),
        at_ms: row.get(6),
        blocks: i64::from(row.get::<i32, _>(7)),
        estimate: row.get(8),
        interval: ends.0.zip(ends.1),
        value: row.get(11),
        reference_value: row.get(12),
    }
}

impl HistoryDatabase {
    /// Series of which the viewer sees a point, after the one of number `after`, in the order of their
    /// numbers; with `text` only those in whose names it is.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn series_list(
        &self,
        viewer: HistoryViewer,
        after: i64,
        text: &str,
    ) -> Result<Vec<HistorySeries>, HistoryError> {
        let sql = format!(
            "{SERIES} WHERE c.id > $1 AND (CAST($4 AS TEXT) = '' OR LOWER(f.system || ' ' || f.workload || ' ' || f.metric \
             || ' ' || f.condition || ' ' || c.reference) LIKE '%' || LOWER($4) || '%' ESCAPE '!') \
             AND EXISTS (SELECT 1 FROM points p JOIN runs r ON r.id = p.run_id \
             WHERE p.series_id = c.id AND {SEEN}) ORDER BY c.id LIMIT {SERIES_MAX}"
        );
        // A text is a text, not a pattern.
        let text = text.chars().fold(String::new(), |mut escaped, c| {
            if "%_!".contains(c) {
                escaped.push('!');
            }
            escaped.push(c);
            escaped
        });
        let rows = sqlx::query(AssertSqlSafe(sql))
            .bind(after)
            .bind(viewer.user_id)
            .bind(i64::from(viewer.sees_all))
            .bind(text)
            .fetch_all(&self.pool)
            .await
            .map_err(doing("list the series"))?;
        Ok(rows.iter().map(series).collect())
    }

    /// A series with its newest points; `None` when there is none that the viewer sees anything of.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn series_page(
        &self,
        viewer: HistoryViewer,
        id: i64,
    ) -> Result<Option<HistorySeriesPage>, HistoryError> {
        let found = sqlx::query(AssertSqlSafe(format!("{SERIES} WHERE c.id = $1")))
            .bind(id)
            .fetch_optional(&self.pool)
            .await
            .map_err(doing("read a series"))?;
        match found {
            Some(found) => self.page_of(viewer, series(&found)).await,
            None => Ok(None),
        }
    }

    /// The same of a series that was listed.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn page_of(
        &self,
        viewer: HistoryViewer,
        series: HistorySeries,
    ) -> Result<Option<HistorySeriesPage>, HistoryError> {
        let what = "read a series";
        let sql = format!(
            "SELECT r.folder, r.name, r.revision, r.program, r.versions, p.settings_id, p.at_ms, p.blocks, \
             p.estimate, p.low, p.high, p.value, p.reference_value FROM points p JOIN runs r ON r.id = p.run_id \
             WHERE p.series_id = $1 AND {SEEN} ORDER BY p.at_ms DESC, p.run_id DESC LIMIT {POINTS_MAX}"
        );
        let rows = sqlx::query(AssertSqlSafe(sql))
            .bind(series.id)
            .bind(viewer.user_id)
            .bind(i64::from(viewer.sees_all))
            .fetch_all(&self.pool)
            .await
            .map_err(doing(what))?;
        if rows.is_empty() {
            return Ok(None);
        }
        let sql = "SELECT r.folder, m.kind, m.user_name, m.at_ms, m.until_ms, m.note FROM marks m \
                   LEFT JOIN runs r ON r.id = m.run_id WHERE m.series_id = $1 ORDER BY m.id";
        let marks = sqlx::query(sql)
            .bind(series.id)
            .fetch_all(&self.pool)
            .await
            .map_err(doing(what))?;
        let points: Vec<HistoryPoint> = rows.iter().rev().map(point).collect();
        let mark = |row: &AnyRow| HistoryMark {
            folder: row.get(0),
            kind: row.get(1),
            user: row.get(2),
            at_ms: row.get(3),
            until_ms: row.get(4),
            note: row.get(5),
        };
        let is_seen = |mark: &HistoryMark| {
            let of = |folder: &String| points.iter().any(|point| point.folder == *folder);
            mark.folder.as_ref().is_none_or(of)
        };
        let marks = marks.iter().map(mark).filter(is_seen).collect();
        let floor = self.floor(viewer, &series).await?;
        Ok(Some(HistorySeriesPage {
            series,
            points,
            marks,
            floor,
        }))
    }

    /// The median, over runs, of the largest effect that the A/A control of the reference admits.
    async fn floor(&self, viewer: HistoryViewer, of: &HistorySeries) -> Result<f64, HistoryError> {
        let sql = format!(
            "SELECT p.low, p.high FROM series c JOIN figures f ON f.id = c.figure_id \
             JOIN points p ON p.series_id = c.id JOIN runs r ON r.id = p.run_id \
             WHERE c.is_control = 1 AND c.reference = $1 AND f.workload = $4 AND f.condition = $5 \
             AND f.metric = $6 AND p.low IS NOT NULL AND p.high IS NOT NULL AND {SEEN} \
             ORDER BY p.at_ms DESC LIMIT {POINTS_MAX}"
        );
        let rows = sqlx::query(AssertSqlSafe(sql))
            .bind(&of.reference)
            .bind(viewer.user_id)
            .bind(i64::from(viewer.sees_all))
            .bind(&of.workload)
            .bind(&of.condition)
            .bind(&of.metric)
            .fetch_all(&self.pool)
            .await
            .map_err(doing("read the controls of a series"))?;
        let admitted = |row: &AnyRow| {
            let (low, high): (f64, f64) = (row.get(0), row.get(1));
            low.ln().abs().max(high.ln().abs())
        };
        let median = median(rows.iter().map(admitted));
        Ok(median.map_or(0.0, f64::exp_m1))
    }

    /// Marks a series; writes it into the audit trail. `folder` is the run at which a change begins.
    ///
    /// # Errors
    /// When the viewer sees no such series or run.
    pub async fn mark(
        &self,
        viewer: HistoryViewer,
        (series, folder): (i64, Option<&str>),
        (kind, until_ms, note): (HistoryMarkKind, Option<i64>, &str),
        entry: &HistoryAuditEntry,
    ) -> Result<(), HistoryError> {
        let what = "mark a series";
        let no_series = || HistoryError::invalid("there is no such series", "look at the list");
        let page = self
            .series_page(viewer, series)
            .await?
            .ok_or_else(no_series)?;
        if note.len() > NOTE_MAX {
            let text = format!("the note has more than {NOTE_MAX} bytes");
            return Err(HistoryError::invalid(text, "give a shorter one"));
        }
        if let Some(folder) = folder
            && !page.points.iter().any(|point| point.folder == folder)
        {
            let text = "the series has no such run";
            return Err(HistoryError::invalid(
                text,
                "give the run at which it changed",
            ));
        }
        let mut change = self.begin(what).await?;
        let sql = "INSERT INTO marks (series_id, run_id, kind, user_name, at_ms, until_ms, note) \
                   VALUES ($1, (SELECT id FROM runs WHERE folder = $2), $3, $4, $5, $6, $7)";
        sqlx::query(sql)
            .bind(series)
            .bind(folder.unwrap_or_default())
            .bind(kind.name())
            .bind(&entry.who)
            .bind(now_ms())
            .bind(until_ms)
            .bind(note)
            .execute(&mut *change)
            .await
            .map_err(doing(what))?;
        note_by(&mut *change, entry).await?;
        change.commit().await.map_err(doing(what))
    }
}
