// SPDX-License-Identifier: Apache-2.0
//! Numbers: tests, intervals, verdicts. No I/O, no unsafe.
//!
//! The unit of analysis is the trial: a million operations of one trial are one observation.
//! Arms are compared within blocks, on logarithms, so that an effect is a ratio and a drift of
//! the machine from block to block cancels. Nothing here looks at a clock, a file or the
//! environment, and nothing here decides how results are shown.
#![forbid(unsafe_code)]

pub mod anytime;
pub mod arrangement;
pub mod between_runs;
pub mod carryover;
mod carryover_fit;
pub mod change;
pub mod cliff;
pub mod compare;
pub mod contrast;
pub mod design;
pub mod events;
pub mod explain;
pub mod family;
pub mod gate;
pub mod load_line;
pub mod loops;
pub mod outliers;
pub mod overload;
pub mod paired;
pub mod pilot;
pub mod power;
pub mod scatter;
pub mod screening;
pub mod secondary;
pub mod slo;
pub mod steady;
pub mod stopping;
pub mod student;
pub mod summary;
pub mod synced;

pub use between_runs::compare_runs;
pub use change::change_points;
pub use compare::{ArmValues, compare, compare_all, compare_steps, contrasts, phase_label};
pub use loops::compare_loops;
pub use overload::{carried, generator_was_busy};
pub use secondary::compare_secondary;
pub use summary::SummaryStats;
