// SPDX-License-Identifier: Apache-2.0
//! What came of faults done to a storage system while it was used.

use serde::{Deserialize, Serialize};

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
    /// What is done.
    pub fault: FaultKind,
    /// To which server; absent: to another one in each block, in turn.
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
    /// Bytes of each.
    pub block_bytes: u32,
    /// Bytes of the file of each.
    pub file_bytes: u64,
}

/// One fault, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FaultResult {
    /// What was done.
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
    /// What used the storage beside the sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<BackgroundLoadResult>,
    /// What the servers' cluster did about it, from the fault on, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<ClusterEvent>,
    /// What the sessions felt.
    pub outage: OutageResult,
    /// What everything that was written was found to be afterwards.
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
    #[must_use]
    pub fn first(&self, what: &str) -> Option<Nanos> {
        let mut events = self.events.iter();
        events
            .find(|event| event.what == what)
            .map(|event| event.after)
    }

    /// The server that took over and serves since, if one did.
    #[must_use]
    pub fn taker(&self) -> Option<&str> {
        let mut events = self.events.iter().rev();
        let serving = events.find(|event| event.what == "serving");
        serving.map(|event| &*event.server)
    }

    /// How long the sessions felt it: the longest outage of writes, or how long they were slower than
    /// before. Less than can be told counts as the least that can.
    #[must_use]
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
    #[must_use]
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
    #[must_use]
    pub fn kept_its_data(&self) -> bool {
        self.check.passed() && self.beside.iter().all(|company| company.missing == 0)
    }
}

/// What one workload, or a witness, did beside the sessions from before a fault until after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BackgroundLoadResult {
    /// The workload; `stamp` is the witness that writes a line a second, `scp` the one that copies a file.
    pub name: String,
    /// Operations that ended well.
    pub ops: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Longest time without one that ended: of a workload in whole seconds, of `stamp` less the second
    /// between its lines, of `scp` without one that ended or a copy that grew.
    pub still: Option<Nanos>,
    /// Lines or copies of a witness that were acknowledged and are missing or wrong.
    pub missing: u64,
    /// Why it ended before it was told to.
    pub ended: Option<String>,
}

/// All faults of one storage system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FailoverResult {
    /// The storage system.
    pub name: String,
    /// What it is made of.
    pub description: String,
    /// How many sessions used it.
    pub sessions: u32,
    /// Reads and as many writes of each session, per second.
    pub rate: f64,
    /// The most of them that a session got out of it before the first fault, where the rate is a
    /// share of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<f64>,
    /// Bytes of each.
    pub block_bytes: u32,
    /// Where the moments of the faults come from.
    pub seed: u64,
    /// The faults, in the order in which they were done.
    pub strikes: Vec<FaultResult>,
}

impl FailoverResult {
    /// Whether every block was there in every check.
    #[must_use]
    pub fn kept_its_data(&self) -> bool {
        self.strikes.iter().all(FaultResult::kept_its_data)
    }
}

/// Faults of several storage systems: a cell for each system and kind of fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FailoverMatrix {
    /// The cells, those of one system after those of the one before.
    pub cells: Vec<FailoverMatrixCell>,
}

/// One kind of fault of one storage system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FailoverMatrixCell {
    /// The storage system.
    pub stack: String,
    /// The fault.
    pub fault: FaultKind,
    /// What came of it.
    pub outcome: FailoverCellResult,
}

/// What came of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FailoverCellResult {
    /// Every fault was done.
    Done(FailoverResult),
    /// It cannot be done there, and why.
    Refused(String),
    /// It could not be carried out to its end, and why.
    Failed(String),
    /// There was no time for it.
    NotTried,
}

impl FailoverMatrix {
    /// Whether every block was there in every check of every cell that was done.
    #[must_use]
    pub fn kept_its_data(&self) -> bool {
        self.cells.iter().all(|cell| match &cell.outcome {
            FailoverCellResult::Done(done) => done.kept_its_data(),
            _ => true,
        })
    }
}
