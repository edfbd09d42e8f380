// SPDX-License-Identifier: Apache-2.0
//! A damaged table of requests: an error or requests, no panic that is not caught, and no more
//! requests than it was made of.
//!
//! The input is a list of {place (2 bytes), what is changed there, how}; the table it changes has
//! eight requests. A place behind its end cuts it. Headers claim any length and number: run with
//! `cargo +nightly fuzz run parquet -- -malloc_limit_mb=64`, which ends at an allocation that trusts one.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;
use plimsoll_trace::requests::{self, TraceRequest, TraceSpool, parquet};

const ROWS: u64 = 8;

/// A table, and a file in memory to put changed ones into.
static TABLE: LazyLock<(Vec<u8>, PathBuf)> = LazyLock::new(|| {
    let shared = PathBuf::from("/dev/shm");
    let folder = if shared.is_dir() {
        shared
    } else {
        std::env::temp_dir()
    };
    let path = folder.join(format!("plimsoll-fuzz-{}", std::process::id()));
    let spool_path = path.with_extension("spool");
    let mut spool = TraceSpool::create(&spool_path, 1, &["sda".into(), "sdb".into()]).expect("a spool");
    let request = |n: u64| TraceRequest {
        at: Nanos(n * 1_000_003),
        took: (n != 3).then_some(Nanos(n * 50)),
        kind: if n % 3 == 0 { OpKind::Write } else { OpKind::Read },
        target: (n % 2) as u16,
        bytes: 4096,
        offset: (n * 7919) << 12,
    };
    let rows: Vec<TraceRequest> = (0..ROWS).map(request).collect();
    spool.append(&rows, 1).expect("rows");
    let mut recording = requests::open(&spool_path).expect("the spool");
    parquet::write(&mut *recording, &path).expect("a table");
    let bytes = std::fs::read(&path).expect("the table");
    let _ = std::fs::remove_file(&spool_path);
    (bytes, path)
});

fuzz_target!(|input: &[u8]| {
    let (table, path) = &*TABLE;
    let mut bytes = table.clone();
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
    std::fs::write(path, &bytes).expect("a file to write to");
    let Ok(mut reader) = requests::open(path) else {
        return;
    };
    let mut found = Vec::new();
    while reader.read(&mut found).unwrap_or(false) {
        assert!(found.len() as u64 <= 1 << 24);
    }
});
