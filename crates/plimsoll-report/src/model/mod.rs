// SPDX-License-Identifier: Apache-2.0
//! Contents of a report, as data: sentences, tables and charts without any markup.
//!
//! Invariant: texts are plain and unescaped; numbers in charts are in base units (seconds on time
//! axes, nanoseconds for response times, bytes and operations per second).

mod charts;

pub use charts::*;

/// A whole report.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportDocument {
    /// Subject of the measurement.
    pub title: String,
    /// Which run, where and when.
    pub subtitle: String,
    /// Answer for a reader who reads one screen only.
    pub answer: ReportAnswer,
    /// All findings, sentence by sentence.
    pub headline: Vec<ReportFinding>,
    /// The rest, most wanted first.
    pub sections: Vec<ReportSection>,
    /// Machine-readable results (JSON).
    pub data: String,
}

/// The first screen: which is best, how sure that is, at what load, what limits it, what to do next.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportAnswer {
    /// One sentence with its uncertainty; empty in a report that answers no question.
    pub text: String,
    /// How it is to be taken.
    pub tone: ReportSeverity,
    /// Further facts that a reader wants at once: a word, and a few more.
    pub facts: Vec<(String, String)>,
    /// The picture.
    pub figure: Option<ReportFigure>,
    /// Next steps, most useful first.
    pub next: Vec<ReportNextStep>,
    /// Doubts, heaviest first.
    pub doubts: Vec<ReportDoubt>,
}

/// Something to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportNextStep {
    /// Step, and its purpose.
    pub text: String,
    /// The command that does it; may be empty.
    pub command: String,
}

/// A reason to doubt the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportDoubt {
    /// In one line.
    pub text: String,
    /// The section that says more, by its name; may be empty.
    pub section: String,
}

/// How something is to be taken. Never the only carrier of a meaning: the text says it too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReportSeverity {
    /// As it is.
    #[default]
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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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

impl ReportFinding {
    /// A finding without detail, to be taken as it is.
    pub fn new(mark: impl Into<String>, text: impl Into<String>) -> Self {
        ReportFinding {
            mark: mark.into(),
            text: text.into(),
            ..ReportFinding::default()
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
    /// Contents of the section.
    pub items: Vec<ReportItem>,
}

impl ReportSection {
    /// An empty section.
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
    Chart(ReportFigure),
    /// A command, to be copied.
    Command(String),
    /// Another page of the same result folder.
    Link {
        /// Name of the page.
        text: String,
        /// Where it is, below the folder of this page.
        to: String,
    },
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
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportTableCell {
    /// The value.
    pub text: String,
    /// Its spread or its meaning, set smaller; may be empty.
    pub detail: String,
    /// How it is to be taken.
    pub tone: ReportSeverity,
    /// The value in base units, where the text is a number: columns are sorted by it.
    pub value: Option<f64>,
}

impl ReportTableCell {
    /// A cell without detail.
    pub fn new(text: impl Into<String>) -> Self {
        ReportTableCell {
            text: text.into(),
            ..ReportTableCell::default()
        }
    }

    /// A number, with its unit.
    pub fn number(quantity: ChartQuantity, value: f64) -> Self {
        ReportTableCell::new(quantity.show(value)).value(value)
    }

    /// The same with what it is sorted by.
    #[must_use]
    pub fn value(mut self, value: f64) -> Self {
        self.value = Some(value);
        self
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
#[derive(Debug, Clone, PartialEq)]
pub struct ReportTable {
    /// Subject of the table.
    pub caption: String,
    /// Columns.
    pub columns: Vec<ReportTableColumn>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<ReportTableCell>>,
    /// Notes that a reader needs to read the table.
    pub notes: Vec<String>,
    /// Whether its numbers say nothing without their ranges, however little room there is.
    pub keeps_ranges: bool,
}

impl ReportTable {
    /// An empty table; a column title that starts with `#` marks a column of numbers, one
    /// that starts with `~` (before the `#`) a secondary one.
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
            keeps_ranges: false,
        }
    }
}
