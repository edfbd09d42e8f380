// SPDX-License-Identifier: Apache-2.0
//! How often screening finds a planted bad setting among ten, and in how many runs, beside changing one
//! setting at a time and halving groups.
//!
//!     cargo run --release -p plimsoll-measurements --bin screening
//!
//! 1,000 systems from a fixed seed for each row: the tables of docs/results/2026-11-tuning.md come from here.
#![allow(clippy::print_stdout, reason = "printing tables is what it is for")]

use plimsoll_core::rng::{Rng, Seed};
use plimsoll_stats::paired::PairedLogRatioStats;
use plimsoll_stats::screening::{ScreeningDesign, candidates, screen};

const SYSTEMS: u32 = 1_000;
const SETTINGS: usize = 10;
/// Suggestions that are proved.
const SUGGESTIONS: usize = 5;

/// How settings work together.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Interplay {
    /// Each does its own.
    None,
    /// A fifth of all pairs does something more together, half as much as a setting alone.
    Pairs,
    /// The planted one works with three others: with each of them its effect is changed by two fifths.
    WithPlanted,
    /// The planted one is a bottleneck: as long as it is bad, the others hardly matter.
    Bottleneck,
}

/// A system whose truth is known. Values are times: less is better.
struct System {
    effects: Vec<f64>,
    pairs: Vec<(usize, usize, f64)>,
    planted: usize,
    is_bottleneck: bool,
    deviation: f64,
    has_bursts: bool,
}

impl System {
    /// Noise of 3 to 30 %, a planted setting whose other level makes the system faster by a factor from
    /// `low` to `high`, two others that matter a little (up to a tenth), and the rest with effects drawn
    /// around 0 with a standard deviation of 2 %.
    fn drawn(
        interplay: Interplay,
        has_bursts: bool,
        (low, high): (f64, f64),
        rng: &mut Rng,
    ) -> System {
        let deviation = (0.03f64.ln() + rng.unit() * 10f64.ln()).exp();
        let mut effects: Vec<f64> = (0..SETTINGS).map(|_| 0.02 * rng.normal()).collect();
        for _ in 0..2 {
            let one = pick(rng);
            effects[one] = 0.2 * rng.unit() - 0.1;
        }
        let planted = pick(rng);
        effects[planted] = -(low.ln() + rng.unit() * (high / low).ln());
        let mut pairs = Vec::new();
        if interplay == Interplay::Pairs {
            for one in 0..SETTINGS {
                for other in 0..one {
                    if rng.below(5) == 0 {
                        let size = effects[one].abs().max(effects[other].abs());
                        pairs.push((one, other, 0.5 * size * rng.normal()));
                    }
                }
            }
        }
        if interplay == Interplay::WithPlanted {
            for _ in 0..3 {
                let other = pick(rng);
                let sign = if rng.below(2) == 0 { 0.4 } else { -0.4 };
                if other != planted {
                    pairs.push((planted, other, sign * effects[planted]));
                }
            }
        }
        System {
            effects,
            pairs,
            planted,
            is_bottleneck: interplay == Interplay::Bottleneck,
            deviation,
            has_bursts,
        }
    }

    fn truth(&self, row: &[bool]) -> f64 {
        let is_masked = self.is_bottleneck && !row[self.planted];
        let own = self.effects.iter().enumerate().filter(|(at, _)| row[*at]);
        let own = own.map(|(at, effect)| match is_masked && at != self.planted {
            true => 0.1 * effect,
            false => *effect,
        });
        let pairs = self
            .pairs
            .iter()
            .filter(|(one, other, _)| row[*one] && row[*other]);
        own.sum::<f64>() + pairs.map(|(_, _, effect)| effect).sum::<f64>()
    }

    fn run(&self, row: &[bool], level: f64, rng: &mut Rng) -> f64 {
        let burst = if self.has_bursts && rng.below(10) == 0 {
            rng.exponential(0.5)
        } else {
            0.0
        };
        (level + self.truth(row) + self.deviation * rng.normal() + burst).exp()
    }
}

fn pick(rng: &mut Rng) -> usize {
    usize::try_from(rng.below(SETTINGS as u64)).unwrap_or(0)
}

/// Settings that a method found, and in how many runs.
struct Found {
    chosen: Vec<usize>,
    runs: f64,
}

fn designed(system: &System, is_folded: bool, blocks: usize, rng: &mut Rng) -> Found {
    let design = ScreeningDesign::plackett_burman(SETTINGS, is_folded, rng).expect("ten settings");
    let levels: Vec<f64> = (0..blocks).map(|_| 0.2 * rng.normal()).collect();
    let of_row = |row: &Vec<bool>, rng: &mut Rng| -> Vec<Option<f64>> {
        levels
            .iter()
            .map(|level| Some(system.run(row, *level, rng)))
            .collect()
    };
    let values: Vec<_> = design.rows().iter().map(|row| of_row(row, rng)).collect();
    let result = screen(&design, &values, 0.95);
    Found {
        chosen: result.map_or(Vec::new(), |found| candidates(&found, -1.0, SUGGESTIONS)),
        runs: (design.rows().len() * blocks) as f64,
    }
}

/// Each setting alone against the base in the same block, `blocks` times.
fn one_at_a_time(system: &System, blocks: usize, rng: &mut Rng) -> Found {
    let mut logs = vec![Vec::new(); SETTINGS];
    for _ in 0..blocks {
        let level = 0.2 * rng.normal();
        let base = system.run(&[false; SETTINGS], level, rng).ln();
        for (setting, of) in logs.iter_mut().enumerate() {
            let mut row = [false; SETTINGS];
            row[setting] = true;
            of.push(system.run(&row, level, rng).ln() - base);
        }
    }
    let gains = logs
        .iter()
        .map(|of| PairedLogRatioStats::of(of).map_or(0.0, |s| -s.mean));
    let mut gains: Vec<(usize, f64)> = gains.enumerate().filter(|(_, gain)| *gain > 0.0).collect();
    gains.sort_by(|a, b| b.1.total_cmp(&a.1));
    Found {
        chosen: gains
            .into_iter()
            .map(|(at, _)| at)
            .take(SUGGESTIONS)
            .collect(),
        runs: (blocks * (SETTINGS + 1)) as f64,
    }
}

/// Halves of a group against each other, the better one halved again: few runs, as long as the others do
/// not hide the one that is sought.
fn groups(system: &System, repeats: usize, rng: &mut Rng) -> Found {
    let mut group: Vec<usize> = (0..SETTINGS).collect();
    let mut runs = 0;
    while group.len() > 1 {
        let halves = group.split_at(group.len() / 2);
        let mut mean = |half: &[usize]| {
            let mut row = [false; SETTINGS];
            half.iter().for_each(|at| row[*at] = true);
            let sum: f64 = (0..repeats).map(|_| system.run(&row, 0.0, rng).ln()).sum();
            sum / repeats as f64
        };
        let better = mean(halves.0) < mean(halves.1);
        runs += 2 * repeats;
        group = if better { halves.0 } else { halves.1 }.to_vec();
    }
    Found {
        chosen: group,
        runs: runs as f64,
    }
}

/// A way to look for the setting.
type Method = (&'static str, fn(&System, &mut Rng) -> Found);

const METHODS: [Method; 8] = [
    ("one at a time, 2 blocks", |s, rng| one_at_a_time(s, 2, rng)),
    ("one at a time, 7 blocks", |s, rng| one_at_a_time(s, 7, rng)),
    ("one at a time, 12 blocks", |s, rng| {
        one_at_a_time(s, 12, rng)
    }),
    ("halving groups, 3 repeats", |s, rng| groups(s, 3, rng)),
    ("12 rows, 2 blocks", |s, rng| designed(s, false, 2, rng)),
    ("24 rows (folded), 1 block", |s, rng| {
        designed(s, true, 1, rng)
    }),
    ("12 rows, 4 blocks", |s, rng| designed(s, false, 4, rng)),
    ("24 rows (folded), 2 blocks", |s, rng| {
        designed(s, true, 2, rng)
    }),
];

fn main() {
    println!("| planted | interplay | noise | method | runs | first | among five | false ones |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for planted in [(1.3, 3.0), (1.1, 1.3)] {
        for interplay in [
            Interplay::None,
            Interplay::Pairs,
            Interplay::WithPlanted,
            Interplay::Bottleneck,
        ] {
            for has_bursts in [false, true] {
                for method in METHODS {
                    row(planted, interplay, has_bursts, method);
                }
            }
        }
    }
}

fn row(planted: (f64, f64), interplay: Interplay, has_bursts: bool, (name, method): Method) {
    let mut rng = Rng::new(Seed(2026).derive("screening", 0));
    let (mut first, mut among, mut others, mut runs) = (0, 0, 0, 0.0);
    for _ in 0..SYSTEMS {
        let system = System::drawn(interplay, has_bursts, planted, &mut rng);
        let found = method(&system, &mut rng);
        first += u32::from(found.chosen.first() == Some(&system.planted));
        among += u32::from(found.chosen.contains(&system.planted));
        let is_false = |at: &&usize| system.effects[**at] > -0.02 && **at != system.planted;
        others += found.chosen.iter().filter(is_false).count();
        runs += found.runs;
    }
    let share = |n: u32| format!("{:.1} %", 100.0 * f64::from(n) / f64::from(SYSTEMS));
    println!(
        "| {} to {} | {interplay:?} | {} | {name} | {:.0} | {} | {} | {:.2} |",
        planted.0,
        planted.1,
        if has_bursts {
            "with bursts"
        } else {
            "3–30 %"
        },
        runs / f64::from(SYSTEMS),
        share(first),
        share(among),
        others as f64 / f64::from(SYSTEMS)
    );
}
