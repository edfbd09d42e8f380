// SPDX-License-Identifier: Apache-2.0
//! `/metrics`: what goes on, for Prometheus, as OpenMetrics 1.0 text. Base units; totals end with `_total`;
//! response times are a histogram with fixed bounds.

use crate::board::RunBoard;
use crate::caller::RequestCaller;
use crate::error::RequestError;
use crate::jobs::JobState;
use crate::state::ServerState;
use crate::sync::locked;
use axum::Extension;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use plimsoll_core::histogram::Histogram;
use plimsoll_core::text::printable;
use std::fmt::Write as _;
use std::sync::Arc;

/// Upper bounds of response times, in seconds.
const BOUNDS_S: [f64; 16] = [
    1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0,
    60.0,
];

/// Names of all metrics, with their types, units and meanings.
const FAMILIES: [(&str, &str, &str, &str); 10] = [
    ("plimsoll_build", "info", "", "The program."),
    (
        "plimsoll_jobs",
        "gauge",
        "",
        "Jobs that this server started, by state.",
    ),
    (
        "plimsoll_run_running",
        "gauge",
        "",
        "1 for each run that goes on.",
    ),
    (
        "plimsoll_trials",
        "counter",
        "",
        "Trials of a run that ended.",
    ),
    (
        "plimsoll_trials_planned",
        "gauge",
        "",
        "Trials that a run is planned to have.",
    ),
    (
        "plimsoll_trial_running",
        "gauge",
        "",
        "1 for the arm and the workload that are measured.",
    ),
    (
        "plimsoll_operations",
        "counter",
        "",
        "Operations that were measured.",
    ),
    (
        "plimsoll_transferred_bytes",
        "counter",
        "bytes",
        "Bytes that were read and written.",
    ),
    ("plimsoll_errors", "counter", "", "Operations that failed."),
    (
        "plimsoll_response_time_seconds",
        "histogram",
        "seconds",
        "Response times of the trial whose seconds came last, by kind of operation.",
    ),
];

/// Samples by the family that they belong to: a format that wants each family in one piece.
#[derive(Debug)]
struct MetricSamples([String; FAMILIES.len()]);

impl MetricSamples {
    fn new() -> MetricSamples {
        MetricSamples(std::array::from_fn(|_| String::new()))
    }

    fn add(&mut self, family: &str, suffix: &str, labels: &[(&str, &str)], value: f64) {
        let Some(at) = FAMILIES.iter().position(|(name, ..)| *name == family) else {
            return;
        };
        let label = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escaped(value));
        let labels: Vec<String> = labels.iter().map(label).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.0[at], "{family}{suffix}{labels} {value}");
    }

    fn histogram(&mut self, family: &str, labels: &[(&str, &str)], histogram: &Histogram) {
        let mut counts = [0u64; BOUNDS_S.len()];
        let mut total = 0;
        for (upper_ns, count) in histogram.buckets() {
            total += count;
            let upper_s = upper_ns as f64 / 1e9;
            let within = counts
                .iter_mut()
                .zip(BOUNDS_S)
                .filter(|(_, bound)| upper_s <= *bound);
            within.for_each(|(all, _)| *all += count);
        }
        let infinite = [("+Inf".to_owned(), total)];
        let bounds = BOUNDS_S
            .iter()
            .map(|bound| format!("{bound:?}"))
            .zip(counts);
        for (bound, count) in bounds.chain(infinite) {
            let mut with = labels.to_vec();
            with.push(("le", &bound));
            self.add(family, "_bucket", &with, count as f64);
        }
        self.add(family, "_count", labels, total as f64);
        self.add(family, "_sum", labels, histogram.sum_ns() as f64 / 1e9);
    }

    fn text(self) -> String {
        let mut text = String::new();
        for ((name, kind, unit, help), samples) in FAMILIES.iter().zip(self.0) {
            let _ = writeln!(text, "# TYPE {name} {kind}");
            if !unit.is_empty() {
                let _ = writeln!(text, "# UNIT {name} {unit}");
            }
            let _ = writeln!(text, "# HELP {name} {help}");
            text.push_str(&samples);
        }
        text + "# EOF\n"
    }
}

/// A label's value: names of others are only text.
fn escaped(text: &str) -> String {
    printable(text).replace('\\', "\\\\").replace('"', "\\\"")
}

pub(crate) async fn show(
    State(state): State<Arc<ServerState>>,
    Extension(caller): Extension<RequestCaller>,
) -> Result<Response, RequestError> {
    let seen = state.seen_by(caller).await?;
    let runs = Arc::clone(&state.runs);
    let looked = tokio::task::spawn_blocking(move || runs.running()).await;
    let mut samples = MetricSamples::new();
    samples.add(
        "plimsoll_build",
        "_info",
        &[("version", state.options.version)],
        1.0,
    );
    jobs(&state, &mut samples);
    for of in looked
        .map_err(RequestError::failed)?
        .iter()
        .filter_map(|id| seen(id))
    {
        if let Ok(open) = state.runs.open(&of).await {
            run(of.id(), &locked(&open.board), &mut samples);
        }
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], samples.text()).into_response())
}

fn jobs(state: &ServerState, samples: &mut MetricSamples) {
    let all = state.jobs.all();
    let states = [
        (JobState::Running, "running"),
        (JobState::Done, "done"),
        (JobState::Failed, "failed"),
        (JobState::Stopped, "stopped"),
    ];
    for (wanted, name) in states {
        let count = all
            .iter()
            .filter(|job| state.jobs.facts(job).state == wanted)
            .count();
        samples.add("plimsoll_jobs", "", &[("state", name)], count as f64);
    }
}

fn run(id: &str, board: &RunBoard, samples: &mut MetricSamples) {
    let of_run = [("campaign", id)];
    let progress = board.progress();
    samples.add("plimsoll_run_running", "", &of_run, 1.0);
    samples.add(
        "plimsoll_trials",
        "_total",
        &of_run,
        progress.trials_done as f64,
    );
    if let Some(planned) = progress.trials_planned {
        samples.add("plimsoll_trials_planned", "", &of_run, planned as f64);
    }
    for ((arm, workload), series) in board.series() {
        let labels = [
            ("campaign", id),
            ("arm", arm.as_str()),
            ("workload", workload.as_str()),
        ];
        let totals = &series.totals;
        samples.add(
            "plimsoll_operations",
            "_total",
            &labels,
            totals.operations as f64,
        );
        samples.add(
            "plimsoll_transferred_bytes",
            "_total",
            &labels,
            totals.bytes as f64,
        );
        samples.add("plimsoll_errors", "_total", &labels, totals.errors as f64);
    }
    if let Some(now) = board.now() {
        let labels = [
            ("campaign", id),
            ("arm", &*now.arm),
            ("workload", &*now.workload),
        ];
        samples.add("plimsoll_trial_running", "", &labels, 1.0);
    }
    let Some(trial) = &board.measured else {
        return;
    };
    for (kind, histogram) in &board.responses {
        let kind = kind.to_string();
        let labels = [
            ("campaign", id),
            ("arm", &*trial.arm),
            ("workload", &*trial.workload),
            ("op", &*kind),
        ];
        samples.histogram("plimsoll_response_time_seconds", &labels, histogram);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::units::Nanos;

    #[test]
    fn samples_stand_in_their_families_and_names_are_escaped() {
        let mut samples = MetricSamples::new();
        samples.add(
            "plimsoll_errors",
            "_total",
            &[("arm", "a\"b\\c\n\u{202e}")],
            2.0,
        );
        let mut histogram = Histogram::new();
        [50_000, 2_000_000, 90_000_000_000]
            .into_iter()
            .for_each(|ns| histogram.record(Nanos(ns)));
        samples.histogram(
            "plimsoll_response_time_seconds",
            &[("op", "read")],
            &histogram,
        );
        let text = samples.text();
        let wanted = [
            "# TYPE plimsoll_errors counter\n# HELP plimsoll_errors Operations that failed.\n\
             plimsoll_errors_total{arm=\"a\\\"b\\\\c\u{fffd}\u{fffd}\"} 2\n",
            "plimsoll_response_time_seconds_bucket{op=\"read\",le=\"0.0001\"} 1\n",
            "plimsoll_response_time_seconds_bucket{op=\"read\",le=\"0.0025\"} 2\n",
            "plimsoll_response_time_seconds_bucket{op=\"read\",le=\"60.0\"} 2\n",
            "plimsoll_response_time_seconds_bucket{op=\"read\",le=\"+Inf\"} 3\n",
            "plimsoll_response_time_seconds_count{op=\"read\"} 3\n",
        ];
        for wanted in wanted {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
