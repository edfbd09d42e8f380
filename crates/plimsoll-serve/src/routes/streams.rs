// SPDX-License-Identifier: Apache-2.0
//! Events as they happen, as server-sent events.

use super::jobs::facts;
use super::{Answer, SharedState, plain_json};
use crate::board::RunNews;
use crate::error::RequestError;
use crate::jobs::ServerJob;
use crate::runs::OpenRun;
use crate::seen::SeenRun;
use crate::state::ServerState;
use crate::sync::{NewsRing, locked};
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// How often a stream without news says that it is there.
const ALIVE: Duration = Duration::from_secs(15);
/// Pieces that may wait for a slow listener; then it is waited for.
const WAITING_MAX: usize = 16;

pub(super) async fn of_run(State(state): SharedState, seen: SeenRun) -> Answer {
    let run = state.runs.open(&seen).await?;
    let permit = permit(&state)?;
    let (to, stream) = channel(WAITING_MAX);
    tokio::spawn(tell_run(run, to, permit, seen, state));
    Ok(told_as(stream))
}

pub(super) async fn of_job(State(state): SharedState, Path(id): Path<String>) -> Answer {
    let job = state.jobs.find(&id)?;
    let permit = permit(&state)?;
    let (to, stream) = channel(WAITING_MAX);
    tokio::spawn(tell_job(job, to, permit, state));
    Ok(told_as(stream))
}

/// Room for one more stream.
fn permit(state: &ServerState) -> Result<OwnedSemaphorePermit, RequestError> {
    Arc::clone(&state.streams).try_acquire_owned().map_err(|_| {
        RequestError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many pages listen already",
        )
        .hint("close one of them")
    })
}

fn told_as(pieces: Receiver<Bytes>) -> Response {
    let body = stream::unfold(pieces, |mut pieces| async {
        let piece = pieces.recv().await?;
        Some((Ok::<Bytes, Infallible>(piece), pieces))
    });
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    (kind, Body::from_stream(body)).into_response()
}

/// One event. JSON has no line ends, so it is one line of data.
fn event(name: &str, value: impl Serialize) -> String {
    let data = plain_json(value).unwrap_or_else(|_| "null".into());
    format!("event: {name}\ndata: {data}\n\n")
}

/// Sends what is new of a ring, and that there is nothing, until it is closed or nobody listens.
async fn tell<T: Clone>(
    ring: &NewsRing<T>,
    to: &Sender<Bytes>,
    from: u64,
    shown: impl Fn(Vec<T>) -> String,
) -> bool {
    let mut changes = ring.listen();
    let mut next = from;
    loop {
        changes.mark_unchanged();
        let heard = ring.since(next);
        next = heard.next;
        let text = shown(heard.news);
        if !text.is_empty() && to.send(text.into()).await.is_err() {
            return false;
        }
        if heard.is_closed {
            return true;
        }
        let waited = tokio::time::timeout(ALIVE, changes.changed()).await;
        let is_quiet = waited.is_err();
        if is_quiet && to.send(Bytes::from_static(b": alive\n\n")).await.is_err() {
            return false;
        }
    }
}

async fn tell_run(
    run: Arc<OpenRun>,
    to: Sender<Bytes>,
    permit: OwnedSemaphorePermit,
    seen: SeenRun,
    state: Arc<ServerState>,
) {
    let progress = || event("progress", locked(&run.board).progress());
    let from = run.news.since(u64::MAX).next;
    if to.send(progress().into()).await.is_err() {
        return;
    }
    let shown = |news: Vec<RunNews>| {
        let mut text = String::new();
        let mut has_moved = false;
        for one in news {
            match &one {
                RunNews::Progress => has_moved = true,
                RunNews::Second(_) => text += &event("second", &one),
                RunNews::Trial { .. } => text += &event("trial", &one),
                RunNews::Note { .. } => text += &event("note", &one),
            }
        }
        // Several at once are one.
        if has_moved {
            text += &progress();
        }
        text
    };
    if tell(&run.news, &to, from, shown).await {
        let runs = Arc::clone(&state.runs);
        let ended = super::beside(move || runs.facts(&seen)).await;
        let state = ended.map(|listed| listed.facts.state).ok();
        let _ = to
            .send(event("end", json!({ "state": state })).into())
            .await;
    }
    drop(permit);
}

async fn tell_job(
    job: Arc<ServerJob>,
    to: Sender<Bytes>,
    permit: OwnedSemaphorePermit,
    state: Arc<ServerState>,
) {
    let shown = |lines: Vec<String>| -> String {
        lines
            .iter()
            .map(|line| event("line", json!({ "text": line })))
            .collect()
    };
    if tell(&job.lines, &to, 0, shown).await {
        let _ = to.send(event("end", facts(&state, &job)).into()).await;
    }
    drop(permit);
}
