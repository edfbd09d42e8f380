// SPDX-License-Identifier: Apache-2.0
//! Many recordings together: everything that is computed from their sums.

use std::cmp::Ordering;

use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::{floor_u64, to_usize};
use plimsoll_core::profile::{
    DiskProfile, KindProfile, PoolFigure, PoolMember, PoolProfile, PoolRequests, PoolSizeCount,
    PoolSpread, PoolUnread, TimeDistribution,
};
use plimsoll_core::units::Nanos;
use plimsoll_trace::{CounterSource, TraceError};

use super::counters::{ALL, PoolCounters};
use super::recordings::KnownRecording;
use super::steps::FIGURES;
use super::{PoolHostKey, PoolRequestSums, RecordingPool};

/// Most hosts, and most devices, that are named.
const BUSIEST_MAX: usize = 20;
/// Most recordings that are named as unread, and most notes of single recordings.
const NAMED_MAX: usize = 12;
/// Shares of the intervals whose rates are kept.
const RATES: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 1.0];
/// A step in which fewer of the devices were recorded than in most is worth a word.
const COVERED_MIN: f64 = 0.9;

const HOST_FIGURES: [PoolFigure; 8] = [
    PoolFigure::OpsPerS,
    PoolFigure::PeakOpsPerS,
    PoolFigure::BytesPerS,
    PoolFigure::ReadShare,
    PoolFigure::SizeBytes,
    PoolFigure::Busy,
    PoolFigure::Queue,
    PoolFigure::ResponseMs,
];

impl RecordingPool {
    /// All recordings together.
    ///
    /// # Errors
    /// When none could be read.
    pub fn finish(&self) -> Result<PoolProfile, TraceError> {
        let unread = self.known.values().filter(|known| known.unread.is_some());
        let unread: Vec<&KnownRecording> = unread.collect();
        let recordings = self.known.len() - unread.len();
        if recordings == 0 {
            return Err(self.nothing(&unread));
        }
        let (mut hosts, mut devices) = (Vec::new(), Vec::new());
        for (key, host) in &self.hosts {
            let (whole, parts) = host.members(self.host_name(key));
            hosts.push(whole);
            devices.extend(parts);
        }
        let sum = |of: fn(&PoolMember) -> Option<f64>| hosts.iter().filter_map(of).sum::<f64>();
        let undated = self.read().filter(|known| !known.has_date).count();
        let (together, mut warnings) = self.together()?;
        warnings.splice(0..0, self.warnings());
        Ok(PoolProfile {
            settings: self.settings.clone(),
            recordings: recordings as u64,
            undated: undated as u64,
            unread: unread.len() as u64,
            unread_named: unread_named(&unread),
            hosts: hosts.len() as u64,
            devices: devices.len() as u64,
            device_s: hosts.iter().map(|host| host.device_s).sum(),
            ops_per_s: sum(|host| host.ops_per_s),
            bytes_per_s: sum(|host| host.bytes_per_s),
            host_spread: spreads(&hosts),
            device_spread: spreads(&devices),
            interval_rates: interval_rates(&self.interval_rates),
            busiest_hosts: busiest(hosts),
            busiest_devices: busiest(devices),
            together,
            requests: self.requests.finish(),
            warnings,
        })
    }

    /// Recordings that were read.
    pub(super) fn read(&self) -> impl Iterator<Item = &KnownRecording> {
        self.known.values().filter(|known| known.unread.is_none())
    }

    fn host_name<'a>(&'a self, key: &'a PoolHostKey) -> &'a str {
        match key {
            PoolHostKey::Named(name) => name,
            PoolHostKey::Unnamed(sha256) => self.known.get(sha256).map_or("", |known| &known.name),
        }
    }

    fn nothing(&self, unread: &[&KnownRecording]) -> TraceError {
        let first = unread.iter().min_by_key(|known| &known.name);
        let reason = match first.and_then(|known| known.unread.as_ref()) {
            Some(reason) => format!("none of {} could be read: {reason}", unread.len()),
            None => "there are no recordings".into(),
        };
        TraceError::Together {
            recording: first.map_or_else(|| "recordings".into(), |known| known.name.clone()),
            reason,
        }
    }

    /// The sum of all as counters of one disk; `None` when nothing has a date.
    pub(super) fn counters(&self) -> Option<PoolCounters> {
        let named = self.hosts.len();
        let name = format!("{} recordings", self.read().count());
        let host = match (self.hosts.first_key_value(), named) {
            (Some((key, _)), 1) => self.host_name(key).to_owned(),
            _ => format!("{named} hosts"),
        };
        PoolCounters::of(&self.steps, self.settings.step_s, name, host)
    }

    fn together(&self) -> Result<(Option<DiskProfile>, Vec<String>), TraceError> {
        let Some(counters) = self.counters() else {
            return Ok((None, Vec::new()));
        };
        let span = counters.times().span();
        match crate::describe::describe(&counters, Some(ALL), &span) {
            Ok(found) => Ok((Some(found.profile), found.warnings)),
            Err(TraceError::TooFew { .. }) => Ok((None, Vec::new())),
            Err(error) => Err(error),
        }
    }

    /// Warnings for the reader, as sentences.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut say = |count: u64, text: &str| {
            if count > 0 {
                warnings.push(format!("{count} {text}"));
            }
        };
        let (kept, dropped) = self.intervals;
        say(
            dropped,
            &format!(
                "of {} intervals were left out (gaps, resets or wraps of a counter)",
                kept.saturating_add(dropped)
            ),
        );
        say(
            self.counted_again,
            "devices are left out, since they are layers above others or paths to them",
        );
        say(
            self.hosts.values().map(super::PoolHost::overlapping).sum(),
            "recordings overlap others of the same host in time: their load counts more than once",
        );
        let undated = self.read().filter(|known| !known.has_date).count();
        say(
            undated as u64,
            "recordings have no date: they are not in the load over time",
        );
        let lacking = |known: &&KnownRecording| known.has_date && known.lacks_steps.is_some();
        say(
            self.read().filter(lacking).count() as u64,
            "recordings have devices without operations or bytes of reads and writes: those are \
             not in the load over time",
        );
        warnings.extend(self.uncovered());
        let mut notes: Vec<(&str, &str)> = self
            .read()
            .flat_map(|known| known.notes.iter().map(|note| (&*known.name, &**note)))
            .collect();
        notes.sort_unstable();
        let more = notes.len().saturating_sub(NAMED_MAX);
        notes.truncate(NAMED_MAX);
        warnings.extend(notes.iter().map(|(name, note)| format!("{name}: {note}")));
        if more > 0 {
            warnings.push(format!("and {more} more notes of single recordings"));
        }
        warnings
    }

    /// Whether fewer devices were recorded in some steps than in the fullest.
    pub(super) fn uncovered(&self) -> Option<String> {
        let (from, to) = self.steps.span?;
        let step_ns = self.settings.step_s.saturating_mul(1_000_000_000);
        let devices = |(at, sums): (&u64, &[u128; FIGURES])| {
            // Of the first and the last step only a part may have been recorded of any device.
            let begin = at.saturating_mul(step_ns);
            let end = begin.saturating_add(step_ns).min(to);
            sums[FIGURES - 1] as f64 / end.saturating_sub(begin.max(from)).max(1) as f64
        };
        let steps = &self.steps.steps;
        let most = steps.iter().map(devices).reduce(f64::max)?;
        let low = steps.iter().map(devices);
        let low = low.filter(|some| *some < COVERED_MIN * most).count();
        (low > 0).then(|| {
            format!(
                "in {low} of {} steps of {} fewer than 90 % of the {most:.1} devices were recorded \
                 that the fullest step has: the load over time is too low there",
                steps.len(),
                Nanos(step_ns)
            )
        })
    }
}

fn unread_named(unread: &[&KnownRecording]) -> Vec<PoolUnread> {
    let mut named: Vec<PoolUnread> = unread
        .iter()
        .map(|known| PoolUnread {
            recording: known.name.clone(),
            reason: known.unread.clone().unwrap_or_default(),
        })
        .collect();
    named.sort_by(|a, b| (&a.recording, &a.reason).cmp(&(&b.recording, &b.reason)));
    named.truncate(NAMED_MAX);
    named
}

fn spreads(members: &[PoolMember]) -> Vec<PoolSpread> {
    let spread = |figure: PoolFigure| {
        let values = members.iter().filter_map(|member| member.figure(figure));
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        // The least value that at least this share of the values do not exceed.
        let at = |q: f64| {
            let place = to_usize(floor_u64((q * values.len() as f64).ceil())).max(1) - 1;
            values.get(place).or(values.last()).copied()
        };
        Some(PoolSpread {
            figure,
            count: values.len() as u64,
            min: *values.first()?,
            median: at(0.5)?,
            p90: at(0.9)?,
            p99: at(0.99)?,
            max: *values.last()?,
        })
    };
    HOST_FIGURES.into_iter().filter_map(spread).collect()
}

/// Most operations first, then most bytes; of equal ones by name.
fn busiest(mut members: Vec<PoolMember>) -> Vec<PoolMember> {
    let order = |a: &PoolMember, b: &PoolMember| -> Ordering {
        let by = |of: fn(&PoolMember) -> Option<f64>| {
            let known = |member| of(member).unwrap_or(-1.0);
            known(b).total_cmp(&known(a))
        };
        by(|member| member.ops_per_s)
            .then(by(|member| member.bytes_per_s))
            .then_with(|| (&a.host, &a.device).cmp(&(&b.host, &b.device)))
    };
    members.sort_by(order);
    members.truncate(BUSIEST_MAX);
    members
}

fn interval_rates(rates: &Histogram) -> Vec<(f64, f64)> {
    let supported = RATES
        .into_iter()
        .filter(|q| !rates.is_empty() && (*q >= 1.0 || rates.supports_quantile(*q)));
    supported
        .map(|q| (q, rates.quantile_ns(q) as f64 / 1e3))
        .collect()
}

impl PoolRequestSums {
    fn finish(&self) -> Option<PoolRequests> {
        let kinds = self.kinds.values().map(|sums| KindProfile {
            kind: sums.kind,
            requests: sums.requests,
            bytes: Some(sums.bytes),
            response: TimeDistribution::of(&sums.response),
        });
        let sizes = self.kinds.values().flat_map(|sums| {
            sums.sizes.iter().map(|(power, requests)| PoolSizeCount {
                kind: sums.kind,
                bytes_max: 1 << power.min(&63),
                requests: *requests,
            })
        });
        (self.recordings > 0).then(|| PoolRequests {
            recordings: self.recordings,
            kinds: kinds.collect(),
            sizes: sizes.collect(),
            gaps: TimeDistribution::of(&self.gaps),
        })
    }
}
