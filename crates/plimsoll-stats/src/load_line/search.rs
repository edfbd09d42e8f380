// SPDX-License-Identifier: Apache-2.0
//! The search: which multiple to try next and for how long, until the edge is known well enough.
//!
//! A pure state machine: [`LoadLineSearch::next`] asks for a trial, [`LoadLineSearch::observe`] takes
//! what came of it. The same trials always lead to the same requests.

use plimsoll_core::load_line::{LoadLineBatch, LoadLinePurpose, LoadLineReading, LoadLineRequest};

use super::clumps::ClumpTally;
use super::edges::{EdgeSet, nearest};
use super::limit::LoadLineLimit;
use super::outcome::{
    LoadLineCurvePoint, LoadLineIdle, LoadLineInterval, LoadLineReach, LoadLineResult, LoadLineStop,
};
use super::posterior::{EdgePrior, EdgeSighting};
use super::stays::{ConfirmedStays, LongStay, PARTS, RunningStay};
use super::steady::LoadLineSteadiness;
use super::trial::{LoadLineOptions, LoadLineStep, LoadLineTrial};

/// Room for an edge beyond the multiples that may be tried, in logarithms.
const BEYOND: f64 = 0.5;

/// While the edge is not known to this factor, trials are short.
const LOCATED: f64 = 0.35;

/// As many stays are played in the middle before any is played on a side of an edge that is not located.
const MIDDLE_STAYS: usize = 3;

/// Sizes of clumps that differ by less than this logarithm are the same.
const REWEIGH: f64 = 0.25;

/// Where trials that locate the edge are placed: at these probabilities of being above it, first and
/// then in turn.
const FIRST_PLACES: [f64; 4] = [0.5; 4];
const PLACES: [f64; 3] = [0.85, 0.15, 0.5];

/// The edge of short trials is known well enough for a stay at this multiple of the width asked for.
const SHORT_WIDTH: f64 = 0.9;

/// Short trials are enough after the time of so many stays, or after this share of the budget: what a
/// stay has not shown is a forecast.
const SHORT_MAX: f64 = 2.0;
const SHORT_OF_BUDGET: f64 = 0.45;

/// After so many short trials that did not find the edge they are twice as long: where rare operations come
/// in clumps, more trials of a few seconds say little, and most of them look better than a long one.
const DOUBLED_AFTER: usize = 16;

/// A stay less probable than this, given the short trials, contradicts them.
const FORETOLD: f64 = 0.05;

/// Trials near the edge, at least.
const REFINED_MIN: usize = 4;

/// A margin less probable than this, given all trials before, asks for a second look.
const SURPRISE: f64 = 0.01;

/// A second look that is less probable than this confirms the first.
const SURPRISE_AGAIN: f64 = 0.05;

/// Share of the error that an interval may make that its posterior is given; the rest is for what the
/// posterior does not know: drift, and that the search ends when its interval happens to be narrow.
const SPARE: f64 = 0.25;

/// Probability of being on the wrong side of the edge, of a trial that is to be near it on one side, and
/// its least distance from the middle, in widths asked for.
const SIDE: f64 = 0.15;
const APART: f64 = 0.4;

/// Credits are used up at this multiple of an overload, lest it takes for ever.
const EXHAUST_AT: f64 = 1.5;

/// Margin of a load whose backlog grows: it has no upper limit, whatever was seen so far.
const OVERLOADED: f64 = -1.0;

/// A trial at the lowest load takes at most this share of a stay, this share of the budget, and this long.
const IDLE_OF_STAY: f64 = 0.5;
const IDLE_OF_BUDGET: f64 = 0.1;
const IDLE_MAX_S: f64 = 60.0;

/// It is played once more when it breaks a limit: others may have disturbed it.
const IDLE_TRIES: usize = 2;

/// A load is low below this multiple of where the edge is likely.
const LOW: f64 = 0.5;

/// A trial that served this share of its load shows how many operations it has.
const SERVED_MOST: f64 = 0.9;

/// So many trials that leave the edge beyond the range are followed by a stay at its end.
const OUTSIDE_TRIALS: usize = 8;

/// Tries to use up credits before going on without.
const EXHAUST_MAX: u32 = 20;

/// The search of one system's line.
#[derive(Debug, Clone)]
pub struct LoadLineSearch {
    options: LoadLineOptions,
    /// What short trials say: the edge of bursts.
    short: EdgeSet,
    /// What stays of full length say, once there are any: the edge of what is sustained.
    long: Option<EdgeSet>,
    stays: Vec<LongStay>,
    /// What those saw that short trials had foretold, for when they are not believed any more.
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
    /// A short trial that nobody expected, until it is repeated.
    doubted: Option<DoubtedTrial>,
    /// The same of a stay.
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
    #[must_use]
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

    /// What is believed of the edge now.
    fn edges(&self) -> &EdgeSet {
        self.long.as_ref().unwrap_or(&self.short)
    }

    /// The trial to run now, or why there is none.
    #[must_use]
    pub fn next(&self) -> LoadLineStep {
        if let Some(stop) = self.stop {
            return LoadLineStep::Done(stop);
        }
        let request = self.request();
        if self.seconds + request.seconds > self.options.budget_s {
            return LoadLineStep::Done(LoadLineStop::BudgetReached);
        }
        LoadLineStep::Try(request)
    }

    fn request(&self) -> LoadLineRequest {
        if let Some(running) = &self.running {
            return LoadLineRequest {
                is_continued: true,
                seconds: self.part_s(),
                ..running.whole.request
            };
        }
        if self.long.is_some() {
            return self.long_request();
        }
        let options = &self.options;
        if let Some(doubted) = &self.doubted_stay {
            let place = doubted.multiple.ln();
            return self.at(place, self.part_s(), LoadLinePurpose::Sustain);
        }
        if let Some(doubted) = &self.doubted {
            return self.at(
                doubted.multiple.ln(),
                options.trial_s,
                LoadLinePurpose::Refine,
            );
        }
        if let Some(request) = self.idle_request() {
            return request;
        }
        let width = self.short.width(1.0 - 2.0 * self.tail());
        let is_outside = self.is_outside();
        let is_late = self.is_late_for_stays();
        if width > LOCATED && !is_outside && !is_late {
            let place = FIRST_PLACES.get(self.located).copied();
            let place = place.unwrap_or(PLACES[self.located % PLACES.len()]);
            return self.at(
                self.short.quantile(place),
                options.short_s * self.lengthened(),
                LoadLinePurpose::Locate,
            );
        }
        let is_known = width <= SHORT_WIDTH * self.goal() && self.refined >= REFINED_MIN;
        if is_known || is_outside || is_late {
            // Above the edge only where short trials have said all that they can.
            let is_low = is_known || is_outside || self.stays.len().is_multiple_of(2);
            return self.at(
                self.side(&self.short, is_low),
                self.part_s(),
                LoadLinePurpose::Sustain,
            );
        }
        let place = self.side(&self.short, self.refined.is_multiple_of(2));
        self.at(
            place,
            options.trial_s * self.lengthened(),
            LoadLinePurpose::Refine,
        )
    }

    /// The lowest load at which each limit sees enough operations, once a trial has shown how many there
    /// are, and while it would be low.
    fn idle_request(&self) -> Option<LoadLineRequest> {
        let is_due = match self.idle.last() {
            None => true,
            Some(last) => last.is_broken && self.idle.len() < IDLE_TRIES,
        };
        if !is_due || self.rates.is_empty() || self.share_limits().next().is_none() {
            return None;
        }
        let options = &self.options;
        let seconds = (IDLE_OF_STAY * options.sustained_s)
            .min(IDLE_OF_BUDGET * options.budget_s)
            .clamp(options.short_s, IDLE_MAX_S.max(options.short_s));
        let place = self.measurable_in(seconds).ln();
        let is_low = place < self.short.quantile(0.5) + LOW.ln();
        let request = self.at(place, seconds, LoadLinePurpose::Idle);
        is_low.then_some(request)
    }

    /// How many times as long as at first short trials are.
    fn lengthened(&self) -> f64 {
        2.0_f64.powi(i32::try_from(self.located / DOUBLED_AFTER).unwrap_or(i32::MAX))
    }

    /// The width asked for, in logarithms; of whole numbers at least the step from one to the next.
    fn goal(&self) -> f64 {
        let asked = self.options.width.ln_1p();
        if !self.options.is_whole {
            return asked;
        }
        let clients = self.edges().quantile(0.5).exp().floor().max(1.0);
        asked.max((1.0 / clients).ln_1p())
    }

    /// Probability beyond each end of the interval.
    fn tail(&self) -> f64 {
        SPARE * (1.0 - self.options.confidence) / 2.0
    }

    /// Whether short trials have taken so long that it is time to see whether they are right, or would be
    /// no shorter than stays.
    fn is_late_for_stays(&self) -> bool {
        let sustained = self.options.sustained_s;
        let short_max = (SHORT_MAX * sustained).min(SHORT_OF_BUDGET * self.options.budget_s);
        self.stays.is_empty() && self.seconds > short_max
            || 2.0 * self.lengthened() * self.options.short_s > sustained
    }

    /// A place on one side of the edge: as far as it is not known, and never so near that the slope
    /// could not be seen.
    fn side(&self, edges: &EdgeSet, is_low: bool) -> f64 {
        let (middle, apart) = (edges.quantile(0.5), APART * self.goal());
        if is_low {
            edges.quantile(SIDE).min(middle - apart)
        } else {
            edges.quantile(1.0 - SIDE).max(middle + apart)
        }
    }

    fn long_request(&self) -> LoadLineRequest {
        if let Some(multiple) = self.exhausting.filter(|_| self.exhaust_next) {
            return self.at(
                multiple.ln(),
                self.options.short_s,
                LoadLinePurpose::Exhaust,
            );
        }
        self.at(self.long_place(), self.part_s(), LoadLinePurpose::Sustain)
    }

    /// Where to stay next: in the middle while little is known, then on either side of the edge, near
    /// enough to confirm an interval of the width that was asked for.
    fn long_place(&self) -> f64 {
        let edges = self.edges();
        let (middle, width) = (edges.quantile(0.5), edges.width(1.0 - 2.0 * self.tail()));
        let goal = self.goal();
        if width > LOCATED {
            // Stays in the middle alone confirm neither end: where a few of them did not locate the edge,
            // more do not, and the sides are what is left to learn.
            // A bucket that is to stay empty would fill again below the edge.
            let beyond = self.stays.len().checked_sub(MIDDLE_STAYS);
            return match beyond.filter(|_| self.exhausting.is_none()).map(|n| n % 3) {
                None | Some(0) => middle,
                Some(1) => self.side(edges, true),
                _ => self.side(edges, false),
            };
        }
        let confirmed = self.confirmed();
        let needs_low = confirmed.low < middle - goal;
        let needs_high = confirmed.high > middle + goal;
        let is_low = match (needs_low, needs_high) {
            (true, false) => true,
            (false, true) => false,
            _ => self.stays.len().is_multiple_of(2),
        };
        self.side(edges, is_low)
    }

    /// The stays next to the edge (in ln multiple): the highest below it that was carried, and the lowest
    /// above it that was not.
    fn confirmed(&self) -> ConfirmedStays {
        let middle = self.edges().quantile(0.5);
        let mut nearest = ConfirmedStays {
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
        };
        for stay in &self.stays {
            let place = stay.multiple.ln();
            if stay.is_carried && place <= middle {
                nearest.low = nearest.low.max(place);
            }
        }
        for place in self
            .carried_as_long
            .iter()
            .filter(|place| **place <= middle)
        {
            nearest.low = nearest.low.max(*place);
        }
        for place in self.broken.iter().copied().filter(|place| *place >= middle) {
            nearest.high = nearest.high.min(place);
        }
        nearest
    }

    fn at(&self, place: f64, seconds: f64, purpose: LoadLinePurpose) -> LoadLineRequest {
        let multiple = place.exp().clamp(self.smallest(), self.options.largest);
        LoadLineRequest {
            multiple: if self.options.is_whole {
                multiple.round().max(1.0)
            } else {
                multiple
            },
            seconds: match purpose {
                LoadLinePurpose::Sustain | LoadLinePurpose::Idle => seconds,
                _ => self.long_enough(seconds, multiple),
            },
            purpose,
            is_continued: false,
        }
    }

    /// So long that the limits of rare operations see enough of them, and no longer than a stay.
    fn long_enough(&self, seconds: f64, multiple: f64) -> f64 {
        let all = self
            .options
            .limits
            .iter()
            .zip(&self.rates)
            .zip(&self.clumps);
        let known = all.filter(|((_, rate), _)| **rate > 0.0);
        let needed = known.map(|((limit, rate), clumps)| {
            limit.operations_needed(clumps.size()) / (rate * multiple)
        });
        let longest = needed.fold(seconds, f64::max);
        longest.min(self.options.sustained_s.max(seconds)).ceil()
    }

    /// The smallest multiple that a stay can tell anything of.
    fn smallest(&self) -> f64 {
        self.measurable_in(self.options.sustained_s)
    }

    /// The smallest multiple at which each limit sees enough operations in this time.
    fn measurable_in(&self, seconds: f64) -> f64 {
        let least = self
            .limits_and_rates()
            .map(|(limit, rate)| limit.operations_least() / (rate * seconds));
        let smallest = least.fold(self.options.smallest, f64::max);
        smallest.min(self.options.largest)
    }

    /// Limits whose operations were seen, each with how many of them a multiple of 1 has in a second.
    fn limits_and_rates(&self) -> impl Iterator<Item = (&LoadLineLimit, f64)> {
        let both = self.options.limits.iter().zip(self.rates.iter().copied());
        // Of a load that ended no operation nothing is known of how many there are.
        both.filter(|(_, rate)| *rate > 0.0)
    }

    fn part_s(&self) -> f64 {
        self.options.sustained_s / PARTS as f64
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
            let batches = &reading.batches[reading.batches.len() / 5..];
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

    /// What was carried a while ago is not carried any more: only stays can tell what is.
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

    /// What was carried by credits is not carried: a stay that was overloaded speaks against all that were
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
        let n = reading.batches.len();
        let is_late = self.exhausting.is_some() || trial.backlog_grew;
        if is_late { n / 2 } else { n / 5 }
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

    fn supported(&self, edges: &EdgeSet) -> LoadLineInterval {
        let mut interval = self.interval(edges);
        let stays = self.confirmed();
        if stays.low.is_finite() {
            interval.low = interval.low.min(stays.low.exp());
        }
        if stays.high.is_finite() {
            interval.high = interval.high.max(stays.high.exp());
        }
        interval
    }

    /// With what was played and not judged yet. What nobody expected and no second look confirmed may be
    /// true or not, so the interval holds both.
    fn supported_by_all(&self) -> LoadLineInterval {
        let mut short = self.edges().clone();
        if let Some(doubted) = &self.doubted {
            short.add(&doubted.seen);
        }
        let running = self.running.as_ref().filter(|stay| stay.is_telling());
        let running = running.map(|stay| self.sightings(&stay.whole));
        let is_foretold = |seen: &[EdgeSighting]| {
            let is_carried = seen.iter().all(|sighting| sighting.margin > 0.0);
            is_carried || self.edges().predicted_below(seen) > FORETOLD
        };
        if let Some(seen) = running.as_ref().filter(|seen| is_foretold(seen)) {
            short.add(seen);
        }
        let mut interval = self.supported(&short);
        let unexpected = running.filter(|seen| !is_foretold(seen));
        let doubted = self.doubted_stay.as_ref().map(|stay| stay.seen.clone());
        let unexpected: Vec<_> = doubted.into_iter().chain(unexpected).collect();
        if !unexpected.is_empty() {
            let mut long = match &self.long {
                Some(long) => long.clone(),
                None => self.longer(),
            };
            unexpected.iter().for_each(|seen| long.add(seen));
            interval = interval.hull(&self.interval(&long));
        }
        interval
    }

    fn is_narrow(&self) -> bool {
        let interval = self.supported(self.edges());
        let is_narrow = interval.high / interval.low <= 1.0 + self.options.width;
        is_narrow || self.options.is_whole && interval.high.floor() - interval.low.floor() <= 1.0
    }

    fn interval(&self, edges: &EdgeSet) -> LoadLineInterval {
        let tail = self.tail();
        LoadLineInterval {
            low: edges.quantile(tail).exp(),
            point: edges.quantile(0.5).exp(),
            high: edges.quantile(1.0 - tail).exp(),
        }
    }

    /// The interval of the posterior, widened to the stays that confirm it, and to the width that was
    /// asked for: a search that stops as soon as it is narrow stops too early too often. Only trials make
    /// an end: beyond all of them it is that of the multiples that were allowed.
    fn found(&self) -> (LoadLineInterval, LoadLineReach) {
        let mut interval = self.supported_by_all();
        let missing = self.options.width.ln_1p() - (interval.high / interval.low).ln();
        if missing > 0.0 {
            interval.low *= (-missing / 2.0).exp();
            interval.high *= (missing / 2.0).exp();
        }
        let (smallest, largest) = (self.smallest(), self.options.largest);
        let broken_least = self.broken.iter().copied().reduce(f64::min);
        // A stay at the end of the range has decided, however wide the posterior is.
        let is_most = self.stop == Some(LoadLineStop::EverythingCarried);
        if is_most {
            interval.low = interval.low.max(self.confirmed().low.exp());
        }
        let is_low_known = self.carried_most.is_some() && (is_most || interval.low >= smallest);
        let is_high_known = broken_least.is_some() && interval.high <= largest;
        if let (Some(most), None) = (self.carried_most, broken_least) {
            interval.low = interval.low.min(most.exp());
        }
        if let (None, Some(least)) = (self.carried_most, broken_least) {
            interval.high = interval.high.max(least.exp());
        }
        interval.low = interval.low.clamp(smallest, largest);
        interval.high = interval.high.clamp(smallest, largest);
        interval.point = interval.point.clamp(interval.low, interval.high);
        if self.options.is_whole {
            interval.low = interval.low.floor();
            interval.point = interval.point.floor();
            interval.high = interval.high.floor();
        }
        (interval, LoadLineReach::of(is_low_known, is_high_known))
    }

    /// The interval as it is now.
    #[must_use]
    pub fn sustained(&self) -> LoadLineInterval {
        self.found().0
    }

    /// What is known now.
    #[must_use]
    pub fn result(&self) -> LoadLineResult {
        let edges = self.edges();
        let (sustained, reach) = self.found();
        let stop = match self.next() {
            LoadLineStep::Done(stop) => Some(stop),
            LoadLineStep::Try(_) => None,
        };
        let burst = self.interval(&self.short);
        LoadLineResult {
            sustained,
            reach,
            idle: self.idle.last().cloned(),
            burst: (burst.low > sustained.high).then_some(burst),
            stop,
            binding: edges
                .binding()
                .map(|limit| self.options.limits[limit].name.clone()),
            trials: self.trials,
            seconds: self.seconds,
            steadiness: self.steadiness,
            curve: self.curve(),
        }
    }

    fn curve(&self) -> Vec<LoadLineCurvePoint> {
        let edges = self.edges();
        let (middle, width) = (edges.quantile(0.5), edges.width(1.0 - 2.0 * self.tail()));
        let reach = (3.0 * width).clamp(0.02, 1.0);
        let places = (-10..=10).map(|i| middle + reach * f64::from(i) / 10.0);
        let tail = self.tail();
        places
            .filter_map(|place| {
                let margins = edges.margins(place, &[tail, 0.5, 1.0 - tail]);
                let [low, margin, high] = margins[..] else {
                    return None;
                };
                Some(LoadLineCurvePoint {
                    multiple: place.exp(),
                    low,
                    margin,
                    high,
                    carried: (1.0 - edges.below(place)).max(0.0),
                })
            })
            .collect()
    }
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
