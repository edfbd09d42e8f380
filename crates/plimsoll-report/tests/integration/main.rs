// SPDX-License-Identifier: Apache-2.0
//! Reports and exported files of made-up results.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod answers;
mod common;
mod describe;
mod durability;
#[cfg(all(feature = "parquet", feature = "xlsx"))]
mod export;
mod faults;
mod phases;
mod report;
