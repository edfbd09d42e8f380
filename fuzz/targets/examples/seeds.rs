// SPDX-License-Identifier: Apache-2.0
//! Writes the seeds that are bytes, not text, into `fuzz/seeds`:
//! `cargo run -p plimsoll-fuzz-targets --example seeds`.

use std::fs;
use std::io::Result;
use std::path::Path;

use plimsoll_core::format::FormatVersion;
use plimsoll_core::ledger::{LedgerCompletion, LedgerCompletionStatus, LedgerDurability};
use plimsoll_core::ledger::{LedgerEntry, LedgerHeader, LedgerSession, LedgerTarget, encode};
use plimsoll_core::op::OpKind;
use plimsoll_core::recording::{DeviceCounterSample, DiskCounters};
use plimsoll_core::units::Nanos;
use plimsoll_trace::pcp::{PcpWriter, PcpWriterOptions};

/// 26 November 2026, in the morning.
const START_UNIX_NS: u64 = 1_795_600_000_000_000_000;

fn main() -> Result<()> {
    for (target, name, bytes) in [
        ("archive", "written", written_archive()?),
        ("archive", "framed_2", framed_archive(2)),
        ("archive", "framed_3", framed_archive(3)),
        ("ledger", "session", ledger()),
        ("ledger", "entry", entry()),
        ("nfs_reply", "read", reply(&read_reply())),
        ("nfs_reply", "write", reply(&write_reply())),
        ("nfs_reply", "pieces", pieces(&read_reply())),
        ("nfs_reply", "error", reply(&words(&[70, 0]))),
        ("requests", "spool", spool()),
        ("requests", "vscsi", vscsi()),
        ("requests", "blktrace", blktrace()),
        ("spool", "valid", [vec![6], records()].concat()),
        ("spool", "as_they_are", [vec![2], records()].concat()),
        ("tracer", "events", tracer_events()),
        ("tracer", "settled", [vec![66], tracer_events()].concat()),
        ("tracer", "pages", tracer_page()),
        ("tracer", "description", tracer_description()),
        // Lists of changes of what the target has itself.
        (
            "darshan",
            "kind_and_length",
            changes(&[[0, 0, b'4', 0], [16, 0, 0, 0], [0x30, 1, 9, 1]]),
        ),
        (
            "darshan",
            "cut",
            changes(&[[0xff, 0xff, 0, 0], [40, 0, 1, 7]]),
        ),
        (
            "parquet",
            "body",
            changes(&[[4, 0, 21, 0], [30, 0, 0xff, 1]]),
        ),
        ("parquet", "cut", changes(&[[0xff, 0xff, 0, 0]])),
        (
            "partial",
            "numbers",
            vec![60, 0, b'9', 200, 1, b'-', 0, 4, b'e'],
        ),
        ("greeting", "numbers", vec![12, b'2', 30, b'"', 60, b'}']),
        ("run_folder", "large", numbers(&[(9, 0), (200, 3), (40, 2)])),
        ("run_folder", "small", numbers(&[(5, 4), (80, 1), (300, 4)])),
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../seeds")
            .join(target);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Changes of numbers, each by its place and how the number is taken.
fn numbers(places: &[(u16, u8)]) -> Vec<u8> {
    let change =
        |(place, kind): &(u16, u8)| [&place.to_le_bytes()[..], &[*kind], &[0xfe; 8]].concat();
    places.iter().flat_map(change).collect()
}

fn changes(changes: &[[u8; 4]]) -> Vec<u8> {
    changes.concat()
}

/// Archive of our own writer, as the target takes it: two lengths, then the files.
fn written_archive() -> Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let base = folder.path().join("a");
    let options = PcpWriterOptions {
        host: "vm".into(),
        zone: "UTC".into(),
        zone_name: String::new(),
        process: 1,
        start_unix_ns: START_UNIX_NS,
        volume_bytes: 1 << 20,
    };
    let mut writer = PcpWriter::create(&base, options).map_err(std::io::Error::other)?;
    for second in 1..4 {
        let counted = DiskCounters {
            reads: second * 100,
            read_sectors: second * 800,
            active_ms: second * 30,
            ..DiskCounters::default()
        };
        let disks = [DeviceCounterSample::disk("sda", counted)];
        let at = START_UNIX_NS + second * 1_000_000_000;
        writer.record(at, &disks).map_err(std::io::Error::other)?;
    }
    writer.finish().map_err(std::io::Error::other)?;
    let meta = fs::read(base.with_extension("meta"))?;
    let volume = fs::read(base.with_extension("0"))?;
    let length = |bytes: &[u8]| {
        u16::try_from(bytes.len())
            .expect("they are short")
            .to_be_bytes()
    };
    Ok([&[0][..], &length(&meta), &length(&volume), &meta, &volume].concat())
}

/// Records that the target puts into valid frames: {file, length, payload}.
fn framed_archive(version: u8) -> Vec<u8> {
    const DOMAIN: u32 = 0x0f00_0001;
    const READS: u32 = 0x0f00_0004;
    let time = |second: u32| match version {
        2 => words(&[second, 0]),
        _ => words(&[second, 0, 0]),
    };
    let name = b"disk.dev.read";
    let described = [
        &words(&[1, READS, 1, DOMAIN, 1, 0x0010_0000, 1, 13])[..],
        name,
    ]
    .concat();
    let kind = if version == 2 { 2 } else { 5 };
    let listed = [
        &words(&[kind])[..],
        &time(10),
        &words(&[DOMAIN, 1, 0, 0]),
        b"sda\0",
    ]
    .concat();
    let mut bytes = vec![version];
    let mut put = |file: u8, payload: Vec<u8>| {
        bytes.extend([file, u8::try_from(payload.len()).expect("it is short")]);
        bytes.extend(payload);
    };
    put(0, described);
    put(0, listed);
    for second in 11..14 {
        // One set of one value, in place.
        put(
            1,
            [time(second), words(&[1, READS, 1, 0, 0, second * 7])].concat(),
        );
    }
    put(2, [time(20), words(&[0])].concat());
    bytes
}

fn ledger_entries() -> [LedgerEntry; 5] {
    let ended = LedgerCompletion {
        session: 1,
        op: 7,
        kind: OpKind::Write,
        offset: 8192,
        version: 1,
        intended_at: Nanos(5),
        submitted_at: Nanos(6),
        ended_at: Nanos(900),
        outcome: LedgerCompletionStatus::Ok,
    };
    [
        LedgerEntry::Campaign(LedgerHeader {
            format: FormatVersion::LEDGER,
            id: 7,
            began_at: Nanos(1 << 60),
            block_bytes: 4096,
            durability: LedgerDurability::Fsync(8),
        }),
        LedgerEntry::Target(LedgerTarget {
            number: 0,
            name: "/mnt".into(),
        }),
        LedgerEntry::Session(LedgerSession {
            number: 1,
            target: 0,
            file: 1,
            name: "plimsoll.ledger.1".into(),
            offset: 0,
            bytes: 1 << 20,
            write_period: Nanos(20),
            read_period: Nanos(30),
        }),
        LedgerEntry::Ended(ended),
        LedgerEntry::Closed { at: Nanos(1000) },
    ]
}

fn ledger() -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in ledger_entries() {
        encode(&entry, &mut bytes);
    }
    bytes
}

/// One entry without its frame, which the target makes.
fn entry() -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&ledger_entries()[3], &mut bytes);
    bytes[2..bytes.len() - 4].to_vec()
}

/// An accepted reply to call 9, in one record.
fn reply(result: &[u8]) -> Vec<u8> {
    let body = accepted(result);
    let length = u32::try_from(body.len()).expect("it is short");
    [words(&[1 << 31 | length]), body].concat()
}

/// The same in two fragments.
fn pieces(result: &[u8]) -> Vec<u8> {
    let body = accepted(result);
    let (first, last) = body.split_at(16);
    let length = u32::try_from(last.len()).expect("it is short");
    [&words(&[16])[..], first, &words(&[1 << 31 | length]), last].concat()
}

fn accepted(result: &[u8]) -> Vec<u8> {
    [&words(&[9, 1, 0, 0, 0, 0])[..], result].concat()
}

/// Without attributes: five bytes, and the end of the file.
fn read_reply() -> Vec<u8> {
    [&words(&[0, 0, 5, 1, 5])[..], b"bytes\0\0\0"].concat()
}

fn write_reply() -> Vec<u8> {
    words(&[0, 0, 0, 512, 2, 1, 2])
}

fn record(at: u64, took: u64, offset: u64, target: u16, kind: u8) -> Vec<u8> {
    let mut bytes = [at, took, offset].map(u64::to_le_bytes).concat();
    bytes.extend(4096_u32.to_le_bytes());
    bytes.extend(target.to_le_bytes());
    bytes.extend([kind, 0]);
    bytes
}

fn records() -> Vec<u8> {
    [
        record(10, 7, 4096, 0, 0),
        record(20, u64::MAX, 0, 1, 1),
        record(15, 3, 1 << 40, 0, 3),
    ]
    .concat()
}

fn spool() -> Vec<u8> {
    let head = b"plimsoll requests 1\norigin 1700000000000000000\ndevice sda\ndevice sdb\n\n";
    [&head[..], &records()].concat()
}

/// Version 2 of vscsiStats: a write and a read.
fn vscsi() -> Vec<u8> {
    let command = |number: u32, code: u16, bytes: u32, block: u64, at_us: u64| {
        let kind = [&code.to_le_bytes()[..], &[0, 2]].concat();
        let numbers = [number, bytes, 1].map(u32::to_le_bytes).concat();
        let end = [block, at_us, 300].map(u64::to_le_bytes).concat();
        [kind, numbers, end].concat()
    };
    [
        command(1, 0x2a, 4096, 800, 5_000_000),
        command(2, 0x28, 8192, 16, 5_000_200),
    ]
    .concat()
}

/// Version 7, little endian: a write is queued and completes.
fn blktrace() -> Vec<u8> {
    let event = |number: u32, at: u64, action: u32| {
        let mut bytes = 0x6561_7407_u32.to_le_bytes().to_vec();
        bytes.extend(number.to_le_bytes());
        bytes.extend([at, 100].map(u64::to_le_bytes).concat());
        // Length, action, process, device, processor; no error and nothing behind it.
        bytes.extend(
            [4096, action, 77, 8 << 20, 0, 0]
                .map(u32::to_le_bytes)
                .concat(),
        );
        bytes
    };
    let write = 2 << 16;
    [
        event(1, 11_000, 1 | write),
        event(2, 12_000, 7 | write),
        event(3, 14_000, 8 | write),
    ]
    .concat()
}

/// {kind, time (2), sector (2), sectors, flags} each, behind a byte that asks for them.
fn tracer_events() -> Vec<u8> {
    let events = [
        [0, 0, 9, 8, 0, 8, 0],
        [2, 0, 9, 8, 0, 8, 0],
        [1, 0, 3, 8, 0, 4, 1],
        [3, 0, 1, 8, 0, 8, 4],
    ];
    [&[2][..], &events.concat()].concat()
}

/// A page as the kernel lays it out, with one event.
fn tracer_page() -> Vec<u8> {
    let mut bytes = vec![1];
    bytes.extend([2_000_u64, 40].map(u64::to_ne_bytes).concat());
    bytes.extend((9_u32 | 7 << 5).to_ne_bytes());
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend((8_u32 << 20).to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(100_u64.to_ne_bytes());
    bytes.extend(8_u32.to_ne_bytes());
    bytes.extend(b"WS\0\0\0\0\0\0");
    bytes
}

fn tracer_description() -> Vec<u8> {
    let text = "name: block_rq_issue\nID: 1\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int nr_sector;\toffset:24;\tsize:4;\tsigned:0;\n\tfield:char rwbs[8];\toffset:28;\tsize:8;\tsigned:1;\n";
    [&[0], text.as_bytes()].concat()
}
