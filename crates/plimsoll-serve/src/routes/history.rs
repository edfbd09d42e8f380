// SPDX-License-Identifier: Apache-2.0
//! Series of ratios, what people say of their changes, and who sees a run.

use super::{Answer, SharedState, answer, beside};
use crate::answers::{SeriesFacts, SeriesPageFacts};
use crate::caller::RequestCaller;
use crate::error::RequestError;
use crate::guard::{JsonForm, QueryForm};
use crate::seen::SeenRun;
use axum::Extension;
use axum::extract::{Path, State};
use plimsoll_history::{HistoryMarkKind, HistoryScope, now_ms};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// Milliseconds of a day, and longest time for which a series is muted.
const DAY_MS: i64 = 86_400_000;
const DAYS_MAX: u32 = 366;

/// Which series are wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeriesListQuery {
    #[serde(default)]
    after: i64,
    #[serde(default)]
    text: String,
}

/// A user's statement about a series.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MarkForm {
    kind: String,
    /// Folder of the run at which a change begins.
    #[serde(default)]
    run: Option<String>,
    #[serde(default)]
    note: String,
    /// How long a series is muted.
    #[serde(default)]
    days: Option<u32>,
}

/// Who sees a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShareForm {
    shared: bool,
}

fn no_series() -> RequestError {
    RequestError::not_found("there is no such series")
}

pub(super) async fn list(
    State(state): SharedState,
    Extension(caller): Extension<RequestCaller>,
    QueryForm(query): QueryForm<SeriesListQuery>,
) -> Answer {
    let team = state.team()?;
    let found = team
        .database
        .series_list(caller.viewer(), query.after, &query.text)
        .await?;
    answer(found.iter().map(SeriesFacts::of).collect::<Vec<_>>())
}

pub(super) async fn show(
    State(state): SharedState,
    Extension(caller): Extension<RequestCaller>,
    Path(id): Path<i64>,
) -> Answer {
    let found = state
        .team()?
        .database
        .series_page(caller.viewer(), id)
        .await?;
    answer(SeriesPageFacts::of(&found.ok_or_else(no_series)?, now_ms()))
}

pub(super) async fn mark(
    State(state): SharedState,
    Extension(caller): Extension<RequestCaller>,
    Path(id): Path<i64>,
    JsonForm(form): JsonForm<MarkForm>,
) -> Answer {
    let team = state.team()?;
    let found = HistoryMarkKind::ALL
        .iter()
        .find(|(name, _)| *name == form.kind);
    let Some((_, kind)) = found else {
        return Err(RequestError::invalid("invalid kind of a mark")
            .hint("give acknowledged, muted or unmuted"));
    };
    if *kind == HistoryMarkKind::Acknowledged && form.run.is_none() {
        return Err(
            RequestError::invalid("no run is named at which the series changed")
                .hint("give the folder of the run"),
        );
    }
    if form
        .days
        .is_some_and(|days| !(1..=DAYS_MAX).contains(&days))
    {
        return Err(RequestError::invalid(format!(
            "invalid number of days: expected 1 to {DAYS_MAX}"
        )));
    }
    let until = form.days.map(|days| now_ms() + i64::from(days) * DAY_MS);
    let entry = caller.entry(&form.kind, &format!("series {id}"), &form.note);
    team.database
        .mark(
            caller.viewer(),
            (id, form.run.as_deref()),
            (*kind, until, &form.note),
            &entry,
        )
        .await?;
    show(State(state), Extension(caller), Path(id)).await
}

pub(super) async fn share(
    State(state): SharedState,
    Extension(caller): Extension<RequestCaller>,
    run: SeenRun,
    JsonForm(form): JsonForm<ShareForm>,
) -> Answer {
    let team = state.team()?;
    let folder = run.id().to_owned();
    let access = team.database.access(&folder).await?;
    let is_own = access.is_some_and(|access| caller.user_id == Some(access.owner_id));
    if access.is_none() {
        return Err(RequestError::not_found("there is no such pushed run"));
    }
    if !is_own && !caller.has(HistoryScope::Admin) {
        return Err(RequestError::forbidden("the run belongs to another user"));
    }
    let (at, of) = (Arc::clone(&state), folder.clone());
    // The folder first: from it the row is made again.
    beside(move || at.team()?.store.share(&of, form.shared)).await?;
    let action = if form.shared { "share" } else { "unshare" };
    let entry = caller.entry(action, &folder, "");
    team.database.share(&folder, form.shared, &entry).await?;
    answer(json!({}))
}
