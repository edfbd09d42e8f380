// SPDX-License-Identifier: Apache-2.0
//! Explanations of results: what may have limited them, on what evidence, and how sure that is.

use serde::{Deserialize, Serialize};

use crate::num::round_u64;
use crate::units::{self, Nanos};

/// Cause that may have limited a result. The order is that of lists: causes that held the rate down
/// come before causes that were only present, and causes that make others appear before these (a
/// page cache lets a client run at full speed; a slow link fills queues).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExplanationCause {
    /// The number of processors of the client decides the result.
    ClientProcessors,
    /// A limit of the client's control group for a disk was reached.
    IoLimit,
    /// A limit of memory of the client's control group made it read again what it had read.
    MemoryLimit,
    /// The processors were slowed: heat, power saving, or a limit.
    SlowedProcessor,
    /// Memory answered for the storage, as the counters of devices show.
    PageCache,
    /// Credit for bursts was used up, and a fixed rate was left.
    BurstCredit,
    /// The rate was the same in every second.
    RateLimit,
    /// One of several disks was much slower than the others.
    SlowDisk,
    /// The way to the servers: its round trip, or its rate.
    SlowLink,
    /// TCP segments were lost and sent again.
    Retransmits,
    /// A thread of a server had no more of a processor to give.
    ServerProcessor,
    /// A server did nothing while others worked.
    ServerStalled,
    /// The file system is mounted so that every write waits for the disk.
    SyncMount,
    /// The file system writes all data twice.
    JournaledData,
    /// The disk was occupied with discards.
    Discards,
    /// Other programs used the disk.
    OtherIo,
    /// The disk takes fewer requests at once than were asked of it.
    DeviceQueue,
    /// The disk ended nothing for a while, again and again.
    Pauses,
    /// Few requests took much longer than all others.
    Stalls,
    /// The rate rose or fell all the time.
    Drift,
    /// Hardly any space is left in the file system.
    FullFileSystem,
    /// The data set fits into the memory of the machines, and nothing shows what devices did.
    DataSetInMemory,
    /// Servers were loaded unevenly.
    ServersUneven,
    /// A thread of the load got much less than those beside it that do the same.
    ThreadStarved,
    /// The memory of a server grew all the time.
    MemoryGrowth,
    /// Other programs held the processors that the load waited for.
    OtherPrograms,
    /// A hypervisor gave the processors to other machines.
    StolenProcessor,
    /// The load generator used up the processors.
    ClientProcessor,
    /// The load generator submitted late.
    GeneratorLate,
    /// An array copied or checked its members.
    ArraySync,
    /// More bytes went over the network than the workload moved.
    NetworkBytes,
    /// The clocks of nodes are not known well enough.
    ClockOffset,
}

impl ExplanationCause {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClientProcessors => "number of client CPUs",
            Self::FullFileSystem => "a nearly full file system",
            Self::Drift => "a rate that drifts",
            Self::Stalls => "few requests that stall",
            Self::Pauses => "pauses of the disk",
            Self::DeviceQueue => "a full request queue",
            Self::OtherIo => "other programs on the same disk",
            Self::Discards => "discards",
            Self::JournaledData => "mount option data=journal",
            Self::SyncMount => "mount option sync",
            Self::RateLimit => "a rate limit",
            Self::MemoryLimit => "the memory limit of the client's cgroup",
            Self::IoLimit => "an I/O limit of the client's cgroup",
            Self::PageCache => "page cache",
            Self::DataSetInMemory => "data set fits into memory",
            Self::BurstCredit => "rate limit with burst credit",
            Self::SlowDisk => "one slow disk",
            Self::SlowLink => "slow network",
            Self::Retransmits => "TCP retransmits",
            Self::ServerProcessor => "CPU-bound server",
            Self::ServerStalled => "stalled server",
            Self::ServersUneven => "uneven servers",
            Self::ThreadStarved => "a starved thread of the load",
            Self::MemoryGrowth => "growing memory of a server",
            Self::OtherPrograms => "CPU taken by other programs",
            Self::StolenProcessor => "CPU steal",
            Self::SlowedProcessor => "throttled CPU",
            Self::ClientProcessor => "CPU-bound client",
            Self::GeneratorLate => "late load generator",
            Self::ArraySync => "RAID resync or scrub",
            Self::NetworkBytes => "network bytes per user byte",
            Self::ClockOffset => "clock offset of nodes",
        }
    }
}

/// How sure an explanation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExplanationStrength {
    /// Interleaved trials with and without it differ.
    Cause,
    /// The evidence looks as it would with this cause; another cause may look the same.
    ConsistentWith,
}

impl ExplanationStrength {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            ExplanationStrength::Cause => "cause",
            ExplanationStrength::ConsistentWith => "consistent with",
        }
    }
}

/// Unit of a figure of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EvidenceUnit {
    /// A share, 0 to 1.
    Share,
    /// A factor.
    Times,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Operations per second.
    OpsPerSecond,
    /// A number of things.
    Count,
}

impl EvidenceUnit {
    /// A value with its unit.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            EvidenceUnit::Share => format!("{} %", units::three_digits(value * 100.0)),
            EvidenceUnit::Times => format!("{}×", units::three_digits(value)),
            EvidenceUnit::Nanoseconds => units::duration(Nanos(round_u64(value))),
            EvidenceUnit::Bytes => units::size(value),
            EvidenceUnit::BytesPerSecond => units::throughput(value),
            EvidenceUnit::OpsPerSecond => format!("{} ops/s", units::rate(value)),
            EvidenceUnit::Count => units::three_digits(value),
        }
    }
}

/// One figure, and from where on it counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EvidenceFigure {
    /// The measured quantity.
    pub figure: String,
    /// Its value: of several trials the median one.
    pub value: f64,
    /// Unit of the value.
    pub unit: EvidenceUnit,
    /// The limit that decided; absent for figures that only describe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// Whether it counts up to the limit, not from it on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub up_to: bool,
}

impl EvidenceFigure {
    /// A figure that decided, and its limit.
    pub fn new(figure: &str, value: f64, unit: EvidenceUnit, limit: f64) -> Self {
        EvidenceFigure {
            figure: figure.into(),
            value,
            unit,
            limit: Some(limit),
            up_to: false,
        }
    }

    /// A figure that decided by being small.
    pub fn up_to(figure: &str, value: f64, unit: EvidenceUnit, limit: f64) -> Self {
        EvidenceFigure {
            up_to: true,
            ..EvidenceFigure::new(figure, value, unit, limit)
        }
    }

    /// A figure that only describes.
    pub fn plain(figure: &str, value: f64, unit: EvidenceUnit) -> Self {
        EvidenceFigure {
            figure: figure.into(),
            value,
            unit,
            limit: None,
            up_to: false,
        }
    }

    /// Whether it is beyond its limit; of several figures of an explanation it is enough that some are.
    pub fn is_decisive(&self) -> bool {
        self.limit.is_some_and(|limit| match self.up_to {
            true => self.value <= limit,
            false => self.value >= limit,
        })
    }

    /// It with its unit.
    pub fn shown(&self) -> String {
        self.unit.show(self.value)
    }
}

/// Cause that may have limited one arm under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CauseExplanation {
    /// The cause.
    pub cause: ExplanationCause,
    /// Which server, disk or node; empty where there is only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// How sure.
    pub strength: ExplanationStrength,
    /// Trials that show it.
    pub trials: u32,
    /// Trials that could show it.
    pub of: u32,
    /// The figures.
    pub evidence: Vec<EvidenceFigure>,
}

/// A cause that could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct UnknownCause {
    /// Which.
    pub cause: ExplanationCause,
    /// The missing evidence.
    pub why: String,
}

/// All explanations of one arm under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ArmExplanations {
    /// Label of the workload.
    pub workload: String,
    /// Label of the arm.
    pub arm: String,
    /// Causes found, surest first, then in the order of causes.
    pub found: Vec<CauseExplanation>,
    /// Causes looked for and not found.
    pub excluded: Vec<ExplanationCause>,
    /// Causes that could not be looked for.
    pub unknown: Vec<UnknownCause>,
}

/// A throughput that fell and stayed there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ThroughputCliff {
    /// Label of the workload.
    pub workload: String,
    /// Label of the system.
    pub arm: String,
    /// Block of the first trial that shows it, from 0.
    pub block: u32,
    /// Trials that show it, and trials that could.
    pub trials: [usize; 2],
    /// How long after the beginning of the measured part it fell.
    pub after: Nanos,
    /// Operations a second before.
    pub before_per_s: f64,
    /// Operations a second after.
    pub after_per_s: f64,
    /// Whether the trials that followed began above again.
    pub recovers: bool,
}

impl ThroughputCliff {
    /// As people read it.
    pub fn sentence(&self) -> String {
        let [before, after] = [self.before_per_s, self.after_per_s].map(crate::units::rate);
        let times = self.before_per_s / self.after_per_s;
        let of = match self.trials {
            [_, 1] => String::new(),
            [shown, of] => format!(" in block {} ({shown} of {of} trials fell)", self.block + 1),
        };
        let lasting = match self.recovers {
            false => "and stayed there",
            true => "and stayed there to the end of the trial; later trials began above again",
        };
        format!(
            "throughput of {} under {} fell from {before} to {after} operations/s ({times:.1}×) {} into the \
             measured part{of} {lasting}: what was measured before is not sustained",
            self.arm,
            self.workload,
            crate::units::clock_duration(self.after)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of them, in their order.
    const ALL: [ExplanationCause; 32] = [
        ExplanationCause::ClientProcessors,
        ExplanationCause::IoLimit,
        ExplanationCause::MemoryLimit,
        ExplanationCause::SlowedProcessor,
        ExplanationCause::PageCache,
        ExplanationCause::BurstCredit,
        ExplanationCause::RateLimit,
        ExplanationCause::SlowDisk,
        ExplanationCause::SlowLink,
        ExplanationCause::Retransmits,
        ExplanationCause::ServerProcessor,
        ExplanationCause::ServerStalled,
        ExplanationCause::SyncMount,
        ExplanationCause::JournaledData,
        ExplanationCause::Discards,
        ExplanationCause::OtherIo,
        ExplanationCause::DeviceQueue,
        ExplanationCause::Pauses,
        ExplanationCause::Stalls,
        ExplanationCause::Drift,
        ExplanationCause::FullFileSystem,
        ExplanationCause::DataSetInMemory,
        ExplanationCause::ServersUneven,
        ExplanationCause::ThreadStarved,
        ExplanationCause::MemoryGrowth,
        ExplanationCause::OtherPrograms,
        ExplanationCause::StolenProcessor,
        ExplanationCause::ClientProcessor,
        ExplanationCause::GeneratorLate,
        ExplanationCause::ArraySync,
        ExplanationCause::NetworkBytes,
        ExplanationCause::ClockOffset,
    ];

    #[test]
    fn every_cause_stands_in_its_order_and_has_a_name_of_its_own() {
        let mut sorted = ALL;
        sorted.sort_unstable();
        assert_eq!(sorted, ALL);
        let mut names = ALL.map(ExplanationCause::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn figures_show_their_unit() {
        let figure = EvidenceFigure::new("read", 0.25, EvidenceUnit::Share, 0.1);
        assert_eq!(figure.shown(), "25.0 %");
        assert!(figure.is_decisive());
        assert!(!EvidenceFigure::up_to("read", 0.25, EvidenceUnit::Share, 0.1).is_decisive());
        assert!(!EvidenceFigure::plain("read", 0.25, EvidenceUnit::Share).is_decisive());
        assert_eq!(EvidenceUnit::Nanoseconds.show(1.5e6), "1.50 ms");
        assert_eq!(EvidenceUnit::Times.show(2.0), "2.00×");
    }
}
