// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a ledger: no panic, no hang, and what is read as an entry is written as it was.

use crc32c::crc32c;
use plimsoll_core::ledger::{
    LedgerDecodeResult, LedgerHeader, LedgerProbes, decode, encode, entries,
};
use plimsoll_core::outage::{OutageProbeWindow, OutageResult};
use plimsoll_core::units::Nanos;

/// Runs the target on one input.
pub fn ledger(input: &[u8]) {
    let mut probes = LedgerProbes::default();
    for (entry, _) in entries(input) {
        let _ = LedgerHeader::first(Some(&entry));
        probes.take(&entry);
    }
    probes.finish();
    let window = OutageProbeWindow {
        from: Nanos(0),
        until: probes.length,
        fault_at: None,
    };
    // The bins of a long window are many; their number is bounded, their cost is not what is sought.
    if probes.length < Nanos(60_000_000_000) {
        let _ = OutageResult::of(&probes.sessions, &probes.probes, window).to_string();
    }
    // Random bytes seldom have a checksum that holds: the same with one.
    if let Ok(len) = u16::try_from(input.len()) {
        let mut framed = [&len.to_le_bytes()[..], input].concat();
        framed.extend_from_slice(&crc32c(&framed).to_le_bytes());
        if let LedgerDecodeResult::Entry(entry, whole) = decode(&framed) {
            let mut again = Vec::new();
            encode(&entry, &mut again);
            assert_eq!(
                decode(&again),
                LedgerDecodeResult::Entry(entry, again.len())
            );
            assert_eq!(whole, framed.len());
        }
    }
}
