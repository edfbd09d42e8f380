// SPDX-License-Identifier: Apache-2.0
//! Runs the built program as a user would, with a state directory of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A place for one test: state, targets and results apart from everything else.
pub(crate) struct Lab {
    folder: tempfile::TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        // Not /tmp, which may be a memory file system without direct I/O.
        let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
        Lab {
            folder: tempfile::tempdir_in(base).expect("a writable target directory"),
        }
    }

    /// One with a short path: there are to be sockets in it.
    pub(crate) fn short() -> Self {
        Lab {
            folder: tempfile::tempdir_in("/var/tmp").expect("a writable directory"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn directory(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(&path).expect("a writable target directory");
        path.display().to_string()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_plimsoll"), args)
    }

    /// Another program, in the place of this test.
    #[expect(
        clippy::disallowed_methods,
        reason = "the test is the user who starts the program"
    )]
    pub(crate) fn command_of(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path());
        command
            .env("PLIMSOLL_STATE", self.path("state"))
            // Defaults of the user who runs the tests must not apply.
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("NO_COLOR", "1");
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args)
            .output()
            .expect("the program was built for this test")
    }

    /// Runs it with these variables: with another state directory, as another user would.
    pub(crate) fn run_with(&self, variables: &[(&str, &str)], args: &[&str]) -> Output {
        let mut command = self.command(args);
        command.envs(variables.iter().copied());
        command
            .output()
            .expect("the program was built for this test")
    }

    /// Runs it and returns its JSON output; the exit code must be 0.
    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let output = self.run(args);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{args:?}: {}",
            text(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).expect("--json prints JSON")
    }
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
            .spawn()
            .expect("the program was built for this test")
    }

    /// Waits until `folder` holds a run with at least `lines` recorded events.
    pub(crate) fn wait_for_events(&self, folder: &str, lines: usize) {
        self.wait_for(folder, |text| text.lines().count() >= lines);
    }

    /// Waits until the recorded events of the run in `folder` hold this text.
    pub(crate) fn wait_for_text(&self, folder: &str, wanted: &str) {
        self.wait_for(folder, |text| text.contains(wanted));
    }

    fn wait_for(&self, folder: &str, is_there: impl Fn(&str) -> bool) {
        let path = self.path(folder).join("events.jsonl");
        // Ten minutes, which end only what hangs.
        for _ in 0..6_000 {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if is_there(&text) {
                return;
            }
            pause(100);
        }
        panic!("not so in {} within ten minutes", path.display());
    }
}

impl Drop for Lab {
    /// A test that fails in the middle leaves no server, mount or namespace standing.
    fn drop(&mut self) {
        let has_journals = std::fs::read_dir(self.path("state/journals"))
            .is_ok_and(|mut journals| journals.next().is_some());
        if std::thread::panicking() && has_journals {
            let output = self.run(&["raze"]);
            let _ = writeln!(std::io::stderr(), "razed: {}", text(&output.stderr));
        }
    }
}

/// A loop device over a file of the test, detached when the test ends.
pub(crate) struct Loop(String);

impl Loop {
    /// `None` where loop devices cannot be made.
    pub(crate) fn over(file: &str) -> Option<Loop> {
        let made = program("losetup", &["--find", "--show", file])?;
        Some(Loop(made.trim().to_owned()))
    }

    pub(crate) fn path(&self) -> &str {
        &self.0
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        program("losetup", &["--detach", &self.0]);
    }
}

#[expect(clippy::disallowed_methods, reason = "a test may wait")]
pub(crate) fn pause(milliseconds: u64) {
    std::thread::sleep(std::time::Duration::from_millis(milliseconds));
}

/// Waits for something that must come about; the limit is only there to end a test that failed.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..30_000 {
        if is_so() {
            return;
        }
        pause(10);
    }
    panic!("within five minutes there was no {what}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who ends a program"
)]
pub(crate) fn signal(pid: u32, signal: &str) {
    let args = [signal, &pid.to_string()];
    Command::new("kill").args(args).output().unwrap();
}

/// How long something takes.
#[expect(clippy::disallowed_methods, reason = "a test may look at the clock")]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, std::time::Duration) {
    let began = std::time::Instant::now();
    let done = work();
    (done, began.elapsed())
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Says that a test could not run, past the test runner's capture.
pub(crate) fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {test}: {why}");
}

/// A workload file: reads and writes of 4 KiB at depth 4.
pub(crate) fn blocks(name: &str, bytes: u64, read_share: f64, direct: bool) -> String {
    let turn =
        |kind, weight| format!("{{ kind = \"{kind}\", bytes = 4096, weight = {weight:.1} }}");
    format!(
        "format = \"2.0\"\n[workload.blocks]\nname = \"{name}\"\n[[workload.blocks.groups]]\ndepth = 4\n\
         direct = {direct}\nextent = {{ bytes = {bytes} }}\nmix = [{}, {}]\n",
        turn("read", read_share),
        turn("write", 1.0 - read_share),
    )
}

/// Runs another program for a test and returns what it printed; `None` when it is missing or
/// fails.
#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who starts the program"
)]
pub(crate) fn program(name: &str, args: &[&str]) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new(name)
        .args(args)
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .stdin(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then(|| text(&output.stdout))
}
