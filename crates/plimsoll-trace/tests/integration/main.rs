// SPDX-License-Identifier: Apache-2.0
//! Readers of recordings: real ones, examples of the manual, and their speed.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod counters;
mod damage;
mod examples;
mod judges;
mod programs;
mod reader_speed;
mod recounted;
#[cfg(feature = "parquet")]
mod tables;
