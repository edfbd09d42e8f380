// SPDX-License-Identifier: Apache-2.0
//! Recordings of disks, made by this program: with `plimsoll record`, here or on nodes, and of
//! what a run or a comparison works on.
//!
//! A recorder writes to a [`CaptureSink`]: a file, or the connection to the machine that requested the
//! recording. That machine writes the same data to a file.
//!
//! Invariants: what was recorded is with its taker before the next look is waited for, so that a
//! killed recorder leaves what it had; memory does not grow with the length of a recording.

mod counters;
mod on_node;
mod requests;

pub use counters::{CounterCaptureOptions, INTERVAL_MIN, counted};
pub use on_node::record_for;

use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_core::recording::{CaptureBatch, CaptureHeader, CaptureStats, CaptureTask};
use plimsoll_engine::sys::clock::wall_clock;
use plimsoll_machine::host::HostTimeSource;
use plimsoll_machine::host::disks;
use plimsoll_machine::journal::StateDir;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it is seen whether to stop.
const PAUSE: Duration = Duration::from_millis(50);

/// Takes what is recorded.
pub trait CaptureSink {
    /// Everything is laid out: when to begin, on the recorder's clock. `None`: not at all.
    fn ready(&mut self, clock: &dyn HostTimeSource) -> Option<Duration> {
        Some(clock.now())
    }

    /// The recording begins.
    fn begin(&mut self, head: CaptureHeader) -> Result<(), CliError>;

    /// Takes a batch of records, and the totals so far.
    fn take(&mut self, recorded: CaptureBatch, tally: &CaptureStats) -> Result<(), CliError>;

    /// Whether more can be taken now. What is not taken is lost, and counted.
    fn has_room(&self) -> bool {
        true
    }
}

/// Records the task until its time is over or `stop` is set. Objects that the recording needs are entered in
/// a journal in `state` and are removed at the end.
pub fn record(
    task: &CaptureTask,
    state: impl FnOnce() -> Result<StateDir, CliError>,
    (clock, stop): (&dyn HostTimeSource, &AtomicBool),
    taker: &mut dyn CaptureSink,
) -> Result<CaptureStats, CliError> {
    let disks = named(&task.disks)?;
    match task.interval {
        Some(interval) => {
            let watch = counters::CounterCaptureOptions {
                interval,
                length: task.length,
                disks,
            };
            watch.run((clock, stop), taker)
        }
        None => {
            let tracing = requests::RequestCaptureOptions {
                disks,
                length: task.length,
            };
            tracing.run(&state()?, (clock, stop), taker)
        }
    }
}

/// The kernel's names of the disks that were asked for.
fn named(disks: &[String]) -> Result<Vec<String>, CliError> {
    let mut names = Vec::new();
    for text in disks {
        let what = format!("record disk '{text}'");
        let name = disks::name_of(text).map_err(doing(CliExitCode::Usage, what))?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Which machine is recorded, from now on.
fn head(disks: &[String]) -> CaptureHeader {
    let now = jiff::Zoned::now();
    CaptureHeader {
        host: plimsoll_machine::host::facts::machine().host,
        zone: posix_zone(&now),
        zone_name: now.time_zone().iana_name().unwrap_or_default().into(),
        disks: disks.to_vec(),
        origin_unix_ns: wall_clock().0,
    }
}

/// Waits until this instant of the clock; `false` when it was stopped.
fn wait_until(due: Duration, clock: &dyn HostTimeSource, stop: &AtomicBool) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

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
