// SPDX-License-Identifier: Apache-2.0
//! A disk whose truth is known: the engine on which the tool itself is measured.
//!
//! Requests queue first-in first-out before one or more servers; a law says how long each takes.
//! Time is virtual: it moves only when the driver waits, so hours pass in moments. No byte moves.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use plimsoll_core::num::round_u64;
use plimsoll_core::op::Request;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;

use crate::clock::{Clock, SimClock};
use crate::engine::{Completion, Engine, Unsupported};
use crate::error::Error;
use crate::null::pretended_bytes;

/// A simulated disk for the command line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimDisk {
    /// Mean time of every operation, apart from the bytes it moves.
    pub service: Nanos,
    /// Nanoseconds more per byte moved.
    pub ns_per_byte: f64,
    /// Operations served at the same time, at least 1.
    pub servers: u32,
    /// How service times spread around that mean.
    pub law: Law,
}

/// How service times spread around their mean. With Poisson arrivals and one server the response
/// times of both are known: M/D/1 and M/M/1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Law {
    /// Not at all.
    #[default]
    Constant,
    /// Exponentially.
    Exponential,
}

impl Default for SimDisk {
    /// 100 µs and 1 GB/s per server, 4 servers: about an SSD behind a network.
    fn default() -> Self {
        SimDisk {
            service: Nanos(100_000),
            ns_per_byte: 1.0,
            servers: 4,
            law: Law::Constant,
        }
    }
}

impl SimDisk {
    /// How long `request` occupies a server on average.
    #[must_use]
    pub fn service_of(&self, request: &Request) -> Nanos {
        let moving = pretended_bytes(request) as f64 * self.ns_per_byte;
        self.service + Nanos(round_u64(moving))
    }

    /// The engine of this disk, on `clock`; service times that spread are drawn from `seed`.
    #[must_use]
    pub fn engine(
        self,
        slots: u32,
        clock: SimClock,
        seed: Seed,
    ) -> Sim<impl FnMut(Nanos, &Request) -> Nanos> {
        let mut rng = Rng::new(seed.derive("service", 0));
        Sim::new(slots, self.servers, clock, move |_, request: &Request| {
            let mean = self.service_of(request);
            match self.law {
                Law::Constant => mean,
                Law::Exponential => Nanos(round_u64(rng.exponential(mean.0 as f64))),
            }
        })
    }
}

/// FIFO servers with the service law `law(start, request) -> time taken`.
#[derive(Debug)]
pub struct Sim<L> {
    slots: u32,
    clock: SimClock,
    law: L,
    /// When each server becomes free, earliest first.
    servers: BinaryHeap<Reverse<Nanos>>,
    queued: Vec<(u32, Request)>,
    in_service: BinaryHeap<Reverse<(Nanos, u32, u64)>>,
}

impl<L: FnMut(Nanos, &Request) -> Nanos> Sim<L> {
    /// A disk of `servers` (at least 1) servers under `law`.
    #[must_use]
    pub fn new(slots: u32, servers: u32, clock: SimClock, law: L) -> Self {
        Sim {
            slots,
            clock,
            law,
            servers: (0..servers.max(1)).map(|_| Reverse(Nanos(0))).collect(),
            queued: Vec::new(),
            in_service: BinaryHeap::new(),
        }
    }
}

impl<L: FnMut(Nanos, &Request) -> Nanos> Engine for Sim<L> {
    fn describe(&self) -> String {
        format!("sim, {} servers, virtual time", self.servers.len())
    }

    fn slots(&self) -> u32 {
        self.slots
    }

    fn moves_data(&self) -> bool {
        false
    }

    fn buffer(&mut self, _: u32) -> &mut [u8] {
        &mut []
    }

    fn queue(&mut self, slot: u32, request: &Request) -> Result<(), Unsupported> {
        self.queued.push((slot, *request));
        Ok(())
    }

    fn enter(&mut self, wait: Option<Nanos>) -> Result<(), Error> {
        let now = self.clock.now();
        for (slot, request) in self.queued.drain(..) {
            let Reverse(free_at) = self.servers.pop().expect("there is at least one server");
            let start = free_at.max(now);
            let end = start + (self.law)(start, &request);
            self.servers.push(Reverse(end));
            self.in_service
                .push(Reverse((end, slot, pretended_bytes(&request))));
        }
        if let Some(time) = wait {
            let next = self.in_service.peek().map_or(Nanos::MAX, |r| r.0.0);
            self.clock.advance_to(next.min(now + time));
        }
        Ok(())
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        let now = self.clock.now();
        while let Some(Reverse((end, slot, bytes))) = self.in_service.peek().copied() {
            if end > now {
                break;
            }
            self.in_service.pop();
            done.push(Completion {
                slot,
                result: Ok(bytes),
            });
        }
    }
}
