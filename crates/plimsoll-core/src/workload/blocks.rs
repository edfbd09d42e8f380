// SPDX-License-Identifier: Apache-2.0
//! Block I/O: groups of workers that read and write files or a device by offset.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::offsets::OffsetPattern;
use crate::op::{OpKind, TraceAccess};
use crate::syncs::SyncPolicy;
use crate::units::Nanos;

/// Most operations that are submitted to the kernel at once where a group does not say.
pub const BATCH_DEFAULT: u32 = 8;

/// Block I/O by one or more groups of workers at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BlockIoWorkload {
    /// Name in reports.
    pub name: String,
    /// Who does what.
    pub groups: Vec<BlockIoGroup>,
}

/// Workers that do alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct BlockIoGroup {
    /// Name in reports, unique in its workload.
    pub name: String,
    /// Workers, each a thread with a ring of its own.
    pub workers: u32,
    /// Operations each worker keeps in flight (closed loop), or may have in flight (open loop).
    pub depth: u32,
    /// Files that it works on, and the part of each.
    pub extent: BlockIoExtent,
    /// Operations, drawn by weight for every turn.
    pub mix: Vec<BlockIoMixEntry>,
    /// Where.
    pub offsets: OffsetPattern,
    /// When.
    pub pace: BlockIoPacing,
    /// Policy that makes writes durable while it works.
    pub syncs: SyncPolicy,
    /// Operations of each worker after its last turn, inside the measured time.
    pub finish: Vec<BlockIoFinalOp>,
    /// Operations after that, outside the measured time, unless the worker has just done them.
    pub after: Vec<BlockIoFinalOp>,
    /// How long it then does nothing: the storage rests before a phase that follows.
    pub rest: Nanos,
    /// Where the end of one worker's work stops the counting of the others: whether that end comes
    /// after what it does at its finish, and the others leave the rest of their work undone.
    pub breaks_off: bool,
    /// Whether to bypass the page cache (`O_DIRECT`).
    pub direct: bool,
    /// Content of the writes.
    pub content: BlockIoContent,
    /// When a worker has done its work.
    pub work: BlockIoStopCondition,
    /// Begins so long after the run.
    pub delay: Nanos,
    /// How turns of different kinds and sizes choose their places.
    #[serde(skip_serializing_if = "is_default")]
    pub positions: BlockIoOffsetSharing,
    /// Most operations submitted to the kernel at once, which may merge neighbours among them; 0:
    /// [`BATCH_DEFAULT`].
    #[serde(skip_serializing_if = "is_default")]
    pub batch: u32,
    /// After this number of bytes a worker waits for operations in flight and drops the clean pages of its
    /// part of the file from the page cache; 0: never.
    #[serde(skip_serializing_if = "is_default")]
    pub cold_every_bytes: u64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for BlockIoGroup {
    /// One worker that reads 4 KiB blocks at random, one at a time, from a file of 1 GiB, around
    /// the page cache, for as long as the run lasts.
    fn default() -> Self {
        BlockIoGroup {
            name: "io".into(),
            workers: 1,
            depth: 1,
            extent: BlockIoExtent::default(),
            mix: vec![BlockIoMixEntry::of(BlockIoOpKind::Read, 4096)],
            offsets: OffsetPattern::Uniform,
            pace: BlockIoPacing::default(),
            syncs: SyncPolicy::default(),
            finish: Vec::new(),
            after: Vec::new(),
            rest: Nanos(0),
            breaks_off: false,
            direct: true,
            content: BlockIoContent::default(),
            work: BlockIoStopCondition::Time,
            delay: Nanos(0),
            positions: BlockIoOffsetSharing::default(),
            batch: 0,
            cold_every_bytes: 0,
        }
    }
}

/// How turns of different kinds and sizes choose their places.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BlockIoOffsetSharing {
    /// All turns follow one stream, in blocks of the largest; a smaller one lies at a random
    /// multiple of its own size inside its block.
    #[default]
    Shared,
    /// Reads, writes and discards each have a stream of their own, in blocks of the smallest of
    /// their kind; a larger one may begin at any of them. The place is drawn first, then a size
    /// that fits. An order without replacement is one for all kinds with the same smallest size,
    /// and cuts an operation at the next block that was reached before.
    ByKind,
}

/// The files of a group and the part each worker may touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct BlockIoExtent {
    /// Base name of the files: groups and phases of a series that name the same share them.
    pub file: String,
    /// Whether the workers share one file.
    pub shared: bool,
    /// Size of each file. On a device: of the part from its start.
    pub bytes: u64,
    /// Part of its file that a worker touches.
    pub region: BlockIoRegion,
    /// Who made the files.
    pub made: BlockIoFileCreation,
}

impl Default for BlockIoExtent {
    fn default() -> Self {
        BlockIoExtent {
            file: "data".into(),
            shared: true,
            bytes: 1 << 30,
            region: BlockIoRegion::Whole,
            made: BlockIoFileCreation::Before,
        }
    }
}

/// Part of its file that a worker touches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BlockIoRegion {
    /// All of it.
    #[default]
    Whole,
    /// Its own part: worker `w` of `n` the `w`-th of `n` equal parts, each a whole number of the
    /// largest block.
    Part,
}

/// When files come into being.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BlockIoFileCreation {
    /// Laid out with random bytes before the measured part.
    #[default]
    Before,
    /// Created empty when the workers start, and grown by what they write.
    During,
    /// Left by an earlier phase of the series.
    Earlier,
}

/// One kind of turn and how often it comes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BlockIoMixEntry {
    /// Kind of operation.
    pub kind: BlockIoOpKind,
    /// Bytes of its operation.
    pub bytes: u32,
    /// Weight against the other turns.
    #[serde(default = "one")]
    pub weight: f64,
}

fn one() -> f64 {
    1.0
}

impl BlockIoMixEntry {
    /// The only, or one equally likely, turn.
    pub fn of(kind: BlockIoOpKind, bytes: u32) -> Self {
        BlockIoMixEntry {
            kind,
            bytes,
            weight: 1.0,
        }
    }
}

/// Operation of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BlockIoOpKind {
    /// Reads the block.
    Read,
    /// Writes the block.
    Write,
    /// Reads the block, then writes it: two operations of one turn.
    Update,
    /// Writes at the end of the file.
    Append,
    /// Tells the device or file system that the block is not needed any more.
    Discard,
}

impl BlockIoOpKind {
    /// The operations of the turn, in order.
    pub fn operations(self) -> &'static [OpKind] {
        match self {
            BlockIoOpKind::Read => &[OpKind::Read],
            BlockIoOpKind::Write => &[OpKind::Write],
            BlockIoOpKind::Update => &[OpKind::Read, OpKind::Write],
            BlockIoOpKind::Append => &[OpKind::Append],
            BlockIoOpKind::Discard => &[OpKind::Discard],
        }
    }
}

/// When turns begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BlockIoPacing {
    /// Closed loop: when the turn before it in the same slot has ended, and the think time after.
    Closed {
        /// Think time.
        think: Nanos,
        /// Number of turns after which the think time follows; 0 and 1: after each.
        every: u32,
        /// Whether the worker counts its turns and thinks as a whole: it begins nothing more, waits
        /// for what is in flight, and thinks once. Else each slot counts and thinks for itself.
        #[serde(default, skip_serializing_if = "is_default")]
        drains: bool,
    },
    /// Open loop: at instants that do not depend on the storage. Rates are of the whole group.
    Open(ArrivalProcess),
}

impl Default for BlockIoPacing {
    fn default() -> Self {
        BlockIoPacing::Closed {
            think: Nanos(0),
            every: 1,
            drains: false,
        }
    }
}

/// The instants of an open loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ArrivalProcess {
    /// Equally spaced.
    Paced {
        /// Turns per second.
        per_s: f64,
    },
    /// A Poisson process: exponential gaps.
    Poisson {
        /// Mean turns per second.
        per_s: f64,
    },
    /// Groups of turns due at the same instant, the groups a Poisson process.
    Batch {
        /// Mean turns per second.
        per_s: f64,
        /// Turns in a group.
        size: u32,
    },
    /// A Poisson process that is interrupted at fixed times.
    OnOff {
        /// Mean turns per second while it is on.
        per_s: f64,
        /// Length of the on phases.
        on: Nanos,
        /// Length of the off phases.
        off: Nanos,
    },
    /// A Poisson process whose rate follows these segments, over and over.
    Envelope(Vec<ArrivalRateSegment>),
    /// These very turns.
    Trace(Vec<TraceAccess>),
}

/// A piece of an envelope: the rate goes linearly from one value to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ArrivalRateSegment {
    /// How long it lasts.
    pub length: Nanos,
    /// Turns per second at its start.
    pub from_per_s: f64,
    /// Turns per second at its end.
    pub to_per_s: f64,
}

/// Something a worker does after its last turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BlockIoFinalOp {
    /// Fsync of its file.
    Fsync,
    /// Close of its file.
    Close,
}

/// Content of the writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct BlockIoContent {
    /// Share of each 4 KiB that is zeros and can be compressed away, 0..=1.
    pub compressible: f64,
    /// Share of the 4 KiB blocks that repeat an earlier one, 0..=1.
    pub duplicate: f64,
    /// Each operation writes one line with the date and time instead.
    pub date: bool,
}

/// When a worker has done its work. All of it also ends with the run's time, if it has one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BlockIoStopCondition {
    /// When the time of the run is up.
    #[default]
    Time,
    /// When it has been through its region once: as many turns as blocks fit into it.
    Pass,
    /// After this number of turns of each worker.
    Each(u64),
    /// When each worker has begun operations of this number of bytes in all.
    Bytes(u64),
    /// After this number of turns of all workers of the group together.
    Together(u64),
}

impl BlockIoWorkload {
    /// Uniformly random 4 KiB reads and writes at depth 32 on a file of 1 GiB, direct.
    pub fn random(name: &str, read_share: f64) -> Self {
        let turn = |kind, weight| BlockIoMixEntry {
            weight,
            ..BlockIoMixEntry::of(kind, 4096)
        };
        let both = [
            turn(BlockIoOpKind::Read, read_share),
            turn(BlockIoOpKind::Write, 1.0 - read_share),
        ];
        let group = BlockIoGroup {
            depth: 32,
            mix: both.into_iter().filter(|turn| turn.weight > 0.0).collect(),
            ..BlockIoGroup::default()
        };
        BlockIoWorkload {
            name: name.into(),
            groups: vec![group],
        }
    }

    /// Bytes of all its files.
    pub fn data_set_bytes(&self) -> u64 {
        self.files().into_values().fold(0, u64::saturating_add)
    }

    /// Bytes of its files, by their base names; of a name that each worker has, all of them.
    pub fn files(&self) -> BTreeMap<&str, u64> {
        let mut files: BTreeMap<&str, u64> = BTreeMap::new();
        for group in &self.groups {
            let extent = &group.extent;
            let count = if extent.shared {
                1
            } else {
                u64::from(group.workers)
            };
            let bytes = extent.bytes.saturating_mul(count);
            let known = files.entry(&extent.file).or_default();
            *known = bytes.max(*known);
        }
        files
    }

    /// Whether instants, not the storage, set the pace of every group.
    pub fn is_open_loop(&self) -> bool {
        let open = |group: &BlockIoGroup| matches!(group.pace, BlockIoPacing::Open(_));
        !self.groups.is_empty() && self.groups.iter().all(open)
    }

    /// Whether every group ends by itself, so that no length of time is needed.
    pub fn ends_by_itself(&self) -> bool {
        self.groups
            .iter()
            .all(|group| group.work != BlockIoStopCondition::Time)
    }
}
