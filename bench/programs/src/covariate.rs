// SPDX-License-Identifier: Apache-2.0
//! Noise that was measured beside a trial, taken out of it: analysis of covariance within blocks.
//!
//! A state that all trials of a block share cancels in their differences anyway, so a reference that is
//! measured once in a block adds nothing. What helps is a figure of each *trial* that no system can
//! influence: processor time that a hypervisor gave to others, or a pinned reference (a fixed load on
//! a fixed device) measured right before it. The slope is that of trials against the mean of their
//! block and of their arm, so that neither drift nor the arms' own difference is mistaken for it.
//!
//! A covariate that an arm itself drives (its own load on the processors) would take its effect
//! away: that is the caller's to know.

use plimsoll_stats::ArmValues;
use plimsoll_stats::summary::is_usable;

/// Fewer trials than this beyond blocks and arms cannot tell a slope.
const DEGREES_LEAST: usize = 4;

/// The share of the scatter that a covariate explains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CovariateFit {
    /// Change of the logarithm per unit.
    pub slope: f64,
    /// Share of the variance within blocks that it explains.
    pub explained: f64,
}

/// The values of all arms as if the covariate had been the same in all trials of a block, and what it
/// explained. Values that have no covariate stay; so do all where it tells nothing.
pub fn adjusted(
    arms: &[ArmValues],
    covariate: &[Vec<Option<f64>>],
) -> (Vec<ArmValues>, Option<CovariateFit>) {
    let blocks = whole_blocks(arms, covariate);
    let Some(fit) = fit(&blocks, arms.len()) else {
        return (arms.to_vec(), None);
    };
    let middle = |block: usize| {
        let known = covariate
            .iter()
            .filter_map(|of_arm| of_arm.get(block).copied().flatten());
        let known: Vec<f64> = known.collect();
        known.iter().sum::<f64>() / known.len().max(1) as f64
    };
    let each = arms.iter().zip(covariate);
    let changed = each.map(|(arm, of_arm)| ArmValues {
        values: (arm.values.iter().enumerate())
            .map(|(block, value)| {
                let Some(beside) = of_arm.get(block).copied().flatten() else {
                    return *value;
                };
                value.map(|value| value * (-fit.slope * (beside - middle(block))).exp())
            })
            .collect(),
        ..arm.clone()
    });
    (changed.collect(), Some(fit))
}

/// One trial: the logarithm of its value, and what was measured beside it.
#[derive(Debug, Clone, Copy, Default)]
struct TrialPoint {
    value: f64,
    beside: f64,
}

/// The blocks in which every arm has both.
fn whole_blocks(arms: &[ArmValues], covariate: &[Vec<Option<f64>>]) -> Vec<Vec<TrialPoint>> {
    let count = arms.iter().map(|arm| arm.values.len()).min().unwrap_or(0);
    let point = |block: usize, arm: usize| {
        let value = arms[arm].values[block].filter(|value| is_usable(*value))?;
        let beside = covariate.get(arm)?.get(block).copied().flatten()?;
        Some(TrialPoint {
            value: value.ln(),
            beside,
        })
    };
    let of = |block: usize| (0..arms.len()).map(|arm| point(block, arm)).collect();
    (0..count).filter_map(of).collect()
}

fn fit(blocks: &[Vec<TrialPoint>], arms: usize) -> Option<CovariateFit> {
    let degrees = blocks.len().saturating_sub(1) * arms.saturating_sub(1);
    if degrees < DEGREES_LEAST {
        return None;
    }
    let values = residuals(blocks, |point| point.value);
    let beside = residuals(blocks, |point| point.beside);
    let squares: f64 = beside.iter().map(|x| x * x).sum();
    let spread: f64 = values.iter().map(|y| y * y).sum();
    if squares <= 1e-12 || spread <= 0.0 {
        return None;
    }
    let products: f64 = values.iter().zip(&beside).map(|(y, x)| y * x).sum();
    Some(CovariateFit {
        slope: products / squares,
        explained: (products * products / (squares * spread)).min(1.0),
    })
}

/// The rest of a figure when the means of blocks and arms are taken out.
fn residuals(blocks: &[Vec<TrialPoint>], figure: impl Fn(&TrialPoint) -> f64) -> Vec<f64> {
    let arms = blocks.first().map_or(0, Vec::len);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let rows: Vec<Vec<f64>> = blocks
        .iter()
        .map(|b| b.iter().map(&figure).collect())
        .collect();
    let all = mean(&rows.concat());
    let column = |arm: usize| mean(&rows.iter().map(|row| row[arm]).collect::<Vec<_>>());
    let columns: Vec<f64> = (0..arms).map(column).collect();
    let left = rows.iter().flat_map(|row| {
        let own = mean(row);
        let cells = row.iter().zip(&columns);
        cells.map(move |(value, column)| value - own - column + all)
    });
    left.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::rng::{Rng, Seed};

    fn arms(rng: &mut Rng, slope: f64) -> (Vec<ArmValues>, Vec<Vec<Option<f64>>>) {
        let (mut arms, mut beside) = (Vec::new(), Vec::new());
        for (name, truth) in [("a", 0.0), ("b", 0.1), ("c", 0.0)] {
            let stolen: Vec<f64> = (0..12).map(|_| rng.exponential(0.2)).collect();
            let value = |x: &f64| Some((truth + slope * x + 0.01 * rng.normal()).exp());
            arms.push(ArmValues {
                name: name.into(),
                control_of: None,
                values: stolen.iter().map(value).collect(),
                places: Vec::new(),
            });
            beside.push(stolen.into_iter().map(Some).collect());
        }
        (arms, beside)
    }

    #[test]
    fn what_was_stolen_is_given_back() {
        let mut rng = Rng::new(Seed(1));
        let (values, beside) = arms(&mut rng, 1.5);
        let (changed, fit) = adjusted(&values, &beside);
        let fit = fit.unwrap();
        assert!(
            (fit.slope - 1.5).abs() < 0.05 && fit.explained > 0.9,
            "{fit:?}"
        );
        let ratio = |block: usize, arms: &[ArmValues]| {
            (arms[1].values[block].unwrap() / arms[0].values[block].unwrap()).ln()
        };
        let far = |arms: &[ArmValues]| (0..12).map(|b| (ratio(b, arms) - 0.1).abs()).sum::<f64>();
        assert!(far(&changed) < far(&values) / 5.0);
    }

    #[test]
    fn what_tells_nothing_changes_nothing() {
        let mut rng = Rng::new(Seed(2));
        let (values, _) = arms(&mut rng, 0.0);
        let constant = vec![vec![Some(0.3); 12]; 3];
        assert_eq!(adjusted(&values, &constant), (values.clone(), None));
        assert_eq!(adjusted(&values, &[]), (values, None));
    }
}
