// SPDX-License-Identifier: Apache-2.0
//! An experiment file: published tables, what is carried out to stand beside them, and the questions that
//! their author left open, as data.
//!
//! The form of the file only: what its words mean is read where they are used. Manual: `docs/repro.md`.

mod condition;
mod figure;
mod result;

pub use condition::{ExperimentClause, ExperimentCondition, ExperimentTest, placeholders};
pub use figure::{ExperimentFigure, ExperimentMetric, ExperimentUnit};
pub use result::{
    ExperimentAnswered, ExperimentCell, ExperimentControl, ExperimentEvidenceResult,
    ExperimentFinding, ExperimentLimit, ExperimentLoadLine, ExperimentPartResult, ExperimentResult,
    ExperimentRowResult, ExperimentTableResult, ExperimentValue,
};

use serde::{Deserialize, Serialize};

use crate::format::FormatVersion;

/// An experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExperimentFile {
    /// [`FormatVersion::EXPERIMENT`] of the program that it was written for.
    pub format: FormatVersion,
    /// Its name: small letters, digits and hyphens.
    pub name: String,
    /// Its title, in a line.
    pub title: String,
    /// Where it was published.
    pub source: ExperimentSource,
    /// How it was scaled to a machine of today, and what was kept; a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<String>,
    /// Parts to carry out, in this order.
    pub part: Vec<ExperimentPart>,
    /// The published tables.
    pub table: Vec<ExperimentTable>,
    /// Questions that its author left open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub question: Vec<ExperimentQuestion>,
}

/// Where an experiment was published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExperimentSource {
    /// By whom.
    pub author: String,
    /// When.
    pub year: u16,
    /// Where, and what it was about.
    pub published: String,
}

/// Effort that a machine can give an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExperimentProfile {
    /// Minutes: shows the mechanism, with wide intervals.
    Quick,
    /// As long as it takes.
    Full,
}

impl ExperimentProfile {
    /// As it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ExperimentProfile::Quick => "quick",
            ExperimentProfile::Full => "full",
        }
    }
}

/// Something that is carried out: a command of this program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExperimentPart {
    /// Its name in figures and of its folder: small letters, digits and hyphens.
    pub name: String,
    /// Its description, in a line.
    pub what: String,
    /// In the quick profile; absent: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick: Option<ExperimentCommand>,
    /// In the full profile; absent: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full: Option<ExperimentCommand>,
    /// Whether it may be impossible on a machine: then its rows say why, and the experiment goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

impl ExperimentPart {
    /// Its command in a profile.
    pub fn command(&self, profile: ExperimentProfile) -> Option<&ExperimentCommand> {
        match profile {
            ExperimentProfile::Quick => self.quick.as_ref(),
            ExperimentProfile::Full => self.full.as_ref(),
        }
    }
}

/// A command, in the words of its command line without the name of the program. `-o` and `--json` are added.
/// Words that begin with `./` name files beside the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExperimentCommand {
    /// The command whose results are used.
    pub run: Vec<String>,
    /// Commands before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Vec<String>>,
    /// Commands after it, also when something failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Vec<String>>,
    /// Minutes that all of it takes on a small machine.
    pub minutes: f64,
    /// Memory that this program, its load and the servers that it starts may use, page cache included, such
    /// as `512M`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

/// A published table, and what stands beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExperimentTable {
    /// Its name: small letters, digits and hyphens.
    pub name: String,
    /// Its subject.
    pub title: String,
    /// The file of published figures that it was typed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub typed_from: Option<String>,
    /// Headings of the labels of rows.
    pub labels: Vec<String>,
    /// Unit of its figures, where a column or a row has no other.
    #[serde(default)]
    pub unit: ExperimentUnit,
    /// Label of the row that all others of a column are ratios to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_row: Option<String>,
    /// Name of the column that all others of a row are ratios to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_column: Option<String>,
    /// Ours, as far as it is the same for all cells.
    #[serde(default, skip_serializing_if = "ExperimentFigure::is_empty")]
    pub ours: ExperimentFigure,
    /// Columns of figures.
    pub column: Vec<ExperimentColumn>,
    /// Rows.
    pub row: Vec<ExperimentRow>,
    /// Notes that a reader needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A column of published figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExperimentColumn {
    /// Its heading.
    pub name: String,
    /// Unit of its figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<ExperimentUnit>,
    /// Ours, as far as it is the same for all its cells.
    #[serde(default, skip_serializing_if = "ExperimentFigure::is_empty")]
    pub ours: ExperimentFigure,
    /// Why there is nothing of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_here: Option<String>,
}

/// A row of published figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExperimentRow {
    /// Its labels, one for each heading.
    pub labels: Vec<String>,
    /// Number of the run, of rows that are runs of the same thing: ours is that of the same block, and a row
    /// with the mean of all is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u32>,
    /// The published figures, one for each column, as they were printed; `-` where there is none.
    pub published: String,
    /// Unit of its figures; stronger than that of a column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<ExperimentUnit>,
    /// Ours, as far as it is the same for all its cells.
    #[serde(default, skip_serializing_if = "ExperimentFigure::is_empty")]
    pub ours: ExperimentFigure,
    /// Why there is nothing of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_here: Option<String>,
}

impl ExperimentRow {
    /// Its published figures, in the order of columns.
    pub fn figures(&self) -> impl Iterator<Item = &str> {
        self.published.split_whitespace()
    }
}

/// A question that was left open, and how figures answer it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExperimentQuestion {
    /// The question.
    pub asks: String,
    /// Published statement about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// The figures that it is answered by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<ExperimentEvidence>,
    /// Answers; the first whose condition holds is given. The last one has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answer: Vec<ExperimentAnswer>,
    /// Why it cannot be told on any machine, instead of answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cannot_tell: Option<String>,
}

/// A figure that answers a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExperimentEvidence {
    /// Its name in conditions and texts: letters, digits and `_`.
    pub name: String,
    /// Its description.
    pub what: String,
    /// Where it stands.
    pub ours: ExperimentFigure,
    /// Unit that it is shown in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<ExperimentUnit>,
}

/// Answer that is given when a condition holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ExperimentAnswer {
    /// When: `ratio > 1.05 and cache found`; absent: otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The answer, with figures by their names between braces: `{ratio}`.
    pub says: String,
}
