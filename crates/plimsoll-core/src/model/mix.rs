// SPDX-License-Identifier: Apache-2.0
//! Several models as one load on one target, as a shared array sees them.
//!
//! A mix is a model of requests: those of its members, recorded or drawn once, in order of time, each
//! member in a region of its own. So whatever is played of it is the same time of all of them.

use std::iter::Peekable;

use super::{
    DirectionLoad, ModelEnvelope, ModelFactValue, ModelFacts, ModelInterval, ModelProvenance,
    ModelReplay, PackedGapPrecision, PackedRequestsWriter, ReplayAddressSpace, WorkloadModel,
    ZONE_BYTES,
};
use crate::num::{round_u64, to_usize};
use crate::op::TraceAccess;
use crate::rng::Seed;
use crate::units::{Nanos, size};

/// Most members of a mix.
const MEMBERS_MAX: usize = 64;
/// Most requests of a mix: they are packed in memory.
const REQUESTS_MAX: u64 = 200_000_000;
/// Intervals that describe a mix.
const INTERVALS: u64 = 200;
/// The shortest of them.
const INTERVAL_MIN: Nanos = Nanos(1_000_000);
/// Alignment of requests that are drawn: the smallest any device has.
const ALIGN_BYTES: u32 = 512;

/// A model in a mix.
#[derive(Debug, Clone, Copy)]
pub struct ModelMixMember<'a> {
    /// The model.
    pub model: &'a WorkloadModel,
    /// Factor on its rates, above 0: it divides the times of recorded requests.
    pub scale: f64,
}

impl ModelMixMember<'_> {
    /// Bytes of its region: whole zones.
    fn region_bytes(&self) -> u64 {
        let bytes = match &self.model.requests {
            Some(packed) => packed.footprint_bytes(),
            None => self.model.facts.working_set_bytes.value,
        };
        bytes.max(1).next_multiple_of(ZONE_BYTES)
    }

    fn length(&self) -> Nanos {
        if let Some(packed) = &self.model.requests {
            let length = packed.length().0 as f64 / self.scale;
            // The last request may begin at the very end, and belongs to it.
            return Nanos(round_u64(length)) + Nanos(1);
        }
        self.model.length()
    }

    /// Its requests, recorded ones exactly where they lay among the zones that were touched.
    fn play(&self, seed: Seed) -> ModelReplay {
        let (space, align) = match &self.model.requests {
            Some(packed) => (ReplayAddressSpace::compact(packed), 1),
            // In its region, however far it would reach elsewhere.
            None => (ReplayAddressSpace::Compact(Vec::new().into()), ALIGN_BYTES),
        };
        self.model
            .play(&self.model.whole(self.scale), &space, align, seed)
    }

    fn words(&self, region: u64) -> String {
        let source = &self.model.source;
        format!(
            "member {} ×{}: {}, disk {}, {} to {}; {} from {} on",
            self.model.name,
            self.scale,
            source.recording,
            source.disk,
            source.from,
            source.to,
            size(self.region_bytes() as f64),
            size(region as f64)
        )
    }
}

/// The requests of all members in order of time: an iterator whose memory does not grow.
#[derive(Debug)]
pub struct ModelMixReplay {
    members: Vec<(Peekable<ModelReplay>, u64)>,
    end: Nanos,
}

impl ModelMixReplay {
    /// The requests of these members, for as long as all of them last. What counters do not contain is
    /// drawn from the seed.
    pub fn new(members: &[ModelMixMember<'_>], seed: Seed) -> ModelMixReplay {
        let mut region = 0;
        let all = members.iter().zip(0..).map(|(member, number)| {
            let start = region;
            region += member.region_bytes();
            let requests = member.play(seed.derive("member", number));
            (requests.peekable(), start)
        });
        ModelMixReplay {
            members: all.collect(),
            end: length(members),
        }
    }
}

impl Iterator for ModelMixReplay {
    type Item = TraceAccess;

    fn next(&mut self) -> Option<TraceAccess> {
        let waiting = self.members.iter_mut().enumerate();
        let starts = waiting
            .filter_map(|(place, (requests, _))| Some((requests.peek()?.intended_at, place)));
        // At one instant the member that was named first goes first.
        let (at, place) = starts.min()?;
        if at >= self.end {
            return None;
        }
        let (requests, region) = &mut self.members[place];
        let request = requests.next()?;
        Some(TraceAccess {
            at,
            kind: request.kind,
            offset: *region + request.offset,
            bytes: request.len,
        })
    }
}

/// How long all of them last.
fn length(members: &[ModelMixMember<'_>]) -> Nanos {
    let lengths = members.iter().map(ModelMixMember::length);
    lengths.min().unwrap_or_default()
}

impl WorkloadModel {
    /// A model of several at once, each in a region of its own, the regions after one another in the
    /// order of the members; as long as the shortest lasts. Its fidelity holds the gates that members
    /// missed.
    ///
    /// # Errors
    /// When there are fewer than two members or more than 64, a factor is out of range, or it has more
    /// requests than can be packed.
    pub fn mix(
        name: &str,
        members: &[ModelMixMember<'_>],
        seed: Seed,
    ) -> Result<WorkloadModel, String> {
        if !(2..=MEMBERS_MAX).contains(&members.len()) {
            return Err(format!("expected from 2 to {MEMBERS_MAX} members"));
        }
        if let Some(wrong) = members.iter().find(|m| !(m.scale > 0.0 && m.scale <= 1e6)) {
            return Err(format!(
                "invalid factor {} of {}: expected a number above 0 and up to 1000000",
                wrong.scale, wrong.model.name
            ));
        }
        let sync_writes = sync_writes(members)?;
        let length = length(members);
        let mut packer = PackedRequestsWriter::new(PackedGapPrecision::Exact);
        let mut requests = 0;
        for request in ModelMixReplay::new(members, seed) {
            requests += 1;
            if requests > REQUESTS_MAX {
                return Err(format!("it has more than {REQUESTS_MAX} requests"));
            }
            packer.push(&request);
        }
        let packed = packer.finish(length);
        let cells = described(length, packed.unpack());
        let room = members
            .iter()
            .map(ModelMixMember::region_bytes)
            .sum::<u64>();
        Ok(WorkloadModel {
            name: name.into(),
            source: source(members, length),
            facts: ModelFacts {
                sync_writes,
                ..ModelFacts::of_requests(room)
            },
            bursts: Vec::new(),
            phases: Vec::new(),
            fidelity: members.iter().flat_map(missed).collect(),
            verified: None,
            requests: Some(Box::new(packed)),
            envelope: ModelEnvelope::new(cells)?,
        })
    }
}

/// Whether the writes of all are durable when they end.
fn sync_writes(members: &[ModelMixMember<'_>]) -> Result<Option<ModelFactValue<bool>>, String> {
    let is_sync = |member: &&ModelMixMember<'_>| member.model.facts.syncs().each_write;
    let other = members.iter().find(|member| !is_sync(member));
    match (members.iter().find(is_sync), other) {
        (Some(sync), Some(other)) => Err(format!(
            "the writes of {} are synchronous and those of {} are not, and one play has but one \
             way to write: declare the same of both",
            sync.model.name, other.model.name
        )),
        (Some(_), None) => Ok(Some(ModelFactValue::derived(true))),
        (None, _) => Ok(None),
    }
}

fn missed<'a>(member: &'a ModelMixMember<'_>) -> impl Iterator<Item = super::FidelityCheck> + 'a {
    let name = &member.model.name;
    member.model.missed().map(move |line| super::FidelityCheck {
        metric: format!("{name}: {}", line.metric),
        ..line.clone()
    })
}

fn source(members: &[ModelMixMember<'_>], length: Nanos) -> ModelProvenance {
    let names: Vec<String> = members
        .iter()
        .map(|member| match member.scale {
            1.0 => member.model.name.clone(),
            scale => format!("{} ×{scale}", member.model.name),
        })
        .collect();
    let mut region = 0;
    let words = members.iter().map(|member| {
        let start = region;
        region += member.region_bytes();
        member.words(start)
    });
    ModelProvenance {
        recording: names.join(" + "),
        format: "mix".into(),
        host: String::new(),
        disk: "of all members".into(),
        from: "their starts".into(),
        to: format!("{length} later"),
        intervals_dropped: members
            .iter()
            .map(|m| m.model.source.intervals_dropped)
            .sum(),
        // Dependencies are not mixed, so it does not matter where they were not looked for.
        left_out: Vec::new(),
        changes: words.collect(),
    }
}

/// The intervals that describe requests that take so long together.
fn described(length: Nanos, requests: impl Iterator<Item = TraceAccess>) -> Vec<ModelInterval> {
    let interval = Nanos(length.0.div_ceil(INTERVALS).max(INTERVAL_MIN.0));
    let mut cells = empty_cells(length, interval);
    for request in requests {
        let place = to_usize(request.at.0 / interval.0).min(cells.len() - 1);
        count(&mut cells[place], &request);
    }
    cells
}

fn empty_cells(length: Nanos, interval: Nanos) -> Vec<ModelInterval> {
    let n = length.0.div_ceil(interval.0).max(1);
    let cell = |i: u64| ModelInterval {
        length: interval
            .min(length.since(Nanos(i * interval.0)))
            .max(Nanos(1)),
        read: DirectionLoad::default(),
        write: DirectionLoad::default(),
    };
    (0..n).map(cell).collect()
}

fn count(cell: &mut ModelInterval, request: &TraceAccess) {
    cell.count(&crate::op::OpRequest {
        kind: request.kind,
        file: 0,
        offset: request.offset,
        len: request.bytes,
        intended_at: request.at,
    });
}

#[cfg(test)]
mod tests {
    use super::super::tests::bursty;
    use super::super::{IoDirection, totals};
    use super::*;
    use crate::op::OpKind;

    /// An hour of appends to one log, 100 zones apart each, recorded.
    fn log() -> WorkloadModel {
        let mut packer = PackedRequestsWriter::new(PackedGapPrecision::Exact);
        for i in 0..1_800_u64 {
            packer.push(&TraceAccess {
                at: Nanos(i * 2_000_000_000),
                kind: OpKind::Write,
                offset: (i % 10) * 100 * ZONE_BYTES + i / 10 * 512,
                bytes: 512,
            });
        }
        WorkloadModel {
            name: "log".into(),
            requests: Some(Box::new(packer.finish(Nanos(3_600_000_000_000)))),
            ..bursty()
        }
    }

    #[test]
    fn a_mix_is_every_request_of_its_members_in_order_and_in_regions_of_their_own() {
        let (one, two) = (bursty(), log());
        let members = [
            ModelMixMember {
                model: &one,
                scale: 1.0,
            },
            ModelMixMember {
                model: &two,
                scale: 1.0,
            },
        ];
        let mix = WorkloadModel::mix("both", &members, Seed(3)).unwrap();
        let packed = mix.requests.as_ref().unwrap();
        let requests: Vec<TraceAccess> = packed.unpack().collect();
        assert!(requests.is_sorted_by_key(|request| request.at));
        let border = one.facts.working_set_bytes.value;
        let of_log: Vec<&TraceAccess> = requests.iter().filter(|r| r.offset >= border).collect();
        // Recorded requests are there to the nanosecond, their ten zones side by side.
        assert_eq!(of_log.len(), 1_800);
        assert_eq!(of_log[7].at, Nanos(14_000_000_000));
        assert_eq!(of_log[7].offset, border + 7 * ZONE_BYTES);
        let (reads, read_bytes) = totals(one.envelope.cells(), IoDirection::Read);
        let drawn = requests.iter().filter(|r| r.kind == OpKind::Read);
        assert!((drawn.clone().count() as f64 - reads).abs() < 0.5);
        let bytes: f64 = drawn.map(|r| f64::from(r.bytes)).sum();
        assert!((bytes / read_bytes - 1.0).abs() < 1e-4);
        // The description is of the sum.
        let (writes, _) = totals(mix.envelope.cells(), IoDirection::Write);
        let (own, _) = totals(one.envelope.cells(), IoDirection::Write);
        assert!((writes - own - 1_800.0).abs() < 0.5);
        assert_eq!(mix.length(), one.length());
        assert_eq!(mix.source.recording, "bursty + log");
        assert!(mix.source.changes[1].contains("member log ×1"), "{mix:?}");
        assert_eq!(mix.facts.working_set_bytes.value, border + 10 * ZONE_BYTES);
    }

    #[test]
    fn the_shortest_member_ends_a_mix_and_factors_are_of_each_member() {
        let (one, two) = (bursty(), log());
        let fast = [
            ModelMixMember {
                model: &one,
                scale: 3.0,
            },
            ModelMixMember {
                model: &two,
                scale: 2.0,
            },
        ];
        let mix = WorkloadModel::mix("m", &fast, Seed(3)).unwrap();
        assert_eq!(mix.length(), Nanos(one.length().0 / 2 + 1));
        let (reads, _) = mix.mean_per_s(IoDirection::Read);
        let (own, _) = one.mean_per_s(IoDirection::Read);
        assert!((reads / own / 3.0 - 1.0).abs() < 0.02, "{reads} {own}");
        let again = WorkloadModel::mix("m", &fast, Seed(3)).unwrap();
        assert_eq!(again, mix);
        for wrong in [
            &fast[..1],
            &[
                ModelMixMember {
                    scale: 0.0,
                    ..fast[0]
                },
                fast[1],
            ],
        ] {
            assert!(WorkloadModel::mix("m", wrong, Seed(3)).is_err());
        }
    }

    #[test]
    fn a_member_that_missed_a_gate_is_named_by_the_mix() {
        let (mut one, two) = (bursty(), log());
        one.fidelity = vec![super::super::FidelityCheck::relative("m", 1.0, 2.0, 0.1)];
        let members = [&one, &two].map(|model| ModelMixMember { model, scale: 1.0 });
        let mix = WorkloadModel::mix("m", &members, Seed(3)).unwrap();
        let missed: Vec<&str> = mix.missed().map(|line| line.metric.as_str()).collect();
        assert_eq!(missed, ["bursty: m"]);
    }
}
