// SPDX-License-Identifier: Apache-2.0
//! Charts as data.

use plimsoll_core::comparison::RatioEstimate;
use plimsoll_core::num::round_u64;
use plimsoll_core::units::{self, Nanos};

use super::ReportSeverity;

/// A chart with the question that it answers.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportFigure {
    /// The question.
    pub title: String,
    /// Answer of the chart to the question, in a sentence.
    pub answer: String,
    /// The drawing.
    pub chart: ReportChart,
    /// Whether a table beside it holds the same, so that it needs none of its own.
    pub has_table_beside: bool,
    /// Whether it is drawn low, for a first screen.
    pub is_compact: bool,
}

impl ReportFigure {
    /// A chart of full height, with a table of its own.
    pub fn new(title: impl Into<String>, answer: impl Into<String>, chart: ReportChart) -> Self {
        ReportFigure {
            title: title.into(),
            answer: answer.into(),
            chart,
            has_table_beside: false,
            is_compact: false,
        }
    }

    /// The same where a table beside it holds what it shows.
    #[must_use]
    pub fn beside_its_table(mut self) -> Self {
        self.has_table_beside = true;
        self
    }

    /// The same, drawn low and without a table: the whole one stands further below.
    #[must_use]
    pub fn compact(mut self) -> Self {
        (self.is_compact, self.has_table_beside) = (true, true);
        self
    }
}

/// A drawing.
#[derive(Debug, Clone, PartialEq)]
pub enum ReportChart {
    /// Ratios with their intervals.
    Forest(ForestChart),
    /// Cost that each layer of a stack adds.
    Waterfall(WaterfallChart),
    /// How many operations took how long, and when.
    HeatMap(HeatMapChart),
    /// Outages around faults.
    Outages(OutageChart),
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

/// Quantity that a number of a chart measures.
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

/// How many times as good as the base systems are, on a logarithmic axis: right is better.
#[derive(Debug, Clone, PartialEq)]
pub struct ForestChart {
    /// Label of the base arm.
    pub base: String,
    /// Equivalence margin as a fraction.
    pub margin: f64,
    /// The words beside the marks.
    pub words: ForestWords,
    /// One per workload.
    pub groups: Vec<ForestGroup>,
}

/// Words for a mark that lies further to the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForestWords {
    /// Above the marks.
    pub right: &'static str,
    /// Above the ratios.
    pub ratio: &'static str,
    /// Above the last column.
    pub verdict: &'static str,
    /// Below the axis, before the name of the base arm.
    pub axis: &'static str,
}

impl ForestWords {
    /// Of ratios that are better the larger they are.
    pub const BETTER: ForestWords = ForestWords {
        right: "better →",
        ratio: "better by (interval)",
        verdict: "verdict",
        axis: "times as good as",
    };
    /// Of numbers, of which more is not better in every respect.
    pub const MORE: ForestWords = ForestWords {
        right: "more →",
        ratio: "times as many (interval)",
        verdict: "power cuts with losses",
        axis: "times as many as",
    };
}

/// The ratios under one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct ForestGroup {
    /// Workload.
    pub title: String,
    /// Metric.
    pub metric: String,
    /// Arms.
    pub rows: Vec<ForestRow>,
}

/// One arm's ratio.
#[derive(Debug, Clone, PartialEq)]
pub struct ForestRow {
    /// Arm.
    pub label: String,
    /// How many times as good as the base, with its interval, when there is one.
    pub ratio: Option<RatioEstimate>,
    /// As text.
    pub text: String,
    /// The verdict.
    pub verdict: String,
    /// How it is to be taken.
    pub tone: ReportSeverity,
}

/// Percentile curves.
#[derive(Debug, Clone, PartialEq)]
pub struct PercentileChart {
    /// One per arm.
    pub lines: Vec<PercentileLine>,
}

/// The percentiles of one arm.
#[derive(Debug, Clone, PartialEq)]
pub struct PercentileLine {
    /// Arm.
    pub ink: ChartSeriesStyle,
    /// (Percentile as a share 0..1, nanoseconds), rising.
    pub points: Vec<(f64, f64)>,
    /// (Percentile, lowest and highest of the blocks), rising; empty for one block.
    pub band: Vec<(f64, f64, f64)>,
}

/// Response against offered load, several systems in one drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadCurveChart {
    /// Unit of the load: `times nas`.
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
    /// Uncertainty band of the response around the line; may be empty.
    pub band: Vec<LoadCurveBand>,
    /// The line: lower end, point and upper end, where there is one.
    pub edge: Option<(f64, f64, f64)>,
}

/// A trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadCurvePoint {
    /// Offered load.
    pub load: f64,
    /// Measured value.
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

/// Statistic that sums up several values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CentralTendency {
    /// Their arithmetic mean.
    Mean,
    /// Their median: of outages, of which one may be of another kind than the rest.
    Median,
}

impl CentralTendency {
    /// Its name.
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
    /// Item that a dot stands for, such as `block`.
    pub each: &'static str,
    /// Item that a row stands for, such as `System`.
    pub row: &'static str,
    /// Statistic that sums up a row.
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
    /// Name of the figure that it shows.
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

/// Cost that each layer of a stack adds, one panel per workload.
#[derive(Debug, Clone, PartialEq)]
pub struct WaterfallChart {
    /// Panels.
    pub panels: Vec<WaterfallPanel>,
}

/// The layers under one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct WaterfallPanel {
    /// Workload.
    pub title: String,
    /// Name of the metric.
    pub metric: String,
    /// Its unit.
    pub quantity: ChartQuantity,
    /// Layers, the lowest first.
    pub steps: Vec<WaterfallStep>,
}

/// A layer.
#[derive(Debug, Clone, PartialEq)]
pub struct WaterfallStep {
    /// Name of the part that it adds.
    pub label: String,
    /// The value of the stack up to here.
    pub value: f64,
    /// The same at both ends of the interval of the ratio to the layer below; `None`: unknown.
    pub interval: Option<(f64, f64)>,
    /// Text beside the bar.
    pub text: String,
    /// How it is to be taken.
    pub tone: ReportSeverity,
}

/// Response times over the time of a trial: how many operations took how long, one panel per arm.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatMapChart {
    /// Length of the axis of time, seconds.
    pub length_s: f64,
    /// Ends of the rows: row N goes from edge N to edge N + 1, in nanoseconds, rising.
    pub edges_ns: Vec<f64>,
    /// Panels.
    pub panels: Vec<HeatMapPanel>,
}

/// One arm.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatMapPanel {
    /// Arm.
    pub ink: ChartSeriesStyle,
    /// Columns in the order of time, each with the operations of every row.
    pub columns: Vec<Vec<u64>>,
}

/// Faults one below the other, each with its outages.
#[derive(Debug, Clone, PartialEq)]
pub struct OutageChart {
    /// Length of the axis, seconds after the fault.
    pub length_s: f64,
    /// Faults in the order of their injection.
    pub rows: Vec<OutageRow>,
    /// Faults that are not shown.
    pub left_out: usize,
}

/// One fault. All times are seconds after it.
#[derive(Debug, Clone, PartialEq)]
pub struct OutageRow {
    /// Which fault.
    pub label: String,
    /// Fault and the server that it hit, in words.
    pub about: String,
    /// When the fault was ended, or what it took was brought back.
    pub ended_s: f64,
    /// The outage of writes, from and to, and whether that had an end.
    pub writes: Option<(f64, f64, bool)>,
    /// The same of reads.
    pub reads: Option<(f64, f64, bool)>,
    /// Until when the rate was lower than before, and whether that had an end.
    pub degraded: Option<(f64, bool)>,
}
