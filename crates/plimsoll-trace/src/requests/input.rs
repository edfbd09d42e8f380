// SPDX-License-Identifier: Apache-2.0
//! A foreign file in pieces: bytes and lines with their place in the file, bounded in memory.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::error::{Damage, TraceError};

/// Bytes that are read at once, and the longest line.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes by which a format is recognised, at most.
pub(super) const HEAD_BYTES: usize = 8 << 10;

/// A file that is read from its start to its end. Offsets are those of its unpacked bytes.
pub struct Input {
    name: String,
    source: Box<dyn Read + Send>,
    /// What was read and not yet taken: `piece[from..to]`.
    piece: Vec<u8>,
    from: usize,
    to: usize,
    /// Offset of `piece[from]` in the file.
    offset: u64,
    at_end: bool,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("name", &self.name)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl Input {
    /// Opens a file and reads its head.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(path: &Path) -> Result<Input, TraceError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|source| TraceError::Read {
            file: name.clone(),
            source,
        })?;
        Input::new(name, Box::new(file))
    }

    /// The bytes of a file from anywhere. For tests and fuzzing, too.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn new(name: String, source: Box<dyn Read + Send>) -> Result<Input, TraceError> {
        let mut input = Input {
            name,
            source,
            piece: vec![0; PIECE_BYTES],
            from: 0,
            to: 0,
            offset: 0,
            at_end: false,
        };
        input.fill(HEAD_BYTES)?;
        Ok(input)
    }

    /// What the file is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where in the file the next byte or line stands.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Damage at a place of this file.
    pub(super) fn damage(&self, offset: u64, what: impl Into<String>) -> Damage {
        Damage {
            file: self.name.clone(),
            offset,
            what: what.into(),
        }
    }

    /// The first bytes that were not yet taken.
    pub(super) fn head(&self) -> &[u8] {
        let end = self.to.min(self.from + HEAD_BYTES);
        &self.piece[self.from..end]
    }

    /// Takes the next `n` bytes (at most 64 KiB); fewer only at the end of the file.
    pub(super) fn take(&mut self, n: usize) -> Result<&[u8], TraceError> {
        debug_assert!(n <= 64 << 10, "no record is so long");
        self.fill(n)?;
        let from = self.from;
        let taken = n.min(self.to - from);
        self.from += taken;
        self.offset += taken as u64;
        Ok(&self.piece[from..from + taken])
    }

    /// Takes the next line without its end and tells its offset; `None` at the end of the file. A
    /// line longer than 256 KiB comes in pieces of that length.
    pub(super) fn line(&mut self) -> Result<Option<(u64, &[u8])>, TraceError> {
        let mut searched = 0;
        let length = loop {
            let held = &self.piece[self.from..self.to];
            match held[searched..].iter().position(|byte| *byte == b'\n') {
                Some(at) => break searched + at,
                None if self.at_end || held.len() == PIECE_BYTES => break held.len(),
                None => {
                    searched = held.len();
                    self.fill(searched + 1)?;
                }
            }
        };
        if length == 0 && self.from == self.to {
            return Ok(None);
        }
        let (from, offset) = (self.from, self.offset);
        let has_end = from + length < self.to;
        let taken = length + usize::from(has_end);
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
        while self.to < wanted {
            match self.source.read(&mut self.piece[self.to..]) {
                Ok(0) => {
                    self.at_end = true;
                    break;
                }
                Ok(n) => self.to += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(TraceError::Read {
                        file: self.name.clone(),
                        source,
                    });
                }
            }
        }
        Ok(())
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
        let mut input = Input::new("f".into(), Box::new(Drip(bytes.to_vec(), drip))).unwrap();
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
    fn a_line_without_an_end_is_bounded() {
        let found = lines(&vec![b'x'; PIECE_BYTES + 5], 100_000);
        let lengths: Vec<usize> = found.iter().map(|(_, line)| line.len()).collect();
        assert_eq!(lengths, [PIECE_BYTES, 5]);
    }

    #[test]
    fn records_are_whole_but_for_the_last() {
        let mut input = Input::new("f".into(), Box::new(Drip((0..10).collect(), 3))).unwrap();
        assert_eq!(input.head(), &(0..10).collect::<Vec<u8>>()[..]);
        assert_eq!(input.take(4).unwrap(), [0, 1, 2, 3]);
        assert_eq!(input.take(4).unwrap(), [4, 5, 6, 7]);
        assert_eq!(input.offset(), 8);
        assert_eq!(input.take(4).unwrap(), [8, 9]);
        assert!(input.take(4).unwrap().is_empty());
    }
}
