// SPDX-License-Identifier: Apache-2.0
//! What of a recording a model of its counters lacks: its requests get their instants, sizes or places
//! from the recording, in all ways, and are played again.

use plimsoll_core::model::{Direction, Model};
use plimsoll_core::op::Request;
use plimsoll_core::rng::Seed;
use plimsoll_engine::SimDevice;

use super::play::{Responses, requests_of};

/// What is taken from the recording: instants, sizes, places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) name: &'static str,
    instants: bool,
    sizes: bool,
    places: bool,
}

const fn taken(name: &'static str, [instants, sizes, places]: [bool; 3]) -> Taken {
    Taken {
        name,
        instants,
        sizes,
        places,
    }
}

/// All of it would be the recording.
pub(crate) const TAKEN: [Taken; 6] = [
    taken("nothing", [false, false, false]),
    taken("instants", [true, false, false]),
    taken("sizes", [false, true, false]),
    taken("places", [false, false, true]),
    taken("instants and sizes", [true, true, false]),
    taken("instants and places", [true, false, true]),
];

fn of_direction(requests: &[Request], direction: Direction) -> impl Iterator<Item = &Request> {
    requests.iter().filter(move |request| match direction {
        Direction::Read => request.kind.is_read(),
        Direction::Write => request.kind.is_write(),
    })
}

/// The mean response time to the requests of `model`, with that of `recorded` which is taken, ns. The
/// k-th read gets it from the k-th read, and so do writes.
pub(crate) fn mean(
    (model, recorded): (&Model, &Model),
    taken: Taken,
    device: &SimDevice,
    seed: Seed,
) -> f64 {
    let drawn: Vec<Request> = requests_of(model, 1.0, seed).collect();
    let recorded: Vec<Request> = requests_of(recorded, 1.0, seed).collect();
    let mut mixed = Vec::with_capacity(drawn.len());
    for direction in Direction::BOTH {
        let pairs = of_direction(&drawn, direction).zip(of_direction(&recorded, direction));
        mixed.extend(pairs.map(|(drawn, recorded)| Request {
            intended_at: if taken.instants { recorded } else { drawn }.intended_at,
            len: if taken.sizes { recorded } else { drawn }.len,
            offset: if taken.places { recorded } else { drawn }.offset,
            ..*drawn
        }));
    }
    mixed.sort_by_key(|request| request.intended_at);
    Responses::to(mixed.into_iter(), device, seed).mean()
}
