// SPDX-License-Identifier: Apache-2.0
//! How fast the readers of requests are. A measurement, not a check: run it alone on a machine with
//! `cargo test --release -p plimsoll-trace --test integration reader_speed -- --ignored --nocapture`.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a measurement needs the clock and the program it compares with, and must not go on \
              without its data"
)]

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_trace::requests::{self, TraceRequest};
use plimsoll_trace::{RecordingInput, TraceSource};

const ROWS: u64 = 1_000_000;
const ROUNDS: usize = 5;

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Reads all, and keeps nothing of it.
fn drain(mut reader: Box<dyn TraceSource>) -> u64 {
    let (mut found, mut count): (Vec<TraceRequest>, u64) = (Vec::new(), 0);
    loop {
        let more = reader.read(&mut found).unwrap();
        count += found.len() as u64;
        found.clear();
        if !more {
            assert_eq!(reader.damage(), None);
            return count;
        }
    }
}

/// The shortest of several times.
fn best(mut run: impl FnMut()) -> Duration {
    let times = (0..ROUNDS).map(|_| {
        let begun = Instant::now();
        run();
        begun.elapsed()
    });
    times.min().unwrap()
}

/// A row of a format by its number; places and sizes differ as in a real trace.
type MakeRow = fn(&mut String, u64);

fn text(header: &str, row: MakeRow) -> Vec<u8> {
    let mut text = header.to_owned();
    for number in 0..ROWS {
        row(&mut text, number);
    }
    text.into_bytes()
}

/// A number that looks like a place on a disk.
fn place(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34
}

/// Texts with a request on every line.
fn rows() -> Vec<(&'static str, Vec<u8>)> {
    let rows: [(&str, &str, MakeRow); 9] = [
        ("MSR", "", |t, n| {
            let time = 128_166_385_295_514_663 + n * 999;
            let _ = writeln!(
                t,
                "{time},hm,0,Write,{},4096,{}",
                place(n) * 512,
                900 + n % 999
            );
        }),
        (
            "SYSTOR '17",
            "Timestamp,Response,IOType,LUN,Offset,Size\n",
            |t, n| {
                let at = 1_456_095_145.0 + n as f64 * 1e-5;
                let _ = writeln!(t, "{at:.9},0.000806000,R,{},{},8192", n % 6, place(n) * 512);
            },
        ),
        ("Alibaba", "", |t, n| {
            let time = 1_577_808_144_360_767 + n;
            let _ = writeln!(t, "{},W,{},16384,{time}", n % 100, place(n) * 4096);
        }),
        ("Tencent", "", |t, n| {
            let time = 1_538_323_199 + n / 1_000;
            let _ = writeln!(t, "{time},{},8,{},{}", place(n), n % 2, 1_000 + n % 100);
        }),
        ("SPC", "", |t, n| {
            let _ = writeln!(t, "{},{},8192,W,{:.6}", n % 3, place(n), n as f64 * 1e-4);
        }),
        ("FIU", "", |t, n| {
            let time = 89_968_195_792_462 + n * 1_000;
            let hash = "56f11b711d91a065a2b6458eca924523";
            let _ = writeln!(t, "{time} 20782 gzip {} 8 R 6 0 {hash}", place(n));
        }),
        ("MQSim", "", |t, n| {
            let _ = writeln!(t, "{} {} {} 16 {}", n * 1_000, n % 4, place(n), n % 2);
        }),
        (
            "fio iolog 3",
            "fio version 3 iolog\n0 /data/a add\n",
            |t, n| {
                let _ = writeln!(t, "{} /data/a read {} 4096", n * 10, place(n) * 4096);
            },
        ),
        (
            "bcc biosnoop",
            "TIME(s)     COMM           PID    DISK    T SECTOR     BYTES   LAT(ms)\n",
            |t, n| {
                let at = n as f64 * 1e-5;
                let _ = writeln!(
                    t,
                    "{at:<11.6} fio            950    nvme0n1 R {:<10} 4096    {:>7.3}",
                    place(n),
                    0.08
                );
            },
        ),
    ];
    rows.map(|(name, header, row)| (name, text(header, row)))
        .into()
}

/// Formats that have no row for each request.
fn others() -> [(&'static str, Vec<u8>); 2] {
    let printed = text("", |t, n| {
        let (at, sector) = (n as f64 * 1e-5, place(n));
        for (action, later) in [
            ("Q", 0.0),
            ("G", 1e-7),
            ("I", 2e-7),
            ("D", 3e-7),
            ("C", 8e-6),
        ] {
            let at = at + later;
            let _ = writeln!(
                t,
                "259,0    3 {n:>8} {at:>15.9}  1867  {action}   R {sector} + 8 [fio]"
            );
        }
    });
    let mut commands = Vec::new();
    for n in 0..ROWS {
        let number = u32::try_from(n).unwrap();
        commands.extend([number, 4096, 1].map(u32::to_le_bytes).concat());
        commands.extend([0x28, 0, 0, 1]);
        commands.extend([place(n), n * 10].map(u64::to_le_bytes).concat());
    }
    [
        ("blkparse (5 rows each)", printed),
        ("vscsiStats", commands),
    ]
}

#[test]
#[ignore = "a measurement of some ten seconds that needs the machine for itself"]
fn every_reader_is_measured() {
    for (name, bytes) in rows().into_iter().chain(others()) {
        let length = bytes.len();
        let bytes: std::sync::Arc<[u8]> = bytes.into();
        let time = best(|| {
            let source = Box::new(Cursor::new(std::sync::Arc::clone(&bytes)));
            let input = RecordingInput::new(name.into(), source).unwrap();
            assert_eq!(drain(requests::read(input).unwrap()), ROWS, "{name}");
        });
        say(&format!(
            "{name:<24} {:>6.2} million requests/s  {:>6.0} MB/s",
            ROWS as f64 / time.as_secs_f64() / 1e6,
            length as f64 / time.as_secs_f64() / 1e6
        ));
    }
}

/// Files of two processors with five events for each request.
fn write_blktrace(base: &Path, requests: u64) -> u64 {
    let mut files = [Vec::new(), Vec::new()];
    let mut numbers = [0u32; 2];
    let (read, fs) = (1u32, 256);
    let actions = [(1u32, 16u32), (4, 0), (12, 16), (7, 64), (8, 128)];
    for n in 0..requests {
        for (step, (action, category)) in (0u64..).zip(actions) {
            // Completions come on the other processor.
            let processor = usize::from(action == 8);
            numbers[processor] += 1;
            let at = 1_000_000 + n * 10_000 + step * 1_500;
            let flags = action | (read | fs | category) << 16;
            let file = &mut files[processor];
            file.extend(
                [0x6561_7407, numbers[processor]]
                    .map(u32::to_le_bytes)
                    .concat(),
            );
            file.extend([at, place(n)].map(u64::to_le_bytes).concat());
            let rest = [
                4096,
                flags,
                950,
                259 << 20,
                u32::try_from(processor).unwrap(),
                0,
            ];
            file.extend(rest.map(u32::to_le_bytes).concat());
        }
    }
    for (processor, file) in files.iter().enumerate() {
        let path = base.with_file_name(format!("speed.blktrace.{processor}"));
        std::fs::write(path, file).unwrap();
    }
    requests * 5
}

#[test]
#[ignore = "a measurement of some ten seconds that needs the machine for itself"]
fn blktrace_is_measured_against_blkparse() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("speed");
    let requests = 300_000;
    let events = write_blktrace(&base, requests);
    let blkparse = |options: &[&str]| {
        Command::new("blkparse")
            .arg("-i")
            .arg(&base)
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    };
    if blkparse(&["-V"]).is_err() {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: blkparse is absent; install blktrace"
        );
        return;
    }
    let (mut ours, mut text, mut quiet) = (Vec::new(), Vec::new(), Vec::new());
    // One after the other in every round, so that a slow moment meets all.
    for _ in 0..ROUNDS {
        let timed = |times: &mut Vec<Duration>, run: &mut dyn FnMut()| {
            let begun = Instant::now();
            run();
            times.push(begun.elapsed());
        };
        timed(&mut ours, &mut || {
            assert_eq!(drain(requests::open(&base).unwrap()), requests);
        });
        timed(&mut text, &mut || {
            assert!(blkparse(&["-o", "/dev/null"]).unwrap().success());
        });
        timed(&mut quiet, &mut || {
            assert!(blkparse(&["-O"]).unwrap().success());
        });
    }
    for (name, times) in [
        ("this reader", &mut ours),
        ("blkparse, text to /dev/null", &mut text),
        ("blkparse -O (no text)", &mut quiet),
    ] {
        times.sort();
        let median = times[ROUNDS / 2].as_secs_f64();
        say(&format!(
            "{name:<28} median of {ROUNDS} {median:>7.3} s  {:>6.2} million events/s",
            events as f64 / median / 1e6
        ));
    }
}
