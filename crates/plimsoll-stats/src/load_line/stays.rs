// SPDX-License-Identifier: Apache-2.0
//! Stays: trials as long as a load must be carried, played in parts.

use super::trial::LoadLineTrial;

/// Parts of a hold period, which ends early after [`OVERLOADED_PARTS`] overloaded parts in a row.
pub(super) const PARTS: usize = 10;
const OVERLOADED_PARTS: usize = 2;

/// Fewer parts of a stay that is not over say too little of it.
const TELLING_PARTS: usize = 2;

/// A stay that is not over.
#[derive(Debug, Clone)]
pub(super) struct RunningStay {
    /// All parts so far as one trial.
    pub(super) whole: LoadLineTrial,
    parts: usize,
    /// How many of the last parts in a row were overloaded.
    overloaded: usize,
}

impl RunningStay {
    /// With its first part or one more.
    pub(super) fn with(
        before: Option<RunningStay>,
        part: &LoadLineTrial,
        overloaded: bool,
    ) -> Self {
        let mut running = match before {
            Some(mut running) => {
                running.add(part);
                running
            }
            None => RunningStay {
                whole: part.clone(),
                parts: 1,
                overloaded: 0,
            },
        };
        running.overloaded = if overloaded {
            running.overloaded + 1
        } else {
            0
        };
        running.whole.backlog_grew = running.overloaded > 0;
        running
    }

    fn add(&mut self, part: &LoadLineTrial) {
        self.parts += 1;
        self.whole.request.seconds += part.request.seconds;
        self.whole.served = part.served;
        for (reading, more) in self.whole.readings.iter_mut().zip(&part.readings) {
            reading.batches.extend_from_slice(&more.batches);
        }
    }

    /// Whether it says something before it is over.
    pub(super) fn is_telling(&self) -> bool {
        self.parts >= TELLING_PARTS
    }

    /// Whether it was long enough, or is clearly not carried.
    pub(super) fn is_over(&self) -> bool {
        self.overloaded >= OVERLOADED_PARTS || self.parts >= PARTS
    }
}

/// A stay that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct LongStay {
    pub(super) multiple: f64,
    /// Whether it was carried and steady.
    pub(super) is_carried: bool,
}

/// The multiples next to the edge, in logarithms; infinite where there is none.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfirmedStays {
    /// The highest below the edge that a stay carried.
    pub(super) low: f64,
    /// The lowest above it that a trial of any length did not carry.
    pub(super) high: f64,
}
