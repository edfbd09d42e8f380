// SPDX-License-Identifier: Apache-2.0
//! What is done with the daemons while they are up: the last one taken away and brought back.

use plimsoll_core::plan::Plan;

use super::super::{Order, Unmet, Verb};
use super::cluster::Cluster;
use crate::journal::Record;

/// The steps of a change.
pub(super) fn plan(
    verb: Verb,
    order: &Order<'_>,
    cluster: &Cluster<'_>,
    record: &Record,
) -> Result<Plan, Unmet> {
    let unmet = |text: String| Err(Unmet(vec![text]));
    let Some(last) = cluster.osds().last() else {
        return unmet("it has no nodes".into());
    };
    let is_gone = record.is_stopped(&last.mark());
    let mut plan = Plan::default();
    let name = last.name();
    match verb {
        Verb::Degrade if !is_gone => {
            let why = format!("take {name} away");
            plan.step_on(&last.node.name, &why, last.stop(), None);
        }
        Verb::Rebuild if is_gone => {
            let why = format!("bring {name} back");
            plan.step_on(&last.node.name, &why, last.restart(), Some(last.stop()));
        }
        Verb::Degrade => {
            return unmet(format!(
                "its {name} was taken away; bring it back first with: plimsoll stack rebuild"
            ));
        }
        Verb::Rebuild => return unmet("nothing was taken away; all are there".into()),
        Verb::Grow | Verb::Scrub | Verb::Snapshot => {
            return unmet(format!(
                "{} cannot {verb} yet; make it with the setting osds instead of growing it",
                order.choice.parts
            ));
        }
    }
    Ok(plan)
}
