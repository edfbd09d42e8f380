// SPDX-License-Identifier: Apache-2.0
//! Which resource is used up: what saturates first at the edge of a load line.

use plimsoll_core::explanation::{EvidenceFigure, EvidenceUnit};
use plimsoll_core::num::ratio;

use super::{ArmEvidence, client, machines, network, servers};
use crate::events::median;

/// A device with a request in flight for this share of the time has no time left. A device that serves
/// several requests at once may still carry more, so the report names the figure.
const DEVICE_BUSY: f64 = 0.9;

/// A resource with nothing left to give.
#[derive(Debug, Clone, PartialEq)]
pub enum SaturatedResource {
    /// The processors of the clients.
    ClientProcessor(EvidenceFigure),
    /// A thread of this server.
    Server(String, EvidenceFigure),
    /// This link of a client.
    Network(EvidenceFigure),
    /// This disk.
    Disk(String, EvidenceFigure),
}

impl SaturatedResource {
    /// It, for a sentence: `the client's processor`, `disk vdb`.
    pub fn name(&self) -> String {
        match self {
            SaturatedResource::ClientProcessor(_) => "the client's processor".into(),
            SaturatedResource::Server(name, _) => format!("server {name}"),
            SaturatedResource::Network(_) => "the client's network link".into(),
            SaturatedResource::Disk(name, _) => format!("disk {name}"),
        }
    }

    /// How far it is used, and from where on that counts as all.
    pub fn evidence(&self) -> &EvidenceFigure {
        match self {
            SaturatedResource::ClientProcessor(figure)
            | SaturatedResource::Server(_, figure)
            | SaturatedResource::Network(figure)
            | SaturatedResource::Disk(_, figure) => figure,
        }
    }

    /// How far beyond its limit.
    fn excess(&self) -> f64 {
        let figure = self.evidence();
        ratio(figure.value, figure.limit.unwrap_or(1.0))
    }
}

/// The resource that is used furthest beyond its limit, by the median of these trials; `None` when
/// nothing that was watched is used up. What is nearest to the load comes first where two are alike:
/// a client without a processor keeps servers and disks waiting, not the other way round.
pub fn saturated(evidence: &ArmEvidence<'_>) -> Option<SaturatedResource> {
    let mut found: Vec<SaturatedResource> = Vec::new();
    let middle = |values: Vec<f64>| median(values);
    let shares = |name: &str, value: f64, limit: f64| {
        EvidenceFigure::new(name, value.min(1.0), EvidenceUnit::Share, limit)
    };
    let client = evidence.results();
    let client = middle(client.map(|t| client::cpu_share(evidence, t)).collect());
    found.extend(client.map(|share| {
        let name = "CPU time of the load, of all CPUs";
        SaturatedResource::ClientProcessor(shares(name, share, client::CPU_SHARE_MAX))
    }));
    let links = evidence.results().flat_map(machines);
    let links = middle(links.filter_map(network::fullest).collect());
    found.extend(links.map(|share| {
        let name = "busiest link, of its rate";
        SaturatedResource::Network(shares(name, share, network::LINK_SHARE))
    }));
    let used = || evidence.results().flat_map(|trial| &trial.servers);
    let mut servers: Vec<&str> = used().map(|used| &*used.server).collect();
    servers.sort_unstable();
    servers.dedup();
    for name in servers {
        let of = used().filter(|used| used.server == name);
        let busiest = middle(of.map(|used| used.thread_share_max).collect());
        found.extend(busiest.map(|share| {
            let figure = "busiest thread in a second, of one CPU";
            SaturatedResource::Server(name.into(), shares(figure, share, servers::THREAD_FULL))
        }));
    }
    for (disk, share) in disks(evidence) {
        let figure = shares("time with a request in flight", share, DEVICE_BUSY);
        found.push(SaturatedResource::Disk(disk, figure));
    }
    found.retain(|one| one.excess() >= 1.0);
    // The first of those that are alike stays in front.
    found.sort_by(|a, b| b.excess().min(1.0).total_cmp(&a.excess().min(1.0)));
    found.into_iter().next()
}

/// How busy each disk of the arm was, by the median; the device itself where its disks are unknown.
fn disks(evidence: &ArmEvidence<'_>) -> Vec<(String, f64)> {
    let facts = evidence.arm.facts.as_ref();
    let names = facts.map_or(&[][..], |facts| &facts.disks[..]);
    let of = |name: &String| {
        let used = evidence.results().filter_map(|trial| {
            let used = machines(trial).next()?;
            let disk = used.disks.iter().find(|disk| disk.disk == *name)?;
            Some(ratio(disk.busy.0 as f64, used.length.0 as f64))
        });
        Some((name.clone(), median(used)?))
    };
    let mut found: Vec<(String, f64)> = names.iter().filter_map(of).collect();
    if found.is_empty() {
        let devices = evidence.results().filter_map(|trial| {
            let device = trial.device.as_ref()?;
            let busy = ratio(device.busy?.0 as f64, device.length.0 as f64);
            Some((device.device.clone(), busy))
        });
        let all: Vec<(String, f64)> = devices.collect();
        let share = median(all.iter().map(|(_, share)| *share));
        found.extend(
            all.first()
                .zip(share)
                .map(|((name, _), s)| (name.clone(), s)),
        );
    }
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    found
}
