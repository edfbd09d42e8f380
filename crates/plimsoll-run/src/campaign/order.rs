// SPDX-License-Identifier: Apache-2.0
//! The order of the trials of a run.
//!
//! Blocks and the workloads in them are drawn by the lab. Within a workload the arms come in random
//! order, or, where the blocks are designed or a campaign file says so, in rows of Williams squares: what a
//! trial leaves behind then meets all arms alike, and each order of two arms is still as likely as the other.

use plimsoll_core::event::{RunManifest, TrialId};
use plimsoll_core::num::to_usize;
use plimsoll_core::rng::Seed;
use plimsoll_stats::carryover::balanced_orders;

/// With two arms either order is balanced soon enough, and free ones have more arrangements.
const BALANCED_FROM: usize = 3;

/// The trials of a manifest, all blocks that it knows of.
pub fn order(manifest: &RunManifest) -> Vec<TrialId> {
    let arms: Vec<String> = manifest.arms.iter().map(|arm| arm.name.clone()).collect();
    let labels = manifest.entries.iter().map(|entry| entry.label.clone());
    let labels: Vec<String> = labels.collect();
    let is_balanced = manifest.design.is_some() || manifest.balanced;
    let mut all = planned_order(&arms, &labels, manifest.blocks, manifest.seed, is_balanced);
    all.retain(|trial| super::entry_of(manifest, trial).is_played_on(&trial.arm));
    all
}

/// The trials of these systems and workloads in `blocks` blocks.
pub fn planned_order(
    arms: &[String],
    workloads: &[String],
    blocks: u32,
    seed: Seed,
    is_balanced: bool,
) -> Vec<TrialId> {
    let mut trials = plimsoll_lab::experiment::order(arms, workloads, blocks, seed);
    if !is_balanced || arms.len() < BALANCED_FROM {
        return trials;
    }
    for workload in workloads {
        // Each workload has squares of its own.
        let seed = seed.derive(&format!("carry-over of {workload}"), 0);
        let orders = balanced_orders(arms.len(), to_usize(blocks.into()), seed);
        let mut of_workload = trials
            .iter_mut()
            .filter(|trial| trial.workload == *workload);
        // They come block after block, and a block holds every arm once.
        for (trial, arm) in of_workload.by_ref().zip(orders.into_iter().flatten()) {
            trial.arm.clone_from(&arms[arm]);
        }
    }
    trials
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn designed_blocks_hold_every_pair_once_and_every_arm_follows_every_other_equally_often() {
        let arms = names(&["a", "b", "a again"]);
        let workloads = names(&["v", "w"]);
        let trials = planned_order(&arms, &workloads, 12, Seed(4), true);
        assert_eq!(trials.len(), 72);
        let mut followers: BTreeMap<(String, String), u32> = BTreeMap::new();
        for block in trials.chunks(6) {
            let pairs: BTreeSet<_> = block.iter().map(|t| (&t.arm, &t.workload)).collect();
            assert_eq!(pairs.len(), 6);
            for pair in block.windows(2).filter(|p| p[0].workload == p[1].workload) {
                let key = (pair[0].arm.clone(), pair[1].arm.clone());
                *followers.entry(key).or_default() += 1;
            }
        }
        assert_eq!(followers.len(), 6);
        assert!(followers.values().all(|count| *count == 8), "{followers:?}");
        let longer = planned_order(&arms, &workloads, 20, Seed(4), true);
        assert_eq!(trials[..], longer[..72]);
    }

    #[test]
    fn what_is_not_designed_stays_as_it_was() {
        let arms = names(&["a", "b", "c"]);
        let workloads = names(&["v"]);
        let drawn = plimsoll_lab::experiment::order(&arms, &workloads, 5, Seed(9));
        assert_eq!(planned_order(&arms, &workloads, 5, Seed(9), false), drawn);
        assert_ne!(planned_order(&arms, &workloads, 5, Seed(9), true), drawn);
    }
}
