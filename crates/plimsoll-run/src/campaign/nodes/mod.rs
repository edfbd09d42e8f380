// SPDX-License-Identifier: Apache-2.0
//! The nodes that load comes from: all prepare, all start at one instant, and their reports become one
//! result. Without others, this machine is the only one; it is asked in the same way.
//!
//! One thread listens to all nodes in turn: their reports wait in their pipes meanwhile. A node
//! that is lost in the measured part is kept out of what follows; the others play to the end.

mod intervals;
mod recording;
mod session;

use super::WorkloadRequest;
use intervals::NodeIntervalMerger;
use plimsoll_agent::EnginePlayer;
use plimsoll_agent::context;
use plimsoll_agent::failure::stopped;
use plimsoll_agent::failure::{CliError, CliExitCode, doing, failed};
use plimsoll_core::event::{
    ClientLoadNode, ClientLoadNodeResult, TrialId, TrialInterval, TrialResult,
};
use plimsoll_core::load::{self, AgentEvent, AgentTask, AgentTrialTask};
use plimsoll_core::plan::{HERE, PlanNode};
use plimsoll_core::rng::Seed;
use plimsoll_core::target::NodeTarget;
use plimsoll_core::units::{self, Nanos};
use plimsoll_core::workload::commands::CommandOutputFormat;
use plimsoll_core::workload::{CommandWorkload, Workload};
use plimsoll_engine::sys::clock::monotonic;
use plimsoll_machine::agent_server::{AgentTaskRunner, AgentTaskThread};
use plimsoll_machine::host::agent::MESSAGE_MAX;
use plimsoll_machine::host::{HostPool, HostResolver as _};
use session::{NodeLink, NodeSession, NodeSessionState};
use std::cell::{RefCell, RefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// From the moment at which all get the start to the start itself: longer than a word takes
/// to any node that was heard of within that time.
const LEAD: Nanos = Nanos(300_000_000);

/// Room in a message for what stands around a workload.
const AROUND_WORKLOAD: usize = 1 << 20;

/// The machines that load comes from.
#[derive(Debug)]
pub struct ClientLoadGenerators {
    /// Other machines; this one where there are none.
    nodes: Vec<PlanNode>,
    /// Their agents, apart from those that carry out steps: these are busy for whole trials.
    hosts: RefCell<HostPool>,
    facts: Vec<ClientLoadNode>,
}

impl ClientLoadGenerators {
    /// This machine.
    pub fn here() -> Self {
        ClientLoadGenerators {
            nodes: Vec::new(),
            hosts: RefCell::new(context::nodes()),
            facts: Vec::new(),
        }
    }

    /// Reaches these nodes and looks at them.
    pub fn reach(nodes: Vec<PlanNode>) -> Result<Self, CliError> {
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

    /// Machines other than this one.
    pub fn nodes(&self) -> &[PlanNode] {
        &self.nodes
    }

    /// Whether it is this machine alone.
    pub fn is_here(&self) -> bool {
        self.nodes.is_empty()
    }

    /// What is known of other machines.
    pub fn facts(&self) -> Vec<ClientLoadNode> {
        self.facts.clone()
    }

    /// The way to them, for as long as something is asked of them.
    pub(super) fn hosts(&self) -> RefMut<'_, HostPool> {
        self.hosts.borrow_mut()
    }

    /// Every other node has randomness of its own, by its name: or what one wrote could pass for what
    /// another did.
    fn seed_of(&self, seed: Seed, n: usize) -> Seed {
        match self.nodes.get(n) {
            None => seed,
            Some(node) => seed.derive(&format!("node {}", node.name), 0),
        }
    }

    /// Sees whether a system, where each node works on it, keeps what is written to it.
    pub(super) fn prove(
        &self,
        name: &str,
        targets: &[NodeTarget],
        seed: Seed,
        stop: &AtomicBool,
    ) -> Result<(), CliError> {
        let task = |n: usize| AgentTask::Prove {
            name: match self.nodes.get(n) {
                None => name.to_owned(),
                Some(node) => format!("{name} from node {}", node.name),
            },
            target: targets[n].clone(),
            seed: self.seed_of(seed, n),
        };
        let mut hosts = self.hosts();
        let mut sessions = self.begin(&mut hosts, task)?;
        attend(&mut sessions, stop, |state| {
            matches!(state, NodeSessionState::Working)
        })?;
        for session in &sessions {
            if let NodeSessionState::Told(AgentEvent::Proved(Some(bad))) = &session.state {
                return Err(bad.clone().into());
            }
        }
        Ok(())
    }

    /// Lets every node lay out what it needs for its part of a trial.
    pub(super) fn prepare<'a>(
        &'a self,
        hosts: &'a mut HostPool,
        task: impl Fn(usize) -> AgentTrialTask,
        stop: &AtomicBool,
    ) -> Result<TrialSessions<'a>, CliError> {
        let play = |n: usize| {
            let task = task(n);
            AgentTask::Play(Box::new(AgentTrialTask {
                seed: self.seed_of(task.seed, n),
                stamp_seed: self.seed_of(task.stamp_seed, n),
                ..task
            }))
        };
        let mut nodes = self.begin(hosts, play)?;
        attend(&mut nodes, stop, |state| {
            matches!(state, NodeSessionState::Working)
        })?;
        measure_clocks(&mut nodes)?;
        Ok(TrialSessions {
            nodes,
            is_here: self.is_here(),
        })
    }

    /// Lets every node begin its task.
    fn begin<'a>(
        &'a self,
        hosts: &'a mut HostPool,
        task: impl Fn(usize) -> AgentTask,
    ) -> Result<Vec<NodeSession<'a>>, CliError> {
        if self.is_here() {
            let runner: Arc<dyn AgentTaskRunner> = Arc::new(EnginePlayer::default());
            let thread = AgentTaskThread::begin(runner, task(0));
            return Ok(vec![NodeSession::new(HERE, NodeLink::Here(thread))]);
        }
        let names = self.nodes.iter().map(|node| &*node.name);
        let agents = hosts.agents(names).map_err(failed(CliExitCode::LostNode))?;
        let mut sessions = Vec::new();
        for (n, (node, agent)) in self.nodes.iter().zip(agents).enumerate() {
            let mut session = NodeSession::new(&node.name, NodeLink::Agent(agent));
            session.begin(agent, task(n));
            sessions.push(session);
        }
        Ok(sessions)
    }
}

/// Refuses what nodes cannot do.
pub(super) fn check_asked(asked: &[WorkloadRequest]) -> Result<(), CliError> {
    for one in asked {
        let name = one.workload.name();
        if let Workload::Commands(commands) = &one.workload {
            check_programs(name, commands)?;
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

/// Refuses programs that need something that only this machine has.
fn check_programs(name: &str, commands: &CommandWorkload) -> Result<(), CliError> {
    let steps = [&commands.prepare, &commands.phases, &commands.finish];
    let mut steps = steps.into_iter().flatten();
    let refused = |why: &str| Err(CliError::usage(format!("run {name} from nodes: {why}")));
    if (commands.phases.iter()).any(|phase| phase.output == CommandOutputFormat::Boots) {
        return refused("the image that it boots is on this machine; leave out --clients");
    }
    if steps.any(|step| step.argv.iter().any(|word| word.contains("{here}"))) {
        return refused(
            "it names a file relative to this machine's working directory; give the absolute path of \
             a file that is on every node",
        );
    }
    Ok(())
}

/// All nodes of a trial.
pub(super) struct TrialSessions<'a> {
    nodes: Vec<NodeSession<'a>>,
    is_here: bool,
}

impl TrialSessions<'_> {
    /// How long the slowest took to lay out what it needs.
    pub(super) fn prepared(&self) -> Nanos {
        let took = self.nodes.iter().map(NodeSession::prepared);
        took.max().unwrap_or_default()
    }

    /// The measured part: gives the instant of its start on this machine's clock.
    pub(super) fn play(
        &mut self,
        is_over: &dyn Fn() -> bool,
        on_interval: &mut dyn FnMut(TrialInterval),
    ) -> Nanos {
        let lead = if self.is_here { Nanos(0) } else { LEAD };
        let start_at = monotonic() + lead;
        let nodes = &mut self.nodes;
        for node in nodes.iter_mut() {
            node.start(start_at);
        }
        let mut seconds = NodeIntervalMerger::new(nodes.len(), on_interval);
        let mut is_stopped = false;
        while nodes.iter().any(NodeSession::is_playing) {
            let is_over = is_over() || nodes.iter().any(NodeSession::has_failed);
            if is_over && !is_stopped {
                is_stopped = true;
                nodes.iter_mut().for_each(NodeSession::halt);
            }
            for (n, node) in nodes.iter_mut().enumerate() {
                match node.is_playing().then(|| node.listen()) {
                    Some(Some(AgentEvent::Second(interval))) => seconds.add(n, &interval),
                    Some(_) => {}
                    // Nobody waits for one that was lost or is done.
                    None => seconds.end(n),
                }
            }
            let is_at_work =
                |node: &NodeSession<'_>| node.is_playing() && !node.is_between_phases();
            if !nodes.iter().any(is_at_work) {
                let at = monotonic() + lead;
                let waiting = nodes.iter_mut().filter(|node| node.is_between_phases());
                waiting.for_each(|node| node.start(at));
            }
        }
        seconds.finish();
        start_at
    }

    /// What all gave together, of a trial that started at this instant, and what they remarked.
    pub(super) fn result(
        self,
        trial: &TrialId,
        start_at: Nanos,
    ) -> Result<(TrialResult, Vec<String>), CliError> {
        let mut notes = Vec::new();
        let mut accounts = Vec::new();
        for mut node in self.nodes {
            notes.append(&mut node.notes);
            accounts.push(node.account(start_at)?);
        }
        // This machine is not reported as one of several.
        let own = (accounts.pop_if(|_| self.is_here)).and_then(|(_, own)| own);
        let result = own.unwrap_or_else(|| load::pool(trial, accounts));
        Ok((result, notes))
    }
}

/// Listens until no node is in this state; when one cannot go on, or the user stops it, all are
/// stopped.
fn attend(
    sessions: &mut [NodeSession<'_>],
    stop: &AtomicBool,
    is_awaited: impl Fn(&NodeSessionState) -> bool,
) -> Result<(), CliError> {
    while sessions.iter().any(|one| is_awaited(&one.state)) {
        for session in sessions.iter_mut().filter(|one| is_awaited(&one.state)) {
            let _ = session.listen();
        }
        let failure = sessions.iter().find_map(NodeSession::failure);
        let failure = failure.or_else(|| stop.load(Ordering::Relaxed).then(stopped));
        if let Some(failure) = failure {
            session::dismiss(sessions);
            return Err(failure);
        }
    }
    Ok(())
}

/// Just before the start: clocks drift apart by some ten microseconds in a second.
fn measure_clocks(sessions: &mut [NodeSession<'_>]) -> Result<(), CliError> {
    for session in sessions.iter_mut() {
        session.measure_clock();
    }
    let failure = sessions.iter().find_map(NodeSession::failure);
    if let Some(failure) = failure {
        session::dismiss(sessions);
        return Err(failure);
    }
    Ok(())
}

/// The account of a node and its own result.
type NodeAccount = (ClientLoadNodeResult, Option<TrialResult>);
