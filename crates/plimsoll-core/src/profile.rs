// SPDX-License-Identifier: Apache-2.0
//! Findings in a recording, as printed and kept: averages, spread, bursts, its devices side by
//! side, and figures that only recorded requests show.
//!
//! Data only. A profile describes; it is not played (that is [`crate::model::WorkloadModel`]).

mod devices;
mod intervals;
mod pool;
mod requests;

pub use devices::{
    DeviceClassification, DeviceComposition, DeviceKind, DeviceLoad, DeviceRanking,
    DeviceRankingKey,
};
pub use intervals::{IntervalRow, ProfileDownsampler, ProfilePoint};
pub use pool::{
    PoolFigure, PoolMember, PoolProfile, PoolRequests, PoolSizeCount, PoolSpread, PoolUnread,
};
pub use requests::{
    AccessSkew, ArrivalDispersion, InFlightStats, KindProfile, MissRatio, RequestsProfile,
    SequentialRunStats, SizeCount, TimeDistribution, WorkingSet,
};

use serde::{Deserialize, Serialize};

use crate::model::{BurstPattern, IoDirection, ModelPhase};

/// The two averages of a figure. They differ where the recorded intervals differ in length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileAverage {
    /// Mean of the intervals' values, each interval counting the same: what spreadsheets of
    /// recordings usually hold.
    pub stochastic: f64,
    /// Sum over time: physically right.
    pub time: f64,
}

/// How the rates of the single intervals are spread, in operations per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntervalRates {
    /// Half of the intervals had less.
    pub median_per_s: f64,
    /// 95 of 100 intervals had less.
    pub p95_per_s: f64,
    /// The busiest interval.
    pub peak_per_s: f64,
}

/// One direction of the recorded load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectionProfile {
    /// Which.
    pub direction: IoDirection,
    /// Operations per second; `None` where only bytes were recorded.
    pub ops_per_s: Option<ProfileAverage>,
    /// Bytes per second; `None` where only operations were recorded.
    pub bytes_per_s: Option<ProfileAverage>,
    /// Bytes per operation, from the averages above; `None` without operations.
    pub mean_size_bytes: Option<ProfileAverage>,
    /// Share of all operations, 0..=1, from the stochastic averages.
    pub share: Option<f64>,
    /// Spread of the intervals' rates.
    pub rates: Option<IntervalRates>,
    /// Index of dispersion of the operations per interval: 0 for a constant rate, 1 for a Poisson
    /// process, thousands for bursts. `None` with fewer than two intervals or no operations.
    pub idc: Option<f64>,
}

/// Something that is counted beside reads and writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherProfile {
    /// Its name: `flushes`, `discards`, `discarded bytes`, `merged reads`, `merged writes`.
    pub what: String,
    /// How many per second.
    pub per_s: ProfileAverage,
    /// Whether these are bytes.
    pub is_bytes: bool,
}

/// Source of the queue figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueSource {
    /// Integrated by the kernel: exact.
    Integrated,
    /// Seen at the instants of the samples: a small sample of a quantity that changes in
    /// microseconds.
    Sampled,
}

/// Mean number of operations waiting or being served.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueDepthProfile {
    /// The averages.
    pub average: ProfileAverage,
    /// How it was seen.
    pub source: QueueSource,
    /// Standard error of the mean of the samples, for [`QueueSource::Sampled`].
    pub standard_error: Option<f64>,
}

/// Findings in one disk of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskProfile {
    /// The disk.
    pub disk: String,
    /// First instant, with its offset from UTC.
    pub from: String,
    /// Last instant, with its offset from UTC.
    pub to: String,
    /// Intervals that were used.
    pub intervals: u64,
    /// Intervals left out because of gaps, resets or wraps.
    pub intervals_dropped: u64,
    /// Median length of the intervals in seconds.
    pub interval_s: f64,
    /// Operations per second, read and written; `None` where they were not recorded.
    pub ops_per_s: Option<ProfileAverage>,
    /// Bytes per second, read and written; `None` where they were not recorded.
    pub bytes_per_s: Option<ProfileAverage>,
    /// Reads, then writes; those of which operations or bytes were recorded.
    pub directions: Vec<DirectionProfile>,
    /// Other counts that are part of no load that is played: flushes, discards, merges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherProfile>,
    /// Share of the time with something in flight, 0..=1.
    pub utilisation: Option<ProfileAverage>,
    /// Mean queue.
    pub queue: Option<QueueDepthProfile>,
    /// Milliseconds of busy time per operation, from the time averages.
    pub busy_ms_per_op: Option<f64>,
    /// Bursts found, at most one pattern per direction.
    pub bursts: Vec<BurstPattern>,
    /// Phases found, the base first; none where the load was alike throughout.
    pub phases: Vec<ModelPhase>,
    /// The figures over time in at most [`DiskProfile::POINTS_MAX`] steps, those with a gap as two points or
    /// more; from the first of `from`.
    pub points: Vec<ProfilePoint>,
    /// Figures that only recorded requests show.
    pub requests: Option<RequestsProfile>,
}

/// A recording described: its devices side by side, and one of them in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordingProfile {
    /// The recording, as it was named on the command line.
    pub recording: String,
    /// Kind of recording, such as `PCP archive, version 2`.
    pub format: String,
    /// The host that was recorded; empty when the recording does not say.
    pub host: String,
    /// All its devices.
    pub devices: DeviceRanking,
    /// One of them.
    pub profile: DiskProfile,
    /// Warnings for the reader, as sentences.
    pub warnings: Vec<String>,
}

impl DiskProfile {
    /// Most points over time: enough for a wide chart.
    pub const POINTS_MAX: usize = 500;

    /// One direction.
    pub fn direction(&self, direction: IoDirection) -> Option<&DirectionProfile> {
        self.directions.iter().find(|d| d.direction == direction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_round_trip() {
        let average = ProfileAverage {
            stochastic: 1.5,
            time: 1.25,
        };
        let profile = DiskProfile {
            disk: "sda".into(),
            from: "2026-01-01T00:00:00+00:00".into(),
            to: "2026-01-01T01:00:00+00:00".into(),
            intervals: 240,
            intervals_dropped: 1,
            interval_s: 15.0,
            ops_per_s: Some(average),
            bytes_per_s: None,
            others: vec![OtherProfile {
                what: "flushes".into(),
                per_s: average,
                is_bytes: false,
            }],
            directions: vec![DirectionProfile {
                direction: IoDirection::Read,
                ops_per_s: Some(average),
                bytes_per_s: Some(average),
                mean_size_bytes: None,
                share: Some(1.0),
                rates: Some(IntervalRates {
                    median_per_s: 1.0,
                    p95_per_s: 2.0,
                    peak_per_s: 3.0,
                }),
                idc: Some(4.0),
            }],
            utilisation: None,
            queue: Some(QueueDepthProfile {
                average,
                source: QueueSource::Sampled,
                standard_error: Some(0.5),
            }),
            busy_ms_per_op: None,
            bursts: Vec::new(),
            phases: Vec::new(),
            points: Vec::new(),
            requests: None,
        };
        let text = toml::to_string(&profile).unwrap();
        assert_eq!(
            toml::from_str::<DiskProfile>(&text).unwrap(),
            profile,
            "{text}"
        );
        assert!(profile.direction(IoDirection::Write).is_none());
    }
}
