// SPDX-License-Identifier: Apache-2.0
//! Makes long recordings to measure readers and fits with, the same every time. `cargo xtask bench fit`
//! and `ingest` use it.
//!
//! `make msr FILE N` writes N requests as MSR Cambridge has them, `make parquet FROM TO` makes a
//! table of any recording of requests, `make pcp BASE MB` an archive of the counters of 40 disks; `make
//! read FILE` reads every request, and does nothing else.
#![expect(clippy::print_stdout, reason = "it is a program of its own")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use plimsoll_core::num::{round_u64, to_usize};
use plimsoll_core::recording::{DiskCounters, Found};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_trace::pcp::{Heading, Writer};
use plimsoll_trace::requests;
use plimsoll_trace::{Requests as _, TraceError};

/// The start of the recording in Windows file time.
const BEGIN: u64 = 128_166_385_000_000_000;
/// Mean time between requests, in the ticks of 100 ns: 500 a second.
const GAP_TICKS: f64 = 20_000.0;
/// Room of the device in blocks of 4 KiB: 128 GiB.
const BLOCKS: u64 = 1 << 25;
const STREAMS: u64 = 8;
/// Disks of an archive.
const DISKS: u64 = 40;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let made = match words[..] {
        ["msr", file, n] => match n.parse() {
            Ok(n) => msr(Path::new(file), n).map_err(|error| format!("write {file}: {error}")),
            Err(_) => Err(format!("read '{n}' as a number")),
        },
        #[cfg(feature = "parquet")]
        ["parquet", from, to] => parquet(from, to),
        ["pcp", base, mb] => match mb.parse() {
            Ok(mb) => pcp(Path::new(base), mb).map_err(|error| error.to_string()),
            Err(_) => Err(format!("read '{mb}' as a number")),
        },
        ["read", file] => read(Path::new(file)).map_err(|error| error.to_string()),
        _ => Err(
            "understand that: make msr FILE N, parquet FROM TO, pcp BASE MB or read FILE".into(),
        ),
    };
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            println!("failed to {what}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "parquet")]
fn parquet(from: &str, to: &str) -> Result<(), String> {
    let opened = requests::open(Path::new(from));
    let written =
        opened.and_then(|mut recording| requests::parquet::write(&mut *recording, Path::new(to)));
    written.map(drop).map_err(|error| error.to_string())
}

/// Reads all of a recording of requests, and says how many there are.
fn read(path: &Path) -> Result<(), TraceError> {
    let mut recording = requests::open(path)?;
    let (mut found, mut count, mut more) = (Vec::new(), 0, true);
    while more {
        found.clear();
        more = recording.read(&mut found)?;
        count += found.len();
    }
    println!("{count} requests");
    Ok(())
}

/// Disks that are read and written at rates of their own.
fn pcp(base: &Path, mb: u64) -> Result<(), TraceError> {
    let begin = 1_700_000_000 * Nanos::SECOND.0;
    let heading = Heading {
        host: "bench".into(),
        zone: "UTC0".into(),
        zone_name: String::new(),
        process: 1,
        start_unix_ns: begin,
        volume_bytes: u64::MAX,
    };
    let mut writer = Writer::create(base, heading)?;
    let names: Vec<String> = (0..DISKS).map(|disk| format!("sd{disk}")).collect();
    let volume = base.with_extension("0");
    let long_enough =
        || std::fs::metadata(&volume).is_ok_and(|about| about.len() >= mb * 1_000_000);
    let mut sample = 0u64;
    while !sample.is_multiple_of(100) || !long_enough() {
        sample += 1;
        let counters = |disk: u64| {
            let ops = sample * (disk * 7 + 11) + sample * sample % 13;
            DiskCounters {
                reads: ops,
                read_sectors: 16 * ops,
                read_ms: ops / 2,
                writes: 2 * ops,
                write_sectors: 64 * ops,
                write_ms: ops,
                in_flight: ops % 5,
                active_ms: sample * 400,
                queue_ms: 2 * ops,
                ..DiskCounters::default()
            }
        };
        let disks: Vec<Found> = (0..)
            .zip(&names)
            .map(|(disk, name)| Found::disk(name, counters(disk)))
            .collect();
        writer.record(begin + sample * 10 * Nanos::SECOND.0, &disks)?;
    }
    Ok(())
}

/// Streams, blocks that come again and again (the lower the more often), and jumps; in bursts; rows
/// in the order of the requests' ends.
fn msr(path: &Path, n: u64) -> std::io::Result<()> {
    let mut into = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut rng = Rng::new(Seed(17));
    let mut streams: Vec<u64> = (0..STREAMS).map(|_| rng.below(BLOCKS)).collect();
    let mut at = BEGIN;
    let mut pending: Vec<(u64, String)> = Vec::new();
    for _ in 0..n {
        let mean = if rng.below(10) == 0 { 9.0 } else { 0.11 };
        at += round_u64(rng.exponential(mean * GAP_TICKS));
        let size = [1, 1, 1, 2, 4, 16][to_usize(rng.below(6))];
        let (way, block) = match rng.below(10) {
            0..4 => {
                let stream = &mut streams[to_usize(rng.below(STREAMS))];
                if rng.below(200) == 0 {
                    *stream = rng.below(BLOCKS);
                }
                let block = *stream;
                *stream = (block + size) % BLOCKS;
                ("Read", block)
            }
            4..8 => {
                let share = rng.unit();
                let hot = round_u64(share * share * share * 200_000.0);
                ("Write", hot * 37 % BLOCKS)
            }
            _ => ("Write", rng.below(BLOCKS)),
        };
        let took = 500 + round_u64(rng.exponential(5_000.0));
        let (offset, bytes) = (block * 4096, size * 4096);
        pending.push((
            at + took,
            format!("{at},hm,0,{way},{offset},{bytes},{took}\n"),
        ));
        if pending.len() >= 4096 {
            // All that end before the next start are in their order.
            pending.sort_unstable();
            let done = pending.partition_point(|(end, _)| *end < at);
            for (_, row) in pending.drain(..done) {
                into.write_all(row.as_bytes())?;
            }
        }
    }
    pending.sort_unstable();
    for (_, row) in pending {
        into.write_all(row.as_bytes())?;
    }
    into.flush()
}
