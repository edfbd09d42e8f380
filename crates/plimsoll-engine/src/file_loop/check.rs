// SPDX-License-Identifier: Apache-2.0
//! Whether a loop of file operations makes sense and stays within what can be run.

use std::collections::BTreeMap;

use plimsoll_core::units::size;
use plimsoll_core::workload::FileLoop;
use plimsoll_core::workload::files::{
    FileLoopGroup, FileLoopOp, FileLoopOpenMode, FileLoopSelection, FileOp, FileSet,
    FileSizeDistribution, FileTreeLayout,
};

use super::signals::stuck;
use crate::error::EngineError;

/// Limits of a loop that may come from a file written by hand: beyond them the generator, not the
/// target, would be measured, or memory would run out.
const THREADS_MAX: u32 = 1024;
const ENTRIES_MAX: u64 = 10_000_000;
const DIRECTORIES_MAX: u32 = 1_000_000;
const BUFFERS_MAX: u64 = 1 << 30;
const FDS_MAX: u32 = 64;
const ROTATING_MAX: u32 = 256;
const SIGNALS_MAX: u32 = 16;
const REPEAT_MAX: u32 = 1_000_000;
/// Here all files have the same size to a thousandth.
const SHAPE_MAX: f64 = 1e6;
/// Checks that the lists of a loop make sense: they name operations on an open file only where one
/// is open, end with none open, and fit the sets. Where they bypass the page cache, their sizes must
/// be multiples of `align` bytes.
///
/// # Errors
/// A sentence about the first thing that does not fit.
pub fn check(files: &FileLoop, align: u32) -> Result<(), EngineError> {
    found_in(files, align)
        .map_err(|what| EngineError::Workload(format!("'{}': {what}", files.name)))
}

fn found_in(files: &FileLoop, align: u32) -> Result<(), String> {
    if files.threads() == 0 || files.sets.is_empty() {
        return Err("it needs a thread, an operation and a file".into());
    }
    let mut entries = 0;
    for (index, set) in files.sets.iter().enumerate() {
        check_set(set)?;
        entries += u64::from(set.entries);
        if files.sets[..index]
            .iter()
            .any(|other| other.name == set.name)
        {
            return Err(format!("two sets are called '{}'", set.name));
        }
    }
    if files.threads() > THREADS_MAX || entries > ENTRIES_MAX {
        return Err(format!(
            "it may have at most {THREADS_MAX} threads and {ENTRIES_MAX} files"
        ));
    }
    // Comparisons with NaN are false, so it is in no range.
    if files
        .events_per_s
        .is_some_and(|rate| !(1e-3..=1e9).contains(&rate))
    {
        return Err("the rate of events must be within 0.001 and 1000000000 a second".into());
    }
    let buffers = files
        .groups
        .iter()
        .map(|group| u64::from(group.threads) * u64::from(len_max(group)));
    let buffers: u64 = buffers.sum();
    if buffers > BUFFERS_MAX {
        return Err(format!(
            "its threads need {} for buffers, more than {}; use fewer threads or smaller pieces",
            size(buffers as f64),
            size(BUFFERS_MAX as f64)
        ));
    }
    for (index, group) in files.groups.iter().enumerate() {
        let name = &group.name;
        if files.groups[..index]
            .iter()
            .any(|other| other.name == *name)
        {
            return Err(format!("two groups are called '{name}'"));
        }
        check_group(files, group, align).map_err(|what| format!("group '{name}': {what}"))?;
    }
    check_signals(files)
}

fn check_set(set: &FileSet) -> Result<(), String> {
    let name = &set.name;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(plain) {
        return Err(format!(
            "'{name}' cannot be the name of a set: use up to 64 letters, digits and ._-"
        ));
    }
    if set.entries == 0 {
        return Err("it needs a thread, an operation and a file".into());
    }
    if let FileSizeDistribution::Gamma(shape) = set.sizes
        && !(1.0..=SHAPE_MAX).contains(&shape)
    {
        return Err("the gamma shape of file sizes must be within 1 and 1000000".into());
    }
    if !(0.0..=1.0).contains(&set.prealloc) {
        return Err("the share of files that exist before the run is not within 0 and 1".into());
    }
    match set.tree {
        FileTreeLayout::Even(count) if !(1..=DIRECTORIES_MAX).contains(&count) => Err(format!(
            "the files of '{name}' may lie in 1 to {DIRECTORIES_MAX} directories, not {count}"
        )),
        FileTreeLayout::Random { width, .. } if !(2.0..=1e12).contains(&width) => Err(format!(
            "the mean width of directories of '{name}' must be at least 2"
        )),
        FileTreeLayout::Random { shape, .. }
            if shape != 0.0 && !(1.0..=SHAPE_MAX).contains(&shape) =>
        {
            Err("the gamma shape of a tree must be 0 or within 1 and 1000000".into())
        }
        _ => Ok(()),
    }
}

fn check_group(files: &FileLoop, group: &FileLoopGroup, align: u32) -> Result<(), String> {
    if !group.ops.iter().any(|op| op.op.is_operation()) {
        return Err("it needs a thread, an operation and a file".into());
    }
    // Which set the file in each place of the open files is of.
    let mut open: BTreeMap<u32, u32> = BTreeMap::new();
    for (index, op) in group.ops.iter().enumerate() {
        let place = index + 1;
        check_op(files, group, op, align).map_err(|what| format!("operation {place} {what}"))?;
        let step = step(&mut open, op, files);
        step.map_err(|what| format!("operation {place} {what}"))?;
    }
    if !open.is_empty() {
        return Err("the last operation leaves a file open; add a close".into());
    }
    Ok(())
}

/// Plays one operation on what is open.
fn step(
    open: &mut BTreeMap<u32, u32>,
    op: &FileLoopOp,
    files: &FileLoop,
) -> Result<(), &'static str> {
    match op.op {
        FileOp::Create | FileOp::Open => match open.insert(op.fd, op.set) {
            Some(_) => return Err("opens a second file where one is open"),
            None => return Ok(()),
        },
        FileOp::Delete if !open.is_empty() && files.over != FileLoopSelection::Rotor => {
            return Err("needs the open file closed before it");
        }
        _ => {}
    }
    if !op.op.needs_open() {
        return Ok(());
    }
    let set = match op.opened {
        FileLoopOpenMode::Listed => *open.get(&op.fd).ok_or("needs an open file")?,
        _ if open.contains_key(&op.fd) => return Err("uses the place of a file that is open"),
        _ => op.set,
    };
    if op.op.is_write() && files.sets[set as usize].read_only {
        return Err("writes to a set that is read only");
    }
    if op.op == FileOp::Close {
        if op.opened != FileLoopOpenMode::Listed {
            return Err("closes a file that is to stay open");
        }
        open.remove(&op.fd);
    }
    Ok(())
}

fn check_op(
    files: &FileLoop,
    group: &FileLoopGroup,
    op: &FileLoopOp,
    align: u32,
) -> Result<(), String> {
    let Some(set) = files.sets.get(op.set as usize) else {
        return Err(format!("names set {}, which does not exist", op.set));
    };
    if op.fd >= FDS_MAX {
        return Err(format!(
            "may use open file 0 to {}, not {}",
            FDS_MAX - 1,
            op.fd
        ));
    }
    if op.opened == FileLoopOpenMode::Rotating && set.entries > ROTATING_MAX {
        return Err(format!(
            "would keep {} files open in each thread, more than {ROTATING_MAX}",
            set.entries
        ));
    }
    let once = matches!(op.op, FileOp::Create | FileOp::Open | FileOp::Close);
    if op.repeat == 0 || op.repeat > REPEAT_MAX || once && op.repeat > 1 {
        return Err(format!("cannot be done {} times in a row", op.repeat));
    }
    if let FileOp::EndAfter { of: Some(of), .. } = op.op
        && !(group.ops.get(of as usize)).is_some_and(|op| op.op.is_operation())
    {
        return Err(format!(
            "counts entry {of} of the list, which is not an operation"
        ));
    }
    let bytes = op.op.buffer_bytes();
    let moves = op.op.is_write() || bytes > 0;
    let by_size = matches!(
        op.op,
        FileOp::Read { .. } | FileOp::ReadWhole { .. } | FileOp::WriteWhole { .. }
    );
    if by_size && bytes == 0 {
        return Err("moves no bytes".into());
    }
    if group.direct && moves {
        let whole = |bytes: u64| bytes.is_multiple_of(align.into());
        let blocks = match op.op {
            FileOp::AppendRandom { .. } => false,
            FileOp::WriteWhole { .. } => {
                set.sizes == FileSizeDistribution::Constant && whole(set.mean_bytes)
            }
            _ => true,
        };
        if !blocks || !whole(u64::from(bytes)) {
            return Err(format!(
                "cannot bypass the page cache: its sizes are not multiples of {align} bytes, which direct \
                 I/O needs here"
            ));
        }
    }
    Ok(())
}

fn check_signals(files: &FileLoop) -> Result<(), String> {
    let ops = || files.groups.iter().flat_map(|group| &group.ops);
    for op in ops() {
        let (FileOp::Await { signal, .. } | FileOp::Post { signal }) = op.op else {
            continue;
        };
        if signal >= SIGNALS_MAX {
            return Err(format!(
                "it may use signals 0 to {}, not {signal}",
                SIGNALS_MAX - 1
            ));
        }
        let posted = ops().any(|op| op.op == FileOp::Post { signal });
        if !posted {
            return Err(format!(
                "no operation sends signal {signal}, so it would wait forever"
            ));
        }
    }
    match stuck(files) {
        None => Ok(()),
        Some(signal) => Err(format!(
            "its threads would wait for signal {signal} forever: a thread that does not wait must \
             send it"
        )),
    }
}

/// The largest buffer an operation of the group needs.
pub(super) fn len_max(group: &FileLoopGroup) -> u32 {
    let bytes = group.ops.iter().map(|op| op.op.buffer_bytes());
    bytes.max().unwrap_or(0).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_loop::tests::{files, ops};

    const READ: FileOp = FileOp::Read {
        bytes: 4096,
        random: true,
    };

    #[test]
    fn lists_that_make_no_sense_are_refused_with_the_place() {
        for (list, expect) in [
            (&[FileOp::Fsync][..], "operation 1 needs an open file"),
            (
                &[FileOp::Open, FileOp::Create],
                "operation 2 opens a second",
            ),
            (&[FileOp::Open], "leaves a file open"),
            (&[], "it needs a thread"),
            (&[FileOp::Delay { ns: 5 }], "it needs a thread"),
            (
                &[FileOp::Stat, FileOp::Post { signal: 16 }],
                "signals 0 to 15",
            ),
            (
                &[
                    FileOp::Stat,
                    FileOp::Await {
                        signal: 0,
                        posts: 1,
                        ahead: 1,
                    },
                ],
                "no operation sends signal 0",
            ),
            (
                &[
                    FileOp::Stat,
                    FileOp::Await {
                        signal: 0,
                        posts: 1,
                        ahead: 1,
                    },
                    FileOp::Post { signal: 0 },
                ],
                "wait for signal 0 forever",
            ),
        ] {
            let error = check(&files(10, ops(list)), 512).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        }
    }

    #[test]
    fn operations_that_cannot_be_done_are_refused_with_the_reason() {
        let on = |change: &dyn Fn(&mut FileLoopOp)| {
            let mut op = FileLoopOp::from(READ);
            op.opened = FileLoopOpenMode::Once;
            change(&mut op);
            files(1_000, vec![op])
        };
        assert!(check(&on(&|_| {}), 512).is_ok());
        for (loop_, expect) in [
            (on(&|op| op.set = 1), "names set 1"),
            (on(&|op| op.fd = 64), "0 to 63"),
            (
                on(&|op| op.opened = FileLoopOpenMode::Rotating),
                "1000 files open",
            ),
            (on(&|op| op.repeat = 0), "0 times"),
            (on(&|op| op.op = FileOp::Close), "to stay open"),
            (
                on(&|op| {
                    op.op = FileOp::Read {
                        bytes: 0,
                        random: false,
                    }
                }),
                "moves no bytes",
            ),
        ] {
            let error = check(&loop_, 512).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        }
    }

    #[test]
    fn sets_that_cannot_be_laid_out_are_refused() {
        let with = |change: &dyn Fn(&mut FileLoop)| {
            let mut files = files(10, ops(&[FileOp::Stat]));
            change(&mut files);
            check(&files, 512)
        };
        assert!(with(&|_| {}).is_ok());
        let random = |width, shape| FileTreeLayout::Random { width, shape };
        for (result, expect) in [
            (with(&|f| f.sets[0].name = "../x".into()), "'../x'"),
            (with(&|f| f.sets.push(f.sets[0].clone())), "two sets"),
            (
                with(&|f| f.groups.push(f.groups[0].clone())),
                "two groups are called 'group'",
            ),
            (
                with(&|f| f.sets[0].tree = FileTreeLayout::Even(0)),
                "directories",
            ),
            (with(&|f| f.sets[0].tree = random(1.0, 0.0)), "width"),
            (with(&|f| f.sets[0].tree = random(f64::NAN, 0.0)), "width"),
            (with(&|f| f.sets[0].tree = random(2.0, 0.5)), "gamma shape"),
            (with(&|f| f.events_per_s = Some(f64::NAN)), "rate of events"),
        ] {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        }
    }

    #[test]
    fn direct_operations_need_whole_blocks() {
        let on = |op, align| {
            let mut files = files(10, ops(&[FileOp::Create, op, FileOp::Close]));
            files.groups[0].direct = true;
            check(&files, align)
        };
        let direct = |op| on(op, 512);
        for (bytes, align, is_ok) in [
            (4096, 512, true),
            (512, 512, true),
            (512, 4096, false),
            (4096, 4096, true),
        ] {
            let checked = on(FileOp::Append { bytes }, align);
            assert_eq!(checked.is_ok(), is_ok, "{bytes} {align}");
        }
        for op in [
            FileOp::Append { bytes: 100 },
            FileOp::AppendRandom { bytes: 4096 },
            FileOp::WriteWhole { piece_bytes: 4096 },
        ] {
            let error = direct(op).unwrap_err().to_string();
            assert!(error.contains("page cache"), "{error}");
        }
    }
}
