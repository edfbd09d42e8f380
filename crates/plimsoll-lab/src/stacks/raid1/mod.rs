// SPDX-License-Identifier: Apache-2.0
//! btrfs mirrored over two disks reached over iSCSI on the loopback address.
//!
//! Manual: `raid1.md`.

use plimsoll_core::plan::{Arg, Cmd, Plan};
use std::path::PathBuf;

use super::iscsi::with;
use super::{Facts, Needs, Options, Stack, Unmet, node, stack_dir};

/// Nodes, and copies of each block.
const NODES: u16 = 2;

/// The stack `raid1`.
#[derive(Debug)]
pub struct Raid1;

impl Stack for Raid1 {
    fn name(&self) -> &'static str {
        "raid1"
    }

    fn description(&self) -> &'static str {
        "btrfs raid1 (data and metadata) over two iSCSI disks over loopback TCP (each: image with \
         direct I/O, tgtd, qemu-storage-daemon, nbdfuse, loop device)"
    }

    fn needs(&self) -> Needs {
        const PROGRAMS: [&str; 10] = with(node::PROGRAMS, "mkfs.btrfs");
        node::needs(&PROGRAMS)
    }

    fn mount_dir(&self, options: &Options) -> PathBuf {
        stack_dir(self.name(), options).join("mnt")
    }

    fn plan(&self, options: &Options, facts: &Facts) -> Result<Plan, Unmet> {
        let dir = stack_dir(self.name(), options);
        // The first port belongs to the stack `iscsi`, so that both can be up for a comparison.
        let first = options.first_port.checked_add(1);
        let port = node::check(NODES, &dir, first, options, facts)?;
        let dir = dir.to_string_lossy();
        let mut plan = Plan::default();
        let nodes: Vec<node::Node<'_>> = (0..NODES)
            .map(|number| node::Node {
                dir: &dir,
                number,
                port: port + number,
                size_bytes: options.size_bytes,
                id: &facts.id,
            })
            .collect();
        for node in &nodes {
            node::add_port(&mut plan, node.port);
        }
        node::add_dir(&mut plan, &dir);
        for node in &nodes {
            node.add_to(&mut plan);
        }
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
        let at = self.mount_dir(options);
        let at = at.to_string_lossy();
        node::add_mount(&mut plan, make, &nodes[0].device_file(), "btrfs", &at);
        Ok(plan)
    }
}

#[cfg(test)]
mod plan_tests;
