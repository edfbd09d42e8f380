// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a partial result, and a true one in which bytes were changed: no panic, no hang, and what
//! is read of it can be pooled.

use plimsoll_archive::PartialReader;
use plimsoll_fit::RecordingPool;
use std::path::Path;

const TRUE: &[u8] = include_bytes!("../../../crates/plimsoll-archive/tests/partial/1.0.part");

/// Runs the target on one input.
pub fn partial(input: &[u8]) {
    pooled(input);
    // Random bytes are seldom JSON: two bytes for the place of a change, one for what is there then.
    let mut changed = TRUE.to_vec();
    for change in input.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
        changed[at] = change[2];
    }
    pooled(&changed);
}

fn pooled(bytes: &[u8]) {
    let Ok(mut reader) = PartialReader::new(Path::new("p"), bytes) else {
        return;
    };
    let mut pool = RecordingPool::new(reader.settings().clone());
    while let Ok(Some((summary, _))) = reader.next_recording() {
        let _ = pool.add(&summary);
    }
    let _ = pool.finish();
}
