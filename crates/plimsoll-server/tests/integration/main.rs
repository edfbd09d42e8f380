// SPDX-License-Identifier: Apache-2.0
//! The server's program by itself. What it serves is tried together with the program that starts it, in
//! `crates/plimsoll/tests/integration/{serve,team}`.
#![expect(
    clippy::disallowed_methods,
    reason = "the test is the user who starts the program"
)]

use std::path::Path;
use std::process::{Command, Output};

const SERVER: &str = env!("CARGO_BIN_EXE_plimsoll-server");

fn run(program: &Path, place: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(words).current_dir(place);
    command.env("PLIMSOLL_STATE", place.join("state"));
    command
        .output()
        .expect("the program was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn it_has_the_version_of_all_programs_and_three_commands() {
    let place = tempfile::tempdir().unwrap();
    let version = run(Path::new(SERVER), place.path(), &["--version"]);
    let expect = concat!("plimsoll-server ", env!("CARGO_PKG_VERSION"));
    assert_eq!(text(&version.stdout).trim(), expect);
    let help = text(&run(Path::new(SERVER), place.path(), &["--help"]).stdout);
    let (_, rest) = help.split_once("Commands:\n").unwrap();
    let names: Vec<&str> = rest
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(names, ["serve", "team", "history", "help"]);
    let wrong = run(Path::new(SERVER), place.path(), &["serve", "--listen", "x"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn users_and_tokens_need_no_other_program() {
    let place = tempfile::tempdir().unwrap();
    let database = ["--database", "sqlite:team.db"];
    for words in [
        &["team", "user", "add", "ada"][..],
        &["team", "token", "add", "ada"],
        &["history", "list"],
    ] {
        let done = run(
            Path::new(SERVER),
            place.path(),
            &[words, &database].concat(),
        );
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    }
}

/// Without the measuring program there is nothing that a page could offer or start.
#[test]
fn without_the_measuring_program_beside_it_nothing_is_served() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let alone = place.path().join("plimsoll-server");
    std::fs::hard_link(SERVER, &alone).unwrap();
    let words = ["serve", "runs", "--listen", "127.0.0.1:0"];
    let refused = run(&alone, place.path(), &words);
    let told = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("failed to start plimsoll"), "{told}");
}
