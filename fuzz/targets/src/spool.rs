// SPDX-License-Identifier: Apache-2.0
//! Any bytes as what an ended recorder left: no panic, and no more requests than there are records.
//!
//! The first byte says how many devices the head names, and whether records get a kind and a device
//! that exist, or stay as they are.

use plimsoll_trace::requests::{self, TraceSorter};
use plimsoll_trace::{RecordingInput, TraceSource};

const RECORD_BYTES: usize = 32;

/// Runs the target on one input.
pub fn spool(input: &[u8]) {
    let Some((how, rest)) = input.split_first() else {
        return;
    };
    let devices = how % 4;
    let mut bytes = b"plimsoll requests 1\norigin 1700000000000000000\n".to_vec();
    for device in 0..devices {
        bytes.extend(format!("device sd{device}\n").bytes());
    }
    bytes.push(b'\n');
    let head = bytes.len();
    bytes.extend(rest);
    if how & 4 != 0 && devices > 0 {
        for record in bytes[head..].chunks_exact_mut(RECORD_BYTES) {
            record[28] %= devices;
            record[29] = 0;
            // Kinds that exist, losses, and one that does not.
            record[30] = [0, 1, 2, 3, 255, 4][usize::from(record[30] % 6)];
        }
    }
    let records = rest.len() / RECORD_BYTES;
    let Ok(file) = RecordingInput::new("fuzzed".into(), Box::new(std::io::Cursor::new(bytes)))
    else {
        return;
    };
    let Ok(reader) = requests::read(file) else {
        return;
    };
    let mut sorted = TraceSorter::new(reader);
    let mut found = Vec::new();
    while sorted.read(&mut found).unwrap_or(false) {}
    assert!(found.len() <= records);
    assert!(found.is_sorted_by_key(|request| request.at));
    assert!(
        found
            .iter()
            .all(|request| request.target < u16::from(devices))
    );
}
