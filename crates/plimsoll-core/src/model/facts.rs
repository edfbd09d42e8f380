// SPDX-License-Identifier: Apache-2.0
//! Facts of a model besides its intervals, with the origin of each.

use serde::{Deserialize, Serialize};

use super::{IoDirection, ModelArrivalPattern};
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

crate::named::named_variants! {
    ModelFactOrigin, Display,
    /// As people read it.
    name:
    Measured => "measured",
    Derived => "derived",
    Declared => "declared",
    Assumed => "assumed",
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

/// Facts of a model beyond its intervals.
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
    /// Requests in flight on average while it was recorded: the time that requests took together
    /// over the time that passed (Little's law). Describes; it is not played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<ModelFactValue<f64>>,
    /// Threads that send one request after another: never more are in flight, and what comes while
    /// all are busy waits, counted from the instant it was meant to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<ModelFactValue<u32>>,
    /// Whether each write is durable when it ends. Without this fact, it need not be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync_writes: Option<ModelFactValue<bool>>,
}

impl ModelFacts {
    /// Facts assumed of a load of which counters contain only its intervals: places uniform over
    /// `working_set_bytes`, Poisson arrivals.
    pub fn assumed(working_set_bytes: u64) -> ModelFacts {
        ModelFacts {
            working_set_bytes: ModelFactValue::assumed(working_set_bytes),
            offsets: Some(ModelFactValue::assumed(OffsetPattern::Uniform)),
            arrivals: Some(ModelFactValue::assumed(ModelArrivalPattern::Poisson)),
            write_offsets: None,
            in_flight: None,
            threads: None,
            sync_writes: None,
        }
    }

    /// Facts of recorded requests that touch `working_set_bytes`: their places and instants are
    /// their own.
    pub fn of_requests(working_set_bytes: u64) -> ModelFacts {
        ModelFacts {
            working_set_bytes: ModelFactValue::derived(working_set_bytes),
            offsets: None,
            arrivals: None,
            ..ModelFacts::assumed(working_set_bytes)
        }
    }

    /// Policy that makes writes durable.
    pub fn syncs(&self) -> SyncPolicy {
        SyncPolicy {
            each_write: self.sync_writes.is_some_and(|sync| sync.value),
            ..SyncPolicy::default()
        }
    }

    /// How offsets of one direction are chosen.
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
    pub fn within(&self) -> ModelArrivalPattern {
        self.arrivals
            .map_or(ModelArrivalPattern::Poisson, |arrivals| arrivals.value)
    }

    /// Whether the choice of offsets is assumed.
    pub fn assumes_offsets(&self) -> bool {
        self.offsets.as_ref().is_none_or(ModelFactValue::is_assumed)
    }

    /// Whether the arrivals inside an interval are assumed.
    pub fn assumes_arrivals(&self) -> bool {
        self.arrivals.is_none_or(|arrivals| arrivals.is_assumed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_recorded_requests_tell_is_not_assumed() {
        let facts = ModelFacts::of_requests(1 << 30);
        assert_eq!(facts.working_set_bytes, ModelFactValue::derived(1 << 30));
        let text = toml::to_string(&facts).unwrap();
        for absent in ["offsets", "arrivals", "assumed"] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
        assert_eq!(toml::from_str::<ModelFacts>(&text).unwrap(), facts);
        // Without requests an absent fact is open.
        assert!(facts.assumes_offsets() && facts.assumes_arrivals());
        assert_eq!(facts.within(), ModelArrivalPattern::Poisson);
    }
}
