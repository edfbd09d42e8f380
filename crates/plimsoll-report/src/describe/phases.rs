// SPDX-License-Identifier: Apache-2.0
//! Phases of a recording: their load, what of it is their own, and when they were.

use plimsoll_core::model::{DirectionRates, ModelPhase, ModelPhaseSpan};
use plimsoll_core::num::ratio;
use plimsoll_core::units;

use super::without_zone;
use crate::model::{ReportItem, ReportSection, ReportTable, ReportTableCell};
use crate::words::{dash, percent};

/// Most windows of a phase that are listed.
const WINDOWS_MAX: usize = 4;

/// `None` where the load was alike throughout.
pub(super) fn section(phases: &[ModelPhase]) -> Option<ReportSection> {
    let columns = [
        "Phase",
        "#Time",
        "#Reads/s",
        "#Mean size",
        "#Writes/s",
        "#Mean size",
    ];
    let mut table = ReportTable::new("Phases and their means", &columns);
    for phase in phases {
        let share = percent(phase.share);
        table.rows.push(row(&phase.name, share, phase.load));
        if let Some(own) = phase.own.and_then(|own| clear(own, phase.load)) {
            table
                .rows
                .push(row("  more than the base", String::new(), own));
        }
    }
    let mut section = ReportSection::new("Phases", "");
    section.items.push(ReportItem::Table(table));
    let when = phases
        .iter()
        .map(|p| (p.name.clone(), windows(&p.stretches)));
    section.items.push(ReportItem::Facts(when.collect()));
    (!phases.is_empty()).then_some(section)
}

/// Rates that are clearly more than the base's: less than a twentieth is the difference of two
/// large figures, and its mean size a quotient of two such. `None` where nothing is left.
fn clear(own: [DirectionRates; 2], load: [DirectionRates; 2]) -> Option<[DirectionRates; 2]> {
    const SHARE_MIN: f64 = 0.05;
    let is_clear = |at: usize| own[at].ops_per_s > SHARE_MIN * load[at].ops_per_s;
    let part = |at: usize| match is_clear(at) {
        true => own[at],
        false => DirectionRates::default(),
    };
    (is_clear(0) || is_clear(1)).then(|| [part(0), part(1)])
}

fn row(name: &str, share: String, [read, write]: [DirectionRates; 2]) -> Vec<ReportTableCell> {
    let size = |rates: DirectionRates| match rates.ops_per_s {
        ops if ops > 0.0 => ReportTableCell::new(units::size(ratio(rates.bytes_per_s, ops))),
        _ => dash(),
    };
    vec![
        ReportTableCell::new(name),
        ReportTableCell::new(share),
        ReportTableCell::new(units::rate(read.ops_per_s)),
        size(read),
        ReportTableCell::new(units::rate(write.ops_per_s)),
        size(write),
    ]
}

fn windows(stretches: &[ModelPhaseSpan]) -> String {
    let mut listed: Vec<String> = stretches.iter().take(WINDOWS_MAX).map(window).collect();
    if let Some(more) = stretches.len().checked_sub(WINDOWS_MAX + 1) {
        listed.push(format!("and {} more", more + 1));
    }
    listed.join(", ")
}

/// A window in the recording's zone, whose offset stands at the top; the day of the end only where
/// it is another. Of a recording without a date the time since its start.
fn window(stretch: &ModelPhaseSpan) -> String {
    const SINCE: &str = " after its start";
    let parts = |time: &str| {
        let (day, time) = time.split_once('T')?;
        Some((day.to_owned(), without_zone(time).to_owned()))
    };
    if let (Some(from), true) = (
        stretch.from.strip_suffix(SINCE),
        stretch.to.ends_with(SINCE),
    ) {
        return format!("{from} to {}", stretch.to);
    }
    match (parts(&stretch.from), parts(&stretch.to)) {
        (Some(from), Some(to)) if from.0 == to.0 => format!("{} {} to {}", from.0, from.1, to.1),
        (Some(from), Some(to)) => format!("{} {} to {} {}", from.0, from.1, to.0, to.1),
        _ => format!("{} to {}", stretch.from, stretch.to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(from: &str, to: &str) -> ModelPhaseSpan {
        ModelPhaseSpan {
            first: 0,
            intervals: 1,
            from: from.into(),
            to: to.into(),
        }
    }

    #[test]
    fn windows_name_a_day_once_and_long_lists_end() {
        let short = stretch("2010-07-14T11:00:32+10:00", "2010-07-14T11:02:32+10:00");
        let long = stretch("2010-07-14T23:00:32+10:00", "2010-07-15T01:02:32+10:00");
        assert_eq!(window(&short), "2010-07-14 11:00:32 to 11:02:32");
        assert_eq!(window(&long), "2010-07-14 23:00:32 to 2010-07-15 01:02:32");
        let parts = stretch(
            "2016-02-16T03:03:24.37-03:30",
            "2016-02-16T03:03:24.91-03:30",
        );
        assert_eq!(window(&parts), "2016-02-16 03:03:24.37 to 03:03:24.91");
        let since = stretch("0.25 s after its start", "1.50 s after its start");
        assert_eq!(window(&since), "0.25 s to 1.50 s after its start");
        let begin = stretch("its start", "1.50 s after its start");
        assert_eq!(window(&begin), "its start to 1.50 s after its start");
        assert!(windows(&vec![short.clone(); 9]).ends_with("and 5 more"));
        assert!(!windows(&vec![short; 4]).contains("more"));
    }

    #[test]
    fn what_is_hardly_more_than_the_base_is_not_told() {
        let rates = |ops_per_s| DirectionRates {
            ops_per_s,
            bytes_per_s: 8192.0 * ops_per_s,
        };
        let load = [rates(100.0), rates(10.0)];
        assert_eq!(clear([rates(4.0), rates(0.1)], load), None);
        let found = clear([rates(50.0), rates(0.1)], load).unwrap();
        assert_eq!(found, [rates(50.0), DirectionRates::default()]);
        assert!(section(&[]).is_none());
    }
}
