// SPDX-License-Identifier: Apache-2.0
//! Names of the counters of disks in monitoring systems, and the labels that name disk and machine.
//!
//! Sources: `collector/diskstats_linux.go` of node_exporter, the metrics that windows_exporter's pull request
//! 1498 prints, `metrics/testdata/prometheus_metrics` of cAdvisor, the example of Telegraf's
//! `plugins/inputs/diskio/README.md`.

use std::collections::BTreeMap;

use super::CounterScan;
use super::gathered::{GatheredFigure, GatheredPlace, GatheredSamples};
use crate::series::DiskMetric::{
    self, Active, DiscardBytes, Discards, Flushes, Idle, InFlight, QueueLength, QueueTime,
    ReadBytes, ReadMerges, ReadTime, Reads, WriteBytes, WriteMerges, WriteTime, Writes,
};

/// Names and values of a series.
pub(super) type SeriesLabels = BTreeMap<String, String>;

/// The metrics of one source, whose names begin alike.
struct MetricFamily {
    prefix: &'static str,
    /// Labels of the disk, and of the machine: the first that is there counts.
    disk: &'static [&'static str],
    machine: &'static [&'static str],
    /// Labels without which, all of them, a series is a sum of others.
    part: &'static [&'static str],
    /// Units of the source in one of the kernel's, which wrap, for counters of seconds.
    per_kernel_unit: f64,
    /// The rest of a name, the figure, and base units of one.
    figures: &'static [(&'static str, DiskMetric, f64)],
}

/// Those of exporters for Prometheus.
const COUNTED: MetricFamily = MetricFamily {
    prefix: "",
    disk: &["device"],
    machine: &["instance"],
    part: &[],
    per_kernel_unit: 1.0,
    figures: &[],
};

const MILLI: f64 = 0.001;

const FAMILIES: [MetricFamily; 4] = [
    MetricFamily {
        prefix: "node_disk_",
        per_kernel_unit: MILLI,
        figures: &[
            ("reads_completed_total", Reads, 1.0),
            ("reads_merged_total", ReadMerges, 1.0),
            ("read_bytes_total", ReadBytes, 1.0),
            ("read_time_seconds_total", ReadTime, 1.0),
            ("writes_completed_total", Writes, 1.0),
            ("writes_merged_total", WriteMerges, 1.0),
            ("written_bytes_total", WriteBytes, 1.0),
            ("write_time_seconds_total", WriteTime, 1.0),
            ("io_now", InFlight, 1.0),
            ("io_time_seconds_total", Active, 1.0),
            ("io_time_weighted_seconds_total", QueueTime, 1.0),
            ("discards_completed_total", Discards, 1.0),
            ("discarded_sectors_total", DiscardBytes, 512.0),
            ("flush_requests_total", Flushes, 1.0),
        ],
        ..COUNTED
    },
    MetricFamily {
        prefix: "windows_logical_disk_",
        disk: &["volume"],
        figures: &[
            ("reads_total", Reads, 1.0),
            ("writes_total", Writes, 1.0),
            ("read_bytes_total", ReadBytes, 1.0),
            ("write_bytes_total", WriteBytes, 1.0),
            ("read_seconds_total", ReadTime, 1.0),
            ("write_seconds_total", WriteTime, 1.0),
            ("idle_seconds_total", Idle, 1.0),
            ("requests_queued", QueueLength, 1.0),
        ],
        ..COUNTED
    },
    MetricFamily {
        prefix: "container_fs_",
        part: &["container", "name"],
        figures: &[
            ("reads_total", Reads, 1.0),
            ("reads_merged_total", ReadMerges, 1.0),
            ("reads_bytes_total", ReadBytes, 1.0),
            ("read_seconds_total", ReadTime, 1.0),
            ("writes_total", Writes, 1.0),
            ("writes_merged_total", WriteMerges, 1.0),
            ("writes_bytes_total", WriteBytes, 1.0),
            ("write_seconds_total", WriteTime, 1.0),
            ("io_current", InFlight, 1.0),
            ("io_time_seconds_total", Active, 1.0),
            ("io_time_weighted_seconds_total", QueueTime, 1.0),
        ],
        ..COUNTED
    },
    MetricFamily {
        prefix: "diskio_",
        disk: &["name"],
        machine: &["host", "instance"],
        figures: &[
            ("reads", Reads, 1.0),
            ("merged_reads", ReadMerges, 1.0),
            ("read_bytes", ReadBytes, 1.0),
            ("read_time", ReadTime, MILLI),
            ("writes", Writes, 1.0),
            ("merged_writes", WriteMerges, 1.0),
            ("write_bytes", WriteBytes, 1.0),
            ("write_time", WriteTime, MILLI),
            ("iops_in_progress", InFlight, 1.0),
            ("io_time", Active, MILLI),
            ("weighted_io_time", QueueTime, MILLI),
        ],
        ..COUNTED
    },
];

/// Most names that an error lists when none is known.
const TOLD_MAX: usize = 4;

/// The names of all metrics that are understood.
pub fn names() -> impl Iterator<Item = String> {
    FAMILIES.iter().flat_map(|family| {
        let figures = family.figures.iter();
        figures.map(|(rest, ..)| format!("{}{rest}", family.prefix))
    })
}

/// Whether a name is that of a metric of disks.
pub(super) fn is_known(name: &str) -> bool {
    FAMILIES.iter().any(|family| family.figure(name).is_some())
}

impl MetricFamily {
    fn figure(&self, name: &str) -> Option<(DiskMetric, f64)> {
        let rest = name.strip_prefix(self.prefix)?;
        let found = self.figures.iter().find(|(known, ..)| *known == rest);
        found.map(|(_, metric, unit)| (*metric, *unit))
    }

    /// The disk that labels name; `None` for a sum over disks.
    fn disk(&self, labels: &SeriesLabels) -> Option<String> {
        let disk = first(self.disk, labels).filter(|disk| *disk != "_Total")?;
        if self.part.is_empty() {
            return Some(disk.into());
        }
        // Kubernetes names the sandbox of a pod so.
        let part = first(self.part, labels).filter(|part| *part != "POD")?;
        let pod = first(&["pod"], labels).map(|pod| format!("{pod}/"));
        let disk = disk.trim_start_matches("/dev/");
        Some(format!("{}{part}/{disk}", pod.unwrap_or_default()))
    }
}

/// The first of these labels that says something.
fn first<'a>(wanted: &[&str], labels: &'a SeriesLabels) -> Option<&'a str> {
    let mut found = wanted.iter().filter_map(|label| labels.get(*label));
    found.find(|value| !value.is_empty()).map(String::as_str)
}

/// A series that is understood.
#[derive(Debug, Clone, Copy)]
pub(super) struct MonitoredSeries {
    place: GatheredPlace,
    /// Factor that a value is multiplied by.
    scale: f64,
    /// Its values are whole numbers that never fall below 0.
    is_count: bool,
}

/// All that was found of disks in what a system of monitoring wrote.
#[derive(Debug, Default)]
pub(super) struct MonitoredSamples {
    gathered: GatheredSamples,
    other_names: Vec<String>,
    unnamed: u64,
    sums: u64,
    stale: u64,
    has_disks: bool,
}

impl MonitoredSamples {
    /// Series of a name and labels; `None` for anything but a figure of one disk.
    pub(super) fn series(&mut self, name: &str, labels: &SeriesLabels) -> Option<MonitoredSeries> {
        let mut families = FAMILIES.iter();
        let Some((family, (metric, unit))) =
            families.find_map(|family| Some((family, family.figure(name)?)))
        else {
            self.unnamed += u64::from(name.is_empty());
            if !name.is_empty() && self.other_names.len() < TOLD_MAX {
                self.other_names.push(name.into());
            }
            return None;
        };
        let Some(disk) = family.disk(labels) else {
            self.sums += 1;
            return None;
        };
        let kernel = if metric.is_seconds() {
            family.per_kernel_unit
        } else {
            1.0
        };
        let figure = GatheredFigure {
            metric,
            unit: unit * kernel,
        };
        let machine = first(family.machine, labels).unwrap_or("");
        let source: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}={value:?}"))
            .collect();
        let source = format!("{{{}}}", source.join(", "));
        let place = self.gathered.place(machine, &disk, figure, &source)?;
        self.has_disks = true;
        Some(MonitoredSeries {
            place,
            scale: 1.0 / kernel,
            is_count: metric.is_counter() && !metric.is_seconds(),
        })
    }

    /// Takes a sample of it.
    ///
    /// # Errors
    /// A sentence, when its series cannot be what it is called, or there are too many samples.
    pub(super) fn sample(
        &mut self,
        series: MonitoredSeries,
        at_unix_ns: u64,
        value: f64,
    ) -> Result<(), String> {
        // The mark of a series that ended, or that has no value at this instant.
        if value.is_nan() {
            self.stale += 1;
            return Ok(());
        }
        if value < 0.0 || value.is_infinite() || (series.is_count && value.fract() != 0.0) {
            return Err(format!(
                "{value} is no count of a disk; ask for the counter itself, without rate(), irate() or increase()"
            ));
        }
        // The whole number that the kernel counted.
        let value = if series.scale > 1.0 {
            (value * series.scale).round()
        } else {
            value
        };
        self.gathered.push(series.place, at_unix_ns, value)
    }

    /// Gives away what was found, and says what was not.
    pub(super) fn finish(self, scan: &mut CounterScan<'_>) {
        if self.stale > 0 {
            scan.warn_once(&format!(
                "{} samples are no numbers: there its target was away",
                self.stale
            ));
        }
        if self.sums > 0 {
            scan.warn_once(&format!(
                "{} times a series was left out that is a sum over disks or containers",
                self.sums
            ));
        }
        if self.unnamed > 0 {
            scan.warn_once(UNNAMED);
        } else if !self.has_disks && !self.other_names.is_empty() {
            let names = plimsoll_core::text::printable(&self.other_names.join(", "));
            scan.warn_once(&format!(
                "it has no counters of disks but {names}; those of node_exporter, windows_exporter, cAdvisor \
                 and Telegraf are known by their names, such as node_disk_reads_completed_total"
            ));
        }
        self.gathered.give(scan);
    }
}

const UNNAMED: &str = "it has series without a name, as rate() and sum() make them; ask for the counters \
                       themselves, such as node_disk_reads_completed_total{instance=\"db1:9100\"}, without a \
                       function around them";

/// A time in seconds or smaller units since 1970, whichever makes it a time of this age.
pub(super) fn instant_ns(value: f64, per_s: f64) -> Option<u64> {
    // To the millisecond, which is all that these systems have, where a fraction would lose digits.
    let ms = value / per_s * 1e3;
    let is_possible = ms > 0.0 && ms < 1e13;
    is_possible.then(|| plimsoll_core::num::round_u64(ms) * 1_000_000)
}
