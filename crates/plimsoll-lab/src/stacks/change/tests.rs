// SPDX-License-Identifier: Apache-2.0
//! Changes of stacks on a pretended machine: refused, failed, interrupted.

use super::super::{StackUpOptions, manage, up};
use super::*;
use plimsoll_core::plan::PlanAction;
use plimsoll_machine::cleanup::raze_all;
use plimsoll_machine::host::{FakeHost, FakeWhen, Host as _};

fn raised(state: &StateDir, host: &mut FakeHost) {
    let choice = StackConfig::parse("local").unwrap();
    up(&choice, &StackUpOptions::new("/base".into()), state, host).unwrap();
}

fn change_of(state: &StateDir, host: &mut FakeHost) -> String {
    let error = change("local", StackChange::Scrub, None, state, host, &mut |_| {}).unwrap_err();
    error.to_string()
}

#[test]
fn what_cannot_be_changed_says_why() {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = FakeHost::new();
    let text = change_of(&state, &mut host);
    assert!(text.contains("is not up"), "{text}");
    raised(&state, &mut host);
    let text = change_of(&state, &mut host);
    assert!(text.contains("local cannot scrub"), "{text}");
    let held = manage::hold("local", &state, &host.clock).unwrap();
    let text = change_of(&state, &mut host);
    assert!(text.contains("in use"), "{text}");
    drop(held);
}

/// Two steps more for a stack that stands.
fn addition() -> StackChangePlan {
    let mut plan = Plan::default();
    for n in 0..2 {
        let dir = format!("/base/more{n}");
        plan.step(
            "make more",
            PlanAction::MakeDir(dir.clone()),
            Some(PlanAction::RemoveDir(dir)),
        );
    }
    StackChangePlan {
        plan,
        made: StackOutputs {
            mount_dir: "/base/more1".into(),
            ..StackOutputs::default()
        },
        sites: None,
    }
}

fn open(state: &StateDir, host: &FakeHost) -> Journal {
    let file = state.journal_files().unwrap().remove(0);
    Journal::open(&file, host.here().clock()).unwrap()
}

#[test]
fn a_change_that_fails_leaves_the_stack_as_it_was() {
    for n in 0..2 {
        for when in [FakeWhen::Before, FakeWhen::After] {
            let place = tempfile::tempdir().unwrap();
            let state = StateDir::new(place.path());
            let mut host = FakeHost::new();
            raised(&state, &mut host);
            let before = (host.state.clone(), open(&state, &host).record().clone());
            let mut host = host.failing_at_next(n, when);
            let mut journal = open(&state, &host);
            let error = carry_out(&addition(), &mut host, &mut journal, &mut |_| {}).unwrap_err();
            assert!(error.to_string().contains("told to fail"), "{error}");
            assert_eq!(host.state, before.0);
            assert_eq!(journal.record(), &before.1);
            drop(journal);
            assert_eq!(open(&state, &host).record(), &before.1, "as read back");
            drop(manage::hold("local", &state, &host.clock).unwrap());
        }
    }
}

#[test]
fn a_change_is_not_begun_where_a_node_does_not_answer() {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = FakeHost::new();
    raised(&state, &mut host);
    let mut record = open(&state, &host).record().clone();
    let mut plan = addition().plan;
    host.is_alone = true;
    // Nodes that are only made by it are not there yet.
    plan.steps[1].node = "n1".into();
    reach(&plan, &record, &mut host).unwrap();
    let ask = record.header.ask.as_mut().unwrap();
    ask.site.servers = vec![ask.site.client.clone()];
    ask.site.servers[0].name = "n1".into();
    let error = reach(&plan, &record, &mut host).unwrap_err().to_string();
    assert!(error.contains("node n1 does not answer"), "{error}");
    plan.steps.truncate(1);
    reach(&plan, &record, &mut host).unwrap();
}

#[test]
fn an_interrupted_change_is_told_and_undone_with_the_stack() {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = FakeHost::new();
    raised(&state, &mut host);
    let mut journal = open(&state, &host);
    journal.changing("grow").unwrap();
    let mut steps = 0;
    let mut count = |_: StackChangeEvent<'_>| steps += 1;
    carry_out(&addition(), &mut host, &mut journal, &mut count).unwrap();
    assert_eq!(steps, 2);
    // Killed before it was noted that it is over: the owner in the journal is this process, so
    // nobody else may touch it.
    assert!(journal.record().at_work());
    journal.changed().unwrap();
    let record = journal.record();
    assert!(!record.at_work());
    assert_eq!(record.made.as_ref().unwrap().mount_dir, "/base/more1");
    drop(journal);
    assert_eq!(host.state.dirs.len(), 3);
    for razed in raze_all(&state, &mut host).unwrap() {
        assert!(razed.result.unwrap().is_clean());
    }
    assert!(host.state.is_empty(), "{:?}", host.state);
}

/// The journal is that of a process which was killed after each of its steps.
#[test]
fn a_change_that_was_cut_off_is_taken_back_by_the_next_one() {
    for steps in 0..=2 {
        let place = tempfile::tempdir().unwrap();
        let state = StateDir::new(place.path());
        let mut host = FakeHost::new();
        raised(&state, &mut host);
        let before = (host.state.clone(), open(&state, &host).record().clone());
        let mut journal = open(&state, &host);
        journal.changing("scrub").unwrap();
        for step in &addition().plan.steps[..steps] {
            journal.intend(step).unwrap();
            host.apply(&before.1.header.id, step).unwrap();
        }
        let read = journal.record().without_change();
        assert_eq!(read, before.1, "{steps}");
        // Cut off once more, while it was taken back.
        journal.changing("scrub").unwrap();
        assert!(take_back_change(&mut journal, &mut host).is_clean());
        assert_eq!(host.state, before.0, "{steps}");
        assert_eq!(journal.record(), &before.1, "{steps}");
        drop(journal);
        assert_eq!(open(&state, &host).record(), &before.1, "as read back");
        // Nothing is to be taken back a second time.
        let mut journal = open(&state, &host);
        let razed = take_back_change(&mut journal, &mut host);
        assert_eq!((razed.undone, razed.is_clean()), (0, true));
    }
}
