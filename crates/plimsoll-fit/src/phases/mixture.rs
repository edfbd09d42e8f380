// SPDX-License-Identifier: Apache-2.0
//! Stretches that are alike become one kind: a mixture whose members are whole stretches.
//!
//! For one to six kinds the stretches are parted by k-means in units of noise; of those divisions
//! whose kinds differ in a way that a person would call different, and each take some of the time,
//! the one with the best information criterion is taken.

use std::ops::Range;

use super::figures::PhaseLogSeries;

/// Most kinds: a reader cannot tell more of them apart.
const KINDS_MAX: usize = 6;
/// Least share of the intervals that a kind takes.
const SHARE_MIN: f64 = 0.03;
/// Least difference of two kinds in the logarithm of some rate or size: a factor of 1.6.
const DIFFERENCE_MIN: f64 = 0.47;
/// Most rounds of the division; it usually stands after five.
const ROUNDS_MAX: usize = 50;

/// The kind of each stretch, counted from 0.
pub(super) fn kinds(stretches: &[Range<usize>], figures: &[PhaseLogSeries]) -> Vec<usize> {
    let members: Vec<MixtureMember> = stretches
        .iter()
        .map(|s| MixtureMember::of(s, figures))
        .collect();
    let n: f64 = members.iter().map(|m| m.weight).sum();
    let mut best = (f64::INFINITY, vec![0; members.len()]);
    for k in 1..=KINDS_MAX.min(members.len()) {
        let (kinds, cost) = divide(&members, k);
        let criterion = cost + (k * (figures.len() + 1)) as f64 * n.max(2.0).ln();
        if criterion < best.0 && (k == 1 || are_apart(&members, &kinds, k, n)) {
            best = (criterion, kinds);
        }
    }
    best.1
}

struct MixtureMember {
    weight: f64,
    logs: Vec<f64>,
    scaled: Vec<f64>,
}

impl MixtureMember {
    fn of(stretch: &Range<usize>, figures: &[PhaseLogSeries]) -> MixtureMember {
        let logs: Vec<f64> = figures.iter().map(|figure| figure.mean(stretch)).collect();
        let scaled = logs
            .iter()
            .zip(figures)
            .map(|(log, figure)| log / figure.noise);
        MixtureMember {
            weight: stretch.len() as f64,
            scaled: scaled.collect(),
            logs,
        }
    }
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Index of the centre nearest to a point, and its distance.
fn nearest(centres: &[Vec<f64>], point: &[f64]) -> (usize, f64) {
    let judged = centres
        .iter()
        .map(|centre| distance(centre, point))
        .enumerate();
    judged
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((0, 0.0))
}

/// The members in `k` kinds, and the squares of their distances to the centres of their kinds.
fn divide(members: &[MixtureMember], k: usize) -> (Vec<usize>, f64) {
    // The longest stretch, then whatever explains most that is not explained yet.
    let longest = members.iter().max_by(|a, b| a.weight.total_cmp(&b.weight));
    let mut centres: Vec<Vec<f64>> = longest.iter().map(|m| m.scaled.clone()).collect();
    while centres.len() < k {
        let far = |m: &MixtureMember| m.weight * nearest(&centres, &m.scaled).1;
        let next = members.iter().max_by(|a, b| far(a).total_cmp(&far(b)));
        centres.extend(next.map(|m| m.scaled.clone()));
    }
    let mut kinds = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let now: Vec<usize> = members
            .iter()
            .map(|m| nearest(&centres, &m.scaled).0)
            .collect();
        if now == kinds {
            break;
        }
        kinds = now;
        for (kind, centre) in centres.iter_mut().enumerate() {
            if let Some(middle) = centre_of(members, &kinds, kind, |m| &m.scaled) {
                *centre = middle;
            }
        }
    }
    let cost = members.iter().zip(&kinds);
    let cost = cost.map(|(m, kind)| m.weight * distance(&m.scaled, &centres[*kind]));
    let cost = cost.sum();
    (kinds, cost)
}

/// The weighted mean of the members of a kind; `None` when it has none.
fn centre_of(
    members: &[MixtureMember],
    kinds: &[usize],
    kind: usize,
    of: fn(&MixtureMember) -> &Vec<f64>,
) -> Option<Vec<f64>> {
    let inside = || {
        members
            .iter()
            .zip(kinds)
            .filter(|(_, k)| **k == kind)
            .map(|(m, _)| m)
    };
    let weight: f64 = inside().map(|m| m.weight).sum();
    let figures = of(inside().next()?).len();
    let middle = (0..figures).map(|f| inside().map(|m| m.weight * of(m)[f]).sum::<f64>() / weight);
    Some(middle.collect())
}

/// Whether every kind takes some of the time and differs from every other.
fn are_apart(members: &[MixtureMember], kinds: &[usize], k: usize, n: f64) -> bool {
    let weight = |kind: usize| {
        let inside = members.iter().zip(kinds).filter(|(_, k)| **k == kind);
        inside.map(|(m, _)| m.weight).sum::<f64>()
    };
    let centres: Option<Vec<Vec<f64>>> = (0..k)
        .map(|kind| centre_of(members, kinds, kind, |m| &m.logs))
        .collect();
    let Some(centres) = centres else { return false };
    let differ = |a: &[f64], b: &[f64]| {
        a.iter()
            .zip(b)
            .any(|(a, b)| (a - b).abs() >= DIFFERENCE_MIN)
    };
    (0..k).all(|kind| {
        weight(kind) >= SHARE_MIN * n
            && centres[..kind]
                .iter()
                .all(|other| differ(other, &centres[kind]))
    })
}
