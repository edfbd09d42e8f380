// SPDX-License-Identifier: Apache-2.0
//! The nodes that load comes from: all prepare, all start at one instant, and their reports become one
//! result. Without others, this machine is the only one; it is asked in the same way.
//!
//! One thread listens to all nodes and reads only from those with a report: the others cost nothing. A lost
//! node takes no further part; the others play to the end. A small share of the nodes may be lost: the trial
//! then measures the load of the others, and its result says so.

mod intervals;
mod recording;
mod session;

use crate::request::WorkloadRequest;
use intervals::NodeIntervalMerger;
use plimsoll_agent::EnginePlayer;
use plimsoll_console::context;
use plimsoll_console::failure::stopped;
use plimsoll_console::failure::{CliError, CliExitCode, doing, failed};
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
use plimsoll_fleet::FleetHosts;
use plimsoll_machine::agent_server::{AgentTaskRunner, AgentTaskThread};
use plimsoll_machine::host::agent::MESSAGE_MAX;
use plimsoll_machine::host::{HostPool, HostResolver as _};
use session::{NodeLink, NodeSession, NodeSessionState, await_any};
use std::cell::{RefCell, RefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// From the moment at which all get the start to the start itself: longer than a word takes
/// to any node that was heard of within that time.
const LEAD: Nanos = Nanos(300_000_000);

/// Additional lead for each node, so that the last one also gets the start in time.
const LEAD_EACH: Nanos = Nanos(2_000_000);

fn lead(nodes: usize) -> Nanos {
    Nanos(LEAD.0 + LEAD_EACH.0 * nodes as u64)
}

/// Room in a message for what stands around a workload.
const AROUND_WORKLOAD: usize = 1 << 20;

/// More names than this are one range.
const NAMES_SHOWN: usize = 8;

/// The machines that load comes from.
#[derive(Debug)]
pub struct ClientLoadGenerators {
    /// Other machines; this one where there are none.
    nodes: Vec<PlanNode>,
    /// Their agents, apart from those that carry out steps: these are busy for whole trials.
    hosts: RefCell<HostPool>,
    facts: Vec<ClientLoadNode>,
    /// Those that a scheduler provides: they go when this does.
    fleet: Option<FleetHosts>,
    /// Which share of the nodes may be lost.
    lost_share: f64,
}

impl ClientLoadGenerators {
    /// This machine.
    pub fn here() -> Self {
        ClientLoadGenerators {
            nodes: Vec::new(),
            hosts: RefCell::new(context::nodes()),
            facts: Vec::new(),
            fleet: None,
            lost_share: load::LOST_SHARE,
        }
    }

    /// Reaches these nodes and looks at them.
    pub fn reach(nodes: Vec<PlanNode>) -> Result<Self, CliError> {
        let mut hosts = context::nodes();
        hosts.meet(&nodes);
        ClientLoadGenerators::looked_at(nodes, hosts, None)
    }

    /// The hosts of a fleet.
    pub fn of_fleet(fleet: FleetHosts) -> Result<Self, CliError> {
        let nodes: Vec<PlanNode> = fleet
            .members()
            .iter()
            .map(|(node, _)| node.clone())
            .collect();
        let mut hosts = context::nodes();
        hosts.meet(&nodes);
        for (node, agent) in fleet.members() {
            hosts.join(&node.name, agent);
        }
        ClientLoadGenerators::looked_at(nodes, hosts, Some(fleet))
    }

    fn looked_at(
        nodes: Vec<PlanNode>,
        mut hosts: HostPool,
        fleet: Option<FleetHosts>,
    ) -> Result<Self, CliError> {
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
            fleet,
            lost_share: load::LOST_SHARE,
        })
    }

    /// Tells others how they are reached.
    pub(super) fn introduce(&self, hosts: &mut HostPool) {
        hosts.meet(&self.nodes);
        for (node, agent) in self.fleet.iter().flat_map(FleetHosts::members) {
            hosts.join(&node.name, agent);
        }
    }

    /// Machines other than this one.
    pub fn nodes(&self) -> &[PlanNode] {
        &self.nodes
    }

    /// Their names, `n1, n2`; `None` when the load comes from this machine.
    pub(super) fn node_names(&self) -> Option<String> {
        let names: Vec<&str> = self.nodes.iter().map(|node| &*node.name).collect();
        match names[..] {
            [] => None,
            [first, .., last] if names.len() > NAMES_SHOWN => {
                Some(format!("{} hosts, {first} to {last}", names.len()))
            }
            _ => Some(names.join(", ")),
        }
    }

    /// The same where this share of the nodes may be lost.
    #[must_use]
    pub fn losing(mut self, share: f64) -> Self {
        self.lost_share = share;
        self
    }

    /// How many of them may be lost before what the others give is no answer.
    fn lost_max(&self) -> usize {
        load::lost_max(self.nodes.len(), self.lost_share)
    }

    /// Whether it is this machine alone.
    pub fn is_here(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Facts about the other machines.
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
        attend((&mut sessions, self.lost_max()), stop, |state| {
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
        hosts: &mut HostPool,
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
        attend((&mut nodes, self.lost_max()), stop, |state| {
            matches!(state, NodeSessionState::Working)
        })?;
        measure_clocks(&mut nodes, self.lost_max())?;
        Ok(TrialSessions {
            nodes,
            is_here: self.is_here(),
            lost_max: self.lost_max(),
        })
    }

    /// Lets every node begin its task.
    fn begin<'a>(
        &'a self,
        hosts: &mut HostPool,
        task: impl Fn(usize) -> AgentTask,
    ) -> Result<Vec<NodeSession<'a>>, CliError> {
        if self.is_here() {
            let runner: Arc<dyn AgentTaskRunner> = Arc::new(EnginePlayer::default());
            let thread = AgentTaskThread::begin(runner, task(0));
            return Ok(vec![NodeSession::new(HERE, NodeLink::Here(thread))]);
        }
        let mut sessions = Vec::new();
        let mut lost = Vec::new();
        for (n, node) in self.nodes.iter().enumerate() {
            match hosts.agents(std::iter::once(&*node.name)) {
                Ok(agents) => {
                    let link = NodeLink::Agent(agents[0].clone());
                    let mut session = NodeSession::new(&node.name, link);
                    session.begin(task(n));
                    sessions.push(session);
                }
                Err(error) => {
                    sessions.push(NodeSession::lost(&node.name, error.to_string()));
                    lost.push(error);
                }
            }
        }
        if lost.len() > self.lost_max() {
            session::dismiss(&mut sessions);
            return Err(failed(CliExitCode::LostNode)(lost.remove(0)));
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
    /// How many of them may be lost.
    lost_max: usize,
}

impl TrialSessions<'_> {
    /// How long the slowest took to lay out what it needs.
    pub(super) fn prepared(&self) -> Nanos {
        let took = self.nodes.iter().map(NodeSession::prepared);
        took.max().unwrap_or_default()
    }

    /// The measured part: gives the instant of its start on this machine's clock. A phase begins when all
    /// that it needs is laid out.
    pub(super) fn play(
        &mut self,
        is_over: &dyn Fn() -> bool,
        on_interval: &mut dyn FnMut(TrialInterval),
        on_phase: &mut dyn FnMut(),
    ) -> Nanos {
        let lead = if self.is_here {
            Nanos(0)
        } else {
            lead(self.nodes.len())
        };
        let start_at = monotonic() + lead;
        let nodes = &mut self.nodes;
        for node in nodes.iter_mut() {
            node.start(start_at);
        }
        let mut seconds = NodeIntervalMerger::new(nodes.len(), on_interval);
        let mut is_stopped = false;
        for (n, node) in nodes.iter().enumerate() {
            if !node.is_playing() {
                seconds.end(n);
            }
        }
        while nodes.iter().any(NodeSession::is_playing) {
            let is_over = is_over() || nodes.iter().any(NodeSession::has_failed);
            if is_over && !is_stopped {
                is_stopped = true;
                nodes.iter_mut().for_each(NodeSession::halt);
            }
            let ready = await_any(nodes, NodeSession::is_playing);
            for (n, node) in nodes.iter_mut().enumerate().filter(|(n, _)| ready[*n]) {
                if let Some(AgentEvent::Second(interval)) = node.listen() {
                    seconds.add(n, &interval);
                }
                // Intervals do not wait for a node that was lost or is done.
                if !node.is_playing() {
                    seconds.end(n);
                }
            }
            let is_at_work =
                |node: &NodeSession<'_>| node.is_playing() && !node.is_between_phases();
            if !nodes.iter().any(is_at_work) {
                let waiting = nodes.iter_mut().filter(|node| node.is_between_phases());
                let mut waiting = waiting.peekable();
                if waiting.peek().is_some() {
                    on_phase();
                }
                let at = monotonic() + lead;
                waiting.for_each(|node| node.start(at));
            }
        }
        seconds.finish();
        start_at
    }

    /// Combined result of all nodes, of a trial that started at this instant, and their remarks.
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
        let result = own.unwrap_or_else(|| load::pool(trial, accounts, self.lost_max));
        Ok((result, notes))
    }
}

/// Listens until no node is in this state; when one cannot go on, more are lost than may be, or the user
/// stops it, all are stopped.
fn attend(
    (sessions, lost_max): (&mut [NodeSession<'_>], usize),
    stop: &AtomicBool,
    is_awaited: impl Fn(&NodeSessionState) -> bool,
) -> Result<(), CliError> {
    while sessions.iter().any(|one| is_awaited(&one.state)) {
        let ready = await_any(sessions, |one| is_awaited(&one.state));
        for (session, is_ready) in sessions.iter_mut().zip(ready) {
            if is_ready {
                let _ = session.listen();
            }
        }
        let failure = failure_of(sessions, lost_max);
        let failure = failure.or_else(|| stop.load(Ordering::Relaxed).then(stopped));
        if let Some(failure) = failure {
            session::dismiss(sessions);
            return Err(failure);
        }
    }
    Ok(())
}

/// Why nothing can come of it, if that is so.
fn failure_of(sessions: &[NodeSession<'_>], lost_max: usize) -> Option<CliError> {
    let lost = sessions.iter().filter(|one| one.is_lost()).count();
    let mut counted = sessions
        .iter()
        .filter(|one| lost > lost_max || !one.is_lost());
    counted.find_map(NodeSession::failure)
}

/// Just before the start: clocks drift apart by some ten microseconds in a second.
fn measure_clocks(sessions: &mut [NodeSession<'_>], lost_max: usize) -> Result<(), CliError> {
    for session in sessions.iter_mut() {
        session.measure_clock();
    }
    if let Some(failure) = failure_of(sessions, lost_max) {
        session::dismiss(sessions);
        return Err(failure);
    }
    Ok(())
}

/// The account of a node and its own result.
type NodeAccount = (ClientLoadNodeResult, Option<TrialResult>);
