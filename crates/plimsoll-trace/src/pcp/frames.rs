// SPDX-License-Identifier: Apache-2.0
//! Framed records out of a stream, one at a time, in a buffer that does not grow with the file.
//!
//! A record is {length, payload, length}. The buffer grows to the longest record that is really
//! there: by doubling as bytes arrive, so that a length that lies costs nothing.

use std::fmt;
use std::io::{ErrorKind, Read};
use std::ops::RangeInclusive;

use super::bytes::{index, u32_at};
use super::label::{LABEL_BYTES_MAX, Label};
use crate::error::{Damage, TraceError};

/// Bytes asked of the stream at once: few of a short file, of a long one as many as fit into a
/// processor's cache and make calls rare.
const READ_BYTES: RangeInclusive<usize> = 8 << 10..=256 << 10;
/// Of a longer record no more is asked for than itself, since what comes behind it would have to
/// be moved to the front of the buffer.
const LONG_BYTES: usize = 32 << 10;
/// Longest record taken seriously: a million values need 20 MiB.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// A file of an archive, being read from its front.
pub(super) struct Frames {
    name: String,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// The part of the buffer that was read from the file and not given out yet.
    start: usize,
    end: usize,
    /// Place of `start` in the decompressed file.
    offset: u64,
    /// Why nothing more comes: the end of the file, or that the system or a decoder refused.
    ended: Option<Result<(), String>>,
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Frames");
        out.field("name", &self.name).field("offset", &self.offset);
        out.finish_non_exhaustive()
    }
}

/// A record as it lies in its file, framing included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    /// Name of the file.
    file: &'a str,
    /// Byte offset in the decompressed file.
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
}

impl Frame<'_> {
    /// What lies before the trailing length.
    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - 4]
    }

    pub(super) fn damage(&self, what: impl Into<String>) -> Damage {
        Damage {
            file: self.file.into(),
            offset: self.offset,
            what: what.into(),
        }
    }
}

impl Frames {
    pub(super) fn new(name: &str, input: Box<dyn Read + Send>) -> Self {
        Frames {
            name: name.into(),
            input,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
            ended: None,
        }
    }

    /// The label, which is the first record; the file then stands behind it.
    pub(super) fn label(&mut self) -> Result<Label, TraceError> {
        self.fill(LABEL_BYTES_MAX);
        let label = Label::read(&self.name, &self.buffer[..self.end]);
        // A file that could not be decompressed has no label for that reason, and for no other.
        if let (Err(_), Some(Err(why))) = (&label, &self.ended) {
            return Err(TraceError::Format {
                file: self.name.clone(),
                offset: self.end as u64,
                what: why.clone(),
            });
        }
        let label = label?;
        self.skip(label.version.label_bytes());
        Ok(label)
    }

    /// The next record of at least `bytes_min` bytes: its length says the same before and after
    /// it. `None` at the end of the file and behind damage, since nothing there can be trusted to
    /// start where it seems to.
    pub(super) fn next(&mut self, bytes_min: usize) -> Option<Result<Frame<'_>, Damage>> {
        self.fill(4);
        if self.start == self.end && !matches!(self.ended, Some(Err(_))) {
            return None;
        }
        match self.measure(bytes_min) {
            Ok(length) => {
                let (start, offset) = (self.start, self.offset);
                self.skip(length);
                Some(Ok(Frame {
                    file: &self.name,
                    offset,
                    bytes: &self.buffer[start..start + length],
                }))
            }
            Err(what) => {
                let damage = Damage {
                    file: self.name.clone(),
                    offset: self.offset,
                    what,
                };
                self.skip(self.end - self.start);
                self.ended = Some(Ok(()));
                Some(Err(damage))
            }
        }
    }

    /// Length of the record at `start`, which then is in the buffer as a whole.
    fn measure(&mut self, bytes_min: usize) -> Result<usize, String> {
        let Some(length) = self.word(0) else {
            return Err(self.cut("the file ends inside a record's length".into()));
        };
        if length < bytes_min {
            return Err(format!(
                "a record says it is {length} bytes long, the least is {bytes_min}"
            ));
        }
        if length > RECORD_BYTES_MAX {
            return Err(format!(
                "a record says it is {length} bytes long, more than the {RECORD_BYTES_MAX} that a \
                 record may have"
            ));
        }
        if !self.fill(length) {
            let left = self.end - self.start;
            let what =
                format!("a record of {length} bytes does not fit into the {left} bytes left");
            return Err(self.cut(what));
        }
        match self.word(length - 4) {
            Some(trailer) if trailer == length => Ok(length),
            _ => Err(format!(
                "a record's length differs before ({length}) and after it"
            )),
        }
    }

    fn word(&self, at: usize) -> Option<usize> {
        u32_at(&self.buffer[self.start..self.end], at).map(index)
    }

    /// Why a record is cut short: the decoder knows better, if there is one.
    fn cut(&self, what: String) -> String {
        match &self.ended {
            Some(Err(why)) => why.clone(),
            _ => what,
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Makes `wanted` bytes lie in the buffer behind `start`; false when the file has fewer.
    fn fill(&mut self, wanted: usize) -> bool {
        if self.end - self.start >= wanted {
            return true;
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        // As much as was read before.
        let read_before = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let (least, most) = READ_BYTES.into_inner();
        let ahead = read_before.saturating_add(self.end).clamp(least, most);
        while self.end < wanted && self.ended.is_none() {
            let until = match wanted {
                // With the length of the next record.
                LONG_BYTES.. => wanted + 4,
                _ => self.end + ahead,
            };
            // By doubling, since a length may lie.
            let until = until.min(2 * self.end.max(ahead));
            if self.buffer.len() < until {
                self.buffer.resize(until, 0);
            }
            match self.input.read(&mut self.buffer[self.end..until]) {
                Ok(0) => self.ended = Some(Ok(())),
                Ok(n) => self.end += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = Some(Err(format!("it cannot be read on from here: {error}")));
                }
            }
        }
        self.end >= wanted
    }
}
