// SPDX-License-Identifier: Apache-2.0
//! Data plane: sources say what to do and when, engines do it, a driver stamps and counts.
//!
//! ```text
//! Source ──request──▶ drive ──slot──▶ Engine (io_uring, plain calls, threads, null, sim)
//!    ▲                  │ one stamp per submission and per reap
//!    └────completed─────┴──sample──▶ Recorder ──once a second──▶ controller
//! ```
//!
//! Invariants: every request carries its intended start, so a stalled target cannot hide its
//! stall; nothing is shared between workers but the file set, which is made of atomics; memory is
//! fixed once a worker runs; `unsafe` and the system's clock appear in [`sys`] only.
//!
//! Not here: statistics across runs, the folder of a run, the terminal.

mod act;
mod bell;
mod blocks;
mod byte_budget;
mod check;
mod choice;
pub mod clock;
mod controller;
mod cpu;
mod data_file;
mod device;
pub mod drive;
pub mod engine;
mod error;
pub mod file_loop;
mod file_sets;
pub mod fileset;
mod gate;
pub mod ground;
pub mod heartbeat;
pub mod held;
mod issues;
pub mod layout;
mod linked;
mod memory;
pub mod nfs;
pub mod null;
mod occupancy;
mod outcome;
pub mod pool;
mod prepare;
pub mod recorder;
mod run;
mod series;
pub mod sim;
pub mod source;
pub mod sync;
pub mod sys;
pub mod target;
mod trace;
pub mod trees;
mod verified_run;
pub mod verify;
mod watch;
mod worker;

pub use byte_budget::ByteBudget;
pub use error::{EngineError, FileShortage};
pub use ground::OpenTarget;
pub use held::device_identity;
// Types that its functions take.
pub use issues::{SubmissionTime, trace_issues};
pub use linked::DependencyReplaySource;
pub use outcome::{RunOptions, RunResult};
pub use plimsoll_core::data_check::DataCheck;
pub use plimsoll_core::op::EngineChoice;
pub use plimsoll_nfs::{NfsAddress, NfsAddressError};
pub use prepare::{PreparedWorkload, prepare};
pub use run::check;
pub use sim::{SimDeviceSpec, SimQueueSpec, SimServiceDistribution};
pub use trace::{TracedOp, WorkerId, trace_worker};
pub use verify::{
    DataCheckRegister, DataCheckSource, DataFlaw, VerifyFinding, VerifyOptions, VerifyReport,
    can_check_data, read_back, verify, verify_engine, verify_export,
};
