// SPDX-License-Identifier: Apache-2.0
//! Metrics that cannot be compared with a recording, and why.

use plimsoll_core::model::{FidelityCheck, FidelityReportRow, ModelPhase};

use super::in_flight::{REQUESTS_MAX, TraceLatencies};
use super::intervals::RATES_MIN;
use super::{FidelityLoad, FidelityReference, PHASE_MIN, TraceStreamStats};

/// Metrics that only a trial on storage shows.
const OF_TRIALS: [&str; 2] = [
    "submission delay: nothing is submitted here; each trial of run and compare shows it",
    "response times: they are the storage's, not the load's; compare measures them",
];

/// Where a model is held against the recording that it is a copy of.
const OWN_INTERVALS: &str = "the load inside of intervals: the model has those of this very recording, so \
     a copy shows that they are played and no more; compare it with requests, or finer intervals, recorded \
     at the same time";

fn in_trials(mut told: Vec<String>) -> Vec<String> {
    told.extend(OF_TRIALS.map(str::to_owned));
    told
}

/// Of counters.
pub(super) fn of_counters(reference: &FidelityReference, load: &FidelityLoad<'_>) -> Vec<String> {
    let syncs = match load {
        FidelityLoad::Model(model) => model.facts.syncs().each_write,
        FidelityLoad::Steady(_) => false,
    };
    let mut told = reference.others.not_played(syncs);
    if load.is_of(&reference.recording, &reference.disk) {
        told.push(OWN_INTERVALS.into());
    }
    if reference.bursts.iter().all(|b| b.period_s.is_none()) {
        told.push("periods: none was found in the recording".into());
    }
    let is_long = |phase: &ModelPhase| {
        let intervals = phase.stretches.iter().map(|s| s.intervals).sum::<u64>();
        intervals >= PHASE_MIN as u64
    };
    if !reference.phases.iter().any(is_long) {
        told.push(format!(
            "means of phases: the recording has none of at least {PHASE_MIN} intervals"
        ));
    }
    if reference.queue.is_none() {
        let why = match reference.of_requests {
            true => "when requests ended",
            false => "how long operations took (aveq, *_rawactive), or has it at instants only",
        };
        told.push(format!(
            "requests in flight: the recording does not say {why}"
        ));
    }
    told.push(match reference.of_requests {
        true => {
            "sizes, times between requests, offsets, reuse: the load draws them, as counters do not \
             contain them; a model of requests is compared with them"
                .into()
        }
        false => {
            "sizes within their mean, times between requests, offsets, reuse: counters do not contain \
             them"
                .into()
        }
    });
    in_trials(told)
}

/// Of requests, beside what was compared.
pub(super) fn of_requests(
    lines: &[FidelityReportRow],
    whole: &TraceStreamStats,
    took: Option<&TraceLatencies>,
) -> Vec<String> {
    let has = |part: &str| {
        let named = |line: &FidelityCheck| line.metric.contains(part);
        lines.iter().any(|checked| named(&checked.line))
    };
    let mut told = Vec::new();
    if !whole.intervals.tells_rates() {
        told.push(format!(
            "rates by the second: recording or load is shorter than {RATES_MIN} seconds"
        ));
    }
    for (part, sentence) in [
        ("periodicity", "periods: none was found in the recording"),
        (
            ": ",
            "means of phases: the recording has none of at least 20 of 200 intervals, or the load lasts longer or shorter",
        ),
        (
            "dispersion",
            "dispersion: the recording is shorter than 20 windows of 10 ms, or of its clock resolution",
        ),
        (
            "entropy",
            "entropy over place and time: there are too few requests",
        ),
    ] {
        if !has(part) {
            told.push(sentence.into());
        }
    }
    match took {
        None => {
            told.push("requests in flight: the recording does not say when requests ended".into());
        }
        Some(took) if took.is_full() => told.push(format!(
            "requests in flight after the first {REQUESTS_MAX}: their times are not held"
        )),
        Some(_) => {}
    }
    in_trials(told)
}
