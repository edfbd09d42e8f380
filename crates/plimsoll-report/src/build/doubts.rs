// SPDX-License-Identifier: Apache-2.0
//! Everything that could make a reader doubt the answer: what is missing, whether the load was the
//! intended one, whether memory answered for the storage, whether the generator kept up.

use std::collections::BTreeMap;

use plimsoll_core::event::ClientLoadNodeResult;
use plimsoll_core::event::{DeviceUse, GeneratorStats, TransferTotals, TrialResult, WorkloadEntry};
use plimsoll_core::model::FidelityCheck;
use plimsoll_core::num::{ratio, round_u64};
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;

use plimsoll_stats::generator_was_busy;

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
/// Lag beyond this share of all response time is named next to the answer. Shares of
/// sums, because the mean is what is compared, and lag adds to it as it is.
const LAG_SHARE: f64 = 0.1;

/// Making the load may take this share of the processors’ time: where nothing is left, the storage
/// waits for the processors as well.
const CPU_SHARE_MAX: f64 = 0.8;

/// Bad blocks that are named.
const FINDINGS_SHOWN: usize = 5;

/// Doubts that belong next to the answer: whoever reads only the first lines must see them.
pub(super) fn alarms(view: &ResultsView<'_>) -> Vec<ReportFinding> {
    let mut alarms = Vec::new();
    let mut late_corners = 0;
    if !view.results.complete {
        let text = "The run is incomplete".into();
        let detail = "Only completed blocks are evaluated.";
        alarms.push(alarm("incomplete", text, detail));
    }
    for entry in &view.results.manifest.entries {
        alarms.extend(untrue_model(entry));
        for pool in view.pools(entry) {
            alarms.extend(other_load(&pool, entry));
            alarms.extend(failures(&pool, entry));
            alarms.extend(unfinished(&pool, entry));
            alarms.extend(bad_data(&pool, entry));
            alarms.extend(held_up(&pool, entry));
            let (_, late) = account(view, &pool, entry, "");
            if late.is_some() && entry.corner_of.is_some() {
                late_corners += 1;
            } else if let Some(late) = late {
                let text = format!(
                    "{} on {}: {}",
                    pool.name(),
                    entry.label,
                    late.trim_end_matches('.')
                );
                let detail = "Its response times include delay in the load generator.";
                alarms.push(alarm("check the generator", text, detail));
            }
        }
    }
    if late_corners > 0 {
        let text =
            format!("The load generator was late in {late_corners} runs at sensitivity bounds");
        let detail =
            "See “Did the load generator keep up?”; their response times include its delay.";
        alarms.push(alarm("check the generator", text, detail));
    }
    alarms
}

fn alarm(mark: &str, text: String, detail: &str) -> ReportFinding {
    ReportFinding {
        mark: mark.into(),
        tone: ReportSeverity::Bad,
        text,
        detail: detail.into(),
    }
}

/// A load that missed a gate.
fn other_load(pool: &ArmTrials<'_>, entry: &WorkloadEntry) -> Option<ReportFinding> {
    let off = |t: &&&TrialResult| t.fidelity.iter().any(|f| !f.passed());
    let failed = pool.trials.iter().filter(off).count();
    // What an overloaded system did not take is no other load than intended.
    (failed > 0 && overload::alone_is_silent(pool)).then(|| {
        let trials = words::count(pool.trials.len(), "trial");
        let text = format!(
            "{} received a different load than intended on {} in {failed} of {trials}",
            pool.name(),
            entry.label
        );
        let detail = "A gate failed; see “Load fidelity”.";
        alarm("check the load", text, detail)
    })
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
        alarm("check the target", text, detail)
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
        alarm("check the target", text, detail)
    })
}

/// Time for which this program was suspended.
fn held_up(pool: &ArmTrials<'_>, entry: &WorkloadEntry) -> Option<ReportFinding> {
    let times: Vec<Nanos> = pool.trials.iter().map(|t| t.generator.held_up).collect();
    let longest = times
        .iter()
        .max()
        .copied()
        .filter(|time| *time > Nanos(0))?;
    let held_up = times.iter().filter(|time| **time > Nanos(0)).count();
    let left_out = pool.trials.iter().filter(|t| t.was_held_up()).count();
    let text = format!(
        "{} on {}: plimsoll itself was suspended for {} in {held_up} of {} (stopped, frozen or \
         without CPU time)",
        pool.name(),
        entry.label,
        units::duration(longest),
        words::count(pool.trials.len(), "trial")
    );
    let detail = if left_out > 0 {
        format!(
            "The storage did not cause this; {} not compared.",
            words::count(left_out, "trial")
        )
    } else {
        "It was short compared with the trial, so the trial is compared.".into()
    };
    Some(alarm("check the generator", text, &detail))
}

/// A model that missed a gate; a sensitivity bound says nothing that its model does not.
fn untrue_model(entry: &WorkloadEntry) -> Option<ReportFinding> {
    let Workload::Model(model) = &entry.workload else {
        return None;
    };
    let missed: Vec<&str> = model.missed().map(|f| f.metric.as_str()).collect();
    (!missed.is_empty() && entry.corner_of.is_none()).then(|| ReportFinding {
        mark: "not this load".into(),
        tone: ReportSeverity::Bad,
        text: format!(
            "{} is not the recorded load: its model missed {} and was played anyway",
            entry.label,
            words::count(missed.len(), "gate")
        ),
        detail: missed.join("; "),
    })
}

/// Data that did not come back as they were written.
fn bad_data(pool: &ArmTrials<'_>, entry: &WorkloadEntry) -> Option<ReportFinding> {
    let check = pool.data_check()?;
    (check.bad.total() > 0).then(|| ReportFinding {
        mark: "bad data".into(),
        tone: ReportSeverity::Bad,
        text: format!(
            "Data verification failed on {} under {}: {check}",
            pool.name(),
            entry.label
        ),
        detail: format!(
            "First: {}. Trials with bad blocks are not compared.",
            check.first_words(FINDINGS_SHOWN)
        ),
    })
}

/// What a run that was stopped or killed lacks.
pub(super) fn missing(view: &ResultsView<'_>) -> Option<ReportSection> {
    let results = view.results;
    let manifest = &results.manifest;
    let planned = plimsoll_core::num::to_usize(manifest.planned_trials());
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
    let mut section = ReportSection::new("This run is incomplete", "");
    section.is_answer = true;
    section.items.push(ReportItem::Notice(
        ReportSeverity::Bad,
        format!(
            "{whole} of {} ended as planned. Only these are evaluated below.",
            words::count(planned, "trial")
        ),
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
        // That of a sensitivity bound is the model's.
        if !model.fidelity.is_empty() && entry.corner_of.is_none() {
            let title = format!("{}: the model against its recording", entry.label);
            section
                .items
                .push(folded(of_model(title, &model.fidelity), &model.fidelity));
        }
        if let Some(verified) = &model.verified
            && entry.corner_of.is_none()
        {
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
            ReportTableCell::new(error(f, f.error)),
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

/// A device that moved as much as it was asked, but for what a file system adds and the edges of
/// seconds, is in here.
const DEVICE_RATIO: std::ops::RangeInclusive<f64> = 0.9..=1.1;

/// Whether memory could have answered for the storage.
pub(super) fn cache(view: &ResultsView<'_>) -> Option<ReportSection> {
    let ram = view.load_ram_bytes();
    let whose = if view.results.manifest.load_nodes.is_empty() {
        "this machine’s"
    } else {
        "a node’s"
    };
    let mut section = ReportSection::new("Could caching explain the results?", "");
    for entry in view.entries().filter(|entry| !entry.workload.is_idle()) {
        if ran_elsewhere(&view.pools(entry)) {
            let text = format!(
                "{}: unknown; the program reports neither its data set nor its use of the cache.",
                entry.label
            );
            section
                .items
                .push(ReportItem::Notice(ReportSeverity::Plain, text));
            continue;
        }
        let bytes = entry.workload.data_set_bytes();
        let share = words::percent(ratio(bytes as f64, ram as f64));
        let sizes = format!(
            "{}: data set {}, {share} of {whose} memory ({})",
            entry.label,
            units::size(bytes as f64),
            units::size(ram as f64),
        );
        let (tone, text) = served_by(view, entry);
        section
            .items
            .push(ReportItem::Notice(tone, format!("{sizes}; {text}")));
        let pools = view.pools(entry);
        let told = pools
            .iter()
            .filter_map(|pool| served_by_device(pool, entry));
        section.items.extend(told);
    }
    (!section.items.is_empty()).then_some(section)
}

/// What the device below a system moved for what it was asked, over all trials.
fn served_by_device(pool: &ArmTrials<'_>, entry: &WorkloadEntry) -> Option<ReportItem> {
    let used = || pool.trials.iter().filter_map(|trial| trial.device.as_ref());
    let device = &used().next()?.device;
    let sum = |of: fn(&DeviceUse) -> TransferTotals| {
        used()
            .map(of)
            .fold(TransferTotals::default(), TransferTotals::and)
    };
    let (served, asked) = (sum(|used| used.served), sum(|used| used.asked));
    let ways = [
        ("read", served.read_bytes, asked.read_bytes),
        ("wrote", served.written_bytes, asked.written_bytes),
    ];
    let ways = ways.iter().filter(|(_, _, asked)| *asked > 0);
    let ratios: Vec<_> = ways
        .map(|(verb, served, asked)| (*verb, ratio(*served as f64, *asked as f64)))
        .collect();
    if ratios.is_empty() {
        return None;
    }
    let words: Vec<String> = ratios
        .iter()
        .map(|(verb, times)| format!("{verb} {times:.2} times"))
        .collect();
    let is_far = ratios
        .iter()
        .any(|(_, times)| !DEVICE_RATIO.contains(times));
    let (tone, why) = match is_far {
        true => (
            ReportSeverity::Care,
            "; a cache, a file system or another user made the difference",
        ),
        false => (ReportSeverity::Plain, ""),
    };
    let merged = merged(&used().collect::<Vec<_>>());
    let text = format!(
        "{}, {}: the device {device} {} the bytes requested in the same seconds{why}.{}",
        entry.label,
        pool.name(),
        words.join(" and "),
        merged.as_deref().unwrap_or_default()
    );
    Some(ReportItem::Notice(tone, text))
}

/// From this share on merges change what the storage is asked.
const MERGED_SHARE: f64 = 0.1;

/// What the kernel merged before it reached the device: then the storage saw fewer and larger
/// requests than the workload has operations.
fn merged(used: &[&DeviceUse]) -> Option<String> {
    let ways = ["reads", "writes"].into_iter().enumerate();
    let words: Vec<String> = ways
        .filter_map(|(way, name)| {
            let sum = |of: &dyn Fn(&DeviceUse) -> u64| -> u64 { used.iter().map(|u| of(u)).sum() };
            let merged = sum(&|used| used.merged[way]);
            let served = sum(&|used| [used.served.reads, used.served.writes][way]);
            let asked = sum(&|used| [used.asked.reads, used.asked.writes][way]);
            let share = ratio(merged as f64, merged.saturating_add(served) as f64);
            (asked > 0 && share >= MERGED_SHARE)
                .then(|| format!("{} of the {name}", words::percent(share)))
        })
        .collect();
    (!words.is_empty()).then(|| {
        format!(
            " The kernel merged {} before the device, which received fewer and larger requests \
             than the workload has.",
            words.join(" and ")
        )
    })
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

/// What memory could have done for the storage under this workload.
fn served_by(view: &ResultsView<'_>, entry: &WorkloadEntry) -> (ReportSeverity, &'static str) {
    let facts: Vec<_> = view
        .results
        .manifest
        .arms
        .iter()
        .map(|arm| &arm.facts)
        .collect();
    let fits = entry.workload.data_set_bytes() < view.load_ram_bytes();
    if facts.iter().all(|facts| facts.is_none()) {
        return (
            ReportSeverity::Plain,
            "no storage and no cache was involved.",
        );
    }
    if facts
        .iter()
        .copied()
        .flatten()
        .any(|facts| facts.memory().is_some())
    {
        return (
            ReportSeverity::Bad,
            "at least one system is in memory, so its results measure memory.",
        );
    }
    let everywhere = facts
        .iter()
        .flat_map(|facts| facts.iter())
        .all(|f| f.direct_align_bytes > 0);
    match (entry.workload.is_direct() && everywhere, fits) {
        (true, _) => (
            ReportSeverity::Plain,
            "direct I/O bypasses the client’s page cache; a cache behind it (a server, a \
             controller) is possible.",
        ),
        (false, true) => (
            ReportSeverity::Care,
            "I/O uses the page cache on at least one system, and the data set fits into memory: \
             the cache may have served the reads.",
        ),
        (false, false) => (
            ReportSeverity::Plain,
            "I/O uses the page cache on at least one system, but the data set exceeds memory: \
             the cache can have served only a part of the reads.",
        ),
    }
}

/// The generator's own account.
pub(super) fn generator(view: &ResultsView<'_>) -> Option<ReportSection> {
    let mut section = ReportSection::new(
        "Did the load generator keep up?",
        "If requests were submitted late, response times include delay in the load generator.",
    );
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
            let (row, late) = account(view, pool, entry, label);
            table.rows.push(row);
            if let Some(text) = late {
                let text = format!("{} on {}: {text}", pool.name(), entry.label);
                section
                    .items
                    .push(ReportItem::Notice(ReportSeverity::Bad, text));
            }
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    table.notes.push(format!(
        "Submission delay: the time from the intended start to the submission. While the queue is \
         full, the storage causes it; the rest may be up to {} of all response time. Generating \
         the load may use up to {} of the CPU time.",
        words::percent_whole(LAG_SHARE),
        words::percent_whole(CPU_SHARE_MAX)
    ));
    section.items.push(ReportItem::Table(table));
    Some(section)
}

/// A row of the table, and what went wrong.
fn account(
    view: &ResultsView<'_>,
    pool: &ArmTrials<'_>,
    entry: &WorkloadEntry,
    label: &str,
) -> (Vec<ReportTableCell>, Option<String>) {
    let cpu = pool.values(|t| {
        let spent = t.generator.user_cpu_ns + t.generator.system_cpu_ns;
        ratio(spent as f64, t.stats.ops() as f64)
    });
    let lag = pool.stats.lag();
    let response = pool.stats.response().sum_ns();
    let queue: u64 = pool.trials.iter().map(|t| t.generator.queue_lag_ns()).sum();
    let own = ratio(lag.sum_ns().saturating_sub(queue) as f64, response as f64);
    let lost: u64 = pool.trials.iter().map(|t| t.generator.not_submitted).sum();
    let late = lateness(pool, entry, own).or_else(|| no_time_left(view, pool));
    let mut engines: Vec<&str> = Vec::new();
    for trial in &pool.trials {
        if !engines.contains(&trial.generator.engine.as_str()) {
            engines.push(&trial.generator.engine);
        }
    }
    let row = vec![
        ReportTableCell::new(label),
        ReportTableCell::new(pool.name()),
        words::spread(&cpu, ChartQuantity::Duration),
        ReportTableCell::new(units::duration(Nanos(round_u64(lag.mean_ns())))),
        ReportTableCell::new(units::duration(Nanos(lag.quantile_ns(0.99)))),
        ReportTableCell::new(words::percent(own)),
        ReportTableCell::new(words::percent(ratio(queue as f64, response as f64))),
        ReportTableCell::new(grouped(lost)),
        match late {
            None => ReportTableCell::new("yes").tone(ReportSeverity::Good),
            Some(_) => ReportTableCell::new("NO").tone(ReportSeverity::Bad),
        },
        ReportTableCell::new(engines.join("; ")),
    ];
    (row, late)
}

/// Whether requests left late although there was room for them, which made up this share of all
/// response time; or not at all.
fn lateness(pool: &ArmTrials<'_>, entry: &WorkloadEntry, own: f64) -> Option<String> {
    // Older runs do not record what waited for room in the queue.
    let is_split = pool.trials.iter().any(|t| !t.generator.open.is_empty());
    let lost: u64 = pool.trials.iter().map(|t| t.generator.not_submitted).sum();
    let whose = if is_split {
        "the generator"
    } else {
        "the generator or a full queue"
    };
    if own > LAG_SHARE && !entry.workload.waits_for_threads() {
        let what = if own > 0.5 {
            format!("{whose}, not the storage, was the bottleneck")
        } else {
            format!("that much was added by {whose}, not by the storage")
        };
        let room = if is_split {
            ", although the queue was not full"
        } else {
            ""
        };
        return Some(format!(
            "{} of the response time passed before the requests were submitted{room}: {what}.",
            words::percent(own)
        ));
    }
    (lost > 0 && !is_split).then(|| format!("{} requests were never submitted.", grouped(lost)))
}

/// Whether the load took all of the time there was, of a worker or of the machine.
fn no_time_left(view: &ResultsView<'_>, pool: &ArmTrials<'_>) -> Option<String> {
    let shares = pool.values(|trial| cpu_share(view, trial));
    let most = shares.into_iter().fold(0.0, f64::max);
    if most > CPU_SHARE_MAX {
        return Some(format!(
            "generating the load used {} of all CPU time, so the storage may have waited for a \
             CPU.",
            words::percent(most.min(1.0))
        ));
    }
    let busy = |t: &&&TrialResult| !t.generator.open.is_empty() && generator_was_busy(t);
    pool.trials.iter().find(busy).map(|_| {
        "a worker was busy generating requests nearly all the time and could not keep up.".into()
    })
}

/// Share of the processors' time that making the load took: of a machine's, or the largest of those
/// of the nodes. 0 in virtual time, where processor time is no part of anything.
fn cpu_share(view: &ResultsView<'_>, trial: &TrialResult) -> f64 {
    let share = |generator: &GeneratorStats, length: Nanos, cpus: u32| {
        let spent = generator
            .user_cpu_ns
            .saturating_add(generator.system_cpu_ns);
        let is_virtual = generator.outside_ns == 0;
        let all = length.0 as f64 * f64::from(cpus);
        if is_virtual {
            0.0
        } else {
            ratio(spent as f64, all)
        }
    };
    let manifest = &view.results.manifest;
    if trial.nodes.is_empty() {
        return share(&trial.generator, trial.length, manifest.machine.cpus);
    }
    let of = |node: &ClientLoadNodeResult| {
        let found = manifest.load_nodes.iter().find(|one| one.name == node.node);
        found.map_or(0.0, |one| {
            share(&node.generator, node.length, one.machine.cpus)
        })
    };
    trial.nodes.iter().map(of).fold(0.0, f64::max)
}

/// What the run itself warned of.
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
