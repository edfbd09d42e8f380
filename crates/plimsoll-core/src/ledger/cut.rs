// SPDX-License-Identifier: Apache-2.0
//! Power cuts of a real disk, each with what a check of its ledger found: a certificate counts them.

use super::LedgerCheck;
use crate::format::FormatVersion;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A disk as the kernel tells it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CutDisk {
    /// Its model; the kernel's name of it where it has none.
    pub model: String,
    /// Its serial number.
    pub serial: String,
    /// Version of its firmware.
    pub firmware: String,
    /// Whether the kernel flushes its cache: `write back` or `write through`.
    pub write_cache: String,
}

/// A check of the ledger of one cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LedgerCut {
    /// [`FormatVersion::LEDGER`] of the program that wrote it.
    pub format: FormatVersion,
    /// Identifier of the ledger, another one for each cut.
    pub ledger: u64,
    /// The storage as the user named it.
    pub target: String,
    /// The disks below it.
    pub disks: Vec<CutDisk>,
    /// When a write had to be durable, in words.
    pub durability: String,
    /// Kernel of the machine that checked it.
    pub kernel: String,
    /// When it was checked.
    pub checked_at: String,
    /// Findings.
    pub check: LedgerCheck,
}

/// The cuts of one storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerCertificate {
    /// Its checks in their order, at least one. A cut may be checked several times.
    pub checks: Vec<LedgerCut>,
}

impl LedgerCertificate {
    /// The certificate of these checks.
    ///
    /// # Errors
    /// When there is none, or they are of several disks.
    pub fn of(checks: Vec<LedgerCut>) -> Result<Self, String> {
        let Some(first) = checks.first() else {
            return Err("it has no check".into());
        };
        match checks.iter().find(|other| other.disks != first.disks) {
            Some(other) => Err(format!(
                "it has cuts of other disks: {} and {}",
                first.disks_in_words(),
                other.disks_in_words()
            )),
            None => Ok(LedgerCertificate { checks }),
        }
    }

    /// How many cuts were checked.
    pub fn cuts(&self) -> usize {
        self.ledgers(|_| true)
    }

    /// How many of these lost something in any of their checks.
    pub fn cuts_with_losses(&self) -> usize {
        self.ledgers(|check| check.check.data.bad.total() > 0)
    }

    fn ledgers(&self, wanted: impl Fn(&LedgerCut) -> bool) -> usize {
        let checks = self.checks.iter().filter(|check| wanted(check));
        checks
            .map(|check| check.ledger)
            .collect::<BTreeSet<_>>()
            .len()
    }
}

impl LedgerCut {
    /// `Model X (serial Y, firmware Z)` of each disk.
    pub fn disks_in_words(&self) -> String {
        let one = |disk: &CutDisk| {
            let more: Vec<String> = [("serial", &disk.serial), ("firmware", &disk.firmware)]
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            match more.is_empty() {
                true => disk.model.clone(),
                false => format!("{} ({})", disk.model, more.join(", ")),
            }
        };
        match self.disks.is_empty() {
            true => format!("unknown disk below {}", self.target),
            false => self.disks.iter().map(one).collect::<Vec<_>>().join(", "),
        }
    }
}
