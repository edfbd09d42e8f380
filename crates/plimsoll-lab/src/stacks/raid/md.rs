// SPDX-License-Identifier: Apache-2.0
//! The kernel's own RAID (md) over the disks of nodes, where the kernel has it, with a file system
//! on top.
//!
//! The array has no name here: it is whatever the loop devices of our files are members of, so that
//! nothing else can be meant.

use plimsoll_core::plan::{
    Plan, PlanAction, PlanCommand, PlanCommandArg, StackOutputs, StackSelfTest,
};
use plimsoll_core::settings::{SettingDefinition, SettingUnit, SettingValues};

use super::{
    JournalContents, PreconditionError, RaidStack, StackChange, StackPlanInput, disks, mount_dir,
    node, transport, words,
};
use crate::stacks::node::{ExportedDisk, file_system};

/// The setting that chooses the maker of the array.
pub(super) const BY: SettingDefinition = SettingDefinition {
    name: "by",
    unit: SettingUnit::Choice(&["auto", "md", "btrfs"]),
    default: "auto",
    help: "md with a file system on top, or btrfs; auto: md where the kernel has it and mdadm is \
           installed",
};

/// Bytes of a stripe on one disk, as a setting.
pub(super) const CHUNK: SettingDefinition = SettingDefinition {
    name: "chunk",
    unit: SettingUnit::Size(1),
    default: "512KiB",
    help: "by=md: chunk size of raid5 and raid10, a power of two from 4KiB to 64MiB",
};

/// The setting that keeps the disks consistent over a crash.
pub(super) const CONSISTENCY: SettingDefinition = SettingDefinition {
    name: "consistency",
    unit: SettingUnit::Choice(&["bitmap", "ppl", "journal", "resync"]),
    default: "bitmap",
    help: "by=md: consistency policy after a crash: write-intent bitmap; for raid5 also partial parity \
           log (ppl) or a journal on its own device; resync: none",
};

/// Smallest and largest stripe.
const CHUNKS: std::ops::RangeInclusive<u64> = 4 << 10..=64 << 20;

/// Size of the device for the journal.
const JOURNAL_BYTES: u64 = 256 << 20;

/// Longest time to bring a disk up to date, or to compare all; a day is more than any disk of a lab
/// takes.
const ALL_DATA_LIMIT_S: u32 = 24 * 3600;

/// Longest name of an array.
const NAME_MAX: usize = 32;

/// Programs it needs besides the nodes.
pub(super) fn programs(settings: &SettingValues) -> Vec<&'static str> {
    [&["mdadm"], file_system::makers(settings)].concat()
}

/// Whether the settings and this machine mean md.
pub(super) fn is_meant(order: &StackPlanInput<'_>) -> Result<bool, PreconditionError> {
    match order.settings().text("by") {
        "md" if !order.kernel_has_md => Err(PreconditionError(vec![
            "this kernel has no md, or mdadm is missing: apt-get install mdadm and a kernel of \
             Debian's own, or by=btrfs"
                .into(),
        ])),
        "btrfs" => Ok(false),
        _ => Ok(order.kernel_has_md),
    }
}

/// Whether a stack that is up is made by md.
pub(super) fn is_made(record: &JournalContents) -> bool {
    let makes =
        |action: &PlanAction| matches!(action, PlanAction::Run(cmd) if cmd.program == "mdadm");
    record.entries.iter().any(|entry| makes(&entry.step.apply))
}

/// The array over the disks of these nodes.
struct MdArray<'a> {
    raid: &'a RaidStack,
    order: &'a StackPlanInput<'a>,
    nodes: &'a [ExportedDisk<'a>],
}

impl MdArray<'_> {
    /// The files behind its members.
    fn files(&self) -> Vec<String> {
        self.nodes.iter().map(ExportedDisk::device_file).collect()
    }

    fn device(&self) -> PlanCommandArg {
        PlanCommandArg::ArrayOf(self.files())
    }

    fn level(&self) -> &'static str {
        self.raid.name.trim_start_matches("raid")
    }

    fn journal_file(&self) -> String {
        format!("{}/journal.img", self.order.dir())
    }

    /// A command to the array, and what follows its name.
    fn manage(&self, command: &[&str], more: Vec<PlanCommandArg>) -> PlanCommand {
        let mut args = words(command);
        args.push(self.device());
        args.extend(more);
        PlanCommand::new("mdadm", args)
    }

    fn check(&self) -> Result<(), PreconditionError> {
        let settings = self.order.settings();
        let chunk = settings.bytes("chunk");
        let consistency = settings.text("consistency");
        let mut unmet = Vec::new();
        if !CHUNKS.contains(&chunk) || !chunk.is_power_of_two() {
            unmet.push("invalid chunk: expected a power of two from 4KiB to 64MiB".into());
        }
        if self.level() != "5" && ["ppl", "journal"].contains(&consistency) {
            unmet.push(format!(
                "{} has no parity to keep consistent: consistency={consistency} is for raid5",
                self.raid.name
            ));
        }
        if self.order.id.len() > NAME_MAX {
            unmet.push(format!("its name {} is too long for md", self.order.id));
        }
        if unmet.is_empty() {
            Ok(())
        } else {
            Err(PreconditionError(unmet))
        }
    }

    fn add_journal(&self, plan: &mut Plan) {
        let file = self.journal_file();
        let size = JOURNAL_BYTES.to_string();
        let reserve = PlanCommand::new("fallocate", ["--length", &size, &file]);
        let remove = Some(PlanAction::RemoveFile(file.clone()));
        plan.step("allocate the journal", PlanAction::Run(reserve), remove);
        plan.lasting();
        let detach = Some(PlanAction::DetachLoop(file.clone()));
        let attach = PlanAction::AttachLoop(file);
        plan.step("attach the journal as a loop device", attach, detach);
    }

    fn create(&self) -> PlanCommand {
        let settings = self.order.settings();
        let mut options = vec![
            "--create".into(),
            // udev or mdadm makes the node; we find it by its members.
            format!("/dev/md/{}", self.order.id),
            // No question: the disks are new, and ours.
            "--run".into(),
            format!("--level={}", self.level()),
            format!("--raid-devices={}", self.nodes.len()),
            "--metadata=1.2".into(),
            "--homehost=<none>".into(),
            format!("--name={}", self.order.id),
            // Reserved files are all zeros: copies are equal, and so is the parity of zeros.
            "--assume-clean".into(),
        ];
        if self.level() != "1" {
            options.push(format!("--chunk={}K", settings.bytes("chunk") >> 10));
        }
        let mut journal = None;
        match settings.text("consistency") {
            "bitmap" => options.push("--bitmap=internal".into()),
            "journal" => {
                options.push("--write-journal".into());
                journal = Some(PlanCommandArg::LoopOf(self.journal_file()));
            }
            policy => {
                options.push(format!("--consistency-policy={policy}"));
                options.push("--bitmap=none".into());
            }
        }
        let options = options.into_iter().map(PlanCommandArg::from);
        PlanCommand::new("mdadm", options.chain(journal).chain(disks(self.nodes)))
    }

    fn made(&self) -> StackOutputs {
        let settings = self.order.settings();
        let mut proofs: Vec<StackSelfTest> = self.nodes.iter().map(ExportedDisk::flushes).collect();
        for lost in self.nodes {
            let mut plan = Plan::default();
            self.rebuild(&mut plan, lost);
            let steps = plan.steps.into_iter();
            proofs.push(StackSelfTest::Survives {
                node: lost.name(),
                lose: lost.lose(),
                restore: steps.map(|step| (step.node, step.apply)).collect(),
            });
        }
        StackOutputs {
            mount_dir: mount_dir(self.order),
            file_system: settings.text("fs").into(),
            description: format!(
                "{} on md {} ({}) over {} disks over {}",
                settings.text("fs"),
                self.raid.name,
                settings.text("consistency"),
                self.nodes.len(),
                settings.text("transport"),
            ),
            servers: node::servers(self.nodes),
            client_programs: node::client_programs(self.nodes),
            proofs,
            ..StackOutputs::default()
        }
    }

    /// Adds what brings a lost node back below the mounted file system.
    fn rebuild(&self, plan: &mut Plan, lost: &ExportedDisk<'_>) {
        let disk = || vec![PlanCommandArg::LoopOf(lost.device_file())];
        let others: Vec<String> = self
            .files()
            .into_iter()
            .filter(|file| *file != lost.device_file())
            .collect();
        let manage = |command: &[&str]| {
            let mut args = words(&["--manage"]);
            args.push(PlanCommandArg::ArrayOf(others.clone()));
            args.extend(words(command));
            args.extend(disk());
            PlanAction::Run(PlanCommand::new("mdadm", args))
        };
        // It may have noticed by itself, which does no harm.
        plan.step("mark the disk as failed", manage(&["--fail"]), None);
        let why = "remove the disk from the array";
        plan.step(why, manage(&["--remove"]), None);
        lost.add_again(plan);
        let add = match self.order.settings().text("consistency") {
            // Only what was written meanwhile is copied.
            "bitmap" => "--re-add",
            _ => "--add",
        };
        plan.step("add the disk to the array again", manage(&[add]), None);
        self.add_look(plan, "wait until the array is up to date");
    }

    /// Adds a wait until no disk is missing or behind.
    fn add_look(&self, plan: &mut Plan, why: &str) {
        let test = self.manage(&["--detail", "--test"], Vec::new());
        plan.step(
            why,
            PlanAction::Await(test.within_s(ALL_DATA_LIMIT_S)),
            None,
        );
    }

    fn scrub(&self, plan: &mut Plan) {
        let check = PlanAction::Run(self.manage(&["--action=check"], Vec::new()));
        plan.step("check the array", check, None);
        // It fails when there is nothing left to wait for.
        let wait = self.manage(&["--wait"], Vec::new());
        let end = PlanAction::RunIf {
            when: wait.within_s(ALL_DATA_LIMIT_S),
            run: self.manage(&["--detail", "--test"], Vec::new()),
        };
        plan.step("wait until the check has ended", end, None);
    }
}

/// The array of a stack that is up.
pub(super) fn device(raid: &RaidStack, order: &StackPlanInput<'_>) -> PlanCommandArg {
    let dir = order.dir();
    let transport = super::kind(order.settings());
    let nodes = node::all(order, &dir, &transport);
    let array = MdArray {
        raid,
        order,
        nodes: &nodes,
    };
    array.device()
}

/// The steps from nodes to a mounted file system.
pub(super) fn plan(
    raid: &RaidStack,
    order: &StackPlanInput<'_>,
) -> Result<(Plan, StackOutputs), PreconditionError> {
    node::check(order)?;
    file_system::check(order)?;
    let (settings, dir) = (order.settings(), order.dir());
    let transport = transport(settings)?;
    let nodes = node::all(order, &dir, &transport);
    let array = MdArray {
        raid,
        order,
        nodes: &nodes,
    };
    array.check()?;
    let mut plan = Plan::default();
    node::begin(&mut plan, &nodes, &dir);
    if settings.text("consistency") == "journal" {
        array.add_journal(&mut plan);
    }
    let stop = Some(PlanAction::StopArray(array.files()));
    plan.step("create the array", PlanAction::Run(array.create()), stop);
    plan.lasting();
    let at = mount_dir(order);
    file_system::add_mount_on(&mut plan, settings, &array.device(), &at);
    Ok((plan, array.made()))
}

/// The steps of a change.
pub(super) fn change(
    raid: &RaidStack,
    verb: StackChange<'_>,
    order: &StackPlanInput<'_>,
    record: &JournalContents,
) -> Result<(Plan, StackOutputs), PreconditionError> {
    let transport = transport(order.settings())?;
    let dir = order.dir();
    let nodes = node::all(order, &dir, &transport);
    let array = MdArray {
        raid,
        order,
        nodes: &nodes,
    };
    let unmet = |text: String| Err(PreconditionError(vec![text]));
    let Some(last) = nodes.last() else {
        return unmet("it has no nodes".into());
    };
    let gone = nodes.iter().find(|n| record.is_stopped(&n.server_mark()));
    let mut plan = Plan::default();
    match (verb, gone) {
        (StackChange::Degrade, None) => {
            for (node, action) in last.lose() {
                let why = format!("stop node {}", last.name());
                plan.step_on(&node, &why, action, None);
            }
        }
        (StackChange::Rebuild, Some(gone)) => array.rebuild(&mut plan, gone),
        (StackChange::Scrub, None) => array.scrub(&mut plan),
        (StackChange::Rebuild, None) => {
            return unmet("nothing to rebuild: no node was stopped".into());
        }
        (StackChange::Degrade | StackChange::Scrub, Some(gone)) => {
            return unmet(format!(
                "its node {} is stopped; start it first with: plimsoll stack rebuild",
                gone.name()
            ));
        }
        // A reshape that fails half way cannot be taken back.
        (StackChange::Grow, _) => return unmet("an md array cannot grow; use by=btrfs".into()),
        (StackChange::Snapshot, _) => return unmet("md has no snapshots; use by=btrfs".into()),
        (StackChange::Switch, _) => return Err(super::change::unmovable()),
        (StackChange::Replace(_), _) => return Err(super::change::irreplaceable()),
    }
    Ok((plan, array.made()))
}
