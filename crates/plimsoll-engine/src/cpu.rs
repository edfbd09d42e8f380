// SPDX-License-Identifier: Apache-2.0
//! Processor time of threads.
//!
//! The total is exact (the scheduler's own clock, where the kernel keeps it); how it divides into
//! user and kernel is only sampled by most kernels, and taken from their counters.
//!
//! Threads that end take their time with them: what `io_uring` worker threads used that have gone
//! (the kernel ends those that were idle for some seconds) is missed.

use std::collections::BTreeMap;
use std::fs;

use plimsoll_core::num::{ratio, round_u64};

/// Processor time of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct CpuTime {
    user_ticks: u64,
    system_ticks: u64,
    total_ns: u64,
}

/// Processor time by thread id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ThreadCpuTimes(BTreeMap<u32, CpuTime>);

/// CPU time of `threads` (ids) of this process so far. Threads that have ended are left out.
pub(crate) fn of_threads(threads: &[u32]) -> ThreadCpuTimes {
    let time = |thread: &u32| Some((*thread, of_thread(*thread)?));
    ThreadCpuTimes(threads.iter().filter_map(time).collect())
}

/// `threads` and the `io_uring` workers that the kernel runs for them at this moment.
pub(crate) fn with_kernel_threads(threads: &[u32]) -> Vec<u32> {
    let mut all = threads.to_vec();
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return all;
    };
    for task in tasks.flatten() {
        let id = task.file_name().to_str().and_then(|name| name.parse().ok());
        // A thread that has just ended has no name any more.
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if let (Some(id), true) = (id, works_for(&name, threads)) {
            all.push(id);
        }
    }
    all
}

/// Whether a thread of this name is an `io_uring` worker of one of `threads`.
fn works_for(name: &str, threads: &[u32]) -> bool {
    let owner = name.trim_end().strip_prefix("iou-wrk-");
    let owner = owner.and_then(|id| id.parse().ok());
    owner.is_some_and(|id: u32| threads.contains(&id))
}

fn of_thread(thread: u32) -> Option<CpuTime> {
    let folder = format!("/proc/self/task/{thread}");
    let stat = fs::read_to_string(format!("{folder}/stat")).ok()?;
    // The name in parentheses may hold anything; fields are counted after it (man 5 proc).
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let user_ticks: u64 = fields.next()?.parse().ok()?;
    let system_ticks: u64 = fields.next()?.parse().ok()?;
    let exact = fs::read_to_string(format!("{folder}/schedstat")).unwrap_or_default();
    let exact = exact.split(' ').next().and_then(|t| t.parse().ok());
    let by_ticks = (user_ticks + system_ticks) * ns_per_tick();
    Some(CpuTime {
        user_ticks,
        system_ticks,
        total_ns: exact.filter(|ns| *ns > 0).unwrap_or(by_ticks),
    })
}

fn ns_per_tick() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

impl ThreadCpuTimes {
    /// Nanoseconds in user space and in the kernel since `earlier`; all of those threads that have
    /// begun since.
    pub(crate) fn since(&self, earlier: &ThreadCpuTimes) -> (u64, u64) {
        let (mut user, mut system, mut total) = (0, 0, 0);
        for (thread, now) in &self.0 {
            let before = earlier.0.get(thread).copied().unwrap_or_default();
            user += now.user_ticks.saturating_sub(before.user_ticks);
            system += now.system_ticks.saturating_sub(before.system_ticks);
            total += now.total_ns.saturating_sub(before.total_ns);
        }
        // Too short for a tick: all of it is called user time.
        let share = ratio(system as f64, (user + system) as f64);
        let system_ns = round_u64(total as f64 * share).min(total);
        (total - system_ns, system_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::RunClock;
    use crate::sys::clock::HostClock;
    use plimsoll_core::units::Nanos;

    #[test]
    fn spinning_is_counted_as_user_time() {
        let me = [crate::pool::thread_id()];
        let (clock, before) = (HostClock::start(), of_threads(&me));
        let (mut user, mut system) = (0, 0);
        // Other programs may hold the processor for most of the time.
        while user < 20_000_000 && clock.now() < Nanos(30 * Nanos::SECOND.0) {
            (0..10_000).for_each(|_| std::hint::spin_loop());
            (user, system) = of_threads(&me).since(&before);
        }
        assert!(user >= 20_000_000, "{user}");
        // One thread, and a tick of the accounting.
        assert!(
            user + system <= clock.now().0 + 10_000_000,
            "{user} {system}"
        );
    }

    #[test]
    fn workers_of_the_kernel_are_known_by_their_owner() {
        for (name, expect) in [
            ("iou-wrk-42\n", true),
            ("iou-wrk-4194304", true),
            ("iou-wrk-43\n", false),
            ("iou-sqp-42\n", false),
            ("plimsoll-io\n", false),
        ] {
            assert_eq!(works_for(name, &[7, 42, 4_194_304]), expect, "{name}");
        }
        let me = [crate::pool::thread_id()];
        assert_eq!(with_kernel_threads(&me), me, "no ring, no workers");
    }

    #[test]
    fn a_thread_that_began_later_counts_whole_and_one_that_ended_takes_nothing_away() {
        let time = |total_ns| CpuTime {
            total_ns,
            ..CpuTime::default()
        };
        let before = ThreadCpuTimes(BTreeMap::from([(1, time(500)), (2, time(900))]));
        let after = ThreadCpuTimes(BTreeMap::from([(1, time(600)), (3, time(70))]));
        assert_eq!(after.since(&before), (170, 0));
    }
}
