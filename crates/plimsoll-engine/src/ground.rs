// SPDX-License-Identifier: Apache-2.0
//! Where a workload runs, opened: its files, its file sets or its device, and what is done to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::model::ReplayAddressSpace;
use plimsoll_core::op::OpKind;
use plimsoll_core::rng::Seed;
use plimsoll_core::workload::blocks::{BlockIoFileCreation, BlockIoGroup, BlockIoWorkload};
use plimsoll_core::workload::files::FileSet;
use plimsoll_core::workload::series::PhaseWorkload;
use plimsoll_core::workload::{FileLoop, Workload};
use plimsoll_nfs::NfsAddress;

use crate::choice::{choice_for_file, open_engine};
use crate::device::{self, DeviceClaim};
use crate::engine::IoEngine;
use crate::error::EngineError;
use crate::file_sets::FileSetLocation;
use crate::held::TargetHandle;
use crate::layout::{self, DATA_FILE, DataFileOpenOptions, data_file_name};
use crate::nfs::NfsExportDir;
use crate::sim::SimDeviceSpec;
use crate::trees::{FileLoopSets, FileSetsByName};
use plimsoll_core::op::EngineChoice;
use plimsoll_core::target::NodeTarget;

/// The smallest unit of direct I/O anywhere; what models are aligned to where there is no other.
const ALIGN_MIN: u32 = 512;

/// A target, opened.
#[derive(Debug, Clone)]
pub enum OpenTarget {
    /// Files or a device of this machine.
    Storage {
        /// Where files live; `None` when only the data file may be touched.
        directory: Option<PathBuf>,
        /// The one file of models, or the device.
        data: PathBuf,
        /// Alignment of direct I/O in bytes; 0 without it.
        direct_align: u32,
        /// Whether the data file is a device.
        device: Option<OpenDevice>,
        /// Through what all that is reached.
        held: TargetHandle,
    },
    /// A directory of an NFS export, without a mount.
    Nfs(NfsExportDir),
    /// Nothing at all: what the generator itself can do.
    Null,
    /// The kernel, which does nothing.
    Nop,
    /// A simulated device.
    Sim(SimDeviceSpec),
}

/// A block device that is held for this run alone.
#[derive(Debug, Clone)]
pub struct OpenDevice {
    /// Its size.
    pub bytes: u64,
    _claim: DeviceClaim,
}

impl OpenTarget {
    /// Opens a target as a node knows it. A device is claimed for as long as this, and what is prepared on
    /// it, lives.
    ///
    /// # Errors
    /// When the target cannot be opened, the device is another one or in use, or the words name no simulated
    /// device.
    pub fn of(target: &NodeTarget) -> Result<Self, EngineError> {
        let meant = |error: &dyn std::fmt::Display| EngineError::Workload(error.to_string());
        match target {
            NodeTarget::Directory {
                path,
                direct_align_bytes,
            } => OpenTarget::in_directory(path, *direct_align_bytes),
            NodeTarget::File {
                path,
                direct_align_bytes,
            } => Ok(OpenTarget::Storage {
                directory: None,
                data: path.clone(),
                direct_align: *direct_align_bytes,
                device: None,
                held: TargetHandle::directory_of(path)?,
            }),
            NodeTarget::Device {
                path,
                direct_align_bytes,
                identity,
                exclusive,
            } => {
                let held = TargetHandle::device(path, identity);
                let direct_align = *direct_align_bytes;
                let device = OpenDevice {
                    bytes: identity.bytes,
                    _claim: device::claim(&held, path, direct_align > 0, *exclusive)?,
                };
                Ok(OpenTarget::Storage {
                    directory: None,
                    data: path.clone(),
                    direct_align,
                    device: Some(device),
                    held,
                })
            }
            NodeTarget::Export { address, directory } => {
                let address: NfsAddress = address.parse().map_err(|error| meant(&error))?;
                NfsExportDir::mount(&address, directory).map(OpenTarget::Nfs)
            }
            NodeTarget::Null => Ok(OpenTarget::Null),
            NodeTarget::Nop => Ok(OpenTarget::Nop),
            NodeTarget::Sim(words) => {
                let device = words.parse().map_err(|error| meant(&error));
                device.map(OpenTarget::Sim)
            }
        }
    }

    /// Opens an existing directory that belongs to this program: files are created in it and nowhere else.
    /// `direct_align` is the alignment that direct I/O needs, in bytes, a power of two; 0: go through the
    /// page cache.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn in_directory(path: &Path, direct_align: u32) -> Result<Self, EngineError> {
        Ok(OpenTarget::Storage {
            directory: Some(path.into()),
            data: path.join(data_file_name(DATA_FILE, None)),
            direct_align,
            device: None,
            held: TargetHandle::directory(path)?,
        })
    }

    /// Whether the page cache can be bypassed.
    pub(crate) fn can_bypass_cache(&self) -> bool {
        matches!(self, OpenTarget::Storage { direct_align, .. } if *direct_align > 0)
    }

    /// Alignment of offsets and sizes, in bytes.
    pub fn align(&self) -> u32 {
        match self {
            OpenTarget::Storage { direct_align, .. } => (*direct_align).max(ALIGN_MIN),
            OpenTarget::Nfs(_) | OpenTarget::Null | OpenTarget::Nop | OpenTarget::Sim(_) => {
                ALIGN_MIN
            }
        }
    }

    /// Opens an engine on a file, around the page cache if that is wanted and possible, with its
    /// description.
    pub fn open_file(
        &self,
        path: &Path,
        (direct, durable, choice): (bool, bool, EngineChoice),
        (depth, len): (u32, u32),
        seed: Seed,
    ) -> Result<(Box<dyn IoEngine>, String), EngineError> {
        let held = match self {
            OpenTarget::Storage { held, .. } => held,
            OpenTarget::Nfs(export) => return export.open(path, durable, (depth, len), seed),
            OpenTarget::Null | OpenTarget::Nop | OpenTarget::Sim(_) => return Err(nothing_held()),
        };
        let can = self.can_bypass_cache();
        let opening = DataFileOpenOptions {
            direct: direct && can,
            durable,
        };
        let file = Arc::new(layout::open_data(held, path, opening)?);
        let choice = choice_for_file(choice, opening.direct, depth);
        let (engine, mut name) = open_engine(choice, &file, depth, len, seed)?;
        if direct && !can {
            name.push_str("; through the page cache (no direct I/O here)");
        }
        Ok((engine, name))
    }

    /// Through what files are reached, where there are any on this machine.
    pub fn held(&self) -> Result<&TargetHandle, EngineError> {
        match self {
            OpenTarget::Storage { held, .. } => Ok(held),
            _ => Err(nothing_held()),
        }
    }

    /// The device that everything is on.
    pub fn device(&self) -> Option<&OpenDevice> {
        match self {
            OpenTarget::Storage { device, .. } => device.as_ref(),
            OpenTarget::Nfs(_) | OpenTarget::Null | OpenTarget::Nop | OpenTarget::Sim(_) => None,
        }
    }

    /// Where file sets live.
    pub(crate) fn sets(&self) -> Option<FileSetLocation<'_>> {
        match self {
            OpenTarget::Storage {
                directory, held, ..
            } => directory
                .is_some()
                .then_some(FileSetLocation::Directory(held)),
            OpenTarget::Nfs(export) => Some(FileSetLocation::Export(export)),
            OpenTarget::Null | OpenTarget::Nop | OpenTarget::Sim(_) => None,
        }
    }

    /// The one file of models, or the device; `None` where there are no files.
    pub(crate) fn data(&self) -> Option<PathBuf> {
        match self {
            OpenTarget::Storage { data, .. } => Some(data.clone()),
            OpenTarget::Nfs(export) => {
                Some(export.directory().join(data_file_name(DATA_FILE, None)))
            }
            OpenTarget::Null | OpenTarget::Nop | OpenTarget::Sim(_) => None,
        }
    }

    /// The file of `worker` of `group`; `None` where there are no files.
    pub(crate) fn file_of(&self, group: &BlockIoGroup, worker: u32) -> Option<PathBuf> {
        let directory = match self {
            OpenTarget::Storage {
                directory: None,
                data,
                ..
            } => return Some(data.clone()),
            OpenTarget::Storage {
                directory: Some(directory),
                ..
            } => directory,
            OpenTarget::Nfs(export) => export.directory(),
            OpenTarget::Null | OpenTarget::Nop | OpenTarget::Sim(_) => return None,
        };
        let worker = (!group.extent.shared).then_some(worker);
        Some(directory.join(data_file_name(&group.extent.file, worker)))
    }

    /// The files of `blocks`, each once: those that groups share are made for all of them.
    pub(crate) fn files_of(&self, blocks: &BlockIoWorkload) -> BTreeMap<PathBuf, DataFile> {
        let mut files: BTreeMap<PathBuf, DataFile> = BTreeMap::new();
        for group in &blocks.groups {
            let own = if group.extent.shared {
                1
            } else {
                group.workers
            };
            for path in (0..own).filter_map(|worker| self.file_of(group, worker)) {
                let wanted = DataFile::of(group);
                let file = files.entry(path).or_insert(wanted);
                file.bytes = file.bytes.max(wanted.bytes);
                file.is_read |= wanted.is_read;
                // One group's wish for contents is enough; so is one that begins empty.
                file.made = match (file.made, wanted.made) {
                    (BlockIoFileCreation::Before, _) | (_, BlockIoFileCreation::Before) => {
                        BlockIoFileCreation::Before
                    }
                    (BlockIoFileCreation::During, _) | (_, BlockIoFileCreation::During) => {
                        BlockIoFileCreation::During
                    }
                    _ => BlockIoFileCreation::Earlier,
                };
            }
        }
        files
    }
}

/// Nothing on this machine is worked on.
fn nothing_held() -> EngineError {
    EngineError::Workload("there is no storage to open".into())
}

/// Size and creation of a data file, and whether it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataFile {
    /// Whole pages.
    pub bytes: u64,
    made: BlockIoFileCreation,
    is_read: bool,
}

impl DataFile {
    fn of(group: &BlockIoGroup) -> Self {
        let mut kinds = group.mix.iter().flat_map(|turn| turn.kind.operations());
        DataFile {
            // Whole pages, so that direct I/O of any size ends inside.
            bytes: group.extent.bytes.next_multiple_of(4096),
            made: group.extent.made,
            is_read: group.mix.is_empty() || kinds.any(|kind| *kind == OpKind::Read),
        }
    }
}

/// Operations on files, wherever they are.
impl OpenTarget {
    /// Where recorded requests go: where they went, on a device that is large enough and where
    /// nothing is stored; else moved together. Drawn ones are as far apart as they may be where
    /// nothing is stored.
    pub(crate) fn space(&self, workload: &Workload) -> ReplayAddressSpace {
        let Workload::Model(model) = workload else {
            return ReplayAddressSpace::AsRecorded;
        };
        let Some(packed) = &model.requests else {
            return match self.data() {
                None => ReplayAddressSpace::AsRecorded,
                Some(_) => ReplayAddressSpace::Compact(Vec::new().into()),
            };
        };
        let has_room = match (self.data(), self.device()) {
            (None, _) => true,
            (Some(_), Some(device)) => device.bytes >= packed.span_bytes(),
            (Some(_), None) => false,
        };
        if has_room {
            ReplayAddressSpace::AsRecorded
        } else {
            ReplayAddressSpace::compact(packed)
        }
    }

    pub(crate) fn data_file(
        &self,
        path: &Path,
        bytes: u64,
        seed: Seed,
        stop: &AtomicBool,
    ) -> Result<(), EngineError> {
        match self {
            OpenTarget::Nfs(export) => export.data_file(path, bytes, seed, stop),
            _ => layout::data_file(self.held()?, path, bytes, seed, stop),
        }
    }

    pub(crate) fn remove(&self, paths: impl Iterator<Item = PathBuf>) -> Result<(), EngineError> {
        match self {
            OpenTarget::Nfs(export) => export.remove(paths),
            _ => layout::remove(self.held()?, paths),
        }
    }
}

/// How many threads work on the files of a loop.
pub(crate) fn threads(files: &FileLoop) -> u32 {
    let groups = files.groups.iter();
    groups.fold(0, |all, group| all.saturating_add(group.threads))
}

impl OpenTarget {
    /// Lays out what `blocks` wants to find.
    pub(crate) fn lay_out(
        &self,
        blocks: &BlockIoWorkload,
        seed: Seed,
        stop: &AtomicBool,
    ) -> Result<(), EngineError> {
        for (number, (path, file)) in (0..).zip(self.files_of(blocks)) {
            // Or all files would hold the same.
            let seed = match number {
                0 => seed,
                _ => seed.derive("file", number),
            };
            match (file.made, self.device()) {
                (BlockIoFileCreation::Before, Some(device)) if file.is_read => {
                    let bytes = file.bytes.min(device.bytes);
                    device::fill(self.held()?, &path, bytes, seed, stop)?;
                }
                (BlockIoFileCreation::Before, None) => {
                    self.data_file(&path, file.bytes, seed, stop)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The sets of `files`: those that are known by name, and the others, which are laid out.
    pub(crate) fn lay_out_sets(
        &self,
        files: &FileLoop,
        sets: &mut FileSetsByName,
        seed: Seed,
        stop: &AtomicBool,
    ) -> Result<Arc<FileLoopSets>, EngineError> {
        let is_missing = |set: &&FileSet| set.made_earlier && !sets.contains_key(&set.name);
        if let Some(set) = files.sets.iter().find(is_missing) {
            let (name, set) = (&files.name, &set.name);
            let text = format!("'{name}': no earlier phase left the files '{set}'");
            return Err(EngineError::Workload(text));
        }
        let before: Vec<String> = sets.keys().cloned().collect();
        let trees = Arc::new(FileLoopSets::new(files, seed, sets));
        if let Some(place) = self.sets() {
            let mut fresh = sets.clone();
            fresh.retain(|name, _| !before.contains(name));
            place.lay_out(&fresh, (seed, threads(files)), stop)?;
        }
        Ok(trees)
    }

    /// Makes the files that a run fills itself, empty, and looks for those that an earlier phase
    /// left.
    pub(crate) fn begin(&self, blocks: &BlockIoWorkload) -> Result<(), EngineError> {
        if self.device().is_some() {
            return Ok(());
        }
        for (path, file) in self.files_of(blocks) {
            match (file.made, self) {
                (BlockIoFileCreation::Before, _) => {}
                (BlockIoFileCreation::During, OpenTarget::Nfs(export)) => {
                    export.empty_file(&path, 0)?;
                }
                (BlockIoFileCreation::Earlier, OpenTarget::Nfs(export)) => {
                    export.expect_file(&path)?;
                }
                (BlockIoFileCreation::During, _) => layout::empty_file(self.held()?, &path)?,
                (BlockIoFileCreation::Earlier, _) => layout::expect_file(self.held()?, &path)?,
            }
        }
        Ok(())
    }

    /// Drops the clean pages of everything that `body` works on.
    pub(crate) fn go_cold(&self, body: &PhaseWorkload) -> Result<(), EngineError> {
        match (body, self.sets()) {
            // Nothing is kept on this machine.
            (_, Some(FileSetLocation::Export(_))) => Ok(()),
            (PhaseWorkload::Blocks(blocks), _) => {
                let mut paths = self.files_of(blocks).into_keys();
                paths.try_for_each(|path| layout::go_cold(self.held()?, &path))
            }
            (PhaseWorkload::Files(_), Some(FileSetLocation::Directory(directory))) => {
                layout::go_cold_below(directory)
            }
            (PhaseWorkload::Files(_), None) => Ok(()),
        }
    }
}
