// SPDX-License-Identifier: Apache-2.0
//! What faults do to servers, as values. It stands in no journal.

use crate::fault::{FaultCommand, FaultKind};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One thing that is done to a server to see what it carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultAction {
    /// In a network namespace of ours: throw away what is sent to this address, or no more.
    Mute {
        /// The address.
        address: String,
        /// Whether it is thrown away from now on.
        on: bool,
    },
    /// In a network namespace of ours: delay or drop packets that are sent, by these arguments of `tc
    /// qdisc … netem` (`delay 50ms`); without arguments, end that.
    Netem(Vec<String>),
    /// Start or end a fault of a machine by the command that its user named for that.
    Fault {
        /// The command; the name of the fault and the word are added.
        command: Vec<String>,
        /// The fault.
        fault: FaultKind,
        /// What is to be done with it.
        word: FaultCommand,
    },
    /// Send malformed messages to every TCP port on which the processes that carry this mark listen.
    Malform {
        /// The mark.
        mark: String,
        /// The address at which they are reached from where that is done.
        address: String,
        /// What the messages are made from.
        seed: u64,
        /// How many each port is sent. With 0 it is only seen that there is a port.
        messages: u32,
    },
    /// Ask every process with this mark to end, and give it the time for that which managers of services
    /// give.
    End {
        /// The mark.
        mark: String,
    },
    /// Switch the power of a machine by the command that its user named for it.
    Power {
        /// The command; `on` or `off` is added.
        switch: Vec<String>,
        /// Whether it has power from now on.
        on: bool,
    },
}

impl fmt::Display for FaultAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultAction::Mute { address, on } => {
                let verb = if *on { "add" } else { "delete" };
                write!(f, "ip route {verb} blackhole {address}")
            }
            FaultAction::Netem(how) if how.is_empty() => {
                write!(f, "tc qdisc delete dev eth0 root netem")
            }
            FaultAction::Netem(how) => {
                write!(f, "tc qdisc replace dev eth0 root netem {}", how.join(" "))
            }
            FaultAction::Fault {
                command,
                fault,
                word,
            } => write!(f, "{} {fault} {word}", command.join(" ")),
            FaultAction::Malform { mark, messages, .. } => write!(
                f,
                "send {messages} malformed messages to each port of the processes marked {mark}"
            ),
            FaultAction::End { mark } => {
                write!(f, "kill -15 the processes marked {mark}, and wait")
            }
            FaultAction::Power { switch, on } => {
                write!(f, "{} {}", switch.join(" "), if *on { "on" } else { "off" })
            }
        }
    }
}
