// SPDX-License-Identifier: Apache-2.0
//! Why a state lost something: the fewest dropped writes with which it still does.

use crate::disk::{CrashState, DiskLog, DiskLogEntry, WriteFate};
use crate::error::DurabilityError;

/// Most states that are tried.
const TRIES_MAX: u32 = 32;
/// Writes that are named.
const SHOWN_MAX: usize = 4;

/// The cause of a loss, in words. `is_lossy` judges a state of the same instant.
pub(crate) fn cause(
    log: &DiskLog,
    crash: &CrashState,
    is_lossy: &mut dyn FnMut(&CrashState) -> Result<bool, DurabilityError>,
) -> Result<String, DurabilityError> {
    let all = crash.fates.len();
    let mut damaged: Vec<usize> = (0..all)
        .filter(|at| crash.fates[*at] != WriteFate::Kept)
        .collect();
    let keeping = |damaged: &[usize]| CrashState {
        fates: (0..all)
            .map(|at| match damaged.contains(&at) {
                true => crash.fates[at],
                false => WriteFate::Kept,
            })
            .collect(),
        ..crash.clone()
    };
    if damaged.is_empty() || is_lossy(&keeping(&[]))? {
        return Ok(
            "it was acknowledged before the disk was asked to write it: no write cache could have saved it"
                .into(),
        );
    }
    let mut tries = 1;
    let mut parts = 2;
    // Delta debugging (Zeller): leave out one part after another, in ever smaller parts.
    while damaged.len() > 1 && tries < TRIES_MAX {
        let length = damaged.len().div_ceil(parts);
        let mut is_smaller = false;
        for begin in (0..damaged.len()).step_by(length) {
            let end = (begin + length).min(damaged.len());
            let rest = [&damaged[..begin], &damaged[end..]].concat();
            tries += 1;
            if !rest.is_empty() && is_lossy(&keeping(&rest))? {
                damaged = rest;
                parts = parts.saturating_sub(1).max(2);
                is_smaller = true;
                break;
            }
            if tries >= TRIES_MAX {
                break;
            }
        }
        if !is_smaller && length == 1 {
            break;
        }
        if !is_smaller {
            parts = (parts * 2).min(damaged.len());
        }
    }
    Ok(in_words(log, crash, &damaged))
}

fn in_words(log: &DiskLog, crash: &CrashState, damaged: &[usize]) -> String {
    let one = |at: &usize| {
        let entry: &DiskLogEntry = &log.entries[crash.durable_until + at];
        format!("{} bytes at {}", entry.bytes, entry.offset)
    };
    let shown: Vec<String> = damaged.iter().take(SHOWN_MAX).map(one).collect();
    let more = match damaged.len() > SHOWN_MAX {
        true => ", …",
        false => "",
    };
    let writes = match damaged.len() {
        1 => "1 completed write".to_owned(),
        n => format!("{n} completed writes"),
    };
    format!(
        "{writes} of {} since the last flush that did not reach the medium are enough for a loss: {}{more}",
        crash.fates.len(),
        shown.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::DiskLogKind;
    use plimsoll_core::units::Nanos;

    fn log(writes: u64) -> DiskLog {
        let entry = |n| DiskLogEntry {
            kind: DiskLogKind::Write { data_at: n * 512 },
            offset: n * 4096,
            bytes: 512,
            fua: false,
            at: Nanos(n),
        };
        DiskLog {
            entries: (0..writes).map(entry).collect(),
            data: tempfile::tempfile().unwrap(),
            part_bytes: u64::MAX,
        }
    }

    fn crash(writes: usize) -> CrashState {
        CrashState {
            position: writes,
            durable_until: 0,
            fates: vec![WriteFate::Dropped; writes],
        }
    }

    #[test]
    fn the_one_write_that_matters_is_found_among_many() {
        let words = cause(&log(40), &crash(40), &mut |state| {
            Ok(state.fates[17] == WriteFate::Dropped)
        });
        let words = words.unwrap();
        assert!(words.starts_with("1 completed write of 40"), "{words}");
        assert!(words.ends_with("512 bytes at 69632"), "{words}");
    }

    #[test]
    fn two_that_matter_together_are_both_named() {
        let words = cause(&log(8), &crash(8), &mut |state| {
            Ok([1, 6]
                .iter()
                .all(|at| state.fates[*at] == WriteFate::Dropped))
        });
        let words = words.unwrap();
        assert!(words.starts_with("2 completed writes of 8"), "{words}");
    }

    #[test]
    fn what_was_never_written_is_told_as_that() {
        let words = cause(&log(8), &crash(8), &mut |_| Ok(true)).unwrap();
        assert!(words.contains("before the disk was asked"), "{words}");
    }
}
