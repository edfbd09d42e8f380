// SPDX-License-Identifier: Apache-2.0
//! Answers of AWS CloudWatch about metrics of a disk, as its command line prints them.
//!
//! Sources: the references of `get-metric-statistics` (a label and unsorted data points) and of
//! `get-metric-data` (lists of instants and values by label). Times mark the beginning of an interval; of EBS
//! volumes and instances there is how much was in it (statistic `Sum`).

use plimsoll_core::mapping::MappingKind;
use serde_json::{Map, Value};

use super::super::CounterScan;
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

/// A metric of a disk, as a label names it.
struct CloudSeries<'a> {
    metric: &'a str,
    disk: &'a str,
    /// Statistic of its values, if the label names it.
    statistic: Option<&'a str>,
}

impl<'a> CloudSeries<'a> {
    /// A label may name the volume and the statistic beside the metric.
    fn of(label: &'a str, only: &'a str) -> CloudSeries<'a> {
        let mut words = label.split_whitespace();
        let metric = words
            .clone()
            .find(|word| is_of_cloud(word))
            .unwrap_or(label);
        let statistic = words.clone().find(|word| STATISTICS.contains(word));
        let disk = words.find(|word| *word != metric && Some(*word) != statistic);
        CloudSeries {
            metric,
            disk: disk.filter(|_| metric != label).unwrap_or(only),
            statistic,
        }
    }

    /// Takes a value, or a point that has one for each statistic.
    fn take(
        &self,
        time: Option<&Value>,
        point: &Value,
        reader: &mut TableReader,
        scan: &mut CounterScan<'_>,
    ) -> Result<(), String> {
        let Some((figure, kind)) = reader.cloud_figure(self.metric)? else {
            return Ok(());
        };
        let wanted = match kind {
            MappingKind::Sum => "Sum",
            _ => "Average",
        };
        let value = match (point, self.statistic) {
            (Value::Object(statistics), _) => statistics.get(wanted).ok_or_else(|| {
                format!("its points lack the statistic {wanted}; ask for --statistics {wanted}")
            })?,
            (_, Some(said)) if said != wanted => {
                return Err(format!("its values are the statistic {said}, not {wanted}"));
            }
            (value, None) if kind == MappingKind::Sum => {
                scan.warn_once(STATISTIC);
                value
            }
            (value, _) => value,
        };
        let (Some(time), Some(value)) = (time.and_then(text), text(value)) else {
            return Err("a point has no time, or no value".into());
        };
        let at = reader.instant(TableCell::Text(time.as_bytes()), scan)?;
        match figure_of(TableCell::Text(value.as_bytes()), &reader.columns)? {
            Some(value) => reader.hold(figure, self.disk.as_bytes(), at, value),
            None => Ok(()),
        }
    }
}

pub(super) fn scan(
    answers: &[Map<String, Value>],
    input: &RecordingInput,
    scan: &mut CounterScan<'_>,
) -> Result<(), TraceError> {
    let names = ["time", "metric", "value"].map(str::to_owned);
    let Ok(Some(mut columns)) = TableColumns::of_names(&names) else {
        return Err(wrong(input, "it is no table"));
    };
    columns.time.is_begin = true;
    let only = disk_name(input);
    let mut reader = TableReader::new(columns, &only, scan);
    let list = |object: &'_ Value, key: &str| {
        object
            .get(key)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    for answer in answers {
        let answer = Value::Object(answer.clone());
        let points = list(&answer, "Datapoints");
        let mut found: Vec<(&Value, Option<&Value>, &Value)> = points
            .iter()
            .map(|point| (&answer, point.get("Timestamp"), point))
            .collect();
        let results = list(&answer, "MetricDataResults");
        let lists: Vec<_> = results
            .iter()
            .map(|one| (list(one, "Timestamps"), list(one, "Values")))
            .collect();
        for (one, (times, values)) in results.iter().zip(&lists) {
            found.extend(
                times
                    .iter()
                    .zip(values)
                    .map(|(time, value)| (one, Some(time), value)),
            );
        }
        for (labelled, time, point) in found {
            let label = labelled
                .get("Label")
                .and_then(Value::as_str)
                .unwrap_or_default();
            match CloudSeries::of(label, &only).take(time, point, &mut reader, scan) {
                Ok(()) => scan.right(),
                Err(what) => drop(scan.told.wrong.wrong(0, &what, label.as_bytes())),
            }
        }
    }
    reader.finish(scan).map_err(|what| wrong(input, what))
}
