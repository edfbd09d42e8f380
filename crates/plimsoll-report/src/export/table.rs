// SPDX-License-Identifier: Apache-2.0
//! The tables of a run: its trials and its seconds, a row for each kind of operation and one for all kinds.
//!
//! A percentile that rests on too few operations is missing. Every text is already only text.

use plimsoll_core::event::{
    KindStats, RunFolderContents, TrialId, TrialResult, TrialTimeBin, TrialTimeBinKind,
};
use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::ratio;
use plimsoll_core::text::printable;
use plimsoll_core::units::Nanos;

/// Type of the values in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportColumnType {
    /// Text.
    Text,
    /// A whole number from 0.
    Whole,
    /// A number that may be unknown.
    Real,
    /// Whether something is so.
    Truth,
}
use ExportColumnType::{Real, Text, Truth, Whole};

/// A cell; `None` of a real number is one that is not known.
#[derive(Debug, Clone, PartialEq)]
pub enum ExportValue {
    /// Text.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A number.
    Real(Option<f64>),
    /// Whether something is so.
    Truth(bool),
}

/// A table whose rows are made as they are wanted.
pub struct ExportTable<'a> {
    /// Its name, where a file has several.
    pub name: &'static str,
    /// Names of the columns, and what they hold.
    pub columns: Vec<(&'static str, ExportColumnType)>,
    /// The rows, with a cell for each column.
    pub rows: Box<dyn Iterator<Item = Vec<ExportValue>> + 'a>,
}

impl std::fmt::Debug for ExportTable<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExportTable")
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

/// Which trial a row is of.
const TRIAL: [(&str, ExportColumnType); 6] = [
    ("run", Text),
    ("workload", Text),
    ("arm", Text),
    ("control_of", Text),
    ("block", Whole),
    ("place", Whole),
];

/// The name of the rows of all kinds together.
const ALL_KINDS: &str = "all";

/// The quantiles of each row.
pub(super) const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

fn times_of(
    which: &'static [&'static str; 6],
) -> impl Iterator<Item = (&'static str, ExportColumnType)> {
    which.iter().map(|name| (*name, Real))
}

const RESPONSE: [&str; 6] = [
    "response_mean_s",
    "response_p50_s",
    "response_p90_s",
    "response_p99_s",
    "response_p99_9_s",
    "response_max_s",
];
const SERVICE: [&str; 6] = [
    "service_mean_s",
    "service_p50_s",
    "service_p90_s",
    "service_p99_s",
    "service_p99_9_s",
    "service_max_s",
];

/// Every trial.
pub(super) fn trials(results: &RunFolderContents) -> ExportTable<'_> {
    let mut columns = TRIAL.to_vec();
    columns.extend([
        ("interrupted", Truth),
        ("comparable", Truth),
        ("kind", Text),
        ("length_s", Real),
        ("ops", Whole),
        ("bytes", Whole),
        ("errors", Whole),
        ("ops_per_s", Real),
        ("bytes_per_s", Real),
    ]);
    columns.extend(times_of(&RESPONSE));
    columns.extend(times_of(&SERVICE));
    let rows = results.trials.iter().flat_map(|trial| {
        let mut all = KindStats::default();
        let kinds = &trial.stats.0;
        kinds.values().for_each(|stats| all.merge(stats));
        let named = kinds.iter().map(|(kind, stats)| (kind.name(), stats));
        let row = |kind: &str, stats: &KindStats| {
            let mut row = identity(results, &trial.trial);
            let per_s = |count: u64| {
                ExportValue::Real(Some(ratio(count as f64, trial.length.as_secs_f64())))
            };
            row.extend([
                ExportValue::Truth(trial.interrupted),
                ExportValue::Truth(trial.is_comparable()),
                ExportValue::Text(kind.into()),
                seconds(trial.length.0),
                ExportValue::Whole(stats.ops()),
                ExportValue::Whole(stats.bytes),
                ExportValue::Whole(stats.errors),
                per_s(stats.ops()),
                per_s(stats.bytes),
            ]);
            row.extend(times(&stats.response));
            row.extend(times(&stats.service));
            row
        };
        let mut rows: Vec<_> = named.map(|(kind, stats)| row(kind, stats)).collect();
        rows.push(row(ALL_KINDS, &all));
        rows
    });
    ExportTable {
        name: "trials",
        columns,
        rows: Box::new(rows),
    }
}

/// Every second of every trial that ended: which trial others are of is not known.
pub(super) fn intervals(results: &RunFolderContents) -> ExportTable<'_> {
    let mut columns = TRIAL.to_vec();
    columns.extend([
        ("kind", Text),
        ("t_s", Real),
        ("length_s", Real),
        ("ops", Whole),
        ("bytes", Whole),
        ("errors", Whole),
    ]);
    columns.extend(times_of(&RESPONSE));
    let rows = seconds_of_trials(results).flat_map(|(trial, bins)| {
        let trial = identity(results, &trial.trial);
        bins.iter().flat_map(move |bin| {
            let mut all = TrialTimeBinKind::default();
            bin.kinds.values().for_each(|stats| all.merge(stats));
            let row = |kind: &str, stats: &TrialTimeBinKind| {
                let mut row = trial.clone();
                row.extend([
                    ExportValue::Text(kind.into()),
                    seconds(bin.start.0),
                    seconds(bin.length.0),
                    ExportValue::Whole(stats.response.count()),
                    ExportValue::Whole(stats.bytes),
                    ExportValue::Whole(stats.errors),
                ]);
                row.extend(times(&stats.response));
                row
            };
            let named = bin.kinds.iter();
            let mut rows: Vec<_> = named.map(|(kind, stats)| row(kind.name(), stats)).collect();
            rows.push(row(ALL_KINDS, &all));
            rows
        })
    });
    ExportTable {
        name: "intervals",
        columns,
        rows: Box::new(rows),
    }
}

/// The trials that ended, each with its seconds, in the order they ran.
pub(super) fn seconds_of_trials(
    results: &RunFolderContents,
) -> impl Iterator<Item = (&TrialResult, &[TrialTimeBin])> {
    results.trials.iter().map(|trial| {
        let bins = results.intervals.get(&trial.trial.place);
        (trial, bins.map_or(&[][..], Vec::as_slice))
    })
}

fn identity(results: &RunFolderContents, trial: &TrialId) -> Vec<ExportValue> {
    let mut arms = results.manifest.arms.iter();
    let arm = arms.find(|arm| arm.name == trial.arm);
    let control_of = arm.and_then(|arm| arm.control_of.as_deref());
    vec![
        ExportValue::Text(printable(&results.manifest.id)),
        ExportValue::Text(printable(&trial.workload)),
        ExportValue::Text(printable(&trial.arm)),
        ExportValue::Text(printable(control_of.unwrap_or_default())),
        ExportValue::Whole(trial.block.into()),
        ExportValue::Whole(trial.place.into()),
    ]
}

fn seconds(ns: u64) -> ExportValue {
    ExportValue::Real(Some(Nanos(ns).as_secs_f64()))
}

/// Mean, quantiles and maximum.
fn times(histogram: &Histogram) -> impl Iterator<Item = ExportValue> {
    let has_any = !histogram.is_empty();
    let mean = has_any.then(|| histogram.mean_ns() / 1e9);
    let quantiles = QUANTILES.map(|q| quantile_s(histogram, q));
    let max = has_any.then(|| Nanos(histogram.max_ns()).as_secs_f64());
    let all = [mean].into_iter().chain(quantiles).chain([max]);
    all.map(ExportValue::Real)
}

/// A quantile, where enough operations stand behind it.
pub(super) fn quantile_s(histogram: &Histogram, q: f64) -> Option<f64> {
    let is_known = histogram.supports_quantile(q);
    is_known.then(|| Nanos(histogram.quantile_ns(q)).as_secs_f64())
}
