// SPDX-License-Identifier: Apache-2.0
//! Everything that could make a reader doubt the answer: what is missing, whether the load was the
//! intended one, whether memory answered for the storage, whether the generator kept up.

use plimsoll_core::event::{DeviceUse, Entry, Transfers, TrialResult};
use plimsoll_core::model::Fidelity;
use plimsoll_core::num::{ratio, round_u64};
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;

use super::view::{Pool, View, grouped, number};
use crate::model::{Cell, Item, Quantity, Section, Sentence, Table, Tone};
use crate::words;

/// How the engine of a trial is called that another program ran and wrote down.
const IMPORTED: &str = "imported from ";
/// How it is called where an original program was the load.
const PROGRAM: &str = "the original program";
/// Lag beyond this share of all response time is named next to the answer. Shares of
/// sums, because the mean is what is compared, and lag adds to it as it is.
const LAG_SHARE: f64 = 0.1;

/// Bad blocks that are named.
const FINDINGS_SHOWN: usize = 5;

/// Doubts that belong next to the answer: whoever reads only the first lines must see them.
pub(super) fn alarms(view: &View<'_>) -> Vec<Sentence> {
    let alarm = |mark: &str, text: String, detail: &str| Sentence {
        mark: mark.into(),
        tone: Tone::Bad,
        text,
        detail: detail.into(),
    };
    let mut alarms = Vec::new();
    let mut late_corners = 0;
    if !view.results.complete {
        let text = "The run did not come to its end".into();
        alarms.push(alarm(
            "incomplete",
            text,
            "What is said rests on the blocks that were finished.",
        ));
    }
    for entry in &view.results.manifest.entries {
        alarms.extend(untrue_model(entry));
        for pool in view.pools(entry) {
            let off = |t: &&&TrialResult| t.fidelity.iter().any(|f| !f.passed());
            let failed = pool.trials.iter().filter(off).count();
            if failed > 0 {
                let trials = words::count(pool.trials.len(), "trial");
                let text = format!(
                    "{} got another load than intended on {} in {failed} of {trials}",
                    pool.name(),
                    entry.label
                );
                alarms.push(alarm(
                    "check the load",
                    text,
                    "A gate of its fidelity failed; see below.",
                ));
            }
            let errors = pool.stats.errors();
            if errors > 0 {
                let text = format!(
                    "{} of {} operations of {} failed on {}",
                    grouped(errors),
                    grouped(pool.stats.ops()),
                    pool.name(),
                    entry.label
                );
                let detail = "Trials with failed operations are not compared: failing is fast.";
                alarms.push(alarm("check the target", text, detail));
            }
            alarms.extend(bad_data(&pool, entry));
            let (_, late) = account(&pool, entry, "");
            if late.is_some() && entry.corner_of.is_some() {
                late_corners += 1;
            } else if let Some(late) = late {
                let text = format!(
                    "{} on {}: {}",
                    pool.name(),
                    entry.label,
                    late.trim_end_matches('.')
                );
                let detail = "Its response times speak of the generator as well.";
                alarms.push(alarm("check the generator", text, detail));
            }
        }
    }
    if late_corners > 0 {
        let text =
            format!("{late_corners} figures at corners of models came late from the generator");
        let detail =
            "Which ones stands under “Did the generator keep up?”; their bands speak of it, too.";
        alarms.push(alarm("check the generator", text, detail));
    }
    alarms
}

/// A model that missed a gate; a corner says nothing that its model does not.
fn untrue_model(entry: &Entry) -> Option<Sentence> {
    let Workload::Model(model) = &entry.workload else {
        return None;
    };
    let missed: Vec<&str> = model.missed().map(|f| f.metric.as_str()).collect();
    (!missed.is_empty() && entry.corner_of.is_none()).then(|| Sentence {
        mark: "not this load".into(),
        tone: Tone::Bad,
        text: format!(
            "{} is not the load that was recorded: its model missed {}, and was played all the same",
            entry.label,
            words::count(missed.len(), "gate")
        ),
        detail: missed.join("; "),
    })
}

/// Data that did not come back as they were written.
fn bad_data(pool: &Pool<'_>, entry: &Entry) -> Option<Sentence> {
    let check = pool.data_check()?;
    (check.bad.total() > 0).then(|| Sentence {
        mark: "bad data".into(),
        tone: Tone::Bad,
        text: format!(
            "{} does not keep what {} writes: {check}",
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
pub(super) fn missing(view: &View<'_>) -> Option<Section> {
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
                "Cut off without a result: the trial at place {} of the order, after {}.",
                place + 1,
                units::clock_duration(length)
            )
        })
        .collect();
    let stopped = results.trials.iter().filter(|t| t.interrupted).map(|t| {
        format!(
            "Stopped by the user, kept but not compared: {} on {}, block {}, after {}.",
            t.trial.arm,
            t.trial.workload,
            t.trial.block + 1,
            units::clock_duration(t.length)
        )
    });
    let lines: Vec<String> = cut.into_iter().chain(stopped).collect();
    if results.complete && lines.is_empty() {
        return None;
    }
    let mut section = Section::new("This run is incomplete", "");
    section.is_answer = true;
    section.items.push(Item::Notice(
        Tone::Bad,
        format!(
            "{whole} of {} ended as planned. Everything below rests on these alone.",
            words::count(planned, "trial")
        ),
    ));
    section.items.extend(lines.into_iter().map(Item::Text));
    Some(section)
}

/// Whether the load was the one of the model.
pub(super) fn fidelity(view: &View<'_>) -> Option<Section> {
    let mut section = Section::new(
        "Was the load the intended one?",
        "A model is held against its recording, and the load of every trial against the model. \
         A gate that fails makes the results speak of another load.",
    );
    for entry in &view.results.manifest.entries {
        let Workload::Model(model) = &entry.workload else {
            continue;
        };
        // That of a corner is the model's.
        if !model.fidelity.is_empty() && entry.corner_of.is_none() {
            let title = format!("{}: the model against its recording", entry.label);
            let table = of_model(title, &model.fidelity);
            section.items.push(Item::Table(table));
        }
        if let Some(verified) = &model.verified
            && entry.corner_of.is_none()
        {
            let title = format!(
                "{}: the model verified against {}, disk {}, {} to {}",
                entry.label, verified.recording, verified.disk, verified.from, verified.to
            );
            let lines: Vec<Fidelity> = verified.lines.iter().map(|c| c.line.clone()).collect();
            section.items.push(Item::Table(of_model(title, &lines)));
        }
        let pools = view.pools(entry);
        if pools
            .iter()
            .any(|p| p.trials.iter().any(|t| !t.fidelity.is_empty()))
        {
            section.items.push(Item::Table(of_trials(entry, &pools)));
        }
    }
    (!section.items.is_empty()).then_some(section)
}

fn of_model(title: String, fidelity: &[Fidelity]) -> Table {
    let mut table = Table::new(
        title,
        &["Metric", "#Recorded", "#Model", "#Error", "#Gate", "Result"],
    );
    for f in fidelity {
        table.rows.push(vec![
            Cell::new(f.metric.clone()),
            Cell::new(number(f.recorded)),
            Cell::new(number(f.submitted)),
            Cell::new(error(f, f.error)),
            Cell::new(error(f, f.gate).replace('+', "±")),
            result(usize::from(f.passed()), 1),
        ]);
    }
    table
}

fn of_trials(entry: &Entry, pools: &[Pool<'_>]) -> Table {
    let mut table = Table::new(
        format!("{}: the load of the trials against the model", entry.label),
        &["System", "Metric", "#Worst error", "#Gate", "Result"],
    );
    for pool in pools {
        let all: Vec<&Fidelity> = pool.trials.iter().flat_map(|t| &t.fidelity).collect();
        let mut metrics: Vec<&str> = Vec::new();
        for f in &all {
            if !metrics.contains(&f.metric.as_str()) {
                metrics.push(&f.metric);
            }
        }
        for (place, metric) in metrics.into_iter().enumerate() {
            let of: Vec<&&Fidelity> = all.iter().filter(|f| f.metric == metric).collect();
            let worst = of
                .iter()
                .max_by(|a, b| a.error.abs().total_cmp(&b.error.abs()));
            let Some(worst) = worst else { continue };
            table.rows.push(vec![
                Cell::new(if place == 0 {
                    pool.name()
                } else {
                    String::new()
                }),
                Cell::new(metric),
                Cell::new(error(worst, worst.error)),
                Cell::new(error(worst, worst.gate).replace('+', "±")),
                result(of.iter().filter(|f| f.passed()).count(), of.len()),
            ]);
        }
    }
    table
}

/// An error in the way of its metric: a percentage where it is relative, else a number.
fn error(of: &Fidelity, value: f64) -> String {
    let relative = Fidelity::relative("", of.recorded, of.submitted, 0.0).error;
    if (relative - of.error).abs() < 1e-9 {
        // A rounded zero has no direction.
        let text = units::signed_percent(value);
        let zero = text.trim_start_matches(['+', '-']);
        if zero == "0.0 %" { zero.into() } else { text }
    } else {
        format!("{value:.3}")
    }
}

fn result(passed: usize, of: usize) -> Cell {
    let times = if of > 1 {
        format!(" {passed}/{of}")
    } else {
        String::new()
    };
    if passed == of {
        Cell::new(format!("pass{times}")).tone(Tone::Good)
    } else {
        Cell::new(format!("FAIL{times}")).tone(Tone::Bad)
    }
}

/// A device that moved as much as it was asked, but for what a file system adds and the edges of
/// seconds, is in here.
const DEVICE_RATIO: std::ops::RangeInclusive<f64> = 0.9..=1.1;

/// Whether memory could have answered for the storage.
pub(super) fn cache(view: &View<'_>) -> Section {
    let ram = view.load_ram_bytes();
    let whose = if view.results.manifest.load_nodes.is_empty() {
        "this machine’s"
    } else {
        "a node’s"
    };
    let mut section = Section::new("Could memory have answered for the storage?", "");
    for entry in view.entries() {
        if ran_elsewhere(&view.pools(entry)) {
            let text = format!(
                "{}: not known; the program tells neither its data set nor how it used the cache.",
                entry.label
            );
            section.items.push(Item::Notice(Tone::Plain, text));
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
            .push(Item::Notice(tone, format!("{sizes}; {text}")));
        let pools = view.pools(entry);
        let told = pools
            .iter()
            .filter_map(|pool| served_by_device(pool, entry));
        section.items.extend(told);
    }
    section
}

/// What the device below a system moved for what it was asked, over all trials.
fn served_by_device(pool: &Pool<'_>, entry: &Entry) -> Option<Item> {
    let used = || pool.trials.iter().filter_map(|trial| trial.device.as_ref());
    let device = &used().next()?.device;
    let sum =
        |of: fn(&DeviceUse) -> Transfers| used().map(of).fold(Transfers::default(), Transfers::and);
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
            Tone::Care,
            "; a cache, a file system or somebody else stood between",
        ),
        false => (Tone::Plain, ""),
    };
    let text = format!(
        "{}, {}: the device {device} {} the bytes that were asked in the same seconds{why}.",
        entry.label,
        pool.name(),
        words.join(" and ")
    );
    Some(Item::Notice(tone, text))
}

/// Whether programs made the load, here or in an imported run: they give no account of it.
fn ran_elsewhere(pools: &[Pool<'_>]) -> bool {
    let mut engines = pools.iter().flat_map(|pool| {
        pool.trials
            .iter()
            .map(|trial| trial.generator.engine.as_str())
    });
    engines.any(|engine| engine.starts_with(IMPORTED) || engine == PROGRAM)
}

/// What memory could have done for the storage under this workload.
fn served_by(view: &View<'_>, entry: &Entry) -> (Tone, &'static str) {
    let facts: Vec<_> = view
        .results
        .manifest
        .arms
        .iter()
        .map(|arm| &arm.facts)
        .collect();
    let fits = entry.workload.data_set_bytes() < view.load_ram_bytes();
    if facts.iter().all(|facts| facts.is_none()) {
        return (Tone::Plain, "no storage took part, and no cache.");
    }
    let everywhere = facts
        .iter()
        .flat_map(|facts| facts.iter())
        .all(|f| f.direct_align_bytes > 0);
    match (entry.workload.is_direct() && everywhere, fits) {
        (true, _) => (
            Tone::Plain,
            "direct I/O bypasses the client’s page cache, so it served nothing; a cache behind it \
             (a server, a controller) is not ruled out.",
        ),
        (false, true) => (
            Tone::Care,
            "I/O goes through the page cache, at least on some system, and the data set fits into \
             memory: the cache could have served the reads.",
        ),
        (false, false) => (
            Tone::Plain,
            "I/O goes through the page cache, at least on some system, but the data set exceeds \
             memory: the cache can have served a part of the reads at most.",
        ),
    }
}

/// The generator's own account.
pub(super) fn generator(view: &View<'_>) -> Option<Section> {
    let mut section = Section::new(
        "Did the generator keep up?",
        "If the load left late or not at all, the response times speak of the generator.",
    );
    let mut table = Table::new(
        "The generator’s own account",
        &[
            "Workload",
            "System",
            "#CPU per operation",
            "#Lag, mean",
            "#Lag p99",
            "#Share of response time",
            "#Not submitted",
            "Kept up",
            "~Engine",
        ],
    );
    for entry in &view.results.manifest.entries {
        let pools = view.pools(entry);
        if ran_elsewhere(&pools) {
            continue;
        }
        for (place, pool) in pools.iter().enumerate() {
            let label = if place == 0 { entry.label.as_str() } else { "" };
            let (row, late) = account(pool, entry, label);
            table.rows.push(row);
            if let Some(text) = late {
                let text = format!("{} on {}: {text}", pool.name(), entry.label);
                section.items.push(Item::Notice(Tone::Bad, text));
            }
        }
    }
    if table.rows.is_empty() {
        return None;
    }
    table.notes.push(format!(
        "Lag is the time from the intended start to the hand-over; up to {} of all response time \
         passes.",
        words::percent_whole(LAG_SHARE)
    ));
    section.items.push(Item::Table(table));
    Some(section)
}

/// A row of the table, and what went wrong.
fn account(pool: &Pool<'_>, entry: &Entry, label: &str) -> (Vec<Cell>, Option<String>) {
    let cpu = pool.values(|t| {
        let spent = t.generator.user_cpu_ns + t.generator.system_cpu_ns;
        ratio(spent as f64, t.stats.ops() as f64)
    });
    let lag = pool.stats.lag();
    let lost: u64 = pool.trials.iter().map(|t| t.generator.not_submitted).sum();
    let share = ratio(lag.sum_ns() as f64, pool.stats.response().sum_ns() as f64);
    let is_late = share > LAG_SHARE && !entry.workload.waits_for_threads();
    let late = match (is_late, lost) {
        (true, _) => Some(format!(
            "{} of the response time passed before the requests were handed over: {}.",
            words::percent(share),
            if share > 0.5 {
                "the generator or a full queue, not the storage, was the bottleneck"
            } else {
                "that much was added by the generator or a full queue, not by the storage"
            }
        )),
        (false, 1..) => Some(format!(
            "{} requests were due but never handed over.",
            grouped(lost)
        )),
        _ => None,
    };
    let mut engines: Vec<&str> = Vec::new();
    for trial in &pool.trials {
        if !engines.contains(&trial.generator.engine.as_str()) {
            engines.push(&trial.generator.engine);
        }
    }
    let row = vec![
        Cell::new(label),
        Cell::new(pool.name()),
        words::spread(&cpu, Quantity::Duration),
        Cell::new(units::duration(Nanos(round_u64(lag.mean_ns())))),
        Cell::new(units::duration(Nanos(lag.quantile_ns(0.99)))),
        Cell::new(words::percent(share)),
        Cell::new(grouped(lost)),
        match late {
            None => Cell::new("yes").tone(Tone::Good),
            Some(_) => Cell::new("NO").tone(Tone::Bad),
        },
        Cell::new(engines.join("; ")),
    ];
    (row, late)
}

/// What the run itself warned of.
pub(super) fn warnings(view: &View<'_>) -> Option<Section> {
    let warnings = &view.results.warnings;
    if warnings.is_empty() {
        return None;
    }
    let mut section = Section::new("Warnings of the run", "");
    for warning in warnings {
        let text = if warning.about.is_empty() {
            warning.text.clone()
        } else {
            format!("{}: {}", warning.about, warning.text)
        };
        section.items.push(Item::Notice(Tone::Care, text));
    }
    Some(section)
}
