// SPDX-License-Identifier: Apache-2.0
//! Systems whose truth is known, and a method that was tried on them, for the programs that measure how right
//! our statistics are.
#![forbid(unsafe_code)]

pub mod covariate;
#[path = "../../../crates/plimsoll-stats/tests/known/histories.rs"]
pub mod histories;
#[path = "../../../crates/plimsoll-stats/tests/known/noise.rs"]
pub mod noise;
pub mod timelines;
