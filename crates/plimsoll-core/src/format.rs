// SPDX-License-Identifier: Apache-2.0
//! Versions of what we write to disk.
//!
//! A reader accepts its own major version with any minor not above its own; it refuses the rest.

use serde::{Deserialize, Serialize};
use std::fmt;

/// `major.minor` of a file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(extend("pattern" = r"^[0-9]+\.[0-9]+$")))]
#[serde(try_from = "String", into = "String")]
pub struct FormatVersion {
    /// Changes when old readers would misunderstand.
    pub major: u32,
    /// Changes when something was added that old readers would miss.
    pub minor: u32,
}

impl FormatVersion {
    /// Run folders.
    pub const RUN: FormatVersion = FormatVersion { major: 2, minor: 8 };
    /// Run folders in which the manifest and each line of the events carry a checksum.
    pub const RUN_WITH_CHECKSUMS: FormatVersion = FormatVersion { major: 2, minor: 2 };
    /// Run folders in which each checksum goes on from the one before it.
    pub const RUN_WITH_CHAIN: FormatVersion = FormatVersion { major: 2, minor: 8 };
    /// Workload files.
    pub const WORKLOAD: FormatVersion = FormatVersion { major: 2, minor: 1 };
    /// Campaign files.
    pub const CAMPAIGN: FormatVersion = FormatVersion { major: 1, minor: 4 };
    /// Experiment files.
    pub const EXPERIMENT: FormatVersion = FormatVersion { major: 1, minor: 0 };
    /// Results of runs as JSON.
    pub const RESULTS: FormatVersion = FormatVersion { major: 2, minor: 2 };
    /// Server files, and results of durability.
    pub const DURABILITY: FormatVersion = FormatVersion { major: 1, minor: 0 };
    /// Partial results of profiles.
    pub const PARTIAL: FormatVersion = FormatVersion { major: 1, minor: 0 };
    /// Ledgers of acknowledged writes.
    pub const LEDGER: FormatVersion = FormatVersion { major: 1, minor: 0 };
    /// Journals of changes made to a machine.
    pub const JOURNAL: FormatVersion = FormatVersion { major: 1, minor: 7 };

    /// Whether a program that writes `self` may read `found`.
    #[must_use]
    pub fn reads(self, found: FormatVersion) -> bool {
        found.major == self.major && found.minor <= self.minor
    }
}

impl fmt::Display for FormatVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl From<FormatVersion> for String {
    fn from(version: FormatVersion) -> String {
        version.to_string()
    }
}

impl TryFrom<String> for FormatVersion {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let parsed = text.split_once('.').and_then(|(major, minor)| {
            Some(FormatVersion {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| format!("'{text}' is not a format version such as 1.0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_formats_are_refused_and_older_minors_read() {
        let ours = FormatVersion { major: 2, minor: 3 };
        for (major, minor, expect) in [
            (2, 3, true),
            (2, 0, true),
            (2, 4, false),
            (1, 3, false),
            (3, 0, false),
        ] {
            assert_eq!(ours.reads(FormatVersion { major, minor }), expect);
        }
    }
}
