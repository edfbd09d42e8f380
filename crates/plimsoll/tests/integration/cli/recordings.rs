// SPDX-License-Identifier: Apache-2.0
//! `fit` of recordings, by command, against what their own program prints of them.

use crate::support::{Lab, program, skipped, text};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Archives in which two groups of PCP's logger write each counter, milliseconds apart.
const WRITTEN_TWICE: [&str; 7] = [
    "20180127.08.40",
    "20180415.09.16",
    "20180416.10.00",
    "pcp-pidstat-process-args",
    "pcp-pidstat-timezone",
    "pcp-tapestat-archive",
    "pcp-zeroconf",
];

/// The metrics that a model has of each direction, and the unit they are printed in.
const METRICS: [(&str, &str, &str, f64); 4] = [
    ("disk.dev.read", "read", "ops_per_s", 1.0),
    ("disk.dev.read_bytes", "read", "bytes_per_s", 1024.0),
    ("disk.dev.write", "write", "ops_per_s", 1.0),
    ("disk.dev.write_bytes", "write", "bytes_per_s", 1024.0),
];

/// Of each disk the averages over time that `pmlogsummary` prints, in the order of [`METRICS`].
fn printed(archive: &str) -> BTreeMap<String, [f64; 4]> {
    let metrics = METRICS.map(|(metric, ..)| metric);
    // All at once: it reads the archive for each call.
    let options = [&["-b", "-p6", archive], metrics.as_slice()].concat();
    let output = program("pmlogsummary", &options).unwrap();
    let mut found: BTreeMap<String, [f64; 4]> = BTreeMap::new();
    for line in output.lines() {
        let (metric, rest) = line.split_once("[\"").unwrap();
        let (disk, averages) = rest.split_once("\"] ").unwrap();
        let place = metrics
            .iter()
            .position(|known| *known == metric.trim_end())
            .unwrap();
        let over_time: f64 = averages.split(' ').nth(1).unwrap().parse().unwrap();
        found.entry(disk.into()).or_default()[place] = over_time * METRICS[place].3;
    }
    found
}

/// The same of a fitted model; `None` where `fit` refuses the disk.
fn fitted(lab: &Lab, archive: &str, disk: &str) -> Option<[f64; 4]> {
    let output = lab.run(&["fit", archive, "--disk", disk, "--json"]);
    let code = output.status.code();
    // Exit code 14: the model misses a gate.
    assert!(
        [Some(0), Some(2), Some(14)].contains(&code),
        "{archive} {disk}: {code:?}"
    );
    if code == Some(2) {
        let _ = writeln!(std::io::stderr(), "{disk}: {}", text(&output.stderr).trim());
        return None;
    }
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let directions = found["profile"]["directions"].as_array().unwrap();
    Some(METRICS.map(|(_, direction, figure, _)| {
        let of = directions.iter().find(|of| of["direction"] == direction);
        of.map_or(0.0, |of| of[figure]["time"].as_f64().unwrap())
    }))
}

#[test]
fn archives_that_are_written_twice_are_fitted_with_the_figures_of_pmlogsummary() {
    const WHAT: &str = "archives that are written twice";
    let folder = std::env::var("PLIMSOLL_PCP_ARCHIVES").unwrap_or_default();
    if !Path::new(&folder).is_dir() {
        return skipped(
            WHAT,
            "PCP's archives are missing: scripts/setup.sh test unpacks them",
        );
    }
    if program("pmlogsummary", &["--version"]).is_none() {
        return skipped(WHAT, "pmlogsummary is missing");
    }
    let lab = Lab::new();
    for name in WRITTEN_TWICE {
        let archive = format!("{folder}/{name}");
        let mut compared = 0;
        for (disk, expect) in printed(&archive) {
            let Some(found) = fitted(&lab, &archive, &disk) else {
                assert!(expect[0] + expect[2] < 1e-6, "{name} {disk} has a load");
                continue;
            };
            compared += 1;
            for (place, (metric, .., unit)) in METRICS.iter().enumerate() {
                let [found, expect] = [found, expect].map(|figures| figures[place] / unit);
                let _ = writeln!(
                    std::io::stderr(),
                    "| {name} {disk} | {metric} | {expect:.6} | {found:.6} | {:.6} |",
                    found - expect
                );
                // Six decimals are printed.
                let is_printed = (found - expect).abs() <= 1e-6 + 2e-6 * expect;
                assert!(
                    is_printed,
                    "{name} {disk} {metric}: {found}, printed {expect}"
                );
            }
        }
        assert!(compared > 0, "{name}: nothing was fitted");
    }
}
