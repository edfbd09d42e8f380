// SPDX-License-Identifier: Apache-2.0
//! Claims on directories and disks of this machine, by which runs know of each other.

use super::TargetRaising;
use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_core::event::RunWarning;
use plimsoll_machine::claim::{self, ClaimOutcome};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Claims on this machine, and other runs that were seen on it.
#[derive(Debug, Default)]
pub(super) struct TargetClaims {
    /// Whether a directory may be shared with another run.
    pub(super) shared: bool,
    /// Locks: others see them as long as they are open.
    claims: Vec<File>,
    /// Directories that are claimed, by device and number: a control has that of its base.
    claimed: BTreeSet<(u64, u64)>,
    /// Warnings of other runs that work on the same arm or disk.
    others: Vec<RunWarning>,
}

impl TargetRaising<'_> {
    /// Claims the directory that the target was given as.
    ///
    /// # Errors
    /// When another run works in it, and that was not allowed.
    pub(super) fn claim(&mut self, root: &Path) -> Result<(), CliError> {
        let claims = &mut self.bench.claims;
        match claims.other_run(root) {
            Some(run) if claims.shared => claims.note(self.arm, &run),
            Some(run) => {
                return Err(CliError::new(
                    CliExitCode::Failed,
                    format!(
                        "use target '{}': {run} works in it, and both would measure each other",
                        self.given
                    ),
                )
                .hint("wait for it to end, or use --shared, which the report notes"));
            }
            None => {}
        }
        Ok(())
    }

    /// Claims the mount of a stack: several may use it, and that is noted.
    pub(super) fn claim_stack(&mut self, root: &Path) {
        // A claim keeps its directory open and would keep a stack from unmounting it, as faults and
        // self-tests may have to: the directory above the mount is claimed instead.
        let claims = &mut self.bench.claims;
        if let Some(run) = claims.other_run(root.parent().unwrap_or(root)) {
            claims.note(self.arm, &run);
        }
    }
}

impl TargetClaims {
    /// Claims a directory for this run; another run that works in it, in words.
    fn other_run(&mut self, root: &Path) -> Option<String> {
        let number = fs::metadata(root).map(|data| (data.dev(), data.ino()));
        if number.is_ok_and(|number| !self.claimed.insert(number)) {
            return None;
        }
        self.keep(claim::directory(root))
    }

    fn keep(&mut self, claimed: ClaimOutcome) -> Option<String> {
        match claimed {
            ClaimOutcome::Ours(file) => self.claims.push(file),
            ClaimOutcome::Unknown => {}
            ClaimOutcome::Others(None) => return Some("another run".into()),
            ClaimOutcome::Others(Some(pid)) => return Some(format!("another run (process {pid})")),
        }
        None
    }

    fn note(&mut self, arm: &str, run: &str) {
        self.others.push(RunWarning {
            about: arm.into(),
            text: format!("{run} works on it, too: both are slower"),
        });
    }

    pub(super) fn claim_disk(&mut self, disk: &str) {
        if let Some(run) = self.keep(claim::disk(disk)) {
            self.others.push(RunWarning {
                about: disk.into(),
                text: format!("{run} works on this disk, too: each slows the other down"),
            });
        }
    }

    /// Warnings of other runs that work on the same arm or disk.
    pub(super) fn others(&self) -> &[RunWarning] {
        &self.others
    }
}
