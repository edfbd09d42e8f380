// SPDX-License-Identifier: Apache-2.0
//! Figures of a table in the terms of all recordings.

use plimsoll_core::mapping::{MappingDimension, MappingKind, MappingMetric, MappingUnit};

use super::super::meaning::{ColumnMeaning, DiskRowValues, rates};
use super::super::{CounterRow, CounterScan, CounterSemantics};
use crate::series::DiskMetric;

/// Metrics of mapping files, each with the metric of a disk that it names.
pub(super) const METRICS: [(MappingMetric, DiskMetric); 16] = [
    (MappingMetric::Reads, DiskMetric::Reads),
    (MappingMetric::Writes, DiskMetric::Writes),
    (MappingMetric::Ops, DiskMetric::Ops),
    (MappingMetric::ReadBytes, DiskMetric::ReadBytes),
    (MappingMetric::WriteBytes, DiskMetric::WriteBytes),
    (MappingMetric::Discards, DiskMetric::Discards),
    (MappingMetric::DiscardBytes, DiskMetric::DiscardBytes),
    (MappingMetric::Flushes, DiskMetric::Flushes),
    (MappingMetric::ReadMerges, DiskMetric::ReadMerges),
    (MappingMetric::WriteMerges, DiskMetric::WriteMerges),
    (MappingMetric::Busy, DiskMetric::Active),
    (MappingMetric::Idle, DiskMetric::Idle),
    (MappingMetric::Queue, DiskMetric::QueueTime),
    (MappingMetric::ReadTime, DiskMetric::ReadTime),
    (MappingMetric::WriteTime, DiskMetric::WriteTime),
    (MappingMetric::TotalTime, DiskMetric::TotalTime),
];

/// A figure that a column holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TableFigure {
    pub(super) metric: DiskMetric,
    pub(super) kind: MappingKind,
    /// Base units of one.
    pub(super) scale: f64,
}

impl TableFigure {
    /// The figure that a column holds by its declaration.
    ///
    /// # Errors
    /// When there is no such figure: why.
    pub(super) fn of(
        metric: MappingMetric,
        kind: MappingKind,
        unit: MappingUnit,
    ) -> Result<TableFigure, &'static str> {
        use MappingKind::{Counter, Mean, Rate, Sample, Sum};
        use MappingMetric::{Queue, ReadTime, TotalTime, WriteTime};
        let (dimension, scale) = unit.scale();
        let is_share = matches!(unit, MappingUnit::Percent | MappingUnit::Share);
        let known = METRICS.iter().find(|(known, _)| *known == metric);
        let (_, plain) = known.ok_or("its metric is not known")?;
        let disk_metric = match (metric, kind) {
            (Queue, Sample) => DiskMetric::InFlight,
            (_, Sample) => return Err("kind 'sample' is for the metric queue alone"),
            (ReadTime | WriteTime | TotalTime, Mean) if is_share => {
                return Err("the mean time of an operation has a unit of time");
            }
            (ReadTime | WriteTime | TotalTime, Mean) => *plain,
            (_, Mean) => {
                return Err("kind 'mean' is for read-time, write-time and total-time alone");
            }
            _ => *plain,
        };
        if metric == Queue && matches!(kind, Sample | Rate) {
            return match unit {
                MappingUnit::One => Ok(TableFigure {
                    metric: disk_metric,
                    kind,
                    scale,
                }),
                _ => Err("a number of operations in flight has no unit"),
            };
        }
        if is_share && matches!(kind, Counter | Sum) {
            return Err("a share of the time is a rate");
        }
        if dimension != metric.dimension() {
            return Err(match metric.dimension() {
                MappingDimension::Operations => "operations have no unit",
                MappingDimension::Bytes => {
                    "its unit is none of bytes (B, kB, KiB, MB, MiB, GB, GiB, sectors)"
                }
                MappingDimension::Time => "its unit is none of time (ns, us, ms, s, %, share)",
            });
        }
        Ok(TableFigure {
            metric: disk_metric,
            kind,
            scale,
        })
    }

    /// As a column of rates.
    fn as_rate(self, seconds: f64) -> ColumnMeaning {
        match (self.kind, self.metric) {
            (MappingKind::Mean, DiskMetric::ReadTime) => {
                ColumnMeaning::Each(DiskMetric::Reads, self.metric, self.scale)
            }
            (MappingKind::Mean, DiskMetric::WriteTime) => {
                ColumnMeaning::Each(DiskMetric::Writes, self.metric, self.scale)
            }
            (MappingKind::Mean, _) => ColumnMeaning::Each(DiskMetric::Ops, self.metric, self.scale),
            (MappingKind::Sample, _) => ColumnMeaning::Sample(self.metric),
            (MappingKind::Sum, _) => ColumnMeaning::Rate(self.metric, self.scale / seconds),
            _ => ColumnMeaning::Rate(self.metric, self.scale),
        }
    }
}

/// The time that a row stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowTime {
    /// Where its interval begins, if that is known.
    pub(super) from_unix_ns: Option<u64>,
    pub(super) at_unix_ns: u64,
    /// Whether the recording states the length of the interval; else the row before it is its beginning.
    pub(super) is_exact: bool,
}

/// Gives the figures of a disk away: counters as they are, others over the time of the row.
pub(super) fn give_figures(
    disk: &[u8],
    time: RowTime,
    figures: &[(TableFigure, f64)],
    scan: &mut CounterScan<'_>,
) {
    let at_unix_ns = time.at_unix_ns;
    let mut give_row = |what, values: &[(DiskMetric, f64, f64)]| {
        if !values.is_empty() {
            scan.row(CounterRow {
                disk,
                at_unix_ns,
                what,
                values,
            });
        }
    };
    let is_counter =
        |figure: &TableFigure| matches!(figure.kind, MappingKind::Counter | MappingKind::Sample);
    let totals: Vec<(DiskMetric, f64, f64)> = figures
        .iter()
        .filter(|(figure, _)| is_counter(figure))
        .map(|(figure, value)| (figure.metric, *value, figure.scale))
        .collect();
    give_row(CounterSemantics::Totals, &totals);
    let Some(from_unix_ns) = time.from_unix_ns.filter(|from| *from < at_unix_ns) else {
        return;
    };
    let seconds = (at_unix_ns - from_unix_ns) as f64 / 1e9;
    let others = figures.iter().filter(|(figure, _)| !is_counter(figure));
    let row: DiskRowValues = others
        .map(|(figure, value)| (figure.as_rate(seconds), *value))
        .collect();
    let (what, scale) = match time.is_exact {
        true => (CounterSemantics::Sums { from_unix_ns }, seconds),
        false => (CounterSemantics::Rates { from_unix_ns }, 1.0),
    };
    let values: Vec<(DiskMetric, f64, f64)> = rates(&row)
        .into_iter()
        .map(|(metric, value)| (metric, value, scale))
        .collect();
    give_row(what, &values);
}
