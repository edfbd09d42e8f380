// SPDX-License-Identifier: Apache-2.0
//! InfluxDB and Telegraf: line protocol, and the CSV that Flux and InfluxQL print.
//!
//! Sources: the pages "Line protocol reference" and "Annotated CSV" of InfluxDB's documentation, and the
//! output of `influx -format csv` (1.6: `name`, `tags`, `time`, and a column of each field); the
//! measurement is that of Telegraf's plugin `diskio`, whose values are the kernel's own counters. Files of
//! `influx_inspect export` and `influxd inspect export-lp` hold lines series
//! by series, one field each, with comments and statements before them.

use plimsoll_core::units::Nanos;

use super::monitored::{self, MonitoredSamples, SeriesLabels};
use super::{CounterFormat, CounterScan};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::text::{lines, whole};

/// Recognised by a line of a known measurement, or by the heading of an export.
pub(super) const LINES: CounterFormat = CounterFormat {
    name: "line protocol of InfluxDB or Telegraf",
    resolution: Nanos(1),
    is: |head| {
        let is_disk = |line: &[u8]| {
            let point = str::from_utf8(line).ok().and_then(Point::of);
            point.is_some_and(|point| point.fields().any(|(name, _)| monitored::is_known(&name)))
        };
        lines(head).any(|line| line == b"# DML" || is_disk(line))
    },
    scan: scan_lines,
};

/// Recognised by the names of Flux's columns.
pub(super) const CSV: CounterFormat = CounterFormat {
    name: "CSV of InfluxDB",
    resolution: Nanos(1),
    is: |head| {
        let mut first = lines(head).filter(|line| !line.starts_with(b"#")).take(4);
        first.any(|line| {
            let names = cells(&String::from_utf8_lossy(line)).unwrap_or_default();
            let has = |name: &str| names.iter().any(|known| known == name);
            let is_flux = has("_time") && (has("table") || has("_measurement") || has("_value"));
            is_flux || names.starts_with(&OF_INFLUXQL.map(String::from))
        })
    },
    scan: scan_csv,
};

/// `measurement,tag=value,… field=value,… time`.
struct Point<'a> {
    measurement: String,
    tags: SeriesLabels,
    values: &'a str,
    /// Digits of whatever unit it was written in.
    time: &'a str,
}

impl<'a> Point<'a> {
    fn of(line: &'a str) -> Option<Point<'a>> {
        let mut parts = parts(line, ' ').into_iter();
        let (series, values, time) = (parts.next()?, parts.next()?, parts.next().unwrap_or(""));
        let mut series = self::parts(series, ',').into_iter();
        let measurement = plain(series.next().filter(|name| !name.is_empty())?);
        let mut tags = SeriesLabels::new();
        for tag in series {
            let (name, value) = pair(tag)?;
            if tags.insert(name, plain(value)).is_some() {
                return None;
            }
        }
        let is_whole = parts.next().is_none() && time.bytes().all(|byte| byte.is_ascii_digit());
        let is_point = is_whole
            && self::parts(values, ',')
                .into_iter()
                .all(|v| pair(v).is_some());
        is_point.then_some(Point {
            measurement,
            tags,
            values,
            time,
        })
    }

    /// Names of metrics and their numbers.
    fn fields(&self) -> impl Iterator<Item = (String, f64)> {
        let fields = parts(self.values, ',').into_iter();
        fields.filter_map(|field| {
            let (name, value) = pair(field)?;
            let value = value.trim_end_matches(['i', 'u']).parse().ok()?;
            Some((format!("{}_{name}", self.measurement), value))
        })
    }
}

/// The parts between separators that are neither escaped nor in quotation marks.
fn parts(text: &str, separator: char) -> Vec<&str> {
    let (mut is_escaped, mut is_quoted) = (false, false);
    let between = |c: char| {
        let is_end = c == separator && !is_escaped && !is_quoted;
        is_quoted ^= c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    };
    text.split(between).collect()
}

/// `name=value`.
fn pair(text: &str) -> Option<(String, &str)> {
    let name = *parts(text, '=').first()?;
    let value = text.get(name.len() + 1..)?;
    (!name.is_empty()).then(|| (plain(name), value))
}

/// Without the signs that escape others.
fn plain(text: &str) -> String {
    text.replace('\\', "")
}

/// A time in seconds, milliseconds, microseconds or nanoseconds, whichever makes it one of this age.
fn instant_ns(digits: &str) -> Option<u64> {
    let value = whole(digits.as_bytes()).filter(|value| *value > 0)?;
    let limits = [
        (100_000_000_000, 1_000_000_000),
        (100_000_000_000_000, 1_000_000),
    ];
    let limits = limits.into_iter().chain([(100_000_000_000_000_000, 1_000)]);
    let unit = limits.into_iter().find(|(below, _)| value < *below);
    value.checked_mul(unit.map_or(1, |(_, ns)| ns))
}

fn scan_lines(input: &mut RecordingInput, scan: &mut CounterScan<'_>) -> Result<(), TraceError> {
    each_line(input, scan, |line, found| {
        let is_statement = line.starts_with('#') || line.starts_with("CREATE ");
        if line.is_empty() || is_statement {
            return Ok(());
        }
        let point = Point::of(line).ok_or("it is no line of the line protocol, or cut off")?;
        for (name, value) in point.fields() {
            if let Some(series) = found.series(&name, &point.tags) {
                let at = instant_ns(point.time).ok_or("it has no time")?;
                found.sample(series, at, value)?;
            }
        }
        Ok(())
    })
}

/// Gives lines away as text, and tells of those that are refused and of a last one without an end.
fn each_line(
    input: &mut RecordingInput,
    scan: &mut CounterScan<'_>,
    mut take: impl FnMut(&str, &mut MonitoredSamples) -> Result<(), String>,
) -> Result<(), TraceError> {
    let mut found = MonitoredSamples::default();
    let mut end = 0;
    scan.lines(input, RecordingInput::line, |scan, offset, line| {
        end = offset + line.len() as u64;
        let text = str::from_utf8(line).map_err(|_| "it is no UTF-8".to_owned());
        take(text?, &mut found)?;
        scan.right();
        Ok::<(), String>(())
    })?;
    if scan.told.damage.is_none() && end > 0 && end == input.offset() {
        scan.told.damage = Some(input.damage(end, "the file is cut off: its last line has no end"));
    }
    found.finish(scan);
    Ok(())
}

/// The columns of a table of Flux.
#[derive(Default)]
struct FluxTable {
    names: Vec<String>,
}

/// The first columns of what InfluxQL prints: a measurement, its tags, nanoseconds.
const OF_INFLUXQL: [&str; 3] = ["name", "tags", "time"];

/// Columns that Flux makes itself.
const OWN: [&str; 9] = [
    "",
    "result",
    "table",
    "_start",
    "_stop",
    "_time",
    "_value",
    "_field",
    "_measurement",
];

impl FluxTable {
    fn row(&mut self, line: &str, found: &mut MonitoredSamples) -> Result<(), String> {
        // Another table begins, with names of its own.
        if line.is_empty() || line.starts_with('#') {
            self.names.clear();
            return Ok(());
        }
        let cells = cells(line).ok_or("a quotation mark is missing")?;
        if self.names.is_empty() {
            self.names = cells;
            return Ok(());
        }
        if cells.len() != self.names.len() {
            return Err("it has not as many columns as the heading".into());
        }
        let cell = |name: &str| {
            let place = self.names.iter().position(|known| known == name);
            place.map(|place| &*cells[place])
        };
        if let Some(error) = cell("error") {
            return Err(format!("an error was answered: {error}"));
        }
        let is_influxql = self.names.starts_with(&OF_INFLUXQL.map(String::from));
        let (measurement, own) = if is_influxql {
            (cell("name"), &OF_INFLUXQL[..])
        } else {
            (cell("_measurement"), &OWN[..])
        };
        let measurement = measurement.unwrap_or("diskio");
        let all = || self.names.iter().zip(&cells);
        let is_figure = |name: &str| monitored::is_known(&format!("{measurement}_{name}"));
        let tags = all().filter(|(name, _)| !own.contains(&&***name) && !is_figure(name));
        let mut tags: SeriesLabels = tags.map(|(n, v)| (n.clone(), v.clone())).collect();
        if let Some(text) = cell("tags").filter(|_| is_influxql) {
            let pairs = parts(text, ',').into_iter().filter_map(pair);
            tags.extend(pairs.map(|(name, value)| (name, plain(value))));
        }
        let time = cell("_time").or(cell("time")).unwrap_or("");
        let at = instant_ns(time).or_else(|| {
            let at = time.parse::<jiff::Timestamp>().ok()?;
            u64::try_from(at.as_nanosecond()).ok()
        });
        let figures: Vec<(&str, &str)> = match cell("_field").zip(cell("_value")) {
            Some(figure) => vec![figure],
            // InfluxQL prints, and a table that was pivoted has, a column of each field.
            None => all()
                .filter(|(name, _)| is_figure(name))
                .map(|(name, value)| (&**name, &**value))
                .collect(),
        };
        for (field, value) in figures.into_iter().filter(|(_, value)| !value.is_empty()) {
            if let Some(series) = found.series(&format!("{measurement}_{field}"), &tags) {
                let value = value
                    .parse()
                    .map_err(|_| "its value is no number".to_owned())?;
                found.sample(series, at.ok_or("its time is none")?, value)?;
            }
        }
        Ok(())
    }
}

fn scan_csv(input: &mut RecordingInput, scan: &mut CounterScan<'_>) -> Result<(), TraceError> {
    let mut table = FluxTable::default();
    each_line(input, scan, |line, found| table.row(line, found))
}

/// The cells of a line of CSV; `None` when a quotation mark is missing.
fn cells(line: &str) -> Option<Vec<String>> {
    let mut is_quoted = false;
    let cells = line.split(|c: char| {
        is_quoted ^= c == '"';
        c == ',' && !is_quoted
    });
    let cells: Vec<String> = cells
        .map(|cell| {
            let inside = cell
                .strip_prefix('"')
                .and_then(|cell| cell.strip_suffix('"'));
            inside.map_or_else(|| cell.to_owned(), |inside| inside.replace("\"\"", "\""))
        })
        .collect();
    (!is_quoted).then_some(cells)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{INFLUX_CSV, INFLUX_LINES, open, series, sums};
    use super::super::{CounterFile, CounterSource};
    use crate::series::DiskMetric::{Active, InFlight, ReadBytes, ReadTime, Reads, Writes};

    #[test]
    fn the_counters_of_telegraf_are_read_as_lines_and_as_tables() {
        let expect = [
            (Reads, 300.0),
            (ReadBytes, 4_096.0),
            (Active, 0.25),
            (ReadTime, 1.5),
        ];
        let file = open(INFLUX_LINES);
        assert_eq!(
            (file.disks(), &*file.about().host),
            (vec!["sda".into()], "db 1")
        );
        assert_eq!(sums(INFLUX_LINES, "sda"), expect);
        assert_eq!(
            series(&file, "sda").column(InFlight).unwrap().samples.len(),
            2
        );
        for unit in ["", "000", "000000"] {
            let other = INFLUX_LINES.replace("000000000\n", &format!("{unit}\n"));
            assert_eq!(sums(&other, "sda"), expect, "{unit}");
        }
        assert_eq!(sums(INFLUX_CSV, "sda"), [(Reads, 300.0), (Writes, 7.0)]);
        let pivoted = ",result,table,_time,host,name,reads,writes\n\
                       ,,0,2026-11-20T00:00:00Z,a,sda,5,1\n\
                       ,,0,2026-11-20T00:00:10Z,a,sda,9,1\n";
        assert_eq!(sums(pivoted, "sda"), [(Reads, 4.0), (Writes, 0.0)]);
        // As InfluxDB 1.6.7 printed it.
        let influxql = "name,tags,time,host,io_time,read_bytes,reads\n\
                        diskio,name=sda,1700000000000000000,db 1,50,4096,100\n\
                        diskio,name=sda,1700000010000000000,db 1,300,8192,400\n";
        assert_eq!(
            sums(influxql, "sda"),
            [(Reads, 300.0), (ReadBytes, 4_096.0), (Active, 0.25)]
        );
    }

    #[test]
    fn damaged_lines_and_tables_are_told() {
        let cut = &INFLUX_LINES[..INFLUX_LINES.len() - 4];
        assert!(open(cut).damage().unwrap().what.contains("cut off"));
        let twice = INFLUX_LINES.replacen("name=sda", "name=sda,name=sdb", 1);
        assert!(open(&twice).warnings()[0].contains("not understood"));
        let short = INFLUX_CSV.replacen(",sda\n", "\n", 1);
        assert!(open(&short).warnings()[0].contains("as many columns"));
        for (text, part) in [
            ("diskio,name=sda reads=5i\n".to_owned(), "it has no time"),
            (
                "diskio,name=sda reads=-5i 1700000000\n".to_owned(),
                "-5 is no count",
            ),
            (
                "_time,table,error\n,,no such bucket\n".to_owned(),
                "no such bucket",
            ),
        ] {
            let error = CounterFile::from_bytes("f", text.into()).unwrap_err();
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
    }
}
