// SPDX-License-Identifier: Apache-2.0
//! One figure of one trial.

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::{OpStats, PhaseResult, TrialResult, WorkerResult, WorkloadEntry};
use plimsoll_core::evidence::MachineUse;
use plimsoll_core::experiment::{ExperimentFigure, ExperimentMetric};
use plimsoll_core::failover::ObserverResult;
use plimsoll_core::num::ratio;
use plimsoll_core::op::OpKind;

/// The value of a metric in one trial, or in one phase of it. `None` where the trial does not have it.
pub(super) fn trial_value(
    trial: &TrialResult,
    entry: &WorkloadEntry,
    phase: Option<&PhaseResult>,
    (metric, figure): (ExperimentMetric, &ExperimentFigure),
) -> Option<f64> {
    let measured = Measured::of(trial, phase);
    let value = match metric {
        ExperimentMetric::Own => match phase {
            Some(phase) => phase.value,
            None => trial.value(entry.workload.metric()?),
        },
        ExperimentMetric::Operations => {
            let done = phase.map_or(trial.done(), |phase| {
                phase.stats.ops().saturating_sub(phase.stats.errors())
            });
            measured.per_s(ComparisonMetric::OpsPerSecond, done as f64)?
        }
        ExperimentMetric::Throughput => measured.per_s(
            ComparisonMetric::BytesPerSecond,
            measured.stats.bytes() as f64,
        )?,
        ExperimentMetric::WallTime => measured.seconds * 1e9,
        ExperimentMetric::MeanResponse => measured.response(|all| all.mean_ns())?,
        ExperimentMetric::P99Response => {
            let all = measured.stats.response();
            all.supports_quantile(0.99)
                .then(|| all.quantile_ns(0.99) as f64)?
        }
        ExperimentMetric::LongestResponse => measured.response(|all| all.max_ns() as f64)?,
        ExperimentMetric::Preparation => trial.prepare.0 as f64,
        ExperimentMetric::CpuShare => ratio(measured.cpu_ns as f64 / 1e9, measured.seconds),
        ExperimentMetric::NetworkBytes => network_bytes(trial)?,
        ExperimentMetric::ServerBytes => {
            let moved = trial.servers.iter().map(|server| server.moved_bytes);
            let moved: u64 = moved.sum();
            (moved > 0 && trial.stats.bytes() > 0)
                .then(|| ratio(moved as f64, trial.stats.bytes() as f64))?
        }
        ExperimentMetric::DeviceBytes => {
            let device = trial.device.as_ref()?;
            let (served, asked) = (device.served, device.asked);
            let asked = asked.read_bytes + asked.written_bytes;
            (asked > 0).then(|| {
                ratio(
                    (served.read_bytes + served.written_bytes) as f64,
                    asked as f64,
                )
            })?
        }
        ExperimentMetric::SlowestWorker => measured.rates().reduce(f64::min)?,
        ExperimentMetric::FastestWorker => measured.rates().reduce(f64::max)?,
        ExperimentMetric::MeanWorker => {
            let rates: Vec<f64> = measured.rates().collect();
            (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)?
        }
        ExperimentMetric::FewestOperations => {
            measured.workers.iter().map(|worker| worker.ops).min()? as f64
        }
        ExperimentMetric::Evenness => {
            let rates: Vec<f64> = measured.rates().collect();
            (rates.len() > 1).then(|| plimsoll_core::load::evenness(&rates))??
        }
        ExperimentMetric::LongestWait => {
            let waits = measured.workers.iter().map(|worker| worker.longest_wait.0);
            waits.max().filter(|wait| *wait > 0)? as f64
        }
        ExperimentMetric::ClientCpu => per_mib(trial, client_cpu_ns(trial, figure)?)?,
        ExperimentMetric::ServerCpu => {
            let cpu_ns = trial.servers.iter().map(|server| server.cpu_ns);
            per_mib(trial, cpu_ns.sum())?
        }
        // Of all trials together.
        ExperimentMetric::Variation | ExperimentMetric::LoadLine => return None,
        of_fault => fault_value(trial, of_fault, figure)?,
    };
    value.is_finite().then_some(value)
}

/// A trial, or a phase of it.
struct Measured<'a> {
    stats: &'a OpStats,
    workers: &'a [WorkerResult],
    seconds: f64,
    cpu_ns: u64,
    /// Metric and value that a program reported instead of operations.
    reported: Option<(ComparisonMetric, f64)>,
}

impl<'a> Measured<'a> {
    fn of(trial: &'a TrialResult, phase: Option<&'a PhaseResult>) -> Measured<'a> {
        match phase {
            Some(phase) => Measured {
                stats: &phase.stats,
                workers: &phase.workers,
                seconds: phase.wall.as_secs_f64(),
                cpu_ns: phase.user_cpu_ns + phase.system_cpu_ns,
                reported: Some((phase.metric, phase.value)),
            },
            None => Measured {
                stats: &trial.stats,
                workers: &trial.workers,
                seconds: trial.length.as_secs_f64(),
                cpu_ns: trial.generator.user_cpu_ns + trial.generator.system_cpu_ns,
                reported: None,
            },
        }
    }

    fn per_s(&self, metric: ComparisonMetric, amount: f64) -> Option<f64> {
        if let Some((reported, value)) = self.reported
            && reported == metric
        {
            return Some(value);
        }
        (self.stats.ops() > 0).then(|| ratio(amount, self.seconds))
    }

    fn response(&self, of: fn(&plimsoll_core::histogram::Histogram) -> f64) -> Option<f64> {
        let all = self.stats.response();
        (!all.is_empty()).then(|| of(&all))
    }

    fn rates(&self) -> impl Iterator<Item = f64> {
        self.workers.iter().map(WorkerResult::ops_per_s)
    }
}

/// Processor time of the client: of one program of it where one is named, else of the load and all programs.
fn client_cpu_ns(trial: &TrialResult, figure: &ExperimentFigure) -> Option<u64> {
    let programs = || trial.client_programs.iter();
    if let Some(name) = &figure.program {
        return Some(programs().find(|used| used.server == *name)?.cpu_ns);
    }
    let (load, phases) = (&trial.generator, trial.phases.iter());
    let of_phases: u64 = phases.map(|one| one.user_cpu_ns + one.system_cpu_ns).sum();
    let own = (load.user_cpu_ns + load.system_cpu_ns).max(of_phases);
    Some(own + programs().map(|used| used.cpu_ns).sum::<u64>())
}

/// A processor time for each MiB of the workload.
fn per_mib(trial: &TrialResult, cpu_ns: u64) -> Option<f64> {
    let mib = trial.stats.bytes() as f64 / 1_048_576.0;
    (cpu_ns > 0 && mib > 0.0).then(|| cpu_ns as f64 / mib)
}

/// Bytes on the network per byte of the workload, both by their rates: machines are watched for a little
/// longer than operations are counted.
fn network_bytes(trial: &TrialResult) -> Option<f64> {
    let watched = trial.machines.iter().filter(|used| !used.links.is_empty());
    let per_s = |used: &MachineUse| ratio(used.network_bytes() as f64, used.length.as_secs_f64());
    let network: f64 = watched.map(per_s).sum();
    let user = ratio(trial.stats.bytes() as f64, trial.length.as_secs_f64());
    (network > 0.0 && user > 0.0).then(|| network / user)
}

/// Value of a metric of a fault.
fn fault_value(
    trial: &TrialResult,
    metric: ExperimentMetric,
    figure: &ExperimentFigure,
) -> Option<f64> {
    let fault = trial.fault.as_ref()?;
    let worst = |kind| Some(fault.outage.worst(kind)?.length.0 as f64);
    let observer = || {
        let wanted = figure.observer.as_deref();
        let of_name = |seen: &&ObserverResult| wanted.is_none_or(|name| name == seen.name);
        fault.observers.iter().find(of_name)
    };
    Some(match metric {
        ExperimentMetric::WriteOutage => worst(OpKind::Write)?,
        ExperimentMetric::ReadOutage => worst(OpKind::Read)?,
        ExperimentMetric::Degraded => fault.felt(ComparisonMetric::BrownOut)?.0 as f64,
        ExperimentMetric::Survived => {
            let sessions = &fault.outage.sessions;
            let survived = sessions.iter().filter(|session| session.survived).count();
            (!sessions.is_empty()).then(|| ratio(survived as f64, sessions.len() as f64))?
        }
        ExperimentMetric::Lost => {
            let missing: u64 = fault.observers.iter().map(|seen| seen.missing).sum();
            (fault.check.data.bad.total() + missing) as f64
        }
        ExperimentMetric::ObserverDone => observer()?.ops as f64,
        ExperimentMetric::ObserverFailed => observer()?.errors as f64,
        ExperimentMetric::ObserverStill => observer()?.still?.0 as f64,
        _ => return None,
    })
}
