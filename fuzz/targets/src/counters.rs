// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a file of counters: an error or intervals that follow each other, no panic.

use plimsoll_trace::CounterSource;
use plimsoll_trace::counters::CounterFile;

/// Runs the target on one input.
pub fn counters(input: &[u8]) {
    let Ok(file) = CounterFile::from_bytes("fuzzed", input.to_vec()) else {
        return;
    };
    // A few disks tell as much as thousands of the same kind.
    for disk in file.disks().iter().take(8) {
        let Ok(series) = file.series(disk, &file.times().span()) else {
            continue;
        };
        for column in &series.columns {
            let pairs = column.intervals.windows(2);
            for pair in pairs {
                assert!(pair[0].to_unix_ns <= pair[1].from_unix_ns);
            }
            assert!(
                column
                    .intervals
                    .iter()
                    .all(|i| i.from_unix_ns < i.to_unix_ns)
            );
            let _ = column.averages();
        }
    }
}
