// SPDX-License-Identifier: Apache-2.0
//! The use of processes so far, from `/proc`. Looks only.

use serde::{Deserialize, Serialize};
use std::fs;

/// How often the disk below a directory was flushed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFlushCount {
    /// The device, of this boot of this machine: directories with the same one share its flushes.
    pub device: String,
    /// Since the machine was started.
    pub count: u64,
}

/// The use of the processes of one mark since they began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostProcessUsage {
    /// Processes that live.
    pub processes: u32,
    /// Processor time of all their threads, nanoseconds.
    pub cpu_ns: u64,
    /// Processor time of the thread that has used most, nanoseconds.
    pub busiest_thread_ns: u64,
    /// Memory in use that is their own or shared.
    pub resident_bytes: u64,
    /// Bytes moved by reading and writing: the larger of what was asked of the kernel and what went
    /// to storage (a server that maps files or splices asks for little).
    pub moved_bytes: u64,
}

impl HostProcessUsage {
    /// Both together.
    #[must_use]
    pub fn and(self, other: HostProcessUsage) -> HostProcessUsage {
        HostProcessUsage {
            processes: self.processes + other.processes,
            cpu_ns: self.cpu_ns + other.cpu_ns,
            busiest_thread_ns: self.busiest_thread_ns.max(other.busiest_thread_ns),
            resident_bytes: self.resident_bytes + other.resident_bytes,
            moved_bytes: self.moved_bytes + other.moved_bytes,
        }
    }
}

/// The use of these processes; those that are gone count nothing.
pub(crate) fn of(pids: &[u32]) -> HostProcessUsage {
    pids.iter()
        .filter_map(|&pid| of_one(pid))
        .fold(HostProcessUsage::default(), HostProcessUsage::and)
}

fn of_one(pid: u32) -> Option<HostProcessUsage> {
    let place = format!("/proc/{pid}");
    let status = fs::read_to_string(format!("{place}/status")).ok()?;
    let resident_kib = number_after(&status, "VmRSS:").unwrap_or(0);
    let mut usage = HostProcessUsage {
        processes: 1,
        resident_bytes: resident_kib << 10,
        ..HostProcessUsage::default()
    };
    for thread in fs::read_dir(format!("{place}/task")).ok()?.flatten() {
        // Nanoseconds on a processor, nanoseconds waiting, turns.
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        let ran = text.split(' ').next().and_then(|n| n.parse().ok());
        let ran: u64 = ran.unwrap_or(0);
        usage.cpu_ns += ran;
        usage.busiest_thread_ns = usage.busiest_thread_ns.max(ran);
    }
    // Threads that have ended are in the time of the process alone, in ticks.
    usage.cpu_ns = usage.cpu_ns.max(process_ns(&place).unwrap_or(0));
    // Only its owner and root may read it.
    let io = fs::read_to_string(format!("{place}/io")).unwrap_or_default();
    let of = |name| number_after(&io, name).unwrap_or(0);
    let asked = of("rchar:") + of("wchar:");
    usage.moved_bytes = asked.max(of("\nread_bytes:") + of("\nwrite_bytes:"));
    Some(usage)
}

/// Processor time of a process with the threads that it had, to a tick.
fn process_ns(place: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("{place}/stat")).ok()?;
    // Its name, in parentheses, may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    Some((ticks()? + ticks()?) * tick_ns)
}

/// The whole number behind a word.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let rest = &text[text.find(word)? + word.len()..];
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_something_and_a_gone_one_nothing() {
        let usage = of(&[std::process::id()]);
        assert_eq!(usage.processes, 1);
        assert!(usage.cpu_ns > 0 && usage.cpu_ns >= usage.busiest_thread_ns);
        assert!(usage.resident_bytes > 1 << 20 && usage.moved_bytes > 0);
        assert_eq!(of(&[u32::MAX]), HostProcessUsage::default());
    }

    #[test]
    fn time_of_threads_that_ended_counts() {
        let busy = || {
            for n in 0..20_000_000u64 {
                std::hint::black_box(n);
            }
        };
        let id = std::process::id();
        let before = of(&[id]).cpu_ns;
        while of(&[id]).cpu_ns - before < 40_000_000 {
            // On a busy machine a thread gets less than it asks for.
            std::thread::spawn(busy).join().unwrap();
        }
    }

    #[test]
    fn a_number_is_found_behind_its_own_word() {
        let io = "rchar: 5\nwchar: 6\nread_bytes: 7\nwrite_bytes: 8\ncancelled_write_bytes: 9\n";
        assert_eq!(number_after(io, "\nwrite_bytes:"), Some(8));
        assert_eq!(number_after(io, "absent:"), None);
    }
}
