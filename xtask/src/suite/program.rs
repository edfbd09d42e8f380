// SPDX-License-Identifier: Apache-2.0
//! Test programs: built by cargo, run with a limit on time.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::outcome::TestOutcome;

/// How often a running test program is looked at.
const POLL: Duration = Duration::from_millis(50);

/// One program with tests in it.
#[derive(Clone, Debug)]
pub(super) struct TestProgram {
    /// Package and target: `plimsoll-trace/lib`, `plimsoll/cli`.
    pub(super) name: String,
    executable: PathBuf,
    /// Where its tests expect to be started.
    folder: PathBuf,
}

/// Builds all test programs of the workspace.
pub(super) fn build(root: &Path) -> Result<Vec<TestProgram>, String> {
    let args = [
        "test",
        "--workspace",
        "--locked",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ];
    let output = crate::cargo(&args)
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo test: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not build".to_owned());
    }
    let programs = programs_of(&String::from_utf8_lossy(&output.stdout));
    if programs.is_empty() {
        return Err("cargo named no test program".to_owned());
    }
    Ok(programs)
}

/// The tests of pages in a browser: a script that takes the arguments of a test program, and answers as one.
pub(super) fn pages(root: &Path) -> TestProgram {
    TestProgram {
        name: "web/pages".to_owned(),
        executable: root.join("scripts/test-web.sh"),
        folder: root.join("web"),
    }
}

/// The test programs that cargo's messages name, in their order.
pub(super) fn programs_of(messages: &str) -> Vec<TestProgram> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| program_of(&message))
        .collect()
}

fn program_of(message: &serde_json::Value) -> Option<TestProgram> {
    let target = &message["target"];
    if message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = folder.file_name()?.to_str()?;
    let kind = target["kind"][0].as_str()?;
    let part = match kind {
        "test" => target["name"].as_str()?,
        other => other,
    };
    Some(TestProgram {
        name: format!("{package}/{part}"),
        executable,
        folder: folder.to_path_buf(),
    })
}

impl TestProgram {
    /// Whether the name has one of the words.
    pub(super) fn is_named(&self, words: &[String]) -> bool {
        words.iter().any(|word| self.name.contains(word.as_str()))
    }

    /// Runs all tests, or one, with so many threads, and ends the program when it takes too long.
    pub(super) fn run(
        &self,
        threads: Option<usize>,
        only: Option<&str>,
        limit: Duration,
    ) -> TestOutcome {
        let began = now();
        let mut command = self.command();
        if let Some(threads) = threads {
            command.arg(format!("--test-threads={threads}"));
        }
        if let Some(test) = only {
            command.args(["--exact", test]);
        }
        let (text, end) = match command.spawn() {
            Ok(child) => attend(child, limit),
            Err(error) => (String::new(), Some(error.to_string())),
        };
        TestOutcome::read(&self.name, &text, end, began.elapsed())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "xtask is outside the product: it runs the tests"
    )]
    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "xtask is outside the product: nothing here is measured"
)]
fn now() -> Instant {
    Instant::now()
}

/// Waits for the program; its output (that of both pipes) and, if it did not end by itself with 0
/// or with failed tests, how it ended.
fn attend(mut child: Child, limit: Duration) -> (String, Option<String>) {
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let mut text = String::new();
    let mut end = None;
    std::thread::scope(|scope| {
        let out = scope.spawn(|| read_all(stdout));
        let err = scope.spawn(|| read_all(stderr));
        end = wait(&mut child, limit);
        for reader in [out, err] {
            text.push_str(&reader.join().unwrap_or_default());
            text.push('\n');
        }
    });
    (text, end)
}

fn read_all(pipe: Option<impl std::io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What was read before an error is still worth showing.
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[expect(
    clippy::disallowed_methods,
    reason = "xtask is outside the product: it waits for a test program"
)]
fn wait(child: &mut Child, limit: Duration) -> Option<String> {
    /// What libtest ends with when a test failed.
    const TESTS_FAILED: i32 = 101;
    let began = now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if matches!(status.code(), Some(0 | TESTS_FAILED)) => return None,
            Ok(Some(status)) => return Some(status.to_string()),
            Ok(None) if began.elapsed() > limit => {
                let _ = child.kill();
                let _ = child.wait();
                return Some(format!("ended after {} min", limit.as_secs() / 60));
            }
            Ok(None) => std::thread::sleep(POLL),
            Err(error) => return Some(error.to_string()),
        }
    }
}
