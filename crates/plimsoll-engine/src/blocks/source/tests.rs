// SPDX-License-Identifier: Apache-2.0
//! Steps of a worker, one by one: no engine, no clock.

use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::workload::BlockIoWorkload;
use plimsoll_core::workload::blocks::{
    BlockIoExtent, BlockIoGroup, BlockIoOffsetSharing, BlockIoRegion,
};

use super::*;

const KIB4: u32 = 4096;

fn sources(group: &BlockIoGroup, stonewall: bool) -> Vec<BlockIoSource> {
    let blocks = BlockIoWorkload {
        name: "test".into(),
        groups: vec![group.clone()],
    };
    let common = BlockIoSharedState::new(&blocks, stonewall);
    let posts = super::super::posts(&blocks, (Nanos(0), Nanos(1 << 40)), Seed(1), &common);
    let source = |post: &BlockIoWorkerContext<'_>| BlockIoSource::new(post, group.depth);
    posts.iter().map(source).collect()
}

fn group(change: impl FnOnce(&mut BlockIoGroup)) -> BlockIoGroup {
    let mut group = BlockIoGroup {
        extent: BlockIoExtent {
            bytes: 64 * u64::from(KIB4),
            ..BlockIoExtent::default()
        },
        work: BlockIoStopCondition::Pass,
        offsets: OffsetPattern::Sequential,
        ..BlockIoGroup::default()
    };
    change(&mut group);
    group
}

/// Carries out what the source asks for in slot 0, each operation in 10 ns, until it has nothing
/// more; at most `most` operations. The requests, and whether they were counted.
fn play(source: &mut BlockIoSource, now: &mut Nanos, most: usize) -> Vec<(OpRequest, bool)> {
    let mut done = Vec::new();
    while done.len() < most {
        match source.next(*now, 0).unwrap() {
            NextRequest::Request(request) => {
                assert!(request.intended_at <= *now);
                let counted = source.is_counted(0);
                let submitted_at = *now;
                *now = *now + Nanos(10);
                let sample = OpSample {
                    request,
                    submitted_at,
                    completed_at: *now,
                    result: Ok(request.len.into()),
                };
                source.completed(0, &sample);
                done.push((request, counted));
            }
            NextRequest::Until(at) => *now = at.max(*now),
            NextRequest::End => break,
            other => panic!("{other:?}"),
        }
    }
    done
}

fn kinds(done: &[(OpRequest, bool)]) -> Vec<OpKind> {
    done.iter().map(|(request, _)| request.kind).collect()
}

#[test]
fn an_update_reads_and_writes_the_same_block_and_counts_once() {
    let group = group(|g| g.mix = vec![BlockIoMixEntry::of(BlockIoOpKind::Update, KIB4)]);
    let mut source = sources(&group, false).remove(0);
    let done = play(&mut source, &mut Nanos(0), 1_000);
    assert_eq!(done.len(), 128);
    for (i, pair) in done.chunks(2).enumerate() {
        assert_eq!(kinds(pair), [OpKind::Read, OpKind::Write]);
        assert_eq!(pair[0].0.offset, i as u64 * u64::from(KIB4));
        assert_eq!(pair[0].0.offset, pair[1].0.offset);
        // The write is meant to start when the read has ended.
        assert_eq!(pair[1].0.intended_at, pair[0].0.intended_at + Nanos(10));
    }
    let result = source.result();
    assert_eq!((result.ops, result.bytes), (64, 64 * u64::from(KIB4)));
    assert_eq!((result.began, result.ended), (Nanos(0), Nanos(1_280)));
}

#[test]
fn what_could_not_be_read_is_not_written() {
    let group = group(|g| g.mix = vec![BlockIoMixEntry::of(BlockIoOpKind::Update, KIB4)]);
    let mut source = sources(&group, false).remove(0);
    let NextRequest::Request(request) = source.next(Nanos(0), 0).unwrap() else {
        panic!("a pass begins with a request");
    };
    let sample = OpSample {
        request,
        submitted_at: Nanos(0),
        completed_at: Nanos(5),
        result: Err(5),
    };
    source.completed(0, &sample);
    assert!(!source.goes_on(0));
    let next = play(&mut source, &mut Nanos(5), 1)[0].0;
    assert_eq!((next.kind, next.offset), (OpKind::Read, u64::from(KIB4)));
}

#[test]
fn a_sync_follows_every_so_many_writes_and_the_end_is_finished() {
    for (with, kind) in [
        (SyncKind::Fsync, OpKind::Fsync),
        (SyncKind::Fdatasync, OpKind::Fdatasync),
        (SyncKind::SyncRange, OpKind::SyncRange),
    ] {
        let group = group(|g| {
            g.mix = vec![BlockIoMixEntry::of(BlockIoOpKind::Write, KIB4)];
            g.work = BlockIoStopCondition::Each(7);
            (g.syncs.every, g.syncs.with) = (3, with);
            g.finish = vec![BlockIoFinalOp::Fsync, BlockIoFinalOp::Close];
        });
        let mut source = sources(&group, false).remove(0);
        let w = OpKind::Write;
        let done = play(&mut source, &mut Nanos(0), 100);
        let expect = [
            w,
            w,
            w,
            kind,
            w,
            w,
            w,
            kind,
            w,
            OpKind::Fsync,
            OpKind::Close,
        ];
        assert_eq!(kinds(&done), expect);
        for (request, _) in done.iter().filter(|(r, _)| r.kind != w) {
            assert_eq!((request.offset, request.len), (0, 0));
        }
        let result = source.result();
        assert_eq!((result.ops, result.bytes), (7, 7 * u64::from(KIB4)));
        assert_eq!(result.ended, Nanos(110), "what finishes is in its time");
    }
}

#[test]
fn a_pass_covers_every_block_of_every_region_once() {
    for (offsets, region, workers) in [
        (OffsetPattern::Sequential, BlockIoRegion::Part, 4u32),
        (OffsetPattern::Backward, BlockIoRegion::Part, 3),
        (OffsetPattern::Permutation, BlockIoRegion::Whole, 2),
        (
            OffsetPattern::FixedPermutation { seed: 0 },
            BlockIoRegion::Whole,
            2,
        ),
        (OffsetPattern::Interleaved, BlockIoRegion::Whole, 5),
    ] {
        let group = group(|g| {
            g.workers = workers;
            g.offsets = offsets.clone();
            g.extent.region = region;
        });
        let mut all = Vec::new();
        for mut source in sources(&group, false) {
            let done = play(&mut source, &mut Nanos(0), 10_000);
            let blocks = done.iter().map(|(r, _)| r.offset / u64::from(KIB4));
            let mut blocks: Vec<u64> = blocks.collect();
            blocks.sort_unstable();
            let n = blocks.len();
            blocks.dedup();
            assert_eq!(blocks.len(), n, "{offsets:?}: a block came twice");
            all.extend(blocks);
        }
        all.sort_unstable();
        let is_permutation = matches!(
            offsets,
            OffsetPattern::Permutation | OffsetPattern::FixedPermutation { .. }
        );
        let times = if is_permutation { 2 } else { 1 };
        let covered = u64::from(64 / workers * workers);
        let covered = if region == BlockIoRegion::Part {
            covered
        } else {
            64
        };
        let expect = (0..covered).flat_map(|block| vec![block; times]);
        assert!(all.into_iter().eq(expect), "{offsets:?}");
    }
}

#[test]
fn workers_share_their_tickets_to_the_last_one() {
    let group = group(|g| {
        g.workers = 3;
        g.work = BlockIoStopCondition::Together(50);
    });
    let mut sources = sources(&group, false);
    let mut now = Nanos(0);
    let mut counts = vec![0; 3];
    // In turn, as long as one has something to do.
    loop {
        let mut any = false;
        for (source, count) in sources.iter_mut().zip(&mut counts) {
            let n = play(source, &mut now, 1).len();
            *count += n;
            any |= n > 0;
        }
        if !any {
            break;
        }
    }
    assert_eq!(counts, [17, 17, 16]);
}

#[test]
fn turns_come_with_their_weights_and_sizes() {
    let turn = |kind, bytes, weight| BlockIoMixEntry {
        kind,
        bytes,
        weight,
    };
    let group = group(|g| {
        g.work = BlockIoStopCondition::Each(100_000);
        g.offsets = OffsetPattern::Uniform;
        g.mix = vec![
            turn(BlockIoOpKind::Read, 4096, 6.0),
            turn(BlockIoOpKind::Read, 65_536, 1.0),
            turn(BlockIoOpKind::Write, 8192, 2.0),
            turn(BlockIoOpKind::Discard, 4096, 1.0),
        ];
    });
    let mut source = sources(&group, false).remove(0);
    let done = play(&mut source, &mut Nanos(0), 100_000);
    for (kind, bytes, share) in [
        (OpKind::Read, 4096, 0.6),
        (OpKind::Read, 65_536, 0.1),
        (OpKind::Write, 8192, 0.2),
        (OpKind::Discard, 4096, 0.1),
    ] {
        let alike = |(r, _): &&(OpRequest, bool)| (r.kind, r.len) == (kind, bytes);
        let found = done.iter().filter(alike).count() as f64 / 1e5;
        // Standard deviation at most 0.0016.
        assert!((found - share).abs() < 0.008, "{kind} {bytes}: {found}");
    }
    let aligned = |(r, _): &(OpRequest, bool)| r.offset.is_multiple_of(r.len.into());
    assert!(done.iter().all(aligned));
}

#[test]
fn thinking_comes_after_every_so_many_turns_of_a_slot() {
    let group = group(|g| {
        g.pace = BlockIoPacing::Closed {
            think: Nanos(1_000),
            every: 2,
            drains: false,
        };
        g.delay = Nanos(500);
        g.work = BlockIoStopCondition::Each(5);
    });
    let mut source = sources(&group, false).remove(0);
    let mut now = Nanos(0);
    let starts: Vec<u64> = play(&mut source, &mut now, 9)
        .iter()
        .map(|(r, _)| r.intended_at.0)
        .collect();
    assert_eq!(starts, [500, 510, 1_520, 1_530, 2_540]);
}

#[test]
fn a_trace_is_dealt_out_and_played_as_it_is() {
    let op = |at, kind, offset, bytes| TraceAccess {
        at: Nanos(at),
        kind,
        offset,
        bytes,
    };
    let group = group(|g| {
        g.workers = 2;
        g.work = BlockIoStopCondition::Time;
        g.pace = BlockIoPacing::Open(ArrivalProcess::Trace(vec![
            op(300, OpKind::Write, 8192, 512),
            op(100, OpKind::Read, 4096, 1024),
            op(200, OpKind::Fsync, 0, 0),
        ]));
    });
    let expect = [
        vec![
            (OpKind::Read, 4096, 1024, 100),
            (OpKind::Write, 8192, 512, 300),
        ],
        vec![(OpKind::Fsync, 0, 0, 200)],
    ];
    for (mut source, expect) in sources(&group, false).into_iter().zip(expect) {
        let done = play(&mut source, &mut Nanos(0), 10);
        let found: Vec<_> = done
            .iter()
            .map(|(r, _)| (r.kind, r.offset, r.len, r.intended_at.0))
            .collect();
        assert_eq!(found, expect);
    }
}

#[test]
fn behind_the_stonewall_the_rest_is_done_uncounted() {
    let group = group(|g| {
        g.workers = 2;
        g.extent.shared = false;
        g.mix = vec![BlockIoMixEntry::of(BlockIoOpKind::Write, KIB4)];
        g.finish = vec![BlockIoFinalOp::Fsync];
    });
    let mut sources = sources(&group, true);
    let (mut slow, mut fast) = (sources.remove(1), sources.remove(0));
    let mut now = Nanos(0);
    assert_eq!(play(&mut slow, &mut now, 20).len(), 20);
    assert_eq!(play(&mut fast, &mut Nanos(0), 1_000).len(), 65);
    let rest = play(&mut slow, &mut now, 1_000);
    assert_eq!(rest.len(), 1 + 44 + 1);
    assert_eq!((rest[0].0.kind, rest[0].1), (OpKind::Fsync, true));
    assert_eq!((rest[45].0.kind, rest[45].1), (OpKind::Fsync, false));
    assert!(rest[1..45].iter().all(|(r, counted)| {
        r.kind == OpKind::Write && !counted && r.offset >= 20 * u64::from(KIB4)
    }));
    assert_eq!(slow.result().ops, 20);
    assert_eq!(slow.result().ended, Nanos(210));
    assert_eq!(fast.result().ops, 64);
}

#[test]
fn the_rest_behind_the_stonewall_is_synced_only_where_that_was_asked_for() {
    let group = group(|g| {
        g.workers = 2;
        g.depth = 2;
        g.extent.shared = false;
        g.mix = vec![BlockIoMixEntry::of(BlockIoOpKind::Write, KIB4)];
        g.finish = vec![BlockIoFinalOp::Close];
    });
    let mut sources = sources(&group, true);
    let (mut slow, mut fast) = (sources.remove(1), sources.remove(0));
    let mut now = Nanos(0);
    play(&mut slow, &mut now, 20);
    play(&mut fast, &mut Nanos(0), 1_000);
    let rest = kinds(&play(&mut slow, &mut now, 1_000));
    assert_eq!(rest.len(), 1 + 44, "{rest:?}");
    assert_eq!(rest[0], OpKind::Close);
    assert!(rest[1..].iter().all(|kind| *kind == OpKind::Write));
}

#[test]
fn where_the_first_breaks_off_the_others_only_after_its_sync_the_rest_stays_undone() {
    let group = group(|g| {
        g.workers = 2;
        g.extent.shared = false;
        g.finish = vec![BlockIoFinalOp::Fsync];
        (g.after, g.breaks_off) = (vec![BlockIoFinalOp::Fsync, BlockIoFinalOp::Close], true);
    });
    let mut all = sources(&group, true);
    let (mut slow, mut first) = (all.remove(1), all.remove(0));
    let mut now = Nanos(0);
    assert_eq!(play(&mut first, &mut now, 64).len(), 64);
    // All its records are through, but it has not synced them.
    assert_eq!(play(&mut slow, &mut now, 10).len(), 10);
    let fsync = play(&mut first, &mut now, 1);
    assert_eq!((kinds(&fsync), fsync[0].1), (vec![OpKind::Fsync], true));
    assert_eq!(play(&mut slow, &mut now, 10).len(), 10);
    let close = play(&mut first, &mut now, 9);
    // The worker does not sync again what it has just synced.
    assert_eq!((kinds(&close), close[0].1), (vec![OpKind::Close], false));
    // Now the other one ends, with its own sync, and does not complete its file.
    let last = play(&mut slow, &mut now, 99);
    assert_eq!(kinds(&last), [OpKind::Fsync, OpKind::Close]);
    assert_eq!([last[0].1, last[1].1], [true, false]);
    assert_eq!(slow.result().ops, 20);
}

#[test]
fn what_comes_after_the_measured_time_is_not_counted_and_then_the_storage_rests() {
    let rest = Nanos(5_000);
    let group = group(|g| {
        g.mix = vec![BlockIoMixEntry::of(BlockIoOpKind::Write, KIB4)];
        g.workers = 2;
        g.extent.shared = false;
        (g.after, g.rest) = (vec![BlockIoFinalOp::Fsync, BlockIoFinalOp::Close], rest);
    });
    let mut all = sources(&group, true);
    let (mut slow, mut first) = (all.remove(1), all.remove(0));
    let mut now = Nanos(0);
    play(&mut slow, &mut now, 3);
    for (source, counted) in [(&mut first, 64), (&mut slow, 3)] {
        let done = play(source, &mut now, 99);
        let (last, work) = done.split_last_chunk::<2>().map(|(a, b)| (b, a)).unwrap();
        assert_eq!(kinds(last), [OpKind::Fsync, OpKind::Close]);
        assert!(last.iter().all(|(_, counted)| !counted));
        // Who was cut short completes the file, uncounted.
        assert_eq!(source.result().ops, counted);
        assert!(
            work.iter()
                .all(|(request, _)| request.kind == OpKind::Write)
        );
    }
    let before = now;
    let mut third = sources(&group, true).remove(0);
    let done = play(&mut third, &mut now, 99).len() as u64;
    assert_eq!(now, before + Nanos(10 * done) + rest);
    assert_eq!(third.result().ended, before + Nanos(10 * 64));
}

#[test]
fn the_workers_of_a_group_share_one_trace() {
    let op = |at| TraceAccess {
        at: Nanos(at),
        kind: OpKind::Read,
        offset: 0,
        bytes: 512,
    };
    let group = group(|g| {
        g.workers = 3;
        g.work = BlockIoStopCondition::Time;
        g.pace = BlockIoPacing::Open(ArrivalProcess::Trace((0..100).rev().map(op).collect()));
    });
    let sources = sources(&group, false);
    let ops = |source: &BlockIoSource| match &source.pace {
        Pacing::Trace { ops, .. } => ops.as_ptr(),
        other => panic!("{other:?}"),
    };
    assert!(sources.iter().all(|s| ops(s) == ops(&sources[0])));
    let mut all: Vec<u64> = Vec::new();
    for mut source in sources {
        let done = play(&mut source, &mut Nanos(0), 1_000);
        all.extend(done.iter().map(|(r, _)| r.intended_at.0));
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..100));
}

#[test]
fn what_an_open_loop_did_not_hand_over_is_counted() {
    let group = group(|g| {
        g.work = BlockIoStopCondition::Time;
        g.pace = BlockIoPacing::Open(ArrivalProcess::Paced { per_s: 1e6 });
    });
    let mut source = sources(&group, false).remove(0);
    let done = play(&mut source, &mut Nanos(0), 10);
    assert_eq!(done[9].0.intended_at, Nanos(9_000));
    // 10 .. 99 of a microsecond each.
    assert_eq!(source.left_before(Nanos(100_000), &mut |_| {}), 90);
}

/// Reads and writes of these sizes, each kind with places of its own.
fn of_sizes(offsets: OffsetPattern, reads: &[u32], writes: &[u32]) -> BlockIoGroup {
    group(|g| {
        let of = |kind| move |bytes: &u32| BlockIoMixEntry::of(kind, *bytes);
        let reads = reads.iter().map(of(BlockIoOpKind::Read));
        g.mix = reads
            .chain(writes.iter().map(of(BlockIoOpKind::Write)))
            .collect();
        g.positions = BlockIoOffsetSharing::ByKind;
        g.offsets = offsets;
        g.work = BlockIoStopCondition::Bytes(g.extent.bytes);
    })
}

#[test]
fn an_operation_may_begin_at_any_of_the_smallest_blocks_of_its_kind() {
    let group = BlockIoGroup {
        work: BlockIoStopCondition::Each(4_000),
        ..of_sizes(OffsetPattern::Uniform, &[512, 16_384], &[4096, 65_536])
    };
    let mut source = sources(&group, false).remove(0);
    let done = play(&mut source, &mut Nanos(0), 10_000);
    let share = |kind, bytes, unit: u64| {
        let of = done.iter().map(|(request, _)| request);
        let of: Vec<_> = of.filter(|r| r.kind == kind && r.len == bytes).collect();
        let aligned = of.iter().filter(|r| r.offset.is_multiple_of(unit));
        aligned.count() as f64 / of.len() as f64
    };
    assert!((share(OpKind::Read, 512, 512) - 1.0).abs() < 1e-9);
    // One in eight, and one in sixteen, not all.
    assert!((0.08..0.18).contains(&share(OpKind::Read, 16_384, 4_096)));
    assert!((share(OpKind::Write, 65_536, 4096) - 1.0).abs() < 1e-9);
    assert!((0.01..0.15).contains(&share(OpKind::Write, 65_536, 65_536)));
    let end = |(request, _): &(OpRequest, bool)| request.offset + u64::from(request.len);
    assert!(done.iter().map(end).max() <= Some(group.extent.bytes));
}

#[test]
fn mixed_sizes_reach_every_block_once_and_are_cut_where_one_was_reached() {
    let group = of_sizes(OffsetPattern::Permutation, &[4096, 16_384], &[4096, 8192]);
    let mut source = sources(&group, false).remove(0);
    let done = play(&mut source, &mut Nanos(0), 10_000);
    let mut reached = vec![0; 64];
    for (request, _) in &done {
        for page in 0..request.len / KIB4 {
            reached[(request.offset / 4096) as usize + page as usize] += 1;
        }
    }
    assert_eq!(reached, vec![1; 64]);
    let sizes: std::collections::BTreeSet<u32> = done.iter().map(|(r, _)| r.len).collect();
    assert!(sizes.len() > 1, "{sizes:?}");
}

#[test]
fn reads_and_writes_in_order_each_go_their_own_way() {
    let group = of_sizes(OffsetPattern::Sequential, &[4096], &[8192]);
    let mut source = sources(&group, false).remove(0);
    let done = play(&mut source, &mut Nanos(0), 10_000);
    for kind in [OpKind::Read, OpKind::Write] {
        let of = done.iter().filter(|(request, _)| request.kind == kind);
        let mut at = 0;
        for (request, _) in of {
            assert_eq!(request.offset, at, "{kind}");
            at = (request.offset + u64::from(request.len)) % group.extent.bytes;
        }
    }
    let bytes: u64 = done.iter().map(|(request, _)| u64::from(request.len)).sum();
    // It begins what it may begin, and no more.
    assert!((group.extent.bytes..group.extent.bytes + 8192).contains(&bytes));
}

#[test]
fn a_pass_begins_when_nothing_of_the_last_is_in_flight() {
    let group = group(|g| {
        (g.depth, g.work) = (2, BlockIoStopCondition::Each(8));
        g.cold_every_bytes = 4 * 4096;
    });
    let source = sources(&group, false).remove(0);
    let mut source = source.with_passes(super::super::BlockIoColdPasses::new(4 * 4096, None));
    let now = Nanos(0);
    let mut begun = Vec::new();
    for slot in [0, 1, 0, 1] {
        let NextRequest::Request(request) = source.next(now, slot).unwrap() else {
            panic!("a turn of the first pass is due");
        };
        begun.push((slot, request));
        if begun.len() == 4 {
            break;
        }
        if begun.len() > 1 {
            end(&mut source, begun[begun.len() - 2], now);
        }
    }
    assert_eq!(source.next(now, 0).unwrap(), NextRequest::Wait);
    end(&mut source, begun[2], Nanos(5));
    end(&mut source, begun[3], Nanos(7));
    assert_eq!(source.next(Nanos(7), 0).unwrap(), NextRequest::Again);
    let NextRequest::Request(request) = source.next(Nanos(9), 0).unwrap() else {
        panic!("the next pass has begun");
    };
    // Its first operation is not late by the time that dropping pages took.
    assert_eq!((request.offset, request.intended_at), (4 * 4096, Nanos(9)));
}

fn end(source: &mut BlockIoSource, (slot, request): (u32, OpRequest), at: Nanos) {
    let sample = OpSample {
        request,
        submitted_at: at,
        completed_at: at,
        result: Ok(request.len.into()),
    };
    source.completed(slot, &sample);
}
