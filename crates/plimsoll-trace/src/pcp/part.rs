// SPDX-License-Identifier: Apache-2.0
//! One archive of a recording: its files, what its metadata says, and the samples in them.
//!
//! The volumes are read once when the archive is opened, since only that shows its span and
//! whether it is whole. What was recorded of disks is kept on the way, if it is not too much: a
//! logger's records are mostly about other things, and so a compressed archive need not be decompressed
//! again for each disk.

use std::collections::BTreeMap;

use super::bytes::index;
use super::files::{PcpArchiveFiles, PcpFile};
use super::frames::PcpFrameReader;
use super::index::IndexEnd;
use super::label::{self, PcpLabel};
use super::log::{PcpNumber, PcpRecord};
use super::meta::{PcpInstanceDomain, PcpMetadata, PcpMetricDesc, ValueType};
use super::metrics::{PcpDeviceKind, ways_metric};
use crate::error::{RecordingDamage, TraceError};
use crate::series::DiskMetric;
use plimsoll_core::units::Nanos;

/// Most samples kept in memory, of all archives of a recording: 32 bytes each. Beyond that the
/// files are read again for each question.
pub(super) const KEPT_MAX: usize = 2_000_000;

/// Most changes of the ways to disks that are kept; later ones are ignored.
const WAYS_MAX: usize = 100_000;

/// A wanted metric of an archive.
#[derive(Debug)]
pub(super) struct PcpMetricSlot {
    pub(super) metric: DiskMetric,
    /// Base units (bytes, seconds, operations) in one recorded unit.
    pub(super) factor: f64,
    pub(super) description: PcpMetricDesc,
}

/// Events of the volumes, in their order.
#[derive(Debug, Clone, Copy)]
pub(super) enum PcpVolumeEvent {
    /// The recording was interrupted.
    Mark,
    /// A value of one metric of one instance.
    Value(PcpSample),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct PcpSample {
    pub(super) at_unix_ns: u64,
    /// Place in [`PcpArchivePart::slots`].
    pub(super) slot: u16,
    pub(super) instance: i32,
    pub(super) value: PcpNumber,
}

/// An archive, opened.
#[derive(Debug)]
pub(super) struct PcpArchivePart {
    pub(super) base: String,
    pub(super) label: PcpLabel,
    pub(super) catalog: PcpMetadata,
    pub(super) slots: Vec<PcpMetricSlot>,
    wanted: PcpMetricFilter,
    /// Whose instances those of a domain are.
    pub(super) families: BTreeMap<u32, PcpDeviceKind>,
    /// Disks that are reached on several ways, by their world-wide names, and the ways.
    pub(super) ways: BTreeMap<String, Vec<String>>,
    volumes: Vec<(u32, PcpFile)>,
    /// Everything the volumes say of disks, unless it is too much.
    pub(super) kept: Option<Vec<PcpVolumeEvent>>,
    pub(super) first_unix_ns: u64,
    pub(super) last_unix_ns: u64,
    pub(super) damages: Vec<RecordingDamage>,
    pub(super) warnings: Vec<String>,
}

/// Results of a pass over the volumes.
#[derive(Debug, Default)]
struct Pass {
    times: Option<(u64, u64)>,
    /// When paths were recorded, of which instance, and which they are.
    ways: Vec<(u64, i32, String)>,
    damages: Vec<RecordingDamage>,
}

impl PcpArchivePart {
    /// Opens an archive and keeps at most `room` samples of it.
    pub(super) fn open(files: PcpArchiveFiles, room: usize) -> Result<PcpArchivePart, TraceError> {
        let label = files.meta.open()?.label()?;
        if label.volume != label::VOLUME_META {
            return Err(wrong_volume(&files.meta.name, label.volume));
        }
        if files.volumes.is_empty() {
            return Err(TraceError::NoVolume { base: files.base });
        }
        let index_end = files.index_end(label.version);
        let (catalog, meta_damage) = PcpMetadata::read(&files.meta, is_disk_metric)?;
        let mut part = PcpArchivePart {
            base: files.base,
            label,
            catalog,
            slots: Vec::new(),
            wanted: PcpMetricFilter::default(),
            families: BTreeMap::new(),
            ways: BTreeMap::new(),
            warnings: missing_volumes(&files.volumes),
            volumes: files.volumes,
            kept: None,
            first_unix_ns: 0,
            last_unix_ns: 0,
            damages: Vec::new(),
        };
        part.make_slots();
        let mut kept = Some(Vec::new());
        let pass = part.pass(&mut |said| {
            if kept.as_ref().is_some_and(|kept| kept.len() >= room) {
                kept = None;
            }
            if let Some(kept) = &mut kept {
                kept.push(said);
            }
        })?;
        part.kept = kept;
        part.note_ways(pass.ways);
        // Damage of the metadata comes first: it can hide a metric altogether.
        part.damages = meta_damage.into_iter().chain(pass.damages).collect();
        (part.first_unix_ns, part.last_unix_ns) = match pass.times {
            Some(times) => times,
            None => return Err(part.nothing()),
        };
        part.warnings
            .extend(index_end.and_then(|end| part.ends_early(end)));
        Ok(part)
    }

    /// A sentence when the index goes on behind the last volume.
    fn ends_early(&self, end: IndexEnd) -> Option<String> {
        let (last, source) = self.volumes.last()?;
        let missing = Nanos(end.at_unix_ns.saturating_sub(self.last_unix_ns));
        if end.volume <= *last {
            return None;
        }
        Some(format!(
            "volume {} is missing behind {}: its index goes on for {missing} at least",
            last.saturating_add(1),
            source.name
        ))
    }

    /// Tells everything the volumes say of disks, beginning with a mark: what came before was
    /// another archive, and between two the recording was interrupted.
    pub(super) fn tell(&self, hear: &mut impl FnMut(PcpVolumeEvent)) -> Result<(), TraceError> {
        hear(PcpVolumeEvent::Mark);
        match &self.kept {
            Some(kept) => kept.iter().for_each(|said| hear(*said)),
            // Damage is known from the first time.
            None => drop(self.pass(hear)?),
        }
        Ok(())
    }

    fn make_slots(&mut self) {
        let ways = self.catalog.descriptions(ways_metric().0);
        for description in ways {
            self.wanted.add(description.metric, Meant::Ways);
        }
        let named = self.catalog.named();
        self.families = named
            .filter_map(|(name, description)| Some((description.domain, family_of(name)?)))
            .collect();
        let has_devices = |(id, domain): (u32, &PcpInstanceDomain)| {
            self.families.contains_key(&id) && !domain.names().is_empty()
        };
        let has_devices = self.catalog.domains().any(has_devices);
        let families = match has_devices {
            true => {
                // They count the same again.
                self.families
                    .retain(|_, family| *family != PcpDeviceKind::Totals);
                &PcpDeviceKind::ALL[..]
            }
            false => {
                self.catalog.name_totals(ALL_DISKS);
                &[PcpDeviceKind::Totals]
            }
        };
        let families = families.iter().copied();
        for (family, metric) in families.flat_map(|f| DiskMetric::ALL.map(|metric| (f, metric))) {
            // Of several ways together, the time with something in flight means nothing.
            if (family, metric) == (PcpDeviceKind::WorldWide, DiskMetric::Active) {
                continue;
            }
            let name = metric
                .pcp_name()
                .replace(PcpDeviceKind::Disks.prefix(), family.prefix());
            for description in self.catalog.descriptions(&name) {
                match PcpMetricSlot::of(metric, *description) {
                    Ok(slot) => {
                        let number = u16::try_from(self.slots.len()).unwrap_or(u16::MAX);
                        self.wanted.add(description.metric, Meant::Figure(number));
                        self.slots.push(slot);
                    }
                    Err(why) => self.warnings.push(why),
                }
            }
        }
    }

    /// Keeps the ways to each disk, the last ones that were recorded.
    fn note_ways(&mut self, mut told: Vec<(u64, i32, String)>) {
        let [known, ..] = self.catalog.descriptions(ways_metric().0) else {
            return;
        };
        let mut domains = self.catalog.domains();
        let Some((_, domain)) = domains.find(|(id, _)| *id == known.domain) else {
            return;
        };
        told.sort_by_key(|(at, ..)| *at);
        let mut follower = domain.follow();
        for (at, instance, ways) in told {
            let name = follower.name_at(at, instance);
            let name = name.and_then(|name| domain.names().get(usize::try_from(name).ok()?));
            if let Some(name) = name {
                let ways = ways.split_whitespace().map(Into::into).collect();
                self.ways.insert(name.clone(), ways);
            }
        }
    }

    fn pass(&self, hear: &mut impl FnMut(PcpVolumeEvent)) -> Result<Pass, TraceError> {
        let mut pass = Pass::default();
        let mut expected = self.volumes.first().map_or(0, |(number, _)| *number);
        for (number, source) in &self.volumes {
            // Contents of a missing volume are unknown.
            if *number != expected {
                hear(PcpVolumeEvent::Mark);
            }
            expected = number.saturating_add(1);
            let mut frames = source.open()?;
            let read = self.check(*number, &mut frames, &source.name);
            let read = read.and_then(|()| self.read(&mut frames, &mut pass, hear));
            if let Err(damage) = read {
                // A volume stands for itself: the next can be read, with a gap before it.
                pass.damages.push(damage);
                hear(PcpVolumeEvent::Mark);
            }
        }
        Ok(pass)
    }

    fn check(
        &self,
        number: u32,
        frames: &mut PcpFrameReader,
        name: &str,
    ) -> Result<(), RecordingDamage> {
        let damage = |error| match error {
            TraceError::Format { file, offset, what } => RecordingDamage { file, offset, what },
            other => RecordingDamage::new(name, 4, other.to_string()),
        };
        let label = frames.label().map_err(damage)?;
        if label.version != self.label.version {
            let what = format!(
                "the label is of version {}, that of the metadata is of version {}",
                label.version.number(),
                self.label.version.number()
            );
            return Err(RecordingDamage::new(name, 4, what));
        }
        if u32::try_from(label.volume) != Ok(number) {
            return Err(damage(wrong_volume(name, label.volume)));
        }
        Ok(())
    }

    /// Reads the records of a volume up to its end or to damage.
    fn read(
        &self,
        frames: &mut PcpFrameReader,
        pass: &mut Pass,
        hear: &mut impl FnMut(PcpVolumeEvent),
    ) -> Result<(), RecordingDamage> {
        let version = self.label.version;
        while let Some(frame) = frames.next(PcpRecord::bytes_min(version)) {
            let record = PcpRecord::read(frame?, version)?;
            let at = record.at_unix_ns;
            let (first, last) = pass.times.unwrap_or((at, at));
            pass.times = Some((first.min(at), last.max(at)));
            if record.is_mark() {
                hear(PcpVolumeEvent::Mark);
            } else {
                self.take(&record, &mut pass.ways, hear)?;
            }
        }
        Ok(())
    }

    fn take(
        &self,
        record: &PcpRecord<'_>,
        ways: &mut Vec<(u64, i32, String)>,
        hear: &mut impl FnMut(PcpVolumeEvent),
    ) -> Result<(), RecordingDamage> {
        let mut missing = self.wanted.by_metric.len();
        for set in record.sets() {
            let set = set?;
            match self.wanted.meant(set.metric) {
                None => continue,
                Some(Meant::Ways) => {
                    let told = set.texts().map(|(n, text)| (record.at_unix_ns, n, text));
                    ways.extend(told.take(WAYS_MAX.saturating_sub(ways.len())));
                }
                Some(Meant::Figure(slot)) => {
                    for value in set.values(self.slots[usize::from(slot)].description.kind) {
                        let (instance, value) = value?;
                        hear(PcpVolumeEvent::Value(PcpSample {
                            at_unix_ns: record.at_unix_ns,
                            slot,
                            instance,
                            value,
                        }));
                    }
                }
            }
            missing -= 1;
            if missing == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Why not one record could be read.
    fn nothing(mut self) -> TraceError {
        if self.damages.is_empty() {
            let (file, place) = (&self.volumes[0].1.name, self.label.version.label_bytes());
            let what = "the archive has a label but no records";
            return RecordingDamage::new(file, place as u64, what).into();
        }
        self.damages.swap_remove(0).into()
    }
}

/// Use of a metric of an archive.
#[derive(Debug, Clone, Copy)]
enum Meant {
    /// The figure of this slot.
    Figure(u16),
    /// The ways to a disk.
    Ways,
}

/// The metrics that are wanted. A record may have thousands of others.
#[derive(Debug, Default)]
struct PcpMetricFilter {
    by_metric: BTreeMap<u32, Meant>,
    /// The bits of wanted metrics: who lacks its own need not be looked up.
    sieve: [u64; 16],
}

impl PcpMetricFilter {
    fn add(&mut self, metric: u32, meant: Meant) {
        let (word, bit) = Self::bit(metric);
        self.sieve[word] |= bit;
        self.by_metric.insert(metric, meant);
    }

    fn meant(&self, metric: u32) -> Option<Meant> {
        let (word, bit) = Self::bit(metric);
        if self.sieve[word] & bit == 0 {
            return None;
        }
        self.by_metric.get(&metric).copied()
    }

    /// The upper ten bits of the number times the golden ratio, where neighbours lie far apart.
    fn bit(metric: u32) -> (usize, u64) {
        let hash = index(metric.wrapping_mul(0x9e37_79b9) >> 22);
        (hash / 64, 1 << (hash % 64))
    }
}

impl PcpMetricSlot {
    fn of(metric: DiskMetric, description: PcpMetricDesc) -> Result<PcpMetricSlot, String> {
        let units = description.units;
        let factor = if metric.is_bytes() {
            units.bytes()
        } else if metric.is_seconds() {
            units.seconds()
        } else {
            units.events()
        };
        let name = metric.pcp_name();
        let Some(factor) = factor else {
            return Err(format!(
                "{name} is in units it should not have; it is left out"
            ));
        };
        let kind_fits = description.is_counter() == metric.is_counter();
        if !kind_fits || description.kind == ValueType::Other {
            return Err(format!(
                "{name} is not of the kind it should be; it is left out"
            ));
        }
        Ok(PcpMetricSlot {
            metric,
            factor,
            description,
        })
    }
}

/// Name of all disks together, where nothing else was recorded.
const ALL_DISKS: &str = "all disks";

fn is_disk_metric(name: &[u8]) -> bool {
    family_of(name).is_some()
}

/// More than the series use: a disk of which only a total was recorded is still a disk.
fn family_of(name: &[u8]) -> Option<PcpDeviceKind> {
    let families = PcpDeviceKind::ALL.into_iter();
    let mut families = families.chain([PcpDeviceKind::Totals]);
    families.find(|family| name.starts_with(family.prefix().as_bytes()))
}

fn wrong_volume(file: &str, volume: i32) -> TraceError {
    let what = format!("the label is that of volume {volume}, not of this file");
    RecordingDamage::new(file, 4, what).into()
}

fn missing_volumes(volumes: &[(u32, PcpFile)]) -> Vec<String> {
    let first = volumes.first().filter(|(number, _)| *number > 0);
    let first = first.map(|(_, file)| {
        format!(
            "volume 0 is missing before {}: the recording began earlier",
            file.name
        )
    });
    let gaps = volumes
        .windows(2)
        .filter(|pair| pair[0].0.saturating_add(1) != pair[1].0);
    let gaps = gaps.map(|pair| {
        let (missing, file) = (pair[0].0.saturating_add(1), &pair[1].1.name);
        format!("volume {missing} is missing before {file}: its time is a gap")
    });
    first.into_iter().chain(gaps).collect()
}
