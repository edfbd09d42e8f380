// SPDX-License-Identifier: Apache-2.0
//! Turns cells into requests, in order, without holding them in memory.

use super::within::ModelArrivalSampler;
use super::{IoDirection, ModelFacts, ModelInterval};
use crate::num::{floor_u64, saturating_u32};
use crate::offsets::{OffsetGenerator, OffsetRegion};
use crate::op::{OpKind, OpRequest};
use crate::rng::{Rng, Seed};
use crate::units::Nanos;

/// Largest single transfer. Larger recorded means are not split: they are capped here, and the bytes
/// lost in their cell show as a missed gate.
const SIZE_MAX: u64 = 16 << 20;
/// Block of offsets that are drawn by block.
const PAGE: u64 = 4096;

/// The requests of a series of cells: an iterator with fixed memory.
///
/// In each cell and direction the recorded number of operations arrives, at instants that lie as
/// the facts say ([`super::ModelArrivalPattern`]). Sizes are the two powers of two around the mean
/// that is still owed, mixed so that the bytes submitted up to the end of a cell miss those
/// recorded by less than one transfer, which is carried on; so are the bytes of cells that have no
/// operation to move them.
///
/// Where the recorded mean lies below the alignment, every transfer is one block and a cell moves
/// more than was recorded; above the largest transfer (16 MiB, or the working set), less. Such an
/// error stays in its cell: at most one transfer is ever carried on, or a stretch of tiny
/// operations would be paid for by the sizes of a later burst.
#[derive(Debug)]
pub struct ModelArrivals {
    cells: Vec<ModelInterval>,
    next_cell: usize,
    cell_end: Nanos,
    streams: [ModelArrivalStream; 2],
    align: u64,
    len_max: u64,
}

#[derive(Debug)]
struct ModelArrivalStream {
    direction: IoDirection,
    instants: ModelArrivalSampler,
    places: Rng,
    /// When the next operation of the current cell starts; `None` when the cell has no more.
    next_at: Option<Nanos>,
    ops_left: u64,
    /// Signed, because a transfer may overshoot what the cell owed.
    bytes_left: i128,
    /// Size of the last transfer of the current cell; 0 when it had none.
    last_size: u64,
    /// Magnitude of what was carried on from the last cell with operations.
    carried: i128,
    working_set: u64,
    draw: OffsetGenerator,
}

impl ModelArrivals {
    /// Plays `cells` one after the other from time 0. Sizes and offsets are multiples of
    /// `align` bytes (a power of two, the target's direct I/O alignment).
    ///
    /// # Panics
    /// When `align` is not a power of two up to 16 MiB, or the working set is smaller than
    /// `align`.
    pub fn new(cells: Vec<ModelInterval>, facts: &ModelFacts, align: u32, seed: Seed) -> Self {
        let align = u64::from(align);
        assert!(
            align.is_power_of_two() && align <= SIZE_MAX,
            "alignment is a power of two up to 16 MiB"
        );
        assert!(
            facts.working_set_bytes.value >= align,
            "the working set holds a block"
        );
        // Kinds that count in blocks count in pages; a working set below one is one block.
        let grain_bytes = align
            .max(PAGE)
            .min(facts.working_set_bytes.value / align * align);
        let region = OffsetRegion {
            start: 0,
            bytes: facts.working_set_bytes.value,
            grain_bytes,
        };
        let stream = |direction: IoDirection| ModelArrivalStream {
            direction,
            instants: ModelArrivalSampler::new(
                facts.within(),
                seed.derive("arrivals", direction as u64),
                seed.derive("bursts", 0),
            ),
            places: Rng::new(seed.derive("offsets", direction as u64)),
            next_at: None,
            ops_left: 0,
            bytes_left: 0,
            last_size: 0,
            carried: 0,
            working_set: facts.working_set_bytes.value,
            draw: OffsetGenerator::new(
                facts.offsets_of(direction),
                region,
                (0, 1),
                seed.derive("places", 0),
            ),
        };
        ModelArrivals {
            len_max: len_max(&cells, align),
            cells,
            next_cell: 0,
            cell_end: Nanos(0),
            streams: IoDirection::BOTH.map(stream),
            align,
        }
    }

    /// Largest transfer this play can ask for, for sizing buffers.
    pub fn len_max(&self) -> u32 {
        saturating_u32(self.len_max)
    }

    fn enter_next_cell(&mut self) -> bool {
        let Some(cell) = self.cells.get(self.next_cell) else {
            return false;
        };
        let start = self.cell_end;
        self.cell_end = start + cell.length;
        self.next_cell += 1;
        for stream in &mut self.streams {
            let load = cell.load(stream.direction);
            stream.close_cell();
            stream.ops_left = load.ops;
            stream.bytes_left += i128::from(load.bytes);
            stream.instants.begin(start, self.cell_end, load.ops);
            stream.next_at = stream.instants.next();
        }
        true
    }
}

/// Four times the next power of two of the largest mean that is ever owed: the bytes of cells
/// without operations fall to the next one that has some.
fn len_max(cells: &[ModelInterval], align: u64) -> u64 {
    let mut largest = 0;
    for direction in IoDirection::BOTH {
        let mut owed = 0u64;
        for load in cells.iter().map(|cell| cell.load(direction)) {
            owed = owed.saturating_add(load.bytes);
            if let Some(mean) = owed.checked_div(load.ops) {
                largest = largest.max(mean);
                owed = 0;
            }
        }
    }
    // The carried transfer and the draws may lift the owed mean by one step each.
    let cap = largest.min(SIZE_MAX).next_power_of_two() * 4;
    cap.clamp(align, SIZE_MAX)
}

impl ModelArrivalStream {
    /// Forgives what the sizes possible could not make good in the cell that ends.
    fn close_cell(&mut self) {
        if self.last_size > 0 {
            let most = self.carried.max(self.last_size.into());
            self.bytes_left = self.bytes_left.clamp(-most, most);
            self.carried = self.bytes_left.abs();
            self.last_size = 0;
        }
    }

    fn size(&mut self, align: u64) -> u64 {
        let owed = self.bytes_left.max(0) as f64 / self.ops_left as f64;
        let below = floor_u64(owed).max(1);
        let low = (1u64 << below.ilog2()).clamp(align, SIZE_MAX);
        let high = (low * 2).min(SIZE_MAX);
        let share_high = (owed - low as f64) / (high - low).max(1) as f64;
        if self.places.unit() < share_high {
            high
        } else {
            low
        }
    }

    fn emit(&mut self, at: Nanos, align: u64, len_max: u64) -> OpRequest {
        let largest = (self.working_set / align * align).max(align);
        let size = self.size(align).min(largest).min(len_max);
        self.ops_left -= 1;
        self.last_size = size;
        self.bytes_left -= i128::from(size);
        self.next_at = self.instants.next();
        let kind = match self.direction {
            IoDirection::Read => OpKind::Read,
            IoDirection::Write => OpKind::Write,
        };
        let offset = self.draw.next(saturating_u32(size), &mut self.places);
        OpRequest {
            kind,
            file: 0,
            offset,
            len: saturating_u32(size),
            intended_at: at,
        }
    }
}

impl Iterator for ModelArrivals {
    type Item = OpRequest;

    fn next(&mut self) -> Option<OpRequest> {
        // Bounded by the number of cells: each turn consumes one or returns.
        loop {
            let first = match (self.streams[0].next_at, self.streams[1].next_at) {
                (Some(read), Some(write)) => usize::from(write < read),
                (Some(_), None) => 0,
                (None, Some(_)) => 1,
                (None, None) if self.enter_next_cell() => continue,
                (None, None) => return None,
            };
            let stream = &mut self.streams[first];
            let at = stream
                .next_at
                .expect("the stream was chosen because it has one");
            return Some(stream.emit(at, self.align, self.len_max));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::bursty;
    use super::super::{DirectionLoad, ModelFactValue, totals};
    use super::*;
    use crate::offsets::OffsetPattern;

    /// As computed before offsets of other kinds could be drawn; a change breaks replays.
    const SEQUENCE: [(u64, u64, u32); 4] = [
        (4_698_038, 628_097_024, 32_768),
        (8_357_997, 774_799_360, 32_768),
        (21_690_585, 1_021_181_952, 32_768),
        (23_439_211, 974_520_320, 32_768),
    ];

    fn count(requests: &[OpRequest], kind: OpKind) -> (f64, f64) {
        let chosen = requests.iter().filter(|r| r.kind == kind);
        chosen.fold((0.0, 0.0), |(n, b), r| (n + 1.0, b + f64::from(r.len)))
    }

    #[test]
    fn every_operation_and_byte_of_the_recording_is_submitted() {
        let model = bursty();
        let cells = model.play_whole(1.0);
        let requests: Vec<_> =
            ModelArrivals::new(cells.clone(), &model.facts, 512, Seed(1)).collect();
        for (direction, kind) in [
            (IoDirection::Read, OpKind::Read),
            (IoDirection::Write, OpKind::Write),
        ] {
            let (ops, bytes) = totals(&cells, direction);
            let (submitted, moved) = count(&requests, kind);
            assert!((submitted - ops).abs() < 0.5, "{submitted} {ops}");
            assert!((moved / bytes - 1.0).abs() < 1e-3, "{moved} {bytes}");
        }
    }

    #[test]
    fn requests_come_in_order_inside_their_cell_and_working_set() {
        let model = bursty();
        let cells = model.play_whole(2.0);
        let arrivals = ModelArrivals::new(cells.clone(), &model.facts, 4096, Seed(2));
        let len_max = arrivals.len_max();
        let requests: Vec<_> = arrivals.collect();
        assert!(requests.is_sorted_by_key(|r| r.intended_at));
        for r in &requests {
            assert!(r.offset + u64::from(r.len) <= model.facts.working_set_bytes.value);
            assert!(
                r.len.is_multiple_of(4096) && r.offset.is_multiple_of(4096) && r.len <= len_max
            );
        }
        let mut per_cell = vec![0u64; cells.len()];
        for r in &requests {
            per_cell[usize::try_from((r.intended_at.0 / 15_000_000_000).min(239)).unwrap()] += 1;
        }
        let expect: Vec<u64> = cells.iter().map(|c| c.read.ops + c.write.ops).collect();
        assert_eq!(per_cell, expect);
    }

    fn writes(cells: &[(u64, u64)]) -> Vec<ModelInterval> {
        let cell = |(ops, bytes): &(u64, u64)| ModelInterval {
            length: Nanos::SECOND,
            read: DirectionLoad::default(),
            write: DirectionLoad {
                ops: *ops,
                bytes: *bytes,
            },
        };
        cells.iter().map(cell).collect()
    }

    /// Bytes submitted and the largest transfer, by cells of one second.
    fn moved(cells: &[ModelInterval], align: u32) -> Vec<(u64, u64)> {
        let facts = bursty().facts;
        let mut moved = vec![(0, 0); cells.len()];
        for request in ModelArrivals::new(cells.to_vec(), &facts, align, Seed(6)) {
            let second = usize::try_from(request.intended_at.0 / Nanos::SECOND.0).unwrap();
            let (bytes, largest) = &mut moved[second.min(cells.len() - 1)];
            *bytes += u64::from(request.len);
            *largest = u64::from(request.len).max(*largest);
        }
        moved
    }

    #[test]
    fn after_every_cell_the_bytes_are_right_to_one_transfer() {
        let mut rng = Rng::new(Seed(7));
        let loads: Vec<(u64, u64)> = (0..500)
            .map(|_| {
                let ops = rng.below(40);
                (ops, ops * (512 + rng.below(100_000)))
            })
            .collect();
        let cells = writes(&loads);
        let (mut owed, mut carried) = (0i128, 0);
        for ((ops, bytes), (got, largest)) in loads.iter().zip(moved(&cells, 512)) {
            owed += i128::from(*bytes) - i128::from(got);
            if *ops > 0 {
                carried = i128::from(largest).max(carried);
                assert!(owed.abs() <= carried, "{owed} {carried}");
                // Bytes carried in from earlier cells are also at most one transfer.
                let missed = i128::from(*bytes) - i128::from(got);
                assert!(missed.abs() <= 2 * carried, "{missed}");
                carried = owed.abs();
            }
        }
    }

    #[test]
    fn tiny_operations_do_not_run_up_a_debt_and_huge_ones_no_credit() {
        for (ops, bytes) in [(1_000, 100_000), (10, 10 << 30)] {
            let mut loads = vec![(ops, bytes); 50];
            loads.push((100, 100 << 16));
            let burst = *moved(&writes(&loads), 4096).last().unwrap();
            let error = burst.0.abs_diff(100 << 16);
            let carried = if bytes > 1 << 30 { SIZE_MAX } else { 4096 };
            assert!(error <= carried + burst.1, "{ops} {bytes}: {burst:?}");
        }
    }

    #[test]
    fn bytes_of_cells_without_operations_fit_the_buffers() {
        let mut model = bursty();
        let sparse = writes(&[(1, 4096), (1, 8192), (1, 65_536), (1, 4096)].repeat(250));
        model.envelope = super::super::ModelEnvelope::new(sparse).unwrap();
        let cells = model.play_whole(0.05);
        let arrivals = ModelArrivals::new(cells.clone(), &model.facts, 512, Seed(8));
        let len_max = arrivals.len_max();
        let requests: Vec<OpRequest> = arrivals.collect();
        assert!(requests.iter().all(|r| r.len <= len_max), "{len_max}");
        let (_, bytes) = totals(&cells, IoDirection::Write);
        let (ops, moved) = count(&requests, OpKind::Write);
        assert!((moved - bytes).abs() <= f64::from(len_max) && ops > 40.0);
    }

    #[test]
    fn inside_a_cell_the_arrivals_are_uniform() {
        let n = 20_000;
        let load = DirectionLoad {
            ops: n,
            bytes: n * 4096,
        };
        let cell = ModelInterval {
            length: Nanos::SECOND,
            read: load,
            write: DirectionLoad::default(),
        };
        let facts = bursty().facts;
        let times: Vec<f64> = ModelArrivals::new(vec![cell], &facts, 512, Seed(4))
            .map(|r| r.intended_at.as_secs_f64())
            .collect();
        // Kolmogorov-Smirnov distance to the uniform law; 1.63/sqrt(n) is the 1 % critical value.
        let distance = times.iter().enumerate().fold(0.0f64, |worst, (i, t)| {
            worst.max((t - i as f64 / n as f64).abs())
        });
        assert!(distance < 1.63 / (n as f64).sqrt(), "{distance}");
    }

    #[test]
    fn writes_may_go_another_way_than_reads() {
        let mut model = bursty();
        model.facts.write_offsets = Some(ModelFactValue::declared(OffsetPattern::Sequential));
        let arrivals = ModelArrivals::new(model.play_whole(1.0), &model.facts, 4096, Seed(5));
        let (mut next, mut out_of_order) = (0, 0);
        for request in arrivals.take(20_000) {
            if request.kind == OpKind::Read {
                out_of_order += u32::from(request.offset % (1 << 20) != 0);
                continue;
            }
            // On from the last write, or from the start again.
            assert!(request.offset == next || request.offset == 0, "{request:?}");
            next = request.offset + u64::from(request.len);
        }
        assert!(next > 0 && out_of_order > 1_000);
    }

    #[test]
    fn offsets_of_every_kind_stay_inside_and_aligned() {
        for offsets in [
            OffsetPattern::Permutation,
            OffsetPattern::Backward,
            OffsetPattern::Zipf { exponent: 1.0 },
            OffsetPattern::Runs { blocks: 4 },
        ] {
            for working_set in [512, 10 << 20] {
                let mut model = bursty();
                model.facts.offsets = Some(ModelFactValue::assumed(offsets.clone()));
                model.facts.working_set_bytes.value = working_set;
                let cells = model.play_whole(1.0);
                let requests = ModelArrivals::new(cells, &model.facts, 512, Seed(3));
                for request in requests.take(2_000) {
                    let end = request.offset + u64::from(request.len);
                    assert!(end <= working_set && request.offset.is_multiple_of(512));
                }
            }
        }
    }

    #[test]
    fn the_random_sequence_of_uniform_offsets_is_as_it_always_was() {
        let model = bursty();
        let arrivals = ModelArrivals::new(model.play_whole(1.0), &model.facts, 512, Seed(1));
        let first: Vec<(u64, u64, u32)> = arrivals
            .take(4)
            .map(|r| (r.intended_at.0, r.offset, r.len))
            .collect();
        assert_eq!(first, SEQUENCE);
    }

    #[test]
    fn the_same_seed_gives_the_same_requests_and_another_seed_others() {
        let model = bursty();
        let play = |seed| -> Vec<OpRequest> {
            ModelArrivals::new(model.play_whole(1.0), &model.facts, 512, Seed(seed))
                .take(500)
                .collect()
        };
        assert_eq!(play(1), play(1));
        assert_ne!(play(1), play(2));
    }
}
