// SPDX-License-Identifier: Apache-2.0
//! Reports of devices that follow each other, as text or JSON.

use std::collections::BTreeMap;

use super::CounterScan;
use super::meaning::DiskRowValues;
use crate::targets::TARGETS_MAX;

const SECOND: u64 = 1_000_000_000;
/// Warning about reports without times.
const NO_TIMES: &str = "its reports have no times in a known format: every report counts as one \
                        second, and rates are right but durations are not; record it with \
                        S_TIME_FORMAT=ISO iostat -xt 1, zpool iostat -T u or collectl -oD";
const ONLY_ONE: &str =
    "it has no report but the one since the machine was started; give iostat an interval";
const NO_LENGTH: &str =
    "it has one report, and nothing says how long that is; let it print several";
const GROUPS: &str = "groups of disks (iostat -g), and what is inside of pools (zpool iostat -v), count the \
                      same operations again and are left out";
const IDLE: &str = "reports leave out disks that did nothing (iostat -z); they count as idle then";

/// Reports between two starts of iostat.
#[derive(Debug, Default)]
pub(super) struct PrintedReports {
    /// When the report before this one was made.
    from: Option<u64>,
    now: Option<u64>,
    /// Whether that time stood in the report.
    is_told: bool,
    /// Where reports without times begin to be counted.
    pub(super) day: Option<u64>,
    /// Disks by the reports since the start, and their places by name.
    disks: Vec<ReportedDisk>,
    places: BTreeMap<Vec<u8>, usize>,
    /// Whether this report has every disk that did something.
    is_whole: bool,
    is_spoilt: bool,
    has_some: bool,
    leaves_out: bool,
    has_groups: bool,
    /// Whether the first report is also of an interval, and not since the machine was started.
    omits_boot: bool,
    /// That first report, until the second shows how long it is.
    first: Vec<(Vec<u8>, DiskRowValues)>,
}

#[derive(Debug)]
struct ReportedDisk {
    name: Vec<u8>,
    /// Its columns, of this report or the last that had it.
    row: DiskRowValues,
    /// Whether this report has it.
    is_here: bool,
}

impl PrintedReports {
    /// A report begins, made at this time if it says so.
    pub(super) fn begin(&mut self, at: Option<u64>, scan: &mut CounterScan<'_>) {
        self.give(scan);
        // A counted time cannot begin the interval of a report that prints its time.
        self.from = self.now.filter(|_| self.is_told || at.is_none());
        if at.is_some() && self.now.is_some() && !self.is_told && !self.has_some {
            // Only the first report had none: its beginning is cut off.
            scan.told.warnings.retain(|known| known != NO_TIMES);
            scan.told.lacks_date = false;
        }
        self.is_told = at.is_some();
        self.now = at.or_else(|| {
            scan.warn_once(NO_TIMES);
            scan.told.lacks_date = true;
            let before = self.now.or(self.day).unwrap_or(0);
            Some(before.saturating_add(SECOND))
        });
        self.give_first(scan);
    }

    /// The first report is of an interval, not since the machine was started.
    pub(super) fn omits_boot(&mut self) {
        self.omits_boot = true;
    }

    /// Whether this report has a disk.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        let place = self.places.get(name);
        place.is_some_and(|place| self.disks[*place].is_here)
    }

    /// Values of a disk in this report, or a part of them.
    pub(super) fn row(&mut self, name: &[u8], row: DiskRowValues) {
        if name.starts_with(b" ") {
            self.has_groups = true;
            return;
        }
        let place = match self.places.get(name) {
            Some(place) => *place,
            None if self.disks.len() >= TARGETS_MAX => return,
            None => {
                self.disks.push(ReportedDisk {
                    name: name.into(),
                    row: Vec::new(),
                    is_here: false,
                });
                self.places.insert(name.into(), self.disks.len() - 1);
                self.disks.len() - 1
            }
        };
        let disk = &mut self.disks[place];
        if !disk.is_here {
            disk.row.clear();
        }
        disk.is_here = true;
        disk.row.extend(row);
    }

    /// The report is at its end: a disk that is not in it did nothing.
    pub(super) fn is_whole(&mut self) {
        self.is_whole = true;
    }

    /// Something in this report is not understood: it may be the line of a disk that seems to be missing.
    pub(super) fn is_spoilt(&mut self) {
        self.is_spoilt = true;
    }

    /// The program was started again: the next report is since the machine was.
    pub(super) fn restart(&mut self, scan: &mut CounterScan<'_>) {
        self.give(scan);
        if self.now.is_some() {
            scan.gap();
        }
        *self = PrintedReports {
            has_some: self.has_some,
            leaves_out: self.leaves_out,
            has_groups: self.has_groups,
            ..PrintedReports::default()
        };
    }

    /// There are no more.
    pub(super) fn finish(&mut self, scan: &mut CounterScan<'_>) {
        let is_any = self.now.is_some();
        self.give(scan);
        if is_any && !self.has_some && !self.has_groups {
            scan.warn_once(if self.omits_boot { NO_LENGTH } else { ONLY_ONE });
        }
        if self.leaves_out {
            scan.warn_once(IDLE);
        }
        if self.has_groups {
            scan.warn_once(GROUPS);
        }
    }

    /// Gives the first report away, which is as long as the second.
    fn give_first(&mut self, scan: &mut CounterScan<'_>) {
        let span = self.from.zip(self.now).filter(|(from, now)| from < now);
        let Some((from, now)) = span else { return };
        for (name, row) in self.first.drain(..) {
            let begin = from.saturating_sub(now - from);
            scan.rates(&name, (begin, from), &row);
            self.has_some = true;
        }
    }

    /// Gives the disks of this report away; nothing of the first, which is since the start.
    fn give(&mut self, scan: &mut CounterScan<'_>) {
        if self.omits_boot && self.from.is_none() {
            let here = self.disks.iter_mut().filter(|disk| disk.is_here);
            self.first = here
                .map(|disk| (disk.name.clone(), disk.row.clone()))
                .collect();
        }
        let span = self.from.zip(self.now).filter(|(from, now)| from < now);
        let tells_idle = self.is_whole && !self.is_spoilt;
        for disk in &mut self.disks {
            if !disk.is_here {
                disk.row.iter_mut().for_each(|(_, value)| *value = 0.0);
            }
            if let Some(span) = span.filter(|_| disk.is_here || tells_idle) {
                scan.rates(&disk.name, span, &disk.row);
                self.has_some = true;
                self.leaves_out |= !disk.is_here;
            }
            disk.is_here = false;
        }
        if self.is_spoilt {
            // The time of who was not understood is unknown; others go on where they ended.
            scan.gap();
        }
        (self.is_whole, self.is_spoilt) = (false, false);
    }
}
