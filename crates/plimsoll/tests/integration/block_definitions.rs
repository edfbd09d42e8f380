// SPDX-License-Identifier: Apache-2.0
//! The classic programs that do block I/O, held against their definitions operation by operation.

use plimsoll_core::op::OpKind;
use plimsoll_core::rng::Seed;
use plimsoll_core::workload::Workload;
use plimsoll_engine::{TracedOp, trace_worker};

/// Operations of one worker of the first group, at most `count` per phase, and the names of the phases.
struct Trace {
    phases: Vec<String>,
    ops: Vec<TracedOp>,
}

impl Trace {
    fn of(words: &str, worker: u32, count: usize) -> Self {
        Self::seeded(words, worker, count, Seed(1))
    }

    fn seeded(words: &str, worker: u32, count: usize, seed: Seed) -> Self {
        let workload = plimsoll_classics::parse_on(words, None).unwrap();
        let ops = trace_worker(&workload, (0, worker), seed, count).unwrap();
        let Workload::Series(series) = workload else {
            panic!("{words}: a series");
        };
        let phases = series.phases.into_iter();
        Trace {
            phases: phases.map(|phase| phase.name).collect(),
            ops,
        }
    }

    fn phase(&self, name: &str) -> Vec<&TracedOp> {
        let number = self.phases.iter().position(|phase| phase == name);
        let number = u32::try_from(number.unwrap()).unwrap();
        self.ops.iter().filter(|op| op.phase == number).collect()
    }

    /// Kind, offset and bytes of each operation of a phase.
    fn blocks(&self, name: &str) -> Vec<(OpKind, u64, u32)> {
        let ops = self.phase(name).into_iter();
        let bytes = |op: &TracedOp| u32::try_from(op.len).unwrap();
        ops.map(|op| (op.kind, op.offset, bytes(op))).collect()
    }
}

/// These kinds on each of `count` blocks of `bytes`, every `step`-th from block `first` on, and
/// then `last` once each.
fn stream(
    kinds: &[OpKind],
    bytes: u32,
    (first, step, count): (u64, u64, u64),
    last: &[OpKind],
) -> Vec<(OpKind, u64, u32)> {
    let offset = |turn| (first + turn * step) * u64::from(bytes);
    let turns =
        (0..count).flat_map(|turn| kinds.iter().map(move |kind| (*kind, offset(turn), bytes)));
    turns.chain(last.iter().map(|kind| (*kind, 0, 0))).collect()
}

const CHUNK: u32 = 64 << 10;
const ENDS: [OpKind; 2] = [OpKind::Fsync, OpKind::Close];

#[test]
fn bonnie_goes_through_its_file_chunk_by_chunk() {
    let trace = Trace::of("bonnie++ -s 1:64k:40:2 -f 0 -n 0", 0, 1000);
    for (phase, kinds) in [
        ("put_block", &[OpKind::Write][..]),
        ("rewrite", &[OpKind::Read, OpKind::Write]),
        ("get_block", &[OpKind::Read]),
    ] {
        let expect = stream(kinds, CHUNK, (0, 1, 16), &ENDS);
        assert_eq!(trace.blocks(phase), expect, "{phase}");
    }
    assert!(trace.ops.iter().all(|op| op.file == trace.ops[0].file));
    let bytes = Trace::of("bonnie++ -s 1:64k:40:2 -f 1 -n 0", 0, 5);
    for (phase, kind) in [("putc", OpKind::Write), ("getc", OpKind::Read)] {
        let expect = stream(&[kind], 1, (0, 1, 5), &[]);
        assert_eq!(bytes.blocks(phase), expect, "{phase}");
    }
}

#[test]
fn bonnie_updates_a_tenth_of_its_seeks() {
    for (option, after) in [("", &[][..]), (" -b", &[OpKind::Fsync])] {
        let words = format!("bonnie++ -s 1:64k:5000:1 -f 0 -n 0{option}");
        let mut ops = Trace::of(&words, 0, 20_000).blocks("seeks");
        let ends = ops.split_off(ops.len() - ENDS.len());
        assert_eq!(ends, stream(&[], 0, (0, 1, 0), &ENDS), "{words}");
        let (mut seeks, mut updates, mut rest) = (0, 0, &ops[..]);
        while let Some(((kind, offset, bytes), others)) = rest.split_first() {
            assert_eq!((*kind, *bytes), (OpKind::Read, CHUNK), "{words}");
            assert!(offset % u64::from(CHUNK) == 0 && *offset < 1 << 20);
            seeks += 1;
            rest = others;
            if let Some((write @ (OpKind::Write, ..), others)) = rest.split_first() {
                assert_eq!(*write, (OpKind::Write, *offset, CHUNK), "{words}");
                updates += 1;
                let (syncs, others) = others.split_at(after.len());
                assert_eq!(syncs, stream(&[], 0, (0, 1, 0), after), "{words}");
                rest = others;
            }
        }
        assert_eq!(seeks, 5000, "{words}");
        // Five standard deviations on either side.
        assert!((394..=606).contains(&updates), "{words}: {updates}");
    }
}

#[test]
fn the_seekers_of_bonnie_share_their_seeks() {
    let words = "bonnie++ -s 1:64k:400:4 -f 0 -n 0";
    let reads = |worker| {
        let ops = Trace::of(words, worker, 2000).blocks("seeks");
        ops.iter()
            .filter(|(kind, ..)| *kind == OpKind::Read)
            .count()
    };
    let each: Vec<usize> = (0..4).map(reads).collect();
    assert_eq!(each.iter().sum::<usize>(), 400, "{each:?}");
    assert!(each.iter().all(|reads| *reads > 50), "{each:?}");
}

/// The small files of one kind: what is done to each, and that it is done to all of them.
fn check_files(trace: &Trace, prefix: &str, is_shuffled: bool) {
    let created: [OpKind; 3] = [OpKind::Create, OpKind::WriteWhole, OpKind::Close];
    let read: [OpKind; 4] = [OpKind::Stat, OpKind::Open, OpKind::ReadWhole, OpKind::Close];
    let mut orders: Vec<Vec<&str>> = Vec::new();
    for (phase, kinds, has_sync) in [
        ("create", &created[..], true),
        ("stat", &read, false),
        ("del", &[OpKind::Delete], true),
    ] {
        let phase = format!("{prefix}_{phase}");
        let mut ops = trace.phase(&phase);
        if has_sync {
            assert_eq!(
                ops.pop().map(|op| op.kind),
                Some(OpKind::SyncAll),
                "{phase}"
            );
        }
        let turns = ops.chunks(kinds.len());
        for turn in turns.clone() {
            let found: Vec<OpKind> = turn.iter().map(|op| op.kind).collect();
            assert_eq!(found, kinds, "{phase}");
            assert!(turn.iter().all(|op| op.file == turn[0].file), "{phase}");
            let data = turn
                .iter()
                .filter(|op| op.kind.is_write() || op.kind.is_read());
            assert!(data.into_iter().all(|op| op.len == 600), "{phase}");
        }
        orders.push(turns.map(|turn| turn[0].file.as_str()).collect());
    }
    assert_eq!(orders[0].len(), 1024);
    if is_shuffled {
        assert!(orders[0] != orders[1] && orders[0] != orders[2], "{prefix}");
    }
    for order in &mut orders {
        order.sort_unstable();
        order.dedup();
    }
    assert_eq!(orders[0].len(), 1024);
    assert!(orders[0] == orders[1] && orders[0] == orders[2], "{prefix}");
}

#[test]
fn bonnie_makes_reads_and_removes_every_small_file_once() {
    let trace = Trace::of("bonnie++ -s 0 -n 1:600:600:2:512", 0, 5000);
    check_files(&trace, "seq", false);
    check_files(&trace, "ran", true);
}

const RECORD: u32 = 16 << 10;

#[test]
fn iozone_goes_over_every_record_of_every_child_in_every_test() {
    let words = "iozone -i 0 -i 1 -i 2 -t 2 -s 256k -r 16k -e -c";
    for child in 0..2 {
        let trace = Trace::of(words, child, 100);
        for (phase, kind) in [
            ("write", OpKind::Write),
            ("rewrite", OpKind::Write),
            ("read", OpKind::Read),
            ("reread", OpKind::Read),
        ] {
            let expect = stream(&[kind], RECORD, (0, 1, 16), &ENDS);
            assert_eq!(trace.blocks(phase), expect, "child {child}, {phase}");
        }
        let file = format!("plimsoll.iozone.{child}");
        assert!(trace.ops.iter().all(|op| op.file == file), "{file}");
    }
}

#[test]
fn iozone_has_one_random_order_for_all_children_tests_and_runs() {
    let words = "iozone -i 2 -t 3 -s 256k -r 16k -e";
    let order = |child, phase, kind, seed| {
        let mut ops = Trace::seeded(words, child, 100, Seed(seed)).blocks(phase);
        // The sync counts; the close comes outside the measured time, as everywhere.
        for last in [OpKind::Close, OpKind::Fsync] {
            assert_eq!(ops.pop(), Some((last, 0, 0)), "{phase}");
        }
        assert!(ops.iter().all(|op| (op.0, op.2) == (kind, RECORD)));
        ops.iter().map(|op| op.1).collect::<Vec<u64>>()
    };
    let first = order(0, "random_read", OpKind::Read, 1);
    for (child, seed) in [(0, 2), (1, 1), (2, 3)] {
        assert_eq!(order(child, "random_read", OpKind::Read, seed), first);
        assert_eq!(order(child, "random_write", OpKind::Write, seed), first);
    }
    let records: Vec<u64> = (0..16).map(|record| record * u64::from(RECORD)).collect();
    assert_ne!(first, records, "no random order");
    let mut sorted = first;
    sorted.sort_unstable();
    assert_eq!(sorted, records, "each record once");
}

#[test]
fn the_transfers_of_ior_hard_alternate_in_one_file() {
    for worker in 0..3 {
        let trace = Trace::of("ior-hard,s=10,workers=3", worker, 100);
        let turns = (u64::from(worker), 3, 10);
        for (phase, kind, ends) in [
            ("write", OpKind::Write, &ENDS[..]),
            ("read", OpKind::Read, &ENDS[1..]),
        ] {
            let expect = stream(&[kind], 47_008, turns, ends);
            assert_eq!(trace.blocks(phase), expect, "worker {worker}, {phase}");
        }
        assert!(trace.ops.iter().all(|op| op.file == "plimsoll.ior"));
    }
}

#[test]
fn the_regions_of_a_cell_of_sgpdd_are_streams_in_parts_of_the_target() {
    let words = "sgpdd-survey,size=1,rszlo=64,rszhi=64,crglo=2,crghi=2,thrlo=4,thrhi=4";
    for region in 0..2 {
        let trace = Trace::of(words, region, 100);
        for (action, kind) in [("write", OpKind::Write), ("read", OpKind::Read)] {
            let expect = stream(&[kind], CHUNK, (8 * u64::from(region), 1, 8), &[]);
            let phase = format!("rsz=64K crg=2 thr=4 {action}");
            assert_eq!(trace.blocks(&phase), expect, "region {region}, {phase}");
        }
    }
}

#[test]
fn sysbench_mixes_three_reads_with_two_writes_and_syncs() {
    let words = "sysbench-fileio,file-test-mode=rndrw,file-total-size=1m,events=2000,time=0";
    let mut ops = Trace::of(words, 0, 10_000).blocks("rndrw");
    assert_eq!(ops.pop(), Some((OpKind::Fsync, 0, 0)), "the one at the end");
    let (mut reads, mut writes) = (0, 0);
    for (place, (kind, offset, bytes)) in ops.iter().enumerate() {
        if *kind == OpKind::Fsync {
            // One in a hundred operations in the original, which is one in forty writes.
            assert!(ops[place - 1].0 == OpKind::Write && writes % 40 == 0);
            continue;
        }
        assert_eq!((*bytes, offset % u64::from(RECORD)), (RECORD, 0));
        assert!(*offset < 1 << 20);
        match kind {
            OpKind::Read => reads += 1,
            OpKind::Write => writes += 1,
            other => panic!("{other} in a random mix"),
        }
    }
    assert_eq!(reads + writes, 2000);
    let syncs = ops.iter().filter(|op| op.0 == OpKind::Fsync).count();
    assert_eq!(syncs, writes / 40);
    // Five standard deviations on either side.
    assert!((690..=910).contains(&writes), "{writes}");
}
