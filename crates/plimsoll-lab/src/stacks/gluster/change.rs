// SPDX-License-Identifier: Apache-2.0
//! Changes of a volume while it is up: servers added and the files spread over all, the last server
//! taken away and brought back.

use plimsoll_core::plan::{Plan, PlanAction, PlanCommand, PlanNode};

use super::super::{PreconditionError, StackChange, StackPlanInput};
use super::VOLUME;
use super::cluster::GlusterCluster;
use plimsoll_machine::journal::JournalContents;

/// Longest time to move files: an end is better than none.
const MOVE_LIMIT_S: u32 = 24 * 3600;

/// The steps of a change. Where the stack grows, the new nodes are the last ones.
pub(super) fn plan(
    verb: StackChange<'_>,
    order: &StackPlanInput<'_>,
    cluster: &GlusterCluster<'_>,
    record: &JournalContents,
) -> Result<Plan, PreconditionError> {
    let unmet = |text: String| Err(PreconditionError(vec![text]));
    if order.choice.layer("tenant").is_some() {
        return unmet("with tenants the last node holds no brick, so no node can be added".into());
    }
    let Some(last) = cluster.nodes.last() else {
        return unmet("it has no nodes".into());
    };
    let is_gone = |node: &&PlanNode| record.is_stopped(&cluster.mark(node));
    let gone = cluster.nodes.iter().copied().find(is_gone);
    let mut plan = Plan::default();
    let mount = format!("{}/mnt", order.dir());
    match (verb, gone) {
        (StackChange::Grow, None) => {
            let known = record
                .header
                .ask
                .as_ref()
                .map_or(0, |ask| ask.site.servers.len());
            grow(&mut plan, cluster, known, &mount);
        }
        (StackChange::Degrade, None) => {
            let why = format!("stop node {}", last.name);
            plan.step_on(&last.name, &why, cluster.stop(last), None);
        }
        (StackChange::Rebuild, Some(gone)) => {
            let back = cluster.restart(gone, VOLUME, &mount);
            let why = format!("start node {} again", gone.name);
            plan.step_on(&gone.name, &why, back, Some(cluster.stop(gone)));
        }
        (StackChange::Grow | StackChange::Degrade, Some(gone)) => {
            return unmet(format!(
                "its node {} is stopped; start it first with: plimsoll stack rebuild",
                gone.name
            ));
        }
        (StackChange::Rebuild, None) => {
            return unmet("nothing to rebuild: no node was stopped".into());
        }
        (
            StackChange::Scrub
            | StackChange::Snapshot
            | StackChange::Switch
            | StackChange::Replace(_),
            _,
        ) => {
            return unmet(format!("a volume over plain directories cannot {verb}"));
        }
    }
    Ok(plan)
}

fn grow(plan: &mut Plan, cluster: &GlusterCluster<'_>, known: usize, mount: &str) {
    let new = cluster.nodes.get(known..).unwrap_or_default();
    for node in new {
        cluster.add_node(plan, node);
    }
    for node in new {
        cluster.add_peer(plan, node);
    }
    let bricks: Vec<String> = new.iter().map(|n| cluster.brick(n, VOLUME)).collect();
    let first = &cluster.nodes[0].name;
    let Some(new_brick) = bricks.last() else {
        return;
    };
    let mut words = vec!["volume", "add-brick", VOLUME];
    words.extend(bricks.iter().map(String::as_str));
    words.push("force");
    let add = PlanAction::RunUnless {
        // Of bricks that it does not have it knows no state.
        done: cluster.cli(&["volume", "status", VOLUME, new_brick]),
        run: cluster.cli(&words),
    };
    plan.step_on(first, "add the bricks to the volume", add, None);
    // Its processes may still be starting: a brick that cannot be reached yet gets no share of the files,
    // and the spreading ends well all the same.
    for number in known..cluster.nodes.len() {
        let look = PlanAction::Await(cluster.connected(number, VOLUME, mount));
        plan.step("wait until the mount uses the new brick", look, None);
    }
    // Force: also files that lie where they would lie now, as long as their places are noted.
    let spread = PlanAction::RunUnless {
        // 1 is the state of what is on its way.
        done: PlanCommand::new(
            "grep",
            [
                "--quiet",
                "^status=1$",
                &cluster.notes(cluster.nodes[0], VOLUME),
            ],
        ),
        run: cluster.cli(&["volume", "rebalance", VOLUME, "start", "force"]),
    };
    let why = "start to rebalance the files over all bricks";
    plan.step_on(first, why, spread, None);
    for node in &cluster.nodes {
        // 3 is the state of what is complete.
        let notes = cluster.notes(node, VOLUME);
        let words = ["--quiet", "^status=3$", &notes];
        let look = PlanAction::Await(PlanCommand::new("grep", words).within_s(MOVE_LIMIT_S));
        plan.step_on(
            &node.name,
            "wait until the files are rebalanced",
            look,
            None,
        );
    }
}
