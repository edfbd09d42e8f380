// SPDX-License-Identifier: Apache-2.0
//! Sessions of pages: the token is exchanged for one, so that it need not be kept by the browser.

use super::{Answer, SharedState, answer};
use crate::error::RequestError;
use crate::guard::{COOKIE, CSRF, JsonForm, NothingForm, caller_of, not_let_in, session_key};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use serde::Deserialize;
use serde_json::json;

/// The token that lets a page in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenForm {
    token: String,
}

pub(super) async fn begin(
    State(state): SharedState,
    JsonForm(form): JsonForm<TokenForm>,
) -> Answer {
    let caller = caller_of(&state, &form.token).await?;
    let (key, csrf) = state
        .sessions
        .begin(caller.token_id)
        .map_err(RequestError::failed)?;
    let secure = if state.options.tls.is_some() {
        "; Secure"
    } else {
        ""
    };
    let cookie = format!(
        "{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict{secure}",
        key.reveal()
    );
    let mut told = answer(json!({ "csrf": csrf.reveal() }))?;
    let cookie = HeaderValue::from_str(&cookie).map_err(RequestError::failed)?;
    told.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(told)
}

pub(super) async fn show(State(state): SharedState, headers: HeaderMap) -> Answer {
    let found = session_key(&headers).and_then(|key| state.sessions.find(key));
    let csrf = found.map(|(csrf, _)| csrf);
    // Only a client that has the secret already gets a yes: the cookie may be known to others.
    let given = headers.get(CSRF).and_then(|given| given.to_str().ok());
    match csrf.zip(given).is_some_and(|(csrf, given)| csrf.is(given)) {
        true => answer(json!({})),
        false => Err(not_let_in()),
    }
}

pub(super) async fn end(
    State(state): SharedState,
    headers: HeaderMap,
    JsonForm(NothingForm {}): JsonForm<NothingForm>,
) -> Answer {
    let key = session_key(&headers).unwrap_or_default();
    let (csrf, _) = state.sessions.find(key).ok_or_else(not_let_in)?;
    let given = headers.get(CSRF).and_then(|given| given.to_str().ok());
    if !given.is_some_and(|given| csrf.is(given)) {
        return Err(RequestError::forbidden(
            "the header x-plimsoll-csrf is missing or wrong",
        ));
    }
    state.sessions.end(key);
    answer(json!({}))
}
