// SPDX-License-Identifier: Apache-2.0
//! Facts of a model besides its intervals, with the origin of each.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{IoDirection, ModelArrivalPattern, WorkloadModel};
use crate::offsets::OffsetPattern;
use crate::syncs::SyncPolicy;

/// How a parameter of a model is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelFactOrigin {
    /// The recording contains it.
    Measured,
    /// It is computed from the recording.
    Derived,
    /// The person who fitted the model declared it.
    Declared,
    /// It is neither recorded nor declared: another value would fit the recording as well.
    Assumed,
}

impl fmt::Display for ModelFactOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ModelFactOrigin::Measured => "measured",
            ModelFactOrigin::Derived => "derived",
            ModelFactOrigin::Declared => "declared",
            ModelFactOrigin::Assumed => "assumed",
        })
    }
}

/// A value and how it is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelFactValue<T> {
    /// The value.
    pub value: T,
    /// How it is known.
    pub origin: ModelFactOrigin,
}

impl<T> ModelFactValue<T> {
    /// A value from the recording.
    pub fn measured(value: T) -> ModelFactValue<T> {
        let origin = ModelFactOrigin::Measured;
        ModelFactValue { value, origin }
    }

    /// A value that follows from the recording.
    pub fn derived(value: T) -> ModelFactValue<T> {
        let origin = ModelFactOrigin::Derived;
        ModelFactValue { value, origin }
    }

    /// A value that a person declared.
    pub fn declared(value: T) -> ModelFactValue<T> {
        let origin = ModelFactOrigin::Declared;
        ModelFactValue { value, origin }
    }

    /// A value that is assumed.
    pub fn assumed(value: T) -> ModelFactValue<T> {
        let origin = ModelFactOrigin::Assumed;
        ModelFactValue { value, origin }
    }

    /// Whether it is assumed.
    pub fn is_assumed(&self) -> bool {
        self.origin == ModelFactOrigin::Assumed
    }
}

/// How sizes lie around the mean of their interval, which is all that counters contain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelSizeDistribution {
    /// The two powers of two around the mean.
    Near,
    /// Smallest ones, and large ones of so many times the mean.
    Apart {
        /// How many times, at least 1.
        times: f64,
    },
}

/// What a model says beyond its intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelFacts {
    /// Bytes of the file or device that the load is spread over.
    pub working_set_bytes: ModelFactValue<u64>,
    /// How offsets are chosen. Absent where requests were recorded, which contain it; without them as if
    /// [`OffsetPattern::Uniform`] were assumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offsets: Option<ModelFactValue<OffsetPattern>>,
    /// How requests lie inside an interval. Absent where requests were recorded; without them as if
    /// [`ModelArrivalPattern::Poisson`] were assumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<ModelFactValue<ModelArrivalPattern>>,
    /// How offsets of writes are chosen, where otherwise than those of reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_offsets: Option<ModelFactValue<OffsetPattern>>,
    /// Bytes that places are drawn from instead of the working set where nothing is stored, so that no
    /// room is needed: how far a disk's arm has to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach_bytes: Option<ModelFactValue<u64>>,
    /// How sizes lie around the mean of their interval; [`ModelSizeDistribution::Near`] where
    /// nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<ModelFactValue<ModelSizeDistribution>>,
    /// Requests in flight on average while it was recorded: the time that requests took together
    /// over the time that passed (Little's law). Describes; it is not played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<ModelFactValue<f64>>,
    /// Threads that send one request after another: never more are in flight, and what comes while
    /// all are busy waits, counted from the instant it was meant to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<ModelFactValue<u32>>,
    /// Whether each write is durable when it ends; where nobody says, it need not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_writes: Option<ModelFactValue<bool>>,
}

impl ModelFacts {
    /// What is assumed of a load of which counters contain only its intervals: places uniform over
    /// `working_set_bytes`, Poisson arrivals.
    #[must_use]
    pub fn assumed(working_set_bytes: u64) -> ModelFacts {
        ModelFacts {
            working_set_bytes: ModelFactValue::assumed(working_set_bytes),
            offsets: Some(ModelFactValue::assumed(OffsetPattern::Uniform)),
            arrivals: Some(ModelFactValue::assumed(ModelArrivalPattern::Poisson)),
            write_offsets: None,
            reach_bytes: None,
            sizes: None,
            in_flight: None,
            threads: None,
            sync_writes: None,
        }
    }

    /// What is said of recorded requests that touch `working_set_bytes`: their places and instants are
    /// their own.
    #[must_use]
    pub fn of_requests(working_set_bytes: u64) -> ModelFacts {
        ModelFacts {
            working_set_bytes: ModelFactValue::derived(working_set_bytes),
            offsets: None,
            arrivals: None,
            ..ModelFacts::assumed(working_set_bytes)
        }
    }

    /// What makes writes durable.
    #[must_use]
    pub fn syncs(&self) -> SyncPolicy {
        SyncPolicy {
            each_write: self.sync_writes.is_some_and(|sync| sync.value),
            ..SyncPolicy::default()
        }
    }

    /// How offsets of one direction are chosen.
    #[must_use]
    pub fn offsets_of(&self, direction: IoDirection) -> &OffsetPattern {
        match (direction, &self.write_offsets) {
            (IoDirection::Write, Some(own)) => &own.value,
            _ => match &self.offsets {
                Some(offsets) => &offsets.value,
                None => &OffsetPattern::Uniform,
            },
        }
    }

    /// How requests lie inside an interval.
    #[must_use]
    pub fn within(&self) -> ModelArrivalPattern {
        self.arrivals
            .map_or(ModelArrivalPattern::Poisson, |arrivals| arrivals.value)
    }

    /// Whether the choice of offsets is assumed.
    #[must_use]
    pub fn assumes_offsets(&self) -> bool {
        self.offsets.as_ref().is_none_or(ModelFactValue::is_assumed)
    }

    /// Whether the arrivals inside an interval are assumed.
    #[must_use]
    pub fn assumes_arrivals(&self) -> bool {
        self.arrivals.is_none_or(|arrivals| arrivals.is_assumed())
    }
}

/// How far the harsh sensitivity bounds of a model go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SensitivityBoundLimits {
    /// Others near each request, as in [`ModelArrivalPattern::Clustered`].
    pub others: f64,
    /// Large requests are so many times the mean of their interval.
    pub times: f64,
}

impl SensitivityBoundLimits {
    /// What 95 of 100 further recordings are expected to stay below, given those that were looked at
    /// (`docs/workloads/decision-fidelity.md`).
    pub const EXPECTED: SensitivityBoundLimits = SensitivityBoundLimits {
        others: 12.4,
        times: 3.3,
    };
}

/// From one end of a large disk to the other.
const REACH_BYTES: u64 = 1 << 40;

/// A model whose assumed facts are at an extreme of what the recording allows.
#[derive(Debug, Clone, PartialEq)]
pub struct SensitivityBound {
    /// What is different, such as `even, sequential`.
    pub name: String,
    /// The model.
    pub model: WorkloadModel,
}

impl WorkloadModel {
    /// The extremes of what the recording allows, kindest first: requests even and alike or in bursts
    /// and of mixed sizes, and places as sequential or as random and far apart, as is likely to be met.
    /// Only what is assumed changes; there are four, two or, where nothing is assumed or requests were
    /// recorded, none.
    #[must_use]
    pub fn corners(&self) -> Vec<SensitivityBound> {
        self.corners_at(SensitivityBoundLimits::EXPECTED)
    }

    /// As [`WorkloadModel::corners`], with other extremes.
    #[must_use]
    pub fn corners_at(&self, extremes: SensitivityBoundLimits) -> Vec<SensitivityBound> {
        if self.requests.is_some() {
            return Vec::new();
        }
        let in_time = self.facts.assumes_arrivals() || self.sizes_are_assumed();
        let in_space = self.facts.assumes_offsets();
        let ends = |is_open: bool| match is_open {
            true => vec![Some(false), Some(true)],
            false => vec![None],
        };
        let mut corners = Vec::new();
        for in_time in ends(in_time) {
            for in_space in ends(in_space) {
                if (in_time, in_space) != (None, None) {
                    corners.push(self.corner(in_time, in_space, extremes));
                }
            }
        }
        corners
    }

    fn sizes_are_assumed(&self) -> bool {
        self.facts.sizes.is_none_or(|sizes| sizes.is_assumed())
    }

    /// The sensitivity bound that is harsh, or kind, in time and in space, where they are open.
    fn corner(
        &self,
        in_time: Option<bool>,
        in_space: Option<bool>,
        extremes: SensitivityBoundLimits,
    ) -> SensitivityBound {
        let mut names = Vec::new();
        let mut model = self.clone();
        let facts = &mut model.facts;
        if let Some(harsh) = in_time {
            names.push(match (facts.assumes_arrivals(), harsh) {
                (true, false) => "even",
                (true, true) => "bursty",
                (false, false) => "sizes alike",
                (false, true) => "sizes mixed",
            });
            if facts.assumes_arrivals() {
                facts.arrivals = Some(ModelFactValue::assumed(match harsh {
                    false => ModelArrivalPattern::Even,
                    true => ModelArrivalPattern::Clustered {
                        others: extremes.others,
                    },
                }));
            }
            if self.sizes_are_assumed() {
                facts.sizes = Some(ModelFactValue::assumed(match harsh {
                    false => ModelSizeDistribution::Near,
                    true => ModelSizeDistribution::Apart {
                        times: extremes.times,
                    },
                }));
            }
        }
        if let Some(harsh) = in_space {
            names.push(if harsh { "random" } else { "sequential" });
            facts.offsets = Some(ModelFactValue::assumed(match harsh {
                false => OffsetPattern::Sequential,
                true => OffsetPattern::Uniform,
            }));
            if harsh && facts.working_set_bytes.is_assumed() {
                facts.reach_bytes = Some(ModelFactValue::assumed(REACH_BYTES));
            }
        }
        let name = names.join(", ");
        model.name = format!("{} ({name})", self.name);
        SensitivityBound { name, model }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::bursty;
    use super::*;

    #[test]
    fn corners_change_what_is_assumed_and_nothing_else() {
        let mut model = bursty();
        let names = |model: &WorkloadModel| -> Vec<String> {
            let corners = model.corners().into_iter();
            corners.map(|corner| corner.name).collect()
        };
        assert_eq!(
            names(&model),
            [
                "even, sequential",
                "even, random",
                "bursty, sequential",
                "bursty, random"
            ]
        );
        for corner in model.corners() {
            assert_eq!(corner.model.envelope, model.envelope);
            assert!(corner.model.name.contains(&corner.name));
        }
        let facts = |model: &WorkloadModel| -> Vec<ModelFacts> {
            let corners = model.corners().into_iter();
            corners.map(|corner| corner.model.facts).collect()
        };
        let [kind, .., harsh] = &facts(&model)[..] else {
            panic!("there are four");
        };
        assert_eq!(
            kind.sizes,
            Some(ModelFactValue::assumed(ModelSizeDistribution::Near))
        );
        assert_eq!(
            (kind.reach_bytes, harsh.reach_bytes.is_some()),
            (None, true)
        );
        let others = SensitivityBoundLimits::EXPECTED.others;
        assert_eq!(harsh.within(), ModelArrivalPattern::Clustered { others });
        // A declared working set is not exceeded.
        model.facts.working_set_bytes = ModelFactValue::declared(1 << 30);
        assert!(
            facts(&model)
                .iter()
                .all(|facts| facts.reach_bytes.is_none())
        );
        model.facts.offsets = Some(ModelFactValue::declared(OffsetPattern::Backward));
        assert_eq!(names(&model), ["even", "bursty"]);
        assert!(
            model
                .corners()
                .iter()
                .all(|corner| corner.model.facts.offsets == model.facts.offsets)
        );
        model.facts.arrivals = Some(ModelFactValue::declared(ModelArrivalPattern::Even));
        assert_eq!(names(&model), ["sizes alike", "sizes mixed"]);
        model.facts.sizes = Some(ModelFactValue::declared(ModelSizeDistribution::Near));
        assert!(model.corners().is_empty());
    }
    #[test]
    fn what_recorded_requests_tell_is_not_assumed() {
        let facts = ModelFacts::of_requests(1 << 30);
        assert_eq!(facts.working_set_bytes, ModelFactValue::derived(1 << 30));
        let text = toml::to_string(&facts).unwrap();
        for absent in ["offsets", "arrivals", "assumed"] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
        assert_eq!(toml::from_str::<ModelFacts>(&text).unwrap(), facts);
        // Without requests an absent fact is open, and has its corners.
        let mut model = bursty();
        model.facts.offsets = None;
        model.facts.arrivals = None;
        assert_eq!(model.corners().len(), 4);
        assert_eq!(model.facts.within(), ModelArrivalPattern::Poisson);
    }
}
