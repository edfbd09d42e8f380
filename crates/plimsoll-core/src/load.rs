// SPDX-License-Identifier: Apache-2.0
//! Tasks of a node, its reports, and how the results of all nodes become one. This machine is a
//! node like any other.
//!
//! Every node plays the whole workload, so the load is that of one machine times the number of
//! nodes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::comparison::ComparisonMetric;
use crate::data_check::DataCheck;
use crate::event::{
    ClientLoadNodeResult, PhaseResult, TrialId, TrialInterval, TrialResult, WorkloadEntry,
};
use crate::evidence::MachineUse;
use crate::num::ratio;
use crate::op::EngineChoice;
use crate::recording::{CaptureBatch, CaptureHeader, CaptureStats, CaptureTask};
use crate::rng::Seed;
use crate::target::NodeTarget;
use crate::units::Nanos;

/// Something a node does with its data plane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AgentTask {
    /// Write-verify: check that a target keeps written data.
    Prove {
        /// Its name in errors.
        name: String,
        /// Where it works.
        target: NodeTarget,
        /// Seed of the written data.
        seed: Seed,
    },
    /// Play one trial.
    Play(Box<AgentTrialTask>),
    /// Record what disks do.
    Record(CaptureTask),
}

/// One trial, for one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentTrialTask {
    /// Which trial.
    pub trial: TrialId,
    /// The workload to play.
    pub entry: WorkloadEntry,
    /// Where.
    pub target: NodeTarget,
    /// Whether the directory that it names is made for this trial, in one that is there: removing files
    /// while a server is down may leave some of them, so no other trial could work there.
    pub fresh: bool,
    /// Paths that earlier trials wrote to: the data are on the disks, and these are quiet, before
    /// this trial begins.
    pub settle: Vec<PathBuf>,
    /// A directory that is not on the target, for programs.
    pub scratch: Option<PathBuf>,
    /// Seed of all randomness of this node.
    pub seed: Seed,
    /// Stamp of its writes, where they are verified.
    pub stamp_seed: Seed,
    /// Time before the measured part.
    pub warmup: Nanos,
    /// Length of the intervals that are reported.
    pub step: Nanos,
    /// Bytes of its measured part after which it ends, if that is before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Play whole recordings instead of slices.
    pub whole: bool,
    /// How operations reach the kernel.
    pub engine: EngineChoice,
    /// When what is written is verified.
    pub data_check: DataCheck,
    /// Addresses of the servers, to which round trips are measured meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<String>,
}

/// Event that a node reports of its task, in order. The task is over with [`AgentEvent::Played`],
/// [`AgentEvent::Proved`], [`AgentEvent::Ended`] or [`AgentEvent::Failed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AgentEvent {
    /// It is working, and has nothing else to report.
    Alive,
    /// Everything is laid out; it waits for the instant at which all start.
    Prepared {
        /// How long that took.
        took: Nanos,
    },
    /// A note for readers of the result.
    Note(String),
    /// A phase of a series is laid out; it waits for the instant at which all start it.
    PhaseReady,
    /// A second of the measured part has passed.
    Second(TrialInterval),
    /// The trial is over.
    Played(Box<AgentTrialResult>),
    /// The failure of the target, if it has one.
    Proved(Option<AgentFailure>),
    /// A recording begins.
    Recording(Box<CaptureHeader>),
    /// Recorded data, and statistics of the recording so far.
    Recorded(Box<CaptureBatch>, Box<CaptureStats>),
    /// The recording is over.
    Ended(Box<CaptureStats>),
    /// It could not be done, and why.
    Failed(AgentFailure),
}

/// Why a task could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentFailure {
    /// Of what kind it is.
    pub kind: AgentFailureKind,
    /// The failure, as a sentence.
    pub text: String,
    /// Advice on how to fix it.
    pub hint: Option<String>,
}

/// Kinds of failures, which end the program with different codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentFailureKind {
    /// A failure of the machine, or of this program.
    Failed,
    /// The request cannot be carried out.
    Usage,
    /// Data were lost or changed.
    BadData,
    /// Something that was made could not be removed.
    NotCleaned,
    /// It was stopped.
    Interrupted,
}

impl From<&str> for AgentFailure {
    fn from(text: &str) -> Self {
        AgentFailure {
            kind: AgentFailureKind::Failed,
            text: text.into(),
            hint: None,
        }
    }
}

impl AgentEvent {
    /// Whether nothing more comes of the task.
    pub fn is_last(&self) -> bool {
        matches!(
            self,
            AgentEvent::Played(_)
                | AgentEvent::Proved(_)
                | AgentEvent::Ended(_)
                | AgentEvent::Failed(_)
        )
    }
}

/// Result of a node in a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentTrialResult {
    /// Its own result.
    pub result: TrialResult,
    /// When it began, on the clock of its machine; unknown in virtual time.
    pub began_at: Option<Nanos>,
}

/// From the first node that began to the last one; `None` when fewer than two are known.
pub fn start_spread(nodes: &[ClientLoadNodeResult]) -> Option<Nanos> {
    let began: Vec<i64> = nodes.iter().filter_map(|node| node.began_ns).collect();
    let (first, last) = (began.iter().min()?, began.iter().max()?);
    (began.len() > 1).then(|| Nanos(last.abs_diff(*first)))
}

/// Evenness of shares: Jain's index (Jain, Chiu and Hawe 1984), 1 when all are equal, 1/n when one share is
/// the whole total; `None` for fewer than two shares or a total of 0.
pub fn evenness(shares: &[f64]) -> Option<f64> {
    let total: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    let count = shares.len() as f64;
    (shares.len() > 1 && total > 0.0).then(|| total * total / (count * squares))
}

/// The share of its nodes that a trial may lose and still be an answer: for the load that was really
/// offered.
pub const LOST_SHARE: f64 = 0.05;

/// The number of nodes that a trial on `nodes` nodes may lose, rounded down: 0 where they are few.
pub fn lost_max(nodes: usize, share: f64) -> usize {
    let most = (0..=nodes).rev();
    // Rounded down, whatever the last digit of a product is.
    let is_within = |lost: &usize| *lost as f64 <= share * nodes as f64 * (1.0 + f64::EPSILON);
    most.into_iter().find(is_within).unwrap_or(0)
}

/// The results of all nodes as one: histograms and counts are added exactly, rates are over the
/// longest measured part. `parts` has the account of every node, with its own result unless it was
/// lost. When more than `lost_max` were, the trial failed.
pub fn pool(
    trial: &TrialId,
    parts: Vec<(ClientLoadNodeResult, Option<TrialResult>)>,
    lost_max: usize,
) -> TrialResult {
    let mut pooled = TrialResult::of(trial.clone());
    let lost = parts.iter().filter(|(node, _)| node.lost.is_some());
    let is_too_little = lost.count() > lost_max;
    for (node, own) in parts {
        let name = &node.node;
        pooled.length = pooled.length.max(node.length);
        pooled.stats.merge(&node.stats);
        pooled.generator.add(&node.generator);
        let counted = node.lost.as_ref().filter(|_| is_too_little);
        let mut failed = counted.map(|lost| {
            format!(
                "node {name} was lost {} after the start: {}",
                crate::units::clock_duration(lost.after),
                lost.why
            )
        });
        if let Some(own) = own {
            pooled.prepare = pooled.prepare.max(own.prepare);
            pooled.workers.extend(own.workers);
            add_phases(&mut pooled.phases, own.phases);
            pooled
                .fidelity
                .extend(own.fidelity.into_iter().map(|mut line| {
                    line.metric = format!("{} ({name})", line.metric);
                    line
                }));
            pooled.interrupted |= own.interrupted;
            pooled
                .machines
                .extend(own.machines.into_iter().map(|used| MachineUse {
                    machine: name.clone(),
                    ..used
                }));
            pooled.others = match (pooled.others.take(), own.others) {
                (Some(all), Some(of_this)) => Some(all.and(&of_this)),
                (all, of_this) => all.or(of_this),
            };
            failed = failed.or_else(|| own.failed.map(|why| format!("node {name}: {why}")));
            if let Some(check) = own.data_check {
                pooled.data_check.get_or_insert_default().merge(check);
            }
        }
        pooled.failed = pooled.failed.or(failed);
        pooled.nodes.push(node);
    }
    pooled
}

/// Phases of the same number belong together. A phase that not all nodes came to is what those did
/// that came to it.
fn add_phases(pooled: &mut Vec<PhaseResult>, own: Vec<PhaseResult>) {
    for (number, phase) in own.into_iter().enumerate() {
        match pooled.get_mut(number) {
            Some(sum) => add_phase(sum, phase),
            None => pooled.push(phase),
        }
    }
}

fn add_phase(sum: &mut PhaseResult, phase: PhaseResult) {
    let wall = sum.wall.max(phase.wall);
    // Values per second were counted over each node's own time.
    let counted = |one: &PhaseResult| one.value * one.wall.as_secs_f64();
    let both = counted(sum) + counted(&phase);
    sum.stats.merge(&phase.stats);
    sum.value = match sum.metric {
        ComparisonMetric::OpsPerSecond | ComparisonMetric::BytesPerSecond => {
            ratio(both, wall.as_secs_f64())
        }
        ComparisonMetric::WallTime => wall.0 as f64,
        ComparisonMetric::OutputSize => sum.value + phase.value,
        // No phase is measured by anything else.
        _ => sum.stats.response().mean_ns(),
    };
    sum.wall = wall;
    sum.user_cpu_ns += phase.user_cpu_ns;
    sum.system_cpu_ns += phase.system_cpu_ns;
    sum.workers.extend(phase.workers);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock_offset::ClockOffset;
    use crate::event::{ClientLoadNodeLoss, GeneratorStats, OpStats};
    use crate::op::OpKind;

    fn stats(times: &[u64]) -> OpStats {
        let mut stats = OpStats::default();
        for ns in times {
            let kind = stats.0.entry(OpKind::Read).or_default();
            kind.service.record(Nanos(*ns));
            kind.response.record(Nanos(*ns));
        }
        stats
    }

    fn account(
        node: &str,
        times: &[u64],
        lost: Option<ClientLoadNodeLoss>,
    ) -> ClientLoadNodeResult {
        ClientLoadNodeResult {
            node: node.into(),
            clock: ClockOffset::default(),
            began_ns: Some(times.len() as i64),
            length: Nanos::SECOND,
            stats: stats(times),
            generator: GeneratorStats {
                engine: "sync".into(),
                ops: times.len() as u64,
                ..GeneratorStats::default()
            },
            lost,
        }
    }

    fn phase(ops_per_s: f64, seconds: u64) -> PhaseResult {
        PhaseResult {
            name: "write".into(),
            metric: ComparisonMetric::OpsPerSecond,
            value: ops_per_s,
            wall: Nanos(seconds * Nanos::SECOND.0),
            stats: OpStats::default(),
            user_cpu_ns: 1,
            system_cpu_ns: 1,
            workers: Vec::new(),
        }
    }

    fn trial() -> TrialId {
        TrialId {
            block: 0,
            place: 3,
            arm: "a".into(),
            workload: "w".into(),
        }
    }

    #[test]
    fn tails_are_pooled_exactly_and_the_books_kept() {
        let (a, b) = (vec![10, 20, 30], vec![40, 1_000_000]);
        let own = |node: &ClientLoadNodeResult| {
            let mut own = pool(&trial(), vec![(node.clone(), None)], 0);
            own.nodes.clear();
            own.phases = vec![phase(100.0, node.stats.ops())];
            own
        };
        let parts: Vec<_> = [account("n1", &a, None), account("n2", &b, None)]
            .into_iter()
            .map(|node| (node.clone(), Some(own(&node))))
            .collect();
        let pooled = pool(&trial(), parts, 0);
        let all: Vec<u64> = a.iter().chain(&b).copied().collect();
        assert_eq!(pooled.stats, stats(&all));
        assert_eq!(pooled.generator.ops, 5);
        assert_eq!(pooled.generator.engine, "sync");
        assert_eq!(pooled.nodes.len(), 2);
        assert_eq!(start_spread(&pooled.nodes), Some(Nanos(1)));
        assert!(pooled.is_comparable());
        // 300 operations in 3 s and 200 in 2 s are 500 in the 3 s that both took together.
        assert_eq!(pooled.phases[0].wall, Nanos(3 * Nanos::SECOND.0));
        assert!((pooled.phases[0].value - 500.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_trial_that_lost_a_node_keeps_the_others_and_is_not_compared() {
        let lost = ClientLoadNodeLoss {
            after: Nanos(3 * Nanos::SECOND.0),
            why: "the connection broke".into(),
        };
        let parts = vec![
            (account("n1", &[10], None), None),
            (account("n2", &[20], Some(lost)), None),
        ];
        let few = pool(&trial(), parts.clone(), 1);
        assert!(few.is_comparable() && few.lost_node().is_none());
        assert_eq!(few.lost_nodes().count(), 1);
        assert!((few.offered().unwrap() - 1.0).abs() < 1e-12);
        let pooled = pool(&trial(), parts, 0);
        assert_eq!(pooled.stats.ops(), 2);
        assert!(!pooled.is_comparable() && pooled.lost_node().is_some());
        let failed = pooled.failed.unwrap();
        assert!(
            failed.contains("node n2 was lost") && failed.contains("broke"),
            "{failed}"
        );
    }

    #[test]
    fn five_of_a_hundred_may_be_lost_and_none_of_a_few() {
        let of = |nodes| lost_max(nodes, LOST_SHARE);
        assert_eq!([1, 19, 20, 32, 512].map(of), [0, 0, 1, 1, 25]);
        assert_eq!(lost_max(520, LOST_SHARE), 26);
        assert_eq!((lost_max(3, 0.0), lost_max(3, 1.0)), (0, 3));
    }

    #[test]
    fn evenness_is_one_for_equal_shares_and_an_nth_for_one_that_has_all() {
        assert!((evenness(&[2.0, 2.0]).unwrap() - 1.0).abs() < 1e-12);
        assert!((evenness(&[4.0, 0.0]).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(evenness(&[4.0]), None);
        assert_eq!(evenness(&[0.0, 0.0]), None);
    }
}
