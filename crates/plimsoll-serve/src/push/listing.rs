// SPDX-License-Identifier: Apache-2.0
//! The list of the files of a pushed run. Its digest is the run's identity: who sends the same files once
//! more sends the same run.
//!
//! A list is data of a stranger. Of a file there are only its path, its length and its digest, so a link or a
//! device cannot be said; and paths are only those of run folders.

use crate::error::RequestError;
use crate::seen::is_run_name;
use axum::http::StatusCode;
use plimsoll_archive::is_run_file;
use plimsoll_core::text::printable;
use plimsoll_core::units::size;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// Most files of a run, longest path and part of one, and most parts.
const FILES_MAX: usize = 10_000;
const PATH_MAX: usize = 255;
const PART_MAX: usize = 128;
const PARTS_MAX: usize = 4;
/// Room on a disk of a file, a folder or a line of the list, beside its bytes.
const ENTRY_BYTES: u64 = 4096;
const LINE_BYTES: u64 = 128;
/// Longest name of a revision or a system.
const WORDS_MAX: usize = 200;
/// Most bytes of a manifest, which is read whole.
const MANIFEST_MAX: u64 = 32 << 20;

/// Most bytes that may be pushed.
#[derive(Debug, Clone, Copy)]
pub struct PushLimits {
    /// Of one file.
    pub file_bytes: u64,
    /// Of one run.
    pub run_bytes: u64,
    /// Of all runs of one user.
    pub user_bytes: u64,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PushFile {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

/// The list of a run's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PushListing {
    /// Identifier of the run, as its manifest has it.
    pub(crate) run: String,
    /// The revision measured: a commit, a release.
    #[serde(default)]
    pub(crate) revision: String,
    /// The system that the others are divided by.
    #[serde(default)]
    pub(crate) reference: Option<String>,
    /// Whether the whole team sees it.
    #[serde(default)]
    pub(crate) shared: bool,
    pub(crate) files: Vec<PushFile>,
}

/// The server's answer to a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PushAnswer {
    /// The digest.
    pub(crate) id: String,
    /// Whether the run is acknowledged: it is in the store and in the database.
    pub(crate) stored: bool,
    /// Its folder in the store, once it is.
    pub(crate) folder: Option<String>,
    /// Numbers of the files that are not there yet.
    pub(crate) wanted: Vec<usize>,
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn refused(text: impl Into<String>) -> RequestError {
    RequestError::invalid(text)
}

fn too_large(text: String) -> RequestError {
    RequestError::new(StatusCode::PAYLOAD_TOO_LARGE, text)
        .hint("the server's limits are options of plimsoll serve")
}

impl PushListing {
    /// The digest that identifies the run: of its files, in the order of their paths.
    pub(crate) fn digest(&self) -> String {
        PushListing::digest_of(&self.files)
    }

    /// The same of files without their list.
    pub(crate) fn digest_of(files: &[PushFile]) -> String {
        let mut files: Vec<&PushFile> = files.iter().collect();
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let mut digest = Sha256::new();
        for file in files {
            digest.update(format!("{} {} {}\n", file.sha256, file.bytes, file.path));
        }
        hexadecimal(&digest.finalize())
    }

    pub(crate) fn bytes(&self) -> u64 {
        let all = self.files.iter().map(|file| file.bytes);
        all.fold(0, u64::saturating_add)
    }

    /// Room in the store: its bytes, its files and folders, and the list itself.
    pub(crate) fn takes(&self) -> u64 {
        let folders: BTreeSet<&str> = self
            .files
            .iter()
            .flat_map(|file| file.path.match_indices('/').map(|(at, _)| &file.path[..at]))
            .collect();
        let lines: u64 = self
            .files
            .iter()
            .map(|file| file.path.len() as u64 + LINE_BYTES)
            .sum();
        let entries = (self.files.len() + folders.len()) as u64;
        self.bytes()
            .saturating_add(entries * ENTRY_BYTES)
            .saturating_add(lines)
    }

    /// Refuses what is no list of a run folder, or too much.
    pub(crate) fn check(&self, limits: &PushLimits) -> Result<(), RequestError> {
        if !is_run_name(&self.run) || self.run.len() > 80 {
            return Err(refused(format!(
                "the run cannot be named '{}'",
                printable(&self.run.chars().take(80).collect::<String>())
            )));
        }
        let words = [Some(&self.revision), self.reference.as_ref()];
        let is_bad = |word: &&String| word.len() > WORDS_MAX || **word != printable(word);
        if words.into_iter().flatten().any(|word| is_bad(&word)) {
            return Err(refused(
                "a revision or a reference is too long, or no plain text",
            ));
        }
        if self.files.len() > FILES_MAX {
            return Err(too_large(format!(
                "the run has {} files, and {FILES_MAX} are the most",
                self.files.len()
            )));
        }
        let mut seen = BTreeSet::new();
        for file in &self.files {
            check_file(file, limits)?;
            // On some file systems two such names are one.
            if !seen.insert(file.path.to_ascii_lowercase()) {
                return Err(refused(format!(
                    "two files of the run are named '{}'",
                    file.path
                )));
            }
        }
        let below = |path: &String| path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        if let Some(folder) = seen
            .iter()
            .filter_map(below)
            .find(|folder| seen.contains(folder))
        {
            return Err(refused(format!(
                "'{folder}' is a file and a folder of the run"
            )));
        }
        for needed in ["manifest.json", "events.jsonl"] {
            if !seen.contains(needed) {
                return Err(refused(format!("it is no run folder: it has no {needed}")));
            }
        }
        match self.bytes() > limits.run_bytes {
            false => Ok(()),
            true => Err(too_large(format!(
                "the run has {}, and a run may have {}",
                size(self.bytes() as f64),
                size(limits.run_bytes as f64)
            ))),
        }
    }
}

fn check_file(file: &PushFile, limits: &PushLimits) -> Result<(), RequestError> {
    let path = &file.path;
    let is_part = |part: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+@=,() ".contains(c);
        (1..=PART_MAX).contains(&part.len())
            && part.chars().all(is_plain)
            && !part.starts_with(['.', ' '])
            && !part.ends_with(['.', ' '])
    };
    let is_path = path.len() <= PATH_MAX
        && path.split('/').count() <= PARTS_MAX
        && path.split('/').all(is_part);
    if !is_path || !is_run_file(path) {
        let shown: String = path.chars().take(80).collect();
        return Err(refused(format!(
            "'{}' is no file of a run folder",
            printable(&shown)
        )));
    }
    let is_digest = file.sha256.len() == 64
        && file
            .sha256
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if !is_digest {
        return Err(refused(format!(
            "the digest of {path} is no SHA-256 in hexadecimal digits"
        )));
    }
    let most = match path.as_str() {
        "manifest.json" => limits.file_bytes.min(MANIFEST_MAX),
        _ => limits.file_bytes,
    };
    match file.bytes > most {
        false => Ok(()),
        true => Err(too_large(format!(
            "{path} has {}, and may have {}",
            size(file.bytes as f64),
            size(most as f64)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PushLimits = PushLimits {
        file_bytes: 1000,
        run_bytes: 1500,
        user_bytes: 2000,
    };

    fn listing(more: &[(&str, u64)]) -> PushListing {
        let file = |(path, bytes): &(&str, u64)| PushFile {
            path: (*path).into(),
            bytes: *bytes,
            sha256: "0".repeat(64),
        };
        let usual = [("manifest.json", 10), ("events.jsonl", 10)];
        PushListing {
            run: "monday".into(),
            revision: String::new(),
            reference: None,
            shared: false,
            files: usual.iter().chain(more).map(file).collect(),
        }
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        assert_eq!(
            listing(&[("ledgers/0.ledger", 5), ("disks.0", 5)]).check(&LIMITS),
            Ok(())
        );
        let long = format!("ledgers/{}", "x".repeat(129));
        let deep = format!("ledgers/{}x", "d/".repeat(9));
        for path in [
            "../evil",
            "ledgers/../../evil",
            "ledgers/..",
            "ledgers/./x",
            "ledgers//x",
            "/etc/passwd",
            "ledgers/.hidden",
            "ledgers/x\0y",
            "ledgers/x\ny",
            "ledgers/a\\b",
            "ledgers/C:x",
            "ledgers/x.",
            "ledgers/ä",
            "pushed.json",
            "EVENTS.jsonl",
            "events.jsonl",
            "bomb.parquet",
            "",
            &long,
            &deep,
        ] {
            let told = listing(&[(path, 5)]).check(&LIMITS);
            assert!(told.is_err(), "{path}");
        }
        let twice = listing(&[("ledgers/A", 5), ("ledgers/a", 5)]).check(&LIMITS);
        assert!(twice.unwrap_err().text.contains("two files"));
        let both = listing(&[("ledgers/a", 5), ("ledgers/a/b", 5)]).check(&LIMITS);
        assert!(both.unwrap_err().text.contains("a file and a folder"));
    }

    #[test]
    fn too_much_is_refused_before_anything_is_sent() {
        let large = listing(&[("report.html", 1001)])
            .check(&LIMITS)
            .unwrap_err();
        assert_eq!(large.status, StatusCode::PAYLOAD_TOO_LARGE);
        let many = listing(&[("report.html", 900), ("disks.0", 900)]).check(&LIMITS);
        assert!(many.unwrap_err().text.contains("the run has"));
        let huge = listing(&[("disks.0", u64::MAX), ("disks.1", u64::MAX)]).check(&LIMITS);
        assert!(huge.is_err());
        let mut wrong = listing(&[]);
        wrong.files[0].sha256 = "X".repeat(64);
        assert!(wrong.check(&LIMITS).unwrap_err().text.contains("SHA-256"));
        wrong.files.remove(0);
        assert!(
            wrong
                .check(&LIMITS)
                .unwrap_err()
                .text
                .contains("no manifest.json")
        );
    }

    #[test]
    fn files_without_bytes_and_their_folders_count() {
        let empty: Vec<String> = (0..100).map(|n| format!("ledgers/a{n}/b")).collect();
        let more: Vec<(&str, u64)> = empty.iter().map(|path| (path.as_str(), 0)).collect();
        let (few, many) = (listing(&[]), listing(&more));
        assert_eq!(few.bytes(), many.bytes());
        // A hundred files in as many folders, and the folder of those.
        assert!(many.takes() > few.takes() + 201 * ENTRY_BYTES);
    }

    #[test]
    fn the_same_files_are_the_same_run() {
        let (one, mut two) = (listing(&[("disks.0", 5)]), listing(&[("disks.0", 5)]));
        two.files.reverse();
        two.shared = true;
        assert_eq!(one.digest(), two.digest());
        two.files[0].bytes = 6;
        assert_ne!(one.digest(), two.digest());
    }
}
