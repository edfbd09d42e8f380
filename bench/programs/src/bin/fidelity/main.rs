// SPDX-License-Identifier: Apache-2.0
//! Models held against their recordings on simulated devices.
//!
//! `fidelity requests TRACE…` plays packed requests and the recorded ones, `fidelity decisions TRACE…`
//! a model of counters. Tables go to the standard error stream; the standard output has one JSON
//! object for each row, which `cargo xtask bench fidelity` and `decisions` keep.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it is a program of its own"
)]

mod decisions;
mod play;
mod reasons;
mod requests;

use std::path::Path;
use std::process::ExitCode;

use play::FidelityTrace;
use plimsoll_trace::TraceError;
use serde::Serialize;

/// One row, with its gate.
#[derive(Debug, Serialize)]
struct FidelityRow {
    what: String,
    values: Vec<f64>,
    within: Option<f64>,
    at_least: Option<f64>,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rows: fn(&[FidelityTrace]) -> Result<Vec<FidelityRow>, TraceError> =
        match args.first().map(String::as_str) {
            Some("requests") => requests::rows,
            Some("decisions") => decisions::rows,
            _ => {
                eprintln!("usage: fidelity requests|decisions TRACE…");
                return ExitCode::from(2);
            }
        };
    let traces: Result<Vec<FidelityTrace>, TraceError> = args[1..]
        .iter()
        .map(|path| FidelityTrace::open(Path::new(path)))
        .collect();
    match traces.and_then(|traces| rows(&traces)) {
        Ok(found) => {
            found.iter().for_each(print);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: failed to {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(row: &FidelityRow) {
    let text = serde_json::to_string(row).expect("a row is plain data");
    println!("{text}");
}
