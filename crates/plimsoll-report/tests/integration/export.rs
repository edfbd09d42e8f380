// SPDX-License-Identifier: Apache-2.0
//! Exported values are the measured ones: every format is read back, by our own readers and by the
//! libraries that people use (`export/read_back.py`, with the Python that `scripts/setup.sh test`
//! makes).

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Size, results};
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use plimsoll_core::comparison::ComparisonVerdict;
use plimsoll_core::event::{RunFolderContents, TrialTimeBin};
use plimsoll_core::text::{is_unprintable, printable};
use plimsoll_report::{ReportExportFormat, export};

const TINY: Size = Size {
    arms: 2,
    workloads: 1,
    blocks: 2,
    seconds: 2,
    busy: 0.7,
};

/// Names with a formula, markup and control characters.
const EVIL_ARM: &str = "=cmd|' /C calc'!A0,\"<b>\u{202e}\u{1b}[2J\n`@x`";
const EVIL_WORKLOAD: &str = "-1+<img src=x onerror=alert(1)>|]]>&amp;\u{9b}#1 \u{fffe}";

/// A run whose second system and whose workload have such names.
fn evil() -> RunFolderContents {
    let mut run = results(TINY);
    let old = run.manifest.arms[2].name.clone();
    let label = run.manifest.entries[0].label.clone();
    run.manifest.arms[2].name = EVIL_ARM.into();
    run.manifest.entries[0].label = EVIL_WORKLOAD.into();
    run.manifest.command.push(EVIL_ARM.into());
    run.warnings[0].text = EVIL_WORKLOAD.into();
    for trial in &mut run.trials {
        if trial.trial.arm == old {
            trial.trial.arm = EVIL_ARM.into();
        }
        assert_eq!(trial.trial.workload, label);
        trial.trial.workload = EVIL_WORKLOAD.into();
    }
    run.comparisons = plimsoll_stats::compare_all(&run.manifest, &run.trials);
    run
}

fn text(format: ReportExportFormat, run: &RunFolderContents) -> String {
    String::from_utf8(export(format, run).unwrap()).unwrap()
}

/// Every second with what must be found of it: place, second, operations, bytes, errors, p50, p99, maximum.
fn seconds(run: &RunFolderContents) -> Vec<(u32, &TrialTimeBin)> {
    let by_place = run.intervals.iter();
    by_place
        .flat_map(|(place, bins)| bins.iter().map(|bin| (*place, bin)))
        .collect()
}

#[test]
fn json_is_read_back_and_is_as_it_was() {
    let run = results(Size {
        blocks: 2,
        seconds: 1,
        busy: 0.2,
        ..TINY
    });
    let found = text(ReportExportFormat::Json, &run);
    let pretty: serde_json::Value = serde_json::from_str(&found).unwrap();
    let pretty = serde_json::to_string_pretty(&pretty).unwrap();
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots"),
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!("export.json", pretty);
    });
    let run = evil();
    let found = text(ReportExportFormat::Json, &run);
    assert!(!found.trim_end().chars().any(is_unprintable));
    let read: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(read["arms"][2]["name"], EVIL_ARM);
    assert_eq!(read["workloads"][0]["label"], EVIL_WORKLOAD);
    let trials = read["trials"].as_array().unwrap();
    assert_eq!(trials.len(), run.trials.len());
    for (trial, of) in trials.iter().zip(&run.trials) {
        for (kind, stats) in &of.stats.0 {
            let found = &trial["kinds"][kind.name()];
            let figures = ["ops", "bytes", "errors"].map(|figure| found[figure].as_u64().unwrap());
            assert_eq!(figures, [stats.ops(), stats.bytes, stats.errors]);
            assert_eq!(found["response_ns"]["max"], stats.response.max_ns());
        }
        let seconds = trial["intervals"].as_array().unwrap().iter();
        let kinds = seconds.flat_map(|second| second["kinds"].as_object().unwrap().values());
        let in_seconds: u64 = kinds.map(|kind| kind["ops"].as_u64().unwrap()).sum();
        assert_eq!(in_seconds, of.stats.ops());
    }
}

#[test]
fn tables_have_a_row_for_each_second_and_kind() {
    let run = results(TINY);
    let csv = text(ReportExportFormat::Csv, &run);
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|title| *title == name).unwrap();
    let (place, kind, t, ops, max) = (
        column("place"),
        column("kind"),
        column("t_s"),
        column("ops"),
        column("response_max_s"),
    );
    let all: Vec<_> = rows.iter().filter(|row| row[kind] == "all").collect();
    let expect = seconds(&run);
    assert_eq!(all.len(), expect.len());
    assert_eq!(rows.len(), 1 + 3 * expect.len(), "reads, writes, all");
    for (row, (at, bin)) in all.iter().zip(&expect) {
        assert_eq!(row[place], at.to_string());
        assert_eq!(row[t], bin.start.as_secs_f64().to_string());
        assert_eq!(row[ops], bin.response.count().to_string());
        let max_s = bin.response.max_ns() as f64 / 1e9;
        assert!((row[max].parse::<f64>().unwrap() - max_s).abs() < 1e-12);
    }
    let parquet = export(ReportExportFormat::Parquet, &run).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), parquet).unwrap();
    let reader = SerializedFileReader::new(file.reopen().unwrap()).unwrap();
    let read: Vec<_> = reader
        .get_row_iter(None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(read.len() + 1, rows.len());
    for (row, line) in read.iter().zip(&rows[1..]) {
        assert_eq!(row.get_string(kind).unwrap(), line[kind]);
        assert_eq!(row.get_long(ops).unwrap().to_string(), line[ops]);
        let p99 = column("response_p99_s");
        let found = row.get_double(p99).ok().map(|number| number.to_string());
        assert_eq!(
            found.unwrap_or_default(),
            line[p99],
            "a hole is a hole in both"
        );
    }
}

#[test]
fn the_log_of_histograms_holds_every_operation() {
    let run = results(TINY);
    let log = export(ReportExportFormat::HistogramLog, &run).unwrap();
    let text = String::from_utf8(log.clone()).unwrap();
    assert!(
        text.contains("#[StartTime: 1775027564.000 "),
        "{}",
        &text[..300]
    );
    let mut deserializer = Deserializer::new();
    let mut found = Vec::new();
    for entry in IntervalLogIterator::new(&log) {
        let LogEntry::Interval(line) = entry.unwrap() else {
            continue;
        };
        let packed = base64(line.encoded_histogram());
        let histogram: hdrhistogram::Histogram<u64> =
            deserializer.deserialize(&mut &packed[..]).unwrap();
        found.push((line.tag().unwrap().as_str().to_owned(), histogram));
    }
    let expect: Vec<_> = (run.trials.iter())
        .flat_map(|trial| {
            let bins = &run.intervals[&trial.trial.place];
            bins.iter().map(move |bin| (&trial.trial, bin))
        })
        .collect();
    assert_eq!(found.len(), expect.len());
    for ((tag, histogram), (trial, bin)) in found.iter().zip(expect) {
        let name = format!("{}/{}", trial.arm, trial.workload).replace(' ', "_");
        assert_eq!(*tag, name);
        assert_eq!(histogram.len(), bin.response.count());
        for q in [0.5, 0.9, 0.99] {
            let (found, ours) = (histogram.value_at_quantile(q), bin.response.quantile_ns(q));
            let off = (found as f64 / ours as f64 - 1.0).abs();
            assert!(off < 1e-3, "{q}: {found} {ours}");
        }
    }
}

/// Bytes of a text in base 64.
fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.bytes().filter(|byte| *byte != b'=');
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0_u32, 0);
    for digit in digits {
        let value = DIGITS.iter().position(|known| *known == digit).unwrap();
        held = (held << 6 | u32::try_from(value).unwrap()) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).unwrap());
        }
    }
    bytes
}

#[test]
fn a_gate_fails_skips_and_breaks_as_the_verdicts_say() {
    let mut run = results(TINY);
    for (verdict, times, counts) in [
        (
            ComparisonVerdict::Different,
            3.0,
            "failures=\"1\" errors=\"0\" skipped=\"0\"",
        ),
        (
            ComparisonVerdict::Different,
            0.3,
            "failures=\"0\" errors=\"0\" skipped=\"0\"",
        ),
        (
            ComparisonVerdict::Equivalent,
            1.0,
            "failures=\"0\" errors=\"0\" skipped=\"0\"",
        ),
        (
            ComparisonVerdict::Inconclusive,
            1.1,
            "failures=\"0\" errors=\"0\" skipped=\"1\"",
        ),
    ] {
        run.comparisons.retain(|row| !row.is_control);
        let row = &mut run.comparisons[0];
        row.verdict = verdict;
        let ratio = row.ratio.as_mut().unwrap();
        (ratio.estimate, ratio.low, ratio.high) = (times, times * 0.9, times * 1.1);
        let xml = text(ReportExportFormat::JUnit, &run);
        assert!(xml.contains(counts), "{verdict:?}: {xml}");
    }
    run.trials[0].failed = Some("no space".into());
    let xml = text(ReportExportFormat::JUnit, &run);
    assert!(xml.contains("operations failed in 1 of 2 trials"), "{xml}");
}

#[test]
fn markdown_answers_first_and_shows_names_as_they_are() {
    let run = results(TINY);
    let plain = text(ReportExportFormat::Markdown, &run);
    let second = plain.lines().nth(2).unwrap();
    assert!(second.starts_with("**"), "{second}");
    let times = plain.contains("2026-04-01T09:12:44+02:00") && !plain.contains("\\.");
    assert!(times, "what needs no escape has none: {plain}");
    for part in [
        "| workload | system |",
        "### What to doubt",
        "```sh\nplimsoll compare",
        "<details>",
    ] {
        assert!(plain.contains(part), "{part}");
    }
    let evil = text(ReportExportFormat::Markdown, &evil());
    assert!(!evil.chars().any(|c| is_unprintable(c) && c != '\n'));
    let outside = evil.split("```").step_by(2).collect::<String>();
    for markup in ["<b>", "<img", "`@x`", "|]]", " @x"] {
        assert!(!outside.contains(markup), "{markup}: {outside}");
    }
}

#[test]
fn evil_names_stay_text_in_every_format() {
    let run = evil();
    for format in [
        ReportExportFormat::Csv,
        ReportExportFormat::TrialsCsv,
        ReportExportFormat::HistogramLog,
        ReportExportFormat::JUnit,
    ] {
        let found = text(format, &run);
        let odd = found.chars().find(|c| is_unprintable(*c) && *c != '\n');
        assert_eq!(odd, None, "{}", format.name());
        assert!(
            !found.contains("<img")
                || format.suffix().ends_with("csv")
                || format.suffix() == ".hlog"
        );
    }
    let csv = text(ReportExportFormat::TrialsCsv, &run);
    assert!(csv.contains(",\"'=cmd|' /C calc'!A0,\"\"<b>"), "{csv}");
    assert!(csv.contains(",'-1+<img"), "{csv}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Measured values, for the readers of other languages to find again.
fn expected(run: &RunFolderContents) -> serde_json::Value {
    let quantile = |bin: &TrialTimeBin, q: f64| {
        bin.response
            .supports_quantile(q)
            .then(|| bin.response.quantile_ns(q))
    };
    let rows = run.trials.iter().flat_map(|trial| {
        let bins = &run.intervals[&trial.trial.place];
        bins.iter().map(move |bin| {
            serde_json::json!({
                "place": trial.trial.place,
                "arm": printable(&trial.trial.arm),
                "workload": printable(&trial.trial.workload),
                "t_s": bin.start.as_secs_f64(),
                "ops": bin.response.count(),
                "bytes": bin.kinds.values().map(|kind| kind.bytes).sum::<u64>(),
                "p50_ns": quantile(bin, 0.5),
                "p99_ns": quantile(bin, 0.99),
                "max_ns": bin.response.max_ns(),
            })
        })
    });
    let trials = run.trials.iter().map(|trial| {
        serde_json::json!({
            "place": trial.trial.place,
            "arm": printable(&trial.trial.arm),
            "ops": trial.stats.ops(),
            "bytes": trial.stats.bytes(),
            "p99_ns": trial.stats.response().quantile_ns(0.99),
        })
    });
    serde_json::json!({
        "seconds": rows.collect::<Vec<_>>(),
        "trials": trials.collect::<Vec<_>>(),
    })
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who reads the files"
)]
fn libraries_that_people_use_read_the_same() {
    let python = root().join("target/python/bin/python");
    if !python.exists() {
        let why = "target/python is missing; scripts/setup.sh test makes it";
        eprintln!("SKIPPED: exports are not read back by pandas, DuckDB and others: {why}");
        return;
    }
    for run in [results(TINY), evil()] {
        let folder = tempfile::tempdir().unwrap();
        for (name, format) in [
            ("run.md", ReportExportFormat::Markdown),
            ("intervals.csv", ReportExportFormat::Csv),
            ("trials.csv", ReportExportFormat::TrialsCsv),
            ("run.xlsx", ReportExportFormat::Xlsx),
            ("run.json", ReportExportFormat::Json),
            ("intervals.parquet", ReportExportFormat::Parquet),
            ("trials.parquet", ReportExportFormat::TrialsParquet),
            ("run.hlog", ReportExportFormat::HistogramLog),
            ("run.xml", ReportExportFormat::JUnit),
        ] {
            fs::write(folder.path().join(name), export(format, &run).unwrap()).unwrap();
        }
        let expect = serde_json::to_string(&expected(&run)).unwrap();
        fs::write(folder.path().join("expected.json"), expect).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/export/read_back.py");
        let read = std::process::Command::new(&python)
            .arg(script)
            .arg(root())
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&read.stdout).into_owned();
        let wrong = String::from_utf8_lossy(&read.stderr).into_owned();
        assert!(read.status.success(), "{said}\n{wrong}");
        assert!(said.contains("read back: 7 formats, 2 snippets"), "{said}");
    }
}
