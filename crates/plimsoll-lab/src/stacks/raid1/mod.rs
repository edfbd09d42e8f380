// SPDX-License-Identifier: Apache-2.0
//! btrfs mirrored over two disks reached over iSCSI on the loopback address.
//!
//! Manual: `raid1.md`.

use plimsoll_core::plan::{Arg, Cmd, Made, Plan};

use super::{Choice, Needs, Order, Place, Shape, Stack, Unmet, node};

/// Nodes, and copies of each block.
const NODES: u16 = 2;

/// The stack `raid1`.
#[derive(Debug)]
pub struct Raid1;

impl Stack for Raid1 {
    fn name(&self) -> &'static str {
        "raid1"
    }

    fn about(&self) -> &'static str {
        "btrfs raid1 (data and metadata) over two iSCSI disks over loopback TCP (each: image with \
         direct I/O, tgtd, qemu-storage-daemon, nbdfuse, loop device)"
    }

    fn shape(&self, _: &Choice) -> Result<Shape, Unmet> {
        Ok(Shape {
            servers: NODES,
            ports: 1,
            place: Place::Here,
        })
    }

    fn needs(&self, _: &Choice) -> Needs {
        node::needs(&["mkfs.btrfs", "btrfs"])
    }

    fn plan(&self, order: &Order<'_>) -> Result<(Plan, Made), Unmet> {
        node::check(order)?;
        let dir = order.dir();
        let mut plan = Plan::default();
        let nodes = node::all(order, &dir);
        node::begin(&mut plan, &nodes, &dir);
        let disks = || nodes.iter().map(|node| Arg::LoopOf(node.device_file()));
        let words = |words: &[&str]| words.iter().map(|w| Arg::from(*w)).collect::<Vec<_>>();
        let options_of_make = words(&["-q", "--nodiscard", "-d", "raid1", "-m", "raid1"]);
        let make = Cmd::new("mkfs.btrfs", options_of_make.into_iter().chain(disks()));
        // The kernel finds the second disk only if it has been shown both.
        let scan = words(&["device", "scan"]);
        let show = Cmd::new("btrfs", scan.into_iter().chain(disks()));
        let make = [
            ("make the file system", make),
            ("show the kernel both disks", show),
        ];
        let at = format!("{dir}/mnt");
        node::add_mount(&mut plan, make, &nodes[0].device_file(), "btrfs", &at);
        let made = Made {
            mount_dir: at,
            file_system: "btrfs".into(),
            description: self.about().into(),
            servers: node::servers(&nodes),
            ..Made::default()
        };
        Ok((plan, made))
    }
}

#[cfg(test)]
mod plan_tests;
