// SPDX-License-Identifier: Apache-2.0
//! Sizes of a job by direction, with their shares, as the turns of its mix.

use plimsoll_core::num::{ratio, saturating_u32};
use plimsoll_core::workload::blocks::{BlockIoMixEntry, BlockIoOpKind};

use super::options::FioSectionOptions;
use super::section::{FioAccessPattern, kinds};
use super::value;
use crate::error::ClassicsError;

/// Largest block.
const BLOCK_MAX: u64 = 256 << 20;

/// Mix of operations by size, in the order reads, writes, trims.
pub(super) fn mix(
    options: FioSectionOptions<'_>,
    access: FioAccessPattern,
) -> Result<Vec<BlockIoMixEntry>, ClassicsError> {
    let percent = |name| options.value(name, |text| value::count(text, 0, 100));
    let read_percent = match (percent("rwmixread")?, percent("rwmixwrite")?) {
        (Some(read), _) => read,
        (None, Some(write)) => 100 - write,
        (None, None) => 50,
    };
    let mut mix = Vec::new();
    for (kind, at) in kinds(access) {
        let share = match kind {
            _ if !(access.read && access.write) => 100,
            BlockIoOpKind::Read => read_percent,
            _ => 100 - read_percent,
        };
        let (name, sizes) = sizes(options, at);
        let sizes = sizes.map_err(|reason| options.wrong(name, &reason))?;
        if let Some((bytes, _)) = sizes.iter().find(|(b, _)| *b == 0 || *b > BLOCK_MAX) {
            let reason = format!("blocks have from 1 byte to 256 MiB, not {bytes} bytes");
            return Err(options.wrong(name, &reason));
        }
        for (bytes, percent) in whole_blocks(&sizes) {
            let weight = share as f64 * percent / 100.0;
            if weight > 0.0 {
                mix.push(BlockIoMixEntry {
                    kind,
                    bytes: saturating_u32(bytes),
                    weight,
                });
            }
        }
    }
    check_alignment(options, access, &mix)?;
    Ok(mix)
}

/// Sizes with their shares in percent.
type Shares = Vec<(u64, f64)>;

/// The sizes of direction `at`, and the option that says so.
fn sizes(options: FioSectionOptions<'_>, at: usize) -> (&'static str, Result<Shares, String>) {
    let own = |text| value::by_direction(text, at);
    if let Some(option) = options.find("bssplit") {
        return ("bssplit", value::split(own(&option.value)));
    }
    // Of bs and bsrange the one that stands last counts.
    let last = |name| options.find(name).map(|option| option.line);
    match options.find("bsrange") {
        Some(option) if last("bs") < Some(option.line) => {
            ("bsrange", value::range(own(&option.value)))
        }
        _ => {
            let size = value::size(own(options.text("bs", "4k")));
            ("bs", size.map(|bytes| vec![(bytes, 100.0)]))
        }
    }
}

/// fio cuts each size to a multiple of the smallest.
fn whole_blocks(sizes: &[(u64, f64)]) -> Shares {
    let smallest = sizes.iter().map(|(bytes, _)| *bytes).min().unwrap_or(1);
    let mut whole = Shares::new();
    for (bytes, percent) in sizes {
        let bytes = bytes / smallest * smallest;
        match whole.iter_mut().find(|(known, _)| *known == bytes) {
            Some((_, all)) => *all += percent,
            None => whole.push((bytes, *percent)),
        }
    }
    whole
}

/// `blockalign` may say what holds without it: offsets are multiples of the smallest size.
fn check_alignment(
    options: FioSectionOptions<'_>,
    access: FioAccessPattern,
    mix: &[BlockIoMixEntry],
) -> Result<(), ClassicsError> {
    let Some(option) = options.find("blockalign") else {
        return Ok(());
    };
    for (kind, at) in kinds(access) {
        let asked = value::size(value::by_direction(&option.value, at));
        let asked = asked.map_err(|reason| option.wrong(reason))?;
        let of_kind = mix.iter().filter(|turn| turn.kind == kind);
        let smallest = of_kind.map(|turn| turn.bytes).min();
        if smallest.is_some_and(|bytes| u64::from(bytes) != asked) {
            return Err(option.wrong(
                "offsets here are multiples of the smallest block of their direction, which is what fio does without this option; take the line out",
            ));
        }
    }
    Ok(())
}

/// Mean bytes of a turn of this kind, or of all.
pub(super) fn mean_bytes(mix: &[BlockIoMixEntry], kind: Option<BlockIoOpKind>) -> f64 {
    let of = mix
        .iter()
        .filter(|turn| kind.is_none_or(|kind| turn.kind == kind));
    let (sum, weight) = of.fold((0.0, 0.0), |(sum, weight), turn| {
        (
            sum + f64::from(turn.bytes) * turn.weight,
            weight + turn.weight,
        )
    });
    ratio(sum, weight)
}
