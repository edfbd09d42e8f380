// SPDX-License-Identifier: Apache-2.0
//! Screening: which of many settings matter, from few runs.
//!
//! Settings are changed together, by the rows of a design in which each is on its other level in half
//! of the runs and no two go together. So every run counts for every setting: the effect of one of
//! ten is as exact as if it alone had been changed in all runs, where changing one at a time spends
//! nine of ten runs on others. What interactions of settings do to that is in
//! `docs/method/tuning.md`.

mod design;
mod effects;

pub use design::{SETTINGS_MAX, ScreeningDesign};
pub use effects::{ScreeningEffect, ScreeningResult, candidates, screen};

#[cfg(test)]
mod tests;
