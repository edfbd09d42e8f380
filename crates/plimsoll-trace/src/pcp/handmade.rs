// SPDX-License-Identifier: Apache-2.0
//! A writer of small archives in memory, for tests: an independent statement of the format.
//!
//! Written from the layout in LOGARCHIVE(5), not from the reader, so that a mistake has to be made
//! twice to go unnoticed.

use super::PcpArchive;
use crate::error::TraceError;

pub(crate) const DOMAIN: u32 = 0x0f00_0001;
pub(crate) const KIB_UNITS: u32 = 0x1001_0000;
pub(crate) const BYTE_UNITS: u32 = 0x1000_0000;
pub(crate) const COUNT_UNITS: u32 = 0x0010_0000;
pub(crate) const MS_UNITS: u32 = 0x0100_2000;
pub(crate) const I32: u32 = 0;
pub(crate) const U32: u32 = 1;
pub(crate) const I64: u32 = 2;
pub(crate) const U64: u32 = 3;
pub(crate) const F32: u32 = 4;
pub(crate) const F64: u32 = 5;
pub(crate) const COUNTER: u32 = 1;
pub(crate) const INSTANT: u32 = 3;

/// A value set of a record.
pub(crate) enum PcpTestValues {
    /// {instance, word} pairs.
    InPlace(Vec<(u32, u32)>),
    /// {instance, 64-bit value} pairs, stored behind the sets.
    OutOfLine(Vec<(u32, u64)>),
    /// An error code in place of values: the format word is absent.
    Error(i32),
}

/// The files of an archive under construction.
#[derive(Clone)]
pub(crate) struct PcpTestArchive {
    version: u32,
    pub(crate) meta: Vec<u8>,
    pub(crate) volumes: Vec<Vec<u8>>,
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        out.extend(word.to_be_bytes());
    }
}

fn framed(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len() + 8).unwrap();
    let mut out = length.to_be_bytes().to_vec();
    out.extend(payload);
    out.extend(length.to_be_bytes());
    out
}

/// Seconds as a record of a version has them.
fn stamp(version: u32, at_s: u32) -> Vec<u32> {
    match version {
        2 => vec![at_s, 0],
        // The low word of the seconds, the high word, nanoseconds.
        _ => vec![at_s, 0, 0],
    }
}

fn label(version: u32, volume: i32, zone: &str) -> Vec<u8> {
    let mut payload = Vec::new();
    words(&mut payload, &[0x5005_2600 + version, 4711]);
    words(&mut payload, &stamp(version, 1_000_000_000));
    payload.extend(volume.to_be_bytes());
    let mut text = |text: &str, width: usize| {
        let mut field = text.as_bytes().to_vec();
        field.resize(width, 0);
        payload.extend(field);
    };
    if version == 2 {
        text("testhost", 64);
        text(zone, 40);
    } else {
        // Features and a reserved word.
        text("", 8);
        text("testhost", 256);
        text(zone, 256);
        text("", 256);
    }
    framed(&payload)
}

impl PcpTestArchive {
    pub(crate) fn new(zone: &str) -> Self {
        Self::of(2, zone)
    }

    pub(crate) fn of(version: u32, zone: &str) -> Self {
        PcpTestArchive {
            version,
            meta: label(version, -1, zone),
            volumes: vec![label(version, 0, zone)],
        }
    }

    pub(crate) fn describe(&mut self, name: &str, metric: u32, how: [u32; 3]) {
        let [kind, semantics, units] = how;
        let mut payload = Vec::new();
        let length = u32::try_from(name.len()).unwrap();
        words(
            &mut payload,
            &[1, metric, kind, DOMAIN, semantics, units, 1, length],
        );
        payload.extend(name.as_bytes());
        self.meta.extend(framed(&payload));
    }

    /// Disks from `at_s` on.
    pub(crate) fn instances(&mut self, at_s: u32, disks: &[(u32, &str)]) {
        let disks: Vec<_> = disks.iter().map(|(id, name)| (*id, Some(*name))).collect();
        let kind = if self.version == 2 { 2 } else { 5 };
        self.list(kind, at_s, &disks);
    }

    /// Disks that came, or went (without a name), at `at_s`: version 3 only.
    pub(crate) fn changes(&mut self, at_s: u32, disks: &[(u32, Option<&str>)]) {
        assert_eq!(self.version, 3);
        self.list(6, at_s, disks);
    }

    fn list(&mut self, kind: u32, at_s: u32, disks: &[(u32, Option<&str>)]) {
        let mut payload = kind.to_be_bytes().to_vec();
        let count = u32::try_from(disks.len()).unwrap();
        words(&mut payload, &stamp(self.version, at_s));
        words(&mut payload, &[DOMAIN, count]);
        words(&mut payload, &disks.iter().map(|d| d.0).collect::<Vec<_>>());
        let mut names = Vec::new();
        for (_, name) in disks {
            let Some(name) = name else {
                words(&mut payload, &[u32::MAX]);
                continue;
            };
            words(&mut payload, &[u32::try_from(names.len()).unwrap()]);
            names.extend(name.as_bytes());
            names.push(0);
        }
        payload.extend(names);
        self.meta.extend(framed(&payload));
    }

    /// A record the reader must skip: labels of version 2.
    pub(crate) fn other_meta(&mut self) {
        let mut payload = Vec::new();
        words(&mut payload, &[3, 1, 2, 3]);
        payload.extend(b"odd");
        self.meta.extend(framed(&payload));
    }

    pub(crate) fn next_volume(&mut self, zone: &str) {
        let number = i32::try_from(self.volumes.len()).unwrap();
        self.volumes.push(label(self.version, number, zone));
    }

    pub(crate) fn mark(&mut self, at_s: u32) {
        self.record(at_s, &[]);
    }

    pub(crate) fn record(&mut self, at_s: u32, sets: &[(u32, PcpTestValues)]) {
        let mut payload = Vec::new();
        words(&mut payload, &stamp(self.version, at_s));
        words(&mut payload, &[u32::try_from(sets.len()).unwrap()]);
        let sets_bytes: usize = sets.iter().map(|(_, v)| set_bytes(v)).sum();
        // Blocks follow the sets; positions count from 8 bytes before the length field.
        let mut block_at = 8 + 4 + payload.len() + sets_bytes;
        let mut blocks = Vec::new();
        for (metric, values) in sets {
            match values {
                PcpTestValues::Error(code) => {
                    words(&mut payload, &[*metric]);
                    payload.extend(code.to_be_bytes());
                }
                PcpTestValues::InPlace(pairs) => {
                    words(
                        &mut payload,
                        &[*metric, u32::try_from(pairs.len()).unwrap(), 0],
                    );
                    pairs
                        .iter()
                        .for_each(|(i, v)| words(&mut payload, &[*i, *v]));
                }
                PcpTestValues::OutOfLine(pairs) => {
                    words(
                        &mut payload,
                        &[*metric, u32::try_from(pairs.len()).unwrap(), 1],
                    );
                    for (instance, value) in pairs {
                        let place = u32::try_from(block_at / 4).unwrap();
                        words(&mut payload, &[*instance, place]);
                        words(&mut blocks, &[U64 << 24 | 12]);
                        blocks.extend(value.to_be_bytes());
                        block_at += 12;
                    }
                }
            }
        }
        payload.extend(blocks);
        self.volumes.last_mut().unwrap().extend(framed(&payload));
    }

    pub(crate) fn open(&self) -> Result<PcpArchive, TraceError> {
        PcpArchive::from_bytes("made", self.meta.clone(), self.volumes.clone())
    }
}

fn set_bytes(values: &PcpTestValues) -> usize {
    match values {
        PcpTestValues::Error(_) => 8,
        PcpTestValues::InPlace(pairs) => 12 + 8 * pairs.len(),
        PcpTestValues::OutOfLine(pairs) => 12 + 8 * pairs.len(),
    }
}
