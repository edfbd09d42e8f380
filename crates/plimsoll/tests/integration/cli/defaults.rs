// SPDX-License-Identifier: Apache-2.0
//! Defaults of a user from a file, completions of a shell, and limits of a run.

use super::bad_input::refuses;
use crate::support::{Lab, text};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

/// The program with a configuration of this text.
fn with(lab: &Lab, configuration: &str, args: &[&str]) -> Output {
    std::fs::write(lab.path("config.toml"), configuration).unwrap();
    let path = lab.path("config.toml").display().to_string();
    lab.run_with(&[("PLIMSOLL_CONFIG", &path)], args)
}

#[test]
fn a_file_of_defaults_sets_what_was_not_typed() {
    let lab = Lab::new();
    let results = lab.path("kept").display().to_string();
    let file = format!(
        "results = \"{results}\"\n[options]\nblocks = 3\n[options.loadline]\nslo = [\"p99 < 20ms\"]\nfor = \"2m\"\n"
    );
    let targets = ["sim(flash)", "sim(disk)", "-w", "randread,size=1m"];
    let compare = [&["compare"][..], &targets, &["--for", "1s"]].concat();
    let output = with(&lab, &file, &compare);
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}{errors}");
    assert!(errors.contains("config.toml: --blocks 3"), "{errors}");
    assert!(told.contains("3 blocks"), "{told}");
    assert_eq!(std::fs::read_dir(lab.path("kept")).unwrap().count(), 1);
    // An option that is typed is stronger, and a required option may have a default.
    let typed = with(&lab, &file, &[&compare[..], &["--blocks", "2"]].concat());
    assert!(text(&typed.stdout).contains("2 blocks"));
    let search = [&["loadline"][..], &targets, &["--dry-run"]].concat();
    let search = text(&with(&lab, &file, &search).stdout);
    assert!(search.contains("p99 < 20.0 ms"), "{search}");
    assert!(search.contains("48 min"), "24 times --for: {search}");
    // Of other commands nothing changes.
    let run = [
        "run",
        "randread,size=1m",
        "sim(flash)",
        "--for",
        "1s",
        "-o",
        "r",
    ];
    assert!(!text(&with(&lab, &file, &run).stderr).contains("config.toml"));
}

/// The example of the manual.
#[test]
fn the_file_that_the_manual_shows_is_one() {
    let lab = Lab::new();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/install.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("```ini\nresults").unwrap();
    let (file, _) = rest.split_once("```").unwrap();
    let words = ["loadline", "sim", "-w", "randread", "--dry-run"];
    let told = text(&with(&lab, &format!("results{file}"), &words).stderr);
    let expected = "config.toml: --budget 20m --for 2m --slo p99 < 20ms";
    assert!(told.contains(expected), "{told}");
}

#[test]
fn a_default_gives_no_consent_and_a_mistake_is_told_with_its_place() {
    let lab = Lab::new();
    for (file, words) in [
        (
            "[options]\ndestroy = \"/dev/sda\"\n",
            "'destroy' can have no default",
        ),
        ("[options]\ntrust = \"x\"\n", "'trust' can have no default"),
        (
            "[options.compare]\nclients = \"n1\"\n",
            "'clients' can have no default",
        ),
        (
            "[options.run]\nfor = \"1s\"\n",
            "options.run: expected one of",
        ),
        ("result = \"/x\"\n", "unknown key 'result'"),
        ("results = \"x\"\n", "expected an absolute path"),
        ("[options\n", "config.toml"),
    ] {
        let output = with(
            &lab,
            file,
            &["compare", "sim", "-w", "randread", "--dry-run"],
        );
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {told}");
        assert!(told.contains(words), "{file}: {told}");
        assert!(told.contains("config.toml"), "{file}: {told}");
    }
}

/// It says where root writes.
#[test]
fn a_file_that_another_user_could_change_is_refused() {
    let lab = Lab::new();
    let compare = ["compare", "sim", "-w", "randread", "--dry-run"];
    assert!(
        with(&lab, "results = \"/tmp/x\"\n", &compare)
            .status
            .success()
    );
    let path = lab.path("config.toml");
    let all = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(&path, all).unwrap();
    let variables = [("PLIMSOLL_CONFIG", path.to_str().unwrap())];
    let told = text(&lab.run_with(&variables, &compare).stderr);
    assert!(told.contains("can be written by other users"), "{told}");
    let none = [("PLIMSOLL_CONFIG", "/dev/null")];
    assert!(lab.run_with(&none, &compare).status.success());
}

/// The candidates for the last of these words.
fn candidates(lab: &Lab, words: &[&str]) -> Vec<String> {
    let index = (words.len() - 1).to_string();
    let variables = [
        ("PLIMSOLL_COMPLETE", "bash"),
        ("_CLAP_COMPLETE_INDEX", &*index),
        ("_CLAP_IFS", "\n"),
        ("_CLAP_COMPLETE_COMP_TYPE", "9"),
    ];
    let output = lab.run_with(&variables, &[&["--"][..], words].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(String::from).collect()
}

#[test]
fn a_shell_completes_names_and_settings() {
    let lab = Lab::new();
    lab.directory("ceph-data");
    for (words, expected) in [
        (&["plimsoll", "comp"][..], &["compare", "completions"][..]),
        (&["plimsoll", "compare", "-w", "var"], &["varmail"]),
        (&["plimsoll", "run", "randread,b"], &["randread,bs="]),
        (
            &["plimsoll", "run", "randread,bs=4k,dep"],
            &["randread,bs=4k,depth="],
        ),
        (&["plimsoll", "stack", "up", "is"], &["iscsi"]),
        (&["plimsoll", "compare", "raid1(tr"], &["raid1(transport="]),
        (&["plimsoll", "compare", "cep"], &["ceph", "ceph-data/"]),
        (
            &["plimsoll", "failover", "raid1", "--fault", "kill,pau"],
            &["kill,pause"],
        ),
        (&["plimsoll", "compare", "--under", "heal"], &["healthy"]),
        (&["plimsoll", "loadline", "--sl"], &["--slo"]),
    ] {
        let found = candidates(&lab, words);
        assert_eq!(found, expected, "{words:?}");
    }
}

#[test]
fn a_run_is_held_against_its_limits() {
    let lab = Lab::new();
    let run = |target: &str, limit: &str, folder: &str| {
        let run = [
            "run",
            "randread,size=1m",
            target,
            "--for",
            "2s",
            "--slo",
            limit,
        ];
        let output = lab.run(&[&run[..], &["-o", folder]].concat());
        (output.status.code(), text(&output.stdout))
    };
    let (code, told) = run("sim(flash)", "p99 < 20ms", "kept");
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("Pass: sim(flash) keeps p99 < 20ms"), "{told}");
    let (code, told) = run("sim(disk)", "p99 < 20ms", "broken");
    assert_eq!(code, Some(10), "{told}");
    assert!(told.contains("Fail: sim(disk) breaks p99 < 20ms"), "{told}");
    let limits = &lab.json(&["report", "broken", "--json"])["limits"][0];
    assert_eq!(limits["verdict"], "fail", "{limits}");
    assert!(
        limits["value"].as_f64().unwrap() > 20e6,
        "nanoseconds: {limits}"
    );
    let (code, told) = run("sim(disk)", "p99.99 < 10s", "few");
    assert_eq!(code, Some(11), "{told}");
    assert!(told.contains("Not known: "), "{told}");
    refuses(
        &lab,
        &["run", "randread", "sim", "--slo", "p99 < 5"],
        2,
        &["5 what?"],
    );
}
