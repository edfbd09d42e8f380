// SPDX-License-Identifier: Apache-2.0
//! Made-up results of workloads that have phases: a series of our own, and programs that were run.

use std::collections::BTreeMap;

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::{
    GeneratorStats, KindStats, OpStats, PhaseResult, RunFolderContents, TrialResult, WorkerResult,
};
use plimsoll_core::num::{ratio, round_u64};
use plimsoll_core::op::OpKind;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::blocks::{
    BlockIoFinalOp, BlockIoGroup, BlockIoMixEntry, BlockIoOpKind, BlockIoStopCondition,
    BlockIoWorkload,
};
use plimsoll_core::workload::commands::{
    CommandOutputFormat, CommandTransfer, CommandWorkload, WorkloadCommand,
};
use plimsoll_core::workload::series::{PhaseSeries, PhaseSpec, PhaseWorkload};
use plimsoll_core::workload::{Workload, files::FileLoop};

use crate::common::{Size, results, varmail};

const WRITTEN: u64 = 256 << 20;

/// Two arms and a control, three blocks: small enough to be read through.
const SIZE: Size = Size {
    arms: 2,
    workloads: 1,
    blocks: 3,
    seconds: 1,
    busy: 0.01,
};

/// Results of a series of two phases.
pub(crate) fn of_phases() -> RunFolderContents {
    let phases = vec![
        phase("write", write(), ComparisonMetric::BytesPerSecond),
        phase(
            "files",
            PhaseWorkload::Files(varmail()),
            ComparisonMetric::OpsPerSecond,
        ),
    ];
    let series = Workload::Series(PhaseSeries {
        name: "write and files".into(),
        classic: None,
        phases,
    });
    made(series, "sync / sync, one thread per loop", &|rng, slow| {
        vec![written(rng, slow), files(rng, slow)]
    })
}

/// Results of two programs: of one only the time is known, of the other also what it moved.
pub(crate) fn of_programs() -> RunFolderContents {
    let command = |name: &str, moves| WorkloadCommand {
        name: name.into(),
        argv: vec![
            "cp".into(),
            "-r".into(),
            "{tmp}/<tree>".into(),
            "{dir}".into(),
        ],
        output: CommandOutputFormat::Time,
        moves,
    };
    let programs = Workload::Commands(CommandWorkload {
        name: "programs".into(),
        prepare: Vec::new(),
        phases: vec![
            command("unpack", None),
            command("copy", Some(CommandTransfer::To(WRITTEN))),
        ],
        finish: Vec::new(),
        data_bytes: WRITTEN,
    });
    made(programs, "the original program", &|rng, slow| {
        let mut copy = written(rng, slow);
        copy.name = "copy".into();
        copy.workers.clear();
        // A program does not tell of its operations.
        for stats in copy.stats.0.values_mut() {
            *stats = KindStats {
                bytes: stats.bytes,
                ..KindStats::default()
            };
        }
        vec![unpacked(rng, slow), copy]
    })
}

/// The results of [`SIZE`] with another workload, whose phases `play` makes up.
fn made(
    workload: Workload,
    engine: &str,
    play: &dyn Fn(&mut Rng, f64) -> Vec<PhaseResult>,
) -> RunFolderContents {
    let mut results = results(SIZE);
    let label = workload.name().to_owned();
    let entry = &mut results.manifest.entries[0];
    (entry.label, entry.workload) = (label.clone(), workload);
    let mut rng = Rng::new(Seed(7));
    for trial in &mut results.trials {
        let slow = if trial.trial.arm == "raid1" { 1.2 } else { 1.0 };
        trial.trial.workload.clone_from(&label);
        replay(trial, engine, play(&mut rng, slow));
    }
    results.intervals = BTreeMap::new();
    results.comparisons = plimsoll_stats::compare_all(&results.manifest, &results.trials);
    results
}

fn replay(trial: &mut TrialResult, engine: &str, phases: Vec<PhaseResult>) {
    let mut stats = OpStats::default();
    phases.iter().for_each(|phase| stats.merge(&phase.stats));
    trial.length = Nanos(phases.iter().map(|phase| phase.wall.0).sum());
    trial.stats = stats;
    trial.fidelity.clear();
    trial.generator = GeneratorStats {
        engine: engine.into(),
        user_cpu_ns: phases.iter().map(|phase| phase.user_cpu_ns).sum(),
        system_cpu_ns: phases.iter().map(|phase| phase.system_cpu_ns).sum(),
        ..GeneratorStats::default()
    };
    trial.phases = phases;
}

fn phase(name: &str, body: PhaseWorkload, metric: ComparisonMetric) -> PhaseSpec {
    PhaseSpec {
        name: name.into(),
        body,
        metric,
        stonewall: false,
        limit: None,
        cold: false,
    }
}

fn write() -> PhaseWorkload {
    let mut group = BlockIoGroup {
        workers: 2,
        mix: vec![BlockIoMixEntry::of(BlockIoOpKind::Write, 1 << 20)],
        finish: vec![BlockIoFinalOp::Fsync],
        work: BlockIoStopCondition::Pass,
        ..BlockIoGroup::default()
    };
    group.extent.bytes = WRITTEN;
    PhaseWorkload::Blocks(BlockIoWorkload {
        name: "write".into(),
        groups: vec![group],
    })
}

/// A time around `seconds`.
fn about(rng: &mut Rng, seconds: f64) -> Nanos {
    Nanos::from_secs_f64(seconds * (0.01 * rng.normal()).exp())
}

fn stats(rng: &mut Rng, kind: OpKind, ops: u64, bytes: u64, median_ns: f64) -> OpStats {
    let mut one = KindStats {
        bytes,
        ..KindStats::default()
    };
    for _ in 0..ops {
        let service = Nanos(round_u64(median_ns * (0.3 * rng.normal()).exp()));
        one.service.record(service);
        one.lag.record(Nanos(900));
        one.response.record(Nanos(service.0 + 900));
    }
    OpStats(BTreeMap::from([(kind, one)]))
}

/// Two workers, the second slower.
fn written(rng: &mut Rng, slow: f64) -> PhaseResult {
    let (first, wall) = (about(rng, 1.0 * slow), about(rng, 1.3 * slow));
    let worker = |ended| WorkerResult {
        began: Nanos(0),
        ended,
        ops: 128,
        bytes: WRITTEN / 2,
        longest_wait: Nanos(ended.0 / 16),
    };
    PhaseResult {
        name: "write".into(),
        metric: ComparisonMetric::BytesPerSecond,
        value: ratio(WRITTEN as f64, wall.as_secs_f64()),
        wall,
        stats: stats(rng, OpKind::Write, 256, WRITTEN, 9e6 * slow),
        user_cpu_ns: 40_000_000,
        system_cpu_ns: 210_000_000,
        workers: vec![worker(first), worker(wall)],
    }
}

fn files(rng: &mut Rng, slow: f64) -> PhaseResult {
    let FileLoop { groups, .. } = varmail();
    let (ops, threads) = (1_600, u64::from(groups[0].threads));
    let wall = about(rng, 2.0 * slow);
    let worker = WorkerResult {
        began: Nanos(0),
        ended: wall,
        ops: ops / threads,
        bytes: 0,
        longest_wait: Nanos(0),
    };
    PhaseResult {
        name: "files".into(),
        metric: ComparisonMetric::OpsPerSecond,
        value: ratio(ops as f64, wall.as_secs_f64()),
        wall,
        stats: stats(rng, OpKind::Stat, ops, 0, 15e3),
        user_cpu_ns: 12_000_000,
        system_cpu_ns: 95_000_000,
        workers: (0..threads).map(|_| worker).collect(),
    }
}

fn unpacked(rng: &mut Rng, slow: f64) -> PhaseResult {
    let wall = about(rng, 3.0 * slow);
    PhaseResult {
        name: "unpack".into(),
        metric: ComparisonMetric::WallTime,
        value: wall.0 as f64,
        wall,
        stats: OpStats::default(),
        user_cpu_ns: 900_000_000,
        system_cpu_ns: 1_100_000_000,
        workers: Vec::new(),
    }
}
