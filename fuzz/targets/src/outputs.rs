// SPDX-License-Identifier: Apache-2.0
//! Any text as the output of each program that is read: results or an error, no panic.

use plimsoll_classics::originals::{ProgramOutputFormat, read};

/// Runs the target on one input.
pub fn outputs(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let _ = ProgramOutputFormat::guess(&text);
    for format in ProgramOutputFormat::ALL {
        if let Ok(readings) = read(format, &text) {
            assert!(readings.iter().all(|reading| !reading.phases.is_empty()));
        }
    }
}
