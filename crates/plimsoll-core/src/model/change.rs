// SPDX-License-Identifier: Apache-2.0
//! Changes of a model: scaled, stretched, cut to a phase, or made anonymous.

use super::{
    BurstPattern, DirectionRates, ModelEnvelope, ModelFactValue, ModelInterval, ModelPhase,
    PackedDependency, PackedRequests, PackedRequestsWriter, WorkloadModel, ZONE_BYTES,
};
use crate::num::{round_u64, saturating_u32, to_usize};
use crate::op::TraceAccess;
use crate::rng::{Rng, Seed};
use crate::units::Nanos;

/// Change to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelChange {
    /// Factor on all rates, above 0. It divides the times of recorded requests, and multiplies the counts
    /// in every interval of counters.
    pub rate: f64,
    /// Factor on all times, above 0: the same requests over the stretched time.
    pub stretch: f64,
    /// Only what lies in this phase, its stretches one after the other.
    pub phase: Option<String>,
    /// Without names, addresses and times of the source; the seed relabels the zones.
    pub anonymous: Option<Seed>,
}

impl Default for ModelChange {
    fn default() -> Self {
        ModelChange {
            rate: 1.0,
            stretch: 1.0,
            phase: None,
            anonymous: None,
        }
    }
}

impl ModelChange {
    /// Whether nothing is changed.
    pub fn is_none(&self) -> bool {
        *self == ModelChange::default()
    }

    /// Descriptions of the changes, one sentence each.
    fn words(&self) -> Vec<String> {
        let factor = |what: &str, factor: f64| {
            ((factor - 1.0).abs() > 0.0).then(|| format!("{what} ×{factor}"))
        };
        let phase = self.phase.as_ref().map(|name| format!("only phase {name}"));
        let anonymous = self
            .anonymous
            .map(|_| "names, addresses and times of the source left out".to_owned());
        let factors = [
            factor("rates", self.rate),
            factor("times stretched", self.stretch),
        ];
        phase
            .into_iter()
            .chain(factors.into_iter().flatten())
            .chain(anonymous)
            .collect()
    }

    fn check(&self) -> Result<(), String> {
        for (factor, what) in [(self.rate, "scale"), (self.stretch, "stretch")] {
            if !(factor > 0.0 && factor <= 1e6) {
                return Err(format!(
                    "invalid {what} {factor}: expected a number above 0 and up to 1000000"
                ));
            }
        }
        Ok(())
    }
}

/// A piece of the recording that is kept, and where it begins afterwards.
#[derive(Debug, Clone, Copy)]
struct ModelChangeSpan {
    from: Nanos,
    to: Nanos,
    begins: Nanos,
}

/// Which intervals are kept, and when they were.
struct ModelChangeSelection {
    cells: Vec<ModelInterval>,
    pieces: Vec<ModelChangeSpan>,
}

impl WorkloadModel {
    /// The model with this change. Its fidelity holds only the gates that were missed before: what it
    /// submits is to be counted again.
    ///
    /// # Errors
    /// When a factor is out of range, it has no such phase, or nothing is left.
    pub fn changed(&self, change: &ModelChange) -> Result<WorkloadModel, String> {
        change.check()?;
        let kept = self.kept(change.phase.as_deref())?;
        let requests = self
            .changed_requests(change)?
            .map(|(gaps, length, requests)| {
                let mut packer = PackedRequestsWriter::new(gaps);
                requests.for_each(|request| packer.push(&request));
                Box::new(packer.finish(length))
            });
        let links = self.changed_links(change)?;
        let requests = requests.map(|packed| match links {
            Some(links) => Box::new(packed.with_links(links.into_iter())),
            None => packed,
        });
        let (rate, stretch) = self.factors(change);
        let envelope = ModelEnvelope::new(times(&kept.cells, rate, stretch))?;
        let per_s = rate / stretch;
        let mut model = WorkloadModel {
            envelope,
            bursts: self
                .bursts
                .iter()
                .map(|b| burst(b, per_s, stretch))
                .collect(),
            phases: match change.phase {
                Some(_) => Vec::new(),
                None => self.phases.iter().map(|p| phase(p, per_s)).collect(),
            },
            fidelity: self.missed().cloned().collect(),
            verified: None,
            requests,
            ..self.clone()
        };
        model.source.changes.extend(change.words());
        if change.phase.is_some() {
            model.bursts.clear();
        }
        // How many were in flight was seen under the load as it was.
        if change.phase.is_some() || (per_s - 1.0).abs() > f64::EPSILON {
            model.facts.in_flight = None;
        }
        if let (Some(packed), Some(_)) = (&model.requests, change.anonymous) {
            let bytes = packed.footprint_bytes().max(packed.span_bytes());
            model.facts.working_set_bytes = ModelFactValue {
                value: bytes,
                ..model.facts.working_set_bytes
            };
        }
        if change.anonymous.is_some() {
            model.forget_source();
        }
        Ok(model)
    }

    /// The requests of a model after a change, with how their gaps are to be packed and how long they
    /// take; `None` for a model of counters.
    ///
    /// # Errors
    /// When it has no such phase.
    #[expect(
        clippy::type_complexity,
        reason = "three things of one packing, used at once"
    )]
    pub fn changed_requests(
        &self,
        change: &ModelChange,
    ) -> Result<
        Option<(
            super::PackedGapPrecision,
            Nanos,
            Box<dyn Iterator<Item = TraceAccess>>,
        )>,
        String,
    > {
        let Some(packed) = &self.requests else {
            return Ok(None);
        };
        let pieces = match &change.phase {
            Some(_) => self.kept(change.phase.as_deref())?.pieces,
            None => vec![ModelChangeSpan {
                from: Nanos(0),
                to: Nanos::MAX,
                begins: Nanos(0),
            }],
        };
        let slower = change.stretch / change.rate;
        let last = pieces.last().map_or(Nanos(0), |piece| {
            piece.begins + piece.to.min(packed.length()).since(piece.from)
        });
        let labels = change.anonymous.map(|seed| Labels::new(packed, seed));
        let requests = packed.unpack().filter_map(move |request| {
            let piece = pieces
                .iter()
                .find(|piece| request.at >= piece.from && request.at < piece.to)?;
            let at = piece.begins + request.at.since(piece.from);
            let offset = labels
                .as_ref()
                .map_or(request.offset, |labels| labels.place(request.offset));
            Some(TraceAccess {
                at: slowed(at, slower),
                offset,
                ..request
            })
        });
        Ok(Some((
            packed.gaps(),
            slowed(last, slower),
            Box::new(requests),
        )))
    }

    /// Dependent of each changed request, which starts at its end; `None` where nothing waits.
    fn changed_links(
        &self,
        change: &ModelChange,
    ) -> Result<Option<Vec<Option<PackedDependency>>>, String> {
        let Some(packed) = self.requests.as_ref().filter(|packed| packed.linked() > 0) else {
            return Ok(None);
        };
        let pieces = match &change.phase {
            Some(_) => self.kept(change.phase.as_deref())?.pieces,
            None => Vec::new(),
        };
        let is_kept = |at: Nanos| {
            let holds = |piece: &ModelChangeSpan| at >= piece.from && at < piece.to;
            change.phase.is_none() || pieces.iter().any(holds)
        };
        // How many are kept up to each: its new number, where it is kept.
        let mut kept = Vec::with_capacity(to_usize(packed.requests()));
        let mut count = 0_u64;
        for request in packed.unpack() {
            let keep = is_kept(request.at);
            kept.push((count, keep));
            count += u64::from(keep);
        }
        let slower = change.stretch / change.rate;
        let mut links = packed.links();
        let mut changed = Vec::with_capacity(to_usize(count));
        for (number, (new, keep)) in kept.iter().enumerate() {
            let link = links.next_link();
            if !keep {
                continue;
            }
            changed.push(link.and_then(|link| {
                let next = number.checked_add(link.distance as usize)?;
                let (later, is_kept) = kept.get(next)?;
                is_kept.then(|| PackedDependency {
                    distance: saturating_u32(later - new),
                    think: slowed(link.think, slower),
                })
            }));
        }
        Ok(Some(changed))
    }

    /// Factors on operations in an interval and on its length.
    fn factors(&self, change: &ModelChange) -> (f64, f64) {
        if self.requests.is_some() {
            (1.0, change.stretch / change.rate)
        } else {
            (change.rate, change.stretch)
        }
    }

    fn kept(&self, phase: Option<&str>) -> Result<ModelChangeSelection, String> {
        let all = self.envelope.cells();
        let Some(name) = phase else {
            return Ok(ModelChangeSelection {
                cells: all.to_vec(),
                pieces: Vec::new(),
            });
        };
        let Some(phase) = self.phases.iter().find(|phase| phase.name == name) else {
            let names: Vec<&str> = self.phases.iter().map(|p| p.name.as_str()).collect();
            return Err(match names.is_empty() {
                true => format!("unknown phase '{name}': the model has no phases"),
                false => format!("unknown phase '{name}'; available: {}", names.join(", ")),
            });
        };
        let (mut cells, mut pieces, mut begins) = (Vec::new(), Vec::new(), Nanos(0));
        for stretch in &phase.stretches {
            let first = to_usize(stretch.first).min(all.len());
            let end = first
                .saturating_add(to_usize(stretch.intervals))
                .min(all.len());
            let length =
                |cells: &[ModelInterval]| cells.iter().fold(Nanos(0), |sum, c| sum + c.length);
            let (from, own) = (length(&all[..first]), length(&all[first..end]));
            pieces.push(ModelChangeSpan {
                from,
                to: from + own,
                begins,
            });
            begins = begins + own;
            cells.extend_from_slice(&all[first..end]);
        }
        Ok(ModelChangeSelection { cells, pieces })
    }

    /// Leaves out what identifies the source of the load.
    fn forget_source(&mut self) {
        "anonymous".clone_into(&mut self.name);
        let (start, end) = ("its start".to_owned(), format!("{} later", self.length()));
        let source = &mut self.source;
        source.recording = "anonymous".into();
        source.host.clear();
        source.disk = "disk".into();
        (source.from, source.to) = (start, end);
        let edges: Vec<Nanos> = std::iter::once(Nanos(0))
            .chain(self.envelope.cells().iter().scan(Nanos(0), |sum, cell| {
                *sum = *sum + cell.length;
                Some(*sum)
            }))
            .collect();
        let edge = |at: u64| {
            let at = edges.get(to_usize(at)).copied().unwrap_or_default();
            format!("{at} later")
        };
        for stretch in self.phases.iter_mut().flat_map(|p| &mut p.stretches) {
            stretch.from = edge(stretch.first);
            stretch.to = edge(stretch.first.saturating_add(stretch.intervals));
        }
    }
}

fn slowed(at: Nanos, factor: f64) -> Nanos {
    if (factor - 1.0).abs() > 0.0 {
        Nanos(round_u64(at.0 as f64 * factor))
    } else {
        at
    }
}

/// Every interval with its load and its length multiplied.
fn times(cells: &[ModelInterval], rate: f64, stretch: f64) -> Vec<ModelInterval> {
    let mut carries = Default::default();
    let longer = |cell: ModelInterval| ModelInterval {
        length: slowed(cell.length, stretch).max(Nanos(1)),
        ..cell
    };
    let scaled = cells
        .iter()
        .map(|cell| super::scaled(cell, rate, &mut carries));
    scaled.map(longer).collect()
}

fn burst(burst: &BurstPattern, per_s: f64, stretch: f64) -> BurstPattern {
    BurstPattern {
        threshold_per_s: burst.threshold_per_s * per_s,
        period_s: burst.period_s.map(|period| period * stretch),
        ..burst.clone()
    }
}

fn phase(phase: &ModelPhase, per_s: f64) -> ModelPhase {
    let rates = |rates: [DirectionRates; 2]| {
        rates.map(|rate| DirectionRates {
            ops_per_s: rate.ops_per_s * per_s,
            bytes_per_s: rate.bytes_per_s * per_s,
        })
    };
    ModelPhase {
        load: rates(phase.load),
        own: phase.own.map(rates),
        ..phase.clone()
    }
}

/// Where the zones that were touched go: to other places, next to others than before.
struct Labels {
    zones: Vec<u64>,
    places: Vec<u64>,
}

impl Labels {
    fn new(packed: &PackedRequests, seed: Seed) -> Labels {
        let zones = packed.zones();
        let mut places: Vec<u64> = (0..zones.len() as u64).collect();
        Rng::new(seed.derive("zones", 0)).shuffle(&mut places);
        Labels { zones, places }
    }

    /// The place within its zone stays, and with it runs and what is met again.
    fn place(&self, offset: u64) -> u64 {
        let at = self
            .zones
            .partition_point(|zone| *zone < offset / ZONE_BYTES);
        // Barriers have no place; they stand at 0, which need not have been touched.
        let zone = self.places.get(at).copied().unwrap_or(0);
        zone * ZONE_BYTES + offset % ZONE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::bursty;
    use super::super::{IoDirection, ModelPhaseSpan, PackedGapPrecision, totals};
    use super::*;
    use crate::op::OpKind;

    fn with_requests() -> WorkloadModel {
        let mut packer = PackedRequestsWriter::new(PackedGapPrecision::Exact);
        for i in 0..2_400_u64 {
            packer.push(&TraceAccess {
                at: Nanos(i * 1_500_000_000),
                kind: OpKind::Read,
                offset: (700_000 + (i / 8 % 40) * 1_000) * ZONE_BYTES + i % 8 * 4_096,
                bytes: 4_096,
            });
        }
        WorkloadModel {
            requests: Some(Box::new(packer.finish(Nanos(3_600_000_000_000)))),
            ..bursty()
        }
    }

    fn phased(mut model: WorkloadModel) -> WorkloadModel {
        let stretch = |first, intervals| ModelPhaseSpan {
            first,
            intervals,
            from: "2010-07-14T11:00:00+10:00".into(),
            to: "2010-07-14T11:10:00+10:00".into(),
        };
        model.phases = vec![ModelPhase {
            name: "scan".into(),
            stretches: vec![stretch(20, 2), stretch(100, 4)],
            share: 0.025,
            load: [DirectionRates {
                ops_per_s: 100.0,
                bytes_per_s: 1e6,
            }; 2],
            own: None,
        }];
        model
    }

    #[test]
    fn rates_and_times_are_multiplied_and_nothing_is_lost() {
        let model = phased(bursty());
        let change = ModelChange {
            rate: 2.0,
            stretch: 3.0,
            ..ModelChange::default()
        };
        let changed = model.changed(&change).unwrap();
        assert_eq!(changed.length().0, 3 * model.length().0);
        for direction in IoDirection::BOTH {
            let (ops, bytes) = totals(model.envelope.cells(), direction);
            let (two_ops, two_bytes) = totals(changed.envelope.cells(), direction);
            assert!((two_ops - 2.0 * ops).abs() < 1.0 && (two_bytes - 2.0 * bytes).abs() < 1.0);
        }
        assert_eq!(changed.bursts[0].period_s, Some(900.0));
        let rate = changed.phases[0].load[0].ops_per_s;
        assert!((rate - 100.0 * 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(changed.source.changes, ["rates ×2", "times stretched ×3"]);
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let change = ModelChange {
                stretch: wrong,
                ..ModelChange::default()
            };
            assert!(model.changed(&change).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_phase_is_its_stretches_one_after_the_other() {
        let change = ModelChange {
            phase: Some("scan".into()),
            ..ModelChange::default()
        };
        let (plain, requests) = (phased(bursty()), phased(with_requests()));
        let one = plain.changed(&change).unwrap();
        assert_eq!(one.envelope.cells().len(), 6);
        assert_eq!(one.envelope.cells()[2], plain.envelope.cells()[100]);
        let one = requests.changed(&change).unwrap();
        let packed = one.requests.unwrap();
        // Ten requests in each of six intervals of 15 s.
        assert_eq!(
            (packed.requests(), packed.length()),
            (60, Nanos(90_000_000_000))
        );
        let at: Vec<u64> = packed.unpack().map(|r| r.at.0 / 100_000_000).collect();
        assert_eq!((at[0], at[19], at[20], at[59]), (0, 285, 300, 885));
        let none = ModelChange {
            phase: Some("lunch".into()),
            ..ModelChange::default()
        };
        let error = plain.changed(&none).unwrap_err();
        assert!(error.contains("available: scan"), "{error}");
        assert!(bursty().changed(&none).is_err());
    }

    #[test]
    fn nothing_that_tells_whose_load_it_was_is_left() {
        let mut model = phased(with_requests());
        model.name = "payroll".into();
        model.source.host = "db7.example".into();
        model.source.disk = "sdq".into();
        model.source.recording = "/home/ann/rec".into();
        model.source.from = "2010-07-14T11:00:00+10:00".into();
        let change = ModelChange {
            anonymous: Some(Seed(4)),
            ..ModelChange::default()
        };
        let nobodys = model.changed(&change).unwrap();
        let text = toml::to_string(&nobodys).unwrap();
        for word in ["payroll", "db7", "sdq", "ann", "2010", "+10:00", "made up"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        let places = |model: &WorkloadModel| -> Vec<u64> {
            let packed = model.requests.as_ref().unwrap();
            packed.unpack().map(|request| request.offset).collect()
        };
        let (before, after) = (places(&model), places(&nobodys));
        assert!(after.iter().all(|offset| !before.contains(offset)));
        // Sequential requests stay sequential, and revisited places stay revisited.
        for pair in 0..before.len() - 1 {
            let goes_on = |of: &[u64]| of[pair + 1] == of[pair] + 4_096;
            assert_eq!(goes_on(&before), goes_on(&after), "{pair}");
        }
        assert_eq!(after[0], after[320]);
        let other = ModelChange {
            anonymous: Some(Seed(5)),
            ..ModelChange::default()
        };
        assert_ne!(places(&model.changed(&other).unwrap()), after);
    }

    #[test]
    fn what_waits_goes_on_waiting_for_the_same_request() {
        let mut model = phased(with_requests());
        let packed = model.requests.take().unwrap();
        let link = |distance| PackedDependency {
            distance,
            think: Nanos(3_000),
        };
        let all = (0..packed.requests()).map(|n| n.is_multiple_of(2).then(|| link(7)));
        model.requests = Some(Box::new(packed.with_links(all)));
        let faster = ModelChange {
            rate: 3.0,
            ..ModelChange::default()
        };
        let changed = model.changed(&faster).unwrap().requests.unwrap();
        let mut links = changed.links();
        let expected = PackedDependency {
            distance: 7,
            think: Nanos(1_000),
        };
        assert_eq!(links.next_link(), Some(expected));
        assert_eq!((links.next_link(), changed.linked()), (None, 1_197));
        // Of 20 and 40 requests in a row, what waits for the last seven is not kept.
        let phase = ModelChange {
            phase: Some("scan".into()),
            ..ModelChange::default()
        };
        let changed = model.changed(&phase).unwrap().requests.unwrap();
        assert_eq!((changed.requests(), changed.linked()), (60, 7 + 17));
    }

    #[test]
    fn a_gate_that_was_missed_stays_missed() {
        let mut model = bursty();
        let line = super::super::FidelityCheck::relative("m", 1.0, 2.0, 0.1);
        model.fidelity = vec![line.clone()];
        let changed = model.changed(&ModelChange::default()).unwrap();
        assert_eq!(changed.fidelity, [line]);
    }
}
