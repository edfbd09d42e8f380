// SPDX-License-Identifier: Apache-2.0
//! mdtest's `SUMMARY rate` (IOR 4.0): files per second of each phase, over the iterations.
//!
//! A rate is the number of files by the wall time of the phase, from the start of all threads to the
//! end of the last. The deviation is that of the whole set of iterations, not of a sample of it, as
//! mdtest computes it.

use std::fmt::Write;

use plimsoll_core::event::PhaseResult;
use plimsoll_core::op::OpKind;
use plimsoll_core::workload::series::ClassicProgram;

use super::{KNOWN, PHASES, phase_name};
use crate::parts::{done, find, least_and_greatest, per_second};

pub(crate) fn text(classic: &ClassicProgram, phases: &[PhaseResult]) -> Option<String> {
    KNOWN.iter().find(|known| known.name == classic.program)?;
    let iterations: u32 = classic.setting("i")?.parse().ok()?;
    let mut out = format!("SUMMARY rate (in ops/sec): (of {iterations} iterations)\n");
    let heads = ["Max", "Min", "Mean", "Std Dev"];
    for line in [heads, ["---", "---", "----", "-------"]] {
        let first = if line == heads {
            "Operation"
        } else {
            "---------"
        };
        let [max, min, mean, deviation] = line;
        let written = writeln!(
            out,
            "   {first:<20} {max:>14} {min:>14} {mean:>14} {deviation:>14}"
        );
        written.ok()?;
    }
    for (name, label) in PHASES {
        let rate = |iteration| Some(rate(find(phases, &phase_name(name, iteration))?, name));
        let rates: Vec<f64> = (1..=iterations).map(rate).collect::<Option<_>>()?;
        let count = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
        let (min, max) = least_and_greatest(rates.iter().copied());
        let deviation = (squares / count).sqrt();
        let written = writeln!(
            out,
            "   {label:<20} {max:>14.3} {min:>14.3} {mean:>14.3} {deviation:>14.3}"
        );
        written.ok()?;
    }
    Some(out)
}

fn rate(phase: &PhaseResult, name: &str) -> f64 {
    let kind = match name {
        "create" => OpKind::Create,
        "stat" => OpKind::Stat,
        "read" => OpKind::ReadWhole,
        _ => OpKind::Delete,
    };
    per_second(done(&phase.stats, kind), phase.wall)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::tests::result;

    #[test]
    fn rates_are_files_by_wall_time_over_the_iterations() {
        let classic = |iterations: &str| ClassicProgram {
            program: "mdtest-hard".into(),
            settings: vec![("i".into(), iterations.into())],
        };
        let create = |name: &str, seconds| {
            let ops = [(OpKind::Create, 100, 0, 1), (OpKind::Close, 100, 0, 1)];
            result(name, seconds, &ops)
        };
        let mut phases = vec![
            create("create", 1.0),
            result("stat", 0.5, &[(OpKind::Stat, 100, 0, 1)]),
            result("read", 2.0, &[(OpKind::ReadWhole, 100, 3901, 1)]),
            result("delete", 4.0, &[(OpKind::Delete, 100, 0, 1)]),
        ];
        let figures = |text: &str| -> Vec<Vec<f64>> {
            let line = |line: &str| {
                line.split_whitespace()
                    .filter_map(|w| w.parse().ok())
                    .collect()
            };
            text.lines().skip(3).map(line).collect()
        };
        let once = text(&classic("1"), &phases).unwrap();
        assert!(once.starts_with("SUMMARY rate (in ops/sec): (of 1 iterations)\n"));
        let rates: Vec<f64> = figures(&once).iter().map(|line| line[2]).collect();
        assert_eq!(rates, [100.0, 200.0, 50.0, 25.0]);
        let spread = figures(&once)
            .into_iter()
            .map(|line| line[0] - line[1] + line[3]);
        assert_eq!(spread.collect::<Vec<_>>(), [0.0; 4]);
        assert_eq!(text(&classic("2"), &phases), None, "the second is missing");
        let again: Vec<PhaseResult> = phases
            .iter()
            .map(|phase| PhaseResult {
                name: format!("{} 2", phase.name),
                ..phase.clone()
            })
            .collect();
        phases.extend(again);
        phases[4] = create("create 2", 0.5);
        let twice = text(&classic("2"), &phases).unwrap();
        assert_eq!(figures(&twice)[0], [200.0, 100.0, 150.0, 50.0]);
        let other = ClassicProgram {
            program: "other".into(),
            settings: Vec::new(),
        };
        assert_eq!(text(&other, &phases), None);
    }
}
