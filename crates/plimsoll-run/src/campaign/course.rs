// SPDX-License-Identifier: Apache-2.0
//! The course of a comparison while it goes on: which blocks are still to come, whether they can bring
//! a verdict, and whether the machine is quiet enough to begin.

use super::pilot::{FIRST_STAGE, PilotRecord};
use super::{CampaignOptions, TimeBudget};
use plimsoll_core::comparison::{ComparisonMetric, ComparisonVerdict, StoppingRule};
use plimsoll_core::design::{BlockDesign, BlocksEnd, BlocksEndCause};
use plimsoll_core::event::{
    RunEvent, RunListener, RunManifest, RunWarning, TrialId, TrialResult, WorkloadEntry,
};
use plimsoll_core::num::to_usize;
use plimsoll_core::units::Nanos;
use plimsoll_machine::busy;
use plimsoll_machine::host::SystemClock;
use plimsoll_stats::stopping::{StoppingPlan, StoppingReason, StoppingStep};
use plimsoll_stats::{ArmValues, compare, phase_label};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time in which it is seen what others do, before the first trial.
const BUSY_LOOK: Duration = Duration::from_millis(500);

/// Blocks after which a control first says something.
const BLOCKS_MIN: u32 = 2;

/// With a smallest detectable difference of at least this, noise is the reason for a missing verdict.
const DETECTABLE_MIN: f64 = 0.5;

/// Warning of other activity on this machine now, if it disturbs.
pub fn busy_now() -> Option<RunWarning> {
    let others = busy::during(BUSY_LOOK, &SystemClock::new());
    others.disturbance()?;
    Some(RunWarning {
        about: "noisy machine".into(),
        text: format!("{}; results will vary", others.line()),
    })
}

/// The blocks of a run: those that are done, and which come next.
#[derive(Debug)]
pub(super) struct BlockCourse<'a> {
    /// As it was written, with the design once there is one.
    manifest: RunManifest,
    settings: &'a CampaignOptions,
    analysis: InterimAnalysis,
    pub(super) pilot: PilotRecord,
}

impl<'a> BlockCourse<'a> {
    pub(super) fn new(
        manifest: &RunManifest,
        settings: &'a CampaignOptions,
        pilot: PilotRecord,
    ) -> Self {
        let mut manifest = manifest.clone();
        if let Some(design) = &mut manifest.design {
            // A run that the user ended goes on.
            let is_over = |ended: &BlocksEnd| ended.cause != BlocksEndCause::UserQuit;
            design.ended = design.ended.filter(is_over);
        }
        BlockCourse {
            manifest,
            settings,
            analysis: InterimAnalysis::default(),
            pilot,
        }
    }

    pub(super) fn manifest(&self) -> &RunManifest {
        &self.manifest
    }

    fn design(&self) -> Option<&BlockDesign> {
        self.manifest.design.as_ref()
    }

    /// Whether the trials to come are a pilot.
    pub(super) fn is_pilot(&self) -> bool {
        self.design().is_some_and(BlockDesign::awaits_pilot)
    }

    /// Settings of the trials to come.
    pub(super) fn settings(&self) -> CampaignOptions {
        let mut settings = self.settings.clone();
        let given = settings.design.as_ref().and_then(|goal| goal.warmup);
        let found = self.design().and_then(|design| design.found.as_ref());
        if self.is_pilot() {
            // It is to show whether there is a warm-up.
            settings.warmup = Some(given.unwrap_or_default());
        } else if let Some(found) = found {
            settings.warmup = Some(found.warmup);
        }
        if !self.is_pilot() {
            settings.design = None;
        }
        settings
    }

    /// The trials of a block in their order.
    pub(super) fn trials(&self, block: u32) -> Vec<TrialId> {
        let mut trials = super::order(&self.manifest);
        trials.retain(|trial| trial.block == block);
        trials
    }

    /// Takes the result of a trial.
    pub(super) fn take(&mut self, result: &TrialResult) {
        self.analysis.take(&self.manifest, result);
    }

    /// Next step after `done` blocks: the design after a pilot, the end, or another block.
    pub(super) fn after(&mut self, done: u32, listener: &mut dyn RunListener) -> CourseStep {
        if self.is_pilot()
            && done >= self.manifest.blocks
            && let Some(goal) = &self.settings.design
        {
            let left = self.settings.budget.map(TimeBudget::left);
            let found = self.pilot.design(&self.manifest, goal, left);
            listener.event(&RunEvent::Designed(found.clone()));
            self.manifest.adopt(found);
        }
        if self.is_pilot() && done == 1 {
            self.lengthen_pilot();
        }
        if let Some(cause) = self.end(done) {
            if self.design().is_some() {
                self.ended(done, cause, listener);
            }
            return CourseStep::End;
        }
        if self.design().is_none() && done > 0 {
            let warnings = self.analysis.after(&self.manifest, done).into_iter();
            warnings.for_each(|warning| listener.event(&RunEvent::Warning(warning)));
        }
        CourseStep::Block
    }

    /// The trials of the pilot that are still to come, where what they cost is more than they measure.
    fn lengthen_pilot(&mut self) {
        let goal = self.settings.design.as_ref();
        if goal.is_some_and(|goal| goal.length.is_none()) {
            let left = self.settings.budget.map(TimeBudget::left);
            let length = self.pilot.length(&self.manifest, left);
            for entry in &mut self.manifest.entries {
                entry.length = entry.length.max(length);
            }
        }
    }

    /// Says how the blocks ended, where that was not fixed from the start.
    pub(super) fn ended(
        &mut self,
        blocks: u32,
        cause: BlocksEndCause,
        listener: &mut dyn RunListener,
    ) {
        let known = self.design().and_then(|design| design.ended);
        if self.design().is_some() && known.is_none() {
            let ended = BlocksEnd { blocks, cause };
            listener.event(&RunEvent::BlocksEnded(ended));
            self.manifest.end(ended);
        }
    }

    /// Why no block follows the first `done` blocks; `None` if one does.
    fn end(&self, done: u32) -> Option<BlocksEndCause> {
        let Some(design) = self.design() else {
            return (done >= self.manifest.blocks).then_some(BlocksEndCause::Planned);
        };
        if self.is_pilot() {
            return None;
        }
        if let Some(ended) = design.ended.filter(|ended| done >= ended.blocks) {
            return Some(ended.cause);
        }
        let (pilot, block_time) = match &design.found {
            Some(found) => (design.pilot_blocks, found.block_time),
            None => (0, Nanos(0)),
        };
        // Two stages look at the noise of trials that are all of one length.
        let left_out = match self.manifest.policy.stopping {
            StoppingRule::TwoStage => pilot,
            StoppingRule::Fixed | StoppingRule::Anytime => design.first_block(),
        };
        if done > left_out
            && let Some(cause) = self.stop(done - left_out, left_out)
        {
            return Some(cause);
        }
        // No block is begun that will hardly be whole.
        let budget = self.settings.budget.filter(|_| design.found.is_some());
        let is_short = budget.is_some_and(|budget| budget.left() < block_time);
        is_short.then_some(BlocksEndCause::BudgetSpent)
    }

    fn stop(&self, done: u32, left_out: u32) -> Option<BlocksEndCause> {
        let values = self.analysis.values(left_out);
        let most = self.manifest.blocks.saturating_sub(left_out);
        let plan = self.plan(most);
        let reason = match plan.after(to_usize(done.into()), &values) {
            StoppingStep::Continue { .. } => return None,
            StoppingStep::Stop(reason) => reason,
        };
        let has_budget = self.settings.budget.is_some();
        Some(match reason {
            StoppingReason::Planned => BlocksEndCause::Planned,
            // Without a verdict the blocks go on as far as they may.
            StoppingReason::PrecisionReached if !self.is_decided() && done < most => return None,
            StoppingReason::PrecisionReached => BlocksEndCause::PrecisionReached,
            // The tests have decided; what else a verdict asks for may still be open.
            StoppingReason::VerdictReached if !self.is_decided() && done < most => return None,
            StoppingReason::VerdictReached if self.is_decided() => BlocksEndCause::VerdictReached,
            StoppingReason::BudgetSpent if has_budget && !self.has_given_blocks() => {
                BlocksEndCause::BudgetSpent
            }
            StoppingReason::VerdictReached | StoppingReason::BudgetSpent => {
                BlocksEndCause::LimitReached
            }
        })
    }

    fn plan(&self, blocks_max: u32) -> StoppingPlan {
        let found = self.design().and_then(|design| design.found.as_ref());
        // Without a pilot it is what was asked for.
        let asked = self.design().and_then(|design| design.effect);
        let effect = found.map(|found| found.effect).or(asked);
        StoppingPlan {
            policy: self.manifest.policy,
            pilot_blocks: to_usize(FIRST_STAGE.into()),
            effect: effect.unwrap_or(self.manifest.policy.margin),
            blocks_max: to_usize(blocks_max.into()),
        }
    }

    fn has_given_blocks(&self) -> bool {
        let goal = self.settings.design.as_ref();
        goal.is_some_and(|goal| goal.blocks.is_some())
    }

    /// Whether every system has a verdict, with all that belongs to one.
    fn is_decided(&self) -> bool {
        let first = self.design().map_or(0, BlockDesign::first_block);
        let workloads = self.analysis.rows(&self.manifest, first);
        let is_settled = |(_, rows): &WorkloadRows| {
            let mut rows = rows.iter().filter(|row| !row.is_control);
            rows.all(|row| row.verdict != ComparisonVerdict::Inconclusive)
        };
        let has_rows = |entry: &WorkloadEntry| {
            workloads.iter().any(|(label, _)| {
                // Of phases each has a row.
                label
                    .strip_prefix(&entry.label)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(": "))
            })
        };
        self.manifest.entries.iter().all(has_rows) && workloads.iter().all(is_settled)
    }
}

/// Next step of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CourseStep {
    /// Another block.
    Block,
    /// Nothing.
    End,
}

/// The values so far: a number per trial, whatever its length.
#[derive(Debug, Default)]
pub(super) struct InterimAnalysis {
    /// By workload or its phase, then arm and block.
    values: BTreeMap<String, (ComparisonMetric, Vec<ArmValues>)>,
    /// Workloads of which it was said that going on cannot help.
    told: Vec<String>,
}

/// The comparisons of a workload.
type WorkloadRows = (String, Vec<plimsoll_core::comparison::ArmComparison>);

impl InterimAnalysis {
    /// Takes the result of a trial.
    pub(super) fn take(&mut self, manifest: &RunManifest, result: &TrialResult) {
        let trial = &result.trial;
        let mut entries = manifest.entries.iter();
        let entry = entries.find(|entry| entry.label == trial.workload);
        let Some(entry) = entry.filter(|_| result.is_comparable()) else {
            return;
        };
        if let Some(metric) = entry.workload.metric() {
            self.add(
                manifest,
                trial,
                (&entry.label, metric),
                result.value(metric),
            );
            return;
        }
        for phase in &result.phases {
            let label = phase_label(&entry.label, &phase.name);
            self.add(manifest, trial, (&label, phase.metric), phase.value);
        }
    }

    fn add(
        &mut self,
        manifest: &RunManifest,
        trial: &TrialId,
        (label, metric): (&str, ComparisonMetric),
        value: f64,
    ) {
        let empty = |arm: &plimsoll_core::event::ArmEntry| ArmValues {
            name: arm.name.clone(),
            control_of: arm.control_of.clone(),
            values: Vec::new(),
            places: Vec::new(),
        };
        let arms = self.values.entry(label.to_owned());
        let (_, arms) = arms.or_insert_with(|| (metric, manifest.arms.iter().map(empty).collect()));
        let block = to_usize(trial.block.into());
        // All have a value for each block, if only none.
        for arm in arms.iter_mut() {
            let blocks = arm.values.len().max(block + 1);
            arm.values.resize(blocks, None);
            arm.places.resize(blocks, None);
        }
        if let Some(arm) = arms.iter_mut().find(|arm| arm.name == trial.arm) {
            arm.values[block] = Some(value);
            arm.places[block] = Some(trial.place);
        }
    }

    /// The values of all workloads, the first blocks left out.
    fn values(&self, left_out: u32) -> Vec<Vec<ArmValues>> {
        let left_out = to_usize(left_out.into());
        let rest = |arm: &ArmValues| ArmValues {
            values: arm.values.iter().skip(left_out).copied().collect(),
            places: arm.places.iter().skip(left_out).copied().collect(),
            ..arm.clone()
        };
        let workloads = self.values.values();
        workloads
            .map(|(_, arms)| arms.iter().map(rest).collect())
            .collect()
    }

    /// Comparisons as of now, the first blocks left out.
    fn rows(&self, manifest: &RunManifest, left_out: u32) -> Vec<WorkloadRows> {
        let labels = self.values.iter().zip(self.values(left_out));
        let rows = labels.map(|((label, (metric, _)), arms)| {
            (
                label.clone(),
                compare(label, *metric, &arms, &manifest.policy),
            )
        });
        rows.collect()
    }

    /// Warnings after `done` blocks: workloads whose trials scatter too much for a verdict from the
    /// remaining blocks.
    pub(super) fn after(&mut self, manifest: &RunManifest, done: u32) -> Vec<RunWarning> {
        let left = manifest.blocks.saturating_sub(done);
        if done < BLOCKS_MIN || left == 0 {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        for (label, rows) in self.rows(manifest, 0) {
            if self.told.contains(&label) {
                continue;
            }
            let rows: Vec<_> = rows.into_iter().filter(|row| !row.is_control).collect();
            let detectable = rows.iter().filter_map(|row| row.detectable);
            let detectable = detectable.fold(0.0, f64::max);
            let is_hopeless = rows.iter().all(|row| {
                let needed = row.blocks_needed;
                row.verdict == ComparisonVerdict::Inconclusive
                    && needed.is_none_or(|needed| needed > manifest.blocks)
            });
            if is_hopeless && detectable >= DETECTABLE_MIN {
                warnings.push(hopeless(&label, &rows, done, left));
                self.told.push(label);
            }
        }
        warnings
    }
}

/// That the blocks that are left will hardly do, and what would.
fn hopeless(
    label: &str,
    rows: &[plimsoll_core::comparison::ArmComparison],
    done: u32,
    left: u32,
) -> RunWarning {
    let detectable = rows.iter().filter_map(|row| row.detectable);
    let needed = rows.iter().map(|row| row.blocks_needed);
    let needed = needed
        .reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b)))
        .flatten();
    let needed = match needed {
        Some(blocks) => format!("about {blocks} blocks are needed"),
        None => "more blocks are needed than can be run".into(),
    };
    RunWarning {
        about: label.into(),
        text: format!(
            "after block {done} only differences from {:.0} % on would show, so the {left} left will \
             hardly give a verdict ({needed}); Ctrl-C ends the run and keeps what was measured; a \
             quieter machine or more, shorter trials (--effect, --budget) would help",
            detectable.fold(0.0, f64::max) * 100.0
        ),
    }
}

#[cfg(test)]
mod tests;
