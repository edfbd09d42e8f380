// SPDX-License-Identifier: Apache-2.0
//! Files laid out per second: plimsoll, a loop of the bare calls, bonnie++.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use plimsoll_core::workload::files::{FileLoopOp, FileOp, FileSet, FileSizeDistribution};
use plimsoll_core::workload::{FileLoop, Workload};

use super::ours::fresh;
use super::table::{Gate, Row};
use super::{Bench, Failure};

/// Bytes of each file.
const FILE_BYTES: u64 = 4096;

/// Fewest files with which bonnie++ reports a rate: with fewer, it ends too fast.
const BONNIE_FILES_MIN: u32 = 100 << 10;

/// Files per second of the layout, for every number of files that was asked for.
pub(crate) fn files(bench: &Bench) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for count in bench.options.counts.iter().copied() {
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        // A million files take minutes: one round says enough.
        let rounds = if count > 100_000 {
            1
        } else {
            bench.options.rounds
        };
        for round in 1..=rounds {
            ours.push(layout(bench, count)?);
            bare.push(bare_loop(bench, count)?);
            let (ours, bare) = (ours[ours.len() - 1], bare[bare.len() - 1]);
            eprintln!("round {round}: {count} files: plimsoll {ours:.0}/s, bare {bare:.0}/s");
        }
        let ratios = ours
            .iter()
            .zip(&bare)
            .map(|(ours, bare)| ours / bare)
            .collect();
        rows.extend([
            Row::new(
                format!("{count} files: plimsoll, files/s"),
                ours,
                Gate::None,
            ),
            Row::new(
                format!("{count} files: bare loop, files/s"),
                bare,
                Gate::None,
            ),
            Row::new(
                format!("{count} files: plimsoll / bare loop"),
                ratios,
                Gate::None,
            ),
        ]);
    }
    let files = bench.options.counts.iter().copied().max().unwrap_or(0);
    rows.push(match bonnie(bench, files.max(BONNIE_FILES_MIN)) {
        Ok(rate) => Row::new("bonnie++ (empty files), files/s", vec![rate], Gate::None),
        Err(why) => Row::absent("bonnie++ (empty files), files/s", why),
    });
    Ok(rows)
}

/// The layout of a file set by plimsoll; what is done with the files is one look at each of some.
fn layout(bench: &Bench, count: u32) -> Result<f64, Failure> {
    let set = FileSet::flat("files", count, FILE_BYTES, FileSizeDistribution::Constant);
    let files = FileLoop::of("files", set, 1, vec![FileLoopOp::from(FileOp::Stat)]);
    let folder = fresh(&bench.options.dir, "files")?;
    let target = folder.display().to_string();
    let ran = bench.plimsoll.run(&Workload::Files(files), &target, 1);
    crate::bench::clear(&folder);
    Ok(f64::from(count) / (ran?.number("/prepare_ns") / 1e9))
}

/// Minimum work for such files: create, write, close; then everything made durable.
fn bare_loop(bench: &Bench, count: u32) -> Result<f64, Failure> {
    let folder = fresh(&bench.options.dir, "files")?;
    let bytes = vec![0x5a; 4096];
    let took = super::long::timed(|| write_all(&folder, count, &bytes));
    crate::bench::clear(&folder);
    let (result, took) = took;
    result.map_err(|error| format!("write {count} files: {error}"))?;
    Ok(f64::from(count) / took.max(Duration::from_nanos(1)).as_secs_f64())
}

fn write_all(folder: &Path, count: u32, bytes: &[u8]) -> std::io::Result<()> {
    for number in 0..count {
        let path = folder.join(format!("{number:08}"));
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(bytes)?;
    }
    sync(folder)
}

/// Waits until the file system of `folder` has everything.
fn sync(folder: &Path) -> std::io::Result<()> {
    let synced = super::rivals::output("sync", &["-f", &folder.display().to_string()]);
    synced.map_err(std::io::Error::other)?;
    File::open(folder)?.sync_all()
}

/// The sequential creates of bonnie++, which does not sync them.
fn bonnie(bench: &Bench, files: u32) -> Result<f64, Failure> {
    let folder = fresh(&bench.options.dir, "files")?;
    let (path, count) = (folder.display().to_string(), files.div_ceil(1024));
    let count = format!("{count}:0:0:1");
    let args = ["-d", &path, "-s", "0", "-n", &count, "-u", "root", "-q"];
    let text = super::rivals::output("bonnie++", &args);
    crate::bench::clear(&folder);
    let text = text?;
    parse_bonnie(&text).ok_or_else(|| format!("no rate in: {}", text.trim()))
}

/// The rate of sequential creates in the CSV of bonnie++ 1.98: the first figure behind the number,
/// sizes, directories and chunk of the files.
fn parse_bonnie(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("1.98,"))?;
    line.split(',').nth(26)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_bonnie_is_found() {
        let line = |rate: &str| {
            format!("1.98,2.00a,vm,1,1795239909,,,,,,,,,,,,,,,,,10,,,,,{rate},+++,1,2,3,4")
        };
        // Behind the count come the sizes, directories and chunk.
        assert_eq!(parse_bonnie(&line("81234")), Some(81234.0));
        assert_eq!(parse_bonnie(&line("+++++")), None);
        assert_eq!(parse_bonnie("nothing"), None);
    }
}
