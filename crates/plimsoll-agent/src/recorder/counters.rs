// SPDX-License-Identifier: Apache-2.0
//! Counters of disks, sampled at a fixed interval.
//!
//! Looks are due at whole intervals from the first one on, so that lateness does not add up. A
//! sample carries the instant at which it was really taken, by the clock as it was at the
//! beginning; a look that is due before an earlier one was taken is missed and counted, never made
//! up for.

use super::{CaptureSink, head, wait_until};
use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::recording::{CaptureBatch, CaptureStats, DiskCounters};
use plimsoll_core::units::{self, Nanos};
use plimsoll_engine::sys::clock::{asleep, thread_cpu, wall_clock};
use plimsoll_machine::host::HostTimeSource;
use plimsoll_machine::host::disks::{self, DeviceLayerCache};
use plimsoll_trace::counters::devices_counted;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Shortest interval: below, the cost of looking and the coarseness of the kernel's milliseconds
/// would both show.
pub const INTERVAL_MIN: Nanos = Nanos(100_000_000);

/// The disks sampled, and how often.
#[derive(Debug, Clone)]
pub struct CounterCaptureOptions {
    /// Time between two looks, at least [`INTERVAL_MIN`].
    pub interval: Nanos,
    /// How long, at most.
    pub length: Option<Nanos>,
    /// The kernel's names of the devices; none: all whole disks and what lies on them, also those
    /// that come later.
    pub disks: Vec<String>,
}

impl CounterCaptureOptions {
    /// Samples until `length` is over or `stop` is set.
    pub fn run(
        &self,
        (clock, stop): (&dyn HostTimeSource, &AtomicBool),
        taker: &mut dyn CaptureSink,
    ) -> Result<CaptureStats, CliError> {
        let mut tally = CaptureStats::default();
        let Some(began) = taker.ready(clock) else {
            return Ok(tally);
        };
        let head = head(&self.disks);
        let origin_unix_ns = head.origin_unix_ns;
        taker.begin(head)?;
        // Sample times follow the monotonic clock: a change of the wall clock would leave a gap or repeat
        // times.
        let (started, slept) = (clock.now(), asleep());
        let elapsed = || {
            let awake = Nanos::from(clock.now().saturating_sub(started));
            awake + asleep().since(slept)
        };
        let cpu_before = thread_cpu();
        let interval = Duration::from_nanos(self.interval.0);
        let last = self.length.map(|length| length.0 / self.interval.0);
        let mut layers = DeviceLayerCache::default();
        // Nanoseconds since 1970.
        let mut last_unix_ns = None;
        let mut turn = 0;
        while last.is_none_or(|last| turn <= last) {
            let due = began + interval.saturating_mul(u32::try_from(turn).unwrap_or(u32::MAX));
            if !wait_until(due, clock, stop) {
                break;
            }
            let late = Nanos::from(clock.now().saturating_sub(due));
            tally.late_max = tally.late_max.max(late);
            let found = layers.found(counted()?, &self.disks);
            let at_unix_ns = origin_unix_ns + elapsed().0;
            tally.length = Nanos::from(clock.now().saturating_sub(began));
            tally.cpu = thread_cpu().since(cpu_before);
            if taker.has_room() && last_unix_ns.is_none_or(|last| at_unix_ns > last) {
                tally.samples += 1;
                last_unix_ns = Some(at_unix_ns);
                taker.take(CaptureBatch::Counters(at_unix_ns, found), &tally)?;
            } else {
                tally.missed += 1;
            }
            // Looks that have become due in the meantime are missed.
            let passed = clock.now().saturating_sub(began).as_nanos() / interval.as_nanos();
            let next = u64::try_from(passed).unwrap_or(u64::MAX).max(turn) + 1;
            tally.missed += next - turn - 1;
            turn = next;
        }
        let expected = Nanos(origin_unix_ns) + elapsed();
        tally.odd.extend(clock_was_set(expected, wall_clock()));
        Ok(tally)
    }
}

/// The counters of every device, by the kernel's names.
pub fn counted() -> Result<Vec<(String, DiskCounters)>, CliError> {
    let text = disks::statistics().map_err(doing(CliExitCode::Failed, "sample the disks"))?;
    devices_counted(&text).ok_or_else(|| {
        CliError::new(
            CliExitCode::Failed,
            "parse /proc/diskstats: a line does not describe a device",
        )
    })
}

/// The warning that a clock was set during a recording, beyond what time services correct bit by bit.
fn clock_was_set(expected: Nanos, found: Nanos) -> Option<String> {
    let (by, way) = match found >= expected {
        true => (found.since(expected), "ahead"),
        false => (expected.since(found), "back"),
    };
    (by >= Nanos::SECOND).then(|| {
        format!(
            "the clock was set {way} by {} meanwhile; all times are those of the clock as it was at the beginning",
            units::clock_duration(by)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::recording::CaptureHeader;
    use std::cell::Cell;

    /// A clock that only pauses move, and some of them too far.
    #[derive(Debug)]
    struct Slow {
        now: Cell<Duration>,
        stall_at: Duration,
        stall: Cell<Duration>,
    }

    impl HostTimeSource for Slow {
        fn now(&self) -> Duration {
            self.now.get()
        }
        fn unix_time(&self) -> Duration {
            self.now.get()
        }
        fn pause(&self, length: Duration) {
            let mut now = self.now.get() + length;
            if now >= self.stall_at {
                now += self.stall.replace(Duration::ZERO);
            }
            self.now.set(now);
        }
    }

    /// When samples came, milliseconds from the beginning, and by their own time.
    #[derive(Default)]
    struct Heard(Vec<u64>, Vec<u64>);

    impl CaptureSink for Heard {
        fn begin(&mut self, _: CaptureHeader) -> Result<(), CliError> {
            Ok(())
        }

        fn take(&mut self, batch: CaptureBatch, tally: &CaptureStats) -> Result<(), CliError> {
            self.0.push(tally.length.0 / 1_000_000);
            if let CaptureBatch::Counters(at_unix_ns, _) = batch {
                self.1.push(at_unix_ns / 1_000_000);
            }
            Ok(())
        }
    }

    #[test]
    fn lateness_does_not_add_up_and_missed_looks_are_counted() {
        let watch = CounterCaptureOptions {
            interval: Nanos(100_000_000),
            length: Some(Nanos(2_000_000_000)),
            disks: Vec::new(),
        };
        let clock = Slow {
            now: Cell::new(Duration::from_secs(5)),
            stall_at: Duration::from_secs(6),
            stall: Cell::new(Duration::from_millis(350)),
        };
        let stop = AtomicBool::new(false);
        let mut heard = Heard::default();
        let tally = watch.run((&clock, &stop), &mut heard).unwrap();
        let Heard(at, told) = heard;
        // The wall clock is read only at the start, so a change of it does not move sample times.
        let told: Vec<u64> = told.iter().map(|at| at - told[0]).collect();
        assert_eq!(told, at);
        // The look at 1.0 s came 350 ms late; those at 1.1, 1.2 and 1.3 s were missed.
        let expect: Vec<u64> = (0..=20).map(|turn| turn * 100).collect();
        let expect: Vec<u64> = expect
            .into_iter()
            .filter(|at| ![1100, 1200, 1300].contains(at))
            .map(|at| if at == 1000 { 1350 } else { at })
            .collect();
        assert_eq!(at, expect);
        assert_eq!((tally.samples, tally.missed), (18, 3));
        assert_eq!(tally.late_max, Nanos(350_000_000));
        assert_eq!(tally.length, Nanos(2_000_000_000));
        // Its time went faster than that of the wall.
        assert!(
            tally.odd[0].contains("the clock was set back by"),
            "{tally:?}"
        );
    }

    #[test]
    fn a_clock_that_was_set_is_told_and_one_that_is_corrected_is_not() {
        let at = |ms: u64| Nanos(ms * 1_000_000);
        assert_eq!(clock_was_set(at(10_000), at(10_400)), None);
        assert_eq!(clock_was_set(at(10_000), at(9_600)), None);
        for (found, says) in [(3_610_000, "ahead by 1 h"), (7_000, "back by 3 s")] {
            let told = clock_was_set(at(10_000), at(found)).unwrap();
            assert!(told.contains(says), "{told}");
        }
    }
}
