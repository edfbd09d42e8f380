// SPDX-License-Identifier: Apache-2.0
//! Files that a recording goes into: an archive of counters, or requests while they are recorded.

use plimsoll_agent::recorder::{CaptureSink, CounterCaptureOptions};
use plimsoll_console::failure::{CliError, CliExitCode, failed};
use plimsoll_core::recording::{CaptureBatch, CaptureHeader, CaptureStats};
use plimsoll_core::units::Nanos;
use plimsoll_machine::host::HostTimeSource;
use plimsoll_trace::pcp::{PcpWriter, PcpWriterOptions};
use plimsoll_trace::requests::TraceSpool;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Length of a volume: some 100,000 samples of one disk. A volume is what is lost when a disk's
/// block goes bad.
const VOLUME_BYTES: u64 = 64 << 20;

/// A file, or the files of an archive, that are made when the recording begins.
#[derive(Debug)]
pub struct CaptureOutput {
    /// Base name of the archive, or the file of requests.
    path: PathBuf,
    is_archive: bool,
    file: Option<Growing>,
}

/// Files that grow.
#[derive(Debug)]
enum Growing {
    Archive(Box<PcpWriter>),
    Spool(TraceSpool),
}

impl CaptureOutput {
    /// An archive of this base name.
    pub fn archive(base: PathBuf) -> CaptureOutput {
        CaptureOutput {
            path: base,
            is_archive: true,
            file: None,
        }
    }

    /// A file of requests that is to become a table.
    pub fn spool(path: PathBuf) -> CaptureOutput {
        CaptureOutput {
            path,
            is_archive: false,
            file: None,
        }
    }

    /// The files so far.
    pub fn files(&self) -> Vec<PathBuf> {
        match &self.file {
            Some(Growing::Archive(writer)) => writer.files(),
            Some(Growing::Spool(_)) => vec![self.path.clone()],
            None => Vec::new(),
        }
    }

    /// Whether the recording has begun.
    pub fn has_begun(&self) -> bool {
        self.file.is_some()
    }

    /// Ends the files. What was recorded until then is whole.
    pub fn finish(self) -> Result<(), CliError> {
        match self.file {
            Some(Growing::Archive(writer)) => writer.finish().map_err(failed(CliExitCode::Failed)),
            Some(Growing::Spool(_)) | None => Ok(()),
        }
    }
}

impl CaptureSink for CaptureOutput {
    fn begin(&mut self, head: CaptureHeader) -> Result<(), CliError> {
        let made = if self.is_archive {
            let made = PcpWriter::create(&self.path, heading(head));
            made.map(|writer| Growing::Archive(Box::new(writer)))
        } else {
            TraceSpool::create(&self.path, head.origin_unix_ns, &head.disks).map(Growing::Spool)
        };
        self.file = Some(made.map_err(failed(CliExitCode::Failed))?);
        Ok(())
    }

    fn take(&mut self, recorded: CaptureBatch, tally: &CaptureStats) -> Result<(), CliError> {
        let kept = match (&mut self.file, recorded) {
            (Some(Growing::Archive(writer)), CaptureBatch::Counters(at_unix_ns, found)) => {
                writer.record(at_unix_ns, &found)
            }
            (Some(Growing::Spool(spool)), CaptureBatch::Requests(requests)) => {
                spool.append(&requests, tally.lost)
            }
            (_, other) => {
                return Err(CliError::new(
                    CliExitCode::Failed,
                    format!(
                        "record into {}: protocol error: unexpected {other:?}",
                        self.path.display()
                    ),
                ));
            }
        };
        kept.map_err(failed(CliExitCode::Failed))
    }
}

fn heading(head: CaptureHeader) -> PcpWriterOptions {
    PcpWriterOptions {
        host: head.host,
        zone: head.zone,
        zone_name: head.zone_name,
        process: std::process::id(),
        start_unix_ns: head.origin_unix_ns,
        volume_bytes: VOLUME_BYTES,
    }
}

/// Whether an archive of this name is there already, in words.
pub fn check_free(base: &Path) -> Result<(), CliError> {
    let taken = ["meta", "index", "0"].map(|suffix| {
        let mut name = base.as_os_str().to_owned();
        name.push(".");
        name.push(suffix);
        PathBuf::from(name)
    });
    match taken.iter().find(|path| path.exists()) {
        None => Ok(()),
        Some(path) => Err(CliError::usage(format!(
            "record into {}: {} exists",
            base.display(),
            path.display()
        ))
        .hint("a recording is never overwritten; choose another name with -o")),
    }
}

/// Samples these disks every second into a new archive until `stop` is set.
pub fn sample(
    base: PathBuf,
    disks: Vec<String>,
    clock: &dyn HostTimeSource,
    stop: &AtomicBool,
) -> Result<CaptureStats, CliError> {
    let watch = CounterCaptureOptions {
        interval: Nanos::SECOND,
        length: None,
        disks,
    };
    let mut archive = CaptureOutput::archive(base);
    let sampled = watch.run((clock, stop), &mut archive);
    let ended = archive.finish();
    let tally = sampled?;
    ended.map(|()| tally)
}
