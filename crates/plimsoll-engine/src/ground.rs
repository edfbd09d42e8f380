// SPDX-License-Identifier: Apache-2.0
//! Where a workload runs, opened: its files, its file sets or its device, and what is done to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use plimsoll_core::model::Space;
use plimsoll_core::op::Kind;
use plimsoll_core::rng::Seed;
use plimsoll_core::workload::blocks::{Blocks, Group, Made};
use plimsoll_core::workload::files::FileSet;
use plimsoll_core::workload::series::Body;
use plimsoll_core::workload::{FileLoop, Workload};
use plimsoll_nfs::Address;

use crate::choice::{EngineChoice, open_engine};
use crate::device::{self, Claim};
use crate::engine::Engine;
use crate::error::Error;
use crate::file_sets::Where;
use crate::held::{DeviceIdentity, Held};
use crate::layout::{self, DATA_FILE, Opening, data_file_name};
use crate::nfs::Export;
use crate::sim::SimDevice;
use crate::trees::{Known, Trees};

/// The smallest unit of direct I/O anywhere; what models are aligned to where there is no other.
const ALIGN_MIN: u32 = 512;

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
    /// A block device whose contents may be destroyed, for workloads on one file. Never removed.
    Device {
        /// The device.
        path: &'a Path,
        /// As for a directory.
        direct_align: u32,
        /// Which one it is: what has its name then must be this one, or nothing is written.
        identity: &'a DeviceIdentity,
        /// Whether it is claimed (`O_EXCL`) until the [`Prepared`] is dropped. What is mounted or
        /// a part of something else cannot be.
        exclusive: bool,
    },
    /// An existing directory of an NFS server that belongs to this program, which speaks with the
    /// server itself: nothing is mounted.
    Nfs {
        /// The export.
        address: &'a Address,
        /// The directory, below the export.
        directory: &'a Path,
    },
    /// Nowhere: every operation succeeds at once. Real time.
    Null,
    /// Nowhere, by way of the kernel: requests that do nothing, on a ring. Real time.
    Nop,
    /// A simulated device. Virtual time.
    Sim(SimDevice),
}

#[derive(Debug, Clone)]
pub(crate) enum Ground {
    Storage {
        /// Where files live; `None` when only the data file may be touched.
        directory: Option<PathBuf>,
        /// The one file of models, or the device.
        data: PathBuf,
        direct_align: u32,
        /// Whether the data file is a device.
        device: Option<Device>,
        /// Through what all that is reached.
        held: Held,
    },
    Nfs(Export),
    Null,
    Nop,
    Sim(SimDevice),
}

#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub(crate) bytes: u64,
    _claim: Claim,
}

impl Ground {
    pub(crate) fn of(place: Place<'_>) -> Result<Self, Error> {
        let storage = |directory: Option<&Path>, data, direct_align, (device, held)| {
            let directory = directory.map(Path::to_path_buf);
            Ground::Storage {
                directory,
                data,
                direct_align,
                device,
                held,
            }
        };
        Ok(match place {
            Place::Directory { path, direct_align } => {
                let data = path.join(data_file_name(DATA_FILE, None));
                let held = Held::directory(path)?;
                storage(Some(path), data, direct_align, (None, held))
            }
            Place::File { path, direct_align } => {
                let held = Held::directory_of(path)?;
                storage(None, path.to_path_buf(), direct_align, (None, held))
            }
            Place::Device {
                path,
                direct_align,
                identity,
                exclusive,
            } => {
                let held = Held::device(path, identity);
                let device = Device {
                    bytes: identity.bytes(),
                    _claim: device::claim(&held, path, direct_align > 0, exclusive)?,
                };
                storage(None, path.to_path_buf(), direct_align, (Some(device), held))
            }
            Place::Nfs { address, directory } => Ground::Nfs(Export::mount(address, directory)?),
            Place::Null => Ground::Null,
            Place::Nop => Ground::Nop,
            Place::Sim(disk) => Ground::Sim(disk),
        })
    }

    /// Whether the page cache can be bypassed.
    pub(crate) fn can_bypass_cache(&self) -> bool {
        matches!(self, Ground::Storage { direct_align, .. } if *direct_align > 0)
    }

    /// Alignment of offsets and sizes, in bytes.
    pub(crate) fn align(&self) -> u32 {
        match self {
            Ground::Storage { direct_align, .. } => (*direct_align).max(ALIGN_MIN),
            Ground::Nfs(_) | Ground::Null | Ground::Nop | Ground::Sim(_) => ALIGN_MIN,
        }
    }

    /// Opens an engine on a file, around the page cache if that is wanted and possible, with its
    /// description.
    pub(crate) fn open_file(
        &self,
        path: &Path,
        (direct, durable, choice): (bool, bool, EngineChoice),
        (depth, len): (u32, u32),
        seed: Seed,
    ) -> Result<(Box<dyn Engine>, String), Error> {
        let held = match self {
            Ground::Storage { held, .. } => held,
            Ground::Nfs(export) => return export.open(path, durable, (depth, len), seed),
            Ground::Null | Ground::Nop | Ground::Sim(_) => return Err(nothing_held()),
        };
        let can = self.can_bypass_cache();
        let opening = Opening {
            direct: direct && can,
            durable,
        };
        let file = Arc::new(layout::open_data(held, path, opening)?);
        let choice = choice.for_file(opening.direct, depth);
        let (engine, mut name) = open_engine(choice, &file, depth, len, seed)?;
        if direct && !can {
            name.push_str("; through the page cache (no direct I/O here)");
        }
        Ok((engine, name))
    }

    /// Through what files are reached, where there are any on this machine.
    pub(crate) fn held(&self) -> Result<&Held, Error> {
        match self {
            Ground::Storage { held, .. } => Ok(held),
            _ => Err(nothing_held()),
        }
    }

    /// The device that everything is on.
    pub(crate) fn device(&self) -> Option<&Device> {
        match self {
            Ground::Storage { device, .. } => device.as_ref(),
            Ground::Nfs(_) | Ground::Null | Ground::Nop | Ground::Sim(_) => None,
        }
    }

    /// Where file sets live.
    pub(crate) fn sets(&self) -> Option<Where<'_>> {
        match self {
            Ground::Storage {
                directory, held, ..
            } => directory.is_some().then_some(Where::Directory(held)),
            Ground::Nfs(export) => Some(Where::Export(export)),
            Ground::Null | Ground::Nop | Ground::Sim(_) => None,
        }
    }

    /// The one file of models, or the device; `None` where there are no files.
    pub(crate) fn data(&self) -> Option<PathBuf> {
        match self {
            Ground::Storage { data, .. } => Some(data.clone()),
            Ground::Nfs(export) => Some(export.directory().join(data_file_name(DATA_FILE, None))),
            Ground::Null | Ground::Nop | Ground::Sim(_) => None,
        }
    }

    /// The file of `worker` of `group`; `None` where there are no files.
    pub(crate) fn file_of(&self, group: &Group, worker: u32) -> Option<PathBuf> {
        let directory = match self {
            Ground::Storage {
                directory: None,
                data,
                ..
            } => return Some(data.clone()),
            Ground::Storage {
                directory: Some(directory),
                ..
            } => directory,
            Ground::Nfs(export) => export.directory(),
            Ground::Null | Ground::Nop | Ground::Sim(_) => return None,
        };
        let worker = (!group.extent.shared).then_some(worker);
        Some(directory.join(data_file_name(&group.extent.file, worker)))
    }

    /// The files of `blocks`, each once: those that groups share are made for all of them.
    pub(crate) fn files_of(&self, blocks: &Blocks) -> BTreeMap<PathBuf, DataFile> {
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
                    (Made::Before, _) | (_, Made::Before) => Made::Before,
                    (Made::During, _) | (_, Made::During) => Made::During,
                    _ => Made::Earlier,
                };
            }
        }
        files
    }
}

/// Nothing on this machine is worked on.
fn nothing_held() -> Error {
    Error::Workload("there is no storage to open".into())
}

/// What a data file is to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DataFile {
    /// Whole pages.
    pub(crate) bytes: u64,
    made: Made,
    is_read: bool,
}

impl DataFile {
    fn of(group: &Group) -> Self {
        let mut kinds = group.mix.iter().flat_map(|turn| turn.kind.operations());
        DataFile {
            // Whole pages, so that direct I/O of any size ends inside.
            bytes: group.extent.bytes.next_multiple_of(4096),
            made: group.extent.made,
            is_read: group.mix.is_empty() || kinds.any(|kind| *kind == Kind::Read),
        }
    }
}

/// What is done to files, wherever they are.
impl Ground {
    /// Where recorded requests go: where they went, on a device that is large enough and where
    /// nothing is stored; else moved together. Drawn ones are as far apart as they may be where
    /// nothing is stored.
    pub(crate) fn space(&self, workload: &Workload) -> Space {
        let Workload::Model(model) = workload else {
            return Space::AsRecorded;
        };
        let Some(packed) = &model.requests else {
            return match self.data() {
                None => Space::AsRecorded,
                Some(_) => Space::Compact(Vec::new().into()),
            };
        };
        let has_room = match (self.data(), self.device()) {
            (None, _) => true,
            (Some(_), Some(device)) => device.bytes >= packed.span_bytes(),
            (Some(_), None) => false,
        };
        if has_room {
            Space::AsRecorded
        } else {
            Space::compact(packed)
        }
    }

    pub(crate) fn data_file(
        &self,
        path: &Path,
        bytes: u64,
        seed: Seed,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        match self {
            Ground::Nfs(export) => export.data_file(path, bytes, seed, stop),
            _ => layout::data_file(self.held()?, path, bytes, seed, stop),
        }
    }

    pub(crate) fn remove(&self, paths: impl Iterator<Item = PathBuf>) -> Result<(), Error> {
        match self {
            Ground::Nfs(export) => export.remove(paths),
            _ => layout::remove(self.held()?, paths),
        }
    }
}

impl Ground {
    /// Lays out what `blocks` wants to find.
    pub(crate) fn lay_out(
        &self,
        blocks: &Blocks,
        seed: Seed,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        for (number, (path, file)) in (0..).zip(self.files_of(blocks)) {
            // Or all files would hold the same.
            let seed = match number {
                0 => seed,
                _ => seed.derive("file", number),
            };
            match (file.made, self.device()) {
                (Made::Before, Some(device)) if file.is_read => {
                    let bytes = file.bytes.min(device.bytes);
                    device::fill(self.held()?, &path, bytes, seed, stop)?;
                }
                (Made::Before, None) => self.data_file(&path, file.bytes, seed, stop)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The sets of `files`: those that are known by name, and the others, which are laid out.
    pub(crate) fn lay_out_sets(
        &self,
        files: &FileLoop,
        sets: &mut Known,
        seed: Seed,
        stop: &AtomicBool,
    ) -> Result<Arc<Trees>, Error> {
        let is_missing = |set: &&FileSet| set.made_earlier && !sets.contains_key(&set.name);
        if let Some(set) = files.sets.iter().find(is_missing) {
            let (name, set) = (&files.name, &set.name);
            let text = format!("'{name}': no earlier phase left the files '{set}'");
            return Err(Error::Workload(text));
        }
        let before: Vec<String> = sets.keys().cloned().collect();
        let trees = Arc::new(Trees::new(files, seed, sets));
        if let Some(place) = self.sets() {
            let mut fresh = sets.clone();
            fresh.retain(|name, _| !before.contains(name));
            place.lay_out(&fresh, seed, stop)?;
        }
        Ok(trees)
    }

    /// Makes the files that a run fills itself, empty, and looks for those that an earlier phase
    /// left.
    pub(crate) fn begin(&self, blocks: &Blocks) -> Result<(), Error> {
        if self.device().is_some() {
            return Ok(());
        }
        for (path, file) in self.files_of(blocks) {
            match (file.made, self) {
                (Made::Before, _) => {}
                (Made::During, Ground::Nfs(export)) => export.empty_file(&path, 0)?,
                (Made::Earlier, Ground::Nfs(export)) => export.expect_file(&path)?,
                (Made::During, _) => layout::empty_file(self.held()?, &path)?,
                (Made::Earlier, _) => layout::expect_file(self.held()?, &path)?,
            }
        }
        Ok(())
    }

    /// Drops the clean pages of everything that `body` works on.
    pub(crate) fn go_cold(&self, body: &Body) -> Result<(), Error> {
        match (body, self.sets()) {
            // Nothing is kept on this machine.
            (_, Some(Where::Export(_))) => Ok(()),
            (Body::Blocks(blocks), _) => {
                let mut paths = self.files_of(blocks).into_keys();
                paths.try_for_each(|path| layout::go_cold(self.held()?, &path))
            }
            (Body::Files(_), Some(Where::Directory(directory))) => layout::go_cold_below(directory),
            (Body::Files(_), None) => Ok(()),
        }
    }
}
