// SPDX-License-Identifier: Apache-2.0
//! Quiet before a trial: what earlier ones wrote is on the disks, and these are idle.

use plimsoll_core::others::NeighbourDiskUse;
use plimsoll_core::units::Nanos;
use plimsoll_machine::busy::{self, DiskLook};
use plimsoll_machine::host::{HostTimeSource as _, SystemClock, facts};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Disks count as quiet after this many looks without a transfer.
const QUIET_POLLS: u32 = 3;
/// Time between two looks: longer than a disk takes for a request, and one in flight is seen anyway.
const QUIET_POLL: Duration = Duration::from_millis(20);
/// Other programs may use the disk for ever; after this the trial begins all the same.
const SETTLE_MAX: Duration = Duration::from_secs(2);
/// The same of short trials: a tenth of their length, and at least this.
const SETTLE_LEAST: Duration = Duration::from_millis(150);

/// Whether others kept the disks busy to the end of the last wait: then no longer one would find them idle.
static IS_NEVER_IDLE: AtomicBool = AtomicBool::new(false);

/// Waits until earlier trials burden this one no more: what they left in the page cache is written
/// out, and the disks below have had nothing to do for a moment (a file system may discard freed
/// blocks in the background long after its files were removed).
///
/// Only the file systems that take part are synced: sync(2) waits for every one of the machine, also
/// for that of another user whose server hangs.
///
/// A trial of the length `trial` waits for at most a tenth of it: what its own run left is on the disks, and
/// many short trials beside others' traffic would wait more than they measure. After a wait in vain the next
/// one is short.
///
/// Returns what the busiest disk had to do when they were not quiet to the end: others were at work.
pub(super) fn settle(
    places: &[PathBuf],
    trial: Nanos,
    stop: &AtomicBool,
) -> Option<NeighbourDiskUse> {
    for place in places {
        // A place that cannot be opened or synced shows in the trial itself.
        if let Ok(file) = File::open(place) {
            let is_device = facts::is_block_device(place);
            let _ = match is_device {
                true => file.sync_all(),
                false => rustix::fs::syncfs(&file).map_err(Into::into),
            };
        }
    }
    let devices = &devices_below(places);
    // Nothing can be seen of an export or of virtual time.
    if devices.is_empty() {
        return None;
    }
    let most = match IS_NEVER_IDLE.load(Ordering::Relaxed) {
        true => SETTLE_LEAST,
        false => (Duration::from_nanos(trial.0) / 10).clamp(SETTLE_LEAST, SETTLE_MAX),
    };
    let bytes = || -> Vec<_> {
        devices
            .iter()
            .filter_map(|device| facts::device_bytes(device).ok())
            .collect()
    };
    let is_idle = || devices.iter().all(|device| facts::is_device_idle(device));
    let clock = SystemClock::new();
    let began = clock.now();
    let (mut last, mut quiet) = (bytes(), 0);
    // Writes left by earlier trials are done by then; the second half shows others.
    let mut half: Option<(Duration, Vec<DiskLook>)> = None;
    while quiet < QUIET_POLLS
        && clock.now().saturating_sub(began) < most
        && !stop.load(Ordering::Relaxed)
    {
        clock.pause(QUIET_POLL);
        let now = bytes();
        quiet = if now == last && is_idle() {
            quiet + 1
        } else {
            0
        };
        last = now;
        if half.is_none() && clock.now().saturating_sub(began) >= most / 2 {
            half = Some((clock.now(), busy::look_at_disks(devices)));
        }
    }
    IS_NEVER_IDLE.store(quiet < QUIET_POLLS, Ordering::Relaxed);
    let (since, looks) = half.filter(|_| quiet < QUIET_POLLS)?;
    let length = clock.now().saturating_sub(since);
    busy::busiest(&looks, &busy::look_at_disks(devices), length)
}

/// The disks below the places (major:minor) that can be watched for traffic.
fn devices_below(places: &[PathBuf]) -> Vec<String> {
    let number = |place: &Path| match facts::is_block_device(place) {
        true => fs::metadata(place).ok().map(|data| {
            let number = data.rdev();
            format!(
                "{}:{}",
                rustix::fs::major(number),
                rustix::fs::minor(number)
            )
        }),
        false => facts::device_of(place),
    };
    let mut devices: Vec<String> = places.iter().filter_map(|place| number(place)).collect();
    devices.sort();
    devices.dedup();
    devices
}
