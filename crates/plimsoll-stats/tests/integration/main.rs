// SPDX-License-Identifier: Apache-2.0
//! Promises of the numbers, held against simulations whose truth is known.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod calibration;
mod campaigns;
mod explain;
mod faults;
#[path = "../known/histories.rs"]
pub mod histories;
mod laws;
mod load_line;
#[path = "../known/noise.rs"]
pub mod noise;
mod overload;
mod promises;
mod screening;
mod secondary;
mod watch;
