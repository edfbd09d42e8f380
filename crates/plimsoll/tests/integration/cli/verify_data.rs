// SPDX-License-Identifier: Apache-2.0
//! Runs whose data are verified: told when all is well, refused where it cannot be, and ended with
//! a code of its own when blocks are bad.

use crate::support::{Lab, text};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A workload small enough for a test: 2 MiB through the page cache, half reads.
fn small(lab: &Lab) -> &'static str {
    let words = crate::support::blocks("small", 2 << 20, 0.5, false);
    std::fs::write(lab.path("small.toml"), words).expect("a writable test directory");
    "small.toml"
}

#[test]
fn a_target_that_keeps_its_data_passes_and_the_report_says_so() {
    for when in ["end", "always"] {
        let lab = Lab::new();
        let (target, workload) = (lab.directory("t"), small(&lab));
        let json = lab.json(&[
            "run",
            workload,
            &target,
            "--for",
            "300ms",
            "--warmup",
            "0s",
            "--check-data",
            when,
            "--json",
            "-o",
            "r",
        ]);
        let check = &json["trials"][0]["data_check"];
        let count = |name: &str| check[name].as_u64().unwrap();
        assert!(count("written") > 0 && count("checked") > 0, "{check}");
        assert_eq!(check["bad"]["wrong"], 0, "{check}");
        assert_eq!(check["interrupted"], false, "{check}");
        let told = text(&lab.run(&["report", "r"]).stdout);
        let words = format!(
            "{} blocks written, {} read back, 0 bad",
            count("written"),
            count("checked")
        );
        // The terminal may break lines anywhere.
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(&words), "{told}");
        let page = std::fs::read_to_string(lab.path("r/report.html")).unwrap();
        assert!(page.contains(&words), "{words}");
    }
}

#[test]
fn a_run_that_is_not_verified_says_nothing_of_its_data() {
    let lab = Lab::new();
    let (target, workload) = (lab.directory("t"), small(&lab));
    let json = lab.json(&[
        "run", workload, &target, "--for", "200ms", "--warmup", "0s", "--json", "-o", "r",
    ]);
    assert!(json["trials"][0]["data_check"].is_null(), "{json}");
}

#[test]
fn what_cannot_be_verified_is_refused_before_anything_is_done() {
    let lab = Lab::new();
    let (target, workload) = (lab.directory("t"), small(&lab));
    for (workload, target, words) in [
        (workload, "null", "which keep no data"),
        (workload, "sim", "which keep no data"),
        ("randread", target.as_str(), "writes nothing"),
        (
            "varmail",
            target.as_str(),
            "file operations are not stamped",
        ),
        ("stamp", target.as_str(), "appends"),
    ] {
        let output = lab.run(&["run", workload, target, "--check-data", "end", "-o", "r"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{workload} {target}: {said}");
        assert!(said.contains(words), "{said}");
        assert!(!lab.path("r").exists());
    }
}

/// Overwrites the first sector of every block of `path`.
fn damage(path: &Path) {
    let Ok(file) = std::fs::File::options().write(true).open(path) else {
        return;
    };
    for block in 0..512 {
        // Failing means that the run has ended; the next turn sees that.
        let _ = file.write_all_at(&[0x5a; 512], block * 4096);
    }
}

#[test]
fn bad_blocks_are_named_kept_from_comparison_and_end_in_their_own_code() {
    let lab = Lab::new();
    let workload = small(&lab);
    let mut child = lab.start(&[
        "run",
        workload,
        "file:./disk.img",
        // So long that damage comes between a write and a read, however busy the machine is.
        "--for",
        "5s",
        "--warmup",
        "0s",
        "--check-data",
        "always",
        "-o",
        "r",
    ]);
    // Its output fits into a pipe, so it can end without a reader.
    while child.try_wait().unwrap().is_none() {
        damage(&lab.path("disk.img"));
    }
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(12), "{said}");
    assert!(
        said.contains("bad (") && said.contains("wrong at byte"),
        "{said}"
    );
    let json = lab.json(&["report", "r", "--json"]);
    let check = &json["trials"][0]["data_check"];
    assert!(check["bad"]["wrong"].as_u64().unwrap() > 0, "{check}");
    let told = text(&lab.run(&["report", "r"]).stdout);
    assert!(told.contains("Data verification failed on"), "{told}");
}
