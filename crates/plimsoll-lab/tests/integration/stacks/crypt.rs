// SPDX-License-Identifier: Apache-2.0
//! Encryption for real: what is written can be read, nothing of it is found below, and nothing is
//! left.

use super::support::{RazedAtTheEnd, check_nothing_left, host, missing};
use plimsoll_lab::proofs::{SelfTestDepth, SelfTestStatus, prove};
use plimsoll_lab::stacks::{self, StackConfig, StackUpOptions};
use plimsoll_machine::journal::StateDir;
use std::fs;
use std::path::Path;

/// Every file below a directory, its name and what it holds as one.
fn everything(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        all.extend(entry.file_name().as_encoded_bytes());
        all.push(b'\n');
        if entry.file_type().unwrap().is_dir() {
            all.extend(everything(&entry.path()));
        } else {
            all.extend(fs::read(entry.path()).unwrap());
        }
    }
    all
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

/// Whether the text and the name of a file are hidden below.
fn hides(stack: &str) -> Option<(bool, bool)> {
    let choice = StackConfig::parse(stack).unwrap();
    if missing(stack, &choice) {
        return None;
    }
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let _guard = RazedAtTheEnd(&state);
    let mut host = host();
    let up = stacks::up(
        &choice,
        &StackUpOptions::new(state.stacks()),
        &state,
        &mut host,
    )
    .unwrap();
    let (name, text) = ("a-stamped-name", "a stamped text\n".repeat(1_000));
    let file = up.mount_dir().join(name);
    fs::write(&file, &text).unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    let base = state
        .stacks()
        .join(format!("plimsoll-{}", choice.parts.file_name()));
    let below = everything(&base.join("cipher"));
    assert!(below.len() > text.len());
    let hidden = (!holds(&below, "a stamped text"), !holds(&below, name));
    let razed = stacks::down(&up.name, &state, &mut host).unwrap();
    assert!(razed.is_clean() && razed.warnings.is_empty(), "{razed:?}");
    check_nothing_left(place.path());
    Some(hidden)
}

#[test]
fn each_cipher_hides_texts_and_names() {
    for cipher in ["gcm", "siv", "xchacha"] {
        let Some(hidden) = hides(&format!("local+crypt({cipher})")) else {
            return;
        };
        assert_eq!(hidden, (true, true), "{cipher}");
    }
}

/// A server comes back while nothing below the encrypted view is mounted.
#[test]
fn a_check_takes_the_view_off_while_a_disk_comes_back() {
    let choice = StackConfig::parse("raid1(transport=nbd,fail_after=2s)+crypt").unwrap();
    if missing("raid1+crypt", &choice) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let _guard = RazedAtTheEnd(&state);
    let mut host = host();
    let options = StackUpOptions {
        size_bytes: 300 << 20,
        ..StackUpOptions::new(state.stacks())
    };
    let up = stacks::up(&choice, &options, &state, &mut host).unwrap();
    let dir = up.mount_dir().join("proofs");
    fs::create_dir(&dir).unwrap();
    let depth = SelfTestDepth::Whole;
    for proved in prove(&up.made, Some(&dir), &up.id, depth, &mut host) {
        let is_bad = matches!(proved.outcome, SelfTestStatus::Failed(_));
        assert!(!is_bad, "{proved:?}");
    }
    fs::write(dir.join("file"), "still there").unwrap();
    let razed = stacks::down(&up.name, &state, &mut host).unwrap();
    assert!(razed.is_clean() && razed.warnings.is_empty(), "{razed:?}");
    check_nothing_left(place.path());
}

#[test]
fn names_that_are_not_encrypted_are_found() {
    if let Some(hidden) = hides("local+crypt(names=off)") {
        assert_eq!(hidden, (true, false));
    }
}
