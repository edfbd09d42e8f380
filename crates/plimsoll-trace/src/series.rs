// SPDX-License-Identifier: Apache-2.0
//! Figures of one disk in a recording, free of the recording's format.
//!
//! Counters become differences between samples, in bytes, seconds or operations. A difference
//! across a gap, or of a counter that went down, is kept with its verdict but never counted, as
//! the PCP tool pmlogsummary does. What counts as an interval is judged here, for every format:
//! records close together are one, and an interval much longer than those on both sides of it
//! counts, but does not show when its load came. Invariant: the intervals of a column follow each
//! other in time, each with a positive length.

use std::collections::VecDeque;

use crate::error::RecordingDamage;

/// A figure that is recorded for a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskMetric {
    /// Read operations, a counter.
    Reads,
    /// Write operations, a counter.
    Writes,
    /// Bytes read, a counter.
    ReadBytes,
    /// Bytes written, a counter.
    WriteBytes,
    /// Operations of all kinds, a counter; some sources have nothing finer.
    Ops,
    /// Discards, a counter.
    Discards,
    /// Bytes discarded, a counter.
    DiscardBytes,
    /// Flushes, a counter.
    Flushes,
    /// Reads that were joined to another before the disk got them, a counter.
    ReadMerges,
    /// The same of writes.
    WriteMerges,
    /// Seconds with something in flight, a counter; its rate is the utilisation.
    Active,
    /// Seconds with nothing in flight, a counter (Windows).
    Idle,
    /// Operations waiting or served, seen at an instant (Windows).
    QueueLength,
    /// Operations in flight, seen at an instant (Linux).
    InFlight,
    /// Operations in flight times seconds, a counter; its rate is the mean queue (Linux).
    QueueTime,
    /// Seconds that finished reads took together, a counter.
    ReadTime,
    /// Seconds that finished writes took together, a counter.
    WriteTime,
    /// Seconds that all finished operations took together, a counter.
    TotalTime,
}

plimsoll_core::named::named_variants! {
    DiskMetric,
    /// The name of the metric in PCP.
    pcp_name:
    Reads => "disk.dev.read",
    Writes => "disk.dev.write",
    ReadBytes => "disk.dev.read_bytes",
    WriteBytes => "disk.dev.write_bytes",
    Ops => "disk.dev.total",
    Discards => "disk.dev.discard",
    DiscardBytes => "disk.dev.discard_bytes",
    Flushes => "disk.dev.flush",
    ReadMerges => "disk.dev.read_merge",
    WriteMerges => "disk.dev.write_merge",
    Active => "disk.dev.avactive",
    Idle => "disk.dev.idle",
    QueueLength => "disk.dev.queue_len",
    InFlight => "disk.dev.inflight",
    QueueTime => "disk.dev.aveq",
    ReadTime => "disk.dev.read_rawactive",
    WriteTime => "disk.dev.write_rawactive",
    TotalTime => "disk.dev.total_rawactive",
}

impl DiskMetric {
    /// Its place among [`DiskMetric::ALL`].
    pub(crate) fn place(self) -> usize {
        self as usize
    }

    /// Whether it is a number of bytes.
    #[must_use]
    pub fn is_bytes(self) -> bool {
        matches!(
            self,
            DiskMetric::ReadBytes | DiskMetric::WriteBytes | DiskMetric::DiscardBytes
        )
    }

    /// Whether it is a number of seconds; what is neither bytes nor seconds is operations.
    #[must_use]
    pub fn is_seconds(self) -> bool {
        matches!(
            self,
            DiskMetric::Active
                | DiskMetric::Idle
                | DiskMetric::QueueTime
                | DiskMetric::ReadTime
                | DiskMetric::WriteTime
                | DiskMetric::TotalTime
        )
    }

    /// Whether it is a counter; else it is seen at instants.
    #[must_use]
    pub fn is_counter(self) -> bool {
        !matches!(self, DiskMetric::QueueLength | DiskMetric::InFlight)
    }
}

/// Verdict on a difference between two samples of a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum IntervalVerdict {
    /// It counts.
    Kept,
    /// The recording was interrupted, or the disk was another one, between the samples.
    Gap,
    /// It counts, but is far longer than its neighbours, so it does not show when in it the load came.
    Long,
    /// The counter went down: it was reset, or it wrapped.
    WentDown {
        /// The difference if it wrapped once, for types that wrap.
        as_wrap: Option<f64>,
    },
}

/// The difference of a counter between two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterInterval {
    /// The earlier sample, nanoseconds since 1970.
    pub from_unix_ns: u64,
    /// The later sample, nanoseconds since 1970; always later.
    pub to_unix_ns: u64,
    /// How much the counter rose (operations, bytes or seconds); 0 unless it counts.
    pub difference: f64,
    /// Whether it counts.
    pub verdict: IntervalVerdict,
}

impl CounterInterval {
    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.to_unix_ns.saturating_sub(self.from_unix_ns) as f64 / 1e9
    }

    /// Whether it counts.
    pub fn counts(&self) -> bool {
        matches!(self.verdict, IntervalVerdict::Kept | IntervalVerdict::Long)
    }

    /// Rise per second.
    pub fn rate(&self) -> f64 {
        self.difference / self.seconds()
    }
}

/// A figure as it was at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointSample {
    /// When, nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// How much.
    pub value: f64,
    /// Whether the recording was interrupted between the sample before and this one.
    pub after_gap: bool,
}

/// The two averages of a figure. They differ where intervals differ in length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetricAverages {
    /// Mean of the intervals' rates (or of the samples), each counting the same.
    pub stochastic: f64,
    /// Sum of the differences over the sum of the time; of samples, each holding until the next.
    pub time: f64,
    /// Intervals (or samples) that counted.
    pub count: u64,
    /// Sum of the differences; of samples, of each times the seconds that it held.
    pub whole: f64,
    /// The time of what counted, seconds.
    pub seconds: f64,
}

/// One figure over time.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSeries {
    /// Which figure.
    pub metric: DiskMetric,
    /// Differences, for a counter; else empty.
    pub intervals: Vec<CounterInterval>,
    /// Samples, for a figure seen at instants; else empty.
    pub samples: Vec<PointSample>,
}

impl MetricSeries {
    /// Both averages, exactly as pmlogsummary forms them (`-b`): per second for counters of
    /// operations and bytes, without dimension for counters of seconds. `None` when no interval
    /// (or sample) counts.
    pub fn averages(&self) -> Option<MetricAverages> {
        let mut tally = MetricAccumulator::of(self.metric);
        self.intervals.iter().for_each(|i| tally.interval(*i));
        self.samples.iter().for_each(|s| tally.sample(*s));
        tally.averages()
    }

    /// Intervals that do not count.
    pub fn dropped(&self) -> u64 {
        self.intervals.iter().filter(|i| !i.counts()).count() as u64
    }
}

/// Receiver of a figure's values in order of time: intervals of a counter, else samples.
pub(crate) trait MetricSink {
    fn of(metric: DiskMetric) -> Self;
    fn interval(&mut self, interval: CounterInterval);
    fn sample(&mut self, sample: PointSample);
    /// Intervals and samples that are held in memory.
    fn held(&self) -> usize;
}

impl MetricSink for MetricSeries {
    fn of(metric: DiskMetric) -> Self {
        MetricSeries {
            metric,
            intervals: Vec::new(),
            samples: Vec::new(),
        }
    }

    fn interval(&mut self, interval: CounterInterval) {
        self.intervals.push(interval);
    }

    fn sample(&mut self, sample: PointSample) {
        self.samples.push(sample);
    }

    fn held(&self) -> usize {
        self.intervals.len() + self.samples.len()
    }
}

/// The averages of a figure while it comes, of which nothing is held.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MetricAccumulator {
    /// Of rates, or of samples.
    sum: f64,
    count: u64,
    /// Of differences, or of samples times the seconds that they held.
    whole: f64,
    seconds: f64,
    ends: Option<(PointSample, PointSample)>,
}

impl MetricSink for MetricAccumulator {
    fn of(_: DiskMetric) -> Self {
        MetricAccumulator::default()
    }

    fn interval(&mut self, interval: CounterInterval) {
        if !interval.counts() {
            return;
        }
        self.sum += interval.rate();
        self.whole += interval.difference;
        self.seconds += interval.seconds();
        self.count += 1;
    }

    fn sample(&mut self, sample: PointSample) {
        let (first, last) = self.ends.unwrap_or((sample, sample));
        if !sample.after_gap {
            let held = sample.at_unix_ns.saturating_sub(last.at_unix_ns) as f64 / 1e9;
            self.whole += last.value * held;
            self.seconds += held;
        }
        self.ends = Some((first, sample));
        self.sum += sample.value;
        self.count += 1;
    }

    fn held(&self) -> usize {
        0
    }
}

impl MetricAccumulator {
    pub(crate) fn averages(&self) -> Option<MetricAverages> {
        // Samples that stand for no time, because each is alone.
        let alone = self.ends.filter(|_| self.seconds <= 0.0);
        (self.count > 0).then(|| MetricAverages {
            stochastic: self.sum / self.count as f64,
            time: alone.map_or(self.whole / self.seconds, |(first, _)| first.value),
            count: self.count,
            whole: self.whole,
            seconds: self.seconds,
        })
    }
}

/// An interval is long when it is more than this many times as long as those on both sides of it: the
/// recorder slept or hung. Records of a counter are joined when the pauses on both sides of them are more
/// than this many times as long as they are: two groups of a logger, or a job that takes several samples
/// at a time.
const LENGTHS_MAX: u64 = 20;
/// Intervals on either side that an interval is held beside, and most that are joined to one.
const NEIGHBOURS: usize = 8;

/// Lets intervals and samples through to a figure in their order, some later than they come. Joins
/// intervals that are much shorter than their neighbours, and marks those that are much longer. The
/// one place where that is judged.
#[derive(Debug)]
pub(crate) struct GapJudge<T> {
    into: T,
    /// Intervals that are short beside the last one before them.
    short: Vec<CounterInterval>,
    last_ns: Option<u64>,
    /// Lengths of the last ones that were not long.
    before: VecDeque<u64>,
    waiting: VecDeque<Spaced>,
    last_sample_ns: Option<u64>,
}

/// An interval, or a sample with the time since the one before.
#[derive(Debug, Clone, Copy)]
enum Spaced {
    Interval(CounterInterval),
    Sample(PointSample, Option<u64>),
}

impl Spaced {
    /// How long it is; `None` where it does not count anyway.
    fn length_ns(&self) -> Option<u64> {
        match self {
            Spaced::Interval(i) => i.counts().then(|| length_ns(i)),
            Spaced::Sample(sample, since) => since.filter(|_| !sample.after_gap),
        }
    }

    fn into_gap(self) -> Spaced {
        match self {
            Spaced::Interval(interval) => Spaced::Interval(CounterInterval {
                verdict: IntervalVerdict::Long,
                ..interval
            }),
            Spaced::Sample(sample, since) => {
                let after_gap = true;
                Spaced::Sample(
                    PointSample {
                        after_gap,
                        ..sample
                    },
                    since,
                )
            }
        }
    }
}

impl<T: MetricSink> GapJudge<T> {
    pub(crate) fn of(metric: DiskMetric) -> GapJudge<T> {
        GapJudge {
            into: T::of(metric),
            short: Vec::new(),
            last_ns: None,
            before: VecDeque::new(),
            waiting: VecDeque::new(),
            last_sample_ns: None,
        }
    }

    pub(crate) fn interval(&mut self, interval: CounterInterval) {
        let length = interval.counts().then(|| length_ns(&interval));
        let short_ns: u64 = self.short.iter().map(length_ns).sum();
        match (length, self.last_ns) {
            (Some(length), Some(last))
                if is_longer(last, short_ns + length) && self.short.len() < NEIGHBOURS =>
            {
                self.short.push(interval);
                return;
            }
            (Some(length), _) if is_longer(length, short_ns) => {
                let joined = self
                    .short
                    .drain(..)
                    .fold(interval, |joined, short| CounterInterval {
                        from_unix_ns: joined.from_unix_ns.min(short.from_unix_ns),
                        difference: joined.difference + short.difference,
                        ..joined
                    });
                self.push(Spaced::Interval(joined));
            }
            _ => {
                self.release();
                self.push(Spaced::Interval(interval));
            }
        }
        self.last_ns = length;
    }

    /// Short intervals are no part of a longer one.
    fn release(&mut self) {
        for short in std::mem::take(&mut self.short) {
            self.push(Spaced::Interval(short));
        }
    }

    pub(crate) fn sample(&mut self, sample: PointSample) {
        let last = self.last_sample_ns.replace(sample.at_unix_ns);
        let since = last.map(|last| sample.at_unix_ns.saturating_sub(last));
        let last = std::mem::replace(&mut self.last_ns, since);
        // One close to the one before does not show how far they usually lie apart.
        let since = since.filter(|since| !last.is_some_and(|last| is_longer(last, *since)));
        self.push(Spaced::Sample(sample, since));
    }

    /// Intervals and samples that are held in memory.
    pub(crate) fn held(&self) -> usize {
        self.into.held() + self.waiting.len()
    }

    /// There are no more.
    pub(crate) fn finish(mut self) -> T {
        self.release();
        while let Some(next) = self.waiting.pop_front() {
            self.pass(next);
        }
        self.into
    }

    fn push(&mut self, next: Spaced) {
        self.waiting.push_back(next);
        if self.waiting.len() > NEIGHBOURS
            && let Some(next) = self.waiting.pop_front()
        {
            self.pass(next);
        }
    }

    fn pass(&mut self, next: Spaced) {
        let next = match next.length_ns() {
            Some(length) if self.is_long(length) => next.into_gap(),
            Some(length) => {
                if self.before.len() == NEIGHBOURS {
                    self.before.pop_front();
                }
                self.before.push_back(length);
                next
            }
            None => next,
        };
        match next {
            Spaced::Interval(interval) => self.into.interval(interval),
            Spaced::Sample(sample, _) => self.into.sample(sample),
        }
    }

    fn is_long(&self, length: u64) -> bool {
        // Nearly all are as long as the one before.
        if self.before.back().is_some_and(|last| length <= 2 * last) {
            return false;
        }
        let before: Vec<u64> = self.before.iter().copied().collect();
        let after: Vec<u64> = self.waiting.iter().filter_map(Spaced::length_ns).collect();
        // One neighbour alone does not show which of the two is the odd one.
        if before.len() + after.len() < 2 {
            return false;
        }
        let usual = [before, after].into_iter().filter_map(lower_median).max();
        usual.is_some_and(|usual| is_longer(length, usual))
    }
}

fn length_ns(interval: &CounterInterval) -> u64 {
    interval.to_unix_ns.saturating_sub(interval.from_unix_ns)
}

/// Whether a length is many times another.
fn is_longer(length: u64, than: u64) -> bool {
    length > than.saturating_mul(LENGTHS_MAX)
}

/// The middle one, of an even number the lower of the two.
fn lower_median(mut lengths: Vec<u64>) -> Option<u64> {
    lengths.sort_unstable();
    let middle = lengths.len().checked_sub(1)? / 2;
    lengths.get(middle).copied()
}

/// Both averages of every figure that was recorded of a disk.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskAverages {
    /// The disk.
    pub disk: String,
    /// In the order of [`DiskMetric::ALL`], without those of which nothing counts.
    pub figures: Vec<(DiskMetric, MetricAverages)>,
}

impl DiskAverages {
    /// Of what is held of a disk.
    pub fn of(series: &DiskSeries) -> DiskAverages {
        let columns = series.columns.iter();
        DiskAverages {
            disk: series.disk.clone(),
            figures: columns
                .filter_map(|column| Some((column.metric, column.averages()?)))
                .collect(),
        }
    }

    /// Those of one figure, if it was recorded.
    pub fn figure(&self, metric: DiskMetric) -> Option<MetricAverages> {
        let found = self.figures.iter().find(|(known, _)| *known == metric);
        found.map(|(_, averages)| *averages)
    }
}

/// Everything recorded of one disk inside a window.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskSeries {
    /// The disk.
    pub disk: String,
    /// The figures that were recorded, in the order of [`DiskMetric::ALL`].
    pub columns: Vec<MetricSeries>,
    /// Where the recording stops being readable.
    pub damage: Option<RecordingDamage>,
    /// Other warnings for the reader, as sentences.
    pub warnings: Vec<String>,
}

impl DiskSeries {
    /// A figure, if it was recorded.
    pub fn column(&self, metric: DiskMetric) -> Option<&MetricSeries> {
        self.columns.iter().find(|column| column.metric == metric)
    }

    /// The intervals of the first counter, on which the others are laid; empty without counters.
    pub fn grid(&self) -> &[CounterInterval] {
        let first = self.columns.iter().find(|c| !c.intervals.is_empty());
        first.map_or(&[], |column| &column.intervals)
    }

    /// Both averages of a figure, if it was recorded.
    pub fn averages(&self, metric: DiskMetric) -> Option<MetricAverages> {
        self.column(metric)?.averages()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_figures_are_those_in_their_list() {
        assert_eq!(
            DiskMetric::ALL.map(DiskMetric::place).to_vec(),
            (0..18).collect::<Vec<_>>()
        );
    }

    fn interval(
        from_s: u64,
        to_s: u64,
        difference: f64,
        verdict: IntervalVerdict,
    ) -> CounterInterval {
        CounterInterval {
            from_unix_ns: from_s * 1_000_000_000,
            to_unix_ns: to_s * 1_000_000_000,
            difference,
            verdict,
        }
    }

    #[test]
    fn the_two_averages_weigh_intervals_differently_and_skip_gaps() {
        let column = MetricSeries {
            metric: DiskMetric::Reads,
            intervals: vec![
                interval(0, 10, 100.0, IntervalVerdict::Kept),
                interval(10, 40, 600.0, IntervalVerdict::Kept),
                interval(40, 50, 0.0, IntervalVerdict::Gap),
                interval(50, 60, 0.0, IntervalVerdict::WentDown { as_wrap: None }),
            ],
            samples: Vec::new(),
        };
        let averages = column.averages().unwrap();
        // Rates 10 and 20; 700 operations in 40 s.
        assert!((averages.stochastic - 15.0).abs() < 1e-12);
        assert!((averages.time - 17.5).abs() < 1e-12);
        assert_eq!((averages.count, column.dropped()), (2, 2));
    }

    /// Intervals of these lengths, one after the other, in which a counter rose by 7 each.
    fn judged(lengths_s: &[u64]) -> MetricSeries {
        let mut judge = GapJudge::<MetricSeries>::of(DiskMetric::Reads);
        let mut at_s = 1_000;
        for length_s in lengths_s {
            judge.interval(interval(at_s, at_s + length_s, 7.0, IntervalVerdict::Kept));
            at_s += length_s;
        }
        let column = judge.finish();
        let whole = column.averages().map_or(0.0, |averages| averages.whole);
        assert!(
            (whole - 7.0 * lengths_s.len() as f64).abs() < 1e-9,
            "nothing is lost"
        );
        column
    }

    /// Whether each shows when its load came.
    fn kept(lengths_s: &[u64]) -> Vec<bool> {
        let judged = judged(lengths_s);
        let verdicts = judged.intervals.iter().map(|i| i.verdict);
        verdicts.map(|v| v == IntervalVerdict::Kept).collect()
    }

    #[test]
    fn an_interval_much_longer_than_its_neighbours_is_long_wherever_it_stands() {
        let mut lengths = vec![1; 40];
        for at in [0, 1, 20, 21, 39] {
            lengths[at] = 100;
        }
        let expect: Vec<bool> = lengths.iter().map(|length| *length == 1).collect();
        assert_eq!(kept(&lengths), expect);
    }

    #[test]
    fn records_close_together_are_one() {
        // Two groups of a logger; three samples an hour, from cron; eight are joined, nine are a pace.
        for (pattern, joined) in [
            (vec![10_000, 17], 10_017),
            (vec![3_598, 1, 1], 3_600),
            ([vec![3_592], vec![1; 8]].concat(), 3_600),
            ([vec![3_600], vec![1; 9]].concat(), 3_600),
        ] {
            let found = judged(&pattern.repeat(20)).intervals;
            let lengths: Vec<u64> = found.iter().map(|i| length_ns(i) / 1_000_000_000).collect();
            let is_pace = pattern.len() > 9;
            let n = if is_pace { 200 } else { 20 + pattern.len() - 1 };
            assert_eq!(lengths.len(), n, "{lengths:?}");
            let others = lengths[1..20].iter().filter(|length| **length != joined);
            assert_eq!(others.count(), if is_pace { 18 } else { 0 }, "{lengths:?}");
        }
    }

    #[test]
    fn another_pace_and_late_recorders_are_no_gaps() {
        let paces = [vec![1; 30], vec![600; 30], vec![2; 30]].concat();
        assert!(kept(&paces).iter().all(|kept| *kept));
        assert_eq!(kept(&paces).len(), 90);
        let late: Vec<u64> = (0..40).map(|i| if i % 9 == 4 { 15 } else { 1 }).collect();
        assert!(kept(&late).iter().all(|kept| *kept));
        assert_eq!(kept(&[1, 3_600]), [true, true], "nobody knows which is odd");
        assert_eq!(kept(&[]), Vec::<bool>::new());
    }

    #[test]
    fn samples_close_together_hold_until_the_next() {
        let mut judge = GapJudge::<MetricAccumulator>::of(DiskMetric::InFlight);
        for at_s in 0..40 {
            for (at_ns, value) in [
                (at_s * 10_000_000_000, 3.0),
                (at_s * 10_000_000_000 + 17, 1.0),
            ] {
                judge.sample(PointSample {
                    at_unix_ns: at_ns,
                    value,
                    after_gap: false,
                });
            }
        }
        let averages = judge.finish().averages().unwrap();
        assert!((averages.seconds - 390.0).abs() < 1e-6, "{averages:?}");
        assert!((averages.time - 1.0).abs() < 1e-6, "{averages:?}");
    }

    #[test]
    fn a_sample_does_not_hold_across_a_long_gap() {
        let mut judge = GapJudge::<MetricAccumulator>::of(DiskMetric::InFlight);
        for at_s in [0, 1, 2, 3, 1_000, 1_001, 1_002] {
            judge.sample(PointSample {
                at_unix_ns: at_s * 1_000_000_000,
                value: if at_s == 3 { 50.0 } else { 1.0 },
                after_gap: false,
            });
        }
        let averages = judge.finish().averages().unwrap();
        assert!((averages.time - 1.0).abs() < 1e-9, "{averages:?}");
    }

    #[test]
    fn a_sample_holds_until_the_next_but_not_across_a_gap() {
        let sample = |at_s: u64, value, after_gap| PointSample {
            at_unix_ns: at_s * 1_000_000_000,
            value,
            after_gap,
        };
        let column = MetricSeries {
            metric: DiskMetric::QueueLength,
            intervals: Vec::new(),
            samples: vec![
                sample(0, 4.0, false),
                sample(10, 1.0, false),
                sample(40, 9.0, true),
                sample(50, 0.0, false),
            ],
        };
        let averages = column.averages().unwrap();
        assert!((averages.stochastic - 3.5).abs() < 1e-12);
        // 4 for 10 s and 9 for 10 s; the 30 s across the gap do not count.
        assert!((averages.time - 6.5).abs() < 1e-12);
    }
}
