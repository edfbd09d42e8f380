// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a folio of PCP archives: no panic, and not more names than lines.

use plimsoll_trace::pcp::archives_of_folio;

/// Runs the target on one input.
pub fn folio(input: &[u8]) {
    let lines = input.split(|byte| *byte == b'\n').count();
    if let Ok(names) = archives_of_folio("fuzzed", input) {
        assert!(names.len() < lines);
    }
}
