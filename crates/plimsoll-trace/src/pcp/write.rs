// SPDX-License-Identifier: Apache-2.0
//! A writer of PCP archives, version 3: disk counters as a Linux logger records them.
//!
//! Files are only ever appended to, each record in one call, metadata before the values that need
//! it, so that an archive is readable at any time, also after the process was killed: at worst
//! its last record is cut. The temporal index gets an entry where a logger gives one: at the
//! start, at a new volume, when disks came or went, and at the end. Layout: see `label`, `log` and
//! `meta`; an index entry is {time stamp, volume, offset in the metadata, offset in the volume},
//! the offsets high word first, unlike the seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use plimsoll_core::recording::DeviceCounterSample;

use super::label::{LABEL_BYTES_MAX, VOLUME_META};
use super::metrics::{
    DISCRETE, METRICS, PcpDeviceKind, PcpMetric, PcpValueWidth, TEXT, ways_metric,
};
use crate::error::TraceError;

/// Volume number in the label of an index.
const VOLUME_INDEX: i32 = -2;
/// Longest text of a label, with its end.
const TEXT_BYTES: usize = 256;
/// Longest name of a disk; the same limit as the reader's.
const NAME_BYTES_MAX: usize = 1024;
/// The instance of a metric that has none.
const NO_INSTANCE: u32 = u32::MAX;
/// The domain of a metric that has none.
const NO_DOMAIN: u32 = u32::MAX;

/// Fields in the labels of an archive, and the length of its volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PcpWriterOptions {
    /// Host that is recorded, at most 255 bytes.
    pub host: String,
    /// Time zone of that host as POSIX writes it, such as `EST-10`, at most 255 bytes.
    pub zone: String,
    /// The zone's name, such as `Australia/Melbourne`, at most 254 bytes; may be empty.
    pub zone_name: String,
    /// Id of the process that records.
    pub process: u32,
    /// When the recording begins, nanoseconds since 1970; not after the first sample.
    pub start_unix_ns: u64,
    /// Length at which a volume is followed by the next, bytes.
    pub volume_bytes: u64,
}

/// An archive being written.
#[derive(Debug)]
pub struct PcpWriter {
    base: PathBuf,
    heading: PcpWriterOptions,
    meta: PcpOutputFile,
    index: PcpOutputFile,
    volume: PcpOutputFile,
    number: u32,
    /// Metrics that are described already, by number.
    described: BTreeSet<u32>,
    instances: BTreeMap<PcpDeviceKind, Instances>,
    /// Time of the last record, nanoseconds since 1970, and its place in its volume.
    last: Option<(u64, u64)>,
}

/// A file of the archive.
#[derive(Debug)]
struct PcpOutputFile {
    path: PathBuf,
    file: File,
    bytes: u64,
}

/// The devices of a family.
#[derive(Debug, Default)]
struct Instances {
    /// The number of every one ever seen.
    numbers: BTreeMap<String, u32>,
    /// Those that the last list left.
    present: BTreeSet<u32>,
}

/// The values of a metric, by instance.
struct PcpMetricValues {
    metric: u32,
    of: Vec<(u32, PcpOutputValue)>,
}

/// A value in the form that a record has.
enum PcpOutputValue {
    /// The lower half of this.
    Narrow(u64),
    Wide(u64),
    Text(String),
}

impl PcpOutputValue {
    fn of(width: PcpValueWidth, value: u64) -> PcpOutputValue {
        match width {
            PcpValueWidth::Narrow => PcpOutputValue::Narrow(value),
            PcpValueWidth::Wide => PcpOutputValue::Wide(value),
        }
    }

    /// The word of the value in its set. One that does not fit goes behind the sets, which end
    /// `sets_bytes` into the frame.
    fn word(&self, sets_bytes: usize, behind: &mut Vec<u8>) -> u32 {
        // Places count words from 8 bytes before the record's leading length.
        let place = length((8 + 4 + sets_bytes + behind.len()) / 4);
        // One byte of type, three of length, which counts these four.
        let mut put = |kind: u32, bytes: &[u8]| {
            behind.extend(words(&[kind << 24 | length(4 + bytes.len())]));
            behind.extend(bytes);
            behind.resize(behind.len().next_multiple_of(4), 0);
        };
        match self {
            PcpOutputValue::Narrow(value) => return halves(*value)[1],
            PcpOutputValue::Wide(value) => put(PcpValueWidth::Wide.word(), &value.to_be_bytes()),
            PcpOutputValue::Text(text) => put(TEXT, &[text.as_bytes(), &[0]].concat()),
        }
        place
    }
}

impl PcpWriter {
    /// Begins the archive `base`: makes `base.meta`, `base.index` and `base.0`.
    ///
    /// # Errors
    /// When one of the files exists or cannot be made, or a text does not fit into a label.
    pub fn create(base: &Path, heading: PcpWriterOptions) -> Result<PcpWriter, TraceError> {
        for (text, bytes_max) in [
            (&heading.host, TEXT_BYTES - 1),
            (&heading.zone, TEXT_BYTES - 1),
            (&heading.zone_name, TEXT_BYTES - 2),
        ] {
            if text.len() > bytes_max || text.contains('\0') {
                return Err(refused(
                    base,
                    format!("'{text}' does not fit into its label"),
                ));
            }
        }
        let parts = [("meta", VOLUME_META), ("index", VOLUME_INDEX), ("0", 0)];
        let [meta, index, volume] = PcpOutputFile::create_all(base, parts, &heading)?;
        let mut writer = PcpWriter {
            base: base.to_owned(),
            meta,
            index,
            volume,
            number: 0,
            described: BTreeSet::new(),
            instances: BTreeMap::new(),
            last: None,
            heading,
        };
        let start = writer.heading.start_unix_ns;
        let begun = writer.entry(start, writer.meta.bytes, writer.volume.bytes);
        if let Err(error) = begun {
            PcpOutputFile::remove_all(&[writer.meta, writer.index, writer.volume]);
            return Err(error);
        }
        Ok(writer)
    }

    /// Appends what the devices had counted at an instant (nanoseconds since 1970). The sums over
    /// all disks are recorded too, so no disk is to lie on another.
    ///
    /// # Errors
    /// When a file cannot be written, the instant is not after the last one, or a device's name is
    /// empty, longer than 1,024 bytes, or given twice in its layer.
    pub fn record(
        &mut self,
        at_unix_ns: u64,
        found: &[DeviceCounterSample],
    ) -> Result<(), TraceError> {
        self.check(at_unix_ns, found)?;
        if found.is_empty() {
            // A record without values is a mark.
            return self.mark(at_unix_ns);
        }
        let meta_bytes = self.meta.bytes;
        let mut came_or_went = false;
        let mut values = Vec::with_capacity(2 * METRICS.len());
        for family in PcpDeviceKind::ALL {
            let of = |found: &&DeviceCounterSample| PcpDeviceKind::of(found.made.layer) == family;
            let of: Vec<&DeviceCounterSample> = found.iter().filter(of).collect();
            if of.is_empty() && !self.instances.contains_key(&family) {
                continue;
            }
            let devices = self.numbered(family, &of);
            let changed = self.list(at_unix_ns, family, &devices)?;
            came_or_went |= changed;
            self.values(family, &devices, &mut values)?;
            if changed && family == PcpDeviceKind::WorldWide {
                values.push(self.ways(&devices)?);
            }
        }
        let switched = self.switch()?;
        let place = self.append(at_unix_ns, &values)?;
        if came_or_went || switched {
            self.entry(at_unix_ns, meta_bytes, place)?;
        }
        Ok(())
    }

    /// Says that the recording was interrupted: no difference counts across this instant.
    ///
    /// # Errors
    /// When a file cannot be written, or the instant is not after the last one.
    pub fn mark(&mut self, at_unix_ns: u64) -> Result<(), TraceError> {
        self.check(at_unix_ns, &[])?;
        self.append(at_unix_ns, &[]).map(drop)
    }

    /// The files that it has made so far.
    pub fn files(&self) -> Vec<PathBuf> {
        let volumes = (0..=self.number).map(|number| number.to_string());
        let suffixes = ["meta".to_owned(), "index".to_owned()];
        let all = suffixes.into_iter().chain(volumes);
        all.map(|suffix| super::files::with_suffix(&self.base, &suffix))
            .collect()
    }

    /// Ends the archive. One that was never ended is as readable; its index is shorter.
    ///
    /// # Errors
    /// When a file cannot be written to the disk.
    pub fn finish(mut self) -> Result<(), TraceError> {
        if let Some((at_unix_ns, place)) = self.last {
            self.entry(at_unix_ns, self.meta.bytes, place)?;
        }
        for part in [&self.meta, &self.volume, &self.index] {
            part.file.sync_all().map_err(|error| part.failed(error))?;
        }
        Ok(())
    }

    fn check(&self, at_unix_ns: u64, found: &[DeviceCounterSample]) -> Result<(), TraceError> {
        let after = match self.last {
            Some((last, _)) => last.saturating_add(1),
            None => self.heading.start_unix_ns,
        };
        if at_unix_ns < after {
            let what = format!(
                "a sample at {at_unix_ns} ns after 1970 is not later than the one before it, or \
                 before the start of the archive"
            );
            return Err(refused(&self.base, what));
        }
        let mut names = BTreeSet::new();
        for DeviceCounterSample { name, made, .. } in found {
            let fits = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains('\0');
            if !fits || !names.insert((PcpDeviceKind::of(made.layer), name)) {
                let what = format!("the device '{name}' is given twice or has no usable name");
                return Err(refused(&self.base, what));
            }
        }
        Ok(())
    }

    /// The devices of a family with their numbers.
    fn numbered<'a>(
        &mut self,
        family: PcpDeviceKind,
        found: &[&'a DeviceCounterSample],
    ) -> Vec<(u32, &'a DeviceCounterSample)> {
        let numbers = &mut self.instances.entry(family).or_default().numbers;
        let mut numbered = Vec::with_capacity(found.len());
        for one in found {
            // A host would have to replace a disk every second for a century to get further.
            let next = u32::try_from(numbers.len()).unwrap_or(NO_INSTANCE - 1);
            let number = match numbers.get(&one.name) {
                Some(number) => *number,
                None => *numbers.entry(one.name.clone()).or_insert(next),
            };
            numbered.push((number, *one));
        }
        numbered
    }

    /// Says which devices of a family there are from an instant on, if others than before; whether
    /// it did.
    fn list(
        &mut self,
        at_unix_ns: u64,
        family: PcpDeviceKind,
        devices: &[(u32, &DeviceCounterSample)],
    ) -> Result<bool, TraceError> {
        const FULL: u32 = 5;
        const CHANGES: u32 = 6;
        let instances = self.instances.entry(family).or_default();
        let now: BTreeMap<u32, &str> = devices
            .iter()
            .map(|(number, found)| (*number, &*found.name))
            .collect();
        let present: BTreeSet<u32> = now.keys().copied().collect();
        if present == instances.present {
            return Ok(false);
        }
        let came = present.difference(&instances.present);
        let came = came.map(|instance| (*instance, Some(now[instance])));
        let went = instances.present.difference(&present);
        let went = went.map(|instance| (*instance, None));
        let list: Vec<(u32, Option<&str>)> = came.chain(went).collect();
        let is_first = instances.numbers.len() == list.len() && instances.present.is_empty();
        let mut bytes = words(&[if is_first { FULL } else { CHANGES }]);
        bytes.extend(stamp(at_unix_ns));
        bytes.extend(words(&[family.domain(), length(list.len())]));
        bytes.extend(list.iter().flat_map(|(instance, _)| words(&[*instance])));
        let mut names = Vec::new();
        for (_, name) in &list {
            let place = name.map_or(u32::MAX, |_| length(names.len()));
            bytes.extend(words(&[place]));
            if let Some(name) = name {
                names.extend(name.as_bytes());
                names.push(0);
            }
        }
        bytes.extend(names);
        instances.present = present;
        self.meta.append(&framed(&bytes))?;
        Ok(true)
    }

    /// All values of a family; metrics that are new get their descriptions.
    fn values(
        &mut self,
        family: PcpDeviceKind,
        devices: &[(u32, &DeviceCounterSample)],
        values: &mut Vec<PcpMetricValues>,
    ) -> Result<(), TraceError> {
        for metric in &METRICS {
            let of: Vec<(u32, u64)> = devices
                .iter()
                .filter_map(|(number, found)| Some((*number, (metric.of_disk)(&found.counted)?)))
                .collect();
            if of.is_empty() {
                continue;
            }
            self.describe(family, metric)?;
            let sum = of
                .iter()
                .fold(0u64, |sum, (_, value)| sum.wrapping_add(*value));
            let width = metric.width(family);
            let of = of.into_iter();
            values.push(PcpMetricValues {
                metric: metric.of_each(family),
                of: of
                    .map(|(n, value)| (n, PcpOutputValue::of(width, value)))
                    .collect(),
            });
            let of_all = metric.of_all().filter(|_| family == PcpDeviceKind::Disks);
            values.extend(of_all.map(|number| PcpMetricValues {
                metric: number,
                of: vec![(NO_INSTANCE, PcpOutputValue::of(metric.width_of_all(), sum))],
            }));
        }
        Ok(())
    }

    /// The ways to each disk.
    fn ways(
        &mut self,
        devices: &[(u32, &DeviceCounterSample)],
    ) -> Result<PcpMetricValues, TraceError> {
        let (name, number) = ways_metric();
        if self.described.insert(number) {
            let domain = PcpDeviceKind::WorldWide.domain();
            self.description(name, [number, TEXT, domain, DISCRETE, 0])?;
        }
        let of = devices.iter();
        Ok(PcpMetricValues {
            metric: number,
            of: of
                .map(|(number, found)| (*number, PcpOutputValue::Text(found.made.paths.join(" "))))
                .collect(),
        })
    }

    fn describe(&mut self, family: PcpDeviceKind, metric: &PcpMetric) -> Result<(), TraceError> {
        let number = metric.of_each(family);
        if !self.described.insert(number) {
            return Ok(());
        }
        let [semantics, units] = metric.meaning();
        let name = format!("{}{}", family.prefix(), metric.name);
        let width = metric.width(family).word();
        self.description(&name, [number, width, family.domain(), semantics, units])?;
        match metric.of_all().filter(|_| family == PcpDeviceKind::Disks) {
            None => Ok(()),
            Some(number) => {
                let name = format!("disk.all.{}", metric.name);
                let width = metric.width_of_all().word();
                self.description(&name, [number, width, NO_DOMAIN, semantics, units])
            }
        }
    }

    /// Describes a metric: {number, type, domain, semantics, units}.
    fn description(&mut self, name: &str, what: [u32; 5]) -> Result<(), TraceError> {
        const DESCRIPTION: u32 = 1;
        let mut bytes = words(&[DESCRIPTION]);
        bytes.extend(words(&what));
        bytes.extend(words(&[1, length(name.len())]));
        bytes.extend(name.as_bytes());
        self.meta.append(&framed(&bytes))
    }

    /// Begins the next volume if this one is long enough; whether it did.
    fn switch(&mut self) -> Result<bool, TraceError> {
        let has_records = self.volume.bytes > LABEL_BYTES_MAX as u64;
        if !has_records || self.volume.bytes < self.heading.volume_bytes {
            return Ok(false);
        }
        let number = self.number + 1;
        let volume = i32::try_from(number)
            .map_err(|_| refused(&self.base, "there are too many volumes".into()))?;
        let label = self.heading.label(volume);
        self.volume = PcpOutputFile::create(&self.base, &number.to_string(), &label)?;
        self.number = number;
        Ok(true)
    }

    /// Appends a record to the volume; its place.
    fn append(&mut self, at_unix_ns: u64, values: &[PcpMetricValues]) -> Result<u64, TraceError> {
        let mut sets = stamp(at_unix_ns);
        sets.extend(words(&[length(values.len())]));
        let sets_bytes = values.iter().map(|set| 12 + 8 * set.of.len());
        let sets_bytes = sets.len() + sets_bytes.sum::<usize>();
        let mut behind = Vec::new();
        for set in values {
            let is_behind = !matches!(set.of.first(), Some((_, PcpOutputValue::Narrow(_))));
            sets.extend(words(&[set.metric, length(set.of.len()), is_behind.into()]));
            for (instance, value) in &set.of {
                let word = value.word(sets_bytes, &mut behind);
                sets.extend(words(&[*instance, word]));
            }
        }
        sets.extend(behind);
        let at = self.volume.bytes;
        self.volume.append(&framed(&sets))?;
        self.last = Some((at_unix_ns, at));
        Ok(at)
    }

    fn entry(&mut self, at_unix_ns: u64, meta: u64, volume: u64) -> Result<(), TraceError> {
        let mut bytes = stamp(at_unix_ns);
        bytes.extend(self.number.to_be_bytes());
        bytes.extend(meta.to_be_bytes());
        bytes.extend(volume.to_be_bytes());
        self.index.append(&bytes)
    }
}

impl PcpWriterOptions {
    fn label(&self, volume: i32) -> Vec<u8> {
        const MAGIC: u32 = 0x5005_2603;
        let mut bytes = words(&[MAGIC, self.process]);
        bytes.extend(stamp(self.start_unix_ns));
        bytes.extend(volume.to_be_bytes());
        // Features and a reserved word.
        bytes.extend([0; 8]);
        let zone_name = match self.zone_name.as_str() {
            "" => String::new(),
            name => format!(":{name}"),
        };
        for text in [&self.host, &self.zone, &zone_name] {
            let end = bytes.len() + TEXT_BYTES;
            bytes.extend(text.as_bytes());
            bytes.resize(end, 0);
        }
        framed(&bytes)
    }
}

impl PcpOutputFile {
    fn create(base: &Path, suffix: &str, label: &[u8]) -> Result<PcpOutputFile, TraceError> {
        let path = super::files::with_suffix(base, suffix);
        let made = crate::new_file::new_file(&path);
        let file = made.map_err(|source| TraceError::unwritten(&path, source))?;
        let mut part = PcpOutputFile {
            path,
            file,
            bytes: 0,
        };
        match part.append(label) {
            Ok(()) => Ok(part),
            Err(error) => {
                PcpOutputFile::remove_all(&[part]);
                Err(error)
            }
        }
    }

    /// All of these, or none.
    fn create_all<const N: usize>(
        base: &Path,
        parts: [(&str, i32); N],
        heading: &PcpWriterOptions,
    ) -> Result<[PcpOutputFile; N], TraceError> {
        let mut made = Vec::with_capacity(N);
        for (suffix, volume) in parts {
            match PcpOutputFile::create(base, suffix, &heading.label(volume)) {
                Ok(part) => made.push(part),
                Err(error) => {
                    PcpOutputFile::remove_all(&made);
                    return Err(error);
                }
            }
        }
        Ok(made.try_into().expect("as many as were asked for"))
    }

    /// Removes what is of no use: an archive that could not be begun.
    fn remove_all(parts: &[PcpOutputFile]) {
        for part in parts {
            let _ = fs::remove_file(&part.path);
        }
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| self.failed(error))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn failed(&self, source: io::Error) -> TraceError {
        TraceError::unwritten(&self.path, source)
    }
}

fn refused(base: &Path, what: String) -> TraceError {
    TraceError::Unwritable {
        base: base.display().to_string(),
        what,
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn halves(value: u64) -> [u32; 2] {
    let bytes = value.to_be_bytes();
    let half =
        |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [half(0), half(4)]
}

/// A time stamp: seconds with the low word first, nanoseconds.
fn stamp(at_unix_ns: u64) -> Vec<u8> {
    let [high, low] = halves(at_unix_ns / 1_000_000_000);
    let [_, part] = halves(at_unix_ns % 1_000_000_000);
    words(&[low, high, part])
}

/// A length or count in a record. Records are far shorter than what 32 bits can say.
fn length(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

fn framed(payload: &[u8]) -> Vec<u8> {
    let frame = length(payload.len() + 8).to_be_bytes();
    [&frame, payload, &frame].concat()
}
