// SPDX-License-Identifier: Apache-2.0
//! Watching the machine that a load comes from, while it comes: a look each second at what the
//! kernel counts, and a small packet to each server; what disks count is looked at ten times a second.
//!
//! Invariant: a few small files are read each second on a thread of its own, and what is kept does not
//! grow with the length of the trial.

mod disk_looks;

use plimsoll_core::evidence::{
    CpuFrequencyUse, CpuUse, DiskRequests, DiskUse, LinkUse, LoadThreadUse, MachineUse,
    MemoryLimitUse, PeerRoundTrips, TcpUse,
};
use plimsoll_core::num::{round_u64, saturating_u32};
use plimsoll_core::units::Nanos;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::host::HostTimeSource;
use crate::host::counters::{
    DeviceCounters, LinkCounters, MachineCounters, link_bits_per_s, queue_slots,
};
use crate::host::echo::EchoPath;
use disk_looks::DiskLooks;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two looks at what disks have ended.
const DISK_LOOK: Duration = Duration::from_millis(100);
/// How often it is seen whether to stop.
const PAUSE: Duration = Duration::from_millis(20);
/// Longest time for an answer of a server before the load begins.
const IDLE_TIMEOUT: Duration = Duration::from_millis(300);
/// Round trips before the load begins.
const IDLE_TRIPS: u32 = 3;
/// Trains of packets before the load begins, and the longest time for one of them.
const TRAINS: u32 = 8;
const TRAIN_TIMEOUT: Duration = Duration::from_millis(200);
/// Longest time for an answer under load.
const LOADED_TIMEOUT: Duration = Duration::from_millis(900);
/// Round trips under load that are kept: after these, every other one is dropped.
const TRIPS_MAX: usize = 1024;

/// The ways to the servers of a trial.
#[derive(Debug, Default)]
pub struct PeerEchoes(Vec<PeerEcho>);

#[derive(Debug)]
struct PeerEcho {
    path: EchoPath,
    idle: Option<Duration>,
    bytes_per_s: Option<u64>,
    loaded: Vec<Duration>,
    sent: u32,
    answered: u32,
}

impl PeerEchoes {
    /// The ways to these servers, with the round trip of each while nothing is asked of it. Those
    /// that are on this machine or do not answer are left out.
    pub fn begin(peers: &[String], clock: &dyn HostTimeSource) -> PeerEchoes {
        let paths = peers.iter().take(MachineUse::PEERS_MAX);
        let measured = paths.filter_map(|peer| EchoPath::to(peer)).map(|mut path| {
            // One that does not answer at once (a firewall) would only cost time.
            let trips = (0..IDLE_TRIPS).map_while(|_| path.round_trip(IDLE_TIMEOUT, clock));
            let idle = trips.min();
            let trains = (0..TRAINS).filter(|_| idle.is_some());
            let rates = trains.map_while(|_| path.train(TRAIN_TIMEOUT, clock));
            PeerEcho {
                bytes_per_s: rates.reduce(f64::max).map(round_u64),
                idle,
                path,
                loaded: Vec::new(),
                sent: 0,
                answered: 0,
            }
        });
        PeerEchoes(measured.filter(|peer| peer.idle.is_some()).collect())
    }

    fn measure(&mut self, clock: &dyn HostTimeSource) {
        for peer in &mut self.0 {
            peer.sent += 1;
            let Some(trip) = peer.path.round_trip(LOADED_TIMEOUT, clock) else {
                continue;
            };
            peer.answered += 1;
            peer.loaded.push(trip);
            if peer.loaded.len() > TRIPS_MAX {
                let mut is_kept = false;
                peer.loaded.retain(|_| {
                    is_kept = !is_kept;
                    is_kept
                });
            }
        }
    }

    fn end(self) -> Vec<PeerRoundTrips> {
        let one = |mut peer: PeerEcho| {
            peer.loaded.sort_unstable();
            let quarter = peer.loaded.len() / 4;
            PeerRoundTrips {
                peer: peer.path.peer().into(),
                idle: peer.idle.map(Nanos::from),
                bytes_per_s: peer.bytes_per_s,
                loaded: peer.loaded.get(quarter).copied().map(Nanos::from),
                sent: peer.sent,
                answered: peer.answered,
            }
        };
        self.0.into_iter().map(one).collect()
    }
}

/// When the watching begins and ends.
#[derive(Debug, Clone, Copy)]
pub struct ClientWatchSpan<'a> {
    /// How long nothing is counted at first: the warm-up.
    pub after: Duration,
    /// Set when the load is over.
    pub stop: &'a AtomicBool,
}

/// How a machine is looked at.
#[derive(Debug, Clone, Copy)]
pub struct ClientWatchLook<M, D> {
    /// Everything, once a second.
    pub machine: M,
    /// Its disks.
    pub disks: D,
}

/// Watches this machine until stopped; `None` when it was stopped before anything was to be counted.
pub fn watch_client(
    span: ClientWatchSpan<'_>,
    mut peers: PeerEchoes,
    clock: &dyn HostTimeSource,
    mut look: ClientWatchLook<
        impl FnMut() -> MachineCounters,
        impl FnMut() -> BTreeMap<String, DeviceCounters>,
    >,
) -> Option<MachineUse> {
    let is_over = || span.stop.load(Ordering::Relaxed);
    let wait_until = |at: Duration| {
        while clock.now() < at && !is_over() {
            clock.pause(PAUSE);
        }
    };
    wait_until(clock.now() + span.after);
    if is_over() {
        return None;
    }
    let began = clock.now();
    let mut fold = ClientUseFold::new((look.machine)());
    let mut next = began + LOOK;
    loop {
        peers.measure(clock);
        while clock.now() < next && !is_over() {
            let now = clock.now();
            fold.disk_looks.add(&(look.disks)(), now);
            wait_until(next.min(now + DISK_LOOK));
        }
        next = clock.now().max(next) + LOOK;
        fold.add((look.machine)(), clock.now());
        if is_over() {
            break;
        }
    }
    let mut used = fold.end(Nanos::from(clock.now().saturating_sub(began)));
    used.peers = peers.end();
    Some(used)
}

/// The use so far.
struct ClientUseFold {
    first: MachineCounters,
    last: MachineCounters,
    looks: u32,
    threads: LoadThreadUse,
    frequencies: Vec<f64>,
    array_syncs: Vec<String>,
    disk_looks: DiskLooks,
}

impl ClientUseFold {
    fn new(first: MachineCounters) -> Self {
        ClientUseFold {
            last: first.clone(),
            looks: 1,
            threads: LoadThreadUse::default(),
            frequencies: first.frequency.into_iter().collect(),
            array_syncs: Vec::new(),
            disk_looks: DiskLooks::default(),
            first,
        }
    }

    fn add(&mut self, now: MachineCounters, at: Duration) {
        self.looks += 1;
        self.disk_looks.add(&now.disks, at);
        self.disk_looks.end_second();
        for (thread, (ran, waited)) in &now.threads {
            // One that has come since began at nothing.
            let before = self.last.threads.get(thread).copied().unwrap_or_default();
            let since = |now: u64, before: u64| Nanos(now.saturating_sub(before));
            self.threads.ran = self.threads.ran + since(*ran, before.0);
            self.threads.waited = self.threads.waited + since(*waited, before.1);
        }
        if self.frequencies.len() < TRIPS_MAX {
            self.frequencies.extend(now.frequency);
        }
        for sync in now.array_syncs.iter().flatten() {
            if !self.array_syncs.contains(sync) && self.array_syncs.len() < MachineUse::ARRAYS_MAX {
                self.array_syncs.push(sync.clone());
            }
        }
        self.last = now;
    }

    fn end(mut self, length: Nanos) -> MachineUse {
        let since = |last: Option<u64>, first: Option<u64>| Some(last?.saturating_sub(first?));
        let (first, last) = (&self.first, &self.last);
        let hits = |of: &MachineCounters| of.group.cpu.map(|(hits, _)| hits);
        let waited = |of: &MachineCounters| of.group.cpu.map(|(_, waited)| waited);
        let tcp = last.tcp.zip(first.tcp).map(|(last, first)| {
            let again = last.1.saturating_sub(first.1);
            TcpUse {
                // Linux counts what is sent again in neither of the other.
                sent: last.0.saturating_sub(first.0),
                retransmitted: again,
            }
        });
        MachineUse {
            machine: String::new(),
            length,
            looks: self.looks,
            cpu_count: saturating_u32(last.cpus.len() as u64),
            cpus: cpus(first, last),
            load_threads: (!last.threads.is_empty()).then_some(self.threads),
            frequency: frequency(&self.frequencies),
            heat_throttles: since(last.heat_throttles, first.heat_throttles),
            cpu_limit_hits: since(hits(last), hits(first)),
            cpu_limit_waited: since(waited(last), waited(first)).map(Nanos),
            memory_limit: memory_limit(first, last),
            io_limits: last.group.disks.clone(),
            tcp,
            links: links(first, last),
            peers: Vec::new(),
            disks: disks(first, last, &mut self.disk_looks),
            knows_arrays: last.array_syncs.is_some(),
            array_syncs: self.array_syncs,
        }
    }
}

fn memory_limit(first: &MachineCounters, last: &MachineCounters) -> Option<MemoryLimitUse> {
    let (first, last) = (first.group.memory?, last.group.memory?);
    let again = last.read_again_bytes;
    Some(MemoryLimitUse {
        limit_bytes: last.limit_bytes,
        hits: last.hits.saturating_sub(first.hits),
        read_again_bytes: again.saturating_sub(first.read_again_bytes),
    })
}

fn frequency(shares: &[f64]) -> Option<CpuFrequencyUse> {
    let lowest = shares.iter().copied().reduce(f64::min)?;
    Some(CpuFrequencyUse {
        mean_share: shares.iter().sum::<f64>() / shares.len() as f64,
        lowest_share: lowest,
    })
}

fn cpus(first: &MachineCounters, last: &MachineCounters) -> Vec<CpuUse> {
    let one = |(&cpu, &busy): (&u32, &u64)| CpuUse {
        cpu,
        busy: Nanos(busy.saturating_sub(first.cpus.get(&cpu).copied().unwrap_or(busy))),
    };
    let mut all: Vec<CpuUse> = last.cpus.iter().map(one).collect();
    all.sort_by_key(|one| (std::cmp::Reverse(one.busy), one.cpu));
    all.truncate(MachineUse::CPUS_MAX);
    all
}

fn links(first: &MachineCounters, last: &MachineCounters) -> Vec<LinkUse> {
    let one = |(name, now): (&String, &LinkCounters)| {
        let before = first.links.get(name).copied().unwrap_or_default();
        LinkUse {
            link: name.clone(),
            bits_per_s: link_bits_per_s(name),
            received_bytes: now.received.saturating_sub(before.received),
            sent_bytes: now.sent.saturating_sub(before.sent),
            dropped: now.dropped.saturating_sub(before.dropped),
        }
    };
    let moved = |link: &LinkUse| link.received_bytes.saturating_add(link.sent_bytes);
    let mut all: Vec<LinkUse> = last.links.iter().map(one).collect();
    all.retain(|link| moved(link) > 0);
    all.sort_by_key(|link| std::cmp::Reverse(moved(link)));
    all.truncate(MachineUse::LINKS_MAX);
    all
}

fn disks(first: &MachineCounters, last: &MachineCounters, looks: &mut DiskLooks) -> Vec<DiskUse> {
    let ms = |now: u64, before: u64| Nanos(now.saturating_sub(before).saturating_mul(1_000_000));
    let kind = |now: Option<(u64, u64)>, before: Option<(u64, u64)>| {
        let (now, before) = (now?, before.unwrap_or_default());
        Some(DiskRequests {
            count: now.0.saturating_sub(before.0),
            time: ms(now.1, before.1),
        })
    };
    let one = |(name, now): (&String, &DeviceCounters)| {
        let before = first.disks.get(name).copied().unwrap_or_default();
        DiskUse {
            disk: name.clone(),
            requests: now.requests.saturating_sub(before.requests),
            read_bytes: now.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: now.written_bytes.saturating_sub(before.written_bytes),
            busy: ms(now.busy_ms, before.busy_ms),
            request_time: ms(now.request_ms, before.request_ms),
            writes: kind(Some(now.writes), Some(before.writes)),
            discards: kind(now.discards, before.discards),
            flushes: kind(now.flushes, before.flushes),
            ..DiskUse::default()
        }
    };
    let mut all: Vec<DiskUse> = last.disks.iter().map(one).collect();
    all.retain(|disk| disk.requests > 0);
    all.sort_by_key(|disk| std::cmp::Reverse(disk.busy));
    all.truncate(MachineUse::DISKS_MAX);
    for disk in &mut all {
        disk.queue_slots = queue_slots(&disk.disk);
        (disk.pauses, disk.by_depth) = looks.end(&disk.disk);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::SystemClock;

    #[test]
    fn what_was_counted_between_the_looks_is_told() {
        let stop = AtomicBool::new(false);
        let mut turn = 0_u64;
        let mut look = || {
            turn += 1;
            stop.store(turn > 1, Ordering::Relaxed);
            MachineCounters {
                cpus: [(0, 10 * turn), (1, 100 * turn)].into(),
                threads: [(7, (50 * turn, 10 * turn)), (8, (9, 9))].into(),
                tcp: Some((100 * turn, 7 * turn)),
                heat_throttles: Some(5 * turn),
                array_syncs: Some(vec!["md0: check".into()]),
                ..MachineCounters::default()
            }
        };
        let span = ClientWatchSpan {
            after: Duration::ZERO,
            stop: &stop,
        };
        let clock = SystemClock::new();
        let look = ClientWatchLook {
            machine: &mut look,
            disks: BTreeMap::new,
        };
        let used = watch_client(span, PeerEchoes::default(), &clock, look).unwrap();
        assert_eq!((used.looks, used.cpu_count), (2, 2));
        assert_eq!(used.cpus[0].cpu, 1, "the busiest comes first");
        let threads = used.load_threads.unwrap();
        assert_eq!((threads.ran, threads.waited), (Nanos(50), Nanos(10)));
        assert_eq!(used.tcp.unwrap().retransmitted, 7);
        assert_eq!(used.heat_throttles, Some(5));
        assert_eq!(used.array_syncs, ["md0: check"]);
        assert!(used.knows_arrays && used.cpu_limit_hits.is_none());
    }

    #[test]
    fn a_load_that_ends_in_its_warm_up_has_no_account() {
        let stop = AtomicBool::new(true);
        let span = ClientWatchSpan {
            after: Duration::from_secs(3600),
            stop: &stop,
        };
        let look = ClientWatchLook {
            machine: MachineCounters::now,
            disks: BTreeMap::new,
        };
        let clock = SystemClock::new();
        assert!(watch_client(span, PeerEchoes::default(), &clock, look).is_none());
    }
}
