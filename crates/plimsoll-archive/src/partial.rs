// SPDX-License-Identifier: Apache-2.0
//! Files of partial results of profiles ([`plimsoll_core::partial`]): written in one order whatever
//! the order of what goes into them, read line by line, with nothing in them trusted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use plimsoll_core::format::FormatVersion;
use plimsoll_core::partial::{
    PartialEnd, PartialHeader, PartialLine, PoolSettings, RecordingSummary,
};
use sha2::{Digest, Sha256};

use crate::digest::hexadecimal;
use crate::error::{ArchiveError, io_error};
use crate::result_file::ResultFile;

/// Longest line: a recording of 100,000 disks has some 40 MB.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Longest header.
const HEADER_BYTES_MAX: u64 = 64 << 10;

/// The digest by which a recording is known: SHA-256 of its file; of several files SHA-256 of the
/// digests of each, one after the other.
///
/// # Errors
/// When a file cannot be read.
pub fn content_digest(files: &[PathBuf]) -> Result<String, ArchiveError> {
    let digest = |path: &PathBuf| {
        let mut hasher = Sha256::new();
        let mut piece = vec![0; 256 << 10];
        let mut file = File::open(path).map_err(io_error("read", path))?;
        loop {
            match file.read(&mut piece).map_err(io_error("read", path))? {
                0 => return Ok(hasher.finalize()),
                n => hasher.update(&piece[..n]),
            }
        }
    };
    let mut all = Sha256::new();
    for path in files {
        let one = digest(path)?;
        if files.len() == 1 {
            return Ok(hexadecimal(&one));
        }
        all.update(one);
    }
    Ok(hexadecimal(&all.finalize()))
}

/// The digest by which a recording is known of which nothing can be read: that of its name.
pub fn name_digest(name: &str) -> String {
    hexadecimal(&Sha256::digest(name))
}

/// A partial result that is read, one recording after the other.
#[derive(Debug)]
pub struct PartialReader<R> {
    path: PathBuf,
    input: R,
    digest: Sha256,
    settings: PoolSettings,
    /// Where the next line begins.
    offset: u64,
    recordings: u64,
    /// The digest of the recording before.
    last: String,
    line: Vec<u8>,
}

/// Where the line of a recording lies in its file.
#[derive(Debug, Clone, Copy)]
pub struct PartialPlace {
    offset: u64,
    bytes: u64,
}

impl PartialReader<BufReader<File>> {
    /// Opens a partial result.
    ///
    /// # Errors
    /// When it cannot be read, or is none that this program reads.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        let file = File::open(path).map_err(io_error("read", path))?;
        PartialReader::new(path, BufReader::with_capacity(128 << 10, file))
    }
}

impl<R: BufRead> PartialReader<R> {
    /// Reads the header of a partial result. `path` is for messages.
    ///
    /// # Errors
    /// As [`PartialReader::open`].
    pub fn new(path: &Path, input: R) -> Result<Self, ArchiveError> {
        let mut reader = PartialReader {
            path: path.into(),
            input,
            digest: Sha256::new(),
            settings: PoolSettings::default(),
            offset: 0,
            recordings: 0,
            last: String::new(),
            line: Vec::new(),
        };
        reader.next_line(HEADER_BYTES_MAX)?;
        let none =
            |_| "it is no partial result; plimsoll profile --partial FILE makes one".to_owned();
        let known = version(&reader.line).map_err(none);
        let known = known.map_err(|reason| reader.damaged(reason))?;
        if !FormatVersion::PARTIAL.reads(known) {
            let ours = FormatVersion::PARTIAL;
            return Err(reader.damaged(format!(
                "its format is {known} and this program reads {ours}; make all partial results with \
                 one version of plimsoll"
            )));
        }
        let PartialLine::Header(header) = reader.parsed()? else {
            return Err(reader.damaged("it does not begin with a header".into()));
        };
        let checked = header.settings.check();
        checked.map_err(|reason| reader.damaged(reason))?;
        reader.settings = header.settings;
        reader.digest.update(&reader.line);
        Ok(reader)
    }

    /// The settings of its recordings.
    pub fn settings(&self) -> &PoolSettings {
        &self.settings
    }

    /// The next recording; `None` behind the last, when the file was found to be whole.
    ///
    /// # Errors
    /// When the file is damaged or cut off. What was read of it before is not to be used.
    pub fn next_recording(
        &mut self,
    ) -> Result<Option<(RecordingSummary, PartialPlace)>, ArchiveError> {
        let offset = self.offset;
        self.next_line(LINE_BYTES_MAX)?;
        match self.parsed()? {
            PartialLine::Recording(summary) => {
                summary.check().map_err(|reason| self.damaged(reason))?;
                if summary.sha256 <= self.last {
                    let reason = "its recordings are not in the order of their digests";
                    return Err(self.damaged(reason.into()));
                }
                self.last.clone_from(&summary.sha256);
                self.digest.update(&self.line);
                self.recordings += 1;
                let bytes = self.line.len() as u64;
                Ok(Some((*summary, PartialPlace { offset, bytes })))
            }
            PartialLine::End(end) => {
                self.check_end(&end)?;
                Ok(None)
            }
            PartialLine::Header(_) => Err(self.damaged("it has a second header".into())),
        }
    }

    fn check_end(&mut self, end: &PartialEnd) -> Result<(), ArchiveError> {
        let found = hexadecimal(&self.digest.clone().finalize());
        if end.recordings != self.recordings || end.sha256 != found {
            let reason = "what it contains is not what was written: its digest differs";
            return Err(self.damaged(reason.into()));
        }
        let rest = self.input.fill_buf();
        let is_end = rest.map_err(io_error("read", &self.path))?.is_empty();
        match is_end {
            true => Ok(()),
            false => Err(self.damaged("something follows its end".into())),
        }
    }

    /// Reads one whole line.
    fn next_line(&mut self, bytes_max: u64) -> Result<(), ArchiveError> {
        self.line.clear();
        let mut piece = (&mut self.input).take(bytes_max);
        let read = piece.read_until(b'\n', &mut self.line);
        read.map_err(io_error("read", &self.path))?;
        if self.line.last() == Some(&b'\n') {
            self.offset += self.line.len() as u64;
            return Ok(());
        }
        let is_first = self.offset == 0;
        let reason = match self.line.len() as u64 == bytes_max {
            true if !is_first => format!("a line has more than {bytes_max} bytes"),
            false if !is_first => "it was cut off: its end is missing; make it again".into(),
            _ => "it is no partial result; plimsoll profile --partial FILE makes one".into(),
        };
        Err(self.damaged(reason))
    }

    fn parsed(&self) -> Result<PartialLine, ArchiveError> {
        serde_json::from_slice(&self.line).map_err(|error| {
            self.damaged(format!(
                "its line at byte {}: {error}",
                self.offset - self.line.len() as u64
            ))
        })
    }

    fn damaged(&self, reason: String) -> ArchiveError {
        ArchiveError::Damaged {
            path: self.path.clone(),
            reason,
        }
    }
}

/// The version in a header, also of one that is otherwise not understood.
fn version(line: &[u8]) -> Result<FormatVersion, String> {
    let header: serde_json::Value =
        serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let text = header["header"]["format"].as_str();
    FormatVersion::try_from(text.ok_or("it has no format")?.to_owned())
}

/// A recording that goes into a partial result.
#[derive(Debug)]
enum KeptLine {
    InMemory(Vec<u8>),
    /// In a part that is read again.
    In(usize, PartialPlace),
}

/// Recordings that are written as one partial result. Of those that come from other partial results only
/// their places are held.
#[derive(Debug)]
pub struct PartialCollection {
    settings: PoolSettings,
    parts: Vec<PathBuf>,
    /// By digest.
    kept: BTreeMap<String, KeptLine>,
}

impl PartialCollection {
    /// One without recordings.
    pub fn new(settings: PoolSettings) -> PartialCollection {
        PartialCollection {
            settings,
            parts: Vec::new(),
            kept: BTreeMap::new(),
        }
    }

    /// How many recordings there are.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The recordings that are added next lie in the file `part`.
    pub fn begin_part(&mut self, part: &Path) {
        self.parts.push(part.into());
    }

    /// Adds a recording, from memory or from the part that was begun. One that comes twice is kept once,
    /// the one that precedes: which one came first makes no difference.
    ///
    /// # Errors
    /// When what was kept of it cannot be read again.
    pub fn add(
        &mut self,
        summary: RecordingSummary,
        place: Option<PartialPlace>,
    ) -> Result<(), ArchiveError> {
        let kept = |summary: RecordingSummary, part: usize| match place {
            Some(place) => KeptLine::In(part, place),
            None => KeptLine::InMemory(line_of(&PartialLine::Recording(Box::new(summary)))),
        };
        let part = self.parts.len().saturating_sub(1);
        match self.kept.entry(summary.sha256.clone()) {
            Entry::Vacant(free) => {
                free.insert(kept(summary, part));
            }
            Entry::Occupied(mut there) => {
                let line = whole(&self.parts, there.get())?;
                let before = parsed(&self.parts, there.get(), &line)?;
                if summary.precedes(&before) {
                    there.insert(kept(summary, part));
                }
            }
        }
        Ok(())
    }

    /// Writes all of them to `path`.
    ///
    /// # Errors
    /// When that, or reading a part again, fails.
    pub fn write(&self, path: &Path) -> Result<(), ArchiveError> {
        let failed = |error| io_error("write", path)(error);
        let file = ResultFile::create(path).map_err(failed)?;
        let mut out = BufWriter::with_capacity(128 << 10, file);
        let mut digest = Sha256::new();
        let header = PartialLine::Header(PartialHeader {
            format: FormatVersion::PARTIAL,
            settings: self.settings.clone(),
        });
        let mut write = |line: &[u8]| {
            digest.update(line);
            out.write_all(line).map_err(failed)
        };
        write(&line_of(&header))?;
        for (sha256, kept) in &self.kept {
            let line = whole(&self.parts, kept)?;
            if let KeptLine::In(..) = kept
                && parsed(&self.parts, kept, &line)?.sha256 != *sha256
            {
                return Err(changed(&self.parts, kept));
            }
            write(&line)?;
        }
        let end = PartialLine::End(PartialEnd {
            recordings: self.kept.len() as u64,
            sha256: hexadecimal(&digest.finalize()),
        });
        out.write_all(&line_of(&end)).map_err(failed)?;
        let file = out
            .into_inner()
            .map_err(|error| failed(error.into_error()))?;
        file.finish().map_err(failed)
    }
}

fn line_of(line: &PartialLine) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).expect("a line has only plain data");
    text.push(b'\n');
    text
}

/// The line of a recording, read again where only its place is held.
fn whole(parts: &[PathBuf], kept: &KeptLine) -> Result<Vec<u8>, ArchiveError> {
    match kept {
        KeptLine::InMemory(line) => Ok(line.clone()),
        KeptLine::In(part, place) => {
            let read = || -> io::Result<Vec<u8>> {
                let mut file = File::open(&parts[*part])?;
                file.seek(SeekFrom::Start(place.offset))?;
                let mut line = Vec::new();
                file.take(place.bytes).read_to_end(&mut line)?;
                Ok(line)
            };
            read().map_err(io_error("read", &parts[*part]))
        }
    }
}

fn parsed(
    parts: &[PathBuf],
    kept: &KeptLine,
    line: &[u8],
) -> Result<RecordingSummary, ArchiveError> {
    match serde_json::from_slice(line) {
        Ok(PartialLine::Recording(summary)) => Ok(*summary),
        _ => Err(changed(parts, kept)),
    }
}

fn changed(parts: &[PathBuf], kept: &KeptLine) -> ArchiveError {
    let path = match kept {
        KeptLine::In(part, _) => parts[*part].clone(),
        KeptLine::InMemory(_) => PathBuf::new(),
    };
    ArchiveError::Damaged {
        path,
        reason: "it changed while it was merged; merge again".into(),
    }
}

#[cfg(test)]
mod tests;
