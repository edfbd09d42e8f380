// SPDX-License-Identifier: Apache-2.0
//! Figures that only recorded requests show: sizes, order on the device, hot places, reuse, times.

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::op::OpKind;

/// Quantiles that are kept of a distribution.
const QUANTILES: [f64; 25] = [
    0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98,
    0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 0.99999, 0.999999,
];

/// A distribution of times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeDistribution {
    /// Values.
    pub count: u64,
    /// Mean, nanoseconds.
    pub mean_ns: f64,
    /// Largest, nanoseconds.
    pub max_ns: u64,
    /// (share of the values, nanoseconds that this share does not exceed), rising; only those that
    /// rest on enough values.
    pub quantiles: Vec<(f64, u64)>,
}

impl TimeDistribution {
    /// Of a histogram; `None` of an empty one.
    pub fn of(histogram: &Histogram) -> Option<TimeDistribution> {
        if histogram.is_empty() {
            return None;
        }
        let supported = QUANTILES
            .iter()
            .filter(|q| histogram.supports_quantile(**q));
        Some(TimeDistribution {
            count: histogram.count(),
            mean_ns: histogram.mean_ns(),
            max_ns: histogram.max_ns(),
            quantiles: supported.map(|q| (*q, histogram.quantile_ns(*q))).collect(),
        })
    }

    /// The value that a share `q` does not exceed, if it was kept.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let found = self.quantiles.iter().find(|(at, _)| (at - q).abs() < 1e-9);
        found.map(|(_, ns)| *ns)
    }
}

/// The requests of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindProfile {
    /// Which.
    pub kind: OpKind,
    /// How many.
    pub requests: u64,
    /// Bytes they moved; `None` where the recording has no sizes.
    pub bytes: Option<u64>,
    /// Times from start to end, where they were recorded.
    pub response: Option<TimeDistribution>,
}

/// Requests of one kind and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeCount {
    /// Kind.
    pub kind: OpKind,
    /// Bytes of each.
    pub bytes: u32,
    /// How many.
    pub requests: u64,
}

/// Requests that go on where another ended. A request continues a stream when it starts at the end
/// of one of the last 64 streams, in the same direction, less than a second after it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequentialRunStats {
    /// Requests that continue one, over all reads and writes, 0..=1.
    pub sequential_share: f64,
    /// Streams, those of one request included.
    pub runs: u64,
    /// Requests of a stream: mean.
    pub run_mean_requests: f64,
    /// Requests of the stream in whose like half of all requests are.
    pub run_median_requests: u64,
    /// Requests of the longest.
    pub run_max_requests: u64,
    /// Bytes of a stream: mean.
    pub run_mean_bytes: f64,
}

/// How unevenly places are used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessSkew {
    /// This share of the touched zones of 1 MiB, the hottest ones.
    pub zones: f64,
    /// Gets this share of the requests.
    pub requests: f64,
}

/// Working set: bytes touched within windows of one length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkingSet {
    /// Length of a window, seconds.
    pub window_s: f64,
    /// Bytes touched in a window: mean over all windows, empty ones included.
    pub mean_bytes: f64,
    /// Bytes touched in the widest.
    pub max_bytes: f64,
}

/// A least-recently-used cache that starts empty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MissRatio {
    /// Its size.
    pub cache_bytes: f64,
    /// Share of the accesses to blocks of 4 KiB that it misses, 0..=1.
    pub misses: f64,
}

/// How bursty arrivals are at one scale of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrivalDispersion {
    /// Length of the windows, seconds.
    pub window_s: f64,
    /// Variance over mean of the requests in a window: 0 for a clock, 1 for a Poisson process.
    pub index: f64,
}

/// How many requests were in flight together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InFlightStats {
    /// Mean over time.
    pub mean: f64,
    /// Share of the time with any in flight, 0..=1.
    pub busy: f64,
    /// Median of the requests that one found in flight when it started, itself not counted.
    pub found_median: u64,
    /// 99th percentile of that number.
    pub found_p99: u64,
    /// The most that one found.
    pub found_max: u64,
}

/// Facts about a device of which every request was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestsProfile {
    /// Whether reads and writes are distinguished; else the kinds mean nothing.
    pub tells_kinds: bool,
    /// Kinds that occur, in the order of [`OpKind::ALL`].
    pub kinds: Vec<KindProfile>,
    /// The most frequent kinds and sizes, most frequent first.
    pub sizes: Vec<SizeCount>,
    /// Requests of all other sizes.
    pub sizes_more: u64,
    /// Order on the device; `None` without reads and writes.
    pub streams: Option<SequentialRunStats>,
    /// How unevenly places are used; empty without requests that have a place.
    pub skew: Vec<AccessSkew>,
    /// The finest difference of two starts: what is shorter is not recorded, and is 0 where it is
    /// part of a distribution.
    pub resolution_ns: u64,
    /// Bytes from the start of the device to the end of its last touched place.
    pub span_bytes: u64,
    /// Working sets by the length of time; the last is that of the whole recording.
    pub working_set: Vec<WorkingSet>,
    /// Miss ratios of caches of growing size, up to one that holds all.
    pub misses: Vec<MissRatio>,
    /// Times between starts.
    pub gaps: Option<TimeDistribution>,
    /// Coefficient of variation of these times: 0 for a clock, 1 for a Poisson process.
    pub gaps_variation: Option<f64>,
    /// How bursty arrivals are, by scale of time.
    pub dispersion: Vec<ArrivalDispersion>,
    /// How many were in flight, where ends were recorded.
    pub in_flight: Option<InFlightStats>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nanos;

    #[test]
    fn only_quantiles_that_rest_on_enough_values_are_kept() {
        let mut histogram = Histogram::new();
        assert_eq!(TimeDistribution::of(&histogram), None);
        for i in 1..=100 {
            histogram.record(Nanos(i * 1_000));
        }
        let times = TimeDistribution::of(&histogram).unwrap();
        assert!(
            times
                .quantile_ns(0.5)
                .is_some_and(|ns| (50_000..52_000).contains(&ns))
        );
        assert_eq!(times.quantile_ns(0.999), None);
        assert_eq!((times.count, times.max_ns), (100, 100_000));
    }
}
