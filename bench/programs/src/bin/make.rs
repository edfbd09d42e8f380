// SPDX-License-Identifier: Apache-2.0
//! Makes long recordings to measure readers and fits with, the same every time. `cargo xtask bench fit`
//! and `ingest` use it.
//!
//! `make msr FILE N` writes N requests as MSR Cambridge has them, `make parquet FROM TO` makes a
//! table of any recording of requests, `make pcp BASE MB` an archive of the counters of 40 disks, `make
//! grow FROM BASE MB` a longer archive of a real one; `make read FILE` reads every request, and does
//! nothing else.
#![expect(clippy::print_stdout, reason = "it is a program of its own")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Read as _, Write};
use std::path::Path;
use std::process::ExitCode;

use plimsoll_core::num::{round_u64, to_usize};
use plimsoll_core::recording::{DeviceCounterSample, DiskCounters};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;
use plimsoll_trace::pcp::{PcpWriter, PcpWriterOptions};
use plimsoll_trace::requests;
use plimsoll_trace::{TraceError, TraceSource as _};

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
        ["parquet", from, to] => parquet(from, to),
        ["pcp", base, mb] => match mb.parse() {
            Ok(mb) => pcp(Path::new(base), mb).map_err(|error| error.to_string()),
            Err(_) => Err(format!("read '{mb}' as a number")),
        },
        ["grow", from, base, mb] => match mb.parse() {
            Ok(mb) => grow(from, base, mb),
            Err(_) => Err(format!("read '{mb}' as a number")),
        },
        ["read", file] => read(Path::new(file)).map_err(|error| error.to_string()),
        _ => Err(
            "understand that: make msr FILE N, parquet FROM TO, pcp BASE MB, grow FROM BASE MB or \
             read FILE"
                .into(),
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
    let heading = PcpWriterOptions {
        host: "bench".into(),
        zone: "UTC0".into(),
        zone_name: String::new(),
        process: 1,
        start_unix_ns: begin,
        volume_bytes: u64::MAX,
    };
    let mut writer = PcpWriter::create(base, heading)?;
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
        let disks: Vec<DeviceCounterSample> = (0..)
            .zip(&names)
            .map(|(disk, name)| DeviceCounterSample::disk(name, counters(disk)))
            .collect();
        writer.record(begin + sample * 10 * Nanos::SECOND.0, &disks)?;
    }
    Ok(())
}

/// Where a record of an archive holds a value, and what it is.
#[derive(Clone, Copy)]
struct PcpValueLocation {
    record: usize,
    at: usize,
    /// Whether it has 64 bits, not 32.
    is_wide: bool,
    value: u64,
}

impl PcpValueLocation {
    fn put(self, records: &mut [Vec<u8>], value: u64) {
        let bytes = value.to_be_bytes();
        let bytes = if self.is_wide {
            &bytes[..]
        } else {
            &bytes[4..]
        };
        records[self.record][self.at..self.at + bytes.len()].copy_from_slice(bytes);
    }

    fn get(self, records: &[Vec<u8>]) -> u64 {
        let record = &records[self.record];
        match self.is_wide {
            true => u64::from(word(record, self.at)) << 32 | u64::from(word(record, self.at + 4)),
            false => word(record, self.at).into(),
        }
    }
}

/// A word of an archive; 0 where there is none.
fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
    four.map_or(0, u32::from_be_bytes)
}

fn size(bytes: &[u8], at: usize) -> usize {
    to_usize(word(bytes, at).into())
}

/// Extends an archive of version 3 (its first volume, compressed by xz or not) to `mb` MB: its records
/// repeat at later times. Values that only rise keep rising at their rate, and each other value that
/// changes is drawn from its recorded values.
fn grow(from: &str, base: &str, mb: usize) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("make {base} of {from}: {error}");
    let mut bytes = Vec::new();
    match File::open(format!("{from}.0.xz")) {
        Ok(file) => liblzma::read::XzDecoder::new(file).read_to_end(&mut bytes),
        Err(_) => File::open(format!("{from}.0")).and_then(|mut file| file.read_to_end(&mut bytes)),
    }
    .map_err(failed)?;
    let meta = std::fs::read(format!("{from}.meta")).map_err(failed)?;
    std::fs::write(format!("{base}.meta"), meta).map_err(failed)?;
    let (mut records, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let length = size(&bytes, at);
        let record = bytes.get(at..at + length).filter(|_| length >= SETS_AT);
        records.push(
            record
                .ok_or(format!("read {from}: it is cut at byte {at}"))?
                .to_vec(),
        );
        at += length;
    }
    let label = records.remove(0);
    let (rising, others) = changing(&records);
    let second = |record: &[u8]| word(record, 4);
    let ends = records.first().zip(records.last());
    let lasts = ends.map_or(0, |(first, last)| second(last) - second(first)) + 10;
    let mut rng = Rng::new(Seed(1));
    let mut into =
        BufWriter::with_capacity(1 << 20, File::create(format!("{base}.0")).map_err(failed)?);
    into.write_all(&label).map_err(failed)?;
    let mut written = 0;
    while written < mb * 1_000_000 {
        for record in &mut records {
            into.write_all(record).map_err(failed)?;
            written += record.len();
            let later = (second(record) + lasts).to_be_bytes();
            record[4..8].copy_from_slice(&later);
        }
        for (held, rise) in &rising {
            let value = held.get(&records).wrapping_add(*rise);
            held.put(&mut records, value);
        }
        for known in &others {
            for held in known {
                let value = known[to_usize(rng.below(known.len() as u64))].value;
                held.put(&mut records, value);
            }
        }
    }
    into.flush().map_err(failed)
}

/// Where the sets of values begin in a record: behind its length, time and their number.
const SETS_AT: usize = 20;

type Rising = Vec<(PcpValueLocation, u64)>;

/// The values that change: those that never fall, with their rise from one end of the records to the
/// other, and by metric and instance all others.
fn changing(records: &[Vec<u8>]) -> (Rising, Vec<Vec<PcpValueLocation>>) {
    let mut known: BTreeMap<(u32, u32), Vec<PcpValueLocation>> = BTreeMap::new();
    for (number, record) in records.iter().enumerate() {
        let mut at = SETS_AT;
        for _ in 0..word(record, SETS_AT - 4) {
            let (metric, count) = (word(record, at), word(record, at + 4));
            // None, or an error.
            if count == 0 || count > 1 << 30 {
                at += 8;
                continue;
            }
            let is_in_place = word(record, at + 8) == 0;
            at += 12;
            for _ in 0..count {
                let instance = word(record, at);
                let held = held(record, at + 4, is_in_place);
                if let Some((at, is_wide)) = held {
                    let place = PcpValueLocation {
                        record: number,
                        at,
                        is_wide,
                        value: 0,
                    };
                    let value = place.get(records);
                    let all = known.entry((metric, instance)).or_default();
                    all.push(PcpValueLocation { value, ..place });
                }
                at += 8;
            }
        }
    }
    let (mut rising, mut others) = (Vec::new(), Vec::new());
    for all in known.into_values() {
        let [first, .., last] = &all[..] else {
            continue;
        };
        let rise = last.value.saturating_sub(first.value);
        if rise > 0 && all.is_sorted_by_key(|held| held.value) {
            let rise = rise + (rise / all.len() as u64).max(1);
            rising.extend(all.iter().map(|held| (*held, rise)));
        } else if all.iter().any(|held| held.value != first.value) {
            others.push(all);
        }
    }
    (rising, others)
}

/// Where a value lies that a word stands for, and whether it has 64 bits; `None` for what is no whole
/// number.
fn held(record: &[u8], at: usize, is_in_place: bool) -> Option<(usize, bool)> {
    if is_in_place {
        return Some((at, false));
    }
    let block = (4 * size(record, at)).checked_sub(8)?;
    // Type 2 or 3 and a length of 12 bytes: a whole number of 64 bits.
    matches!(word(record, block), 0x0200_000c | 0x0300_000c).then_some((block + 4, true))
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
