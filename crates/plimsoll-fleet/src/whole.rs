// SPDX-License-Identifier: Apache-2.0
//! A fleet while it is there: its agents, and what carried them.

use plimsoll_core::plan::{NodeTransport, PlanNode};
use plimsoll_machine::host::SearchPath;
use plimsoll_machine::host::agent::{AgentHost, AgentProgram};
use plimsoll_machine::host::carry::{CarrierProcess, CarryOrder, ask};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::carrier::{FleetCarrier, FleetRequest};
use crate::error::FleetError;
use crate::gate::{FleetGate, FleetMember};
use crate::ticket::{FleetTicket, TICKET_VARIABLE};

/// How long `kubectl` may take.
const KUBECTL_LIMIT: Duration = Duration::from_secs(60);

/// How long what carried agents may take to end once they have. One that waits for a host that is gone
/// waits in vain.
const CARRIER_PATIENCE: Duration = Duration::from_secs(30);
const CARRIER_PATIENCE_LOST: Duration = Duration::from_secs(3);

/// Open files besides the connections.
const FILES_BESIDES: u64 = 256;

/// Progress of a fleet, reported while the caller waits for its hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FleetNews {
    /// The carrier was started: this command, or this object.
    Carried(String),
    /// This number of hosts has arrived.
    Arrived(u32),
}

/// Where and for how long agents are waited for.
#[derive(Debug, Clone)]
pub struct FleetWait {
    /// Where the controller listens.
    pub listen: SocketAddr,
    /// The name by which hosts know this machine, where it listens on all interfaces.
    pub known_as: String,
    /// How long they are waited for.
    pub limit: Duration,
    /// Name of the fleet's objects.
    pub name: String,
}

/// All load hosts of a run. When it goes they are let go, and what carried them is waited for.
#[derive(Debug)]
pub struct FleetHosts {
    members: Vec<(PlanNode, AgentHost)>,
    carrier: CarrierProcess,
    /// Whether the carrier is a command that ends when its agents have.
    is_run: bool,
    ticket_file: Option<FleetTicketFile>,
}

/// The file of a ticket, for as long as it is needed.
#[derive(Debug)]
struct FleetTicketFile(std::path::PathBuf);

impl Drop for FleetTicketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl FleetHosts {
    /// Starts the carrier and waits until all hosts are there.
    ///
    /// # Errors
    /// When it cannot be started, or not all come.
    pub fn raise(
        request: &FleetRequest,
        wait: &FleetWait,
        (search, agent): (&SearchPath, &AgentProgram),
        stop: &AtomicBool,
        tell: &mut dyn FnMut(FleetNews),
    ) -> Result<FleetHosts, FleetError> {
        allow_files(u64::from(request.hosts));
        let gate = FleetGate::open(wait.listen, &wait.known_as, request.hosts, &agent.build)?;
        let ticket_file = request
            .ticket
            .as_deref()
            .map(|path| keep(path, gate.ticket()))
            .transpose()?;
        let mut carrier = start(request, wait, search, (agent, gate.ticket()), tell)?;
        let mut said = || carrier.has_ended().then(|| carrier.last_words());
        let mut arrived = |count| tell(FleetNews::Arrived(count));
        let members = gate.gather(wait.limit, stop, &mut said, &mut arrived);
        let members = members.map_err(|error| match error {
            FleetError::Missing {
                arrived,
                wanted,
                seconds,
                missing,
                ..
            } => FleetError::Missing {
                arrived,
                wanted,
                seconds,
                missing,
                said: state_of(request, wait, search, &mut carrier),
            },
            other => other,
        })?;
        let mut fleet = FleetHosts {
            members: Vec::new(),
            carrier,
            is_run: !matches!(request.carrier, FleetCarrier::Kubernetes(_)),
            ticket_file,
        };
        for member in members {
            fleet.members.push(greeted(member, &agent.build)?);
        }
        Ok(fleet)
    }

    /// The hosts as nodes, with the way to each.
    pub fn members(&self) -> &[(PlanNode, AgentHost)] {
        &self.members
    }
}

impl Drop for FleetHosts {
    fn drop(&mut self) {
        let has_lost = self.members.iter().any(|(_, agent)| agent.lost().is_some());
        for (_, agent) in &self.members {
            agent.leave();
        }
        self.ticket_file = None;
        self.carrier.end(match (self.is_run, has_lost) {
            (false, _) => Duration::ZERO,
            (true, true) => CARRIER_PATIENCE_LOST,
            (true, false) => CARRIER_PATIENCE,
        });
    }
}

fn greeted(member: FleetMember, build: &str) -> Result<(PlanNode, AgentHost), FleetError> {
    let agent = AgentHost::over(&member.name, Box::new(member.stream), build)?;
    let node = PlanNode {
        name: member.name,
        reach: NodeTransport::Fleet,
        address: member.from.to_string(),
        dir: member.dir,
        free_bytes: 0,
        direct_align_bytes: 0,
        first_port: 0,
        power: Vec::new(),
        fence: Vec::new(),
        fence_next: Vec::new(),
        faults: Vec::new(),
    };
    Ok((node, agent))
}

/// Writes the ticket into a new file that only we may read.
fn keep(path: &Path, ticket: &FleetTicket) -> Result<FleetTicketFile, FleetError> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600);
    let shown = path.display();
    let failed = |error| FleetError::Ticket(format!("write the ticket into {shown}: {error}"));
    let mut file = options.open(path).map_err(failed)?;
    let kept = FleetTicketFile(path.into());
    writeln!(file, "{}", ticket.reveal()).map_err(failed)?;
    Ok(kept)
}

fn start(
    request: &FleetRequest,
    wait: &FleetWait,
    search: &SearchPath,
    (agent, ticket): (&AgentProgram, &FleetTicket),
    tell: &mut dyn FnMut(FleetNews),
) -> Result<CarrierProcess, FleetError> {
    let is_in_job = std::env::var_os("SLURM_JOB_ID").is_some();
    let order = CarryOrder {
        run: request.command(&agent.path, is_in_job),
        copies: request.copies(),
        undo: match (&request.carrier, &request.ticket) {
            (FleetCarrier::Kubernetes(job), _) => job.remove(&wait.name),
            (_, Some(path)) => vec![
                "rm".into(),
                "-f".into(),
                path.to_string_lossy().into_owned(),
            ],
            _ => Vec::new(),
        },
    };
    let ticket = ticket.reveal();
    let secrets = match &request.carrier {
        FleetCarrier::Kubernetes(_) => BTreeMap::new(),
        _ => BTreeMap::from([(TICKET_VARIABLE.to_owned(), ticket.clone())]),
    };
    tell(FleetNews::Carried(match &request.carrier {
        FleetCarrier::Kubernetes(_) => format!("job {}", wait.name),
        _ => order.run.join(" "),
    }));
    // Before anything is made: what is not undone by us is undone by it.
    let carrier = CarrierProcess::start(&agent.path, &order, &secrets)?;
    if let FleetCarrier::Kubernetes(job) = &request.carrier {
        let made = job.job(&wait.name, request.hosts).to_string();
        let uid = ask(search, &job.make(), &made, KUBECTL_LIMIT)?;
        let secret = job.secret(&wait.name, uid.trim(), &ticket).to_string();
        ask(search, &job.make(), &secret, KUBECTL_LIMIT)?;
    }
    Ok(carrier)
}

/// The carrier's words about hosts that do not come.
fn state_of(
    request: &FleetRequest,
    wait: &FleetWait,
    search: &SearchPath,
    carrier: &mut CarrierProcess,
) -> String {
    let said = match &request.carrier {
        FleetCarrier::Kubernetes(job) => ask(search, &job.look(&wait.name), "", KUBECTL_LIMIT)
            .unwrap_or_else(|error| error.to_string()),
        _ => carrier.last_words(),
    };
    let lines: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(5)
        .collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("; the carrier said: {}", lines.join(" | ")),
    }
}

/// Every host is an open file here.
fn allow_files(hosts: u64) {
    let wanted = hosts + FILES_BESIDES;
    let now = getrlimit(Resource::Nofile);
    if now.current.is_some_and(|current| current < wanted) {
        let current = now.maximum.map_or(wanted, |most| most.min(wanted));
        // An error is ignored: a limit that stays too low shows when the first connection fails.
        let raised = Rlimit {
            current: Some(current),
            maximum: now.maximum,
        };
        let _ = setrlimit(Resource::Nofile, raised);
    }
}
