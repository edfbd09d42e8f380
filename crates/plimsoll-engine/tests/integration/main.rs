// SPDX-License-Identifier: Apache-2.0
//! Engines, devices and whole runs, held against what is known of them.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod blocks;
mod common;
mod conformance;
mod data_check;
mod devices;
mod faults;
#[expect(dead_code, reason = "tests of the ledger use the rest")]
#[path = "../faulty/mod.rs"]
mod faulty;
mod files;
mod runs;
mod theory;
mod truth;
mod verified_runs;
