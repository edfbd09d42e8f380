// SPDX-License-Identifier: Apache-2.0
//! Changes of machines, and looks at them: hosts, agents on other machines, the journal, undoing.
//!
//! Invariants: every change of the machine is a [`plimsoll_core::plan::Plan`] carried out by a
//! [`host::Host`] and journalled before it is done; whatever is in the journal can be undone, by
//! another process, after a `kill -9` at any point. Only [`host`] starts processes or pauses.
//! Nothing here prints, reads the environment of the program, or knows recipes of stacks or how load is
//! generated.
#![forbid(unsafe_code)]

// `tests/fake` refers to this crate by its name, since tests of other crates compile it as well.
#[cfg(test)]
extern crate self as plimsoll_machine;

pub mod agent_server;
pub mod busy;
pub mod claim;
pub mod cleanup;
pub mod client_watch;
pub mod device;
#[cfg(test)]
#[expect(dead_code, reason = "tests of other crates use more of it")]
#[path = "../tests/fake/mod.rs"]
mod fake;
pub mod host;
pub mod journal;
pub mod memory_limit;
pub mod orphans;
pub mod power;
pub mod raise;
pub mod set_on_drop;
pub mod tracer;
pub mod watch;
