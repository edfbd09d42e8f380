// SPDX-License-Identifier: Apache-2.0
//! Any text as a job file of fio, and as an I/O log: the readers must neither panic nor hang, and
//! what a reader accepts must be writable again or refused in order. What is written anew for fio has
//! only lines that are written the same again.

use plimsoll_classics::fio;
use plimsoll_core::units::Nanos;

/// Runs the target on one input.
pub fn fio_job(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(job) = fio::job("fuzzed", &text) {
        let _ = fio::export(&job.workload, Nanos::SECOND);
    }
    if let Ok(job) = fio::rewritten(&text, &[]) {
        assert_eq!(fio::rewritten(&job, &[]).ok().as_ref(), Some(&job));
    }
    if let Ok(workload) = fio::read_log("fuzzed", &text) {
        let _ = fio::export(&workload, Nanos::SECOND);
    }
}
