// SPDX-License-Identifier: Apache-2.0
//! Phases one after another: the classic benchmarks.

use serde::{Deserialize, Serialize};

use super::blocks::BlockIoWorkload;
use super::files::FileLoop;
use crate::comparison::ComparisonMetric;
use crate::units::Nanos;

/// Phases one after another, each measured and compared on its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PhaseSeries {
    /// Name in reports.
    pub name: String,
    /// The program it does the work of, for the text in that program's own form.
    pub classic: Option<ClassicProgram>,
    /// The phases, in order.
    pub phases: Vec<PhaseSpec>,
}

/// A classic program and its settings, as they were resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClassicProgram {
    /// Its name, such as `bonnie++`.
    pub program: String,
    /// Names of settings and their values, in order; a name may come more than once.
    pub settings: Vec<(String, String)>,
}

impl ClassicProgram {
    /// The (last) value of a setting.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().rev().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PhaseSpec {
    /// Name in reports, unique in its series.
    pub name: String,
    /// The workload.
    pub body: PhaseWorkload,
    /// The metric it is compared on.
    pub metric: ComparisonMetric,
    /// Whether the first worker that has done its work stops the counting of the others, which
    /// then complete their files uncounted.
    #[serde(default)]
    pub stonewall: bool,
    /// Longest time the phase may take; a phase whose work ends by itself needs none.
    #[serde(default)]
    pub limit: Option<Nanos>,
    /// Whether the clean pages of its files are dropped from the page cache before it begins.
    #[serde(default)]
    pub cold: bool,
}

/// Workload of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PhaseWorkload {
    /// Block I/O.
    Blocks(BlockIoWorkload),
    /// File operations.
    Files(FileLoop),
}

impl PhaseSeries {
    /// Bytes that its phases keep on the target at the same time, at most.
    pub fn data_set_bytes(&self) -> u64 {
        let bytes = self.phases.iter().map(|phase| match &phase.body {
            PhaseWorkload::Blocks(blocks) => blocks.data_set_bytes(),
            PhaseWorkload::Files(files) => files.data_set_bytes(),
        });
        bytes.max().unwrap_or(0)
    }
}
