// SPDX-License-Identifier: Apache-2.0
//! Text with a request on every line, as most published traces have it.
//!
//! A format says how a line is taken apart; this module does the rest. A line that cannot be
//! understood is left out and counted, and the first such line is quoted, because long traces
//! mostly have some; of a file without a single line that can be understood nothing is kept. The
//! recording's origin is the earliest start among the first 65,536 requests, since many traces stand
//! in the order of the requests' ends, and some in hardly any. A heading may stand before the rows,
//! whatever its words.

use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use std::borrow::Cow;

use super::{HEADER_ROWS, TraceRequest};
use crate::error::TraceError;
use crate::input::{RecordingInput, WrongLines};
use crate::recording::{RecordingCapabilities, TraceOrder, TraceReadState, TraceSource};
use crate::text;

/// Requests of one call.
const BATCH: usize = 4096;
/// Requests among which the earliest start is looked for: as many as are held to put them in order.
const FIRST: usize = 1 << 16;
/// Fault of a line that names one device too many.
pub(super) const TOO_MANY_TARGETS: &str = "its device is one too many, or has too long a name";

/// A line as its format understands it.
#[derive(Debug, Clone)]
pub(super) struct TraceRow<'a> {
    /// When the request started, in nanoseconds of the source's own clock.
    pub(super) at_ns: u64,
    pub(super) took: Option<Nanos>,
    pub(super) kind: OpKind,
    pub(super) target: Cow<'a, [u8]>,
    pub(super) bytes: u32,
    pub(super) offset: u64,
}

/// A format of one request for each line.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowFormat {
    /// Name of the format, with its version.
    pub(super) name: &'static str,
    pub(super) carries: RecordingCapabilities,
    /// Nanoseconds from 1970 to the zero of its clock, when its clock has one; they may be negative.
    pub(super) zero_unix_ns: Option<i128>,
}

/// Where the times of a recording begin whose requests are in no order.
#[derive(Debug, Default)]
pub(super) struct TraceOrigin {
    /// The earliest start of the first requests, on the source's clock.
    pub(super) at: Option<Nanos>,
    /// Requests that started before it.
    early: u64,
}

impl TraceOrigin {
    /// How many requests are to be read next.
    pub(super) fn wanted(&self) -> usize {
        if self.at.is_some() { BATCH } else { FIRST }
    }

    /// Counts starts from the origin.
    pub(super) fn place(&mut self, fresh: &mut [TraceRequest]) {
        let earliest = fresh.iter().map(|request| request.at).min();
        let Some(origin) = self.at.or(earliest) else {
            return;
        };
        self.at = Some(origin);
        for request in fresh {
            self.early += u64::from(request.at < origin);
            request.at = request.at.since(origin);
        }
    }

    /// Sentence about requests before the origin, told once at the end.
    pub(super) fn sentence(&mut self) -> Option<String> {
        let early = std::mem::take(&mut self.early);
        (early > 0).then(|| {
            format!("{early} requests started before the recording's origin and count as of that instant")
        })
    }
}

/// How a format takes its lines apart.
pub(super) trait TraceRowParser {
    /// The request of a line; `Ok(None)` for one that holds none, such as a header.
    fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Option<TraceRow<'a>>, &'static str>;

    /// Notes on the file for the reader, once it was read.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A format whose lines need not know of each other is one function.
impl<F> TraceRowParser for F
where
    F: for<'a> Fn(&'a [u8]) -> Result<Option<TraceRow<'a>>, &'static str>,
{
    fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Option<TraceRow<'a>>, &'static str> {
        self(line)
    }
}

/// A file of such lines.
pub(super) struct TraceRowReader<P> {
    format: RowFormat,
    parse: P,
    input: RecordingInput,
    state: TraceReadState,
    origin: TraceOrigin,
    /// Lines so far, as long as a heading may come.
    lines: usize,
    wrong: WrongLines,
}

impl<P: TraceRowParser + 'static> TraceRowReader<P> {
    pub(super) fn open(
        input: RecordingInput,
        format: RowFormat,
        parse: P,
    ) -> Result<Box<dyn TraceSource>, TraceError> {
        let mut carries = format.carries;
        // Rows that are mostly in order, as a format declares, are put in order all the same: that
        // costs a comparison each.
        if carries.order == TraceOrder::Started {
            carries.order = TraceOrder::Mixed;
        }
        Ok(Box::new(TraceRowReader {
            format,
            parse,
            state: TraceReadState::new(input.name(), format.name, carries),
            input,
            origin: TraceOrigin::default(),
            lines: 0,
            wrong: WrongLines::default(),
        }))
    }

    /// Reads one line; `false` at the end. Starts are still those of the source's clock.
    fn step(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        let Some((offset, line)) = self.input.line()? else {
            return Ok(false);
        };
        let may_be_heading = self.lines < HEADER_ROWS;
        self.lines = self.lines.saturating_add(1);
        if line.is_empty() {
            return Ok(true);
        }
        let found = self.parse.parse(line).and_then(|row| match row {
            Some(row) => match self.state.targets.place(&row.target) {
                Some(target) => Ok(Some((row, target))),
                None => Err(TOO_MANY_TARGETS),
            },
            None => Ok(None),
        });
        match found {
            Ok(None) => {}
            Ok(Some((row, target))) => {
                self.wrong.right();
                into.push(TraceRequest {
                    at: Nanos(row.at_ns),
                    took: row.took,
                    kind: row.kind,
                    target,
                    bytes: row.bytes,
                    offset: row.offset,
                });
            }
            Err(_) if may_be_heading && text::is_heading(line) => {}
            Err(what) => {
                if let Some(what) = self.wrong.wrong(offset, what, line) {
                    self.state.damage = Some(self.input.damage(offset, what));
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Says what was left out; a file of which nothing was understood is an error.
    fn finish(&mut self) -> Result<(), TraceError> {
        let nothing = self.origin.at.is_none();
        let told = self.wrong.finish(self.input.name(), nothing)?;
        let warnings = &mut self.state.warnings;
        warnings.extend(told);
        warnings.extend(self.input.losses());
        warnings.extend(self.parse.notes());
        warnings.extend(self.origin.sentence());
        Ok(())
    }
}

impl<P: TraceRowParser + 'static> TraceSource for TraceRowReader<P> {
    fn state(&self) -> &TraceReadState {
        &self.state
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        let zero = self.format.zero_unix_ns?;
        u64::try_from(zero + i128::from(self.origin.at?.0)).ok()
    }

    fn read(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        if self.state.damage.is_some() {
            return Ok(false);
        }
        let known = into.len();
        let wanted = self.origin.wanted();
        let mut more = true;
        while more && into.len() - known < wanted {
            more = self.step(into)?;
        }
        self.origin.place(&mut into[known..]);
        if !more {
            self.finish()?;
        }
        Ok(more)
    }
}
