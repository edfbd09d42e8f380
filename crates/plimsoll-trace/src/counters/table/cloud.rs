// SPDX-License-Identifier: Apache-2.0
//! Answers of AWS CloudWatch about metrics of a disk, as its command line prints them.
//!
//! Sources: the references of `get-metric-statistics` (a label and unsorted data points) and of
//! `get-metric-data` (lists of instants and values by label). Times mark the beginning of an interval; of EBS
//! volumes and instances there is how much was in it (statistic `Sum`).

use plimsoll_core::mapping::MappingKind;
use serde_json::{Map, Value};

use super::super::{CounterScanSummary, Give};
use super::columns::TableColumns;
use super::json::text;
use super::names::is_of_cloud;
use super::reader::{TableCell, TableReader, figure_of};
use super::{disk_name, wrong};
use crate::error::TraceError;
use crate::input::RecordingInput;

const STATISTIC: &str = "its values are taken as sums of each interval (statistic Sum), as the answer does \
                         not say which statistic they are";

const STATISTICS: [&str; 5] = ["Sum", "Average", "Minimum", "Maximum", "SampleCount"];

/// Whether a file that begins so is such an answer.
pub(super) fn is_one(head: &[u8]) -> bool {
    let has = |word: &str| {
        head.windows(word.len())
            .any(|found| found == word.as_bytes())
    };
    let is_json = head.trim_ascii_start().starts_with(b"{");
    is_json && (has("\"Datapoints\"") && has("\"Timestamp\"") || has("\"MetricDataResults\""))
}

/// Whether an object is such an answer.
pub(super) fn is_answer(object: &Map<String, Value>) -> bool {
    object.contains_key("Datapoints") || object.contains_key("MetricDataResults")
}

/// A value of a metric at an instant.
struct CloudPoint<'a> {
    metric: &'a str,
    /// What the values are, if the label says it.
    statistic: Option<&'a str>,
    disk: &'a str,
    time: Option<&'a Value>,
    /// The value, or the object that has one for each statistic.
    value: Option<&'a Value>,
}

pub(super) fn scan(
    answers: &[Map<String, Value>],
    input: &RecordingInput,
    told: &mut CounterScanSummary,
    give: &mut Give<'_>,
) -> Result<(), TraceError> {
    let names = ["time", "metric", "value"].map(str::to_owned);
    let columns = TableColumns::of_names(&names).ok().flatten();
    let Some(mut columns) = columns else {
        return Err(wrong(input, "it is no table".into()));
    };
    columns.time.is_begin = true;
    let only = disk_name(input);
    let mut reader = TableReader::new(columns, &only, told);
    for point in answers.iter().flat_map(|answer| points(answer, &only)) {
        match take(&point, &mut reader, told) {
            Ok(()) => told.wrong.right(),
            Err(what) => {
                let _ = told.wrong.wrong(0, &what, point.metric.as_bytes());
            }
        }
    }
    reader.finish(told, give).map_err(|what| wrong(input, what))
}

fn take(
    point: &CloudPoint<'_>,
    reader: &mut TableReader,
    told: &mut CounterScanSummary,
) -> Result<(), String> {
    let Some((figure, kind)) = reader.cloud_figure(point.metric)? else {
        return Ok(());
    };
    let statistic = match kind {
        MappingKind::Sum => "Sum",
        _ => "Average",
    };
    let value = match point.value {
        Some(Value::Object(statistics)) => {
            let found = statistics.get(statistic);
            if found.is_none() {
                return Err(format!(
                    "its points lack the statistic {statistic}; ask for --statistics {statistic}"
                ));
            }
            found
        }
        other => {
            match point.statistic {
                Some(said) if said != statistic => {
                    return Err(format!(
                        "its values are the statistic {said}, not {statistic}"
                    ));
                }
                None if kind == MappingKind::Sum => told.warn_once(STATISTIC),
                _ => {}
            }
            other
        }
    };
    let (Some(time), Some(value)) = (point.time.and_then(text), value.and_then(text)) else {
        return Ok(());
    };
    let at = reader.instant(TableCell::Text(time.as_bytes()), told)?;
    match figure_of(TableCell::Text(value.as_bytes()), &reader.columns)? {
        Some(value) => reader.hold(figure, point.disk.as_bytes(), at, value),
        None => Ok(()),
    }
}

/// The values of an answer.
fn points<'a>(answer: &'a Map<String, Value>, only: &'a str) -> Vec<CloudPoint<'a>> {
    let list = |value: Option<&'a Value>| {
        value
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice)
    };
    let word = |value: Option<&'a Value>| value.and_then(Value::as_str).unwrap_or_default();
    let mut found = Vec::new();
    for point in list(answer.get("Datapoints")) {
        found.push(CloudPoint {
            metric: word(answer.get("Label")),
            statistic: None,
            disk: only,
            time: point.get("Timestamp"),
            value: Some(point),
        });
    }
    for series in list(answer.get("MetricDataResults")) {
        let label = word(series.get("Label"));
        // A label may name the volume and the statistic beside the metric.
        let mut words = label.split_whitespace();
        let metric = words
            .clone()
            .find(|word| is_of_cloud(word))
            .unwrap_or(label);
        let statistic = words.clone().find(|word| STATISTICS.contains(word));
        let disk = words.find(|word| *word != metric && Some(*word) != statistic);
        let times = list(series.get("Timestamps"));
        for (time, value) in times.iter().zip(list(series.get("Values"))) {
            found.push(CloudPoint {
                metric,
                statistic,
                disk: disk.unwrap_or(only),
                time: Some(time),
                value: Some(value),
            });
        }
    }
    found
}
