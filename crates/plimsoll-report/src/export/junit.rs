// SPDX-License-Identifier: Apache-2.0
//! A test case for each verdict and for the data of each system, in the form of Ant's JUnit task that build
//! servers read.
//!
//! Worse, or unable to carry the load: a failure. Inconclusive: skipped, with what would settle it. Lost or
//! damaged data, and an A/A control that differs, are errors: nothing can be concluded from such a run.

use std::collections::BTreeMap;

use plimsoll_core::comparison::{ArmComparison, ComparisonVerdict};
use plimsoll_core::durability::{DurabilityLosses, DurabilityResult, DurabilityRow};
use plimsoll_core::event::{RunFolderContents, TrialResult};
use plimsoll_core::gate::{GateOutcome, GateRow, GateVerdict};
use plimsoll_core::text::printable;
use plimsoll_core::units::Nanos;

use super::comparisons;
use super::gate::gate_line;
use crate::model::ReportSeverity;
use crate::put::put;
use crate::svg::escape;
use crate::words;

/// Outcome of a test case.
enum CaseOutcome {
    Passed,
    Skipped,
    Failed,
    Broken,
}

/// A case of the file.
struct GateCase {
    class: String,
    name: String,
    time: Nanos,
    outcome: CaseOutcome,
    message: String,
}

/// The file.
pub(super) fn junit(results: &RunFolderContents) -> String {
    let mut cases: Vec<GateCase> = comparisons(results)
        .iter()
        .map(|row| of_verdict(results, row))
        .collect();
    cases.extend(of_data(results));
    document(&suite_of(results), &cases)
}

/// The head of the file.
struct JunitSuite<'a> {
    name: &'a str,
    /// Local time without a zone.
    began: &'a str,
    host: &'a str,
}

fn suite_of(results: &RunFolderContents) -> JunitSuite<'_> {
    let manifest = &results.manifest;
    JunitSuite {
        name: &manifest.id,
        began: manifest.began_at.get(..19).unwrap_or("1970-01-01T00:00:00"),
        host: &manifest.machine.host,
    }
}

/// The file of durability: a case for each setting and model of the device. A loss that the manual of the
/// setting allows is no failure.
pub fn durability_junit(result: &DurabilityResult) -> String {
    let of_row = |row: &DurabilityRow| {
        let cases = row
            .losses
            .iter()
            .map(|losses| of_losses(result, row, losses));
        cases.collect::<Vec<GateCase>>()
    };
    let cases: Vec<GateCase> = result.rows.iter().flat_map(of_row).collect();
    let began = format!("{}:00", result.began_at.replacen(' ', "T", 1));
    let suite = JunitSuite {
        name: &format!("durability of {}", result.server),
        began: &began,
        host: "",
    };
    document(&suite, &cases)
}

fn of_losses(
    result: &DurabilityResult,
    row: &DurabilityRow,
    losses: &DurabilityLosses,
) -> GateCase {
    let mut message = format!(
        "{} of {} crash states in {} lost acknowledged writes",
        losses.states_with_losses,
        losses.states,
        words::count(losses.loads as usize, "load")
    );
    if !losses.example.is_empty() {
        put!(message, "; example: {}", losses.example);
    }
    if !losses.cause.is_empty() {
        put!(message, "; {}", losses.cause);
    }
    GateCase {
        class: result.server.clone(),
        name: format!("{}: {}", row.label, losses.model.describe()),
        time: Nanos(0),
        outcome: match row.breaks_its_promise_by(losses) {
            true => CaseOutcome::Broken,
            false => CaseOutcome::Passed,
        },
        message,
    }
}

/// The file of a gate: a case for each of its rows.
pub(super) fn gate_junit(results: &RunFolderContents, outcome: &GateOutcome) -> String {
    let mut cases: Vec<GateCase> = outcome
        .rows
        .iter()
        .map(|row| of_gate(results, outcome, row))
        .collect();
    cases.extend(of_data(results));
    document(&suite_of(results), &cases)
}

fn of_gate(results: &RunFolderContents, outcome: &GateOutcome, row: &GateRow) -> GateCase {
    let of_row = |trial: &&TrialResult| {
        let rest = row.workload.strip_prefix(&trial.trial.workload);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(": "))
    };
    let times = results.trials.iter().filter(of_row);
    GateCase {
        class: row.workload.clone(),
        name: format!("{} against {}", row.metric.name(), outcome.reference),
        time: times.fold(Nanos(0), |sum, trial| sum + trial.length),
        outcome: match row.verdict {
            GateVerdict::Regression => CaseOutcome::Failed,
            GateVerdict::CannotTell => CaseOutcome::Skipped,
            GateVerdict::NoRegression => CaseOutcome::Passed,
        },
        message: gate_line(outcome, row),
    }
}

fn document(suite: &JunitSuite<'_>, cases: &[GateCase]) -> String {
    let count = |is: fn(&CaseOutcome) -> bool| cases.iter().filter(|c| is(&c.outcome)).count();
    let figures = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\"",
        cases.len(),
        count(|outcome| matches!(outcome, CaseOutcome::Failed)),
        count(|outcome| matches!(outcome, CaseOutcome::Broken)),
        count(|outcome| matches!(outcome, CaseOutcome::Skipped)),
        cases
            .iter()
            .map(|case| case.time.as_secs_f64())
            .sum::<f64>(),
    );
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    put!(
        out,
        "<testsuites name=\"plimsoll\" {figures}>\n  <testsuite name=\"{}\" timestamp=\"{}\" hostname=\"{}\" \
         {figures}>\n",
        escaped(suite.name),
        escaped(suite.began),
        escaped(suite.host),
    );
    cases.iter().for_each(|case| put_case(&mut out, case));
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn put_case(out: &mut String, case: &GateCase) {
    put!(
        *out,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
        escaped(&case.class),
        escaped(&case.name),
        case.time.as_secs_f64(),
    );
    let message = escaped(&case.message);
    let (element, kind) = match case.outcome {
        CaseOutcome::Passed => {
            put!(
                *out,
                ">\n      <system-out>{message}</system-out>\n    </testcase>\n"
            );
            return;
        }
        CaseOutcome::Skipped => {
            put!(
                *out,
                ">\n      <skipped message=\"{message}\"/>\n    </testcase>\n"
            );
            return;
        }
        CaseOutcome::Failed => ("failure", "worse"),
        CaseOutcome::Broken => ("error", "data"),
    };
    put!(
        *out,
        ">\n      <{element} type=\"{kind}\" message=\"{message}\">{message}</{element}>\n    </testcase>\n"
    );
}

fn of_verdict(results: &RunFolderContents, row: &ArmComparison) -> GateCase {
    let outcome = match (row.verdict, words::tone(row)) {
        (ComparisonVerdict::Different, _) if row.is_control => CaseOutcome::Broken,
        (ComparisonVerdict::Different | ComparisonVerdict::CannotCarry, ReportSeverity::Bad) => {
            CaseOutcome::Failed
        }
        (ComparisonVerdict::Inconclusive, _) => CaseOutcome::Skipped,
        _ => CaseOutcome::Passed,
    };
    let ratio = match &row.ratio {
        Some(ratio) => format!(
            "{}× the {} ({} CI {})",
            words::estimate(ratio),
            row.metric.name(),
            words::percent_whole(results.manifest.policy.confidence),
            words::interval(ratio)
        ),
        None => "no interval".into(),
    };
    let mut message = format!("{}: {ratio}", words::verdict(row));
    if !row.reason.is_empty() {
        put!(message, "; {}", row.reason);
    }
    let is_of =
        |trial: &&TrialResult| trial.trial.arm == row.arm && trial.trial.workload == row.workload;
    let times = results.trials.iter().filter(is_of);
    GateCase {
        class: words::workload(row).to_owned(),
        name: format!(
            "{} against {}: {}",
            words::arm(row),
            row.base,
            row.metric.name()
        ),
        time: times.fold(Nanos(0), |sum, trial| sum + trial.length),
        outcome,
        message,
    }
}

/// A case for each system under each workload: its operations and its data.
fn of_data(results: &RunFolderContents) -> Vec<GateCase> {
    let mut pools: BTreeMap<(&str, &str), Vec<&TrialResult>> = BTreeMap::new();
    for trial in &results.trials {
        let key = (trial.trial.workload.as_str(), trial.trial.arm.as_str());
        pools.entry(key).or_default().push(trial);
    }
    let case = |((workload, arm), trials): ((&str, &str), Vec<&TrialResult>)| {
        let count = |is: fn(&TrialResult) -> bool| trials.iter().filter(|t| is(t)).count();
        let lost = count(TrialResult::has_lost_data);
        let failed = count(|t| t.failed.is_some() || t.stats.errors() > 0);
        let all = words::count(trials.len(), "trial");
        let (outcome, message) = match (lost, failed) {
            (0, 0) => (CaseOutcome::Passed, format!("{all}, no operation failed")),
            (0, _) => (
                CaseOutcome::Failed,
                format!("operations failed in {failed} of {all}"),
            ),
            _ => (
                CaseOutcome::Broken,
                format!("acknowledged writes were lost or damaged in {lost} of {all}"),
            ),
        };
        GateCase {
            class: workload.to_owned(),
            name: format!("{arm}: operations and data"),
            time: Nanos(0),
            outcome,
            message,
        }
    };
    pools.into_iter().map(case).collect()
}

/// Text for an attribute or an element. What XML cannot hold at all is replaced.
fn escaped(text: &str) -> String {
    escape(&printable(text)).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}
