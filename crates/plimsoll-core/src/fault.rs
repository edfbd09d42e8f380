// SPDX-License-Identifier: Apache-2.0
//! Faults that are injected into the servers of a storage system.
//!
//! The kinds follow what fails in the field; their names are those of the command line and of
//! reports. What each does to which provider of servers is in the lab.

use serde::{Deserialize, Serialize};

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
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
    /// The link of the server is down in both directions.
    LinkDown,
    /// The server hears the others, and nothing it sends gets to them.
    OneWay,
    /// The link of the server goes down and up again every second.
    Flap,
    /// The server and the other servers cannot reach each other; all of them reach the client.
    Partition,
    /// Packets that the server sends arrive [`DELAY_MS`] later.
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
    /// The clock of the server's machine is an hour ahead, and right again after the recovery.
    ClockStep,
    /// The ports of the server are sent garbage, and headers of its protocols that break off.
    Malformed,
    /// The server is lost and brought back, and while what it missed is being made good another one
    /// is lost.
    Double,
    /// The service of the server is moved to another one in good order, and moved back.
    FailBack,
}

/// How much later what is sent arrives under [`FaultKind::Delay`], in milliseconds.
pub const DELAY_MS: u32 = 50;

/// How many of 100 packets are lost under [`FaultKind::Loss`].
pub const LOSS_PERCENT: u32 = 5;

/// Command to a machine about a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FaultCommand {
    /// Say whether it could be done; nothing is different afterwards.
    Try,
    /// Do it.
    On,
    /// End it; fine when it is not there.
    Off,
}

crate::named::named_variants! {
    FaultCommand, Display,
    /// Its name on the command line.
    name:
    Try => "try",
    On => "on",
    Off => "off",
}

crate::named::named_variants! {
    FaultKind, Display,
    /// Its name on the command line and in reports.
    name:
    Kill => "kill",
    Stop => "stop",
    PowerCut => "power-cut",
    Pause => "pause",
    Slow => "slow",
    LinkDown => "link-down",
    OneWay => "one-way",
    Flap => "flap",
    Partition => "partition",
    Delay => "delay",
    Loss => "loss",
    DiskSlow => "disk-slow",
    DiskHung => "disk-hung",
    DiskErrors => "disk-errors",
    DiskFull => "disk-full",
    ClockStep => "clock-step",
    Malformed => "malformed",
    Double => "double",
    FailBack => "fail-back",
}

impl FaultKind {
    /// Effect of the fault, in one line.
    pub fn about(self) -> &'static str {
        match self {
            FaultKind::Kill => "kill every process of the server (SIGKILL)",
            FaultKind::Stop => "terminate every process of the server (SIGTERM)",
            FaultKind::PowerCut => "cut the power of the server's machine",
            FaultKind::Pause => "suspend every process of the server (SIGSTOP)",
            FaultKind::Slow => "suspend the server 90 % of the time",
            FaultKind::LinkDown => "take the link of the server down",
            FaultKind::OneWay => "drop every packet the server sends",
            FaultKind::Flap => "take the link of the server down and up again every second",
            FaultKind::Partition => {
                "isolate the server from the other servers, not from the client"
            }
            FaultKind::Delay => "delay packets the server sends by 50 ms",
            FaultKind::Loss => "drop 5 % of the packets the server sends",
            FaultKind::DiskSlow => {
                "limit the disks of the server's machine to ten requests a second"
            }
            FaultKind::DiskHung => "hang the disks of the server's machine",
            FaultKind::DiskErrors => "fail every request to the disks of the server's machine",
            FaultKind::DiskFull => "fill the data disk of the server",
            FaultKind::ClockStep => "set the clock of the server's machine an hour ahead, and back",
            FaultKind::Malformed => "send garbage and broken headers to the ports of the server",
            FaultKind::Double => "lose another server while this one is being rebuilt",
            FaultKind::FailBack => {
                "move the service to another server in a controlled way, and back"
            }
        }
    }

    /// The fault of this name.
    pub fn find(name: &str) -> Option<FaultKind> {
        FaultKind::ALL
            .into_iter()
            .find(|fault| fault.name() == name)
    }

    /// All names in one line.
    pub fn names() -> String {
        FaultKind::ALL.map(FaultKind::name).join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name() {
        for fault in FaultKind::ALL {
            assert_eq!(FaultKind::find(fault.name()), Some(fault));
            let stored = serde_json::to_string(&fault).unwrap();
            assert_eq!(stored, format!("\"{fault}\""));
        }
        assert_eq!(FaultKind::find("rain"), None);
    }
}
