// SPDX-License-Identifier: Apache-2.0
//! Results and workloads that come from other programs, or go to them.

use crate::support::{Lab, text};

const NUMBERS: &str = "100,9,2048,50,1024,40,300,8,4096,60,512.5,7,16,,,,,1000,20,,,3000,30,,,5000,50,6000,60,1us,2us,3us,4us,5us,6us,7us,8us,9us,10us,11us,12us";

fn bonnie(host: &str, runs: usize) -> String {
    let line = |seed: usize| format!("1.97,1.97,{host},1,{seed},64M,,{NUMBERS}\n");
    (0..runs).map(line).collect()
}

#[test]
fn old_results_become_a_run_that_can_be_reported() {
    let lab = Lab::new();
    for (name, host) in [("old.csv", "a"), ("new.csv", "b")] {
        std::fs::write(lab.path(name), bonnie(host, 3)).unwrap();
    }
    let made = lab.json(&["import", "old.csv", "new.csv", "-o", "run", "--json"]);
    let trials = made["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 6);
    let places: Vec<_> = trials
        .iter()
        .map(|t| (t["block"].as_u64(), t["arm"].as_str()))
        .collect();
    assert_eq!(
        places[..2],
        [(Some(0), Some("old")), (Some(0), Some("new"))]
    );
    let verdicts = made["comparisons"].as_array().unwrap();
    assert!(
        verdicts
            .iter()
            .any(|v| v["workload"] == "bonnie++: put_block" && v["verdict"] == "equivalent")
    );
    let again = lab.json(&["report", "run", "--json"]);
    assert_eq!(again["comparisons"], made["comparisons"]);
}

#[test]
fn a_directory_of_io500_is_one_system() {
    let lab = Lab::new();
    for (name, gib) in [
        ("2026.01.01-10.00.00", "1.5"),
        ("2026.01.02-10.00.00", "3.0"),
    ] {
        lab.directory(name);
        let line = format!("[RESULT]  ior-easy-write  {gib} GiB/s : time 301.5 seconds\n");
        std::fs::write(lab.path(name).join("result_summary.txt"), line).unwrap();
    }
    let names = ["2026.01.01-10.00.00", "2026.01.02-10.00.00"];
    let made = lab.json(&["import", names[0], names[1], "-o", "run", "--json"]);
    let arms: Vec<_> = made["trials"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|trial| trial["arm"].as_str())
        .collect();
    assert_eq!(arms, names);
    let verdict = &made["comparisons"][0];
    assert_eq!(verdict["workload"], "IO500: ior-easy-write");
    let value = verdict["arm_value"].as_f64().unwrap();
    assert!((value / 1_073_741_824.0 - 3.0).abs() < 1e-9, "{value}");
    let output = lab.run(&["import", "run", "-o", "again"]);
    let errors = text(&output.stderr);
    assert!(errors.contains("not a regular file"), "{errors}");
}

#[test]
fn what_cannot_be_imported_is_refused_and_nothing_is_written() {
    let lab = Lab::new();
    std::fs::write(lab.path("good.csv"), bonnie("a", 1)).unwrap();
    std::fs::write(lab.path("short.csv"), "1.97,1.97,h\n").unwrap();
    std::fs::write(
        lab.path("other.txt"),
        "Children see throughput for 2 readers = 5 kB/sec\n",
    )
    .unwrap();
    std::fs::write(
        lab.path("cut.json"),
        "{\"fio version\": \"fio-3.33\",\n \"jobs\": [",
    )
    .unwrap();
    std::fs::write(lab.path("poem.txt"), "of the sea\n").unwrap();
    for (files, word) in [
        (
            ["good.csv", "short.csv"],
            "short.csv: invalid output of bonnie++: line 1",
        ),
        (["good.csv", "other.txt"], "cannot be compared"),
        (["good.csv", "poem.txt"], "unknown format"),
        (["good.csv", "gone.csv"], "no file or folder gone.csv"),
        (["cut.json", "good.csv"], "line 2"),
    ] {
        let output = lab.run(&["import", files[0], files[1], "-o", "run"]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(word), "{errors}");
        assert!(!lab.path("run").exists(), "{word}");
    }
}

#[test]
fn workloads_are_exported_or_refused() {
    let lab = Lab::new();
    let output = lab.run(&[
        "export", "--format", "fio", "randread", "-o", "r.fio", "--for", "2s",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let job = std::fs::read_to_string(lab.path("r.fio")).unwrap();
    assert!(
        job.contains("rw=randread\n") && job.contains("runtime=2000ms\n"),
        "{job}"
    );
    for (args, word) in [
        (
            ["export", "--format", "fio", "randread", "-o", "r.fio"],
            "exists",
        ),
        (
            ["export", "--format", "fio", "varmail", "-o", "v.fio"],
            "no counterpart",
        ),
        (
            ["export", "--format", "iolog", "randread", "-o", "x.log"],
            "--format fio",
        ),
    ] {
        let output = lab.run(&args);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(word), "{errors}");
    }
}

#[test]
fn programs_are_run_as_workloads_and_leave_nothing() {
    let lab = Lab::new();
    let target = lab.directory("target");
    for (workload, phases) in [
        ("copy-tree,size=100000", vec!["to", "from"]),
        ("cmd:test -d . && echo 1 > x", vec!["cmd"]),
    ] {
        #[expect(
            clippy::disallowed_methods,
            reason = "the test removes what it made itself"
        )]
        let _ = std::fs::remove_dir_all(lab.path("run"));
        let args = [
            "run",
            workload,
            &target,
            "--no-self-test",
            "-o",
            "run",
            "--json",
        ];
        let output = lab.run(&args);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let events = std::fs::read_to_string(lab.path("run").join("events.jsonl")).unwrap();
        let ended = events.lines().find(|line| line.contains("trial_ended"));
        let ended: serde_json::Value = serde_json::from_str(ended.unwrap()).unwrap();
        let list = ended["trial_ended"]["phases"].as_array().unwrap();
        let names: Vec<_> = list.iter().filter_map(|p| p["name"].as_str()).collect();
        assert_eq!(names, phases, "{workload}");
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0, "{workload}");
    }
    let args = [
        "run",
        "cmd:exit 3",
        &target,
        "--no-self-test",
        "-o",
        "failed",
    ];
    let errors = text(&lab.run(&args).stderr);
    assert!(errors.contains("status 3"), "{errors}");
}

/// A trace of vscsiStats: two streams that run into one another, 4 ms apart, for four seconds.
pub(crate) fn vscsi() -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..1_000u32 {
        let is_write = number % 2 == 1;
        let command: u16 = if is_write { 0x2a } else { 0x28 };
        let block = u64::from(is_write) * 2_000_000 + u64::from(number / 2) * 16;
        bytes.extend(number.to_le_bytes());
        bytes.extend(8192u32.to_le_bytes());
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(command.to_le_bytes());
        bytes.extend(0x0100u16.to_le_bytes());
        bytes.extend(block.to_le_bytes());
        bytes.extend((77_000_000 + u64::from(number) * 4_000).to_le_bytes());
    }
    bytes
}

#[test]
fn a_part_of_recorded_requests_is_fitted_in_another_order() {
    let lab = Lab::new();
    std::fs::write(lab.path("web.vscsi"), vscsi()).unwrap();
    // The second second.
    let part = ["--from", "1s", "--to", "2s", "--shuffle", "100ms"];
    let part = lab.run(&[&["fit", "web.vscsi", "-o", "part.toml"][..], &part].concat());
    let told = text(&part.stdout);
    for expect in [
        "250 requests in runs whose order is drawn within every 100 ms",
        "1.00 s after",
    ] {
        assert!(
            told.contains(expect),
            "{expect}: {told}{}",
            text(&part.stderr)
        );
    }
    let late = lab.run(&["fit", "web.vscsi", "--from", "1h"]);
    assert_eq!(late.status.code(), Some(2));
    assert!(text(&late.stderr).contains("use the window"));
}

/// Four at a time, each followed at once by the next, as the MSR traces tell it.
fn closed_loop() -> String {
    let row = |n: u64| {
        let (round, slot) = (n / 4, n % 4);
        let started = 128_166_372_000_000_000 + round * 10_000 + slot;
        format!("{started},host,0,Read,{},4096,9990\n", n * 4096)
    };
    (0..800).map(row).collect()
}

#[test]
fn a_limit_on_what_was_in_flight_is_kept_unless_it_is_left_out() {
    let lab = Lab::new();
    std::fs::write(lab.path("closed.csv"), closed_loop()).unwrap();
    let fit = |more: &[&str]| {
        let fitted = lab.run(&[&["fit", "closed.csv", "-o", "m.toml", "--force"], more].concat());
        assert!(fitted.status.success(), "{}", text(&fitted.stderr));
        let told = text(&fitted.stderr);
        assert!(told.contains("4 were in flight for"), "{told}");
        std::fs::read_to_string(lab.path("m.toml")).unwrap()
    };
    let threads = "facts.threads]\nvalue = 4\norigin = \"derived\"";
    assert!(fit(&[]).contains(threads));
    assert!(!fit(&["--open-loop"]).contains("threads"));
}

#[test]
fn recorded_requests_become_a_model_that_plays_them() {
    let lab = Lab::new();
    std::fs::write(lab.path("web.vscsi"), vscsi()).unwrap();
    let fitted = lab.run(&["fit", "web.vscsi", "-o", "web.toml"]);
    assert!(fitted.status.success(), "{}", text(&fitted.stderr));
    let told = text(&fitted.stdout);
    for part in [
        "1000 requests in their order",
        "zones of 1 MiB that are 9.00 MiB together",
        "pass",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    std::fs::create_dir(lab.path("d")).unwrap();
    let args = [
        "run",
        "web.toml",
        "d",
        "--full-replay",
        "--no-self-test",
        "--json",
        "-o",
        "whole",
    ];
    let whole = lab.json(&args);
    let trial = &whole["trials"][0];
    let done = (
        &trial["errors"],
        &trial["generator"]["ops"],
        &trial["bytes"],
    );
    assert_eq!(
        done,
        (&0.into(), &1000.into(), &8_192_000.into()),
        "{trial}"
    );
    let lines = trial["fidelity"].as_array().unwrap();
    let lost = lines.iter().find(|line| line["error"] != 0.0);
    assert!(lines.len() == 4 && lost.is_none(), "{lines:?}");
    let log = lab.run(&["export", "web.toml", "--format", "iolog"]);
    let log = text(&log.stdout);
    assert_eq!(
        log.lines().filter(|line| line.contains(" read ")).count(),
        500,
        "{log}"
    );
    // On a device whose law is known: a page is read in 60 µs and 4 KiB come at 400 MiB/s.
    let device = "sim(flash,spread=0,write=60us)";
    let known = lab.json(&[
        "run",
        "web.toml",
        device,
        "--full-replay",
        "--json",
        "-o",
        "known",
    ]);
    let mean = &known["trials"][0]["value"];
    let expect = 60_000.0 + 8_192.0 / (400.0 * 1_048_576.0) * 1e9;
    let off = mean.as_f64().unwrap() / expect - 1.0;
    assert!(off.abs() < 0.02, "{mean} for {expect}: {off}");
    // The model without its requests, and with those of another.
    let error = |args: &[&str]| text(&lab.run(args).stderr);
    let play = ["run", "web.toml", "null", "-o", "again"];
    std::fs::write(lab.path("web.requests"), b"others").unwrap();
    assert!(error(&play).contains("web.requests: its 6 bytes belong to another model"));
    std::fs::remove_file(lab.path("web.requests")).unwrap();
    assert!(error(&play).contains("it belongs beside web.toml"));
}
