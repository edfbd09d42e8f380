// SPDX-License-Identifier: Apache-2.0
//! The summary of sgpdd-survey. One line is one cell of the sweep, in the present form
//! `dev 1 sz 8388608K rsz 1024K crg 4 thr 8 write 180.45 [ 44.96, 45.20] read …` or the older
//! `total_size 8388608K rsz 1024 crg 4 thr 8 write 180.45 MB/s 4 x 44.96 = 179.84 MB/s read …`.
//! The first figure is all bytes by the wall time, in MiB per second.

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::op::OpKind;

use super::{ProgramOutputResult, RateOnlyResult, number};

const MIB: f64 = 1_048_576.0;

/// Whether a line is a cell.
pub(super) fn is_result(line: &str) -> bool {
    ["rsz", "crg", "thr"]
        .iter()
        .all(|key| line.split_whitespace().any(|word| word == *key))
}

pub(super) fn read(text: &str) -> Result<Vec<ProgramOutputResult>, String> {
    let mut readings: Vec<ProgramOutputResult> = Vec::new();
    let mut current = ProgramOutputResult::default();
    for (line, text) in (1usize..).zip(text.lines()) {
        if !is_result(text) {
            continue;
        }
        let (rates, notes) = cell(text).map_err(|reason| format!("line {line}: {reason}"))?;
        // The same cell again: the next survey.
        let known =
            |rate: &RateOnlyResult| current.phases.iter().any(|phase| phase.name == rate.name);
        if rates.iter().any(known) {
            readings.push(std::mem::take(&mut current));
        }
        current
            .phases
            .extend(rates.into_iter().map(RateOnlyResult::result));
        current.notes.extend(notes);
    }
    if !current.phases.is_empty() {
        readings.push(current);
    }
    Ok(readings)
}

fn cell(text: &str) -> Result<(Vec<RateOnlyResult>, Vec<String>), String> {
    let text = text.replace(['[', ']', ',', '='], " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let after = |key: &str| {
        let at = words.iter().position(|word| *word == key)?;
        words.get(at + 1).copied()
    };
    let count = |key: &str| {
        let value = after(key).map(|word| word.trim_end_matches(['K', 'k']));
        value
            .and_then(number)
            .ok_or_else(|| format!("there is no number after {key}"))
    };
    let (record, regions, threads) = (count("rsz")?, count("crg")?, count("thr")?);
    let bytes = count("sz").or_else(|_| count("total_size"))? * 1024.0;
    let (mut rates, mut notes) = (Vec::new(), Vec::new());
    for (action, kind) in [("write", OpKind::Write), ("read", OpKind::Read)] {
        let Some(at) = words.iter().position(|word| *word == action) else {
            continue;
        };
        let name = format!("rsz {record} crg {regions} thr {threads} {action}");
        let next = |step: usize| words.get(at + step).copied().unwrap_or_default();
        match number(next(1)) {
            Some(_) if next(2) == "failed" => {
                notes.push(format!("{name}: {} transfers failed", next(1)));
            }
            Some(mib_per_s) => rates.push(RateOnlyResult {
                name,
                metric: ComparisonMetric::BytesPerSecond,
                per_s: mib_per_s * MIB,
                amount: bytes,
                kind,
            }),
            None if next(1) == "ENOMEM" => {
                notes.push(format!("{name}: left out: not enough memory"));
            }
            None => {
                return Err(format!(
                    "after {action} comes '{}', which is not a rate",
                    next(1)
                ));
            }
        }
    }
    if words.contains(&"ENOMEM") && notes.is_empty() {
        notes.push(format!(
            "rsz {record} crg {regions} thr {threads}: left out: not enough memory"
        ));
    }
    Ok((rates, notes))
}
