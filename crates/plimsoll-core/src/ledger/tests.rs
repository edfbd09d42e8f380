// SPDX-License-Identifier: Apache-2.0
//! Every entry comes back as it was written, and nothing else comes back as an entry.

use super::*;

fn every_entry() -> Vec<LedgerEntry> {
    let mut entries = vec![
        LedgerEntry::Campaign(LedgerHeader {
            format: FormatVersion::LEDGER,
            id: 0xfeed,
            began_at: Nanos(1 << 60),
            block_bytes: 4096,
            durability: LedgerDurability::Fsync(8),
        }),
        LedgerEntry::Target(LedgerTarget {
            number: 0,
            name: "/mnt/ä".into(),
        }),
        LedgerEntry::Session(LedgerSession {
            number: 1,
            target: 0,
            file: 1,
            name: "plimsoll.ledger.1".into(),
            offset: 0,
            bytes: 1 << 20,
            write_period: Nanos(20),
            read_period: Nanos(30),
        }),
        LedgerEntry::Probing(Nanos(3), Nanos(400)),
        LedgerEntry::Opened {
            session: 1,
            epoch: 2,
            at: Nanos(4),
        },
        LedgerEntry::Issued(LedgerWriteIntent {
            session: 1,
            op: 6,
            offset: 4096,
            len: 4096,
            version: 12,
            intended_at: Nanos(4),
        }),
        LedgerEntry::Seen(LedgerObservation {
            session: 1,
            offset: 4096,
            version: 12,
        }),
        LedgerEntry::Closed { at: Nanos(500) },
    ];
    entries.extend(every_end());
    entries.extend(DataFlaw::EVERY.into_iter().map(|flaw| {
        LedgerEntry::Found(LedgerBadBlock {
            session: 0,
            offset: 512,
            flaw,
        })
    }));
    entries
}

fn every_end() -> impl Iterator<Item = LedgerEntry> {
    let ended = LedgerCompletion {
        session: 1,
        op: 7,
        kind: OpKind::Read,
        offset: 8192,
        version: 0,
        intended_at: Nanos(5),
        submitted_at: Nanos(6),
        ended_at: Nanos(9),
        outcome: LedgerCompletionStatus::Ok,
    };
    let ends = [
        (OpKind::Read, LedgerCompletionStatus::Ok),
        (OpKind::Write, LedgerCompletionStatus::Error(5)),
        (OpKind::Fsync, LedgerCompletionStatus::GivenUp),
    ];
    ends.into_iter().map(move |(kind, outcome)| {
        LedgerEntry::Ended(LedgerCompletion {
            kind,
            outcome,
            ..ended
        })
    })
}

#[test]
fn every_entry_comes_back_and_any_flipped_bit_shows() {
    for entry in every_entry() {
        let mut bytes = Vec::new();
        encode(&entry, &mut bytes);
        let whole = bytes.len();
        assert_eq!(decode(&bytes), LedgerDecodeResult::Entry(entry, whole));
        for len in 0..whole {
            assert_eq!(decode(&bytes[..len]), LedgerDecodeResult::Short);
        }
        for bit in 0..whole * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(
                !matches!(decode(&bytes), LedgerDecodeResult::Entry(..)),
                "bit {bit}"
            );
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_ledger_begins_with_a_campaign_of_a_known_version() {
    let entries = every_entry();
    let campaign = LedgerHeader::first(entries.first()).unwrap();
    assert_eq!(campaign.id, 0xfeed);
    assert_eq!(
        LedgerHeader::first(entries.get(1)),
        Err(LedgerFormatError::Other)
    );
    assert_eq!(LedgerHeader::first(None), Err(LedgerFormatError::Other));
    let newer = LedgerEntry::Campaign(LedgerHeader {
        format: FormatVersion { major: 9, minor: 0 },
        ..campaign
    });
    let error = LedgerHeader::first(Some(&newer)).unwrap_err().to_string();
    assert!(error.contains("9.0") && error.contains("newer"), "{error}");
}

#[test]
fn texts_of_any_length_fit() {
    let entry = LedgerEntry::Target(LedgerTarget {
        number: 3,
        name: "ä".repeat(5000),
    });
    let mut bytes = Vec::new();
    encode(&entry, &mut bytes);
    let LedgerDecodeResult::Entry(LedgerEntry::Target(target), _) = decode(&bytes) else {
        panic!("no target");
    };
    assert_eq!(target.name, "ä".repeat(2048));
}

#[test]
fn writes_without_an_end_are_probes_and_what_filled_the_blocks_is_not() {
    let mut probes = LedgerProbes::default();
    for entry in every_entry() {
        probes.take(&entry);
    }
    // Session 1 is at place 0 here: only its name matters.
    probes.finish();
    assert_eq!((probes.first_at, probes.length), (Nanos(3), Nanos(397)));
    let ended = probes.probes[0].ended;
    assert_eq!(ended, Some((Nanos(6), Ok(()))));
    let unended: Vec<_> = probes.probes.iter().filter(|p| p.ended.is_none()).collect();
    assert_eq!(unended.len(), 2);
    assert_eq!(probes.probes.len(), 4);
    // Not closed: until the last end.
    let mut killed = LedgerProbes::default();
    for entry in every_entry() {
        if !matches!(entry, LedgerEntry::Closed { .. }) {
            killed.take(&entry);
        }
    }
    killed.finish();
    assert_eq!(killed.length, Nanos(6));
    // Stopped before its time: by its user, and while nothing was answered.
    for (closed_at, length) in [(200, 6), (1_000_000_000, 999_999_997)] {
        let mut stopped = LedgerProbes::default();
        for entry in every_entry() {
            stopped.take(&match entry {
                LedgerEntry::Probing(from, _) => LedgerEntry::Probing(from, Nanos(2_000_000_000)),
                LedgerEntry::Closed { .. } => LedgerEntry::Closed {
                    at: Nanos(closed_at),
                },
                other => other,
            });
        }
        stopped.finish();
        assert_eq!(stopped.length, Nanos(length));
    }
}

#[test]
fn durability_is_read_as_it_is_told() {
    for text in ["dsync", "fsync:8", "none"] {
        assert_eq!(LedgerDurability::parse(text).unwrap().to_string(), text);
    }
    for text in ["", "fsync", "fsync:0", "fsync:x", "sync"] {
        assert!(LedgerDurability::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_check_says_what_is_wrong_and_what_is_only_worth_knowing() {
    let mut check = LedgerCheck::default();
    assert!(check.passed());
    check.effects_after_error = 2;
    check.unread_bytes = 7;
    assert_eq!(
        check.to_string(),
        "0 blocks written, 0 read back, 0 bad; 2 written although an error was returned (allowed); \
         the last 7 bytes of the ledger are not a whole entry"
    );
    check.data.bad.count(DataFlaw::Zombie);
    assert!(!check.passed());
}
