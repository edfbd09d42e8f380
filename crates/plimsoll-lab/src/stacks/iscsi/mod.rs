// SPDX-License-Identifier: Apache-2.0
//! ext4 on one disk reached over iSCSI on the loopback address.
//!
//! Manual: `iscsi.md`.

use plimsoll_core::plan::{Arg, Cmd, Plan};
use std::path::PathBuf;

use super::{Facts, Needs, Options, Stack, Unmet, node, stack_dir};

/// The stack `iscsi`.
#[derive(Debug)]
pub struct Iscsi;

impl Stack for Iscsi {
    fn name(&self) -> &'static str {
        "iscsi"
    }

    fn description(&self) -> &'static str {
        "ext4 on one iSCSI disk over loopback TCP (image with direct I/O, tgtd, \
         qemu-storage-daemon, nbdfuse, loop device)"
    }

    fn needs(&self) -> Needs {
        const PROGRAMS: [&str; 10] = with(node::PROGRAMS, "mkfs.ext4");
        node::needs(&PROGRAMS)
    }

    fn mount_dir(&self, options: &Options) -> PathBuf {
        stack_dir(self.name(), options).join("mnt")
    }

    fn plan(&self, options: &Options, facts: &Facts) -> Result<Plan, Unmet> {
        let dir = stack_dir(self.name(), options);
        let port = node::check(1, &dir, Some(options.first_port), options, facts)?;
        let dir = dir.to_string_lossy();
        let mut plan = Plan::default();
        node::add_port(&mut plan, port);
        node::add_dir(&mut plan, &dir);
        let node = node::Node {
            dir: &dir,
            number: 0,
            port,
            size_bytes: options.size_bytes,
            id: &facts.id,
        };
        node.add_to(&mut plan);
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
        let at = self.mount_dir(options);
        let at = at.to_string_lossy();
        let make = [("make the file system", make)];
        node::add_mount(&mut plan, make, &node.device_file(), "ext4", &at);
        Ok(plan)
    }
}

/// The programs of a node and one more.
pub(super) const fn with(
    programs: [&'static str; 9],
    one_more: &'static str,
) -> [&'static str; 10] {
    let [a, b, c, d, e, f, g, h, i] = programs;
    [a, b, c, d, e, f, g, h, i, one_more]
}

#[cfg(test)]
mod plan_tests;
