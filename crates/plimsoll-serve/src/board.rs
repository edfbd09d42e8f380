// SPDX-License-Identifier: Apache-2.0
//! The state of one run, from its events: how far it is, its seconds, and news for its watchers.

use crate::columns::{SecondMetric, SecondRow, SeriesColumns, SeriesPoints};
use plimsoll_core::design::BlockDesign;
use plimsoll_core::event::{
    RunEvent, RunManifest, RunWarning, TrialId, TrialInterval, TrialResult,
};
use plimsoll_core::histogram::Histogram;
use plimsoll_core::op::OpKind;
use plimsoll_core::text::printable;
use serde::Serialize;
use std::collections::BTreeMap;

/// Most seconds that are held of a run, of all series: 29 days of one.
pub(crate) const ROWS_MAX: usize = 2_500_000;

/// Seconds that a trial takes beside its measured part, for estimates.
const BESIDE_S: f64 = 1.5;

/// News for the watchers of a run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum RunNews {
    /// How far it is has changed.
    Progress,
    /// A second has passed.
    Second(SecondNews),
    /// A trial has ended.
    Trial {
        arm: String,
        workload: String,
        block: u32,
    },
    /// A reader should know.
    Note { text: String },
}

/// A second of a trial.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SecondNews {
    t_s: f64,
    arm: String,
    workload: String,
    iops: f32,
    bandwidth: f32,
    p50_s: Option<f32>,
    p99_s: Option<f32>,
    errors: u64,
}

/// The trial that goes on.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TrialNow {
    /// Counted from 0.
    block: u32,
    pub(crate) arm: String,
    pub(crate) workload: String,
    phase: &'static str,
}

/// How far a run is.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RunProgressFacts {
    pub(crate) trials_done: u64,
    pub(crate) trials_planned: Option<u64>,
    /// None of searches, which have no blocks, and before a pilot has led to their number.
    blocks_planned: Option<u32>,
    began_at: String,
    ends_in_s: Option<f64>,
    now: Option<TrialNow>,
}

/// Totals of one arm under one workload.
#[derive(Debug, Default)]
pub(crate) struct SeriesTotals {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
}

/// One arm under one workload.
#[derive(Debug, Default)]
pub(crate) struct RunSeries {
    columns: SeriesColumns,
    pub(crate) totals: SeriesTotals,
}

/// A curve of an answer.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct NamedSeries {
    arm: String,
    workload: String,
    #[serde(flatten)]
    points: SeriesPoints,
}

/// One run, as far as its events were read.
#[derive(Debug)]
pub(crate) struct RunBoard {
    manifest: RunManifest,
    series: BTreeMap<(String, String), RunSeries>,
    rows: usize,
    trials_done: u64,
    /// The trials that began, by place.
    places: BTreeMap<u32, TrialId>,
    now: Option<TrialNow>,
    /// The trial whose seconds came last, and its response times by kind: they stay until another one has
    /// some.
    pub(crate) measured: Option<TrialId>,
    pub(crate) responses: BTreeMap<OpKind, Histogram>,
    /// Where the trial begins on the axis of the run, and where the last second of all ended.
    offset_s: f64,
    end_s: f64,
    /// Measured and other seconds of the trials that ended.
    spent_s: f64,
}

impl RunBoard {
    pub(crate) fn new(manifest: RunManifest) -> RunBoard {
        RunBoard {
            manifest,
            series: BTreeMap::new(),
            rows: 0,
            trials_done: 0,
            places: BTreeMap::new(),
            now: None,
            measured: None,
            responses: BTreeMap::new(),
            offset_s: 0.0,
            end_s: 0.0,
            spent_s: 0.0,
        }
    }

    pub(crate) fn manifest(&self) -> &RunManifest {
        &self.manifest
    }

    pub(crate) fn series(&self) -> impl Iterator<Item = (&(String, String), &RunSeries)> {
        self.series.iter()
    }

    pub(crate) fn now(&self) -> Option<&TrialNow> {
        self.now.as_ref()
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Takes an event; gives what of it is news.
    pub(crate) fn add(&mut self, event: RunEvent) -> Vec<RunNews> {
        match event {
            RunEvent::ConditioningBegan(start) => vec![RunNews::Note {
                text: format!("{} under {}: {}", start.arm, start.workload, start.what),
            }],
            RunEvent::Conditioned(done) => {
                let text = done.sentence();
                self.manifest.condition(done);
                vec![RunNews::Note { text }]
            }
            RunEvent::TrialBegan(trial) => self.began(trial),
            RunEvent::Prepared { .. } => {
                if let Some(now) = &mut self.now {
                    now.phase = "measure";
                }
                vec![RunNews::Progress]
            }
            RunEvent::Interval { place, interval } => self.second(place, &interval),
            RunEvent::TrialEnded(result) => self.ended(&result),
            RunEvent::Warning(warning) => vec![RunNews::Note {
                text: told(&warning),
            }],
            RunEvent::Designed(found) => {
                self.manifest.adopt(found);
                vec![RunNews::Progress]
            }
            RunEvent::BlocksEnded(ended) => {
                self.manifest.end(ended);
                vec![RunNews::Progress]
            }
            RunEvent::Finished { .. } => {
                self.now = None;
                vec![RunNews::Progress]
            }
        }
    }

    fn began(&mut self, trial: TrialId) -> Vec<RunNews> {
        self.offset_s = self.end_s;
        self.now = Some(TrialNow {
            block: trial.block,
            arm: trial.arm.clone(),
            workload: trial.workload.clone(),
            phase: "prepare",
        });
        self.places.insert(trial.place, trial);
        vec![RunNews::Progress]
    }

    fn second(&mut self, place: u32, interval: &TrialInterval) -> Vec<RunNews> {
        let Some(trial) = self.places.get(&place) else {
            return Vec::new();
        };
        if self.measured.as_ref() != Some(trial) {
            self.measured = Some(trial.clone());
            self.responses.clear();
        }
        let stats = &interval.stats;
        let length_s = interval.length.as_secs_f64();
        let start_s = self.offset_s + interval.start.as_secs_f64();
        self.end_s = self.end_s.max(start_s + length_s);
        let response = stats.response();
        let quantile = |q| match response.is_empty() {
            true => f32::NAN,
            false => narrow(response.quantile_ns(q) as f64 / 1e9),
        };
        let rate = |amount: u64| narrow(amount as f64 / length_s.max(1e-9));
        let values = [
            rate(stats.ops()),
            rate(stats.bytes()),
            quantile(0.5),
            quantile(0.99),
        ];
        let key = (trial.arm.clone(), trial.workload.clone());
        let (arm, workload) = key.clone();
        let series = self.series.entry(key).or_default();
        series.totals.operations = series.totals.operations.saturating_add(stats.ops());
        series.totals.bytes = series.totals.bytes.saturating_add(stats.bytes());
        series.totals.errors = series.totals.errors.saturating_add(stats.errors());
        if self.rows < ROWS_MAX {
            self.rows += 1;
            series.columns.push(&SecondRow {
                start_s,
                length_s: narrow(length_s),
                values,
            });
        }
        for (kind, stats) in &stats.0 {
            self.responses
                .entry(*kind)
                .or_default()
                .merge(&stats.response);
        }
        let [iops, bandwidth, p50, p99] = values;
        let some = |value: f32| (!value.is_nan()).then_some(value);
        vec![RunNews::Second(SecondNews {
            t_s: start_s,
            arm,
            workload,
            iops,
            bandwidth,
            p50_s: some(p50),
            p99_s: some(p99),
            errors: stats.errors(),
        })]
    }

    fn ended(&mut self, result: &TrialResult) -> Vec<RunNews> {
        // A trial that was cut short is played again when the run is resumed.
        self.trials_done += u64::from(!result.interrupted);
        self.spent_s += result.length.as_secs_f64() + result.prepare.as_secs_f64() + BESIDE_S;
        self.now = None;
        let trial = &result.trial;
        let ended = RunNews::Trial {
            arm: trial.arm.clone(),
            workload: trial.workload.clone(),
            block: trial.block,
        };
        vec![ended, RunNews::Progress]
    }

    pub(crate) fn progress(&self) -> RunProgressFacts {
        let planned = Some(self.manifest.planned_trials()).filter(|planned| *planned > 0);
        let design = self.manifest.design.as_ref();
        // Then only the pilot is planned.
        let whole = planned.filter(|_| !design.is_some_and(BlockDesign::awaits_pilot));
        RunProgressFacts {
            trials_done: self.trials_done,
            trials_planned: planned,
            blocks_planned: whole.map(|_| self.manifest.blocks),
            began_at: self.manifest.began_at.clone(),
            ends_in_s: whole.and_then(|planned| self.ends_in_s(planned)),
            now: self.now.clone(),
        }
    }

    /// The time that the remaining trials take, if they are like those that ended; none in virtual time.
    fn ends_in_s(&self, planned: u64) -> Option<f64> {
        let is_virtual = |target: &str| target == "sim" || target.starts_with("sim(");
        let mut arms = self.manifest.arms.iter();
        if arms.any(|arm| is_virtual(&arm.target)) {
            return None;
        }
        let each = match self.trials_done {
            0 => self.planned_s()?,
            done => self.spent_s / done as f64,
        };
        let under_way = self.end_s - self.offset_s;
        let begun = if self.now.is_some() {
            under_way.min(each)
        } else {
            0.0
        };
        Some((planned.saturating_sub(self.trials_done) as f64 * each - begun).max(0.0))
    }

    /// The time of a trial before one has ended, where a length of time ends it.
    fn planned_s(&self) -> Option<f64> {
        let manifest = &self.manifest;
        let mut entries = manifest.entries.iter();
        if manifest.trial_bytes.is_some() || entries.any(|one| one.workload.ends_by_itself()) {
            return None;
        }
        let lengths = manifest.entries.iter().map(|one| one.length.as_secs_f64());
        Some(lengths.sum::<f64>() / manifest.entries.len() as f64 + BESIDE_S)
    }

    /// Where the axis of the run ends.
    pub(crate) fn end_s(&self) -> f64 {
        self.end_s
    }

    /// All curves of a metric in a stretch of time.
    pub(crate) fn points(
        &self,
        metric: SecondMetric,
        stretch: (f64, f64),
        points: usize,
    ) -> Vec<NamedSeries> {
        let named = |((arm, workload), series): (&(String, String), &RunSeries)| NamedSeries {
            arm: arm.clone(),
            workload: workload.clone(),
            points: series.columns.points(metric, stretch, points),
        };
        self.series.iter().map(named).collect()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a chart needs no more digits"
)]
fn narrow(value: f64) -> f32 {
    value as f32
}

/// A warning in one line.
fn told(warning: &RunWarning) -> String {
    match warning.about.as_str() {
        "" => printable(&warning.text),
        about => printable(&format!("{about}: {}", warning.text)),
    }
}
