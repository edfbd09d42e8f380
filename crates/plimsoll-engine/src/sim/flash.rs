// SPDX-License-Identifier: Apache-2.0
//! Flash: units that work side by side, each on the pages whose addresses are its own.
//!
//! A page of an address lies on the unit of that number modulo their count, so what a load does to
//! the device depends on where it goes: neighbours spread over all units, a stride of their count
//! meets one. A unit reads or programs one page at a time, first in, first out, and moves its bytes.
//! After a number of programmed bytes it pauses to erase, as under garbage collection. Sources:
//! Agrawal et al., "Design tradeoffs for SSD performance" (USENIX ATC 2008), for interleaving and
//! cleaning; Tavakkol et al., "MQSim" (FAST 2018), for units as the place where requests wait.

use plimsoll_core::num::{round_u64, to_usize};
use plimsoll_core::op::OpRequest;
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;

use super::{SimDeviceModel, SimOpKind, address, moving, ns_per_byte};

/// A flash device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SimFlashSpec {
    /// Units that work side by side, at least 1.
    pub(super) units: u32,
    /// Bytes of a page, at least 1.
    pub(super) page_bytes: u64,
    /// Time to read a page, apart from the bytes moved.
    pub(super) read: Nanos,
    /// Time to program a page, apart from the bytes moved.
    pub(super) write: Nanos,
    /// Bytes per second that one unit moves; 0: at once.
    pub(super) bytes_per_s: u64,
    /// Share by which each of those two times varies below and above, drawn uniformly, 0..=1.
    pub(super) spread: f64,
    /// Bytes that a unit programs between two erases; 0: it never erases.
    pub(super) erase_every_bytes: u64,
    /// How long it stands still for one.
    pub(super) erase: Nanos,
}

/// A flash device at work.
#[derive(Debug)]
pub(super) struct SimFlash {
    flash: SimFlashSpec,
    rng: Rng,
    free_at: Vec<Nanos>,
    /// Bytes each unit programmed since it erased.
    programmed: Vec<u64>,
}

impl SimFlashSpec {
    pub(super) fn device(self, seed: Seed) -> SimFlash {
        let mut rng = Rng::new(seed.derive("flash", 0));
        // Units do not all come to their erases together.
        let begun = |_| rng.below(self.erase_every_bytes.max(1));
        SimFlash {
            programmed: (0..self.units).map(begun).collect(),
            free_at: vec![Nanos(0); self.units as usize],
            flash: self,
            rng,
        }
    }
}

impl SimFlash {
    /// One page, or a part of it.
    fn page(&mut self, at: Nanos, page: u64, bytes: u64, deed: SimOpKind) -> Nanos {
        let flash = self.flash;
        let unit = to_usize(page % u64::from(flash.units));
        let mean = match deed {
            SimOpKind::Write => flash.write,
            _ => flash.read,
        };
        let spread = 1.0 + flash.spread * (2.0 * self.rng.unit() - 1.0);
        let took = Nanos(round_u64(mean.0 as f64 * spread));
        let start = self.free_at[unit].max(at);
        let end = start + took + moving(bytes, ns_per_byte(flash.bytes_per_s));
        self.free_at[unit] = end + self.erase(unit, bytes, deed);
        end
    }

    /// How long the unit stands still after this.
    fn erase(&mut self, unit: usize, bytes: u64, deed: SimOpKind) -> Nanos {
        let every = self.flash.erase_every_bytes;
        if deed != SimOpKind::Write || every == 0 {
            return Nanos(0);
        }
        let programmed = &mut self.programmed[unit];
        *programmed += bytes;
        let erases = *programmed / every;
        *programmed %= every;
        Nanos(self.flash.erase.0.saturating_mul(erases))
    }
}

impl SimDeviceModel for SimFlash {
    fn serve(&mut self, at: Nanos, request: &OpRequest) -> Nanos {
        let deed = SimOpKind::of(request);
        match deed {
            SimOpKind::Nothing => return at,
            SimOpKind::Flush => return self.free_at().max(at),
            SimOpKind::Read | SimOpKind::Write => {}
        }
        let size = self.flash.page_bytes;
        let (mut offset, mut end) = (address(request), at);
        let last = offset.saturating_add(request.len.into());
        while offset < last {
            let page = offset / size;
            let bytes = ((page + 1) * size).min(last) - offset;
            end = end.max(self.page(at, page, bytes, deed));
            offset += bytes;
        }
        end
    }

    fn free_at(&self) -> Nanos {
        self.free_at.iter().copied().max().unwrap_or_default()
    }
}
