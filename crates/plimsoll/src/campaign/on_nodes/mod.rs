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
use super::{ArmSet, CampaignOptions, WorkloadRequest};
use crate::context;
use crate::failure::{CliError, CliExitCode, doing, failed};
use hand::{NodeSession, NodeSessionState};
use plimsoll_core::event::{ClientLoadNode, ClientLoadNodeResult};
use plimsoll_core::event::{
    RunEvent, RunListener, RunWarning, TrialId, TrialInterval, TrialResult, WorkloadEntry,
};
use plimsoll_core::load::{self, AgentEvent, AgentTask, AgentTrialTask, ClientLoadTarget};
use plimsoll_core::plan::PlanNode;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::Workload;
use plimsoll_engine::sys::clock::monotonic;
use plimsoll_lab::host::agent::MESSAGE_MAX;
use plimsoll_lab::host::{HostPool, HostResolver as _};
use seconds::NodeIntervalMerger;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// From the moment at which all are told the start to the start itself: longer than a word takes
/// to any node that was heard of within that time.
const LEAD: Nanos = Nanos(300_000_000);

/// Room in a message for what stands around a workload.
const AROUND_WORKLOAD: usize = 1 << 20;

/// The machines that load comes from.
#[derive(Debug)]
pub(crate) struct ClientLoadGenerators {
    nodes: Vec<PlanNode>,
    /// Their agents, apart from those that carry out steps: these are busy for whole trials.
    hosts: RefCell<HostPool>,
    facts: Vec<ClientLoadNode>,
}

impl ClientLoadGenerators {
    /// Reaches these nodes and looks at them.
    pub(crate) fn reach(nodes: Vec<PlanNode>) -> Result<Self, CliError> {
        let mut hosts = context::nodes();
        hosts.meet(&nodes);
        let mut facts = Vec::new();
        for node in &nodes {
            let name = &node.name;
            let look = || doing(CliExitCode::Failed, format!("use node {name}"));
            let agents = hosts.agents(std::iter::once(&**name)).map_err(look())?;
            facts.push(ClientLoadNode {
                name: name.clone(),
                machine: agents[0].machine().map_err(look())?,
            });
        }
        Ok(ClientLoadGenerators {
            nodes,
            hosts: RefCell::new(hosts),
            facts,
        })
    }

    pub(crate) fn nodes(&self) -> &[PlanNode] {
        &self.nodes
    }

    /// What is known of them.
    pub(crate) fn facts(&self) -> Vec<ClientLoadNode> {
        self.facts.clone()
    }

    /// Sees whether the places of a system, one for each node, keep what is written to them.
    pub(super) fn prove(
        &self,
        name: &str,
        places: &[ClientLoadTarget],
        seed: Seed,
        stop: &AtomicBool,
    ) -> Result<(), CliError> {
        let task = |node: &PlanNode, place: &ClientLoadTarget| AgentTask::Prove {
            name: format!("{name} from node {}", node.name),
            place: place.clone(),
            // Or what one node wrote could pass for what another did.
            seed: seed_of(seed, node),
        };
        let mut hosts = self.hosts.borrow_mut();
        let mut hands = self.begin(&mut hosts, |n, node| task(node, &places[n]))?;
        attend(&mut hands, stop, |state| {
            matches!(state, NodeSessionState::Working)
        })?;
        for hand in &hands {
            if let NodeSessionState::Told(AgentEvent::Proved(Some(bad))) = &hand.state {
                return Err(CliError::sentence(CliExitCode::BadData, bad).hint(
                    "nothing was measured: results of a system that loses data are meaningless",
                ));
            }
        }
        Ok(())
    }

    /// Lets every node begin its task.
    fn begin<'a>(
        &'a self,
        hosts: &'a mut HostPool,
        task: impl Fn(usize, &PlanNode) -> AgentTask,
    ) -> Result<Vec<NodeSession<'a>>, CliError> {
        let names = self.nodes.iter().map(|node| &*node.name);
        let agents = hosts.agents(names).map_err(failed(CliExitCode::LostNode))?;
        let mut hands = Vec::new();
        for (n, (node, agent)) in self.nodes.iter().zip(agents).enumerate() {
            let mut hand = NodeSession::new(&node.name, agent);
            hand.begin(task(n, node));
            hands.push(hand);
        }
        Ok(hands)
    }
}

/// Every node has randomness of its own, by its name.
fn seed_of(seed: Seed, node: &PlanNode) -> Seed {
    seed.derive(&format!("node {}", node.name), 0)
}

/// Refuses what nodes cannot do.
pub(super) fn check_asked(asked: &[WorkloadRequest]) -> Result<(), CliError> {
    for one in asked {
        let name = one.workload.name();
        if matches!(one.workload, Workload::Commands(_)) {
            return Err(CliError::usage(format!(
                "run {name} from nodes: programs run on this machine only; leave out --clients"
            )));
        }
        if one.scale.is_none() {
            return Err(CliError::usage(format!(
                "run {name}@auto from nodes: auto finds a factor for one machine; give the factor of \
                 one node, such as {name}@10"
            )));
        }
        let message = serde_json::to_vec(&one.workload).map_or(usize::MAX, |text| text.len());
        if message > MESSAGE_MAX - AROUND_WORKLOAD {
            return Err(CliError::usage(format!(
                "run {name} from nodes: its model needs a message of {}, and the limit is {}; fit a \
                 shorter recording",
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
    arms: &ArmSet,
    entry: &WorkloadEntry,
    settings: &CampaignOptions,
    stop: &AtomicBool,
    listener: &mut dyn RunListener,
) -> Result<TrialResult, CliError> {
    let load = arms.load().expect("the load comes from nodes");
    let places = arms.target(&trial.arm).places();
    let task = |n: usize, node: &PlanNode| play_task(trial, entry, settings, node, &places[n]);
    let mut hosts = load.hosts.borrow_mut();
    let prepared = load.begin(&mut hosts, task).and_then(|mut hands| {
        attend(&mut hands, stop, |state| {
            matches!(state, NodeSessionState::Working)
        })?;
        measure_clocks(&mut hands)?;
        Ok(hands)
    });
    let mut hands = prepared.inspect_err(|failure| {
        if failure.code == CliExitCode::LostNode {
            listener.event(&RunEvent::Warning(RunWarning {
                about: format!("{} on {}", trial.workload, trial.arm),
                text: format!("{}; the run ends here", failure.text()),
            }));
        }
    })?;
    let took = hands
        .iter()
        .map(NodeSession::prepared)
        .max()
        .unwrap_or_default();
    listener.event(&RunEvent::Prepared {
        trial: trial.clone(),
        took,
    });
    let mut on_interval = |interval: TrialInterval| {
        listener.event(&RunEvent::Interval {
            place: trial.place,
            interval,
        });
    };
    let (start_at, servers) = watched(arms.subjects(&trial.arm), || {
        measure(&mut hands, stop, &mut on_interval)
    });
    let parts: Result<Vec<_>, CliError> = hands
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
    entry: &WorkloadEntry,
    settings: &CampaignOptions,
    node: &PlanNode,
    place: &ClientLoadTarget,
) -> AgentTask {
    let (engine, verify_data) = told_words(settings.engine, settings.data_check);
    AgentTask::Play(Box::new(AgentTrialTask {
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
    hands: &mut [NodeSession<'_>],
    stop: &AtomicBool,
    is_awaited: impl Fn(&NodeSessionState) -> bool,
) -> Result<(), CliError> {
    while hands.iter().any(|hand| is_awaited(&hand.state)) {
        for hand in hands.iter_mut().filter(|hand| is_awaited(&hand.state)) {
            let _ = hand.listen();
        }
        let failure = hands.iter().find_map(NodeSession::failure);
        let failure = failure.or_else(|| stop.load(Ordering::Relaxed).then(stopped));
        if let Some(failure) = failure {
            hand::dismiss(hands);
            return Err(failure);
        }
    }
    Ok(())
}

/// Just before the start: clocks drift apart by some ten microseconds in a second.
fn measure_clocks(hands: &mut [NodeSession<'_>]) -> Result<(), CliError> {
    for hand in hands.iter_mut() {
        hand.measure_clock();
    }
    let failure = hands.iter().find_map(NodeSession::failure);
    if let Some(failure) = failure {
        hand::dismiss(hands);
        return Err(failure);
    }
    Ok(())
}

/// The measured part: gives the instant of its start on this machine's clock.
fn measure(
    hands: &mut [NodeSession<'_>],
    stop: &AtomicBool,
    on_interval: &mut dyn FnMut(TrialInterval),
) -> Nanos {
    let start_at = monotonic() + LEAD;
    for hand in hands.iter_mut() {
        hand.start(start_at);
    }
    let mut seconds = NodeIntervalMerger::new(hands.len(), on_interval);
    let mut is_stopped = false;
    while hands.iter().any(NodeSession::is_playing) {
        let is_over = stop.load(Ordering::Relaxed) || hands.iter().any(NodeSession::has_failed);
        if is_over && !is_stopped {
            is_stopped = true;
            hands.iter_mut().for_each(NodeSession::halt);
        }
        for (n, hand) in hands.iter_mut().enumerate() {
            match hand.is_playing().then(|| hand.listen()) {
                Some(Some(AgentEvent::Second(interval))) => seconds.add(n, &interval),
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
type Account = (ClientLoadNodeResult, Option<TrialResult>);
