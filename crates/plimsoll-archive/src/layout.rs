// SPDX-License-Identifier: Apache-2.0
//! The names of the files of a run folder, and how they are opened.

use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const EVENTS: &str = "events.jsonl";
pub(crate) const DISKS: &str = "disks";
pub(crate) const LEDGERS: &str = "ledgers";
/// Name of the report inside a run folder.
pub const REPORT: &str = "report.html";

/// Opens a file of a run folder. Another user may have made the folder: a link could lead to any file of this
/// machine, and opening a pipe would block.
pub(crate) fn open_own(options: &OpenOptions, path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let opened = options.clone().custom_flags(flags).open(path);
    let is_link = |error: &std::io::Error| error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
    let refused = || std::io::Error::other("it is not a regular file");
    match opened {
        Ok(file) if !file.metadata()?.is_file() => Err(refused()),
        Err(error) if is_link(&error) => Err(refused()),
        opened => opened,
    }
}

/// The same, to read it.
pub(crate) fn read_own(path: &Path) -> std::io::Result<File> {
    open_own(OpenOptions::new().read(true), path)
}

/// Whether a path below a run folder, with slashes, is that of a file that belongs to a run.
pub fn is_run_file(path: &str) -> bool {
    let is_disk_part = |rest: &str| {
        let (number, end) = rest.rsplit_once('.').unwrap_or(("-", ""));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let is_again = number.is_empty() || number.strip_prefix('-').is_some_and(is_number);
        is_again && (["meta", "index"].contains(&end) || is_number(end))
    };
    match path.split_once('/') {
        Some((folder, rest)) => folder == LEDGERS && !rest.is_empty(),
        None => {
            [MANIFEST, EVENTS, REPORT].contains(&path)
                || path.strip_prefix(DISKS).is_some_and(is_disk_part)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_run_file;

    #[test]
    fn files_of_a_run_are_known() {
        for good in [
            "manifest.json",
            "events.jsonl",
            "report.html",
            "ledgers/0-nfs.ledger",
            "disks.meta",
            "disks.0",
            "disks-12.index",
        ] {
            assert!(is_run_file(good), "{good}");
        }
        for bad in [
            "",
            "notes.txt",
            "ledgers/",
            "ledgers",
            "disks.",
            "disks-.0",
            "disks.0.xz",
            "x/events.jsonl",
        ] {
            assert!(!is_run_file(bad), "{bad}");
        }
    }
}
