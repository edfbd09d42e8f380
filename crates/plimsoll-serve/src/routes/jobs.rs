// SPDX-License-Identifier: Apache-2.0
//! Jobs, shown and stopped.

use super::{Answer, Shared, answer, answer_with};
use crate::guard::{JsonForm, NothingForm};
use crate::jobs::{JobFacts, ServerJob};
use crate::state::ServerState;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use std::sync::Arc;

/// A job as it is shown: its run is named once it can be looked at.
pub(super) fn facts(state: &ServerState, job: &ServerJob) -> JobFacts {
    let mut facts = state.jobs.facts(job);
    facts.run = facts.run.filter(|run| state.runs.find(run).is_ok());
    facts
}

/// A job that was just started.
pub(super) fn started(state: &ServerState, job: &Arc<ServerJob>) -> Answer {
    answer_with(StatusCode::ACCEPTED, facts(state, job))
}

pub(super) async fn list(State(state): Shared) -> Answer {
    let all: Vec<JobFacts> = state
        .jobs
        .all()
        .iter()
        .map(|job| facts(&state, job))
        .collect();
    answer(all)
}

pub(super) async fn show(State(state): Shared, Path(id): Path<String>) -> Answer {
    let job = state.jobs.find(&id)?;
    answer(facts(&state, &job))
}

pub(super) async fn stop(
    State(state): Shared,
    Path(id): Path<String>,
    JsonForm(NothingForm {}): JsonForm<NothingForm>,
) -> Answer {
    let job = state.jobs.find(&id)?;
    job.stop();
    answer(facts(&state, &job))
}
