// SPDX-License-Identifier: Apache-2.0
//! Results of a trial: of its operations, its phases, its workers, and the machines that took part.

use super::TrialId;
use super::stats::OpStats;
use crate::clock_offset::ClockOffset;
use crate::comparison::ComparisonMetric;
use crate::data_check::DataCheckResult;
use crate::evidence::MachineUse;
use crate::failover::FaultResult;
use crate::load_line::LoadLineRecord;
use crate::model::FidelityCheck;
use crate::num::ratio;
use crate::op::OpKind;
use crate::open_load::OpenLoad;
use crate::others::NeighbourUse;
use crate::target::MachineFacts;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The cost of the generator, and whether it kept up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GeneratorStats {
    /// Which engine ran, such as `io_uring`, with what it could not use.
    pub engine: String,
    /// CPU time of the measured part in user space, all workers.
    pub user_cpu_ns: u64,
    /// CPU time of the measured part in the kernel, all workers.
    pub system_cpu_ns: u64,
    /// Requests whose intended start fell into the run but that were never submitted.
    pub not_submitted: u64,
    /// Time of the measured part from the return of one call into the engine to the next call, all
    /// workers: what choosing, stamping and recording operations took, by the clock. Time for which
    /// another program held the processor then is in it; time spent waiting is not.
    #[serde(default)]
    pub outside_ns: u64,
    /// Time spent spinning for requests that were about to be due, all workers.
    #[serde(default)]
    pub pacing_ns: u64,
    /// Operations that ended in the measured part, warm-up leftovers included: what `outside_ns`
    /// was spent on.
    #[serde(default)]
    pub ops: u64,
    /// Operations still in flight when the trial was cut off, some time after its end: they have
    /// neither ended nor failed. Their times until then are in the histograms.
    #[serde(default)]
    pub unfinished: u64,
    /// Operations that failed, by the system's error number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errnos: BTreeMap<i32, u64>,
    /// Time for which this program was suspended: stopped, frozen, or without a CPU.
    #[serde(default)]
    pub held_up: Nanos,
    /// When the requests of open loops were due and ended: one, or one for each phase.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<OpenLoad>,
}

impl GeneratorStats {
    /// Adds the part of other workers of the same open loop in the same time.
    pub fn add_open(&mut self, other: &OpenLoad) {
        match self.open.iter_mut().find(|mine| mine.phase == other.phase) {
            Some(mine) => mine.merge(other),
            None => self.open.push(other.clone()),
        }
    }

    /// Delay of requests that waited while the queue was full: the target's part.
    pub fn queue_lag_ns(&self) -> u64 {
        let all = self.open.iter().map(|open| open.queue_lag_ns);
        all.fold(0, u64::saturating_add)
    }

    /// Adds the figures of another generator.
    pub fn add(&mut self, other: &GeneratorStats) {
        self.user_cpu_ns += other.user_cpu_ns;
        self.system_cpu_ns += other.system_cpu_ns;
        self.not_submitted += other.not_submitted;
        self.outside_ns += other.outside_ns;
        self.pacing_ns += other.pacing_ns;
        self.ops += other.ops;
        self.unfinished += other.unfinished;
        for (errno, operations) in &other.errnos {
            *self.errnos.entry(*errno).or_default() += operations;
        }
        // Machines are held up at the same time, not one after another.
        self.held_up = self.held_up.max(other.held_up);
        other.open.iter().for_each(|open| self.add_open(open));
        if !self.engine.split(" / ").any(|known| known == other.engine) {
            if !self.engine.is_empty() {
                self.engine.push_str(" / ");
            }
            self.engine.push_str(&other.engine);
        }
    }
}

/// The result of one worker: for the fairness between workers, and for reports that use each worker's
/// own time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WorkerResult {
    /// When its first operation was meant to start, from the start of the phase.
    pub began: Nanos,
    /// When its last counted operation had ended.
    pub ended: Nanos,
    /// Operations that moved data or names, without those that ended its work (fsync, close).
    pub ops: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Longest time without an end of an operation of it, from the start of its first to the end of its
    /// last; 0 in older runs.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub longest_wait: Nanos,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the form that serde calls it in"
)]
fn is_no_time(time: &Nanos) -> bool {
    time.0 == 0
}

impl WorkerResult {
    /// Notes the end of one of its operations.
    #[inline]
    pub fn ends(&mut self, at: Nanos) {
        let waited = at.since(self.ended.max(self.began));
        self.longest_wait = self.longest_wait.max(waited);
        self.ended = self.ended.max(at);
    }

    /// Operations per second, from the start of its first to the end of its last.
    pub fn ops_per_s(&self) -> f64 {
        ratio(self.ops as f64, self.ended.since(self.began).as_secs_f64())
    }
}

/// Limit on the phases of one trial when results are read: no program has as many.
pub const PHASES_MAX: usize = 4096;

/// The result of one phase of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PhaseResult {
    /// Name of the phase.
    pub name: String,
    /// The metric it is compared on.
    pub metric: ComparisonMetric,
    /// The value of that metric.
    pub value: f64,
    /// From the start of the workers to the end of the last one.
    pub wall: Nanos,
    /// The counted operations; empty for programs that report less.
    pub stats: OpStats,
    /// CPU time in user space.
    pub user_cpu_ns: u64,
    /// CPU time in the kernel.
    pub system_cpu_ns: u64,
    /// By worker; empty for programs.
    pub workers: Vec<WorkerResult>,
}

/// The result of one trial. Immutable once written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TrialResult {
    /// Which trial.
    pub trial: TrialId,
    /// Length of the measured part.
    pub length: Nanos,
    /// Time spent preparing (laying out files); a result of its own.
    pub prepare: Nanos,
    /// The measured operations, of all phases.
    pub stats: OpStats,
    /// The phases, for workloads that have them.
    #[serde(default)]
    pub phases: Vec<PhaseResult>,
    /// The result of each worker, for workloads without phases.
    #[serde(default)]
    pub workers: Vec<WorkerResult>,
    /// Figures of the generator.
    pub generator: GeneratorStats,
    /// The submitted load compared with the model (empty for closed loops).
    pub fidelity: Vec<FidelityCheck>,
    /// Whether the trial was cut short by the user: then it is kept but not compared.
    pub interrupted: bool,
    /// When and why the storage ended it: then it is kept but not compared.
    #[serde(default)]
    pub failed: Option<String>,
    /// Result of data verification, where that was requested. With bad blocks the trial is kept but not
    /// compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_check: Option<DataCheckResult>,
    /// Resources used by the servers of the system, where they could be monitored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerUse>,
    /// The same of programs of this machine between the load and the servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_programs: Vec<ServerUse>,
    /// Activity of the block device of the arm, where this machine counts one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceUse>,
    /// Activity of other programs on the load generator meanwhile; of several machines, the sum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<NeighbourUse>,
    /// Results by node, where the load came from other machines; everything else is their sum.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<ClientLoadNodeResult>,
    /// Result of the fault that was injected meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultResult>,
    /// Activity of the machines that generate the load during the trial.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineUse>,
    /// Request that the trial served, and readings of the limits, where a load line is searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_line: Option<LoadLineRecord>,
    /// Energy that the machine of the load generator used meanwhile, where it has readings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub energy: Vec<EnergyUse>,
}

/// Energy that was used in a trial, its warm-up included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EnergyUse {
    /// Source of the reading.
    pub source: String,
    /// How much.
    pub joules: f64,
}

/// Activity of a block device while operations were counted, and what these requested in that time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DeviceUse {
    /// The kernel's name of it.
    pub device: String,
    /// Length of the intervals that are compared.
    pub length: Nanos,
    /// Reads and writes that ended on the device.
    pub served: TransferTotals,
    /// Reads and writes that were merged into others before they reached it.
    pub merged: [u64; 2],
    /// Reads and writes of the workload.
    pub asked: TransferTotals,
    /// Time with something in flight on the device; none in older runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<Nanos>,
}

/// Reads and writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TransferTotals {
    /// Number of reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl TransferTotals {
    /// Adds the requests of these operations.
    pub fn add(&mut self, stats: &OpStats) {
        if let Some(read) = stats.0.get(&OpKind::Read) {
            self.reads += read.ops();
            self.read_bytes += read.bytes;
        }
        if let Some(write) = stats.0.get(&OpKind::Write) {
            self.writes += write.ops();
            self.written_bytes += write.bytes;
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: TransferTotals) -> TransferTotals {
        TransferTotals {
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            written_bytes: self.written_bytes + other.written_bytes,
        }
    }
}

/// Resources used by one server during a trial, sampled once a second. An object storage target of
/// Lustre is seen only by its client: no CPU time, no memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ServerUse {
    /// Its name in reports.
    pub server: String,
    /// How long it was monitored.
    pub length: Nanos,
    /// Processor time of all its threads.
    pub cpu_ns: u64,
    /// Largest share of one processor that a thread of it took in a second.
    pub thread_share_max: f64,
    /// Memory at the end.
    pub resident_bytes: u64,
    /// Growth of its memory.
    pub grown_bytes: i64,
    /// Bytes it read and wrote, from its clients and from its storage.
    pub moved_bytes: u64,
    /// Time in which it transferred nothing while another server of the system did.
    pub still: Nanos,
    /// Its processes that exited meanwhile.
    pub processes_lost: u32,
    /// Memory at evenly spaced times, from the first look to the last; empty in older runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resident_steps: Vec<u64>,
}

impl ServerUse {
    /// Most times at which memory is kept, and least when there were as many looks.
    pub const RESIDENT_STEPS: usize = 16;
}

impl TrialResult {
    /// An empty result of a trial.
    pub fn of(trial: TrialId) -> Self {
        TrialResult {
            trial,
            length: Nanos(0),
            prepare: Nanos(0),
            stats: OpStats::default(),
            phases: Vec::new(),
            workers: Vec::new(),
            generator: GeneratorStats::default(),
            fidelity: Vec::new(),
            interrupted: false,
            failed: None,
            data_check: None,
            servers: Vec::new(),
            client_programs: Vec::new(),
            device: None,
            others: None,
            nodes: Vec::new(),
            fault: None,
            load_line: None,
            energy: Vec::new(),
            machines: Vec::new(),
        }
    }

    /// Result of data verification, if some data were bad.
    pub fn bad_data(&self) -> Option<&DataCheckResult> {
        let check = self.data_check.as_ref();
        check.filter(|check| check.bad.total() > 0)
    }

    /// Whether acknowledged or verified data were lost or damaged.
    pub fn has_lost_data(&self) -> bool {
        let broken = |fault: &FaultResult| !fault.kept_its_data();
        self.bad_data().is_some() || self.fault.as_ref().is_some_and(broken)
    }

    /// The first node that was lost, and how, where the trial failed by that.
    pub fn lost_node(&self) -> Option<(&str, &ClientLoadNodeLoss)> {
        self.lost_nodes().next().filter(|_| self.failed.is_some())
    }

    /// All nodes that were lost, and how. With few of many the trial is an answer for the load that was
    /// offered.
    pub fn lost_nodes(&self) -> impl Iterator<Item = (&str, &ClientLoadNodeLoss)> {
        let nodes = self.nodes.iter();
        nodes.filter_map(|node| Some((&*node.node, node.lost.as_ref()?)))
    }

    /// The share of the load that its nodes offered, by the time that each of them played; `None` where
    /// none was lost.
    pub fn offered(&self) -> Option<f64> {
        self.lost_nodes().next()?;
        let played = self.nodes.iter().map(|node| match &node.lost {
            Some(_) => ratio(node.length.0 as f64, self.length.0 as f64).min(1.0),
            None => 1.0,
        });
        Some(played.sum::<f64>() / self.nodes.len() as f64)
    }

    /// A trial whose generator was suspended for a larger share of it is not compared.
    const HELD_UP_MAX: f64 = 0.05;

    /// Whether this program was suspended for too much of the trial to compare it.
    pub fn was_held_up(&self) -> bool {
        self.generator.held_up.0 as f64 > Self::HELD_UP_MAX * self.length.0 as f64
    }

    /// Whether the trial can be compared: it was completed, nothing failed (failing is fast), no data were
    /// bad, and the generator was not suspended for too long. Requests in flight at the end count with their
    /// time until then, so a system that cannot carry its load is also compared.
    pub fn is_comparable(&self) -> bool {
        let whole = !self.interrupted && self.failed.is_none() && !self.was_held_up();
        whole && self.stats.errors() == 0 && self.bad_data().is_none()
    }

    /// Operations that succeeded.
    pub fn done(&self) -> u64 {
        let without = self.stats.errors() + self.generator.unfinished;
        self.stats.ops().saturating_sub(without)
    }

    /// The value of `metric` for this trial.
    pub fn value(&self, metric: ComparisonMetric) -> f64 {
        match metric {
            ComparisonMetric::MeanResponse => self.stats.response().mean_ns(),
            // A failed operation is no work done.
            ComparisonMetric::OpsPerSecond => ratio(self.done() as f64, self.length.as_secs_f64()),
            ComparisonMetric::BytesPerSecond => {
                ratio(self.stats.bytes() as f64, self.length.as_secs_f64())
            }
            ComparisonMetric::WallTime => self.length.0 as f64,
            ComparisonMetric::WriteOutage | ComparisonMetric::BrownOut => {
                let fault = self.fault.as_ref();
                let felt = fault.and_then(|fault| fault.felt(metric));
                felt.map_or(f64::NAN, |felt| felt.0 as f64)
            }
            ComparisonMetric::P99Response | ComparisonMetric::P999Response => {
                let response = self.stats.response();
                let quantile = metric.quantile().filter(|q| response.supports_quantile(*q));
                quantile.map_or(f64::NAN, |q| response.quantile_ns(q) as f64)
            }
            ComparisonMetric::CpuPerOperation => {
                let cpu_ns = self.generator.user_cpu_ns + self.generator.system_cpu_ns;
                // Spinning until requests are due is the same for all systems.
                let own_ns = cpu_ns.saturating_sub(self.generator.pacing_ns);
                ratio(own_ns as f64, self.done() as f64)
            }
            ComparisonMetric::PreparationTime => self.prepare.0 as f64,
            ComparisonMetric::ClientEvenness => self.evenness().unwrap_or(f64::NAN),
            // Of several trials, and of a phase.
            ComparisonMetric::RunToRunVariation | ComparisonMetric::OutputSize => f64::NAN,
        }
    }

    /// Jain's index of the rates of its nodes, or of its workers where it has one node. `None` when it has
    /// but one client.
    fn evenness(&self) -> Option<f64> {
        let nodes = self.nodes.iter().map(ClientLoadNodeResult::ops_per_s);
        let workers = self.workers.iter();
        // Where all did the same work, the time that it took tells them apart.
        let same_work = self
            .workers
            .windows(2)
            .all(|pair| pair[0].ops == pair[1].ops);
        let rates: Vec<f64> = match (self.nodes.len(), same_work) {
            (0 | 1, true) => workers.map(WorkerResult::ops_per_s).collect(),
            (0 | 1, false) => workers.map(|worker| worker.ops as f64).collect(),
            _ => nodes.collect(),
        };
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
        let is_index = rates.len() > 1 && squares > 0.0;
        is_index.then(|| sum * sum / (rates.len() as f64 * squares))
    }
}

/// A machine that generates load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClientLoadNode {
    /// Its name.
    pub name: String,
    /// Facts found on it.
    pub machine: MachineFacts,
}

/// When a node was lost, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClientLoadNodeLoss {
    /// Time since the common start.
    pub after: Nanos,
    /// The observation.
    pub why: String,
}

/// The result of one node in a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ClientLoadNodeResult {
    /// Its name.
    pub node: String,
    /// Its clock, read just before the start.
    pub clock: ClockOffset,
    /// How long after the agreed instant it began, by that offset; unknown in virtual time, and of
    /// a node that was lost.
    pub began_ns: Option<i64>,
    /// Length of its measured part.
    pub length: Nanos,
    /// Its operations.
    pub stats: OpStats,
    /// Figures of its generator.
    pub generator: GeneratorStats,
    /// When and how it was lost, if it was: then this is what it had reported until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<ClientLoadNodeLoss>,
}

impl ClientLoadNodeResult {
    /// Operations per second.
    pub fn ops_per_s(&self) -> f64 {
        ratio(self.stats.ops() as f64, self.length.as_secs_f64())
    }
}
