// SPDX-License-Identifier: Apache-2.0
//! Stacks: what the program says of them, and jobs that change them.

use super::jobs::started;
use super::{Answer, SharedState, answer};
use crate::answers::{StackFacts, StackNodeFacts, StackPlanFacts, StackStepFacts};
use crate::forms::{StackForm, change_args};
use crate::guard::{JsonForm, NothingForm};
use crate::jobs::JobSubject;
use crate::runs::command_line;
use axum::extract::{Path, State};
use serde_json::Value;

pub(super) async fn list(State(state): SharedState) -> Answer {
    let args = ["stack", "status", "--json"].map(String::from);
    let told = state.jobs.ask(&args).await?;
    let stacks = told
        .get("stacks")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    answer(stacks.iter().map(stack).collect::<Vec<_>>())
}

fn texts<'a>(of: &'a Value, name: &str) -> Vec<&'a str> {
    let all = of.get(name).and_then(Value::as_array);
    all.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// A stack as `stack status` tells of it.
fn stack(told: &Value) -> StackFacts {
    let (problems, degraded) = (texts(told, "problems"), texts(told, "degraded"));
    let is_standing = told
        .get("standing")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    let state = match (is_standing, problems.is_empty(), degraded.is_empty()) {
        (false, ..) => "unfinished",
        (true, false, _) => "failed",
        (true, true, false) => "degraded",
        (true, true, true) => "healthy",
    };
    let lines = texts(told, "told");
    let node = |name: &str| {
        // A server's lines begin with its name; a line about something it lacks contains it.
        let about = |lines: &[&str]| {
            lines
                .iter()
                .find(|line| names(line, name))
                .map(|line| (*line).to_owned())
        };
        let wrong = about(&problems).map(|text| ("failed", text));
        let wrong = wrong.or_else(|| about(&degraded).map(|text| ("degraded", text)));
        let (state, text) = wrong.unwrap_or_else(|| ("up", about(&lines).unwrap_or_default()));
        StackNodeFacts {
            name: name.to_owned(),
            state,
            text,
        }
    };
    let nodes = texts(told, "nodes").into_iter().map(node).collect();
    let mount = told
        .get("mount_dir")
        .and_then(Value::as_str)
        .filter(|dir| !dir.is_empty());
    let since = told
        .get("since")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let mut words = [problems, degraded, lines].concat();
    let begun = format!("since {since}");
    words.push(&begun);
    let name = told.get("name").and_then(Value::as_str);
    StackFacts {
        name: name.unwrap_or_default().to_owned(),
        state,
        nodes,
        outputs: mount.into_iter().map(str::to_owned).collect(),
        text: words.join("\n"),
    }
}

/// Whether a line has this name in it as a word.
fn names(line: &str, name: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_')
        .any(|word| word == name)
}

pub(super) async fn plan(State(state): SharedState, JsonForm(form): JsonForm<StackForm>) -> Answer {
    let offered = state.catalogue();
    let name = form.name(&offered)?;
    let told = state.jobs.ask(&form.args(true, &offered)?).await?;
    let steps = told
        .pointer("/would/0/plan/steps")
        .and_then(Value::as_array)
        .cloned();
    let step = |step: &Value| {
        let text = |name| step.get(name).and_then(Value::as_str);
        StackStepFacts {
            node: text("node").unwrap_or("this machine").to_owned(),
            why: text("why").unwrap_or_default().to_owned(),
        }
    };
    let steps: Vec<StackStepFacts> = steps.unwrap_or_default().iter().map(step).collect();
    let lines = steps
        .iter()
        .map(|step| format!("{} on {}", step.why, step.node));
    let text: Vec<String> = lines.collect();
    answer(StackPlanFacts {
        name,
        command: command_line(&typed(&form.args(false, &offered)?)),
        steps,
        text: text.join("\n"),
    })
}

/// A command with the program's name before it.
fn typed(args: &[String]) -> Vec<String> {
    let mut words = vec!["plimsoll".to_owned()];
    words.extend(args.iter().cloned());
    words
}

pub(super) async fn raise(
    State(state): SharedState,
    JsonForm(form): JsonForm<StackForm>,
) -> Answer {
    let offered = state.catalogue();
    let subject = JobSubject {
        stack: Some(form.name(&offered)?),
        run: None,
    };
    let job = state
        .jobs
        .start(&form.args(false, &offered)?, "", subject)?;
    started(&state, &job)
}

pub(super) async fn change(
    State(state): SharedState,
    Path((name, change)): Path<(String, String)>,
    JsonForm(NothingForm {}): JsonForm<NothingForm>,
) -> Answer {
    let offered = state.catalogue();
    let args = change_args(&name, &change, &offered)?;
    let subject = JobSubject {
        stack: Some(name),
        run: None,
    };
    let job = state.jobs.start(&args, "", subject)?;
    started(&state, &job)
}
