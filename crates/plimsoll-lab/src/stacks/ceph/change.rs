// SPDX-License-Identifier: Apache-2.0
//! Changes of the daemons while they are up: one more, the last one taken away and brought back.

use plimsoll_core::plan::Plan;

use super::super::{PreconditionError, StackChange, StackPlanInput};
use super::cluster::CephCluster;
use plimsoll_machine::journal::JournalContents;

/// The steps of a change.
pub(super) fn plan(
    verb: StackChange<'_>,
    order: &StackPlanInput<'_>,
    cluster: &CephCluster<'_>,
    record: &JournalContents,
) -> Result<Plan, PreconditionError> {
    let unmet = |text: String| Err(PreconditionError(vec![text]));
    let Some(last) = cluster.osds().last() else {
        return unmet("it has no nodes".into());
    };
    let gone = cluster.osds().find(|osd| record.is_stopped(&osd.mark()));
    let mut plan = Plan::default();
    match (verb, gone) {
        (StackChange::Grow, None) => last.add_to_running(&mut plan),
        (StackChange::Degrade, None) => {
            let why = format!("stop {}", last.name());
            plan.step_on(&last.node.name, &why, last.stop(), None);
        }
        (StackChange::Rebuild, Some(gone)) => {
            let why = format!("start {} again", gone.name());
            plan.step_on(&gone.node.name, &why, gone.restart(), Some(gone.stop()));
        }
        (StackChange::Grow | StackChange::Degrade, Some(gone)) => {
            return unmet(format!(
                "its {} is stopped; start it first with: plimsoll stack rebuild",
                gone.name()
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
            return unmet(format!("{} cannot {verb}", order.choice.parts));
        }
    }
    Ok(plan)
}
