// SPDX-License-Identifier: Apache-2.0
//! Where a job played here gives other numbers than fio, printed with each run of it.

use plimsoll_core::num::ratio;
use plimsoll_core::offsets::OffsetPattern;
use plimsoll_core::units;
use plimsoll_core::workload::blocks::{
    ArrivalProcess, BlockIoFileCreation, BlockIoGroup, BlockIoMixEntry, BlockIoOffsetSharing,
    BlockIoOpKind, BlockIoPacing,
};

use super::options::FioSectionOptions;
use super::sizes::mean_bytes;
use crate::error::ClassicsError;

/// Above this rate of one job fio's Poisson process is noticeably too fast.
const POISSON_MAX_PER_S: f64 = 20_000.0;

/// The differences of a job, one sentence each.
pub(super) fn differences(
    options: FioSectionOptions<'_>,
    group: &BlockIoGroup,
) -> Result<Vec<String>, ClassicsError> {
    let mut notes = Vec::new();
    let has = |kind| group.mix.iter().any(|turn| turn.kind == kind);
    let (reads, writes) = (has(BlockIoOpKind::Read), has(BlockIoOpKind::Write));
    if let Some(option) = options.find("directory") {
        notes.push(format!(
            "directory={} is ignored: the job runs on the target of the command line",
            option.value
        ));
    }
    places(options, group, reads && writes, &mut notes)?;
    paces(options, group, &mut notes)?;
    if reads && writes && group.syncs.every > 0 {
        let each = group.syncs.every;
        notes.push(format!(
            "one sync follows every {each} writes; fio up to about 3.33 syncs again after each read until the next write, so it does more syncs and fewer transfers (fio 3.42 is as here)"
        ));
    }
    if writes {
        contents(options, group, reads, &mut notes)?;
    }
    if has(BlockIoOpKind::Discard) {
        notes.push(
            "fio trims devices only and fails on files; here a trim of a file punches a hole"
                .into(),
        );
    }
    if options.find("ioengine").is_some_and(|o| o.value == "null") {
        notes.push("ioengine=null: fio moves nothing; here the target says where the operations go, and the target 'null' moves nothing".into());
    }
    Ok(notes)
}

fn places(
    options: FioSectionOptions<'_>,
    group: &BlockIoGroup,
    both: bool,
    notes: &mut Vec<String>,
) -> Result<(), ClassicsError> {
    match group.offsets {
        OffsetPattern::Zipf { .. } => notes.push(
            "zipf reaches every block of the file with its share; fio's generator reaches only a few percent of the blocks of a large file, so that more of them stay in caches".into(),
        ),
        OffsetPattern::Runs { .. } if !options.flag("norandommap", false)? => notes.push(
            "runs begin at places drawn with replacement; fio passes over blocks that it has reached before".into(),
        ),
        OffsetPattern::Backward => notes.push(
            "the file is read from its last block to its first; fio begins with the first, and then goes back from the last but one".into(),
        ),
        OffsetPattern::Permutation if both && group.positions == BlockIoOffsetSharing::ByKind => {
            let least = |kind| {
                let of_kind = group.mix.iter().filter(|turn: &&BlockIoMixEntry| turn.kind == kind);
                of_kind.map(|turn| turn.bytes).min()
            };
            if least(BlockIoOpKind::Read) != least(BlockIoOpKind::Write) {
                notes.push("the smallest reads and writes differ: fio numbers the blocks of both in one random map, and so ends before all is moved; here each has a map of its own".into());
            }
        }
        _ => {}
    }
    Ok(())
}

fn paces(
    options: FioSectionOptions<'_>,
    group: &BlockIoGroup,
    notes: &mut Vec<String>,
) -> Result<(), ClassicsError> {
    let BlockIoPacing::Open(arrival) = &group.pace else {
        return Ok(());
    };
    notes.push("with a rate, response times count from when an operation was due; fio counts from when it gets to it, so that under overload its times are far shorter".into());
    let each_per_s = |per_s: f64| per_s / f64::from(group.workers.max(1));
    match arrival {
        ArrivalProcess::Poisson { per_s } if each_per_s(*per_s) > POISSON_MAX_PER_S => {
            notes.push("fio cuts Poisson gaps to whole microseconds and is too fast: by 2 % at 30000 a second and job, by 21 % at 150000".into());
        }
        ArrivalProcess::Paced { .. } if options.find("rate_iops").is_some() => {
            for (kind, name) in [
                (BlockIoOpKind::Read, "reads"),
                (BlockIoOpKind::Write, "writes"),
            ] {
                let of_kind = group.mix.iter().filter(|turn| turn.kind == kind);
                let least = of_kind.map(|turn| turn.bytes).min().unwrap_or(0);
                let mean = mean_bytes(&group.mix, Some(kind));
                let share = ratio(f64::from(least), mean);
                if share > 0.0 && share < 0.995 {
                    notes.push(format!(
                        "rate_iops counts {name} of any size, as in fio 3.42; fio up to about 3.33 counts blocks of the smallest, {}, and does {:.0} % of these operations",
                        units::size(f64::from(least)),
                        share * 100.0
                    ));
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn contents(
    options: FioSectionOptions<'_>,
    group: &BlockIoGroup,
    reads: bool,
    notes: &mut Vec<String>,
) -> Result<(), ClassicsError> {
    let is_new =
        options.flag("refill_buffers", false)? || options.flag("scramble_buffers", true)?;
    if !is_new {
        notes.push("every block is written with new bytes; fio with scramble_buffers=0 writes the same again, which storage may compress or deduplicate away".into());
    }
    if !reads && !options.flag("overwrite", false)? {
        notes.push(match group.extent.made {
            BlockIoFileCreation::During => "the file grows from nothing; fio reserves its blocks first: overwrite=1 makes both write to a file that is there".into(),
            _ => "the file is laid out before; fio only reserves its blocks, and the first write to each then costs the file system more: overwrite=1 makes both alike".into(),
        });
    }
    Ok(())
}
