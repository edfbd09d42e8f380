// SPDX-License-Identifier: Apache-2.0
//! Systems without a queue: what is late depends on chance, and at most on how much comes.

use plimsoll_core::rng::Rng;

use super::{LawGroup, LawTruth, Set, Sink, System, Work};

/// Every operation takes what it takes; of some, by a chance that may depend on the rate, that is more.
struct Plain {
    usual: Work,
    chance: f64,
    /// The slow ones take this, and a third of it more, exponential.
    slow: f64,
    /// Power of the rate by which the chance grows, and the rate at which it is `chance`.
    power: i32,
    rate: f64,
    /// Recent rate, as an average that forgets within seconds.
    recent: f64,
    at: f64,
    rng: Rng,
}

/// Seconds within which the recent rate forgets.
const MEMORY: f64 = 10.0;

impl System for Plain {
    fn arrive(&mut self, at: f64, sink: &mut Sink) {
        self.recent *= (-(at - self.at) / MEMORY).exp();
        self.at = at;
        let chance = self.chance * (self.recent / self.rate).powi(self.power);
        let response = if self.rng.unit() < chance {
            self.slow + self.rng.exponential(self.slow / 3.0)
        } else {
            self.usual.draw(&mut self.rng)
        };
        self.recent += 1.0 / MEMORY;
        sink.done(at, response);
    }

    fn end(&mut self, _at: f64, _sink: &mut Sink) {}
}

pub(super) fn sets() -> Vec<Set> {
    let mut sets = Vec::from(tiers());
    sets.extend(flat());
    sets.extend(failing());
    sets
}

fn plain(usual: Work, chance: f64, slow: f64, power: i32, rate: f64) -> impl Fn(Rng) -> Plain {
    move |rng| Plain {
        usual,
        chance,
        slow,
        power,
        rate,
        recent: 0.0,
        at: 0.0,
        rng,
    }
}

/// The chance of a miss is E[(recent ÷ rate)^power] × chance. The recent rate is shot noise with mean λ and
/// variance λ ÷ (2 MEMORY), which is about a factor 1 + power (power − 1) ÷ (4 MEMORY λ) at that rate.
fn tiers() -> [Set; 2] {
    let about = "Misses of a fast tier grow with the load: the percentile jumps, no queue";
    let tiers = |power: i32, carried: f64, rate: f64| {
        let usual = Work::Exponential { mean: 0.000_4 };
        let noise = f64::from(power * (power - 1)) / (4.0 * MEMORY * carried);
        let truth = carried * (1.0 + noise).powf(-1.0 / f64::from(power)) / rate;
        let system = plain(usual, 0.01, 0.025, power, carried);
        Set::new("two tiers", about, LawGroup::Quiet, system)
            .answers(LawTruth::AtMost {
                multiple: truth,
                error: 0.0,
            })
            .soak(4_000.0)
    };
    [
        tiers(3, 800.0, 350.0).load(350.0, 0.1, 10.0),
        tiers(8, 600.0, 32.0).numbered(2).load(32.0, 1.0, 80.0),
    ]
}

const USUAL: Work = Work::Lognormal {
    mean: 0.001,
    sigma: 0.6,
};

fn flat() -> [Set; 2] {
    let flat = |chance| {
        let about = "Latency that no load of the range changes";
        let set = Set::new(
            "flat",
            about,
            LawGroup::NoAnswer,
            plain(USUAL, chance, 0.03, 0, 1.0),
        );
        set.answers(LawTruth::Unlimited)
    };
    [
        flat(0.0).load(50.0, 0.3, 30.0),
        flat(0.004).numbered(2).load(100.0, 0.1, 12.0),
    ]
}

fn failing() -> [Set; 2] {
    let about = "Too many operations are late at every load, since a disk retries or is far away";
    let failing = |usual, chance| {
        let system = plain(usual, chance, 0.03, 0, 1.0);
        Set::new("failing disk", about, LawGroup::NoAnswer, system).answers(LawTruth::Never)
    };
    let far = Work::Gamma {
        shape: 40.0,
        mean: 0.022,
    };
    [
        failing(USUAL, 0.015).load(50.0, 0.3, 30.0),
        failing(far, 0.0).numbered(2).load(50.0, 0.1, 15.0),
    ]
}
