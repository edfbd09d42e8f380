// SPDX-License-Identifier: Apache-2.0
//! All formats together: each is recognised as itself only, and none breaks on damaged bytes.

use std::io::Cursor;

use plimsoll_core::rng::{Rng, Seed};

use super::*;

#[test]
fn every_fixture_is_of_exactly_its_own_format() {
    for (name, bytes) in fixtures::all() {
        let is = |format: &&TraceFormat| (format.is)(&bytes);
        let found: Vec<_> = FORMATS
            .iter()
            .filter(is)
            .map(|format| format.name)
            .collect();
        assert_eq!(found, [name]);
    }
}

#[test]
fn every_format_has_a_fixture_and_nothing_is_of_no_format() {
    let fixtures = fixtures::all();
    for format in FORMATS {
        assert!(
            fixtures.iter().any(|(name, _)| *name == format.name),
            "{}",
            format.name
        );
    }
    for bytes in [
        "",
        "\n\n\n",
        "hello, world\n",
        "1 2 3\n",
        "{\"sysstat\": {}}",
        "a,b,c,d,e\n",
    ] {
        let input = RecordingInput::new("f".into(), Box::new(bytes.as_bytes())).unwrap();
        assert!(!is_one(&input), "{bytes:?}");
    }
}

/// Reads to the end and checks that no more requests come out than this number of bytes can hold.
fn read_all(format: &TraceFormat, bytes: &[u8]) {
    let input = RecordingInput::new("f".into(), Box::new(Cursor::new(bytes.to_vec()))).unwrap();
    let Ok(mut reader) = (format.open)(input) else {
        return;
    };
    let mut found = Vec::new();
    // No format has a request in less than eight bytes, and every call reads some thousands.
    let calls_max = 2 + bytes.len() / 4096;
    for _ in 0..=calls_max {
        match reader.read(&mut found) {
            Ok(true) => {}
            Ok(false) => {
                // Compressed contents may become some 1,000 times as long, 32 bytes a request.
                let packed = if format.name == darshan::LOG.name {
                    33
                } else {
                    1
                };
                let most = bytes.len() * packed / 8 + 1;
                assert!(found.len() <= most, "{}", format.name);
                let targets = reader.targets().len();
                assert!(found.iter().all(|r| usize::from(r.target) < targets));
                return;
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains('f') && text.contains("byte"), "{text}");
                return;
            }
        }
    }
    panic!("{} does not end", format.name);
}

/// Changes, cuts, doubles or drops a stretch of bytes.
pub(crate) fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..=rng.below(4) {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len() as u64;
        let place = |rng: &mut Rng| usize::try_from(rng.below(length)).unwrap();
        let (from, to) = (place(rng), place(rng));
        let (from, to) = (from.min(to), from.max(to));
        match rng.below(6) {
            0 => bytes[from] = (rng.next_u64() & 0xff) as u8,
            1 => bytes[from] ^= 1 << rng.below(8),
            2 => bytes.truncate(to),
            3 => drop(bytes.drain(from..to.min(from + 64))),
            4 => {
                let part = bytes[from..to.min(from + 64)].to_vec();
                bytes.splice(from..from, part);
            }
            _ => {
                let odd: [&[u8]; 6] = [b"9999999999999999999", b",", b" ", b"\n", b"-", &[0xff; 8]];
                let part = odd[usize::try_from(rng.below(6)).unwrap()];
                bytes.splice(from..from, part.iter().copied());
            }
        }
    }
}

/// Gives every reader `inputs_each` broken recordings.
fn mutated(inputs_each: usize) {
    let mut rng = Rng::new(Seed(20_261_121));
    let fixtures = fixtures::all();
    for format in FORMATS {
        let own: Vec<_> = fixtures
            .iter()
            .filter(|(name, _)| *name == format.name)
            .collect();
        for round in 0..inputs_each {
            // Any reader may get any bytes: a format is recognised by its head only.
            let of = if round % 4 == 0 {
                &fixtures[round % fixtures.len()]
            } else {
                own[round % own.len()]
            };
            let mut bytes = of.1.clone();
            mutate(&mut bytes, &mut rng);
            read_all(format, &bytes);
        }
    }
}

#[test]
fn no_mutated_fixture_breaks_a_reader() {
    mutated(5_000);
}

#[test]
#[ignore = "a million inputs for every reader take minutes; the short form always runs"]
fn a_million_mutated_fixtures_break_no_reader() {
    mutated(1_000_000);
}
