// SPDX-License-Identifier: Apache-2.0
//! `cargo xtask twins bonnie|fio [--dir DIR] [--blocks N] [ONLY…]`: the native workload against the
//! program it stands for, interleaved on the same directory, phase by phase.
//!
//! Every block runs the native twin, the original and the native twin again in a random order; the
//! second run of the native twin is the control. The verdicts are those of `plimsoll compare`.

use plimsoll_core::comparison::{Comparison, Metric, Policy, Verdict};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_stats::{ArmValues, compare};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Blocks when none are asked for: what the verdict "equivalent within 5 %" needs on a quiet disk.
const BLOCKS: u32 = 10;

/// A native workload and the original it stands for, both as `plimsoll run` takes them.
struct Twin {
    name: String,
    native: String,
    original: String,
    /// Length of the measured part, for work that does not end by itself.
    length: &'static str,
}

/// bonnie++ at a size at which no phase is too short for it (half a second): block I/O around the page
/// cache on 256 MiB, 65536 files of 1000 bytes.
const BONNIE: &str = "-s 256 -n 64:1000:1000 -f -D -r 0";

fn twins(which: &str, root: &Path) -> Result<Vec<Twin>, String> {
    match which {
        "bonnie" => Ok(vec![Twin {
            name: "bonnie++".into(),
            native: format!("bonnie++ {BONNIE}"),
            original: format!("bonnie++:{BONNIE}"),
            length: "10s",
        }]),
        "fio" => {
            let folder = root.join("bench/twins");
            let entries = std::fs::read_dir(&folder).map_err(|e| e.to_string())?;
            let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            files.retain(|file| file.extension().is_some_and(|e| e == "fio"));
            files.sort();
            let twin = |file: PathBuf| Twin {
                name: file
                    .file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into(),
                native: file.display().to_string(),
                original: format!("fio:{}", file.display()),
                length: "5s",
            };
            Ok(files.into_iter().map(twin).collect())
        }
        other => Err(format!("no twins called '{other}'; there are: bonnie, fio")),
    }
}

/// What one run gave: metric and value by phase.
type Values = BTreeMap<String, (Metric, f64)>;

/// The three entries of a block.
const ENTRIES: [&str; 3] = ["native", "original", "native (again)"];

/// Runs the twins and writes what was found; faults are twins that differ.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<Vec<String>, String> {
    let option = |name: &str| {
        let at = args.iter().position(|arg| arg == name)?;
        args.get(at + 1).cloned()
    };
    let which = args.first().map_or("", String::as_str);
    let blocks = option("--blocks").map_or(Ok(BLOCKS), |text| text.parse());
    let blocks = blocks.map_err(|_| "--blocks takes a whole number".to_owned())?;
    let directory = option("--dir").map_or_else(|| root.join("target/twins"), PathBuf::from);
    std::fs::create_dir_all(&directory).map_err(|e| e.to_string())?;
    let only: Vec<&String> = args[1.min(args.len())..]
        .iter()
        .filter(|arg| !arg.starts_with("--"))
        .filter(|arg| {
            option("--blocks").as_ref() != Some(arg) && option("--dir").as_ref() != Some(arg)
        })
        .collect();
    super::build_release()?;
    let mut faults = Vec::new();
    let mut record = Vec::new();
    for twin in twins(which, root)? {
        if !only.is_empty() && !only.iter().any(|name| **name == twin.name) {
            continue;
        }
        let found = measure(root, &directory, &twin, blocks)?;
        for row in judge(&twin.name, blocks, &found) {
            super::note(&line(&row));
            if !row.is_control && row.verdict == Verdict::Different {
                faults.push(format!("{} differs: {}", row.workload, row.reason));
            }
            record.push(row);
        }
        record_values(root, which, &record)?;
    }
    Ok(faults)
}

/// Values by entry and block.
type Found = BTreeMap<&'static str, Vec<Values>>;

fn measure(root: &Path, directory: &Path, twin: &Twin, blocks: u32) -> Result<Found, String> {
    let mut found = Found::new();
    let mut rng = Rng::new(Seed(20_261_121).derive(&twin.name, 0));
    for block in 0..blocks {
        let mut order = ENTRIES;
        rng.shuffle(&mut order);
        for entry in order {
            let spec = if entry == "original" {
                &twin.original
            } else {
                &twin.native
            };
            let values = once(root, directory, spec, twin.length)?;
            super::note(&format!("{} block {} {entry}", twin.name, block + 1));
            found.entry(entry).or_default().push(values);
        }
    }
    Ok(found)
}

fn once(root: &Path, directory: &Path, spec: &str, length: &str) -> Result<Values, String> {
    let runs = root.join("target/twin-runs");
    let _ = std::fs::remove_dir_all(&runs);
    let shown = (directory.display().to_string(), runs.display().to_string());
    let args = [
        "run",
        spec,
        &shown.0,
        "--for",
        length,
        "--warmup",
        "0s",
        "--no-verify",
        "--json",
        "-o",
        &shown.1,
    ];
    let output = super::plimsoll(&args).output().map_err(|e| e.to_string())?;
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
        [only] => one(only)
            .map(|value| ("all".into(), value))
            .into_iter()
            .collect(),
        several => several
            .iter()
            .filter_map(|phase| Some((phase["name"].as_str()?.to_owned(), one(phase)?)))
            .collect(),
    }
}

fn judge(name: &str, blocks: u32, found: &Found) -> Vec<Comparison> {
    let first = found.get("native").and_then(|runs| runs.first());
    let mut rows = Vec::new();
    for (phase, (metric, _)) in first.into_iter().flatten() {
        let arm = |entry: &str, control_of: Option<&str>| ArmValues {
            name: entry.into(),
            control_of: control_of.map(Into::into),
            values: (0..blocks as usize)
                .map(|block| Some(found.get(entry)?.get(block)?.get(phase)?.1))
                .collect(),
        };
        let arms = [
            arm("native", None),
            arm("original", None),
            arm("native (again)", Some("native")),
        ];
        let label = format!("{name}: {phase}");
        rows.extend(compare(&label, *metric, &arms, &Policy::default()));
    }
    rows
}

fn line(row: &Comparison) -> String {
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

fn record_values(root: &Path, which: &str, rows: &[Comparison]) -> Result<(), String> {
    let path = root.join(format!("bench/twins-{which}.json"));
    let text = serde_json::to_string_pretty(rows).map_err(|e| e.to_string())?;
    std::fs::write(&path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_that_do_the_same_are_equivalent_and_others_differ() {
        let runs = |factor: f64| -> Vec<Values> {
            let wobble = [1.0, 1.01, 0.99, 1.005, 0.995, 1.0, 1.01, 0.99, 1.0, 1.0];
            let value = |w: &f64| (Metric::OpsPerSecond, 100.0 * w * factor);
            wobble
                .iter()
                .map(|w| BTreeMap::from([("seeks".into(), value(w))]))
                .collect()
        };
        let verdict = |factor| {
            let found = Found::from([
                (ENTRIES[0], runs(1.0)),
                (ENTRIES[1], runs(factor)),
                (ENTRIES[2], runs(1.001)),
            ]);
            let rows = judge("b", 10, &found);
            let row = rows.into_iter().find(|row| row.arm == "original");
            row.map(|row| (row.workload, row.verdict)).unwrap()
        };
        assert_eq!(verdict(1.002), ("b: seeks".into(), Verdict::Equivalent));
        assert_eq!(verdict(1.3), ("b: seeks".into(), Verdict::Different));
    }
}
