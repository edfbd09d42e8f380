// SPDX-License-Identifier: Apache-2.0
//! Faults that are injected into a storage system while it is used, and what came of them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use crate::comparison::ComparisonMetric;
use crate::fault::FaultKind;
use crate::ledger::LedgerCheck;
use crate::op::OpKind;
use crate::outage::{BIN, BrownOut, OutageResult};
use crate::units::Nanos;

/// A fault that is injected into a storage system in every trial of an entry, while sessions probe it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FaultInjection {
    /// The fault.
    pub fault: FaultKind,
    /// Into which server; absent: into another one in each block, in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<String>,
    /// How long it lasts at least.
    pub length: Nanos,
    /// How long after that the sessions are waited for.
    pub recovery_timeout: Nanos,
    /// How many sessions probe the system.
    pub sessions: u32,
    /// Reads of each, and as many synced writes, per second.
    pub rate: f64,
    /// Instead of that: this share of the most that they get out of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Bytes of each.
    pub block_bytes: u32,
    /// Bytes of the file of each.
    pub file_bytes: u64,
    /// Who watches beside the sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observers: Vec<FaultObserver>,
    /// Systems that it cannot be injected into, and why: they have no trials of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, String>,
}

impl FaultInjection {
    /// Highest rate of a session: with as many writes, what a ledger takes.
    pub const RATE_MAX: f64 = 50_000.0;

    /// Lowest rate of a session.
    pub const RATE_MIN: f64 = 0.1;

    /// Number of sessions, where no other is given.
    pub const SESSIONS: u32 = 2;

    /// Bytes of a read or write of a session, where no other size is given.
    pub const BLOCK_BYTES: u64 = 4 << 10;

    /// Bytes of the file of a session, where no other size is given.
    pub const FILE_BYTES: u64 = 16 << 20;

    /// Reads of each session per second: where a share is given, that share of `ceiling`, the most that
    /// each session gets out of the system.
    pub fn rate_below(&self, ceiling: Option<f64>) -> f64 {
        let shared = ceiling.zip(self.share).map(|(most, share)| most * share);
        shared.map_or(self.rate, |rate| rate.clamp(Self::RATE_MIN, Self::RATE_MAX))
    }
}

/// Condition of a storage system during the trials of an entry, from before the measured part until
/// after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StackCondition {
    /// The fault that one of its servers has meanwhile; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultKind>,
    /// Other state of the system; only where there is no such fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StackConditionState>,
    /// Which server; absent: another one in each block, in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim: Option<String>,
    /// How long the system is waited for until it answers again, before the measured part.
    pub settle_timeout: Nanos,
}

/// State of a storage system without a fault: its background work, or a shortage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StackConditionState {
    /// A server that was lost, and missed writes, is back and gets what it lacks.
    Rebuild,
    /// All data are read and compared with their copies or checksums, again and again.
    Scrub,
    /// Its file system is full to [`FULL_SHARE`].
    Full,
}

/// How much of a file system is in use while it is [full](StackConditionState::Full).
pub const FULL_SHARE: f64 = 0.9;

/// A condition without what it needs beside its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackConditionKind {
    /// As it should be.
    Healthy,
    /// One server has this fault.
    Fault(FaultKind),
    /// It is busy, or short of room.
    State(StackConditionState),
}

impl StackConditionKind {
    /// All by their names. Faults after which a system does not go on are none.
    pub const ALL: [(&str, StackConditionKind); 9] = [
        ("healthy", StackConditionKind::Healthy),
        ("degraded", StackConditionKind::Fault(FaultKind::Kill)),
        (
            "rebuild",
            StackConditionKind::State(StackConditionState::Rebuild),
        ),
        (
            "scrub",
            StackConditionKind::State(StackConditionState::Scrub),
        ),
        ("full", StackConditionKind::State(StackConditionState::Full)),
        ("slow", StackConditionKind::Fault(FaultKind::Slow)),
        ("delay", StackConditionKind::Fault(FaultKind::Delay)),
        ("loss", StackConditionKind::Fault(FaultKind::Loss)),
        ("disk-slow", StackConditionKind::Fault(FaultKind::DiskSlow)),
    ];

    /// The one of this name.
    pub fn find(name: &str) -> Option<StackConditionKind> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind)
    }

    /// All names in one line.
    pub fn names() -> String {
        Self::ALL.map(|(name, _)| name).join(", ")
    }
}

impl StackCondition {
    /// A condition that is waited for at most so long, with this server where one is named and something is
    /// done to one.
    pub fn new(kind: StackConditionKind, victim: Option<&str>, settle_timeout: Nanos) -> Self {
        let (fault, state) = match kind {
            StackConditionKind::Healthy => (None, None),
            StackConditionKind::Fault(fault) => (Some(fault), None),
            StackConditionKind::State(state) => (None, Some(state)),
        };
        let condition = StackCondition {
            fault,
            state,
            victim: None,
            settle_timeout,
        };
        StackCondition {
            victim: victim
                .filter(|_| condition.injected().is_some())
                .map(str::to_owned),
            ..condition
        }
    }

    /// Fault injected into a server for it: a server that is rebuilt was lost before.
    pub fn injected(&self) -> Option<FaultKind> {
        match self.state {
            Some(StackConditionState::Rebuild) => Some(FaultKind::Kill),
            _ => self.fault,
        }
    }

    /// Whether it is as it should be.
    pub fn is_healthy(&self) -> bool {
        self.fault.is_none() && self.state.is_none()
    }

    /// Name of the condition, to follow "while".
    pub fn name(&self) -> &'static str {
        match (self.state, self.fault) {
            (Some(StackConditionState::Rebuild), _) => "rebuilding",
            (Some(StackConditionState::Scrub), _) => "scrubbing",
            (Some(StackConditionState::Full), _) => "90 % full",
            (None, None) => "healthy",
            (None, Some(fault)) => {
                let kind = StackConditionKind::Fault(fault);
                let mut all = StackConditionKind::ALL.into_iter();
                all.find(|(_, known)| *known == kind)
                    .map_or("faulty", |(name, _)| name)
            }
        }
    }
}

/// A client beside the sessions that observes a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FaultObserver {
    /// Writes a line a second.
    Stamp,
    /// Copies a file again and again.
    Scp,
}

/// One fault, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FaultResult {
    /// The fault.
    pub fault: FaultKind,
    /// To which server.
    pub victim: String,
    /// From the order until it was done: so exactly is the beginning of the outage known.
    pub done_within: Nanos,
    /// From then until it was ended, or what it took was brought back.
    pub lasted: Nanos,
    /// How long the commands took that did that. What goes on behind them may take longer.
    pub healed_in: Nanos,
    /// Whether the sessions went on meanwhile; not where bringing back takes the mount away.
    pub healed_under_load: bool,
    /// Processes of the server that ended although the fault ends none: it failed by it.
    #[serde(default)]
    pub crashed: u32,
    /// The most reads, and as many writes, that a session got out of the system per second before its first
    /// fault, where the rate is a share of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<f64>,
    /// Results of the observers; `beside` in the first run folders of 2.3.
    #[serde(default, alias = "beside", skip_serializing_if = "Vec::is_empty")]
    pub observers: Vec<ObserverResult>,
    /// Reactions of the servers' cluster, from the fault on, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<ClusterEvent>,
    /// Outage as the sessions saw it.
    pub outage: OutageResult,
    /// Check of all written data afterwards.
    pub check: LedgerCheck,
}

/// Something that a cluster of servers did, as its own log says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClusterEvent {
    /// Time since the fault. The clocks of machines differ, of virtual ones by milliseconds.
    pub after: Nanos,
    /// On which server.
    pub server: String,
    /// One word: `noticed`, `agreed`, `asked`, `fenced`, `promoting`, `serving`.
    pub what: String,
}

impl FaultResult {
    /// When something happened first.
    pub fn first(&self, what: &str) -> Option<Nanos> {
        let mut events = self.events.iter();
        events
            .find(|event| event.what == what)
            .map(|event| event.after)
    }

    /// The server that took over and serves since, if one did.
    pub fn taker(&self) -> Option<&str> {
        let mut events = self.events.iter().rev();
        let serving = events.find(|event| event.what == "serving");
        serving.map(|event| &*event.server)
    }

    /// How long the sessions felt it: the longest outage of writes, or how long they were slower than
    /// before. Less than can be told counts as the least that can.
    pub fn felt(&self, metric: ComparisonMetric) -> Option<Nanos> {
        match metric {
            ComparisonMetric::WriteOutage => {
                let worst = self.outage.worst(OpKind::Write)?;
                Some(worst.length.max(self.outage.resolution))
            }
            ComparisonMetric::BrownOut => match self.outage.brown_out {
                BrownOut::Lasted(time) | BrownOut::NotOver(time) => Some(time.max(BIN)),
                BrownOut::Unknown => None,
            },
            _ => None,
        }
    }

    /// Whether that is only the least that it was: it had not ended when it was last looked at.
    pub fn is_open(&self, metric: ComparisonMetric) -> bool {
        match metric {
            ComparisonMetric::WriteOutage => {
                let worst = self.outage.worst(OpKind::Write);
                worst.is_some_and(|stall| stall.is_open)
            }
            ComparisonMetric::BrownOut => matches!(self.outage.brown_out, BrownOut::NotOver(_)),
            _ => false,
        }
    }

    /// Whether everything that was acknowledged is there.
    pub fn kept_its_data(&self) -> bool {
        self.check.passed() && self.observers.iter().all(|seen| seen.missing == 0)
    }
}

/// Result of an observer, from before a fault until after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ObserverResult {
    /// `stamp` writes a line a second, `scp` copies a file.
    pub name: String,
    /// Lines or copies that ended well.
    pub ops: u64,
    /// Those that failed.
    pub errors: u64,
    /// Longest time without one that ended: of `stamp` less the second between its lines, of `scp`
    /// without one that ended or a copy that grew.
    pub still: Option<Nanos>,
    /// Those that were acknowledged and are missing or wrong.
    pub missing: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn injection(share: Option<f64>) -> FaultInjection {
        FaultInjection {
            fault: FaultKind::Kill,
            victim: None,
            length: Nanos::SECOND,
            recovery_timeout: Nanos::SECOND,
            sessions: 2,
            rate: 100.0,
            share,
            block_bytes: 4096,
            file_bytes: 1 << 20,
            observers: vec![FaultObserver::Scp],
            refused: BTreeMap::new(),
        }
    }

    #[test]
    fn the_rate_of_sessions_is_a_share_of_what_they_get_where_that_is_asked() {
        let rate = |share, ceiling| injection(share).rate_below(ceiling);
        assert!((rate(None, Some(8.0)) - 100.0).abs() < 1e-9);
        assert!((rate(Some(0.5), Some(8.0)) - 4.0).abs() < 1e-9);
        assert!((rate(Some(0.01), Some(0.5)) - FaultInjection::RATE_MIN).abs() < 1e-9);
        assert!((rate(Some(1.0), Some(1e9)) - FaultInjection::RATE_MAX).abs() < 1e-9);
    }

    #[test]
    fn injections_of_before_there_were_observers_are_read() {
        let mut text = serde_json::to_value(injection(None)).expect("plain data");
        let fields = text.as_object_mut().expect("an object");
        fields.remove("observers");
        let read: FaultInjection = serde_json::from_value(text).expect("an injection");
        assert!(read.observers.is_empty() && read.refused.is_empty());
    }
}
