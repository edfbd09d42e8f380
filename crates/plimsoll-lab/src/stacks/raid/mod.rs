// SPDX-License-Identifier: Apache-2.0
//! btrfs over several disks, each of a node of its own: mirrored, striped with parity, or both
//! striped and mirrored.
//!
//! Manual: `raid.md`.

mod change;
mod health;
mod md;

use plimsoll_core::plan::{Arg, Cmd, Made, Plan, Proof};
use plimsoll_core::settings::{Setting, Settings, Unit};

use super::node::iscsi::Iscsi;
use super::node::nbd::Nbd;
use super::node::{FAIL_AFTER, Node, Transport};
use super::{
    Choice, Needs, Order, Place, Rung, ScrubCount, Shape, Stack, Unmet, Verb, node, not_given,
};
use crate::host::Hosts;
use crate::journal::Record;

/// A stack of several disks.
#[derive(Debug)]
pub struct Raid {
    name: &'static str,
    about: &'static str,
    nodes: u16,
    /// How data are spread, as btrfs names it.
    data: &'static str,
    /// How metadata are.
    metadata: &'static str,
}

/// Two copies of everything on two disks.
pub const RAID1: Raid = Raid {
    name: "raid1",
    about: "btrfs raid1 (data and metadata) over the disks of two nodes",
    nodes: 2,
    data: "raid1",
    metadata: "raid1",
};

/// Data striped with parity over three disks. Metadata are mirrored: btrfs advises against parity
/// for them, since a crash can leave stripe and parity apart.
pub const RAID5: Raid = Raid {
    name: "raid5",
    about: "btrfs raid5 (data) and raid1 (metadata) over the disks of three nodes",
    nodes: 3,
    data: "raid5",
    metadata: "raid1",
};

/// Two copies of everything, striped over four disks.
pub const RAID10: Raid = Raid {
    name: "raid10",
    about: "btrfs raid10 (data and metadata) over the disks of four nodes",
    nodes: 4,
    data: "raid10",
    metadata: "raid10",
};

const SETTINGS: &[Setting] = &[
    Setting {
        name: "transport",
        unit: Unit::Choice(&["iscsi", "nbd"]),
        default: "iscsi",
        help: "how the disks get to the client",
    },
    FAIL_AFTER,
    md::BY,
    node::file_system::FS,
    md::CHUNK,
    md::CONSISTENCY,
];

fn transport(settings: &Settings) -> Result<Transport, Unmet> {
    let fail_after_s = node::fail_after_s(settings)?;
    Ok(match settings.text("transport") {
        "nbd" => Transport::Nbd(Nbd::plain(fail_after_s)),
        _ => Transport::Iscsi(Iscsi::plain(fail_after_s)),
    })
}

/// For what does not depend on times, which are checked elsewhere.
fn kind(settings: &Settings) -> Transport {
    match settings.text("transport") {
        "nbd" => Transport::Nbd(Nbd::plain(1)),
        _ => Transport::Iscsi(Iscsi::plain(1)),
    }
}

/// Words as arguments.
fn words(words: &[&str]) -> Vec<Arg> {
    words.iter().map(|word| Arg::from(*word)).collect()
}

/// The loop devices of nodes as arguments.
fn disks(nodes: &[Node<'_>]) -> Vec<Arg> {
    let disk = |node: &Node<'_>| Arg::LoopOf(node.device_file());
    nodes.iter().map(disk).collect()
}

/// Shows the kernel all disks: it finds the others only if it has been shown them.
fn scan(nodes: &[Node<'_>]) -> Cmd {
    let show = words(&["device", "scan"]).into_iter().chain(disks(nodes));
    Cmd::new("btrfs", show)
}

impl Raid {
    fn made(&self, order: &Order<'_>, nodes: &[Node<'_>]) -> Made {
        let at = mount_dir(order);
        let mut proofs = Vec::new();
        for node in nodes {
            proofs.push(node.flushes());
        }
        for node in nodes {
            proofs.push(Proof::Survives {
                node: node.name(),
                lose: node.lose(),
                restore: change::restoring(order, nodes, node),
            });
        }
        Made {
            mount_dir: at,
            file_system: "btrfs".into(),
            description: format!(
                "btrfs {} over {} disks over {} (each: image, {}, qemu-storage-daemon, nbdfuse, \
                 loop device)",
                self.profiles(),
                nodes.len(),
                order.settings().text("transport"),
                match order.settings().text("transport") {
                    "nbd" => "nbdkit",
                    _ => "tgtd with direct I/O",
                },
            ),
            servers: node::servers(nodes),
            proofs,
            ..Made::default()
        }
    }

    fn profiles(&self) -> String {
        if self.data == self.metadata {
            return format!("{} (data and metadata)", self.data);
        }
        format!("{} (data) and {} (metadata)", self.data, self.metadata)
    }
}

fn mount_dir(order: &Order<'_>) -> String {
    format!("{}/mnt", order.dir())
}

impl Stack for Raid {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn shape(&self, choice: &Choice) -> Result<Shape, Unmet> {
        transport(&choice.settings)?;
        Ok(Shape {
            servers: self.nodes,
            ports: 1,
            place: Place::Here,
        })
    }

    fn needs(&self, choice: &Choice) -> Needs {
        let programs = match choice.settings.text("by") {
            "md" => md::programs(&choice.settings),
            _ => ["mkfs.btrfs", "btrfs"],
        };
        node::needs(&kind(&choice.settings), &programs)
    }

    fn server_needs(&self, choice: &Choice) -> Needs {
        node::server_needs(&kind(&choice.settings))
    }

    fn plan(&self, order: &Order<'_>) -> Result<(Plan, Made), Unmet> {
        if md::is_meant(order)? {
            return md::plan(self, order);
        }
        let of_md = "arrays of the kernel: say by=md, where it has md";
        not_given(order.settings(), &["fs", "chunk", "consistency"], of_md)?;
        node::check(order)?;
        let transport = transport(order.settings())?;
        let dir = order.dir();
        let nodes = node::all(order, &dir, &transport);
        let mut plan = Plan::default();
        node::begin(&mut plan, &nodes, &dir);
        let options = ["-q", "--nodiscard", "-d", self.data, "-m", self.metadata];
        let options = words(&options).into_iter();
        let make = Cmd::new("mkfs.btrfs", options.chain(disks(&nodes)));
        let make = [
            ("make the file system", make),
            ("show the kernel all disks", scan(&nodes)),
        ];
        let at = mount_dir(order);
        node::add_mount(&mut plan, make, &disks(&nodes), "btrfs", &at);
        let made = self.made(order, &nodes);
        Ok((plan, made))
    }

    fn change(
        &self,
        verb: Verb<'_>,
        order: &Order<'_>,
        record: &Record,
    ) -> Result<(Plan, Made), Unmet> {
        if md::is_made(record) {
            return md::change(self, verb, order, record);
        }
        let transport = transport(order.settings())?;
        let dir = order.dir();
        let nodes = node::all(order, &dir, &transport);
        let plan = change::plan(verb, order, &nodes, record)?;
        Ok((plan, self.made(order, &nodes)))
    }

    fn lacks(&self, order: &Order<'_>, record: &Record, hosts: &mut dyn Hosts) -> Vec<String> {
        match md::is_made(record) {
            true => health::md(order, md::device(self, order), hosts),
            false => health::btrfs(order, hosts),
        }
    }

    fn scrubbed(
        &self,
        order: &Order<'_>,
        record: &Record,
        hosts: &mut dyn Hosts,
    ) -> Option<ScrubCount> {
        match md::is_made(record) {
            true => None,
            false => health::scrubbed(order, hosts),
        }
    }

    fn rungs(&self, choice: &Choice) -> Vec<Rung> {
        let fs = match choice.settings.text("by") {
            "md" => choice.settings.text("fs"),
            _ => "btrfs",
        };
        let below = format!("{}(fs={fs})", choice.settings.text("transport"));
        vec![
            Rung::new("disk", "local"),
            Rung::new("transport", below),
            Rung::new("redundancy", choice.parts.base.to_string()),
        ]
    }
}

#[cfg(test)]
mod md_tests;
#[cfg(test)]
mod plan_tests;
