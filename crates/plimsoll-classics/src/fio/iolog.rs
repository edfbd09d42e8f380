// SPDX-License-Identifier: Apache-2.0
//! fio's I/O logs (`write_iolog`, `read_iolog`), versions 2 and 3, as traces.
//!
//! Version 3 (fio 3.x): `MICROSECONDS FILE ACTION [OFFSET LENGTH]`, the time counted from the start
//! of the log. Version 2: `FILE ACTION [OFFSET LENGTH]`, where the action `wait` has a time in
//! microseconds in the place of the offset, and times add up.

use std::fmt::Write;

use plimsoll_core::num::saturating_u32;
use plimsoll_core::op::OpKind;
use plimsoll_core::op::TraceAccess;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    ArrivalProcess, BlockIoExtent, BlockIoGroup, BlockIoMixEntry, BlockIoOpKind, BlockIoPacing,
    BlockIoStopCondition, BlockIoWorkload,
};

use crate::error::ClassicsError;

/// Operations in flight at most: what one disk queue of today holds.
const DEPTH_MAX: u32 = 256;
/// Largest operation of a log.
const BYTES_MAX: u64 = 256 << 20;
/// Name of the file in logs written here.
const FILE: &str = "data";

/// Whether a text begins as a log does.
pub fn is_log(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default().trim();
    first.starts_with("fio version ") && first.ends_with(" iolog")
}

/// Reads a log. `name` is what reports call the workload.
///
/// # Errors
/// The first line that is not understood; a log of more than one file, or without operations.
pub fn read_log(name: &str, text: &str) -> Result<Workload, ClassicsError> {
    let mut lines = (1..).zip(text.lines().map(str::trim));
    let version = match lines.next() {
        Some((_, "fio version 2 iolog")) => 2,
        Some((_, "fio version 3 iolog")) => 3,
        _ => {
            return Err(wrong(
                1,
                "it is not 'fio version 2 iolog' or 'fio version 3 iolog'",
            ));
        }
    };
    let mut log = FioIologReplay::default();
    for (line, text) in lines.filter(|(_, text)| !text.is_empty()) {
        let words: Vec<&str> = text.split_whitespace().collect();
        log.line(version, &words)
            .map_err(|reason| wrong(line, &reason))?;
    }
    if log.trace.is_empty() {
        return Err(wrong(
            text.lines().count(),
            "the log ends without a read, write, trim or sync",
        ));
    }
    Ok(Workload::Blocks(log.blocks(name)))
}

fn wrong(line: usize, reason: &str) -> ClassicsError {
    ClassicsError::Line {
        line,
        reason: reason.into(),
    }
}

#[derive(Debug, Default)]
struct FioIologReplay {
    waited_us: u64,
    file: Option<String>,
    trace: Vec<TraceAccess>,
}

impl FioIologReplay {
    fn line(&mut self, version: u8, words: &[&str]) -> Result<(), String> {
        let number = |word: Option<&&str>, what: &str| {
            let parsed = word.and_then(|word| word.parse::<u64>().ok());
            parsed.ok_or_else(|| format!("'{}' has no {what}", words.join(" ")))
        };
        let (at_us, words) = match version {
            2 => (self.waited_us, words),
            _ => (
                number(words.first(), "time at its start")?,
                words.get(1..).unwrap_or_default(),
            ),
        };
        let (Some(file), Some(action)) = (words.first(), words.get(1)) else {
            return Err(format!("'{}' has no file and action", words.join(" ")));
        };
        let kind = match *action {
            "add" | "open" | "close" => return Ok(()),
            "wait" if version == 2 => {
                let wait_us = number(words.get(2), "time to wait")?;
                self.waited_us = self.waited_us.saturating_add(wait_us);
                return Ok(());
            }
            "read" => OpKind::Read,
            "write" => OpKind::Write,
            "trim" => OpKind::Discard,
            "sync" => OpKind::Fsync,
            "datasync" => OpKind::Fdatasync,
            other => return Err(format!("the action '{other}' is not known")),
        };
        if *self.file.get_or_insert_with(|| (*file).into()) != **file {
            let first = self.file.as_deref().unwrap_or_default();
            return Err(format!(
                "the log works on '{file}' after '{first}'; a trace has one file: split the log"
            ));
        }
        let moves = matches!(kind, OpKind::Read | OpKind::Write | OpKind::Discard);
        let (offset, bytes) = if moves {
            (
                number(words.get(2), "offset")?,
                number(words.get(3), "length")?,
            )
        } else {
            (0, 0)
        };
        if moves && (bytes == 0 || bytes > BYTES_MAX || offset > 1 << 62) {
            return Err(format!("{bytes} bytes at {offset} cannot be one operation"));
        }
        let at = Nanos(at_us.saturating_mul(1_000));
        if self.trace.last().is_some_and(|last| last.at > at) {
            return Err("its time lies before that of the line above".into());
        }
        self.trace.push(TraceAccess {
            at,
            kind,
            offset,
            bytes: saturating_u32(bytes),
        });
        Ok(())
    }

    fn blocks(self, name: &str) -> BlockIoWorkload {
        let start = self.trace.first().map_or(Nanos(0), |first| first.at);
        let trace: Vec<TraceAccess> = self
            .trace
            .into_iter()
            .map(|op| TraceAccess {
                at: op.at - start,
                ..op
            })
            .collect();
        let end = trace.iter().map(|op| op.offset + u64::from(op.bytes)).max();
        let mut mix: Vec<BlockIoMixEntry> = Vec::new();
        for op in &trace {
            let kind = match op.kind {
                OpKind::Write => BlockIoOpKind::Write,
                OpKind::Discard => BlockIoOpKind::Discard,
                _ => BlockIoOpKind::Read,
            };
            match mix
                .iter_mut()
                .find(|turn| turn.kind == kind && turn.bytes == op.bytes)
            {
                Some(turn) => turn.weight += 1.0,
                None if op.bytes > 0 => mix.push(BlockIoMixEntry::of(kind, op.bytes)),
                None => {}
            }
        }
        let group = BlockIoGroup {
            name: "trace".into(),
            depth: DEPTH_MAX,
            extent: BlockIoExtent {
                bytes: end.unwrap_or(0),
                ..BlockIoExtent::default()
            },
            mix,
            work: BlockIoStopCondition::Each(trace.len() as u64),
            pace: BlockIoPacing::Open(ArrivalProcess::Trace(trace)),
            ..BlockIoGroup::default()
        };
        BlockIoWorkload {
            name: name.into(),
            groups: vec![group],
        }
    }
}

/// Writes a trace as a log of version 3, for fio's `read_iolog`. Times are cut to microseconds,
/// which is all that the format holds.
///
/// # Errors
/// When the trace has operations that the format cannot say.
pub fn write_log(trace: &[TraceAccess]) -> Result<String, ClassicsError> {
    let mut text = format!("fio version 3 iolog\n0 {FILE} add\n0 {FILE} open\n");
    let mut end_us = 0;
    for op in trace {
        let action = match op.kind {
            OpKind::Read => "read",
            OpKind::Write => "write",
            OpKind::Discard => "trim",
            OpKind::Fsync => "sync",
            OpKind::Fdatasync => "datasync",
            other => {
                return Err(ClassicsError::Export {
                    program: "fio".into(),
                    reason: format!("its logs have no action for {other}"),
                });
            }
        };
        end_us = op.at.0 / 1_000;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{end_us} {FILE} {action} {} {}", op.offset, op.bytes);
    }
    let _ = writeln!(text, "{end_us} {FILE} close");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(text: &str) -> Vec<TraceAccess> {
        let Workload::Blocks(blocks) = read_log("t", text).unwrap() else {
            panic!("a log is block I/O");
        };
        match &blocks.groups[0].pace {
            BlockIoPacing::Open(ArrivalProcess::Trace(trace)) => trace.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn both_versions_become_the_same_trace() {
        let op = |at, kind, offset, bytes| TraceAccess {
            at: Nanos(at),
            kind,
            offset,
            bytes,
        };
        let expect = [
            op(0, OpKind::Read, 4096, 8192),
            op(250_000, OpKind::Write, 0, 512),
            op(250_000, OpKind::Fsync, 0, 0),
        ];
        let second = "fio version 2 iolog\n/x add\n/x open\n/x wait 7 0\n/x read 4096 8192\n/x wait 250 0\n\
                      /x write 0 512\n/x sync 0 0\n/x close\n";
        let third = "fio version 3 iolog\n3 /x add\n5 /x open\n100 /x read 4096 8192\n350 /x write 0 512\n\
                     350 /x sync 0 0\n360 /x close\n";
        assert_eq!(trace(second), expect);
        assert_eq!(trace(third), expect);
        assert_eq!(trace(&write_log(&expect).unwrap()), expect);
    }

    #[test]
    fn damaged_logs_are_refused_with_their_line() {
        for (body, line, word) in [
            ("", 1, "without a read"),
            ("1 /x fly 0 1\n", 2, "'fly'"),
            ("x /x read 0 1\n", 2, "no time"),
            ("1 /x read 0\n", 2, "no length"),
            ("1 /x read 0 99999999999\n", 2, "one operation"),
            ("1 /x read 0 1\n2 /y read 0 1\n", 3, "one file"),
            ("2 /x read 0 1\n1 /x read 0 1\n", 3, "before"),
        ] {
            let error = read_log("t", &format!("fio version 3 iolog\n{body}"))
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with(&format!("line {line}: ")),
                "{body}: {error}"
            );
            assert!(error.contains(word), "{body}: {error}");
        }
        assert!(read_log("t", "nothing").is_err());
    }
}
