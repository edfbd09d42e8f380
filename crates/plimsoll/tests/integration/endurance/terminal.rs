// SPDX-License-Identifier: Apache-2.0
//! The terminal goes away, the output has no reader, or the output goes to a full disk.

use super::commands::{files_below, left, prepared};
use crate::support::{Lab, pause, program, skipped, text};
use std::fs::{self, File};
use std::process::{Output, Stdio};

/// Commands that print results.
const PRINTERS: &[&str] = &[
    "report done",
    "report done --json",
    "profile mon --disk sda",
    "verify m.toml --against mon",
    "diff done done --json",
    "export m.toml --format fio",
    "run randread --trace-ops 20000",
    "stack list",
    "workloads",
    "raze --json",
    "--help",
];

fn printed_to(lab: &Lab, words: &str, out: Stdio) -> Output {
    let mut command = lab.command(&words.split(' ').collect::<Vec<_>>());
    command.stdout(out).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .expect("the program was built for this test");
    // The pipe has no reader from now on.
    drop(child.stdout.take());
    child.wait_with_output().expect("it was started here")
}

#[test]
fn a_reader_that_goes_away_is_no_failure_and_a_full_disk_is_one() {
    let lab = prepared();
    for words in PRINTERS {
        let output = printed_to(&lab, words, Stdio::piped());
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words}: {errors}");
        assert!(!errors.contains("panicked"), "{words}: {errors}");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = printed_to(&lab, words, full.into());
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}: {errors}");
        let wanted = "error: failed to write to standard output: No space left on device";
        assert!(errors.contains(wanted), "{words}: {errors}");
    }
}

/// Commands that go on until they are ended, with the file that shows that they are at work.
const LASTING: &[(&str, &str)] = &[
    (
        "run randwrite,size=1m target --for 15m --no-self-test -o run",
        "run/events.jsonl",
    ),
    (
        "compare other other -w randwrite,size=1m --for 15m --blocks 9 --no-self-test -o compared",
        "compared/events.jsonl",
    ),
    (
        "ledger write kept --ledger ledger --size 1MiB --for 15m --rate 20",
        "ledger",
    ),
    ("record -o rec --for 15m", "rec.0"),
    ("serve runs --listen 127.0.0.1:0", "runs"),
];

/// As when a window is closed or a connection of ssh breaks: SIGHUP, and a terminal that is gone.
#[test]
fn a_terminal_that_is_closed_ends_what_runs_on_it_and_leaves_nothing() {
    let lab = prepared();
    if program("script", &["--version"]).is_none() {
        return skipped(
            "a terminal that is closed",
            "script (util-linux) is missing here",
        );
    }
    let plimsoll = env!("CARGO_BIN_EXE_plimsoll");
    fs::create_dir(lab.path("runs")).unwrap();
    let mut all = Vec::new();
    for (words, shows) in LASTING {
        let number = all.len();
        let line = format!("echo $$ > pid{number}; exec {plimsoll} {words} 2> said{number}");
        let mut script = lab.command_of("script", &["-qec", &line, "/dev/null"]);
        script.stdout(Stdio::null()).stderr(Stdio::null());
        let child = script.spawn().expect("it is there");
        all.push((words, lab.path(shows), child));
    }
    for (words, shows, _) in &all {
        let is_at_work = || {
            shows
                .metadata()
                .is_ok_and(|data| data.is_dir() || data.len() > 0)
        };
        // Five minutes, which end only what hangs, here and below.
        for _ in 0..3000 {
            if is_at_work() {
                break;
            }
            pause(100);
        }
        assert!(is_at_work(), "{words}");
    }
    pause(1500);
    for (_, _, terminal) in &mut all {
        terminal.kill().unwrap();
        terminal.wait().unwrap();
    }
    for (number, (words, ..)) in all.iter().enumerate() {
        let pid = fs::read_to_string(lab.path(&format!("pid{number}"))).unwrap();
        let process = format!("/proc/{}/stat", pid.trim());
        let is_there =
            || fs::read_to_string(&process).is_ok_and(|stat| stat.contains("(plimsoll)"));
        for _ in 0..3000 {
            if !is_there() {
                break;
            }
            pause(100);
        }
        let said = fs::read_to_string(lab.path(&format!("said{number}"))).unwrap_or_default();
        assert!(!is_there(), "{words}: {said}");
        assert!(!said.contains("panicked"), "{words}: {said}");
    }
    check_nothing_left(&lab);
    // The recording until then is kept.
    let kept = [
        "report run",
        "report compared",
        "ledger check kept --ledger ledger",
        "profile rec",
    ];
    for words in kept {
        let output = lab.run(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(
            output.status.code(),
            Some(0),
            "{words}: {}",
            text(&output.stderr)
        );
    }
}

fn check_nothing_left(lab: &Lab) {
    let left = [left(lab), files_below(&lab.path("state"))].concat();
    assert!(left.is_empty(), "{left:?}");
    for place in ["target", "other"] {
        assert_eq!(fs::read_dir(lab.path(place)).unwrap().count(), 0, "{place}");
    }
}
