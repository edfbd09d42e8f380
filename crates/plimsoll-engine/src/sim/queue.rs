// SPDX-License-Identifier: Apache-2.0
//! First in, first out before one or more servers; a law says how long each request takes.
//!
//! With Poisson arrivals these are the queues that are solved: M/D/1, M/M/1, M/M/c.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use plimsoll_core::num::round_u64;
use plimsoll_core::op::OpRequest;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;

use super::{SimDeviceModel, SimDeviceSpec, SimEngine, moving};
use crate::clock::SimClock;
use crate::engine::pretended_bytes;

/// A queue before servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimQueueSpec {
    /// Mean time of every operation, apart from the bytes it moves.
    pub service: Nanos,
    /// Nanoseconds more per byte moved.
    pub ns_per_byte: f64,
    /// Operations served at the same time, at least 1.
    pub servers: u32,
    /// How service times spread around that mean.
    pub law: SimServiceDistribution,
}

/// How service times spread around their mean. With Poisson arrivals and one server the response
/// times of both are known: M/D/1 and M/M/1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SimServiceDistribution {
    /// Not at all.
    #[default]
    Constant,
    /// Exponentially.
    Exponential,
}

impl Default for SimQueueSpec {
    /// 100 µs and 1 GB/s per server, 4 servers: about an SSD behind a network.
    fn default() -> Self {
        SimQueueSpec {
            service: Nanos(100_000),
            ns_per_byte: 1.0,
            servers: 4,
            law: SimServiceDistribution::Constant,
        }
    }
}

impl SimQueueSpec {
    /// How long `request` occupies a server on average.
    pub fn service_of(&self, request: &OpRequest) -> Nanos {
        self.service + moving(pretended_bytes(request), self.ns_per_byte)
    }

    /// The device; service times that spread are drawn from `seed`.
    #[must_use]
    pub fn device(self, seed: Seed) -> SimQueue<impl FnMut(Nanos, &OpRequest) -> Nanos> {
        let mut rng = Rng::new(seed.derive("service", 0));
        SimQueue::new(self.servers, move |_, request: &OpRequest| {
            let mean = self.service_of(request);
            match self.law {
                SimServiceDistribution::Constant => mean,
                SimServiceDistribution::Exponential => {
                    Nanos(round_u64(rng.exponential(mean.0 as f64)))
                }
            }
        })
    }

    /// The engine of this device, on `clock`.
    #[must_use]
    pub fn engine(
        self,
        slots: u32,
        clock: SimClock,
        seed: Seed,
    ) -> SimEngine<SimQueue<impl FnMut(Nanos, &OpRequest) -> Nanos>> {
        let name = SimDeviceSpec::from(self).to_string();
        SimEngine::new(name, slots, clock, self.device(seed))
    }
}

/// FIFO servers with the service law `law(start, request) -> time taken`.
#[derive(Debug)]
pub struct SimQueue<L> {
    law: L,
    /// When each server becomes free, earliest first.
    free_at: BinaryHeap<Reverse<Nanos>>,
    last_end: Nanos,
}

impl<L: FnMut(Nanos, &OpRequest) -> Nanos> SimQueue<L> {
    /// `servers` (at least 1) servers under `law`.
    pub fn new(servers: u32, law: L) -> Self {
        SimQueue {
            law,
            free_at: (0..servers.max(1)).map(|_| Reverse(Nanos(0))).collect(),
            last_end: Nanos(0),
        }
    }
}

impl<L: FnMut(Nanos, &OpRequest) -> Nanos> SimDeviceModel for SimQueue<L> {
    fn serve(&mut self, at: Nanos, request: &OpRequest) -> Nanos {
        let Reverse(free_at) = self.free_at.pop().expect("there is at least one server");
        let start = free_at.max(at);
        let end = start + (self.law)(start, request);
        self.free_at.push(Reverse(end));
        self.last_end = self.last_end.max(end);
        end
    }

    fn free_at(&self) -> Nanos {
        self.last_end
    }
}
