// SPDX-License-Identifier: Apache-2.0
//! Hosts and their devices: what was counted of each, and the load that follows from it.

use std::collections::BTreeMap;

use plimsoll_core::num::ratio;
use plimsoll_core::partial::{CounterTotal, CounterTotals, RecordingSummary};
use plimsoll_core::profile::{DeviceLoad, PoolMember};
use plimsoll_trace::{DiskAverages, MetricAverages};

use super::COUNTED;

/// A host, all its recordings together.
#[derive(Debug, Default)]
pub(super) struct PoolHost {
    recordings: u64,
    /// First and last instants of its recordings with a date.
    spans: Vec<(u64, u64)>,
    pub(super) devices: BTreeMap<String, PoolDeviceSums>,
}

/// A device of a host.
#[derive(Debug, Default)]
pub(super) struct PoolDeviceSums {
    recordings: u64,
    peak_milli: u64,
    totals: CounterTotals,
}

impl PoolHost {
    pub(super) fn add(&mut self, summary: &RecordingSummary) -> Result<(), String> {
        self.recordings += 1;
        if summary.has_date {
            self.spans.push((summary.from_unix_ns, summary.to_unix_ns));
        }
        for device in &summary.devices {
            let sums = self.devices.entry(device.name.clone()).or_default();
            sums.recordings += 1;
            sums.peak_milli = sums.peak_milli.max(device.peak_milli_ops_per_s);
            sums.totals.add(&device.totals)?;
        }
        Ok(())
    }

    /// Recordings that begin before one that began earlier has ended.
    pub(super) fn overlapping(&self) -> u64 {
        let mut spans = self.spans.clone();
        spans.sort_unstable();
        let (mut until, mut found) = (0, 0);
        for (from, to) in spans {
            found += u64::from(from < until);
            until = until.max(to);
        }
        found
    }

    /// The devices, and the host of them.
    pub(super) fn members(&self, host: &str) -> (PoolMember, Vec<PoolMember>) {
        let devices: Vec<PoolMember> = self
            .devices
            .iter()
            .map(|(name, sums)| sums.member(host, name))
            .collect();
        (self.whole(host, &devices), devices)
    }

    fn whole(&self, host: &str, devices: &[PoolMember]) -> PoolMember {
        let sum = |of: &dyn Fn(&PoolMember) -> Option<f64>| {
            devices.iter().filter_map(of).reduce(|a, b| a + b)
        };
        let most =
            |of: fn(&PoolMember) -> Option<f64>| devices.iter().filter_map(of).reduce(f64::max);
        let ops = sum(&|device| device.ops_per_s);
        let reads = sum(&|device| Some(device.read_share? * device.ops_per_s?));
        let shared = sum(&|device| device.read_share.and(device.ops_per_s));
        let waited = sum(&|device| Some(device.response_ms? * device.ops_per_s?));
        let answered = sum(&|device| device.response_ms.and(device.ops_per_s));
        PoolMember {
            host: host.into(),
            device: None,
            devices: devices.len() as u64,
            recordings: self.recordings,
            device_s: devices.iter().map(|device| device.device_s).sum(),
            ops_per_s: ops,
            peak_ops_per_s: most(|device| Some(device.peak_ops_per_s)).unwrap_or_default(),
            read_share: reads.zip(shared).map(|(reads, all)| ratio(reads, all)),
            bytes_per_s: sum(&|device| device.bytes_per_s),
            busy: most(|device| device.busy),
            queue: sum(&|device| device.queue),
            response_ms: waited.zip(answered).map(|(time, ops)| ratio(time, ops)),
        }
    }
}

impl PoolDeviceSums {
    fn member(&self, host: &str, name: &str) -> PoolMember {
        let DeviceLoad {
            ops_per_s,
            read_share,
            bytes_per_s,
            busy,
            queue,
            response_ms,
            ..
        } = crate::profile::load(&averages(name, &self.totals));
        PoolMember {
            host: host.into(),
            device: Some(name.into()),
            devices: 1,
            recordings: self.recordings,
            device_s: over_ns(&self.totals) as f64 / 1e9,
            ops_per_s,
            peak_ops_per_s: self.peak_milli as f64 / 1e3,
            read_share,
            bytes_per_s,
            busy,
            queue,
            response_ms,
        }
    }
}

/// The time that counts of a device: that of the figure of which most counts.
fn over_ns(totals: &CounterTotals) -> u64 {
    let mut totals = totals.clone();
    let each = totals.each_mut().into_iter().flatten();
    each.map(|total| total.over_ns).max().unwrap_or(0)
}

/// The totals as the averages of one disk, so that its load is that of any profile.
fn averages(disk: &str, totals: &CounterTotals) -> DiskAverages {
    let mut totals = totals.clone();
    let totals = COUNTED.into_iter().zip(totals.each_mut());
    let known = totals.filter_map(|(metric, total)| {
        let CounterTotal { sum, over_ns } = total.filter(|total| total.over_ns > 0)?;
        let seconds = over_ns as f64 / 1e9;
        let whole = match metric.is_seconds() {
            true => sum as f64 / 1e9,
            false => sum as f64,
        };
        let time = whole / seconds;
        let averages = MetricAverages {
            stochastic: time,
            time,
            count: 1,
            whole,
            seconds,
        };
        Some((metric, averages))
    });
    DiskAverages {
        disk: disk.into(),
        figures: known.collect(),
    }
}
