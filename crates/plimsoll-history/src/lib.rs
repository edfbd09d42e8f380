// SPDX-License-Identifier: Apache-2.0
//! A team's runs in a database: who pushed them, their figures, and the series that these make. PostgreSQL
//! for a team, SQLite for one person, by the same statements. Run folders stay the truth: every row of a run
//! can be made again from its folder.
//!
//! The wall around the database library: nothing of it is seen from outside of this crate. No HTTP.
#![forbid(unsafe_code)]

mod address;
mod audit;
mod database;
mod error;
mod export;
mod figures;
mod people;
mod runs;
mod schema;
mod secret;
mod series;

pub use address::HistoryAddress;
pub use audit::HistoryAuditEntry;
pub use database::{HistoryDatabase, now_ms};
pub use error::HistoryError;
pub use export::HistoryFactRow;
pub use figures::{FACTS_MAX, HistoryFact, HistoryPointDraft, RunFigures};
pub use people::{HistoryCaller, HistoryScope, HistoryToken, HistoryUser};
pub use runs::{HistoryRun, HistoryRunAccess, HistoryRunDraft};
pub use secret::draw_secret;
pub use series::{
    HistoryMark, HistoryMarkKind, HistoryPoint, HistorySeries, HistorySeriesPage, HistoryViewer,
};
