// SPDX-License-Identifier: Apache-2.0
//! Open loops on nothing: whether arrivals come at their rate, and how late they are issued.

use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    ArrivalProcess, BlockIoGroup, BlockIoPacing, BlockIoWorkload,
};

use super::ours::Ran;
use super::table::{Gate, Row};
use super::{Bench, Failure};

fn poisson(per_s: f64) -> Workload {
    Workload::Blocks(BlockIoWorkload {
        name: format!("{per_s:.0} a second"),
        groups: vec![BlockIoGroup {
            depth: 256,
            pace: BlockIoPacing::Open(ArrivalProcess::Poisson { per_s }),
            ..BlockIoGroup::default()
        }],
    })
}

fn runs(bench: &Bench, per_s: f64) -> Result<Vec<Ran>, Failure> {
    let workload = poisson(per_s);
    let run = |round| {
        let ran = bench
            .plimsoll
            .run(&workload, "null", bench.options.seconds)?;
        let lag_us = ran.number("/lag_ns/p99") / 1e3;
        eprintln!("round {round}: {per_s:.0}/s, lag p99 {lag_us:.2} us");
        Ok(ran)
    };
    (1..=bench.options.rounds).map(run).collect()
}

fn row(what: String, runs: &[Ran], pick: impl Fn(&Ran) -> f64, gate: Gate) -> Row {
    Row::new(what, runs.iter().map(pick).collect(), gate)
}

/// Issue times that are held against the law.
const ISSUES: usize = 100_000;

/// Kolmogorov and Smirnov's critical distance at 0.1 % is this over the root of the number of values.
const CRITICAL: f64 = 1.9495;

/// The largest distance between the distribution of the intervals of `times` and the exponential
/// one with the mean that was asked for.
fn distance(times: impl Iterator<Item = f64>, mean: f64) -> f64 {
    let mut before = 0.0;
    let mut gaps: Vec<f64> = times
        .map(|time| time - std::mem::replace(&mut before, time))
        .collect();
    gaps.sort_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let at = |(place, gap): (usize, &f64)| {
        let law = 1.0 - (-gap / mean).exp();
        (law - place as f64 / n).max((place + 1) as f64 / n - law)
    };
    gaps.iter().enumerate().map(at).fold(0.0, f64::max)
}

/// Distances of the intervals from those of a Poisson process: as meant, and as issued, in every
/// round.
fn distances(bench: &Bench, per_s: f64) -> Result<[Vec<f64>; 2], Failure> {
    let mut found = [Vec::new(), Vec::new()];
    for round in 1..=bench.options.rounds {
        let times = bench.plimsoll.issues(&poisson(per_s), ISSUES)?;
        if times.len() != ISSUES {
            return Err(format!("trace {ISSUES} issues: there were {}", times.len()));
        }
        for (which, found) in found.iter_mut().enumerate() {
            found.push(distance(times.iter().map(|time| time[which]), 1e9 / per_s));
        }
        let last = found.each_ref().map(|all| all[all.len() - 1]);
        eprintln!("round {round}: {per_s:.0}/s, distances {last:.5?}");
    }
    Ok(found)
}

/// The rate that was achieved, against the one that was asked for, and the intervals between
/// requests, as meant and as issued, against those of a Poisson process.
pub(crate) fn arrivals(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for per_s in [30_000.0, 150_000.0, 300_000.0] {
        let runs = runs(bench, per_s)?;
        let off = |ran: &Ran| (ran.sample().per_second() / per_s - 1.0).abs() * 100.0;
        let left = |ran: &Ran| ran.number("/generator/not_submitted");
        rows.extend([
            row(
                format!("{per_s:.0}/s: rate off by, %"),
                &runs,
                off,
                Gate::AtMost(0.5),
            ),
            row(
                format!("{per_s:.0}/s: never issued"),
                &runs,
                left,
                Gate::AtMost(0.0),
            ),
        ]);
        let critical = CRITICAL / (ISSUES as f64).sqrt();
        for (what, found) in ["meant", "issued"].iter().zip(distances(bench, per_s)?) {
            rows.push(Row::new(
                format!("{per_s:.0}/s: intervals as {what}, distance from the law"),
                found,
                Gate::AtMost(critical),
            ));
        }
    }
    Ok(rows)
}

/// How late requests are issued at 100,000 a second, and the share of a processor that waiting for
/// their time took.
pub(crate) fn issue(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let runs = runs(bench, 100_000.0)?;
    let lag = |path: &'static str| move |ran: &Ran| ran.number(path) / 1e3;
    let share =
        |path: &'static str| move |ran: &Ran| ran.number(path) / ran.number("/length_ns") * 100.0;
    Ok(vec![
        row(
            "lag p50, us".into(),
            &runs,
            lag("/lag_ns/p50"),
            Gate::AtMost(1.0),
        ),
        row(
            "lag p99, us".into(),
            &runs,
            lag("/lag_ns/p99"),
            Gate::AtMost(25.0),
        ),
        row("lag max, us".into(), &runs, lag("/lag_ns/max"), Gate::None),
        row(
            "processor that pacing took, %".into(),
            &runs,
            share("/generator/pacing_ns"),
            Gate::None,
        ),
        row(
            "processor in all, %".into(),
            &runs,
            share("/generator_cpu_ns"),
            Gate::None,
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    #[test]
    fn the_distance_tells_a_poisson_process_from_others() {
        let critical = CRITICAL / 1e4f64.sqrt();
        let (mut rng, mut at) = (Rng::new(Seed(1)), 0.0);
        let poisson: Vec<f64> = (0..10_000)
            .map(|_| {
                at += rng.exponential(5.0);
                at
            })
            .collect();
        assert!(distance(poisson.iter().copied(), 5.0) < critical);
        assert!(distance(poisson.iter().copied(), 5.5) > critical);
        let even = (1..=10_000).map(|k| f64::from(k) * 5.0);
        assert!(distance(even, 5.0) > 0.3);
        // One in thirty moved onto the one before.
        let mut moved = poisson.clone();
        for k in (1..moved.len()).step_by(30) {
            moved[k] = moved[k - 1];
        }
        assert!(distance(moved.into_iter(), 5.0) > critical);
    }
}
