// SPDX-License-Identifier: Apache-2.0
//! Runs and comparisons: targets made ready, trials asked of nodes in their planned order, everything
//! recorded, everything undone.
//!
//! `campaign` carries them out; `spec` reads workloads as users write them, `targets` has the kinds of
//! targets, `campaign_file` many of both at once, `experiment_file` what was published and how it is
//! repeated, and `experiment` says what came of that. A listener gets what happens as events; nothing here
//! prints.
#![forbid(unsafe_code)]

pub mod campaign;
pub mod campaign_file;
pub mod experiment;
pub mod experiment_file;
pub mod gate;
mod lab_failure;
pub mod recorder;
pub mod request;
pub mod spec;
pub mod targets;
pub mod toml_file;
pub mod trust;
pub mod tuning;

pub use lab_failure::trying;
