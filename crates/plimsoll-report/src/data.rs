// SPDX-License-Identifier: Apache-2.0
//! The machine-readable part of a report: numbers in base units, without the histograms and the
//! recorded envelopes, which the run folder keeps.

use plimsoll_core::comparison::ArmComparison;
use plimsoll_core::event::ClientLoadNodeResult;
use plimsoll_core::event::{PhaseResult, RunFolderContents, TrialResult};
use plimsoll_core::histogram::Histogram;
use serde_json::{Value, json};

/// One JSON document, with what was computed beside the comparisons; field names carry their unit.
pub(crate) fn json<'a>(
    results: &RunFolderContents,
    comparisons: impl Iterator<Item = &'a ArmComparison>,
    beside: [(&str, Value); 5],
) -> String {
    let manifest = &results.manifest;
    let entries: Vec<Value> = manifest
        .entries
        .iter()
        .map(|e| {
            json!({
                "label": e.label,
                "scale": e.scale,
                "length_ns": e.length,
                "workload": e.workload.name(),
                "data_set_bytes": e.workload.data_set_bytes(),
                "direct": e.workload.is_direct(),
                "inject": e.inject,
                "condition": e.condition,
                "load_line": e.load_line,
                "client": e.client,
                "load_loop": e.load_loop,
            })
        })
        .collect();
    let mut document = json!({
        "format": manifest.format,
        "program": manifest.program,
        "id": manifest.id,
        "began_at": manifest.began_at,
        "command": manifest.command,
        "seed": manifest.seed,
        "policy": manifest.policy,
        "machine": manifest.machine,
        "versions": manifest.versions,
        "arms": manifest.arms,
        "entries": entries,
        "blocks": manifest.blocks,
        "design": manifest.design,
        "conditioning": manifest.conditioning,
        "trial_bytes": manifest.trial_bytes,
        "load_nodes": manifest.load_nodes,
        "complete": results.complete,
        "warnings": results.warnings,
        "comparisons": comparisons.collect::<Vec<_>>(),
    });
    for (key, value) in beside {
        document[key] = value;
    }
    add_trials(&mut document, &results.trials);
    document.to_string()
}

/// Most bytes of the whole, as far as trials have a say in it: a page is to be sent.
const BYTES_MAX: usize = 300_000;

/// The trials, as many as there is room for, and how many are left to the exports.
fn add_trials(document: &mut Value, all: &[TrialResult]) {
    let mut room = BYTES_MAX.saturating_sub(document.to_string().len());
    let fits = |told: &Value| {
        let length = told.to_string().len() + 1;
        let is_inside = length <= room;
        room = room.saturating_sub(length);
        is_inside
    };
    let trials: Vec<Value> = all.iter().map(trial).take_while(fits).collect();
    if trials.len() < all.len() {
        document["trials_left_out"] = json!(all.len() - trials.len());
    }
    document["trials"] = Value::Array(trials);
}

fn trial(of: &TrialResult) -> Value {
    json!({
        "block": of.trial.block,
        "place": of.trial.place,
        "arm": of.trial.arm,
        "workload": of.trial.workload,
        "length_ns": of.length,
        "prepare_ns": of.prepare,
        "interrupted": of.interrupted,
        "data_check": of.data_check,
        "operations": of.stats.ops(),
        "bytes": of.stats.bytes(),
        "errors": of.stats.errors(),
        "response_ns": times(&of.stats.response()),
        "service_ns": times(&of.stats.service()),
        "lag_ns": times(&of.stats.lag()),
        "generator": of.generator,
        "phases": of.phases.iter().map(phase).collect::<Vec<_>>(),
        "workers": of.workers,
        "fault": of.fault,
        "load_line": of.load_line.as_ref().map(|record| record.request),
        "machines": of.machines,
        "nodes": of.nodes.iter().map(node).collect::<Vec<_>>(),
        "offered_share": of.offered(),
    })
}

/// One load node in base units, and when it was lost, if it was.
#[must_use]
pub fn node(of: &ClientLoadNodeResult) -> Value {
    json!({
        "node": of.node,
        "clock_offset_ns": of.clock.ns,
        "clock_uncertainty_ns": of.clock.uncertainty,
        "began_ns": of.began_ns,
        "length_ns": of.length,
        "operations": of.stats.ops(),
        "bytes": of.stats.bytes(),
        "errors": of.stats.errors(),
        "response_ns": times(&of.stats.response()),
        "generator": of.generator,
        "lost": of.lost.as_ref().map(|lost| json!({ "after_ns": lost.after, "why": lost.why })),
    })
}

/// One phase in base units: bytes and operations per second, nanoseconds.
#[must_use]
pub fn phase(of: &PhaseResult) -> Value {
    json!({
        "name": of.name,
        "metric": of.metric,
        "value": of.value,
        "wall_ns": of.wall,
        "user_cpu_ns": of.user_cpu_ns,
        "system_cpu_ns": of.system_cpu_ns,
        "operations": of.stats.ops(),
        "bytes": of.stats.bytes(),
        "errors": of.stats.errors(),
        "response_ns": times(&of.stats.response()),
        "workers": of.workers,
    })
}

fn times(histogram: &Histogram) -> Value {
    let quantile = |q: f64| {
        histogram
            .supports_quantile(q)
            .then(|| histogram.quantile_ns(q))
    };
    json!({
        "mean": histogram.mean_ns(),
        "p50": quantile(0.5),
        "p90": quantile(0.9),
        "p99": quantile(0.99),
        "p99_9": quantile(0.999),
        "max": histogram.max_ns(),
    })
}
