// SPDX-License-Identifier: Apache-2.0
//! A virtual machine whose disks lie on the target, booted again and again: what its users wait for when
//! the storage behind a hypervisor is slow.
//!
//! This program starts the machine and says when it was ready, because only that time is meant: neither
//! preparing nor ending it.

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::{OpStats, PhaseResult};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::commands::{CommandOutputFormat, CommandWorkload, WorkloadCommand};

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::setting;

/// Room of both disks.
const DATA_BYTES: u64 = 640 << 20;

/// Longest time that is believed: a day.
const SECONDS_MAX: f64 = 86_400.0;

/// The phase that is none: a figure of the others.
const MEDIAN: &str = "boot, median";

/// How a remark begins.
const NOTE: &str = "note ";

const BOOTS: SettingDefinition = setting(
    "boots",
    SettingUnit::Count,
    "5",
    "how often it is booted, 1 to 1000",
);

pub(crate) const KNOWN: &[WorkloadDefinition] = &[WorkloadDefinition {
    name: "boot",
    about: "a virtual machine with its disks on the target, booted until it is ready",
    settings: &[BOOTS],
    build,
}];

fn build(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let boots = settings.count_within("boots", 1, 1000)?.to_string();
    let step = |name: &str, words: &[&str], output| WorkloadCommand {
        name: name.into(),
        argv: words.iter().map(|&word| word.to_owned()).collect(),
        output,
        moves: None,
    };
    let itself = ["{plimsoll}", "__boot"];
    let prepare = [&itself[..], &["prepare", "{dir}"]].concat();
    let run = [&itself[..], &["run", "{dir}", "{tmp}", &boots]].concat();
    Ok(Workload::Commands(CommandWorkload {
        name: "boot".into(),
        prepare: vec![step("make its disks", &prepare, CommandOutputFormat::Time)],
        phases: vec![step("boot", &run, CommandOutputFormat::Boots)],
        finish: Vec::new(),
        data_bytes: DATA_BYTES,
    }))
}

/// One boot as [`read`] reads it, in seconds.
pub fn line(seconds: f64) -> String {
    format!("{seconds:.4}")
}

/// A remark as [`read`] reads it.
pub fn note(text: &str) -> String {
    format!("{NOTE}{text}")
}

/// Phases and remarks out of what the program said: the first boot, in which the machine makes its file
/// system, each boot after it, and the median of those.
///
/// # Errors
/// When a line is no time, or there is none.
pub fn read(text: &str) -> Result<(Vec<PhaseResult>, Vec<String>), ClassicsError> {
    let wrong = |reason: String| ClassicsError::Output {
        program: "boot".into(),
        reason,
    };
    let (mut times, mut notes) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(note) = line.strip_prefix(NOTE) {
            notes.push(note.to_owned());
            continue;
        }
        let time: Option<f64> = line.parse().ok();
        let time = time.filter(|time| *time > 0.0 && *time < SECONDS_MAX);
        times.push(time.ok_or_else(|| wrong(format!("'{line}' is not a time")))?);
    }
    let Some((first, more)) = times.split_first() else {
        return Err(wrong("it says no time".into()));
    };
    let mut phases = vec![phase("first boot".into(), *first)];
    phases.extend(
        (2..)
            .zip(more)
            .map(|(n, time)| phase(format!("boot {n}"), *time)),
    );
    if more.len() > 1 {
        phases.push(phase(MEDIAN.into(), median(more)));
    }
    Ok((phases, notes))
}

/// Time of all boots together.
pub fn length(phases: &[PhaseResult]) -> Nanos {
    let boots = phases.iter().filter(|phase| phase.name != MEDIAN);
    boots.fold(Nanos(0), |sum, phase| sum + phase.wall)
}

fn phase(name: String, seconds: f64) -> PhaseResult {
    let wall = Nanos::from_secs_f64(seconds);
    PhaseResult {
        name,
        metric: ComparisonMetric::WallTime,
        value: wall.0 as f64,
        wall,
        stats: OpStats::default(),
        user_cpu_ns: 0,
        system_cpu_ns: 0,
        workers: Vec::new(),
    }
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => f64::midpoint(sorted[half - 1], sorted[half]),
        _ => sorted[half],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_is_its_phases() {
        let seconds = [5.0, 3.0, 4.5, 3.5];
        let lines = seconds.map(line);
        let text = format!("{}\n{}\n", note("by emulation"), lines.join("\n"));
        let (phases, notes) = read(&text).unwrap();
        assert_eq!(notes, ["by emulation"]);
        let told: Vec<(&str, f64)> = phases
            .iter()
            .map(|phase| (&*phase.name, phase.value / 1e9))
            .collect();
        let expect = [
            ("first boot", 5.0),
            ("boot 2", 3.0),
            ("boot 3", 4.5),
            ("boot 4", 3.5),
            ("boot, median", 3.5),
        ];
        assert_eq!(told, expect);
        assert_eq!(length(&phases), Nanos::from_secs_f64(16.0));
        assert_eq!(read(&line(2.0)).unwrap().0.len(), 1);
        assert!((median(&[4.0, 2.0]) - 3.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_time_is_an_error() {
        for text in [
            "", "note x\n", "fast\n", "-1\n", "NaN\n", "1e9\n", "1.0\n\n",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn how_often_is_a_number_within_reason() {
        for (boots, is_fine) in [("1", true), ("1000", true), ("0", false), ("x", false)] {
            let given = [("boots".to_owned(), boots.to_owned())];
            assert_eq!(crate::workload("boot", &given).is_ok(), is_fine, "{boots}");
        }
    }
}
