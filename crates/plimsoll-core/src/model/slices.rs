// SPDX-License-Identifier: Apache-2.0
//! A run shorter than its recording plays one-second slices of it, stratified by rate.
//!
//! The intervals are sorted by rate and cut into as many strata of equal time as the run has
//! seconds; each stratum gives one slice. Of many such draws the one whose totals are nearest the
//! recording's is taken, and what still differs is corrected by a factor per direction, separately
//! inside and outside bursts, so that mean rates, mean sizes and the share of load in bursts are
//! those of the whole. The slices play in recorded order.

use super::{
    BurstPattern, DirectionLoad, FidelityCheck, IoDirection, ModelInterval, RoundingCarry,
    WorkloadModel, totals,
};
use crate::num::{floor_u64, ratio, round_u64};
use crate::rng::{Rng, Seed};
use crate::units::Nanos;

/// Draws tried. With 10 slices the best of 200 already has factors within a few per cent of 1;
/// more brings little.
const DRAWS: u64 = 400;

/// The largest error of mean rates and sizes a short run may have.
const RATE_GATE: f64 = 0.02;
/// The largest error of the share of load in bursts a short run may have.
const BURST_GATE: f64 = 0.10;

/// The slices of a short run.
#[derive(Debug, Clone)]
pub struct ModelSliceSelection {
    /// One-second cells, to be played one after the other.
    pub cells: Vec<ModelInterval>,
    /// Which interval of the recording each cell was taken from.
    pub picked: Vec<usize>,
}

/// Class that a draw is compared with: the load of one direction inside or outside bursts.
struct Class {
    direction: IoDirection,
    burst: bool,
    /// Operations and bytes per second of the whole recording.
    per_s: (f64, f64),
}

impl WorkloadModel {
    /// Chooses `seconds` one-second slices and scales their rates by `scale`. The same seed gives
    /// the same slices, so all arms of a block play the same.
    pub fn play_slices(&self, seconds: u32, scale: f64, seed: Seed) -> ModelSliceSelection {
        let mut rng = Rng::new(seed.derive("slices", 0));
        let strata = strata(self.envelope.cells(), seconds.max(1));
        let classes = self.classes();
        let judged = (0..DRAWS).map(|_| {
            let picked = draw(&strata, &mut rng);
            (self.badness(&classes, &picked), picked)
        });
        let best = judged.min_by(|(a, _), (b, _)| a.total_cmp(b));
        let (_, mut picked) = best.expect("at least one draw is made");
        picked.sort_unstable();
        let mut cells: Vec<ModelInterval> = picked
            .iter()
            .map(|_| ModelInterval {
                length: Nanos::SECOND,
                read: DirectionLoad::default(),
                write: DirectionLoad::default(),
            })
            .collect();
        for direction in IoDirection::BOTH {
            self.fill(&mut cells, &picked, direction, scale, &mut rng);
        }
        ModelSliceSelection { cells, picked }
    }

    /// Seconds that a run needs to have its share of bursts; 0 without bursts.
    pub fn seconds_with_bursts(&self) -> f64 {
        let bursts = self.bursts.iter().filter(|bursts| bursts.duty > 0.0);
        bursts
            .map(|bursts| (1.0 / bursts.duty).ceil())
            .fold(0.0, f64::max)
    }

    fn bursts_of(&self, direction: IoDirection) -> Option<&BurstPattern> {
        self.bursts.iter().find(|b| b.direction == direction)
    }

    fn in_burst(&self, cell: usize, direction: IoDirection) -> bool {
        let rate = self.envelope.cells()[cell].ops_per_s(direction);
        self.bursts_of(direction)
            .is_some_and(|b| rate > b.threshold_per_s)
    }

    /// Operations and bytes per second of the whole recording that fall inside (or outside)
    /// bursts.
    fn class_per_s(&self, direction: IoDirection, burst: bool) -> (f64, f64) {
        let all = self.envelope.cells().iter().enumerate();
        let class: Vec<ModelInterval> = all
            .filter(|(i, _)| self.in_burst(*i, direction) == burst)
            .map(|(_, c)| *c)
            .collect();
        let (ops, bytes) = totals(&class, direction);
        let seconds = self.length().as_secs_f64();
        (ratio(ops, seconds), ratio(bytes, seconds))
    }

    fn classes(&self) -> Vec<Class> {
        let class = |direction, burst| Class {
            direction,
            burst,
            per_s: self.class_per_s(direction, burst),
        };
        let both = |direction| [class(direction, false), class(direction, true)];
        IoDirection::BOTH.into_iter().flat_map(both).collect()
    }

    /// How far the factors that a draw would need are from 1.
    fn badness(&self, classes: &[Class], picked: &[usize]) -> f64 {
        let distance = |class: &Class| {
            let Class {
                direction,
                burst,
                per_s: (ops, bytes),
            } = *class;
            let chosen = picked
                .iter()
                .filter(|i| self.in_burst(**i, direction) == burst);
            let (mut got_ops, mut got_bytes) = (0.0, 0.0);
            for i in chosen {
                let cell = &self.envelope.cells()[*i];
                let seconds = cell.length.as_secs_f64();
                got_ops += cell.load(direction).ops as f64 / seconds;
                got_bytes += cell.load(direction).bytes as f64 / seconds;
            }
            let n = picked.len() as f64;
            miss(got_ops, ops * n) + miss(got_bytes, bytes * n)
        };
        classes.iter().map(distance).sum()
    }

    fn fill(
        &self,
        cells: &mut [ModelInterval],
        picked: &[usize],
        direction: IoDirection,
        scale: f64,
        rng: &mut Rng,
    ) {
        let n = picked.len() as f64;
        let mut owed = (0.0, 0.0);
        for burst in [true, false] {
            let (ops, bytes) = self.class_per_s(direction, burst);
            owed = (owed.0 + ops * n * scale, owed.1 + bytes * n * scale);
            let members: Vec<usize> = (0..picked.len())
                .filter(|i| self.in_burst(picked[*i], direction) == burst)
                .collect();
            let recorded: Vec<DirectionLoad> = members
                .iter()
                .map(|i| self.envelope.cells()[picked[*i]].load(direction))
                .collect();
            // A class without a slice leaves its load to the other class: rates stay right, and
            // the share of load in bursts shows the miss.
            if recorded.iter().all(|load| load.ops == 0) {
                continue;
            }
            let loads = allocate(&recorded, owed, rng);
            owed = (0.0, 0.0);
            for (member, load) in members.into_iter().zip(loads) {
                match direction {
                    IoDirection::Read => cells[member].read = load,
                    IoDirection::Write => cells[member].write = load,
                }
            }
        }
    }

    /// Holds the load of slices against the whole recording times `scale`: `cells` are what was
    /// (or will be) submitted in each slice, `picked` the intervals the slices were taken from.
    pub fn slice_fidelity(
        &self,
        cells: &[ModelInterval],
        picked: &[usize],
        scale: f64,
    ) -> Vec<FidelityCheck> {
        let mut lines = Vec::new();
        let seconds = cells.len() as f64;
        for direction in IoDirection::BOTH {
            let name = direction.name();
            let (ops, bytes) = totals(cells, direction);
            let (whole_ops, whole_bytes) = self.mean_per_s(direction);
            if whole_ops == 0.0 {
                continue;
            }
            let mut add = |metric: &str, recorded, got, gate| {
                lines.push(FidelityCheck::relative(
                    format!("{name} {metric}"),
                    recorded,
                    got,
                    gate,
                ));
            };
            add(
                "operations per second",
                whole_ops * scale,
                ops / seconds,
                RATE_GATE,
            );
            add(
                "bytes per second",
                whole_bytes * scale,
                bytes / seconds,
                RATE_GATE,
            );
            add(
                "mean size in bytes",
                ratio(whole_bytes, whole_ops),
                ratio(bytes, ops),
                RATE_GATE,
            );
            if self.bursts_of(direction).is_some() {
                let inside = (0..cells.len()).filter(|i| self.in_burst(picked[*i], direction));
                let in_bursts: f64 = inside.map(|i| cells[i].load(direction).ops as f64).sum();
                let (whole_inside, _) = self.class_per_s(direction, true);
                let (recorded, got) = (ratio(whole_inside, whole_ops), ratio(in_bursts, ops));
                add("share of operations in bursts", recorded, got, BURST_GATE);
            }
        }
        lines
    }
}

/// Distance between two totals: the magnitude of the factor's logarithm, with a wall where
/// nothing was drawn for something owed.
fn miss(got: f64, owed: f64) -> f64 {
    match (got > 0.0, owed > 0.0) {
        (true, true) => (got / owed).ln().abs(),
        (false, false) => 0.0,
        _ => 10.0,
    }
}

/// Cuts the intervals, sorted by rate, into `n` strata of equal time. An interval that spans a
/// border belongs to both with the time it has in each.
fn strata(cells: &[ModelInterval], n: u32) -> Vec<Vec<(usize, u64)>> {
    let mut order: Vec<usize> = (0..cells.len()).collect();
    let rate = |i: &usize| {
        IoDirection::BOTH
            .iter()
            .map(|d| cells[*i].ops_per_s(*d))
            .sum::<f64>()
    };
    order.sort_by(|a, b| rate(a).total_cmp(&rate(b)).then(a.cmp(b)));
    let total: u64 = cells.iter().map(|c| c.length.0).sum();
    let mut strata = vec![Vec::new(); n as usize];
    let border =
        |k: usize| u64::try_from(u128::from(total) * k as u128 / u128::from(n)).expect("≤ total");
    let (mut start, mut first) = (0u64, 0);
    for i in order {
        let end = start + cells[i].length.0;
        // Intervals come in order, so the strata before the first one touched are done with.
        while first + 1 < strata.len() && border(first + 1) <= start {
            first += 1;
        }
        for (k, stratum) in strata.iter_mut().enumerate().skip(first) {
            if border(k) >= end {
                break;
            }
            let overlap = end.min(border(k + 1)).saturating_sub(start.max(border(k)));
            if overlap > 0 {
                stratum.push((i, overlap));
            }
        }
        start = end;
    }
    strata
}

/// One interval from each stratum, with probability proportional to its time there.
fn draw(strata: &[Vec<(usize, u64)>], rng: &mut Rng) -> Vec<usize> {
    let pick = |stratum: &Vec<(usize, u64)>| {
        let total: u64 = stratum.iter().map(|(_, weight)| weight).sum();
        let mut at = rng.below(total.max(1));
        for (i, weight) in stratum {
            if at < *weight {
                return *i;
            }
            at -= weight;
        }
        stratum.last().map_or(0, |(i, _)| *i)
    };
    strata.iter().map(pick).collect()
}

/// Spreads `owed` operations over cells in proportion to their recorded counts, each operation
/// falling independently (a Poisson process given its total), and bytes by the cells' mean sizes.
fn allocate(recorded: &[DirectionLoad], owed: (f64, f64), rng: &mut Rng) -> Vec<DirectionLoad> {
    let weights: Vec<u64> = recorded.iter().map(|load| load.ops).collect();
    let mut left = round_u64(owed.0);
    let mut weight_left: u64 = weights.iter().sum();
    let mut ops = Vec::with_capacity(weights.len());
    for weight in weights {
        // A chain of binomials is a multinomial draw.
        let p = ratio(weight as f64, weight_left as f64);
        let here = binomial(left, p, rng);
        weight_left -= weight;
        left -= here;
        ops.push(here);
    }
    let mean = |load: &DirectionLoad| ratio(load.bytes as f64, load.ops as f64);
    let natural: f64 = ops
        .iter()
        .zip(recorded)
        .map(|(n, load)| *n as f64 * mean(load))
        .sum();
    let factor = ratio(owed.1, natural);
    let mut carry = RoundingCarry::default();
    let loads = ops.iter().zip(recorded);
    loads
        .map(|(n, load)| DirectionLoad {
            ops: *n,
            bytes: carry.take(*n as f64 * mean(load) * factor),
        })
        .collect()
}

/// Most trials that are made one by one.
const TRIALS_MAX: u64 = 1 << 16;

/// Successes in `n` trials of probability `p`: exact where few are expected, else the normal limit
/// rounded (its error at `n·p·(1-p)` above 1000 is below one part in 10^4 of the spread).
fn binomial(n: u64, p: f64, rng: &mut Rng) -> u64 {
    if p >= 1.0 {
        return n;
    }
    let spread = n as f64 * p * (1.0 - p);
    if spread < 1_000.0 && n > TRIALS_MAX {
        return if p > 0.5 {
            n - rare(n, 1.0 - p, rng)
        } else {
            rare(n, p, rng)
        };
    }
    if spread < 1_000.0 {
        return (0..n).filter(|_| rng.unit() < p).count() as u64;
    }
    round_u64(n as f64 * p + spread.sqrt() * rng.normal()).min(n)
}

/// Successes in many trials of small probability: from one success to the next, over geometric
/// gaps, so that the time grows with the successes and not with the trials.
fn rare(n: u64, p: f64, rng: &mut Rng) -> u64 {
    let per_trial = (-p).ln_1p();
    if per_trial >= 0.0 {
        return 0;
    }
    let (mut trials, mut successes) = (0u64, 0);
    // About n·p rounds, at most some thousand where this is used.
    loop {
        let failures = floor_u64(rng.unit().ln() / per_trial);
        trials = trials.saturating_add(failures).saturating_add(1);
        if trials > n || trials == u64::MAX {
            return successes;
        }
        successes += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::bursty;
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    #[test]
    fn strata_have_equal_time_and_rising_rates() {
        let model = bursty();
        let cells = model.envelope.cells();
        for n in [1, 7, 10, 300] {
            let strata = strata(cells, n);
            let spans: Vec<u64> = strata
                .iter()
                .map(|s| s.iter().map(|(_, time)| time).sum())
                .collect();
            let (low, high) = (spans.iter().min().unwrap(), spans.iter().max().unwrap());
            assert!(high - low <= 1, "{spans:?}");
        }
    }

    #[test]
    fn a_week_of_seconds_cut_into_as_many_strata_is_quick() {
        let seconds: u32 = 7 * 86_400 / 4;
        let cells: Vec<ModelInterval> = (0..u64::from(seconds))
            .map(|i| ModelInterval {
                length: Nanos::SECOND,
                read: DirectionLoad {
                    ops: i % 1_000,
                    bytes: 0,
                },
                write: DirectionLoad::default(),
            })
            .collect();
        // Looking at every stratum for every interval would be 10^10 steps.
        let strata = strata(&cells, seconds);
        assert!(
            strata
                .iter()
                .all(|s| s.len() == 1 && s[0].1 == 1_000_000_000)
        );
    }

    #[test]
    fn a_short_run_keeps_rates_sizes_and_bursts() {
        let model = bursty();
        let drawn = (5..=60_u32, any::<u64>());
        proptest!(ProptestConfig::with_cases(100), |((seconds, seed) in drawn)| {
            let selection = model.play_slices(seconds, 3.0, Seed(seed));
            prop_assert_eq!(selection.cells.len(), seconds as usize);
            let mut lines = model.slice_fidelity(&selection.cells, &selection.picked, 3.0);
            lines.retain(|line| !line.passed());
            prop_assert!(lines.is_empty(), "{:?}", lines);
        });
    }

    #[test]
    fn a_run_too_short_for_its_bursts_says_so() {
        let model = bursty();
        let selection = model.play_slices(1, 1.0, Seed(1));
        let lines = model.slice_fidelity(&selection.cells, &selection.picked, 1.0);
        let is_missed = |line: &FidelityCheck| line.metric.contains("bursts") && !line.passed();
        assert!(lines.iter().any(is_missed));
    }

    #[test]
    fn slices_depend_on_the_seed_alone() {
        let model = bursty();
        let cells = |seed| model.play_slices(10, 1.0, Seed(seed)).cells;
        assert_eq!(cells(4), cells(4));
        assert_ne!(cells(4), cells(5));
    }

    #[test]
    fn binomial_draws_have_the_right_mean_and_spread() {
        let mut rng = Rng::new(Seed(8));
        for (n, p) in [
            (100, 0.3),
            (100_000, 0.2),
            (1_000_000, 0.000_1),
            (100_000, 0.999),
            (1 << 50, 1e-14),
        ] {
            let draws: Vec<f64> = (0..4_000)
                .map(|_| binomial(n, p, &mut rng) as f64)
                .collect();
            let mean = draws.iter().sum::<f64>() / 4_000.0;
            let var = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 3_999.0;
            let expect = n as f64 * p * (1.0 - p);
            assert!(
                (mean - n as f64 * p).abs() < 4.0 * (expect / 4_000.0).sqrt(),
                "{mean}"
            );
            assert!((var / expect - 1.0).abs() < 0.1, "{var} {expect}");
        }
    }
}
