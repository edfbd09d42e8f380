// SPDX-License-Identifier: Apache-2.0
//! A Parquet file whose own figures are not believed: the library that decodes it makes room for what a
//! header says before it looks whether that is there.
//!
//! Nothing is read beyond the file, no piece of it is longer than a limit, a dictionary has no more
//! values than its bytes can hold, and what is encoded so that a few bytes stand for any number of
//! values is refused. So memory is a small multiple of the longest piece.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Take};

use bytes::Bytes;
use parquet::basic::{Encoding, Type};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// The longest piece that is read at once: a page, or the table of what is where. Writers make pages of
/// 1 MiB, and dictionaries of as much.
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

/// The pages of a column, none of which asks for more room than its bytes do.
pub(super) struct BoundedPages {
    pages: Box<dyn PageReader>,
    /// Bytes of the shortest value of the column.
    value_bytes: usize,
}

impl BoundedPages {
    pub(super) fn new(pages: Box<dyn PageReader>, kind: Type) -> BoundedPages {
        let value_bytes = match kind {
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 12,
            // Of text it is the length before it.
            Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
            Type::BOOLEAN | Type::FIXED_LEN_BYTE_ARRAY => 1,
        };
        BoundedPages { pages, value_bytes }
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
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            self.check(page)?;
        }
        Ok(page)
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
                let mut pages = BoundedPages::new(Box::new(One(Some(page))), kind);
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
            let mut pages = BoundedPages::new(Box::new(One(Some(page))), Type::BYTE_ARRAY);
            let error = pages.get_next_page().unwrap_err().to_string();
            assert!(error.contains("dictionaries"), "{error}");
        }
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
