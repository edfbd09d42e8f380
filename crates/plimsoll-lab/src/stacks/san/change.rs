// SPDX-License-Identifier: Apache-2.0
//! Changes of a SAN while it is up: moved to another node, a node taken away and brought back,
//! everything read and compared.

use plimsoll_core::plan::{Plan, PlanAction, PlanNode};

use super::super::{PreconditionError, StackChange};
use super::cluster::{MOVE_LIMIT_S, REBUILD_LIMIT_S, SanCluster};
use plimsoll_machine::journal::JournalContents;

/// The steps of a change.
pub(super) fn plan(
    verb: StackChange<'_>,
    cluster: &SanCluster<'_>,
    record: &JournalContents,
) -> Result<Plan, PreconditionError> {
    let unmet = |text: String| Err(PreconditionError(vec![text]));
    let nodes = cluster.with_disks();
    let Some((first, last)) = nodes.first().zip(nodes.last()) else {
        return unmet("it has no nodes".into());
    };
    let run = |node: &PlanNode, words: &[&str], limit_s: u32| {
        PlanAction::Run(cluster.script(node, words).within_s(limit_s))
    };
    let is_gone = record.is_stopped(&cluster.mark(last, "cluster"));
    let mut plan = Plan::default();
    match (verb, is_gone) {
        (StackChange::Switch, false) => {
            let why = "move the array to another node";
            plan.step_on(
                &first.name,
                why,
                run(first, &["switch"], MOVE_LIMIT_S),
                None,
            );
        }
        (StackChange::Degrade, false) => {
            let why = format!("stop node {}", last.name);
            for action in cluster.leaving(last) {
                plan.step_on(&last.name, &why, action, None);
            }
        }
        // Of nodes that were not taken away some may have lost their power; those that run are let be.
        (StackChange::Rebuild, _) => {
            let gone = match is_gone {
                true => std::slice::from_ref(last),
                false => cluster.members(),
            };
            for node in gone {
                for daemon in cluster.daemons(node) {
                    let why = format!("start node {} again", node.name);
                    plan.step_on(&node.name, &why, daemon, None);
                }
            }
            let whole =
                PlanAction::Await(cluster.script(last, &["whole"]).within_s(REBUILD_LIMIT_S));
            plan.step_on(&last.name, "wait for the resynchronization", whole, None);
        }
        (StackChange::Replace(name), _) => {
            let node = replaced(name, nodes)?;
            if is_gone && node != last {
                return unmet(taken_away(last));
            }
            cluster.add_replacing(&mut plan, node);
            let whole =
                PlanAction::Await(cluster.script(node, &["whole"]).within_s(REBUILD_LIMIT_S));
            plan.step_on(&node.name, "wait for the rebuild", whole, None);
        }
        (StackChange::Scrub, false) => {
            for node in nodes {
                let why = "check the array on its active node";
                plan.step_on(
                    &node.name,
                    why,
                    run(node, &["scrub"], REBUILD_LIMIT_S),
                    None,
                );
            }
        }
        (StackChange::Switch | StackChange::Degrade | StackChange::Scrub, true) => {
            return unmet(taken_away(last));
        }
        (StackChange::Grow | StackChange::Snapshot, _) => {
            return unmet(format!("an array whose legs are all in use cannot {verb}"));
        }
    }
    Ok(plan)
}

fn taken_away(node: &PlanNode) -> String {
    format!(
        "its node {} is stopped; start it first with: plimsoll stack rebuild",
        node.name
    )
}

/// The node of this name, if it has a leg.
fn replaced<'a>(name: &str, nodes: &'a [PlanNode]) -> Result<&'a PlanNode, PreconditionError> {
    nodes.iter().find(|node| node.name == name).ok_or_else(|| {
        let names: Vec<&str> = nodes.iter().map(|node| &*node.name).collect();
        let names = names.join(", ");
        PreconditionError(vec![format!(
            "node {name} has no leg; nodes with a leg: {names}"
        )])
    })
}
