// SPDX-License-Identifier: Apache-2.0
//! Changes of several disks while they are up: one more, one less, the one back, everything read,
//! everything kept.

use plimsoll_core::plan::{HERE, Plan, PlanAction, PlanCommand, PlanCommandArg};

use super::{
    JournalContents, PreconditionError, StackChange, StackPlanInput, disks, mount_dir, node, scan,
    words,
};
use crate::stacks::node::ExportedDisk;
use crate::stacks::node::file_system::{add_mounting, add_read_ahead, mount_options};
use crate::stacks::sandbox::among_one_mount;

/// Longest time to read or move all data. An end is better than none, and a day is more than any
/// disk of a lab takes.
const ALL_DATA_LIMIT_S: u32 = 24 * 3600;

/// Most snapshots of one stack.
const SNAPSHOTS_MAX: usize = 100;

/// The steps of a change. Where the stack grows, the last of the nodes is the new one.
pub(super) fn plan(
    verb: StackChange<'_>,
    order: &StackPlanInput<'_>,
    nodes: &[ExportedDisk<'_>],
    record: &JournalContents,
) -> Result<Plan, PreconditionError> {
    let is_gone = |node: &&ExportedDisk<'_>| record.is_stopped(&node.server_mark());
    let (Some(last), gone) = (nodes.last(), nodes.iter().find(is_gone)) else {
        return Err(PreconditionError(vec!["it has no nodes".into()]));
    };
    if let (Some(gone), StackChange::Grow | StackChange::Degrade | StackChange::Scrub) =
        (gone, verb)
    {
        return Err(PreconditionError(vec![format!(
            "its node {} is stopped; start it first with: plimsoll stack rebuild",
            gone.name()
        )]));
    }
    let mut plan = Plan::default();
    match verb {
        StackChange::Grow => grow(&mut plan, order, last)?,
        StackChange::Degrade => {
            for (node, action) in last.lose() {
                let why = format!("stop node {}", last.name());
                plan.step_on(&node, &why, action, None);
            }
        }
        StackChange::Rebuild => match gone {
            Some(gone) => rebuild(&mut plan, order, nodes, gone),
            None => {
                return Err(PreconditionError(vec![
                    "nothing to rebuild: no node was stopped".into(),
                ]));
            }
        },
        StackChange::Scrub => scrub(&mut plan, order),
        StackChange::Snapshot => snapshot(&mut plan, order, record)?,
        StackChange::Switch => return Err(unmovable()),
        StackChange::Replace(_) => return Err(irreplaceable()),
    }
    Ok(plan)
}

pub(super) fn irreplaceable() -> PreconditionError {
    let text = "it cannot replace a node by another; rebuild starts a stopped node again";
    PreconditionError(vec![text.into()])
}

/// Only the machine that mounts it runs it.
pub(super) fn unmovable() -> PreconditionError {
    PreconditionError(vec![
        "its array runs on the client, so there is nothing to switch; see the stack san".into(),
    ])
}

fn grow(
    plan: &mut Plan,
    order: &StackPlanInput<'_>,
    new: &ExportedDisk<'_>,
) -> Result<(), PreconditionError> {
    node::check_room(order, 1)?;
    new.add_port(plan);
    new.add_server_dir(plan);
    new.add_forgetting(plan);
    new.add_to(plan);
    let at = mount_dir(order);
    let on_new = |command: &[&str], path: Option<&str>| {
        let mut args = words(command);
        args.push(PlanCommandArg::LoopOf(new.device_file()));
        args.extend(path.map(PlanCommandArg::from));
        let cmd = PlanCommand::new("btrfs", args).within_s(ALL_DATA_LIMIT_S);
        among_one_mount(cmd, &at)
    };
    let add = PlanAction::RunUnless {
        // It knows disks of mounted file systems only.
        done: on_new(&["device", "stats"], None),
        run: on_new(&["device", "add", "--force", "--nodiscard"], Some(&at)),
    };
    plan.step("add the disk to the file system", add, None);
    plan.point_of_no_return();
    let spread = ["balance", "start", "--full-balance", &at];
    let spread = PlanCommand::new("btrfs", spread).within_s(ALL_DATA_LIMIT_S);
    let why = "rebalance the data over all disks";
    plan.step(why, PlanAction::Run(spread), None);
    Ok(())
}

fn rebuild(
    plan: &mut Plan,
    order: &StackPlanInput<'_>,
    nodes: &[ExportedDisk<'_>],
    lost: &ExportedDisk<'_>,
) {
    let at = mount_dir(order);
    // A loop device cannot change what is behind it while it is in use.
    let why = "unmount the file system";
    plan.step(why, PlanAction::Unmount(at.clone()), None);
    lost.add_again(plan);
    let why = "scan all disks";
    plan.step(why, PlanAction::Run(scan(nodes)), None);
    let options = mount_options(order.settings(), "btrfs");
    // The loop device of the lost node is a new one.
    add_read_ahead(plan, order.settings(), &disks(nodes));
    add_mounting(plan, HERE, (&disks(nodes), "btrfs", &options), &at);
    scrub(plan, order);
}

fn scrub(plan: &mut Plan, order: &StackPlanInput<'_>) {
    let at = mount_dir(order);
    let scrub = PlanCommand::new("btrfs", ["scrub", "start", "-B", &at]).within_s(ALL_DATA_LIMIT_S);
    let why = "scrub the file system";
    plan.step(why, PlanAction::Run(scrub), None);
    // It ends well only when nothing is left wrong: what was counted before is no lack any more.
    let forget = PlanCommand::new("btrfs", ["device", "stats", "--reset", &at]);
    let why = "reset the error counters";
    plan.step(why, PlanAction::Run(forget), None);
}

fn snapshot(
    plan: &mut Plan,
    order: &StackPlanInput<'_>,
    record: &JournalContents,
) -> Result<(), PreconditionError> {
    let at = mount_dir(order);
    let name = |number: usize| format!("{at}/snapshot-{number}");
    let is_taken = |path: &String| {
        record.entries.iter().any(|entry| match &entry.step.apply {
            PlanAction::Run(cmd) => cmd.args.last() == Some(&PlanCommandArg::Text(path.clone())),
            _ => false,
        })
    };
    let path = (1..=SNAPSHOTS_MAX).map(name).find(|path| !is_taken(path));
    let path = path.ok_or_else(|| {
        PreconditionError(vec![format!("too many snapshots: at most {SNAPSHOTS_MAX}")])
    })?;
    let keep = ["subvolume", "snapshot", "-r", &at, &path];
    // It goes with the disks it lies on.
    let why = "take a snapshot";
    plan.step(why, PlanAction::Run(PlanCommand::new("btrfs", keep)), None);
    let of_it = |word: &str| PlanCommand::new("btrfs", ["subvolume", word, path.as_str()]);
    plan.taken_back_by(PlanAction::RunIf {
        when: of_it("show"),
        run: of_it("delete"),
    });
    Ok(())
}

/// Actions that bring a lost node back, each with its node.
pub(super) fn restoring(
    order: &StackPlanInput<'_>,
    nodes: &[ExportedDisk<'_>],
    lost: &ExportedDisk<'_>,
) -> Vec<(String, PlanAction)> {
    let mut plan = Plan::default();
    rebuild(&mut plan, order, nodes, lost);
    let steps = plan.steps.into_iter();
    steps.map(|step| (step.node, step.apply)).collect()
}
