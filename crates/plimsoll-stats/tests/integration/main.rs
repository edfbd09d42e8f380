// SPDX-License-Identifier: Apache-2.0
//! Promises of the numbers, held against simulations whose truth is known.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod calibration;
mod campaigns;
mod explain;
mod faults;
mod laws;
mod load_line;
mod overload;
mod promises;
mod secondary;
mod watch;
