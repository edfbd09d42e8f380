// SPDX-License-Identifier: Apache-2.0
//! When requests come: bursts within bursts, as recorded at every scale.
//!
//! How many came in each 128th of the recording is kept in its order. Each of these is halved, its
//! halves are halved, and so on. How unevenly the requests of a stretch
//! fall on its halves is kept for each length of stretch and each number of requests, to a part in 64;
//! which half has more is drawn. So counts vary at every scale as much as recorded. Source: Riedi,
//! Crouse, Ribeiro and Baraniuk, "A multifractal wavelet model with application to network traffic"
//! (1999), with counted shares instead of a family of distributions.

use serde::{Deserialize, Serialize};

use super::urns::{ConditionalCounts, power, symbol};
use crate::num::{round_u64, saturating_u32, to_usize};
use crate::rng::Rng;
use crate::units::Nanos;

/// The recording is divided into 2^this parts.
const LEVEL: u32 = 7;
const PARTS: u64 = 1 << LEVEL;
/// Stretches that are shorter are not halved: what is in them comes at once.
const SHORTEST_NS: u64 = 16;
/// Steps of the share beyond one half; the last is that all are in one half.
const STEPS: u64 = 64;
/// Situations of one length of stretch.
const POWERS: u32 = 64;

/// How requests fall on the halves of stretches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct ParametricArrivalModel {
    /// Requests of each part of the recording.
    parts: Vec<u32>,
    /// By the length of a stretch, and the power of two of its requests.
    halves: ConditionalCounts,
}

/// A part of the recording: the one at `place` of 2^level.
#[derive(Debug, Clone, Copy)]
struct DyadicInterval {
    level: u32,
    place: u64,
}

impl DyadicInterval {
    fn part(place: u64) -> DyadicInterval {
        DyadicInterval {
            level: LEVEL,
            place,
        }
    }

    /// Where the half at `half` begins; 2 is its end.
    fn edge(self, length: u64, half: u64) -> u64 {
        let halves = u128::from(length) * u128::from(2 * self.place + half);
        let edge = halves >> (self.level + 1);
        u64::try_from(edge).unwrap_or(u64::MAX)
    }

    fn half(self, half: u64) -> DyadicInterval {
        DyadicInterval {
            level: self.level + 1,
            place: 2 * self.place + half,
        }
    }

    fn is_shortest(self, length: u64) -> bool {
        length >> self.level < SHORTEST_NS
    }

    fn situation(self, requests: u64) -> u32 {
        self.level * POWERS + power(requests)
    }
}

impl ParametricArrivalModel {
    /// Of instants in order, of a recording that lasted `length`.
    pub(super) fn of(instants: &[u64], length: Nanos) -> ParametricArrivalModel {
        let mut halves = ConditionalCounts::default();
        let (mut parts, mut stack, mut rest) = (Vec::new(), Vec::new(), instants);
        for place in 0..PARTS {
            let part = DyadicInterval::part(place);
            let end = part.edge(length.0, 2);
            let (inside, later) = rest.split_at(rest.partition_point(|at| *at < end));
            parts.push(symbol(inside.len()));
            stack.push((part, inside));
            rest = later;
        }
        // Each stretch with two requests or more is met once.
        while let Some((stretch, instants)) = stack.pop() {
            if instants.len() < 2 || stretch.is_shortest(length.0) {
                continue;
            }
            let middle = stretch.edge(length.0, 1);
            let (early, late) = instants.split_at(instants.partition_point(|at| *at < middle));
            let (all, most) = (instants.len() as u64, early.len().max(late.len()) as u64);
            let step = match most {
                most if most == all => STEPS,
                most => (2 * most - all) * STEPS / all,
            };
            let situation = stretch.situation(all);
            halves.count(situation, symbol(to_usize(step)));
            stack.push((stretch.half(1), late));
            stack.push((stretch.half(0), early));
        }
        ParametricArrivalModel { parts, halves }
    }

    /// Requests of the recording.
    pub(super) fn requests(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(*part)).sum()
    }

    /// How busy the part is in which an instant lies: the power of two of its requests.
    pub(super) fn busy(&self, at: u64, length: Nanos) -> u32 {
        let part = u128::from(at) * u128::from(PARTS) / u128::from(length.0.max(1));
        let part = usize::try_from(part)
            .ok()
            .and_then(|part| self.parts.get(part));
        part.map_or(0, |requests| power((*requests).into()))
    }

    /// As many instants as were recorded, in order, in a recording as long.
    pub(super) fn draw(&self, length: Nanos, rng: &mut Rng) -> Vec<u64> {
        let mut bags = self.halves.bags();
        let mut instants = Vec::with_capacity(to_usize(self.requests()));
        let parts = (0..PARTS).zip(&self.parts);
        let mut stack: Vec<(DyadicInterval, u64)> = parts
            .map(|(place, requests)| (DyadicInterval::part(place), (*requests).into()))
            .collect();
        stack.reverse();
        while let Some((stretch, requests)) = stack.pop() {
            let begin = stretch.edge(length.0, 0);
            match requests {
                0 => {}
                1 => {
                    let room = stretch.edge(length.0, 2).saturating_sub(begin);
                    instants.push(begin + rng.below(room.max(1)));
                }
                all if stretch.is_shortest(length.0) => {
                    instants.extend(std::iter::repeat_n(begin, to_usize(all)));
                }
                all => {
                    let step = bags.draw(stretch.situation(all), rng).unwrap_or_default();
                    let most = share(all, step.into(), rng);
                    let early = match rng.below(2) {
                        0 => most,
                        _ => all - most,
                    };
                    stack.push((stretch.half(1), all - early));
                    stack.push((stretch.half(0), early));
                }
            }
        }
        instants
    }
}

/// How many of `all` (two or more) are in the half that has more.
fn share(all: u64, step: u64, rng: &mut Rng) -> u64 {
    if step >= STEPS {
        return all;
    }
    let beyond = (f64::from(saturating_u32(step)) + rng.unit()) / STEPS as f64;
    let most = round_u64(all as f64 * (1.0 + beyond) / 2.0);
    most.clamp(all.div_ceil(2), all - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    /// Variance over mean of counts in windows.
    fn dispersion(instants: &[u64], length: u64, windows: u64) -> f64 {
        let mut counts = vec![0.0; to_usize(windows)];
        for at in instants {
            counts[to_usize(at * windows / length)] += 1.0;
        }
        let n = windows as f64;
        let mean = counts.iter().sum::<f64>() / n;
        counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / n / mean
    }

    #[test]
    fn counts_vary_at_every_scale_as_recorded() {
        // Bursts of 50 within 5 ms, five of them within a second, now and then.
        let mut rng = Rng::new(Seed(3));
        let length = 1_000_000_000_000_u64;
        let mut recorded = Vec::new();
        for _ in 0..200 {
            let burst = rng.below(length - 2_000_000_000);
            for _ in 0..5 {
                let inner = burst + rng.below(1_000_000_000);
                recorded.extend((0..50).map(|_| inner + rng.below(5_000_000)));
            }
        }
        recorded.sort_unstable();
        let instants = ParametricArrivalModel::of(&recorded, Nanos(length));
        let drawn = instants.draw(Nanos(length), &mut rng);
        assert_eq!(drawn.len(), recorded.len());
        assert!(drawn.is_sorted() && drawn.last() < Some(&length));
        assert_ne!(drawn, recorded);
        for windows in [100, 1_000, 10_000, 100_000] {
            let (a, b) = (
                dispersion(&recorded, length, windows),
                dispersion(&drawn, length, windows),
            );
            assert!((b / a - 1.0).abs() < 0.3, "{windows}: {a} {b}");
        }
        // Where all come at once they do so in the draw.
        let once =
            ParametricArrivalModel::of(&[777; 30], Nanos(length)).draw(Nanos(length), &mut rng);
        assert!(once.len() == 30 && once.iter().all(|at| at.abs_diff(once[0]) < 16));
    }
}
