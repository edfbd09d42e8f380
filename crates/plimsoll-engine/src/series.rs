// SPDX-License-Identifier: Apache-2.0
//! Plays the phases of a series one after another, and makes a result of each.
//!
//! Data of a phase are laid out before its clock starts, so preparation is in no measured time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_core::comparison::ComparisonMetric;
use plimsoll_core::event::{PhaseResult, TrialInterval};
use plimsoll_core::num::ratio;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::Workload;
use plimsoll_core::workload::files::{FileLoopSelection, FileOp};
use plimsoll_core::workload::series::{PhaseSpec, PhaseWorkload};

use crate::act::{PhaseRun, PhaseRunWorkload};
use crate::error::EngineError;
use crate::file_loop::FileLoopRun;
use crate::outcome::{RunOptions, RunResult};
use crate::prepare::PreparedWorkload;

/// Who hears of the seconds of a phase, and who says when it starts.
type PhaseHooks<'a> = (
    &'a mut dyn FnMut(TrialInterval),
    &'a mut dyn FnMut() -> Option<Nanos>,
);

impl PreparedWorkload {
    pub(crate) fn run_series(
        &mut self,
        options: &RunOptions,
        stop: &AtomicBool,
        on_interval: &mut dyn FnMut(TrialInterval),
        next: &mut dyn FnMut(u32) -> Option<Nanos>,
    ) -> Result<RunResult, EngineError> {
        let Workload::Series(series) = self.workload.clone() else {
            return Err(EngineError::Workload("only a series has phases".into()));
        };
        let mut whole = RunResult::default();
        // Where the phase begins on the clock of the intervals.
        let mut origin = Nanos(0);
        for (number, phase) in (0..).zip(&series.phases) {
            let mut start = || next(number);
            let options = RunOptions {
                length: limit(phase, options.length),
                warmup: Nanos(0),
                seed: options.seed.derive("phase", number.into()),
                stamp_seed: options.stamp_seed.derive("phase", number.into()),
                bytes: None,
                ..*options
            };
            let mut covered = Nanos(0);
            let mut shifted = |interval: TrialInterval| {
                covered = covered.max(interval.start + interval.length);
                on_interval(TrialInterval {
                    start: origin + interval.start,
                    ..interval
                });
            };
            let outcome = match self.play_phase(phase, &options, stop, (&mut shifted, &mut start)) {
                // Between two phases, or while the next was laid out: what was measured is kept.
                Err(EngineError::Stopped(_)) if !whole.phases.is_empty() => {
                    whole.interrupted = true;
                    break;
                }
                // So it is when a later phase cannot be done.
                Err(error) if !whole.phases.is_empty() => {
                    whole.failed = Some(error.in_phase(&phase.name).to_string());
                    break;
                }
                played => played.map_err(|error| error.in_phase(&phase.name))?,
            };
            origin = origin + covered;
            add(&mut whole, phase, outcome);
            if whole.interrupted || whole.failed.is_some() {
                break;
            }
        }
        Ok(whole)
    }

    /// Lays out what the phase needs and plays it.
    fn play_phase(
        &mut self,
        phase: &PhaseSpec,
        options: &RunOptions,
        stop: &AtomicBool,
        (on_interval, start): PhaseHooks<'_>,
    ) -> Result<RunResult, EngineError> {
        let stopped = || EngineError::Stopped(format!("play the phase '{}'", phase.name));
        if stop.load(Ordering::Relaxed) {
            return Err(stopped());
        }
        let seed = options.seed;
        let play = match &phase.body {
            PhaseWorkload::Blocks(blocks) => {
                self.ground.lay_out(blocks, seed, stop)?;
                self.ground.begin(blocks)?;
                None
            }
            PhaseWorkload::Files(files) => {
                let trees = (self.ground).lay_out_sets(files, &mut self.sets, seed, stop)?;
                Some(Arc::new(FileLoopRun::new(files, trees)))
            }
        };
        if phase.cold {
            self.ground.go_cold(&phase.body)?;
        }
        let options = &RunOptions {
            start_at: start().ok_or_else(stopped)?,
            ..*options
        };
        let body = match (&phase.body, &play) {
            (PhaseWorkload::Files(files), Some(play)) => PhaseRunWorkload::Files(files, play),
            (PhaseWorkload::Blocks(blocks), _) => PhaseRunWorkload::Blocks(blocks),
            (PhaseWorkload::Files(files), None) => {
                let text = format!("'{}' was not prepared", files.name);
                return Err(EngineError::Workload(text));
            }
        };
        let act = PhaseRun {
            ground: &self.ground,
            body,
            choice: self.choice,
            options,
            stonewall: phase.stonewall,
            registers: None,
        };
        act.run_verified(stop, on_interval)
    }
}

/// How long the phase may take: its own limit, or, where its work has no end, the run's length.
fn limit(phase: &PhaseSpec, length: Nanos) -> Nanos {
    let ends = match &phase.body {
        PhaseWorkload::Blocks(blocks) => blocks.groups.iter().all(crate::blocks::ends_by_itself),
        PhaseWorkload::Files(files) => files.ends_by_itself(),
    };
    let otherwise = if ends { Nanos::MAX } else { length };
    phase.limit.unwrap_or(otherwise)
}

fn add(whole: &mut RunResult, phase: &PhaseSpec, mut outcome: RunResult) {
    let result = phase_result(phase, &outcome);
    // Each phase has a time of its own.
    for open in &mut outcome.generator.open {
        open.phase.clone_from(&phase.name);
    }
    let held_up = whole.generator.held_up + outcome.generator.held_up;
    whole.length = whole.length + result.wall;
    whole.stats.merge(&outcome.stats);
    whole.generator.add(&outcome.generator);
    whole.generator.held_up = held_up;
    if let Some(check) = outcome.data_check {
        whole.data_check.get_or_insert_default().merge(check);
    }
    whole.began_at = whole.began_at.or(outcome.began_at);
    whole.interrupted |= outcome.interrupted;
    whole.failed = outcome
        .failed
        .map(|text| format!("phase '{}' {text}", phase.name));
    whole.phases.push(result);
}

fn phase_result(phase: &PhaseSpec, outcome: &RunResult) -> PhaseResult {
    let ends = outcome.workers.iter().map(|worker| worker.ended);
    let wall = ends.max().unwrap_or(outcome.length);
    let seconds = wall.as_secs_f64();
    let ops: u64 = outcome.workers.iter().map(|worker| worker.ops).sum();
    let bytes: u64 = outcome.workers.iter().map(|worker| worker.bytes).sum();
    PhaseResult {
        name: phase.name.clone(),
        metric: phase.metric,
        value: match phase.metric {
            ComparisonMetric::BytesPerSecond => ratio(bytes as f64, seconds),
            ComparisonMetric::OpsPerSecond => ratio(ops as f64 / per_turn(&phase.body), seconds),
            ComparisonMetric::WallTime => wall.0 as f64,
            // No phase is measured by anything else.
            _ => outcome.stats.response().mean_ns(),
        },
        wall,
        stats: outcome.stats.clone(),
        user_cpu_ns: outcome.generator.user_cpu_ns,
        system_cpu_ns: outcome.generator.system_cpu_ns,
        workers: outcome.workers.clone(),
    }
}

/// Operations that workers count for one turn of a phase. A list that is carried out once for each
/// file is one turn, whatever is in it: its rate is files per second.
fn per_turn(body: &PhaseWorkload) -> f64 {
    let PhaseWorkload::Files(files) = body else {
        return 1.0;
    };
    let (FileLoopSelection::Each(_), Some(group)) = (files.over, files.groups.first()) else {
        return 1.0;
    };
    let counted = group.ops.iter().filter(|op| {
        op.op.is_operation() && !matches!(op.op, FileOp::Fsync | FileOp::Fdatasync | FileOp::Close)
    });
    // A list may be longer than 32 bits can count.
    let repeats: u64 = counted.map(|op| u64::from(op.repeat)).sum();
    repeats.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::workload::FileLoop;
    use plimsoll_core::workload::files::{
        FileLoopOp, FileLoopOrder, FileSet, FileSizeDistribution,
    };

    #[test]
    fn the_operations_of_a_turn_are_more_than_32_bits_count() {
        let often = FileLoopOp {
            repeat: 1_000_000,
            ..FileLoopOp::from(FileOp::Stat)
        };
        let set = FileSet::flat("set", 1, 0, FileSizeDistribution::Constant);
        let mut files = FileLoop::of("f", set, 1, vec![often; 5_000]);
        files.over = FileLoopSelection::Each(FileLoopOrder::Numbered);
        let turns = per_turn(&PhaseWorkload::Files(files));
        assert!((turns - 5e9).abs() < 1.0, "{turns}");
    }
}
