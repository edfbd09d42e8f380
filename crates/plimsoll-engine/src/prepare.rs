// SPDX-License-Identifier: Apache-2.0
//! From a workload and a place to something that can be run: checks, files, nothing measured.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::model::{Cell, Model};
use plimsoll_core::rng::Seed;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::blocks::Blocks;

use crate::choice::EngineChoice;
use crate::error::Error;
use crate::file_loop;
use crate::layout;
use crate::sim::SimDisk;
use crate::trees::{self, Known, Trees};

/// The smallest unit of direct I/O anywhere; what models are aligned to where there is no other.
const ALIGN_MIN: u32 = 512;

/// Limits of reads and writes that may come from a file written by hand: beyond them memory would
/// run out, also on engines that lower the depth.
const DEPTH_MAX: u32 = 1 << 16;
const BLOCK_BYTES_MAX: u32 = 1 << 28;

/// Where a workload runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Place<'a> {
    /// An existing directory that belongs to this program. Files are created in it and nowhere
    /// else.
    Directory {
        /// The directory.
        path: &'a Path,
        /// Alignment direct I/O needs, in bytes, a power of two; 0: go through the page cache.
        direct_align: u32,
    },
    /// A file that belongs to this program, for workloads on one file. Its contents are replaced.
    File {
        /// The file; created when it is absent.
        path: &'a Path,
        /// As for a directory.
        direct_align: u32,
    },
    /// Nowhere: every operation succeeds at once. Real time.
    Null,
    /// Nowhere, by way of the kernel: requests that do nothing, on a ring. Real time.
    Nop,
    /// A simulated disk. Virtual time.
    Sim(SimDisk),
}

#[derive(Debug, Clone)]
pub(crate) enum Ground {
    Storage {
        /// Where file sets live; `None` when only the data file may be touched.
        directory: Option<PathBuf>,
        /// The one file of models and random workloads.
        data: PathBuf,
        direct_align: u32,
    },
    Null,
    Nop,
    Sim(SimDisk),
}

/// A workload with its files laid out. May be run more than once.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) ground: Ground,
    pub(crate) workload: Workload,
    /// The play of a model; empty for others.
    pub(crate) cells: Vec<Cell>,
    /// The file sets by name, and those of a file loop.
    pub(crate) sets: Known,
    pub(crate) trees: Option<Arc<Trees>>,
    pub(crate) choice: EngineChoice,
}

/// Checks `workload` and lays out its files in `place`: random data, made durable. A data file
/// that already has the right size is used as it is, with nothing of it in the page cache. `cells` is the play of a model (`None`: the
/// whole recording once, unscaled), ignored for other workloads.
///
/// # Errors
/// When the workload does not fit the place, a file cannot be written, or `stop` was set. A data
/// file that was not finished is removed; files of a set are left to the owner of the directory.
pub fn prepare(
    place: Place<'_>,
    workload: &Workload,
    cells: Option<&[Cell]>,
    seed: Seed,
    choice: EngineChoice,
    stop: &AtomicBool,
) -> Result<Prepared, Error> {
    let ground = match place {
        Place::Directory { path, direct_align } => Ground::Storage {
            directory: Some(path.to_path_buf()),
            data: path.join(layout::DATA_FILE),
            direct_align,
        },
        Place::File { path, direct_align } => Ground::Storage {
            directory: None,
            data: path.to_path_buf(),
            direct_align,
        },
        Place::Null => Ground::Null,
        Place::Nop => Ground::Nop,
        Place::Sim(disk) => Ground::Sim(disk),
    };
    let cells = match (workload, cells) {
        (Workload::Model(_), Some(cells)) => cells.to_vec(),
        (Workload::Model(model), None) => model.play_whole(1.0),
        _ => Vec::new(),
    };
    let mut prepared = Prepared {
        ground,
        workload: workload.clone(),
        cells,
        sets: Known::new(),
        trees: None,
        choice,
    };
    prepared.check()?;
    prepared.lay_out(seed, stop)?;
    Ok(prepared)
}

impl Prepared {
    /// Alignment of offsets and sizes, in bytes.
    pub(crate) fn align(&self) -> u32 {
        match self.ground {
            Ground::Storage { direct_align, .. } => direct_align.max(ALIGN_MIN),
            Ground::Null | Ground::Nop | Ground::Sim(_) => ALIGN_MIN,
        }
    }

    /// Whether the page cache is bypassed.
    pub(crate) fn is_direct(&self) -> bool {
        self.may_be_direct() && self.workload.is_direct()
    }

    /// Whether the page cache can be bypassed.
    pub(crate) fn may_be_direct(&self) -> bool {
        matches!(&self.ground, Ground::Storage { direct_align, .. } if *direct_align > 0)
    }

    fn check(&self) -> Result<(), Error> {
        self.data_bytes()?;
        if !self.align().is_power_of_two() {
            let text = format!("the alignment {} is not a power of two", self.align());
            return Err(Error::Workload(text));
        }
        match &self.workload {
            Workload::Model(model) => self.check_model(model),
            Workload::Blocks(blocks) => self.check_blocks(blocks),
            Workload::Files(files) => {
                if let Ground::Storage {
                    directory: None,
                    data,
                    ..
                } = &self.ground
                {
                    let name = &files.name;
                    let text = format!("'{name}' needs a directory, not {}", data.display());
                    return Err(Error::Workload(text));
                }
                file_loop::check(files)
            }
            Workload::Series(_) | Workload::Commands(_) => {
                Err(Error::Workload("phases are not run here".into()))
            }
        }
    }

    fn check_model(&self, model: &Model) -> Result<(), Error> {
        let set = model.assumed.working_set_bytes;
        if set < u64::from(self.align()) {
            let text = format!(
                "'{}': its working set of {set} bytes is smaller than one block of {} bytes",
                model.name,
                self.align()
            );
            return Err(Error::Workload(text));
        }
        Ok(())
    }

    fn check_blocks(&self, blocks: &Blocks) -> Result<(), Error> {
        let [group] = &blocks.groups[..] else {
            return Err(Error::Workload(format!(
                "'{}': one group only",
                blocks.name
            )));
        };
        let fault = |text: String| Err(Error::Workload(format!("'{}': {text}", blocks.name)));
        let align = self.align();
        let block = group.mix.first().map_or(0, |turn| turn.bytes);
        if block == 0 || group.depth == 0 || group.extent.bytes < u64::from(block) {
            return fault("it needs a depth and a file of at least one block".into());
        }
        if group.depth > DEPTH_MAX || block > BLOCK_BYTES_MAX {
            let block = BLOCK_BYTES_MAX >> 20;
            return fault(format!(
                "it may have a depth of at most {DEPTH_MAX} and blocks of at most {block} MiB"
            ));
        }
        if self.is_direct() && !block.is_multiple_of(align) {
            return fault(format!(
                "direct I/O here needs blocks of a multiple of {align} bytes, not {block}"
            ));
        }
        Ok(())
    }

    /// Size of the data file: whole pages, and no offset beyond what the system can name.
    fn data_bytes(&self) -> Result<u64, Error> {
        let bytes = self.workload.data_set_bytes();
        let rounded = bytes.checked_next_multiple_of(4096);
        rounded.filter(|b| *b <= i64::MAX as u64).ok_or_else(|| {
            let name = self.workload.name();
            Error::Workload(format!("'{name}': {bytes} bytes of data are too many"))
        })
    }

    fn lay_out(&mut self, seed: Seed, stop: &AtomicBool) -> Result<(), Error> {
        if let Workload::Files(files) = &self.workload {
            self.trees = Some(Arc::new(Trees::new(files, seed, &mut self.sets)));
        }
        let Ground::Storage {
            directory, data, ..
        } = &self.ground
        else {
            return Ok(());
        };
        match (&self.trees, directory) {
            (Some(_), Some(directory)) => trees::lay_out(directory, &self.sets, seed, stop),
            _ => layout::data_file(data, self.data_bytes()?, seed, stop),
        }
    }

    /// Removes every file that was laid out or created by a run.
    ///
    /// # Errors
    /// When a file cannot be removed; the others may or may not be gone.
    pub fn remove(self) -> Result<(), Error> {
        let Ground::Storage {
            directory, data, ..
        } = &self.ground
        else {
            return Ok(());
        };
        match (&self.trees, directory) {
            (Some(_), Some(directory)) => trees::remove(directory, &self.sets),
            _ => layout::remove(std::iter::once(data.clone())),
        }
    }
}
