// SPDX-License-Identifier: Apache-2.0
//! How often the interval of a load line holds the truth: rows for people, of laws that the search was not
//! written for. `LAWS='judging 60s 1 12' cargo test --release -p plimsoll-stats --test integration
//! laws::search::rows -- --ignored --nocapture`: half (tuning, judging, fresh), setting (10m, 60s, demo),
//! first seed, how many, from one to the next (1), a word of the names of laws or their group.
//! `bench/load_line_laws.py` counts the rows. With `LAWS_STEPS=1` each trial is printed.
//! `laws::search::truths` with `LAWS=60`: the multiple that half of the stays of a minute carry.
#![expect(clippy::print_stdout, reason = "its rows are what it is for")]

use super::{Law, LawGroup, LawHalf, LawSecond, LawTrial, LawTruth, all};
use plimsoll_core::load_line::{LoadLineBatch, LoadLineReading, LoadLineRequest};
use plimsoll_core::num::{round_u64, to_usize};
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
    let asked = words.get(5..).unwrap_or_default().join(" ");
    let is_asked =
        |law: &dyn Law| law.name().contains(&asked) || format!("{:?}", law.group()) == asked;
    println!(
        "setting,law,group,seed,truth,truth_low,low,point,high,seconds,trials,stop,reach,\
         window_share,window_stays"
    );
    let (first, step) = (number(2).unwrap_or(1), number(4).unwrap_or(1));
    for seed in (0..number(3).unwrap_or(1)).map(|count| first + count * step) {
        let laws = all(seed).into_iter().filter(|law| law.half() == half);
        laws.filter(|law| is_asked(&**law))
            .for_each(|law| row(law, seed, setting));
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
    let sustained_s = options.sustained_s;
    let (result, seen_s) = searched(&mut *law, options);
    let (high, low) = match law.truth(law.limit()) {
        LawTruth::AtMost { multiple, .. } => (multiple, multiple),
        LawTruth::Sinks { low, high } => (high, low),
        LawTruth::Unlimited => (f64::INFINITY, f64::INFINITY),
        LawTruth::Never => (0.0, 0.0),
    };
    let window = match law.group() {
        LawGroup::Noisy => LawWindow::of(law.name(), seed, seen_s, sustained_s, high),
        LawGroup::Quiet | LawGroup::NoAnswer => LawWindow {
            share: high,
            stays: high,
        },
    };
    let found = &result.sustained;
    println!(
        "{setting},{},{:?},{seed},{high:.5},{low:.5},{:.5},{:.5},{:.5},{:.0},{},{},{:?},{:.4},{:.4}",
        law.name(),
        law.group(),
        found.low,
        found.point,
        found.high,
        result.seconds,
        result.trials,
        result
            .stop
            .map_or(String::new(), |stop| format!("{stop:?}")),
        result.reach,
        window.share,
        window.stays,
    );
}

/// The truths of the time that a search saw: of the same seed, from a rest to the end of the search.
struct LawWindow {
    /// The largest multiple that, held throughout, has at most the share of late operations that is allowed.
    share: f64,
    /// The largest of which half of the stays are carried, one right after another.
    stays: f64,
}

impl LawWindow {
    /// Places to choose from, a percent apart: from an eighth of the truth to eight times as much.
    const PLACES: usize = 416;

    fn of(name: &str, seed: u64, seen_s: f64, sustained_s: f64, truth: f64) -> LawWindow {
        let stays = (seen_s / sustained_s).floor().max(1.0);
        let most = |lengths: &[f64]| {
            let multiple =
                |place: usize| truth / 8.0 * 64.0_f64.powf(place as f64 / Self::PLACES as f64);
            let (mut low, mut high) = (0, Self::PLACES);
            while high - low > 1 {
                let middle = low.midpoint(high);
                if 2 * carried(name, seed, multiple(middle), lengths) >= lengths.len() {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            multiple(low)
        };
        LawWindow {
            share: most(&[seen_s]),
            stays: most(&vec![sustained_s; to_usize(round_u64(stays))]),
        }
    }
}

/// How many trials of these lengths, one right after another, a system carries.
fn carried(name: &str, seed: u64, multiple: f64, lengths: &[f64]) -> usize {
    let mut laws = all(seed).into_iter();
    let mut law = laws.find(|law| law.name() == name).unwrap();
    let mut now = 0.0;
    let mut is_kept = |seconds: &&f64| {
        let trial = law.trial(multiple, **seconds, now);
        now += **seconds;
        let late: u64 = trial.seconds.iter().map(|second| second.late).sum();
        late as f64 <= law.limit().share * trial.offered as f64
    };
    lengths.iter().filter(&mut is_kept).count()
}

/// The result, and when the last trial was over.
fn searched(law: &mut dyn Law, options: LoadLineOptions) -> (LoadLineResult, f64) {
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
    (search.result(), now)
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

/// Trial as the search sees it: counts by second, and the share served of the last half.
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
