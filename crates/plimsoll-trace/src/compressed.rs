// SPDX-License-Identifier: Apache-2.0
//! Compressed files, recognized by their first bytes and decompressed while they are read.
//!
//! Memory of a decoder is bounded: a header can claim any amount.

mod blocks;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

use self::blocks::XzBlockReader;

/// Most memory for what was decoded before: `xz -9` needs 65 MiB, `zstd --ultra -22` 128 MiB.
const REMEMBERED_BYTES_MAX: u64 = 130 << 20;
/// Most threads that decode the blocks of a file of xz; each holds one, before and after.
const THREADS_MAX: usize = 4;
/// Bytes of a compressed file that are read at once, and of a block that are decoded at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes that identify every method.
const MAGIC_BYTES: usize = 6;
const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";
/// Of the predecessor of xz, which PCP used once.
const LZMA_MAGIC: &[u8] = &[0x5d, 0, 0];
const BZIP2_MAGIC: &[u8] = b"BZh";
const GZIP_MAGIC: &[u8] = b"\x1f\x8b";
const ZSTD_MAGIC: &[u8] = b"\x28\xb5\x2f\xfd";
/// Most frames in a row of a zstd file that hold nothing.
const FRAMES_SKIPPED_MAX: u32 = 1_000;

/// The bytes of a file that may be compressed, as they were before. `file` stands at its front.
///
/// # Errors
/// When it cannot be read, or its header asks for too much memory.
pub fn opened(file: File) -> io::Result<Box<dyn Read + Send>> {
    match XzBlockReader::of(&file) {
        Some(blocks) => Ok(Box::new(blocks)),
        None => decompressed(file),
    }
}

/// As [`opened`], of bytes from anywhere.
pub(crate) fn decompressed(
    mut input: impl Read + Send + 'static,
) -> io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::with_capacity(MAGIC_BYTES);
    input
        .by_ref()
        .take(MAGIC_BYTES as u64)
        .read_to_end(&mut magic)?;
    let is = |method: &[u8]| magic.starts_with(method);
    let whole = Cursor::new(magic.clone()).chain(input);
    if ![XZ_MAGIC, LZMA_MAGIC, BZIP2_MAGIC, GZIP_MAGIC, ZSTD_MAGIC]
        .into_iter()
        .any(is)
    {
        return Ok(Box::new(whole));
    }
    let whole = BufReader::with_capacity(READ_BYTES, whole);
    Ok(if is(XZ_MAGIC) {
        Box::new(Xz(Some(XzDecoder::new_stream(whole, xz_stream()?))))
    } else if is(LZMA_MAGIC) {
        let stream = Stream::new_lzma_decoder(REMEMBERED_BYTES_MAX)?;
        Box::new(XzDecoder::new_stream(whole, stream))
    } else if is(BZIP2_MAGIC) {
        Box::new(MultiBzDecoder::new(whole))
    } else if is(GZIP_MAGIC) {
        Box::new(MultiGzDecoder::new(whole))
    } else {
        Box::new(Zstd::new(whole))
    })
}

/// A decoder of one stream of xz.
fn xz_stream() -> io::Result<Stream> {
    Ok(Stream::new_stream_decoder(REMEMBERED_BYTES_MAX, 0)?)
}

/// All streams of an xz file, one after the other; `None` behind the last one.
struct Xz<R>(Option<XzDecoder<R>>);

impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while let Some(stream) = &mut self.0 {
            let taken = stream.read(out)?;
            if taken > 0 || out.is_empty() {
                return Ok(taken);
            }
            let source = stream.get_mut();
            // Zeros may stand between two streams. Each round consumes some, or is the last.
            loop {
                let held = source.fill_buf()?;
                let zeros = held.iter().take_while(|byte| **byte == 0).count();
                if zeros == 0 {
                    break;
                }
                source.consume(zeros);
            }
            let has_more = !source.fill_buf()?.is_empty();
            self.0 = match self.0.take() {
                Some(stream) if has_more => {
                    Some(XzDecoder::new_stream(stream.into_inner(), xz_stream()?))
                }
                _ => None,
            };
        }
        Ok(0)
    }
}

/// All frames of a zstd file, one after the other, their checksums checked.
struct Zstd<R> {
    source: R,
    frame: FrameDecoder,
    within: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(source: R) -> Self {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(REMEMBERED_BYTES_MAX);
        Zstd {
            source,
            frame,
            within: false,
        }
    }

    /// Begins the next frame; false at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        for _ in 0..FRAMES_SKIPPED_MAX {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.frame.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = self.source.by_ref().take(length.into());
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Err(io::Error::other("too many frames have no content"))
    }

    fn end(&mut self) -> io::Result<()> {
        self.within = false;
        let stated = self.frame.get_checksum_from_data();
        if stated.is_some() && stated != self.frame.get_calculated_checksum() {
            return Err(io::Error::other("the checksum of a frame is wrong"));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::BlockDecodingStrategy::UptoBlocks;
        loop {
            if !self.within {
                self.within = self.begin()?;
                if !self.within {
                    return Ok(0);
                }
            }
            let taken = self.frame.read(out)?;
            if taken > 0 || out.is_empty() {
                return Ok(taken);
            }
            if self.frame.is_finished() {
                self.end()?;
            } else {
                // Every block consumes at least its header.
                let decoded = self.frame.decode_blocks(&mut self.source, UptoBlocks(1));
                decoded.map_err(io::Error::other)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Bytes that can be made much shorter, but not to nothing.
    fn plain() -> Vec<u8> {
        let numbers = (0u32..200_000).map(|n| n / 7 * 11);
        numbers.flat_map(u32::to_be_bytes).collect()
    }

    fn compressed(plain: &[u8]) -> [(&'static str, Vec<u8>); 5] {
        let level = flate2::Compression::fast();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
        gzip.write_all(plain).unwrap();
        let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bzip2.write_all(plain).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 0);
        xz.write_all(plain).unwrap();
        let options = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
        let lzma = Stream::new_lzma_encoder(&options).unwrap();
        let mut lzma = liblzma::write::XzEncoder::new_stream(Vec::new(), lzma);
        lzma.write_all(plain).unwrap();
        let fast = ruzstd::encoding::CompressionLevel::Fastest;
        [
            ("gzip", gzip.finish().unwrap()),
            ("bzip2", bzip2.finish().unwrap()),
            ("xz", xz.finish().unwrap()),
            ("lzma", lzma.finish().unwrap()),
            ("zstd", ruzstd::encoding::compress_to_vec(plain, fast)),
        ]
    }

    fn all(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        decompressed(Cursor::new(bytes))?.read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn what_was_compressed_comes_out_and_damage_is_an_error() {
        let plain = plain();
        assert_eq!(all(plain.clone()).unwrap(), plain);
        assert_eq!(all(vec![1, 2, 3]).unwrap(), [1, 2, 3]);
        for (name, bytes) in compressed(&plain) {
            assert!(bytes.len() < plain.len() / 2, "{name} makes it shorter");
            assert_eq!(all(bytes.clone()).unwrap(), plain, "{name}");
            let half = bytes[..bytes.len() / 2].to_vec();
            assert!(all(half).is_err(), "{name} is cut");
            // The old format has neither checksum nor several streams in a file.
            if name != "lzma" {
                let twice = [bytes.clone(), bytes.clone()].concat();
                assert_eq!(all(twice).unwrap().len(), 2 * plain.len(), "{name}");
                let mut flipped = bytes.clone();
                flipped[bytes.len() * 2 / 3] ^= 0x10;
                assert!(all(flipped).is_err(), "{name} is damaged");
            }
        }
    }

    /// As PCP's scripts make them: blocks whose headers have no length.
    fn in_blocks(plain: &[u8], block_bytes: usize) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
        for block in plain.chunks(block_bytes) {
            encoder.write_all(block).unwrap();
            encoder.flush().unwrap();
        }
        encoder.finish().unwrap()
    }

    /// Decoded bytes of a file on disk, the error that ended them if any, and whether its blocks
    /// were decoded in parallel.
    fn of_file(bytes: &[u8]) -> (Vec<u8>, Option<String>, bool) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        io::Seek::rewind(&mut file).unwrap();
        let at_once = XzBlockReader::of(&file).is_some();
        let mut found = Vec::new();
        let end = opened(file).unwrap().read_to_end(&mut found);
        (found, end.err().map(|error| error.to_string()), at_once)
    }

    #[test]
    fn blocks_of_a_file_are_decoded_at_once_and_come_in_order() {
        if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
            let mut stderr = io::stderr();
            writeln!(
                stderr,
                "SKIPPED: blocks at once: there is but one processor"
            )
            .unwrap();
            return;
        }
        let plain = plain();
        for block_bytes in [100_000, 99_999, 400_000] {
            let found = of_file(&in_blocks(&plain, block_bytes));
            assert_eq!(found, (plain.clone(), None, true), "{block_bytes}");
        }
        let one = in_blocks(&plain, plain.len());
        assert_eq!(of_file(&one), (plain.clone(), None, false), "one block");
        let mut twice = in_blocks(&plain, 100_000);
        twice.extend(twice.clone());
        let (found, error, at_once) = of_file(&twice);
        assert_eq!(
            (found.len(), error, at_once),
            (2 * plain.len(), None, false)
        );
    }

    #[test]
    fn what_stands_before_damage_is_kept_whoever_decodes() {
        let plain = plain();
        let whole = in_blocks(&plain, 100_000);
        let in_order = |bytes: &[u8]| {
            let mut found = Vec::new();
            let source = decompressed(Cursor::new(bytes.to_vec())).unwrap();
            let error = { source }.read_to_end(&mut found).err();
            (found, error.map(|error| error.to_string()))
        };
        // Cut, within a block, and of another length than the index says.
        let mut bad = vec![whole[..whole.len() / 2].to_vec()];
        for place in [whole.len() / 2, whole.len() - 20, whole.len() - 3] {
            let mut flipped = whole.clone();
            flipped[place] ^= 0x10;
            bad.push(flipped);
        }
        for bytes in bad {
            let (found, error, _) = of_file(&bytes);
            let (expected, reason) = in_order(&bytes);
            assert!(plain.starts_with(&found) && plain.starts_with(&expected));
            assert!(found.len() + 2 * READ_BYTES > expected.len());
            assert_eq!(error, reason);
            assert!(error.is_some());
        }
    }

    #[test]
    fn zeros_between_streams_of_xz_are_skipped_and_rubbish_is_not() {
        let plain = plain();
        let [_, _, (_, xz), ..] = compressed(&plain);
        let padded = [&xz[..], &[0; 8], &xz, &[0; 4]].concat();
        assert_eq!(all(padded).unwrap().len(), 2 * plain.len());
        assert!(all([&xz[..], b"rubbish"].concat()).is_err());
    }

    #[test]
    fn a_zstd_frame_without_content_is_skipped() {
        let plain = plain();
        let [.., (_, zstd)] = compressed(&plain);
        let empty = b"\x50\x2a\x4d\x18\x03\0\0\0abc";
        let bytes = [&zstd[..], empty, &zstd].concat();
        assert_eq!(all(bytes).unwrap().len(), 2 * plain.len());
    }

    #[test]
    fn a_header_that_asks_for_too_much_memory_is_refused() {
        // The old format states its memory in plain: 1 GiB, unknown length.
        let mut lzma = vec![0x5d, 0, 0, 0, 0x40];
        lzma.extend([0xff; 8]);
        lzma.extend([0; 32]);
        assert!(all(lzma).is_err());
        // A zstd frame with a window of 2 GiB.
        assert!(all(b"\x28\xb5\x2f\xfd\0\xa8\x01\0\0".to_vec()).is_err());
    }
}
