// SPDX-License-Identifier: Apache-2.0
//! What is said of faults, good ones and bad ones.

use plimsoll_core::data_check::DataFlaw;
use plimsoll_core::failover::ClusterEvent;
use plimsoll_core::ledger::LedgerCheck;
use plimsoll_core::outage::{OutageProbe, OutageProbeSession, OutageProbeWindow, OutageResult};

use super::*;
use crate::model::ReportDocument;

const MS: u64 = 1_000_000;

/// A session that writes and reads every 10 ms for 20 s and stands still at second 5 for so long.
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

fn strike(stalled_ms: u64, lost: u64) -> FaultResult {
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
        beside: Vec::new(),
        events: Vec::new(),
        outage: outage(stalled_ms),
        check,
    }
}

fn told(strikes: Vec<FaultResult>) -> ReportDocument {
    failover(&FailoverResult {
        name: "raid1".into(),
        description: "two disks".into(),
        sessions: 1,
        rate: 100.0,
        most: None,
        block_bytes: 4096,
        seed: 7,
        strikes,
    })
}

fn headline(report: &ReportDocument) -> String {
    let lines = report.headline.iter();
    let lines = lines.map(|s| format!("{}: {} ({})", s.mark, s.text, s.detail));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn stalls_are_told_with_what_their_number_bounds() {
    let report = told(vec![strike(1_000, 0), strike(3_000, 0), strike(2_000, 0)]);
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
    let report = told(vec![strike(1_000, 0), strike(15_000, 4)]);
    let said = headline(&report);
    assert!(said.contains("after 1 of 2 faults"), "{said}");
    assert!(
        said.contains("in 1 of them the outage lasted until the end"),
        "{said}"
    );
    let text = crate::terminal(&report, 160, false, false);
    assert!(text.contains("4 bad (4 lost)"), "{text}");
    assert!(text.contains("> "), "{text}");
    let (faults, blocks) = ("Median over faults", "over blocks");
    assert!(text.contains(faults) && !text.contains(blocks), "{text}");
    let page = crate::html(&report);
    assert!(page.contains("4 bad (4 lost)"));
}

#[test]
fn what_worked_beside_the_sessions_is_told_with_the_lines_it_lost() {
    use plimsoll_core::failover::BackgroundLoadResult;
    let mut strike = strike(1_000, 0);
    strike.beside = vec![BackgroundLoadResult {
        name: "stamp".into(),
        ops: 20,
        still: Some(Nanos(3_000 * MS)),
        missing: 2,
        ..BackgroundLoadResult::default()
    }];
    let report = told(vec![strike]);
    let said = headline(&report);
    assert!(said.contains("after 1 of 1 faults"), "{said}");
    let text = crate::terminal(&report, 160, false, false);
    assert!(text.contains("Background load"), "{text}");
    assert!(text.contains("stamp"), "{text}");
    let without = told(vec![super::tests::strike(1_000, 0)]);
    let text = crate::terminal(&without, 160, false, false);
    assert!(!text.contains("Background load"), "{text}");
}

#[test]
fn systems_stand_side_by_side_with_what_has_no_result() {
    use plimsoll_core::failover::{FailoverCellResult, FailoverMatrix, FailoverMatrixCell};
    let cell = |stack: &str, fault, outcome| FailoverMatrixCell {
        stack: stack.into(),
        fault,
        outcome,
    };
    let done = |strikes| {
        FailoverCellResult::Done(FailoverResult {
            name: "raid1".into(),
            description: "two disks".into(),
            sessions: 1,
            rate: 100.0,
            most: None,
            block_bytes: 4096,
            seed: 7,
            strikes,
        })
    };
    let mut all = FailoverMatrix {
        cells: vec![
            cell("raid1", FaultKind::Kill, done(vec![strike(1_000, 0)])),
            cell(
                "raid1",
                FaultKind::Delay,
                FailoverCellResult::Refused("no netem".into()),
            ),
            cell("nfs", FaultKind::Kill, FailoverCellResult::NotTried),
            cell(
                "nfs",
                FaultKind::Delay,
                FailoverCellResult::Failed("no route".into()),
            ),
        ],
    };
    let text = crate::terminal(&crate::matrix(&all), 160, false, false);
    for expect in [
        "no acknowledged write was lost in 1 fault",
        "3 cells of 4 have no result",
        "not possible",
        "raid1, delay: no netem",
        "nfs, delay: no route",
        "at most 95 % of such faults",
    ] {
        assert!(text.contains(expect), "{expect}: {text}");
    }
    all.cells[0].outcome = done(vec![strike(1_000, 0), strike(3_000, 2)]);
    let text = crate::terminal(&crate::matrix(&all), 160, false, false);
    assert!(text.contains("raid1 after kill"), "{text}");
    let none = FailoverMatrix {
        cells: vec![all.cells[2].clone()],
    };
    let text_of_none = crate::terminal(&crate::matrix(&none), 160, false, false);
    assert!(
        !text_of_none.contains("no acknowledged write"),
        "{text_of_none}"
    );
    assert!(text.contains("data lost"), "{text}");
    assert!(!all.kept_its_data());
}

#[test]
fn an_outage_is_told_in_parts_where_a_cluster_says_them() {
    let event = |after_s: u64, what: &str| ClusterEvent {
        after: Nanos(after_s * Nanos::SECOND.0),
        server: "n1".into(),
        what: what.into(),
    };
    let text = |report: &ReportDocument| crate::terminal(report, 200, false, false);
    let mut strikes = vec![strike(9_000, 0), strike(11_000, 0)];
    assert!(!text(&told(strikes.clone())).contains("Parts of an outage"));
    strikes[0].events = vec![event(3, "noticed"), event(7, "fenced"), event(8, "fenced")];
    strikes[1].events = vec![event(5, "noticed")];
    strikes[1].events.push(ClusterEvent {
        server: "n2".into(),
        ..event(9, "serving")
    });
    let said = text(&told(strikes));
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
