// SPDX-License-Identifier: Apache-2.0
//! Packed requests against the recording, on simulated flash.

use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_engine::SimDeviceSpec;
use plimsoll_fit::{TraceFitOptions, TraceShuffle};
use plimsoll_trace::TraceError;

use super::FidelityRow;
use super::play::{FidelityTrace, ResponseTimes};

/// Flash as it is by default, and with erases that make a tail.
pub(crate) const DEVICES: [&str; 2] = ["sim(flash)", "sim(flash,erase_every=4M)"];
/// How many times as fast as recorded.
pub(crate) const FACTORS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
pub(crate) const SEEDS: u64 = 7;
/// Figures that are compared, with the share by which each may be off.
pub(crate) const FIGURES: [(&str, ResponseStatistic, f64); 3] = [
    ("mean", ResponseTimes::mean, 0.02),
    ("p50", |responses| responses.quantile(0.5), 0.02),
    ("p99", |responses| responses.quantile(0.99), 0.05),
];

pub(crate) type ResponseStatistic = fn(&ResponseTimes) -> f64;

/// Ways to keep requests, by name: as by default, and shuffled.
const KEPT: [(&str, TraceFitOptions); 2] = [
    (
        "in order",
        TraceFitOptions {
            gaps: None,
            shuffle: None,
            open_loop: true,
        },
    ),
    (
        "shuffled in 100 ms",
        TraceFitOptions {
            gaps: None,
            shuffle: Some(TraceShuffle {
                window: Nanos(100_000_000),
                seed: Seed(1),
            }),
            open_loop: true,
        },
    ),
];

/// The figures of one device at one factor.
#[derive(Debug, Clone)]
pub(crate) struct DeviceFidelity {
    kept: &'static str,
    pub(crate) device: &'static str,
    pub(crate) factor: f64,
    pub(crate) figure: &'static str,
    pub(crate) gate: f64,
    /// In the recording, by seed, ns.
    pub(crate) recorded: Vec<f64>,
    /// By how much the model is off, by seed, as a share.
    pub(crate) off: Vec<f64>,
}

/// The middle one.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

impl DeviceFidelity {
    /// By how much the model is off, of all seeds.
    pub(crate) fn median(&self) -> f64 {
        median(&self.off)
    }

    /// How far apart the recording itself is, played with two seeds.
    pub(crate) fn noise(&self) -> f64 {
        let pairs = self.recorded.windows(2);
        pairs.fold(0.0, |worst, two| (two[1] / two[0] - 1.0).abs().max(worst))
    }
}

/// Plays both on every device.
pub(crate) fn held(trace: &FidelityTrace) -> Result<Vec<DeviceFidelity>, TraceError> {
    let recorded = trace.exactly()?;
    let mut all = Vec::new();
    for ((kept, keep), name) in KEPT.into_iter().flat_map(|k| DEVICES.map(|name| (k, name))) {
        let packed = trace.requests(keep)?;
        let device: SimDeviceSpec = name.parse().expect("it is written above");
        for factor in FACTORS {
            let play = |model, seed| ResponseTimes::of(model, factor, &device, Seed(seed));
            let both: Vec<(ResponseTimes, ResponseTimes)> = (1..=SEEDS)
                .map(|seed| (play(&recorded, seed), play(&packed, seed)))
                .collect();
            all.extend(FIGURES.map(|(figure, of, gate)| DeviceFidelity {
                kept,
                device: name,
                factor,
                figure,
                gate,
                recorded: both.iter().map(|(recorded, _)| of(recorded)).collect(),
                off: both.iter().map(|(r, p)| of(p) / of(r) - 1.0).collect(),
            }));
        }
    }
    Ok(all)
}

/// Prints the tables, and gives the rows that are kept.
pub(crate) fn rows(traces: &[FidelityTrace]) -> Result<Vec<FidelityRow>, TraceError> {
    let mut rows = Vec::new();
    for trace in traces {
        eprintln!(
            "\n{}\n\n| kept | device | times as fast | figure | recorded, µs | off, % (range) | seeds apart, % |",
            trace.name
        );
        eprintln!("| --- | --- | --- | --- | --- | --- | --- |");
        rows.extend(held(trace)?.iter().map(|held| row(trace, held)));
    }
    Ok(rows)
}

fn row(trace: &FidelityTrace, held: &DeviceFidelity) -> FidelityRow {
    let percent: Vec<f64> = held.off.iter().map(|off| off * 100.0).collect();
    let low = percent.iter().copied().fold(f64::INFINITY, f64::min);
    let high = percent.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (device, factor, figure) = (held.device, held.factor, held.figure);
    eprintln!(
        "| {} | `{device}` | {factor} | {figure} | {:.1} | {:+.2} ({low:+.2} to {high:+.2}) | {:.2} |",
        held.kept,
        median(&held.recorded) / 1e3,
        held.median() * 100.0,
        held.noise() * 100.0
    );
    FidelityRow {
        what: format!(
            "{} {} on {device} ×{factor}: {figure} off, %",
            trace.name, held.kept
        ),
        values: percent,
        // The cost of another order is reported, not judged.
        within: (held.kept == KEPT[0].0).then_some(held.gate * 100.0),
        at_least: None,
    }
}
