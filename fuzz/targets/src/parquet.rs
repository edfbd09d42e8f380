// SPDX-License-Identifier: Apache-2.0
//! A damaged table of requests, and one of counters: an error or what can be in it, no panic that is not
//! caught.
//!
//! The input is a list of {place (2 bytes), what is changed there, how}; the tables it changes have
//! eight requests and eight intervals. A place behind its end cuts one. Headers claim any length and
//! number: with `-malloc_limit_mb=64` libFuzzer ends at an allocation that trusts one.

use std::path::PathBuf;
use std::sync::LazyLock;

use plimsoll_core::op::OpKind;
use plimsoll_core::profile::IntervalRow;
use plimsoll_core::units::Nanos;
use plimsoll_trace::OpenRecording;
use plimsoll_trace::requests::{self, TraceRequest, TraceSpool, parquet};

/// Of the table that is damaged.
const ROWS: u64 = 8;

/// Where a file costs no disk.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let shared = PathBuf::from("/dev/shm");
    if shared.is_dir() {
        shared
    } else {
        std::env::temp_dir()
    }
});

static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir_in(&*FOLDER).expect("a folder");
    let (spool, table) = (folder.path().join("spool"), folder.path().join("table"));
    let disks = ["sda".into(), "sdb".into()];
    let mut rows = TraceSpool::create(&spool, 1, &disks).expect("a spool");
    let request = |n: u64| TraceRequest {
        at: Nanos(n * 1_000_003),
        took: (n != 3).then_some(Nanos(n * 50)),
        kind: match n % 3 {
            0 => OpKind::Write,
            _ => OpKind::Read,
        },
        target: u16::from(n % 2 == 1),
        bytes: 4096,
        offset: (n * 7919) << 12,
    };
    let made: Vec<TraceRequest> = (0..ROWS).map(request).collect();
    rows.append(&made, 1).expect("rows");
    let mut recording = requests::open(&spool).expect("the spool");
    parquet::write(&mut *recording, &table).expect("a table");
    std::fs::read(&table).expect("the table")
});

static INTERVALS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    const BEGIN: u64 = 1_795_220_132_000_000_000;
    let row = |n: u64| IntervalRow {
        from_unix_ns: BEGIN + n * 1_000_000_000,
        to_unix_ns: BEGIN + (n + 1) * 1_000_000_000,
        reads: (n != 3).then_some(50.0),
        write_bytes: Some(4096.0),
        ..IntervalRow::default()
    };
    let path = std::path::Path::new("intervals");
    let mut table = plimsoll_fit::IntervalTable::begin(Vec::new(), path).expect("a table");
    table.push("sda", (0..ROWS).map(row)).expect("rows");
    table.finish().expect("the table")
});

/// Runs the target on one input.
pub fn parquet(input: &[u8]) {
    for table in [&*TABLE, &*INTERVALS] {
        changed(table.clone(), input);
    }
}

fn changed(mut bytes: Vec<u8>, input: &[u8]) {
    for change in input.chunks_exact(4) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        match bytes.get_mut(place) {
            // A number of several bytes becomes longer.
            Some(_) if change[3] % 8 == 7 => bytes.insert(place, change[2]),
            Some(byte) if change[3] % 2 == 0 => *byte = change[2],
            Some(byte) => *byte ^= change[2],
            None => bytes.truncate(place % (bytes.len() + 1)),
        }
    }
    // Tables are read from files only.
    let file = tempfile::NamedTempFile::new_in(&*FOLDER).expect("a file");
    std::fs::write(file.path(), &bytes).expect("room for it");
    let mut reader = match plimsoll_trace::open(file.path()) {
        Ok(OpenRecording::Requests(reader)) => reader,
        Ok(OpenRecording::Counters(counters)) => {
            for disk in counters.disks() {
                let _ = counters.series(&disk, &counters.times().span());
            }
            return;
        }
        Err(_) => return,
    };
    let mut found = Vec::new();
    while reader.read(&mut found).unwrap_or(false) {
        assert!(found.len() as u64 <= 1 << 24);
    }
}
