// SPDX-License-Identifier: Apache-2.0
//! Events as they happen, as server-sent events.

use super::jobs::facts;
use super::{Answer, SharedState, plain_json};
use crate::board::RunNews;
use crate::caller::RequestCaller;
use crate::error::RequestError;
use crate::jobs::ServerJob;
use crate::runs::OpenRun;
use crate::seen::SeenRun;
use crate::share::TakenShare;
use crate::state::ServerState;
use crate::sync::{NewsRing, locked};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use plimsoll_history::HistoryScope;
use serde::Serialize;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// How often a stream without news says that it is there.
const ALIVE: Duration = Duration::from_secs(15);
/// How often it is looked whether it still may be listened.
const LOOK: Duration = Duration::from_millis(500);
/// Pieces that may wait for a slow listener; then it is waited for.
const WAITING_MAX: usize = 16;

pub(super) async fn of_run(
    State(state): SharedState,
    Extension(caller): Extension<RequestCaller>,
    seen: SeenRun,
) -> Answer {
    let right = StreamRight::of(Arc::clone(&state), caller, Some(seen.clone()))?;
    wait_for_its_process(&state, &seen).await?;
    let run = state.runs.open(&seen).await?;
    let (to, stream) = channel(WAITING_MAX);
    tokio::spawn(tell_run(run, to, right));
    Ok(told_as(stream))
}

/// The job of a run that is resumed begins a little before it has the folder: until then events would end at
/// once.
async fn wait_for_its_process(state: &Arc<ServerState>, run: &SeenRun) -> Result<(), RequestError> {
    while state.jobs.is_at_work_on(run.id()) {
        let (runs, of) = (Arc::clone(&state.runs), run.clone());
        if super::beside(move || runs.is_being_written(&of)).await? {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

pub(super) async fn of_job(
    State(state): SharedState,
    Extension(caller): Extension<RequestCaller>,
    Path(id): Path<String>,
) -> Answer {
    let job = state.jobs.find(&id)?;
    let right = StreamRight::of(state, caller, None)?;
    let (to, stream) = channel(WAITING_MAX);
    tokio::spawn(tell_job(job, to, right));
    Ok(told_as(stream))
}

/// The right to a stream: a share of all streams, a token that is valid, a run that its user may see.
struct StreamRight {
    state: Arc<ServerState>,
    caller: RequestCaller,
    run: Option<SeenRun>,
    _share: TakenShare<String>,
}

impl StreamRight {
    fn of(
        state: Arc<ServerState>,
        caller: RequestCaller,
        run: Option<SeenRun>,
    ) -> Result<StreamRight, RequestError> {
        let share = state.streams.try_take(&caller.name).ok_or_else(|| {
            RequestError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many pages listen already",
            )
            .hint("close one of them")
        })?;
        Ok(StreamRight {
            state,
            caller,
            run,
            _share: share,
        })
    }

    /// Whether the right still holds: a token may be revoked, and a run taken back. Where the database does
    /// not answer, it does not hold.
    async fn holds(&self) -> bool {
        let Some(token) = self.caller.token_id else {
            return true;
        };
        let Ok(team) = self.state.team() else {
            return false;
        };
        let Ok(Some(caller)) = team.database.caller_of_token(token).await else {
            return false;
        };
        let caller = RequestCaller::from(caller);
        match &self.run {
            _ if !caller.has(HistoryScope::Read) => false,
            None => true,
            Some(run) => self.state.seen(&caller, run.id()).await.is_ok(),
        }
    }
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

/// Sends the news of a ring, and a sign of life where there are none, until the ring is closed, the client is
/// gone, or its right has ended.
async fn tell<T: Clone>(
    right: &StreamRight,
    ring: &NewsRing<T>,
    to: &Sender<Bytes>,
    from: u64,
    shown: impl Fn(Vec<T>) -> String,
) -> bool {
    let mut changes = ring.listen();
    let (mut next, mut quiet) = (from, Duration::ZERO);
    loop {
        changes.mark_unchanged();
        if to.is_closed() || !right.holds().await {
            return false;
        }
        let heard = ring.since(next);
        next = heard.next;
        let text = shown(heard.news);
        if !text.is_empty() && to.send(text.into()).await.is_err() {
            return false;
        }
        if heard.is_closed {
            return true;
        }
        match tokio::time::timeout(LOOK, changes.changed()).await {
            Ok(_) => quiet = Duration::ZERO,
            Err(_) => quiet += LOOK,
        }
        if quiet >= ALIVE {
            quiet = Duration::ZERO;
            if to.send(Bytes::from_static(b": alive\n\n")).await.is_err() {
                return false;
            }
        }
    }
}

async fn tell_run(run: Arc<OpenRun>, to: Sender<Bytes>, right: StreamRight) {
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
                RunNews::Second(_) => {
                    // The expected end comes nearer with each.
                    has_moved = true;
                    text += &event("second", &one);
                }
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
    if tell(&right, &run.news, &to, from, shown).await
        && let Some(seen) = right.run.clone()
    {
        let runs = Arc::clone(&right.state.runs);
        let ended = super::beside(move || runs.facts(&seen)).await;
        let state = ended.map(|listed| listed.facts.state).ok();
        let _ = to
            .send(event("end", json!({ "state": state })).into())
            .await;
    }
}

async fn tell_job(job: Arc<ServerJob>, to: Sender<Bytes>, right: StreamRight) {
    let shown = |lines: Vec<String>| -> String {
        lines
            .iter()
            .map(|line| event("line", json!({ "text": line })))
            .collect()
    };
    if tell(&right, &job.lines, &to, 0, shown).await {
        let _ = to
            .send(event("end", facts(&right.state, &job)).into())
            .await;
    }
}
