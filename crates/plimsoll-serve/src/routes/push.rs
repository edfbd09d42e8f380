// SPDX-License-Identifier: Apache-2.0
//! Pushes: a list, then the files that are missing, then the end, which is answered when nothing of it can be
//! lost any more. Each can be repeated at any time.

use super::{Answer, SharedState, answer, beside};
use crate::caller::RequestCaller;
use crate::error::RequestError;
use crate::guard::{JsonForm, NothingForm};
use crate::push::listing;
use crate::push::store::{PushMark, PushStore, StagedFile, StagedPush};
use crate::state::ServerState;
use crate::team::TeamHistory;
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use futures_util::{Stream, StreamExt as _};
use plimsoll_core::units::size;
use plimsoll_history::{HistoryRun, RunFigures};
use plimsoll_remote::listing::{PushAnswer, PushListing};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Most bytes of a list: ten thousand files with long names.
pub(super) const LISTING_MAX: usize = 8 << 20;
/// How slowly a file may come.
const PACE: UploadPace = UploadPace {
    idle: Duration::from_secs(30),
    grace: Duration::from_secs(30),
    least_rate: 16 << 10,
};
/// Most pushes that a user has begun, and when one counts as given up.
const BEGUN_MAX: usize = 16;
const ABANDONED: Duration = Duration::from_secs(3600);
/// Bytes of a file after which others get a turn.
const TURN: usize = 1 << 20;

type Caller = Extension<RequestCaller>;

/// How slowly bytes may come.
#[derive(Debug, Clone, Copy)]
struct UploadPace {
    /// Longest wait for the next ones.
    idle: Duration,
    /// The time that there is whatever comes.
    grace: Duration,
    /// Those that must come in each second beyond it.
    least_rate: u64,
}

/// Parts of a body that must not come more slowly.
#[derive(Debug)]
struct PacedBody<S> {
    parts: S,
    pace: UploadPace,
    began: Instant,
    taken: u64,
}

impl<S, E> PacedBody<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::fmt::Display,
{
    fn new(parts: S, pace: UploadPace) -> Self {
        PacedBody {
            parts,
            pace,
            began: Instant::now(),
            taken: 0,
        }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, RequestError> {
        let earned = Duration::from_secs_f64(self.taken as f64 / self.pace.least_rate as f64);
        let until = self.began + self.pace.grace + earned;
        let wait = until.saturating_duration_since(Instant::now());
        let part = tokio::time::timeout(self.pace.idle.min(wait), self.parts.next())
            .await
            .map_err(|_| {
                RequestError::new(StatusCode::REQUEST_TIMEOUT, "too little of the file came")
            })?;
        let part = part
            .transpose()
            .map_err(|error| RequestError::invalid(format!("the file broke off: {error}")))?;
        self.taken += part.as_ref().map_or(0, |part| part.len() as u64);
        Ok(part)
    }
}

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

async fn staged(
    state: &Arc<ServerState>,
    owner_id: i64,
    id: &str,
) -> Result<(StagedPush, PushListing), RequestError> {
    let none = || {
        RequestError::not_found("there is no such push").hint("begin with the list of its files")
    };
    if !is_digest(id) {
        return Err(none());
    }
    let staged = state.team()?.store.staged(owner_id, id);
    beside(move || Ok((staged.listing().ok_or_else(none)?, staged)))
        .await
        .map(|(listing, staged)| (staged, listing))
}

/// Whether a folder of the store is the run of this digest, byte by byte.
async fn is_whole(state: &Arc<ServerState>, name: &str, id: &str) -> Result<bool, RequestError> {
    let (at, name, id) = (Arc::clone(state), name.to_owned(), id.to_owned());
    beside(move || Ok(at.team()?.store.is_whole(&name, &id))).await
}

/// The answer where the run is acknowledged already: the database has it, and the store all of its bytes.
async fn acknowledged(
    state: &Arc<ServerState>,
    known: Option<&HistoryRun>,
    id: &str,
) -> Result<Option<PushAnswer>, RequestError> {
    let Some(run) = known else {
        return Ok(None);
    };
    let is_whole = is_whole(state, &run.folder, id).await?;
    Ok(is_whole.then(|| PushAnswer {
        id: id.to_owned(),
        stored: true,
        folder: Some(run.folder.clone()),
        wanted: Vec::new(),
    }))
}

pub(super) async fn begin(
    State(state): SharedState,
    Extension(caller): Caller,
    JsonForm(listing): JsonForm<PushListing>,
) -> Answer {
    let (team, owner_id) = people(&state, &caller)?;
    let limits = team.limits;
    let checked = beside(move || {
        let checked = listing::check(&listing, &limits).map(|()| listing.digest());
        Ok((checked, listing))
    });
    let (checked, listing) = checked.await?;
    let id = match checked {
        Ok(id) => id,
        Err(error) => return Err(refuse(team, &caller, &listing.run, error).await?),
    };
    // Reading a store takes a while: of each user it is done once at a time.
    let _turn = team.adding.take(&owner_id).await;
    let known = team.database.find_run(owner_id, &id).await?;
    if let Some(done) = acknowledged(&state, known.as_ref(), &id).await? {
        forget(team.store.staged(owner_id, &id)).await?;
        return answer(done);
    }
    if let Err(error) = make_room(&state, owner_id, &id, listing::takes(&listing)).await {
        return Err(refuse(team, &caller, &listing.run, error).await?);
    }
    let staged = team.store.staged(owner_id, &id);
    let is_kept = is_whole(&state, &PushStore::name(&caller.name, &listing), &id).await?;
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

/// Writes down why a push was refused.
async fn refuse(
    team: &TeamHistory,
    caller: &RequestCaller,
    run: &str,
    error: RequestError,
) -> Result<RequestError, RequestError> {
    let entry = caller.entry("push refused", run, &error.text);
    team.database.note(&entry).await?;
    Ok(error)
}

/// Refuses a push with which a user would store, or have begun, too much. A push whose run is stored does not
/// count as begun. When too many are begun, the oldest goes if it was abandoned.
async fn make_room(
    state: &Arc<ServerState>,
    owner_id: i64,
    id: &str,
    takes: u64,
) -> Result<(), RequestError> {
    let team = state.team()?;
    let at = Arc::clone(state);
    let begun = beside(move || {
        let mut begun = at.team()?.store.begun();
        begun.retain(|push| push.owner_id == owner_id);
        Ok(begun)
    });
    let mut open = Vec::new();
    for push in begun.await?.into_iter().filter(|push| push.digest != id) {
        match team.database.find_run(owner_id, &push.digest).await? {
            None => open.push(push),
            Some(_) if push.age > ABANDONED => forget(push.staged).await?,
            Some(_) => {}
        }
    }
    open.sort_by_key(|push| push.age);
    if open.len() >= BEGUN_MAX {
        match open.pop().filter(|oldest| oldest.age > ABANDONED) {
            Some(oldest) => forget(oldest.staged).await?,
            None => {
                let text = format!("you have begun {BEGUN_MAX} pushes, which is the most at once");
                return Err(RequestError::new(StatusCode::TOO_MANY_REQUESTS, text)
                    .hint("end them, or wait an hour"));
            }
        }
    }
    let announced = beside(move || {
        let listings = open.iter().filter_map(|push| push.staged.listing());
        Ok(listings.fold(0, |sum: u64, listing| {
            sum.saturating_add(listing::takes(&listing))
        }))
    });
    let stored = team.database.bytes_of(owner_id).await?;
    let all = stored
        .saturating_add(announced.await?)
        .saturating_add(takes);
    if all <= team.limits.user_bytes {
        return Ok(());
    }
    let most = size(team.limits.user_bytes as f64);
    let text = format!(
        "with this run you would store {}, and may store {most}",
        size(all as f64)
    );
    Err(RequestError::new(StatusCode::PAYLOAD_TOO_LARGE, text)
        .hint("the server's limits are options of plimsoll serve"))
}

pub(super) async fn file(
    State(state): SharedState,
    Extension(caller): Caller,
    Path((id, number)): Path<(String, usize)>,
    body: Body,
) -> Answer {
    let (_, owner_id) = people(&state, &caller)?;
    let _turn = state.uploads.take(&owner_id).await;
    let (staged, listing) = staged(&state, owner_id, &id).await?;
    let mut file = beside(move || staged.receive(&listing, number)).await?;
    let mut parts = PacedBody::new(body.into_data_stream(), PACE);
    let mut since = 0;
    while let Some(part) = parts.next().await? {
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
    let known = team.database.find_run(owner_id, &id).await?;
    if let Some(done) = acknowledged(&state, known.as_ref(), &id).await? {
        forget(team.store.staged(owner_id, &id)).await?;
        return answer(done);
    }
    let (staged, listing) = staged(&state, owner_id, &id).await?;
    let name = PushStore::name(&caller.name, &listing);
    let mark = PushMark {
        owner: caller.name.clone(),
        digest: id.clone(),
        revision: listing.revision.clone(),
        reference: listing.reference.clone(),
        // Who sees a run that is brought back was said before.
        is_shared: known.as_ref().map_or(listing.shared, |run| run.is_shared),
        bytes: listing::takes(&listing),
    };
    let push = WholePush {
        staged: staged.clone(),
        listing,
        name: name.clone(),
        mark: mark.clone(),
        is_known: known.is_some_and(|run| run.folder == name),
    };
    // A server that was killed between both leaves the folder without its row.
    let kept = match is_whole(&state, &name, &id).await? {
        true => {
            team.figures(&name, &mark.owner, mark.reference.as_deref())
                .await
        }
        false => keep(&state, push).await,
    };
    let figures = match kept {
        Ok(figures) => figures,
        Err(error) => return Err(refuse(team, &caller, &name, error).await?),
    };
    team.add(&name, &mark, &figures, &caller).await?;
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

/// A run that is to be kept, and under which name.
struct WholePush {
    staged: StagedPush,
    listing: PushListing,
    name: String,
    mark: PushMark,
    /// Whether the database says that it is there.
    is_known: bool,
}

/// Checks a run that is there whole, and gives it its name in the store. One that cannot be read leaves
/// nothing. Gives its figures.
async fn keep(state: &Arc<ServerState>, push: WholePush) -> Result<RunFigures, RequestError> {
    let WholePush {
        staged,
        listing,
        name,
        mark,
        is_known,
    } = push;
    let of = staged.clone();
    let wanted = beside(move || Ok((of.wanted(&listing).len(), listing)));
    let (wanted, listing) = wanted.await?;
    if wanted > 0 {
        let text = format!("{wanted} files of the push are missing");
        return Err(RequestError::conflict(text).hint("send them, or push again"));
    }
    let (folder, reference) = (staged.inner(), mark.reference.as_deref());
    let read = state.team()?.figures(&folder, &mark.owner, reference);
    let read = read.await.and_then(|figures| {
        let text = "the manifest of the run has another identifier than its list";
        let is_same = figures.name == listing.run;
        is_same
            .then_some(figures)
            .ok_or_else(|| RequestError::invalid(text))
    });
    match read {
        Ok(figures) => {
            let state = Arc::clone(state);
            beside(move || state.team()?.store.keep(&staged, &name, &mark, is_known)).await?;
            Ok(figures)
        }
        Err(error) => {
            // One that could not be looked at now may be looked at later.
            if error.status == StatusCode::UNPROCESSABLE_ENTITY {
                forget(staged).await?;
            }
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use std::convert::Infallible;

    const SHORT: UploadPace = UploadPace {
        idle: Duration::from_secs(20),
        grace: Duration::from_millis(300),
        least_rate: 10_000,
    };

    /// The outcome of a hundred parts of this size, one every 10 ms.
    async fn came(part_bytes: usize) -> (u64, Result<(), StatusCode>) {
        let parts = stream::unfold(0, |number| async move {
            if number == 100 {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            let part: Result<Bytes, Infallible> = Ok(vec![0; part_bytes].into());
            Some((part, number + 1))
        });
        let mut body = PacedBody::new(Box::pin(parts), SHORT);
        loop {
            match body.next().await {
                Ok(Some(_)) => {}
                Ok(None) => return (body.taken, Ok(())),
                Err(error) => return (body.taken, Err(error.status)),
            }
        }
    }

    /// A hundred bytes in a second keep no upload open, although none of them is waited for long; what is
    /// fast enough comes whole, although it takes as long.
    #[test]
    fn what_comes_too_slowly_ends_although_it_never_pauses() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let (taken, end) = runtime.block_on(came(1));
        assert_eq!(end, Err(StatusCode::REQUEST_TIMEOUT));
        assert!(taken < 100, "{taken}");
        let (taken, end) = runtime.block_on(came(10_000));
        assert_eq!((taken, end), (1_000_000, Ok(())));
    }
}
