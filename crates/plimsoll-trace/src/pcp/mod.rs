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
mod window;
#[cfg(test)]
pub(crate) mod writer;

pub use label::{Label, Version};
pub use window::Window;

use std::collections::BTreeSet;
use std::path::Path;

use jiff::tz::TimeZone;

use crate::error::{Damage, TraceError};
use files::Files;
use log::{File, Records};
use meta::Catalog;

/// An archive, opened and checked as far as its framing goes.
#[derive(Debug)]
pub struct Archive {
    name: String,
    label: Label,
    zone: TimeZone,
    meta: File,
    volumes: Vec<File>,
    catalog: Catalog,
    first_unix_ns: u64,
    last_unix_ns: u64,
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
        let (zone, zone_warning) = window::zone(&label.zone);
        warnings.extend(zone_warning);
        let (first_unix_ns, last_unix_ns) = span(&volumes, &mut damage)?;
        Ok(Archive {
            name,
            label,
            zone,
            meta,
            volumes,
            catalog,
            first_unix_ns,
            last_unix_ns,
            // Damage of the metadata comes first: it can hide a metric altogether.
            damage: meta_damage.or(damage),
            warnings,
        })
    }

    /// The archive's base name as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The label of the first volume.
    #[must_use]
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// What kind of recording this is, for provenance: `PCP archive, version 2`.
    #[must_use]
    pub fn format(&self) -> String {
        format!("PCP archive, version {}", self.label.version.number())
    }

    /// The whole archive: its first and its last record.
    #[must_use]
    pub fn span(&self) -> Window {
        Window {
            from_unix_ns: self.first_unix_ns,
            to_unix_ns: self.last_unix_ns,
        }
    }

    /// Where the framing of the archive stops being readable.
    #[must_use]
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// What else the reader should know, as sentences.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Names of the disks (instances of `disk.dev.*`), in recorded order.
    #[must_use]
    pub fn disks(&self) -> Vec<String> {
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
}

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
