// SPDX-License-Identifier: Apache-2.0
//! PCP archives read whole: the averages of every disk, by plimsoll and by pmlogsummary.
//!
//! Both print the same metrics of the same archive. The reader is run by itself (`ingest` of
//! `bench/programs`), without the fit that follows in use.

use std::path::Path;

use super::long::timed;
use super::rivals::{measurement, output};
use super::table::{Gate, Row, Sample};
use super::{Bench, Failure, Player};

/// Metrics that plimsoll reads; pmlogsummary is asked for those that an archive has.
const METRICS: [&str; 12] = [
    "disk.dev.read",
    "disk.dev.write",
    "disk.dev.read_bytes",
    "disk.dev.write_bytes",
    "disk.dev.avactive",
    "disk.dev.idle",
    "disk.dev.queue_len",
    "disk.dev.inflight",
    "disk.dev.aveq",
    "disk.dev.read_rawactive",
    "disk.dev.write_rawactive",
    "disk.dev.total_rawactive",
];
/// Most memory that reading may take, MiB.
const PEAK_MIB_MAX: f64 = 300.0;

/// How many times faster than pmlogsummary each archive is read, and in how much memory.
pub(crate) fn ingest(bench: &Bench) -> Result<Vec<Row>, Failure> {
    if output("pmlogsummary", &["--version"]).is_err() {
        let why = "pmlogsummary is not installed (Debian: pcp)";
        eprintln!("SKIPPED: ingest: {why}");
        return Ok(vec![Row::absent("times faster than pmlogsummary", why)]);
    }
    let made;
    let archives = match &bench.options.archives[..] {
        [] => {
            made = make(bench)?;
            &made
        }
        given => given,
    };
    let reader = measurement("ingest")?;
    let mut rows = Vec::new();
    for archive in archives {
        rows.extend(of_archive(bench, &reader, archive)?);
    }
    Ok(rows)
}

/// A real archive, in the folder of test data.
const REAL: &str = "pcp/good/pcp-zeroconf";

/// Name of the archive of many disks.
const DISKS: &str = "disks";

/// Archives of 317 MB: one of 40 disks and nothing else, of which who asks for disks may pass over
/// nothing; and a real one that goes on: plain, compressed in one block, and in blocks as PCP's own
/// scripts compress.
fn make(bench: &Bench) -> Result<Vec<String>, Failure> {
    let dir = &bench.options.dir;
    let make = measurement("make")?.display().to_string();
    let disks = dir.join(DISKS).display().to_string();
    for part in ["meta", "index", "0"] {
        // Left by the last bench.
        let _ = std::fs::remove_file(format!("{disks}.{part}"));
    }
    output(&make, &["pcp", &disks, "317"])?;
    let mut made = vec![disks];
    let data = std::env::var_os("PLIMSOLL_TEST_DATA").unwrap_or_default();
    let real = Path::new(&data).join(REAL);
    if !real.with_extension("meta").is_file() {
        eprintln!("SKIPPED: ingest of a real archive: PLIMSOLL_TEST_DATA has none");
        return Ok(made);
    }
    let base = dir.join("zeroconf").display().to_string();
    output(&make, &["grow", &real.display().to_string(), &base, "317"])?;
    made.push(base.clone());
    for (name, how) in [("one-block", "-6"), ("blocks", "-0 --block-size=10MiB")] {
        let archive = format!("{base}-{name}");
        let compress = format!(
            "cp {base}.meta {archive}.meta && xz {how} --threads=1 --stdout {base}.0 > {archive}.0.xz"
        );
        output("sh", &["-c", &compress])?;
        made.push(archive);
    }
    Ok(made)
}

fn of_archive(bench: &Bench, reader: &Path, archive: &str) -> Result<Vec<Row>, Failure> {
    let described = output("pmdumplog", &["-d", archive])?;
    let recorded = |metric: &&str| described.contains(&format!("({metric})"));
    let mut theirs = vec![archive];
    theirs.extend(METRICS.into_iter().filter(recorded));
    let reader = reader.display().to_string();
    let players: [Player<'_>; 2] = [
        ("plimsoll", Box::new(|| run(&reader, &[archive]))),
        ("pmlogsummary", Box::new(|| run("pmlogsummary", &theirs))),
    ];
    let samples = bench.rounds(&players)?;
    let said = output(&reader, &[archive])?;
    let peak_kib = said.lines().last().and_then(|line| {
        let kib = line.strip_prefix("peak ")?.strip_suffix(" kB")?;
        kib.trim().parse::<f64>().ok()
    });
    let peak_kib = peak_kib.ok_or_else(|| format!("find the peak of memory in {said}"))?;
    let name = Path::new(archive).file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let plain = Path::new(&format!("{archive}.0")).is_file();
    let gate = Gate::AtLeast(match plain {
        true if name == DISKS => 1.0,
        true => 10.0,
        false => 3.0,
    });
    let seconds = |sample: &Sample| sample.seconds;
    Ok(vec![
        Row::of(
            format!("{name}: plimsoll, s"),
            &samples[0],
            seconds,
            Gate::None,
        ),
        Row::of(
            format!("{name}: pmlogsummary, s"),
            &samples[1],
            seconds,
            Gate::None,
        ),
        Row::ratio(
            format!("{name}: times faster than pmlogsummary"),
            &samples[0],
            &samples[1],
            Sample::per_second,
            gate,
        ),
        Row::new(
            format!("{name}: plimsoll, peak MiB"),
            vec![peak_kib / 1024.0],
            Gate::AtMost(PEAK_MIB_MAX),
        ),
    ])
}

/// One run as one operation.
fn run(program: &str, args: &[&str]) -> Result<Sample, Failure> {
    let (text, took) = timed(|| output(program, args));
    text?;
    Ok(Sample {
        ops: 1.0,
        seconds: took.as_secs_f64(),
        ..Sample::default()
    })
}
