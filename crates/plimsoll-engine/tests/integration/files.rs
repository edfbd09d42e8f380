// SPDX-License-Identifier: Apache-2.0
//! File loops on a real directory: what is there afterwards is what was asked for.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::OpStats;
use plimsoll_core::op::OpKind;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::files::{
    FileLoop, FileLoopGroup, FileLoopNoFilePolicy, FileLoopOp, FileLoopOpenMode, FileLoopOrder,
    FileLoopSelection, FileNameScheme, FileOp, FileSet, FileSizeDistribution, FileTreeLayout,
};
use plimsoll_core::workload::series::{PhaseSeries, PhaseSpec, PhaseWorkload};
use plimsoll_engine::OpenTarget;
use plimsoll_engine::{EngineChoice, PreparedWorkload, SimDeviceSpec, prepare};
use plimsoll_engine::{RunOptions, RunResult};

static GO: AtomicBool = AtomicBool::new(false);

fn group(name: &str, threads: u32, ops: Vec<FileLoopOp>) -> FileLoopGroup {
    FileLoopGroup {
        name: name.into(),
        threads,
        ops,
        direct: false,
        sync: false,
    }
}

fn ops(list: &[FileOp]) -> Vec<FileLoopOp> {
    list.iter().copied().map(FileLoopOp::from).collect()
}

/// A loop of two threads.
fn files(set: FileSet, ops: Vec<FileLoopOp>, over: FileLoopSelection) -> FileLoop {
    FileLoop {
        name: "files".into(),
        sets: vec![set],
        groups: vec![group("group", 2, ops)],
        over,
        events_per_s: None,
        sync_at_end: false,
        without_file: FileLoopNoFilePolicy::Fail,
    }
}

fn missing(entries: u32, bytes: u64) -> FileSet {
    FileSet {
        prealloc: 0.0,
        ..FileSet::flat("set", entries, bytes, FileSizeDistribution::Constant)
    }
}

fn ready(place: OpenTarget, workload: &Workload) -> PreparedWorkload {
    prepare(place, workload, None, Seed(1), EngineChoice::Auto, &GO).unwrap()
}

fn buffered(path: &Path) -> OpenTarget {
    OpenTarget::in_directory(path, 0).unwrap()
}

fn run(prepared: &mut PreparedWorkload, length_ms: u64) -> RunResult {
    let options = RunOptions {
        length: Nanos(length_ms * 1_000_000),
        ..RunOptions::default()
    };
    prepared.run(&options, &GO, &mut |_| {}).unwrap()
}

fn count(stats: &OpStats, kind: OpKind) -> u64 {
    stats
        .0
        .get(&kind)
        .map_or(0, |stats| stats.ops() - stats.errors)
}

/// Every file below a directory.
fn all_files(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(all_files(&path));
        } else {
            files.push(path);
        }
    }
    files
}

#[test]
fn whole_files_have_their_size_to_the_byte_and_no_two_pieces_are_alike() {
    let directory = tempfile::tempdir().unwrap();
    let whole = FileOp::WriteWhole {
        piece_bytes: 100_000,
    };
    let list = ops(&[FileOp::Create, whole, FileOp::Close]);
    let mut files = files(
        missing(12, 250_001),
        list,
        FileLoopSelection::Each(FileLoopOrder::Numbered),
    );
    files.sync_at_end = true;
    let mut prepared = ready(buffered(directory.path()), &Workload::Files(files));
    assert!(all_files(directory.path()).is_empty());
    let outcome = run(&mut prepared, 60_000);
    assert_eq!(outcome.stats.errors(), 0);
    assert_eq!(count(&outcome.stats, OpKind::SyncAll), 1);
    assert_eq!(outcome.stats.bytes(), 12 * 250_001);
    let written = all_files(directory.path());
    assert_eq!(written.len(), 12);
    for path in written {
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(bytes.len(), 250_001);
        assert_ne!(bytes[..512], bytes[100_000..100_512]);
        assert_ne!(bytes[512..1024], bytes[100_512..101_024]);
    }
    prepared.remove().unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

fn phase(name: &str, set: FileSet, ops: Vec<FileLoopOp>, order: FileLoopOrder) -> PhaseSpec {
    PhaseSpec {
        name: name.into(),
        body: PhaseWorkload::Files(files(set, ops, FileLoopSelection::Each(order))),
        metric: ComparisonMetric::OpsPerSecond,
        stonewall: false,
        limit: None,
        cold: false,
    }
}

#[test]
fn phases_find_the_files_of_earlier_ones_in_every_order_and_tree() {
    let random = FileTreeLayout::Random {
        width: 5.0,
        shape: 1.5,
    };
    for (tree, names, order) in [
        (
            FileTreeLayout::Flat,
            FileNameScheme::NumberFirst,
            FileLoopOrder::Listed,
        ),
        (
            FileTreeLayout::Even(3),
            FileNameScheme::NumberLast,
            FileLoopOrder::Shuffled,
        ),
        (random, FileNameScheme::Digits, FileLoopOrder::Numbered),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let new = FileSet {
            tree,
            names,
            ..missing(100, 10)
        };
        let old = FileSet {
            made_earlier: true,
            prealloc: 1.0,
            ..new.clone()
        };
        let append = FileOp::Append { bytes: 10 };
        let create = ops(&[FileOp::Create, append, FileOp::Close]);
        let read = FileOp::ReadWhole { piece_bytes: 100 };
        let read = ops(&[FileOp::Open, read, FileOp::Close]);
        let workload = Workload::Series(PhaseSeries {
            name: "series".into(),
            classic: None,
            phases: vec![
                phase("create", new, create, FileLoopOrder::Numbered),
                phase("stat", old.clone(), ops(&[FileOp::Stat]), order),
                phase("read", old.clone(), read, order),
                phase("delete", old, ops(&[FileOp::Delete]), order),
            ],
        });
        let mut prepared = ready(buffered(directory.path()), &workload);
        let outcome = run(&mut prepared, 60_000);
        assert_eq!(outcome.stats.errors(), 0, "{tree:?}");
        let kinds = [
            OpKind::Create,
            OpKind::Stat,
            OpKind::ReadWhole,
            OpKind::Delete,
        ];
        assert_eq!(kinds.map(|kind| count(&outcome.stats, kind)), [100; 4]);
        assert_eq!(outcome.stats.0[&OpKind::ReadWhole].bytes, 1_000);
        assert!(all_files(directory.path()).is_empty(), "{tree:?}");
        prepared.remove().unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn several_sets_are_kept_apart_and_the_log_grows_by_what_was_appended() {
    let directory = tempfile::tempdir().unwrap();
    let read = FileOp::ReadWhole { piece_bytes: 4096 };
    let mut list = ops(&[FileOp::Open, read, FileOp::Close]);
    list.push(FileLoopOp {
        opened: FileLoopOpenMode::Once,
        ..FileLoopOp::on(FileOp::Append { bytes: 100 }, 1, 2)
    });
    let pages = FileSet {
        read_only: true,
        ..FileSet::flat("pages", 20, 5_000, FileSizeDistribution::Constant)
    };
    let mut files = files(pages, list, FileLoopSelection::Rotor);
    files.sets.push(FileSet::flat(
        "log",
        1,
        1_000,
        FileSizeDistribution::Constant,
    ));
    let mut prepared = ready(buffered(directory.path()), &Workload::Files(files));
    let outcome = run(&mut prepared, 2_000);
    assert_eq!(outcome.stats.errors(), 0);
    let log = std::fs::metadata(directory.path().join("log/00000000"));
    let appended = outcome.stats.0[&OpKind::Append].bytes;
    assert!(appended > 0);
    // Both threads append to the end as they see it, so one may write over the other's.
    let grown = log.unwrap().len() - 1_000;
    assert!(grown > 0 && grown <= appended, "{grown} {appended}");
    let pages = all_files(&directory.path().join("pages"));
    assert_eq!(pages.len(), 20);
    assert!(
        pages
            .iter()
            .all(|page| page.metadata().unwrap().len() == 5_000)
    );
    prepared.remove().unwrap();
}

#[test]
fn a_rate_of_events_is_kept_to_the_operation() {
    let list = ops(&[FileOp::Stat, FileOp::Limit]);
    let set = FileSet::flat("set", 100, 0, FileSizeDistribution::Constant);
    let mut files = files(set, list, FileLoopSelection::Rotor);
    files.events_per_s = Some(500.0);
    let mut prepared = ready(
        OpenTarget::Sim(SimDeviceSpec::default()),
        &Workload::Files(files),
    );
    let outcome = run(&mut prepared, 10_000);
    // The first operation of each thread comes before its first limit.
    let found = outcome.stats.ops();
    assert!((4_999..=5_002).contains(&found), "{found}");
    let slowest = outcome.stats.response().max_ns();
    assert!(
        slowest < 1_000_000,
        "the wait belongs to no operation: {slowest}"
    );
}

#[test]
fn direct_and_durable_groups_read_back_what_is_there() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let read = FileLoopOp {
        opened: FileLoopOpenMode::Rotating,
        ..FileLoopOp::from(FileOp::Read {
            bytes: 4096,
            random: false,
        })
    };
    let write = FileLoopOp {
        op: FileOp::Write {
            bytes: 4096,
            random: true,
        },
        ..read
    };
    // The last block is not whole.
    let set = FileSet::flat("set", 3, 10_000, FileSizeDistribution::Constant);
    let mut files = files(set, vec![read], FileLoopSelection::Rotor);
    files.groups.push(group("writer", 1, vec![write]));
    files.groups[0].direct = true;
    files.groups[1].sync = true;
    let place = OpenTarget::in_directory(directory.path(), 4096).unwrap();
    let mut prepared = ready(place, &Workload::Files(files));
    let options = RunOptions {
        length: Nanos(2_000_000_000),
        ..RunOptions::default()
    };
    let outcome = match prepared.run(&options, &GO, &mut |_| {}) {
        Ok(outcome) => outcome,
        Err(error) => {
            let skipped = format!("SKIPPED: no direct I/O here: {error}\n");
            std::io::stderr().write_all(skipped.as_bytes()).unwrap();
            return;
        }
    };
    assert_eq!(outcome.stats.errors(), 0);
    let reads = &outcome.stats.0[&OpKind::Read];
    assert!(reads.bytes > 0 && count(&outcome.stats, OpKind::Write) > 0);
    let mut sizes = all_files(directory.path()).into_iter();
    assert!(sizes.all(|path| path.metadata().unwrap().len() == 10_000));
    prepared.remove().unwrap();
}

#[test]
fn a_signal_between_groups_wakes_threads_that_wait_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let wait = FileOp::Await {
        signal: 0,
        posts: 10,
        ahead: 5,
    };
    let writes = vec![
        FileLoopOp {
            opened: FileLoopOpenMode::Once,
            ..FileLoopOp::from(FileOp::Fdatasync)
        },
        FileLoopOp::from(wait),
    ];
    let set = FileSet::flat("set", 20, 0, FileSizeDistribution::Constant);
    let list = ops(&[FileOp::Stat, FileOp::Post { signal: 0 }]);
    let mut files = files(set, list, FileLoopSelection::Rotor);
    files.groups.push(group("writer", 1, writes));
    let mut prepared = ready(buffered(directory.path()), &Workload::Files(files));
    let outcome = run(&mut prepared, 2_000);
    let stats = count(&outcome.stats, OpKind::Stat);
    let syncs = count(&outcome.stats, OpKind::Fdatasync);
    assert!(syncs > 1, "{syncs}");
    // Two threads may each have done one that they have not told of.
    assert!(stats <= syncs * 10 + 5 + 2 + 10, "{stats} {syncs}");
    assert!(stats + 20 >= (syncs - 1) * 10, "{stats} {syncs}");
    prepared.remove().unwrap();
}
