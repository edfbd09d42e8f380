// SPDX-License-Identifier: Apache-2.0
//! A team's history behind the pages: the database, the store of run folders, and whose runs they are.
//!
//! A folder with the mark of a push belongs to who pushed it, also where the database has no row of it (yet):
//! then only who may see everything sees it. A folder without the mark is a run of this server, for all.

use crate::caller::RequestCaller;
use crate::drawing::{DrawnPiece, RunDrawings};
use crate::error::{RequestError, ServeError};
use crate::push::listing::PushLimits;
use crate::push::store::{PushMark, PushStore};
use crate::seen::RunPlace;
use crate::share::ShareBoard;
use axum::http::StatusCode;
use plimsoll_history::{
    HistoryAddress, HistoryDatabase, HistoryError, HistoryRun, HistoryRunAccess, HistoryRunDraft,
    RunFigures,
};
use std::path::Path;
use std::sync::Arc;

/// A team's history.
#[derive(Debug)]
pub(crate) struct TeamHistory {
    pub(crate) database: HistoryDatabase,
    pub(crate) store: PushStore,
    pub(crate) limits: PushLimits,
    drawings: Arc<RunDrawings>,
    /// Of each user one folder is read and added at a time.
    pub(crate) adding: Arc<ShareBoard<i64>>,
}

impl From<HistoryError> for RequestError {
    fn from(error: HistoryError) -> RequestError {
        let text = error.to_string();
        match error {
            HistoryError::Invalid { hint, .. } => RequestError::invalid(text).hint(hint),
            HistoryError::Run(_) => RequestError::invalid(text),
            HistoryError::Unavailable { .. } => {
                RequestError::new(StatusCode::SERVICE_UNAVAILABLE, text).hint("try again later")
            }
            HistoryError::Database { .. } => RequestError::failed(text),
        }
    }
}

impl TeamHistory {
    pub(crate) async fn open(
        (address, limits): (&HistoryAddress, PushLimits),
        folder: &Path,
        drawings: Arc<RunDrawings>,
    ) -> Result<TeamHistory, ServeError> {
        let database = HistoryDatabase::open(address).await?;
        let store = PushStore::open(folder)?;
        Ok(TeamHistory {
            database,
            store,
            limits,
            drawings,
            adding: ShareBoard::of(usize::MAX, 1),
        })
    }

    /// Adds what is in the store and not in the database: what was cut off between both, and what a restored
    /// backup lacks. Gives how many runs were added, and what could not be.
    pub(crate) async fn catch_up(&self) -> Result<(u64, Vec<String>), HistoryError> {
        let known = self.database.accesses().await?;
        let (mut added, mut left) = (0, Vec::new());
        let caller = RequestCaller {
            from: "the store".into(),
            ..RequestCaller::operator()
        };
        for begun in self.store.begun() {
            let known = self
                .database
                .find_run(begun.owner_id, &begun.digest)
                .await?;
            let is_kept = |run: HistoryRun| {
                self.store
                    .mark(&run.folder)
                    .is_some_and(|mark| mark.digest == run.digest)
            };
            if known.is_some_and(is_kept) {
                begun.staged.forget();
            }
        }
        for (folder, mark) in self.store.marked() {
            if known.contains_key(&folder) {
                continue;
            }
            let read = self.figures(&folder, &mark.owner, mark.reference.as_deref());
            let figures = match read.await {
                Ok(figures) => figures,
                Err(error) => {
                    left.push(format!("{folder}: {}", error.text));
                    continue;
                }
            };
            match self.add(&folder, &mark, &figures, &caller).await {
                Ok(()) => added += 1,
                Err(error @ HistoryError::Unavailable { .. }) => return Err(error),
                Err(error) => left.push(format!("{folder}: {error}")),
            }
        }
        Ok((added, left))
    }

    /// Runs of the database whose folders are not in the store, each with its owner.
    pub(crate) async fn lost(&self) -> Result<Vec<HistoryRun>, HistoryError> {
        let is_lost = |run: &HistoryRun| {
            self.store
                .mark(&run.folder)
                .is_none_or(|mark| mark.digest != run.digest)
        };
        Ok(self
            .database
            .runs()
            .await?
            .into_iter()
            .filter(is_lost)
            .collect())
    }

    /// Reads what the history keeps of a folder below the store's, beside this process: one that cannot be
    /// read within bounds is no run.
    pub(crate) async fn figures(
        &self,
        folder: &str,
        owner: &str,
        reference: Option<&str>,
    ) -> Result<RunFigures, RequestError> {
        let piece = DrawnPiece::figures(folder, reference);
        let read = self.drawings.draw(owner, piece).await;
        // Where the folder is, is the server's business.
        let figures = read.map_err(|error| RequestError {
            text: error.text.replace(folder, "the run"),
            ..error
        })?;
        let read = tokio::task::spawn_blocking(move || serde_json::from_slice(&figures));
        read.await
            .map_err(RequestError::failed)?
            .map_err(RequestError::failed)
    }

    /// Adds a folder of the store with its figures. When this returns, the run is acknowledged.
    pub(crate) async fn add(
        &self,
        folder: &str,
        mark: &PushMark,
        figures: &RunFigures,
        caller: &RequestCaller,
    ) -> Result<(), HistoryError> {
        let owner = self.database.user(&mark.owner).await?;
        let draft = HistoryRunDraft {
            owner_id: owner.id,
            digest: &mark.digest,
            folder,
            revision: &mark.revision,
            bytes: mark.bytes,
            is_shared: mark.is_shared,
            figures,
        };
        let entry = caller.entry("push", folder, &format!("{} bytes", mark.bytes));
        self.database.add_run(&draft, &entry).await
    }

    /// Where the run of this name is.
    pub(crate) async fn place_of(&self, folder: &str) -> Result<RunPlace, RequestError> {
        let access = self.database.access(folder).await?;
        Ok(self.place_with(folder, access))
    }

    /// The same with what the database says of it.
    pub(crate) fn place_with(&self, folder: &str, access: Option<HistoryRunAccess>) -> RunPlace {
        match access {
            Some(access) => RunPlace::Pushed(access),
            None if self.store.is_own(folder) => RunPlace::Own,
            None => RunPlace::Unknown,
        }
    }
}
