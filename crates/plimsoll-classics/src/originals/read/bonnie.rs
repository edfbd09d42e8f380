// SPDX-License-Identifier: Apache-2.0
//! bonnie++'s CSV. The form goes by the format version at the start of each line: the header that
//! `-x` prints was not changed when 1.98 put the number of seeks and of seekers after the chunk
//! size. Rates of bulk I/O are KiB per second; CPU is percent of one processor, both modes together.

use plimsoll_core::comparison::Metric;
use plimsoll_core::event::PhaseResult;
use plimsoll_core::num::round_u64;
use plimsoll_core::op::Kind;
use plimsoll_core::units;

use super::{Rate, Reading, number};

const BULK: [(&str, Kind); 6] = [
    ("putc", Kind::Write),
    ("put_block", Kind::Write),
    ("rewrite", Kind::Write),
    ("getc", Kind::Read),
    ("get_block", Kind::Read),
    ("seeks", Kind::Read),
];
const FILES: [(&str, Kind); 6] = [
    ("seq_create", Kind::Create),
    ("seq_stat", Kind::Stat),
    ("seq_del", Kind::Delete),
    ("ran_create", Kind::Create),
    ("ran_stat", Kind::Stat),
    ("ran_del", Kind::Delete),
];
/// Files that one unit of `num_files` stands for.
const FILES_UNIT: f64 = 1024.0;

/// Whether a line is a result.
pub(super) fn is_result(line: &str) -> bool {
    ["1.96,", "1.97,", "1.98,"]
        .iter()
        .any(|version| line.trim_start().starts_with(version))
}

pub(super) fn read(text: &str) -> Result<Vec<Reading>, String> {
    let lines = (1usize..)
        .zip(text.lines())
        .filter(|(_, line)| is_result(line));
    let readings = lines.map(|(number, line)| {
        one(line.trim()).map_err(|reason| format!("line {number}: {reason}"))
    });
    let readings: Vec<Reading> = readings.collect::<Result<_, _>>()?;
    if readings.is_empty() {
        return Err(
            "no line begins with a format version from 1.96 to 1.98; is it the CSV?".into(),
        );
    }
    Ok(readings)
}

fn one(line: &str) -> Result<Reading, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    // The two fields that 1.98 put in.
    let shift = if fields[0] == "1.98" { 2 } else { 0 };
    if fields.len() < 36 + shift {
        return Err(format!(
            "it has {} fields; version {} has {}",
            fields.len(),
            fields[0],
            48 + shift
        ));
    }
    let size = match fields[5] {
        "" => 0.0,
        text => match number(text) {
            Some(mib) => mib * f64::from(1 << 20),
            None => units::parse_size(text)? as f64,
        },
    };
    let amount = |text: &str| number(text).unwrap_or(0.0);
    let seeks = if shift == 2 { amount(fields[7]) } else { 0.0 };
    let files = amount(fields[19 + shift]) * FILES_UNIT;
    let mut phases = Vec::new();
    for (at, (name, kind)) in BULK.into_iter().enumerate() {
        let (metric, unit, done) = match name {
            "seeks" => (Metric::OpsPerSecond, 1.0, seeks),
            // How many bytes are moved byte by byte is not told.
            "putc" | "getc" => (Metric::BytesPerSecond, 1024.0, 0.0),
            _ => (Metric::BytesPerSecond, 1024.0, size),
        };
        let at = 7 + shift + 2 * at;
        phases.extend(phase(
            (name, kind),
            metric,
            unit,
            done,
            [fields[at], fields[at + 1]],
        )?);
    }
    for (at, which) in FILES.into_iter().enumerate() {
        let at = 24 + shift + 2 * at;
        phases.extend(phase(
            which,
            Metric::OpsPerSecond,
            1.0,
            files,
            [fields[at], fields[at + 1]],
        )?);
    }
    if phases.is_empty() {
        return Err(
            "every figure is too short (+++++) or left out: there is nothing to read".into(),
        );
    }
    Ok(Reading {
        phases,
        host: fields[2].into(),
        notes: Vec::new(),
    })
}

/// One rate and its CPU; nothing when it was left out, or took less than the half second below
/// which bonnie++ prints plus signs.
fn phase(
    (name, kind): (&str, Kind),
    metric: Metric,
    unit: f64,
    amount: f64,
    [rate, cpu]: [&str; 2],
) -> Result<Option<PhaseResult>, String> {
    if rate.is_empty() || rate.starts_with('+') {
        return Ok(None);
    }
    let per_s = number(rate).ok_or_else(|| format!("{name} is '{rate}', which is no rate"))?;
    let rate = Rate {
        name: name.into(),
        metric,
        per_s: per_s * unit,
        amount,
        kind,
    };
    let mut result = rate.result();
    let percent = number(cpu).unwrap_or(0.0);
    // Both modes together; where it belongs is not told.
    result.system_cpu_ns = round_u64(result.wall.0 as f64 * percent / 100.0);
    Ok(Some(result))
}
