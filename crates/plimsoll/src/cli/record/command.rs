// SPDX-License-Identifier: Apache-2.0
//! A program that is recorded: it is started when the recording has begun, and ends it.

use plimsoll_console::failure::{CliError, CliExitCode};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A program with this terminal as its own.
#[derive(Default)]
pub(super) struct RecordedCommand {
    argv: Vec<String>,
    started: Option<StartedCommand>,
    /// Whether it had ended when the last sample was taken.
    had_ended: bool,
}

struct StartedCommand {
    pid: u32,
    has_ended: Arc<AtomicBool>,
    waiter: JoinHandle<std::io::Result<ExitStatus>>,
}

impl RecordedCommand {
    pub(super) fn new(argv: &[String]) -> RecordedCommand {
        RecordedCommand {
            argv: argv.to_vec(),
            ..RecordedCommand::default()
        }
    }

    /// Starts it unless it runs, or there is none.
    #[expect(
        clippy::disallowed_methods,
        reason = "the program is the user's, who gives it the terminal and its rights"
    )]
    pub(super) fn start(&mut self) -> Result<(), CliError> {
        let Some((program, args)) = self.argv.split_first().filter(|_| self.started.is_none())
        else {
            return Ok(());
        };
        let mut child = Command::new(program).args(args).spawn().map_err(|error| {
            CliError::new(CliExitCode::Usage, format!("start {program}: {error}"))
        })?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        let pid = child.id();
        let wait = move || {
            let status = Child::wait(&mut child);
            ended.store(true, Ordering::Release);
            status
        };
        self.started = Some(StartedCommand {
            pid,
            has_ended,
            waiter: std::thread::spawn(wait),
        });
        Ok(())
    }

    fn has_ended(&self) -> bool {
        let started = self.started.as_ref();
        started.is_some_and(|started| started.has_ended.load(Ordering::Acquire))
    }

    /// A sample was taken: whether it is the last, which lies behind the end of the program.
    pub(super) fn is_over(&mut self) -> bool {
        let has_ended = self.has_ended();
        std::mem::replace(&mut self.had_ended, has_ended)
    }

    /// Ends it if the recording ended before, and says with which exit code it did: as shells do, 128 and
    /// the number of the signal that killed it. `None` where nothing was started.
    pub(super) fn finish(&mut self) -> Result<Option<u8>, CliError> {
        let is_left = !self.has_ended();
        let Some(started) = self.started.take() else {
            return Ok(None);
        };
        let pid = i32::try_from(started.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| is_left) {
            // It may have ended in this moment.
            let _ = kill_process(pid, Signal::TERM);
        }
        let status = started.waiter.join();
        let status = status.map_err(|_| self.lost("its thread broke off"))?;
        let status = status.map_err(|error| self.lost(&error.to_string()))?;
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        Ok(code.and_then(|code| u8::try_from(code).ok()))
    }

    fn lost(&self, why: &str) -> CliError {
        CliError::new(
            CliExitCode::Failed,
            format!("wait for {}: {why}", self.argv.join(" ")),
        )
    }
}
