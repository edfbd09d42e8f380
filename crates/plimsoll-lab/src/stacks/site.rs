// SPDX-License-Identifier: Apache-2.0
//! Where stacks run: this machine itself, namespaces of its network, or machines of the user.
//!
//! A place gives the nodes, with what must be known of them, and the steps that make them.

use plimsoll_core::plan::{HERE, NodeTransport, Plan, PlanAction, PlanNode, StackNodes};
use std::path::Path;

use super::{NodeInventory, PreconditionError, StackConfig, StackFootprint, StackUpOptions};
use plimsoll_machine::host::{Host, HostError, HostResolver, network};

/// The source of the nodes of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackPlacement {
    /// All servers are processes of this machine, on ports of its loopback address.
    Here,
    /// Each server has a namespace of this machine's network, with an address of its own.
    Namespaces,
    /// Each server is a machine of the user.
    Inventory(Box<NodeInventory>),
}

impl StackPlacement {
    /// The place of this name; other machines have none.
    pub fn named(name: &str) -> Option<StackPlacement> {
        match name {
            "here" => Some(StackPlacement::Here),
            "netns" => Some(StackPlacement::Namespaces),
            _ => None,
        }
    }
}

/// Most servers of a stack: the last number of their addresses.
const SERVERS_MAX: u16 = 100;

/// Last number of this machine's address in the network of the namespaces.
const CLIENT_NUMBER: u16 = 254;

/// The nodes for a stack of this shape.
pub(super) fn site(
    place: &StackPlacement,
    choice: &StackConfig,
    shape: &StackFootprint,
    options: &StackUpOptions,
    id: &str,
    hosts: &mut dyn HostResolver,
) -> Result<StackNodes, SiteError> {
    let host = hosts.here();
    if shape.servers > SERVERS_MAX {
        let text = format!("{} servers are more than {SERVERS_MAX}", shape.servers);
        return Err(PreconditionError(vec![text]).into());
    }
    let dir = options.base_dir.to_string_lossy().into_owned();
    let found = host.target(Path::new(&dir))?;
    let ports = shape.ports.saturating_mul(shape.servers);
    let first_port = match place {
        StackPlacement::Here if ports > 0 => host.free_ports(options.first_port, ports)?,
        _ => options.first_port,
    };
    let here = PlanNode {
        name: HERE.into(),
        reach: NodeTransport::Here,
        address: "127.0.0.1".into(),
        dir,
        free_bytes: found.free_bytes,
        direct_align_bytes: found.direct_align_bytes,
        first_port,
        power: Vec::new(),
        fence: Vec::new(),
        fence_next: Vec::new(),
        faults: Vec::new(),
    };
    Ok(match place {
        StackPlacement::Here => {
            let server = |n: u16| PlanNode {
                first_port: first_port + n * shape.ports,
                ..here.clone()
            };
            StackNodes {
                servers: (0..shape.servers).map(server).collect(),
                client: here,
            }
        }
        StackPlacement::Namespaces => namespaces(shape, id, &here)?,
        StackPlacement::Inventory(inventory) => {
            inventory.check_client(choice)?;
            let servers = inventory.servers(choice, shape, options, hosts)?;
            StackNodes {
                client: PlanNode {
                    address: inventory.client_address(&servers)?,
                    ..here
                },
                servers,
            }
        }
    })
}

fn namespaces(shape: &StackFootprint, id: &str, here: &PlanNode) -> Result<StackNodes, SiteError> {
    let network = free_network(id)?;
    let address = |number: u16| format!("10.92.{network}.{number}");
    let server = |n: u16| PlanNode {
        name: format!("n{}", n + 1),
        reach: NodeTransport::Namespace(format!("plimsoll-{id}-n{}", n + 1)),
        address: address(n + 1),
        ..here.clone()
    };
    Ok(StackNodes {
        servers: (0..shape.servers).map(server).collect(),
        client: PlanNode {
            address: address(CLIENT_NUMBER),
            ..here.clone()
        },
    })
}

/// The third number of a network `10.92.N.0/24` that nothing of this machine has.
pub(crate) fn free_network(id: &str) -> Result<u8, PreconditionError> {
    let used = network::networks_in_use();
    // Networks made at the same time begin their search at different numbers.
    // The sum of its letters would be the same for many pairs of process numbers.
    let mix = |sum: u32, byte: u8| sum.wrapping_mul(31).wrapping_add(byte.into());
    let first = id.bytes().fold(0, mix) % 254;
    let mut numbers = (0..254_u32).map(|n| u8::try_from((first + n) % 254 + 1).unwrap_or(1));
    numbers.find(|n| !used.contains(n)).ok_or_else(|| {
        PreconditionError(vec![
            "all networks from 10.92.1.0/24 to 10.92.254.0/24 are in use".into(),
        ])
    })
}

/// The nodes of a stack that grows by `count`: those that are there, and the new ones behind.
/// Machines of the user come from `more`.
pub(super) fn grown(
    site: &StackNodes,
    count: u16,
    (choice, shape, id): (&StackConfig, &StackFootprint, &str),
    more: Option<&NodeInventory>,
    hosts: &mut dyn HostResolver,
) -> Result<StackNodes, SiteError> {
    let unmet = |text: String| Err(PreconditionError(vec![text]).into());
    let mut grown = site.clone();
    let Some(last) = site.servers.last() else {
        return unmet("it has no nodes to add to".into());
    };
    let number = site.servers.len() + usize::from(count);
    if number > usize::from(SERVERS_MAX) {
        return unmet(format!("too many servers: {number}, at most {SERVERS_MAX}"));
    }
    match (&last.reach, more) {
        (NodeTransport::Agent(_), None) => {
            return unmet(
                "its nodes are machines of an inventory file: name one with more machines by --on FILE"
                    .into(),
            );
        }
        (NodeTransport::Agent(_), Some(inventory)) => {
            let new = inventory.more(&site.servers, count, choice, shape, hosts)?;
            grown.servers.extend(new);
        }
        (_, Some(inventory)) => {
            return unmet(format!(
                "its nodes are processes of this machine; leave out --on {}",
                inventory.file
            ));
        }
        (_, None) => {
            let mut last = last.clone();
            for number in site.servers.len() + 1..=number {
                last = one_more_here(&last, number, shape, id, hosts.here())?;
                grown.servers.push(last.clone());
            }
        }
    }
    Ok(grown)
}

/// One more node of this machine, behind the last one.
fn one_more_here(
    last: &PlanNode,
    number: usize,
    shape: &StackFootprint,
    id: &str,
    host: &dyn Host,
) -> Result<PlanNode, HostError> {
    let node = PlanNode {
        free_bytes: host.target(Path::new(&last.dir))?.free_bytes,
        ..last.clone()
    };
    if last.reach == NodeTransport::Here {
        let from = last.first_port.saturating_add(shape.ports);
        let first_port = host.free_ports(from, shape.ports)?;
        return Ok(PlanNode { first_port, ..node });
    }
    Ok(PlanNode {
        name: format!("n{number}"),
        reach: NodeTransport::Namespace(format!("plimsoll-{id}-n{number}")),
        address: format!("{}.{number}", network_of(&last.address)),
        ..node
    })
}

/// An address without its last number.
fn network_of(address: &str) -> &str {
    address
        .rsplit_once('.')
        .map_or(address, |(network, _)| network)
}

/// Adds the steps that make those of the nodes that are new.
pub(super) fn add_new_nodes(plan: &mut Plan, site: &StackNodes, known: usize) {
    let bridge = bridge_name(&site.client.address);
    for node in site.servers.iter().skip(known) {
        if let NodeTransport::Namespace(namespace) = &node.reach {
            add_namespace(plan, node, namespace, &bridge);
        }
    }
}

/// Adds the steps that make the nodes, where they have to be made.
pub(super) fn add_nodes(plan: &mut Plan, site: &StackNodes) {
    let mut bridge_made = false;
    for node in &site.servers {
        let NodeTransport::Namespace(namespace) = &node.reach else {
            continue;
        };
        let bridge = bridge_name(&site.client.address);
        if !bridge_made {
            plan.step(
                "create the network of the nodes",
                PlanAction::MakeBridge {
                    name: bridge.clone(),
                    address: format!("{}/24", site.client.address),
                },
                Some(PlanAction::RemoveLink(bridge.clone())),
            );
            bridge_made = true;
        }
        add_namespace(plan, node, namespace, &bridge);
    }
}

/// Adds the steps that make one more node in a network that is there.
pub(super) fn add_namespace(plan: &mut Plan, node: &PlanNode, namespace: &str, bridge: &str) {
    plan.step(
        &format!("create node {}", node.name),
        PlanAction::MakeNamespace(namespace.into()),
        Some(PlanAction::RemoveNamespace(namespace.into())),
    );
    let link = link_name(bridge, node);
    plan.step(
        &format!("connect node {} to the network", node.name),
        PlanAction::JoinBridge {
            bridge: bridge.into(),
            namespace: namespace.into(),
            link: link.clone(),
            address: format!("{}/24", node.address),
        },
        Some(PlanAction::RemoveLink(link)),
    );
}

/// The bridge is named after the network, of which there is one of a kind on a machine.
pub(crate) fn bridge_name(client_address: &str) -> String {
    let number = client_address.split('.').nth(2).unwrap_or_default();
    format!("plimsoll{number}")
}

/// The interface at the bridge by which a node in a namespace is joined to the others.
pub fn link_of(site: &StackNodes, node: &PlanNode) -> String {
    link_name(&bridge_name(&site.client.address), node)
}

fn link_name(bridge: &str, node: &PlanNode) -> String {
    format!("{bridge}{}", node.name)
}

/// Why there are no nodes.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// Something is missing.
    #[error(transparent)]
    Unmet(#[from] PreconditionError),
    /// A machine could not be looked at.
    #[error(transparent)]
    Host(#[from] HostError),
}
