// SPDX-License-Identifier: Apache-2.0
//! The effect of the trials of an arm on those that follow, taken out of the values.
//!
//! No trial of the arm directly follows one within its block, half of the base's do. So what the arm leaves
//! behind slows the base, and its second entry as often: the control cannot show it. How long before a trial
//! the arm ran is known, and between the base's entries of a block it is no matter of the systems: a
//! regression within blocks tells it, with Huber's limit on residuals. What is left of the certainty is a
//! matter of the order alone: by how much the interval is to be widened.
//!
//! How it fades, and whether the arm feels it itself, is not known: each way that the values do not
//! contradict is taken for possible, and the interval holds what all of them say.

use crate::arrangement::BlockLogValues;
use crate::events::{MEDIAN_TO_DEVIATION, median};

/// Residuals are clipped at this number of robust standard deviations.
const CLIP: f64 = 1.5;

/// Rounds of the regression.
const ROUNDS: usize = 25;

/// Carry-over of at least this many standard errors is examined closely: how it fades, and whether it also
/// affects the arm itself.
const SUSPECTED: f64 = 1.6;

/// Carry-over of at least this many standard errors is reported.
const SHOWN: f64 = 3.0;

/// A way of fading is possible while it fits worse than the best by less than chance does with this
/// confidence, two figures (how it fades, and whom it meets) being chosen.
const POSSIBLE: f64 = 0.95;

/// Figures that the best of all ways is fitted by: what is left behind, how it fades, and whom it meets.
const FITTED: f64 = 3.0;

/// Orders that widen the interval more tell nothing of carry-over.
const WIDENING_MAX: f64 = 3.0;

/// How many trials ran between this one and the last of the arm; `None` where none of it ran before.
pub(crate) type TrialsSince = Option<u32>;

/// The trials before each entry of a block, in the order of its [`BlockLogValues`].
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct BlockBefore {
    pub base: Vec<TrialsSince>,
    pub arm: Vec<TrialsSince>,
}

/// How much wider an interval is than that of values which nothing was taken out of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct IntervalWidening {
    /// Factor on the distance of its ends from its middle.
    pub factor: f64,
    /// Distance by which both ends then move outwards.
    pub beyond: f64,
}

impl IntervalWidening {
    pub(crate) const NONE: IntervalWidening = IntervalWidening {
        factor: 1.0,
        beyond: 0.0,
    };
}

/// The effect that the arm leaves behind, and the values without it.
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
        let simple = Regression::of(&trials, blocks.len(), Fading::AT_ONCE)?;
        if simple.widening > WIDENING_MAX {
            return None;
        }
        let standing_out = simple.standing_out();
        let possible = match standing_out >= SUSPECTED {
            true => possible(&trials, blocks.len()),
            false => vec![simple],
        };
        let best = possible.first()?;
        let factor = possible.iter().map(|one| one.widening).fold(1.0, f64::max);
        let apart = possible.iter().map(|one| (one.arm - best.arm).abs());
        Some(CarryOver {
            next: best.left,
            is_shown: standing_out >= SHOWN,
            widening: IntervalWidening {
                factor,
                beyond: apart.fold(0.0, f64::max),
            },
            blocks: best.cleaned(blocks.len(), &trials),
        })
    }
}

/// How what the arm leaves behind fades.
#[derive(Debug, Clone, Copy)]
struct Fading {
    /// How much of it each further trial still feels.
    kept: f64,
    /// Whether the arm feels it itself, or only the base does.
    on_itself: bool,
}

impl Fading {
    /// The next trial feels it, whichever it is, and no other.
    const AT_ONCE: Fading = Fading {
        kept: 0.0,
        on_itself: true,
    };

    /// The ways of fading that a fit can distinguish. Long carry-over on the base alone is not among them: it
    /// looks nearly like a difference.
    fn all() -> impl Iterator<Item = Fading> {
        let ways = |on_itself| move |kept| Fading { kept, on_itself };
        let by_all = [0.0, 0.25, 0.5, 0.75].map(ways(true));
        by_all.into_iter().chain([0.0, 0.25].map(ways(false)))
    }

    /// How much of it a trial feels.
    fn felt(self, trial: &Trial) -> f64 {
        match trial.since {
            Some(since) if self.on_itself || !trial.is_arm => self.kept.powf(f64::from(since)),
            _ => 0.0,
        }
    }
}

/// One trial of a regression.
#[derive(Debug, Clone, Copy)]
struct Trial {
    block: usize,
    is_arm: bool,
    value: f64,
    since: TrialsSince,
}

fn trials(blocks: &[BlockLogValues], before: &[BlockBefore]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (block, (values, before)) in blocks.iter().zip(before).enumerate() {
        let one = |is_arm: bool| {
            move |(value, since): (&f64, &TrialsSince)| Trial {
                block,
                is_arm,
                value: *value,
                since: *since,
            }
        };
        trials.extend(values.base.iter().zip(&before.base).map(one(false)));
        trials.extend(values.arm.iter().zip(&before.arm).map(one(true)));
    }
    trials
}

/// The regressions of all ways of fading that these trials do not contradict, the best one first.
fn possible(trials: &[Trial], blocks: usize) -> Vec<Regression> {
    let each = Fading::all().filter_map(|fading| Regression::of(trials, blocks, fading));
    let mut each: Vec<Regression> = each.collect();
    let scales = each.iter().map(|one| one.scale);
    let least = scales.fold(f64::INFINITY, f64::min).max(1e-12);
    // Likelihoods of one scale, so that they can be compared.
    each.sort_by(|a, b| a.loss(least).total_cmp(&b.loss(least)));
    let Some(best) = each.first() else {
        return each;
    };
    let scale = best.scale.max(least);
    // Of two figures, the 95th percentile of F with these degrees of freedom in closed form.
    let left = best.degrees as f64;
    let worst = best.loss(scale) + left * ((1.0 - POSSIBLE).powf(-2.0 / left) - 1.0) / 2.0;
    // A choice of many is fitted by more than its figures say.
    let widening = ((left + 1.0) / (left + 1.0 - FITTED).max(1.0)).sqrt();
    each.retain(|one| one.loss(scale) <= worst);
    each.iter_mut().for_each(|one| one.widening *= widening);
    each
}

/// Least squares within blocks: of the arm, and of what it left behind.
#[derive(Debug, Clone)]
struct Regression {
    fading: Fading,
    /// ln(arm ÷ base) without what was left behind.
    arm: f64,
    /// ln of what the next trial takes more.
    left: f64,
    /// Standard error of the latter.
    left_error: f64,
    residuals: Vec<f64>,
    degrees: usize,
    /// Robust standard deviation of residuals.
    scale: f64,
    widening: f64,
}

impl Regression {
    fn of(trials: &[Trial], blocks: usize, fading: Fading) -> Option<Regression> {
        let of_arm = within_blocks(trials, blocks, |one| f64::from(u8::from(one.is_arm)));
        let of_left = within_blocks(trials, blocks, |one| fading.felt(one));
        let own = within_blocks(trials, blocks, |one| one.value);
        let [aa, al, ll] = [
            product(&of_arm, &of_arm),
            product(&of_arm, &of_left),
            product(&of_left, &of_left),
        ];
        let determinant = aa * ll - al * al;
        if determinant < 1e-9 {
            return None;
        }
        let degrees = trials.len().checked_sub(blocks + 2)?.max(1);
        let mut found = Regression {
            fading,
            arm: 0.0,
            left: 0.0,
            left_error: 0.0,
            residuals: Vec::new(),
            degrees,
            scale: 0.0,
            widening: (aa * ll / determinant).sqrt(),
        };
        let mut values = own.clone();
        for _ in 0..ROUNDS {
            let (on_arm, on_left) = (product(&of_arm, &values), product(&of_left, &values));
            found.arm = (ll * on_arm - al * on_left) / determinant;
            found.left = (aa * on_left - al * on_arm) / determinant;
            let both = of_arm.iter().zip(&of_left);
            let fitted = both.map(|(arm, left)| found.arm * arm + found.left * left);
            let fitted: Vec<f64> = fitted.collect();
            let residuals = own
                .iter()
                .zip(&fitted)
                .map(|(value, fitted)| value - fitted);
            found.residuals = residuals.collect();
            let spread = median(found.residuals.iter().map(|residual| residual.abs()));
            found.scale =
                MEDIAN_TO_DEVIATION * spread? * (trials.len() as f64 / degrees as f64).sqrt();
            if found.scale <= 0.0 {
                break;
            }
            let limit = CLIP * found.scale;
            let limited = found.residuals.iter().zip(&fitted);
            values = limited
                .map(|(residual, fitted)| fitted + residual.clamp(-limit, limit))
                .collect();
        }
        found.left_error = found.scale * (aa / determinant).sqrt();
        Some(found)
    }

    /// By how many errors what is left behind differs from nothing.
    fn standing_out(&self) -> f64 {
        if self.left_error > 0.0 {
            self.left.abs() / self.left_error
        } else {
            0.0
        }
    }

    /// Minus its log likelihood, where large residuals count as far as Huber's limit lets them.
    fn loss(&self, scale: f64) -> f64 {
        let one = |residual: &f64| {
            let size = (residual / scale).abs();
            let within = size.min(CLIP);
            within * (size - within / 2.0)
        };
        self.residuals.iter().map(one).sum()
    }

    fn cleaned(&self, blocks: usize, trials: &[Trial]) -> Vec<BlockLogValues> {
        let mut cleaned = vec![BlockLogValues::default(); blocks];
        for trial in trials {
            let block = &mut cleaned[trial.block];
            let values = if trial.is_arm {
                &mut block.arm
            } else {
                &mut block.base
            };
            values.push(trial.value - self.left * self.fading.felt(trial));
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

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carryover::balanced_orders;
    use plimsoll_core::rng::{Rng, Seed};

    /// Blocks without noise in which the arm takes 20 % more and leaves this behind, which fades so.
    fn blocks(count: usize, next: f64, fading: Fading) -> (Vec<BlockLogValues>, Vec<BlockBefore>) {
        let (mut blocks, mut all) = (Vec::new(), Vec::new());
        let mut since = None;
        for (block, order) in balanced_orders(3, count, Seed(4)).iter().enumerate() {
            let (mut values, mut before) = (BlockLogValues::default(), BlockBefore::default());
            for entry in order {
                let mut trial = Trial {
                    block,
                    is_arm: *entry == 1,
                    value: 0.1 * block as f64,
                    since,
                };
                trial.value += next * fading.felt(&trial);
                if trial.is_arm {
                    values.arm.push(trial.value + 0.2);
                    before.arm.push(since);
                } else {
                    values.base.push(trial.value);
                    before.base.push(since);
                }
                since = if trial.is_arm {
                    Some(0)
                } else {
                    since.map(|since| since + 1)
                };
            }
            blocks.push(values);
            all.push(before);
        }
        (blocks, all)
    }

    fn mean(blocks: &[BlockLogValues]) -> f64 {
        let sum: f64 = blocks.iter().map(BlockLogValues::difference).sum();
        sum / blocks.len() as f64
    }

    #[test]
    fn what_was_left_behind_is_taken_out() {
        let (blocks, before) = blocks(8, 0.1, Fading::AT_ONCE);
        assert!(mean(&blocks) < 0.18, "{}", mean(&blocks));
        let found = CarryOver::of(&blocks, &before).unwrap();
        assert!((found.next - 0.1).abs() < 1e-6, "{found:?}");
        assert!((mean(&found.blocks) - 0.2).abs() < 1e-6, "{found:?}");
        assert!((1.0..2.0).contains(&found.widening.factor), "{found:?}");
    }

    #[test]
    fn ways_of_fading_are_told_apart_and_what_cannot_be_is_in_the_interval() {
        for fading in Fading::all() {
            let (mut blocks, before) = blocks(60, 0.1, fading);
            let mut rng = Rng::new(Seed(7));
            let entries = blocks
                .iter_mut()
                .flat_map(|b| b.base.iter_mut().chain(&mut b.arm));
            entries.for_each(|value| *value += 0.02 * rng.normal());
            let found = CarryOver::of(&blocks, &before).unwrap();
            let off = (mean(&found.blocks) - 0.2).abs();
            assert!(found.is_shown, "{fading:?}: {found:?}");
            let held = 0.012 * found.widening.factor + found.widening.beyond;
            assert!(off < held && held < 0.15, "{fading:?}: {off} {held}");
        }
    }

    #[test]
    fn an_order_that_tells_nothing_is_no_ground() {
        let (blocks, before) = blocks(8, 0.1, Fading::AT_ONCE);
        let unknown = vec![
            BlockBefore {
                base: vec![None; 2],
                arm: vec![None]
            };
            8
        ];
        assert_eq!(CarryOver::of(&blocks, &unknown), None);
        assert_eq!(CarryOver::of(&blocks[..2], &before[..2]), None);
        assert_eq!(CarryOver::of(&blocks, &[]), None);
    }
}
