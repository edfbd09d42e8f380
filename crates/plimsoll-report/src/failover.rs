// SPDX-License-Identifier: Apache-2.0
//! What faults did to those who used a storage system, and what that says of the next one.

mod parts;

use plimsoll_core::failover::{FailoverResult, FaultResult};
use plimsoll_core::fault::FaultKind;
use plimsoll_core::op::OpKind;
use plimsoll_core::outage::{BrownOut, OutageStall};
use plimsoll_core::units::{self, Nanos};
use plimsoll_stats::events::{bound_of_none, covered_by_longest, median};

use crate::model::{
    CentralTendency, ChartQuantity, ChartSeriesStyle, DotChart, DotPanel, ReportChart,
    ReportDocument, ReportFinding, ReportItem, ReportSection, ReportSeverity, ReportTable,
    ReportTableCell,
};
use crate::words::{count, dash, percent_whole};

/// Confidence of what is said of faults that were not tried.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// What is said of the faults of one storage system.
#[must_use]
pub fn failover(done: &FailoverResult) -> ReportDocument {
    ReportDocument {
        title: format!("Faults of {}", done.name),
        subtitle: format!(
            "{} · {} with {} reads and as many writes of {} per second each{} · seed {}",
            done.description,
            count(done.sessions as usize, "session"),
            units::rate(done.rate),
            units::size(f64::from(done.block_bytes)),
            share(done),
            done.seed
        ),
        headline: findings(done),
        sections: vec![every_fault(done), method()],
        data: serde_json::to_string(done).unwrap_or_default(),
    }
}

/// The answers that the faults of a system give, whatever it is held against.
fn findings(done: &FailoverResult) -> Vec<ReportFinding> {
    let kinds = kinds(done);
    let mut headline: Vec<ReportFinding> = kinds
        .iter()
        .map(|fault| outage(*fault, &of(done, *fault)))
        .collect();
    headline.extend(
        kinds
            .iter()
            .map(|fault| sessions(*fault, &of(done, *fault))),
    );
    headline.extend(
        kinds
            .iter()
            .filter_map(|fault| failed(*fault, &of(done, *fault))),
    );
    headline.push(data(done));
    headline
}

/// Every fault of a system, as its sessions felt it.
pub(crate) fn every_fault(done: &FailoverResult) -> ReportSection {
    let kinds = kinds(done);
    let mut all = ReportSection::new("Every fault", "as seen by the sessions");
    all.is_answer = true;
    all.items = vec![ReportItem::Chart(dots(done, &kinds))];
    all.items
        .extend(parts::parts(done, &kinds).map(ReportItem::Table));
    all.items.push(ReportItem::Table(table(done)));
    all.items.extend(beside(done).map(ReportItem::Table));
    all
}

fn share(done: &FailoverResult) -> String {
    done.most.map_or_else(String::new, |most| {
        format!(
            ", {} of their maximum of {}",
            percent_whole(done.rate / most),
            units::rate(most)
        )
    })
}

fn kinds(done: &FailoverResult) -> Vec<FaultKind> {
    let mut kinds: Vec<FaultKind> = Vec::new();
    for strike in &done.strikes {
        if !kinds.contains(&strike.fault) {
            kinds.push(strike.fault);
        }
    }
    kinds
}

fn of(done: &FailoverResult, fault: FaultKind) -> Vec<&FaultResult> {
    let all = done.strikes.iter();
    all.filter(|strike| strike.fault == fault).collect()
}

fn stall(strike: &FaultResult, kind: OpKind) -> Option<OutageStall> {
    strike.outage.worst(kind)
}

/// Nanoseconds; a stall without an end counts as long as it was seen.
pub(crate) fn lengths(strikes: &[&FaultResult], kind: OpKind) -> Vec<f64> {
    let stalls = strikes.iter().filter_map(|strike| stall(strike, kind));
    stalls.map(|stall| stall.length.0 as f64).collect()
}

pub(crate) fn shown(length: f64) -> String {
    ChartQuantity::Duration.show(length)
}

fn outage(fault: FaultKind, strikes: &[&FaultResult]) -> ReportFinding {
    let longest = |kind| {
        let lengths = lengths(strikes, kind);
        let most = lengths.iter().copied().fold(0.0, f64::max);
        median(lengths.iter().copied()).map(|middle| (middle, most))
    };
    let ends = [("write", OpKind::Write), ("read", OpKind::Read)];
    let told: Vec<String> = ends
        .into_iter()
        .filter_map(|(name, kind)| {
            let (middle, most) = longest(kind)?;
            Some(format!(
                "{name} outage {} (at most {})",
                shown(middle),
                shown(most)
            ))
        })
        .collect();
    let open = strikes.iter().filter(|strike| has_open(strike)).count();
    let unended = match open {
        0 => String::new(),
        open => format!("; in {open} of them the outage lasted until the end of the observation"),
    };
    let covered = covered_by_longest(strikes.len(), CONFIDENCE);
    ReportFinding {
        mark: fault.name().into(),
        tone: if open > 0 {
            ReportSeverity::Bad
        } else {
            ReportSeverity::Plain
        },
        text: format!("{}{unended}", told.join(", ")),
        detail: format!(
            "medians of {}; the longest is longer than {} of all such outages (95 % confidence)",
            count(strikes.len(), "fault"),
            percent_whole(covered)
        ),
    }
}

fn has_open(strike: &FaultResult) -> bool {
    let stalls = [OpKind::Write, OpKind::Read].map(|kind| stall(strike, kind));
    stalls.into_iter().flatten().any(|stall| stall.is_open)
}

pub(crate) fn sessions(fault: FaultKind, strikes: &[&FaultResult]) -> ReportFinding {
    let all = strikes.iter().flat_map(|strike| &strike.outage.sessions);
    let (total, alive) = all.fold((0_usize, 0_usize), |(total, alive), session| {
        (total + 1, alive + usize::from(session.survived))
    });
    let errors: u64 = strikes.iter().map(|strike| strike.outage.errors()).sum();
    let cut = strikes.iter().filter(|s| !s.healed_under_load).count();
    let detail = match cut {
        0 => "also during the recovery".into(),
        cut => format!(
            "in {cut} of {} the sessions were ended before the recovery, which removes the mount",
            count(strikes.len(), "fault")
        ),
    };
    ReportFinding {
        mark: format!("{fault}: sessions"),
        tone: if alive == total && errors == 0 {
            ReportSeverity::Good
        } else {
            ReportSeverity::Bad
        },
        text: format!("{alive} of {total} survived, {errors} operations failed"),
        detail,
    }
}

/// What is said of servers that did not outlive what they should.
fn failed(fault: FaultKind, strikes: &[&FaultResult]) -> Option<ReportFinding> {
    let processes: u32 = strikes.iter().map(|strike| strike.crashed).sum();
    let victims: Vec<&str> = strikes
        .iter()
        .filter(|strike| strike.crashed > 0)
        .map(|strike| &*strike.victim)
        .collect();
    (processes > 0).then(|| ReportFinding {
        mark: format!("{fault}: servers"),
        tone: ReportSeverity::Bad,
        text: format!("server processes crashed unexpectedly: {processes}"),
        detail: format!("on {}", victims.join(", ")),
    })
}

pub(crate) fn data(done: &FailoverResult) -> ReportFinding {
    let faults = done.strikes.len();
    let bad = done.strikes.iter().filter(|s| !s.kept_its_data()).count();
    if bad > 0 {
        return ReportFinding {
            mark: "data".into(),
            tone: ReportSeverity::Bad,
            text: format!("acknowledged writes were lost after {bad} of {faults} faults"),
            detail: "bad blocks are counted by kind below".into(),
        };
    }
    let written: u64 = done.strikes.iter().map(|s| s.check.data.written).sum();
    ReportFinding {
        mark: "data".into(),
        tone: ReportSeverity::Good,
        text: format!(
            "no acknowledged write was lost in {}",
            count(faults, "fault")
        ),
        detail: format!(
            "{written} blocks were written and verified; what was not seen in {} happens in at \
             most {} of such faults (95 % confidence)",
            count(faults, "fault"),
            percent_whole(bound_of_none(faults, CONFIDENCE))
        ),
    }
}

/// Where in a row the server stands that took over.
const TAKER_AT: usize = 3;

fn table(done: &FailoverResult) -> ReportTable {
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
    // Of servers that say what they did about it.
    let is_told = done.strikes.iter().any(|strike| !strike.events.is_empty());
    if is_told {
        heads.insert(TAKER_AT, "taken over by");
    }
    let mut table = ReportTable::new("Faults in the order of injection", &heads);
    for (number, strike) in (1..).zip(&done.strikes) {
        let mut cells = row(number, strike);
        if is_told {
            cells.insert(
                TAKER_AT,
                strike.taker().map_or_else(dash, ReportTableCell::new),
            );
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

/// What was used beside the sessions, where something was.
fn beside(done: &FailoverResult) -> Option<ReportTable> {
    let mut table = ReportTable::new(
        "Background load",
        &[
            "#no.",
            "fault",
            "workload",
            "#operations",
            "#errors",
            "#outage",
            "#lost",
            "ended early",
        ],
    );
    let bad = |count: u64| {
        let tone = if count == 0 {
            ReportSeverity::Plain
        } else {
            ReportSeverity::Bad
        };
        ReportTableCell::new(count.to_string()).tone(tone)
    };
    for (number, strike) in (1..).zip(&done.strikes) {
        for company in &strike.beside {
            let still = company.still.map(units::duration);
            table.rows.push(vec![
                ReportTableCell::new(u32::to_string(&number)),
                ReportTableCell::new(strike.fault.name()),
                ReportTableCell::new(&*company.name),
                ReportTableCell::new(company.ops.to_string()),
                bad(company.errors),
                still.map_or_else(dash, ReportTableCell::new),
                bad(company.missing),
                company
                    .ended
                    .as_deref()
                    .map_or_else(dash, ReportTableCell::new),
            ]);
        }
    }
    let note = "Outage: the longest time without a successful operation, for workloads in whole \
                seconds, for scp without a copy that grew or was completed. Lost: acknowledged \
                lines or copies that are missing or wrong.";
    table.notes = vec![note.into()];
    (!table.rows.is_empty()).then_some(table)
}

fn row(number: u32, strike: &FaultResult) -> Vec<ReportTableCell> {
    let outage = &strike.outage;
    let still = |kind| {
        stall(strike, kind).map_or_else(dash, |stall| {
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
    let good = |is_good| {
        if is_good {
            ReportSeverity::Plain
        } else {
            ReportSeverity::Bad
        }
    };
    let check = &strike.check;
    vec![
        ReportTableCell::new(number.to_string()),
        ReportTableCell::new(strike.fault.name()),
        ReportTableCell::new(&*strike.victim),
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

fn dots(done: &FailoverResult, kinds: &[FaultKind]) -> ReportChart {
    let ink = |(colour, fault): (usize, &FaultKind)| ChartSeriesStyle {
        name: fault.name().into(),
        colour,
        control: false,
    };
    let panel = |(title, kind): (&str, OpKind)| DotPanel {
        title: title.into(),
        quantity: ChartQuantity::Duration,
        values: kinds
            .iter()
            .map(|fault| (0..).zip(lengths(&of(done, *fault), kind)).collect())
            .collect(),
    };
    ReportChart::Dots(DotChart {
        title: "One dot for each fault".into(),
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
    })
}

pub(crate) fn method() -> ReportSection {
    let mut method = ReportSection::new("How it was measured", "");
    method.page_only = true;
    method.items = vec![
        ReportItem::Text(
            "Sessions write and read at fixed times, whatever the storage does, so that a waiting \
             client cannot hide a stall (no coordinated omission). Each write is stamped in every \
             sector and recorded in a ledger on this machine before it is submitted and again \
             before its acknowledgement counts. Afterwards everything is read back and checked \
             against the ledger."
                .into(),
        ),
        ReportItem::Text(
            "The unit of analysis is the fault: the writes during one fault are not independent, \
             so bounds rest on the number of faults alone."
                .into(),
        ),
    ];
    method
}

#[cfg(test)]
mod tests;
