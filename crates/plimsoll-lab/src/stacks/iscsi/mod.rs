// SPDX-License-Identifier: Apache-2.0
//! ext4 on one disk reached over iSCSI on the loopback address.
//!
//! Manual: `iscsi.md`.

use plimsoll_core::plan::{Arg, Cmd, Made, Plan};

use super::{Choice, Needs, Order, Place, Shape, Stack, Unmet, node};

/// The stack `iscsi`.
#[derive(Debug)]
pub struct Iscsi;

impl Stack for Iscsi {
    fn name(&self) -> &'static str {
        "iscsi"
    }

    fn about(&self) -> &'static str {
        "ext4 on one iSCSI disk over loopback TCP (image with direct I/O, tgtd, \
         qemu-storage-daemon, nbdfuse, loop device)"
    }

    fn shape(&self, _: &Choice) -> Result<Shape, Unmet> {
        Ok(Shape {
            servers: 1,
            ports: 1,
            place: Place::Here,
        })
    }

    fn needs(&self, _: &Choice) -> Needs {
        node::needs(&["mkfs.ext4"])
    }

    fn plan(&self, order: &Order<'_>) -> Result<(Plan, Made), Unmet> {
        node::check(order)?;
        let dir = order.dir();
        let mut plan = Plan::default();
        let nodes = node::all(order, &dir);
        node::begin(&mut plan, &nodes, &dir);
        let node = &nodes[0];
        // A fresh image reads as zeros, and saying so spares writing them: tgtd zeroes sector by
        // sector, which takes minutes, and leaving it to the kernel would mean writing while we
        // measure. Not discarding: the chain does not pass it on. Not forced: nothing is there.
        let make = Cmd::new(
            "mkfs.ext4",
            [
                Arg::from("-q"),
                "-E".into(),
                "nodiscard,assume_storage_prezeroed=1".into(),
                Arg::LoopOf(node.device_file()),
            ],
        );
        let at = format!("{dir}/mnt");
        let make = [("make the file system", make)];
        node::add_mount(&mut plan, make, &node.device_file(), "ext4", &at);
        let made = Made {
            mount_dir: at,
            file_system: "ext4".into(),
            description: self.about().into(),
            servers: node::servers(&nodes),
            ..Made::default()
        };
        Ok((plan, made))
    }
}

#[cfg(test)]
mod plan_tests;
