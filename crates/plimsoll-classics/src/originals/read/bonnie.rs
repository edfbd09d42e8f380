// SPDX-License-Identifier: Apache-2.0
//! bonnie++'s CSV. The form goes by the format version at the start of each line: the header that
//! `-x` prints was not changed when 1.98 put the number of seeks and of seekers after the chunk
//! size. Rates of bulk I/O are KiB per second; CPU is percent of one processor, both modes together.

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::PhaseResult;
use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::round_u64;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::{self, Nanos};

use super::{ProgramOutputResult, RateOnlyResult, number};

const BULK: [(&str, OpKind); 6] = [
    ("putc", OpKind::Write),
    ("put_block", OpKind::Write),
    ("rewrite", OpKind::Write),
    ("getc", OpKind::Read),
    ("get_block", OpKind::Read),
    ("seeks", OpKind::Read),
];
const FILES: [(&str, OpKind); 6] = [
    ("seq_create", OpKind::Create),
    ("seq_stat", OpKind::Stat),
    ("seq_del", OpKind::Delete),
    ("ran_create", OpKind::Create),
    ("ran_stat", OpKind::Stat),
    ("ran_del", OpKind::Delete),
];
/// Files that one unit of `num_files` stands for.
const FILES_UNIT: f64 = 1024.0;

/// Whether a line is a result.
pub(super) fn is_result(line: &str) -> bool {
    ["1.96,", "1.97,", "1.98,"]
        .iter()
        .any(|version| line.trim_start().starts_with(version))
}

pub(super) fn read(text: &str) -> Result<Vec<ProgramOutputResult>, String> {
    let lines = (1usize..)
        .zip(text.lines())
        .filter(|(_, line)| is_result(line));
    let readings = lines.map(|(number, line)| {
        one(line.trim()).map_err(|reason| format!("line {number}: {reason}"))
    });
    let readings: Vec<ProgramOutputResult> = readings.collect::<Result<_, _>>()?;
    if readings.is_empty() {
        return Err(
            "no line begins with a format version from 1.96 to 1.98; is it the CSV?".into(),
        );
    }
    Ok(readings)
}

fn one(line: &str) -> Result<ProgramOutputResult, String> {
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
            None => {
                let size = units::parse_size(text);
                size.map_err(|reason| format!("file size '{text}': {reason}"))? as f64
            }
        },
    };
    let amount = |text: &str| number(text).unwrap_or(0.0);
    let seeks = if shift == 2 { amount(fields[7]) } else { 0.0 };
    let files = amount(fields[19 + shift]) * FILES_UNIT;
    // The longest operation of each phase, in the order of the phases, ends the line.
    let longest = |at: usize| fields.get(36 + shift + at).copied().unwrap_or("");
    let mut found = BonnieLineResult::default();
    for (at, (name, kind)) in BULK.into_iter().enumerate() {
        let (metric, unit, done) = match name {
            "seeks" => (ComparisonMetric::OpsPerSecond, 1.0, seeks),
            // How many bytes are moved byte by byte is not printed.
            "putc" | "getc" => (ComparisonMetric::BytesPerSecond, 1024.0, 0.0),
            _ => (ComparisonMetric::BytesPerSecond, 1024.0, size),
        };
        let place = 7 + shift + 2 * at;
        let told = [fields[place], fields[place + 1], longest(at)];
        found.add((name, kind), metric, unit, done, told)?;
    }
    for (at, which) in FILES.into_iter().enumerate() {
        let place = 24 + shift + 2 * at;
        let told = [fields[place], fields[place + 1], longest(BULK.len() + at)];
        found.add(which, ComparisonMetric::OpsPerSecond, 1.0, files, told)?;
    }
    let notes = found.notes();
    let phases = found.phases;
    if phases.is_empty() {
        return Err(
            "every figure is too short (+++++) or left out: there is nothing to read".into(),
        );
    }
    Ok(ProgramOutputResult {
        phases,
        host: fields[2].into(),
        notes,
        together: None,
    })
}

/// Results of the figures of a line.
#[derive(Default)]
struct BonnieLineResult {
    phases: Vec<PhaseResult>,
    short: Vec<&'static str>,
    without_amount: Vec<&'static str>,
}

impl BonnieLineResult {
    /// One rate, its CPU and its longest operation; nothing when it was left out, or took less than
    /// the half second below which bonnie++ prints plus signs.
    fn add(
        &mut self,
        (name, kind): (&'static str, OpKind),
        metric: ComparisonMetric,
        unit: f64,
        amount: f64,
        [rate, cpu, longest]: [&str; 3],
    ) -> Result<(), String> {
        if rate.starts_with('+') {
            self.short.push(name);
        }
        if rate.is_empty() || rate.starts_with('+') {
            return Ok(());
        }
        let per_s =
            number(rate).ok_or_else(|| format!("{name} is '{rate}', which is not a rate"))?;
        let rate = RateOnlyResult {
            name: name.into(),
            metric,
            per_s: per_s * unit,
            amount,
            kind,
        };
        let mut result = rate.result();
        let percent = number(cpu).unwrap_or(0.0);
        if amount <= 0.0 {
            // Without an amount there is no time. One second has the rate and the share of the
            // processor that are printed.
            result.wall = Nanos::SECOND;
        }
        if amount <= 0.0 && percent > 0.0 {
            self.without_amount.push(name);
        }
        // Both modes together; where it belongs is unknown.
        result.system_cpu_ns = round_u64(result.wall.0 as f64 * percent / 100.0);
        if let Some(longest) = time(longest) {
            let stats = result.stats.0.entry(kind).or_default();
            // The only time that is printed. It counts no operation: those are counted by service
            // times. In this closed loop the response is the same.
            stats.response =
                Histogram::from_counts([(longest.0, 1)], longest.0, longest.0, longest.0);
        }
        self.phases.push(result);
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.short.is_empty() {
            notes.push(format!(
                "{} took less than half a second, for which bonnie++ prints no figure (+++++): more data or files are needed",
                self.short.join(", ")
            ));
        }
        if !self.without_amount.is_empty() {
            notes.push(format!(
                "bonnie++ does not print the amount of work of {}, so its time is unknown: \
                 one second is assumed",
                self.without_amount.join(", ")
            ));
        }
        notes
    }
}

/// `12us`, `150ms`, `3s`; `None` for anything else, such as plus signs.
fn time(text: &str) -> Option<Nanos> {
    ["us", "ms", "s"]
        .iter()
        .zip([1e-6, 1e-3, 1.0])
        .find_map(|(unit, each_s)| Some((text.strip_suffix(unit)?, each_s)))
        .and_then(|(digits, each_s)| Some(Nanos::from_secs_f64(number(digits)? * each_s)))
        .filter(|time| *time <= Nanos::from_secs_f64(1e9))
}
