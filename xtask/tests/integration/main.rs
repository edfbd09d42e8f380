// SPDX-License-Identifier: Apache-2.0
//! Red is red: tests that do not do what they report, run as `make test` runs tests, and its verdict on each.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test: it panics and starts programs"
)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MANIFEST: &str = env!("CARGO_MANIFEST_DIR");

/// Each test of the package `lies`, and the reason for which its run is red.
const LIES: [(&str, &str); 9] = [
    (
        "child_prints_into_the_line",
        "test failure with exit code 101",
    ),
    ("exit_101_without_output", "test failure with exit code 101"),
    ("never_reports", "ended with 0 and without a result"),
    ("panic_in_a_thread", "thread '<unnamed>' panicked"),
    ("killed", "test abort"),
    ("skip_without_a_reason", "left out for no reason"),
    ("skip_for_a_reason_of_its_own", "left out for no reason"),
    (
        "passes_at_the_second_try",
        "passed only when it was repeated",
    ),
    ("hangs", "test timeout"),
];

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// A copy of the package `lies` with what nextest made of some of its tests.
struct LiesRun {
    place: tempfile::TempDir,
    code: i32,
}

impl LiesRun {
    fn new(filter: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let from = Path::new(MANIFEST).join("tests/lies");
        for file in ["Cargo.toml", "src/lib.rs", ".config/nextest.toml"] {
            let to = place.path().join(file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(from.join(file), to).unwrap();
        }
        let mut run = Self { place, code: 0 };
        let list = run.nextest(&["list", "--message-format", "json", "-E", filter]);
        assert!(list.status.success(), "{}", text(&list));
        fs::write(run.path("list.json"), &list.stdout).unwrap();
        run.code = run.nextest(&["run", "-E", filter]).status.code().unwrap();
        run
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn nextest(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO"))
            .arg("nextest")
            .args(args)
            .current_dir(self.place.path())
            .env("CARGO_TARGET_DIR", self.path("target"))
            .env_remove("NEXTEST_PROFILE")
            .output()
            .unwrap()
    }

    fn verdict(&self, list: &Path, junit: &Path, code: i32) -> Output {
        Command::new("python3")
            .arg(Path::new(MANIFEST).join("../scripts/verdict.py"))
            .args([list, junit])
            .arg(code.to_string())
            .output()
            .unwrap()
    }

    fn own_verdict(&self) -> Output {
        self.verdict(&self.path("list.json"), &self.junit(), self.code)
    }

    fn junit(&self) -> PathBuf {
        self.path("target/nextest/default/junit.xml")
    }
}

fn has_nextest() -> bool {
    let found = Command::new(env!("CARGO"))
        .args(["nextest", "--version"])
        .output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        let why = "SKIPPED: cargo-nextest is missing; scripts/setup.sh test installs it";
        let _ = writeln!(std::io::stderr(), "{why}");
    }
    is_there
}

#[test]
fn every_lie_is_red_and_honest_tests_are_not() {
    if !has_nextest() {
        return;
    }
    let run = LiesRun::new("all()");
    let verdict = run.own_verdict();
    let said = text(&verdict);
    assert_eq!(verdict.status.code(), Some(1), "{said}");
    for (lie, why) in LIES {
        let red = format!("failed: lies lie_{lie}: ");
        let found = said.lines().find(|line| line.starts_with(&red));
        assert!(
            found.is_some_and(|line| line.contains(why)),
            "{lie}: {said}"
        );
    }
    assert!(!said.contains("failed: lies honest"), "{said}");
    assert!(
        said.ends_with("\n2 passed, 9 failed, 1 skipped\n"),
        "{said}"
    );
}

#[test]
fn an_honest_run_is_green_only_with_a_result_for_each_test() {
    if !has_nextest() {
        return;
    }
    let run = LiesRun::new("test(/^honest/)");
    let verdict = run.own_verdict();
    let said = text(&verdict);
    assert!(verdict.status.success(), "{said}");
    assert!(
        said.ends_with("\n2 passed, 0 failed, 1 skipped\n"),
        "{said}"
    );
    // The same results with an exit code that they do not explain.
    for code in [1, 100, 101, 104] {
        let said = text(&run.verdict(&run.path("list.json"), &run.junit(), code));
        assert!(said.contains("does not fit the results"), "{code}: {said}");
    }
    // A result less, and one more, than was announced.
    let junit = fs::read_to_string(run.junit()).unwrap();
    let other = junit.replace("name=\"honest\"", "name=\"other\"");
    fs::write(run.path("other.xml"), other).unwrap();
    let said = text(&run.verdict(&run.path("list.json"), &run.path("other.xml"), 0));
    assert!(
        said.contains("failed: lies honest: has no result"),
        "{said}"
    );
    assert!(
        said.contains("failed: lies other: has a result and was not announced"),
        "{said}"
    );
}
