// SPDX-License-Identifier: Apache-2.0
//! What is done with the daemons while they are up: one more, the last one taken away and brought
//! back.

use plimsoll_core::plan::Plan;

use super::super::{Order, Unmet, Verb};
use super::cluster::Cluster;
use crate::journal::Record;

/// The steps of a change.
pub(super) fn plan(
    verb: Verb<'_>,
    order: &Order<'_>,
    cluster: &Cluster<'_>,
    record: &Record,
) -> Result<Plan, Unmet> {
    let unmet = |text: String| Err(Unmet(vec![text]));
    let Some(last) = cluster.osds().last() else {
        return unmet("it has no nodes".into());
    };
    let gone = cluster.osds().find(|osd| record.is_stopped(&osd.mark()));
    let mut plan = Plan::default();
    match (verb, gone) {
        (Verb::Grow, None) => last.add_to_running(&mut plan),
        (Verb::Degrade, None) => {
            let why = format!("take {} away", last.name());
            plan.step_on(&last.node.name, &why, last.stop(), None);
        }
        (Verb::Rebuild, Some(gone)) => {
            let why = format!("bring {} back", gone.name());
            plan.step_on(&gone.node.name, &why, gone.restart(), Some(gone.stop()));
        }
        (Verb::Grow | Verb::Degrade, Some(gone)) => {
            return unmet(format!(
                "its {} was taken away; bring it back first with: plimsoll stack rebuild",
                gone.name()
            ));
        }
        (Verb::Rebuild, None) => return unmet("nothing was taken away; all are there".into()),
        (Verb::Scrub | Verb::Snapshot | Verb::Switch | Verb::Replace(_), _) => {
            return unmet(format!("{} cannot {verb}", order.choice.parts));
        }
    }
    Ok(plan)
}
