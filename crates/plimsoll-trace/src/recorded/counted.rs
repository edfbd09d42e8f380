// SPDX-License-Identifier: Apache-2.0
//! Requests counted by intervals, so that what describes counters describes them, too.

use plimsoll_core::op::Kind;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::blocks::Traced;

use crate::error::{Damage, TraceError};
use crate::recording::{About, Counters, Requests};
use crate::series::{Column, DiskMetric, DiskSeries, Interval, Verdict};
use crate::window::{Times, Window};

/// Most intervals of one recording: more than any that is read here asks for.
const INTERVALS_MAX: u64 = 1 << 20;

/// What each interval held.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    ops: [u64; 2],
    bytes: [u64; 2],
    took: [u64; 2],
}

/// Counters of one device, made of its requests.
pub(crate) struct Counted {
    about: About,
    disk: String,
    interval: Nanos,
    bins: Vec<Bin>,
    tells_service: bool,
    times: Times,
    damage: Option<Damage>,
}

impl Counted {
    pub(crate) fn new(about: &About, disk: &str, interval: Nanos) -> Counted {
        let nothing = Window {
            from_unix_ns: 0,
            to_unix_ns: 0,
        };
        Counted {
            about: about.clone(),
            disk: disk.into(),
            interval,
            bins: Vec::new(),
            tells_service: false,
            times: Times::new(&about.name, "UTC", nothing).0,
            damage: None,
        }
    }

    /// Counts a request in the interval in which it started.
    pub(crate) fn add(&mut self, request: &Traced, took: Option<Nanos>) {
        let direction = match request.kind {
            Kind::Read => 0,
            Kind::Write => 1,
            _ => return,
        };
        let bin = (request.at.0 / self.interval.0.max(1)).min(INTERVALS_MAX);
        let bin = plimsoll_core::num::to_usize(bin);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, Bin::default());
        }
        let bin = &mut self.bins[bin];
        bin.ops[direction] += 1;
        bin.bytes[direction] += u64::from(request.bytes);
        if let Some(took) = took {
            bin.took[direction] += took.0;
            self.tells_service = true;
        }
    }

    /// Says when everything was recorded: until its end every interval counts, empty or not.
    pub(crate) fn finish(&mut self, length: Nanos, requests: &dyn Requests) {
        let n = length
            .0
            .div_ceil(self.interval.0.max(1))
            .clamp(1, INTERVALS_MAX);
        let n = plimsoll_core::num::to_usize(n).max(self.bins.len());
        self.bins.resize(n, Bin::default());
        let from_unix_ns = requests.origin_unix_ns().unwrap_or(0);
        let length = self.interval.0.saturating_mul(n as u64);
        let span = Window {
            from_unix_ns,
            to_unix_ns: from_unix_ns.saturating_add(length),
        };
        self.times = Times::new(&self.about.name, "UTC", span).0;
        self.damage = requests.damage().cloned();
    }

    fn column(&self, metric: DiskMetric, of: impl Fn(&Bin) -> f64) -> Column {
        let mut from_unix_ns = self.times.span().from_unix_ns;
        let interval = |bin| {
            let from = from_unix_ns;
            from_unix_ns += self.interval.0;
            Interval {
                from_unix_ns: from,
                to_unix_ns: from_unix_ns,
                difference: of(bin),
                verdict: Verdict::Kept,
            }
        };
        Column {
            metric,
            intervals: self.bins.iter().map(interval).collect(),
            samples: Vec::new(),
        }
    }
}

impl Counters for Counted {
    fn about(&self) -> &About {
        &self.about
    }

    fn times(&self) -> &Times {
        &self.times
    }

    fn disks(&self) -> Vec<String> {
        vec![self.disk.clone()]
    }

    fn series(&self, disk: &str, _: &Window) -> Result<DiskSeries, TraceError> {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let mut columns = vec![
            self.column(DiskMetric::Reads, |bin| bin.ops[0] as f64),
            self.column(DiskMetric::Writes, |bin| bin.ops[1] as f64),
            self.column(DiskMetric::ReadBytes, |bin| bin.bytes[0] as f64),
            self.column(DiskMetric::WriteBytes, |bin| bin.bytes[1] as f64),
        ];
        if self.tells_service {
            columns.extend([
                self.column(DiskMetric::QueueTime, |bin| {
                    seconds(bin.took[0] + bin.took[1])
                }),
                self.column(DiskMetric::ReadTime, |bin| seconds(bin.took[0])),
                self.column(DiskMetric::WriteTime, |bin| seconds(bin.took[1])),
            ]);
        }
        Ok(DiskSeries {
            disk: disk.into(),
            columns,
            damage: self.damage.clone(),
            warnings: Vec::new(),
        })
    }

    fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    fn warnings(&self) -> &[String] {
        &[]
    }
}
