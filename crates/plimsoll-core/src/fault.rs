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
    /// Every process of the server is asked to end (SIGTERM) and does so in its own way, or is killed when
    /// it has not after 90 s.
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
    /// The server and the other servers cannot reach each other; all of them reach the client.
    Partition,
    /// What the server sends arrives [`DELAY_MS`] later.
    Delay,
    /// Of the packets that the server sends, [`LOSS_PERCENT`] of 100 are thrown away.
    Loss,
    /// The disks of the server's machine carry out some ten requests a second.
    DiskSlow,
    /// The disks of the server's machine carry out nothing.
    DiskHung,
    /// Every request to the disks of the server's machine fails. What they hold is as it was.
    DiskErrors,
    /// The disk that the server keeps its data on is full.
    DiskFull,
    /// The clock of the server's machine is an hour ahead, and right again when that is healed.
    ClockStep,
    /// The ports of the server are sent garbage, and headers of its protocols that break off.
    Malformed,
    /// The server is lost and brought back, and while what it missed is being made good another one
    /// is lost.
    Double,
    /// What the server does is moved to another one in good order, and moved back.
    FailBack,
}

/// How much later what is sent arrives under [`Fault::Delay`], in milliseconds.
pub const DELAY_MS: u32 = 50;

/// How many of 100 packets are lost under [`Fault::Loss`].
pub const LOSS_PERCENT: u32 = 5;

/// What a machine is told to do with a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Say whether it could be done; nothing is different afterwards.
    Try,
    /// Do it.
    On,
    /// End it; fine when it is not there.
    Off,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Word::Try => "try",
            Word::On => "on",
            Word::Off => "off",
        })
    }
}

impl Fault {
    /// All of them, in the order in which they are listed.
    pub const ALL: [Fault; 19] = [
        Fault::Kill,
        Fault::Stop,
        Fault::PowerCut,
        Fault::Pause,
        Fault::Slow,
        Fault::LinkDown,
        Fault::OneWay,
        Fault::Flap,
        Fault::Partition,
        Fault::Delay,
        Fault::Loss,
        Fault::DiskSlow,
        Fault::DiskHung,
        Fault::DiskErrors,
        Fault::DiskFull,
        Fault::ClockStep,
        Fault::Malformed,
        Fault::Double,
        Fault::FailBack,
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
            Fault::Partition => "partition",
            Fault::Delay => "delay",
            Fault::Loss => "loss",
            Fault::DiskSlow => "disk-slow",
            Fault::DiskHung => "disk-hung",
            Fault::DiskErrors => "disk-errors",
            Fault::DiskFull => "disk-full",
            Fault::ClockStep => "clock-step",
            Fault::Malformed => "malformed",
            Fault::Double => "double",
            Fault::FailBack => "fail-back",
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
            Fault::Partition => "cut the server off from the other servers, not from the client",
            Fault::Delay => "let what the server sends arrive 50 ms later",
            Fault::Loss => "throw 5 % of what the server sends away",
            Fault::DiskSlow => {
                "let the disks of the server's machine carry out ten requests a second"
            }
            Fault::DiskHung => "let the disks of the server's machine stand still",
            Fault::DiskErrors => "let every request to the disks of the server's machine fail",
            Fault::DiskFull => "fill the disk that the server keeps its data on",
            Fault::ClockStep => "set the clock of the server's machine an hour ahead, and back",
            Fault::Malformed => "send garbage and broken headers to the ports of the server",
            Fault::Double => "lose another server while this one is being rebuilt",
            Fault::FailBack => "move what the server does to another one in good order, and back",
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
