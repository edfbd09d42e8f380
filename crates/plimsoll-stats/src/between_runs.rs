// SPDX-License-Identifier: Apache-2.0
//! Two runs of one campaign at two times.
//!
//! Nothing was interleaved between them: whatever happened to the machine in the time between is in the
//! difference. Where both runs have the same base, the ratio to it within blocks is compared, in which such
//! changes cancel as far as they meet both systems alike. The base itself, and runs of one system, are
//! compared as they are; such a difference counts only where both runs have an A/A control and it lies beyond
//! what both controls admit, and without controls there is no verdict.
//!
//! Blocks of two runs are no pairs, so the interval is Welch's: it needs no equal scatter.

use plimsoll_core::comparison::{
    ComparisonMetric, ComparisonVerdict, RatioEstimate, VerdictPolicy,
};
use plimsoll_core::event::{RunManifest, TrialResult, WorkloadEntry};
use plimsoll_core::num::{floor_u64, saturating_u32, to_usize};
use plimsoll_core::run_diff::{RunDiffBasis, RunDiffRow};

use crate::arrangement::BlockLogValues;
use crate::compare::{
    ArmPair, ArmValues, ComparisonJudge, arm_values, clamped, percent, phase_label,
};
use crate::family::holm;
use crate::overload::carried;
use crate::student;
use crate::summary::is_usable;

/// Manifest and trials of a run.
pub type RunRecord<'a> = (&'a RunManifest, &'a [TrialResult]);

/// Every result that both runs have, the later one against the earlier. The policy is that of the verdicts
/// here; both runs may have had others.
pub fn compare_runs(
    before: RunRecord<'_>,
    after: RunRecord<'_>,
    policy: &VerdictPolicy,
) -> Vec<RunDiffRow> {
    let policy = clamped(policy);
    let (first, second) = (measured(before), measured(after));
    let mut drafts = Vec::new();
    for one in &first {
        let same = |other: &&RunMeasurement| other.label == one.label && other.metric == one.metric;
        if let Some(other) = second.iter().find(same) {
            drafts.extend(draft(one, other, &policy));
        }
    }
    let p_values: Vec<f64> = drafts.iter().map(|draft| draft.p_value(&policy)).collect();
    let rows = drafts.into_iter().zip(holm(&p_values));
    rows.map(|(draft, p_value)| draft.decided(p_value, &policy))
        .collect()
}

/// The values of all arms under one workload, or in one phase of it.
struct RunMeasurement {
    label: String,
    metric: ComparisonMetric,
    arms: Vec<ArmValues>,
    /// Arms that could not carry the load.
    overloaded: Vec<String>,
}

fn measured((manifest, trials): RunRecord<'_>) -> Vec<RunMeasurement> {
    let is_plain = |entry: &&WorkloadEntry| entry.load_line.is_none();
    let mut all = Vec::new();
    for entry in manifest.entries.iter().filter(is_plain) {
        let mine = |trial: &&TrialResult| trial.trial.workload == entry.label;
        let usable: Vec<&TrialResult> = (trials.iter().rev())
            .filter(mine)
            .filter(|trial| trial.is_comparable())
            .collect();
        let overloaded = (manifest.arms.iter().map(|arm| arm.name.clone()))
            .filter(|arm| {
                let here = trials.iter().filter(mine).filter(|t| t.trial.arm == *arm);
                carried(here, None).is_some_and(|load| load.is_overloaded())
            })
            .collect::<Vec<_>>();
        let of = (manifest, entry);
        if let Some(metric) = entry.workload.metric() {
            all.push(RunMeasurement {
                label: entry.label.clone(),
                metric,
                arms: arm_values(of, &usable, |trial| Some(trial.value(metric))),
                overloaded,
            });
            continue;
        }
        for phase in usable.first().map_or(&[][..], |trial| &trial.phases) {
            let value = |trial: &TrialResult| {
                let found = trial.phases.iter().find(|other| other.name == phase.name);
                found.map(|found| found.value)
            };
            all.push(RunMeasurement {
                label: phase_label(&entry.label, &phase.name),
                metric: phase.metric,
                arms: arm_values(of, &usable, value),
                overloaded: overloaded.clone(),
            });
        }
    }
    all
}

impl RunMeasurement {
    fn base(&self) -> Option<&ArmValues> {
        self.arms.iter().find(|arm| arm.control_of.is_none())
    }

    /// ln(arm ÷ base) of each block.
    fn differences(&self, base: &ArmValues, arm: &ArmValues) -> Vec<f64> {
        let pair = ArmPair::of(&self.arms, base, arm);
        pair.blocks.iter().map(BlockLogValues::difference).collect()
    }

    /// The largest |ln ratio| that its control admits; `None` without one.
    fn bound(&self, policy: &VerdictPolicy) -> Option<f64> {
        let base = self.base()?;
        let judge = ComparisonJudge::of(&self.arms, base, policy);
        judge.has_control().then(|| judge.bound())
    }
}

/// The logarithm of each block: the mean of all entries of the arm.
fn logs(arms: &[ArmValues], arm: &ArmValues) -> Vec<f64> {
    let is_own =
        |other: &&ArmValues| other.name == arm.name || other.control_of.as_ref() == Some(&arm.name);
    let own: Vec<&ArmValues> = arms.iter().filter(is_own).collect();
    let of_block = |block: usize| {
        let values = own
            .iter()
            .filter_map(|arm| arm.values.get(block).copied().flatten());
        let logs: Vec<f64> = values
            .filter(|value| is_usable(*value))
            .map(f64::ln)
            .collect();
        (!logs.is_empty()).then(|| logs.iter().sum::<f64>() / logs.len() as f64)
    };
    (0..arm.values.len()).filter_map(of_block).collect()
}

/// A row before there is a verdict.
struct RunDiffDraft {
    row: RunDiffRow,
    contrast: Option<WelchContrast>,
    /// The |ln ratio| that a difference must exceed; `None` where nothing says it.
    floor: Option<f64>,
}

fn draft(
    before: &RunMeasurement,
    after: &RunMeasurement,
    policy: &VerdictPolicy,
) -> Vec<RunDiffDraft> {
    let (Some(old_base), Some(new_base)) = (before.base(), after.base()) else {
        return Vec::new();
    };
    let has_base = old_base.name == new_base.name;
    let is_system = |arm: &&ArmValues| arm.control_of.is_none();
    let mut drafts = Vec::new();
    for old in before.arms.iter().filter(is_system) {
        let Some(new) = after
            .arms
            .iter()
            .filter(is_system)
            .find(|new| new.name == old.name)
        else {
            continue;
        };
        let is_paired = has_base && old.name != old_base.name;
        let (basis, first, second, floor) = if is_paired {
            let basis = RunDiffBasis::BaseOfBlocks(old_base.name.clone());
            let first = before.differences(old_base, old);
            (basis, first, after.differences(new_base, new), Some(0.0))
        } else {
            let bounds = before.bound(policy).zip(after.bound(policy));
            let floor = bounds.map(|(first, second)| first + second);
            let first = logs(&before.arms, old);
            (
                RunDiffBasis::TimeBetween,
                first,
                logs(&after.arms, new),
                floor,
            )
        };
        let lost = |side: &RunMeasurement| side.overloaded.contains(&old.name);
        let mut row = undecided(before, &old.name, basis, (&first, &second));
        if lost(before) || lost(after) {
            row.verdict = ComparisonVerdict::CannotCarry;
            row.reason = match (lost(before), lost(after)) {
                (true, true) => "in neither run it could carry the load",
                (true, false) => "it could not carry the load before, and does now",
                _ => "it carried the load before, and does not now",
            }
            .into();
        }
        let contrast = WelchContrast::of(&first, &second);
        let is_open = row.verdict == ComparisonVerdict::Inconclusive;
        drafts.push(RunDiffDraft {
            row,
            contrast: contrast.filter(|_| is_open),
            floor,
        });
    }
    drafts
}

fn undecided(
    of: &RunMeasurement,
    arm: &str,
    basis: RunDiffBasis,
    (first, second): (&[f64], &[f64]),
) -> RunDiffRow {
    let middle = |logs: &[f64]| match logs.len() {
        0 => 0.0,
        n => (logs.iter().sum::<f64>() / n as f64).exp(),
    };
    let count = |logs: &[f64]| saturating_u32(logs.len() as u64);
    RunDiffRow {
        workload: of.label.clone(),
        arm: arm.into(),
        metric: of.metric,
        basis,
        before: middle(first),
        after: middle(second),
        blocks: [count(first), count(second)],
        ratio: None,
        verdict: ComparisonVerdict::Inconclusive,
        reason: "needs at least two blocks in each run".into(),
    }
}

impl RunDiffDraft {
    fn p_value(&self, _: &VerdictPolicy) -> f64 {
        self.contrast
            .as_ref()
            .map_or(1.0, |contrast| contrast.p_value(0.0))
    }

    fn decided(mut self, p_value: f64, policy: &VerdictPolicy) -> RunDiffRow {
        let Some(contrast) = &self.contrast else {
            return self.row;
        };
        let alpha = 1.0 - policy.confidence;
        self.row.ratio = Some(contrast.ratio(policy.confidence));
        let margin = policy.margin.max(0.0).ln_1p();
        let is_within = contrast.within_p_value(margin) <= alpha;
        let is_different = p_value <= alpha;
        let beyond = self.floor.is_some_and(|floor| contrast.mean.abs() > floor);
        let is_between = self.row.basis == RunDiffBasis::TimeBetween;
        let (verdict, reason) = match (self.floor, is_within, is_different) {
            (None, ..) => (
                ComparisonVerdict::Inconclusive,
                "the runs lack a common base and an A/A control each, so nothing tells a change of the system \
                 from one of the machine in the time between"
                    .into(),
            ),
            // The bounds of both controls together are also within the margin.
            (Some(floor), true, _) if floor <= margin => (ComparisonVerdict::Equivalent, String::new()),
            (Some(floor), true, _) => (
                ComparisonVerdict::Inconclusive,
                format!(
                    "the interval lies within the margin, but the A/A controls of both runs admit {}",
                    percent(floor.exp_m1())
                ),
            ),
            (_, false, true) if beyond => (ComparisonVerdict::Different, String::new()),
            (Some(floor), false, true) => (
                ComparisonVerdict::Inconclusive,
                format!(
                    "it lies within what the A/A controls of both runs admit, {}",
                    percent(floor.exp_m1())
                ),
            ),
            (Some(_), false, false) => (
                ComparisonVerdict::Inconclusive,
                "the interval includes 1, or one such interval is to be expected among so many".into(),
            ),
        };
        self.row.verdict = verdict;
        self.row.reason = reason;
        if is_between && self.floor.is_some() {
            let drift = "drift of the machine between the runs is not in the interval";
            self.row.reason = crate::compare::joined(&self.row.reason, drift);
        }
        self.row
    }
}

/// Two means of unpaired values (Welch, 1947).
struct WelchContrast {
    mean: f64,
    error: f64,
    freedom: usize,
}

impl WelchContrast {
    fn of(first: &[f64], second: &[f64]) -> Option<WelchContrast> {
        if first.len() < 2 || second.len() < 2 {
            return None;
        }
        let (a, b) = (squared_error(first), squared_error(second));
        let of = |error: f64, values: &[f64]| error * error / (values.len() as f64 - 1.0);
        let freedom = (a + b) * (a + b) / (of(a, first) + of(b, second));
        let least = first.len().min(second.len()) - 1;
        Some(WelchContrast {
            mean: mean(second) - mean(first),
            error: (a + b).sqrt(),
            // Without any spread there is no such number; whole numbers are cautious.
            freedom: match freedom.is_finite() {
                true => to_usize(floor_u64(freedom)).max(1),
                false => least.max(1),
            },
        })
    }

    fn ratio(&self, confidence: f64) -> RatioEstimate {
        let half = student::two_sided(confidence, self.freedom) * self.error;
        RatioEstimate::of_logs(self.mean, self.mean - half, self.mean + half)
    }

    /// How likely the difference is if the true one were this, two-sided.
    fn p_value(&self, truth: f64) -> f64 {
        (2.0 * self.tail((self.mean - truth).abs())).min(1.0)
    }

    /// The larger of both one-sided tests of a difference beyond the margin.
    fn within_p_value(&self, margin: f64) -> f64 {
        self.tail(margin - self.mean.abs())
    }

    fn tail(&self, distance: f64) -> f64 {
        if self.error > 0.0 {
            return student::above(distance / self.error, self.freedom);
        }
        f64::from(u8::from(distance <= 0.0))
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn squared_error(values: &[f64]) -> f64 {
    let middle = mean(values);
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    let n = values.len() as f64;
    squares / (n - 1.0) / n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpaired_means_by_hand() {
        // Means 2 and 4, squared errors 1/3 and 4/3, freedom (5/3)^2 / ((1/9 + 16/9) / 2) = 2.94.
        let welch = WelchContrast::of(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]).unwrap();
        assert!((welch.mean - 2.0).abs() < 1e-12);
        assert!((welch.error - (5.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(welch.freedom, 2);
        assert!(WelchContrast::of(&[1.0], &[2.0, 3.0]).is_none());
        let same = WelchContrast::of(&[1.0, 1.0], &[1.0, 1.0]).unwrap();
        assert!((same.p_value(0.0) - 1.0).abs() < 1e-12 && same.within_p_value(0.05) < 1e-12);
    }
}
