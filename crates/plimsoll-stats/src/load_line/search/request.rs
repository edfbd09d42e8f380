// SPDX-License-Identifier: Apache-2.0
//! The trial that a search asks for next: where, how long, and for what.

use plimsoll_core::load_line::{LoadLinePurpose, LoadLineRequest};

use super::super::edges::EdgeSet;
use super::super::limit::LoadLineLimit;
use super::super::outcome::LoadLineStop;
use super::super::stays::{ConfirmedStays, PARTS};
use super::super::trial::LoadLineStep;
use super::LoadLineSearch;

/// Where trials that locate the edge are placed: at these probabilities of being above it, first and
/// then in turn.
const FIRST_PLACES: [f64; 4] = [0.5; 4];
const PLACES: [f64; 3] = [0.85, 0.15, 0.5];

/// While the edge is not known to this factor, trials are short.
const LOCATED: f64 = 0.35;

/// As many stays are played in the middle before any is played on a side of an edge that is not located.
const MIDDLE_STAYS: usize = 3;

/// The edge of short trials is known well enough for a stay at this multiple of the width asked for.
const SHORT_WIDTH: f64 = 0.9;

/// Short trials end after the time of this many hold periods, or after this share of the budget if that is
/// less: without a hold period, the edge is only a forecast.
const SHORT_MAX: f64 = 2.0;
const SHORT_OF_BUDGET: f64 = 0.45;

/// Short trials double in length each time this number of them has not located the edge: where rare
/// operations come in clumps, more trials of a few seconds say little, and most of them look better than a
/// long one.
const DOUBLED_AFTER: usize = 16;

/// Trials near the edge, at least.
const REFINED_MIN: usize = 4;

/// Share of the error that an interval may make that its posterior is given; the rest is for what the
/// posterior does not know: drift, and that the search ends when its interval happens to be narrow.
const SPARE: f64 = 0.25;

/// Probability of being on the wrong side of the edge, of a trial that is to be near it on one side, and
/// its least distance from the middle, in widths asked for.
const SIDE: f64 = 0.15;
const APART: f64 = 0.4;

/// A trial at the lowest load takes at most this share of a stay, this share of the budget, and this long.
const IDLE_OF_STAY: f64 = 0.5;
const IDLE_OF_BUDGET: f64 = 0.1;
const IDLE_MAX_S: f64 = 60.0;

/// It is played once more when it breaks a limit: others may have disturbed it.
const IDLE_TRIES: usize = 2;

/// A load is low below this multiple of where the edge is likely.
const LOW: f64 = 0.5;

impl LoadLineSearch {
    /// The trial to run now, or why there is none.
    pub fn next(&self) -> LoadLineStep {
        if let Some(stop) = self.stop {
            return LoadLineStep::Done(stop);
        }
        let request = self.request();
        let left = self.options.budget_s - self.seconds;
        if request.seconds <= left {
            return LoadLineStep::Try(request);
        }
        let last = self.last_request().filter(|last| last.seconds <= left);
        last.map_or(
            LoadLineStep::Done(LoadLineStop::BudgetReached),
            LoadLineStep::Try,
        )
    }

    /// Where no trial says yet that not everything above is carried, the time that is left for no other
    /// trial is enough for a short one far above, which an overload ends all doubt of.
    fn last_request(&self) -> Option<LoadLineRequest> {
        let is_pending = self.running.is_some() || self.doubted.is_some();
        let largest = self.options.largest.ln();
        let is_open = self.edges().quantile(1.0 - self.tail()) > largest;
        if is_pending || self.long.is_some() || !is_open {
            return None;
        }
        let place = f64::midpoint(self.edges().quantile(0.5), largest);
        let seconds = self.options.short_s;
        let request = self.at(place, seconds, LoadLinePurpose::Locate);
        Some(LoadLineRequest { seconds, ..request })
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
    pub(super) fn goal(&self) -> f64 {
        let asked = self.options.width.ln_1p();
        if !self.options.is_whole {
            return asked;
        }
        let clients = self.edges().quantile(0.5).exp().floor().max(1.0);
        asked.max((1.0 / clients).ln_1p())
    }

    /// Probability beyond each end of the interval.
    pub(super) fn tail(&self) -> f64 {
        SPARE * (1.0 - self.options.confidence) / 2.0
    }

    /// Whether it is time for hold periods: short trials have used their share of the time and are still
    /// unconfirmed, or the next doubling would make them longer than a hold period.
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
    pub(super) fn confirmed(&self) -> ConfirmedStays {
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
    pub(super) fn smallest(&self) -> f64 {
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
}
