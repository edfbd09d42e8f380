// SPDX-License-Identifier: Apache-2.0
//! Whether a system carried a load whose instants it could not delay.
//!
//! A system that is offered more than it serves has a backlog that grows for as long as the load
//! goes on; one that is merely busy has a backlog that comes and goes. The backlog at the end of a
//! trial cannot tell them apart, because a pause just before the end also leaves one. So the trial is
//! cut into batches long enough to be independent of each other, and the backlog must have grown
//! from batch to batch beyond what their own scatter explains (Student's t; the batches' scatter
//! holds that of the arrivals and of the service alike). It must also matter, and what was served
//! while there was a backlog must be less than the load's mean: else the system caught up with a
//! peak, and its response times say how.
//!
//! A system is called overloaded when that was so in more than half of the blocks.

use plimsoll_core::comparison::OverloadStats;
use plimsoll_core::event::{OpStats, TrialResult};
use plimsoll_core::num::{ratio, saturating_u32, to_usize};
use plimsoll_core::open_load::OpenLoad;
use plimsoll_core::units::Nanos;

use crate::student;
use crate::summary::SummaryStats;

/// Batches that a trial is cut into, at least this many less a quarter.
const BATCHES: usize = 20;

/// Steps that a trial must have: in less time nothing can be seen to grow.
const STEPS_MIN: usize = 12;

/// Confidence that the backlog of one trial grew. Blocks are asked as well.
const CONFIDENCE: f64 = 0.99;

/// A backlog below this share of the load at the end is none worth a verdict.
const SHARE_MIN: f64 = 0.03;

/// A backlog that began to grow in the second half (a cache that filled) must reach this share.
const LATE_SHARE_MIN: f64 = 0.1;

/// Share of all response time up to which the generator may itself have been late.
const OWN_LAG_MAX: f64 = 0.25;

/// Share of its time for which a worker that had this little left to wait could not keep up.
pub(crate) const BUSY_MAX: f64 = 0.9;

/// The load that was due and served in one trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialBacklog {
    /// Requests that were due.
    pub offered: u64,
    /// Those that had ended at the end.
    pub served: u64,
    /// Length.
    pub seconds: f64,
    /// Whether the backlog grew to the end.
    pub grew: bool,
}

/// Growth and work of one batch.
#[derive(Debug, Clone, Copy)]
struct Batch {
    due: f64,
    ended: f64,
    steps: f64,
    /// The backlog when it began.
    before: f64,
}

/// The backlog of an open loop; `None` when it was too short, or there was no load.
pub fn backlog(open: &OpenLoad) -> Option<TrialBacklog> {
    let step = Nanos(open.step.0.max(1));
    let last_due = open.due.iter().rposition(|due| *due > 0)?;
    // The end may lie within a step.
    let planned = open.length.map(|length| length.0.div_ceil(step.0));
    let steps = planned.map_or(last_due + 1, to_usize).max(1);
    let of = |counts: &[u64]| -> Vec<u64> {
        let counts = counts.iter().copied().chain(std::iter::repeat(0));
        counts.take(steps.min(1 << 20)).collect()
    };
    let (due, ended) = (of(&open.due), of(&open.ended));
    let (offered, served) = (due.iter().sum::<u64>(), ended.iter().sum::<u64>());
    Some(TrialBacklog {
        offered,
        served: served.min(offered),
        seconds: open
            .length
            .map_or(steps as f64 * step.as_secs_f64(), |length| {
                length.as_secs_f64()
            }),
        grew: due.len() >= STEPS_MIN && grew(&batches(&due, &ended)),
    })
}

fn batches(due: &[u64], ended: &[u64]) -> Vec<Batch> {
    let length = due.len().div_ceil(BATCHES);
    let mut before = 0.0;
    let pairs = due.chunks(length).zip(ended.chunks(length));
    pairs
        .map(|(due, ended)| {
            let sum = |counts: &[u64]| counts.iter().sum::<u64>() as f64;
            let batch = Batch {
                due: sum(due),
                ended: sum(ended),
                steps: due.len() as f64,
                before,
            };
            before += batch.due - batch.ended;
            batch
        })
        .collect()
}

fn grew(batches: &[Batch]) -> bool {
    let half = &batches[batches.len() / 2..];
    let early = grew_steadily(batches, SHARE_MIN);
    (early || grew_steadily(half, LATE_SHARE_MIN)) && is_below_the_load(batches)
}

/// Whether the backlog grew by this share of the load, from batch to batch beyond their scatter.
fn grew_steadily(batches: &[Batch], share_min: f64) -> bool {
    let growth = |batch: &Batch| (batch.due - batch.ended) / batch.steps;
    let Some(summary) = SummaryStats::of(batches.iter().map(growth)) else {
        return false;
    };
    let due: f64 = batches.iter().map(|batch| batch.due).sum();
    let grown: f64 = batches.iter().map(|batch| batch.due - batch.ended).sum();
    let n = batches.len();
    if n < 3 || grown <= 0.0 || grown < share_min * due {
        return false;
    }
    let variation = summary.variation.unwrap_or(f64::INFINITY);
    summary.mean > 0.0 && variation * student::quantile(CONFIDENCE, n - 1) < (n as f64).sqrt()
}

/// Whether less was served while there was a backlog than the load is in the mean.
fn is_below_the_load(batches: &[Batch]) -> bool {
    let sum = |of: fn(&Batch) -> f64, among: &[&Batch]| among.iter().map(|b| of(b)).sum::<f64>();
    let all: Vec<&Batch> = batches.iter().collect();
    let last = sum(|b| b.due, &all) - sum(|b| b.ended, &all);
    let behind: Vec<&Batch> = batches.iter().filter(|b| b.before > last / 2.0).collect();
    let served = ratio(sum(|b| b.ended, &behind), sum(|b| b.steps, &behind));
    let offered = ratio(sum(|b| b.due, &all), sum(|b| b.steps, &all));
    !behind.is_empty() && served < offered
}

/// Whether the generator itself was late by too large a share of the response times to call the
/// storage overloaded, or had no time left.
pub fn generator_was_late(trial: &TrialResult, stats: &OpStats, open: &OpenLoad) -> bool {
    let own = stats.lag().sum_ns().saturating_sub(open.queue_lag_ns);
    let share = ratio(own as f64, stats.response().sum_ns() as f64);
    share > OWN_LAG_MAX || generator_was_busy(trial)
}

/// Whether its workers spent nearly all their time choosing, stamping and recording operations.
pub fn generator_was_busy(trial: &TrialResult) -> bool {
    let workers = trial.workers.len().max(1) as f64;
    let busy = trial.generator.outside_ns as f64;
    busy > BUSY_MAX * workers * trial.length.0 as f64
}

/// The share of an open loop that the trials of one arm served under one workload, or in one of its phases;
/// `None` when none of them is one that can tell.
pub fn carried<'a>(
    trials: impl Iterator<Item = &'a TrialResult>,
    phase: Option<&str>,
) -> Option<OverloadStats> {
    let (mut offered, mut served, mut seconds) = (0, 0, 0.0);
    let (mut blocks, mut overloaded, mut unfinished) = (0_u64, 0_u64, 0);
    let able = |t: &&TrialResult| !t.interrupted && t.bad_data().is_none() && !t.was_held_up();
    for trial in trials.filter(able) {
        let open = &trial.generator.open;
        let Some(open) = open.iter().find(|open| open.phase == phase.unwrap_or("")) else {
            continue;
        };
        let own = trial.phases.iter().find(|p| Some(&*p.name) == phase);
        let stats = own.map_or(&trial.stats, |phase| &phase.stats);
        let Some(left) = backlog(open) else { continue };
        blocks += 1;
        overloaded += u64::from(left.grew && !generator_was_late(trial, stats, open));
        offered += left.offered;
        served += left.served;
        seconds += left.seconds;
        unfinished += trial.generator.unfinished;
    }
    let behind = offered as f64 - served as f64;
    (blocks > 0 && seconds > 0.0).then(|| OverloadStats {
        offered_per_s: offered as f64 / seconds,
        served_per_s: served as f64 / seconds,
        backlog: behind / blocks as f64,
        backlog_growth_per_s: behind / seconds,
        blocks_overloaded: saturating_u32(overloaded),
        blocks: saturating_u32(blocks),
        unfinished,
    })
}
