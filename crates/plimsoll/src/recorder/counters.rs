// SPDX-License-Identifier: Apache-2.0
//! What disks count, sampled at a fixed interval into a PCP archive.
//!
//! Looks are due at whole intervals from the first one on, so that lateness does not add up. A
//! sample carries the instant at which it was really taken; a look that is due before an earlier
//! one was taken is missed and counted, never made up for.

use crate::failure::{Code, Failure, doing, failed};
use plimsoll_core::units::Nanos;
use plimsoll_engine::sys::clock::{thread_cpu, wall_clock};
use plimsoll_lab::disks;
use plimsoll_lab::host::Clock;
use plimsoll_trace::counters::devices_counted;
use plimsoll_trace::pcp::{DiskCounters, Heading, Writer};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Shortest interval: below, the cost of looking and the coarseness of the kernel's milliseconds
/// would both show.
pub(crate) const INTERVAL_MIN: Nanos = Nanos(100_000_000);

/// How often it is seen whether to stop.
const PAUSE: Duration = Duration::from_millis(50);

/// Length of a volume: some 100,000 samples of one disk. A volume is what is lost when a disk's
/// block goes bad.
const VOLUME_BYTES: u64 = 64 << 20;

/// What is sampled, how often, and into which archive.
#[derive(Debug, Clone)]
pub(crate) struct Sampling {
    /// Base name of the archive.
    pub(crate) base: PathBuf,
    /// Time between two looks, at least [`INTERVAL_MIN`].
    pub(crate) interval: Nanos,
    /// How long, at most.
    pub(crate) length: Option<Nanos>,
    /// The kernel's names of the disks; none: all whole disks, also those that come later.
    pub(crate) disks: Vec<String>,
}

/// What a disk had counted at a look.
pub(crate) type Found = (String, DiskCounters);

/// What sampling came to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) samples: u64,
    /// Looks that were not taken, because an earlier one was late or the time of day went back.
    pub(crate) missed: u64,
    /// From the first look on.
    pub(crate) length: Nanos,
    /// The largest delay of a look.
    pub(crate) late_max: Nanos,
    /// Processor time it took.
    pub(crate) cpu: Nanos,
}

impl Tally {
    /// Share of one processor that it used.
    pub(crate) fn cpu_share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.length.as_secs_f64().max(1e-9)
    }
}

/// An archive that is being filled.
#[derive(Debug)]
pub(crate) struct Sampler {
    sampling: Sampling,
    writer: Writer,
    /// When the last sample was taken, nanoseconds since 1970.
    last_unix_ns: Option<u64>,
}

impl Sampler {
    /// Makes the archive's files.
    pub(crate) fn create(sampling: Sampling) -> Result<Sampler, Failure> {
        let heading = heading();
        let writer = Writer::create(&sampling.base, heading).map_err(failed(Code::Failed))?;
        Ok(Sampler {
            sampling,
            writer,
            last_unix_ns: None,
        })
    }

    /// The archive's files so far.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.writer.files()
    }

    /// Samples until its time is over or it is told to stop. Each sample is told of.
    pub(crate) fn run(
        &mut self,
        clock: &dyn Clock,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(&[Found], &Tally),
    ) -> Result<Tally, Failure> {
        let began = clock.now();
        let cpu_before = thread_cpu();
        let interval = Duration::from_nanos(self.sampling.interval.0);
        let last = self
            .sampling
            .length
            .map(|length| length.0 / self.sampling.interval.0);
        let mut tally = Tally::default();
        let mut turn = 0;
        while last.is_none_or(|last| turn <= last) {
            let due = began + interval.saturating_mul(u32::try_from(turn).unwrap_or(u32::MAX));
            if !wait_until(due, clock, stop) {
                break;
            }
            let late = nanos(clock.now().saturating_sub(due));
            tally.late_max = tally.late_max.max(late);
            let found = self.look()?;
            match found {
                Some(_) => tally.samples += 1,
                None => tally.missed += 1,
            }
            tally.length = nanos(clock.now().saturating_sub(began));
            tally.cpu = thread_cpu().since(cpu_before);
            tell(&found.unwrap_or_default(), &tally);
            // Looks that have become due in the meantime are missed.
            let passed = clock.now().saturating_sub(began).as_nanos() / interval.as_nanos();
            let next = u64::try_from(passed).unwrap_or(u64::MAX).max(turn) + 1;
            tally.missed += next - turn - 1;
            turn = next;
        }
        Ok(tally)
    }

    /// Takes a look and writes what it found; nothing where the time of day went back.
    fn look(&mut self) -> Result<Option<Vec<Found>>, Failure> {
        let found = counted(&self.sampling.disks)?;
        let at_unix_ns = wall_clock().0;
        if self.last_unix_ns.is_some_and(|last| at_unix_ns <= last) {
            return Ok(None);
        }
        let of_each: Vec<_> = found
            .iter()
            .map(|(name, counted)| (name.as_str(), *counted))
            .collect();
        let written = self.writer.record(at_unix_ns, &of_each);
        written.map_err(failed(Code::Failed))?;
        self.last_unix_ns = Some(at_unix_ns);
        Ok(Some(found))
    }

    /// Ends the archive.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.writer.finish().map_err(failed(Code::Failed))
    }
}

/// Samples into a new archive until it is told to stop.
pub(crate) fn sample(
    sampling: Sampling,
    clock: &dyn Clock,
    stop: &AtomicBool,
) -> Result<Tally, Failure> {
    let mut sampler = Sampler::create(sampling)?;
    let sampled = sampler.run(clock, stop, &mut |_, _| {});
    let ended = sampler.finish();
    let tally = sampled?;
    ended.map(|()| tally)
}

/// What these disks have counted, or all whole ones.
pub(crate) fn counted(wanted: &[String]) -> Result<Vec<Found>, Failure> {
    let text = disks::statistics().map_err(doing(Code::Failed, "sample the disks"))?;
    let mut found = devices_counted(&text).ok_or_else(|| {
        Failure::new(
            Code::Failed,
            "understand /proc/diskstats: a line of it is no device's",
        )
    })?;
    found.retain(|(name, _)| match wanted {
        [] => disks::is_whole(name),
        _ => wanted.contains(name),
    });
    Ok(found)
}

/// Waits until this instant of the clock; whether it was not told to stop.
pub(super) fn wait_until(due: Duration, clock: &dyn Clock, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = due.saturating_sub(clock.now());
        if left.is_zero() {
            return true;
        }
        clock.pause(left.min(PAUSE));
    }
}

fn nanos(length: Duration) -> Nanos {
    Nanos(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
}

/// Who records, where and in which time zone.
fn heading() -> Heading {
    let now = jiff::Zoned::now();
    Heading {
        host: plimsoll_lab::facts::machine().host,
        zone: posix_zone(&now),
        zone_name: now.time_zone().iana_name().unwrap_or_default().into(),
        process: std::process::id(),
        start_unix_ns: wall_clock().0,
        volume_bytes: VOLUME_BYTES,
    }
}

/// The zone as POSIX writes it, its name in brackets where that is no plain word: `AEST-10`,
/// `<+0545>-5:45`.
fn posix_zone(now: &jiff::Zoned) -> String {
    let name = now.strftime("%Z").to_string().replace(':', "");
    let name = match name.bytes().all(|byte| byte.is_ascii_alphabetic()) && name.len() >= 3 {
        true => name,
        false => format!("<{name}>"),
    };
    // West of Greenwich is positive.
    let seconds = -now.offset().seconds();
    let (sign, minutes) = (if seconds < 0 { "-" } else { "" }, seconds.abs() / 60);
    match minutes % 60 {
        0 => format!("{name}{sign}{}", minutes / 60),
        rest => format!("{name}{sign}{}:{rest:02}", minutes / 60),
    }
}

/// Whether an archive of this name is there already, in words.
pub(crate) fn check_free(base: &Path) -> Result<(), Failure> {
    let taken = ["meta", "index", "0"].map(|suffix| {
        let mut name = base.as_os_str().to_owned();
        name.push(".");
        name.push(suffix);
        PathBuf::from(name)
    });
    match taken.iter().find(|path| path.exists()) {
        None => Ok(()),
        Some(path) => Err(Failure::usage(format!(
            "record into {}: {} exists",
            base.display(),
            path.display()
        ))
        .hint("a recording is never overwritten; choose another name with -o")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A clock that only pauses move, and some of them too far.
    #[derive(Debug)]
    struct Slow {
        now: Cell<Duration>,
        stall_at: Duration,
        stall: Cell<Duration>,
    }

    impl Clock for Slow {
        fn now(&self) -> Duration {
            self.now.get()
        }
        fn unix_seconds(&self) -> u64 {
            self.now.get().as_secs()
        }
        fn pause(&self, length: Duration) {
            let mut now = self.now.get() + length;
            if now >= self.stall_at {
                now += self.stall.replace(Duration::ZERO);
            }
            self.now.set(now);
        }
    }

    #[test]
    fn lateness_does_not_add_up_and_missed_looks_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut sampler = Sampler::create(Sampling {
            base: folder.path().join("made"),
            interval: Nanos(100_000_000),
            length: Some(Nanos(2_000_000_000)),
            disks: Vec::new(),
        })
        .unwrap();
        let clock = Slow {
            now: Cell::new(Duration::from_secs(5)),
            stall_at: Duration::from_secs(6),
            stall: Cell::new(Duration::from_millis(350)),
        };
        let stop = AtomicBool::new(false);
        let mut at = Vec::new();
        let tally = sampler
            .run(&clock, &stop, &mut |_, tally| {
                at.push(tally.length.0 / 1_000_000);
            })
            .unwrap();
        sampler.finish().unwrap();
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
    }

    #[test]
    fn zones_are_written_as_posix_does() {
        for (zone, expect) in [
            ("UTC", "UTC0"),
            ("-03:00", "<-03>3"),
            ("+05:45", "<+0545>-5:45"),
        ] {
            let zone = match zone {
                "UTC" => jiff::tz::TimeZone::UTC,
                fixed => {
                    let minutes: i32 = if fixed == "-03:00" { -180 } else { 345 };
                    let offset = jiff::tz::Offset::from_seconds(minutes * 60).unwrap();
                    jiff::tz::TimeZone::fixed(offset)
                }
            };
            let now = jiff::Timestamp::UNIX_EPOCH.to_zoned(zone);
            assert_eq!(posix_zone(&now), expect);
        }
    }
}
