// SPDX-License-Identifier: Apache-2.0
//! Requests fitted with the check of the model, as text and as a table: how many a second of one
//! processor does.
//!
//! Reading alone is measured beside it, by `make` of the measurements, which also makes the
//! recordings: a fit reads twice, so reading bounds it.

use super::long::timed;
use super::rivals::{children_ticks, measurement, output};
use super::table::{Gate, Row, Sample};
use super::{Bench, Failure, Player};

/// Requests a second of processor time, in millions.
const GATE: f64 = 5.0;

/// How many requests are fitted in a second of processor time.
pub(crate) fn fit(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let make = measurement("make")?.display().to_string();
    let mut rows = Vec::new();
    let text = made(bench, "requests.csv", &|file| {
        let count = bench.options.requests.to_string();
        output(&make, &["msr", file, &count]).map(drop)
    })?;
    rows.extend(of_recording(bench, &make, "MSR text", &text)?);
    let table = made(bench, "requests.parquet", &|file| {
        output(&make, &["parquet", &text, file]).map(drop)
    })?;
    rows.extend(of_recording(bench, &make, "Parquet", &table)?);
    Ok(rows)
}

/// A file in the folder of benches, made anew.
fn made(
    bench: &Bench,
    name: &str,
    make: &dyn Fn(&str) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let path = bench.options.dir.join(name);
    // Left by the last bench, perhaps of another length.
    let _ = std::fs::remove_file(&path);
    let path = path.display().to_string();
    make(&path)?;
    Ok(path)
}

fn of_recording(bench: &Bench, make: &str, what: &str, file: &str) -> Result<Vec<Row>, Failure> {
    let program = bench.plimsoll.program().display().to_string();
    let model = bench.options.dir.join("fit.toml").display().to_string();
    let requests = f64::from(bench.options.requests);
    let players: [Player<'_>; 2] = [
        (
            "plimsoll fit",
            Box::new(|| run(&program, &["fit", file, "-o", &model, "--force"], requests)),
        ),
        (
            "reading alone",
            Box::new(|| run(make, &["read", file], requests)),
        ),
    ];
    let samples = bench.rounds(&players)?;
    let millions = |sample: &Sample| 1e3 / sample.cpu_ns();
    let row = |who: &str, of: usize, gate: Gate| {
        let name = format!("{what}: {who}, million requests/s of processor");
        Row::of(name, &samples[of], millions, gate)
    };
    Ok(vec![
        row("fit", 0, Gate::AtLeast(GATE)),
        row("reading alone", 1, Gate::None),
        Row::of(
            format!("{what}: fit, million requests/s"),
            &samples[0],
            |sample| sample.per_second() / 1e6,
            Gate::None,
        ),
    ])
}

/// One run, counted as `ops` operations.
fn run(program: &str, args: &[&str], ops: f64) -> Result<Sample, Failure> {
    let before = children_ticks();
    let (text, took) = timed(|| output(program, args));
    text?;
    let after = children_ticks();
    Ok(Sample {
        ops,
        seconds: took.as_secs_f64(),
        user_ns: (after.0 - before.0) * 1e7,
        system_ns: (after.1 - before.1) * 1e7,
        outside_ns: None,
    })
}
