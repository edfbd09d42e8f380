// SPDX-License-Identifier: Apache-2.0
//! A reader of PCP archives (version 2, uncompressed, several volumes) without libpcp.
//!
//! Source of the format: the LOGARCHIVE(5) manual page; where measurement corrected it, the
//! module that reads the part says so. The files are held in memory and walked in place, so a
//! record that holds no wanted metric costs its framing only. Invariants: no length in a file is
//! trusted for an allocation or a jump, every loop consumes bytes, and damage ends the reading at
//! its place instead of discarding what was read. Not here: version 3 and packed files (refused
//! by name; [`Version`] and the label reader are where they come in), and the temporal index,
//! which is never needed.

mod bytes;
mod disk;
mod files;
mod label;
mod log;
mod meta;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) mod writer;

pub use label::{Label, Version};

use std::collections::BTreeSet;
use std::path::Path;

use plimsoll_core::units::Nanos;

use crate::error::{Damage, TraceError};
use crate::recording::{About, Carries, Counters, Detail, Order, Scope};
use crate::series::DiskSeries;
use crate::window::{Times, Window};
use files::Files;
use log::{File, Records};
use meta::Catalog;

/// An archive, opened and checked as far as its framing goes.
#[derive(Debug)]
pub struct Archive {
    about: About,
    label: Label,
    times: Times,
    meta: File,
    volumes: Vec<File>,
    catalog: Catalog,
    damage: Option<Damage>,
    warnings: Vec<String>,
}

impl Archive {
    /// Opens the archive of which `path` is the base name or one of the files.
    ///
    /// # Errors
    /// When there is no such archive, it is packed or of another version, larger than 4 GiB, its
    /// labels are not labels, or not one record of it can be read.
    pub fn open(path: &Path) -> Result<Archive, TraceError> {
        let files = Files::read(path)?;
        Self::assemble(files.base.display().to_string(), files.meta, files.volumes)
    }

    /// An archive whose files are already in memory: the bytes of `.meta` and of the volumes in
    /// ascending order. For tests and fuzzing.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn from_bytes(
        name: &str,
        meta: Vec<u8>,
        volumes: Vec<Vec<u8>>,
    ) -> Result<Archive, TraceError> {
        let file = |suffix: &str, bytes| File {
            name: format!("{name}.{suffix}"),
            bytes,
        };
        let volumes = (0u32..).zip(volumes);
        let volumes = volumes
            .map(|(number, bytes)| (number, file(&number.to_string(), bytes)))
            .collect();
        Self::assemble(name.into(), file("meta", meta), volumes)
    }

    fn assemble(
        name: String,
        meta: File,
        volumes: Vec<(u32, File)>,
    ) -> Result<Archive, TraceError> {
        let meta_label = Label::read(&meta.name, &meta.bytes)?;
        if meta_label.volume != label::VOLUME_META {
            return Err(wrong_label(&meta, meta_label.volume));
        }
        let Some((first_number, first)) = volumes.first() else {
            return Err(TraceError::NoVolume { base: name });
        };
        let label = Label::read(&first.name, &first.bytes)?;
        if u32::try_from(label.volume) != Ok(*first_number) {
            return Err(wrong_label(first, label.volume));
        }
        let mut warnings = Vec::new();
        let mut damage = None;
        let volumes = usable_volumes(volumes, &mut warnings, &mut damage);
        let (catalog, meta_damage) = Catalog::read(&meta, is_disk_metric);
        let (from_unix_ns, to_unix_ns) = span(&volumes, &mut damage)?;
        let span = Window {
            from_unix_ns,
            to_unix_ns,
        };
        let (times, zone_warning) = Times::new(&name, &label.zone, span);
        warnings.extend(zone_warning);
        let about = About {
            name,
            format: format!("PCP archive, version {}", label.version.number()),
            host: label.host.clone(),
            carries: CARRIES,
        };
        Ok(Archive {
            about,
            label,
            times,
            meta,
            volumes,
            catalog,
            // Damage of the metadata comes first: it can hide a metric altogether.
            damage: meta_damage.or(damage),
            warnings,
        })
    }

    /// The label of the first volume.
    #[must_use]
    pub fn label(&self) -> &Label {
        &self.label
    }
}

impl Counters for Archive {
    fn about(&self) -> &About {
        &self.about
    }

    fn times(&self) -> &Times {
        &self.times
    }

    /// Names of the instances of `disk.dev.*`.
    fn disks(&self) -> Vec<String> {
        let mut domains: Vec<u32> = self.catalog.all().map(|d| d.domain).collect();
        domains.sort_unstable();
        domains.dedup();
        let mut seen = BTreeSet::new();
        let mut names = Vec::new();
        for domain in domains {
            // A second domain is rare (a changed agent) and mostly has the same disks.
            for name in self.catalog.instances(&self.meta, domain) {
                if seen.insert(name.clone()) {
                    names.push(name);
                }
            }
        }
        names
    }

    fn series(&self, disk: &str, window: &Window) -> Result<DiskSeries, TraceError> {
        self.disk_series(disk, window)
    }

    /// Where the framing of the archive stops being readable.
    fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// What a PCP archive of a disk tells.
const CARRIES: Carries = Carries {
    arrivals: Detail::Mean,
    resolution: Nanos(1_000),
    direction: true,
    sizes: Detail::Mean,
    offsets: false,
    service: Detail::Mean,
    queue: Detail::Mean,
    order: Order::Started,
    scope: Scope::Device,
};

fn is_disk_metric(name: &[u8]) -> bool {
    // More than the series use: a disk of which only a total was recorded is still a disk.
    name.starts_with(b"disk.dev.")
}

fn wrong_label(file: &File, volume: i32) -> TraceError {
    TraceError::Format {
        file: file.name.clone(),
        offset: 20,
        what: format!("the label is that of volume {volume}, not of this file"),
    }
}

/// The volumes up to the first that does not belong to the archive.
fn usable_volumes(
    volumes: Vec<(u32, File)>,
    warnings: &mut Vec<String>,
    damage: &mut Option<Damage>,
) -> Vec<File> {
    let mut usable: Vec<File> = Vec::with_capacity(volumes.len());
    let mut expected = volumes.first().map_or(0, |(number, _)| *number);
    for (number, file) in volumes {
        if number != expected {
            let file = &file.name;
            warnings.push(format!(
                "volume {expected} is missing before {file}: its time counts as one interval"
            ));
        }
        expected = number.saturating_add(1);
        let belongs = Label::read(&file.name, &file.bytes)
            .is_ok_and(|label| u32::try_from(label.volume) == Ok(number));
        if !belongs {
            *damage = Some(file.damage(0, "the label is not that of this volume"));
            break;
        }
        usable.push(file);
    }
    usable
}

/// First and last time stamp; damage ends the search.
fn span(volumes: &[File], damage: &mut Option<Damage>) -> Result<(u64, u64), TraceError> {
    let mut times = None;
    'volumes: for file in volumes {
        for record in Records::of(file) {
            match record {
                Ok(record) => {
                    let at = record.at_unix_ns;
                    let (first, last) = times.unwrap_or((at, at));
                    times = Some((first.min(at), last.max(at)));
                }
                Err(here) => {
                    *damage = Some(here);
                    break 'volumes;
                }
            }
        }
    }
    times.ok_or_else(|| match damage.take() {
        Some(Damage { file, offset, what }) => TraceError::Format { file, offset, what },
        None => TraceError::Format {
            file: volumes.first().map_or_else(String::new, |f| f.name.clone()),
            offset: label::LABEL_BYTES_V2 as u64,
            what: "the archive has a label but no records".into(),
        },
    })
}
