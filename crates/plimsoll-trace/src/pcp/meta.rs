// SPDX-License-Identifier: Apache-2.0
//! The `.meta` file: which metrics there are, and which instances they had when.
//!
//! Layout (from LOGARCHIVE(5)): records of {length, type, payload, length}, not aligned. Type 1
//! describes a metric {id, type, instance domain, semantics, units, number of names, {length,
//! name}…}. Types 2 and 5 list a domain's instances at an instant {time stamp, domain, count,
//! ids…, name offsets…, names}; 2 has the stamp of version 2 and 5 that of version 3. Type 6 is
//! like 5, but says only what changed: an instance whose name offset is -1 went. Other types
//! (labels, help) are skipped. Only domains of wanted metrics are kept, as ids and numbers of
//! names, and a list that says what is known already not at all.

use std::collections::BTreeMap;

use super::bytes::{i32_at, index, u32_at, until_nul};
use super::files::PcpFile;
use super::frames::PcpFrame;
use super::label::PcpVersion;
use super::metrics::NO_DOMAIN;
use crate::error::{RecordingDamage, TraceError};

const RECORD_BYTES_MIN: usize = 12;
const DESCRIPTION: u32 = 1;
const INSTANCES_V2: u32 = 2;
const INSTANCES_V3: u32 = 5;
const CHANGES_V3: u32 = 6;
/// Name offset of an instance that went.
const GONE: i32 = -1;
/// Longest name taken seriously; PCP's own limits are far below. Longer ones are ignored.
const NAME_BYTES_MAX: usize = 1024;
/// Most wanted metrics; more is damage.
const DESCRIPTIONS_MAX: usize = 4096;
/// Most instances in all kept lists of a domain together; more is damage. They take 12 bytes each.
const LISTED_MAX: usize = 2_000_000;
/// Most bytes of different names in a domain; more is damage.
const NAMES_BYTES_MAX: usize = 16 << 20;

/// How a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueType {
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    /// Strings, aggregates, events: nothing a disk counter is.
    Other,
}

impl ValueType {
    fn from_word(word: i32) -> Self {
        match word {
            0 => ValueType::I32,
            1 => ValueType::U32,
            2 => ValueType::I64,
            3 => ValueType::U64,
            4 => ValueType::F32,
            5 => ValueType::F64,
            _ => ValueType::Other,
        }
    }

    /// One more than the largest value of an integer type: where a counter starts again.
    pub(super) fn wraps_at(self) -> Option<u128> {
        match self {
            ValueType::U32 => Some(1 << 32),
            ValueType::U64 => Some(1 << 64),
            _ => None,
        }
    }
}

/// The units word: dim space, time, count; scale space, time, count; four bits each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PcpUnits(u32);

impl PcpUnits {
    fn nibble(self, shift: u32) -> u32 {
        self.0 >> shift & 0xf
    }

    /// Bytes in one unit, when the unit is one of space.
    pub(super) fn bytes(self) -> Option<f64> {
        let exponent = i32::try_from(self.nibble(16)).ok()?;
        (self.0 >> 20 == 0x100).then(|| 1024f64.powi(exponent))
    }

    /// Seconds in one unit, when the unit is one of time.
    pub(super) fn seconds(self) -> Option<f64> {
        if self.0 >> 20 != 0x010 {
            return None;
        }
        match self.nibble(12) {
            0 => Some(1e-9),
            1 => Some(1e-6),
            2 => Some(1e-3),
            3 => Some(1.0),
            4 => Some(60.0),
            5 => Some(3600.0),
            _ => None,
        }
    }

    /// Events in one unit, when the unit is a count or a bare number.
    pub(super) fn events(self) -> Option<f64> {
        let signed = i32::try_from(self.nibble(8)).ok()?;
        let exponent = if signed > 7 { signed - 16 } else { signed };
        matches!(self.0 >> 20, 0x001 | 0x000).then(|| 10f64.powi(exponent))
    }
}

/// Description of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PcpMetricDesc {
    pub(super) metric: u32,
    pub(super) kind: ValueType,
    pub(super) domain: u32,
    /// 1 counter, 3 instantaneous, 4 discrete.
    pub(super) semantics: i32,
    pub(super) units: PcpUnits,
}

impl PcpMetricDesc {
    /// Whether the metric only ever counts up.
    pub(super) fn is_counter(&self) -> bool {
        self.semantics == 1
    }
}

/// Everything the `.meta` file says that this reader needs.
#[derive(Debug, Default)]
pub(super) struct PcpMetadata {
    descriptions: BTreeMap<Vec<u8>, Vec<PcpMetricDesc>>,
    described: usize,
    domains: BTreeMap<u32, PcpInstanceDomain>,
}

impl PcpMetadata {
    /// Reads the records behind the label up to the end or to broken framing, and notes the first
    /// damage. Only metrics whose name `wanted` accepts are kept.
    ///
    /// The file is read twice: which domains matter is known only after the last description, and
    /// those that do not (processes) are most of it.
    pub(super) fn read(
        source: &PcpFile,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<(PcpMetadata, Option<RecordingDamage>), TraceError> {
        let mut catalog = PcpMetadata::default();
        let descriptions = each(source, |frame| match u32_at(frame.bytes, 4) {
            Some(DESCRIPTION) => catalog.describe(frame, &wanted),
            _ => Ok(()),
        })?;
        let domains: Vec<u32> = catalog.all().map(|d| d.domain).collect();
        catalog.domains = domains
            .iter()
            .map(|d| (*d, PcpInstanceDomain::default()))
            .collect();
        let lists = each(source, |frame| match u32_at(frame.bytes, 4) {
            Some(INSTANCES_V2) => catalog.list(frame, PcpVersion::V2, PcpListKind::Full),
            Some(INSTANCES_V3) => catalog.list(frame, PcpVersion::V3, PcpListKind::Full),
            Some(CHANGES_V3) => catalog.list(frame, PcpVersion::V3, PcpListKind::Changes),
            _ => Ok(()),
        })?;
        for domain in catalog.domains.values_mut() {
            domain.lists.sort_by_key(|list| list.since_unix_ns);
        }
        let first = descriptions.into_iter().chain(lists);
        Ok((catalog, first.min_by_key(|damage| damage.offset)))
    }

    fn describe(
        &mut self,
        frame: PcpFrame<'_>,
        wanted: &impl Fn(&[u8]) -> bool,
    ) -> Result<(), RecordingDamage> {
        const CUT: &str = "the description of a metric does not fit its record";
        self.try_describe(frame.payload(), wanted)
            .ok_or_else(|| frame.damage(CUT))?;
        if self.described > DESCRIPTIONS_MAX {
            return Err(frame.damage(format!("more than {DESCRIPTIONS_MAX} metrics are of disks")));
        }
        Ok(())
    }

    fn try_describe(&mut self, payload: &[u8], wanted: &impl Fn(&[u8]) -> bool) -> Option<()> {
        let description = PcpMetricDesc {
            metric: u32_at(payload, 8)?,
            kind: ValueType::from_word(i32_at(payload, 12)?),
            domain: u32_at(payload, 16)?,
            semantics: i32_at(payload, 20)?,
            units: PcpUnits(u32_at(payload, 24)?),
        };
        let mut at = 32usize;
        for _ in 0..u32_at(payload, 28)? {
            let length = index(u32_at(payload, at)?);
            let name = payload.get(at + 4..(at + 4).checked_add(length)?)?;
            at += 4 + length;
            // Loggers of the first years padded names.
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            if length <= NAME_BYTES_MAX && self.described <= DESCRIPTIONS_MAX && wanted(name) {
                let known = self.descriptions.entry(name.to_vec()).or_default();
                if !known.iter().any(|d| d.metric == description.metric) {
                    known.push(description);
                    self.described += 1;
                }
            }
        }
        Some(())
    }

    /// Takes a list of instances, or what changed of one. Of domains that are not wanted it is
    /// only seen whether the list is whole: nothing else would show it.
    fn list(
        &mut self,
        frame: PcpFrame<'_>,
        version: PcpVersion,
        kind: PcpListKind,
    ) -> Result<(), RecordingDamage> {
        let domain_at = 8 + version.stamp_bytes();
        let since = version.unix_ns(frame.payload(), 8);
        let since_unix_ns = since.map_err(|what| frame.damage(what))?;
        let body = frame.payload().get(domain_at + 4..).unwrap_or_default();
        let (mut pairs, all_there) = pairs(body, kind);
        let domain = u32_at(frame.payload(), domain_at).unwrap_or_default();
        // The readable part of a list that is cut is used all the same.
        let whole = match self.domains.get_mut(&domain) {
            None => pairs.all(|pair| pair.is_some()),
            Some(domain) => domain.listed <= LISTED_MAX && domain.add(since_unix_ns, kind, pairs),
        };
        if whole && all_there {
            return Ok(());
        }
        Err(frame.damage(format!(
            "a list of instances does not fit its record, or is the one too many: more than \
             {LISTED_MAX} instances or {NAMES_BYTES_MAX} bytes of names"
        )))
    }

    /// Descriptions of a metric: more than one when its id changed on the way.
    pub(super) fn descriptions(&self, name: &str) -> &[PcpMetricDesc] {
        let known = self.descriptions.get(name.as_bytes());
        known.map_or(&[], Vec::as_slice)
    }

    /// Every metric that was wanted and is there, with its name.
    pub(super) fn named(&self) -> impl Iterator<Item = (&[u8], &PcpMetricDesc)> {
        let each = self.descriptions.iter();
        each.flat_map(|(name, known)| known.iter().map(|description| (&**name, description)))
    }

    /// Every metric that was wanted and is there.
    fn all(&self) -> impl Iterator<Item = &PcpMetricDesc> {
        self.descriptions.values().flatten()
    }

    /// Gives the one instance of metrics without any a name.
    pub(super) fn name_totals(&mut self, name: &str) {
        if let Some(domain) = self.domains.get_mut(&NO_DOMAIN) {
            let all = [Some((NO_INSTANCE, Some(name.as_bytes())))];
            domain.add(0, PcpListKind::Full, all.into_iter());
        }
    }

    /// The domains of wanted metrics. A second one is rare (a changed agent) and mostly has the
    /// same instances.
    pub(super) fn domains(&self) -> impl Iterator<Item = (u32, &PcpInstanceDomain)> {
        self.domains.iter().map(|(id, domain)| (*id, domain))
    }
}

/// Gives every record of a metadata file to `take`; the first damage. Damage inside a record does
/// not hide the next one.
fn each(
    source: &PcpFile,
    mut take: impl FnMut(PcpFrame<'_>) -> Result<(), RecordingDamage>,
) -> Result<Option<RecordingDamage>, TraceError> {
    let mut frames = source.open()?;
    frames.label()?;
    let mut damage = None;
    while let Some(frame) = frames.next(RECORD_BYTES_MIN) {
        if let Err(here) = frame.and_then(&mut take) {
            damage = damage.or(Some(here));
        }
    }
    Ok(damage)
}

/// The instances of a domain over time.
#[derive(Debug, Default)]
pub(super) struct PcpInstanceDomain {
    /// Every name an instance ever had, in the order of their first appearance.
    names: Vec<String>,
    numbers: BTreeMap<String, u32>,
    names_bytes: usize,
    lists: Vec<PcpInstanceList>,
    listed: usize,
}

/// The number that stands for no instance.
const NO_INSTANCE: i32 = -1;

/// List of instances from an instant on.
#[derive(Debug)]
struct PcpInstanceList {
    since_unix_ns: u64,
    kind: PcpListKind,
    entries: Vec<PcpInstanceEntry>,
}

/// Kind of a list of instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PcpListKind {
    /// All instances: those that are not in it went.
    Full,
    /// Those that came or went.
    Changes,
}

/// An instance, and the bytes that begin with its name; no bytes when the instance went.
type PcpRawInstance<'a> = (i32, Option<&'a [u8]>);

/// Instances in {count, ids…, name offsets…, names}, and whether ids and offsets are there as a
/// whole; an instance whose name is not there is `None`.
fn pairs(
    body: &[u8],
    kind: PcpListKind,
) -> (impl Iterator<Item = Option<PcpRawInstance<'_>>>, bool) {
    let count = u32_at(body, 0).map_or(0, index);
    let (offsets_at, names_at) = (
        count.saturating_mul(4).saturating_add(4),
        count.saturating_mul(8).saturating_add(4),
    );
    let names = body.get(names_at..);
    let count = if names.is_some() { count } else { 0 };
    let pairs = (0..count).map(move |i| {
        let id = i32_at(body, 4 + 4 * i)?;
        let from = i32_at(body, offsets_at + 4 * i)?;
        if from == GONE && kind == PcpListKind::Changes {
            return Some((id, None));
        }
        let name = names?.get(usize::try_from(from).ok()?..)?;
        (!name.is_empty()).then_some((id, Some(name)))
    });
    (pairs, names.is_some())
}

/// An instance and the number of its name; `None` when the instance went.
type PcpInstanceEntry = (i32, Option<u32>);

impl PcpInstanceDomain {
    /// Names of instances, by number, in the order of their first appearance.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The instances as time goes on.
    pub(super) fn follow(&self) -> PcpInstanceCursor<'_> {
        PcpInstanceCursor {
            lists: self.lists.iter(),
            next: None,
            started: false,
            now: BTreeMap::new(),
            asked: Vec::new(),
            at: 0,
        }
    }

    /// The number of a name; `None` when it has no byte or there is no room for another one.
    fn number(&mut self, name: &[u8]) -> Option<u32> {
        let name = String::from_utf8_lossy(name);
        if let Some(number) = self.numbers.get(name.as_ref()) {
            return Some(*number);
        }
        self.names_bytes += name.len();
        if name.is_empty() || self.names_bytes > NAMES_BYTES_MAX {
            return None;
        }
        let number = u32::try_from(self.names.len()).ok()?;
        self.names.push(name.clone().into_owned());
        self.numbers.insert(name.into_owned(), number);
        Some(number)
    }

    /// Adds a list unless it repeats the one before; false when not all of it could be taken.
    fn add<'a>(
        &mut self,
        since_unix_ns: u64,
        kind: PcpListKind,
        pairs: impl Iterator<Item = Option<PcpRawInstance<'a>>>,
    ) -> bool {
        let mut whole = true;
        let mut entries: Vec<PcpInstanceEntry> = Vec::new();
        for pair in pairs {
            let entry = pair.and_then(|(id, name)| match name {
                None => Some((id, None)),
                Some(rest) => {
                    let name = until_nul(&rest[..rest.len().min(NAME_BYTES_MAX)]);
                    Some((id, Some(self.number(name)?)))
                }
            });
            let room = entries.len() < LISTED_MAX;
            whole &= room && entry.is_some();
            entries.extend(entry.filter(|_| room));
        }
        let repeated = self.lists.last().is_some_and(|last| {
            let in_order = last.since_unix_ns <= since_unix_ns;
            let same = last.kind == kind && last.entries == entries;
            in_order && same && kind == PcpListKind::Full
        });
        if repeated {
            return whole;
        }
        // An empty list counts too: each takes memory.
        self.listed += 1 + entries.len();
        self.lists.push(PcpInstanceList {
            since_unix_ns,
            kind,
            entries,
        });
        whole && self.listed <= LISTED_MAX
    }
}

/// Which instances a domain has, asked at instants that do not go back.
#[derive(Debug)]
pub(super) struct PcpInstanceCursor<'a> {
    lists: std::slice::Iter<'a, PcpInstanceList>,
    next: Option<&'a PcpInstanceList>,
    started: bool,
    now: BTreeMap<i32, u32>,
    /// Answers since the last list, in order: a record asks for the same instances of one metric
    /// after the other.
    asked: Vec<(i32, Option<u32>)>,
    /// Place in it behind the last answer.
    at: usize,
}

impl PcpInstanceCursor<'_> {
    /// The number of the name that an instance has at an instant. Before the first list, the
    /// first applies: a logger writes it microseconds after the sample it belongs to. Asked for
    /// an earlier instant than before, it answers for that one.
    pub(super) fn name_at(&mut self, at_unix_ns: u64, instance: i32) -> Option<u32> {
        if !self.started {
            self.started = true;
            if let Some(first) = self.lists.next() {
                self.apply(first);
            }
            self.next = self.lists.next();
        }
        while let Some(list) = self.next.filter(|list| list.since_unix_ns <= at_unix_ns) {
            self.apply(list);
            self.next = self.lists.next();
        }
        for at in [self.at, 0] {
            if let Some((_, name)) = self.asked.get(at).filter(|(known, _)| *known == instance) {
                self.at = at + 1;
                return *name;
            }
        }
        let name = self.now.get(&instance).copied();
        self.asked.truncate(self.at);
        if self.asked.len() > self.now.len() {
            self.asked.clear();
        }
        self.asked.push((instance, name));
        self.at = self.asked.len();
        name
    }

    fn apply(&mut self, list: &PcpInstanceList) {
        self.asked.clear();
        self.at = 0;
        if list.kind == PcpListKind::Full {
            self.now.clear();
        }
        for (instance, name) in &list.entries {
            match name {
                Some(name) => drop(self.now.insert(*instance, *name)),
                None => drop(self.now.remove(instance)),
            }
        }
    }
}
