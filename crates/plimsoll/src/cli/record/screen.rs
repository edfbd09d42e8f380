// SPDX-License-Identifier: Apache-2.0
//! Display of a recording: one line on a terminal, written over once a second.

use plimsoll_console::terminal::{say, say_over};
use plimsoll_core::profile::DeviceKind;
use plimsoll_core::recording::{CaptureBatch, CaptureStats, DeviceCounterSample};
use plimsoll_core::units::{self, Nanos};
use std::io::IsTerminal;
use std::path::Path;

/// The last report of each recording: what the disks had counted, and what it has come to.
type CaptureProgress = (Vec<DeviceCounterSample>, CaptureStats);

pub(super) struct CaptureScreen {
    is_quiet: bool,
    is_live: bool,
    last: Vec<CaptureProgress>,
    /// Reports as of the last line that was shown.
    shown: Option<Vec<CaptureProgress>>,
}

impl CaptureScreen {
    /// For `count` recordings at once.
    pub(super) fn new(quiet: bool, count: usize) -> Self {
        CaptureScreen {
            is_quiet: quiet,
            is_live: std::io::stderr().is_terminal() && !quiet,
            last: vec![CaptureProgress::default(); count],
            shown: None,
        }
    }

    pub(super) fn begin(&self, what: &str, file: &Path) {
        if !self.is_quiet {
            let file = file.display();
            say(&format!("recording {what} into {file}; end it with Ctrl-C"));
        }
    }

    /// The reports of this recording.
    pub(super) fn tell(&mut self, n: usize, recorded: &CaptureBatch, tally: &CaptureStats) {
        if !self.is_live {
            return;
        }
        let is_counters = matches!(recorded, CaptureBatch::Counters(..));
        if let CaptureBatch::Counters(_, found) = recorded {
            self.last[n].0.clone_from(found);
        }
        self.last[n].1 = tally.clone();
        let Some(shown) = &self.shown else {
            self.shown = Some(self.last.clone());
            return;
        };
        let passed = tally.length.since(shown[n].1.length);
        if passed < Nanos::SECOND {
            return;
        }
        let line = match is_counters {
            true => rates(shown, &self.last, passed),
            false => requests(&self.last),
        };
        let length = units::clock_duration(tally.length);
        say_over(&format!("{length:>8}  {line}"));
        self.shown = Some(self.last.clone());
    }

    pub(super) fn end(&self) {
        if self.is_live && self.shown.is_some() {
            say("");
        }
    }
}

fn requests(last: &[CaptureProgress]) -> String {
    let sum = |of: fn(&CaptureStats) -> u64| last.iter().map(|(_, tally)| of(tally)).sum::<u64>();
    format!(
        "{} requests  {}  {} events lost",
        sum(|tally| tally.requests),
        units::size(sum(|tally| tally.bytes) as f64),
        sum(|tally| tally.lost)
    )
}

/// Those that carry everything, and nothing twice: the disks, or what was named instead.
fn once(found: &[DeviceCounterSample]) -> impl Iterator<Item = &DeviceCounterSample> {
    let is_disk = |one: &DeviceCounterSample| one.made.layer == DeviceKind::Disk;
    let has_disks = found.iter().any(is_disk);
    found.iter().filter(move |one| !has_disks || is_disk(one))
}

/// Rates of all disks together over a time span.
fn rates(before: &[CaptureProgress], now: &[CaptureProgress], passed: Nanos) -> String {
    let mut sums = [0_u64; 4];
    for ((old, _), (new, _)) in before.iter().zip(now) {
        for DeviceCounterSample { name, counted, .. } in once(new) {
            let Some(DeviceCounterSample { counted: old, .. }) =
                once(old).find(|known| known.name == *name)
            else {
                continue;
            };
            let moved = [
                (counted.reads, old.reads),
                (counted.read_sectors, old.read_sectors),
                (counted.writes, old.writes),
                (counted.write_sectors, old.write_sectors),
            ];
            for (sum, (now, old)) in sums.iter_mut().zip(moved) {
                *sum = sum.saturating_add(now.saturating_sub(old));
            }
        }
    }
    let per_s = |sum: u64, unit: f64| sum as f64 * unit / passed.as_secs_f64();
    let disks: usize = now.iter().map(|(found, _)| once(found).count()).sum();
    let missed: u64 = now.iter().map(|(_, tally)| tally.missed).sum();
    let missed = match missed {
        0 => String::new(),
        missed => format!("  {missed} missed"),
    };
    format!(
        "{disks} disks  read {}/s {}  write {}/s {}{missed}",
        units::rate(per_s(sums[0], 1.0)),
        units::throughput(per_s(sums[1], 512.0)),
        units::rate(per_s(sums[2], 1.0)),
        units::throughput(per_s(sums[3], 512.0)),
    )
}
