// SPDX-License-Identifier: Apache-2.0
//! A workload model fitted from a recording.
//!
//! From counters: an envelope of recorded intervals with Poisson arrivals.
//! The recording says how many operations each interval held. Given its count, the arrivals of a
//! Poisson process in an interval are independent and uniform, so the model keeps the recorded
//! counts exactly and draws only what counters do not contain: the instants inside an interval.
//! Facts that no counter contains (arrival times, offsets) are *declared* or *assumed*, and say so.
//!
//! From requests: the requests themselves, packed, in their order; the envelope beside them only
//! describes.

mod arrivals;
mod change;
mod declared;
mod excerpt;
mod facts;
mod mix;
mod packed;
mod recorded;
mod slices;
mod verification;
mod within;

pub use arrivals::ModelArrivals;
pub use change::ModelChange;
pub use excerpt::{ModelExcerpt, ModelReplay};
pub use facts::{ModelFactOrigin, ModelFactValue, ModelFacts};
pub use mix::{ModelMixMember, ModelMixReplay};
pub use packed::{
    PackedDependency, PackedDependencyReader, PackedGapPrecision, PackedRequests,
    PackedRequestsReader, PackedRequestsWriter, ZONE_BYTES,
};
pub use recorded::{PackedReplay, PackedReplayRequest, ReplayAddressSpace};
pub use slices::ModelSliceSelection;
pub use verification::{FidelityNoiseFloor, FidelityReport, FidelityReportRow};
pub use within::ModelArrivalPattern;

use serde::{Deserialize, Serialize};

use crate::num::{ratio, round_u64};
use crate::units::Nanos;

/// Direction of transfer: counters distinguish reads and writes, nothing finer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum IoDirection {
    /// From the storage.
    Read,
    /// To the storage.
    Write,
}

impl IoDirection {
    /// Both, in the order of reports.
    pub const BOTH: [IoDirection; 2] = [IoDirection::Read, IoDirection::Write];

    /// `read` or `write`.
    pub fn name(self) -> &'static str {
        match self {
            IoDirection::Read => "read",
            IoDirection::Write => "write",
        }
    }
}

/// Operations and bytes of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DirectionLoad {
    /// Operations.
    pub ops: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One interval of the recording, or one slice of a play: what was asked during it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelInterval {
    /// How long it lasted.
    pub length: Nanos,
    /// Reads in it.
    pub read: DirectionLoad,
    /// Writes in it.
    pub write: DirectionLoad,
}

impl ModelInterval {
    /// The load of one direction.
    pub fn load(&self, direction: IoDirection) -> DirectionLoad {
        match direction {
            IoDirection::Read => self.read,
            IoDirection::Write => self.write,
        }
    }

    /// Operations per second of one direction.
    pub fn ops_per_s(&self, direction: IoDirection) -> f64 {
        ratio(self.load(direction).ops as f64, self.length.as_secs_f64())
    }
}

/// Where a model came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelProvenance {
    /// The recording, as it was named on the command line.
    pub recording: String,
    /// Kind of recording, such as `PCP archive, version 2`.
    pub format: String,
    /// The host that was recorded.
    pub host: String,
    /// The disk (instance) that was modelled.
    pub disk: String,
    /// First instant, with its offset from UTC.
    pub from: String,
    /// Last instant, with its offset from UTC.
    pub to: String,
    /// Intervals left out because of gaps, resets or wraps.
    pub intervals_dropped: u64,
    /// Parts of the recording that were not looked at, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Changes made since, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// A pattern of bursts found in one direction of the recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BurstPattern {
    /// Whose operations come in bursts.
    pub direction: IoDirection,
    /// An interval with more operations per second than this belongs to a burst.
    pub threshold_per_s: f64,
    /// Bursts found: runs of such intervals.
    pub count: u64,
    /// Seconds from one burst's start to the next, when they are periodic.
    pub period_s: Option<f64>,
    /// Autocorrelation of the rates at that period (1 = repeats exactly).
    pub autocorrelation: Option<f64>,
    /// Share of the time spent in bursts, 0..=1.
    pub duty: f64,
    /// Share of the direction's operations that fall into bursts, 0..=1.
    pub share: f64,
}

/// A kind of time in the recording: stretches in which the load was alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelPhase {
    /// Its name: `base` where most time was spent, `scan` where long reads came on top.
    pub name: String,
    /// Where it was, in recorded order; no two phases overlap.
    pub stretches: Vec<ModelPhaseSpan>,
    /// Share of the time, 0..=1.
    pub share: f64,
    /// Mean load of its intervals, reads then writes.
    pub load: [DirectionRates; 2],
    /// Own load: the load less that of `base`. `None` for the base itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<[DirectionRates; 2]>,
}

/// Consecutive intervals of the envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelPhaseSpan {
    /// Place of the first interval in the envelope.
    pub first: u64,
    /// Number of intervals.
    pub intervals: u64,
    /// When it begins, with its offset from UTC.
    pub from: String,
    /// When it ends.
    pub to: String,
}

/// Mean rates of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DirectionRates {
    /// Operations per second.
    pub ops_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
}

/// One metric of the model held against the recording, and the gate it had to pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FidelityCheck {
    /// The compared metric, such as `write bytes per second`.
    pub metric: String,
    /// In the recording.
    pub recorded: f64,
    /// In the load the model submitted.
    pub submitted: f64,
    /// How far apart: relative unless the metric is itself a distance or a ratio.
    pub error: f64,
    /// The largest magnitude of `error` that passes.
    pub gate: f64,
    /// Whether the load was fitted to this very figure, so that an error near 0 shows that the figure is
    /// played and no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copy: bool,
}

/// Errors below this would be shown as 0.0 %.
const COPY_ERROR_MAX: f64 = 0.0005;

impl FidelityCheck {
    /// Compares by relative error.
    pub fn relative(metric: impl Into<String>, recorded: f64, submitted: f64, gate: f64) -> Self {
        let difference = submitted - recorded;
        // 0 / 0 is no error; a load where none was recorded is an infinite one.
        let error = if difference.abs() > 0.0 {
            difference / recorded
        } else {
            0.0
        };
        FidelityCheck {
            metric: metric.into(),
            recorded,
            submitted,
            error,
            gate,
            copy: false,
        }
    }

    /// The check of a load that was fitted to this recording: an error near 0 is a copy.
    #[must_use]
    pub fn of_its_own(self) -> Self {
        FidelityCheck {
            copy: self.error.abs() < COPY_ERROR_MAX,
            ..self
        }
    }

    /// The error in these words; `copy` where it is one.
    pub fn shown(&self, error: impl FnOnce(f64) -> String) -> String {
        if self.copy {
            "copy".into()
        } else {
            error(self.error)
        }
    }

    /// Whether the gate was passed; an error that is not a number never passes.
    pub fn passed(&self) -> bool {
        self.error.abs() <= self.gate
    }
}

/// A fitted model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkloadModel {
    /// Name in reports.
    pub name: String,
    /// Where it came from.
    pub source: ModelProvenance,
    /// Facts beyond its intervals.
    pub facts: ModelFacts,
    /// Bursts found, at most one pattern per direction.
    #[serde(default)]
    pub bursts: Vec<BurstPattern>,
    /// Phases found, the one with most time first; none where the load was alike throughout.
    #[serde(default)]
    pub phases: Vec<ModelPhase>,
    /// The model's submitted load held against the recording, at the time of the fit.
    #[serde(default)]
    pub fidelity: Vec<FidelityCheck>,
    /// The load held against a recording later, when that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Box<FidelityReport>>,
    /// The recorded requests, where they were recorded: these are played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Box<PackedRequests>>,
    /// The recorded intervals: played where there are no requests.
    pub envelope: ModelEnvelope,
}

impl WorkloadModel {
    /// Whether some of its requests start when an earlier one has ended.
    pub fn waits(&self) -> bool {
        self.requests
            .as_ref()
            .is_some_and(|packed| packed.linked() > 0)
    }

    /// How long the recorded intervals last together.
    pub fn length(&self) -> Nanos {
        self.envelope
            .cells()
            .iter()
            .fold(Nanos(0), |sum, cell| sum + cell.length)
    }

    /// Operations and bytes per second of one direction over the whole recording.
    pub fn mean_per_s(&self, direction: IoDirection) -> (f64, f64) {
        let (ops, bytes) = totals(self.envelope.cells(), direction);
        let seconds = self.length().as_secs_f64();
        (ratio(ops, seconds), ratio(bytes, seconds))
    }

    /// The whole recording with every rate multiplied by `scale`, sizes unchanged.
    pub fn play_whole(&self, scale: f64) -> Vec<ModelInterval> {
        let mut carries = [RoundingCarry::default(); 4];
        let cells = self.envelope.cells().iter();
        cells
            .map(|cell| scaled(cell, scale, &mut carries))
            .collect()
    }
}

fn scaled(cell: &ModelInterval, scale: f64, carries: &mut [RoundingCarry; 4]) -> ModelInterval {
    let [read_ops, read_bytes, write_ops, write_bytes] = carries;
    ModelInterval {
        length: cell.length,
        read: DirectionLoad {
            ops: read_ops.take(cell.read.ops as f64 * scale),
            bytes: read_bytes.take(cell.read.bytes as f64 * scale),
        },
        write: DirectionLoad {
            ops: write_ops.take(cell.write.ops as f64 * scale),
            bytes: write_bytes.take(cell.write.bytes as f64 * scale),
        },
    }
}

/// Total operations and bytes of one direction.
pub(crate) fn totals(cells: &[ModelInterval], direction: IoDirection) -> (f64, f64) {
    cells.iter().fold((0.0, 0.0), |(ops, bytes), cell| {
        let load = cell.load(direction);
        (ops + load.ops as f64, bytes + load.bytes as f64)
    })
}

/// Rounds a series of shares to whole numbers whose running total stays within 1/2 of the exact
/// one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundingCarry {
    exact: f64,
    given: u64,
}

impl RoundingCarry {
    pub(crate) fn take(&mut self, share: f64) -> u64 {
        self.exact += share;
        let now = round_u64(self.exact).saturating_sub(self.given);
        self.given += now;
        now
    }
}

/// The recorded intervals, on disk as packed columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(try_from = "ModelEnvelopeColumns", into = "ModelEnvelopeColumns")]
pub struct ModelEnvelope(Vec<ModelInterval>);

impl ModelEnvelope {
    /// Most intervals a model may have: 18 years of minutes. Longer recordings are refused.
    pub const CELLS_MAX: usize = 10_000_000;

    /// An envelope of these intervals.
    ///
    /// # Errors
    /// When there are none, or more than [`ModelEnvelope::CELLS_MAX`], or one has no length.
    pub fn new(cells: Vec<ModelInterval>) -> Result<Self, String> {
        if cells.is_empty() {
            return Err("the envelope has no intervals".into());
        }
        if cells.len() > Self::CELLS_MAX {
            return Err(format!(
                "the envelope has more than {} intervals",
                Self::CELLS_MAX
            ));
        }
        match cells.iter().position(|cell| cell.length.0 == 0) {
            Some(at) => Err(format!("interval {at} of the envelope has no length")),
            None => Ok(ModelEnvelope(cells)),
        }
    }

    /// The intervals in recorded order.
    pub fn cells(&self) -> &[ModelInterval] {
        &self.0
    }
}

#[derive(Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct ModelEnvelopeColumns {
    length_ns: Vec<u64>,
    reads: Vec<u64>,
    read_bytes: Vec<u64>,
    writes: Vec<u64>,
    write_bytes: Vec<u64>,
}

impl From<ModelEnvelope> for ModelEnvelopeColumns {
    fn from(envelope: ModelEnvelope) -> ModelEnvelopeColumns {
        let column = |get: fn(&ModelInterval) -> u64| envelope.0.iter().map(get).collect();
        ModelEnvelopeColumns {
            length_ns: column(|c| c.length.0),
            reads: column(|c| c.read.ops),
            read_bytes: column(|c| c.read.bytes),
            writes: column(|c| c.write.ops),
            write_bytes: column(|c| c.write.bytes),
        }
    }
}

impl TryFrom<ModelEnvelopeColumns> for ModelEnvelope {
    type Error = String;
    fn try_from(columns: ModelEnvelopeColumns) -> Result<ModelEnvelope, String> {
        let n = columns.length_ns.len();
        let others = [
            &columns.reads,
            &columns.read_bytes,
            &columns.writes,
            &columns.write_bytes,
        ];
        if others.iter().any(|column| column.len() != n) {
            return Err("the envelope's columns differ in length".into());
        }
        let cell = |i: usize| ModelInterval {
            length: Nanos(columns.length_ns[i]),
            read: DirectionLoad {
                ops: columns.reads[i],
                bytes: columns.read_bytes[i],
            },
            write: DirectionLoad {
                ops: columns.writes[i],
                bytes: columns.write_bytes[i],
            },
        };
        ModelEnvelope::new((0..n).map(cell).collect())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An hour of 15 s intervals: steady reads, and writes that burst every 300 s.
    pub(crate) fn bursty() -> WorkloadModel {
        let cell = |i: u64| {
            let writes = if i % 20 == 7 || i % 20 == 8 {
                3_600 + i
            } else {
                220 + i % 13
            };
            let reads = 1_275 + (i * 37) % 90;
            ModelInterval {
                length: Nanos(15_000_000_000),
                read: DirectionLoad {
                    ops: reads,
                    bytes: reads * 29_668,
                },
                write: DirectionLoad {
                    ops: writes,
                    bytes: writes * 30_800,
                },
            }
        };
        WorkloadModel {
            name: "bursty".into(),
            source: ModelProvenance {
                recording: "made up".into(),
                format: "test".into(),
                host: "h".into(),
                disk: "d".into(),
                from: String::new(),
                to: String::new(),
                intervals_dropped: 0,
                left_out: Vec::new(),
                changes: Vec::new(),
            },
            facts: ModelFacts::assumed(1 << 30),
            bursts: vec![BurstPattern {
                direction: IoDirection::Write,
                threshold_per_s: 100.0,
                count: 12,
                period_s: Some(300.0),
                autocorrelation: Some(0.9),
                duty: 0.1,
                share: 0.6,
            }],
            phases: Vec::new(),
            fidelity: Vec::new(),
            verified: None,
            requests: None,
            envelope: ModelEnvelope::new((0..240).map(cell).collect()).unwrap(),
        }
    }

    #[test]
    fn a_scaled_play_keeps_totals_to_half_an_operation() {
        let model = bursty();
        for scale in [1.0, 0.37, 7.5] {
            let played = model.play_whole(scale);
            for direction in IoDirection::BOTH {
                let (ops, bytes) = totals(model.envelope.cells(), direction);
                let (played_ops, played_bytes) = totals(&played, direction);
                assert!((played_ops - ops * scale).abs() <= 0.5, "{scale}");
                assert!((played_bytes - bytes * scale).abs() <= 1.0, "{scale}");
            }
        }
    }

    #[test]
    fn models_round_trip_through_toml_and_bad_ones_are_refused() {
        let model = bursty();
        let text = toml::to_string(&model).unwrap();
        assert_eq!(toml::from_str::<WorkloadModel>(&text).unwrap(), model);
        let cut = text.replace("reads = [1275, ", "reads = [");
        assert!(
            toml::from_str::<WorkloadModel>(&cut)
                .unwrap_err()
                .to_string()
                .contains("differ in length")
        );
    }
}
