// SPDX-License-Identifier: Apache-2.0
//! Figures of disks, out of the samples of an archive's parts.

use std::collections::BTreeMap;

use plimsoll_core::model::ModelEnvelope;
use plimsoll_core::profile::DeviceComposition;

use super::log::PcpNumber;
use super::meta::PcpInstanceCursor;
use super::metrics::PcpDeviceKind;
use super::part::{PcpArchivePart, PcpMetricSlot, PcpSample, PcpVolumeEvent};
use super::{PcpArchive, PcpDevice};
use crate::error::TraceError;
use crate::recording::{CounterReadState, CounterSource};
use crate::series::{
    CounterInterval, DiskAverages, DiskMetric, DiskSeries, GapJudge, IntervalVerdict,
    MetricAccumulator, MetricSeries, MetricSink, PointSample,
};
use crate::window::RecordingWindow;

/// A figure of a disk while it is being read: as a column, or only its averages.
#[derive(Debug)]
struct PcpMetricBuilder<T> {
    metric: DiskMetric,
    into: GapJudge<T>,
    last: Option<PcpLastSample>,
    out_of_order: u64,
}

#[derive(Debug, Clone, Copy)]
struct PcpLastSample {
    at_unix_ns: u64,
    value: PcpNumber,
    from: PcpSampleOrigin,
}

/// Origin of a sample, which two samples must share to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PcpSampleOrigin {
    /// How often the recording was interrupted before.
    marks: u64,
    slot: u16,
    instance: i32,
}

/// The figures of one disk in the order of [`DiskMetric::ALL`]; empty before the first sample.
type Filled<T> = Vec<Option<PcpMetricBuilder<T>>>;

impl PcpArchive {
    /// The figures of each of `disks` inside `window`, read in one pass.
    ///
    /// # Errors
    /// When a file that was there when the archive was opened cannot be opened again.
    fn fill<T: MetricSink>(
        &self,
        disks: &[String],
        window: &RecordingWindow,
    ) -> Result<Vec<Filled<T>>, TraceError> {
        let mut filled: Vec<Filled<T>> = disks.iter().map(|_| Vec::new()).collect();
        let mut marks = 0;
        for part in &self.parts {
            let mut naming = Naming::of(part, &self.devices, disks);
            part.tell(&mut |said| match said {
                PcpVolumeEvent::Mark => marks += 1,
                PcpVolumeEvent::Value(sample) if window.contains(sample.at_unix_ns) => {
                    let slot = &part.slots[usize::from(sample.slot)];
                    if let Some(disk) = naming.disk_of(&sample) {
                        let filled = &mut filled[disk];
                        if filled.is_empty() {
                            filled.resize_with(DiskMetric::ALL.len(), || None);
                        }
                        let filling = &mut filled[slot.metric.place()];
                        let filling =
                            filling.get_or_insert_with(|| PcpMetricBuilder::of(slot.metric));
                        filling.push(slot, &sample, marks);
                    }
                }
                PcpVolumeEvent::Value(_) => {}
            })?;
        }
        Ok(filled)
    }

    fn series_of(&self, disk: &str, filled: Filled<MetricSeries>) -> DiskSeries {
        let mut warnings = self.state.warnings.clone();
        for fresh in filled.iter().flatten().filter(|f| f.out_of_order > 0) {
            warnings.push(format!(
                "{} samples of {} were not later than the one before and were ignored",
                fresh.out_of_order,
                fresh.metric.pcp_name()
            ));
        }
        let columns = filled
            .into_iter()
            .flatten()
            .map(|fresh| fresh.into.finish());
        DiskSeries {
            disk: disk.into(),
            columns: columns.collect(),
            damage: self.state.damage.clone(),
            warnings,
        }
    }
}

impl CounterSource for PcpArchive {
    fn state(&self) -> &CounterReadState {
        &self.state
    }

    /// Names of the instances of `disk.dev.*`, and of its like for what lies on disks.
    fn disks(&self) -> Vec<String> {
        let shown = self.devices.iter().map(|device| device.shown.clone());
        shown.collect()
    }

    fn made(&self, disk: &str) -> Option<DeviceComposition> {
        let device = self.devices.iter().find(|device| device.shown == disk);
        device?.made.clone()
    }

    fn several(
        &self,
        disks: &[String],
        window: &RecordingWindow,
    ) -> Result<Vec<DiskSeries>, TraceError> {
        let series = disks.iter().zip(self.fill(disks, window)?);
        Ok(series
            .map(|(disk, filled)| self.series_of(disk, filled))
            .collect())
    }

    fn averages(
        &self,
        disks: &[String],
        window: &RecordingWindow,
    ) -> Result<Vec<DiskAverages>, TraceError> {
        let tallies = disks
            .iter()
            .zip(self.fill::<MetricAccumulator>(disks, window)?);
        let averages = tallies.map(|(disk, filled)| DiskAverages {
            disk: disk.clone(),
            figures: (filled.into_iter().flatten())
                .filter_map(|fresh| Some((fresh.metric, fresh.into.finish().averages()?)))
                .collect(),
        });
        Ok(averages.collect())
    }
}

/// Which disk an instance is when.
struct Naming<'a> {
    /// Domains: their instances over time, and the place of each of their names among the disks.
    domains: Vec<(PcpInstanceCursor<'a>, Vec<Option<usize>>)>,
    /// The place of the domain of each slot.
    of_slots: Vec<Option<usize>>,
}

impl<'a> Naming<'a> {
    fn of(part: &'a PcpArchivePart, devices: &[PcpDevice], disks: &[String]) -> Self {
        let wanted: BTreeMap<&str, usize> = disks.iter().map(String::as_str).zip(0..).collect();
        let places = devices.iter().filter_map(|device| {
            let place = wanted.get(&*device.shown)?;
            Some(((Some(device.family), &*device.name), *place))
        });
        let places: BTreeMap<(Option<PcpDeviceKind>, &str), usize> = places.collect();
        let (ids, domains): (Vec<u32>, Vec<_>) = part
            .catalog
            .domains()
            .map(|(id, domain)| {
                let family = part.families.get(&id).copied();
                let names = domain.names().iter();
                let disks = names.map(|name| places.get(&(family, name.as_str())).copied());
                (id, (domain.follow(), disks.collect()))
            })
            .unzip();
        let place = |slot: &PcpMetricSlot| ids.iter().position(|id| *id == slot.description.domain);
        Naming {
            domains,
            of_slots: part.slots.iter().map(place).collect(),
        }
    }

    fn disk_of(&mut self, sample: &PcpSample) -> Option<usize> {
        let domain = self.of_slots[usize::from(sample.slot)]?;
        let (follower, disks) = &mut self.domains[domain];
        let name = follower.name_at(sample.at_unix_ns, sample.instance)?;
        *disks.get(usize::try_from(name).ok()?)?
    }
}

impl<T: MetricSink> PcpMetricBuilder<T> {
    fn of(metric: DiskMetric) -> Self {
        PcpMetricBuilder {
            metric,
            into: GapJudge::of(metric),
            last: None,
            out_of_order: 0,
        }
    }

    fn push(&mut self, slot: &PcpMetricSlot, sample: &PcpSample, marks: u64) {
        let now = PcpLastSample {
            at_unix_ns: sample.at_unix_ns,
            value: sample.value,
            from: PcpSampleOrigin {
                marks,
                slot: sample.slot,
                instance: sample.instance,
            },
        };
        if self
            .last
            .is_some_and(|last| now.at_unix_ns <= last.at_unix_ns)
        {
            self.out_of_order += 1;
            return;
        }
        // Twice what a model may have: a column may be on a finer grid than the model's.
        if self.into.held() > 2 * ModelEnvelope::CELLS_MAX {
            return;
        }
        let gap = self.last.is_some_and(|last| last.from != now.from);
        if !self.metric.is_counter() {
            self.into.sample(PointSample {
                at_unix_ns: now.at_unix_ns,
                value: now.value.real() * slot.factor,
                after_gap: gap,
            });
        } else if let Some(last) = self.last {
            let (difference, verdict) = if gap {
                (0.0, IntervalVerdict::Gap)
            } else {
                difference(slot, last.value, now.value)
            };
            self.into.interval(CounterInterval {
                from_unix_ns: last.at_unix_ns,
                to_unix_ns: now.at_unix_ns,
                difference,
                verdict,
            });
        }
        self.last = Some(now);
    }
}

fn difference(slot: &PcpMetricSlot, before: PcpNumber, after: PcpNumber) -> (f64, IntervalVerdict) {
    let rise = match (before, after) {
        (PcpNumber::Whole(a), PcpNumber::Whole(b)) if b >= a => Some((b - a) as f64),
        (PcpNumber::Whole(_), PcpNumber::Whole(_)) => None,
        (a, b) => {
            let rise = b.real() - a.real();
            (rise >= 0.0 && rise.is_finite()).then_some(rise)
        }
    };
    if let Some(rise) = rise {
        return (rise * slot.factor, IntervalVerdict::Kept);
    }
    let wrapped = match (before, after, slot.description.kind.wraps_at()) {
        (PcpNumber::Whole(a), PcpNumber::Whole(b), Some(modulus)) => {
            let rise = (modulus + u128::from(b)).saturating_sub(u128::from(a));
            Some(rise as f64 * slot.factor)
        }
        _ => None,
    };
    (0.0, IntervalVerdict::WentDown { as_wrap: wrapped })
}
