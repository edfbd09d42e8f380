// SPDX-License-Identifier: Apache-2.0
//! Simulated storage systems whose load line is known, second by second.
//!
//! Every second has a median response time: a law of the multiple (a knee as of queues, a cliff, or a
//! knee whose capacity falls when credits are used up), a queue of what was not served, noise that
//! remembers (AR(1)), an effect of the trial, drift of the capacity, and bursts in which others take
//! the processor. Operations scatter around it lognormally, and those beyond a limit are counted.

use plimsoll_core::load_line::{LoadLineBatch, LoadLineReading, LoadLineRequest};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_stats::load_line::{LoadLineLimit, LoadLineMeasure, LoadLineOptions, LoadLineTrial};

/// Pause between two trials, in which credits come back.
const PAUSE_S: f64 = 1.0;

/// Stays of which half must be carried at the edge.
const STAYS: u64 = 99;

const Z99: f64 = 2.326_348;

/// Kind of system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SystemKind {
    Knee,
    Cliff,
    Credits,
}

impl SystemKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            SystemKind::Knee => "knee",
            SystemKind::Cliff => "cliff",
            SystemKind::Credits => "credits",
        }
    }
}

/// Fixed properties of a system. Times are logarithms of ratios to the unloaded median.
#[derive(Debug, Clone)]
pub(crate) struct SystemLaw {
    pub(crate) kind: SystemKind,
    pub(crate) has_steal: bool,
    pub(crate) has_drift: bool,
    pub(crate) has_memory: bool,
    capacity: f64,
    /// Of a system with credits: what is left without.
    throttled: f64,
    bucket: f64,
    knee: f64,
    sharpness: f64,
    cliff: f64,
    jump: f64,
    incline: f64,
    wave: f64,
    spread: f64,
    limit_p99: f64,
    limit_p50: Option<f64>,
    rate: f64,
    noise: f64,
    memory: f64,
    trial_noise: f64,
    drift: f64,
    drift_period: f64,
    drift_phase: f64,
    steal_gap: f64,
    steal_length: f64,
    steal_factor: f64,
    /// Unloaded median, in seconds.
    base_s: f64,
}

fn between(rng: &mut Rng, low: f64, high: f64) -> f64 {
    low + (high - low) * rng.unit()
}

impl SystemLaw {
    /// The system of a seed; with credits only where they are asked for.
    fn drawn(seed: Seed, with_credits: bool) -> SystemLaw {
        let mut rng = Rng::new(seed);
        let kind = match rng.below(if with_credits { 10 } else { 7 }) {
            0..=4 => SystemKind::Knee,
            5..=6 => SystemKind::Cliff,
            _ => SystemKind::Credits,
        };
        let mut law = SystemLaw::quiet(kind, &mut rng);
        law.disturb(&mut rng);
        law
    }

    fn quiet(kind: SystemKind, rng: &mut Rng) -> SystemLaw {
        let capacity = between(rng, 0.15f64.ln(), 7f64.ln()).exp();
        let spread = between(rng, 0.25, 0.7);
        let (knee, sharpness) = (between(rng, 0.5, 1.5), between(rng, 0.0, 2.5).exp());
        let is_cliff = kind == SystemKind::Cliff;
        let room = between(rng, 0.2, 1.0);
        let load = between(rng, 0.5, 0.97);
        let limit = if is_cliff {
            room
        } else {
            -knee * (1.0 - load.powf(sharpness)).ln()
        };
        let limit = limit.max(0.15);
        let throttled = capacity * load / between(rng, 1.3, 4.0);
        let limit_p50 = (rng.below(4) == 0).then(|| limit + between(rng, -0.2, 0.5));
        SystemLaw {
            kind,
            has_steal: false,
            has_drift: false,
            has_memory: false,
            capacity: if is_cliff { 1.6 * capacity } else { capacity },
            throttled,
            bucket: throttled * between(rng, 6f64.ln(), 120f64.ln()).exp(),
            knee: if is_cliff { 0.0 } else { knee },
            sharpness,
            cliff: capacity,
            jump: if is_cliff {
                room + between(rng, 0.5, 3.0)
            } else {
                0.0
            },
            incline: if is_cliff {
                between(rng, 0.0, 0.15)
            } else {
                0.0
            },
            wave: between(rng, 0.0, 0.05),
            spread,
            limit_p99: limit + Z99 * spread,
            limit_p50,
            rate: between(rng, 200f64.ln(), 20_000f64.ln()).exp(),
            noise: 0.0,
            memory: 0.0,
            trial_noise: 0.0,
            drift: 0.0,
            drift_period: 1.0,
            drift_phase: 0.0,
            steal_gap: f64::INFINITY,
            steal_length: 1.0,
            steal_factor: 1.0,
            base_s: between(rng, 1e-4f64.ln(), 1e-2f64.ln()).exp(),
        }
    }

    fn disturb(&mut self, rng: &mut Rng) {
        self.noise = between(rng, 0.02f64.ln(), 0.3f64.ln()).exp();
        self.has_memory = rng.below(2) == 0;
        self.memory = if self.has_memory {
            between(rng, 0.5, 0.97)
        } else {
            0.0
        };
        self.trial_noise = between(rng, 0.01f64.ln(), 0.1f64.ln()).exp();
        self.has_drift = rng.below(10) < 4;
        if self.has_drift {
            self.drift = between(rng, 0.005, 0.03);
            self.drift_period = between(rng, 1_800.0, 14_400.0);
            self.drift_phase = between(rng, 0.0, std::f64::consts::TAU);
        }
        self.has_steal = rng.below(10) < 3;
        if self.has_steal {
            self.steal_gap = between(rng, 1_200f64.ln(), 10_800f64.ln()).exp();
            self.steal_length = between(rng, 1.0, 3.0);
            self.steal_factor = between(rng, 3.0, 12.0);
        }
    }

    /// Limits that the searches look at.
    pub(crate) fn limits(&self) -> Vec<LoadLineLimit> {
        let p99 = LoadLineLimit {
            name: "p99".into(),
            measure: LoadLineMeasure::Share(0.01),
        };
        let p50 = LoadLineLimit {
            name: "p50".into(),
            measure: LoadLineMeasure::Share(0.5),
        };
        let mut limits = vec![p99];
        limits.extend(self.limit_p50.map(|_| p50));
        limits
    }

    /// By limit, and the share of operations that may be beyond it.
    fn thresholds(&self) -> Vec<f64> {
        let mut thresholds = vec![self.limit_p99];
        thresholds.extend(self.limit_p50);
        thresholds
    }

    fn drift_at(&self, clock: f64) -> f64 {
        let angle = std::f64::consts::TAU * clock / self.drift_period + self.drift_phase;
        self.drift * angle.sin()
    }

    /// ln of the edge without drift and without credits: where half of long stays keep all limits.
    fn edge(&self, seed: u64, stay_s: f64) -> f64 {
        let (mut low, mut high) = ((1.0f64 / 64.0).ln(), 64f64.ln());
        // 13 halvings of 8.3 leave 0.001.
        for _ in 0..13 {
            let middle = f64::midpoint(low, high);
            if self.carries(middle.exp(), stay_s, seed) {
                low = middle;
            } else {
                high = middle;
            }
        }
        f64::midpoint(low, high)
    }

    fn carries(&self, multiple: f64, stay_s: f64, seed: u64) -> bool {
        let mut still = self.clone();
        still.drift = 0.0;
        let (mut yes, mut no) = (0, 0);
        for stay in 0..STAYS {
            let mut system = SimulatedSystem::of(still.clone(), Seed(seed).derive("edge", stay).0);
            system.credits = 0.0;
            // Effects of trials in equal steps of probability: their median is exactly that of all.
            system.effect = still.trial_noise * normal_quantile((stay as f64 + 0.5) / STAYS as f64);
            if system.play_on(multiple, stay_s).is_carried(&self.limits()) {
                yes += 1;
            } else {
                no += 1;
            }
            if 2 * yes.max(no) > STAYS {
                break;
            }
        }
        yes > no
    }
}

/// Counts of one trial.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedTrial {
    pub(crate) readings: Vec<LoadLineReading>,
    pub(crate) served: f64,
    pub(crate) backlog_grew: bool,
}

impl SimulatedTrial {
    /// As a search that looks at whole trials sees it.
    pub(crate) fn is_carried(&self, limits: &[LoadLineLimit]) -> bool {
        self.excess(limits) <= 1.0
    }

    /// The largest share beyond a limit, as a multiple of what is allowed.
    pub(crate) fn excess(&self, limits: &[LoadLineLimit]) -> f64 {
        let both = limits.iter().zip(&self.readings);
        both.map(|(limit, reading)| {
            let sum = |of: fn(&LoadLineBatch) -> f64| reading.batches.iter().map(of).sum::<f64>();
            let LoadLineMeasure::Share(allowed) = limit.measure else {
                return 0.0;
            };
            sum(|batch| batch.amount) / sum(|batch| batch.operations).max(1.0) / allowed
        })
        .fold(0.0, f64::max)
    }

    pub(crate) fn answer(self, request: LoadLineRequest) -> LoadLineTrial {
        LoadLineTrial {
            request,
            readings: self.readings,
            served: self.served,
            backlog_grew: self.backlog_grew,
            is_void: false,
        }
    }
}

/// A system and its edge without drift.
#[derive(Debug, Clone)]
pub(crate) struct KnownSystem {
    pub(crate) law: SystemLaw,
    /// ln of the multiple.
    pub(crate) edge: f64,
}

impl KnownSystem {
    /// The system of a seed: the first one drawn whose edge is in the range that is searched.
    pub(crate) fn of(seed: u64, stay_s: f64) -> KnownSystem {
        let range = LoadLineOptions::default();
        let mut draw = 0;
        loop {
            let from = Seed(seed).derive("law", draw);
            // In a short stay credits that last longer cannot be told from capacity.
            let law = SystemLaw::drawn(from, stay_s > 300.0);
            let edge = law.edge(from.0, stay_s);
            if edge > range.smallest.ln() + 0.1 && edge < range.largest.ln() - 0.1 {
                return KnownSystem { law, edge };
            }
            draw += 1;
        }
    }
}

/// A system at work.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedSystem {
    pub(crate) law: SystemLaw,
    rng: Rng,
    clock: f64,
    credits: f64,
    queue: f64,
    noise: f64,
    effect: f64,
    steal_left: f64,
    played_s: f64,
    drift_sum: f64,
}

impl SimulatedSystem {
    pub(crate) fn of(law: SystemLaw, seed: u64) -> SimulatedSystem {
        let mut rng = Rng::new(Seed(seed).derive("noise", 0));
        let noise = law.noise * rng.normal();
        SimulatedSystem {
            credits: law.bucket,
            law,
            rng,
            clock: 0.0,
            queue: 0.0,
            noise,
            effect: 0.0,
            steal_left: 0.0,
            played_s: 0.0,
            drift_sum: 0.0,
        }
    }

    /// Mean drift of ln capacity while trials ran: the edge of that time is higher by this amount.
    pub(crate) fn mean_drift(&self) -> f64 {
        if self.played_s > 0.0 {
            self.drift_sum / self.played_s
        } else {
            0.0
        }
    }

    /// Plays a trial.
    pub(crate) fn play(&mut self, multiple: f64, seconds: f64) -> SimulatedTrial {
        self.pause();
        self.play_on(multiple, seconds)
    }

    /// Goes on with a trial.
    pub(crate) fn play_on(&mut self, multiple: f64, seconds: f64) -> SimulatedTrial {
        let effect = self.effect;
        let thresholds = self.law.thresholds();
        let mut readings = vec![LoadLineReading::default(); thresholds.len()];
        let (mut due, mut ended, mut before) = (0.0, 0.0, 0.0);
        let whole = seconds.round().max(1.0);
        let mut second = 0.0;
        while second < whole {
            let queue = self.queue;
            let median = self.second(multiple) + effect;
            if second >= (whole / 2.0).floor() {
                before = if due > 0.0 { before } else { queue };
                due += multiple;
                ended += (multiple + queue - self.queue).max(0.0);
            }
            let operations = (multiple * self.law.rate).round().max(1.0);
            for (reading, threshold) in readings.iter_mut().zip(&thresholds) {
                let share = upper_tail((threshold - median) / self.law.spread);
                reading.batches.push(LoadLineBatch {
                    operations,
                    amount: self.count(operations, share),
                });
            }
            second += 1.0;
        }
        SimulatedTrial {
            readings,
            served: (ended / due).min(1.0),
            backlog_grew: self.queue - before > 0.01 * due,
        }
    }

    /// Requests that were not served end between trials.
    fn pause(&mut self) {
        self.effect = self.law.trial_noise * self.rng.normal();
        self.queue = 0.0;
        self.credits = (self.credits + self.law.throttled * PAUSE_S).min(self.law.bucket);
        self.clock += PAUSE_S;
    }

    /// ln of the median response time in the next second.
    fn second(&mut self, multiple: f64) -> f64 {
        let law = &self.law;
        self.clock += 1.0;
        let drift = law.drift_at(self.clock);
        self.played_s += 1.0;
        self.drift_sum += drift;
        let fresh = (1.0 - law.memory * law.memory).sqrt() * law.noise;
        self.noise = law.memory * self.noise + fresh * self.rng.normal();
        let steals = self.steals();
        let slowed = if steals { 0.6 } else { 1.0 };
        let capacity = self.capacity(multiple) * drift.exp();
        let law = &self.law;
        self.queue = (self.queue + multiple - capacity * slowed).max(0.0);
        let load = (multiple / capacity).min(0.995);
        let knee = -law.knee * (1.0 - load.powf(law.sharpness)).ln();
        let place = (multiple / law.cliff).ln() - drift;
        let over = if place > 0.0 { law.jump } else { 0.0 };
        let wave = law.wave * (3.0 * multiple.ln()).sin();
        let steal = if steals { law.steal_factor.ln() } else { 0.0 };
        let own = knee + over + law.incline * place + wave + self.noise + steal;
        (own.exp() + self.queue / capacity / law.base_s).ln()
    }

    /// Spends or fills credits; gives what can be served now.
    fn capacity(&mut self, multiple: f64) -> f64 {
        if self.law.kind != SystemKind::Credits {
            return self.law.capacity;
        }
        let change = self.law.throttled - multiple;
        self.credits = (self.credits + change).clamp(0.0, self.law.bucket);
        if self.credits > 0.0 {
            self.law.capacity
        } else {
            self.law.throttled
        }
    }

    fn steals(&mut self) -> bool {
        if self.steal_left <= 0.0 && self.rng.unit() < 1.0 / self.law.steal_gap {
            self.steal_left = self.law.steal_length;
        }
        self.steal_left -= 1.0;
        self.steal_left > -1.0
    }

    fn count(&mut self, operations: f64, share: f64) -> f64 {
        let mean = operations * share;
        if mean > 30.0 && operations - mean > 30.0 {
            let deviation = (mean * (1.0 - share)).sqrt();
            return (mean + deviation * self.rng.normal())
                .round()
                .clamp(0.0, operations);
        }
        if operations - mean <= 30.0 && mean > 30.0 {
            return (operations - self.few(operations - mean)).max(0.0);
        }
        self.few(mean).min(operations)
    }

    /// Poisson, by gaps.
    fn few(&mut self, mean: f64) -> f64 {
        let (mut count, mut sum) = (0.0, self.rng.exponential(1.0));
        while sum < mean {
            count += 1.0;
            sum += self.rng.exponential(1.0);
        }
        count
    }
}

fn normal_quantile(probability: f64) -> f64 {
    spec_math::cephes64::ndtri(probability)
}

fn upper_tail(z: f64) -> f64 {
    spec_math::cephes64::ndtr(-z)
}
