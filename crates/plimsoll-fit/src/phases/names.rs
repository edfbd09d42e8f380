// SPDX-License-Identifier: Apache-2.0
//! The names of phases: by the figure that distinguishes them most from the base.

use plimsoll_core::model::DirectionRates;
use plimsoll_core::num::ratio;

/// Names given so far, so that none is given twice.
pub(super) struct PhaseNames {
    base: [DirectionRates; 2],
    given: Vec<String>,
}

impl PhaseNames {
    pub(super) fn new(base: [DirectionRates; 2]) -> PhaseNames {
        PhaseNames {
            base,
            given: Vec::new(),
        }
    }

    /// The name of a phase with this load; the first is the base.
    pub(super) fn of(&mut self, load: [DirectionRates; 2]) -> String {
        let name = if self.given.is_empty() {
            "base"
        } else {
            difference(self.base, load)
        };
        let before = self.given.iter().filter(|given| *given == name).count();
        self.given.push(name.into());
        match before {
            0 => name.into(),
            n => format!("{name} {}", n + 1),
        }
    }
}

/// The figure in which the load differs from the base by the largest factor.
fn difference(base: [DirectionRates; 2], load: [DirectionRates; 2]) -> &'static str {
    // One operation per second more or less is nothing where there are hardly any.
    let rate = |rates: DirectionRates| rates.ops_per_s.ln_1p();
    let size = |rates: DirectionRates| ratio(rates.bytes_per_s, rates.ops_per_s).max(1.0).ln();
    let both = |at: usize| {
        (
            rate(load[at]) - rate(base[at]),
            size(load[at]) - size(base[at]),
        )
    };
    let ((reads, read_size), (writes, write_size)) = (both(0), both(1));
    let candidates = [
        (reads, "more reads", "fewer reads"),
        (writes, "more writes", "fewer writes"),
        (read_size, "larger reads", "smaller reads"),
        (write_size, "larger writes", "smaller writes"),
    ];
    let most = candidates
        .iter()
        .max_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
    match most {
        Some((by, more, _)) if *by > 0.0 => more,
        Some((_, _, fewer)) => fewer,
        None => "other",
    }
}
