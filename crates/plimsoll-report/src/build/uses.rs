// SPDX-License-Identifier: Apache-2.0
//! One storage and several uses: which fit, with how much room, and how long a synced write takes.

use plimsoll_core::event::ArmEntry;
use plimsoll_core::load_line::LoadLineRequirement;
use plimsoll_core::text::enumerated;
use plimsoll_core::units::{self, Nanos};
use plimsoll_stats::load_line::{ArmLoadLine, LoadLineFit, LoadLineReach};
use plimsoll_stats::synced::{SyncFlush, SyncedWrites};

use super::load_line;
use super::view::ResultsView;
use crate::model::{ReportItem, ReportSection, ReportSeverity, ReportTable, ReportTableCell};
use crate::words;

/// Multiples that differ by less are the same: the largest is made of logarithms.
const ALMOST: f64 = 1e-6;

/// The lines that were searched for a use, with the use.
fn lines<'v, 'a>(
    view: &'v ResultsView<'a>,
) -> impl Iterator<Item = (&'v ArmLoadLine<'a>, &'a LoadLineRequirement)> {
    let lines = view.load_lines.iter();
    lines.filter_map(|line| Some((line, line.goal.requirement.as_ref()?)))
}

/// Facts below the answer; the table has load and limit of each use. `None` where one use was asked about.
pub(super) fn facts(view: &ResultsView<'_>) -> Option<Vec<(&'static str, String)>> {
    are_several(view).then(|| {
        vec![
            ("How sure", how_sure(view)),
            ("A synced write", synced_facts(view)),
        ]
    })
}

/// Searches that decided on a use, of all.
fn how_sure(view: &ResultsView<'_>) -> String {
    let (mut decided, mut all) = (0, 0);
    for (line, _) in lines(view) {
        all += 1;
        decided += usize::from(LoadLineFit::of(line) != LoadLineFit::CannotTell);
    }
    let confidence = words::percent_whole(view.results.manifest.policy.confidence);
    let time: f64 = view.load_lines.iter().map(|line| line.result.seconds).sum();
    let time = units::clock_duration(Nanos::from_secs_f64(time));
    format!(
        "{decided} of {} decided with {confidence} confidence, in {time} of load",
        words::count(all, "use")
    )
}

/// Whether several uses were asked about.
pub(super) fn are_several(view: &ResultsView<'_>) -> bool {
    let mut names = lines(view).map(|(_, need)| &need.name);
    let first = names.next();
    names.any(|name| Some(name) != first)
}

fn systems<'v>(view: &'v ResultsView<'_>) -> impl Iterator<Item = &'v ArmEntry> {
    let arms = view.arms.iter().map(|arm| arm.arm);
    arms.filter(|arm| arm.control_of.is_none())
}

/// The uses that each system fits, and those that it does not; `None` where one use was asked about.
pub(super) fn answer(view: &ResultsView<'_>) -> Option<(ReportSeverity, String)> {
    if !are_several(view) {
        return None;
    }
    let is_open = lines(view).all(|(line, _)| LoadLineFit::of(line) == LoadLineFit::CannotTell);
    if is_open && load_line::noise(view).is_some() {
        return load_line::answer(view);
    }
    let told: Vec<String> = systems(view).map(|arm| of_system(view, arm)).collect();
    let misses = lines(view).any(|(line, _)| LoadLineFit::of(line) != LoadLineFit::Fits);
    let tone = match misses {
        true => ReportSeverity::Care,
        false => ReportSeverity::Good,
    };
    Some((tone, told.join(" ")))
}

/// A sentence on a system.
fn of_system(view: &ResultsView<'_>, arm: &ArmEntry) -> String {
    let verbs = [
        (LoadLineFit::Fits, "fits"),
        (LoadLineFit::DoesNotFit, "does not fit"),
        (LoadLineFit::CannotTell, "may or may not fit"),
    ];
    let mut clauses: Vec<String> = Vec::new();
    let mut unit = " what it needs";
    for (fit, verb) in verbs {
        let those = lines(view).filter(|(line, _)| line.arm == arm.name);
        let those = those.filter(|(line, _)| LoadLineFit::of(line) == fit);
        let names: Vec<String> = those
            .map(|(line, need)| match (fit, room(line)) {
                (LoadLineFit::CannotTell, _) | (_, None) => need.name.clone(),
                (_, Some(room)) => format!("{} ({room}{})", need.name, std::mem::take(&mut unit)),
            })
            .collect();
        if !names.is_empty() {
            clauses.push(format!("{verb} {}", enumerated(&names)));
        }
    }
    let synced = synced(view, arm)
        .map(|synced| format!("the median synced write takes {}", median(&synced)));
    clauses.extend(synced);
    format!("{} {}.", view.name_of(&arm.name), clauses.join("; "))
}

/// Times of what a use needs, that a system carries.
fn room(line: &ArmLoadLine<'_>) -> Option<String> {
    let edge = &line.result.sustained;
    let times = |multiple: f64| match (multiple - multiple.round()).abs() < ALMOST {
        true => format!("{multiple:.0}×"),
        false => format!("{}×", units::three_digits(multiple)),
    };
    match line.result.reach {
        LoadLineReach::AtLeast => Some(format!("at least {}", times(edge.low))),
        LoadLineReach::Between => Some(times(edge.point)),
        LoadLineReach::Below => Some(format!("below {}", times(edge.high))),
        LoadLineReach::Unknown => None,
    }
}

/// Synced writes of a system, where its uses make some.
fn synced(view: &ResultsView<'_>, arm: &ArmEntry) -> Option<SyncedWrites> {
    let trials = view.results.trials.iter();
    SyncedWrites::of(arm, trials.filter(|trial| trial.trial.arm == arm.name))
}

fn time(synced: &SyncedWrites, q: f64) -> String {
    units::duration(Nanos(synced.stats.service.quantile_ns(q)))
}

fn median(synced: &SyncedWrites) -> String {
    time(synced, 0.5)
}

/// A synced write of each system, and whether to believe it.
fn synced_facts(view: &ResultsView<'_>) -> String {
    let told = systems(view).filter_map(|arm| {
        let synced = synced(view, arm)?;
        let tail = match synced.stats.service.supports_quantile(0.99) {
            true => format!(", p99 {}", time(&synced, 0.99)),
            false => String::new(),
        };
        let flush = flush_words(synced.flush);
        Some(format!(
            "{}: median {}{tail}{flush}",
            view.name_of(&arm.name),
            median(&synced)
        ))
    });
    told.collect::<Vec<_>>().join("; ")
}

/// Behind the time of a sync: what its flush did.
fn flush_words(flush: SyncFlush) -> String {
    match flush {
        SyncFlush::Unknown => " (it is not known whether a disk was flushed)".into(),
        SyncFlush::Memory => " (in memory: nothing survives a power cut)".into(),
        SyncFlush::NotNeeded => {
            " (no flush is sent: the disk says that it has no volatile cache)".into()
        }
        SyncFlush::Missing => {
            " (not to be believed: syncs send no flush to a disk with a volatile cache, so that a power cut loses \
             synced writes)"
                .into()
        }
        SyncFlush::Sent(each) => format!(
            " (believable: each reaches the disk, whose flush takes {})",
            units::duration(each)
        ),
        SyncFlush::AtOnce(each) => format!(
            " (the disk completes a flush in {}, faster than a medium is written: believable where its cache survives a power \
             cut)",
            units::duration(each)
        ),
    }
}

/// A row for each use, with each system's verdict; none where one use was asked about.
pub(super) fn section(view: &ResultsView<'_>) -> Option<ReportSection> {
    if !are_several(view) {
        return None;
    }
    let mut columns = vec!["use".to_owned()];
    columns.extend(systems(view).map(|arm| view.name_of(&arm.name)));
    columns.extend(["~needs", "~limits of the use"].map(String::from));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = ReportTable::new("Uses and the load that each needs", &columns);
    for entry in view.load_entries() {
        let mine: Vec<_> = lines(view)
            .filter(|(line, _)| line.entry.label == entry.label)
            .collect();
        let Some((first, need)) = mine.first() else {
            continue;
        };
        let mut cells = vec![ReportTableCell::new(&need.name).detail(need.about.clone())];
        cells.extend(systems(view).map(|arm| {
            let line = mine.iter().find(|(line, _)| line.arm == arm.name);
            line.map_or_else(|| ReportTableCell::new("–"), |(line, _)| verdict(line))
        }));
        cells.push(ReportTableCell::new(&need.load));
        cells.push(ReportTableCell::new(load_line::limits(first)));
        table.rows.push(cells);
    }
    Some(ReportSection {
        is_answer: true,
        items: vec![ReportItem::Table(table)],
        ..ReportSection::new("Uses", "").at("uses")
    })
}

fn verdict(line: &ArmLoadLine<'_>) -> ReportTableCell {
    let fit = LoadLineFit::of(line);
    let text = match room(line) {
        Some(room) => format!("{}, {room}", fit.name()),
        None => fit.name().to_owned(),
    };
    let cell = ReportTableCell::new(text).tone(match fit {
        LoadLineFit::Fits => ReportSeverity::Good,
        LoadLineFit::DoesNotFit => ReportSeverity::Bad,
        LoadLineFit::CannotTell => ReportSeverity::Care,
    });
    match &line.result.binding {
        Some(limit) if line.result.reach.has_high() && fit != LoadLineFit::CannotTell => {
            cell.detail(format!("first broken: {limit}"))
        }
        _ => cell,
    }
}
