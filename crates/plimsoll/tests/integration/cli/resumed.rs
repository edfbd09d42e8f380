// SPDX-License-Identifier: Apache-2.0
//! Run folders of a stranger that are "resumed": no program that they name is started.

use crate::support::{Lab, text};
use plimsoll_core::event::RunManifest;
use plimsoll_core::op::EngineChoice;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::commands::CommandOutputFormat;
use std::path::Path;

/// Change of a manifest by a stranger.
type Change = (&'static str, fn(&mut RunManifest, &str));

/// A workload that would make the sentinel.
fn program(of: &str, sentinel: &str) -> Workload {
    plimsoll_classics::originals::workload(of, &format!("touch {sentinel}"), None).unwrap()
}

fn of_fio(sentinel: &str) -> Workload {
    let Workload::Commands(mut commands) = program("cmd", sentinel) else {
        panic!("a program");
    };
    commands.name = "fio:job.fio".into();
    commands.phases[0].output = CommandOutputFormat::Fio;
    Workload::Commands(commands)
}

const CHANGES: &[Change] = &[
    ("a program", |manifest, sentinel| {
        manifest.entries[0].workload = program("cmd", sentinel);
    }),
    ("one whose size is taken", |manifest, sentinel| {
        manifest.entries[0].workload = program("size", sentinel);
    }),
    ("fio", |manifest, sentinel| {
        manifest.entries[0].workload = of_fio(sentinel);
    }),
    ("a program before it", |manifest, sentinel| {
        let Workload::Commands(extra) = program("cmd", sentinel) else {
            panic!("a program");
        };
        match &mut manifest.entries[0].workload {
            Workload::Commands(commands) => commands.prepare.extend(extra.phases),
            other => *other = Workload::Commands(extra),
        }
    }),
    ("another workload beside it", |manifest, sentinel| {
        let mut entry = manifest.entries[0].clone();
        entry.label = "more".into();
        entry.workload = program("cmd", sentinel);
        manifest.entries.push(entry);
    }),
    ("another size", |manifest, _| {
        match &mut manifest.entries[0].workload {
            Workload::Blocks(blocks) => blocks.groups[0].extent.bytes *= 1024,
            Workload::Commands(commands) => commands.data_bytes = 1 << 40,
            other => other.rename("more".into()),
        }
    }),
    ("another kind", |manifest, _| {
        manifest.entries[0].workload = Workload::idle("cmd");
    }),
    ("another system", |manifest, sentinel| {
        manifest.arms[0].target = sentinel.into();
    }),
    ("another length", |manifest, _| {
        manifest.entries[0].length = Nanos(1 << 50);
    }),
    ("more blocks", |manifest, _| manifest.blocks = 900),
    ("an order of its own", |manifest, _| {
        manifest.balanced = true;
    }),
    ("another engine", |manifest, _| {
        manifest.campaign.as_mut().unwrap().trial.engine = EngineChoice::Uring;
    }),
    ("a campaign that is not known", |manifest, _| {
        manifest.campaign = None;
    }),
];

/// The folder once more, with a manifest that was changed and sealed again as the program does it.
fn forged(from: &Path, to: &Path, change: impl FnOnce(&mut RunManifest)) {
    let mut manifest = plimsoll_archive::manifest(from).unwrap();
    change(&mut manifest);
    drop(plimsoll_archive::RunFolderWriter::create(to, &manifest).unwrap());
    std::fs::copy(from.join("events.jsonl"), to.join("events.jsonl")).unwrap();
}

/// An interrupted comparison under this workload, and whether it goes on with a folder that was changed.
fn check(workload: &str) {
    let lab = Lab::new();
    let targets = [lab.directory("a"), lab.directory("b")];
    let sentinel = lab.path("SENTINEL");
    let words = [
        "compare", "a", "b", "-w", workload, "--for", "200ms", "--warmup", "0s", "--blocks", "3",
    ];
    let words = [&words[..], &["--no-self-test", "-o", "run"]].concat();
    let mut child = lab.start(&words);
    lab.wait_for_text("run", "\"trial_ended\"");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lab.run(&["raze"]).status.success());
    let kept = lab.path("kept");
    std::fs::rename(lab.path("run"), &kept).unwrap();
    for (at, (what, change)) in CHANGES.iter().enumerate() {
        forged(&kept, &lab.path("run"), |manifest| {
            change(manifest, &sentinel.display().to_string());
        });
        let before = std::fs::read(lab.path("run/events.jsonl")).unwrap();
        // Neither does a dry run show a plan that is then refused.
        for words in [&words[..], &[&words[..], &["--dry-run"]].concat()] {
            let output = lab.run(words);
            let told = text(&output.stderr);
            assert!(!sentinel.exists(), "{workload}: {what} was started: {told}");
            assert_eq!(output.status.code(), Some(2), "{workload}: {what}: {told}");
            assert!(told.contains("resume the run in run: "), "{told}");
        }
        let after = std::fs::read(lab.path("run/events.jsonl")).unwrap();
        assert_eq!(before, after, "{workload}: {what}: nothing was measured");
        for target in &targets {
            assert_eq!(std::fs::read_dir(target).unwrap().count(), 0, "{what}");
        }
        std::fs::rename(lab.path("run"), lab.path(&format!("run-{at}"))).unwrap();
    }
    // Sealed anew but as it was, it goes on.
    forged(&kept, &lab.path("run"), |_| ());
    let output = lab.run(&words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("resuming the run in run"));
}

#[test]
fn a_folder_of_a_stranger_starts_no_program_when_a_program_is_resumed() {
    check("cmd:sleep 0.2");
}

#[test]
fn a_folder_of_a_stranger_starts_no_program_when_a_load_is_resumed() {
    check("randread,size=1m");
}

/// The words of a comparison, with one of them put in the place of another, or added at the end.
fn changed<'a>(words: &[&'a str], from: &str, to: &'a str) -> Vec<&'a str> {
    let mut changed = words.to_vec();
    match words.iter().position(|word| *word == from) {
        Some(at) => changed[at] = to,
        None => changed.extend(to.split(' ')),
    }
    changed
}

/// A word of the command, its replacement, and the difference that the error must name.
const OTHERS: &[(&str, &str, &str)] = &[
    ("7", "8", "seed is 7 there, and 8 by this command"),
    (
        "b",
        "c",
        "arms[1].name is \"b\" there, and \"c\" by this command",
    ),
    ("randread,size=1m", "randwrite,size=1m", "workloads[0]"),
    (
        "randread,size=1m",
        "randread,size=2m",
        "workloads[0] is \"randread size=1m\" there",
    ),
    ("200ms", "300ms", "entries[0].length"),
    ("0s", "100ms", "campaign.trial.warmup"),
    ("3", "4", "blocks is 3 there, and 4 by this command"),
    (
        "--no-self-test",
        "--no-record",
        "campaign.trial.verify is false there",
    ),
    (
        "",
        "--engine sync",
        "campaign.trial.engine is \"auto\" there",
    ),
    ("", "--margin 0.1", "policy.margin is 0.05 there"),
    ("", "--no-control", "arms["),
];

/// A comparison of nine short trials.
const WORDS: &str = "compare a b -w randread,size=1m --for 200ms --warmup 0s --seed 7 --blocks 3 --no-self-test -o run";

#[test]
fn a_run_is_gone_on_with_by_what_it_measures_and_not_by_its_words() {
    let lab = Lab::new();
    let _ = ["a", "b", "c"].map(|name| lab.directory(name));
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let mut child = lab.start(&words);
    lab.wait_for_text("run", "\"trial_ended\"");
    child.kill().unwrap();
    child.wait().unwrap();
    let before = std::fs::read(lab.path("run/events.jsonl")).unwrap();
    for (from, to, place) in OTHERS {
        let output = lab.run(&changed(&words, from, to));
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{to}: {told}");
        let expect = format!("resume the run in run: {place}");
        assert!(told.contains(&expect), "{to}: {told}");
        let after = std::fs::read(lab.path("run/events.jsonl")).unwrap();
        assert_eq!(before, after, "{to}: nothing was measured");
    }
    // Directories of these names elsewhere.
    let elsewhere = tempfile::tempdir().unwrap();
    let _ = ["a", "b"].map(|name| std::fs::create_dir(elsewhere.path().join(name)).unwrap());
    let folder = lab.path("run").display().to_string();
    let output = lab
        .command(&changed(&words, "run", &folder))
        .current_dir(elsewhere.path())
        .output()
        .unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("arms[0].facts.path is \"/"), "{told}");
    // The campaign, saved by words in another order, and with another seed.
    let saved = "compare --save same.toml -w randread,size=1m --no-self-test a b --for 200ms --warmup 0s --blocks 3";
    for (words, code) in [(saved, Some(0)), (saved, Some(2))] {
        let output = lab.run(&words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(output.status.code(), code, "{}", text(&output.stderr));
    }
    let wrong = lab.run(&["run", "same.toml", "--seed", "9", "-o", "run"]);
    let told = text(&wrong.stderr);
    assert!(
        told.contains("seed is 7 there, and 9 by this command"),
        "{told}"
    );
    // Other words, until their time is over.
    let same = "compare -o ./run --blocks=3 --seed=7 --no-self-test --warmup 0ms --for 0.2s a b \
                --workload randread,size=1m --no-record --progress off --budget 600ms";
    let output = lab.run(&same.split_whitespace().collect::<Vec<_>>());
    let told = text(&output.stderr);
    assert!(told.contains("resuming the run in ./run"), "{told}");
    assert!(told.contains("the time of --budget is over"), "{told}");
    // The folder itself, which was put elsewhere.
    let moved = elsewhere.path().join("moved");
    std::fs::rename(lab.path("run"), &moved).unwrap();
    let output = lab.run(&["run", &moved.display().to_string(), "--budget", "600ms"]);
    let told = text(&output.stderr);
    assert!(told.contains("resuming the run in /"), "{told}");
    assert!(told.contains("the time of --budget is over"), "{told}");
    std::fs::rename(&moved, lab.path("run")).unwrap();
    // The file, from a directory in which the names are others.
    let file = lab.path("same.toml").display().to_string();
    let output = lab
        .command(&["run", &file, "-o", &folder])
        .current_dir(elsewhere.path())
        .output()
        .unwrap();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("resuming the run in "), "{told}");
    let shown = lab.json(&["report", "run", "--json"]);
    assert_eq!(shown["trials"].as_array().unwrap().len(), 9);
}
