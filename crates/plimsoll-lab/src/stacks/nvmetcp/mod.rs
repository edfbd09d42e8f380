// SPDX-License-Identifier: Apache-2.0
//! A file system on a disk reached by NVMe over TCP, from kernel to kernel.
//!
//! Manual: `nvmetcp.md`.

use plimsoll_core::plan::{Made, Plan};
use plimsoll_core::settings::Setting;

use super::kernel_disk::KernelDisk;
use super::node::{self, FAIL_AFTER, file_system};
use super::{Choice, ClientPlace, Needs, Order, Place, Shape, Stack, Unmet};

/// The stack `nvmetcp`.
#[derive(Debug)]
pub struct NvmeTcp;

const SETTINGS: &[Setting] = &[file_system::FS, FAIL_AFTER];

const DISK: KernelDisk = KernelDisk {
    about: "one disk by NVMe over TCP (nvmet and nvme-tcp of kernels, loop device with direct I/O)",
    script: include_str!("nvmet.sh"),
    client_programs: &["nvme"],
};

impl Stack for NvmeTcp {
    fn name(&self) -> &'static str {
        "nvmetcp"
    }

    fn about(&self) -> &'static str {
        "a file system on one disk by NVMe over TCP, from the kernel of a machine to that of another"
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn shape(&self, choice: &Choice) -> Result<Shape, Unmet> {
        node::fail_after_s(&choice.settings)?;
        Ok(Shape {
            servers: 1,
            ports: 0,
            place: Place::Here,
        })
    }

    fn lets_in(&self, _: &Choice) -> Option<&'static str> {
        Some(super::ANYBODY)
    }

    fn needs_machines(&self, _: &Choice) -> bool {
        true
    }

    fn needs(&self, _: &Choice) -> Needs {
        Needs::default()
    }

    fn server_needs(&self, choice: &Choice) -> Needs {
        DISK.server_needs(choice)
    }

    fn plan(&self, order: &Order<'_>) -> Result<(Plan, Made), Unmet> {
        DISK.plan(order)
    }

    fn client_needs(&self, _: &Choice) -> Option<Needs> {
        Some(DISK.client_needs())
    }

    fn has_one_client(&self, _: &Choice) -> bool {
        true
    }

    fn client(&self, order: &Order<'_>, place: ClientPlace<'_>) -> Result<(Plan, Made), Unmet> {
        Ok(DISK.client(order, place))
    }
}

#[cfg(test)]
mod plan_tests;
