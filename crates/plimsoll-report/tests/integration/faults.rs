// SPDX-License-Identifier: Apache-2.0
//! Findings of a report on faults, good ones and bad ones.

use crate::common::{Size, results};
use plimsoll_core::data_check::DataFlaw;
use plimsoll_core::event::{ArmEntry, RunFolderContents, TrialId, TrialResult, WorkloadEntry};
use plimsoll_core::failover::{
    ClusterEvent, FaultInjection, FaultObserver, FaultResult, ObserverResult,
};
use plimsoll_core::fault::FaultKind;
use plimsoll_core::ledger::LedgerCheck;
use plimsoll_core::op::OpKind;
use plimsoll_core::outage::{OutageProbe, OutageProbeSession, OutageProbeWindow, OutageResult};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_report::{ReportDocument, build, html, terminal};

const MS: u64 = 1_000_000;

/// A session that writes and reads every 10 ms for 20 s and stalls at second 5 for `stalled_ms`.
fn outage(stalled_ms: u64) -> OutageResult {
    let sessions = [OutageProbeSession {
        name: "session 0".into(),
        write_period: Some(Nanos(10 * MS)),
        read_period: Some(Nanos(10 * MS)),
        reopened: 0,
    }];
    let mut probes = Vec::new();
    for number in 0..2_000 {
        let meant = number * 10 * MS;
        let stall = 5_000 * MS..(5_000 + stalled_ms) * MS;
        let ended = if stall.contains(&meant) {
            stall.end
        } else {
            meant
        };
        for kind in [OpKind::Read, OpKind::Write] {
            probes.push(OutageProbe {
                session: 0,
                kind,
                intended_at: Nanos(meant),
                ended: (ended < 20_000 * MS).then_some((Nanos(ended + MS), Ok(()))),
            });
        }
    }
    let window = OutageProbeWindow {
        from: Nanos(0),
        until: Nanos(20_000 * MS),
        fault_at: Some(Nanos(5_000 * MS)),
    };
    OutageResult::of(&sessions, &probes, window)
}

fn fault(stalled_ms: u64, lost: u64) -> FaultResult {
    let mut check = LedgerCheck::default();
    check.data.written = 2_000;
    check.data.checked = 2_000;
    (0..lost).for_each(|_| check.data.bad.count(DataFlaw::Lost));
    FaultResult {
        fault: FaultKind::Kill,
        victim: "n1".into(),
        done_within: Nanos(2 * MS),
        lasted: Nanos(10_000 * MS),
        healed_in: Nanos(300 * MS),
        healed_under_load: true,
        crashed: 0,
        ceiling: None,
        observers: Vec::new(),
        events: Vec::new(),
        outage: outage(stalled_ms),
        check,
    }
}

fn label(kind: FaultKind) -> String {
    format!("sessions under {kind}")
}

fn entry(kind: FaultKind) -> WorkloadEntry {
    WorkloadEntry {
        label: label(kind),
        scale: 1.0,
        length: Nanos(20_000 * MS),
        workload: Workload::idle("sessions"),
        condition: None,
        load_line: None,
        client: None,
        load_loop: None,
        inject: Some(FaultInjection {
            fault: kind,
            victim: None,
            length: Nanos(10_000 * MS),
            recovery_timeout: Nanos(120_000 * MS),
            sessions: 1,
            rate: 100.0,
            share: None,
            block_bytes: 4096,
            file_bytes: 1 << 20,
            observers: vec![FaultObserver::Stamp],
            refused: [].into(),
        }),
    }
}

/// A run of sessions alone on these systems under these faults, with what came of each.
fn run(systems: &[&str], kinds: &[FaultKind], faults: &[(&str, FaultResult)]) -> RunFolderContents {
    let mut run = results(Size {
        arms: 1,
        workloads: 1,
        blocks: 1,
        seconds: 1,
        busy: 0.2,
    });
    let arm = run.manifest.arms[0].clone();
    run.manifest.arms = systems.iter().map(|name| named(&arm, name)).collect();
    run.manifest.entries = kinds.iter().map(|kind| entry(*kind)).collect();
    run.intervals.clear();
    run.comparisons.clear();
    let trial = |(place, (arm, fault)): (u32, &(&str, FaultResult))| TrialResult {
        fault: Some(fault.clone()),
        ..TrialResult::of(TrialId {
            block: place,
            place,
            arm: (*arm).into(),
            workload: label(fault.fault),
        })
    };
    run.trials = (0..).zip(faults).map(trial).collect();
    run
}

fn named(arm: &ArmEntry, name: &str) -> ArmEntry {
    let mut arm = arm.clone();
    arm.name = name.into();
    arm
}

fn of_one(faults: Vec<FaultResult>) -> ReportDocument {
    let faults: Vec<_> = faults.into_iter().map(|fault| ("raid1", fault)).collect();
    build(&run(&["raid1"], &[FaultKind::Kill], &faults))
}

fn text(report: &ReportDocument) -> String {
    terminal(report, 200, false, false)
}

fn headline(report: &ReportDocument) -> String {
    let lines = report.headline.iter();
    let lines = lines.map(|s| format!("{}: {} ({})", s.mark, s.text, s.detail));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn stalls_are_told_with_what_their_number_bounds() {
    let report = of_one(vec![fault(1_000, 0), fault(3_000, 0), fault(2_000, 0)]);
    let said = headline(&report);
    assert!(said.contains("write outage 2.0"), "{said}");
    assert!(said.contains("(at most 3.0"), "{said}");
    // 0.05^(1/3) = 36.8 %, and 1 less that.
    assert!(said.contains("longer than 36.8 % of all"), "{said}");
    assert!(said.contains("3 of 3 survived"), "{said}");
    assert!(
        said.contains("no acknowledged write was lost in 3 faults"),
        "{said}"
    );
    assert!(said.contains("at most 63.2 % of such faults"), "{said}");
    assert!(!said.contains("until the end"), "{said}");
}

#[test]
fn lost_writes_and_stalls_without_end_are_bad_news() {
    let report = of_one(vec![fault(1_000, 0), fault(15_000, 4)]);
    let said = headline(&report);
    assert!(said.contains("after 1 of 2 faults"), "{said}");
    assert!(
        said.contains("in 1 of them the outage lasted until the end"),
        "{said}"
    );
    let text = text(&report);
    assert!(text.contains("4 bad (4 lost)"), "{text}");
    assert!(text.contains("> "), "{text}");
    let (faults, blocks) = ("Median over faults", "over blocks");
    assert!(text.contains(faults) && !text.contains(blocks), "{text}");
    let page = html(&report);
    assert!(page.contains("4 bad (4 lost)"));
}

#[test]
fn observers_stand_beside_the_sessions_with_the_lines_they_lost() {
    let mut seen = fault(1_000, 0);
    seen.observers = vec![ObserverResult {
        name: "stamp".into(),
        ops: 20,
        still: Some(Nanos(3_000 * MS)),
        missing: 2,
        ..ObserverResult::default()
    }];
    let report = of_one(vec![seen]);
    let said = headline(&report);
    assert!(said.contains("after 1 of 1 faults"), "{said}");
    let said = text(&report);
    assert!(
        said.contains("Observers") && said.contains("stamp"),
        "{said}"
    );
    let without = text(&of_one(vec![fault(1_000, 0)]));
    assert!(!without.contains("Observers"), "{without}");
}

#[test]
fn sessions_alone_have_no_sections_of_a_workload_that_was_not_played() {
    let said = text(&of_one(vec![fault(1_000, 0)]));
    for absent in ["Load generator", "caching", "By kind of operation", "phase"] {
        assert!(!said.contains(absent), "{absent}: {said}");
    }
    assert!(said.contains("Faults of raid1"), "{said}");
}

#[test]
fn a_share_of_the_maximum_is_named_with_it() {
    let mut run = run(
        &["raid1"],
        &[FaultKind::Kill],
        &[("raid1", fault(1_000, 0))],
    );
    run.manifest.entries[0].inject.as_mut().unwrap().share = Some(0.5);
    run.trials[0].fault.as_mut().unwrap().ceiling = Some(300.0);
    let said = text(&build(&run));
    let words = "with 150 reads and as many writes of 4.00 KiB per second each, 50 % of their maximum of 300";
    assert!(said.contains(words), "{said}");
}

#[test]
fn systems_stand_side_by_side_with_what_has_no_result() {
    let kinds = [FaultKind::Kill, FaultKind::Delay];
    let one = [("raid1", fault(1_000, 0))];
    let mut all = run(&["raid1", "nfs"], &kinds, &one);
    let refused = all.manifest.entries[1].inject.as_mut().unwrap();
    refused.refused.insert("raid1".into(), "no netem".into());
    all.complete = false;
    let said = text(&build(&all));
    for expect in [
        "raid1: no acknowledged write was lost in 1 fault",
        "1 of 3 trials",
        "not possible",
        "raid1, delay: no netem",
        "at most 95 % of such faults",
    ] {
        assert!(said.contains(expect), "{expect}: {said}");
    }
    let two = [("raid1", fault(1_000, 0)), ("raid1", fault(3_000, 2))];
    let said = text(&build(&run(&["raid1", "nfs"], &kinds, &two)));
    assert!(said.contains("data lost"), "{said}");
    assert!(
        said.contains("raid1: acknowledged writes were lost after 1 of 2"),
        "{said}"
    );
    let none = text(&build(&run(&["raid1", "nfs"], &kinds, &[])));
    assert!(!none.contains("no acknowledged write"), "{none}");
}

#[test]
fn an_outage_has_parts_where_a_cluster_says_them() {
    let event = |after_s: u64, what: &str| ClusterEvent {
        after: Nanos(after_s * Nanos::SECOND.0),
        server: "n1".into(),
        what: what.into(),
    };
    let mut faults = vec![fault(9_000, 0), fault(11_000, 0)];
    assert!(!text(&of_one(faults.clone())).contains("Parts of an outage"));
    faults[0].events = vec![event(3, "noticed"), event(7, "fenced"), event(8, "fenced")];
    faults[1].events = vec![event(5, "noticed")];
    faults[1].events.push(ClusterEvent {
        server: "n2".into(),
        ..event(9, "serving")
    });
    let said = text(&of_one(faults));
    let rows = said.split("taken over by").nth(1).unwrap_or_default();
    let takers: Vec<_> = rows
        .lines()
        .skip(1)
        .take(2)
        .map(|row| row.split_whitespace().nth(3))
        .collect();
    assert_eq!(takers, [Some("–"), Some("n2")], "{said}");
    let after = said.split("Parts of an outage").nth(1).unwrap_or_default();
    for part in ["4.00 s (5.00 s)", "7.00 s (7.00 s)"] {
        assert!(after.contains(part), "{part} in {said}");
    }
}

#[test]
fn an_outage_is_told_with_its_fault_and_one_length() {
    let paused = |stalled_ms| FaultResult {
        fault: FaultKind::Pause,
        ..fault(stalled_ms, 0)
    };
    let said = |faults: Vec<FaultResult>| {
        let kind = faults[0].fault;
        let faults: Vec<_> = faults.into_iter().map(|one| ("nfs", one)).collect();
        build(&run(&["nfs"], &[kind], &faults)).answer.text
    };
    // The fault lasts 10 s.
    let text = said(vec![paused(10_000), paused(10_000)]);
    assert!(
        text.starts_with("When a server is paused for 10.0 s, writes stop on nfs for 10.0 s, as long as the fault itself"),
        "{text}"
    );
    let text = said(vec![paused(2_000)]);
    assert!(
        text.contains("writes stop on nfs for 2.0") && !text.contains("as long as"),
        "{text}"
    );
    let text = said(vec![fault(2_000, 0)]);
    assert!(
        text.starts_with("When a server is killed, writes stop on nfs"),
        "{text}"
    );
    // The last write before the fault ended half a second before it: table and picture say the same.
    let mut early = fault(3_000, 0);
    early.outage.fault_at = Some(Nanos(5_500 * MS));
    let report = of_one(vec![early]);
    let figure = report.answer.figure.as_ref().unwrap();
    let plimsoll_report::model::ReportChart::Outages(chart) = &figure.chart else {
        panic!("outages");
    };
    let (from, to, _) = chart.rows[0].writes.unwrap();
    assert!((from + 0.5).abs() < 0.02, "{from}");
    assert!(figure.answer.contains("3.0"), "{}", figure.answer);
    assert!((to - from - 3.0).abs() < 0.02, "{from} {to}");
}
