// SPDX-License-Identifier: Apache-2.0
//! A run as lines of JSON, for programs that watch it. Their shape is in `docs/progress.md`.

use super::state::{RunProgressState, RunRates};
use plimsoll_core::event::{RunEvent, RunManifest, TrialResult};
use plimsoll_core::units::Nanos;
use serde_json::{Value, json};

/// The first line.
pub(super) fn began(manifest: &RunManifest, state: &RunProgressState) -> Value {
    let arms: Vec<&str> = manifest.arms.iter().map(|arm| &*arm.name).collect();
    let workloads: Vec<&str> = manifest.entries.iter().map(|entry| &*entry.label).collect();
    json!({
        "event": "began",
        "run": manifest.id,
        "trials_planned": state.planned,
        "arms": arms,
        "workloads": workloads,
    })
}

/// The line of an event, which the state has taken in, if it has one.
pub(super) fn line(event: &RunEvent, state: &RunProgressState) -> Option<Value> {
    let note = |about: &str, text: &str| json!({"event": "note", "about": about, "text": text});
    match event {
        RunEvent::Interval { interval, .. } => {
            let (trial, _) = state.now.as_ref()?;
            let rates = RunRates::of(&interval.stats, interval.length);
            Some(json!({
                "event": "second",
                "block": trial.block,
                "place": trial.place,
                "arm": trial.arm,
                "workload": trial.workload,
                "t_s": interval.start.as_secs_f64(),
                "length_s": interval.length.as_secs_f64(),
                "ops_per_s": rates.ops_per_s,
                "bytes_per_s": rates.bytes_per_s,
                "p50_s": rates.p50.map(Nanos::as_secs_f64),
                "p99_s": rates.p99.map(Nanos::as_secs_f64),
                "errors": interval.stats.errors(),
            }))
        }
        RunEvent::ConditioningBegan(start) => {
            Some(note("conditioning", &super::state::began(start)))
        }
        RunEvent::Conditioned(done) => Some(note("conditioning", &done.sentence())),
        RunEvent::TrialEnded(result) => Some(trial(result, state)),
        RunEvent::Warning(warning) => Some(note(&warning.about, &warning.text)),
        RunEvent::Designed(found) => Some(note("design", &found.forecast)),
        RunEvent::BlocksEnded(ended) => Some(note("", &ended.sentence())),
        RunEvent::Finished { interrupted, .. } => Some(json!({
            "event": "end",
            "interrupted": interrupted,
            "trials_done": state.done,
        })),
        RunEvent::TrialBegan(_) | RunEvent::Prepared { .. } => None,
    }
}

fn trial(result: &TrialResult, state: &RunProgressState) -> Value {
    let rates = RunRates::of(&result.stats, result.length);
    json!({
        "event": "trial",
        "block": result.trial.block,
        "place": result.trial.place,
        "arm": result.trial.arm,
        "workload": result.trial.workload,
        "trials_done": state.done,
        "trials_planned": state.planned,
        "length_s": result.length.as_secs_f64(),
        "interrupted": result.interrupted,
        "ops": result.stats.ops(),
        "ops_per_s": rates.ops_per_s,
        "bytes_per_s": rates.bytes_per_s,
        "p50_s": rates.p50.map(Nanos::as_secs_f64),
        "p99_s": rates.p99.map(Nanos::as_secs_f64),
        "errors": result.stats.errors(),
    })
}
