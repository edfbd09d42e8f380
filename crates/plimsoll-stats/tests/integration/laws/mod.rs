// SPDX-License-Identifier: Apache-2.0
//! Laws: simulated storage systems whose load line is known, to judge a search for it.
//!
//! They were written without knowledge of the search they judge: by someone who had not read it, nor its
//! tests, and who chose kinds of systems and their parameters from the literature on queues and storage.
//!
//! - A law's state (queues, credits, neighbours, phases) lives in virtual time and goes on between trials.
//! - Arrivals are an open loop. An operation counts in the second in which it is due, and is late when its
//!   response time, from when it is due, is above the limit. What still waits at the end of a trial is
//!   withdrawn, but for what the device has taken in.
//! - The truth of `LawTruth::AtMost` is the largest multiple at which the long-run share of late operations,
//!   were it held for ever, is at most that of the limit (1 % for a p99). Its figures come from
//!   `cargo test -p plimsoll-stats --test integration laws::checks -- --ignored --nocapture`: bisection, each
//!   of six seeds by itself, whose standard error is part of the constant.
//! - Who tunes a search may look at the laws of one half; only those of the other half judge it.

mod batches;
mod budgets;
mod checks;
mod fresh;
mod paths;
mod plain;
mod search;
mod servers;
mod sharing;
mod sources;

use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::{floor_u64, round_u64, to_usize};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;

/// At most this share of operations may take longer than this.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LawLimit {
    pub(crate) seconds: f64,
    pub(crate) share: f64,
}

/// Difficulty that a search has to cope with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LawGroup {
    /// States last milliseconds: seconds of a trial are alike.
    Quiet,
    /// States last seconds to hours.
    Noisy,
    /// There is no largest multiple within the range.
    NoAnswer,
}

/// Permitted use of a law.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LawHalf {
    Tuning,
    Judging,
    /// Judges, and knows no other half.
    Fresh,
}

/// The load line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum LawTruth {
    /// Carries this multiple and no larger one; with the standard error of the figure, relative.
    AtMost { multiple: f64, error: f64 },
    /// Moves from `high` at the start of a session to `low` at its end.
    Sinks { low: f64, high: f64 },
    /// Carries every multiple of the range.
    Unlimited,
    /// Carries none.
    Never,
}

/// Operations of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct LawSecond {
    /// Due in it.
    pub(crate) ops: u64,
    /// Due in it, and above the limit.
    pub(crate) late: u64,
    /// Ended in it.
    pub(crate) ended: u64,
}

/// Observations of a trial.
#[derive(Debug, Clone)]
pub(crate) struct LawTrial {
    pub(crate) offered: u64,
    /// Ended before the end of the trial.
    pub(crate) completed: u64,
    /// By second; the last one may be a part of one.
    pub(crate) seconds: Vec<LawSecond>,
    /// Response times, of those that were withdrawn as long as they waited or would have taken.
    pub(crate) response: Histogram,
}

/// A storage system to search.
pub(crate) trait Law {
    /// Unique: family and number of the parameter set.
    fn name(&self) -> &str;
    fn description(&self) -> &str;
    fn group(&self) -> LawGroup;
    fn half(&self) -> LawHalf;
    /// The limit whose truth is known.
    fn limit(&self) -> LawLimit;
    /// Smallest and largest multiple to be searched.
    fn range(&self) -> (f64, f64);
    /// Whether more load never makes fewer operations late.
    fn is_monotone(&self) -> bool;
    /// Panics for another limit than the law's.
    fn truth(&self, limit: LawLimit) -> LawTruth;
    /// Holds a multiple from `start_s` on, which must not be before the last trial's end.
    fn trial(&mut self, multiple: f64, seconds: f64, start_s: f64) -> LawTrial;
}

/// Halves of the families, by alternating order of name; those of `fresh` are of none.
pub(crate) const HALVES: [(&str, LawHalf); 18] = [
    ("ageing", LawHalf::Tuning),
    ("burst credits", LawHalf::Judging),
    ("bursty arrivals", LawHalf::Tuning),
    ("collapse", LawHalf::Judging),
    ("failing disk", LawHalf::Tuning),
    ("flat", LawHalf::Judging),
    ("group commit", LawHalf::Tuning),
    ("heavy tails", LawHalf::Judging),
    ("large among small", LawHalf::Tuning),
    ("naps", LawHalf::Judging),
    ("neighbour", LawHalf::Tuning),
    ("pauses", LawHalf::Judging),
    ("scrub", LawHalf::Tuning),
    ("shared disk", LawHalf::Judging),
    ("stripes", LawHalf::Tuning),
    ("two tiers", LawHalf::Judging),
    ("wandering speed", LawHalf::Tuning),
    ("write-back", LawHalf::Judging),
];

/// Truths that were computed: family, number, multiple, and its standard error, relative. Those with an
/// error of 0.0003 are numeric solutions: of M/G/1 by the compound geometric form of its waiting time, of
/// Markovian systems by uniformization of the states of a tagged operation; of write-back by flow balance.
/// The others are simulations, by the laws themselves or by a second program that shares no code with them;
/// where both were run they agree within two and a half errors, but for the second of wandering speed: its
/// slow spells are so rare that the mean of short runs is too high, so its figure rests on pooled long ones.
#[rustfmt::skip]
const COMPUTED: [(&str, u32, f64, f64); 32] = [
    ("bursty arrivals", 1, 4.900, 0.0010),
    ("bursty arrivals", 2, 0.3682, 0.0006),
    ("bursty arrivals", 3, 20.676, 0.0012),
    ("collapse", 1, 1.7366, 0.0003),
    ("collapse", 2, 11.831, 0.0003),
    ("group commit", 1, 1.1210, 0.0011),
    ("group commit", 2, 23.720, 0.0008),
    ("heavy tails", 1, 1.3497, 0.0015),
    ("heavy tails", 2, 38.949, 0.0007),
    ("heavy tails", 3, 0.2988, 0.0003),
    ("large among small", 1, 3.0112, 0.0003),
    ("large among small", 2, 0.3352, 0.0003),
    ("large among small", 3, 9.0931, 0.0003),
    ("naps", 1, 12.670, 0.0012),
    ("naps", 2, 2.8119, 0.0018),
    ("neighbour", 1, 1.2468, 0.0003),
    ("neighbour", 2, 16.660, 0.0020),
    ("pauses", 1, 2.0920, 0.0025),
    ("pauses", 2, 13.435, 0.0023),
    ("scrub", 1, 1.2298, 0.0023),
    ("scrub", 2, 18.376, 0.0007),
    ("scrub", 3, 0.2567, 0.0006),
    ("shared disk", 1, 1.1700, 0.0017),
    ("shared disk", 2, 25.804, 0.0006),
    ("shared disk", 3, 0.2992, 0.0003),
    ("stripes", 1, 0.6034, 0.0017),
    ("stripes", 2, 12.727, 0.0012),
    ("wandering speed", 1, 0.9980, 0.0030),
    ("wandering speed", 2, 18.480, 0.0030),
    ("write-back", 1, 1.0374, 0.0003),
    ("write-back", 2, 12.390, 0.0003),
    ("write-back", 3, 0.4365, 0.0003),
];

/// Of a set that gives no truth of its own; never where it is missing, which its check would find.
fn known(family: &str, number: u32) -> LawTruth {
    let mut rows = COMPUTED.iter();
    let found = rows.find(|row| row.0 == family && row.1 == number);
    let at_most = |row: &(&str, u32, f64, f64)| LawTruth::AtMost {
        multiple: row.2,
        error: row.3,
    };
    found.map_or(LawTruth::Never, at_most)
}

/// All laws, each with randomness of its own from this seed.
pub(crate) fn all(seed: u64) -> Vec<Box<dyn Law>> {
    let laws = sets().into_iter().map(|set| set.open(seed));
    laws.map(|law| Box::new(law) as Box<dyn Law>).collect()
}

fn sets() -> Vec<Set> {
    let families = [
        batches::sets(),
        budgets::sets(),
        fresh::sets(),
        paths::sets(),
        plain::sets(),
        servers::sets(),
        sharing::sets(),
        sources::sets(),
    ];
    families.into_iter().flatten().collect()
}

/// System that serves the operations of a law.
trait System {
    /// Time from one arrival to the next, at a mean rate.
    fn gap(&mut self, rng: &mut Rng, _at: f64, rate: f64) -> f64 {
        rng.exponential(1.0 / rate)
    }
    /// An operation is due.
    fn arrive(&mut self, at: f64, sink: &mut Sink);
    /// A trial ends: what waits is withdrawn.
    fn end(&mut self, at: f64, sink: &mut Sink);
}

/// Makes a system.
type Build = Box<dyn Fn(Rng) -> Box<dyn System>>;

/// A parameter set of a family.
struct Set {
    family: &'static str,
    number: u32,
    description: &'static str,
    group: LawGroup,
    limit: LawLimit,
    /// Operations per second at a multiple of 1.
    rate: f64,
    range: (f64, f64),
    is_monotone: bool,
    /// Where it needs no row of the table.
    given: Option<LawTruth>,
    /// Seconds that tell the long-run share, after as many have been let pass.
    soak: f64,
    build: Build,
}

impl Set {
    fn name(&self) -> String {
        format!("{} {}", self.family, self.number)
    }

    /// A set whose limit, load and truth are those of most, or follow.
    fn new<S: System + 'static>(
        family: &'static str,
        description: &'static str,
        group: LawGroup,
        build: impl Fn(Rng) -> S + 'static,
    ) -> Set {
        Set {
            family,
            number: 1,
            description,
            group,
            limit: p99(20.0),
            rate: 1.0,
            range: (0.1, 10.0),
            is_monotone: true,
            given: None,
            soak: 2_000.0,
            build: Box::new(move |rng| Box::new(build(rng))),
        }
    }

    fn truth(&self) -> LawTruth {
        self.given
            .unwrap_or_else(|| known(self.family, self.number))
    }
    fn numbered(self, number: u32) -> Set {
        Set { number, ..self }
    }
    fn limited(self, ms: f64) -> Set {
        Set {
            limit: p99(ms),
            ..self
        }
    }
    fn load(self, rate: f64, low: f64, high: f64) -> Set {
        Set {
            rate,
            range: (low, high),
            ..self
        }
    }
    fn soak(self, soak: f64) -> Set {
        Set { soak, ..self }
    }
    fn answers(self, truth: LawTruth) -> Set {
        let has_answer = matches!(truth, LawTruth::AtMost { .. } | LawTruth::Sinks { .. });
        let group = if has_answer {
            self.group
        } else {
            LawGroup::NoAnswer
        };
        let given = Some(truth);
        Set {
            given,
            group,
            ..self
        }
    }
    fn not_monotone(self) -> Set {
        Set {
            is_monotone: false,
            ..self
        }
    }

    fn open(self, seed: u64) -> Simulated {
        let name = self.name();
        let rng = |purpose| Rng::new(Seed(seed).derive(&name, purpose));
        let system = (self.build)(rng(0));
        Simulated {
            system,
            arrivals: rng(1),
            ended: 0.0,
            name,
            set: self,
        }
    }
}

/// Another generator, for what must not depend on how often the first is used.
fn split(rng: &mut Rng) -> Rng {
    Rng::new(Seed(rng.next_u64()))
}

/// A limit in milliseconds that 99 % keep.
const fn p99(ms: f64) -> LawLimit {
    LawLimit {
        seconds: ms / 1000.0,
        share: 0.01,
    }
}

/// A law in a session.
struct Simulated {
    set: Set,
    name: String,
    system: Box<dyn System>,
    arrivals: Rng,
    ended: f64,
}

impl Law for Simulated {
    fn name(&self) -> &str {
        &self.name
    }
    fn description(&self) -> &str {
        self.set.description
    }
    fn group(&self) -> LawGroup {
        self.set.group
    }
    fn half(&self) -> LawHalf {
        let found = HALVES.iter().find(|(family, _)| *family == self.set.family);
        found.map_or(LawHalf::Fresh, |(_, half)| *half)
    }
    fn limit(&self) -> LawLimit {
        self.set.limit
    }
    fn range(&self) -> (f64, f64) {
        self.set.range
    }
    fn is_monotone(&self) -> bool {
        self.set.is_monotone
    }
    fn truth(&self, limit: LawLimit) -> LawTruth {
        assert_eq!(
            limit, self.set.limit,
            "{}: the truth of one limit",
            self.name
        );
        self.set.truth()
    }

    fn trial(&mut self, multiple: f64, seconds: f64, start_s: f64) -> LawTrial {
        assert!(start_s >= self.ended, "trials follow each other");
        let (rate, end) = (multiple * self.set.rate, start_s + seconds);
        let mut sink = Sink::new(start_s, seconds, self.set.limit.seconds);
        let mut at = start_s;
        // Ends: a gap is above 0, and its mean 1 / rate.
        loop {
            at += self.system.gap(&mut self.arrivals, at, rate);
            if at >= end {
                break;
            }
            self.system.arrive(at, &mut sink);
        }
        self.system.end(end, &mut sink);
        self.ended = end;
        sink.trial
    }
}

/// Where systems say what became of operations.
struct Sink {
    start: f64,
    limit: f64,
    trial: LawTrial,
}

impl Sink {
    fn new(start: f64, seconds: f64, limit: f64) -> Sink {
        let trial = LawTrial {
            offered: 0,
            completed: 0,
            seconds: vec![LawSecond::default(); to_usize(floor_u64(seconds.ceil()))],
            response: Histogram::new(),
        };
        Sink {
            start,
            limit,
            trial,
        }
    }

    /// An operation that was due at `due` takes so long.
    fn done(&mut self, due: f64, response: f64) {
        self.withdrawn(due, response);
        let end = to_usize(floor_u64(due + response - self.start));
        if let Some(second) = self.trial.seconds.get_mut(end) {
            second.ended += 1;
            self.trial.completed += 1;
        }
    }

    /// An operation that was due at `due` had waited so long when it was refused or withdrawn.
    fn withdrawn(&mut self, due: f64, waited: f64) {
        let last = self.trial.seconds.len() - 1;
        let second = to_usize(floor_u64(due - self.start)).min(last);
        let second = &mut self.trial.seconds[second];
        second.ops += 1;
        second.late += u64::from(waited > self.limit);
        self.trial.offered += 1;
        self.trial.response.record(Nanos(round_u64(waited * 1e9)));
    }
}

/// How much work an operation is: seconds at full speed.
#[derive(Debug, Clone, Copy)]
enum Work {
    Exponential {
        mean: f64,
    },
    Gamma {
        shape: f64,
        mean: f64,
    },
    Lognormal {
        mean: f64,
        sigma: f64,
    },
    /// Pareto, cut off at the largest.
    Pareto {
        shape: f64,
        smallest: f64,
        largest: f64,
    },
    /// One of two, the larger one with this chance.
    Two {
        small: f64,
        large: f64,
        chance: f64,
    },
}

impl Work {
    fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Work::Exponential { mean } => rng.exponential(mean),
            Work::Gamma { shape, mean } => rng.gamma(shape, mean),
            Work::Lognormal { mean, sigma } => {
                mean * (sigma * rng.normal() - sigma * sigma / 2.0).exp()
            }
            Work::Pareto {
                shape,
                smallest,
                largest,
            } => {
                let cut = 1.0 - (smallest / largest).powf(shape);
                smallest * (1.0 - rng.unit() * cut).powf(-1.0 / shape)
            }
            Work::Two {
                small,
                large,
                chance,
            } => {
                if rng.unit() < chance {
                    large
                } else {
                    small
                }
            }
        }
    }
}
