// SPDX-License-Identifier: Apache-2.0
//! Opens a recording of any kind: its name or its content decides which.

use std::fmt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::counters::{self, CounterFile};
use crate::error::TraceError;
use crate::input::RecordingInput;
use crate::pcp::{self, PcpArchive};
use crate::recording::{CounterSource, TraceSource};
use crate::requests;
use crate::resembling;

/// A recording of either kind.
pub enum OpenRecording {
    /// How much each disk did.
    Counters(Box<dyn CounterSource>),
    /// Every request.
    Requests(Box<dyn TraceSource>),
}

/// Opens a recording of any kind: a PCP archive by its base name or any of its files, one of
/// blktrace by its base name or any of its files, any other by its file, whose content decides.
///
/// # Errors
/// When there is nothing of that name, it cannot be read, or it is of no known kind; the message
/// lists the kinds.
pub fn open(path: &Path) -> Result<OpenRecording, TraceError> {
    if let Some(error) = no_file(path) {
        return Err(error);
    }
    if path.is_file() {
        let input = RecordingInput::open(path)?;
        if is_of_requests(&input) {
            return requests::read(input).map(OpenRecording::Requests);
        }
        if counters::is_one(&input) {
            return Ok(OpenRecording::Counters(Box::new(CounterFile::open(path)?)));
        }
    } else if requests::has_files(path) {
        return requests::open(path).map(OpenRecording::Requests);
    }
    let archive = PcpArchive::open(path).map_err(|error| match error {
        TraceError::NoArchive { .. } if path.is_file() => unknown(path),
        TraceError::NoArchive { path } => TraceError::NoRecording { path },
        other => other,
    })?;
    Ok(OpenRecording::Counters(Box::new(archive)))
}

/// The files that a recording consists of, in an order that does not depend on where they lie: those
/// whose content is the recording.
///
/// # Errors
/// When there is nothing of that name, or it cannot be read.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    if let Some(error) = no_file(path) {
        return Err(error);
    }
    if path.is_file() {
        let mut input = RecordingInput::open(path)?;
        if is_of_requests(&input) {
            let several = requests::files_of(path);
            return Ok(match several.is_empty() {
                true => vec![path.to_owned()],
                false => several,
            });
        }
        if counters::is_one(&input) {
            let table = counters::recording_of(&mut input)?;
            return Ok([path.to_owned()].into_iter().chain(table).collect());
        }
    } else if requests::has_files(path) {
        return Ok(requests::files_of(path));
    }
    pcp::paths(path)
}

/// Whether a file is of requests; other tables of Parquet begin as theirs do.
fn is_of_requests(input: &RecordingInput) -> bool {
    #[cfg(feature = "parquet")]
    if counters::is_of_counters(input) {
        return false;
    }
    requests::is_one(input)
}

/// Error for a file of no known format.
fn unknown(path: &Path) -> TraceError {
    let formats: Vec<&str> = ["PCP archive"]
        .into_iter()
        .chain(counters::names())
        .chain(requests::names())
        .collect();
    match RecordingInput::open(path) {
        Ok(input) => resembling::unknown(input.name(), input.head(), &formats),
        Err(error) => error,
    }
}

/// Error for a pipe, a socket or a device, which cannot be read twice.
fn no_file(path: &Path) -> Option<TraceError> {
    let kind = std::fs::metadata(path).ok()?.file_type();
    let what = match kind {
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() => "a terminal or another device",
        _ => return None,
    };
    Some(TraceError::NoFile {
        path: path.display().to_string(),
        what,
    })
}

impl fmt::Debug for OpenRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, about) = match self {
            OpenRecording::Counters(counters) => ("Counters", counters.about()),
            OpenRecording::Requests(requests) => ("Requests", requests.about()),
        };
        f.debug_tuple(kind).field(about).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides_and_what_is_nothing_is_said_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("any.name");
        let opened = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            open(&path).map_err(|error| error.to_string())
        };
        let requests = opened(b"1538323199,8,48,1,1063\n");
        assert!(
            matches!(requests, Ok(OpenRecording::Requests(_))),
            "{requests:?}"
        );
        let counters = opened(b"1795220132\n8 0 sda 1 0 1 1 1 0 1 1 0 1 1\n");
        assert!(
            matches!(counters, Ok(OpenRecording::Counters(_))),
            "{counters:?}"
        );
        let error = opened(b"hello\n").unwrap_err();
        for part in ["any.name", "PCP archive", "blktrace", "iostat", "sadf"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let error = opened(b"\x96\xd5 of sar\n").unwrap_err();
        assert!(
            error.contains("sadf -j") && !error.contains("known formats"),
            "{error}"
        );
        let error = open(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.contains("into a file first"), "{error}");
        let error = open(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.starts_with("find a recording at"), "{error}");
    }
}
