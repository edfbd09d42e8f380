// SPDX-License-Identifier: Apache-2.0
//! All facts, for programs that read tables: batch after batch, so that any number passes through.

use crate::database::HistoryDatabase;
use crate::error::{HistoryError, doing};
use sqlx::Row as _;
use sqlx::any::AnyRow;

/// A fact with all its names.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryFactRow {
    /// Identifier of the run.
    pub run: String,
    /// Name of its folder in the store.
    pub folder: String,
    /// Whose it is.
    pub owner: String,
    /// When it began.
    pub began_ms: i64,
    /// The revision measured.
    pub revision: String,
    /// Version of the program.
    pub program: String,
    /// System.
    pub system: String,
    /// The system that ratios divide by.
    pub reference: String,
    /// Workload, with its phase.
    pub workload: String,
    /// The condition of the system.
    pub condition: String,
    /// Metric, with its unit.
    pub metric: String,
    /// Digest of the settings of the workload.
    pub settings: String,
    /// Block.
    pub block: i64,
    /// Place in the order of trials.
    pub place: i64,
    /// Value.
    pub value: f64,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// To the reference in the same block.
    pub ratio: Option<f64>,
}

fn fact(row: &AnyRow) -> HistoryFactRow {
    HistoryFactRow {
        run: row.get(0),
        folder: row.get(1),
        owner: row.get(2),
        began_ms: row.get(3),
        revision: row.get(4),
        program: row.get(5),
        system: row.get(6),
        reference: row.get(7),
        workload: row.get(8),
        condition: row.get(9),
        metric: row.get(10),
        settings: row.get(11),
        block: i64::from(row.get::<i32, _>(12)),
        place: i64::from(row.get::<i32, _>(13)),
        value: row.get(14),
        low: row.get(15),
        high: row.get(16),
        ratio: row.get(17),
    }
}

impl HistoryDatabase {
    /// The facts of one run, in the order of trials.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn facts_of(&self, run: i64) -> Result<Vec<HistoryFactRow>, HistoryError> {
        let sql = "SELECT r.name, r.folder, u.name, r.began_ms, r.revision, r.program, f.system, r.reference, \
                   f.workload, f.condition, f.metric, s.digest, x.block, x.place, x.value, x.low, x.high, \
                   x.ratio FROM facts x JOIN figures f ON f.id = x.figure_id JOIN runs r ON r.id = x.run_id \
                   JOIN users u ON u.id = r.owner_id JOIN settings s ON s.id = x.settings_id \
                   WHERE x.run_id = $1 ORDER BY x.place, f.id";
        let rows = sqlx::query(sql)
            .bind(run)
            .fetch_all(&self.pool)
            .await
            .map_err(doing("read the facts of a run"))?;
        Ok(rows.iter().map(fact).collect())
    }
}
