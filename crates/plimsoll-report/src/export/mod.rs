// SPDX-License-Identifier: Apache-2.0
//! A run as a file for other programs: for each format one file here, all from the same contents.
//!
//! Times are in seconds, and every name of a column or a key ends with its unit. Text is only text: whatever
//! acts on a terminal or reorders what stands beside it is replaced, and each format's own marks are escaped.

mod csv;
mod gate;
mod hlog;
mod junit;
mod markdown;
#[cfg(feature = "parquet")]
mod parquet;
mod table;
#[cfg(feature = "xlsx")]
mod xlsx;

pub use table::{ExportColumnType, ExportTable, ExportValue};

use std::borrow::Cow;
use std::fmt;

pub use gate::{gate_junit, gate_markdown, gate_text};
pub use junit::durability_junit;

use plimsoll_core::comparison::ArmComparison;
use plimsoll_core::event::RunFolderContents;
use plimsoll_stats::compare_all;

/// Writes a table as a Parquet file, row by row as they come.
///
/// # Errors
/// When the file cannot be written, or this program was built without Parquet.
pub fn write_parquet(
    table: ExportTable<'_>,
    file: &mut (impl std::io::Write + Send),
) -> Result<(), ReportExportError> {
    #[cfg(feature = "parquet")]
    return parquet::written(table, file).map_err(|error| {
        ReportExportError::Library(ReportExportFormat::Parquet, error.to_string())
    });
    #[cfg(not(feature = "parquet"))]
    {
        let _ = (table, file);
        Err(ReportExportError::NotBuilt(ReportExportFormat::Parquet))
    }
}

/// A format that a run can be exported to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportExportFormat {
    /// The answer, the verdicts and their grounds, for a pull request.
    Markdown,
    /// Every second of every trial by kind of operation, as comma-separated values.
    Csv,
    /// Every trial by kind of operation, as comma-separated values.
    TrialsCsv,
    /// A spreadsheet: answer, verdicts, trials, intervals.
    Xlsx,
    /// Everything as one JSON document with a schema.
    Json,
    /// Every second of every trial by kind of operation, as a Parquet table.
    Parquet,
    /// Every trial by kind of operation, as a Parquet table.
    TrialsParquet,
    /// Response times of every second, as a log of histograms (HdrHistogram, version 2).
    HistogramLog,
    /// A test case for each verdict, for what gates a build.
    JUnit,
}

/// Why a run was not exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportExportError {
    /// The format was left out when the program was built.
    NotBuilt(ReportExportFormat),
    /// The library that writes the format refused.
    Library(ReportExportFormat, String),
}

impl fmt::Display for ReportExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReportExportError::NotBuilt(format) => {
                write!(f, "this program was built without {}", format.name())
            }
            ReportExportError::Library(format, reason) => write!(f, "{}: {reason}", format.name()),
        }
    }
}

impl std::error::Error for ReportExportError {}

impl ReportExportFormat {
    /// All of them, in the order of lists.
    pub const ALL: [ReportExportFormat; 9] = [
        ReportExportFormat::Markdown,
        ReportExportFormat::Csv,
        ReportExportFormat::TrialsCsv,
        ReportExportFormat::Xlsx,
        ReportExportFormat::Json,
        ReportExportFormat::Parquet,
        ReportExportFormat::TrialsParquet,
        ReportExportFormat::HistogramLog,
        ReportExportFormat::JUnit,
    ];

    /// Name on the command line and in addresses.
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// How the names of its files end, with the dot.
    pub fn suffix(self) -> &'static str {
        self.facts().1
    }

    /// Its media type.
    pub fn media_type(self) -> &'static str {
        self.facts().2
    }

    fn facts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            ReportExportFormat::Markdown => ("markdown", ".md", "text/markdown; charset=utf-8"),
            ReportExportFormat::Csv => ("csv", ".csv", "text/csv; charset=utf-8"),
            ReportExportFormat::TrialsCsv => {
                ("trials-csv", ".trials.csv", "text/csv; charset=utf-8")
            }
            ReportExportFormat::Xlsx => (
                "xlsx",
                ".xlsx",
                "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            ),
            ReportExportFormat::Json => ("json", ".json", "application/json"),
            ReportExportFormat::Parquet => {
                ("parquet", ".parquet", "application/vnd.apache.parquet")
            }
            ReportExportFormat::TrialsParquet => (
                "trials-parquet",
                ".trials.parquet",
                "application/vnd.apache.parquet",
            ),
            ReportExportFormat::HistogramLog => ("hlog", ".hlog", "text/plain; charset=utf-8"),
            ReportExportFormat::JUnit => ("junit", ".xml", "application/xml"),
        }
    }

    /// The format of this name.
    pub fn named(name: &str) -> Option<ReportExportFormat> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The format that the name of a file asks for by its end: `a.trials.csv` and `trials.csv` are trials.
    pub fn of_file(name: &str) -> Option<ReportExportFormat> {
        let name = format!(".{}", name.to_ascii_lowercase());
        let fits = Self::ALL.into_iter().filter(|f| name.ends_with(f.suffix()));
        fits.max_by_key(|format| format.suffix().len())
    }
}

/// A run in a format. The seconds are those that the contents hold: for each of a long run it must have
/// been read whole.
///
/// # Errors
/// When the program was built without the format, or its library refuses.
pub fn export(
    format: ReportExportFormat,
    results: &RunFolderContents,
) -> Result<Vec<u8>, ReportExportError> {
    match format {
        ReportExportFormat::Markdown => Ok(markdown::markdown(results).into_bytes()),
        ReportExportFormat::Csv => Ok(csv::csv(table::intervals(results)).into_bytes()),
        ReportExportFormat::TrialsCsv => Ok(csv::csv(table::trials(results)).into_bytes()),
        ReportExportFormat::Json => Ok(crate::build::exported(results).into_bytes()),
        ReportExportFormat::JUnit => Ok(junit::junit(results).into_bytes()),
        ReportExportFormat::HistogramLog => hlog::hlog(results)
            .map(String::into_bytes)
            .map_err(|reason| ReportExportError::Library(format, reason)),
        #[cfg(feature = "xlsx")]
        ReportExportFormat::Xlsx => xlsx::xlsx(results)
            .map_err(|error| ReportExportError::Library(format, error.to_string())),
        #[cfg(feature = "parquet")]
        ReportExportFormat::Parquet => parquet::parquet(table::intervals(results))
            .map_err(|error| ReportExportError::Library(format, error.to_string())),
        #[cfg(feature = "parquet")]
        ReportExportFormat::TrialsParquet => parquet::parquet(table::trials(results))
            .map_err(|error| ReportExportError::Library(format, error.to_string())),
        #[cfg(not(all(feature = "xlsx", feature = "parquet")))]
        other => Err(ReportExportError::NotBuilt(other)),
    }
}

/// Every trial by kind of operation, as comma-separated values.
pub fn csv(results: &RunFolderContents) -> String {
    csv::csv(table::trials(results))
}

/// The comparisons of a run; of one that was killed they are made from its trials.
fn comparisons(results: &RunFolderContents) -> Cow<'_, [ArmComparison]> {
    if results.comparisons.is_empty() {
        compare_all(&results.manifest, &results.trials).into()
    } else {
        Cow::Borrowed(&results.comparisons)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_found_by_its_name_and_its_files() {
        for format in ReportExportFormat::ALL {
            assert_eq!(ReportExportFormat::named(format.name()), Some(format));
            let file = format!("run{}", format.suffix());
            assert_eq!(ReportExportFormat::of_file(&file), Some(format), "{file}");
        }
        for (file, format) in [
            ("trials.csv", Some(ReportExportFormat::TrialsCsv)),
            ("intervals.csv", Some(ReportExportFormat::Csv)),
            ("trials.parquet", Some(ReportExportFormat::TrialsParquet)),
            ("industrials.csv", Some(ReportExportFormat::Csv)),
            ("RUN.XLSX", Some(ReportExportFormat::Xlsx)),
            ("run", None),
            ("csv", Some(ReportExportFormat::Csv)),
        ] {
            assert_eq!(ReportExportFormat::of_file(file), format, "{file}");
        }
    }
}
