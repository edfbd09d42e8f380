// SPDX-License-Identifier: Apache-2.0
//! Simulated devices with known laws, on which the program itself is tested.
//!
//! A [`SimDeviceModel`] says when each request ends; requests come to it in the order of their time. Time is
//! virtual: it moves only when the driver waits, so hours pass in moments. No byte moves.
//!
//! One file for each kind: [`queue`] (servers with a law), flash, disk; before them layers: an array
//! of several, a cache, a network, a throttle. [`SimDeviceSpec`] is what of these a user asked for.

mod array;
mod cache;
mod disk;
mod flash;
mod front;
mod queue;
mod spec;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use plimsoll_core::num::round_u64;
use plimsoll_core::op::{OpKind, OpRequest};
use plimsoll_core::units::Nanos;

use crate::clock::{RunClock, SimClock};
use crate::engine::pretended_bytes;
use crate::engine::{IoCompletion, IoEngine, UnsupportedOp};
use crate::error::EngineError;

pub use queue::{SimQueue, SimQueueSpec, SimServiceDistribution};
pub use spec::{SimDeviceSpec, SimError, SimPartInfo, parts};

/// Something that serves requests in virtual time.
pub trait SimDeviceModel {
    /// When `request`, which comes at `at`, ends. Calls come in the order of `at`.
    fn serve(&mut self, at: Nanos, request: &OpRequest) -> Nanos;

    /// When everything that was asked so far is done.
    fn free_at(&self) -> Nanos;
}

impl SimDeviceModel for Box<dyn SimDeviceModel> {
    fn serve(&mut self, at: Nanos, request: &OpRequest) -> Nanos {
        (**self).serve(at, request)
    }

    fn free_at(&self) -> Nanos {
        (**self).free_at()
    }
}

/// The operation that a request asks of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SimOpKind {
    Read,
    Write,
    /// Make what was written durable.
    Flush,
    /// Operations on names and the like, which are no business of a device.
    Nothing,
}

impl SimOpKind {
    fn of(request: &OpRequest) -> SimOpKind {
        match request.kind {
            _ if request.kind.is_read() => SimOpKind::Read,
            _ if request.kind.is_write() => SimOpKind::Write,
            OpKind::Fsync | OpKind::Fdatasync | OpKind::SyncRange | OpKind::SyncAll => {
                SimOpKind::Flush
            }
            _ => SimOpKind::Nothing,
        }
    }
}

/// Room between the first bytes of two files, where a workload has several.
const FILE_BYTES: u64 = 64 << 20;

/// Where on the device a request begins.
fn address(request: &OpRequest) -> u64 {
    let file = u64::from(request.file) * FILE_BYTES;
    file.saturating_add(request.offset)
}

/// The same request for other bytes.
fn part_of(request: &OpRequest, kind: OpKind, offset: u64, bytes: u64) -> OpRequest {
    OpRequest {
        kind,
        file: 0,
        offset,
        len: plimsoll_core::num::saturating_u32(bytes),
        ..*request
    }
}

/// Time to move `bytes` bytes.
fn moving(bytes: u64, ns_per_byte: f64) -> Nanos {
    Nanos(round_u64(bytes as f64 * ns_per_byte))
}

/// Nanoseconds per byte at a rate; 0 when no rate is set.
fn ns_per_byte(bytes_per_s: u64) -> f64 {
    match bytes_per_s {
        0 => 0.0,
        rate => 1e9 / rate as f64,
    }
}

/// The engine of a device.
#[derive(Debug)]
pub struct SimEngine<D> {
    name: String,
    slots: u32,
    clock: SimClock,
    device: D,
    queued: Vec<(u32, OpRequest)>,
    in_service: BinaryHeap<Reverse<(Nanos, u32, u64)>>,
}

impl<D: SimDeviceModel> SimEngine<D> {
    /// `device` on `clock`, called `name`, with at most `slots` requests in flight.
    pub fn new(name: String, slots: u32, clock: SimClock, device: D) -> Self {
        SimEngine {
            name,
            slots,
            clock,
            device,
            queued: Vec::new(),
            in_service: BinaryHeap::new(),
        }
    }
}

impl<D: SimDeviceModel> IoEngine for SimEngine<D> {
    fn describe(&self) -> String {
        self.name.clone()
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

    fn queue(&mut self, slot: u32, request: &OpRequest) -> Result<(), UnsupportedOp> {
        self.queued.push((slot, *request));
        Ok(())
    }

    fn enter(&mut self, wait: Option<Nanos>) -> Result<(), EngineError> {
        let now = self.clock.now();
        for (slot, request) in self.queued.drain(..) {
            let end = self.device.serve(now, &request);
            self.in_service
                .push(Reverse((end, slot, pretended_bytes(&request))));
        }
        if let Some(time) = wait {
            let next = self.in_service.peek().map_or(Nanos::MAX, |r| r.0.0);
            self.clock.advance_to(next.min(now + time));
        }
        Ok(())
    }

    fn reap(&mut self, done: &mut Vec<IoCompletion>) {
        let now = self.clock.now();
        while let Some(Reverse((end, slot, bytes))) = self.in_service.peek().copied() {
            if end > now {
                break;
            }
            self.in_service.pop();
            done.push(IoCompletion {
                slot,
                result: Ok(bytes),
            });
        }
    }
}
