// SPDX-License-Identifier: Apache-2.0
//! Workloads: which operations, when. Data only; the engine turns it into requests.

use serde::{Deserialize, Serialize};

use crate::comparison::Metric;
use crate::format::FormatVersion;
use crate::model::{Model, Offsets};

/// A workload file: the version of the format and one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFile {
    /// [`FormatVersion::WORKLOAD`] of the program that wrote it.
    pub format: FormatVersion,
    /// The workload.
    pub workload: Workload,
}

/// A workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Fitted from a recording: open loop, one file.
    Model(Model),
    /// Reads and writes of one size at a fixed depth: closed loop, one file.
    Random(RandomIo),
    /// Threads that repeat a list of file operations: closed loop, a tree of files.
    Files(FileLoop),
}

impl Workload {
    /// Names of the built-in workloads.
    pub const BUILTIN: [&str; 3] = ["varmail", "randread", "randwrite"];

    /// A built-in workload by its name.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Workload> {
        match name {
            "varmail" => Some(Workload::Files(FileLoop::varmail())),
            "randread" => Some(Workload::Random(RandomIo::new("randread", 1.0))),
            "randwrite" => Some(Workload::Random(RandomIo::new("randwrite", 0.0))),
            _ => None,
        }
    }

    /// What reports call it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Workload::Model(model) => &model.name,
            Workload::Random(random) => &random.name,
            Workload::Files(files) => &files.name,
        }
    }

    /// The one metric on which systems are compared under this workload: the mean response time
    /// where the load is given (open loop), operations per second where the system sets the pace.
    #[must_use]
    pub fn metric(&self) -> Metric {
        match self {
            Workload::Model(_) => Metric::MeanResponse,
            Workload::Random(_) | Workload::Files(_) => Metric::OpsPerSecond,
        }
    }

    /// Bytes the workload keeps on its target while it runs.
    #[must_use]
    pub fn data_set_bytes(&self) -> u64 {
        match self {
            Workload::Model(model) => model.assumed.working_set_bytes,
            Workload::Random(random) => random.file_bytes,
            Workload::Files(files) => files.data_set_bytes(),
        }
    }

    /// Whether the page cache of this machine is bypassed.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        !matches!(
            self,
            Workload::Files(_) | Workload::Random(RandomIo { direct: false, .. })
        )
    }
}

/// Reads and writes of one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RandomIo {
    /// What reports call it.
    pub name: String,
    /// Share of reads, 0..=1.
    pub read_share: f64,
    /// Bytes per operation.
    pub block_bytes: u32,
    /// Operations kept in flight.
    pub depth: u32,
    /// Size of the file.
    pub file_bytes: u64,
    /// How offsets are chosen.
    pub offsets: Offsets,
    /// Whether to bypass the page cache (`O_DIRECT`).
    pub direct: bool,
}

impl RandomIo {
    /// 4 KiB blocks, depth 32, a 1 GiB file, direct.
    #[must_use]
    pub fn new(name: &str, read_share: f64) -> Self {
        RandomIo {
            name: name.into(),
            read_share,
            block_bytes: 4096,
            depth: 32,
            file_bytes: 1 << 30,
            offsets: Offsets::Uniform,
            direct: true,
        }
    }
}

/// A set of files in one directory, as filebench's fileset with a very wide directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSet {
    /// File slots.
    pub entries: u32,
    /// Mean file size; sizes are drawn once per slot from a gamma distribution.
    pub mean_bytes: u64,
    /// Shape of the gamma distribution (1.5: coefficient of variation 0.816).
    pub gamma_shape: f64,
    /// Share of the slots that exist before the run, 0..=1, each independently.
    pub prealloc: f64,
}

/// One operation of a file loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileOp {
    /// Unlink an existing file.
    Delete,
    /// Create a file that does not exist and keep it open.
    Create,
    /// Open an existing file.
    Open,
    /// Append a size drawn uniformly from `0..bytes` to the open file.
    AppendRandom {
        /// Exclusive upper limit of the size.
        bytes: u32,
    },
    /// Fsync the open file.
    Fsync,
    /// Read the open file from start to end.
    ReadWhole {
        /// Size of each read.
        piece_bytes: u32,
    },
    /// Close the open file.
    Close,
    /// Attributes of an existing file.
    Stat,
}

/// Threads that each repeat a list of file operations, one operation in flight per thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileLoop {
    /// What reports call it.
    pub name: String,
    /// The files.
    pub files: FileSet,
    /// Threads.
    pub threads: u32,
    /// What each thread repeats.
    pub ops: Vec<FileOp>,
}

impl FileLoop {
    /// filebench's `varmail` personality, version 3.0: a mail server that syncs every message.
    #[must_use]
    pub fn varmail() -> Self {
        let append = FileOp::AppendRandom { bytes: 16_384 };
        let read = FileOp::ReadWhole {
            piece_bytes: 1 << 20,
        };
        FileLoop {
            name: "varmail".into(),
            files: FileSet {
                entries: 1_000,
                mean_bytes: 16_384,
                gamma_shape: 1.5,
                prealloc: 0.8,
            },
            threads: 16,
            ops: vec![
                FileOp::Delete,
                FileOp::Create,
                append,
                FileOp::Fsync,
                FileOp::Close,
                FileOp::Open,
                read,
                append,
                FileOp::Fsync,
                FileOp::Close,
                FileOp::Open,
                read,
                FileOp::Close,
            ],
        }
    }

    /// Expected bytes of the files before the run.
    #[must_use]
    pub fn data_set_bytes(&self) -> u64 {
        let expected = f64::from(self.files.entries) * self.files.prealloc;
        crate::num::round_u64(expected * self.files.mean_bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_builtin_has_its_own_name_and_round_trips() {
        for name in Workload::BUILTIN {
            let workload = Workload::builtin(name).unwrap();
            assert_eq!(workload.name(), name);
            let file = WorkloadFile {
                format: FormatVersion::WORKLOAD,
                workload,
            };
            let text = toml::to_string(&file).unwrap();
            assert_eq!(
                toml::from_str::<WorkloadFile>(&text).unwrap(),
                file,
                "{text}"
            );
        }
        assert!(Workload::builtin("nosuch").is_none());
    }

    #[test]
    fn varmail_is_thirteen_operations_with_two_syncs() {
        let varmail = FileLoop::varmail();
        assert_eq!(varmail.ops.len(), 13);
        assert_eq!(
            varmail
                .ops
                .iter()
                .filter(|op| **op == FileOp::Fsync)
                .count(),
            2
        );
    }
}
