// SPDX-License-Identifier: Apache-2.0
//! A file system on one disk reached over iSCSI.
//!
//! Manual: `iscsi.md`.

use plimsoll_core::plan::{Made, Plan};
use plimsoll_core::settings::{Setting, Settings, Unit};

use super::kernel_disk::KernelDisk;
use super::node::{FAIL_AFTER, Transport, file_system};
use super::{Choice, ClientPlace, Needs, Order, Place, Rung, Shape, Stack, Unmet, node};

/// The stack `iscsi`.
#[derive(Debug)]
pub struct Iscsi;

const SETTINGS: &[Setting] = &[
    Setting {
        name: "target",
        unit: Unit::Choice(&["tgt", "lio"]),
        default: "tgt",
        help: "who serves: tgt, a program, to an initiator that is one, too; or lio, the kernel of a \
               machine, to the kernel of the machine that the load comes from (--on FILE, --from NODE)",
    },
    file_system::FS,
    Setting {
        name: "chap",
        unit: Unit::Flag,
        default: "on",
        help: "the client shows that it knows a secret, which is made for the stack; off: every user of \
               every machine that reaches the port may read and write the disk",
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

/// From kernel to kernel.
const DISK: KernelDisk = KernelDisk {
    about: "one iSCSI disk (LIO and open-iscsi of kernels, loop device with direct I/O)",
    script: include_str!("lio.sh"),
    client_programs: &["iscsiadm", "iscsid"],
};

fn is_kernel(choice: &Choice) -> bool {
    choice.settings.text("target") == "lio"
}

/// What the kernel's target has no settings for here.
fn check_lio(settings: &Settings) -> Result<(), Unmet> {
    node::fail_after_s(settings)?;
    let given = [
        ("chap", settings.is_given("chap")),
        ("write_cache=off", !settings.flag("write_cache")),
        ("sectors=4096", settings.text("sectors") != "512"),
    ];
    let given = given.iter().filter(|(_, is_given)| *is_given);
    let unmet: Vec<String> = given
        .map(|(word, _)| format!("{word} is for target=tgt"))
        .collect();
    if unmet.is_empty() {
        Ok(())
    } else {
        Err(Unmet(unmet))
    }
}

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
        if is_kernel(choice) {
            check_lio(&choice.settings)?;
        }
        node::iscsi::Iscsi::of(&choice.settings)?;
        Ok(Shape {
            servers: 1,
            ports: u16::from(!is_kernel(choice)),
            place: Place::Here,
        })
    }

    fn needs_machines(&self, choice: &Choice) -> bool {
        is_kernel(choice)
    }

    fn lets_in(&self, choice: &Choice) -> Option<&'static str> {
        (is_kernel(choice) || !choice.settings.flag("chap")).then_some(super::ANYBODY)
    }

    fn needs(&self, choice: &Choice) -> Needs {
        if is_kernel(choice) {
            return Needs::default();
        }
        node::needs(&any(), &[file_system::maker(&choice.settings)])
    }

    fn server_needs(&self, choice: &Choice) -> Needs {
        if is_kernel(choice) {
            return DISK.server_needs(choice);
        }
        node::server_needs(&any())
    }

    fn plan(&self, order: &Order<'_>) -> Result<(Plan, Made), Unmet> {
        if is_kernel(order.choice) {
            return DISK.plan(order);
        }
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

    fn client_needs(&self, choice: &Choice) -> Option<Needs> {
        is_kernel(choice).then(|| DISK.client_needs())
    }

    fn has_one_client(&self, choice: &Choice) -> bool {
        is_kernel(choice)
    }

    fn client(&self, order: &Order<'_>, place: ClientPlace<'_>) -> Result<(Plan, Made), Unmet> {
        Ok(DISK.client(order, place))
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
