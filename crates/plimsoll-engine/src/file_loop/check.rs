// SPDX-License-Identifier: Apache-2.0
//! Whether a loop of file operations makes sense and stays within what can be run.

use plimsoll_core::units::size;
use plimsoll_core::workload::FileLoop;
use plimsoll_core::workload::files::{FileOp, Sizes};

use crate::error::Error;

/// Limits of a loop that may come from a file written by hand: beyond them the generator, not the
/// target, would be measured, or memory would run out.
const THREADS_MAX: u32 = 1024;
const ENTRIES_MAX: u32 = 10_000_000;
const BUFFERS_MAX: u64 = 1 << 30;
/// Here all files have the same size to a thousandth.
const SHAPE_MAX: f64 = 1e6;

/// Checks that the list of a loop makes sense: it names operations on an open file only where one
/// is open, ends with none open, and fits the set.
///
/// # Errors
/// A sentence about the first operation that does not fit.
pub fn check(files: &FileLoop) -> Result<(), Error> {
    let ops: Vec<FileOp> = files.groups[0].ops.iter().map(|op| op.op).collect();
    let set = &files.sets[0];
    let fault = |what: String| Err(Error::Workload(format!("'{}': {what}", files.name)));
    if files.threads() == 0 || ops.is_empty() || set.entries == 0 {
        return fault("it needs a thread, an operation and a file".into());
    }
    // Comparisons with NaN are false, so it is in no range.
    if let Sizes::Gamma(shape) = set.sizes
        && !(1.0..=SHAPE_MAX).contains(&shape)
    {
        return fault("the gamma shape of file sizes must be within 1 and 1000000".into());
    }
    if !(0.0..=1.0).contains(&set.prealloc) {
        return fault("the share of files that exist before the run is not within 0 and 1".into());
    }
    if files.threads() > THREADS_MAX || set.entries > ENTRIES_MAX {
        return fault(format!(
            "it may have at most {THREADS_MAX} threads and {ENTRIES_MAX} files"
        ));
    }
    let buffers = u64::from(files.threads()) * u64::from(len_max(&ops));
    if buffers > BUFFERS_MAX {
        return fault(format!(
            "its threads need {} for buffers, more than {}; use fewer threads or smaller pieces",
            size(buffers as f64),
            size(BUFFERS_MAX as f64)
        ));
    }
    let mut open = false;
    for (index, op) in ops.iter().enumerate() {
        let place = index + 1;
        match op {
            FileOp::Create | FileOp::Open if open => {
                return fault(format!("operation {place} opens a second file"));
            }
            FileOp::Create | FileOp::Open => open = true,
            FileOp::Delete | FileOp::Stat if open => {
                return fault(format!(
                    "operation {place} needs the open file closed before it"
                ));
            }
            FileOp::Delete | FileOp::Stat => {}
            FileOp::AppendRandom { .. } | FileOp::Fsync | FileOp::ReadWhole { .. } if open => {}
            FileOp::Close if open => open = false,
            _ => return fault(format!("operation {place} needs an open file")),
        }
    }
    if open {
        return fault("the last operation leaves a file open; add a close".into());
    }
    Ok(())
}

/// The largest buffer an operation of the list needs.
#[must_use]
pub fn len_max(ops: &[FileOp]) -> u32 {
    let len = |op: &FileOp| match op {
        FileOp::AppendRandom { bytes } => *bytes,
        FileOp::ReadWhole { piece_bytes } => *piece_bytes,
        _ => 0,
    };
    ops.iter().map(len).max().unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_make_no_sense_are_refused_with_the_place() {
        assert!(check(&FileLoop::varmail()).is_ok());
        let with = |ops: &[FileOp]| FileLoop {
            ops: ops.to_vec(),
            ..FileLoop::varmail()
        };
        for (ops, expect) in [
            (&[FileOp::Fsync][..], "operation 1 needs an open file"),
            (
                &[FileOp::Open, FileOp::Create],
                "operation 2 opens a second",
            ),
            (&[FileOp::Open], "leaves a file open"),
            (
                &[FileOp::Open, FileOp::Delete],
                "operation 2 needs the open",
            ),
            (&[], "it needs a thread"),
        ] {
            let error = check(&with(ops)).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        }
    }
}
