// SPDX-License-Identifier: Apache-2.0
//! A damaged log of Darshan: an error or requests, no panic, and no more requests than its bytes can
//! hold.
//!
//! The input is a list of {place (2 bytes), what is changed there, how}; the log it changes has the
//! traces of two files, uncompressed, so that changes reach the records. A place behind its end cuts it.

use plimsoll_trace::{RecordingInput, TraceSource, requests};

const MODULES: usize = 16;
const HEADER_BYTES: usize = 16 + 8 + 16 + 20 * MODULES;
/// The place of the traces of POSIX among the modules of version 3.21.
const POSIX: usize = 9;

/// The traces of a file by a process: a write and a read.
fn file(id: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = [id, 0, 0]
        .iter()
        .flat_map(|n: &u64| n.to_le_bytes())
        .collect();
    bytes.extend([b'n'; 63]);
    bytes.push(0);
    bytes.extend([1_u64, 1].iter().flat_map(|n| n.to_le_bytes()));
    for (offset, length, start, end) in [(0_u64, 4096_u64, 0.5_f64, 0.6_f64), (4096, 512, 0.7, 0.8)]
    {
        bytes.extend([offset.to_le_bytes(), length.to_le_bytes()].concat());
        bytes.extend([start.to_le_bytes(), end.to_le_bytes()].concat());
    }
    bytes
}

fn log() -> Vec<u8> {
    let job: Vec<u8> = [0_u64, 1_640_000_000, 1_640_000_009, 2, 7, 0, 0]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    let names = [
        &7_u64.to_le_bytes()[..],
        b"/a\0",
        &8_u64.to_le_bytes(),
        b"/b\0",
    ]
    .concat();
    let traces = [file(7), file(8)].concat();
    let names_at = HEADER_BYTES + job.len();
    let traces_at = names_at + names.len();
    let mut header = b"3.21\0\0\0\0".to_vec();
    header.extend(6_567_223_u64.to_le_bytes());
    // Not compressed, nothing missing.
    header.extend([2, 0, 0, 0, 0, 0, 0, 0]);
    let region = |at: usize, length: usize| {
        [(at as u64).to_le_bytes(), (length as u64).to_le_bytes()].concat()
    };
    header.extend(region(names_at, names.len()));
    for module in 0..MODULES {
        header.extend(match module {
            POSIX => region(traces_at, traces.len()),
            _ => region(0, 0),
        });
    }
    for module in 0..MODULES {
        header.extend(u32::from(module == POSIX).to_le_bytes());
    }
    [header, job, names, traces].concat()
}

/// Runs the target on one input.
pub fn darshan(input: &[u8]) {
    let mut bytes = log();
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
    // One byte makes it compressed, and what is compressed may become 1,032 times as long.
    let most = bytes.len() * 33;
    let Ok(file) = RecordingInput::new("fuzzed".into(), Box::new(std::io::Cursor::new(bytes)))
    else {
        return;
    };
    let Ok(mut reader) = requests::read(file) else {
        return;
    };
    let mut found = Vec::new();
    while reader.read(&mut found).unwrap_or(false) {
        assert!(found.len() <= most);
    }
    let targets = reader.targets().len();
    assert!(
        found
            .iter()
            .all(|request| usize::from(request.target) < targets)
    );
}
