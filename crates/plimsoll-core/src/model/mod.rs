// SPDX-License-Identifier: Apache-2.0
//! A workload model fitted from a recording.
//!
//! From counters: an envelope of recorded intervals with Poisson arrivals.
//! The recording says how many operations each interval held. Given its count, the arrivals of a
//! Poisson process in an interval are independent and uniform, so the model keeps the recorded
//! counts exactly and draws only what the counters cannot tell: the instants inside an interval.
//! What no counter tells (how arrivals lie, offsets) is *declared* or *assumed*, and says so.
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
mod parametric;
mod recorded;
mod slices;
mod verification;
mod within;

pub use arrivals::Arrivals;
pub use change::Change;
pub use excerpt::{Excerpt, Played};
pub use facts::{Corner, Extremes, Facts, Known, Origin, Sizes};
pub use mix::{Member, Mixed};
pub use packed::{Gaps, Link, Links, Packed, Packer, Unpacked, ZONE_BYTES};
pub use parametric::{Lost, Parametric};
pub use recorded::{Recorded, Space, Step};
pub use slices::Selection;
pub use verification::{Checked, Floor, Verification};
pub use within::Within;

use serde::{Deserialize, Serialize};

use crate::num::{ratio, round_u64};
use crate::units::Nanos;

/// Direction of transfer: counters tell reads and writes apart, nothing finer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the storage.
    Read,
    /// To the storage.
    Write,
}

impl Direction {
    /// Both, in the order of reports.
    pub const BOTH: [Direction; 2] = [Direction::Read, Direction::Write];

    /// `read` or `write`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
        }
    }
}

/// Operations and bytes of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Operations.
    pub ops: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One interval of the recording, or one slice of a play: what was asked during it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// How long it lasted.
    pub length: Nanos,
    /// Reads in it.
    pub read: Load,
    /// Writes in it.
    pub write: Load,
}

impl Cell {
    /// The load of one direction.
    #[must_use]
    pub fn load(&self, direction: Direction) -> Load {
        match direction {
            Direction::Read => self.read,
            Direction::Write => self.write,
        }
    }

    /// Operations per second of one direction.
    #[must_use]
    pub fn ops_per_s(&self, direction: Direction) -> f64 {
        ratio(self.load(direction).ops as f64, self.length.as_secs_f64())
    }
}

/// Where a model came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The recording, as it was named on the command line.
    pub recording: String,
    /// What kind of recording it is, such as `PCP archive, version 2`.
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
    /// What of it was not looked at, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// What was made of it since, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// A pattern of bursts found in one direction of the recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Whose operations come in bursts.
    pub direction: Direction,
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
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// What it is called: `base` where most time was spent, `scan` where long reads came on top.
    pub name: String,
    /// Where it was, in recorded order; no two phases overlap.
    pub stretches: Vec<Stretch>,
    /// Share of the time, 0..=1.
    pub share: f64,
    /// Mean load of its intervals, reads then writes.
    pub load: [Rates; 2],
    /// What of that is its own: the load less that of `base`. `None` for the base itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<[Rates; 2]>,
}

/// Consecutive intervals of the envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stretch {
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
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Operations per second.
    pub ops_per_s: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
}

/// One metric of the model held against the recording, and the gate it had to pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fidelity {
    /// What was compared, such as `write bytes per second`.
    pub metric: String,
    /// In the recording.
    pub recorded: f64,
    /// In the load the model submitted.
    pub submitted: f64,
    /// How far apart: relative unless the metric is itself a distance or a ratio.
    pub error: f64,
    /// The largest magnitude of `error` that passes.
    pub gate: f64,
}

impl Fidelity {
    /// Compares by relative error.
    #[must_use]
    pub fn relative(metric: impl Into<String>, recorded: f64, submitted: f64, gate: f64) -> Self {
        let difference = submitted - recorded;
        // 0 / 0 is no error; a load where none was recorded is an infinite one.
        let error = if difference.abs() > 0.0 {
            difference / recorded
        } else {
            0.0
        };
        Fidelity {
            metric: metric.into(),
            recorded,
            submitted,
            error,
            gate,
        }
    }

    /// Whether the gate was passed; an error that is not a number never passes.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.error.abs() <= self.gate
    }
}

/// A fitted model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// What reports call it.
    pub name: String,
    /// Where it came from.
    pub source: Provenance,
    /// What it says beyond its intervals.
    pub facts: Facts,
    /// Bursts found, at most one pattern per direction.
    #[serde(default)]
    pub bursts: Vec<Bursts>,
    /// Phases found, the one with most time first; none where the load was alike throughout.
    #[serde(default)]
    pub phases: Vec<Phase>,
    /// The model's submitted load held against the recording, at the time of the fit.
    #[serde(default)]
    pub fidelity: Vec<Fidelity>,
    /// The load held against a recording later, when that was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Box<Verification>>,
    /// The recorded requests, where the recording told them: these are played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Box<Packed>>,
    /// What the requests are drawn from, where they are not the recorded ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parametric: Option<Box<Parametric>>,
    /// The recorded intervals: played where there are no requests.
    pub envelope: Envelope,
}

impl Model {
    /// Whether some of its requests start when an earlier one has ended.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.requests
            .as_ref()
            .is_some_and(|packed| packed.linked() > 0)
    }

    /// The model with requests that are drawn from distributions, and intervals that describe these.
    /// What was found in the order of the recorded ones is not said of it.
    ///
    /// # Errors
    /// When the distributions are nonsense, or give too many requests.
    pub fn drawn_from(self, parametric: Parametric) -> Result<Model, String> {
        let packed = parametric.pack()?;
        let cells = mix::described(packed.length(), packed.unpack());
        Ok(Model {
            facts: Facts {
                threads: None,
                in_flight: None,
                ..self.facts
            },
            bursts: Vec::new(),
            phases: Vec::new(),
            verified: None,
            requests: Some(Box::new(packed)),
            parametric: Some(Box::new(parametric)),
            envelope: Envelope::new(cells)?,
            ..self
        })
    }

    /// How long the recorded intervals last together.
    #[must_use]
    pub fn length(&self) -> Nanos {
        self.envelope
            .cells()
            .iter()
            .fold(Nanos(0), |sum, cell| sum + cell.length)
    }

    /// Operations and bytes per second of one direction over the whole recording.
    #[must_use]
    pub fn mean_per_s(&self, direction: Direction) -> (f64, f64) {
        let (ops, bytes) = totals(self.envelope.cells(), direction);
        let seconds = self.length().as_secs_f64();
        (ratio(ops, seconds), ratio(bytes, seconds))
    }

    /// The whole recording with every rate multiplied by `scale`, sizes unchanged.
    #[must_use]
    pub fn play_whole(&self, scale: f64) -> Vec<Cell> {
        let mut carries = [Carry::default(); 4];
        let cells = self.envelope.cells().iter();
        cells
            .map(|cell| scaled(cell, scale, &mut carries))
            .collect()
    }
}

fn scaled(cell: &Cell, scale: f64, carries: &mut [Carry; 4]) -> Cell {
    let [read_ops, read_bytes, write_ops, write_bytes] = carries;
    Cell {
        length: cell.length,
        read: Load {
            ops: read_ops.take(cell.read.ops as f64 * scale),
            bytes: read_bytes.take(cell.read.bytes as f64 * scale),
        },
        write: Load {
            ops: write_ops.take(cell.write.ops as f64 * scale),
            bytes: write_bytes.take(cell.write.bytes as f64 * scale),
        },
    }
}

/// Total operations and bytes of one direction.
pub(crate) fn totals(cells: &[Cell], direction: Direction) -> (f64, f64) {
    cells.iter().fold((0.0, 0.0), |(ops, bytes), cell| {
        let load = cell.load(direction);
        (ops + load.ops as f64, bytes + load.bytes as f64)
    })
}

/// Rounds a series of shares to whole numbers whose running total stays within 1/2 of the exact
/// one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Carry {
    exact: f64,
    given: u64,
}

impl Carry {
    pub(crate) fn take(&mut self, share: f64) -> u64 {
        self.exact += share;
        let now = round_u64(self.exact).saturating_sub(self.given);
        self.given += now;
        now
    }
}

/// The recorded intervals, on disk as packed columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Columns", into = "Columns")]
pub struct Envelope(Vec<Cell>);

impl Envelope {
    /// Most intervals a model may have: 18 years of minutes. Longer recordings are refused.
    pub const CELLS_MAX: usize = 10_000_000;

    /// An envelope of these intervals.
    ///
    /// # Errors
    /// When there are none, or more than [`Envelope::CELLS_MAX`], or one has no length.
    pub fn new(cells: Vec<Cell>) -> Result<Self, String> {
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
            None => Ok(Envelope(cells)),
        }
    }

    /// The intervals in recorded order.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.0
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Columns {
    length_ns: Vec<u64>,
    reads: Vec<u64>,
    read_bytes: Vec<u64>,
    writes: Vec<u64>,
    write_bytes: Vec<u64>,
}

impl From<Envelope> for Columns {
    fn from(envelope: Envelope) -> Columns {
        let column = |get: fn(&Cell) -> u64| envelope.0.iter().map(get).collect();
        Columns {
            length_ns: column(|c| c.length.0),
            reads: column(|c| c.read.ops),
            read_bytes: column(|c| c.read.bytes),
            writes: column(|c| c.write.ops),
            write_bytes: column(|c| c.write.bytes),
        }
    }
}

impl TryFrom<Columns> for Envelope {
    type Error = String;
    fn try_from(columns: Columns) -> Result<Envelope, String> {
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
        let cell = |i: usize| Cell {
            length: Nanos(columns.length_ns[i]),
            read: Load {
                ops: columns.reads[i],
                bytes: columns.read_bytes[i],
            },
            write: Load {
                ops: columns.writes[i],
                bytes: columns.write_bytes[i],
            },
        };
        Envelope::new((0..n).map(cell).collect())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An hour of 15 s intervals: steady reads, and writes that burst every 300 s.
    pub(crate) fn bursty() -> Model {
        let cell = |i: u64| {
            let writes = if i % 20 == 7 || i % 20 == 8 {
                3_600 + i
            } else {
                220 + i % 13
            };
            let reads = 1_275 + (i * 37) % 90;
            Cell {
                length: Nanos(15_000_000_000),
                read: Load {
                    ops: reads,
                    bytes: reads * 29_668,
                },
                write: Load {
                    ops: writes,
                    bytes: writes * 30_800,
                },
            }
        };
        Model {
            name: "bursty".into(),
            source: Provenance {
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
            facts: Facts::assumed(1 << 30),
            bursts: vec![Bursts {
                direction: Direction::Write,
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
            parametric: None,
            envelope: Envelope::new((0..240).map(cell).collect()).unwrap(),
        }
    }

    #[test]
    fn a_scaled_play_keeps_totals_to_half_an_operation() {
        let model = bursty();
        for scale in [1.0, 0.37, 7.5] {
            let played = model.play_whole(scale);
            for direction in Direction::BOTH {
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
        assert_eq!(toml::from_str::<Model>(&text).unwrap(), model);
        let cut = text.replace("reads = [1275, ", "reads = [");
        assert!(
            toml::from_str::<Model>(&cut)
                .unwrap_err()
                .to_string()
                .contains("differ in length")
        );
    }
}
