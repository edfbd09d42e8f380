// SPDX-License-Identifier: Apache-2.0
//! Pushes: a list, then the files that are missing, then the end, which is answered when nothing of it can be
//! lost any more. Each can be repeated at any time.

use super::{Answer, SharedState, answer, beside};
use crate::caller::RequestCaller;
use crate::error::RequestError;
use crate::guard::{JsonForm, NothingForm};
use crate::push::listing::{PushAnswer, PushListing};
use crate::push::store::{PushMark, PushStore, StagedFile, StagedPush};
use crate::state::ServerState;
use crate::team::TeamHistory;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use futures_util::StreamExt as _;
use plimsoll_core::units::size;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of a list: ten thousand files with long names.
pub(super) const LISTING_MAX: usize = 8 << 20;
/// Longest wait for the next bytes of a file.
const IDLE: Duration = Duration::from_secs(60);
/// Bytes of a file after which others get a turn.
const TURN: usize = 1 << 20;

type Caller = Extension<RequestCaller>;

/// Who pushes, and into what.
fn people<'a>(
    state: &'a ServerState,
    caller: &RequestCaller,
) -> Result<(&'a TeamHistory, i64), RequestError> {
    let team = state.team()?;
    let Some(owner_id) = caller.user_id else {
        let text = "the token of the server itself belongs to nobody whose run this could be";
        return Err(RequestError::new(StatusCode::FORBIDDEN, text)
            .hint("push with a token of a user: plimsoll team token add"));
    };
    Ok((team, owner_id))
}

fn is_digest(id: &str) -> bool {
    id.len() == 64
        && id
            .bytes()
            .all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
}

fn staged(
    team: &TeamHistory,
    owner_id: i64,
    id: &str,
) -> Result<(StagedPush, PushListing), RequestError> {
    let none = || {
        RequestError::not_found("there is no such push").hint("begin with the list of its files")
    };
    let staged = is_digest(id)
        .then(|| team.store.staged(owner_id, id))
        .ok_or_else(none)?;
    let listing = staged.listing().ok_or_else(none)?;
    Ok((staged, listing))
}

/// The answer where the run is acknowledged already.
async fn acknowledged(
    team: &TeamHistory,
    owner_id: i64,
    id: &str,
) -> Result<Option<PushAnswer>, RequestError> {
    let found = team.database.find_run(owner_id, id).await?;
    Ok(found.map(|run| PushAnswer {
        id: id.to_owned(),
        stored: true,
        folder: Some(run.folder),
        wanted: Vec::new(),
    }))
}

pub(super) async fn begin(
    State(state): SharedState,
    Extension(caller): Caller,
    JsonForm(listing): JsonForm<PushListing>,
) -> Answer {
    let (team, owner_id) = people(&state, &caller)?;
    if let Err(error) = listing.check(&team.limits) {
        let entry = caller.entry("push refused", &listing.run, &error.text);
        team.database.note(&entry).await?;
        return Err(error);
    }
    let id = listing.digest();
    if let Some(done) = acknowledged(team, owner_id, &id).await? {
        return answer(done);
    }
    let staged = team.store.staged(owner_id, &id);
    let stored = team.database.bytes_of(owner_id).await?;
    let all = stored
        .saturating_add(team.store.announced(owner_id, &staged))
        .saturating_add(listing.bytes());
    if all > team.limits.user_bytes {
        let most = size(team.limits.user_bytes as f64);
        let text = format!(
            "with this run you would store {}, and may store {most}",
            size(all as f64)
        );
        let entry = caller.entry("push refused", &listing.run, &text);
        team.database.note(&entry).await?;
        return Err(RequestError::new(StatusCode::PAYLOAD_TOO_LARGE, text)
            .hint("the server's limits are options of plimsoll serve"));
    }
    let name = PushStore::name(&caller.name, &listing);
    let is_kept = team.store.mark(&name).is_some_and(|mark| mark.digest == id);
    let wanted = beside(move || {
        staged.begin(&listing)?;
        Ok(if is_kept {
            Vec::new()
        } else {
            staged.wanted(&listing)
        })
    });
    answer(PushAnswer {
        id,
        stored: false,
        folder: None,
        wanted: wanted.await?,
    })
}

pub(super) async fn file(
    State(state): SharedState,
    Extension(caller): Caller,
    Path((id, number)): Path<(String, usize)>,
    body: Body,
) -> Answer {
    let (team, owner_id) = people(&state, &caller)?;
    let (staged, listing) = staged(team, owner_id, &id)?;
    let _turn = state
        .uploads
        .acquire()
        .await
        .map_err(RequestError::failed)?;
    let mut file = staged.receive(&listing, number)?;
    let mut parts = body.into_data_stream();
    let mut since = 0;
    loop {
        let part = tokio::time::timeout(IDLE, parts.next())
            .await
            .map_err(|_| {
                RequestError::new(StatusCode::REQUEST_TIMEOUT, "no more of the file came")
            })?;
        let Some(part) = part else { break };
        let part =
            part.map_err(|error| RequestError::invalid(format!("the file broke off: {error}")))?;
        file.take(&part)?;
        since += part.len();
        if since > TURN {
            since = 0;
            tokio::task::yield_now().await;
        }
    }
    beside(move || StagedFile::end(file)).await?;
    answer(json!({}))
}

pub(super) async fn commit(
    State(state): SharedState,
    Extension(caller): Caller,
    Path(id): Path<String>,
    JsonForm(NothingForm {}): JsonForm<NothingForm>,
) -> Answer {
    let (team, owner_id) = people(&state, &caller)?;
    if !is_digest(&id) {
        return Err(RequestError::not_found("there is no such push"));
    }
    let _turn = team.adding.take(&owner_id).await;
    if let Some(done) = acknowledged(team, owner_id, &id).await? {
        let staged = team.store.staged(owner_id, &id);
        forget(staged).await?;
        return answer(done);
    }
    let (staged, listing) = staged(team, owner_id, &id)?;
    let name = PushStore::name(&caller.name, &listing);
    let mark = PushMark {
        owner: caller.name.clone(),
        digest: id.clone(),
        revision: listing.revision.clone(),
        reference: listing.reference.clone(),
        is_shared: listing.shared,
        bytes: listing.bytes(),
    };
    // A server that was killed between both leaves the folder without its row.
    let is_kept = team.store.mark(&name).is_some_and(|kept| kept.digest == id);
    let kept = match is_kept {
        true => team
            .checked(&name, &mark.owner, mark.reference.as_deref())
            .await
            .map(drop),
        false => keep(&state, (staged.clone(), listing), (&name, &mark)).await,
    };
    if let Err(error) = kept {
        let entry = caller.entry("push refused", &name, &error.text);
        team.database.note(&entry).await?;
        return Err(error);
    }
    team.add(&name, &mark, &caller).await?;
    forget(staged).await?;
    answer(PushAnswer {
        id,
        stored: true,
        folder: Some(name),
        wanted: Vec::new(),
    })
}

async fn forget(staged: StagedPush) -> Result<(), RequestError> {
    beside(move || {
        staged.forget();
        Ok(())
    })
    .await
}

/// Checks a run that is there whole, and gives it its name in the store. One that cannot be read leaves
/// nothing.
async fn keep(
    state: &Arc<ServerState>,
    (staged, listing): (StagedPush, PushListing),
    (name, mark): (&str, &PushMark),
) -> Result<(), RequestError> {
    let of = staged.clone();
    let wanted = beside(move || Ok((of.wanted(&listing).len(), listing)));
    let (wanted, listing) = wanted.await?;
    if wanted > 0 {
        let text = format!("{wanted} files of the push are missing");
        return Err(RequestError::conflict(text).hint("send them, or push again"));
    }
    let (folder, reference) = (staged.inner(), mark.reference.as_deref());
    let read = state.team()?.checked(&folder, &mark.owner, reference);
    let refused = match read.await {
        Ok(name) if name == listing.run => None,
        Ok(_) => {
            let text = "the manifest of the run has another identifier than its list";
            Some(RequestError::invalid(text))
        }
        Err(error) => Some(error),
    };
    match refused {
        None => {
            let (state, name, mark) = (Arc::clone(state), name.to_owned(), mark.clone());
            beside(move || state.team()?.store.keep(&staged, &name, &mark)).await
        }
        Some(error) => {
            // One that could not be looked at now may be looked at later.
            if error.status == StatusCode::UNPROCESSABLE_ENTITY {
                forget(staged).await?;
            }
            Err(error)
        }
    }
}
