// SPDX-License-Identifier: Apache-2.0
//! The flowops of threads, as operations of a loop.

use plimsoll_core::num::{round_u64, saturating_u32};
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::files::{
    FileLoopGroup, FileLoopOp, FileLoopOpenMode, FileOp, FileSet,
};

use super::{WmlAttributes, at};
use crate::error::ClassicsError;
use crate::filebench::personalities::LIMIT_BYTES;

#[derive(Debug)]
pub(super) struct WmlFlowop {
    pub(super) kind: String,
    pub(super) attributes: WmlAttributes,
}

#[derive(Debug)]
pub(super) struct WmlThread {
    pub(super) line: usize,
    pub(super) name: String,
    /// Of all its processes.
    pub(super) threads: u32,
    pub(super) processes: u32,
    pub(super) flowops: Vec<WmlFlowop>,
}

const FILE: &[&str] = &[
    "name",
    "filesetname",
    "filename",
    "fd",
    "iters",
    "directio",
    "dsync",
];
const MOVES: &[&str] = &[
    "iosize",
    "random",
    "workingset",
    "opennext",
    "rotatefd",
    "srcfd",
];

/// The groups of a loop on `sets`.
pub(super) fn groups(
    threads: &[WmlThread],
    sets: &[FileSet],
) -> Result<Vec<FileLoopGroup>, ClassicsError> {
    let signals = signals(threads);
    let mut groups: Vec<FileLoopGroup> = Vec::new();
    for thread in threads {
        if groups.iter().any(|group| group.name == thread.name) {
            let reason = format!("two threads are called '{}'", thread.name);
            return Err(at(thread.line, reason));
        }
        let mut ops = Vec::new();
        for flowop in &thread.flowops {
            ops.extend(flowop.ops(thread, sets, &signals)?);
        }
        groups.push(FileLoopGroup {
            name: thread.name.clone(),
            threads: thread.threads,
            ops,
            direct: thread.opens_with("directio")?,
            sync: thread.opens_with("dsync")?,
        });
    }
    Ok(groups)
}

/// Names of what blocks on a semaphore; the place is the number of the signal.
fn signals(threads: &[WmlThread]) -> Vec<String> {
    let flowops = threads.iter().flat_map(|thread| &thread.flowops);
    let waits = flowops.filter(|flowop| flowop.kind == "semblock");
    waits
        .filter_map(|flowop| flowop.attributes.text("name"))
        .collect()
}

impl WmlThread {
    /// Whether files are opened with this flag: for all flowops of a thread that read or write alike.
    fn opens_with(&self, flag: &str) -> Result<bool, ClassicsError> {
        let moving = |flowop: &&WmlFlowop| flowop.moves();
        let mut moving = self.flowops.iter().filter(moving);
        let first = moving
            .next()
            .is_some_and(|flowop| flowop.attributes.flag(flag));
        match moving.find(|flowop| flowop.attributes.flag(flag) != first) {
            Some(other) => other.attributes.fault(&format!(
                "'{flag}' must be the same for all that a thread reads and writes"
            )),
            None => Ok(first),
        }
    }

    /// Place in the list of operations of the flowop of this name.
    fn place_of(&self, name: &str) -> Option<u32> {
        let mut listed = self.flowops.iter().filter(|flowop| !flowop.is_left_out());
        let place =
            listed.position(|flowop| flowop.attributes.text("name").as_deref() == Some(name));
        place.map(|place| saturating_u32(place as u64))
    }

    /// Whether the list opens a file in this place itself.
    fn opens(&self, fd: u32) -> bool {
        let opens = |flowop: &WmlFlowop| matches!(flowop.kind.as_str(), "openfile" | "createfile");
        let in_place = |flowop: &WmlFlowop| flowop.attributes.count("fd", 0).ok() == Some(fd);
        self.flowops
            .iter()
            .any(|flowop| opens(flowop) && in_place(flowop))
    }
}

impl WmlFlowop {
    fn moves(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "read"
                | "write"
                | "aiowrite"
                | "appendfile"
                | "appendfilerand"
                | "readwholefile"
                | "writewholefile"
        )
    }

    /// Whether it has no counterpart that could be measured: writes are waited for one by one, and
    /// computing is left out.
    fn is_left_out(&self) -> bool {
        matches!(self.kind.as_str(), "aiowait" | "hog")
    }

    /// The operations it is; none for what has no counterpart that could be measured.
    fn ops(
        &self,
        thread: &WmlThread,
        sets: &[FileSet],
        signals: &[String],
    ) -> Result<Option<FileLoopOp>, ClassicsError> {
        let attributes = &self.attributes;
        let op = match self.kind.as_str() {
            "aiowait" => return attributes.only(&["name"]).map(|()| None),
            "hog" => return attributes.only(&["name", "value"]).map(|()| None),
            "createfile" => FileOp::Create,
            "openfile" => FileOp::Open,
            "closefile" => FileOp::Close,
            "deletefile" => FileOp::Delete,
            "statfile" => FileOp::Stat,
            "fsync" => FileOp::Fsync,
            _ if self.moves() => self.moving()?,
            "finishoncount" | "finishonbytes" => {
                return self.ending(thread).map(|op| Some(FileLoopOp::from(op)));
            }
            _ => return self.waiting(signals).map(|op| Some(FileLoopOp::from(op))),
        };
        if self.moves() {
            attributes.only(&[FILE, MOVES].concat())?;
        } else {
            attributes.only(FILE)?;
        }
        self.on_file(op, thread, sets).map(Some)
    }

    /// Operation that reads or writes.
    fn moving(&self) -> Result<FileOp, ClassicsError> {
        let attributes = &self.attributes;
        let bytes = match attributes.number("iosize")? {
            Some(bytes) if (1.0..=f64::from(u32::MAX)).contains(&bytes) => {
                saturating_u32(round_u64(bytes))
            }
            _ => return attributes.fault("'iosize' must be from 1 byte to 4 GiB"),
        };
        let random = attributes.flag("random");
        Ok(match self.kind.as_str() {
            "read" => FileOp::Read { bytes, random },
            "write" | "aiowrite" => FileOp::Write { bytes, random },
            "appendfile" => FileOp::Append { bytes },
            "appendfilerand" => FileOp::AppendRandom { bytes },
            "readwholefile" => FileOp::ReadWhole { piece_bytes: bytes },
            _ => FileOp::WriteWhole { piece_bytes: bytes },
        })
    }

    /// Operation that ends the run after a number of operations or bytes.
    fn ending(&self, thread: &WmlThread) -> Result<FileOp, ClassicsError> {
        let attributes = &self.attributes;
        attributes.only(&["name", "value", "target"])?;
        let of = match attributes.text("target") {
            Some(target) => match thread.place_of(&target) {
                Some(place) => Some(place),
                None => {
                    return attributes
                        .fault(&format!("its thread has no flowop '{target}' to count"));
                }
            },
            // Each process of filebench counts its own operations.
            None if thread.processes > 1 => {
                return attributes.fault("it needs a 'target' where there are several processes");
            }
            None => None,
        };
        Ok(FileOp::EndAfter {
            amount: round_u64(attributes.number("value")?.unwrap_or(1.0)),
            in_bytes: self.kind == "finishonbytes",
            of,
        })
    }

    /// Operation that decides when the next one starts.
    fn waiting(&self, signals: &[String]) -> Result<FileOp, ClassicsError> {
        let attributes = &self.attributes;
        let signal = |name: Option<String>| {
            let place = signals
                .iter()
                .position(|other| Some(other) == name.as_ref());
            match place {
                Some(place) => Ok(saturating_u32(place as u64)),
                None => attributes.fault(&format!(
                    "there is no semblock '{}'",
                    name.unwrap_or_default()
                )),
            }
        };
        Ok(match self.kind.as_str() {
            "delay" => {
                attributes.only(&["name", "value"])?;
                let seconds = attributes.number("value")?.unwrap_or(0.0);
                FileOp::Delay {
                    ns: Nanos::from_secs_f64(seconds).0,
                }
            }
            "eventlimit" => {
                attributes.only(&["name"])?;
                FileOp::Limit
            }
            "opslimit" => {
                attributes.only(&["name"])?;
                FileOp::LimitOps
            }
            "bwlimit" => {
                attributes.only(&["name", "target"])?;
                FileOp::LimitBytes { bytes: LIMIT_BYTES }
            }
            "semblock" => {
                attributes.only(&["name", "value", "highwater"])?;
                FileOp::Await {
                    signal: signal(attributes.text("name"))?,
                    posts: attributes.count("value", 1)?,
                    ahead: attributes.count("highwater", 1)?,
                }
            }
            "sempost" => {
                attributes.only(&["name", "value", "target", "blocking"])?;
                if attributes.count("value", 1)? != 1 || !attributes.flag("blocking") {
                    return attributes.fault("only value=1 with 'blocking' is supported");
                }
                let signal = signal(attributes.text("target"))?;
                FileOp::Post { signal }
            }
            _ => return attributes.fault("there is no such flowop, or it is not supported"),
        })
    }

    fn on_file(
        &self,
        op: FileOp,
        thread: &WmlThread,
        sets: &[FileSet],
    ) -> Result<FileLoopOp, ClassicsError> {
        let attributes = &self.attributes;
        let named = attributes
            .text("filesetname")
            .or(attributes.text("filename"));
        let fd = attributes.count("fd", 0)?;
        let listed = thread.opens(fd);
        let set = match &named {
            Some(name) => match sets.iter().position(|set| set.name == *name) {
                Some(place) => saturating_u32(place as u64),
                None => return attributes.fault(&format!("there is no file set '{name}'")),
            },
            None if op.needs_open() && listed => 0,
            None => return attributes.fault("it needs 'filesetname' or 'filename'"),
        };
        if op == FileOp::Delete && attributes.has("fd") {
            return attributes.fault("deleting an open file by 'fd' is not supported");
        }
        if attributes.has("srcfd") && attributes.count("srcfd", 0)? != fd {
            return attributes.fault("'srcfd' must be 'fd': sizes are those of the file written");
        }
        let in_turn = attributes.flag("opennext") || attributes.flag("rotatefd");
        let span = attributes.number("workingset")?.unwrap_or(0.0);
        Ok(FileLoopOp {
            opened: match (op.needs_open() && !listed, in_turn) {
                (true, true) => FileLoopOpenMode::Rotating,
                (true, false) => FileLoopOpenMode::Once,
                _ => FileLoopOpenMode::Listed,
            },
            span_bytes: round_u64(span),
            repeat: attributes.count("iters", 1)?,
            ..FileLoopOp::on(op, set, fd)
        })
    }
}
