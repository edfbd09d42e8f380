// SPDX-License-Identifier: Apache-2.0
//! A pass over a recording: what its format finds of disks, and what it says of the recording as a whole.

use std::collections::BTreeMap;

use plimsoll_core::profile::DeviceKind;

use super::clock::{self, DateEvidence, DateOrder};
use super::meaning::{DiskRowValues, rates};
use crate::error::{RecordingDamage, TraceError};
use crate::input::{RecordingInput, WrongLines};
use crate::series::DiskMetric;
use crate::text::words;

/// How the values of a row are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CounterSemantics {
    /// Counters, as they stood at the instant.
    Totals,
    /// Per second since an instant.
    Rates { from_unix_ns: u64 },
    /// How much since an instant that the source names.
    Sums { from_unix_ns: u64 },
}

/// Values of one disk in a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct CounterRow<'a> {
    pub(super) disk: &'a [u8],
    pub(super) at_unix_ns: u64,
    pub(super) what: CounterSemantics,
    /// Figure, value, base units of one.
    pub(super) values: &'a [(DiskMetric, f64, f64)],
}

/// Event of a scan.
pub(super) enum CounterScanEvent<'a> {
    /// Figures of a disk.
    Row(CounterRow<'a>),
    /// The recording was interrupted.
    Gap,
}

/// Properties of the recording as a whole, found by a scan.
#[derive(Debug, Default)]
pub(super) struct CounterScanSummary {
    pub(super) host: String,
    /// The zone of its people as Posix writes it; empty for UTC.
    pub(super) zone: String,
    /// The zone of all times is that of `zone`.
    pub(super) zone_is_told: bool,
    /// Times stood in it without a zone.
    pub(super) lacks_zone: bool,
    /// Times stood in it without a date, or none at all.
    pub(super) lacks_date: bool,
    pub(super) dates: DateEvidence,
    /// Kinds of devices, where more than their names tells it.
    pub(super) layers: BTreeMap<String, DeviceKind>,
    pub(super) damage: Option<RecordingDamage>,
    pub(super) warnings: Vec<String>,
    pub(super) wrong: WrongLines,
}

/// A pass over a recording.
pub(super) struct CounterScan<'g> {
    pub(super) told: CounterScanSummary,
    /// Where what is found goes.
    give: &'g mut dyn FnMut(CounterScanEvent<'_>),
}

/// A way to take the next line of a file: [`RecordingInput::line`], or that of wide ones.
type NextLine = fn(&mut RecordingInput) -> Result<Option<(u64, &[u8])>, TraceError>;

impl<'g> CounterScan<'g> {
    /// One in which dates have this order.
    pub(super) fn new(
        order: Option<DateOrder>,
        give: &'g mut dyn FnMut(CounterScanEvent<'_>),
    ) -> CounterScan<'g> {
        let mut told = CounterScanSummary::default();
        told.dates.order = order;
        CounterScan { told, give }
    }

    /// Hands the lines of a file on until it ends, or until too many lines in a row are wrong and the rest
    /// is given up. `take` gives the error of a line.
    pub(super) fn lines<E: AsRef<str>>(
        &mut self,
        input: &mut RecordingInput,
        next: NextLine,
        mut take: impl FnMut(&mut Self, u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), TraceError> {
        while let Some((offset, line)) = next(input)? {
            let Err(what) = take(self, offset, line) else {
                continue;
            };
            if let Some(what) = self.told.wrong.wrong(offset, what.as_ref(), line) {
                self.told.damage = Some(input.damage(offset, what));
                break;
            }
        }
        Ok(())
    }

    /// A line was understood.
    pub(super) fn right(&mut self) {
        self.told.wrong.right();
    }

    /// Gives the figures of a disk away.
    pub(super) fn row(&mut self, row: CounterRow<'_>) {
        (self.give)(CounterScanEvent::Row(row));
    }

    /// Gives the rates of a disk between two instants away.
    pub(super) fn rates(
        &mut self,
        disk: &[u8],
        (from_unix_ns, at_unix_ns): (u64, u64),
        row: &DiskRowValues,
    ) {
        let values = rates(row).into_iter();
        let values: Vec<(DiskMetric, f64, f64)> =
            values.map(|(m, value)| (m, value, 1.0)).collect();
        self.row(CounterRow {
            disk,
            at_unix_ns,
            what: CounterSemantics::Rates { from_unix_ns },
            values: &values,
        });
    }

    /// The recording was interrupted.
    pub(super) fn gap(&mut self) {
        (self.give)(CounterScanEvent::Gap);
    }

    /// A time as programs print it.
    pub(super) fn instant(&mut self, text: &[u8]) -> Option<u64> {
        let instant = clock::instant(text, self.told.dates.order)?;
        self.told.lacks_zone |= !instant.has_zone;
        self.told.dates.add(&instant);
        Some(instant.unix_ns)
    }

    /// A time whose zone stands elsewhere.
    pub(super) fn local(&mut self, text: &[u8]) -> Option<u64> {
        let lacked_zone = self.told.lacks_zone;
        let instant = self.instant(text);
        self.told.lacks_zone = lacked_zone;
        instant
    }

    /// Takes the host out of the line with which programs of sysstat begin, `Linux 6.18 (vm)  11/21/26 …`;
    /// returns the beginning of its day.
    pub(super) fn heading(&mut self, line: &[u8]) -> Option<u64> {
        let mut words = words(line).skip(2);
        let name = String::from_utf8_lossy(words.next()?);
        self.told.host = name.trim_matches(['(', ')']).into();
        self.local(&[words.next()?, b" 00:00:00"].concat())
    }

    pub(super) fn warn_once(&mut self, sentence: &str) {
        if !self.told.warnings.iter().any(|known| known == sentence) {
            self.told.warnings.push(sentence.into());
        }
    }
}
