// SPDX-License-Identifier: Apache-2.0
//! Errors about recordings, said to the person at the terminal.
//!
//! Every message completes "failed to …" and names the file or object and what to do about it.
//! Damage behind which something was still readable is not an error but a [`RecordingDamage`] note.

use std::fmt;
use std::io;
use std::path::Path;

/// The first place where a recording is not readable. What could be read is kept: everything
/// before it, and nothing that would have to be guessed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingDamage {
    /// The file.
    pub file: String,
    /// Byte offset of the damaged record in the file.
    pub offset: u64,
    /// The fault at that byte.
    pub what: String,
}

impl fmt::Display for RecordingDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecordingDamage { file, offset, what } = self;
        write!(
            f,
            "{file} is damaged at byte {offset}: {what}; what could be read was kept"
        )
    }
}

/// Why a recording could not be read or fitted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The system refused to give a file's bytes.
    #[error("read {file}: {source}")]
    Read {
        /// The file or folder.
        file: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused to take a file's bytes.
    #[error("write {file}: {source}")]
    Write {
        /// The file.
        file: String,
        /// The system's reason.
        source: io::Error,
    },
    /// Data that cannot be expressed in an archive.
    #[error("write the PCP archive {base}: {what}")]
    Unwritable {
        /// Base name of the archive.
        base: String,
        /// The part that cannot be expressed, and why.
        what: String,
    },
    /// No archive has this name.
    #[error(
        "find a PCP archive at {path}: there is no {path}.meta; give the archive's base name or \
         one of its files (.0, .meta, .index), a folder of archives or a folio"
    )]
    NoArchive {
        /// The requested path.
        path: String,
    },
    /// Nothing has this name.
    #[error(
        "find a recording at {path}: there is no such file, no recording in a folder of that name, \
         no PCP archive {path}.meta and no {path}.blktrace.0"
    )]
    NoRecording {
        /// The requested path.
        path: String,
    },
    /// The metadata is there but no volume with data.
    #[error("open the PCP archive {base}: there is no data volume {base}.0")]
    NoVolume {
        /// Base name of the archive.
        base: String,
    },
    /// A version of the format that is not read.
    #[error(
        "read {file}: it is a version 1 archive, which PCP no longer supports; versions 2 and 3 \
         can be read"
    )]
    Version {
        /// The file.
        file: String,
    },
    /// The bytes are not what they should be, and nothing could be kept.
    #[error("read {file} at byte {offset}: {what}")]
    Format {
        /// The file.
        file: String,
        /// Byte offset in it.
        offset: u64,
        /// The fault at that byte.
        what: String,
    },
    /// No format is recognised.
    #[error("read {file}: unknown recording format; {closest}")]
    Unknown {
        /// The file.
        file: String,
        /// The closest format and how to make a recording of it, else the formats that were tried.
        closest: String,
    },
    /// It is a pipe, a socket or a terminal.
    #[error(
        "read {path}: it is {what}, and a recording is read several times; write it into a file first"
    )]
    NoFile {
        /// The requested path.
        path: String,
        /// The kind of file.
        what: &'static str,
    },
    /// Several archives that are not one recording.
    #[error("open {recording} as one recording: its archives {why}; open one: {}", archives.join(", "))]
    Apart {
        /// The folio or folder.
        recording: String,
        /// The archives.
        archives: Vec<String>,
        /// Why they do not go together.
        why: &'static str,
    },
    /// The disk is not in the recording.
    #[error("find disk '{disk}' in {recording}: {}{}", list_of(disks), behind(damage.as_deref()))]
    NoDisk {
        /// The requested disk.
        disk: String,
        /// The recording.
        recording: String,
        /// The disks it has.
        disks: Vec<String>,
        /// Behind which it may have stood.
        damage: Option<Box<RecordingDamage>>,
    },
    /// The recording has several disks, and none was chosen.
    #[error("choose a disk of {recording}: {}", list_of(disks))]
    DiskMissing {
        /// The recording.
        recording: String,
        /// The disks it has.
        disks: Vec<String>,
    },
    /// A load too short to be compared.
    #[error(
        "compare the load with {recording}: it is shorter than two intervals of {interval} s; fit \
         it to a longer window"
    )]
    TooShort {
        /// The recording.
        recording: String,
        /// Usual length of its intervals, in seconds.
        interval: f64,
    },
    /// The recording has no disks at all.
    #[error("describe {recording}: {}", no_disks(damage.as_ref()))]
    NoDisks {
        /// The recording.
        recording: String,
        /// Behind which they may have stood.
        damage: Option<RecordingDamage>,
    },
    /// Requests of which a recording does not contain enough.
    #[error(
        "use the requests of {recording}: it lacks their {lacks}; record them with blktrace or \
         bcc's biosnoop"
    )]
    Lacks {
        /// The recording.
        recording: String,
        /// The missing figures of requests.
        lacks: String,
    },
    /// Figures that are hardly those that were recorded.
    #[error("fit {recording}: {reason}")]
    Misread {
        /// The recording.
        recording: String,
        /// The evidence against it, and the remedy.
        reason: String,
    },
    /// A recording that does not go together with others.
    #[error("use {recording} with other recordings: {reason}")]
    Together {
        /// The recording.
        recording: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// A metric without which nothing can be fitted was not recorded.
    #[error(
        "fit disk '{disk}' of {recording}: {metric} was not recorded for it; record operations and \
         bytes of reads and writes (in PCP disk.dev.read, write, read_bytes, write_bytes)"
    )]
    NoMetric {
        /// The metric's name.
        metric: &'static str,
        /// The disk.
        disk: String,
        /// The recording.
        recording: String,
    },
    /// A time as typed could not be understood.
    #[error("read the time '{text}': {reason}; expected 11:00 or 2010-07-14 11:00:00")]
    Time {
        /// The typed text.
        text: String,
        /// Why not.
        reason: String,
    },
    /// The window is not inside the recording.
    #[error("use the window {window}: {recording} covers {from} to {to} (zone {zone})")]
    Outside {
        /// The window as asked for.
        window: String,
        /// The recording.
        recording: String,
        /// First instant of the recording in its own time zone.
        from: String,
        /// Last instant of the recording in its own time zone.
        to: String,
        /// The recording's time zone.
        zone: String,
    },
    /// Too little is left to fit.
    #[error(
        "use disk '{disk}' of {recording}: {kept} intervals are usable and {dropped} were dropped; \
         at least {needed} are needed, so choose a longer window"
    )]
    TooFew {
        /// The disk.
        disk: String,
        /// The recording.
        recording: String,
        /// Usable intervals.
        kept: u64,
        /// Intervals dropped for gaps, resets or wraps.
        dropped: u64,
        /// The least that can be fitted.
        needed: u64,
    },
    /// The working set cannot hold the largest transfer.
    #[error(
        "fit with a working set of {bytes} bytes: the largest transfer needs {needed} bytes; give \
         a larger one"
    )]
    WorkingSet {
        /// The requested bytes of the working set.
        bytes: u64,
        /// The least that works.
        needed: u64,
    },
    /// More requests were in flight than the declared threads can have sent.
    #[error(
        "take {threads} threads for disk '{disk}' of {recording}: {in_flight:.1} requests were in \
         flight on average (the time they took over the time that passed); declare more threads, or \
         leave them out"
    )]
    Threads {
        /// The declared threads.
        threads: u32,
        /// The disk.
        disk: String,
        /// The recording.
        recording: String,
        /// By Little's law.
        in_flight: f64,
    },
    /// The recorded intervals do not make a model.
    #[error("fit disk '{disk}' of {recording}: {reason}")]
    Envelope {
        /// The disk.
        disk: String,
        /// The recording.
        recording: String,
        /// Why not.
        reason: String,
    },
}

impl RecordingDamage {
    pub(crate) fn new(file: &str, offset: u64, what: impl Into<String>) -> RecordingDamage {
        RecordingDamage {
            file: file.into(),
            offset,
            what: what.into(),
        }
    }
}

impl TraceError {
    /// Of a file that is not what it should be as a whole.
    pub(crate) fn format(file: &str, what: impl Into<String>) -> TraceError {
        RecordingDamage::new(file, 0, what).into()
    }

    /// Of a file or folder whose bytes the system refused to give.
    pub(crate) fn unread(file: impl AsRef<Path>, source: io::Error) -> TraceError {
        let file = file.as_ref().display().to_string();
        TraceError::Read { file, source }
    }

    /// Of a file whose bytes the system refused to take.
    pub fn unwritten(file: impl AsRef<Path>, source: io::Error) -> TraceError {
        let file = file.as_ref().display().to_string();
        TraceError::Write { file, source }
    }
}

/// Damage before which nothing could be read.
impl From<RecordingDamage> for TraceError {
    fn from(damage: RecordingDamage) -> TraceError {
        let RecordingDamage { file, offset, what } = damage;
        TraceError::Format { file, offset, what }
    }
}

fn no_disks(damage: Option<&RecordingDamage>) -> String {
    match damage {
        Some(RecordingDamage { file, offset, what }) => {
            format!("no figures of disks can be read; {file} is damaged at byte {offset}: {what}")
        }
        None => "it has no figures of disks (in PCP: disk.dev.*); record those".into(),
    }
}

/// At most this many disks are listed in a message: it must stay readable on a large host.
const LISTED_MAX: usize = 40;

/// Hint that more may stand behind a damage.
fn behind(damage: Option<&RecordingDamage>) -> String {
    damage.map_or(String::new(), |damage| {
        format!("; more may stand behind its damage: {damage}")
    })
}

fn list_of(disks: &[String]) -> String {
    if disks.is_empty() {
        return "the recording has no disks (no disk.dev metrics)".into();
    }
    let shown: Vec<&str> = disks.iter().take(LISTED_MAX).map(String::as_str).collect();
    let more = disks.len() - shown.len();
    let rest = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("it has {}{rest}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_complete_failed_to_and_name_the_way_out() {
        let error = TraceError::NoDisk {
            disk: "sdz".into(),
            recording: "nas".into(),
            disks: vec!["sda".into(), "sdb".into()],
            damage: None,
        };
        assert_eq!(error.to_string(), "find disk 'sdz' in nas: it has sda, sdb");
        let error = TraceError::Version { file: "a.0".into() };
        assert!(error.to_string().contains("versions 2 and 3 can be read"));
    }
}
