// SPDX-License-Identifier: Apache-2.0
//! Loops over files: threads that carry out a list of file operations again and again.

use serde::{Deserialize, Serialize};

use crate::num::{round_u64, saturating_u32};

/// Threads that repeat lists of file operations, one operation in flight per thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FileLoop {
    /// Name in reports.
    pub name: String,
    /// The files.
    pub sets: Vec<FileSet>,
    /// Who does what.
    pub groups: Vec<FileLoopGroup>,
    /// How files are chosen, and when it ends.
    #[serde(default)]
    pub over: FileLoopSelection,
    /// Events per second that [`FileOp::Limit`] waits for, all threads together.
    #[serde(default)]
    pub events_per_s: Option<f64>,
    /// Whether everything written on the machine is made durable at the end, inside the measured
    /// time (`sync`).
    #[serde(default)]
    pub sync_at_end: bool,
    /// Policy for a thread that finds no file it could use.
    #[serde(default)]
    pub without_file: FileLoopNoFilePolicy,
}

/// Policy of a run whose files are chosen in turn, for a thread that wants a file when no slot of
/// the set is in the state it needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileLoopNoFilePolicy {
    /// It fails, and ends with what was measured.
    #[default]
    Fail,
    /// It has done its work and ends.
    EndRun,
    /// The thread has done its work; the others go on.
    EndThread,
}

/// How files are chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileLoopSelection {
    /// In turn, by rotors that all threads share, until the time is up (filebench).
    #[default]
    Rotor,
    /// Each thread carries out its list once for each file of its equal share of the first set,
    /// in this order, and has then done its work. The threads of each group share all files of
    /// the set among them; files of other sets are chosen in turn.
    Each(FileLoopOrder),
}

/// An order of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileLoopOrder {
    /// By number.
    Numbered,
    /// As the directory lists them.
    Listed,
    /// Shuffled.
    Shuffled,
}

/// A set of files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FileSet {
    /// Its name, unique in its workload; sets of phases of a series that have the same name are
    /// the same files.
    pub name: String,
    /// File slots.
    pub entries: u32,
    /// Mean file size; each slot's size is drawn once.
    pub mean_bytes: u64,
    /// How sizes spread around the mean.
    pub sizes: FileSizeDistribution,
    /// Share of the slots that exist before the run, 0..=1, each independently.
    pub prealloc: f64,
    /// How the files lie in directories.
    pub tree: FileTreeLayout,
    /// Naming scheme of the files.
    #[serde(default)]
    pub names: FileNameScheme,
    /// Whether its files were left by an earlier phase of the series.
    #[serde(default)]
    pub made_earlier: bool,
    /// Whether existing files are opened for reading only.
    #[serde(default)]
    pub read_only: bool,
}

/// How the sizes of files spread around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileSizeDistribution {
    /// All alike.
    Constant,
    /// Gamma distribution of this shape (1.5: coefficient of variation 0.816).
    Gamma(f64),
    /// Uniform from this to as far above the mean.
    UniformFrom(u64),
}

/// How files lie in directories.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileTreeLayout {
    /// All in one directory.
    Flat,
    /// Evenly over this number of directories side by side, consecutive numbers together: as many
    /// directories as threads give each thread its own when it goes over its share.
    Even(u32),
    /// A random tree as filebench 1.5 makes it: every directory draws how deep the tree is to be
    /// (around the logarithm of the number of files to the base of the width) and how many entries
    /// it has; at that depth they are files, above it directories.
    Random {
        /// Mean number of entries of a directory.
        width: f64,
        /// Shape of the gamma distributions of width and depth; 0: no spread.
        shape: f64,
    },
}

/// Naming scheme of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileNameScheme {
    /// Their number in eight decimal digits.
    #[default]
    Digits,
    /// bonnie++'s sequential names: ten hexadecimal digits, then up to twelve random characters.
    NumberFirst,
    /// bonnie++'s random names: up to twelve random characters, then ten hexadecimal digits.
    NumberLast,
}

/// Threads that repeat the same list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FileLoopGroup {
    /// Name in reports, unique in its workload.
    pub name: String,
    /// Threads.
    pub threads: u32,
    /// Operations that each thread repeats.
    pub ops: Vec<FileLoopOp>,
    /// Whether to bypass the page cache (`O_DIRECT`).
    #[serde(default)]
    pub direct: bool,
    /// Whether writes are durable when they end (`O_SYNC`).
    #[serde(default)]
    pub sync: bool,
}

/// One entry of a list.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FileLoopOp {
    /// The operation.
    pub op: FileOp,
    /// Place of the file set in the list of sets.
    #[serde(default)]
    pub set: u32,
    /// Which of the thread's open files.
    #[serde(default)]
    pub fd: u32,
    /// How the open file came to be open.
    #[serde(default)]
    pub opened: FileLoopOpenMode,
    /// Number of bytes from the start of the file that are read or written; 0: all of it.
    #[serde(default)]
    pub span_bytes: u64,
    /// How often, one after another.
    #[serde(default = "one")]
    pub repeat: u32,
}

/// How the file that an operation needs open came to be open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileLoopOpenMode {
    /// By an operation of the list before it.
    #[default]
    Listed,
    /// When it is first needed: the next file of the set is opened, as an operation of its own,
    /// and stays open.
    Once,
    /// As before, but one for each file of the set, used in turn (filebench's `opennext`).
    Rotating,
}

fn one() -> u32 {
    1
}

impl From<FileOp> for FileLoopOp {
    /// Once, on the first set and the first open file.
    fn from(op: FileOp) -> Self {
        FileLoopOp {
            op,
            set: 0,
            fd: 0,
            opened: FileLoopOpenMode::Listed,
            span_bytes: 0,
            repeat: 1,
        }
    }
}

impl FileLoopOp {
    /// Once, on this set and this open file.
    pub fn on(op: FileOp, set: u32, fd: u32) -> Self {
        FileLoopOp {
            set,
            fd,
            ..FileLoopOp::from(op)
        }
    }
}

/// One operation of a file loop.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// Append to the open file.
    Append {
        /// Bytes.
        bytes: u32,
    },
    /// Write the open file from start to its designated size, in pieces.
    WriteWhole {
        /// Size of each write.
        piece_bytes: u32,
    },
    /// Read the open file from start to end.
    ReadWhole {
        /// Size of each read.
        piece_bytes: u32,
    },
    /// Read from the open file.
    Read {
        /// Bytes.
        bytes: u32,
        /// At a random multiple of the size; else where the thread's last one ended, from the
        /// start again at the end.
        random: bool,
    },
    /// Write to the open file.
    Write {
        /// Bytes.
        bytes: u32,
        /// As for reads.
        random: bool,
    },
    /// Make the open file durable.
    Fsync,
    /// Make the data of the open file durable.
    Fdatasync,
    /// Close the open file.
    Close,
    /// Attributes of an existing file.
    Stat,
    /// Wait; no operation.
    Delay {
        /// How long.
        ns: u64,
    },
    /// Wait for an event when the workload has a rate of them; no operation.
    Limit,
    /// Wait for one event for each operation that the thread has done since it last did; no
    /// operation.
    LimitOps,
    /// Wait for one event for each `bytes` bytes that the thread has moved since it last waited;
    /// no operation.
    LimitBytes {
        /// Bytes that an event stands for.
        bytes: u32,
    },
    /// Tell every thread that awaits this signal; waits while one of them is too far behind. No
    /// operation.
    Post {
        /// Which signal.
        signal: u32,
    },
    /// Wait until the signal has been given so often since the thread last went on; no operation.
    Await {
        /// Which signal.
        signal: u32,
        /// How often.
        posts: u32,
        /// How many posts more than this thread has asked for may be made before posters wait.
        ahead: u32,
    },
    /// End the run once the amount has been done; no operation.
    EndAfter {
        /// Operations, or bytes that were read and written.
        amount: u64,
        /// Whether the amount is in bytes: the run then ends only above it.
        in_bytes: bool,
        /// Place in the thread's own list of the operation that counts; without one all operations
        /// of all threads do.
        of: Option<u32>,
    },
}

impl FileOp {
    /// Whether it is an operation, rather than something that decides when the next one is.
    #[must_use]
    pub fn is_operation(self) -> bool {
        !matches!(
            self,
            FileOp::Delay { .. }
                | FileOp::Limit
                | FileOp::LimitOps
                | FileOp::LimitBytes { .. }
                | FileOp::Post { .. }
                | FileOp::Await { .. }
                | FileOp::EndAfter { .. }
        )
    }

    /// Whether it acts on a file that is open.
    #[must_use]
    pub fn needs_open(self) -> bool {
        self.is_operation()
            && !matches!(
                self,
                FileOp::Delete | FileOp::Create | FileOp::Open | FileOp::Stat
            )
    }

    /// Whether bytes move to the file.
    #[must_use]
    pub fn is_write(self) -> bool {
        matches!(
            self,
            FileOp::AppendRandom { .. }
                | FileOp::Append { .. }
                | FileOp::WriteWhole { .. }
                | FileOp::Write { .. }
        )
    }

    /// The largest buffer it needs, in bytes.
    #[must_use]
    pub fn buffer_bytes(self) -> u32 {
        match self {
            FileOp::AppendRandom { bytes }
            | FileOp::Append { bytes }
            | FileOp::Read { bytes, .. }
            | FileOp::Write { bytes, .. } => bytes,
            FileOp::WriteWhole { piece_bytes } | FileOp::ReadWhole { piece_bytes } => piece_bytes,
            _ => 0,
        }
    }
}

impl FileSet {
    /// Files of about this size, all existing, in one directory.
    pub fn flat(name: &str, entries: u32, mean_bytes: u64, sizes: FileSizeDistribution) -> Self {
        FileSet {
            name: name.into(),
            entries,
            mean_bytes,
            sizes,
            prealloc: 1.0,
            tree: FileTreeLayout::Flat,
            names: FileNameScheme::Digits,
            made_earlier: false,
            read_only: false,
        }
    }
}

impl FileLoop {
    /// One group of threads that repeats `ops` on one set, until the time is up.
    pub fn of(name: &str, set: FileSet, threads: u32, ops: Vec<FileLoopOp>) -> Self {
        FileLoop {
            name: name.into(),
            sets: vec![set],
            groups: vec![FileLoopGroup {
                name: "threads".into(),
                threads,
                ops,
                direct: false,
                sync: false,
            }],
            over: FileLoopSelection::Rotor,
            events_per_s: None,
            sync_at_end: false,
            without_file: FileLoopNoFilePolicy::Fail,
        }
    }

    /// Whether its work has an end, so that it is not cut off by the time alone.
    pub fn ends_by_itself(&self) -> bool {
        let ops = self.groups.iter().flat_map(|group| &group.ops);
        let mut ends = ops.filter(|op| matches!(op.op, FileOp::EndAfter { .. }));
        self.over != FileLoopSelection::Rotor
            || self.without_file != FileLoopNoFilePolicy::Fail
            || ends.next().is_some()
    }

    /// Threads of all groups.
    pub fn threads(&self) -> u32 {
        let threads = self.groups.iter().map(|group| u64::from(group.threads));
        saturating_u32(threads.sum())
    }

    /// Expected bytes of the files before the run.
    pub fn data_set_bytes(&self) -> u64 {
        let bytes = |set: &FileSet| {
            let expected = f64::from(set.entries) * set.prealloc;
            round_u64(expected * set.mean_bytes as f64)
        };
        self.sets.iter().map(bytes).fold(0, u64::saturating_add)
    }
}
