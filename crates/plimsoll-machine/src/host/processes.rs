// SPDX-License-Identifier: Apache-2.0
//! Processes found and ended by the mark in their environment.
//!
//! A process number is never remembered: after a crash it may belong to someone else. The mark in
//! `/proc/<pid>/environ` is set by us before the program starts and stays until it ends.

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use super::clock::HostTimeSource;
use super::environ::variable;
use super::error::HostError;
use super::{MARK_VARIABLE, command};

/// How long a daemon may take to end by itself. tgtd ignores the signal, so every raze of a stack
/// with it pays this time; the others end within 0.1 s.
const GRACE: Duration = Duration::from_secs(2);

/// How long a server may that is asked to end as a fault, with all that it does in its last moments:
/// what systemd gives a service by default (`DefaultTimeoutStopSec`).
const SERVICE_GRACE: Duration = Duration::from_secs(90);

/// How long the kernel may take to end a killed process, whose last requests a busy disk may still have.
/// Longer only when it is stuck in the kernel; then an error names it.
const KILL_WAIT: Duration = Duration::from_secs(15);

/// How long processes that do nothing any more may take to close their files. Storage that does not answer
/// can hold them for ever, and what serves it may be what is ended next.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Time between two looks at processes that were killed: the fault is there with the last of them.
const MOMENT: Duration = Duration::from_millis(1);

/// A process, so that its number being used again is noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostProcessId {
    /// Number.
    pub pid: u32,
    /// When it began, in clock ticks since the machine started.
    pub started_ticks: u64,
    /// Which start of the machine.
    pub boot: String,
}

impl HostProcessId {
    /// This process.
    pub fn this() -> HostProcessId {
        let pid = std::process::id();
        HostProcessId {
            pid,
            started_ticks: stat_of(pid).map_or(0, |(_, ticks)| ticks),
            boot: boot(),
        }
    }
}

impl HostProcessId {
    /// Whether it began since this machine was started.
    pub fn is_of_this_boot(&self) -> bool {
        self.boot == boot()
    }
}

/// Whether the process still runs. A process that ended but was not collected does not, nor one that was
/// killed and is gone as soon as storage answers it.
pub fn is_alive(owner: &HostProcessId) -> bool {
    owner.boot == boot()
        && stat_of(owner.pid).is_some_and(|(_, ticks)| ticks == owner.started_ticks)
        && !is_ended(owner.pid)
}

/// Whether a process will do nothing any more: it ended, or SIGKILL waits until its threads come back from
/// the kernel. Of one whose first thread is gone others may still wait there.
pub(crate) fn is_ended(pid: u32) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return true;
    };
    let has_sigkill = |mask: &str| u64::from_str_radix(mask, 16).is_ok_and(|m| m >> 8 & 1 == 1);
    status.lines().any(|line| match line.split_once(":\t") {
        Some(("State", state)) => state.starts_with(['Z', 'X', 'x']),
        Some(("SigPnd" | "ShdPnd", mask)) => has_sigkill(mask),
        _ => false,
    })
}

/// Begins the mark of a command that no journal has and that ends by itself.
const HELPER: &str = "plimsoll-helper-";

/// The mark of such a command of this process. It names the process, which distinguishes a helper that
/// outlived its starter from one whose starter still waits.
pub fn helper_mark() -> String {
    let starter = HostProcessId::this();
    format!("{HELPER}{}-{}", starter.pid, starter.started_ticks)
}

/// Whether a mark is of a helper whose starter still runs.
pub(crate) fn is_awaited(mark: &str) -> bool {
    let numbers = mark
        .strip_prefix(HELPER)
        .and_then(|rest| rest.split_once('-'));
    let starter = numbers.and_then(|(pid, ticks)| {
        Some(HostProcessId {
            pid: pid.parse().ok()?,
            started_ticks: ticks.parse().ok()?,
            boot: boot(),
        })
    });
    starter.is_some_and(|starter| is_alive(&starter))
}

/// This boot of this machine.
pub(super) fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().to_string())
        .unwrap_or_default()
}

/// State letter and start time (ticks since boot) of a process.
fn stat_of(pid: u32) -> Option<(char, u64)> {
    state_and_start(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The same of the text of a process or thread.
fn state_and_start(text: &str) -> Option<(char, u64)> {
    // The name is in parentheses and may itself contain any character.
    let rest = text.get(text.rfind(')')? + 2..)?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some((
        fields.first()?.chars().next()?,
        fields.get(19)?.parse().ok()?,
    ))
}

/// Whether a process or thread in this state has ended.
fn is_over(state: char) -> bool {
    matches!(state, 'Z' | 'X' | 'x')
}

/// All process numbers.
pub(crate) fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// Living processes, other than this one, whose environment has exactly this mark, including those that were
/// started an instant ago.
pub fn marked(mark: &str) -> Vec<u32> {
    let ourselves = std::process::id();
    let mut found = all();
    found.retain(|&pid| {
        pid != ourselves
            && carries(pid, mark)
            && stat_of(pid).is_some_and(|(state, _)| !is_over(state))
    });
    found
}

/// The mark of a process, if it has one.
pub(crate) fn mark_of(pid: u32) -> Option<String> {
    String::from_utf8(variable(pid, MARK_VARIABLE)?).ok()
}

/// Whether the environment of a process has exactly this mark.
fn carries(pid: u32, mark: &str) -> bool {
    variable(pid, MARK_VARIABLE).is_some_and(|found| found == mark.as_bytes())
}

/// Ends every process with this mark and waits until they are gone.
pub(crate) fn stop(mark: &str, clock: &dyn HostTimeSource) -> Result<(), HostError> {
    stop_within(GRACE, mark, clock)
}

/// The same of a server, which must be there and is given time to end in its own way.
pub(crate) fn end(mark: &str, clock: &dyn HostTimeSource) -> Result<(), HostError> {
    match marked(mark).is_empty() {
        true => Err(nobody(mark)),
        false => stop_within(SERVICE_GRACE, mark, clock),
    }
}

/// Processes that were sent a signal to end.
///
/// A process loses its environment, and with it its mark, before its files are closed: a server with much
/// memory has its locks and its port for some hundred milliseconds more, and the next one would not start.
#[derive(Default)]
struct EndingProcesses {
    /// When each began, in clock ticks, by its number.
    began: BTreeMap<u32, u64>,
}

impl EndingProcesses {
    fn add(&mut self, pid: u32) {
        let began = stat_of(pid).map_or(0, |(_, ticks)| ticks);
        self.began.insert(pid, began);
    }

    /// Collects those of them that are our children.
    fn collect(&self) {
        self.began.keys().for_each(|&pid| collect(pid));
    }

    /// Waits until all of them have closed their files.
    fn wait_for_closed_files(&self, clock: &dyn HostTimeSource) {
        let until = clock.now() + CLOSE_WAIT;
        let has_files = |(&pid, &began): (&u32, &u64)| {
            stat_of(pid).is_some_and(|(_, ticks)| ticks == began) && has_running_thread(pid)
        };
        while self.began.iter().any(has_files) && clock.now() < until {
            clock.pause(MOMENT);
            self.collect();
        }
    }
}

/// Whether a thread of the process has not ended. The last one closes the files, then it is a zombie.
fn has_running_thread(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let is_running = |thread: fs::DirEntry| {
        let state = fs::read_to_string(thread.path().join("stat"))
            .ok()
            .and_then(|text| state_and_start(&text));
        state.is_some_and(|(state, _)| !is_over(state))
    };
    threads.is_ok_and(|threads| threads.flatten().any(is_running))
}

fn stop_within(grace: Duration, mark: &str, clock: &dyn HostTimeSource) -> Result<(), HostError> {
    let began = clock.now();
    let mut ending = EndingProcesses::default();
    loop {
        let living = marked(mark);
        ending.collect();
        if living.is_empty() {
            // A process that was between fork and exec at the first look has no mark yet, but the
            // environment of its parent; the second look, after a pause far longer than that, sees it.
            if ending.began.is_empty() {
                clock.pause(LOOK);
            }
            ending.wait_for_closed_files(clock);
            if marked(mark).is_empty() {
                return Ok(());
            }
            continue;
        }
        let waited = clock.now().saturating_sub(began);
        if waited > grace + KILL_WAIT {
            return Err(HostError::State(stuck(mark, &living)));
        }
        for pid in living {
            if waited > grace {
                signal(pid, mark, Signal::KILL);
            } else if !ending.began.contains_key(&pid) {
                ending.add(pid);
                signal(pid, mark, Signal::TERM);
            }
        }
        clock.pause(LOOK);
    }
}

/// Kills every process with this mark at once, without a word, and waits until they are gone and their
/// files are closed. Whether there was one.
pub fn kill(mark: &str, clock: &dyn HostTimeSource) -> Result<bool, HostError> {
    let began = clock.now();
    let mut ending = EndingProcesses::default();
    // Again and again: one that was just being started is seen at the next look.
    loop {
        let living = marked(mark);
        // Also those that had not ended yet at the look before.
        ending.collect();
        if living.is_empty() {
            ending.wait_for_closed_files(clock);
            return Ok(!ending.began.is_empty());
        }
        if clock.now().saturating_sub(began) > KILL_WAIT {
            return Err(HostError::State(stuck(mark, &living)));
        }
        for pid in living {
            ending.add(pid);
            signal(pid, mark, Signal::KILL);
        }
        clock.pause(MOMENT);
    }
}

/// The same of a server, which must be there: what is not cannot fail.
pub(crate) fn kill_server(mark: &str, clock: &dyn HostTimeSource) -> Result<(), HostError> {
    match kill(mark, clock)? {
        true => Ok(()),
        false => Err(nobody(mark)),
    }
}

/// Stops every process with this mark where it is.
pub(crate) fn pause(mark: &str) -> Result<(), HostError> {
    let living = marked(mark);
    living
        .iter()
        .for_each(|&pid| signal(pid, mark, Signal::STOP));
    if living.is_empty() {
        return Err(nobody(mark));
    }
    Ok(())
}

/// Lets every process with this mark go on; none is as good as all.
pub(crate) fn resume(mark: &str) -> Result<(), HostError> {
    let living = marked(mark);
    living
        .iter()
        .for_each(|&pid| signal(pid, mark, Signal::CONT));
    Ok(())
}

fn nobody(mark: &str) -> HostError {
    HostError::State(format!("no process carries the mark {mark}"))
}

fn stuck(mark: &str, pids: &[u32]) -> String {
    let list: Vec<String> = pids
        .iter()
        .map(|&pid| {
            let state = stat_of(pid).map_or('?', |(state, _)| state);
            format!("{pid} ({}, state {state})", command::name_of(pid))
        })
        .collect();
    format!(
        "process {} with the mark {mark} did not end after SIGKILL; in state D it waits for a \
         device inside the kernel: end what serves that device, then try again",
        list.join(", ")
    )
}

/// Signals a process if it is the one with this mark: by its number alone another one could be met that
/// was given it meanwhile.
fn signal(pid: u32, mark: &str, signal: Signal) {
    let process = to_pid(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()));
    // An error means that it is already gone, or not ours: the next check shows it.
    let Some(Ok(process)) = process else {
        return;
    };
    // The mark read now is this process's own, or the process is gone and the signal has no effect.
    if carries(pid, mark) {
        let _ = pidfd_send_signal(&process, signal);
    }
}

/// Collects the process if it is our child, so that it does not stay as a zombie.
fn collect(pid: u32) {
    if let Some(pid) = to_pid(pid) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_an_older_one_with_its_number_is_not() {
        let mut owner = HostProcessId::this();
        assert!(is_alive(&owner));
        owner.started_ticks += 1;
        assert!(!is_alive(&owner));
        let mut other_boot = HostProcessId::this();
        other_boot.boot = "another".into();
        assert!(!is_alive(&other_boot));
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a process of its own is looked at"
    )]
    fn what_was_killed_and_not_collected_does_nothing_any_more() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        assert!(!is_ended(child.id()) && !is_ended(std::process::id()));
        child.kill().unwrap();
        assert!(is_ended(child.id()), "SIGKILL waits for it, or it is gone");
        child.wait().unwrap();
        assert!(is_ended(child.id()));
    }
}
