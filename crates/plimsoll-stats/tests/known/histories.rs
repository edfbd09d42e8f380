// SPDX-License-Identifier: Apache-2.0
//! Histories whose truth is known: a system and its reference in a lab that drifts from day to day.

use plimsoll_core::change::RatioPoint;
use plimsoll_core::rng::Rng;

/// How far outliers lie on average, in units of the noise.
const OUTLIER_NOISES: f64 = 6.0;

/// Causes that move the points of a history. Deviations are of logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistoryLaw {
    /// Points.
    pub points: usize,
    /// Noise of a system's own value in one point.
    pub noise: f64,
    /// Deviation of the lab's drift, and its correlation from one point to the next (AR(1)).
    pub drift: f64,
    /// That correlation.
    pub memory: f64,
    /// Share of the drift that the reference does not follow.
    pub leak: f64,
    /// Share of points in which one of both systems is slower, by [`OUTLIER_NOISES`] on average.
    pub outliers: f64,
    /// The first point of the new level, and its distance.
    pub step: Option<(usize, f64)>,
}

/// A history that was drawn.
#[derive(Debug, Clone)]
pub struct SimulatedHistory {
    /// The figure of the system alone.
    pub raw: Vec<f64>,
    /// The ratio to its reference.
    pub ratios: Vec<RatioPoint>,
}

impl HistoryLaw {
    /// The standard deviation of the raw values, without outliers.
    pub fn plain_deviation(&self) -> f64 {
        self.noise.hypot(self.drift)
    }

    /// The standard deviation of the raw values as they are measured.
    pub fn raw_deviation(&self) -> f64 {
        // Of an exponential law with this mean, taken with this probability.
        let (share, mean) = (self.outliers / 2.0, OUTLIER_NOISES * self.noise);
        let squares = 2.0 * share * mean * mean - (share * mean).powi(2);
        (self.plain_deviation().powi(2) + squares).sqrt()
    }

    /// Draws one.
    pub fn draw(&self, rng: &mut Rng) -> SimulatedHistory {
        let fresh = (1.0 - self.memory * self.memory).sqrt();
        let mut drift = self.drift * rng.normal();
        let (mut raw, mut ratios) = (Vec::new(), Vec::new());
        let mut day = 0;
        for point in 0..self.points {
            drift = self.memory * drift + fresh * self.drift * rng.normal();
            let own = |rng: &mut Rng| {
                let is_slow = rng.unit() < self.outliers / 2.0;
                let slow = if is_slow {
                    rng.exponential(OUTLIER_NOISES)
                } else {
                    0.0
                };
                self.noise * (rng.normal() + slow)
            };
            let step = self.step.filter(|(first, _)| point >= *first);
            let system = drift + own(rng) + step.map_or(0.0, |(_, distance)| distance);
            let reference = (1.0 - self.leak) * drift + own(rng);
            raw.push(system);
            ratios.push(RatioPoint {
                when_unix_s: day,
                log_ratio: system - reference,
                error: Some(self.noise * (1.6 + 0.4 * rng.unit()) / 1.27),
            });
            day += 86_400;
        }
        SimulatedHistory { raw, ratios }
    }
}
