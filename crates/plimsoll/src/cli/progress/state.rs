// SPDX-License-Identifier: Apache-2.0
//! State of a run while it goes on, from its events alone.

use plimsoll_core::comparison::ArmComparison;
use plimsoll_core::conditioning::SystemConditioningStart;
use plimsoll_core::event::{
    KindStats, OpStats, PhaseResult, RunEvent, RunManifest, RunWarning, TrialId, TrialInterval,
    TrialResult,
};
use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::{ratio, round_u64};
use plimsoll_core::op::OpKind;
use plimsoll_core::units::{self, Nanos};
use plimsoll_stats::load_line::{
    LoadLineInterval, LoadLineSearch, load_line_options, load_line_trial,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Seconds of an arm that are kept for its line.
const HISTORY_MAX: usize = 120;
/// Notes that are kept on the screen.
const NOTES_MAX: usize = 3;

/// The clock of the screen, which no result depends on.
#[expect(clippy::disallowed_methods, reason = "nothing is measured with it")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// Phase of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrialPhase {
    Preparing,
    Starting,
    Measuring,
}

impl TrialPhase {
    pub(super) fn name(self) -> &'static str {
        match self {
            TrialPhase::Preparing => "preparing",
            TrialPhase::Starting => "starting",
            TrialPhase::Measuring => "measuring",
        }
    }
}

/// Activity of an arm in its last second, and in those before.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ArmActivity {
    pub(super) ops_per_s: VecDeque<f64>,
    pub(super) bytes_per_s: f64,
    pub(super) p99: Option<Nanos>,
}

/// Figures of a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RunRates {
    pub(super) ops_per_s: f64,
    pub(super) bytes_per_s: f64,
    pub(super) p50: Option<Nanos>,
    pub(super) p99: Option<Nanos>,
}

impl RunRates {
    pub(super) fn of(stats: &OpStats, length: Nanos) -> RunRates {
        let response = stats.response();
        let quantile = |q| (!response.is_empty()).then(|| Nanos(response.quantile_ns(q)));
        RunRates {
            ops_per_s: ratio(stats.ops() as f64, length.as_secs_f64()),
            bytes_per_s: ratio(stats.bytes() as f64, length.as_secs_f64()),
            p50: quantile(0.5),
            p99: quantile(0.99),
        }
    }

    /// `12.3k ops/s · p99 2.31 ms`.
    pub(super) fn words(&self) -> String {
        let p99 = self.p99.map_or_else(|| "–".into(), units::duration);
        format!("{} ops/s · p99 {p99}", units::rate(self.ops_per_s))
    }
}

/// Line about conditioning that begins before the first block.
pub(super) fn began(start: &SystemConditioningStart) -> String {
    format!("{} under {}: {}", start.arm, start.workload, start.what)
}

/// The state of a run.
#[derive(Debug)]
pub(super) struct RunProgressState {
    pub(super) manifest: RunManifest,
    /// Trials that are expected; none of load lines, whose searches say as they go.
    pub(super) planned: Option<u64>,
    pub(super) done: u64,
    /// Blocks that `planned` is of.
    known_blocks: u32,
    pub(super) now: Option<(TrialId, TrialPhase)>,
    pub(super) arms: BTreeMap<String, ArmActivity>,
    pub(super) notes: VecDeque<String>,
    /// Comparisons from the trials so far, where systems are compared and that is shown.
    pub(super) comparisons: Vec<ArmComparison>,
    /// The trials so far, for that; of a run of days they are many.
    trials: Option<Vec<TrialResult>>,
    /// Searches of load lines, by workload and arm.
    searches: BTreeMap<(String, String), LoadLineSearch>,
}

impl RunProgressState {
    /// The state for the trials of a manifest, of which `done` are already measured. Verdicts are computed
    /// only if the display shows them.
    pub(super) fn new(manifest: &RunManifest, done: u64, shows_verdicts: bool) -> Self {
        let mut searches = BTreeMap::new();
        for entry in &manifest.entries {
            let options = load_line_options(entry, manifest.policy.confidence);
            let Some(options) = options else { continue };
            for arm in &manifest.arms {
                let key = (entry.label.clone(), arm.name.clone());
                searches.insert(key, LoadLineSearch::new(options.clone()));
            }
        }
        let planned = manifest.planned_trials().saturating_sub(done);
        RunProgressState {
            manifest: manifest.clone(),
            planned: searches.is_empty().then_some(planned),
            done: 0,
            known_blocks: manifest.blocks,
            now: None,
            arms: BTreeMap::new(),
            notes: VecDeque::new(),
            comparisons: Vec::new(),
            trials: (shows_verdicts && manifest.arms.len() > 1 && searches.is_empty())
                .then(Vec::new),
            searches,
        }
    }

    /// Takes in what happened.
    pub(super) fn event(&mut self, event: &RunEvent) {
        match event {
            RunEvent::ConditioningBegan(start) => self.note(began(start)),
            RunEvent::Conditioned(done) => {
                self.note(done.sentence());
                self.manifest.condition(done.clone());
            }
            RunEvent::TrialBegan(trial) => self.now = Some((trial.clone(), TrialPhase::Preparing)),
            RunEvent::Prepared { trial, .. } => {
                self.now = Some((trial.clone(), TrialPhase::Starting));
            }
            RunEvent::Interval { interval, .. } => self.second(interval),
            RunEvent::TrialEnded(result) => self.ended(result),
            RunEvent::Warning(warning) => self.note(note(warning)),
            RunEvent::Designed(found) => {
                let each = self.manifest.arms.len() as u64 * self.manifest.entries.len() as u64;
                let more = u64::from(found.expected.saturating_sub(self.known_blocks)) * each;
                self.planned = self.planned.map(|planned| planned + more);
                self.known_blocks = found.expected;
                self.manifest.adopt(found.clone());
                self.note(format!("design: {}", found.forecast));
            }
            RunEvent::BlocksEnded(ended) => {
                self.manifest.end(*ended);
                self.note(ended.sentence());
            }
            RunEvent::Finished { .. } => self.now = None,
        }
    }

    fn note(&mut self, text: String) {
        self.notes.push_back(text);
        if self.notes.len() > NOTES_MAX {
            self.notes.pop_front();
        }
    }

    fn second(&mut self, interval: &TrialInterval) {
        let Some((trial, phase)) = &mut self.now else {
            return;
        };
        *phase = TrialPhase::Measuring;
        let rates = RunRates::of(&interval.stats, interval.length);
        let arm = self.arms.entry(trial.arm.clone()).or_default();
        arm.ops_per_s.push_back(rates.ops_per_s);
        if arm.ops_per_s.len() > HISTORY_MAX {
            arm.ops_per_s.pop_front();
        }
        (arm.bytes_per_s, arm.p99) = (rates.bytes_per_s, rates.p99);
    }

    fn ended(&mut self, result: &TrialResult) {
        self.done += 1;
        // More may be needed than were expected.
        self.planned = self.planned.map(|planned| planned.max(self.done));
        let key = (result.trial.workload.clone(), result.trial.arm.clone());
        if let (Some(search), Some(trial)) = (self.searches.get_mut(&key), load_line_trial(result))
        {
            search.observe(&trial);
        }
        if let Some(trials) = &mut self.trials {
            trials.push(for_verdicts(result));
            self.comparisons = plimsoll_stats::compare_all(&self.manifest, trials);
        }
    }

    /// Where the line of a search is now.
    pub(super) fn line(&self, workload: &str, arm: &str) -> Option<LoadLineInterval> {
        let key = (workload.to_owned(), arm.to_owned());
        self.searches.get(&key).map(LoadLineSearch::sustained)
    }

    /// The lines that are searched.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&str, &str, LoadLineInterval)> {
        let searches = self.searches.iter();
        searches.map(|((workload, arm), search)| (&**workload, &**arm, search.sustained()))
    }

    /// Time until the last trial ends, if all take as long as those before.
    pub(super) fn left(&self, elapsed: Duration) -> Option<Duration> {
        let left = self.planned?.checked_sub(self.done)?;
        (self.done > 0).then(|| elapsed.mul_f64(left as f64 / self.done as f64))
    }

    /// `block 2 · nas on raid1`.
    pub(super) fn place(&self) -> String {
        let Some((trial, _)) = &self.now else {
            return String::new();
        };
        let what = match self.planned {
            Some(_) => "block",
            None => "search",
        };
        let (block, workload, arm) = (trial.block + 1, &trial.workload, &trial.arm);
        format!("{what} {block} · {workload} on {arm}")
    }
}

/// Parts of a result that a verdict on the screen needs: of response times counts and means.
fn for_verdicts(result: &TrialResult) -> TrialResult {
    let phase = |phase: &PhaseResult| PhaseResult {
        stats: totals(&phase.stats),
        ..phase.clone()
    };
    TrialResult {
        stats: totals(&result.stats),
        phases: result.phases.iter().map(phase).collect(),
        fidelity: Vec::new(),
        servers: Vec::new(),
        device: None,
        nodes: Vec::new(),
        machines: Vec::new(),
        energy: Vec::new(),
        ..result.clone()
    }
}

fn totals(stats: &OpStats) -> OpStats {
    let total = |of: &Histogram| {
        let mut total = Histogram::new();
        total.record_many(Nanos(round_u64(of.mean_ns())), of.count());
        total
    };
    let kind = |(kind, stats): (&OpKind, &KindStats)| {
        let of_kind = KindStats {
            bytes: stats.bytes,
            errors: stats.errors,
            service: total(&stats.service),
            response: total(&stats.response),
            lag: total(&stats.lag),
        };
        (*kind, of_kind)
    };
    OpStats(stats.0.iter().map(kind).collect())
}

/// A warning as a line.
pub(super) fn note(warning: &RunWarning) -> String {
    match warning.about.is_empty() {
        true => format!("note: {}", warning.text),
        false => format!("note: {}: {}", warning.about, warning.text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::comparison::ComparisonMetric;

    #[test]
    fn what_is_kept_for_a_verdict_is_little_and_says_the_same() {
        let mut kind = KindStats::default();
        for ns in 1..2_000_u64 {
            let time = Nanos(ns * ns);
            kind.service.record(time);
            kind.response.record(time);
            kind.lag.record(Nanos(ns));
        }
        let trial = TrialId {
            block: 0,
            place: 0,
            arm: "a".into(),
            workload: "w".into(),
        };
        let whole = TrialResult {
            length: Nanos::SECOND,
            stats: OpStats([(OpKind::Read, kind)].into()),
            ..TrialResult::of(trial)
        };
        let kept = for_verdicts(&whole);
        let bytes = |result: &TrialResult| serde_json::to_vec(result).unwrap().len();
        assert!(bytes(&kept) * 4 < bytes(&whole), "{}", bytes(&kept));
        for metric in [
            ComparisonMetric::MeanResponse,
            ComparisonMetric::OpsPerSecond,
        ] {
            let (kept, whole) = (kept.value(metric), whole.value(metric));
            assert!(
                (kept / whole - 1.0).abs() < 1e-5,
                "{metric:?}: {kept} {whole}"
            );
        }
    }
}
