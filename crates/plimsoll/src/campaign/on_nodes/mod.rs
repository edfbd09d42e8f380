// SPDX-License-Identifier: Apache-2.0
//! Load from other machines: all prepare, all start at one instant, and what they tell becomes one
//! result.
//!
//! One thread listens to all nodes in turn: what they tell waits in their pipes meanwhile. A node
//! that is lost in the measured part is kept out of what follows; the others play to the end.

mod hand;
mod recording;
mod seconds;

use super::arms::stopped;
use super::player::told_words;
use super::trial::{is_lag_ours, tell, warmup, watched};
use super::{Arms, Asked, Settings};
use crate::context;
use crate::failure::{Code, Failure, doing, failed};
use hand::{Hand, State};
use plimsoll_core::event::{Entry, Interval, Listener, RunEvent, TrialId, TrialResult, Warning};
use plimsoll_core::event::{LoadNode, NodeResult};
use plimsoll_core::load::{self, LoadPlace, PlayTask, Task, Told};
use plimsoll_core::plan::Node;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_engine::sys::clock::monotonic;
use plimsoll_lab::host::agent::MESSAGE_MAX;
use plimsoll_lab::host::{Hosts as _, Nodes};
use seconds::Seconds;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// From the moment at which all are told the start to the start itself: longer than a word takes
/// to any node that was heard of within that time.
const LEAD: Nanos = Nanos(300_000_000);

/// Room in a message for what stands around a workload.
const AROUND_WORKLOAD: usize = 1 << 20;

/// The machines that load comes from.
#[derive(Debug)]
pub(crate) struct Loaders {
    nodes: Vec<Node>,
    /// Their agents, apart from those that carry out steps: these are busy for whole trials.
    hosts: RefCell<Nodes>,
    facts: Vec<LoadNode>,
}

impl Loaders {
    /// Reaches these nodes and looks at them.
    pub(crate) fn reach(nodes: Vec<Node>) -> Result<Self, Failure> {
        let mut hosts = context::nodes();
        hosts.meet(&nodes);
        let mut facts = Vec::new();
        for node in &nodes {
            let name = &node.name;
            let look = || doing(Code::Failed, format!("use node {name}"));
            let agents = hosts.agents(std::iter::once(&**name)).map_err(look())?;
            facts.push(LoadNode {
                name: name.clone(),
                machine: agents[0].machine().map_err(look())?,
            });
        }
        Ok(Loaders {
            nodes,
            hosts: RefCell::new(hosts),
            facts,
        })
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// What is known of them.
    pub(crate) fn facts(&self) -> Vec<LoadNode> {
        self.facts.clone()
    }

    /// Sees whether the places of a system, one for each node, keep what is written to them.
    pub(super) fn prove(
        &self,
        name: &str,
        places: &[LoadPlace],
        seed: Seed,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let task = |node: &Node, place: &LoadPlace| Task::Prove {
            name: format!("{name} from node {}", node.name),
            place: place.clone(),
            // Or what one node wrote could pass for what another did.
            seed: seed_of(seed, node),
        };
        let mut hosts = self.hosts.borrow_mut();
        let mut hands = self.begin(&mut hosts, |n, node| task(node, &places[n]))?;
        attend(&mut hands, stop, |state| matches!(state, State::Working))?;
        for hand in &hands {
            if let State::Told(Told::Proved(Some(bad))) = &hand.state {
                return Err(Failure::new(Code::BadData, bad).hint(
                    "nothing was measured: figures of a system that loses data mean nothing",
                ));
            }
        }
        Ok(())
    }

    /// Lets every node begin its task.
    fn begin<'a>(
        &'a self,
        hosts: &'a mut Nodes,
        task: impl Fn(usize, &Node) -> Task,
    ) -> Result<Vec<Hand<'a>>, Failure> {
        let names = self.nodes.iter().map(|node| &*node.name);
        let agents = hosts.agents(names).map_err(failed(Code::LostNode))?;
        let mut hands = Vec::new();
        for (n, (node, agent)) in self.nodes.iter().zip(agents).enumerate() {
            let mut hand = Hand::new(&node.name, agent);
            hand.begin(task(n, node));
            hands.push(hand);
        }
        Ok(hands)
    }
}

/// Every node has randomness of its own, by its name.
fn seed_of(seed: Seed, node: &Node) -> Seed {
    seed.derive(&format!("node {}", node.name), 0)
}

/// Refuses what nodes cannot do.
pub(super) fn check_asked(asked: &[Asked]) -> Result<(), Failure> {
    for one in asked {
        let name = one.workload.name();
        if matches!(one.workload, Workload::Commands(_)) {
            return Err(Failure::usage(format!(
                "run {name} from nodes: programs are run on this machine only; leave out --from"
            )));
        }
        if one.scale.is_none() {
            return Err(Failure::usage(format!(
                "run {name}@auto from nodes: a factor is found for one machine; give the factor of \
                 one node, such as {name}@10"
            )));
        }
        let message = serde_json::to_vec(&one.workload).map_or(usize::MAX, |text| text.len());
        if message > MESSAGE_MAX - AROUND_WORKLOAD {
            return Err(Failure::usage(format!(
                "run {name} from nodes: its model has {} as a message, and {} are the most that is \
                 sent; fit a shorter recording",
                units::size(message as f64),
                units::size(MESSAGE_MAX as f64)
            )));
        }
    }
    Ok(())
}

/// Runs one trial on all nodes and tells the listener everything.
pub(super) fn run_trial(
    trial: &TrialId,
    arms: &Arms,
    entry: &Entry,
    settings: &Settings,
    stop: &AtomicBool,
    listener: &mut dyn Listener,
) -> Result<TrialResult, Failure> {
    let load = arms.load().expect("the load comes from nodes");
    let places = arms.target(&trial.arm).places();
    let task = |n: usize, node: &Node| play_task(trial, entry, settings, node, &places[n]);
    let mut hosts = load.hosts.borrow_mut();
    let prepared = load.begin(&mut hosts, task).and_then(|mut hands| {
        attend(&mut hands, stop, |state| matches!(state, State::Working))?;
        measure_clocks(&mut hands)?;
        Ok(hands)
    });
    let mut hands = prepared.inspect_err(|failure| {
        if failure.code == Code::LostNode {
            listener.event(&RunEvent::Warning(Warning {
                about: format!("{} on {}", trial.workload, trial.arm),
                text: format!("could not {}; the run ends here", failure.message),
            }));
        }
    })?;
    let took = hands.iter().map(Hand::prepared).max().unwrap_or_default();
    listener.event(&RunEvent::Prepared {
        trial: trial.clone(),
        took,
    });
    let mut on_interval = |interval: Interval| {
        listener.event(&RunEvent::Interval {
            place: trial.place,
            interval,
        });
    };
    let (start_at, servers) = watched(arms.subjects(&trial.arm), || {
        measure(&mut hands, stop, &mut on_interval)
    });
    let parts: Result<Vec<_>, Failure> = hands
        .into_iter()
        .map(|hand| hand.account(start_at))
        .collect();
    let result = TrialResult {
        servers,
        ..load::pool(trial, parts?)
    };
    tell(&result, is_lag_ours(&entry.workload), listener);
    Ok(result)
}

fn play_task(
    trial: &TrialId,
    entry: &Entry,
    settings: &Settings,
    node: &Node,
    place: &LoadPlace,
) -> Task {
    let (engine, verify_data) = told_words(settings.engine, settings.data_check);
    Task::Play(Box::new(PlayTask {
        trial: trial.clone(),
        entry: entry.clone(),
        place: place.clone(),
        seed: seed_of(settings.seed, node),
        stamp_seed: seed_of(settings.stamp_seed, node),
        warmup: warmup(&entry.workload, settings),
        whole: settings.whole,
        engine,
        verify_data,
    }))
}

/// Listens until no node is in this state; when one cannot go on, or the user stops it, all are
/// stopped.
fn attend(
    hands: &mut [Hand<'_>],
    stop: &AtomicBool,
    is_awaited: impl Fn(&State) -> bool,
) -> Result<(), Failure> {
    while hands.iter().any(|hand| is_awaited(&hand.state)) {
        for hand in hands.iter_mut().filter(|hand| is_awaited(&hand.state)) {
            let _ = hand.listen();
        }
        let failure = hands.iter().find_map(Hand::failure);
        let failure = failure.or_else(|| stop.load(Ordering::Relaxed).then(stopped));
        if let Some(failure) = failure {
            hand::dismiss(hands);
            return Err(failure);
        }
    }
    Ok(())
}

/// Just before the start: clocks drift apart by some ten microseconds in a second.
fn measure_clocks(hands: &mut [Hand<'_>]) -> Result<(), Failure> {
    for hand in hands.iter_mut() {
        hand.measure_clock();
    }
    let failure = hands.iter().find_map(Hand::failure);
    if let Some(failure) = failure {
        hand::dismiss(hands);
        return Err(failure);
    }
    Ok(())
}

/// The measured part: gives the instant of its start on this machine's clock.
fn measure(
    hands: &mut [Hand<'_>],
    stop: &AtomicBool,
    on_interval: &mut dyn FnMut(Interval),
) -> Nanos {
    let start_at = monotonic() + LEAD;
    for hand in hands.iter_mut() {
        hand.start(start_at);
    }
    let mut seconds = Seconds::new(hands.len(), on_interval);
    let mut is_stopped = false;
    while hands.iter().any(Hand::is_playing) {
        let is_over = stop.load(Ordering::Relaxed) || hands.iter().any(Hand::has_failed);
        if is_over && !is_stopped {
            is_stopped = true;
            hands.iter_mut().for_each(Hand::halt);
        }
        for (n, hand) in hands.iter_mut().enumerate() {
            match hand.is_playing().then(|| hand.listen()) {
                Some(Some(Told::Second(interval))) => seconds.add(n, &interval),
                Some(_) => {}
                // Nobody waits for one that was lost or is done.
                None => seconds.end(n),
            }
        }
    }
    seconds.finish();
    start_at
}

/// The account of a node and its own result.
type Account = (NodeResult, Option<TrialResult>);
