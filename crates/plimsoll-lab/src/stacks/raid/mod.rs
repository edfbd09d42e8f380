// SPDX-License-Identifier: Apache-2.0
//! btrfs over several disks, each of a node of its own: mirrored, striped with parity, or both
//! striped and mirrored.
//!
//! Manual: `raid.md`.

mod change;
mod health;
mod md;

use plimsoll_core::plan::{
    HERE, Plan, PlanAction, PlanCommand, PlanCommandArg, StackOutputs, StackSelfTest,
};
use plimsoll_core::settings::{
    SettingDefinition, SettingLevels, SettingUnit, SettingValues, level, levels, risky,
};

use super::node::iscsi::IscsiExportOptions;
use super::node::nbd::{self as nbd_node, NbdExportOptions};
use super::node::{ExportTransport, ExportedDisk, FAIL_AFTER};
use super::sandbox::among_no_mounts;
use super::{
    PreconditionError, ScrubCount, StackChange, StackConfig, StackFootprint, StackLadderRung,
    StackPlanInput, StackRecipe, StackRequirements, node, not_given,
};
use plimsoll_machine::host::HostResolver;
use plimsoll_machine::journal::JournalContents;

/// A stack of several disks.
#[derive(Debug)]
pub struct RaidStack {
    name: &'static str,
    about: &'static str,
    nodes: u16,
    /// How data are spread, as btrfs names it.
    data: &'static str,
    /// How metadata are.
    metadata: &'static str,
}

/// Two copies of everything on two disks.
pub const RAID1: RaidStack = RaidStack {
    name: "raid1",
    about: "btrfs raid1 (data and metadata) over the disks of two nodes",
    nodes: 2,
    data: "raid1",
    metadata: "raid1",
};

/// Data striped with parity over three disks. Metadata are mirrored: btrfs advises against parity
/// for them, since a crash can leave stripe and parity apart.
pub const RAID5: RaidStack = RaidStack {
    name: "raid5",
    about: "btrfs raid5 (data) and raid1 (metadata) over the disks of three nodes",
    nodes: 3,
    data: "raid5",
    metadata: "raid1",
};

/// Two copies of everything, striped over four disks.
pub const RAID10: RaidStack = RaidStack {
    name: "raid10",
    about: "btrfs raid10 (data and metadata) over the disks of four nodes",
    nodes: 4,
    data: "raid10",
    metadata: "raid10",
};

const SETTINGS: &[SettingDefinition] = &[
    SettingDefinition {
        name: "transport",
        unit: SettingUnit::Choice(&["iscsi", "nbd"]),
        default: "iscsi",
        help: "protocol that exports the disks to the client",
    },
    FAIL_AFTER,
    md::BY,
    node::file_system::FS,
    md::CHUNK,
    md::CONSISTENCY,
    nbd_node::CACHE,
    nbd_node::THREADS,
    node::file_system::READ_AHEAD,
    node::file_system::ATIME,
    node::file_system::BARRIER,
];

const LEVELS: &[SettingLevels] = &[
    levels("transport", &[level("nbd"), level("iscsi")]),
    levels("by", &[level("btrfs"), level("md")]),
    levels("chunk", &[level("64KiB"), level("512KiB")]),
    levels(
        "consistency",
        &[
            level("journal"),
            level("ppl"),
            risky(
                "resync",
                "with raid5, writes beside one that was in progress when power was cut and a disk was lost",
            ),
            level("bitmap"),
        ],
    ),
    nbd_node::CACHE_LEVELS,
    nbd_node::THREADS_LEVELS,
    node::file_system::READ_AHEAD_LEVELS,
    node::file_system::ATIME_LEVELS,
    node::file_system::BARRIER_LEVELS,
];

/// The file system that is mounted, as far as the settings alone tell.
fn mounted(settings: &SettingValues) -> &str {
    match settings.text("by") {
        "md" => settings.text("fs"),
        _ => "btrfs",
    }
}

fn transport(settings: &SettingValues) -> Result<ExportTransport, PreconditionError> {
    let fail_after_s = node::fail_after_s(settings)?;
    Ok(match settings.text("transport") {
        "nbd" => ExportTransport::Nbd(NbdExportOptions {
            threads: node::threads(settings)?,
            cache: nbd_node::cache_of(settings),
            ..NbdExportOptions::plain(fail_after_s)
        }),
        _ => {
            not_given(settings, &["cache"], "transport=nbd")?;
            ExportTransport::Iscsi(IscsiExportOptions {
                threads: settings
                    .is_given("threads")
                    .then(|| node::threads(settings))
                    .transpose()?,
                ..IscsiExportOptions::plain(fail_after_s)
            })
        }
    })
}

/// For what does not depend on times, which are checked elsewhere.
fn kind(settings: &SettingValues) -> ExportTransport {
    match settings.text("transport") {
        "nbd" => ExportTransport::Nbd(NbdExportOptions::plain(1)),
        _ => ExportTransport::Iscsi(IscsiExportOptions::plain(1)),
    }
}

/// Words as arguments.
fn words(words: &[&str]) -> Vec<PlanCommandArg> {
    words
        .iter()
        .map(|word| PlanCommandArg::from(*word))
        .collect()
}

/// The loop devices of nodes as arguments.
fn disks(nodes: &[ExportedDisk<'_>]) -> Vec<PlanCommandArg> {
    let disk = |node: &ExportedDisk<'_>| PlanCommandArg::LoopOf(node.device_file());
    nodes.iter().map(disk).collect()
}

/// Shows the kernel all disks: it finds the others only if it has been shown them.
fn scan(nodes: &[ExportedDisk<'_>]) -> PlanCommand {
    let show = words(&["device", "scan"]).into_iter().chain(disks(nodes));
    PlanCommand::new("btrfs", show)
}

impl RaidStack {
    fn made(&self, order: &StackPlanInput<'_>, nodes: &[ExportedDisk<'_>]) -> StackOutputs {
        let at = mount_dir(order);
        let mut proofs = Vec::new();
        for node in nodes
            .iter()
            .filter(|_| nbd_node::sends_flushes(order.settings()))
        {
            proofs.push(node.flushes());
        }
        for node in nodes {
            proofs.push(StackSelfTest::Survives {
                node: node.name(),
                lose: node.lose(),
                restore: change::restoring(order, nodes, node),
            });
        }
        StackOutputs {
            mount_dir: at,
            file_system: "btrfs".into(),
            description: format!(
                "btrfs {} over {} disks over {} (each: image, {}, qemu-storage-daemon, nbdfuse, \
                 loop device)",
                self.profiles(),
                nodes.len(),
                order.settings().text("transport"),
                match order.settings().text("transport") {
                    "nbd" => "nbdkit",
                    _ => "tgtd with direct I/O",
                },
            ),
            servers: node::servers(nodes),
            client_programs: node::client_programs(nodes),
            proofs,
            ..StackOutputs::default()
        }
    }

    fn profiles(&self) -> String {
        if self.data == self.metadata {
            return format!("{} (data and metadata)", self.data);
        }
        format!("{} (data) and {} (metadata)", self.data, self.metadata)
    }
}

fn mount_dir(order: &StackPlanInput<'_>) -> String {
    format!("{}/mnt", order.dir())
}

impl StackRecipe for RaidStack {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn settings(&self) -> &'static [SettingDefinition] {
        SETTINGS
    }

    fn levels(&self) -> &'static [SettingLevels] {
        LEVELS
    }

    fn shape(&self, choice: &StackConfig) -> Result<StackFootprint, PreconditionError> {
        transport(&choice.settings)?;
        node::file_system::check_settings(&choice.settings, mounted(&choice.settings))?;
        Ok(StackFootprint::here(self.nodes, 1))
    }

    fn needs(&self, choice: &StackConfig) -> StackRequirements {
        let programs = match choice.settings.text("by") {
            "md" => md::programs(&choice.settings),
            _ => vec!["bwrap", "mkfs.btrfs", "btrfs"],
        };
        node::needs(&kind(&choice.settings), &programs)
    }

    fn server_needs(&self, choice: &StackConfig) -> StackRequirements {
        node::server_needs(&kind(&choice.settings))
    }

    fn plan(&self, order: &StackPlanInput<'_>) -> Result<(Plan, StackOutputs), PreconditionError> {
        if md::is_meant(order)? {
            return md::plan(self, order);
        }
        let of_md = "md arrays: set by=md on a kernel with md";
        not_given(order.settings(), &["fs", "chunk", "consistency"], of_md)?;
        node::check(order)?;
        let transport = transport(order.settings())?;
        let dir = order.dir();
        let nodes = node::all(order, &dir, &transport);
        let mut plan = Plan::default();
        node::begin(&mut plan, &nodes, &dir);
        let options = ["-q", "--nodiscard", "-d", self.data, "-m", self.metadata];
        let options = words(&options).into_iter();
        let make = PlanCommand::new("mkfs.btrfs", options.chain(disks(&nodes)));
        let make = PlanAction::Run(among_no_mounts(make));
        let at = mount_dir(order);
        let disks = disks(&nodes);
        node::file_system::add_read_ahead(&mut plan, order.settings(), &disks);
        let options = node::file_system::mount_options(order.settings(), "btrfs");
        plan.step("create the file system", make, None);
        plan.lasting();
        plan.step("scan all disks", PlanAction::Run(scan(&nodes)), None);
        node::add_mount_at(&mut plan, HERE, (&disks, "btrfs", &options), &at);
        let made = self.made(order, &nodes);
        Ok((plan, made))
    }

    fn change(
        &self,
        verb: StackChange<'_>,
        order: &StackPlanInput<'_>,
        record: &JournalContents,
    ) -> Result<(Plan, StackOutputs), PreconditionError> {
        if md::is_made(record) {
            return md::change(self, verb, order, record);
        }
        let transport = transport(order.settings())?;
        let dir = order.dir();
        let nodes = node::all(order, &dir, &transport);
        let plan = change::plan(verb, order, &nodes, record)?;
        Ok((plan, self.made(order, &nodes)))
    }

    fn lacks(
        &self,
        order: &StackPlanInput<'_>,
        record: &JournalContents,
        hosts: &mut dyn HostResolver,
    ) -> Vec<String> {
        match md::is_made(record) {
            true => health::md(order, md::device(self, order), hosts),
            false => health::btrfs(order, hosts),
        }
    }

    fn scrubbed(
        &self,
        order: &StackPlanInput<'_>,
        record: &JournalContents,
        hosts: &mut dyn HostResolver,
    ) -> Option<ScrubCount> {
        match md::is_made(record) {
            true => None,
            false => health::scrubbed(order, hosts),
        }
    }

    fn rungs(&self, choice: &StackConfig) -> Vec<StackLadderRung> {
        let fs = match choice.settings.text("by") {
            "md" => choice.settings.text("fs"),
            _ => "btrfs",
        };
        let below = format!("{}(fs={fs})", choice.settings.text("transport"));
        vec![
            StackLadderRung::new("disk", "local"),
            StackLadderRung::new("transport", below),
            StackLadderRung::new("redundancy", choice.parts.base.to_string()),
        ]
    }
}

#[cfg(test)]
mod md_tests;
#[cfg(test)]
mod plan_tests;
