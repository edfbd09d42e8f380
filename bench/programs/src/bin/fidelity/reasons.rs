// SPDX-License-Identifier: Apache-2.0
//! Aspects of a recording that a model of its counters lacks: its requests get their instants,
//! sizes or places from the recording, in all ways, and are played again.

use plimsoll_core::model::{IoDirection, WorkloadModel};
use plimsoll_core::op::OpRequest;
use plimsoll_core::rng::Seed;
use plimsoll_engine::SimDeviceSpec;

use super::play::{ResponseTimes, requests_of};

/// Aspects taken from the recording: instants, sizes, places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceAspects {
    pub(crate) name: &'static str,
    instants: bool,
    sizes: bool,
    places: bool,
}

const fn taken(name: &'static str, [instants, sizes, places]: [bool; 3]) -> TraceAspects {
    TraceAspects {
        name,
        instants,
        sizes,
        places,
    }
}

/// All of it would be the recording.
pub(crate) const TAKEN: [TraceAspects; 6] = [
    taken("nothing", [false, false, false]),
    taken("instants", [true, false, false]),
    taken("sizes", [false, true, false]),
    taken("places", [false, false, true]),
    taken("instants and sizes", [true, true, false]),
    taken("instants and places", [true, false, true]),
];

fn of_direction(
    requests: &[OpRequest],
    direction: IoDirection,
) -> impl Iterator<Item = &OpRequest> {
    requests.iter().filter(move |request| match direction {
        IoDirection::Read => request.kind.is_read(),
        IoDirection::Write => request.kind.is_write(),
    })
}

/// The mean response time to the requests of `model`, with that of `recorded` which is taken, ns. The
/// k-th read gets it from the k-th read, and so do writes.
pub(crate) fn mean(
    (model, recorded): (&WorkloadModel, &WorkloadModel),
    taken: TraceAspects,
    device: &SimDeviceSpec,
    seed: Seed,
) -> f64 {
    let drawn: Vec<OpRequest> = requests_of(model, 1.0, seed).collect();
    let recorded: Vec<OpRequest> = requests_of(recorded, 1.0, seed).collect();
    let mut mixed = Vec::with_capacity(drawn.len());
    for direction in IoDirection::BOTH {
        let pairs = of_direction(&drawn, direction).zip(of_direction(&recorded, direction));
        mixed.extend(pairs.map(|(drawn, recorded)| OpRequest {
            intended_at: if taken.instants { recorded } else { drawn }.intended_at,
            len: if taken.sizes { recorded } else { drawn }.len,
            offset: if taken.places { recorded } else { drawn }.offset,
            ..*drawn
        }));
    }
    mixed.sort_by_key(|request| request.intended_at);
    ResponseTimes::to(mixed.into_iter(), device, seed).mean()
}
