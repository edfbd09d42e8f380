// SPDX-License-Identifier: Apache-2.0
//! Files of partial results: any order, any tree of merges, and what is damaged.
use super::*;

fn summary(number: u8, name: &str) -> RecordingSummary {
    RecordingSummary {
        sha256: hexadecimal(&[number; 32]),
        name: name.into(),
        ..RecordingSummary::default()
    }
}

fn written(numbers: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p");
    let mut all = PartialCollection::new(PoolSettings::default());
    for number in numbers {
        all.add(summary(*number, "r"), None).unwrap();
    }
    all.write(&path).unwrap();
    std::fs::read(&path).unwrap()
}

/// The names of the recordings of a file, or what is wrong with it.
fn read(bytes: &[u8]) -> Result<Vec<String>, String> {
    let text = |error: ArchiveError| error.to_string();
    let mut reader = PartialReader::new(Path::new("p"), bytes).map_err(text)?;
    let mut names = Vec::new();
    while let Some((summary, _)) = reader.next_recording().map_err(text)? {
        names.push(format!("{} {}", &summary.sha256[..2], summary.name));
    }
    Ok(names)
}

#[test]
fn what_is_written_is_read_and_the_order_of_adding_makes_no_difference() {
    let bytes = written(&[3, 1, 2, 1]);
    assert_eq!(read(&bytes).unwrap(), ["01 r", "02 r", "03 r"]);
    assert_eq!(written(&[2, 1, 3]), bytes);
    assert_eq!(read(&written(&[])).unwrap(), [""; 0]);
}

#[test]
fn parts_are_merged_from_their_files_and_the_first_name_stays() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let part = |name: &str, summaries: &[RecordingSummary]| {
        let mut all = PartialCollection::new(PoolSettings::default());
        for summary in summaries {
            all.add(summary.clone(), None).unwrap();
        }
        all.write(&file(name)).unwrap();
    };
    part("a", &[summary(1, "z"), summary(4, "d")]);
    part("b", &[summary(1, "b"), summary(2, "c")]);
    let merged = |names: &[&str]| {
        let mut all = PartialCollection::new(PoolSettings::default());
        for name in names {
            all.begin_part(&file(name));
            let mut reader = PartialReader::open(&file(name)).unwrap();
            while let Some((summary, place)) = reader.next_recording().unwrap() {
                all.add(summary, Some(place)).unwrap();
            }
        }
        all.write(&file("merged")).unwrap();
        std::fs::read(file("merged")).unwrap()
    };
    let bytes = merged(&["a", "b"]);
    assert_eq!(read(&bytes).unwrap(), ["01 b", "02 c", "04 d"]);
    assert_eq!(merged(&["b", "a", "b"]), bytes);
}

#[test]
fn every_cut_and_every_changed_byte_is_refused() {
    let bytes = written(&[1, 2]);
    for end in 0..bytes.len() {
        assert!(read(&bytes[..end]).is_err(), "cut at {end}");
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x11;
        assert!(read(&damaged).is_err(), "changed at {at}");
    }
    let twice = [&bytes[..], &bytes[..]].concat();
    assert!(read(&twice).unwrap_err().contains("something follows"));
}

#[test]
fn other_versions_and_other_files_are_named() {
    let text = String::from_utf8(written(&[1])).unwrap();
    let newer = text.replacen("\"1.0\"", "\"2.0\"", 1);
    let error = read(newer.as_bytes()).unwrap_err();
    assert!(error.contains("its format is 2.0"), "{error}");
    for foreign in ["", "\n", "{}\n", "hello\n", "{\"header\":7}\n", "\u{0}PCP"] {
        let error = read(foreign.as_bytes()).unwrap_err();
        assert!(error.contains("no partial result"), "{foreign:?}: {error}");
    }
    let odd = text.replacen("\"step_s\":600", "\"step_s\":601", 1);
    assert!(read(odd.as_bytes()).unwrap_err().contains("divides a day"));
    let endless = vec![b'x'; to_usize(HEADER_BYTES_MAX) + 9];
    assert!(read(&endless).unwrap_err().contains("no partial result"));
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap()
}

#[test]
fn a_digest_is_that_of_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    std::fs::write(&a, "abc").unwrap();
    std::fs::write(&b, "").unwrap();
    let of = |files: &[&PathBuf]| {
        let files: Vec<PathBuf> = files.iter().map(|file| (*file).clone()).collect();
        content_digest(&files).unwrap()
    };
    // FIPS 180-2, appendix B.1.
    assert!(of(&[&a]).starts_with("ba7816bf8f01cfea"));
    assert_ne!(of(&[&a, &b]), of(&[&b, &a]));
    assert!(content_digest(&[folder.path().join("c")]).is_err());
}

/// Version 1.0 of counters, of requests, and of a recording that was not there.
#[test]
fn partial_results_of_format_1_0_are_read() {
    let bytes = include_bytes!("../../tests/partial/1.0.part");
    let mut reader = PartialReader::new(Path::new("p"), &bytes[..]).unwrap();
    assert_eq!(reader.settings(), &PoolSettings::default());
    let mut found = Vec::new();
    while let Some((summary, _)) = reader.next_recording().unwrap() {
        found.push(summary);
    }
    let [counters, requests, missing] = &found[..] else {
        panic!("three recordings, not {}", found.len());
    };
    let reads = |summary: &RecordingSummary| summary.devices[0].totals.reads.unwrap().sum;
    assert_eq!((counters.devices.len(), reads(counters)), (2, 4_200));
    assert_eq!(reads(requests), 300);
    let kinds = &requests.requests.as_ref().unwrap().kinds;
    assert_eq!(kinds.iter().map(|kind| kind.requests).sum::<u64>(), 400);
    assert!(missing.unread.is_some());
}

/// Merging is the union of sets: any tree of merges gives the same bytes.
#[test]
fn any_tree_of_merges_gives_the_same_bytes() {
    use plimsoll_core::rng::{Rng, Seed};
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, all: &PartialCollection| {
        let path = folder.path().join(name);
        all.write(&path).unwrap();
        path
    };
    let merge = |name: &str, parts: &[PathBuf]| {
        let mut all = PartialCollection::new(PoolSettings::default());
        for part in parts {
            all.begin_part(part);
            let mut reader = PartialReader::open(part).unwrap();
            while let Some((summary, place)) = reader.next_recording().unwrap() {
                all.add(summary, Some(place)).unwrap();
            }
        }
        write(name, &all)
    };
    let mut rng = Rng::new(Seed(11));
    let mut expect: Option<Vec<u8>> = None;
    for tree in 0..12 {
        // Each recording lies in one or two parts, there by another name.
        let mut parts: Vec<PartialCollection> = (0..7)
            .map(|_| PartialCollection::new(PoolSettings::default()))
            .collect();
        for number in 0..60 {
            for name in ["a", "b"] {
                let part = usize::try_from(rng.below(7)).unwrap();
                parts[part].add(summary(number, name), None).unwrap();
            }
        }
        let written = parts.iter().enumerate();
        let mut level: Vec<PathBuf> = written
            .map(|(i, part)| write(&format!("{tree}-{i}"), part))
            .collect();
        let mut round = 0;
        while level.len() > 1 {
            rng.shuffle(&mut level);
            let size = 2 + to_usize(rng.below(2));
            let groups = level.chunks(size).enumerate();
            level = groups
                .map(|(i, group)| merge(&format!("{tree}-{round}-{i}"), group))
                .collect();
            round += 1;
        }
        let bytes = std::fs::read(&level[0]).unwrap();
        assert_eq!(read(&bytes).unwrap().len(), 60);
        let expect = expect.get_or_insert_with(|| bytes.clone());
        assert!(*expect == bytes, "tree {tree}");
    }
}
