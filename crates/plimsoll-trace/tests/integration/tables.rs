// SPDX-License-Identifier: Apache-2.0
//! Tables held against the programs that write them: pandas, pyarrow, polars and DuckDB.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use plimsoll_core::op::OpKind;
use plimsoll_trace::requests::TraceRequest;
use plimsoll_trace::{DiskMetric, OpenRecording, TraceError};

/// Runs a script of `tests/tables/`, which writes into a new folder; `None`, said loudly, without Python.
#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who writes the files"
)]
fn written_by(script: &str) -> Option<tempfile::TempDir> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("../../target/python/bin/python");
    if !python.exists() {
        let why = "target/python is missing; scripts/setup.sh test makes it";
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: tables of other programs are not read: {why}"
        );
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let ran = std::process::Command::new(python)
        .arg(root.join("tests/tables").join(script))
        .arg(folder.path())
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    Some(folder)
}

fn files(folder: &Path) -> Vec<(String, PathBuf)> {
    let found = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let named = found.map(|path| {
        (
            path.file_name().unwrap().to_string_lossy().into_owned(),
            path,
        )
    });
    let mut files: Vec<_> = named.collect();
    files.sort();
    files
}

#[test]
fn requests_that_other_programs_wrote_are_read_to_the_last_digit() {
    let Some(folder) = written_by("requests.py") else {
        return;
    };
    let mut read = 0;
    for (name, path) in files(folder.path()) {
        if name.starts_with("refused") {
            let error = all(&path).unwrap_err().to_string();
            let codec = error.contains("BROTLI") && error.contains("snappy, gzip, zstd");
            assert!(
                codec || error.contains("column bytes holds decimals"),
                "{name}: {error}"
            );
            continue;
        }
        let (found, origin, told) = all(&path).unwrap();
        assert_eq!(origin, Some(1_700_000_000_000_000_000), "{name}");
        assert_eq!(found.len(), 10_000, "{name}");
        for (n, request) in (0_u64..).zip(&found) {
            assert_eq!(request.at.0, n * 2_000_000, "{name}");
            let took = (!n.is_multiple_of(7)).then_some(n % 50_000);
            assert_eq!(request.took.map(|took| took.0), took, "{name}");
            let kind = if n.is_multiple_of(3) {
                OpKind::Write
            } else {
                OpKind::Read
            };
            assert_eq!(request.kind, kind, "{name}");
            assert_eq!(u64::from(request.target), n % 2, "{name}");
            assert_eq!(request.offset, (n * 7919) << 12, "{name}");
            let bytes = if n.is_multiple_of(5) { 65_536 } else { 4096 };
            assert_eq!(request.bytes, bytes, "{name}");
        }
        let has_zone = !name.contains("naive");
        assert_eq!(told.is_empty(), has_zone, "{name}: {told:?}");
        read += 1;
    }
    assert_eq!(read, 27);
}

#[test]
fn counters_that_other_programs_wrote_are_what_pandas_counts() {
    let Some(folder) = written_by("counters.py") else {
        return;
    };
    let expected = std::fs::read(folder.path().join("expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_slice(&expected).unwrap();
    let figures = [
        ("reads_completed_total", DiskMetric::Reads),
        ("written_bytes_total", DiskMetric::WriteBytes),
        ("read_time_seconds_total", DiskMetric::ReadTime),
    ];
    let mut read = 0;
    for (name, path) in files(folder.path()) {
        if name == "expected.json" {
            continue;
        }
        if name.starts_with("bomb") {
            let error = plimsoll_trace::open(&path)
                .map_err(|error| error.to_string())
                .unwrap_err();
            assert!(error.contains("32 MiB"), "{name}: {error}");
            assert!(path.metadata().unwrap().len() < 8 << 20, "{name}");
            continue;
        }
        let counters = match plimsoll_trace::open(&path) {
            Ok(OpenRecording::Counters(counters)) => counters,
            other => panic!("{name}: {other:?}"),
        };
        let span = counters.times().span();
        assert_eq!(counters.warnings(), [] as [&str; 0], "{name}");
        assert_eq!(span.from_unix_ns, 1_795_220_132_250_000_000, "{name}");
        assert_eq!(
            span.to_unix_ns - span.from_unix_ns,
            998_000_000_000,
            "{name}"
        );
        for disk in ["sda", "nvme0n1"] {
            let series = counters.series(disk, &span).unwrap();
            for (figure, metric) in figures {
                let found = series.averages(metric).unwrap();
                let expect = expected[disk][figure].as_f64().unwrap();
                let off = (found.whole - expect).abs() / expect;
                assert!(
                    off < 1e-9,
                    "{name}: {disk}: {figure}: {} for {expect}",
                    found.whole
                );
                assert_eq!(found.count, 499, "{name}: {disk}: {figure}");
            }
        }
        read += 1;
    }
    assert_eq!(read, 26);
}

type Read = (Vec<TraceRequest>, Option<u64>, Vec<String>);

fn all(path: &Path) -> Result<Read, TraceError> {
    let OpenRecording::Requests(mut requests) = plimsoll_trace::open(path)? else {
        panic!("{} is of counters", path.display());
    };
    let mut found = Vec::new();
    while requests.read(&mut found)? {}
    Ok((
        found,
        requests.origin_unix_ns(),
        requests.warnings().to_vec(),
    ))
}
