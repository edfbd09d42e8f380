// SPDX-License-Identifier: Apache-2.0
//! The contents of a journal: its lines, read and added up.

use plimsoll_core::format::FormatVersion;
use plimsoll_core::plan::{PlanAction, PlanReadinessCheck, PlanStep, StackNodes, StackOutputs};
use rustix::fs::{FileType, OFlags, PROC_SUPER_MAGIC};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::error::JournalError;
use super::{JournalHeader, JournalScope};
use crate::host::{HostProcessId, is_alive, places};

/// Largest journal we read. Ours have some ten kilobytes; a larger file is not one.
const MAX_BYTES: u64 = 16 << 20;

/// One line after the first: a private mirror of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum JournalLine {
    Intend(Box<PlanStep>),
    Done(usize),
    Undone(usize),
    Made(Box<StackOutputs>),
    /// Commands may name these programs too.
    Trust(Vec<String>),
    Standing,
    /// A change of what stands begins: by whom, and what it is called.
    Changing(Box<JournalChange>),
    /// The nodes from here on, one more perhaps.
    Site(Box<StackNodes>),
    /// Steps from this number on have been undone: they never were.
    Forget(usize),
    /// The change is over.
    Changed,
}

/// A change of what stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalChange {
    /// Its name: `grow`.
    pub verb: String,
    /// Who does it.
    pub owner: HostProcessId,
}

/// A stack as it was before a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BeforeChange {
    /// Number of its steps.
    pub(crate) steps: usize,
    /// Its nodes, where it was asked for with some.
    pub(crate) site: Option<StackNodes>,
}

/// A step as the journal knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// The step.
    pub step: PlanStep,
    /// Whether it is known to be done. When not, it may be done or not.
    pub done: bool,
    /// Whether it is known to be undone.
    pub undone: bool,
}

/// The contents of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalContents {
    /// Its header.
    pub header: JournalHeader,
    /// Steps intended, in order.
    pub entries: Vec<JournalEntry>,
    /// The outputs of the steps.
    pub made: Option<StackOutputs>,
    /// Whether all steps were done.
    pub standing: bool,
    /// The change that was begun and is not over.
    pub changing: Option<JournalChange>,
    /// The stack as it was when that change was begun.
    pub(crate) before_change: Option<BeforeChange>,
    /// Programs that commands may name besides those of recipes, where another machine said so;
    /// what this one was asked for is in the header.
    pub programs: Vec<String>,
}

impl JournalContents {
    /// Actions that would undo what is left, in order, each with the number and the node of its
    /// step.
    pub fn to_undo(&self) -> Vec<(usize, String, PlanAction)> {
        let left = |(n, entry): (usize, &JournalEntry)| {
            let undo = (!entry.undone).then(|| entry.step.undo.clone())??;
            Some((n, entry.step.node.clone(), undo))
        };
        self.entries
            .iter()
            .enumerate()
            .rev()
            .filter_map(left)
            .collect()
    }

    /// Without the change that was begun and is not over: as it was before.
    pub fn without_change(&self) -> JournalContents {
        let mut record = self.clone();
        record.changing = None;
        let Some(before) = record.before_change.take() else {
            return record;
        };
        record.entries.truncate(before.steps);
        if let (Some(ask), Some(site)) = (&mut record.header.ask, before.site) {
            ask.site = site;
        }
        record
    }

    /// The steps that were begun of the change that is not over.
    pub fn begun_of_change(&self) -> &[JournalEntry] {
        let before = self.before_change.as_ref();
        before
            .and_then(|before| self.entries.get(before.steps..))
            .unwrap_or_default()
    }

    /// Whether the change that is not over can only go on.
    pub fn is_past_return(&self) -> bool {
        let mut begun = self.begun_of_change().iter();
        begun.any(|entry| entry.step.point_of_no_return)
    }

    /// Actions that take back the steps from this number on while the rest stays, in order.
    pub fn to_take_back(&self, from: usize) -> Vec<(usize, String, PlanAction)> {
        let left = |(n, entry): (usize, &JournalEntry)| {
            let step = &entry.step;
            let actions = [step.back.clone(), step.undo.clone()];
            let action = (!entry.undone).then(|| actions.into_iter().flatten().next())??;
            Some((n, step.node.clone(), action))
        };
        let all = self.entries.iter().enumerate().skip(from).rev();
        all.filter_map(left).collect()
    }

    /// Whether its owner lives and is not finished: then only the owner may undo it.
    pub fn at_work(&self) -> bool {
        let stays = matches!(
            self.header.kind,
            JournalScope::Stack(_) | JournalScope::Machines
        );
        let finished = self.standing && stays;
        match &self.changing {
            Some(change) => is_alive(&change.owner),
            None => !finished && is_alive(&self.header.owner),
        }
    }

    /// Who is or was at work on it.
    pub fn worker(&self) -> &HostProcessId {
        let change = self.changing.as_ref();
        change.map_or(&self.header.owner, |change| &change.owner)
    }

    /// Whether the last that was done to the daemons of this mark, outside of undoing, was to end
    /// them.
    pub fn is_stopped(&self, mark: &str) -> bool {
        let last = self.entries.iter().rev().find_map(|entry| {
            let names = match &entry.step.apply {
                PlanAction::Start { mark: named, .. } | PlanAction::Stop { mark: named } => {
                    named == mark
                }
                _ => false,
            };
            (names && !entry.undone).then_some(&entry.step.apply)
        });
        matches!(last, Some(PlanAction::Stop { .. }))
    }

    /// Whether what a step made was taken away on purpose by a later one: daemons that were ended,
    /// mounts that served only while the stack was being made.
    pub fn is_over(&self, step: usize) -> bool {
        let Some(entry) = self.entries.get(step) else {
            return false;
        };
        let mount = match &entry.step.apply {
            PlanAction::Start { mark, .. } if self.is_stopped(mark) => return true,
            PlanAction::Start {
                ready: PlanReadinessCheck::Mounted(path),
                ..
            }
            | PlanAction::MountIs { path, .. } => path,
            _ => return false,
        };
        let later = self.entries[step + 1..]
            .iter()
            .filter(|later| !later.undone);
        let mut unmounted = later.map(|later| &later.step.apply);
        unmounted.any(|apply| matches!(apply, PlanAction::Unmount(path) if path == mount))
    }

    /// Reads a journal without touching it.
    ///
    /// # Errors
    /// When it cannot be read or is not a journal we understand.
    pub fn read(path: &Path) -> Result<JournalContents, JournalError> {
        let mut file = super::open_journal(path, OFlags::RDONLY)?;
        JournalContents::parse(&mut file, path).map(|(record, _)| record)
    }

    /// Also gives the length of the part that is whole.
    pub(super) fn parse(
        file: &mut File,
        path: &Path,
    ) -> Result<(JournalContents, u64), JournalError> {
        let unreadable = |why: String| JournalError::Unreadable {
            path: path.into(),
            why,
        };
        let data = rustix::fs::fstat(&*file);
        let data = data.map_err(|errno| JournalError::io("look at", path)(errno.into()))?;
        let is_file = places::kind(&data) == FileType::RegularFile && data.st_nlink == 1;
        // Files of procfs belong to the user of a program, but its starter decides their contents.
        let is_kept = rustix::fs::fstatfs(&*file).is_ok_and(|on| on.f_type != PROC_SUPER_MAGIC);
        if !is_file || !is_kept {
            return Err(unreadable(
                "is not a file of its own, so it is not trusted; look into it, then remove it"
                    .into(),
            ));
        }
        // A journal names commands: one that another user put there is not carried out.
        let is_ours = data.st_uid == rustix::process::geteuid().as_raw();
        if !is_ours || !places::is_ours(&data) {
            return Err(unreadable(
                "can be written by another user, so it is not trusted; look into it, then remove it"
                    .into(),
            ));
        }
        let length = u64::try_from(data.st_size).unwrap_or(u64::MAX);
        if length > MAX_BYTES {
            return Err(unreadable("is too large for a journal; remove it".into()));
        }
        let mut bytes = Vec::new();
        // It may grow meanwhile.
        file.take(MAX_BYTES)
            .read_to_end(&mut bytes)
            .map_err(JournalError::io("read", path))?;
        let whole = bytes
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |at| at + 1);
        let mut lines = bytes[..whole]
            .split(|&b| b == b'\n')
            .filter(|l| !l.is_empty());
        let first = lines.next().unwrap_or_default();
        let mut record = JournalContents {
            header: parse_header(first, path)?,
            entries: Vec::new(),
            made: None,
            standing: false,
            changing: None,
            before_change: None,
            programs: Vec::new(),
        };
        for (n, line) in lines.enumerate() {
            let line = serde_json::from_slice(line).map_err(|e| e.to_string());
            line.and_then(|line| record.add(line))
                .map_err(|error| JournalError::Damaged {
                    path: path.into(),
                    why: format!("is damaged in line {}: {error}", n + 2),
                })?;
        }
        Ok((record, whole as u64))
    }

    pub(super) fn add(&mut self, line: JournalLine) -> Result<(), String> {
        let unknown = |n| format!("there is no step {n}");
        match line {
            JournalLine::Intend(step) => self.entries.push(JournalEntry {
                step: *step,
                done: false,
                undone: false,
            }),
            JournalLine::Done(n) => self.entries.get_mut(n).ok_or_else(|| unknown(n))?.done = true,
            JournalLine::Undone(n) => {
                self.entries.get_mut(n).ok_or_else(|| unknown(n))?.undone = true;
            }
            JournalLine::Made(made) => self.made = Some(*made),
            JournalLine::Trust(programs) => self.programs = programs,
            JournalLine::Standing => self.standing = true,
            JournalLine::Changing(change) => {
                // One that is taken back may be cut off as well: it is the same change.
                self.before_change.get_or_insert_with(|| BeforeChange {
                    steps: self.entries.len(),
                    site: self.header.ask.as_ref().map(|ask| ask.site.clone()),
                });
                self.changing = Some(*change);
            }
            JournalLine::Site(site) => match &mut self.header.ask {
                Some(ask) => ask.site = *site,
                None => return Err("the request of the stack names no nodes".into()),
            },
            JournalLine::Forget(from) => {
                if from > self.entries.len() {
                    return Err(unknown(from));
                }
                self.entries.truncate(from);
            }
            JournalLine::Changed => {
                self.changing = None;
                self.before_change = None;
            }
        }
        Ok(())
    }
}

/// The version is looked at before the rest, which a newer program may have changed.
fn parse_header(line: &[u8], path: &Path) -> Result<JournalHeader, JournalError> {
    #[derive(Deserialize)]
    struct Versioned {
        format: FormatVersion,
    }
    let damaged = |error: serde_json::Error| JournalError::Damaged {
        path: path.into(),
        why: format!("is not a journal: {error}"),
    };
    let Versioned { format } = serde_json::from_slice(line).map_err(damaged)?;
    if !FormatVersion::JOURNAL.reads(format) {
        return Err(JournalError::Unreadable {
            path: path.into(),
            why: format!(
                "has format {format}, and this program reads {}; use the version that wrote it",
                FormatVersion::JOURNAL
            ),
        });
    }
    serde_json::from_slice(line).map_err(damaged)
}
