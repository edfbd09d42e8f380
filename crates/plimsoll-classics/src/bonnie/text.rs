// SPDX-License-Identifier: Apache-2.0
//! Results as bonnie++ 2.00 prints them: the table for the screen and the CSV line of format 1.98.

use std::fmt::Write as _;

use plimsoll_core::event::{OpStats, PhaseResult};
use plimsoll_core::num::floor_u64;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;
use plimsoll_core::workload::series::ClassicProgram;

use super::{BonnieOptions, CHUNK, NAME, SEEKERS, SEEKS, SETTINGS};
use crate::parts::{KIB, bytes, done, end_line, find, per_second};
use plimsoll_core::settings::SettingValues;

/// A phase that is over sooner gives no number.
const SHORTEST: Nanos = Nanos(500_000_000);
/// Width of the name and the size in front of a row.
const NAME_WIDTH: usize = 19;

const BYTE_PHASES: [&str; 2] = ["putc", "getc"];
const LARGE: [&str; 6] = ["putc", "put_block", "rewrite", "getc", "get_block", "seeks"];
const SMALL: [&str; 6] = [
    "seq_create",
    "seq_stat",
    "seq_del",
    "ran_create",
    "ran_stat",
    "ran_del",
];

/// The figures of one phase.
struct BonnieFigure {
    kind: FigureKind,
    /// KiB, seeks or files per second.
    per_s: f64,
    /// Processor time of the workers in percent of the wall time.
    cpu_percent: u64,
    longest: Nanos,
    is_short: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum FigureKind {
    KiB,
    Seeks,
    Files,
}

/// The table and below it the CSV line, phases that are missing left empty (the run was cut short);
/// `None` when all are.
pub(crate) fn text(classic: &ClassicProgram, phases: &[PhaseResult]) -> Option<String> {
    let settings = SettingValues::new(NAME, SETTINGS, &classic.settings).ok()?;
    let shape = BonnieOptions::read(&settings).ok()?;
    let large = figures(&LARGE, shape.size_mib > 0, shape.byte_mib > 0, phases);
    let small = figures(&SMALL, shape.number > 0, true, phases);
    if large.iter().chain(&small).all(Option::is_none) {
        return None;
    }
    let mut out = String::new();
    if shape.size_mib > 0 {
        large_table(&mut out, &shape, &large);
    }
    if shape.number > 0 {
        small_table(&mut out, &shape, &small);
    }
    out.push_str(&csv(&shape, &large, &small));
    out.push('\n');
    Some(out)
}

/// One place for each name; empty where the phase was not asked for or has not run.
fn figures(
    names: &[&str],
    wanted: bool,
    byte_tests: bool,
    phases: &[PhaseResult],
) -> Vec<Option<BonnieFigure>> {
    let figure = |name: &&str| {
        if !wanted || (!byte_tests && BYTE_PHASES.contains(name)) {
            return None;
        }
        find(phases, name).map(|phase| BonnieFigure::of(name, phase))
    };
    names.iter().map(figure).collect()
}

impl BonnieFigure {
    fn of(name: &str, phase: &PhaseResult) -> Self {
        let stats = &phase.stats;
        let (kind, amount) = match name {
            // Bytes that are read belong to the same file: only bytes written count.
            "putc" | "put_block" | "rewrite" => {
                (FigureKind::KiB, bytes(stats, OpKind::Write) / KIB)
            }
            "getc" | "get_block" => (FigureKind::KiB, bytes(stats, OpKind::Read) / KIB),
            // An update begins with a read: reads count the seeks.
            "seeks" => (FigureKind::Seeks, done(stats, OpKind::Read)),
            "seq_create" | "ran_create" => (FigureKind::Files, done(stats, OpKind::Create)),
            "seq_stat" | "ran_stat" => (FigureKind::Files, done(stats, OpKind::Stat)),
            _ => (FigureKind::Files, done(stats, OpKind::Delete)),
        };
        let cpu_ns = (phase.user_cpu_ns + phase.system_cpu_ns) as f64;
        BonnieFigure {
            kind,
            per_s: per_second(amount, phase.wall),
            cpu_percent: floor_u64(per_second(cpu_ns / 1e7, phase.wall)),
            longest: longest(stats, kind),
            is_short: phase.wall < SHORTEST,
        }
    }

    fn rate(&self) -> String {
        match self.kind {
            _ if self.is_short => "+++++".into(),
            FigureKind::Seeks if self.per_s < 1000.0 => format!("{:.1}", self.per_s),
            _ => floor_u64(self.per_s).to_string(),
        }
    }

    /// The rate in the five places of the table.
    fn rate_on_screen(&self) -> String {
        if self.kind == FigureKind::KiB && !self.is_short {
            return kib_on_screen(floor_u64(self.per_s));
        }
        self.rate()
    }

    fn cpu(&self) -> String {
        if self.is_short {
            return "+++".into();
        }
        self.cpu_percent.to_string()
    }
}

/// Longest single operation of those that the phase is about; not what ended it.
fn longest(stats: &OpStats, kind: FigureKind) -> Nanos {
    let counted = |of: &OpKind| match kind {
        FigureKind::KiB | FigureKind::Seeks => of.is_read() || of.is_write(),
        FigureKind::Files => *of != OpKind::SyncAll,
    };
    let of_kind = stats.0.iter().filter(|(of, _)| counted(of));
    let longest = of_kind.map(|(_, stats)| stats.service.max_ns()).max();
    Nanos(longest.unwrap_or(0))
}

/// `9999k`, `97.7m`, `427m`, `1.2g`.
fn kib_on_screen(kib_per_s: u64) -> String {
    let (kib, mib) = (kib_per_s as f64, kib_per_s as f64 / 1024.0);
    match kib_per_s {
        0..10_000 => format!("{kib_per_s}k"),
        10_000..102_400 => format!("{mib:.1}m"),
        102_400..1_024_000 => format!("{mib:.0}m"),
        _ => format!("{:.1}g", kib / 1024.0 / 1024.0),
    }
}

/// Microseconds below 0.1 s, milliseconds below 100 s, seconds above.
fn time(time: Nanos) -> String {
    let us = time.0 / 1000;
    match us {
        0..100_000 => format!("{us}us"),
        100_000..100_000_000 => format!("{}ms", us / 1000),
        _ => format!("{}s", us / 1_000_000),
    }
}

fn large_table(out: &mut String, shape: &BonnieOptions, figures: &[Option<BonnieFigure>]) {
    out.push_str(
        "Version 2.00a       ------Sequential Output------ --Sequential Input- --Random-\n",
    );
    out.push_str(
        "                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--\n",
    );
    out.push_str(
        "Name:Size etc        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP\n",
    );
    let size = large_label(shape);
    let room = NAME_WIDTH.saturating_sub(size.len() + 1);
    let name: String = shape.machine.chars().take(room).collect();
    let size_width = NAME_WIDTH.saturating_sub(name.chars().count());
    row(out, &format!("{name}{size:>size_width$}"), figures);
    longest_row(out, figures);
}

/// The size with what is not as by default: `64M:512:2:100:3` for chunk, copies, seeks, seekers.
fn large_label(shape: &BonnieOptions) -> String {
    let unless = |is_default: bool, text: String| if is_default { String::new() } else { text };
    let parts = [
        size(shape.size_mib),
        unless(
            shape.chunk_bytes == CHUNK,
            short_bytes(shape.chunk_bytes.into()),
        ),
        unless(shape.concurrency == 1, shape.concurrency.to_string()),
        unless(shape.seeks == SEEKS, shape.seeks.to_string()),
        unless(shape.seekers == SEEKERS, shape.seekers.to_string()),
    ];
    parts.join(":").trim_end_matches(':').to_owned()
}

fn size(mib: u64) -> String {
    if mib > 0 && mib.is_multiple_of(1024) {
        return format!("{}G", mib / 1024);
    }
    format!("{mib}M")
}

fn short_bytes(bytes: u64) -> String {
    if bytes > 0 && bytes.is_multiple_of(1024) {
        return format!("{}k", bytes / 1024);
    }
    bytes.to_string()
}

fn small_table(out: &mut String, shape: &BonnieOptions, figures: &[Option<BonnieFigure>]) {
    out.push_str(
        "Version 2.00a       ------Sequential Create------ --------Random Create--------\n",
    );
    let name: String = shape.machine.chars().take(NAME_WIDTH).collect();
    let kinds = "-Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--";
    let _ = writeln!(out, "{name:NAME_WIDTH$} {kinds}");
    let label = small_label(shape);
    // The original sets the number to the right, and what has more than it to the left.
    let heading = match (label.contains(':'), shape.min_bytes) {
        (false, _) => format!("{:>NAME_WIDTH$}", "files"),
        (true, 0) => format!("{:NAME_WIDTH$}", "files:max"),
        (true, _) => format!("{:NAME_WIDTH$}", "files:max:min"),
    };
    let _ = write!(out, "{heading} ");
    out.push_str(" /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP\n");
    row(out, &format!("{label:>NAME_WIDTH$}"), figures);
    longest_row(out, figures);
}

/// `16`, or with sizes and directories `2:1000:10/4`, and the chunk when it is not the default.
fn small_label(shape: &BonnieOptions) -> String {
    let mut label = shape.number.to_string();
    let has_chunk = shape.file_chunk_bytes != CHUNK;
    if shape.max_bytes > 0 || shape.directories > 1 || has_chunk {
        let _ = write!(label, ":{}:{}", shape.max_bytes, shape.min_bytes);
    }
    if shape.directories > 1 || has_chunk {
        let _ = write!(label, "/{}", shape.directories);
    }
    if has_chunk {
        let _ = write!(label, ":{}", shape.file_chunk_bytes);
    }
    label
}

fn row(out: &mut String, front: &str, figures: &[Option<BonnieFigure>]) {
    out.push_str(front);
    for figure in figures {
        let (rate, cpu) = match figure {
            Some(figure) => (figure.rate_on_screen(), figure.cpu()),
            None => (String::new(), String::new()),
        };
        let _ = write!(out, " {rate:>5} {cpu:>3}");
    }
    end_line(out);
}

fn longest_row(out: &mut String, figures: &[Option<BonnieFigure>]) {
    out.push_str("Latency          ");
    for figure in figures {
        let longest = figure.as_ref().map_or(String::new(), |f| time(f.longest));
        let _ = write!(out, "{longest:>10}");
    }
    end_line(out);
}

/// The 50 fields of format 1.98, in the order of bonnie++'s own readers.
fn csv(
    shape: &BonnieOptions,
    large: &[Option<BonnieFigure>],
    small: &[Option<BonnieFigure>],
) -> String {
    let unless = |is_empty: bool, text: String| if is_empty { String::new() } else { text };
    let (no_large, no_small) = (shape.size_mib == 0, shape.number == 0);
    let or_zero = |value: u64| unless(no_small || value == 0, value.to_string());
    let mut fields = vec![
        "1.98".into(),
        "2.00".into(),
        // A comma would begin another field.
        shape.machine.replace(',', " "),
        shape.concurrency.to_string(),
        shape.seed.replace(',', " "),
        unless(no_large, size(shape.size_mib)),
        unless(
            no_large || shape.chunk_bytes == CHUNK,
            shape.chunk_bytes.to_string(),
        ),
        unless(no_large, shape.seeks.to_string()),
        unless(no_large, shape.seekers.to_string()),
    ];
    fields.extend(large.iter().flat_map(rate_and_cpu));
    fields.extend([
        unless(no_small, shape.number.to_string()),
        or_zero(shape.max_bytes),
        or_zero(shape.min_bytes),
        unless(
            no_small || shape.directories == 1,
            shape.directories.to_string(),
        ),
        unless(
            no_small || shape.file_chunk_bytes == CHUNK,
            shape.file_chunk_bytes.to_string(),
        ),
    ]);
    fields.extend(small.iter().flat_map(rate_and_cpu));
    let longest =
        |figure: &Option<BonnieFigure>| figure.as_ref().map_or(String::new(), |f| time(f.longest));
    fields.extend(large.iter().chain(small).map(longest));
    fields.join(",")
}

fn rate_and_cpu(figure: &Option<BonnieFigure>) -> [String; 2] {
    match figure {
        Some(figure) => [figure.rate(), figure.cpu()],
        None => [String::new(), String::new()],
    }
}

#[cfg(test)]
mod tests {
    use crate::parts::tests::{built, result};

    use super::*;

    fn text_of(given: &[(&str, &str)], phases: &[PhaseResult]) -> Option<String> {
        let classic = built(NAME, given).classic?;
        crate::text(&classic, phases)
    }

    /// Results whose figures are easy to work out by hand.
    fn results() -> Vec<PhaseResult> {
        let mib = 1 << 20;
        let mut phases = vec![
            // 2 MiB one byte at a time, counted here as two operations.
            result(
                "putc",
                1.0,
                &[(OpKind::Write, 2, mib, 429), (OpKind::Fsync, 1, 0, 900_000)],
            ),
            result("put_block", 0.5, &[(OpKind::Write, 64, mib, 150_000)]),
            result(
                "rewrite",
                2.0,
                &[(OpKind::Read, 64, mib, 10), (OpKind::Write, 64, mib, 20)],
            ),
            result("getc", 0.5, &[(OpKind::Read, 2, mib, 256)]),
            result("get_block", 0.01, &[(OpKind::Read, 64, mib, 101)]),
            result(
                "seeks",
                4.0,
                &[(OpKind::Read, 100, 512, 3098), (OpKind::Write, 10, 512, 1)],
            ),
        ];
        phases[1].user_cpu_ns = 100_000_000;
        phases[1].system_cpu_ns = 400_000_000;
        for (name, kind) in [
            ("seq_create", OpKind::Create),
            ("seq_stat", OpKind::Stat),
            ("seq_del", OpKind::Delete),
            ("ran_create", OpKind::Create),
            ("ran_stat", OpKind::Stat),
            ("ran_del", OpKind::Delete),
        ] {
            let list = [(kind, 2048, 0, 37), (OpKind::SyncAll, 1, 0, 5_000_000)];
            phases.push(result(name, 2.0, &list));
        }
        phases[8].stats = crate::parts::tests::stats(&[(OpKind::Delete, 2048, 0, 150_000_000)]);
        phases
    }

    const GIVEN: [(&str, &str); 5] = [
        ("s", "64:512:100"),
        ("f", "2"),
        ("n", "2:1000:10:4"),
        ("m", "vm"),
        ("z", "7"),
    ];

    #[test]
    fn the_table_has_the_layout_of_the_original() {
        let text = text_of(&GIVEN, &results()).unwrap();
        let expect = "\
Version 2.00a       ------Sequential Output------ --Sequential Input- --Random-
                    -Per Chr- --Block-- -Rewrite- -Per Chr- --Block-- --Seeks--
Name:Size etc        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
vm     64M:512::100 2048k   0  128m 100 32.0m   0 4096k   0 +++++ +++  25.0   0
Latency               429us     150ms      20us     256us     101us    3098us
Version 2.00a       ------Sequential Create------ --------Random Create--------
vm                  -Create-- --Read--- -Delete-- -Create-- --Read--- -Delete--
files:max:min        /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP  /sec %CP
        2:1000:10/4  1024   0  1024   0  1024   0  1024   0  1024   0  1024   0
Latency                37us      37us      150s      37us      37us      37us
";
        let table = text.split("1.98,").next().unwrap();
        assert_eq!(table.replace('\n', "|\n"), expect.replace('\n', "|\n"));
    }

    #[test]
    fn the_csv_line_has_its_fifty_fields() {
        let text = text_of(&GIVEN, &results()).unwrap();
        let line = text.lines().last().unwrap();
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), 50);
        assert_eq!(
            fields[..9],
            ["1.98", "2.00", "vm", "1", "7", "64M", "512", "100", "5"]
        );
        assert_eq!(fields[9..15], ["2048", "0", "131072", "100", "32768", "0"]);
        assert_eq!(fields[15..21], ["4096", "0", "+++++", "+++", "25.0", "0"]);
        assert_eq!(fields[21..26], ["2", "1000", "10", "4", ""]);
        assert_eq!(fields[26..38], ["1024", "0"].repeat(6));
        assert_eq!(
            fields[38..44],
            ["429us", "150ms", "20us", "256us", "101us", "3098us"]
        );
        assert_eq!(
            fields[44..],
            ["37us", "37us", "150s", "37us", "37us", "37us"]
        );
    }

    #[test]
    fn what_was_left_out_or_is_missing_is_empty() {
        let phases = results();
        let without = text_of(&[("s", "64"), ("n", "0"), ("f", "0")], &phases[..6]).unwrap();
        assert!(!without.contains("Create"), "{without}");
        let line = without.lines().last().unwrap();
        assert_eq!(line.split(',').count(), 50);
        assert!(
            line.contains(",64M,,8192,5,,,131072,100,32768,0,,,"),
            "{line}"
        );
        let cut = text_of(&GIVEN, &phases[..11]).unwrap();
        let line = cut.lines().last().unwrap();
        assert_eq!(line.split(',').count(), 50);
        assert!(line.ends_with("37us,37us,150s,37us,37us,"), "{line}");
        assert!(text_of(&GIVEN, &[]).is_none());
    }

    #[test]
    fn numbers_change_their_units_where_the_original_does() {
        for (kib_per_s, expect) in [
            (9_999, "9999k"),
            (10_000, "9.8m"),
            (102_399, "100.0m"),
            (102_400, "100m"),
            (437_075, "427m"),
            (1_023_999, "1000m"),
            (1_024_000, "1.0g"),
            (2_323_521, "2.2g"),
        ] {
            assert_eq!(kib_on_screen(kib_per_s), expect);
        }
        for (us, expect) in [
            (99_999, "99999us"),
            (100_000, "100ms"),
            (99_999_999, "99999ms"),
            (100_000_000, "100s"),
        ] {
            assert_eq!(time(Nanos(us * 1000)), expect);
        }
    }
}
