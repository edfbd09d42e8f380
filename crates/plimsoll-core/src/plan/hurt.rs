// SPDX-License-Identifier: Apache-2.0
//! Actions of faults on servers, as values.

use crate::fault::{FaultCommand, FaultKind};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One action of a fault on a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultAction {
    /// In a network namespace of ours: drop packets to this address, or stop dropping them.
    Mute {
        /// The address.
        address: String,
        /// Whether they are dropped from now on.
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
        /// Whether it is probed, injected or cleared.
        word: FaultCommand,
    },
    /// Send malformed messages to every TCP port on which the processes that carry this mark listen.
    Malform {
        /// The mark.
        mark: String,
        /// The address of those processes, as seen from the sender.
        address: String,
        /// Seed of the messages.
        seed: u64,
        /// Messages to each port. With 0 it is only checked that there is a port.
        messages: u32,
    },
    /// Terminate every process with this mark (SIGTERM), and wait as long as service managers do.
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
