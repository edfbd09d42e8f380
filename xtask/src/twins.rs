// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask twins bonnie|fio [--dir DIR] [--blocks N] [--plimsoll FILE] [ONLY…]`: the native
//! workload against the program it stands for, interleaved on the same directory, phase by phase.
//! `bench/twins/README.md` says on which disk that means something.
//!
//! Measurements are kept block by block in `target/twins-NAME.json`, and a measurement that was cut
//! short goes on from there; the file is removed when all blocks are done.
//!
//! Every block runs the native twin, the original and the native twin again in a random order; the
//! second run of the native twin is the control. The verdicts are those of `plimsoll compare`.

use plimsoll_core::comparison::{
    ArmComparison, ComparisonMetric, ComparisonVerdict, VerdictPolicy,
};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_stats::{ArmValues, compare};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Blocks when none are asked for: what the verdict "equivalent within 5 %" needs on a quiet disk.
const BLOCKS: u32 = 10;

/// A native workload and the original it stands for, both as `plimsoll run` takes them.
struct Twin {
    name: String,
    native: String,
    original: String,
    /// Length of the measured part, for work that does not end by itself.
    length: String,
}

/// bonnie++ in two halves, because they want different conditions, each at a size at which no phase
/// is too short for it (half a second) and the large one at which the tenth of a second in which the
/// kernel accounts the limit of the disk is a small share of each phase. Through the page cache:
/// around it the two differ on purpose.
const BONNIE: [(&str, &str); 2] = [
    ("bonnie++-large-file", "-s 1536:8k:80000 -n 0 -f -r 0"),
    ("bonnie++-small-files", "-s 0 -n 112:1000:1000 -r 0"),
];

fn twins(which: &str, root: &Path) -> Result<Vec<Twin>, String> {
    match which {
        "bonnie" => {
            let twin = |(name, settings): (&str, &str)| Twin {
                name: name.into(),
                native: format!("bonnie++ {settings}"),
                original: format!("bonnie++:{settings}"),
                length: "10s".into(),
            };
            Ok(BONNIE.into_iter().map(twin).collect())
        }
        "fio" => {
            let folder = root.join("bench/twins");
            let entries = std::fs::read_dir(&folder).map_err(|e| e.to_string())?;
            let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            files.retain(|file| file.extension().is_some_and(|e| e == "fio"));
            files.sort();
            files.iter().map(|file| fio_twin(file)).collect()
        }
        other => Err(format!("no twins called '{other}'; there are: bonnie, fio")),
    }
}

/// Both run as long as the job file says.
fn fio_twin(file: &Path) -> Result<Twin, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let runtime = text.lines().find_map(|line| line.strip_prefix("runtime="));
    let runtime = runtime.ok_or_else(|| format!("{}: it has no runtime", file.display()))?;
    Ok(Twin {
        name: file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into(),
        native: file.display().to_string(),
        original: format!("fio:{}", file.display()),
        length: format!("{runtime}s"),
    })
}

/// Values of one run: metric and value by phase.
type Values = BTreeMap<String, (ComparisonMetric, f64)>;

/// The three entries of a block.
const ENTRIES: [&str; 3] = ["native", "original", "native (again)"];

/// Options of the command line.
struct Options {
    directory: PathBuf,
    blocks: u32,
    /// The program; built for release when absent.
    program: Option<PathBuf>,
    /// Names of the twins that are wanted; empty: all.
    only: Vec<String>,
}

impl Options {
    fn parse(root: &Path, args: &[String]) -> Result<Self, String> {
        let mut options = Options {
            directory: root.join("target/twins"),
            blocks: BLOCKS,
            program: None,
            only: Vec::new(),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if !arg.starts_with("--") {
                options.only.push(arg.clone());
                continue;
            }
            let value = args.next().ok_or(format!("{arg} needs a value"))?;
            match arg.as_str() {
                "--dir" => options.directory = value.into(),
                "--plimsoll" => options.program = Some(value.into()),
                "--blocks" => {
                    let blocks = value.parse().ok().filter(|blocks| *blocks > 0);
                    options.blocks = blocks.ok_or("--blocks takes a whole number above 0")?;
                }
                _ => return Err(format!("{arg} is no option of twins")),
            }
        }
        Ok(options)
    }

    fn wants(&self, twin: &Twin) -> bool {
        self.only.is_empty() || self.only.contains(&twin.name)
    }
}

/// Runs the twins and writes what was found; faults are twins that differ.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<Vec<String>, String> {
    let (which, rest) = args.split_first().ok_or("twins need a name: bonnie, fio")?;
    let options = Options::parse(root, rest)?;
    std::fs::create_dir_all(&options.directory).map_err(|e| e.to_string())?;
    if options.program.is_none() {
        super::build_release()?;
    }
    let mut faults = Vec::new();
    for twin in twins(which, root)? {
        if !options.wants(&twin) {
            continue;
        }
        let found = measure(root, &options, &twin)?;
        let rows = judge(&twin.name, options.blocks, &found);
        for row in &rows {
            super::note(&line(row));
            if !row.is_control && row.verdict == ComparisonVerdict::Different {
                faults.push(format!("{} differs: {}", row.workload, row.reason));
            }
        }
        record(root, which, &twin.name, rows)?;
    }
    Ok(faults)
}

/// Values by entry and block.
type Found = BTreeMap<String, Vec<Values>>;

fn measure(root: &Path, options: &Options, twin: &Twin) -> Result<Found, String> {
    let kept = root.join(format!("target/twins-{}.json", twin.name));
    let mut found: Found = match std::fs::read_to_string(&kept) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| format!("{}: {e}", kept.display()))?,
        Err(_) => Found::new(),
    };
    let mut rng = Rng::new(Seed(20_261_121).derive(&twin.name, 0));
    for block in 0..options.blocks {
        let mut order = ENTRIES;
        rng.shuffle(&mut order);
        let is_done = |entry| {
            found
                .get(entry)
                .is_some_and(|runs| runs.len() > block as usize)
        };
        if ENTRIES.into_iter().all(is_done) {
            continue;
        }
        let mut of_block = Vec::new();
        for entry in order {
            let spec = if entry == "original" {
                &twin.original
            } else {
                &twin.native
            };
            let values = once(root, options, spec, &twin.length)?;
            super::note(&format!(
                "{} block {} {entry}: {values:?}",
                twin.name,
                block + 1
            ));
            of_block.push((entry, values));
        }
        for (entry, values) in of_block {
            found.entry(entry.to_owned()).or_default().push(values);
        }
        let text = serde_json::to_string(&found).map_err(|e| e.to_string())?;
        std::fs::write(&kept, text).map_err(|e| format!("{}: {e}", kept.display()))?;
    }
    std::fs::remove_file(&kept).map_err(|e| format!("{}: {e}", kept.display()))?;
    Ok(found)
}

fn once(root: &Path, options: &Options, spec: &str, length: &str) -> Result<Values, String> {
    let runs = root.join("target/twin-runs");
    crate::bench::clear(&runs);
    let directory = options.directory.display().to_string();
    let shown = (directory, runs.display().to_string());
    let args = [
        "run",
        spec,
        &shown.0,
        "--for",
        length,
        "--warmup",
        "0s",
        "--no-self-test",
        "--json",
        "-o",
        &shown.1,
    ];
    let mut command = super::plimsoll(options.program.as_deref(), &args);
    let output = command.output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("plimsoll run {spec}: {text}"));
    }
    let json: Value = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
    Ok(values(&json["trials"][0]))
}

/// The phases of a trial; a trial without phases, or with one, is one value called "all".
fn values(trial: &Value) -> Values {
    let one = |of: &Value| {
        let metric = serde_json::from_value(of["metric"].clone()).ok()?;
        Some((metric, of["value"].as_f64()?))
    };
    let phases = trial["phases"].as_array().cloned().unwrap_or_default();
    match &phases[..] {
        [] => one(trial)
            .map(|value| ("all".into(), value))
            .into_iter()
            .collect(),
        // fio's side says operations per second, whatever the sizes.
        [only] => ops_per_s(only)
            .or_else(|| one(only))
            .map(|value| ("all".into(), value))
            .into_iter()
            .collect(),
        several => together(
            several
                .iter()
                .filter_map(|phase| Some((phase["name"].as_str()?.to_owned(), one(phase)?)))
                .collect(),
        ),
    }
}

/// From the counts of a phase, where there are any: those of an original have none.
fn ops_per_s(phase: &Value) -> Option<(ComparisonMetric, f64)> {
    let count = |name: &str| phase[name].as_f64().filter(|count| *count > 0.0);
    Some((
        ComparisonMetric::OpsPerSecond,
        count("operations")? / (count("wall_ns")? / 1e9),
    ))
}

/// fio says the rates of the directions of one job apart; a native workload has one rate for both.
fn together(values: Values) -> Values {
    let job = |name: &str| {
        let (job, direction) = name.rsplit_once(": ")?;
        matches!(direction, "read" | "write" | "trim").then(|| job.to_owned())
    };
    let jobs: BTreeSet<Option<String>> = values.keys().map(|name| job(name)).collect();
    let metrics: Vec<ComparisonMetric> = values.values().map(|(metric, _)| *metric).collect();
    let is_one_job = jobs.len() == 1 && !jobs.contains(&None);
    match metrics[..] {
        [first, ..] if is_one_job && metrics.iter().all(|metric| *metric == first) => {
            let sum = values.values().map(|(_, value)| value).sum();
            BTreeMap::from([("all".into(), (first, sum))])
        }
        _ => values,
    }
}

fn judge(name: &str, blocks: u32, found: &Found) -> Vec<ArmComparison> {
    let first = found.get("native").and_then(|runs| runs.first());
    let mut rows = Vec::new();
    for (phase, (metric, _)) in first.into_iter().flatten() {
        let arm = |entry: &str, control_of: Option<&str>| ArmValues {
            name: entry.into(),
            control_of: control_of.map(Into::into),
            values: (0..blocks as usize)
                .map(|block| found.get(entry)?.get(block)?.get(phase))
                .map(|found| {
                    found
                        .filter(|(of, _)| of == metric)
                        .map(|(_, value)| *value)
                })
                .collect(),
            places: Vec::new(),
        };
        let arms = [
            arm("native", None),
            arm("original", None),
            arm("native (again)", Some("native")),
        ];
        let label = format!("{name}: {phase}");
        rows.extend(compare(&label, *metric, &arms, &VerdictPolicy::default()));
    }
    rows
}

fn line(row: &ArmComparison) -> String {
    let ratio = row.ratio.as_ref().map_or_else(
        || "no ratio".into(),
        |r| format!("{:.3} ({:.3} to {:.3})", r.estimate, r.low, r.high),
    );
    format!(
        "{:40} {:15} {ratio:28} {:13} {}",
        row.workload,
        row.arm,
        row.verdict.name(),
        row.reason
    )
}

/// Puts the rows of one twin in the place of those that an earlier measurement of it left.
fn record(root: &Path, which: &str, name: &str, rows: Vec<ArmComparison>) -> Result<(), String> {
    let path = root.join(format!("bench/twins-{which}.json"));
    let fault = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let mut all: Vec<ArmComparison> = match std::fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|e| fault(&e))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(fault(&error)),
    };
    let of_this = format!("{name}: ");
    all.retain(|row| !row.workload.starts_with(&of_this));
    all.extend(rows);
    all.sort_by(|a, b| a.workload.cmp(&b.workload));
    let text = serde_json::to_string_pretty(&all).map_err(|e| fault(&e))?;
    std::fs::write(&path, text + "\n").map_err(|e| fault(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directions_of_one_job_count_together() {
        let of = |phases: &[(&str, f64)]| -> Values {
            let value = |(name, rate): &(&str, f64)| {
                (String::from(*name), (ComparisonMetric::OpsPerSecond, *rate))
            };
            phases.iter().map(value).collect()
        };
        for (given, expect) in [
            (
                &[("a: read", 7.0), ("a: write", 3.0)][..],
                &[("all", 10.0)][..],
            ),
            (
                &[("a: read", 7.0), ("b: write", 3.0)],
                &[("a: read", 7.0), ("b: write", 3.0)],
            ),
            (
                &[("put_block", 7.0), ("seeks", 3.0)],
                &[("put_block", 7.0), ("seeks", 3.0)],
            ),
        ] {
            assert_eq!(together(of(given)), of(expect));
        }
    }

    #[test]
    fn one_phase_counts_operations_and_units_are_never_mixed() {
        let trial = |phase: Value| serde_json::json!({ "phases": [phase] });
        let native = values(&trial(serde_json::json!({
            "name": "a", "metric": "bytes_per_second", "value": 8192.0,
            "operations": 4, "wall_ns": 2_000_000_000u64
        })));
        let original = values(&trial(serde_json::json!({
            "name": "a", "metric": "bytes_per_second", "value": 8192.0
        })));
        let expect = |metric, rate| Values::from([("all".into(), (metric, rate))]);
        assert_eq!(native, expect(ComparisonMetric::OpsPerSecond, 2.0));
        assert_eq!(original, expect(ComparisonMetric::BytesPerSecond, 8192.0));
        let found = Found::from([
            (ENTRIES[0].into(), vec![native]),
            (ENTRIES[1].into(), vec![original]),
        ]);
        assert!(judge("b", 1, &found).iter().all(|row| row.ratio.is_none()));
    }

    #[test]
    fn twins_that_do_the_same_are_equivalent_and_others_differ() {
        let runs = |factor: f64| -> Vec<Values> {
            let wobble = [1.0, 1.01, 0.99, 1.005, 0.995, 1.0, 1.01, 0.99, 1.0, 1.0];
            let value = |w: &f64| (ComparisonMetric::OpsPerSecond, 100.0 * w * factor);
            wobble
                .iter()
                .map(|w| BTreeMap::from([("seeks".into(), value(w))]))
                .collect()
        };
        let verdict = |factor| {
            let found = Found::from([
                (ENTRIES[0].into(), runs(1.0)),
                (ENTRIES[1].into(), runs(factor)),
                (ENTRIES[2].into(), runs(1.001)),
            ]);
            let rows = judge("b", 10, &found);
            let row = rows.into_iter().find(|row| row.arm == "original");
            row.map(|row| (row.workload, row.verdict)).unwrap()
        };
        assert_eq!(
            verdict(1.002),
            ("b: seeks".into(), ComparisonVerdict::Equivalent)
        );
        assert_eq!(
            verdict(1.3),
            ("b: seeks".into(), ComparisonVerdict::Different)
        );
    }
}
