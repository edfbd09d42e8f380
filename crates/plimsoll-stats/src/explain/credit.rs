// SPDX-License-Identifier: Apache-2.0
//! Credit for bursts: a rate that drops once, when the credit is spent, and is then constant.
//!
//! A limiter is a token bucket (ITU-T I.371; the documented form of cloud disks and of
//! `throttle`-like layers): until the bucket is empty the device serves what it can, then exactly what is
//! refilled. Noise of a device does not pass the limiter, so what is left scatters far less than
//! any disk does: that tells it from a cache that fills.

use plimsoll_core::event::{TrialResult, TrialTimeBin};
use plimsoll_core::explanation::{EvidenceFigure, EvidenceUnit, ExplanationCause};
use plimsoll_core::num::ratio;

use super::{ArmEvidence, CauseFinding, TrialSign, over_trials};
use crate::events::median;
use crate::overload::backlog;

/// Seconds that a trial must have.
const BINS_MIN: usize = 8;
/// Seconds after the drop that must be there to call them constant.
const PLATEAU_MIN: usize = 5;
/// The burst is at least this many times the plateau …
const DROP: f64 = 1.3;
/// … and more where it is over within a second.
const DROP_AT_ONCE: f64 = 1.5;
/// Scatter of the plateau (of single seconds, robust: 1.4826 times the median deviation).
const SCATTER_MAX: f64 = 0.03;
/// How far the two halves of the plateau may differ.
const TREND_MAX: f64 = 0.03;
/// How far the plateau of another trial may be away, in which no credit was left.
const SAME_PLATEAU: f64 = 0.05;
/// From the median absolute deviation to the standard deviation of a normal law.
pub(super) const MAD_TO_SD: f64 = 1.4826;

/// One trial in which credit was used up.
#[derive(Debug, Clone, Copy, PartialEq)]
struct CreditDrop {
    burst_per_s: f64,
    plateau_per_s: f64,
    scatter: f64,
    /// Operations above the plateau, until the drop.
    credit: f64,
    after_s: f64,
}

pub(super) fn burst_credit(evidence: &ArmEvidence<'_>) -> CauseFinding {
    let drops = evidence.trials.iter();
    let drops: Vec<CreditDrop> = drops
        .filter(|(trial, _)| is_free(trial))
        .filter_map(|(_, bins)| drop_in(&free_rates(bins)))
        .collect();
    let plateau = median(drops.iter().map(|drop| drop.plateau_per_s));
    let cause = ExplanationCause::BurstCredit;
    let missing = "it takes trials of eight seconds or more, with load to spare";
    over_trials(evidence, cause, "", missing, |trial, bins| {
        let rates = free_rates(bins);
        if rates.len() < BINS_MIN || !is_free(trial) {
            return TrialSign::Missing;
        }
        match (drop_in(&rates), plateau) {
            (Some(drop), _) => TrialSign::Shown(figures(&drop, trial)),
            // Credit that an earlier trial has used up.
            (None, Some(plateau)) if is_at(&rates, plateau) => TrialSign::Shown(Vec::new()),
            _ => TrialSign::Absent,
        }
    })
}

/// Whether the rate is the storage's: a closed loop, or an open one that it cannot carry.
pub(crate) fn is_free(trial: &TrialResult) -> bool {
    let open = &trial.generator.open;
    open.is_empty() || open.iter().filter_map(backlog).any(|left| left.grew)
}

/// Operations and their time in each whole second.
pub(crate) fn free_rates(bins: &[TrialTimeBin]) -> Vec<(f64, f64)> {
    let whole = bins.iter().filter(|bin| bin.length.as_secs_f64() >= 0.5);
    whole
        .map(|bin| {
            let seconds = bin.length.as_secs_f64();
            (ratio(bin.response.count() as f64, seconds), seconds)
        })
        .collect()
}

/// The drop, where there is one: the split with the least squares, if what follows is constant.
fn drop_in(rates: &[(f64, f64)]) -> Option<CreditDrop> {
    if rates.len() < BINS_MIN {
        return None;
    }
    let values: Vec<f64> = rates.iter().map(|(rate, _)| *rate).collect();
    // The last second may be cut off by the end.
    let values = &values[..values.len() - 1];
    let squares = |part: &[f64]| {
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        part.iter().map(|v| (v - mean).powi(2)).sum::<f64>()
    };
    let splits = 1..=values.len().checked_sub(PLATEAU_MIN)?;
    let error = |at: usize| squares(&values[..at]) + squares(&values[at..]);
    let at = splits.min_by(|a, b| error(*a).total_cmp(&error(*b)))?;
    // The second of the drop itself is neither.
    let (before, after) = (&values[..at], &values[at..]);
    let plateau = median(after.iter().copied())?;
    let settled: Vec<f64> = match after.first() {
        Some(first) if *first > plateau * (1.0 + SCATTER_MAX) => after[1..].to_vec(),
        _ => after.to_vec(),
    };
    let scatter = scatter(&settled, plateau);
    let burst = before.iter().sum::<f64>() / before.len() as f64;
    let least = if at == 1 { DROP_AT_ONCE } else { DROP };
    let is_one = plateau > 0.0
        && settled.len() >= PLATEAU_MIN - 1
        && burst >= least * plateau
        && scatter <= SCATTER_MAX
        && trend(&settled) <= TREND_MAX;
    is_one.then(|| CreditDrop {
        burst_per_s: burst,
        plateau_per_s: plateau,
        scatter,
        credit: rates[..at]
            .iter()
            .map(|(rate, seconds)| (rate - plateau) * seconds)
            .sum(),
        after_s: rates[..at].iter().map(|(_, seconds)| seconds).sum(),
    })
}

/// Robust scatter of single seconds around their middle, as a share of it.
fn scatter(values: &[f64], middle: f64) -> f64 {
    let far = median(values.iter().map(|value| (value - middle).abs()));
    ratio(MAD_TO_SD * far.unwrap_or(f64::INFINITY), middle)
}

/// How far apart the two halves are.
fn trend(values: &[f64]) -> f64 {
    let (first, second) = values.split_at(values.len() / 2);
    let first = median(first.iter().copied()).unwrap_or(0.0);
    let second = median(second.iter().copied()).unwrap_or(0.0);
    (ratio(second, first) - 1.0).abs()
}

/// Whether a trial is at this plateau from its beginning.
fn is_at(rates: &[(f64, f64)], plateau: f64) -> bool {
    let values: Vec<f64> = rates.iter().map(|(rate, _)| *rate).collect();
    let middle = median(values.iter().copied()).unwrap_or(0.0);
    (ratio(middle, plateau) - 1.0).abs() <= SAME_PLATEAU && scatter(&values, middle) <= SCATTER_MAX
}

fn figures(drop: &CreditDrop, trial: &TrialResult) -> Vec<EvidenceFigure> {
    let per_op = ratio(trial.stats.bytes() as f64, trial.stats.ops() as f64);
    vec![
        EvidenceFigure::new(
            "rate before the drop, of the rate after it",
            ratio(drop.burst_per_s, drop.plateau_per_s),
            EvidenceUnit::Times,
            DROP,
        ),
        EvidenceFigure::up_to(
            "scatter of the seconds after the drop",
            drop.scatter,
            EvidenceUnit::Share,
            SCATTER_MAX,
        ),
        EvidenceFigure::plain(
            "rate after the drop",
            drop.plateau_per_s,
            EvidenceUnit::OpsPerSecond,
        ),
        EvidenceFigure::plain(
            "throughput after the drop",
            drop.plateau_per_s * per_op,
            EvidenceUnit::BytesPerSecond,
        ),
        EvidenceFigure::plain("credit used", drop.credit * per_op, EvidenceUnit::Bytes),
        EvidenceFigure::plain(
            "time until the drop",
            drop.after_s * 1e9,
            EvidenceUnit::Nanoseconds,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(rates: &[f64]) -> Vec<(f64, f64)> {
        rates.iter().map(|rate| (*rate, 1.0)).collect()
    }

    #[test]
    fn a_drop_to_a_constant_rate_is_credit_and_its_size_is_told() {
        let rates = [
            900.0, 905.0, 897.0, 300.0, 301.0, 299.0, 300.0, 300.5, 299.5, 300.0, 150.0,
        ];
        let drop = drop_in(&seconds(&rates)).unwrap();
        assert!((drop.plateau_per_s - 300.0).abs() < 1.0);
        assert!((drop.credit - 1802.0).abs() < 10.0, "{drop:?}");
        assert!((drop.after_s - 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_burst_within_the_first_second_must_be_larger() {
        let with = |first: f64| {
            let mut rates = vec![300.0; 12];
            rates[0] = first;
            drop_in(&seconds(&rates)).is_some()
        };
        assert!(with(600.0));
        assert!(!with(420.0));
    }

    #[test]
    fn what_scatters_drifts_or_rises_is_no_credit() {
        let scattered = [
            900.0, 905.0, 300.0, 340.0, 270.0, 310.0, 260.0, 350.0, 300.0, 290.0,
        ];
        assert!(drop_in(&seconds(&scattered)).is_none());
        let drifting: Vec<f64> = (0..14).map(|n| 900.0 * 0.93_f64.powi(n)).collect();
        assert!(drop_in(&seconds(&drifting)).is_none());
        let rising = [
            300.0, 300.0, 300.0, 900.0, 900.0, 900.0, 900.0, 900.0, 900.0, 900.0,
        ];
        assert!(drop_in(&seconds(&rising)).is_none());
        assert!(drop_in(&seconds(&[300.0; 12])).is_none());
        assert!(drop_in(&seconds(&[900.0, 300.0, 300.0])).is_none());
        assert!(drop_in(&seconds(&[0.0; 12])).is_none());
    }
}
