// SPDX-License-Identifier: Apache-2.0
//! Our search and plain bisection on one simulated system.

use plimsoll_stats::load_line::{LoadLineOptions, LoadLineSearch, LoadLineStep};

use super::systems::{KnownSystem, SimulatedSystem, SystemLaw};

/// Result of a search, beside the truth.
#[derive(Debug, Clone)]
pub(crate) struct SearchRow {
    pub(crate) method: String,
    pub(crate) edge: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) seconds: f64,
    pub(crate) trials: usize,
    pub(crate) stop: String,
}

impl SearchRow {
    pub(crate) const HEAD: &str =
        "seed,method,kind,steal,drift,memory,edge,low,high,inside,seconds,trials,stop";

    pub(crate) fn is_inside(&self) -> bool {
        self.low <= self.edge && self.edge <= self.high
    }

    pub(crate) fn line(&self, seed: u64, law: &SystemLaw) -> String {
        format!(
            "{seed},{},{},{},{},{},{:.5},{:.5},{:.5},{},{:.0},{},{}",
            self.method,
            law.kind.name(),
            u8::from(law.has_steal),
            u8::from(law.has_drift),
            u8::from(law.has_memory),
            self.edge,
            self.low,
            self.high,
            u8::from(self.is_inside()),
            self.seconds,
            self.trials,
            self.stop,
        )
    }
}

/// The search under test, until it is done.
pub(crate) fn ours(known: &KnownSystem, seed: u64, sustained_s: f64) -> SearchRow {
    let mut system = SimulatedSystem::of(known.law.clone(), seed);
    let mut search = LoadLineSearch::new(LoadLineOptions {
        limits: system.law.limits(),
        short_s: (sustained_s / 6.0).min(15.0),
        trial_s: (sustained_s / 3.0).min(60.0),
        sustained_s,
        ..LoadLineOptions::default()
    });
    while let LoadLineStep::Try(request) = search.next() {
        let trial = if request.is_continued {
            system.play_on(request.multiple, request.seconds)
        } else {
            system.play(request.multiple, request.seconds)
        };
        search.observe(&trial.answer(request));
    }
    let result = search.result();
    SearchRow {
        method: "plimsoll".into(),
        edge: (known.edge + system.mean_drift()).exp(),
        low: result.sustained.low,
        high: result.sustained.high,
        seconds: result.seconds,
        trials: result.trials,
        stop: result
            .stop
            .map_or_else(String::new, |stop| format!("{stop:?}")),
    }
}

/// Halves the range until it is as narrow as our interval; each multiple is held `repeats` times for
/// as long as it must be carried, and the majority decides.
pub(crate) fn bisection(
    known: &KnownSystem,
    seed: u64,
    sustained_s: f64,
    repeats: u64,
) -> SearchRow {
    let mut system = SimulatedSystem::of(known.law.clone(), seed);
    let options = LoadLineOptions::default();
    let limits = system.law.limits();
    let (mut low, mut high) = (options.smallest.ln(), options.largest.ln());
    let (mut seconds, mut trials) = (0.0, 0);
    while high - low > options.width.ln_1p() {
        let middle = f64::midpoint(low, high);
        let (mut yes, mut no) = (0, 0);
        while 2 * yes.max(no) <= repeats {
            let is_carried = system.play(middle.exp(), sustained_s).is_carried(&limits);
            seconds += sustained_s;
            trials += 1;
            if is_carried { yes += 1 } else { no += 1 }
        }
        if yes > no {
            low = middle;
        } else {
            high = middle;
        }
    }
    SearchRow {
        method: format!("bisection-{repeats}"),
        edge: (known.edge + system.mean_drift()).exp(),
        low: low.exp(),
        high: high.exp(),
        seconds,
        trials,
        stop: "WidthReached".into(),
    }
}
