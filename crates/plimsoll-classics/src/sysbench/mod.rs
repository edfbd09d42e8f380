// SPDX-License-Identifier: Apache-2.0
//! sysbench 1.0 fileio: threads that read and write blocks of prepared files, in order or at
//! random, with a periodic sync, for a fixed time.

mod text;

pub(crate) use text::text;

use plimsoll_core::num::{round_u64, saturating_u32};
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::syncs::{SyncKind, SyncPolicy};
use plimsoll_core::units::Nanos;
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

/// Its name on the command line.
pub(crate) const NAME: &str = "sysbench-fileio";

const THREADS_MAX: u32 = 4096;
const BLOCK_MAX: u64 = 256 << 20;
const BACKLOG_MAX: u32 = 4096;

const SETTINGS: &[SettingDefinition] = &[
    setting(
        "file-test-mode",
        SettingUnit::Text,
        "rndrw",
        "seqwr, seqrewr, seqrd, rndrd, rndwr or rndrw",
    ),
    setting(
        "file-num",
        SettingUnit::Count,
        "1",
        "files: 1 for all threads, or one for each",
    ),
    setting(
        "file-total-size",
        SettingUnit::Size(1),
        "2GiB",
        "size of all files together",
    ),
    setting(
        "file-block-size",
        SettingUnit::Size(1),
        "16KiB",
        "bytes of an operation",
    ),
    setting(
        "file-io-mode",
        SettingUnit::Text,
        "sync",
        "sync, or async with a backlog",
    ),
    setting(
        "file-async-backlog",
        SettingUnit::Count,
        "128",
        "operations in flight of a thread",
    ),
    setting(
        "file-extra-flags",
        SettingUnit::List,
        "",
        "sync, dsync or direct; several by commas or +",
    ),
    setting(
        "file-rw-ratio",
        SettingUnit::Number,
        "1.5",
        "reads for each write of rndrw",
    ),
    setting(
        "file-fsync-freq",
        SettingUnit::Count,
        "100",
        "sync after so many operations; 0: never",
    ),
    setting(
        "file-fsync-all",
        SettingUnit::Flag,
        "off",
        "sync after each write",
    ),
    setting("file-fsync-end", SettingUnit::Flag, "on", "sync at the end"),
    setting(
        "file-fsync-mode",
        SettingUnit::Text,
        "fsync",
        "fsync or fdatasync",
    ),
    setting(
        "threads",
        SettingUnit::Count,
        "1",
        "threads, each with one operation at a time",
    ),
    setting(
        "time",
        SettingUnit::Time,
        "10s",
        "longest time; 0: until the events are done",
    ),
    setting(
        "events",
        SettingUnit::Count,
        "0",
        "operations of all threads; 0: until the time is up",
    ),
    setting(
        "percentile",
        SettingUnit::Count,
        "95",
        "percentile of the report, 1 to 100",
    ),
];

pub(crate) const KNOWN: &[WorkloadDefinition] = &[WorkloadDefinition {
    name: NAME,
    about: "blocks of prepared files in order or at random, with syncs (sysbench fileio)",
    settings: SETTINGS,
    build,
}];

/// A way through the files.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Mode {
    name: &'static str,
    /// Name of the mode in the report.
    told: &'static str,
    reads: bool,
    writes: bool,
    is_random: bool,
}

const MODES: [Mode; 6] = [
    mode("seqwr", "sequential write (creation)", false, true, false),
    mode("seqrewr", "sequential rewrite", false, true, false),
    mode("seqrd", "sequential read", true, false, false),
    mode("rndrd", "random read", true, false, true),
    mode("rndwr", "random write", false, true, true),
    mode("rndrw", "random r/w", true, true, true),
];

const fn mode(
    name: &'static str,
    told: &'static str,
    reads: bool,
    writes: bool,
    is_random: bool,
) -> Mode {
    Mode {
        name,
        told,
        reads,
        writes,
        is_random,
    }
}

/// Flags with which the files are opened.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Flags {
    sync: bool,
    dsync: bool,
    direct: bool,
}

/// When writes are made durable.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SyncRule {
    Never,
    EachWrite,
    /// After every N writes of a thread.
    Periodic(u32),
}

/// The settings, understood.
struct SysbenchOptions {
    mode: &'static Mode,
    files: u32,
    /// Of each, whole blocks.
    file_bytes: u64,
    block_bytes: u64,
    depth: u32,
    is_async: bool,
    flags: Flags,
    ratio: f64,
    rule: SyncRule,
    has_end_sync: bool,
    sync_kind: SyncKind,
    threads: u32,
    time: Nanos,
    events: u64,
    percentile: u32,
}

impl SysbenchOptions {
    fn read(settings: &SettingValues) -> Result<Self, ClassicsError> {
        let wrong = |name, reason: &str| settings.wrong(name, settings.text(name), reason);
        let mode = MODES
            .iter()
            .find(|mode| mode.name == settings.text("file-test-mode"));
        let Some(mode) = mode else {
            let known = MODES.map(|mode| mode.name).join(", ");
            return Err(wrong("file-test-mode", &format!("expected one of {known}")));
        };
        let threads = settings.count_within("threads", 1, THREADS_MAX)?;
        let files = settings.count_within("file-num", 1, THREADS_MAX)?;
        if files != 1 && files != threads {
            let reason = format!("expected 1, or {threads} as there are threads");
            return Err(wrong("file-num", &reason));
        }
        let is_async = match settings.text("file-io-mode") {
            "sync" => false,
            "async" => true,
            _ => {
                return Err(wrong(
                    "file-io-mode",
                    "modes are sync and async; no mapped files",
                ));
            }
        };
        let block_bytes = settings.bytes_within("file-block-size", 1, BLOCK_MAX)?;
        let least = block_bytes.saturating_mul(files.into());
        let total_bytes = settings.bytes_within("file-total-size", least, 1 << 60)?;
        let file_bytes = total_bytes / u64::from(files);
        let ratio = settings.number("file-rw-ratio");
        if !(0.0..=1e6).contains(&ratio) {
            return Err(wrong(
                "file-rw-ratio",
                "expected a number from 0 to 1000000",
            ));
        }
        let shape = SysbenchOptions {
            mode,
            files,
            file_bytes: file_bytes - file_bytes % block_bytes,
            block_bytes,
            depth: match is_async {
                true => settings.count_within("file-async-backlog", 1, BACKLOG_MAX)?,
                false => 1,
            },
            is_async,
            flags: flags(settings)?,
            ratio,
            rule: rule(settings, mode, ratio),
            has_end_sync: mode.writes && settings.flag("file-fsync-end"),
            sync_kind: match settings.text("file-fsync-mode") {
                "fsync" => SyncKind::Fsync,
                "fdatasync" => SyncKind::Fdatasync,
                _ => return Err(wrong("file-fsync-mode", "expected fsync or fdatasync")),
            },
            threads,
            time: settings.time("time"),
            events: settings.count("events"),
            percentile: settings.count_within("percentile", 1, 100)?,
        };
        if shape.flags.direct && !block_bytes.is_multiple_of(512) {
            return Err(wrong(
                "file-block-size",
                "direct needs whole 512-byte sectors",
            ));
        }
        if shape.time == Nanos(0) && shape.events == 0 {
            return Err(wrong("time", "without events it would never end"));
        }
        Ok(shape)
    }

    /// Share of writes among the operations.
    fn write_share(mode: &Mode, ratio: f64) -> f64 {
        match (mode.reads, mode.writes) {
            (true, true) => 1.0 / (1.0 + ratio),
            (false, _) => 1.0,
            (true, false) => 0.0,
        }
    }
}

fn flags(settings: &SettingValues) -> Result<Flags, ClassicsError> {
    let mut flags = Flags::default();
    for text in settings.texts("file-extra-flags") {
        for word in text.split(['+', ',']).filter(|word| !word.is_empty()) {
            match word.trim() {
                "sync" => flags.sync = true,
                "dsync" => flags.dsync = true,
                "direct" => flags.direct = true,
                _ => {
                    let reason = "expected one of sync, dsync, direct";
                    return Err(settings.wrong("file-extra-flags", word, reason));
                }
            }
        }
    }
    Ok(flags)
}

/// The original syncs after N operations of any kind. Here only writes count: N is scaled by their
/// share of the operations, so that syncs come as often.
fn rule(settings: &SettingValues, mode: &Mode, ratio: f64) -> SyncRule {
    let every = settings.count("file-fsync-freq");
    if !mode.writes {
        SyncRule::Never
    } else if settings.flag("file-fsync-all") {
        SyncRule::EachWrite
    } else if every == 0 {
        SyncRule::Never
    } else {
        let writes = round_u64(every as f64 * SysbenchOptions::write_share(mode, ratio));
        SyncRule::Periodic(saturating_u32(writes.max(1)))
    }
}

fn build(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let shape = SysbenchOptions::read(settings)?;
    let phase = PhaseSpec {
        metric: plimsoll_core::comparison::ComparisonMetric::OpsPerSecond,
        limit: (shape.time > Nanos(0)).then_some(shape.time),
        ..block_phase(shape.mode.name, vec![group(&shape)])
    };
    Ok(series(NAME, settings, vec![phase]))
}

fn group(shape: &SysbenchOptions) -> BlockIoGroup {
    let mode = shape.mode;
    let shared = shape.files == 1;
    BlockIoGroup {
        name: "threads".into(),
        workers: shape.threads,
        depth: shape.depth,
        extent: BlockIoExtent {
            file: "sysbench".into(),
            shared,
            bytes: shape.file_bytes,
            region: BlockIoRegion::Whole,
            made: if mode.name == "seqwr" {
                BlockIoFileCreation::During
            } else {
                BlockIoFileCreation::Before
            },
        },
        mix: mix(shape),
        offsets: match (mode.is_random, shared && shape.threads > 1) {
            (true, _) => OffsetPattern::Uniform,
            // The original hands out one stream to all threads.
            (false, true) => OffsetPattern::Interleaved,
            (false, false) => OffsetPattern::Sequential,
        },
        syncs: SyncPolicy {
            every: match shape.rule {
                SyncRule::Never => 0,
                SyncRule::EachWrite => 1,
                SyncRule::Periodic(writes) => writes,
            },
            with: shape.sync_kind,
            each_write: shape.flags.sync || shape.flags.dsync,
        },
        finish: if shape.has_end_sync {
            vec![BlockIoFinalOp::Fsync]
        } else {
            Vec::new()
        },
        direct: shape.flags.direct,
        work: match shape.events {
            0 => BlockIoStopCondition::Time,
            events => BlockIoStopCondition::Together(events),
        },
        ..BlockIoGroup::default()
    }
}

fn mix(shape: &SysbenchOptions) -> Vec<BlockIoMixEntry> {
    let writes = SysbenchOptions::write_share(shape.mode, shape.ratio);
    let turn = |kind, weight| BlockIoMixEntry {
        weight,
        ..BlockIoMixEntry::of(kind, saturating_u32(shape.block_bytes))
    };
    let both = [
        turn(BlockIoOpKind::Read, 1.0 - writes),
        turn(BlockIoOpKind::Write, writes),
    ];
    both.into_iter().filter(|turn| turn.weight > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use crate::parts::tests::{built, groups, names, refused};

    use super::*;

    #[test]
    fn each_mode_does_its_work() {
        use BlockIoFileCreation::{Before, During};
        use OffsetPattern::{Sequential, Uniform};
        for (mode, reads, writes, offsets, made, every) in [
            ("seqwr", 0.0, 1.0, Sequential, During, 100),
            ("seqrewr", 0.0, 1.0, Sequential, Before, 100),
            ("seqrd", 1.0, 0.0, Sequential, Before, 0),
            ("rndrd", 1.0, 0.0, Uniform, Before, 0),
            ("rndwr", 0.0, 1.0, Uniform, Before, 100),
            ("rndrw", 0.6, 0.4, Uniform, Before, 40),
        ] {
            let series = built(NAME, &[("file-test-mode", mode)]);
            assert_eq!(names(&series), [mode]);
            let group = &groups(&series, mode)[0];
            let share = |kind| {
                let turns = group.mix.iter().filter(|turn| turn.kind == kind);
                turns.map(|turn| turn.weight).sum::<f64>()
            };
            let shares = (share(BlockIoOpKind::Read), share(BlockIoOpKind::Write));
            assert_eq!(shares, (reads, writes), "{mode}");
            assert!(
                group
                    .mix
                    .iter()
                    .all(|t| t.bytes == 16_384 && t.weight > 0.0)
            );
            assert_eq!(
                (group.offsets.clone(), group.extent.made),
                (offsets, made),
                "{mode}"
            );
            assert_eq!(group.syncs.every, every, "{mode}");
            assert_eq!(
                group.finish == [BlockIoFinalOp::Fsync],
                writes > 0.0,
                "{mode}"
            );
            assert_eq!(group.work, BlockIoStopCondition::Time, "{mode}");
            assert_eq!(
                series.phases[0].limit,
                Some(Nanos(10_000_000_000)),
                "{mode}"
            );
        }
    }

    #[test]
    fn threads_share_one_stream_of_a_shared_file() {
        for (files, mode, offsets) in [
            ("1", "seqrd", OffsetPattern::Interleaved),
            ("4", "seqrd", OffsetPattern::Sequential),
            ("1", "rndrd", OffsetPattern::Uniform),
        ] {
            let given = [
                ("threads", "4"),
                ("file-num", files),
                ("file-test-mode", mode),
            ];
            let group = groups(&built(NAME, &given), mode)[0].clone();
            assert_eq!(
                (group.offsets, group.workers),
                (offsets, 4),
                "{mode} {files}"
            );
        }
    }

    #[test]
    fn each_setting_has_its_effect() {
        let built = |given: &[(&str, &str)]| groups(&built(NAME, given), "rndrw")[0].clone();
        let group = built(&[
            ("threads", "4"),
            ("file-num", "4"),
            ("file-total-size", "1000K"),
        ]);
        // 250 KiB hold 15 blocks.
        assert_eq!((group.extent.shared, group.extent.bytes), (false, 15 << 14));
        let group = built(&[("file-io-mode", "async"), ("file-async-backlog", "8")]);
        assert_eq!((group.workers, group.depth), (1, 8));
        let group = built(&[
            ("file-extra-flags", "dsync+direct"),
            ("file-block-size", "4k"),
        ]);
        assert!(group.syncs.each_write && group.direct);
        assert_eq!(group.mix[0].bytes, 4096);
        let group = built(&[("file-fsync-all", "on"), ("file-fsync-mode", "fdatasync")]);
        assert_eq!(
            (group.syncs.every, group.syncs.with),
            (1, SyncKind::Fdatasync)
        );
        let group = built(&[("file-fsync-freq", "0"), ("file-fsync-end", "off")]);
        assert_eq!((group.syncs.every, group.finish.len()), (0, 0));
        let group = built(&[("file-rw-ratio", "3"), ("file-fsync-freq", "10")]);
        assert_eq!((group.mix[1].weight, group.syncs.every), (0.25, 3));
        assert_eq!(
            built(&[("events", "7"), ("time", "0")]).work,
            BlockIoStopCondition::Together(7)
        );
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (given, expect) in [
            (&[("file-test-mode", "rand")][..], "seqwr, seqrewr"),
            (&[("file-num", "128")], "expected 1, or 1"),
            (&[("file-io-mode", "mmap")], "no mapped files"),
            (&[("file-extra-flags", "direct,fast")], "'fast'"),
            (
                &[("file-extra-flags", "direct"), ("file-block-size", "100")],
                "sectors",
            ),
            (&[("file-fsync-mode", "sync")], "fsync or fdatasync"),
            (&[("time", "0")], "never end"),
            (&[("file-rw-ratio", "-1")], "from 0"),
            (&[("percentile", "0")], "from 1 to 100"),
            (
                &[("file-total-size", "1k")],
                "for file-total-size of sysbench",
            ),
        ] {
            let error = refused(NAME, given);
            assert!(error.contains(expect), "{given:?}: {error}");
        }
    }
}
