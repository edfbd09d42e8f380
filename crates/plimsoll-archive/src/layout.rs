// SPDX-License-Identifier: Apache-2.0
//! The names of the files of a run folder.

pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const EVENTS: &str = "events.jsonl";
pub(crate) const DISKS: &str = "disks";
pub(crate) const LEDGERS: &str = "ledgers";
/// Name of the report inside a run folder.
pub const REPORT: &str = "report.html";
