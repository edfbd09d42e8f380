// SPDX-License-Identifier: Apache-2.0
//! From recordings to models: real ones, and some whose truth is known.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod describe;
mod generated;
mod recordings;
mod requests;
mod written;
