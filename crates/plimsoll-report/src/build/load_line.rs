// SPDX-License-Identifier: Apache-2.0
//! Load lines: how many times a workload each system carries, how sure that is, and what it rests on.

mod figure;

use plimsoll_core::comparison::ComparisonVerdict;
use plimsoll_core::event::TrialResult;
use plimsoll_core::num::ratio;
use plimsoll_core::run_results::{
    RunResultsLoadLine, RunResultsLoadLineRatio, RunResultsLoadLines,
};
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::WorkloadMultiple;
use plimsoll_stats::explain::{self, ArmEvidence};
use plimsoll_stats::load_line::{
    ArmLoadLine, LoadLineFit, LoadLineInterval, LoadLineRatio, LoadLineReach, LoadLineStop,
    load_line_trial,
};

pub(super) use figure::first_figure;
use figure::{figure, of_entry};

use super::surroundings;
use super::uses;
use super::view::{ResultsView, bytes_per_s, ops_per_s};
use crate::model::{
    ChartQuantity, ReportFinding, ReportItem, ReportSection, ReportSeverity, ReportTable,
    ReportTableCell,
};
use crate::words;

/// Trials at multiples from here to there, of the line, show what is used up there.
const EDGE: std::ops::RangeInclusive<f64> = 0.9..=1.15;

/// The sentences a reader came for: every line, then every other system's against the base's.
pub(super) fn headline(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    let lines = view.load_lines.iter();
    // Whether a system fits a use is a sentence of its own.
    let alone = lines.filter(|line| line.goal.requirement.is_none());
    let mut findings: Vec<ReportFinding> = alone.map(|line| sentence(view, line)).collect();
    findings.extend(ratios(view).into_iter().map(|(line, base, ratio)| {
        ratio_sentence(
            &view.name_of(line.arm),
            &view.name_of(base.arm),
            line,
            &ratio,
        )
    }));
    findings
}

/// Who carries most, how sure that is, and what the others carry.
pub(super) fn answer(view: &ResultsView<'_>) -> Option<(ReportSeverity, String)> {
    if let Some(noise) = noise(view) {
        let text = format!("Not answered: {noise}. {}", seen(view)?);
        return Some((ReportSeverity::Care, text));
    }
    let lines = first_lines(view);
    let (first, others) = lines.split_first()?;
    let said = sentence(view, first);
    let brief = |line: &&ArmLoadLine<'_>| format!("{} {}", view.name_of(line.arm), in_short(line));
    let brief: Vec<String> = others.iter().map(brief).collect();
    let told = [vec![said.text.clone()], brief].concat().join("; ");
    if others.is_empty() {
        return Some((said.tone, format!("{told}.")));
    }
    if !first.result.reach.has_low() {
        return Some((ReportSeverity::Bad, format!("{told}.")));
    }
    let name = view.name_of(first.arm);
    let rivals = others.iter().filter(|other| !is_above(first, other));
    let rivals: Vec<String> = rivals.map(|rival| view.name_of(rival.arm)).collect();
    Some(match rivals.is_empty() {
        true => {
            let told = told
                .strip_prefix(&format!("{name} carries "))
                .unwrap_or(&told);
            let text = format!("{name} carries most: {told}.");
            (ReportSeverity::Good, text)
        }
        false => {
            let text = format!(
                "{told}. Too close to call: {name} and {}.",
                rivals.join(", ")
            );
            (ReportSeverity::Care, text)
        }
    })
}

/// The lines of the first workload that were searched, the highest first.
fn first_lines<'v, 'a>(view: &'v ResultsView<'a>) -> Vec<&'v ArmLoadLine<'a>> {
    let entry = view.load_entries().next();
    let mut lines = entry.map_or(Vec::new(), |entry| of_entry(view, &entry.label));
    let place = |line: &ArmLoadLine<'_>| match line.result.reach {
        LoadLineReach::Between => line.result.sustained.point,
        LoadLineReach::AtLeast => line.result.sustained.low,
        LoadLineReach::Below | LoadLineReach::Unknown => 0.0,
    };
    lines.sort_by(|a, b| place(b).total_cmp(&place(a)));
    lines
}

/// Whether one system is shown to carry more than another.
fn is_above(one: &ArmLoadLine<'_>, other: &ArmLoadLine<'_>) -> bool {
    let (one, other) = (&one.result, &other.result);
    let are_known = one.reach.has_low() && other.reach.has_high();
    are_known && one.sustained.low >= other.sustained.high
}

/// Whether more time may still show which system carries most, or how much the only one does.
pub(super) fn is_open(view: &ResultsView<'_>) -> bool {
    let lines = first_lines(view);
    let decided = lines.split_first().is_some_and(|(first, others)| {
        !others.is_empty() && others.iter().all(|other| is_above(first, other))
    });
    !decided
}

/// Noise that decided instead of the systems, if it did so on every line of the first workload: a
/// system that carries load in spite of it answers the question.
pub(super) fn noise(view: &ResultsView<'_>) -> Option<String> {
    let lines = first_lines(view);
    let reason = |line: &&ArmLoadLine<'_>| {
        let late = || surroundings::late(view);
        let reason = line
            .disturbance()
            .or_else(|| pauses(view, line))
            .or_else(late);
        reason.filter(|_| line.is_vague())
    };
    let reasons: Option<Vec<String>> = lines.iter().map(reason).collect();
    reasons?.into_iter().next()
}

/// A limit that some operations broke at the lowest load, while most kept it: no load decides that.
fn pauses(view: &ResultsView<'_>, line: &ArmLoadLine<'_>) -> Option<String> {
    let idle = line.result.idle.as_ref();
    let idle = idle.filter(|idle| idle.is_broken && idle.beyond < 0.5)?;
    let (beyond, allowed) = (
        words::percent(idle.beyond),
        words::percent_whole(idle.allowed),
    );
    let (arm, least) = (view.name_of(line.arm), of_workload(line, idle.multiple));
    Some(format!(
        "on {arm} {beyond} of the operations were beyond {} at {least} already, where hardly anything waits \
         ({allowed} is allowed)",
        idle.limit
    ))
}

/// Up to which multiple each system kept the limits in some trial.
fn seen(view: &ResultsView<'_>) -> Option<String> {
    let lines = first_lines(view);
    let told = lines.iter().map(|line| {
        let arm = view.name_of(line.arm);
        match most_kept(line) {
            Some(most) => format!("{arm} up to {}", multiple(line, most)),
            None => format!("{arm} in no trial"),
        }
    });
    let told: Vec<String> = told.collect();
    Some(format!(
        "Seen within {}: {}.",
        limits(lines.first()?),
        told.join(", ")
    ))
}

/// The largest multiple of a trial that kept every limit.
fn most_kept(line: &ArmLoadLine<'_>) -> Option<f64> {
    let is_kept = |trial: &&&TrialResult| {
        let limits = &line.goal.limits;
        let keeps = limits
            .iter()
            .all(|slo| trial.stats.limited(slo) <= slo.at_most);
        keeps && load_line_trial(trial).is_some_and(|seen| !seen.backlog_grew && !seen.is_void)
    };
    let kept = line.trials.iter().filter(is_kept);
    let multiples = kept.filter_map(|trial| Some(trial.load_line.as_ref()?.request.multiple));
    multiples.max_by(f64::total_cmp)
}

/// A line in few words, without its limits.
fn in_short(line: &ArmLoadLine<'_>) -> String {
    let edge = &line.result.sustained;
    match line.result.reach {
        _ if line.result.trials == 0 => "without a trial".into(),
        LoadLineReach::Between => {
            format!("{} ({})", multiple(line, edge.point), interval(line, edge))
        }
        LoadLineReach::AtLeast => format!("at least {}", multiple(line, edge.low)),
        LoadLineReach::Below => {
            format!("below {} ({})", multiple(line, edge.high), unkept(line))
        }
        LoadLineReach::Unknown => format!("not known ({})", kept(line)),
    }
}

/// Rates that each system serves at its line.
pub(super) fn loads(view: &ResultsView<'_>) -> Vec<String> {
    let lines = view.load_lines.iter().filter(|line| has_edge(line));
    let told = lines.filter_map(|line| {
        let load = at_the_line(line)?;
        Some(format!("{} {load}", view.name_of(line.arm)))
    });
    told.collect()
}

/// The limits that are reached first and the resources that saturate there, each with its systems.
pub(super) fn limits_reached(view: &ResultsView<'_>) -> Vec<String> {
    let mut told: Vec<(String, Vec<String>)> = Vec::new();
    for line in view.load_lines.iter().filter(|line| has_edge(line)) {
        let Some(binding) = &line.result.binding else {
            continue;
        };
        // The limit alone is what was asked for, and no answer.
        let Some((name, used)) = saturated(view, line) else {
            continue;
        };
        let text = format!("{binding} breaks first, where {name} saturates ({used})");
        let arm = view.name_of(line.arm);
        match told.iter_mut().find(|(known, _)| *known == text) {
            Some((_, arms)) => arms.push(arm),
            None => told.push((text, vec![arm])),
        }
    }
    let lines = told
        .into_iter()
        .map(|(text, arms)| format!("{}: {text}", arms.join(", ")));
    lines.collect()
}

fn sentence(view: &ResultsView<'_>, line: &ArmLoadLine<'_>) -> ReportFinding {
    let (arm, limits) = (view.name_of(line.arm), limits(line));
    let edge = &line.result.sustained;
    let confidence = words::percent_whole(view.results.manifest.policy.confidence);
    let told = |multiple: f64| of_workload(line, multiple);
    let (tone, text) = match line.result.reach {
        _ if line.result.trials == 0 => (
            ReportSeverity::Care,
            format!("No trial of {} on {arm}", line.entry.label),
        ),
        LoadLineReach::Between => (
            ReportSeverity::Plain,
            format!(
                "{arm} carries {} ({confidence} CI {} over {} of load) at {limits}",
                told(edge.point),
                interval(line, edge),
                units::clock_duration(Nanos::from_secs_f64(line.result.seconds))
            ),
        ),
        LoadLineReach::AtLeast => (
            ReportSeverity::Good,
            format!(
                "{arm} carries at least {} at {limits} ({})",
                told(edge.low),
                unreached(line)
            ),
        ),
        LoadLineReach::Below => (
            ReportSeverity::Bad,
            format!(
                "{arm} lies below {} at {limits} ({})",
                told(edge.high),
                unkept(line)
            ),
        ),
        LoadLineReach::Unknown => (
            ReportSeverity::Care,
            format!(
                "It is not known how much of {} {arm} carries at {limits} ({})",
                line.entry.label,
                kept(line)
            ),
        ),
    };
    ReportFinding::new("load line", text)
        .tone(tone)
        .detail(detail(view, line))
}

/// Why there is no lower end.
fn unkept(line: &ArmLoadLine<'_>) -> String {
    line.disturbance().unwrap_or_else(|| kept(line))
}

/// Highest load at which a trial kept the limits, where that does not make a lower end.
fn kept(line: &ArmLoadLine<'_>) -> String {
    match most_kept(line) {
        None => "no trial kept the limits".into(),
        Some(most) => format!("{} kept the limits for a short time", multiple(line, most)),
    }
}

/// Why there is no upper end.
fn unreached(line: &ArmLoadLine<'_>) -> &'static str {
    match line.result.stop {
        Some(LoadLineStop::EverythingCarried) => "no limit was reached",
        _ if broke_a_limit(line) => "not finished: the upper end is not known",
        _ => "not finished: no limit was reached",
    }
}

/// Whether a trial broke a limit, be it too short to decide.
pub(super) fn broke_a_limit(line: &ArmLoadLine<'_>) -> bool {
    let broke = |trial: &&TrialResult| {
        let mut limits = line.goal.limits.iter();
        limits.any(|limit| trial.stats.limited(limit) >= limit.at_most)
    };
    line.trials.iter().any(broke)
}

/// Further details of a line, as sentences.
pub(super) fn detail(view: &ResultsView<'_>, line: &ArmLoadLine<'_>) -> String {
    let mut all = Vec::new();
    let result = &line.result;
    if has_edge(line) {
        all.extend(at_the_line(line).map(|load| format!("That is {load}.")));
        let binding = result.binding.as_ref();
        all.extend(binding.map(|name| format!("The limit it reaches first is {name}.")));
        let used_up = saturated(view, line);
        all.extend(
            used_up.map(|(name, used)| format!("At the edge {name} saturates first ({used}).")),
        );
    }
    for (source, joules) in energy(line) {
        let joules = units::three_digits(joules);
        all.push(format!(
            "A million operations took {joules} J of the {source}."
        ));
    }
    if let Some(burst) = &result.burst {
        let carried = match burst.high > line.goal.largest {
            // Larger multiples were not tried.
            true => {
                let least = burst.low.min(line.goal.largest);
                format!("at least {}", of_workload(line, least))
            }
            false => format!(
                "{} ({})",
                of_workload(line, burst.point),
                interval(line, burst)
            ),
        };
        all.push(format!(
            "For a short time it carries {carried}, but not for {}.",
            units::clock_duration(line.goal.sustained)
        ));
    }
    all.push(ended(line));
    if result.steadiness.is_some_and(|found| !found.is_steady) {
        all.push("Response times still rose at the end of the longest stay.".into());
    }
    all.join(" ")
}

/// Why the search ended, and what it took.
fn ended(line: &ArmLoadLine<'_>) -> String {
    let seconds = Nanos::from_secs_f64(line.result.seconds);
    let took = format!(
        "{} in {} of load",
        words::count(line.result.trials, "trial"),
        units::clock_duration(seconds)
    );
    match line.result.stop {
        Some(LoadLineStop::WidthReached) => format!(
            "Held for {}; {took}.",
            units::clock_duration(line.goal.sustained)
        ),
        Some(LoadLineStop::BudgetReached) => format!(
            "The time was over before the interval was within {}: {took}.",
            words::percent_whole(line.goal.width)
        ),
        Some(LoadLineStop::NothingCarried) => {
            format!("No smaller multiple was allowed (--min); {took}.")
        }
        Some(LoadLineStop::EverythingCarried) => {
            format!("No larger multiple was allowed (--max); {took}.")
        }
        None => format!("The search was not finished: {took}."),
    }
}

fn ratio_sentence(
    arm: &str,
    base: &str,
    line: &ArmLoadLine<'_>,
    ratio: &LoadLineRatio,
) -> ReportFinding {
    let (more, less, times) = match ratio.ratio.estimate >= 1.0 {
        true => (arm, base, ratio.ratio),
        false => (base, arm, ratio.ratio.inverse()),
    };
    let (times, interval) = (words::estimate(&times), words::interval(&times));
    let tone = match ratio.verdict {
        ComparisonVerdict::Different if ratio.ratio.estimate > 1.0 => ReportSeverity::Good,
        ComparisonVerdict::Different => ReportSeverity::Bad,
        ComparisonVerdict::Equivalent => ReportSeverity::Same,
        _ => ReportSeverity::Care,
    };
    let text = format!(
        "{more} carries {times}× the load of {less} ({interval}) on {}",
        line.entry.label
    );
    ReportFinding::new(ratio.verdict.name(), text).tone(tone)
}

/// Every line but the base's, with the base's of the same workload, and their ratio where both have an edge.
fn ratios<'v, 'a>(
    view: &'v ResultsView<'a>,
) -> Vec<(&'v ArmLoadLine<'a>, &'v ArmLoadLine<'a>, LoadLineRatio)> {
    let policy = &view.results.manifest.policy;
    let base_of = |line: &ArmLoadLine<'_>| {
        let mut all = view.load_lines.iter();
        all.find(|other| other.entry.label == line.entry.label)
    };
    let lines = view.load_lines.iter();
    lines
        .filter_map(|line| {
            let base = base_of(line).filter(|base| base.arm != line.arm)?;
            let usable = base.result.trials > 0 && line.result.trials > 0;
            let ratio = LoadLineRatio::of(&base.result, &line.result, policy);
            Some((line, base, ratio.filter(|_| usable)?))
        })
        .collect()
}

/// The section with the table and the curves.
pub(super) fn section(view: &ResultsView<'_>) -> Option<ReportSection> {
    let first = view.load_lines.first()?;
    let length = units::clock_duration(first.goal.sustained);
    let lead = format!(
        "A multiple is carried when all limits hold and the backlog does not grow for {length}. The intervals are of \
         the time of this search: a state that lasts longer than {length}, such as a busy neighbour, a cache or \
         heat, was met once or not at all."
    );
    let mut section =
        ReportSection::new("How much load does each system carry?", lead).at("load-line");
    section.is_answer = !uses::are_several(view);
    section.items.push(ReportItem::Table(table(view)));
    for entry in view.load_entries() {
        let lines = of_entry(view, &entry.label);
        let figure = lines.first().map(|_| figure(view, &lines));
        section.items.extend(figure.map(ReportItem::Chart));
    }
    Some(section)
}

fn table(view: &ResultsView<'_>) -> ReportTable {
    let has_costs = view
        .load_lines
        .iter()
        .any(|line| !line.goal.costs.is_empty());
    let mut columns = vec![
        "Workload",
        "System",
        "#Load line",
        "#At the line",
        "Limit reached first",
        "#~Burst edge",
        "#~Trials",
    ];
    if has_costs {
        columns.push("#Cost of 10⁶ operations");
    }
    let mut table = ReportTable::new("Load lines", &columns);
    for line in &view.load_lines {
        let mut row = row(view, line);
        if has_costs {
            row.push(ReportTableCell::new(
                cost(view, line).map_or("–".into(), units::three_digits),
            ));
        }
        table.rows.push(row);
    }
    table.notes.push(
        "The load line is the multiple that is as likely carried as not; below the interval it is carried \
         with confidence."
            .into(),
    );
    table
}

fn row(view: &ResultsView<'_>, line: &ArmLoadLine<'_>) -> Vec<ReportTableCell> {
    let result = &line.result;
    let edge = match result.reach {
        _ if result.trials == 0 => ReportTableCell::new("–"),
        _ => ReportTableCell::new(in_short(line)),
    };
    let load = at_the_line(line).filter(|_| has_edge(line));
    let burst = result.burst.as_ref();
    vec![
        ReportTableCell::new(&line.entry.label),
        ReportTableCell::new(view.name_of(line.arm)),
        edge,
        ReportTableCell::new(load.unwrap_or_else(|| "–".into())),
        ReportTableCell::new(
            // Where no limit was reached, none was reached first.
            (result.binding.clone().filter(|_| result.reach.has_high()))
                .unwrap_or_else(|| "–".into()),
        ),
        match burst {
            Some(burst) => with_interval(line, burst),
            None => ReportTableCell::new("–"),
        },
        ReportTableCell::new(result.trials.to_string())
            .detail(units::clock_duration(Nanos::from_secs_f64(result.seconds))),
    ]
}

fn with_interval(line: &ArmLoadLine<'_>, edge: &LoadLineInterval) -> ReportTableCell {
    let point = multiple(line, edge.point);
    ReportTableCell::new(format!("{point} ({})", interval(line, edge)))
}

fn has_edge(line: &ArmLoadLine<'_>) -> bool {
    line.result.trials > 0 && line.result.reach == LoadLineReach::Between
}

/// All limits: `p99 < 20 ms and errors < 0.1 %`.
pub(super) fn limits(line: &ArmLoadLine<'_>) -> String {
    let limits: Vec<String> = line.goal.limits.iter().map(ToString::to_string).collect();
    limits.join(" and ")
}

/// `3.4×`, `37 clients`.
fn multiple(line: &ArmLoadLine<'_>, of: f64) -> String {
    match line.unit {
        WorkloadMultiple::Rate => format!("{}×", units::three_digits(of)),
        WorkloadMultiple::Clients(_) => words::count(clients(of), "client"),
    }
}

fn clients(of: f64) -> usize {
    // There is no less than one.
    plimsoll_core::num::to_usize(plimsoll_core::num::round_u64(of)).max(1)
}

/// `3.4× nas`, `37 clients of varmail`.
fn of_workload(line: &ArmLoadLine<'_>, of: f64) -> String {
    let label = &line.entry.label;
    match line.unit {
        WorkloadMultiple::Rate => format!("{} {label}", multiple(line, of)),
        WorkloadMultiple::Clients(1) => format!("{} of {label}", multiple(line, of)),
        WorkloadMultiple::Clients(threads) => {
            format!(
                "{} of {label}, of {threads} threads each",
                multiple(line, of)
            )
        }
    }
}

fn interval(line: &ArmLoadLine<'_>, edge: &LoadLineInterval) -> String {
    let [low, high] = match line.unit {
        WorkloadMultiple::Rate => [edge.low, edge.high].map(units::three_digits),
        WorkloadMultiple::Clients(_) => [edge.low, edge.high].map(|end| clients(end).to_string()),
    };
    format!("{low} to {high}")
}

/// Operations and bytes per second at the line, from the trial nearest to it.
fn rates_at_the_line(line: &ArmLoadLine<'_>) -> Option<(f64, f64)> {
    let edge = line.result.sustained.point;
    let nearest = nearest(line)?;
    let factor = match line.unit {
        WorkloadMultiple::Rate => edge / nearest.load_line.as_ref()?.request.multiple,
        // More clients are not as many times the operations.
        WorkloadMultiple::Clients(_) => 1.0,
    };
    Some((ops_per_s(nearest) * factor, bytes_per_s(nearest) * factor))
}

/// The trial nearest to the line whose backlog did not grow.
fn nearest<'a>(line: &ArmLoadLine<'a>) -> Option<&'a TrialResult> {
    let edge = line.result.sustained.point;
    let far = |trial: &&TrialResult| {
        let multiple = trial
            .load_line
            .as_ref()
            .map_or(edge, |one| one.request.multiple);
        (multiple / edge).ln().abs()
    };
    let kept_up = |trial: &&&TrialResult| load_line_trial(trial).is_some_and(|t| !t.backlog_grew);
    let trials = line.trials.iter().filter(kept_up).copied();
    trials.min_by(|a, b| far(a).total_cmp(&far(b)))
}

fn at_the_line(line: &ArmLoadLine<'_>) -> Option<String> {
    let (ops, bytes) = rates_at_the_line(line)?;
    let ops = ChartQuantity::Rate.show(ops);
    Some(match bytes > 0.0 {
        true => format!("{ops}, {}", units::throughput(bytes)),
        false => ops,
    })
}

/// Resource that is used up at the edge, and how far.
fn saturated(view: &ResultsView<'_>, line: &ArmLoadLine<'_>) -> Option<(String, String)> {
    let edge = line.result.sustained.point;
    let is_near = |trial: &&&TrialResult| {
        let multiple = trial.load_line.as_ref().map(|one| one.request.multiple);
        multiple.is_some_and(|multiple| EDGE.contains(&(multiple / edge)))
    };
    let manifest = &view.results.manifest;
    let arm = manifest.arms.iter().find(|arm| arm.name == line.arm)?;
    let with_bins = |trial: &&'_ TrialResult| {
        let bins = view.results.intervals.get(&trial.trial.place);
        bins.map_or(&[][..], Vec::as_slice)
    };
    let trials = line.trials.iter().filter(is_near);
    let trials: Vec<_> = trials.map(|trial| (*trial, with_bins(trial))).collect();
    let found = explain::saturated(&ArmEvidence::new(manifest, line.entry, arm, trials))?;
    let figure = found.evidence();
    Some((
        found.name(),
        format!("{} {}", figure.figure, figure.shown()),
    ))
}

/// Joules per million operations, by source, of the trial nearest to the line.
fn energy(line: &ArmLoadLine<'_>) -> Vec<(String, f64)> {
    let Some(nearest) = nearest(line).filter(|_| has_edge(line)) else {
        return Vec::new();
    };
    let operations = nearest.stats.ops() as f64;
    let each = nearest.energy.iter().filter(|one| one.joules > 0.0);
    let each = each.map(|one| (one.source.clone(), ratio(one.joules * 1e6, operations)));
    each.collect()
}

/// Cost of a million operations at the line.
fn cost(view: &ResultsView<'_>, line: &ArmLoadLine<'_>) -> Option<f64> {
    let mut arms = view.results.manifest.arms.iter();
    let arm = arms.find(|arm| arm.name == line.arm)?;
    let per_hour = line.goal.costs.get(&arm.target)?;
    let (ops, _) = rates_at_the_line(line).filter(|_| has_edge(line))?;
    Some(ratio(*per_hour * 1e6, ops * 3_600.0))
}

/// For programs.
pub(super) fn for_programs(view: &ResultsView<'_>) -> RunResultsLoadLines {
    let ratio = |(line, base, ratio): (&ArmLoadLine<'_>, &ArmLoadLine<'_>, LoadLineRatio)| {
        RunResultsLoadLineRatio {
            workload: line.entry.label.clone(),
            arm: line.arm.to_owned(),
            base: base.arm.to_owned(),
            ratio: ratio.ratio,
            verdict: ratio.verdict,
        }
    };
    let lines = view.load_lines.iter();
    RunResultsLoadLines {
        lines: lines.map(|line| line_for_programs(view, line)).collect(),
        ratios: ratios(view).into_iter().map(ratio).collect(),
    }
}

fn line_for_programs(view: &ResultsView<'_>, line: &ArmLoadLine<'_>) -> RunResultsLoadLine {
    let rates = rates_at_the_line(line).filter(|_| has_edge(line));
    let interval = |edge: &LoadLineInterval| [edge.low, edge.point, edge.high];
    let limits = line.goal.limits.iter();
    let requirement = line.goal.requirement.clone();
    let saturated = saturated(view, line).filter(|_| has_edge(line));
    RunResultsLoadLine {
        workload: line.entry.label.clone(),
        arm: line.arm.to_owned(),
        limits: limits.map(ToString::to_string).collect(),
        unit: match line.unit {
            WorkloadMultiple::Rate => "times".into(),
            WorkloadMultiple::Clients(_) => "clients".into(),
        },
        has_edge: has_edge(line),
        reach: reach_name(line.result.reach).into(),
        disturbed_by: line.disturbance(),
        sustained: interval(&line.result.sustained),
        burst: line.result.burst.as_ref().map(interval),
        binding: line.result.binding.clone(),
        stop: line.result.stop.map(|stop| stop_name(stop).into()),
        trials: line.result.trials,
        trial_seconds: line.result.seconds,
        ops_per_s: rates.map(|rates| rates.0),
        bytes_per_s: rates.map(|rates| rates.1),
        cost_per_million: cost(view, line),
        fit: requirement
            .as_ref()
            .map(|_| LoadLineFit::of(line).name().into()),
        requirement,
        saturates_first: saturated.map(|found| found.0),
        joules_per_million: energy(line).into_iter().collect(),
    }
}

fn reach_name(reach: LoadLineReach) -> &'static str {
    match reach {
        LoadLineReach::Between => "between",
        LoadLineReach::AtLeast => "at least",
        LoadLineReach::Below => "below",
        LoadLineReach::Unknown => "unknown",
    }
}

fn stop_name(stop: LoadLineStop) -> &'static str {
    match stop {
        LoadLineStop::WidthReached => "width reached",
        LoadLineStop::BudgetReached => "budget reached",
        LoadLineStop::NothingCarried => "nothing carried",
        LoadLineStop::EverythingCarried => "everything carried",
    }
}
