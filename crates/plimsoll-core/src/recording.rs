// SPDX-License-Identifier: Apache-2.0
//! Recordings of disks: what is counted of one, and what a recording machine is asked and reports.

use serde::{Deserialize, Serialize};

use crate::op::OpKind;
use crate::op::TraceAccess;
use crate::profile::{DeviceComposition, DeviceKind};
use crate::units::Nanos;

/// Figures of one disk since it appeared, as a Linux host counts them (`/proc/diskstats`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskCounters {
    /// Reads that ended.
    pub reads: u64,
    /// Reads that were merged into others before they were issued.
    pub read_merges: u64,
    /// Read, in sectors of 512 bytes.
    pub read_sectors: u64,
    /// Times of all reads together, milliseconds.
    pub read_ms: u64,
    /// Writes that ended.
    pub writes: u64,
    /// Writes that were merged into others before they were issued.
    pub write_merges: u64,
    /// Written, in sectors of 512 bytes.
    pub write_sectors: u64,
    /// Times of all writes together, milliseconds.
    pub write_ms: u64,
    /// Requests in flight at this instant.
    pub in_flight: u64,
    /// Time with something in flight, milliseconds.
    pub active_ms: u64,
    /// Requests in flight times time, milliseconds.
    pub queue_ms: u64,
    /// Discards; `None` where the kernel (before 4.18) does not count them.
    pub discards: Option<DiscardCounters>,
    /// Flushes; `None` where the kernel (before 5.5) does not count them.
    pub flushes: Option<FlushCounters>,
}

/// Discards of a disk since it appeared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiscardCounters {
    /// Discards that ended.
    pub discards: u64,
    /// Discards that were merged into others.
    pub merges: u64,
    /// Discarded, in sectors of 512 bytes.
    pub sectors: u64,
    /// Times of all discards together, milliseconds.
    pub ms: u64,
}

/// Flushes of a disk since it appeared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlushCounters {
    /// Flushes that ended.
    pub flushes: u64,
    /// Times of all flushes together, milliseconds.
    pub ms: u64,
}

impl DiskCounters {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: DiskCounters) -> DiskCounters {
        DiskCounters {
            reads: self.reads.wrapping_add(other.reads),
            read_merges: self.read_merges.wrapping_add(other.read_merges),
            read_sectors: self.read_sectors.wrapping_add(other.read_sectors),
            read_ms: self.read_ms.wrapping_add(other.read_ms),
            writes: self.writes.wrapping_add(other.writes),
            write_merges: self.write_merges.wrapping_add(other.write_merges),
            write_sectors: self.write_sectors.wrapping_add(other.write_sectors),
            write_ms: self.write_ms.wrapping_add(other.write_ms),
            in_flight: self.in_flight.wrapping_add(other.in_flight),
            active_ms: self.active_ms.wrapping_add(other.active_ms),
            queue_ms: self.queue_ms.wrapping_add(other.queue_ms),
            discards: both(self.discards, other.discards, |a, b| DiscardCounters {
                discards: a.discards.wrapping_add(b.discards),
                merges: a.merges.wrapping_add(b.merges),
                sectors: a.sectors.wrapping_add(b.sectors),
                ms: a.ms.wrapping_add(b.ms),
            }),
            flushes: both(self.flushes, other.flushes, |a, b| FlushCounters {
                flushes: a.flushes.wrapping_add(b.flushes),
                ms: a.ms.wrapping_add(b.ms),
            }),
        }
    }
}

fn both<T>(a: Option<T>, b: Option<T>, plus: impl FnOnce(T, T) -> T) -> Option<T> {
    Some(plus(a?, b?))
}

/// A device, and what it had counted at a look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceCounterSample {
    /// Its name: the kernel's, or of a volume or an array its user's; of a disk that is reached on
    /// several ways its world-wide name.
    pub name: String,
    /// Its composition.
    pub made: DeviceComposition,
    /// Its counters.
    pub counted: DiskCounters,
}

impl DeviceCounterSample {
    /// A whole disk.
    pub fn disk(name: &str, counted: DiskCounters) -> DeviceCounterSample {
        DeviceCounterSample {
            name: name.into(),
            made: DeviceComposition::of(DeviceKind::Disk),
            counted,
        }
    }
}

/// Recording task of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureTask {
    /// The disks as the user named them; none: all whole disks.
    pub disks: Vec<String>,
    /// How long, at most.
    pub length: Option<Nanos>,
    /// Their counters at this interval, or else every request.
    pub interval: Option<Nanos>,
}

/// Facts about a recording that are known when it begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureHeader {
    /// Name of the machine that is recorded.
    pub host: String,
    /// Its time zone as POSIX writes it, such as `AEST-10`.
    pub zone: String,
    /// The zone's name, such as `Australia/Melbourne`; may be empty.
    pub zone_name: String,
    /// The kernel's names of the disks that were named, in their order.
    pub disks: Vec<String>,
    /// The instant from which times count, nanoseconds since 1970 on its clock.
    pub origin_unix_ns: u64,
}

/// Data recorded since the last batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CaptureBatch {
    /// Counters of the disks at an instant, nanoseconds since 1970.
    Counters(u64, Vec<DeviceCounterSample>),
    /// Requests that are known by now.
    Requests(Vec<TraceRequest>),
}

/// One recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "TraceRequestTuple", into = "TraceRequestTuple")]
pub struct TraceRequest {
    /// When it started, from the recording's origin.
    pub at: Nanos,
    /// From its start to its end, where the source has it.
    pub took: Option<Nanos>,
    /// Read, write, discard or flush (`OpKind::Fsync`).
    pub kind: OpKind,
    /// On which device: a place in a list of devices.
    pub target: u16,
    /// How many bytes; 0 for a flush.
    pub bytes: u32,
    /// The first byte on the device.
    pub offset: u64,
}

impl TraceRequest {
    /// The request as a play asks for it.
    pub fn traced(&self) -> TraceAccess {
        TraceAccess {
            at: self.at,
            kind: self.kind,
            offset: self.offset,
            bytes: self.bytes,
        }
    }
}

/// A request as it is sent: start, time taken, kind, place of the device, bytes, first byte. There
/// may be many, so a row has no names.
type TraceRequestTuple = (Nanos, Option<Nanos>, OpKind, u16, u32, u64);

impl From<TraceRequestTuple> for TraceRequest {
    fn from((at, took, kind, target, bytes, offset): TraceRequestTuple) -> TraceRequest {
        TraceRequest {
            at,
            took,
            kind,
            target,
            bytes,
            offset,
        }
    }
}

impl From<TraceRequest> for TraceRequestTuple {
    fn from(request: TraceRequest) -> TraceRequestTuple {
        let TraceRequest {
            at,
            took,
            kind,
            target,
            bytes,
            offset,
        } = request;
        (at, took, kind, target, bytes, offset)
    }
}

/// Statistics of a recording so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureStats {
    /// Samples that were taken.
    pub samples: u64,
    /// Looks that were not taken, because an earlier one was late, or too much waited to be sent.
    pub missed: u64,
    /// The largest delay of a look.
    pub late_max: Nanos,
    /// Requests that were recorded.
    pub requests: u64,
    /// Bytes they asked for.
    pub bytes: u64,
    /// Events that found no room in the kernel's buffers.
    pub lost: u64,
    /// Oddities of the requests, or of the clock, as sentences.
    pub odd: Vec<String>,
    /// From the beginning on.
    pub length: Nanos,
    /// Processor time it took, without what the kernel spends in the way of each request.
    pub cpu: Nanos,
}

impl CaptureStats {
    /// Share of one processor that it used.
    pub fn cpu_share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.length.as_secs_f64().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_arrives_whole() {
        let counted = DiskCounters {
            reads: u64::MAX,
            flushes: Some(FlushCounters { flushes: 1, ms: 2 }),
            ..DiskCounters::default()
        };
        let both = DeviceComposition {
            layer: DeviceKind::Multipath,
            paths: ["sda", "sdb"].map(Into::into).to_vec(),
        };
        let found = vec![
            DeviceCounterSample::disk("sda", counted),
            DeviceCounterSample {
                made: both,
                ..DeviceCounterSample::disk("36001", counted)
            },
        ];
        let requests = [None, Some(Nanos(7))].map(|took| TraceRequest {
            at: Nanos(u64::MAX),
            took,
            kind: OpKind::Discard,
            target: 3,
            bytes: u32::MAX,
            offset: 1 << 60,
        });
        for told in [
            CaptureBatch::Counters(5, found),
            CaptureBatch::Requests(requests.to_vec()),
        ] {
            let text = serde_json::to_string(&told).unwrap();
            assert_eq!(serde_json::from_str::<CaptureBatch>(&text).unwrap(), told);
        }
        // A row of requests has no names.
        let text = serde_json::to_string(&requests[1]).unwrap();
        assert!(!text.contains("offset"), "{text}");
    }
}
