// SPDX-License-Identifier: Apache-2.0
//! Where the edge of one limit is, given the margins of all trials.
//!
//! On a grid: the edge (in ln multiple), the slope of the margin, a jump of it below and above the edge
//! (a cliff), and the noise between trials. The further a trial is from a supposed edge, the less its
//! margin is expected to follow the straight line: the error grows with the margin. Student's t with
//! few degrees of freedom lets single trials that others disturbed be wrong.

use plimsoll_core::load_line::LoadLineBatch;

use super::limit::MARGIN_MAX;

const EDGES: usize = 96;
const SLOPES: [f64; 7] = [0.3, 1.0, 2.5, 6.0, 14.0, 32.0, 75.0];
const JUMPS: [f64; 4] = [0.0, 0.35, 0.9, 2.2];
const NOISES: [f64; 6] = [0.03, 0.06, 0.12, 0.25, 0.5, 1.0];
const NOISE_WEIGHTS: [f64; 6] = [0.5, 1.0, 1.5, 1.5, 1.0, 0.3];
const SHAPES: usize = SLOPES.len() * JUMPS.len() * JUMPS.len() * NOISES.len();

/// Degrees of freedom of the error; [`student_below`] knows them.
const FREEDOM: f64 = 5.0;

/// Log weight of no jump.
const STRAIGHT: f64 = 2.5;

/// Error of the straight line, as a share of the margin it predicts.
const BEND: f64 = 0.4;

/// Spread of the edge of long trials around that of short ones, when time changes nothing, and the
/// logarithm by which it falls in the mean when it does.
const HINT_WIDTH: f64 = 0.01;
const HINT_FALL: f64 = 0.4;

/// A shape that short trials refuted may still be that of long ones.
const SHAPE_MIN: f64 = -4.0;

/// Probability on either side that a finer grid may leave out.
const TAIL: f64 = 1e-4;

/// A margin seen at a multiple.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EdgeSighting {
    /// ln of the multiple.
    pub(super) place: f64,
    pub(super) margin: f64,
    /// Standard error within the trial.
    pub(super) error: f64,
    /// The operations that tell it.
    pub(super) all: LoadLineBatch,
}

/// The belief about the edge before any trial.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EdgePrior {
    /// ln of the smallest multiple.
    pub(super) low: f64,
    /// ln of the largest.
    pub(super) high: f64,
    /// By what logarithm the density falls with each e-fold below the largest.
    pub(super) fall: f64,
    /// ln of what was seen to be served at most: the edge is hardly above it.
    pub(super) served: f64,
    /// The hint of shorter trials.
    pub(super) hint: Option<EdgeHint>,
}

/// The hint of shorter trials: how the margin depends on the multiple, and the edge unless time lowers it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EdgeHint {
    /// Quantiles of the edge at equal steps of probability.
    pub(super) edges: Vec<f64>,
    /// Log weights of slopes and jumps.
    pub(super) shapes: Vec<f64>,
}

impl EdgeHint {
    /// Time rarely raises an edge and may lower it by any factor.
    fn log_weight(&self, edge: f64) -> f64 {
        let density = |at: &f64| {
            let fall = at - edge;
            let near = 0.6 / HINT_WIDTH * (-0.5 * (fall / HINT_WIDTH).powi(2)).exp();
            let low = if fall > 0.0 {
                1.0 * (-fall / HINT_FALL).exp()
            } else {
                0.0
            };
            near + low + 0.02
        };
        let sum: f64 = self.edges.iter().map(density).sum();
        (sum / self.edges.len() as f64).ln()
    }
}

impl EdgePrior {
    fn log_weight(&self, edge: f64) -> f64 {
        let above = (edge - (self.served + 0.05)).clamp(0.0, 0.15);
        let below = self.fall * (edge - self.high.min(self.served)).min(0.0);
        let hint = self.hint.as_ref().map_or(0.0, |hint| hint.log_weight(edge));
        below + hint - 40.0 * above
    }

    fn shape_weight(&self, index: usize, shape: EdgeShape) -> f64 {
        // A straight line is about as likely as all cliffs together.
        let straight = if shape.below + shape.above == 0.0 {
            STRAIGHT
        } else {
            0.0
        };
        let hint = self.hint.as_ref().and_then(|hint| hint.shapes.get(index));
        hint.copied().unwrap_or(straight)
    }
}

/// One way the margin may depend on the multiple.
#[derive(Debug, Clone, Copy)]
struct EdgeShape {
    slope: f64,
    below: f64,
    above: f64,
}

impl EdgeShape {
    fn margin(self, distance: f64) -> f64 {
        let jump = if distance >= 0.0 {
            self.below
        } else {
            -self.above
        };
        (jump + self.slope * distance).clamp(-MARGIN_MAX, MARGIN_MAX)
    }
}

fn shapes() -> impl Iterator<Item = EdgeShape> {
    let pairs = JUMPS
        .iter()
        .flat_map(|below| JUMPS.iter().map(move |above| (*below, *above)));
    SLOPES.iter().flat_map(move |slope| {
        pairs.clone().map(move |(below, above)| EdgeShape {
            slope: *slope,
            below,
            above,
        })
    })
}

/// The posterior of the edge of one limit.
#[derive(Debug, Clone)]
pub(super) struct EdgePosterior {
    prior: EdgePrior,
    sightings: Vec<EdgeSighting>,
    low: f64,
    step: f64,
    /// Log weights, by edge and shape with noise.
    cells: Vec<f64>,
    /// Probability of each edge.
    edges: Vec<f64>,
}

impl EdgePosterior {
    pub(super) fn new(prior: EdgePrior) -> EdgePosterior {
        let mut new = EdgePosterior {
            sightings: Vec::new(),
            low: prior.low,
            step: 0.0,
            cells: Vec::new(),
            edges: Vec::new(),
            prior,
        };
        new.lay_grid(new.prior.low, new.prior.high);
        new
    }

    /// From all sightings at once.
    pub(super) fn of(prior: EdgePrior, sightings: &[EdgeSighting]) -> EdgePosterior {
        let mut new = EdgePosterior::new(prior);
        for sighting in sightings {
            new.add(*sighting);
        }
        new
    }

    pub(super) fn add(&mut self, sighting: EdgeSighting) {
        self.sightings.push(sighting);
        self.weigh(&sighting);
        self.normalise();
        self.refit_grid();
    }

    fn lay_grid(&mut self, low: f64, high: f64) {
        self.low = low;
        self.step = (high - low) / (EDGES - 1) as f64;
        self.cells = Vec::with_capacity(EDGES * SHAPES);
        for i in 0..EDGES {
            let prior = self.prior.log_weight(self.low + self.step * i as f64);
            for (index, shape) in shapes().enumerate() {
                let kind = prior + self.prior.shape_weight(index, shape);
                self.cells
                    .extend(NOISE_WEIGHTS.iter().map(|w| kind + w.ln()));
            }
        }
        for sighting in self.sightings.clone() {
            self.weigh(&sighting);
        }
        self.normalise();
    }

    fn weigh(&mut self, sighting: &EdgeSighting) {
        let mut cells = self.cells.iter_mut();
        for i in 0..EDGES {
            let distance = self.low + self.step * i as f64 - sighting.place;
            for shape in shapes() {
                let expected = shape.margin(distance);
                let square = (sighting.margin - expected).powi(2);
                let fixed = sighting.error.powi(2) + (BEND * expected).powi(2);
                for (noise, cell) in NOISES.iter().zip(&mut cells) {
                    let variance = fixed + noise * noise;
                    let tail = (1.0 + square / (FREEDOM * variance)).ln();
                    *cell -= f64::midpoint(FREEDOM, 1.0) * tail + 0.5 * variance.ln();
                }
            }
        }
    }

    fn normalise(&mut self) {
        let most = self.cells.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.cells.iter_mut().for_each(|cell| *cell -= most);
        let sums = self.cells.chunks(SHAPES);
        self.edges = sums
            .map(|row| row.iter().map(|cell| cell.exp()).sum())
            .collect();
        let all: f64 = self.edges.iter().sum();
        self.edges.iter_mut().for_each(|edge| *edge /= all);
    }

    /// A finer grid where the edge is, a coarser one when it was left out.
    fn refit_grid(&mut self) {
        let (first, last) = (self.quantile(TAIL), self.quantile(1.0 - TAIL));
        let high = self.low + self.step * (EDGES - 1) as f64;
        let span = high - self.low;
        let ends = self.edges[..2]
            .iter()
            .sum::<f64>()
            .max(self.edges[EDGES - 2..].iter().sum());
        let is_whole = self.low <= self.prior.low && high >= self.prior.high;
        if ends > 1e-3 && !is_whole {
            self.lay_grid(
                (self.low - span).max(self.prior.low),
                (high + span).min(self.prior.high),
            );
        } else if last - first < 0.35 * span && span > 0.01 {
            let pad = 0.25 * (last - first) + 0.5 * self.step;
            self.lay_grid(
                (first - pad).max(self.prior.low),
                (last + pad).min(self.prior.high),
            );
        }
    }

    /// Probability that the edge is at most this (in ln multiple).
    pub(super) fn below(&self, place: f64) -> f64 {
        let at = (place - self.low) / self.step + 0.5;
        let mut sum = 0.0;
        for (i, edge) in self.edges.iter().enumerate() {
            sum += edge * (at - i as f64).clamp(0.0, 1.0);
        }
        sum
    }

    pub(super) fn quantile(&self, probability: f64) -> f64 {
        let mut sum = 0.0;
        for (i, edge) in self.edges.iter().enumerate() {
            if sum + edge >= probability && *edge > 0.0 {
                let part = (probability - sum) / edge;
                return self.low + self.step * (i as f64 - 0.5 + part);
            }
            sum += edge;
        }
        self.low + self.step * EDGES as f64
    }

    /// For the posterior of longer trials.
    pub(super) fn hint(&self) -> EdgeHint {
        let mut shapes = vec![0.0; SHAPES / NOISES.len()];
        for row in self.cells.chunks(SHAPES) {
            for (shape, noises) in shapes.iter_mut().zip(row.chunks(NOISES.len())) {
                *shape += noises.iter().map(|cell| cell.exp()).sum::<f64>();
            }
        }
        let most = shapes.iter().copied().fold(0.0, f64::max);
        EdgeHint {
            edges: (0..20)
                .map(|i| self.quantile((f64::from(i) + 0.5) / 20.0))
                .collect(),
            shapes: shapes
                .iter()
                .map(|s| (s / most).ln().max(SHAPE_MIN))
                .collect(),
        }
    }

    /// Cells with their probability, by edge.
    fn each(&self, mut visit: impl FnMut(f64, EdgeShape, f64, f64)) {
        let all: f64 = self.cells.iter().map(|cell| cell.exp()).sum();
        let mut cells = self.cells.iter();
        for i in 0..EDGES {
            let edge = self.low + self.step * i as f64;
            for shape in shapes() {
                for (noise, cell) in NOISES.iter().zip(&mut cells) {
                    if *cell > -25.0 {
                        visit(edge, shape, *noise, cell.exp() / all);
                    }
                }
            }
        }
    }

    /// Probability of a margin at most this large at that place, before it is added.
    pub(super) fn predicted_below(&self, sighting: &EdgeSighting) -> f64 {
        let mut sum = 0.0;
        self.each(|edge, shape, noise, weight| {
            let expected = shape.margin(edge - sighting.place);
            let variance = sighting.error.powi(2) + (BEND * expected).powi(2) + noise * noise;
            sum += weight * student_below((sighting.margin - expected) / variance.sqrt());
        });
        sum
    }

    /// Quantiles of the margin at a place, without noise.
    pub(super) fn margins(&self, place: f64, probabilities: &[f64]) -> Vec<f64> {
        const BINS: usize = 200;
        let width = 2.0 * MARGIN_MAX / BINS as f64;
        let mut bins = [0.0; BINS + 1];
        self.each(|edge, shape, _, weight| {
            let at = (shape.margin(edge - place) + MARGIN_MAX) / width;
            bins[plimsoll_core::num::to_usize(plimsoll_core::num::round_u64(at)).min(BINS)] +=
                weight;
        });
        let quantile = |probability: &f64| {
            let mut sum = 0.0;
            let reached = bins.iter().position(|bin| {
                sum += bin;
                sum >= *probability
            });
            reached.unwrap_or(BINS) as f64 * width - MARGIN_MAX
        };
        probabilities.iter().map(quantile).collect()
    }
}

/// Distribution function of Student's t with five degrees of freedom, which has a closed form.
fn student_below(t: f64) -> f64 {
    let u = t / FREEDOM.sqrt();
    let cosine_square = 1.0 / (1.0 + u * u);
    let rational = u * cosine_square * (1.0 + 2.0 / 3.0 * cosine_square);
    0.5 + (u.atan() + rational) / std::f64::consts::PI
}
