// SPDX-License-Identifier: Apache-2.0
//! The program that is copied to nodes, as it is there: alone.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test: it panics and starts programs"
)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Kind of the program header that names a loader (`PT_INTERP` in elf(5)).
const SEGMENT_INTERPRETER: u32 = 3;

fn agent(state: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_plimsoll-agent"))
        .args(args)
        .env("PLIMSOLL_STATE", state)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn it_needs_no_library_of_the_node() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_plimsoll-agent")).unwrap();
    // Of the ELF header: where the program headers are, and their number. A loader has one of its own.
    let phoff = u64::from_le_bytes(program[32..40].try_into().unwrap());
    let phnum = u16::from_le_bytes(program[56..58].try_into().unwrap());
    let kinds = (0..usize::from(phnum)).map(|n| {
        let at = usize::try_from(phoff).unwrap() + n * 56;
        u32::from_le_bytes(program[at..at + 4].try_into().unwrap())
    });
    assert!(kinds.clone().count() > 2, "no ELF program");
    assert_eq!(kinds.filter(|kind| *kind == SEGMENT_INTERPRETER).count(), 0);
}

#[test]
fn it_ends_with_its_connection_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let state = place.path().join("state");
    let directory = place.path().join("agent");
    let ended = agent(&state, &["serve", directory.to_str().unwrap()]);
    assert!(ended.status.success(), "{ended:?}");
    let razed = agent(&state, &["raze"]);
    assert!(razed.status.success(), "{razed:?}");
    let left = std::fs::read_dir(&directory).map_or(0, Iterator::count);
    assert_eq!(left, 0, "{ended:?}");
}

#[test]
fn what_it_does_not_know_is_refused_with_where_to_look() {
    let place = tempfile::tempdir().unwrap();
    for words in [&["--verzion"][..], &["serve"], &["dial", "a", "b"], &[]] {
        let refused = agent(place.path(), words);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {said}");
        assert!(
            said.contains("see plimsoll-agent --help"),
            "{words:?}: {said}"
        );
    }
}
