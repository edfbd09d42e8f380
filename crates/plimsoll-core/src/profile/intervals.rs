// SPDX-License-Identifier: Apache-2.0
//! The intervals of a recording as a table: what each held, and the same drawn together for charts.

use serde::{Deserialize, Serialize};

use crate::num::{floor_u64, to_usize};

/// Figures of one interval of a device. Figures that were not recorded, or do not count because of
/// a gap, a reset or a wrap, are `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntervalRow {
    /// Its start, nanoseconds since 1970 (since the start of a recording without a date).
    pub from_unix_ns: u64,
    /// Its end.
    pub to_unix_ns: u64,
    /// Operations of all kinds that were recorded.
    pub ops: Option<f64>,
    /// Reads. Not whole where a logger wrote its counters at other instants.
    pub reads: Option<f64>,
    /// Writes.
    pub writes: Option<f64>,
    /// Bytes read.
    pub read_bytes: Option<f64>,
    /// Bytes written.
    pub write_bytes: Option<f64>,
    /// Share of the time with something in flight, 0..=1.
    pub busy: Option<f64>,
    /// Mean operations waiting or being served; of samples at instants their mean.
    pub queue: Option<f64>,
    /// Seconds that the reads which ended in it took together.
    pub read_time_s: Option<f64>,
    /// Seconds that the writes which ended in it took together.
    pub write_time_s: Option<f64>,
}

impl IntervalRow {
    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.to_unix_ns.saturating_sub(self.from_unix_ns) as f64 / 1e9
    }

    /// Whether anything of it counts.
    pub fn is_known(&self) -> bool {
        let figures = [self.ops, self.read_bytes, self.write_bytes, self.busy];
        figures.iter().any(Option::is_some) || self.queue.is_some()
    }

    /// Mean response time of reads in seconds; `None` without reads or their times.
    pub fn read_response_s(&self) -> Option<f64> {
        quotient(self.read_time_s, self.reads)
    }

    /// Mean response time of writes in seconds.
    pub fn write_response_s(&self) -> Option<f64> {
        quotient(self.write_time_s, self.writes)
    }
}

/// `part / whole`, where both are known and there is something to share it.
fn quotient(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    let whole = whole.filter(|whole| *whole > 0.0)?;
    Some(part? / whole)
}

/// A point of a chart: one interval, or several neighbours together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfilePoint {
    /// From the start of what is shown to the start of the point, seconds.
    pub from_s: f64,
    /// To its end.
    pub to_s: f64,
    /// Reads per second.
    pub reads_per_s: Option<f64>,
    /// Reads per second of its busiest interval.
    pub reads_peak_per_s: Option<f64>,
    /// Writes per second.
    pub writes_per_s: Option<f64>,
    /// Writes per second of its busiest interval.
    pub writes_peak_per_s: Option<f64>,
    /// Bytes read per second.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes written per second.
    pub write_bytes_per_s: Option<f64>,
    /// Bytes per read.
    pub read_size_bytes: Option<f64>,
    /// Bytes per write.
    pub write_size_bytes: Option<f64>,
    /// Share of the time with something in flight, 0..=1.
    pub busy: Option<f64>,
    /// Mean operations waiting or being served.
    pub queue: Option<f64>,
    /// Mean response time of reads, milliseconds.
    pub read_response_ms: Option<f64>,
    /// Mean response time of writes, milliseconds.
    pub write_response_ms: Option<f64>,
}

/// Intervals put together in a fixed number of equal steps, however many intervals come. Each step is
/// one point; a step with a gap in it is a point on either side.
#[derive(Debug, Clone)]
pub struct ProfileDownsampler {
    from_unix_ns: u64,
    step_ns: f64,
    bins: Vec<ProfileTimeBin>,
    /// Part of a step before a gap inside it; the rest of the step is in `bins`.
    before_gaps: Vec<ProfileTimeBin>,
}

/// A gap of this part of a step and more is a hole; what is shorter could not be seen.
const HOLE_MIN: f64 = 0.25;

/// Sums over the intervals of a step. Every figure has its own time, as it may be unknown.
#[derive(Debug, Clone, Copy, Default)]
struct ProfileTimeBin {
    from_unix_ns: u64,
    to_unix_ns: u64,
    sums: [(f64, f64); 8],
    reads_peak: f64,
    writes_peak: f64,
}

impl ProfileDownsampler {
    /// For what lies between two instants (nanoseconds since 1970). `points` of 0 counts as 1.
    pub fn new(from_unix_ns: u64, to_unix_ns: u64, points: usize) -> ProfileDownsampler {
        let points = points.max(1);
        let length = to_unix_ns.saturating_sub(from_unix_ns).max(1);
        ProfileDownsampler {
            from_unix_ns,
            step_ns: length as f64 / points as f64,
            bins: vec![ProfileTimeBin::default(); points],
            before_gaps: Vec::new(),
        }
    }

    /// Adds an interval, where its middle lies; one of which nothing counts is passed over.
    pub fn add(&mut self, row: &IntervalRow) {
        let seconds = row.seconds();
        if !row.is_known() || seconds <= 0.0 {
            return;
        }
        let middle = row.from_unix_ns / 2 + row.to_unix_ns / 2;
        let place = middle.saturating_sub(self.from_unix_ns) as f64 / self.step_ns;
        let place = to_usize(floor_u64(place));
        let is_inside = place < self.bins.len();
        let place = place.min(self.bins.len() - 1);
        let bin = &mut self.bins[place];
        let gap_ns = row.from_unix_ns.saturating_sub(bin.to_unix_ns) as f64;
        // Holes are that wide, so there are few in a step.
        if is_inside && bin.to_unix_ns > 0 && gap_ns >= HOLE_MIN * self.step_ns {
            self.before_gaps.push(std::mem::take(bin));
        }
        let is_first = bin.to_unix_ns == 0;
        bin.from_unix_ns = if is_first {
            row.from_unix_ns
        } else {
            bin.from_unix_ns.min(row.from_unix_ns)
        };
        bin.to_unix_ns = bin.to_unix_ns.max(row.to_unix_ns);
        let by_time = |share: Option<f64>| share.map(|share| share * seconds);
        let figures = [
            row.reads,
            row.writes,
            row.read_bytes,
            row.write_bytes,
            by_time(row.busy),
            by_time(row.queue),
            row.read_time_s,
            row.write_time_s,
        ];
        for (sum, figure) in bin.sums.iter_mut().zip(figures) {
            if let Some(figure) = figure {
                sum.0 += figure;
                sum.1 += seconds;
            }
        }
        bin.reads_peak = bin.reads_peak.max(row.reads.unwrap_or(0.0) / seconds);
        bin.writes_peak = bin.writes_peak.max(row.writes.unwrap_or(0.0) / seconds);
    }

    /// The points with anything in them, in order of time.
    #[must_use]
    pub fn finish(self) -> Vec<ProfilePoint> {
        let filled = self.bins.iter().filter(|bin| bin.to_unix_ns > 0);
        let mut filled: Vec<&ProfileTimeBin> = filled.chain(&self.before_gaps).collect();
        filled.sort_by_key(|bin| bin.from_unix_ns);
        filled.into_iter().map(|bin| self.point(bin)).collect()
    }

    fn point(&self, bin: &ProfileTimeBin) -> ProfilePoint {
        let since = |at: u64| at.saturating_sub(self.from_unix_ns) as f64 / 1e9;
        let rate = |i: usize| {
            let (sum, seconds) = bin.sums[i];
            (seconds > 0.0).then(|| sum / seconds)
        };
        let ms = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e3);
        let [reads, writes] = [rate(0), rate(1)];
        ProfilePoint {
            from_s: since(bin.from_unix_ns),
            to_s: since(bin.to_unix_ns),
            reads_per_s: reads,
            reads_peak_per_s: reads.map(|_| bin.reads_peak),
            writes_per_s: writes,
            writes_peak_per_s: writes.map(|_| bin.writes_peak),
            read_bytes_per_s: rate(2),
            write_bytes_per_s: rate(3),
            read_size_bytes: quotient(rate(2), reads),
            write_size_bytes: quotient(rate(3), writes),
            busy: rate(4),
            queue: rate(5),
            read_response_ms: ms(quotient(rate(6), reads)),
            write_response_ms: ms(quotient(rate(7), writes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn row(at_s: u64, reads: Option<f64>) -> IntervalRow {
        IntervalRow {
            from_unix_ns: (1_000 + at_s) * SECOND,
            to_unix_ns: (1_001 + at_s) * SECOND,
            ops: reads,
            reads,
            read_bytes: reads.map(|n| n * 4096.0),
            busy: reads.map(|_| 0.5),
            read_time_s: reads.map(|n| n * 0.002),
            ..IntervalRow::default()
        }
    }

    #[test]
    fn many_intervals_become_few_points_that_keep_means_and_peaks() {
        let mut points = ProfileDownsampler::new(1_000 * SECOND, 2_000 * SECOND, 100);
        for at_s in 0..1_000 {
            let reads = if at_s % 10 == 3 { 1_000.0 } else { 0.0 };
            points.add(&row(at_s, Some(reads)));
        }
        let points = points.finish();
        assert_eq!(points.len(), 100);
        let point = points[42];
        assert_eq!((point.from_s, point.to_s), (420.0, 430.0));
        assert_eq!(point.reads_per_s, Some(100.0));
        assert_eq!(point.reads_peak_per_s, Some(1_000.0));
        assert_eq!(point.read_size_bytes, Some(4096.0));
        assert_eq!(point.busy, Some(0.5));
        assert!((point.read_response_ms.unwrap() - 2.0).abs() < 1e-9);
        assert_eq!((point.writes_per_s, point.queue), (None, None));
    }

    #[test]
    fn what_does_not_count_leaves_a_hole_and_nothing_is_out_of_bounds() {
        let mut points = ProfileDownsampler::new(1_000 * SECOND, 1_010 * SECOND, 10);
        for at_s in 0..10 {
            points.add(&row(at_s, (at_s != 4).then_some(1.0)));
        }
        points.add(&row(500, Some(1.0)));
        let points = points.finish();
        assert_eq!(points.len(), 9);
        assert!(!points.iter().any(|p| p.from_s < 4.5 && p.to_s > 4.5));
        assert!(ProfileDownsampler::new(7, 7, 0).finish().is_empty());
    }

    #[test]
    fn a_gap_inside_a_step_is_a_hole_and_no_load_of_it() {
        // Two days of minutes, an hour of which is missing, in steps of two hours.
        let minute = |at_min: u64| IntervalRow {
            from_unix_ns: (1_000_000 + at_min * 60) * SECOND,
            to_unix_ns: (1_000_060 + at_min * 60) * SECOND,
            reads: Some(600.0),
            ops: Some(600.0),
            ..IntervalRow::default()
        };
        let end = minute(2_879).to_unix_ns;
        let mut points = ProfileDownsampler::new(minute(0).from_unix_ns, end, 24);
        let is_gap = |at: u64| (30..90).contains(&at) || at == 500;
        let rows = (0..2_880).filter(|at| !is_gap(*at)).map(minute);
        rows.for_each(|row| points.add(&row));
        let points = points.finish();
        // A single minute is too short to be seen.
        assert_eq!(points.len(), 25);
        let ends = |p: &ProfilePoint| (p.from_s, p.to_s);
        assert_eq!(ends(&points[0]), (0.0, 1_800.0));
        assert_eq!(ends(&points[1]), (5_400.0, 7_200.0));
        assert!(points.iter().all(|p| p.reads_per_s == Some(10.0)));
    }

    #[test]
    fn a_quiet_interval_has_no_response_time() {
        let quiet = row(0, Some(0.0));
        assert!(quiet.is_known());
        assert_eq!(quiet.read_response_s(), None);
        assert!(!row(0, None).is_known());
    }
}
