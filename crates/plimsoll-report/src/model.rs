// SPDX-License-Identifier: Apache-2.0
//! What a report says, as data: sentences, tables and charts without any markup.
//!
//! Invariant: texts are plain and unescaped; numbers in charts are in base units (seconds on time
//! axes, nanoseconds for response times, bytes and operations per second).

use plimsoll_core::comparison::RatioEstimate;
use plimsoll_core::num::round_u64;
use plimsoll_core::units::{self, Nanos};

/// A whole report.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportDocument {
    /// What was measured.
    pub title: String,
    /// Which run, where and when.
    pub subtitle: String,
    /// The answer, sentence by sentence.
    pub headline: Vec<ReportFinding>,
    /// The rest, most wanted first.
    pub sections: Vec<ReportSection>,
    /// Machine-readable results (JSON).
    pub data: String,
}

/// How something is to be taken. Never the only carrier of a meaning: the text says it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportSeverity {
    /// As it is.
    Plain,
    /// Good news.
    Good,
    /// Bad news.
    Bad,
    /// To be read with care.
    Care,
    /// Of second rank.
    Muted,
    /// Two systems are the same for all that matters.
    Same,
}

impl ReportSeverity {
    /// Its name in pages; that which is as it is needs none.
    pub(crate) fn class(self) -> &'static str {
        match self {
            ReportSeverity::Plain => "",
            ReportSeverity::Good => "good",
            ReportSeverity::Bad => "bad",
            ReportSeverity::Care => "care",
            ReportSeverity::Muted => "muted",
            ReportSeverity::Same => "same",
        }
    }
}

/// One part of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportFinding {
    /// One or two words: the verdict.
    pub mark: String,
    /// How it is to be taken.
    pub tone: ReportSeverity,
    /// The statement.
    pub text: String,
    /// How sure it is, and what else there is to say.
    pub detail: String,
}

/// A titled part of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportSection {
    /// Name of its place in a page: small letters, digits and hyphens, the same in every report that has it.
    pub id: String,
    /// Heading.
    pub title: String,
    /// Under the heading, in one line; may be empty.
    pub lead: String,
    /// Whether the terminal leaves it to the page.
    pub page_only: bool,
    /// Whether it belongs to the answer itself, not to its grounds.
    pub is_answer: bool,
    /// What is in it.
    pub items: Vec<ReportItem>,
}

impl ReportSection {
    /// An empty section.
    #[must_use]
    pub fn new(title: impl Into<String>, lead: impl Into<String>) -> Self {
        let title = title.into();
        ReportSection {
            id: slug(&title),
            title,
            lead: lead.into(),
            page_only: false,
            is_answer: false,
            items: Vec::new(),
        }
    }

    /// The same under a name of its own, for a heading that is a question or may change.
    #[must_use]
    pub fn at(mut self, id: &str) -> Self {
        self.id = slug(id);
        self
    }
}

/// Small letters, digits and single hyphens of a text.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    match slug.is_empty() {
        true => "part".into(),
        false => slug.into(),
    }
}

/// A piece of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportItem {
    /// A paragraph.
    Text(String),
    /// A sentence set apart.
    Notice(ReportSeverity, String),
    /// Names and values.
    Facts(Vec<(String, String)>),
    /// A table.
    Table(ReportTable),
    /// A table whose news fits into a line: the terminal shows the line, the page opens the table.
    Folded(String, ReportTable),
    /// A chart.
    Chart(ReportChart),
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportTableColumn {
    /// Heading, with the unit where cells have none.
    pub title: String,
    /// Whether cells are numbers, set flush right.
    pub numeric: bool,
    /// Whether it may be left out where there is little room.
    pub secondary: bool,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportTableCell {
    /// The value.
    pub text: String,
    /// Its spread or its meaning, set smaller; may be empty.
    pub detail: String,
    /// How it is to be taken.
    pub tone: ReportSeverity,
}

impl ReportTableCell {
    /// A cell without detail.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        ReportTableCell {
            text: text.into(),
            detail: String::new(),
            tone: ReportSeverity::Plain,
        }
    }

    /// The same with a detail.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// The same in another tone.
    #[must_use]
    pub fn tone(mut self, tone: ReportSeverity) -> Self {
        self.tone = tone;
        self
    }
}

/// A table. A row whose first cell is empty belongs to the row above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportTable {
    /// What it shows.
    pub caption: String,
    /// Columns.
    pub columns: Vec<ReportTableColumn>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<ReportTableCell>>,
    /// What a reader needs to read it.
    pub notes: Vec<String>,
}

impl ReportTable {
    /// An empty table; a column title that starts with `#` marks a column of numbers, one
    /// that starts with `~` (before the `#`) a secondary one.
    #[must_use]
    pub fn new(caption: impl Into<String>, columns: &[&str]) -> Self {
        let column = |title: &&str| ReportTableColumn {
            title: title.trim_start_matches(['~', '#']).into(),
            numeric: title.trim_start_matches('~').starts_with('#'),
            secondary: title.starts_with('~'),
        };
        ReportTable {
            caption: caption.into(),
            columns: columns.iter().map(column).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// A chart.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportChart {
    /// Ratios with their intervals.
    Forest(ForestChart),
    /// Percentiles of response time.
    Curves(PercentileChart),
    /// Response against offered load.
    LoadCurves(LoadCurveChart),
    /// One dot per block.
    Dots(DotChart),
    /// Values over the time of a trial.
    Series(TimeSeriesChart),
    /// Figures over the time of a recording.
    Timeline(TimelineChart),
}

/// Which arm a mark belongs to: decides its colour and stroke.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChartSeriesStyle {
    /// Label of the arm.
    pub name: String,
    /// Number of the colour; a control has the colour of its arm.
    pub colour: usize,
    /// Whether it is a control, drawn hollow or dashed.
    pub control: bool,
}

impl ChartSeriesStyle {
    /// The arm's name, marked when it is the control.
    pub(crate) fn label(&self) -> String {
        self.name.clone()
    }
}

/// What a number of a chart measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChartQuantity {
    /// Nanoseconds.
    Duration,
    /// Operations per second.
    Rate,
    /// Bytes per second.
    Throughput,
    /// Bytes.
    Size,
    /// A share, 0..=1.
    Share,
    /// A number of things, not whole where it is a mean.
    Number,
}

impl ChartQuantity {
    /// A value with its unit.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            ChartQuantity::Duration => units::duration(Nanos(round_u64(value))),
            ChartQuantity::Rate => format!("{} ops/s", units::rate(value)),
            ChartQuantity::Throughput => units::throughput(value),
            ChartQuantity::Size => units::size(value),
            ChartQuantity::Share => format!("{} %", units::three_digits(value * 100.0)),
            ChartQuantity::Number => units::three_digits(value),
        }
    }

    /// A value without the unit that a column heading or its neighbour gives.
    #[must_use]
    pub fn show_short(self, value: f64) -> String {
        match self {
            ChartQuantity::Rate => units::rate(value),
            _ => self.show(value),
        }
    }
}

/// Ratios to the base on a logarithmic axis.
#[derive(Debug, Clone, PartialEq)]
pub struct ForestChart {
    /// Label of the base arm.
    pub base: String,
    /// Equivalence margin as a fraction.
    pub margin: f64,
    /// One per workload.
    pub groups: Vec<ForestGroup>,
}

/// The ratios under one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct ForestGroup {
    /// Workload.
    pub title: String,
    /// Metric.
    pub metric: String,
    /// Whether a ratio above 1 is the better one.
    pub more_is_better: bool,
    /// Arms.
    pub rows: Vec<ForestRow>,
}

/// One arm's ratio.
#[derive(Debug, Clone, PartialEq)]
pub struct ForestRow {
    /// Arm.
    pub label: String,
    /// Ratio and interval, when there is one.
    pub ratio: Option<RatioEstimate>,
    /// As text.
    pub text: String,
    /// The verdict.
    pub verdict: String,
    /// How it is to be taken.
    pub tone: ReportSeverity,
    /// Whether it is the control.
    pub control: bool,
}

/// Percentile curves.
#[derive(Debug, Clone, PartialEq)]
pub struct PercentileChart {
    /// What it shows.
    pub title: String,
    /// One per arm: (percentile as a share 0..1, nanoseconds), rising.
    pub lines: Vec<(ChartSeriesStyle, Vec<(f64, f64)>)>,
}

/// Response against offered load, several systems in one drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadCurveChart {
    /// What it shows.
    pub title: String,
    /// What the load is counted in: `times nas`.
    pub load: String,
    /// Unit of the values.
    pub quantity: ChartQuantity,
    /// The limit that is drawn across: its name and value.
    pub limit: (String, f64),
    /// One per system.
    pub curves: Vec<LoadCurve>,
}

/// The trials of one system, and its load line.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadCurve {
    /// System.
    pub ink: ChartSeriesStyle,
    /// Its trials.
    pub points: Vec<LoadCurvePoint>,
    /// What is believed of the response around the line; may be empty.
    pub band: Vec<LoadCurveBand>,
    /// The line: lower end, point and upper end, where there is one.
    pub edge: Option<(f64, f64, f64)>,
}

/// A trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadCurvePoint {
    /// Offered load.
    pub load: f64,
    /// What was measured.
    pub value: f64,
    /// Whether the backlog did not grow.
    pub kept_up: bool,
    /// Length in seconds.
    pub length_s: f64,
}

/// A place of a band.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadCurveBand {
    /// Offered load.
    pub load: f64,
    /// Lower end.
    pub low: f64,
    /// As likely above as below.
    pub middle: f64,
    /// Upper end.
    pub high: f64,
}

/// What several values are summed up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CentralTendency {
    /// Their arithmetic mean.
    Mean,
    /// Their median: of outages, of which one may be of another kind than the rest.
    Median,
}

impl CentralTendency {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CentralTendency::Mean => "mean",
            CentralTendency::Median => "median",
        }
    }

    /// It, of the finite ones of these values; `None` when there are none.
    #[must_use]
    pub fn of(self, values: impl IntoIterator<Item = f64>) -> Option<f64> {
        match self {
            CentralTendency::Mean => {
                plimsoll_stats::SummaryStats::of(values).map(|summary| summary.mean)
            }
            CentralTendency::Median => plimsoll_stats::events::median(values),
        }
    }
}

/// One dot for each thing that was measured, arms as rows, quantities as panels.
#[derive(Debug, Clone, PartialEq)]
pub struct DotChart {
    /// What it shows.
    pub title: String,
    /// What a dot stands for.
    pub each: &'static str,
    /// What a row stands for.
    pub row: &'static str,
    /// What a row is summed up by.
    pub middle: CentralTendency,
    /// Rows.
    pub arms: Vec<ChartSeriesStyle>,
    /// Panels.
    pub panels: Vec<DotPanel>,
}

/// One quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct DotPanel {
    /// Name of the quantity.
    pub title: String,
    /// Its unit.
    pub quantity: ChartQuantity,
    /// For each arm, (number of what the dot stands for, value).
    pub values: Vec<Vec<(u32, f64)>>,
}

/// Small multiples over time: one panel per arm, one thin line per block.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeSeriesChart {
    /// What it shows.
    pub title: String,
    /// Unit of the values.
    pub quantity: ChartQuantity,
    /// Whether the axis of values is logarithmic; a linear one starts at 0.
    pub log: bool,
    /// Panels, all with the same axes.
    pub panels: Vec<SeriesPanel>,
}

/// One arm over time.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesPanel {
    /// Arm.
    pub ink: ChartSeriesStyle,
    /// For each block, (seconds, value).
    pub blocks: Vec<(u32, Vec<(f64, f64)>)>,
    /// Median over the blocks.
    pub middle: Vec<(f64, f64)>,
}

/// Figures over the time of a recording, one panel under the other, with the same axis of time.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineChart {
    /// What it shows.
    pub title: String,
    /// The first instant, `2010-07-14T11:00:02+10:00`; what is no such text begins at 0 s.
    pub from: String,
    /// Length of the axis, seconds.
    pub length_s: f64,
    /// Panels, each with an axis of its own from 0.
    pub panels: Vec<TimelinePanel>,
    /// Stretches of time to be marked: name, start and end in seconds.
    pub marks: Vec<(String, f64, f64)>,
}

/// One figure over time.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelinePanel {
    /// What it shows.
    pub title: String,
    /// Unit of the values.
    pub quantity: ChartQuantity,
    /// Its lines.
    pub lines: Vec<TimelineLine>,
}

/// A line of steps.
#[derive(Debug, Clone, PartialEq)]
pub struct TimelineLine {
    /// Whose.
    pub ink: ChartSeriesStyle,
    /// Start and end in seconds, and value.
    pub steps: Vec<(f64, f64, f64)>,
    /// The same for the highest single intervals, where steps hold several; else empty.
    pub peaks: Vec<(f64, f64, f64)>,
}
