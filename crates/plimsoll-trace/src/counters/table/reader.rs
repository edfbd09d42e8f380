// SPDX-License-Identifier: Apache-2.0
//! Rows of a table as figures of disks, for files of any format.
//!
//! Where a row has the figures of a disk at an instant, rows stream. Where each has one metric, or its time
//! marks the beginning of an interval, all are held, a bounded number, and sorted first.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use plimsoll_core::mapping::MappingKind;
use plimsoll_core::text::printable;

use super::super::meaning::number;
use super::super::{CounterScan, clock};
use super::columns::TableColumns;
use super::figures::{RowTime, give_figures};
use super::names::named;
use crate::targets::DeviceNameTable;
use crate::text::nanos;

/// Values of a table that must be sorted: 200 MB of them.
const SAMPLES_MAX: usize = 1 << 23;
/// Metrics of a table that names them in its rows.
const METRICS_MAX: usize = 10_000;
/// Times before this are of no clock, but since some beginning.
const DATED_MIN_NS: u64 = 100_000_000_000_000_000;
/// Words that programs write where there is no value.
const ABSENT: [&str; 9] = [
    "",
    "nan",
    "null",
    "none",
    "na",
    "n/a",
    "-",
    "undefined",
    "<na>",
];
const TOTALS: &str = "rows of all disks together are left out, as each disk has its own";

/// Value of a cell.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(feature = "parquet"),
    expect(dead_code, reason = "only Parquet has other cells than text")
)]
pub(super) enum TableCell<'a> {
    Nothing,
    Text(&'a [u8]),
    Whole(i128),
    Number(f64),
    /// Nanoseconds since 1970, by the clock of a zone that is not said or not.
    Instant {
        ns: i128,
        has_zone: bool,
    },
}

/// Takes the rows of a table.
#[derive(Debug)]
pub(super) struct TableReader {
    pub(super) columns: TableColumns,
    /// Name of the only disk.
    default_disk: String,
    disks: DeviceNameTable,
    clocks: Vec<RowPace>,
    /// When the row before was made.
    before: Option<u64>,
    samples: Vec<TableSample>,
    /// Where a metric that rows name stands among the figures; `None` of another thing.
    metrics: BTreeMap<Vec<u8>, Option<usize>>,
}

/// When a disk was read last, and how long that was after the time before.
#[derive(Debug, Clone, Copy, Default)]
struct RowPace {
    last: Option<u64>,
    step: u64,
}

impl RowPace {
    /// Where the interval of a rate at this instant begins: at the row before, or where rows are missing
    /// one step back.
    fn begin(&mut self, at: u64) -> Option<u64> {
        let last = self.last.replace(at)?;
        let step = at.saturating_sub(last);
        let before = std::mem::replace(&mut self.step, step);
        let is_hole = before > 0 && step >= 2 * before - before / 8;
        Some(if is_hole { at - before } else { last })
    }
}

/// A value that waits for others of its time.
#[derive(Debug, Clone, Copy)]
struct TableSample {
    at: u64,
    disk: u16,
    figure: u16,
    value: f64,
}

impl TableReader {
    pub(super) fn new(
        mut columns: TableColumns,
        default_disk: &str,
        scan: &mut CounterScan<'_>,
    ) -> TableReader {
        // Of a figure a row, the end of its interval follows from the step.
        columns.time.is_begin |= columns.long.is_some() && columns.time.until.is_some();
        if let Some(zone) = columns.time.zone.as_ref().and_then(TimeZone::iana_name) {
            scan.told.zone = zone.into();
        }
        if let [first, rest @ ..] = &columns.passed_over[..] {
            scan.warn_once(&format!(
                "columns that are no figures of disks are passed over: '{}'{}",
                printable(first),
                match rest.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                }
            ));
        }
        TableReader {
            columns,
            default_disk: default_disk.into(),
            disks: DeviceNameTable::default(),
            clocks: Vec::new(),
            before: None,
            samples: Vec::new(),
            metrics: BTreeMap::new(),
        }
    }

    /// Takes a row; an error says what is wrong with it.
    pub(super) fn row(
        &mut self,
        cells: &[TableCell<'_>],
        scan: &mut CounterScan<'_>,
    ) -> Result<(), String> {
        let cell = |place: usize| cells.get(place).copied().unwrap_or(TableCell::Nothing);
        let at = self.instant(cell(self.columns.time.place), scan)?;
        let until = self
            .columns
            .time
            .until
            .map(|until| self.instant(cell(until), scan));
        let until = until.transpose()?;
        if until.is_some_and(|until| until <= at) {
            return Err("its interval ends before it begins".into());
        }
        let Some(disk) = self.disk(&cell, scan)? else {
            return Ok(());
        };
        if let Some((metric, value)) = self.columns.long {
            let metric = text_of(cell(metric)).ok_or("it does not name its metric")?;
            return match (
                self.metric(metric.as_bytes())?,
                figure_of(cell(value), &self.columns)?,
            ) {
                (Some(figure), Some(value)) => self.hold(figure, &disk, at, value),
                _ => Ok(()),
            };
        }
        let mut found = Vec::with_capacity(self.columns.figures.len());
        for (figure, column) in self.columns.figures.iter().enumerate() {
            if let Some(value) = figure_of(cell(column.place), &self.columns)? {
                found.push((figure, value));
            }
        }
        if self.columns.time.is_begin && until.is_none() {
            return found
                .into_iter()
                .try_for_each(|(figure, value)| self.hold(figure, &disk, at, value));
        }
        let time = until.map(|until| RowTime {
            from_unix_ns: Some(at),
            at_unix_ns: until,
            is_exact: true,
        });
        // A row without figures ends the interval of its disk, as that of the first difference does.
        if found.is_empty()
            && self
                .columns
                .figures
                .iter()
                .all(|column| column.device.is_none())
        {
            self.pace(&disk)?.begin(at);
        }
        self.give(&found, &disk, time.ok_or(at), scan)?;
        self.before = Some(at);
        Ok(())
    }

    /// When a disk was read last.
    fn pace(&mut self, disk: &[u8]) -> Result<&mut RowPace, String> {
        let place = self.disks.place(disk);
        let place = usize::from(place.ok_or("it has too many disks, or too long a name")?);
        if place >= self.clocks.len() {
            self.clocks.resize(place + 1, RowPace::default());
        }
        Ok(&mut self.clocks[place])
    }

    /// Gives the figures of a row away, disk by disk.
    fn give(
        &mut self,
        found: &[(usize, f64)],
        disk: &[u8],
        time: Result<RowTime, u64>,
        scan: &mut CounterScan<'_>,
    ) -> Result<(), String> {
        let device = |found: &(usize, f64)| self.columns.figures[found.0].device.clone();
        let of_disks = found.chunk_by(|a, b| device(a) == device(b));
        let of_disks: Vec<_> = of_disks.map(|found| (device(&found[0]), found)).collect();
        let (interval, before) = (self.columns.time.interval_ns, self.before);
        for (own, found) in of_disks {
            let name = own.as_ref().map_or(disk, String::as_bytes);
            let pace = self.pace(name)?;
            // The first figure of a column is of the time since the row before.
            pace.last = pace.last.or(before.filter(|_| own.is_some()));
            let time = time.unwrap_or_else(|at| RowTime {
                from_unix_ns: match interval {
                    Some(interval) => Some(at.saturating_sub(interval)),
                    None => pace.begin(at),
                },
                at_unix_ns: at,
                is_exact: interval.is_some(),
            });
            let figures = found
                .iter()
                .map(|(at, value)| (self.columns.figures[*at].figure, *value));
            give_figures(name, time, &figures.collect::<Vec<_>>(), scan);
        }
        Ok(())
    }

    /// Where a metric that a row names stands among the figures.
    fn metric(&mut self, name: &[u8]) -> Result<Option<usize>, String> {
        if let Some(known) = self.metrics.get(name) {
            return Ok(*known);
        }
        if self.metrics.len() >= METRICS_MAX {
            return Err("it has more than 10,000 metrics".into());
        }
        let text = String::from_utf8_lossy(name).into_owned();
        let mut place = self
            .columns
            .figures
            .iter()
            .position(|column| column.name == text);
        // A mapping file that names metrics means no others.
        if place.is_none()
            && !self.columns.is_mapped
            && let Some(found) = named(&text, false)
        {
            self.columns.add(self.columns.figures.len(), &text, found)?;
            place = Some(self.columns.figures.len() - 1);
        }
        self.metrics.insert(name.into(), place);
        Ok(place)
    }

    /// Keeps a value until all are there.
    pub(super) fn hold(
        &mut self,
        figure: usize,
        disk: &[u8],
        at: u64,
        value: f64,
    ) -> Result<(), String> {
        if self.samples.len() >= SAMPLES_MAX {
            return Err(
                "it has more than 8 million values, which must be sorted; separate it".into(),
            );
        }
        let own = self.columns.figures[figure].device.as_ref();
        let disk = self.disks.place(own.map_or(disk, String::as_bytes));
        self.samples.push(TableSample {
            at,
            disk: disk.ok_or("it has too many disks, or too long a name")?,
            figure: u16::try_from(figure).map_err(|_| "it has too many metrics")?,
            value,
        });
        Ok(())
    }

    /// There are no more rows.
    ///
    /// # Errors
    /// When it is not known which time values are of.
    pub(super) fn finish(mut self, scan: &mut CounterScan<'_>) -> Result<(), String> {
        let mut samples = std::mem::take(&mut self.samples);
        samples.sort_by_key(|sample| (sample.at, sample.disk, sample.figure));
        let held = samples.len();
        samples.dedup_by_key(|sample| (sample.at, sample.disk, sample.figure));
        if samples.len() < held {
            scan.told.warnings.push(format!(
                "{} values are of a disk, a metric and an instant that had one, and were left out",
                held - samples.len()
            ));
        }
        let period = match self.columns.time.is_begin {
            true => Some(
                self.columns
                    .time
                    .interval_ns
                    .map_or_else(|| period(&samples), Ok)?,
            ),
            false => None,
        };
        let names = self.disks.names().to_vec();
        for row in samples.chunk_by(|a, b| (a.at, a.disk) == (b.at, b.disk)) {
            let (at, disk) = (row[0].at, names[usize::from(row[0].disk)].as_bytes());
            let time = period.map(|period| RowTime {
                from_unix_ns: Some(at),
                at_unix_ns: at.saturating_add(period),
                is_exact: true,
            });
            let found: Vec<(usize, f64)> = row
                .iter()
                .map(|sample| (usize::from(sample.figure), sample.value))
                .collect();
            self.give(&found, disk, time.ok_or(at), scan)?;
        }
        let open = self
            .metrics
            .iter()
            .filter(|(_, known)| known.is_none())
            .count();
        if open > 0 {
            scan.told.warnings.push(format!(
                "{open} metrics are none of disks and were left out"
            ));
        }
        Ok(())
    }

    /// The disk of a row; `None` where it is all of them together.
    fn disk<'a>(
        &self,
        cell: &impl Fn(usize) -> TableCell<'a>,
        scan: &mut CounterScan<'_>,
    ) -> Result<Option<Vec<u8>>, String> {
        let Some(place) = self.columns.device else {
            let only = self
                .columns
                .only_device
                .as_ref()
                .unwrap_or(&self.default_disk);
            return Ok(Some(only.clone().into_bytes()));
        };
        let disk = text_of(cell(place)).ok_or("it does not name its disk")?;
        if ["_total", "total", "all"].contains(&&*disk.to_ascii_lowercase()) {
            scan.warn_once(TOTALS);
            return Ok(None);
        }
        let Some(host) = self.columns.host.and_then(|host| text_of(cell(host))) else {
            return Ok(Some(disk.into_bytes()));
        };
        if scan.told.host.is_empty() {
            scan.told.host.clone_from(&host);
        }
        // The disks of the first machine go by their own names.
        Ok(Some(match scan.told.host == host {
            true => disk.into_bytes(),
            false => format!("{host}:{disk}").into_bytes(),
        }))
    }

    /// The instant in a cell.
    pub(super) fn instant(
        &self,
        cell: TableCell<'_>,
        scan: &mut CounterScan<'_>,
    ) -> Result<u64, String> {
        let wrong = || "it has no time that is understood".to_owned();
        let time = &self.columns.time;
        let text = match cell {
            TableCell::Nothing => return Err(wrong()),
            TableCell::Instant { ns, has_zone } => {
                let ns = u64::try_from(ns).map_err(|_| wrong())?;
                return self.placed(ns, has_zone, scan).ok_or_else(wrong);
            }
            TableCell::Text(text) => text.to_vec(),
            TableCell::Whole(whole) => whole.to_string().into_bytes(),
            TableCell::Number(number) => number.to_string().into_bytes(),
        };
        if let Some(unit_ns) = time.unit_ns {
            let at = nanos(text.trim_ascii(), 1_000_000_000 / unit_ns).ok_or_else(wrong)?;
            scan.told.lacks_date |= at < DATED_MIN_NS;
            return Ok(at);
        }
        let instant = clock::instant(&text, scan.told.dates.order).ok_or_else(wrong)?;
        scan.told.dates.add(&instant);
        self.placed(instant.unix_ns, instant.has_zone, scan)
            .ok_or_else(wrong)
    }

    /// An instant of a clock whose zone the file does not say, in that of the mapping.
    fn placed(&self, ns: u64, has_zone: bool, scan: &mut CounterScan<'_>) -> Option<u64> {
        match &self.columns.time.zone {
            _ if has_zone => Some(ns),
            None => {
                scan.told.lacks_zone = true;
                Some(ns)
            }
            Some(zone) => {
                let civil = Timestamp::from_nanosecond(ns.into())
                    .ok()?
                    .to_zoned(TimeZone::UTC)
                    .datetime();
                let there = zone.to_zoned(civil).ok()?.timestamp().as_nanosecond();
                u64::try_from(there).ok()
            }
        }
    }

    /// The figure of a name that a cloud gives its metrics, among those that are read.
    pub(super) fn cloud_figure(
        &mut self,
        name: &str,
    ) -> Result<Option<(usize, MappingKind)>, String> {
        let place = self.metric(name.as_bytes())?;
        Ok(place.map(|place| (place, self.columns.figures[place].figure.kind)))
    }
}

/// The step of times that mark beginnings.
fn period(samples: &[TableSample]) -> Result<u64, String> {
    let mut of_disk: Vec<(u16, u64)> = samples
        .iter()
        .map(|sample| (sample.disk, sample.at))
        .collect();
    of_disk.sort_unstable();
    let pairs = of_disk
        .windows(2)
        .filter(|pair| pair[0].0 == pair[1].0 && pair[0].1 < pair[1].1);
    let mut steps: Vec<u64> = pairs.map(|pair| pair[1].1 - pair[0].1).collect();
    steps.sort_unstable();
    let (Some(shortest), Some(usual)) = (steps.first(), steps.get(steps.len() / 2)) else {
        return Err(
            "it has one instant of each disk, so the length of its intervals is not known".into(),
        );
    };
    if shortest != usual {
        return Err(format!(
            "its intervals have different lengths ({} s and {} s); export one length at a time",
            *shortest as f64 / 1e9,
            *usual as f64 / 1e9
        ));
    }
    Ok(*shortest)
}

/// A name in a cell.
fn text_of(cell: TableCell<'_>) -> Option<String> {
    let text = match cell {
        TableCell::Text(text) => String::from_utf8_lossy(text).trim().to_owned(),
        TableCell::Whole(whole) => whole.to_string(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// The figure in a cell; `None` where it holds none.
pub(super) fn figure_of(
    cell: TableCell<'_>,
    columns: &TableColumns,
) -> Result<Option<f64>, String> {
    let value = match cell {
        TableCell::Nothing => return Ok(None),
        TableCell::Number(value) if value.is_nan() => return Ok(None),
        TableCell::Number(value) => value,
        TableCell::Whole(value) => value as f64,
        TableCell::Instant { .. } => return Err("a figure is a time".into()),
        TableCell::Text(text) => {
            let text = String::from_utf8_lossy(text).trim().to_owned();
            if ABSENT.contains(&&*text.to_ascii_lowercase()) {
                return Ok(None);
            }
            let plain = match columns.has_decimal_commas {
                true => text.replace('.', ""),
                false if is_thousands(&text) => {
                    return Err(format!(
                        "{text} may be thousands or a fraction; say decimal = \",\" in a mapping file, or \
                         write numbers without commas"
                    ));
                }
                false => text,
            };
            number(plain.as_bytes()).ok_or("a figure is no number")?
        }
    };
    match value.is_finite() && value >= 0.0 {
        true => Ok(Some(value)),
        false => Err("a figure is negative or infinite".into()),
    }
}

/// Whether a number may have commas between its thousands.
fn is_thousands(text: &str) -> bool {
    let mut groups = text.split(',');
    let first = groups.next().unwrap_or_default();
    let is_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let mut rest = groups.peekable();
    let has_more = rest.peek().is_some();
    has_more
        && (1..=3).contains(&first.len())
        && first != "0"
        && is_digits(first)
        && rest.all(|group| group.len() == 3 && is_digits(group))
}
