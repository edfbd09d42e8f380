// SPDX-License-Identifier: Apache-2.0
//! Outages whose truth is known, told again from their probes.

use super::*;

const MS: u64 = 1_000_000;

/// Sessions of 50 writes and 50 reads a second each, and their probes over `seconds` seconds: `end`
/// gives when and how the probe of a session that is due at a time ends.
fn probed(
    sessions: u32,
    seconds: u64,
    mut end: impl FnMut(u32, Nanos) -> Option<(Nanos, Result<(), i32>)>,
) -> (Vec<OutageProbeSession>, Vec<OutageProbe>, OutageProbeWindow) {
    let named = (0..sessions).map(|number| OutageProbeSession {
        name: format!("session {number}"),
        write_period: Some(Nanos(20 * MS)),
        read_period: Some(Nanos(20 * MS)),
        reopened: 0,
    });
    let mut probes = Vec::new();
    for tick in 0..seconds * 100 {
        let intended_at = Nanos(tick * 10 * MS);
        let kind = [OpKind::Write, OpKind::Read][to_usize(tick % 2)];
        for session in 0..sessions {
            probes.push(OutageProbe {
                session,
                kind,
                intended_at,
                ended: end(session, intended_at),
            });
        }
    }
    let window = OutageProbeWindow {
        from: Nanos(0),
        until: Nanos(seconds * 1000 * MS),
        fault_at: None,
    };
    (named.collect(), probes, window)
}

/// Ends a millisecond after it began; what falls into a stall, behind it.
fn stalled(at: Nanos, from: u64, length: u64) -> Option<(Nanos, Result<(), i32>)> {
    let inside = (from..from + length).contains(&(at.0 / MS));
    let end = if inside {
        Nanos((from + length) * MS)
    } else {
        at
    };
    Some((end + Nanos(MS), Ok(())))
}

#[test]
fn a_stall_of_every_length_is_found_within_the_resolution() {
    for length in [100, 130, 777, 6_240, 20_000] {
        let (sessions, probes, window) = probed(2, 60, |_, at| stalled(at, 15_003, length));
        let outage = OutageResult::of(&sessions, &probes, window);
        assert_eq!(outage.resolution, Nanos(20 * MS));
        for kind in [OpKind::Read, OpKind::Write] {
            let worst = outage.worst(kind).unwrap();
            let error = worst.length.0.abs_diff(length * MS);
            assert!(error <= 20 * MS, "{kind} of {length}: {worst}");
            assert!(!worst.is_open);
            assert!(worst.from.0.abs_diff(15_003 * MS) <= 20 * MS);
        }
        let unavailable = outage.unavailable.unwrap().0;
        assert!(unavailable <= length * MS && unavailable + 200 * MS > length * MS);
        assert!(outage.survived() && outage.errors() == 0);
        assert!(!outage.fault_is_known && outage.fault_at.is_some());
    }
}

#[test]
fn steady_storage_has_no_outage() {
    let (sessions, probes, window) = probed(3, 20, |_, at| Some((at + Nanos(3 * MS), Ok(()))));
    let outage = OutageResult::of(&sessions, &probes, window);
    assert_eq!(outage.worst(OpKind::Write).unwrap().length, Nanos(0));
    assert_eq!(outage.unavailable, Some(Nanos(0)));
    assert_eq!(outage.fault_at, None);
    assert_eq!(outage.brown_out, BrownOut::Unknown);
    assert_eq!(outage.backlog_p99, None);
    let window = OutageProbeWindow {
        fault_at: Some(Nanos(5_000 * MS)),
        ..window
    };
    let outage = OutageResult::of(&sessions, &probes, window);
    assert_eq!(outage.brown_out, BrownOut::Lasted(Nanos(0)));
    assert_eq!(outage.backlog_p99, Some(Nanos(3 * MS)));
}

#[test]
fn what_was_over_before_a_known_fault_is_not_of_it() {
    // 5 s that an earlier fault left behind, and 2 s of this one.
    let both = |_, at: Nanos| match at.0 < 15_000 * MS {
        true => stalled(at, 3_000, 5_000),
        false => stalled(at, 20_000, 2_000),
    };
    let (sessions, probes, window) = probed(2, 40, both);
    let window = OutageProbeWindow {
        fault_at: Some(Nanos(20_003 * MS)),
        ..window
    };
    let outage = OutageResult::of(&sessions, &probes, window);
    let worst = outage.worst(OpKind::Write).unwrap();
    assert!(worst.length.0.abs_diff(2_000 * MS) <= 20 * MS, "{worst}");
    assert!(worst.from.0.abs_diff(20_000 * MS) <= 20 * MS, "{worst}");
    let unavailable = outage.unavailable.unwrap().0;
    assert!((1_800..=2_000).contains(&(unavailable / MS)));
    // Of a rate of nothing any is enough: that says nothing.
    let (sessions, probes, window) = probed(2, 40, |_, at| stalled(at, 1_000, 20_000));
    let window = OutageProbeWindow {
        fault_at: Some(Nanos(21_500 * MS)),
        ..window
    };
    let outage = OutageResult::of(&sessions, &probes, window);
    assert_eq!(outage.brown_out, BrownOut::Unknown);
}

#[test]
fn errors_and_new_descriptors_are_not_surviving() {
    let fails = |session, at: Nanos| {
        let inside = session == 1 && (5_000..7_000).contains(&(at.0 / MS));
        let result = if inside { Err(5) } else { Ok(()) };
        Some((at + Nanos(MS), result))
    };
    let (mut sessions, probes, window) = probed(3, 30, fails);
    sessions[2].reopened = 1;
    let window = OutageProbeWindow {
        fault_at: Some(Nanos(4_500 * MS)),
        ..window
    };
    let outage = OutageResult::of(&sessions, &probes, window);
    let survived = |index: usize| outage.sessions[index].survived;
    // A session that saw errors and went on with the same descriptor did survive.
    assert!(survived(0) && survived(1) && !survived(2) && !outage.survived());
    let second = &outage.sessions[1];
    assert_eq!(second.errors, 200);
    assert_eq!(second.first_error_after, Some(Nanos(501 * MS)));
    let stall = outage.worst(OpKind::Write).unwrap().length;
    assert!(stall.0.abs_diff(2_000 * MS) <= 20 * MS, "{stall}");
    // The other two went on: some success in every bin.
    assert_eq!(outage.unavailable, Some(Nanos(0)));
}

#[test]
fn what_does_not_come_back_is_an_open_stall() {
    let dies = |_, at: Nanos| (at.0 < 12_000 * MS).then_some((at + Nanos(MS), Ok(())));
    let (sessions, probes, window) = probed(1, 20, dies);
    let outage = OutageResult::of(&sessions, &probes, window);
    let worst = outage.worst(OpKind::Read).unwrap();
    assert!(worst.is_open && worst.length.0.abs_diff(8_000 * MS) <= 20 * MS);
    assert_eq!(outage.sessions[0].unended, 800);
    assert!(matches!(outage.brown_out, BrownOut::NotOver(_)));
    assert!(outage.backlog_p99.unwrap().0 > 7_800 * MS);
    assert!(!outage.survived(), "it did not come back, and saw no error");
    // Errors at the end: the session is not alive.
    let fails = |_, at: Nanos| Some((at, if at.0 < 9_000 * MS { Ok(()) } else { Err(5) }));
    let (sessions, probes, window) = probed(1, 10, fails);
    assert!(!OutageResult::of(&sessions, &probes, window).survived());
}

#[test]
fn a_brown_out_ends_when_the_rate_is_back_for_ten_seconds() {
    // After a stall of 2 s, a third of the probes fail for 8 s.
    let slow = |_, at: Nanos| {
        let ms = at.0 / MS;
        let (end, _) = stalled(at, 20_000, 2_000)?;
        let hurt = (22_000..30_000).contains(&ms) && (ms / 20).is_multiple_of(3);
        Some((end, if hurt { Err(5) } else { Ok(()) }))
    };
    let (sessions, probes, window) = probed(2, 60, slow);
    let window = OutageProbeWindow {
        fault_at: Some(Nanos(20_000 * MS)),
        ..window
    };
    let outage = OutageResult::of(&sessions, &probes, window);
    let BrownOut::Lasted(time) = outage.brown_out else {
        panic!("{outage}");
    };
    // Seconds that lie for the larger part behind it count as good ones.
    assert!((9_000..=10_000).contains(&(time.0 / MS)), "{time}");
    // Of 40 s the longest hundredth, 80 of the 400 that the stall held up.
    let backlog = outage.backlog_p99.unwrap();
    assert!((1_580..=1_640).contains(&(backlog.0 / MS)), "{backlog}");
    // Too few seconds are left to say that it is over.
    let short = OutageProbeWindow {
        until: Nanos(38_000 * MS),
        ..window
    };
    let outage = OutageResult::of(&sessions, &probes, short);
    assert_eq!(outage.brown_out, BrownOut::NotOver(Nanos(18_000 * MS)));
}

#[test]
fn few_probes_and_none_at_all_say_so() {
    let (mut sessions, probes, window) = probed(1, 20, |_, at| Some((at, Ok(()))));
    sessions[0].write_period = None;
    sessions[0].read_period = Some(Nanos(100 * MS));
    let outage = OutageResult::of(&sessions, &probes, window);
    assert_eq!(outage.unavailable, None);
    assert_eq!(outage.sessions[0].write_stall, None);
    let nothing = OutageResult::of(&[], &[], window);
    assert_eq!((nothing.worst(OpKind::Read), nothing.errors()), (None, 0));
    // A probe of an unknown session is left out.
    let probe = OutageProbe {
        session: 9,
        ..probes[0]
    };
    assert!(OutageResult::of(&[], &[probe], window).sessions.is_empty());
}

#[test]
fn an_outage_is_told_and_kept_whole() {
    let (sessions, probes, window) = probed(1, 40, |_, at| stalled(at, 15_000, 3_000));
    let outage = OutageResult::of(&sessions, &probes, window);
    let text = outage.to_string();
    assert!(text.starts_with("session 0: writes stalled "), "{text}");
    assert!(
        text.contains("the beginning of the longest stall"),
        "{text}"
    );
    assert!(text.ends_with("resolution: ±20.0 ms"), "{text}");
    let json = serde_json::to_string(&outage).unwrap();
    assert_eq!(serde_json::from_str::<OutageResult>(&json).unwrap(), outage);
}
