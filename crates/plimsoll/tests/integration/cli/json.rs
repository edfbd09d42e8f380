// SPDX-License-Identifier: Apache-2.0
//! Output of `--json` is as `docs/json.md` says; a command that fails prints nothing for programs.

use super::verify::{diskstats, lab_with};
use crate::support::{Lab, text};

/// The row of the page that begins with this command.
fn row(page: &str, command: &str) -> String {
    let cell = format!("`{command}`");
    let is_it = |line: &&str| {
        let first = line
            .strip_prefix("| ")
            .and_then(|rest| rest.split(" | ").next());
        first.is_some_and(|first| first.split(", ").any(|name| name == cell))
    };
    let found = page.lines().find(is_it);
    found
        .unwrap_or_else(|| panic!("docs/json.md has no row of {command}"))
        .to_owned()
}

/// Commands by their row of the page, and keys that they print.
const CASES: [(&str, &[&str], &[&str]); 15] = [
    (
        "fit",
        &["fit", "mon", "--json"],
        &["profile", "fidelity", "facts", "warnings"],
    ),
    (
        "verify",
        &["verify", "m.toml", "--against", "mon", "--json"],
        &["passed", "verification"],
    ),
    (
        "mix",
        &["mix", "m.toml", "m.toml", "-o", "mix.toml", "--json"],
        &[
            "file",
            "members",
            "requests",
            "length_ns",
            "working_set_bytes",
            "fidelity",
        ],
    ),
    (
        "export",
        &["export", "randread", "--format", "fio", "--json"],
        &["file", "text", "lost"],
    ),
    (
        "export",
        &[
            "export", "m.toml", "--format", "plimsoll", "-o", "e.toml", "--json",
        ],
        &["file", "fidelity"],
    ),
    (
        "diff",
        &["diff", "one", "two", "--json"],
        &["before", "after", "surroundings", "results", "unmatched"],
    ),
    (
        "report",
        &["report", "one", "--json"],
        &[
            "folder",
            "id",
            "seed",
            "complete",
            "comparisons",
            "load_lines",
            "warnings",
            "trials",
        ],
    ),
    (
        "run",
        &[
            "run",
            "randread,size=1M",
            "null",
            "--for",
            "100ms",
            "--warmup",
            "0s",
            "--json",
        ],
        &[
            "folder",
            "id",
            "seed",
            "complete",
            "comparisons",
            "load_lines",
            "warnings",
            "trials",
        ],
    ),
    (
        "any of them with `--dry-run",
        &[
            "compare",
            "sim(flash)",
            "sim(disk)",
            "-w",
            "randread",
            "--dry-run",
            "--json",
        ],
        &["would", "seed", "length_ns", "trials", "searches"],
    ),
    (
        "new",
        &["new", "stack", "--json"],
        &["file", "schema", "try"],
    ),
    ("vm status", &["vm", "status", "--json"], &["machines"]),
    (
        "raze",
        &["raze", "--json"],
        &["journals", "steps_undone", "files_removed", "left"],
    ),
    (
        "raze --dry-run",
        &["raze", "--dry-run", "--json"],
        &["would"],
    ),
    (
        "vm down --dry-run",
        &["vm", "down", "--dry-run", "--json"],
        &["would"],
    ),
    (
        "record",
        &["record", "--for", "1s", "-o", "rec", "--json"],
        &["node", "recording", "bytes", "samples"],
    ),
];

#[test]
fn commands_print_the_keys_that_the_page_names() {
    let page = include_str!("../../../../../docs/json.md");
    let lab = lab_with(&[("mon", diskstats(1))]);
    let fit = ["fit", "mon", "-o", "m.toml"];
    assert_eq!(lab.run(&fit).status.code(), Some(0));
    let short = ["--for", "100ms", "--warmup", "0s", "-o"];
    for folder in ["one", "two"] {
        let run = [&["run", "randread,size=1M", "null"][..], &short, &[folder]].concat();
        let output = lab.run(&run);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    for (command, args, keys) in CASES {
        let printed = lab.json(args);
        let row = match command.contains('`') {
            true => page
                .lines()
                .find(|line| line.contains(command))
                .unwrap()
                .to_owned(),
            false => row(page, command),
        };
        for key in keys {
            assert!(
                printed.get(key).is_some(),
                "{args:?} prints no {key}: {printed}"
            );
            assert!(
                row.contains(&format!("`{key}`")),
                "docs/json.md does not name {key} of {command}"
            );
        }
    }
    let listed = lab.json(&["workloads", "varmail", "--json"]);
    for key in ["name", "about", "settings"] {
        assert!(listed[0].get(key).is_some() && row(page, "workloads").contains(key));
    }
    let shown = lab.json(&["stack", "show", "raid1", "--json"]);
    for key in ["name", "about", "settings", "missing"] {
        assert!(shown.get(key).is_some() && row(page, "stack show").contains(key));
    }
    let checks = lab.json(&["doctor", "--json"]);
    for key in ["name", "ok", "found", "needed_for", "remedy"] {
        assert!(
            checks["checks"][0].get(key).is_some() && row(page, "doctor").contains(key),
            "{key}: {checks}"
        );
    }
}

#[test]
fn a_command_that_fails_prints_nothing_for_programs() {
    let lab = Lab::new();
    let commands: [&[&str]; 18] = [
        &["run", "nosuch", "null"],
        &["compare", "null", "null", "-w", "nosuch"],
        &["loadline", "null", "-w", "randread"],
        &["fit", "nothere"],
        &["profile", "nothere"],
        &["verify", "nothere", "--against", "nothere"],
        &["mix", "nothere", "nothere", "-o", "x.toml"],
        &["export", "nosuch", "--format", "fio"],
        &["import", "nothere"],
        &["report", "nothere"],
        &["diff", "nothere", "nothere"],
        &["stack", "show", "nosuch"],
        &["stack", "up", "nosuch"],
        &["workloads", "nosuch"],
        &["ledger", "check", ".", "--ledger", "nothere"],
        &["record", "--disk", "nosuch"],
        &["vm", "off", "n1"],
        &["new", "nosuch"],
    ];
    for args in commands {
        let output = lab.run(&[args, &["--json"]].concat());
        let code = output.status.code();
        assert!(matches!(code, Some(1 | 2)), "{args:?}: {code:?}");
        assert_eq!(text(&output.stdout), "", "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn the_gate_of_the_examples_passes_and_fails_as_its_page_says() {
    let lab = Lab::new();
    let gate = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ci/gate.sh");
    for (candidate, code, word) in [
        ("sim(flash)", "0", "failures=\"0\""),
        ("sim(disk)", "10", "<failure"),
    ] {
        let folder = lab.path(&format!("gate-{code}"));
        let folder = folder.to_str().unwrap();
        let line = format!(
            "PLIMSOLL={} PLIMSOLL_STATE={} {gate} {folder} 'sim(flash)' '{candidate}' -w randread,size=64M --for 2s \
             >/dev/null 2>&1; echo $?",
            env!("CARGO_BIN_EXE_plimsoll"),
            lab.path("state").display(),
        );
        let ended = crate::support::program("sh", &["-c", &line]).unwrap();
        assert_eq!(ended.trim(), code, "{candidate}");
        let junit = std::fs::read_to_string(format!("{folder}/junit.xml")).unwrap();
        assert!(junit.contains(word), "{junit}");
        let summary = std::fs::read_to_string(format!("{folder}/summary.md")).unwrap();
        assert!(summary.contains("randread"), "{summary}");
    }
}
