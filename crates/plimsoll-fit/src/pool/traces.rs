// SPDX-License-Identifier: Apache-2.0
//! A recording of requests in whole numbers.

use std::path::Path;

use plimsoll_core::histogram::Histogram;
use plimsoll_core::op::OpKind;
use plimsoll_core::partial::{
    CounterTotal, CounterTotals, DeviceSummary, KindSummary, PoolSettings, RecordingSummary,
    RequestsSummary,
};
use plimsoll_core::recording::TraceRequest;
use plimsoll_core::units::Nanos;
use plimsoll_trace::{RecordingCapabilities, RecordingDetail, TraceError, TraceSource};

use super::steps::StepCounter;
use crate::recorded::{BusyTime, TraceSurvey, each, survey_part, told};

/// Requests are counted in intervals of so long.
const INTERVAL: Nanos = Nanos::SECOND;

pub(super) fn of_requests(
    path: &Path,
    first: Box<dyn TraceSource>,
    settings: &PoolSettings,
) -> Result<RecordingSummary, TraceError> {
    let about = first.about().clone();
    if about.carries.arrivals == RecordingDetail::Absent {
        return Err(TraceError::Lacks {
            recording: about.name,
            lacks: "starts".into(),
        });
    }
    let (from, to) = (settings.from.as_deref(), settings.to.as_deref());
    let (survey, mut requests) = survey_part(path, first, from, to)?;
    let mut devices = devices(&survey, settings, &about.name)?;
    let origin = requests.origin_unix_ns();
    let begin = origin.unwrap_or(0);
    let length = survey.length;
    let end = begin.saturating_add(length.0);
    let mut steps = StepCounter::new(settings.step_s);
    let tells_all = about.carries.direction && about.carries.sizes != RecordingDetail::Absent;
    let has_steps = origin.is_some() && tells_all;
    if has_steps {
        let too_long = |reason: String| TraceError::Together {
            recording: about.name.clone(),
            reason,
        };
        steps.check(begin, end).map_err(too_long)?;
        for _ in devices.iter().flatten() {
            steps.time(begin, length.0);
        }
    }
    let mut rates = Histogram::new();
    let mut shown = ShownByRequests::default();
    each(&mut requests, |request| {
        let place = usize::from(request.target);
        let Some(Some(device)) = devices.get_mut(place) else {
            return;
        };
        device.add(request, &mut rates, &mut shown.gaps);
        shown.add(request);
        if has_steps && matches!(request.kind, OpKind::Read | OpKind::Write) {
            let at = begin.saturating_add(request.at.0);
            steps.request(at, request.kind.is_read(), request.bytes);
        }
    })?;
    let busiest = devices.iter().flatten().map(|device| device.requests);
    let has_gaps = about.carries.arrivals == RecordingDetail::Each
        && survey.clockwork().tells_gaps(busiest.max().unwrap_or(0));
    let of_each = |device: TraceDeviceSums| device.finish(&about.carries, length, &mut rates);
    let devices: Vec<DeviceSummary> = devices.into_iter().flatten().map(of_each).collect();
    let mut notes: Vec<String> = requests
        .damage()
        .map(ToString::to_string)
        .into_iter()
        .collect();
    notes.extend(survey.doubts().iter().cloned());
    notes.extend(told(&requests));
    Ok(RecordingSummary {
        sha256: String::new(),
        name: about.name.clone(),
        format: about.format.clone(),
        host: about.host.clone(),
        unread: None,
        has_date: origin.is_some(),
        from_unix_ns: begin,
        to_unix_ns: end,
        counted_again: 0,
        devices,
        interval_rates: rates,
        steps: steps.finish(),
        requests: Some(shown.finish(&about.carries, has_gaps)),
        notes,
    })
}

/// A place for each device of a recording; those that do not count have none.
fn devices(
    survey: &TraceSurvey,
    settings: &PoolSettings,
    recording: &str,
) -> Result<Vec<Option<TraceDeviceSums>>, TraceError> {
    let counts = |name: &str| settings.disk.as_deref().is_none_or(|disk| disk == name);
    let found = survey.devices.iter().map(|device| {
        counts(&device.name).then(|| TraceDeviceSums {
            name: device.name.clone(),
            ..TraceDeviceSums::default()
        })
    });
    let found: Vec<Option<TraceDeviceSums>> = found.collect();
    match (&settings.disk, found.iter().any(Option::is_some)) {
        (_, true) => Ok(found),
        (Some(disk), false) if !found.is_empty() => Err(survey.no_disk(disk, recording)),
        _ => Err(TraceError::NoDisks {
            recording: recording.into(),
            damage: None,
        }),
    }
}

/// Sums of the requests of one device.
#[derive(Debug, Default)]
struct TraceDeviceSums {
    name: String,
    requests: u64,
    ops: [u64; 2],
    bytes: [u64; 2],
    took: [u64; 2],
    has_ends: bool,
    busy: BusyTime,
    last: Option<Nanos>,
    /// The interval of the last request, and its requests so far.
    interval: (u64, u64),
    peak: u64,
}

impl TraceDeviceSums {
    /// Requests come in the order of their starts.
    fn add(&mut self, request: &TraceRequest, rates: &mut Histogram, gaps: &mut Histogram) {
        self.requests += 1;
        if let Some(last) = self.last.replace(request.at) {
            gaps.record(request.at.since(last));
        }
        let interval = request.at.0 / INTERVAL.0;
        if interval > self.interval.0 {
            self.pass(interval, rates);
        }
        self.interval.1 += 1;
        let direction = match request.kind {
            OpKind::Read => 0,
            OpKind::Write => 1,
            _ => return,
        };
        self.ops[direction] += 1;
        self.bytes[direction] += u64::from(request.bytes);
        if let Some(took) = request.took {
            self.has_ends = true;
            self.took[direction] = self.took[direction].saturating_add(took.0);
            self.busy.add(request.at, request.at + took);
        }
    }

    /// Ends intervals up to `next`, in which there are requests again.
    fn pass(&mut self, next: u64, rates: &mut Histogram) {
        let (at, requests) = std::mem::replace(&mut self.interval, (next, 0));
        let milli = requests.saturating_mul(1_000);
        rates.record(Nanos(milli));
        rates.record_many(Nanos(0), (next - at).saturating_sub(1));
        self.peak = self.peak.max(milli);
    }

    fn finish(
        mut self,
        carries: &RecordingCapabilities,
        length: Nanos,
        rates: &mut Histogram,
    ) -> DeviceSummary {
        let intervals = length.0.div_ceil(INTERVAL.0).max(self.interval.0 + 1);
        self.pass(intervals, rates);
        let total = |sum: u64, is_known: bool| {
            is_known.then_some(CounterTotal {
                sum,
                over_ns: length.0,
            })
        };
        let (directions, sizes) = (carries.direction, carries.sizes != RecordingDetail::Absent);
        let [reads, writes] = self.ops;
        // A request that neither reads nor writes also counts as an operation.
        let has_others = reads + writes < self.requests;
        DeviceSummary {
            name: self.name,
            intervals,
            intervals_dropped: 0,
            peak_milli_ops_per_s: self.peak,
            totals: CounterTotals {
                reads: total(reads, directions),
                writes: total(writes, directions),
                read_bytes: total(self.bytes[0], directions && sizes),
                write_bytes: total(self.bytes[1], directions && sizes),
                ops: total(self.requests, !directions || has_others),
                active_ns: total(self.busy.sum.0, self.has_ends),
                read_time_ns: total(self.took[0], self.has_ends && directions),
                write_time_ns: total(self.took[1], self.has_ends && directions),
                total_time_ns: total(
                    self.took[0].saturating_add(self.took[1]),
                    self.has_ends && !directions,
                ),
                ..CounterTotals::default()
            },
        }
    }
}

/// Figures that only requests show, of all devices.
#[derive(Debug, Default)]
struct ShownByRequests {
    gaps: Histogram,
    kinds: [ShownKind; OpKind::ALL.len()],
}

#[derive(Debug, Clone)]
struct ShownKind {
    requests: u64,
    bytes: u64,
    /// By exponent of the power of two that is not below.
    sizes: [u64; 33],
    response: Histogram,
}

impl Default for ShownKind {
    fn default() -> ShownKind {
        ShownKind {
            requests: 0,
            bytes: 0,
            sizes: [0; 33],
            response: Histogram::new(),
        }
    }
}

impl ShownByRequests {
    fn add(&mut self, request: &TraceRequest) {
        let kind = &mut self.kinds[request.kind.index()];
        kind.requests += 1;
        kind.bytes += u64::from(request.bytes);
        let power = u32::BITS - request.bytes.saturating_sub(1).leading_zeros();
        kind.sizes[power as usize] += 1;
        if let Some(took) = request.took {
            kind.response.record(took);
        }
    }

    fn finish(self, carries: &RecordingCapabilities, has_gaps: bool) -> RequestsSummary {
        let has_sizes = carries.sizes == RecordingDetail::Each;
        let kinds = OpKind::ALL.into_iter().zip(self.kinds);
        let kinds = kinds.filter(|(_, found)| found.requests > 0);
        RequestsSummary {
            kinds: kinds
                .map(|(kind, found)| {
                    let sizes = (0u8..).zip(found.sizes);
                    let sizes = sizes.filter(|(_, requests)| has_sizes && *requests > 0);
                    KindSummary {
                        kind,
                        requests: found.requests,
                        bytes: found.bytes,
                        sizes: sizes.collect(),
                        response: found.response,
                    }
                })
                .collect(),
            gaps: if has_gaps {
                self.gaps
            } else {
                Histogram::new()
            },
        }
    }
}
