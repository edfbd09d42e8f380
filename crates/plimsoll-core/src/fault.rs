// SPDX-License-Identifier: Apache-2.0
//! Faults: what is done to a server of a storage system to see what it carries then.
//!
//! The kinds follow what fails in the field; their names are those of the command line and of
//! reports. What each does to which provider of servers is in the lab.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Every process of the server ends at once (SIGKILL); the machine it ran on goes on.
    Kill,
    /// Every process of the server is asked to end (SIGTERM) and does so in its own way.
    Stop,
    /// The machine of the server loses its power.
    PowerCut,
    /// Every process of the server stands still (SIGSTOP), its connections stay open.
    Pause,
    /// The server stands still nine tenths of the time, in turns of a tenth of a second.
    Slow,
    /// The link of the server is down: nobody reaches it and it reaches nobody.
    LinkDown,
    /// The server hears the others, and nothing it sends gets to them.
    OneWay,
    /// The link of the server goes down and up again every second.
    Flap,
}

impl Fault {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Fault; 8] = [
        Fault::Kill,
        Fault::Stop,
        Fault::PowerCut,
        Fault::Pause,
        Fault::Slow,
        Fault::LinkDown,
        Fault::OneWay,
        Fault::Flap,
    ];

    /// Its name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::Stop => "stop",
            Fault::PowerCut => "power-cut",
            Fault::Pause => "pause",
            Fault::Slow => "slow",
            Fault::LinkDown => "link-down",
            Fault::OneWay => "one-way",
            Fault::Flap => "flap",
        }
    }

    /// What it does, in one line.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Fault::Kill => "kill -9 every process of the server",
            Fault::Stop => "ask every process of the server to end",
            Fault::PowerCut => "cut the power of the server's machine",
            Fault::Pause => "let every process of the server stand still",
            Fault::Slow => "let the server stand still nine tenths of the time",
            Fault::LinkDown => "take the link of the server down",
            Fault::OneWay => "throw away everything the server sends",
            Fault::Flap => "take the link of the server down and up again every second",
        }
    }

    /// The fault of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Fault> {
        Fault::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// All names in one line.
    #[must_use]
    pub fn names() -> String {
        Fault::ALL.map(Fault::name).join(", ")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name() {
        for fault in Fault::ALL {
            assert_eq!(Fault::find(fault.name()), Some(fault));
            let stored = serde_json::to_string(&fault).unwrap();
            assert_eq!(stored, format!("\"{fault}\""));
        }
        assert_eq!(Fault::find("rain"), None);
    }
}
