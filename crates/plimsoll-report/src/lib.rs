// SPDX-License-Identifier: Apache-2.0
//! The report: results mapped to data, and data mapped to text and to one self-contained page.
//!
//! [`build`] (of runs) and [`describe`] (of recordings) are the only places that decide what is
//! said; the renderers decide only how it looks. Nothing here reads or writes files, and nothing
//! here computes a verdict: that is the business of the statistics crate.
#![forbid(unsafe_code)]

mod build;
mod certificate;
mod chart_tables;
mod describe;
mod durability;
mod experiment;
mod export;
mod gates;
mod html;
pub mod model;
mod pool;
mod put;
mod run_diff;
mod script;
mod svg;
mod terminal;
mod words;
#[cfg(feature = "xlsx")]
mod xlsx;

pub use build::{build, build_interim, results_document};
pub use certificate::certificate;
pub use describe::{describe, profile};
pub use durability::{durability, durability_issue};
pub use experiment::experiment;
pub use export::{
    ExportColumnType, ExportTable, ExportValue, ReportExportError, ReportExportFormat, csv,
    durability_junit, export, gate_junit, gate_markdown, gate_text, write_parquet,
};
pub use gates::{fitted, verified};
pub use html::{ReportPagePart, ReportPageParts, STYLE, html, page_parts};
pub use model::ReportDocument;
pub use pool::pool;
pub use run_diff::{run_diff, run_diff_report};
pub use terminal::{terminal, terminal_screen};
#[cfg(feature = "xlsx")]
pub use xlsx::xlsx;
