// SPDX-License-Identifier: Apache-2.0
//! The client's side of servers elsewhere: runs that are pushed to a team's server, and systems of monitoring
//! that are asked. Also the command line of that server, which the program that starts it reads as well.
//!
//! Of hyper, rustls and tokio nothing is seen from outside of this crate.
#![forbid(unsafe_code)]

#[expect(missing_docs, reason = "help texts describe arguments and commands")]
pub mod command;
pub mod files;
pub mod listing;
mod monitoring;
mod push;
pub mod secret;
mod server;

pub use monitoring::{MonitoringOptions, MonitoringServer, MonitoringToken};
pub use push::{PushError, PushOptions, PushOutcome, PushToken, push};
pub use server::RemoteError;
