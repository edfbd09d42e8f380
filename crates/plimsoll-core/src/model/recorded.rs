// SPDX-License-Identifier: Apache-2.0
//! Recorded requests as they are played: a stretch of the recording, faster or slower, on a target
//! that may be smaller than the recorded device.

use std::sync::Arc;

use super::packed::{
    PackedDependency, PackedDependencyReader, PackedRequests, PackedRequestsReader, ZONE_BYTES,
};
use crate::num::{round_u64, saturating_u32};
use crate::op::OpRequest;
use crate::op::TraceAccess;
use crate::units::Nanos;

/// Where on the target the requests go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayAddressSpace {
    /// Where they went on the recorded device.
    AsRecorded,
    /// The zones that were touched, moved together in their order: neighbours stay neighbours,
    /// what was never touched is left out.
    Compact(Arc<[u64]>),
}

impl ReplayAddressSpace {
    /// The touched zones of a recording, moved together.
    pub fn compact(packed: &PackedRequests) -> ReplayAddressSpace {
        ReplayAddressSpace::Compact(packed.zones().into())
    }

    fn place(&self, offset: u64) -> u64 {
        match self {
            ReplayAddressSpace::AsRecorded => offset,
            ReplayAddressSpace::Compact(zones) => {
                let zone = zones.partition_point(|zone| *zone < offset / ZONE_BYTES);
                zone as u64 * ZONE_BYTES + offset % ZONE_BYTES
            }
        }
    }
}

/// A request, and what waits for its end.
#[derive(Debug, Clone, Copy)]
pub struct PackedReplayRequest {
    /// Which of the recording's it is, from 0.
    pub number: u64,
    /// The request, at the instant at which it was recorded.
    pub request: OpRequest,
    /// Dependent that waits for its end, if any.
    pub link: Option<PackedDependency>,
}

/// The requests of a stretch of a recording: an iterator with fixed memory.
#[derive(Debug, Clone)]
pub struct PackedReplay {
    requests: PackedRequestsReader,
    links: PackedDependencyReader,
    number: u64,
    space: ReplayAddressSpace,
    from: Nanos,
    scale: f64,
    align: u64,
    len_max: u64,
}

impl PackedReplay {
    /// Plays `packed` from `from` on, `scale` times as fast. Offsets are rounded down and ends up
    /// to multiples of `align` (a power of two), so that what was touched is touched.
    ///
    /// # Panics
    /// When `align` is not a power of two, or `scale` not above 0.
    pub fn new(
        packed: &PackedRequests,
        space: ReplayAddressSpace,
        from: Nanos,
        scale: f64,
        align: u32,
    ) -> PackedReplay {
        assert!(
            align.is_power_of_two() && scale > 0.0,
            "alignment is a power of two, the scale above 0"
        );
        let align = u64::from(align);
        // A request that begins off a boundary reaches one block further.
        let largest = u64::from(packed.largest_bytes()).next_multiple_of(align) + align;
        PackedReplay {
            requests: packed.unpack(),
            links: packed.links(),
            number: 0,
            space,
            from,
            scale,
            align,
            len_max: largest,
        }
    }

    /// Largest transfer this play can ask for, for sizing buffers.
    pub fn len_max(&self) -> u32 {
        saturating_u32(self.len_max)
    }

    /// The next request with what waits for its end. What waited for one before the stretch waits for
    /// nothing.
    #[inline]
    pub fn step(&mut self) -> Option<PackedReplayRequest> {
        // Bounded by the recording.
        let (traced, number, link) = loop {
            let traced = self.requests.next()?;
            let (number, link) = (self.number, self.links.next_link());
            self.number += 1;
            if traced.at >= self.from {
                break (traced, number, link);
            }
        };
        let link = link.map(|link| PackedDependency {
            think: Nanos(round_u64(link.think.0 as f64 / self.scale)),
            ..link
        });
        Some(PackedReplayRequest {
            number,
            request: self.request(&traced),
            link,
        })
    }

    fn request(&self, traced: &TraceAccess) -> OpRequest {
        let offset = self.space.place(traced.offset);
        let start = offset / self.align * self.align;
        let end = (offset + u64::from(traced.bytes)).next_multiple_of(self.align);
        let len = if traced.bytes == 0 { 0 } else { end - start };
        let at = traced.at.since(self.from).0;
        OpRequest {
            kind: traced.kind,
            file: 0,
            offset: start,
            len: saturating_u32(len),
            intended_at: Nanos(round_u64(at as f64 / self.scale)),
        }
    }
}

impl Iterator for PackedReplay {
    type Item = OpRequest;

    #[inline]
    fn next(&mut self) -> Option<OpRequest> {
        self.step().map(|step| step.request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PackedGapPrecision, PackedRequestsWriter};
    use crate::op::OpKind;

    fn packed() -> PackedRequests {
        let mut packer = PackedRequestsWriter::new(PackedGapPrecision::Exact);
        let far = 500 * ZONE_BYTES;
        for (ms, kind, offset, bytes) in [
            (0, OpKind::Read, far + 512, 1024),
            (10, OpKind::Write, 4096, 4096),
            (20, OpKind::Fsync, 0, 0),
            (40, OpKind::Read, far + ZONE_BYTES, 512),
        ] {
            packer.push(&TraceAccess {
                at: Nanos(ms * 1_000_000),
                kind,
                offset,
                bytes,
            });
        }
        packer.finish(Nanos::SECOND)
    }

    fn played(
        space: ReplayAddressSpace,
        from_ms: u64,
        scale: f64,
        align: u32,
    ) -> Vec<(u64, u64, u32)> {
        let from = Nanos(from_ms * 1_000_000);
        PackedReplay::new(&packed(), space, from, scale, align)
            .map(|r| (r.intended_at.0 / 1_000_000, r.offset, r.len))
            .collect()
    }

    #[test]
    fn what_was_touched_is_touched_in_whole_blocks() {
        let far = 500 * ZONE_BYTES;
        let as_recorded = [
            (0, far + 512, 1024),
            (10, 4096, 4096),
            (20, 0, 0),
            (40, far + ZONE_BYTES, 512),
        ];
        assert_eq!(
            played(ReplayAddressSpace::AsRecorded, 0, 1.0, 512),
            as_recorded
        );
        let in_blocks = [
            (0, far, 4096),
            (10, 4096, 4096),
            (20, 0, 0),
            (40, far + ZONE_BYTES, 4096),
        ];
        assert_eq!(
            played(ReplayAddressSpace::AsRecorded, 0, 1.0, 4096),
            in_blocks
        );
    }

    #[test]
    fn zones_are_moved_together_in_their_order() {
        let space = ReplayAddressSpace::compact(&packed());
        let moved = [
            (0, ZONE_BYTES + 512, 1024),
            (10, 4096, 4096),
            (20, 0, 0),
            (40, 2 * ZONE_BYTES, 512),
        ];
        assert_eq!(played(space, 0, 1.0, 512), moved);
    }

    #[test]
    fn a_stretch_begins_at_its_start_and_goes_at_its_pace() {
        let late: Vec<u64> = played(ReplayAddressSpace::AsRecorded, 10, 2.0, 512)
            .into_iter()
            .map(|(ms, _, _)| ms)
            .collect();
        assert_eq!(late, [0, 5, 15]);
    }
}
