// SPDX-License-Identifier: Apache-2.0
//! Whole runs on a temporary directory and on the null engine.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{cell, model, ops, random, varmail};
use plimsoll_core::event::TrialInterval;
use plimsoll_core::op::OpKind;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::BlockIoGroup;
use plimsoll_core::workload::files::{
    FileLoopGroup, FileLoopNoFilePolicy, FileLoopOp, FileOp, FileSet, FileSizeDistribution,
};
use plimsoll_engine::OpenTarget;
use plimsoll_engine::RunOptions;
use plimsoll_engine::clock::RunClock;
use plimsoll_engine::sys::clock::HostClock;
use plimsoll_engine::{EngineChoice, EngineError, PreparedWorkload, prepare};

const MS: u64 = 1_000_000;
static GO: AtomicBool = AtomicBool::new(false);

fn buffered(path: &Path) -> OpenTarget {
    OpenTarget::in_directory(path, 0).unwrap()
}

fn ready(path: &Path, workload: &Workload, choice: EngineChoice) -> PreparedWorkload {
    prepare(buffered(path), workload, None, Seed(1), choice, &GO).unwrap()
}

fn small(change: impl FnOnce(&mut BlockIoGroup)) -> Workload {
    random("small", 0.5, |group| {
        group.depth = 8;
        group.extent.bytes = 4 << 20;
        change(group);
    })
}

fn small_random() -> Workload {
    small(|_| {})
}

fn for_ms(length: u64) -> RunOptions {
    RunOptions {
        length: Nanos(length * MS),
        ..RunOptions::default()
    }
}

fn entries(path: &Path) -> usize {
    std::fs::read_dir(path).unwrap().count()
}

#[test]
fn varmail_does_its_thirteen_operations_in_proportion() {
    let directory = tempfile::tempdir().unwrap();
    let files = varmail(|_, group| group.threads = 4);
    let workload = Workload::Files(files.clone());
    let mut prepared = ready(directory.path(), &workload, EngineChoice::Auto);
    let set = directory.path().join("bigfileset");
    let laid_out = entries(&set);
    assert!((740..860).contains(&laid_out), "{laid_out}");
    let outcome = prepared.run(&for_ms(2_000), &GO, &mut |_| {}).unwrap();
    assert_eq!(outcome.stats.errors(), 0);
    let ops = |kind| outcome.stats.0.get(&kind).map_or(0, |s| s.ops());
    let loops = ops(OpKind::Create);
    assert!(loops > 0, "{loops}");
    for (kind, per_loop) in [
        (OpKind::Delete, 1),
        (OpKind::Append, 2),
        (OpKind::Fsync, 2),
        (OpKind::Close, 3),
        (OpKind::Open, 2),
        (OpKind::ReadWhole, 2),
    ] {
        // A thread may be anywhere in its list at the end; deletes of open files are left out.
        let (found, slack) = (
            ops(kind),
            u64::from(files.threads()) * per_loop + loops / 50 + 1,
        );
        assert!(
            found.abs_diff(loops * per_loop) <= slack,
            "{kind}: {found} {loops}"
        );
    }
    // The directory holds the result of these operations.
    let expect = laid_out as u64 + loops - ops(OpKind::Delete);
    assert_eq!(entries(&set) as u64, expect);
    let appended = outcome.stats.0[&OpKind::Append].bytes / ops(OpKind::Append);
    assert!((1..16_384).contains(&appended), "{appended}");
    // A second run goes on with the same set.
    let again = prepared.run(&for_ms(200), &GO, &mut |_| {}).unwrap();
    assert!(again.stats.errors() == 0 && again.stats.ops() > 0);
    prepared.remove().unwrap();
    assert_eq!(entries(directory.path()), 0);
}

#[test]
fn file_contents_do_not_compress() {
    let directory = tempfile::tempdir().unwrap();
    let workload = Workload::Files(varmail(|_, _| {}));
    let prepared = ready(directory.path(), &workload, EngineChoice::Auto);
    let set = directory.path().join("bigfileset");
    // In a short one few bytes of all kinds can occur.
    let files = std::fs::read_dir(set).unwrap().map(|file| file.unwrap());
    let longest = files.max_by_key(|file| file.metadata().unwrap().len());
    let bytes = std::fs::read(longest.unwrap().path()).unwrap();
    let mut counts = [0u64; 256];
    bytes.iter().for_each(|b| counts[usize::from(*b)] += 1);
    let n = bytes.len() as f64;
    let shares = counts.iter().filter(|c| **c > 0).map(|c| *c as f64 / n);
    let entropy: f64 = shares.map(|p| -p * p.log2()).sum();
    assert!(
        n > 500.0 && entropy > 7.0,
        "{n} bytes, {entropy} bits per byte"
    );
    prepared.remove().unwrap();
}

#[test]
fn a_set_without_room_is_a_clear_error() {
    let directory = tempfile::tempdir().unwrap();
    let files = varmail(|set, group| {
        (set.entries, set.prealloc) = (20, 1.0);
        group.ops.remove(0);
    });
    let mut prepared = ready(
        directory.path(),
        &Workload::Files(files),
        EngineChoice::Auto,
    );
    let error = prepared.run(&for_ms(500), &GO, &mut |_| {}).unwrap_err();
    assert!(matches!(error, EngineError::NoFile(_)), "{error}");
}

#[test]
fn a_loop_that_runs_out_of_names_ends_with_what_was_measured() {
    let directory = tempfile::tempdir().unwrap();
    let files = varmail(|set, group| {
        (set.entries, set.prealloc, group.threads) = (60, 0.0, 3);
        group.ops.remove(0);
    });
    let workload = Workload::Files(files);
    let mut prepared = ready(directory.path(), &workload, EngineChoice::Auto);
    let outcome = prepared.run(&for_ms(60_000), &GO, &mut |_| {}).unwrap();
    let failed = outcome.failed.unwrap();
    for part in ["ended after", "a file to create", "60 entries"] {
        assert!(failed.contains(part), "{failed}");
    }
    assert_eq!(outcome.stats.0[&OpKind::Create].ops(), 60);
    assert!(outcome.length < Nanos(60_000 * MS), "{}", outcome.length);
    prepared.remove().unwrap();
}

#[test]
fn a_loop_that_is_to_end_without_a_file_has_not_failed() {
    for (without_file, threads) in [
        (FileLoopNoFilePolicy::EndRun, 3),
        (FileLoopNoFilePolicy::EndThread, 3),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut files = varmail(|set, group| {
            (set.entries, set.prealloc, group.threads) = (60, 0.0, threads);
            group.ops.remove(0);
        });
        files.without_file = without_file;
        let workload = Workload::Files(files);
        assert!(workload.ends_by_itself());
        let mut prepared = ready(directory.path(), &workload, EngineChoice::Auto);
        let outcome = prepared.run(&for_ms(60_000), &GO, &mut |_| {}).unwrap();
        assert_eq!(outcome.failed, None);
        assert_eq!(outcome.stats.0[&OpKind::Create].ops(), 60);
        assert!(outcome.length < Nanos(60_000 * MS), "{}", outcome.length);
        prepared.remove().unwrap();
    }
}

#[test]
fn random_io_runs_on_every_engine_and_reuses_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let workload = small_random();
    let identity = || {
        let facts = std::fs::metadata(directory.path().join("plimsoll.data")).unwrap();
        (facts.ino(), facts.mtime_nsec(), facts.mtime(), facts.len())
    };
    for choice in [EngineChoice::Auto, EngineChoice::Sync] {
        let mut prepared = ready(directory.path(), &workload, choice);
        let before = identity();
        drop(ready(directory.path(), &workload, choice));
        assert_eq!(identity(), before, "the file was laid out again");
        let outcome = prepared.run(&for_ms(500), &GO, &mut |_| {}).unwrap();
        assert_eq!(outcome.stats.errors(), 0);
        assert!(outcome.stats.ops() > 0, "{choice:?}");
        assert_eq!(outcome.stats.bytes(), outcome.stats.ops() * 4096);
        assert!(outcome.generator.engine.contains("page cache"));
        let cpu = outcome.generator.user_cpu_ns + outcome.generator.system_cpu_ns;
        assert!(cpu > 0, "{choice:?}");
    }
    let other = small(|group| group.extent.bytes = 1 << 20);
    let prepared = ready(directory.path(), &other, EngineChoice::Auto);
    assert_eq!(identity().3, 1 << 20, "another size is laid out again");
    prepared.remove().unwrap();
    assert_eq!(entries(directory.path()), 0);
}

#[test]
fn a_model_plays_in_real_time_and_on_time() {
    let directory = tempfile::tempdir().unwrap();
    let cells = vec![cell(1, 300, 200)];
    let workload = Workload::Model(Box::new(model(cells.clone())));
    let mut prepared = ready(directory.path(), &workload, EngineChoice::Auto);
    let clock = HostClock::start();
    let outcome = prepared.run(&for_ms(1_000), &GO, &mut |_| {}).unwrap();
    let took = clock.now();
    assert!(took >= Nanos(950 * MS), "{took}");
    assert_eq!(outcome.submitted, cells);
    assert_eq!(outcome.stats.errors(), 0);
    // How late requests are is a measurement (cargo xtask bench issue): the machine may be busy.
}

#[test]
fn a_stop_ends_every_workload_soon_with_what_was_measured() {
    let directory = tempfile::tempdir().unwrap();
    let fileloop = varmail(|_, group| group.threads = 2);
    for workload in [
        small_random(),
        Workload::Model(Box::new(model(vec![cell(300, 90_000, 0)]))),
        Workload::Files(fileloop),
    ] {
        let mut prepared = ready(directory.path(), &workload, EngineChoice::Auto);
        let stop = AtomicBool::new(false);
        let clock = HostClock::start();
        let mut stopped_at = Nanos(0);
        // The first second that is passed on sets the flag, as a signal handler would.
        let mut n_passed_on = 0;
        let mut first_second = |interval: TrialInterval| {
            n_passed_on += interval.stats.ops();
            if !stop.swap(true, Ordering::Relaxed) {
                stopped_at = clock.now();
            }
        };
        let outcome = prepared.run(&for_ms(300_000), &stop, &mut first_second);
        let outcome = outcome.unwrap();
        let took = clock.now().since(stopped_at);
        let name = workload.name();
        assert!(outcome.interrupted, "{name}");
        // Idle it takes 100 ms; a plain call that hangs, such as an fsync, is waited for. How long calls
        // take here and now is what was measured.
        let longest = outcome.stats.service().max_ns();
        let soon = Nanos(15_000 * MS + 10 * longest);
        assert!(took < soon, "{name}: {took}, and {soon} is soon");
        assert!(outcome.stats.ops() > 0, "{name}");
        assert_eq!(n_passed_on, outcome.stats.ops(), "{name}");
        let length = outcome.length.as_secs_f64();
        assert!((0.9..150.0).contains(&length), "{name}: {length}");
        prepared.remove().unwrap();
    }
}

#[test]
fn a_stop_before_the_layout_is_an_error_that_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let workload = small_random();
    let stop = AtomicBool::new(true);
    let choice = EngineChoice::Auto;
    let place = buffered(directory.path());
    let error = prepare(place, &workload, None, Seed(1), choice, &stop).unwrap_err();
    assert!(
        error.to_string().ends_with("stopped by the user"),
        "{error}"
    );
}

#[test]
fn when_nothing_works_the_run_is_given_up_with_the_error() {
    let directory = tempfile::tempdir().unwrap();
    let workload = random("hopeless", 1.0, |group| group.extent.bytes = 1 << 20);
    let mut prepared = ready(directory.path(), &workload, EngineChoice::Auto);
    // An empty file: every read comes out short.
    std::fs::write(directory.path().join("plimsoll.data"), []).unwrap();
    let error = prepared.run(&for_ms(5_000), &GO, &mut |_| {}).unwrap_err();
    assert!(
        matches!(
            error,
            EngineError::AllFailed {
                kind: OpKind::Read,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn warm_up_is_left_out_and_intervals_add_up_to_the_whole() {
    let workload = small_random();
    let choice = EngineChoice::Auto;
    let mut prepared = prepare(OpenTarget::Null, &workload, None, Seed(1), choice, &GO).unwrap();
    let options = RunOptions {
        length: Nanos(1_200 * MS),
        warmup: Nanos(300 * MS),
        ..RunOptions::default()
    };
    let mut intervals = Vec::new();
    let outcome = prepared
        .run(&options, &GO, &mut |interval| intervals.push(interval))
        .unwrap();
    // On a busy machine a late operation can end in an extra interval.
    assert!(intervals.len() >= 2, "{}", intervals.len());
    assert_eq!(intervals[1].start, Nanos::SECOND);
    let ops: u64 = intervals.iter().map(|i| i.stats.ops()).sum();
    assert_eq!(ops, outcome.stats.ops());
    assert_eq!(outcome.length, options.length);
    assert_eq!(outcome.generator.engine, "null");
}

#[test]
fn workloads_that_do_not_fit_are_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let place = OpenTarget::in_directory(directory.path(), 4096).unwrap();
    let odd = small(|group| group.mix[0].bytes = 1000);
    let choice = EngineChoice::Auto;
    let error = prepare(place, &odd, None, Seed(1), choice, &GO).unwrap_err();
    assert!(error.to_string().contains("multiple of 4096"), "{error}");
    assert_eq!(entries(directory.path()), 0, "nothing was laid out");
}

#[test]
fn workload_files_that_would_hang_or_panic_are_refused() {
    let files = |change: &dyn Fn(&mut FileSet, &mut FileLoopGroup)| {
        Workload::Files(varmail(|s, g| change(s, g)))
    };
    let random = |change: &dyn Fn(&mut BlockIoGroup)| small(|group| change(group));
    let mut huge = model(vec![cell(1, 1, 0)]);
    huge.facts.working_set_bytes.value = u64::MAX;
    for (workload, expect) in [
        (
            files(&|s, _| s.sizes = FileSizeDistribution::Gamma(f64::NAN)),
            "gamma shape",
        ),
        (
            files(&|s, _| s.sizes = FileSizeDistribution::Gamma(0.5)),
            "gamma shape",
        ),
        (files(&|s, _| s.prealloc = 1.5), "within 0 and 1"),
        (files(&|s, _| s.prealloc = f64::NAN), "within 0 and 1"),
        (files(&|_, g| g.threads = 1_025), "at most 1024 threads"),
        (files(&|s, _| s.entries = 10_000_001), "10000000 files"),
        (
            files(&|_, g| {
                g.ops[6] = FileLoopOp::from(FileOp::ReadWhole {
                    piece_bytes: 1 << 27,
                });
            }),
            "2.00 GiB for buffers",
        ),
        (random(&|g| g.extent.bytes = u64::MAX), "too many"),
        (random(&|g| g.depth = u32::MAX), "depth of at most"),
        (random(&|g| g.mix[0].weight = f64::NAN), "share of reads"),
        (Workload::Model(Box::new(huge)), "too many"),
    ] {
        let choice = EngineChoice::Auto;
        let error = prepare(OpenTarget::Null, &workload, None, Seed(1), choice, &GO).unwrap_err();
        let is_workload = matches!(error, EngineError::Workload(_));
        let error = error.to_string();
        assert!(is_workload && error.contains(expect), "{expect}: {error}");
    }
}

#[test]
fn what_is_appended_is_not_what_was_read() {
    let directory = tempfile::tempdir().unwrap();
    let files = varmail(|set, group| {
        (set.entries, set.prealloc) = (50, 1.0);
        group.threads = 1;
        group.ops = ops(&[
            FileOp::Open,
            FileOp::ReadWhole {
                piece_bytes: 1 << 20,
            },
            FileOp::AppendRandom { bytes: 16_384 },
            FileOp::Close,
        ]);
    });
    let workload = Workload::Files(files);
    let mut prepared = ready(directory.path(), &workload, EngineChoice::Auto);
    prepared.run(&for_ms(100), &GO, &mut |_| {}).unwrap();
    let mut n_files = 0;
    let set = directory.path().join("bigfileset");
    for entry in std::fs::read_dir(set).unwrap() {
        let mut bytes = std::fs::read(entry.unwrap().path()).unwrap();
        bytes.truncate(100_000);
        if bytes.len() > 1_000 {
            let (head, rest) = bytes.split_at(64);
            n_files += 1;
            // The first 8 bytes of a sector may have been made to differ.
            let again = rest.windows(40).any(|window| window == &head[8..48]);
            assert!(!again, "the beginning of a file comes again in it");
        }
    }
    assert!(n_files > 10, "{n_files}");
    prepared.remove().unwrap();
}

#[test]
fn a_data_file_that_is_used_again_begins_with_a_cold_cache() {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let workload = small_random();
    let path = directory.path().join("plimsoll.data");
    drop(ready(directory.path(), &workload, EngineChoice::Auto));
    let cached = || {
        let file = std::fs::File::open(&path).unwrap();
        let mut page = [0u8; 4096];
        let mut pieces = [std::io::IoSliceMut::new(&mut page)];
        // Far from the beginning of the file, which another reader may have cached.
        preadv2(&file, &mut pieces, 3 << 20, ReadWriteFlags::NOWAIT).map(|_| ())
    };
    assert_eq!(std::fs::read(&path).unwrap().len(), 4 << 20);
    match cached() {
        Ok(()) => {}
        other => {
            let why = format!("SKIPPED: cannot see the page cache here: {other:?}");
            let _ = writeln!(std::io::stderr(), "{why}");
            return;
        }
    }
    drop(ready(directory.path(), &workload, EngineChoice::Auto));
    assert_eq!(cached(), Err(Errno::AGAIN));
}
