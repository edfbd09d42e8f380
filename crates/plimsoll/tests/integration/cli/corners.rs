// SPDX-License-Identifier: Apache-2.0
//! From counters to a model to trials: what is declared, what is derived, what is played at the
//! corners.

use crate::support::{Lab, text};
use plimsoll_core::recording::{DeviceCounterSample, DiskCounters};
use plimsoll_trace::pcp::{PcpWriter, PcpWriterOptions};

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

/// The workloads of the trials of a comparison of two simulated disks, in their order.
fn played(lab: &Lab, more: &[&str]) -> Vec<String> {
    let mut args = vec![
        "compare", "sim", "sim", "--for", "1s", "--seed", "5", "--json",
    ];
    args.extend(more);
    let json = lab.json(&args);
    let trials = json["trials"].as_array().expect("a list");
    let workload =
        |trial: &serde_json::Value| trial["workload"].as_str().expect("a label").to_owned();
    trials.iter().map(workload).collect()
}

fn count(played: &[String], label: &str) -> usize {
    played.iter().filter(|found| *found == label).count()
}

#[test]
fn models_are_played_at_their_corners_in_few_blocks_and_not_where_nothing_is_assumed() {
    let lab = Lab::new();
    recording(&lab);
    let fitted = lab.run(&["fit", "rec", "--disk", "sda", "-o", "m.toml"]);
    assert!(fitted.status.success(), "{}", text(&fitted.stderr));
    let ends = [
        "-w", "m.toml@2", "--blocks", "4", "--bounds", "ends", "-o", "ends",
    ];
    let ends = played(&lab, &ends);
    assert_eq!(count(&ends, "m ×2"), 12);
    assert_eq!(count(&ends, "m (even, sequential) ×2"), 9);
    assert_eq!(count(&ends, "m (bursty, random) ×2"), 9);
    assert_eq!(ends.len(), 30);
    let shown = text(&lab.run(&["report", "ends"]).stdout);
    for part in ["Sensitivity bounds", "bursty, random"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let all = played(
        &lab,
        &[
            "-w", "m.toml", "--blocks", "1", "--bounds", "all", "-o", "all",
        ],
    );
    assert_eq!(all.len(), 15);
    // Only when they are asked for.
    let plain = played(&lab, &["-w", "m.toml", "--blocks", "1", "-o", "plain"]);
    assert_eq!(plain, ["m", "m", "m"]);
    let plan = lab.run(&[
        "compare",
        "sim",
        "null",
        "-w",
        "m.toml",
        "--blocks",
        "5",
        "--bounds",
        "ends",
        "--dry-run",
    ]);
    assert!(
        text(&plan.stdout).contains("run 33 trials"),
        "{}",
        text(&plan.stdout)
    );
}

#[test]
fn what_is_declared_is_played_and_has_no_corner_and_contradictions_are_refused() {
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
    let args = [
        "-w", "m.toml", "--blocks", "1", "--bounds", "ends", "-o", "declared",
    ];
    let played = played(&lab, &args);
    // Nobody can declare how sizes lie within their mean: that is all that is left open.
    let mut kinds = played.clone();
    kinds.dedup();
    assert_eq!(kinds, ["m", "m (sizes alike)", "m (sizes mixed)"]);
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
