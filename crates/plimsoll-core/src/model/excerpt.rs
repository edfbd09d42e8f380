// SPDX-License-Identifier: Apache-2.0
//! What of a model one trial plays.

use super::{Arrivals, Cell, Load, Model, Packed, Recorded, Space};
use crate::num::{round_u64, to_usize};
use crate::op::{Kind, Request};
use crate::rng::{Rng, Seed};
use crate::units::Nanos;

/// What is played: all of a recording, slices of it, or a stretch.
#[derive(Debug, Clone, PartialEq)]
pub struct Excerpt {
    /// What is asked, interval by interval.
    pub cells: Vec<Cell>,
    /// Where in the recording it begins, where requests are played.
    pub from: Nanos,
    /// How many times as fast as recorded requests are played; cells are scaled already.
    pub scale: f64,
}

impl Excerpt {
    /// These intervals of a model without requests.
    #[must_use]
    pub fn cells(cells: Vec<Cell>) -> Excerpt {
        Excerpt {
            cells,
            from: Nanos(0),
            scale: 1.0,
        }
    }
}

impl Model {
    /// The whole recording, at `scale` times its rates.
    #[must_use]
    pub fn whole(&self, scale: f64) -> Excerpt {
        if self.requests.is_none() {
            return Excerpt::cells(self.play_whole(scale));
        }
        let faster = |cell: &Cell| Cell {
            length: Nanos(round_u64(cell.length.0 as f64 / scale)),
            ..*cell
        };
        Excerpt {
            cells: self.envelope.cells().iter().map(faster).collect(),
            from: Nanos(0),
            scale,
        }
    }

    /// A stretch of the recorded requests that takes `seconds` at `scale` times their pace, from a
    /// start that is drawn: the same seed gives the same stretch. `None` for a model without
    /// requests.
    #[must_use]
    pub fn stretch(&self, seconds: u32, scale: f64, seed: Seed) -> Option<Excerpt> {
        let packed = self.requests.as_ref()?;
        let recorded = Nanos(round_u64(f64::from(seconds) * scale * 1e9));
        let room = packed.length().since(recorded);
        let from = Nanos(Rng::new(seed.derive("stretch", 0)).below(room.0.saturating_add(1)));
        Some(Excerpt {
            cells: count(packed, seconds, from, scale),
            from,
            scale,
        })
    }

    /// The requests of an excerpt, in order. Sizes and offsets are multiples of `align` bytes (a power
    /// of two, the target's direct I/O alignment); recorded requests go where `space` says.
    ///
    /// # Panics
    /// When `align` is not a power of two up to 16 MiB, or the working set is smaller than `align`.
    #[must_use]
    pub fn play(&self, excerpt: &Excerpt, space: &Space, align: u32, seed: Seed) -> Played {
        match &self.requests {
            Some(packed) => {
                let recorded =
                    Recorded::new(packed, space.clone(), excerpt.from, excerpt.scale, align);
                Played::Recorded(Box::new(recorded))
            }
            None => {
                let cells = excerpt.cells.clone();
                Played::Drawn(Box::new(Arrivals::new(cells, &self.assumed, align, seed)))
            }
        }
    }
}

/// What is asked in each second of a stretch.
fn count(packed: &Packed, seconds: u32, from: Nanos, scale: f64) -> Vec<Cell> {
    let empty = Cell {
        length: Nanos::SECOND,
        read: Load::default(),
        write: Load::default(),
    };
    let mut cells = vec![empty; seconds as usize];
    for request in Recorded::new(packed, Space::AsRecorded, from, scale, 1) {
        let second = to_usize(request.intended_at.0 / Nanos::SECOND.0);
        let Some(cell) = cells.get_mut(second) else {
            break;
        };
        cell.count(&request);
    }
    cells
}

impl Cell {
    /// Adds a request; what is neither a read nor a write does not count.
    pub fn count(&mut self, request: &Request) {
        let load = match request.kind {
            Kind::Read => &mut self.read,
            Kind::Write => &mut self.write,
            _ => return,
        };
        load.ops += 1;
        load.bytes += u64::from(request.len);
    }
}

/// The requests of an excerpt of a model: an iterator with fixed memory.
#[derive(Debug)]
pub enum Played {
    /// Drawn from the envelope.
    Drawn(Box<Arrivals>),
    /// As they were recorded.
    Recorded(Box<Recorded>),
}

impl Played {
    /// Largest transfer this play can ask for, for sizing buffers.
    #[must_use]
    pub fn len_max(&self) -> u32 {
        match self {
            Played::Drawn(arrivals) => arrivals.len_max(),
            Played::Recorded(recorded) => recorded.len_max(),
        }
    }
}

impl Iterator for Played {
    type Item = Request;

    #[inline]
    fn next(&mut self) -> Option<Request> {
        match self {
            Played::Drawn(arrivals) => arrivals.next(),
            Played::Recorded(recorded) => recorded.next(),
        }
    }
}
