// SPDX-License-Identifier: Apache-2.0
//! Findings that only recorded requests show, as sentences, tables and curves.

use plimsoll_core::num::{ratio, round_u64};
use plimsoll_core::profile::{KindProfile, RequestsProfile, TimeDistribution};
use plimsoll_core::units::{self, Nanos};

use crate::model::{
    ChartQuantity, ChartSeriesStyle, PercentileChart, PercentileLine, ReportChart, ReportFigure,
    ReportFinding, ReportItem, ReportSection, ReportTable, ReportTableCell,
};
use crate::words::{dash, percent, percent_whole};

/// Most rows of the table of caches: a long list of powers of two is thinned.
const CACHES_MAX: usize = 10;
/// Most sizes that a line lists.
const SIZES_SHORT: usize = 4;
/// Shares of misses whose caches a line lists.
const MISSES_SHORT: [f64; 3] = [0.9, 0.5, 0.2];

/// The answer in a sentence or two.
pub(super) fn headline(requests: &RequestsProfile) -> Vec<ReportFinding> {
    let mut said = Vec::new();
    if let Some(streams) = &requests.streams {
        let text = format!(
            "{} of the requests continue where an earlier one ended",
            percent(streams.sequential_share)
        );
        let detail = format!(
            "streams of {:.1} requests on average",
            streams.run_mean_requests
        );
        said.push(ReportFinding::new("order", text).detail(detail));
    }
    if let (Some(all), Some(hot)) = (requests.working_set.last(), requests.skew.get(1)) {
        let text = format!(
            "{} accessed within {}; the hottest {} of it get {} of the requests",
            units::size(all.mean_bytes),
            units::size(requests.span_bytes as f64),
            percent_whole(hot.zones),
            percent(hot.requests)
        );
        said.push(ReportFinding::new("places", text));
    }
    said
}

/// Everything: in short for all, the tables and curves behind it for the page.
pub(super) fn sections(requests: &RequestsProfile) -> Vec<ReportSection> {
    let mut short = ReportSection::new("Requests", "");
    let mut facts: Vec<ReportFact> = sizes(requests).into_iter().collect();
    facts.extend(places(requests));
    facts.extend(arrivals(requests));
    short.items.push(ReportItem::Facts(facts));
    short
        .items
        .extend(response(requests).map(ReportItem::Table));
    let mut all = vec![
        short,
        transfers(requests),
        reuse(requests),
        curves(requests),
    ];
    all.retain(|section| !section.items.is_empty());
    all
}

/// A name and its text.
type ReportFact = (String, String);

fn sizes(requests: &RequestsProfile) -> Option<ReportFact> {
    let total: u64 = requests.kinds.iter().map(|kind| kind.requests).sum();
    let each = requests.sizes.iter().take(SIZES_SHORT).map(|size| {
        let share = percent(ratio(size.requests as f64, total as f64));
        format!("{} {} {share}", size.kind.name(), exact_size(size.bytes))
    });
    let each: Vec<String> = each.collect();
    (!each.is_empty()).then(|| ("Sizes".into(), each.join(", ")))
}

fn transfers(requests: &RequestsProfile) -> ReportSection {
    let mut section = ReportSection::new("Kinds and sizes", "");
    section.page_only = true;
    let total: u64 = requests.kinds.iter().map(|kind| kind.requests).sum();
    let share = |n: u64| percent(ratio(n as f64, total as f64));
    let mut kinds = ReportTable::new(
        "Kinds",
        &["Kind", "#Requests", "#Share", "#Bytes", "#Mean size"],
    );
    kinds.rows = requests.kinds.iter().map(|k| kind(k, &share)).collect();
    // Where kinds are not distinguished there is nothing to be listed.
    if requests.tells_kinds {
        section.items.push(ReportItem::Table(kinds));
    }
    if !requests.sizes.is_empty() {
        let mut sizes = ReportTable::new(
            "Most frequent sizes",
            &["Kind", "#Size", "#Requests", "#Share"],
        );
        sizes.rows = requests
            .sizes
            .iter()
            .map(|size| {
                vec![
                    ReportTableCell::new(size.kind.name()),
                    ReportTableCell::new(exact_size(size.bytes)),
                    ReportTableCell::new(size.requests.to_string()),
                    ReportTableCell::new(share(size.requests)),
                ]
            })
            .collect();
        if requests.sizes_more > 0 {
            let more = share(requests.sizes_more);
            sizes.notes.push(format!("{more} have other sizes."));
        }
        section.items.push(ReportItem::Table(sizes));
    }
    section
}

fn kind(of: &KindProfile, share: &dyn Fn(u64) -> String) -> Vec<ReportTableCell> {
    vec![
        ReportTableCell::new(of.kind.name()),
        ReportTableCell::new(of.requests.to_string()),
        ReportTableCell::new(share(of.requests)),
        (of.bytes).map_or_else(dash, |bytes| {
            ReportTableCell::new(units::size(bytes as f64))
        }),
        match of.bytes {
            None | Some(0) => dash(),
            Some(bytes) => {
                ReportTableCell::new(units::size(ratio(bytes as f64, of.requests as f64)))
            }
        },
    ]
}

/// A size to the byte: `4 KiB`, `1536 B`.
fn exact_size(bytes: u32) -> String {
    match bytes {
        0 => "0 B".into(),
        b if b % (1 << 20) == 0 => format!("{} MiB", b >> 20),
        b if b % 1024 == 0 => format!("{} KiB", b >> 10),
        b => format!("{b} B"),
    }
}

fn places(requests: &RequestsProfile) -> Vec<ReportFact> {
    let mut facts = Vec::new();
    let mut fact = |name: &str, text: String| facts.push((name.to_owned(), text));
    if let Some(streams) = &requests.streams {
        let share = percent(streams.sequential_share);
        fact(
            "Sequential",
            format!("{share} continue one of the last 64 streams"),
        );
        let text = format!(
            "{} of {:.2} requests and {} on average; half of the requests are in streams of {} or \
             more, the longest has {}",
            streams.runs,
            streams.run_mean_requests,
            units::size(streams.run_mean_bytes),
            streams.run_median_requests,
            streams.run_max_requests
        );
        fact("Streams", text);
    }
    let hot = requests.skew.iter().map(|skew| {
        let (zones, requests) = (percent_whole(skew.zones), percent(skew.requests));
        format!("the hottest {zones} get {requests}")
    });
    let hot: Vec<String> = hot.collect();
    if !hot.is_empty() {
        fact(
            "Zones of 1 MiB",
            format!("{} of the requests", hot.join(", ")),
        );
    }
    let sets = requests.working_set.iter().map(|set| {
        let window = units::clock_duration(Nanos::from_secs_f64(set.window_s));
        format!("{} in {window}", units::size(set.mean_bytes))
    });
    let sets: Vec<String> = sets.collect();
    if !sets.is_empty() {
        fact("Working set", sets.join(", "));
    }
    facts.extend(caches_short(requests));
    facts
}

/// The caches that first miss less than some shares, and what even the largest misses.
fn caches_short(requests: &RequestsProfile) -> Option<ReportFact> {
    let last = requests.misses.last()?;
    let first_below = |limit: &f64| requests.misses.iter().find(|m| m.misses <= *limit);
    let mut shown: Vec<_> = MISSES_SHORT.iter().filter_map(first_below).collect();
    shown.push(last);
    shown.dedup();
    let each = shown.iter().map(|miss| {
        let size = units::size(miss.cache_bytes);
        format!("{size} misses {}", percent(miss.misses))
    });
    let each: Vec<String> = each.collect();
    Some(("Caches (LRU)".into(), each.join(", ")))
}

fn reuse(requests: &RequestsProfile) -> ReportSection {
    let mut section = ReportSection::new("Working set and reuse", "");
    section.page_only = true;
    if !requests.working_set.is_empty() {
        section
            .items
            .push(ReportItem::Table(working_sets(requests)));
    }
    if !requests.misses.is_empty() {
        section.items.push(ReportItem::Table(caches(requests)));
    }
    section
}

fn working_sets(requests: &RequestsProfile) -> ReportTable {
    let mut table = ReportTable::new(
        "Working set: data accessed within a window",
        &["Window", "#Mean", "#Largest"],
    );
    table.rows = requests
        .working_set
        .iter()
        .map(|set| {
            let length = Nanos::from_secs_f64(set.window_s);
            vec![
                ReportTableCell::new(units::duration(length)),
                ReportTableCell::new(units::size(set.mean_bytes)),
                ReportTableCell::new(units::size(set.max_bytes)),
            ]
        })
        .collect();
    table
}

fn caches(requests: &RequestsProfile) -> ReportTable {
    let mut table = ReportTable::new(
        "Misses of an LRU cache that is empty at first",
        &["Cache", "#Misses"],
    );
    let each = requests.misses.len().div_ceil(CACHES_MAX);
    // The largest is always shown: what even it misses is touched for the first time.
    let shown = requests.misses.iter().rev().step_by(each.max(1));
    table.rows = shown
        .map(|miss| {
            vec![
                ReportTableCell::new(units::size(miss.cache_bytes)),
                ReportTableCell::new(percent(miss.misses)),
            ]
        })
        .collect();
    table.rows.reverse();
    table
}

fn arrivals(requests: &RequestsProfile) -> Vec<ReportFact> {
    let mut facts = Vec::new();
    let mut fact = |name: &str, text: String| facts.push((name.to_owned(), text));
    if let Some(gaps) = &requests.gaps {
        let variation = requests.gaps_variation.map_or(String::new(), |cv| {
            format!("; variation {cv:.2} (Poisson: 1)")
        });
        let gaps = quantiles(gaps, requests.resolution_ns);
        fact("Between starts", format!("{gaps}{variation}"));
    }
    if !requests.dispersion.is_empty() {
        let each = requests.dispersion.iter().map(|at| {
            let window = units::duration(Nanos::from_secs_f64(at.window_s));
            format!("{} in {window}", units::three_digits(at.index))
        });
        let each: Vec<String> = each.collect();
        fact("Dispersion", format!("{} (Poisson: 1)", each.join(", ")));
    }
    if let Some(in_flight) = &requests.in_flight {
        let text = format!(
            "{} on average, any for {} of the time; a request finds {} (median), {} (p99), {} at \
             most",
            units::three_digits(in_flight.mean),
            percent(in_flight.busy),
            in_flight.found_median,
            in_flight.found_p99,
            in_flight.found_max
        );
        fact("In flight", text);
    }
    facts
}

/// A time of a source with this resolution: none is below that, not nothing.
fn told_time(ns: u64, resolution_ns: u64) -> String {
    match (ns, resolution_ns) {
        (0, 2..) => format!("below {}", units::duration(Nanos(resolution_ns))),
        _ => units::duration(Nanos(ns)),
    }
}

/// `median 1.00 ms, p90 …, mean …`.
fn quantiles(times: &TimeDistribution, resolution_ns: u64) -> String {
    let named = [(0.5, "median"), (0.9, "p90"), (0.99, "p99")];
    let known = named.iter().filter_map(|(q, name)| {
        let ns = times.quantile_ns(*q)?;
        Some(format!("{name} {}", told_time(ns, resolution_ns)))
    });
    let mut all: Vec<String> = known.collect();
    let mean = Nanos(round_u64(times.mean_ns));
    all.push(format!("mean {}", units::duration(mean)));
    all.join(", ")
}

/// Kinds whose ends were recorded, with their times.
fn told(requests: &RequestsProfile) -> impl Iterator<Item = (&'static str, &TimeDistribution)> {
    let kinds = requests.kinds.iter();
    kinds.filter_map(|kind| {
        let name = match requests.tells_kinds {
            true => kind.kind.name(),
            false => "any",
        };
        Some((name, kind.response.as_ref()?))
    })
}

/// `None` where ends were not recorded.
fn response(requests: &RequestsProfile) -> Option<ReportTable> {
    const SHOWN: [(f64, &str); 5] = [
        (0.5, "#median"),
        (0.9, "#p90"),
        (0.99, "#p99"),
        (0.999, "#p99.9"),
        (0.9999, "#p99.99"),
    ];
    told(requests).next()?;
    let mut columns = vec!["Kind", "#mean"];
    columns.extend(SHOWN.iter().map(|(_, title)| *title));
    columns.push("#largest");
    let mut table = ReportTable::new("Times from start to end", &columns);
    let time = |ns: u64| ReportTableCell::new(told_time(ns, requests.resolution_ns));
    for (kind, times) in told(requests) {
        let mut row = vec![ReportTableCell::new(kind), time(round_u64(times.mean_ns))];
        let quantiles = SHOWN.iter().map(|(q, _)| times.quantile_ns(*q));
        row.extend(quantiles.map(|ns| ns.map_or_else(dash, time)));
        row.push(time(times.max_ns));
        table.rows.push(row);
    }
    Some(table)
}

/// Distributions of times as curves.
fn curves(requests: &RequestsProfile) -> ReportSection {
    let mut section = ReportSection::new("Distributions of times", "");
    section.page_only = true;
    let response = curve("How long do operations take?", told(requests));
    let gaps = requests.gaps.iter().map(|gaps| ("between starts", gaps));
    let gaps = curve("How far apart do operations start?", gaps);
    section.items.extend(response.into_iter().chain(gaps));
    section
}

fn curve<'a>(
    title: &str,
    times: impl Iterator<Item = (&'static str, &'a TimeDistribution)>,
) -> Option<ReportItem> {
    let line = |(i, (name, times)): (usize, (&'static str, &'a TimeDistribution))| {
        let ink = ChartSeriesStyle {
            name: name.into(),
            colour: i,
            control: false,
        };
        let points = times.quantiles.iter().map(|(q, ns)| (*q, *ns as f64));
        PercentileLine {
            ink,
            points: points.collect(),
            band: Vec::new(),
        }
    };
    let lines = times.enumerate().map(line);
    let lines: Vec<_> = lines.filter(|line| line.points.len() > 1).collect();
    let half = |line: &PercentileLine| {
        let (_, ns) = line.points.iter().find(|(q, _)| *q >= 0.5)?;
        let half = ChartQuantity::Duration.show(*ns);
        Some(format!("{} {half} or less", line.ink.label()))
    };
    let halves: Vec<String> = lines.iter().filter_map(half).collect();
    let answer = format!("Half of them: {}.", halves.join("; "));
    (!lines.is_empty()).then(|| {
        let chart = ReportChart::Curves(PercentileChart { lines });
        ReportItem::Chart(ReportFigure::new(title, answer, chart))
    })
}
