// SPDX-License-Identifier: Apache-2.0
//! Meaning of the columns of a table: by their names, or as a mapping file says.

use jiff::tz::TimeZone;
use plimsoll_core::mapping::{MappingFile, MappingTimeMark, MappingTimeUnit};
use plimsoll_core::nearest::nearest;

use super::figures::TableFigure;
use super::names::{ColumnRole, NamedFigure, is_of_cloud, named, role};
use crate::series::DiskMetric;

/// The columns of a table that are read.
#[derive(Debug)]
pub(super) struct TableColumns {
    /// All, read or not.
    pub(super) names: Vec<String>,
    pub(super) time: TimeColumn,
    /// With the name of the disk, and of its machine.
    pub(super) device: Option<usize>,
    pub(super) host: Option<usize>,
    /// The name of the disk where no column has it.
    pub(super) only_device: Option<String>,
    /// With the name of a metric, and its value.
    pub(super) long: Option<(usize, usize)>,
    /// Those whose names are none of figures of disks.
    pub(super) passed_over: Vec<String>,
    /// By device.
    pub(super) figures: Vec<FigureColumn>,
    pub(super) has_decimal_commas: bool,
    /// Whether a mapping file says what they are.
    pub(super) is_mapped: bool,
}

/// The time of a row.
#[derive(Debug, Clone)]
pub(super) struct TimeColumn {
    pub(super) place: usize,
    /// The end of the row's interval, where `place` has its beginning.
    pub(super) until: Option<usize>,
    /// Nanoseconds of one, of times that are numbers of a unit.
    pub(super) unit_ns: Option<u64>,
    /// Of times that do not say theirs.
    pub(super) zone: Option<TimeZone>,
    pub(super) is_begin: bool,
    pub(super) interval_ns: Option<u64>,
}

/// A column with a figure; in a table of one metric a row, a metric.
#[derive(Debug)]
pub(super) struct FigureColumn {
    pub(super) place: usize,
    pub(super) name: String,
    pub(super) device: Option<String>,
    pub(super) figure: TableFigure,
}

/// Advice for a column whose name leaves something open.
const MAPPING: &str = "say it in a mapping file, which plimsoll new mapping FILE begins";

/// Nanoseconds of a unit of times, by the word for it in the name of a column.
const UNITS_NS: [(&str, u64); 4] = [
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl TableColumns {
    /// Those of a table whose columns have these names; `None` if it is none of disks.
    ///
    /// # Errors
    /// When it is one, but a name leaves something open: what.
    pub(super) fn of_names(names: &[String]) -> Result<Option<TableColumns>, String> {
        let roles: Vec<_> = names.iter().map(|name| role(name)).collect();
        let place = |wanted: ColumnRole| {
            let is_it = |found: &Option<(ColumnRole, Vec<String>)>| {
                found.as_ref().is_some_and(|(role, _)| *role == wanted)
            };
            roles.iter().position(is_it)
        };
        let until = place(ColumnRole::Begin).and(place(ColumnRole::End));
        let Some(time) = until
            .and(place(ColumnRole::Begin))
            .or(place(ColumnRole::Time))
        else {
            return Ok(None);
        };
        let words = roles[time].as_ref().map_or(&[][..], |(_, words)| words);
        let is_utc = words.iter().any(|word| word == "utc" || word == "gmt");
        let mut units = UNITS_NS.iter();
        let unit = units.find(|(unit, _)| words.iter().any(|word| word == unit));
        let time = TimeColumn {
            place: time,
            until,
            unit_ns: unit.map(|(_, ns)| *ns),
            zone: is_utc.then_some(TimeZone::UTC),
            is_begin: names.iter().any(|name| is_of_cloud(name)),
            interval_ns: None,
        };
        let long = place(ColumnRole::Metric).zip(place(ColumnRole::Value));
        let mut columns = TableColumns {
            names: names.to_vec(),
            time,
            device: place(ColumnRole::Device),
            host: place(ColumnRole::Host),
            only_device: None,
            long,
            passed_over: Vec::new(),
            figures: Vec::new(),
            has_decimal_commas: false,
            is_mapped: false,
        };
        if long.is_some() {
            return Ok(Some(columns));
        }
        let mut open = None;
        for (place, name) in names.iter().enumerate() {
            if roles[place].is_some() {
                continue;
            }
            if let Some(found) = named(name, until.is_some())
                && let Err(what) = columns.add(place, name, found)
            {
                open = open.or(Some(what));
            }
        }
        if !columns.has_load() && open.is_none() {
            return Ok(None);
        }
        let is_read = |place: usize| {
            roles[place].is_some() || columns.figures.iter().any(|column| column.place == place)
        };
        let others = names.iter().enumerate();
        columns.passed_over = others
            .filter(|(place, name)| !is_read(*place) && !name.is_empty())
            .map(|(_, name)| name.clone())
            .collect();
        match open {
            Some(what) => Err(what),
            None => columns.checked().map(Some),
        }
    }

    /// Takes a column whose name says what it is.
    ///
    /// # Errors
    /// When the name leaves something open.
    pub(super) fn add(
        &mut self,
        place: usize,
        name: &str,
        found: NamedFigure,
    ) -> Result<(), String> {
        let figure = found
            .figure
            .map_err(|open| format!("its column '{name}' does not say {open}; {MAPPING}"))?;
        let figure = TableFigure::of(figure.metric, figure.kind, figure.unit)
            .map_err(|wrong| format!("its column '{name}': {wrong}; {MAPPING}"))?;
        self.figures.push(FigureColumn {
            place,
            name: name.into(),
            device: found.device,
            figure,
        });
        Ok(())
    }

    /// Whether operations or bytes are among its figures.
    fn has_load(&self) -> bool {
        self.figures.iter().any(|column| {
            let metric = column.figure.metric;
            metric.is_bytes()
                || matches!(
                    metric,
                    DiskMetric::Reads | DiskMetric::Writes | DiskMetric::Ops
                )
        })
    }

    /// Puts the columns of a disk beside each other.
    ///
    /// # Errors
    /// When two of them say the same.
    fn checked(mut self) -> Result<TableColumns, String> {
        self.figures.sort_by(|a, b| a.device.cmp(&b.device));
        for (at, column) in self.figures.iter().enumerate() {
            let is_same = |other: &&FigureColumn| {
                other.device == column.device && other.figure.metric == column.figure.metric
            };
            if let Some(other) = self.figures[..at].iter().find(is_same) {
                return Err(format!(
                    "its columns '{}' and '{}' are of the same figure; name one of them in a mapping file, \
                     which plimsoll new mapping FILE begins",
                    other.name, column.name
                ));
            }
        }
        Ok(self)
    }

    /// Those of a table of which a mapping file says what they are.
    ///
    /// # Errors
    /// When the table has no such column, or there is no such figure.
    pub(super) fn of_mapping(
        names: &[String],
        mapping: &MappingFile,
    ) -> Result<TableColumns, String> {
        let place = |wanted: &str| {
            names.iter().position(|name| name == wanted).ok_or_else(|| {
                let known: Vec<&str> = names.iter().map(String::as_str).collect();
                let near = nearest(wanted, known.iter().copied())
                    .map_or(String::new(), |near| format!(" ('{near}' is)"));
                format!(
                    "its column '{wanted}' is not in the table{near}; it has {}",
                    known.join(", ")
                )
            })
        };
        let optional = |wanted: &Option<String>| wanted.as_deref().map(place).transpose();
        let time = &mapping.time;
        let zone = time.zone.as_deref().map(|zone| {
            let parser = jiff::fmt::temporal::DateTimeParser::new();
            parser
                .parse_time_zone(zone)
                .map_err(|error| format!("time.zone: {error}"))
        });
        let interval = time
            .interval_s
            .map(|s| plimsoll_core::units::Nanos::from_secs_f64(s).0);
        let long = mapping.long.as_ref();
        let long = long.map(|long| Ok::<_, String>((place(&long.metric)?, place(&long.value)?)));
        let long = long.transpose()?;
        let mut columns = TableColumns {
            names: names.to_vec(),
            time: TimeColumn {
                place: place(&time.column)?,
                until: optional(&time.until)?,
                unit_ns: time.unit.map(MappingTimeUnit::nanoseconds),
                zone: zone.transpose()?,
                is_begin: time.marks == MappingTimeMark::Begin,
                interval_ns: interval.filter(|interval| *interval > 0),
            },
            device: optional(&mapping.device.column)?,
            host: None,
            only_device: mapping.device.name.clone(),
            long,
            passed_over: Vec::new(),
            figures: Vec::new(),
            has_decimal_commas: mapping.decimal
                == Some(plimsoll_core::mapping::MappingDecimal::Comma),
            is_mapped: true,
        };
        for column in &mapping.column {
            let figure = TableFigure::of(column.metric, column.kind, column.unit);
            let figure =
                figure.map_err(|wrong| format!("its column '{}': {wrong}", column.name))?;
            columns.figures.push(FigureColumn {
                place: match long {
                    Some((_, value)) => value,
                    None => place(&column.name)?,
                },
                name: column.name.clone(),
                device: column.device.clone(),
                figure,
            });
        }
        match columns.figures.is_empty() {
            true => Err("it has no [[column]], so no figure is read".into()),
            false => columns.checked(),
        }
    }
}
