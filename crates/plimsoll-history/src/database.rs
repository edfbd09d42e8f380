// SPDX-License-Identifier: Apache-2.0
//! The connection to the database, and what keeps its promises: a commit that returned outlives a power cut.

use crate::address::HistoryAddress;
use crate::error::{HistoryError, doing};
use crate::schema::migrator;
use plimsoll_core::text::printable;
use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{Any, AnyPool, Executor as _, Transaction};
use std::os::unix::fs::OpenOptionsExt as _;
use std::str::FromStr as _;
use std::time::Duration;

/// Most connections of one program.
const CONNECTIONS_MAX: u32 = 8;
/// Longest wait for one.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// The oldest PostgreSQL that is supported, as it numbers itself.
const POSTGRES_MIN: i64 = 150_000;

/// The present, in milliseconds since 1970.
pub fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// A database of runs.
#[derive(Debug, Clone)]
pub struct HistoryDatabase {
    pub(crate) pool: AnyPool,
    address: HistoryAddress,
}

impl HistoryDatabase {
    /// Connects, and brings the tables up to date.
    ///
    /// # Errors
    /// When there is no such database, it is too old, or a newer program has changed its tables.
    pub async fn open(address: &HistoryAddress) -> Result<HistoryDatabase, HistoryError> {
        sqlx::any::install_default_drivers();
        if let Some(file) = address.file() {
            // Made here and for this user alone: the library would make it readable for all.
            let mut options = std::fs::OpenOptions::new();
            let made = options.append(true).create(true).mode(0o600).open(file);
            made.map_err(|error| HistoryError::Database {
                doing: "open the database",
                reason: format!("{}: {error}", file.display()),
            })?;
        }
        // The library's words for a malformed address might repeat it.
        let options = AnyConnectOptions::from_str(&address.url()).map_err(|_| {
            HistoryError::invalid(
                "the address of the database cannot be read",
                "give postgres://USER@HOST/DATABASE or sqlite:FILE",
            )
        })?;
        let is_file = address.file().is_some();
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .acquire_timeout(CONNECT_TIME)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    let begin = match is_file {
                        true => "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL",
                        // Whatever the server's default is: an answered push is on its disk.
                        false => "SET synchronous_commit = on; SET client_min_messages = warning",
                    };
                    connection.execute(begin).await.map(drop)
                })
            })
            .connect_with(options)
            .await
            .map_err(doing("connect to the database"))?;
        let database = HistoryDatabase {
            pool,
            address: address.clone(),
        };
        database.check_version().await?;
        let migrated = migrator(address).run(&database.pool).await;
        migrated.map_err(|error| HistoryError::Database {
            doing: "bring the tables of the database up to date",
            reason: printable(&error.to_string()),
        })?;
        Ok(database)
    }

    async fn check_version(&self) -> Result<(), HistoryError> {
        if self.is_file() {
            return Ok(());
        }
        let sql = "SELECT CAST(current_setting('server_version_num') AS BIGINT)";
        let found: i64 = sqlx::query_scalar(sql)
            .fetch_one(&self.pool)
            .await
            .map_err(doing("ask for the version of the database"))?;
        match found >= POSTGRES_MIN {
            true => Ok(()),
            false => Err(HistoryError::invalid(
                format!(
                    "PostgreSQL {} is too old: 15 or newer is needed",
                    found / 10_000
                ),
                "upgrade it, or give another --database",
            )),
        }
    }

    pub(crate) fn is_file(&self) -> bool {
        self.address.file().is_some()
    }

    /// Begins a change of several tables.
    pub(crate) async fn begin(
        &self,
        what: &'static str,
    ) -> Result<Transaction<'static, Any>, HistoryError> {
        let begun = match self.is_file() {
            // A reader that becomes a writer later may find another one there.
            true => self.pool.begin_with("BEGIN IMMEDIATE").await,
            false => self.pool.begin().await,
        };
        begun.map_err(doing(what))
    }

    /// Closes all connections.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    /// Opens the database for one piece of work of a program that waits for it.
    ///
    /// # Errors
    /// Those of [`HistoryDatabase::open`] and of the work.
    pub fn with<T>(
        address: &HistoryAddress,
        work: impl AsyncFnOnce(HistoryDatabase) -> Result<T, HistoryError>,
    ) -> Result<T, HistoryError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| HistoryError::Database {
            doing: "start a runtime",
            reason: error.to_string(),
        })?;
        runtime.block_on(async {
            let database = HistoryDatabase::open(address).await?;
            let done = work(database.clone()).await;
            database.close().await;
            done
        })
    }
}
