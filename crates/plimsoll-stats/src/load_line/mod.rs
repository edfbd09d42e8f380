// SPDX-License-Identifier: Apache-2.0
//! The load line: the largest multiple of a workload that a system carries within its limits, with an
//! interval. Why this way: `docs/method/load-line.md`.
//!
//! [`LoadLineSearch`] says which trial to run next and takes what came of it; [`LoadLineRounds`] lets the
//! searches of several systems take turns, and [`LoadLineRatio`] holds two lines against each other. A
//! limit of each operation kind is a limit like any other, with its own counts.

mod clumps;
mod edges;
mod fit;
mod limit;
mod of_run;
mod outcome;
mod posterior;
mod ratio;
mod rounds;
mod search;
mod stays;
mod steady;
mod trial;

#[cfg(test)]
mod tests;

pub use fit::LoadLineFit;
pub use limit::{LoadLineLimit, LoadLineMeasure};
pub use of_run::{ArmLoadLine, arm_load_lines, load_line_of, load_line_options, load_line_trial};
pub use outcome::{
    LoadLineCurvePoint, LoadLineIdle, LoadLineInterval, LoadLineReach, LoadLineResult, LoadLineStop,
};
pub use ratio::LoadLineRatio;
pub use rounds::{LoadLineRounds, LoadLineTurn};
pub use search::LoadLineSearch;
pub use steady::LoadLineSteadiness;
pub use trial::{LoadLineOptions, LoadLineStep, LoadLineTrial};
