// SPDX-License-Identifier: Apache-2.0
//! The search: which multiple to try next and for how long, until the edge is known well enough.
//!
//! A pure state machine: [`LoadLineSearch::next`] asks for a trial, [`LoadLineSearch::observe`] takes
//! what came of it. The same trials always lead to the same requests.

mod found;
mod request;

use plimsoll_core::load_line::{LoadLineBatch, LoadLinePurpose, LoadLineReading, LoadLineRequest};

use super::clumps::ClumpTally;
use super::edges::{EdgeSet, nearest};
use super::outcome::{LoadLineIdle, LoadLineStop};
use super::posterior::{EdgePrior, EdgeSighting};
use super::stays::{LongStay, RunningStay};
use super::steady::LoadLineSteadiness;
use super::trial::{LoadLineOptions, LoadLineTrial};

/// Room for an edge beyond the multiples that may be tried, in logarithms.
const BEYOND: f64 = 0.5;

/// Seconds at the beginning of a trial that do not count, at most a fifth of it: queues and caches are as the
/// trial before left them. What happens later in a stay belongs to it.
const LEAD_IN_S: f64 = 4.0;

/// Sizes of clumps that differ by less than this logarithm are the same.
const REWEIGH: f64 = 0.25;

/// A stay less probable than this, given the short trials, contradicts them.
const FORETOLD: f64 = 0.05;

/// A margin less probable than this, given all trials before, asks for a second look.
const SURPRISE: f64 = 0.01;

/// A second look that is less probable than this confirms the first.
const SURPRISE_AGAIN: f64 = 0.05;

/// Credits are used up at this multiple of an overload, lest it takes for ever.
const EXHAUST_AT: f64 = 1.5;

/// Margin of a load whose backlog grows: it has no upper limit, whatever was seen so far.
const OVERLOADED: f64 = -1.0;

/// A trial that served this share of its load shows how many operations it has.
const SERVED_MOST: f64 = 0.9;

/// From this number of trials on, an edge that probably is beyond the range gets a hold period at its end.
const OUTSIDE_TRIALS: usize = 8;

/// Tries to use up credits before going on without.
const EXHAUST_MAX: u32 = 20;

/// The search of one system's line.
#[derive(Debug, Clone)]
pub struct LoadLineSearch {
    options: LoadLineOptions,
    /// The edge by short trials: that of bursts.
    short: EdgeSet,
    /// The edge by stays of full length, once there are any: that of what is sustained.
    long: Option<EdgeSet>,
    stays: Vec<LongStay>,
    /// The sightings of stays that short trials had foretold, for when those are not believed any more.
    stay_sightings: Vec<Vec<EdgeSighting>>,
    running: Option<RunningStay>,
    /// Of operations beyond each limit.
    clumps: Vec<ClumpTally>,
    /// The sizes of clumps that the errors of all sightings are for.
    weighed: Vec<f64>,
    /// Operations a second at a multiple of 1, by limit.
    rates: Vec<f64>,
    /// Where a trial of any length was not carried (in ln multiple).
    broken: Vec<f64>,
    /// The highest place where one was.
    carried_most: Option<f64>,
    /// Where a short trial was that took as long as a stay (in ln multiple).
    carried_as_long: Vec<f64>,
    idle: Vec<LoadLineIdle>,
    /// The multiple that uses up credits, once it is known that there are some.
    exhausting: Option<f64>,
    exhaust_next: bool,
    exhaust_tries: u32,
    /// A short trial with an unexpected result, until it is repeated.
    doubted: Option<DoubtedTrial>,
    /// The same for a hold period.
    doubted_stay: Option<DoubtedTrial>,
    refined: usize,
    /// Trials that were to find about where the edge is.
    located: usize,
    steadiness: Option<LoadLineSteadiness>,
    trials: usize,
    seconds: f64,
    stop: Option<LoadLineStop>,
}

#[derive(Debug, Clone)]
struct DoubtedTrial {
    multiple: f64,
    seen: Vec<EdgeSighting>,
}

impl LoadLineSearch {
    /// Nothing is known yet.
    ///
    /// # Panics
    /// Without a limit, or when the multiples are no range of positive numbers.
    pub fn new(options: LoadLineOptions) -> LoadLineSearch {
        assert!(!options.limits.is_empty(), "a line needs a limit");
        let is_range = options.smallest > 0.0 && options.smallest < options.largest;
        assert!(is_range, "multiples are a range of positive numbers");
        let short = EdgeSet::new(prior(&options), options.limits.len());
        LoadLineSearch {
            clumps: vec![ClumpTally::default(); options.limits.len()],
            weighed: vec![ClumpTally::default().size(); options.limits.len()],
            options,
            short,
            long: None,
            stays: Vec::new(),
            stay_sightings: Vec::new(),
            running: None,
            rates: Vec::new(),
            broken: Vec::new(),
            carried_most: None,
            carried_as_long: Vec::new(),
            idle: Vec::new(),
            exhausting: None,
            exhaust_next: false,
            exhaust_tries: 0,
            doubted: None,
            doubted_stay: None,
            refined: 0,
            located: 0,
            steadiness: None,
            trials: 0,
            seconds: 0.0,
            stop: None,
        }
    }

    /// The belief about the edge now.
    fn edges(&self) -> &EdgeSet {
        self.long.as_ref().unwrap_or(&self.short)
    }

    /// Takes what came of a trial.
    ///
    /// # Panics
    /// When there is not one reading for each limit.
    pub fn observe(&mut self, trial: &LoadLineTrial) {
        assert_eq!(
            trial.readings.len(),
            self.options.limits.len(),
            "a reading for each limit"
        );
        self.trials += 1;
        self.seconds += trial.request.seconds;
        if trial.is_void {
            self.running = None;
            return;
        }
        if trial.request.purpose == LoadLinePurpose::Sustain {
            if let Some(whole) = self.part_of_stay(trial) {
                self.take(&whole);
            }
        } else {
            self.located += usize::from(trial.request.purpose == LoadLinePurpose::Locate);
            self.take(trial);
        }
    }

    /// Adds a part to the stay; gives the whole when it is over.
    fn part_of_stay(&mut self, part: &LoadLineTrial) -> Option<LoadLineTrial> {
        let is_broken = |seen: &EdgeSighting| seen.margin <= OVERLOADED;
        let is_overloaded = part.backlog_grew && self.sightings(part).iter().any(is_broken);
        let running = RunningStay::with(self.running.take(), part, is_overloaded);
        if running.is_over() {
            return Some(running.whole);
        }
        self.running = Some(running);
        None
    }

    fn take(&mut self, trial: &LoadLineTrial) {
        // An overload ends few of its operations, which says nothing of how many there are.
        if trial.served >= SERVED_MOST {
            let readings = trial.readings.iter();
            self.rates = readings
                .map(|reading| rate(reading, &trial.request))
                .collect();
        }
        let both = self.options.limits.iter().zip(&trial.readings);
        for (clumps, (limit, reading)) in self.clumps.iter_mut().zip(both) {
            let batches = &reading.batches[lead_in(reading, &trial.request)..];
            clumps.add(batches, limit.allowed_share());
        }
        self.reweigh();
        let seen = self.sightings(trial);
        let is_carried = seen.iter().all(|sighting| sighting.margin > 0.0);
        if trial.request.purpose != LoadLinePurpose::Idle {
            self.learn_side(trial, is_carried);
        }
        match trial.request.purpose {
            LoadLinePurpose::Idle => return self.learn_idle(trial, &seen),
            LoadLinePurpose::Exhaust => {
                self.exhaust_tries += 1;
                self.exhaust_next = is_carried && self.exhaust_tries < EXHAUST_MAX;
                return;
            }
            LoadLinePurpose::Sustain => self.stay(trial, &seen, is_carried),
            LoadLinePurpose::Locate | LoadLinePurpose::Refine => {
                // Where operations are rare, short trials are as long as stays, and confirm like them.
                if is_carried && trial.request.seconds >= self.options.sustained_s {
                    self.carried_as_long.push(trial.request.multiple.ln());
                }
                self.learn_short(trial, seen, is_carried);
            }
        }
        self.decide();
    }

    /// Judges all errors again once clumps turn out to have another size than was supposed: the first trials
    /// knew nothing of them, and one without a clump would count as much as one of all that comes.
    fn reweigh(&mut self) {
        let limits: Vec<usize> = self.share_limits().collect();
        for limit in limits {
            let (clump, before) = (self.clumps[limit].size(), self.weighed[limit]);
            if (clump / before).ln().abs() < REWEIGH {
                continue;
            }
            self.weighed[limit] = clump;
            let measured = &self.options.limits[limit];
            let error = |seen: &EdgeSighting| measured.share_error(&seen.all, clump);
            self.short.reweigh(limit, error);
            if let Some(long) = &mut self.long {
                long.reweigh(limit, error);
            }
            let doubted = [&mut self.doubted, &mut self.doubted_stay]
                .into_iter()
                .flatten();
            let pending = doubted
                .map(|trial| &mut trial.seen)
                .chain(&mut self.stay_sightings);
            for seen in pending {
                seen[limit].error = error(&seen[limit]);
            }
        }
    }

    /// Limits that allow a share of operations to be beyond them.
    fn share_limits(&self) -> impl Iterator<Item = usize> {
        let limits = &self.options.limits;
        (0..limits.len()).filter(|limit| limits[*limit].allowed_share() > 0.0)
    }

    /// It says nothing of the edge: what sleeps between operations is slower at a low load than at a high
    /// one.
    fn learn_idle(&mut self, trial: &LoadLineTrial, seen: &[EdgeSighting]) {
        let margin = |limit: &usize| seen[*limit].margin;
        let nearest = self
            .share_limits()
            .min_by(|a, b| margin(a).total_cmp(&margin(b)));
        let Some(limit) = nearest else { return };
        let all = LoadLineBatch::sum(&trial.readings[limit].batches);
        self.idle.push(LoadLineIdle {
            limit: self.options.limits[limit].name.clone(),
            multiple: trial.request.multiple,
            seconds: trial.request.seconds,
            beyond: all.amount / all.operations.max(1.0),
            allowed: self.options.limits[limit].allowed_share(),
            is_broken: seen[limit].margin <= 0.0,
        });
    }

    fn learn_side(&mut self, trial: &LoadLineTrial, is_carried: bool) {
        let place = trial.request.multiple.ln();
        if is_carried {
            self.carried_most = Some(self.carried_most.map_or(place, |most| most.max(place)));
        } else {
            self.broken.push(place);
        }
    }

    fn learn_short(&mut self, trial: &LoadLineTrial, seen: Vec<EdgeSighting>, is_carried: bool) {
        if let Some(place) = served_place(trial) {
            self.short.served_at_most(place);
        }
        let chance = self.short.predicted_below(&seen);
        self.refined += usize::from(trial.request.purpose == LoadLinePurpose::Refine);
        if let Some(doubted) = self.doubted.take() {
            if !is_carried && chance < SURPRISE_AGAIN {
                self.carry_no_more(trial, [&doubted.seen, &seen]);
                return;
            }
            self.short.add(&doubted.seen);
        } else if !is_carried && chance < SURPRISE {
            let multiple = trial.request.multiple;
            self.doubted = Some(DoubtedTrial { multiple, seen });
            return;
        }
        self.short.add(&seen);
    }

    /// A stay that is as short trials foretold speaks for them, and they for it. One that is not leaves
    /// only stays to go by.
    fn stay(&mut self, trial: &LoadLineTrial, seen: &[EdgeSighting], is_carried: bool) {
        let multiple = trial.request.multiple;
        let limit = nearest(seen);
        let mut is_steady = is_carried;
        if is_carried {
            let batches = &trial.readings[limit].batches;
            let clump = self.clumps[limit].size();
            self.steadiness = self.options.limits[limit].steadiness(batches, clump);
            is_steady = self.steadiness.is_none_or(|found| found.is_steady);
        }
        // One that was carried and got worse to the end confirms nothing.
        self.stays.push(LongStay {
            multiple,
            is_carried: is_steady,
        });
        if self.long.is_some() {
            self.learn_long(trial, seen, is_carried);
            return;
        }
        let is_foretold = is_carried || self.short.predicted_below(seen) > FORETOLD;
        match (self.doubted_stay.take(), is_foretold) {
            (first, true) => {
                for seen in first.iter().map(|stay| &stay.seen[..]).chain([seen]) {
                    self.short.add(seen);
                    self.stay_sightings.push(seen.to_vec());
                }
            }
            // Others may have disturbed one of them, and hardly two in a row.
            (None, false) => {
                let seen = seen.to_vec();
                self.doubted_stay = Some(DoubtedTrial { multiple, seen });
            }
            (Some(first), false) => {
                self.begin_stays();
                self.learn_long(trial, &first.seen, is_carried);
                self.learn_long(trial, seen, is_carried);
            }
        }
    }

    /// A load that was carried a while ago is not carried any more: only stays can tell which one is.
    fn carry_no_more(&mut self, trial: &LoadLineTrial, broken: [&Vec<EdgeSighting>; 2]) {
        self.begin_stays();
        self.exhausting = Some(EXHAUST_AT * trial.request.multiple);
        let Some(long) = &mut self.long else { return };
        if let Some(place) = served_place(trial) {
            long.served_at_most(place);
        }
        broken.into_iter().for_each(|seen| long.add(seen));
    }

    fn begin_stays(&mut self) {
        self.long = Some(self.longer());
    }

    /// Of longer trials only; stays that were played are believed as before.
    fn longer(&self) -> EdgeSet {
        let mut long = self.short.longer(prior(&self.options));
        self.stay_sightings.iter().for_each(|seen| long.add(seen));
        long
    }

    fn learn_long(&mut self, trial: &LoadLineTrial, seen: &[EdgeSighting], is_carried: bool) {
        let multiple = trial.request.multiple;
        if !is_carried && trial.backlog_grew {
            let lowest = self.exhausting.unwrap_or(f64::INFINITY);
            self.exhausting = Some(lowest.min(EXHAUST_AT * multiple));
            self.withdraw(multiple);
        }
        self.exhaust_next = self.exhausting.is_some() && is_carried;
        self.exhaust_tries = 0;
        let Some(long) = &mut self.long else { return };
        if let Some(place) = served_place(trial) {
            long.served_at_most(place);
        }
        long.add(seen);
    }

    /// A load that credits carried is not sustained: a stay that was overloaded speaks against all that were
    /// carried at its multiple or above.
    fn withdraw(&mut self, multiple: f64) {
        self.stays
            .retain(|stay| !stay.is_carried || stay.multiple < multiple);
        if let Some(long) = &mut self.long {
            long.withdraw(multiple.ln());
        }
    }

    /// The margins of the part of a trial that counts: not its beginning, and where credits were used
    /// up only the last half.
    fn sightings(&self, trial: &LoadLineTrial) -> Vec<EdgeSighting> {
        let place = trial.request.multiple.ln();
        let both = self.options.limits.iter().zip(&trial.readings);
        let all = both.zip(&self.clumps);
        all.map(|((limit, reading), clumps)| {
            let batches = &reading.batches[self.counts_from(trial, reading)..];
            let margin = limit.measured(batches, clumps.size());
            let value = if trial.backlog_grew || trial.served <= 0.0 {
                margin.value.min(OVERLOADED)
            } else {
                margin.value
            };
            EdgeSighting {
                place,
                margin: value,
                error: margin.error,
                all: LoadLineBatch::sum(batches),
            }
        })
        .collect()
    }

    /// The first batch of a reading that counts.
    fn counts_from(&self, trial: &LoadLineTrial, reading: &LoadLineReading) -> usize {
        let is_late = self.exhausting.is_some() || trial.backlog_grew;
        if is_late {
            reading.batches.len() / 2
        } else {
            lead_in(reading, &trial.request)
        }
    }

    fn decide(&mut self) {
        if self.stays.is_empty() || self.doubted.is_some() || self.doubted_stay.is_some() {
            return;
        }
        let stays = self.confirmed();
        let (smallest, largest) = (self.smallest().ln(), self.options.largest.ln());
        let middle = self.edges().quantile(0.5);
        // No trial beyond the range can make the posterior any surer: a stay at its end decides.
        let is_least =
            |stay: &LongStay| !stay.is_carried && stay.multiple.ln() <= smallest + self.goal();
        let is_least = middle < smallest && self.stays.iter().any(is_least);
        let is_most = middle > largest && stays.low >= largest - self.goal();
        if stays.high.is_finite() && (self.is_below_all() || is_least) {
            self.stop = Some(LoadLineStop::NothingCarried);
        } else if stays.low.is_finite() && (self.is_above_all() || is_most) {
            self.stop = Some(LoadLineStop::EverythingCarried);
        } else if stays.low.is_finite() && stays.high.is_finite() && self.is_narrow() {
            self.stop = Some(LoadLineStop::WidthReached);
        }
    }

    /// Whether the edge is beyond the range, or so likely that a stay at its end is due.
    fn is_outside(&self) -> bool {
        let middle = self.short.quantile(0.5);
        let range = self.smallest().ln()..=self.options.largest.ln();
        let is_tried = self.trials >= OUTSIDE_TRIALS && self.stays.is_empty();
        self.is_above_all() || self.is_below_all() || is_tried && !range.contains(&middle)
    }

    fn is_below_all(&self) -> bool {
        let tail = self.tail();
        self.edges().below(self.smallest().ln()) > 1.0 - tail
    }

    fn is_above_all(&self) -> bool {
        let tail = self.tail();
        self.edges().quantile(tail) > self.options.largest.ln()
    }
}

/// Batches at the beginning that do not count.
fn lead_in(reading: &LoadLineReading, request: &LoadLineRequest) -> usize {
    let n = reading.batches.len();
    let batches = LEAD_IN_S / request.seconds * n as f64;
    plimsoll_core::num::to_usize(plimsoll_core::num::round_u64(batches)).min(n / 5)
}

/// Operations a second at a multiple of 1.
fn rate(reading: &LoadLineReading, request: &LoadLineRequest) -> f64 {
    let operations: f64 = reading.batches.iter().map(|batch| batch.operations).sum();
    operations / request.seconds / request.multiple
}

/// ln of what was served of a load whose backlog grew.
fn served_place(trial: &LoadLineTrial) -> Option<f64> {
    let is_overloaded = trial.backlog_grew && trial.served < 1.0;
    is_overloaded.then(|| (trial.request.multiple * trial.served.max(1e-3)).ln())
}

fn prior(options: &LoadLineOptions) -> EdgePrior {
    EdgePrior {
        low: options.smallest.ln() - BEYOND,
        high: options.largest.ln() + BEYOND,
        fall: 0.0,
        served: f64::INFINITY,
        hint: None,
    }
}
