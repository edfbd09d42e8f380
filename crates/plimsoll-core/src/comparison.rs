// SPDX-License-Identifier: Apache-2.0
//! Comparisons of arms: verdicts, and their confidence.

use serde::{Deserialize, Serialize};

use ComparisonUnit::{Bytes, Index, LogRatio, Rate, Throughput, Time};

/// The unit of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonUnit {
    /// Nanoseconds.
    Time,
    /// Operations per second.
    Rate,
    /// Bytes per second.
    Throughput,
    /// Bytes.
    Bytes,
    /// A number from 0 to 1.
    Index,
    /// |ln ratio|.
    LogRatio,
}

/// Of each metric, in the order of [`ComparisonMetric`]: its name for people, its name in databases, and
/// the unit of its values.
const FACTS: [(&str, &str, ComparisonUnit); 13] = [
    ("mean response time", "mean_response_ns", Time),
    ("operations per second", "ops_per_s", Rate),
    ("throughput", "bytes_per_s", Throughput),
    ("wall time", "wall_time_ns", Time),
    ("write outage", "write_outage_ns", Time),
    ("degraded time", "degraded_time_ns", Time),
    ("p99 response time", "p99_response_ns", Time),
    ("p99.9 response time", "p999_response_ns", Time),
    ("client CPU per operation", "client_cpu_per_op_ns", Time),
    ("preparation time", "preparation_ns", Time),
    ("evenness among clients", "client_evenness", Index),
    ("run-to-run variation", "run_to_run_variation", LogRatio),
    ("output size", "output_bytes", Bytes),
];

/// A metric that arms are compared on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ComparisonMetric {
    /// Mean response time of all operations; less is better.
    MeanResponse,
    /// Operations per second; more is better.
    OpsPerSecond,
    /// Bytes per second; more is better.
    BytesPerSecond,
    /// Time from the start to the end of the work; less is better.
    WallTime,
    /// Longest time without an acknowledged write, of any session, after a fault; less is better.
    WriteOutage,
    /// Time from a fault until the sessions work as before; less is better.
    BrownOut,
    /// 99th percentile of the response times; less is better.
    P99Response,
    /// 99.9th percentile of the response times; less is better.
    P999Response,
    /// CPU time of the load generator per operation; less is better.
    CpuPerOperation,
    /// Time spent preparing, such as laying out files; less is better.
    PreparationTime,
    /// Jain's index of the rates of clients: 1 when all are served alike, 1/n when one of n has
    /// everything; more is better.
    ClientEvenness,
    /// How far trials of one system lie from their median, as |ln ratio|; less is better. Of an arm, not
    /// of a trial.
    RunToRunVariation,
    /// Bytes of the files that a command leaves in its directory; less is better.
    OutputSize,
}

impl ComparisonMetric {
    /// Metrics compared beside the one metric of a workload, in the order of reports. Never the
    /// metric of a workload, so that no exit code depends on them.
    pub const SECONDARY: [ComparisonMetric; 6] = [
        ComparisonMetric::P99Response,
        ComparisonMetric::P999Response,
        ComparisonMetric::RunToRunVariation,
        ComparisonMetric::ClientEvenness,
        ComparisonMetric::CpuPerOperation,
        ComparisonMetric::PreparationTime,
    ];

    /// As people read it.
    pub fn name(self) -> &'static str {
        FACTS[self as usize].0
    }

    /// As databases name it.
    pub fn stored_name(self) -> &'static str {
        FACTS[self as usize].1
    }

    /// The unit of its values.
    #[must_use]
    pub fn unit(self) -> ComparisonUnit {
        FACTS[self as usize].2
    }

    /// The quantile of the response times that it is.
    #[must_use]
    pub fn quantile(self) -> Option<f64> {
        match self {
            ComparisonMetric::P99Response => Some(0.99),
            ComparisonMetric::P999Response => Some(0.999),
            _ => None,
        }
    }

    /// Whether a larger value is the better one.
    #[must_use]
    pub fn more_is_better(self) -> bool {
        matches!(
            self,
            ComparisonMetric::OpsPerSecond
                | ComparisonMetric::BytesPerSecond
                | ComparisonMetric::ClientEvenness
        )
    }

    /// A value with its unit; times are in nanoseconds.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self.unit() {
            ComparisonUnit::Time => {
                crate::units::duration(crate::units::Nanos(crate::num::round_u64(value)))
            }
            ComparisonUnit::Rate => format!("{} ops/s", crate::units::rate(value)),
            ComparisonUnit::Throughput => crate::units::throughput(value),
            ComparisonUnit::Bytes => crate::units::size(value),
            ComparisonUnit::Index => crate::units::three_digits(value),
            ComparisonUnit::LogRatio => {
                format!("± {} %", crate::units::three_digits(100.0 * value.exp_m1()))
            }
        }
    }
}

/// When the blocks of a comparison end. A verdict keeps its promise only under the rule that its
/// blocks were ended by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StoppingRule {
    /// After a number that was fixed before the first.
    #[default]
    Fixed,
    /// After a number that the noise of the first few sets (Stein): one look at the noise, none at
    /// the effect.
    TwoStage,
    /// Whenever one wishes: there may be a look after every block.
    Anytime,
}

impl StoppingRule {
    /// Whether this is the rule of run folders that do not name one.
    pub fn is_fixed(&self) -> bool {
        *self == StoppingRule::Fixed
    }
}

/// How decisions are made; fixed before the first block.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct VerdictPolicy {
    /// Confidence of the intervals, such as 0.95.
    pub confidence: f64,
    /// Two arms within this fraction of each other are equivalent, such as 0.05.
    pub margin: f64,
    /// When the blocks end.
    #[serde(default, skip_serializing_if = "StoppingRule::is_fixed")]
    pub stopping: StoppingRule,
}

impl Default for VerdictPolicy {
    fn default() -> Self {
        VerdictPolicy {
            confidence: 0.95,
            margin: 0.05,
            stopping: StoppingRule::Fixed,
        }
    }
}

/// The verdict on two arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ComparisonVerdict {
    /// Equality is rejected, for this arm and all it is compared with at once.
    Different,
    /// The ratio is inside the margin, with confidence.
    Equivalent,
    /// Neither of these.
    Inconclusive,
    /// One of them, or both, cannot carry the load: its backlog grew to the end, so there is no
    /// response time to compare.
    CannotCarry,
}

impl ComparisonVerdict {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            ComparisonVerdict::Different => "different",
            ComparisonVerdict::Equivalent => "equivalent",
            ComparisonVerdict::Inconclusive => "inconclusive",
            ComparisonVerdict::CannotCarry => "cannot carry",
        }
    }
}

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RatioEstimate {
    /// Geometric mean of the within-block ratios.
    pub estimate: f64,
    /// Lower end of the confidence interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl RatioEstimate {
    /// The ratio of a logarithm and of the ends of its interval.
    pub fn of_logs(estimate: f64, low: f64, high: f64) -> RatioEstimate {
        RatioEstimate {
            estimate: estimate.exp(),
            low: low.exp(),
            high: high.exp(),
        }
    }

    /// The same ratio with its sides changed.
    #[must_use]
    pub fn inverse(self) -> RatioEstimate {
        RatioEstimate {
            estimate: 1.0 / self.estimate,
            low: 1.0 / self.high,
            high: 1.0 / self.low,
        }
    }
}

/// Offered and served load of a system in an open loop, over the trials of one arm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OverloadStats {
    /// Requests a second that were due.
    pub offered_per_s: f64,
    /// Requests a second that ended before the planned end.
    pub served_per_s: f64,
    /// Requests that were due and had not ended, at the end, mean over the trials.
    pub backlog: f64,
    /// By how many the backlog grew in a second.
    pub backlog_growth_per_s: f64,
    /// Blocks in which it grew to the end.
    pub blocks_overloaded: u32,
    /// Blocks that were examined.
    pub blocks: u32,
    /// Operations in flight when trials were cut off, in all.
    pub unfinished: u64,
}

impl OverloadStats {
    /// Whether the load was too much in most blocks.
    pub fn is_overloaded(&self) -> bool {
        2 * self.blocks_overloaded > self.blocks
    }

    /// Served of offered.
    pub fn share(&self) -> f64 {
        crate::num::ratio(self.served_per_s, self.offered_per_s)
    }
}

/// One arm compared with the base arm under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ArmComparison {
    /// Workload label.
    pub workload: String,
    /// The arm that is compared with the base.
    pub arm: String,
    /// The base arm.
    pub base: String,
    /// Whether `arm` is the base's own second entry (the A/A control).
    pub is_control: bool,
    /// The metric.
    pub metric: ComparisonMetric,
    /// Geometric mean of the base's values.
    pub base_value: f64,
    /// Geometric mean of the arm's values.
    pub arm_value: f64,
    /// Blocks in which both arms have a value.
    pub blocks: u32,
    /// Arm ÷ base, with the policy's confidence; `None` below two blocks.
    pub ratio: Option<RatioEstimate>,
    /// The verdict.
    pub verdict: ComparisonVerdict,
    /// The reason of the verdict, or what would settle it; empty when there is nothing to add.
    pub reason: String,
    /// Smallest true effect (as a fraction) these blocks would have found with 80 % power.
    pub detectable: Option<f64>,
    /// Largest effect (as a fraction) that the control's interval admits between two entries of
    /// the same system.
    pub noise_floor: Option<f64>,
    /// Blocks that would be needed for a verdict, when inconclusive and computable.
    pub blocks_needed: Option<u32>,
    /// Offered and served load of the base, when one of both was overloaded in some block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_carried: Option<OverloadStats>,
    /// Offered and served load of the arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arm_carried: Option<OverloadStats>,
}

/// The loop that decides when requests begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LoadLoopKind {
    /// A client asks again when it was answered: a slow system is asked less.
    Closed,
    /// Requests begin at their instants, answered or not.
    Open,
}

impl LoadLoopKind {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            LoadLoopKind::Closed => "closed loop",
            LoadLoopKind::Open => "open loop",
        }
    }
}

/// How much a closed loop understates the tail: the same throughput on one system in both loops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LoadLoopComparison {
    /// Workload label, without the loop.
    pub workload: String,
    /// The system.
    pub arm: String,
    /// Blocks in which both loops have a value.
    pub blocks: u32,
    /// Turns a second that the open loop was asked for: what the closed loop reached.
    pub asked_per_s: f64,
    /// Operations a second of the closed loop, mean over blocks.
    pub closed_ops_per_s: f64,
    /// The same of the open loop.
    pub open_ops_per_s: f64,
    /// 99th percentile of the response times in the closed loop, geometric mean over blocks.
    pub closed_p99_ns: f64,
    /// The same in the open loop.
    pub open_p99_ns: f64,
    /// p99 of the open loop ÷ p99 of the closed one; `None` where there is none.
    pub factor: Option<RatioEstimate>,
    /// The verdict on that factor.
    pub verdict: ComparisonVerdict,
    /// Why there is no factor, or what else a reader should know; may be empty.
    pub reason: String,
}

impl ArmComparison {
    /// Whether the base cannot carry the load.
    pub fn base_is_overloaded(&self) -> bool {
        self.base_carried
            .is_some_and(|carried| carried.is_overloaded())
    }

    /// Whether the arm cannot.
    pub fn arm_is_overloaded(&self) -> bool {
        self.arm_carried
            .is_some_and(|carried| carried.is_overloaded())
    }

    /// Whether the arm is worse than the base, or cannot carry the load.
    pub fn is_worse(&self) -> bool {
        let more = self.ratio.is_some_and(|ratio| ratio.estimate > 1.0);
        match self.verdict {
            ComparisonVerdict::Different => more != self.metric.more_is_better(),
            verdict => verdict == ComparisonVerdict::CannotCarry && self.arm_is_overloaded(),
        }
    }
}
