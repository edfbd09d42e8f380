// SPDX-License-Identifier: Apache-2.0
//! Everything that could make a reader doubt the answer: what is missing, whether the load was the
//! intended one, whether the generator kept up.

use std::collections::BTreeMap;

use plimsoll_core::event::{TrialResult, WorkloadEntry};
use plimsoll_core::explanation::ExplanationCause;
use plimsoll_core::model::FidelityCheck;
use plimsoll_core::num::{ratio, round_u64};
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;

use super::overload;
use super::view::{ArmTrials, ResultsView, grouped, number};
use crate::model::{
    ChartQuantity, ReportFinding, ReportItem, ReportSection, ReportSeverity, ReportTable,
    ReportTableCell,
};
use crate::words;

/// How the engine of a trial is called that another program ran and wrote down.
const IMPORTED: &str = "imported from ";
/// How it is called where an original program was the load.
const PROGRAM: &str = "the original program";
/// Bad blocks that are named.
const FINDINGS_SHOWN: usize = 5;
/// Most doubts of one kind that are shown, and most workloads that are named in one.
const JOINED_MAX: usize = 3;
/// Mark of the doubt that a run goes on.
pub(super) const INTERIM: &str = "interim";

/// Doubts that belong next to the result: a reader of only the first lines must see them.
pub(super) fn alarms(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    let mut alarms = Vec::new();
    if !view.goes_on && !view.results.complete {
        let detail = "Only completed blocks are evaluated.";
        alarms.push(ReportFinding::new("incomplete", "The run is incomplete").detail(detail));
    }
    let entries = &view.results.manifest.entries;
    alarms.extend(entries.iter().filter_map(untrue_model));
    let pools = |entry| view.pools(entry).into_iter().map(move |pool| (pool, entry));
    let pools: Vec<PoolOfEntry<'_>> = entries.iter().flat_map(pools).collect();
    for doubt in [aborted, failures, unfinished, bad_data] {
        let of_kind = pools.iter().filter_map(|(pool, entry)| doubt(pool, entry));
        alarms.extend(joined(of_kind.collect()));
    }
    alarms.extend(other_load(&pools));
    alarms.extend(held_up(&pools));
    let bad = alarms.into_iter().map(|one| one.tone(ReportSeverity::Bad));
    interim(view).into_iter().chain(bad).collect()
}

/// Doubt about a run that goes on.
fn interim(view: &ResultsView<'_>) -> Option<ReportFinding> {
    let text = "The run goes on: its results are interim and no verdict";
    let detail = "The rule that ends a run was fixed before its first block.";
    let finding = ReportFinding::new(INTERIM, text).detail(detail);
    view.goes_on.then(|| finding.tone(ReportSeverity::Care))
}

/// Trials of one arm under one workload.
type PoolOfEntry<'a> = (ArmTrials<'a>, &'a WorkloadEntry);

/// Doubts of one kind as one.
fn joined(all: Vec<ReportFinding>) -> Option<ReportFinding> {
    let more = all.len().saturating_sub(JOINED_MAX);
    let mut texts: Vec<String> = all
        .iter()
        .take(JOINED_MAX)
        .map(|one| one.text.clone())
        .collect();
    if more > 0 {
        texts.push(format!("{more} more like these"));
    }
    let first = all.into_iter().next()?;
    Some(ReportFinding {
        text: texts.join("; "),
        ..first
    })
}

/// The arms that a doubt is about, once each.
fn names(pools: &[&PoolOfEntry<'_>]) -> String {
    let mut names: Vec<String> = Vec::new();
    for (pool, _) in pools {
        if !names.contains(&pool.name()) {
            names.push(pool.name());
        }
    }
    names.join(", ")
}

/// The workloads that a doubt is about, once each.
fn labels(pools: &[&PoolOfEntry<'_>]) -> String {
    let mut labels: Vec<&str> = pools
        .iter()
        .map(|(_, entry)| entry.label.as_str())
        .collect();
    labels.dedup();
    match labels.len() {
        0..=JOINED_MAX => labels.join(", "),
        many => words::count(many, "workload"),
    }
}

/// A load that missed a gate.
fn other_load(pools: &[PoolOfEntry<'_>]) -> Option<ReportFinding> {
    let off = |t: &&&TrialResult| t.fidelity.iter().any(|f| !f.passed());
    let missed = |pool: &ArmTrials<'_>| pool.trials.iter().filter(off).count();
    // Requests that an overloaded system did not take do not make it another load than intended.
    let is_other = |pool: &ArmTrials<'_>| missed(pool) > 0 && overload::alone_is_silent(pool);
    let about: Vec<_> = pools.iter().filter(|(pool, _)| is_other(pool)).collect();
    let failed: usize = about.iter().map(|(pool, _)| missed(pool)).sum();
    let trials: usize = about.iter().map(|(pool, _)| pool.trials.len()).sum();
    (failed > 0).then(|| {
        let text = format!(
            "{} received a different load than intended on {} in {failed} of {}",
            names(&about),
            labels(&about),
            words::count(trials, "trial")
        );
        let detail = "A gate failed; see “Load fidelity”.";
        ReportFinding::new("check the load", text).detail(detail)
    })
}

/// Trials that an error ended, with the first one.
fn aborted(pool: &ArmTrials<'_>, entry: &WorkloadEntry) -> Option<ReportFinding> {
    let reasons = pool.trials.iter().filter_map(|trial| trial.failed.as_ref());
    let count = reasons.clone().count();
    let first = reasons.min()?;
    let text = format!(
        "{count} of {} trials of {} on {} were aborted: {first}",
        pool.trials.len(),
        pool.name(),
        entry.label
    );
    let detail = "Trials that were aborted are not compared.";
    Some(ReportFinding::new("check the target", text).detail(detail))
}

/// Operations that failed, with what the system said.
fn failures(pool: &ArmTrials<'_>, entry: &WorkloadEntry) -> Option<ReportFinding> {
    let errors = pool.stats.errors();
    let mut why: BTreeMap<i32, u64> = BTreeMap::new();
    for trial in &pool.trials {
        for (errno, operations) in &trial.generator.errnos {
            *why.entry(*errno).or_default() += operations;
        }
    }
    let named: Vec<String> = why
        .iter()
        .map(|(errno, operations)| {
            let text = std::io::Error::from_raw_os_error(*errno);
            format!("{}: {text}", grouped(*operations))
        })
        .collect();
    let why = if named.is_empty() {
        String::new()
    } else {
        format!(" ({})", named.join("; "))
    };
    (errors > 0).then(|| {
        let text = format!(
            "{} of {} operations of {} failed on {}{why}",
            grouped(errors),
            grouped(pool.stats.ops()),
            pool.name(),
            entry.label
        );
        let detail = "Trials with failed operations are not compared.";
        ReportFinding::new("check the target", text).detail(detail)
    })
}

/// Operations that were still in flight when a trial was cut off, unless the load was too much.
fn unfinished(pool: &ArmTrials<'_>, entry: &WorkloadEntry) -> Option<ReportFinding> {
    let count: u64 = pool.trials.iter().map(|t| t.generator.unfinished).sum();
    (count > 0 && overload::alone_is_silent(pool)).then(|| {
        let text = format!(
            "{} operations of {} were still in flight when trials of {} were cut off",
            grouped(count),
            pool.name(),
            entry.label
        );
        let detail = "They did not complete; their times until then are included.";
        ReportFinding::new("check the target", text).detail(detail)
    })
}

/// Time for which this program was suspended.
fn held_up(pools: &[PoolOfEntry<'_>]) -> Option<ReportFinding> {
    let was = |t: &&&TrialResult| t.generator.held_up > Nanos(0);
    let about: Vec<_> = pools
        .iter()
        .filter(|(pool, _)| pool.trials.iter().any(|t| was(&t)))
        .collect();
    let trials = || about.iter().flat_map(|(pool, _)| &pool.trials);
    let longest = trials().map(|t| t.generator.held_up).max()?;
    let text = format!(
        "Plimsoll itself was suspended for {} in {} of {} of {} on {} (stopped, frozen or without CPU time)",
        units::duration(longest),
        trials().filter(was).count(),
        words::count(trials().count(), "trial"),
        names(&about),
        labels(&about),
    );
    let detail = match trials().filter(|t| t.was_held_up()).count() {
        0 => "It was short compared with the trial, so the trial is compared.".into(),
        left_out => format!(
            "The storage did not cause this; {} not compared.",
            words::count(left_out, "trial")
        ),
    };
    Some(ReportFinding::new("check the generator", text).detail(detail))
}

/// A model that missed a gate.
fn untrue_model(entry: &WorkloadEntry) -> Option<ReportFinding> {
    let Workload::Model(model) = &entry.workload else {
        return None;
    };
    let missed: Vec<&str> = model.missed().map(|f| f.metric.as_str()).collect();
    (!missed.is_empty()).then(|| {
        let text = format!(
            "{} is not the recorded load: its model missed {} and was played anyway",
            entry.label,
            words::count(missed.len(), "gate")
        );
        ReportFinding::new("not this load", text).detail(missed.join("; "))
    })
}

/// Data that did not come back as they were written.
fn bad_data(pool: &ArmTrials<'_>, entry: &WorkloadEntry) -> Option<ReportFinding> {
    let check = pool.data_check()?;
    (check.bad.total() > 0).then(|| {
        let text = format!(
            "Data verification failed on {} under {}: {check}",
            pool.name(),
            entry.label
        );
        let detail = format!(
            "First: {}. Trials with bad blocks are not compared.",
            check.first_words(FINDINGS_SHOWN)
        );
        ReportFinding::new("bad data", text).detail(detail)
    })
}

/// Missing trials of a run that was stopped or killed.
pub(super) fn missing(view: &ResultsView<'_>) -> Option<ReportSection> {
    // A run that goes on is not incomplete: the rest is still to come.
    if view.goes_on {
        return None;
    }
    let results = view.results;
    let manifest = &results.manifest;
    let whole = results.trials.iter().filter(|t| !t.interrupted).count();
    let ended: Vec<u32> = results.trials.iter().map(|t| t.trial.place).collect();
    let cut: Vec<String> = results
        .intervals
        .iter()
        .filter(|(place, _)| !ended.contains(place))
        .map(|(place, intervals)| {
            let length = intervals.iter().fold(Nanos(0), |sum, i| sum + i.length);
            format!(
                "Aborted without a result: the trial at place {} of the order, after {}.",
                place + 1,
                units::clock_duration(length)
            )
        })
        .collect();
    let stopped = results.trials.iter().filter(|t| t.interrupted).map(|t| {
        format!(
            "Stopped by the user, kept but not compared: {} on {}, block {}, after {}.",
            view.name_of(&t.trial.arm),
            t.trial.workload,
            t.trial.block + 1,
            units::clock_duration(t.length)
        )
    });
    let lines: Vec<String> = cut.into_iter().chain(stopped).collect();
    if results.complete && lines.is_empty() {
        return None;
    }
    let mut section = ReportSection::new("This run is incomplete", "").at("incomplete");
    section.is_answer = true;
    let ended = match plimsoll_core::num::to_usize(manifest.planned_trials()) {
        // A search plans one trial after the other.
        0 => format!("{} ended as planned", words::count(whole, "trial")),
        planned => format!(
            "{whole} of {} ended as planned",
            words::count(planned, "trial")
        ),
    };
    section.items.push(ReportItem::Notice(
        ReportSeverity::Bad,
        format!("{ended}. Only these are evaluated below."),
    ));
    section
        .items
        .extend(lines.into_iter().map(ReportItem::Text));
    Some(section)
}

/// Whether the load was the one of the model.
pub(super) fn fidelity(view: &ResultsView<'_>) -> Option<ReportSection> {
    let mut section = ReportSection::new(
        "Load fidelity",
        "Each model is checked against its recording, and the load of each trial against the \
         model. A failed gate means that the results are for a different workload.",
    );
    for entry in &view.results.manifest.entries {
        let Workload::Model(model) = &entry.workload else {
            continue;
        };
        if !model.fidelity.is_empty() {
            let title = format!("{}: the model against its recording", entry.label);
            section
                .items
                .push(folded(of_model(title, &model.fidelity), &model.fidelity));
        }
        if let Some(verified) = &model.verified {
            let title = format!(
                "{}: the model verified against {}, disk {}, {} to {}",
                entry.label, verified.recording, verified.disk, verified.from, verified.to
            );
            let lines: Vec<FidelityCheck> = verified.lines.iter().map(|c| c.line.clone()).collect();
            section.items.push(folded(of_model(title, &lines), &lines));
        }
        let pools = view.pools(entry);
        if pools
            .iter()
            .any(|p| p.trials.iter().any(|t| !t.fidelity.is_empty()))
        {
            let trials = pools.iter().flat_map(|pool| &pool.trials);
            let lines: Vec<FidelityCheck> = trials.flat_map(|t| t.fidelity.clone()).collect();
            section.items.push(folded(of_trials(entry, &pools), &lines));
        }
    }
    (!section.items.is_empty()).then_some(section)
}

/// The table of these gates; in one line where all passed: then there is nothing to look at.
fn folded(table: ReportTable, gates: &[FidelityCheck]) -> ReportItem {
    let passed = gates.iter().filter(|gate| gate.passed()).count();
    if passed < gates.len() {
        return ReportItem::Table(table);
    }
    let line = format!(
        "{}: {passed} of {} gates passed.",
        table.caption,
        gates.len()
    );
    ReportItem::Folded(line, table)
}

fn of_model(title: String, fidelity: &[FidelityCheck]) -> ReportTable {
    let mut table = ReportTable::new(
        title,
        &["Metric", "#Recorded", "#Model", "#Error", "#Gate", "Result"],
    );
    for f in fidelity {
        table.rows.push(vec![
            ReportTableCell::new(f.metric.clone()),
            ReportTableCell::new(number(f.recorded)),
            ReportTableCell::new(number(f.submitted)),
            ReportTableCell::new(f.shown(|value| error(f, value))),
            ReportTableCell::new(error(f, f.gate).replace('+', "±")),
            result(usize::from(f.passed()), 1),
        ]);
    }
    table
}

fn of_trials(entry: &WorkloadEntry, pools: &[ArmTrials<'_>]) -> ReportTable {
    let mut table = ReportTable::new(
        format!("{}: the load of the trials against the model", entry.label),
        &["System", "Metric", "#Worst error", "#Gate", "Result"],
    );
    for pool in pools {
        let all: Vec<&FidelityCheck> = pool.trials.iter().flat_map(|t| &t.fidelity).collect();
        let mut metrics: Vec<&str> = Vec::new();
        for f in &all {
            if !metrics.contains(&f.metric.as_str()) {
                metrics.push(&f.metric);
            }
        }
        for (place, metric) in metrics.into_iter().enumerate() {
            let of: Vec<&&FidelityCheck> = all.iter().filter(|f| f.metric == metric).collect();
            let worst = of
                .iter()
                .max_by(|a, b| a.error.abs().total_cmp(&b.error.abs()));
            let Some(worst) = worst else { continue };
            table.rows.push(vec![
                ReportTableCell::new(if place == 0 {
                    pool.name()
                } else {
                    String::new()
                }),
                ReportTableCell::new(metric),
                ReportTableCell::new(error(worst, worst.error)),
                ReportTableCell::new(error(worst, worst.gate).replace('+', "±")),
                result(of.iter().filter(|f| f.passed()).count(), of.len()),
            ]);
        }
    }
    table
}

/// An error in the way of its metric: a percentage where it is relative, else a number.
fn error(of: &FidelityCheck, value: f64) -> String {
    let relative = FidelityCheck::relative("", of.recorded, of.submitted, 0.0).error;
    if (relative - of.error).abs() < 1e-9 {
        // A rounded zero has no direction.
        let text = units::signed_percent(value);
        let zero = text.trim_start_matches(['+', '-']);
        if zero == "0.0 %" { zero.into() } else { text }
    } else {
        format!("{value:.3}")
    }
}

fn result(passed: usize, of: usize) -> ReportTableCell {
    let times = if of > 1 {
        format!(" {passed}/{of}")
    } else {
        String::new()
    };
    if passed == of {
        ReportTableCell::new(format!("pass{times}")).tone(ReportSeverity::Good)
    } else {
        ReportTableCell::new(format!("FAIL{times}")).tone(ReportSeverity::Bad)
    }
}

/// Whether programs made the load, here or in an imported run: they give no account of it.
fn ran_elsewhere(pools: &[ArmTrials<'_>]) -> bool {
    let mut engines = pools.iter().flat_map(|pool| {
        pool.trials
            .iter()
            .map(|trial| trial.generator.engine.as_str())
    });
    engines.any(|engine| engine.starts_with(IMPORTED) || engine == PROGRAM)
}

/// The generator's own account.
pub(super) fn generator(view: &ResultsView<'_>) -> Option<ReportSection> {
    let mut section = ReportSection::new(
        "Did the load generator keep up?",
        "If requests were submitted late, response times include delay in the load generator; the \
         figures that decide are in “What limited the results?”.",
    )
    .at("generator");
    let mut table = ReportTable::new(
        "Load generator",
        &[
            "Workload",
            "System",
            "#CPU per operation",
            "#Submission delay, mean",
            "#Submission delay, p99",
            "#Share of response time",
            "~#Waiting for the queue",
            "#Not submitted",
            "Kept up",
            "~Engine",
        ],
    );
    for entry in &view.results.manifest.entries {
        let pools = view.pools(entry);
        if ran_elsewhere(&pools) || entry.workload.is_idle() {
            continue;
        }
        for (place, pool) in pools.iter().enumerate() {
            let label = if place == 0 { entry.label.as_str() } else { "" };
            table.rows.push(account(view, pool, entry, label));
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    table.notes.push(
        "Submission delay: the time from the intended start to the submission. While the queue is \
         full, the storage causes it."
            .into(),
    );
    section.items.push(ReportItem::Table(table));
    Some(section)
}

/// Whether the generator is one of the explanations.
fn is_late(view: &ResultsView<'_>, pool: &ArmTrials<'_>, entry: &WorkloadEntry) -> bool {
    let arm = pool.trials.first().map(|trial| &trial.trial.arm);
    let mut told = view.explanations.iter();
    let told = told.find(|told| told.workload == entry.label && Some(&told.arm) == arm);
    let causes = [
        ExplanationCause::GeneratorLate,
        ExplanationCause::ClientProcessor,
    ];
    told.is_some_and(|told| told.found.iter().any(|one| causes.contains(&one.cause)))
}

/// A row of the table.
fn account(
    view: &ResultsView<'_>,
    pool: &ArmTrials<'_>,
    entry: &WorkloadEntry,
    label: &str,
) -> Vec<ReportTableCell> {
    let cpu = pool.values(|t| {
        let spent = t.generator.user_cpu_ns + t.generator.system_cpu_ns;
        ratio(spent as f64, t.stats.ops() as f64)
    });
    let lag = pool.stats.lag();
    let response = pool.stats.response().sum_ns();
    let queue: u64 = pool.trials.iter().map(|t| t.generator.queue_lag_ns()).sum();
    let own = ratio(lag.sum_ns().saturating_sub(queue) as f64, response as f64);
    let lost: u64 = pool.trials.iter().map(|t| t.generator.not_submitted).sum();
    let mut engines: Vec<&str> = Vec::new();
    for trial in &pool.trials {
        if !engines.contains(&trial.generator.engine.as_str()) {
            engines.push(&trial.generator.engine);
        }
    }
    vec![
        ReportTableCell::new(label),
        ReportTableCell::new(pool.name()),
        words::spread(&cpu, ChartQuantity::Duration),
        ReportTableCell::new(units::duration(Nanos(round_u64(lag.mean_ns())))),
        ReportTableCell::new(units::duration(Nanos(lag.quantile_ns(0.99)))),
        ReportTableCell::new(words::percent(own)),
        ReportTableCell::new(words::percent(ratio(queue as f64, response as f64))),
        ReportTableCell::new(grouped(lost)),
        match is_late(view, pool, entry) {
            false => ReportTableCell::new("yes").tone(ReportSeverity::Good),
            true => ReportTableCell::new("NO").tone(ReportSeverity::Bad),
        },
        ReportTableCell::new(engines.join("; ")),
    ]
}

/// Warnings of the run itself.
pub(super) fn warnings(view: &ResultsView<'_>) -> Option<ReportSection> {
    let warnings = &view.results.warnings;
    if warnings.is_empty() {
        return None;
    }
    let mut section = ReportSection::new("Warnings", "");
    for warning in warnings {
        let text = if warning.about.is_empty() {
            warning.text.clone()
        } else {
            format!("{}: {}", warning.about, warning.text)
        };
        section
            .items
            .push(ReportItem::Notice(ReportSeverity::Care, text));
    }
    Some(section)
}
