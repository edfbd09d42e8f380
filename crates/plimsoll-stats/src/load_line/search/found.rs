// SPDX-License-Identifier: Apache-2.0
//! The load line that the trials of a search support: its interval, how far that reaches, and its curve.

use super::super::edges::EdgeSet;
use super::super::outcome::{
    LoadLineCurvePoint, LoadLineInterval, LoadLineReach, LoadLineResult, LoadLineStop,
};
use super::super::posterior::EdgeSighting;
use super::super::trial::LoadLineStep;
use super::{FORETOLD, LoadLineSearch};

impl LoadLineSearch {
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

    /// The interval with trials that were played and not judged yet. An unexpected result that no repeat
    /// has confirmed may be true or not, so the interval holds both.
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

    pub(super) fn is_narrow(&self) -> bool {
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
    pub fn sustained(&self) -> LoadLineInterval {
        self.found().0
    }

    /// The result so far.
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
