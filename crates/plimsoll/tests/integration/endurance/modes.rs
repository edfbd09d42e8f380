// SPDX-License-Identifier: Apache-2.0
//! Files of the program are its user's alone, whatever the umask lets others do.

use super::commands::{LastingCommand, OTHERS, RUNNERS, WRITERS, prepared};
use crate::support::{Lab, text};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Everything below a directory, with what others may do with it. Neither sockets nor links have a say.
fn modes(below: &Path, found: &mut BTreeMap<PathBuf, u32>) {
    for entry in fs::read_dir(below).unwrap().flatten() {
        let Ok(facts) = entry.path().symlink_metadata() else {
            continue;
        };
        if facts.is_dir() || facts.is_file() {
            found.insert(entry.path(), facts.mode() & 0o077);
        }
        if facts.is_dir() {
            modes(&entry.path(), found);
        }
    }
}

/// Files that a command made under a umask that takes nothing away.
fn made_by(lab: &Lab, words: &[&str]) -> BTreeMap<PathBuf, u32> {
    let mut before = BTreeMap::new();
    modes(&lab.path("."), &mut before);
    let plimsoll = env!("CARGO_BIN_EXE_plimsoll");
    let shell = ["-c", "umask 000; exec timeout 120 \"$0\" \"$@\"", plimsoll];
    let output = lab.command_of("sh", &[&shell[..], words].concat()).output();
    let output = output.expect("a shell");
    let code = output.status.code();
    assert_eq!(code, Some(0), "{words:?}: {}", text(&output.stderr));
    let mut after = BTreeMap::new();
    modes(&lab.path("."), &mut after);
    after.retain(|path, _| !before.contains_key(path));
    after
}

#[test]
fn nothing_that_is_written_is_open_to_others() {
    let lab = prepared();
    // The one directory that others may look into, and where the system under test is.
    let shown = [lab.path("./state"), lab.path("./kept")];
    let ends = |command: &&LastingCommand| !["serve", "stack"].contains(&command.words[0]);
    let all = WRITERS.iter().chain(RUNNERS).chain(OTHERS).filter(ends);
    let more: [&[&str]; 6] = [
        &["new", "campaign"],
        &[
            "run",
            "randread,size=1m",
            "null",
            "--for",
            "100ms",
            "--warmup",
            "0s",
            "--no-self-test",
        ],
        &["record", "-o", "long", "--for", "2s", "--interval", "1s"],
        &["report", "done", "--html", "r.html"],
        &["report", "done", "--export", "r.csv"],
        &["report", "done", "--export", "r.parquet"],
    ];
    let more = more
        .into_iter()
        .map(|words| words.iter().map(|word| (*word).into()).collect());
    let numbered = all.enumerate().map(|(round, command)| command.words(round));
    let commands: Vec<Vec<String>> = numbered.chain(more).collect();
    let (mut open, mut count) = (Vec::new(), 0);
    for words in &commands {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let made = made_by(&lab, &words);
        count += made.len();
        let bad = made
            .into_iter()
            .filter(|(path, mode)| *mode != 0 && !shown.contains(path));
        open.extend(bad.map(|(path, mode)| format!("{} {mode:03o} of {words:?}", path.display())));
    }
    eprintln!(
        "{} commands made {count} files and directories",
        commands.len()
    );
    assert!(open.is_empty(), "{open:#?}");
    assert!(count > 40, "{count}");
}
