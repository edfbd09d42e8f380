// SPDX-License-Identifier: Apache-2.0
//! The bytes of a region of a log, decompressed: of each process that wrote to it a stream of its own, one
//! behind the other.

use std::io::{self, BufRead, BufReader, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::ZlibDecoder;

use crate::input::RecordingInput;

/// Bytes that are taken from the file at once.
const TAKEN_MAX: u64 = 64 << 10;

/// Where a region lies in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogRegion {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// How regions are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogCompression {
    Zlib,
    Bzip2,
    None,
}

/// The compressed bytes of a region, of a file that stands at its front.
pub(super) struct RegionBytes<'a> {
    input: &'a mut RecordingInput,
    left: u64,
}

impl Read for RegionBytes<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let wanted = self.left.min(TAKEN_MAX).min(into.len() as u64);
        let wanted = usize::try_from(wanted).unwrap_or(0);
        let taken = self.input.take(wanted).map_err(io::Error::other)?;
        into[..taken.len()].copy_from_slice(taken);
        self.left -= taken.len() as u64;
        Ok(taken.len())
    }
}

pub(super) type BufferedRegion<'a> = BufReader<RegionBytes<'a>>;

/// A region that is read from its start to its end.
pub(super) enum LogStream<'a> {
    /// `None` when its end was met.
    Zlib(Option<ZlibDecoder<BufferedRegion<'a>>>),
    Bzip2(MultiBzDecoder<BufferedRegion<'a>>),
    Plain(BufferedRegion<'a>),
}

impl<'a> LogStream<'a> {
    /// Goes to a region; an error says what is wrong with it.
    pub(super) fn open(
        input: &'a mut RecordingInput,
        region: LogRegion,
        method: LogCompression,
    ) -> io::Result<LogStream<'a>> {
        let Some(mut rest) = region.offset.checked_sub(input.offset()) else {
            return Err(io::Error::other("its regions overlap"));
        };
        while rest > 0 {
            let wanted = usize::try_from(rest.min(TAKEN_MAX)).unwrap_or(0);
            let passed = input.take(wanted).map_err(io::Error::other)?.len();
            if passed == 0 {
                return Err(io::Error::other("it ends before its traces"));
            }
            rest -= passed as u64;
        }
        let bytes = RegionBytes {
            input,
            left: region.length,
        };
        let bytes = BufReader::new(bytes);
        Ok(match method {
            LogCompression::Zlib => LogStream::Zlib(Some(ZlibDecoder::new(bytes))),
            LogCompression::Bzip2 => LogStream::Bzip2(MultiBzDecoder::new(bytes)),
            LogCompression::None => LogStream::Plain(bytes),
        })
    }

    /// Fills `into`; fewer bytes only at the end of the region.
    pub(super) fn fill(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.read(&mut into[filled..])? {
                0 => break,
                n => filled += n,
            }
        }
        Ok(filled)
    }
}

impl Read for LogStream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let zlib = match self {
            LogStream::Bzip2(bytes) => return bytes.read(into),
            LogStream::Plain(bytes) => return bytes.read(into),
            LogStream::Zlib(zlib) => zlib,
        };
        while let Some(decoder) = zlib {
            let read = decoder.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            // The next process's stream follows, if there is one.
            let mut bytes = zlib.take().map(ZlibDecoder::into_inner);
            if let Some(rest) = &mut bytes
                && rest.fill_buf()?.is_empty()
            {
                break;
            }
            *zlib = bytes.map(ZlibDecoder::new);
        }
        Ok(0)
    }
}
