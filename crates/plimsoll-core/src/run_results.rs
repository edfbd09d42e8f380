// SPDX-License-Identifier: Apache-2.0
//! The results of a run as one document for other programs: `--json`, the exported file and the data inside a
//! page are this document, with more or fewer trials and intervals.
//!
//! Times are nanoseconds; other units are the end of the name. Run folders keep more (whole histograms,
//! workloads) in their own formats.

use crate::campaign::CampaignSpec;
use crate::comparison::{
    ArmComparison, ComparisonMetric, ComparisonVerdict, LoadLoopComparison, RatioEstimate,
    VerdictPolicy,
};
use crate::conditioning::SystemConditioning;
use crate::data_check::DataCheckResult;
use crate::design::BlockDesign;
use crate::event::{
    ArmEntry, ClientCondition, ClientLoadNode, ClientLoadNodeLoss, DeviceUse, GeneratorStats,
    LoadLoopEntry, RunWarning, ServerUse, WorkerResult,
};
use crate::evidence::MachineUse;
use crate::explanation::{ArmExplanations, ThroughputCliff};
use crate::failover::{FaultInjection, FaultResult, StackCondition};
use crate::format::FormatVersion;
use crate::histogram::Histogram;
use crate::load_line::{LoadLineGoal, LoadLineRequest, LoadLineRequirement, SloResult};
use crate::model::FidelityCheck;
use crate::op::OpKind;
use crate::rng::Seed;
use crate::target::MachineFacts;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The document.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunResultsDocument {
    /// [`FormatVersion::RESULTS`] of the program that wrote it.
    pub format: FormatVersion,
    /// Where the run was read from; absent in a page and in an exported file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Version of the program that measured.
    pub program: String,
    /// Identifier of the run.
    pub id: String,
    /// When it began, RFC 3339.
    pub began_at: String,
    /// The command line.
    pub command: Vec<String>,
    /// Seed of all randomness.
    pub seed: Seed,
    /// Whether the plan was carried out to its end.
    pub complete: bool,
    /// How verdicts are reached.
    pub policy: VerdictPolicy,
    /// Blocks planned.
    pub blocks: u32,
    /// Goal of the blocks and how they end, where that is not just their number.
    pub design: Option<BlockDesign>,
    /// Conditioning of the systems before the first block.
    pub conditioning: Option<SystemConditioning>,
    /// Bytes of the measured part after which a trial ends, if that is before its time.
    pub trial_bytes: Option<u64>,
    /// The campaign that was carried out; unknown of runs before 2.8.
    pub campaign: Option<CampaignSpec>,
    /// The machine.
    pub machine: MachineFacts,
    /// Versions of the programs and packages involved.
    pub versions: BTreeMap<String, String>,
    /// The machines that generate the load; empty when it is this one.
    pub load_nodes: Vec<ClientLoadNode>,
    /// The systems.
    pub arms: Vec<ArmEntry>,
    /// The workloads.
    pub workloads: Vec<RunResultsWorkload>,
    /// The answer, the most wanted first.
    pub answer: Vec<RunResultsFinding>,
    /// The verdicts on each workload's metric.
    pub comparisons: Vec<ArmComparison>,
    /// Verdicts on other metrics.
    pub secondary: Vec<ArmComparison>,
    /// Closed loops beside open ones of the same throughput.
    pub loops: Vec<LoadLoopComparison>,
    /// The load lines.
    pub load_lines: RunResultsLoadLines,
    /// Limits of the trials, and whether they were kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<SloResult>,
    /// Limits and causes of differences, with their evidence.
    pub explanations: Vec<ArmExplanations>,
    /// Throughputs that fell and stayed there.
    pub cliffs: Vec<ThroughputCliff>,
    /// Trials that ended, in the order they ran.
    pub trials: Vec<RunResultsTrial>,
    /// Trials for which a page had no room: the run folder has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials_left_out: Option<usize>,
    /// Warnings for readers.
    pub warnings: Vec<RunWarning>,
}

/// One part of the answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunResultsFinding {
    /// One or two words: the verdict.
    pub mark: String,
    /// The statement.
    pub text: String,
    /// How sure it is, and what else there is to say; may be empty.
    pub detail: String,
}

/// A workload, without its description, which the run folder keeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunResultsWorkload {
    /// Its label.
    pub label: String,
    /// Name of the program, model or classic that is played.
    pub workload: String,
    /// Factor on the rates of a model; 1 for closed loops.
    pub scale: f64,
    /// Length of the measured part of each trial, as planned.
    pub length_ns: Nanos,
    /// Bytes of its files.
    pub data_set_bytes: u64,
    /// Whether it passes by the page cache.
    pub direct: bool,
    /// The fault that its trials inject.
    pub inject: Option<FaultInjection>,
    /// The condition of the system in its trials.
    pub condition: Option<StackCondition>,
    /// The load line that its trials search.
    pub load_line: Option<LoadLineGoal>,
    /// The processors of the load generator, where those are varied.
    pub client: Option<ClientCondition>,
    /// Its counterpart in the other kind of loop.
    pub load_loop: Option<LoadLoopEntry>,
}

/// All load lines of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunResultsLoadLines {
    /// By workload and system.
    pub lines: Vec<RunResultsLoadLine>,
    /// Each against the first system under the same workload.
    pub ratios: Vec<RunResultsLoadLineRatio>,
}

/// The load line of a system under a workload.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunResultsLoadLine {
    /// Label of the workload.
    pub workload: String,
    /// The system.
    pub arm: String,
    /// The limits, as they were given.
    pub limits: Vec<String>,
    /// Unit of the multiples: `times` the workload, or `clients`.
    pub unit: String,
    /// Whether trials lie on both sides of the line.
    pub has_edge: bool,
    /// Which ends of the interval are figures: `between`, `at least`, `below`, `unknown`.
    pub reach: String,
    /// The other programs, if their use of the machine decides the line.
    pub disturbed_by: Option<String>,
    /// The sustained multiple: low, point, high.
    pub sustained: [f64; 3],
    /// The multiple that is carried for a short while, where it is another.
    pub burst: Option<[f64; 3]>,
    /// The limit that is reached first.
    pub binding: Option<String>,
    /// Why the search ended.
    pub stop: Option<String>,
    /// Trials of the search.
    pub trials: usize,
    /// Measured time of those trials, in seconds.
    pub trial_seconds: f64,
    /// Operations per second at the line.
    pub ops_per_s: Option<f64>,
    /// Bytes per second at the line.
    pub bytes_per_s: Option<f64>,
    /// Cost of a million operations at the line.
    pub cost_per_million: Option<f64>,
    /// The published requirement that the workload is of.
    pub requirement: Option<LoadLineRequirement>,
    /// Whether the system fits that requirement.
    pub fit: Option<String>,
    /// The resource that is used up first.
    pub saturates_first: Option<String>,
    /// Energy of a million operations at the line, by where it was read.
    pub joules_per_million: BTreeMap<String, f64>,
}

/// Two load lines under one workload.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunResultsLoadLineRatio {
    /// Label of the workload.
    pub workload: String,
    /// The system.
    pub arm: String,
    /// The system it is compared with.
    pub base: String,
    /// System ÷ base.
    pub ratio: RatioEstimate,
    /// The verdict.
    pub verdict: ComparisonVerdict,
}

/// A trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunResultsTrial {
    /// Block, from 0.
    pub block: u32,
    /// Place in the whole order, from 0.
    pub place: u32,
    /// The system.
    pub arm: String,
    /// The workload.
    pub workload: String,
    /// The metric that the workload is compared on; absent where its phases have their own.
    pub metric: Option<ComparisonMetric>,
    /// The value of that metric.
    pub value: Option<f64>,
    /// Length of the measured part.
    pub length_ns: Nanos,
    /// Time spent preparing.
    pub prepare_ns: Nanos,
    /// Whether the user cut it short.
    pub interrupted: bool,
    /// Whether it counts in verdicts.
    pub comparable: bool,
    /// When and why the storage ended it.
    pub failed: Option<String>,
    /// Whether data were lost or damaged; `null` where nothing was verified.
    pub lost_data: Option<bool>,
    /// Operations that ended.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// From the intended start to the completion.
    pub response_ns: RunResultsTimes,
    /// From the submission to the completion.
    pub service_ns: RunResultsTimes,
    /// From the intended start to the submission.
    pub lag_ns: RunResultsTimes,
    /// Its operations by kind.
    #[cfg_attr(test, schemars(schema_with = "by_kind::<RunResultsOperations>"))]
    pub kinds: BTreeMap<OpKind, RunResultsOperations>,
    /// The phases, for workloads that have them.
    pub phases: Vec<RunResultsPhase>,
    /// The result of each worker, for workloads without phases.
    pub workers: Vec<WorkerResult>,
    /// The cost of the load generator, and whether it kept up.
    pub generator: GeneratorStats,
    /// The submitted load compared with the model; empty for closed loops.
    pub fidelity: Vec<FidelityCheck>,
    /// Result of data verification, where that was requested.
    pub data_check: Option<DataCheckResult>,
    /// Activity of the block device of the system.
    pub device: Option<DeviceUse>,
    /// Resources used by the servers of the system.
    pub servers: Vec<ServerUse>,
    /// Activity of the machines that generate the load.
    pub machines: Vec<MachineUse>,
    /// Results by node, where the load came from other machines.
    pub nodes: Vec<RunResultsNode>,
    /// The share of the load that was really offered, where nodes were lost.
    pub offered_share: Option<f64>,
    /// Result of the fault that was injected meanwhile.
    pub fault: Option<FaultResult>,
    /// Request that the trial served, where a load line is searched.
    pub load_line: Option<LoadLineRequest>,
    /// Its seconds; absent but in an exported file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<RunResultsInterval>,
}

/// Operations and their times.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunResultsOperations {
    /// Operations that ended.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// From the intended start to the completion.
    pub response_ns: RunResultsTimes,
    /// From the submission to the completion; absent in intervals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_ns: Option<RunResultsTimes>,
}

/// A phase of a trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunResultsPhase {
    /// Name of the phase.
    pub name: String,
    /// The metric it is compared on.
    pub metric: ComparisonMetric,
    /// The value of that metric.
    pub value: f64,
    /// From the start of the workers to the end of the last one.
    pub wall_ns: Nanos,
    /// CPU time in user space.
    pub user_cpu_ns: u64,
    /// CPU time in the kernel.
    pub system_cpu_ns: u64,
    /// Operations that ended.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// From the intended start to the completion.
    pub response_ns: RunResultsTimes,
    /// By worker; empty for programs.
    pub workers: Vec<WorkerResult>,
}

/// One load node in a trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunResultsNode {
    /// Its name.
    pub node: String,
    /// Its clock against ours just before the start.
    pub clock_offset_ns: i64,
    /// How far that may be wrong.
    pub clock_uncertainty_ns: Nanos,
    /// How long after the agreed instant it began.
    pub began_ns: Option<i64>,
    /// Length of its measured part.
    pub length_ns: Nanos,
    /// Operations that ended.
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Operations that failed.
    pub errors: u64,
    /// From the intended start to the completion.
    pub response_ns: RunResultsTimes,
    /// Figures of its generator.
    pub generator: GeneratorStats,
    /// When and how it was lost, if it was.
    pub lost: Option<ClientLoadNodeLoss>,
}

/// About a second of a trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunResultsInterval {
    /// Its start, on the trial's clock.
    pub start_ns: Nanos,
    /// Its length.
    pub length_ns: Nanos,
    /// Operations that ended in it, by kind.
    #[cfg_attr(test, schemars(schema_with = "by_kind::<RunResultsOperations>"))]
    pub kinds: BTreeMap<OpKind, RunResultsOperations>,
}

/// A distribution of times; `null` where too few operations are behind a figure.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RunResultsTimes {
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    pub p99_9: Option<u64>,
    /// Largest.
    pub max: Option<u64>,
}

impl From<&Histogram> for RunResultsTimes {
    fn from(histogram: &Histogram) -> Self {
        if histogram.is_empty() {
            return RunResultsTimes::default();
        }
        let quantile = |q: f64| {
            let is_known = histogram.supports_quantile(q);
            is_known.then(|| histogram.quantile_ns(q))
        };
        RunResultsTimes {
            mean: Some(histogram.mean_ns()),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            max: Some(histogram.max_ns()),
        }
    }
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
