// SPDX-License-Identifier: Apache-2.0
//! I/O of the device below an arm in a trial, against the requests of the same seconds.

use plimsoll_agent::recorder::counted;
use plimsoll_core::event::{DeviceUse, TransferTotals, TrialInterval};
use plimsoll_core::recording::DiskCounters;
use plimsoll_core::units::Nanos;

/// Sectors of the kernel's counters, whatever the device has.
const SECTOR_BYTES: u64 = 512;

/// A device while a trial goes on. It looks when the generator reports a second, so that both
/// accounts are of the same time; with a warm-up, from the first of them on.
#[derive(Debug)]
pub(super) struct DeviceWatch {
    device: String,
    /// Device counters at the beginning of the account, and at the last look.
    looks: Option<(DiskCounters, DiskCounters)>,
    length: Nanos,
    asked: TransferTotals,
}

impl DeviceWatch {
    /// Begins, before the trial's first operation.
    pub(super) fn begin(device: String, warmup: Nanos) -> DeviceWatch {
        let mut watch = DeviceWatch {
            device,
            looks: None,
            length: Nanos(0),
            asked: TransferTotals::default(),
        };
        // I/O of a warm-up is in no account of the generator.
        if warmup == Nanos(0) {
            watch.looks = watch.look().map(|now| (now, now));
        }
        watch
    }

    /// Notes an interval of the generator's, about when it ended.
    pub(super) fn interval(&mut self, interval: &TrialInterval) {
        let Some(now) = self.look() else {
            return;
        };
        match &mut self.looks {
            None => self.looks = Some((now, now)),
            Some((_, last)) => {
                *last = now;
                self.length = self.length + interval.length;
                self.asked.add(&interval.stats);
            }
        }
    }

    /// Leaves out the I/O since the last look: it was the layout of a phase, which no second of the generator
    /// counts.
    pub(super) fn leave_out(&mut self) {
        if let (Some(now), Some(looks)) = (self.look(), &mut self.looks) {
            *looks = (later(&looks.0, &looks.1, &now), now);
        }
    }

    /// Use of the device; `None` where the trial was too short.
    pub(super) fn end(self) -> Option<DeviceUse> {
        let (first, last) = self.looks?;
        (self.length > Nanos(0)).then(|| DeviceUse {
            device: self.device,
            length: self.length,
            served: TransferTotals {
                reads: last.reads.saturating_sub(first.reads),
                read_bytes: bytes(last.read_sectors, first.read_sectors),
                writes: last.writes.saturating_sub(first.writes),
                written_bytes: bytes(last.write_sectors, first.write_sectors),
            },
            merged: [
                last.read_merges.saturating_sub(first.read_merges),
                last.write_merges.saturating_sub(first.write_merges),
            ],
            asked: self.asked,
            busy: Some(Nanos(busy_ns(&first, &last))),
        })
    }

    fn look(&self) -> Option<DiskCounters> {
        // A device that cannot be looked at has no account; the trial goes on.
        let found = counted().ok()?.into_iter();
        let mut found = found.filter(|(name, _)| *name == self.device);
        found.next().map(|(_, counted)| counted)
    }
}

/// The first counters, advanced by the I/O from `last` to `now`, which leaves that I/O out of the account.
fn later(first: &DiskCounters, last: &DiskCounters, now: &DiskCounters) -> DiskCounters {
    let after = |of: fn(&DiskCounters) -> u64| of(first) + of(now).saturating_sub(of(last));
    DiskCounters {
        reads: after(|counted| counted.reads),
        read_merges: after(|counted| counted.read_merges),
        read_sectors: after(|counted| counted.read_sectors),
        writes: after(|counted| counted.writes),
        write_merges: after(|counted| counted.write_merges),
        write_sectors: after(|counted| counted.write_sectors),
        active_ms: after(|counted| counted.active_ms),
        ..*first
    }
}

/// Time with something in flight between two looks.
fn busy_ns(first: &DiskCounters, last: &DiskCounters) -> u64 {
    let ms = last.active_ms.saturating_sub(first.active_ms);
    ms.saturating_mul(1_000_000)
}

fn bytes(last: u64, first: u64) -> u64 {
    last.saturating_sub(first).saturating_mul(SECTOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_laid_out_is_in_no_account() {
        let counted = |writes: u64| DiskCounters {
            writes,
            write_sectors: 8 * writes,
            active_ms: writes,
            ..DiskCounters::default()
        };
        // 10 before the trial, 500 of a layout, 30 asked for, 200 of another layout, 4 asked for.
        let first = later(&counted(10), &counted(10), &counted(510));
        let first = later(&first, &counted(540), &counted(740));
        let last = counted(744);
        assert_eq!(last.writes - first.writes, 34);
        assert_eq!(bytes(last.write_sectors, first.write_sectors), 34 * 4096);
        assert_eq!(busy_ns(&first, &last), 34_000_000);
    }
}
