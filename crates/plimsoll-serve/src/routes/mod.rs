// SPDX-License-Identifier: Apache-2.0
//! Requests: which there are, and their answers.

mod history;
mod jobs;
mod pages;
mod push;
mod runs;
mod session;
mod stacks;
mod streams;

use crate::answers::ServerFacts;
use crate::caller::RequestCaller;
use crate::error::RequestError;
use crate::guard;
use crate::metrics;
use crate::state::ServerState;
use axum::Extension;
use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use plimsoll_core::text::printable_lines;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// Most bytes of a body.
const BODY_MAX: usize = 64 << 10;

/// State that handlers share.
type SharedState = State<Arc<ServerState>>;
/// The answer of a handler.
type Answer = Result<Response, RequestError>;

pub(crate) fn router(state: &Arc<ServerState>) -> Router {
    let open = Router::new().route(
        "/session",
        get(session::show).post(session::begin).delete(session::end),
    );
    let metrics = Router::new()
        .route("/metrics", get(metrics::show))
        .layer(from_fn_with_state(
            Arc::clone(state),
            guard::authorise_program,
        ));
    Router::new()
        .merge(pages::router())
        .merge(metrics)
        .nest("/api/v1", open.merge(authorised(state)))
        .fallback(async || RequestError::not_found("there is no such page"))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(map_response(name_method))
        .layer(from_fn_with_state(Arc::clone(state), guard::guard))
        .with_state(Arc::clone(state))
}

/// Routes for those who are let in.
fn authorised(state: &Arc<ServerState>) -> Router<Arc<ServerState>> {
    Router::new()
        .route("/server", get(server))
        .route("/catalogue", get(catalogue))
        .route("/runs", get(runs::list).post(runs::start))
        .route("/runs/{id}", get(runs::show))
        .route("/runs/{id}/sections", get(runs::sections))
        .route("/runs/{id}/report", get(runs::report))
        .route("/runs/{id}/series", get(runs::series))
        .route("/runs/{id}/export/{format}", get(runs::export))
        .route("/runs/{id}/events", get(streams::of_run))
        .route("/runs/{id}/resume", post(runs::resume))
        .route("/runs/{id}/share", post(history::share))
        .route("/history/series", get(history::list))
        .route("/history/series/{id}", get(history::show))
        .route("/history/series/{id}/marks", post(history::mark))
        .route(
            "/push",
            post(push::begin).layer(DefaultBodyLimit::max(push::LISTING_MAX)),
        )
        .route("/push/{id}/files/{number}", put(push::file))
        .route("/push/{id}/commit", post(push::commit))
        .route("/diff", get(runs::diff))
        .route("/stacks", get(stacks::list).post(stacks::raise))
        .route("/stacks/plan", post(stacks::plan))
        .route("/stacks/{name}/{change}", post(stacks::change))
        .route("/jobs", get(jobs::list))
        .route("/jobs/{id}", get(jobs::show))
        .route("/jobs/{id}/events", get(streams::of_job))
        .route("/jobs/{id}/stop", post(jobs::stop))
        .layer(from_fn_with_state(Arc::clone(state), guard::authorise))
}

/// The answer to a method that a page does not have, in words.
async fn name_method(response: Response) -> Response {
    if response.status() != StatusCode::METHOD_NOT_ALLOWED {
        return response;
    }
    let allowed = response.headers().get(header::ALLOW).cloned();
    let text = "this page does not take this method";
    let mut told = RequestError::new(StatusCode::METHOD_NOT_ALLOWED, text).into_response();
    allowed.map(|allowed| told.headers_mut().insert(header::ALLOW, allowed));
    told
}

/// JSON with plain text only, so that a foreign name can do nothing but be read.
fn answer(value: impl Serialize) -> Answer {
    answer_with(StatusCode::OK, value)
}

fn answer_with(status: StatusCode, value: impl Serialize) -> Answer {
    let text = plain_json(value)?;
    Ok((status, [(header::CONTENT_TYPE, "application/json")], text).into_response())
}

fn plain_json(value: impl Serialize) -> Result<String, RequestError> {
    let mut value = serde_json::to_value(value).map_err(RequestError::failed)?;
    make_plain(&mut value);
    Ok(value.to_string())
}

fn make_plain(value: &mut Value) {
    match value {
        Value::String(text) => *text = printable_lines(text),
        Value::Array(all) => all.iter_mut().for_each(make_plain),
        Value::Object(all) => all.values_mut().for_each(make_plain),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Does something that takes a while, or waits for disks, beside the thread of requests.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RequestError> + Send + 'static,
) -> Result<T, RequestError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| RequestError::failed("the server failed at this request"))?
}

async fn server(State(state): SharedState, Extension(caller): Extension<RequestCaller>) -> Answer {
    answer(ServerFacts {
        history: state.team().is_ok(),
        user: caller.name,
        scopes: caller
            .scopes
            .iter()
            .map(|scope| scope.name().to_owned())
            .collect(),
        version: state.options.version.to_owned(),
        host: state.options.host.clone(),
        runs: state.runs.folder().display().to_string(),
        started_at: state.began_at.clone(),
    })
}

async fn catalogue(State(state): SharedState) -> Answer {
    answer(&*state.look_up_catalogue().await?)
}
