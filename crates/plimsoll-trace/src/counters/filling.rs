// SPDX-License-Identifier: Apache-2.0
//! Columns of one disk while they are being filled.
//!
//! Totals become differences between neighbours, as with every counter. Rates are differences
//! already, over an interval that the source tells or that lies between two of its reports; clocks
//! that print whole seconds make such intervals overlap or part by a second, so each begins where
//! the last ended, and only a longer hole is a gap.

use plimsoll_core::model::Envelope;

use super::{Found, What};
use crate::series::{Column, DiskMetric, DiskSeries, Interval, PointSample, Verdict};
use crate::window::Window;

/// By how much the ends of an interval may be off where a clock prints whole seconds.
const CLOCK_STEP_NS: u64 = 1_000_000_000;
/// Counters of 32 bits: all of old kernels, those of milliseconds of new ones.
const WRAPS_AT: f64 = 4_294_967_296.0;

/// The columns of one disk inside a window.
#[derive(Debug)]
pub(super) struct Filling {
    window: Window,
    columns: Vec<(Column, Last)>,
    out_of_order: u64,
}

/// Where a column stands.
#[derive(Debug, Clone, Copy)]
struct Last {
    at_unix_ns: u64,
    total: f64,
    after_gap: bool,
}

impl Filling {
    pub(super) fn new(window: &Window) -> Filling {
        Filling {
            window: *window,
            columns: Vec::new(),
            out_of_order: 0,
        }
    }

    /// Takes what was found of the disk.
    pub(super) fn push(&mut self, found: &Found<'_>) {
        let at = found.at_unix_ns;
        let begin = match found.what {
            What::Totals => at,
            What::Rates { from_unix_ns } => from_unix_ns,
        };
        if !self.window.contains(at) || !self.window.contains(begin) {
            return;
        }
        for (metric, value, unit) in found.values {
            let place = self.columns.iter().position(|(c, _)| c.metric == *metric);
            let place = place.unwrap_or_else(|| {
                self.columns.push(Self::fresh(*metric, begin));
                self.columns.len() - 1
            });
            let (column, last) = &mut self.columns[place];
            // Twice what a model may have: a column may be on a finer grid than the model's.
            if column.intervals.len().max(column.samples.len()) > 2 * Envelope::CELLS_MAX {
                continue;
            }
            let is_later = match (metric.is_counter(), found.what) {
                (false, _) => sample(column, last, at, value * unit),
                (true, What::Totals) => total(column, last, at, *value, *unit),
                (true, What::Rates { .. }) => rate(column, last, (begin, at), value * unit),
            };
            self.out_of_order += u64::from(!is_later);
        }
    }

    /// The recording was interrupted here.
    pub(super) fn gap(&mut self) {
        for (_, last) in &mut self.columns {
            last.after_gap = true;
        }
    }

    /// The columns with what is in them.
    pub(super) fn finish(self, disk: &str, warnings: &[String]) -> DiskSeries {
        let mut warnings = warnings.to_vec();
        if self.out_of_order > 0 {
            warnings.push(format!(
                "{} figures of {disk} were not later than the ones before and were ignored",
                self.out_of_order
            ));
        }
        let columns = self.columns.into_iter().map(|(column, _)| column);
        let mut columns: Vec<Column> = columns
            .filter(|column| !column.intervals.is_empty() || !column.samples.is_empty())
            .collect();
        columns.sort_by_key(|column| column.metric);
        DiskSeries {
            disk: disk.into(),
            columns,
            damage: None,
            warnings,
        }
    }

    fn fresh(metric: DiskMetric, begin: u64) -> (Column, Last) {
        let column = Column {
            metric,
            intervals: Vec::new(),
            samples: Vec::new(),
        };
        let last = Last {
            at_unix_ns: begin,
            total: f64::NAN,
            after_gap: false,
        };
        (column, last)
    }
}

fn sample(column: &mut Column, last: &mut Last, at: u64, value: f64) -> bool {
    if column
        .samples
        .last()
        .is_some_and(|before| at <= before.at_unix_ns)
    {
        return false;
    }
    column.samples.push(PointSample {
        at_unix_ns: at,
        value,
        after_gap: last.after_gap,
    });
    last.after_gap = false;
    true
}

fn total(column: &mut Column, last: &mut Last, at: u64, total: f64, unit: f64) -> bool {
    if last.total.is_nan() {
        *last = Last {
            at_unix_ns: at,
            total,
            after_gap: false,
        };
        return true;
    }
    if at <= last.at_unix_ns {
        return false;
    }
    let rise = total - last.total;
    let (difference, verdict) = if last.after_gap {
        (0.0, Verdict::Gap)
    } else if rise >= 0.0 {
        (rise * unit, Verdict::Kept)
    } else {
        let wrapped = (last.total < WRAPS_AT).then_some((rise + WRAPS_AT) * unit);
        (0.0, Verdict::WentDown { as_wrap: wrapped })
    };
    column.intervals.push(Interval {
        from_unix_ns: last.at_unix_ns,
        to_unix_ns: at,
        difference,
        verdict,
    });
    *last = Last {
        at_unix_ns: at,
        total,
        after_gap: false,
    };
    true
}

fn rate(column: &mut Column, last: &mut Last, (from, at): (u64, u64), per_s: f64) -> bool {
    let mut begin = from;
    if !column.intervals.is_empty() {
        let hole = from.saturating_sub(last.at_unix_ns);
        if hole <= CLOCK_STEP_NS.min(at.saturating_sub(from)) && !last.after_gap {
            begin = last.at_unix_ns;
        } else if hole > 0 {
            column.intervals.push(Interval {
                from_unix_ns: last.at_unix_ns,
                to_unix_ns: from,
                difference: 0.0,
                verdict: Verdict::Gap,
            });
            last.at_unix_ns = from;
        }
        begin = begin.max(last.at_unix_ns);
    }
    if at <= begin {
        return false;
    }
    column.intervals.push(Interval {
        from_unix_ns: begin,
        to_unix_ns: at,
        difference: per_s * (at - begin) as f64 / 1e9,
        verdict: Verdict::Kept,
    });
    last.at_unix_ns = at;
    last.after_gap = false;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn filled(what: &[(u64, What, f64)]) -> Vec<(u64, u64, f64, bool)> {
        let window = Window {
            from_unix_ns: 0,
            to_unix_ns: u64::MAX,
        };
        let mut filling = Filling::new(&window);
        for (at_s, what, value) in what {
            let values = [(DiskMetric::ReadTime, *value, 0.001)];
            filling.push(&Found {
                disk: b"sda",
                at_unix_ns: at_s * S,
                what: *what,
                values: &values,
            });
        }
        let series = filling.finish("sda", &[]);
        let intervals = series.columns[0].intervals.iter();
        intervals
            .map(|i| {
                (
                    i.from_unix_ns / S,
                    i.to_unix_ns / S,
                    i.difference,
                    i.is_kept(),
                )
            })
            .collect()
    }

    #[test]
    fn totals_become_differences_and_one_that_wrapped_is_told() {
        let found = filled(&[
            (10, What::Totals, 1_000.0),
            (11, What::Totals, 3_000.0),
            (11, What::Totals, 3_000.0),
            (13, What::Totals, 500.0),
        ]);
        assert_eq!(found, [(10, 11, 2.0, true), (11, 13, 0.0, false)]);
    }

    #[test]
    fn rates_are_laid_end_to_end_and_holes_are_gaps() {
        let rates = |from_s: u64| What::Rates {
            from_unix_ns: from_s * S,
        };
        let found = filled(&[
            (10, rates(0), 1_000.0),
            (21, rates(11), 1_000.0),
            (30, rates(20), 1_000.0),
            (50, rates(40), 1_000.0),
        ]);
        let expect = [
            (0, 10, 10.0, true),
            (10, 21, 11.0, true),
            (21, 30, 9.0, true),
            (30, 40, 0.0, false),
            (40, 50, 10.0, true),
        ];
        assert_eq!(found, expect);
    }
}
