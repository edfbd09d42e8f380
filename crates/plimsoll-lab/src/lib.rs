// SPDX-License-Identifier: Apache-2.0
//! Control plane: hosts, plans, stacks, experiment design.
//!
//! Invariants: every change of the machine is a [`plimsoll_core::plan::Plan`] carried out by a
//! [`host::Host`] and journalled before it is done; whatever is in the journal can be undone, by
//! another process, after a `kill -9` at any point. Only [`host`] starts processes or pauses.
//! Nothing here prints, reads the environment of the program, or knows how load is generated.
#![forbid(unsafe_code)]

pub mod agent_server;
pub mod attach;
pub mod busy;
pub mod claim;
pub mod cleanup;
pub mod device;
pub mod doctor;
pub mod experiment;
pub mod faults;
pub mod host;
pub mod journal;
pub mod orphans;
pub mod proofs;
pub mod raise;
pub mod stacks;
pub mod tracer;
pub mod vm;
pub mod watch;
