// SPDX-License-Identifier: Apache-2.0
//! What a model says beyond its intervals, and how each of it is known.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Direction, Model, Within};
use crate::offsets::Offsets;

/// How a parameter of a model is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The recording tells it.
    Measured,
    /// It follows from what the recording tells.
    Derived,
    /// The person who fitted the model told it.
    Declared,
    /// Nobody told it: another value would fit the recording as well.
    Assumed,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Measured => "measured",
            Origin::Derived => "derived",
            Origin::Declared => "declared",
            Origin::Assumed => "assumed",
        })
    }
}

/// A value and how it is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known<T> {
    /// The value.
    pub value: T,
    /// How it is known.
    pub origin: Origin,
}

impl<T> Known<T> {
    /// A value that the recording tells.
    pub fn measured(value: T) -> Known<T> {
        let origin = Origin::Measured;
        Known { value, origin }
    }

    /// A value that follows from the recording.
    pub fn derived(value: T) -> Known<T> {
        let origin = Origin::Derived;
        Known { value, origin }
    }

    /// A value that a person told.
    pub fn declared(value: T) -> Known<T> {
        let origin = Origin::Declared;
        Known { value, origin }
    }

    /// A value that nobody told.
    pub fn assumed(value: T) -> Known<T> {
        let origin = Origin::Assumed;
        Known { value, origin }
    }

    /// Whether nobody told it.
    pub fn is_assumed(&self) -> bool {
        self.origin == Origin::Assumed
    }
}

/// What a model says beyond its intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Bytes of the file or device that the load is spread over.
    pub working_set_bytes: Known<u64>,
    /// How offsets are chosen.
    pub offsets: Known<Offsets>,
    /// How requests lie inside an interval.
    pub arrivals: Known<Within>,
    /// How offsets of writes are chosen, where otherwise than those of reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_offsets: Option<Known<Offsets>>,
    /// Requests in flight on average while it was recorded: the time that requests took together
    /// over the time that passed (Little's law). Describes; it is not played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<Known<f64>>,
    /// Threads that send one request after another: never more are in flight, and what comes while
    /// all are busy waits, counted from the instant it was meant to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<Known<u32>>,
}

impl Facts {
    /// What is said of a load of which counters tell nothing but its intervals: places uniform over
    /// `working_set_bytes`, Poisson arrivals.
    #[must_use]
    pub fn assumed(working_set_bytes: u64) -> Facts {
        Facts {
            working_set_bytes: Known::assumed(working_set_bytes),
            offsets: Known::assumed(Offsets::Uniform),
            arrivals: Known::assumed(Within::Poisson),
            write_offsets: None,
            in_flight: None,
            threads: None,
        }
    }

    /// How offsets of one direction are chosen.
    #[must_use]
    pub fn offsets_of(&self, direction: Direction) -> &Offsets {
        match (direction, &self.write_offsets) {
            (Direction::Write, Some(own)) => &own.value,
            _ => &self.offsets.value,
        }
    }
}

/// A model whose assumed facts are at an extreme of what the recording allows.
#[derive(Debug, Clone, PartialEq)]
pub struct Corner {
    /// What is different, such as `even, sequential`.
    pub name: String,
    /// The model.
    pub model: Model,
}

impl Model {
    /// The extremes of what the recording allows, kindest first: arrivals as even or as bursty, and
    /// places as sequential or as random, as is likely to be met. Only what is assumed changes; there are
    /// four, two or, where nothing is assumed or requests were recorded, none.
    #[must_use]
    pub fn corners(&self) -> Vec<Corner> {
        if self.requests.is_some() {
            return Vec::new();
        }
        let facts = &self.facts;
        let arrivals = match facts.arrivals.is_assumed() {
            true => vec![Within::Even, Within::BURSTY],
            false => vec![facts.arrivals.value],
        };
        let offsets = match facts.offsets.is_assumed() {
            true => vec![Offsets::Sequential, Offsets::Uniform],
            false => vec![facts.offsets.value.clone()],
        };
        if arrivals.len() * offsets.len() == 1 {
            return Vec::new();
        }
        let pairs = arrivals.iter().flat_map(|within| {
            offsets
                .iter()
                .map(move |offsets| (*within, offsets.clone()))
        });
        pairs
            .map(|(within, offsets)| self.corner(within, offsets))
            .collect()
    }

    fn corner(&self, within: Within, offsets: Offsets) -> Corner {
        let mut names = Vec::new();
        let mut model = self.clone();
        if self.facts.arrivals.is_assumed() {
            names.push(within.to_string());
            model.facts.arrivals.value = within;
        }
        if self.facts.offsets.is_assumed() {
            names.push(match offsets {
                Offsets::Sequential => "sequential".into(),
                _ => "random".into(),
            });
            model.facts.offsets.value = offsets;
        }
        let name = names.join(", ");
        model.name = format!("{} ({name})", self.name);
        Corner { name, model }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::bursty;
    use super::*;

    #[test]
    fn corners_change_what_is_assumed_and_nothing_else() {
        let mut model = bursty();
        let names = |model: &Model| -> Vec<String> {
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
        model.facts.offsets = Known::declared(Offsets::Backward);
        assert_eq!(names(&model), ["even", "bursty"]);
        assert!(
            model
                .corners()
                .iter()
                .all(|corner| corner.model.facts.offsets == model.facts.offsets)
        );
        model.facts.arrivals = Known::declared(Within::Even);
        assert!(model.corners().is_empty());
    }
}
