// SPDX-License-Identifier: Apache-2.0
//! Exported job files, and their import by our own reader.

use super::*;
use crate::fio::job;
use plimsoll_core::offsets::OffsetZone;
use plimsoll_core::workload::blocks::BlockIoWorkload;

fn exported(group: BlockIoGroup) -> Result<FioJobExport, ClassicsError> {
    let blocks = BlockIoWorkload {
        name: "w".into(),
        groups: vec![group],
    };
    export(&Workload::Blocks(blocks), Nanos::SECOND)
}

fn mixed(weights: [f64; 2]) -> Vec<BlockIoMixEntry> {
    let turn = |kind, weight| BlockIoMixEntry {
        weight,
        ..BlockIoMixEntry::of(kind, 4096)
    };
    vec![
        turn(BlockIoOpKind::Read, weights[0]),
        turn(BlockIoOpKind::Write, weights[1]),
    ]
}

#[test]
fn groups_become_the_options_that_say_the_same() {
    let plain = BlockIoGroup::default;
    let at = |offsets| BlockIoGroup { offsets, ..plain() };
    let zone = |access, size| OffsetZone { access, size };
    let hot = OffsetPattern::Zones(vec![zone(9.0, 1.0), zone(1.0, 9.0)]);
    let strided = OffsetPattern::Strided {
        stride_bytes: 16_384,
    };
    let pace = BlockIoPacing::Open(ArrivalProcess::Paced { per_s: 1_000.0 });
    let paced = BlockIoGroup { pace, ..plain() };
    let both = BlockIoGroup {
        mix: mixed([0.9, 0.1]),
        ..paced.clone()
    };
    let mix = mixed([70.0, 30.0]);
    for (group, expect) in [
        (
            plain(),
            "rw=randread\nnorandommap=1\nbs=4096\nfilename=data\nsize=1073741824\n",
        ),
        (at(OffsetPattern::Runs { blocks: 8 }), "rw=randread:8\n"),
        (at(strided), "rw=read:12288\n"),
        (at(hot), "random_distribution=zoned:90/10:10/90\n"),
        (
            BlockIoGroup { mix, ..plain() },
            "rw=randrw\nnorandommap=1\nrwmixread=70\n",
        ),
        (paced, "rate_iops=1000\n"),
        (both, "rate_iops=900\n"),
        (
            BlockIoGroup {
                depth: 8,
                ..plain()
            },
            "ioengine=io_uring\niodepth=8\niodepth_batch_submit=8\ndirect=1\n",
        ),
        (
            BlockIoGroup {
                work: BlockIoStopCondition::Each(16),
                ..plain()
            },
            "io_size=65536\n",
        ),
    ] {
        let text = exported(group).unwrap().text;
        assert!(text.contains(expect), "{expect}\n---\n{text}");
    }
}

#[test]
fn what_fio_cannot_do_is_refused() {
    let open = |arrival| BlockIoGroup {
        pace: BlockIoPacing::Open(arrival),
        ..BlockIoGroup::default()
    };
    for (group, word) in [
        (
            BlockIoGroup {
                offsets: OffsetPattern::Zipf { exponent: 1.1 },
                ..BlockIoGroup::default()
            },
            "1991",
        ),
        (
            BlockIoGroup {
                offsets: OffsetPattern::Backward,
                ..BlockIoGroup::default()
            },
            "backward",
        ),
        (
            open(ArrivalProcess::Poisson { per_s: 30_000.0 }),
            "more workers",
        ),
        (
            open(ArrivalProcess::Batch {
                per_s: 1.0,
                size: 2,
            }),
            "arrivals",
        ),
        (open(ArrivalProcess::Trace(Vec::new())), "read_iolog"),
        (
            BlockIoGroup {
                mix: vec![BlockIoMixEntry::of(BlockIoOpKind::Update, 512)],
                ..BlockIoGroup::default()
            },
            "write back",
        ),
        (
            BlockIoGroup {
                work: BlockIoStopCondition::Together(9),
                ..BlockIoGroup::default()
            },
            "together",
        ),
        (
            BlockIoGroup {
                depth: 2,
                pace: BlockIoPacing::Closed {
                    think: Nanos(5),
                    every: 1,
                    drains: false,
                },
                ..BlockIoGroup::default()
            },
            "think",
        ),
    ] {
        let error = exported(group).unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
}

#[test]
fn no_name_becomes_a_line_that_fio_obeys() {
    let wild = "data\nexec_prerun=touch pwned";
    let mut group = BlockIoGroup {
        mix: mixed([1.0, 1.0]),
        ..BlockIoGroup::default()
    };
    group.extent.file = wild.into();
    let error = exported(group.clone()).unwrap_err().to_string();
    assert!(error.contains("control character"), "{error}");
    // In headings and comments it is one line.
    group.extent.file = "data".into();
    group.name = format!("{wild}]\r\nexec_postrun=x");
    group.mix = mixed([2.0, 1.0]);
    let file = exported(group).unwrap();
    assert!(!file.losses.is_empty());
    let is_wild = |line: &str| line.starts_with("exec");
    assert!(!file.text.lines().any(is_wild), "{}", file.text);
}

#[test]
fn losses_are_told_in_the_file() {
    for (mix, word) in [
        (mixed([2.0, 1.0]), "share of reads"),
        (mixed([7.0, 3.0]), ""),
    ] {
        let file = exported(BlockIoGroup {
            mix,
            ..BlockIoGroup::default()
        })
        .unwrap();
        assert_eq!(file.losses.is_empty(), word.is_empty(), "{:?}", file.losses);
        assert!(
            file.losses
                .iter()
                .all(|loss| loss.contains(word) && file.text.contains(loss))
        );
    }
}

#[test]
fn what_is_written_is_read_back() {
    let group = BlockIoGroup {
        name: "g".into(),
        workers: 2,
        depth: 4,
        batch: 4,
        mix: mixed([70.0, 30.0]),
        work: BlockIoStopCondition::Pass,
        ..BlockIoGroup::default()
    };
    let text = exported(group.clone()).unwrap().text;
    let Workload::Blocks(blocks) = job("w", &text).unwrap().workload else {
        panic!("no phases were written");
    };
    assert_eq!(blocks.groups, [group]);
}
