// SPDX-License-Identifier: Apache-2.0
//! A workload that is known by name.

use plimsoll_core::settings::{SettingDefinition, SettingValues};
use plimsoll_core::workload::Workload;

use crate::error::ClassicsError;

/// A workload that is known by name.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadDefinition {
    /// Its name on the command line.
    pub name: &'static str,
    /// Description of the workload in one line.
    pub about: &'static str,
    /// Settings of the workload.
    pub settings: &'static [SettingDefinition],
    /// Makes it.
    pub build: fn(&SettingValues) -> Result<Workload, ClassicsError>,
}
