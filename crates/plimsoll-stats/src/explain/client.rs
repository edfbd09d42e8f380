// SPDX-License-Identifier: Apache-2.0
//! The machines that the load comes from: whether they had processors enough.

use plimsoll_core::event::{GeneratorStats, TrialResult};
use plimsoll_core::explanation::{EvidenceFigure, EvidenceUnit, ExplanationCause};
use plimsoll_core::num::ratio;
use plimsoll_core::units::Nanos;

use super::{ArmEvidence, CauseFinding, NO_MACHINES, TrialSign, machines, over_trials};
use crate::overload::{BUSY_MAX, generator_was_busy};

/// Making the load may take this share of the processors' time: where nothing is left, the storage
/// waits for the processors as well.
pub(super) const CPU_SHARE_MAX: f64 = 0.8;
/// A worker that is on a processor for this share of its time has no more to give.
const WORKER_SHARE_MAX: f64 = 0.9;
/// Lag beyond this share of all response time is named. Shares of sums, because the mean is what is
/// compared, and lag adds to it as it is.
const LAG_SHARE: f64 = 0.1;
/// Threads of the load that waited this share of the time in which they wanted a processor …
const WAITED_SHARE: f64 = 0.2;
/// … and for this share of the trial, lost time that can be seen.
const WAITED_OF_TRIAL: f64 = 0.02;
/// Other programs that used less than this part of one processor did not make the load wait.
const OTHERS_CPUS: f64 = 0.25;
/// A processor that was busy for this share of the time is taken.
const CPU_TAKEN: f64 = 0.9;
/// Time given to other machines that is named.
const STEAL_SHARE: f64 = 0.05;
/// A busy processor whose mean frequency is below this share of its highest is slowed.
const FREQUENCY_SHARE: f64 = 0.7;
/// Periods a second in which the limit of processor time was hit; there are ten in a second …
const LIMIT_HITS_PER_S: f64 = 0.5;
/// … and the time for which processors were then held back, of the trial.
const LIMIT_SHARE: f64 = 0.05;

/// Other programs on the processors that the load waited for.
pub(super) fn other_programs(evidence: &ArmEvidence<'_>) -> CauseFinding {
    if evidence.is_virtual() {
        return CauseFinding::NotApplicable;
    }
    let cause = ExplanationCause::OtherPrograms;
    over_trials(evidence, cause, "", NO_MACHINES, |trial, _| {
        let Some(others) = &trial.others else {
            return TrialSign::Missing;
        };
        let waits = machines(trial).filter_map(|used| Some((used, used.load_threads?)));
        let worst = waits.max_by(|a, b| a.1.waited.cmp(&b.1.waited));
        let Some((used, threads)) = worst else {
            return TrialSign::Missing;
        };
        let of_trial = ratio(threads.waited.0 as f64, used.length.0 as f64);
        let cpus = ratio(others.cpu_ns as f64, others.length.0 as f64);
        let fullest = used.cpus.iter().map(|cpu| cpu.busy.0).max().unwrap_or(0);
        let fullest = ratio(fullest as f64, used.length.0 as f64);
        let shown = threads.waited_share() >= WAITED_SHARE
            && of_trial >= WAITED_OF_TRIAL
            && cpus >= OTHERS_CPUS
            && fullest >= CPU_TAKEN;
        if !shown {
            return TrialSign::Absent;
        }
        TrialSign::Shown(vec![
            EvidenceFigure::new(
                "time load threads waited for a CPU, of the time they wanted one",
                threads.waited_share(),
                EvidenceUnit::Share,
                WAITED_SHARE,
            ),
            EvidenceFigure::new(
                "CPUs that other programs used",
                cpus,
                EvidenceUnit::Count,
                OTHERS_CPUS,
            ),
            EvidenceFigure::new(
                "busiest CPU",
                fullest.min(1.0),
                EvidenceUnit::Share,
                CPU_TAKEN,
            ),
        ])
    })
}

/// Processor time that a hypervisor gave to others.
pub(super) fn stolen(evidence: &ArmEvidence<'_>) -> CauseFinding {
    if evidence.is_virtual() {
        return CauseFinding::NotApplicable;
    }
    let cause = ExplanationCause::StolenProcessor;
    over_trials(evidence, cause, "", NO_MACHINES, |trial, _| {
        let Some(others) = &trial.others else {
            return TrialSign::Missing;
        };
        let share = others.steal_share();
        if share < STEAL_SHARE {
            return TrialSign::Absent;
        }
        let figure = "CPU time given to other virtual machines";
        TrialSign::Shown(vec![EvidenceFigure::new(
            figure,
            share,
            EvidenceUnit::Share,
            STEAL_SHARE,
        )])
    })
}

/// Processors that were slowed: by heat, by a limit of the group, or to save power.
pub(super) fn slowed(evidence: &ArmEvidence<'_>) -> CauseFinding {
    if evidence.is_virtual() {
        return CauseFinding::NotApplicable;
    }
    let missing = "neither frequency, heat nor limits of CPU time are visible here";
    let cause = ExplanationCause::SlowedProcessor;
    over_trials(evidence, cause, "", missing, |trial, _| {
        let mut is_known = false;
        for used in machines(trial) {
            let seconds = used.length.as_secs_f64();
            let busiest = used.cpus.first().map_or(0.0, |cpu| cpu.busy.as_secs_f64());
            is_known |= used.frequency.is_some()
                || used.heat_throttles.is_some()
                || used.cpu_limit_hits.is_some();
            let heat = used.heat_throttles.filter(|count| *count > 0);
            let hits = used.cpu_limit_hits.map(|hits| ratio(hits as f64, seconds));
            let waited = used.cpu_limit_waited;
            let waited = waited.map(|waited| ratio(waited.0 as f64, used.length.0 as f64));
            let hits = hits.filter(|per_s| {
                // Older runs have no times.
                *per_s >= LIMIT_HITS_PER_S && waited.is_none_or(|share| share >= LIMIT_SHARE)
            });
            let slow = used.frequency.map(|frequency| frequency.mean_share);
            let slow = slow.filter(|share| {
                *share < FREQUENCY_SHARE && ratio(busiest, seconds) >= CPU_TAKEN / 2.0
            });
            let figures: Vec<EvidenceFigure> = [
                heat.map(|count| {
                    let name = "times a CPU was throttled because of heat";
                    EvidenceFigure::new(name, count as f64, EvidenceUnit::Count, 1.0)
                }),
                hits.map(|per_s| {
                    let name = "times a second the CPU limit of the cgroup was reached";
                    EvidenceFigure::new(name, per_s, EvidenceUnit::Count, LIMIT_HITS_PER_S)
                }),
                hits.and(waited).map(|share| {
                    let name = "time for which CPUs were held back by it, of the trial";
                    EvidenceFigure::new(name, share, EvidenceUnit::Share, LIMIT_SHARE)
                }),
                slow.map(|share| {
                    let name = "mean CPU frequency, of the highest";
                    EvidenceFigure::up_to(name, share, EvidenceUnit::Share, FREQUENCY_SHARE)
                }),
            ]
            .into_iter()
            .flatten()
            .collect();
            if !figures.is_empty() {
                return TrialSign::Shown(figures);
            }
        }
        match is_known {
            true => TrialSign::Absent,
            false => TrialSign::Missing,
        }
    })
}

/// A generator that used up the processors, or a worker that used up its own.
pub(super) fn processor(evidence: &ArmEvidence<'_>) -> CauseFinding {
    if evidence.is_virtual() {
        return CauseFinding::NotApplicable;
    }
    if evidence.ran_elsewhere() {
        return CauseFinding::Unknown("the program reports no CPU time of its own");
    }
    let cause = ExplanationCause::ClientProcessor;
    over_trials(evidence, cause, "", NO_MACHINES, |trial, _| {
        let machine = cpu_share(evidence, trial);
        let worker = worker_share(trial);
        let is_busy = !trial.generator.open.is_empty() && generator_was_busy(trial);
        let shown = machine > CPU_SHARE_MAX || worker >= WORKER_SHARE_MAX || is_busy;
        if !shown {
            return TrialSign::Absent;
        }
        let workers = trial.workers.len().max(1) as f64 * trial.length.0 as f64;
        let making = ratio(trial.generator.outside_ns as f64, workers).min(1.0);
        TrialSign::Shown(vec![
            EvidenceFigure::new(
                "CPU time of the load, of all CPUs",
                machine.min(1.0),
                EvidenceUnit::Share,
                CPU_SHARE_MAX,
            ),
            EvidenceFigure::new(
                "CPU time of a worker, of its time",
                worker.min(1.0),
                EvidenceUnit::Share,
                WORKER_SHARE_MAX,
            ),
            EvidenceFigure::new(
                "time a worker spent making requests",
                making,
                EvidenceUnit::Share,
                BUSY_MAX,
            ),
        ])
    })
}

/// Share of its time for which a worker was on a processor, mean over the workers of this machine.
fn worker_share(trial: &TrialResult) -> f64 {
    let generator = &trial.generator;
    let spent = generator
        .user_cpu_ns
        .saturating_add(generator.system_cpu_ns);
    if generator.outside_ns == 0 || trial.workers.is_empty() {
        return 0.0;
    }
    ratio(
        spent as f64,
        trial.length.0 as f64 * trial.workers.len() as f64,
    )
}

/// Share of the processors' time that making the load took: of a machine's, or the largest of those
/// of the nodes. 0 in virtual time, where processor time is no part of anything.
pub(super) fn cpu_share(evidence: &ArmEvidence<'_>, trial: &TrialResult) -> f64 {
    let share = |generator: &GeneratorStats, length: Nanos, cpus: u32| {
        let spent = generator
            .user_cpu_ns
            .saturating_add(generator.system_cpu_ns);
        let is_virtual = generator.outside_ns == 0;
        let all = length.0 as f64 * f64::from(cpus);
        match is_virtual {
            true => 0.0,
            false => ratio(spent as f64, all),
        }
    };
    if trial.nodes.is_empty() {
        return share(&trial.generator, trial.length, evidence.machine.cpus);
    }
    let of = trial.nodes.iter().map(|node| {
        let found = evidence.load_nodes.iter().find(|one| one.name == node.node);
        found.map_or(0.0, |one| {
            share(&node.generator, node.length, one.machine.cpus)
        })
    });
    of.fold(0.0, f64::max)
}

/// Requests that left late although there was room for them, or not at all; over all trials, because
/// the mean over all is what is compared.
pub(super) fn late(evidence: &ArmEvidence<'_>) -> CauseFinding {
    if evidence.ran_elsewhere() {
        return CauseFinding::Unknown("the program does not tell when it meant to submit");
    }
    if evidence.entry.workload.waits_for_threads() {
        return CauseFinding::NotApplicable;
    }
    // Older runs do not record what waited for room in the queue.
    let is_split = evidence.results().any(|t| !t.generator.open.is_empty());
    let sum = |of: &dyn Fn(&TrialResult) -> u64| -> u64 { evidence.results().map(of).sum() };
    let lag = sum(&|t| t.stats.lag().sum_ns());
    let queue = sum(&|t| t.generator.queue_lag_ns());
    let response = sum(&|t| t.stats.response().sum_ns());
    let lost = sum(&|t| t.generator.not_submitted);
    let own = ratio(lag.saturating_sub(queue) as f64, response as f64);
    let lost = if is_split { 0 } else { lost };
    if own <= LAG_SHARE && lost == 0 {
        return CauseFinding::Excluded;
    }
    let name = match is_split {
        true => "response time before the submission, while the queue had room",
        false => "response time before the submission",
    };
    let mut figures = vec![EvidenceFigure::new(
        name,
        own,
        EvidenceUnit::Share,
        LAG_SHARE,
    )];
    if lost > 0 {
        let name = "requests never submitted";
        figures.push(EvidenceFigure::new(
            name,
            lost as f64,
            EvidenceUnit::Count,
            1.0,
        ));
    }
    let cause = ExplanationCause::GeneratorLate;
    over_trials(evidence, cause, "", NO_MACHINES, |_, _| {
        TrialSign::Shown(figures.clone())
    })
}
