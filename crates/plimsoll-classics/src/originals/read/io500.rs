// SPDX-License-Identifier: Apache-2.0
//! The results of IO500: `result_summary.txt`, which is also what it prints, with a line `[RESULT]
//! ior-easy-write 1.5 GiB/s : time 301.2 seconds` for each phase, or `result.txt` with a section for each.
//! Source: IO500's own program (`src/main.c`) and published results.

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::{ProgramOutputResult, RateOnlyResult, number};

const GIB: f64 = 1_073_741_824.0;

/// Whether a line is one of either file.
pub(super) fn is_result(line: &str) -> bool {
    line.starts_with("[RESULT]") || line.trim() == "[ior-easy-write]"
}

pub(super) fn read(text: &str) -> Result<Vec<ProgramOutputResult>, String> {
    let is_summary = text.lines().any(|line| line.starts_with("[RESULT]"));
    let mut readings: Vec<ProgramOutputResult> = Vec::new();
    let mut current = ProgramOutputResult::default();
    let mut section = Io500Section::default();
    for (line, text) in (1usize..).zip(text.lines()) {
        let text = text.trim();
        let phase = if is_summary {
            summary(text, &mut current)
        } else {
            section.take(text, &mut current)
        };
        let Some(mut phase) = phase.map_err(|reason| format!("line {line}: {reason}"))? else {
            continue;
        };
        if phase.is_invalid {
            current
                .notes
                .push(format!("IO500 calls {} invalid", phase.rate.name));
        }
        // Zero is a phase that did not run.
        if phase.rate.per_s == 0.0 {
            current
                .notes
                .push(format!("{} was not run", phase.rate.name));
            continue;
        }
        // The same phase again: the next run.
        if current
            .phases
            .iter()
            .any(|known| known.name == phase.rate.name)
        {
            readings.push(std::mem::take(&mut current));
        }
        phase.rate.amount = phase.rate.per_s * phase.seconds;
        let mut result = phase.rate.result();
        result.wall = Nanos::from_secs_f64(phase.seconds);
        current.phases.push(result);
    }
    if !current.phases.is_empty() {
        readings.push(current);
    }
    Ok(readings)
}

/// A phase as IO500 reports it.
struct Io500Phase {
    rate: RateOnlyResult,
    seconds: f64,
    is_invalid: bool,
}

impl Io500Phase {
    fn of(name: &str, value: f64, unit: &str, seconds: f64) -> Option<Io500Phase> {
        let (metric, factor) = match unit.to_ascii_lowercase().as_str() {
            "gib/s" => (ComparisonMetric::BytesPerSecond, GIB),
            // Before 2020 they were called so, and were the same.
            "gb/s" => (ComparisonMetric::BytesPerSecond, GIB),
            "kiops" => (ComparisonMetric::OpsPerSecond, 1_000.0),
            _ => return None,
        };
        let rate = RateOnlyResult {
            name: name.into(),
            metric,
            per_s: value * factor,
            amount: 0.0,
            kind: if name.contains("read") {
                OpKind::Read
            } else {
                OpKind::Write
            },
        };
        Some(Io500Phase {
            rate,
            seconds: seconds.max(0.0),
            is_invalid: false,
        })
    }
}

/// A line of the summary.
fn summary(line: &str, current: &mut ProgramOutputResult) -> Result<Option<Io500Phase>, String> {
    if let Some(version) = line.strip_prefix("IO500 version ") {
        current.notes.push(format!("IO500 version {version}"));
    }
    if let Some(score) = line.strip_prefix("[SCORE") {
        let score = score.trim_start_matches([' ', 'X', ']']);
        let which = if line.starts_with("[SCOREX") {
            "extended score"
        } else {
            "score"
        };
        current.notes.push(format!("{which}: {score}"));
    }
    let Some(rest) = line.strip_prefix("[RESULT]") else {
        return Ok(None);
    };
    let wrong = || format!("'{line}' has no name, rate with GiB/s or kIOPS, and time");
    let words: Vec<&str> = rest.split_whitespace().collect();
    let colon = words
        .iter()
        .position(|word| *word == ":")
        .ok_or_else(wrong)?;
    // Older ones have `BW phase 1` in front of the name.
    let [.., name, value, unit] = &words[..colon] else {
        return Err(wrong());
    };
    let after: Vec<&str> = words[colon..].to_vec();
    let [_, "time", seconds, ..] = after[..] else {
        return Err(wrong());
    };
    let (value, seconds) = (number(value), number(seconds));
    let (value, seconds) = value.zip(seconds).ok_or_else(wrong)?;
    let mut phase = Io500Phase::of(name, value, unit, seconds).ok_or_else(wrong)?;
    phase.is_invalid = rest.contains("[INVALID]");
    Ok(Some(phase))
}

/// A section of `result.txt`, until its end was read.
#[derive(Default)]
struct Io500Section {
    name: String,
    score: Option<f64>,
    is_invalid: bool,
}

impl Io500Section {
    fn take(
        &mut self,
        line: &str,
        current: &mut ProgramOutputResult,
    ) -> Result<Option<Io500Phase>, String> {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            *self = Io500Section {
                name: name.into(),
                ..Io500Section::default()
            };
            return Ok(None);
        }
        let Some((key, value)) = line.split_once('=') else {
            return Ok(None);
        };
        let (key, value) = (key.trim(), value.trim());
        match (self.name.as_str(), key) {
            ("", "version") => current.notes.push(format!("IO500 version {value}")),
            ("SCORE" | "SCOREX", "SCORE" | "MD" | "BW") => {
                current
                    .notes
                    .push(format!("{}: {key} {value}", self.name.to_lowercase()));
            }
            (_, "score") => {
                let score = value.split_whitespace().next().and_then(number);
                let score = score.ok_or_else(|| {
                    format!("invalid value '{value}' for score: expected a number")
                })?;
                self.score = Some(score);
                self.is_invalid = value.contains("[INVALID]");
            }
            (name, "t_delta") => {
                let Some(score) = self.score.take() else {
                    return Ok(None);
                };
                let unit = if name.starts_with("ior") {
                    "gib/s"
                } else {
                    "kiops"
                };
                let seconds = number(value).ok_or_else(|| {
                    format!("invalid value '{value}' for t_delta: expected seconds")
                })?;
                let phase = Io500Phase::of(name, score, unit, seconds);
                return Ok(phase.map(|phase| Io500Phase {
                    is_invalid: self.is_invalid,
                    ..phase
                }));
            }
            _ => {}
        }
        Ok(None)
    }
}
