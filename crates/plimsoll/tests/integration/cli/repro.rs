// SPDX-License-Identifier: Apache-2.0
//! Published experiments that are data: carried out, resumed, refused.

use crate::support::{Lab, skipped, text};
use serde_json::Value;
use std::path::Path;

/// The experiment of the manual, which needs neither privileges nor time.
pub(super) fn example(lab: &Lab) -> String {
    let manual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/repro.md");
    let manual = std::fs::read_to_string(manual).expect("the manual is there");
    let (_, example) = manual.split_once("```toml\n").expect("it has an example");
    let (example, _) = example.split_once("```").expect("which ends");
    lab.directory("mine");
    let path = lab.path("mine/experiment.toml");
    std::fs::write(&path, example).expect("a writable target directory");
    path.display().to_string()
}

#[test]
fn the_experiment_of_the_manual_stands_beside_its_published_table() {
    let lab = Lab::new();
    let path = example(&lab);
    let result = lab.json(&["repro", &path, "-o", "out", "--json"]);
    let cells = |row: usize| {
        result["tables"][0]["rows"][row]["cells"]
            .as_array()
            .unwrap()
            .clone()
    };
    let (flash, disk) = (cells(0), cells(1));
    assert_eq!(flash[0]["published"], "20000");
    // Values in the table are those of the part's run folder.
    let run = lab.json(&["report", "out/parts/reads", "--json"]);
    let of_run = |arm: &str| {
        let trials = run["trials"].as_array().unwrap().iter();
        let own: Vec<f64> = trials
            .filter(|trial| trial["arm"] == arm)
            .map(|trial| trial["value"].as_f64().unwrap())
            .collect();
        let logs = own.iter().map(|value| value.ln());
        (logs.sum::<f64>() / own.len() as f64).exp()
    };
    for (cell, arm) in [(&flash[0], "sim(flash)"), (&disk[0], "sim(disk)")] {
        let number = &cell["ours"]["number"];
        let shown = number["value"].as_f64().unwrap();
        assert!((shown / of_run(arm) - 1.0).abs() < 1e-9, "{arm}: {cell}");
        assert_eq!(number["blocks"].as_array().unwrap().len(), 3);
        assert!(number["interval"].is_array(), "{cell}");
    }
    let ratio = flash[0]["our_ratio"]["value"].as_f64().unwrap();
    assert!(
        (ratio / (of_run("sim(flash)") / of_run("sim(disk)")) - 1.0).abs() < 0.01,
        "{ratio}"
    );
    assert!((flash[0]["published_ratio"].as_f64().unwrap() - 20000.0 / 180.0).abs() < 1e-9);
    let missing = flash[2]["ours"]["missing"].as_str().unwrap();
    assert_eq!(missing, "a simulated device uses no power");
    let question = &result["questions"][0];
    let is_true = question["is_answered"] == Value::Bool(true);
    assert!(
        is_true && question["because"] == "ratio > 1.05",
        "{question}"
    );
    let page = std::fs::read_to_string(lab.path("out/two-devices.html")).unwrap();
    for part in [
        "A flash device against a disk",
        "Is flash faster",
        "parts/reads/report.html",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(result["controls"][0]["part"], "reads");
}

#[test]
fn parts_that_are_done_are_not_repeated() {
    let lab = Lab::new();
    let path = example(&lab);
    let first = lab.run(&["repro", &path, "-o", "out"]);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let events = || std::fs::read(lab.path("out/parts/reads/events.jsonl")).unwrap();
    let before = events();
    let again = lab.run(&["repro", &path, "-o", "out"]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert!(text(&again.stderr).contains("done before"));
    assert_eq!(events(), before);
    let tables = |output: &std::process::Output| {
        let told = text(&output.stdout);
        told.split("What was carried out")
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(tables(&first), tables(&again));
    let told = text(&first.stdout);
    for word in [
        "Published",
        "Here",
        "As ratios to disk",
        "[1] a simulated device",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
    let other = lab.run(&["repro", &path, "--profile", "full", "-o", "out"]);
    let errors = text(&other.stderr);
    assert_eq!(other.status.code(), Some(2), "{errors}");
    assert!(errors.contains("another profile"), "{errors}");
}

#[test]
fn a_part_that_fails_is_said_in_its_cells_and_by_the_exit_code() {
    let lab = Lab::new();
    let path = example(&lab);
    let whole = std::fs::read_to_string(&path).unwrap();
    let broken = whole.replace(
        "sim(flash)\", \"sim(disk)\", \"-w",
        "sim(flesh)\", \"sim(disk)\", \"-w",
    );
    assert_ne!(broken, whole);
    std::fs::write(&path, &broken).unwrap();
    let output = lab.run(&["repro", &path, "-o", "out"]);
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("part reads: ") && told.contains("Cannot be told here"),
        "{told}"
    );
    let optional = broken.replace(
        "name = \"reads\"\nwhat",
        "name = \"reads\"\noptional = true\nwhat",
    );
    assert_ne!(optional, broken);
    std::fs::write(&path, optional).unwrap();
    let output = lab.run(&["repro", &path, "-o", "other"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_part_can_be_limited_in_memory() {
    let lab = Lab::new();
    let path = example(&lab);
    let whole = std::fs::read_to_string(&path).unwrap();
    let limited = whole.replace("minutes = 0.1 }", "minutes = 0.1, memory = \"256M\" }");
    assert_ne!(limited, whole);
    std::fs::write(&path, limited).unwrap();
    let output = lab.run(&["repro", &path, "-o", "out"]);
    let errors = text(&output.stderr);
    if errors.contains("limit the memory to 256M") {
        skipped(
            "a_part_can_be_limited_in_memory",
            "no control groups that this user may make",
        );
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let manifest = std::fs::read(lab.path("out/parts/reads/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["machine"]["ram_bytes"], 256 << 20);
    // The limit ends with the part.
    assert!(text(&output.stdout).contains("256 MiB of memory"));
    let left = lab.run(&["raze"]);
    assert!(
        !text(&left.stdout).contains("plimsoll-memory"),
        "{}",
        text(&left.stdout)
    );
}

#[test]
fn what_would_be_done_is_printed_and_nothing_is_done() {
    let lab = Lab::new();
    let output = lab.run(&["repro", "pmsapp", "--dry-run"]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    for word in [
        "Nothing was done",
        "plimsoll compare --campaign ./quick.toml",
        "In all about",
    ] {
        assert!(told.contains(word), "{told}");
    }
    assert!(!lab.path("plimsoll-results").exists());
    let list = text(&lab.run(&["repro"]).stdout);
    for name in [
        "pcp-model ",
        "pmsapp ",
        "koji ",
        "storm-lustre ",
        "cloudfs ",
    ] {
        assert!(list.contains(name), "{list}");
    }
    for (args, word) in [
        (&["repro", "lunch"][..], "unknown experiment 'lunch'"),
        (
            &["repro", "mine/none.toml"],
            "read experiment mine/none.toml",
        ),
    ] {
        let output = lab.run(args);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(word), "{errors}");
    }
}
