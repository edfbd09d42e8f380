// SPDX-License-Identifier: Apache-2.0
//! Operating characteristics of the tests for steady states and cliffs: how often a run is called steady too
//! early or never, and how often a fall in throughput is detected, or reported where there is none.
//!
//!     cargo run --release -p plimsoll-measurements --bin steady
//!
//! Everything is drawn from fixed seeds; the tables of docs/results/2026-11-verdicts.md come from here.
#![allow(clippy::print_stdout, reason = "printing tables is what it is for")]

use plimsoll_core::conditioning::{SteadyStateResult, SteadyStateVerdict};
use plimsoll_core::num::{round_u64, to_usize};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_measurements::timelines::MachineNoise;
use plimsoll_stats::cliff::is_cliff;
use plimsoll_stats::steady::{SteadyStateSearch, snia_of};

/// Length of a step.
const STEP_S: f64 = 0.5;
/// The limit.
const LIMIT_S: f64 = 600.0;
/// A level that is off the last one by more than this was called steady too early.
const TOO_EARLY: f64 = 0.05;

const fn noise(fast: f64, slow: f64, bursts_per_min: f64) -> MachineNoise {
    MachineNoise {
        fast,
        slow,
        memory_s: 12.0,
        bursts_per_min,
        burst_s: 4.0,
        burst_height: 0.6,
    }
}

/// Machines, by their names; moderate and noisy are those of `verdicts power`.
const MACHINES: [(&str, MachineNoise); 5] = [
    ("quiet (2 %)", noise(0.02, 0.0, 0.0)),
    ("without memory (10 %)", noise(0.10, 0.0, 0.0)),
    ("some memory (2 %, 3 %)", noise(0.02, 0.03, 0.0)),
    ("moderate", noise(0.08, 0.16, 0.5)),
    ("noisy", noise(0.10, 0.28, 2.0)),
];

/// The throughput of a system in time, noise left out.
#[derive(Clone, Copy)]
enum Course {
    Flat,
    /// To this floor, with this time constant.
    Decay(f64, f64),
    /// To this level after this time, at once.
    Falls(f64, f64),
}

impl Course {
    const ALL: [Course; 9] = [
        Course::Flat,
        Course::Decay(0.8, 5.0),
        Course::Decay(0.8, 30.0),
        Course::Decay(0.3, 5.0),
        Course::Decay(0.3, 30.0),
        Course::Decay(0.5, 300.0),
        Course::Falls(0.4, 3.0),
        Course::Falls(0.4, 20.0),
        Course::Falls(0.4, 120.0),
    ];

    fn name(self) -> String {
        match self {
            Course::Flat => "steady from the start".into(),
            Course::Decay(floor, time) => format!("decays to {floor}, time constant {time} s"),
            Course::Falls(floor, at) => format!("falls to {floor} after {at} s"),
        }
    }

    fn at(self, time_s: f64) -> f64 {
        match self {
            Course::Flat => 1.0,
            Course::Decay(floor, time) => floor + (1.0 - floor) * (-time_s / time).exp(),
            Course::Falls(floor, at) if time_s >= at => floor,
            Course::Falls(..) => 1.0,
        }
    }

    fn floor(self) -> f64 {
        match self {
            Course::Flat => 1.0,
            Course::Decay(floor, _) | Course::Falls(floor, _) => floor,
        }
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        None | Some("steady") => steady(),
        Some("cliffs") => cliffs(),
        Some(_) => println!("give one of: steady, cliffs"),
    }
}

fn steps(seconds: f64) -> usize {
    to_usize(round_u64(seconds / STEP_S))
}

fn played(course: Course, machine: &MachineNoise, seconds: f64, rng: &mut Rng) -> Vec<f64> {
    // Noise of a machine is of times; a rate is their inverse.
    let line = machine.timeline(seconds, rng).steps;
    let rates = line.iter().take(steps(seconds)).enumerate();
    rates
        .map(|(step, time)| course.at(step as f64 * STEP_S) / time)
        .collect()
}

fn search(rates: &[f64]) -> Option<SteadyStateResult> {
    let mut search = SteadyStateSearch::new(STEP_S);
    let _ = rates.iter().find(|rate| search.push(**rate));
    search.result(false)
}

/// How far the level from this instant on is above the last one, noise left out.
fn bias(course: Course, from_s: f64) -> f64 {
    let over = 20;
    let sum: f64 = (0..over)
        .map(|step| course.at(from_s + f64::from(step) * STEP_S))
        .sum();
    sum / f64::from(over) / course.floor() - 1.0
}

/// When the rule of SNIA is first kept, by rounds of a minute.
fn first_snia(rates: &[f64]) -> Option<f64> {
    let minute = steps(60.0);
    let rounds: Vec<f64> = (rates.chunks_exact(minute))
        .map(|round| round.iter().sum::<f64>() / round.len() as f64)
        .collect();
    let kept = rounds
        .windows(5)
        .position(|five| snia_of(five, 60.0).is_some_and(|s| s.is_steady));
    kept.map(|at| (at + 5) as f64 * 60.0)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn steady() {
    let runs = 400;
    println!(
        "| machine | system | steady within 10 min | after, median | warm-up, median | too early | what follows is off by, median | SNIA's rule within 10 min | after, median | window off by, median |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (number, (machine, noise)) in MACHINES.iter().enumerate() {
        for (which, course) in Course::ALL.into_iter().enumerate() {
            let mut rng = Rng::new(Seed(40 + number as u64).derive("steady", which as u64));
            let (mut after, mut begins, mut off) = (Vec::new(), Vec::new(), Vec::new());
            let (mut snia_after, mut snia_off) = (Vec::new(), Vec::new());
            let mut early = 0;
            for _ in 0..runs {
                let rates = played(course, noise, LIMIT_S, &mut rng);
                let found = search(&rates).filter(|f| f.verdict == SteadyStateVerdict::Steady);
                if let Some(found) = found {
                    let begin = found.begins.as_secs_f64();
                    let bias = bias(course, begin);
                    early += usize::from(bias.abs() > TOO_EARLY);
                    after.push(found.after.as_secs_f64());
                    begins.push(begin);
                    off.push(bias);
                }
                if let Some(at) = first_snia(&rates) {
                    snia_after.push(at);
                    // It reports the average of its window.
                    let window: f64 = (0..300).map(|s| course.at(at - f64::from(s) - 0.5)).sum();
                    snia_off.push(window / 300.0 / course.floor() - 1.0);
                }
            }
            let percent = |count: usize| 100.0 * count as f64 / f64::from(runs);
            println!(
                "| {machine} | {} | {:.0} % | {:.0} s | {:.1} s | {:.1} % | {:+.1} % | {:.0} % | {:.0} s | {:+.1} % |",
                course.name(),
                percent(after.len()),
                median(&mut after),
                median(&mut begins),
                percent(early),
                100.0 * median(&mut off),
                percent(snia_after.len()),
                median(&mut snia_after),
                100.0 * median(&mut snia_off),
            );
        }
    }
}

/// Trials of seconds, of which each has a fall to this share at a random instant, or none.
fn cliffs() {
    let runs = 2_000;
    println!(
        "| machine | trial | none there: seen | to 0.8: seen | to 0.6: seen | to 0.4: seen | decays to 0.5 in the trial: seen |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (number, (machine, noise)) in MACHINES.iter().enumerate() {
        for seconds in [15_u32, 60, 300] {
            let mut rng = Rng::new(Seed(70 + number as u64).derive("cliffs", seconds.into()));
            let length = f64::from(seconds);
            let mut seen = |course: &dyn Fn(f64) -> Course| {
                let mut hits = 0_u32;
                for _ in 0..runs {
                    let at = length * (0.2 + 0.4 * rng.unit());
                    let halves = played(course(at), noise, length, &mut rng);
                    let rates: Vec<f64> = halves
                        .chunks(2)
                        .map(|two| two.iter().sum::<f64>() / two.len() as f64)
                        .collect();
                    hits += u32::from(is_cliff(&rates));
                }
                100.0 * f64::from(hits) / f64::from(runs)
            };
            let none = seen(&|_| Course::Flat);
            let falls = [0.8, 0.6, 0.4].map(|to| seen(&|at| Course::Falls(to, at)));
            let decay = seen(&|_| Course::Decay(0.5, length / 3.0));
            println!(
                "| {machine} | {seconds} s | {none:.2} % | {:.0} % | {:.0} % | {:.0} % | {decay:.1} % |",
                falls[0], falls[1], falls[2]
            );
        }
    }
}
