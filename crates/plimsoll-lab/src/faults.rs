// SPDX-License-Identifier: Apache-2.0
//! Faults: injection into the servers of a stack that is up, and recovery.
//!
//! Invariants: a fault is planned before any of its actions, and a fault that the provider of the servers
//! cannot inject is refused then. Before a fault changes a machine, the journal of the stack records the
//! action that ends it; all other effects disappear with the stack. So taking the stack down undoes the
//! fault, even if a process was killed at any point.

use plimsoll_core::fault::{DELAY_MS, FaultCommand, FaultKind, LOSS_PERCENT};
use plimsoll_core::plan::{
    FaultAction, HERE, NodeTransport, PlanAction, PlanNode, PlanStep, ServerQuery, StackNodes,
    StackOutputs, StackSelfTest, StackServer,
};
use std::fs::File;
use std::time::Duration;

use crate::stacks::{PreconditionError, link_of, manage};
use plimsoll_machine::host::{HostError, HostResolver};
use plimsoll_machine::journal::{Journal, JournalError, StateDir};

/// The two times of a fault that comes and goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultDutyCycle {
    /// How long it is there.
    pub on: Duration,
    /// How long it is not.
    pub off: Duration,
}

/// Nine tenths of the time, in turns that a request feels and a heartbeat does not.
const SLOW: FaultDutyCycle = FaultDutyCycle {
    on: Duration::from_millis(90),
    off: Duration::from_millis(10),
};

const FLAP: FaultDutyCycle = FaultDutyCycle {
    on: Duration::from_secs(1),
    off: Duration::from_secs(1),
};

/// Times between two rounds of malformed messages, and how many each port is sent in one.
const ROUNDS: FaultDutyCycle = FaultDutyCycle {
    on: Duration::from_millis(800),
    off: Duration::from_millis(200),
};
const MESSAGES: u32 = 50;

/// How long moving the service to another server may take.
const SWITCH_LIMIT_S: u32 = 300;

/// A fault as actions, each with its node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// Probes that it is possible, without a lasting change: one that fails says why not.
    pub trial: Vec<(String, PlanAction)>,
    /// Preparation, some time before the injection.
    pub first: Vec<(String, PlanAction)>,
    /// Actions that inject it.
    pub inject: Vec<(String, PlanAction)>,
    /// Actions that end it and bring back what it took.
    pub heal: Vec<(String, PlanAction)>,
    /// Recovery after a partial injection, if that differs.
    pub halfway: Vec<(String, PlanAction)>,
    /// Done once, after the last recovery; where servers fence each other, all of the recovery, since the
    /// target may have been off by then.
    pub after: Vec<(String, PlanAction)>,
    /// For one that comes and goes while it lasts: both lists are done in turn.
    pub cycle: Option<FaultDutyCycle>,
    /// Whether processes of its victim end by it. Where they do not, each that ends has failed.
    pub takes_processes: bool,
    /// Whether it is felt while it is being brought about, not only once that is done.
    pub is_felt_at_once: bool,
}

impl FaultPlan {
    /// The plan as it is carried out the next time while it lasts: malformed messages are others each time.
    pub fn vary(&mut self) {
        for (_, action) in &mut self.inject {
            if let PlanAction::Hurt(FaultAction::Malform { seed, .. }) = action {
                *seed = seed.wrapping_add(1);
            }
        }
    }

    /// The time from which it is felt, of those at which what comes first was ordered, the rest was, and
    /// all was done.
    pub fn felt_from<T>(&self, first_at: T, ordered_at: T, done_at: T) -> T {
        match (self.first.is_empty(), self.is_felt_at_once) {
            (false, _) => first_at,
            (true, true) => ordered_at,
            (true, false) => done_at,
        }
    }

    /// Whether healing takes the mount away from who uses it, so that no session outlives it.
    pub fn ends_sessions(&self, made: &StackOutputs) -> bool {
        unmount(&self.heal, made)
    }
}

fn unmounts((_, action): &(String, PlanAction), made: &StackOutputs) -> bool {
    matches!(action, PlanAction::Unmount(path) if *path == made.mount_dir)
}

/// How many of these actions it takes until the mount of a stack is back that they take away; none where they
/// leave it.
pub fn remounted_at(actions: &[(String, PlanAction)], made: &StackOutputs) -> usize {
    let is_back = |(node, action): &(String, PlanAction)| match action {
        PlanAction::MountIs { path, .. } => node == HERE && *path == made.mount_dir,
        _ => false,
    };
    match actions.iter().any(|one| unmounts(one, made)) {
        true => actions
            .iter()
            .rposition(is_back)
            .map_or(actions.len(), |at| at + 1),
        false => 0,
    }
}

/// Plans a fault of one server of what was made.
///
/// # Errors
/// When it cannot be done to this server, with the reason and what to do.
pub fn plan(
    fault: FaultKind,
    server: &StackServer,
    made: &StackOutputs,
    site: &StackNodes,
) -> Result<FaultPlan, PreconditionError> {
    let of = |action: fn(String) -> PlanAction| -> Vec<(String, PlanAction)> {
        let one = |mark: &String| (server.node.clone(), action(mark.clone()));
        server.marks.iter().map(one).collect()
    };
    let on_marks = |cycle| FaultPlan {
        inject: of(|mark| PlanAction::Pause { mark }),
        heal: of(|mark| PlanAction::Resume { mark }),
        cycle,
        ..FaultPlan::default()
    };
    let needs_processes = matches!(
        fault,
        FaultKind::Kill | FaultKind::Stop | FaultKind::Pause | FaultKind::Slow | FaultKind::Double
    );
    if server.marks.is_empty() && needs_processes {
        return Err(PreconditionError(vec![format!(
            "{fault} needs a server process, and the server on {} is its kernel: choose power-cut",
            server.name
        )]));
    }
    let kill = |mark| PlanAction::Kill { mark };
    let place = FaultPlanner {
        fault,
        server,
        node: node_of(server, site).unwrap_or(&site.client),
        site,
    };
    let fault_plan = match fault {
        FaultKind::Kill => with_restoring(of(kill), server, (made, site)),
        FaultKind::Stop => stopped(server, (made, site)),
        FaultKind::Pause => Ok(on_marks(None)),
        FaultKind::Slow => Ok(on_marks(Some(SLOW))),
        FaultKind::PowerCut => power_cut(server, made, site),
        FaultKind::Malformed => Ok(malformed(server, place.node)),
        FaultKind::Double => double(of(kill), server, (made, site)),
        FaultKind::FailBack => fail_back(server, made),
        FaultKind::DiskErrors => restarted(place.fault_plan()?, server, (made, site)),
        _ => place.fault_plan(),
    };
    match made.fences {
        true => with_all_returning(fault_plan?, made, site),
        false => fault_plan,
    }
}

/// Does a list of actions, in order.
///
/// # Errors
/// With the first that could not be done.
pub fn carry_out(
    actions: &[(String, PlanAction)],
    id: &str,
    hosts: &mut dyn HostResolver,
) -> Result<(), HostError> {
    let mut actions = actions.iter();
    actions.try_for_each(|(node, action)| hosts.on(node)?.carry_out(id, action))
}

/// A fault that is noted in the journal of its stack, until it is recovered.
#[derive(Debug)]
pub struct FaultJournal {
    journal: Journal,
    /// The first of its steps.
    from: usize,
}

impl FaultJournal {
    /// Notes a fault before it is injected: of what ends it, all that taking the stack down would leave,
    /// since it is of a machine and not of the stack.
    ///
    /// # Errors
    /// When it could not be noted: then nothing must be injected.
    pub fn note(
        plan: &FaultPlan,
        why: &str,
        (held, name, state): (&File, &str, &StateDir),
    ) -> Result<FaultJournal, JournalError> {
        let mut journal = manage::journal_of(held, name, state)?;
        let from = journal.record().entries.len();
        // Undone from the last to the first.
        let ends = plan.heal.iter().chain(&plan.after).rev();
        let of_machines = ends.filter(|(_, action)| matches!(action, PlanAction::Hurt(_)));
        for (node, action) in of_machines {
            journal.intend(&PlanStep::on(
                node,
                why,
                action.clone(),
                Some(action.clone()),
            ))?;
        }
        Ok(FaultJournal { journal, from })
    }

    /// Notes that it is recovered.
    ///
    /// # Errors
    /// When it could not be noted: then it is recovered once more when the stack is taken down.
    pub fn healed(mut self) -> Result<(), JournalError> {
        match self.journal.record().entries.len() > self.from {
            true => self.journal.forget(self.from),
            false => Ok(()),
        }
    }
}

/// Actions that bring a server back whose fault has ended, but which others gave up meanwhile: of
/// the processes that are ended when it is lost, not all are there. Empty where all are, or where
/// no way of bringing it back is known.
///
/// # Errors
/// When a node cannot be asked.
pub fn given_up(
    server: &StackServer,
    made: &StackOutputs,
    hosts: &mut dyn HostResolver,
) -> Result<Vec<(String, PlanAction)>, HostError> {
    let Ok([lose, restore]) = restoring(server, made) else {
        return Ok(Vec::new());
    };
    for (node, action) in lose {
        if let PlanAction::Stop { mark } = action
            && hosts.on(node)?.marked(mark).is_empty()
        {
            return Ok([lose, restore].concat());
        }
    }
    Ok(Vec::new())
}

/// Whether these actions take the mount away from who uses it.
pub fn unmount(actions: &[(String, PlanAction)], made: &StackOutputs) -> bool {
    actions.iter().any(|action| unmounts(action, made))
}

/// Whether the recipe knows what goes on without this server.
pub fn is_survivable(server: &str, made: &StackOutputs) -> bool {
    let is_it = |proof: &StackSelfTest| matches!(proof, StackSelfTest::Survives { node, .. } if node == server);
    made.proofs.iter().any(is_it)
}

/// The recipe's actions to lose this server and to get it back.
fn restoring<'a>(
    server: &'a StackServer,
    made: &'a StackOutputs,
) -> Result<[&'a [(String, PlanAction)]; 2], PreconditionError> {
    let mut known = made.proofs.iter();
    let found = known.find_map(|proof| match proof {
        StackSelfTest::Survives {
            node,
            lose,
            restore,
        } if *node == server.name => Some([lose.as_slice(), restore.as_slice()]),
        _ => None,
    });
    let alone = (!server.restore.is_empty()).then_some([&[], server.restore.as_slice()]);
    found.or(alone).ok_or_else(|| {
        PreconditionError(vec![format!(
            "{} has no standby, and plimsoll does not know how to restart it",
            server.name
        )])
    })
}

/// Asked to end in good order: what came last ends first, for it may need the others to say goodbye.
fn stopped(
    server: &StackServer,
    ground: (&StackOutputs, &StackNodes),
) -> Result<FaultPlan, PreconditionError> {
    let end = |mark: &String| {
        let mark = mark.clone();
        (
            server.node.clone(),
            PlanAction::Hurt(FaultAction::End { mark }),
        )
    };
    let inject = server.marks.iter().rev().map(end).collect();
    Ok(FaultPlan {
        is_felt_at_once: true,
        ..with_restoring(inject, server, ground)?
    })
}

fn with_restoring(
    inject: Vec<(String, PlanAction)>,
    server: &StackServer,
    (made, site): (&StackOutputs, &StackNodes),
) -> Result<FaultPlan, PreconditionError> {
    Ok(FaultPlan {
        inject,
        heal: returning(server, made, site)?,
        takes_processes: true,
        ..FaultPlan::default()
    })
}

/// Actions that bring a server back whose processes are gone. Remains of it elsewhere are taken
/// away before; where the others cut its power for that, nothing is left of it, and it needs power.
fn returning(
    server: &StackServer,
    made: &StackOutputs,
    site: &StackNodes,
) -> Result<Vec<(String, PlanAction)>, PreconditionError> {
    let [lose, restore] = restoring(server, made)?;
    if !made.fences {
        return Ok([lose, restore].concat());
    }
    let power = power_of(server, site).map(|switch| (HERE.to_owned(), powered(switch, true)));
    Ok(power.into_iter().chain(restore.iter().cloned()).collect())
}

/// A fault of servers that cut each other's power may have led to that, of any of them. All are brought
/// back, which does nothing to one that was never gone.
fn with_all_returning(
    fault_plan: FaultPlan,
    made: &StackOutputs,
    site: &StackNodes,
) -> Result<FaultPlan, PreconditionError> {
    let on = |server| power_of(server, site).map(|switch| (HERE.to_owned(), powered(switch, true)));
    let powers: Vec<_> = made.servers.iter().filter_map(on).collect();
    let mut restores = Vec::new();
    for server in &made.servers {
        restores.extend_from_slice(restoring(server, made)?[1]);
    }
    // All are started before any of them is waited for: one may wait until the others are there.
    restores.sort_by_key(|(_, action)| matches!(action, PlanAction::Await(_)));
    let fault_plan = FaultPlan {
        takes_processes: true,
        ..fault_plan
    };
    Ok(match fault_plan.cycle {
        // Without power there is nothing to heal on it.
        None => FaultPlan {
            heal: [powers, fault_plan.heal, restores].concat(),
            // That brings all back already.
            halfway: Vec::new(),
            ..fault_plan
        },
        // It is recovered between the cycles, and after the last one the power is on again.
        Some(_) => FaultPlan {
            after: [powers, fault_plan.heal.clone(), restores].concat(),
            ..fault_plan
        },
    })
}

/// The command that switches a server's power, if there is one.
fn power_of(server: &StackServer, site: &StackNodes) -> Option<Vec<String>> {
    let node = node_of(server, site)?;
    (!node.power.is_empty()).then(|| node.power.clone())
}

fn powered(switch: Vec<String>, on: bool) -> PlanAction {
    PlanAction::Hurt(FaultAction::Power { switch, on })
}

fn node_of<'a>(server: &StackServer, site: &'a StackNodes) -> Option<&'a PlanNode> {
    site.servers.iter().find(|node| node.name == server.node)
}

/// Where a server runs, and what can be done to that place.
struct FaultPlanner<'a> {
    fault: FaultKind,
    server: &'a StackServer,
    node: &'a PlanNode,
    site: &'a StackNodes,
}

impl<'a> FaultPlanner<'a> {
    /// The actions on the machine of the server, or on its namespace.
    fn fault_plan(&self) -> Result<FaultPlan, PreconditionError> {
        let fault_plan = if self.node.faults.is_empty() {
            match self.fault {
                FaultKind::LinkDown | FaultKind::Flap => self.link()?,
                FaultKind::OneWay => self.one_way()?,
                FaultKind::Partition => self.partition()?,
                FaultKind::Delay => self.netem(&format!("delay {DELAY_MS}ms"))?,
                FaultKind::Loss => self.netem(&format!("loss {LOSS_PERCENT}%"))?,
                _ => return Err(self.refused()),
            }
        } else {
            self.told()
        };
        let is_flap = self.fault == FaultKind::Flap;
        Ok(FaultPlan {
            cycle: is_flap.then_some(FLAP),
            ..fault_plan
        })
    }

    /// By the command that was named for the faults of its machine.
    fn told(&self) -> FaultPlan {
        let tell = |word| {
            let (command, fault) = (self.node.faults.clone(), self.fault);
            let action = FaultAction::Fault {
                command,
                fault,
                word,
            };
            vec![(HERE.to_owned(), PlanAction::Hurt(action))]
        };
        FaultPlan {
            trial: tell(FaultCommand::Try),
            inject: tell(FaultCommand::On),
            heal: tell(FaultCommand::Off),
            ..FaultPlan::default()
        }
    }

    /// Why it cannot be done here.
    fn refused(&self) -> PreconditionError {
        let (fault, name) = (self.fault, &self.server.name);
        let needed = match fault {
            FaultKind::ClockStep => "a clock of its own",
            FaultKind::DiskSlow
            | FaultKind::DiskHung
            | FaultKind::DiskErrors
            | FaultKind::DiskFull => "a disk of its own",
            _ => "a link of its own",
        };
        let remedy = match fault {
            FaultKind::ClockStep
            | FaultKind::DiskSlow
            | FaultKind::DiskHung
            | FaultKind::DiskErrors
            | FaultKind::DiskFull => {
                "bring the stack up on virtual machines (plimsoll vm up -o lab.toml, then --on \
                 lab.toml), or name a command for it in the inventory (faults = [...])"
            }
            _ => {
                "bring the stack up in namespaces with --on netns, or on virtual machines (plimsoll \
                 vm up -o lab.toml, then --on lab.toml)"
            }
        };
        PreconditionError(vec![format!(
            "{fault} needs {needed}, which {name} does not have; {remedy}"
        )])
    }

    /// Refuses unless the server has a network namespace.
    fn check_namespace(&self) -> Result<(), PreconditionError> {
        match self.node.reach {
            NodeTransport::Namespace(_) => Ok(()),
            _ => Err(self.refused()),
        }
    }

    fn link(&self) -> Result<FaultPlan, PreconditionError> {
        self.check_namespace()?;
        let name = link_of(self.site, self.node);
        let set = |up| {
            let name = name.clone();
            vec![(HERE.to_owned(), PlanAction::SetLink { name, up })]
        };
        Ok(FaultPlan {
            inject: set(false),
            heal: set(true),
            ..FaultPlan::default()
        })
    }

    /// The other servers' nodes.
    fn others(&self) -> impl Iterator<Item = &'a PlanNode> {
        let own = self.node.address.as_str();
        let servers = self.site.servers.iter();
        servers.filter(move |other| other.address != own)
    }

    fn one_way(&self) -> Result<FaultPlan, PreconditionError> {
        self.check_namespace()?;
        let others = self.others().chain([&self.site.client]);
        Ok(muted(
            &others.map(|other| (self.node, other)).collect::<Vec<_>>(),
        ))
    }

    fn partition(&self) -> Result<FaultPlan, PreconditionError> {
        self.check_namespace()?;
        let both = |other| [(self.node, other), (other, self.node)];
        let pairs: Vec<_> = self.others().flat_map(both).collect();
        if pairs.is_empty() {
            return Err(PreconditionError(vec![format!(
                "{} has no second server, so there is nothing to isolate it from",
                self.server.name
            )]));
        }
        Ok(muted(&pairs))
    }

    fn netem(&self, how: &str) -> Result<FaultPlan, PreconditionError> {
        self.check_namespace()?;
        let set = |how: &str| {
            let words = how.split_whitespace().map(str::to_owned).collect();
            (
                self.node.name.clone(),
                PlanAction::Hurt(FaultAction::Netem(words)),
            )
        };
        Ok(FaultPlan {
            // The kernel is asked by having it done without any effect.
            trial: vec![set("delay 0ms"), set("")],
            inject: vec![set(how)],
            heal: vec![set("")],
            ..FaultPlan::default()
        })
    }
}

/// Throws away what is sent from the first to the second of each pair.
fn muted(pairs: &[(&PlanNode, &PlanNode)]) -> FaultPlan {
    let mute = |on: bool| {
        let one = |(from, to): &(&PlanNode, &PlanNode)| {
            let address = to.address.clone();
            (
                from.name.clone(),
                PlanAction::Hurt(FaultAction::Mute { address, on }),
            )
        };
        pairs.iter().map(one).collect()
    };
    FaultPlan {
        inject: mute(true),
        heal: mute(false),
        ..FaultPlan::default()
    }
}

fn malformed(server: &StackServer, node: &PlanNode) -> FaultPlan {
    let send = |messages| {
        let one = |mark: &String| {
            let action = FaultAction::Malform {
                mark: mark.clone(),
                address: node.address.clone(),
                seed: 0,
                messages,
            };
            (server.node.clone(), PlanAction::Hurt(action))
        };
        server.marks.iter().map(one).collect()
    };
    FaultPlan {
        trial: send(0),
        inject: send(MESSAGES),
        cycle: Some(ROUNDS),
        ..FaultPlan::default()
    }
}

/// The server is lost and brought back as after any loss; in that moment, while it is being given what it
/// missed, the next one is lost.
fn double(
    first: Vec<(String, PlanAction)>,
    server: &StackServer,
    (made, site): (&StackOutputs, &StackNodes),
) -> Result<FaultPlan, PreconditionError> {
    let after = made.servers.iter().cycle();
    let mut after = after.skip_while(|other| other.name != server.name).skip(1);
    let next = after.next().filter(|next| next.name != server.name);
    let next = next.ok_or_else(|| {
        PreconditionError(vec![format!(
            "{} is the only server, so no second one can fail",
            server.name
        )])
    })?;
    let kill = |mark: &String| {
        let mark = mark.clone();
        (next.node.clone(), PlanAction::Kill { mark })
    };
    let (mut inject, next_back) = (returning(server, made, site)?, returning(next, made, site)?);
    let halfway = [&inject[..], &next_back].concat();
    let is_wait = |(_, action): &(String, PlanAction)| matches!(action, PlanAction::Await(_));
    let waits = inject.iter().rev().take_while(|one| is_wait(one)).count();
    let whole = inject.split_off(inject.len() - waits);
    let mut fault_plan = FaultPlan {
        first,
        inject,
        heal: [next_back, whole].concat(),
        halfway,
        takes_processes: true,
        ..FaultPlan::default()
    };
    if unmount(&fault_plan.inject, made) {
        return Err(PreconditionError(vec![format!(
            "restarting {} removes the mount, so nobody can use the stack when the second server \
             is lost; use kill instead",
            server.name
        )]));
    }
    fault_plan.inject.extend(next.marks.iter().map(kill));
    Ok(fault_plan)
}

fn power_cut(
    server: &StackServer,
    made: &StackOutputs,
    site: &StackNodes,
) -> Result<FaultPlan, PreconditionError> {
    let Some(switch) = power_of(server, site) else {
        return Err(PreconditionError(vec![format!(
            "no power command for {}: only a machine whose inventory names one (power = [...]), \
             such as a virtual machine, can be switched off",
            server.name
        )]));
    };
    let [lose, restore] = restoring(server, made)?;
    // Parts of the server on its own machine are gone.
    let elsewhere = lose
        .iter()
        .filter(|(at, _)| *at != server.node && !made.fences);
    let mut heal = vec![(HERE.to_owned(), powered(switch.clone(), true))];
    heal.extend(elsewhere.cloned());
    heal.extend_from_slice(restore);
    Ok(FaultPlan {
        inject: vec![(HERE.to_owned(), powered(switch, false))],
        heal,
        takes_processes: true,
        ..FaultPlan::default()
    })
}

/// Moved, and moved back once all is whole again.
fn fail_back(server: &StackServer, made: &StackOutputs) -> Result<FaultPlan, PreconditionError> {
    let Some(switch) = server.question(ServerQuery::Switch) else {
        return Err(PreconditionError(vec![format!(
            "{} cannot fail over, so it has nothing to fail back",
            server.name
        )]));
    };
    let switch = PlanAction::Run(switch.within_s(SWITCH_LIMIT_S));
    let inject = vec![(server.node.clone(), switch)];
    let [_, restore] = restoring(server, made)?;
    Ok(FaultPlan {
        heal: [restore, &inject].concat(),
        inject,
        is_felt_at_once: true,
        ..FaultPlan::default()
    })
}

/// Mounts from a disk that failed are of no use to the machine afterwards: where its power can be
/// switched, it begins anew with the disk that works again.
fn restarted(
    fault_plan: FaultPlan,
    server: &StackServer,
    (made, site): (&StackOutputs, &StackNodes),
) -> Result<FaultPlan, PreconditionError> {
    let Some(switch) = power_of(server, site) else {
        return Ok(fault_plan);
    };
    let off = [(HERE.to_owned(), powered(switch, false))];
    let anew = power_cut(server, made, site)?.heal;
    Ok(FaultPlan {
        heal: [&fault_plan.heal, &off[..], &anew].concat(),
        takes_processes: true,
        ..fault_plan
    })
}

#[cfg(test)]
mod tests;
