// SPDX-License-Identifier: Apache-2.0
//! Requests counted by intervals, so that the description of counters applies to requests as well.

use std::ops::Range;

use plimsoll_core::op::{OpKind, TraceAccess};
use plimsoll_core::units::Nanos;

use plimsoll_trace::{
    CounterInterval, CounterReadState, CounterSource, DiskMetric, DiskSeries, IntervalVerdict,
    MetricSeries, RecordingDetail, RecordingInfo, RecordingTimes, RecordingWindow, TraceError,
    TraceSource,
};

/// Most intervals of one recording: more than any that is read here asks for.
const INTERVALS_MAX: u64 = 1 << 20;

/// The requests of each interval.
#[derive(Debug, Clone, Copy, Default)]
struct TraceIntervalBin {
    ops: [u64; 2],
    bytes: [u64; 2],
    took: [u64; 2],
    in_flight: Lasting,
    busy: Lasting,
}

/// Something that lasts, cut at the edges of intervals.
#[derive(Debug, Clone, Copy, Default)]
struct Lasting {
    /// Time of what begins or ends inside the interval.
    part_ns: u64,
    /// How many more last from here on through whole intervals than did before.
    begin: i64,
}

impl TraceIntervalBin {
    /// Adds what a later one held, into which nothing lasted that did not end there.
    fn add(&mut self, later: &TraceIntervalBin) {
        for direction in 0..2 {
            self.ops[direction] += later.ops[direction];
            self.bytes[direction] += later.bytes[direction];
            self.took[direction] += later.took[direction];
        }
        self.in_flight.part_ns += later.in_flight.part_ns;
        self.busy.part_ns += later.busy.part_ns;
    }
}

/// Counters of one device, made of its requests.
pub(crate) struct TraceCounters {
    state: CounterReadState,
    disk: String,
    interval: Nanos,
    /// How long it was recorded: there the last interval ends.
    length: Nanos,
    bins: Vec<TraceIntervalBin>,
    /// The interval of the last request, in time, and its place in `bins`.
    now: (Range<u64>, u64),
    tells_service: bool,
    /// The end of the last request that is known to end.
    busy_until: Nanos,
}

impl TraceCounters {
    pub(crate) fn new(about: &RecordingInfo, disk: &str, interval: Nanos) -> TraceCounters {
        let nothing = RecordingWindow {
            from_unix_ns: 0,
            to_unix_ns: 0,
        };
        TraceCounters {
            state: CounterReadState {
                about: about.clone(),
                times: RecordingTimes::new(&about.name, "UTC", nothing).0,
                damage: None,
                warnings: Vec::new(),
            },
            disk: disk.into(),
            interval,
            length: Nanos(0),
            bins: Vec::new(),
            now: (0..0, 0),
            tells_service: false,
            busy_until: Nanos(0),
        }
    }

    /// Counts a request in the interval in which it started, and its time in those it lasted.
    /// Requests come in the order of their starts.
    pub(crate) fn add(&mut self, request: &TraceAccess, took: Option<Nanos>) {
        let direction = match request.kind {
            OpKind::Read => 0,
            OpKind::Write => 1,
            _ => return,
        };
        if !self.now.0.contains(&request.at.0) {
            let place = self.place(request.at);
            let begin = place.saturating_mul(self.interval.0);
            self.now = (begin..begin.saturating_add(self.interval.0), place);
        }
        let bin = self.bin(request.at);
        bin.ops[direction] += 1;
        bin.bytes[direction] += u64::from(request.bytes);
        let Some(took) = took else {
            return;
        };
        bin.took[direction] += took.0;
        self.tells_service = true;
        let end = request.at + took;
        self.last(request.at, end, |bin| &mut bin.in_flight);
        self.last(request.at.max(self.busy_until), end, |bin| &mut bin.busy);
        self.busy_until = self.busy_until.max(end);
    }

    /// The interval of an instant.
    fn bin(&mut self, at: Nanos) -> &mut TraceIntervalBin {
        let place = plimsoll_core::num::to_usize(self.place(at));
        if self.bins.len() <= place {
            self.bins.resize(place + 1, TraceIntervalBin::default());
        }
        &mut self.bins[place]
    }

    fn place(&self, at: Nanos) -> u64 {
        // Divisions take their time, and most of what is asked for lies in one interval.
        if self.now.0.contains(&at.0) {
            return self.now.1;
        }
        (at.0 / self.interval.0.max(1)).min(INTERVALS_MAX)
    }

    /// Counts what lasts between two instants.
    fn last(&mut self, from: Nanos, to: Nanos, of: fn(&mut TraceIntervalBin) -> &mut Lasting) {
        // A request that ends at an edge does not reach into the next interval.
        let last_ns = Nanos(to.0.saturating_sub(1));
        let (first, last) = (self.place(from), self.place(last_ns));
        if first >= last {
            of(self.bin(from)).part_ns += to.since(from).0;
            return;
        }
        let after = Nanos((first + 1).saturating_mul(self.interval.0));
        let before = Nanos(last.saturating_mul(self.interval.0));
        let begin = of(self.bin(from));
        begin.part_ns += after.since(from).0;
        of(self.bin(after)).begin += 1;
        let end = of(self.bin(last_ns));
        end.part_ns += to.since(before).0;
        end.begin -= 1;
    }

    /// Says when everything was recorded: until its end every interval counts, empty or not. The last
    /// one ends there, half as long or longer than the others, so that rates are over the time that
    /// was recorded.
    pub(crate) fn finish(&mut self, length: Nanos, requests: &dyn TraceSource) {
        let interval = self.interval.0.max(1);
        let rest = u64::from(length.0 % interval >= interval.div_ceil(2));
        let n = (length.0 / interval + rest).clamp(1, INTERVALS_MAX);
        let n = plimsoll_core::num::to_usize(n);
        let beyond = self.bins.split_off(self.bins.len().min(n));
        self.bins.resize(n, TraceIntervalBin::default());
        if let Some(last) = self.bins.last_mut() {
            beyond.iter().for_each(|bin| last.add(bin));
        }
        let before = (n as u64 - 1).saturating_mul(interval);
        self.length = Nanos(length.0.max(before + 1));
        let from_unix_ns = requests.origin_unix_ns().unwrap_or(0);
        let span = RecordingWindow {
            from_unix_ns,
            to_unix_ns: from_unix_ns.saturating_add(self.length.0),
        };
        let times = RecordingTimes::new(&self.state.about.name, "UTC", span).0;
        self.state.times = match requests.origin_unix_ns() {
            Some(_) => times,
            None => times.without_date(),
        };
        self.state.damage = requests.damage().cloned();
    }

    /// A column of what lasts, in seconds.
    fn lasting(&self, metric: DiskMetric, of: fn(&TraceIntervalBin) -> Lasting) -> MetricSeries {
        let mut whole = 0i64;
        self.column(metric, |bin| {
            let lasting = of(bin);
            whole += lasting.begin;
            let whole_s = whole as f64 * self.interval.as_secs_f64();
            whole_s + lasting.part_ns as f64 / 1e9
        })
    }

    fn column(
        &self,
        metric: DiskMetric,
        mut of: impl FnMut(&TraceIntervalBin) -> f64,
    ) -> MetricSeries {
        let begin_unix_ns = self.times().span().from_unix_ns;
        let last = self.bins.len().saturating_sub(1);
        let interval = |(number, bin): (usize, _)| {
            let from = (number as u64).saturating_mul(self.interval.0);
            let to = match number == last {
                true => self.length.0,
                false => from.saturating_add(self.interval.0),
            };
            CounterInterval {
                from_unix_ns: begin_unix_ns.saturating_add(from),
                to_unix_ns: begin_unix_ns.saturating_add(to),
                difference: of(bin),
                verdict: IntervalVerdict::Kept,
            }
        };
        MetricSeries {
            metric,
            intervals: self.bins.iter().enumerate().map(interval).collect(),
            samples: Vec::new(),
        }
    }
}

impl CounterSource for TraceCounters {
    fn state(&self) -> &CounterReadState {
        &self.state
    }

    fn disks(&self) -> Vec<String> {
        vec![self.disk.clone()]
    }

    fn several(
        &self,
        disks: &[String],
        _: &RecordingWindow,
    ) -> Result<Vec<DiskSeries>, TraceError> {
        Ok(disks.iter().map(|disk| self.of_disk(disk)).collect())
    }
}

impl TraceCounters {
    /// Everything that was counted, under a name.
    fn of_disk(&self, disk: &str) -> DiskSeries {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let carries = &self.state.about.carries;
        let mut columns = Vec::new();
        if carries.direction {
            columns.extend([
                self.column(DiskMetric::Reads, |bin| bin.ops[0] as f64),
                self.column(DiskMetric::Writes, |bin| bin.ops[1] as f64),
            ]);
        }
        if carries.direction && carries.sizes != RecordingDetail::Absent {
            columns.extend([
                self.column(DiskMetric::ReadBytes, |bin| bin.bytes[0] as f64),
                self.column(DiskMetric::WriteBytes, |bin| bin.bytes[1] as f64),
            ]);
        }
        if !carries.direction {
            let ops = |bin: &TraceIntervalBin| (bin.ops[0] + bin.ops[1]) as f64;
            columns.push(self.column(DiskMetric::Ops, ops));
        }
        if self.tells_service {
            columns.extend([
                self.lasting(DiskMetric::Active, |bin| bin.busy),
                self.lasting(DiskMetric::QueueTime, |bin| bin.in_flight),
            ]);
        }
        if self.tells_service && carries.direction {
            columns.extend([
                self.column(DiskMetric::ReadTime, |bin| seconds(bin.took[0])),
                self.column(DiskMetric::WriteTime, |bin| seconds(bin.took[1])),
            ]);
        }
        DiskSeries {
            disk: disk.into(),
            columns,
            damage: self.state.damage.clone(),
            warnings: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_trace::{RecordingCapabilities, TraceOrder};

    #[test]
    fn what_lasts_over_several_intervals_counts_in_each() {
        let about = RecordingInfo {
            name: "r".into(),
            format: String::new(),
            host: String::new(),
            carries: RecordingCapabilities {
                arrivals: RecordingDetail::Each,
                resolution: Nanos(1),
                direction: true,
                sizes: RecordingDetail::Each,
                offsets: true,
                service: RecordingDetail::Each,
                queue: RecordingDetail::Each,
                order: TraceOrder::Started,
            },
        };
        let mut counted = TraceCounters::new(&about, "d", Nanos(10));
        // Over three edges; inside the first; after both, up to an edge.
        for (at, took) in [(5, 30), (7, 2), (38, 2)] {
            let request = TraceAccess {
                at: Nanos(at),
                kind: OpKind::Read,
                offset: 0,
                bytes: 512,
            };
            counted.add(&request, Some(Nanos(took)));
        }
        let tenths = |column: MetricSeries| -> Vec<u64> {
            let rises = column.intervals.iter().map(|i| i.difference * 1e9);
            rises.map(plimsoll_core::num::round_u64).collect()
        };
        let queue = counted.lasting(DiskMetric::QueueTime, |bin| bin.in_flight);
        assert_eq!(tenths(queue), [7, 10, 10, 7]);
        let busy = counted.lasting(DiskMetric::Active, |bin| bin.busy);
        assert_eq!(tenths(busy), [5, 10, 10, 7]);
    }
}
