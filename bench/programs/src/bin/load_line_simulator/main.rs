// SPDX-License-Identifier: Apache-2.0
//! Searches the load lines of simulated systems, and serves these systems to the searches of other programs.
//!
//! `search FIRST COUNT SUSTAINED_S`: a row for each system and method. `serve SUSTAINED_S`: reads
//! `system SEED`, `try MULTIPLE SECONDS` and `end METHOD LOW HIGH`, and answers each with a line.
#![expect(clippy::print_stdout, reason = "its rows are what it is for")]

mod methods;
mod systems;

use std::io::BufRead;

use methods::{SearchRow, bisection, ours};
use plimsoll_core::num::round_u64;
use systems::{KnownSystem, SimulatedSystem};

/// How often bisection repeats each multiple.
const REPEATS: [u64; 3] = [1, 3, 5];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments.iter().filter_map(|a| a.parse().ok()).collect();
    match (arguments.first().map(String::as_str), &numbers[..]) {
        (Some("search"), [first, count, sustained]) => {
            println!("{}", SearchRow::HEAD);
            (*first..first + count).for_each(|seed| search(seed, *sustained as f64));
        }
        (Some("serve"), [sustained]) => serve(*sustained as f64),
        _ => println!("usage: search FIRST COUNT SUSTAINED_S | serve SUSTAINED_S"),
    }
}

fn search(seed: u64, sustained: f64) {
    let known = KnownSystem::of(seed, sustained);
    println!("{}", ours(&known, seed, sustained).line(seed, &known.law));
    for repeats in REPEATS {
        let row = bisection(&known, seed, sustained, repeats);
        println!("{}", row.line(seed, &known.law));
    }
}

/// A system that another program searches.
struct ServedSystem {
    seed: u64,
    known: KnownSystem,
    system: SimulatedSystem,
    seconds: f64,
    trials: usize,
}

impl ServedSystem {
    fn of(seed: u64, known: KnownSystem) -> ServedSystem {
        ServedSystem {
            seed,
            system: SimulatedSystem::of(known.law.clone(), seed),
            known,
            seconds: 0.0,
            trials: 0,
        }
    }

    /// The share of operations beyond the limit, of several limits as if all were on p99.
    fn play(&mut self, multiple: f64, seconds: f64) -> String {
        let trial = self.system.play(multiple, seconds);
        self.seconds += seconds;
        self.trials += 1;
        let share = 0.01 * trial.excess(&self.known.law.limits());
        share.min(1.0).to_string()
    }

    fn end(&self, method: &str, low: f64, high: f64) -> String {
        let row = SearchRow {
            method: method.into(),
            edge: (self.known.edge + self.system.mean_drift()).exp(),
            low,
            high,
            seconds: self.seconds,
            trials: self.trials,
            stop: "end".into(),
        };
        row.line(self.seed, &self.known.law)
    }
}

fn serve(sustained: f64) {
    let mut served: Option<ServedSystem> = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| {
            words
                .get(i)
                .and_then(|w| w.parse::<f64>().ok())
                .unwrap_or(0.0)
        };
        let answer = match (words.first().copied(), &mut served) {
            (Some("system"), before) => {
                let seed = round_u64(number(1));
                // The edge of the same system is not sought again.
                let known = before.take().filter(|s| s.seed == seed).map(|s| s.known);
                let known = known.unwrap_or_else(|| KnownSystem::of(seed, sustained));
                served = Some(ServedSystem::of(seed, known));
                "ready".into()
            }
            (Some("try"), Some(system)) => system.play(number(1), number(2)),
            (Some("end"), Some(system)) => system.end(words[1], number(2), number(3)),
            _ => "what?".into(),
        };
        println!("{answer}");
    }
}
