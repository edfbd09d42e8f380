// SPDX-License-Identifier: Apache-2.0
//! Faults done to the servers of a stack that is up, and healed again.
//!
//! Invariants: what a fault does is planned before anything is done, and what a provider of servers
//! cannot do is refused then. A fault stands in no journal: whatever it leaves behind goes with the
//! stack, so taking the stack down undoes it, whoever was killed when.

use plimsoll_core::fault::{DELAY_MS, Fault, LOSS_PERCENT, Word};
use plimsoll_core::plan::{Action, HERE, Hurt, Made, Node, Proof, Question, Reach, Server, Site};
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

/// Times between two rounds of malformed messages, and how many each port is sent in one.
const ROUNDS: Beat = Beat {
    on: Duration::from_millis(800),
    off: Duration::from_millis(200),
};
const MESSAGES: u32 = 50;

/// How long moving what a server does may take.
const SWITCH_LIMIT_S: u32 = 300;

/// A fault, planned: what is done on which node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blow {
    /// What tells whether it can be done, and changes nothing that lasts: one that fails says why not.
    pub trial: Vec<(String, Action)>,
    /// What is done some time before it, and is part of it.
    pub first: Vec<(String, Action)>,
    /// What brings it about.
    pub strike: Vec<(String, Action)>,
    /// What ends it and brings back what it took.
    pub heal: Vec<(String, Action)>,
    /// What does that where it was not brought about whole, when that is something else.
    pub halfway: Vec<(String, Action)>,
    /// What is done once, after it was healed for the last time; where servers cut each other's power, all of
    /// the healing, since the victim may have been off by then.
    pub after: Vec<(String, Action)>,
    /// For one that comes and goes while it lasts: both lists are done in turn.
    pub beat: Option<Beat>,
    /// Whether processes of its victim end by it. Where they do not, each that ends has failed.
    pub takes_processes: bool,
    /// Whether it is felt while it is being brought about, not only once that is done.
    pub is_felt_at_once: bool,
}

impl Blow {
    /// The blow as it is done the next time while it lasts: malformed messages are others each time.
    pub fn vary(&mut self) {
        for (_, action) in &mut self.strike {
            if let Action::Hurt(Hurt::Malform { seed, .. }) = action {
                *seed = seed.wrapping_add(1);
            }
        }
    }

    /// The time from which it is felt, of those at which what comes first was ordered, the rest was, and
    /// all was done.
    #[must_use]
    pub fn felt_from<T>(&self, first_at: T, ordered_at: T, done_at: T) -> T {
        match (self.first.is_empty(), self.is_felt_at_once) {
            (false, _) => first_at,
            (true, true) => ordered_at,
            (true, false) => done_at,
        }
    }

    /// Whether healing takes the mount away from who uses it, so that no session outlives it.
    #[must_use]
    pub fn ends_sessions(&self, made: &Made) -> bool {
        unmount(&self.heal, made)
    }
}

fn unmounts((_, action): &(String, Action), made: &Made) -> bool {
    matches!(action, Action::Unmount(path) if *path == made.mount_dir)
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
    let on_marks = |beat| Blow {
        strike: of(|mark| Action::Pause { mark }),
        heal: of(|mark| Action::Resume { mark }),
        beat,
        ..Blow::default()
    };
    let needs_processes = matches!(
        fault,
        Fault::Kill | Fault::Stop | Fault::Pause | Fault::Slow | Fault::Double
    );
    if server.marks.is_empty() && needs_processes {
        return Err(Unmet(vec![format!(
            "{fault} is done to processes, and what serves on {} is its kernel: choose power-cut",
            server.name
        )]));
    }
    let kill = |mark| Action::Kill { mark };
    let place = Place {
        fault,
        server,
        node: node_of(server, site).unwrap_or(&site.client),
        site,
    };
    let blow = match fault {
        Fault::Kill => with_restoring(of(kill), server, (made, site)),
        Fault::Stop => stopped(server, (made, site)),
        Fault::Pause => Ok(on_marks(None)),
        Fault::Slow => Ok(on_marks(Some(SLOW))),
        Fault::PowerCut => power_cut(server, made, site),
        Fault::Malformed => Ok(malformed(server, place.node)),
        Fault::Double => double(of(kill), server, (made, site)),
        Fault::FailBack => fail_back(server, made),
        Fault::DiskErrors => restarted(place.blow()?, server, (made, site)),
        _ => place.blow(),
    };
    match made.fences {
        true => with_all_returning(blow?, made, site),
        false => blow,
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

/// What brings a server back whose fault has ended, but which others gave up meanwhile: of the
/// processes that are ended when it is lost, not all are there. Nothing where all are, or where
/// nothing is known of bringing it back.
///
/// # Errors
/// When a node cannot be asked.
pub fn given_up(
    server: &Server,
    made: &Made,
    hosts: &mut dyn Hosts,
) -> Result<Vec<(String, Action)>, HostError> {
    let Ok([lose, restore]) = restoring(server, made) else {
        return Ok(Vec::new());
    };
    for (node, action) in lose {
        if let Action::Stop { mark } = action
            && hosts.on(node)?.marked(mark).is_empty()
        {
            return Ok([lose, restore].concat());
        }
    }
    Ok(Vec::new())
}

/// Whether these actions take the mount away from who uses it.
#[must_use]
pub fn unmount(actions: &[(String, Action)], made: &Made) -> bool {
    actions.iter().any(|action| unmounts(action, made))
}

/// Whether the recipe knows what goes on without this server.
#[must_use]
pub fn is_survivable(server: &str, made: &Made) -> bool {
    let is_it = |proof: &Proof| matches!(proof, Proof::Survives { node, .. } if node == server);
    made.proofs.iter().any(is_it)
}

/// What the recipe knows of losing this server and getting it back.
fn restoring<'a>(server: &'a Server, made: &'a Made) -> Result<[&'a [(String, Action)]; 2], Unmet> {
    let mut known = made.proofs.iter();
    let found = known.find_map(|proof| match proof {
        Proof::Survives {
            node,
            lose,
            restore,
        } if *node == server.name => Some([lose.as_slice(), restore.as_slice()]),
        _ => None,
    });
    let alone = (!server.restore.is_empty()).then_some([&[], server.restore.as_slice()]);
    found.or(alone).ok_or_else(|| {
        Unmet(vec![format!(
            "nothing takes the place of {}, and nothing is known of bringing it back",
            server.name
        )])
    })
}

/// Asked to end in good order: what came last ends first, for it may need the others to say goodbye.
fn stopped(server: &Server, ground: (&Made, &Site)) -> Result<Blow, Unmet> {
    let end = |mark: &String| {
        let mark = mark.clone();
        (server.node.clone(), Action::Hurt(Hurt::End { mark }))
    };
    let strike = server.marks.iter().rev().map(end).collect();
    Ok(Blow {
        is_felt_at_once: true,
        ..with_restoring(strike, server, ground)?
    })
}

fn with_restoring(
    strike: Vec<(String, Action)>,
    server: &Server,
    (made, site): (&Made, &Site),
) -> Result<Blow, Unmet> {
    Ok(Blow {
        strike,
        heal: returning(server, made, site)?,
        takes_processes: true,
        ..Blow::default()
    })
}

/// What brings a server back whose processes are gone. What is left of its parts elsewhere is taken away
/// before; where the others cut its power for that, nothing is left of it, and it needs power.
fn returning(server: &Server, made: &Made, site: &Site) -> Result<Vec<(String, Action)>, Unmet> {
    let [lose, restore] = restoring(server, made)?;
    if !made.fences {
        return Ok([lose, restore].concat());
    }
    let power = power_of(server, site).map(|switch| (HERE.to_owned(), powered(switch, true)));
    Ok(power.into_iter().chain(restore.iter().cloned()).collect())
}

/// A fault of servers that cut each other's power may have led to that, of any of them. All are brought
/// back, which does nothing to one that was never gone.
fn with_all_returning(blow: Blow, made: &Made, site: &Site) -> Result<Blow, Unmet> {
    let on = |server| power_of(server, site).map(|switch| (HERE.to_owned(), powered(switch, true)));
    let powers: Vec<_> = made.servers.iter().filter_map(on).collect();
    let mut restores = Vec::new();
    for server in &made.servers {
        restores.extend_from_slice(restoring(server, made)?[1]);
    }
    // All are started before any of them is waited for: one may wait until the others are there.
    restores.sort_by_key(|(_, action)| matches!(action, Action::Await(_)));
    let blow = Blow {
        takes_processes: true,
        ..blow
    };
    Ok(match blow.beat {
        // Without power there is nothing to heal on it.
        None => Blow {
            heal: [powers, blow.heal, restores].concat(),
            // That brings all back already.
            halfway: Vec::new(),
            ..blow
        },
        // It is healed between the beats, and after the last one whoever lost its power has it again.
        Some(_) => Blow {
            after: [powers, blow.heal.clone(), restores].concat(),
            ..blow
        },
    })
}

/// The command that switches a server's power, if there is one.
fn power_of(server: &Server, site: &Site) -> Option<Vec<String>> {
    let node = node_of(server, site)?;
    (!node.power.is_empty()).then(|| node.power.clone())
}

fn powered(switch: Vec<String>, on: bool) -> Action {
    Action::Hurt(Hurt::Power { switch, on })
}

fn node_of<'a>(server: &Server, site: &'a Site) -> Option<&'a Node> {
    site.servers.iter().find(|node| node.name == server.node)
}

/// Where a server runs, and what can be done to that place.
struct Place<'a> {
    fault: Fault,
    server: &'a Server,
    node: &'a Node,
    site: &'a Site,
}

impl<'a> Place<'a> {
    /// What is done to the machine of the server, or to its namespace.
    fn blow(&self) -> Result<Blow, Unmet> {
        let blow = if self.node.faults.is_empty() {
            match self.fault {
                Fault::LinkDown | Fault::Flap => self.link()?,
                Fault::OneWay => self.one_way()?,
                Fault::Partition => self.partition()?,
                Fault::Delay => self.netem(&format!("delay {DELAY_MS}ms"))?,
                Fault::Loss => self.netem(&format!("loss {LOSS_PERCENT}%"))?,
                _ => return Err(self.refused()),
            }
        } else {
            self.told()
        };
        let is_flap = self.fault == Fault::Flap;
        Ok(Blow {
            beat: is_flap.then_some(FLAP),
            ..blow
        })
    }

    /// By the command that was named for the faults of its machine.
    fn told(&self) -> Blow {
        let tell = |word| {
            let (command, fault) = (self.node.faults.clone(), self.fault);
            let action = Hurt::Fault {
                command,
                fault,
                word,
            };
            vec![(HERE.to_owned(), Action::Hurt(action))]
        };
        Blow {
            trial: tell(Word::Try),
            strike: tell(Word::On),
            heal: tell(Word::Off),
            ..Blow::default()
        }
    }

    /// Why it cannot be done here.
    fn refused(&self) -> Unmet {
        let (fault, name) = (self.fault, &self.server.name);
        let needed = match fault {
            Fault::ClockStep => "a clock of its own",
            Fault::DiskSlow | Fault::DiskHung | Fault::DiskErrors | Fault::DiskFull => {
                "a disk of its own"
            }
            _ => "a link of its own",
        };
        let remedy = match fault {
            Fault::ClockStep
            | Fault::DiskSlow
            | Fault::DiskHung
            | Fault::DiskErrors
            | Fault::DiskFull => {
                "stand the stack up on virtual machines (plimsoll vm up -o lab.toml, then --on \
                 lab.toml), or name a command for it in the inventory (faults = [...])"
            }
            _ => {
                "stand the stack up over namespaces with --on netns, or on virtual machines (plimsoll \
                 vm up -o lab.toml, then --on lab.toml)"
            }
        };
        Unmet(vec![format!(
            "{fault} needs {needed}, and {name} has none here; {remedy}"
        )])
    }

    /// Refuses unless the server has a network namespace.
    fn check_namespace(&self) -> Result<(), Unmet> {
        match self.node.reach {
            Reach::Namespace(_) => Ok(()),
            _ => Err(self.refused()),
        }
    }

    fn link(&self) -> Result<Blow, Unmet> {
        self.check_namespace()?;
        let name = link_of(self.site, self.node);
        let set = |up| {
            let name = name.clone();
            vec![(HERE.to_owned(), Action::SetLink { name, up })]
        };
        Ok(Blow {
            strike: set(false),
            heal: set(true),
            ..Blow::default()
        })
    }

    /// The other servers' nodes.
    fn others(&self) -> impl Iterator<Item = &'a Node> {
        let own = self.node.address.as_str();
        let servers = self.site.servers.iter();
        servers.filter(move |other| other.address != own)
    }

    fn one_way(&self) -> Result<Blow, Unmet> {
        self.check_namespace()?;
        let others = self.others().chain([&self.site.client]);
        Ok(muted(
            &others.map(|other| (self.node, other)).collect::<Vec<_>>(),
        ))
    }

    fn partition(&self) -> Result<Blow, Unmet> {
        self.check_namespace()?;
        let both = |other| [(self.node, other), (other, self.node)];
        let pairs: Vec<_> = self.others().flat_map(both).collect();
        if pairs.is_empty() {
            return Err(Unmet(vec![format!(
                "there is no other server that {} could be cut off from",
                self.server.name
            )]));
        }
        Ok(muted(&pairs))
    }

    fn netem(&self, how: &str) -> Result<Blow, Unmet> {
        self.check_namespace()?;
        let set = |how: &str| {
            let words = how.split_whitespace().map(str::to_owned).collect();
            (self.node.name.clone(), Action::Hurt(Hurt::Netem(words)))
        };
        Ok(Blow {
            // The kernel is asked by having it done without any effect.
            trial: vec![set("delay 0ms"), set("")],
            strike: vec![set(how)],
            heal: vec![set("")],
            ..Blow::default()
        })
    }
}

/// Throws away what is sent from the first to the second of each pair.
fn muted(pairs: &[(&Node, &Node)]) -> Blow {
    let mute = |on: bool| {
        let one = |(from, to): &(&Node, &Node)| {
            let address = to.address.clone();
            (from.name.clone(), Action::Hurt(Hurt::Mute { address, on }))
        };
        pairs.iter().map(one).collect()
    };
    Blow {
        strike: mute(true),
        heal: mute(false),
        ..Blow::default()
    }
}

fn malformed(server: &Server, node: &Node) -> Blow {
    let send = |messages| {
        let one = |mark: &String| {
            let action = Hurt::Malform {
                mark: mark.clone(),
                address: node.address.clone(),
                seed: 0,
                messages,
            };
            (server.node.clone(), Action::Hurt(action))
        };
        server.marks.iter().map(one).collect()
    };
    Blow {
        trial: send(0),
        strike: send(MESSAGES),
        beat: Some(ROUNDS),
        ..Blow::default()
    }
}

/// The server is lost and brought back as after any loss; in that moment, while it is being given what it
/// missed, the next one is lost.
fn double(
    first: Vec<(String, Action)>,
    server: &Server,
    (made, site): (&Made, &Site),
) -> Result<Blow, Unmet> {
    let after = made.servers.iter().cycle();
    let mut after = after.skip_while(|other| other.name != server.name).skip(1);
    let next = after.next().filter(|next| next.name != server.name);
    let next = next.ok_or_else(|| {
        Unmet(vec![format!(
            "{} is the only server: there is no second one to lose",
            server.name
        )])
    })?;
    let kill = |mark: &String| {
        let mark = mark.clone();
        (next.node.clone(), Action::Kill { mark })
    };
    let (mut strike, next_back) = (returning(server, made, site)?, returning(next, made, site)?);
    let halfway = [&strike[..], &next_back].concat();
    let is_wait = |(_, action): &(String, Action)| matches!(action, Action::Await(_));
    let waits = strike.iter().rev().take_while(|one| is_wait(one)).count();
    let whole = strike.split_off(strike.len() - waits);
    let mut blow = Blow {
        first,
        strike,
        heal: [next_back, whole].concat(),
        halfway,
        takes_processes: true,
        ..Blow::default()
    };
    if unmount(&blow.strike, made) {
        return Err(Unmet(vec![format!(
            "bringing {} back takes the mount away, so nobody can use the stack when the second \
             server is lost; do kill instead",
            server.name
        )]));
    }
    blow.strike.extend(next.marks.iter().map(kill));
    Ok(blow)
}

fn power_cut(server: &Server, made: &Made, site: &Site) -> Result<Blow, Unmet> {
    let Some(switch) = power_of(server, site) else {
        return Err(Unmet(vec![format!(
            "nobody can cut the power of {}: only a machine whose inventory names a command for it \
             (power = [...]), such as a virtual machine, has power of its own",
            server.name
        )]));
    };
    let [lose, restore] = restoring(server, made)?;
    // What was on its machine is gone.
    let elsewhere = lose
        .iter()
        .filter(|(at, _)| *at != server.node && !made.fences);
    let mut heal = vec![(HERE.to_owned(), powered(switch.clone(), true))];
    heal.extend(elsewhere.cloned());
    heal.extend_from_slice(restore);
    Ok(Blow {
        strike: vec![(HERE.to_owned(), powered(switch, false))],
        heal,
        takes_processes: true,
        ..Blow::default()
    })
}

/// Moved, and moved back once all is whole again.
fn fail_back(server: &Server, made: &Made) -> Result<Blow, Unmet> {
    let Some(switch) = server.question(Question::Switch) else {
        return Err(Unmet(vec![format!(
            "{} serves beside the others and is not moved, so nothing is moved back",
            server.name
        )]));
    };
    let switch = Action::Run(switch.within_s(SWITCH_LIMIT_S));
    let strike = vec![(server.node.clone(), switch)];
    let [_, restore] = restoring(server, made)?;
    Ok(Blow {
        heal: [restore, &strike].concat(),
        strike,
        is_felt_at_once: true,
        ..Blow::default()
    })
}

/// What a machine had mounted from a disk that failed is of no use to it afterwards: where its power can
/// be switched, it begins anew with the disk that works again.
fn restarted(blow: Blow, server: &Server, (made, site): (&Made, &Site)) -> Result<Blow, Unmet> {
    let Some(switch) = power_of(server, site) else {
        return Ok(blow);
    };
    let off = [(HERE.to_owned(), powered(switch, false))];
    let anew = power_cut(server, made, site)?.heal;
    Ok(Blow {
        heal: [&blow.heal, &off[..], &anew].concat(),
        takes_processes: true,
        ..blow
    })
}

#[cfg(test)]
mod tests;
