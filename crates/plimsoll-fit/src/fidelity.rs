// SPDX-License-Identifier: Apache-2.0
//! The load a model submitted, held against the recording, with a gate for every line.
//!
//! The gates are those of a model fitted from counters: what the counters say must come back.
//! Figures that they cannot tell (sizes around their mean, offsets) have no line here.

use plimsoll_core::model::{BurstPattern, FidelityCheck, IoDirection, ModelInterval};
use plimsoll_core::num::{ratio, round_u64};

use crate::binned::{autocorrelation, idc, ks_distance, quantile, sorted};
use crate::bursts::{RateGrid, median_length_s};

/// Mean rates and sizes: the envelope is copied, so anything above rounding is a mistake.
const MEAN_GATE: f64 = 0.01;
/// The same in a single phase.
const PHASE_GATE: f64 = 0.02;
/// Distance of the distributions of interval rates. Chance alone allows 0.088 between independent
/// samples of 480 intervals; a copied envelope stays below.
const KS_GATE: f64 = 0.05;
const P95_GATE: f64 = 0.03;
const MAX_GATE: f64 = 0.05;
/// Burstiness: a ratio of 0.9 to 1.1.
const IDC_GATE: f64 = 0.10;
/// Periodicity: difference of autocorrelations.
const PERIOD_GATE: f64 = 0.05;
const BURST_SHARE_GATE: f64 = 0.10;
/// Scales of burstiness, in intervals.
const IDC_SCALES: [usize; 4] = [1, 4, 16, 64];
/// Fewer groups give a variance that says nothing.
const IDC_GROUPS_MIN: usize = 8;
/// Fewer intervals have no distribution worth comparing.
const INTERVALS_MIN: usize = 8;

/// Compares what was submitted with what was recorded, per direction (cell by cell where there are
/// as many cells, which then are of the same lengths; else by their distributions): mean rates and
/// size, distribution of the interval rates, burstiness at several scales, and the bursts that were
/// found. A direction in which nothing was recorded gets one line, that nothing was submitted.
pub fn fidelity(
    recorded: &[ModelInterval],
    submitted: &[ModelInterval],
    bursts: &[BurstPattern],
) -> Vec<FidelityCheck> {
    let mut lines = Vec::new();
    for pair in both(recorded, submitted) {
        pair.means(&mut lines);
        if pair.has_distribution() {
            pair.distribution(&mut lines);
            pair.burstiness(&mut lines);
            pair.bursts(bursts, &mut lines);
        }
    }
    lines
}

/// Compares the distributions of the interval rates alone.
pub(crate) fn distribution(
    recorded: &[ModelInterval],
    submitted: &[ModelInterval],
) -> Vec<FidelityCheck> {
    let mut lines = Vec::new();
    for pair in both(recorded, submitted).filter(FidelityPair::has_distribution) {
        pair.distribution(&mut lines);
    }
    lines
}

/// Compares periods and bursts alone.
pub(crate) fn at_bursts(
    recorded: &[ModelInterval],
    submitted: &[ModelInterval],
    bursts: &[BurstPattern],
) -> Vec<FidelityCheck> {
    let mut lines = Vec::new();
    for pair in both(recorded, submitted).filter(FidelityPair::has_distribution) {
        pair.bursts(bursts, &mut lines);
    }
    lines
}

/// Both directions.
fn both<'a>(
    recorded: &'a [ModelInterval],
    submitted: &'a [ModelInterval],
) -> impl Iterator<Item = FidelityPair<'a>> {
    let pair = move |direction| FidelityPair {
        direction,
        recorded,
        submitted,
    };
    IoDirection::BOTH.into_iter().map(pair)
}

/// Compares the mean rates and sizes of one phase, whose cells are given.
pub(crate) fn phase_fidelity(
    name: &str,
    recorded: &[ModelInterval],
    submitted: &[ModelInterval],
) -> Vec<FidelityCheck> {
    let mut lines = Vec::new();
    both(recorded, submitted).for_each(|pair| pair.means(&mut lines));
    for line in &mut lines {
        line.metric = format!("{name}: {}", line.metric);
        line.gate = PHASE_GATE;
    }
    lines
}

/// A figure that is 0 when two streams are alike.
pub(crate) fn distance(metric: impl Into<String>, error: f64, gate: f64) -> FidelityCheck {
    difference(metric, 0.0, error, gate)
}

/// A figure, recorded and submitted, whose error is their difference.
pub(crate) fn difference(
    metric: impl Into<String>,
    recorded: f64,
    submitted: f64,
    gate: f64,
) -> FidelityCheck {
    FidelityCheck {
        metric: metric.into(),
        recorded,
        submitted,
        error: submitted - recorded,
        gate,
        copy: false,
    }
}

struct FidelityPair<'a> {
    direction: IoDirection,
    recorded: &'a [ModelInterval],
    submitted: &'a [ModelInterval],
}

/// Operations, bytes and seconds of a direction.
fn totals(cells: &[ModelInterval], direction: IoDirection) -> (f64, f64, f64) {
    cells.iter().fold((0.0, 0.0, 0.0), |(o, b, s), cell| {
        let load = cell.load(direction);
        (
            o + load.ops as f64,
            b + load.bytes as f64,
            s + cell.length.as_secs_f64(),
        )
    })
}

impl FidelityPair<'_> {
    fn recorded_ops(&self) -> f64 {
        totals(self.recorded, self.direction).0
    }

    /// Whether something was recorded, in enough intervals.
    fn has_distribution(&self) -> bool {
        self.recorded_ops() > 0.0 && self.recorded.len() >= INTERVALS_MIN
    }

    fn both<T>(&self, of: impl Fn(&[ModelInterval]) -> T) -> (T, T) {
        (of(self.recorded), of(self.submitted))
    }

    fn rates(&self, cells: &[ModelInterval]) -> Vec<f64> {
        cells.iter().map(|c| c.ops_per_s(self.direction)).collect()
    }

    fn means(&self, lines: &mut Vec<FidelityCheck>) {
        let name = self.direction.name();
        let (recorded, submitted) = self.both(|cells| totals(cells, self.direction));
        let mut add = |metric: &str, of: fn((f64, f64, f64)) -> f64| {
            let metric = format!("{name} {metric}");
            let line = FidelityCheck::relative(metric, of(recorded), of(submitted), MEAN_GATE);
            lines.push(line);
        };
        add("operations per second", |(ops, _, s)| ratio(ops, s));
        if recorded.0 > 0.0 {
            add("bytes per second", |(_, bytes, s)| ratio(bytes, s));
            add("mean size in bytes", |(ops, bytes, _)| ratio(bytes, ops));
        }
    }

    fn distribution(&self, lines: &mut Vec<FidelityCheck>) {
        let name = self.direction.name();
        let (recorded, submitted) = self.both(|cells| sorted(&self.rates(cells)));
        lines.push(distance(
            format!("{name} operations per second by interval (KS distance)"),
            ks_distance(&recorded, &submitted),
            KS_GATE,
        ));
        for (label, q, gate) in [("95th percentile", 0.95, P95_GATE), ("peak", 1.0, MAX_GATE)] {
            lines.push(FidelityCheck::relative(
                format!("{name} operations per second by interval ({label})"),
                quantile(&recorded, q),
                quantile(&submitted, q),
                gate,
            ));
        }
    }

    fn burstiness(&self, lines: &mut Vec<FidelityCheck>) {
        let step_s = median_length_s(self.recorded);
        let counts = |cells: &[ModelInterval]| -> Vec<f64> {
            // Intervals of other lengths count as if they had the usual one.
            let rates = self.rates(cells);
            rates.into_iter().map(|rate| rate * step_s).collect()
        };
        let (recorded, submitted) = self.both(counts);
        for scale in IDC_SCALES {
            if recorded.len() / scale < IDC_GROUPS_MIN {
                break;
            }
            let Some(expected) = idc(&recorded, scale) else {
                break;
            };
            let seconds = step_s * scale as f64;
            let metric = format!(
                "{} burstiness (IDC, {})",
                self.direction.name(),
                seconds_text(seconds)
            );
            let got = idc(&submitted, scale).unwrap_or(0.0);
            lines.push(FidelityCheck::relative(metric, expected, got, IDC_GATE));
        }
    }

    /// Of the bursts that were found in this direction.
    fn bursts(&self, bursts: &[BurstPattern], lines: &mut Vec<FidelityCheck>) {
        let Some(found) = bursts.iter().find(|b| b.direction == self.direction) else {
            return;
        };
        let name = self.direction.name();
        if let Some(period_s) = found.period_s {
            let at_period = |cells: &[ModelInterval]| {
                let grid = RateGrid::of(cells, self.direction);
                let lag = round_u64(ratio(period_s, grid.step_s));
                autocorrelation(&grid.rates, plimsoll_core::num::to_usize(lag))
            };
            let period = seconds_text(period_s);
            let metric = format!("{name} periodicity (autocorrelation at {period})");
            let (recorded, submitted) = self.both(at_period);
            lines.push(difference(metric, recorded, submitted, PERIOD_GATE));
        }
        // Cell by cell, so that an interval near the threshold is not counted out on one side.
        let is_paired = self.recorded.len() == self.submitted.len();
        let share = |cells: &[ModelInterval]| {
            let judges = if is_paired { self.recorded } else { cells };
            let inside = cells.iter().zip(judges);
            let inside =
                inside.filter(|(_, r)| r.ops_per_s(self.direction) > found.threshold_per_s);
            let ops: f64 = inside.map(|(c, _)| c.load(self.direction).ops as f64).sum();
            ratio(ops, totals(cells, self.direction).0)
        };
        let (recorded, submitted) = self.both(share);
        lines.push(FidelityCheck::relative(
            format!("{name} share of operations in bursts"),
            recorded,
            submitted,
            BURST_SHARE_GATE,
        ));
    }
}

/// Whole seconds without decimals; shorter intervals with two.
fn seconds_text(seconds: f64) -> String {
    let rounded = seconds.round();
    if (seconds - rounded).abs() < 0.005 * seconds.max(1.0) {
        format!("{rounded:.0} s")
    } else {
        format!("{seconds:.2} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::model::DirectionLoad;
    use plimsoll_core::units::Nanos;

    fn recorded() -> Vec<ModelInterval> {
        let cell = |i: u64| {
            let writes = if i % 20 < 2 { 3_000 + i } else { 100 + i % 7 };
            ModelInterval {
                length: Nanos(15_000_000_000),
                read: DirectionLoad::default(),
                write: DirectionLoad {
                    ops: writes,
                    bytes: writes * 8_192,
                },
            }
        };
        (0..600).map(cell).collect()
    }

    fn changed(change: impl Fn(usize, u64) -> u64) -> Vec<ModelInterval> {
        let mut cells = recorded();
        for (i, cell) in cells.iter_mut().enumerate() {
            cell.write.ops = change(i, cell.write.ops);
            cell.write.bytes = cell.write.ops * 8_192;
        }
        cells
    }

    fn failed(submitted: &[ModelInterval]) -> Vec<String> {
        let recorded = recorded();
        let bursts = crate::bursts::find(&recorded, &recorded, IoDirection::Write);
        let lines = fidelity(&recorded, submitted, bursts.as_slice());
        let missed = lines.iter().filter(|line| !line.passed());
        missed.map(|line| line.metric.clone()).collect()
    }

    #[test]
    fn the_recording_itself_passes_every_gate() {
        let recorded = recorded();
        let bursts = crate::bursts::find(&recorded, &recorded, IoDirection::Write);
        let lines = fidelity(&recorded, &recorded, bursts.as_slice());
        assert!(lines.iter().all(FidelityCheck::passed), "{lines:?}");
        let names: Vec<&str> = lines.iter().map(|l| l.metric.as_str()).collect();
        for name in [
            "read operations per second",
            "write operations per second",
            "write burstiness (IDC, 60 s)",
            "write periodicity (autocorrelation at 300 s)",
            "write share of operations in bursts",
        ] {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
    }

    #[test]
    fn a_flat_load_with_the_right_mean_fails_everything_but_the_means() {
        let total: u64 = recorded().iter().map(|c| c.write.ops).sum();
        let missed = failed(&changed(|_, _| total / 600));
        assert!(
            !missed.iter().any(|m| m.ends_with("per second")),
            "{missed:?}"
        );
        for part in [
            "KS",
            "95th",
            "peak",
            "IDC, 15 s",
            "autocorrelation",
            "share",
        ] {
            assert!(
                missed.iter().any(|m| m.contains(part)),
                "{part}: {missed:?}"
            );
        }
    }

    #[test]
    fn a_load_two_per_cent_too_high_and_one_never_recorded_are_caught() {
        let missed = failed(&changed(|_, ops| ops + ops / 50));
        assert!(missed.iter().any(|m| m == "write operations per second"));
        let mut extra = recorded();
        extra[5].read.ops = 1;
        assert!(failed(&extra).contains(&"read operations per second".to_owned()));
    }
}
