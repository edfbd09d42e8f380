// SPDX-License-Identifier: Apache-2.0
//! The first screen: one sentence that answers, the picture, what to do next and what to doubt.
//!
//! Whatever the run was made for leads: a load line, a ladder, faults, a comparison, one system.

use plimsoll_core::comparison::{ArmComparison, ComparisonVerdict};
use plimsoll_core::event::WorkloadEntry;
use plimsoll_core::units;
use plimsoll_stats::load_line::LoadLineReach;

use super::view::{ResultsView, ops_per_s};
use super::{
    doubts, faults, forest, ladder, limits, load_line, next_steps, nodes, overload, requirement,
    series, slo, surroundings, uses, verdicts, winner, workload,
};
use crate::model::{ReportAnswer, ReportDoubt, ReportFigure, ReportFinding, ReportSeverity};
use crate::words;

/// Most doubts of a first screen.
const DOUBTS_MAX: usize = 3;
/// Most workloads and systems that a line of it names.
const NAMED_MAX: usize = 3;
/// An effect that the blocks would miss, from which on that is worth a doubt.
const BLIND: f64 = 0.25;
/// Where nothing was measured.
const NO_TRIAL: &str = "No trial was completed, so there is no answer.";
/// Where that is still to come.
const NO_TRIAL_YET: &str = "No trial has ended yet.";
/// Prefix of the targets of simulated devices.
const SIMULATED: &str = "sim";

pub(super) fn answer(view: &ResultsView<'_>) -> ReportAnswer {
    let (tone, text) = sentence(view);
    ReportAnswer {
        text,
        tone,
        facts: facts(view),
        figure: figure(view),
        next: next_steps::next_steps(view),
        doubts: heaviest(view),
    }
}

fn sentence(view: &ResultsView<'_>) -> (ReportSeverity, String) {
    if view.results.trials.is_empty() {
        return match view.goes_on {
            true => (ReportSeverity::Plain, NO_TRIAL_YET.into()),
            false => (ReportSeverity::Care, NO_TRIAL.into()),
        };
    }
    let told = uses::answer(view)
        .or_else(|| requirement::answer(view))
        .or_else(|| load_line::answer(view))
        .or_else(|| faults::answer(view))
        .or_else(|| ladder::answer(view))
        .or_else(|| winner::answer(view))
        .or_else(|| slo::answer(view));
    let (tone, text) = told.unwrap_or_else(|| measured(view));
    match view.goes_on {
        true => (tone, format!("So far: {text}")),
        false => (tone, text),
    }
}

/// Noise that decided instead of the systems, so that the question is not answered.
pub(super) fn noise(view: &ResultsView<'_>) -> Option<String> {
    load_line::noise(view)
        .or_else(|| winner::noise(view))
        .or_else(|| overload::noise(view))
}

/// One system: what it does.
fn measured(view: &ResultsView<'_>) -> (ReportSeverity, String) {
    let findings = verdicts::headline(view);
    let tone = findings
        .first()
        .map_or(ReportSeverity::Plain, |one| one.tone);
    let told: Vec<&str> = findings
        .iter()
        .take(NAMED_MAX)
        .map(|one| one.text.as_str())
        .collect();
    let tail = match &findings[..] {
        [_] => tail(view),
        _ => String::new(),
    };
    match (told.is_empty(), load(view)) {
        (false, _) => (tone, format!("{}{tail}.", told.join("; "))),
        (true, load) if load.is_empty() => (ReportSeverity::Care, NO_TRIAL.into()),
        // One system in several conditions, which nothing compares.
        (true, load) => (ReportSeverity::Plain, format!("Measured: {load}.")),
    }
}

/// How slow the slow operations of the one workload of the one system are, as far as there are enough.
fn tail(view: &ResultsView<'_>) -> String {
    let Some(pool) = view.entries().flat_map(|entry| view.pools(entry)).next() else {
        return String::new();
    };
    let response = pool.stats.response();
    let quantiles = [(0.99, "p99"), (0.9, "p90"), (0.5, "median")];
    let found = quantiles
        .into_iter()
        .find(|(q, _)| response.supports_quantile(*q));
    match found.filter(|_| pool.trials.iter().all(|t| t.phases.is_empty())) {
        Some((q, name)) => {
            let time = units::duration(units::Nanos(response.quantile_ns(q)));
            let range = match pool.quantile_range(q, plimsoll_core::event::OpStats::response) {
                range if range.is_empty() => range,
                range => format!(" ({range} over blocks)"),
            };
            format!(", {name} response time {time}{range}")
        }
        None => String::new(),
    }
}

/// Facts below the answer: certainty, load and limit.
fn facts(view: &ResultsView<'_>) -> Vec<(String, String)> {
    let all = uses::facts(view).unwrap_or_else(|| {
        vec![
            ("How sure", how_sure(view)),
            ("At what load", load(view)),
            ("Limited by", limited_by(view)),
        ]
    });
    let told = all.into_iter().filter(|(_, text)| !text.is_empty());
    told.map(|(name, text)| (name.to_owned(), text)).collect()
}

fn how_sure(view: &ResultsView<'_>) -> String {
    let confidence = words::percent_whole(view.results.manifest.policy.confidence);
    if !view.load_lines.is_empty() {
        let trials: usize = view.load_lines.iter().map(|line| line.result.trials).sum();
        let time: f64 = view.load_lines.iter().map(|line| line.result.seconds).sum();
        let time = units::clock_duration(units::Nanos::from_secs_f64(time));
        let mut lines = view.load_lines.iter();
        let is_known = lines.any(|line| line.result.reach != LoadLineReach::Unknown);
        let intervals = match is_known && load_line::noise(view).is_none() {
            true => format!("{confidence} confidence intervals from "),
            false => "not at all: ".into(),
        };
        return format!(
            "{intervals}{} in {time} of load",
            words::count(trials, "trial")
        );
    }
    if let Some(text) = faults::how_sure(view) {
        return text;
    }
    let rows = || view.comparisons.iter().filter(|row| !row.is_control);
    let Some(blocks) = rows().map(|row| row.blocks).max() else {
        let trials = view.results.trials.iter();
        return match trials.filter(|trial| !trial.interrupted).count() {
            0 => "no trial was completed".into(),
            1 => "one trial: nothing shows how far it repeats".into(),
            many => format!("{}; ranges are over blocks", words::count(many, "trial")),
        };
    };
    let blocks = words::count(blocks as usize, "block");
    let floor = rows()
        .filter_map(|row| row.noise_floor)
        .fold(None, |most: Option<f64>, one| {
            Some(most.map_or(one, |most| most.max(one)))
        });
    let floor = match floor {
        Some(floor) => format!(
            "measured twice, {} may differ from itself by {}",
            rows().next().map_or("the base", |row| row.base.as_str()),
            words::apart(floor)
        ),
        None => "nothing was measured twice (no A/A control)".into(),
    };
    let decided = rows()
        .filter(|row| row.verdict != ComparisonVerdict::Inconclusive)
        .count();
    let decided = match (decided, rows().count()) {
        (1, 1) => "decided".to_owned(),
        (decided, all) => format!("{decided} of {} decided", words::count(all, "comparison")),
    };
    format!("{decided} at {confidence} confidence in {blocks}; {floor}")
}

/// Load on the systems, and the rates that they served.
fn load(view: &ResultsView<'_>) -> String {
    if !view.load_lines.is_empty() {
        return load_line::loads(view).join("; ");
    }
    let entries: Vec<&WorkloadEntry> = view.entries().filter(|e| !e.workload.is_idle()).collect();
    if entries.is_empty() {
        return faults::load(view).unwrap_or_default();
    }
    let mut told: Vec<String> = entries
        .iter()
        .take(NAMED_MAX)
        .filter_map(|e| served(view, e))
        .collect();
    if entries.len() > NAMED_MAX {
        told.push(words::count(entries.len() - NAMED_MAX, "more workload"));
    }
    told.join("; ")
}

/// `randread, closed loop: local 46.2k ops/s, raid1 12k ops/s`.
fn served(view: &ResultsView<'_>, entry: &WorkloadEntry) -> Option<String> {
    let pools = view.pools(entry);
    let rate = |pool: &super::view::ArmTrials<'_>| {
        // As the answer says it.
        if let Some(served) = overload::in_short(pool) {
            return Some(format!("{} {served}", pool.name()));
        }
        let mean = plimsoll_stats::SummaryStats::of(pool.values(ops_per_s))?.mean;
        (mean > 0.0).then(|| format!("{} {}", pool.name(), units::rate(mean)))
    };
    let systems = pools.iter().filter(|pool| !pool.ink.control);
    let rates: Vec<String> = systems.filter_map(rate).take(NAMED_MAX).collect();
    let kind = match entry.workload.is_open_loop() {
        true => "open loop",
        false => "closed loop",
    };
    let label = &entry.label;
    (!rates.is_empty()).then(|| format!("{label} ({kind}): {} ops/s", rates.join(", ")))
}

fn limited_by(view: &ResultsView<'_>) -> String {
    if view.results.trials.is_empty() {
        return String::new();
    }
    let at_lines = load_line::limits_reached(view);
    if !at_lines.is_empty() {
        return at_lines.join("; ");
    }
    limits::in_short(view)
}

/// The picture of what the run was made for.
fn figure(view: &ResultsView<'_>) -> Option<ReportFigure> {
    if uses::are_several(view) {
        return None;
    }
    if !view.load_lines.is_empty() {
        return load_line::first_figure(view);
    }
    if let Some(figure) = faults::first_figure(view) {
        return Some(figure);
    }
    if !view.steps.is_empty() {
        return ladder::first_figure(view);
    }
    if !view.comparisons.is_empty() {
        return Some(forest::first_figure(view));
    }
    let entry = view.entries().find(|entry| !entry.workload.is_idle())?;
    let pools = view.pools(entry);
    if pools
        .iter()
        .flat_map(|pool| &pool.trials)
        .any(|t| !t.phases.is_empty())
    {
        return None;
    }
    let over_time = series::figures(view, &pools).into_iter().last();
    let figure = match pools.is_empty() {
        true => None,
        false => over_time.or_else(|| Some(workload::percentiles(&pools))),
    };
    figure.map(ReportFigure::compact)
}

/// All that could make a reader doubt, the heaviest first, with the section that says more.
fn heaviest(view: &ResultsView<'_>) -> Vec<ReportDoubt> {
    let mut findings = surroundings::memory(view);
    findings.extend(doubts::alarms(view));
    findings.extend(surroundings::noise(view));
    findings.extend(limits::of_client(view));
    findings.extend(nodes::alarms(view));
    findings.sort_by_key(weight);
    // Of each kind there is one, the first.
    let mut kinds = std::collections::BTreeSet::new();
    findings.retain(|finding| kinds.insert(finding.mark.clone()));
    let told = findings.into_iter().map(|finding| ReportDoubt {
        section: section_of(&finding).into(),
        text: finding.text,
    });
    told.chain(of_design(view)).take(DOUBTS_MAX).collect()
}

/// How heavy the doubts of a mark are, and the section that says more of them.
const MARKS: [(&str, &str); 8] = [
    ("bad data", "integrity"),
    ("noisy machine", "limits"),
    ("incomplete", "incomplete"),
    (doubts::INTERIM, "findings"),
    ("check the target", "systems"),
    ("not this load", "load-fidelity"),
    ("check the load", "load-fidelity"),
    ("check the generator", "generator"),
];

fn weight(finding: &ReportFinding) -> usize {
    let place = MARKS.iter().position(|(mark, _)| *mark == finding.mark);
    place.unwrap_or(MARKS.len())
}

fn section_of(finding: &ReportFinding) -> &'static str {
    let found = MARKS.iter().find(|(mark, _)| *mark == finding.mark);
    found.map_or("findings", |(_, section)| section)
}

/// Doubts about the answer that the way of measuring leaves open.
fn of_design(view: &ResultsView<'_>) -> Vec<ReportDoubt> {
    let told = [
        drift(view),
        simulated(view),
        blind(view),
        no_control(view),
        one_block(view),
        rising(view),
        warned(view),
    ];
    let doubts = told.into_iter().flatten();
    let doubts = doubts.map(|(text, section)| ReportDoubt {
        text,
        section: section.into(),
    });
    doubts.collect()
}

/// A doubt, and the section that says more.
type DesignDoubt = Option<(String, &'static str)>;

fn drift(view: &ResultsView<'_>) -> DesignDoubt {
    let differs =
        |row: &&ArmComparison| row.is_control && row.verdict == ComparisonVerdict::Different;
    let row = view.comparisons.iter().find(differs)?;
    let text = format!(
        "{} differs from itself on {}",
        row.base,
        words::workload(row)
    );
    Some((format!("{text}: order or drift is at work."), "verdicts"))
}

fn simulated(view: &ResultsView<'_>) -> DesignDoubt {
    let mut arms = view.arms.iter().map(|view| view.arm);
    let is_simulated = arms.any(|arm| arm.target.contains(SIMULATED) && arm.facts.is_none());
    let text = "Simulated devices follow simple laws; no hardware was measured.";
    is_simulated.then(|| (text.into(), "systems"))
}

fn blind(view: &ResultsView<'_>) -> DesignDoubt {
    let rows = view.comparisons.iter().filter(|row| !row.is_control);
    let most = rows.filter_map(|row| row.detectable).fold(0.0, f64::max);
    (most > BLIND && most.is_finite()).then(|| {
        let text = format!(
            "Differences below {} may go unseen with so few blocks.",
            words::apart(most)
        );
        (text, "verdicts")
    })
}

fn no_control(view: &ResultsView<'_>) -> DesignDoubt {
    let has_control = view.comparisons.iter().any(|row| row.is_control);
    let text = "There is no A/A control: what the same system differs by from itself is unknown.";
    (!view.comparisons.is_empty() && !has_control).then(|| (text.into(), "verdicts"))
}

fn one_block(view: &ResultsView<'_>) -> DesignDoubt {
    let trials = &view.results.trials;
    let is_one = !trials.is_empty() && trials.iter().all(|trial| trial.trial.block == 0);
    let text = "There is one block: nothing shows how far the results repeat.";
    (view.load_lines.is_empty() && is_one).then(|| (text.into(), "method"))
}

fn rising(view: &ResultsView<'_>) -> DesignDoubt {
    let mut found = view
        .load_lines
        .iter()
        .filter_map(|line| line.result.steadiness);
    let text = "Response times still rose at the end of the longest stay.";
    found
        .any(|found| !found.is_steady)
        .then(|| (text.into(), "load-line"))
}

fn warned(view: &ResultsView<'_>) -> DesignDoubt {
    let warnings = &view.results.warnings;
    let mut about: Vec<&str> = warnings.iter().map(|one| one.about.as_str()).collect();
    about.sort_unstable();
    about.dedup();
    about.retain(|about| !about.is_empty());
    about.truncate(NAMED_MAX);
    let about = match about.is_empty() {
        true => String::new(),
        false => format!(" (on {})", about.join(", ")),
    };
    let text = || {
        format!(
            "The run gave {}{about}.",
            words::count(warnings.len(), "warning")
        )
    };
    (!warnings.is_empty()).then(|| (text(), "warnings"))
}
