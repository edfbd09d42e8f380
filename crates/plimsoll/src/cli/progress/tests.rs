// SPDX-License-Identifier: Apache-2.0
//! Progress of a run at several widths, against a snapshot, and as lines of JSON.

use super::state::RunProgressState;
use super::{events, screen};
use plimsoll_core::event::{
    KindStats, OpStats, RunEvent, RunManifest, RunWarning, TrialId, TrialInterval, TrialResult,
    WorkloadEntry,
};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::op::OpKind;
use plimsoll_core::text::{is_unprintable, printable_json};
use plimsoll_core::units::Nanos;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Two systems and the control of the first, under one workload, in three blocks.
fn manifest(names: [&str; 2]) -> RunManifest {
    let fixtures = root().join("crates/plimsoll-archive/tests/fixtures");
    let recorded = fixtures.join(FormatVersion::RUN.to_string());
    let mut manifest = plimsoll_archive::open(&recorded).unwrap().manifest;
    let mut arms = vec![manifest.arms[0].clone(); 3];
    let [base, other] = names;
    for (arm, name) in arms.iter_mut().zip([base, "again", other]) {
        (arm.name, arm.control_of) = (name.into(), None);
    }
    arms[1].control_of = Some(base.into());
    let mut entries = manifest.entries.iter();
    let blocks = entries.find(|entry| entry.label == "mixed").unwrap();
    manifest.entries = vec![WorkloadEntry {
        inject: None,
        ..blocks.clone()
    }];
    (manifest.arms, manifest.blocks) = (arms, 3);
    (manifest.design, manifest.balanced) = (None, false);
    manifest.ladder.clear();
    manifest
}

/// `ops` reads: nine in ten with a response time of `ns`, and the others of 1.8 times that.
fn stats(ops: u64, ns: u64) -> OpStats {
    let mut kind = KindStats {
        bytes: ops * 4_096,
        ..KindStats::default()
    };
    for (share, factor) in [(90, 100), (10, 180)] {
        kind.response
            .record_many(Nanos(ns * factor / 100), ops * share / 100);
        kind.service
            .record_many(Nanos(ns * factor / 100), ops * share / 100);
    }
    OpStats([(OpKind::Read, kind)].into())
}

/// The events of two blocks and a half, in which the last system is the slower one.
fn events_of(manifest: &RunManifest) -> Vec<RunEvent> {
    let mut events = vec![RunEvent::Warning(RunWarning {
        about: manifest.arms[2].name.clone(),
        text: "the export is async".into(),
    })];
    for place in 0..8_u32 {
        let (block, arm) = (place / 3, usize::try_from(place % 3).unwrap());
        let trial = TrialId {
            block,
            place,
            arm: manifest.arms[arm].name.clone(),
            workload: manifest.entries[0].label.clone(),
        };
        let slow = if arm == 2 { 3 } else { 1 };
        events.push(RunEvent::TrialBegan(trial.clone()));
        let mut all = OpStats::default();
        for second in 0..5_u64 {
            let ops = (12_000 + 900 * (second % 3) + 37 * u64::from(place)) / slow;
            let stats = stats(ops, 80_000 * slow + u64::from(place) * 300);
            all.merge(&stats);
            let start = Nanos(second * Nanos::SECOND.0);
            let length = Nanos::SECOND;
            let interval = TrialInterval {
                start,
                length,
                stats,
            };
            events.push(RunEvent::Interval { place, interval });
        }
        let length = Nanos(5 * Nanos::SECOND.0);
        // The last one goes on.
        if place < 7 {
            events.push(RunEvent::TrialEnded(Box::new(TrialResult {
                length,
                stats: all,
                ..TrialResult::of(trial)
            })));
        }
    }
    events
}

fn after(manifest: &RunManifest, events: &[RunEvent]) -> RunProgressState {
    let mut state = RunProgressState::new(manifest, 0, true);
    events.iter().for_each(|event| state.event(event));
    state
}

/// Content of a terminal of this size.
fn shown(state: &RunProgressState, size: (u16, u16)) -> String {
    let drawn = screen::drawn(state, Duration::from_secs(42), size, true);
    let mut terminal =
        Terminal::new(TestBackend::new(drawn.area.width, drawn.area.height)).unwrap();
    terminal
        .draw(|frame| {
            let on: &mut Buffer = frame.buffer_mut();
            on.merge(&drawn);
        })
        .unwrap();
    let rows = terminal.backend().to_string();
    let rows = rows.lines().map(|row| row.trim_matches('"').trim_end());
    rows.collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn the_screen_is_as_it_was_in_60_100_and_200_columns() {
    let manifest = manifest(["local", "raid1"]);
    let events = events_of(&manifest);
    let mut all = String::new();
    for size in [(60, 24), (100, 24), (200, 24), (60, 5)] {
        let state = after(&manifest, &events);
        let text = shown(&state, size);
        assert!(text.lines().count() <= usize::from(size.1));
        all.extend([&format!("{} × {}\n", size.0, size.1), &*text, "\n"]);
    }
    all.push_str("before the first second\n");
    all.push_str(&shown(&after(&manifest, &events[..2]), (100, 24)));
    insta::with_settings!({
        snapshot_path => ".",
        prepend_module_to_snapshot => false,
        omit_expression => true,
    }, {
        insta::assert_snapshot!("screens", all);
    });
}

/// A run of days has very many trials.
#[test]
fn of_trials_nothing_is_kept_where_no_verdicts_are_shown() {
    // So often that the seconds that are shown are as many as they get.
    const TURNS: usize = 30;
    let manifest = manifest(["local", "raid1"]);
    let events = events_of(&manifest);
    let ended = |event: &&RunEvent| matches!(event, RunEvent::TrialEnded(_));
    let trial = format!("{:?}", events.iter().find(ended).unwrap()).len();
    let grown = |shows_verdicts: bool| {
        let mut state = RunProgressState::new(&manifest, 0, shows_verdicts);
        let mut sizes = [0, 0];
        for size in &mut sizes {
            for _ in 0..TURNS {
                events.iter().for_each(|event| state.event(event));
            }
            *size = format!("{state:?}").len();
        }
        (sizes[1].saturating_sub(sizes[0]), state.comparisons.len())
    };
    let (kept, none) = grown(false);
    assert!(kept < trial / 10 && none == 0, "{kept} of {trial}");
    assert!(grown(true).1 > 0, "who shows verdicts has them");
}

#[test]
fn sizes_that_nothing_fits_on_break_nothing() {
    let manifest = manifest(["local", "raid1"]);
    let state = after(&manifest, &events_of(&manifest));
    for width in [1, 2, 7, 13, 33, 59, 61, 79, 80, 81, 199] {
        for height in [1, 2, 3, 50] {
            let drawn = screen::drawn(&state, Duration::ZERO, (width, height), true);
            assert!(drawn.area.width == width && drawn.area.height <= height);
        }
    }
}

const EVIL: [&str; 2] = ["a\u{1b}[2J\u{202e}b\n", "数据\u{9b}31m\u{e0041}{\"x\":1}"];

#[test]
fn names_stay_text_on_the_screen() {
    let manifest = manifest(EVIL);
    let state = after(&manifest, &events_of(&manifest));
    for width in [60, 100] {
        let drawn = screen::drawn(&state, Duration::ZERO, (width, 40), true);
        let cells = drawn.content.iter();
        let odd = cells
            .flat_map(|cell| cell.symbol().chars())
            .find(|c| is_unprintable(*c));
        assert_eq!(odd, None);
    }
    assert!(
        shown(&state, (100, 40)).contains("数"),
        "{}",
        shown(&state, (100, 40))
    );
}

#[test]
fn lines_of_json_tell_every_event_and_stay_lines() {
    let manifest = manifest(EVIL);
    let mut state = RunProgressState::new(&manifest, 0, true);
    let mut lines = vec![events::began(&manifest, &state)];
    let mut all = events_of(&manifest);
    all.push(RunEvent::Finished {
        interrupted: true,
        comparisons: Vec::new(),
    });
    for event in &all {
        state.event(event);
        lines.extend(events::line(event, &state));
    }
    let names: Vec<&str> = lines
        .iter()
        .map(|line| line["event"].as_str().unwrap())
        .collect();
    let count = |name| names.iter().filter(|found| **found == name).count();
    let counts = ["began", "second", "trial", "note"].map(count);
    assert_eq!(counts, [1, 40, 7, 1]);
    assert_eq!((names[0], names[names.len() - 1]), ("began", "end"));
    assert_eq!(lines[0]["trials_planned"], 9);
    for line in &lines {
        let text = printable_json(&line.to_string());
        assert!(!text.chars().any(is_unprintable), "{text}");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, *line);
    }
    let second = lines.iter().find(|line| line["event"] == "second").unwrap();
    assert_eq!(second["arm"], EVIL[0]);
    assert_eq!(second["ops_per_s"], 12_000.0);
    let page = std::fs::read_to_string(root().join("docs/progress.md")).unwrap();
    for line in &lines {
        for key in line.as_object().unwrap().keys() {
            assert!(
                page.contains(&format!("`{key}`")),
                "docs/progress.md lacks {key}"
            );
        }
    }
}

#[test]
fn the_time_left_follows_from_the_trials_before() {
    let manifest = manifest(["local", "raid1"]);
    let mut state = RunProgressState::new(&manifest, 3, true);
    assert_eq!(
        (state.planned, state.left(Duration::from_secs(9))),
        (Some(6), None)
    );
    for event in events_of(&manifest) {
        state.event(&event);
    }
    assert_eq!(
        (state.planned, state.done),
        (Some(7), 7),
        "more than expected"
    );
    assert_eq!(state.left(Duration::from_secs(9)), Some(Duration::ZERO));
}
