// SPDX-License-Identifier: Apache-2.0
//! How often the interval of a load line holds the truth: rows for people, of laws that the search was not
//! written for. `LAWS='judging 60s 1 12' cargo test --release -p plimsoll-stats --test integration
//! laws::search::rows -- --ignored --nocapture`: half (tuning, judging, fresh), setting (10m, 60s, demo),
//! first seed, how many.
//! With `LAWS_STEPS=1` each trial is printed.
//! `laws::search::truths` with `LAWS=60`: the multiple that half of the stays of a minute carry.
#![expect(clippy::print_stdout, reason = "its rows are what it is for")]

use super::{Law, LawHalf, LawSecond, LawTrial, LawTruth, all};
use plimsoll_core::load_line::{LoadLineBatch, LoadLineReading, LoadLineRequest};
use plimsoll_core::open_load::OpenLoad;
use plimsoll_core::units::Nanos;
use plimsoll_stats::load_line::{
    LoadLineLimit, LoadLineMeasure, LoadLineOptions, LoadLineResult, LoadLineSearch, LoadLineStep,
    LoadLineTrial,
};

/// Between two trials that do not follow each other at once.
const PAUSE_S: f64 = 2.0;

/// The words of the variable that says what is asked for.
fn words() -> Vec<String> {
    let words = std::env::var("LAWS").unwrap_or_default();
    words.split_whitespace().map(String::from).collect()
}

#[test]
#[ignore = "takes minutes: rows for people"]
fn rows() {
    let words = words();
    let number = |i: usize| words.get(i).and_then(|word| word.parse::<u64>().ok());
    let half = match words.first().map(String::as_str) {
        Some("judging") => LawHalf::Judging,
        Some("fresh") => LawHalf::Fresh,
        _ => LawHalf::Tuning,
    };
    let setting = words.get(1).map_or("10m", String::as_str);
    println!("law,group,seed,truth,truth_low,low,point,high,seconds,trials,stop");
    let first = number(2).unwrap_or(1);
    for seed in first..first + number(3).unwrap_or(1) {
        let laws = all(seed).into_iter().filter(|law| law.half() == half);
        laws.for_each(|law| row(law, seed, setting));
    }
}

fn options(law: &dyn Law, setting: &str) -> LoadLineOptions {
    let (smallest, largest) = law.range();
    let base = LoadLineOptions {
        smallest,
        largest,
        limits: vec![LoadLineLimit {
            name: "p99".into(),
            measure: LoadLineMeasure::Share(law.limit().share),
        }],
        ..LoadLineOptions::default()
    };
    match setting {
        "60s" => LoadLineOptions {
            width: 0.1,
            short_s: 4.0,
            trial_s: 8.0,
            sustained_s: 60.0,
            budget_s: 24.0 * 60.0,
            ..base
        },
        "demo" => LoadLineOptions {
            width: 0.2,
            short_s: 4.0,
            trial_s: 8.0,
            sustained_s: 30.0,
            budget_s: 96.0,
            ..base
        },
        _ => base,
    }
}

fn row(mut law: Box<dyn Law>, seed: u64, setting: &str) {
    let options = options(&*law, setting);
    let result = searched(&mut *law, options);
    let (high, low) = match law.truth(law.limit()) {
        LawTruth::AtMost { multiple, .. } => (multiple, multiple),
        LawTruth::Sinks { low, high } => (high, low),
        LawTruth::Unlimited => (f64::INFINITY, f64::INFINITY),
        LawTruth::Never => (0.0, 0.0),
    };
    let found = &result.sustained;
    println!(
        "{},{:?},{seed},{high:.5},{low:.5},{:.5},{:.5},{:.5},{:.0},{},{:?}",
        law.name(),
        law.group(),
        found.low,
        found.point,
        found.high,
        result.seconds,
        result.trials,
        result.stop
    );
}

fn searched(law: &mut dyn Law, options: LoadLineOptions) -> LoadLineResult {
    let mut search = LoadLineSearch::new(options);
    let mut now = 0.0;
    while let LoadLineStep::Try(request) = search.next() {
        now += if request.is_continued { 0.0 } else { PAUSE_S };
        let trial = law.trial(request.multiple, request.seconds, now);
        now += request.seconds;
        search.observe(&shown(&trial, request));
        if std::env::var_os("LAWS_STEPS").is_some() {
            step(&request, &trial, &search);
        }
    }
    search.result()
}

/// One trial, and what is believed after it.
fn step(request: &LoadLineRequest, trial: &LawTrial, search: &LoadLineSearch) {
    let late: u64 = trial.seconds.iter().map(|second| second.late).sum();
    let found = search.sustained();
    println!(
        "  {:?} x{:.4} for {:.0} s: {late} of {} late; {:.4} ({:.4} to {:.4})",
        request.purpose,
        request.multiple,
        request.seconds,
        trial.offered,
        found.point,
        found.low,
        found.high
    );
}

/// What the search sees: counts by second, and what was served of the last half.
fn shown(trial: &LawTrial, request: LoadLineRequest) -> LoadLineTrial {
    let batches = trial.seconds.iter().map(|second| LoadLineBatch {
        operations: second.ops as f64,
        amount: second.late as f64,
    });
    let late = &trial.seconds[trial.seconds.len() / 2..];
    let due: u64 = late.iter().map(|second| second.ops).sum();
    let ended: u64 = late.iter().map(|second| second.ended).sum();
    let served = if due == 0 {
        1.0
    } else {
        (ended as f64 / due as f64).min(1.0)
    };
    LoadLineTrial {
        request,
        readings: vec![LoadLineReading {
            batches: batches.collect(),
        }],
        served,
        backlog_grew: has_grown(trial),
        is_void: false,
    }
}

/// As the program sees it.
fn has_grown(trial: &LawTrial) -> bool {
    let counts = |of: fn(&LawSecond) -> u64| trial.seconds.iter().map(of).collect::<Vec<u64>>();
    let length = Nanos(trial.seconds.len() as u64 * Nanos::SECOND.0);
    let open = OpenLoad {
        step: Nanos::SECOND,
        due: counts(|second| second.ops),
        ended: counts(|second| second.ended),
        ..OpenLoad::new(Some(length))
    };
    plimsoll_stats::overload::backlog(&open).is_some_and(|left| left.grew)
}

/// The multiple that half of the stays carry, by bisection.
#[test]
#[ignore = "takes minutes: rows for people"]
fn truths() {
    let sustained_s = words().first().and_then(|word| word.parse().ok());
    let sustained_s = sustained_s.unwrap_or(60.0);
    let names = all(0)
        .into_iter()
        .map(|law| (law.name().to_owned(), law.range()));
    for (at, (name, (smallest, largest))) in names.enumerate() {
        let (mut low, mut high) = (smallest.ln(), largest.ln());
        while high - low > 0.004 {
            let middle = f64::midpoint(low, high);
            if is_carried(at, middle.exp(), sustained_s) {
                low = middle;
            } else {
                high = middle;
            }
        }
        println!("{name},{:.5}", f64::midpoint(low, high).exp());
    }
}

/// Whether most stays at a multiple are carried.
fn is_carried(law: usize, multiple: f64, sustained_s: f64) -> bool {
    const STAYS: u64 = 41;
    let carried = |seed: &u64| {
        let mut law = all(900_000 + seed).swap_remove(law);
        let _ = law.trial(multiple, 10.0, 0.0);
        let trial = law.trial(multiple, sustained_s, 10.0);
        let late: u64 = trial.seconds.iter().map(|second| second.late).sum();
        late as f64 <= law.limit().share * trial.offered as f64
    };
    2 * (0..STAYS).filter(carried).count() > 41
}
