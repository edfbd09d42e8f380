// SPDX-License-Identifier: Apache-2.0
//! A file of xz of several blocks, some of which are decoded at once.
//!
//! liblzma decodes blocks side by side only where their headers have their lengths, and those of a file that
//! one thread compressed do not, as PCP's own scripts make them. The index behind the blocks does in every
//! file. Each block is given to a decoder as a file of its own, with an index of one entry, so the checks of
//! a whole file also apply here: the checksums of the blocks, and their lengths against the index. A file
//! without an index that can be used is read from front to back, which finds what is wrong with it.
//!
//! Source of the format: "The .xz File Format", version 1.2.1, sections 2 and 4.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use flate2::Crc;
use liblzma::bufread::XzDecoder;
use plimsoll_core::num::{saturating_u32, to_usize};

use super::{READ_BYTES, REMEMBERED_BYTES_MAX, THREADS_MAX, XZ_MAGIC, xz_stream};

/// Of a header and of a footer.
const EDGE_BYTES: usize = 12;
/// Last bytes of a footer.
const FOOTER_MAGIC: &[u8] = b"YZ";
/// The longest index that is used: one of some hundred thousand blocks.
const INDEX_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the longest number in an index: seven bits each.
const NUMBER_BYTES_MAX: usize = 9;

/// A file whose blocks are being decoded, in their order.
pub(super) struct XzBlockReader {
    /// Each decodes one block, then the one that is as many further on as there are threads.
    threads: Vec<Receiver<Plain>>,
    /// The number of the next block.
    next: usize,
    n_blocks: usize,
    now: Plain,
    /// Bytes taken of the current block.
    taken: usize,
}

/// A decoded block, or what could be decoded of it.
struct Plain {
    bytes: Vec<u8>,
    end: io::Result<()>,
}

/// The layout of a file.
#[derive(Debug)]
struct XzLayout {
    /// The header of the file.
    header: [u8; EDGE_BYTES],
    blocks: Vec<XzBlockEntry>,
}

/// Where a block lies, and what the index says of it.
#[derive(Debug, Clone, Copy)]
struct XzBlockEntry {
    at: u64,
    /// Without padding.
    bytes: u64,
    plain_bytes: u64,
}

impl XzBlockReader {
    /// Begins to decode `file`; `None` where it is not one of several blocks, there is but one
    /// processor, or it would take too much memory.
    pub(super) fn of(file: &File) -> Option<XzBlockReader> {
        let layout = XzLayout::read(file)?;
        let largest = (layout.blocks.iter()).map(|block| block.bytes.max(block.plain_bytes));
        // Before and after.
        let held = largest.max()?.saturating_mul(2).max(1);
        // One more than those that are decoded is being read.
        let fit = to_usize((REMEMBERED_BYTES_MAX / held).saturating_sub(1));
        let n = thread::available_parallelism().map_or(1, usize::from);
        let n = n.min(THREADS_MAX).min(fit).min(layout.blocks.len());
        if n < 2 {
            return None;
        }
        let n_blocks = layout.blocks.len();
        let file = Arc::new(file.try_clone().ok()?);
        let layout = Arc::new(layout);
        let mut threads = Vec::new();
        for first in 0..n {
            let (give, decoded) = mpsc::sync_channel(0);
            let (file, layout) = (Arc::clone(&file), Arc::clone(&layout));
            let decode = move || {
                for block in layout.blocks.iter().skip(first).step_by(n) {
                    let plain = layout.decode(&file, *block);
                    let is_last = plain.end.is_err();
                    if give.send(plain).is_err() || is_last {
                        return;
                    }
                }
            };
            thread::Builder::new().spawn(decode).ok()?;
            threads.push(decoded);
        }
        Some(XzBlockReader {
            threads,
            next: 0,
            n_blocks,
            now: Plain {
                bytes: Vec::new(),
                end: Ok(()),
            },
            taken: 0,
        })
    }
}

impl Read for XzBlockReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.now.bytes.len() {
            if let Err(error) = std::mem::replace(&mut self.now.end, Ok(())) {
                // Nothing behind damage is read.
                self.n_blocks = self.next;
                return Err(error);
            }
            if self.next == self.n_blocks {
                return Ok(0);
            }
            let decoded = self.threads[self.next % self.threads.len()].recv();
            self.now = decoded.map_err(|_| io::Error::other("its decoder is gone"))?;
            self.taken = 0;
            self.next += 1;
        }
        let left = &self.now.bytes[self.taken..];
        let n = left.len().min(out.len());
        out[..n].copy_from_slice(&left[..n]);
        self.taken += n;
        Ok(n)
    }
}

impl XzLayout {
    /// Of a file that is one stream of several blocks and nothing else.
    fn read(file: &File) -> Option<XzLayout> {
        let length = file.metadata().ok()?.len();
        let mut header = [0; EDGE_BYTES];
        file.read_exact_at(&mut header, 0).ok()?;
        let mut footer = [0; EDGE_BYTES];
        let footer_at = length.checked_sub(EDGE_BYTES as u64)?;
        file.read_exact_at(&mut footer, footer_at).ok()?;
        let is_whole = header.starts_with(XZ_MAGIC)
            && footer.ends_with(FOOTER_MAGIC)
            && header[6..8] == footer[8..10]
            && word(&footer) == crc(&footer[4..10]);
        if !is_whole {
            return None;
        }
        let index_bytes = (u64::from(word(&footer[4..])) + 1) * 4;
        let index_at = footer_at.checked_sub(index_bytes)?;
        if index_bytes > INDEX_BYTES_MAX {
            return None;
        }
        let mut index = vec![0; to_usize(index_bytes)];
        file.read_exact_at(&mut index, index_at).ok()?;
        let (body, sum) = index.split_at_checked(index.len() - 4)?;
        if crc(body) != word(sum) {
            return None;
        }
        let blocks = blocks(body)?;
        let last = blocks.last()?;
        let end = last.at.checked_add(last.padded()?)?;
        (end == index_at).then_some(XzLayout { header, blocks })
    }

    /// Decodes a block as a file of its own.
    fn decode(&self, file: &File, block: XzBlockEntry) -> Plain {
        // One byte more than there should be, so that the end is seen, and checked.
        let mut bytes = vec![0; to_usize(block.plain_bytes) + 1];
        let mut decoded = 0;
        let end = self.alone(file, block).and_then(|alone| {
            let mut decoder = XzDecoder::new_stream(&alone[..], xz_stream()?);
            while decoded < bytes.len() {
                // Bytes decoded together with damage are lost, so few are asked for at once.
                let until = bytes.len().min(decoded + READ_BYTES);
                match decoder.read(&mut bytes[decoded..until])? {
                    0 => break,
                    n => decoded += n,
                }
            }
            match decoded as u64 == block.plain_bytes {
                true => Ok(()),
                false => Err(io::Error::other("a block is not as long as the index says")),
            }
        });
        bytes.truncate(decoded.min(to_usize(block.plain_bytes)));
        Plain { bytes, end }
    }

    /// The file of one block.
    fn alone(&self, file: &File, block: XzBlockEntry) -> io::Result<Vec<u8>> {
        let padded = to_usize(block.bytes.next_multiple_of(4));
        let mut alone = vec![0; EDGE_BYTES + padded];
        let (header, body) = alone.split_at_mut(EDGE_BYTES);
        header.copy_from_slice(&self.header);
        file.read_exact_at(body, block.at)?;
        let index_at = alone.len();
        // The mark of an index, and that it has one entry.
        alone.extend([0, 1]);
        put(&mut alone, block.bytes);
        put(&mut alone, block.plain_bytes);
        alone.resize(alone.len().next_multiple_of(4), 0);
        let sum = crc(&alone[index_at..]);
        alone.extend(sum.to_le_bytes());
        let quads = (alone.len() - index_at) / 4 - 1;
        let mut edge = Vec::with_capacity(6);
        edge.extend(saturating_u32(quads as u64).to_le_bytes());
        edge.extend(&self.header[6..8]);
        alone.extend(crc(&edge).to_le_bytes());
        alone.extend(edge);
        alone.extend(FOOTER_MAGIC);
        Ok(alone)
    }
}

impl XzBlockEntry {
    fn padded(self) -> Option<u64> {
        self.bytes.checked_next_multiple_of(4)
    }
}

/// Blocks that an index without its checksum lists; `None` if it is invalid or lists below two.
fn blocks(index: &[u8]) -> Option<Vec<XzBlockEntry>> {
    let (&[mark], mut rest) = index.split_first_chunk()?;
    if mark != 0 {
        return None;
    }
    let count = number(&mut rest)?;
    let (mut blocks, mut at) = (Vec::new(), EDGE_BYTES as u64);
    for _ in 0..count {
        let (bytes, plain_bytes) = (number(&mut rest)?, number(&mut rest)?);
        let block = XzBlockEntry {
            at,
            bytes,
            plain_bytes,
        };
        at = at.checked_add(block.padded()?)?;
        blocks.push(block);
    }
    let is_padding = rest.len() < 4 && rest.iter().all(|byte| *byte == 0);
    (is_padding && blocks.len() > 1).then_some(blocks)
}

/// Takes a number: seven bits in each byte, the lowest first, the eighth says that there are more.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..NUMBER_BYTES_MAX {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// The opposite of [`number`].
fn put(into: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            into.push(low & 0x7f);
            return;
        }
        into.push(low | 0x80);
    }
}

fn word(bytes: &[u8]) -> u32 {
    let word = bytes.first_chunk().copied();
    word.map_or(0, u32::from_le_bytes)
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}
