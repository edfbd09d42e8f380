// SPDX-License-Identifier: Apache-2.0
//! Programs that bring agents to other machines (`srun`, `mpiexec`, copies of a program on this one), as a
//! command of ours that must not outlive us.
//!
//! Between it and us stands a keeper: our agent with the word `carry`. It holds the other end of a pipe, so
//! it notices when this process ends, however it ends, and then ends what it started and undoes what was
//! made for it.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin};
use std::time::Duration;

use super::clock::{HostTimeSource, SystemClock};
use super::command::{self, HostCommand, SearchPath};
use super::error::HostError;

/// The agent's word for a keeper.
pub const WORD: &str = "carry";

/// The variable that says to one of several copies which one it is.
const RANK_VARIABLE: &str = "PLIMSOLL_RANK";

/// Mark of all that carries agents. No journal has it: it ends with its pipe.
const CARRIER_MARK: &str = "plimsoll-carrier";

/// How often a keeper looks at what it started.
const LOOK: Duration = Duration::from_millis(100);

/// How long what is to end may take before it is killed.
const END_LIMIT: Duration = Duration::from_secs(20);

/// How long undoing may take, and how long we wait for a keeper in all.
const UNDO_LIMIT: Duration = Duration::from_secs(60);
const KEEPER_LIMIT: Duration = Duration::from_secs(90);

/// The order to a keeper.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CarryOrder {
    /// The command to keep; none where only something is to be undone.
    pub run: Vec<String>,
    /// How many copies of it, each told its number.
    pub copies: u32,
    /// The command that undoes what was made, if any.
    pub undo: Vec<String>,
}

/// A keeper, and through it a command.
#[derive(Debug)]
pub struct CarrierProcess {
    keeper: Child,
    /// While this is open the command runs.
    held: Option<ChildStdin>,
    words: File,
    clock: SystemClock,
}

impl CarrierProcess {
    /// Starts a keeper, which is `agent`. `secrets` go into the environment of the command alone.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        agent: &Path,
        order: &CarryOrder,
        secrets: &BTreeMap<String, String>,
    ) -> Result<CarrierProcess, HostError> {
        let shown = order.run.join(" ");
        let failed = HostError::doing(format!("run '{shown}'"));
        let words = command::memory_file().map_err(&failed)?;
        let ready = HostCommand {
            program: agent.into(),
            args: vec![WORD.into()],
            env: secrets,
            state: None,
            mark: CARRIER_MARK,
            shown: shown.clone(),
        };
        let mut keeper = ready.spawn_fed(&words, &words).map_err(&failed)?;
        let mut held = keeper.stdin.take().expect("it was started with a pipe");
        let mut line = serde_json::to_vec(order).expect("an order is plain data");
        line.push(b'\n');
        held.write_all(&line).map_err(&failed)?;
        Ok(CarrierProcess {
            keeper,
            held: Some(held),
            words,
            clock: SystemClock::new(),
        })
    }

    /// Whether the command has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.keeper.try_wait(), Ok(None))
    }

    /// Its last words.
    pub fn last_words(&mut self) -> String {
        command::last_lines(&mut self.words)
    }

    /// Waits until the command has ended by itself, then ends it.
    pub fn end(&mut self, patience: Duration) {
        let _ = command::wait(&mut self.keeper, patience, &self.clock);
        self.held = None;
        let _ = command::wait(&mut self.keeper, KEEPER_LIMIT, &self.clock);
    }
}

impl Drop for CarrierProcess {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// Runs a command to its end with this text as its input; gives what it said.
///
/// # Errors
/// When it is missing, fails or takes longer than `limit`.
pub fn ask(
    search: &SearchPath,
    words: &[String],
    input: &str,
    limit: Duration,
) -> Result<String, HostError> {
    let shown = words.join(" ");
    let failed = HostError::doing(format!("run '{shown}'"));
    let (program, args) = resolved(search, words)?;
    let mut errors = command::memory_file().map_err(&failed)?;
    let ready = HostCommand {
        program,
        args,
        env: &BTreeMap::new(),
        state: None,
        mark: CARRIER_MARK,
        shown: shown.clone(),
    };
    let clock = SystemClock::new();
    let mut output = command::memory_file().map_err(&failed)?;
    let mut child = ready.spawn_fed(&output, &errors).map_err(&failed)?;
    let mut to = child.stdin.take().expect("it was started with a pipe");
    let fed = to.write_all(input.as_bytes());
    drop(to);
    let status = command::wait(&mut child, limit, &clock).map_err(&failed)?;
    let Some(status) = status else {
        command::end_group(&mut child, &clock);
        return Err(HostError::TimedOut {
            command: shown,
            seconds: limit.as_secs(),
            output: command::last_lines(&mut errors),
        });
    };
    if !status.success() {
        return Err(HostError::Failed {
            command: shown,
            status: command::in_words(status),
            output: command::last_lines(&mut errors),
        });
    }
    fed.map_err(&failed)?;
    let mut text = String::new();
    io::Seek::rewind(&mut output).map_err(&failed)?;
    output
        .take(command::OUTPUT_MAX)
        .read_to_string(&mut text)
        .map_err(&failed)?;
    Ok(text)
}

fn resolved(search: &SearchPath, words: &[String]) -> Result<(PathBuf, Vec<String>), HostError> {
    let Some((name, args)) = words.split_first() else {
        return Err(HostError::State("there is no command to run".into()));
    };
    let path = match name.contains('/') {
        true => name.into(),
        false => search.require(name)?,
    };
    Ok((path, args.to_vec()))
}

/// The keeper itself: reads its order, keeps the command while its input is open, and cleans up. Gives
/// whether the command did well.
///
/// # Errors
/// When the order makes no sense, or the command cannot be started.
pub fn keep(search: &SearchPath) -> Result<bool, HostError> {
    let input = io::stdin();
    let mut line = String::new();
    let read = input.lock().read_line(&mut line);
    read.map_err(HostError::io("read", Path::new("standard input")))?;
    let order: CarryOrder = serde_json::from_str(&line)
        .map_err(|error| HostError::State(format!("malformed order of a carrier: {error}")))?;
    let began = start_all(search, &order);
    let clock = SystemClock::new();
    let well = match began {
        Ok(mut children) => Ok(watch(&mut children, &clock)),
        Err(error) => Err(error),
    };
    if !order.undo.is_empty() {
        let _ = ask(search, &order.undo, "", UNDO_LIMIT);
    }
    well
}

fn start_all(search: &SearchPath, order: &CarryOrder) -> Result<Vec<Child>, HostError> {
    if order.run.is_empty() {
        return Ok(Vec::new());
    }
    let shown = order.run.join(" ");
    let failed = HostError::doing(format!("run '{shown}'"));
    let (program, args) = resolved(search, &order.run)?;
    let words = io::stderr().as_fd().try_clone_to_owned().map_err(&failed)?;
    let words = File::from(words);
    let mut children = Vec::new();
    for number in 0..order.copies.max(1) {
        let mut env = ticket_of_ours();
        if order.copies > 0 {
            env.insert(RANK_VARIABLE.into(), number.to_string());
        }
        let ready = HostCommand {
            program: program.clone(),
            args: args.clone(),
            env: &env,
            state: None,
            mark: CARRIER_MARK,
            shown: shown.clone(),
        };
        let child = ready.spawn_in(Path::new("/"), &words, &words);
        match child {
            Ok(child) => children.push(child),
            Err(error) => {
                end_all(&mut children, &SystemClock::new());
                return Err(failed(error));
            }
        }
    }
    Ok(children)
}

/// Variables that this command gets and our other commands do not.
fn ticket_of_ours() -> BTreeMap<String, String> {
    let ticket = std::env::var(super::TICKET_VARIABLE).ok();
    ticket
        .map(|ticket| (super::TICKET_VARIABLE.to_owned(), ticket))
        .into_iter()
        .collect()
}

/// Waits until all have ended, or the input has; then ends them. Gives whether all did well.
fn watch(children: &mut [Child], clock: &SystemClock) -> bool {
    let input = io::stdin();
    let look = Timespec::try_from(LOOK).ok();
    let mut ended = vec![None; children.len()];
    loop {
        for (child, ended) in children.iter_mut().zip(&mut ended) {
            if ended.is_none() {
                *ended = child.try_wait().ok().flatten();
            }
        }
        if !children.is_empty() && ended.iter().all(Option::is_some) {
            return ended.iter().flatten().all(|status| status.success());
        }
        let mut on = [PollFd::new(&input, PollFlags::IN)];
        let _ = poll(&mut on, look.as_ref());
        if !on[0].revents().is_empty() && !matches!(input.lock().read(&mut [0; 64]), Ok(1..)) {
            end_all(children, clock);
            return true;
        }
    }
}

/// Asks all to end, and kills those that do not.
fn end_all(children: &mut [Child], clock: &SystemClock) {
    let until = clock.now() + END_LIMIT;
    for child in children.iter() {
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::TERM);
        }
    }
    for child in children {
        let left = until.saturating_sub(clock.now());
        if !matches!(command::wait(child, left, clock), Ok(Some(_))) {
            command::end_group(child, clock);
        }
    }
}
