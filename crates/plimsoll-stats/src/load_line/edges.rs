// SPDX-License-Identifier: Apache-2.0
//! The edges of all limits, and the lowest of them.
//!
//! Limits are read off the same trials, so what disturbs one disturbs the others: they are taken as
//! moving together, and the probability that the lowest edge is below a multiple as the largest that
//! one of them is.

use super::posterior::{EdgeHint, EdgePosterior, EdgePrior, EdgeSighting};

/// How much lower than before the served load must be to be worth a new start.
const SERVED_STEP: f64 = 0.02;

/// By what logarithm the density falls with each e-fold below what was seen to be served.
const FALL: f64 = 1.0;

/// One posterior for each limit that was broken or the nearest to it.
#[derive(Debug, Clone)]
pub(super) struct EdgeSet {
    pub(super) prior: EdgePrior,
    /// By limit.
    sightings: Vec<Vec<EdgeSighting>>,
    posteriors: Vec<Option<EdgePosterior>>,
    /// The hints of shorter trials, by limit.
    hints: Vec<Option<EdgeHint>>,
}

impl EdgeSet {
    pub(super) fn new(prior: EdgePrior, limits: usize) -> EdgeSet {
        EdgeSet {
            prior,
            sightings: vec![Vec::new(); limits],
            posteriors: vec![None; limits],
            hints: vec![None; limits],
        }
    }

    /// For longer trials, which take over what these said as a hint.
    pub(super) fn longer(&self, prior: EdgePrior) -> EdgeSet {
        let mut longer = EdgeSet::new(prior, self.sightings.len());
        let hints = self.posteriors.iter();
        longer.hints = hints
            .map(|known| known.as_ref().map(EdgePosterior::hint))
            .collect();
        for limit in 0..longer.hints.len() {
            if longer.hints[limit].is_some() {
                longer.fit(limit);
            }
        }
        longer
    }

    /// Adds what each limit saw of one trial.
    pub(super) fn add(&mut self, seen: &[EdgeSighting]) {
        let nearest = nearest(seen);
        for (limit, sighting) in seen.iter().enumerate() {
            self.sightings[limit].push(*sighting);
            match &mut self.posteriors[limit] {
                Some(posterior) => posterior.add(*sighting),
                None if sighting.margin < 0.0 || limit == nearest => self.fit(limit),
                None => {}
            }
        }
    }

    fn fit(&mut self, limit: usize) {
        let prior = EdgePrior {
            hint: self.hints[limit].clone(),
            ..self.prior.clone()
        };
        let posterior = EdgePosterior::of(prior, &self.sightings[limit]);
        self.posteriors[limit] = Some(posterior);
    }

    /// Judges the errors of a limit again.
    pub(super) fn reweigh(&mut self, limit: usize, error: impl Fn(&EdgeSighting) -> f64) {
        for sighting in &mut self.sightings[limit] {
            sighting.error = error(sighting);
        }
        if self.posteriors[limit].is_some() {
            self.fit(limit);
        }
    }

    /// No more than this was served, so the edge is hardly above it.
    pub(super) fn served_at_most(&mut self, place: f64) {
        if place > self.prior.served - SERVED_STEP {
            return;
        }
        self.prior.served = place;
        self.prior.fall = self.prior.fall.max(FALL);
        for limit in 0..self.posteriors.len() {
            if self.posteriors[limit].is_some() {
                self.fit(limit);
            }
        }
    }

    /// Forgets what was carried at this place or above.
    pub(super) fn withdraw(&mut self, place: f64) {
        for limit in 0..self.sightings.len() {
            let before = self.sightings[limit].len();
            self.sightings[limit].retain(|seen| seen.margin <= 0.0 || seen.place < place);
            if self.sightings[limit].len() < before && self.posteriors[limit].is_some() {
                self.fit(limit);
            }
        }
    }

    fn known(&self) -> impl Iterator<Item = &EdgePosterior> {
        self.posteriors.iter().flatten()
    }

    /// Probability that the lowest edge is at most this (in ln multiple).
    pub(super) fn below(&self, place: f64) -> f64 {
        let all = self.known().map(|posterior| posterior.below(place));
        all.fold(0.0, f64::max)
    }

    /// The lowest edge (in ln multiple) with this probability.
    pub(super) fn quantile(&self, probability: f64) -> f64 {
        let lowest = self
            .known()
            .map(|posterior| posterior.quantile(probability));
        let lowest = lowest.fold(f64::INFINITY, f64::min);
        if lowest.is_finite() {
            return lowest;
        }
        let (low, high) = (self.prior.low, self.prior.high);
        low + (high - low) * probability
    }

    /// Width of the interval of this confidence, in ln multiple.
    pub(super) fn width(&self, confidence: f64) -> f64 {
        let tail = (1.0 - confidence) / 2.0;
        self.quantile(1.0 - tail) - self.quantile(tail)
    }

    /// The limit whose edge is the lowest; `None` before the first trial.
    pub(super) fn binding(&self) -> Option<usize> {
        let known = self.posteriors.iter().enumerate();
        let medians = known.filter_map(|(limit, posterior)| {
            posterior
                .as_ref()
                .map(|posterior| (limit, posterior.quantile(0.5)))
        });
        let lowest = medians.min_by(|a, b| a.1.total_cmp(&b.1));
        lowest.map(|(limit, _)| limit)
    }

    /// How probable so low a margin was, of the limit that is nearest to being broken; 1 while nothing
    /// is known of it.
    pub(super) fn predicted_below(&self, seen: &[EdgeSighting]) -> f64 {
        let limit = nearest(seen);
        let posterior = self.posteriors.get(limit).and_then(Option::as_ref);
        let known = posterior.filter(|_| self.sightings[limit].len() > 2);
        known.map_or(1.0, |posterior| posterior.predicted_below(&seen[limit]))
    }

    /// Quantiles of the margin of the binding limit.
    pub(super) fn margins(&self, place: f64, probabilities: &[f64]) -> Vec<f64> {
        let binding = self
            .binding()
            .and_then(|limit| self.posteriors[limit].as_ref());
        binding.map_or_else(Vec::new, |posterior| {
            posterior.margins(place, probabilities)
        })
    }
}

/// The limit with the smallest margin.
pub(super) fn nearest(seen: &[EdgeSighting]) -> usize {
    let each = seen.iter().enumerate();
    let lowest = each.min_by(|a, b| a.1.margin.total_cmp(&b.1.margin));
    lowest.map_or(0, |(limit, _)| limit)
}
