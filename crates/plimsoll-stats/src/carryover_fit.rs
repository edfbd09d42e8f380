// SPDX-License-Identifier: Apache-2.0
//! What the trials of an arm leave behind for those that follow, taken out of the values.
//!
//! No trial of the arm directly follows one within its block, half of the base's do. So what the arm leaves
//! behind slows the base, and its second entry as often: the control cannot show it. Which trials it met is
//! known, and between the base's entries of a block it is no matter of the systems: a regression within
//! blocks tells it, with Huber's limit on residuals. What is left of the certainty is a matter of the order
//! alone: by how much the interval is to be widened.

use crate::arrangement::BlockLogValues;
use crate::events::{MEDIAN_TO_DEVIATION, median};

/// Residuals count up to so many robust standard deviations.
const CLIP: f64 = 1.5;

/// Rounds of the regression.
const ROUNDS: usize = 25;

/// Carry-over that stands out by so many errors is looked at closely: whether it decays over two trials, and
/// whether the arm feels it itself.
const SUSPECTED: f64 = 1.6;

/// Carry-over that stands out by so many errors is said.
const SHOWN: f64 = 3.0;

/// Orders that widen the interval more tell nothing of carry-over.
const WIDENING_MAX: f64 = 3.0;

/// What of a trial the regression is made of: 1 where it holds, else 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct TrialBefore {
    /// The trial before was one of the arm.
    pub next: f64,
    /// The one before that was, and not the one before.
    pub after_next: f64,
}

/// What ran before each entry of a block, in the order of its [`BlockLogValues`].
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct BlockBefore {
    pub base: Vec<TrialBefore>,
    pub arm: Vec<TrialBefore>,
}

/// How much wider an interval is than that of values which nothing was taken out of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct IntervalWidening {
    /// Its ends are so many times as far from its middle,
    pub factor: f64,
    /// and so much farther.
    pub beyond: f64,
}

impl IntervalWidening {
    pub(crate) const NONE: IntervalWidening = IntervalWidening {
        factor: 1.0,
        beyond: 0.0,
    };
}

/// What the arm leaves behind, and the values without it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CarryOver {
    /// ln of what trials right after one of the arm take more.
    pub next: f64,
    /// Whether that is more than chance.
    pub is_shown: bool,
    /// By how much an interval of these values is to be widened.
    pub(crate) widening: IntervalWidening,
    /// The values as if nothing had been left behind.
    pub(crate) blocks: Vec<BlockLogValues>,
}

impl CarryOver {
    /// `None` where the order does not tell it: without a second entry of the base, or with too few blocks.
    pub(crate) fn of(blocks: &[BlockLogValues], before: &[BlockBefore]) -> Option<CarryOver> {
        let has_control = blocks.iter().any(|block| block.base.len() > 1);
        if !has_control || blocks.len() != before.len() || blocks.len() < 4 {
            return None;
        }
        let trials = trials(blocks, before);
        let simple = Regression::of(&trials, blocks.len(), &[|one| one.before.next])?;
        let is_suspected = simple.standing_out(1) >= SUSPECTED;
        let close = is_suspected.then(|| -> Option<Regression> {
            let columns: [fn(&Trial) -> f64; 3] = [
                |one| if one.is_arm { 0.0 } else { one.before.next },
                |one| {
                    if one.is_arm {
                        0.0
                    } else {
                        one.before.after_next
                    }
                },
                |one| if one.is_arm { one.before.next } else { 0.0 },
            ];
            let found = Regression::of(&trials, blocks.len(), &columns);
            found.or_else(|| Regression::of(&trials, blocks.len(), &columns[..2]))
        });
        let close = close.flatten();
        // What lasts for two trials may last for more, which no block tells: of the base one more trial in
        // six feels it than of the arm, and of all further ones together it is hardly one in three.
        let lasting = close
            .as_ref()
            .map_or(0.0, |close| close.coefficients[2].abs());
        let used = close.unwrap_or_else(|| simple.clone());
        (used.widening <= WIDENING_MAX).then(|| CarryOver {
            next: simple.coefficients[1],
            is_shown: simple.standing_out(1) >= SHOWN,
            widening: IntervalWidening {
                factor: used.widening,
                beyond: lasting / 3.0,
            },
            blocks: used.cleaned(blocks, &trials),
        })
    }
}

/// One trial of a regression.
#[derive(Debug, Clone, Copy)]
struct Trial {
    block: usize,
    is_arm: bool,
    value: f64,
    before: TrialBefore,
}

fn trials(blocks: &[BlockLogValues], before: &[BlockBefore]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (block, (values, before)) in blocks.iter().zip(before).enumerate() {
        let one = |is_arm: bool| {
            move |(value, before): (&f64, &TrialBefore)| Trial {
                block,
                is_arm,
                value: *value,
                before: *before,
            }
        };
        trials.extend(values.base.iter().zip(&before.base).map(one(false)));
        trials.extend(values.arm.iter().zip(&before.arm).map(one(true)));
    }
    trials
}

/// Least squares within blocks: of the arm, which is the first coefficient, and of what ran before.
#[derive(Debug, Clone)]
struct Regression {
    columns: Vec<fn(&Trial) -> f64>,
    coefficients: Vec<f64>,
    errors: Vec<f64>,
    widening: f64,
}

impl Regression {
    fn of(trials: &[Trial], blocks: usize, before: &[fn(&Trial) -> f64]) -> Option<Regression> {
        let mut columns: Vec<fn(&Trial) -> f64> = vec![|one| f64::from(u8::from(one.is_arm))];
        columns.extend(before);
        let of = |column: &fn(&Trial) -> f64| within_blocks(trials, blocks, column);
        let design: Vec<Vec<f64>> = columns.iter().map(of).collect();
        let inverse = inverse(&design)?;
        let degrees = trials.len().checked_sub(blocks + columns.len())?.max(1) as f64;
        let mut values = within_blocks(trials, blocks, |one| one.value);
        let (mut coefficients, mut scale) = (Vec::new(), 0.0);
        for _ in 0..ROUNDS {
            coefficients = solved(&inverse, &design, &values);
            let fitted = |row: usize| -> f64 {
                let each = coefficients.iter().zip(&design);
                each.map(|(coefficient, column)| coefficient * column[row])
                    .sum()
            };
            let own = within_blocks(trials, blocks, |one| one.value);
            let residuals = own
                .iter()
                .enumerate()
                .map(|(row, value)| value - fitted(row));
            let residuals: Vec<f64> = residuals.collect();
            let spread = median(residuals.iter().map(|residual| residual.abs()));
            scale = MEDIAN_TO_DEVIATION * spread? * (trials.len() as f64 / degrees).sqrt();
            if scale <= 0.0 {
                break;
            }
            let limit = CLIP * scale;
            let limited = residuals.iter().enumerate();
            values = limited
                .map(|(row, residual)| fitted(row) + residual.clamp(-limit, limit))
                .collect();
        }
        let own: f64 = design[0].iter().map(|value| value * value).sum();
        let errors = (0..columns.len()).map(|index| scale * inverse[index][index].sqrt());
        Some(Regression {
            widening: (inverse[0][0] * own).sqrt(),
            errors: errors.collect(),
            columns,
            coefficients,
        })
    }

    /// By how many errors a coefficient differs from nothing.
    fn standing_out(&self, index: usize) -> f64 {
        let (size, error) = (self.coefficients[index].abs(), self.errors[index]);
        if error > 0.0 { size / error } else { 0.0 }
    }

    fn cleaned(&self, blocks: &[BlockLogValues], trials: &[Trial]) -> Vec<BlockLogValues> {
        let mut cleaned = vec![BlockLogValues::default(); blocks.len()];
        for trial in trials {
            let before = self.columns.iter().zip(&self.coefficients).skip(1);
            let left: f64 = before.map(|(column, size)| size * column(trial)).sum();
            let block = &mut cleaned[trial.block];
            let values = if trial.is_arm {
                &mut block.arm
            } else {
                &mut block.base
            };
            values.push(trial.value - left);
        }
        cleaned
    }
}

/// A figure of each trial without the mean of its block.
fn within_blocks(trials: &[Trial], blocks: usize, figure: impl Fn(&Trial) -> f64) -> Vec<f64> {
    let mut means = vec![(0.0, 0.0); blocks];
    for trial in trials {
        means[trial.block].0 += figure(trial);
        means[trial.block].1 += 1.0;
    }
    let own = |trial: &Trial| figure(trial) - means[trial.block].0 / means[trial.block].1;
    trials.iter().map(own).collect()
}

fn solved(inverse: &[Vec<f64>], design: &[Vec<f64>], values: &[f64]) -> Vec<f64> {
    let product = |column: &Vec<f64>| column.iter().zip(values).map(|(x, y)| x * y).sum::<f64>();
    let products: Vec<f64> = design.iter().map(product).collect();
    let row = |row: &Vec<f64>| row.iter().zip(&products).map(|(x, y)| x * y).sum();
    inverse.iter().map(row).collect()
}

/// The inverse of the products of columns (Gauss and Jordan); `None` where they depend on each other.
fn inverse(design: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let size = design.len();
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let mut rows: Vec<Vec<f64>> = Vec::new();
    for (index, column) in design.iter().enumerate() {
        let left = design.iter().map(|other| product(column, other));
        let right = (0..size).map(|other| if other == index { 1.0 } else { 0.0 });
        rows.push(left.chain(right).collect());
    }
    for pivot in 0..size {
        let largest = (pivot..size).max_by(|a, b| {
            let of = |row: usize| rows[row][pivot].abs();
            of(*a).total_cmp(&of(*b))
        })?;
        rows.swap(pivot, largest);
        let divisor = rows[pivot][pivot];
        if divisor.abs() < 1e-9 {
            return None;
        }
        rows[pivot].iter_mut().for_each(|value| *value /= divisor);
        let own = rows[pivot].clone();
        for (index, row) in rows
            .iter_mut()
            .enumerate()
            .filter(|(index, _)| *index != pivot)
        {
            let _ = index;
            let factor = row[pivot];
            row.iter_mut()
                .zip(&own)
                .for_each(|(value, own)| *value -= factor * own);
        }
    }
    Some(rows.into_iter().map(|row| row[size..].to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carryover::balanced_orders;
    use plimsoll_core::rng::Seed;

    /// Blocks without noise in which the arm takes 20 % more and leaves this behind.
    fn blocks(count: usize, next: f64, on_itself: bool) -> (Vec<BlockLogValues>, Vec<BlockBefore>) {
        let (mut blocks, mut all) = (Vec::new(), Vec::new());
        let mut last = [0, 0];
        for (number, order) in balanced_orders(3, count, Seed(4)).iter().enumerate() {
            let (mut block, mut before) = (BlockLogValues::default(), BlockBefore::default());
            for entry in order {
                let one = TrialBefore {
                    next: f64::from(u8::from(last[0] == 1)),
                    after_next: f64::from(u8::from(last[1] == 1 && last[0] != 1)),
                };
                let is_arm = *entry == 1;
                let left = if is_arm && !on_itself {
                    0.0
                } else {
                    next * one.next
                };
                let value = 0.1 * number as f64 + left + if is_arm { 0.2 } else { 0.0 };
                let (values, earlier) = match is_arm {
                    true => (&mut block.arm, &mut before.arm),
                    false => (&mut block.base, &mut before.base),
                };
                values.push(value);
                earlier.push(one);
                last = [*entry, last[0]];
            }
            blocks.push(block);
            all.push(before);
        }
        (blocks, all)
    }

    #[test]
    fn what_was_left_behind_is_taken_out() {
        let (blocks, before) = blocks(8, 0.1, true);
        let mean = |blocks: &[BlockLogValues]| {
            let sum: f64 = blocks.iter().map(BlockLogValues::difference).sum();
            sum / blocks.len() as f64
        };
        assert!(mean(&blocks) < 0.18, "{}", mean(&blocks));
        let found = CarryOver::of(&blocks, &before).unwrap();
        assert!((found.next - 0.1).abs() < 1e-6, "{found:?}");
        assert!((mean(&found.blocks) - 0.2).abs() < 1e-6, "{found:?}");
        assert!((1.0..2.0).contains(&found.widening.factor), "{found:?}");
    }

    #[test]
    fn an_order_that_tells_nothing_is_no_ground() {
        let (blocks, before) = blocks(8, 0.1, true);
        let unknown = vec![
            BlockBefore {
                base: vec![TrialBefore::default(); 2],
                arm: vec![TrialBefore::default()]
            };
            8
        ];
        assert_eq!(CarryOver::of(&blocks, &unknown), None);
        assert_eq!(CarryOver::of(&blocks[..2], &before[..2]), None);
        assert_eq!(CarryOver::of(&blocks, &[]), None);
    }
}
