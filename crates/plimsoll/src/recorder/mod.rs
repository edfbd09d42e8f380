// SPDX-License-Identifier: Apache-2.0
//! Recordings of the disks of this machine, made by this program: with `plimsoll record`, and of
//! what a run or a comparison works on.
//!
//! Invariants: what was recorded is in the file before the next look is waited for, so that a
//! killed recorder leaves what it had; memory does not grow with the length of a recording.

mod counters;
mod device;
mod requests;

pub(crate) use counters::{Found, INTERVAL_MIN, Sampler, Sampling, Tally, check_free, sample};
pub(crate) use device::DeviceWatch;
pub(crate) use requests::{Traced, Tracing, trace};
