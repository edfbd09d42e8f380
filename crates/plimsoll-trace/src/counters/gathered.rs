// SPDX-License-Identifier: Apache-2.0
//! Samples that come series by series, collected until each disk's rows can be given in order of time.
//!
//! Databases of monitoring print one metric of one disk after the other, while a row of counters has all of
//! one instant. Memory is bounded by the number of samples.

use std::collections::BTreeMap;

use plimsoll_core::profile::{DeviceClassification, DeviceKind};

use super::{CounterRow, CounterScan, CounterSemantics};
use crate::series::DiskMetric;
use crate::targets::TARGETS_MAX;

/// Most samples of one recording: 256 MiB of them.
const SAMPLES_MAX: usize = 16 << 20;

/// Metric and unit of the values of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct GatheredFigure {
    pub(super) metric: DiskMetric,
    /// Base units of one.
    pub(super) unit: f64,
}

/// Where the samples of a series go.
#[derive(Debug, Clone, Copy)]
pub(super) struct GatheredPlace {
    disk: usize,
    column: usize,
}

/// The samples of all series.
#[derive(Debug, Default)]
pub(super) struct GatheredSamples {
    disks: Vec<GatheredDisk>,
    /// By machine and disk.
    places: BTreeMap<(String, String), usize>,
    samples: usize,
    /// Samples that differ from another one of the same instant.
    contradictions: u64,
    /// The first series that was left out, because another series has the same figure of its disk.
    rival: Option<String>,
    rivals: u64,
}

#[derive(Debug)]
struct GatheredDisk {
    machine: String,
    name: String,
    columns: Vec<GatheredColumn>,
}

#[derive(Debug)]
struct GatheredColumn {
    figure: GatheredFigure,
    /// All that names its series.
    source: String,
    samples: Vec<(u64, f64)>,
}

impl GatheredSamples {
    /// Where the samples of a series of this disk go; `None` when another series has the figure, or there
    /// are too many disks.
    pub(super) fn place(
        &mut self,
        machine: &str,
        name: &str,
        figure: GatheredFigure,
        source: &str,
    ) -> Option<GatheredPlace> {
        let key = (machine.to_owned(), name.to_owned());
        let disk = match self.places.get(&key) {
            Some(disk) => *disk,
            None if self.disks.len() >= TARGETS_MAX => return None,
            None => {
                self.disks.push(GatheredDisk {
                    machine: machine.into(),
                    name: name.into(),
                    columns: Vec::new(),
                });
                self.places.insert(key, self.disks.len() - 1);
                self.disks.len() - 1
            }
        };
        let columns = &mut self.disks[disk].columns;
        let known = columns
            .iter()
            .position(|column| column.figure.metric == figure.metric);
        let column = known.unwrap_or_else(|| {
            columns.push(GatheredColumn {
                figure,
                source: source.into(),
                samples: Vec::new(),
            });
            columns.len() - 1
        });
        if columns[column].source != source {
            self.rivals += 1;
            self.rival.get_or_insert_with(|| source.into());
            return None;
        }
        Some(GatheredPlace { disk, column })
    }

    /// Takes a sample.
    ///
    /// # Errors
    /// A sentence, when there are too many.
    pub(super) fn push(
        &mut self,
        place: GatheredPlace,
        at_unix_ns: u64,
        value: f64,
    ) -> Result<(), String> {
        if self.samples >= SAMPLES_MAX {
            return Err(format!(
                "more than {SAMPLES_MAX} samples of disks; take a shorter time, or fewer disks or machines"
            ));
        }
        self.samples += 1;
        let column = &mut self.disks[place.disk].columns[place.column];
        column.samples.push((at_unix_ns, value));
        Ok(())
    }

    /// Gives all rows away, disk by disk. Of several machines, their names stand before those of their
    /// disks.
    pub(super) fn give(mut self, scan: &mut CounterScan<'_>) {
        let mut machines: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for disk in &self.disks {
            let names = machines.entry(&disk.machine).or_default();
            names.push(disk.name.clone());
        }
        let are_several = machines.len() > 1;
        if let Some((only, _)) = machines.first_key_value().filter(|_| !are_several) {
            scan.told.host = (*only).into();
        }
        // Beside those of other machines, names alone do not say what lies on what.
        for (machine, names) in machines.iter().filter(|_| are_several) {
            let kinds = DeviceClassification::of(names, &|_| None);
            for (name, kind) in names.iter().zip(kinds) {
                if kind.layer != DeviceKind::Disk {
                    scan.told.layers.insert(full(machine, name), kind.layer);
                }
            }
        }
        for disk in std::mem::take(&mut self.disks) {
            let name = if are_several {
                full(&disk.machine, &disk.name)
            } else {
                disk.name.clone()
            };
            self.contradictions += disk.give(name.as_bytes(), scan);
        }
        if self.contradictions > 0 {
            scan.warn_once(&format!(
                "{} samples differ from another one of the same disk and time and were left out",
                self.contradictions
            ));
        }
        if let Some(rival) = self.rival {
            scan.warn_once(&format!(
                "{} times samples were left out, since another series has the same figure of the same \
                 disk; the first such: {}",
                self.rivals,
                plimsoll_core::text::printable(&rival)
            ));
        }
    }
}

/// The name of a disk beside those of other machines.
fn full(machine: &str, name: &str) -> String {
    if machine.is_empty() {
        return name.into();
    }
    format!("{machine}/{name}")
}

impl GatheredDisk {
    /// Returns how many samples contradict others.
    fn give(self, name: &[u8], scan: &mut CounterScan<'_>) -> u64 {
        let figures: Vec<GatheredFigure> = self.columns.iter().map(|c| c.figure).collect();
        let mut samples: Vec<(u64, usize, f64)> = Vec::new();
        for (place, column) in self.columns.into_iter().enumerate() {
            samples.extend(
                column
                    .samples
                    .iter()
                    .map(|(at, value)| (*at, place, *value)),
            );
        }
        // Of equal ones, the first that came stays first.
        samples.sort_by_key(|(at, place, _)| (*at, *place));
        let mut contradictions = 0;
        samples.dedup_by(|next, kept| {
            let is_again = (next.0, next.1) == (kept.0, kept.1);
            contradictions += u64::from(is_again && next.2.to_bits() != kept.2.to_bits());
            is_again
        });
        for row in samples.chunk_by(|one, next| one.0 == next.0) {
            let values: Vec<_> = row
                .iter()
                .map(|(_, place, value)| (figures[*place].metric, *value, figures[*place].unit))
                .collect();
            scan.row(CounterRow {
                disk: name,
                at_unix_ns: row[0].0,
                what: CounterSemantics::Totals,
                values: &values,
            });
        }
        contradictions
    }
}

#[cfg(test)]
mod tests {
    use super::super::CounterScanEvent;
    use super::*;

    const READS: GatheredFigure = GatheredFigure {
        metric: DiskMetric::Reads,
        unit: 1.0,
    };

    /// The rows that come of samples: disk, time, what of it.
    fn rows(samples: &[(&str, GatheredFigure, &str, u64, f64)]) -> (Vec<String>, Vec<String>) {
        let mut gathered = GatheredSamples::default();
        for (machine, figure, source, at, value) in samples {
            if let Some(place) = gathered.place(machine, "sda", *figure, source) {
                gathered.push(place, *at, *value).unwrap();
            }
        }
        let mut rows = Vec::new();
        let mut give = |event: CounterScanEvent<'_>| {
            if let CounterScanEvent::Row(row) = event {
                let disk = String::from_utf8_lossy(row.disk);
                let values: Vec<f64> = row.values.iter().map(|(_, value, _)| *value).collect();
                rows.push(format!(
                    "{disk} {} {:?} {values:?}",
                    row.at_unix_ns, row.what
                ));
            }
        };
        let mut scan = CounterScan::new(None, &mut give);
        gathered.give(&mut scan);
        let warnings = scan.told.warnings;
        (rows, warnings)
    }

    #[test]
    fn series_become_rows_in_order_of_time() {
        let writes = GatheredFigure {
            metric: DiskMetric::Writes,
            ..READS
        };
        let (found, warnings) = rows(&[
            ("db1", READS, "a", 20, 2.0),
            ("db1", READS, "a", 10, 1.0),
            ("db1", READS, "a", 20, 2.0),
            ("db1", READS, "a", 20, 9.0),
            ("db1", READS, "b", 20, 9.0),
            ("db1", writes, "a", 10, 5.0),
        ]);
        assert_eq!(found, ["sda 10 Totals [1.0, 5.0]", "sda 20 Totals [2.0]"]);
        assert!(warnings[0].starts_with("1 samples differ"), "{warnings:?}");
        assert!(warnings[1].contains("the first such: b"), "{warnings:?}");
    }

    #[test]
    fn machines_are_told_apart() {
        let (found, _) = rows(&[("db1", READS, "a", 10, 1.0), ("db2", READS, "a", 10, 7.0)]);
        assert_eq!(
            found,
            ["db1/sda 10 Totals [1.0]", "db2/sda 10 Totals [7.0]"]
        );
    }
}
