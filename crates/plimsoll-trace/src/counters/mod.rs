// SPDX-License-Identifier: Apache-2.0
//! Recordings of counters that programs print: one module for each format, one door for all.
//!
//! A format is recognised by its first bytes. A file is read twice: once when it is opened, for its disks and
//! its span, and once for each series, so that memory does not grow with the disks that are not read. The
//! rates that programs print become differences over the interval.

mod atop;
mod clock;
mod diskstats;
mod filling;
mod gathered;
mod influx;
mod iostat;
mod json;
mod meaning;
mod monitored;
mod mountstats;
mod nmon;
mod printed;
mod prometheus;
mod reports;
mod row_clock;
mod sadf;
mod sadf_forms;
mod sar;
mod scan;
#[cfg(test)]
mod strangers;
mod table;
#[cfg(test)]
mod tests;
mod wide;

pub use diskstats::devices_counted;
pub use monitored::names as monitored_names;
pub use table::begun as begun_mapping;
#[cfg(feature = "parquet")]
pub(crate) use table::is_of_counters;
pub(crate) use table::recording_of;
#[cfg(test)]
pub(crate) use tests::ALL as FIXTURES;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_core::profile::{DeviceComposition, DeviceKind};
use plimsoll_core::units::Nanos;

use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::recording::{
    CounterReadState, CounterSource, RecordingCapabilities, RecordingDetail, RecordingInfo,
    TraceOrder,
};
use crate::series::{DiskMetric, DiskSeries};
use crate::targets::DeviceNameTable;
use crate::window::{RecordingTimes, RecordingWindow};
use clock::DateOrder;
use filling::DiskSeriesBuilder;
use row_clock::RowClock;
use scan::{CounterRow, CounterScan, CounterScanEvent, CounterScanSummary, CounterSemantics};

/// A format that is recognized by its first bytes.
struct CounterFormat {
    /// As it is listed to people.
    name: &'static str,
    /// The resolution of its times.
    resolution: Nanos,
    /// Whether a file that begins so is one.
    is: fn(head: &[u8]) -> bool,
    /// Reads all of it, and gives what it finds away.
    scan: fn(&mut RecordingInput, &mut CounterScan<'_>) -> Result<(), TraceError>,
}

/// All of them; they are so different that their order does not matter.
const FORMATS: &[CounterFormat] = &[
    diskstats::FORMAT,
    diskstats::VMSTAT,
    mountstats::FORMAT,
    atop::FORMAT,
    nmon::FORMAT,
    iostat::FORMAT,
    json::FORMAT,
    sadf::FORMAT,
    sadf_forms::PAIRS,
    sadf_forms::XML,
    sar::FORMAT,
    influx::LINES,
    influx::CSV,
    prometheus::JSON,
    prometheus::TEXT,
    wide::PDH,
    wide::COLLECTL,
    wide::DSTAT,
    table::MAPPED,
    table::CSV,
    table::JSON,
    #[cfg(feature = "parquet")]
    table::PARQUET,
];

/// Where a recording lies.
#[derive(Debug, Clone)]
enum CounterFileContent {
    Path(PathBuf),
    Bytes(Arc<[u8]>),
}

/// A file of counters.
pub struct CounterFile {
    state: CounterReadState,
    source: CounterFileContent,
    format: &'static CounterFormat,
    order: Option<DateOrder>,
    layers: BTreeMap<String, DeviceKind>,
    disks: Vec<String>,
}

impl std::fmt::Debug for CounterFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CounterFile")
            .field("about", &self.state.about)
            .field("disks", &self.disks)
            .finish_non_exhaustive()
    }
}

/// Disks, clocks, time span and metrics that the first pass collects.
#[derive(Debug, Default)]
struct CounterSurvey {
    disks: DeviceNameTable,
    /// Of each disk.
    clocks: Vec<RowClock>,
    span: Option<RecordingWindow>,
    metrics: Vec<DiskMetric>,
}

impl CounterSurvey {
    fn push(&mut self, found: &CounterRow<'_>) {
        let Some(place) = self.disks.place(found.disk) else {
            return;
        };
        let place = usize::from(place);
        if place >= self.clocks.len() {
            self.clocks.resize(place + 1, RowClock::default());
        }
        let placed = self.clocks[place].place(found);
        let span = self.span.get_or_insert(RecordingWindow {
            from_unix_ns: placed.from_unix_ns,
            to_unix_ns: placed.at_unix_ns,
        });
        span.from_unix_ns = span.from_unix_ns.min(placed.from_unix_ns);
        span.to_unix_ns = span.to_unix_ns.max(placed.at_unix_ns);
        for (metric, ..) in found.values {
            if !self.metrics.contains(metric) {
                self.metrics.push(*metric);
            }
        }
    }

    fn carries(&self, format: &CounterFormat) -> RecordingCapabilities {
        let has = |metrics: &[DiskMetric]| metrics.iter().any(|m| self.metrics.contains(m));
        let mean = |is: bool| {
            if is {
                RecordingDetail::Mean
            } else {
                RecordingDetail::Absent
            }
        };
        let ops = [DiskMetric::Reads, DiskMetric::Writes, DiskMetric::Ops];
        let times = [
            DiskMetric::ReadTime,
            DiskMetric::WriteTime,
            DiskMetric::TotalTime,
        ];
        let sampled = [DiskMetric::QueueLength, DiskMetric::InFlight];
        RecordingCapabilities {
            arrivals: mean(has(&ops)),
            resolution: format.resolution,
            direction: has(&[DiskMetric::Reads]),
            sizes: mean(has(&ops) && has(&[DiskMetric::ReadBytes])),
            offsets: false,
            service: mean(has(&times)),
            queue: match has(&[DiskMetric::QueueTime]) {
                true => RecordingDetail::Mean,
                false if has(&sampled) => RecordingDetail::Sampled,
                false => RecordingDetail::Absent,
            },
            order: TraceOrder::Started,
        }
    }
}

/// Whether a file is of counters, by its first bytes.
pub(crate) fn is_one(input: &RecordingInput) -> bool {
    format(input).is_some()
}

/// Names of the formats.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|format| format.name)
}

fn format(input: &RecordingInput) -> Option<&'static CounterFormat> {
    FORMATS.iter().find(|format| (format.is)(input.head()))
}

impl CounterFile {
    /// Opens a file of counters of any known format.
    ///
    /// # Errors
    /// When the file cannot be read, is of no known format, or has no figures of disks.
    pub fn open(path: &Path) -> Result<CounterFile, TraceError> {
        Self::survey(
            path.display().to_string(),
            CounterFileContent::Path(path.into()),
        )
    }

    /// A file that is in memory. For tests and fuzzing.
    ///
    /// # Errors
    /// As [`CounterFile::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<CounterFile, TraceError> {
        Self::survey(name.into(), CounterFileContent::Bytes(bytes.into()))
    }

    fn survey(name: String, source: CounterFileContent) -> Result<CounterFile, TraceError> {
        let input = source.input(&name)?;
        let Some(format) = format(&input) else {
            return Err(crate::resembling::unknown(
                &name,
                input.head(),
                &names().collect::<Vec<_>>(),
            ));
        };
        let (mut told, mut survey) = CounterSurvey::of(format, &source, &name, None)?;
        let order = told.dates.order();
        let order = order.map_err(|()| TraceError::format(&name, TWO_ORDERS))?;
        if order.is_some() {
            (told, survey) = CounterSurvey::of(format, &source, &name, order)?;
        }
        let understood = told.wrong.finish(&name, survey.span.is_none());
        let mut warnings = told.warnings;
        let (Some(span), Ok(left_out)) = (survey.span, &understood) else {
            // Warnings of the format about missing data help more than that nothing was found.
            return Err(match (told.damage, warnings.pop(), understood) {
                (Some(damage), ..) => damage.into(),
                (None, None, Err(error)) => error,
                (None, None, _) => TraceError::format(&name, "nothing is recorded in it"),
                (None, Some(what), _) => TraceError::format(&name, what),
            });
        };
        warnings.extend(left_out.clone());
        if order.is_none() && told.dates.is_open() && format.name != wide::PDH.name {
            warnings.push(OPEN_ORDER.into());
        }
        if told.lacks_zone && !told.lacks_date {
            warnings.push("its times have no time zone and are taken as UTC".into());
        }
        let zone = if told.zone.is_empty() {
            "UTC"
        } else {
            &told.zone
        };
        let (times, warning) = RecordingTimes::new(&name, zone, span);
        warnings.extend(warning);
        let times = match told.lacks_date {
            true => times.without_date(),
            false => times,
        };
        warnings.extend(survey.steps(&name, &times)?);
        Ok(CounterFile {
            state: CounterReadState {
                about: RecordingInfo {
                    name,
                    format: format.name.into(),
                    host: told.host,
                    carries: survey.carries(format),
                },
                times,
                damage: told.damage,
                warnings,
            },
            source,
            format,
            order,
            layers: told.layers,
            disks: survey.disks.names().to_vec(),
        })
    }
}

const TWO_ORDERS: &str = "some of its dates begin with the day, others with the month, so it holds \
                          several recordings; separate them";
const OPEN_ORDER: &str = "its dates are ambiguous: with slashes (11/12/26) the month is taken to come \
                          first, else the day";

impl CounterSurvey {
    /// The first pass.
    fn of(
        format: &CounterFormat,
        source: &CounterFileContent,
        name: &str,
        order: Option<DateOrder>,
    ) -> Result<(CounterScanSummary, CounterSurvey), TraceError> {
        let mut survey = CounterSurvey::default();
        let mut input = source.input(name)?;
        let mut give = |event: CounterScanEvent<'_>| {
            if let CounterScanEvent::Row(found) = event {
                survey.push(&found);
            }
        };
        let mut scan = CounterScan::new(order, &mut give);
        (format.scan)(&mut input, &mut scan)?;
        let mut told = scan.told;
        if told.damage.is_none() {
            let mut losses = input.losses();
            losses.retain(|loss| !told.warnings.contains(loss));
            // Warnings of a format come last: the last one is the reason where nothing is found.
            told.warnings.splice(0..0, losses);
        }
        Ok((told, survey))
    }

    /// A sentence about a clock that was set back.
    ///
    /// # Errors
    /// When times go back so often that there is no clock.
    fn steps(&self, name: &str, times: &RecordingTimes) -> Result<Option<String>, TraceError> {
        let most = self.clocks.iter().max_by_key(|clock| clock.steps());
        let Some((clock, (at, back))) = most.and_then(|clock| Some((clock, clock.first_step()?)))
        else {
            return Ok(None);
        };
        let steps = clock.steps();
        if clock.is_none() {
            let what = format!(
                "its times go back {steps} times: it is unsorted, or several recordings in one; \
                 sort or separate them"
            );
            return Err(TraceError::format(name, what));
        }
        let more = match steps {
            1 => String::new(),
            _ => format!(" and {} times more", steps - 1),
        };
        Ok(Some(format!(
            "its times go back by {} at {}{more}; what follows is placed behind what comes before",
            Nanos(back),
            times.civil(at)
        )))
    }
}

impl CounterFileContent {
    fn input(&self, name: &str) -> Result<RecordingInput, TraceError> {
        match self {
            CounterFileContent::Path(path) => RecordingInput::open(path),
            CounterFileContent::Bytes(bytes) => {
                let bytes = std::io::Cursor::new(Arc::clone(bytes));
                RecordingInput::new(name.into(), Box::new(bytes))
            }
        }
    }
}

impl CounterSource for CounterFile {
    fn state(&self) -> &CounterReadState {
        &self.state
    }

    fn disks(&self) -> Vec<String> {
        self.disks.clone()
    }

    fn made(&self, disk: &str) -> Option<DeviceComposition> {
        self.layers.get(disk).copied().map(DeviceComposition::of)
    }

    fn several(
        &self,
        disks: &[String],
        window: &RecordingWindow,
    ) -> Result<Vec<DiskSeries>, TraceError> {
        let mut input = self.source.input(&self.about().name)?;
        let places: BTreeMap<&str, usize> = disks.iter().map(String::as_str).zip(0..).collect();
        let mut fillings: Vec<DiskSeriesBuilder> = disks
            .iter()
            .map(|_| DiskSeriesBuilder::new(window))
            .collect();
        let mut give = |event: CounterScanEvent<'_>| match event {
            CounterScanEvent::Row(found) => {
                if let Some(place) = places.get(&*String::from_utf8_lossy(found.disk)) {
                    fillings[*place].push(&found);
                }
            }
            CounterScanEvent::Gap => fillings.iter_mut().for_each(DiskSeriesBuilder::gap),
        };
        (self.format.scan)(&mut input, &mut CounterScan::new(self.order, &mut give))?;
        let filled = disks.iter().zip(fillings).map(|(disk, filling)| {
            let mut series = filling.finish(disk, self.warnings());
            series.damage = self.damage().cloned();
            series
        });
        Ok(filled.collect())
    }
}
