// SPDX-License-Identifier: Apache-2.0
//! Where a figure of ours stands among the results of the parts, and its unit.

use serde::{Deserialize, Serialize};

use crate::explanation::ExplanationCause;
use crate::units::{self, Nanos};

/// Where a figure of ours stands. Of a table, its row and its column each say a part of it; what a column
/// says is stronger than what a row says, and that than what the table says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExperimentFigure {
    /// Name of the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Label of the workload in the part's report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Name of a phase of it; one that begins with `+` goes on with what a weaker one says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The system: its label in the part's report, or the target as it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<ExperimentMetric>,
    /// Which observer of a fault, for the metrics of observers: `scp`, `stamp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observer: Option<String>,
    /// Which program between the load and the servers, for the processor time of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The figure is multiplied by this, such as the number of workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<f64>,
    /// Instead of a metric: whether this limited the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<ExplanationCause>,
    /// Instead of all that: a value in what the part's command printed with `--json`, as a JSON pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// The figure divided by this one; what it does not say is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Box<ExperimentFigure>>,
}

impl ExperimentFigure {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == ExperimentFigure::default()
    }

    /// The same where a stronger one says nothing else.
    pub fn with(&self, stronger: &ExperimentFigure) -> ExperimentFigure {
        let text = |one: &Option<String>, other: &Option<String>| other.clone().or(one.clone());
        // A pointer, a cause and a metric are three ways to say the same.
        let says_what =
            stronger.metric.is_some() || stronger.cause.is_some() || stronger.json.is_some();
        let what = if says_what { stronger } else { self };
        ExperimentFigure {
            part: text(&self.part, &stronger.part),
            workload: text(&self.workload, &stronger.workload),
            phase: match (&self.phase, stronger.phase.as_deref()) {
                (Some(begin), Some(end)) if end.starts_with('+') => {
                    Some(format!("{begin}{}", end.trim_start_matches('+')))
                }
                _ => text(&self.phase, &stronger.phase),
            },
            system: text(&self.system, &stronger.system),
            observer: text(&self.observer, &stronger.observer),
            program: text(&self.program, &stronger.program),
            times: stronger.times.or(self.times),
            metric: what.metric,
            cause: what.cause,
            json: what.json.clone(),
            over: stronger.over.clone().or_else(|| self.over.clone()),
        }
    }

    /// The divisor, in full.
    pub fn divisor(&self) -> Option<ExperimentFigure> {
        let over = self.over.as_ref()?;
        let whole = ExperimentFigure {
            over: None,
            ..self.clone()
        };
        Some(whole.with(over))
    }
}

/// Metric of a trial, or of all trials of a system under a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExperimentMetric {
    /// The metric that the workload, or the phase, is compared on.
    Own,
    /// Operations per second.
    Operations,
    /// Bytes per second.
    Throughput,
    /// Time from the start to the end.
    WallTime,
    /// Mean response time.
    MeanResponse,
    /// 99th percentile of the response times.
    P99Response,
    /// Longest response time.
    LongestResponse,
    /// Time spent preparing, such as laying out files.
    Preparation,
    /// Processor time of the load, of the time that it took.
    CpuShare,
    /// How far trials lie from each other: sample standard deviation, of the mean.
    Variation,
    /// Bytes on the network, of the bytes that the workload moved.
    NetworkBytes,
    /// Bytes that the device below served, of the bytes that the workload moved.
    DeviceBytes,
    /// Bytes that the servers read and wrote, from clients and from storage, of the bytes that the workload
    /// moved.
    ServerBytes,
    /// Operations per second of the slowest worker.
    SlowestWorker,
    /// Operations per second of the fastest worker.
    FastestWorker,
    /// Operations per second of a worker, on the mean.
    MeanWorker,
    /// Operations of the worker that did the fewest.
    FewestOperations,
    /// How even the rates of workers are: Jain's index, 1 when all are alike.
    Evenness,
    /// Longest time in which a worker had no answer at all; of the one that waited longest.
    LongestWait,
    /// Processor time per MiB of the load, and of the programs of its machine between it and the servers; of
    /// a trial, not of a phase.
    ClientCpu,
    /// Processor time per MiB of the servers; of a trial.
    ServerCpu,
    /// Longest time without an acknowledged write, after a fault.
    WriteOutage,
    /// The same of reads.
    ReadOutage,
    /// Time from a fault until the sessions work as before.
    Degraded,
    /// Sessions that outlived a fault, of all.
    Survived,
    /// Acknowledged writes, and lines and copies of observers, that were missing or wrong after a fault.
    Lost,
    /// Lines or copies of an observer that ended well.
    ObserverDone,
    /// Lines or copies of an observer that failed.
    ObserverFailed,
    /// Longest time in which nothing of an observer ended or grew.
    ObserverStill,
    /// The multiple of the workload that a system carries.
    LoadLine,
}

impl ExperimentMetric {
    /// The unit of its values; `None` of what depends on the workload.
    #[must_use]
    pub fn unit(self) -> Option<ExperimentUnit> {
        Some(match self {
            Self::Own => return None,
            Self::Operations | Self::SlowestWorker | Self::FastestWorker | Self::MeanWorker => {
                ExperimentUnit::PerSecond
            }
            Self::Throughput => ExperimentUnit::MegabytesPerSecond,
            Self::WallTime
            | Self::MeanResponse
            | Self::P99Response
            | Self::LongestResponse
            | Self::Preparation
            | Self::WriteOutage
            | Self::ReadOutage
            | Self::Degraded
            | Self::ObserverStill
            | Self::LongestWait
            | Self::ClientCpu
            | Self::ServerCpu => ExperimentUnit::Time,
            Self::CpuShare | Self::Variation | Self::Survived => ExperimentUnit::Percent,
            Self::NetworkBytes | Self::DeviceBytes | Self::ServerBytes | Self::LoadLine => {
                ExperimentUnit::Times
            }
            Self::Evenness
            | Self::FewestOperations
            | Self::Lost
            | Self::ObserverDone
            | Self::ObserverFailed => ExperimentUnit::Count,
        })
    }
}

/// A unit of figures. Ours are kept in base units: bytes and operations per second, nanoseconds, shares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum ExperimentUnit {
    /// A number of things.
    #[default]
    #[serde(rename = "count")]
    Count,
    /// A factor.
    #[serde(rename = "times")]
    Times,
    /// Hundredths.
    #[serde(rename = "%")]
    Percent,
    /// A ratio, as hundredths above 1.
    #[serde(rename = "% more")]
    PercentMore,
    /// Things per second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// 1000 bytes per second.
    #[serde(rename = "kB/s")]
    KilobytesPerSecond,
    /// 1024 bytes per second.
    #[serde(rename = "KiB/s")]
    KibibytesPerSecond,
    /// 10^6 bytes per second.
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
    /// 2^20 bytes per second.
    #[serde(rename = "MiB/s")]
    MebibytesPerSecond,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// A time, in the unit that suits it.
    #[serde(rename = "time")]
    Time,
}

impl ExperimentUnit {
    /// As people read it behind a number.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count | Self::Time => "",
            Self::Times => "×",
            Self::Percent => "%",
            Self::PercentMore => "% more",
            Self::PerSecond => "1/s",
            Self::KilobytesPerSecond => "kB/s",
            Self::KibibytesPerSecond => "KiB/s",
            Self::MegabytesPerSecond => "MB/s",
            Self::MebibytesPerSecond => "MiB/s",
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "µs",
        }
    }

    /// A value in base units in this one.
    #[must_use]
    pub fn of(self, base: f64) -> f64 {
        match self {
            Self::Count | Self::Times | Self::PerSecond | Self::Time => base,
            Self::Percent => base * 100.0,
            Self::PercentMore => (base - 1.0) * 100.0,
            Self::KilobytesPerSecond => base / 1e3,
            Self::KibibytesPerSecond => base / 1024.0,
            Self::MegabytesPerSecond => base / 1e6,
            Self::MebibytesPerSecond => base / 1_048_576.0,
            Self::Seconds => base / 1e9,
            Self::Milliseconds => base / 1e6,
            Self::Microseconds => base / 1e3,
        }
    }

    /// A value in base units as people read it, without the unit; a time has it.
    #[must_use]
    pub fn number(self, base: f64) -> String {
        match self {
            Self::Time => units::duration(Nanos(crate::num::round_u64(base))),
            Self::Count if base.fract().abs() < f64::EPSILON => format!("{base:.0}"),
            _ => digits(self.of(base)),
        }
    }

    /// A value in base units with the unit.
    #[must_use]
    pub fn show(self, base: f64) -> String {
        let number = self.number(base);
        match self {
            Self::Count | Self::Time => number,
            Self::Times => format!("{number}×"),
            _ => format!("{number} {}", self.name()),
        }
    }
}

/// Three significant digits, also of small numbers: a ratio of 0.0012 is not 0.00.
fn digits(value: f64) -> String {
    let size = value.abs();
    match size > 0.0 && size < 1.0 {
        true => {
            let behind = (-size.log10().floor()).clamp(1.0, 8.0) + 2.0;
            format!(
                "{value:.0$}",
                crate::num::to_usize(crate::num::round_u64(behind))
            )
        }
        false => units::three_digits(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_may_go_on_with_that_of_a_row_and_a_column_takes_its_factor_back() {
        let row: ExperimentFigure = toml::from_str("phase = \"crg=2 thr=4\"\ntimes = 2").unwrap();
        let column: ExperimentFigure = toml::from_str("phase = \"+ write\"\ntimes = 1").unwrap();
        let cell = row.with(&column);
        assert_eq!(cell.phase.as_deref(), Some("crg=2 thr=4 write"));
        assert_eq!(cell.times, Some(1.0));
        let other: ExperimentFigure = toml::from_str("phase = \"read\"").unwrap();
        let cell = row.with(&other);
        assert_eq!(cell.phase.as_deref(), Some("read"));
        assert_eq!(cell.times, Some(2.0));
    }

    #[test]
    fn what_is_said_last_is_stronger() {
        let table: ExperimentFigure =
            toml::from_str("part = \"p\"\nmetric = \"throughput\"\nsystem = \"a\"").unwrap();
        let cell: ExperimentFigure =
            toml::from_str("system = \"b\"\nover = { system = \"a\" }").unwrap();
        let whole = table.with(&cell);
        assert_eq!(whole.part.as_deref(), Some("p"));
        assert_eq!(whole.system.as_deref(), Some("b"));
        assert_eq!(whole.metric, Some(ExperimentMetric::Throughput));
        let below = whole.divisor().unwrap();
        assert_eq!(below.system.as_deref(), Some("a"));
        assert_eq!((below.metric, below.over), (whole.metric, None));
        let cause: ExperimentFigure = toml::from_str("cause = \"page_cache\"").unwrap();
        let whole = whole.with(&cause);
        assert_eq!((whole.metric, whole.cause), (None, cause.cause));
        assert!(toml::from_str::<ExperimentFigure>("target = \"b\"").is_err());
    }

    #[test]
    fn figures_are_shown_in_their_units() {
        let shown = [
            (
                ExperimentUnit::MebibytesPerSecond,
                1_048_576.0,
                "1.00 MiB/s",
            ),
            (ExperimentUnit::PercentMore, 9.93, "893 % more"),
            (ExperimentUnit::Seconds, 2.5e9, "2.50 s"),
            (ExperimentUnit::Time, 2.5e6, "2.50 ms"),
            (ExperimentUnit::Times, 0.5, "0.500×"),
            (ExperimentUnit::Times, 0.0012, "0.00120×"),
            (ExperimentUnit::Count, 3.0, "3"),
        ];
        for (unit, base, text) in shown {
            assert_eq!(unit.show(base), text);
        }
    }
}
