// SPDX-License-Identifier: Apache-2.0
//! Records of a data volume.
//!
//! Layout (from LOGARCHIVE(5)): length, time stamp, number of value sets, the sets, length again.
//! The stamp is seconds and microseconds in version 2; seconds low word, seconds high word and
//! nanoseconds in version 3. A set is {metric, count, \[format, count × {instance, word}\]}; the
//! bracket is absent when the count is 0 or negative (an error code), which the manual page does
//! not say. No sets at all is a mark: the recording was interrupted here. A 64-bit value lies out
//! of line, at four times its word counted from 8 bytes *before* the record's leading length, in
//! both versions (measured; the page leaves the origin open). Sets are skipped by count, so only
//! wanted metrics cost anything.

use super::bytes::{i32_at, index, u32_at, u64_at};
use super::frames::Frame;
use super::label::Version;
use super::meta::ValueType;
use crate::error::Damage;

/// Format word of values stored in place of their pointer.
const IN_PLACE: u32 = 0;

/// One record: some metrics at one instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    frame: Frame<'a>,
    /// Nanoseconds since 1970.
    pub(super) at_unix_ns: u64,
    /// Where the sets begin in the record.
    sets_at: usize,
    n_sets: u32,
}

impl<'a> Record<'a> {
    /// Least length of a record: lengths, time stamp, number of sets.
    pub(super) fn bytes_min(version: Version) -> usize {
        4 + version.stamp_bytes() + 4 + 4
    }

    /// What a frame of at least [`Record::bytes_min`] holds.
    pub(super) fn read(frame: Frame<'a>, version: Version) -> Result<Self, Damage> {
        let at_unix_ns = version.unix_ns(frame.bytes, 4);
        let sets_at = 4 + version.stamp_bytes() + 4;
        Ok(Record {
            frame,
            at_unix_ns: at_unix_ns.map_err(|what| frame.damage(what))?,
            sets_at,
            n_sets: u32_at(frame.bytes, sets_at - 4).unwrap_or_default(),
        })
    }

    /// Whether the recording was interrupted here.
    pub(super) fn is_mark(&self) -> bool {
        self.n_sets == 0
    }

    /// The value sets, in order.
    pub(super) fn sets(&self) -> Sets<'_> {
        Sets {
            record: self,
            payload: self.frame.payload(),
            at: self.sets_at,
            left: self.n_sets,
        }
    }
}

/// Iterates over the value sets of a record.
#[derive(Debug)]
pub(super) struct Sets<'a> {
    record: &'a Record<'a>,
    payload: &'a [u8],
    at: usize,
    left: u32,
}

/// The values of one metric at one instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Set<'a> {
    record: &'a Record<'a>,
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
            self.record.frame.damage(what)
        }))
    }
}

impl<'a> Sets<'a> {
    /// Reads one set and steps behind it; `None` when it leaves the record.
    fn read(&mut self) -> Option<Set<'a>> {
        let payload = self.payload;
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

impl<'a> Set<'a> {
    /// The instances and their values, without those that no metric read here can have: negative,
    /// infinite or not a number. Such a value says nothing about the rest.
    pub(super) fn values(
        self,
        kind: ValueType,
    ) -> impl Iterator<Item = Result<(i32, Number), Damage>> + 'a {
        let pairs = self.pairs.chunks_exact(8);
        pairs.filter_map(move |pair| {
            let instance = i32_at(pair, 0)?;
            let word = u32_at(pair, 4)?;
            let found = if self.format == IN_PLACE {
                Found::in_place(word, kind)
            } else {
                self.out_of_line(word, kind)
            };
            match found {
                Some(Found::Number(number)) => Some(Ok((instance, number))),
                Some(Found::Nonsense) => None,
                None => Some(Err(self.misplaced())),
            }
        })
    }

    /// The instances and their texts. What is no text is left out.
    pub(super) fn texts(self) -> impl Iterator<Item = (i32, String)> + 'a {
        let pairs = self.pairs.chunks_exact(8);
        pairs.filter_map(move |pair| {
            let instance = i32_at(pair, 0)?;
            let text = self.block(u32_at(pair, 4)?)?;
            let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
            Some((instance, String::from_utf8_lossy(text).into_owned()))
        })
    }

    fn misplaced(&self) -> Damage {
        let what = format!(
            "a value of metric {:#x} does not lie inside its record or is not of its type",
            self.metric
        );
        self.record.frame.damage(what)
    }

    /// What lies behind the sets at this place.
    fn block(&self, word: u32) -> Option<&'a [u8]> {
        let at = index(word).checked_mul(4)?.checked_sub(8)?;
        if at < self.record.sets_at {
            return None;
        }
        let block = self.record.frame.payload().get(at..)?;
        // One byte of type, three of length; the length counts these four.
        let length = index(u32_at(block, 0)? & 0x00ff_ffff);
        block.get(4..length)
    }

    fn out_of_line(&self, word: u32, kind: ValueType) -> Option<Found> {
        let data = self.block(word)?;
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
