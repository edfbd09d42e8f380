// SPDX-License-Identifier: Apache-2.0
//! Errors of a fleet.

use plimsoll_machine::host::HostError;
use std::io;

/// Why there is no fleet.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// It was asked for in a way that makes no sense.
    #[error("{0}")]
    Asked(String),
    /// The controller cannot listen at its address.
    #[error("listen for load hosts on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// Something of the connection itself.
    #[error("could not {what}: {why}")]
    Connection {
        /// The step that failed.
        what: String,
        /// The reason, as far as it is known.
        why: String,
    },
    /// The ticket is none.
    #[error("{0}")]
    Ticket(String),
    /// The controller does not take this agent.
    #[error("the controller refused this agent: {0}")]
    Refused(String),
    /// Not all came.
    #[error(
        "{arrived} of {wanted} load hosts arrived within {seconds} s; missing: {missing}{said}"
    )]
    Missing {
        /// How many came.
        arrived: u32,
        /// How many should have.
        wanted: u32,
        /// How long they were waited for.
        seconds: u64,
        /// The numbers that are missing.
        missing: String,
        /// The last words of what carries them.
        said: String,
    },
    /// Their carrier ended before all were there.
    #[error("the carrier ended when {arrived} of {wanted} load hosts had arrived{said}")]
    CarrierEnded {
        /// How many came.
        arrived: u32,
        /// How many should have.
        wanted: u32,
        /// Its last words.
        said: String,
    },
    /// A stop was requested.
    #[error("interrupted while load hosts were waited for")]
    Stopped,
    /// A command failed.
    #[error(transparent)]
    Host(#[from] HostError),
}
