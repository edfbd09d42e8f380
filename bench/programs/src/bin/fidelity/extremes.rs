// SPDX-License-Identifier: Apache-2.0
//! How bursty and how mixed recorded requests are inside the intervals of counters, and what is to be
//! expected of a recording that was not looked at.

use std::collections::BTreeMap;

use plimsoll_core::model::{SensitivityBoundLimits, WorkloadModel};
use plimsoll_core::num::ratio;
use plimsoll_core::units::Nanos;

/// Arrivals are near each other when they fall into one of the stretches into which an interval is
/// halved until they are no longer than this.
const NEAR: Nanos = Nanos(32_000);
/// Share of recordings that are to stay below the limit.
const EXPECTED: f64 = 0.95;

/// One direction of a recording.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectionExtremes {
    pub(crate) direction: &'static str,
    /// Others near each request, on average; at least those of one pair, as its logarithm is taken.
    pub(crate) others: f64,
    /// Mean square of the sizes over the square of their mean, inside intervals: that of two sizes, of
    /// which one is small, is how many times the mean the large one is.
    pub(crate) times: f64,
}

/// What is seen of one direction.
#[derive(Default)]
struct DirectionSums {
    requests: u64,
    near: BTreeMap<u64, u64>,
    /// By interval: requests, bytes, bytes squared.
    sizes: BTreeMap<u64, (f64, f64, f64)>,
}

impl DirectionSums {
    fn seen(&self, direction: &'static str) -> DirectionExtremes {
        let pairs: u64 = self.near.values().map(|n| n * (n - 1)).sum();
        let spread = |(n, bytes, squares): &(f64, f64, f64)| ratio(squares * n * n, bytes * bytes);
        let requests = self.requests as f64;
        DirectionExtremes {
            direction,
            others: pairs.max(2) as f64 / requests,
            times: self.sizes.values().map(spread).sum::<f64>() / requests,
        }
    }
}

/// Both directions of recorded requests, where they have any, inside intervals of this length.
pub(crate) fn seen(recorded: &WorkloadModel, interval: Nanos) -> Vec<DirectionExtremes> {
    let mut leaf = interval.0 as f64;
    while leaf > NEAR.0 as f64 {
        leaf /= 2.0;
    }
    let mut directions = [
        ("reads", DirectionSums::default()),
        ("writes", DirectionSums::default()),
    ];
    for request in recorded.requests.iter().flat_map(|packed| packed.unpack()) {
        let Some(sums) = (match (request.kind.is_read(), request.kind.is_write()) {
            (true, _) => Some(&mut directions[0].1),
            (_, true) => Some(&mut directions[1].1),
            _ => None,
        }) else {
            continue;
        };
        let bytes = f64::from(request.bytes);
        sums.requests += 1;
        let place = plimsoll_core::num::floor_u64(request.at.0 as f64 / leaf);
        *sums.near.entry(place).or_default() += 1;
        let sizes = sums.sizes.entry(request.at.0 / interval.0).or_default();
        *sizes = (sizes.0 + 1.0, sizes.1 + bytes, sizes.2 + bytes * bytes);
    }
    let met = directions.iter().filter(|(_, sums)| sums.requests > 0);
    met.map(|(direction, sums)| sums.seen(direction)).collect()
}

/// What a further recording is expected to stay below, given these: the upper end of a one-sided
/// interval of prediction of the logarithms.
pub(crate) fn expected(seen: &[DirectionExtremes]) -> SensitivityBoundLimits {
    let limit = |of: fn(&DirectionExtremes) -> f64| {
        let logs: Vec<f64> = seen.iter().map(|one| of(one).ln()).collect();
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let deviation = (squares / (n - 1.0)).sqrt();
        let far = plimsoll_stats::student::quantile(EXPECTED, logs.len() - 1);
        (mean + far * deviation * (1.0 + 1.0 / n).sqrt()).exp()
    };
    SensitivityBoundLimits {
        others: limit(|one| one.others),
        times: limit(|one| one.times).max(1.0),
    }
}
