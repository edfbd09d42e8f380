// SPDX-License-Identifier: Apache-2.0
//! Which machines the load comes from: this one, nodes of an inventory, or hosts that a scheduler provides.

use plimsoll_console::failure::{CliError, CliExitCode, doing, failed};
use plimsoll_console::terminal;
use plimsoll_core::campaign::{CampaignClients, CampaignSpec};
use plimsoll_core::load::LOST_SHARE;
use plimsoll_core::units::Nanos;
use plimsoll_core::units::parse_duration;
use plimsoll_fleet::{FleetCarrier, FleetError, FleetHosts, FleetNews, FleetRequest, FleetWait};
use plimsoll_lab::stacks::{StackPlacement, StackUpOptions};
use plimsoll_machine::host::agent::AgentProgram;
use plimsoll_machine::host::{SearchPath, facts};
use plimsoll_run::campaign::ClientLoadGenerators;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long load hosts are waited for, unless another time is given.
const WAIT: Nanos = Nanos(600 * Nanos::SECOND.0);

/// Which machines the load comes from.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Load from other machines")]
pub(in crate::cli) struct ClientLoadArgs {
    /// Generate the load on these nodes or scheduled hosts instead of this machine.
    ///
    /// NODE,... (n1,n2) are nodes of the inventory file of --on. FLEET requests hosts from a
    /// scheduler: slurm:32; k8s:32,image=NAME; 'exec:32:mpiexec -n 32' (any command that runs the
    /// appended program once on each host); local:4. Every node plays the whole workload, and all
    /// nodes start at the same time. A directory target is a directory on the nodes. With a stack
    /// as target, every node becomes a client.
    #[arg(long, value_name = "NODE,...|FLEET")]
    clients: Option<String>,
    /// Address on which scheduled load hosts reach this machine: ADDRESS or ADDRESS:PORT.
    ///
    /// The default accepts connections from this machine only. All connections are encrypted, and
    /// only hosts with the ticket of the run are admitted.
    #[arg(long, value_name = "ADDRESS", value_parser = listen_address, default_value = "127.0.0.1", hide_short_help = true)]
    listen: SocketAddr,
    /// Maximum wait for load hosts of a scheduler (default: 10m).
    #[arg(long, value_name = "TIME", value_parser = parse_duration, hide_short_help = true)]
    wait_for_clients: Option<Nanos>,
    /// Maximum share of nodes a trial may lose and still count (default: 5%).
    ///
    /// The result then refers to the load that the remaining nodes offered, and the report states
    /// this. If more nodes are lost, the run ends after the trial.
    #[arg(long, value_name = "SHARE", value_parser = share, hide_short_help = true)]
    lose_clients: Option<f64>,
}

fn share(text: &str) -> Result<f64, String> {
    let number = text
        .strip_suffix('%')
        .and_then(|number| number.trim().parse().ok());
    let share = number.map(|number: f64| number / 100.0);
    let share = share.filter(|share| (0.0..1.0).contains(share));
    share.ok_or_else(|| "expected a percentage below 100, as in 5%".into())
}

/// An address, with a port of its own where none is given.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    match (text.parse(), bare.parse::<IpAddr>()) {
        (Ok(address), _) => Ok(address),
        (_, Ok(ip)) => Ok(SocketAddr::new(ip, 0)),
        _ => Err("expected an address of this machine, with or without :PORT".into()),
    }
}

impl ClientLoadArgs {
    /// The machine this program runs on.
    pub(in crate::cli) const HERE: ClientLoadArgs = ClientLoadArgs {
        clients: None,
        listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        wait_for_clients: None,
        lose_clients: None,
    };

    /// Puts what was given into a campaign.
    pub(in crate::cli) fn apply(&self, spec: &mut CampaignSpec) {
        if let Some(on) = &self.clients {
            spec.clients = Some(CampaignClients {
                on: on.clone(),
                lose: None,
            });
        }
        if let Some(clients) = &mut spec.clients {
            clients.lose = self.lose_clients.or(clients.lose);
        }
    }

    /// Reaches the nodes, if there are any.
    pub(super) fn loaders(
        &self,
        clients: Option<&CampaignClients>,
        options: &StackUpOptions,
        id: &str,
        stop: &AtomicBool,
    ) -> Result<ClientLoadGenerators, CliError> {
        let Some(clients) = clients else {
            return Ok(ClientLoadGenerators::here());
        };
        let share = clients.lose.unwrap_or(LOST_SHARE);
        if let Some(request) = fleet(Some(clients))? {
            return Ok(self.raise(&request, id, stop)?.losing(share));
        }
        let Some(StackPlacement::Inventory(inventory)) = &options.place else {
            return Err(CliError::invalid(
                "--clients needs --on FILE.toml, the inventory that names its nodes",
            )
            .hint("docs/stacks/inventory.md describes the file"));
        };
        let names: Vec<String> = clients.on.split(',').map(Into::into).collect();
        let nodes = inventory.nodes(&names);
        let nodes = nodes.map_err(doing(CliExitCode::Usage, "find the nodes of --clients"))?;
        Ok(ClientLoadGenerators::reach(nodes)?.losing(share))
    }

    fn raise(
        &self,
        request: &FleetRequest,
        id: &str,
        stop: &AtomicBool,
    ) -> Result<ClientLoadGenerators, CliError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let search = SearchPath::new(&path);
        let agent = AgentProgram::beside().map_err(failed(CliExitCode::Failed))?;
        let wait = FleetWait {
            listen: self.listen,
            known_as: facts::machine().host,
            limit: Duration::from_nanos(self.wait_for_clients.unwrap_or(WAIT).0),
            name: name_of(id),
        };
        let hosts = request.hosts;
        let mut tell = |news| match news {
            FleetNews::Carried(how) => {
                terminal::say(&format!("waiting for {hosts} load hosts: {how}"));
            }
            FleetNews::Arrived(count) if count == hosts => {
                terminal::say(&format!("all {hosts} load hosts are there"));
            }
            FleetNews::Arrived(_) => {}
        };
        let fleet = FleetHosts::raise(request, &wait, (&search, &agent), stop, &mut tell);
        let fleet = fleet.map_err(|error| match error {
            FleetError::Stopped => plimsoll_console::failure::stopped(),
            FleetError::Missing { .. } | FleetError::CarrierEnded { .. } => CliError::sentence(
                CliExitCode::LostNode,
                error.to_string(),
            )
            .hint(
                "hosts connect to the address of --listen, which has to be one that they reach; \
                     --wait-for-clients TIME waits longer",
            ),
            other => failed(CliExitCode::Failed)(other),
        })?;
        ClientLoadGenerators::of_fleet(fleet)
    }
}

/// The hosts that a scheduler is asked for, if it is.
pub(super) fn fleet(clients: Option<&CampaignClients>) -> Result<Option<FleetRequest>, CliError> {
    let asked = clients.map(|clients| clients.on.as_str());
    let asked = asked.filter(|text| FleetRequest::is_meant(text));
    let request = asked.map(str::parse).transpose();
    request.map_err(|error: FleetError| CliError::invalid(error.to_string()))
}

/// Name of the objects of a run's fleet.
fn name_of(id: &str) -> String {
    format!("plimsoll-{id}")
}

/// How hosts would be asked for: a command, or objects of Kubernetes.
pub(super) fn carried_as(request: &FleetRequest, id: &str) -> Result<String, CliError> {
    if let FleetCarrier::Kubernetes(job) = &request.carrier {
        let name = name_of(id);
        let secret = job.secret(&name, "UID-OF-THE-JOB", "TICKET-OF-THE-RUN");
        let objects = [job.job(&name, request.hosts), secret];
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
        return Ok(format!("{list:#}"));
    }
    let agent = AgentProgram::beside().map_err(failed(CliExitCode::Failed))?;
    let is_in_job = std::env::var_os("SLURM_JOB_ID").is_some();
    let words = request.command(&agent.path, is_in_job).join(" ");
    Ok(match &request.carrier {
        FleetCarrier::Local => format!("{} times on this machine: {words}", request.hosts),
        _ => words,
    })
}
