// SPDX-License-Identifier: Apache-2.0
//! Text with a request on every line, as most published traces have it.
//!
//! A format says how a line is taken apart; this module does the rest. A line that cannot be
//! understood is left out and counted, and the first such line is quoted, because long traces
//! mostly have some; of a file without a single line that can be understood nothing is kept.

use plimsoll_core::op::Kind;
use plimsoll_core::units::Nanos;

use super::input::Input;
use super::{Request, Targets};
use crate::error::{Damage, TraceError};
use crate::recording::{About, Carries, Requests};

/// Lines of one call.
const BATCH: usize = 4096;
/// Lines in a row that are not understood before the rest of a file is given up.
const WRONG_IN_A_ROW_MAX: u64 = 1000;
/// Of a quoted line.
const QUOTED_BYTES: usize = 80;

/// A line as its format understands it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    /// When the request started, in nanoseconds of the source's own clock.
    pub(super) at_ns: u64,
    pub(super) took: Option<Nanos>,
    pub(super) kind: Kind,
    pub(super) target: &'a [u8],
    pub(super) bytes: u32,
    pub(super) offset: u64,
}

/// A format of one request for each line.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowFormat {
    /// What people call it, with its version.
    pub(super) name: &'static str,
    pub(super) carries: Carries,
    /// Nanoseconds from 1970 to the zero of its clock, when its clock has one; they may be negative.
    pub(super) zero_unix_ns: Option<i128>,
    /// Takes a line apart; `Ok(None)` for one that holds no request, such as a header.
    pub(super) parse: for<'a> fn(&'a [u8]) -> Result<Option<Row<'a>>, &'static str>,
}

/// A file of such lines.
pub(super) struct Rows {
    format: RowFormat,
    input: Input,
    about: About,
    targets: Targets,
    first_ns: Option<u64>,
    /// Requests that started before the first that was read.
    early: u64,
    wrong: u64,
    wrong_in_a_row: u64,
    first_wrong: Option<String>,
    damage: Option<Damage>,
    warnings: Vec<String>,
}

impl Rows {
    pub(super) fn open(input: Input, format: RowFormat) -> Result<Box<dyn Requests>, TraceError> {
        let about = About {
            name: input.name().into(),
            format: format.name.into(),
            host: String::new(),
            carries: format.carries,
        };
        Ok(Box::new(Rows {
            format,
            input,
            about,
            targets: Targets::default(),
            first_ns: None,
            early: 0,
            wrong: 0,
            wrong_in_a_row: 0,
            first_wrong: None,
            damage: None,
            warnings: Vec::new(),
        }))
    }

    /// Reads one line; `false` at the end.
    fn step(&mut self, into: &mut Vec<Request>) -> Result<bool, TraceError> {
        let Some((offset, line)) = self.input.line()? else {
            return self.finish().map(|()| false);
        };
        let found = (self.format.parse)(line).and_then(|row| {
            row.map(|row| {
                let target = self.targets.place(row.target);
                Ok((row, target.ok_or("there are too many devices")?))
            })
            .transpose()
        });
        match found {
            Ok(None) => {}
            Ok(Some((row, target))) => {
                self.wrong_in_a_row = 0;
                let first_ns = *self.first_ns.get_or_insert(row.at_ns);
                self.early += u64::from(row.at_ns < first_ns);
                into.push(Request {
                    at: Nanos(row.at_ns.saturating_sub(first_ns)),
                    took: row.took,
                    kind: row.kind,
                    target,
                    bytes: row.bytes,
                    offset: row.offset,
                });
            }
            Err(what) => {
                self.wrong += 1;
                self.wrong_in_a_row += 1;
                if self.first_wrong.is_none() {
                    let quoted = &line[..line.len().min(QUOTED_BYTES)];
                    let quoted = String::from_utf8_lossy(quoted);
                    self.first_wrong = Some(format!("at byte {offset}: {what}: {quoted}"));
                }
                if self.wrong_in_a_row >= WRONG_IN_A_ROW_MAX {
                    let what = format!("{WRONG_IN_A_ROW_MAX} lines in a row are not understood");
                    self.damage = Some(self.input.damage(offset, what));
                    return self.finish().map(|()| false);
                }
            }
        }
        Ok(true)
    }

    /// Says what was left out; a file of which nothing was understood is an error.
    fn finish(&mut self) -> Result<(), TraceError> {
        if let Some(first) = self.first_wrong.take() {
            if self.first_ns.is_none() {
                return Err(TraceError::Format {
                    file: self.about.name.clone(),
                    offset: 0,
                    what: format!("no line of it is understood; the first {first}"),
                });
            }
            self.warnings.push(format!(
                "{} lines were not understood and left out, the first {first}",
                self.wrong
            ));
        }
        if self.early > 0 {
            self.warnings.push(format!(
                "{} requests are older than the first in the file and count as of its instant",
                self.early
            ));
            self.early = 0;
        }
        Ok(())
    }
}

impl Requests for Rows {
    fn about(&self) -> &About {
        &self.about
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        let zero = self.format.zero_unix_ns?;
        u64::try_from(zero + i128::from(self.first_ns?)).ok()
    }

    fn read(&mut self, into: &mut Vec<Request>) -> Result<bool, TraceError> {
        if self.damage.is_some() {
            return Ok(false);
        }
        for _ in 0..BATCH {
            if !self.step(into)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn targets(&self) -> &[String] {
        self.targets.names()
    }

    fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// A whole number in decimal digits.
pub(super) fn whole(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0u64, |value, digit| {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}
