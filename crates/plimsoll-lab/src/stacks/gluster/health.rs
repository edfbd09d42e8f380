// SPDX-License-Identifier: Apache-2.0
//! Reports of the servers about their bricks: which are not served.

use plimsoll_core::plan::PlanNode;

use super::super::StackPlanInput;
use super::cluster::GlusterCluster;
use plimsoll_machine::host::HostResolver;

/// Bricks of a cluster that are not served, as the first of its daemons that lives sees them.
pub(super) fn lacks(
    order: &StackPlanInput<'_>,
    cluster: &GlusterCluster<'_>,
    volumes: &[&str],
    hosts: &mut dyn HostResolver,
) -> Vec<String> {
    let mut lacking = Vec::new();
    for volume in volumes {
        let mut said = Err("none of its daemons responds".to_owned());
        for node in &cluster.nodes {
            let ask = cluster.cli_on(node, &["volume", "status", volume, "--xml"]);
            let answer = hosts
                .on(&node.name)
                .and_then(|host| host.answer(order.id, &ask));
            said = answer.map_err(|error| error.to_string());
            if said.is_ok() {
                break;
            }
        }
        match said {
            Ok(said) => lacking.extend(unserved(&said, volume, &cluster.nodes)),
            Err(why) => lacking.push(format!("the state of the bricks is unknown: {why}")),
        }
    }
    lacking
}

/// Nodes whose brick of a volume is not among those that are served.
fn unserved(said: &str, volume: &str, nodes: &[&PlanNode]) -> Vec<String> {
    let value = |text: &'_ str, name: &str| -> Option<String> {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        let (value, _) = rest.split_once(&format!("</{name}>"))?;
        Some(value.trim().to_owned())
    };
    // Where a brick is, and whether a process serves it. Healers are listed in the same way.
    let listed = said.split("<node>").skip(1).filter_map(|text| {
        let is_served = value(text, "status")? == "1";
        Some((value(text, "hostname")?, value(text, "path")?, is_served))
    });
    let listed: Vec<(String, String, bool)> = listed.collect();
    let is_served = |node: &PlanNode| {
        let of_node = |(host, path, is_served): &(String, String, bool)| {
            *host == node.address && path.ends_with(&format!("/bricks/{volume}")) && *is_served
        };
        listed.iter().any(of_node)
    };
    let lost = nodes.iter().filter(|node| !is_served(node));
    lost.map(|node| {
        format!(
            "the brick of {} in volume {volume} is not served",
            node.name
        )
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::snapshot;

    fn node(address: &str, status: &str) -> String {
        format!(
            "<node><hostname>{address}</hostname><path>/base/n/bricks/data</path>\
             <peerid>x</peerid><status>{status}</status><port>1</port></node>"
        )
    }

    #[test]
    fn a_brick_that_is_not_served_or_not_listed_is_told() {
        let planned = snapshot::planned("gluster");
        let nodes: Vec<&PlanNode> = planned.ask.site.servers.iter().collect();
        let [first, second, third] = [0, 1, 2].map(|n| nodes[n].address.clone());
        let healer = node("Self-heal Daemon", "1").replace("/base/n/bricks/data", &second);
        let all = [node(&first, "1"), node(&second, "1"), node(&third, "1")].concat();
        assert!(unserved(&all, "data", &nodes).is_empty());
        let dead = [node(&first, "1"), node(&second, "0"), healer].concat();
        let lost = unserved(&dead, "data", &nodes);
        assert_eq!(lost.len(), 2, "{lost:?}");
        assert!(lost[0].contains("brick of n2") && lost[1].contains("brick of n3"));
        assert_eq!(unserved("", "data", &nodes).len(), 3);
    }
}
