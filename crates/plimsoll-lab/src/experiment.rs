// SPDX-License-Identifier: Apache-2.0
//! Order of the trials of an experiment: randomised complete blocks.
//!
//! A block holds every arm under every workload once, so that what drifts slowly (a filling disk, a
//! warming machine) meets all arms alike. Within a block the workloads come in random order and, within a
//! workload, the arms: the trials that are compared with each other are neighbours in time. The order
//! follows from the recorded seed alone.
//! Nothing is run here.

use plimsoll_core::event::TrialId;
use plimsoll_core::num::saturating_u32;
use plimsoll_core::rng::{Rng, Seed};

/// The purpose of the seed here; changing it changes the order of recorded seeds.
const PURPOSE: &str = "order";

/// All trials in the order in which they are to run.
///
/// `arms` are labels, the second entry of a control arm included; `workloads` are labels.
/// A block is the same however many blocks follow it, so that an experiment can be prolonged.
pub fn order(arms: &[String], workloads: &[String], blocks: u32, seed: Seed) -> Vec<TrialId> {
    let mut trials = Vec::new();
    for block in 0..blocks {
        let mut rng = Rng::new(seed.derive(PURPOSE, block.into()));
        let mut workloads = workloads.to_vec();
        rng.shuffle(&mut workloads);
        for workload in workloads {
            let mut arms = arms.to_vec();
            rng.shuffle(&mut arms);
            for arm in arms {
                trials.push(TrialId {
                    block,
                    place: saturating_u32(trials.len() as u64),
                    arm,
                    workload: workload.clone(),
                });
            }
        }
    }
    trials
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn labels(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_block_holds_every_pair_once_with_the_arms_of_a_workload_together() {
        let arms = labels(&["a", "a again", "b"]);
        let trials = order(&arms, &labels(&["nas", "vm"]), 5, Seed(1));
        assert_eq!(trials.len(), 30);
        for (n, trial) in trials.iter().enumerate() {
            assert_eq!(trial.place as usize, n);
            assert_eq!(trial.block as usize, n / 6);
        }
        for block in trials.chunks(6) {
            let pairs: BTreeSet<_> = block.iter().map(|t| (&t.arm, &t.workload)).collect();
            assert_eq!(pairs.len(), 6);
            for group in block.chunks(3) {
                assert!(group.iter().all(|t| t.workload == group[0].workload));
            }
        }
    }

    #[test]
    fn the_order_follows_from_the_seed_and_differs_between_blocks_and_seeds() {
        let (arms, workloads) = (labels(&["a", "b", "c"]), labels(&["w"]));
        let trials = order(&arms, &workloads, 20, Seed(9));
        assert_eq!(trials, order(&arms, &workloads, 20, Seed(9)));
        assert_ne!(trials, order(&arms, &workloads, 20, Seed(10)));
        // Prolonged, not reshuffled.
        assert_eq!(trials[..9], order(&arms, &workloads, 3, Seed(9)));
        let orders: BTreeSet<Vec<&String>> = trials
            .chunks(3)
            .map(|block| block.iter().map(|t| &t.arm).collect())
            .collect();
        assert!(orders.len() >= 4, "20 draws of 6 orders: {orders:?}");
    }

    #[test]
    fn every_arm_and_every_workload_is_first_equally_often() {
        let (arms, workloads) = (labels(&["a", "b", "c"]), labels(&["v", "w"]));
        let (mut first_arm, mut first_workload) = (BTreeMap::new(), BTreeMap::new());
        for seed in 0..3_000 {
            let trials = order(&arms, &workloads, 1, Seed(seed));
            *first_arm.entry(trials[0].arm.clone()).or_insert(0) += 1;
            *first_workload
                .entry(trials[0].workload.clone())
                .or_insert(0) += 1;
        }
        // Four standard deviations: 103 of 1000, 110 of 1500.
        assert!(
            first_arm.values().all(|n| (897..1103).contains(n)),
            "{first_arm:?}"
        );
        assert!(
            first_workload.values().all(|n| (1390..1610).contains(n)),
            "{first_workload:?}"
        );
    }
}
