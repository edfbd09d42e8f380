// SPDX-License-Identifier: Apache-2.0
//! Several uses of one storage at once, and `plimsoll check` on a directory.

use crate::support::{Lab, program, skipped, text};
use serde_json::Value;

/// Two uses of two queues of known service times: with one server and S for a request, 1 / 2S commits a
/// second of 100, and less than 1 / S operations a second of 150.
const SEVERAL: &str = r#"
format = "1.3"
seed = 3
control = false
[load_line]
requirement = ["postgres-wal", "vm-boot"]
from = 0.25
to = 8
width = 0.2
[trial]
for = "30s"
[[target]]
target = "sim(queue,servers=1,service=0.8ms,rate=100000M)"
[[target]]
target = "sim(queue,servers=1,service=11ms,rate=100000M)"
"#;

fn words(output: &[u8]) -> String {
    let text = text(output);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn several_uses_are_judged_each_by_its_own_limits() {
    let lab = Lab::new();
    std::fs::write(lab.path("several.toml"), SEVERAL).unwrap();
    let output = lab.run(&["run", "several.toml", "-o", "r", "--json"]);
    // One system does not fit.
    assert_eq!(output.status.code(), Some(10), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = json["load_lines"]["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 4);
    for line in lines {
        let is_fast = line["arm"].as_str().unwrap().contains("0.8ms");
        let name = line["requirement"]["name"].as_str().unwrap();
        let expect = match (is_fast, name) {
            (true, _) => "fits",
            (false, _) => "does not fit",
        };
        assert_eq!(line["fit"], expect, "{line}");
        let own = match name {
            "postgres-wal" => "fdatasync p99 < 10.0 ms",
            _ => "mean < 30.0 ms",
        };
        assert_eq!(line["limits"], serde_json::json!([own]), "{name}");
        let [low, high] = [0, 2].map(|at: usize| line["sustained"][at].as_f64().unwrap());
        if is_fast && name == "postgres-wal" {
            assert!(low <= 6.25 && 6.25 <= high, "{low} to {high}");
        }
    }
    let told = words(&lab.run(&["report", "r"]).stdout);
    for part in [
        "service=0.8ms,rate=100000M) fits postgres-wal (6",
        "service=11ms,rate=100000M) does not fit postgres-wal (below 0.25× what it needs) and vm-boot",
        "4 of 4 uses decided with 95 % confidence",
        "it is not known whether a disk was flushed",
        "use postgres-wal (the write-ahead log",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // A commit waits for the sync before it, which is the device's time.
    assert!(
        !told.contains("Consistent with late load generator"),
        "{told}"
    );
}

#[test]
fn a_directory_is_checked_in_its_time_and_nothing_is_left() {
    let lab = Lab::new();
    let place = lab.directory("place");
    let words = ["check", &place, "--use", "postgres-wal", "--use", "etcd"];
    let output = lab.run(&[&words[..], &["--budget", "25s", "-o", "r"]].concat());
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    // On a busy machine nothing may be told.
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 11)), "{told}{errors}");
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
    // Other tests use the same disk, and are spared.
    if errors.contains("ended early") {
        return;
    }
    for part in [
        "A synced write: ",
        "postgres-wal",
        "etcd",
        "Report: r/report.html",
    ] {
        assert!(told.contains(part), "{part}: {told}{errors}");
    }
    let facts = errors.lines().find(|line| line.starts_with(&place));
    assert!(
        facts.is_some_and(|line| line.contains(" free)")),
        "{errors}"
    );
    assert!(lab.path("r/report.html").is_file());
}

#[test]
fn a_path_that_cannot_be_checked_is_refused_before_anything_is_made() {
    let lab = Lab::new();
    std::fs::write(lab.path("file"), "data").unwrap();
    for (words, why) in [
        (&["check", "none"][..], "it is no directory"),
        (&["check", "file"], "it is no directory"),
        (&["check", ".", "--use", "etc"], "did you mean 'etcd'?"),
    ] {
        let output = lab.run(words);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(why), "{words:?}: {told}");
    }
    let looked = lab.run(&["check", "--read-only", "."]);
    let told = text(&looked.stdout);
    assert!(looked.status.success(), "{}", text(&looked.stderr));
    assert!(
        told.contains(" free") && told.lines().count() == 1,
        "{told}"
    );
    assert!(!lab.path("plimsoll-results").exists());
}

#[test]
fn a_tenth_of_the_file_system_stays_free() {
    const TEST: &str = "room that check leaves";
    let lab = Lab::new();
    let small = lab.directory("small");
    let options = ["-t", "tmpfs", "-o", "size=1250m", "plimsoll-test", &small];
    if program("mount", &options).is_none() {
        return skipped(TEST, "this is not root");
    }
    let refused = lab.run(&["check", &small, "--use", "mail", "--dry-run"]);
    // The same data without that rule.
    let taken = lab.run(&["fit-for", "mail", &small, "--dry-run"]);
    program("umount", &[&small]);
    let told = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("1.10 GiB may be used"), "{told}");
    assert!(taken.status.success(), "{}", text(&taken.stderr));
}
