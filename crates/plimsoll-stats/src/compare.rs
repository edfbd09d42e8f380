// SPDX-License-Identifier: Apache-2.0
//! From values per block to a verdict.
//!
//! Before all else: a system whose backlog grew to the end in most blocks *cannot carry* the load.
//! Response times of such a system have no upper limit, so there is nothing to compare, and nothing
//! clearer to say.
//!
//! The rule for the others, fixed before the first block and never widened afterwards:
//! * *equivalent* when both one-sided tests reject a ratio beyond the margin, each with the policy's
//!   confidence (two one-sided tests), and what stands out of the noise does not lie on one system;
//! * else *different* when equality is rejected, corrected for all arms under the workload (Holm);
//! * else *inconclusive*, with the reason and the blocks that would settle it.
//!
//! The A/A control is a test, and a measurement of its base: it is averaged with the base, and its
//! own difference is tested. Where it shows one, drift or order effects are present, and a
//! difference must lie beyond the A/A bound, the largest effect that the control's interval admits;
//! nothing is equivalent where it differs by more than the margin. How wide its interval is makes
//! nothing inconclusive: that noise is in the test of the arm already.
//!
//! Effects are logarithms, so that ×1.1 and ×1/1.1 are the same effect. An interval holds for its own
//! comparison; Holm's correction is the verdict's.

use plimsoll_core::comparison::{
    ArmComparison, ComparisonMetric, ComparisonVerdict, OverloadStats, StoppingRule, VerdictPolicy,
};
use plimsoll_core::event::{RunManifest, TrialResult, WorkloadEntry};
use plimsoll_core::num::saturating_u32;
use std::collections::{BTreeMap, BTreeSet};

use crate::arrangement::{BlockLogValues, LogInterval};
use crate::carryover_fit::{BlockBefore, TrialsSince};
use crate::contrast::{ArmContrast, ContrastQuestion};
use crate::family::holm;
use crate::outliers::{OutlierCounts, WorseSide, stalls_that_may_be_missed};
use crate::overload::carried;
use crate::paired::PairedLogRatioStats;
use crate::power::{BLOCKS_MAX, DifferenceTest, POWER, fewest_blocks};
use crate::summary::{geometric_mean, is_usable};

/// The values of one arm under one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct ArmValues {
    /// Label of the arm.
    pub name: String,
    /// Label of the arm whose second entry this is (the A/A control).
    pub control_of: Option<String>,
    /// The metric by block number; `None` where the block has no value.
    pub values: Vec<Option<f64>>,
    /// The place of each trial in the order of all; empty where that is not known.
    pub places: Vec<Option<u32>>,
}

/// Every comparison that the trials of a run allow, workload by workload and phase by phase.
///
/// Trials cut short, those with failed operations or bad data, and those whose generator was not let
/// run are left out; what an overloaded system had not finished is no failure. When a trial was
/// repeated in a block, the last result counts.
pub fn compare_all(manifest: &RunManifest, trials: &[TrialResult]) -> Vec<ArmComparison> {
    each(manifest, trials, compare)
}

/// The same for a ladder of systems, each of which adds something to the one before it: every arm
/// is held against the arm before. Controls are not among the rows; they judge as they do there.
pub fn compare_steps(manifest: &RunManifest, trials: &[TrialResult]) -> Vec<ArmComparison> {
    each(manifest, trials, step_by_step)
}

/// Compares arms under one workload and metric, as [`compare`] does.
type Compare = fn(&str, ComparisonMetric, &[ArmValues], &VerdictPolicy) -> Vec<ArmComparison>;

fn each(manifest: &RunManifest, trials: &[TrialResult], compare: Compare) -> Vec<ArmComparison> {
    let mut all = Vec::new();
    // Trials of a load line have loads of their own each, and an open twin has another load on each arm:
    // there is nothing to compare in blocks.
    let in_blocks = |entry: &&WorkloadEntry| entry.load_line.is_none() && !entry.is_open_twin();
    for entry in manifest.entries.iter().filter(in_blocks) {
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

/// The outage of sessions under the faults of an entry: its first answer. Trials whose load
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

/// The name of a phase of a workload in comparisons.
pub fn phase_label(workload: &str, phase: &str) -> String {
    format!("{workload}: {phase}")
}

/// The values of all arms by block, up to the last that has one; of several trials of an arm in a block the
/// first counts.
pub(crate) fn arm_values(
    (manifest, entry): (&RunManifest, &WorkloadEntry),
    trials: &[&TrialResult],
    value: impl Fn(&TrialResult) -> Option<f64>,
) -> Vec<ArmValues> {
    let counted = manifest.counted_blocks();
    let mut found = BTreeMap::new();
    for trial in trials.iter().filter(|t| counted.contains(&t.trial.block)) {
        let place = (&*trial.trial.arm, trial.trial.block);
        let one = || (value(trial), trial.trial.place);
        found.entry(place).or_insert_with(one);
    }
    let end = found.keys().map(|(_, block)| block + 1).max();
    let blocks = counted.start..end.unwrap_or(counted.start);
    let of = |arm: &str, block: u32| found.get(&(arm, block)).copied();
    let values = |arm: &plimsoll_core::event::ArmEntry| {
        let each = blocks.clone().map(|block| of(&arm.name, block));
        ArmValues {
            name: arm.name.clone(),
            control_of: arm.control_of.clone(),
            values: each.clone().map(|one| one?.0).collect(),
            places: each.map(|one| Some(one?.1)).collect(),
        }
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
pub fn compare(
    workload: &str,
    metric: ComparisonMetric,
    arms: &[ArmValues],
    policy: &VerdictPolicy,
) -> Vec<ArmComparison> {
    let Some(base) = arms.iter().find(|arm| arm.control_of.is_none()) else {
        return Vec::new();
    };
    let others = arms.iter().filter(|arm| arm.name != base.name);
    let pairs = others.map(|arm| ArmPair::of(arms, own(arms, base, arm), arm));
    ComparisonJudge::of(arms, base, policy).rows(workload, metric, &pairs.collect::<Vec<_>>())
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
    let steps = rungs.windows(2);
    let pairs = steps.map(|pair| ArmPair::of(arms, pair[0], pair[1]));
    ComparisonJudge::of(arms, base, policy).rows(workload, metric, &pairs.collect::<Vec<_>>())
}

/// The difference of each arm from the base, controls left out, as [`compare`] asks for it.
pub fn contrasts(arms: &[ArmValues], policy: &VerdictPolicy) -> Vec<Option<ArmContrast>> {
    let Some(base) = arms.iter().find(|arm| arm.control_of.is_none()) else {
        return Vec::new();
    };
    let others = arms.iter();
    let others = others.filter(|arm| arm.name != base.name && arm.control_of.is_none());
    let pairs: Vec<ArmPair<'_>> = others.map(|arm| ArmPair::of(arms, base, arm)).collect();
    let question = question(&clamped(policy), pairs.len());
    pairs.iter().map(|pair| pair.contrast(&question)).collect()
}

/// The arm that a control is the second entry of; the base for the others.
fn own<'a>(arms: &'a [ArmValues], base: &'a ArmValues, arm: &ArmValues) -> &'a ArmValues {
    let name = arm.control_of.as_ref();
    arms.iter()
        .find(|other| Some(&other.name) == name)
        .unwrap_or(base)
}

pub(crate) fn clamped(policy: &VerdictPolicy) -> VerdictPolicy {
    VerdictPolicy {
        confidence: policy.confidence.clamp(0.5, 0.9999),
        ..*policy
    }
}

pub(crate) fn question(policy: &VerdictPolicy, family: usize) -> ContrastQuestion {
    ContrastQuestion {
        confidence: policy.confidence,
        // A margin that is not positive makes nothing equivalent.
        margin: policy.margin.max(0.0).ln_1p(),
        stopping: policy.stopping,
        family,
    }
}

/// Two arms and the logarithms that their blocks share.
pub(crate) struct ArmPair<'a> {
    pub(crate) base: &'a ArmValues,
    pub(crate) arm: &'a ArmValues,
    pub(crate) blocks: Vec<BlockLogValues>,
    /// The trials that ran before each of these.
    before: Vec<BlockBefore>,
    /// Blocks with a value in both arms of which one has no logarithm (zero, not a number).
    unusable: usize,
}

impl<'a> ArmPair<'a> {
    /// Second entries are averaged with the first, but for a control, which is held against it.
    pub(crate) fn of(
        arms: &'a [ArmValues],
        base: &'a ArmValues,
        arm: &'a ArmValues,
    ) -> ArmPair<'a> {
        let entries = |of: &'a ArmValues| -> Vec<&'a ArmValues> {
            let second = |other: &&ArmValues| other.control_of.as_ref() == Some(&of.name);
            let seconds = arms.iter().filter(second);
            let seconds = seconds.filter(|_| arm.control_of.is_none());
            std::iter::once(of).chain(seconds).collect()
        };
        let (bases, own) = (entries(base), entries(arm));
        let places = own.iter().flat_map(|arm| arm.places.iter().flatten());
        let ran: BTreeSet<u32> = places.copied().collect();
        let mut pair = ArmPair {
            base,
            arm,
            blocks: Vec::new(),
            before: Vec::new(),
            unusable: 0,
        };
        for block in 0..base.values.len().max(arm.values.len()) {
            let is_measured = values_in(&bases, block).next().is_some()
                && values_in(&own, block).next().is_some();
            let (base, base_before) = trials_in(&bases, block, &ran);
            let (arm, arm_before) = trials_in(&own, block, &ran);
            if base.is_empty() || arm.is_empty() {
                pair.unusable += usize::from(is_measured);
                continue;
            }
            pair.blocks.push(BlockLogValues { base, arm });
            pair.before.push(BlockBefore {
                base: base_before,
                arm: arm_before,
            });
        }
        pair
    }

    pub(crate) fn contrast(&self, question: &ContrastQuestion) -> Option<ArmContrast> {
        ArmContrast::of_ordered(&self.blocks, &self.before, question)
    }

    /// The geometric mean of the values of one of both, in blocks that both have if there are any.
    fn value_of(&self, arm: &ArmValues) -> f64 {
        let usable = |values: &ArmValues, block: usize| {
            let value = values.values.get(block).copied().flatten();
            value.filter(|value| is_usable(*value))
        };
        let blocks = 0..arm.values.len();
        let shared = blocks.filter(|block| {
            usable(self.base, *block).is_some() && usable(self.arm, *block).is_some()
        });
        let values: Vec<f64> = shared.filter_map(|block| usable(arm, block)).collect();
        match values.is_empty() {
            // Nothing is shared, so each arm can only speak for itself.
            true => geometric_mean(arm.values.iter().flatten().copied()),
            false => geometric_mean(values),
        }
    }
}

fn values_in<'a>(entries: &'a [&ArmValues], block: usize) -> impl Iterator<Item = f64> + 'a {
    let values = entries.iter().map(move |arm| arm.values.get(block));
    values.filter_map(|value| value.copied().flatten())
}

/// The logarithms of the entries that have one in a block, and what ran before each.
fn trials_in(
    entries: &[&ArmValues],
    block: usize,
    ran: &BTreeSet<u32>,
) -> (Vec<f64>, Vec<TrialsSince>) {
    let one = |arm: &&ArmValues| {
        let value = arm.values.get(block).copied().flatten();
        let value = value.filter(|value| is_usable(*value))?;
        let place = arm.places.get(block).copied().flatten();
        Some((value.ln(), since(place, ran)))
    };
    entries.iter().filter_map(one).unzip()
}

/// How many trials ran between this place and the last of these before it.
fn since(place: Option<u32>, ran: &BTreeSet<u32>) -> TrialsSince {
    let last = ran.range(..place?).next_back()?;
    Some(place? - last - 1)
}

/// The policy and what the control says of the lab.
pub(crate) struct ComparisonJudge {
    policy: VerdictPolicy,
    control: Option<ControlEvidence>,
}

/// The largest difference of a control from its base.
#[derive(Debug, Clone, Copy)]
struct ControlEvidence {
    stats: PairedLogRatioStats,
    /// By the test that allows as many looks as there are.
    interval: LogInterval,
}

impl ControlEvidence {
    fn of(pair: &ArmPair<'_>, policy: &VerdictPolicy) -> Option<ControlEvidence> {
        let differences: Vec<f64> = pair.blocks.iter().map(BlockLogValues::difference).collect();
        let stats = PairedLogRatioStats::of(&differences)?;
        let half = stats.half_width(policy.confidence);
        let interval = match policy.stopping {
            StoppingRule::Anytime => ArmContrast::of(&pair.blocks, &question(policy, 1))?.interval,
            StoppingRule::Fixed | StoppingRule::TwoStage => LogInterval {
                low: stats.mean - half,
                high: stats.mean + half,
            },
        };
        Some(ControlEvidence { stats, interval })
    }

    /// The largest difference that is admitted.
    fn bound(&self) -> f64 {
        self.interval.high.max(-self.interval.low)
    }

    /// Whether none of at most this size is admitted.
    fn exceeds(&self, size: f64) -> bool {
        self.interval.low > size || self.interval.high < -size
    }
}

/// The results of the tests of a row before there is a verdict.
pub(crate) struct ComparisonEvidence<'a> {
    pub(crate) contrast: &'a ArmContrast,
    /// Of no difference, corrected for the family.
    pub(crate) p_value: f64,
    pub(crate) outliers: OutlierCounts,
}

impl ComparisonJudge {
    /// A confidence outside 0.5..=0.9999 is taken as the nearer end.
    pub(crate) fn of(
        arms: &[ArmValues],
        base: &ArmValues,
        policy: &VerdictPolicy,
    ) -> ComparisonJudge {
        let policy = clamped(policy);
        // With several controls the noisiest one speaks.
        let controls = arms.iter().filter(|arm| arm.control_of.is_some());
        let control = controls
            .filter_map(|control| {
                let pair = ArmPair::of(arms, own(arms, base, control), control);
                ControlEvidence::of(&pair, &policy)
            })
            .max_by(|a, b| a.bound().total_cmp(&b.bound()));
        ComparisonJudge { policy, control }
    }

    fn rows(
        &self,
        workload: &str,
        metric: ComparisonMetric,
        pairs: &[ArmPair<'_>],
    ) -> Vec<ArmComparison> {
        let is_control = |pair: &ArmPair<'_>| pair.arm.control_of.is_some();
        let family = pairs.iter().filter(|pair| !is_control(pair)).count();
        let asked = |pair: &ArmPair<'_>| {
            let family = if is_control(pair) { 1 } else { family };
            pair.contrast(&question(&self.policy, family))
        };
        let contrasts: Vec<Option<ArmContrast>> = pairs.iter().map(asked).collect();
        let both = pairs.iter().zip(&contrasts);
        let of_family = both.filter(|(pair, _)| !is_control(pair));
        let p_value = |contrast: &Option<ArmContrast>| contrast.map_or(1.0, |c| c.p_value);
        let p_values: Vec<f64> = of_family.map(|(_, contrast)| p_value(contrast)).collect();
        let mut corrected = holm(&p_values).into_iter();
        let mut rows = Vec::new();
        for (pair, contrast) in pairs.iter().zip(&contrasts) {
            let p_value = match is_control(pair) {
                true => p_value(contrast),
                false => corrected.next().unwrap_or(1.0),
            };
            let mut row = self.undecided(workload, metric, pair);
            if let Some(contrast) = contrast {
                let evidence = ComparisonEvidence {
                    contrast,
                    p_value,
                    outliers: OutlierCounts::of(&pair.blocks, contrast.estimate, worse(metric)),
                };
                self.decide(&mut row, &evidence, family);
                self.add_what_may_be_missed(&mut row);
            }
            rows.push(with_lost_blocks(row, pair.unusable));
        }
        rows
    }

    pub(crate) fn undecided(
        &self,
        workload: &str,
        metric: ComparisonMetric,
        pair: &ArmPair<'_>,
    ) -> ArmComparison {
        ArmComparison {
            workload: workload.into(),
            arm: pair.arm.name.clone(),
            base: pair.base.name.clone(),
            is_control: pair.arm.control_of.is_some(),
            metric,
            base_value: pair.value_of(pair.base),
            arm_value: pair.value_of(pair.arm),
            blocks: saturating_u32(pair.blocks.len() as u64),
            ratio: None,
            verdict: ComparisonVerdict::Inconclusive,
            reason: "needs at least two blocks in which both systems have a value".into(),
            detectable: None,
            noise_floor: self.control.map(|_| self.bound().exp_m1()),
            blocks_needed: Some(2),
            base_carried: None,
            arm_carried: None,
        }
    }

    pub(crate) fn decide(
        &self,
        row: &mut ArmComparison,
        evidence: &ComparisonEvidence<'_>,
        family: usize,
    ) {
        let contrast = evidence.contrast;
        let alpha = 1.0 - self.policy.confidence;
        row.ratio = Some(contrast.ratio());
        row.blocks_needed = None;
        let floor = if row.is_control { 0.0 } else { self.floor() };
        row.detectable = self.detectable(contrast, floor, if row.is_control { 1 } else { family });
        let equivalent = contrast.margin_p_value <= alpha;
        let distinct = evidence.p_value <= alpha;
        let lopsided = !row.is_control && evidence.outliers.p_value() <= alpha;
        let stalls = !row.is_control && evidence.outliers.may_hide(self.margin());
        let lost = !row.is_control && self.control_exceeds_margin();
        row.verdict = match (equivalent, distinct) {
            (true, _) if lost || stalls => ComparisonVerdict::Inconclusive,
            (true, _) => ComparisonVerdict::Equivalent,
            (false, true) if contrast.estimate.abs() > floor => ComparisonVerdict::Different,
            _ => ComparisonVerdict::Inconclusive,
        };
        row.reason = match row.verdict {
            ComparisonVerdict::CannotCarry => String::new(),
            ComparisonVerdict::Equivalent if distinct => format!(
                "a difference of {} is measurable, but it is within the margin of {}",
                percent(contrast.estimate.abs().exp_m1()),
                plain(self.policy.margin),
            ),
            ComparisonVerdict::Equivalent => String::new(),
            ComparisonVerdict::Different => self.different(row.is_control),
            ComparisonVerdict::Inconclusive if equivalent && lost => {
                "the interval lies within the margin, but the A/A control does not, so drift or \
                 order effects are present"
                    .into()
            }
            ComparisonVerdict::Inconclusive if equivalent => {
                "the middle lies within the margin, but trials that stand out do not".into()
            }
            ComparisonVerdict::Inconclusive => {
                let needed = self.blocks_needed(row.is_control, contrast);
                row.blocks_needed = needed.map(|n| saturating_u32(n as u64));
                self.inconclusive(evidence, distinct, needed)
            }
        };
        if lopsided || (equivalent && stalls && !lost) {
            row.reason = joined(&row.reason, &standing_out(&evidence.outliers, lopsided));
        }
        if let Some(left) = contrast.carry_over {
            row.reason = joined(&row.reason, &left_behind(row, left));
        }
    }

    /// Equivalence is of the trials that were seen.
    fn add_what_may_be_missed(&self, row: &mut ArmComparison) {
        if row.verdict != ComparisonVerdict::Equivalent || row.is_control {
            return;
        }
        if let Some(share) = stalls_that_may_be_missed(row.blocks, 1.0 - self.policy.confidence) {
            let (trials, share) = (row.blocks, percent(share));
            let told = format!(
                "{trials} trials may miss a stall that strikes fewer than {share} of trials"
            );
            row.reason = joined(&row.reason, &told);
        }
    }

    /// The smallest true effect that these blocks find four times in five, as a fraction.
    fn detectable(&self, contrast: &ArmContrast, floor: f64, family: usize) -> Option<f64> {
        if self.policy.stopping == StoppingRule::Anytime {
            // No planned look, so no power: what the sequence excludes now, and the usual surplus.
            let half = (contrast.interval.high - contrast.interval.low) / 2.0;
            let error = contrast.deviation / (contrast.blocks as f64).sqrt();
            return Some((half + SURPLUS * error).max(floor).exp_m1());
        }
        let test = DifferenceTest {
            deviation: contrast.deviation,
            confidence: 1.0 - (1.0 - self.policy.confidence) / family.max(1) as f64,
            floor,
        };
        test.detectable_fraction(contrast.blocks)
    }

    fn different(&self, is_control: bool) -> String {
        if is_control {
            "the A/A control shows a difference, so drift or order effects are present".into()
        } else if self.control.is_none() {
            "no A/A control has two blocks, so drift and order effects went unseen".into()
        } else if self.control_is_off() {
            "the A/A control differs too, but by less: drift or order effects are present".into()
        } else {
            String::new()
        }
    }

    fn inconclusive(
        &self,
        evidence: &ComparisonEvidence<'_>,
        distinct: bool,
        needed: Option<usize>,
    ) -> String {
        let interval = evidence.contrast.interval;
        let what = if distinct {
            format!(
                "the A/A control differs, and the effect of {} is within the A/A bound of {}",
                percent(evidence.contrast.estimate.abs().exp_m1()),
                percent(self.bound().exp_m1()),
            )
        } else if interval.low > 0.0 || interval.high < 0.0 {
            "the interval excludes 1, but among so many arms one such interval is to be expected"
                .into()
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

    /// Blocks with which a difference of the margin is found, and equal systems are found equivalent, four
    /// times in five each. What was measured of the effect has no part in it: it would be the p value again.
    fn blocks_needed(&self, is_control: bool, contrast: &ArmContrast) -> Option<usize> {
        let reached = |blocks: usize| {
            // The control's interval shrinks with more blocks, and the A/A bound with it.
            let projected = |control: &ControlEvidence| {
                let stats = control.stats;
                PairedLogRatioStats { blocks, ..stats }.largest_admitted(self.policy.confidence)
            };
            let control = self.control.as_ref().filter(|_| self.control_is_off());
            let floor = control.filter(|_| !is_control).map_or(0.0, projected);
            let test = DifferenceTest {
                deviation: contrast.deviation,
                confidence: self.policy.confidence,
                floor,
            };
            test.power(self.margin(), blocks) >= POWER
                && test.equivalence_power(0.0, self.margin(), blocks) >= POWER
        };
        fewest_blocks(contrast.blocks + 1, reached)
    }

    /// Whether the control shows a difference.
    fn control_is_off(&self) -> bool {
        self.control.is_some_and(|control| control.exceeds(0.0))
    }

    /// Whether the control shows, with confidence, a difference beyond the margin.
    fn control_exceeds_margin(&self) -> bool {
        let margin = self.margin();
        self.control.is_some_and(|control| control.exceeds(margin))
    }

    /// Whether there is a control to judge by.
    pub(crate) fn has_control(&self) -> bool {
        self.control.is_some()
    }

    /// The A/A bound, in logarithms.
    pub(crate) fn bound(&self) -> f64 {
        self.control.map_or(0.0, |control| control.bound())
    }

    /// The size that an estimate must exceed to be a difference: the bound, where the control differs.
    fn floor(&self) -> f64 {
        if self.control_is_off() {
            self.bound()
        } else {
            0.0
        }
    }

    fn margin(&self) -> f64 {
        self.policy.margin.max(0.0).ln_1p()
    }
}

/// The normal quantile of the power that is asked of a design.
const SURPLUS: f64 = 0.841_621;

pub(crate) fn worse(metric: ComparisonMetric) -> WorseSide {
    if metric.more_is_better() {
        WorseSide::Smaller
    } else {
        WorseSide::Larger
    }
}

fn standing_out(outliers: &OutlierCounts, is_proven: bool) -> String {
    let chance = match is_proven {
        true => {
            "that is hardly chance, and the ratio, which is that of ordinary trials, does not tell it"
        }
        false => "that may be chance, or a system that stalls: more trials would tell",
    };
    format!(
        "{} of its {} trials stand out as slow, and {} of {} of the base: {chance}",
        outliers.arm, outliers.arm_trials, outliers.base, outliers.base_trials,
    )
}

/// The effect of the arm's trials on those that follow.
fn left_behind(row: &ArmComparison, left: f64) -> String {
    format!(
        "carry-over: the {} right after a trial of {} is {} {}, which is taken out of the ratio",
        row.metric.name(),
        row.arm,
        percent(left.abs().exp_m1()),
        if left > 0.0 { "higher" } else { "lower" },
    )
}

fn with_lost_blocks(mut row: ArmComparison, unusable: usize) -> ArmComparison {
    if unusable > 0 {
        let blocks = match unusable {
            1 => "block was",
            _ => "blocks were",
        };
        let lost = format!("{unusable} {blocks} left out because a value was zero or not a number");
        row.reason = joined(&row.reason, &lost);
    }
    row
}

pub(crate) fn percent(fraction: f64) -> String {
    let value = fraction * 100.0;
    let places = usize::from(value < 9.95);
    format!("{value:.places$} %")
}

/// Without superfluous decimals: the margin is a chosen number.
fn plain(fraction: f64) -> String {
    let text = format!("{:.1}", fraction * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

pub(crate) fn joined(first: &str, second: &str) -> String {
    if first.is_empty() {
        second.into()
    } else {
        format!("{first}; {second}")
    }
}
