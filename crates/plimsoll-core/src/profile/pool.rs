// SPDX-License-Identifier: Apache-2.0
//! Many recordings described together: their hosts and devices beside each other, and the sum of
//! all as if it were one disk.

use serde::{Deserialize, Serialize};

use super::{DiskProfile, KindProfile, TimeDistribution};
use crate::op::OpKind;
use crate::partial::PoolSettings;

/// A figure of every host, or of every device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PoolFigure {
    /// Operations per second, mean over time.
    OpsPerS,
    /// Operations per second of the busiest interval of a device.
    PeakOpsPerS,
    /// Bytes per second, mean over time.
    BytesPerS,
    /// Reads among the operations, 0..=1.
    ReadShare,
    /// Bytes per operation.
    SizeBytes,
    /// Share of the time with something in flight, 0..=1.
    Busy,
    /// Mean operations waiting or being served.
    Queue,
    /// Mean response time, milliseconds.
    ResponseMs,
}

/// How a figure is spread over hosts or devices: exact, of all that have it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSpread {
    /// Which.
    pub figure: PoolFigure,
    /// How many have it.
    pub count: u64,
    /// The least.
    pub min: f64,
    /// Half of them have no more.
    pub median: f64,
    /// 90 of 100 have no more.
    pub p90: f64,
    /// 99 of 100 have no more.
    pub p99: f64,
    /// The most.
    pub max: f64,
}

/// The load of one host, or of one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolMember {
    /// The host; the recording where that does not name one.
    pub host: String,
    /// The device; `None` for the whole host.
    pub device: Option<String>,
    /// Its devices.
    pub devices: u64,
    /// Its recordings.
    pub recordings: u64,
    /// Time that was recorded, of all its devices together, seconds.
    pub device_s: f64,
    /// Operations per second, mean over time.
    pub ops_per_s: Option<f64>,
    /// Operations per second of the busiest interval of a device.
    pub peak_ops_per_s: f64,
    /// Reads among the operations, 0..=1.
    pub read_share: Option<f64>,
    /// Bytes per second, mean over time.
    pub bytes_per_s: Option<f64>,
    /// Share of the time with something in flight, 0..=1; of a host that of its busiest device.
    pub busy: Option<f64>,
    /// Mean operations waiting or being served.
    pub queue: Option<f64>,
    /// Mean response time, milliseconds.
    pub response_ms: Option<f64>,
}

impl PoolMember {
    /// One of its figures.
    pub fn figure(&self, figure: PoolFigure) -> Option<f64> {
        match figure {
            PoolFigure::OpsPerS => self.ops_per_s,
            PoolFigure::PeakOpsPerS => Some(self.peak_ops_per_s),
            PoolFigure::BytesPerS => self.bytes_per_s,
            PoolFigure::ReadShare => self.read_share,
            PoolFigure::SizeBytes => {
                let ops = self.ops_per_s.filter(|ops| *ops > 0.0)?;
                Some(self.bytes_per_s? / ops)
            }
            PoolFigure::Busy => self.busy,
            PoolFigure::Queue => self.queue,
            PoolFigure::ResponseMs => self.response_ms,
        }
    }
}

/// A recording that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolUnread {
    /// Its name.
    pub recording: String,
    /// Why it could not be read.
    pub reason: String,
}

/// Requests of one kind, by size: the power of two that is not below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSizeCount {
    /// Kind.
    pub kind: OpKind,
    /// Requests of at most this number of bytes, and of more than half of it.
    pub bytes_max: u64,
    /// How many.
    pub requests: u64,
}

/// Figures that only requests show, of all recordings of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolRequests {
    /// Recordings of requests.
    pub recordings: u64,
    /// Kinds that occur.
    pub kinds: Vec<KindProfile>,
    /// Their sizes.
    pub sizes: Vec<PoolSizeCount>,
    /// Times between starts on the same device.
    pub gaps: Option<TimeDistribution>,
}

/// Many recordings described together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolProfile {
    /// Settings that apply to every recording.
    pub settings: PoolSettings,
    /// Recordings that count.
    pub recordings: u64,
    /// Of these, those without a date, which are not in `together`.
    pub undated: u64,
    /// Recordings that could not be read.
    pub unread: u64,
    /// The first of them.
    pub unread_named: Vec<PoolUnread>,
    /// Hosts.
    pub hosts: u64,
    /// Devices, without layers above others.
    pub devices: u64,
    /// Time that was recorded, of all devices together, seconds.
    pub device_s: f64,
    /// The mean loads of all hosts together, whenever each was recorded: operations per second.
    pub ops_per_s: f64,
    /// The same in bytes per second.
    pub bytes_per_s: f64,
    /// Figures over hosts.
    pub host_spread: Vec<PoolSpread>,
    /// Figures over devices.
    pub device_spread: Vec<PoolSpread>,
    /// Quantiles of the operations per second of all single intervals: share, rate. At most 1/64
    /// above the truth.
    pub interval_rates: Vec<(f64, f64)>,
    /// The hosts with the most load.
    pub busiest_hosts: Vec<PoolMember>,
    /// The devices with the most load.
    pub busiest_devices: Vec<PoolMember>,
    /// The sum of all devices at the same time, as if it were one disk; `None` without dates.
    pub together: Option<DiskProfile>,
    /// Figures that only requests show.
    pub requests: Option<PoolRequests>,
    /// Warnings for the reader, as sentences.
    pub warnings: Vec<String>,
}
