// SPDX-License-Identifier: Apache-2.0
//! Activity of machines while a trial was measured: the evidence that explanations rest on.
//!
//! Everything is bounded: a machine with hundreds of processors or disks keeps its busiest ones.

use serde::{Deserialize, Serialize};

use crate::num::ratio;
use crate::units::Nanos;

/// Activity of one machine during a trial, by looks about one second apart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MachineUse {
    /// Its name; empty for the machine of the run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// From the first look to the last one.
    pub length: Nanos,
    /// Number of looks.
    pub looks: u32,
    /// Its processors, all of them; the list holds the busiest.
    pub cpu_count: u32,
    /// The busiest processors, at most [`MachineUse::CPUS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<CpuUse>,
    /// Threads of the load generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_threads: Option<LoadThreadUse>,
    /// Frequency of the processors, where the kernel tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency: Option<CpuFrequencyUse>,
    /// How often a processor was slowed because it was hot, where that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heat_throttles: Option<u64>,
    /// How often the group of processes of the load had used up its processor time, where it has a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_limit_hits: Option<u64>,
    /// How long it then waited, all processors together, where that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_limit_waited: Option<Nanos>,
    /// The limit of memory of that group, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<MemoryLimitUse>,
    /// Limits of that group for disks, at most [`MachineUse::DISKS_MAX`]; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_limits: Option<Vec<DiskLimit>>,
    /// TCP segments, where they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpUse>,
    /// Network interfaces that moved something, without the loopback; at most
    /// [`MachineUse::LINKS_MAX`], the busiest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkUse>,
    /// Round trips to the servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<PeerRoundTrips>,
    /// Disks that moved something, at most [`MachineUse::DISKS_MAX`], the busiest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskUse>,
    /// Arrays that copied or checked their members meanwhile: `md0: resync`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub array_syncs: Vec<String>,
    /// Whether the kernel tells of arrays at all.
    #[serde(default)]
    pub knows_arrays: bool,
}

impl MachineUse {
    /// Most processors that are kept.
    pub const CPUS_MAX: usize = 8;
    /// Most network interfaces that are kept.
    pub const LINKS_MAX: usize = 8;
    /// Most disks that are kept.
    pub const DISKS_MAX: usize = 32;
    /// Most servers whose round trips are measured.
    pub const PEERS_MAX: usize = 4;
    /// Most arrays that are named.
    pub const ARRAYS_MAX: usize = 8;

    /// Bytes that its links moved, both ways.
    pub fn network_bytes(&self) -> u64 {
        let links = self.links.iter();
        let bytes = links.map(|link| link.received_bytes.saturating_add(link.sent_bytes));
        bytes.fold(0, u64::saturating_add)
    }
}

/// One processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CpuUse {
    /// Its number.
    pub cpu: u32,
    /// Time in which it ran programs or the kernel.
    pub busy: Nanos,
}

/// Threads of the load generator, as the scheduler saw them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoadThreadUse {
    /// Time on a processor.
    pub ran: Nanos,
    /// Time in which they could have run and waited for a processor.
    pub waited: Nanos,
}

impl LoadThreadUse {
    /// The share of the time in which they wanted a processor for which they had none.
    pub fn waited_share(&self) -> f64 {
        ratio(self.waited.0 as f64, (self.ran + self.waited).0 as f64)
    }
}

/// Effect of the memory limit of a group of processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MemoryLimitUse {
    /// The limit; the lowest, where groups above have others.
    pub limit_bytes: u64,
    /// How often it was reached.
    pub hits: u64,
    /// Bytes of files that were read again because they had been dropped from memory.
    pub read_again_bytes: u64,
}

/// Rate limit of a group of processes on a disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DiskLimit {
    /// The kernel's name of the disk.
    pub disk: String,
    /// The limited quantity.
    pub what: DiskLimitKind,
    /// The limit, in requests or bytes per second.
    pub per_s: u64,
}

/// Limited quantity of a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DiskLimitKind {
    /// Requests that read.
    #[default]
    Reads,
    /// Requests that write.
    Writes,
    /// Bytes read.
    ReadBytes,
    /// Bytes written.
    WrittenBytes,
}

/// Frequency of the processors, as a share of the highest one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CpuFrequencyUse {
    /// Mean over all looks and processors.
    pub mean_share: f64,
    /// Lowest mean of one look.
    pub lowest_share: f64,
}

/// TCP segments of a machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TcpUse {
    /// Sent, without those sent again.
    pub sent: u64,
    /// Sent again.
    pub retransmitted: u64,
}

/// One network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LinkUse {
    /// Its name.
    pub link: String,
    /// Bits per second that it says it can do, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bits_per_s: Option<u64>,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets that it dropped, both ways.
    pub dropped: u64,
}

/// Round trips of small packets to a server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PeerRoundTrips {
    /// Its address.
    pub peer: String,
    /// The shortest before the load began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<Nanos>,
    /// The lower quartile under load: where threads wait for a processor, the longer ones say nothing of
    /// the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<Nanos>,
    /// Bytes per second that the way carried before the load began, by trains of packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    /// Packets sent under load.
    pub sent: u32,
    /// Those that were answered within a second.
    pub answered: u32,
}

/// One disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DiskUse {
    /// The kernel's name of it.
    pub disk: String,
    /// Reads and writes that ended.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time with something in flight.
    pub busy: Nanos,
    /// Times of all requests, added up.
    pub request_time: Nanos,
    /// Those of all requests that write; none in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<DiskRequests>,
    /// Discards that ended, and their times, where they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discards: Option<DiskRequests>,
    /// Flushes that ended, and their times, where they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flushes: Option<DiskRequests>,
    /// Requests that it takes at once, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_slots: Option<u32>,
    /// Stretches in which nothing ended although something was in flight; none in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pauses: Option<DiskPauses>,
    /// The same by how much was in flight in a second, the least first: below 2, below 4, below 8 …;
    /// seconds without requests are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_depth: Vec<DiskAtDepth>,
}

/// Requests of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DiskRequests {
    /// Number of those that ended.
    pub count: u64,
    /// Their times, added up.
    pub time: Nanos,
}

/// Stretches of [`DiskPauses::LEAST`] and more in which a disk ended nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DiskPauses {
    /// Their number.
    pub count: u32,
    /// All together.
    pub time: Nanos,
    /// The longest.
    pub longest: Nanos,
}

impl DiskPauses {
    /// Shorter ones are not told from long requests.
    pub const LEAST: Nanos = Nanos(150_000_000);
}

/// Work of a disk at one range of requests in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DiskAtDepth {
    /// Number of stretches between two looks.
    pub looks: u32,
    /// Reads and writes that ended.
    pub requests: u64,
    /// Time with something in flight.
    pub busy: Nanos,
    /// Requests in flight, added up over the moments at which they were counted, and these moments.
    pub in_flight: [u64; 2],
}

impl DiskUse {
    /// Mean time of a request.
    pub fn mean_ns(&self) -> f64 {
        ratio(self.request_time.0 as f64, self.requests as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_nothing_are_zero() {
        assert!(LoadThreadUse::default().waited_share() < 1e-9);
        assert!(DiskUse::default().mean_ns() < 1e-9);
        let link = |received_bytes, sent_bytes| LinkUse {
            received_bytes,
            sent_bytes,
            ..LinkUse::default()
        };
        let machine = MachineUse {
            links: vec![link(3, 4), link(u64::MAX, 1)],
            ..MachineUse::default()
        };
        assert_eq!(machine.network_bytes(), u64::MAX);
    }
}
