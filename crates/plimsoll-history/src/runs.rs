// SPDX-License-Identifier: Apache-2.0
//! Runs that were pushed: a row and all its facts are there at once, or not at all.

use crate::audit::{HistoryAuditEntry, note_by};
use crate::database::{HistoryDatabase, now_ms};
use crate::error::{HistoryError, doing, is_double};
use crate::figures::{FigureKey, RunFigures};
use sqlx::{Any, AssertSqlSafe, Row as _, Transaction};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Rows of one statement. Its text holds their numbers, and stays below one million bytes with this many.
const ROWS: usize = 2000;

/// A run that is to be added.
#[derive(Debug)]
pub struct HistoryRunDraft<'a> {
    /// Whose it is.
    pub owner_id: i64,
    /// Digest of the list of its files.
    pub digest: &'a str,
    /// Name of its folder in the store.
    pub folder: &'a str,
    /// The revision measured: a commit, a release, a build.
    pub revision: &'a str,
    /// Bytes of its files.
    pub bytes: u64,
    /// Whether the whole team sees it.
    pub is_shared: bool,
    /// The figures of its folder.
    pub figures: &'a RunFigures,
}

/// A run in the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRun {
    /// Number.
    pub id: i64,
    /// Name of its folder in the store.
    pub folder: String,
    /// Digest of the list of its files.
    pub digest: String,
    /// Name of its owner.
    pub owner: String,
    /// Identifier in its manifest.
    pub name: String,
    /// The revision measured.
    pub revision: String,
    /// When it began.
    pub began_ms: i64,
    /// Whether the whole team sees it.
    pub is_shared: bool,
}

/// Who may see a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryRunAccess {
    /// Whose it is.
    pub owner_id: i64,
    /// Whether the whole team sees it.
    pub is_shared: bool,
}

const RUN: &str = "SELECT r.id, r.folder, r.digest, u.name, r.name, r.revision, r.began_ms, r.is_shared \
                   FROM runs r JOIN users u ON u.id = r.owner_id";

fn run(row: &sqlx::any::AnyRow) -> HistoryRun {
    HistoryRun {
        id: row.get(0),
        folder: row.get(1),
        digest: row.get(2),
        owner: row.get(3),
        name: row.get(4),
        revision: row.get(5),
        began_ms: row.get(6),
        is_shared: row.get::<i64, _>(7) == 1,
    }
}

impl HistoryDatabase {
    /// The run of this owner with these files.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn find_run(
        &self,
        owner_id: i64,
        digest: &str,
    ) -> Result<Option<HistoryRun>, HistoryError> {
        let sql = format!("{RUN} WHERE r.owner_id = $1 AND r.digest = $2");
        let found = sqlx::query(AssertSqlSafe(sql))
            .bind(owner_id)
            .bind(digest)
            .fetch_optional(&self.pool)
            .await;
        Ok(found.map_err(doing("look for a run"))?.as_ref().map(run))
    }

    /// All runs, newest first.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn runs(&self) -> Result<Vec<HistoryRun>, HistoryError> {
        let sql = format!("{RUN} ORDER BY r.began_ms DESC, r.id DESC");
        let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(&self.pool).await;
        Ok(rows
            .map_err(doing("list the runs"))?
            .iter()
            .map(run)
            .collect())
    }

    /// Bytes of all runs of a user.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn bytes_of(&self, owner_id: i64) -> Result<u64, HistoryError> {
        let sql = "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM runs WHERE owner_id = $1";
        let bytes: i64 = sqlx::query_scalar(sql)
            .bind(owner_id)
            .fetch_one(&self.pool)
            .await
            .map_err(doing("add up what a user stores"))?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// Who may see the run in this folder of the store; `None` when it is no pushed run.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn access(&self, folder: &str) -> Result<Option<HistoryRunAccess>, HistoryError> {
        let sql = "SELECT owner_id, is_shared FROM runs WHERE folder = $1";
        let found = sqlx::query(sql)
            .bind(folder)
            .fetch_optional(&self.pool)
            .await;
        let found = found.map_err(doing("look up who may see a run"))?;
        Ok(found.map(|row| HistoryRunAccess {
            owner_id: row.get(0),
            is_shared: row.get::<i64, _>(1) == 1,
        }))
    }

    /// The same of all folders.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn accesses(&self) -> Result<BTreeMap<String, HistoryRunAccess>, HistoryError> {
        let sql = "SELECT folder, owner_id, is_shared FROM runs";
        let rows = sqlx::query(sql).fetch_all(&self.pool).await;
        let rows = rows.map_err(doing("look up who may see runs"))?;
        let access = |row: &sqlx::any::AnyRow| {
            let of = HistoryRunAccess {
                owner_id: row.get(1),
                is_shared: row.get::<i64, _>(2) == 1,
            };
            (row.get(0), of)
        };
        Ok(rows.iter().map(access).collect())
    }

    /// Shows a run to the whole team, or to its owner alone; writes it into the audit trail.
    ///
    /// # Errors
    /// When there is no such run.
    pub async fn share(
        &self,
        folder: &str,
        is_shared: bool,
        entry: &HistoryAuditEntry,
    ) -> Result<(), HistoryError> {
        let what = "change who sees a run";
        let mut change = self.begin(what).await?;
        let sql = "UPDATE runs SET is_shared = $1 WHERE folder = $2";
        let done = sqlx::query(sql)
            .bind(i64::from(is_shared))
            .bind(folder)
            .execute(&mut *change)
            .await
            .map_err(doing(what))?;
        if done.rows_affected() == 0 {
            let text = format!("there is no pushed run '{folder}'");
            return Err(HistoryError::invalid(text, "push it first"));
        }
        note_by(&mut *change, entry).await?;
        change.commit().await.map_err(doing(what))
    }

    /// Adds a run with its facts and its points, and writes it into the audit trail. When this returns, all
    /// of it outlives a power cut of the database's machine. A run that is there already is left as it is.
    ///
    /// # Errors
    /// When the database does not answer or refuses; then nothing was added.
    pub async fn add_run(
        &self,
        draft: &HistoryRunDraft<'_>,
        entry: &HistoryAuditEntry,
    ) -> Result<(), HistoryError> {
        let what = "add a run";
        // Names first, each for itself: they are shared by runs that are added at the same time.
        let figures = self.figure_ids(draft.figures).await?;
        let settings = self.setting_ids(draft.figures).await?;
        let series = self.series_ids(draft.figures, &figures).await?;
        let mut change = self.begin(what).await?;
        let Some(id) = insert_run(&mut change, draft).await? else {
            return Ok(());
        };
        let of = draft.figures;
        let nullable =
            |value: Option<f64>| value.map_or("NULL".to_owned(), |value| format!("{value:e}"));
        let facts = of.facts.iter().map(|fact| {
            let (figure, settings) = (figures[&fact.figure], settings[fact.settings]);
            format!(
                "({figure},{id},{},{settings},{},{},{:e},NULL,NULL,{})",
                of.began_ms,
                fact.block,
                fact.place,
                fact.value,
                nullable(fact.ratio)
            )
        });
        insert_rows(&mut change, "facts", facts).await?;
        let points = of.points.iter().map(|point| {
            let settings = settings[point.settings];
            format!(
                "({},{},{id},{settings},{},{:e},{},{},{:e},{:e})",
                series[&(figures[&point.figure], point.reference.clone())],
                of.began_ms,
                point.blocks,
                point.estimate,
                nullable(point.interval.map(|of| of.0)),
                nullable(point.interval.map(|of| of.1)),
                point.value,
                point.reference_value
            )
        });
        insert_rows(&mut change, "points", points).await?;
        note_by(&mut *change, entry).await?;
        change.commit().await.map_err(doing(what))
    }

    async fn figure_ids(&self, of: &RunFigures) -> Result<BTreeMap<FigureKey, i64>, HistoryError> {
        let mut ids = BTreeMap::new();
        let facts = of.facts.iter().map(|fact| &fact.figure);
        // Of a load line there is a point and no fact.
        for figure in facts.chain(of.points.iter().map(|point| &point.figure)) {
            if ids.contains_key(figure) {
                continue;
            }
            let (system, workload, condition, metric) = figure;
            let id = self
                .id_of(
                    "SELECT id FROM figures WHERE system = $1 AND workload = $2 AND condition = $3 \
                     AND metric = $4",
                    "INSERT INTO figures (system, workload, condition, metric) VALUES ($1, $2, $3, $4) \
                     ON CONFLICT DO NOTHING",
                    &[system, workload, condition, metric],
                )
                .await?;
            ids.insert(figure.clone(), id);
        }
        Ok(ids)
    }

    async fn setting_ids(&self, of: &RunFigures) -> Result<Vec<i64>, HistoryError> {
        let mut ids = Vec::new();
        for (digest, text) in &of.settings {
            let id = self
                .id_of(
                    "SELECT id FROM settings WHERE digest = $1 AND $2 = $2",
                    "INSERT INTO settings (digest, text) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                    &[digest, text],
                )
                .await?;
            ids.push(id);
        }
        Ok(ids)
    }

    async fn series_ids(
        &self,
        of: &RunFigures,
        figures: &BTreeMap<FigureKey, i64>,
    ) -> Result<BTreeMap<(i64, String), i64>, HistoryError> {
        let mut ids = BTreeMap::new();
        for point in &of.points {
            let key = (figures[&point.figure], point.reference.clone());
            if ids.contains_key(&key) {
                continue;
            }
            let id = self
                .id_of(
                    "SELECT id FROM series WHERE figure_id = CAST($1 AS BIGINT) AND reference = $2 \
                     AND $3 = $3",
                    "INSERT INTO series (figure_id, reference, is_control) \
                     VALUES (CAST($1 AS BIGINT), $2, CAST($3 AS BIGINT)) \
                     ON CONFLICT DO NOTHING",
                    &[
                        &key.0.to_string(),
                        &point.reference,
                        &i64::from(point.is_control).to_string(),
                    ],
                )
                .await?;
            ids.insert(key, id);
        }
        Ok(ids)
    }

    /// The number of a row that is made where it is not there.
    async fn id_of(
        &self,
        select: &'static str,
        insert: &'static str,
        texts: &[&String],
    ) -> Result<i64, HistoryError> {
        let what = "number the names of a run";
        let look = || {
            let query = texts
                .iter()
                .fold(sqlx::query_scalar::<Any, i64>(select), |query, text| {
                    query.bind((*text).clone())
                });
            query.fetch_optional(&self.pool)
        };
        if let Some(id) = look().await.map_err(doing(what))? {
            return Ok(id);
        }
        let query = texts.iter().fold(sqlx::query(insert), |query, text| {
            query.bind((*text).clone())
        });
        query.execute(&self.pool).await.map_err(doing(what))?;
        let found = look().await.map_err(doing(what))?;
        found.ok_or_else(|| HistoryError::Database {
            doing: what,
            reason: "a row that was just written is not there".into(),
        })
    }
}

/// The number of the new row; `None` when the run is there already.
async fn insert_run(
    change: &mut Transaction<'static, Any>,
    draft: &HistoryRunDraft<'_>,
) -> Result<Option<i64>, HistoryError> {
    let sql = "INSERT INTO runs (owner_id, digest, folder, name, program, versions, command, revision, \
               reference, began_ms, pushed_ms, bytes, is_complete, is_shared) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING id";
    let of = draft.figures;
    let added = sqlx::query_scalar(sql)
        .bind(draft.owner_id)
        .bind(draft.digest)
        .bind(draft.folder)
        .bind(&of.name)
        .bind(&of.program)
        .bind(&of.versions)
        .bind(&of.command)
        .bind(draft.revision)
        .bind(&of.reference)
        .bind(of.began_ms)
        .bind(now_ms())
        .bind(i64::try_from(draft.bytes).unwrap_or(i64::MAX))
        .bind(i64::from(of.is_complete))
        .bind(i64::from(draft.is_shared))
        .fetch_one(&mut **change)
        .await;
    match added {
        Ok(id) => Ok(Some(id)),
        // Two that push the same at once.
        Err(error) if is_double(&error) => Ok(None),
        Err(error) => Err(doing("add a run")(error)),
    }
}

/// Inserts rows of numbers. The text of the statement holds them, so that a missing number needs no type.
async fn insert_rows(
    change: &mut Transaction<'static, Any>,
    table: &'static str,
    mut rows: impl Iterator<Item = String>,
) -> Result<(), HistoryError> {
    loop {
        let some: Vec<String> = rows.by_ref().take(ROWS).collect();
        if some.is_empty() {
            return Ok(());
        }
        let mut sql = format!("INSERT INTO {table} VALUES ");
        // A string takes all that is written.
        let _ = write!(sql, "{}", some.join(","));
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut **change)
            .await
            .map_err(doing("add the figures of a run"))?;
    }
}
