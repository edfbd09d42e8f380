// SPDX-License-Identifier: Apache-2.0
//! Phases of a recording, found without hints.
//!
//! Scans are taken out first, periodic bursts next; what is left is divided where its rates or
//! sizes change, and stretches that are alike are one phase. The phase with most time is the base,
//! and what another phase has beyond it is its own load.

mod changes;
mod figures;
mod mixture;
mod names;
mod scans;

use std::ops::Range;

use plimsoll_core::model::{
    BurstPattern, DirectionLoad, DirectionRates, IoDirection, ModelInterval, ModelPhase,
    ModelPhaseSpan,
};
use plimsoll_core::num::{ratio, round_u64, to_usize};

use crate::binned::{quantile, sorted};
use crate::bursts::{self, median_length_s};
use crate::cells::IntervalGrid;
use figures::PhaseLogSeries;

/// Fewest intervals of a phase that is no scan: less is a fluctuation.
const PHASE_MIN: usize = 4;

/// Fewest operations per interval, in the mean, of a direction whose load has phases.
const OPS_MIN: f64 = 1.0;

/// Phases on top of the load of one disk, found in its recorded intervals.
pub(crate) struct PhaseDetection {
    scans: Vec<Range<usize>>,
    /// The intervals without scans.
    calm: Vec<ModelInterval>,
    /// Bursts, at most one pattern per direction.
    pub(crate) bursts: Vec<BurstPattern>,
}

impl PhaseDetection {
    pub(crate) fn of(found: &IntervalGrid) -> PhaseDetection {
        let scans = scans::find(&found.cells);
        let calm = without(&found.cells, &scans);
        let patterns =
            IoDirection::BOTH.map(|direction| bursts::find(&found.cells, &calm, direction));
        PhaseDetection {
            scans,
            calm,
            bursts: patterns.into_iter().flatten().collect(),
        }
    }

    /// The phases, the base first, scans last; none where the load was alike throughout. `civil`
    /// formats instants as people read them.
    pub(crate) fn phases(
        &self,
        found: &IntervalGrid,
        civil: &dyn Fn(u64) -> String,
    ) -> Vec<ModelPhase> {
        let mut kinds = self.kinds();
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.iter().map(Range::len).sum::<usize>()));
        let Some(base) = kinds.first().map(|kind| load(&found.cells, kind)) else {
            return Vec::new();
        };
        if kinds.len() == 1 && self.scans.is_empty() {
            return Vec::new();
        }
        let mut names = names::PhaseNames::new(base);
        let mut phases: Vec<ModelPhase> = kinds
            .iter()
            .map(|kind| {
                let name = names.of(load(&found.cells, kind));
                phase(found, (name, kind), base, civil)
            })
            .collect();
        if !self.scans.is_empty() {
            phases.push(phase(found, ("scan".into(), &self.scans), base, civil));
        }
        phases[0].own = None;
        phases
    }

    /// Stretches of each kind outside scans; neighbours are joined.
    fn kinds(&self) -> Vec<Vec<Range<usize>>> {
        let figures: Vec<PhaseLogSeries> = IoDirection::BOTH
            .into_iter()
            .filter(|direction| self.has_load(*direction))
            .flat_map(|direction| {
                let tells = self.tells(direction);
                PhaseLogSeries::of(&self.calm, direction, &|at| tells[at])
            })
            .collect();
        if figures.is_empty() {
            let all = self.outside(&(0..self.calm.len()));
            return [all].into_iter().filter(|kind| !kind.is_empty()).collect();
        }
        let stretches = changes::stretches(&figures, self.least());
        let mut kinds = vec![Vec::new(); stretches.len()];
        for (stretch, kind) in stretches.iter().zip(mixture::kinds(&stretches, &figures)) {
            for part in self.outside(stretch) {
                join(&mut kinds[kind], part);
            }
        }
        kinds.retain(|kind| !kind.is_empty());
        kinds
    }

    /// Whether there is enough of a direction to be distinguished from chance.
    fn has_load(&self, direction: IoDirection) -> bool {
        let ops = self.calm.iter().map(|cell| cell.load(direction).ops as f64);
        ops.sum::<f64>() >= OPS_MIN * self.calm.len() as f64
    }

    /// Fewest intervals of a phase: what is shorter than a period cannot be distinguished from its bursts.
    fn least(&self) -> usize {
        let longest = self
            .bursts
            .iter()
            .filter_map(|b| b.period_s)
            .fold(0.0, f64::max);
        let intervals = longest / median_length_s(&self.calm);
        PHASE_MIN.max(to_usize(round_u64(1.5 * intervals)))
    }

    /// The parts of a stretch that no scan takes.
    fn outside(&self, stretch: &Range<usize>) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut start = stretch.start;
        for scan in &self.scans {
            if scan.end <= start || scan.start >= stretch.end {
                continue;
            }
            if scan.start > start {
                parts.push(start..scan.start);
            }
            start = scan.end;
        }
        if start < stretch.end {
            parts.push(start..stretch.end);
        }
        parts
    }

    /// Whether each interval shows the load below scans and periodic bursts. A burst also covers the interval
    /// before and the one after it, in which it began or ended. A stretch that lasts a period or longer is no
    /// burst.
    fn tells(&self, direction: IoDirection) -> Vec<bool> {
        let n = self.calm.len();
        let mut tells = vec![true; n];
        if direction == IoDirection::Read {
            self.scans
                .iter()
                .cloned()
                .flatten()
                .for_each(|at| tells[at] = false);
        }
        let found = self.bursts.iter().find(|b| b.direction == direction);
        let Some((bursts, period_s)) = found.and_then(|b| Some((b, b.period_s?))) else {
            return tells;
        };
        let is_burst = |at: usize| self.calm[at].ops_per_s(direction) > bursts.threshold_per_s;
        let mut start = 0;
        // Each turn ends behind a burst.
        while let Some(from) = (start..n).find(|at| is_burst(*at)) {
            let to = (from..n).find(|at| !is_burst(*at)).unwrap_or(n);
            if seconds(&self.calm[from..to]) < period_s {
                tells[from.saturating_sub(1)..(to + 1).min(n)].fill(false);
            }
            start = to;
        }
        tells
    }
}

/// Mean load of some stretches, reads then writes.
fn load(cells: &[ModelInterval], stretches: &[Range<usize>]) -> [DirectionRates; 2] {
    let inside = || stretches.iter().flat_map(|s| &cells[s.clone()]);
    let seconds: f64 = inside().map(|cell| cell.length.as_secs_f64()).sum();
    IoDirection::BOTH.map(|direction| {
        let sum =
            |of: fn(DirectionLoad) -> u64| inside().map(|c| of(c.load(direction)) as f64).sum();
        DirectionRates {
            ops_per_s: ratio(sum(|load| load.ops), seconds),
            bytes_per_s: ratio(sum(|load| load.bytes), seconds),
        }
    })
}

fn phase(
    found: &IntervalGrid,
    (name, stretches): (String, &[Range<usize>]),
    base: [DirectionRates; 2],
    civil: &dyn Fn(u64) -> String,
) -> ModelPhase {
    let inside = stretches.iter().map(|s| seconds(&found.cells[s.clone()]));
    let load = load(&found.cells, stretches);
    let own = |of: usize| DirectionRates {
        ops_per_s: (load[of].ops_per_s - base[of].ops_per_s).max(0.0),
        bytes_per_s: (load[of].bytes_per_s - base[of].bytes_per_s).max(0.0),
    };
    let stretch = |cells: &Range<usize>| ModelPhaseSpan {
        first: cells.start as u64,
        intervals: cells.len() as u64,
        from: civil(found.starts_unix_ns[cells.start]),
        to: civil(found.starts_unix_ns[cells.end - 1] + found.cells[cells.end - 1].length.0),
    };
    ModelPhase {
        name,
        stretches: stretches.iter().map(stretch).collect(),
        share: ratio(inside.sum(), seconds(&found.cells)),
        load,
        own: Some([own(0), own(1)]),
    }
}

/// How long cells last together.
fn seconds(cells: &[ModelInterval]) -> f64 {
    cells.iter().map(|cell| cell.length.as_secs_f64()).sum()
}

/// Appends a stretch, or lengthens the last one if it follows at once.
fn join(stretches: &mut Vec<Range<usize>>, next: Range<usize>) {
    match stretches.last_mut() {
        Some(last) if last.end == next.start => last.end = next.end,
        _ => stretches.push(next),
    }
}

/// The cells with the reads of a typical interval in those that were scanned: the load without
/// what lies on top of it for once.
fn without(cells: &[ModelInterval], scans: &[Range<usize>]) -> Vec<ModelInterval> {
    let mut calm = cells.to_vec();
    if scans.is_empty() {
        return calm;
    }
    let outside: Vec<&ModelInterval> = cells
        .iter()
        .enumerate()
        .filter(|(at, _)| !scans.iter().any(|scan| scan.contains(at)))
        .map(|(_, cell)| cell)
        .collect();
    let median = |of: &dyn Fn(&ModelInterval) -> u64| {
        let per_s = |cell: &&ModelInterval| ratio(of(cell) as f64, cell.length.as_secs_f64());
        let values: Vec<f64> = outside.iter().map(per_s).collect();
        quantile(&sorted(&values), 0.5)
    };
    let (ops_per_s, bytes_per_s) = (median(&|c| c.read.ops), median(&|c| c.read.bytes));
    for at in scans.iter().cloned().flatten() {
        let cell = &mut calm[at];
        let seconds = cell.length.as_secs_f64();
        cell.read = DirectionLoad {
            ops: round_u64(ops_per_s * seconds),
            bytes: round_u64(bytes_per_s * seconds),
        };
    }
    calm
}
