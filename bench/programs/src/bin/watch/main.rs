// SPDX-License-Identifier: Apache-2.0
//! How often a watched series raises a false alarm, and how soon it shows a step, beside E-divisive.
//!
//!     cargo run --release -p plimsoll-measurements --bin watch -- rates|speed
//!     cargo run --release -p plimsoll-measurements --bin watch -- histories LAW SIGMAS COUNT
//!
//! `rates` takes a word of the names of histories, to look at these alone.
//!
//! Everything is drawn from fixed seeds; the tables of docs/results/2026-11-watch.md come from here.
//! `speed` looks at 10,000 series, for `time` to measure. `histories` prints the histories themselves, for
//! other programs: series, day, raw value, ratio.
#![allow(clippy::print_stdout, reason = "printing tables is what it is for")]

mod e_divisive;
mod rates;

use plimsoll_core::rng::{Rng, Seed};
use plimsoll_measurements::histories::HistoryLaw;
use plimsoll_stats::change::{ChangeOptions, change_points};
use rates::{STEP_AT, WatchMethod, rates};

/// Histories of our method, and of E-divisive, which is far slower.
const OURS: usize = 10_000;
const DIVISIVE: usize = 200;
/// Largest difference that A/A controls of these campaigns admit, as a fraction.
const LEAST: f64 = 0.03;

const QUIET: HistoryLaw = HistoryLaw {
    points: 60,
    noise: 0.02,
    drift: 0.0,
    memory: 0.0,
    leak: 0.0,
    outliers: 0.0,
    step: None,
};
const DRIFTS: HistoryLaw = HistoryLaw {
    drift: 0.04,
    memory: 0.6,
    outliers: 0.1,
    ..QUIET
};

const LAWS: [(&str, HistoryLaw); 9] = [
    ("no drift", QUIET),
    (
        "no drift, outliers",
        HistoryLaw {
            outliers: 0.1,
            ..QUIET
        },
    ),
    (
        "AR(1) 0.6",
        HistoryLaw {
            outliers: 0.0,
            ..DRIFTS
        },
    ),
    ("AR(1) 0.6, outliers", DRIFTS),
    (
        "AR(1) 0.9, outliers",
        HistoryLaw {
            memory: 0.9,
            ..DRIFTS
        },
    ),
    (
        "AR(1) 0.6, outliers, leak 0.1",
        HistoryLaw {
            leak: 0.1,
            ..DRIFTS
        },
    ),
    (
        "AR(1) 0.9, outliers, leak 0.1",
        HistoryLaw {
            memory: 0.9,
            leak: 0.1,
            ..DRIFTS
        },
    ),
    (
        "AR(1) 0.6, outliers, leak 0.25",
        HistoryLaw {
            leak: 0.25,
            ..DRIFTS
        },
    ),
    (
        "AR(1) 0.9, outliers, leak 0.25",
        HistoryLaw {
            memory: 0.9,
            leak: 0.25,
            ..DRIFTS
        },
    ),
];

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    match asked
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["rates"] => tables(""),
        ["rates", word] => tables(word),
        ["speed"] => speed(),
        ["histories", law, sigmas, count] => histories(law, sigmas, count),
        _ => println!("give one of: rates, speed, histories LAW SIGMAS COUNT"),
    }
}

fn tables(word: &str) {
    let ours = [
        (WatchMethod::Ratios, LEAST),
        (WatchMethod::Ratios, 0.0),
        (WatchMethod::Raw, 0.0),
    ];
    let divisive = [
        (WatchMethod::DivisiveRatios, 0.0),
        (WatchMethod::DivisiveRaw, 0.0),
    ];
    println!(
        "| history | method | least effect | alarms, a look a day | alarms, one look | 1.5 σ | 1.5 σ without outliers | 1.5 σ of the ratios | more |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for (name, law) in LAWS.into_iter().filter(|(name, _)| name.contains(word)) {
        for (method, least) in ours.into_iter().chain(divisive) {
            let is_ours = matches!(method, WatchMethod::Ratios | WatchMethod::Raw);
            let count = if is_ours { OURS } else { DIVISIVE };
            let raw = rates(&law, 1.5 * law.raw_deviation(), least, method, count);
            let percent = |share: f64| format!("{:.1} %", 100.0 * share);
            let found = |step: f64| match is_ours {
                true => percent(rates(&law, 1.5 * step, least, method, count).found),
                // One size is enough of what takes so long.
                false => "–".into(),
            };
            println!(
                "| {name} | {method:?} | {least} | {} | {} | {} | {} | {} | {} |",
                percent(raw.alarms),
                percent(raw.alarms_at_end),
                percent(raw.found),
                found(law.plain_deviation()),
                found(ratio_deviation(&law)),
                percent(raw.more)
            );
        }
    }
}

/// The standard deviation of the ratios, without outliers.
fn ratio_deviation(law: &HistoryLaw) -> f64 {
    (2.0 * law.noise.powi(2) + (law.leak * law.drift).powi(2)).sqrt()
}

fn speed() {
    let mut rng = Rng::new(Seed(3));
    let draw = |number: usize, rng: &mut Rng| {
        let step = (number.is_multiple_of(3)).then_some((STEP_AT, 0.06));
        HistoryLaw { step, ..DRIFTS }.draw(rng).ratios
    };
    let series: Vec<_> = (0..10_000).map(|number| draw(number, &mut rng)).collect();
    let changes: usize = (series.iter())
        .map(|points| change_points(points, &ChangeOptions::default()).len())
        .sum();
    println!("10,000 series of 60 points have {changes} changes");
}

fn histories(law: &str, sigmas: &str, count: &str) {
    let law = LAWS
        .iter()
        .find(|(name, _)| *name == law)
        .map_or(DRIFTS, |(_, law)| *law);
    let sigmas: f64 = sigmas.parse().expect("a number of standard deviations");
    let count: usize = count.parse().expect("a number of histories");
    let step = (sigmas > 0.0).then_some((STEP_AT, sigmas * law.raw_deviation()));
    let purpose = if step.is_some() { "step" } else { "level" };
    let mut rng = Rng::new(Seed(2026).derive(purpose, 0));
    println!("series,day,raw,ratio");
    for series in 0..count {
        let drawn = HistoryLaw { step, ..law }.draw(&mut rng);
        for (day, (raw, point)) in drawn.raw.iter().zip(&drawn.ratios).enumerate() {
            println!("{series},{day},{raw:.6},{:.6}", point.log_ratio);
        }
    }
}
