// SPDX-License-Identifier: Apache-2.0
//! The plans of `raid1`, `raid5` and `raid10` as text, and their changes on a pretended machine.

use crate::fake::{FakeHost, FakeWhen};
use crate::stacks::change::tests::worker_dies;
use crate::stacks::{StackChange, StackConfig, StackUpOptions, change, hold, snapshot, status, up};
use plimsoll_machine::cleanup::raze_all;
use plimsoll_machine::journal::{JournalContents, StateDir};
use std::fmt::Write as _;

#[test]
fn the_plans_are_the_committed_ones() {
    snapshot::assert_beside!("plan_raid1", snapshot::text_of("raid1"));
    snapshot::assert_beside!("plan_raid5_nbd", snapshot::text_of("raid5(nbd)"));
    snapshot::assert_beside!("plan_raid10", snapshot::text_of("raid10"));
}

fn raised(state: &StateDir, host: &mut FakeHost, stack: &str) {
    let choice = StackConfig::parse(stack).unwrap();
    up(&choice, &StackUpOptions::new("/base".into()), state, host).unwrap();
}

fn record(state: &StateDir) -> JournalContents {
    JournalContents::read(&state.journal_files().unwrap()[0]).unwrap()
}

#[test]
fn changes_follow_each_other_and_all_is_undone() {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = FakeHost::new();
    raised(&state, &mut host, "raid1");
    let mut text = String::new();
    for verb in [
        StackChange::Snapshot,
        StackChange::Snapshot,
        StackChange::Grow,
        StackChange::Degrade,
        StackChange::Rebuild,
        StackChange::Scrub,
    ] {
        writeln!(text, "\n{verb}").unwrap();
        let from = record(&state).entries.len();
        change("raid1", verb, None, &state, &mut host, &mut |_| {}).unwrap();
        for entry in &record(&state).entries[from..] {
            writeln!(text, "  {}\n    {}", entry.step.why, entry.step.apply).unwrap();
        }
        let found = status(&state, &mut host).unwrap();
        assert_eq!(found[0].problems, [""; 0], "{verb}");
    }
    let record = record(&state);
    assert_eq!(record.header.ask.unwrap().site.servers.len(), 3);
    assert_eq!(record.made.unwrap().servers.len(), 3);
    snapshot::assert_beside!(
        "changes_raid1",
        text.replace(&record.header.id, "example-1")
    );
    drop(hold("raid1", &state, &host.clock).unwrap());
    for razed in raze_all(&state, &mut host).unwrap() {
        assert!(razed.result.unwrap().is_clean());
    }
    assert!(host.state.is_empty(), "{:?}", host.state);
}

#[test]
fn changes_that_do_not_go_with_the_state_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = FakeHost::new();
    raised(&state, &mut host, "raid5(nbd)");
    let refused = |verb, host: &mut FakeHost| {
        let error = change(
            "raid5(transport=nbd)",
            verb,
            None,
            &state,
            host,
            &mut |_| {},
        );
        error.unwrap_err().to_string()
    };
    let text = refused(StackChange::Rebuild, &mut host);
    assert!(text.contains("no node was stopped"), "{text}");
    change(
        "raid5(transport=nbd)",
        StackChange::Degrade,
        None,
        &state,
        &mut host,
        &mut |_| {},
    )
    .unwrap();
    for verb in [StackChange::Degrade, StackChange::Grow, StackChange::Scrub] {
        let text = refused(verb, &mut host);
        assert!(text.contains("start it first"), "{text}");
    }
}

#[test]
fn a_stack_that_fails_to_grow_is_as_before_or_goes_on_wherever_it_breaks() {
    let (mut number, mut went_on) = (0, 0);
    loop {
        let place = tempfile::tempdir().unwrap();
        let state = StateDir::new(place.path());
        let mut host = FakeHost::new();
        raised(&state, &mut host, "raid1");
        let before = (host.state.clone(), record(&state));
        let mut host = host.failing_at_next(number, FakeWhen::Before);
        let result = change(
            "raid1",
            StackChange::Grow,
            None,
            &state,
            &mut host,
            &mut |_| {},
        );
        if result.is_ok() {
            assert!(number > 8, "it grew in {number} steps");
            // To add the disk, and to balance the data.
            assert_eq!(went_on, 2);
            return;
        }
        if record(&state).changing.is_none() {
            assert_eq!(record(&state), before.1, "at {number}");
            assert_eq!(host.state, before.0, "at {number}");
        } else {
            worker_dies(&state);
            change(
                "raid1",
                StackChange::Grow,
                None,
                &state,
                &mut host,
                &mut |_| {},
            )
            .unwrap();
            assert_eq!(host.state.loops.len(), 3, "at {number}");
            went_on += 1;
        }
        number += 1;
    }
}
