// SPDX-License-Identifier: Apache-2.0
//! Files of users: the example, every mistake with its line, and who may run which program.

use super::*;
use crate::fake::FakeHost;
use crate::stacks::{StackUpOptions, manage};
use plimsoll_machine::host::{Host as _, HostResolver as _, LocalHost, SearchPath};
use std::fs;

const EXAMPLE: &str = include_str!("../../../../../examples/stacks/own.toml");

fn planned(text: &str) -> manage::StackPlan {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("mine.toml");
    fs::write(&file, text).unwrap();
    let choice = StackConfig::parse(file.to_str().unwrap()).unwrap();
    let options = StackUpOptions::new("/base".into());
    manage::plan(&choice, &options, &mut FakeHost::new()).unwrap()
}

#[test]
fn the_example_becomes_steps_that_undo_each_other() {
    let planned = planned(EXAMPLE);
    let programs = [
        "mkdir",
        "mkfs.ext4",
        "mount",
        "mountpoint",
        "truncate",
        "umount",
    ];
    assert_eq!(planned.ask.programs, programs);
    assert_eq!(planned.made.file_system, "ext4");
    let dir = planned.made.mount_dir.strip_suffix("/mnt").unwrap();
    let mount = planned
        .plan
        .steps
        .iter()
        .find(|step| step.why == "mount it");
    let mount = mount.unwrap();
    let undo = mount.undo.as_ref().unwrap().to_string();
    assert_eq!(
        undo,
        format!("umount {dir}/mnt, if this succeeds: mountpoint -q {dir}/mnt")
    );
    assert!(
        planned.plan.steps[1]
            .apply
            .to_string()
            .contains("2147483648")
    );
}

#[test]
fn every_mistake_has_its_line() {
    let begin = "description = 'x'\nmount_dir = '{dir}'\n";
    for (text, expect) in [
        ("description = 'x'\n".to_owned(), "mount_dir"),
        (
            format!("{begin}colour = 'red'\n"),
            "line 3: unknown field `colour`",
        ),
        (begin.to_owned(), "from 1 to 1000 steps"),
        (
            "description = ''\nmount_dir = '/x'\n".into(),
            "line 1: description",
        ),
        (
            "description = 'x'\nmount_dir = 'x'\n".into(),
            "line 2: mount_dir: expected a path",
        ),
        (
            format!("{begin}nodes = 900\n"),
            "line 3: expected at most 100",
        ),
        (
            format!("{begin}[[step]]\nwhy = 'go'\n"),
            "line 3: the step to 'go': expected either",
        ),
        (
            format!("{begin}[[step]]\nwhy = 'go'\napply = ['a']\n"),
            "undo = []",
        ),
        (
            format!("{begin}[[step]]\nwhy = 'go'\nstart = ['a']\n"),
            "a daemon needs ready",
        ),
        (
            format!("{begin}[[step]]\nwhy = 'go'\nnode = 2\napply = ['a']\nundo = []\n"),
            "from 1 to nodes (0)",
        ),
        (
            format!("{begin}[[step]]\nwhy = 'go'\napply = ['rm -rf /']\nundo = []\n"),
            "no shell",
        ),
        (
            format!("{begin}[[step]]\nwhy = 'go'\napply = ['./a']\nundo = []\n"),
            "begins with /",
        ),
        (
            format!("{begin}[[step]]\nwhy = 'go'\napply = ['a', '{{nodes}}']\nundo = []\n"),
            "unknown word in braces",
        ),
        (
            format!("{begin}[[step]]\nwhy = 'go'\napply = ['a']\nundo = []\nlimit = '99h'\n"),
            "from 1s to 24h",
        ),
        (format!("{begin}[[step]\n"), "line 3"),
    ] {
        let error = OwnStackSpec::parse(&text).unwrap_err();
        assert!(error.contains(expect), "{text}: {error}");
        assert!(error.starts_with("line "), "{error}");
    }
}

#[test]
fn a_program_may_be_run_for_the_journal_whose_user_named_it_and_no_other() {
    let mut host = LocalHost::new(SearchPath::new("".as_ref()));
    let run = PlanAction::Run(PlanCommand::new("true", [""; 0]));
    let refused = host.carry_out("mine", &run).unwrap_err().to_string();
    assert!(refused.contains("stacks may not run"), "{refused}");
    host.trust("mine", &["true".into()]);
    host.carry_out("mine", &run).unwrap();
    let refused = host.carry_out("theirs", &run).unwrap_err().to_string();
    assert!(refused.contains("stacks may not run"), "{refused}");
    let skipped = PlanAction::RunIf {
        when: PlanCommand::new("false", [""; 0]),
        run: PlanCommand::new("false", [""; 0]),
    };
    host.trust("mine", &["false".into()]);
    host.carry_out("mine", &skipped).unwrap();
}
