// SPDX-License-Identifier: Apache-2.0
//! Many recordings as one: a summary of each, and what all of them are together.
//!
//! [`summarise`] makes whole numbers of a recording, [`RecordingPool`] adds those of many up. Whether
//! the summaries come from this program or from partial results of others, in which order, and in
//! how many pieces, changes nothing: sums of whole numbers are exact, everything else is computed
//! from them at the end, and a recording that comes twice counts once.

mod counters;
mod finish;
mod members;
mod model;
mod recordings;
mod steps;
mod summary;
mod traces;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use plimsoll_core::histogram::Histogram;
use plimsoll_core::op::OpKind;
use plimsoll_core::partial::{DeviceSummary, PoolSettings, RecordingSummary, RequestsSummary};
use plimsoll_trace::{DiskMetric, TraceError};

use self::members::PoolHost;
use self::recordings::KnownRecording;
use self::steps::PoolSteps;
pub use self::summary::summarise;

/// The counters of a device, in the order of `CounterTotals::each_mut`.
const COUNTED: [DiskMetric; 11] = [
    DiskMetric::Reads,
    DiskMetric::Writes,
    DiskMetric::ReadBytes,
    DiskMetric::WriteBytes,
    DiskMetric::Ops,
    DiskMetric::Active,
    DiskMetric::Idle,
    DiskMetric::QueueTime,
    DiskMetric::ReadTime,
    DiskMetric::WriteTime,
    DiskMetric::TotalTime,
];

/// The recordings that were added so far. Memory grows with the hosts, their disks, the steps of
/// time and the recordings' names, not with their length.
#[derive(Debug)]
pub struct RecordingPool {
    settings: PoolSettings,
    /// By digest.
    known: BTreeMap<String, KnownRecording>,
    /// By name; hosts without one by the digest of their recording.
    hosts: BTreeMap<PoolHostKey, PoolHost>,
    interval_rates: Histogram,
    steps: PoolSteps,
    requests: PoolRequestSums,
    intervals: (u64, u64),
    counted_again: u64,
}

/// By what the recordings of one host are known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum PoolHostKey {
    Named(String),
    /// The digest of its only recording.
    Unnamed(String),
}

/// Sums of what only requests show.
#[derive(Debug, Default)]
struct PoolRequestSums {
    recordings: u64,
    kinds: BTreeMap<usize, PoolKindSums>,
    gaps: Histogram,
}

#[derive(Debug)]
struct PoolKindSums {
    kind: OpKind,
    requests: u64,
    bytes: u64,
    sizes: BTreeMap<u8, u64>,
    response: Histogram,
}

/// Outcome of adding a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolAddition {
    /// It counts.
    Counted,
    /// The recording was there: it still counts once.
    Known,
}

impl RecordingPool {
    /// One without recordings.
    pub fn new(settings: PoolSettings) -> RecordingPool {
        RecordingPool {
            settings,
            known: BTreeMap::new(),
            hosts: BTreeMap::new(),
            interval_rates: Histogram::new(),
            steps: PoolSteps::default(),
            requests: PoolRequestSums::default(),
            intervals: (0, 0),
            counted_again: 0,
        }
    }

    /// Settings that apply to every recording.
    pub fn settings(&self) -> &PoolSettings {
        &self.settings
    }

    /// Recordings, those included that could not be read.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there are no recordings.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Adds a recording.
    ///
    /// # Errors
    /// When it was added with other figures, or sums become more than can be counted.
    pub fn add(&mut self, summary: &RecordingSummary) -> Result<PoolAddition, TraceError> {
        let failed = |reason: String| TraceError::Together {
            recording: summary.name.clone(),
            reason,
        };
        let figures = figures_hash(summary);
        if let Some(known) = self.known.get_mut(&summary.sha256) {
            known.again(summary, figures).map_err(failed)?;
            return Ok(PoolAddition::Known);
        }
        let known = KnownRecording::of(summary, figures);
        self.known.insert(summary.sha256.clone(), known);
        if summary.unread.is_some() {
            return Ok(PoolAddition::Counted);
        }
        let key = match summary.host.as_str() {
            "" => PoolHostKey::Unnamed(summary.sha256.clone()),
            host => PoolHostKey::Named(host.into()),
        };
        let host = self.hosts.entry(key).or_default();
        host.add(summary).map_err(failed)?;
        self.interval_rates.merge(&summary.interval_rates);
        self.steps.add(summary).map_err(failed)?;
        self.counted_again = self.counted_again.saturating_add(summary.counted_again);
        for DeviceSummary {
            intervals,
            intervals_dropped,
            ..
        } in &summary.devices
        {
            let (kept, dropped) = self.intervals;
            self.intervals = (
                kept.saturating_add(*intervals),
                dropped.saturating_add(*intervals_dropped),
            );
        }
        if let Some(requests) = &summary.requests {
            self.requests.add(requests).map_err(failed)?;
        }
        Ok(PoolAddition::Counted)
    }
}

impl PoolRequestSums {
    fn add(&mut self, requests: &RequestsSummary) -> Result<(), String> {
        self.recordings += 1;
        self.gaps.merge(&requests.gaps);
        for kind in &requests.kinds {
            let sums = self
                .kinds
                .entry(kind.kind.index())
                .or_insert_with(|| PoolKindSums {
                    kind: kind.kind,
                    requests: 0,
                    bytes: 0,
                    sizes: BTreeMap::new(),
                    response: Histogram::new(),
                });
            let add = |sum: &mut u64, more: u64| {
                *sum = sum
                    .checked_add(more)
                    .ok_or("its requests are more than can be counted")?;
                Ok::<(), String>(())
            };
            add(&mut sums.requests, kind.requests)?;
            add(&mut sums.bytes, kind.bytes)?;
            for (power, requests) in &kind.sizes {
                add(sums.sizes.entry(*power).or_default(), *requests)?;
            }
            sums.response.merge(&kind.response);
        }
        Ok(())
    }
}

/// Of everything that does not depend on where and by what name a recording was read.
fn figures_hash(summary: &RecordingSummary) -> u64 {
    let figures = RecordingSummary {
        name: String::new(),
        notes: Vec::new(),
        unread: summary.unread.as_ref().map(|_| String::new()),
        ..summary.clone()
    };
    // Plain data is always text; only ever compared within this process.
    let text = serde_json::to_string(&figures).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
