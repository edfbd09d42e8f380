// SPDX-License-Identifier: Apache-2.0
//! Findings on systems that cannot carry the load: the clearest answer there is.

use plimsoll_core::comparison::{ArmComparison, ComparisonMetric, OverloadStats};
use plimsoll_core::event::WorkloadEntry;
use plimsoll_core::num::{ratio, round_u64, to_usize};
use plimsoll_core::units;
use plimsoll_core::workload::Workload;
use plimsoll_stats::carried;

use super::surroundings;
use super::view::{ArmTrials, ResultsView, grouped};
use crate::model::{ReportFinding, ReportSeverity, ReportTableCell};
use crate::words;

/// Of what a system served, a load that it should carry.
const EASY: f64 = 0.6;

/// Finding on a row whose arm or base cannot carry the load.
pub(super) fn sentence(view: &ResultsView<'_>, row: &ArmComparison) -> Option<ReportFinding> {
    let (base, arm) = (row.base_carried?, row.arm_carried?);
    let ArmComparison {
        base: base_name,
        arm: arm_name,
        workload,
        ..
    } = row;
    let both = row.base_is_overloaded() && row.arm_is_overloaded();
    // Where one of both carries it, the machine was not too busy for it.
    let noise = surroundings::decided(view).filter(|_| both);
    let text = match (row.base_is_overloaded(), row.arm_is_overloaded()) {
        (true, true) if let Some(noise) = &noise => format!(
            "Not answered on {workload}: {noise}. Seen: {base_name} served {}, {arm_name} {}",
            served(&base),
            served(&arm)
        ),
        (true, true) => format!(
            "Neither {base_name} nor {arm_name} can carry {workload}: {base_name} serves {}, \
             {arm_name} {}",
            served(&base),
            served(&arm)
        ),
        (true, false) => format!(
            "{base_name} cannot carry {workload}: {} served, and the backlog grew to the end; \
             {arm_name} carries it",
            served(&base)
        ),
        (false, true) => format!(
            "{arm_name} cannot carry {workload}: {} served, and the backlog grew to the end; \
             {base_name} carries it",
            served(&arm)
        ),
        (false, false) => return None,
    };
    let mut detail = match (row.base_is_overloaded(), row.arm_is_overloaded()) {
        (true, true) => format!(
            "{} {}",
            more_of_both(row, &base, &arm),
            seen(arm_name, &arm)
        ),
        (true, false) => format!(
            "{}{}",
            seen(base_name, &base),
            carries(row, arm_name, row.arm_value)
        ),
        _ => format!(
            "{}{}",
            seen(arm_name, &arm),
            carries(row, base_name, row.base_value)
        ),
    };
    let least = if base.share() < arm.share() {
        base
    } else {
        arm
    };
    detail.push_str(&advice(view, workload, &least));
    let (mark, tone) = match noise {
        Some(_) => ("not answered".to_owned(), ReportSeverity::Care),
        None => (words::verdict(row), words::tone(row)),
    };
    Some(ReportFinding::new(mark, text).tone(tone).detail(detail))
}

/// Finding on the only system of a run, where it cannot carry the load.
pub(super) fn alone(
    view: &ResultsView<'_>,
    entry: &WorkloadEntry,
    pool: &ArmTrials<'_>,
) -> Option<ReportFinding> {
    let (phase, load) = overloaded(pool)?;
    let label = match phase {
        Some(phase) => plimsoll_stats::phase_label(&entry.label, phase),
        None => entry.label.clone(),
    };
    let name = &pool.ink.name;
    let seen_of_it = format!("{} served, and the backlog grew to the end", served(&load));
    let (mark, tone, text) = match surroundings::decided(view) {
        None => (
            "cannot carry",
            ReportSeverity::Bad,
            format!("{name} cannot carry {label}: {seen_of_it}"),
        ),
        Some(noise) => (
            "not answered",
            ReportSeverity::Care,
            format!("Not answered on {label}: {noise}. Seen of {name}: {seen_of_it}"),
        ),
    };
    let detail = seen(name, &load) + &advice(view, &entry.label, &load);
    Some(ReportFinding::new(mark, text).tone(tone).detail(detail))
}

/// Noise that decided instead of the only system, which did not carry its load.
pub(super) fn noise(view: &ResultsView<'_>) -> Option<String> {
    let is_alone = !view.is_comparison() && view.load_lines.is_empty();
    let mut pools = view.entries().flat_map(|entry| view.pools(entry));
    let is_overloaded = is_alone && pools.any(|pool| !alone_is_silent(&pool));
    surroundings::decided(view).filter(|_| is_overloaded)
}

/// `130 of 2.07k` where the load was too much.
pub(super) fn in_short(pool: &ArmTrials<'_>) -> Option<String> {
    let (_, load) = overloaded(pool)?;
    let (served, offered) = (
        units::rate(load.served_per_s),
        units::rate(load.offered_per_s),
    );
    Some(format!("{served} of {offered}"))
}

/// Whether the report has no overload of this system to show.
pub(super) fn alone_is_silent(pool: &ArmTrials<'_>) -> bool {
    overloaded(pool).is_none()
}

/// The load that was too much, and the phase it belongs to.
fn overloaded<'a>(pool: &ArmTrials<'a>) -> Option<(Option<&'a str>, OverloadStats)> {
    let mut phases = vec![None];
    if let Some(trial) = pool.trials.first() {
        phases.extend(trial.phases.iter().map(|phase| Some(phase.name.as_str())));
    }
    phases.into_iter().find_map(|phase| {
        let load = carried(pool.trials.iter().copied(), phase)?;
        load.is_overloaded().then_some((phase, load))
    })
}

/// Table cell for the response time of an overloaded system.
pub(super) fn cell(load: &OverloadStats) -> ReportTableCell {
    let of = format!(
        "{} of {} ops/s",
        units::rate(load.served_per_s),
        units::rate(load.offered_per_s)
    );
    ReportTableCell::new(of)
        .detail("served of offered")
        .tone(ReportSeverity::Bad)
}

/// `207 of 1863 IOPS (11 %)`.
fn served(load: &OverloadStats) -> String {
    format!(
        "{} of {} IOPS ({})",
        units::rate(load.served_per_s),
        units::rate(load.offered_per_s),
        words::percent(load.share())
    )
}

fn seen(name: &str, load: &OverloadStats) -> String {
    let cut_off = match load.unfinished {
        0 => String::new(),
        unfinished => format!(
            " {} were in flight when the trials were cut off; they do not count as errors.",
            grouped(unfinished)
        ),
    };
    format!(
        "Seen in {} of {}: the backlog of {name} grew by {} requests/s, to {} at the end.{cut_off}",
        load.blocks_overloaded,
        words::count(load.blocks as usize, "block"),
        units::rate(load.backlog_growth_per_s),
        grouped(round_u64(load.backlog)),
    )
}

/// How the other one does.
fn carries(row: &ArmComparison, name: &str, value: f64) -> String {
    if value > 0.0 && row.metric == ComparisonMetric::MeanResponse {
        let value = row.metric.show(value);
        format!(" {name} carries it at a {} of {value}.", row.metric.name())
    } else {
        format!(" {name} carries it.")
    }
}

fn more_of_both(row: &ArmComparison, base: &OverloadStats, arm: &OverloadStats) -> String {
    let times = ratio(arm.served_per_s, base.served_per_s);
    let (name, times) = if times >= 1.0 {
        (&row.arm, times)
    } else {
        (&row.base, ratio(base.served_per_s, arm.served_per_s))
    };
    if times < 1.02 {
        return "Both serve about as much.".into();
    }
    format!("{name} carries more: {times:.2}× what the other serves.")
}

/// How to get a ratio all the same.
fn advice(view: &ResultsView<'_>, label: &str, load: &OverloadStats) -> String {
    let mut entries = view.entries();
    let entry = entries.find(|e| label == e.label || label.starts_with(&format!("{}: ", e.label)));
    match entry.map(|entry| (&entry.workload, entry.scale)) {
        Some((Workload::Model(_), scale)) => {
            let factor = scale * load.share() * EASY;
            // One digit: it is a proposal.
            let places = -factor.max(1e-9).log10().floor();
            let factor = (factor * 10f64.powf(places)).floor() / 10f64.powf(places);
            let places = to_usize(round_u64(places.max(0.0)));
            let factor = format!("{factor:.places$}");
            format!(
                " Response time is unbounded under overload; to compare response times, use the \
                 workload with @auto, or @{factor}."
            )
        }
        _ => " Response time is unbounded under overload; to compare response times, lower the \
              rate of the workload."
            .into(),
    }
}
