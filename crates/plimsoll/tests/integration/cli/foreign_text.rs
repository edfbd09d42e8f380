// SPDX-License-Identifier: Apache-2.0
//! Files that somebody else made: they start no programs, and their names are only text.

use super::bad_input::refuses;
use crate::support::{Lab, text};

const COMMANDS: &str = "format = \"2.0\"\n[workload.commands]\nname = \"nas\"\ndata_bytes = 4096\n\
    [[workload.commands.phases]]\nname = \"x\"\nargv = [\"touch\", \"pwned\"]\n";

#[test]
fn a_workload_file_starts_no_program() {
    let lab = Lab::new();
    let target = lab.directory("t");
    std::fs::write(lab.path("evil.toml"), COMMANDS).unwrap();
    for args in [
        &["run", "evil.toml", &target][..],
        &["run", "evil.toml", &target, "--dry-run"],
        &["compare", &target, "null", "-w", "evil.toml"],
    ] {
        refuses(&lab, args, 2, &["evil.toml", "names programs", "cmd:"]);
    }
    assert!(!lab.path("pwned").exists());
}

#[test]
fn a_job_file_that_starts_programs_is_not_given_to_the_original() {
    let lab = Lab::new();
    let target = lab.directory("t");
    for line in [
        "exec_prerun=touch pwned",
        "exec_postrun = touch pwned",
        "ioengine=external:./evil.so",
        "ioengine = exec",
        "include other.fio",
    ] {
        let job = format!("[a]\nrw=read\nsize=1m\n{line}\n");
        std::fs::write(lab.path("evil.fio"), job).unwrap();
        let words = ["evil.fio", "line 4", "start another program"];
        refuses(&lab, &["run", "fio:evil.fio", &target], 2, &words);
    }
    std::fs::write(
        lab.path("evil.f"),
        "set $x=1\n system \"touch pwned\"\nrun 1\n",
    )
    .unwrap();
    let words = ["evil.f", "line 2", "start another program"];
    refuses(&lab, &["run", "filebench:evil.f", &target], 2, &words);
}

#[test]
fn a_dry_run_shows_every_program_and_its_arguments() {
    let lab = Lab::new();
    let target = lab.directory("t");
    let args = [
        "run",
        "cmd:dd if=/dev/zero of=x bs=4k count=1",
        &target,
        "--dry-run",
    ];
    let output = lab.run(&args);
    let plan = text(&output.stdout);
    assert!(
        plan.contains("start sh -c 'dd if=/dev/zero of=x bs=4k count=1'"),
        "{plan}"
    );
}

/// What a terminal would act on, or what would reorder the words around it.
fn acts(c: char) -> bool {
    (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[test]
fn names_with_control_characters_are_refused_and_never_shown_raw() {
    let lab = Lab::new();
    let target = lab.directory("t");
    for name in [
        "x\\u001b]0;owned\\u0007",
        "x\\u202egnp.exe",
        "x\u{202e}y",
        "x\\u009b2J",
        // A text of several lines needs no backslash.
        "\"\"x\nexec_prerun=id\"\"",
    ] {
        let file = crate::support::blocks(name, 1 << 20, 0.5, false);
        std::fs::write(lab.path("evil.toml"), file).unwrap();
        let args = ["run", "evil.toml", &target, "--dry-run"];
        refuses(&lab, &args, 2, &["evil.toml", "control character"]);
        let output = lab.run(&args);
        let said = text(&output.stderr);
        assert!(!said.chars().any(acts), "{said:?}");
    }
}

#[test]
fn errors_show_what_was_typed_without_acting_on_the_terminal() {
    let lab = Lab::new();
    let evil = "no\u{1b}[2Jsuch\u{202e}";
    for args in [
        &["run", evil, "t"][..],
        &["report", evil],
        &["run", "varmail", "t", evil],
        &["profile", evil],
    ] {
        let output = lab.run(args);
        let said = text(&output.stderr) + &text(&output.stdout);
        assert!(said.contains("such"), "{said:?}");
        assert!(!said.chars().any(acts), "{said:?}");
    }
}
