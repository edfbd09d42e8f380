// SPDX-License-Identifier: Apache-2.0
//! From counters to a model to trials: what is declared, what is played at the corners.

use crate::support::{Lab, text};
use plimsoll_trace::pcp::{DiskCounters, Heading, Writer};

const START_NS: u64 = 1_700_000_000_000_000_000;

/// Ten minutes of 10 s: 200 reads of 8 KiB and 100 writes of 4 KiB a second, two in flight.
fn recording(lab: &Lab) {
    let heading = Heading {
        host: "recorded".into(),
        zone: "UTC".into(),
        zone_name: String::new(),
        process: 1,
        start_unix_ns: START_NS,
        volume_bytes: 1 << 20,
    };
    let mut writer = Writer::create(&lab.path("rec"), heading).expect("an archive is begun");
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
            .record(at_unix_ns, &[("sda", counters)])
            .expect("a sample is kept");
    }
    writer.finish().expect("the archive is ended");
}

/// The workloads of the trials of a comparison of two simulated disks, in their order.
fn played(lab: &Lab, more: &[&str]) -> Vec<String> {
    let mut args = vec![
        "compare", "sim", "sim", "--for", "1s", "--seed", "5", "--json",
    ];
    args.extend(more);
    let json = lab.json(&args);
    let trials = json["trials"].as_array().expect("trials");
    let workload =
        |trial: &serde_json::Value| trial["workload"].as_str().expect("a name").to_owned();
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
    let ends = played(&lab, &["-w", "m.toml@2", "--blocks", "4", "-o", "ends"]);
    assert_eq!(count(&ends, "m ×2"), 12);
    assert_eq!(count(&ends, "m (even, sequential) ×2"), 9);
    assert_eq!(count(&ends, "m (bursty, random) ×2"), 9);
    assert_eq!(ends.len(), 30);
    let shown = text(&lab.run(&["report", "ends"]).stdout);
    for part in [
        "at the corners of what the recording cannot tell",
        "bursty, random",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let all = played(
        &lab,
        &[
            "-w",
            "m.toml",
            "--blocks",
            "1",
            "--corners",
            "all",
            "-o",
            "all",
        ],
    );
    assert_eq!(all.len(), 15);
    let off = played(
        &lab,
        &[
            "-w",
            "m.toml",
            "--blocks",
            "1",
            "--corners",
            "off",
            "-o",
            "off",
        ],
    );
    assert_eq!(off, ["m", "m", "m"]);
    let plan = lab.run(&[
        "compare",
        "sim",
        "null",
        "-w",
        "m.toml",
        "--blocks",
        "5",
        "--dry-run",
    ]);
    assert!(
        text(&plan.stdout).contains("run 33 trials"),
        "{}",
        text(&plan.stdout)
    );
}
