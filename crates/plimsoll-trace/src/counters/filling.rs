// SPDX-License-Identifier: Apache-2.0
//! Columns of one disk while they are being filled.
//!
//! Totals become differences between neighbours, as with every counter. Rates are differences
//! already, over an interval that the source gives or that lies between two of its reports; clocks
//! that print whole seconds make such intervals overlap or part by a second, so each begins where
//! the last ended, and only a longer hole is a gap.

use plimsoll_core::model::ModelEnvelope;

use super::row_clock::RowClock;
use super::{CounterRow, CounterSemantics};
use crate::series::{
    CounterInterval, DiskMetric, DiskSeries, GapJudge, IntervalVerdict, MetricSeries, PointSample,
};
use crate::window::RecordingWindow;

/// By how much the ends of an interval may be off where a clock prints whole seconds.
const CLOCK_STEP_NS: u64 = 1_000_000_000;
/// A second is less than a twentieth of longer intervals.
const LENGTH_BY_SECOND_MAX: f64 = 20.0;
/// Counters of 32 bits: all of old kernels, those of milliseconds of new ones.
const WRAPS_AT: f64 = 4_294_967_296.0;
/// More operations in flight than any disk has: a time that would rise faster was reset.
const IN_FLIGHT_MAX: f64 = 1e5;

/// The columns of one disk inside a window.
#[derive(Debug)]
pub(super) struct DiskSeriesBuilder {
    window: RecordingWindow,
    clock: RowClock,
    columns: Vec<FillingColumn>,
    /// Rows of which something was not later than what came before.
    out_of_order: u64,
}

/// A column, and where it stands.
#[derive(Debug)]
struct FillingColumn {
    metric: DiskMetric,
    into: GapJudge<MetricSeries>,
    /// When its last interval or sample ended; `None` before the first.
    last: Option<u64>,
    /// Where the next interval may begin.
    at_unix_ns: u64,
    total: f64,
    after_gap: bool,
    of_rates: bool,
}

impl DiskSeriesBuilder {
    pub(super) fn new(window: &RecordingWindow) -> DiskSeriesBuilder {
        DiskSeriesBuilder {
            window: *window,
            clock: RowClock::default(),
            columns: Vec::new(),
            out_of_order: 0,
        }
    }

    /// Takes what was found of the disk.
    pub(super) fn push(&mut self, found: &CounterRow<'_>) {
        let placed = self.clock.place(found);
        if placed.after_step {
            self.gap();
        }
        let (begin, at) = (placed.from_unix_ns, placed.at_unix_ns);
        if !self.window.contains(at) || !self.window.contains(begin) {
            return;
        }
        let downs = match found.what {
            CounterSemantics::Totals => self.went_down(found),
            CounterSemantics::Rates { .. } | CounterSemantics::Sums { .. } => 0,
        };
        // One alone may have wrapped.
        if downs > 1 {
            self.gap();
        }
        let mut is_later = true;
        for (metric, value, unit) in found.values {
            let place = self.columns.iter().position(|c| c.metric == *metric);
            let place = place.unwrap_or_else(|| {
                self.columns.push(FillingColumn::of(*metric, begin));
                self.columns.len() - 1
            });
            let column = &mut self.columns[place];
            // Twice what a model may have: a column may be on a finer grid than the model's.
            if column.into.held() > 2 * ModelEnvelope::CELLS_MAX {
                continue;
            }
            is_later &= match (metric.is_counter(), found.what) {
                (false, _) => column.sample(at, value * unit),
                (true, CounterSemantics::Totals) => {
                    let wraps = downs == 0 && metric.is_seconds();
                    column.total(at, *value, *unit, wraps)
                }
                (true, CounterSemantics::Rates { .. }) => column.rate((begin, at), value * unit),
                (true, CounterSemantics::Sums { .. }) => column.sum((begin, at), value * unit),
            };
        }
        self.out_of_order += u64::from(!is_later);
    }

    /// How many counters that hardly ever wrap went down before this row. If several did, the machine
    /// was started again, and none of the others gives a difference, not even one that rose.
    fn went_down(&self, found: &CounterRow<'_>) -> usize {
        let went_down = |metric: DiskMetric, value: f64| {
            let column = self.columns.iter().find(|c| c.metric == metric);
            column.is_some_and(|column| value < column.total)
        };
        let counted = found
            .values
            .iter()
            .filter(|(metric, ..)| metric.is_counter() && !metric.is_seconds());
        counted
            .filter(|(metric, value, _)| went_down(*metric, *value))
            .count()
    }

    /// The recording was interrupted here.
    pub(super) fn gap(&mut self) {
        for column in &mut self.columns {
            column.after_gap = true;
        }
    }

    /// The columns with what is in them.
    pub(super) fn finish(self, disk: &str, warnings: &[String]) -> DiskSeries {
        let mut warnings = warnings.to_vec();
        if self.out_of_order > 0 {
            warnings.push(format!(
                "{} reports of {disk} were not later than the one before and were left out",
                self.out_of_order
            ));
        }
        let columns = self.columns.into_iter().map(FillingColumn::finish);
        let mut columns: Vec<MetricSeries> = columns
            .filter(|column| !column.intervals.is_empty() || !column.samples.is_empty())
            .collect();
        columns.sort_by_key(|column| column.metric);
        warnings.extend(columns.first().and_then(whole_seconds));
        DiskSeries {
            disk: disk.into(),
            columns,
            damage: None,
            warnings,
        }
    }
}

/// A sentence where the ends of short intervals are known by the second only.
fn whole_seconds(column: &MetricSeries) -> Option<String> {
    let is_whole = |i: &CounterInterval| {
        let ends = [i.from_unix_ns, i.to_unix_ns];
        ends.iter().all(|at| at.is_multiple_of(CLOCK_STEP_NS))
    };
    let lengths = column.intervals.iter().map(CounterInterval::seconds);
    let mut lengths: Vec<f64> = lengths.collect();
    lengths.sort_by(f64::total_cmp);
    let usual = *lengths.get(lengths.len() / 2)?;
    let is_told = usual < LENGTH_BY_SECOND_MAX && column.intervals.iter().all(is_whole);
    is_told.then(|| {
        format!(
            "its times are whole seconds: an interval of {usual:.0} s is known to ±1 s (±{:.0} %), and \
             so are its counts, while means over all of them hold",
            100.0 / usual
        )
    })
}

impl FillingColumn {
    fn of(metric: DiskMetric, begin: u64) -> FillingColumn {
        FillingColumn {
            metric,
            into: GapJudge::of(metric),
            last: None,
            at_unix_ns: begin,
            total: f64::NAN,
            after_gap: false,
            of_rates: false,
        }
    }

    fn finish(self) -> MetricSeries {
        let mut column = self.into.finish();
        let long = |i: &&mut CounterInterval| i.verdict == IntervalVerdict::Long;
        // A clock that was set makes an interval long, but the rate is still over the true one.
        for interval in column
            .intervals
            .iter_mut()
            .filter(long)
            .filter(|_| self.of_rates)
        {
            (interval.difference, interval.verdict) = (0.0, IntervalVerdict::Gap);
        }
        column
    }

    fn interval(&mut self, from: u64, to: u64, difference: f64, verdict: IntervalVerdict) {
        self.into.interval(CounterInterval {
            from_unix_ns: from,
            to_unix_ns: to,
            difference,
            verdict,
        });
    }

    fn sample(&mut self, at: u64, value: f64) -> bool {
        if self.last.is_some_and(|last| at <= last) {
            return false;
        }
        self.into.sample(PointSample {
            at_unix_ns: at,
            value,
            after_gap: self.after_gap,
        });
        self.last = Some(at);
        self.after_gap = false;
        true
    }

    /// A counter as it stands; of one that `wraps` a fall is no reset.
    fn total(&mut self, at: u64, total: f64, unit: f64, wraps: bool) -> bool {
        if self.total.is_nan() {
            (self.at_unix_ns, self.total, self.after_gap) = (at, total, false);
            return true;
        }
        if at <= self.at_unix_ns {
            return false;
        }
        let mut rise = total - self.total;
        let most = IN_FLIGHT_MAX * (at - self.at_unix_ns) as f64 / 1e9;
        if rise < 0.0 && wraps && self.total < WRAPS_AT && (rise + WRAPS_AT) * unit <= most {
            rise += WRAPS_AT;
        }
        let (difference, verdict) = if self.after_gap {
            (0.0, IntervalVerdict::Gap)
        } else if rise >= 0.0 {
            (rise * unit, IntervalVerdict::Kept)
        } else {
            let wrapped = (self.total < WRAPS_AT).then_some((rise + WRAPS_AT) * unit);
            (0.0, IntervalVerdict::WentDown { as_wrap: wrapped })
        };
        self.interval(self.at_unix_ns, at, difference, verdict);
        (self.at_unix_ns, self.total, self.after_gap) = (at, total, false);
        true
    }

    /// Amount counted between two instants that the source names. Its interval is never moved to
    /// the end of the one before.
    fn sum(&mut self, (from, at): (u64, u64), difference: f64) -> bool {
        if at <= from || self.last.is_some_and(|last| from < last) {
            return false;
        }
        if let Some(last) = self.last.filter(|last| *last < from) {
            self.interval(last, from, 0.0, IntervalVerdict::Gap);
        }
        self.interval(from, at, difference, IntervalVerdict::Kept);
        (self.last, self.after_gap) = (Some(at), false);
        true
    }

    fn rate(&mut self, (from, at): (u64, u64), per_s: f64) -> bool {
        self.of_rates = true;
        let mut begin = from;
        if let Some(last) = self.last {
            let hole = from.saturating_sub(last);
            if hole <= CLOCK_STEP_NS.min(at.saturating_sub(from)) && !self.after_gap {
                begin = last;
            } else if hole > 0 {
                self.interval(last, from, 0.0, IntervalVerdict::Gap);
                self.last = Some(from);
            }
            begin = begin.max(self.last.unwrap_or(begin));
        }
        if at <= begin {
            return false;
        }
        let difference = per_s * (at - begin) as f64 / 1e9;
        self.interval(begin, at, difference, IntervalVerdict::Kept);
        self.last = Some(at);
        self.after_gap = false;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn filled(what: &[(u64, CounterSemantics, f64)]) -> Vec<(u64, u64, f64, bool)> {
        let window = RecordingWindow {
            from_unix_ns: 0,
            to_unix_ns: u64::MAX,
        };
        let mut filling = DiskSeriesBuilder::new(&window);
        for (at_s, what, value) in what {
            let values = [(DiskMetric::ReadTime, *value, 0.001)];
            filling.push(&CounterRow {
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
                    i.counts(),
                )
            })
            .collect()
    }

    #[test]
    fn totals_become_differences_and_one_that_wrapped_is_told() {
        let found = filled(&[
            (10, CounterSemantics::Totals, 1_000.0),
            (11, CounterSemantics::Totals, 3_000.0),
            (11, CounterSemantics::Totals, 3_000.0),
            (13, CounterSemantics::Totals, 500.0),
        ]);
        assert_eq!(found, [(10, 11, 2.0, true), (11, 13, 0.0, false)]);
    }

    #[test]
    fn the_milliseconds_of_a_kernel_are_counted_through_their_wrap() {
        let found = filled(&[
            (10, CounterSemantics::Totals, 4_294_966_000.0),
            (11, CounterSemantics::Totals, 704.0),
            (12, CounterSemantics::Totals, 1_704.0),
        ]);
        assert_eq!(found, [(10, 11, 2.0, true), (11, 12, 1.0, true)]);
    }

    #[test]
    fn a_machine_started_again_resets_all_its_counters_also_those_that_rose() {
        let window = RecordingWindow {
            from_unix_ns: 0,
            to_unix_ns: u64::MAX,
        };
        let mut filling = DiskSeriesBuilder::new(&window);
        let rows = [[900.0, 9e6, 10.0], [950.0, 9.5e6, 11.0], [20.0, 1e5, 500.0]];
        for (at_s, [reads, bytes, flushes]) in (1..).zip(rows) {
            let values = [
                (DiskMetric::Reads, reads, 1.0),
                (DiskMetric::ReadBytes, bytes, 1.0),
                (DiskMetric::Flushes, flushes, 1.0),
            ];
            filling.push(&CounterRow {
                disk: b"sda",
                at_unix_ns: at_s * S,
                what: CounterSemantics::Totals,
                values: &values,
            });
        }
        for column in filling.finish("sda", &[]).columns {
            let kept: Vec<bool> = column
                .intervals
                .iter()
                .map(CounterInterval::counts)
                .collect();
            assert_eq!(kept, [true, false], "{:?}", column.metric);
        }
    }

    #[test]
    fn rates_are_laid_end_to_end_and_holes_are_gaps() {
        let rates = |from_s: u64| CounterSemantics::Rates {
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
