// SPDX-License-Identifier: Apache-2.0
//! Packed requests make a simulated device answer as the recorded ones do.
//!
//! The traces may not be distributed with this program. Set `PLIMSOLL_TEST_DATA` to a folder that
//! holds `traces/`; without it the test on them says that it was skipped, and one on a trace that is
//! made here is left.

#[path = "../../../../bench/programs/src/bin/fidelity/play.rs"]
mod play;

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use play::{FidelityTrace, ResponseTimes};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_engine::SimDeviceSpec;
use plimsoll_fit::TraceFitOptions;

const DEFAULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

/// Largest offset of mean, median and 99th percentile, in the median of the seeds.
const GATES: [f64; 3] = [0.02, 0.02, 0.05];

fn figures(responses: &ResponseTimes) -> [f64; 3] {
    let quantile = |q| responses.quantile(q);
    [responses.mean(), quantile(0.5), quantile(0.99)]
}

/// Holds the packed requests of a trace against the recorded ones.
fn holds(path: &Path) {
    let trace = FidelityTrace::open(path).unwrap();
    let recorded = trace.exactly().unwrap();
    let packed = trace.requests(TraceFitOptions::default()).unwrap();
    let device: SimDeviceSpec = "sim(flash,erase_every=16M)".parse().unwrap();
    for factor in [0.5, 1.0, 2.0] {
        let mut off = [const { Vec::new() }; 3];
        for seed in 1..=5 {
            let play = |model| figures(&ResponseTimes::of(model, factor, &device, Seed(seed)));
            let (recorded, packed) = (play(&recorded), play(&packed));
            for (n, off) in off.iter_mut().enumerate() {
                off.push(packed[n] / recorded[n] - 1.0);
            }
        }
        for ((off, gate), name) in off.iter_mut().zip(GATES).zip(["mean", "p50", "p99"]) {
            off.sort_by(f64::total_cmp);
            let text = format!("{} ×{factor}: {name} off by {off:?}", trace.name);
            let _ = writeln!(std::io::stderr(), "{text}");
            assert!(off[2].abs() <= gate, "{text}");
        }
    }
}

#[test]
fn flash_answers_packed_samples_as_the_recorded_ones() {
    let root = std::env::var_os("PLIMSOLL_TEST_DATA").map_or(PathBuf::from(DEFAULT), PathBuf::from);
    for file in [
        "vscsi/cloudPhysicsIO.vscsi",
        "msr/msr-cambridge1-sample.csv",
        "systor/systor17-traces-sample.csv.gz",
        "mqsim/tpcc-small.trace",
    ] {
        let path = root.join("traces").join(file);
        if !path.is_file() {
            let text = format!(
                "SKIPPED: {} is absent; set PLIMSOLL_TEST_DATA",
                path.display()
            );
            let _ = writeln!(std::io::stderr(), "{text}");
            continue;
        }
        holds(&path);
    }
}

/// Bursts of reads and writes, 20,000 in all, as MQSim has its input: ns, device, sector, sectors, 1
/// for a read.
fn bursts() -> String {
    let mut rng = Rng::new(Seed(11));
    let mut text = String::new();
    let mut at = 0;
    for request in 0..20_000 {
        at += match request % 50 {
            0 => 5_000_000 + rng.below(20_000_000),
            _ => 2_000 + rng.below(60_000),
        };
        let sector = rng.below(1 << 16) * 8;
        let sectors = 8 << rng.below(4);
        let is_read = u32::from(rng.below(3) > 0);
        writeln!(text, "{at} 0 {sector} {sectors} {is_read}").unwrap();
    }
    text
}

#[test]
fn flash_answers_packed_bursts_as_the_recorded_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursts.trace");
    std::fs::write(&path, bursts()).unwrap();
    holds(&path);
}

#[test]
fn a_model_of_counters_keeps_what_was_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bursts.trace");
    std::fs::write(&path, bursts()).unwrap();
    let trace = FidelityTrace::open(&path).unwrap();
    let interval = plimsoll_core::units::Nanos::SECOND;
    let model = trace.counters(interval).unwrap();
    let cells = model.envelope.cells();
    assert_eq!(
        cells.len() as u64,
        trace.survey.length.0.div_ceil(interval.0)
    );
    let ops: u64 = cells
        .iter()
        .map(|cell| cell.read.ops + cell.write.ops)
        .sum();
    assert_eq!(ops, 20_000);
    assert!(model.requests.is_none());
}
