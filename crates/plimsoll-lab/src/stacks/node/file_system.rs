// SPDX-License-Identifier: Apache-2.0
//! File systems on the loop devices of nodes: made, mounted, seen mounted.

use plimsoll_core::plan::{HERE, Plan, PlanAction, PlanCommand, PlanCommandArg};
use plimsoll_core::settings::{
    SettingDefinition, SettingLevels, SettingUnit, SettingValues, level, levels, risky,
};

use crate::stacks::sandbox::among_no_mounts;
use crate::stacks::{PreconditionError, StackPlanInput};

/// Which file system, as a setting.
pub(in crate::stacks) const FS: SettingDefinition = SettingDefinition {
    name: "fs",
    unit: SettingUnit::Choice(&["ext4", "xfs", "btrfs"]),
    default: "ext4",
    help: "file system on the disk",
};

/// Which file systems are worth trying (mkfs.ext4(8), mkfs.xfs(8), mkfs.btrfs(8)).
pub(in crate::stacks) const FS_LEVELS: SettingLevels =
    levels("fs", &[level("xfs"), level("ext4"), level("btrfs")]);

/// Whether reads change times of files, as a setting.
pub(in crate::stacks) const ATIME: SettingDefinition = SettingDefinition {
    name: "atime",
    unit: SettingUnit::Choice(&["relatime", "noatime"]),
    default: "relatime",
    help: "access times: relatime updates them about once a day, noatime never",
};

/// Values worth trying (mount(8)).
pub(in crate::stacks) const ATIME_LEVELS: SettingLevels =
    levels("atime", &[level("noatime"), level("relatime")]);

/// Whether the file system flushes the cache of its disk, as a setting.
pub(in crate::stacks) const BARRIER: SettingDefinition = SettingDefinition {
    name: "barrier",
    unit: SettingUnit::Flag,
    default: "on",
    help: "the file system flushes the write cache of its disk when data must be durable; off (ext4, \
           btrfs): it never does",
};

/// Values worth trying (ext4(5), btrfs(5)).
pub(in crate::stacks) const BARRIER_LEVELS: SettingLevels = levels(
    "barrier",
    &[
        risky("off", "synced writes that are in the write cache of a disk"),
        level("on"),
    ],
);

/// How ext4 treats data beside its journal, as a setting.
pub(in crate::stacks) const JOURNAL_DATA: SettingDefinition = SettingDefinition {
    name: "journal_data",
    unit: SettingUnit::Choice(&["ordered", "writeback", "journal"]),
    default: "ordered",
    help: "fs=ext4: data are written before the metadata that name them (ordered), at any time \
           (writeback), or into the journal first (journal)",
};

/// Values worth trying (ext4(5)).
pub(in crate::stacks) const JOURNAL_DATA_LEVELS: SettingLevels = levels(
    "journal_data",
    &[
        level("journal"),
        risky(
            "writeback",
            "writes without a sync: a file may show what its blocks held before, once the client's \
             power was cut",
        ),
        level("ordered"),
    ],
);

/// How far the kernel reads ahead on the disk, as a setting.
pub(in crate::stacks) const READ_AHEAD: SettingDefinition = SettingDefinition {
    name: "read_ahead",
    unit: SettingUnit::Size(1),
    default: "128KiB",
    help: "bytes that the kernel reads ahead of sequential readers on each disk, in whole KiB up to 64MiB",
};

/// Values worth trying (blockdev(8)).
pub(in crate::stacks) const READ_AHEAD_LEVELS: SettingLevels =
    levels("read_ahead", &[level("4MiB"), level("0"), level("128KiB")]);

/// Most bytes that are read ahead.
const READ_AHEAD_MAX: u64 = 64 << 20;

/// The unit of `blockdev --setra`, in bytes.
const READ_AHEAD_UNIT: u64 = 512;

/// Smallest disk that mkfs.xfs takes.
const MIN_XFS_BYTES: u64 = 300 << 20;

/// Options of every mount of a stack: a user who could write to the storage below it by another way
/// must not become root by a file put there.
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

/// Checks what must go together, whatever the machine; of stacks without such settings, nothing.
pub(in crate::stacks) fn check_settings(
    settings: &SettingValues,
    fs: &str,
) -> Result<(), PreconditionError> {
    let mut unmet = Vec::new();
    if settings.is_declared("barrier") && !settings.flag("barrier") && fs == "xfs" {
        unmet.push("xfs has no mount option for barrier=off: set fs=ext4 or fs=btrfs".to_owned());
    }
    if settings.is_given("journal_data") && fs != "ext4" {
        let value = settings.text("journal_data");
        unmet.push(format!("journal_data={value} is for fs=ext4"));
    }
    if settings.is_declared("read_ahead") {
        let bytes = settings.bytes("read_ahead");
        if bytes > READ_AHEAD_MAX || !bytes.is_multiple_of(1024) {
            unmet.push(format!(
                "invalid value '{}' for read_ahead: expected whole KiB up to 64MiB",
                settings.text("read_ahead")
            ));
        }
    }
    match unmet.is_empty() {
        true => Ok(()),
        false => Err(PreconditionError(unmet)),
    }
}

/// Options that a file system is mounted with. An option that was not asked for is not named: the kernel's
/// default is what most people have.
pub(in crate::stacks) fn mount_options(settings: &SettingValues, fs: &str) -> String {
    let mut options = vec![MOUNT_OPTIONS.to_owned()];
    let is_given = |name| settings.is_declared(name) && settings.is_given(name);
    if is_given("atime") {
        options.push(settings.text("atime").into());
    }
    if is_given("barrier") && !settings.flag("barrier") {
        let word = if fs == "ext4" {
            "barrier=0"
        } else {
            "nobarrier"
        };
        options.push(word.into());
    }
    if is_given("journal_data") {
        options.push(format!("data={}", settings.text("journal_data")));
    }
    options.join(",")
}

/// Adds the steps that set how far is read ahead on devices of this machine, where that was asked for. It
/// ends with the devices.
pub(in crate::stacks) fn add_read_ahead(
    plan: &mut Plan,
    settings: &SettingValues,
    devices: &[PlanCommandArg],
) {
    if !settings.is_declared("read_ahead") || !settings.is_given("read_ahead") {
        return;
    }
    let units = (settings.bytes("read_ahead") / READ_AHEAD_UNIT).to_string();
    for device in devices {
        let args = ["--setra".into(), units.as_str().into(), device.clone()];
        let set = PlanCommand::new("blockdev", args);
        plan.step("set the read-ahead", PlanAction::Run(set), None);
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
    let make = match settings.text("fs") {
        "btrfs" => among_no_mounts(make(settings, device)),
        _ => make(settings, device),
    };
    plan.step("create the file system", PlanAction::Run(make), None);
    plan.lasting();
    let (devices, fs) = (std::slice::from_ref(device), settings.text("fs"));
    add_read_ahead(plan, settings, devices);
    add_mount_at(plan, HERE, (devices, fs, &mount_options(settings, fs)), at);
}

/// Programs needed to make the chosen one on this machine.
pub(in crate::stacks) fn makers(settings: &SettingValues) -> &'static [&'static str] {
    match settings.text("fs") {
        "xfs" => &["mkfs.xfs"],
        "btrfs" => &["bwrap", "mkfs.btrfs"],
        _ => &["mkfs.ext4"],
    }
}

/// The command that makes the chosen one on a device of ours.
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
    (devices, file_system, options): (&[PlanCommandArg], &str, &str),
    at: &str,
) {
    plan.step_on(
        on,
        "create the mount point",
        PlanAction::MakeDir(at.into()),
        Some(PlanAction::RemoveDir(at.into())),
    );
    add_mounting(plan, on, (devices, file_system, options), at);
}

/// Adds the steps that mount a file system that was made before, on these devices together.
pub(in crate::stacks) fn add_mounting(
    plan: &mut Plan,
    on: &str,
    (devices, file_system, options): (&[PlanCommandArg], &str, &str),
    at: &str,
) {
    let begin = ["-t", file_system, "-o", options].map(PlanCommandArg::from);
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
