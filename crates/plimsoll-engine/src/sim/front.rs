// SPDX-License-Identifier: Apache-2.0
//! Layers before a device: a network, or a configured limit.
//!
//! The network has a line each way, with a delay and a rate: what is written goes out, what is read
//! comes back. Lines carry one thing at a time; on the way back an answer takes the first gap that
//! is long enough. The throttle is a pair of token buckets, of operations and of bytes, in the form
//! that counts when the next is due (the generic cell rate algorithm, ITU-T I.371); a request that
//! comes too early waits, and so do those behind it.

use std::collections::BTreeMap;

use plimsoll_core::op::OpRequest;
use plimsoll_core::units::Nanos;

use super::{SimDeviceModel, SimOpKind, moving, ns_per_byte};

/// A network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SimNetworkSpec {
    /// There and back, for something without length.
    pub(super) round_trip: Nanos,
    /// Bytes per second each way; 0: no limit.
    pub(super) bytes_per_s: u64,
}

/// A network at work.
pub(super) struct SimNetwork<D> {
    network: SimNetworkSpec,
    inner: D,
    sent_at: Nanos,
    back: SimNetworkLink,
}

impl<D: SimDeviceModel> SimNetwork<D> {
    pub(super) fn new(network: SimNetworkSpec, inner: D) -> Self {
        SimNetwork {
            network,
            inner,
            sent_at: Nanos(0),
            back: SimNetworkLink::default(),
        }
    }
}

impl<D: SimDeviceModel> SimDeviceModel for SimNetwork<D> {
    fn serve(&mut self, at: Nanos, request: &OpRequest) -> Nanos {
        let bytes = u64::from(request.len);
        let each = ns_per_byte(self.network.bytes_per_s);
        let (out, back) = match SimOpKind::of(request) {
            SimOpKind::Write => (moving(bytes, each), Nanos(0)),
            SimOpKind::Read => (Nanos(0), moving(bytes, each)),
            _ => (Nanos(0), Nanos(0)),
        };
        let half = Nanos(self.network.round_trip.0 / 2);
        self.sent_at = self.sent_at.max(at) + out;
        let served = self.inner.serve(self.sent_at + half, request);
        self.back.forget(at);
        self.back.take(served, back) + self.network.round_trip.since(half)
    }

    fn free_at(&self) -> Nanos {
        self.inner.free_at()
    }
}

/// A line that carries one thing at a time: when it is taken, by start.
#[derive(Debug, Default)]
struct SimNetworkLink(BTreeMap<Nanos, Nanos>);

impl SimNetworkLink {
    /// Forgets what is over.
    fn forget(&mut self, now: Nanos) {
        while let Some(first) = self.0.first_entry() {
            if *first.get() > now {
                break;
            }
            first.remove();
        }
    }

    /// Takes the first gap from `from` on that is `length` long; when it ends.
    fn take(&mut self, from: Nanos, length: Nanos) -> Nanos {
        if length.0 == 0 {
            return from;
        }
        let mut start = from;
        for (taken, until) in &self.0 {
            if start + length <= *taken {
                break;
            }
            start = start.max(*until);
        }
        self.0.insert(start, start + length);
        start + length
    }
}

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SimThrottleSpec {
    /// Operations per second; 0: no limit.
    pub(super) ops_per_s: f64,
    /// Bytes per second; 0: no limit.
    pub(super) bytes_per_s: u64,
    /// How much of what was not used may be used later, as time at these rates.
    pub(super) burst: Nanos,
}

/// A limit at work.
pub(super) struct SimThrottle<D> {
    throttle: SimThrottleSpec,
    inner: D,
    /// When the next operation and the next byte would be due without bursts.
    due: [Nanos; 2],
    passed_at: Nanos,
}

impl<D: SimDeviceModel> SimThrottle<D> {
    pub(super) fn new(throttle: SimThrottleSpec, inner: D) -> Self {
        SimThrottle {
            throttle,
            inner,
            due: [Nanos(0); 2],
            passed_at: Nanos(0),
        }
    }
}

impl<D: SimDeviceModel> SimDeviceModel for SimThrottle<D> {
    fn serve(&mut self, at: Nanos, request: &OpRequest) -> Nanos {
        if SimOpKind::of(request) == SimOpKind::Nothing {
            return self.inner.serve(at.max(self.passed_at), request);
        }
        let operation = match self.throttle.ops_per_s {
            rate if rate > 0.0 => Nanos::from_secs_f64(1.0 / rate),
            _ => Nanos(0),
        };
        let bytes = moving(request.len.into(), ns_per_byte(self.throttle.bytes_per_s));
        let earliest = self.due.map(|due| due.since(self.throttle.burst));
        let pass = earliest
            .into_iter()
            .fold(at.max(self.passed_at), Nanos::max);
        for (due, cost) in self.due.iter_mut().zip([operation, bytes]) {
            *due = (*due).max(pass) + cost;
        }
        self.passed_at = pass;
        self.inner.serve(pass, request)
    }

    fn free_at(&self) -> Nanos {
        self.inner.free_at()
    }
}
