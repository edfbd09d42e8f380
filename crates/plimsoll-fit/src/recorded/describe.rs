// SPDX-License-Identifier: Apache-2.0
//! The content of recorded requests beyond counters, and a recording of them described.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::{floor_u64, ratio, to_usize};
use plimsoll_core::op::{OpKind, TraceAccess};
use plimsoll_core::profile::{
    AccessSkew, DeviceKind, DeviceLoad, DeviceRanking, DiskProfile, InFlightStats, KindProfile,
    MissRatio, RecordingProfile, RequestsProfile, TimeDistribution,
};
use plimsoll_core::units::Nanos;

use super::counted::TraceCounters;
use super::measures::TraceStats;
use super::reuse::BLOCK_BYTES;
use super::streams::SequentialStreamFinder;
use super::touched::WorkingSetTracker;
use super::{INTERVAL_MIN, TraceDevice, TraceSurvey, TraceTimeBase, each};
use plimsoll_trace::{
    CounterSource, DiskSeries, RecordingCapabilities, RecordingDetail, TraceError, TraceSource,
};

/// Sizes that are listed one by one.
const SIZES_MAX: usize = 16;
/// Shares of the touched zones whose requests are counted.
const HOTTEST: [f64; 3] = [0.01, 0.1, 0.2];
/// Requests in flight that are followed: more than any device takes.
const IN_FLIGHT_MAX: usize = 1 << 20;

/// Ticks that gaps must last in the mean for their variation to be theirs, not the clock's.
const VARIATION_TICKS: u64 = 3;

/// Describes a recording of requests: all its devices, and `disk` in full, or the one whose
/// requests took the most time (where that is not recorded, the one with the most requests).
/// `requests` is read from its start and comes in the order of starts; `survey` is what an earlier
/// reading of it found. With the description comes what each of its intervals held.
///
/// # Errors
/// When the device is not in the recording, there is none, it cannot be read, or does not contain
/// when requests started.
pub fn describe_requests(
    requests: &mut dyn TraceSource,
    survey: &TraceSurvey,
    disk: Option<&str>,
) -> Result<(RecordingProfile, DiskSeries), TraceError> {
    let about = requests.about().clone();
    if about.carries.arrivals == RecordingDetail::Absent {
        return Err(TraceError::Lacks {
            recording: about.name,
            lacks: "starts".into(),
        });
    }
    let ranked = DeviceRanking::rank(
        survey
            .devices
            .iter()
            .map(|d| load(d, survey.length, &about.carries))
            .collect(),
        &|_| None,
    );
    let busiest = ranked.busiest().map(|device| device.name.as_str());
    let Some(disk) = disk.or(busiest) else {
        return Err(TraceError::NoDisks {
            recording: about.name,
            damage: requests.damage().cloned(),
        });
    };
    let place = super::device_of(survey, &about, Some(disk))?;
    // A little longer than needed, so that what starts at the very end is in the last one.
    let interval = survey.length.0 / DiskProfile::POINTS_MAX as u64 + 1;
    let clockwork = survey.clockwork();
    let interval = clockwork.whole_ticks(Nanos(interval.max(INTERVAL_MIN.0)));
    let mut counted = TraceCounters::new(&about, disk, interval);
    let mut seen = TraceDeviceStats::new(&survey.devices[place], clockwork);
    let mut busy = vec![BusyTime::default(); survey.devices.len()];
    each(requests, |request| {
        let target = usize::from(request.target);
        if let (Some(busy), Some(took)) = (busy.get_mut(target), request.took) {
            busy.add(request.at, request.at + took);
        }
        if target != place {
            return;
        }
        let traced = request.traced();
        let took = request
            .took
            .filter(|_| survey.devices[place].tells_in_flight());
        counted.add(&traced, took);
        seen.add(&traced, request.took);
    })?;
    counted.finish(survey.length, requests);
    let loads = survey.devices.iter().zip(&busy).map(|(device, busy)| {
        let share = ratio(busy.sum.as_secs_f64(), survey.length.as_secs_f64());
        DeviceLoad {
            busy: device.tells_in_flight().then_some(share),
            ..load(device, survey.length, &about.carries)
        }
    });
    let span = counted.times().span();
    let mut description = crate::describe::describe(&counted, Some(disk), &span)?;
    description.devices = DeviceRanking::rank(loads.collect(), &|_| None);
    if requests.origin_unix_ns().is_none() {
        let (from, to) = super::ends_without_date(&*requests, survey.length);
        (description.profile.from, description.profile.to) = (from, to);
    }
    description.profile.requests = Some(seen.finish(&about.carries, busy[place].sum));
    let doubted = survey.doubted.told.iter().cloned();
    description.warnings.extend(doubted);
    description
        .warnings
        .extend(survey.devices[place].lacks_ends());
    description.warnings.extend(clockwork.sentence());
    description.warnings.extend(super::told(requests));
    let series = counted.series(disk, &span)?;
    Ok((description, series))
}

/// The load of a device as a whole, as far as its recording says.
fn load(device: &TraceDevice, length: Nanos, carries: &RecordingCapabilities) -> DeviceLoad {
    let per_s = |sum: f64| ratio(sum, length.as_secs_f64());
    let requests = device.requests as f64;
    let took = device.took.map(Nanos::as_secs_f64);
    let ended = device.ended as f64;
    DeviceLoad {
        name: device.name.clone(),
        layer: DeviceKind::Disk,
        counted_again: false,
        ops_per_s: Some(per_s(requests)),
        read_share: (carries.direction).then(|| ratio(device.reads as f64, requests)),
        bytes_per_s: (carries.sizes != RecordingDetail::Absent).then(|| per_s(device.bytes as f64)),
        busy: None,
        queue: took.filter(|_| device.tells_in_flight()).map(per_s),
        response_ms: took.map(|took| ratio(took, ended) * 1e3),
    }
}

/// The time with anything in flight.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BusyTime {
    until: Nanos,
    pub(crate) sum: Nanos,
}

impl BusyTime {
    pub(crate) fn add(&mut self, from: Nanos, to: Nanos) {
        self.sum = self.sum + to.since(from.max(self.until));
        self.until = self.until.max(to);
    }
}

/// Everything that is seen of one device's requests.
struct TraceDeviceStats {
    clockwork: TraceTimeBase,
    measures: TraceStats,
    streams: SequentialStreamFinder,
    touched: WorkingSetTracker,
    gaps: Histogram,
    gap_squares: f64,
    last: Option<Nanos>,
    tells_in_flight: bool,
    response: [Histogram; OpKind::ALL.len()],
    took: Nanos,
    /// When those in flight end.
    ends: BinaryHeap<Reverse<Nanos>>,
    /// Requests in flight at each start: a histogram of numbers, not of times.
    found: Histogram,
}

impl TraceDeviceStats {
    fn new(device: &TraceDevice, clockwork: TraceTimeBase) -> TraceDeviceStats {
        TraceDeviceStats {
            clockwork,
            measures: TraceStats::new(device, clockwork),
            streams: SequentialStreamFinder::new(),
            touched: WorkingSetTracker::new(device.bytes, clockwork),
            gaps: Histogram::new(),
            gap_squares: 0.0,
            last: None,
            tells_in_flight: device.tells_in_flight(),
            response: Default::default(),
            took: Nanos(0),
            ends: BinaryHeap::new(),
            found: Histogram::new(),
        }
    }

    fn add(&mut self, request: &TraceAccess, took: Option<Nanos>) {
        self.measures.add(request);
        self.streams.add(request);
        self.touched.add(request);
        if let Some(last) = self.last.replace(request.at) {
            let gap = request.at.since(last);
            self.gaps.record(gap);
            self.gap_squares += gap.as_secs_f64().powi(2);
        }
        while self.ends.peek().is_some_and(|end| end.0 <= request.at) {
            self.ends.pop();
        }
        let Some(took) = took else {
            return;
        };
        self.response[request.kind.index()].record(took);
        self.took = self.took + took;
        self.found.record(Nanos(self.ends.len() as u64));
        if self.ends.len() < IN_FLIGHT_MAX {
            self.ends.push(Reverse(request.at + took));
        }
    }

    fn finish(mut self, carries: &RecordingCapabilities, busy: Nanos) -> RequestsProfile {
        self.measures.finish();
        let sizes = match carries.sizes {
            RecordingDetail::Each => self.measures.content().sizes(),
            _ => Vec::new(),
        };
        let tells_starts = carries.arrivals == RecordingDetail::Each;
        let tells_gaps = tells_starts && self.clockwork.tells_gaps(self.gaps.count());
        let gaps = Some(&self.gaps).filter(|_| tells_gaps);
        let mut profile = RequestsProfile {
            tells_kinds: carries.direction,
            kinds: self.kinds(carries),
            sizes: sizes.iter().take(SIZES_MAX).copied().collect(),
            sizes_more: sizes.iter().skip(SIZES_MAX).map(|s| s.requests).sum(),
            streams: None,
            skew: Vec::new(),
            resolution_ns: self.clockwork.resolution.0,
            span_bytes: 0,
            working_set: Vec::new(),
            misses: Vec::new(),
            gaps_variation: gaps.and_then(|gaps| self.variation(gaps)),
            gaps: gaps.and_then(TimeDistribution::of),
            dispersion: self.measures.dispersion(),
            in_flight: self.in_flight(busy),
        };
        if carries.offsets {
            profile.skew = skew(self.measures.content().zones());
            profile.span_bytes = self.touched.span_bytes();
            profile.working_set = self.touched.working_sets();
            profile.misses = misses(&self.measures.content().miss_ratios());
            profile.streams = self.streams.finish();
        }
        profile
    }

    fn kinds(&self, carries: &RecordingCapabilities) -> Vec<KindProfile> {
        let totals = OpKind::ALL
            .into_iter()
            .zip(self.measures.content().totals());
        let kinds = totals.filter(|(_, (requests, _))| *requests > 0);
        let profile = |(kind, (requests, bytes)): (OpKind, &(u64, u64))| KindProfile {
            kind,
            requests: *requests,
            bytes: (carries.sizes != RecordingDetail::Absent).then_some(*bytes),
            response: TimeDistribution::of(&self.response[kind.index()]),
        };
        kinds.map(profile).collect()
    }

    /// Coefficient of variation of the gaps, where they are long against the resolution.
    fn variation(&self, gaps: &Histogram) -> Option<f64> {
        if !self
            .clockwork
            .tells_gaps(gaps.count().saturating_mul(VARIATION_TICKS))
        {
            return None;
        }
        let mean = gaps.mean_ns() / 1e9;
        let variance = self.gap_squares / gaps.count().max(1) as f64 - mean * mean;
        (mean > 0.0).then(|| variance.max(0.0).sqrt() / mean)
    }

    /// Requests in flight; `None` where ends are not recorded, of too many requests, or only by ticks that
    /// are longer than requests take.
    fn in_flight(&self, busy: Nanos) -> Option<InFlightStats> {
        let length_s = self.clockwork.length.as_secs_f64();
        let per_s = |time: Nanos| ratio(time.as_secs_f64(), length_s);
        let ended = self.found.count();
        let ticks = u128::from(self.clockwork.resolution.0) * u128::from(ended);
        let is_fine = !self.clockwork.is_coarse() || ticks <= u128::from(self.took.0);
        (self.tells_in_flight && is_fine).then(|| InFlightStats {
            mean: per_s(self.took),
            busy: per_s(busy),
            found_median: self.found.quantile_ns(0.5),
            found_p99: self.found.quantile_ns(0.99),
            found_max: self.found.max_ns(),
        })
    }
}

/// The share of the hottest zones.
fn skew(zones: Vec<(u64, u64)>) -> Vec<AccessSkew> {
    let mut counts: Vec<u64> = zones.into_iter().map(|(_, requests)| requests).collect();
    counts.sort_unstable_by_key(|requests| Reverse(*requests));
    let all: u64 = counts.iter().sum();
    let hottest = |zones: f64| {
        let n = to_usize(floor_u64((counts.len() as f64 * zones).ceil()));
        let requests: u64 = counts.iter().take(n).sum();
        AccessSkew {
            zones,
            requests: ratio(requests as f64, all as f64),
        }
    };
    match all {
        0 => Vec::new(),
        _ => HOTTEST.into_iter().map(hottest).collect(),
    }
}

/// Miss ratios with the sizes of their caches, up to the first that holds all.
fn misses(ratios: &[f64]) -> Vec<MissRatio> {
    let least = ratios.last().copied().unwrap_or_default();
    let needed = ratios.iter().position(|misses| *misses <= least);
    let shown = needed.map_or(0, |last| last + 1);
    let sized = (0..).zip(ratios).take(shown);
    sized
        .map(|(power, misses)| MissRatio {
            cache_bytes: BLOCK_BYTES as f64 * 2f64.powi(power),
            misses: *misses,
        })
        .collect()
}
