// SPDX-License-Identifier: Apache-2.0
//! A run as one JSON document for other programs: flat, in seconds and bytes, units in the names.
//!
//! Run folders keep more (whole histograms, workloads, facts of machines) in their own formats.

use crate::comparison::{ComparisonMetric, ComparisonVerdict, RatioEstimate};
use crate::format::FormatVersion;
use crate::op::OpKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunExportDocument {
    /// [`FormatVersion::EXPORT`] of the program that wrote it.
    pub format: FormatVersion,
    /// Version of the program that measured.
    pub program: String,
    /// Identifier of the run.
    pub id: String,
    /// When it began, RFC 3339.
    pub began_at: String,
    /// The command line.
    pub command: Vec<String>,
    /// Seed of all randomness.
    pub seed: u64,
    /// Whether the plan was carried out to its end.
    pub complete: bool,
    /// Confidence of the intervals, such as 0.95.
    pub confidence: f64,
    /// Two arms within this fraction of each other are equivalent.
    pub margin: f64,
    /// The answer, the most wanted first.
    pub answer: Vec<RunExportFinding>,
    /// The systems.
    pub arms: Vec<RunExportArm>,
    /// The workloads.
    pub workloads: Vec<RunExportWorkload>,
    /// The verdicts.
    pub verdicts: Vec<RunExportVerdict>,
    /// Trials that ended, in the order they ran, with their seconds.
    pub trials: Vec<RunExportTrial>,
    /// Warnings for readers.
    pub warnings: Vec<RunExportWarning>,
}

/// One part of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunExportFinding {
    /// One or two words: the verdict.
    pub mark: String,
    /// The statement.
    pub text: String,
    /// How sure it is, and what else there is to say; may be empty.
    pub detail: String,
}

/// A system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunExportArm {
    /// Its name.
    pub name: String,
    /// The target, as given on the command line.
    pub target: String,
    /// Description, in one line.
    pub description: String,
    /// The arm whose second entry this is (the A/A control).
    pub control_of: Option<String>,
}

/// A workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunExportWorkload {
    /// Its label.
    pub label: String,
    /// Name of what is played.
    pub workload: String,
    /// Factor on the rates of a model; 1 for closed loops.
    pub scale: f64,
    /// Length of the measured part of each trial, as planned.
    pub length_s: f64,
}

/// One arm compared with the base under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunExportVerdict {
    /// Workload, with the phase where it has several.
    pub workload: String,
    /// The arm.
    pub arm: String,
    /// The base.
    pub base: String,
    /// Whether `arm` is the base's own second entry (the A/A control).
    pub is_control: bool,
    /// The metric.
    pub metric: ComparisonMetric,
    /// Unit of the values: `s`, `ops/s`, `bytes/s` or `1`.
    pub unit: String,
    /// Geometric mean of the base's values; `null` where there is none.
    pub base_value: Option<f64>,
    /// Geometric mean of the arm's values.
    pub arm_value: Option<f64>,
    /// Arm ÷ base; `null` below two blocks.
    pub ratio: Option<RatioEstimate>,
    /// The verdict.
    pub verdict: ComparisonVerdict,
    /// Whether the arm is better than the base, where they are different.
    pub is_better: Option<bool>,
    /// The reason of the verdict; may be empty.
    pub reason: String,
    /// Blocks in which both have a value.
    pub blocks: u32,
    /// Largest difference, as a fraction, that the A/A control admits.
    pub noise_floor: Option<f64>,
    /// Smallest true effect, as a fraction, that these blocks detect with a power of 80 %.
    pub detectable: Option<f64>,
}

/// A trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunExportTrial {
    /// Block, from 0.
    pub block: u32,
    /// Place in the whole order, from 0.
    pub place: u32,
    /// The arm.
    pub arm: String,
    /// The workload.
    pub workload: String,
    /// Length of the measured part.
    pub length_s: f64,
    /// Time spent preparing.
    pub prepare_s: f64,
    /// Whether the user cut it short.
    pub interrupted: bool,
    /// Whether it counts in verdicts.
    pub comparable: bool,
    /// When and why the storage ended it.
    pub failed: Option<String>,
    /// Whether data were lost or damaged; `null` where nothing was verified.
    pub lost_data: Option<bool>,
    /// Names of the load nodes that were lost; absent where none was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_nodes: Vec<String>,
    /// The share of the load that was really offered, where nodes were lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_share: Option<f64>,
    /// Its operations by kind.
    #[cfg_attr(test, schemars(schema_with = "by_kind::<RunExportKind>"))]
    pub kinds: BTreeMap<OpKind, RunExportKind>,
    /// Its seconds.
    pub intervals: Vec<RunExportInterval>,
}

/// Operations of one kind in a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunExportKind {
    /// Operations.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// From the intended start to the completion.
    pub response: RunExportTimes,
    /// From the submission to the completion.
    pub service: RunExportTimes,
}

/// About a second of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunExportInterval {
    /// Its start, on the trial's clock.
    pub t_s: f64,
    /// Its length.
    pub length_s: f64,
    /// Operations that ended in it, by kind.
    #[cfg_attr(test, schemars(schema_with = "by_kind::<RunExportIntervalKind>"))]
    pub kinds: BTreeMap<OpKind, RunExportIntervalKind>,
}

/// Operations of one kind that ended in a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunExportIntervalKind {
    /// Operations.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// From the intended start to the completion.
    pub response: RunExportTimes,
}

/// A distribution of times; `null` where too few operations stand behind a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunExportTimes {
    /// Mean.
    pub mean_s: Option<f64>,
    /// Median.
    pub p50_s: Option<f64>,
    /// 90th percentile.
    pub p90_s: Option<f64>,
    /// 99th percentile.
    pub p99_s: Option<f64>,
    /// 99.9th percentile.
    pub p99_9_s: Option<f64>,
    /// Largest.
    pub max_s: Option<f64>,
}

/// Something a reader of the results should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunExportWarning {
    /// Subject of the warning; empty for the whole run.
    pub about: String,
    /// The sentence.
    pub text: String,
}

/// The derived schema takes any key.
#[cfg(test)]
fn by_kind<T: schemars::JsonSchema>(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "propertyNames": generator.subschema_for::<OpKind>(),
        "additionalProperties": generator.subschema_for::<T>(),
    })
}
