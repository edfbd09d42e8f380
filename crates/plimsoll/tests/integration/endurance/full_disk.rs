// SPDX-License-Identifier: Apache-2.0
//! No room for what is written: one error, the documented exit code, and nothing is lost that was there.

use super::commands::{LastingCommand, OLD, OTHERS, RUNNERS, WRITERS, prepared};
use crate::support::{Lab, program, skipped, text};
use std::fs;

/// A small file system below the place of a test, unmounted in the end.
struct SmallDisk(String);

impl SmallDisk {
    fn mount(lab: &Lab) -> Option<SmallDisk> {
        let path = lab.directory("full");
        let options = ["-t", "tmpfs", "-o", "size=4m", "plimsoll-test", &path];
        program("mount", &options).map(|_| SmallDisk(path))
    }

    /// Leaves `rest` bytes free, and returns the file that takes the others.
    fn fill(&self, rest: u64) -> String {
        let filler = format!("{}/filler", self.0);
        let found = rustix::fs::statvfs(self.0.as_str()).unwrap();
        let free = (found.f_bavail * found.f_frsize).saturating_sub(rest);
        fs::write(&filler, vec![1; usize::try_from(free).unwrap()]).unwrap();
        filler
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        program("umount", &["--lazy", &self.0]);
    }
}

/// The words of a command that writes on the small disk.
fn on_it(command: &LastingCommand, round: usize) -> Vec<String> {
    let is_output = |word: &str| {
        ["out", "run", "rec"]
            .iter()
            .any(|name| word.starts_with(&format!("{name}{round}")))
    };
    let mut words = command.words(round);
    for word in words.iter_mut().filter(|word| is_output(word)) {
        *word = format!("full/{word}");
    }
    words
}

#[test]
fn a_full_disk_is_one_error_and_what_was_there_stays() {
    let lab = prepared();
    let Some(disk) = SmallDisk::mount(&lab) else {
        return skipped(
            "results on a disk that is full",
            "nothing can be mounted here",
        );
    };
    let mut failed = 0;
    let mut round = 0;
    let mut written = Vec::new();
    for command in WRITERS {
        for rest in [0, 4 << 10] {
            round += 1;
            let files: Vec<String> = command
                .files(round)
                .iter()
                .map(|name| format!("full/{name}"))
                .collect();
            for name in &files {
                fs::write(lab.path(name), OLD).unwrap();
            }
            written.extend(files.clone());
            let filler = disk.fill(rest);
            let words = on_it(command, round);
            let output = lab.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
            let errors = text(&output.stderr);
            fs::remove_file(filler).unwrap();
            if output.status.success() {
                assert_ne!(rest, 0, "{}: it was to fail", command.name());
                continue;
            }
            failed += 1;
            assert_eq!(
                output.status.code(),
                Some(1),
                "{}: {errors}",
                command.name()
            );
            let said: Vec<&str> = errors
                .lines()
                .filter(|line| line.starts_with("error: "))
                .collect();
            assert_eq!(said.len(), 1, "{}: {errors}", command.name());
            let names = files.iter().any(|name| said[0].contains(name.as_str()));
            assert!(
                names && said[0].contains("No space left"),
                "{}: {errors}",
                command.name()
            );
            for name in &files {
                assert_eq!(
                    fs::read_to_string(lab.path(name)).unwrap(),
                    OLD,
                    "{}: {name}",
                    command.name()
                );
            }
            let there = fs::read_dir(lab.path("full")).unwrap().flatten();
            let names = there.map(|entry| format!("full/{}", entry.file_name().to_string_lossy()));
            let new: Vec<String> = names.filter(|name| !written.contains(name)).collect();
            assert!(new.is_empty(), "{}: {new:?}", command.name());
        }
    }
    assert!(failed >= WRITERS.len(), "{failed}");
}

#[test]
fn what_could_not_be_begun_for_want_of_room_can_be_begun_again() {
    let lab = prepared();
    let Some(disk) = SmallDisk::mount(&lab) else {
        return skipped("runs on a disk that is full", "nothing can be mounted here");
    };
    let begins =
        |command: &&LastingCommand| ["run", "import", "record"].contains(&command.words[0]);
    let all = RUNNERS.iter().chain(OTHERS).filter(begins);
    for (round, command) in (0..).zip(all) {
        let words = on_it(command, round);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // As much as the first of its files, or of their parts, takes.
        for rest in [0, 4 << 10] {
            let filler = disk.fill(rest);
            let output = lab.run(&words);
            let errors = text(&output.stderr);
            fs::remove_file(filler).unwrap();
            assert_eq!(
                output.status.code(),
                Some(1),
                "{}: {errors}",
                command.name()
            );
            assert!(
                errors.contains("No space left"),
                "{}: {errors}",
                command.name()
            );
        }
        let output = lab.run(&words);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}: {}",
            command.name(),
            text(&output.stderr)
        );
    }
}
