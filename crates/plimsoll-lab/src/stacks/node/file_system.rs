// SPDX-License-Identifier: Apache-2.0
//! File systems on the loop devices of nodes: made, mounted, seen mounted.

use plimsoll_core::plan::{HERE, Plan, PlanAction, PlanCommand, PlanCommandArg};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

use crate::stacks::{PreconditionError, StackPlanInput};

/// Which file system, as a setting.
pub(in crate::stacks) const FS: SettingDefinition = SettingDefinition {
    name: "fs",
    unit: SettingUnit::Choice(&["ext4", "xfs", "btrfs"]),
    default: "ext4",
    help: "file system on the disk",
};

/// Smallest disk that mkfs.xfs takes.
const MIN_XFS_BYTES: u64 = 300 << 20;

/// What nothing of a stack is mounted without: who could write to the storage below it by another way
/// must not become root by what he put there.
pub(in crate::stacks) const MOUNT_OPTIONS: &str = "nosuid,nodev";

/// Longest time to make a file system: a slow disk is what some of these are for.
const MAKE_LIMIT_S: u32 = 600;

/// The program that makes the chosen one.
pub(in crate::stacks) fn maker(settings: &SettingValues) -> &'static str {
    match settings.text("fs") {
        "xfs" => "mkfs.xfs",
        "btrfs" => "mkfs.btrfs",
        _ => "mkfs.ext4",
    }
}

/// Checks what the chosen one asks for.
pub(in crate::stacks) fn check(order: &StackPlanInput<'_>) -> Result<(), PreconditionError> {
    if order.settings().text("fs") == "xfs" && order.size_bytes < MIN_XFS_BYTES {
        return Err(PreconditionError(vec![format!(
            "a disk of {} MiB is too small for xfs: at least 300 MiB",
            order.size_bytes >> 20
        )]));
    }
    Ok(())
}

/// Adds the steps from the loop device of a file to the chosen file system, mounted at `at`.
pub(in crate::stacks) fn add_mount_of(
    plan: &mut Plan,
    settings: &SettingValues,
    file: &str,
    at: &str,
) {
    add_mount_on(plan, settings, &PlanCommandArg::LoopOf(file.into()), at);
}

/// The same from any device of ours.
pub(in crate::stacks) fn add_mount_on(
    plan: &mut Plan,
    settings: &SettingValues,
    device: &PlanCommandArg,
    at: &str,
) {
    plan.step(
        "create the file system",
        PlanAction::Run(make(settings, device)),
        None,
    );
    let devices = std::slice::from_ref(device);
    add_mount_at(plan, HERE, (devices, settings.text("fs")), at);
}

/// What makes the chosen one on a device of ours.
pub(in crate::stacks) fn make(settings: &SettingValues, device: &PlanCommandArg) -> PlanCommand {
    // Without discarding: the image is reserved, and giving it back would change what is measured.
    let options: &[&str] = match settings.text("fs") {
        "xfs" => &["-q", "-K"],
        "btrfs" => &["-q", "--nodiscard"],
        _ => &["-q", "-E", "nodiscard,assume_storage_prezeroed=1"],
    };
    let options = options.iter().map(|word| PlanCommandArg::from(*word));
    let args = options.chain([device.clone()]);
    PlanCommand::new(maker(settings), args).within_s(MAKE_LIMIT_S)
}

/// Adds the steps that mount a file system that was made before, on these devices together, at a new
/// directory of a node.
pub(in crate::stacks) fn add_mount_at(
    plan: &mut Plan,
    on: &str,
    (devices, file_system): (&[PlanCommandArg], &str),
    at: &str,
) {
    plan.step_on(
        on,
        "create the mount point",
        PlanAction::MakeDir(at.into()),
        Some(PlanAction::RemoveDir(at.into())),
    );
    add_mounting(plan, on, (devices, file_system), at);
}

/// Adds the steps from devices to a mounted file system over them all: the commands of `make` make it.
pub(in crate::stacks) fn add_mount(
    plan: &mut Plan,
    make: impl IntoIterator<Item = (&'static str, PlanCommand)>,
    devices: &[PlanCommandArg],
    file_system: &str,
    at: &str,
) {
    for (why, cmd) in make {
        plan.step(why, PlanAction::Run(cmd), None);
    }
    add_mount_at(plan, HERE, (devices, file_system), at);
}

/// Adds the steps that mount a file system that was made before, on these devices together.
pub(in crate::stacks) fn add_mounting(
    plan: &mut Plan,
    on: &str,
    (devices, file_system): (&[PlanCommandArg], &str),
    at: &str,
) {
    let begin = ["-t", file_system, "-o", MOUNT_OPTIONS].map(PlanCommandArg::from);
    let args = begin.into_iter().chain(devices.first().cloned());
    let args = args.chain([at.into()]);
    plan.step_on(
        on,
        "mount the file system",
        PlanAction::Run(PlanCommand::new("mount", args).within_s(MAKE_LIMIT_S)),
        Some(PlanAction::Unmount(at.into())),
    );
    let is_mounted = PlanAction::MountIs {
        path: at.into(),
        file_system: file_system.into(),
        // The mount table names any one of several.
        sources: devices.to_vec(),
    };
    plan.step_on(
        on,
        "check that the file system is mounted",
        is_mounted,
        None,
    );
}
