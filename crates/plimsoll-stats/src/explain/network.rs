// SPDX-License-Identifier: Apache-2.0
//! The way between clients and servers, and the clocks of several clients.

use plimsoll_core::event::TrialResult;
use plimsoll_core::evidence::{LinkUse, MachineUse, PeerRoundTrips};
use plimsoll_core::explanation::{EvidenceFigure, EvidenceUnit, ExplanationCause};
use plimsoll_core::load::start_spread;
use plimsoll_core::num::ratio;
use plimsoll_core::others::NeighbourUse;

use super::{ArmEvidence, CauseFinding, TrialSign, machines, over_trials};

/// A round trip that is this share of an operation limits it …
const TRIP_SHARE: f64 = 0.3;
/// … if it is longer than that of any local network that nothing holds up.
const TRIP_NS: f64 = 1_000_000.0;
/// A link that moves this share of its rate is full; headers and gaps take the rest.
pub(super) const LINK_SHARE: f64 = 0.9;
/// The same of what trains of packets found before the load: they tell a little too much where a limiter
/// lets the first packets pass, and too little where this machine was busy; so the round trip must have
/// grown as well …
const FOUND_SHARE: f64 = 0.7;
/// … by this factor.
const TRIP_GROWTH: f64 = 5.0;
/// The rate above which trains tell nothing: with a faster way the program that listens is the limit.
const FOUND_MAX: u64 = 250_000_000;
/// Share of TCP segments sent again from which on throughput suffers (Mathis et al. 1997: it falls
/// with the root of the loss).
const RETRANSMIT_SHARE: f64 = 0.01;
/// Fewer are chance.
const RETRANSMITS_MIN: u64 = 10;
/// Bytes on the network per byte of the workload that are named: headers take a few hundredths.
const NETWORK_TIMES: f64 = 1.5;
/// Less says nothing: other programs move as much.
const BYTES_MIN: u64 = 1 << 20;
/// Uncertainty of a clock, and spread of starts, that matter.
const CLOCK_NS: f64 = 1_000_000.0;
const CLOCK_SHARE: f64 = 0.1;
const SPREAD_NS: f64 = 100_000_000.0;

/// Why nothing is known.
const NO_PEERS: &str = "round trips to the servers were not measured";

/// Whether the target is reached over a network, as far as that is known.
fn is_remote(evidence: &ArmEvidence<'_>) -> bool {
    evidence
        .results()
        .flat_map(machines)
        .any(|used| !used.peers.is_empty())
}

fn nothing_remote(evidence: &ArmEvidence<'_>) -> CauseFinding {
    let facts = evidence.arm.facts.as_ref();
    let is_local = facts.is_none_or(|facts| !facts.disks.is_empty());
    match is_local {
        true => CauseFinding::NotApplicable,
        false => CauseFinding::Unknown(NO_PEERS),
    }
}

/// A long round trip under load, or a full link.
pub(super) fn slow_link(evidence: &ArmEvidence<'_>) -> CauseFinding {
    if !is_remote(evidence) {
        return nothing_remote(evidence);
    }
    let cause = ExplanationCause::SlowLink;
    over_trials(evidence, cause, "", NO_PEERS, |trial, _| {
        let service = trial.stats.service().mean_ns();
        let peers = machines(trial).flat_map(|used| &used.peers);
        let worst = peers
            .filter(|peer| peer.loaded.is_some())
            .max_by_key(|peer| peer.loaded);
        let full = machines(trial).filter_map(fullest).fold(0.0, f64::max);
        let found = machines(trial).filter_map(of_found).reduce(f64::max);
        let Some(peer) = worst else {
            return TrialSign::Missing;
        };
        let loaded = peer.loaded.unwrap_or_default().0 as f64;
        let share = ratio(loaded, service);
        let is_late = loaded >= TRIP_NS && share >= TRIP_SHARE;
        let idle = peer.idle.unwrap_or_default().0 as f64;
        let has_grown = loaded >= TRIP_GROWTH * idle;
        let is_found = found.is_some_and(|found| found >= FOUND_SHARE) && has_grown;
        // Answers that wait for a processor here come late however fast the way is.
        let is_busy_here = trial
            .others
            .as_ref()
            .is_some_and(NeighbourUse::takes_processors);
        let is_by_trips = (is_late || is_found) && !is_busy_here;
        if full < LINK_SHARE && !is_by_trips {
            return TrialSign::Absent;
        }
        let mut figures = link_figures(peer, loaded, share, full);
        figures.extend(found.map(|found| {
            let name = "throughput, of what the way carried before the load";
            EvidenceFigure::new(name, found, EvidenceUnit::Share, FOUND_SHARE)
        }));
        TrialSign::Shown(figures)
    })
}

fn link_figures(peer: &PeerRoundTrips, loaded: f64, share: f64, full: f64) -> Vec<EvidenceFigure> {
    let idle = peer.idle.unwrap_or_default().0 as f64;
    vec![
        EvidenceFigure::new(
            "round trip under load",
            loaded,
            EvidenceUnit::Nanoseconds,
            TRIP_NS,
        ),
        EvidenceFigure::new(
            "round trip under load, of the time of an operation",
            share,
            EvidenceUnit::Share,
            TRIP_SHARE,
        ),
        EvidenceFigure::plain("round trip without load", idle, EvidenceUnit::Nanoseconds),
        EvidenceFigure::new(
            "busiest link, of its rate",
            full,
            EvidenceUnit::Share,
            LINK_SHARE,
        ),
    ]
}

/// Traffic of the busier way of a machine's busiest link, of the rate that trains of packets found for the
/// slowest server; unknown for ways that are too fast for them.
fn of_found(used: &MachineUse) -> Option<f64> {
    let rates = used.peers.iter().filter_map(|peer| peer.bytes_per_s);
    let slowest = rates.min().filter(|rate| *rate < FOUND_MAX)?;
    let link = used.links.first()?;
    let moved = link.received_bytes.max(link.sent_bytes) as f64;
    Some(ratio(
        ratio(moved, used.length.as_secs_f64()),
        slowest as f64,
    ))
}

/// The share of its rate that the fullest link of a machine moved, where rates are known.
pub(super) fn fullest(used: &MachineUse) -> Option<f64> {
    let of = |link: &LinkUse| {
        let rate = link.bits_per_s? as f64 / 8.0 * used.length.as_secs_f64();
        // Both ways have the rate each.
        Some(ratio(link.received_bytes.max(link.sent_bytes) as f64, rate))
    };
    used.links.iter().filter_map(of).reduce(f64::max)
}

/// Segments that were sent again.
pub(super) fn retransmits(evidence: &ArmEvidence<'_>) -> CauseFinding {
    if !is_remote(evidence) {
        return nothing_remote(evidence);
    }
    let missing = "TCP segments were not counted";
    let cause = ExplanationCause::Retransmits;
    over_trials(evidence, cause, "", missing, |trial, _| {
        let tcp: Vec<_> = machines(trial).filter_map(|used| used.tcp).collect();
        if tcp.is_empty() {
            return TrialSign::Missing;
        }
        let again: u64 = tcp.iter().map(|tcp| tcp.retransmitted).sum();
        let sent: u64 = tcp.iter().map(|tcp| tcp.sent).sum();
        let share = ratio(again as f64, sent as f64);
        if again < RETRANSMITS_MIN || share < RETRANSMIT_SHARE {
            return TrialSign::Absent;
        }
        TrialSign::Shown(vec![
            EvidenceFigure::new(
                "TCP segments sent again",
                share,
                EvidenceUnit::Share,
                RETRANSMIT_SHARE,
            ),
            EvidenceFigure::plain("their number", again as f64, EvidenceUnit::Count),
        ])
    })
}

/// Bytes on the network per byte of the workload.
pub(super) fn amplification(evidence: &ArmEvidence<'_>) -> CauseFinding {
    if !is_remote(evidence) {
        return nothing_remote(evidence);
    }
    let cause = ExplanationCause::NetworkBytes;
    over_trials(evidence, cause, "", NO_PEERS, |trial, _| {
        let user = trial.stats.bytes();
        if user < BYTES_MIN {
            return TrialSign::Missing;
        }
        let per_s =
            |used: &MachineUse| ratio(used.network_bytes() as f64, used.length.as_secs_f64());
        let network: f64 = machines(trial).map(per_s).sum();
        let times = ratio(network, ratio(user as f64, trial.length.as_secs_f64()));
        if times < NETWORK_TIMES {
            return TrialSign::Absent;
        }
        TrialSign::Shown(vec![
            EvidenceFigure::new(
                "bytes of the network per byte of the workload",
                times,
                EvidenceUnit::Times,
                NETWORK_TIMES,
            ),
            EvidenceFigure::plain("on the network", network, EvidenceUnit::BytesPerSecond),
        ])
    })
}

/// Clocks of clients that are not known well, or starts that were apart.
pub(super) fn clock_offset(evidence: &ArmEvidence<'_>) -> CauseFinding {
    if evidence.load_nodes.is_empty() {
        return CauseFinding::NotApplicable;
    }
    let missing = "no node reported its clock";
    let cause = ExplanationCause::ClockOffset;
    over_trials(evidence, cause, "", missing, |trial, _| clock_sign(trial))
}

fn clock_sign(trial: &TrialResult) -> TrialSign {
    let worst = trial.nodes.iter().map(|node| node.clock.uncertainty).max();
    let Some(worst) = worst else {
        return TrialSign::Missing;
    };
    let response = trial.stats.response().mean_ns();
    let limit = CLOCK_NS.max(CLOCK_SHARE * response);
    let spread = start_spread(&trial.nodes).unwrap_or_default().0 as f64;
    if (worst.0 as f64) < limit && spread < SPREAD_NS {
        return TrialSign::Absent;
    }
    TrialSign::Shown(vec![
        EvidenceFigure::new(
            "uncertainty of a node's clock",
            worst.0 as f64,
            EvidenceUnit::Nanoseconds,
            limit,
        ),
        EvidenceFigure::new(
            "from the first start to the last",
            spread,
            EvidenceUnit::Nanoseconds,
            SPREAD_NS,
        ),
    ])
}
