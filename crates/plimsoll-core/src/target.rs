// SPDX-License-Identifier: Apache-2.0
//! Targets: places that take operations, with the facts found about them.

use serde::{Deserialize, Serialize};

/// What is known of a target before anything is measured on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetFacts {
    /// The directory (or the directory of the file).
    pub path: String,
    /// Mount point it lies on.
    pub mount_point: String,
    /// What is mounted there.
    pub mount_source: String,
    /// Type of file system.
    pub file_system: String,
    /// Mount options.
    pub mount_options: String,
    /// Device number, as `major:minor`: proof of which file system it is.
    pub device: String,
    /// Size of the file system.
    pub size_bytes: u64,
    /// Room an unprivileged program may use.
    pub free_bytes: u64,
    /// Alignment direct I/O needs; 0 where direct I/O does not work.
    pub direct_align_bytes: u32,
    /// What the file system is spread over, where it tells: the targets of Lustre.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<StorageTarget>,
    /// How files that are made there are spread over them, in words, or why that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub striping: String,
}

/// One of several places that a file system keeps its data in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageTarget {
    /// Its name: `scratch-MDT0000` of metadata, `scratch-OST0001` of data.
    pub name: String,
    /// Its size; 0 when it is away.
    pub size_bytes: u64,
    /// Room on it; 0 when it is away.
    pub free_bytes: u64,
    /// Whether it does not answer.
    pub is_away: bool,
}

/// What is known of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineFacts {
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor model.
    pub cpu: String,
    /// Processors this program may use.
    pub cpus: u32,
    /// Memory.
    pub ram_bytes: u64,
    /// Frequency governor of the first processor, where there is one.
    pub cpu_governor: Option<String>,
}
