// SPDX-License-Identifier: Apache-2.0
//! Which system is best: per workload, and over all of them in one sentence.

use plimsoll_core::comparison::{ArmComparison, ComparisonVerdict};
use plimsoll_core::event::TrialResult;

use super::view::ResultsView;
use super::{overload, surroundings};
use crate::model::ReportSeverity;
use crate::words;

/// Outcome of the comparisons of one workload.
struct WorkloadOutcome<'a> {
    label: &'a str,
    /// Who is best; none while that is open, or where all are the same.
    best: Option<&'a str>,
    /// In a sentence.
    text: String,
    /// Grounds of the outcome, without the name of the best system.
    grounds: String,
    /// Noise that decided instead of the systems.
    noise: Option<String>,
    tone: ReportSeverity,
}

/// Most workloads that are named one by one.
const NAMED_MAX: usize = 4;

/// The sentence; `None` where nothing was compared.
pub(super) fn answer(view: &ResultsView<'_>) -> Option<(ReportSeverity, String)> {
    let outcomes = outcomes(view);
    match &outcomes[..] {
        [] => None,
        [one] => Some((one.tone, format!("{}.", one.text))),
        several => Some(over_all(several)),
    }
}

/// Noise that decided instead of the systems, on some workload.
pub(super) fn noise(view: &ResultsView<'_>) -> Option<String> {
    outcomes(view).into_iter().find_map(|one| one.noise)
}

/// Whether it is known which system is best on the workload of a comparison.
pub(super) fn is_known(view: &ResultsView<'_>, workload: &str) -> bool {
    let rows = view.comparisons.iter();
    let rows: Vec<&ArmComparison> = rows
        .filter(|row| !row.is_control && row.workload == workload)
        .collect();
    outcome(view, &rows).is_some_and(|one| one.best.is_some())
}

fn outcomes<'v>(view: &'v ResultsView<'_>) -> Vec<WorkloadOutcome<'v>> {
    let mut labels: Vec<&str> = Vec::new();
    for row in view.comparisons.iter().filter(|row| !row.is_control) {
        if !labels.contains(&row.workload.as_str()) {
            labels.push(&row.workload);
        }
    }
    let of = |label: &&'v str| {
        let rows = view.comparisons.iter();
        let rows: Vec<&ArmComparison> = rows
            .filter(|r| !r.is_control && r.workload == *label)
            .collect();
        outcome(view, &rows)
    };
    labels.iter().filter_map(of).collect()
}

/// Several workloads: who is best where.
fn over_all(outcomes: &[WorkloadOutcome<'_>]) -> (ReportSeverity, String) {
    let mut names: Vec<&str> = Vec::new();
    for name in outcomes.iter().filter_map(|one| one.best) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let total = outcomes.len();
    let where_best = |name: &str| -> Vec<&str> {
        let won = outcomes.iter().filter(|one| one.best == Some(name));
        won.map(|one| one.label).collect()
    };
    let clause = |name: &&str| {
        let won = where_best(name);
        match won.len() {
            2 if total == 2 => format!("{name} is best on both workloads"),
            all if all == total => format!("{name} is best on all {total} workloads"),
            1..=NAMED_MAX => format!("{name} is best on {}", won.join(", ")),
            many => format!("{name} is best on {many} of {total} workloads"),
        }
    };
    let mut clauses: Vec<String> = names.iter().map(clause).collect();
    let noise = outcomes.iter().find_map(|one| one.noise.as_ref());
    let open: Vec<&str> = outcomes
        .iter()
        .filter(|one| one.best.is_none())
        .map(|one| one.label)
        .collect();
    let whom = match open.len() {
        0..=NAMED_MAX => open.join(", "),
        many => format!("{many} of {total} workloads"),
    };
    match (open.len(), noise) {
        (0, _) => {}
        (_, Some(noise)) => clauses.push(format!("not answered on {whom} ({noise})")),
        (all, None) if all == total => {
            clauses.push(format!("no system is best on any of {total} workloads"));
        }
        (_, None) => clauses.push(format!("no winner yet on {whom}")),
    }
    let tone = match (names.len(), open.is_empty()) {
        (1, true) => ReportSeverity::Good,
        (0, _) => ReportSeverity::Care,
        _ => ReportSeverity::Plain,
    };
    let first = capital(&clauses.join("; "));
    let (label, grounds) = (outcomes[0].label, &outcomes[0].grounds);
    (tone, format!("{first}. On {label}: {grounds}."))
}

fn capital(text: &str) -> String {
    let is_sentence = text.starts_with("no ") || text.starts_with("not ");
    match is_sentence {
        true => format!("N{}", &text[1..]),
        false => text.to_owned(),
    }
}

/// How much worse than the base, or better when below 1.
fn cost(row: &ArmComparison) -> f64 {
    let ratio = row.ratio.map_or(1.0, |ratio| ratio.estimate);
    match row.metric.more_is_better() {
        true => 1.0 / ratio.max(f64::MIN_POSITIVE),
        false => ratio,
    }
}

fn outcome<'v>(view: &ResultsView<'_>, rows: &[&'v ArmComparison]) -> Option<WorkloadOutcome<'v>> {
    let first = rows.first()?;
    let made = |best, tone, text: String| {
        Some(WorkloadOutcome {
            label: words::workload(first),
            best,
            grounds: text
                .split_once(": ")
                .map_or(text.clone(), |(_, grounds)| grounds.into()),
            noise: None,
            text,
            tone,
        })
    };
    let overloaded = rows
        .iter()
        .find(|row| row.verdict == ComparisonVerdict::CannotCarry);
    if let Some(row) = overloaded {
        let said = overload::sentence(view, row)?;
        let best = match (row.base_is_overloaded(), row.arm_is_overloaded()) {
            (true, false) => Some(row.arm.as_str()),
            (false, true) if rows.len() == 1 => Some(row.base.as_str()),
            _ => None,
        };
        let noise = match said.tone {
            ReportSeverity::Care => surroundings::decided(view),
            _ => None,
        };
        let found = made(best, said.tone, said.text)?;
        return Some(WorkloadOutcome { noise, ..found });
    }
    let is_better =
        |row: &&ArmComparison| row.verdict == ComparisonVerdict::Different && cost(row) < 1.0;
    let mut better: Vec<&ArmComparison> = rows.iter().copied().filter(is_better).collect();
    better.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    if let [best, others @ ..] = &better[..] {
        let rival = others.iter().find(|other| overlap(best, other));
        return match rival {
            Some(rival) => made(None, ReportSeverity::Plain, too_close(best, rival)),
            None => made(Some(&best.arm), ReportSeverity::Good, ahead(best)),
        };
    }
    let closest = rows.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    if rows
        .iter()
        .all(|row| row.verdict == ComparisonVerdict::Different)
    {
        return made(
            Some(&closest.base),
            ReportSeverity::Good,
            behind(closest, rows.len()),
        );
    }
    let equal = rows
        .iter()
        .filter(|row| row.verdict == ComparisonVerdict::Equivalent);
    let equal: Vec<&str> = equal.map(|row| row.arm.as_str()).collect();
    let open = rows
        .iter()
        .find(|row| row.verdict == ComparisonVerdict::Inconclusive);
    match open {
        Some(row) => match surroundings::decided_on(view, &row.workload) {
            // Without data there is nothing that noise could have decided.
            Some(noise) if row.ratio.is_some() => Some(unanswered(view, noise, row)),
            _ => made(None, ReportSeverity::Care, undecided(view, row)),
        },
        None => made(None, ReportSeverity::Same, equivalent(view, first, &equal)),
    }
}

/// Where noise decided, the outcome reports only the measured values.
fn unanswered<'v>(
    view: &ResultsView<'_>,
    noise: String,
    row: &'v ArmComparison,
) -> WorkloadOutcome<'v> {
    let label = words::workload(row);
    let grounds = format!("{noise}. Seen: {}", seen(view, row));
    WorkloadOutcome {
        label,
        best: None,
        text: format!("Not answered on {label}: {grounds}"),
        grounds,
        noise: Some(noise),
        tone: ReportSeverity::Care,
    }
}

fn overlap(a: &ArmComparison, b: &ArmComparison) -> bool {
    match (&a.ratio, &b.ratio) {
        (Some(a), Some(b)) => a.low <= b.high && b.low <= a.high,
        _ => true,
    }
}

/// `3.12× the throughput of local (2.80 to 3.48)`.
fn lead(row: &ArmComparison, best: &str) -> String {
    let text = words::lead_in_words(row).unwrap_or_default();
    let text = text.strip_prefix(&format!("{best} has ")).unwrap_or(&text);
    format!("{text} ({})", words::lead_interval(row))
}

fn ahead(row: &ArmComparison) -> String {
    let (arm, workload) = (&row.arm, words::workload(row));
    format!("{arm} is best on {workload}: {}", lead(row, arm))
}

/// The base leads.
fn behind(closest: &ArmComparison, rivals: usize) -> String {
    let (base, workload) = (&closest.base, words::workload(closest));
    let next = match rivals {
        1 => "",
        _ => ", the next best",
    };
    format!(
        "{base} is best on {workload}: {}{next}",
        lead(closest, base)
    )
}

fn too_close(best: &ArmComparison, rival: &ArmComparison) -> String {
    format!(
        "{} and {} are best on {}, too close to each other to call: {} ({}); {} ({})",
        best.arm,
        rival.arm,
        words::workload(best),
        words::lead_in_words(best).unwrap_or_default(),
        words::lead_interval(best),
        words::lead_in_words(rival).unwrap_or_default(),
        words::lead_interval(rival)
    )
}

fn undecided(view: &ResultsView<'_>, row: &ArmComparison) -> String {
    let workload = words::workload(row);
    match row.ratio.is_some() {
        true => format!(
            "No winner yet on {workload}: {}, which neither shows a difference nor excludes one of {}",
            seen(view, row),
            words::percent_whole(view.results.manifest.policy.margin)
        ),
        false => format!("No winner yet on {workload}: {}", seen(view, row)),
    }
}

/// Observed difference between systems for which nothing is decided.
fn seen(view: &ResultsView<'_>, row: &ArmComparison) -> String {
    match words::lead_in_words(row) {
        Some(lead) => format!(
            "{} ({})",
            lead.replacen(" has ", " had ", 1),
            words::lead_interval(row)
        ),
        None => without_values(view, row),
    }
}

/// Why there is no difference to see.
fn without_values(view: &ResultsView<'_>, row: &ArmComparison) -> String {
    let of_row =
        |trial: &&TrialResult| trial.trial.arm == row.arm && trial.trial.workload == row.workload;
    let trials: Vec<&TrialResult> = view.results.trials.iter().filter(of_row).collect();
    let aborted = trials.iter().filter(|trial| trial.failed.is_some()).count();
    match aborted {
        0 => format!("there is not enough data of {}", row.arm),
        _ => format!(
            "{aborted} of {} trials of {} were aborted",
            trials.len(),
            row.arm
        ),
    }
}

fn equivalent(view: &ResultsView<'_>, first: &ArmComparison, equal: &[&str]) -> String {
    format!(
        "{} and {} are equivalent on {}: within ±{} of each other in {}",
        first.base,
        equal.join(", "),
        words::workload(first),
        words::percent_whole(view.results.manifest.policy.margin),
        first.metric.name()
    )
}
