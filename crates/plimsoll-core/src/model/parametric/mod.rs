// SPDX-License-Identifier: Apache-2.0
//! Recorded requests as distributions: what is played is drawn from them, for as long as one likes.
//!
//! Which request followed which is not kept, so nothing of it is reproduced. What is lost by that is
//! measured when the model is made, and stands in it.

mod urns;
mod what;
mod when;

use serde::{Deserialize, Serialize};

use super::{PackedGapPrecision, PackedRequests, PackedRequestsWriter};
use crate::num::round_u64;
use crate::op::TraceAccess;
use crate::rng::{Rng, Seed};
use crate::units::Nanos;

use self::what::ParametricRequestModel;
use self::when::ParametricArrivalModel;

/// Most requests of a recording that distributions are made of: they are held in memory.
const REQUESTS_MAX: u64 = 1 << 22;
/// Most requests that are drawn.
const DRAWN_MAX: u64 = 50_000_000;

/// Distributions of recorded requests, and what is drawn from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ParametricModel {
    /// What is drawn from: another seed gives another play of the same distributions.
    pub seed: u32,
    /// How long the play is.
    length_ns: u64,
    /// How long what the distributions were made of lasted.
    recorded_ns: u64,
    /// How many times as long it lasts in the play.
    slower: f64,
    /// Metrics that are not kept, with what they are off by: a play has no gates on them.
    pub lost: Vec<ParametricMetricLoss>,
    when: ParametricArrivalModel,
    what: ParametricRequestModel,
}

/// A metric that distributions do not keep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ParametricMetricLoss {
    /// Its name, as in the gates.
    pub metric: String,
    /// What it was off by when the model was made, in words.
    pub off: String,
}

impl ParametricModel {
    /// Distributions of requests in the order of their starts, of a recording that lasted `length`. The
    /// play is as long.
    ///
    /// # Errors
    /// When there are none, or more than 4 194 304.
    pub fn of(
        requests: &[TraceAccess],
        length: Nanos,
        seed: u32,
    ) -> Result<ParametricModel, String> {
        let n = requests.len() as u64;
        if !(1..=REQUESTS_MAX).contains(&n) {
            return Err(format!(
                "distributions are made of 1 to {REQUESTS_MAX} requests, not of {n}: take a part of \
                 the recording (--from, --to)"
            ));
        }
        let instants: Vec<u64> = requests.iter().map(|request| request.at.0).collect();
        let last = instants.last().copied().unwrap_or(0);
        let length = Nanos(length.0.max(last.saturating_add(1)));
        let when = ParametricArrivalModel::of(&instants, length);
        let what = ParametricRequestModel::of(requests, |at| when.busy(at, length));
        Ok(ParametricModel {
            seed,
            length_ns: length.0,
            recorded_ns: length.0,
            slower: 1.0,
            lost: Vec::new(),
            when,
            what,
        })
    }

    /// How long the play is.
    #[must_use]
    pub fn length(&self) -> Nanos {
        Nanos(self.length_ns)
    }

    /// The same distributions with all times so many times as long.
    #[must_use]
    pub fn slowed(&self, factor: f64) -> ParametricModel {
        ParametricModel {
            length_ns: round_u64(self.length_ns as f64 * factor).max(1),
            slower: self.slower * factor,
            ..self.clone()
        }
    }

    /// The same distributions, played for so long.
    ///
    /// # Errors
    /// When that is no time, or more than 50 million requests.
    pub fn lasting(&self, length: Nanos) -> Result<ParametricModel, String> {
        let parametric = ParametricModel {
            length_ns: length.0,
            ..self.clone()
        };
        parametric.check()?;
        Ok(parametric)
    }

    fn check(&self) -> Result<(), String> {
        let requests = self.repeats() * self.when.requests() as f64;
        let is_sound = self.length_ns > 0
            && self.recorded_ns > 0
            && self.slower > 0.0
            && self.slower.is_finite()
            && (1..=REQUESTS_MAX).contains(&self.when.requests());
        if !is_sound {
            return Err("its distributions have no length, or no requests".into());
        }
        if requests > DRAWN_MAX as f64 {
            return Err(format!(
                "{} of it are {requests:.0} requests, more than {DRAWN_MAX}",
                self.length()
            ));
        }
        Ok(())
    }

    /// How many times what was recorded is played.
    fn repeats(&self) -> f64 {
        let once = self.recorded_ns as f64 * self.slower;
        self.length_ns as f64 / once.max(1.0)
    }

    /// Draws the play, and packs it.
    ///
    /// # Errors
    /// When its distributions are nonsense, or it has more than 50 million requests.
    pub fn pack(&self) -> Result<PackedRequests, String> {
        self.check()?;
        let mut packer = PackedRequestsWriter::new(PackedGapPrecision::Fine);
        for (round, number) in (0..self.rounds()).zip(0..) {
            let begin = u128::from(self.recorded_ns) * u128::from(round);
            let mut rng = Rng::new(Seed(self.seed.into()).derive("parametric", number));
            let recorded = Nanos(self.recorded_ns);
            let instants = self.when.draw(recorded, &mut rng);
            let busy = |at| self.when.busy(at, recorded);
            for request in self.what.draw(&instants, busy, &mut rng) {
                let at = (begin + u128::from(request.at.0)) as f64 * self.slower;
                let at = Nanos(round_u64(at));
                if at.0 >= self.length_ns {
                    break;
                }
                packer.push(&TraceAccess { at, ..request });
            }
        }
        Ok(packer.finish(self.length()))
    }

    /// How many times the distributions are drawn from for the play; the last time it may be cut.
    fn rounds(&self) -> u64 {
        // What rounding put beyond a whole number is no further round.
        round_u64((self.repeats() - 1e-6).ceil()).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::OpKind;

    /// A stream of reads, writes to few blocks again and again, reads here and there, and a sync now
    /// and then, in bursts.
    fn recorded() -> Vec<TraceAccess> {
        let mut rng = Rng::new(Seed(11));
        let (mut at, mut stream) = (0, 0);
        let mut requests = Vec::new();
        while requests.len() < 20_000 {
            at += if rng.below(40) == 0 {
                400_000_000
            } else {
                200_000 + rng.below(300_000)
            };
            let (kind, offset, bytes) = match rng.below(10) {
                0..5 => {
                    stream += 65_536;
                    (OpKind::Read, stream, 65_536)
                }
                5..8 => (OpKind::Write, (9 << 30) + rng.below(64) * 4_096, 4_096),
                8 => (OpKind::Read, (20 << 30) + rng.below(1 << 20) * 4_096, 8_192),
                _ => (OpKind::Fsync, 0, 0),
            };
            requests.push(TraceAccess {
                at: Nanos(at),
                kind,
                offset,
                bytes,
            });
        }
        requests
    }

    fn totals(requests: impl Iterator<Item = TraceAccess>) -> Vec<(u64, u64)> {
        let mut totals = vec![(0, 0); OpKind::ALL.len()];
        for request in requests {
            let total = &mut totals[request.kind.index()];
            total.0 += 1;
            total.1 += u64::from(request.bytes);
        }
        totals
    }

    #[test]
    fn what_is_drawn_has_the_kinds_and_sizes_that_were_recorded_in_another_order() {
        let requests = recorded();
        let length = Nanos(requests[requests.len() - 1].at.0 + 1);
        let parametric = ParametricModel::of(&requests, length, 1).unwrap();
        let packed = parametric.pack().unwrap();
        assert_eq!(packed.requests(), requests.len() as u64);
        assert_eq!(packed.length(), length);
        let (a, b) = (totals(requests.iter().copied()), totals(packed.unpack()));
        for ((ops, bytes), (drawn, drawn_bytes)) in a.iter().zip(&b) {
            assert!(ops.abs_diff(*drawn) * 50 <= *ops, "{a:?} {b:?}");
            assert!(bytes.abs_diff(*drawn_bytes) * 50 <= *bytes, "{a:?} {b:?}");
        }
        assert!(!packed.unpack().zip(&requests).all(|(a, b)| a == *b));
        // The same seed draws the same, another seed something else.
        assert_eq!(parametric.pack().unwrap(), packed);
        let other = ParametricModel {
            seed: 2,
            ..parametric.clone()
        };
        assert_ne!(other.pack().unwrap(), packed);
        // Out of a file as it was put in.
        let text = toml::to_string(&parametric).unwrap();
        assert_eq!(
            toml::from_str::<ParametricModel>(&text).unwrap(),
            parametric
        );
    }

    #[test]
    fn a_play_may_last_longer_or_be_slower_than_the_recording() {
        let requests = recorded();
        let length = requests[requests.len() - 1].at.0 + 1;
        let parametric = ParametricModel::of(&requests, Nanos(length), 1).unwrap();
        let longer = parametric.lasting(Nanos(length * 5 / 2)).unwrap();
        let packed = longer.pack().unwrap();
        assert_eq!(packed.length(), Nanos(length * 5 / 2));
        let n = packed.requests() as f64 / requests.len() as f64;
        assert!((n - 2.5).abs() < 0.1, "{n}");
        let slower = parametric.slowed(4.0).pack().unwrap();
        assert_eq!(slower.requests(), requests.len() as u64);
        assert_eq!(slower.length(), Nanos(4 * length));
        assert!(parametric.lasting(Nanos(u64::MAX)).is_err());
        assert!(ParametricModel::of(&[], Nanos(1), 1).is_err());
    }
}
