// SPDX-License-Identifier: Apache-2.0
//! Requests by zone. Neighbouring zones are counted side by side: a number for each zone of its own
//! would make every count wait for memory, as a large device has more zones than a processor's
//! cache has room for.

use plimsoll_core::model::ZONE_BYTES;
use plimsoll_core::num::to_usize;
use plimsoll_core::table::IntHashMap;

/// Zones that lie side by side.
const SIDE_BY_SIDE: usize = 64;

/// Counts by zone.
#[derive(Debug, Default)]
pub(super) struct TraceZoneCounts {
    /// Where in `counts` those of a run of zones are, counted from 1.
    places: IntHashMap<u32>,
    counts: Vec<[u32; SIDE_BY_SIDE]>,
}

impl TraceZoneCounts {
    /// Counts a request at this offset.
    #[inline]
    pub(super) fn count(&mut self, offset: u64) {
        let zone = offset / ZONE_BYTES;
        let run = SIDE_BY_SIDE as u64;
        let place = self.places.at(zone / run);
        if *place == 0 {
            self.counts.push([0; SIDE_BY_SIDE]);
            // A request each does not make 2^32 of them.
            *place = plimsoll_core::num::saturating_u32(self.counts.len() as u64);
        }
        let count = &mut self.counts[*place as usize - 1][to_usize(zone % run)];
        *count = count.saturating_add(1);
    }

    /// Zones with requests and how many, by number.
    pub(super) fn sorted(&self) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        for (run, place) in self.places.sorted() {
            let zones = run * SIDE_BY_SIDE as u64..;
            let counts = &self.counts[place as usize - 1];
            all.extend(
                zones
                    .zip(counts.iter().map(|count| u64::from(*count)))
                    .filter(|(_, count)| *count > 0),
            );
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_zone_keeps_its_own_count() {
        let mut zones = TraceZoneCounts::default();
        // Two of one run, and the last zone there is.
        let given = [
            (3, 2),
            (31, 1),
            (32, 4),
            (1 << 20, 1),
            (u64::MAX / ZONE_BYTES, 3),
        ];
        for (zone, count) in given {
            (0..count).for_each(|_| zones.count(zone * ZONE_BYTES + 4096));
        }
        assert_eq!(zones.sorted(), given);
    }
}
