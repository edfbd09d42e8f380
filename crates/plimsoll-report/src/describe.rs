// SPDX-License-Identifier: Apache-2.0
//! A recording described: its devices side by side, and one of them in full.

mod over_time;
mod phases;
mod requests;

use plimsoll_core::model::BurstPattern;
use plimsoll_core::num::to_usize;
use plimsoll_core::profile::{
    DeviceLoad, DeviceRanking, DeviceRankingKey, DirectionProfile, DiskProfile, ProfileAverage,
    QueueSource, RecordingProfile,
};
use plimsoll_core::units;

use crate::model::{
    ReportAnswer, ReportDocument, ReportDoubt, ReportFinding, ReportItem, ReportSection,
    ReportSeverity, ReportTable, ReportTableCell,
};
use crate::words::{count, dash, percent};

/// Most devices of the table; the data has all.
const DEVICES_MAX: usize = 24;

/// Report on a recording.
pub fn describe(description: &RecordingProfile) -> ReportDocument {
    let profile = &description.profile;
    let host = match description.host.as_str() {
        "" => String::new(),
        host => format!("host {host} · "),
    };
    let about = format!("{} · {host}", description.format);
    let mut report = self::profile(&description.recording, &about, profile);
    report.sections.insert(0, devices(&description.devices));
    let mut notes = ReportSection::new("Notes", "");
    let warnings = description.warnings.iter();
    notes.items = warnings
        .map(|warning| ReportItem::Notice(ReportSeverity::Care, warning.clone()))
        .collect();
    if !notes.items.is_empty() {
        report.sections.push(notes);
    }
    // Plain data: numbers that are no numbers become null.
    report.data = serde_json::to_string(description).unwrap_or_default();
    report
}

/// Report on one device of a recording. `about` is the text before the window.
pub fn profile(recording: &str, about: &str, profile: &DiskProfile) -> ReportDocument {
    let mut sections = vec![averages(profile)];
    sections.extend(spread(profile));
    sections.extend(over_time::section(profile));
    sections.extend(phases::section(&profile.phases));
    if let Some(requests) = &profile.requests {
        sections.extend(requests::sections(requests));
    }
    let name = recording.rsplit('/').next().unwrap_or(recording);
    let place = match recording.strip_suffix(name) {
        Some("") | None => String::new(),
        Some(folder) => format!("{folder} · "),
    };
    ReportDocument {
        title: format!("{} of {name}", profile.disk),
        subtitle: format!(
            "{place}{about}{} to {} · {} of {}, {} dropped",
            profile.from,
            profile.to,
            count(to_usize(profile.intervals), "interval"),
            units::duration(units::Nanos::from_secs_f64(profile.interval_s)),
            profile.intervals_dropped
        ),
        answer: answer(profile),
        headline: headline(profile),
        sections,
        data: "{}".into(),
    }
}

/// The load in a sentence; what can be done with the recording.
fn answer(profile: &DiskProfile) -> ReportAnswer {
    let bursts = match profile.bursts.first() {
        Some(burst) => burst_text(burst),
        None => "none found".into(),
    };
    let facts = [("Load", load_detail(profile)), ("Bursts", bursts)];
    let facts = facts.into_iter().filter(|(_, text)| !text.is_empty());
    let dropped = profile.intervals_dropped;
    let doubt = |text: String| ReportDoubt {
        text,
        section: String::new(),
    };
    let missing = (dropped > 0).then(|| {
        doubt(format!(
            "{} could not be used.",
            count(to_usize(dropped), "interval")
        ))
    });
    let counters = profile.requests.is_none().then(|| {
        doubt(
            "Counters say nothing of offsets, nor of the order of requests within an interval."
                .into(),
        )
    });
    ReportAnswer {
        text: format!("{} asks for {}.", profile.disk, load_text(profile)),
        tone: ReportSeverity::Plain,
        facts: facts.map(|(name, text)| (name.to_owned(), text)).collect(),
        figure: over_time::first_figure(profile),
        next: Vec::new(),
        doubts: missing.into_iter().chain(counters).collect(),
    }
}

fn headline(profile: &DiskProfile) -> Vec<ReportFinding> {
    let load = ReportFinding::new("load", load_text(profile));
    let mut said = vec![load.detail(load_detail(profile))];
    let found = profile.bursts.iter();
    said.extend(found.map(|burst| ReportFinding::new("bursts", burst_text(burst))));
    if profile.bursts.is_empty() {
        said.push(ReportFinding::new("bursts", "none found"));
    }
    if profile.phases.len() > 1 {
        let names = profile.phases.iter().map(|p| {
            let share = percent(p.share);
            format!("{} ({share})", p.name)
        });
        let text = names.collect::<Vec<_>>().join(", ");
        said.push(ReportFinding::new("phases", text));
    }
    if let Some(requests) = &profile.requests {
        said.extend(requests::headline(requests));
    }
    let muted = |one: ReportFinding| one.tone(ReportSeverity::Muted);
    said.into_iter().map(muted).collect()
}

fn load_text(profile: &DiskProfile) -> String {
    let direction = |d: &DirectionProfile| {
        let name = d.direction.name();
        match (d.ops_per_s.map(|ops| ops.time), d.mean_size_bytes) {
            (Some(ops), _) if ops <= 0.0 => format!("no {name}s"),
            (Some(ops), Some(size)) => {
                let size = units::size(size.time);
                format!("{} {name}s/s of {size}", units::rate(ops))
            }
            (Some(ops), None) => format!("{} {name}s/s", units::rate(ops)),
            (None, _) => {
                let bytes = d.bytes_per_s.map_or(0.0, |bytes| bytes.time);
                format!("{} {name}", units::throughput(bytes))
            }
        }
    };
    let told: Vec<String> = profile.directions.iter().map(direction).collect();
    let load = match (&told[..], profile.ops_per_s) {
        ([], Some(ops)) => {
            let ops = units::rate(ops.time);
            format!("{ops} operations/s, reads and writes not distinguished")
        }
        ([], None) => "operations were not recorded".into(),
        _ => told.join(" and "),
    };
    match profile.bytes_per_s {
        Some(bytes) => format!("{load}: {}", units::throughput(bytes.time)),
        None => load,
    }
}

fn load_detail(profile: &DiskProfile) -> String {
    let mut told = Vec::new();
    if let Some(busy) = profile.utilisation {
        told.push(format!("{} busy", percent(busy.time)));
    }
    if let Some(queue) = &profile.queue {
        let how = match queue.source {
            QueueSource::Integrated => "",
            QueueSource::Sampled => " (sampled)",
        };
        let mean = units::three_digits(queue.average.time);
        told.push(format!("mean queue {mean}{how}"));
    }
    told.extend(profile.directions.iter().filter_map(|d| {
        let peak = d.rates?.peak_per_s;
        let text = || {
            format!(
                "at most {} {}s/s in an interval",
                units::rate(peak),
                d.direction.name()
            )
        };
        (peak > 0.0).then(text)
    }));
    if profile.directions.iter().any(|d| d.ops_per_s.is_none()) {
        told.push("operations were not recorded".into());
    }
    told.join("; ")
}

fn devices(devices: &DeviceRanking) -> ReportSection {
    let by = match devices.ranked_by {
        DeviceRankingKey::Queue => "the time their operations took together",
        DeviceRankingKey::Busy => "the time they were busy",
        DeviceRankingKey::Operations => "their operations",
        DeviceRankingKey::Bytes => "their bytes",
    };
    let mut section = ReportSection::new("Devices", "");
    let columns = [
        "Device",
        "~Layer",
        "#Ops/s",
        "#Reads",
        "#Bytes/s",
        "#Busy",
        "#Queue",
        "#Response",
    ];
    let mut table = ReportTable::new(format!("Devices by {by}, means over time"), &columns);
    let shown = devices.devices.iter().take(DEVICES_MAX);
    table.rows = shown.map(device).collect();
    let counted = devices.devices.iter().filter(|d| !d.counted_again).count();
    if counted > 1 {
        let mut all = vec![dash(); columns.len()];
        all[0] = ReportTableCell::new("all").detail(format!("{counted} devices"));
        all[1] = ReportTableCell::new("");
        all[2] = told(devices.ops_per_s, &units::rate);
        all[4] = told(devices.bytes_per_s, &units::throughput);
        table.rows.push(all);
    }
    if devices.devices.iter().any(|d| d.counted_again) {
        table.notes.push(
            "In brackets: layers above others of these devices, and single paths to one of them. \
             Their load is already counted, so it is not in the sum."
                .into(),
        );
    }
    let more = devices.devices.len().saturating_sub(DEVICES_MAX);
    if more > 0 {
        table.notes.push(format!("and {more} more with less load"));
    }
    section.items.push(ReportItem::Table(table));
    section
}

/// A figure; a dash where it was not recorded.
fn told(value: Option<f64>, show: &dyn Fn(f64) -> String) -> ReportTableCell {
    value.map_or_else(dash, |value| ReportTableCell::new(show(value)))
}

fn device(device: &DeviceLoad) -> Vec<ReportTableCell> {
    let bracketed = |text: &str| match device.counted_again {
        true => ReportTableCell::new(format!("({text})")).tone(ReportSeverity::Muted),
        false => ReportTableCell::new(text),
    };
    vec![
        bracketed(&device.name),
        bracketed(device.layer.name()),
        told(device.ops_per_s, &units::rate),
        told(device.read_share, &percent),
        told(device.bytes_per_s, &units::throughput),
        told(device.busy, &percent),
        told(device.queue, &units::three_digits),
        told(device.response_ms, &|ms| {
            units::duration(units::Nanos::from_secs_f64(ms / 1e3))
        }),
    ]
}

fn averages(profile: &DiskProfile) -> ReportSection {
    let mut section = ReportSection::new("Averages", "");
    let mut table = ReportTable::new(
        format!("Averages of {}", profile.disk),
        &["Figure", "#of interval rates", "#over time", "Unit"],
    );
    table.rows = average_rows(profile)
        .into_iter()
        .map(|row| {
            let cell = |value: f64| ReportTableCell::new(format!("{value:.0$}", row.decimals));
            vec![
                ReportTableCell::new(&row.figure),
                cell(row.average.stochastic),
                cell(row.average.time),
                ReportTableCell::new(row.unit),
            ]
        })
        .collect();
    if let Some(queue) = &profile.queue
        && let (QueueSource::Sampled, Some(error)) = (queue.source, queue.standard_error)
    {
        let error = units::three_digits(error);
        table.notes.push(format!(
            "The queue was sampled at instants: standard error ±{error}."
        ));
    }
    if let Some(busy) = profile.busy_ms_per_op {
        table
            .notes
            .push(format!("Busy for {busy:.3} ms per operation."));
    }
    let shares = profile.directions.iter();
    let shares: Option<Vec<String>> = shares
        .map(|d| Some(format!("{:.0}", d.share? * 100.0)))
        .collect();
    if let Some([read, write]) = shares.as_deref() {
        let text = format!("read : write = {read} : {write}");
        table.notes.push(text);
    }
    section.items.push(ReportItem::Table(table));
    section
}

/// One row of the table of averages.
#[derive(Debug, Clone)]
pub(crate) struct AverageRow {
    /// `read operations`.
    pub(crate) figure: String,
    /// Both averages.
    pub(crate) average: ProfileAverage,
    /// Of the averages.
    pub(crate) unit: &'static str,
    /// Decimals worth printing.
    decimals: usize,
}

/// Everything of a profile that has both averages.
pub(crate) fn average_rows(profile: &DiskProfile) -> Vec<AverageRow> {
    let mut rows = Vec::new();
    let mut row =
        |figure: String, average: Option<ProfileAverage>, unit: &'static str, decimals| {
            rows.extend(average.map(|average| AverageRow {
                figure,
                average,
                unit,
                decimals,
            }));
        };
    let of = |average: ProfileAverage, f: &dyn Fn(f64) -> f64| ProfileAverage {
        stochastic: f(average.stochastic),
        time: f(average.time),
    };
    let kib = |average: Option<ProfileAverage>| average.map(|a| of(a, &|bytes| bytes / 1024.0));
    if profile.directions.is_empty() {
        row("operations".into(), profile.ops_per_s, "1/s", 6);
        row("throughput".into(), kib(profile.bytes_per_s), "KiB/s", 6);
        row("throughput".into(), profile.bytes_per_s, "B/s", 2);
    }
    for d in &profile.directions {
        let name = d.direction.name();
        row(format!("{name} operations"), d.ops_per_s, "1/s", 6);
        row(format!("{name} throughput"), kib(d.bytes_per_s), "KiB/s", 6);
        row(format!("{name} throughput"), d.bytes_per_s, "B/s", 2);
        let size = d.mean_size_bytes;
        row(format!("{name} mean size"), kib(size), "KiB", 3);
        row(format!("{name} mean size"), size, "B", 1);
    }
    if profile.directions.len() == 1 && profile.ops_per_s.is_some() {
        row("operations".into(), profile.ops_per_s, "1/s", 6);
    }
    for other in &profile.others {
        let unit = if other.is_bytes { "B/s" } else { "1/s" };
        row(other.what.clone(), Some(other.per_s), unit, 6);
    }
    if let Some(busy) = profile.utilisation {
        row("busy share of time".into(), Some(busy), "1", 6);
        let idle = of(busy, &|busy| 1.0 - busy);
        row("idle share of time".into(), Some(idle), "1", 6);
    }
    if let Some(queue) = &profile.queue {
        row("mean queue".into(), Some(queue.average), "1", 6);
    }
    rows
}

/// How the rates of the intervals are spread; `None` when directions are not recorded.
fn spread(profile: &DiskProfile) -> Option<ReportSection> {
    let columns = [
        "Operations/s",
        "#median",
        "#p95",
        "#peak",
        "#burstiness (IDC)",
    ];
    let mut table = ReportTable::new("Rates of the intervals", &columns);
    let row = |d: &DirectionProfile| {
        let rates = d.rates?;
        let rate = |per_s| ReportTableCell::new(units::rate(per_s));
        Some(vec![
            ReportTableCell::new(d.direction.name()),
            rate(rates.median_per_s),
            rate(rates.p95_per_s),
            rate(rates.peak_per_s),
            told(d.idc, &|idc| format!("{idc:.0}")),
        ])
    };
    table.rows = profile.directions.iter().filter_map(row).collect();
    let is_empty = table.rows.is_empty();
    let mut section = ReportSection::new("Spread", "");
    section.items.push(ReportItem::Table(table));
    (!is_empty).then_some(section)
}

fn burst_text(burst: &BurstPattern) -> String {
    let period = match (burst.period_s, burst.autocorrelation) {
        (Some(period), Some(acf)) => format!("every {period:.0} s (autocorrelation {acf:.2})"),
        (Some(period), None) => format!("every {period:.0} s"),
        _ => "at no steady period".into(),
    };
    format!(
        "{}s: {} above {}/s, {period}; {:.0} % of the time, {:.0} % of the operations",
        burst.direction.name(),
        count(to_usize(burst.count), "burst"),
        units::rate(burst.threshold_per_s),
        burst.duty * 100.0,
        burst.share * 100.0
    )
}

/// The clock of `11:00:02.25+10:00`, without its zone.
fn without_zone(time: &str) -> &str {
    let end = time.find(['+', '-', 'Z']).unwrap_or(time.len());
    &time[..end]
}

/// Seconds east of Greenwich at the end of `2010-07-14T11:00:02+10:00`; `None` without a date.
pub(crate) fn zone_s(from: &str) -> Option<f64> {
    let (_, time) = from.split_once('T')?;
    let sign = time.rfind(['+', '-'])?;
    let (hours, minutes) = time.get(sign + 1..)?.split_once(':')?;
    let hours: f64 = hours.parse().ok()?;
    let minutes: f64 = minutes.parse().ok()?;
    let east = hours * 3_600.0 + minutes * 60.0;
    Some(if time.as_bytes()[sign] == b'-' {
        -east
    } else {
        east
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_of_a_recording_is_told_by_its_first_instant() {
        for (from, expect) in [
            ("2010-07-14T11:00:02+10:00", Some(36_000.0)),
            ("2010-07-14T11:00:02-03:30", Some(-12_600.0)),
            ("its start", None),
            ("2010-07-14T11", None),
        ] {
            assert_eq!(zone_s(from), expect, "{from}");
        }
    }
}
