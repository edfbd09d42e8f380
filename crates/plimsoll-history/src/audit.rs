// SPDX-License-Identifier: Apache-2.0
//! The audit trail: who did what, when, from where. Rows are only added.

use crate::database::{HistoryDatabase, now_ms};
use crate::error::{HistoryError, doing};
use plimsoll_core::text::printable;
use sqlx::Row as _;

/// Longest text of a field; the rest is left out.
const TEXT_MAX: usize = 500;

/// Something that was done, or refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryAuditEntry {
    /// When; given by the database's side of this program.
    pub at_ms: i64,
    /// Name of the user, or `operator`, `system user NAME`.
    pub who: String,
    /// The token's number, if one was used.
    pub token_id: Option<i64>,
    /// Address of the other side, or `this machine`.
    pub from_where: String,
    /// The action, such as `push`.
    pub action: String,
    /// To what.
    pub subject: String,
    /// Further words.
    pub detail: String,
}

fn short(text: &str) -> String {
    printable(text).chars().take(TEXT_MAX).collect()
}

impl HistoryDatabase {
    /// Adds an entry; its time is now.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn note(&self, entry: &HistoryAuditEntry) -> Result<(), HistoryError> {
        note_by(&self.pool, entry).await
    }

    /// The newest entries, newest first.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn audit(
        &self,
        since_ms: i64,
        most: u32,
    ) -> Result<Vec<HistoryAuditEntry>, HistoryError> {
        let sql = "SELECT at_ms, who, token_id, from_where, action, subject, detail FROM audit \
                   WHERE at_ms >= $1 ORDER BY id DESC LIMIT $2";
        let rows = sqlx::query(sql)
            .bind(since_ms)
            .bind(i64::from(most))
            .fetch_all(&self.pool)
            .await
            .map_err(doing("read the audit trail"))?;
        let entry = |row: &sqlx::any::AnyRow| HistoryAuditEntry {
            at_ms: row.get(0),
            who: row.get(1),
            token_id: row.get(2),
            from_where: row.get(3),
            action: row.get(4),
            subject: row.get(5),
            detail: row.get(6),
        };
        Ok(rows.iter().map(entry).collect())
    }
}

/// The same within a change of several tables, so that both are there or neither is.
pub(crate) async fn note_by<'a>(
    executor: impl sqlx::Executor<'a, Database = sqlx::Any>,
    entry: &HistoryAuditEntry,
) -> Result<(), HistoryError> {
    let sql = "INSERT INTO audit (at_ms, who, token_id, from_where, action, subject, detail) \
               VALUES ($1, $2, $3, $4, $5, $6, $7)";
    sqlx::query(sql)
        .bind(now_ms())
        .bind(short(&entry.who))
        .bind(entry.token_id)
        .bind(short(&entry.from_where))
        .bind(short(&entry.action))
        .bind(short(&entry.subject))
        .bind(short(&entry.detail))
        .execute(executor)
        .await
        .map(drop)
        .map_err(doing("write the audit trail"))
}
