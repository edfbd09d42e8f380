// SPDX-License-Identifier: Apache-2.0
//! Next steps, as commands made from the one that was typed.

use plimsoll_core::comparison::ComparisonVerdict;
use plimsoll_core::text::shell_word;
use plimsoll_core::workload::{Workload, WorkloadMultiple};
use plimsoll_stats::load_line::{ArmLoadLine, LoadLineStop};

use super::view::ResultsView;
use super::{answer, faults, load_line, overload, uses, winner};
use crate::model::ReportNextStep;
use crate::words;

/// Most steps of a first screen.
const STEPS_MAX: usize = 2;
/// More blocks than this are no proposal.
const BLOCKS_MAX: u32 = 200;
/// A limit for loads that no system carried.
const LIMIT: &str = "20ms";
/// Faults without a loss that bound its rate at 5 % with 95 % confidence.
const FAULTS: usize = 59;

pub(super) fn next_steps(view: &ResultsView<'_>) -> Vec<ReportNextStep> {
    let mut steps = Vec::new();
    // A run that goes on is waited for.
    if view.goes_on || view.results.manifest.command.len() < 2 {
        return steps;
    }
    if view.results.trials.is_empty() && view.results.complete {
        let text = "Read in the warnings why no trial was completed, then repeat the run.";
        return vec![step(text, again(view, &[], &["-o", "--output"]))];
    }
    if answer::noise(view).is_some() {
        let text = "Stop what else runs here (top shows it), then repeat the same command.";
        return vec![step(text, again(view, &[], &["-o", "--output"]))];
    }
    if !view.results.complete {
        return vec![rest(view)];
    }
    if is_of_file(view) {
        if let Some(more) = more_time(view) {
            return vec![more];
        }
        let text = "See whether it is the same another day; then plimsoll diff.";
        return vec![step(text, again(view, &[], &["-o", "--output"]))];
    }
    steps.extend(searched(view));
    steps.extend(more_faults(view));
    steps.extend(more_blocks(view));
    steps.extend(hurt(view));
    steps.extend(find_line(view));
    if steps.is_empty() {
        steps.push(step(
            "See whether it is the same another day; then plimsoll diff.",
            again(view, &[], &["-o", "--output"]),
        ));
    }
    steps.truncate(STEPS_MAX);
    steps
}

/// Whether the campaign is from a file or a run folder: other steps would need options that are not typed.
fn is_of_file(view: &ResultsView<'_>) -> bool {
    let manifest = &view.results.manifest;
    let targets = manifest.campaign.iter().flat_map(|spec| &spec.target);
    let is_typed = |target: &str| manifest.command.iter().any(|word| word == target);
    let is_run = manifest.command.get(1).is_some_and(|word| word == "run");
    is_run && targets.into_iter().any(|one| !is_typed(&one.target))
}

fn step(text: &str, command: String) -> ReportNextStep {
    ReportNextStep {
        text: text.into(),
        command,
    }
}

/// Step that runs the remaining trials.
fn rest(view: &ResultsView<'_>) -> ReportNextStep {
    let manifest = &view.results.manifest;
    let has_folder = manifest
        .command
        .iter()
        .any(|word| option_of(word) == "-o" || option_of(word) == "--output");
    let folder = format!("plimsoll-results/{}", manifest.id);
    let more = [("-o", folder.as_str())];
    let more: &[(&str, &str)] = if has_folder { &[] } else { &more };
    step(
        "Go on where the run ended; what was measured is kept.",
        again(view, more, &[]),
    )
}

/// Of several uses: the one with the least head-room, for longer.
fn tightest_use(view: &ResultsView<'_>, first: &ArmLoadLine<'_>) -> ReportNextStep {
    let low = |line: &&ArmLoadLine<'_>| line.result.sustained.low;
    let lines = view.load_lines.iter();
    let tightest = lines
        .min_by(|a, b| low(a).total_cmp(&low(b)))
        .unwrap_or(first);
    let label = &tightest.entry.label;
    let name = label.split(' ').next().unwrap_or(label);
    let mut words = vec!["fit-for".to_owned(), name.to_owned()];
    words.extend(targets(view));
    step(
        "Ask about the use with the least head-room for longer.",
        line(&words),
    )
}

/// Of load lines.
fn searched(view: &ResultsView<'_>) -> Option<ReportNextStep> {
    let lines = &view.load_lines;
    let first = lines.first()?;
    let ended = |stop| {
        let those = lines.iter().filter(|line| line.result.stop == Some(stop));
        those.count()
    };
    if uses::are_several(view) {
        return Some(tightest_use(view, first));
    }
    let anew = ["-o", "--output"];
    // Other commands have no range of multiples.
    let command = view.results.manifest.command.get(1);
    let has_range = command.is_some_and(|name| ["loadline", "fit-for"].contains(&&**name));
    let can_be_less = matches!(first.unit, WorkloadMultiple::Rate);
    // Of one among several it is known how it compares.
    let is_open = |many: usize| many > 1 || (many == 1 && lines.len() == 1);
    if ended(LoadLineStop::NothingCarried) == lines.len() && can_be_less && has_range {
        let from = format!("{}", first.goal.smallest / 10.0);
        let text = "Search below the smallest multiple that was allowed.";
        return Some(step(text, again(view, &[("--min", &from)], &anew)));
    }
    if is_open(ended(LoadLineStop::EverythingCarried)) && has_range {
        let to = format!("{}", first.goal.largest * 10.0);
        let text = "Search beyond the largest multiple that was allowed.";
        return Some(step(text, again(view, &[("--max", &to)], &anew)));
    }
    more_time(view).or_else(|| safe_load(view))
}

/// A search whose time was over before it had decided.
fn more_time(view: &ResultsView<'_>) -> Option<ReportNextStep> {
    let lines = view.load_lines.iter();
    let was_over = lines
        .clone()
        .any(|line| line.result.stop == Some(LoadLineStop::BudgetReached));
    let seconds: f64 = lines.map(|line| line.result.seconds).sum();
    let budget = format!("{:.0}m", (seconds * 2.5 / 60.0).ceil().max(1.0));
    let text = "Search again with more time: the interval is still wide.";
    let command = again(view, &[("--budget", &budget)], &["-o", "--output"]);
    (was_over && load_line::is_open(view)).then(|| step(text, command))
}

/// A comparison at a load that every system carries.
fn safe_load(view: &ResultsView<'_>) -> Option<ReportNextStep> {
    let lines = &view.load_lines;
    let least = lines
        .iter()
        .map(|line| line.result.sustained.low)
        .fold(f64::INFINITY, f64::min);
    let is_model = matches!(lines.first()?.entry.workload, Workload::Model(_));
    let [spec] = &workloads(view)[..] else {
        return None;
    };
    let mut systems = view.arms.iter().filter(|arm| arm.arm.control_of.is_none());
    let (several, targets) = (systems.nth(1).is_some(), targets(view));
    if !is_model || !several || !least.is_finite() || spec.contains('@') {
        return None;
    }
    let scale = plimsoll_core::units::three_digits(least * 0.8);
    let mut words = vec!["compare".to_owned()];
    words.extend(targets);
    words.extend(["-w".into(), format!("{spec}@{scale}")]);
    Some(step(
        "Compare response times at a load that all of them carry.",
        line(&words),
    ))
}

/// As many faults as bound a loss.
fn more_faults(view: &ResultsView<'_>) -> Option<ReportNextStep> {
    let is_failover = view
        .results
        .manifest
        .command
        .get(1)
        .is_some_and(|verb| verb == "failover");
    let fewest = faults::fewest(view).filter(|_| is_failover)?;
    let repeat = FAULTS.to_string();
    (fewest < FAULTS).then(|| {
        step(
            "Inject enough faults to bound the share that loses data at 5 %.",
            again(view, &[("--repeat", &repeat)], &["-o", "--output"]),
        )
    })
}

/// As many blocks as a verdict needs.
fn more_blocks(view: &ResultsView<'_>) -> Option<ReportNextStep> {
    let rows = view.comparisons.iter().chain(&view.steps);
    let open = rows.filter(|row| !row.is_control && row.verdict == ComparisonVerdict::Inconclusive);
    // Where the best is known, more blocks would settle who loses by how much.
    let open = open.filter(|row| !winner::is_known(view, &row.workload));
    let open: Vec<_> = open.collect();
    let first = open.first()?;
    let needed = open
        .iter()
        .filter_map(|row| row.blocks_needed)
        .filter(|n| *n <= BLOCKS_MAX)
        .max();
    let drop = ["-o", "--output", "--effect", "--budget", "--stop"];
    let Some(needed) = needed else {
        let text = format!(
            "Longer trials are less noisy; {} is still open.",
            words::workload(first)
        );
        return Some(step(
            &text,
            again(view, &[("--for", "2m")], &["-o", "--output"]),
        ));
    };
    let text = format!(
        "Settle what is inconclusive: it takes about {}.",
        words::count(needed as usize, "block")
    );
    Some(step(
        &text,
        again(view, &[("--blocks", &needed.to_string())], &drop),
    ))
}

/// Of a ladder: what the whole stack does when a part fails.
fn hurt(view: &ResultsView<'_>) -> Option<ReportNextStep> {
    let command = &view.results.manifest.command;
    let (verb, stack) = (command.get(1)?, command.get(2)?);
    let words = ["failover".to_owned(), stack.clone()];
    let text = "See what the whole stack does when a server fails.";
    (verb == "layers" && !stack.starts_with('-')).then(|| step(text, line(&words)))
}

/// How much of the load each system carries.
fn find_line(view: &ResultsView<'_>) -> Option<ReportNextStep> {
    if !view.load_lines.is_empty() || !view.steps.is_empty() {
        return None;
    }
    let entry = view.entries().find(|entry| !entry.workload.is_idle())?;
    let spec = workloads(view).into_iter().next()?;
    entry.workload.multiple().ok()?;
    let pools = view.pools(entry);
    let carried = pools.iter().filter(|pool| overload::alone_is_silent(pool));
    let best = carried.map(|pool| pool.stats.response().quantile_ns(0.99));
    let limit = best
        .min()
        .map_or(LIMIT.into(), |best| round_limit(best.max(1_000)));
    let limit = format!("p99 < {limit}");
    let mut words: Vec<String> = ["loadline", "-w"].map(Into::into).into();
    words.extend([spec, "--slo".into(), limit]);
    words.extend(targets(view));
    Some(step(
        "Find how much of this load each system carries; the limit is an example, put yours.",
        line(&words),
    ))
}

/// The next of 1, 2 and 5 times a power of ten above a time: `2ms`.
fn round_limit(ns: u64) -> String {
    let units = [(1_000, "us"), (1_000_000, "ms"), (1_000_000_000_u64, "s")];
    let steps = [1, 2, 5, 10, 20, 50, 100, 200, 500];
    let mut all = units
        .into_iter()
        .flat_map(|(unit, name)| steps.map(|step| (step * unit, format!("{step}{name}"))));
    let found = all.find(|(limit, _)| *limit > ns);
    found.map_or_else(|| "1000s".into(), |(_, text)| text)
}

/// Targets as given on the command line, once each, with their names.
fn targets(view: &ResultsView<'_>) -> Vec<String> {
    let arms = view.arms.iter().map(|arm| arm.arm);
    let once = arms.filter(|arm| arm.control_of.is_none());
    let mut words: Vec<String> = once.map(|arm| arm.target.clone()).collect();
    let campaign = view.results.manifest.campaign.iter();
    let names = campaign.flat_map(|spec| spec.target.iter().filter_map(|one| one.name.as_ref()));
    names.for_each(|name| words.extend(["-n".to_owned(), name.clone()]));
    words
}

/// The workloads as they were typed.
fn workloads(view: &ResultsView<'_>) -> Vec<String> {
    let command = &view.results.manifest.command;
    if command.get(1).is_some_and(|verb| verb == "run") {
        let first = command.get(2).filter(|word| !word.starts_with('-'));
        return first.cloned().into_iter().collect();
    }
    let mut found = Vec::new();
    let mut words = command.iter().skip(2);
    while let Some(word) = words.next() {
        match (word.as_str(), word.split_once('=')) {
            ("-w" | "--workload", _) => found.extend(words.next().cloned()),
            (_, Some(("-w" | "--workload", value))) => found.push(value.to_owned()),
            _ => {}
        }
    }
    found
}

/// The option of a word: `--blocks` of `--blocks=5`.
fn option_of(word: &str) -> &str {
    match word.starts_with('-') {
        true => word.split_once('=').map_or(word, |(option, _)| option),
        false => "",
    }
}

/// The command that was typed, without some options and with others.
fn again(view: &ResultsView<'_>, set: &[(&str, &str)], drop: &[&str]) -> String {
    let goes = |word: &str| set.iter().any(|(option, _)| *option == word) || drop.contains(&word);
    let mut kept = Vec::new();
    let mut words = view.results.manifest.command.iter().skip(1);
    while let Some(word) = words.next() {
        match goes(option_of(word)) {
            // Its value is a word of its own.
            true if !word.contains('=') => drop_value(&mut words),
            true => {}
            false => kept.push(word.clone()),
        }
    }
    for (option, value) in set {
        kept.extend([(*option).to_owned(), (*value).to_owned()]);
    }
    line(&kept)
}

fn drop_value<'w>(words: &mut impl Iterator<Item = &'w String>) {
    words.next();
}

/// A command as a shell takes it.
pub(super) fn line(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    format!("plimsoll {}", quoted.join(" "))
}
