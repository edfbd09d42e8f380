// SPDX-License-Identifier: Apache-2.0
//! A sentence says no more than the events do: each rule of the first screen from made-up events whose truth
//! is known.

use crate::common::{Size, results};
use plimsoll_core::comparison::{ComparisonVerdict, OverloadStats, RatioEstimate};
use plimsoll_core::event::{KindStats, OpStats, RunFolderContents, TrialId, TrialResult};
use plimsoll_core::explanation::ExplanationCause;
use plimsoll_core::histogram::Histogram;
use plimsoll_core::load_line::{
    LoadLineBatch, LoadLineGoal, LoadLineReading, LoadLineRecord, LoadLineRequest,
};
use plimsoll_core::op::OpKind;
use plimsoll_core::others::NeighbourUse;
use plimsoll_core::units::Nanos;
use plimsoll_report::model::{ReportAnswer, ReportChart};
use plimsoll_report::{build, results_document, terminal};
use plimsoll_stats::load_line::{LoadLineSearch, LoadLineStep, load_line_options, load_line_trial};

const SMALL: Size = Size {
    arms: 2,
    workloads: 2,
    blocks: 3,
    seconds: 6,
    busy: 0.2,
};
const SECOND: u64 = Nanos::SECOND.0;

/// Others that took this share of two processors.
fn others(share: f64) -> NeighbourUse {
    NeighbourUse {
        length: Nanos(10 * SECOND),
        cpus: 2,
        cpu_ns: plimsoll_core::num::round_u64(share * 20e9),
        ..NeighbourUse::default()
    }
}

fn busy(mut run: RunFolderContents, share: f64) -> RunFolderContents {
    for trial in &mut run.trials {
        trial.others = Some(others(share));
    }
    run
}

fn said(run: &RunFolderContents) -> ReportAnswer {
    build(run).answer
}

fn fact(answer: &ReportAnswer, name: &str) -> Option<String> {
    let mut facts = answer.facts.iter();
    facts
        .find(|(of, _)| of == name)
        .map(|(_, text)| text.clone())
}

/// Share of operations that are slow above the edge of a system.
const SLOW: f64 = 0.9;

/// A trial of a system in which this share of the operations takes 100 ms, and the others 5 ms.
fn line_trial(share: f64, request: LoadLineRequest, id: TrialId) -> TrialResult {
    let batch = LoadLineBatch {
        operations: 1_000.0,
        amount: 1_000.0 * share,
    };
    let mut stats = KindStats::default();
    for number in 0..1_000_u32 {
        let is_slow = f64::from(number) < 1_000.0 * share;
        let time = if is_slow { 100_000_000 } else { 5_000_000 };
        stats.response.record(Nanos(time));
        stats.service.record(Nanos(time));
    }
    TrialResult {
        length: Nanos::from_secs_f64(request.seconds),
        stats: OpStats([(OpKind::Read, stats)].into()),
        load_line: Some(LoadLineRecord {
            request,
            readings: vec![LoadLineReading {
                batches: vec![batch; 10],
            }],
        }),
        ..TrialResult::of(id)
    }
}

/// A search on each of these systems, of at most `trials_max` trials each. A system keeps p99 < 20 ms up to
/// its multiple: below it, one operation in a thousand is slow.
fn searched(systems: &[(&str, f64)], trials_max: usize) -> RunFolderContents {
    let law = |edge: f64, multiple: f64| if multiple <= edge { 0.001 } else { SLOW };
    searched_by(systems, trials_max, &law)
}

/// The same by a law: the share of slow operations by the figure of a system and the multiple.
fn searched_by(
    systems: &[(&str, f64)],
    trials_max: usize,
    law: &dyn Fn(f64, f64) -> f64,
) -> RunFolderContents {
    let mut run = results(Size {
        arms: 2,
        workloads: 1,
        blocks: 1,
        seconds: 1,
        busy: 0.2,
    });
    let arms = systems.iter().map(|(name, _)| {
        let mut arm = run.manifest.arms[0].clone();
        arm.name = (*name).into();
        arm
    });
    run.manifest.arms = arms.collect();
    run.manifest.command = ["plimsoll", "loadline", "-w", "nas.toml"]
        .map(Into::into)
        .into();
    let entry = &mut run.manifest.entries[0];
    entry.load_line = Some(LoadLineGoal {
        limits: vec!["p99 < 20ms".parse().unwrap()],
        smallest: 0.02,
        largest: 50.0,
        width: 0.1,
        short: Nanos(4 * SECOND),
        trial: Nanos(8 * SECOND),
        sustained: Nanos(20 * SECOND),
        budget: Nanos(600 * SECOND),
        costs: [].into(),
        requirement: None,
    });
    let entry = entry.clone();
    (run.trials, run.intervals, run.comparisons) = Default::default();
    for (name, edge) in systems {
        let mut search = LoadLineSearch::new(load_line_options(&entry, 0.95).unwrap());
        for _ in 0..trials_max {
            let LoadLineStep::Try(request) = search.next() else {
                break;
            };
            let id = TrialId {
                block: 0,
                place: u32::try_from(run.trials.len()).unwrap(),
                arm: (*name).into(),
                workload: entry.label.clone(),
            };
            let trial = line_trial(law(*edge, request.multiple), request, id);
            search.observe(&load_line_trial(&trial).unwrap());
            run.trials.push(trial);
        }
    }
    run
}

fn largest_tried(run: &RunFolderContents) -> f64 {
    let records = run
        .trials
        .iter()
        .filter_map(|trial| trial.load_line.as_ref());
    records
        .map(|record| record.request.multiple)
        .fold(0.0, f64::max)
}

#[test]
fn a_line_that_no_trial_broke_is_at_least_what_was_tried() {
    let run = searched(&[("a", 1_000.0)], 100);
    let answer = said(&run).text;
    let expect = "a carries at least 50.0× nas ×40 at p99 < 20.0 ms (no limit was reached).";
    assert_eq!(answer, expect);
    let limited_by = fact(&said(&run), "Limited by");
    assert_eq!(limited_by.as_deref(), Some("no limit reached"));
    // Cut off as soon as it knows a least.
    let cut = (1..100)
        .map(|trials| searched(&[("a", 1_000.0)], trials))
        .find(|run| {
            let line = &results_document(run).load_lines.lines[0];
            line.reach == "at least" && line.stop.is_none()
        });
    let cut = cut.unwrap();
    let answer = said(&cut).text;
    assert!(
        answer.ends_with("(not finished: no limit was reached)."),
        "{answer}"
    );
    let (_, rest) = answer.split_once("at least ").unwrap();
    let figure: f64 = rest.split_once('×').unwrap().0.parse().unwrap();
    assert!(figure <= largest_tried(&cut) * 1.005, "{answer}");
    let page = terminal(&build(&cut), 200, false, false);
    assert!(
        !page.contains("That is "),
        "no rate without an edge: {page}"
    );
    let (edge, run) = (2.0, searched(&[("a", 2.0)], 200));
    let answer = said(&run).text;
    let ends = answer
        .split_once("95 % CI ")
        .unwrap()
        .1
        .split_once(" over ")
        .unwrap()
        .0;
    let (low, high) = ends.split_once(" to ").unwrap();
    let (low, high): (f64, f64) = (low.parse().unwrap(), high.parse().unwrap());
    assert!(low <= edge && edge <= high && high < 2.5, "{answer}");
    // Time span that the interval covers.
    let page = plimsoll_report::html(&build(&run));
    assert!(page.contains("a state that lasts longer than 20 s"));
}

#[test]
fn a_line_that_nothing_kept_lies_below_and_on_a_busy_machine_it_is_no_answer() {
    let run = searched(&[("a", 0.0), ("b", 0.0)], 100);
    let answer = said(&run);
    assert!(
        answer.text.starts_with("a lies below 0.02"),
        "{}",
        answer.text
    );
    assert!(
        answer.text.contains("(no trial kept the limits)"),
        "{}",
        answer.text
    );
    assert!(
        answer.next[0].command.contains("--min"),
        "{:?}",
        answer.next
    );
    let answer = said(&busy(run.clone(), 0.66));
    assert_eq!(
        answer.text,
        "Not answered: other programs took 66 % of the CPUs. Seen within p99 < 20.0 ms: a in no trial, b in no \
         trial."
    );
    let sure = fact(&answer, "How sure").unwrap();
    assert!(sure.starts_with("not at all"), "{sure}");
    assert_eq!(answer.next.len(), 1);
    assert!(
        !answer.next[0].command.contains("--min"),
        "{:?}",
        answer.next
    );
    assert!(
        answer.doubts[0].text.contains("66 % of the CPUs"),
        "{:?}",
        answer.doubts
    );
    // A tenth of the processors does not decide.
    assert!(said(&busy(run, 0.1)).text.starts_with("a lies below"));
}

#[test]
fn a_limit_that_breaks_without_load_is_no_answer_about_load() {
    // A pause of 150 ms every 10 s: 1.5 % of the operations, however few there are.
    let answer = said(&searched_by(&[("a", 0.015)], 100, &|share, _| share));
    let text = &answer.text;
    assert!(
        text.starts_with(
            "Not answered: on a 1.5 % of the operations were beyond p99 < 20.0 ms at "
        ),
        "{text}"
    );
    assert!(text.contains("(1 % is allowed). Seen within"), "{text}");
    // Most of them: that is the storage.
    let answer = said(&searched_by(&[("a", 0.8)], 100, &|share, _| share));
    assert!(answer.text.starts_with("a lies below"), "{}", answer.text);
}

#[test]
fn systems_are_ranked_where_their_intervals_are_apart() {
    let answer = said(&searched(&[("a", 1.0), ("b", 8.0)], 200));
    assert!(
        answer.text.starts_with("b carries most: "),
        "{}",
        answer.text
    );
    assert!(answer.text.contains("; a "), "{}", answer.text);
    // It is known who carries most: one that carries nothing is no reason to search on.
    let answer = said(&searched(&[("a", 0.0), ("b", 8.0)], 200));
    assert!(
        answer.text.starts_with("b carries most: "),
        "{}",
        answer.text
    );
    assert!(answer.text.contains("; a below 0.02"), "{}", answer.text);
    let commands = answer.next.iter().map(|step| step.command.clone());
    assert!(
        commands.clone().all(|one| !one.contains("--min")),
        "{:?}",
        answer.next
    );
    // Both lie beyond the largest multiple that was allowed: no system leads.
    let answer = said(&searched(&[("a", 900.0), ("b", 800.0)], 200));
    assert!(
        answer.text.ends_with("Too close to call: a and b."),
        "{}",
        answer.text
    );
    assert!(answer.text.contains("; b at least 50"), "{}", answer.text);
    assert!(
        answer.next[0].command.contains("--max"),
        "{:?}",
        answer.next
    );
}

#[test]
fn what_noise_decided_is_not_answered_and_a_winner_stays_one() {
    let run = busy(results(SMALL), 0.66);
    let answer = said(&run);
    // raid1 is 1.32 times as slow as local on the model, and 1.09 times on varmail in three noisy blocks.
    assert!(
        answer
            .text
            .starts_with("local is best on nas ×40; not answered on varmail (other programs took 66 % of the CPUs)."),
        "{}",
        answer.text
    );
    let mut only = run;
    only.comparisons.retain(|row| row.workload == "varmail");
    let answer = said(&only);
    assert!(
        answer
            .text
            .starts_with("Not answered on varmail: other programs took 66 % of the CPUs. Seen: local had 1.08× the operations per second of raid1 ("),
        "{}",
        answer.text
    );
    assert!(
        !answer.next[0].command.contains("--blocks"),
        "{:?}",
        answer.next
    );
    let mut none = only.clone();
    let row = none.comparisons.iter_mut().find(|row| !row.is_control);
    row.unwrap().ratio = None;
    let text = said(&none).text;
    assert_eq!(
        text,
        "No winner yet on varmail: there is not enough data of raid1."
    );
    let of_raid1 =
        |trial: &&mut TrialResult| trial.trial.arm == "raid1" && trial.trial.workload == "varmail";
    for trial in none.trials.iter_mut().filter(of_raid1).take(2) {
        trial.failed = Some("ended after 2.0 s: it is full".into());
    }
    let text = said(&none).text;
    assert_eq!(
        text,
        "No winner yet on varmail: 2 of 3 trials of raid1 were aborted."
    );
    let page = terminal(&build(&none), 200, false, false);
    let expect = "2 of 3 trials of raid1 on varmail were aborted: ended after 2.0 s: it is full";
    assert!(page.contains(expect), "{page}");
    for trial in &mut only.trials {
        trial.others = None;
    }
    assert!(said(&only).text.starts_with("No winner yet on varmail"));
    // A system that differs from itself leaves as little of an answer.
    let control = only
        .comparisons
        .iter_mut()
        .find(|row| row.is_control)
        .unwrap();
    control.verdict = ComparisonVerdict::Different;
    control.ratio = Some(ratio(0.5, 0.4, 0.6));
    let text = said(&only).text;
    let expect = "Not answered on varmail: local measured twice differed from itself 2.00 times.";
    assert!(text.starts_with(expect), "{text}");
}

fn ratio(estimate: f64, low: f64, high: f64) -> RatioEstimate {
    RatioEstimate {
        estimate,
        low,
        high,
    }
}

fn carried(served: f64, blocks_overloaded: u32) -> Option<OverloadStats> {
    Some(OverloadStats {
        offered_per_s: 2_000.0,
        served_per_s: served,
        backlog: 0.0,
        backlog_growth_per_s: 0.0,
        blocks_overloaded,
        blocks: 3,
        unfinished: 0,
    })
}

#[test]
fn a_load_that_nobody_carried_on_a_busy_machine_accuses_nobody() {
    let mut run = results(SMALL);
    run.comparisons.retain(|row| row.workload != "varmail");
    let row = run
        .comparisons
        .iter_mut()
        .find(|row| !row.is_control)
        .unwrap();
    row.verdict = ComparisonVerdict::CannotCarry;
    (row.base_carried, row.arm_carried) = (carried(1_900.0, 0), carried(130.0, 3));
    // local carried it in the same blocks, so that the machine was not too busy for it.
    for share in [0.0, 0.66] {
        let text = said(&busy(run.clone(), share)).text;
        assert!(
            text.starts_with("raid1 cannot carry nas ×40: 130 of 2"),
            "{text}"
        );
        assert!(text.ends_with("; local carries it."), "{text}");
    }
    let row = run
        .comparisons
        .iter_mut()
        .find(|row| !row.is_control)
        .unwrap();
    row.base_carried = carried(700.0, 3);
    assert!(
        said(&run)
            .text
            .starts_with("Neither local nor raid1 can carry")
    );
    let report = build(&busy(run, 0.66));
    let text = &report.answer.text;
    assert!(
        text.starts_with("Not answered on nas ×40: other programs took 66 %"),
        "{text}"
    );
    assert_eq!(report.headline[0].mark, "not answered");
    let all: Vec<&str> = report
        .headline
        .iter()
        .map(|one| one.text.as_str())
        .collect();
    assert!(!all.concat().contains("can carry"), "{all:?}");
}

#[test]
fn doubts_are_one_of_a_kind_and_the_heaviest_comes_first() {
    let mut run = busy(results(Size { arms: 3, ..SMALL }), 0.7);
    run.complete = false;
    for trial in &mut run.trials {
        for check in &mut trial.fidelity {
            check.error = 1.0;
        }
    }
    let missed = run
        .trials
        .iter()
        .filter(|trial| !trial.fidelity.is_empty())
        .count();
    let doubts = said(&run).doubts;
    let texts: Vec<&str> = doubts.iter().map(|doubt| doubt.text.as_str()).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[0].contains("70 % of the CPUs"), "{texts:?}");
    assert!(texts[1].contains("incomplete"), "{texts:?}");
    let expect = format!(
        "raid1, nfs received a different load than intended on nas ×40 in {missed} of {missed} trials"
    );
    assert!(texts[2].ends_with(&expect), "{texts:?}");
}

#[test]
fn a_search_that_was_stopped_does_not_count_trials_that_nobody_planned() {
    let mut run = searched(&[("a", 2.0)], 5);
    run.complete = false;
    let page = terminal(&build(&run), 200, false, false);
    assert!(page.contains("5 trials ended as planned"), "{page}");
    assert!(!page.contains("of 0 trials"), "{page}");
}

#[test]
fn next_steps_are_those_that_can_help() {
    // Who wins is known: more blocks would only say by how much.
    let mut run = results(Size {
        arms: 3,
        workloads: 1,
        ..SMALL
    });
    for (row, estimate) in run
        .comparisons
        .iter_mut()
        .filter(|row| !row.is_control)
        .zip([0.5, 0.98])
    {
        let is_better = estimate < 0.9;
        row.ratio = Some(ratio(estimate, estimate * 0.95, estimate * 1.05));
        row.verdict = match is_better {
            true => ComparisonVerdict::Different,
            false => ComparisonVerdict::Inconclusive,
        };
        row.blocks_needed = (!is_better).then_some(108);
    }
    run.manifest.command = ["plimsoll", "compare", "local", "-w", "nas.toml"]
        .map(Into::into)
        .into();
    let answer = said(&run);
    assert!(
        answer.text.starts_with("raid1 is best on nas ×40: a 2.0"),
        "{}",
        answer.text
    );
    let next: Vec<&str> = answer
        .next
        .iter()
        .map(|step| step.command.as_str())
        .collect();
    assert!(
        next.iter().all(|command| !command.contains("--blocks")),
        "{next:?}"
    );
    // Response times have a median of 0.2 to 0.6 ms on the fastest, tails nine times that: 10 ms holds them.
    let limit = next
        .iter()
        .find_map(|command| command.split_once("p99 < "))
        .unwrap()
        .1;
    let limit = limit.split('\'').next().unwrap();
    let limit = plimsoll_core::units::parse_duration(limit).unwrap();
    let pool = run
        .trials
        .iter()
        .filter(|trial| trial.trial.arm.starts_with("local"));
    let best = pool
        .map(|trial| trial.stats.response().quantile_ns(0.99))
        .max()
        .unwrap();
    assert!(limit.0 <= 5 * best, "{limit} {best}");
    run.complete = false;
    let next = said(&run).next;
    assert_eq!(next.len(), 1, "{next:?}");
    assert!(next[0].text.starts_with("Go on where"), "{next:?}");
}

#[test]
fn the_better_one_is_over_the_other_in_sentence_picture_and_table() {
    let mut run = results(Size {
        workloads: 1,
        ..SMALL
    });
    let row = run
        .comparisons
        .iter_mut()
        .find(|row| !row.is_control)
        .unwrap();
    row.verdict = ComparisonVerdict::Different;
    row.ratio = Some(ratio(4.0, 3.2, 5.0));
    let report = build(&run);
    let text = &report.answer.text;
    assert!(
        text.contains("a 4.0× lower mean response time than raid1 (3.2 to 5.0)"),
        "{text}"
    );
    let ReportChart::Forest(chart) = &report.answer.figure.as_ref().unwrap().chart else {
        panic!("a forest plot");
    };
    let rows: Vec<_> = chart.groups.iter().flat_map(|group| &group.rows).collect();
    // The control is a note and no row; a response time of four times is a quarter as good: left of 1.
    assert_eq!(rows.len(), 1);
    assert!((rows[0].ratio.unwrap().estimate - 0.25).abs() < 1e-9);
    assert_eq!(rows[0].text, "local 4.0× (3.2 to 5.0)");
    let answer = &report.answer.figure.as_ref().unwrap().answer;
    assert!(
        answer.contains("Measured twice, local may differ from itself by"),
        "{answer}"
    );
    let page = terminal(&report, 200, false, false);
    assert!(
        page.matches("local 4.0× (3.2 to 5.0)").count() >= 2,
        "{page}"
    );
    assert!(
        !page.contains("[different: worse]\n  local again"),
        "{page}"
    );
}

#[test]
fn a_search_that_knows_nothing_is_sure_of_nothing() {
    // One trial, which is over before anything is known of either end.
    let run = searched(&[("a", 2.0)], 1);
    let report = build(&run);
    let line = &results_document(&run).load_lines.lines[0];
    let answer = &report.answer;
    let sure = fact(answer, "How sure").unwrap();
    match line.reach.as_str() {
        "unknown" => {
            assert!(
                answer.text.starts_with("It is not known how much of nas"),
                "{}",
                answer.text
            );
            assert!(sure.starts_with("not at all"), "{sure}");
        }
        "at least" => assert!(answer.text.contains("at least"), "{}", answer.text),
        other => panic!("one trial has no two sides: {other}"),
    }
    let page = terminal(&report, 200, false, false);
    let table = page.split_once("Limit reached first").unwrap().1;
    let row = table.lines().nth(1).unwrap();
    assert!(!row.contains("p99"), "no limit was reached: {row}");
}

#[test]
fn a_trial_that_was_stopped_before_its_end_is_no_answer() {
    let mut run = results(Size {
        arms: 1,
        workloads: 1,
        ..SMALL
    });
    run.complete = false;
    run.trials.truncate(1);
    run.trials[0].interrupted = true;
    let sure = fact(&said(&run), "How sure").unwrap();
    assert_eq!(sure, "no trial was completed");
}

#[test]
fn a_run_of_nothing_has_no_limit() {
    let mut run = results(SMALL);
    (run.trials, run.intervals, run.comparisons) = Default::default();
    let answer = said(&run);
    assert_eq!(fact(&answer, "Limited by"), None, "{:?}", answer.facts);
}

#[test]
fn trials_of_a_search_differ_in_their_load_and_drift_by_nothing() {
    let mut run = searched(&[("a", 1_000.0)], 60);
    for trial in &mut run.trials {
        let stats = trial.stats.0.values_mut().next().unwrap();
        stats.response = Histogram::new();
        // The more load, the slower.
        for _ in 0..1_000 {
            let milliseconds = 1 + u64::from(trial.trial.place);
            stats.response.record(Nanos(milliseconds * 1_000_000));
        }
    }
    let drifts = |run: &RunFolderContents| {
        let told = results_document(run).explanations.into_iter();
        let mut found = told.flat_map(|told| told.found);
        found.any(|one| one.cause == ExplanationCause::Drift)
    };
    assert!(!drifts(&run));
    // Trials of one load that become slower do.
    run.manifest.entries[0].load_line = None;
    assert!(drifts(&run));
}
