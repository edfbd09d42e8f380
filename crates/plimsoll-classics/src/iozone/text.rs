// SPDX-License-Identifier: Apache-2.0
//! Results as iozone 3 prints them. In throughput mode, by its definitions: the children's own
//! rates added up, and all data against the time of the parent. Of a single file: a table.

use std::fmt::Write as _;

use plimsoll_core::event::{PhaseResult, WorkerResult};
use plimsoll_core::num::ratio;
use plimsoll_core::workload::series::ClassicProgram;

use super::{IozoneOptions, IozoneTest, NAME, SETTINGS};
use crate::parts::{KIB, elapsed, end_line, find, least_and_greatest, per_second};
use plimsoll_core::settings::SettingValues;

/// A paragraph for each test; `None` when a phase is missing or has no figures of its workers.
pub(crate) fn text(classic: &ClassicProgram, phases: &[PhaseResult]) -> Option<String> {
    let settings = SettingValues::new(NAME, SETTINGS, &classic.settings).ok()?;
    let shape = IozoneOptions::read(&settings).ok()?;
    let (file_kib, record_kib) = (kib(shape.file_bytes), kib(shape.record_bytes));
    if shape.is_single {
        return table(&shape, phases);
    }
    let (count, es) = (shape.children, if shape.children == 1 { "" } else { "es" });
    let mut out = String::new();
    let _ = writeln!(out, "\tRecord Size {record_kib} kB");
    let _ = writeln!(out, "\tFile size set to {file_kib} kB");
    let _ = writeln!(out, "\tThroughput test with {count} process{es}");
    let _ = writeln!(
        out,
        "\tEach process writes a {file_kib} kByte file in {record_kib} kByte records"
    );
    for test in &shape.tests {
        let phase = find(phases, test.phase)?;
        if phase.workers.is_empty() {
            return None;
        }
        out.push('\n');
        paragraph(&mut out, &shape, test, phase);
    }
    Some(out)
}

/// Whole KiB without decimals, others as they are.
fn kib(bytes: u64) -> String {
    format!("{}", bytes as f64 / KIB)
}

/// The table of the single-file mode: rates in whole kB or records per second, in the columns that
/// the original has for these tests.
fn table(shape: &IozoneOptions, phases: &[PhaseResult]) -> Option<String> {
    let mut out = String::new();
    if shape.is_in_ops {
        let _ = writeln!(out, "\tOPS Mode. Output is in operations per second.");
    }
    // Which of the two pairs of columns on the right is meant stands above them.
    let random = "random";
    let _ = writeln!(out, "{:64}{random:>10}{random:>10}", "");
    let (kib, reclen) = ("kB", "reclen");
    let _ = write!(out, "{kib:>16}{reclen:>8}");
    for name in ["write", "rewrite", "read", "reread", "read", "write"] {
        let _ = write!(out, "{name:>10}");
    }
    out.push('\n');
    let (file_kib, record_kib) = (shape.file_bytes >> 10, shape.record_bytes >> 10);
    let _ = write!(out, "{file_kib:>16}{record_kib:>8}");
    for test in &super::TESTS {
        let rate = match shape.tests.iter().any(|wanted| wanted.phase == test.phase) {
            true => {
                let worker = find(phases, test.phase)?.workers.first()?;
                let amount = match shape.is_in_ops {
                    true => worker.ops as f64,
                    false => worker.bytes as f64 / KIB,
                };
                format!("{:.0}", per_second(amount, elapsed(worker)))
            }
            false => String::new(),
        };
        let _ = write!(out, "{rate:>10}");
    }
    end_line(&mut out);
    Some(out)
}

fn paragraph(out: &mut String, shape: &IozoneOptions, test: &IozoneTest, phase: &PhaseResult) {
    let unit = if shape.is_in_ops { "ops" } else { "kB" };
    let counted = |worker: &WorkerResult| match shape.is_in_ops {
        true => worker.ops as f64,
        false => worker.bytes as f64 / KIB,
    };
    let amounts: Vec<f64> = phase.workers.iter().map(counted).collect();
    let with_own_time = amounts.iter().zip(&phase.workers);
    let rates: Vec<f64> = with_own_time
        .map(|(amount, worker)| per_second(*amount, elapsed(worker)))
        .collect();
    let children: f64 = rates.iter().sum();
    let parent = per_second(amounts.iter().sum(), phase.wall);
    let (slowest, fastest) = least_and_greatest(rates.iter().copied());
    let (least, _) = least_and_greatest(amounts.iter().copied());
    // The original sets two places aside for the number, but not in these.
    let digits = match test.phase {
        "reread" | "random_read" | "random_write" => 1,
        _ => 2,
    };
    let of = format!("throughput for {:digits$} {} ", rates.len(), test.role);
    // The original sets the shortest name off by a second tab.
    let tabs = if test.role == "readers" { "\t\t" } else { "\t" };
    let average = ratio(children, rates.len() as f64);
    let fairness = fairness(&rates);
    let _ = write!(
        out,
        "\tChildren see {of}{tabs}= {children:10.2} {unit}/sec\n\
         \tParent sees {of}{tabs}= {parent:10.2} {unit}/sec\n\
         \tMin throughput per process \t\t\t= {slowest:10.2} {unit}/sec \n\
         \tMax throughput per process \t\t\t= {fastest:10.2} {unit}/sec\n\
         \tAvg throughput per process \t\t\t= {average:10.2} {unit}/sec\n\
         \tMin xfer \t\t\t\t\t= {least:10.2} {unit}\n\
         \tPlimsoll: fairness (Jain's index) \t\t= {fairness:10.4}\n"
    );
}

/// Jain's index of fairness (Jain, Chiu, Hawe 1984): 1 when all rates are alike, `1/n` when one
/// has everything, 0 when nothing was done.
fn fairness(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    ratio(sum * sum, rates.len() as f64 * squares)
}

#[cfg(test)]
mod tests {
    use crate::parts::tests::{built, result, worker};

    use super::*;

    fn text_of(given: &[(&str, &str)], phases: &[PhaseResult]) -> Option<String> {
        crate::text(&built(NAME, given).classic?, phases)
    }

    /// Two children: 1000 KiB in 1 s, 500 KiB in 2 s; the parent waited 2.5 s.
    fn phase(name: &str) -> PhaseResult {
        let mut phase = result(name, 2.5, &[]);
        phase.workers = vec![
            worker(0.0, 1.0, 250, 1000 << 10),
            worker(0.25, 2.25, 125, 500 << 10),
        ];
        phase
    }

    /// Value and unit behind the equals sign of the line that begins with these words.
    fn field<'a>(text: &'a str, words: &str) -> Vec<&'a str> {
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with(words));
        let (_, value) = line.and_then(|line| line.split_once('=')).unwrap();
        value.split_whitespace().collect()
    }

    #[test]
    fn figures_follow_the_definitions_of_the_original() {
        let phases = [phase("read")];
        for (options, unit, expect) in [
            (
                &[("i", "1"), ("+n", "on"), ("t", "2")][..],
                "kB",
                [1250.0, 600.0, 250.0, 1000.0, 625.0, 500.0],
            ),
            (
                &[("i", "1"), ("+n", "on"), ("t", "2"), ("O", "on")],
                "ops",
                [312.5, 150.0, 62.5, 250.0, 156.25, 125.0],
            ),
        ] {
            let text = text_of(options, &phases).unwrap();
            for (words, value, per) in [
                ("Children see throughput for  2 readers", expect[0], "/sec"),
                ("Parent sees throughput for  2 readers", expect[1], "/sec"),
                ("Min throughput per process", expect[2], "/sec"),
                ("Max throughput per process", expect[3], "/sec"),
                ("Avg throughput per process", expect[4], "/sec"),
                ("Min xfer", expect[5], ""),
            ] {
                let unit = format!("{unit}{per}");
                assert_eq!(
                    field(&text, words),
                    [format!("{value:.2}"), unit],
                    "{words}"
                );
            }
            // (1250)^2 / (2 * (1000^2 + 250^2))
            assert_eq!(field(&text, "Plimsoll: fairness"), ["0.7353"]);
        }
    }

    #[test]
    fn the_layout_is_that_of_the_original() {
        let given = [("i", "0"), ("+n", "on"), ("t", "2"), ("s", "1000")];
        let text = text_of(&given, &[phase("write")]).unwrap();
        let expect = "\
\tRecord Size 4 kB
\tFile size set to 1000 kB
\tThroughput test with 2 processes
\tEach process writes a 1000 kByte file in 4 kByte records

\tChildren see throughput for  2 initial writers \t=    1250.00 kB/sec
\tParent sees throughput for  2 initial writers \t=     600.00 kB/sec
\tMin throughput per process \t\t\t=     250.00 kB/sec\x20
\tMax throughput per process \t\t\t=    1000.00 kB/sec
\tAvg throughput per process \t\t\t=     625.00 kB/sec
\tMin xfer \t\t\t\t\t=     500.00 kB
\tPlimsoll: fairness (Jain's index) \t\t=     0.7353
";
        assert_eq!(text, expect);
    }

    #[test]
    fn the_number_of_children_has_the_places_it_has_in_the_original() {
        let given = [("i", "1"), ("i", "2"), ("t", "2")];
        let names = ["read", "reread", "random_read", "random_write"];
        let phases: Vec<PhaseResult> = names.map(phase).into();
        let text = text_of(&given, &phases).unwrap();
        for expect in [
            "throughput for  2 readers \t\t=",
            "throughput for 2 re-readers \t=",
            "throughput for 2 random readers \t=",
            "throughput for 2 random writers \t=",
        ] {
            assert!(text.contains(expect), "{expect}: {text}");
        }
    }

    #[test]
    fn without_a_number_of_children_it_is_the_table_of_a_single_file() {
        let given = [("i", "0"), ("i", "2"), ("s", "1000")];
        let names = ["write", "rewrite", "random_read", "random_write"];
        let phases: Vec<PhaseResult> = names.map(phase).into();
        let text = text_of(&given, &phases).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let [above, heading, row] = lines[..] else {
            panic!("{text}");
        };
        let at = |line: &str, word: &str| line.find(word).map(|start| start + word.len());
        assert_eq!(at(above, "random"), Some(16 + 8 + 5 * 10));
        let words: Vec<&str> = heading.split_whitespace().collect();
        let tests = ["write", "rewrite", "read", "reread", "read", "write"];
        assert_eq!(words, [&["kB", "reclen"][..], &tests].concat());
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["1000", "4", "1000", "1000", "1000", "1000"]);
        // Columns of tests that were not asked for stay empty.
        assert_eq!(row.len(), 16 + 8 + 6 * 10);
        assert!(row[44..64].trim().is_empty(), "{row}");
    }

    #[test]
    fn results_that_are_not_whole_give_no_text() {
        let given = [("i", "0"), ("t", "2")];
        assert!(text_of(&given, &[phase("write")]).is_none());
        assert!(text_of(&given, &[phase("write"), phase("rewrite")]).is_some());
        assert!(text_of(&given, &[phase("write"), result("rewrite", 1.0, &[])]).is_none());
    }

    #[test]
    fn fairness_is_one_for_equals_and_small_for_one_who_has_all() {
        for (rates, expect) in [
            (&[5.0, 5.0, 5.0][..], 1.0),
            (&[9.0, 0.0, 0.0, 0.0], 0.25),
            (&[0.0, 0.0], 0.0),
        ] {
            assert!((fairness(rates) - expect).abs() < 1e-12, "{rates:?}");
        }
    }
}
