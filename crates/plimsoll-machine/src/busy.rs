// SPDX-License-Identifier: Apache-2.0
//! Who else is at work on this machine: two looks at what the kernel counts, and what others did
//! between them. Looks only.
//!
//! Others are all programs but this one, what it has started and waited for, servers of stacks (by
//! their mark, of whatever run) and threads of the kernel, which mostly work for the load. What
//! ends between the looks counts as others'.

use plimsoll_core::others::{NeighbourDiskUse, NeighbourUse, PressureStallTimes};
use plimsoll_core::units::Nanos;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use crate::host::environ::{self, KERNEL_THREAD};
use crate::host::{HostTimeSource, MARK_VARIABLE, SystemClock, all_processes};

/// A time in which others are watched.
#[derive(Debug)]
pub struct BusyWatch {
    /// One clock for both looks: clocks begin at moments of their own.
    clock: SystemClock,
    first: BusyLook,
}

impl BusyWatch {
    /// Begins now.
    pub fn begin() -> Self {
        let clock = SystemClock::new();
        let first = BusyLook::now(&clock);
        BusyWatch { clock, first }
    }

    /// Use by others since it began.
    pub fn others(&self) -> NeighbourUse {
        BusyLook::now(&self.clock).since(&self.first)
    }
}

/// The kernel's counters until now.
#[derive(Debug, Clone, Default, PartialEq)]
struct BusyLook {
    at: Duration,
    cpus: BusyCpuTimes,
    /// Ticks of those that are no others, by process.
    ours: BTreeMap<u32, u64>,
    waited: Option<PressureStallTimes>,
    load: f64,
}

/// Ticks of all processors together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct BusyCpuTimes {
    cpus: u32,
    /// Of programs, in user space and in the kernel.
    programs: u64,
    steal: u64,
}

impl BusyLook {
    fn now(clock: &dyn HostTimeSource) -> BusyLook {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let pressure = |what: &str| waited(&read(&format!("/proc/pressure/{what}")));
        let all = pressure("cpu").zip(pressure("io")).zip(pressure("memory"));
        BusyLook {
            at: clock.now(),
            cpus: cpu_times(&read("/proc/stat")),
            ours: ours(),
            waited: all.map(|((cpu, io), memory)| PressureStallTimes { cpu, io, memory }),
            load: load(&read("/proc/loadavg")),
        }
    }

    /// Use by others since an earlier look by the same clock.
    fn since(&self, first: &BusyLook) -> NeighbourUse {
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        let ours = self.ours.iter().map(|(process, ticks)| {
            let before = first.ours.get(process).copied().unwrap_or(0);
            ticks.saturating_sub(before)
        });
        let programs = self.cpus.programs.saturating_sub(first.cpus.programs);
        let others = programs.saturating_sub(ours.sum());
        let steal = self.cpus.steal.saturating_sub(first.cpus.steal);
        let length = self.at.saturating_sub(first.at).as_nanos();
        let waited = self
            .waited
            .zip(first.waited)
            .map(|(last, first)| PressureStallTimes {
                cpu: last.cpu.since(first.cpu),
                io: last.io.since(first.io),
                memory: last.memory.since(first.memory),
            });
        NeighbourUse {
            length: Nanos(u64::try_from(length).unwrap_or(u64::MAX)),
            cpus: self.cpus.cpus,
            cpu_ns: others.saturating_mul(tick_ns),
            steal_ns: steal.saturating_mul(tick_ns),
            waited,
            load: self.load,
            disk: None,
        }
    }
}

/// Use by others in this time.
pub fn during(length: Duration, clock: &dyn HostTimeSource) -> NeighbourUse {
    let first = BusyLook::now(clock);
    clock.pause(length);
    BusyLook::now(clock).since(&first)
}

/// The busiest of these disks (`major:minor`) between two looks at them.
pub fn busiest(
    first: &[DiskLook],
    last: &[DiskLook],
    length: Duration,
) -> Option<NeighbourDiskUse> {
    let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    let used = first
        .iter()
        .zip(last)
        .map(|(first, last)| NeighbourDiskUse {
            disk: last.name.clone(),
            length: Nanos(length),
            busy: Nanos(
                last.active_ms
                    .saturating_sub(first.active_ms)
                    .saturating_mul(1_000_000),
            ),
        });
    used.max_by_key(|disk| disk.busy)
        .filter(|disk| disk.busy.0 > 0)
}

/// The kernel's counters of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskLook {
    name: String,
    active_ms: u64,
}

/// Looks at disks; those that cannot be looked at are left out.
pub fn look_at_disks(numbers: &[String]) -> Vec<DiskLook> {
    let look = |number: &String| {
        let text = fs::read_to_string(format!("/sys/dev/block/{number}/stat")).ok()?;
        Some(DiskLook {
            name: crate::host::disks::name_of_number(number)?,
            // Field 10 (from 1): Documentation/block/stat.rst of the kernel.
            active_ms: text.split_whitespace().nth(9)?.parse().ok()?,
        })
    };
    numbers.iter().filter_map(look).collect()
}

/// Ticks from `/proc/stat`.
fn cpu_times(text: &str) -> BusyCpuTimes {
    let mut times = BusyCpuTimes::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("cpu") => {
                let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
                let of = |field: usize| ticks.get(field).copied().unwrap_or(0);
                // User (guests are in it), nice, system; idle, waiting and interrupts belong to no program.
                times.programs = of(0) + of(1) + of(2);
                times.steal = of(7);
            }
            Some(name) if name.starts_with("cpu") => times.cpus += 1,
            _ => {}
        }
    }
    times
}

/// Time in which some program waited, from a file of pressure stall information.
fn waited(text: &str) -> Option<Nanos> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some
        .split_whitespace()
        .find_map(|word| word.strip_prefix("total="))?;
    let us: u64 = total.parse().ok()?;
    Some(Nanos(us.saturating_mul(1000)))
}

/// The first figure of `/proc/loadavg`.
fn load(text: &str) -> f64 {
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Ticks of those that are no others, by process.
fn ours() -> BTreeMap<u32, u64> {
    let own = std::process::id();
    let ticks = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let process = ProcessTimes::parse(&stat)?;
        let is_ours = pid == own || process.is_kernel || is_marked(pid);
        is_ours.then_some((pid, process.ticks))
    };
    all_processes().into_iter().filter_map(ticks).collect()
}

/// Whether a process is a server of a stack, or was started by it.
fn is_marked(pid: u32) -> bool {
    environ::variable(pid, MARK_VARIABLE).is_some()
}

/// The times of a process in `/proc/<pid>/stat`.
#[derive(Debug, PartialEq, Eq)]
struct ProcessTimes {
    is_kernel: bool,
    /// Its own, and those of children that it has waited for.
    ticks: u64,
}

impl ProcessTimes {
    fn parse(stat: &str) -> Option<Self> {
        // The name is in parentheses and may itself contain any character.
        let rest = stat.get(stat.rfind(')')? + 2..)?;
        let fields: Vec<&str> = rest.split(' ').collect();
        let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
        Some(ProcessTimes {
            is_kernel: number(6)? & KERNEL_THREAD != 0,
            ticks: (11..15).filter_map(number).sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_prints_is_understood() {
        let stat = "cpu  100 20 30 900 5 6 7 40 10 0\ncpu0 50 10 15 450 2 3 3 20 5 0\n\
            cpu1 50 10 15 450 3 3 4 20 5 0\nintr 1 2 3\nctxt 9\n";
        let expect = BusyCpuTimes {
            cpus: 2,
            programs: 150,
            steal: 40,
        };
        assert_eq!(cpu_times(stat), expect);
        assert_eq!(cpu_times(""), BusyCpuTimes::default());
        let pressure = "some avg10=1.00 avg60=2.00 avg300=0.50 total=1234\n\
            full avg10=0.00 avg60=0.00 avg300=0.00 total=99\n";
        assert_eq!(waited(pressure), Some(Nanos(1_234_000)));
        assert_eq!(waited("full total=9"), None);
        assert!((load("64.20 5.00 1.00 3/999 12345\n") - 64.2).abs() < 1e-9);
        let program = "7 (a) b) S 1 7 7 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 99 1 1";
        let times = ProcessTimes::parse(program).unwrap();
        assert_eq!((times.is_kernel, times.ticks), (false, 100));
        let kernel = program.replace(" 4194304 ", " 69238880 ");
        assert!(ProcessTimes::parse(&kernel).unwrap().is_kernel);
        assert_eq!(ProcessTimes::parse("7 (a"), None);
    }

    #[test]
    fn what_is_not_ours_is_others() {
        let look =
            |seconds: u64, programs: u64, steal: u64, ours: &[(u32, u64)], cpu: u64| BusyLook {
                at: Duration::from_secs(seconds),
                cpus: BusyCpuTimes {
                    cpus: 2,
                    programs,
                    steal,
                },
                ours: ours.iter().copied().collect(),
                waited: Some(PressureStallTimes {
                    cpu: Nanos(cpu),
                    ..PressureStallTimes::default()
                }),
                load: 3.5,
            };
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        let first = look(10, 1000, 5, &[(1, 100), (2, 50)], 7);
        // Process 2 has ended, 3 is a new server.
        let last = look(20, 2000, 105, &[(1, 300), (3, 80)], 9);
        let used = last.since(&first);
        assert_eq!(used.cpu_ns, (1000 - 200 - 80) * tick_ns);
        assert_eq!(used.steal_ns, 100 * tick_ns);
        assert_eq!(used.length, Nanos(10 * Nanos::SECOND.0));
        assert_eq!(used.waited.unwrap().cpu, Nanos(2));
        assert_eq!(
            first.since(&last).cpu_ns,
            0,
            "counters that went back are no use"
        );
    }

    #[test]
    fn the_busiest_disk_is_named() {
        let disk = |name: &str, active_ms| DiskLook {
            name: name.into(),
            active_ms,
        };
        let first = [disk("vda", 10), disk("vdb", 100)];
        let last = [disk("vda", 410), disk("vdb", 100)];
        let found = busiest(&first, &last, Duration::from_secs(1)).unwrap();
        assert_eq!(
            (found.disk.as_str(), found.busy),
            ("vda", Nanos(400_000_000))
        );
        assert!((found.share() - 0.4).abs() < 1e-9);
        assert_eq!(busiest(&first, &first, Duration::from_secs(1)), None);
    }

    /// A child that only counts, and only so far: however busy the machine is, it gets a part of it.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a program of somebody else")]
    fn a_busy_program_of_somebody_else_is_seen() {
        let watch = BusyWatch::begin();
        let mut child = std::process::Command::new("sh")
            .args(["-c", "n=0; while [ $n -lt 5000000 ]; do n=$((n + 1)); done"])
            .spawn()
            .expect("sh is part of every system");
        // Until it has had a tenth of a second: on a busy machine that takes longer than that.
        let clock = SystemClock::new();
        let enough = (0..200).any(|_| {
            clock.pause(Duration::from_millis(20));
            watch.others().cpu_ns >= 100_000_000
        });
        let _ = child.kill();
        let _ = child.wait();
        assert!(enough);
        // The shares are of the time that was watched, not of one between two clocks.
        let waited = clock.now();
        let length = watch.others().length;
        assert!(waited.as_nanos() <= u128::from(length.0), "{length:?}");
    }
}
