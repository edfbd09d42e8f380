// SPDX-License-Identifier: Apache-2.0
//! One disk reached over NBD: as it is, or slower and worse by a known measure.
//!
//! Manual: `nbd.md`.

use plimsoll_core::plan::{Made, Plan};
use plimsoll_core::settings::{Setting, Settings, Unit};

use super::node::nbd::Nbd;
use super::node::{FAIL_AFTER, Transport, file_system};
use super::{Choice, Needs, Order, Place, Rung, Shape, Stack, Unmet, node};

/// The stack `nbd`.
#[derive(Debug)]
pub struct NbdDisk;

const SETTINGS: &[Setting] = &[
    file_system::FS,
    Setting {
        name: "read_delay",
        unit: Unit::Time,
        default: "0",
        help: "time added to each read, in whole milliseconds",
    },
    Setting {
        name: "write_delay",
        unit: Unit::Time,
        default: "0",
        help: "time added to each write, in whole milliseconds",
    },
    Setting {
        name: "rate",
        unit: Unit::Size(1),
        default: "0",
        help: "bytes per second, reads and writes each; 0: as fast as it is",
    },
    Setting {
        name: "read_errors",
        unit: Unit::Number,
        default: "0",
        help: "percent of the reads that fail, from when it is up",
    },
    Setting {
        name: "write_errors",
        unit: Unit::Number,
        default: "0",
        help: "percent of the writes that fail, from when it is up",
    },
    Setting {
        name: "tls",
        unit: Unit::Flag,
        default: "on",
        help: "--on netns or FILE: client and server show that they know a key, which is made for the \
               stack, and encrypt; off: every user of every machine that reaches the port may read and \
               write the disk. On this machine itself they meet at a socket that nobody else reaches",
    },
    FAIL_AFTER,
];

fn transport(settings: &Settings) -> Result<Transport, Unmet> {
    Nbd::of(settings).map(Transport::Nbd)
}

/// For what does not depend on the settings, which are checked elsewhere.
fn any() -> Transport {
    Transport::Nbd(Nbd::plain(1))
}

impl Stack for NbdDisk {
    fn name(&self) -> &'static str {
        "nbd"
    }

    fn about(&self) -> &'static str {
        "a file system on one disk over NBD (image, nbdkit, qemu-storage-daemon, nbdfuse, loop \
         device), slowed down or made to fail as it is set"
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn shape(&self, choice: &Choice) -> Result<Shape, Unmet> {
        transport(&choice.settings)?;
        Ok(Shape {
            servers: 1,
            ports: 1,
            place: Place::Here,
        })
    }

    fn lets_in(&self, choice: &Choice) -> Option<&'static str> {
        (!choice.settings.flag("tls")).then_some(super::ANYBODY)
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
        let transport = transport(settings)?;
        let nodes = node::all(order, &dir, &transport);
        let mut plan = Plan::default();
        node::begin(&mut plan, &nodes, &dir);
        let at = format!("{dir}/mnt");
        let disk = nodes[0].device_file();
        node::add_mount_of(&mut plan, settings, &disk, &at);
        if let Transport::Nbd(nbd) = &transport {
            nbd.add_errors(&nodes[0], &mut plan);
        }
        let fs = settings.text("fs");
        let made = Made {
            mount_dir: at,
            file_system: fs.into(),
            description: format!(
                "{fs} on one disk over NBD (image, nbdkit, qemu-storage-daemon, nbdfuse, loop \
                 device)"
            ),
            servers: node::servers(&nodes),
            proofs: vec![nodes[0].flushes()],
            ..Made::default()
        };
        Ok((plan, made))
    }

    fn rungs(&self, choice: &Choice) -> Vec<Rung> {
        vec![
            Rung::new("disk", "local"),
            Rung::new("transport", choice.parts.base.to_string()),
        ]
    }
}

#[cfg(test)]
mod plan_tests;
