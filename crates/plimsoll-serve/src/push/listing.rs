// SPDX-License-Identifier: Apache-2.0
//! The list of the files of a pushed run, received: how much room they take, and whether they may come.
//!
//! A list is data of a stranger. Of a file there are only its path, its length and its digest, so a link or a
//! device cannot be said; and paths are only those of run folders.

use crate::error::RequestError;
use crate::seen::is_run_name;
use axum::http::StatusCode;
use plimsoll_archive::is_run_file;
use plimsoll_core::text::printable;
use plimsoll_core::units::size;
use plimsoll_remote::listing::{PushFile, PushListing};
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

fn refused(text: impl Into<String>) -> RequestError {
    RequestError::invalid(text)
}

fn too_large(text: String) -> RequestError {
    RequestError::new(StatusCode::PAYLOAD_TOO_LARGE, text)
        .hint("the server's limits are options of plimsoll serve")
}

/// Room in the store: its bytes, its files and folders, and the list itlisting.
pub(crate) fn takes(listing: &PushListing) -> u64 {
    let folders: BTreeSet<&str> = listing
        .files
        .iter()
        .flat_map(|file| file.path.match_indices('/').map(|(at, _)| &file.path[..at]))
        .collect();
    let lines: u64 = listing
        .files
        .iter()
        .map(|file| file.path.len() as u64 + LINE_BYTES)
        .sum();
    let entries = (listing.files.len() + folders.len()) as u64;
    listing
        .bytes()
        .saturating_add(entries * ENTRY_BYTES)
        .saturating_add(lines)
}

/// Refuses what is no list of a run folder, or too much.
pub(crate) fn check(listing: &PushListing, limits: &PushLimits) -> Result<(), RequestError> {
    if !is_run_name(&listing.run) || listing.run.len() > 80 {
        return Err(refused(format!(
            "the run cannot be named '{}'",
            printable(&listing.run.chars().take(80).collect::<String>())
        )));
    }
    let words = [Some(&listing.revision), listing.reference.as_ref()];
    let is_bad = |word: &&String| word.len() > WORDS_MAX || **word != printable(word);
    if words.into_iter().flatten().any(|word| is_bad(&word)) {
        return Err(refused(
            "a revision or a reference is too long, or no plain text",
        ));
    }
    if listing.files.len() > FILES_MAX {
        return Err(too_large(format!(
            "the run has {} files, and {FILES_MAX} are the most",
            listing.files.len()
        )));
    }
    let mut seen = BTreeSet::new();
    for file in &listing.files {
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
    match listing.bytes() > limits.run_bytes {
        false => Ok(()),
        true => Err(too_large(format!(
            "the run has {}, and a run may have {}",
            size(listing.bytes() as f64),
            size(limits.run_bytes as f64)
        ))),
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
            check(
                &listing(&[("ledgers/0.ledger", 5), ("disks.0", 5)]),
                &LIMITS
            ),
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
            let told = check(&listing(&[(path, 5)]), &LIMITS);
            assert!(told.is_err(), "{path}");
        }
        let twice = check(&listing(&[("ledgers/A", 5), ("ledgers/a", 5)]), &LIMITS);
        assert!(twice.unwrap_err().text.contains("two files"));
        let both = check(&listing(&[("ledgers/a", 5), ("ledgers/a/b", 5)]), &LIMITS);
        assert!(both.unwrap_err().text.contains("a file and a folder"));
    }

    #[test]
    fn too_much_is_refused_before_anything_is_sent() {
        let large = check(&listing(&[("report.html", 1001)]), &LIMITS).unwrap_err();
        assert_eq!(large.status, StatusCode::PAYLOAD_TOO_LARGE);
        let many = check(&listing(&[("report.html", 900), ("disks.0", 900)]), &LIMITS);
        assert!(many.unwrap_err().text.contains("the run has"));
        let huge = check(
            &listing(&[("disks.0", u64::MAX), ("disks.1", u64::MAX)]),
            &LIMITS,
        );
        assert!(huge.is_err());
        let mut wrong = listing(&[]);
        wrong.files[0].sha256 = "X".repeat(64);
        assert!(check(&wrong, &LIMITS).unwrap_err().text.contains("SHA-256"));
        wrong.files.remove(0);
        assert!(
            check(&wrong, &LIMITS)
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
        assert!(takes(&many) > takes(&few) + 201 * ENTRY_BYTES);
    }
}
