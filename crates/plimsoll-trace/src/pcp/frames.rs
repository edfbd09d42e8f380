// SPDX-License-Identifier: Apache-2.0
//! Framed records out of a stream, one at a time, in a buffer that does not grow with the file.
//!
//! A record is {length, payload, length}. The buffer grows to the longest record that is really
//! there: by doubling as bytes arrive, so that a length that lies costs nothing.

use std::fmt;
use std::io::{self, ErrorKind, Read};
use std::mem;
use std::ops::RangeInclusive;

use super::bytes::{index, u32_at};
use super::label::{LABEL_BYTES_MAX, PcpLabel};
use crate::ahead::{ROOM_BYTES, ReadAhead};
use crate::error::{RecordingDamage, TraceError};

/// Bytes asked of the stream at once: few of a short file, of a long one as many as fit into a
/// processor's cache and make calls rare.
const READ_BYTES: RangeInclusive<usize> = 8 << 10..=256 << 10;
/// Of a longer record no more is asked for than itself, since what comes behind it would have to
/// be moved to the front of the buffer.
const LONG_BYTES: usize = 32 << 10;
/// Of a file that is longer than this the rest is read by another thread: to start one takes as
/// long as to copy some hundred KiB.
const ALONE_BYTES: usize = 1 << 20;
/// Longest record taken seriously: a million values need 20 MiB.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// A file of an archive, being read from its front.
pub(super) struct PcpFrameReader {
    name: String,
    input: PcpFrameSource,
    buffer: Vec<u8>,
    /// The part of the buffer that was read from the file and not given out yet.
    start: usize,
    end: usize,
    /// Place of `start` in the decompressed file.
    offset: u64,
    /// Why nothing more comes: the end of the file, or that the system or a decoder refused.
    ended: Option<Result<(), String>>,
}

/// Who reads the file.
enum PcpFrameSource {
    /// Who asks, as long as it may be a short one.
    Short(Box<dyn Read + Send>),
    /// Who asks, to its end.
    Alone(Box<dyn Read + Send>),
    Ahead(ReadAhead),
}

impl fmt::Debug for PcpFrameReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("PcpFrameReader");
        out.field("name", &self.name).field("offset", &self.offset);
        out.finish_non_exhaustive()
    }
}

/// A record as it lies in its file, framing included.
#[derive(Debug, Clone, Copy)]
pub(super) struct PcpFrame<'a> {
    /// Name of the file.
    file: &'a str,
    /// Byte offset in the decompressed file.
    pub(super) offset: u64,
    pub(super) bytes: &'a [u8],
}

impl PcpFrame<'_> {
    /// Bytes before the trailing length.
    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - 4]
    }

    pub(super) fn damage(&self, what: impl Into<String>) -> RecordingDamage {
        RecordingDamage::new(self.file, self.offset, what)
    }
}

impl PcpFrameReader {
    pub(super) fn new(name: &str, input: Box<dyn Read + Send>) -> Self {
        PcpFrameReader {
            name: name.into(),
            input: PcpFrameSource::Short(input),
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
            ended: None,
        }
    }

    /// The label, which is the first record; the file then stands behind it.
    pub(super) fn label(&mut self) -> Result<PcpLabel, TraceError> {
        self.fill(LABEL_BYTES_MAX);
        let label = PcpLabel::read(&self.name, &self.buffer[..self.end]);
        // A file that could not be decompressed has no label for that reason, and for no other.
        if let (Err(_), Some(Err(why))) = (&label, &self.ended) {
            return Err(RecordingDamage::new(&self.name, self.end as u64, why).into());
        }
        let label = label?;
        self.skip(label.version.label_bytes());
        Ok(label)
    }

    /// The next record of at least `bytes_min` bytes: its length says the same before and after
    /// it. `None` at the end of the file and behind damage, since nothing there can be trusted to
    /// start where it seems to.
    pub(super) fn next(
        &mut self,
        bytes_min: usize,
    ) -> Option<Result<PcpFrame<'_>, RecordingDamage>> {
        self.fill(4);
        if self.start == self.end && !matches!(self.ended, Some(Err(_))) {
            return None;
        }
        match self.measure(bytes_min) {
            Ok(length) => {
                let (start, offset) = (self.start, self.offset);
                self.skip(length);
                Some(Ok(PcpFrame {
                    file: &self.name,
                    offset,
                    bytes: &self.buffer[start..start + length],
                }))
            }
            Err(what) => {
                let damage = RecordingDamage::new(&self.name, self.offset, what);
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
        let read_before = usize::try_from(self.offset).unwrap_or(usize::MAX);
        if read_before >= ALONE_BYTES && matches!(self.input, PcpFrameSource::Short(_)) {
            self.hand_over();
        }
        match &mut self.input {
            PcpFrameSource::Short(_) | PcpFrameSource::Alone(_) => self.read(wanted, read_before),
            PcpFrameSource::Ahead(_) => self.take_pieces(wanted),
        }
        self.end - self.start >= wanted
    }

    /// Lets another thread read the rest.
    fn hand_over(&mut self) {
        let nothing = PcpFrameSource::Alone(Box::new(io::empty()));
        self.input = match mem::replace(&mut self.input, nothing) {
            PcpFrameSource::Short(source) => match ReadAhead::of(source) {
                Ok(ahead) => PcpFrameSource::Ahead(ahead),
                Err(source) => PcpFrameSource::Alone(source),
            },
            other => other,
        };
    }

    /// Takes what was read ahead until `wanted` bytes are there. Only what is left of the piece
    /// before is moved.
    fn take_pieces(&mut self, wanted: usize) {
        let PcpFrameSource::Ahead(ahead) = &mut self.input else {
            return;
        };
        while self.end - self.start < wanted && self.ended.is_none() {
            let mut piece = ahead.next();
            let left = &self.buffer[self.start..self.end];
            if let Some(start) = ROOM_BYTES.checked_sub(left.len()) {
                piece.bytes[start..ROOM_BYTES].copy_from_slice(left);
                (self.start, self.end) = (start, piece.end);
                mem::swap(&mut self.buffer, &mut piece.bytes);
            } else {
                self.buffer.truncate(self.end);
                self.buffer.drain(..self.start);
                let more = &piece.bytes[ROOM_BYTES..piece.end];
                self.buffer.extend_from_slice(more);
                (self.start, self.end) = (0, self.buffer.len());
            }
            ahead.give_back(piece.bytes);
            self.ended = piece.last.map(|last| last.map_err(unreadable));
        }
    }

    /// Reads until `wanted` bytes are there, and as much ahead as was read before.
    fn read(&mut self, wanted: usize, read_before: usize) {
        let (PcpFrameSource::Short(input) | PcpFrameSource::Alone(input)) = &mut self.input else {
            return;
        };
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
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
            match input.read(&mut self.buffer[self.end..until]) {
                Ok(0) => self.ended = Some(Ok(())),
                Ok(n) => self.end += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.ended = Some(Err(unreadable(error))),
            }
        }
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it stands where errors are mapped"
)]
fn unreadable(error: io::Error) -> String {
    format!("it cannot be read on from here: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records of these lengths, each full of its number.
    fn records(lengths: impl Iterator<Item = usize>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, length) in (0u8..=255).cycle().zip(lengths) {
            let word = u32::try_from(length).unwrap().to_be_bytes();
            bytes.extend(word);
            bytes.resize(bytes.len() + length - 8, number);
            bytes.extend(word);
        }
        bytes
    }

    /// Place, length and content of each record, and of what is not one the reason.
    fn told(bytes: &[u8], alone: bool) -> Vec<Result<(u64, usize, u8), RecordingDamage>> {
        let source = Box::new(io::Cursor::new(bytes.to_vec()));
        let mut frames = PcpFrameReader::new("f", source);
        if alone {
            let source = Box::new(io::Cursor::new(bytes.to_vec()));
            frames.input = PcpFrameSource::Alone(source);
        }
        let mut told = Vec::new();
        while let Some(frame) = frames.next(8) {
            told.push(frame.map(|frame| {
                let inner = &frame.bytes[4..frame.bytes.len() - 4];
                let content = inner.first().copied().unwrap_or_default();
                assert!(inner.iter().all(|byte| *byte == content));
                (frame.offset, frame.bytes.len(), content)
            }));
        }
        told
    }

    #[test]
    fn who_reads_ahead_finds_what_is_found_alone() {
        // Short ones, and some that do not fit into what is read at once.
        let length = |n: usize| {
            8 + n * 7919
                % if n.is_multiple_of(100) {
                    900_001
                } else {
                    9_001
                }
        };
        let whole = records((0..1500).map(length));
        assert!(whole.len() > 4 * ALONE_BYTES);
        let found = told(&whole, false);
        assert_eq!((found.len(), &found), (1500, &told(&whole, true)));
        let cut = &whole[..whole.len() - 5];
        let found = told(cut, false);
        assert!(matches!(found.last(), Some(Err(_))), "{:?}", found.last());
        assert_eq!(found, told(cut, true));
    }

    /// A source that is refused from its end on.
    struct Refused(io::Cursor<Vec<u8>>);

    impl Read for Refused {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            match self.0.read(into)? {
                0 => Err(io::Error::other("no more")),
                n => Ok(n),
            }
        }
    }

    #[test]
    fn what_is_refused_to_the_other_thread_is_damage_behind_all_that_came() {
        let bytes = records((0..3_000).map(|_| 1_000));
        let source = Box::new(Refused(io::Cursor::new(bytes)));
        let mut frames = PcpFrameReader::new("f", source);
        for _ in 0..3_000 {
            frames.next(8).unwrap().unwrap();
        }
        let damage = frames.next(8).unwrap().unwrap_err();
        assert_eq!(damage.offset, 3_000_000);
        assert!(damage.what.contains("no more"), "{damage}");
        assert!(frames.next(8).is_none());
    }
}
