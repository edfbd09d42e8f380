// SPDX-License-Identifier: Apache-2.0
//! Every fault of one system, as its sessions felt it.

use plimsoll_core::failover::FaultResult;
use plimsoll_core::op::OpKind;
use plimsoll_core::outage::BrownOut;
use plimsoll_core::units::{self, Nanos};

use super::{SystemFaults, good, outages, parts, shown, stall};
use crate::model::{
    CentralTendency, ChartQuantity, ChartSeriesStyle, DotChart, DotPanel, ReportChart,
    ReportFigure, ReportItem, ReportSection, ReportTable, ReportTableCell,
};
use crate::words::{count, dash, percent_whole};

pub(super) fn section(kinds: &[SystemFaults<'_>], is_answer: bool) -> ReportSection {
    let mut all = ReportSection::new(
        format!("{}: every fault", kinds[0].system),
        format!("as seen by {}", load(kinds)),
    );
    all.is_answer = is_answer;
    all.items = outages::figure(kinds)
        .map(ReportItem::Chart)
        .into_iter()
        .collect();
    all.items.push(ReportItem::Chart(dots(kinds)));
    all.items.extend(parts::parts(kinds).map(ReportItem::Table));
    all.items.push(ReportItem::Table(table(kinds)));
    all.items.extend(observers(kinds).map(ReportItem::Table));
    all
}

/// Load of the sessions.
pub(super) fn load(kinds: &[SystemFaults<'_>]) -> String {
    let injection = kinds[0].injection;
    let mut ceilings = kinds.iter().flat_map(SystemFaults::results);
    let ceiling = ceilings.find_map(|fault| fault.ceiling);
    let share = ceiling.map_or_else(String::new, |most| {
        let rate = injection.rate_below(ceiling);
        let (share, most) = (percent_whole(rate / most), units::rate(most));
        format!(", {share} of their maximum of {most}")
    });
    format!(
        "{} with {} reads and as many writes of {} per second each{share}",
        count(injection.sessions as usize, "session"),
        units::rate(injection.rate_below(ceiling)),
        units::size(f64::from(injection.block_bytes)),
    )
}

/// Where in a row the server stands that took over.
const TAKER_AT: usize = 3;

/// All faults in the order of their injection, each with the name of its kind.
pub(super) fn in_order<'a>(kinds: &'a [SystemFaults<'a>]) -> Vec<(&'a str, &'a FaultResult)> {
    let of = |kind: &'a SystemFaults<'a>| {
        let faults = kind.faults.iter();
        faults.map(|(place, fault)| (*place, kind.name, *fault))
    };
    let mut all: Vec<_> = kinds.iter().flat_map(of).collect();
    all.sort_by_key(|(place, _, _)| *place);
    all.into_iter()
        .map(|(_, name, fault)| (name, fault))
        .collect()
}

fn table(kinds: &[SystemFaults<'_>]) -> ReportTable {
    let mut heads = vec![
        "#no.",
        "fault",
        "target",
        "#write outage",
        "#read outage",
        "#errors",
        "#sessions that survived",
        "~#unavailable",
        "~#degraded for",
        "~#p99 after",
        "data",
    ];
    let faults = in_order(kinds);
    // Of servers that say what they did about it.
    let has_events = faults.iter().any(|(_, fault)| !fault.events.is_empty());
    if has_events {
        heads.insert(TAKER_AT, "taken over by");
    }
    let mut table = ReportTable::new("Faults in the order of injection", &heads);
    for (number, (name, fault)) in (1..).zip(faults) {
        let mut cells = row(number, name, fault);
        if has_events {
            let taker = fault.taker().map_or_else(dash, ReportTableCell::new);
            cells.insert(TAKER_AT, taker);
        }
        table.rows.push(cells);
    }
    table.notes = vec![
        "Outage: the longest time between two successful operations of one session, less the time \
         between its operations; >: it had not ended at the end of the observation."
            .into(),
        "Degraded: from the fault until the rate was at least 90 % of the rate before it for 10 s. \
         p99: of the response times, from the intended start, in the minute after the fault."
            .into(),
    ];
    table
}

fn row(number: u32, name: &str, fault: &FaultResult) -> Vec<ReportTableCell> {
    let outage = &fault.outage;
    let still = |kind| {
        stall(fault, kind).map_or_else(dash, |stall| {
            let more = if stall.is_open { "> " } else { "" };
            ReportTableCell::new(format!("{more}{}", units::duration(stall.length)))
        })
    };
    let time =
        |time: Option<Nanos>| time.map_or_else(dash, |t| ReportTableCell::new(units::duration(t)));
    let low = match outage.brown_out {
        BrownOut::Lasted(length) => ReportTableCell::new(units::duration(length)),
        BrownOut::NotOver(length) => ReportTableCell::new(format!("> {}", units::duration(length))),
        BrownOut::Unknown => dash(),
    };
    let alive = outage.sessions.iter().filter(|s| s.survived).count();
    let check = &fault.check;
    vec![
        ReportTableCell::new(number.to_string()),
        ReportTableCell::new(name),
        ReportTableCell::new(&*fault.victim),
        still(OpKind::Write),
        still(OpKind::Read),
        ReportTableCell::new(outage.errors().to_string()).tone(good(outage.errors() == 0)),
        ReportTableCell::new(format!("{alive} of {}", outage.sessions.len()))
            .tone(good(outage.survived())),
        time(outage.unavailable),
        low,
        time(outage.backlog_p99),
        ReportTableCell::new(check.data.bad.to_string()).tone(good(check.passed())),
    ]
}

/// Results of the observers beside the sessions, if there were any.
fn observers(kinds: &[SystemFaults<'_>]) -> Option<ReportTable> {
    let mut table = ReportTable::new(
        "Observers",
        &[
            "#no.",
            "fault",
            "observer",
            "#operations",
            "#errors",
            "#outage",
            "#lost",
        ],
    );
    let bad = |count: u64| ReportTableCell::new(count.to_string()).tone(good(count == 0));
    for (number, (name, fault)) in (1..).zip(in_order(kinds)) {
        for seen in &fault.observers {
            let still = seen.still.map(units::duration);
            table.rows.push(vec![
                ReportTableCell::new(u32::to_string(&number)),
                ReportTableCell::new(name),
                ReportTableCell::new(&*seen.name),
                ReportTableCell::new(seen.ops.to_string()),
                bad(seen.errors),
                still.map_or_else(dash, ReportTableCell::new),
                bad(seen.missing),
            ]);
        }
    }
    let note = "Outage: the longest time without a successful operation, for scp without a copy that \
                grew or was completed. Lost: acknowledged lines or copies that are missing or wrong.";
    table.notes = vec![note.into()];
    (!table.rows.is_empty()).then_some(table)
}

fn dots(kinds: &[SystemFaults<'_>]) -> ReportFigure {
    let ink = |(colour, kind): (usize, &SystemFaults<'_>)| ChartSeriesStyle {
        name: kind.name.into(),
        colour,
        control: false,
    };
    let panel = |(title, op): (&str, OpKind)| DotPanel {
        title: title.into(),
        quantity: ChartQuantity::Duration,
        values: kinds
            .iter()
            .map(|kind| (0..).zip(kind.lengths(op)).collect())
            .collect(),
    };
    let told = kinds.iter().filter_map(|kind| {
        let lengths = kind.lengths(OpKind::Write);
        let most = lengths.iter().copied().fold(0.0, f64::max);
        let middle = CentralTendency::Median.of(lengths)?;
        let (middle, most) = (shown(middle), shown(most));
        Some(format!("{} {middle}, at most {most}", kind.name))
    });
    let told: Vec<String> = told.collect();
    let answer = format!("Median write outage: {}.", told.join("; "));
    let chart = ReportChart::Dots(DotChart {
        each: "fault",
        row: "fault",
        middle: CentralTendency::Median,
        arms: kinds.iter().enumerate().map(ink).collect(),
        panels: [
            ("write outage", OpKind::Write),
            ("read outage", OpKind::Read),
        ]
        .map(panel)
        .into(),
    });
    let title = "How long is an outage, fault by fault?";
    ReportFigure::new(title, answer, chart).beside_its_table()
}
