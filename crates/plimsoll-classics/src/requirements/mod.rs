// SPDX-License-Identifier: Apache-2.0
//! Storage requirements of uses: published figures with their sources, and the load that represents
//! them, as the program of the use makes it. Each load is a workload by name; `plimsoll fit-for`
//! finds how many times a system carries it.

mod logs;
mod models;
mod servers;

#[cfg(test)]
mod tests;

use plimsoll_core::load_line::{LoadLineRequirement, LoadLineSlo, LoadLineSource};
use plimsoll_core::syncs::{SyncKind, SyncPolicy};
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::{
    ArrivalProcess, BlockIoGroup, BlockIoMixEntry, BlockIoOpKind, BlockIoPacing, BlockIoWorkload,
};

use crate::error::ClassicsError;
use crate::known::WorkloadDefinition;
use plimsoll_core::settings::SettingValues;

/// A use of storage whose needs are published.
#[derive(Debug, Clone, Copy)]
pub struct RequirementDefinition {
    /// Its load at the published minimum, with what can be set of it.
    pub workload: WorkloadDefinition,
    /// Limits that the load must keep: `fdatasync p99 < 10ms`.
    pub limits: &'static [&'static str],
    /// The load in words, with the values of settings in the places `{name}`.
    pub load: &'static str,
    /// Who says so.
    pub sources: &'static [RequirementSource],
    /// Gaps in the sources and how they are filled, a sentence each.
    pub notes: &'static [&'static str],
}

/// A publication that a requirement rests on.
#[derive(Debug, Clone, Copy)]
pub struct RequirementSource {
    /// Its title, with who published it.
    pub title: &'static str,
    /// Where it is.
    pub url: &'static str,
    /// When it was published, or read where it has no date.
    pub date: &'static str,
    /// The figure that is taken from it.
    pub says: &'static str,
}

/// Every requirement, in the order of lists.
pub const REQUIREMENTS: &[RequirementDefinition] = &[
    logs::ETCD,
    logs::POSTGRES_WAL,
    servers::VM_BOOT,
    servers::MAIL,
    models::CHECKPOINT,
    models::KV_CACHE,
];

/// The loads as workloads by name.
pub(crate) const KNOWN: &[WorkloadDefinition] = &[
    logs::ETCD.workload,
    logs::POSTGRES_WAL.workload,
    servers::VM_BOOT.workload,
    servers::MAIL.workload,
    models::CHECKPOINT.workload,
    models::KV_CACHE.workload,
];

impl RequirementDefinition {
    /// Its limits.
    ///
    /// # Panics
    /// Never: a test reads them all.
    pub fn slos(&self) -> Vec<LoadLineSlo> {
        let read = |text: &&str| text.parse().expect("limits of requirements are tested");
        self.limits.iter().map(read).collect()
    }

    /// It with its default settings, for lists.
    ///
    /// # Errors
    /// Never: a test makes them all.
    pub fn by_default(&self) -> Result<LoadLineRequirement, ClassicsError> {
        let settings = SettingValues::new(self.workload.name, self.workload.settings, &[])?;
        Ok(self.told(&settings))
    }

    pub(crate) fn told(&self, settings: &SettingValues) -> LoadLineRequirement {
        let mut load = self.load.to_owned();
        for (name, value) in settings.resolved() {
            load = load.replace(&format!("{{{name}}}"), &value);
        }
        let source = |source: &RequirementSource| LoadLineSource {
            title: source.title.into(),
            url: source.url.into(),
            date: source.date.into(),
            says: source.says.into(),
        };
        LoadLineRequirement {
            name: self.workload.name.into(),
            about: self.workload.about.into(),
            load,
            has_own_limits: false,
            sources: self.sources.iter().map(source).collect(),
            notes: self.notes.iter().map(|note| (*note).to_owned()).collect(),
        }
    }
}

/// A workload of these groups.
fn blocks(name: &str, groups: Vec<BlockIoGroup>) -> Workload {
    Workload::Blocks(BlockIoWorkload {
        name: name.into(),
        groups,
    })
}

/// Equally spaced turns, at a rate of `per_s` per second.
fn paced(per_s: f64) -> BlockIoPacing {
    BlockIoPacing::Open(ArrivalProcess::Paced { per_s })
}

/// Turns at random instants, at a mean rate of `per_s` per second.
fn poisson(per_s: f64) -> BlockIoPacing {
    BlockIoPacing::Open(ArrivalProcess::Poisson { per_s })
}

/// Reads and writes of N bytes, with this share of reads.
fn mixed(reads: f64, bytes: u32) -> Vec<BlockIoMixEntry> {
    let turn = |kind, weight| BlockIoMixEntry {
        weight,
        ..BlockIoMixEntry::of(kind, bytes)
    };
    vec![
        turn(BlockIoOpKind::Read, reads),
        turn(BlockIoOpKind::Write, 1.0 - reads),
    ]
}

/// Each write is followed by fdatasync.
const FDATASYNC_EACH: SyncPolicy = SyncPolicy {
    every: 1,
    with: SyncKind::Fdatasync,
    each_write: false,
};

/// Value of a setting that is above 0 and at most `most`, which is a whole number.
fn positive(settings: &SettingValues, name: &str, most: f64) -> Result<f64, ClassicsError> {
    let number = settings.number(name);
    if number > 0.0 && number <= most {
        return Ok(number);
    }
    let reason = format!("expected a number above 0, at most {most}");
    Err(settings.wrong(name, settings.text(name), &reason))
}
