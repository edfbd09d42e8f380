// SPDX-License-Identifier: Apache-2.0
//! Load hosts that an external scheduler provides.
//!
//! The contract with what carries agents (srun, an Indexed Job, mpiexec, a shell) is one sentence: run this
//! one program once on each of N hosts, with a ticket, until it exits. Agents connect to the controller, so
//! there is no list of hosts and no open port on any of them. From then on both sides speak as over ssh
//! ([`plimsoll_machine::host::agent`]); only the stream below the messages is another one.
//!
//! Invariants: an agent says nothing before the key of the controller is the one of its ticket; a peer
//! without the token hears nothing and costs a bounded amount of memory and time; nothing that an agent
//! sends makes the controller do anything but count it. The token is in no argument, file of a run, log or
//! error. When the controller is gone, agents end by themselves, and what carried them ends with them.
#![forbid(unsafe_code)]

mod carrier;
mod dial;
mod error;
mod gate;
mod greeting;
mod kubernetes;
mod rank;
mod socket;
mod ticket;
mod tls;
mod whole;

pub use carrier::{FleetCarrier, FleetRequest};
pub use dial::{FleetAgent, FleetDial, dial};
pub use error::FleetError;
pub use gate::{FleetGate, FleetMember};
pub use greeting::FleetHello;
pub use socket::LOST_AFTER;
pub use ticket::{FleetTicket, TICKET_VARIABLE, private_name};
pub use tls::FleetStream;
pub use whole::{FleetHosts, FleetNews, FleetWait};
