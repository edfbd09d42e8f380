// SPDX-License-Identifier: Apache-2.0
//! Changes of models: scaled, stretched, made anonymous.

use super::verify::{diskstats, lab_with, msr};
use crate::support::{Lab, text};

fn fitted(lab: &Lab, recording: &str, more: &[&str], to: &str) {
    let mut args = vec!["fit", recording, "-o", to];
    args.extend(more);
    let output = lab.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// Exports to a file, and returns its text.
fn exported(lab: &Lab, args: &[&str], to: &str) -> String {
    let mut all = vec!["export", "--format", "plimsoll", "-o", to];
    all.extend(args);
    let output = lab.run(&all);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    std::fs::read_to_string(lab.path(to)).expect("it was written")
}

#[test]
fn a_model_is_scaled_and_stretched_and_still_plays() {
    let lab = lab_with(&[("mon", diskstats(1)), ("tue", diskstats(2))]);
    fitted(&lab, "mon", &["--disk", "sda"], "m.toml");
    let two = exported(&lab, &["m.toml", "--scale", "2"], "two.toml");
    assert!(two.contains("rates ×2"), "{two}");
    // Twice Monday's reads are Tuesday's.
    let held = lab.run(&["verify", "two.toml", "--against", "tue", "--json"]);
    let held: serde_json::Value = serde_json::from_slice(&held.stdout).unwrap();
    let error = |metric: &str| super::verify::error_of(&held["verification"]["lines"], metric);
    assert!(error("read operations per second").abs() < 0.001);
    assert!((error("write operations per second") - 1.0).abs() < 0.001);
    // Twice as fast over twice the time is the load of the same time.
    let long = ["m.toml@2", "--scale", "2", "--stretch", "4"];
    exported(&lab, &long, "long.toml");
    let again = lab.run(&["verify", "long.toml", "--against", "mon", "--json"]);
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    let lines = &again["verification"]["lines"];
    assert!(super::verify::error_of(lines, "read operations per second").abs() < 0.01);
    let played = lab.run(&[
        "run",
        "long.toml",
        "null",
        "--for",
        "200ms",
        "--no-self-test",
    ]);
    assert_ne!(played.status.code(), Some(2), "{}", text(&played.stderr));
    for (args, word) in [
        (&["m.toml", "--phase", "lunch"][..], "phase 'lunch'"),
        (&["m.toml", "--scale", "0"], "above 0"),
        (&["randread", "--scale", "2"], "only a model"),
        (&["randread"], "it is not a model"),
    ] {
        let mut all = vec!["export", "--format", "plimsoll", "-o", "no.toml"];
        all.extend(args);
        let output = lab.run(&all);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(word), "{errors}");
        assert!(!lab.path("no.toml").exists());
    }
    let job = lab.run(&["export", "--format", "fio", "m.toml", "--scale", "3"]);
    assert_eq!(job.status.code(), Some(0), "{}", text(&job.stderr));
}

#[test]
fn a_model_of_distributions_is_refused_with_what_to_do() {
    let lab = lab_with(&[("a.csv", msr(1 << 30))]);
    fitted(&lab, "a.csv", &[], "a.toml");
    let mut model = std::fs::read_to_string(lab.path("a.toml")).unwrap();
    model.push_str(
        "
[workload.model.parametric]
seed = 4
",
    );
    std::fs::write(lab.path("old.toml"), model).unwrap();
    for args in [
        &["run", "old.toml", "null", "--dry-run"][..],
        &["verify", "old.toml", "--against", "a.csv"],
        &["export", "--format", "fio", "old.toml"],
    ] {
        let output = lab.run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for part in ["old.toml", "[workload.model.parametric]", "plimsoll fit"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

#[test]
fn an_anonymous_model_has_nothing_of_its_source_and_all_of_its_load() {
    let lab = lab_with(&[("payroll.csv", msr(1 << 30)), ("secret", diskstats(1))]);
    fitted(&lab, "payroll.csv", &["--name", "db7"], "a.toml");
    fitted(&lab, "secret", &["--disk", "sda"], "b.toml");
    for (model, name) in [("a.toml", "x.toml"), ("b.toml", "y.toml")] {
        // With a seed, so that numbers and packed bytes which spell a word by chance do so always.
        let seeded = [model, "--anonymise", "--seed", "1"];
        let told = exported(&lab, &seeded, name);
        let bytes = std::fs::read(lab.path("x.requests")).unwrap_or_default();
        let packed = text(&bytes);
        for word in [
            "payroll",
            "db7",
            "host",
            "sda",
            "secret",
            "2007",
            "2026",
            "1795220000",
            "T00:13",
            "17:00",
            "a.requests",
        ] {
            // The name of a field is no name of a host.
            let told = told.replace("host = \"\"", "");
            assert!(!told.contains(word), "{word}: {told}");
            assert!(!packed.contains(word), "{word}");
        }
    }
    // The same requests in the same order, in other places.
    let log = |model: &str| {
        let output = lab.run(&["export", "--format", "iolog", model, "--for", "1h"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let log = text(&output.stdout);
        let rows = log.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [.., kind, offset, bytes] = words[..] else {
                return None;
            };
            let offset: u64 = offset.parse().ok()?;
            Some((kind.to_owned(), offset, bytes.to_owned()))
        });
        rows.collect::<Vec<_>>()
    };
    let (before, after) = (log("a.toml"), log("x.toml"));
    assert!(before.len() > 3_000 && before.len() == after.len());
    assert!(
        before
            .iter()
            .zip(&after)
            .all(|(b, a)| (&b.0, &b.2) == (&a.0, &a.2))
    );
    let far = before.iter().filter(|row| row.1 >= 1 << 30).count();
    assert!(far > 1_000 && after.iter().all(|row| row.1 < 1 << 30));
    let same = exported(&lab, &["a.toml", "--anonymise", "--seed", "7"], "s.toml");
    let again = exported(&lab, &["a.toml", "--anonymise", "--seed", "7"], "t.toml");
    assert_eq!(
        same.replace("s.requests", ""),
        again.replace("t.requests", "")
    );
    let packed = |name: &str| std::fs::read(lab.path(name)).unwrap();
    assert_eq!(packed("s.requests"), packed("t.requests"));
    // Without --seed the clock gives a seed, so the result differs.
    exported(&lab, &["a.toml", "--anonymise"], "u.toml");
    assert_ne!(packed("u.requests"), packed("s.requests"));
    let played = lab.run(&["run", "x.toml", "null", "--for", "200ms", "--no-self-test"]);
    assert_ne!(played.status.code(), Some(2), "{}", text(&played.stderr));
}

#[test]
fn a_mix_plays_its_members_at_the_same_time_and_the_report_names_them() {
    let lab = lab_with(&[("web.csv", msr(1 << 30)), ("mon", diskstats(1))]);
    fitted(&lab, "web.csv", &[], "web.toml");
    fitted(
        &lab,
        "mon",
        &["--disk", "sda", "--working-set", "64M"],
        "db.toml",
    );
    let mixed = lab.run(&["mix", "db.toml", "web.toml@2", "-o", "both.toml"]);
    assert_eq!(mixed.status.code(), Some(0), "{}", text(&mixed.stderr));
    let told = text(&mixed.stdout);
    assert!(
        told.contains("member db ×1") && told.contains("member web ×2"),
        "{told}"
    );
    let run = [
        "run",
        "both.toml",
        "null",
        "--for",
        "1s",
        "--no-self-test",
        "-o",
        "r",
    ];
    let played = lab.run(&run);
    assert_ne!(played.status.code(), Some(2), "{}", text(&played.stderr));
    let page = std::fs::read_to_string(lab.path("r/report.html")).unwrap();
    assert!(page.contains("member web ×2"));
    // The place of the second member begins where the first one's room ends.
    let log = lab.run(&["export", "--format", "iolog", "both.toml", "--for", "1h"]);
    let log = text(&log.stdout);
    let offsets = log
        .lines()
        .filter_map(|line| line.split_whitespace().nth_back(1)?.parse::<u64>().ok());
    let far = offsets.filter(|offset| *offset >= 64 << 20).count();
    assert_eq!(far, 4_000, "all of the shorter member is in the mix");
    for (args, word) in [
        (
            &["mix", "db.toml", "randread", "-o", "no.toml"][..],
            "only models",
        ),
        (&["mix", "db.toml", "web.toml", "-o", "both.toml"], "exists"),
        (
            &["mix", "db.toml", "web.toml@auto", "-o", "no.toml"],
            "give a number",
        ),
    ] {
        let output = lab.run(args);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(word), "{errors}");
    }
}

/// Whether a file in this place is open in a process so that each write is durable when it ends.
fn is_open_for_sync(process: u32, place: &std::path::Path) -> bool {
    const DSYNC: u32 = 0o10_000;
    let of = |name: &str| format!("/proc/{process}/{name}");
    let files = std::fs::read_dir(of("fd")).into_iter().flatten().flatten();
    let flags = files.filter_map(|file| {
        let path = std::fs::read_link(file.path()).ok()?;
        let number = file.file_name().into_string().ok()?;
        let told = std::fs::read_to_string(of(&format!("fdinfo/{number}"))).ok()?;
        let flags = told.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
        path.starts_with(place).then_some(flags)
    });
    flags.into_iter().any(|flags| flags & DSYNC != 0)
}

#[test]
fn writes_that_are_declared_synchronous_are_played_so() {
    let lab = lab_with(&[("mon", diskstats(1)), ("a.csv", msr(1 << 30))]);
    let places = ["--disk", "sda", "--declare"];
    fitted(
        &lab,
        "mon",
        &[&places[..], &["file-size=4M"]].concat(),
        "no.toml",
    );
    fitted(
        &lab,
        "mon",
        &[&places[..], &["file-size=4M,sync"]].concat(),
        "yes.toml",
    );
    fitted(&lab, "a.csv", &["--declare", "sync"], "requests.toml");
    let data = lab.directory("data");
    let place = std::fs::canonicalize(&data).unwrap();
    for (model, expect) in [
        ("no.toml", false),
        ("yes.toml", true),
        ("requests.toml", true),
    ] {
        // One that must be seen lasts until it was.
        let length = if expect { "60s" } else { "1s" };
        let args = ["run", model, &data, "--for", length, "--no-self-test"];
        let mut run = lab.start(&args);
        let process = rustix::process::Pid::from_child(&run);
        let mut seen = false;
        // Ends: the run does.
        while run.try_wait().unwrap().is_none() {
            if is_open_for_sync(run.id(), &place) && !seen {
                seen = true;
                rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
            }
            crate::support::pause(20);
        }
        let output = run.wait_with_output().unwrap();
        assert_ne!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert_eq!(seen, expect, "{model}");
    }
    let job = text(&lab.run(&["export", "--format", "fio", "yes.toml"]).stdout);
    assert!(job.contains("sync=dsync"), "{job}");
    // One play has one way to write, and requests tell the rest.
    for (args, word) in [
        (
            &["mix", "yes.toml", "no.toml", "-o", "both.toml"][..],
            "declare the same of both",
        ),
        (
            &["fit", "a.csv", "--declare", "sync,even"],
            "declare 'sync' or nothing",
        ),
    ] {
        let output = lab.run(args);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(word), "{errors}");
    }
}

/// Twenty requests that no sector bounds, some a part of a microsecond apart.
fn odd_places() -> String {
    let row = |i: u64| {
        let at = 128_166_385_000_000_000 + i * 12_345;
        format!("{at},h,0,Write,{},1537,1000\n", 1_000 + i * 4_097)
    };
    (0..20).map(row).collect()
}

#[test]
fn a_log_holds_recorded_requests_to_the_byte_and_tells_what_it_loses() {
    let lab = lab_with(&[("odd.csv", odd_places())]);
    fitted(&lab, "odd.csv", &["--exact"], "odd.toml");
    let output = lab.run(&["export", "--format", "iolog", "odd.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let log = text(&output.stdout);
    let writes: Vec<&str> = log
        .lines()
        .filter(|line| line.contains(" write "))
        .collect();
    let expect = |i: u64| format!(" write {} 1537", 1_000 + i * 4_097);
    assert_eq!(writes.len(), 20, "{log}");
    assert!(
        (0..)
            .zip(&writes)
            .all(|(i, line)| line.ends_with(&expect(i))),
        "{log}"
    );
    let told = text(&output.stderr);
    for part in [
        "parts of microseconds",
        "20 of 20 operations are not of whole sectors",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let part = lab.run(&["export", "--format", "iolog", "odd.toml", "--for", "10ms"]);
    let told = text(&part.stderr);
    assert!(told.contains("of 20 requests: the log ends"), "{told}");
    // Every request is played once, the last one too.
    let traced = lab.run(&["run", "odd.toml", "--trace-ops", "100", "--json"]);
    let traced: serde_json::Value = serde_json::from_slice(&traced.stdout).unwrap();
    let traced = traced.as_array().unwrap();
    assert_eq!(traced.len(), 20);
    assert_eq!(traced[19]["offset"], 1_000 + 19 * 4_097);
    assert_eq!(traced[19]["bytes"], 1537);
}

#[test]
fn a_file_that_is_not_the_models_is_not_read() {
    let lab = lab_with(&[("odd.csv", odd_places())]);
    fitted(&lab, "odd.csv", &[], "odd.toml");
    let file = std::fs::File::create(lab.path("odd.requests")).unwrap();
    file.set_len(1 << 40).unwrap();
    let output = lab.run(&["run", "odd.toml", "--trace-ops", "1"]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("belongs to the model"), "{errors}");
}

#[test]
fn requests_of_one_tick_are_spread_and_said_so_and_one_tick_is_no_load() {
    // Thirty requests in each of sixty seconds, in whole seconds.
    let row = |i: u64| format!("{},{},8,{},7\n", 1_538_323_200 + i / 30, i * 8, i % 2);
    let many: String = (0..1_800).map(row).collect();
    let one: String = (0..1_800).map(|i| row(i % 30)).collect();
    let lab = lab_with(&[("many", many), ("one", one)]);
    let profile = lab.run(&["profile", "many"]);
    let told = text(&profile.stdout);
    assert!(
        told.contains("its clock has a resolution of 1.00 s"),
        "{told}"
    );
    assert!(
        !told.contains("Between starts") && !told.contains("in 10.0 ms"),
        "{told}"
    );
    let fit = lab.run(&["fit", "many", "-o", "many.toml"]);
    let (told, errors) = (text(&fit.stdout), text(&fit.stderr));
    assert_eq!(fit.status.code(), Some(0), "{told}{errors}");
    assert!(
        errors.contains("1800 requests share their start"),
        "{errors}"
    );
    assert!(!told.contains("times between requests, decades"), "{told}");
    let log = lab.run(&["export", "--format", "iolog", "many.toml", "--for", "2m"]);
    let log = text(&log.stdout);
    let last = log
        .lines()
        .rfind(|line| line.contains(" data ") && line.contains("4096"));
    let last: u64 = last
        .and_then(|line| line.split(' ').next()?.parse().ok())
        .unwrap();
    assert!((59_500_000..60_000_000).contains(&last), "{last}");
    let fit = lab.run(&["fit", "one"]);
    let errors = text(&fit.stderr);
    assert_eq!(fit.status.code(), Some(2), "{errors}");
    assert!(errors.contains("have one start"), "{errors}");
}
