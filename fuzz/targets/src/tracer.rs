// SPDX-License-Identifier: Apache-2.0
//! Any bytes as pages of the kernel's tracer, and as its description of its events: no panic, and no
//! more requests than the bytes have room for.
//!
//! The first byte says whether the rest is a description, pages as they are, or a list of events
//! {kind, time, sector, sectors, flags} to be put into valid pages.

use plimsoll_trace::requests::{FtraceParser, recorded_events};

const HEADER: &str = "field: u64 timestamp; offset:0; size:8; signed:0;
field: local_t commit; offset:8; size:8; signed:1;
field: char data; offset:16; size:4080; signed:0;
";
const PAGE_BYTES: usize = 4096;
const DEVICE: u32 = 8 << 20;
/// An event: its head, 28 bytes of numbers, 8 of flags.
const EVENT_BYTES: usize = 40;
/// Its length as its head has it: words behind the head.
const EVENT_WORDS: u32 = 9;
const FLAGS: [&[u8]; 6] = [b"R", b"WS", b"D", b"FF", b"WFS", b"N"];

/// Runs the target on one input.
pub fn tracer(input: &[u8]) {
    let Some((how, rest)) = input.split_first() else {
        return;
    };
    if how % 3 == 0 {
        let text = String::from_utf8_lossy(rest);
        let told = |file: &str| match file {
            "events/header_page" => Ok(HEADER.to_owned()),
            _ => Ok(text.clone().into_owned()),
        };
        if let Ok(mut capture) = FtraceParser::new(&mut { told }, &[(DEVICE, 0)], 0) {
            capture.page(&page(&[0xa5; 64]));
            capture.finish(&mut Vec::new());
        }
        return;
    }
    let mut told = |file: &str| Ok(description(file));
    let Ok(mut capture) = FtraceParser::new(&mut told, &[(DEVICE, 0)], 1_000) else {
        panic!("the description is one");
    };
    let mut found = Vec::new();
    let pages: Vec<Vec<u8>> = match how % 3 {
        1 => rest.chunks(PAGE_BYTES).map(Vec::from).collect(),
        _ => rest
            .chunks(7 * 32)
            .map(|some| page(&events(some)))
            .collect(),
    };
    for (number, page) in pages.iter().enumerate() {
        capture.page(page);
        if how & 64 != 0 {
            capture.settle(number as u64 * 1_000, &mut found);
        }
    }
    capture.finish(&mut found);
    // Every cut makes two of one.
    let bytes: usize = pages.iter().map(Vec::len).sum();
    assert!(found.len() <= bytes, "{} of {bytes}", found.len());
    assert!(found.iter().all(|request| request.target == 0));
}

fn description(file: &str) -> String {
    if file == "events/header_page" {
        return HEADER.into();
    }
    let mut kinds = recorded_events().zip(1..);
    let found = kinds.find(|(name, _)| file.contains(name));
    let (name, number) = found.unwrap_or(("", 0));
    let second = if name == "block_split" {
        "new_sector"
    } else {
        "nr_sector"
    };
    format!(
        "ID: {number}\nfield:dev_t dev; offset:8; size:4;\nfield:sector_t sector; offset:16; size:8;\n\
         field:unsigned int {second}; offset:24; size:4;\nfield:char rwbs[8]; offset:28; size:8;\n"
    )
}

/// Seven bytes each: kind, time (2), sector (2), sectors, flags.
fn events(input: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    for event in input.chunks_exact(7) {
        let mut bytes = [0; EVENT_BYTES];
        let delta = u32::from(event[1]) << 8 | u32::from(event[2]);
        bytes[..4].copy_from_slice(&(EVENT_WORDS | delta << 5).to_ne_bytes());
        bytes[4..6].copy_from_slice(&(1 + u16::from(event[0] % 4)).to_ne_bytes());
        bytes[12..16].copy_from_slice(&DEVICE.to_ne_bytes());
        bytes[20..22].copy_from_slice(&event[3..5]);
        // Of a cut, where its second part begins.
        let sectors = match event[0] % 4 {
            1 => u32::from(event[3]) + u32::from(event[4]) * 256 + u32::from(event[5]),
            _ => u32::from(event[5]),
        };
        bytes[28..32].copy_from_slice(&sectors.to_ne_bytes());
        let flags = FLAGS[usize::from(event[6]) % FLAGS.len()];
        bytes[32..32 + flags.len()].copy_from_slice(flags);
        data.extend(bytes);
    }
    data
}

fn page(data: &[u8]) -> Vec<u8> {
    let mut page = 2_000_u64.to_ne_bytes().to_vec();
    page.extend((data.len() as u64).to_ne_bytes());
    page.extend(data);
    page.resize(PAGE_BYTES.max(page.len()), 0);
    page
}
