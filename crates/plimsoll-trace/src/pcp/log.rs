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
use super::frames::PcpFrame;
use super::label::PcpVersion;
use super::meta::ValueType;
use crate::error::RecordingDamage;

/// Format word of values stored in place of their pointer.
const IN_PLACE: u32 = 0;

/// One record: some metrics at one instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct PcpRecord<'a> {
    frame: PcpFrame<'a>,
    /// Nanoseconds since 1970.
    pub(super) at_unix_ns: u64,
    /// Where the sets begin in the record.
    sets_at: usize,
    n_sets: u32,
}

impl<'a> PcpRecord<'a> {
    /// Least length of a record: lengths, time stamp, number of sets.
    pub(super) fn bytes_min(version: PcpVersion) -> usize {
        4 + version.stamp_bytes() + 4 + 4
    }

    /// Record in a frame of at least [`PcpRecord::bytes_min`].
    pub(super) fn read(frame: PcpFrame<'a>, version: PcpVersion) -> Result<Self, RecordingDamage> {
        let at_unix_ns = version.unix_ns(frame.bytes, 4);
        let sets_at = 4 + version.stamp_bytes() + 4;
        Ok(PcpRecord {
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
    pub(super) fn sets(&self) -> PcpValueSets<'_> {
        PcpValueSets {
            record: self,
            payload: self.frame.payload(),
            at: self.sets_at,
            left: self.n_sets,
        }
    }
}

/// Iterates over the value sets of a record.
#[derive(Debug)]
pub(super) struct PcpValueSets<'a> {
    record: &'a PcpRecord<'a>,
    payload: &'a [u8],
    at: usize,
    left: u32,
}

/// The values of one metric at one instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct PcpValueSet<'a> {
    record: &'a PcpRecord<'a>,
    pub(super) metric: u32,
    format: u32,
    /// The {instance, word} pairs.
    pairs: &'a [u8],
}

impl<'a> Iterator for PcpValueSets<'a> {
    type Item = Result<PcpValueSet<'a>, RecordingDamage>;

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

impl<'a> PcpValueSets<'a> {
    /// Reads one set and steps behind it; `None` when it leaves the record.
    fn read(&mut self) -> Option<PcpValueSet<'a>> {
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
        Some(PcpValueSet {
            record: self.record,
            metric,
            format,
            pairs,
        })
    }

    fn empty(&self, metric: u32) -> PcpValueSet<'a> {
        PcpValueSet {
            record: self.record,
            metric,
            format: IN_PLACE,
            pairs: &[],
        }
    }
}

impl<'a> PcpValueSet<'a> {
    /// The instances and their values, without those that no metric read here can have: negative,
    /// infinite or not a number. Such a value says nothing about the rest.
    pub(super) fn values(
        self,
        kind: ValueType,
    ) -> impl Iterator<Item = Result<(i32, PcpNumber), RecordingDamage>> + 'a {
        let pairs = self.pairs.chunks_exact(8);
        pairs.filter_map(move |pair| {
            let instance = i32_at(pair, 0)?;
            let word = u32_at(pair, 4)?;
            let found = if self.format == IN_PLACE {
                PcpRecordValue::in_place(word, kind)
            } else {
                self.out_of_line(word, kind)
            };
            match found {
                Some(PcpRecordValue::Number(number)) => Some(Ok((instance, number))),
                Some(PcpRecordValue::Nonsense) => None,
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

    fn misplaced(&self) -> RecordingDamage {
        let what = format!(
            "a value of metric {:#x} does not lie inside its record or is not of its type",
            self.metric
        );
        self.record.frame.damage(what)
    }

    /// Block behind the sets at this place.
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

    fn out_of_line(&self, word: u32, kind: ValueType) -> Option<PcpRecordValue> {
        let data = self.block(word)?;
        match kind {
            ValueType::U64 => u64_at(data, 0).map(PcpRecordValue::whole),
            ValueType::I64 => {
                u64_at(data, 0).map(|word| PcpRecordValue::signed(word.cast_signed()))
            }
            ValueType::F64 => {
                u64_at(data, 0).map(|bits| PcpRecordValue::real(f64::from_bits(bits)))
            }
            _ => PcpRecordValue::in_place(u32_at(data, 0)?, kind),
        }
    }
}

/// A value as it was recorded. Counters stay whole, so that differences of large ones are exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PcpNumber {
    /// An integer that is not negative.
    Whole(u64),
    /// A floating-point number.
    Real(f64),
}

/// Value of a metric, or nonsense in its place.
#[derive(Debug, Clone, Copy)]
enum PcpRecordValue {
    Number(PcpNumber),
    /// A value of the right type that cannot be meant.
    Nonsense,
}

impl PcpRecordValue {
    fn in_place(word: u32, kind: ValueType) -> Option<PcpRecordValue> {
        match kind {
            ValueType::U32 => Some(PcpRecordValue::whole(word.into())),
            ValueType::I32 => Some(PcpRecordValue::signed(word.cast_signed().into())),
            ValueType::F32 => Some(PcpRecordValue::real(f32::from_bits(word).into())),
            ValueType::U64 | ValueType::I64 | ValueType::F64 | ValueType::Other => None,
        }
    }

    fn whole(value: u64) -> PcpRecordValue {
        PcpRecordValue::Number(PcpNumber::Whole(value))
    }

    fn signed(value: i64) -> PcpRecordValue {
        u64::try_from(value).map_or(PcpRecordValue::Nonsense, PcpRecordValue::whole)
    }

    fn real(value: f64) -> PcpRecordValue {
        if value >= 0.0 && value.is_finite() {
            PcpRecordValue::Number(PcpNumber::Real(value))
        } else {
            PcpRecordValue::Nonsense
        }
    }
}

impl PcpNumber {
    /// As a floating-point number.
    pub(super) fn real(self) -> f64 {
        match self {
            PcpNumber::Whole(value) => value as f64,
            PcpNumber::Real(value) => value,
        }
    }
}
