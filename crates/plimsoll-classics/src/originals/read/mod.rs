// SPDX-License-Identifier: Apache-2.0
//! Outputs of the original programs as results of phases.
//!
//! The readers key on words and units, not on columns: versions differ in their spacing. What an
//! output does not contain (most have no distribution) stays empty.

mod bonnie;
mod elbencho;
mod filebench;
mod fio;
mod io500;
mod iozone;
mod sgpdd;
mod warp;

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::{KindStats, OpStats, PhaseResult};
use plimsoll_core::num::{ratio, round_u64};
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::commands::CommandOutputFormat;

use crate::error::ClassicsError;

/// Largest output that is read.
const BYTES_MAX: usize = 256 << 20;
/// Most phases of one reading.
const PHASES_MAX: usize = 100_000;

/// Largest rate that is believed, per second: a petabyte.
const RATE_MAX: f64 = 1e15;
/// Longest time that is believed: 31 years.
const WALL_MAX: Nanos = Nanos(1_000_000_000 * 1_000_000_000);

/// Whose output a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramOutputFormat {
    /// fio 3.x, `--output-format=json` or `json+`.
    Fio,
    /// bonnie++, CSV of version 1.96 to 1.98.
    Bonnie,
    /// iozone, the report of its throughput mode.
    Iozone,
    /// filebench 1.4 and 1.5, `IO Summary` and the lines per operation.
    Filebench,
    /// sgpdd-survey of Lustre's I/O kit, the summary in its present or its older form.
    Sgpdd,
    /// elbencho, `--csvfile` or `--jsonfile`.
    Elbencho,
    /// warp of MinIO, every operation (`--full`).
    Warp,
    /// IO500, `result_summary.txt` or `result.txt`.
    Io500,
}

plimsoll_core::named::named_variants! {
    ProgramOutputFormat,
    /// Its name on the command line.
    name:
    Fio => "fio",
    Bonnie => "bonnie",
    Iozone => "iozone",
    Filebench => "filebench",
    Sgpdd => "sgpdd",
    Elbencho => "elbencho",
    Warp => "warp",
    Io500 => "io500",
}

impl ProgramOutputFormat {
    /// The program it comes from.
    pub fn program(self) -> &'static str {
        match self {
            ProgramOutputFormat::Bonnie => "bonnie++",
            ProgramOutputFormat::Sgpdd => "sgpdd-survey",
            ProgramOutputFormat::Io500 => "IO500",
            other => other.name(),
        }
    }

    /// The format that a command's output has; `None` where none of these programs wrote it.
    pub fn of(output: CommandOutputFormat) -> Option<ProgramOutputFormat> {
        match output {
            CommandOutputFormat::Time | CommandOutputFormat::Boots | CommandOutputFormat::Size => {
                None
            }
            CommandOutputFormat::Fio => Some(ProgramOutputFormat::Fio),
            CommandOutputFormat::Bonnie => Some(ProgramOutputFormat::Bonnie),
            CommandOutputFormat::Iozone => Some(ProgramOutputFormat::Iozone),
            CommandOutputFormat::Filebench => Some(ProgramOutputFormat::Filebench),
        }
    }

    /// The format that a text looks like.
    pub fn guess(text: &str) -> Option<ProgramOutputFormat> {
        let any = |test: fn(&str) -> bool| text.lines().any(test);
        if fio::is_result(text) {
            Some(ProgramOutputFormat::Fio)
        } else if any(warp::is_heading) || warp::is_sums(text) {
            Some(ProgramOutputFormat::Warp)
        } else if elbencho::is_json(text) || any(elbencho::is_heading) {
            Some(ProgramOutputFormat::Elbencho)
        } else if any(io500::is_result) {
            Some(ProgramOutputFormat::Io500)
        } else if any(bonnie::is_result) {
            Some(ProgramOutputFormat::Bonnie)
        } else if any(|line| line.contains("throughput for") || iozone::is_table(line)) {
            Some(ProgramOutputFormat::Iozone)
        } else if any(|line| line.contains("IO Summary")) {
            Some(ProgramOutputFormat::Filebench)
        } else if any(sgpdd::is_result) {
            Some(ProgramOutputFormat::Sgpdd)
        } else {
            None
        }
    }
}

/// The results of one run of a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProgramOutputResult {
    /// Its results, at least one.
    pub phases: Vec<PhaseResult>,
    /// The machine it ran on, as it calls it; empty when it does not say.
    pub host: String,
    /// Notes for readers of the results, one sentence each.
    pub notes: Vec<String>,
    /// Time of all results together, when some of them ran at the same time.
    pub together: Option<Nanos>,
}

impl ProgramOutputResult {
    /// Time of all results together: phases follow each other unless the program says otherwise.
    pub fn length(&self) -> Nanos {
        let walls = self.phases.iter().map(|phase| phase.wall);
        self.together
            .unwrap_or_else(|| walls.fold(Nanos(0), |sum, wall| sum + wall))
    }
}

/// Reads an output; runs that follow each other in one text come one by one.
///
/// # Errors
/// When there is no result in it, or a line or value is damaged; with the line where there is one.
pub fn read(
    format: ProgramOutputFormat,
    text: &str,
) -> Result<Vec<ProgramOutputResult>, ClassicsError> {
    let wrong = |reason: String| ClassicsError::Output {
        program: format.program().into(),
        reason,
    };
    if text.len() > BYTES_MAX {
        return Err(wrong("it is longer than 256 MiB".into()));
    }
    let readings = match format {
        ProgramOutputFormat::Fio => fio::read(text),
        ProgramOutputFormat::Bonnie => bonnie::read(text),
        ProgramOutputFormat::Iozone => iozone::read(text),
        ProgramOutputFormat::Filebench => filebench::read(text),
        ProgramOutputFormat::Sgpdd => sgpdd::read(text),
        ProgramOutputFormat::Elbencho => elbencho::read(text),
        ProgramOutputFormat::Warp => warp::read(text),
        ProgramOutputFormat::Io500 => io500::read(text),
    };
    let readings = readings.map_err(wrong)?;
    if readings
        .iter()
        .any(|reading| reading.phases.len() > PHASES_MAX)
    {
        return Err(wrong(format!("it has more than {PHASES_MAX} results")));
    }
    let absurd = |phase: &&PhaseResult| phase.value > RATE_MAX || phase.wall > WALL_MAX;
    if let Some(phase) = readings.iter().flat_map(|r| &r.phases).find(absurd) {
        return Err(wrong(format!(
            "'{}' has a rate above 1e15 per second or a time above 1e9 seconds; the output is damaged",
            phase.name
        )));
    }
    if readings.is_empty() || readings.iter().any(|reading| reading.phases.is_empty()) {
        return Err(wrong("there is no result in it".into()));
    }
    Ok(readings)
}

/// A result of which only the rate, and perhaps the amount, is known.
#[derive(Debug, Clone)]
struct RateOnlyResult {
    name: String,
    metric: ComparisonMetric,
    /// Per second.
    per_s: f64,
    /// Total amount, in units of the rate; 0 when it is unknown.
    amount: f64,
    /// Direction of the bytes.
    kind: OpKind,
}

impl RateOnlyResult {
    fn result(self) -> PhaseResult {
        let wall = Nanos::from_secs_f64(ratio(self.amount, self.per_s));
        let mut stats = OpStats::default();
        if self.metric == ComparisonMetric::BytesPerSecond && self.amount > 0.0 {
            let bytes = round_u64(self.amount);
            stats.0.insert(
                self.kind,
                KindStats {
                    bytes,
                    ..KindStats::default()
                },
            );
        }
        PhaseResult {
            name: self.name,
            metric: self.metric,
            value: self.per_s,
            wall,
            stats,
            user_cpu_ns: 0,
            system_cpu_ns: 0,
            workers: Vec::new(),
        }
    }
}

/// A finite number that is not negative.
fn number(text: &str) -> Option<f64> {
    text.parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && *value >= 0.0 && *value < 1e18)
}

/// The number before `unit`, written together with it or as the word before.
fn before(words: &[&str], unit: &str) -> Option<f64> {
    words.iter().enumerate().find_map(|(at, word)| {
        let joined = word.strip_suffix(unit)?;
        if joined.is_empty() {
            number(words.get(at.checked_sub(1)?)?)
        } else {
            number(joined)
        }
    })
}

#[cfg(test)]
mod tests;
