// SPDX-License-Identifier: Apache-2.0
//! fio: its job files and I/O logs read, and workloads written in its language.
//!
//! An option of a job file is carried out or refused by name; nothing is passed over silently
//! except the few that change nothing here. What is written uses only constructs whose behaviour
//! was checked on fio 3.33.

mod demand;
mod export;
mod ini;
mod iolog;
mod job;
mod notes;
mod options;
mod rewrite;
mod section;
mod sizes;
mod value;

pub use demand::{FioDirectionRate, FioNamedRateSpec, FioRateSpec, demands};
pub use export::{FioJobExport, export};
pub use ini::is_job;
pub use iolog::{is_log, read_log, write_log};
pub use job::{FioJobImport, job};
pub use rewrite::{on_null, rewritten};
