// SPDX-License-Identifier: Apache-2.0
//! Tables with values that are unknown, and with lines of any length.

use plimsoll_core::rng::{Rng, Seed};
use plimsoll_trace::counters::CounterFile;
use plimsoll_trace::{CounterSource, DiskMetric};

const ROWS: u64 = 40;
const EACH: u64 = 60;

/// Rows of one disk: time, counters of reads and their bytes, and writes a second.
fn rows() -> Vec<[String; 4]> {
    let row = |n: u64| {
        let reads = 1_000 + 37 * n;
        [1_795_220_132 + n, reads, 4096 * reads, 10 + n % 3].map(|value| value.to_string())
    };
    (0..ROWS).map(row).collect()
}

const NAMES: [&str; 4] = ["time", "reads_total", "read_bytes_total", "writes/s"];

fn csv(rows: &[[String; 4]]) -> String {
    let lines = rows.iter().map(|row| row.join(",") + "\n");
    NAMES.join(",") + "\n" + &lines.collect::<String>()
}

fn json(rows: &[[String; 4]]) -> String {
    let object = |row: &[String; 4]| {
        let pairs = NAMES
            .iter()
            .zip(row)
            .map(|(name, value)| format!("\"{name}\":{value}"));
        format!("{{{}}}\n", pairs.collect::<Vec<_>>().join(","))
    };
    rows.iter().map(object).collect()
}

/// Figures that count, and messages: warnings, damage, or the reason of a refusal.
fn read(text: &[u8]) -> ([f64; 3], String) {
    let file = match CounterFile::from_bytes("sda.csv", text.to_vec()) {
        Ok(file) => file,
        Err(error) => return ([f64::NAN; 3], error.to_string()),
    };
    let span = file.times().span();
    let series = file.several(&file.disks(), &span);
    let series = series.unwrap();
    let mut told: Vec<String> = series
        .iter()
        .flat_map(|series| series.warnings.clone())
        .collect();
    told.extend(file.damage().map(ToString::to_string));
    // Profiles say how many intervals do not count.
    let columns = series.iter().flat_map(|series| &series.columns);
    let dropped: u64 = columns.map(plimsoll_trace::MetricSeries::dropped).sum();
    told.extend((dropped > 0).then(|| format!("{dropped} intervals were left out")));
    let wanted = [DiskMetric::Reads, DiskMetric::ReadBytes, DiskMetric::Writes];
    let whole = wanted.map(|metric| {
        let averages = series.iter().filter_map(|series| series.averages(metric));
        averages.map(|averages| averages.whole).sum()
    });
    (whole, told.join("; "))
}

fn is_same(found: [f64; 3], expect: [f64; 3]) -> bool {
    let mut pairs = found.iter().zip(expect);
    pairs.all(|(a, b)| (a - b).abs() < 1e-6 * b)
}

/// Whether there is a warning beside the one that every table with such times gets.
fn is_told(told: &str) -> bool {
    told.split("; ")
        .any(|sentence| !sentence.is_empty() && !sentence.starts_with("its times are whole"))
}

fn any_row(rng: &mut Rng) -> usize {
    usize::try_from(1 + rng.below(ROWS - 2)).unwrap()
}

#[test]
fn what_is_unknown_in_a_row_is_counted_until_the_next() {
    let (expect, _) = read(csv(&rows()).as_bytes());
    let mut rng = Rng::new(Seed(3));
    for _ in 0..EACH {
        let mut damaged = rows();
        let at = any_row(&mut rng);
        damaged[at][1..3].fill("NaN".into());
        let (found, _) = read(csv(&damaged).as_bytes());
        assert!(is_same(found, expect), "{found:?}");
    }
}

#[test]
fn gigantic_lines_are_refused_in_bounded_memory() {
    for text in [csv(&rows()), json(&rows())] {
        let huge = text.replacen("1037", &"9".repeat(80 << 20), 1);
        let (found, told) = read(huge.as_bytes());
        assert!(
            found.iter().all(|value| value.is_nan()) || is_told(&told),
            "{found:?}"
        );
    }
}
