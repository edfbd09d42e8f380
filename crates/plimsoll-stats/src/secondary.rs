// SPDX-License-Identifier: Apache-2.0
//! Further differences: every metric beside the one that was fixed beforehand.
//!
//! Rules are those of the first metric, but the family is larger: all secondary metrics of all arms under a
//! workload are corrected together (Holm), so the probability that any of the table is a false alarm is that
//! of a single verdict. A metric that needs more operations or clients than the trials have is no part of the
//! family: it is reported, not tested. No exit code depends on a secondary metric.

use plimsoll_core::comparison::{
    ArmComparison, ComparisonMetric, ComparisonVerdict, VerdictPolicy,
};
use plimsoll_core::event::{RunManifest, TrialResult, WorkloadEntry};
use plimsoll_core::num::saturating_u32;
use plimsoll_core::units::Nanos;

use crate::compare::{
    ArmPair, ArmValues, ComparisonEvidence, ComparisonJudge, arm_values, clamped, question, worse,
};
use crate::contrast::ArmContrast;
use crate::family::holm;
use crate::outliers::OutlierCounts;
use crate::overload::carried;
use crate::scatter::{SCATTER_BLOCKS_MIN, ScatterContrast};
use crate::summary::is_usable;

/// Preparations that are shorter on all systems are noise of the clock and of the page cache.
const PREPARATION_MIN: Nanos = Nanos(100_000_000);

/// Every secondary comparison that the trials of a run allow, workload by workload. Workloads with phases
/// or with faults have none.
pub fn compare_secondary(manifest: &RunManifest, trials: &[TrialResult]) -> Vec<ArmComparison> {
    let is_plain = |entry: &&WorkloadEntry| {
        entry.load_line.is_none() && entry.inject.is_none() && !entry.is_open_twin()
    };
    let entries = manifest.entries.iter().filter(is_plain);
    entries
        .filter_map(|entry| Some((entry, entry.workload.metric()?)))
        .flat_map(|(entry, primary)| of_entry(manifest, trials, entry, primary))
        .collect()
}

/// The values of all arms on one metric, and what its control says.
struct MetricValues {
    metric: ComparisonMetric,
    arms: Vec<ArmValues>,
}

/// The test of an arm on a metric.
enum SecondaryEvidence {
    Mean(ArmContrast),
    Scatter(ScatterContrast),
    Nothing,
}

impl SecondaryEvidence {
    fn p_value(&self) -> Option<f64> {
        match self {
            SecondaryEvidence::Mean(contrast) => Some(contrast.p_value),
            SecondaryEvidence::Scatter(scatter) => Some(scatter.p_value),
            SecondaryEvidence::Nothing => None,
        }
    }
}

fn of_entry(
    manifest: &RunManifest,
    trials: &[TrialResult],
    entry: &WorkloadEntry,
    primary: ComparisonMetric,
) -> Vec<ArmComparison> {
    let mine = |trial: &&TrialResult| trial.trial.workload == entry.label;
    let usable: Vec<&TrialResult> = trials
        .iter()
        .rev()
        .filter(|trial| trial.is_comparable())
        .filter(mine)
        .collect();
    let cannot_carry = |arm: &str| {
        let here = trials.iter().filter(mine).filter(|t| t.trial.arm == arm);
        carried(here, None).is_some_and(|load| load.is_overloaded())
    };
    let metrics: Vec<MetricValues> = (ComparisonMetric::SECONDARY.into_iter())
        .filter(|metric| is_there(*metric, manifest, &usable))
        .map(|metric| MetricValues {
            metric,
            arms: values((manifest, entry), &usable, metric, primary),
        })
        .collect();
    let policy = clamped(&manifest.policy);
    let pairs: Vec<(&MetricValues, ArmPair<'_>)> = (metrics.iter())
        .flat_map(|values| values.pairs().into_iter().map(move |pair| (values, pair)))
        .filter(|(_, pair)| !cannot_carry(&pair.arm.name) && !cannot_carry(&pair.base.name))
        .collect();
    let is_testable =
        |(values, pair): &&(&MetricValues, ArmPair<'_>)| pair.blocks.len() >= values.blocks_min();
    let family = pairs.iter().filter(is_testable).count();
    let evidence: Vec<SecondaryEvidence> = pairs
        .iter()
        .map(|(values, pair)| values.evidence(pair, &policy, family))
        .collect();
    let p_values: Vec<f64> = evidence
        .iter()
        .filter_map(SecondaryEvidence::p_value)
        .collect();
    let mut corrected = holm(&p_values).into_iter();
    let rows = pairs.iter().zip(&evidence);
    rows.map(|((values, pair), evidence)| {
        let p_value = evidence.p_value().and_then(|_| corrected.next());
        let p_value = p_value.unwrap_or(1.0);
        values.row(&entry.label, pair, (evidence, p_value), (&policy, family))
    })
    .collect()
}

/// Whether a metric means something in these trials.
fn is_there(metric: ComparisonMetric, manifest: &RunManifest, trials: &[&TrialResult]) -> bool {
    let values = || trials.iter().map(|trial| trial.value(metric));
    match metric {
        // In virtual time the processor computes the device.
        ComparisonMetric::CpuPerOperation => {
            let is_virtual = |target: &str| target == "sim" || target.starts_with("sim(");
            let mut arms = manifest.arms.iter();
            !arms.any(|arm| is_virtual(&arm.target)) && values().any(is_usable)
        }
        ComparisonMetric::PreparationTime => {
            let took = |trial: &&TrialResult| trial.prepare >= PREPARATION_MIN;
            trials.iter().any(took)
        }
        ComparisonMetric::ClientEvenness => values().any(is_usable),
        _ => !trials.is_empty(),
    }
}

fn values(
    of: (&RunManifest, &WorkloadEntry),
    trials: &[&TrialResult],
    metric: ComparisonMetric,
    primary: ComparisonMetric,
) -> Vec<ArmValues> {
    // How much a system scatters is asked of the metric that it is compared on.
    let of_trial = match metric {
        ComparisonMetric::RunToRunVariation => primary,
        other => other,
    };
    arm_values(of, trials, |trial| {
        Some(trial.value(of_trial)).filter(|value| !value.is_nan())
    })
}

impl MetricValues {
    /// Every arm against the first one that is not a control; controls are no rows.
    fn pairs(&self) -> Vec<ArmPair<'_>> {
        let is_system = |arm: &&ArmValues| arm.control_of.is_none();
        let Some(base) = self.arms.iter().find(is_system) else {
            return Vec::new();
        };
        let others = self.arms.iter().filter(is_system);
        let others = others.filter(|arm| arm.name != base.name);
        others
            .map(|arm| ArmPair::of(&self.arms, base, arm))
            .collect()
    }

    fn blocks_min(&self) -> usize {
        match self.metric {
            ComparisonMetric::RunToRunVariation => SCATTER_BLOCKS_MIN,
            _ => 2,
        }
    }

    fn evidence(
        &self,
        pair: &ArmPair<'_>,
        policy: &VerdictPolicy,
        family: usize,
    ) -> SecondaryEvidence {
        let question = question(policy, family);
        if self.metric == ComparisonMetric::RunToRunVariation {
            let scatter = ScatterContrast::of(&pair.blocks, &question);
            return scatter.map_or(SecondaryEvidence::Nothing, SecondaryEvidence::Scatter);
        }
        let contrast = pair.contrast(&question);
        contrast.map_or(SecondaryEvidence::Nothing, SecondaryEvidence::Mean)
    }

    fn row(
        &self,
        workload: &str,
        pair: &ArmPair<'_>,
        (evidence, p_value): (&SecondaryEvidence, f64),
        (policy, family): (&VerdictPolicy, usize),
    ) -> ArmComparison {
        let judge = ComparisonJudge::of(&self.arms, pair.base, policy);
        let mut row = judge.undecided(workload, self.metric, pair);
        match evidence {
            SecondaryEvidence::Mean(contrast) => {
                let evidence = ComparisonEvidence {
                    contrast,
                    p_value,
                    outliers: OutlierCounts::of(
                        &pair.blocks,
                        contrast.estimate,
                        worse(self.metric),
                    ),
                };
                judge.decide(&mut row, &evidence, family);
            }
            SecondaryEvidence::Scatter(scatter) => {
                decide_scatter(&mut row, scatter, p_value, policy);
            }
            SecondaryEvidence::Nothing => {
                row.blocks_needed = None;
                row.reason = self.nothing(policy);
                if self.metric == ComparisonMetric::RunToRunVariation {
                    (row.base_value, row.arm_value, row.noise_floor) = (0.0, 0.0, None);
                }
            }
        }
        row
    }

    /// Why there is nothing to test.
    fn nothing(&self, policy: &VerdictPolicy) -> String {
        let is_anytime = policy.stopping == plimsoll_core::comparison::StoppingRule::Anytime;
        match (self.metric, self.metric.quantile()) {
            (_, Some(quantile)) => format!(
                "too few operations in a trial: a {} needs {}",
                self.metric.name(),
                operations_needed(quantile)
            ),
            (ComparisonMetric::RunToRunVariation, _) if is_anytime => {
                "not tested where verdicts may be reached after any block".into()
            }
            (ComparisonMetric::RunToRunVariation, _) => {
                format!("needs at least {SCATTER_BLOCKS_MIN} blocks")
            }
            _ => "needs at least two blocks in which both systems have a value".into(),
        }
    }
}

/// Operations that a quantile needs, see `Histogram::supports_quantile`.
fn operations_needed(quantile: f64) -> f64 {
    (0.05f64.ln() / quantile.ln()).ceil()
}

fn decide_scatter(
    row: &mut ArmComparison,
    scatter: &ScatterContrast,
    p_value: f64,
    policy: &VerdictPolicy,
) {
    row.blocks = saturating_u32(scatter.blocks as u64);
    (row.base_value, row.arm_value) = (scatter.base, scatter.arm);
    row.ratio = scatter.ratio;
    (row.blocks_needed, row.noise_floor, row.detectable) = (None, None, None);
    let is_different = p_value <= 1.0 - policy.confidence;
    row.verdict = match is_different {
        true => ComparisonVerdict::Different,
        false => ComparisonVerdict::Inconclusive,
    };
    row.reason = match (is_different, scatter.ratio) {
        (true, _) => String::new(),
        (false, None) => "one of them does not vary at all, or neither does".into(),
        (false, Some(_)) => {
            "a difference in variation shows only when it is large: blocks are few".into()
        }
    };
}
