// SPDX-License-Identifier: Apache-2.0
//! The part of a model that one trial plays.

use super::{
    DirectionLoad, ModelArrivals, ModelInterval, PackedReplay, PackedRequests, ReplayAddressSpace,
    WorkloadModel,
};
use crate::num::{round_u64, to_usize};
use crate::op::{OpKind, OpRequest};
use crate::rng::{Rng, Seed};
use crate::units::Nanos;

/// Excerpt to play: all of a recording, slices of it, or a stretch.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelExcerpt {
    /// Load to play, interval by interval.
    pub cells: Vec<ModelInterval>,
    /// Where in the recording it begins, where requests are played.
    pub from: Nanos,
    /// How many times as fast as recorded requests are played; cells are scaled already.
    pub scale: f64,
}

impl ModelExcerpt {
    /// These intervals of a model without requests.
    pub fn cells(cells: Vec<ModelInterval>) -> ModelExcerpt {
        ModelExcerpt {
            cells,
            from: Nanos(0),
            scale: 1.0,
        }
    }
}

impl WorkloadModel {
    /// The whole recording, at `scale` times its rates.
    pub fn whole(&self, scale: f64) -> ModelExcerpt {
        if self.requests.is_none() {
            return ModelExcerpt::cells(self.play_whole(scale));
        }
        let faster = |cell: &ModelInterval| ModelInterval {
            length: Nanos(round_u64(cell.length.0 as f64 / scale)),
            ..*cell
        };
        ModelExcerpt {
            cells: self.envelope.cells().iter().map(faster).collect(),
            from: Nanos(0),
            scale,
        }
    }

    /// A stretch of the recorded requests that takes `seconds` at `scale` times their pace. A request
    /// is drawn, and where in the stretch it lies: so a stretch is met as often as requests are in
    /// it, and what requests meet on the mean is what they met. The same seed gives the same stretch.
    /// `None` for a model without requests.
    pub fn stretch(&self, seconds: u32, scale: f64, seed: Seed) -> Option<ModelExcerpt> {
        let packed = self.requests.as_ref()?;
        let recorded = Nanos(round_u64(f64::from(seconds) * scale * 1e9));
        let mut rng = Rng::new(seed.derive("stretch", 0));
        let drawn = to_usize(rng.below(packed.requests().max(1)));
        let at = packed
            .unpack()
            .nth(drawn)
            .map_or(Nanos(0), |request| request.at);
        let before = Nanos(rng.below(recorded.0.saturating_add(1)));
        let from = at.since(before).min(packed.length().since(recorded));
        Some(ModelExcerpt {
            cells: count(packed, seconds, from, scale),
            from,
            scale,
        })
    }

    /// The requests of an excerpt, in order. Sizes and offsets are multiples of `align` bytes (a
    /// power of two, the target's direct I/O alignment); requests go where `space` says. What is
    /// drawn goes beyond its working set only where that is [`ReplayAddressSpace::AsRecorded`] and
    /// the facts have a reach.
    ///
    /// # Panics
    /// When `align` is not a power of two up to 16 MiB, or the working set is smaller than `align`.
    pub fn play(
        &self,
        excerpt: &ModelExcerpt,
        space: &ReplayAddressSpace,
        align: u32,
        seed: Seed,
    ) -> ModelReplay {
        match &self.requests {
            Some(packed) => {
                let recorded =
                    PackedReplay::new(packed, space.clone(), excerpt.from, excerpt.scale, align);
                ModelReplay::Recorded(Box::new(recorded))
            }
            None => {
                let cells = excerpt.cells.clone();
                ModelReplay::Drawn(Box::new(ModelArrivals::new(
                    cells,
                    &self.facts,
                    align,
                    seed,
                )))
            }
        }
    }
}

/// Load of each second of a stretch.
fn count(packed: &PackedRequests, seconds: u32, from: Nanos, scale: f64) -> Vec<ModelInterval> {
    let empty = ModelInterval {
        length: Nanos::SECOND,
        read: DirectionLoad::default(),
        write: DirectionLoad::default(),
    };
    let mut cells = vec![empty; seconds as usize];
    for request in PackedReplay::new(packed, ReplayAddressSpace::AsRecorded, from, scale, 1) {
        let second = to_usize(request.intended_at.0 / Nanos::SECOND.0);
        let Some(cell) = cells.get_mut(second) else {
            break;
        };
        cell.count(&request);
    }
    cells
}

impl ModelInterval {
    /// Adds a request; what is neither a read nor a write does not count.
    pub fn count(&mut self, request: &OpRequest) {
        let load = match request.kind {
            OpKind::Read => &mut self.read,
            OpKind::Write => &mut self.write,
            _ => return,
        };
        load.ops += 1;
        load.bytes += u64::from(request.len);
    }
}

/// The requests of an excerpt of a model: an iterator with fixed memory.
#[derive(Debug)]
pub enum ModelReplay {
    /// Drawn from the envelope.
    Drawn(Box<ModelArrivals>),
    /// As they were recorded.
    Recorded(Box<PackedReplay>),
}

impl ModelReplay {
    /// Largest transfer this play can ask for, for sizing buffers.
    pub fn len_max(&self) -> u32 {
        match self {
            ModelReplay::Drawn(arrivals) => arrivals.len_max(),
            ModelReplay::Recorded(recorded) => recorded.len_max(),
        }
    }
}

impl Iterator for ModelReplay {
    type Item = OpRequest;

    #[inline]
    fn next(&mut self) -> Option<OpRequest> {
        match self {
            ModelReplay::Drawn(arrivals) => arrivals.next(),
            ModelReplay::Recorded(recorded) => recorded.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::bursty;
    use crate::model::{PackedGapPrecision, PackedRequestsWriter};
    use crate::op::TraceAccess;
    use proptest::prelude::*;

    /// An hour with one read a minute, and a burst of 6000 in its 30th minute.
    fn quiet_but_for_a_burst() -> WorkloadModel {
        let minute = 60 * Nanos::SECOND.0;
        let quiet = (0..60).map(|n| n * minute);
        let burst = (0..6_000).map(|n| 30 * minute + 1_000_000 + n * 5_000_000);
        let mut instants: Vec<u64> = quiet.chain(burst).collect();
        instants.sort_unstable();
        let mut packer = PackedRequestsWriter::new(PackedGapPrecision::Exact);
        for at in instants {
            packer.push(&TraceAccess {
                at: Nanos(at),
                kind: OpKind::Read,
                offset: at / 4096 * 4096,
                bytes: 4096,
            });
        }
        WorkloadModel {
            requests: Some(Box::new(packer.finish(Nanos(60 * minute)))),
            ..bursty()
        }
    }

    #[test]
    fn stretches_are_where_the_requests_are() {
        let model = quiet_but_for_a_burst();
        let stretches = (0..100).filter_map(|seed| model.stretch(10, 2.0, Seed(seed)));
        let asked = stretches.map(|excerpt| reads(&excerpt));
        let met = asked.filter(|asked| *asked > 100).count();
        // 99 of 100 requests are in the burst, which lasts 30 s of an hour.
        assert!(met > 90, "{met} of 100 stretches met the burst");
        assert!(bursty().stretch(10, 1.0, Seed(0)).is_none());
    }

    fn reads(excerpt: &ModelExcerpt) -> u64 {
        excerpt.cells.iter().map(|cell| cell.read.ops).sum()
    }

    #[test]
    fn stretches_are_the_same_again_and_count_what_they_play() {
        let model = quiet_but_for_a_burst();
        let drawn = (1..60_u32, 0.25..8.0_f64, any::<u64>());
        proptest!(ProptestConfig::with_cases(64), |((seconds, scale, seed) in drawn)| {
            let excerpt = model.stretch(seconds, scale, Seed(seed)).unwrap();
            prop_assert_eq!(&model.stretch(seconds, scale, Seed(seed)).unwrap(), &excerpt);
            let end_s = excerpt.from.as_secs_f64() + f64::from(seconds) * scale;
            prop_assert!(end_s < 3_600.000_001, "{}", end_s);
            let end = Nanos(u64::from(seconds) * Nanos::SECOND.0);
            let played = model.play(&excerpt, &ReplayAddressSpace::AsRecorded, 512, Seed(1));
            let played = played.take_while(|request| request.intended_at < end);
            prop_assert_eq!(played.count() as u64, reads(&excerpt));
        });
    }

    #[test]
    fn the_whole_is_every_request_faster() {
        let model = quiet_but_for_a_burst();
        let excerpt = model.whole(10.0);
        let played: Vec<_> = model
            .play(&excerpt, &ReplayAddressSpace::AsRecorded, 512, Seed(1))
            .collect();
        assert_eq!(played.len(), 6_060);
        assert_eq!(played[1].intended_at, Nanos(6 * Nanos::SECOND.0));
        let length = excerpt
            .cells
            .iter()
            .fold(Nanos(0), |sum, cell| sum + cell.length);
        assert_eq!(length, Nanos(360 * Nanos::SECOND.0));
    }
}
