// SPDX-License-Identifier: Apache-2.0
//! A foreign file in pieces: bytes and lines with their place in the file, bounded in memory.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use crate::compressed;
use crate::error::{RecordingDamage, TraceError};
use crate::utf16::{ByteOrder, FromUtf16};

/// Bytes that are read at once, and the longest line of most formats.
const PIECE_BYTES: usize = 256 << 10;
/// The longest line of formats with a column for every counter of every disk.
const WIDE_BYTES: usize = 64 << 20;
/// Bytes by which a format is recognised, at most.
pub(crate) const HEAD_BYTES: usize = 8 << 10;
/// Lines in a row that are not understood before the rest of a file is given up.
const WRONG_IN_A_ROW_MAX: u64 = 1000;
/// Of a quoted line.
const QUOTED_BYTES: usize = 80;

/// Byte order mark that editors and Windows put in front of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file that is read from its start to its end. Offsets are those of its decompressed bytes, in
/// UTF-8. A mark of the order of bytes in front is passed over.
pub struct RecordingInput {
    name: String,
    /// Where it lies, if it is a file.
    path: Option<PathBuf>,
    source: Box<dyn Read + Send>,
    /// Bytes read and not yet taken: `piece[from..to]`.
    piece: Vec<u8>,
    from: usize,
    to: usize,
    /// Offset of `piece[from]` in the file.
    offset: u64,
    at_end: bool,
    /// Whether the last line that was taken had an end.
    ended_by_line: bool,
    /// Where the first byte of zero stands, which no text has.
    zero_at: Option<u64>,
    /// Whether it is taken as text.
    is_text: bool,
}

impl fmt::Debug for RecordingInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingInput")
            .field("name", &self.name)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl RecordingInput {
    /// Opens a file, compressed or not, and reads its head.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> Result<RecordingInput, TraceError> {
        let name = path.display().to_string();
        let opened = File::open(path).and_then(compressed::opened);
        let source = opened.map_err(|source| TraceError::unread(path, source))?;
        let mut input = RecordingInput::new(name, source)?;
        input.path = Some(path.into());
        Ok(input)
    }

    /// The bytes of a file from anywhere, also for tests and fuzzing.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn new(name: String, source: Box<dyn Read + Send>) -> Result<RecordingInput, TraceError> {
        let mut input = RecordingInput {
            name,
            path: None,
            source,
            piece: vec![0; HEAD_BYTES],
            from: 0,
            to: 0,
            offset: 0,
            at_end: false,
            ended_by_line: true,
            zero_at: None,
            is_text: false,
        };
        input.read_until(HEAD_BYTES)?;
        let read = &input.piece[..input.to];
        if let Some(order) = ByteOrder::of(read) {
            // Bytes read so far are read once more, as text.
            let read = io::Cursor::new(read.to_vec());
            input.source = Box::new(FromUtf16::new(Box::new(read.chain(input.source)), order));
            (input.to, input.at_end, input.zero_at) = (0, false, None);
            input.read_until(HEAD_BYTES)?;
        }
        if input.piece[..input.to].starts_with(BYTE_ORDER_MARK) {
            input.from = BYTE_ORDER_MARK.len();
            input.offset = BYTE_ORDER_MARK.len() as u64;
        }
        Ok(input)
    }

    /// Name of the file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it lies; `None` for bytes from elsewhere.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Where in the file the next byte or line stands.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the last line that was taken had an end.
    pub(crate) fn ended_by_line(&self) -> bool {
        self.ended_by_line
    }

    /// Signs that a text did not come whole, as sentences.
    pub(crate) fn losses(&self) -> Vec<String> {
        let mut told = Vec::new();
        if let Some(at) = self.zero_at.filter(|_| self.is_text) {
            told.push(format!(
                "it has bytes of zero from byte {at} on, as a crash leaves them: what stood there is lost"
            ));
        }
        if !self.ended_by_line {
            told.push("its last line has no end, so it may be cut off".into());
        }
        told
    }

    /// Damage at a place of this file.
    pub(crate) fn damage(&self, offset: u64, what: impl Into<String>) -> RecordingDamage {
        RecordingDamage::new(&self.name, offset, what)
    }

    /// The first bytes that were not yet taken.
    pub(crate) fn head(&self) -> &[u8] {
        let end = self.to.min(self.from + HEAD_BYTES);
        &self.piece[self.from..end]
    }

    /// Takes the next `n` bytes (at most 64 KiB); fewer only at the end of the file.
    pub(crate) fn take(&mut self, n: usize) -> Result<&[u8], TraceError> {
        debug_assert!(n <= 64 << 10, "no record is so long");
        self.fill(n)?;
        let from = self.from;
        let taken = n.min(self.to - from);
        self.from += taken;
        self.offset += taken as u64;
        Ok(&self.piece[from..from + taken])
    }

    /// Takes the next line without its end and returns its offset; `None` at the end of the file. A
    /// line longer than 256 KiB comes in pieces of that length.
    pub(crate) fn line(&mut self) -> Result<Option<(u64, &[u8])>, TraceError> {
        self.line_of(PIECE_BYTES)
    }

    /// As [`RecordingInput::line`], for lines of up to 64 MiB.
    pub(crate) fn wide_line(&mut self) -> Result<Option<(u64, &[u8])>, TraceError> {
        self.line_of(WIDE_BYTES)
    }

    fn line_of(&mut self, longest: usize) -> Result<Option<(u64, &[u8])>, TraceError> {
        let mut searched = 0;
        let taken = loop {
            let held = &self.piece[self.from..self.to];
            // The library searches many bytes at once here, and only here.
            let mut rest = &held[searched..];
            let passed = rest.skip_until(b'\n').unwrap_or(0);
            let taken = searched + passed;
            if (taken > 0 && held[taken - 1] == b'\n') || self.at_end || taken >= longest {
                break taken;
            }
            searched = taken;
            if searched == self.piece.len() {
                self.piece.resize((2 * searched).min(longest), 0);
            }
            self.fill(searched + 1)?;
        };
        if taken == 0 {
            return Ok(None);
        }
        let (from, offset) = (self.from, self.offset);
        let has_end = self.piece[from + taken - 1] == b'\n';
        let length = taken - usize::from(has_end);
        // JSON and XML say themselves where they end.
        let last = self.piece[from + taken - 1];
        (self.is_text, self.ended_by_line) = (true, has_end || b"}]>".contains(&last));
        self.from += taken;
        self.offset += taken as u64;
        let line = &self.piece[from..from + length];
        Ok(Some((offset, line.strip_suffix(b"\r").unwrap_or(line))))
    }

    /// Reads until `wanted` bytes are held or the file ends.
    fn fill(&mut self, wanted: usize) -> Result<(), TraceError> {
        if self.to - self.from >= wanted || self.at_end {
            return Ok(());
        }
        self.piece.copy_within(self.from..self.to, 0);
        self.to -= self.from;
        self.from = 0;
        if self.piece.len() < PIECE_BYTES {
            // Only a reader that goes on behind the head needs the full length.
            self.piece.resize(PIECE_BYTES, 0);
        }
        self.read_until(wanted)
    }

    /// Reads until `wanted` bytes are held, which there is room for, or the file ends.
    fn read_until(&mut self, wanted: usize) -> Result<(), TraceError> {
        while self.to < wanted {
            match self.source.read(&mut self.piece[self.to..]) {
                Ok(0) => {
                    self.at_end = true;
                    break;
                }
                Ok(n) => {
                    let fresh = &self.piece[self.to..self.to + n];
                    if self.zero_at.is_none() && fresh.contains(&0) {
                        let before = fresh.iter().take_while(|byte| **byte != 0).count();
                        let at = self.to - self.from + before;
                        self.zero_at = Some(self.offset + at as u64);
                    }
                    self.to += n;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Of a compressed file it is cut or damaged; what came before says where.
                    let place = self.offset + (self.to - self.from) as u64;
                    let text = format!("{error}, after {place} bytes of its content");
                    let source = io::Error::new(error.kind(), text);
                    return Err(TraceError::unread(&self.name, source));
                }
            }
        }
        Ok(())
    }
}

/// Lines of a text that were not understood: their number, and the first of them.
#[derive(Debug, Default)]
pub(crate) struct WrongLines {
    count: u64,
    in_a_row: u64,
    first: Option<String>,
}

impl WrongLines {
    /// A line was understood.
    pub(crate) fn right(&mut self) {
        self.in_a_row = 0;
    }

    /// A line was not; returns what is wrong with the file when it is to be given up.
    pub(crate) fn wrong(&mut self, offset: u64, what: &str, line: &[u8]) -> Option<String> {
        self.count += 1;
        self.in_a_row += 1;
        if self.first.is_none() {
            let quoted = String::from_utf8_lossy(&line[..line.len().min(QUOTED_BYTES)]);
            self.first = Some(format!("at byte {offset}: {what}: {quoted}"));
        }
        (self.in_a_row >= WRONG_IN_A_ROW_MAX)
            .then(|| format!("{WRONG_IN_A_ROW_MAX} lines in a row are not understood"))
    }

    /// The sentence for the reader at the end, once; of a file of which `nothing` was understood an
    /// error.
    pub(crate) fn finish(
        &mut self,
        file: &str,
        nothing: bool,
    ) -> Result<Option<String>, TraceError> {
        let first = self.first.take();
        if nothing {
            let what = match first {
                Some(first) => format!("no line of it is understood; the first {first}"),
                None => "nothing is recorded in it".into(),
            };
            return Err(TraceError::format(file, what));
        }
        let count = self.count;
        Ok(first.map(|first| {
            format!("{count} lines were not understood and left out, the first {first}")
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes a few at a time, as a pipe may.
    struct Drip(Vec<u8>, usize);

    impl Read for Drip {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(into.len());
            into[..n].copy_from_slice(&self.0[..n]);
            self.0.drain(..n);
            Ok(n)
        }
    }

    fn lines(bytes: &[u8], drip: usize) -> Vec<(u64, Vec<u8>)> {
        let mut input =
            RecordingInput::new("f".into(), Box::new(Drip(bytes.to_vec(), drip))).unwrap();
        let mut found = Vec::new();
        while let Some((offset, line)) = input.line().unwrap() {
            found.push((offset, line.to_vec()));
        }
        found
    }

    #[test]
    fn lines_come_with_their_offsets_however_the_bytes_come() {
        for drip in [1, 3, 1000] {
            let found = lines(b"one\r\n\ntwo", drip);
            let expect = [(0, &b"one"[..]), (5, b""), (6, b"two")];
            let expect: Vec<_> = expect.map(|(at, line)| (at, line.to_vec())).into();
            assert_eq!(found, expect, "{drip}");
        }
        assert!(lines(b"", 1).is_empty());
    }

    #[test]
    fn marks_of_the_order_of_bytes_and_utf_16_are_no_matter_to_readers() {
        assert_eq!(lines(b"\xef\xbb\xbfone\r\ntwo", 2)[0], (3, b"one".to_vec()));
        let text = "Zeit;Gr\u{f6}\u{df}e\r\n1;2\r\n".repeat(2_000);
        for order in [u16::to_le_bytes, u16::to_be_bytes] {
            let marked = "\u{feff}".encode_utf16().chain(text.encode_utf16());
            let bytes: Vec<u8> = marked.flat_map(order).collect();
            let found = lines(&bytes, 777);
            let expect: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
            assert_eq!(
                found.iter().map(|(_, l)| &l[..]).collect::<Vec<_>>(),
                expect
            );
        }
        // Any other bytes that begin so stay as they are.
        let other = b"\xff\xfe\x80\x90\xa1\xb2\xc3\xd4 binary";
        assert_eq!(lines(other, 100), [(0, other.to_vec())]);
    }

    #[test]
    fn a_line_without_an_end_is_bounded() {
        let found = lines(&vec![b'x'; PIECE_BYTES + 5], 100_000);
        let lengths: Vec<usize> = found.iter().map(|(_, line)| line.len()).collect();
        assert_eq!(lengths, [PIECE_BYTES, 5]);
    }

    #[test]
    fn records_are_whole_but_for_the_last() {
        let mut input =
            RecordingInput::new("f".into(), Box::new(Drip((0..10).collect(), 3))).unwrap();
        assert_eq!(input.head(), &(0..10).collect::<Vec<u8>>()[..]);
        assert_eq!(input.take(4).unwrap(), [0, 1, 2, 3]);
        assert_eq!(input.take(4).unwrap(), [4, 5, 6, 7]);
        assert_eq!(input.offset(), 8);
        assert_eq!(input.take(4).unwrap(), [8, 9]);
        assert!(input.take(4).unwrap().is_empty());
    }
}
