// SPDX-License-Identifier: Apache-2.0
//! One pass over the records that collects what was recorded of one disk.

use std::collections::BTreeMap;

use plimsoll_core::model::Envelope;

use super::Archive;
use super::log::{Number, Record, Records};
use super::meta::{Description, Ids};
use crate::error::{Damage, TraceError};
use crate::recording::Counters;
use crate::series::{Column, DiskMetric, DiskSeries, Interval, PointSample, Verdict};
use crate::window::Window;

/// A column while it is being filled.
#[derive(Debug)]
struct Filling {
    column: Column,
    /// Base units (bytes, seconds, operations) in one recorded unit.
    factor: f64,
    description: Description,
    last: Option<Last>,
    /// Whether the recording was interrupted since the last sample.
    marked: bool,
    out_of_order: u64,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    at_unix_ns: u64,
    value: Number,
    instance: i32,
}

impl Archive {
    /// Everything recorded of `disk` inside `window` (both ends included).
    ///
    /// # Errors
    /// When the archive has no such disk; the message lists those it has.
    pub(super) fn disk_series(
        &self,
        disk: &str,
        window: &Window,
    ) -> Result<DiskSeries, TraceError> {
        let mut warnings = self.warnings.clone();
        let mut ids: BTreeMap<u32, Ids> = BTreeMap::new();
        for description in self.catalog.all() {
            ids.entry(description.domain)
                .or_insert_with(|| self.catalog.ids_of(&self.meta, description.domain, disk));
        }
        if !ids.values().any(Ids::any) {
            return Err(TraceError::NoDisk {
                disk: disk.into(),
                recording: self.about.name.clone(),
                disks: self.disks(),
            });
        }
        // Keyed by metric id: a record is searched for these and left when all are found.
        let mut filling: BTreeMap<u32, Filling> = BTreeMap::new();
        for metric in DiskMetric::ALL {
            for description in self.catalog.descriptions(metric.pcp_name()) {
                match Filling::of(metric, *description) {
                    Ok(fresh) => drop(filling.insert(description.metric, fresh)),
                    Err(why) => warnings.push(why),
                }
            }
        }
        let damage = self.fill(&mut filling, &ids, window);
        for fresh in filling.values().filter(|f| f.out_of_order > 0) {
            warnings.push(format!(
                "{} samples of {} were not later than the one before and were ignored",
                fresh.out_of_order,
                fresh.column.metric.pcp_name()
            ));
        }
        Ok(DiskSeries {
            disk: disk.into(),
            columns: columns(filling),
            damage: damage.or_else(|| self.damage.clone()),
            warnings,
        })
    }

    fn fill(
        &self,
        filling: &mut BTreeMap<u32, Filling>,
        ids: &BTreeMap<u32, Ids>,
        window: &Window,
    ) -> Option<Damage> {
        for file in &self.volumes {
            for record in Records::of(file) {
                let taken = record.and_then(|record| {
                    if record.is_mark() {
                        filling.values_mut().for_each(|fresh| fresh.marked = true);
                        Ok(())
                    } else if window.contains(record.at_unix_ns) {
                        take(&record, filling, ids)
                    } else {
                        Ok(())
                    }
                });
                if let Err(damage) = taken {
                    return Some(damage);
                }
            }
        }
        None
    }
}

fn take(
    record: &Record<'_>,
    filling: &mut BTreeMap<u32, Filling>,
    ids: &BTreeMap<u32, Ids>,
) -> Result<(), Damage> {
    let mut missing = filling.len();
    for set in record.sets() {
        let set = set?;
        let Some(fresh) = filling.get_mut(&set.metric) else {
            continue;
        };
        let at = record.at_unix_ns;
        let instance = ids.get(&fresh.description.domain).and_then(|i| i.at(at));
        if let Some(instance) = instance
            && let Some(value) = set.value(instance, fresh.description.kind)?
        {
            fresh.push(Last {
                at_unix_ns: at,
                value,
                instance,
            });
        }
        missing -= 1;
        if missing == 0 {
            break;
        }
    }
    Ok(())
}

impl Filling {
    fn of(metric: DiskMetric, description: Description) -> Result<Filling, String> {
        let units = description.units;
        let factor = match metric {
            DiskMetric::ReadBytes | DiskMetric::WriteBytes => units.bytes(),
            DiskMetric::Reads
            | DiskMetric::Writes
            | DiskMetric::QueueLength
            | DiskMetric::InFlight => units.events(),
            _ => units.seconds(),
        };
        let name = metric.pcp_name();
        let Some(factor) = factor else {
            return Err(format!(
                "{name} is in units it should not have; it is left out"
            ));
        };
        if description.is_counter() != metric.is_counter() {
            return Err(format!(
                "{name} is not of the kind it should be; it is left out"
            ));
        }
        Ok(Filling {
            column: Column {
                metric,
                intervals: Vec::new(),
                samples: Vec::new(),
            },
            factor,
            description,
            last: None,
            marked: false,
            out_of_order: 0,
        })
    }

    fn push(&mut self, now: Last) {
        if self
            .last
            .is_some_and(|last| now.at_unix_ns <= last.at_unix_ns)
        {
            self.out_of_order += 1;
            return;
        }
        // Twice what a model may have: a column may be on a finer grid than the model's.
        if self.column.intervals.len().max(self.column.samples.len()) > 2 * Envelope::CELLS_MAX {
            return;
        }
        let gap = self.marked || self.last.is_some_and(|last| last.instance != now.instance);
        if !self.column.metric.is_counter() {
            self.column.samples.push(PointSample {
                at_unix_ns: now.at_unix_ns,
                value: now.value.real() * self.factor,
                after_gap: gap,
            });
        } else if let Some(last) = self.last {
            let (difference, verdict) = self.difference(last.value, now.value, gap);
            self.column.intervals.push(Interval {
                from_unix_ns: last.at_unix_ns,
                to_unix_ns: now.at_unix_ns,
                difference,
                verdict,
            });
        }
        self.last = Some(now);
        self.marked = false;
    }

    fn difference(&self, before: Number, after: Number, gap: bool) -> (f64, Verdict) {
        if gap {
            return (0.0, Verdict::Gap);
        }
        let rise = match (before, after) {
            (Number::Whole(a), Number::Whole(b)) if b >= a => Some((b - a) as f64),
            (Number::Whole(_), Number::Whole(_)) => None,
            (a, b) => {
                let rise = b.real() - a.real();
                (rise >= 0.0 && rise.is_finite()).then_some(rise)
            }
        };
        if let Some(rise) = rise {
            return (rise * self.factor, Verdict::Kept);
        }
        let wrapped = match (before, after, self.description.kind.wraps_at()) {
            (Number::Whole(a), Number::Whole(b), Some(modulus)) => {
                let rise = (modulus + u128::from(b)).saturating_sub(u128::from(a));
                Some(rise as f64 * self.factor)
            }
            _ => None,
        };
        (0.0, Verdict::WentDown { as_wrap: wrapped })
    }
}

/// The columns in the order of [`DiskMetric::ALL`]. A metric whose id changed during the
/// recording has several parts, which are put one after the other with a gap between.
fn columns(filling: BTreeMap<u32, Filling>) -> Vec<Column> {
    let mut parts: Vec<Column> = filling
        .into_values()
        .filter(|fresh| fresh.last.is_some())
        .map(|fresh| fresh.column)
        .collect();
    let begin = |c: &Column| {
        let interval = c.intervals.first().map(|i| i.from_unix_ns);
        interval.or_else(|| c.samples.first().map(|s| s.at_unix_ns))
    };
    parts.sort_by_key(|column| (column.metric, begin(column)));
    let mut columns: Vec<Column> = Vec::new();
    for part in parts {
        match columns.last_mut() {
            Some(whole) if whole.metric == part.metric => append(whole, part),
            _ => columns.push(part),
        }
    }
    columns
}

fn append(whole: &mut Column, part: Column) {
    let end = whole.intervals.last().map_or(0, |i| i.to_unix_ns);
    let later = part
        .intervals
        .into_iter()
        .skip_while(|i| i.from_unix_ns < end);
    whole.intervals.extend(later);
    let end = whole.samples.last().map_or(0, |s| s.at_unix_ns);
    let samples = part.samples.into_iter();
    let later = samples.skip_while(|s| s.at_unix_ns <= end).enumerate();
    whole.samples.extend(later.map(|(i, sample)| PointSample {
        after_gap: sample.after_gap || i == 0,
        ..sample
    }));
}
