// SPDX-License-Identifier: Apache-2.0
//! Verification of the data of a run: how much was written, read back, and found bad.
//!
//! Found by the engine, kept in run folders, shown by the terminal and the report.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether what a run writes is verified.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DataCheck {
    /// No.
    #[default]
    Off,
    /// Everything that was written is read back when the run has ended.
    End,
    /// Also every read of the run is compared with what was written before.
    Always,
}

/// Flaw of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DataFlaw {
    /// A read of it, while all was well, gave the contents before the acknowledged write: zeros or an
    /// older version.
    Stale,
    /// Some of its sectors are from the acknowledged write, others from before; or those of one
    /// piece that is promised to be written at once are of several writes.
    Torn,
    /// It holds what was written to `belongs_at`.
    Misplaced {
        /// Byte offset the contents were written to.
        belongs_at: u64,
    },
    /// It holds something that was never written in this run.
    Wrong,
    /// It could not be read back at all.
    Unreadable,
    /// A durable write is missing, with all that became durable around it: the tail of a cache that
    /// was cut off, or a single write that was dropped.
    Lost,
    /// A durable write is missing although one that began when it was durable is there, and others
    /// after that one are missing again: writes reached the storage in another order.
    Hole,
    /// It holds what was written to another storage system: of this campaign, or of another one
    /// while this one ran.
    Foreign,
    /// It holds an older version than a check before had read: an old write came late, or an old
    /// copy is back.
    Zombie,
    /// It reads differently by another way to the same storage.
    Diverged,
    /// It lies readable where it should be encrypted.
    Plaintext,
}

impl DataFlaw {
    /// One of each kind, in the order of reports.
    pub const EVERY: [DataFlaw; 11] = [
        DataFlaw::Wrong,
        DataFlaw::Torn,
        DataFlaw::Misplaced { belongs_at: 0 },
        DataFlaw::Stale,
        DataFlaw::Unreadable,
        DataFlaw::Lost,
        DataFlaw::Hole,
        DataFlaw::Foreign,
        DataFlaw::Zombie,
        DataFlaw::Diverged,
        DataFlaw::Plaintext,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            DataFlaw::Stale => "stale",
            DataFlaw::Torn => "torn",
            DataFlaw::Misplaced { .. } => "misplaced",
            DataFlaw::Wrong => "wrong",
            DataFlaw::Unreadable => "unreadable",
            DataFlaw::Lost => "lost",
            DataFlaw::Hole => "hole",
            DataFlaw::Foreign => "foreign",
            DataFlaw::Zombie => "zombie",
            DataFlaw::Diverged => "diverged",
            DataFlaw::Plaintext => "plaintext",
        }
    }
}

impl fmt::Display for DataFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            DataFlaw::Misplaced { belongs_at } => write!(f, " (belongs at {belongs_at})"),
            _ => Ok(()),
        }
    }
}

/// Bad blocks by what is wrong with them, counted at each read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BadBlocks {
    /// Something that was never written in this run.
    pub wrong: u64,
    /// An acknowledged write that is there in part.
    pub torn: u64,
    /// Data that belong elsewhere.
    pub misplaced: u64,
    /// An acknowledged write that is missing.
    pub stale: u64,
    /// An acknowledged write that could not be read back.
    #[serde(default)]
    pub unreadable: u64,
    /// Durable writes that are missing at the end, or singly.
    #[serde(default, skip_serializing_if = "is_none")]
    pub lost: u64,
    /// Durable writes that are missing among others that are there.
    #[serde(default, skip_serializing_if = "is_none")]
    pub hole: u64,
    /// Data that were written to another storage system.
    #[serde(default, skip_serializing_if = "is_none")]
    pub foreign: u64,
    /// Old versions that are back.
    #[serde(default, skip_serializing_if = "is_none")]
    pub zombie: u64,
    /// Data that read differently by another way.
    #[serde(default, skip_serializing_if = "is_none")]
    pub diverged: u64,
    /// Data that should be encrypted and are not.
    #[serde(default, skip_serializing_if = "is_none")]
    pub plaintext: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde asks for"
)]
fn is_none(count: &u64) -> bool {
    *count == 0
}

impl BadBlocks {
    /// Of all kinds.
    pub fn total(&self) -> u64 {
        DataFlaw::EVERY.iter().map(|flaw| self.of(*flaw)).sum()
    }

    /// Of one kind.
    pub fn of(&self, flaw: DataFlaw) -> u64 {
        // The one list of places is that of counting.
        let mut copy = *self;
        *copy.place(flaw)
    }

    /// Counts one.
    pub fn count(&mut self, flaw: DataFlaw) {
        *self.place(flaw) += 1;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &BadBlocks) {
        for flaw in DataFlaw::EVERY {
            *self.place(flaw) += other.of(flaw);
        }
    }

    fn place(&mut self, flaw: DataFlaw) -> &mut u64 {
        match flaw {
            DataFlaw::Wrong => &mut self.wrong,
            DataFlaw::Torn => &mut self.torn,
            DataFlaw::Misplaced { .. } => &mut self.misplaced,
            DataFlaw::Stale => &mut self.stale,
            DataFlaw::Unreadable => &mut self.unreadable,
            DataFlaw::Lost => &mut self.lost,
            DataFlaw::Hole => &mut self.hole,
            DataFlaw::Foreign => &mut self.foreign,
            DataFlaw::Zombie => &mut self.zombie,
            DataFlaw::Diverged => &mut self.diverged,
            DataFlaw::Plaintext => &mut self.plaintext,
        }
    }
}

impl fmt::Display for BadBlocks {
    /// `3 bad (1 wrong, 2 stale)`; kinds that did not occur are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bad", self.total())?;
        let words: Vec<String> = DataFlaw::EVERY
            .into_iter()
            .map(|flaw| (self.of(flaw), flaw.name()))
            .filter(|(count, _)| *count > 0)
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        if words.is_empty() {
            return Ok(());
        }
        write!(f, " ({})", words.join(", "))
    }
}

/// A block that did not read back as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BadBlock {
    /// Name of its file or device.
    pub file: String,
    /// Byte offset of its first bad sector.
    pub offset: u64,
    /// Its flaw; called `fault` in run folders since the first of them.
    #[serde(rename = "fault")]
    pub flaw: DataFlaw,
}

/// Result of the verification of the data of a trial.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DataCheckResult {
    /// Blocks written and acknowledged; a block that was written twice counts twice.
    pub written: u64,
    /// Blocks read and held against what was written, each time they were.
    pub checked: u64,
    /// Operations that failed with an error of the system, those of the workload included.
    pub errors: u64,
    /// Those that were bad.
    pub bad: BadBlocks,
    /// The first of them, at most [`DataCheckResult::FINDINGS_MAX`].
    pub findings: Vec<BadBlock>,
    /// Whether not everything was read back: the user stopped it, or it took too long.
    pub interrupted: bool,
}

impl DataCheckResult {
    /// Most bad blocks that are described; all are counted.
    pub const FINDINGS_MAX: usize = 20;

    /// Adds another file's, or another phase's.
    pub fn merge(&mut self, other: DataCheckResult) {
        self.written += other.written;
        self.checked += other.checked;
        self.errors += other.errors;
        self.bad.merge(&other.bad);
        self.findings.extend(other.findings);
        self.findings.truncate(Self::FINDINGS_MAX);
        self.interrupted |= other.interrupted;
    }

    /// The first `count` bad blocks in words, such as `stale at byte 4096 of data`.
    pub fn first_words(&self, count: usize) -> String {
        let words = self.findings.iter().take(count).map(|bad| {
            let BadBlock { file, offset, flaw } = bad;
            format!("{flaw} at byte {offset} of {file}")
        });
        words.collect::<Vec<_>>().join("; ")
    }
}

impl fmt::Display for DataCheckResult {
    /// `12 blocks written, 9 read back, 0 bad`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (written, checked, bad) = (self.written, self.checked, &self.bad);
        write!(f, "{written} blocks written, {checked} read back, {bad}")?;
        if self.interrupted {
            f.write_str("; not all were read back")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_add_up_and_say_what_was_found() {
        let mut whole = DataCheckResult {
            written: 5,
            checked: 4,
            ..DataCheckResult::default()
        };
        assert_eq!(whole.to_string(), "5 blocks written, 4 read back, 0 bad");
        let mut bad = BadBlocks::default();
        for flaw in [
            DataFlaw::Wrong,
            DataFlaw::Stale,
            DataFlaw::Unreadable,
            DataFlaw::Stale,
            DataFlaw::Misplaced { belongs_at: 7 },
        ] {
            bad.count(flaw);
        }
        let finding = BadBlock {
            file: "data".into(),
            offset: 512,
            flaw: DataFlaw::Misplaced { belongs_at: 7 },
        };
        whole.merge(DataCheckResult {
            written: 1,
            checked: 1,
            errors: 2,
            bad,
            findings: vec![finding; 30],
            interrupted: true,
        });
        assert_eq!(
            whole.to_string(),
            "6 blocks written, 5 read back, 5 bad (1 wrong, 1 misplaced, 2 stale, 1 unreadable); \
             not all were read back"
        );
        assert_eq!(whole.findings.len(), DataCheckResult::FINDINGS_MAX);
        assert_eq!(
            whole.first_words(1),
            "misplaced (belongs at 7) at byte 512 of data"
        );
        let kept = serde_json::to_value(&whole.findings[0]).unwrap();
        assert_eq!(
            kept["fault"]["misplaced"]["belongs_at"], 7,
            "the format of run folders"
        );
    }
}
