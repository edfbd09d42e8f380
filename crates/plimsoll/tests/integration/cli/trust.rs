// SPDX-License-Identifier: Apache-2.0
//! Files that would start programs: refused without `--trust FILE`, told by a dry run, started with it.

use crate::support::{Lab, Loop, skipped, text};
use std::process::Output;

/// A kind of file that starts `touch SENTINEL`: its name, its text, and the command that uses it.
type Starter = (&'static str, fn(&Lab, &str) -> String, &'static str);

fn campaign(workload: &str) -> String {
    format!(
        "format = \"1.1\"\nblocks = 1\n[[target]]\ntarget = \"a\"\n\
         [[workload]]\nname = \"harmless read test\"\nworkload = \"{workload}\"\n"
    )
}

/// The experiment of the manual, with another command.
fn experiment(lab: &Lab, command: &str) -> String {
    let text = std::fs::read_to_string(super::repro::example(lab)).unwrap();
    let mut file: toml::Table = toml::from_str(&text).unwrap();
    let part = &mut file["part"].as_array_mut().unwrap()[0];
    let command: toml::Table = toml::from_str(&format!("{command}\nminutes = 0.1")).unwrap();
    part["quick"] = toml::Value::Table(command);
    toml::to_string(&file).unwrap()
}

const STARTERS: [Starter; 8] = [
    (
        "c.toml",
        |_, s| campaign(&format!("cmd:touch {s}")),
        "compare --campaign c.toml --no-self-test",
    ),
    (
        "s.toml",
        |_, s| campaign(&format!("size:touch {s}")),
        "compare --campaign s.toml --no-self-test",
    ),
    (
        "gate.toml",
        |_, s| {
            format!(
                "format = \"1.1\"\n[build]\ncommand = \"touch {s}\"\nfiles = [\"x\"]\n\
                 [[workload]]\nworkload = \"randread\"\n"
            )
        },
        "gate --against a",
    ),
    (
        "mine/run.toml",
        |lab, s| {
            experiment(
                lab,
                &format!("run = [\"run\", \"cmd:touch {s}\", \"a\", \"--no-self-test\"]"),
            )
        },
        "repro mine/run.toml",
    ),
    (
        "mine/before.toml",
        |lab, s| {
            experiment(
                lab,
                &format!(
                    "before = [[\"run\", \"cmd:touch {s}\", \"a\"]]\nrun = [\"run\", \"randread,size=1m\", \"null\"]"
                ),
            )
        },
        "repro mine/before.toml",
    ),
    (
        "mine/hosts.toml",
        |lab, s| {
            experiment(
                lab,
                &format!(
                    "run = [\"run\", \"randread,size=1m\", \"null\", \"--clients\", \"exec:1:touch {s}\", \"--wait-for-clients\", \"1s\"]"
                ),
            )
        },
        "repro mine/hosts.toml",
    ),
    ("own.toml", |_, s| own(s), "stack up ./own.toml"),
    (
        "own.toml",
        |_, s| own(s),
        "run randread,size=1m ./own.toml --for 100ms --no-self-test",
    ),
];

fn own(sentinel: &str) -> String {
    format!(
        "description = \"d\"\nmount_dir = \"{{dir}}\"\n\
         [[step]]\nwhy = \"w\"\napply = [\"touch\", \"{sentinel}\"]\nundo = []\n"
    )
}

fn with(lab: &Lab, command: &str, more: &[&str]) -> Output {
    let words: Vec<&str> = command.split(' ').chain(more.iter().copied()).collect();
    lab.run(&words)
}

#[test]
fn a_file_starts_a_program_only_when_it_is_trusted() {
    for (name, text_of, command) in STARTERS {
        let lab = Lab::new();
        lab.directory("a");
        lab.directory("mine");
        std::fs::write(lab.path("a/x"), "built before").unwrap();
        let sentinel = lab.path("SENTINEL");
        let shown = sentinel.display().to_string();
        std::fs::write(lab.path(name), text_of(&lab, &shown)).unwrap();
        std::fs::write(lab.path("beside.toml"), "").unwrap();
        for more in [&[][..], &["--trust", "beside.toml"]] {
            let output = with(&lab, command, more);
            let told = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command}: {told}");
            assert!(
                told.contains(&format!("touch {shown}")),
                "{command}: {told}"
            );
            assert!(told.contains("add --trust"), "{command}: {told}");
            assert!(!sentinel.exists(), "{command} {more:?}");
        }
        let dry = with(&lab, command, &["--dry-run"]);
        let told = text(&dry.stderr) + &text(&dry.stdout);
        assert_eq!(dry.status.code(), Some(0), "{command}: {told}");
        assert!(told.contains("it would be refused"), "{command}: {told}");
        assert!(
            told.contains(&format!("touch {shown}")),
            "{command}: {told}"
        );
        assert!(!sentinel.exists(), "{command} --dry-run");
        let dry = with(&lab, command, &["--dry-run", "--trust", name]);
        let told = text(&dry.stderr) + &text(&dry.stdout);
        assert_eq!(dry.status.code(), Some(0), "{command}: {told}");
        assert!(!told.contains("would be refused"), "{command}: {told}");
        assert!(
            told.contains(&format!("touch {shown}")),
            "{command}: {told}"
        );
        assert!(!sentinel.exists(), "{command} --dry-run --trust {name}");
        let output = with(&lab, command, &["--trust", name]);
        let told = text(&output.stderr);
        // A fleet is asked for by its own word; its hosts never come.
        if !command.contains("hosts") {
            assert!(sentinel.exists(), "{command} --trust {name}: {told}");
        }
        assert!(!told.contains("add --trust"), "{command}: {told}");
        lab.run(&["raze"]);
    }
}

#[test]
fn what_a_person_types_needs_no_trust() {
    let lab = Lab::new();
    lab.directory("a");
    let typed = lab.path("typed");
    let workload = format!("cmd:touch {}", typed.display());
    let output = lab.run(&["run", &workload, "a", "--no-self-test"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(typed.exists());
    let missing = lab.run(&[
        "run",
        "cmd:true",
        "a",
        "--no-self-test",
        "--trust",
        "none.toml",
    ]);
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing.stderr));
}

/// A file cannot say that it is trusted, nor that a device may be overwritten.
#[test]
fn a_file_consents_to_nothing() {
    let lab = Lab::new();
    lab.directory("a");
    lab.directory("mine");
    for word in ["--trust=mine/e.toml", "--destroy", "--destroy=/dev/sda"] {
        let run = format!("run = [\"run\", \"randread,size=1m\", \"null\", \"{word}\"]");
        std::fs::write(lab.path("mine/e.toml"), experiment(&lab, &run)).unwrap();
        for more in [&[][..], &["--trust", "mine/e.toml"]] {
            let output = with(&lab, "repro mine/e.toml", more);
            let told = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{word}: {told}");
            assert!(told.contains("cannot consent"), "{word}: {told}");
        }
    }
    for key in ["trust = true", "destroy = true"] {
        let whole = campaign("randread").replacen('\n', &format!("\n{key}\n"), 1);
        std::fs::write(lab.path("c.toml"), whole).unwrap();
        let output = lab.run(&["compare", "--campaign", "c.toml", "--trust", "c.toml"]);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{key}: {}",
            text(&output.stderr)
        );
    }
}

/// A device that a campaign or an experiment names is overwritten only if the command line says so.
#[test]
fn a_file_that_names_a_device_does_not_overwrite_it() {
    let lab = Lab::new();
    lab.directory("mine");
    let image = lab.path("image");
    std::fs::write(&image, vec![0x5a; 48 << 20]).unwrap();
    let Some(device) = Loop::over(&image.display().to_string()) else {
        return skipped("devices in files", "no loop devices here");
    };
    let named = campaign("randwrite,size=1m").replace("\"a\"", &format!("\"{}\"", device.path()));
    std::fs::write(lab.path("c.toml"), named).unwrap();
    let run = format!(
        "run = [\"run\", \"randwrite,size=1m\", \"{}\", \"--for\", \"100ms\"]",
        device.path()
    );
    std::fs::write(lab.path("mine/e.toml"), experiment(&lab, &run)).unwrap();
    let before = std::fs::read(&image).unwrap();
    for command in [
        "compare --campaign c.toml --no-self-test --for 100ms --trust c.toml",
        "repro mine/e.toml --trust mine/e.toml",
    ] {
        let output = with(&lab, command, &[]);
        let told = text(&output.stderr);
        assert_ne!(output.status.code(), Some(0), "{command}: {told}");
        assert!(told.contains("--destroy"), "{command}: {told}");
        assert_eq!(std::fs::read(&image).unwrap(), before, "{command}");
    }
    let granted = with(&lab, "repro mine/e.toml --destroy", &[]);
    assert_ne!(
        std::fs::read(&image).unwrap(),
        before,
        "{}",
        text(&granted.stderr)
    );
}
