// SPDX-License-Identifier: Apache-2.0
//! Models held against recorded requests on simulated devices.
//!
//! The example `fidelity` of plimsoll plays both and judges; here its rows are printed and kept.
//! Nothing in them depends on the machine.

use serde_json::Value;

use super::rivals::{measurement, output};
use super::table::{Gate, Row};
use super::{Bench, Failure};

/// Packed requests against the recorded ones.
pub(crate) fn fidelity(bench: &Bench) -> Result<Vec<Row>, Failure> {
    of_traces(bench, "requests")
}

/// How a model of counters alone ranks devices.
pub(crate) fn decisions(bench: &Bench) -> Result<Vec<Row>, Failure> {
    of_traces(bench, "decisions")
}

fn of_traces(bench: &Bench, what: &str) -> Result<Vec<Row>, Failure> {
    let traces = &bench.options.traces;
    if traces.is_empty() {
        return Err("find recorded requests: give --trace FILE".into());
    }
    let program = measurement("fidelity")?;
    let mut args = vec![what];
    args.extend(traces.iter().map(String::as_str));
    output(&program.display().to_string(), &args)?
        .lines()
        .map(row)
        .collect()
}

fn row(line: &str) -> Result<Row, Failure> {
    let found: Value =
        serde_json::from_str(line).map_err(|error| format!("read '{line}': {error}"))?;
    let number = |name: &str| found[name].as_f64();
    let gate = match (number("within"), number("at_least")) {
        (Some(limit), _) => Gate::Within(limit),
        (None, Some(limit)) => Gate::AtLeast(limit),
        (None, None) => Gate::None,
    };
    let values = found["values"].as_array().into_iter().flatten();
    let values = values.map(|value| value.as_f64().unwrap_or(f64::NAN));
    let what = found["what"].as_str().unwrap_or_default();
    Ok(Row::new(what, values.collect(), gate))
}
