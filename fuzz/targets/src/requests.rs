// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a recording of requests: an error or requests, no panic, and no more of them than
//! the bytes justify.

use plimsoll_trace::requests::{self, TraceSorter};
use plimsoll_trace::{RecordingInput, TraceSource};

/// Runs the target on one input.
pub fn requests(input: &[u8]) {
    let bytes = std::io::Cursor::new(input.to_vec());
    let Ok(file) = RecordingInput::new("fuzzed".into(), Box::new(bytes)) else {
        return;
    };
    let Ok(reader) = requests::read(file) else {
        return;
    };
    // A log of Darshan is compressed inside: by 1,032 at most, and a request has 32 bytes.
    let magic = 6_567_223_u64;
    let is_packed = input
        .get(8..16)
        .is_some_and(|bytes| bytes == magic.to_le_bytes() || bytes == magic.to_be_bytes());
    let most = input.len() * if is_packed { 33 } else { 1 };
    let mut sorted = TraceSorter::new(reader);
    let mut found = Vec::new();
    while sorted.read(&mut found).unwrap_or(false) {
        assert!(found.len() <= most);
    }
    assert!(found.is_sorted_by_key(|request| request.at));
    let targets = sorted.targets().len();
    assert!(
        found
            .iter()
            .all(|request| usize::from(request.target) < targets)
    );
}
