// SPDX-License-Identifier: Apache-2.0
//! When a load counts as too much, held against thousands of simulated queues whose truth is known.
//!
//! Everything is seeded: the rates below are the same on every machine.

use plimsoll_core::open_load::OpenLoad;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_stats::overload::backlog;

/// How requests come and how long they take, both with a mean of 1.
#[derive(Debug, Clone, Copy)]
enum Noise {
    /// One at a time, exponential service.
    Poisson,
    /// One at a time, every hundredth takes fifty times as long.
    Rare,
    /// Sixteen at a time.
    Batches,
    /// A second without service every so often, made up for in between.
    Stalls,
}

/// A trial of one server at this share of what it can do.
fn trial(seed: u64, noise: Noise, share: f64, per_s: f64, seconds: f64) -> OpenLoad {
    let mut rng = Rng::new(Seed(seed));
    let mut open = OpenLoad::new(Some(Nanos::from_secs_f64(seconds)));
    let (mut at, mut free, mut in_batch) = (0.0_f64, 0.0_f64, 0);
    let mut stall = 7.0 * rng.unit();
    loop {
        let gap = match noise {
            Noise::Batches if in_batch % 16 != 0 => 0.0,
            Noise::Batches => rng.exponential(16.0 / per_s),
            _ => rng.exponential(1.0 / per_s),
        };
        in_batch += 1;
        at += gap;
        if at >= seconds {
            return open;
        }
        open.due_at(Nanos::from_secs_f64(at), 1);
        let mean = share / per_s;
        let service = match noise {
            Noise::Rare if rng.unit() < 0.01 => 50.0 * mean / 1.49,
            Noise::Rare => mean / 1.49,
            Noise::Stalls => rng.exponential(mean * 6.0 / 7.0),
            _ => rng.exponential(mean),
        };
        let begins = at.max(free);
        free = begins + service;
        if matches!(noise, Noise::Stalls) && free > stall {
            free += 1.0;
            stall += 7.0;
        }
        open.ended_at(Nanos::from_secs_f64(free), 1);
    }
}

/// In which share of trials the backlog counts as one that grew.
fn share_seen(noise: Noise, share: f64, per_s: f64, seconds: f64) -> f64 {
    const TRIALS: u64 = 60;
    let grew = |seed| {
        let open = trial(seed, noise, share, per_s, seconds);
        backlog(&open).is_some_and(|left| left.grew)
    };
    (0..TRIALS).filter(|seed| grew(*seed)).count() as f64 / TRIALS as f64
}

const NOISES: [Noise; 4] = [Noise::Poisson, Noise::Rare, Noise::Batches, Noise::Stalls];

#[test]
fn a_busy_system_is_hardly_ever_called_overloaded() {
    for noise in NOISES {
        for (share, seconds, per_s) in
            [(0.6, 5.0, 500.0), (0.95, 5.0, 1_000.0), (0.95, 20.0, 300.0)]
        {
            let seen = share_seen(noise, share, per_s, seconds);
            // More than half of the blocks must show it: of five, with 5 % each, one run in 800.
            assert!(
                seen <= 0.03,
                "{noise:?}, {share} of {per_s}/s for {seconds} s: {seen}"
            );
        }
    }
}

#[test]
fn a_system_that_is_offered_a_tenth_more_than_it_serves_is_called_overloaded() {
    for (noise, least) in [(Noise::Poisson, 0.95), (Noise::Rare, 0.7)] {
        let seen = share_seen(noise, 1.1, 2_000.0, 10.0);
        assert!(seen >= least, "{noise:?}: {seen}");
    }
    for noise in NOISES {
        let seen = share_seen(noise, 3.0, 500.0, 5.0);
        assert!(seen >= 0.95, "{noise:?}: {seen}");
    }
}

/// A load that changes from second to second, served by one that ends `per_s` at most.
fn served_at(due_per_s: &[u64], per_s: u64) -> OpenLoad {
    let seconds = due_per_s.len() as u64;
    let mut open = OpenLoad::new(Some(Nanos(seconds * 1_000_000_000)));
    let mut waiting = 0;
    for (second, due) in (0..).zip(due_per_s) {
        for part in 0..10 {
            let at = Nanos(second * 1_000_000_000 + part * 100_000_000 + 1);
            open.due_at(at, due / 10);
            waiting += due / 10;
            let ended = waiting.min(per_s / 10);
            open.ended_at(at, ended);
            waiting -= ended;
        }
    }
    open
}

#[test]
fn a_peak_that_is_caught_up_with_is_no_overload_but_a_cache_that_fills_is_one() {
    let grew = |load: &[u64], per_s| backlog(&served_at(load, per_s)).unwrap().grew;
    let peak = [vec![100; 17], vec![1_000; 3]].concat();
    assert!(!grew(&peak, 500), "a peak at the end");
    let peak = [vec![100; 8], vec![2_000; 4], vec![100; 8]].concat();
    assert!(!grew(&peak, 1_000), "a peak in the middle");
    let two_levels = [vec![100; 10], vec![300; 10]].concat();
    assert!(
        !grew(&two_levels, 250),
        "more than the load's mean is served"
    );
    assert!(grew(&[1_000; 20], 900));
    assert!(!grew(&[1_000; 20], 1_000));
    // Requests that a cache takes are served at once, the rest at the rate of the disk behind it.
    let mut filled = served_at(&[1_000; 10], 1_000);
    let after = served_at(&[1_000; 10], 400);
    filled.length = Some(Nanos(20_000_000_000));
    for (step, (due, ended)) in (0..).zip(after.due.iter().zip(&after.ended)) {
        let at = Nanos(10_000_000_000 + step * after.step.0);
        filled.due_at(at, *due);
        filled.ended_at(at, *ended);
    }
    assert!(backlog(&filled).unwrap().grew, "{filled:?}");
}

#[test]
fn too_short_a_trial_says_nothing() {
    let mut open = OpenLoad::new(Some(Nanos(300_000_000)));
    assert_eq!(backlog(&open), None, "nothing was due");
    (0..300).for_each(|ms| open.due_at(Nanos(ms * 1_000_000), 1));
    let left = backlog(&open).unwrap();
    assert!(!left.grew && left.offered == 300 && left.served == 0);
}
