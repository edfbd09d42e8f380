// SPDX-License-Identifier: Apache-2.0
//! Whether a system fits a use: on which side of its load line the load lies that the use needs.

use plimsoll_core::load_line::LoadLinePurpose;

use super::of_run::ArmLoadLine;
use super::outcome::{LoadLineResult, LoadLineStop};

/// The multiple that a requirement asks for.
const NEEDED: f64 = 1.0;

/// Whether a system carries the load that a use needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadLineFit {
    /// With confidence: the load line lies above what is needed.
    Fits,
    /// The interval holds what is needed, or that was not held for as long as it must be.
    CannotTell,
    /// With confidence: the load line lies below what is needed.
    DoesNotFit,
}

impl LoadLineFit {
    /// The verdict on this line.
    pub fn of(line: &ArmLoadLine<'_>) -> LoadLineFit {
        let range = (line.goal.smallest, line.goal.largest);
        match fit(&line.result, range, was_held(line)) {
            // Others only make a system worse.
            LoadLineFit::DoesNotFit if line.disturbance().is_some() => LoadLineFit::CannotTell,
            found => found,
        }
    }

    /// As reports write it.
    pub fn name(self) -> &'static str {
        match self {
            LoadLineFit::Fits => "fits",
            LoadLineFit::CannotTell => "cannot tell",
            LoadLineFit::DoesNotFit => "does not fit",
        }
    }
}

/// Whether what is needed, or more, was tried for as long as it must be carried. A stay that is overloaded
/// ends early.
fn was_held(line: &ArmLoadLine<'_>) -> bool {
    let stays = || {
        let records = line.trials.iter().filter_map(|t| t.load_line.as_ref());
        let requests = records.map(|record| record.request);
        requests.filter(|r| r.purpose == LoadLinePurpose::Sustain && r.multiple >= NEEDED)
    };
    stays().any(|stay| {
        let same = stays().filter(|other| other.multiple.to_bits() == stay.multiple.to_bits());
        let seconds: f64 = same.map(|part| part.seconds).sum();
        seconds >= line.goal.sustained.as_secs_f64() * 0.99
    })
}

fn fit(result: &LoadLineResult, (smallest, largest): (f64, f64), was_held: bool) -> LoadLineFit {
    let edge = &result.sustained;
    match result.stop {
        _ if result.trials == 0 => LoadLineFit::CannotTell,
        Some(LoadLineStop::NothingCarried) if smallest <= NEEDED => LoadLineFit::DoesNotFit,
        // A trial without an operation breaks no limit, and carries nothing.
        Some(LoadLineStop::EverythingCarried) if largest >= NEEDED && result.reach.has_low() => {
            LoadLineFit::Fits
        }
        // A search that was cut off has an interval as wide as what is known.
        Some(LoadLineStop::WidthReached | LoadLineStop::BudgetReached) | None => {
            if result.reach.has_low() && edge.low >= NEEDED && was_held {
                LoadLineFit::Fits
            } else if result.reach.has_high() && edge.high < NEEDED {
                LoadLineFit::DoesNotFit
            } else {
                LoadLineFit::CannotTell
            }
        }
        Some(_) => LoadLineFit::CannotTell,
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::{LoadLineInterval, LoadLineReach};
    use super::*;

    fn result(stop: Option<LoadLineStop>, low: f64, high: f64) -> LoadLineResult {
        LoadLineResult {
            sustained: LoadLineInterval {
                low,
                point: (low * high).sqrt(),
                high,
            },
            reach: LoadLineReach::Between,
            idle: None,
            burst: None,
            stop,
            binding: None,
            trials: 7,
            seconds: 100.0,
            steadiness: None,
            curve: Vec::new(),
        }
    }

    #[test]
    fn the_interval_decides_and_not_its_middle() {
        use LoadLineStop::{BudgetReached, EverythingCarried, NothingCarried, WidthReached};
        for (stop, low, high, expect) in [
            (Some(WidthReached), 1.2, 1.4, LoadLineFit::Fits),
            (Some(WidthReached), 0.7, 0.9, LoadLineFit::DoesNotFit),
            (Some(WidthReached), 0.9, 1.3, LoadLineFit::CannotTell),
            (Some(BudgetReached), 1.1, 4.0, LoadLineFit::Fits),
            (Some(BudgetReached), 0.3, 4.0, LoadLineFit::CannotTell),
            (Some(EverythingCarried), 8.0, 12.0, LoadLineFit::Fits),
            (Some(NothingCarried), 0.2, 0.3, LoadLineFit::DoesNotFit),
            (None, 1.2, 1.4, LoadLineFit::Fits),
            (None, 0.2, 0.9, LoadLineFit::DoesNotFit),
            (None, 0.2, 1.4, LoadLineFit::CannotTell),
        ] {
            let found = fit(&result(stop, low, high), (0.25, 8.0), true);
            assert_eq!(found, expect, "{stop:?} {low} {high}");
        }
    }

    #[test]
    fn what_was_not_held_or_not_tried_does_not_fit() {
        let short = result(Some(LoadLineStop::BudgetReached), 2.0, 3.0);
        assert_eq!(fit(&short, (0.25, 8.0), false), LoadLineFit::CannotTell);
        let mut idle = result(Some(LoadLineStop::EverythingCarried), 8.0, 8.0);
        idle.reach = LoadLineReach::Unknown;
        assert_eq!(fit(&idle, (0.25, 8.0), true), LoadLineFit::CannotTell);
        let mut none = result(Some(LoadLineStop::BudgetReached), 2.0, 3.0);
        none.trials = 0;
        assert_eq!(fit(&none, (0.25, 8.0), true), LoadLineFit::CannotTell);
        // Ends of the range say nothing of a need beyond them.
        let ended = result(Some(LoadLineStop::NothingCarried), 1.0, 1.5);
        assert_eq!(fit(&ended, (2.0, 8.0), true), LoadLineFit::CannotTell);
    }
}
