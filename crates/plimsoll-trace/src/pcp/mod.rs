// SPDX-License-Identifier: Apache-2.0
//! A reader of PCP archives (versions 2 and 3, several volumes, compressed or not) and a writer of
//! version 3, without libpcp.
//!
//! Source of the format: the LOGARCHIVE(5) manual page; where measurement corrected it, the
//! module that reads the part says so. Files are read as streams, record by record, so memory
//! does not grow with them. Invariants: no length in a file is trusted for an allocation or a
//! jump, every loop consumes bytes, and damage ends the reading of its volume at its place instead
//! of discarding what was read. Of the temporal index only the end is read.

mod bytes;
mod disk;
mod files;
mod folio;
mod frames;
#[cfg(test)]
mod handmade;
mod index;
mod label;
mod log;
mod meta;
mod metrics;
mod part;
#[cfg(test)]
mod tests;
mod write;

#[cfg(test)]
pub(crate) use tests::made as handmade_archive;

pub use folio::archives_of_folio;
pub use label::{PcpLabel, PcpVersion};
pub use write::{PcpWriter, PcpWriterOptions};

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::TraceError;
use crate::recording::{
    CounterReadState, RecordingCapabilities, RecordingDetail, RecordingInfo, TraceOrder,
};
use crate::window::{RecordingTimes, RecordingWindow};
use files::{PcpArchiveFiles, PcpFile};
use metrics::PcpDeviceKind;
use part::PcpArchivePart;
use plimsoll_core::profile::{DeviceComposition, DeviceKind};

/// An archive, opened and read once.
pub struct PcpArchive {
    state: CounterReadState,
    label: PcpLabel,
    parts: Vec<PcpArchivePart>,
    devices: Vec<PcpDevice>,
}

/// A device of an archive.
#[derive(Debug, Clone)]
struct PcpDevice {
    family: PcpDeviceKind,
    /// Its name in the family.
    name: String,
    /// The same, with the layer where several families have it.
    shown: String,
    made: Option<DeviceComposition>,
}

impl fmt::Debug for PcpArchive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("PcpArchive");
        out.field("about", &self.state.about);
        out.finish_non_exhaustive()
    }
}

/// Where the files lie that an archive, a folio or a folder of archives consists of, without its
/// indexes.
pub(crate) fn paths(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    let mut found = folio::find(path)?;
    found.sort_by(|a, b| a.base.cmp(&b.base));
    Ok(found.iter().flat_map(PcpArchiveFiles::paths).collect())
}

impl PcpArchive {
    /// Opens the archive of which `path` is the base name or one of the files; or all archives
    /// that a folio or a folder holds, as one recording of their host with gaps between them.
    ///
    /// # Errors
    /// When there is no such archive, it is of version 1, its labels are not labels, or not one
    /// record of it can be read. Of several archives, when that is so for all of them (for some,
    /// they are left out with a warning), or they are of several hosts or of the same time.
    pub fn open(path: &Path) -> Result<PcpArchive, TraceError> {
        let mut found = folio::find(path)?;
        if found.len() == 1 {
            let files = found.swap_remove(0);
            let name = files.base.clone();
            return Self::assemble(name, vec![PcpArchivePart::open(files, part::KEPT_MAX)?]);
        }
        let (mut parts, mut refused) = (Vec::new(), Vec::new());
        let mut room = part::KEPT_MAX;
        for files in found {
            match PcpArchivePart::open(files, room) {
                Ok(part) => {
                    room -= part.kept.as_ref().map_or(0, Vec::len);
                    parts.push(part);
                }
                Err(error) => refused.push(error),
            }
        }
        if parts.is_empty() && !refused.is_empty() {
            return Err(refused.swap_remove(0));
        }
        let mut archive = Self::assemble(path.display().to_string(), parts)?;
        let left_out = refused
            .iter()
            .map(|error| format!("an archive is left out, since the program failed to {error}"));
        archive.state.warnings.extend(left_out);
        Ok(archive)
    }

    /// An archive whose files are already in memory: the bytes of `.meta` and of the volumes in
    /// ascending order. For tests and fuzzing.
    ///
    /// # Errors
    /// As [`PcpArchive::open`].
    pub fn from_bytes(
        name: &str,
        meta: Vec<u8>,
        volumes: Vec<Vec<u8>>,
    ) -> Result<PcpArchive, TraceError> {
        Self::keeping(name, meta, volumes, part::KEPT_MAX)
    }

    /// As [`PcpArchive::from_bytes`], with `room` for samples in memory.
    fn keeping(
        name: &str,
        meta: Vec<u8>,
        volumes: Vec<Vec<u8>>,
        room: usize,
    ) -> Result<PcpArchive, TraceError> {
        let file = |suffix: &str, bytes| PcpFile::in_memory(format!("{name}.{suffix}"), bytes);
        let volumes = (0u32..).zip(volumes);
        let volumes = volumes.map(|(number, bytes)| (number, file(&number.to_string(), bytes)));
        let files = PcpArchiveFiles::in_memory(name.into(), file("meta", meta), volumes.collect());
        Self::assemble(name.into(), vec![PcpArchivePart::open(files, room)?])
    }

    /// One recording of the parts.
    fn assemble(name: String, mut parts: Vec<PcpArchivePart>) -> Result<PcpArchive, TraceError> {
        parts.sort_by_key(|part| part.first_unix_ns);
        check_together(&name, &parts)?;
        let Some(first) = parts.first() else {
            return Err(TraceError::NoArchive { path: name });
        };
        let label = first.label.clone();
        let (times, zone_warning) = RecordingTimes::new(&name, &label.zone, span(&parts));
        let mut warnings = Vec::from_iter(zone_warning);
        let mut damages = Vec::new();
        for part in &mut parts {
            warnings.append(&mut part.warnings);
            damages.append(&mut part.damages);
        }
        let mut damages = damages.into_iter();
        let damage = damages.next();
        warnings.extend(damages.map(|damage| damage.to_string()));
        let about = RecordingInfo {
            name,
            format: format(&parts, label.version),
            host: label.host.clone(),
            carries: carries(label.version),
        };
        Ok(PcpArchive {
            state: CounterReadState {
                about,
                times,
                damage,
                warnings,
            },
            label,
            devices: devices(&parts),
            parts,
        })
    }

    /// The label of the archive, the first one if there are several.
    pub fn label(&self) -> &PcpLabel {
        &self.label
    }
}

/// The devices of all parts: disks first, then what lies on them.
fn devices(parts: &[PcpArchivePart]) -> Vec<PcpDevice> {
    let (mut seen, mut devices) = (BTreeSet::new(), Vec::new());
    let families = PcpDeviceKind::ALL.into_iter();
    for family in families.chain([PcpDeviceKind::Totals]) {
        for part in parts {
            let of_family = |id: &u32| part.families.get(id) == Some(&family);
            let domains = part.catalog.domains().filter(|(id, _)| of_family(id));
            for name in domains.flat_map(|(_, domain)| domain.names()) {
                let paths = part.ways.get(name).cloned().unwrap_or_default();
                // A disk that is reached on one way is there by that way's name.
                if family == PcpDeviceKind::WorldWide && paths.len() < 2 {
                    continue;
                }
                if !seen.insert((family, name)) {
                    continue;
                }
                let others = PcpDeviceKind::ALL
                    .into_iter()
                    .filter(|other| *other != family);
                let is_double = others
                    .into_iter()
                    .any(|other| seen.contains(&(other, name)));
                let made = family
                    .layer()
                    .map(|layer| DeviceComposition { layer, paths });
                let layer = family.layer().map_or("disk", DeviceKind::name);
                devices.push(PcpDevice {
                    family,
                    name: name.clone(),
                    shown: match is_double {
                        true => format!("{name} ({layer})"),
                        false => name.clone(),
                    },
                    made,
                });
            }
        }
    }
    devices
}

/// Capabilities of a PCP archive for a disk.
fn carries(version: PcpVersion) -> RecordingCapabilities {
    RecordingCapabilities {
        arrivals: RecordingDetail::Mean,
        resolution: version.resolution(),
        direction: true,
        sizes: RecordingDetail::Mean,
        offsets: false,
        service: RecordingDetail::Mean,
        queue: RecordingDetail::Mean,
        order: TraceOrder::Started,
    }
}

/// Kind of the recording, for provenance.
fn format(parts: &[PcpArchivePart], version: PcpVersion) -> String {
    let version = version.number();
    match parts.len() {
        1 => format!("PCP archive, version {version}"),
        n => format!("{n} PCP archives, the first of version {version}"),
    }
}

/// First and last record of all parts.
fn span(parts: &[PcpArchivePart]) -> RecordingWindow {
    let first = parts.iter().map(|part| part.first_unix_ns).min();
    let last = parts.iter().map(|part| part.last_unix_ns).max();
    RecordingWindow {
        from_unix_ns: first.unwrap_or_default(),
        to_unix_ns: last.unwrap_or_default(),
    }
}

/// Checks that parts in the order of time can be one recording.
fn check_together(name: &str, parts: &[PcpArchivePart]) -> Result<(), TraceError> {
    for pair in parts.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        if before.label.host != after.label.host {
            let of = |part: &PcpArchivePart| format!("{} (host {})", part.base, part.label.host);
            return Err(TraceError::Apart {
                recording: name.into(),
                archives: parts.iter().map(of).collect(),
                why: "are of several hosts",
            });
        }
        if after.first_unix_ns < before.last_unix_ns {
            return Err(TraceError::Apart {
                recording: name.into(),
                archives: vec![before.base.clone(), after.base.clone()],
                why: "are of the same time",
            });
        }
    }
    Ok(())
}
