// SPDX-License-Identifier: Apache-2.0
//! Activity of disks between looks that are closer together than the others: when they ended nothing, and
//! how much they ended with how much in flight.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_core::evidence::{DiskAtDepth, DiskPauses};
use plimsoll_core::units::Nanos;

use crate::host::counters::DeviceCounters;

/// Classes of depth; the last one has no upper end.
const DEPTHS_MAX: usize = 8;

/// The looks at all disks so far.
#[derive(Debug, Default)]
pub(super) struct DiskLooks(BTreeMap<String, SeenDisk>);

/// The looks at one disk.
#[derive(Debug, Default)]
struct SeenDisk {
    last: DeviceCounters,
    last_at: Duration,
    /// How long it has ended nothing while something was in flight.
    still: Duration,
    pauses: DiskPauses,
    /// At the beginning of the second.
    before: DeviceCounters,
    in_flight: [u64; 2],
    by_depth: [DiskAtDepth; DEPTHS_MAX],
}

impl DiskLooks {
    /// Notes a look.
    pub(super) fn add(&mut self, now: &BTreeMap<String, DeviceCounters>, at: Duration) {
        for (name, counted) in now {
            match self.0.get_mut(name) {
                Some(disk) => disk.add(*counted, at),
                None => {
                    let disk = SeenDisk {
                        last: *counted,
                        last_at: at,
                        before: *counted,
                        ..SeenDisk::default()
                    };
                    self.0.insert(name.clone(), disk);
                }
            }
        }
    }

    /// Notes that a second is over.
    pub(super) fn end_second(&mut self) {
        self.0.values_mut().for_each(SeenDisk::end_second);
    }

    /// Pauses and completions of a disk.
    pub(super) fn end(&mut self, name: &str) -> (Option<DiskPauses>, Vec<DiskAtDepth>) {
        let Some(mut disk) = self.0.remove(name) else {
            return (None, Vec::new());
        };
        disk.end_pause();
        let seen = disk.by_depth.into_iter().filter(|class| class.looks > 0);
        (Some(disk.pauses), seen.collect())
    }
}

impl SeenDisk {
    fn add(&mut self, now: DeviceCounters, at: Duration) {
        let is_loaded = self.last.in_flight > 0 && now.in_flight > 0;
        match is_loaded && ended(&now) == ended(&self.last) {
            true => self.still += at.saturating_sub(self.last_at),
            false => self.end_pause(),
        }
        self.in_flight[0] += now.in_flight;
        self.in_flight[1] += 1;
        (self.last, self.last_at) = (now, at);
    }

    fn end_pause(&mut self) {
        let length = Nanos::from(self.still);
        if length >= DiskPauses::LEAST {
            self.pauses.count += 1;
            self.pauses.time = self.pauses.time + length;
            self.pauses.longest = self.pauses.longest.max(length);
        }
        self.still = Duration::ZERO;
    }

    fn end_second(&mut self) {
        let requests = self.last.requests.saturating_sub(self.before.requests);
        let busy_ms = self.last.busy_ms.saturating_sub(self.before.busy_ms);
        if requests > 0 && self.in_flight[1] > 0 {
            let depth = self.in_flight[0] / self.in_flight[1];
            let class = depth.max(1).ilog2() as usize;
            let class = &mut self.by_depth[class.min(DEPTHS_MAX - 1)];
            class.looks += 1;
            class.requests += requests;
            class.busy = class.busy + Nanos(busy_ms.saturating_mul(1_000_000));
            class.in_flight[0] += self.in_flight[0];
            class.in_flight[1] += self.in_flight[1];
        }
        (self.in_flight, self.before) = ([0, 0], self.last);
    }
}

/// Everything that it has ended.
fn ended(counted: &DeviceCounters) -> u64 {
    let more = |of: Option<(u64, u64)>| of.map_or(0, |(count, _)| count);
    counted.requests + more(counted.discards) + more(counted.flushes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(requests: u64, in_flight: u64) -> BTreeMap<String, DeviceCounters> {
        let counted = DeviceCounters {
            requests,
            in_flight,
            busy_ms: requests,
            ..DeviceCounters::default()
        };
        [("vdb".to_owned(), counted)].into()
    }

    #[test]
    fn a_disk_that_ends_nothing_while_something_waits_pauses_and_an_idle_one_does_not() {
        let mut looks = DiskLooks::default();
        // Ends 10 in each look, but for the fifth to the eighth; then there is nothing to do.
        let ended = [10, 20, 30, 40, 50, 50, 50, 50, 50, 60, 70, 70, 70, 70, 70];
        for (n, count) in ended.into_iter().enumerate() {
            let in_flight = u64::from(n < 10) * 4;
            looks.add(
                &look(count, in_flight),
                Duration::from_millis(100 * n as u64),
            );
        }
        let (pauses, _) = looks.end("vdb");
        let pauses = pauses.unwrap();
        assert_eq!(pauses.count, 1);
        assert_eq!(
            (pauses.time, pauses.longest),
            (pauses.longest, Nanos(400_000_000))
        );
    }

    #[test]
    fn what_was_ended_is_kept_by_how_much_was_in_flight() {
        let mut looks = DiskLooks::default();
        looks.add(&look(0, 0), Duration::ZERO);
        for (second, (requests, in_flight)) in
            [(10, 1), (30, 5), (50, 7), (50, 0)].iter().enumerate()
        {
            looks.add(
                &look(*requests, *in_flight),
                Duration::from_secs(second as u64),
            );
            looks.end_second();
        }
        let (_, by_depth) = looks.end("vdb");
        let [calm, deep] = &by_depth[..] else {
            panic!("{by_depth:?}")
        };
        assert_eq!((calm.looks, calm.requests), (1, 10));
        assert_eq!(
            (deep.looks, deep.requests, deep.busy),
            (2, 40, Nanos(40_000_000))
        );
        assert_eq!(deep.in_flight[0], 6 * deep.in_flight[1]);
    }
}
