// SPDX-License-Identifier: Apache-2.0
//! Models and jobs held against recordings, and what becomes of models that miss their gates.

use std::fmt::Write;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Lab, program, skipped, text};

/// Output of a loop over /proc/diskstats every 10 s for 20 minutes: steady reads, and writes that
/// come in bursts every 200 s. `factor` multiplies the reads.
pub(crate) fn diskstats(factor: u64) -> String {
    let (mut reads, mut writes) = (1_000_u64, 500_u64);
    let mut text = String::new();
    for i in 0..121 {
        let _ = writeln!(text, "{}", 1_795_220_000 + i * 10);
        let _ = writeln!(
            text,
            "   8 0 sda {reads} 0 {} 0 {writes} 0 {} 0 0 0 0",
            reads * 32,
            writes * 16
        );
        reads += factor * (900 + i * 13 % 80);
        writes += if i % 20 < 2 { 6_000 + i } else { 120 + i % 9 };
    }
    text
}

/// A trace of MSR's form: runs of reads here and there, and writes over and over to one place.
pub(crate) fn msr(step: u64) -> String {
    let mut text = String::new();
    let mut at = 128_166_372_003_061_629;
    for i in 0..4_000_u64 {
        // Gaps of all lengths from 1 to 100 ms.
        at += 10_000 + (i * i * 7_919 % 100_003).pow(2) / 10_000;
        let (kind, offset) = match i % 5 {
            0 => ("Write", 4_096 * (i % 64)),
            _ => ("Read", (i / 50) % 9 * step + i % 50 * 8_192),
        };
        let _ = writeln!(text, "{at},host,0,{kind},{offset},8192,100");
    }
    text
}

pub(crate) fn lab_with(files: &[(&str, String)]) -> Lab {
    let lab = Lab::new();
    for (name, text) in files {
        std::fs::write(lab.path(name), text).expect("a writable target directory");
    }
    lab
}

/// The errors of the metrics of a verification, by name.
pub(crate) fn error_of(lines: &Value, metric: &str) -> f64 {
    let lines = lines.as_array().expect("a list of metrics");
    let found = lines.iter().find(|line| {
        let line = line.get("line").unwrap_or(line);
        line["metric"] == metric
    });
    let found = found.unwrap_or_else(|| panic!("{metric} is in {lines:?}"));
    found.get("line").unwrap_or(found)["error"]
        .as_f64()
        .expect("a finite error")
}

#[test]
fn a_model_passes_on_its_own_recording_and_fails_on_another_load() {
    let lab = lab_with(&[("mon", diskstats(1)), ("tue", diskstats(2))]);
    let fitted = lab.run(&["fit", "mon", "--disk", "sda", "-o", "m.toml"]);
    assert_eq!(fitted.status.code(), Some(0), "{}", text(&fitted.stderr));
    let same = lab.json(&["verify", "m.toml", "--against", "mon", "--json"]);
    assert_eq!(same["passed"], true);
    let lines = same["verification"]["lines"].as_array().unwrap();
    assert!(lines.len() > 12, "{lines:?}");
    assert!(lines.iter().all(|line| line["floor"]["seeds"].is_number()));
    // The other day is compared as it is: twice the reads, the same writes.
    let other = lab.run(&["verify", "m.toml", "--against", "tue", "--json"]);
    assert_eq!(other.status.code(), Some(14), "{}", text(&other.stderr));
    let other: Value = serde_json::from_slice(&other.stdout).unwrap();
    let lines = &other["verification"]["lines"];
    assert!((error_of(lines, "read operations per second") + 0.5).abs() < 0.001);
    assert!(error_of(lines, "write operations per second").abs() < 0.001);
    // A part of the recording is shorter than the model; both are still compared.
    let part = lab.run(&[
        "verify",
        "m.toml",
        "--against",
        "mon",
        "--to",
        "2026-11-21 00:30:00",
    ]);
    let (shown, errors) = (text(&part.stdout), text(&part.stderr));
    let has = |word| shown.contains(word);
    assert!(has("two seeds") && has("halves"), "{shown}{errors}");
}

#[test]
fn a_model_that_missed_a_gate_is_not_played_unless_forced_and_then_every_page_says_so() {
    let lab = lab_with(&[("mon", diskstats(1)), ("tue", diskstats(2))]);
    let fitted = lab.run(&["fit", "mon", "--disk", "sda", "-o", "m.toml"]);
    assert_eq!(fitted.status.code(), Some(0), "{}", text(&fitted.stderr));
    let played = |more: &[&str]| {
        let mut args = vec!["run", "m.toml", "null", "--for", "200ms", "--no-self-test"];
        args.extend(more);
        lab.run(&args)
    };
    let true_one = played(&["-o", "true"]);
    assert!(!text(&true_one.stdout).contains("not this load"));
    let kept = lab.run(&["verify", "m.toml", "--against", "tue", "--keep"]);
    assert_eq!(kept.status.code(), Some(14), "{}", text(&kept.stderr));
    let refused = played(&["-o", "refused"]);
    let errors = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(14), "{errors}");
    assert!(
        errors.contains("read operations per second and"),
        "{errors}"
    );
    assert!(errors.contains("--force-model"), "{errors}");
    assert!(!lab.path("refused").exists());
    let args = [
        "compare", "null", "-w", "m.toml", "--blocks", "2", "-o", "no",
    ];
    assert_eq!(lab.run(&args).status.code(), Some(14));
    let forced = played(&["-o", "forced", "--force-model"]);
    let told_again = lab.run(&["report", "forced"]);
    let page = std::fs::read_to_string(lab.path("forced/report.html")).unwrap();
    for told in [text(&forced.stdout), text(&told_again.stdout), page] {
        assert!(told.contains("not this load"), "{told}");
        assert!(told.contains("was played anyway"), "{told}");
    }
    // A result that passes again lifts the refusal.
    let again = lab.run(&["verify", "m.toml", "--against", "mon", "--keep"]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert_ne!(played(&["-o", "again"]).status.code(), Some(2));
    assert!(lab.path("again").exists());
}

#[test]
fn recorded_requests_are_held_against_requests_and_against_counters() {
    let lab = lab_with(&[
        ("a.csv", msr(1 << 30)),
        ("b.csv", msr(409_600)),
        ("mon", diskstats(1)),
    ]);
    let fitted = lab.run(&["fit", "a.csv", "-o", "a.toml"]);
    assert_eq!(fitted.status.code(), Some(0), "{}", text(&fitted.stderr));
    let same = lab.json(&["verify", "a.toml", "--against", "a.csv", "--json"]);
    let lines = &same["verification"]["lines"];
    for metric in [
        "requests in a run (KS distance)",
        "jump from one request to the next (KS distance)",
        "entropy over place and time, bits per level",
    ] {
        assert!(error_of(lines, metric).abs() < 0.03, "{metric}");
    }
    // Requests that lie together jump less far.
    let other = lab.run(&["verify", "a.toml", "--against", "b.csv", "--json"]);
    assert_eq!(other.status.code(), Some(14), "{}", text(&other.stderr));
    let other: Value = serde_json::from_slice(&other.stdout).unwrap();
    let lines = &other["verification"]["lines"];
    let jump = error_of(lines, "jump from one request to the next (KS distance)");
    assert!(jump > 0.05, "{jump}");
    assert!(error_of(lines, "read operations per second").abs() < 0.005);
    // Counters know nothing of places; a model of requests still has rates.
    let counted = lab.run(&["verify", "a.toml", "--against", "mon", "--disk", "sda"]);
    assert_eq!(counted.status.code(), Some(14), "{}", text(&counted.stderr));
    assert!(
        text(&counted.stdout).contains("burstiness"),
        "{}",
        text(&counted.stdout)
    );
}

/// Metrics that a verification could not compare, each with its reason.
fn untold(told: &Value) -> String {
    told["verification"]["untold"].to_string()
}

#[test]
fn requests_in_flight_are_compared_where_ends_are_told_and_else_that_is_said() {
    // The same requests in a recording without their end times.
    let without_ends = |text: &str| {
        let line = |line: &str| format!("{}0\n", line.trim_end_matches("100"));
        text.lines().map(line).collect::<String>()
    };
    let ended = msr(1 << 30);
    // Every one of them takes 20 ms.
    let slow: String = ended
        .lines()
        .map(|line| format!("{}200000\n", line.trim_end_matches("100")))
        .collect();
    let queued = diskstats(1).replace(" 0 0 0 0\n", " 0 0 0 QUEUE\n");
    let mut sum = 0;
    let queued: String = queued
        .split_inclusive("QUEUE")
        .map(|part| {
            sum += 7_000;
            part.replace("QUEUE", &sum.to_string())
        })
        .collect();
    let lab = lab_with(&[
        ("slow.csv", slow),
        ("open.csv", without_ends(&ended)),
        ("queued", queued),
        ("plain", diskstats(1)),
    ]);
    let verified = |recording: &str, disk: &str| {
        let fit = ["fit", recording, "--disk", disk, "-o", "m.toml", "--force"];
        assert_eq!(lab.run(&fit).status.code(), Some(0), "{recording}");
        lab.json(&["verify", "m.toml", "--against", recording, "--json"])
    };
    let slow = verified("slow.csv", "host,0");
    for metric in [
        "requests in flight, mean",
        "requests in flight, earth mover's distance in means",
    ] {
        assert!(error_of(&slow["verification"]["lines"], metric).abs() < 0.05);
    }
    assert!(!untold(&slow).contains("in flight"), "{slow}");
    assert!(untold(&slow).contains("submission delay"));
    let queued = verified("queued", "sda");
    let metric = "requests in flight, mean (Little's law)";
    assert!(error_of(&queued["verification"]["lines"], metric).abs() < 0.01);
    assert!(!untold(&queued).contains("in flight"), "{queued}");
    let plain = verified("plain", "sda");
    assert!(untold(&plain).contains("in flight"), "{plain}");
    assert!(untold(&plain).contains("offsets"), "{plain}");
    // The model is a copy of what it is held against.
    assert!(untold(&plain).contains("inside of intervals"), "{plain}");
    // Twice as fast, twice as much is in flight.
    let faster = [
        "export",
        "m.toml",
        "--format",
        "plimsoll",
        "--scale",
        "2",
        "-o",
        "fast.toml",
    ];
    let fit = ["fit", "slow.csv", "-o", "m.toml", "--force"];
    assert_eq!(lab.run(&fit).status.code(), Some(0));
    let exported = lab.run(&faster);
    assert_eq!(
        exported.status.code(),
        Some(0),
        "{}",
        text(&exported.stderr)
    );
    let held = lab.run(&["verify", "fast.toml", "--against", "slow.csv", "--json"]);
    assert_eq!(held.status.code(), Some(14), "{}", text(&held.stderr));
    let held: Value = serde_json::from_slice(&held.stdout).unwrap();
    let more = error_of(&held["verification"]["lines"], "requests in flight, mean");
    assert!((0.8..1.2).contains(&more), "{more}");
}

#[test]
fn a_part_of_recorded_requests_is_compared_by_itself() {
    let lab = lab_with(&[("a.csv", msr(1 << 30)), ("mon", diskstats(1))]);
    let part = ["--from", "30s", "--to", "90s"];
    let with_part = |args: &[&'static str]| [args, &part].concat();
    let fit = with_part(&["fit", "a.csv", "-o", "a.toml"]);
    let fitted = lab.run(&fit);
    assert_eq!(fitted.status.code(), Some(0), "{}", text(&fitted.stderr));
    let verify = ["verify", "a.toml", "--against", "a.csv", "--json"];
    let same = lab.json(&with_part(&verify));
    assert_eq!(same["passed"], true, "{same}");
    let compared = |told: &Value| told["verification"]["compared"].as_u64().unwrap();
    let whole = lab.run(&verify);
    let whole: Value = serde_json::from_slice(&whole.stdout).unwrap();
    assert_eq!(compared(&whole), 4_000);
    let shares = compared(&same) as f64 / 4_000.0;
    assert!((0.2..0.8).contains(&shares), "{same}");
    // The same part at other times is another load: one begins where the other ends.
    let ends = |told: &Value| {
        let of = |key: &str| told["verification"][key].as_str().unwrap().to_owned();
        (of("from"), of("to"))
    };
    assert_ne!(ends(&same), ends(&whole));
    // Intervals of counters are counted out of the part alone.
    let counters = lab.run(&["fit", "mon", "--disk", "sda", "-o", "m.toml"]);
    assert_eq!(
        counters.status.code(),
        Some(0),
        "{}",
        text(&counters.stderr)
    );
    let verify = ["verify", "m.toml", "--against", "a.csv", "--json"];
    let held = lab.run(&with_part(&verify));
    assert_eq!(held.status.code(), Some(2), "{}", text(&held.stderr));
    let verify = [&verify[..], &["--disk", "host,0"]].concat();
    let held = lab.run(&with_part(&verify));
    let held: Value = serde_json::from_slice(&held.stdout).unwrap();
    assert_eq!(ends(&held), ends(&same));
    let late = lab.run(&["verify", "a.toml", "--against", "a.csv", "--from", "30m"]);
    assert_eq!(late.status.code(), Some(2), "{}", text(&late.stderr));
    let said = text(&late.stderr);
    assert!(said.contains("use the window"), "{said}");
}

#[test]
fn a_job_has_the_rates_it_asks_for_and_no_bursts() {
    let job = "[global]\nsize=1g\ndirectory=/nowhere\n[r]\nrw=randread\nbs=16k\nrate_iops=94\n\
        [w]\nrw=write\nbs=8k\nrate=584k\nnumjobs=2\n[open]\nrw=read\n";
    let lab = lab_with(&[("mon", diskstats(1)), ("j.fio", job.to_owned())]);
    let verify = |more: &[&str]| {
        let mut args = vec!["verify", "j.fio", "--against", "mon"];
        args.extend(more);
        lab.run(&args)
    };
    let held = verify(&["--section", "r+w=sda", "--json"]);
    assert_eq!(held.status.code(), Some(14), "{}", text(&held.stderr));
    let held: Value = serde_json::from_slice(&held.stdout).unwrap();
    let part = &held["sections"][0];
    let lines = &part["verification"]["lines"];
    assert!(error_of(lines, "read operations per second").abs() < 0.01);
    let writes = error_of(lines, "write operations per second");
    assert!((writes - 1.0).abs() < 0.05, "numjobs doubles: {writes}");
    assert!(error_of(lines, "write burstiness (IDC, 10 s)") < -0.99);
    let one = part["others"].as_array().unwrap();
    let one = one.iter().find(|o| o["load"] == "one job of each").unwrap();
    assert!(error_of(&one["lines"], "write operations per second").abs() < 0.05);
    assert!(part["reasons"].to_string().contains("numjobs=2"), "{part}");
    for (more, word) in [
        (&["--section", "r+x=sda"][..], "it has r, w, open"),
        (&["--section", "open=sda"], "no rate"),
        (&["--section", "r=sdb"], "find disk 'sdb'"),
        (&["--section", "r"], "SECTION=DISK"),
        (&["--section", "r=sda", "--disk", "sda"], "leave --disk"),
        (&["--keep"], "--keep"),
    ] {
        let output = verify(more);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(word), "{errors}");
    }
}

#[test]
fn what_fio_did_is_judged_where_it_is_installed() {
    if program("fio", &["--version"]).is_none() {
        return skipped(
            "what_fio_did_is_judged_where_it_is_installed",
            "fio is not installed",
        );
    }
    // fio's pacing makes 50 operations of 100 per second, as half of its blocks are of the larger
    // size, three times the smaller.
    let job = "[r]\nrw=randread\nsize=1g\nbssplit=4k/50:12k/50\nrate_iops=100\n";
    let lab = lab_with(&[("mon", diskstats(1)), ("j.fio", job.to_owned())]);
    let args = [
        "verify",
        "j.fio",
        "--against",
        "mon",
        "--measured=3s",
        "--json",
    ];
    let output = lab.run(&args);
    assert_eq!(output.status.code(), Some(14), "{}", text(&output.stderr));
    let held: Value = serde_json::from_slice(&output.stdout).unwrap();
    let part = &held["sections"][0];
    assert_eq!(part["load"], "done by fio");
    // Recorded are 94 reads a second; asked for 6 % more, done about half, and less by a busy machine.
    let did = error_of(&part["verification"]["lines"], "read operations per second");
    assert!((-0.95..-0.25).contains(&did), "{did}");
    let asked = &part["others"][0];
    assert_eq!(asked["load"], "asked for");
    let asked = error_of(&asked["lines"], "read operations per second");
    assert!((asked - 0.06).abs() < 0.02, "{asked}");
}

/// The recordings of the tutorial, which may not be distributed with this program.
fn tutorial(test: &str) -> Option<PathBuf> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let root = std::env::var_os("PLIMSOLL_TEST_DATA").map_or(PathBuf::from(own), PathBuf::from);
    let folder = root.join("pcp/diskmodel");
    if folder.join("model.fio").is_file() {
        return Some(folder);
    }
    skipped(test, "no recordings; set PLIMSOLL_TEST_DATA");
    None
}

#[test]
fn the_published_job_of_the_tutorial_fails_with_its_real_errors() {
    let Some(folder) = tutorial("the_published_job_of_the_tutorial_fails_with_its_real_errors")
    else {
        return;
    };
    let lab = Lab::new();
    let held = |recording: &str, map: &str| -> Value {
        let path = |name: &str| folder.join(name).display().to_string();
        let (job, recording) = (path("model.fio"), path(recording));
        let args = [
            "verify",
            &job,
            "--against",
            &recording,
            "--section",
            map,
            "--json",
        ];
        let output = lab.run(&args);
        assert_eq!(output.status.code(), Some(14), "{}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["sections"][0].clone()
    };
    let nas = held("nasdata", "nas_read_load+nas_write_load=sdi@11:00..12:00");
    let lines = &nas["verification"]["lines"];
    for metric in [
        "read operations per second",
        "read bytes per second",
        "write operations per second",
        "write bytes per second",
    ] {
        assert!(error_of(lines, metric) >= 2.5, "{metric}");
    }
    let database = held("dbdata", "db_load=F:@11:10..11:55");
    let lines = &database["verification"]["lines"];
    assert!(error_of(lines, "read mean size in bytes") <= -0.5);
    assert!(error_of(lines, "write operations per second") >= 2.5);
    // One of its four jobs, as fio paces it: what the published figures are of.
    let ways = database["others"].as_array().unwrap();
    let one = ways.iter().find(|o| o["load"] == "one job, paced").unwrap();
    assert!(error_of(&one["lines"], "write operations per second") <= -0.45);
    let reports = held("dbdata", "bi_load=F:@11:00..11:05");
    let ways = reports["others"].as_array().unwrap();
    let one = ways.iter().find(|o| o["load"] == "one job, paced").unwrap();
    assert!(error_of(&one["lines"], "read bytes per second") <= -0.9);
    assert!(error_of(&one["lines"], "write operations per second") <= -0.9);
}

#[test]
fn the_tutorial_is_done_again_whole() {
    let Some(folder) = tutorial("the_tutorial_is_done_again_whole") else {
        return;
    };
    let data = folder.join("../..").display().to_string();
    let lab = Lab::new();
    // The stacks of its last part have tests of their own.
    let file = include_str!("../../../../../examples/experiments/pcp-model/experiment.toml");
    let parts = file.lines().filter(|line| !line.contains("[\"compare\""));
    let parts: Vec<&str> = parts.collect();
    std::fs::write(lab.path("experiment.toml"), parts.join("\n")).unwrap();
    let args = [
        "repro",
        "./experiment.toml",
        "--trust",
        "experiment.toml",
        "--data",
        &data,
        "--json",
        "-o",
        "out",
    ];
    let output = lab.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = told["tables"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 17);
    for row in rows {
        let cell = &row["cells"][0];
        let theirs = cell["published"].as_str().expect("a figure");
        let decimals = theirs.split_once('.').map_or(0, |(_, digits)| digits.len());
        let base = cell["ours"]["number"]["value"]
            .as_f64()
            .expect("a figure of ours");
        let ours = if cell["unit"] == "KiB/s" {
            base / 1024.0
        } else {
            base
        };
        // All digits that were printed.
        assert_eq!(format!("{ours:.decimals$}"), theirs, "{row}");
    }
    let says = |question: usize| {
        told["questions"][question]["says"]
            .as_str()
            .unwrap_or_default()
    };
    assert!(says(0).starts_with("No. As it stands"), "{}", says(0));
    assert!(
        says(1).starts_with("Does the model pass every gate? File server true (of 20)"),
        "{}",
        says(1)
    );
    for model in ["nas", "db", "reporting"] {
        let path = format!("out/parts/{model}.toml");
        let held = lab.run(&["run", &path, "null", "--dry-run"]);
        assert_eq!(held.status.code(), Some(0), "{}", text(&held.stderr));
    }
}
