// SPDX-License-Identifier: Apache-2.0
//! Targets below the arms: the type of each, other runs that use it, and facts that a reader should
//! know before any number.

use super::{ArmSet, ArmTarget};
use crate::campaign::{WorkloadRequest, remote};
use crate::spec::TargetSpec;
use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_core::event::RunWarning;
use plimsoll_core::target::NodeTarget;
use plimsoll_machine::claim::{self, ClaimOutcome};
use plimsoll_machine::host::medium;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Claims on this machine, and other runs that were seen on it.
#[derive(Debug, Default)]
pub(super) struct ArmClaims {
    /// Whether a directory may be shared with another run.
    shared: bool,
    /// Locks: others see them as long as they are open.
    claims: Vec<File>,
    /// Directories that are claimed, by device and number: a control has that of its base.
    claimed: BTreeSet<(u64, u64)>,
    /// Warnings of other runs that work on the same arm or disk.
    others: Vec<RunWarning>,
}

impl ArmClaims {
    /// Claims the directory that a target was given as.
    ///
    /// # Errors
    /// When another run works in it, and that was not allowed.
    pub(super) fn claim_root(&mut self, target: &ArmTarget, root: &Path) -> Result<(), CliError> {
        let is_stack = matches!(target.spec, TargetSpec::Stack(_));
        if !is_stack && !matches!(target.spec, TargetSpec::Directory(_)) {
            return Ok(());
        }
        // A claim keeps its directory open and would keep a stack from unmounting it, as faults and
        // self-tests may have to: the directory above the mount is claimed instead.
        let root = match root.parent() {
            Some(above) if is_stack => above,
            _ => root,
        };
        let number = fs::metadata(root).map(|data| (data.dev(), data.ino()));
        if number.is_ok_and(|number| !self.claimed.insert(number)) {
            return Ok(());
        }
        match claim::directory(root) {
            ClaimOutcome::Ours(file) => self.claims.push(file),
            ClaimOutcome::Unknown => {}
            // Several may use a stack; that is noted, as where it was allowed.
            ClaimOutcome::Others(pid) if is_stack || self.shared => self.others.push(RunWarning {
                about: target.name.clone(),
                text: format!(
                    "another run{} works on it, too: both are slower",
                    process(pid)
                ),
            }),
            ClaimOutcome::Others(pid) => {
                return Err(CliError::new(
                    CliExitCode::Failed,
                    format!(
                        "use target '{}': another run{} works in it, and both would measure each other",
                        target.given,
                        process(pid)
                    ),
                )
                .hint("wait for it to end, or use --shared, which the report notes"));
            }
        }
        Ok(())
    }

    fn claim_disk(&mut self, disk: &str) {
        match claim::disk(disk) {
            ClaimOutcome::Ours(file) => self.claims.push(file),
            ClaimOutcome::Unknown => {}
            ClaimOutcome::Others(pid) => self.others.push(RunWarning {
                about: disk.into(),
                text: format!(
                    "another run{} works on this disk, too: each slows the other down",
                    process(pid)
                ),
            }),
        }
    }
}

fn process(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

/// Whether a target is what it seems to be.
///
/// # Errors
/// When it is a mount point of the machine's table without its mount.
pub(super) fn check(target: &ArmTarget, root: &Path) -> Result<(), CliError> {
    let TargetSpec::Directory(_) = &target.spec else {
        return Ok(());
    };
    let is_empty = fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_none());
    let Some(point) = medium::unmounted(root).filter(|_| is_empty) else {
        return Ok(());
    };
    if root.canonicalize().is_ok_and(|root| root != point) {
        return Ok(());
    }
    let point = point.display();
    Err(CliError::usage(format!(
        "use target '{}': /etc/fstab names {point} as a mount point, and nothing is mounted there",
        target.given
    ))
    .hint(format!(
        "mount it (mount {point}); to measure the file system below it, give a directory in it"
    )))
}

impl ArmSet {
    /// The same where a directory may be shared with another run.
    pub fn shared(mut self, shared: bool) -> Self {
        self.ground.shared = shared;
        self
    }

    /// Where trials write on the node of this number: what must be on the disks before the next one
    /// begins.
    pub fn grounds(&self, n: usize) -> Vec<PathBuf> {
        let path = |target: &ArmTarget| match target.targets().swap_remove(n) {
            NodeTarget::Directory { path, .. } | NodeTarget::Device { path, .. } => Some(path),
            NodeTarget::File { .. } => Some(target.root()),
            _ => None,
        };
        let own = self.targets.iter().filter_map(path);
        let mut grounds: Vec<PathBuf> = own.collect();
        if !self.load.is_here() {
            return grounds;
        }
        for target in &self.targets {
            grounds.extend(target.served.clone());
            // Its servers keep what they were given in files.
            if matches!(target.spec, TargetSpec::Stack(_)) {
                grounds.push(self.options.base_dir.clone());
            }
        }
        let mut seen = BTreeSet::new();
        grounds.retain(|path| {
            fs::metadata(path).is_ok_and(|data| {
                let is_device = plimsoll_machine::host::facts::is_block_device(path);
                seen.insert(if is_device { data.rdev() } else { data.dev() })
            })
        });
        grounds
    }

    /// Claims the disks below all arms.
    pub(super) fn claim_disks(&mut self) {
        let facts = self
            .targets
            .iter()
            .filter_map(|target| target.facts.as_ref());
        let mut disks: BTreeSet<String> = facts.flat_map(|facts| facts.disks.clone()).collect();
        let is_stack = |target: &ArmTarget| matches!(target.spec, TargetSpec::Stack(_));
        if self.load.is_here() && self.targets.iter().any(is_stack) {
            disks.extend(medium::below(&self.options.base_dir).disks);
        }
        disks.iter().for_each(|disk| self.ground.claim_disk(disk));
    }

    /// Description of every system, one line each.
    pub fn lines(&self) -> Vec<String> {
        let once = self
            .targets
            .iter()
            .filter(|target| target.control_of.is_none());
        let line = |target: &ArmTarget| {
            let found = target.facts.as_ref().map(|facts| facts.line());
            let made = Some(&target.description)
                .filter(|_| found.is_none() || matches!(target.spec, TargetSpec::Stack(_)));
            let parts: Vec<String> = made.into_iter().cloned().chain(found).collect();
            format!("{} → {}", target.name, parts.join(": "))
        };
        once.map(line).collect()
    }

    /// Notes on the arms that a reader should know before any number.
    pub fn notes(&self, asked: &[WorkloadRequest]) -> Vec<RunWarning> {
        let direct = asked.iter().any(|one| one.workload.is_direct());
        let mut notes = Vec::new();
        notes.extend(self.degraded().map(|(name, text)| RunWarning {
            about: name.to_owned(),
            text,
        }));
        notes.extend(self.note_on_nodes().map(|text| RunWarning {
            about: String::new(),
            text,
        }));
        for target in self
            .targets
            .iter()
            .filter(|t| t.is_real() && t.control_of.is_none())
        {
            if matches!(
                target.spec,
                TargetSpec::File(_) | TargetSpec::Device(_) | TargetSpec::Attach(_)
            ) {
                notes.push(RunWarning {
                    about: target.name.clone(),
                    text: "the target is one file or device, so its data were not verified before \
                         the measurement"
                        .into(),
                });
            }
            if target.remote.is_some() {
                notes.push(RunWarning {
                    about: target.name.clone(),
                    text: remote::NOTE.into(),
                });
            } else if direct && target.direct_align_bytes() == 0 && !target.is_only_on_nodes() {
                notes.push(RunWarning {
                    about: target.name.clone(),
                    text:
                        "direct I/O is not supported here: the page cache of this machine is in use"
                            .into(),
                });
            }
        }
        notes.extend(self.notes_on_ground());
        notes
    }

    fn notes_on_ground(&self) -> Vec<RunWarning> {
        let mut notes = self.ground.others.clone();
        let systems: Vec<&ArmTarget> = self
            .targets
            .iter()
            .filter(|t| t.control_of.is_none())
            .collect();
        for target in &systems {
            let facts = target.facts.as_ref();
            notes.extend(
                facts
                    .and_then(|facts| facts.memory())
                    .map(|why| RunWarning {
                        about: target.name.clone(),
                        text: format!("it is memory ({why}): this measures memory, not storage"),
                    }),
            );
        }
        for (number, target) in systems.iter().enumerate() {
            let disks =
                |target: &ArmTarget| target.facts.as_ref().map_or(&[][..], |f| &f.disks).to_vec();
            let same = systems[..number].iter().find_map(|other| {
                let shared = disks(target)
                    .into_iter()
                    .find(|disk| disks(other).contains(disk));
                Some((other, shared?))
            });
            notes.extend(same.map(|(other, disk)| RunWarning {
                about: String::new(),
                text: format!("{} and {} are on one disk, {disk}", other.name, target.name),
            }));
        }
        notes
    }
}
