// SPDX-License-Identifier: Apache-2.0
//! Finding and opening the files of an archive: `X.meta`, and the volumes `X.0`, `X.1`, ….
//!
//! The temporal index (`X.index`) only speeds up seeking and may lie; of it the end is read, to know
//! whether the last volumes are there.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::frames::PcpFrameReader;
use super::index::IndexEnd;
use super::label::PcpVersion;
use crate::compressed;
use crate::error::TraceError;

/// Suffixes of compressed files, in PCP's own order of trying. They only find files: how one is
/// compressed is recognized by its first bytes.
pub(super) const COMPRESSED: [&str; 7] = ["xz", "lzma", "bz2", "bz", "gz", "Z", "zst"];

/// A file of an archive.
#[derive(Debug, Clone)]
pub(super) struct PcpFile {
    /// Name of the file in messages.
    pub(super) name: String,
    content: PcpFileContent,
}

#[derive(Debug, Clone)]
enum PcpFileContent {
    OnDisk(PathBuf),
    InMemory(Arc<[u8]>),
}

impl PcpFile {
    fn on_disk(path: PathBuf) -> Self {
        PcpFile {
            name: path.display().to_string(),
            content: PcpFileContent::OnDisk(path),
        }
    }

    /// A file whose bytes are at hand.
    pub(super) fn in_memory(name: String, bytes: Vec<u8>) -> Self {
        PcpFile {
            name,
            content: PcpFileContent::InMemory(bytes.into()),
        }
    }

    /// Opens the file at its front.
    pub(super) fn open(&self) -> Result<PcpFrameReader, TraceError> {
        let input = match &self.content {
            PcpFileContent::OnDisk(path) => fs::File::open(path).and_then(compressed::opened),
            PcpFileContent::InMemory(bytes) => {
                compressed::decompressed(Cursor::new(Arc::clone(bytes)))
            }
        };
        let input = input.map_err(|source| TraceError::unread(&self.name, source))?;
        Ok(PcpFrameReader::new(&self.name, input))
    }

    /// Where it lies, if it is on disk.
    fn path(&self) -> Option<&Path> {
        match &self.content {
            PcpFileContent::OnDisk(path) => Some(path),
            PcpFileContent::InMemory(_) => None,
        }
    }
}

/// The files of one archive.
#[derive(Debug)]
pub(super) struct PcpArchiveFiles {
    /// The archive's base name.
    pub(super) base: String,
    pub(super) meta: PcpFile,
    /// Ascending by volume number.
    pub(super) volumes: Vec<(u32, PcpFile)>,
    index: Option<PathBuf>,
}

impl PcpArchiveFiles {
    /// Finds the archive of which `path` is the base name or one of the files.
    pub(super) fn find(path: &Path) -> Result<PcpArchiveFiles, TraceError> {
        let (base, meta) = base_of(path)?;
        let volumes = volumes_of(&base)?;
        Ok(PcpArchiveFiles {
            base: base.display().to_string(),
            meta: PcpFile::on_disk(meta),
            volumes,
            index: plain_or_compressed(&with_suffix(&base, "index")),
        })
    }

    /// Files whose bytes are at hand.
    pub(super) fn in_memory(
        base: String,
        meta: PcpFile,
        volumes: Vec<(u32, PcpFile)>,
    ) -> PcpArchiveFiles {
        PcpArchiveFiles {
            base,
            meta,
            volumes,
            index: None,
        }
    }

    /// Where the files lie that have content: metadata, then volumes.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let volumes = self.volumes.iter().map(|(_, file)| file);
        let files = std::iter::once(&self.meta).chain(volumes);
        files
            .filter_map(|file| Some(file.path()?.to_owned()))
            .collect()
    }

    /// The end of the index, where there is one that can be read.
    pub(super) fn index_end(&self, version: PcpVersion) -> Option<IndexEnd> {
        let file = fs::File::open(self.index.as_ref()?).ok()?;
        IndexEnd::read(compressed::opened(file).ok()?, version)
    }
}

pub(super) fn with_suffix(base: &Path, suffix: &str) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// The base name and the metadata file of an archive. A base name may itself end in a number
/// (`20180416.10.00`), so the path as it stands is tried before anything is cut off.
fn base_of(path: &Path) -> Result<(PathBuf, PathBuf), TraceError> {
    let mut candidate = path.to_owned();
    // At most a suffix of compression and a part's suffix come off.
    for _ in 0..3 {
        if let Some(meta) = plain_or_compressed(&with_suffix(&candidate, "meta")) {
            return Ok((candidate, meta));
        }
        let suffix = candidate.extension().and_then(|s| s.to_str());
        if !suffix.is_some_and(|s| is_part(s) || COMPRESSED.contains(&s)) {
            break;
        }
        candidate.set_extension("");
    }
    Err(TraceError::NoArchive {
        path: path.display().to_string(),
    })
}

fn is_part(suffix: &str) -> bool {
    suffix == "meta" || suffix == "index" || volume_number(suffix).is_some()
}

fn volume_number(suffix: &str) -> Option<u32> {
    let digits = !suffix.is_empty() && suffix.bytes().all(|b| b.is_ascii_digit());
    let leading_zero = suffix.len() > 1 && suffix.starts_with('0');
    if digits && !leading_zero {
        suffix.parse().ok()
    } else {
        None
    }
}

/// The file itself, or the first with a suffix of compression.
fn plain_or_compressed(path: &Path) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path.to_owned());
    }
    let names = COMPRESSED.iter().map(|suffix| with_suffix(path, suffix));
    names.into_iter().find(|name| name.is_file())
}

fn volumes_of(base: &Path) -> Result<Vec<(u32, PcpFile)>, TraceError> {
    let folder = match base.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let failed = |source| TraceError::unread(folder, source);
    let mut numbers = Vec::new();
    let prefix = base.file_name().unwrap_or_default().to_string_lossy();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        let suffix = name
            .strip_prefix(&*prefix)
            .and_then(|rest| rest.strip_prefix('.'));
        let Some(suffix) = suffix else {
            continue;
        };
        let number = match suffix.split_once('.') {
            Some((number, suffix)) if COMPRESSED.contains(&suffix) => volume_number(number),
            _ => volume_number(suffix),
        };
        numbers.extend(number);
    }
    numbers.sort_unstable();
    numbers.dedup();
    let volumes = numbers.into_iter().filter_map(|number| {
        let path = plain_or_compressed(&with_suffix(base, &number.to_string()))?;
        Some((number, PcpFile::on_disk(path)))
    });
    Ok(volumes.collect())
}
