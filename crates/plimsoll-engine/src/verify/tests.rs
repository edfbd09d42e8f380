// SPDX-License-Identifier: Apache-2.0
//! Verification held against engines that lie in a known way.

use plimsoll_core::num::saturating_u32;
use plimsoll_core::op::{OpKind, OpRequest};

use super::*;
use crate::engine::{IoCompletion, UnsupportedOp};

/// How an engine lies.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lie {
    None,
    /// Writes one block too far, when another write is in flight.
    Misplace,
    /// Acknowledges without writing.
    Drop,
    /// Writes the first half.
    Tear,
    /// Writes something else.
    Corrupt,
    /// Completes reads without moving data.
    Unread,
}

/// Passes requests on, except for every `every`th write (or read), about which it lies.
struct Liar {
    inner: Box<dyn IoEngine>,
    lie: Lie,
    every: u64,
    n_writes: u64,
    n_reads: u64,
    n_lies: u64,
    bytes: u64,
    dropped: Vec<u32>,
    torn: Vec<u32>,
    in_flight: u32,
}

impl IoEngine for Liar {
    fn describe(&self) -> String {
        "liar".into()
    }
    fn slots(&self) -> u32 {
        self.inner.slots()
    }
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.inner.buffer(slot)
    }
    fn queue(&mut self, slot: u32, request: &OpRequest) -> Result<(), UnsupportedOp> {
        self.in_flight += 1;
        let mut request = *request;
        if request.kind == OpKind::Read && self.lie == Lie::Unread {
            self.n_reads += 1;
            if self.n_reads.is_multiple_of(self.every) {
                self.n_lies += 1;
                self.dropped.push(slot);
                return Ok(());
            }
        }
        if request.kind == OpKind::Write {
            self.n_writes += 1;
            if self.n_writes.is_multiple_of(self.every) && self.in_flight > 1 {
                self.n_lies += 1;
                match self.lie {
                    Lie::None | Lie::Unread => self.n_lies -= 1,
                    Lie::Misplace => {
                        request.offset = (request.offset + u64::from(request.len)) % self.bytes;
                    }
                    Lie::Drop => {
                        self.dropped.push(slot);
                        return Ok(());
                    }
                    Lie::Tear => {
                        request.len /= 2;
                        self.torn.push(slot);
                    }
                    Lie::Corrupt => self.inner.buffer(slot)[700] ^= 1,
                }
            }
        }
        self.inner.queue(slot, &request)
    }
    fn enter(&mut self, wait: Option<Nanos>) -> Result<(), EngineError> {
        let wait = if self.dropped.is_empty() { wait } else { None };
        self.inner.enter(wait)
    }
    fn reap(&mut self, done: &mut Vec<IoCompletion>) {
        let from = done.len();
        self.inner.reap(done);
        for completion in &mut done[from..] {
            if let Some(at) = self.torn.iter().position(|slot| *slot == completion.slot) {
                self.torn.swap_remove(at);
                completion.result = completion.result.map(|bytes| bytes * 2);
            }
        }
        let lost = self.dropped.drain(..).map(|slot| IoCompletion {
            slot,
            result: Ok(4096),
        });
        done.extend(lost);
        self.in_flight -= saturating_u32((done.len() - from) as u64);
    }
}

/// Verifies a file in a temporary directory through a liar; also says how often it lied.
fn verify_liar(lie: Lie, every: u64, seed: u64) -> (VerifyReport, u64) {
    verify_liar_at(16, lie, every, seed)
}

fn verify_liar_at(depth: u32, lie: Lie, every: u64, seed: u64) -> (VerifyReport, u64) {
    let directory = tempfile::tempdir().unwrap();
    let options = VerifyOptions {
        bytes: 1 << 20,
        operations: 2_000,
        depth,
        seed: Seed(seed),
    };
    let path = directory.path().join("data");
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    let held = TargetHandle::directory(directory.path()).unwrap();
    let file = layout::open_data(&held, &path, layout::DataFileOpenOptions::default());
    let file = Arc::new(file.unwrap());
    let choice = EngineChoice::Sync;
    let (inner, _) = open_engine(choice, &file, depth, 4096, Seed(seed)).unwrap();
    let mut liar = Liar {
        inner,
        lie,
        every,
        n_writes: 0,
        n_reads: 0,
        n_lies: 0,
        bytes: 1 << 20,
        dropped: Vec::new(),
        torn: Vec::new(),
        in_flight: 0,
    };
    let stop = AtomicBool::new(false);
    let report = verify_engine(&mut liar, 4096, &options, &stop).unwrap();
    (report, liar.n_lies)
}

#[test]
fn an_honest_engine_passes_and_everything_was_read() {
    for seed in 0..5 {
        let (report, _) = verify_liar(Lie::None, 10, seed);
        assert!(report.passed(), "{report:?}");
        assert!(report.written > 800 && report.checked >= 256, "{report:?}");
    }
}

#[test]
fn every_kind_of_lie_is_found_and_named() {
    for (lie, expect) in [
        (Lie::Drop, DataFlaw::Stale),
        (Lie::Tear, DataFlaw::Torn),
        (Lie::Corrupt, DataFlaw::Wrong),
    ] {
        for seed in 0..5 {
            let (report, n_lies) = verify_liar(lie, 25, seed);
            assert!(n_lies > 10, "{lie:?}: {n_lies} lies");
            assert!(!report.passed(), "{lie:?} {seed}");
            let named = report.findings.iter().filter(|f| f.flaw == expect).count();
            assert!(named > 0, "{lie:?}: {:?}", report.findings);
        }
    }
}

#[test]
fn data_at_the_wrong_offset_is_found_with_where_it_belongs() {
    let mut n_described = 0;
    for seed in 0..5 {
        let (report, n_lies) = verify_liar(Lie::Misplace, 25, seed);
        assert!(n_lies > 10 && !report.passed(), "{report:?}");
        assert!(report.bad.misplaced > 0, "{report:?}");
        // The first findings alone are described, and those of one run may all be of blocks that were left
        // stale.
        for finding in &report.findings {
            if let DataFlaw::Misplaced { belongs_at } = finding.flaw {
                assert_eq!(
                    (belongs_at + 4096) % (1 << 20),
                    finding.offset,
                    "{report:?}"
                );
                n_described += 1;
            }
        }
    }
    assert!(n_described > 0, "no misplaced block is described");
}

#[test]
fn not_one_lie_goes_unnoticed() {
    for lie in [Lie::Misplace, Lie::Drop, Lie::Tear, Lie::Corrupt] {
        for seed in 0..5 {
            for every in [7, 300] {
                let (report, n_lies) = verify_liar(lie, every, seed);
                // A rare lie may find no moment that suits it.
                assert!(n_lies > 0 || every > 7, "{lie:?} {every}");
                assert!(report.bad.total() >= n_lies, "{lie:?} {n_lies}: {report:?}");
            }
        }
    }
}

#[test]
fn a_read_that_moves_nothing_is_found_though_the_buffer_held_the_answer() {
    for depth in [1, 16] {
        for seed in 0..5 {
            for every in [1, 3] {
                let (report, n_lies) = verify_liar_at(depth, Lie::Unread, every, seed);
                assert!(n_lies > 100, "{depth}: {n_lies} lies");
                let n_bad = report.bad.total();
                assert_eq!(n_bad, n_lies, "{depth} {every} {seed}");
            }
        }
    }
}

#[test]
fn a_real_directory_passes_and_the_file_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let options = VerifyOptions::default();
    for align in [0, 4096] {
        match verify(directory.path(), align, &options, &stop) {
            Ok(report) => assert!(report.passed(), "{report:?}"),
            Err(error) if align > 0 => eprintln!("*** SKIPPED direct I/O: {error} ***"),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_stopped_verification_has_not_passed() {
    let directory = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(true);
    let report = verify(directory.path(), 0, &VerifyOptions::default(), &stop).unwrap();
    assert!(report.interrupted && !report.passed());
}
