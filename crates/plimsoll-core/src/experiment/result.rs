// SPDX-License-Identifier: Apache-2.0
//! Results of an experiment: its tables beside the published ones, and its questions answered.

use serde::Serialize;

use super::{ExperimentProfile, ExperimentSource, ExperimentUnit};
use crate::comparison::{ArmComparison, RatioEstimate};

/// A figure over blocks, in base units.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ExperimentValue {
    /// Mean over blocks; of a ratio the geometric mean.
    pub value: f64,
    /// Ends of the 95 % interval; absent below two blocks.
    pub interval: Option<(f64, f64)>,
    /// Each block's value, by its number.
    pub blocks: Vec<(u32, f64)>,
}

/// Finding where a figure should stand.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExperimentFinding {
    /// A figure.
    Number(ExperimentValue),
    /// Words.
    Text(String),
    /// A cause that shows, with its figures in words.
    Found(String),
    /// A cause that was looked for and does not show.
    Excluded,
    /// Nothing, and why.
    Missing(String),
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentCell {
    /// The published figure, as it was printed; empty where there is none.
    pub published: String,
    /// Of a mean of published figures, the ends of its 95 % interval.
    pub published_interval: Option<(f64, f64)>,
    /// Unit of both.
    pub unit: ExperimentUnit,
    /// Ours.
    pub ours: ExperimentFinding,
    /// The published figure, of the published base.
    pub published_ratio: Option<f64>,
    /// Ours, of our base.
    pub our_ratio: Option<ExperimentValue>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentRowResult {
    /// Its labels.
    pub labels: Vec<String>,
    /// Whether it is the mean of the rows above.
    pub is_mean: bool,
    /// Why nothing of ours stands beside it.
    pub not_here: Option<String>,
    /// Its cells.
    pub cells: Vec<ExperimentCell>,
}

/// A published table and ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentTableResult {
    /// Its name.
    pub name: String,
    /// Its subject.
    pub title: String,
    /// Headings of labels.
    pub labels: Vec<String>,
    /// Headings of columns, with their units.
    pub columns: Vec<String>,
    /// Base of the ratios; empty where there are none.
    pub base: String,
    /// Rows.
    pub rows: Vec<ExperimentRowResult>,
    /// Notes that a reader needs.
    pub notes: Vec<String>,
}

/// A figure that a question is answered by.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentEvidenceResult {
    /// Its name.
    pub name: String,
    /// Its description.
    pub what: String,
    /// It, in words.
    pub shown: String,
    /// It.
    pub found: ExperimentFinding,
}

/// A question and its answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentAnswered {
    /// The question.
    pub asks: String,
    /// Published statement about it.
    pub published: Option<String>,
    /// Whether it could be told here.
    pub is_answered: bool,
    /// The answer, or why there is none.
    pub says: String,
    /// The condition that held, empty for the last answer.
    pub because: String,
    /// Evidence that the answer rests on.
    pub evidence: Vec<ExperimentEvidenceResult>,
}

/// A part and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentPartResult {
    /// Its name.
    pub name: String,
    /// Its description.
    pub what: String,
    /// Its command, as one would type it; empty where the profile leaves it out.
    pub command: String,
    /// Seconds that it took.
    pub seconds: f64,
    /// Why it failed, or was left out.
    pub failed: Option<String>,
    /// Its report, below the folder of the experiment.
    pub report: Option<String>,
}

/// The control of a workload in a part.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentControl {
    /// The part.
    pub part: String,
    /// The base against itself.
    pub comparison: ArmComparison,
}

/// Causes that limited a system.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentLimit {
    /// The part.
    pub part: String,
    /// The workload.
    pub workload: String,
    /// The system.
    pub system: String,
    /// The causes that show, in words.
    pub found: Vec<String>,
    /// Those that were looked for and do not show.
    pub excluded: Vec<String>,
}

/// A load line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentLoadLine {
    /// The part.
    pub part: String,
    /// The workload.
    pub workload: String,
    /// The system.
    pub system: String,
    /// The multiple that is carried.
    pub carried: RatioEstimate,
    /// Known bound instead, where the line lies beyond all that the search was allowed to try.
    pub beyond: Option<String>,
    /// The limit that is reached first.
    pub binding: Option<String>,
}

/// An experiment that was carried out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentResult {
    /// Its name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Where it was published.
    pub source: ExperimentSource,
    /// Profile.
    pub profile: ExperimentProfile,
    /// How it was scaled.
    pub scaling: Vec<String>,
    /// The machine that it was carried out on, in words.
    pub machine: String,
    /// Tables.
    pub tables: Vec<ExperimentTableResult>,
    /// Questions.
    pub questions: Vec<ExperimentAnswered>,
    /// Controls.
    pub controls: Vec<ExperimentControl>,
    /// Causes that limited results.
    pub limits: Vec<ExperimentLimit>,
    /// Load lines.
    pub load_lines: Vec<ExperimentLoadLine>,
    /// Parts.
    pub parts: Vec<ExperimentPartResult>,
}
