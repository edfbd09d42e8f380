// SPDX-License-Identifier: Apache-2.0
//! A place for a run, and the program as users have it.

use crate::built::{program, text};
use crate::support::until;
use plimsoll_archive::open;
use plimsoll_core::event::RunFolderContents;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Directories of one run, and the words that its program begins with.
pub(crate) struct TestFleet {
    dir: tempfile::TempDir,
    before: Vec<String>,
}

impl TestFleet {
    pub(crate) fn new() -> TestFleet {
        TestFleet::behind(Vec::new())
    }

    /// One whose program is started by these words.
    pub(crate) fn behind(before: Vec<String>) -> TestFleet {
        let dir = tempfile::tempdir().unwrap();
        for name in ["data", "tmp"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        TestFleet { dir, before }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let data = self.path("data").display().to_string();
        let mut words: Vec<String> = self.before.clone();
        words.push(program().display().to_string());
        words.extend(args.iter().map(|word| word.replace("DATA", &data)));
        let is_run = !matches!(args[0], "raze" | "report");
        if is_run {
            words.extend(["-o".into(), self.path("out").display().to_string()]);
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(self.dir.path());
        command.env("PLIMSOLL_STATE", self.path("state"));
        command.env("TMPDIR", self.path("tmp"));
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> (i32, String) {
        let output = self.command(args).output().unwrap();
        (output.status.code().unwrap_or(-1), text(&output))
    }

    pub(crate) fn must(&self, args: &[&str]) -> String {
        let (code, said) = self.run(args);
        assert_eq!(code, 0, "{args:?}: {said}");
        said
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Waits until the measured part has begun.
    pub(crate) fn await_load(&self) {
        let events = self.path("out/events.jsonl");
        until("second of the trial", || {
            fs::read_to_string(&events).is_ok_and(|text| text.contains("\"interval\""))
        });
    }

    pub(crate) fn results(&self) -> RunFolderContents {
        open(&self.path("out")).unwrap()
    }

    /// Agents of this run: those that work below its directory.
    pub(crate) fn agents(&self) -> Vec<u32> {
        let ours = format!("TMPDIR={}", self.path("tmp").display());
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_ours = |pid: &u32| {
            let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let words = String::from_utf8_lossy(&read("cmdline")).into_owned();
            let env = String::from_utf8_lossy(&read("environ")).into_owned();
            let is_agent = words.contains("plimsoll-agent\0dial");
            // The agent itself: the command line of a shell or srun has these words only behind its own name.
            is_agent && words.starts_with(&*agent().to_string_lossy()) && env.contains(&ours)
        };
        pids.filter(is_ours).collect()
    }

    pub(crate) fn check_nothing_left(&self) {
        until("end of the agents", || self.agents().is_empty());
        for dir in ["data", "tmp", "state/journals"] {
            let left: Vec<_> = fs::read_dir(self.path(dir))
                .into_iter()
                .flatten()
                .flatten()
                .collect();
            assert!(left.is_empty(), "{dir}: {left:?}");
        }
    }
}

pub(crate) fn agent() -> PathBuf {
    program().with_file_name("plimsoll-agent")
}
