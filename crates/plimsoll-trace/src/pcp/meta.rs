// SPDX-License-Identifier: Apache-2.0
//! The `.meta` file: which metrics there are, and which instances they had when.
//!
//! Layout of version 2 (from LOGARCHIVE(5)): records of {length, type, payload, length}, not
//! aligned. Type 1 describes a metric {id, type, instance domain, semantics, units, number of
//! names, {length, name}…}; type 2 lists a domain's instances at an instant {seconds,
//! microseconds, domain, count, ids…, name offsets…, names}. Other types (labels, help) are
//! skipped. Instance lists stay in the file and are searched there, so that a list of a million
//! lying offsets costs no memory.

use std::collections::{BTreeMap, BTreeSet};

use super::bytes::{i32_at, index, u32_at, unix_ns, until_nul};
use super::label::LABEL_BYTES_V2;
use super::log::File;
use crate::error::Damage;

const RECORD_BYTES_MIN: usize = 12;
const DESCRIPTION: u32 = 1;
const INSTANCES: u32 = 2;
/// Longest name taken seriously; PCP's own limits are far below. Longer ones are ignored.
const NAME_BYTES_MAX: usize = 1024;
/// Most instances listed; a host with more disks is damage.
const INSTANCES_LISTED_MAX: usize = 100_000;

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
pub(super) struct Units(u32);

impl Units {
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

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) metric: u32,
    pub(super) kind: ValueType,
    pub(super) domain: u32,
    /// 1 counter, 3 instantaneous, 4 discrete.
    pub(super) semantics: i32,
    pub(super) units: Units,
}

impl Description {
    /// Whether the metric only ever counts up.
    pub(super) fn is_counter(&self) -> bool {
        self.semantics == 1
    }
}

/// Where a list of instances lies in the file, and since when it is true.
#[derive(Debug, Clone, Copy)]
struct Listed {
    since_unix_ns: u64,
    offset: usize,
    length: usize,
}

/// Everything the `.meta` file says that this reader needs.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    descriptions: BTreeMap<Vec<u8>, Vec<Description>>,
    domains: BTreeMap<u32, Vec<Listed>>,
}

impl Catalog {
    /// Reads the records behind the label up to the end or to broken framing, and notes the first
    /// damage. Only metrics whose name `wanted` accepts are kept.
    pub(super) fn read(file: &File, wanted: impl Fn(&[u8]) -> bool) -> (Catalog, Option<Damage>) {
        let mut catalog = Catalog::default();
        let mut damage = None;
        let mut offset = LABEL_BYTES_V2;
        while offset < file.bytes.len() {
            let record = match file.framed(offset, RECORD_BYTES_MIN) {
                Ok(record) => record,
                Err(here) => {
                    damage = damage.or(Some(here));
                    break;
                }
            };
            // Damage inside a record does not hide the next one.
            if let Err(here) = catalog.take(file, offset, record, &wanted) {
                damage = damage.or(Some(here));
            }
            offset += record.len();
        }
        for lists in catalog.domains.values_mut() {
            lists.sort_by_key(|listed| listed.since_unix_ns);
        }
        (catalog, damage)
    }

    fn take(
        &mut self,
        file: &File,
        offset: usize,
        record: &[u8],
        wanted: &impl Fn(&[u8]) -> bool,
    ) -> Result<(), Damage> {
        let cut = || {
            file.damage(
                offset,
                "the description of a metric does not fit its record",
            )
        };
        match u32_at(record, 4) {
            Some(DESCRIPTION) => self.describe(record, wanted).ok_or_else(cut)?,
            Some(INSTANCES) => {
                let since = unix_ns(record, 8).map_err(|what| file.damage(offset, what))?;
                let domain = u32_at(record, 16).unwrap_or_default();
                let listed = Listed {
                    since_unix_ns: since,
                    offset,
                    length: record.len(),
                };
                self.domains.entry(domain).or_default().push(listed);
                // Its readable part is used all the same.
                if !fits(file, listed) {
                    return Err(file.damage(offset, "a list of instances does not fit its record"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn describe(&mut self, record: &[u8], wanted: &impl Fn(&[u8]) -> bool) -> Option<()> {
        let payload = record.get(..record.len().checked_sub(4)?)?;
        let description = Description {
            metric: u32_at(payload, 8)?,
            kind: ValueType::from_word(i32_at(payload, 12)?),
            domain: u32_at(payload, 16)?,
            semantics: i32_at(payload, 20)?,
            units: Units(u32_at(payload, 24)?),
        };
        let mut at = 32usize;
        for _ in 0..u32_at(payload, 28)? {
            let length = index(u32_at(payload, at)?);
            let name = payload.get(at + 4..(at + 4).checked_add(length)?)?;
            at += 4 + length;
            if length <= NAME_BYTES_MAX && wanted(name) {
                let known = self.descriptions.entry(name.to_vec()).or_default();
                if !known.iter().any(|d| d.metric == description.metric) {
                    known.push(description);
                }
            }
        }
        Some(())
    }

    /// What is known of a metric: more than one description when its id changed on the way.
    pub(super) fn descriptions(&self, name: &str) -> &[Description] {
        let known = self.descriptions.get(name.as_bytes());
        known.map_or(&[], Vec::as_slice)
    }

    /// Every metric that was wanted and is there.
    pub(super) fn all(&self) -> impl Iterator<Item = &Description> {
        self.descriptions.values().flatten()
    }

    /// Names a domain ever had, in the order of their first appearance.
    pub(super) fn instances(&self, file: &File, domain: u32) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let mut names = Vec::new();
        for listed in self.lists(domain) {
            for (_, name) in pairs(file, *listed) {
                if names.len() < INSTANCES_LISTED_MAX && seen.insert(name) {
                    names.push(String::from_utf8_lossy(name).into_owned());
                }
            }
        }
        names
    }

    /// The ids a name had, each with the time since when it had it; `None` where it was absent.
    pub(super) fn ids_of(&self, file: &File, domain: u32, name: &str) -> Ids {
        let id = |listed: &Listed| {
            let found = pairs(file, *listed).find(|(_, known)| *known == name.as_bytes());
            (listed.since_unix_ns, found.map(|(id, _)| id))
        };
        Ids(self.lists(domain).iter().map(id).collect())
    }

    fn lists(&self, domain: u32) -> &[Listed] {
        self.domains.get(&domain).map_or(&[], Vec::as_slice)
    }
}

/// Which id an instance name had when.
#[derive(Debug)]
pub(super) struct Ids(Vec<(u64, Option<i32>)>);

impl Ids {
    /// The id in the latest list at or before an instant. Before the first list, the first
    /// applies: a logger writes it microseconds after the sample it belongs to.
    pub(super) fn at(&self, at_unix_ns: u64) -> Option<i32> {
        let after = self.0.partition_point(|(since, _)| *since <= at_unix_ns);
        let (_, id) = self.0.get(after.saturating_sub(1))?;
        *id
    }

    /// Whether the name ever had an id.
    pub(super) fn any(&self) -> bool {
        self.0.iter().any(|(_, id)| id.is_some())
    }
}

/// Whether a list has all the names it says it has.
fn fits(file: &File, listed: Listed) -> bool {
    let count = u32_at(&file.bytes, listed.offset.saturating_add(20)).map_or(0, index);
    pairs(file, listed).count() == count
}

/// The {id, name} pairs of one list; nothing when the list does not fit its record.
fn pairs(file: &File, listed: Listed) -> impl Iterator<Item = (i32, &[u8])> {
    let end = listed.offset + listed.length - 4;
    let record = file.bytes.get(listed.offset..end).unwrap_or_default();
    let count = u32_at(record, 20).map_or(0, index);
    let ids_at = 24usize;
    let (offsets_at, names_at) = (
        ids_at.saturating_add(count.saturating_mul(4)),
        ids_at.saturating_add(count.saturating_mul(8)),
    );
    let names = record.get(names_at..);
    let count = if names.is_some() { count } else { 0 };
    let names = names.unwrap_or_default();
    (0..count).filter_map(move |i| {
        let id = i32_at(record, ids_at + 4 * i)?;
        let from = index(u32_at(record, offsets_at + 4 * i)?);
        let rest = names.get(from..)?;
        let name = until_nul(&rest[..rest.len().min(NAME_BYTES_MAX)]);
        (!name.is_empty()).then_some((id, name))
    })
}
