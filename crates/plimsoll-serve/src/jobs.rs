// SPDX-License-Identifier: Apache-2.0
//! Jobs: the measuring program, started with the arguments that a person would type. The only place of the
//! server that starts a process.
//!
//! Invariant: no shell, only a campaign on standard input, a process group of its own; what it prints is kept
//! up to a limit, as text. A job goes on when the server ends without asking it to stop.

use crate::error::RequestError;
use crate::runs::command_line;
use crate::sync::{NewsRing, locked};
use plimsoll_core::text::printable;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Most jobs at once.
const RUNNING_MAX: usize = 4;
/// Jobs that ended and are shown.
const ENDED_MAX: usize = 50;
/// Lines that are kept of each, and bytes of each line.
const LINES_MAX: usize = 1000;
const LINE_MAX: u64 = 4096;
/// How often the output is looked at after the end, for its last lines.
const LAST_LOOKS: u32 = 20;
/// Most bytes of an answer that the program gives as JSON, and the longest time it may take.
const ANSWER_MAX: u64 = 16 << 20;
const ANSWER_TIME: Duration = Duration::from_secs(90);

/// The run or stack of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobSubject {
    /// The run that it records.
    pub(crate) run: Option<String>,
    /// The stack that it changes.
    pub(crate) stack: Option<String>,
}

/// How far a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum JobState {
    Running,
    Done,
    Failed,
    Stopped,
}

/// A job as it is shown.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct JobFacts {
    pub(crate) id: String,
    command: Vec<String>,
    command_line: String,
    pub(crate) state: JobState,
    exit_code: Option<i32>,
    meaning: Option<String>,
    output: Vec<String>,
    pub(crate) run: Option<String>,
    pub(crate) stack: Option<String>,
    began_at: String,
    ended_at: Option<String>,
}

impl JobFacts {
    pub(crate) fn command_line(&self) -> &str {
        &self.command_line
    }
}

/// How a job ended.
#[derive(Debug, Clone)]
struct JobEnd {
    status: ExitStatus,
    at: String,
}

/// One job.
#[derive(Debug)]
pub(crate) struct ServerJob {
    id: u64,
    command: Vec<String>,
    subject: JobSubject,
    began_at: String,
    /// Its process group.
    group: Pid,
    pub(crate) lines: NewsRing<String>,
    /// `None` while it runs. Who holds this lock and finds nothing may send the group a signal: its number
    /// is not given to another one before the end is noted.
    ended: Mutex<Option<JobEnd>>,
}

impl ServerJob {
    pub(crate) fn is_running(&self) -> bool {
        locked(&self.ended).is_none()
    }

    /// Sends what Ctrl-C sends; nothing when it has ended.
    pub(crate) fn stop(&self) {
        if locked(&self.ended).is_none() {
            // A group that is just gone has stopped.
            let _ = kill_process_group(self.group, Signal::INT);
        }
    }
}

/// All jobs.
#[derive(Debug)]
pub(crate) struct JobBoard {
    program: PathBuf,
    meaning: fn(i32) -> &'static str,
    jobs: Mutex<Vec<Arc<ServerJob>>>,
}

impl JobBoard {
    pub(crate) fn of(program: PathBuf, meaning: fn(i32) -> &'static str) -> JobBoard {
        JobBoard {
            program,
            meaning,
            jobs: Mutex::default(),
        }
    }

    /// Starts the program with these arguments, and with a campaign on standard input where there is one.
    pub(crate) fn start(
        &self,
        args: &[String],
        campaign: &str,
        subject: JobSubject,
    ) -> Result<Arc<ServerJob>, RequestError> {
        let mut jobs = locked(&self.jobs);
        let running: Vec<&Arc<ServerJob>> = jobs.iter().filter(|job| job.is_running()).collect();
        if let Some(same) = running.iter().find(|job| is_same(&job.subject, &subject)) {
            let text = format!(
                "job {} is at work on it: {}",
                same.id,
                command_line(&same.command)
            );
            return Err(RequestError::conflict(text).hint("wait for its end, or stop it"));
        }
        if running.len() >= RUNNING_MAX {
            let text = format!("{RUNNING_MAX} jobs are running, which is the most at once");
            return Err(RequestError::conflict(text).hint("wait for one to end, or stop one"));
        }
        let mut child = command(&self.program, args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| RequestError::failed(format!("failed to start plimsoll: {error}")))?;
        if let Some(mut input) = child.stdin.take() {
            let campaign = campaign.to_owned();
            // A program that ends before it has read all reports the reason itself.
            std::thread::spawn(move || drop(input.write_all(campaign.as_bytes())));
        }
        let mut words = vec!["plimsoll".to_owned()];
        words.extend(args.iter().cloned());
        let job = Arc::new(ServerJob {
            id: jobs.last().map_or(1, |last| last.id + 1),
            command: words,
            subject,
            began_at: now(),
            group: Pid::from_child(&child),
            lines: NewsRing::keeping(LINES_MAX),
            ended: Mutex::default(),
        });
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let read = |from: Box<dyn Read + Send>| {
            let of = Arc::clone(&job);
            std::thread::spawn(move || read_lines(from, &of))
        };
        let readers = [
            out.map(|out| read(Box::new(out))),
            err.map(|err| read(Box::new(err))),
        ];
        let of = Arc::clone(&job);
        std::thread::spawn(move || {
            wait(
                &mut child,
                &of,
                &readers.into_iter().flatten().collect::<Vec<_>>(),
            );
        });
        jobs.push(Arc::clone(&job));
        forget_oldest(&mut jobs);
        Ok(job)
    }

    pub(crate) fn find(&self, id: &str) -> Result<Arc<ServerJob>, RequestError> {
        let jobs = locked(&self.jobs);
        let found = jobs.iter().find(|job| job.id.to_string() == id);
        found
            .cloned()
            .ok_or_else(|| RequestError::not_found(format!("there is no job '{}'", printable(id))))
    }

    /// Newest first.
    pub(crate) fn all(&self) -> Vec<Arc<ServerJob>> {
        locked(&self.jobs).iter().rev().cloned().collect()
    }

    /// The newest job that records this run.
    pub(crate) fn of_run(&self, run: &str) -> Option<String> {
        let all = self.all();
        let found = all
            .iter()
            .find(|job| job.subject.run.as_deref() == Some(run));
        found.map(|job| job.id.to_string())
    }

    pub(crate) fn is_at_work_on(&self, run: &str) -> bool {
        let is_of_run = |job: &Arc<ServerJob>| job.subject.run.as_deref() == Some(run);
        self.all()
            .iter()
            .any(|job| is_of_run(job) && job.is_running())
    }

    pub(crate) fn facts(&self, job: &ServerJob) -> JobFacts {
        let ended = locked(&job.ended).clone();
        let code = ended.as_ref().and_then(|ended| ended.status.code());
        JobFacts {
            id: job.id.to_string(),
            command: job.command.clone(),
            command_line: command_line(&job.command),
            state: match (&ended, code) {
                (None, _) => JobState::Running,
                (Some(_), Some(0)) => JobState::Done,
                (Some(_), Some(130)) => JobState::Stopped,
                _ => JobState::Failed,
            },
            exit_code: code,
            meaning: ended.as_ref().map(|ended| self.means(ended.status)),
            output: job.lines.since(0).news,
            run: job.subject.run.clone(),
            stack: job.subject.stack.clone(),
            began_at: job.began_at.clone(),
            ended_at: ended.map(|ended| ended.at),
        }
    }

    fn means(&self, status: ExitStatus) -> String {
        match (status.code(), status.signal()) {
            (Some(code), _) => (self.meaning)(code).to_owned(),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => String::new(),
        }
    }

    /// The program's answer as JSON; its exit code may tell of something bad in it.
    pub(crate) async fn ask(&self, args: &[String]) -> Result<serde_json::Value, RequestError> {
        let failed = |error: std::io::Error| {
            RequestError::failed(format!("failed to start plimsoll: {error}"))
        };
        let mut child = command(&self.program, args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let group = Pid::from_child(&child);
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let answered = tokio::task::spawn_blocking(move || {
            let words = std::thread::spawn(move || read_text(err));
            let answer = read_answer(out);
            let words = words.join().unwrap_or_default();
            (answer, words, child.wait())
        });
        let Ok(answered) = tokio::time::timeout(ANSWER_TIME, answered).await else {
            let _ = kill_process_group(group, Signal::INT);
            let text = format!(
                "no answer within {} s: {}",
                ANSWER_TIME.as_secs(),
                args.join(" ")
            );
            return Err(RequestError::failed(text));
        };
        let (answer, words, _) = answered.map_err(RequestError::failed)?;
        serde_json::from_slice(&answer).map_err(|_| said(&words))
    }
}

/// The program's own words instead of an answer, as an error.
pub(crate) fn said(words: &str) -> RequestError {
    let (text, hint) = words.split_once("\n  hint: ").unwrap_or((words, ""));
    let text = text.trim().trim_start_matches("error: ");
    let error = RequestError::invalid(printable(match text {
        "" => "plimsoll gave no answer",
        text => text,
    }));
    match hint.trim() {
        "" => error,
        hint => error.hint(printable(hint)),
    }
}

fn is_same(one: &JobSubject, other: &JobSubject) -> bool {
    let same = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
    same(&one.run, &other.run) || same(&one.stack, &other.stack)
}

#[expect(
    clippy::disallowed_methods,
    reason = "our own programs, without a shell, in a process group of its own"
)]
pub(crate) fn command(program: &Path, args: &[String]) -> Command {
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .env("NO_COLOR", "1")
        // A run needs no database, and what it starts needs its secrets even less.
        .env_remove("PLIMSOLL_DATABASE")
        .env_remove("PGPASSWORD")
        .env_remove("PLIMSOLL_TOKEN")
        .process_group(0);
    command
}

fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// Keeps what is printed, line by line; of a line that is too long its beginning.
fn read_lines(from: impl Read, job: &ServerJob) {
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        match (&mut from).take(LINE_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if line.last() != Some(&b'\n') && from.skip_until(b'\n').is_err() {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        job.lines
            .push(printable(text.trim_end_matches(['\n', '\r'])));
    }
}

fn read_answer(out: Option<ChildStdout>) -> Vec<u8> {
    let mut answer = Vec::new();
    if let Some(out) = out {
        // A cut answer is no JSON, which is reported.
        let _ = out.take(ANSWER_MAX).read_to_end(&mut answer);
    }
    answer
}

fn read_text(from: Option<impl Read>) -> String {
    let mut text = Vec::new();
    if let Some(from) = from {
        let _ = from.take(64 << 10).read_to_end(&mut text);
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Waits for the end of a job, and notes it. What it started itself may keep its output open; that is not
/// waited for.
fn wait(child: &mut Child, job: &ServerJob, readers: &[JoinHandle<()>]) {
    loop {
        // Held while it is looked: with the end its number is free for others, and no signal must follow.
        let mut ended = locked(&job.ended);
        let looked = child
            .try_wait()
            .unwrap_or(Some(ExitStatus::from_raw(1 << 8)));
        if let Some(status) = looked {
            *ended = Some(JobEnd { status, at: now() });
            break;
        }
        drop(ended);
        pause();
    }
    for _ in 0..LAST_LOOKS {
        if readers.iter().all(JoinHandle::is_finished) {
            break;
        }
        pause();
    }
    job.lines.close();
}

#[expect(
    clippy::disallowed_methods,
    reason = "a process is waited for, which no clock of ours can hurry"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(50));
}

/// Forgets the jobs that ended first.
fn forget_oldest(jobs: &mut Vec<Arc<ServerJob>>) {
    while jobs.len() > ENDED_MAX {
        let Some(oldest) = jobs.iter().position(|job| !job.is_running()) else {
            return;
        };
        jobs.remove(oldest);
    }
}
