// SPDX-License-Identifier: Apache-2.0
//! Evidence of single seconds and single requests: a rate that is always the same, few requests that take
//! much longer, a rate that drifts from trial to trial.

use plimsoll_core::event::{KindStats, TrialResult, TrialTimeBin};
use plimsoll_core::explanation::{
    CauseExplanation, EvidenceFigure, EvidenceUnit, ExplanationCause, ExplanationStrength,
};
use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::{floor_u64, ratio, saturating_u32};
use plimsoll_core::op::OpKind;

use super::credit::{MAD_TO_SD, free_rates, is_free};
use super::{ArmEvidence, CauseFinding, TrialSign, over_trials};
use crate::events::median;

/// Seconds that tell whether a rate is constant; the first and the last are cut off by the edges.
const SECONDS_MIN: usize = 8;
/// Scatter of a constant rate, as a share of it …
const SCATTER_MAX: f64 = 0.002;
/// … or in operations: those at the edges of a second fall into one or the other.
const SCATTER_OPS: f64 = 1.0;
/// Fewer operations in a second are too few to see their scatter.
const OPS_PER_S_MIN: f64 = 20.0;

/// Requests that tell what few of them do.
const REQUESTS_MIN: u64 = 500;
/// A stall takes at least this many times as long as the median request …
const STALL_TIMES: u64 = 10;
/// … and no less than this: what waits for a processor of a busy machine takes as long.
const STALL_NS: u64 = 20_000_000;
/// Stalls that are few, but not chance …
const STALLED: std::ops::RangeInclusive<f64> = 0.002..=0.05;
/// … and take this share of all time.
const STALLED_TIME: f64 = 0.1;
/// There are this many times as many as of requests of half the length: a mode of its own, no tail.
const MODE_TIMES: u64 = 4;
/// Stalls of single requests come by chance: their number in a second has a variance equal to its mean. Where
/// all requests stall at once, the variance is many times the mean.
const DISPERSION_MAX: f64 = 2.5;

/// Trials that tell a drift.
const TRIALS_MIN: usize = 5;
/// Kendall's test: a run without drift has this value in one of sixty.
const KENDALL_Z: f64 = 2.4;
/// Change from the first third of the trials to the last that is named.
const DRIFT_SHARE: f64 = 0.15;

/// A rate that is the same in every second, to the operation.
pub(super) fn rate_limit(evidence: &ArmEvidence<'_>) -> CauseFinding {
    if evidence.is_virtual() {
        return CauseFinding::NotApplicable;
    }
    let cause = ExplanationCause::RateLimit;
    let missing = "it takes trials of ten seconds or more, with load to spare";
    over_trials(evidence, cause, "", missing, |trial, bins| {
        let rates = free_rates(bins);
        if !is_free(trial) || rates.len() < SECONDS_MIN + 2 {
            return TrialSign::Missing;
        }
        let rates = rates[1..rates.len() - 1].iter();
        let rates: Vec<f64> = rates.map(|(rate, _)| *rate).collect();
        let middle = median(rates.iter().copied()).unwrap_or(0.0);
        let far = median(rates.iter().map(|rate| (rate - middle).abs()));
        let scatter = MAD_TO_SD * far.unwrap_or(f64::INFINITY);
        let most = (SCATTER_MAX * middle).max(SCATTER_OPS * MAD_TO_SD);
        if middle < OPS_PER_S_MIN || scatter > most {
            return TrialSign::Absent;
        }
        TrialSign::Shown(vec![
            EvidenceFigure::up_to(
                "scatter of the seconds",
                ratio(scatter, middle),
                EvidenceUnit::Share,
                ratio(most, middle),
            ),
            EvidenceFigure::plain("rate", middle, EvidenceUnit::OpsPerSecond),
        ])
    })
}

/// Few requests that take much longer than all others, each by itself.
pub(super) fn stalls(evidence: &ArmEvidence<'_>) -> CauseFinding {
    let cause = ExplanationCause::Stalls;
    let missing = "it takes 500 reads or writes";
    over_trials(evidence, cause, "", missing, |trial, bins| {
        let kinds = [OpKind::Read, OpKind::Write];
        let kinds = kinds
            .iter()
            .filter_map(|kind| Some((*kind, trial.stats.0.get(kind)?)));
        let told: Vec<_> = kinds
            .filter(|(_, stats)| stats.ops() >= REQUESTS_MIN)
            .collect();
        if told.is_empty() {
            return TrialSign::Missing;
        }
        let shown = |(kind, stats): &(OpKind, &KindStats)| {
            let mode = slow_mode(&stats.service)?;
            (dispersion(bins, *kind, mode.from_ns)? <= DISPERSION_MAX).then_some(mode)
        };
        match told.iter().find_map(shown) {
            None => TrialSign::Absent,
            Some(mode) => TrialSign::Shown(mode.figures()),
        }
    })
}

/// The slow ones of a kind.
struct SlowMode {
    from_ns: u64,
    share: f64,
    of_time: f64,
    times: f64,
}

impl SlowMode {
    fn figures(&self) -> Vec<EvidenceFigure> {
        let most = *STALLED.end();
        vec![
            EvidenceFigure::up_to("requests that stall", self.share, EvidenceUnit::Share, most),
            EvidenceFigure::new(
                "time of a stall, of that of the median request",
                self.times,
                EvidenceUnit::Times,
                STALL_TIMES as f64,
            ),
            EvidenceFigure::new(
                "time of all stalls, of that of all requests",
                self.of_time,
                EvidenceUnit::Share,
                STALLED_TIME,
            ),
            EvidenceFigure::plain(
                "shortest stall",
                self.from_ns as f64,
                EvidenceUnit::Nanoseconds,
            ),
        ]
    }
}

/// A second mode far beyond the first.
fn slow_mode(service: &Histogram) -> Option<SlowMode> {
    let all = service.count();
    let usual = service.quantile_ns(0.5).max(1);
    let least = (usual * STALL_TIMES).max(STALL_NS);
    let buckets: Vec<(u64, u64)> = service.buckets().collect();
    let within = |low: u64, high: u64| -> u64 {
        let inside = buckets.iter().filter(|(at, _)| *at >= low && *at < high);
        inside.map(|(_, count)| count).sum()
    };
    let is_mode = |from: u64| {
        let few = floor_u64(all as f64 * STALLED.start());
        let slow = within(from, from.saturating_mul(2));
        slow >= few.max(5) && slow >= MODE_TIMES * within(from / 2, from).max(1)
    };
    let mut starts = buckets.iter().map(|(at, _)| *at).filter(|at| *at >= least);
    let from_ns = starts.find(|from| is_mode(*from))?;
    let slow = || buckets.iter().filter(|(at, _)| *at >= from_ns);
    let count: u64 = slow().map(|(_, count)| count).sum();
    let time: f64 = slow().map(|(at, count)| *at as f64 * *count as f64).sum();
    let mode = SlowMode {
        from_ns,
        share: ratio(count as f64, all as f64),
        of_time: ratio(time, service.sum_ns() as f64).min(1.0),
        times: ratio(ratio(time, count as f64), usual as f64),
    };
    (STALLED.contains(&mode.share) && mode.of_time >= STALLED_TIME).then_some(mode)
}

/// Variance of the number of slow requests in a second, of its mean.
fn dispersion(bins: &[TrialTimeBin], kind: OpKind, from_ns: u64) -> Option<f64> {
    let slow = |bin: &TrialTimeBin| {
        let response = bin.kinds.get(&kind).map(|kind| &kind.response)?;
        let slow = response.buckets().filter(|(at, _)| *at >= from_ns);
        Some(slow.map(|(_, count)| count as f64).sum())
    };
    let counts: Vec<f64> = bins.iter().map(|bin| slow(bin).unwrap_or(0.0)).collect();
    let mean = ratio(counts.iter().sum(), counts.len() as f64);
    let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
    let variance = ratio(squares, counts.len() as f64 - 1.0);
    (counts.len() >= SECONDS_MIN && mean > 0.0).then(|| ratio(variance, mean))
}

/// A rate, or a response time of a load that is carried, that goes one way from trial to trial.
pub(super) fn drift(evidence: &ArmEvidence<'_>) -> CauseFinding {
    // Trials of a search differ in their load.
    if evidence.entry.load_line.is_some() {
        return CauseFinding::NotApplicable;
    }
    let missing = "it takes five trials";
    let is_free = evidence.results().all(is_free);
    let value = |trial: &TrialResult| match is_free {
        true => ratio(trial.stats.ops() as f64, trial.length.as_secs_f64()),
        false => trial.stats.response().mean_ns(),
    };
    let mut trials: Vec<&TrialResult> = evidence.results().collect();
    trials.sort_by_key(|trial| trial.trial.place);
    let values: Vec<f64> = trials.into_iter().map(value).collect();
    if values.len() < TRIALS_MIN {
        return CauseFinding::Unknown(missing);
    }
    let third = values.len().div_ceil(3);
    let [first, last] = [&values[..third], &values[values.len() - third..]]
        .map(|part| median(part.iter().copied()).unwrap_or(0.0));
    let change = ratio(last, first);
    let is_far = (change - 1.0).abs() >= DRIFT_SHARE;
    if !is_far || kendall(&values).abs() < KENDALL_Z {
        return CauseFinding::Excluded;
    }
    let of = saturating_u32(values.len() as u64);
    let unit = match is_free {
        true => EvidenceUnit::OpsPerSecond,
        false => EvidenceUnit::Nanoseconds,
    };
    let moved = EvidenceFigure::new(
        "change from the first third of the trials to the last",
        (change - 1.0).abs(),
        EvidenceUnit::Share,
        DRIFT_SHARE,
    );
    CauseFinding::Found(vec![CauseExplanation {
        cause: ExplanationCause::Drift,
        about: String::new(),
        strength: ExplanationStrength::ConsistentWith,
        trials: of,
        of,
        evidence: vec![
            moved,
            EvidenceFigure::plain("first third", first, unit),
            EvidenceFigure::plain("last third", last, unit),
        ],
    }])
}

/// Kendall's statistic of values in their order, as a normal deviate (Mann 1945).
fn kendall(values: &[f64]) -> f64 {
    let pairs = (0..values.len()).flat_map(|n| (n + 1..values.len()).map(move |m| (n, m)));
    let sum: f64 = pairs
        .map(|(n, m)| match values[m].total_cmp(&values[n]) {
            std::cmp::Ordering::Greater => 1.0,
            std::cmp::Ordering::Less => -1.0,
            std::cmp::Ordering::Equal => 0.0,
        })
        .sum();
    let n = values.len() as f64;
    sum / (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::units::Nanos;

    fn times(of: &[(u64, u64)]) -> Histogram {
        let mut all = Histogram::new();
        for (us, count) in of {
            all.record_many(Nanos(us * 1000), *count);
        }
        all
    }

    #[test]
    fn a_second_mode_is_told_from_a_long_tail() {
        let stalls = times(&[(1_000, 900), (2_000, 900), (4_000, 180), (60_000, 20)]);
        let mode = slow_mode(&stalls).unwrap();
        assert!((mode.share - 0.01).abs() < 1e-9);
        // Half as many at each doubling.
        let tail: Vec<(u64, u64)> = (0..10).map(|n| (1_000 << n, 1_024 >> n)).collect();
        assert!(slow_mode(&times(&tail)).is_none());
        // Two modes of one size are two kinds of work.
        assert!(slow_mode(&times(&[(1_000, 1_000), (60_000, 1_000)])).is_none());
    }

    #[test]
    fn kendalls_statistic_is_that_of_tables() {
        // Of five values the largest sum is 10, with a variance of 16.67 (Kendall 1970, chapter 5).
        assert!((kendall(&[1.0, 2.0, 3.0, 4.0, 5.0]) - 10.0 / 16.667_f64.sqrt()).abs() < 1e-3);
        assert!((kendall(&[3.0, 1.0, 2.0, 3.0]) - 0.0).abs() < 0.4);
    }
}
