// SPDX-License-Identifier: Apache-2.0
//! Checks of every request before anything is done for it: whom it was meant for, where it comes from,
//! who sends it; and what every answer carries.

use crate::accept::PeerConnection;
use crate::caller::RequestCaller;
use crate::error::RequestError;
use crate::seen::SeenRun;
use crate::state::ServerState;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Name of the cookie of a session.
pub(crate) const COOKIE: &str = "plimsoll-session";
/// Header of the second secret.
pub(crate) const CSRF: &str = "x-plimsoll-csrf";
/// Longest address of a request.
const URI_MAX: usize = 4096;
/// Longest time of an answer, streams apart: only their beginning counts.
const ANSWER_TIME: Duration = Duration::from_secs(120);

/// Longest time for the body of a form, and for the list of a push.
const FORM_TIME: Duration = Duration::from_secs(10);
const LISTING_TIME: Duration = Duration::from_secs(60);

/// The same of what is pushed, where every wait for bytes has a limit of its own.
const PUSH_TIME: Duration = Duration::from_secs(6 * 3600);

/// Sources that a page of ours may load.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

fn header_of(headers: &HeaderMap, name: impl header::AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The key of the session that the cookie names.
pub(crate) fn session_key(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).into_iter();
    let mut pairs = cookies
        .filter_map(|all| all.to_str().ok())
        .flat_map(|all| all.split("; "));
    pairs.find_map(|pair| pair.strip_prefix(COOKIE)?.strip_prefix('='))
}

/// Looks at a request before anything else does, and puts what protects a page on the answer.
pub(crate) async fn guard(
    State(state): State<Arc<ServerState>>,
    request: Request,
    next: Next,
) -> Response {
    let answered = match check_place(&state, &request) {
        Err(error) => error.into_response(),
        Ok(()) => match tokio::time::timeout(answer_time(&request), next.run(request)).await {
            Ok(response) => response,
            Err(_) => RequestError::new(StatusCode::REQUEST_TIMEOUT, "the request took too long")
                .into_response(),
        },
    };
    protected(answered)
}

fn answer_time(request: &Request) -> Duration {
    match request.uri().path().starts_with("/api/v1/push") {
        true => PUSH_TIME,
        false => ANSWER_TIME,
    }
}

/// Whether it was meant for this server, and comes from no other page.
fn check_place(state: &ServerState, request: &Request) -> Result<(), RequestError> {
    if request.uri().to_string().len() > URI_MAX {
        return Err(RequestError::new(
            StatusCode::URI_TOO_LONG,
            "the address is too long",
        ));
    }
    check_path(request.uri().path())?;
    let headers = request.headers();
    let host = header_of(headers, header::HOST).unwrap_or_default();
    let origins = state.origins();
    let hosts = |origin: &String| {
        origin
            .split_once("://")
            .is_some_and(|(_, of)| of.eq_ignore_ascii_case(host))
    };
    if headers.get_all(header::HOST).iter().count() != 1 || !origins.iter().any(hosts) {
        let text = "this server does not answer under this name";
        return Err(RequestError::new(StatusCode::MISDIRECTED_REQUEST, text)
            .hint("use the address that it printed, or start it with --origin"));
    }
    if headers.contains_key(header::ORIGIN) {
        let origin = header_of(headers, header::ORIGIN).unwrap_or_default();
        if !origins
            .iter()
            .any(|known| known.eq_ignore_ascii_case(origin))
        {
            return Err(RequestError::forbidden(
                "the request comes from another page",
            ));
        }
    }
    let site = header_of(headers, "sec-fetch-site").unwrap_or("none");
    let is_read = request.method().is_safe();
    if !is_read && !matches!(site, "none" | "same-origin") {
        return Err(RequestError::forbidden(
            "the request comes from another page",
        ));
    }
    Ok(())
}

/// Refuses paths that can be written in two ways, so that the rule for a path and its handler read the same.
/// Only settings of stacks have letters that browsers encode.
fn check_path(path: &str) -> Result<(), RequestError> {
    match path.contains('%') && !path.starts_with("/api/v1/stacks/") {
        false => Ok(()),
        true => {
            let text = "the path has a percent sign, and no name of this server has one";
            Err(RequestError::new(StatusCode::BAD_REQUEST, text))
        }
    }
}

/// Lets in who has the token, or a session and its second secret.
///
/// A cookie alone is not enough: browsers send it to every port of a host, so any other server of pages on
/// this machine may come to know it. It suffices for what browsers open by themselves: streams, reports,
/// exported files.
pub(crate) async fn authorise(
    State(state): State<Arc<ServerState>>,
    request: Request,
    next: Next,
) -> Response {
    // A body cannot be shared while the database is asked.
    let (parts, body) = request.into_parts();
    match check_caller(&state, &parts).await {
        Ok(caller) => let_in(&state, caller, Request::from_parts(parts, body), next).await,
        Err(error) => error.into_response(),
    }
}

/// Carries out a request of a known user, and writes it down if it changes something.
async fn let_in(
    state: &Arc<ServerState>,
    mut caller: RequestCaller,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(peer) = request.extensions().get::<Arc<PeerConnection>>() {
        caller.from = peer.address.to_string();
        peer.belongs_to(&caller.name);
    }
    let (method, path) = (
        request.method().clone(),
        inner_path(request.uri()).to_owned(),
    );
    if let Err(error) = caller.check(&method, &path) {
        return error.into_response();
    }
    request.extensions_mut().insert(caller.clone());
    let answered = next.run(request).await;
    // Pushes, marks and shares are written down with what they change.
    let is_told = method.is_safe()
        || path.starts_with("/push")
        || path.starts_with("/history")
        || path.ends_with("/share");
    if let (false, Ok(team)) = (is_told, state.team()) {
        let entry = caller.entry(&format!("{method} {path}"), "", answered.status().as_str());
        if let Err(error) = team.database.note(&entry).await {
            (state.options.say)(&format!("the audit trail lacks {method} {path}: {error}"));
        }
    }
    answered
}

/// The address of a request without the beginning of the interface, which the router takes away.
fn inner_path(uri: &Uri) -> &str {
    let path = uri.path();
    path.strip_prefix("/api/v1").unwrap_or(path)
}

async fn check_caller(state: &ServerState, parts: &Parts) -> Result<RequestCaller, RequestError> {
    let headers = &parts.headers;
    if headers.contains_key(header::AUTHORIZATION) {
        return check_bearer(state, headers).await;
    }
    let found = session_key(headers).and_then(|key| state.sessions.find(key));
    let Some((csrf, token)) = found else {
        return Err(not_let_in());
    };
    // Browsers say where whatever changes something comes from; `check_place` compared it.
    let is_ours = header_of(headers, CSRF).is_some_and(|given| csrf.is(given));
    if !is_ours && !is_opened_by_browsers(parts) {
        return Err(RequestError::forbidden(format!(
            "the header {CSRF} is missing or wrong"
        )));
    }
    let Some(token) = token else {
        return Ok(RequestCaller::operator());
    };
    // A token that was revoked opens nothing, whenever the session began.
    let caller = state.team()?.database.caller_of_token(token).await?;
    caller.map(RequestCaller::from).ok_or_else(not_let_in)
}

/// `GET /api/v1/runs/ID/report`, `…/events`, `…/export/FORMAT` and their like.
fn is_opened_by_browsers(parts: &Parts) -> bool {
    let path = inner_path(&parts.uri);
    let words: Vec<&str> = path.split('/').skip(2).collect();
    parts.method.is_safe() && matches!(words[..], [_, "report" | "events"] | [_, "export", _])
}

/// Lets in only who sends the token itself.
pub(crate) async fn authorise_program(
    State(state): State<Arc<ServerState>>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    match check_bearer(&state, &parts.headers).await {
        Ok(caller) => let_in(&state, caller, Request::from_parts(parts, body), next).await,
        Err(error) => error.into_response(),
    }
}

async fn check_bearer(
    state: &ServerState,
    headers: &HeaderMap,
) -> Result<RequestCaller, RequestError> {
    let given =
        header_of(headers, header::AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
    match given {
        Some(given) => caller_of(state, given).await,
        None => Err(not_let_in()),
    }
}

/// Whose token it is. Wrong ones are counted, also where a program sends them.
pub(crate) async fn caller_of(
    state: &ServerState,
    given: &str,
) -> Result<RequestCaller, RequestError> {
    if state.token.is(given) {
        return Ok(RequestCaller::operator());
    }
    if let Ok(team) = state.team()
        && let Some(caller) = team.database.caller(given).await?
    {
        return Ok(caller.into());
    }
    match state.sessions.failed() {
        true => Err(
            RequestError::new(StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens")
                .hint("wait a minute"),
        ),
        false => Err(
            RequestError::new(StatusCode::UNAUTHORIZED, "the token is wrong")
                .hint("open the address that plimsoll serve printed"),
        ),
    }
}

pub(crate) fn not_let_in() -> RequestError {
    RequestError::new(StatusCode::UNAUTHORIZED, "no session, and no token")
        .hint("open the address that plimsoll serve printed")
}

fn protected(mut response: Response) -> Response {
    let fixed = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    let headers = response.headers_mut();
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // The page of a report has a policy of its own.
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static(POLICY));
    response
}

/// The run that the path names, decoded as the answer needs it.
impl FromRequestParts<Arc<ServerState>> for SeenRun {
    type Rejection = RequestError;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<ServerState>,
    ) -> Result<SeenRun, RequestError> {
        let named = Path::<BTreeMap<String, String>>::from_request_parts(parts, state).await;
        let id = named.ok().and_then(|Path(mut named)| named.remove("id"));
        let caller = parts
            .extensions
            .get::<RequestCaller>()
            .ok_or_else(not_let_in)?;
        state.seen(caller, &id.unwrap_or_default()).await
    }
}

/// A body of JSON; one that is empty is an empty object.
#[derive(Debug)]
pub(crate) struct JsonForm<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonForm<T> {
    type Rejection = RequestError;

    async fn from_request(request: Request, state: &S) -> Result<Self, RequestError> {
        let kind = header_of(request.headers(), header::CONTENT_TYPE).unwrap_or_default();
        let is_json = kind
            .split(';')
            .next()
            .is_some_and(|kind| kind.trim() == "application/json");
        let longest = match request.uri().path().ends_with("/push") {
            true => LISTING_TIME,
            false => FORM_TIME,
        };
        let body = axum::body::Bytes::from_request(request, state);
        let body = tokio::time::timeout(longest, body).await.map_err(|_| {
            RequestError::new(StatusCode::REQUEST_TIMEOUT, "the body took too long")
        })?;
        let body = body.map_err(|error| RequestError::new(error.status(), error.body_text()))?;
        if !is_json && !body.is_empty() {
            let text = "the body is not application/json";
            return Err(RequestError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        let text: &[u8] = if body.is_empty() { b"{}" } else { &body };
        let read = serde_json::from_slice(text);
        read.map(JsonForm).map_err(|error| {
            let text = plimsoll_core::text::printable(&error.to_string());
            RequestError::new(
                StatusCode::BAD_REQUEST,
                format!("the body cannot be read: {text}"),
            )
        })
    }
}

/// The query of an address.
#[derive(Debug)]
pub(crate) struct QueryForm<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryForm<T> {
    type Rejection = RequestError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, RequestError> {
        let read = Query::<T>::try_from_uri(&parts.uri);
        read.map(|Query(asked)| QueryForm(asked)).map_err(|error| {
            let text = plimsoll_core::text::printable(&error.body_text());
            RequestError::new(StatusCode::BAD_REQUEST, text)
        })
    }
}

/// A body that says nothing.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NothingForm {}
