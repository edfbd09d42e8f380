// SPDX-License-Identifier: Apache-2.0
//! From the noise of a pilot to the trials of an experiment, and what they are expected to reach.
//!
//! A trial costs its start, its warm-up and its length. Long trials average fast noise and waste
//! little on starts; short ones are near their neighbours in time, so that noise which lasts
//! cancels, and there are many of them, so that the t factor of few blocks is not paid. Which
//! weighs more is a matter of figures: every length of a list is tried, and the power of its
//! blocks compared.

use plimsoll_core::comparison::{StoppingRule, VerdictPolicy};
use plimsoll_core::design::BlockDesign;
use plimsoll_core::num::{floor_u64, to_usize};

use crate::pilot::PilotNoise;
use crate::power::{DifferenceTest, POWER, fewest_blocks};

/// Lengths of trials that are tried, in seconds.
const LENGTHS_S: [f64; 12] = [
    0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 60.0, 120.0,
];

/// Fewer blocks have too few arrangements, and too few values to estimate their deviation.
pub const BLOCKS_LEAST: usize = BlockDesign::BLOCKS_LEAST as usize;

/// More are never planned.
const BLOCKS_MOST: usize = 400;

/// An interval that is valid at any time is as wide as one of noise that is larger by this factor.
const ANYTIME_FACTOR: f64 = 1.35;

/// The goal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DesignGoal {
    /// To find a true effect of this fraction four times in five, in as little time as possible.
    Effect(f64),
    /// To find as small an effect as possible within this number of seconds.
    Budget(f64),
    /// To find the effect if the budget allows it, else as small a one as possible.
    EffectWithin {
        /// As a fraction.
        effect: f64,
        /// In seconds.
        budget_s: f64,
    },
}

impl DesignGoal {
    fn budget_s(self) -> f64 {
        match self {
            DesignGoal::Effect(_) => f64::INFINITY,
            DesignGoal::Budget(seconds) => seconds,
            DesignGoal::EffectWithin { budget_s, .. } => budget_s,
        }
    }

    fn effect(self) -> Option<f64> {
        match self {
            DesignGoal::Effect(effect) | DesignGoal::EffectWithin { effect, .. } => Some(effect),
            DesignGoal::Budget(_) => None,
        }
    }
}

/// The request for a design.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DesignRequest {
    /// The goal.
    pub goal: DesignGoal,
    /// Systems that are held against the base.
    pub arms: usize,
    /// Whether the base is entered a second time.
    pub has_control: bool,
    /// Workloads that every block plays; all are taken to be as noisy as the pilot's.
    pub workloads: usize,
    /// No trial is shorter, in seconds: a workload may need its time.
    pub shortest_s: f64,
    /// No trial is longer; the same as the shortest where the length is given.
    pub longest_s: f64,
    /// The number of blocks, where it is given.
    pub blocks: Option<usize>,
    /// Confidence, margin and how the blocks end.
    pub policy: VerdictPolicy,
}

impl DesignRequest {
    fn entries(&self) -> usize {
        1 + self.arms.max(1) + usize::from(self.has_control)
    }
}

/// In which order the entries of blocks come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialOrderKind {
    /// Each block in an order of its own.
    Randomized,
    /// Rows of Williams squares: every entry follows every other equally often.
    CarryOverBalanced,
}

/// The expected result of a design.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DesignForecast {
    /// Standard deviation of ln(arm ÷ base) of one block.
    pub deviation: f64,
    /// The smallest true effect that is found four times in five, as a fraction.
    pub detectable: Option<f64>,
    /// Probability that equal systems are found equivalent.
    pub equivalence_power: f64,
    /// Time for all blocks.
    pub seconds: f64,
}

/// Trials as they are to be run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialDesign {
    /// Time at the beginning of a trial that does not count.
    pub warmup_s: f64,
    /// Time that does.
    pub length_s: f64,
    /// Number of blocks.
    pub blocks: usize,
    /// Order within blocks.
    pub order: TrialOrderKind,
    /// The expected result.
    pub forecast: DesignForecast,
    /// Whether that is what was asked for.
    pub reaches_goal: bool,
}

impl TrialDesign {
    /// The best design; `None` when the budget is too short for [`BLOCKS_LEAST`] blocks of the
    /// shortest trials.
    pub fn from_pilot(noise: &PilotNoise, request: &DesignRequest) -> Option<TrialDesign> {
        let shortest = request.shortest_s.max(noise.step_s);
        let longer = LENGTHS_S
            .iter()
            .copied()
            .filter(|length| *length > shortest && *length <= request.longest_s);
        let lengths = std::iter::once(shortest).chain(longer);
        let designs: Vec<TrialDesign> = lengths
            .filter_map(|length| of_length(noise, request, length))
            .collect();
        let seconds = |design: &TrialDesign| design.forecast.seconds;
        let detectable = |design: &TrialDesign| design.forecast.detectable.unwrap_or(f64::INFINITY);
        let reaching = designs.iter().filter(|design| design.reaches_goal);
        let fastest = reaching.min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        let finest = designs
            .iter()
            .min_by(|a, b| detectable(a).total_cmp(&detectable(b)));
        match request.goal {
            DesignGoal::Budget(_) => finest.copied(),
            _ => fastest.or(finest).copied(),
        }
    }

    /// The expected result in a sentence, for before the first block.
    pub fn sentence(&self) -> String {
        let effect = match self.forecast.detectable {
            Some(effect) => format!("differences from {:.1} % on", 100.0 * effect),
            None => "no difference at all".into(),
        };
        format!(
            "{} blocks of trials of {} s ({} s of warm-up) should find {effect}, and equal systems \
             equivalent in {:.0} of 100 runs, within {:.0} s",
            self.blocks,
            self.length_s,
            self.warmup_s,
            100.0 * self.forecast.equivalence_power,
            self.forecast.seconds,
        )
    }
}

fn of_length(noise: &PilotNoise, request: &DesignRequest, length_s: f64) -> Option<TrialDesign> {
    let entries = request.entries();
    let trial_s = noise.startup_s + noise.warmup_s + length_s;
    let block_s = trial_s * (entries * request.workloads.max(1)) as f64;
    let base = if request.has_control { 2.0 } else { 1.0 };
    let variance = noise.trial_variance(length_s, entries) * (1.0 + 1.0 / base);
    let factor = match request.policy.stopping {
        StoppingRule::Anytime => ANYTIME_FACTOR,
        StoppingRule::Fixed | StoppingRule::TwoStage => 1.0,
    };
    let alpha = (1.0 - request.policy.confidence) / request.arms.max(1) as f64;
    let test = DifferenceTest {
        deviation: factor * variance.sqrt(),
        confidence: 1.0 - alpha,
        floor: 0.0,
    };
    let affordable = request.goal.budget_s() / block_s;
    let affordable = to_usize(floor_u64(affordable.min(BLOCKS_MOST as f64)));
    if affordable < BLOCKS_LEAST && request.blocks.is_none() {
        return None;
    }
    let found = |blocks: usize| {
        let effect = request.goal.effect().map(f64::ln_1p);
        effect.is_some_and(|effect| test.power(effect, blocks) >= POWER)
    };
    let needed = match request.blocks {
        Some(given) => Some(given).filter(|blocks| found(*blocks)),
        None => fewest_blocks(BLOCKS_LEAST, found).filter(|blocks| *blocks <= affordable),
    };
    let blocks = needed.or(request.blocks).unwrap_or(affordable).max(1);
    let equal = DifferenceTest {
        confidence: request.policy.confidence,
        ..test
    };
    let margin = request.policy.margin.max(0.0).ln_1p();
    Some(TrialDesign {
        warmup_s: noise.warmup_s,
        length_s,
        blocks,
        order: order(entries),
        forecast: DesignForecast {
            deviation: variance.sqrt(),
            detectable: test.detectable_fraction(blocks),
            equivalence_power: equal.equivalence_power(0.0, margin, blocks),
            seconds: block_s * blocks as f64,
        },
        reaches_goal: needed.is_some() || matches!(request.goal, DesignGoal::Budget(_)),
    })
}

/// With two entries either order is balanced soon enough, and free ones have more arrangements.
fn order(entries: usize) -> TrialOrderKind {
    if entries > 2 {
        TrialOrderKind::CarryOverBalanced
    } else {
        TrialOrderKind::Randomized
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(fast: f64, slow: f64, startup_s: f64) -> PilotNoise {
        PilotNoise {
            startup_s,
            warmup_s: 0.0,
            step_s: 0.5,
            fast,
            slow,
            memory_s: 10.0,
            per_trial: 0.0,
        }
    }

    fn request(goal: DesignGoal) -> DesignRequest {
        DesignRequest {
            goal,
            arms: 1,
            has_control: true,
            workloads: 1,
            shortest_s: 0.5,
            longest_s: f64::INFINITY,
            blocks: None,
            policy: VerdictPolicy::default(),
        }
    }

    fn designed(noise: &PilotNoise, goal: DesignGoal) -> TrialDesign {
        TrialDesign::from_pilot(noise, &request(goal)).unwrap()
    }

    #[test]
    fn lasting_noise_wants_short_trials_and_dear_starts_want_long_ones() {
        let budget = DesignGoal::Budget(600.0);
        let lasting = designed(&noise(0.0001, 0.04, 0.5), budget);
        assert!(lasting.length_s <= 2.0, "{lasting:?}");
        let dear = designed(&noise(0.04, 0.0, 10.0), budget);
        assert!(dear.length_s >= 12.0, "{dear:?}");
        assert!(lasting.forecast.seconds <= 600.0 && dear.forecast.seconds <= 600.0);
        let cheap = designed(&noise(0.04, 0.04, 0.1), budget);
        assert!(cheap.blocks > dear.blocks, "{cheap:?}");
    }

    #[test]
    fn an_effect_takes_the_time_that_it_needs() {
        let quiet = noise(0.0004, 0.0004, 0.5);
        let small = designed(&quiet, DesignGoal::Effect(0.01));
        let large = designed(&quiet, DesignGoal::Effect(0.1));
        assert!(small.reaches_goal && large.reaches_goal);
        assert!(small.forecast.seconds > large.forecast.seconds);
        assert!(small.forecast.detectable.unwrap() <= 0.0101, "{small:?}");
        assert_eq!(large.blocks, BLOCKS_LEAST);
    }

    #[test]
    fn what_cannot_be_reached_is_said_before() {
        let wild = noise(1.0, 1.0, 1.0);
        let goal = DesignGoal::EffectWithin {
            effect: 0.01,
            budget_s: 120.0,
        };
        let design = designed(&wild, goal);
        assert!(!design.reaches_goal, "{design:?}");
        assert!(design.forecast.seconds <= 120.0);
        assert!(design.sentence().contains("should find differences from"));
        let hopeless = request(DesignGoal::Budget(5.0));
        assert_eq!(TrialDesign::from_pilot(&wild, &hopeless), None);
    }

    #[test]
    fn what_is_given_stays_and_the_forecast_is_of_it() {
        let some = noise(0.01, 0.0, 0.5);
        let mut given = request(DesignGoal::Effect(0.05));
        (given.shortest_s, given.longest_s, given.blocks) = (4.0, 4.0, Some(8));
        let design = TrialDesign::from_pilot(&some, &given).unwrap();
        assert_eq!((design.length_s, design.blocks), (4.0, 8));
        assert!(!design.reaches_goal, "{design:?}");
        given.blocks = Some(200);
        let more = TrialDesign::from_pilot(&some, &given).unwrap();
        assert!(more.reaches_goal && more.forecast.detectable < design.forecast.detectable);
    }

    #[test]
    fn looks_at_any_time_cost_blocks() {
        let some = noise(0.01, 0.0, 0.5);
        let mut anytime = request(DesignGoal::Effect(0.05));
        anytime.policy.stopping = StoppingRule::Anytime;
        let anytime = TrialDesign::from_pilot(&some, &anytime).unwrap();
        let fixed = designed(&some, DesignGoal::Effect(0.05));
        assert!(anytime.forecast.seconds > fixed.forecast.seconds);
    }
}
