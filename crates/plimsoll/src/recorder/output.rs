// SPDX-License-Identifier: Apache-2.0
//! Files that a recording goes into: an archive of counters, or requests while they are recorded.

use super::Taker;
use crate::failure::{Code, Failure, failed};
use plimsoll_core::recording::{RecordHead, Recorded, Tally};
use plimsoll_trace::pcp::{Heading, Writer};
use plimsoll_trace::requests::Spool;
use std::path::{Path, PathBuf};

/// Length of a volume: some 100,000 samples of one disk. A volume is what is lost when a disk's
/// block goes bad.
const VOLUME_BYTES: u64 = 64 << 20;

/// A file, or the files of an archive, that are made when the recording begins.
#[derive(Debug)]
pub(crate) struct Output {
    /// Base name of the archive, or the file of requests.
    path: PathBuf,
    is_archive: bool,
    file: Option<Growing>,
}

/// Files that grow.
#[derive(Debug)]
enum Growing {
    Archive(Box<Writer>),
    Spool(Spool),
}

impl Output {
    /// An archive of this base name.
    pub(crate) fn archive(base: PathBuf) -> Output {
        Output {
            path: base,
            is_archive: true,
            file: None,
        }
    }

    /// A file of requests that is to become a table.
    pub(crate) fn spool(path: PathBuf) -> Output {
        Output {
            path,
            is_archive: false,
            file: None,
        }
    }

    /// The files so far.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        match &self.file {
            Some(Growing::Archive(writer)) => writer.files(),
            Some(Growing::Spool(_)) => vec![self.path.clone()],
            None => Vec::new(),
        }
    }

    /// Whether the recording has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.file.is_some()
    }

    /// Ends the files. What was recorded until then is whole.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self.file {
            Some(Growing::Archive(writer)) => writer.finish().map_err(failed(Code::Failed)),
            Some(Growing::Spool(_)) | None => Ok(()),
        }
    }
}

impl Taker for Output {
    fn begin(&mut self, head: RecordHead) -> Result<(), Failure> {
        let made = if self.is_archive {
            let made = Writer::create(&self.path, heading(head));
            made.map(|writer| Growing::Archive(Box::new(writer)))
        } else {
            Spool::create(&self.path, head.origin_unix_ns, &head.disks).map(Growing::Spool)
        };
        self.file = Some(made.map_err(failed(Code::Failed))?);
        Ok(())
    }

    fn take(&mut self, recorded: Recorded, tally: &Tally) -> Result<(), Failure> {
        let kept = match (&mut self.file, recorded) {
            (Some(Growing::Archive(writer)), Recorded::Counters(at_unix_ns, found)) => {
                writer.record(at_unix_ns, &found)
            }
            (Some(Growing::Spool(spool)), Recorded::Requests(requests)) => {
                spool.append(&requests, tally.lost)
            }
            (_, other) => {
                return Err(Failure::new(
                    Code::Failed,
                    format!(
                        "record into {}: it came as something else: {other:?}",
                        self.path.display()
                    ),
                ));
            }
        };
        kept.map_err(failed(Code::Failed))
    }
}

fn heading(head: RecordHead) -> Heading {
    Heading {
        host: head.host,
        zone: head.zone,
        zone_name: head.zone_name,
        process: std::process::id(),
        start_unix_ns: head.origin_unix_ns,
        volume_bytes: VOLUME_BYTES,
    }
}

/// Whether an archive of this name is there already, in words.
pub(crate) fn check_free(base: &Path) -> Result<(), Failure> {
    let taken = ["meta", "index", "0"].map(|suffix| {
        let mut name = base.as_os_str().to_owned();
        name.push(".");
        name.push(suffix);
        PathBuf::from(name)
    });
    match taken.iter().find(|path| path.exists()) {
        None => Ok(()),
        Some(path) => Err(Failure::usage(format!(
            "record into {}: {} exists",
            base.display(),
            path.display()
        ))
        .hint("a recording is never overwritten; choose another name with -o")),
    }
}
