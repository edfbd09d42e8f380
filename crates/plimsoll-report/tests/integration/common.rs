// SPDX-License-Identifier: Apache-2.0
//! Made-up results whose every number follows from a seed, for tests and for a sample page.

use std::collections::BTreeMap;

use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::event::{
    ArmEntry, GeneratorStats, KindStats, OpStats, RunFileDigest, RunFolderContents, RunManifest,
    RunWarning, TrialId, TrialInterval, TrialResult, TrialTimeBin, WorkloadEntry,
};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::model::{
    DirectionLoad, FidelityCheck, ModelEnvelope, ModelFacts, ModelInterval, ModelProvenance,
    WorkloadModel,
};
use plimsoll_core::num::{round_u64, saturating_u32};
use plimsoll_core::op::OpKind;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::target::{MachineFacts, TargetFacts};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::files::{FileLoop, FileLoopOp, FileOp, FileSet, FileSizeDistribution};
use plimsoll_core::workload::{BlockIoWorkload, Workload};

/// How large the made-up run is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) arms: usize,
    pub(crate) workloads: usize,
    pub(crate) blocks: u32,
    pub(crate) seconds: u64,
    /// Factor on the operations per second.
    pub(crate) busy: f64,
}

const NAMES: [&str; 3] = ["local", "raid1", "nfs"];

fn arm(name: &str, description: &str, control_of: Option<&str>) -> ArmEntry {
    ArmEntry {
        name: name.into(),
        target: format!("/mnt/{name}"),
        description: description.into(),
        control_of: control_of.map(Into::into),
        facts: Some(TargetFacts {
            path: format!("/mnt/{name}"),
            mount_point: format!("/mnt/{name}"),
            mount_source: "/dev/vdb1".into(),
            file_system: "ext4".into(),
            mount_options: "rw,relatime".into(),
            device: "254:17".into(),
            size_bytes: 107_374_182_400,
            free_bytes: 98_784_247_808,
            direct_align_bytes: 512,
            ..TargetFacts::default()
        }),
    }
}

fn arms(n: usize) -> Vec<ArmEntry> {
    let made = [
        "plain ext4 on one disk",
        "ext4 on md raid1 of two disks",
        "nfs 4.2 over tcp",
    ];
    let mut arms: Vec<ArmEntry> = (0..n.max(1))
        .map(|i| match NAMES.get(i) {
            Some(name) => arm(name, made[i], None),
            None => arm(&format!("system {i}"), "another one", None),
        })
        .collect();
    if n > 1 {
        arms.insert(1, arm("local again", made[0], Some("local")));
    }
    arms
}

fn nas() -> WorkloadModel {
    let cell = ModelInterval {
        length: Nanos(15_000_000_000),
        read: DirectionLoad {
            ops: 1_275,
            bytes: 37_826_700,
        },
        write: DirectionLoad {
            ops: 320,
            bytes: 9_856_000,
        },
    };
    WorkloadModel {
        name: "nas".into(),
        source: ModelProvenance {
            recording: "nas-2026-03.0".into(),
            format: "PCP archive, version 2".into(),
            host: "nas".into(),
            disk: "sda".into(),
            from: "2026-03-02T00:00:00+01:00".into(),
            to: "2026-03-02T01:00:00+01:00".into(),
            intervals_dropped: 0,
            left_out: Vec::new(),
            changes: Vec::new(),
        },
        facts: ModelFacts::assumed(4 << 30),
        bursts: Vec::new(),
        phases: Vec::new(),
        fidelity: vec![
            FidelityCheck::relative("read operations per second", 85.0, 84.96, 0.02),
            FidelityCheck::relative("write bytes per second", 657_067.0, 659_114.0, 0.02),
            FidelityCheck {
                metric: "distance of the read rates (Kolmogorov–Smirnov)".into(),
                recorded: 0.0,
                submitted: 0.031,
                error: 0.031,
                gate: 0.05,
                copy: false,
            },
        ],
        verified: None,
        requests: None,
        envelope: ModelEnvelope::new(vec![cell; 240]).expect("an hour of cells"),
    }
}

/// As many threads, files and operations as varmail has.
pub(crate) fn varmail() -> FileLoop {
    let set = FileSet {
        prealloc: 0.8,
        ..FileSet::flat(
            "bigfileset",
            1_000,
            16_384,
            FileSizeDistribution::Gamma(1.5),
        )
    };
    FileLoop::of("varmail", set, 16, vec![FileLoopOp::from(FileOp::Stat); 13])
}

fn entries(size: Size) -> Vec<WorkloadEntry> {
    let entry = |label: &str, scale, workload| WorkloadEntry {
        label: label.into(),
        scale,
        length: Nanos(size.seconds * 1_000_000_000),
        workload,
        inject: None,
        condition: None,
        load_line: None,
        client: None,
        load_loop: None,
    };
    let mut all = vec![
        entry("nas ×40", 40.0, Workload::Model(Box::new(nas()))),
        entry("varmail", 1.0, Workload::Files(varmail())),
        entry(
            "randread",
            1.0,
            Workload::Blocks(BlockIoWorkload::random("randread", 1.0)),
        ),
    ];
    all.truncate(size.workloads);
    all
}

/// (kind, share of the operations, mean bytes, median ns) of a workload.
fn mix(workload: &Workload) -> Vec<(OpKind, f64, u64, f64)> {
    match workload {
        Workload::Model(_) => {
            vec![
                (OpKind::Read, 0.8, 29_696, 210e3),
                (OpKind::Write, 0.2, 30_720, 620e3),
            ]
        }
        Workload::Blocks(_) => vec![(OpKind::Read, 1.0, 4_096, 2.4e6)],
        Workload::Files(_) => vec![
            (OpKind::Append, 0.16, 8_192, 22e3),
            (OpKind::Fsync, 0.16, 0, 4.1e6),
            (OpKind::Open, 0.16, 0, 9e3),
            (OpKind::Create, 0.08, 0, 61e3),
            (OpKind::Close, 0.22, 0, 3e3),
            (OpKind::ReadWhole, 0.16, 16_384, 31e3),
            (OpKind::Delete, 0.06, 0, 88e3),
        ],
        Workload::Series(_) | Workload::Commands(_) => unreachable!("not in these tests"),
    }
}

/// Operations per second at a slowness of 1.
fn rate(workload: &Workload) -> f64 {
    match workload {
        Workload::Model(_) => 700.0,
        Workload::Blocks(_) => 1_400.0,
        Workload::Files(_) => 900.0,
        Workload::Series(_) | Workload::Commands(_) => unreachable!("not in these tests"),
    }
}

fn second(rng: &mut Rng, workload: &Workload, slow: f64, at: u64, busy: f64) -> TrialInterval {
    let mut stats = OpStats::default();
    // An open loop keeps its rate however slow the system is; a stall every 20 s shows in both.
    let open = matches!(workload, Workload::Model(_));
    let pace = if open { 1.0 } else { 1.0 / slow };
    let stall = if at % 20 == 13 { 1.9 } else { 1.0 };
    let pace = if open { pace } else { pace / stall };
    for (kind, share, bytes, median) in mix(workload) {
        let n = round_u64(rate(workload) * busy * pace * share * (1.0 + 0.04 * rng.normal()));
        let mut one = KindStats::default();
        for _ in 0..n {
            let tail = if rng.below(200) == 0 { 9.0 } else { 1.0 };
            let service = median * slow * stall * tail * (0.45 * rng.normal()).exp();
            let lag = 4_000.0 * (0.6 * rng.normal()).exp() * if open { 1.0 } else { 0.05 };
            one.bytes += bytes;
            one.service.record(Nanos(round_u64(service)));
            one.lag.record(Nanos(round_u64(lag)));
            one.response.record(Nanos(round_u64(service + lag)));
        }
        stats.0.insert(kind, one);
    }
    TrialInterval {
        start: Nanos(at * 1_000_000_000),
        length: Nanos::SECOND,
        stats,
    }
}

/// How much slower than the base an arm is under a workload.
fn slowness(arm: &str, workload: &Workload) -> f64 {
    match (arm, workload) {
        ("raid1", Workload::Model(_)) => 1.32,
        ("raid1", _) => 1.09,
        ("nfs", Workload::Model(_)) => 3.1,
        ("nfs", Workload::Files(_)) => 1.75,
        ("nfs", Workload::Blocks(_)) => 1.01,
        _ => 1.0,
    }
}

/// Results of a whole run.
pub(crate) fn results(size: Size) -> RunFolderContents {
    let arms = arms(size.arms);
    let entries = entries(size);
    let seed = Seed(20_260_401);
    let mut rng = Rng::new(seed);
    let (mut trials, mut intervals) = (Vec::new(), BTreeMap::new());
    for block in 0..size.blocks {
        let mut order: Vec<(usize, usize)> = (0..entries.len())
            .flat_map(|e| (0..arms.len()).map(move |a| (e, a)))
            .collect();
        rng.shuffle(&mut order);
        let drift = 1.0 + 0.05 * rng.normal();
        for (e, a) in order {
            let (entry, arm) = (&entries[e], &arms[a]);
            let noise = if matches!(entry.workload, Workload::Blocks(_)) {
                0.006
            } else {
                0.03
            };
            let slow = slowness(&arm.name, &entry.workload) * drift * (noise * rng.normal()).exp();
            let lines: Vec<TrialInterval> = (0..size.seconds)
                .map(|s| second(&mut rng, &entry.workload, slow, s, size.busy))
                .collect();
            let place = saturating_u32(trials.len() as u64);
            trials.push(trial(place, block, arm, entry, &lines));
            intervals.insert(place, lines.iter().map(TrialTimeBin::from).collect());
        }
    }
    let manifest = manifest(arms, entries, size.blocks, seed);
    RunFolderContents {
        comparisons: plimsoll_stats::compare_all(&manifest, &trials),
        manifest,
        trials,
        intervals,
        warnings: vec![RunWarning {
            about: "nfs".into(),
            text: "the export is async: a crash of the server loses acknowledged writes".into(),
        }],
        complete: true,
        files: vec![RunFileDigest {
            name: "events.jsonl".into(),
            bytes: 123_456,
            sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".into(),
        }],
    }
}

fn trial(
    place: u32,
    block: u32,
    arm: &ArmEntry,
    entry: &WorkloadEntry,
    lines: &[TrialInterval],
) -> TrialResult {
    let mut stats = OpStats::default();
    lines.iter().for_each(|i| stats.merge(&i.stats));
    let open = matches!(entry.workload, Workload::Model(_));
    let fidelity = if open {
        let read = if arm.name == "nfs" && block == 2 {
            80.9
        } else {
            84.9
        };
        vec![
            FidelityCheck::relative("read operations per second", 85.0, read, 0.02),
            FidelityCheck::relative("write bytes per second", 657_067.0, 655_010.0, 0.02),
        ]
    } else {
        Vec::new()
    };
    TrialResult {
        length: entry.length,
        prepare: Nanos(1_250_000_000),
        generator: GeneratorStats {
            engine: "io_uring".into(),
            user_cpu_ns: stats.ops() * 3_100,
            system_cpu_ns: stats.ops() * 6_800,
            ..GeneratorStats::default()
        },
        stats,
        fidelity,
        ..TrialResult::of(TrialId {
            block,
            place,
            arm: arm.name.clone(),
            workload: entry.label.clone(),
        })
    }
}

fn manifest(
    arms: Vec<ArmEntry>,
    entries: Vec<WorkloadEntry>,
    blocks: u32,
    seed: Seed,
) -> RunManifest {
    RunManifest {
        format: FormatVersion::RUN,
        program: "0.1.0".into(),
        id: "2026-04-01T09-12-44-k3f9".into(),
        began_at: "2026-04-01T09:12:44+02:00".into(),
        command: vec![
            "plimsoll".into(),
            "compare".into(),
            "local".into(),
            "raid1".into(),
        ],
        seed,
        generator: plimsoll_core::rng::GENERATOR.into(),
        policy: VerdictPolicy::default(),
        machine: MachineFacts {
            host: "bench1".into(),
            kernel: "6.12.9".into(),
            cpu: "AMD EPYC 7543".into(),
            cpus: 8,
            ram_bytes: 16 << 30,
            cpu_governor: Some("performance".into()),
        },
        versions: BTreeMap::from([
            ("mdadm".into(), "4.3".into()),
            ("nfs-utils".into(), "2.6.4".into()),
        ]),
        arms,
        entries,
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
