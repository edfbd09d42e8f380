// SPDX-License-Identifier: Apache-2.0
//! Open loops on nothing: whether arrivals come at their rate, and how late they are issued.

use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{Arrival, Blocks, Group, Pace};

use super::ours::Ran;
use super::table::{Gate, Row};
use super::{Bench, Fault};

fn poisson(per_s: f64) -> Workload {
    Workload::Blocks(Blocks {
        name: format!("{per_s:.0} a second"),
        groups: vec![Group {
            depth: 256,
            pace: Pace::Open(Arrival::Poisson { per_s }),
            ..Group::default()
        }],
    })
}

fn runs(bench: &Bench, per_s: f64) -> Result<Vec<Ran>, Fault> {
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

/// The rate that was achieved, against the one that was asked for, and the counts of short
/// intervals against those of a Poisson process.
pub(crate) fn arrivals(bench: &Bench) -> Result<Vec<Row>, Fault> {
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
    }
    Ok(rows)
}

/// How late requests are issued at 100,000 a second, and the share of a processor that waiting for
/// their time took.
pub(crate) fn issue(bench: &Bench) -> Result<Vec<Row>, Fault> {
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
