// SPDX-License-Identifier: Apache-2.0
//! Recordings as the programs that made them read them.
//!
//! PCP's own archives (Debian: `pcp-testsuite`, or the folder `PLIMSOLL_PCP_ARCHIVES`) are held
//! against `pmlogsummary` (Debian: `pcp`). Where one of them is absent, the test says so.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_trace::pcp::PcpArchive;
use plimsoll_trace::{CounterSource, DiskAverages, DiskMetric, MetricAverages};

/// Archives in which two groups of a logger write each counter.
const WRITTEN_TWICE: [&str; 7] = [
    "20180127.08.40",
    "20180415.09.16",
    "20180416.10.00",
    "pcp-pidstat-process-args",
    "pcp-pidstat-timezone",
    "pcp-tapestat-archive",
    "pcp-zeroconf",
];

fn skip(what: &str) {
    let _ = writeln!(std::io::stderr(), "\nSKIPPED: {what}\n");
}

fn archives() -> Option<PathBuf> {
    let told = std::env::var_os("PLIMSOLL_PCP_ARCHIVES").map(PathBuf::from);
    let folder = told.unwrap_or("/var/lib/pcp/testsuite/archives".into());
    if folder.is_dir() {
        return Some(folder);
    }
    skip("PCP's archives are absent; install pcp-testsuite");
    None
}

/// By metric and disk: both averages, and their unit.
type Printed = BTreeMap<(String, String), ([f64; 2], f64)>;

/// What pmlogsummary prints.
#[expect(
    clippy::disallowed_methods,
    reason = "the test is the user who judges an archive"
)]
fn summary(base: &Path) -> Option<Printed> {
    let mut command = Command::new("pmlogsummary");
    let Ok(output) = command
        .args(["-b", "-p6"])
        .arg(base)
        .arg("disk.dev")
        .output()
    else {
        skip("pmlogsummary is absent; install pcp");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |line: &str| {
        let (metric, rest) = line.split_once(" [\"")?;
        let (disk, rest) = rest.split_once("\"] ")?;
        let mut words = rest.split(' ');
        let mut average = || words.next()?.parse::<f64>().ok();
        let averages = [average()?, average()?];
        let unit = if rest.contains("Kbyte") { 1024.0 } else { 1.0 };
        Some(((metric.to_owned(), disk.to_owned()), (averages, unit)))
    };
    Some(text.lines().filter_map(line).collect())
}

/// Whether an average is the printed one. Six decimals are printed, and times of the third version
/// are cut to microseconds.
fn is_printed(found: f64, printed: f64) -> bool {
    (found - printed).abs() <= 1e-6 + 2e-6 * printed.abs()
}

/// Differences of one archive, and how many averages were compared.
fn compare(base: &Path, differs: &mut Vec<String>) -> usize {
    let Ok(archive) = PcpArchive::open(base) else {
        return 0;
    };
    let found = archive.averages(&archive.disks(), &archive.times().span());
    let (found, Some(summary)) = (found.unwrap(), summary(base)) else {
        return 0;
    };
    let name = base.file_name().unwrap().to_string_lossy();
    let is_joined = WRITTEN_TWICE.contains(&&*name);
    let mut compared = 0;
    for DiskAverages { disk, figures } in &found {
        for (
            metric,
            MetricAverages {
                stochastic, time, ..
            },
        ) in figures
        {
            let key = (metric.pcp_name().to_owned(), disk.clone());
            let Some((printed, unit)) = summary.get(&key) else {
                continue;
            };
            compared += 1;
            // The mean of rates takes records milliseconds apart for as much as ten seconds.
            let is_stochastic = is_joined || is_printed(stochastic / unit, printed[0]);
            if !is_stochastic || !is_printed(time / unit, printed[1]) {
                let found = [stochastic / unit, time / unit];
                differs.push(format!("{name} {key:?}: {found:?}, printed {printed:?}"));
            }
        }
    }
    compared
}

#[test]
fn averages_are_those_that_pmlogsummary_prints() {
    let Some(folder) = archives() else {
        return;
    };
    let mut differs = Vec::new();
    let mut compared = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "index")
        {
            let base = path.with_extension("");
            let n = compare(&base, &mut differs);
            compared.insert(base.file_name().unwrap().to_owned(), n);
        }
    }
    let all: usize = compared.values().sum();
    let disks = compared.values().filter(|n| **n > 0).count();
    let _ = writeln!(
        std::io::stderr(),
        "{all} pairs of averages of {disks} archives"
    );
    if all > 0 {
        assert!(
            WRITTEN_TWICE
                .iter()
                .all(|name| compared[std::ffi::OsStr::new(name)] > 0)
        );
    }
    assert!(
        differs.is_empty(),
        "{} differ:\n{}",
        differs.len(),
        differs.join("\n")
    );
}

#[test]
fn counters_cannot_do_more_than_a_disk_in_archives_written_twice() {
    let Some(folder) = archives() else {
        return;
    };
    for name in WRITTEN_TWICE {
        let archive = PcpArchive::open(&folder.join(name)).unwrap();
        let span = archive.times().span();
        let whole_s = (span.to_unix_ns - span.from_unix_ns) as f64 / 1e9;
        for found in archive.averages(&archive.disks(), &span).unwrap() {
            let reads = found.figure(DiskMetric::Reads).unwrap();
            assert!(
                reads.seconds > 0.5 * whole_s,
                "{name}: {reads:?} of {whole_s} s"
            );
            let busy = found
                .figure(DiskMetric::Active)
                .map_or(0.0, |busy| busy.time);
            assert!(busy <= 1.0, "{name}: busy {busy}");
        }
    }
}
