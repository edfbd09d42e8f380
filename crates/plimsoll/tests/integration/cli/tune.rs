// SPDX-License-Identifier: Apache-2.0
//! The search for settings as a user starts it, on simulated devices in virtual time.

use crate::support::{Lab, text};

/// A device with thirteen settings of which one is bad: a limit on operations.
const THROTTLED: &str = "sim(queue+raid5+cache+network+throttle,iops=1500)";

/// Ten of them: those that say how fast the device is, and the bad one.
const TEN: &str = "queue.service,queue.servers,queue.law,queue.rate,raid5.chunk,cache.size,cache.hit,\
                   network.rtt,network.rate,throttle.iops";

fn tune<'a>(target: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let begin = [
        "tune",
        target,
        "-w",
        "randread,size=64M,depth=8",
        "--warmup",
        "0s",
    ];
    [&begin[..], more].concat()
}

fn settings(json: &serde_json::Value) -> usize {
    json["settings"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_planted_bad_setting_among_ten_is_found_and_proved_in_a_third_of_the_runs() {
    let lab = Lab::new();
    let args = tune(
        THROTTLED,
        &[
            "--settings",
            TEN,
            "--for",
            "500ms",
            "--seed",
            "3",
            "--json",
            "-o",
            "t",
        ],
    );
    let json = lab.json(&args);
    assert_eq!(settings(&json), 10);
    let of = |name: &str| {
        let all = json["settings"].as_array().unwrap().iter();
        all.clone()
            .find(|one| one["setting"] == name)
            .unwrap()
            .clone()
    };
    let planted = of("throttle.iops");
    assert_eq!(planted["proof"]["better"], true, "{json:#}");
    assert_eq!(planted["proof"]["verdict"], "different");
    assert!(
        planted["proof"]["faster"]["low"].as_f64().unwrap() > 1.2,
        "{planted:#}"
    );
    let suggestion = json["suggestion"].as_str().unwrap();
    assert!(suggestion.contains("throttle,iops=0"), "{suggestion}");
    let runs = json["screening_runs"].as_f64().unwrap();
    assert!(
        runs <= json["one_at_a_time_runs"].as_f64().unwrap() / 3.0,
        "{json:#}"
    );
    assert_eq!(json["complete"], true);
    // Every step is a run folder of its own, and reports as any other.
    for step in ["t/screening", "t/proof"] {
        let report = lab.run(&["report", step]);
        assert_eq!(report.status.code(), Some(0), "{}", text(&report.stderr));
    }
    // The same command again reads what is there.
    let again = lab.json(&args);
    assert_eq!(again, json);
}

#[test]
fn a_device_without_a_bad_setting_has_nothing_to_suggest() {
    let lab = Lab::new();
    let json = lab.json(&tune(
        "sim(queue+throttle)",
        &[
            "--settings",
            "queue.law=exponential,throttle.burst",
            "--for",
            "500ms",
            "--seed",
            "5",
            "--json",
        ],
    ));
    assert_eq!(json["suggestion"], serde_json::Value::Null, "{json:#}");
}

#[test]
fn a_stopped_search_says_what_it_knows_and_goes_on_with_the_same_command() {
    let lab = Lab::new();
    let short = tune(
        THROTTLED,
        &["--for", "1s", "--budget", "1ms", "--seed", "3", "-o", "t"],
    );
    let output = lab.run(&short);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("It ended early"), "{said}");
}

#[test]
fn a_dry_run_shows_settings_and_combinations_and_does_nothing() {
    let lab = Lab::new();
    let args = [
        "tune",
        "nbd(write_delay=5ms)",
        "-w",
        "randwrite,size=16M",
        "--dry-run",
    ];
    let output = lab.run(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    for wanted in [
        "write_delay",
        "read_ahead",
        "noatime",
        "nbd(write_delay=5ms)",
        "16 combinations",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    for unwanted in ["writeback", "barrier", "read_delay"] {
        assert!(!said.contains(unwanted), "{unwanted}: {said}");
    }
    let risky = lab.json(&[&args[..], &["--risky", "--json"]].concat());
    let cache = risky["settings"].as_array().unwrap().iter();
    let cache = cache.clone().find(|one| one["setting"] == "cache").unwrap();
    assert_eq!(cache["to"], "writeback");
    assert!(!cache["risk"].as_str().unwrap().is_empty());
    assert!(!lab.path("plimsoll-results").exists());
}

#[test]
fn mistakes_are_named_before_anything_is_done() {
    let lab = Lab::new();
    for (args, expect) in [
        (
            &["tune", "nosuch", "-w", "randread"][..],
            "unknown stack 'nosuch'",
        ),
        (
            &["tune", "local", "-w", "randread"],
            "has no settings to try",
        ),
        (
            &["tune", "nbd", "-w", "randread", "--settings", "thread"],
            "did you mean 'threads'",
        ),
        (
            &[
                "tune",
                "nbd",
                "-w",
                "randread",
                "--settings",
                "cache=writeback",
            ],
            "weakens durability",
        ),
        (
            &["tune", "nbd", "-w", "randread", "--effect", "5"],
            "1% to 100%",
        ),
        (&["tune", "sim", "-w", "nosuch"], "nosuch"),
    ] {
        let output = lab.run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(expect), "{args:?}: {said}");
    }
    assert!(!lab.path("plimsoll-results").exists());
}
