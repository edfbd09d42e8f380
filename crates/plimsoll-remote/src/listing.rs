// SPDX-License-Identifier: Apache-2.0
//! The list of the files of a pushed run. Its digest is the run's identity: who sends the same files once
//! more sends the same run.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PushFile {
    /// Its path below the run folder.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Its digest, in hexadecimal digits.
    pub sha256: String,
}

/// The list of a run's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PushListing {
    /// Identifier of the run, as its manifest has it.
    pub run: String,
    /// The revision measured: a commit, a release.
    #[serde(default)]
    pub revision: String,
    /// The system that the others are divided by.
    #[serde(default)]
    pub reference: Option<String>,
    /// Whether the whole team sees it.
    #[serde(default)]
    pub shared: bool,
    /// The files, in any order.
    pub files: Vec<PushFile>,
}

/// The server's answer to a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushAnswer {
    /// The digest.
    pub id: String,
    /// Whether the run is acknowledged: it is in the store and in the database.
    pub stored: bool,
    /// Its folder in the store, once it is.
    pub folder: Option<String>,
    /// Numbers of the files that are not there yet.
    pub wanted: Vec<usize>,
}

/// Bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl PushListing {
    /// The digest that identifies the run: of its files, in the order of their paths.
    pub fn digest(&self) -> String {
        PushListing::digest_of(&self.files)
    }

    /// The same of files without their list.
    pub fn digest_of(files: &[PushFile]) -> String {
        let mut files: Vec<&PushFile> = files.iter().collect();
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let mut digest = Sha256::new();
        for file in files {
            digest.update(format!("{} {} {}\n", file.sha256, file.bytes, file.path));
        }
        hexadecimal(&digest.finalize())
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        let all = self.files.iter().map(|file| file.bytes);
        all.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_are_the_same_run() {
        let file = |path: &str, bytes| PushFile {
            path: path.into(),
            bytes,
            sha256: "0".repeat(64),
        };
        let files = [file("manifest.json", 10), file("disks.0", 5)];
        let mut turned = files.clone();
        turned.reverse();
        let digest = PushListing::digest_of(&files);
        assert_eq!(PushListing::digest_of(&turned), digest);
        turned[0].bytes = 6;
        assert_ne!(PushListing::digest_of(&turned), digest);
    }
}
