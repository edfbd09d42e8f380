// SPDX-License-Identifier: Apache-2.0
//! Job files written for fio, run by the installed fio: it must do what the workload says.

use std::io::Write;
use std::path::Path;

use plimsoll_classics::fio;
use plimsoll_core::model::{
    DirectionLoad, ModelEnvelope, ModelFacts, ModelInterval, ModelProvenance, WorkloadModel,
};
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::op::OpKind;
use plimsoll_core::op::TraceAccess;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    ArrivalProcess, BlockIoExtent, BlockIoFileCreation, BlockIoGroup, BlockIoMixEntry,
    BlockIoOpKind, BlockIoPacing, BlockIoStopCondition, BlockIoWorkload,
};

#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who starts fio"
)]
fn run(directory: &Path, text: &str, extra: &[&str]) -> Option<serde_json::Value> {
    // Some containers forbid io_uring; which engine it is changes nothing that is tested here.
    let text = text.replace("ioengine=io_uring", "ioengine=libaio");
    let file = directory.join("w.fio");
    std::fs::write(&file, &text).expect("a writable directory");
    let output = std::process::Command::new("fio")
        .arg("--output-format=json")
        .args(extra)
        .arg(&file)
        .current_dir(directory)
        .output();
    let Ok(output) = output else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: fio is not installed");
        return None;
    };
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{out}\n{text}");
    let start = out.find('{').expect("fio prints JSON");
    Some(serde_json::from_str(&out[start..]).expect("fio prints JSON"))
}

fn exported(group: BlockIoGroup, length: Nanos) -> String {
    let blocks = BlockIoWorkload {
        name: "w".into(),
        groups: vec![group],
    };
    let file = fio::export(&Workload::Blocks(blocks), length);
    file.expect("fio can do it").text
}

fn small() -> BlockIoGroup {
    BlockIoGroup {
        direct: false,
        extent: BlockIoExtent {
            bytes: 4 << 20,
            ..BlockIoExtent::default()
        },
        ..BlockIoGroup::default()
    }
}

fn turn(kind: BlockIoOpKind, bytes: u32, weight: f64) -> BlockIoMixEntry {
    BlockIoMixEntry {
        kind,
        bytes,
        weight,
    }
}

/// Operations and bytes of reads and writes over all jobs.
fn totals(result: &serde_json::Value) -> [(f64, f64); 2] {
    ["read", "write"].map(|direction| {
        let jobs = result["jobs"].as_array().expect("fio lists jobs");
        let sum = |name: &str| {
            let values = jobs
                .iter()
                .map(|job| job[direction][name].as_f64().expect("a number"));
            values.sum::<f64>()
        };
        (sum("total_ios"), sum("io_bytes"))
    })
}

fn near(what: &str, got: f64, want: f64, share: f64) {
    assert!(
        (got - want).abs() <= want * share,
        "{what}: {got}, wanted {want}"
    );
}

#[test]
fn closed_loops_keep_their_mix_and_sizes() {
    let directory = tempfile::tempdir().unwrap();
    let group = BlockIoGroup {
        mix: vec![
            turn(BlockIoOpKind::Read, 4096, 45.0),
            turn(BlockIoOpKind::Read, 16_384, 15.0),
            turn(BlockIoOpKind::Write, 8192, 40.0),
        ],
        work: BlockIoStopCondition::Time,
        ..small()
    };
    let mut length = Nanos(500_000_000);
    // Shares scatter where little was done: a busy machine is given longer.
    let [(reads, read_bytes), (writes, write_bytes)] = loop {
        let text = exported(group.clone(), length);
        let Some(result) = run(directory.path(), &text, &[]) else {
            return;
        };
        let done = totals(&result);
        if done[0].0 + done[1].0 >= 20_000.0 || length > Nanos(30 * Nanos::SECOND.0) {
            break done;
        }
        length = Nanos(length.0 * 8);
    };
    near("share of reads", reads / (reads + writes), 0.6, 0.02);
    near(
        "bytes of a read",
        read_bytes / reads,
        4096.0 * 0.75 + 16_384.0 * 0.25,
        0.02,
    );
    near("bytes of a write", write_bytes / writes, 8192.0, 1e-9);
}

/// A busy machine makes a run longer, never shorter: what must always hold is that fio is not too
/// fast, and that each size and direction has its share.
#[test]
fn open_loops_keep_their_shares_and_are_not_too_fast() {
    open_loops(0.9);
}

#[test]
#[ignore = "a measurement: needs a quiet machine"]
fn open_loops_keep_their_rates() {
    open_loops(0.02);
}

/// Runs open loops; their rate may be lower by `slower_max` of itself.
fn open_loops(slower_max: f64) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for pace in [
        ArrivalProcess::Paced { per_s: 4_000.0 },
        ArrivalProcess::Poisson { per_s: 4_000.0 },
    ] {
        let group = BlockIoGroup {
            mix: vec![
                turn(BlockIoOpKind::Read, 4096, 0.5),
                turn(BlockIoOpKind::Read, 16_384, 0.25),
                turn(BlockIoOpKind::Write, 8192, 0.25),
            ],
            pace: BlockIoPacing::Open(pace.clone()),
            work: BlockIoStopCondition::Each(12_000),
            depth: 4,
            ..small()
        };
        let text = exported(group, Nanos::SECOND);
        let Some(result) = run(directory.path(), &text, &[]) else {
            return;
        };
        let jobs = result["jobs"].as_array().expect("fio lists jobs");
        let per_s: f64 = jobs
            .iter()
            .flat_map(|job| {
                ["read", "write"]
                    .map(|direction| job[direction]["iops"].as_f64().expect("a number"))
            })
            .sum();
        // 12 000 Poisson arrivals scatter by 1 %; three standard deviations, and fio's own error.
        let scatter = if matches!(pace, ArrivalProcess::Poisson { .. }) {
            0.03
        } else {
            0.0
        };
        let allowed = 4_000.0 * (1.0 - slower_max - scatter)..4_000.0 * (1.02 + scatter);
        assert!(
            allowed.contains(&per_s),
            "{per_s} per second under {pace:?}"
        );
        let [(reads, read_bytes), (writes, write_bytes)] = totals(&result);
        near("share of reads", reads / (reads + writes), 0.75, 0.02);
        near("bytes of a read", read_bytes / reads, 8192.0, 0.02);
        near("bytes of a write", write_bytes / writes, 8192.0, 1e-9);
    }
}

#[test]
fn a_model_keeps_its_mean_sizes_and_is_not_too_fast() {
    model(0.9);
}

#[test]
#[ignore = "a measurement: needs a quiet machine"]
fn a_model_keeps_its_mean_rate() {
    model(0.02);
}

/// Runs a model of two levels; its rate may be lower than their mean by `slower_max` of that.
fn model(slower_max: f64) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let load = |ops: u64, bytes: u64| DirectionLoad {
        ops,
        bytes: ops * bytes,
    };
    let cell = |factor: u64| ModelInterval {
        length: Nanos(10_000_000_000),
        read: load(20_000 * factor, 6_000),
        write: load(10_000 * factor, 16_384),
    };
    let model = WorkloadModel {
        name: "m".into(),
        source: ModelProvenance {
            recording: "made up".into(),
            format: "test".into(),
            host: String::new(),
            disk: String::new(),
            from: String::new(),
            to: String::new(),
            intervals_dropped: 0,
            left_out: Vec::new(),
            changes: Vec::new(),
        },
        facts: ModelFacts::assumed(4 << 20),
        bursts: Vec::new(),
        phases: Vec::new(),
        fidelity: Vec::new(),
        verified: None,
        requests: None,
        envelope: ModelEnvelope::new(vec![cell(1), cell(3)]).expect("two cells"),
    };
    let file = fio::export(&Workload::Model(Box::new(model)), Nanos(1_500_000_000))
        .expect("fio can do it");
    assert!(file.losses.iter().any(|loss| loss.contains("mean rate")));
    let text = file.text.replace("direct=1", "direct=0");
    let Some(result) = run(directory.path(), &text, &[]) else {
        return;
    };
    // The mean of 2000 and 6000 reads per second, of 1000 and 3000 writes.
    let [(reads, read_bytes), (writes, write_bytes)] = totals(&result);
    let allowed = (1.0 - slower_max)..=1.02;
    for share in [reads / 6_000.0, writes / 3_000.0] {
        assert!(allowed.contains(&share), "{reads} {writes}");
    }
    near("bytes of a read", read_bytes / reads, 6_000.0, 0.02);
    near("bytes of a write", write_bytes / writes, 16_384.0, 1e-9);
}

#[test]
fn offsets_go_where_they_should() {
    let directory = tempfile::tempdir().unwrap();
    let cases: [(OffsetPattern, u64, &[u64]); 3] = [
        (OffsetPattern::Sequential, 1, &[0, 4096, 8192]),
        (
            OffsetPattern::Strided {
                stride_bytes: 12_288,
            },
            3,
            &[0, 12_288, 24_576],
        ),
        (OffsetPattern::Runs { blocks: 4 }, 1, &[]),
    ];
    for (offsets, step, first) in cases {
        let group = BlockIoGroup {
            offsets: offsets.clone(),
            work: BlockIoStopCondition::Each(64),
            ..small()
        };
        let text = exported(group, Nanos::SECOND);
        let log = directory.path().join("log");
        let argument = format!("--write_iolog={}", log.display());
        // fio appends to a log that is there.
        let _ = std::fs::remove_file(&log);
        let text = text.replace(
            "[io]\n",
            &format!("[io]\n{}\n", argument.trim_start_matches("--")),
        );
        if run(directory.path(), &text, &[]).is_none() {
            return;
        }
        let Workload::Blocks(blocks) =
            fio::read_log("log", &std::fs::read_to_string(&log).unwrap()).unwrap()
        else {
            panic!("a log is block I/O");
        };
        let BlockIoPacing::Open(ArrivalProcess::Trace(trace)) = &blocks.groups[0].pace else {
            panic!("a log is a trace");
        };
        let places: Vec<u64> = trace.iter().map(|op| op.offset).collect();
        assert_eq!(places.len(), 64, "{offsets:?}");
        assert!(places.starts_with(first), "{offsets:?}: {places:?}");
        let steps = places
            .windows(2)
            .filter(|pair| pair[1] == pair[0] + step * 4096)
            .count();
        // Runs of four blocks: three steps in each of sixteen, and rarely one between two.
        let wanted = if first.is_empty() { 48..=52 } else { 63..=63 };
        assert!(wanted.contains(&steps), "{offsets:?}: {steps} steps");
    }
}

#[test]
fn a_log_that_is_written_is_replayed() {
    let directory = tempfile::tempdir().unwrap();
    let op = |at, kind, offset, bytes| TraceAccess {
        at: Nanos(at),
        kind,
        offset,
        bytes,
    };
    let trace = [
        op(0, OpKind::Read, 0, 4096),
        op(2_000_000, OpKind::Write, 8192, 8192),
        op(3_000_000, OpKind::Read, 65_536, 16_384),
    ];
    let log = fio::write_log(&trace).unwrap();
    std::fs::write(directory.path().join("data"), vec![7; 1 << 20]).unwrap();
    std::fs::write(directory.path().join("trace.log"), log).unwrap();
    let job = "[replay]\nread_iolog=trace.log\nfilename=data\nioengine=psync\n";
    let Some(result) = run(directory.path(), job, &[]) else {
        return;
    };
    assert_eq!(totals(&result), [(2.0, 20_480.0), (1.0, 8192.0)]);
}

/// The number of a file that only writes is what fio makes it, not what was there before.
#[test]
fn a_file_that_grows_is_made_by_the_job() {
    let directory = tempfile::tempdir().unwrap();
    let group = BlockIoGroup {
        mix: vec![BlockIoMixEntry::of(BlockIoOpKind::Write, 65_536)],
        offsets: OffsetPattern::Sequential,
        work: BlockIoStopCondition::Pass,
        workers: 2,
        extent: BlockIoExtent {
            bytes: 1 << 20,
            shared: false,
            made: BlockIoFileCreation::During,
            ..BlockIoExtent::default()
        },
        ..small()
    };
    if run(directory.path(), &exported(group, Nanos::SECOND), &[]).is_none() {
        return;
    }
    for name in ["data.0", "data.1"] {
        let length = std::fs::metadata(directory.path().join(name))
            .unwrap()
            .len();
        assert_eq!(length, 1 << 20, "{name}");
    }
}
