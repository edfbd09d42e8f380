// SPDX-License-Identifier: Apache-2.0
//! The promises of tests, intervals and stopping rules under every noise law, in short. The long form
//! is `bench/programs/src/bin/verdicts.rs`; its tables are in docs/results/2026-11-verdicts.md.
//!
//! Everything is seeded: the rates below are the same on every machine. Bounds are the promise and
//! three standard errors of this number of campaigns.

use super::noise::{NoiseLaw, SimulatedCampaign};
use plimsoll_core::comparison::{StoppingRule, VerdictPolicy};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_stats::anytime::stakes;
use plimsoll_stats::arrangement::{ArrangementTest, BlockLogValues};
use plimsoll_stats::family::holm;
use plimsoll_stats::{ArmValues, contrasts};

const CAMPAIGNS: usize = 200;

/// 0.05 and three standard errors of 200 campaigns.
const ALARMS_MAX: f64 = 0.05 + 3.0 * 0.0154;

fn campaign(law: NoiseLaw, blocks: usize, effect: f64) -> SimulatedCampaign {
    SimulatedCampaign {
        law,
        blocks,
        arms: 1,
        has_control: true,
        effect,
    }
}

fn logs(arms: &[ArmValues]) -> Vec<BlockLogValues> {
    let log = |arm: usize, block: usize| arms[arm].values[block].map_or(0.0, f64::ln);
    let block = |block: usize| BlockLogValues {
        base: vec![log(0, block), log(2, block)],
        arm: vec![log(1, block)],
    };
    (0..arms[0].values.len()).map(block).collect()
}

fn share(hits: usize) -> f64 {
    hits as f64 / CAMPAIGNS as f64
}

#[test]
fn equal_systems_differ_in_one_campaign_of_twenty_whatever_the_noise() {
    for law in NoiseLaw::ALL {
        for blocks in [5, 9] {
            let mut rng = Rng::new(Seed(1).derive("alarms", blocks as u64));
            let alarm = |_: &usize| {
                let blocks = logs(&campaign(law, blocks, 0.0).draw(&mut rng));
                ArrangementTest::of(&blocks).unwrap().tails(0.0).both() <= 0.05
            };
            let rate = share((0..CAMPAIGNS).filter(alarm).count());
            assert!(
                (0.004..=ALARMS_MAX).contains(&rate),
                "{law:?} {blocks}: {rate}"
            );
        }
    }
}

#[test]
fn intervals_hold_the_truth_in_19_campaigns_of_20() {
    for law in [
        NoiseLaw::Normal,
        NoiseLaw::StealBursts,
        NoiseLaw::RandomWalk,
    ] {
        let mut rng = Rng::new(Seed(2));
        let held = |_: &usize| {
            let arms = campaign(law, 6, 0.1).draw(&mut rng);
            let contrast = contrasts(&arms, &VerdictPolicy::default())[0].unwrap();
            contrast.interval.low <= 0.1 && 0.1 <= contrast.interval.high
        };
        let rate = share((0..CAMPAIGNS).filter(held).count());
        assert!(
            (1.0 - ALARMS_MAX..=0.996).contains(&rate),
            "{law:?}: {rate}"
        );
    }
}

#[test]
fn looks_after_every_block_keep_the_promise() {
    for law in NoiseLaw::ALL {
        let mut rng = Rng::new(Seed(3));
        let ever = |_: &usize| {
            let blocks = logs(&campaign(law, 30, 0.0).draw(&mut rng));
            stakes(&blocks, 0.0).p_value() <= 0.05
        };
        let rate = share((0..CAMPAIGNS).filter(ever).count());
        assert!(rate <= ALARMS_MAX, "{law:?}: {rate}");
    }
}

/// The check itself can fail: looks after every block at a test for one look are found out.
#[test]
fn naive_looks_would_break_it() {
    let mut rng = Rng::new(Seed(4));
    let ever = |_: &usize| {
        let blocks = logs(&campaign(NoiseLaw::Normal, 16, 0.0).draw(&mut rng));
        let seen = |looks: usize| {
            let test = ArrangementTest::of(&blocks[..looks]).unwrap();
            test.tails(0.0).both() <= 0.05
        };
        (5..=16).any(seen)
    };
    let rate = share((0..CAMPAIGNS).filter(ever).count());
    assert!(rate > ALARMS_MAX, "{rate}");
}

#[test]
fn a_family_of_five_arms_has_the_alarms_of_one() {
    let mut rng = Rng::new(Seed(5));
    let alarm = |_: &usize| {
        let drawn = SimulatedCampaign {
            arms: 5,
            ..campaign(NoiseLaw::Normal, 6, 0.0)
        };
        let family = contrasts(&drawn.draw(&mut rng), &VerdictPolicy::default());
        let p_values: Vec<f64> = family.iter().map(|one| one.unwrap().p_value).collect();
        holm(&p_values).iter().any(|p_value| *p_value <= 0.05)
    };
    let rate = share((0..CAMPAIGNS).filter(alarm).count());
    assert!(rate <= ALARMS_MAX, "{rate}");
}

#[test]
fn a_tenth_beside_bursts_is_found_in_most_campaigns() {
    let mut rng = Rng::new(Seed(6));
    let found = |_: &usize| {
        let arms = campaign(NoiseLaw::StealBursts, 15, 0.095).draw(&mut rng);
        contrasts(&arms, &VerdictPolicy::default())[0]
            .unwrap()
            .p_value
            <= 0.05
    };
    let rate = share((0..CAMPAIGNS).filter(found).count());
    assert!(rate > 0.8, "{rate}");
}

#[test]
fn the_policy_of_old_run_folders_is_a_fixed_number_of_blocks() {
    assert_eq!(VerdictPolicy::default().stopping, StoppingRule::Fixed);
}
