// SPDX-License-Identifier: Apache-2.0
//! The terminal's view of a run: one bar with live rates and the time left, or one line per trial
//! where there is no terminal.

use crate::terminal;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plimsoll_core::design::BlockDesignResult;
use plimsoll_core::event::{
    RunEvent, RunListener, RunManifest, TrialId, TrialInterval, TrialResult,
};
use plimsoll_core::load_line::{LoadLinePurpose, LoadLineRecord};
use plimsoll_core::op::OpKind;
use plimsoll_core::text::printable;
use plimsoll_core::units::{self, Nanos};
use plimsoll_stats::load_line::{
    LoadLineInterval, LoadLineSearch, load_line_options, load_line_trial,
};
use std::collections::BTreeMap;
use std::io::IsTerminal;

/// Listens to a run and shows it on the standard error stream.
#[derive(Debug)]
pub(crate) struct RunProgress {
    bar: ProgressBar,
    live: bool,
    trials: u64,
    done: u64,
    /// Blocks that `trials` are of, and trials of each block.
    blocks: (u32, u64),
    now: String,
    /// Searches of load lines, by workload and arm.
    searches: BTreeMap<(String, String), LoadLineSearch>,
}

impl RunProgress {
    /// For the trials of a manifest but so many that are done; quiet when the results go to a machine.
    pub(crate) fn new(manifest: &RunManifest, done: u64, quiet: bool) -> Self {
        let trials = manifest.planned_trials().saturating_sub(done);
        let each = manifest.arms.len() as u64 * manifest.entries.len() as u64;
        let live = std::io::stderr().is_terminal() && !quiet;
        let bar = ProgressBar::with_draw_target(
            Some(trials),
            if live {
                ProgressDrawTarget::stderr()
            } else {
                ProgressDrawTarget::hidden()
            },
        );
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}  ETA {eta}");
        bar.set_style(style.expect("the template is a constant"));
        RunProgress {
            bar,
            live: live || quiet,
            trials,
            done: 0,
            blocks: (manifest.blocks, each),
            now: String::new(),
            searches: BTreeMap::new(),
        }
    }

    /// For searches of load lines, of which nobody knows how many trials they take.
    pub(crate) fn of_search(manifest: &RunManifest, quiet: bool) -> Self {
        let mut screen = RunProgress::new(manifest, 0, quiet);
        let style = ProgressStyle::with_template("{spinner} trial {pos} {msg}  {elapsed}");
        screen.bar.unset_length();
        screen
            .bar
            .set_style(style.expect("the template is a constant"));
        for entry in &manifest.entries {
            let options = load_line_options(entry, manifest.policy.confidence);
            let Some(options) = options else { continue };
            for arm in &manifest.arms {
                let key = (entry.label.clone(), arm.name.clone());
                let search = LoadLineSearch::new(options.clone());
                screen.searches.insert(key, search);
            }
        }
        screen
    }

    /// What is known of a line after a trial of it.
    fn observe(&mut self, result: &TrialResult) -> Option<LoadLineInterval> {
        let key = (result.trial.workload.clone(), result.trial.arm.clone());
        let search = self.searches.get_mut(&key)?;
        search.observe(&load_line_trial(result)?);
        Some(search.sustained())
    }

    fn began(&mut self, trial: &TrialId) {
        let what = if self.searches.is_empty() {
            "block"
        } else {
            "search"
        };
        self.now = printable(&format!(
            "{what} {} · {} on {}",
            trial.block + 1,
            trial.workload,
            trial.arm
        ));
        self.bar.set_message(format!("{} · preparing", self.now));
    }

    /// More blocks than were known of, after what a pilot told.
    fn designed(&mut self, found: &BlockDesignResult) {
        let (known, each) = self.blocks;
        self.trials += u64::from(found.expected.saturating_sub(known)) * each;
        self.blocks.0 = found.expected;
        self.bar.set_length(self.trials);
        self.say(&format!("design: {}", found.forecast));
    }

    fn say(&self, text: &str) {
        self.bar.suspend(|| terminal::say(text));
    }

    fn second(&self, interval: &TrialInterval) {
        let response = interval.stats.response();
        let rate = interval.stats.ops() as f64 / interval.length.as_secs_f64().max(1e-9);
        self.bar.set_message(format!(
            "{} · {} ops/s · p99 {}",
            self.now,
            units::rate(rate),
            units::duration(Nanos(response.quantile_ns(0.99)))
        ));
    }

    fn ended(&mut self, result: &TrialResult) {
        self.done += 1;
        self.bar.inc(1);
        if let Some(record) = &result.load_line {
            let line = self.observe(result);
            if !self.live {
                let told = search_summary(result, record, line);
                terminal::say(&format!("{:>4} {} · {told}", self.done, self.now));
            }
            return;
        }
        // More may be needed than were expected.
        self.trials = self.trials.max(self.done);
        self.bar.set_length(self.trials);
        if !self.live {
            terminal::say(&format!(
                "{:>4}/{} {} · {}",
                self.done,
                self.trials,
                self.now,
                summary(result)
            ));
        }
    }
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

impl RunListener for RunProgress {
    fn event(&mut self, event: &RunEvent) {
        match event {
            RunEvent::TrialBegan(trial) => self.began(trial),
            RunEvent::Prepared { .. } => self.bar.set_message(format!("{} · starting", self.now)),
            RunEvent::Interval { interval, .. } => self.second(interval),
            RunEvent::TrialEnded(result) => self.ended(result),
            RunEvent::Warning(warning) => {
                let about = if warning.about.is_empty() {
                    String::new()
                } else {
                    format!("{}: ", warning.about)
                };
                self.say(&format!("note: {about}{}", warning.text));
            }
            RunEvent::Designed(found) => self.designed(found),
            RunEvent::BlocksEnded(ended) => self.say(&ended.sentence()),
            RunEvent::Finished { .. } => self.bar.finish_and_clear(),
        }
    }
}
