// SPDX-License-Identifier: Apache-2.0
//! Vocabulary: the types that every other crate uses, their units, seeds and file formats.
//!
//! Nothing here touches files, clocks, threads or the environment, so all of it can be tested
//! and fuzzed without a machine. A type is serialised only if it lives here.
#![forbid(unsafe_code)]

pub mod campaign;
pub mod change;
pub mod clock_offset;
pub mod comparison;
pub mod conditioning;
pub mod data_check;
pub mod design;
pub mod durability;
pub mod event;
pub mod evidence;
pub mod experiment;
pub mod explanation;
pub mod failover;
pub mod fault;
pub mod format;
pub mod gate;
pub mod histogram;
pub mod ledger;
pub mod load;
pub mod load_line;
pub mod mapping;
pub mod model;
pub mod named;
pub mod nearest;
pub mod num;
pub mod offsets;
pub mod op;
pub mod open_load;
pub mod others;
pub mod outage;
pub mod partial;
pub mod plan;
pub mod profile;
pub mod recording;
pub mod rng;
pub mod run_diff;
pub mod run_results;
#[cfg(test)]
mod schemas;
pub mod settings;
pub mod syncs;
pub mod table;
pub mod target;
pub mod text;
pub mod units;
pub mod workload;
pub mod written;
