// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a PCP archive: the reader must neither panic nor hang nor ask for more memory
//! than the bytes justify.
//!
//! The input is split into the metadata and two volumes by two lengths at its front. Not here:
//! the fit, whose self-check plays as many operations as the counters claim.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_trace::Counters;
use plimsoll_trace::pcp::Archive;

fuzz_target!(|input: &[u8]| {
    let Some((lengths, rest)) = input.split_at_checked(4) else {
        return;
    };
    let length = |at: usize| usize::from(u16::from_be_bytes([lengths[at], lengths[at + 1]]));
    let (meta, rest) = rest.split_at(length(0).min(rest.len()));
    let (first, second) = rest.split_at(length(2).min(rest.len()));
    let mut volumes = vec![first.to_vec()];
    if !second.is_empty() {
        volumes.push(second.to_vec());
    }
    let Ok(archive) = Archive::from_bytes("fuzzed", meta.to_vec(), volumes) else {
        return;
    };
    let _ = archive.window(Some("11:00"), Some("12:00"));
    for disk in archive.disks() {
        if let Ok(series) = archive.series(&disk, &archive.span()) {
            for column in &series.columns {
                let _ = column.averages();
            }
        }
    }
});
