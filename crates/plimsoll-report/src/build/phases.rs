// SPDX-License-Identifier: Apache-2.0
//! The phases of a workload: one row per phase and system.

use plimsoll_core::event::{OpStats, PhaseResult, WorkerResult};
use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::ratio;
use plimsoll_core::op::OpKind;

use super::quantity_of;
use super::view::ArmTrials;
use crate::model::{ChartQuantity, ReportTable, ReportTableCell};
use crate::words;

/// Every phase with its result, its wall time, the CPU it took and its slowest operations.
pub(super) fn table(pools: &[ArmTrials<'_>]) -> ReportTable {
    let mut table = ReportTable::new(
        "Phase by phase",
        &[
            "Phase",
            "System",
            "#Result",
            "~#Wall time",
            "~#CPU",
            "#p99 response",
            "#Slowest operation",
            "#Fairness",
        ],
    );
    for name in names(pools) {
        let mut first = true;
        for pool in pools {
            let phases: Vec<&PhaseResult> = pool
                .trials
                .iter()
                .filter_map(|trial| trial.phases.iter().find(|phase| phase.name == name))
                .collect();
            if phases.is_empty() {
                continue;
            }
            let shown = if first { name } else { "" };
            table.rows.push(row(shown, pool, &phases));
            first = false;
        }
    }
    table.notes.push(
        "Means over blocks, with the range over blocks below. CPU: user and system time of this \
         program over wall time; 100 % is one processor. Times exclude syncs. Fairness: Jain’s \
         index of the workers’ own rates; 1 is even."
            .into(),
    );
    table
}

/// Names of the phases in the order in which they ran.
fn names<'a>(pools: &[ArmTrials<'a>]) -> Vec<&'a str> {
    let trials = pools.iter().flat_map(|pool| pool.trials.iter());
    let mut names: Vec<&str> = Vec::new();
    for phase in trials.flat_map(|trial| &trial.phases) {
        if !names.contains(&phase.name.as_str()) {
            names.push(&phase.name);
        }
    }
    names
}

fn row(shown: &str, pool: &ArmTrials<'_>, phases: &[&PhaseResult]) -> Vec<ReportTableCell> {
    let of = |value: fn(&PhaseResult) -> f64| -> Vec<f64> {
        phases.iter().map(|phase| value(phase)).collect()
    };
    let quantity = quantity_of(phases[0].metric);
    let cpu = mean(&of(|phase| {
        let cpu = phase.user_cpu_ns + phase.system_cpu_ns;
        ratio(cpu as f64, phase.wall.0 as f64)
    }));
    vec![
        ReportTableCell::new(shown),
        ReportTableCell::new(pool.name()),
        words::spread_with_unit(&of(|phase| phase.value), quantity),
        words::spread(&of(|phase| phase.wall.0 as f64), ChartQuantity::Duration),
        ReportTableCell::new(format!("{:.0} %", cpu * 100.0)),
        time(phases, |phase| {
            let all = transfers(phase);
            all.supports_quantile(0.99)
                .then(|| all.quantile_ns(0.99) as f64)
        }),
        time(phases, |phase| {
            let all = transfers(phase);
            (all.count() > 0).then(|| all.max_ns() as f64)
        }),
        fairness(phases),
    ]
}

/// Response times of a phase without its syncs, which take far longer and would pass for those of
/// writes; of these where there is nothing else.
pub(super) fn transfers(phase: &PhaseResult) -> Histogram {
    let is_sync =
        |kind: OpKind| matches!(kind, OpKind::Fsync | OpKind::Fdatasync | OpKind::SyncRange);
    let mut others = OpStats::default();
    let kinds = phase.stats.0.iter().filter(|(kind, _)| !is_sync(**kind));
    for (kind, stats) in kinds {
        others.0.insert(*kind, stats.clone());
    }
    let others = others.response();
    match others.count() {
        0 => phase.stats.response(),
        _ => others,
    }
}

fn mean(values: &[f64]) -> f64 {
    ratio(values.iter().sum(), values.len() as f64)
}

/// A time that programs do not report.
fn time(phases: &[&PhaseResult], value: fn(&PhaseResult) -> Option<f64>) -> ReportTableCell {
    let values: Vec<f64> = phases.iter().filter_map(|phase| value(phase)).collect();
    words::spread(&values, ChartQuantity::Duration)
}

fn fairness(phases: &[&PhaseResult]) -> ReportTableCell {
    let each = phases.iter().filter_map(|phase| jain(&phase.workers));
    let each: Vec<f64> = each.collect();
    if each.is_empty() {
        return words::dash();
    }
    ReportTableCell::new(format!("{:.3}", mean(&each)))
}

/// Jain's index of the workers' own rates (Jain, Chiu, Hawe 1984): the square of the sum over n
/// times the sum of the squares. `None` for fewer than two workers.
fn jain(workers: &[WorkerResult]) -> Option<f64> {
    let rate = |worker: &WorkerResult| {
        let work = if worker.bytes > 0 {
            worker.bytes
        } else {
            worker.ops
        };
        ratio(work as f64, worker.ended.since(worker.began).0 as f64)
    };
    let rates: Vec<f64> = workers.iter().map(rate).collect();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    let sum: f64 = rates.iter().sum();
    (rates.len() > 1 && squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::units::Nanos;

    #[test]
    fn syncs_do_not_pass_for_writes() {
        let stats = |ns: u64| {
            let mut response = Histogram::new();
            response.record(Nanos(ns));
            plimsoll_core::event::KindStats {
                service: response.clone(),
                response,
                ..Default::default()
            }
        };
        let phase = |kinds: &[(OpKind, u64)]| PhaseResult {
            name: "p".into(),
            metric: plimsoll_core::comparison::ComparisonMetric::OpsPerSecond,
            value: 1.0,
            wall: Nanos::SECOND,
            stats: OpStats(kinds.iter().map(|(kind, ns)| (*kind, stats(*ns))).collect()),
            user_cpu_ns: 0,
            system_cpu_ns: 0,
            workers: Vec::new(),
        };
        let both = phase(&[(OpKind::Write, 1_000), (OpKind::Fsync, 9_000_000)]);
        assert_eq!(transfers(&both).max_ns(), 1_000);
        assert_eq!(transfers(&phase(&[(OpKind::Fsync, 9_000)])).max_ns(), 9_000);
    }

    #[test]
    fn an_even_share_has_index_one_and_one_worker_alone_its_share() {
        let worker = |bytes| WorkerResult {
            began: Nanos(0),
            ended: Nanos::SECOND,
            ops: 1,
            bytes,
            ..WorkerResult::default()
        };
        let index = |bytes: &[u64]| {
            let workers: Vec<WorkerResult> = bytes.iter().map(|b| worker(*b)).collect();
            jain(&workers)
        };
        assert_eq!(index(&[5]), None);
        assert!((index(&[5, 5, 5]).unwrap() - 1.0).abs() < 1e-12);
        // (1 + 3)² / (2 × (1 + 9))
        assert!((index(&[1, 3]).unwrap() - 0.8).abs() < 1e-12);
    }
}
