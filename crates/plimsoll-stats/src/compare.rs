// SPDX-License-Identifier: Apache-2.0
//! From values per block to a verdict.
//!
//! Before all else: a system whose backlog grew to the end in most blocks *cannot carry* the load.
//! Response times of such a system have no upper limit, so there is nothing to compare, and nothing
//! clearer to say.
//!
//! The rule for the others, fixed before the first block and never widened afterwards:
//! * *equivalent* when the (1 - 2α) interval of the ratio lies within the margin (two one-sided
//!   tests; α = 1 - confidence, so 90 % for a confidence of 95 %);
//! * else *different* when the interval of the policy's confidence excludes 1 and the estimate lies
//!   beyond the A/A bound;
//! * else *inconclusive* (also when the control alone differs by more than the margin), with the
//!   reason and the blocks that would settle it.
//!
//! The A/A bound is the largest effect that the control's interval admits between two entries of
//! one system. On logarithms, so that ×1.1 and ×1/1.1 are the same effect:
//! exp(max(|ln low|, |ln high|)) - 1. Confidence holds per comparison: nothing is corrected for
//! several arms, so of 20 arms without a difference one interval is expected to miss 1.

use plimsoll_core::comparison::{
    ArmComparison, ComparisonMetric, ComparisonVerdict, OverloadStats, VerdictPolicy,
};
use plimsoll_core::event::{RunManifest, TrialResult, WorkloadEntry};
use plimsoll_core::num::saturating_u32;

use crate::overload::carried;
use crate::paired::PairedLogRatioStats;
use crate::power::{BLOCKS_MAX, DifferenceTest, POWER, fewest_blocks};
use crate::summary::{geometric_mean, is_usable};

/// What one arm measured under one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmValues {
    /// Label of the arm.
    pub name: String,
    /// Label of the arm whose second entry this is (the A/A control).
    pub control_of: Option<String>,
    /// The metric by block number; `None` where the block has no value.
    pub values: Vec<Option<f64>>,
}

/// Every comparison that the trials of a run allow, workload by workload and phase by phase.
///
/// Trials cut short, those with failed operations or bad data, and those whose generator was not let
/// run are left out; what an overloaded system had not finished is no failure. When a trial was
/// repeated in a block, the last result counts.
#[must_use]
pub fn compare_all(manifest: &RunManifest, trials: &[TrialResult]) -> Vec<ArmComparison> {
    each(manifest, trials, compare)
}

/// The same for a ladder of systems, each of which adds something to the one before it: every arm
/// is held against the arm before. Controls are not among the rows; they judge as they do there.
#[must_use]
pub fn compare_steps(manifest: &RunManifest, trials: &[TrialResult]) -> Vec<ArmComparison> {
    each(manifest, trials, step_by_step)
}

/// Compares arms under one workload and metric, as [`compare`] does.
type Compare = fn(&str, ComparisonMetric, &[ArmValues], &VerdictPolicy) -> Vec<ArmComparison>;

fn each(manifest: &RunManifest, trials: &[TrialResult], compare: Compare) -> Vec<ArmComparison> {
    let mut all = Vec::new();
    for entry in &manifest.entries {
        all.extend(under_fault(manifest, trials, entry, compare));
        let usable: Vec<&TrialResult> = trials
            .iter()
            .rev()
            .filter(|t| t.is_comparable() && t.trial.workload == entry.label)
            .collect();
        if let Some(metric) = entry.workload.metric() {
            let value = |trial: &TrialResult| Some(trial.value(metric));
            let arms = arm_values((manifest, entry), &usable, value);
            let mut rows = compare(&entry.label, metric, &arms, &manifest.policy);
            judge_load(&mut rows, trials, &entry.label, None);
            all.extend(rows);
            continue;
        }
        // Phases are compared one by one. All trials have the same: those of the first tell them.
        for phase in usable.first().map_or(&[][..], |trial| &trial.phases) {
            let value = |trial: &TrialResult| {
                let found = trial.phases.iter().find(|other| other.name == phase.name);
                found.map(|found| found.value)
            };
            let label = phase_label(&entry.label, &phase.name);
            let arms = arm_values((manifest, entry), &usable, value);
            let mut rows = compare(&label, phase.metric, &arms, &manifest.policy);
            judge_load(&mut rows, trials, &entry.label, Some(&phase.name));
            all.extend(rows);
        }
    }
    all
}

/// What the sessions felt of the faults of an entry: the first answer of such an entry. Trials whose load
/// cannot be compared count, since faults may end it.
fn under_fault(
    manifest: &RunManifest,
    trials: &[TrialResult],
    entry: &WorkloadEntry,
    compare: Compare,
) -> Vec<ArmComparison> {
    let mut all = Vec::new();
    if entry.inject.is_none() {
        return all;
    }
    let felt: Vec<&TrialResult> = trials
        .iter()
        .rev()
        .filter(|t| t.fault.is_some() && t.trial.workload == entry.label)
        .collect();
    for metric in [ComparisonMetric::WriteOutage, ComparisonMetric::BrownOut] {
        let value = |trial: &TrialResult| Some(trial.value(metric));
        let arms = arm_values((manifest, entry), &felt, value);
        let label = phase_label(&entry.label, metric.name());
        let mut rows = compare(&label, metric, &arms, &manifest.policy);
        for row in &mut rows {
            let of_row = |t: &&&TrialResult| [&row.arm, &row.base].contains(&&t.trial.arm);
            let is_open = |t: &&&TrialResult| t.fault.as_ref().is_some_and(|f| f.is_open(metric));
            match felt.iter().filter(of_row).filter(is_open).count() {
                0 => {}
                open => {
                    let text = format!(
                        "{open} of them had not ended when they were last looked at: they count as \
                         long as they were seen"
                    );
                    row.reason = joined(&row.reason, &text);
                }
            }
        }
        all.extend(rows);
    }
    all
}

/// Says of each row which of both systems cannot carry the load, if one cannot.
fn judge_load(
    rows: &mut [ArmComparison],
    trials: &[TrialResult],
    workload: &str,
    phase: Option<&str>,
) {
    let of = |arm: &str| {
        let here = |t: &&TrialResult| t.trial.workload == workload && t.trial.arm == arm;
        carried(trials.iter().filter(here), phase)
    };
    for row in rows {
        let (base, arm) = (of(&row.base), of(&row.arm));
        let seen = |one: Option<OverloadStats>| one.is_some_and(|one| one.blocks_overloaded > 0);
        if !seen(base) && !seen(arm) {
            continue;
        }
        (row.base_carried, row.arm_carried) = (base, arm);
        if row.base_is_overloaded() || row.arm_is_overloaded() {
            row.verdict = ComparisonVerdict::CannotCarry;
            (row.ratio, row.detectable, row.blocks_needed) = (None, None, None);
            row.reason = String::new();
        } else {
            let blocks = |one: Option<OverloadStats>| one.map_or(0, |one| one.blocks_overloaded);
            let text = format!(
                "the backlog grew to the end in {} of {} trials, so this load is near the limit",
                blocks(base) + blocks(arm),
                base.map_or(0, |one| one.blocks) + arm.map_or(0, |one| one.blocks),
            );
            row.reason = joined(&row.reason, &text);
        }
    }
}

/// What a phase of a workload is called in comparisons.
#[must_use]
pub fn phase_label(workload: &str, phase: &str) -> String {
    format!("{workload}: {phase}")
}

/// The values of all arms by block; of several trials of an arm in a block the first counts.
fn arm_values(
    (manifest, entry): (&RunManifest, &WorkloadEntry),
    trials: &[&TrialResult],
    value: impl Fn(&TrialResult) -> Option<f64>,
) -> Vec<ArmValues> {
    let of = |arm: &str, block: u32| {
        let here = |t: &&&TrialResult| t.trial.block == block && t.trial.arm == arm;
        trials.iter().find(here).and_then(|t| value(t))
    };
    let values = |arm: &plimsoll_core::event::ArmEntry| ArmValues {
        name: arm.name.clone(),
        control_of: arm.control_of.clone(),
        values: (0..manifest.blocks).map(|b| of(&arm.name, b)).collect(),
    };
    // Those that cannot have its fault have no part in it.
    let arms = manifest.arms.iter();
    arms.filter(|arm| entry.is_played_on(&arm.name))
        .map(values)
        .collect()
}

/// Holds every arm against the first one that is not a control, and every control against the
/// arm it is the second entry of. Empty when there is nothing to compare.
///
/// A confidence outside 0.5..=0.9999 is taken as the nearer end.
#[must_use]
pub fn compare(
    workload: &str,
    metric: ComparisonMetric,
    arms: &[ArmValues],
    policy: &VerdictPolicy,
) -> Vec<ArmComparison> {
    let Some(base) = arms.iter().find(|arm| arm.control_of.is_none()) else {
        return Vec::new();
    };
    let judge = Judge::of(arms, base, policy);
    let others = arms.iter().filter(|arm| arm.name != base.name);
    others
        .map(|arm| judge.comparison(workload, metric, own(arms, base, arm), arm))
        .collect()
}

fn step_by_step(
    workload: &str,
    metric: ComparisonMetric,
    arms: &[ArmValues],
    policy: &VerdictPolicy,
) -> Vec<ArmComparison> {
    let rungs: Vec<&ArmValues> = arms.iter().filter(|arm| arm.control_of.is_none()).collect();
    let Some(base) = rungs.first() else {
        return Vec::new();
    };
    let judge = Judge::of(arms, base, policy);
    let steps = rungs.windows(2);
    steps
        .map(|pair| judge.comparison(workload, metric, pair[0], pair[1]))
        .collect()
}

/// The arm that a control is the second entry of; the base for the others.
fn own<'a>(arms: &'a [ArmValues], base: &'a ArmValues, arm: &ArmValues) -> &'a ArmValues {
    let name = arm.control_of.as_ref();
    arms.iter()
        .find(|other| Some(&other.name) == name)
        .unwrap_or(base)
}

/// The blocks in which both arms have a usable value.
struct ArmValuePairs {
    logs: Vec<f64>,
    base: Vec<f64>,
    arm: Vec<f64>,
    /// Blocks with a value in both arms of which one has no logarithm (zero, not a number).
    unusable: usize,
}

impl ArmValuePairs {
    fn of(base: &ArmValues, arm: &ArmValues) -> ArmValuePairs {
        let both = base.values.iter().zip(&arm.values);
        let both: Vec<(f64, f64)> = both.filter_map(|(b, a)| Some(((*b)?, (*a)?))).collect();
        let usable: Vec<&(f64, f64)> = both
            .iter()
            .filter(|(b, a)| is_usable(*b) && is_usable(*a))
            .collect();
        ArmValuePairs {
            logs: usable.iter().map(|(b, a)| (a / b).ln()).collect(),
            base: usable.iter().map(|(b, _)| *b).collect(),
            arm: usable.iter().map(|(_, a)| *a).collect(),
            unusable: both.len() - usable.len(),
        }
    }
}

/// The policy and what the control says of the lab.
struct Judge {
    policy: VerdictPolicy,
    control: Option<PairedLogRatioStats>,
}

impl Judge {
    /// A confidence outside 0.5..=0.9999 is taken as the nearer end.
    fn of(arms: &[ArmValues], base: &ArmValues, policy: &VerdictPolicy) -> Judge {
        let policy = VerdictPolicy {
            confidence: policy.confidence.clamp(0.5, 0.9999),
            margin: policy.margin,
        };
        // With several controls the noisiest one speaks.
        let control = arms
            .iter()
            .filter(|arm| arm.control_of.is_some())
            .filter_map(|arm| {
                PairedLogRatioStats::of(&ArmValuePairs::of(own(arms, base, arm), arm).logs)
            })
            .max_by(|a, b| {
                let admitted = |p: &PairedLogRatioStats| p.largest_admitted(policy.confidence);
                admitted(a).total_cmp(&admitted(b))
            });
        Judge { policy, control }
    }

    fn comparison(
        &self,
        workload: &str,
        metric: ComparisonMetric,
        base: &ArmValues,
        arm: &ArmValues,
    ) -> ArmComparison {
        let pairs = ArmValuePairs::of(base, arm);
        let is_control = arm.control_of.is_some();
        let mut row = ArmComparison {
            workload: workload.into(),
            arm: arm.name.clone(),
            base: base.name.clone(),
            is_control,
            metric,
            base_value: geometric_mean(pairs.base.iter().copied()),
            arm_value: geometric_mean(pairs.arm.iter().copied()),
            blocks: saturating_u32(pairs.logs.len() as u64),
            ratio: None,
            verdict: ComparisonVerdict::Inconclusive,
            reason: "needs at least two blocks in which both systems have a value".into(),
            detectable: None,
            noise_floor: self.control.map(|_| self.floor().exp_m1()),
            blocks_needed: None,
            base_carried: None,
            arm_carried: None,
        };
        if pairs.logs.is_empty() {
            // Nothing is shared, so each arm can only speak for itself.
            row.base_value = geometric_mean(base.values.iter().flatten().copied());
            row.arm_value = geometric_mean(arm.values.iter().flatten().copied());
        }
        if let Some(paired) = PairedLogRatioStats::of(&pairs.logs) {
            self.decide(&mut row, &paired);
        } else {
            row.blocks_needed = Some(2);
        }
        if pairs.unusable > 0 {
            let lost = format!(
                "{} {} left out because a value was zero or not a number",
                pairs.unusable,
                if pairs.unusable == 1 {
                    "block was"
                } else {
                    "blocks were"
                },
            );
            row.reason = joined(&row.reason, &lost);
        }
        row
    }

    fn decide(&self, row: &mut ArmComparison, paired: &PairedLogRatioStats) {
        let confidence = self.policy.confidence;
        let ratio = paired.ratio(confidence);
        row.ratio = Some(ratio);
        let test = DifferenceTest {
            deviation: paired.deviation,
            confidence,
            floor: if row.is_control { 0.0 } else { self.floor() },
        };
        row.detectable = test.detectable_fraction(paired.blocks);
        let margin = self.margin();
        let equivalent = paired.largest_admitted(2.0 * confidence - 1.0) <= margin;
        let distinct = ratio.low > 1.0 || ratio.high < 1.0;
        let lost = !row.is_control && self.control_exceeds_margin();
        row.verdict = match (equivalent, distinct) {
            (true, _) if lost => ComparisonVerdict::Inconclusive,
            (true, _) => ComparisonVerdict::Equivalent,
            (false, true) if paired.mean.abs() > test.floor => ComparisonVerdict::Different,
            _ => ComparisonVerdict::Inconclusive,
        };
        row.reason = match row.verdict {
            ComparisonVerdict::CannotCarry => String::new(),
            ComparisonVerdict::Equivalent if distinct => format!(
                "a difference of {} is measurable, but it is within the margin of {}",
                percent(paired.mean.abs().exp_m1()),
                plain(self.policy.margin),
            ),
            ComparisonVerdict::Equivalent => String::new(),
            ComparisonVerdict::Different => self.different(row.is_control),
            ComparisonVerdict::Inconclusive if equivalent => {
                "the interval lies within the margin, but the A/A control does not, so drift or \
                 order effects are present"
                    .into()
            }
            ComparisonVerdict::Inconclusive => {
                let needed = self.blocks_needed(row.is_control, paired);
                row.blocks_needed = needed.map(|n| saturating_u32(n as u64));
                self.inconclusive(paired, distinct, needed)
            }
        };
    }

    fn different(&self, is_control: bool) -> String {
        let confidence = self.policy.confidence;
        let control_is_off = |c: &PairedLogRatioStats| c.mean.abs() > c.half_width(confidence);
        if is_control {
            "the A/A control shows a difference, so drift or order effects are present".into()
        } else if self.control.is_none() {
            "no A/A control has two blocks, so the A/A bound is unknown".into()
        } else if self.control.as_ref().is_some_and(control_is_off) {
            "the A/A control differs too, but by less: drift or order effects are present".into()
        } else {
            String::new()
        }
    }

    fn inconclusive(
        &self,
        paired: &PairedLogRatioStats,
        distinct: bool,
        needed: Option<usize>,
    ) -> String {
        let what = if distinct {
            format!(
                "the effect of {} is within the A/A bound of {}",
                percent(paired.mean.abs().exp_m1()),
                percent(self.floor().exp_m1()),
            )
        } else {
            format!(
                "the interval includes 1 and extends beyond the margin of {}",
                plain(self.policy.margin),
            )
        };
        let settle = match needed {
            Some(n) => format!("about {n} blocks are needed"),
            None => format!("more than {BLOCKS_MAX} blocks are needed"),
        };
        joined(&what, &settle)
    }

    /// Blocks with which this very effect and spread would get either verdict with 80 % power.
    /// The control's interval shrinks with more blocks, and the A/A bound with it.
    fn blocks_needed(&self, is_control: bool, paired: &PairedLogRatioStats) -> Option<usize> {
        let effect = paired.mean.abs();
        let reached = |blocks: usize| {
            let projected = |control: &PairedLogRatioStats| {
                PairedLogRatioStats { blocks, ..*control }.largest_admitted(self.policy.confidence)
            };
            let floor = self.control.as_ref().map_or(0.0, projected);
            let test = DifferenceTest {
                deviation: paired.deviation,
                confidence: self.policy.confidence,
                floor: if is_control { 0.0 } else { floor },
            };
            test.power(effect, blocks) >= POWER
                || test.equivalence_power(effect, self.margin(), blocks) >= POWER
        };
        fewest_blocks(paired.blocks + 1, reached)
    }

    /// Whether the control shows, with confidence, a difference beyond the margin.
    fn control_exceeds_margin(&self) -> bool {
        let beyond = |c: &PairedLogRatioStats| {
            c.mean.abs() - c.half_width(self.policy.confidence) > self.margin()
        };
        self.control.as_ref().is_some_and(beyond)
    }

    /// In logarithms.
    fn floor(&self) -> f64 {
        let admitted = |c: &PairedLogRatioStats| c.largest_admitted(self.policy.confidence);
        self.control.as_ref().map_or(0.0, admitted)
    }

    /// In logarithms; a margin that is not positive makes nothing equivalent.
    fn margin(&self) -> f64 {
        self.policy.margin.max(0.0).ln_1p()
    }
}

fn percent(fraction: f64) -> String {
    let value = fraction * 100.0;
    let places = usize::from(value < 9.95);
    format!("{value:.places$} %")
}

/// Without superfluous decimals: the margin is a chosen number.
fn plain(fraction: f64) -> String {
    let text = format!("{:.1}", fraction * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

fn joined(first: &str, second: &str) -> String {
    if first.is_empty() {
        second.into()
    } else {
        format!("{first}; {second}")
    }
}
