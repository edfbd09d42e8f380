// SPDX-License-Identifier: Apache-2.0
//! The same cases for every engine that moves data.
#![expect(clippy::print_stderr, reason = "a skipped test must be heard")]

use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use plimsoll_core::op::{OpKind, OpRequest};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use plimsoll_engine::engine::{IoCompletion, IoEngine, UnsupportedOp};
use plimsoll_engine::pool::ThreadPoolEngine;
use plimsoll_engine::sync::SyncEngine;
use plimsoll_engine::sys::uring::UringEngine;
use plimsoll_engine::target::RequestTarget;

const LEN: u32 = 4096;

fn open(path: &Path, write: bool) -> Arc<OwnedFd> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(write).open(path).unwrap();
    Arc::new(file.into())
}

/// Every engine that works here, on `file`; what does not work says so.
fn engines(file: &Arc<OwnedFd>) -> Vec<Box<dyn IoEngine>> {
    let target = RequestTarget::File(Arc::clone(file));
    let mut engines: Vec<Box<dyn IoEngine>> = vec![
        Box::new(SyncEngine::new(target, LEN, Seed(1))),
        Box::new(ThreadPoolEngine::new(Arc::clone(file), 4, LEN, Seed(1)).unwrap()),
    ];
    match UringEngine::new(Arc::clone(file), 8, LEN, Seed(1)) {
        Ok(engine) => engines.push(Box::new(engine)),
        Err(error) => eprintln!("\n*** SKIPPED: io_uring is not available here: {error} ***\n"),
    }
    engines
}

/// A file of `len` zeros, and what keeps it alive.
fn zeros(len: usize) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    std::fs::write(&path, vec![0; len]).unwrap();
    (directory, path)
}

fn request(kind: OpKind, offset: u64, len: u32) -> OpRequest {
    OpRequest {
        kind,
        file: 0,
        offset,
        len,
        intended_at: Nanos(0),
    }
}

/// Waits until `n` operations have ended.
fn reap(engine: &mut dyn IoEngine, n: usize) -> Vec<IoCompletion> {
    let mut done = Vec::new();
    for _ in 0..1_000 {
        if done.len() >= n {
            break;
        }
        engine.enter(Some(Nanos(50_000_000))).unwrap();
        engine.reap(&mut done);
    }
    assert_eq!(done.len(), n, "{}: {done:?}", engine.describe());
    done
}

fn one(engine: &mut dyn IoEngine, request: OpRequest) -> Result<u64, i32> {
    engine.queue(0, &request).unwrap();
    reap(engine, 1)[0].result
}

#[test]
fn what_was_written_reads_back_in_every_slot() {
    let (_directory, path) = zeros(1 << 20);
    for mut engine in engines(&open(&path, true)) {
        let slots = engine.slots();
        for slot in 0..slots {
            let byte = u8::try_from(slot).unwrap() + 1;
            engine.buffer(slot).fill(byte);
            let offset = u64::from(slot) * 8192;
            engine
                .queue(slot, &request(OpKind::Write, offset, LEN))
                .unwrap();
        }
        let done = reap(engine.as_mut(), slots as usize);
        assert!(done.iter().all(|c| c.result == Ok(u64::from(LEN))));
        let mut freed: Vec<u32> = done.iter().map(|c| c.slot).collect();
        freed.sort_unstable();
        assert!(freed.into_iter().eq(0..slots), "each slot comes back once");
        assert_eq!(one(engine.as_mut(), request(OpKind::Fsync, 0, 0)), Ok(0));
        for slot in 0..slots {
            // Read through another slot than wrote it.
            let through = slots - 1 - slot;
            engine.buffer(through).fill(0);
            let offset = u64::from(slot) * 8192;
            engine
                .queue(through, &request(OpKind::Read, offset, LEN))
                .unwrap();
            assert_eq!(reap(engine.as_mut(), 1)[0].result, Ok(u64::from(LEN)));
            let byte = u8::try_from(slot).unwrap() + 1;
            let name = engine.describe();
            assert!(engine.buffer(through).iter().all(|b| *b == byte), "{name}");
        }
        let on_disk = std::fs::read(&path).unwrap();
        assert!(on_disk[..4096].iter().all(|b| *b == 1));
        assert!(on_disk[4096..8192].iter().all(|b| *b == 0));
    }
}

#[test]
fn the_end_of_the_file_is_a_short_read_and_behind_it_is_nothing() {
    let (_directory, path) = zeros(1000);
    for mut engine in engines(&open(&path, false)) {
        let engine = engine.as_mut();
        assert_eq!(one(engine, request(OpKind::Read, 0, LEN)), Ok(1000));
        assert_eq!(one(engine, request(OpKind::Read, 4096, LEN)), Ok(0));
    }
}

#[test]
fn errors_are_the_systems_own_numbers() {
    let (_directory, path) = zeros(4096);
    let ebadf = rustix::io::Errno::BADF.raw_os_error();
    let einval = rustix::io::Errno::INVAL.raw_os_error();
    for mut engine in engines(&open(&path, false)) {
        let engine = engine.as_mut();
        assert_eq!(one(engine, request(OpKind::Write, 0, LEN)), Err(ebadf));
        let too_far = request(OpKind::Read, u64::MAX / 2 + 1, LEN);
        assert_eq!(one(engine, too_far), Err(einval), "{}", engine.describe());
        // A failure is not the end of the engine.
        assert_eq!(one(engine, request(OpKind::Read, 0, LEN)), Ok(4096));
    }
}

#[test]
fn syncs_and_discards_do_what_they_say() {
    for with in 0..3 {
        let (_directory, path) = zeros(0);
        std::fs::write(&path, vec![7; 64 << 10]).unwrap();
        let Some(mut engine) = engines(&open(&path, true)).into_iter().nth(with) else {
            continue;
        };
        let engine = engine.as_mut();
        let name = engine.describe();
        for (kind, len) in [
            (OpKind::Fsync, 0),
            (OpKind::Fdatasync, 0),
            (OpKind::SyncRange, 0),
            (OpKind::SyncRange, LEN),
        ] {
            assert_eq!(one(engine, request(kind, 0, len)), Ok(0), "{name} {kind}");
        }
        let discarded = one(engine, request(OpKind::Discard, 8192, 16384));
        if discarded == Err(rustix::io::Errno::OPNOTSUPP.raw_os_error()) {
            eprintln!("SKIPPED: discard: this file system has no holes");
            continue;
        }
        assert_eq!(discarded, Ok(0), "{name}");
        let left = std::fs::read(&path).unwrap();
        assert_eq!(left.len(), 64 << 10, "the size stays");
        for (range, byte) in [(0..8192, 7), (8192..24576, 0), (24576..65536, 7)] {
            assert!(left[range].iter().all(|b| *b == byte), "{name}");
        }
    }
}

#[test]
fn a_sync_of_everything_is_done_by_plain_calls_only() {
    let (_directory, path) = zeros(4096);
    for mut engine in engines(&open(&path, true)) {
        let queued = engine.queue(0, &request(OpKind::SyncAll, 0, 0));
        if engine.describe().starts_with("io_uring") {
            assert_eq!(queued, Err(UnsupportedOp(OpKind::SyncAll)));
        } else {
            queued.unwrap();
            assert_eq!(reap(engine.as_mut(), 1)[0].result, Ok(0));
        }
    }
}

#[test]
fn requests_that_do_nothing_come_back_with_their_length() {
    let mut engine = match UringEngine::nop(8) {
        Ok(engine) => engine,
        Err(error) => return eprintln!("SKIPPED: io_uring is not available here: {error}"),
    };
    assert!(!engine.moves_data() && engine.describe().contains("do nothing"));
    for slot in 0..8 {
        let kind = if slot % 2 == 0 {
            OpKind::Read
        } else {
            OpKind::Fsync
        };
        engine.queue(slot, &request(kind, 0, 1 << 20)).unwrap();
    }
    let mut done = reap(&mut engine, 8);
    done.sort_unstable_by_key(|completion| completion.slot);
    for (slot, completion) in (0..8).zip(done) {
        let bytes = if slot % 2 == 0 { 1 << 20 } else { 0 };
        assert_eq!((completion.slot, completion.result), (slot, Ok(bytes)));
    }
}

#[test]
fn kinds_an_engine_lacks_are_refused_and_leave_the_slot_free() {
    let (_directory, path) = zeros(4096);
    for mut engine in engines(&open(&path, true)) {
        let refused = engine.queue(0, &request(OpKind::Delete, 0, 0));
        assert_eq!(refused, Err(UnsupportedOp(OpKind::Delete)));
        assert_eq!(
            one(engine.as_mut(), request(OpKind::Read, 0, LEN)),
            Ok(4096)
        );
    }
}

#[test]
fn a_wait_with_nothing_to_wait_for_ends_in_time() {
    use plimsoll_engine::clock::RunClock;
    let (_directory, path) = zeros(4096);
    let clock = plimsoll_engine::sys::clock::HostClock::start();
    for mut engine in engines(&open(&path, true)) {
        let before = clock.now();
        engine.enter(Some(Nanos(20_000_000))).unwrap();
        let took = clock.now().since(before);
        let name = engine.describe();
        assert!(took >= Nanos(15_000_000), "{name}: {took}");
        // It ends; how soon depends on how busy the machine is.
        assert!(took <= Nanos(60_000_000_000), "{name}: {took}");
    }
}

#[test]
fn a_busy_slot_cannot_be_used_twice() {
    let (_directory, path) = zeros(4096);
    let n = engines(&open(&path, true)).len();
    for index in 0..n {
        let mut engine = engines(&open(&path, true)).swap_remove(index);
        engine.queue(0, &request(OpKind::Read, 0, LEN)).unwrap();
        let again = std::panic::AssertUnwindSafe(|| {
            let _ = engine.queue(0, &request(OpKind::Read, 0, LEN));
        });
        assert!(std::panic::catch_unwind(again).is_err());
    }
}

#[test]
fn an_engine_dropped_with_operations_in_flight_ends() {
    let (_directory, path) = zeros(1 << 20);
    for mut engine in engines(&open(&path, true)) {
        for slot in 0..engine.slots() {
            engine.queue(slot, &request(OpKind::Write, 0, LEN)).unwrap();
        }
        engine.enter(None).unwrap();
        drop(engine);
    }
}
