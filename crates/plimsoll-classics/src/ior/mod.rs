// SPDX-License-Identifier: Apache-2.0
//! IOR as IO500 uses it: easy, large transfers into a file for each worker; hard, odd transfers
//! side by side into one shared file; each written, then read back.

mod text;

pub(crate) use text::text;

use plimsoll_core::num::saturating_u32;
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    BlockIoExtent, BlockIoFileCreation, BlockIoFinalOp, BlockIoGroup, BlockIoMixEntry,
    BlockIoOpKind, BlockIoRegion, BlockIoStopCondition,
};
use plimsoll_core::workload::series::PhaseSpec;

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::{block_phase, series, setting};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

const EASY: &str = "ior-easy";
const HARD: &str = "ior-hard";

const WORKERS_MAX: u32 = 1024;
const TRANSFER_MAX: u64 = 256 << 20;

const WORKERS: SettingDefinition = setting("workers", SettingUnit::Count, "4", "workers (tasks)");
const FSYNC: SettingDefinition = setting(
    "e",
    SettingUnit::Flag,
    "on",
    "count an fsync after the writes",
);
const SHIFT: SettingDefinition = setting(
    "C",
    SettingUnit::Flag,
    "on",
    "read back what another worker wrote, cold",
);
const RANDOM: SettingDefinition =
    setting("z", SettingUnit::Flag, "off", "transfers in random order");
const DIRECT: SettingDefinition = setting(
    "posix.odirect",
    SettingUnit::Flag,
    "off",
    "bypass the page cache",
);

const EASY_SETTINGS: &[SettingDefinition] = &[
    setting("t", SettingUnit::Size(1), "2MiB", "bytes of a transfer"),
    setting(
        "b",
        SettingUnit::Size(1),
        "256MiB",
        "bytes of a block: of a worker in a segment",
    ),
    setting("s", SettingUnit::Count, "1", "segments"),
    setting("F", SettingUnit::Flag, "on", "a file for each worker"),
    WORKERS,
    FSYNC,
    SHIFT,
    RANDOM,
    DIRECT,
];

const HARD_SETTINGS: &[SettingDefinition] = &[
    setting("t", SettingUnit::Size(1), "47008", "bytes of a transfer"),
    setting(
        "b",
        SettingUnit::Size(1),
        "47008",
        "bytes of a block: of a worker in a segment",
    ),
    setting("s", SettingUnit::Count, "5000", "segments"),
    setting("F", SettingUnit::Flag, "off", "a file for each worker"),
    WORKERS,
    FSYNC,
    SHIFT,
    RANDOM,
    DIRECT,
];

pub(crate) const KNOWN: &[WorkloadDefinition] = &[
    WorkloadDefinition {
        name: EASY,
        about: "large transfers, a file for each worker, written and read back (IOR)",
        settings: EASY_SETTINGS,
        build: |settings| build(EASY, settings),
    },
    WorkloadDefinition {
        name: HARD,
        about: "47008-byte transfers side by side in one file, written and read back (IOR)",
        settings: HARD_SETTINGS,
        build: |settings| build(HARD, settings),
    },
];

/// The settings, understood.
struct IorOptions {
    transfer_bytes: u64,
    block_bytes: u64,
    segments: u64,
    workers: u32,
    has_own_files: bool,
    is_shifted: bool,
    is_random: bool,
}

impl IorOptions {
    fn read(settings: &SettingValues) -> Result<Self, ClassicsError> {
        let transfer_bytes = settings.bytes_within("t", 1, TRANSFER_MAX)?;
        let shape = IorOptions {
            transfer_bytes,
            block_bytes: settings.bytes_within("b", transfer_bytes, 1 << 50)?,
            segments: settings.count_within("s", 1, 1_000_000_000)?.into(),
            workers: settings.count_within("workers", 1, WORKERS_MAX)?,
            has_own_files: settings.flag("F"),
            is_shifted: settings.flag("C"),
            is_random: settings.flag("z"),
        };
        let wrong = |name, reason| Err(settings.wrong(name, settings.text(name), reason));
        if !shape.block_bytes.is_multiple_of(transfer_bytes) {
            return wrong("b", "expected a multiple of the transfer size (t)");
        }
        if settings.flag("posix.odirect") && !transfer_bytes.is_multiple_of(512) {
            return wrong(
                "t",
                "posix.odirect needs transfers of whole 512-byte sectors",
            );
        }
        if !shape.has_own_files && !shape.is_side_by_side() && shape.segments > 1 {
            let reason = "in a shared file, several segments need blocks of one transfer: \
                          set b to t, or F, or one segment";
            return wrong("s", reason);
        }
        if shape.is_random && shape.is_side_by_side() {
            let reason = "a random order needs a file for each worker (F) or one segment (s)";
            return wrong("z", reason);
        }
        Ok(shape)
    }

    /// Whether the workers' transfers alternate in one file.
    fn is_side_by_side(&self) -> bool {
        !self.has_own_files && self.block_bytes == self.transfer_bytes
    }

    fn worker_bytes(&self) -> u64 {
        self.block_bytes.saturating_mul(self.segments)
    }

    fn total_bytes(&self) -> u64 {
        self.worker_bytes().saturating_mul(self.workers.into())
    }
}

fn build(program: &str, settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let shape = IorOptions::read(settings)?;
    let synced: &[BlockIoFinalOp] = match settings.flag("e") {
        true => &[BlockIoFinalOp::Fsync, BlockIoFinalOp::Close],
        false => &[BlockIoFinalOp::Close],
    };
    let direct = settings.flag("posix.odirect");
    let write = BlockIoGroup {
        finish: synced.to_vec(),
        direct,
        ..group(&shape, BlockIoOpKind::Write, BlockIoFileCreation::During)
    };
    let read = BlockIoGroup {
        finish: vec![BlockIoFinalOp::Close],
        direct,
        ..group(&shape, BlockIoOpKind::Read, BlockIoFileCreation::Earlier)
    };
    let phases = vec![
        block_phase("write", ranks(&shape, write, 0)),
        PhaseSpec {
            cold: shape.is_shifted,
            ..block_phase("read", ranks(&shape, read, 1))
        },
    ];
    Ok(series(program, settings, phases))
}

fn group(shape: &IorOptions, kind: BlockIoOpKind, made: BlockIoFileCreation) -> BlockIoGroup {
    let (region, in_order) = match (shape.has_own_files, shape.is_side_by_side()) {
        (false, true) => (BlockIoRegion::Whole, OffsetPattern::Interleaved),
        (false, false) => (BlockIoRegion::Part, OffsetPattern::Sequential),
        (true, _) => (BlockIoRegion::Whole, OffsetPattern::Sequential),
    };
    BlockIoGroup {
        name: "workers".into(),
        workers: shape.workers,
        extent: BlockIoExtent {
            file: "ior".into(),
            shared: !shape.has_own_files,
            bytes: if shape.has_own_files {
                shape.worker_bytes()
            } else {
                shape.total_bytes()
            },
            region,
            made,
        },
        mix: vec![BlockIoMixEntry::of(
            kind,
            saturating_u32(shape.transfer_bytes),
        )],
        offsets: if shape.is_random {
            OffsetPattern::Permutation
        } else {
            in_order
        },
        work: BlockIoStopCondition::Pass,
        ..BlockIoGroup::default()
    }
}

/// The workers. Where they read files of each other, each worker is a group of its own, with the
/// file of the worker `shift` places on.
fn ranks(shape: &IorOptions, all: BlockIoGroup, shift: u32) -> Vec<BlockIoGroup> {
    if !(shape.is_shifted && shape.has_own_files) {
        return vec![all];
    }
    let rank = |worker: u32| BlockIoGroup {
        name: format!("worker {worker}"),
        workers: 1,
        extent: BlockIoExtent {
            file: format!("ior-{}", (worker + shift) % shape.workers),
            shared: true,
            ..all.extent.clone()
        },
        ..all.clone()
    };
    (0..shape.workers).map(rank).collect()
}

#[cfg(test)]
mod tests {
    use crate::parts::tests::{built, groups, names, refused};

    use super::*;

    #[test]
    fn easy_has_a_file_for_each_worker_and_reads_those_of_the_next() {
        let series = built(EASY, &[("workers", "3"), ("b", "8m"), ("s", "2")]);
        assert_eq!(names(&series), ["write", "read"]);
        for (phase, kind, made, finish, files) in [
            (
                "write",
                BlockIoOpKind::Write,
                BlockIoFileCreation::During,
                &[BlockIoFinalOp::Fsync, BlockIoFinalOp::Close][..],
                ["ior-0", "ior-1", "ior-2"],
            ),
            (
                "read",
                BlockIoOpKind::Read,
                BlockIoFileCreation::Earlier,
                &[BlockIoFinalOp::Close],
                ["ior-1", "ior-2", "ior-0"],
            ),
        ] {
            let workers = groups(&series, phase);
            let own: Vec<&str> = workers.iter().map(|g| g.extent.file.as_str()).collect();
            assert_eq!(own, files, "{phase}");
            for group in workers {
                assert_eq!(group.mix, [BlockIoMixEntry::of(kind, 2 << 20)], "{phase}");
                assert_eq!((group.workers, group.depth), (1, 1), "{phase}");
                assert_eq!((group.extent.made, group.extent.bytes), (made, 16 << 20));
                assert_eq!(
                    (group.offsets.clone(), group.work),
                    (OffsetPattern::Sequential, BlockIoStopCondition::Pass)
                );
                assert_eq!(
                    (group.finish.as_slice(), group.direct),
                    (finish, false),
                    "{phase}"
                );
            }
        }
        assert!(series.phases[1].cold && !series.phases[0].cold);
        assert_eq!(series.data_set_bytes(), 3 * (16 << 20));
    }

    #[test]
    fn hard_goes_side_by_side_through_one_file() {
        let series = built(HARD, &[("s", "10"), ("e", "off")]);
        for (phase, kind) in [
            ("write", BlockIoOpKind::Write),
            ("read", BlockIoOpKind::Read),
        ] {
            let [group] = groups(&series, phase) else {
                panic!("{phase} has one group");
            };
            assert_eq!(
                (group.workers, group.mix[0]),
                (4, BlockIoMixEntry::of(kind, 47_008)),
                "{phase}"
            );
            assert_eq!(group.offsets, OffsetPattern::Interleaved, "{phase}");
            assert_eq!(
                (group.extent.shared, group.extent.bytes),
                (true, 4 * 10 * 47_008)
            );
            assert_eq!(group.finish, [BlockIoFinalOp::Close], "{phase}");
        }
    }

    #[test]
    fn other_layouts_follow_the_settings() {
        for (given, offsets, region, shared, cold) in [
            (
                &[("F", "off"), ("b", "8m")][..],
                OffsetPattern::Sequential,
                BlockIoRegion::Part,
                true,
                true,
            ),
            (
                &[("F", "off"), ("z", "on")],
                OffsetPattern::Permutation,
                BlockIoRegion::Part,
                true,
                true,
            ),
            (
                &[("C", "off"), ("z", "on")],
                OffsetPattern::Permutation,
                BlockIoRegion::Whole,
                false,
                false,
            ),
        ] {
            let series = built(EASY, given);
            let [group] = groups(&series, "read") else {
                panic!("{given:?}: one group");
            };
            assert_eq!(group.offsets, offsets, "{given:?}");
            assert_eq!(
                (group.extent.region, group.extent.shared),
                (region, shared),
                "{given:?}"
            );
            assert_eq!(series.phases[1].cold, cold, "{given:?}");
        }
        let direct = built(EASY, &[("posix.odirect", "on")]);
        assert!(groups(&direct, "read").iter().all(|group| group.direct));
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (name, given, expect) in [
            (EASY, &[("b", "3m")][..], "multiple of the transfer size"),
            (EASY, &[("b", "1m")], "for b of ior"),
            (EASY, &[("F", "off"), ("s", "2")], "several segments"),
            (HARD, &[("z", "on")], "a random order needs"),
            (HARD, &[("posix.odirect", "on")], "512-byte sectors"),
            (HARD, &[("workers", "0")], "from 1 to 1024"),
        ] {
            let error = refused(name, given);
            assert!(error.contains(expect), "{name} {given:?}: {error}");
        }
    }
}
