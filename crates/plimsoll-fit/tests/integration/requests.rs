// SPDX-License-Identifier: Apache-2.0
//! Readers of requests held against what is known of real traces.
//!
//! The traces may not be distributed with this program. Set `PLIMSOLL_TEST_DATA` to a folder that
//! holds `traces/`; without it every test here says that it was skipped.

use std::io::{Read, Write};
use std::path::PathBuf;

use plimsoll_core::op::OpKind;
use plimsoll_fit::TraceFitOptions;
use plimsoll_trace::TraceSource;
use plimsoll_trace::requests::{self, TraceRequest, TraceSorter};

const DEFAULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");

fn path(file: &str) -> PathBuf {
    let root = std::env::var_os("PLIMSOLL_TEST_DATA").map_or(PathBuf::from(DEFAULT), PathBuf::from);
    root.join("traces").join(file)
}

/// A trace with all its requests; `None`, said loudly, when it is not there.
fn whole(file: &str) -> Option<(Box<dyn TraceSource>, Vec<TraceRequest>)> {
    let path = path(file);
    // A base name is no file itself.
    if !path.parent().is_some_and(std::path::Path::exists) {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: {} is absent; set PLIMSOLL_TEST_DATA",
            path.display()
        );
        return None;
    }
    let mut reader = requests::open(&path).unwrap();
    let mut found = Vec::new();
    while reader.read(&mut found).unwrap() {}
    Some((reader, found))
}

fn count(requests: &[TraceRequest], kind: OpKind) -> usize {
    requests.iter().filter(|r| r.kind == kind).count()
}

#[test]
fn the_cloudphysics_sample_has_the_commands_that_are_known_of_it() {
    let Some((reader, found)) = whole("vscsi/cloudPhysicsIO.vscsi") else {
        return;
    };
    assert_eq!(reader.about().format, "vscsiStats command trace, version 1");
    assert_eq!(reader.damage(), None);
    assert_eq!(count(&found, OpKind::Read), 46_974);
    assert_eq!(count(&found, OpKind::Write), 66_898);
    assert!(found.is_sorted_by_key(|request| request.at));
    let hours = found.last().unwrap().at.as_secs_f64() / 3600.0;
    assert!((hours - 2.0).abs() < 0.01, "{hours}");
}

#[test]
fn the_msr_sample_has_the_rows_that_are_known_of_it() {
    let Some((reader, found)) = whole("msr/msr-cambridge1-sample.csv") else {
        return;
    };
    assert_eq!(reader.about().format, "MSR Cambridge CSV");
    assert_eq!(found.len(), 1000);
    let writes = count(&found, OpKind::Write);
    assert!((480..500).contains(&writes), "{writes}");
    assert_eq!(reader.targets(), ["hm,0"]);
    assert!(found.iter().all(|request| request.took.is_some()));
}

/// The model of a trace's busiest device, its gates passed or not, and that device's share of the
/// requests.
fn fitted(file: &str) -> Option<(plimsoll_fit::FitResult, f64)> {
    drop(whole(file)?);
    let path = path(file);
    let survey = plimsoll_fit::survey(&mut *requests::open(&path).unwrap()).unwrap();
    let devices = survey.devices.iter();
    let all = devices.clone().map(|device| device.requests).sum::<u64>();
    let device = devices.max_by_key(|device| device.requests).unwrap();
    let part = device.requests as f64 / all as f64;
    let mut reader = TraceSorter::new(requests::open(&path).unwrap());
    let fitted = plimsoll_fit::fit_requests(
        &mut reader,
        &survey,
        &device.name,
        "m",
        TraceFitOptions::default(),
    );
    Some((fitted.unwrap(), part))
}

/// The length of a trace that may be compressed with gzip.
fn decompressed_bytes(path: &std::path::Path) -> usize {
    let bytes = std::fs::read(path).unwrap();
    let mut text = Vec::new();
    match flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut text) {
        Ok(length) => length,
        Err(_) => bytes.len(),
    }
}

#[test]
fn models_of_the_samples_pass_their_gates_and_are_small() {
    // Largest share of the trace's bytes that a model may take: 6 % where requests come in
    // streams; the rows of the other samples are text.
    for (file, share_max) in [
        ("vscsi/cloudPhysicsIO.vscsi", 0.06),
        ("msr/msr-cambridge1-sample.csv", 0.20),
        ("systor/systor17-traces-sample.csv.gz", 0.20),
        ("mqsim/tpcc-small.trace", 0.20),
    ] {
        let Some((fitted, part)) = fitted(file) else {
            return;
        };
        for line in &fitted.model.fidelity {
            assert!(line.passed(), "{file}: {line:?}");
            let (metric, error) = (&line.metric, line.error);
            let _ = writeln!(std::io::stderr(), "{file}: {metric}: {error:.5}");
        }
        let packed = fitted.model.requests.unwrap();
        let raw = decompressed_bytes(&path(file)) as f64 * part;
        let share = packed.packed_bytes() as f64 / raw;
        let _ = writeln!(std::io::stderr(), "{file}: {share:.4} of {raw} bytes");
        assert!(share <= share_max, "{file}: {share}");
    }
}

#[test]
fn the_blktrace_sample_has_the_requests_it_was_made_of() {
    for name in ["msrhm", "msrhm.blktrace.1"] {
        let Some((reader, found)) = whole(&format!("blktrace_bin/{name}")) else {
            return;
        };
        assert_eq!(reader.about().format, "blktrace, version 7");
        assert_eq!(found.len(), 1000, "{name}");
        assert!(found.is_sorted_by_key(|request| request.at));
        assert!(found.iter().all(|request| request.took.is_some()));
        assert_eq!((reader.lost(), reader.damage()), (0, None));
        let Some((_, source)) = whole("msr/msr-cambridge1-sample.csv") else {
            return;
        };
        for kind in [OpKind::Read, OpKind::Write] {
            assert_eq!(count(&found, kind), count(&source, kind));
        }
    }
}

#[test]
fn the_blkparse_sample_is_of_two_layers_and_nearly_every_request_ends() {
    let Some((reader, found)) = whole("blktrace_text/nvme0n1.blkparse.txt") else {
        return;
    };
    assert_eq!(reader.about().format, "blkparse text");
    assert!(found.len() > 100, "{}", found.len());
    assert!(found.is_sorted_by_key(|request| request.at));
    let ended = found
        .iter()
        .filter(|request| request.took.is_some())
        .count();
    assert!(
        ended * 100 >= found.len() * 95,
        "{ended} of {}",
        found.len()
    );
    assert!(count(&found, OpKind::Fsync) > 0);
}

#[test]
fn the_mqsim_sample_has_the_rows_that_are_known_of_it() {
    let Some((reader, found)) = whole("mqsim/tpcc-small.trace") else {
        return;
    };
    assert_eq!(reader.about().format, "MQSim trace");
    assert_eq!(found.len(), 6_999);
    let seconds = found.last().unwrap().at.as_secs_f64();
    assert!((0.13..0.15).contains(&seconds), "{seconds}");
}
