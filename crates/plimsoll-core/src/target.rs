// SPDX-License-Identifier: Apache-2.0
//! Targets: places that take operations, where in them a workload runs, and the facts found about them.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where a workload runs on one machine: the same for this machine and for every other node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NodeTarget {
    /// `null`: operations end at once.
    Null,
    /// `nop`: operations end at once in the kernel.
    Nop,
    /// A simulated device, as the command line names it.
    Sim(String),
    /// A directory that was made for it.
    Directory {
        /// Where.
        path: PathBuf,
        /// Alignment direct I/O needs there, in bytes; 0 where it does not work.
        direct_align_bytes: u32,
    },
    /// A file that was made for it.
    File {
        /// Where.
        path: PathBuf,
        /// As for a directory.
        direct_align_bytes: u32,
    },
    /// A block device whose contents may be destroyed.
    Device {
        /// Where.
        path: PathBuf,
        /// As for a directory.
        direct_align_bytes: u32,
        /// Which one it is: what has its name then must be this one.
        identity: DeviceIdentity,
        /// Whether it is claimed for this run alone; what is in use cannot be.
        exclusive: bool,
    },
    /// A directory on an NFS export, of which plimsoll is the client.
    Export {
        /// The export, `nfs://host/path`.
        address: String,
        /// The directory, below the export.
        directory: PathBuf,
    },
}

impl NodeTarget {
    /// Whether time there is real, not virtual.
    pub fn is_in_real_time(&self) -> bool {
        !matches!(self, NodeTarget::Sim(_))
    }
}

/// Identity of a block device, which survives a reuse of its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceIdentity {
    /// `major:minor`.
    pub number: String,
    /// The kernel counts the disks that it has seen, also those that had this number one after the other
    /// (Linux 5.15 and later).
    pub sequence: Option<u64>,
    /// Its size.
    pub bytes: u64,
}

impl fmt::Display for DeviceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} bytes", self.number, self.bytes)?;
        match self.sequence {
            None => Ok(()),
            Some(sequence) => write!(f, ", disk {sequence} since the machine started"),
        }
    }
}

/// Facts about a target, found before anything is measured on it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TargetFacts {
    /// The directory (or the directory of the file).
    pub path: String,
    /// Mount point it lies on.
    pub mount_point: String,
    /// Source of the mount.
    pub mount_source: String,
    /// Type of file system.
    pub file_system: String,
    /// Mount options.
    pub mount_options: String,
    /// Device number, as `major:minor`: proof of which file system it is.
    pub device: String,
    /// Size of the file system.
    pub size_bytes: u64,
    /// Free space for unprivileged programs.
    pub free_bytes: u64,
    /// Alignment direct I/O needs; 0 where direct I/O does not work.
    pub direct_align_bytes: u32,
    /// Storage targets that the file system is spread over, where known: the targets of Lustre.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<StorageTarget>,
    /// How files that are made there are spread over them, in words, or why that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub striping: String,
    /// How the disk below is attached, or what it is made of: `virtio`, `loop device over /x`; empty
    /// where that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub medium: String,
    /// Why it is memory, where it is: `tmpfs`, `loop0 over /dev/shm/x on tmpfs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_memory: Option<String>,
    /// The kernel's names of the whole disks below, where they are this machine's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<String>,
    /// Whether they say that they have a volatile cache, which a flush must empty: `write back`, or
    /// `write through`; empty where that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub write_cache: String,
}

impl TargetFacts {
    /// Why what is measured here is memory and no storage, if it is.
    pub fn memory(&self) -> Option<&str> {
        let file_system = self.file_system.as_str();
        let by_name = matches!(file_system, "tmpfs" | "ramfs").then_some(file_system);
        self.in_memory.as_deref().or(by_name)
    }

    /// Description in one line: `ext4 on /dev/vda (virtio, 252 GiB, 70 GiB free)`.
    pub fn line(&self) -> String {
        let size = |bytes: u64| crate::units::size(bytes as f64);
        let is_device = self.file_system == "none";
        let mut details: Vec<String> = Vec::new();
        details.extend(Some(self.medium.clone()).filter(|medium| !medium.is_empty()));
        if self.size_bytes > 0 {
            details.push(size(self.size_bytes));
        }
        if !is_device {
            details.push(format!("{} free", size(self.free_bytes)));
        }
        let what = match is_device {
            true => format!("block device {}", self.mount_source),
            false => format!("{} on {}", self.file_system, self.mount_source),
        };
        match details.is_empty() {
            true => what,
            false => format!("{what} ({})", details.join(", ")),
        }
    }
}

/// One of several places that a file system keeps its data in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StorageTarget {
    /// Its name: `scratch-MDT0000` of metadata, `scratch-OST0001` of data.
    pub name: String,
    /// Its size; 0 when it is unavailable.
    pub size_bytes: u64,
    /// Free space; 0 when it is unavailable.
    pub free_bytes: u64,
    /// Whether it does not answer.
    pub is_away: bool,
}

/// Facts about the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_says_what_it_is() {
        let facts = |file_system: &str, source: &str, medium: &str| TargetFacts {
            file_system: file_system.into(),
            mount_source: source.into(),
            medium: medium.into(),
            size_bytes: 252 << 30,
            free_bytes: 70 << 30,
            ..TargetFacts::default()
        };
        for (facts, line, memory) in [
            (
                facts("ext4", "/dev/vda", "virtio"),
                "ext4 on /dev/vda (virtio, 252 GiB, 70.0 GiB free)",
                None,
            ),
            (
                facts("none", "/dev/vdb", ""),
                "block device /dev/vdb (252 GiB)",
                None,
            ),
            (
                facts("tmpfs", "tmpfs", ""),
                "tmpfs on tmpfs (252 GiB, 70.0 GiB free)",
                Some("tmpfs"),
            ),
        ] {
            assert_eq!(facts.line(), line);
            assert_eq!(facts.memory(), memory);
        }
    }
}
