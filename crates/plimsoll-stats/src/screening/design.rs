// SPDX-License-Identifier: Apache-2.0
//! Two-level designs of Plackett and Burman (Biometrika 33, 1946, p. 305), and their fold-over (Box
//! and Wilson, JRSS B 13, 1951, p. 1).
//!
//! Each design is its first row, moved on by one place for each further row, and a row of all given
//! levels. Rows and columns come in an order drawn from the seed: which settings are aliased with
//! which interactions is then chance, not the order in which they were declared.

use plimsoll_core::rng::Rng;

/// First rows as they were published, by the number of runs.
const FIRST_ROWS: [(usize, &str); 5] = [
    (4, "++-"),
    (8, "+++-+--"),
    (12, "++-+++---+-"),
    (20, "++--++++-+-+----++-"),
    (24, "+++++-+-++--++--+-+----"),
];

/// Most settings that are screened together.
pub const SETTINGS_MAX: usize = 23;

/// Which settings are on their other level in which runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreeningDesign {
    rows: Vec<Vec<bool>>,
    is_folded: bool,
}

impl ScreeningDesign {
    /// The smallest design that has a column for each of `settings` settings; `None` for none, or for more
    /// than the largest design has. The first row has all settings as given. Folded over, every row comes a
    /// second time with all settings the other way round: effects are then free of interactions of two
    /// settings.
    pub fn plackett_burman(settings: usize, is_folded: bool, rng: &mut Rng) -> Option<Self> {
        let mut sizes = FIRST_ROWS.iter().filter(|_| settings > 0);
        let (runs, first) = sizes.find(|(runs, _)| *runs > settings)?;
        let first: Vec<bool> = first.chars().map(|sign| sign == '+').collect();
        let mut columns: Vec<usize> = (0..first.len()).collect();
        rng.shuffle(&mut columns);
        let row = |shift: usize| -> Vec<bool> {
            let columns = columns.iter().take(settings);
            let at = |column: &usize| first[(column + first.len() - shift) % first.len()];
            columns.map(at).collect()
        };
        let mut shifts: Vec<usize> = (0..runs - 1).collect();
        rng.shuffle(&mut shifts);
        let mut rows = vec![vec![false; settings]];
        rows.extend(shifts.into_iter().map(row));
        if is_folded {
            let other = |row: &Vec<bool>| row.iter().map(|is_on| !is_on).collect();
            let folded: Vec<Vec<bool>> = rows.iter().map(other).collect();
            rows.extend(folded);
        }
        Some(ScreeningDesign { rows, is_folded })
    }

    /// One row for each run of a block: for each setting, whether it is on its other level.
    pub fn rows(&self) -> &[Vec<bool>] {
        &self.rows
    }

    /// How many settings it has columns for.
    pub fn settings(&self) -> usize {
        self.rows.first().map_or(0, Vec::len)
    }

    /// Whether effects are free of interactions of two settings.
    pub fn is_folded(&self) -> bool {
        self.is_folded
    }

    /// Runs that changing one setting at a time takes for effects as exact as those of `blocks` blocks,
    /// with the base run more often than the others by the root of their number (Dunnett, JASA 50, 1955,
    /// p. 1096), which is the cheapest way to do it.
    pub fn one_at_a_time(&self, blocks: usize) -> f64 {
        let runs = (self.rows.len() * blocks) as f64;
        let settings = self.settings() as f64;
        // Variances of an effect: 4 σ²/runs here, (1 + √k)² σ²/runs there.
        runs * (1.0 + settings.sqrt()).powi(2) / 4.0
    }
}
