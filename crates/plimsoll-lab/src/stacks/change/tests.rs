// SPDX-License-Identifier: Apache-2.0
//! Changes of stacks on a pretended machine: refused, failed, interrupted.

use super::super::{StackUpOptions, manage, up};
use super::*;
use crate::fake::{FakeHost, FakeWhen};
use plimsoll_core::plan::PlanAction;
use plimsoll_machine::cleanup::raze_all;
use plimsoll_machine::host::{Host as _, HostProcessId};

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
        grown: None,
    }
}

/// The process of which the journal tells as of its worker is another one, which is gone.
pub(in crate::stacks) fn worker_dies(state: &StateDir) {
    let file = state.journal_files().unwrap().remove(0);
    let text = std::fs::read_to_string(&file).unwrap();
    let of_this = format!("\"started_ticks\":{}", HostProcessId::this().started_ticks);
    assert!(text.contains(&of_this), "{text}");
    std::fs::write(file, text.replace(&of_this, "\"started_ticks\":1")).unwrap();
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
            journal.changing("grow").unwrap();
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
    // The journal does not record the end of the change yet. Its owner is this process, which lives, so no
    // other process may undo the change.
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

/// Two steps that can only go on.
fn lasting_addition() -> StackChangePlan {
    let mut lasting = addition();
    lasting.plan.steps[0].point_of_no_return = true;
    lasting
}

/// The journal is that of a process which was killed in or after each of its steps.
#[test]
fn a_change_that_can_only_go_on_goes_on_where_it_was_cut_off() {
    let planned = lasting_addition();
    for (steps, is_last_done) in [(0, true), (1, false), (1, true), (2, false), (2, true)] {
        let place = tempfile::tempdir().unwrap();
        let state = StateDir::new(place.path());
        let mut host = FakeHost::new();
        raised(&state, &mut host);
        let mut journal = open(&state, &host);
        let id = journal.record().header.id.clone();
        journal.changing("grow").unwrap();
        for (n, step) in planned.plan.steps[..steps].iter().enumerate() {
            let at = journal.intend(step).unwrap();
            host.apply(&id, step).unwrap();
            if n + 1 < steps || is_last_done {
                journal.done(at).unwrap();
            }
        }
        assert_eq!(journal.record().is_past_return(), steps > 0);
        drop(journal);
        worker_dies(&state);
        let mut journal = open(&state, &host);
        let mut told = 0;
        let mut count = |_: StackChangeEvent<'_>| told += 1;
        carry_out(&planned, &mut host, &mut journal, &mut count).unwrap();
        let is_cut_off = usize::from(!is_last_done);
        assert_eq!(told, 2 - steps + is_cut_off, "{steps}, {is_last_done}");
        journal.changed().unwrap();
        let record = journal.record();
        assert!(record.entries.iter().all(|entry| entry.done), "{steps}");
        let of_it = &record.entries[record.entries.len() - 2..];
        assert!(of_it.iter().map(|e| &e.step).eq(&planned.plan.steps));
        assert_eq!(host.state.dirs.len(), 3);
        drop(journal);
        raze_all(&state, &mut host).unwrap();
        assert!(host.state.is_empty(), "{:?}", host.state);
    }
}

#[test]
fn a_change_that_can_only_go_on_is_not_undone_where_it_fails() {
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = FakeHost::new();
    raised(&state, &mut host);
    let mut journal = open(&state, &host);
    journal.changing("grow").unwrap();
    let mut host = host.failing_at_next(1, FakeWhen::Before);
    let planned = lasting_addition();
    let error = carry_out(&planned, &mut host, &mut journal, &mut |_| {}).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("run the same command again"), "{text}");
    assert_eq!(host.state.dirs.len(), 2, "the first step stays");
    // Another change would find a stack half changed.
    drop(journal);
    worker_dies(&state);
    let text = change_of(&state, &mut host);
    assert!(text.contains("plimsoll stack grow 'local'"), "{text}");
    let dry = planned_of(&state, &mut host);
    assert_eq!(dry, text);
    // Other steps, of another version perhaps, are not those that it was begun with.
    let mut other = lasting_addition();
    other.plan.steps[0].why = "make something else".into();
    let mut journal = open(&state, &host);
    let error = carry_out(&other, &mut host, &mut journal, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("other steps"), "{error}");
    carry_out(&planned, &mut host, &mut journal, &mut |_| {}).unwrap();
    assert_eq!(host.state.dirs.len(), 3);
}

fn planned_of(state: &StateDir, host: &mut FakeHost) -> String {
    let error = super::planned("local", StackChange::Scrub, None, state, host).unwrap_err();
    error.to_string()
}
