// SPDX-License-Identifier: Apache-2.0
//! The text of `blkparse` in its default format.
//!
//! A line is `major,minor cpu sequence seconds process action rwbs` and what belongs to the action:
//! `sector + sectors [process]`, `sector / sector` of a cut, `sector + sectors <- (device) sector`
//! of a remap, nothing but the process of a flush or plug. Source: blkparse's manual page and its
//! output. Requests start when they are queued (Q) and end when they complete (C); what happens
//! between (get, merge, insert, remap, plug) is passed over. The summary at the end is no event,
//! but its count of skipped events is that of the lost.

use std::collections::BTreeMap;

use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::pairs::{BlockEvent, BlockEventAction, BlockEventPairer};
use super::rows::TOO_MANY_TARGETS;
use super::{TIMED, TraceFormat, TraceRequest};
use crate::error::TraceError;
use crate::input::{RecordingInput, WrongLines};
use crate::recording::{RecordingCapabilities, TraceReadState, TraceSource};
use crate::text::{SECTOR_BYTES, lines, nanos, whole, words};

/// Recognised by its first event.
pub(super) const FORMAT: TraceFormat = TraceFormat {
    name: "blkparse text",
    is: |head| {
        let first = lines(head).find(|line| line.trim_ascii_start().first().is_some_and(is_digit));
        first.is_some_and(|line| matches!(parse(line), Ok(Some(_))))
    },
    open: |input| {
        Ok(Box::new(Text {
            state: TraceReadState::new(input.name(), FORMAT.name, CARRIES),
            input,
            pairs: BlockEventPairer::default(),
            last_numbers: Numbers::default(),
            wrong: WrongLines::default(),
            is_done: false,
        }))
    },
};

/// Of blktrace, whether binary or printed.
pub(super) const CARRIES: RecordingCapabilities = RecordingCapabilities {
    resolution: Nanos(1),
    ..TIMED
};

/// Fault of a trace that has only completions.
pub(super) const ONLY_ENDS: &str = "it has only the ends of requests (C); record when they were \
                                    queued, too (Q): blktrace without -a complete";
/// Lines of one call.
const BATCH: usize = 4096;
/// Processors of devices whose lines are numbered.
const NUMBERED_MAX: usize = 1 << 16;

struct Text {
    state: TraceReadState,
    input: RecordingInput,
    pairs: BlockEventPairer,
    last_numbers: Numbers,
    wrong: WrongLines,
    is_done: bool,
}

/// An event before its device has a number.
#[derive(Debug, PartialEq, Eq)]
struct BlkparseLine<'a> {
    device: &'a [u8],
    /// The processor, and the number of the event on it.
    processor: u64,
    number: u64,
    at_ns: u64,
    /// `None` for what is passed over.
    event: Option<BlockEvent>,
}

fn is_digit(byte: &u8) -> bool {
    byte.is_ascii_digit()
}

/// `Ok(None)` for a line that is no event: headings and the summary.
fn parse(line: &[u8]) -> Result<Option<BlkparseLine<'_>>, &'static str> {
    let mut words = words(line);
    let Some(device) = words.next() else {
        return Ok(None);
    };
    if !is_digit(&device[0]) {
        return Ok(None);
    }
    let comma = device.iter().position(|byte| *byte == b',');
    let (major, minor) = device.split_at(comma.ok_or("its first word is not a device")?);
    let is_device = whole(major).is_some() && whole(&minor[1..]).is_some();
    let few = "it has too few words";
    let (cpu, sequence) = (words.next().ok_or(few)?, words.next().ok_or(few)?);
    let (time, process) = (words.next().ok_or(few)?, words.next().ok_or(few)?);
    let at_ns = nanos(time, 1).ok_or("its fourth word is not a time")?;
    let numbers = (whole(cpu), whole(sequence), whole(process));
    let (true, (Some(processor), Some(number), Some(_))) = (is_device, numbers) else {
        return Err("its first words are not device, processor, number and process");
    };
    let action = words.next().ok_or(few)?;
    let passed_over = Ok(Some(BlkparseLine {
        device,
        processor,
        number,
        at_ns,
        event: None,
    }));
    let Some(what) = action_of(action)? else {
        return passed_over;
    };
    let flags = words.next().ok_or(few)?;
    if !are_flags(flags) {
        return Err("its seventh word is not what a request does (rwbs)");
    }
    let sector = words.next().and_then(whole);
    let sectors = match (words.next(), words.next()) {
        (Some(b"+"), Some(count)) => whole(count).ok_or("its length is not a number")?,
        (Some(b"/"), Some(second)) if action == b"X" => {
            whole(second).ok_or("the place of its cut is not a number")?
        }
        _ => 0,
    };
    let is_cut = what == BlockEventAction::Split(0);
    let Some(kind) = kind(flags, is_cut || sectors > 0) else {
        return passed_over;
    };
    let bytes = if is_cut {
        0
    } else {
        sectors.saturating_mul(SECTOR_BYTES)
    };
    Ok(Some(BlkparseLine {
        device,
        processor,
        number,
        at_ns,
        event: Some(BlockEvent {
            at_ns,
            what: if is_cut {
                BlockEventAction::Split(sectors)
            } else {
                what
            },
            kind,
            target: 0,
            sector: sector.unwrap_or(0),
            bytes: u32::try_from(bytes).map_err(|_| "its length is not a number below 4 GiB")?,
        }),
    }))
}

/// Action of a letter; `None` for letters that do not matter.
fn action_of(action: &[u8]) -> Result<Option<BlockEventAction>, &'static str> {
    Ok(Some(match action {
        b"Q" => BlockEventAction::Queued,
        b"D" => BlockEventAction::Issued,
        b"C" => BlockEventAction::Completed,
        b"X" => BlockEventAction::Split(0),
        b"A" | b"B" | b"F" | b"G" | b"I" | b"M" | b"P" | b"R" | b"S" | b"T" | b"U" | b"UT"
        | b"m" => return Ok(None),
        _ => return Err("its sixth word is not a known action"),
    }))
}

/// Kernels add letters (B of a barrier, U of an atomic write), so any may stand there.
fn are_flags(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_uppercase)
}

/// Operation that `rwbs` flags describe: `WS`, `RA`, `FWFS`, `D`. `None` for a request that moves
/// no data and flushes nothing, and for text that is no flags.
pub(super) fn kind(flags: &[u8], has_data: bool) -> Option<OpKind> {
    if !are_flags(flags) {
        return None;
    }
    let has = |flag: u8| flags.contains(&flag);
    match has_data {
        // Of zones: what is appended is written, the rest moves no data.
        true if flags.starts_with(b"Z") => {
            has(b'A').then_some(OpKind::Write).filter(|_| !has(b'R'))
        }
        true if has(b'D') => Some(OpKind::Discard),
        true if has(b'W') => Some(OpKind::Write),
        true if has(b'R') => Some(OpKind::Read),
        false if has(b'F') => Some(OpKind::Fsync),
        _ => None,
    }
}

/// Number of the last event of each processor of each device.
#[derive(Default)]
struct Numbers(BTreeMap<(u16, u64), u64>);

impl Numbers {
    /// Says where numbers are missing: what was lost, or was not printed, may be an end. How many were
    /// lost says the summary.
    fn count(&mut self, target: u16, line: &BlkparseLine<'_>, pairs: &mut BlockEventPairer) {
        let of = (target, line.processor);
        let known = self.0.get(&of).copied();
        if known.is_some_and(|last| line.number > last + 1) {
            pairs.lose(line.at_ns);
        }
        if known.is_some() || self.0.len() < NUMBERED_MAX {
            self.0.insert(of, line.number);
        }
    }
}

impl Text {
    /// Reads one line; `false` at the end.
    fn step(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        let Some((offset, line)) = self.input.line()? else {
            return Ok(false);
        };
        let wrong = match parse(line) {
            Ok(None) => {
                self.state.lost = self.state.lost.max(skipped(line).unwrap_or(0));
                return Ok(true);
            }
            Ok(Some(line)) => match self.state.targets.place(line.device) {
                Some(target) => {
                    self.last_numbers.count(target, &line, &mut self.pairs);
                    if let Some(event) = line.event {
                        self.pairs.push(&BlockEvent { target, ..event }, into);
                    }
                    None
                }
                None => Some(TOO_MANY_TARGETS),
            },
            Err(what) => Some(what),
        };
        let Some(what) = wrong else {
            self.wrong.right();
            return Ok(true);
        };
        if let Some(what) = self.wrong.wrong(offset, what, line) {
            self.state.damage = Some(self.input.damage(offset, what));
            return Ok(false);
        }
        Ok(true)
    }

    fn finish(&mut self, into: &mut Vec<TraceRequest>) -> Result<(), TraceError> {
        self.is_done = true;
        self.state.warnings.extend(self.pairs.finish(into));
        let nothing = self.pairs.origin_ns().is_none();
        if !nothing && !self.pairs.has_starts() {
            return Err(self.state.refused(ONLY_ENDS));
        }
        let told = self.wrong.finish(self.input.name(), nothing)?;
        self.state.warnings.extend(told);
        self.state.warnings.extend(self.input.losses());
        Ok(())
    }
}

/// The count in `Skips: N forward (COUNT - percent)` of the summary.
fn skipped(line: &[u8]) -> Option<u64> {
    let rest = line.trim_ascii_start().strip_prefix(b"Skips:")?;
    let count = rest.split(|byte| *byte == b'(').nth(1)?;
    let digits: Vec<u8> = words(count)
        .next()?
        .iter()
        .copied()
        .filter(|byte| *byte != b',')
        .collect();
    whole(&digits)
}

impl TraceSource for Text {
    fn state(&self) -> &TraceReadState {
        &self.state
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        None
    }

    fn read(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        if self.is_done {
            return Ok(false);
        }
        for _ in 0..BATCH {
            if !self.step(into)? {
                self.finish(into)?;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{BLKPARSE, read};
    use super::*;

    #[test]
    fn events_of_all_forms_become_requests() {
        let (text, found) = read(&FORMAT, BLKPARSE);
        let expect = [
            (0, Some(7_000), OpKind::Write, 0, 4_096, 512 * 763_360_912),
            (
                1_000,
                Some(6_000),
                OpKind::Write,
                0,
                4_096,
                512 * 763_360_920,
            ),
            (2_000, Some(9_000), OpKind::Fsync, 0, 0, 0),
            (3_000, Some(97_000), OpKind::Discard, 1, 1 << 20, 0),
            (4_000, None, OpKind::Read, 1, 4_096, 512 * 8),
        ];
        assert_eq!(found, expect);
        assert_eq!(text.targets(), ["259,0", "8,16"]);
        assert_eq!(text.lost(), 4_162);
        let odd = text.warnings().join("; ");
        for part in ["1 requests have no end", "1 lines were not understood"] {
            assert!(odd.contains(part), "{part}: {odd}");
        }
    }

    #[test]
    fn flags_say_what_is_done() {
        let cases = [
            ("WS", true, Some(OpKind::Write)),
            ("RA", true, Some(OpKind::Read)),
            ("FWFS", true, Some(OpKind::Write)),
            ("FWFS", false, Some(OpKind::Fsync)),
            ("FN", false, Some(OpKind::Fsync)),
            ("DS", true, Some(OpKind::Discard)),
            ("WBS", true, Some(OpKind::Write)),
            ("WSU", true, Some(OpKind::Write)),
            ("FWSMU", true, Some(OpKind::Write)),
            ("ZA", true, Some(OpKind::Write)),
            ("ZRA", true, None),
            ("N", false, None),
            ("[kworker]", true, None),
        ];
        for (flags, has_data, expect) in cases {
            assert_eq!(kind(flags.as_bytes(), has_data), expect, "{flags}");
        }
    }
}
