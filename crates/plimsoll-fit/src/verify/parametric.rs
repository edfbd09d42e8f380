// SPDX-License-Identifier: Apache-2.0
//! A model of distributions: which draw of several is played, and what of the recording is lost in it.
//!
//! Rates, sizes, times between requests and how bursty they are have gates, which such a model may miss
//! as any other. Everything else is measured by the same gates, and what misses its gate is *lost*:
//! it stands in the model with what it is off by, and is not asked for again.

use plimsoll_core::model::{
    FidelityCheck, FidelityReportRow, PackedRequests, ParametricMetricLoss, ParametricModel,
    WorkloadModel,
};
use plimsoll_core::op::TraceAccess;
use plimsoll_core::units::Nanos;

use super::{TraceStreamStats, in_flight};
use crate::fit::FitResult;
use crate::recorded::{TraceDevice, TraceTimeBase};
use plimsoll_trace::TraceError;

/// Most seeds that are tried: the first draw that passes every gate of what must be kept is taken, else
/// the one that is nearest to the recording.
const SEEDS: u32 = 16;
/// An error counts so many gates at most, so that one lost metric does not outweigh all others.
const FAR: f64 = 4.0;

/// What a model of distributions must keep, and the gates of it. Draws differ by chance, more than what
/// is played in its order.
const KEPT: [(&str, f64); 4] = [
    (" per second", 0.02),
    ("kinds and sizes, share that differs", 0.02),
    ("times between requests, decades apart", 0.1),
    ("dispersion of requests in ", 0.2),
];

/// The gate of a metric that must be kept.
fn kept(metric: &str) -> Option<f64> {
    // Those of a phase, and of single seconds, have more in their names.
    let is_one = |name: &str| match name.starts_with(' ') {
        true => metric.ends_with(name) && !metric.contains(": "),
        false => metric.starts_with(name),
    };
    let found = KEPT.iter().find(|(name, _)| is_one(name));
    found.map(|(_, gate)| *gate)
}

fn gated(line: FidelityCheck) -> FidelityCheck {
    match kept(&line.metric) {
        Some(gate) => FidelityCheck { gate, ..line },
        None => line,
    }
}

fn watched(
    requests: impl Iterator<Item = TraceAccess>,
    device: &TraceDevice,
    length: Nanos,
) -> TraceStreamStats {
    let mut watched =
        TraceStreamStats::new(device, Nanos(0), (length, TraceTimeBase::fine(length)));
    requests.for_each(|request| watched.add(&request));
    watched.finished()
}

/// How far a draw is from the recording in what must be kept: gates, added up.
fn far(lines: &[FidelityCheck]) -> f64 {
    let lines = lines.iter().filter(|line| kept(&line.metric).is_some());
    let gates = lines.map(|line| (line.error / line.gate).abs());
    gates
        .map(|gates| if gates <= FAR { gates } else { FAR })
        .sum()
}

/// Makes a model that was fitted to requests in their order one of distributions, whose play lasts
/// `length`, or as long as the recording.
///
/// # Errors
/// When it is not of requests, or of too many, or the play would have too many.
pub fn parametric(fitted: &mut FitResult, length: Option<Nanos>) -> Result<(), TraceError> {
    let model = &fitted.model;
    let refused = |reason: String| TraceError::Parametric {
        recording: model.source.recording.clone(),
        reason,
    };
    let Some(packed) = &model.requests else {
        return Err(refused("it is of counters".into()));
    };
    let found = best(packed).map_err(refused)?;
    let ParametricFitResult {
        mut parametric,
        lines,
    } = found;
    // What the recording does not contain, as how requests come within a tick of its clock, was not
    // compared when it was fitted, and is not here.
    let is_of_time =
        |metric: &str| metric.starts_with("dispersion of") || metric.starts_with("times between");
    let is_told = |line: &FidelityCheck| {
        let mut told = model.fidelity.iter();
        !is_of_time(&line.metric) || told.any(|other| other.metric == line.metric)
    };
    let (kept, other): (Vec<_>, Vec<_>) = lines
        .into_iter()
        .filter(is_told)
        .partition(|line| kept(&line.metric).is_some());
    let (passed, missed): (Vec<_>, Vec<_>) = other.into_iter().partition(FidelityCheck::passed);
    parametric.lost = missed.iter().map(lost).collect();
    parametric
        .lost
        .extend(in_flight::METRICS.map(|metric| ParametricMetricLoss {
            metric: metric.into(),
            off: "not looked at: what is in flight together is drawn".into(),
        }));
    if let Some(length) = length {
        parametric = parametric.lasting(length).map_err(refused)?;
    }
    let mut changed = model.clone().drawn_from(parametric).map_err(refused)?;
    changed.fidelity = kept.into_iter().chain(passed).collect();
    fitted.model = changed;
    Ok(())
}

struct ParametricFitResult {
    parametric: ParametricModel,
    lines: Vec<FidelityCheck>,
}

/// The draw that is nearest to these requests.
fn best(packed: &PackedRequests) -> Result<ParametricFitResult, String> {
    let requests: Vec<TraceAccess> = packed.unpack().collect();
    let length = packed.length();
    let bytes = requests.iter().map(|request| u64::from(request.bytes));
    let device = TraceDevice {
        name: String::new(),
        requests: packed.requests(),
        reads: 0,
        took: None,
        ended: 0,
        bytes: bytes.fold(0, u64::saturating_add),
    };
    let distributions = ParametricModel::of(&requests, length, 1)?;
    let recorded = watched(requests.into_iter(), &device, length);
    let mut best: Option<(f64, ParametricFitResult)> = None;
    for seed in 1..=SEEDS {
        let mut parametric = distributions.clone();
        parametric.seed = seed;
        let drawn = watched(parametric.pack()?.unpack(), &device, length);
        let lines: Vec<FidelityCheck> = recorded.compare(&drawn).into_iter().map(gated).collect();
        let passed = lines
            .iter()
            .all(|line| kept(&line.metric).is_none() || line.passed());
        if passed {
            return Ok(ParametricFitResult { parametric, lines });
        }
        let far = far(&lines);
        if best.as_ref().is_none_or(|(least, _)| far < *least) {
            best = Some((far, ParametricFitResult { parametric, lines }));
        }
    }
    best.map(|(_, found)| found)
        .ok_or_else(|| "nothing was drawn".into())
}

fn lost(line: &FidelityCheck) -> ParametricMetricLoss {
    let off = match line.error.is_finite() {
        true => format!("{:+.1} %", line.error * 100.0),
        false => "recorded was 0".into(),
    };
    ParametricMetricLoss {
        metric: line.metric.clone(),
        off,
    }
}

/// Sets aside what a model of distributions has lost, with a sentence for each, and gives the rest the
/// gates of such a model.
pub(super) fn set_aside(
    model: &WorkloadModel,
    lines: Vec<FidelityReportRow>,
) -> (Vec<FidelityReportRow>, Vec<String>) {
    let Some(parametric) = &model.parametric else {
        return (lines, Vec::new());
    };
    let of = |metric: &str| parametric.lost.iter().find(|lost| lost.metric == metric);
    let mut told = Vec::new();
    let mut rest = Vec::new();
    for checked in lines {
        let Some(lost) = of(&checked.line.metric) else {
            rest.push(FidelityReportRow {
                line: gated(checked.line),
                ..checked
            });
            continue;
        };
        let now = self::lost(&checked.line).off;
        told.push(format!(
            "{}: the distributions do not keep it ({now}; when they were made: {})",
            lost.metric, lost.off
        ));
    }
    (rest, told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_be_kept_has_a_gate_of_its_own_and_the_rest_has_none() {
        for (metric, gate) in [
            ("read operations per second", Some(0.02)),
            ("write bytes per second", Some(0.02)),
            ("base: read operations per second", None),
            ("read operations per second by interval (peak)", None),
            ("dispersion of requests in 10 ms", Some(0.2)),
            ("miss ratio of caches, mean difference", None),
        ] {
            assert_eq!(kept(metric), gate, "{metric}");
        }
    }
}
