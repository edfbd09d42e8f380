// SPDX-License-Identifier: Apache-2.0
//! Records of a data volume, walked in place.
//!
//! Layout of version 2 (from LOGARCHIVE(5)): length, seconds, microseconds, number of value sets,
//! the sets, length again. A set is {metric, count, \[format, count × {instance, word}\]}; the
//! bracket is absent when the count is 0 or negative (an error code), which the manual page does
//! not say. No sets at all is a mark: the recording was interrupted here. A 64-bit value lies out
//! of line, at four times its word counted from 8 bytes *before* the record's leading length
//! (measured; the page leaves the origin open). Records are skipped by length, sets by count, so
//! only wanted metrics cost anything.

use super::bytes::{i32_at, index, u32_at, u64_at, unix_ns};
use super::label::LABEL_BYTES_V2;
use super::meta::ValueType;
use crate::error::Damage;

/// Leading length, time stamp, number of sets, trailing length.
const RECORD_BYTES_MIN: usize = 20;
const SETS_AT: usize = 16;
/// Format word of values stored in place of their pointer.
const IN_PLACE: u32 = 0;

/// A file of an archive.
#[derive(Debug)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

impl File {
    pub(super) fn damage(&self, offset: usize, what: impl Into<String>) -> Damage {
        Damage {
            file: self.name.clone(),
            offset: offset as u64,
            what: what.into(),
        }
    }

    /// The framed record at `offset`: its length says the same before and after it and lies
    /// inside the file.
    pub(super) fn framed(&self, offset: usize, bytes_min: usize) -> Result<&[u8], Damage> {
        let rest = self.bytes.get(offset..).unwrap_or_default();
        let Some(length) = u32_at(rest, 0).map(index) else {
            return Err(self.damage(offset, "the file ends inside a record's length"));
        };
        if length < bytes_min {
            let what = format!("a record says it is {length} bytes long, the least is {bytes_min}");
            return Err(self.damage(offset, what));
        }
        let Some(record) = rest.get(..length) else {
            let what = format!(
                "a record of {length} bytes does not fit into the {} bytes left",
                rest.len()
            );
            return Err(self.damage(offset, what));
        };
        match u32_at(record, length - 4).map(index) {
            Some(trailer) if trailer == length => Ok(record),
            _ => {
                let what = format!("a record's length differs before ({length}) and after it");
                Err(self.damage(offset, what))
            }
        }
    }
}

/// One record: some metrics at one instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    file: &'a File,
    /// Byte offset in the file.
    pub(super) offset: usize,
    /// Nanoseconds since 1970.
    pub(super) at_unix_ns: u64,
    n_sets: u32,
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// Whether the recording was interrupted here.
    pub(super) fn is_mark(&self) -> bool {
        self.n_sets == 0
    }

    /// The value sets, in order.
    pub(super) fn sets(&self) -> Sets<'a> {
        Sets {
            record: *self,
            at: SETS_AT,
            left: self.n_sets,
        }
    }

    fn payload_end(&self) -> usize {
        self.bytes.len() - 4
    }
}

/// Iterates over the records of a volume until its end or the first damage.
#[derive(Debug)]
pub(super) struct Records<'a> {
    file: &'a File,
    offset: usize,
}

impl<'a> Records<'a> {
    /// All records behind the label.
    pub(super) fn of(file: &'a File) -> Self {
        Records {
            file,
            offset: LABEL_BYTES_V2,
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.file.bytes.len() {
            return None;
        }
        let (file, offset) = (self.file, self.offset);
        let record = file.framed(offset, RECORD_BYTES_MIN).and_then(|bytes| {
            let at_unix_ns = unix_ns(bytes, 4).map_err(|what| file.damage(offset, what))?;
            let n_sets = u32_at(bytes, 12).unwrap_or_default();
            Ok(Record {
                file,
                offset,
                at_unix_ns,
                n_sets,
                bytes,
            })
        });
        // Nothing behind damage can be trusted to start where it seems to.
        self.offset = match &record {
            Ok(record) => offset + record.bytes.len(),
            Err(_) => usize::MAX,
        };
        Some(record)
    }
}

/// Iterates over the value sets of a record.
#[derive(Debug)]
pub(super) struct Sets<'a> {
    record: Record<'a>,
    at: usize,
    left: u32,
}

/// The values of one metric at one instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Set<'a> {
    record: Record<'a>,
    pub(super) metric: u32,
    format: u32,
    /// The {instance, word} pairs.
    pairs: &'a [u8],
}

impl<'a> Iterator for Sets<'a> {
    type Item = Result<Set<'a>, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let set = self.read();
        if set.is_none() {
            self.left = 0;
        }
        Some(set.ok_or_else(|| {
            let what = "the values of a record do not fit into it";
            self.record.file.damage(self.record.offset, what)
        }))
    }
}

impl<'a> Sets<'a> {
    /// Reads one set and steps behind it; `None` when it leaves the record.
    fn read(&mut self) -> Option<Set<'a>> {
        let payload: &'a [u8] = &self.record.bytes[..self.record.payload_end()];
        let metric = u32_at(payload, self.at)?;
        let count = i32_at(payload, self.at + 4)?;
        let Ok(count) = usize::try_from(count) else {
            self.at += 8;
            return Some(self.empty(metric));
        };
        if count == 0 {
            self.at += 8;
            return Some(self.empty(metric));
        }
        let format = u32_at(payload, self.at + 8)?;
        let from = self.at + 12;
        let to = from.checked_add(count.checked_mul(8)?)?;
        let pairs = payload.get(from..to)?;
        self.at = to;
        Some(Set {
            record: self.record,
            metric,
            format,
            pairs,
        })
    }

    fn empty(&self, metric: u32) -> Set<'a> {
        Set {
            record: self.record,
            metric,
            format: IN_PLACE,
            pairs: &[],
        }
    }
}

impl Set<'_> {
    /// The value of an instance; `None` when it has none here, or one that no metric read here
    /// can have: negative, infinite or not a number. Such a value says nothing about the rest.
    pub(super) fn value(&self, instance: i32, kind: ValueType) -> Result<Option<Number>, Damage> {
        let mut pairs = self.pairs.chunks_exact(8);
        let Some(pair) = pairs.find(|pair| i32_at(pair, 0) == Some(instance)) else {
            return Ok(None);
        };
        let word = u32_at(pair, 4).unwrap_or_default();
        let number = if self.format == IN_PLACE {
            Found::in_place(word, kind)
        } else {
            self.out_of_line(word, kind)
        };
        number.map(Found::number).ok_or_else(|| {
            let what = format!(
                "a value of metric {:#x} does not lie inside its record or has no numeric type",
                self.metric
            );
            self.record.file.damage(self.record.offset, what)
        })
    }

    fn out_of_line(&self, word: u32, kind: ValueType) -> Option<Found> {
        let at = index(word).checked_mul(4)?.checked_sub(8)?;
        if at < SETS_AT {
            return None;
        }
        let block = self.record.bytes.get(at..self.record.payload_end())?;
        // One byte of type, three of length; the length counts these four.
        let length = index(u32_at(block, 0)? & 0x00ff_ffff);
        let data = block.get(4..length)?;
        match kind {
            ValueType::U64 => u64_at(data, 0).map(Found::whole),
            ValueType::I64 => u64_at(data, 0).map(|word| Found::signed(word.cast_signed())),
            ValueType::F64 => u64_at(data, 0).map(|bits| Found::real(f64::from_bits(bits))),
            _ => Found::in_place(u32_at(data, 0)?, kind),
        }
    }
}

/// A value as it was recorded. Counters stay whole, so that differences of large ones are exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    /// An integer that is not negative.
    Whole(u64),
    /// A floating-point number.
    Real(f64),
}

/// What lies where a value should be.
#[derive(Debug, Clone, Copy)]
enum Found {
    Number(Number),
    /// A value of the right type that cannot be meant.
    Nonsense,
}

impl Found {
    fn in_place(word: u32, kind: ValueType) -> Option<Found> {
        match kind {
            ValueType::U32 => Some(Found::whole(word.into())),
            ValueType::I32 => Some(Found::signed(word.cast_signed().into())),
            ValueType::F32 => Some(Found::real(f32::from_bits(word).into())),
            ValueType::U64 | ValueType::I64 | ValueType::F64 | ValueType::Other => None,
        }
    }

    fn whole(value: u64) -> Found {
        Found::Number(Number::Whole(value))
    }

    fn signed(value: i64) -> Found {
        u64::try_from(value).map_or(Found::Nonsense, Found::whole)
    }

    fn real(value: f64) -> Found {
        if value >= 0.0 && value.is_finite() {
            Found::Number(Number::Real(value))
        } else {
            Found::Nonsense
        }
    }

    fn number(self) -> Option<Number> {
        match self {
            Found::Number(number) => Some(number),
            Found::Nonsense => None,
        }
    }
}

impl Number {
    /// As a floating-point number.
    pub(super) fn real(self) -> f64 {
        match self {
            Number::Whole(value) => value as f64,
            Number::Real(value) => value,
        }
    }
}
