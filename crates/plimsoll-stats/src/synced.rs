// SPDX-License-Identifier: Apache-2.0
//! Synced writes of a system: how long one takes, and whether the disk was told to make it durable.

use plimsoll_core::event::{ArmEntry, KindStats, TrialResult};
use plimsoll_core::evidence::{DiskRequests, DiskUse};
use plimsoll_core::num::ratio;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

/// Multiples of a load up to this one show a sync by itself, and not a queue of them.
const LOW_LOAD: f64 = 1.0;
/// Fewest syncs that tell something of flushes.
const SYNCS_MIN: u64 = 50;
/// Flushes a sync, below which most syncs sent none.
const FLUSHED: f64 = 0.5;
/// A flush that ends sooner wrote to no flash and no magnetic medium: programming a page of flash takes
/// longer (0.2 to 3 ms), and so does half a turn of a disk (4 ms) …
const AT_ONCE: Nanos = Nanos(100_000);
/// … and one that takes little longer than a write into the cache, where the way to the disk is slow.
const NO_MEDIUM: Nanos = Nanos(500_000);
const AS_A_WRITE: f64 = 2.0;

/// Synced writes of a system at a low load.
#[derive(Debug, Clone, PartialEq)]
pub struct SyncedWrites {
    /// Syncs that ended.
    pub stats: KindStats,
    /// Path of the syncs to the disk.
    pub flush: SyncFlush,
}

/// Path of a sync to the disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SyncFlush {
    /// The disks are not this machine's, or do not count flushes, or there were too few syncs.
    Unknown,
    /// The files are in memory.
    Memory,
    /// Most syncs sent no flush, and the disk says that it has no volatile cache.
    NotNeeded,
    /// Most syncs sent no flush, although the disk has a volatile cache.
    Missing,
    /// Syncs reached the disk as flushes, which took this long.
    Sent(Nanos),
    /// The same, and the flushes took less than any medium needs.
    AtOnce(Nanos),
}

impl SyncedWrites {
    /// From the trials of a system at low loads; where there are none, at its lowest. `None` where nothing
    /// was synced.
    pub fn of<'a>(
        arm: &ArmEntry,
        trials: impl Iterator<Item = &'a TrialResult>,
    ) -> Option<SyncedWrites> {
        let whole = trials.filter(|trial| !trial.interrupted && syncs(trial).next().is_some());
        let whole: Vec<&TrialResult> = whole.collect();
        let lowest = whole.iter().map(|trial| multiple(trial));
        let low = lowest.fold(f64::INFINITY, f64::min).max(LOW_LOAD) * (1.0 + 1e-6);
        let mut stats = KindStats::default();
        let mut requests = Some(FlushesAndWrites::default());
        for trial in whole.into_iter().filter(|trial| multiple(trial) <= low) {
            syncs(trial).for_each(|kind| stats.merge(kind));
            let more = requests_of(arm, trial);
            requests = requests.zip(more).map(|(sum, more)| sum.with(more));
        }
        let syncs = stats.ops();
        (syncs > 0).then(|| SyncedWrites {
            stats,
            flush: flush(arm, syncs, requests),
        })
    }
}

/// Syncs of a trial, by their kind.
fn syncs(trial: &TrialResult) -> impl Iterator<Item = &KindStats> {
    let kinds = [OpKind::Fdatasync, OpKind::Fsync].into_iter();
    kinds.filter_map(|kind| trial.stats.0.get(&kind))
}

/// Times of its load that a trial played.
fn multiple(trial: &TrialResult) -> f64 {
    let line = trial.load_line.as_ref();
    line.map_or(LOW_LOAD, |line| line.request.multiple)
}

/// Requests of disks while writes were synced.
#[derive(Debug, Clone, Copy, Default)]
struct FlushesAndWrites {
    flushes: DiskRequests,
    writes: DiskRequests,
}

impl FlushesAndWrites {
    fn with(self, more: FlushesAndWrites) -> FlushesAndWrites {
        let add = |a: DiskRequests, b: DiskRequests| DiskRequests {
            count: a.count + b.count,
            time: a.time + b.time,
        };
        FlushesAndWrites {
            flushes: add(self.flushes, more.flushes),
            writes: add(self.writes, more.writes),
        }
    }
}

/// The flushes and writes of the disks below a system in a trial; `None` where they are not counted.
fn requests_of(arm: &ArmEntry, trial: &TrialResult) -> Option<FlushesAndWrites> {
    let disks = &arm.facts.as_ref()?.disks;
    let used = trial.machines.iter().find(|used| used.length.0 > 0)?;
    let below = |used: &&DiskUse| disks.contains(&used.disk);
    let of = |disk: &DiskUse| {
        Some(FlushesAndWrites {
            flushes: disk.flushes?,
            writes: disk.writes.unwrap_or_default(),
        })
    };
    let all = used.disks.iter().filter(below).map(of);
    all.reduce(|sum, more| Some(sum?.with(more?)))?
}

fn mean(of: DiskRequests) -> Nanos {
    Nanos(of.time.0 / of.count.max(1))
}

fn flush(arm: &ArmEntry, syncs: u64, requests: Option<FlushesAndWrites>) -> SyncFlush {
    let Some(facts) = &arm.facts else {
        return SyncFlush::Unknown;
    };
    if facts.memory().is_some() {
        return SyncFlush::Memory;
    }
    let Some(requests) = requests.filter(|_| syncs >= SYNCS_MIN) else {
        return SyncFlush::Unknown;
    };
    let is_sent = ratio(requests.flushes.count as f64, syncs as f64) >= FLUSHED;
    let [each, write] = [requests.flushes, requests.writes].map(mean);
    let is_as_a_write = each < NO_MEDIUM && each.0 as f64 <= AS_A_WRITE * write.0 as f64;
    match (is_sent, facts.write_cache.as_str()) {
        (true, _) if each < AT_ONCE || is_as_a_write => SyncFlush::AtOnce(each),
        (true, _) => SyncFlush::Sent(each),
        (false, "write through") => SyncFlush::NotNeeded,
        (false, "write back") => SyncFlush::Missing,
        (false, _) => SyncFlush::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::event::{OpStats, TrialId};
    use plimsoll_core::evidence::MachineUse;
    use plimsoll_core::load_line::{LoadLinePurpose, LoadLineRecord, LoadLineRequest};
    use plimsoll_core::op::OpSampleBatch;
    use plimsoll_core::target::TargetFacts;

    const WRITE_US: u64 = 150;

    fn arm(write_cache: &str) -> ArmEntry {
        ArmEntry {
            name: "a".into(),
            target: "/a".into(),
            description: String::new(),
            control_of: None,
            facts: Some(TargetFacts {
                disks: vec!["sda".into()],
                write_cache: write_cache.into(),
                ..TargetFacts::default()
            }),
        }
    }

    /// A trial at a multiple with syncs of 3 ms, and the flushes of two disks.
    fn trial(multiple: f64, syncs: u64, flushes: u64, each_us: u64) -> TrialResult {
        let mut synced = KindStats::default();
        synced.record_alike(&OpSampleBatch {
            kind: OpKind::Fdatasync,
            completed_at: Nanos(3_000_000),
            ops: syncs,
            ..OpSampleBatch::NONE
        });
        let disk = |name: &str, count: u64| DiskUse {
            disk: name.into(),
            flushes: Some(DiskRequests {
                count,
                time: Nanos(count * each_us * 1000),
            }),
            writes: Some(DiskRequests {
                count: 100,
                time: Nanos(100 * WRITE_US * 1000),
            }),
            ..DiskUse::default()
        };
        TrialResult {
            stats: OpStats([(OpKind::Fdatasync, synced)].into()),
            machines: vec![MachineUse {
                length: Nanos::SECOND,
                disks: vec![disk("sda", flushes), disk("sdb", 1_000_000)],
                ..MachineUse::default()
            }],
            load_line: Some(LoadLineRecord {
                request: LoadLineRequest {
                    multiple,
                    seconds: 1.0,
                    purpose: LoadLinePurpose::Locate,
                    is_continued: false,
                },
                readings: Vec::new(),
            }),
            ..TrialResult::of(TrialId {
                block: 0,
                place: 0,
                arm: "a".into(),
                workload: "w".into(),
            })
        }
    }

    fn flush_of(write_cache: &str, trials: &[TrialResult]) -> SyncFlush {
        SyncedWrites::of(&arm(write_cache), trials.iter())
            .unwrap()
            .flush
    }

    #[test]
    fn a_flush_is_judged_by_its_time_and_what_the_disk_says_of_its_cache() {
        let slow = [trial(0.5, 100, 110, 1_500)];
        assert_eq!(
            flush_of("write back", &slow),
            SyncFlush::Sent(Nanos(1_500_000))
        );
        let quick = [trial(0.5, 100, 110, 20)];
        assert_eq!(
            flush_of("write back", &quick),
            SyncFlush::AtOnce(Nanos(20_000))
        );
        // Over a slow way: as long as a write.
        let slow_way = [trial(0.5, 100, 110, 2 * WRITE_US)];
        let at_once = SyncFlush::AtOnce(Nanos(2_000 * WRITE_US));
        assert_eq!(flush_of("write back", &slow_way), at_once);
        let longer = [trial(0.5, 100, 110, 3 * WRITE_US)];
        let sent = SyncFlush::Sent(Nanos(3_000 * WRITE_US));
        assert_eq!(flush_of("write back", &longer), sent);
        let none = [trial(0.5, 100, 3, 20)];
        assert_eq!(flush_of("write back", &none), SyncFlush::Missing);
        assert_eq!(flush_of("write through", &none), SyncFlush::NotNeeded);
        assert_eq!(flush_of("", &none), SyncFlush::Unknown);
        let few = [trial(0.5, 20, 20, 1_500)];
        assert_eq!(flush_of("write back", &few), SyncFlush::Unknown);
    }

    #[test]
    fn only_low_loads_tell_how_long_a_sync_takes() {
        let trials = [trial(0.5, 60, 60, 1_000), trial(4.0, 9_000, 10, 1)];
        let synced = SyncedWrites::of(&arm("write back"), trials.iter()).unwrap();
        assert_eq!(synced.stats.ops(), 60);
        assert_eq!(synced.flush, SyncFlush::Sent(Nanos(1_000_000)));
        // Nothing else was played: its lowest load tells.
        let high = [trial(4.0, 90, 90, 1_000), trial(8.0, 9_000, 10, 1)];
        let synced = SyncedWrites::of(&arm("write back"), high.iter()).unwrap();
        assert_eq!(synced.stats.ops(), 90);
        assert_eq!(SyncedWrites::of(&arm(""), [].iter()), None);
    }

    #[test]
    fn memory_and_disks_elsewhere_are_told_as_such() {
        let trials = [trial(1.0, 100, 100, 1_000)];
        let mut memory = arm("");
        memory.facts.as_mut().unwrap().in_memory = Some("tmpfs".into());
        let flush = |arm: &ArmEntry| SyncedWrites::of(arm, trials.iter()).unwrap().flush;
        assert_eq!(flush(&memory), SyncFlush::Memory);
        let mut elsewhere = arm("write back");
        elsewhere.facts.as_mut().unwrap().disks.clear();
        assert_eq!(flush(&elsewhere), SyncFlush::Unknown);
        elsewhere.facts = None;
        assert_eq!(flush(&elsewhere), SyncFlush::Unknown);
    }
}
