// SPDX-License-Identifier: Apache-2.0
//! Every number of a run folder replaced by extremes, with the checksums of our own sealing: whatever is made
//! of such a folder ends soon, in bounded memory, and without a panic.
//!
//! The folders are read by this program, started again under limits of its processor time and its address
//! space: what goes beyond them ends that process, and the next one goes on behind it.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

use crc32c::crc32c_append;
use plimsoll_core::comparison::VerdictPolicy;
use plimsoll_core::event::RunFolderContents;
use plimsoll_history::RunFigures;
use plimsoll_report::ReportExportFormat;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// Says in the started process where it begins.
const FROM: &str = "PLIMSOLL_TEST_NUMBERS_FROM";
const HALF: &str = "PLIMSOLL_TEST_NUMBERS_HALF";
const NAME: &str = "a_number_of_a_run_folder_takes_neither_time_nor_memory";
/// Asks for every extreme of every number.
const WHOLE: &str = "PLIMSOLL_TEST_NUMBERS_WHOLE";
/// Processor time for all that is made of one folder.
const SECONDS_MAX: f64 = 1.0;
/// Address space for it, on top of what the program has.
const MEMORY_MAX: u64 = 192 << 20;
/// Processes that numbers may end before the test gives up.
const ENDED_MAX: usize = 40;

fn extremes() -> Vec<Value> {
    vec![
        json!(0),
        json!(-1),
        json!(1),
        json!(1u64 << 31),
        json!(u32::MAX),
        json!(1u64 << 53),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e308),
        json!(-1e308),
        json!(1e-308),
        json!(0.5),
    ]
}

/// A run folder as values: the manifest, then its events.
struct NumbersFolder {
    format: String,
    documents: Vec<Value>,
}

/// A number in it: which document, and where there.
struct NumberPlace {
    folder: usize,
    document: usize,
    pointer: String,
}

impl NumbersFolder {
    fn read(format: &str) -> NumbersFolder {
        let folder = fixtures().join(format);
        let manifest = fs::read_to_string(folder.join("manifest.json")).unwrap();
        let events = fs::read_to_string(folder.join("events.jsonl")).unwrap();
        let values = std::iter::once(&*manifest).chain(events.lines());
        let plain = |text: &str| {
            let mut value: Value = serde_json::from_str(text).unwrap();
            value.as_object_mut().unwrap().remove("crc32c");
            value
        };
        NumbersFolder {
            format: format.into(),
            documents: values.map(plain).collect(),
        }
    }

    /// Writes it, with one document in the place of its own.
    fn write(&self, to: &Path, changed: Option<(usize, &Value)>) {
        // From 2.8 on each checksum goes on from the one before.
        let is_chained = self.format == "2.8";
        let mut before = 0;
        let text = |(number, own): (usize, &Value)| {
            let value = changed
                .filter(|(of, _)| *of == number)
                .map_or(own, |(_, value)| value);
            let text = value.to_string();
            let rest = &text[1..];
            // Formats before 2.2 have no checksums.
            match &*self.format {
                "2.0" | "2.1" => text,
                _ => {
                    let sum = crc32c_append(before, rest.as_bytes());
                    before = if is_chained { sum } else { 0 };
                    format!("{{\"crc32c\":\"{sum:08x}\",{rest}")
                }
            }
        };
        let mut texts = self.documents.iter().enumerate().map(text);
        fs::write(to.join("manifest.json"), texts.next().unwrap()).unwrap();
        fs::write(
            to.join("events.jsonl"),
            texts.collect::<Vec<_>>().join("\n") + "\n",
        )
        .unwrap();
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plimsoll-archive/tests/fixtures")
}

/// The pointers of all numbers, by their paths without the indices of lists. Lists of numbers keep the
/// indices 0 and 1, so that the two numbers of a pair have different paths.
fn numbers(value: &Value, path: &str, pointer: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Number(_) => found.push((path.into(), pointer.into())),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let shown = if item.is_number() {
                    at.min(1).to_string()
                } else {
                    String::new()
                };
                let path = format!("{path}[{shown}]");
                numbers(item, &path, &format!("{pointer}/{at}"), found);
            }
        }
        Value::Object(items) => {
            for (key, item) in items {
                let escaped = key.replace('~', "~0").replace('/', "~1");
                numbers(
                    item,
                    &format!("{path}.{key}"),
                    &format!("{pointer}/{escaped}"),
                    found,
                );
            }
        }
        _ => {}
    }
}

/// Each path once, in the newest format that has it.
fn places(folders: &[NumbersFolder]) -> BTreeMap<String, NumberPlace> {
    let mut all = BTreeMap::new();
    for (folder, of) in folders.iter().enumerate() {
        for (document, value) in of.documents.iter().enumerate() {
            let mut found = Vec::new();
            let root = if document == 0 { "manifest" } else { "events" };
            numbers(value, root, "", &mut found);
            for (path, pointer) in found {
                let place = NumberPlace {
                    folder,
                    document,
                    pointer,
                };
                all.entry(path).or_insert(place);
            }
        }
    }
    all
}

/// Outcome of reading a run folder and drawing its results: how far it got. The most costly outputs
/// are made of each thirteenth folder: those of others differ little.
fn made_of(folder: &Path, number: usize, base: &RunFolderContents) -> &'static str {
    let is_all = number.is_multiple_of(13);
    let figures = RunFigures::read(folder, None);
    let Ok(mut results) = plimsoll_archive::open(folder) else {
        assert!(figures.is_err() && plimsoll_archive::open_whole(folder).is_err());
        return "refused";
    };
    let is_left_out = |text: &str| text.contains("is lost");
    let left_out = results
        .warnings
        .iter()
        .any(|warning| is_left_out(&warning.text));
    // The same for all numbers of a line.
    if left_out && !is_all {
        return "left out";
    }
    results.comparisons = plimsoll_stats::compare_all(&results.manifest, &results.trials);
    let _ = plimsoll_stats::compare_secondary(&results.manifest, &results.trials);
    let _ = plimsoll_stats::compare_loops(&results.manifest, &results.trials);
    let report = plimsoll_report::build(&results);
    assert!(plimsoll_report::html(&report).contains("plimsoll-data"));
    let _ = plimsoll_report::terminal(&report, 100, false, number.is_multiple_of(2));
    let _ = plimsoll_report::csv(&results);
    if is_all {
        let _ = plimsoll_report::page_parts(&report);
        let policy = VerdictPolicy::default();
        let diff = plimsoll_report::run_diff(("base", base), ("changed", &results), &policy);
        let _ = plimsoll_report::html(&plimsoll_report::run_diff_report(&diff, &policy));
    }
    let mut whole = plimsoll_archive::open_whole(folder).unwrap();
    whole.comparisons.clone_from(&results.comparisons);
    let formats = ReportExportFormat::ALL.into_iter();
    for format in formats.filter(|format| is_all || format.suffix() == ".json") {
        let _ = plimsoll_report::export(format, &whole);
    }
    if left_out { "left out" } else { "read" }
}

fn cpu_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (spent.tv_sec.unsigned_abs(), spent.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

fn limit(resource: Resource, current: u64) {
    let maximum = getrlimit(resource).maximum;
    let limit = Rlimit {
        current: Some(current),
        maximum,
    };
    setrlimit(resource, limit).unwrap();
}

#[expect(
    clippy::print_stderr,
    reason = "that is how it tells the process that started it"
)]
/// In the started process: makes all that can be made of each folder, and says what came of it.
fn read_all(from: usize, half: usize) {
    let folders: Vec<NumbersFolder> = formats()
        .iter()
        .map(|format| NumbersFolder::read(format))
        .collect();
    let place = tempfile::tempdir().unwrap();
    let base: Vec<RunFolderContents> = folders
        .iter()
        .map(|folder| {
            folder.write(place.path(), None);
            let base = plimsoll_archive::open(place.path()).unwrap();
            assert_eq!(made_of(place.path(), 0, &base), "read");
            base
        })
        .collect();
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    limit(Resource::As, pages * 4096 + MEMORY_MAX);
    let is_whole = std::env::var_os(WHOLE).is_some();
    let mut number = 0;
    for (path, at) in places(&folders) {
        for extreme in extremes() {
            number += 1;
            // By turns: each number meets two of the twelve, unless all are asked for.
            let is_due = is_whole || (number + number / extremes().len()).is_multiple_of(6);
            if number <= from || number % 2 != half || !is_due {
                continue;
            }
            let folder = &folders[at.folder];
            let mut document = folder.documents[at.document].clone();
            *document.pointer_mut(&at.pointer).unwrap() = extreme.clone();
            folder.write(place.path(), Some((at.document, &document)));
            eprintln!("\nbegin {number} {path} = {extreme}");
            let before = cpu_time();
            limit(Resource::Cpu, before.as_secs() + 3);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                made_of(place.path(), number, &base[at.folder])
            }));
            let took = (cpu_time() - before).as_secs_f64();
            let told = match outcome {
                Err(_) => "PANIC",
                Ok(_) if took > SECONDS_MAX => "SLOW",
                Ok(told) => told,
            };
            eprintln!("end {told} {took:.3}");
        }
    }
    eprintln!("\nall");
}

/// The newest first: it has nearly all paths.
fn formats() -> Vec<String> {
    let names = fs::read_dir(fixtures()).unwrap().flatten();
    let mut names: Vec<String> = names
        .map(|name| name.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names.reverse();
    names
}

/// Outcomes of the folders.
#[derive(Default)]
struct NumbersTally {
    told: BTreeMap<String, usize>,
    /// Folders that took too long, panicked or ended a process.
    bad: Vec<String>,
    longest_s: f64,
    /// Where the next process begins.
    from: usize,
}

impl NumbersTally {
    /// Takes what a process said; whether it came to its end.
    fn take(&mut self, text: &str, status: ExitStatus) -> bool {
        let mut now = None;
        for line in text.lines() {
            if let Some(begun) = line.strip_prefix("begin ") {
                self.from = begun.split(' ').next().unwrap().parse().unwrap();
                now = Some(begun.to_owned());
            } else if let Some(rest) = line.strip_prefix("end ") {
                let (what, took) = rest.rsplit_once(' ').unwrap();
                self.longest_s = self.longest_s.max(took.parse().unwrap());
                *self.told.entry(what.into()).or_default() += 1;
                let begun = now.take().unwrap();
                if ["PANIC", "SLOW"].contains(&what) {
                    self.bad.push(format!("{begun}: {rest}"));
                }
            }
        }
        let is_over = text.lines().any(|line| line == "all");
        match now {
            Some(begun) => self
                .bad
                .push(format!("{begun}: ended the program, {status}")),
            None => assert!(is_over, "{text}"),
        }
        is_over
    }

    /// Has every second folder read.
    #[expect(
        clippy::disallowed_methods,
        reason = "this program again, under limits"
    )]
    fn of_half(half: usize) -> NumbersTally {
        let mut tally = NumbersTally::default();
        for _ in 0..ENDED_MAX {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child
                .args(["--exact", NAME, "--nocapture", "--test-threads=1"])
                .env(FROM, tally.from.to_string())
                .env(HALF, half.to_string())
                .env("MALLOC_ARENA_MAX", "1");
            let output = child.output().unwrap();
            if tally.take(&String::from_utf8_lossy(&output.stderr), output.status) {
                break;
            }
        }
        tally
    }
}

#[test]
fn a_number_of_a_run_folder_takes_neither_time_nor_memory() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().unwrap());
    if let (Some(from), Some(half)) = (number(FROM), number(HALF)) {
        return read_all(from, half);
    }
    let (mut even, odd) = std::thread::scope(|scope| {
        let odd = scope.spawn(|| NumbersTally::of_half(1));
        (NumbersTally::of_half(0), odd.join().unwrap())
    });
    even.bad.extend(odd.bad);
    let of = |what: &str| [&even.told, &odd.told].map(|told| told.get(what).copied().unwrap_or(0));
    let [refused, left_out, read] =
        ["refused", "left out", "read"].map(|what| of(what).iter().sum::<usize>());
    eprintln!(
        "{refused} folders refused, of {left_out} a line left out, {read} read; the longest took {:.3} s of \
         processor time",
        even.longest_s.max(odd.longest_s)
    );
    assert!(
        even.bad.is_empty(),
        "{} bad: {:#?}",
        even.bad.len(),
        even.bad
    );
    // Impossible folders are refused, possible ones are read.
    assert!(refused > 80 && left_out > 165 && read > 165);
}
