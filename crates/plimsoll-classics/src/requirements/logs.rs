// SPDX-License-Identifier: Apache-2.0
//! Logs that are made durable record by record: etcd and PostgreSQL.

use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::syncs::SyncPolicy;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    BlockIoFileCreation, BlockIoGroup, BlockIoMixEntry, BlockIoOpKind,
};

use super::{FDATASYNC_EACH, RequirementDefinition, RequirementSource, blocks, paced};
use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use crate::parts::{setting, shared_file};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

/// Most records a second.
const RATE_MAX: u32 = 1_000_000;

/// Bytes of a record, as the authors of the fio job for etcd found them.
const ETCD_RECORD: u32 = 2_300;
/// Room of etcd's log, one of its segments.
const ETCD_LOG: u64 = 64 << 20;
/// Halves of commits of the back end a second: one every 100 ms, each with two syncs.
const BACKEND_PER_S: f64 = 20.0;
/// Bytes that half of a commit writes, in pages of 4 KiB.
const BACKEND_BYTES: u32 = 16 << 10;
/// Room of the back end.
const BACKEND_FILE: u64 = 32 << 20;

/// A block of PostgreSQL's log, and a segment of it.
const WAL_BLOCK: u32 = 8 << 10;
const WAL_SEGMENT: u64 = 16 << 20;

const ETCD_SETTINGS: &[SettingDefinition] = &[setting(
    "iops",
    SettingUnit::Count,
    "50",
    "records a second, each made durable: 50 are required, 500 advised for heavy loads",
)];

const WAL_SETTINGS: &[SettingDefinition] = &[setting(
    "commits",
    SettingUnit::Count,
    "100",
    "commits a second, one after the other, each made durable",
)];

pub(super) const ETCD: RequirementDefinition = RequirementDefinition {
    workload: WorkloadDefinition {
        name: "etcd",
        about: "a member of an etcd cluster: its log, and its back end beside it",
        settings: ETCD_SETTINGS,
        build: etcd,
    },
    limits: &["fdatasync p99 < 10ms", "write p99 < 12.5ms"],
    load: "{iops} log records of 2300 bytes a second, each followed by fdatasync, and 10 commits of the \
           back end a second, each two durable writes of 16 KiB",
    sources: &[
        RequirementSource {
            title: "etcd FAQ v3.5, heartbeats not sent on time (etcd authors)",
            url: "https://etcd.io/docs/v3.5/faq/",
            date: "read 2026-11-23",
            says: "p99 of wal_fsync_duration_seconds < 10 ms; p99 of backend_commit_duration_seconds < 25 ms",
        },
        RequirementSource {
            title: "etcd v3.5, Hardware recommendations: Disks (etcd authors)",
            url: "https://etcd.io/docs/v3.5/op-guide/hardware/",
            date: "read 2026-11-23",
            says: "50 sequential IOPS required, 500 recommended for heavily loaded clusters",
        },
        RequirementSource {
            title: "Using Fio to Tell Whether Your Storage is Fast Enough for Etcd (M. Olivi, M. Spreitzer, IBM)",
            url: "https://www.ibm.com/cloud/blog/using-fio-to-tell-whether-your-storage-is-fast-enough-for-etcd",
            date: "2019-04-18",
            says: "the load: fio --rw=write --fdatasync=1 --bs=2300 --size=22m; p99 of fdatasync < 10 ms",
        },
    ],
    notes: &[
        "Of the published range (50 to 500 a second) the least is needed to fit; etcd,iops=500 asks for the most.",
        "A commit of the back end syncs twice, so each of its writes has half of the 25 ms.",
        "The size of a commit is not published; 16 KiB (four pages) is an assumption.",
        "fdatasync counts from the end of the write before it, as etcd counts it.",
    ],
};

pub(super) const POSTGRES_WAL: RequirementDefinition = RequirementDefinition {
    workload: WorkloadDefinition {
        name: "postgres-wal",
        about: "the write-ahead log of a PostgreSQL server, commit by commit",
        settings: WAL_SETTINGS,
        build: postgres_wal,
    },
    limits: &["fdatasync p99 < 10ms"],
    load: "{commits} writes of 8 KiB a second into a segment of 16 MiB that is there, one after the other, \
           each followed by fdatasync",
    sources: &[RequirementSource {
        title: "PostgreSQL 15 documentation, pg_test_fsync (PostgreSQL Global Development Group)",
        url: "https://www.postgresql.org/docs/15/pgtestfsync.html",
        date: "read 2026-11-23",
        says: "how the log is synced (8 KiB writes, fdatasync on Linux); no limit is published",
    }],
    notes: &[
        "PostgreSQL publishes no limit. 100 commits a second of one session, which leave 10 ms for each, are a \
         default of ours: give commits=N and --slo for what your application needs.",
        "Group commit is not played: sessions that commit at once share a sync, and need fewer than this.",
    ],
};

fn etcd(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let per_s = f64::from(settings.count_within("iops", 1, RATE_MAX)?);
    let log = BlockIoGroup {
        name: "log".into(),
        extent: shared_file("wal", ETCD_LOG, BlockIoFileCreation::During),
        mix: vec![BlockIoMixEntry::of(BlockIoOpKind::Append, ETCD_RECORD)],
        offsets: OffsetPattern::Sequential,
        pace: paced(per_s),
        syncs: FDATASYNC_EACH,
        direct: false,
        ..BlockIoGroup::default()
    };
    let backend = BlockIoGroup {
        name: "back end".into(),
        extent: shared_file("db", BACKEND_FILE, BlockIoFileCreation::Before),
        mix: vec![BlockIoMixEntry::of(BlockIoOpKind::Write, BACKEND_BYTES)],
        pace: paced(BACKEND_PER_S),
        syncs: SyncPolicy {
            each_write: true,
            ..SyncPolicy::default()
        },
        direct: false,
        ..BlockIoGroup::default()
    };
    Ok(blocks("etcd", vec![log, backend]))
}

fn postgres_wal(settings: &SettingValues) -> Result<Workload, ClassicsError> {
    let per_s = f64::from(settings.count_within("commits", 1, RATE_MAX)?);
    let log = BlockIoGroup {
        name: "wal".into(),
        // Segments are filled with zeros before they are used, and used again: no commit allocates.
        extent: shared_file("wal", WAL_SEGMENT, BlockIoFileCreation::Before),
        mix: vec![BlockIoMixEntry::of(BlockIoOpKind::Write, WAL_BLOCK)],
        offsets: OffsetPattern::Sequential,
        pace: paced(per_s),
        syncs: FDATASYNC_EACH,
        direct: false,
        ..BlockIoGroup::default()
    };
    Ok(blocks("postgres-wal", vec![log]))
}
