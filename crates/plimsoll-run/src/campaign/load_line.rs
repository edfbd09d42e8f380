// SPDX-License-Identifier: Apache-2.0
//! The search of load lines: which trial comes next follows from those before, and systems take turns.
//!
//! Load lines that were found are not kept: they follow from the trials of the run folder, which is
//! also how an interrupted search is resumed.

use super::trial::{in_condition, measure_trial};
use super::{ArmSet, CampaignEndKind, CampaignOptions, is_out_of_time};
use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_core::event::{
    RunEvent, RunListener, RunManifest, TrialId, TrialResult, WorkloadEntry,
};
use plimsoll_core::load_line::{LoadLineReading, LoadLineRecord, LoadLineRequest};
use plimsoll_core::num::{round_u64, saturating_u32};
use plimsoll_core::units::Nanos;
use plimsoll_stats::load_line::{
    LoadLineRounds, LoadLineSearch, LoadLineStep, LoadLineTurn, load_line_options, load_line_trial,
};
use std::sync::atomic::{AtomicBool, Ordering};

/// Numbers that differ by less are the same.
const ALMOST: f64 = 1e-6;

/// One search: a system under a workload.
struct SearchPlace<'a> {
    entry: &'a WorkloadEntry,
    arm: &'a str,
    /// Trials so far.
    trials: u32,
}

/// The searches of a run, and how far they are.
struct LoadLineCampaign<'a> {
    arms: &'a ArmSet,
    settings: &'a CampaignOptions,
    stop: &'a AtomicBool,
    places: Vec<SearchPlace<'a>>,
    rounds: LoadLineRounds,
    /// Trials of an earlier run of the same command that are still to be taken in.
    done: std::slice::Iter<'a, TrialResult>,
    /// Trials so far.
    trials: u32,
}

/// Searches all load lines of `manifest`; the trials that are done are taken in first.
pub(super) fn search_all(
    (manifest, done): (&RunManifest, &[TrialResult]),
    arms: &ArmSet,
    settings: &CampaignOptions,
    stop: &AtomicBool,
    listener: &mut dyn RunListener,
) -> Result<CampaignEndKind, CliError> {
    let mut searches = Vec::new();
    let mut places = Vec::new();
    for entry in &manifest.entries {
        let options = load_line_options(entry, manifest.policy.confidence);
        let options = options.expect("checked when the run was planned");
        for arm in &manifest.arms {
            searches.push(LoadLineSearch::new(options.clone()));
            places.push(SearchPlace {
                entry,
                arm: &arm.name,
                trials: 0,
            });
        }
    }
    let mut campaign = LoadLineCampaign {
        arms,
        settings,
        stop,
        places,
        rounds: LoadLineRounds::new(searches, manifest.seed),
        done: done.iter(),
        trials: 0,
    };
    while let Some(turn) = campaign.rounds.turn() {
        if campaign.is_stopped() {
            break;
        }
        match campaign.take_turn(turn, listener)? {
            CampaignEndKind::Whole => {}
            early => return Ok(early),
        }
    }
    Ok(CampaignEndKind::Whole)
}

impl LoadLineCampaign<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Runs a trial, and those that go on where it ended, while the system is as the entry wants it.
    fn take_turn(
        &mut self,
        turn: LoadLineTurn,
        listener: &mut dyn RunListener,
    ) -> Result<CampaignEndKind, CliError> {
        if self.take_done(turn)? {
            return Ok(CampaignEndKind::Whole);
        }
        let (arms, stop) = (self.arms, self.stop);
        let entry = self.places[turn.search].entry;
        let first = self.trial_id(turn.search);
        let ended = in_condition((&first, entry), arms, stop, listener, |listener| {
            let mut turn = turn;
            loop {
                if is_out_of_time(self.settings, listener) {
                    return Ok(CampaignEndKind::OutOfTime);
                }
                if !self.run(turn, listener)? {
                    return Ok(CampaignEndKind::LostNode);
                }
                match self.rounds.searches()[turn.search].next() {
                    LoadLineStep::Try(request) if request.is_continued && !self.is_stopped() => {
                        turn = LoadLineTurn { request, ..turn };
                    }
                    _ => return Ok(CampaignEndKind::Whole),
                }
            }
        });
        match ended {
            // A stop while files are laid out is no failure of the trial.
            Err(failure) if failure.code != CliExitCode::NotCleaned && self.is_stopped() => {
                Ok(CampaignEndKind::Whole)
            }
            ended => ended,
        }
    }

    /// Takes in the trial of an earlier run that this turn is, if there is one.
    fn take_done(&mut self, turn: LoadLineTurn) -> Result<bool, CliError> {
        let Some(result) = self.done.next() else {
            return Ok(false);
        };
        let place = &self.places[turn.search];
        let is_this = result.trial.arm == place.arm
            && result.trial.workload == place.entry.label
            && (result.load_line.as_ref())
                .is_some_and(|record| is_alike(&record.request, &turn.request));
        let trial = load_line_trial(result).filter(|_| is_this).ok_or_else(|| {
            CliError::usage("resume the run: its trials are not those that this version would run")
                .hint("give another folder with -o")
        })?;
        self.count(turn.search);
        self.rounds.observe(turn.search, &trial);
        Ok(true)
    }

    /// Runs one trial; whether all nodes are still there.
    fn run(
        &mut self,
        turn: LoadLineTurn,
        listener: &mut dyn RunListener,
    ) -> Result<bool, CliError> {
        let trial = self.trial_id(turn.search);
        self.count(turn.search);
        let asked = self.places[turn.search].entry;
        let request = turn.request;
        let entry = WorkloadEntry {
            scale: asked.scale * request.multiple,
            length: Nanos::from_secs_f64(request.seconds),
            workload: asked.workload.times(request.multiple),
            ..asked.clone()
        };
        let mut reader = LoadLineReader {
            entry: &entry,
            request,
            readings: vec![LoadLineReading::default(); limits(&entry)],
            listener,
        };
        reader.event(&RunEvent::TrialBegan(trial.clone()));
        let settings = self.settings_of(&request);
        let with = (&*settings, None);
        let result = measure_trial(&trial, self.arms, &entry, with, self.stop, &mut reader)?;
        let result = reader.read(&result);
        if let Some(seen) = load_line_trial(&result) {
            self.rounds.observe(turn.search, &seen);
        }
        Ok(result.lost_node().is_none())
    }

    /// A stay that goes on needs no warm-up.
    fn settings_of(&self, request: &LoadLineRequest) -> std::borrow::Cow<'_, CampaignOptions> {
        match request.is_continued {
            false => std::borrow::Cow::Borrowed(self.settings),
            true => std::borrow::Cow::Owned(CampaignOptions {
                warmup: Some(Nanos(0)),
                settle: false,
                ..self.settings.clone()
            }),
        }
    }

    fn trial_id(&self, search: usize) -> TrialId {
        let place = &self.places[search];
        TrialId {
            block: place.trials,
            place: self.trials,
            arm: place.arm.into(),
            workload: place.entry.label.clone(),
        }
    }

    fn count(&mut self, search: usize) {
        self.trials += 1;
        self.places[search].trials += 1;
    }
}

/// Whether a trial that was recorded is the one that is asked for. Numbers of a file may be off by their last
/// digit.
fn is_alike(recorded: &LoadLineRequest, asked: &LoadLineRequest) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= ALMOST * b.abs();
    near(recorded.multiple, asked.multiple)
        && near(recorded.seconds, asked.seconds)
        && recorded.purpose == asked.purpose
        && recorded.is_continued == asked.is_continued
}

fn limits(entry: &WorkloadEntry) -> usize {
    entry.load_line.as_ref().map_or(0, |goal| goal.limits.len())
}

/// Reads off what the limits see of a trial, and writes it into its result.
struct LoadLineReader<'a> {
    entry: &'a WorkloadEntry,
    request: LoadLineRequest,
    readings: Vec<LoadLineReading>,
    listener: &'a mut dyn RunListener,
}

impl LoadLineReader<'_> {
    fn read(&self, result: &TrialResult) -> TrialResult {
        TrialResult {
            load_line: Some(LoadLineRecord {
                request: self.request,
                readings: self.readings.clone(),
            }),
            ..result.clone()
        }
    }
}

impl RunListener for LoadLineReader<'_> {
    fn event(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Interval { interval, .. } => {
                let limits = self.entry.load_line.iter().flat_map(|goal| &goal.limits);
                for (limit, reading) in limits.zip(&mut self.readings) {
                    reading.batches.push(interval.stats.batch(limit));
                }
                self.listener.event(event);
            }
            RunEvent::TrialEnded(result) => {
                let result = self.read(result);
                self.listener.event(&RunEvent::TrialEnded(Box::new(result)));
            }
            event => self.listener.event(event),
        }
    }
}

/// Lengths of trials are whole seconds, of which models are played.
pub fn load_line_seconds(time: Nanos) -> Nanos {
    let seconds = round_u64(time.as_secs_f64()).max(1);
    Nanos(u64::from(saturating_u32(seconds)) * Nanos::SECOND.0)
}
