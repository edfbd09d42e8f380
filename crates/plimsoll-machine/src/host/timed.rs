// SPDX-License-Identifier: Apache-2.0
//! Programs that are themselves the load: run in a directory, timed, and stopped with the run.
//!
//! The end is seen through a descriptor of the process, so that the wall time is exact whatever the
//! pause between two looks for a stop. The CPU time is read from the process after its end and
//! before it is collected; it includes every child it waited for. The kernel counts it in ticks of
//! 10 ms.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::LocalHost;
use super::command::{self, HostCommand};
use super::error::HostError;

/// Time between two looks for a stop.
const LOOK: Duration = Duration::from_millis(20);
/// How long a program may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(3);
/// The order of a timed program.
#[derive(Debug, Clone, Copy)]
pub struct HostTimedJob<'a> {
    /// Program and arguments.
    pub argv: &'a [String],
    /// Where it runs.
    pub directory: &'a Path,
    /// The mark by which it is found again.
    pub mark: &'a str,
    /// It is ended after so long.
    pub limit: Duration,
}

/// The result of a timed program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostTimedResult {
    /// Its standard output.
    pub output: String,
    /// From its start to its end.
    pub wall: Duration,
    /// CPU time in user space, of it and the children it waited for.
    pub user: Duration,
    /// CPU time in the kernel, likewise.
    pub system: Duration,
}

impl LocalHost {
    /// Runs a program to its end. `None` when it was stopped before, through `stop`.
    ///
    /// # Errors
    /// When it is missing, fails, takes longer than its limit, or writes without end.
    pub fn timed(
        &self,
        job: &HostTimedJob<'_>,
        stop: &AtomicBool,
    ) -> Result<Option<HostTimedResult>, HostError> {
        let shown = job.argv.join(" ");
        let Some((name, args)) = job.argv.split_first() else {
            return Err(HostError::State("the command is empty".into()));
        };
        let path = if name.contains('/') {
            name.into()
        } else {
            self.search.require(name)?
        };
        let failed = HostError::doing(format!("run '{shown}'"));
        let ready = HostCommand {
            program: path,
            args: args.to_vec(),
            env: &BTreeMap::new(),
            state: self.state.as_deref(),
            mark: job.mark,
            shown: shown.clone(),
        };
        let (mut output, mut errors) = (
            command::memory_file().map_err(&failed)?,
            command::memory_file().map_err(&failed)?,
        );
        let began = self.clock.now();
        let mut child = ready
            .spawn_in(job.directory, &output, &errors)
            .map_err(&failed)?;
        let ended = self.await_end(&child, job.limit, [&output, &errors], stop);
        let wall = self.clock.now().saturating_sub(began);
        let (user, system) = cpu_of(child.id()).unwrap_or_default();
        if !matches!(ended, Ok(HostExitKind::Itself)) {
            self.end(&mut child);
        }
        let status = child.wait().map_err(&failed)?;
        match ended.map_err(|errno| failed(errno.into()))? {
            HostExitKind::Stopped => return Ok(None),
            HostExitKind::Late => {
                return Err(HostError::TimedOut {
                    command: shown,
                    seconds: job.limit.as_secs(),
                    output: command::last_lines(&mut errors),
                });
            }
            HostExitKind::Loud => return Err(command::loud(&shown)),
            HostExitKind::Itself => {}
        }
        if !status.success() {
            let mut words = command::last_lines(&mut errors);
            if words.is_empty() {
                words = command::last_lines(&mut output);
            }
            // A program that ends because of the Ctrl-C of the user has not failed.
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            return Err(HostError::Failed {
                command: shown,
                status: command::in_words(status),
                output: words,
            });
        }
        let output = text_of(&mut output).map_err(&failed)?;
        Ok(Some(HostTimedResult {
            output,
            wall,
            user,
            system,
        }))
    }

    fn await_end(
        &self,
        child: &Child,
        limit: Duration,
        written: [&File; 2],
        stop: &AtomicBool,
    ) -> rustix::io::Result<HostExitKind> {
        let process = pidfd_open(pid_of(child)?, PidfdFlags::empty())?;
        let began = self.clock.now();
        let look = Timespec {
            tv_sec: 0,
            tv_nsec: i64::from(LOOK.subsec_nanos()),
        };
        loop {
            let mut watched = [PollFd::new(&process, PollFlags::IN)];
            let polled = poll(&mut watched, Some(&look));
            if command::is_loud(written).map_err(|error| to_errno(&error))? {
                return Ok(HostExitKind::Loud);
            }
            match polled {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(HostExitKind::Itself),
                Err(errno) => return Err(errno),
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(HostExitKind::Stopped);
            }
            if self.clock.now().saturating_sub(began) >= limit {
                return Ok(HostExitKind::Late);
            }
        }
    }

    /// Asks the group of a program to end, and kills what is left after a moment.
    fn end(&self, child: &mut Child) {
        let Ok(pid) = pid_of(child) else {
            return;
        };
        let _ = kill_process_group(pid, Signal::TERM);
        let asked = self.clock.now();
        let ended = || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
        };
        while !ended() && self.clock.now().saturating_sub(asked) < GRACE {
            self.clock.pause(LOOK);
        }
        // Not collected yet, so the number of the group is still its own; children may live on.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// How a program came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostExitKind {
    Itself,
    Stopped,
    Late,
    /// It wrote more than is kept.
    Loud,
}

fn to_errno(error: &std::io::Error) -> rustix::io::Errno {
    rustix::io::Errno::from_io_error(error).unwrap_or(rustix::io::Errno::IO)
}

fn pid_of(child: &Child) -> rustix::io::Result<Pid> {
    let number = i32::try_from(child.id()).ok();
    number
        .and_then(Pid::from_raw)
        .ok_or(rustix::io::Errno::SRCH)
}

/// CPU time of a process and of the children it waited for, in user space and in the kernel.
fn cpu_of(pid: u32) -> Option<(Duration, Duration)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may itself contain any character.
    let rest = text.get(text.rfind(')')? + 2..)?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    let per_s = rustix::param::clock_ticks_per_second().max(1);
    let time = |own: usize, children: usize| {
        let ticks = ticks(own)?.saturating_add(ticks(children)?);
        Some(Duration::from_nanos(
            ticks.saturating_mul(1_000_000_000 / per_s),
        ))
    };
    // Fields 14 to 17 of proc(5): utime, stime, cutime, cstime.
    Some((time(11, 13)?, time(12, 14)?))
}

fn text_of(file: &mut File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::SearchPath;

    fn run(
        script: &str,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<HostTimedResult>, HostError> {
        let argv = ["sh", "-c", script].map(String::from);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let job = HostTimedJob {
            argv: &argv,
            directory: directory.path(),
            mark: "plimsoll-test",
            limit,
        };
        LocalHost::new(SearchPath::new("".as_ref())).timed(&job, stop)
    }

    #[test]
    fn output_time_and_cpu_are_taken() {
        let minute = Duration::from_secs(60);
        let stop = AtomicBool::new(false);
        let script =
            "pwd -P; echo noise >&2; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 0.1";
        let timed = run(script, minute, &stop).unwrap().unwrap();
        assert!(timed.output.starts_with('/') && !timed.output.contains("noise"));
        assert!(timed.wall >= Duration::from_millis(100), "{timed:?}");
        let cpu = timed.user + timed.system;
        assert!(
            cpu >= Duration::from_millis(20) && cpu <= timed.wall,
            "{timed:?}"
        );
    }

    #[test]
    fn failures_and_limits_are_told_and_a_stop_is_none() {
        let go = AtomicBool::new(false);
        let minute = Duration::from_secs(60);
        let error = run("echo broken >&2; exit 3", minute, &go)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("status 3") && error.contains("broken"),
            "{error}"
        );
        let error = run("sleep 60", Duration::from_millis(50), &go)
            .unwrap_err()
            .to_string();
        assert!(error.contains("did not end"), "{error}");
        // The outputs grow without taking memory.
        for script in [
            "truncate -s 300M /proc/self/fd/1; sleep 60",
            "truncate -s 300M /proc/self/fd/2; sleep 60",
            "truncate -s 300M /proc/self/fd/1",
        ] {
            let error = run(script, minute, &go).unwrap_err().to_string();
            assert!(error.contains("more than 256 MiB"), "{script}: {error}");
        }
        // So it is with commands of plans and questions.
        let host = LocalHost::new(SearchPath::new("".as_ref()));
        for script in [
            "truncate -s 300M /proc/self/fd/1; sleep 60",
            "truncate -s 300M /proc/self/fd/2",
        ] {
            let error = host.output("sh", &["-c", script], minute).unwrap_err();
            assert!(error.to_string().contains("more than 256 MiB"), "{error}");
        }
        let stopped = run("sleep 60", minute, &AtomicBool::new(true));
        assert_eq!(stopped.unwrap(), None);
        let argv = ["no-such-program".to_owned()];
        let job = HostTimedJob {
            argv: &argv,
            directory: Path::new("/"),
            mark: "m",
            limit: minute,
        };
        let host = LocalHost::new(SearchPath::new("".as_ref()));
        assert!(matches!(
            host.timed(&job, &go),
            Err(HostError::Missing { .. })
        ));
    }
}
