// SPDX-License-Identifier: Apache-2.0
//! Mapping files: what the columns of a table of counters are, as their user writes them.

use serde::{Deserialize, Serialize};

/// A mapping file. It is given to commands instead of the recording that it names.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MappingFile {
    /// The table: CSV, JSON or Parquet; from the folder of this file. The first key of the file.
    pub recording: String,
    /// Separator of the columns of a CSV (default: the one that its first line shows).
    pub separator: Option<MappingSeparator>,
    /// Decimal separator of the numbers of a CSV (default: a point).
    pub decimal: Option<MappingDecimal>,
    /// When a row was made.
    pub time: MappingTime,
    /// Which disk a row is of (default: all rows are of one disk, which has the name of the file).
    #[serde(default)]
    pub device: MappingDevice,
    /// Columns that name a metric and hold its value, where each row is of one metric.
    pub long: Option<MappingLong>,
    /// The columns of metrics; of a table with one metric in a row, the names of the metrics.
    #[serde(default)]
    pub column: Vec<MappingColumn>,
}

/// Separator of the columns of a CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum MappingSeparator {
    /// A comma.
    #[serde(rename = ",")]
    Comma,
    /// A semicolon.
    #[serde(rename = ";")]
    Semicolon,
    /// A tab.
    #[serde(rename = "tab")]
    Tab,
}

/// Decimal separator of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum MappingDecimal {
    /// A point: 12.5.
    #[serde(rename = ".")]
    Point,
    /// A comma: 12,5.
    #[serde(rename = ",")]
    Comma,
}

/// The time of a row.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MappingTime {
    /// Its column.
    pub column: String,
    /// Column with the end of the interval, where `column` has its beginning.
    pub until: Option<String>,
    /// Unit of numbers since 1970, or since any instant (default: dates, and numbers since 1970 by their
    /// digits).
    pub unit: Option<MappingTimeUnit>,
    /// Zone of dates that name none: `UTC`, `+01:00`, `Europe/Berlin` (default: UTC).
    pub zone: Option<String>,
    /// Which end of the row's interval it is (default: its end).
    #[serde(default)]
    pub marks: MappingTimeMark,
    /// Seconds that a row stands for (default: since the row before; where times mark beginnings, the
    /// shortest step).
    pub interval_s: Option<f64>,
}

/// Unit of times that are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MappingTimeUnit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

impl MappingTimeUnit {
    /// Nanoseconds of one.
    #[must_use]
    pub fn nanoseconds(self) -> u64 {
        match self {
            MappingTimeUnit::S => 1_000_000_000,
            MappingTimeUnit::Ms => 1_000_000,
            MappingTimeUnit::Us => 1_000,
            MappingTimeUnit::Ns => 1,
        }
    }
}

/// Which end of an interval a time marks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MappingTimeMark {
    /// Figures are of the time before it.
    #[default]
    End,
    /// Figures are of the time behind it, as clouds print them.
    Begin,
}

/// The disk of a row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MappingDevice {
    /// Column with its name.
    pub column: Option<String>,
    /// Its name, where no column has it.
    pub name: Option<String>,
}

/// Where a row says its only metric.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MappingLong {
    /// Column with the name of the metric.
    pub metric: String,
    /// Column with its value.
    pub value: String,
}

/// Description of a column.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MappingColumn {
    /// Its name, as the file has it.
    pub name: String,
    /// The disk, where the table has a column for each (default: that of the row).
    pub device: Option<String>,
    /// The metric it counts.
    pub metric: MappingMetric,
    /// How it counts.
    pub kind: MappingKind,
    /// Unit of bytes (B, kB, KiB, MB, MiB, GB, GiB, sectors) or of times (ns, us, ms, s, and as a rate %
    /// and share); operations have none.
    #[serde(default)]
    pub unit: MappingUnit,
}

/// Metric that a column counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MappingMetric {
    /// Read operations.
    Reads,
    /// Write operations.
    Writes,
    /// Operations of all kinds.
    Ops,
    /// Bytes read.
    ReadBytes,
    /// Bytes written.
    WriteBytes,
    /// Discards.
    Discards,
    /// Bytes discarded.
    DiscardBytes,
    /// Flushes.
    Flushes,
    /// Reads that were joined to others.
    ReadMerges,
    /// Writes that were joined to others.
    WriteMerges,
    /// Time with anything in flight.
    Busy,
    /// Time with nothing in flight.
    Idle,
    /// Operations in flight: at the instant of the row (`sample`), else their mean, or their sum over time.
    Queue,
    /// Time of reads, from start to end.
    ReadTime,
    /// Time of writes.
    WriteTime,
    /// Time of all operations.
    TotalTime,
}

/// How a column counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MappingKind {
    /// Per second, over the time of the row.
    Rate,
    /// Rises from row to row.
    Counter,
    /// In the time of the row.
    Sum,
    /// Mean time of one operation.
    Mean,
    /// At the instant of the row.
    Sample,
}

/// Unit of a column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum MappingUnit {
    /// Of operations.
    #[default]
    #[serde(rename = "1")]
    One,
    /// Bytes.
    B,
    /// 1000 bytes.
    #[serde(rename = "kB")]
    Kilobyte,
    /// 1024 bytes.
    KiB,
    /// 1000 kB.
    MB,
    /// 1024 KiB.
    MiB,
    /// 1000 MB.
    GB,
    /// 1024 MiB.
    GiB,
    /// 512 bytes, whatever the disk has.
    #[serde(rename = "sectors")]
    Sectors,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Microseconds.
    #[serde(rename = "us")]
    Microseconds,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Hundredths of the time.
    #[serde(rename = "%")]
    Percent,
    /// Of the time, 0 to 1.
    #[serde(rename = "share")]
    Share,
}

/// Dimension of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MappingDimension {
    /// Operations.
    Operations,
    /// Bytes.
    Bytes,
    /// Seconds.
    Time,
}

impl MappingMetric {
    /// Dimension of the metric.
    #[must_use]
    pub fn dimension(self) -> MappingDimension {
        use MappingMetric::{
            Busy, DiscardBytes, Idle, Queue, ReadBytes, ReadTime, TotalTime, WriteBytes, WriteTime,
        };
        match self {
            ReadBytes | WriteBytes | DiscardBytes => MappingDimension::Bytes,
            Busy | Idle | Queue | ReadTime | WriteTime | TotalTime => MappingDimension::Time,
            _ => MappingDimension::Operations,
        }
    }
}

impl MappingUnit {
    /// Bytes or seconds of one, and which of these.
    pub fn scale(self) -> (MappingDimension, f64) {
        use MappingDimension::{Bytes, Operations, Time};
        match self {
            MappingUnit::One => (Operations, 1.0),
            MappingUnit::B => (Bytes, 1.0),
            MappingUnit::Kilobyte => (Bytes, 1e3),
            MappingUnit::KiB => (Bytes, 1024.0),
            MappingUnit::MB => (Bytes, 1e6),
            MappingUnit::MiB => (Bytes, 1_048_576.0),
            MappingUnit::GB => (Bytes, 1e9),
            MappingUnit::GiB => (Bytes, 1_073_741_824.0),
            MappingUnit::Sectors => (Bytes, 512.0),
            MappingUnit::Nanoseconds => (Time, 1e-9),
            MappingUnit::Microseconds => (Time, 1e-6),
            MappingUnit::Milliseconds => (Time, 1e-3),
            MappingUnit::Seconds | MappingUnit::Share => (Time, 1.0),
            MappingUnit::Percent => (Time, 0.01),
        }
    }
}
