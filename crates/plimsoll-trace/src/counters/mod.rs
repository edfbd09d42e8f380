// SPDX-License-Identifier: Apache-2.0
//! Recordings of counters that programs print: one module for each format, one door for all.
//!
//! A format is recognised by its first bytes. A file is read twice: once when it is opened, for
//! its disks and its span, and once for each series, so that memory does not grow with the disks
//! that nobody asked for. What programs print as rates becomes a difference over the interval.

mod clock;
mod diskstats;
mod filling;
mod iostat;
mod json;
mod meaning;
mod pdh;
mod reports;
mod row_clock;
mod sadf;
#[cfg(test)]
mod strangers;
#[cfg(test)]
mod tests;

pub use diskstats::devices_counted;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_core::profile::{Layer, Made};
use plimsoll_core::units::Nanos;

use crate::error::{Damage, TraceError};
use crate::input::{Input, WrongLines};
use crate::recording::{About, Carries, Counters, Detail, Order, Scope};
use crate::series::{DiskMetric, DiskSeries};
use crate::targets::Targets;
use crate::window::{Times, Window};
use clock::{DateEvidence, DateOrder};
use filling::Filling;
use row_clock::RowClock;

/// A format that can be told from its first bytes.
struct Format {
    /// As it is listed to people.
    name: &'static str,
    /// The finest difference of two times it can tell.
    resolution: Nanos,
    scope: Scope,
    /// Whether a file that begins so is one.
    is: fn(head: &[u8]) -> bool,
    /// Reads all of it, and gives what it finds away.
    scan: fn(&mut Input, &mut Told, &mut Give<'_>) -> Result<(), TraceError>,
}

/// All of them; they are so different that their order does not matter.
const FORMATS: &[Format] = &[
    diskstats::FORMAT,
    iostat::FORMAT,
    json::FORMAT,
    sadf::FORMAT,
    pdh::FORMAT,
];

/// How the values of a row are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Counters, as they stood at the instant.
    Totals,
    /// Per second since an instant.
    Rates { from_unix_ns: u64 },
}

/// What a row says of one disk.
#[derive(Debug, Clone, Copy)]
struct Found<'a> {
    disk: &'a [u8],
    at_unix_ns: u64,
    what: What,
    /// Figure, value, base units of one.
    values: &'a [(DiskMetric, f64, f64)],
}

/// What a scan finds.
enum Event<'a> {
    /// Figures of a disk.
    Row(Found<'a>),
    /// The recording was interrupted.
    Gap,
}

/// Where a scan gives what it finds.
type Give<'g> = dyn FnMut(Event<'_>) + 'g;

/// What a scan says of the recording as a whole.
#[derive(Debug, Default)]
struct Told {
    host: String,
    /// The zone of its people as Posix writes it; empty for UTC.
    zone: String,
    /// Times stood in it without a zone.
    lacks_zone: bool,
    /// Times stood in it without a date, or none at all.
    lacks_date: bool,
    dates: DateEvidence,
    /// What devices are made of, where more than their names tells it.
    layers: BTreeMap<String, Layer>,
    damage: Option<Damage>,
    warnings: Vec<String>,
    wrong: WrongLines,
}

impl Told {
    /// For a scan in which dates have this order.
    fn with(order: Option<DateOrder>) -> Told {
        let mut told = Told::default();
        told.dates.order = order;
        told
    }

    /// A time as programs print it.
    fn instant(&mut self, text: &[u8]) -> Option<u64> {
        let instant = clock::instant(text, self.dates.order)?;
        self.lacks_zone |= !instant.has_zone;
        self.dates.add(&instant);
        Some(instant.unix_ns)
    }

    /// A time whose zone stands elsewhere.
    fn local(&mut self, text: &[u8]) -> Option<u64> {
        let lacked_zone = self.lacks_zone;
        let instant = self.instant(text);
        self.lacks_zone = lacked_zone;
        instant
    }

    fn warn_once(&mut self, sentence: &str) {
        if !self.warnings.iter().any(|known| known == sentence) {
            self.warnings.push(sentence.into());
        }
    }
}

/// Where a recording lies.
#[derive(Debug, Clone)]
enum Source {
    Path(PathBuf),
    Bytes(Arc<[u8]>),
}

/// A file of counters.
pub struct CounterFile {
    about: About,
    times: Times,
    source: Source,
    format: &'static Format,
    order: Option<DateOrder>,
    layers: BTreeMap<String, Layer>,
    disks: Vec<String>,
    damage: Option<Damage>,
    warnings: Vec<String>,
}

impl std::fmt::Debug for CounterFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CounterFile")
            .field("about", &self.about)
            .field("disks", &self.disks)
            .finish_non_exhaustive()
    }
}

/// What the first pass collects.
#[derive(Debug, Default)]
struct Survey {
    disks: Targets,
    /// Of each disk.
    clocks: Vec<RowClock>,
    span: Option<Window>,
    metrics: Vec<DiskMetric>,
}

impl Survey {
    fn push(&mut self, found: &Found<'_>) {
        let Some(place) = self.disks.place(found.disk) else {
            return;
        };
        let place = usize::from(place);
        if place >= self.clocks.len() {
            self.clocks.resize(place + 1, RowClock::default());
        }
        let placed = self.clocks[place].place(found);
        let span = self.span.get_or_insert(Window {
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

    fn carries(&self, format: &Format) -> Carries {
        let has = |metrics: &[DiskMetric]| metrics.iter().any(|m| self.metrics.contains(m));
        let mean = |is: bool| if is { Detail::Mean } else { Detail::Absent };
        let ops = [DiskMetric::Reads, DiskMetric::Writes, DiskMetric::Ops];
        let times = [
            DiskMetric::ReadTime,
            DiskMetric::WriteTime,
            DiskMetric::TotalTime,
        ];
        let sampled = [DiskMetric::QueueLength, DiskMetric::InFlight];
        Carries {
            arrivals: mean(has(&ops)),
            resolution: format.resolution,
            direction: has(&[DiskMetric::Reads]),
            sizes: mean(has(&ops) && has(&[DiskMetric::ReadBytes])),
            offsets: false,
            service: mean(has(&times)),
            queue: match has(&[DiskMetric::QueueTime]) {
                true => Detail::Mean,
                false if has(&sampled) => Detail::Sampled,
                false => Detail::Absent,
            },
            order: Order::Started,
            scope: format.scope,
        }
    }
}

/// Whether a file is of counters, by its first bytes.
pub(crate) fn is_one(input: &Input) -> bool {
    format(input).is_some()
}

/// What the formats are called.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|format| format.name)
}

fn format(input: &Input) -> Option<&'static Format> {
    FORMATS.iter().find(|format| (format.is)(input.head()))
}

impl CounterFile {
    /// Opens a file of counters of any known format.
    ///
    /// # Errors
    /// When the file cannot be read, is of no known format, or has no figures of disks.
    pub fn open(path: &Path) -> Result<CounterFile, TraceError> {
        Self::survey(path.display().to_string(), Source::Path(path.into()))
    }

    /// A file that is in memory. For tests and fuzzing.
    ///
    /// # Errors
    /// As [`CounterFile::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<CounterFile, TraceError> {
        Self::survey(name.into(), Source::Bytes(bytes.into()))
    }

    fn survey(name: String, source: Source) -> Result<CounterFile, TraceError> {
        let input = source.input(&name)?;
        let Some(format) = format(&input) else {
            return Err(crate::resembling::unknown(
                &name,
                input.head(),
                names().collect(),
            ));
        };
        let (mut told, mut survey) = Survey::of(format, &source, &name, None)?;
        let order = told.dates.order().map_err(|()| TraceError::Format {
            file: name.clone(),
            offset: 0,
            what: TWO_ORDERS.into(),
        })?;
        if order.is_some() {
            (told, survey) = Survey::of(format, &source, &name, order)?;
        }
        let understood = told.wrong.finish(&name, survey.span.is_none());
        let mut warnings = told.warnings;
        let (Some(span), Ok(left_out)) = (survey.span, &understood) else {
            // What the format says is missing tells more than that nothing was found.
            return Err(match (told.damage, warnings.pop(), understood) {
                (Some(Damage { file, offset, what }), ..) => {
                    TraceError::Format { file, offset, what }
                }
                (None, None, Err(error)) => error,
                (None, what, _) => TraceError::Format {
                    file: name,
                    offset: 0,
                    what: what.unwrap_or_else(|| "nothing is recorded in it".into()),
                },
            });
        };
        warnings.extend(left_out.clone());
        if order.is_none() && told.dates.is_open() && format.name != pdh::FORMAT.name {
            warnings.push(OPEN_ORDER.into());
        }
        if told.lacks_zone && !told.lacks_date {
            warnings.push("its times tell no zone and are taken as UTC".into());
        }
        let zone = if told.zone.is_empty() {
            "UTC"
        } else {
            &told.zone
        };
        let (times, warning) = Times::new(&name, zone, span);
        warnings.extend(warning);
        let times = match told.lacks_date {
            true => times.without_date(),
            false => times,
        };
        warnings.extend(survey.steps(&name, &times)?);
        Ok(CounterFile {
            about: About {
                name,
                format: format.name.into(),
                host: told.host,
                carries: survey.carries(format),
            },
            times,
            source,
            format,
            order,
            layers: told.layers,
            disks: survey.disks.names().to_vec(),
            damage: told.damage,
            warnings,
        })
    }
}

const TWO_ORDERS: &str = "in some of its dates the day stands first, in others the month: it is of \
                          several recordings; separate them";
const OPEN_ORDER: &str = "its dates do not tell whether the day or the month stands first; with \
                          strokes (11/12/26) the month is taken to, else the day";

impl Survey {
    /// The first pass.
    fn of(
        format: &Format,
        source: &Source,
        name: &str,
        order: Option<DateOrder>,
    ) -> Result<(Told, Survey), TraceError> {
        let (mut told, mut survey) = (Told::with(order), Survey::default());
        (format.scan)(&mut source.input(name)?, &mut told, &mut |event| {
            if let Event::Row(found) = event {
                survey.push(&found);
            }
        })?;
        Ok((told, survey))
    }

    /// A sentence about a clock that was set back.
    ///
    /// # Errors
    /// When times go back so often that there is no clock.
    fn steps(&self, name: &str, times: &Times) -> Result<Option<String>, TraceError> {
        let most = self.clocks.iter().max_by_key(|clock| clock.steps());
        let Some((clock, (at, back))) = most.and_then(|clock| Some((clock, clock.first_step()?)))
        else {
            return Ok(None);
        };
        let steps = clock.steps();
        if clock.is_none() {
            return Err(TraceError::Format {
                file: name.into(),
                offset: 0,
                what: format!(
                    "its times go back {steps} times: it is unsorted, or several recordings in one; \
                     sort or separate them"
                ),
            });
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

impl Source {
    fn input(&self, name: &str) -> Result<Input, TraceError> {
        match self {
            Source::Path(path) => Input::open(path),
            Source::Bytes(bytes) => {
                let bytes = std::io::Cursor::new(Arc::clone(bytes));
                Input::new(name.into(), Box::new(bytes))
            }
        }
    }
}

impl Counters for CounterFile {
    fn about(&self) -> &About {
        &self.about
    }

    fn times(&self) -> &Times {
        &self.times
    }

    fn disks(&self) -> Vec<String> {
        self.disks.clone()
    }

    fn made(&self, disk: &str) -> Option<Made> {
        self.layers.get(disk).copied().map(Made::of)
    }

    fn series(&self, disk: &str, window: &Window) -> Result<DiskSeries, TraceError> {
        if !self.disks.iter().any(|known| known == disk) {
            return Err(TraceError::NoDisk {
                disk: disk.into(),
                recording: self.about.name.clone(),
                disks: self.disks.clone(),
            });
        }
        Ok(self.several(&[disk.into()], window)?.swap_remove(0))
    }

    fn several(&self, disks: &[String], window: &Window) -> Result<Vec<DiskSeries>, TraceError> {
        let mut input = self.source.input(&self.about.name)?;
        let places: BTreeMap<&str, usize> = disks.iter().map(String::as_str).zip(0..).collect();
        let mut fillings: Vec<Filling> = disks.iter().map(|_| Filling::new(window)).collect();
        let mut told = Told::with(self.order);
        (self.format.scan)(&mut input, &mut told, &mut |event| match event {
            Event::Row(found) => {
                if let Some(place) = places.get(&*String::from_utf8_lossy(found.disk)) {
                    fillings[*place].push(&found);
                }
            }
            Event::Gap => fillings.iter_mut().for_each(Filling::gap),
        })?;
        let filled = disks.iter().zip(fillings).map(|(disk, filling)| {
            let mut series = filling.finish(disk, &self.warnings);
            series.damage.clone_from(&self.damage);
            series
        });
        Ok(filled.collect())
    }

    fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}
