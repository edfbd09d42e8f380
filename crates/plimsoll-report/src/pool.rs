// SPDX-License-Identifier: Apache-2.0
//! Many recordings described together.

use plimsoll_core::num::to_usize;
use plimsoll_core::profile::{
    PoolFigure, PoolMember, PoolProfile, PoolRequests, PoolSpread, TimeDistribution,
};
use plimsoll_core::units::{self, Nanos};

use crate::describe::profile;
use crate::model::{
    ReportAnswer, ReportDocument, ReportDoubt, ReportItem, ReportSection, ReportSeverity,
    ReportTable, ReportTableCell,
};
use crate::words::{count, dash, percent};

/// Report on many recordings.
pub fn pool(pool: &PoolProfile) -> ReportDocument {
    let mut sections = vec![spread(pool)];
    sections.push(busiest(pool));
    if let Some(requests) = &pool.requests {
        sections.push(self::requests(requests));
    }
    let title = format!("{} together", count(to_usize(pool.recordings), "recording"));
    let mut figure = None;
    if let Some(together) = &pool.together {
        let whole = profile(&title, "", together);
        figure = whole.answer.figure;
        sections.extend(whole.sections);
    }
    sections.extend(notes(pool));
    ReportDocument {
        subtitle: subtitle(pool),
        answer: ReportAnswer {
            text: format!("{}.", load(pool)),
            tone: ReportSeverity::Plain,
            facts: facts(pool),
            figure,
            next: Vec::new(),
            doubts: doubts(pool),
        },
        title,
        headline: Vec::new(),
        sections,
        // Plain data: numbers that are no numbers become null.
        data: serde_json::to_string(pool).unwrap_or_default(),
    }
}

fn subtitle(pool: &PoolProfile) -> String {
    let mut parts = vec![
        count(to_usize(pool.hosts), "host"),
        count(to_usize(pool.devices), "disk"),
        format!(
            "{} of disk time",
            units::clock_duration(Nanos::from_secs_f64(pool.device_s))
        ),
    ];
    if let Some(together) = &pool.together {
        parts.push(format!("{} to {}", together.from, together.to));
    }
    let settings = &pool.settings;
    let typed = [
        ("from", &settings.from),
        ("to", &settings.to),
        ("disk", &settings.disk),
    ];
    let typed = typed
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_ref()?)));
    parts.extend(typed.map(|(name, value)| format!("{name} {value} in each")));
    parts.join(" · ")
}

fn load(pool: &PoolProfile) -> String {
    format!(
        "{} ask for {} operations/s and {} together, each in the mean of its own time",
        count(to_usize(pool.hosts), "host"),
        units::rate(pool.ops_per_s),
        units::throughput(pool.bytes_per_s)
    )
}

fn facts(pool: &PoolProfile) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let of_hosts = |figure: PoolFigure| pool.host_spread.iter().find(|row| row.figure == figure);
    if let Some(ops) = of_hosts(PoolFigure::OpsPerS) {
        let text = format!(
            "half of them at most {} operations/s, the busiest {}",
            units::rate(ops.median),
            units::rate(ops.max)
        );
        facts.push(("Hosts".to_owned(), text));
    }
    if let Some(together) = &pool.together {
        let points = together.points.iter().map(|point| {
            point.reads_peak_per_s.unwrap_or_default() + point.writes_peak_per_s.unwrap_or_default()
        });
        let peak = points.fold(0.0, f64::max);
        let step = Nanos(pool.settings.step_s.saturating_mul(1_000_000_000));
        let text = format!(
            "at most {} operations/s in a step of {step}",
            units::rate(peak)
        );
        facts.push(("At the same time".to_owned(), text));
    }
    facts
}

fn doubts(pool: &PoolProfile) -> Vec<ReportDoubt> {
    let unread = (pool.unread > 0).then(|| ReportDoubt {
        text: format!(
            "{} could not be read and {} not in any figure.",
            count(to_usize(pool.unread), "recording"),
            if pool.unread == 1 { "is" } else { "are" }
        ),
        section: "notes".into(),
    });
    unread.into_iter().collect()
}

/// How a figure is called and shown.
fn words(figure: PoolFigure) -> (&'static str, fn(f64) -> String) {
    let response = |ms: f64| units::duration(Nanos::from_secs_f64(ms / 1e3));
    match figure {
        PoolFigure::OpsPerS => ("operations/s", units::rate),
        PoolFigure::PeakOpsPerS => ("peak operations/s of a disk", units::rate),
        PoolFigure::BytesPerS => ("bytes/s", units::throughput),
        PoolFigure::ReadShare => ("reads", percent),
        PoolFigure::SizeBytes => ("mean size", units::size),
        PoolFigure::Busy => ("busy", percent),
        PoolFigure::Queue => ("queue", units::three_digits),
        PoolFigure::ResponseMs => ("response", response),
    }
}

fn spread(pool: &PoolProfile) -> ReportSection {
    let mut section = ReportSection::new("Spread", "");
    for (of, rows) in [("Hosts", &pool.host_spread), ("Disks", &pool.device_spread)] {
        let columns = [
            "Mean over time",
            "~#of",
            "#least",
            "#median",
            "#90 %",
            "#99 %",
            "#most",
        ];
        let mut table = ReportTable::new(format!("{of}: how their figures are spread"), &columns);
        table.rows = rows.iter().map(spread_row).collect();
        section.items.push(ReportItem::Table(table));
    }
    if !pool.interval_rates.is_empty() {
        let columns = [
            "Share of the intervals of all disks",
            "#operations/s at most",
        ];
        let mut table = ReportTable::new("Single intervals", &columns);
        table.rows = pool
            .interval_rates
            .iter()
            .map(|(share, rate)| {
                let share = format!("{} %", units::three_digits(share * 100.0));
                vec![
                    ReportTableCell::new(share),
                    ReportTableCell::new(units::rate(*rate)).value(*rate),
                ]
            })
            .collect();
        table.notes.push(
            "From a histogram: at most 1/64 above the truth. Requests are counted in intervals of a \
             second."
                .into(),
        );
        section.items.push(ReportItem::Table(table));
    }
    section
}

fn spread_row(row: &PoolSpread) -> Vec<ReportTableCell> {
    let (name, show) = words(row.figure);
    let figures = [row.min, row.median, row.p90, row.p99, row.max];
    let cells = figures.map(|value| ReportTableCell::new(show(value)).value(value));
    let of = ReportTableCell::new(row.count.to_string()).value(row.count as f64);
    [ReportTableCell::new(name), of]
        .into_iter()
        .chain(cells)
        .collect()
}

fn busiest(pool: &PoolProfile) -> ReportSection {
    let mut section = ReportSection::new("Busiest", "");
    let figures = [
        PoolFigure::OpsPerS,
        PoolFigure::PeakOpsPerS,
        PoolFigure::BytesPerS,
        PoolFigure::ReadShare,
        PoolFigure::Busy,
        PoolFigure::Queue,
        PoolFigure::ResponseMs,
    ];
    let numbers = [
        "#Ops/s",
        "~#Peak",
        "#Bytes/s",
        "#Reads",
        "#Busy",
        "~#Queue",
        "~#Response",
    ];
    let row = |member: &PoolMember, second: String| {
        let cells = figures.map(|figure| {
            let (_, show) = words(figure);
            member
                .figure(figure)
                .map_or_else(dash, |value| ReportTableCell::new(show(value)).value(value))
        });
        // Without a name of the host it is that of the recording, of which the end says most.
        let host = member.host.rsplit('/').next().unwrap_or(&member.host);
        [ReportTableCell::new(host), ReportTableCell::new(second)]
            .into_iter()
            .chain(cells)
            .collect()
    };
    let columns: Vec<&str> = ["Host", "~#Disks"].into_iter().chain(numbers).collect();
    let mut hosts = ReportTable::new("Hosts by operations, means over time", &columns);
    let members = pool.busiest_hosts.iter();
    hosts.rows = members
        .map(|member| row(member, member.devices.to_string()))
        .collect();
    more(&mut hosts, pool.hosts);
    hosts
        .notes
        .push("Peak and busy: of the host's busiest disk.".into());
    let columns: Vec<&str> = ["Host", "Disk"].into_iter().chain(numbers).collect();
    let mut devices = ReportTable::new("Disks by operations, means over time", &columns);
    let members = pool.busiest_devices.iter();
    devices.rows = members
        .map(|member| row(member, member.device.clone().unwrap_or_default()))
        .collect();
    more(&mut devices, pool.devices);
    section
        .items
        .extend([hosts, devices].map(ReportItem::Table));
    section
}

fn more(table: &mut ReportTable, all: u64) {
    let more = all.saturating_sub(table.rows.len() as u64);
    if more > 0 {
        table.notes.push(format!("and {more} more with less load"));
    }
}

fn requests(requests: &PoolRequests) -> ReportSection {
    let mut section = ReportSection::new("Requests", "");
    let time = |of: Option<&TimeDistribution>, q: f64| {
        let found = of.and_then(|times| times.quantile_ns(q));
        found.map_or_else(dash, |ns| {
            ReportTableCell::new(units::duration(Nanos(ns))).value(ns as f64)
        })
    };
    let recordings = count(to_usize(requests.recordings), "recording");
    let columns = [
        "Requests", "#count", "#bytes", "#median", "#99 %", "#99.9 %",
    ];
    let mut table = ReportTable::new(
        format!("Requests of {recordings}, and their response times"),
        &columns,
    );
    let number = |value: u64| ReportTableCell::new(value.to_string()).value(value as f64);
    for kind in &requests.kinds {
        let bytes = kind.bytes.unwrap_or_default() as f64;
        let response = kind.response.as_ref();
        table.rows.push(vec![
            ReportTableCell::new(kind.kind.name()),
            number(kind.requests),
            ReportTableCell::new(units::size(bytes)).value(bytes),
            time(response, 0.5),
            time(response, 0.99),
            time(response, 0.999),
        ]);
    }
    if let Some(gaps) = &requests.gaps {
        let starts = ReportTableCell::new("between starts on a disk");
        table.rows.push(vec![
            starts,
            number(gaps.count),
            dash(),
            time(Some(gaps), 0.5),
            time(Some(gaps), 0.99),
            time(Some(gaps), 0.999),
        ]);
    }
    table
        .notes
        .push("From histograms: times are at most 1/64 above the truth.".into());
    let mut sizes = ReportTable::new("Sizes", &["Kind", "#at most", "#requests"]);
    sizes.rows = requests
        .sizes
        .iter()
        .map(|size| {
            let bytes = size.bytes_max as f64;
            vec![
                ReportTableCell::new(size.kind.name()),
                ReportTableCell::new(units::size(bytes)).value(bytes),
                number(size.requests),
            ]
        })
        .collect();
    section.items.push(ReportItem::Table(table));
    if !sizes.rows.is_empty() {
        section.items.push(ReportItem::Table(sizes));
    }
    section
}

fn notes(pool: &PoolProfile) -> Option<ReportSection> {
    let mut section = ReportSection::new("Notes", "").at("notes");
    let named = pool.unread_named.iter();
    let unread = named.map(|one| format!("{} was not read: {}", one.recording, one.reason));
    let more = pool.unread.saturating_sub(pool.unread_named.len() as u64);
    let more = (more > 0).then(|| format!("and {more} more were not read"));
    let all = doubts(pool).into_iter().map(|doubt| doubt.text);
    let all = all.chain(unread).chain(more);
    let all = all.chain(pool.warnings.iter().cloned());
    section.items = all
        .map(|text| ReportItem::Notice(ReportSeverity::Care, text))
        .collect();
    (!section.items.is_empty()).then_some(section)
}
