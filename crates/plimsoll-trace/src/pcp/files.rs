// SPDX-License-Identifier: Apache-2.0
//! Finding and reading the files of an archive: `X.meta`, and the volumes `X.0`, `X.1`, ….
//!
//! The temporal index (`X.index`) only speeds up seeking and may lie; it is never opened.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::log::File;
use crate::error::TraceError;

/// Most bytes all files of an archive may have together: they are held in memory.
pub(super) const ARCHIVE_BYTES_MAX: u64 = 4 << 30;
/// Suffixes of packed files, in PCP's own order of trying.
const PACKED: [&str; 7] = ["xz", "lzma", "bz2", "bz", "gz", "Z", "zst"];

/// The files of one archive.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) base: PathBuf,
    pub(super) meta: File,
    /// Ascending by volume number.
    pub(super) volumes: Vec<(u32, File)>,
}

impl Files {
    /// Reads the archive of which `path` is the base name or one of the files.
    pub(super) fn read(path: &Path) -> Result<Files, TraceError> {
        let base = base_of(path)?;
        let meta = with_suffix(&base, "meta");
        let mut room = ARCHIVE_BYTES_MAX;
        let meta = read_file(&meta, &mut room)?;
        let mut volumes = Vec::new();
        for number in volume_numbers(&base)? {
            let file = read_file(&with_suffix(&base, &number.to_string()), &mut room)?;
            volumes.push((number, file));
        }
        if volumes.is_empty() {
            return Err(TraceError::NoVolume {
                base: base.display().to_string(),
            });
        }
        Ok(Files {
            base,
            meta,
            volumes,
        })
    }
}

fn with_suffix(base: &Path, suffix: &str) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// A base name may itself end in a number (`20180416.10.00`), so the path as it stands is tried
/// before anything is cut off.
fn base_of(path: &Path) -> Result<PathBuf, TraceError> {
    let mut candidate = path.to_owned();
    // At most a packer's suffix and a part's suffix come off.
    for _ in 0..3 {
        if with_suffix(&candidate, "meta").is_file() {
            return Ok(candidate);
        }
        if let Some(file) = packed(&with_suffix(&candidate, "meta")) {
            return Err(TraceError::Compressed { file });
        }
        let suffix = candidate.extension().and_then(|s| s.to_str());
        if !suffix.is_some_and(|s| is_part(s) || PACKED.contains(&s)) {
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

/// The name of `path` with a packer's suffix, if such a file exists.
fn packed(path: &Path) -> Option<String> {
    let names = PACKED.iter().map(|suffix| with_suffix(path, suffix));
    let mut found = names.filter(|name| name.is_file());
    found.next().map(|name| name.display().to_string())
}

fn volume_numbers(base: &Path) -> Result<Vec<u32>, TraceError> {
    let folder = match base.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let failed = |source: io::Error| TraceError::Read {
        file: folder.display().to_string(),
        source,
    };
    let Some(prefix) = base.file_name().and_then(|name| name.to_str()) else {
        return Ok(vec![0]);
    };
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let Some(suffix) = name
            .to_str()
            .and_then(|name| name.strip_prefix(prefix)?.strip_prefix('.'))
        else {
            continue;
        };
        if let Some(number) = volume_number(suffix) {
            numbers.push(number);
        } else if let Some((number, packer)) = suffix.split_once('.')
            && volume_number(number).is_some()
            && PACKED.contains(&packer)
        {
            let file = folder.join(&name).display().to_string();
            return Err(TraceError::Compressed { file });
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads a file whole, taking its size off the room that is left.
fn read_file(path: &Path, room: &mut u64) -> Result<File, TraceError> {
    let name = path.display().to_string();
    let failed = |source| TraceError::Read {
        file: name.clone(),
        source,
    };
    let too_large = || TraceError::TooLarge {
        file: name.clone(),
        limit_bytes: ARCHIVE_BYTES_MAX,
    };
    let file = fs::File::open(path).map_err(failed)?;
    let size = file.metadata().map_err(failed)?.len();
    if size > *room {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // The file may grow while it is read (a logger at work): one byte more than allowed tells.
    file.take(*room + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    *room = room.checked_sub(bytes.len() as u64).ok_or_else(too_large)?;
    Ok(File { name, bytes })
}
