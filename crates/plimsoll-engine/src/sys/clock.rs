// SPDX-License-Identifier: Apache-2.0
//! Clocks of the machine: the time stamp counter where the kernel itself trusts it, else the
//! monotonic clock.
//!
//! The kernel's choice of `tsc` as its clock source means that the counter runs at a constant
//! rate and agrees between processors; any other choice means that it may not.
#![expect(
    unsafe_code,
    reason = "reading the time stamp counter is an unsafe intrinsic"
)]

use std::sync::OnceLock;
use std::time::Instant;

use plimsoll_core::num::floor_u64;
use plimsoll_core::units::Nanos;

use crate::clock::RunClock;

/// How long the counter is held against the monotonic clock. 20 ms leave an error of some parts
/// per million, below the drift of the monotonic clock itself.
const CALIBRATION_NS: u64 = 20_000_000;

/// Ticks between two readings of the counter around one of the clock when nothing comes between:
/// below 1 µs on all processors of today, where it takes about 50 ns.
const PAIR_TICKS: u64 = 1_000;
/// Readings that are tried for that.
const PAIR_TRIES: u32 = 100;

/// The fastest trustworthy clock of this machine. Copies share one origin.
#[derive(Debug, Clone, Copy)]
pub struct HostClock {
    source: ClockSource,
}

#[derive(Debug, Clone, Copy)]
enum ClockSource {
    Counter {
        origin_ticks: u64,
        /// Nanoseconds per tick in 32.32 fixed point.
        ns_per_tick: u64,
    },
    Monotonic(Instant),
}

impl HostClock {
    /// A clock that starts now. The first call of a program takes about 20 ms to calibrate.
    pub fn start() -> Self {
        static NS_PER_TICK: OnceLock<Option<u64>> = OnceLock::new();
        let source = match NS_PER_TICK.get_or_init(calibrate) {
            Some(ns_per_tick) => ClockSource::Counter {
                origin_ticks: ticks(),
                ns_per_tick: *ns_per_tick,
            },
            None => ClockSource::Monotonic(instant()),
        };
        HostClock { source }
    }
}

impl RunClock for HostClock {
    #[inline]
    fn now(&self) -> Nanos {
        match self.source {
            ClockSource::Counter {
                origin_ticks,
                ns_per_tick,
            } => {
                // Saturating: another processor's counter may lag by a few ticks at the origin.
                let elapsed = ticks().saturating_sub(origin_ticks);
                Nanos(fixed_point(elapsed, ns_per_tick))
            }
            ClockSource::Monotonic(origin) => {
                let elapsed = instant().saturating_duration_since(origin).as_nanos();
                Nanos(u64::try_from(elapsed).unwrap_or(u64::MAX))
            }
        }
    }
}

/// The machine's monotonic clock, which all programs on it share: for instants that are agreed
/// with others, not for measuring.
pub fn monotonic() -> Nanos {
    nanos(rustix::time::clock_gettime(
        rustix::time::ClockId::Monotonic,
    ))
}

/// For how long this machine has slept since it was booted: the clock that counts such times is so
/// far ahead of the one that does not.
pub fn asleep() -> Nanos {
    let with = nanos(rustix::time::clock_gettime(rustix::time::ClockId::Boottime));
    with.since(monotonic())
}

/// The last of a wait is spent spinning: sleepers wake up late by some ten microseconds.
const SPIN: Nanos = Nanos(200_000);

/// Waits until `at` on the machine's monotonic clock, which is bounded by who chose it; gives what
/// the clock shows then.
pub(crate) fn wait_until(at: Nanos) -> Nanos {
    loop {
        let now = monotonic();
        if now >= at {
            return now;
        }
        match at.since(now).since(SPIN) {
            Nanos(0) => std::hint::spin_loop(),
            left => nap(left),
        }
    }
}

/// The time of day, counted from 1970-01-01 00:00 UTC: for what is written into files, not for
/// measuring.
pub fn wall_clock() -> Nanos {
    nanos(rustix::time::clock_gettime(rustix::time::ClockId::Realtime))
}

/// The time of day as if the clock had not been set since the first call: for times that this program
/// compares with each other, because the clock may be set between them.
pub fn steady_wall_clock() -> Nanos {
    static AHEAD: OnceLock<Nanos> = OnceLock::new();
    monotonic() + *AHEAD.get_or_init(|| wall_clock().since(monotonic()))
}

/// Processor time that the calling thread has used: for what a tool costs, not for measuring.
pub fn thread_cpu() -> Nanos {
    nanos(rustix::time::clock_gettime(
        rustix::time::ClockId::ThreadCPUTime,
    ))
}

fn nanos(time: rustix::time::Timespec) -> Nanos {
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    Nanos(part(time.tv_sec).saturating_mul(Nanos::SECOND.0)) + Nanos(part(time.tv_nsec))
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "584 years of nanoseconds fit in 64 bits"
)]
fn fixed_point(ticks: u64, ns_per_tick: u64) -> u64 {
    ((u128::from(ticks) * u128::from(ns_per_tick)) >> 32) as u64
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock that others take"
)]
fn instant() -> Instant {
    Instant::now()
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: the instruction exists on every x86_64 processor and touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

fn calibrate() -> Option<u64> {
    if cfg!(not(target_arch = "x86_64")) {
        return None;
    }
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let chosen = std::fs::read_to_string(path).unwrap_or_default();
    if chosen.trim() != "tsc" {
        return None;
    }
    let read = || (ticks(), instant(), ticks());
    let (first, began) = pair(read);
    while began.elapsed().as_nanos() < u128::from(CALIBRATION_NS) {
        std::hint::spin_loop();
    }
    let (last, ended) = pair(read);
    let elapsed = ended.saturating_duration_since(began).as_nanos();
    let ns_per_tick = elapsed as f64 / last.saturating_sub(first).max(1) as f64;
    Some(floor_u64(ns_per_tick * (1u64 << 32) as f64))
}

/// The counter and the monotonic clock at the same moment. Of `read`, which gives the counter
/// before and after the clock, the first try that nothing came between is taken, or else the best:
/// a preemption there would falsify the rate by its length.
fn pair(mut read: impl FnMut() -> (u64, Instant, u64)) -> (u64, Instant) {
    let mut best = read();
    for _ in 1..PAIR_TRIES {
        if gap(best) <= PAIR_TICKS {
            break;
        }
        let next = read();
        if gap(next) < gap(best) {
            best = next;
        }
    }
    (best.0 + gap(best) / 2, best.1)
}

fn gap((before, _, after): (u64, Instant, u64)) -> u64 {
    after.saturating_sub(before)
}

/// Sleeps, or less when a signal arrives.
pub fn nap(time: Nanos) {
    let (seconds, rest) = (time.0 / 1_000_000_000, time.0 % 1_000_000_000);
    let request = rustix::thread::Timespec {
        tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(rest).expect("less than a second"),
    };
    // An early end is allowed: the driver looks at its clock anyway.
    let _ = rustix::thread::nanosleep(&request);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_agrees_with_the_monotonic_clock() {
        let clock = HostClock::start();
        // Between two readings the processor may be another's for a while: undisturbed pairs count.
        let read = || (clock.now().0, instant(), clock.now().0);
        let (from, began) = pair(read);
        while began.elapsed().as_millis() < 50 {
            std::hint::spin_loop();
        }
        let (to, ended) = pair(read);
        let there = ended.saturating_duration_since(began).as_nanos();
        let error = ((to - from) as f64 / there as f64 - 1.0).abs();
        assert!(error < 0.01, "{:?}: {error}", clock.source);
    }

    #[test]
    fn a_reading_that_was_interrupted_is_made_again() {
        let now = instant();
        let play = |gaps: &[u64]| {
            let (mut at, mut n) = (0, 0);
            let pair = pair(|| {
                let gap = gaps[n.min(gaps.len() - 1)];
                (at, n) = (at + 1_000_000_000, n + 1);
                (at, now, at + gap)
            });
            (pair.0, n)
        };
        assert_eq!(play(&[100]), (1_000_000_050, 1));
        assert_eq!(play(&[5_000_000, 80_000, 200]), (3_000_000_100, 3));
        // Never undisturbed: the best of many.
        let (ticks, n) = play(&[90_000, 60_000, 80_000]);
        assert_eq!((ticks, n), (2_000_030_000, PAIR_TRIES as usize));
    }

    #[test]
    fn time_does_not_go_back() {
        let clock = HostClock::start();
        let stamps: Vec<Nanos> = (0..10_000).map(|_| clock.now()).collect();
        assert!(stamps.is_sorted());
    }
}
