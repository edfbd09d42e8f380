// SPDX-License-Identifier: Apache-2.0
//! Text in UTF-16, which PowerShell writes, as UTF-8.

use std::io::{self, Read};

/// Bytes that are translated at once.
const PIECE_BYTES: usize = 16 << 10;
/// Units behind the mark that are looked at.
const LOOKED_AT: usize = 64;

/// Which byte of a unit comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// That of a text that begins so; `None` when it does not look like UTF-16. Foreign binary files
    /// may begin with the mark by chance, so most of what follows it must be plain letters.
    pub(crate) fn of(head: &[u8]) -> Option<ByteOrder> {
        let (order, rest) = match head {
            [0xff, 0xfe, rest @ ..] => (ByteOrder::Little, rest),
            [0xfe, 0xff, rest @ ..] => (ByteOrder::Big, rest),
            _ => return None,
        };
        let units = rest.as_chunks().0.iter().take(LOOKED_AT);
        let units: Vec<u16> = units.map(|unit| order.unit(*unit)).collect();
        let is_plain = |unit: &&u16| matches!(**unit, 9 | 10 | 13 | 32..=126);
        let plain = units.iter().filter(is_plain).count();
        (!units.is_empty() && 2 * plain >= units.len()).then_some(order)
    }

    fn unit(self, bytes: [u8; 2]) -> u16 {
        match self {
            ByteOrder::Little => u16::from_le_bytes(bytes),
            ByteOrder::Big => u16::from_be_bytes(bytes),
        }
    }
}

/// Translates while it is read. What is no text becomes a replacement character.
pub(crate) struct FromUtf16 {
    source: Box<dyn Read + Send>,
    order: ByteOrder,
    raw: Vec<u8>,
    /// The first half of a unit or a pair that is not complete yet, at the front of `raw`.
    kept: usize,
    text: Vec<u8>,
    taken: usize,
}

impl FromUtf16 {
    pub(crate) fn new(source: Box<dyn Read + Send>, order: ByteOrder) -> FromUtf16 {
        FromUtf16 {
            source,
            order,
            raw: vec![0; PIECE_BYTES],
            kept: 0,
            text: Vec::new(),
            taken: 0,
        }
    }

    /// Translates the next piece; of an empty one nothing follows.
    fn fill(&mut self) -> io::Result<()> {
        (self.taken, self.text) = (0, Vec::new());
        // A round that leaves no text has read half of a character at least.
        while self.text.is_empty() {
            let read = self.source.read(&mut self.raw[self.kept..])?;
            let end = self.kept + read;
            let mut whole = end - end % 2;
            let is_first_half = |unit: u16| (0xd800..0xdc00).contains(&unit);
            let order = self.order;
            let units = self.raw[..whole].as_chunks().0.iter();
            let units: Vec<u16> = units.map(|unit| order.unit(*unit)).collect();
            let mut taken = &units[..];
            if let [before @ .., last] = taken
                && is_first_half(*last)
                && read > 0
            {
                taken = before;
                whole -= 2;
            }
            let text: String = char::decode_utf16(taken.iter().copied())
                .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
                .collect();
            self.text = text.into_bytes();
            self.raw.copy_within(whole..end, 0);
            self.kept = end - whole;
            if read == 0 {
                self.kept = 0;
                break;
            }
        }
        Ok(())
    }
}

impl Read for FromUtf16 {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.text.len() {
            self.fill()?;
        }
        let n = into.len().min(self.text.len() - self.taken);
        into[..n].copy_from_slice(&self.text[self.taken..self.taken + n]);
        self.taken += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_and_halves_come_out_however_they_are_cut() {
        let text = "a\u{1f4be}b\u{e4}";
        let mut bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let cut = [&bytes[..], &[0x3d, 0xd8, 0x41]].concat();
        bytes.truncate(bytes.len());
        for (bytes, expect) in [(bytes, text.to_owned()), (cut, format!("{text}\u{fffd}"))] {
            let halves = bytes.iter().map(|byte| io::Cursor::new(vec![*byte]));
            let mut source: Box<dyn Read + Send> = Box::new(io::empty());
            for half in halves {
                source = Box::new(source.chain(half));
            }
            let mut read = String::new();
            FromUtf16::new(source, ByteOrder::Little)
                .read_to_string(&mut read)
                .unwrap();
            assert_eq!(read, expect);
        }
    }
}
