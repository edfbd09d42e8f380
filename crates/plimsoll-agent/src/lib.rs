// SPDX-License-Identifier: Apache-2.0
//! A node's part of a run, whether on this machine or another one: it plays its share of a trial, proves
//! that a target keeps data, and records disks.
//!
//! The program `plimsoll-agent` serves this to a plimsoll on another machine, which copies it there. So it
//! has no command line, no readers of foreign recordings and no report.
#![forbid(unsafe_code)]

pub mod fleet;
mod programs;
pub mod raze;
pub mod recorder;
pub mod run_id;
mod task;
pub mod trees;
mod trial_load;
pub mod watchdog;
mod write_verify;

pub use task::{EnginePlayer, located, opened};
pub use trial_load::block_seed;
pub use write_verify::VERIFY_BYTES;
