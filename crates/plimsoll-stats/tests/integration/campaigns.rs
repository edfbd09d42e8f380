// SPDX-License-Identifier: Apache-2.0
//! Campaigns by laws of their own, which no part of the product knows: what its verdicts are held against.
//!
//! Trials follow each other in time, in the order that the product would run them. What disturbs them depends
//! on the time, on what ran before, and on the system; the truth is a formula of the parameters. Half of the
//! laws are for choosing constants, half for the figures of docs/results/2026-11-verdicts.md:
//!
//!     LAW=stalls cargo nextest run -p plimsoll-stats --run-ignored only --no-capture table_of_campaigns
//!
//! `LAW` is a word of the names of laws, to play these alone; `CAMPAIGNS` how many for each number of blocks.

use plimsoll_core::comparison::{
    ArmComparison, ComparisonMetric, ComparisonVerdict, StoppingRule, VerdictPolicy,
};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_stats::carryover::balanced_orders;
use plimsoll_stats::stopping::{StoppingPlan, StoppingStep};
use plimsoll_stats::{ArmValues, compare};

/// Time of a whole trial, in seconds.
const TRIAL_S: f64 = 1.5;

/// Blocks at most where a campaign may end before.
const BLOCKS_MAX: usize = 40;

/// The noise that all systems meet.
#[derive(Clone, Copy)]
enum Noise {
    /// Independent and normal, of this deviation.
    Normal(f64),
    /// Student's t with two degrees of freedom, times this: it has no variance.
    Tails(f64),
    /// Remembers nine tenths of the trial before; in all of this deviation, by innovations with or without
    /// the tails of Student's t.
    Lasting(f64, bool),
    /// Everything slows down by this in a minute, beside independent noise.
    Drift(f64),
    /// Another job: 20 of 60 seconds everything takes this much longer, beside independent noise.
    Neighbour(f64),
}

/// Effect of the trials of the arm on those that follow.
#[derive(Clone, Copy)]
struct Wake {
    /// ln of what the very next one takes longer.
    next: f64,
    /// How much of it the one after that still feels.
    kept: f64,
    /// Whether the arm feels it itself, or only the base does.
    on_itself: bool,
}

const CALM: Wake = Wake {
    next: 0.0,
    kept: 0.0,
    on_itself: true,
};

/// A campaign of a base, its control and an arm.
#[derive(Clone, Copy)]
struct Law {
    name: &'static str,
    noise: Noise,
    /// How many times as much the arm scatters by itself as the base.
    arm_noise: f64,
    wake: Wake,
    /// Factor on the time of the arm in one of ten of its trials; 1 where it does not stall.
    stall: f64,
}

const fn law(name: &'static str, noise: Noise) -> Law {
    Law {
        name,
        noise,
        arm_noise: 1.0,
        wake: CALM,
        stall: 1.0,
    }
}

const fn with_wake(name: &'static str, next: f64, kept: f64, on_itself: bool) -> Law {
    Law {
        wake: Wake {
            next,
            kept,
            on_itself,
        },
        ..law(name, Noise::Normal(0.05))
    }
}

/// Constants of the product were chosen by these.
const CHOOSE: [Law; 10] = [
    law("independent 5 %", Noise::Normal(0.05)),
    law("tails of t2", Noise::Tails(0.03)),
    law("drift of 5 % a minute", Noise::Drift(0.05)),
    with_wake("next trial after the arm +5 %", 0.05, 0.0, true),
    with_wake("after the arm +20 %, then +10 %", 0.18, 0.5, true),
    with_wake("only the base, after the arm +10 %", 0.0953, 0.0, false),
    Law {
        stall: 2.0,
        ..law("arm stalls ×2", Noise::Normal(0.03))
    },
    Law {
        arm_noise: 3.0,
        ..law("arm scatters ×3", Noise::Normal(0.05))
    },
    Law {
        noise: Noise::Drift(0.05),
        ..with_wake("after the arm +10 %, drift", 0.0953, 0.0, true)
    },
    Law {
        arm_noise: 2.0,
        ..law("arm scatters ×2, tails", Noise::Tails(0.03))
    },
];

/// Figures come from these.
const JUDGE: [Law; 14] = [
    law("independent 3 %", Noise::Normal(0.03)),
    law("lasting (0.9)", Noise::Lasting(0.1, false)),
    law("lasting (0.9), tails of t2", Noise::Lasting(0.1, true)),
    law("20 s of 60 s +30 %", Noise::Neighbour(0.26)),
    with_wake("next trial after the arm +3 %", 0.03, 0.0, true),
    with_wake("next trial after the arm +10 %", 0.0953, 0.0, true),
    with_wake("after the arm +15 %, then +4 %", 0.14, 0.3, true),
    with_wake("only the base, after the arm +20 %", 0.18, 0.0, false),
    Law {
        arm_noise: 2.0,
        ..law("arm scatters ×2", Noise::Normal(0.05))
    },
    Law {
        arm_noise: 5.0,
        ..law("arm scatters ×5", Noise::Normal(0.02))
    },
    Law {
        arm_noise: 2.0,
        ..with_wake("after the arm +10 %, scatters ×2", 0.0953, 0.0, true)
    },
    Law {
        stall: 1.5,
        ..law("arm stalls ×1.5", Noise::Normal(0.03))
    },
    Law {
        stall: 3.0,
        ..law("arm stalls ×3", Noise::Normal(0.03))
    },
    Law {
        stall: 2.0,
        noise: Noise::Normal(0.03),
        ..with_wake("arm stalls ×2, next trial +10 %", 0.0953, 0.0, true)
    },
];

impl Law {
    /// ln of the true ratio of mean times, where ordinary trials differ by `effect`.
    fn truth(&self, effect: f64) -> f64 {
        effect + (0.9 + 0.1 * self.stall).ln()
    }

    fn campaign(&self, blocks: usize, effect: f64, seed: Seed) -> Vec<ArmValues> {
        let mut rng = Rng::new(seed);
        let names = [("a", None), ("b", None), ("a again", Some("a"))];
        let mut arms = names.map(|(name, of): (&str, Option<&str>)| ArmValues {
            name: name.into(),
            control_of: of.map(Into::into),
            values: Vec::new(),
            places: Vec::new(),
        });
        let (mut memory, phase) = (rng.normal(), 60.0 * rng.unit());
        // Trials since the arm ran.
        let mut since = usize::MAX;
        let (mut now, mut place) = (0.0, 0);
        for order in balanced_orders(3, blocks, Seed(seed.0 ^ 0x5eed)) {
            for entry in order {
                let is_arm = entry == 1;
                let shared = self.shared(now + phase, &mut memory, &mut rng);
                let own = self.own(is_arm, &mut rng);
                let wake = self.left_behind(is_arm, since);
                let stalls = is_arm && rng.unit() < 0.1;
                let stall = if stalls { self.stall.ln() } else { 0.0 };
                let effect = if is_arm { effect } else { 0.0 };
                let log = 14.0 + shared + own + wake + stall + effect;
                arms[entry].values.push(Some(log.exp()));
                arms[entry].places.push(Some(place));
                place += 1;
                since = if is_arm { 0 } else { since.saturating_add(1) };
                now += TRIAL_S;
            }
        }
        arms.into()
    }

    fn shared(&self, at: f64, memory: &mut f64, rng: &mut Rng) -> f64 {
        match self.noise {
            Noise::Lasting(deviation, has_tails) => {
                let fresh = if has_tails {
                    t2(rng) / 2.5
                } else {
                    rng.normal()
                };
                *memory = 0.9 * *memory + 0.19f64.sqrt() * fresh;
                deviation * *memory
            }
            Noise::Drift(a_minute) => a_minute * at / 60.0,
            Noise::Neighbour(height) if at % 60.0 < 20.0 => height,
            _ => 0.0,
        }
    }

    fn own(&self, is_arm: bool, rng: &mut Rng) -> f64 {
        let own = match self.noise {
            Noise::Normal(deviation) => deviation * rng.normal(),
            Noise::Tails(scale) => scale * t2(rng),
            Noise::Lasting(..) => 0.01 * rng.normal(),
            Noise::Drift(_) | Noise::Neighbour(_) => 0.04 * rng.normal(),
        };
        own * if is_arm { self.arm_noise } else { 1.0 }
    }

    fn left_behind(&self, is_arm: bool, since: usize) -> f64 {
        if is_arm && !self.wake.on_itself {
            return 0.0;
        }
        match since {
            0 => self.wake.next,
            1 => self.wake.next * self.wake.kept,
            2 => self.wake.next * self.wake.kept.powi(2),
            _ => 0.0,
        }
    }
}

/// A normal over the root of half of a χ² with two degrees of freedom, which is exponential.
fn t2(rng: &mut Rng) -> f64 {
    rng.normal() / rng.exponential(1.0).max(1e-12).sqrt()
}

fn first(arms: &[ArmValues], blocks: usize) -> Vec<ArmValues> {
    let cut = |arm: &ArmValues| ArmValues {
        values: arm.values[..blocks].to_vec(),
        places: arm.places[..blocks].to_vec(),
        ..arm.clone()
    };
    arms.iter().map(cut).collect()
}

fn judged(arms: &[ArmValues], stopping: StoppingRule) -> ArmComparison {
    let policy = VerdictPolicy {
        stopping,
        ..VerdictPolicy::default()
    };
    compare("w", ComparisonMetric::MeanResponse, arms, &policy).swap_remove(0)
}

/// The verdict of a campaign that ends as the rule says, and with how many blocks.
fn carried_out(all: &[ArmValues], stopping: StoppingRule) -> (ArmComparison, usize) {
    let plan = StoppingPlan {
        policy: VerdictPolicy {
            stopping,
            ..VerdictPolicy::default()
        },
        pilot_blocks: 6,
        effect: 0.1,
        blocks_max: all[0].values.len(),
    };
    let mut done = 0;
    loop {
        let seen = first(all, done);
        let until = match plan.after(done, std::slice::from_ref(&seen)) {
            StoppingStep::Continue { until } => until,
            StoppingStep::Stop(_) => {
                let row = judged(&seen, stopping);
                let goes_on =
                    row.verdict == ComparisonVerdict::Inconclusive && done < plan.blocks_max;
                if !goes_on {
                    return (row, done);
                }
                match stopping {
                    StoppingRule::Anytime => done + 1,
                    StoppingRule::Fixed | StoppingRule::TwoStage => plan.blocks_max,
                }
            }
        };
        done = until;
    }
}

/// How a campaign ends.
#[derive(Clone, Copy)]
enum End {
    Fixed(usize),
    By(StoppingRule),
}

/// Outcomes of campaigns, in percent.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    different: f64,
    equivalent: f64,
    covered: f64,
    blocks: f64,
}

fn rates(law: &Law, effect: f64, end: End, campaigns: u64) -> Rates {
    let mut rates = Rates::default();
    let share = 1.0 / campaigns as f64;
    for number in 0..campaigns {
        let seed = Seed(number).derive(law.name, 7);
        let (row, blocks) = match end {
            End::Fixed(blocks) => {
                let arms = law.campaign(blocks, effect, seed);
                (judged(&arms, StoppingRule::Fixed), blocks)
            }
            End::By(rule) => carried_out(&law.campaign(BLOCKS_MAX, effect, seed), rule),
        };
        let holds = row
            .ratio
            .is_some_and(|ratio| (ratio.low..=ratio.high).contains(&effect.exp()));
        let is = |verdict| {
            if row.verdict == verdict {
                100.0 * share
            } else {
                0.0
            }
        };
        rates.different += is(ComparisonVerdict::Different);
        rates.equivalent += is(ComparisonVerdict::Equivalent);
        rates.covered += if holds { 100.0 * share } else { 0.0 };
        rates.blocks += blocks as f64 * share;
    }
    rates
}

const ENDS: [End; 5] = [
    End::Fixed(6),
    End::Fixed(12),
    End::Fixed(30),
    End::By(StoppingRule::TwoStage),
    End::By(StoppingRule::Anytime),
];

fn table(laws: &[Law], campaigns: u64) {
    let row = |of: &[Rates; 5], what: fn(&Rates) -> f64| {
        let each = of.each_ref().map(|one| format!("{:.1}", what(one)));
        each.join(" / ")
    };
    let print = |line: String| {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    };
    print(
        "| law | equal: different | equivalent | interval holds | +10 %: different | blocks |\n"
            .into(),
    );
    let of_asked = std::env::var("CAMPAIGNS")
        .ok()
        .and_then(|count| count.parse().ok());
    let campaigns = of_asked.unwrap_or(campaigns);
    // Where a campaign may end is looked for block by block, which takes its time.
    let of = |end: End| match end {
        End::Fixed(_) => campaigns,
        End::By(_) => campaigns / 5,
    };
    let asked = std::env::var("LAW").unwrap_or_default();
    for law in laws.iter().filter(|law| law.name.contains(&asked)) {
        let equal = ENDS.map(|end| rates(law, 0.0, end, of(end)));
        let tenth = ENDS.map(|end| rates(law, 1.1f64.ln(), end, of(end)));
        print(format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            law.name,
            row(&equal, |one| one.different),
            row(&equal, |one| one.equivalent),
            row(&equal, |one| one.covered),
            row(&tenth, |one| one.different),
            row(&tenth, |one| one.blocks),
        ));
    }
}

#[test]
#[ignore = "minutes; prints a table"]
fn table_of_campaigns_to_choose_by() {
    table(&CHOOSE, 300);
}

#[test]
#[ignore = "minutes; prints a table"]
fn table_of_campaigns_to_judge_by() {
    table(&JUDGE, 500);
}

/// The laws are what their names say.
#[test]
fn campaigns_have_the_means_of_their_formulas() {
    let mean = |values: &[Option<f64>], power: f64| {
        let sum: f64 = values.iter().flatten().map(|v| v.powf(power)).sum();
        sum / values.len() as f64
    };
    let stalls = CHOOSE[6].campaign(6000, 0.0, Seed(1));
    let ratio = mean(&stalls[1].values, 1.0) / mean(&stalls[0].values, 1.0);
    assert!((ratio.ln() - CHOOSE[6].truth(0.0)).abs() < 0.01, "{ratio}");
    // Of the base four ninths of the trials follow the arm, of the arm one ninth.
    let wake = CHOOSE[3].campaign(6000, 0.0, Seed(1));
    let log = |arm: &ArmValues| {
        let logs = arm.values.iter().flatten().map(|value| value.ln());
        logs.sum::<f64>() / arm.values.len() as f64
    };
    let bias = log(&wake[1]) - log(&wake[0]);
    assert!((bias + 0.05 / 3.0).abs() < 0.004, "{bias}");
    assert!((log(&wake[2]) - log(&wake[0])).abs() < 0.004);
}

/// The promise and three standard errors of so few campaigns: carry-over, and an arm that scatters, included.
#[test]
fn equal_systems_are_called_different_in_one_campaign_of_twenty() {
    let most = 5.0 + 3.0 * 2.8;
    for law in &JUDGE[4..11] {
        let rates = rates(law, 0.0, End::Fixed(8), 60);
        assert!(rates.different <= most, "{}: {rates:?}", law.name);
        assert!(rates.covered >= 100.0 - most, "{}: {rates:?}", law.name);
    }
    let at_any_time = rates(&JUDGE[5], 0.0, End::By(StoppingRule::Anytime), 20);
    assert!(at_any_time.different <= 5.0 + 3.0 * 4.9, "{at_any_time:?}");
}

/// Of thirty trials one at least stalls in 96 of 100 campaigns.
#[test]
fn a_system_that_stalls_itself_is_not_called_equivalent() {
    for law in JUDGE.iter().filter(|law| law.stall > 1.0) {
        assert!(law.truth(0.0) > 0.048, "{}", law.name);
        let rates = rates(law, 0.0, End::Fixed(30), 60);
        assert!(
            rates.equivalent <= 4.2 + 3.0 * 2.6,
            "{}: {rates:?}",
            law.name
        );
    }
}

#[test]
fn a_tenth_is_found_in_most_campaigns() {
    for (law, least) in [(&JUDGE[0], 90.0), (&JUDGE[4], 50.0), (&JUDGE[1], 70.0)] {
        let rates = rates(law, 1.1f64.ln(), End::Fixed(8), 30);
        assert!(rates.different >= least, "{}: {rates:?}", law.name);
    }
}
