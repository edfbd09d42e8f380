// SPDX-License-Identifier: Apache-2.0
//! Runs, shown, started and resumed.

use super::jobs::started;
use super::{Answer, SharedState, answer, beside};
use crate::answers::{RunArmFacts, RunDetailFacts, RunSectionsFacts, RunSeriesFacts};
use crate::caller::RequestCaller;
use crate::columns::SecondMetric;
use crate::drawing::{DrawnKind, DrawnPiece, DrawnReport};
use crate::error::RequestError;
use crate::forms::{RunForm, resumed_args};
use crate::guard::{JsonForm, NothingForm, QueryForm};
use crate::jobs::JobSubject;
use crate::runs::{OpenRun, RunListQuery, RunState};
use crate::seen::SeenRun;
use crate::state::ServerState;
use crate::sync::locked;
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::IntoResponse;
use plimsoll_report::ReportExportFormat;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Most points of a curve, and the default.
const POINTS_MAX: usize = 10_000;
const POINTS: usize = 1000;
/// How long the first picture of a run waits for it to be read whole.
const FIRST_LOOK: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_millis(10);
/// How long a list waits for answers that no list had before, and how long they are worked out beside it:
/// the next list has them.
const ANSWERS_WAIT: Duration = Duration::from_millis(30);
const ANSWERS_TIME: Duration = Duration::from_secs(2);
/// Colours of arms in reports, whose classes are `c0`, `c1` and so on.
const COLOURS: usize = 8;

/// The page of a report runs its own script and nothing else; as a page of nowhere it has no session.
const REPORT_POLICY: &str = "sandbox allow-scripts allow-downloads allow-popups; default-src 'none'; \
    style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'self'";

/// Which part of the seconds is wanted.
#[derive(Debug, Deserialize)]
pub(super) struct SeriesQuery {
    metric: SecondMetric,
    from: Option<f64>,
    to: Option<f64>,
    points: Option<usize>,
}

/// Which runs are held against each other.
#[derive(Debug, Deserialize)]
pub(super) struct DiffQuery {
    base: String,
    with: String,
}

pub(super) async fn list(
    State(state): SharedState,
    Extension(caller): Extension<RequestCaller>,
    QueryForm(query): QueryForm<RunListQuery>,
) -> Answer {
    let seen = state.seen_by(caller.clone()).await?;
    let runs = Arc::clone(&state.runs);
    let mut page = beside(move || Ok(runs.page(seen, &query))).await?;
    let lacking: Vec<SeenRun> = page
        .runs
        .iter()
        .filter(|listed| listed.lacks_answer)
        .map(|listed| listed.run.clone())
        .collect();
    fill_answers(&state, caller, lacking).await;
    for listed in page.runs.iter_mut().filter(|listed| listed.lacks_answer) {
        listed.facts.answer = state.runs.known_answer(&listed.run);
    }
    answer(page.facts())
}

/// Begins to find out what the reports of some runs say, and waits a little for it. It goes on where it is
/// not waited for any longer.
async fn fill_answers(state: &Arc<ServerState>, caller: RequestCaller, lacking: Vec<SeenRun>) {
    let filled = tokio::spawn(find_answers(Arc::clone(state), caller, lacking));
    let _ = tokio::time::timeout(ANSWERS_WAIT, filled).await;
}

/// Finds out what the reports of some runs say, for a while. Of each user one such search goes on.
async fn find_answers(state: Arc<ServerState>, caller: RequestCaller, lacking: Vec<SeenRun>) {
    let Some(_turn) = state.glances.try_take(&caller.name) else {
        return;
    };
    let began = tokio::time::Instant::now();
    for run in lacking {
        if began.elapsed() > ANSWERS_TIME {
            return;
        }
        find_answer(&state, &caller, &run).await;
    }
}

/// Finds out what the report of a run says; also that it says nothing is kept.
async fn find_answer(state: &ServerState, caller: &RequestCaller, run: &SeenRun) {
    let bytes = state.runs.events_bytes(run);
    if let Err(error) = drawn(state, caller, run, DrawnKind::Answer).await
        && error.status != StatusCode::SERVICE_UNAVAILABLE
    {
        state.runs.remember(run, bytes, None);
    }
}

/// A part of the report of a run. What it says is kept for lists.
async fn drawn(
    state: &ServerState,
    caller: &RequestCaller,
    run: &SeenRun,
    kind: DrawnKind,
) -> Result<DrawnReport, RequestError> {
    state.runs.find(run.id())?;
    let bytes = state.runs.events_bytes(run);
    let piece = DrawnPiece::of_run(kind, run);
    let text = state.drawings.draw(&caller.name, piece).await?;
    let read = beside(move || serde_json::from_slice(&text).map_err(RequestError::failed));
    let drawn: DrawnReport = read.await?;
    state.runs.remember(run, bytes, drawn.answer.clone());
    Ok(drawn)
}

pub(super) async fn show(
    State(state): SharedState,
    Extension(caller): Extension<RequestCaller>,
    run: SeenRun,
) -> Answer {
    let (runs, of) = (Arc::clone(&state.runs), run.clone());
    let mut listed = beside(move || runs.facts(&of)).await?;
    // Its process gives the folder free a little before it ends, and nothing resumes the run until then.
    if listed.facts.state == RunState::Stopped && state.jobs.is_at_work_on(run.id()) {
        listed.facts.state = RunState::Running;
    }
    if listed.lacks_answer {
        fill_answers(&state, caller, vec![run.clone()]).await;
        listed.facts.answer = state.runs.known_answer(&run);
    }
    let open = state.runs.open(&run).await?;
    wait_for_whole(&open).await;
    let board = locked(&open.board);
    let entries = board.manifest().entries.iter();
    let told = RunDetailFacts {
        run: listed.facts,
        progress: board.progress(),
        arms: arms(board.manifest()),
        workloads: entries.map(|entry| entry.label.clone()).collect(),
        job: state.jobs.of_run(run.id()),
    };
    drop(board);
    answer(told)
}

/// The arms with their colours, as reports give them: a control has that of its arm.
fn arms(manifest: &plimsoll_core::event::RunManifest) -> Vec<RunArmFacts> {
    let systems: Vec<&str> = manifest
        .arms
        .iter()
        .filter(|arm| arm.control_of.is_none())
        .map(|arm| arm.name.as_str())
        .collect();
    let told = |arm: &plimsoll_core::event::ArmEntry| {
        let of = arm.control_of.as_deref().unwrap_or(&arm.name);
        let place = systems.iter().position(|name| *name == of).unwrap_or(0);
        RunArmFacts {
            name: arm.name.clone(),
            colour: format!("c{}", place % COLOURS),
            control: arm.control_of.is_some(),
        }
    };
    manifest.arms.iter().map(told).collect()
}

/// Waits a little while for a run that is being read for the first time, and a little longer for its
/// beginning.
async fn wait_for_whole(run: &OpenRun) {
    let began = tokio::time::Instant::now();
    let is_enough = || match run.share_read() {
        read if read >= 1.0 => true,
        read if read > 0.0 => began.elapsed() > FIRST_LOOK,
        _ => began.elapsed() > 2 * FIRST_LOOK,
    };
    while !is_enough() {
        tokio::time::sleep(LOOK).await;
    }
}

pub(super) async fn sections(
    State(state): SharedState,
    Extension(caller): Extension<RequestCaller>,
    run: SeenRun,
) -> Answer {
    let drawn = drawn(&state, &caller, &run, DrawnKind::Sections).await?;
    let told = RunSectionsFacts {
        answer: drawn.page,
        sections: drawn.parts,
    };
    beside(move || answer(told)).await
}

pub(super) async fn report(
    State(state): SharedState,
    Extension(caller): Extension<RequestCaller>,
    run: SeenRun,
) -> Answer {
    let drawn = drawn(&state, &caller, &run, DrawnKind::Report).await?;
    let kind = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, REPORT_POLICY),
    ];
    Ok((kind, drawn.page).into_response())
}

pub(super) async fn series(
    State(state): SharedState,
    run: SeenRun,
    QueryForm(query): QueryForm<SeriesQuery>,
) -> Answer {
    let open = state.runs.open(&run).await?;
    wait_for_whole(&open).await;
    let board = locked(&open.board);
    let full = board.end_s();
    let from = query
        .from
        .filter(|from| from.is_finite())
        .unwrap_or(0.0)
        .clamp(0.0, full);
    let to = query
        .to
        .filter(|to| to.is_finite())
        .unwrap_or(full)
        .clamp(from, full);
    let points = query.points.unwrap_or(POINTS).clamp(2, POINTS_MAX);
    let series = board.points(query.metric, (from, to), points);
    drop(board);
    answer(RunSeriesFacts {
        from_s: from,
        to_s: to,
        full_to_s: full,
        quantity: query.metric.quantity(),
        read: open.share_read(),
        series,
    })
}

pub(super) async fn export(
    State(state): SharedState,
    Extension(caller): Extension<RequestCaller>,
    run: SeenRun,
    Path((id, format)): Path<(String, String)>,
) -> Answer {
    let format = ReportExportFormat::named(&format).ok_or_else(|| {
        let names: Vec<&str> = ReportExportFormat::ALL
            .iter()
            .map(|known| known.name())
            .collect();
        RequestError::not_found("there is no such format")
            .hint(format!("there are {}", names.join(", ")))
    })?;
    state.runs.find(run.id())?;
    let piece = DrawnPiece::of_run(DrawnKind::Export(format.name().to_owned()), &run);
    let bytes = state.drawings.draw(&caller.name, piece).await?;
    let name = format!("attachment; filename=\"{id}{}\"", format.suffix());
    let kind: [(HeaderName, String); 2] = [
        (header::CONTENT_TYPE, format.media_type().to_owned()),
        (header::CONTENT_DISPOSITION, name),
    ];
    Ok((kind, bytes).into_response())
}

pub(super) async fn diff(
    State(state): SharedState,
    Extension(caller): Extension<RequestCaller>,
    QueryForm(query): QueryForm<DiffQuery>,
) -> Answer {
    let base = state.seen(&caller, &query.base).await?;
    let with = state.seen(&caller, &query.with).await?;
    for run in [&base, &with] {
        state.runs.find(run.id())?;
    }
    let drawn = state
        .drawings
        .draw(&caller.name, DrawnPiece::diff(&base, &with));
    let html = String::from_utf8(drawn.await?).map_err(RequestError::failed)?;
    beside(move || answer(json!({ "html": html }))).await
}

pub(super) async fn start(State(state): SharedState, JsonForm(form): JsonForm<RunForm>) -> Answer {
    let id = state.new_run();
    let folder = state.runs.folder().join(&id);
    let (args, campaign) = form.args(&folder, &state.catalogue())?;
    let subject = JobSubject {
        run: Some(id),
        stack: None,
    };
    started(&state, &state.jobs.start(&args, &campaign, subject)?)
}

pub(super) async fn resume(
    State(state): SharedState,
    run: SeenRun,
    JsonForm(NothingForm {}): JsonForm<NothingForm>,
) -> Answer {
    if state
        .team()
        .is_ok_and(|team| team.store.is_marked(run.id()))
    {
        let text = "a run that was pushed is not resumed here";
        return Err(RequestError::conflict(text).hint("resume it where it was measured"));
    }
    let offered = state.catalogue();
    let runs = Arc::clone(&state.runs);
    let of = run.clone();
    let (listed, campaign) = beside(move || Ok((runs.facts(&of)?, runs.campaign(&of)?))).await?;
    match listed.facts.state {
        RunState::Running => return Err(RequestError::conflict("the run goes on")),
        RunState::Complete => return Err(RequestError::conflict("the run is complete")),
        RunState::Stopped => {}
    }
    let refused = |why: &str| {
        let text = format!("this run is not resumed here: {why}");
        RequestError::conflict(text).hint("type its command again, with -o and its folder")
    };
    let spec = campaign.ok_or_else(|| refused("an older version began it"))?;
    let folder = state.runs.folder().join(run.id());
    let args = resumed_args(&spec, &folder, &offered);
    let (args, campaign) = args.map_err(|error| refused(&error.text))?;
    let subject = JobSubject {
        run: Some(run.id().to_owned()),
        stack: None,
    };
    started(&state, &state.jobs.start(&args, &campaign, subject)?)
}
