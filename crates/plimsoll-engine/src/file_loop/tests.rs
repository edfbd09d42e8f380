// SPDX-License-Identifier: Apache-2.0
//! Requests of a source of file operations, step by step.

use super::*;
use crate::file_sets::FileSetLocation;
use crate::fileset::FileSlotTable;
use crate::sys::clock::monotonic;
use crate::sys::clock::nap;
use crate::trees::{FileLoopSets, FileSetsByName};
use plimsoll_core::op::OpKind;
use plimsoll_core::workload::FileLoop;
use plimsoll_core::workload::files::{
    FileLoopGroup, FileLoopNoFilePolicy, FileLoopOp, FileLoopOpenMode, FileLoopOrder,
    FileLoopSelection, FileOp, FileSet, FileSizeDistribution,
};

pub(super) fn ops(list: &[FileOp]) -> Vec<FileLoopOp> {
    list.iter().copied().map(FileLoopOp::from).collect()
}

/// Two threads on one set of files of about 16 KiB.
pub(super) fn files(entries: u32, ops: Vec<FileLoopOp>) -> FileLoop {
    FileLoop {
        name: "test".into(),
        sets: vec![FileSet::flat(
            "set",
            entries,
            16_384,
            FileSizeDistribution::Gamma(1.5),
        )],
        groups: vec![group("group", 2, ops)],
        over: FileLoopSelection::Rotor,
        events_per_s: None,
        sync_at_end: false,
        without_file: FileLoopNoFilePolicy::Fail,
    }
}

fn group(name: &str, threads: u32, ops: Vec<FileLoopOp>) -> FileLoopGroup {
    FileLoopGroup {
        name: name.into(),
        threads,
        ops,
        direct: false,
        sync: false,
    }
}

/// A source with all threads of a loop, or on a real directory the first of them.
struct Stage {
    source: FileLoopSource,
    trees: Arc<FileLoopSets>,
    now: Nanos,
}

impl Stage {
    fn new(files: &FileLoop) -> Self {
        check(files, 512).unwrap();
        let trees = Arc::new(FileLoopSets::new(
            files,
            Seed(1),
            &mut FileSetsByName::new(),
        ));
        let play = Arc::new(FileLoopRun::new(files, Arc::clone(&trees)));
        let all = (0, files.threads());
        let source = play.source(all, Nanos::MAX, None, Seed(1)).unwrap();
        let now = Nanos(5);
        Stage { source, trees, now }
    }

    fn of(ops: Vec<FileLoopOp>, entries: u32) -> Self {
        Stage::new(&files(entries, ops))
    }

    fn set(&self) -> &FileSlotTable {
        self.trees.set(0)
    }

    fn request(&mut self, slot: u32) -> OpRequest {
        match self.source.next(self.now, slot).unwrap() {
            NextRequest::Request(request) => request,
            other => panic!("{other:?}"),
        }
    }

    fn end(&mut self, slot: u32, request: OpRequest, result: Result<u64, i32>) {
        self.now = self.now + Nanos(4);
        let sample = OpSample {
            request,
            submitted_at: Nanos(6),
            completed_at: self.now,
            result,
        };
        self.source.completed(slot, &sample);
    }

    /// The next operation in slot 0, carried out.
    fn done(&mut self) -> OpRequest {
        let request = self.request(0);
        self.end(0, request, Ok(u64::from(request.len)));
        request
    }

    fn kinds(&mut self, count: usize) -> Vec<OpKind> {
        (0..count).map(|_| self.done().kind).collect()
    }
}

fn one_thread(entries: u32, ops: Vec<FileLoopOp>) -> FileLoop {
    let mut files = files(entries, ops);
    files.groups[0].threads = 1;
    files
}

/// Two threads that have opened the one file and synced nothing yet; the first is next.
fn both_open() -> Stage {
    let list = [FileOp::Open, FileOp::Fsync, FileOp::Close, FileOp::Delete];
    let mut stage = Stage::of(ops(&list), 1);
    let open = stage.request(0);
    // The other thread cannot have the file while it is being opened.
    assert_eq!(stage.source.next(stage.now, 1).unwrap(), NextRequest::Wait);
    stage.end(0, open, Ok(0));
    let open = stage.request(0);
    assert_eq!(open.kind, OpKind::Open, "the other thread was waiting");
    let fsync = stage.request(1);
    assert_eq!(fsync.kind, OpKind::Fsync);
    stage.end(0, open, Ok(0));
    stage.end(1, fsync, Ok(0));
    assert_eq!(stage.set().open_count(0), 2);
    stage
}

#[test]
fn deleting_a_file_that_is_open_elsewhere_is_left_out_and_not_counted() {
    let mut stage = both_open();
    let held = stage.request(0);
    assert_eq!(held.kind, OpKind::Fsync, "of the second thread");
    for expect in [OpKind::Close, OpKind::Open] {
        let request = stage.request(1);
        assert_eq!(request.kind, expect, "the delete between them is left out");
        stage.end(1, request, Ok(0));
        assert!(stage.set().exists(0));
    }
    stage.end(0, held, Ok(0));
    // Now both close it before one of them is at its delete.
    let expect = [OpKind::Fsync, OpKind::Close, OpKind::Close, OpKind::Delete];
    assert_eq!(stage.kinds(4), expect);
    assert!(!stage.set().exists(0));
}

#[test]
fn a_source_takes_its_open_files_with_it() {
    let stage = both_open();
    drop(stage.source);
    assert_eq!(stage.trees.set(0).open_count(0), 0);
}

#[test]
fn what_is_in_flight_when_the_time_is_up_ends_before_everything_is_synced() {
    let mut files = files(9, ops(&[FileOp::Stat]));
    files.sync_at_end = true;
    let trees = Arc::new(FileLoopSets::new(
        &files,
        Seed(1),
        &mut FileSetsByName::new(),
    ));
    let play = Arc::new(FileLoopRun::new(&files, Arc::clone(&trees)));
    let source = play.source((0, 2), Nanos(100), None, Seed(1)).unwrap();
    let now = Nanos(5);
    let mut stage = Stage { source, trees, now };
    let stats = [stage.request(0), stage.request(1)];
    stage.now = Nanos(200);
    stage.end(0, stats[0], Ok(0));
    assert_eq!(stage.source.next(stage.now, 0).unwrap(), NextRequest::Wait);
    stage.end(1, stats[1], Ok(0));
    assert_eq!(stage.kinds(1), [OpKind::SyncAll]);
    assert_eq!(stage.source.next(stage.now, 0).unwrap(), NextRequest::End);
}

#[test]
fn an_operation_is_meant_to_start_when_the_one_before_it_ended() {
    let append = FileOp::AppendRandom { bytes: 1 };
    let list = ops(&[FileOp::Open, append, FileOp::Close]);
    let mut stage = Stage::new(&one_thread(1, list));
    let before = stage.set().size_bytes(0);
    assert_eq!(stage.done().intended_at, Nanos(0));
    let append = stage.done();
    assert_eq!((append.intended_at, append.len), (Nanos(9), 0));
    assert_eq!(append.kind, OpKind::Append, "no bytes are an operation too");
    assert_eq!(stage.set().size_bytes(0), before);
}

#[test]
fn what_needs_a_file_that_could_not_be_opened_is_left_out() {
    let list = ops(&[FileOp::Open, FileOp::Fsync, FileOp::Close]);
    let mut stage = Stage::new(&one_thread(1, list));
    let open = stage.request(0);
    stage.end(0, open, Err(2));
    assert_eq!(stage.set().open_count(0), 0);
    assert_eq!(stage.kinds(3), [OpKind::Open, OpKind::Fsync, OpKind::Close]);
}

#[test]
fn a_thread_whose_files_are_all_busy_waits_and_gives_up_in_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let files = files(1, ops(&[FileOp::Open, FileOp::Close]));
    let trees = Arc::new(FileLoopSets::new(
        &files,
        Seed(1),
        &mut FileSetsByName::new(),
    ));
    let play = Arc::new(FileLoopRun::new(&files, Arc::clone(&trees)));
    let held = crate::held::TargetHandle::directory(directory.path()).unwrap();
    let real = Some(FileSetLocation::Directory(&held));
    let mut source = play.source((1, 1), Nanos::MAX, real, Seed(1)).unwrap();
    assert!(trees.set(0).take(0, FilePickKind::Existing));
    let after = |seconds| Nanos(5 + seconds * Nanos::SECOND.0);
    for seconds in [0, 4] {
        assert_eq!(source.next(after(seconds), 0).unwrap(), NextRequest::Again);
    }
    let error = source.next(after(6), 0).unwrap_err().to_string();
    assert!(
        error.contains("1 entries") && error.contains("hangs"),
        "{error}"
    );
    // Once the file is free the thread goes on where it was.
    trees.set(0).release(0);
    let next = source.next(after(6), 0).unwrap();
    assert!(matches!(next, NextRequest::Request(request) if request.kind == OpKind::Open));
}

/// Plays the second thread of a loop on a real directory for `count` operations. Returns how often it
/// looked for the signal that it waits for, and how often the end of a sleep alone may have made it look.
fn looks_of_second(play: &Arc<FileLoopRun>, directory: &std::path::Path, count: u32) -> (u32, u64) {
    let held = crate::held::TargetHandle::directory(directory).unwrap();
    let place = Some(FileSetLocation::Directory(&held));
    let mut source = play.source((1, 1), Nanos::MAX, place, Seed(1)).unwrap();
    let began = monotonic();
    let (mut done, mut looks) = (0, 0);
    while done < count {
        match source.next(Nanos(5), 0).unwrap() {
            NextRequest::Request(request) => {
                done += 1;
                let sample = OpSample {
                    request,
                    submitted_at: Nanos(6),
                    completed_at: Nanos(5),
                    result: Ok(0),
                };
                source.completed(0, &sample);
            }
            NextRequest::Again => {
                looks += 1;
                source.wait_for_others(Nanos(5));
            }
            other => panic!("{other:?}"),
        }
    }
    (looks, monotonic().since(began).0 / SLEEP_MAX.0)
}

#[test]
fn a_thread_that_waits_for_signals_looks_only_when_it_was_helped() {
    const POSTS: u32 = 40;
    const TURNS: u32 = 10;
    let directory = tempfile::tempdir().unwrap();
    let (signal, posts, ahead) = (0, POSTS, POSTS);
    let mut files = files(9, ops(&[FileOp::Stat, FileOp::Post { signal }]));
    files.groups[0].threads = 1;
    let wait = FileOp::Await {
        signal,
        posts,
        ahead,
    };
    let writer = group("writer", 1, ops(&[FileOp::Stat, wait]));
    files.groups.push(writer);
    let trees = Arc::new(FileLoopSets::new(
        &files,
        Seed(1),
        &mut FileSetsByName::new(),
    ));
    let play = Arc::new(FileLoopRun::new(&files, trees));
    let (mut refused, long) = (0, Nanos(600 * Nanos::SECOND.0));
    let (looks, sleeps) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| looks_of_second(&play, directory.path(), TURNS));
        for number in 0..POSTS * (TURNS - 1) {
            if number % 4 == 0 {
                // A thread that polls would look several times in this pause.
                nap(Nanos(2_000_000));
            }
            while !play.signals[0].post() {
                refused += 1;
                play.wait(0, FileLoopBlocker::Room { signal }, long);
            }
        }
        writer.join().unwrap()
    });
    let allowed = u64::from(3 * TURNS) + sleeps;
    assert!(
        u64::from(looks) <= allowed,
        "{looks} looks, {sleeps} sleeps"
    );
    assert!(refused <= 3 * TURNS, "{refused} posts without room");
}

#[test]
fn a_thread_that_waits_for_a_file_looks_only_when_one_was_freed() {
    let directory = tempfile::tempdir().unwrap();
    let files = files(1, ops(&[FileOp::Stat]));
    let trees = Arc::new(FileLoopSets::new(
        &files,
        Seed(1),
        &mut FileSetsByName::new(),
    ));
    let play = Arc::new(FileLoopRun::new(&files, Arc::clone(&trees)));
    assert!(trees.set(0).take(0, FilePickKind::Existing));
    let (looks, sleeps) = std::thread::scope(|scope| {
        let second = scope.spawn(|| looks_of_second(&play, directory.path(), 1));
        nap(Nanos(100_000_000));
        trees.set(0).release(0);
        second.join().unwrap()
    });
    assert!(
        u64::from(looks) <= 2 + sleeps,
        "{looks} looks, {sleeps} sleeps"
    );
}

#[test]
fn written_bytes_are_fresh_and_differ_between_threads() {
    let append = FileOp::AppendRandom { bytes: 4096 };
    let list = ops(&[FileOp::Open, append, FileOp::Close]);
    let mut stage = Stage::of(list, 2);
    let requests = [stage.request(0), stage.request(1)];
    let mut read = |slot: u32| {
        // Data of an earlier read are in the buffer.
        let mut bytes = vec![7; 4096];
        stage
            .source
            .fill(slot, &requests[slot as usize], &mut bytes);
        bytes
    };
    let filled = [read(0), read(0), read(1)];
    for (i, bytes) in filled.iter().enumerate() {
        let sevens = bytes.iter().filter(|b| **b == 7).count();
        assert!(sevens < 64, "{sevens} bytes of what was read");
        assert!(filled[..i].iter().all(|other| other != bytes));
    }
}

#[test]
fn sequential_reads_go_through_the_file_end_empty_and_begin_again() {
    let read = FileOp::Read {
        bytes: 4096,
        random: false,
    };
    let mut files = one_thread(
        1,
        vec![FileLoopOp {
            opened: FileLoopOpenMode::Once,
            ..FileLoopOp::from(read)
        }],
    );
    files.sets[0].sizes = FileSizeDistribution::Constant;
    files.sets[0].mean_bytes = 10_000;
    let mut stage = Stage::new(&files);
    assert_eq!(stage.done().kind, OpKind::Open, "opened when it is needed");
    let places: Vec<(u64, u32)> = (0..5)
        .map(|_| stage.done())
        .map(|read| (read.offset, read.len))
        .collect();
    let expect = [
        (0, 4096),
        (4096, 4096),
        (8192, 1808),
        (10_000, 0),
        (0, 4096),
    ];
    assert_eq!(places, expect);
}

#[test]
fn random_reads_touch_every_whole_block_of_the_span_and_writes_do_not_grow_it() {
    for (span_bytes, blocks) in [(0, 25), (40_960, 10)] {
        let op = |op| FileLoopOp {
            opened: FileLoopOpenMode::Once,
            span_bytes,
            ..FileLoopOp::from(op)
        };
        let (bytes, random) = (4096, true);
        let reads = op(FileOp::Read { bytes, random });
        let writes = op(FileOp::Write { bytes, random });
        let mut files = one_thread(1, vec![reads, writes]);
        files.sets[0].sizes = FileSizeDistribution::Constant;
        files.sets[0].mean_bytes = 25 * 4096 + 100;
        let mut stage = Stage::new(&files);
        stage.done();
        let mut offsets = std::collections::BTreeSet::new();
        for _ in 0..600 {
            let request = stage.done();
            assert_eq!(request.len, 4096);
            offsets.insert(request.offset);
        }
        assert!(
            offsets
                .into_iter()
                .eq((0..blocks).map(|block| block * 4096))
        );
        assert_eq!(stage.set().size_bytes(0), 25 * 4096 + 100);
    }
}

#[test]
fn sequential_writes_grow_the_file_and_whole_files_have_their_designated_size() {
    let write = FileOp::Write {
        bytes: 1000,
        random: false,
    };
    let whole = FileOp::WriteWhole { piece_bytes: 4096 };
    let list = [FileOp::Create, whole, write, write, FileOp::Close];
    let mut files = one_thread(1, ops(&list));
    files.sets[0].prealloc = 0.0;
    let mut stage = Stage::new(&files);
    stage.done();
    let size = stage.set().designated_bytes(0);
    assert_eq!(u64::from(stage.done().len), size);
    assert_eq!(stage.set().size_bytes(0), size);
    let offsets = [stage.done().offset, stage.done().offset];
    assert_eq!(offsets, [0, 1000], "a write has a position of its own");
}

#[test]
fn an_operation_is_repeated_and_open_files_are_used_in_turn() {
    let read = FileLoopOp {
        opened: FileLoopOpenMode::Rotating,
        repeat: 4,
        ..FileLoopOp::from(FileOp::Read {
            bytes: 512,
            random: true,
        })
    };
    let stat = FileLoopOp::from(FileOp::Stat);
    let mut stage = Stage::new(&one_thread(3, vec![read, stat]));
    let (o, r, s) = (OpKind::Open, OpKind::Read, OpKind::Stat);
    assert_eq!(stage.kinds(8), [o, r, o, r, o, r, r, s]);
    assert_eq!(stage.kinds(5), [r, r, r, r, s]);
    let files: Vec<u32> = (0..4).map(|_| stage.done().file).collect();
    assert_eq!(files, [2, 0, 1, 2], "after nine reads");
}

#[test]
fn delays_and_limits_put_the_next_operation_off_and_are_none() {
    let list = [FileOp::Stat, FileOp::Delay { ns: 1_000 }, FileOp::Limit];
    let mut files = one_thread(10, ops(&list));
    let mut stage = Stage::new(&files);
    stage.done();
    let until = stage.source.next(stage.now, 0).unwrap();
    assert_eq!(until, NextRequest::Until(Nanos(1_009)));
    stage.now = Nanos(1_020);
    assert_eq!(stage.request(0).intended_at, Nanos(1_009));

    files.events_per_s = Some(1_000.0);
    let mut stage = Stage::new(&files);
    stage.done();
    stage.now = Nanos(2_000);
    let until = stage.source.next(stage.now, 0).unwrap();
    assert_eq!(until, NextRequest::Until(Nanos(1_000_000)));
    stage.now = Nanos(1_000_000);
    assert_eq!(stage.request(0).intended_at, Nanos(1_000_000));
}

#[test]
fn events_are_taken_for_bytes_moved() {
    let read = FileLoopOp {
        opened: FileLoopOpenMode::Once,
        ..FileLoopOp::from(FileOp::Read {
            bytes: 1_000,
            random: true,
        })
    };
    let limit = FileLoopOp::from(FileOp::LimitBytes { bytes: 4_000 });
    let mut files = one_thread(1, vec![read, limit]);
    files.events_per_s = Some(1.0);
    files.sets[0].sizes = FileSizeDistribution::Constant;
    let mut stage = Stage::new(&files);
    assert!(stage.kinds(5)[1..].iter().all(|kind| *kind == OpKind::Read));
    let until = stage.source.next(stage.now, 0).unwrap();
    assert_eq!(until, NextRequest::Until(Nanos::SECOND));
}

#[test]
fn a_run_ends_once_so_much_has_been_done() {
    let end = |amount, in_bytes, of| FileOp::EndAfter {
        amount,
        in_bytes,
        of,
    };
    let append = FileOp::Append { bytes: 1_000 };
    for (last, expect) in [
        // The run ends in the first pass whose append reaches the amount.
        (end(3, false, Some(1)), 3 * 3),
        (end(2_999, true, Some(1)), 3 * 3),
        // Bytes end the run only above the amount.
        (end(3_000, true, Some(1)), 4 * 3),
        (end(10, false, None), 4 * 3),
        (end(1_000, true, None), 2 * 3),
    ] {
        let list = [FileOp::Open, append, FileOp::Close, last];
        let mut stage = Stage::new(&one_thread(10, ops(&list)));
        stage.kinds(expect);
        let next = stage.source.next(stage.now, 0).unwrap();
        assert_eq!(next, NextRequest::End, "{last:?}");
    }
    let files = one_thread(10, ops(&[FileOp::Stat, end(1, false, Some(1))]));
    let error = check(&files, 512).unwrap_err().to_string();
    assert!(error.contains("not an operation"), "{error}");
}

#[test]
fn events_are_taken_for_operations_done() {
    let (stat, limit) = (FileOp::Stat, FileOp::LimitOps);
    let mut files = one_thread(10, ops(&[stat, stat, stat, limit]));
    files.events_per_s = Some(1.0);
    let mut stage = Stage::new(&files);
    stage.kinds(3);
    let until = stage.source.next(stage.now, 0).unwrap();
    assert_eq!(until, NextRequest::Until(Nanos(3 * Nanos::SECOND.0)));
}

#[test]
fn a_signal_lets_a_thread_go_on_and_posters_wait_for_it() {
    let stat = || FileLoopOp::from(FileOp::Stat);
    let wait = FileLoopOp::from(FileOp::Await {
        signal: 0,
        posts: 3,
        ahead: 2,
    });
    let post = FileLoopOp::from(FileOp::Post { signal: 0 });
    let fsync = |op| FileLoopOp {
        opened: FileLoopOpenMode::Once,
        ..FileLoopOp::from(op)
    };
    let mut files = files(10, vec![stat(), post]);
    files.groups[0].threads = 1;
    files
        .groups
        .push(group("writer", 1, vec![fsync(FileOp::Fsync), wait]));
    let mut stage = Stage::new(&files);
    let kinds = stage.kinds(41);
    let fsyncs = kinds.iter().filter(|kind| **kind == OpKind::Fsync).count();
    let stats = kinds.iter().filter(|kind| **kind == OpKind::Stat).count();
    assert_eq!(fsyncs + stats, 40, "and one open");
    assert!(stats.abs_diff(fsyncs * 3) <= 5, "{stats} {fsyncs}");
}

#[test]
fn every_file_is_gone_over_once_and_then_all_is_synced_once() {
    for order in [
        FileLoopOrder::Numbered,
        FileLoopOrder::Shuffled,
        FileLoopOrder::Listed,
    ] {
        let list = [FileOp::Create, FileOp::Append { bytes: 10 }, FileOp::Close];
        let mut files = files(9, ops(&list));
        files.over = FileLoopSelection::Each(order);
        files.sync_at_end = true;
        files.sets[0].prealloc = 0.0;
        let mut stage = Stage::new(&files);
        let (mut created, mut last) = (Vec::new(), OpKind::Stat);
        for _ in 0..28 {
            let request = stage.done();
            last = request.kind;
            if last == OpKind::Create {
                created.push(request.file);
            }
        }
        assert_eq!(last, OpKind::SyncAll);
        assert_eq!(stage.source.next(stage.now, 0).unwrap(), NextRequest::End);
        created.sort_unstable();
        assert!(created.into_iter().eq(0..9), "{order:?}");
    }
}

#[test]
fn files_of_an_earlier_phase_are_found_again_and_missing_ones_passed_over() {
    let known = &mut FileSetsByName::new();
    let mut create = files(6, ops(&[FileOp::Create, FileOp::Close]));
    create.over = FileLoopSelection::Each(FileLoopOrder::Numbered);
    create.groups[0].threads = 1;
    create.sets[0].prealloc = 0.0;
    let mut stat = create.clone();
    stat.groups[0].ops = ops(&[FileOp::Stat]);
    stat.sets[0].made_earlier = true;
    let play = |files: &FileLoop, known: &mut FileSetsByName, count| {
        let trees = Arc::new(FileLoopSets::new(files, Seed(1), known));
        let play = Arc::new(FileLoopRun::new(files, Arc::clone(&trees)));
        let source = play.source((0, 1), Nanos::MAX, None, Seed(1)).unwrap();
        let now = Nanos(5);
        let mut stage = Stage { source, trees, now };
        let done: Vec<u32> = (0..count).map(|_| stage.done().file).collect();
        (done, stage.source.next(stage.now, 0).unwrap())
    };
    // Cut short after two files.
    play(&create, known, 4);
    let (files, next) = play(&stat, known, 2);
    assert_eq!((files, next), (vec![0, 1], NextRequest::End));
}
