// SPDX-License-Identifier: Apache-2.0
//! Systems under one fault: who stood still for longer, and what cannot be said.

use plimsoll_core::comparison::{ArmComparison, ComparisonMetric, ComparisonVerdict};
use plimsoll_core::event::{ArmEntry, RunManifest, TrialId, TrialResult, WorkloadEntry};
use plimsoll_core::failover::{FaultInjection, FaultResult};
use plimsoll_core::fault::FaultKind;
use plimsoll_core::format::FormatVersion;
use plimsoll_core::ledger::LedgerCheck;
use plimsoll_core::outage::{BrownOut, OutageResult, OutageStall, SessionOutage};
use plimsoll_core::rng::Seed;
use plimsoll_core::target::MachineFacts;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::BlockIoWorkload;

const LABEL: &str = "w under kill";

fn arm(name: &str, control_of: Option<&str>) -> ArmEntry {
    ArmEntry {
        name: name.into(),
        target: name.into(),
        description: String::new(),
        control_of: control_of.map(Into::into),
        facts: None,
    }
}

fn manifest(blocks: u32) -> RunManifest {
    let injection = FaultInjection {
        fault: FaultKind::Kill,
        victim: None,
        length: Nanos::SECOND,
        recovery_timeout: Nanos::SECOND,
        sessions: 1,
        rate: 10.0,
        share: None,
        block_bytes: 4096,
        file_bytes: 1 << 20,
        observers: Vec::new(),
        refused: [].into(),
    };
    RunManifest {
        format: FormatVersion::RUN,
        program: String::new(),
        id: "t".into(),
        began_at: String::new(),
        command: Vec::new(),
        seed: Seed(1),
        generator: String::new(),
        policy: plimsoll_core::comparison::VerdictPolicy::default(),
        machine: MachineFacts {
            host: String::new(),
            kernel: String::new(),
            cpu: String::new(),
            cpus: 1,
            ram_bytes: 1,
            cpu_governor: None,
        },
        versions: [].into(),
        arms: vec![arm("a", None), arm("b", None), arm("a again", Some("a"))],
        entries: vec![WorkloadEntry {
            label: LABEL.into(),
            scale: 1.0,
            length: Nanos::SECOND,
            workload: Workload::Blocks(BlockIoWorkload::random("w", 0.5)),
            condition: None,
            load_line: None,
            client: None,
            load_loop: None,
            inject: Some(injection),
        }],
        blocks,
        balanced: false,
        ladder: Vec::new(),
        load_nodes: Vec::new(),
        conditioning: None,
        trial_bytes: None,
        campaign: None,
        design: None,
    }
}

/// A trial whose longest outage of writes was so long, and whether it had ended.
fn trial(arm: &str, block: u32, outage_ms: u64, is_open: bool) -> TrialResult {
    let stall = OutageStall {
        from: Nanos(0),
        length: Nanos(outage_ms * 1_000_000),
        is_open,
    };
    let session = SessionOutage {
        session: "s".into(),
        write_stall: Some(stall),
        read_stall: None,
        errors: 0,
        unended: 0,
        first_error_after: None,
        reopened: 0,
        survived: true,
    };
    let outage = OutageResult {
        fault_at: Some(Nanos(0)),
        fault_is_known: true,
        sessions: vec![session],
        unavailable: None,
        brown_out: BrownOut::Unknown,
        backlog_p99: None,
        resolution: Nanos(50_000_000),
    };
    TrialResult {
        // The load was ended by the healing: it is not compared, what was felt is.
        interrupted: true,
        fault: Some(FaultResult {
            fault: FaultKind::Kill,
            victim: "n1".into(),
            done_within: Nanos(0),
            lasted: Nanos(0),
            healed_in: Nanos(0),
            healed_under_load: true,
            crashed: 0,
            ceiling: None,
            observers: Vec::new(),
            events: Vec::new(),
            outage,
            check: LedgerCheck::default(),
        }),
        ..TrialResult::of(TrialId {
            block,
            place: 0,
            arm: arm.into(),
            workload: LABEL.into(),
        })
    }
}

fn rows(trials: &[TrialResult]) -> Vec<ArmComparison> {
    let all = plimsoll_stats::compare_all(&manifest(5), trials);
    let outages = all.into_iter();
    outages
        .filter(|row| row.metric == ComparisonMetric::WriteOutage)
        .collect()
}

#[test]
fn a_system_that_stands_still_ten_times_as_long_is_different() {
    let mut trials = Vec::new();
    for (block, ms) in [(0, 1000), (1, 1100), (2, 900), (3, 1050), (4, 980)] {
        trials.push(trial("a", block, ms, false));
        trials.push(trial("b", block, 10 * ms + 37, false));
        trials.push(trial("a again", block, ms + 20, false));
    }
    let rows = rows(&trials);
    assert_eq!(rows.len(), 2);
    let b = rows.iter().find(|row| row.arm == "b").unwrap();
    assert_eq!(b.workload, "w under kill: write outage");
    assert_eq!(b.verdict, ComparisonVerdict::Different);
    let ratio = b.ratio.unwrap();
    assert!(ratio.low > 9.5 && ratio.high < 10.5, "{ratio:?}");
    let control = rows.iter().find(|row| row.is_control).unwrap();
    assert_eq!(control.verdict, ComparisonVerdict::Equivalent);
}

#[test]
fn a_system_that_cannot_have_the_fault_has_no_part_in_its_comparison() {
    let mut manifest = manifest(5);
    let inject = manifest.entries[0].inject.as_mut().unwrap();
    inject.refused.insert("a".into(), "no netem".into());
    assert_eq!(manifest.planned_trials(), 10);
    let trials: Vec<_> = (0..5).map(|n| trial("b", n, 1000, false)).collect();
    let rows = plimsoll_stats::compare_all(&manifest, &trials);
    assert!(rows.iter().all(|row| row.base == "b"), "{rows:?}");
}

#[test]
fn what_nobody_could_feel_counts_as_the_least_that_can_be_told_and_what_did_not_end_is_said() {
    let mut trials = Vec::new();
    for block in 0..5 {
        trials.push(trial("a", block, 0, false));
        trials.push(trial("b", block, 900 + u64::from(block), block == 3));
        trials.push(trial("a again", block, 0, false));
    }
    let rows = rows(&trials);
    let b = rows.iter().find(|row| row.arm == "b").unwrap();
    assert!((b.base_value - 50e6).abs() < 1.0, "{b:?}");
    assert_eq!(b.verdict, ComparisonVerdict::Different);
    assert!(b.reason.contains("1 of them had not ended"), "{}", b.reason);
}
