// SPDX-License-Identifier: Apache-2.0
//! filebench's results: the `IO Summary`, which counts every I/O operation, those on metadata too,
//! and before it a line per operation of the loop. Megabytes are MiB.

use plimsoll_core::comparison::Metric;
use plimsoll_core::event::PhaseResult;
use plimsoll_core::op::Kind;

use super::{Rate, Reading, before};

pub(super) fn read(text: &str) -> Result<Vec<Reading>, String> {
    let mut readings = Vec::new();
    let mut operations: Vec<PhaseResult> = Vec::new();
    for (line, text) in (1usize..).zip(text.lines()) {
        if let Some((_, rest)) = text.split_once("IO Summary:") {
            let summary = rates("IO Summary", rest);
            let summary = summary
                .ok_or_else(|| format!("line {line}: '{}' has no ops and ops/s", text.trim()))?;
            let mut phases = vec![summary];
            phases.append(&mut operations);
            readings.push(Reading {
                phases,
                ..Reading::default()
            });
        } else if let Some((name, rest)) = text.trim().split_once(char::is_whitespace)
            && rest.contains("ops/s")
        {
            operations.extend(rates(name, rest));
        }
    }
    if readings.is_empty() {
        return Err("there is no 'IO Summary:' line: the run did not end in order".into());
    }
    Ok(readings)
}

fn rates(name: &str, text: &str) -> Option<PhaseResult> {
    let text = text.replace([',', '(', ')', '[', ']'], " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let ops = before(&words, "ops")?;
    let per_s = before(&words, "ops/s")?;
    let rate = Rate {
        name: name.into(),
        metric: Metric::OpsPerSecond,
        per_s,
        amount: ops,
        kind: Kind::Write,
    };
    Some(rate.result())
}
