// SPDX-License-Identifier: Apache-2.0
//! Secondary metrics, both loops, and two runs at two times: verdicts on campaigns whose truth is known.

use super::noise::{NoiseLaw, SimulatedCampaign};
use plimsoll_core::comparison::{
    ArmComparison, ComparisonMetric, ComparisonVerdict, LoadLoopKind, StoppingRule, VerdictPolicy,
};
use plimsoll_core::event::{
    ArmEntry, LoadLoopEntry, RunManifest, TrialId, TrialResult, WorkerResult, WorkloadEntry,
};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::op::{OpKind, OpSampleBatch};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::run_diff::{RunDiffBasis, RunDiffRow};
use plimsoll_core::target::MachineFacts;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::BlockIoWorkload;
use plimsoll_core::workload::loops::LoadLoopPace;
use plimsoll_stats::arrangement::BlockLogValues;
use plimsoll_stats::contrast::ContrastQuestion;
use plimsoll_stats::scatter::scatter_p_value;
use plimsoll_stats::{compare_loops, compare_runs, compare_secondary};

const QUESTION: ContrastQuestion = ContrastQuestion {
    confidence: 0.95,
    margin: 0.05,
    stopping: StoppingRule::Fixed,
    family: 1,
};

/// Share of campaigns in which base (two entries) and arm count as scattering differently.
fn alarms(law: NoiseLaw, blocks: usize, campaigns: usize, seed: u64) -> f64 {
    let mut rng = Rng::new(Seed(seed).derive("scatter", blocks as u64));
    let campaign = SimulatedCampaign {
        law,
        blocks,
        arms: 1,
        has_control: true,
        effect: 0.3,
    };
    let is_alarm = |_: &usize| {
        let arms = campaign.draw(&mut rng);
        let log = |arm: usize, block: usize| arms[arm].values[block].map_or(0.0, f64::ln);
        let block = |block: usize| BlockLogValues {
            base: vec![log(0, block), log(2, block)],
            arm: vec![log(1, block)],
        };
        let blocks: Vec<BlockLogValues> = (0..blocks).map(block).collect();
        scatter_p_value(&blocks, &QUESTION).is_some_and(|p_value| p_value <= 0.05)
    };
    (0..campaigns).filter(is_alarm).count() as f64 / campaigns as f64
}

/// Tolerance of an alarm rate of one in twenty over `campaigns` campaigns: three standard errors.
fn slack(campaigns: usize) -> f64 {
    3.0 * (0.05 * 0.95 / campaigns as f64).sqrt()
}

#[test]
fn equal_variation_is_called_different_in_one_campaign_of_twenty_at_most() {
    let campaigns = 400;
    for law in NoiseLaw::ALL {
        for blocks in [5, 10, 20] {
            let rate = alarms(law, blocks, campaigns, 7);
            println!("{law:?} {blocks}: {rate}");
            assert!(rate <= 0.05 + slack(campaigns), "{law:?} {blocks}: {rate}");
        }
    }
}

#[test]
fn twice_the_variation_is_found_more_often_the_more_blocks_there_are() {
    let rate = |blocks| alarms(NoiseLaw::NoisyArm, blocks, 200, 3);
    let (few, many) = (rate(8), rate(30));
    println!("twice the scatter is found at 8 blocks: {few}, at 30: {many}");
    assert!(many > 0.6 && many > few + 0.2, "{few} {many}");
}

const LABEL: &str = "w";

fn arm(name: &str, control_of: Option<&str>) -> ArmEntry {
    ArmEntry {
        name: name.into(),
        target: name.into(),
        description: String::new(),
        control_of: control_of.map(Into::into),
        facts: None,
    }
}

fn entry(label: &str, load_loop: Option<LoadLoopEntry>) -> WorkloadEntry {
    WorkloadEntry {
        label: label.into(),
        scale: 1.0,
        length: Nanos::SECOND,
        workload: Workload::Blocks(BlockIoWorkload::random("w", 0.5)),
        inject: None,
        condition: None,
        load_line: None,
        client: None,
        load_loop,
    }
}

fn manifest(blocks: u32, arms: Vec<ArmEntry>, entries: Vec<WorkloadEntry>) -> RunManifest {
    RunManifest {
        format: FormatVersion::RUN,
        program: String::new(),
        id: "t".into(),
        began_at: String::new(),
        command: Vec::new(),
        seed: Seed(1),
        generator: String::new(),
        policy: VerdictPolicy::default(),
        machine: MachineFacts {
            host: String::new(),
            kernel: String::new(),
            cpu: String::new(),
            cpus: 1,
            ram_bytes: 1,
            cpu_governor: None,
        },
        versions: [].into(),
        arms,
        entries,
        blocks,
        design: None,
        balanced: false,
        ladder: Vec::new(),
        load_nodes: Vec::new(),
        conditioning: None,
        trial_bytes: None,
        campaign: None,
    }
}

fn three() -> Vec<ArmEntry> {
    vec![arm("a", None), arm("b", None), arm("a again", Some("a"))]
}

/// A trial with `ops` operations, one in fifty of which takes `tail_ms` and the others 1 ms.
fn trial((label, arm, block): (&str, &str, u32), ops: u64, tail_ms: f64) -> TrialResult {
    let mut result = TrialResult::of(TrialId {
        block,
        place: 0,
        arm: arm.into(),
        workload: label.into(),
    });
    result.length = Nanos::SECOND;
    let stats = result.stats.0.entry(OpKind::Read).or_default();
    let slow = ops.div_ceil(50);
    for (ops, took_ms) in [(slow, tail_ms), (ops - slow, 1.0)] {
        stats.record_alike(&OpSampleBatch {
            ops,
            bytes: 4096 * ops,
            completed_at: Nanos::from_secs_f64(took_ms / 1_000.0),
            ..OpSampleBatch::NONE
        });
    }
    result
}

fn row(rows: &[ArmComparison], metric: ComparisonMetric) -> Option<&ArmComparison> {
    rows.iter().find(|row| row.metric == metric)
}

/// Fifteen blocks; the arm's tail is four times as long, its workers are served unevenly.
fn campaign(ops: u64) -> Vec<TrialResult> {
    let mut rng = Rng::new(Seed(4));
    let mut trials = Vec::new();
    for block in 0..15 {
        for name in ["a", "b", "a again"] {
            let is_arm = name == "b";
            let tail_ms = if is_arm { 80.0 } else { 20.0 } * (0.03 * rng.normal()).exp();
            let mut result = trial((LABEL, name, block), ops, tail_ms);
            let shares = if is_arm { [7, 1, 1, 1] } else { [4, 4, 4, 4] };
            result.workers = shares
                .map(|share| WorkerResult {
                    ops: share * 100 + rng.below(20),
                    ended: Nanos::SECOND,
                    ..WorkerResult::default()
                })
                .into();
            result.prepare = Nanos(Nanos::SECOND.0 + rng.below(10_000_000));
            result.generator.user_cpu_ns = 50_000_000 + rng.below(1_000_000);
            trials.push(result);
        }
    }
    trials
}

#[test]
fn what_else_differs_is_said_and_what_does_not_is_not() {
    let manifest = manifest(15, three(), vec![entry(LABEL, None)]);
    let rows = compare_secondary(&manifest, &campaign(1_000));
    assert!(rows.iter().all(|row| row.arm == "b" && !row.is_control));
    let p99 = row(&rows, ComparisonMetric::P99Response).unwrap();
    assert_eq!(p99.verdict, ComparisonVerdict::Different);
    assert!((p99.ratio.unwrap().estimate - 4.0).abs() < 0.3, "{p99:?}");
    let rare = row(&rows, ComparisonMetric::P999Response).unwrap();
    assert!(
        rare.ratio.is_none() && rare.reason.contains("needs 2995"),
        "{rare:?}"
    );
    let evenness = row(&rows, ComparisonMetric::ClientEvenness).unwrap();
    assert_eq!(evenness.verdict, ComparisonVerdict::Different);
    assert!(evenness.ratio.unwrap().estimate < 0.6 && evenness.base_value > 0.99);
    for metric in [
        ComparisonMetric::CpuPerOperation,
        ComparisonMetric::PreparationTime,
    ] {
        let row = row(&rows, metric).unwrap();
        assert_eq!(row.verdict, ComparisonVerdict::Equivalent, "{row:?}");
    }
    // Verdicts, and with them exit codes, rest on the one metric of the workload alone.
    let primary = plimsoll_stats::compare_all(&manifest, &campaign(1_000));
    let is_secondary = |row: &ArmComparison| ComparisonMetric::SECONDARY.contains(&row.metric);
    assert!(!primary.is_empty() && !primary.iter().any(is_secondary));
}

#[test]
fn what_cannot_be_measured_is_no_row_or_says_why() {
    let simulated = ArmEntry {
        target: "sim(flash)".into(),
        ..arm("b", None)
    };
    let arms = vec![arm("a", None), simulated, arm("a again", Some("a"))];
    let manifest = manifest(15, arms, vec![entry(LABEL, None)]);
    let mut trials = campaign(100);
    for trial in &mut trials {
        trial.workers.truncate(1);
        trial.prepare = Nanos(5_000_000);
    }
    let rows = compare_secondary(&manifest, &trials);
    for metric in [
        ComparisonMetric::CpuPerOperation,
        ComparisonMetric::PreparationTime,
        ComparisonMetric::ClientEvenness,
    ] {
        assert_eq!(row(&rows, metric), None, "{metric:?}");
    }
    let p99 = row(&rows, ComparisonMetric::P99Response).unwrap();
    assert!(p99.reason.contains("needs 299"), "{p99:?}");
    assert_eq!(p99.verdict, ComparisonVerdict::Inconclusive);
}

#[test]
fn a_family_of_secondary_metrics_has_one_false_alarm_in_twenty_campaigns() {
    let manifest = manifest(8, three(), vec![entry(LABEL, None)]);
    let mut rng = Rng::new(Seed(9));
    let campaigns = 150;
    let is_alarm = |_: &usize| {
        let mut trials = Vec::new();
        for block in 0..8 {
            for name in ["a", "b", "a again"] {
                let mut result =
                    trial((LABEL, name, block), 400, 20.0 * (0.1 * rng.normal()).exp());
                let prepared = (0.1 * rng.normal()).exp();
                result.prepare = Nanos::from_secs_f64(prepared);
                result.generator.user_cpu_ns = 40_000_000 + rng.below(10_000_000);
                trials.push(result);
            }
        }
        let rows = compare_secondary(&manifest, &trials);
        assert!(
            rows.iter().filter(|row| row.ratio.is_some()).count() >= 3,
            "{rows:?}"
        );
        rows.iter()
            .any(|row| row.verdict == ComparisonVerdict::Different)
    };
    let rate = (0..campaigns).filter(is_alarm).count() as f64 / campaigns as f64;
    println!("any false alarm: {rate}");
    assert!(rate <= 0.05 + slack(campaigns), "{rate}");
}

#[test]
fn both_loops_are_held_against_each_other_on_each_system() {
    let pace = LoadLoopPace {
        per_s: 500.0,
        clients: None,
        think: Nanos(0),
    };
    let twin = |kind| LoadLoopEntry {
        kind,
        of: LABEL.into(),
        paces: [("a".into(), pace), ("b".into(), pace)].into(),
    };
    let entries = vec![
        entry("closed", Some(twin(LoadLoopKind::Closed))),
        entry("open", Some(twin(LoadLoopKind::Open))),
    ];
    let manifest = manifest(8, three(), entries);
    let mut rng = Rng::new(Seed(6));
    let mut trials = Vec::new();
    for block in 0..8 {
        for name in ["a", "b", "a again"] {
            let mut one = |label, tail_ms: f64| {
                let tail_ms = tail_ms * (0.03 * rng.normal()).exp();
                trials.push(trial((label, name, block), 500, tail_ms));
            };
            one("closed", 20.0);
            one("open", if name == "b" { 20.0 } else { 60.0 });
        }
    }
    let rows = compare_loops(&manifest, &trials);
    let [a, b] = &rows[..] else {
        panic!("{rows:?}")
    };
    assert_eq!(
        (a.arm.as_str(), a.verdict),
        ("a", ComparisonVerdict::Different)
    );
    assert!((a.factor.unwrap().estimate - 3.0).abs() < 0.2, "{a:?}");
    assert_ne!(b.verdict, ComparisonVerdict::Different, "{b:?}");
    assert!((b.factor.unwrap().estimate - 1.0).abs() < 0.1, "{b:?}");
    // Open twins have other loads on each arm, so arms are not compared in them.
    let rows = plimsoll_stats::compare_all(&manifest, &trials);
    assert!(rows.iter().all(|row| row.workload == "closed"), "{rows:?}");
}

/// A run in which the arm takes `arm_times` the time of the base, on a machine that is slower by `slow`.
fn run(seed: u64, slow: f64, arm_times: f64, names: &[&str]) -> Vec<TrialResult> {
    let mut rng = Rng::new(Seed(seed));
    let mut trials = Vec::new();
    for block in 0..8 {
        for name in names {
            let times = if *name == "b" { arm_times } else { 1.0 };
            let rate = 100_000.0 / (slow * times) * (0.02 * rng.normal()).exp();
            let mut result = trial((LABEL, name, block), 1, 1.0);
            result.length = Nanos::from_secs_f64(1.0 / rate);
            trials.push(result);
        }
    }
    trials
}

fn of<'a>(rows: &'a [RunDiffRow], arm: &str) -> &'a RunDiffRow {
    rows.iter().find(|row| row.arm == arm).expect("a row")
}

#[test]
fn between_runs_the_base_of_the_blocks_cancels_what_met_both() {
    let policy = VerdictPolicy::default();
    let names = ["a", "b", "a again"];
    let manifest = manifest(8, three(), vec![entry(LABEL, None)]);
    let before = run(1, 1.0, 1.0, &names);
    let compared =
        |after: &[TrialResult]| compare_runs((&manifest, &before), (&manifest, after), &policy);
    // The machine became slower by half: the arm did not change against its base.
    let rows = compared(&run(2, 1.5, 1.0, &names));
    let arm = of(&rows, "b");
    assert_eq!(arm.basis, RunDiffBasis::BaseOfBlocks("a".into()));
    assert_ne!(arm.verdict, ComparisonVerdict::Different, "{arm:?}");
    let base = of(&rows, "a");
    assert_eq!(base.basis, RunDiffBasis::TimeBetween);
    assert_eq!(base.verdict, ComparisonVerdict::Different, "{base:?}");
    assert!(base.reason.contains("not in the interval") && !base.is_better());
    // The arm alone became slower, and the other way round.
    let rows = compared(&run(3, 1.0, 1.3, &names));
    let arm = of(&rows, "b");
    assert_eq!(arm.verdict, ComparisonVerdict::Different);
    assert!(!arm.is_better() && (arm.ratio.unwrap().estimate - 1.0 / 1.3).abs() < 0.05);
    assert_ne!(of(&rows, "a").verdict, ComparisonVerdict::Different);
}

#[test]
fn without_a_base_and_controls_there_is_no_verdict_between_runs() {
    let policy = VerdictPolicy::default();
    let manifest = manifest(8, vec![arm("a", None)], vec![entry(LABEL, None)]);
    let (before, after) = (run(1, 1.0, 1.0, &["a"]), run(2, 2.0, 1.0, &["a"]));
    let rows = compare_runs((&manifest, &before), (&manifest, &after), &policy);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!(row.verdict, ComparisonVerdict::Inconclusive);
    assert!((row.ratio.unwrap().estimate - 0.5).abs() < 0.05, "{row:?}");
    assert!(row.reason.contains("A/A control"), "{row:?}");
    let one_block: Vec<TrialResult> = before[..1].to_vec();
    let rows = compare_runs((&manifest, &one_block), (&manifest, &after), &policy);
    assert!(rows[0].ratio.is_none() && rows[0].reason.contains("two blocks"));
}
