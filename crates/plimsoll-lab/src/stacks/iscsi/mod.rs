// SPDX-License-Identifier: Apache-2.0
//! A file system on one disk reached over iSCSI.
//!
//! Manual: `iscsi.md`.

use plimsoll_core::plan::{Made, Plan};
use plimsoll_core::settings::{Setting, Unit};

use super::node::{FAIL_AFTER, Transport, file_system};
use super::{Choice, Needs, Order, Place, Rung, Shape, Stack, Unmet, node};

/// The stack `iscsi`.
#[derive(Debug)]
pub struct Iscsi;

const SETTINGS: &[Setting] = &[
    file_system::FS,
    Setting {
        name: "chap",
        unit: Unit::Flag,
        default: "off",
        help: "the client shows that it knows a secret, which is made for the stack",
    },
    Setting {
        name: "write_cache",
        unit: Unit::Flag,
        default: "on",
        help: "the disk may keep writes until a flush; off: each write is answered when it is on \
               the disk",
    },
    Setting {
        name: "sectors",
        unit: Unit::Choice(&["512", "4096"]),
        default: "512",
        help: "bytes in a sector of the disk",
    },
    FAIL_AFTER,
];

/// For what does not depend on the settings, which are checked elsewhere.
fn any() -> Transport {
    Transport::Iscsi(node::iscsi::Iscsi::plain(1))
}

impl Stack for Iscsi {
    fn name(&self) -> &'static str {
        "iscsi"
    }

    fn about(&self) -> &'static str {
        "a file system on one iSCSI disk (image with direct I/O, tgtd, qemu-storage-daemon, \
         nbdfuse, loop device)"
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn shape(&self, choice: &Choice) -> Result<Shape, Unmet> {
        node::iscsi::Iscsi::of(&choice.settings)?;
        Ok(Shape {
            servers: 1,
            ports: 1,
            place: Place::Here,
        })
    }

    fn needs(&self, choice: &Choice) -> Needs {
        node::needs(&any(), &[file_system::maker(&choice.settings)])
    }

    fn server_needs(&self, _: &Choice) -> Needs {
        node::server_needs(&any())
    }

    fn plan(&self, order: &Order<'_>) -> Result<(Plan, Made), Unmet> {
        node::check(order)?;
        file_system::check(order)?;
        let (settings, dir) = (order.settings(), order.dir());
        let transport = Transport::Iscsi(node::iscsi::Iscsi::of(settings)?);
        let nodes = node::all(order, &dir, &transport);
        let mut plan = Plan::default();
        node::begin(&mut plan, &nodes, &dir);
        let at = format!("{dir}/mnt");
        node::add_mount_of(&mut plan, settings, &nodes[0].device_file(), &at);
        let fs = settings.text("fs");
        let made = Made {
            mount_dir: at,
            file_system: fs.into(),
            description: format!(
                "{fs} on one iSCSI disk (image with direct I/O, tgtd, qemu-storage-daemon, \
                 nbdfuse, loop device)"
            ),
            servers: node::servers(&nodes),
            proofs: vec![nodes[0].flushes()],
            ..Made::default()
        };
        Ok((plan, made))
    }

    fn rungs(&self, choice: &Choice) -> Vec<Rung> {
        let rung = |adds: &str, stack: String| Rung {
            adds: adds.into(),
            stack,
        };
        vec![
            rung("disk", "local".into()),
            rung("transport", choice.parts.base.to_string()),
        ]
    }
}

#[cfg(test)]
mod plan_tests;
