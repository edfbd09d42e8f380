// SPDX-License-Identifier: Apache-2.0
//! Several devices as one: stripes, mirrors, stripes with parity.
//!
//! A write of less than a whole row of a RAID 5 reads the old bytes and their parity, and writes both
//! anew, the parity when both old ones are there: four accesses for one. Its member does nothing else
//! meanwhile, so of a queue that never empties some of the time is lost. A write of a whole row needs
//! no reading.
//! Source: Chen, Lee, Gibson, Katz and Patterson, "RAID: high-performance, reliable secondary
//! storage" (ACM Computing Surveys 26(2), 1994); parity turns as in their left-symmetric layout. The
//! controller never reads the rest of a row instead, which would be cheaper for its larger half.

use plimsoll_core::num::to_usize;
use plimsoll_core::op::{OpKind, OpRequest};
use plimsoll_core::units::Nanos;

use super::{SimDeviceModel, SimOpKind, address, part_of};

/// How bytes are spread over the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SimArrayLayout {
    /// Chunk by chunk over all.
    Stripe,
    /// All on each.
    Mirror,
    /// Chunk by chunk, with one chunk of parity in each row.
    Parity,
}

/// Several devices as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SimArraySpec {
    /// How bytes are spread.
    pub(super) spread: SimArrayLayout,
    /// Members: at least 2, at least 3 with parity.
    pub(super) disks: u32,
    /// Bytes of a chunk, at least 1.
    pub(super) chunk_bytes: u64,
}

/// An array at work.
pub(super) struct SimArray<D> {
    array: SimArraySpec,
    members: Vec<D>,
}

/// Bytes of one member.
#[derive(Debug, Clone, Copy)]
struct SimArrayExtent {
    member: usize,
    offset: u64,
    bytes: u64,
}

impl<D: SimDeviceModel> SimArray<D> {
    pub(super) fn new(array: SimArraySpec, members: Vec<D>) -> Self {
        SimArray { array, members }
    }

    fn one(
        &mut self,
        at: Nanos,
        request: &OpRequest,
        kind: OpKind,
        extent: SimArrayExtent,
    ) -> Nanos {
        let part = part_of(request, kind, extent.offset, extent.bytes);
        self.members[extent.member].serve(at, &part)
    }

    fn all(
        &mut self,
        at: Nanos,
        request: &OpRequest,
        kind: OpKind,
        extents: &[SimArrayExtent],
    ) -> Nanos {
        let ends = extents.iter();
        ends.fold(at, |end, extent| {
            end.max(self.one(at, request, kind, *extent))
        })
    }

    fn mirror(&mut self, at: Nanos, request: &OpRequest, deed: SimOpKind) -> Nanos {
        let extent = |member| SimArrayExtent {
            member,
            offset: address(request),
            bytes: request.len.into(),
        };
        if deed == SimOpKind::Write {
            let extents: Vec<SimArrayExtent> = (0..self.members.len()).map(extent).collect();
            return self.all(at, request, OpKind::Write, &extents);
        }
        let free = |member: &usize| self.members[*member].free_at();
        let member = (0..self.members.len()).min_by_key(free).unwrap_or(0);
        self.one(at, request, OpKind::Read, extent(member))
    }

    /// Data members of a row.
    fn width(&self) -> u64 {
        let parity = u64::from(self.array.spread == SimArrayLayout::Parity);
        u64::from(self.array.disks) - parity
    }

    /// Where the bytes `from..to` lie: extents of one member that follow each other are one.
    fn extents(&self, from: u64, to: u64) -> Vec<SimArrayExtent> {
        let chunk = self.array.chunk_bytes;
        let mut extents: Vec<SimArrayExtent> = Vec::new();
        let mut at = from;
        while at < to {
            let (number, within) = (at / chunk, at % chunk);
            let bytes = (chunk - within).min(to - at);
            let (row, place) = (number / self.width(), number % self.width());
            let found = SimArrayExtent {
                member: self.member(row, place),
                offset: row * chunk + within,
                bytes,
            };
            let follows = |e: &&mut SimArrayExtent| {
                e.member == found.member && e.offset + e.bytes == found.offset
            };
            match extents.iter_mut().find(follows) {
                Some(extent) => extent.bytes += bytes,
                None => extents.push(found),
            }
            at += bytes;
        }
        extents
    }

    fn parity_of(&self, row: u64) -> u64 {
        let disks = u64::from(self.array.disks);
        disks - 1 - row % disks
    }

    fn member(&self, row: u64, place: u64) -> usize {
        to_usize(match self.array.spread {
            SimArrayLayout::Parity => {
                (self.parity_of(row) + 1 + place) % u64::from(self.array.disks)
            }
            _ => place,
        })
    }

    /// Writes with parity, row by row.
    fn write_rows(&mut self, at: Nanos, request: &OpRequest) -> Nanos {
        let row_bytes = self.array.chunk_bytes * self.width();
        let (mut from, mut end) = (address(request), at);
        let to = from.saturating_add(request.len.into());
        while from < to {
            let row = from / row_bytes;
            let until = ((row + 1) * row_bytes).min(to);
            end = end.max(self.write_row(at, request, row, (from, until)));
            from = until;
        }
        end
    }

    /// Data are written as soon as the old ones are read, the parity when both old ones are.
    fn write_row(&mut self, at: Nanos, request: &OpRequest, row: u64, bytes: (u64, u64)) -> Nanos {
        let extents = self.extents(bytes.0, bytes.1);
        let first = extents.iter().map(|extent| extent.offset).min();
        let last = extents.iter().map(|extent| extent.offset + extent.bytes);
        let first = first.unwrap_or(0);
        let parity = SimArrayExtent {
            member: to_usize(self.parity_of(row)),
            offset: first,
            bytes: last.max().unwrap_or(0).saturating_sub(first),
        };
        let (mut known, mut end) = (at, at);
        let is_whole = bytes.1 - bytes.0 == self.array.chunk_bytes * self.width();
        for extent in extents {
            let mut read = at;
            if !is_whole {
                read = self.one(at, request, OpKind::Read, extent);
            }
            known = known.max(read);
            end = end.max(self.one(read, request, OpKind::Write, extent));
        }
        if !is_whole {
            known = known.max(self.one(at, request, OpKind::Read, parity));
        }
        end.max(self.one(known, request, OpKind::Write, parity))
    }
}

impl<D: SimDeviceModel> SimDeviceModel for SimArray<D> {
    fn serve(&mut self, at: Nanos, request: &OpRequest) -> Nanos {
        let deed = SimOpKind::of(request);
        match (deed, self.array.spread) {
            (SimOpKind::Nothing, _) => at,
            (SimOpKind::Flush, _) => {
                let ends = self.members.iter_mut().map(|one| one.serve(at, request));
                ends.max().unwrap_or(at)
            }
            (_, SimArrayLayout::Mirror) => self.mirror(at, request, deed),
            (SimOpKind::Write, SimArrayLayout::Parity) => self.write_rows(at, request),
            (_, _) => {
                let from = address(request);
                let extents = self.extents(from, from.saturating_add(request.len.into()));
                let kind = if deed == SimOpKind::Write {
                    OpKind::Write
                } else {
                    OpKind::Read
                };
                self.all(at, request, kind, &extents)
            }
        }
    }

    fn free_at(&self) -> Nanos {
        let ends = self.members.iter().map(SimDeviceModel::free_at);
        ends.max().unwrap_or_default()
    }
}
