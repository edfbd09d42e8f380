// SPDX-License-Identifier: Apache-2.0
//! A Parquet file whose own figures are not believed: the library that decodes it makes room for what a
//! header says before it looks whether that is there.
//!
//! Nothing is read beyond the file, no piece of it is longer than a limit, compressed or not, a dictionary
//! has no more values than its bytes can hold, and what is encoded so that a few bytes stand for any number
//! of values is refused. So memory is a small multiple of the longest piece. The library does not limit
//! what a compressed page becomes, so pages are decompressed here.

use std::fs::File;
use std::io::{BufReader, Cursor, Read, Seek, SeekFrom, Take};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

/// The longest piece that is held at once: a page, as stored or decompressed, or the metadata of the file.
/// Writers make pages of 1 MiB, and dictionaries of as much.
const PIECE_BYTES_MAX: usize = 32 << 20;

/// A file that is read as far as it goes.
#[derive(Debug)]
pub(super) struct BoundedFile {
    file: File,
    length: u64,
}

impl BoundedFile {
    pub(super) fn new(file: File) -> std::io::Result<BoundedFile> {
        let length = file.metadata()?.len();
        Ok(BoundedFile { file, length })
    }

    fn at(&self, start: u64) -> Result<File> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        Ok(file)
    }
}

impl Length for BoundedFile {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for BoundedFile {
    type T = BufReader<Take<File>>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let left = self.length.saturating_sub(start);
        Ok(BufReader::new(self.at(start)?.take(left)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64);
        if end.is_none_or(|end| end > self.length) {
            return Err(damaged("a piece of it reaches beyond its end"));
        }
        if length > PIECE_BYTES_MAX {
            return Err(damaged("a piece of it has more than 32 MiB"));
        }
        let mut bytes = vec![0; length];
        self.at(start)?.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

pub(super) fn damaged(what: &str) -> ParquetError {
    ParquetError::General(what.into())
}

const TOO_LONG: &str = "a page of it has more than 32 MiB";

/// The bytes of a page before this method compressed them; `None` for a method that is not known.
fn decompressed(bytes: &[u8], method: Compression) -> Option<Result<Vec<u8>>> {
    let ended = |error: &dyn std::fmt::Display| damaged(&format!("a page is damaged: {error}"));
    Some(match method {
        Compression::UNCOMPRESSED => Ok(bytes.to_vec()),
        Compression::SNAPPY => match snap::raw::decompress_len(bytes) {
            Ok(length) if length > PIECE_BYTES_MAX => Err(damaged(TOO_LONG)),
            Ok(_) => snap::raw::Decoder::new()
                .decompress_vec(bytes)
                .map_err(|error| ended(&error)),
            Err(error) => Err(ended(&error)),
        },
        Compression::GZIP(_) if !bytes.starts_with(b"\x1f\x8b") => Err(ended(&"it is no gzip")),
        Compression::ZSTD(_) if !bytes.starts_with(b"\x28\xb5\x2f\xfd") => {
            Err(ended(&"it is no zstd"))
        }
        Compression::GZIP(_) | Compression::ZSTD(_) => {
            let plain = crate::compressed::decompressed(Cursor::new(bytes.to_vec()));
            let mut into = Vec::new();
            let read = plain.and_then(|plain| {
                let limited = plain.take(PIECE_BYTES_MAX as u64 + 1);
                BufReader::new(limited).read_to_end(&mut into)
            });
            match read {
                Ok(length) if length > PIECE_BYTES_MAX => Err(damaged(TOO_LONG)),
                Ok(_) => Ok(into),
                Err(error) => Err(ended(&error)),
            }
        }
        Compression::LZ4_RAW => unpacked_lz4(bytes),
        _ => return None,
    })
}

/// LZ4 does not say how long its text was, so room is made until it suffices.
fn unpacked_lz4(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut room = (4 * bytes.len()).clamp(64 << 10, PIECE_BYTES_MAX);
    loop {
        let mut into = vec![0; room];
        match lz4_flex::block::decompress_into(bytes, &mut into) {
            Ok(length) => {
                into.truncate(length);
                return Ok(into);
            }
            Err(lz4_flex::block::DecompressError::OutputTooSmall { .. }) => {
                if room >= PIECE_BYTES_MAX {
                    return Err(damaged(TOO_LONG));
                }
                room = (4 * room).min(PIECE_BYTES_MAX);
            }
            Err(error) => return Err(damaged(&format!("a page is damaged: {error}"))),
        }
    }
}

/// Whether pages that are compressed so can be read.
pub(super) fn is_read(method: Compression) -> bool {
    decompressed(&[], method).is_some()
}

/// The pages of a column, none of which asks for more room than its bytes do.
pub(super) struct BoundedPages {
    pages: Box<dyn PageReader>,
    method: Compression,
    /// Bytes of the shortest value of the column.
    value_bytes: usize,
}

impl BoundedPages {
    /// The pages of a column of a row group with `rows` rows.
    pub(super) fn of(
        file: &Arc<BoundedFile>,
        column: &ColumnChunkMetaData,
        rows: usize,
    ) -> Result<BoundedPages> {
        // The library takes them for uncompressed, so that it gives them as the file stores them.
        let raw = column.clone().into_builder();
        let raw = raw.set_compression(Compression::UNCOMPRESSED).build()?;
        let pages = SerializedPageReader::new(Arc::clone(file), &raw, rows, None)?;
        let kind = column.column_type();
        Ok(BoundedPages::new(
            Box::new(pages),
            kind,
            column.compression(),
        ))
    }

    fn new(pages: Box<dyn PageReader>, kind: Type, method: Compression) -> BoundedPages {
        let value_bytes = match kind {
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 12,
            // Of text it is the length before it.
            Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
            Type::BOOLEAN | Type::FIXED_LEN_BYTE_ARRAY => 1,
        };
        BoundedPages {
            pages,
            method,
            value_bytes,
        }
    }

    /// The page as it was before it was compressed.
    fn plain(&self, mut page: Page) -> Result<Page> {
        if self.method == Compression::UNCOMPRESSED {
            return Ok(page);
        }
        let (bytes, levels) = match &mut page {
            Page::DictionaryPage { buf, .. } | Page::DataPage { buf, .. } => (buf, 0),
            Page::DataPageV2 {
                buf,
                def_levels_byte_len,
                rep_levels_byte_len,
                is_compressed,
                ..
            } => match std::mem::take(is_compressed) {
                true => (
                    buf,
                    *def_levels_byte_len as usize + *rep_levels_byte_len as usize,
                ),
                false => return Ok(page),
            },
        };
        // Levels, which say which values are present, are never compressed in such a page; a page
        // without values needs no further bytes.
        let Some((levels, packed)) = bytes.split_at_checked(levels) else {
            return Err(damaged("a page is shorter than it says"));
        };
        if !packed.is_empty() {
            let values = decompressed(packed, self.method);
            let values = values.unwrap_or_else(|| Err(damaged("its pages are compressed")))?;
            *bytes = [levels, &values].concat().into();
        }
        Ok(page)
    }

    fn check(&self, page: &Page) -> Result<()> {
        if let Page::DictionaryPage {
            buf, num_values, ..
        } = page
            && (*num_values as usize) > buf.len() / self.value_bytes
        {
            return Err(damaged("a dictionary has more values than bytes for them"));
        }
        match page.encoding() {
            encoding @ (Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY) => {
                Err(damaged(&format!(
                    "its text is encoded as {encoding}, which is not read; write it with dictionaries"
                )))
            }
            _ => Ok(()),
        }
    }
}

impl Iterator for BoundedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for BoundedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(page) = self.pages.get_next_page()? else {
            return Ok(None);
        };
        let page = self.plain(page)?;
        self.check(&page)?;
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one page.
    struct One(Option<Page>);

    impl Iterator for One {
        type Item = Result<Page>;

        fn next(&mut self) -> Option<Self::Item> {
            self.0.take().map(Ok)
        }
    }

    impl PageReader for One {
        fn get_next_page(&mut self) -> Result<Option<Page>> {
            Ok(self.0.take())
        }

        fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
            Ok(None)
        }

        fn skip_next_page(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_dictionary_of_more_values_than_bytes_is_refused_before_room_is_made_for_it() {
        for (kind, fits) in [(Type::BYTE_ARRAY, 25), (Type::INT64, 12), (Type::INT96, 8)] {
            for (num_values, is_fine) in [(fits, true), (fits + 1, false), (600_000_000, false)] {
                let page = Page::DictionaryPage {
                    buf: vec![0; 100].into(),
                    num_values,
                    encoding: Encoding::PLAIN,
                    is_sorted: false,
                };
                let mut pages =
                    BoundedPages::new(Box::new(One(Some(page))), kind, Compression::UNCOMPRESSED);
                assert_eq!(
                    pages.get_next_page().is_ok(),
                    is_fine,
                    "{kind} {num_values}"
                );
            }
        }
    }

    #[test]
    fn text_of_which_few_bytes_stand_for_any_number_of_values_is_refused() {
        for encoding in [
            Encoding::DELTA_BYTE_ARRAY,
            Encoding::DELTA_LENGTH_BYTE_ARRAY,
        ] {
            let page = Page::DataPage {
                buf: vec![0; 100].into(),
                num_values: 1,
                encoding,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            let mut pages = BoundedPages::new(
                Box::new(One(Some(page))),
                Type::BYTE_ARRAY,
                Compression::UNCOMPRESSED,
            );
            let error = pages.get_next_page().unwrap_err().to_string();
            assert!(error.contains("dictionaries"), "{error}");
        }
    }

    #[test]
    fn a_page_that_becomes_more_than_any_page_is_refused_whatever_packed_it() {
        use std::io::Write as _;
        let packed = |length: usize| {
            let plain = vec![7; length];
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(&plain).unwrap();
            [
                (
                    Compression::SNAPPY,
                    snap::raw::Encoder::new().compress_vec(&plain).unwrap(),
                ),
                (
                    Compression::GZIP(Default::default()),
                    gzip.finish().unwrap(),
                ),
                (Compression::LZ4_RAW, lz4_flex::block::compress(&plain)),
            ]
        };
        for (method, bytes) in packed(PIECE_BYTES_MAX) {
            let found = decompressed(&bytes, method).unwrap().unwrap();
            assert_eq!(found.len(), PIECE_BYTES_MAX, "{method}");
            // Cut off, or something else, it is an error.
            assert!(
                decompressed(&bytes[..bytes.len() / 2], method)
                    .unwrap()
                    .is_err()
            );
            assert!(
                decompressed(b"\xff\xff\xff", method).unwrap().is_err(),
                "{method}"
            );
        }
        for (method, bytes) in packed(PIECE_BYTES_MAX + 1) {
            let error = decompressed(&bytes, method).unwrap().unwrap_err();
            assert!(error.to_string().contains("32 MiB"), "{method}: {error}");
        }
        assert!(!is_read(Compression::LZO));
    }

    #[test]
    fn no_piece_reaches_beyond_the_file_or_is_longer_than_any() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        let bounded = BoundedFile::new(file).unwrap();
        assert_eq!(bounded.get_bytes(7, 100).unwrap().len(), 100);
        for (start, length) in [
            (0, PIECE_BYTES_MAX + 1),
            ((1 << 40) - 10, 11),
            (u64::MAX, 1),
            (0, 1 << 39),
        ] {
            assert!(
                bounded.get_bytes(start, length).is_err(),
                "{start} {length}"
            );
        }
    }
}
