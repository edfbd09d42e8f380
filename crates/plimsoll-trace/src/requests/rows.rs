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
use crate::error::{RecordingDamage, TraceError};
use crate::input::{RecordingInput, WrongLines};
use crate::recording::{RecordingCapabilities, RecordingInfo, TraceOrder, TraceSource};
use crate::targets::DeviceNameTable;
use crate::text;

/// Lines of one call.
const BATCH: usize = 4096;
/// Requests among which the earliest start is looked for: as many as are held to put them in order.
const FIRST: usize = 1 << 16;
/// What is wrong with a line that names one device too many.
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
    /// What people call it, with its version.
    pub(super) name: &'static str,
    pub(super) carries: RecordingCapabilities,
    /// Nanoseconds from 1970 to the zero of its clock, when its clock has one; they may be negative.
    pub(super) zero_unix_ns: Option<i128>,
}

/// How a format takes its lines apart.
pub(super) trait TraceRowParser {
    /// The request of a line; `Ok(None)` for one that holds none, such as a header.
    fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Option<TraceRow<'a>>, &'static str>;

    /// What the reader should know of the file, once it was read.
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
    about: RecordingInfo,
    targets: DeviceNameTable,
    origin_ns: Option<u64>,
    /// Lines so far, as long as a heading may come.
    lines: usize,
    /// Requests that started before the origin.
    early: u64,
    wrong: WrongLines,
    damage: Option<RecordingDamage>,
    warnings: Vec<String>,
}

impl<P: TraceRowParser + 'static> TraceRowReader<P> {
    pub(super) fn open(
        input: RecordingInput,
        format: RowFormat,
        parse: P,
    ) -> Result<Box<dyn TraceSource>, TraceError> {
        let mut about = RecordingInfo {
            name: input.name().into(),
            format: format.name.into(),
            host: String::new(),
            carries: format.carries,
        };
        // What is in order mostly, as a format says, is put in order all the same: that costs a
        // comparison each.
        if about.carries.order == TraceOrder::Started {
            about.carries.order = TraceOrder::Mixed;
        }
        Ok(Box::new(TraceRowReader {
            format,
            parse,
            input,
            about,
            targets: DeviceNameTable::default(),
            origin_ns: None,
            lines: 0,
            early: 0,
            wrong: WrongLines::default(),
            damage: None,
            warnings: Vec::new(),
        }))
    }

    /// Reads one line; `false` at the end. Starts are still those of the source's clock.
    fn step(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        let Some((offset, line)) = self.input.line()? else {
            return Ok(false);
        };
        let may_be_heading = self.lines < HEADER_ROWS;
        self.lines = self.lines.saturating_add(1);
        let found = self.parse.parse(line).and_then(|row| match row {
            Some(row) => match self.targets.place(&row.target) {
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
                    self.damage = Some(self.input.damage(offset, what));
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Counts starts from the origin.
    fn place(&mut self, fresh: &mut [TraceRequest]) {
        let earliest = fresh.iter().map(|request| request.at.0).min();
        let Some(origin_ns) = self.origin_ns.or(earliest) else {
            return;
        };
        self.origin_ns = Some(origin_ns);
        for request in fresh {
            self.early += u64::from(request.at.0 < origin_ns);
            request.at = Nanos(request.at.0.saturating_sub(origin_ns));
        }
    }

    /// Says what was left out; a file of which nothing was understood is an error.
    fn finish(&mut self) -> Result<(), TraceError> {
        let nothing = self.origin_ns.is_none();
        let told = self.wrong.finish(&self.about.name, nothing)?;
        self.warnings.extend(told);
        self.warnings.extend(self.input.losses());
        self.warnings.extend(self.parse.notes());
        if self.early > 0 {
            self.warnings.push(format!(
                "{} requests started before the recording's origin and count as of that instant",
                self.early
            ));
            self.early = 0;
        }
        Ok(())
    }
}

impl<P: TraceRowParser + 'static> TraceSource for TraceRowReader<P> {
    fn about(&self) -> &RecordingInfo {
        &self.about
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        let zero = self.format.zero_unix_ns?;
        u64::try_from(zero + i128::from(self.origin_ns?)).ok()
    }

    fn read(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        if self.damage.is_some() {
            return Ok(false);
        }
        let known = into.len();
        let wanted = if self.origin_ns.is_some() {
            BATCH
        } else {
            FIRST
        };
        let mut more = true;
        while more && into.len() - known < wanted {
            more = self.step(into)?;
        }
        self.place(&mut into[known..]);
        if !more {
            self.finish()?;
        }
        Ok(more)
    }

    fn targets(&self) -> &[String] {
        self.targets.names()
    }

    fn damage(&self) -> Option<&RecordingDamage> {
        self.damage.as_ref()
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}
