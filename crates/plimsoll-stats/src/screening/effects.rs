// SPDX-License-Identifier: Apache-2.0
//! From the runs of a design to effects of settings.
//!
//! Logarithms of what was measured are fitted by a level for each block and an effect for each setting:
//! within blocks, as all comparisons are. Runs that burst count as one surprise of limited size: residuals
//! are clipped at 2.5 robust standard deviations, and the fit repeated (Huber's pseudo-values; Huber,
//! Robust Statistics, 1981, chapter 7). Interactions of settings are noise here: they widen intervals
//! and cannot make them narrower.

use crate::arrangement::LogInterval;
use crate::events::{MEDIAN_TO_DEVIATION, median};
use crate::family::holm;
use crate::student;

use super::ScreeningDesign;

/// Residuals are clipped at this number of robust standard deviations: intervals then keep their promise
/// under bursts with few runs (docs/method/tuning.md).
const CLIP: f64 = 2.5;

/// Fits after which pseudo-values do not move any more.
const FITS: usize = 20;

/// Power with which a detectable effect is found.
const POWER: f64 = 0.8;

/// An effect that chance makes so rarely is worth a proof. Far above what a verdict needs: a proof that
/// fails costs some runs, a setting that is passed over stays as it is.
const WORTH_A_PROOF: f64 = 0.2;

/// The effect of changing one setting, on logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScreeningEffect {
    /// Its column in the design.
    pub setting: usize,
    /// ln(other level ÷ given level), over all levels of the others.
    pub estimate: f64,
    /// Its interval, not corrected for the others.
    pub interval: LogInterval,
    /// How likely such an effect is of a setting that does nothing.
    pub p_value: f64,
    /// The same, corrected for all settings (Holm).
    pub family_p_value: f64,
}

/// The effects that the runs of a design show.
#[derive(Debug, Clone, PartialEq)]
pub struct ScreeningResult {
    /// One for each setting, in the order of the columns.
    pub effects: Vec<ScreeningEffect>,
    /// Runs that have a value.
    pub runs: usize,
    /// Standard deviation of a run, as far as blocks and settings do not explain it.
    pub deviation: f64,
    /// Standard deviation of a run from those of the same row in other blocks: what more blocks make smaller.
    /// Interactions of settings are in the deviation and not in this.
    pub noise: f64,
    /// Smallest effect, as |ln ratio|, that these runs find with a power of 80 %.
    pub detectable: f64,
}

/// Fits the runs of a design: `values` has a row for each row of the design and in it a value for each
/// block, where there is one. `None` where there are too few runs for the number of settings.
pub fn screen(
    design: &ScreeningDesign,
    values: &[Vec<Option<f64>>],
    confidence: f64,
) -> Option<ScreeningResult> {
    let runs = ScreeningRuns::of(design, values);
    let fitted = runs.fit()?;
    let freedom = fitted.freedom;
    let factor = student::two_sided(confidence, freedom);
    let tail = |estimate: f64, error: f64| match error > 0.0 {
        true => 2.0 * student::above(estimate.abs() / error, freedom),
        false => f64::from(u8::from(estimate == 0.0)),
    };
    let first = runs.blocks;
    let of = |setting: usize| {
        let estimate = fitted.parameters[first + setting];
        let error = fitted.error(first + setting);
        (estimate, error, tail(estimate, error).min(1.0))
    };
    let found: Vec<(f64, f64, f64)> = (0..design.settings()).map(of).collect();
    let p_values: Vec<f64> = found.iter().map(|(_, _, p_value)| *p_value).collect();
    let corrected = holm(&p_values);
    let effects = found.iter().zip(corrected).enumerate();
    let effects =
        effects.map(
            |(setting, ((estimate, error, p_value), family_p_value))| ScreeningEffect {
                setting,
                estimate: *estimate,
                interval: LogInterval {
                    low: estimate - factor * error,
                    high: estimate + factor * error,
                },
                p_value: *p_value,
                family_p_value,
            },
        );
    let largest = found
        .iter()
        .fold(0.0, |most: f64, (_, error, _)| most.max(*error));
    Some(ScreeningResult {
        effects: effects.collect(),
        runs: runs.values.len(),
        deviation: fitted.deviation,
        noise: noise(values).unwrap_or(fitted.deviation),
        detectable: (factor + student::quantile(POWER, freedom)) * largest,
    })
}

/// The rest of the logarithms when each row and each block has a level of its own, from rows that have
/// all values; `None` where one block or one row is all there is.
fn noise(values: &[Vec<Option<f64>>]) -> Option<f64> {
    let logs = |row: &Vec<Option<f64>>| -> Option<Vec<f64>> {
        let usable = row.iter().map(|v| v.filter(|v| v.is_finite() && *v > 0.0));
        usable.map(|value| value.map(f64::ln)).collect()
    };
    let rows: Vec<Vec<f64>> = values.iter().filter_map(logs).collect();
    let blocks = rows.first()?.len();
    let freedom = rows.len().checked_sub(1)? * blocks.checked_sub(1)?;
    if freedom == 0 || rows.iter().any(|row| row.len() != blocks) {
        return None;
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len() as f64;
    let of_rows: Vec<f64> = rows.iter().map(|row| mean(row)).collect();
    let whole = mean(&of_rows);
    let mut sum = 0.0;
    for block in 0..blocks {
        let of_block = rows.iter().map(|row| row[block]).sum::<f64>() / rows.len() as f64;
        let left = rows.iter().zip(&of_rows);
        sum += left
            .map(|(row, of_row)| (row[block] - of_row - of_block + whole).powi(2))
            .sum::<f64>();
    }
    Some((sum / freedom as f64).sqrt())
}

/// Settings that are worth a proof, at most `most`, the one that gains most first. `sign` is 1 where more
/// is better, else -1. Settings whose effect chance explains well are left out, except the best one: the
/// absence of a gain should also be proved.
pub fn candidates(result: &ScreeningResult, sign: f64, most: usize) -> Vec<usize> {
    let gain = |effect: &ScreeningEffect| sign * effect.estimate;
    let mut better: Vec<&ScreeningEffect> =
        result.effects.iter().filter(|e| gain(e) > 0.0).collect();
    better.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    let worth = |(place, effect): &(usize, &ScreeningEffect)| {
        *place == 0 || effect.p_value <= WORTH_A_PROOF
    };
    let chosen = better.into_iter().enumerate().filter(worth);
    chosen
        .map(|(_, effect)| effect.setting)
        .take(most)
        .collect()
}

/// Runs as a linear model: a level for each block, then an effect for each setting.
struct ScreeningRuns {
    blocks: usize,
    parameters: usize,
    /// Where each run has a 1 or a ±½, besides 0: its block, and the levels of the settings.
    rows: Vec<(usize, Vec<f64>)>,
    values: Vec<f64>,
}

/// The model that was found.
struct ScreeningFit {
    parameters: Vec<f64>,
    /// The inverse of the normal equations.
    inverse: Vec<Vec<f64>>,
    deviation: f64,
    freedom: usize,
}

impl ScreeningFit {
    fn error(&self, parameter: usize) -> f64 {
        self.deviation * self.inverse[parameter][parameter].max(0.0).sqrt()
    }
}

impl ScreeningRuns {
    fn of(design: &ScreeningDesign, values: &[Vec<Option<f64>>]) -> ScreeningRuns {
        let most = values.iter().map(Vec::len).max().unwrap_or(0);
        let usable = |row: &Vec<Option<f64>>, block: usize| {
            let value = row.get(block).copied().flatten();
            value.filter(|value| value.is_finite() && *value > 0.0)
        };
        // A block without any value has no level.
        let used: Vec<usize> = (0..most)
            .filter(|block| values.iter().any(|row| usable(row, *block).is_some()))
            .collect();
        let mut runs = ScreeningRuns {
            blocks: used.len(),
            parameters: used.len() + design.settings(),
            rows: Vec::new(),
            values: Vec::new(),
        };
        for (row, of_row) in design.rows().iter().zip(values) {
            let levels: Vec<f64> = row.iter().map(|on| if *on { 0.5 } else { -0.5 }).collect();
            for (number, block) in used.iter().enumerate() {
                if let Some(value) = usable(of_row, *block) {
                    runs.rows.push((number, levels.clone()));
                    runs.values.push(value.ln());
                }
            }
        }
        runs
    }

    fn at(&self, run: usize, parameter: usize) -> f64 {
        let (block, levels) = &self.rows[run];
        match parameter.checked_sub(self.blocks) {
            None => f64::from(u8::from(*block == parameter)),
            Some(setting) => levels[setting],
        }
    }

    fn fit(&self) -> Option<ScreeningFit> {
        let freedom = self.values.len().checked_sub(self.parameters)?;
        if freedom == 0 {
            return None;
        }
        let inverse = inverted(self.normal())?;
        let mut values = self.values.clone();
        let mut parameters = self.solve(&inverse, &values);
        for _ in 0..FITS {
            let clip = CLIP * self.robust_deviation(&parameters, freedom);
            for (run, value) in values.iter_mut().enumerate() {
                let fitted = self.fitted(&parameters, run);
                *value = fitted + (self.values[run] - fitted).clamp(-clip, clip);
            }
            parameters = self.solve(&inverse, &values);
        }
        let deviation = self.deviation(&parameters, &values, freedom);
        Some(ScreeningFit {
            parameters,
            inverse,
            deviation,
            freedom,
        })
    }

    fn normal(&self) -> Vec<Vec<f64>> {
        let size = self.parameters;
        let mut normal = vec![vec![0.0; size]; size];
        for run in 0..self.values.len() {
            for (row, line) in normal.iter_mut().enumerate() {
                for (column, cell) in line.iter_mut().enumerate() {
                    *cell += self.at(run, row) * self.at(run, column);
                }
            }
        }
        normal
    }

    fn solve(&self, inverse: &[Vec<f64>], values: &[f64]) -> Vec<f64> {
        let right = |parameter: usize| -> f64 {
            let runs = values.iter().enumerate();
            runs.map(|(run, value)| self.at(run, parameter) * value)
                .sum()
        };
        let right: Vec<f64> = (0..self.parameters).map(right).collect();
        let product = |row: &Vec<f64>| row.iter().zip(&right).map(|(a, b)| a * b).sum();
        inverse.iter().map(product).collect()
    }

    fn fitted(&self, parameters: &[f64], run: usize) -> f64 {
        let parts = parameters.iter().enumerate();
        parts.map(|(at, value)| self.at(run, at) * value).sum()
    }

    /// From the median of the residuals, which are smaller than the noise by what was fitted.
    fn robust_deviation(&self, parameters: &[f64], freedom: usize) -> f64 {
        let runs = self.values.len();
        let residual = |run: usize| (self.values[run] - self.fitted(parameters, run)).abs();
        let typical = median((0..runs).map(residual)).unwrap_or(0.0);
        MEDIAN_TO_DEVIATION * typical * (runs as f64 / freedom as f64).sqrt()
    }

    /// Of a run that was not clipped: what clipping took from the pseudo-values is given back, with
    /// Huber's correction for the parameters.
    fn deviation(&self, parameters: &[f64], pseudo: &[f64], freedom: usize) -> f64 {
        let runs = self.values.len() as f64;
        let clipped = |run: usize| pseudo[run] - self.fitted(parameters, run);
        let sum: f64 = (0..self.values.len()).map(|run| clipped(run).powi(2)).sum();
        let near = |(run, value): &(usize, &f64)| (self.values[*run] - **value).abs() < 1e-12;
        let kept = pseudo.iter().enumerate().filter(near).count() as f64 / runs;
        if kept <= 0.0 {
            return (sum / freedom as f64).sqrt();
        }
        let correction = 1.0 + self.parameters as f64 / runs * (1.0 - kept) / kept;
        correction * (sum / freedom as f64).sqrt() / kept
    }
}

/// The inverse of a symmetric matrix, by elimination; `None` where it has none.
fn inverted(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    let size = matrix.len();
    for (row, line) in matrix.iter_mut().enumerate() {
        line.extend((0..size).map(|column| f64::from(u8::from(row == column))));
    }
    for pivot in 0..size {
        let best = (pivot..size)
            .max_by(|a, b| matrix[*a][pivot].abs().total_cmp(&matrix[*b][pivot].abs()))?;
        matrix.swap(pivot, best);
        let head = matrix[pivot][pivot];
        if head.abs() < 1e-9 {
            return None;
        }
        matrix[pivot].iter_mut().for_each(|cell| *cell /= head);
        let line = matrix[pivot].clone();
        for (row, other) in matrix.iter_mut().enumerate() {
            let share = other[pivot];
            if row != pivot && share != 0.0 {
                other
                    .iter_mut()
                    .zip(&line)
                    .for_each(|(cell, part)| *cell -= share * part);
            }
        }
    }
    Some(
        matrix
            .into_iter()
            .map(|line| line[size..].to_vec())
            .collect(),
    )
}
