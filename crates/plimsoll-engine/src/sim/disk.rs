// SPDX-License-Identifier: Apache-2.0
//! A disk with one arm over turning platters, first in, first out.
//!
//! The arm takes a shortest time and more with the square root of the distance; then the platter
//! turns until the first byte comes by; then bytes move at the rate of the medium. What follows the
//! last request without a gap needs neither, as the drive's buffer has read on. Source: Ruemmler and
//! Wilkes, "An introduction to disk drive modeling" (IEEE Computer 27(3), 1994); their linear law
//! for long distances is left out, and so is that outer tracks are longer.

use plimsoll_core::num::round_u64;
use plimsoll_core::op::OpRequest;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;

use super::{SimDeviceModel, SimOpKind, address, moving, ns_per_byte};

/// A disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SimHardDiskSpec {
    /// Turns per minute, at least 1.
    pub(super) rpm: u32,
    /// Time to move the arm to the next track.
    pub(super) seek: Nanos,
    /// Time to move it over all of them.
    pub(super) seek_full: Nanos,
    /// Bytes per second under the head, at least 1.
    pub(super) bytes_per_s: u64,
    /// Bytes of the disk, at least 1: what the longest way is.
    pub(super) size_bytes: u64,
}

/// A disk at work.
#[derive(Debug)]
pub(super) struct SimHardDisk {
    disk: SimHardDiskSpec,
    /// Time of one turn.
    turn_ns: f64,
    /// Bytes of one turn.
    track_bytes: f64,
    /// Where in a turn the platter is at 0.
    phase: f64,
    /// Where the last request ended.
    head: u64,
    free_at: Nanos,
}

impl SimHardDiskSpec {
    pub(super) fn device(self, seed: Seed) -> SimHardDisk {
        let turn_ns = 60e9 / f64::from(self.rpm);
        SimHardDisk {
            disk: self,
            turn_ns,
            track_bytes: (self.bytes_per_s as f64 * turn_ns / 1e9).max(1.0),
            phase: Rng::new(seed.derive("disk", 0)).unit(),
            head: 0,
            free_at: Nanos(0),
        }
    }
}

impl SimHardDisk {
    fn seek(&self, to: u64) -> Nanos {
        let distance = self.head.abs_diff(to) as f64;
        if distance < self.track_bytes {
            return Nanos(0);
        }
        let way = (distance / self.disk.size_bytes as f64).sqrt();
        let range = self.disk.seek_full.since(self.disk.seek).0 as f64;
        self.disk.seek + Nanos(round_u64(range * way))
    }

    /// How long the platter turns until `to` comes by.
    fn rotation(&self, at: Nanos, to: u64) -> Nanos {
        let wanted = to as f64 / self.track_bytes;
        let now = self.phase + at.0 as f64 / self.turn_ns;
        Nanos(round_u64((wanted - now).rem_euclid(1.0) * self.turn_ns))
    }
}

impl SimDeviceModel for SimHardDisk {
    fn serve(&mut self, at: Nanos, request: &OpRequest) -> Nanos {
        match SimOpKind::of(request) {
            SimOpKind::Nothing => return at,
            SimOpKind::Flush => return self.free_at.max(at),
            SimOpKind::Read | SimOpKind::Write => {}
        }
        let to = address(request) % self.disk.size_bytes;
        let mut now = self.free_at.max(at);
        if to != self.head {
            now = now + self.seek(to);
            now = now + self.rotation(now, to);
        }
        let bytes = u64::from(request.len);
        self.head = (to + bytes) % self.disk.size_bytes;
        self.free_at = now + moving(bytes, ns_per_byte(self.disk.bytes_per_s));
        self.free_at
    }

    fn free_at(&self) -> Nanos {
        self.free_at
    }
}
