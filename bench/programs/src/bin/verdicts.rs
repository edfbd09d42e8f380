// SPDX-License-Identifier: Apache-2.0
//! Operating characteristics of verdicts: how often they are wrong, and how often they are reached.
//!
//!     cargo run --release -p plimsoll-measurements --bin verdicts -- alarms|stages|anytime|power|covariate
//!
//! `power` takes a word of the machines' names, to play these alone.
//!
//! Everything is drawn from fixed seeds; the tables of docs/results/2026-11-verdicts.md come from here.
#![allow(clippy::print_stdout, reason = "printing tables is what it is for")]

use plimsoll_core::comparison::{
    ArmComparison, ComparisonMetric, ComparisonVerdict, StoppingRule, VerdictPolicy,
};
use plimsoll_core::num::{floor_u64, to_usize};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_measurements::covariate::adjusted;
use plimsoll_measurements::noise::{NoiseLaw, SimulatedCampaign};
use plimsoll_measurements::timelines::{MachineNoise, MachineTimeline, TimelineSchedule};
use plimsoll_stats::anytime::stakes;
use plimsoll_stats::arrangement::BlockLogValues;
use plimsoll_stats::design::{DesignGoal, DesignRequest, TrialDesign};
use plimsoll_stats::paired::PairedLogRatioStats;
use plimsoll_stats::pilot::PilotNoise;
use plimsoll_stats::stopping::{StoppingPlan, StoppingReason, StoppingStep};
use plimsoll_stats::{ArmValues, compare};

/// Mean response times of half seconds on a noisy virtual machine, in µs: reads, synced writes.
const RECORDED: &str = include_str!("../../../2026-11-23-noise.csv");

/// A planted difference of ten percent.
const TENTH: f64 = 0.095_310_18;

fn main() {
    let asked = std::env::args().nth(1).unwrap_or_default();
    match asked.as_str() {
        "alarms" => alarms(),
        "stages" => stages(),
        "anytime" => anytime(),
        "power" => power(),
        "covariate" => covariate(),
        _ => println!("give one of: alarms, stages, anytime, power, covariate"),
    }
}

fn policy(stopping: StoppingRule) -> VerdictPolicy {
    VerdictPolicy {
        stopping,
        ..VerdictPolicy::default()
    }
}

fn judged(arms: &[ArmValues], policy: &VerdictPolicy) -> Vec<ArmComparison> {
    compare("w", ComparisonMetric::MeanResponse, arms, policy)
}

fn is_different(row: &ArmComparison) -> bool {
    row.verdict == ComparisonVerdict::Different
}

/// Whether any arm of the family that is no control is called different.
fn any_different(rows: &[ArmComparison]) -> bool {
    rows.iter().any(|row| !row.is_control && is_different(row))
}

fn holds(row: &ArmComparison, effect: f64) -> bool {
    row.ratio
        .is_some_and(|r| r.low <= effect.exp() && effect.exp() <= r.high)
}

fn percent(hits: usize, of: usize) -> f64 {
    100.0 * hits as f64 / of as f64
}

/// Equal systems called different, and intervals that hold the truth.
fn alarms() {
    let runs = 1_000;
    println!(
        "| law | blocks | arms | false alarms | coverage | control different | called equivalent at the margin |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let laws = NoiseLaw::ALL.into_iter().chain([NoiseLaw::NoisyArm]);
    for (number, law) in laws.enumerate() {
        let (mut all_alarms, mut all_covered) = (0, 0);
        for (blocks, arms) in [(5, 1), (8, 1), (15, 1), (8, 3)] {
            let seed = Seed(100 + number as u64).derive("alarms", blocks as u64 * 10 + arms as u64);
            let mut rng = Rng::new(seed);
            let mut campaign = SimulatedCampaign {
                law,
                blocks,
                arms,
                has_control: true,
                effect: 0.0,
            };
            let (mut false_alarms, mut covered, mut off, mut close) = (0, 0, 0, 0);
            for _ in 0..runs {
                campaign.effect = 0.0;
                let rows = judged(&campaign.draw(&mut rng), &VerdictPolicy::default());
                false_alarms += usize::from(any_different(&rows));
                off += usize::from(rows.iter().any(|row| row.is_control && is_different(row)));
                campaign.effect = TENTH;
                let rows = judged(&campaign.draw(&mut rng), &VerdictPolicy::default());
                covered += usize::from(holds(&rows[0], TENTH));
                campaign.effect = 0.05f64.ln_1p();
                let rows = judged(&campaign.draw(&mut rng), &VerdictPolicy::default());
                close += usize::from(rows[0].verdict == ComparisonVerdict::Equivalent);
            }
            (all_alarms, all_covered) = (all_alarms + false_alarms, all_covered + covered);
            println!(
                "| {law:?} | {blocks} | {arms} | {:.1} % | {:.1} % | {:.1} % | {:.1} % |",
                percent(false_alarms, runs),
                percent(covered, runs),
                percent(off, runs),
                percent(close, runs),
            );
        }
        let (alarms, covered) = (
            percent(all_alarms, 4 * runs),
            percent(all_covered, 4 * runs),
        );
        println!("| {law:?} | all | | **{alarms:.1} %** | **{covered:.1} %** | | |");
    }
}

fn first(arms: &[ArmValues], blocks: usize) -> Vec<ArmValues> {
    let cut = |arm: &ArmValues| ArmValues {
        values: arm.values[..blocks].to_vec(),
        places: Vec::new(),
        ..arm.clone()
    };
    arms.iter().map(cut).collect()
}

/// Carries a plan out on values that are there already; blocks done and why no more.
fn stopped(plan: &StoppingPlan, all: &[ArmValues]) -> (usize, StoppingReason) {
    let mut done = 0;
    loop {
        match plan.after(done, &[first(all, done)]) {
            StoppingStep::Stop(reason) => return (done, reason),
            StoppingStep::Continue { until } => done = until,
        }
    }
}

/// Two stages and looks at any time, as they are carried out.
fn stages() {
    let runs = 1_000;
    println!(
        "| rule | law | false alarms | coverage | a tenth found | blocks (mean) | ended by the budget |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for stopping in [StoppingRule::TwoStage, StoppingRule::Anytime] {
        let plan = StoppingPlan {
            policy: policy(stopping),
            pilot_blocks: 6,
            effect: 0.1,
            blocks_max: 40,
        };
        let runs = if stopping == StoppingRule::Anytime {
            runs / 4
        } else {
            runs
        };
        for (number, law) in NoiseLaw::ALL.into_iter().enumerate() {
            let mut rng = Rng::new(Seed(200 + number as u64));
            let (mut alarms, mut covered, mut found, mut blocks, mut spent) = (0, 0, 0, 0, 0);
            for _ in 0..runs {
                for effect in [0.0, TENTH] {
                    let campaign = SimulatedCampaign {
                        law,
                        blocks: plan.blocks_max,
                        arms: 1,
                        has_control: true,
                        effect,
                    };
                    let all = campaign.draw(&mut rng);
                    let (done, reason) = stopped(&plan, &all);
                    let rows = judged(&first(&all, done), &plan.policy);
                    if effect > 0.0 {
                        found += usize::from(is_different(&rows[0]));
                        covered += usize::from(holds(&rows[0], effect));
                        blocks += done;
                        spent += usize::from(reason == StoppingReason::BudgetSpent);
                    } else {
                        alarms += usize::from(is_different(&rows[0]));
                    }
                }
            }
            println!(
                "| {stopping:?} | {law:?} | {:.1} % | {:.1} % | {:.1} % | {:.1} | {:.1} % |",
                percent(alarms, runs),
                percent(covered, runs),
                percent(found, runs),
                blocks as f64 / runs as f64,
                percent(spent, runs),
            );
        }
    }
}

fn logs(arms: &[ArmValues]) -> Vec<BlockLogValues> {
    let log = |arm: usize, block: usize| arms[arm].values[block].map_or(0.0, f64::ln);
    let block = |block: usize| BlockLogValues {
        base: vec![log(0, block), log(2, block)],
        arm: vec![log(1, block)],
    };
    (0..arms[0].values.len()).map(block).collect()
}

/// A look after every block of forty.
fn anytime() {
    let runs = 10_000;
    println!(
        "| law | ever called different | ever equivalent at the margin | a tenth found by block 8 | 15 | 40 |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    let laws = NoiseLaw::ALL.into_iter().chain([NoiseLaw::NoisyArm]);
    for (number, law) in laws.enumerate() {
        let mut rng = Rng::new(Seed(300 + number as u64));
        let mut draw = |effect: f64| {
            let campaign = SimulatedCampaign {
                law,
                blocks: 40,
                arms: 1,
                has_control: true,
                effect,
            };
            logs(&campaign.draw(&mut rng))
        };
        let margin = 0.05f64.ln_1p();
        let ever = |blocks: &[BlockLogValues]| stakes(blocks, 0.0).p_value() <= 0.05;
        let alarms = (0..runs).filter(|_| ever(&draw(0.0))).count();
        let close = (0..runs).filter(|_| {
            let blocks = draw(margin);
            let peaks = stakes(&blocks, margin)
                .below
                .min(stakes(&blocks, -margin).above);
            peaks >= 20f64.ln()
        });
        let close = close.count();
        let tenth: Vec<_> = (0..1_000).map(|_| draw(TENTH)).collect();
        let found =
            |looks: usize| percent(tenth.iter().filter(|b| ever(&b[..looks])).count(), 1_000);
        println!(
            "| {law:?} | {:.2} % | {:.2} % | {:.0} % | {:.0} % | {:.0} % |",
            percent(alarms, runs),
            percent(close, runs),
            found(8),
            found(15),
            found(40),
        );
    }
}

/// The rule until now: the estimate must lie beyond the A/A bound, and the base's second entry has no
/// other use.
fn bounded_rule(arms: &[ArmValues]) -> ComparisonVerdict {
    let blocks = logs(arms);
    let differences = |of: fn(&BlockLogValues) -> f64| blocks.iter().map(of).collect::<Vec<_>>();
    let arm = PairedLogRatioStats::of(&differences(|block| block.arm[0] - block.base[0]));
    let control = PairedLogRatioStats::of(&differences(|block| block.base[1] - block.base[0]));
    let (Some(arm), Some(control)) = (arm, control) else {
        return ComparisonVerdict::Inconclusive;
    };
    let margin = 0.05f64.ln_1p();
    if arm.largest_admitted(0.9) <= margin {
        let lost = control.mean.abs() - control.half_width(0.95) > margin;
        return match lost {
            true => ComparisonVerdict::Inconclusive,
            false => ComparisonVerdict::Equivalent,
        };
    }
    let is_beyond = arm.mean.abs() > control.largest_admitted(0.95).max(arm.half_width(0.95));
    match is_beyond {
        true => ComparisonVerdict::Different,
        false => ComparisonVerdict::Inconclusive,
    }
}

fn bound(arms: &[ArmValues]) -> f64 {
    let blocks = logs(arms);
    let differences: Vec<f64> = blocks.iter().map(|b| b.base[1] - b.base[0]).collect();
    PairedLogRatioStats::of(&differences).map_or(0.0, |c| c.largest_admitted(0.95).exp_m1())
}

/// A machine that campaigns are played on.
enum Machine {
    Drawn(MachineNoise),
    Recorded(MachineTimeline),
}

fn recorded(column: usize) -> Machine {
    let rows = RECORDED
        .lines()
        .filter(|line| !line.starts_with(['#', 'r']));
    let value = |line: &str| line.split(',').nth(column)?.parse().ok();
    Machine::Recorded(MachineTimeline {
        step_s: 0.5,
        steps: rows.filter_map(value).collect(),
    })
}

fn machines() -> Vec<(&'static str, Machine)> {
    let noise = |fast, slow, memory_s, bursts_per_min| {
        Machine::Drawn(MachineNoise {
            fast,
            slow,
            memory_s,
            bursts_per_min,
            burst_s: 4.0,
            burst_height: 0.6,
        })
    };
    vec![
        (
            "drawn, like the A/A bounds of 34 %",
            noise(0.08, 0.16, 12.0, 0.5),
        ),
        ("drawn, like those of 68 %", noise(0.10, 0.28, 12.0, 2.0)),
        ("drawn, without memory", noise(0.55, 0.0, 1.0, 0.0)),
        ("recorded, reads", recorded(0)),
        ("recorded, synced writes", recorded(1)),
    ]
}

/// Outcome of a campaign.
struct Outcome {
    verdict: ComparisonVerdict,
    ratio_holds: bool,
    blocks: usize,
    length_s: f64,
    promised: f64,
}

/// A pilot of three blocks, the design it leads to, and the blocks of both judged together.
fn designed(
    line: &MachineTimeline,
    from: f64,
    budget: f64,
    effect: f64,
    startup: f64,
    rng: &mut Rng,
) -> Outcome {
    let pilot = TimelineSchedule {
        startup_s: startup,
        length_s: 3.0,
        blocks: 3,
        from_s: from,
        effect,
    };
    let noise = PilotNoise::of(&pilot.pilot(line, &mut rng.clone())).expect("a pilot of 9 trials");
    let request = DesignRequest {
        goal: DesignGoal::Budget(budget - (pilot.until_s() - from)),
        arms: 1,
        has_control: true,
        workloads: 1,
        shortest_s: 1.0,
        longest_s: f64::INFINITY,
        blocks: None,
        policy: VerdictPolicy::default(),
    };
    let design = TrialDesign::from_pilot(&noise, &request).expect("a budget of minutes");
    let rest = TimelineSchedule {
        startup_s: startup + design.warmup_s,
        length_s: design.length_s,
        blocks: design.blocks,
        from_s: pilot.until_s(),
        effect,
    };
    let mut arms = pilot.play(line, rng);
    for (arm, more) in arms.iter_mut().zip(rest.play(line, rng)) {
        arm.values.extend(more.values);
    }
    let row = judged(&arms, &VerdictPolicy::default()).remove(0);
    Outcome {
        verdict: row.verdict,
        ratio_holds: holds(&row, effect),
        blocks: arms[0].values.len(),
        length_s: design.length_s,
        promised: design.forecast.detectable.unwrap_or(f64::INFINITY),
    }
}

/// Today's five or more blocks of ten seconds.
fn today(
    line: &MachineTimeline,
    from: f64,
    budget: f64,
    effect: f64,
    startup: f64,
    rng: &mut Rng,
) -> Vec<ArmValues> {
    let schedule = TimelineSchedule {
        startup_s: startup,
        length_s: 10.0,
        blocks: to_usize(floor_u64(budget / (3.0 * (10.0 + startup)))),
        from_s: from,
        effect,
    };
    schedule.play(line, rng)
}

fn median_of(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Results of both rules in the same time.
fn power() {
    println!(
        "| machine | start | budget | A/A bound (median) | found, today | found, new | equivalent, today | equivalent, new | false alarms, today | new | coverage, new | trials, new | promised MDE |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    let word = std::env::args().nth(2).unwrap_or_default();
    let machines = machines().into_iter();
    for (name, machine) in machines.filter(|(name, _)| name.contains(&word)) {
        for startup in [0.5, 2.0] {
            for budget in [180.0, 600.0] {
                println!("{}", power_row(name, &machine, startup, budget));
            }
        }
    }
}

fn power_row(name: &str, machine: &Machine, startup: f64, budget: f64) -> String {
    let runs = 300;
    let mut rng = Rng::new(Seed(400));
    let mut count = [0usize; 7];
    let (mut bounds, mut lengths, mut blocks, mut promised) = (vec![], vec![], vec![], vec![]);
    for _ in 0..runs {
        let (line, from) = match machine {
            Machine::Drawn(noise) => (noise.timeline(budget + 60.0, &mut rng), 0.0),
            Machine::Recorded(line) => {
                let room = line.steps.len() as f64 * line.step_s - budget - 60.0;
                (line.clone(), (rng.unit() * room * 2.0).floor() / 2.0)
            }
        };
        for (index, effect) in [TENTH, 0.0].into_iter().enumerate() {
            let old = today(&line, from, budget, effect, startup, &mut rng);
            let verdict = bounded_rule(&old);
            let new = designed(&line, from, budget, effect, startup, &mut rng);
            if index == 0 {
                count[0] += usize::from(verdict == ComparisonVerdict::Different);
                count[1] += usize::from(new.verdict == ComparisonVerdict::Different);
                count[6] += usize::from(new.ratio_holds);
                lengths.push(new.length_s);
                blocks.push(new.blocks as f64);
                promised.push(new.promised);
            } else {
                bounds.push(bound(&old));
                count[2] += usize::from(verdict == ComparisonVerdict::Equivalent);
                count[3] += usize::from(new.verdict == ComparisonVerdict::Equivalent);
                count[4] += usize::from(verdict == ComparisonVerdict::Different);
                count[5] += usize::from(new.verdict == ComparisonVerdict::Different);
            }
        }
    }
    let share = |index: usize| percent(count[index], runs);
    format!(
        "| {name} | {startup} s | {budget} s | {:.0} % | {:.0} % | {:.0} % | {:.0} % | {:.0} % | {:.1} % | {:.1} % | {:.1} % | {:.0} × 3 of {} s | {:.0} % |",
        100.0 * median_of(&mut bounds),
        share(0),
        share(1),
        share(2),
        share(3),
        share(4),
        share(5),
        share(6),
        median_of(&mut blocks),
        median_of(&mut lengths),
        100.0 * median_of(&mut promised),
    )
}

/// Bursts whose share of a trial was measured beside it.
fn covariate() {
    let runs = 1_000;
    println!("| measured beside it | false alarms | a tenth found |");
    println!("| --- | --- | --- |");
    for (name, precision) in [
        ("nothing", f64::INFINITY),
        ("with an error of 20 %", 0.2),
        ("exactly", 0.0),
    ] {
        let mut rng = Rng::new(Seed(500));
        let mut hits = [0usize; 2];
        for _ in 0..runs {
            for (index, effect) in [0.0, TENTH].into_iter().enumerate() {
                let (arms, beside) = stolen(&mut rng, effect, precision);
                let arms = if precision.is_finite() {
                    adjusted(&arms, &beside).0
                } else {
                    arms
                };
                let rows = judged(&arms, &VerdictPolicy::default());
                hits[index] += usize::from(is_different(&rows[0]));
            }
        }
        println!(
            "| {name} | {:.1} % | {:.1} % |",
            percent(hits[0], runs),
            percent(hits[1], runs)
        );
    }
}

/// Ten blocks in which every trial loses a share of its time to others.
fn stolen(rng: &mut Rng, effect: f64, precision: f64) -> (Vec<ArmValues>, Vec<Vec<Option<f64>>>) {
    let campaign = SimulatedCampaign {
        law: NoiseLaw::Normal,
        blocks: 10,
        arms: 1,
        has_control: true,
        effect,
    };
    let mut arms = campaign.draw(rng);
    let mut beside = Vec::new();
    for arm in &mut arms {
        let mut of_arm = Vec::new();
        for value in arm.values.iter_mut().flatten() {
            let lost = rng.exponential(0.15);
            *value *= lost.exp();
            of_arm.push(Some(lost * (1.0 + precision.min(1.0) * rng.normal())));
        }
        beside.push(of_arm);
    }
    (arms, beside)
}
