// SPDX-License-Identifier: Apache-2.0
//! How writes are made durable while a workload goes on.

use serde::{Deserialize, Serialize};

/// Policy that makes writes durable while a workload goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SyncPolicy {
    /// Number of writes of a worker after which one sync of its file follows; 0: none.
    pub every: u32,
    /// With what.
    pub with: SyncKind,
    /// Whether each write is durable when it ends: `O_DSYNC`, which devices carry out as FUA.
    pub each_write: bool,
}

/// A way to make earlier writes durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SyncKind {
    /// Data and all attributes.
    #[default]
    Fsync,
    /// Data and what is needed to find them.
    Fdatasync,
    /// Only starts the write-back of the pages and waits for it (`sync_file_range`): not durable
    /// on a power cut.
    SyncRange,
}
