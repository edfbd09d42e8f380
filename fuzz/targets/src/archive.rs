// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a PCP archive: the reader must neither panic nor hang nor ask for more memory
//! than the bytes justify.
//!
//! The first byte says the version, and whether the rest is the three files as they are (two
//! lengths, then metadata and two volumes, compressed or not), or a list of records {file, length,
//! payload} that get valid labels and frames, so that mutations reach what lies behind them. Not
//! here: the fit, whose self-check plays as many operations as the counters claim.

use plimsoll_trace::CounterSource;
use plimsoll_trace::pcp::PcpArchive;

/// Runs the target on one input.
pub fn archive(input: &[u8]) {
    let Some((how, rest)) = input.split_first() else {
        return;
    };
    let files = match how & 2 {
        0 => raw(rest),
        _ => framed(rest, 2 + u32::from(how & 1)),
    };
    let Some([meta, first, second]) = files else {
        return;
    };
    let mut volumes = vec![first];
    if !second.is_empty() {
        volumes.push(second);
    }
    let Ok(archive) = PcpArchive::from_bytes("fuzzed", meta, volumes) else {
        return;
    };
    let _ = archive.times().window(Some("11:00"), Some("12:00"));
    let Ok(all) = archive.all_series(&archive.times().span()) else {
        return;
    };
    assert_eq!(all.len(), archive.disks().len());
    for column in all.iter().flat_map(|series| &series.columns) {
        let _ = column.averages();
        let ordered =
            |pair: &[plimsoll_trace::CounterInterval]| pair[0].to_unix_ns <= pair[1].from_unix_ns;
        assert!(column.intervals.windows(2).all(ordered));
    }
}

fn raw(input: &[u8]) -> Option<[Vec<u8>; 3]> {
    let (lengths, rest) = input.split_at_checked(4)?;
    let length = |at: usize| usize::from(u16::from_be_bytes([lengths[at], lengths[at + 1]]));
    let (meta, rest) = rest.split_at(length(0).min(rest.len()));
    let (first, second) = rest.split_at(length(2).min(rest.len()));
    Some([meta.to_vec(), first.to_vec(), second.to_vec()])
}

fn framed(mut input: &[u8], version: u32) -> Option<[Vec<u8>; 3]> {
    let mut files = [-1, 0, 1].map(|volume| label(version, volume));
    while let [file, length, rest @ ..] = input {
        let (payload, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        files[usize::from(file % 3)].extend(frame(payload));
        input = rest;
    }
    Some(files)
}

fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len() + 8)
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    [&length, payload, &length].concat()
}

fn label(version: u32, volume: i32) -> Vec<u8> {
    let mut payload = (0x5005_2600 + version).to_be_bytes().to_vec();
    // Process and time stamp.
    payload.resize(if version == 2 { 16 } else { 20 }, 0);
    payload.extend(volume.to_be_bytes());
    payload.resize(if version == 2 { 124 } else { 800 }, 0);
    frame(&payload)
}
