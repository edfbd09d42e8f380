// SPDX-License-Identifier: Apache-2.0
#![cfg(test)]
//! The suite's own tests: what it reads out of cargo and libtest, and what it makes of it.

use std::time::Duration;

use super::outcome::{SuiteSummary, TestOutcome};
use super::program;

fn read(text: &str, end: Option<&str>) -> TestOutcome {
    let end = end.map(str::to_owned);
    TestOutcome::read("a/lib", text, end, Duration::from_secs(1))
}

fn summary(outcomes: Vec<TestOutcome>) -> SuiteSummary {
    let mut summary = SuiteSummary::default();
    for outcome in outcomes {
        summary.add(outcome);
    }
    summary
}

#[test]
fn results_are_counted_and_skipped_tests_are_no_passes() {
    let text = "running 4 tests\ntest a::one ... ok\ntest a::two - should panic ... ok\n\
                test b ... ignored, takes minutes\ntest c ... FAILED\n\n\
                SKIPPED: a::one: no fio here\n*** SKIPPED: io_uring is absent ***\n";
    let text = summary(vec![read(text, None)]).text();
    assert!(text.contains("failed: a/lib c\n"), "{text}");
    assert!(
        text.ends_with("\n0 passed, 1 failed, 3 skipped\n"),
        "{text}"
    );
}

#[test]
fn a_failure_that_passes_alone_is_flaky_and_not_fatal() {
    let mut summary = summary(vec![read("test a ... FAILED\ntest b ... ok\n", None)]);
    assert!(!summary.passed());
    assert_eq!(summary.failures(), [("a/lib".to_owned(), "a".to_owned())]);
    summary.forgive("a/lib", "a");
    assert!(summary.passed());
    let text = summary.text();
    assert!(text.contains("flaky: a/lib a "), "{text}");
    assert!(
        text.ends_with("\n2 passed, 0 failed, 0 skipped\n"),
        "{text}"
    );
}

#[test]
fn a_program_that_crashed_failed_whatever_its_tests_say_alone() {
    let text = "test a ... ok\ntest hung has been running for over 60 seconds\ntest b ... ";
    let mut summary = summary(vec![read(text, Some("signal: 6 (SIGABRT)"))]);
    let tests: Vec<String> = summary
        .failures()
        .into_iter()
        .map(|(_, test)| test)
        .collect();
    assert_eq!(tests, ["b", "hung"]);
    summary.forgive("a/lib", "b");
    summary.forgive("a/lib", "hung");
    assert!(!summary.passed());
    assert!(
        summary.text().contains("failed: a/lib as a whole"),
        "{}",
        summary.text()
    );
}

#[test]
fn programs_are_read_out_of_the_messages_of_cargo() {
    let line = |kind: &str, name: &str, test: bool| {
        format!(
            "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/crates/plimsoll/Cargo.toml\",\
             \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"{name}\"}},\"profile\":{{\"test\":{test}}},\
             \"executable\":\"/w/target/x\"}}\n"
        )
    };
    let messages = [
        line("test", "cli", true),
        line("bin", "plimsoll", true),
        line("bin", "plimsoll", false),
        "warning: not a message\n".to_owned(),
    ];
    let programs = program::programs_of(&messages.concat());
    let names: Vec<&str> = programs
        .iter()
        .map(|program| program.name.as_str())
        .collect();
    assert_eq!(names, ["plimsoll/cli", "plimsoll/bin"]);
}
