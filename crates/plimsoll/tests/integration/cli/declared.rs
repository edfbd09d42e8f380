// SPDX-License-Identifier: Apache-2.0
//! From counters to a model to trials: what is declared, what is derived, and old runs of models at their
//! sensitivity bounds.

use crate::support::{Lab, text};
use plimsoll_core::recording::{DeviceCounterSample, DiskCounters};
use plimsoll_trace::pcp::{PcpWriter, PcpWriterOptions};
use std::path::Path;

const START_NS: u64 = 1_700_000_000_000_000_000;

/// Ten minutes of 10 s: 200 reads of 8 KiB and 100 writes of 4 KiB a second, two in flight.
fn recording(lab: &Lab) {
    let heading = PcpWriterOptions {
        host: "recorded".into(),
        zone: "UTC".into(),
        zone_name: String::new(),
        process: 1,
        start_unix_ns: START_NS,
        volume_bytes: 1 << 20,
    };
    let mut writer = PcpWriter::create(&lab.path("rec"), heading).expect("a writable directory");
    for n in 0..=60 {
        let counters = DiskCounters {
            reads: 2_000 * n,
            read_sectors: 2_000 * 16 * n,
            read_ms: 15_000 * n,
            writes: 1_000 * n,
            write_sectors: 1_000 * 8 * n,
            write_ms: 5_000 * n,
            queue_ms: 20_000 * n,
            ..DiskCounters::default()
        };
        let at_unix_ns = START_NS + 1 + n * 10_000_000_000;
        writer
            .record(at_unix_ns, &[DeviceCounterSample::disk("sda", counters)])
            .expect("it is later than the last");
    }
    writer.finish().expect("a writable directory");
}

/// Trials by an older version of a model at its bounds are left out of the report, which says so.
#[test]
fn an_old_run_of_a_model_at_its_bounds_is_reported_without_them() {
    let lab = Lab::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plimsoll-archive/tests/fixtures");
    std::fs::create_dir(lab.path("old")).unwrap();
    for file in ["manifest.json", "events.jsonl"] {
        std::fs::copy(
            fixtures.join("bounds").join(file),
            lab.path("old").join(file),
        )
        .unwrap();
    }
    let report = lab.run(&["report", "old"]);
    let shown = text(&report.stdout);
    assert_eq!(
        report.status.code(),
        Some(0),
        "{shown}{}",
        text(&report.stderr)
    );
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let told = "4 trials of models at their sensitivity bounds are left out";
    assert!(
        words.contains(told) && !words.contains("bursty, random"),
        "{shown}"
    );
    let trials = lab.json(&["report", "old", "--json"]);
    assert_eq!(trials["trials"].as_array().map(Vec::len), Some(2));
}

#[test]
fn what_is_declared_is_played_and_contradictions_are_refused() {
    let lab = Lab::new();
    recording(&lab);
    let declared = "write-once,sequential,file-size=150M,threads=4,even";
    let mut fit = vec![
        "fit",
        "rec",
        "--disk",
        "sda",
        "-o",
        "m.toml",
        "--declare",
        declared,
    ];
    let fitted = text(&lab.run(&fit).stdout);
    for part in [
        "sequential (declared)",
        "150 MiB (declared)",
        "1.56 times (declared)",
        "4: never more requests in flight (declared)",
        // 20,000 ms of requests in 10 s.
        "2.00 (derived)",
    ] {
        assert!(fitted.contains(part), "{part}: {fitted}");
    }
    // A thread sends one request after another: with two, a multiple of the load waits for them on a
    // disk that could serve more at once, and that is no fault of the generator.
    fit[7] = "random,bursty";
    fit[5] = "free.toml";
    assert_eq!(lab.run(&fit).status.code(), Some(0));
    fit[7] = "random,bursty,threads=2";
    fit[5] = "two.toml";
    assert_eq!(lab.run(&fit).status.code(), Some(0));
    let p99 = |model: &str| {
        let load = format!("{model}.toml@30");
        let args = [
            "run", &load, "sim", "--for", "2s", "--seed", "5", "--json", "-o", model,
        ];
        lab.json(&args)["trials"][0]["response_ns"]["p99"].as_u64()
    };
    let (two, free) = (p99("two"), p99("free"));
    assert!(two > free, "{two:?} {free:?}");
    let report = text(&lab.run(&["report", "two"]).stdout);
    assert!(!report.contains("check the generator"), "{report}");
    fit[5] = "other.toml";
    for (facts, words) in [
        ("threads=1", "2.0 requests were in flight"),
        ("sequential,random", "one excludes the other"),
        ("raid", "write-once"),
        ("threads=many", "1 to 65536"),
    ] {
        fit[7] = facts;
        let output = lab.run(&fit);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(words), "{facts}: {errors}");
    }
    fit[7] = "file-size=1G";
    fit.extend(["--working-set", "2G"]);
    let both = text(&lab.run(&fit).stderr);
    assert!(both.contains("leave --working-set out"), "{both}");
}
