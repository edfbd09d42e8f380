// SPDX-License-Identifier: Apache-2.0
//! Faults done to the servers of a stack that is up, and healed again.
//!
//! Invariants: what a fault does is planned before anything is done, and what a provider of servers
//! cannot do is refused then. A fault stands in no journal: whatever it leaves behind goes with the
//! stack, so taking the stack down undoes it, whoever was killed when.

use plimsoll_core::fault::Fault;
use plimsoll_core::plan::{Action, HERE, Made, Node, Proof, Reach, Server, Site};
use std::time::Duration;

use crate::host::{HostError, Hosts};
use crate::stacks::{Unmet, link_of};

/// The two times of a fault that comes and goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// How long it is there.
    pub on: Duration,
    /// How long it is not.
    pub off: Duration,
}

/// Nine tenths of the time, in turns that a request feels and a heartbeat does not.
const SLOW: Beat = Beat {
    on: Duration::from_millis(90),
    off: Duration::from_millis(10),
};

const FLAP: Beat = Beat {
    on: Duration::from_secs(1),
    off: Duration::from_secs(1),
};

/// A fault, planned: what is done on which node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blow {
    /// What brings it about.
    pub strike: Vec<(String, Action)>,
    /// What ends it and brings back what it took.
    pub heal: Vec<(String, Action)>,
    /// For one that comes and goes while it lasts: both lists are done in turn.
    pub beat: Option<Beat>,
}

impl Blow {
    /// Whether healing takes the mount away from who uses it, so that no session outlives it.
    #[must_use]
    pub fn ends_sessions(&self, made: &Made) -> bool {
        let unmounts = |(_, action): &(String, Action)| matches!(action, Action::Unmount(path) if *path == made.mount_dir);
        self.heal.iter().any(unmounts)
    }
}

/// Plans a fault of one server of what was made.
///
/// # Errors
/// When it cannot be done to this server, with the reason and what to do.
pub fn plan(fault: Fault, server: &Server, made: &Made, site: &Site) -> Result<Blow, Unmet> {
    let of = |action: fn(String) -> Action| -> Vec<(String, Action)> {
        let one = |mark: &String| (server.node.clone(), action(mark.clone()));
        server.marks.iter().map(one).collect()
    };
    let on_marks = |strike, heal, beat| Blow {
        strike: of(strike),
        heal: of(heal),
        beat,
    };
    let pause = |mark| Action::Pause { mark };
    let resume = |mark| Action::Resume { mark };
    match fault {
        Fault::Kill => with_restoring(of(|mark| Action::Kill { mark }), server, (made, site)),
        Fault::Stop => with_restoring(of(|mark| Action::Stop { mark }), server, (made, site)),
        Fault::Pause => Ok(on_marks(pause, resume, None)),
        Fault::Slow => Ok(on_marks(pause, resume, Some(SLOW))),
        Fault::LinkDown => link(server, site, None),
        Fault::Flap => link(server, site, Some(FLAP)),
        Fault::OneWay => one_way(server, site),
        Fault::PowerCut => power_cut(server, made, site),
    }
}

/// Does a list of actions, in order.
///
/// # Errors
/// With the first that could not be done.
pub fn carry_out(
    actions: &[(String, Action)],
    id: &str,
    hosts: &mut dyn Hosts,
) -> Result<(), HostError> {
    let mut actions = actions.iter();
    actions.try_for_each(|(node, action)| hosts.on(node)?.carry_out(id, action))
}

/// Whether the recipe knows what goes on without this server.
#[must_use]
pub fn is_survivable(server: &str, made: &Made) -> bool {
    let is_it = |proof: &Proof| matches!(proof, Proof::Survives { node, .. } if node == server);
    made.proofs.iter().any(is_it)
}

/// What the recipe knows of losing this server and getting it back.
fn restoring<'a>(server: &Server, made: &'a Made) -> Result<[&'a [(String, Action)]; 2], Unmet> {
    let mut known = made.proofs.iter();
    let found = known.find_map(|proof| match proof {
        Proof::Survives {
            node,
            lose,
            restore,
        } if *node == server.name => Some([lose.as_slice(), restore.as_slice()]),
        _ => None,
    });
    found.ok_or_else(|| {
        Unmet(vec![format!(
            "nothing takes the place of {}, and nothing is known of bringing it back",
            server.name
        )])
    })
}

/// What the fault leaves of the server's parts elsewhere is taken away before it is brought back. The
/// others may have cut the power of a machine whose processes died: then nothing is left of them there.
fn with_restoring(
    strike: Vec<(String, Action)>,
    server: &Server,
    (made, site): (&Made, &Site),
) -> Result<Blow, Unmet> {
    let [lose, restore] = restoring(server, made)?;
    let fenced =
        node_of(server, site).filter(|node| !node.fence.is_empty() && !node.power.is_empty());
    let mut heal = Vec::new();
    if let Some(node) = fenced {
        let switch = node.power.clone();
        heal.push((HERE.to_owned(), Action::Power { switch, on: true }));
    }
    let stays = |(at, _): &&(String, Action)| fenced.is_none_or(|node| *at != node.name);
    heal.extend(lose.iter().filter(stays).cloned());
    heal.extend_from_slice(restore);
    Ok(Blow {
        strike,
        heal,
        beat: None,
    })
}

fn node_of<'a>(server: &Server, site: &'a Site) -> Option<&'a Node> {
    site.servers.iter().find(|node| node.name == server.node)
}

/// The namespace of a server that has one.
fn namespaced<'a>(fault: Fault, server: &Server, site: &'a Site) -> Result<&'a Node, Unmet> {
    let node = node_of(server, site);
    let node = node.filter(|node| matches!(node.reach, Reach::Namespace(_)));
    node.ok_or_else(|| {
        Unmet(vec![format!(
            "{fault} needs a link of its own, and {} has none here; stand the stack up over \
             namespaces with: --on netns",
            server.name
        )])
    })
}

fn link(server: &Server, site: &Site, beat: Option<Beat>) -> Result<Blow, Unmet> {
    let fault = if beat.is_some() {
        Fault::Flap
    } else {
        Fault::LinkDown
    };
    let node = namespaced(fault, server, site)?;
    let name = link_of(site, node);
    let set = |up| {
        (
            HERE.to_owned(),
            Action::SetLink {
                name: name.clone(),
                up,
            },
        )
    };
    Ok(Blow {
        strike: vec![set(false)],
        heal: vec![set(true)],
        beat,
    })
}

fn one_way(server: &Server, site: &Site) -> Result<Blow, Unmet> {
    let node = namespaced(Fault::OneWay, server, site)?;
    let others = site.servers.iter().chain([&site.client]);
    let addresses = others
        .map(|other| &other.address)
        .filter(|address| **address != node.address);
    let mute = |on: bool| {
        let one = |address: &String| {
            let address = address.clone();
            (node.name.clone(), Action::Mute { address, on })
        };
        addresses.clone().map(one).collect()
    };
    Ok(Blow {
        strike: mute(true),
        heal: mute(false),
        beat: None,
    })
}

fn power_cut(server: &Server, made: &Made, site: &Site) -> Result<Blow, Unmet> {
    let node = node_of(server, site).filter(|node| !node.power.is_empty());
    let Some(node) = node else {
        return Err(Unmet(vec![format!(
            "nobody can cut the power of {}: only a machine whose inventory names a command for it \
             (power = [...]), such as a virtual machine, has power of its own",
            server.name
        )]));
    };
    let set = |on| {
        let switch = node.power.clone();
        (HERE.to_owned(), Action::Power { switch, on })
    };
    let [lose, restore] = restoring(server, made)?;
    let elsewhere = lose.iter().filter(|(at, _)| *at != node.name);
    let mut heal = vec![set(true)];
    heal.extend(elsewhere.cloned());
    heal.extend_from_slice(restore);
    Ok(Blow {
        strike: vec![set(false)],
        heal,
        beat: None,
    })
}

#[cfg(test)]
mod tests;
