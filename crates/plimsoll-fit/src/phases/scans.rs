// SPDX-License-Identifier: Apache-2.0
//! Scans: stretches whose reads are much larger and move much more than those around them.
//!
//! A scan (a report, a backup, a check of a file system) lies on top of what goes on anyway. What
//! goes on anyway, the *base*, is the median interval: scans are short by definition.

use std::ops::Range;

use plimsoll_core::model::{IoDirection, ModelInterval};
use plimsoll_core::num::ratio;

use super::changes::stretches;
use super::figures::PhaseLogSeries;
use super::{join, seconds};
use crate::binned::{quantile, sorted};

/// Fewest intervals of a scan: one interval alone is an outlier.
const STRETCH_MIN: usize = 2;
/// Least ratio of the bytes read per second in a scan and in the base.
const BYTES_RATIO_MIN: f64 = 3.0;
/// Least ratio of the mean sizes of what a scan reads itself and of the base's reads.
const SIZE_RATIO_MIN: f64 = 1.5;
/// An interval at the edge of a scan belongs to it when its bytes per second and its mean size are
/// this many times the base's: the scan began or ended inside it.
const EDGE_RATIO_MIN: f64 = 1.5;
/// Least mean size where the base reads nothing that could be compared with.
const SIZE_MIN_BYTES: f64 = 32_768.0;
/// Largest share of the time that scans may take; what takes more is no exception.
const SHARE_MAX: f64 = 0.25;

/// The reads of a typical interval.
#[derive(Debug, Clone, Copy)]
struct ScanBaseline {
    ops_per_s: f64,
    bytes_per_s: f64,
}

/// Scans by the numbers of their cells, in order, apart from each other.
pub(crate) fn find(cells: &[ModelInterval]) -> Vec<Range<usize>> {
    let base = ScanBaseline::of(cells);
    let figures = PhaseLogSeries::of(cells, IoDirection::Read, &|_| true);
    let mut found: Vec<Range<usize>> = Vec::new();
    for stretch in stretches(&figures, STRETCH_MIN) {
        if !base.is_below(&cells[stretch.clone()]) {
            continue;
        }
        join(&mut found, stretch);
    }
    let mut found: Vec<_> = found
        .into_iter()
        .map(|stretch| base.edges(cells, stretch))
        .filter(|stretch| stretch.len() >= STRETCH_MIN)
        .collect();
    let inside: f64 = found
        .iter()
        .map(|stretch| seconds(&cells[stretch.clone()]))
        .sum();
    if inside > SHARE_MAX * seconds(cells) {
        found.clear();
    }
    found
}

fn bytes_per_s(cell: &ModelInterval) -> f64 {
    ratio(cell.read.bytes as f64, cell.length.as_secs_f64())
}

impl ScanBaseline {
    fn of(cells: &[ModelInterval]) -> ScanBaseline {
        let median = |of: &dyn Fn(&ModelInterval) -> f64| {
            let values: Vec<f64> = cells.iter().map(of).collect();
            quantile(&sorted(&values), 0.5)
        };
        ScanBaseline {
            ops_per_s: median(&|cell| cell.ops_per_s(IoDirection::Read)),
            bytes_per_s: median(&bytes_per_s),
        }
    }

    /// Whether a stretch is a scan on top of this base: most of its intervals are, so that one
    /// outlier does not make its neighbours one.
    fn is_below(&self, stretch: &[ModelInterval]) -> bool {
        let scanning = stretch.iter().filter(|cell| self.is_scanned(cell)).count();
        scanning >= STRETCH_MIN && 2 * scanning > stretch.len()
    }

    fn is_scanned(&self, cell: &ModelInterval) -> bool {
        let bytes = bytes_per_s(cell);
        let own_ops = cell.ops_per_s(IoDirection::Read) - self.ops_per_s;
        let own_bytes = bytes - self.bytes_per_s;
        // Fewer reads than the base's, but larger: their own size is then the plain mean.
        let own_size = if own_ops > 0.1 * self.ops_per_s {
            ratio(own_bytes, own_ops)
        } else {
            ratio(bytes, cell.ops_per_s(IoDirection::Read))
        };
        let size = ratio(self.bytes_per_s, self.ops_per_s);
        let size_min = if size > 0.0 {
            SIZE_RATIO_MIN * size
        } else {
            SIZE_MIN_BYTES
        };
        bytes > BYTES_RATIO_MIN * self.bytes_per_s && own_size > size_min
    }

    /// Whether a scan may have begun or ended in an interval next to it.
    fn is_touched(&self, cell: &ModelInterval) -> bool {
        let bytes = bytes_per_s(cell);
        let size = ratio(bytes, cell.ops_per_s(IoDirection::Read));
        bytes > EDGE_RATIO_MIN * self.bytes_per_s
            && size * self.ops_per_s > EDGE_RATIO_MIN * self.bytes_per_s
    }

    /// The stretch without the intervals at its ends in which nothing was scanned, and with those
    /// next to it in which the scan began or ended.
    fn edges(&self, cells: &[ModelInterval], stretch: Range<usize>) -> Range<usize> {
        let touched = |at: usize| self.is_touched(&cells[at]);
        let Range { mut start, mut end } = stretch;
        while start < end && !self.is_scanned(&cells[start]) {
            start += 1;
        }
        while end > start && !self.is_scanned(&cells[end - 1]) {
            end -= 1;
        }
        if start > 0 && start < end && touched(start - 1) {
            start -= 1;
        }
        if end < cells.len() && start < end && touched(end) {
            end += 1;
        }
        start..end
    }
}
