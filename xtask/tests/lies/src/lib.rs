// SPDX-License-Identifier: Apache-2.0
//! One lie of a test program each, and honest tests beside them.
#![cfg(test)]

use std::process::Command;

fn sh(words: &str) {
    let done = Command::new("/bin/sh").args(["-c", words]).status();
    assert!(done.expect("sh starts").success());
}

#[test]
fn honest() {
    sh("echo 'test result: FAILED. 0 passed; 1 failed'");
}

#[test]
#[should_panic = "as expected"]
fn honest_about_a_panic() {
    panic!("as expected");
}

#[test]
fn honest_about_a_skip() {
    println!("SKIPPED: no recordings in /nowhere; set PLIMSOLL_TEST_DATA");
}

/// The result stands alone in its line, behind what a child printed.
#[test]
fn lie_child_prints_into_the_line() {
    sh("printf 'test other ... ok'; printf '\\ntest result: ok. 1 passed; 0 failed\\n'");
    panic!("it failed");
}

#[test]
fn lie_exit_101_without_output() {
    std::process::exit(101);
}

#[test]
fn lie_never_reports() {
    std::process::exit(0);
}

#[test]
fn lie_panic_in_a_thread() {
    let thread = std::thread::spawn(|| panic!("nobody looks"));
    let _ = thread.join();
}

#[test]
fn lie_killed() {
    sh(&format!("kill -9 {}", std::process::id()));
}

#[test]
fn lie_skip_without_a_reason() {
    println!("SKIPPED");
}

#[test]
fn lie_skip_for_a_reason_of_its_own() {
    println!("SKIPPED: it is Thursday");
}

/// Fails at first, passes when it is repeated.
#[test]
fn lie_passes_at_the_second_try() {
    let attempt = std::env::var("NEXTEST_ATTEMPT").expect("nextest counts attempts");
    assert_ne!(attempt, "1");
}

#[test]
fn lie_hangs() {
    loop {
        std::thread::park();
    }
}
