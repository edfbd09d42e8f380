// SPDX-License-Identifier: Apache-2.0
//! A run in lines, for logs and pipes: one for each trial, and one every ten seconds of it.

use super::state::{RunProgressState, RunRates, began, note, now};
use plimsoll_console::terminal;
use plimsoll_core::event::{OpStats, RunEvent, TrialResult};
use plimsoll_core::load_line::{LoadLinePurpose, LoadLineRecord};
use plimsoll_core::op::OpKind;
use plimsoll_core::text::printable;
use plimsoll_core::units::{self, Nanos};
use plimsoll_stats::load_line::LoadLineInterval;
use std::time::{Duration, Instant};

/// Time between lines of one trial.
const PAUSE: Duration = Duration::from_secs(10);

/// Statistics for the next line.
#[derive(Debug)]
pub(super) struct ProgressLines {
    last: Instant,
    stats: OpStats,
    length: Nanos,
}

impl ProgressLines {
    pub(super) fn new() -> Self {
        ProgressLines {
            last: now(),
            stats: OpStats::default(),
            length: Nanos(0),
        }
    }

    /// Says what is to be said of an event, which the state has taken in.
    pub(super) fn event(&mut self, event: &RunEvent, state: &RunProgressState) {
        match event {
            RunEvent::ConditioningBegan(start) => terminal::say(&printable(&began(start))),
            RunEvent::Conditioned(done) => terminal::say(&printable(&done.sentence())),
            RunEvent::TrialBegan(_) => self.clear(),
            RunEvent::Interval { interval, .. } => {
                self.stats.merge(&interval.stats);
                self.length = self.length + interval.length;
                if self.last.elapsed() >= PAUSE {
                    terminal::say(&self.meanwhile(state));
                    self.clear();
                }
            }
            RunEvent::TrialEnded(result) => terminal::say(&ended(result, state)),
            RunEvent::Warning(warning) => terminal::say(&note(warning)),
            RunEvent::Designed(found) => terminal::say(&format!("design: {}", found.forecast)),
            RunEvent::BlocksEnded(ended) => terminal::say(&ended.sentence()),
            RunEvent::Prepared { .. } | RunEvent::Finished { .. } => {}
        }
    }

    fn clear(&mut self) {
        *self = ProgressLines::new();
    }

    /// The line of the last seconds.
    fn meanwhile(&self, state: &RunProgressState) -> String {
        let rates = RunRates::of(&self.stats, self.length);
        let place = printable(&state.place());
        format!(
            "     {place} · last {}: {}",
            units::clock_duration(self.length),
            rates.words()
        )
    }
}

/// The line of a trial that has ended.
fn ended(result: &TrialResult, state: &RunProgressState) -> String {
    let place = printable(&state.place());
    if let Some(record) = &result.load_line {
        let line = state.line(&result.trial.workload, &result.trial.arm);
        let told = search_summary(result, record, line);
        return format!("{:>4} {place} · {told}", state.done);
    }
    let planned = state.planned.unwrap_or(state.done);
    format!("{:>4}/{planned} {place} · {}", state.done, summary(result))
}

/// A trial in a few words. Programs that are only timed have no operations, and sessions alone neither.
fn summary(result: &TrialResult) -> String {
    let fault = result.fault.as_ref().map(|fault| {
        let outage = fault.outage.worst(OpKind::Write);
        let outage = outage.map_or(Nanos(0), |stall| stall.length);
        let data = match fault.kept_its_data() {
            true => "no write lost",
            false => "acknowledged writes LOST",
        };
        format!(
            "{} · write outage {} · {data}",
            fault.victim,
            units::duration(outage)
        )
    });
    let load = load_summary(result);
    let both = fault.into_iter().chain(load);
    both.collect::<Vec<_>>().join(" · ")
}

/// A trial of a search: what was tried, what came of it, and where the line is now.
fn search_summary(
    result: &TrialResult,
    record: &LoadLineRecord,
    line: Option<LoadLineInterval>,
) -> String {
    let purpose = match record.request.purpose {
        LoadLinePurpose::Idle => "lowest load",
        LoadLinePurpose::Locate => "locate",
        LoadLinePurpose::Refine => "refine",
        LoadLinePurpose::Sustain => "hold",
        LoadLinePurpose::Exhaust => "use up credits",
    };
    let multiple = units::three_digits(record.request.multiple);
    let load = load_summary(result).unwrap_or_default();
    let line = line.map_or(String::new(), |line| {
        let [low, high] = [line.low, line.high].map(units::three_digits);
        format!(" · line between ×{low} and ×{high}")
    });
    let length = units::clock_duration(result.length);
    format!("{purpose} ×{multiple} for {length} · {load}{line}")
}

fn load_summary(result: &TrialResult) -> Option<String> {
    let response = result.stats.response();
    if response.count() == 0 && result.fault.is_some() {
        return None;
    }
    if response.count() == 0 {
        let length = units::duration(result.length);
        return Some(match result.phases.len() {
            0 => length,
            1 => format!("{length} · 1 phase"),
            phases => format!("{length} · {phases} phases"),
        });
    }
    let rate = result.stats.ops() as f64 / result.length.as_secs_f64().max(1e-9);
    Some(format!(
        "{} ops/s · mean {} · p99 {}",
        units::rate(rate),
        units::duration(Nanos(plimsoll_core::num::round_u64(response.mean_ns()))),
        units::duration(Nanos(response.quantile_ns(0.99)))
    ))
}
