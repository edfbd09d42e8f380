// SPDX-License-Identifier: Apache-2.0
//! From the verdict on two systems to that of a gate.
//!
//! A gate has one direction and one size: is the candidate worse by as much as matters? A worsening that is
//! shown, but also shown to be smaller, passes; so does one that may be, where its interval ends before.

use plimsoll_core::comparison::{ArmComparison, ComparisonVerdict};
use plimsoll_core::gate::{GateRow, GateVerdict};

/// The confidence of each of `rows` rows that keeps the false alarms of all rows together at 5 %.
pub fn gate_confidence(rows: usize) -> f64 {
    1.0 - 0.05 / rows.max(1) as f64
}

/// The rows of a gate: those of systems that are no controls.
pub fn gate_rows(comparisons: &[ArmComparison], effect: f64) -> Vec<GateRow> {
    let of_systems = comparisons.iter().filter(|row| !row.is_control);
    of_systems.map(|row| gate_row(row, effect)).collect()
}

/// The verdict of a gate on several rows; of none it cannot tell.
pub fn gate_verdict(rows: &[GateRow]) -> GateVerdict {
    let worst = rows.iter().map(|row| row.verdict).max();
    worst.unwrap_or(GateVerdict::CannotTell)
}

fn gate_row(row: &ArmComparison, effect: f64) -> GateRow {
    GateRow {
        workload: row.workload.clone(),
        metric: row.metric,
        reference_value: row.base_value,
        candidate_value: row.arm_value,
        ratio: row.ratio,
        blocks: row.blocks,
        verdict: judged(row, effect),
        reason: row.reason.clone(),
    }
}

fn judged(row: &ArmComparison, effect: f64) -> GateVerdict {
    // How much worse it may be at most, as a logarithm.
    let worst = row.ratio.map(|ratio| match row.metric.more_is_better() {
        true => -ratio.low.ln(),
        false => ratio.high.ln(),
    });
    let is_small = worst.is_some_and(|worst| worst < effect.ln_1p());
    match row.verdict {
        ComparisonVerdict::CannotCarry => {
            match (row.base_is_overloaded(), row.arm_is_overloaded()) {
                (false, true) => GateVerdict::Regression,
                (true, false) => GateVerdict::NoRegression,
                _ => GateVerdict::CannotTell,
            }
        }
        ComparisonVerdict::Equivalent => GateVerdict::NoRegression,
        ComparisonVerdict::Different if row.is_worse() && !is_small => GateVerdict::Regression,
        ComparisonVerdict::Different => GateVerdict::NoRegression,
        ComparisonVerdict::Inconclusive if is_small => GateVerdict::NoRegression,
        ComparisonVerdict::Inconclusive => GateVerdict::CannotTell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::comparison::{ComparisonMetric, RatioEstimate};

    fn row(
        metric: ComparisonMetric,
        verdict: ComparisonVerdict,
        [low, estimate, high]: [f64; 3],
    ) -> ArmComparison {
        ArmComparison {
            workload: "w".into(),
            arm: "candidate".into(),
            base: "reference".into(),
            is_control: false,
            metric,
            base_value: 1.0,
            arm_value: estimate,
            blocks: 6,
            ratio: Some(RatioEstimate {
                estimate,
                low,
                high,
            }),
            verdict,
            reason: String::new(),
            detectable: None,
            noise_floor: None,
            blocks_needed: None,
            base_carried: None,
            arm_carried: None,
        }
    }

    #[test]
    fn only_what_is_worse_by_as_much_as_matters_fails() {
        use ComparisonMetric::{OpsPerSecond, WallTime};
        use ComparisonVerdict::{Different, Equivalent, Inconclusive};
        use GateVerdict::{CannotTell, NoRegression, Regression};
        for (metric, verdict, ratio, expect) in [
            (WallTime, Different, [1.08, 1.1, 1.12], Regression),
            (WallTime, Different, [1.01, 1.04, 1.07], Regression),
            (WallTime, Different, [1.01, 1.02, 1.03], NoRegression),
            (WallTime, Different, [0.88, 0.9, 0.92], NoRegression),
            (WallTime, Inconclusive, [0.97, 1.03, 1.09], CannotTell),
            (WallTime, Inconclusive, [0.8, 0.9, 1.04], NoRegression),
            (WallTime, Equivalent, [0.99, 1.01, 1.03], NoRegression),
            (OpsPerSecond, Different, [0.88, 0.9, 0.92], Regression),
            (OpsPerSecond, Different, [1.08, 1.1, 1.12], NoRegression),
            (OpsPerSecond, Inconclusive, [0.92, 1.0, 1.1], CannotTell),
            (OpsPerSecond, Inconclusive, [0.96, 1.1, 1.3], NoRegression),
        ] {
            let found = gate_rows(&[row(metric, verdict, ratio)], 0.05);
            assert_eq!(found[0].verdict, expect, "{metric:?} {verdict:?} {ratio:?}");
        }
    }

    #[test]
    fn a_gate_is_as_bad_as_its_worst_row_and_controls_are_no_rows() {
        let mut rows = vec![
            row(
                ComparisonMetric::WallTime,
                ComparisonVerdict::Equivalent,
                [0.99, 1.0, 1.01],
            ),
            row(
                ComparisonMetric::WallTime,
                ComparisonVerdict::Different,
                [1.2, 1.3, 1.4],
            ),
        ];
        assert_eq!(
            gate_verdict(&gate_rows(&rows, 0.05)),
            GateVerdict::Regression
        );
        rows[1].is_control = true;
        assert_eq!(
            gate_verdict(&gate_rows(&rows, 0.05)),
            GateVerdict::NoRegression
        );
        assert_eq!(gate_verdict(&[]), GateVerdict::CannotTell);
        assert!((gate_confidence(5) - 0.99).abs() < 1e-12);
    }
}
