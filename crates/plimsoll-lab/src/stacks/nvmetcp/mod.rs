// SPDX-License-Identifier: Apache-2.0
//! A file system on a disk reached by NVMe over TCP, from kernel to kernel.
//!
//! Manual: `nvmetcp.md`.

use plimsoll_core::plan::{Plan, StackOutputs};
use plimsoll_core::settings::SettingDefinition;

use super::kernel_disk::KernelDisk;
use super::node::{self, FAIL_AFTER, file_system};
use super::{
    ClientPlace, PreconditionError, StackConfig, StackFootprint, StackPlanInput, StackRecipe,
    StackRequirements,
};

/// The stack `nvmetcp`.
#[derive(Debug)]
pub struct NvmeTcpStack;

const SETTINGS: &[SettingDefinition] = &[file_system::FS, FAIL_AFTER];

const DISK: KernelDisk = KernelDisk {
    about: "one disk by NVMe over TCP (nvmet and nvme-tcp of kernels, loop device with direct I/O)",
    script: include_str!("nvmet.sh"),
    client_programs: &["nvme"],
};

impl StackRecipe for NvmeTcpStack {
    fn name(&self) -> &'static str {
        "nvmetcp"
    }

    fn about(&self) -> &'static str {
        "a file system on one disk by NVMe over TCP, from the kernel of a machine to that of another"
    }

    fn settings(&self) -> &'static [SettingDefinition] {
        SETTINGS
    }

    fn shape(&self, choice: &StackConfig) -> Result<StackFootprint, PreconditionError> {
        node::fail_after_s(&choice.settings)?;
        Ok(StackFootprint::here(1, 0))
    }

    fn lets_in(&self, _: &StackConfig) -> Option<&'static str> {
        Some(super::ANYBODY)
    }

    fn needs_machines(&self, _: &StackConfig) -> bool {
        true
    }

    fn server_needs(&self, choice: &StackConfig) -> StackRequirements {
        DISK.server_needs(choice)
    }

    fn plan(&self, order: &StackPlanInput<'_>) -> Result<(Plan, StackOutputs), PreconditionError> {
        DISK.plan(order)
    }

    fn client_needs(&self, _: &StackConfig) -> Option<StackRequirements> {
        Some(DISK.client_needs())
    }

    fn has_one_client(&self, _: &StackConfig) -> bool {
        true
    }

    fn client(
        &self,
        order: &StackPlanInput<'_>,
        place: ClientPlace<'_>,
    ) -> Result<(Plan, StackOutputs), PreconditionError> {
        Ok(DISK.client(order, place))
    }
}

#[cfg(test)]
mod plan_tests;
