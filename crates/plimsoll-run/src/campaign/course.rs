// SPDX-License-Identifier: Apache-2.0
//! The course of a comparison while it goes on: whether the blocks that are left can still bring a
//! verdict, and whether the machine is quiet enough to begin.

use plimsoll_core::comparison::ComparisonVerdict;
use plimsoll_core::event::{RunManifest, RunWarning, TrialResult};
use plimsoll_core::num::to_usize;
use plimsoll_machine::busy;
use plimsoll_machine::host::SystemClock;
use plimsoll_stats::{ArmValues, compare};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time in which it is seen what others do, before the first trial.
const BUSY_LOOK: Duration = Duration::from_millis(500);

/// Blocks after which a control first says something.
const BLOCKS_MIN: u32 = 2;

/// An A/A bound from which on it is the noise that stands in the way.
const FLOOR_MIN: f64 = 0.5;

/// What others do on this machine now, if it disturbs.
pub fn busy_now() -> Option<RunWarning> {
    let others = busy::during(BUSY_LOOK, &SystemClock::new());
    others.disturbance()?;
    Some(RunWarning {
        about: "noisy machine".into(),
        text: format!("{}; results will vary", others.line()),
    })
}

/// The values so far: a number per trial, whatever its length.
#[derive(Debug)]
pub(super) struct InterimAnalysis<'a> {
    manifest: &'a RunManifest,
    /// By workload, then arm and block.
    values: BTreeMap<String, Vec<ArmValues>>,
    /// Workloads of which it was said that going on cannot help.
    told: Vec<String>,
}

impl<'a> InterimAnalysis<'a> {
    pub(super) fn new(manifest: &'a RunManifest) -> Self {
        InterimAnalysis {
            manifest,
            values: BTreeMap::new(),
            told: Vec::new(),
        }
    }

    /// Takes the result of a trial.
    pub(super) fn take(&mut self, result: &TrialResult) {
        let trial = &result.trial;
        let entries = &self.manifest.entries;
        let entry = entries.iter().find(|entry| entry.label == trial.workload);
        let metric = entry.and_then(|entry| entry.workload.metric());
        let Some(metric) = metric.filter(|_| result.is_comparable()) else {
            return;
        };
        let empty = |arm: &plimsoll_core::event::ArmEntry| ArmValues {
            name: arm.name.clone(),
            control_of: arm.control_of.clone(),
            values: vec![None; to_usize(self.manifest.blocks.into())],
        };
        let arms = self.values.entry(trial.workload.clone());
        let arms = arms.or_insert_with(|| self.manifest.arms.iter().map(empty).collect());
        let arm = arms.iter_mut().find(|arm| arm.name == trial.arm);
        let slot = arm.and_then(|arm| arm.values.get_mut(to_usize(trial.block.into())));
        if let Some(slot) = slot {
            *slot = Some(result.value(metric));
        }
    }

    /// What is to be said after so many blocks: workloads on which the control scatters so much that
    /// no verdict is to be expected of the blocks that are left.
    pub(super) fn after(&mut self, done: u32) -> Vec<RunWarning> {
        let left = self.manifest.blocks.saturating_sub(done);
        if done < BLOCKS_MIN || left == 0 {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        for (label, arms) in &self.values {
            let entry = self.manifest.entries.iter().find(|e| e.label == *label);
            let metric = entry.and_then(|entry| entry.workload.metric());
            let Some(metric) = metric.filter(|_| !self.told.contains(label)) else {
                continue;
            };
            let rows = compare(label, metric, arms, &self.manifest.policy);
            let mut rows = rows.into_iter().filter(|row| !row.is_control).peekable();
            let floor = rows.peek().and_then(|row| row.noise_floor);
            let Some(floor) = floor.filter(|floor| *floor >= FLOOR_MIN) else {
                continue;
            };
            let is_hopeless = rows.all(|row| {
                let is_open = row.verdict == ComparisonVerdict::Inconclusive;
                is_open
                    && row
                        .blocks_needed
                        .is_none_or(|needed| needed > self.manifest.blocks)
            });
            if is_hopeless {
                self.told.push(label.clone());
                warnings.push(RunWarning {
                    about: label.clone(),
                    text: format!(
                        "A/A bound {:.0} % after block {done}: the A/A control differs so much \
                         that the {left} left will hardly give a verdict; Ctrl-C ends the run and \
                         keeps what was measured; a quieter machine or longer trials (--for) would \
                         help",
                        floor * 100.0
                    ),
                });
            }
        }
        warnings
    }
}

#[cfg(test)]
mod tests;
