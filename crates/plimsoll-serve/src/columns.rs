// SPDX-License-Identifier: Apache-2.0
//! The seconds of a run as columns, with coarser levels above them: any stretch of any length is drawn from
//! about as many values as it has points.

/// Rows of a level that make one of the level above.
const JOINED: usize = 16;

/// A figure of each second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SecondMetric {
    Iops,
    Bandwidth,
    P50,
    P99,
}

impl SecondMetric {
    const ALL: usize = 4;

    /// The quantity of its values, for axes.
    pub(crate) fn quantity(self) -> &'static str {
        match self {
            SecondMetric::Iops => "operations per second",
            SecondMetric::Bandwidth => "bytes per second",
            SecondMetric::P50 | SecondMetric::P99 => "seconds",
        }
    }
}

/// One second of a series. A value that there is none of is not a number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SecondRow {
    pub(crate) start_s: f64,
    pub(crate) length_s: f32,
    /// By [`SecondMetric`].
    pub(crate) values: [f32; SecondMetric::ALL],
}

/// The smallest, the mean and the largest of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ValueRange {
    low: f32,
    high: f32,
    sum: f64,
    count: u32,
}

impl ValueRange {
    const EMPTY: ValueRange = ValueRange {
        low: f32::INFINITY,
        high: f32::NEG_INFINITY,
        sum: 0.0,
        count: 0,
    };

    fn of(value: f32) -> ValueRange {
        match value.is_nan() {
            true => ValueRange::EMPTY,
            false => ValueRange {
                low: value,
                high: value,
                sum: value.into(),
                count: 1,
            },
        }
    }

    fn add(&mut self, other: &ValueRange) {
        self.low = self.low.min(other.low);
        self.high = self.high.max(other.high);
        self.sum += other.sum;
        self.count += other.count;
    }
}

/// The values of one metric, and their levels.
#[derive(Debug, Default)]
struct MetricColumn {
    values: Vec<f32>,
    levels: Vec<Vec<ValueRange>>,
}

impl MetricColumn {
    fn push(&mut self, value: f32) {
        self.values.push(value);
        let mut done = self.values.len();
        let mut level = 0;
        while done.is_multiple_of(JOINED) {
            let joined = match level {
                0 => total(
                    self.values[done - JOINED..]
                        .iter()
                        .map(|value| ValueRange::of(*value)),
                ),
                _ => total(self.levels[level - 1][done - JOINED..].iter().copied()),
            };
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            self.levels[level].push(joined);
            done = self.levels[level].len();
            level += 1;
        }
    }

    /// All values from row `from` up to row `to`.
    fn range(&self, mut from: usize, to: usize) -> ValueRange {
        let mut all = ValueRange::EMPTY;
        while from < to {
            let mut rows = 1;
            let mut found = ValueRange::of(self.values[from]);
            for level in &self.levels {
                let wider = rows * JOINED;
                let Some(joined) = level.get(from / wider) else {
                    break;
                };
                if !from.is_multiple_of(wider) || from + wider > to {
                    break;
                }
                (rows, found) = (wider, *joined);
            }
            all.add(&found);
            from += rows;
        }
        all
    }
}

fn total(ranges: impl Iterator<Item = ValueRange>) -> ValueRange {
    ranges.fold(ValueRange::EMPTY, |mut all, one| {
        all.add(&one);
        all
    })
}

/// Points of a curve: `None` where nothing was measured.
#[derive(Debug, Default, PartialEq, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SeriesPoints {
    t: Vec<f64>,
    low: Vec<Option<f32>>,
    mid: Vec<Option<f32>>,
    high: Vec<Option<f32>>,
}

impl SeriesPoints {
    fn push(&mut self, t: f64, range: &ValueRange) {
        let is_gap = range.count == 0;
        // One gap is as good as many.
        if is_gap && self.mid.last().is_none_or(Option::is_none) {
            return;
        }
        let value = |value: f32| (!is_gap).then_some(value);
        self.t.push(t);
        self.low.push(value(range.low));
        self.high.push(value(range.high));
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a mean of numbers of that size"
        )]
        self.mid
            .push(value((range.sum / f64::from(range.count.max(1))) as f32));
    }
}

/// The seconds of one arm under one workload, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct SeriesColumns {
    starts: Vec<f64>,
    lengths: Vec<f32>,
    metrics: [MetricColumn; SecondMetric::ALL],
}

impl SeriesColumns {
    pub(crate) fn push(&mut self, row: &SecondRow) {
        self.starts.push(row.start_s);
        self.lengths.push(row.length_s);
        let columns = self.metrics.iter_mut().zip(row.values);
        columns.for_each(|(column, value)| column.push(value));
    }

    /// At most `points` points of what began from `from_s` on and before `to_s`.
    pub(crate) fn points(
        &self,
        metric: SecondMetric,
        (from_s, to_s): (f64, f64),
        points: usize,
    ) -> SeriesPoints {
        let row_of = |at: f64| self.starts.partition_point(|start| *start < at);
        let (first, last) = (row_of(from_s), row_of(to_s));
        let column = &self.metrics[metric as usize];
        let mut found = SeriesPoints::default();
        // Each second by itself, if there is room for a gap beside each.
        if (last - first) * 2 <= points {
            let mut ended = f64::INFINITY;
            for row in first..last {
                let (start, length) = (self.starts[row], f64::from(self.lengths[row]));
                if start - ended > length / 2.0 {
                    found.push(ended, &ValueRange::EMPTY);
                }
                found.push(start + length / 2.0, &ValueRange::of(column.values[row]));
                ended = start + length;
            }
            return found;
        }
        let width = (to_s - from_s) / points as f64;
        let mut begin = first;
        for step in 0..points {
            let end = match step + 1 == points {
                true => last,
                false => row_of(from_s + (step + 1) as f64 * width).clamp(begin, last),
            };
            found.push(
                from_s + (step as f64 + 0.5) * width,
                &column.range(begin, end),
            );
            begin = end;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(rows: usize) -> SeriesColumns {
        let mut columns = SeriesColumns::default();
        for row in 0..rows {
            let value = (row * 7919 % 1009) as f32;
            columns.push(&SecondRow {
                start_s: row as f64,
                length_s: 1.0,
                values: [value, f32::NAN, value / 2.0, value],
            });
        }
        columns
    }

    #[test]
    fn every_level_gives_what_the_rows_give() {
        let columns = filled(5000);
        let column = &columns.metrics[0];
        for (from, to) in [
            (0, 5000),
            (1, 4999),
            (16, 4096),
            (255, 257),
            (3, 3),
            (4096, 5000),
        ] {
            let direct = total(column.values[from..to].iter().map(|v| ValueRange::of(*v)));
            assert_eq!(column.range(from, to), direct, "{from}..{to}");
        }
    }

    #[test]
    fn a_long_stretch_has_as_many_points_as_were_asked_for() {
        let columns = filled(5000);
        let all = columns.points(SecondMetric::Iops, (0.0, 5000.0), 100);
        assert_eq!(all.t.len(), 100);
        assert!(
            all.low
                .iter()
                .zip(&all.high)
                .all(|(low, high)| low.unwrap() < high.unwrap())
        );
        assert!((all.t[0] - 25.0).abs() < 1e-9);
        let near = columns.points(SecondMetric::P50, (10.0, 13.0), 100);
        assert_eq!(near.t, [10.5, 11.5, 12.5]);
        assert_eq!(near.mid, near.low);
        // A figure that was not measured has no points.
        let none = columns.points(SecondMetric::Bandwidth, (0.0, 5000.0), 100);
        assert_eq!(none, SeriesPoints::default());
    }

    #[test]
    fn where_another_arm_is_measured_the_curve_is_broken() {
        let mut columns = SeriesColumns::default();
        for start in [0.0, 1.0, 10.0, 11.0] {
            columns.push(&SecondRow {
                start_s: start,
                length_s: 1.0,
                values: [1.0; 4],
            });
        }
        let points = columns.points(SecondMetric::P99, (0.0, 12.0), 50);
        assert_eq!(points.t, [0.5, 1.5, 2.0, 10.5, 11.5]);
        assert_eq!(points.mid[2], None);
        let coarse = columns.points(SecondMetric::P99, (0.0, 12.0), 6);
        assert_eq!(coarse.mid, [Some(1.0), None, Some(1.0)]);
    }
}
