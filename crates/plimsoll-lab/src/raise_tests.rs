// SPDX-License-Identifier: Apache-2.0
//! Raising and undoing against a pretended machine: nothing is left, wherever it breaks.

use crate::fake::{FakeHost, FakeWhen};
use crate::stacks::{self, StackConfig, StackUpOptions, snapshot};
use plimsoll_core::format::FormatVersion;
use plimsoll_core::plan::{HERE, Plan, PlanAction, PlanCommand};
use plimsoll_machine::cleanup::{raze_all, raze_dead_runs, raze_own_runs};
use plimsoll_machine::host::{Host as _, HostProcessId, HostTimeSource as _};
use plimsoll_machine::host::{HostError, HostResolver};
use plimsoll_machine::journal::{Journal, JournalError, StateDir};
use plimsoll_machine::journal::{JournalHeader, JournalScope};
use plimsoll_machine::raise::{WAIT_PIECE_S, list, raise, raze};
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

fn plans() -> Vec<Plan> {
    let plan = |stack: &&dyn stacks::StackRecipe| {
        let choice = StackConfig::parse(stack.name()).unwrap();
        match stack.needs_machines(&choice) {
            false => snapshot::planned(stack.name()).plan,
            true => {
                snapshot::planned_on_machines(stack.name(), &[])
                    .unwrap()
                    .plan
            }
        }
    };
    // Each step is broken once: two are raid1 with more of the same, one is what a user writes. The
    // machines of drbd and san have directories of the same name, and here they are one.
    let left_out = ["raid5", "raid10", "own", "drbd", "san"];
    let is_more = |stack: &&&dyn stacks::StackRecipe| left_out.contains(&stack.name());
    let all = stacks::ALL.iter().filter(|stack| !is_more(stack));
    let servers = snapshot::planned("lustre(files,osts=1,nid=10.0.0.5@tcp)").plan;
    all.map(plan).chain([servers]).collect()
}

/// A machine with a Lustre file system mounted by its user: the `lustre` stack uses it.
fn machine() -> FakeHost {
    let mut host = FakeHost::new();
    host.mounted.insert("/mnt/lustre".into());
    host
}

fn journal(state: &StateDir, owner: HostProcessId) -> Journal {
    let header = JournalHeader {
        format: FormatVersion::JOURNAL,
        id: "t-1".into(),
        kind: JournalScope::Stack("t".into()),
        owner,
        began_at: "2026-01-01T00:00:00Z".into(),
        mount_dir: None,
        ask: None,
        nodes: Vec::new(),
    };
    Journal::create(state, header).unwrap()
}

fn check_nothing_left(host: &FakeHost, state: &StateDir, context: &str) {
    assert!(host.state.is_empty(), "{context}: {:?}", host.state);
    assert_eq!(state.journal_files().unwrap().len(), 0, "{context}");
}

#[test]
fn a_plan_raised_and_razed_leaves_nothing() {
    for plan in plans() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::new(dir.path());
        let mut host = machine();
        let standing = raise(
            &plan,
            None,
            &mut host,
            journal(&state, HostProcessId::this()),
        )
        .unwrap();
        assert!(!host.state.is_empty());
        assert!(standing.journal.record().standing);
        let razed = raze(standing.journal, &mut host);
        assert!(razed.is_clean() && razed.warnings.is_empty(), "{razed:?}");
        check_nothing_left(&host, &state, "whole");
    }
}

#[test]
fn a_plan_that_fails_at_any_step_leaves_nothing_and_names_the_step() {
    for plan in plans() {
        for n in 0..plan.steps.len() {
            for when in [FakeWhen::Before, FakeWhen::After] {
                let dir = tempfile::tempdir().unwrap();
                let state = StateDir::new(dir.path());
                let mut host = machine().failing_at(n, when);
                let error = raise(
                    &plan,
                    None,
                    &mut host,
                    journal(&state, HostProcessId::this()),
                )
                .unwrap_err();
                assert_eq!(error.why, plan.steps[n].why);
                let text = error.to_string();
                assert!(text.contains(&format!("told to fail at {n}")), "{text}");
                assert!(text.ends_with("has been undone"), "{text}");
                check_nothing_left(&host, &state, &text);
            }
        }
    }
}

/// As after `kill -9`: the journal knows the step, the machine may or may not have it.
#[test]
fn a_plan_whose_owner_is_killed_at_any_step_leaves_nothing() {
    let dead = HostProcessId {
        started_ticks: 1,
        ..HostProcessId::this()
    };
    for plan in plans() {
        for n in 0..plan.steps.len() {
            for done in [false, true] {
                let dir = tempfile::tempdir().unwrap();
                let state = StateDir::new(dir.path());
                let mut host = machine();
                let mut journal = journal(&state, dead.clone());
                for (i, step) in plan.steps.iter().enumerate().take(n + 1) {
                    journal.intend(step).unwrap();
                    if i < n || done {
                        host.carry_out("t-1", &step.apply).unwrap();
                    }
                    if i < n {
                        journal.done(i).unwrap();
                    }
                }
                drop(journal);
                let all = raze_all(&state, &mut host).unwrap();
                assert!(all[0].result.as_ref().unwrap().is_clean());
                check_nothing_left(&host, &state, &format!("step {n}, done {done}"));
            }
        }
    }
}

#[test]
fn undoing_that_breaks_anywhere_is_completed_by_trying_again() {
    for plan in plans() {
        let breaks = vec(0..50_usize, 0..12);
        proptest!(ProptestConfig::with_cases(40), |(breaks in breaks)| {
            let dir = tempfile::tempdir().unwrap();
            let state = StateDir::new(dir.path());
            let mut host = machine();
            let journal = journal(&state, HostProcessId::this());
            let standing = raise(&plan, None, &mut host, journal).unwrap();
            let begun = host.asked.len();
            let failing = breaks.iter().map(|at| (begun + at, FakeWhen::Before));
            host.failing.extend(failing);
            let razed = raze(standing.journal, &mut host);
            host.failing.clear();
            if !razed.is_clean() {
                let again = raze_all(&state, &mut host).unwrap();
                prop_assert!(again[0].result.as_ref().unwrap().is_clean(), "{:?}", again);
            }
            check_nothing_left(&host, &state, "after trying again");
        });
    }
}

/// A machine whose user wants all to end after some looks at whether that is so.
struct Impatient(FakeHost, std::cell::Cell<usize>);

impl HostResolver for Impatient {
    fn on(&mut self, _: &str) -> Result<&mut dyn plimsoll_machine::host::Host, HostError> {
        Ok(&mut self.0)
    }

    fn meet(&mut self, _: &[plimsoll_core::plan::PlanNode]) {}

    fn trust(&mut self, _: &str, _: &[String]) {}

    fn is_stopping(&self) -> bool {
        let left = self.1.get();
        self.1.set(left.saturating_sub(1));
        left == 0
    }

    fn here(&self) -> &dyn plimsoll_machine::host::Host {
        &self.0
    }
}

#[test]
fn whenever_it_is_stopped_nothing_is_left() {
    for plan in plans() {
        for looks in 0..plan.steps.len() {
            let dir = tempfile::tempdir().unwrap();
            let state = StateDir::new(dir.path());
            let mut hosts = Impatient(machine(), looks.into());
            let journal = journal(&state, HostProcessId::this());
            let error = raise(&plan, None, &mut hosts, journal).unwrap_err();
            assert!(error.is_stop() && error.razed.is_clean(), "{error}");
            assert_eq!(error.why, plan.steps[looks].why);
            check_nothing_left(&hosts.0, &state, &error.to_string());
        }
    }
}

#[test]
fn a_long_wait_is_given_up_when_stopped_and_what_fails_in_it_is_told() {
    let wait = PlanCommand::new("true", [""; 0]).within_s(3 * WAIT_PIECE_S);
    let mut plan = Plan::default();
    plan.step("wait for it", PlanAction::Await(wait), None);
    let is_stop = |looks: usize| {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::new(dir.path());
        let mut hosts = Impatient(
            FakeHost::new().failing_at(0, FakeWhen::Before),
            looks.into(),
        );
        let raised = raise(
            &plan,
            None,
            &mut hosts,
            journal(&state, HostProcessId::this()),
        );
        check_nothing_left(&hosts.0, &state, "a wait");
        raised.unwrap_err().is_stop()
    };
    assert_eq!([1, 9].map(is_stop), [true, false]);
}

#[test]
fn undoing_goes_on_after_an_error_and_keeps_the_journal() {
    let plan = &plans()[1];
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let mut host = machine();
    let standing = raise(
        plan,
        None,
        &mut host,
        journal(&state, HostProcessId::this()),
    )
    .unwrap();
    // The directory stays foreign for ever: everything else must still go.
    for owner in host.state.dirs.values_mut() {
        *owner = "someone".into();
    }
    let razed = raze(standing.journal, &mut host);
    assert!(!razed.errors.is_empty());
    assert!(host.state.mounts.is_empty() && host.state.loops.is_empty());
    assert!(host.state.marks.is_empty());
    let found = list(&state).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].undo_steps().len(), razed.errors.len());
}

#[test]
fn a_script_that_could_not_take_something_away_is_kept_for_the_next_time() {
    let dir = "/var/tmp/plimsoll-t".to_owned();
    let script = PlanCommand::new("sh", [format!("{dir}/take"), "down".into()]);
    let mut plan = Plan::default();
    let remove = Some(PlanAction::RemoveDir(dir.clone()));
    plan.step("create a directory", PlanAction::MakeDir(dir), remove);
    let up = PlanAction::Run(PlanCommand::new("true", [""; 0]));
    plan.step("take part", up, Some(PlanAction::Run(script)));
    let place = tempfile::tempdir().unwrap();
    let state = StateDir::new(place.path());
    let mut host = FakeHost::new();
    let standing = raise(
        &plan,
        None,
        &mut host,
        journal(&state, HostProcessId::this()),
    )
    .unwrap();
    // The first action ends commands, the second is the script: in both passes.
    host = host.failing_at_next(1, FakeWhen::Before);
    host = host.failing_at_next(3, FakeWhen::Before);
    let razed = raze(standing.journal, &mut host);
    assert_eq!(razed.errors.len(), 2, "{razed:?}");
    assert_eq!(host.state.dirs.len(), 1);
    let all = raze_all(&state, &mut host).unwrap();
    assert!(all[0].result.as_ref().unwrap().is_clean());
    check_nothing_left(&host, &state, "once the script ends well");
}

#[test]
fn what_another_process_is_at_work_on_is_refused_by_number() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let _at_work = journal(&state, HostProcessId::this());
    let all = raze_all(&state, &mut FakeHost::new()).unwrap();
    let error = all[0].result.as_ref().unwrap_err().to_string();
    assert!(
        error.contains(&format!("process {}", std::process::id())),
        "{error}"
    );
}

#[test]
fn what_somebody_holds_is_left_alone_and_the_others_go() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let mut host = machine();
    let base = dir.path().join("base");
    for name in ["iscsi", "raid1"] {
        let mut options = StackUpOptions::new(base.clone());
        options.size_bytes = stacks::MIN_SIZE_BYTES;
        let choice = StackConfig::parse(name).unwrap();
        stacks::up(&choice, &options, &state, &mut host).unwrap();
    }
    let held = stacks::hold("iscsi", &state, &host.clock).unwrap();
    let dirs = host.state.dirs.len();
    let all = raze_all(&state, &mut host).unwrap();
    let refused = all[0].result.as_ref().unwrap_err().to_string();
    assert!(refused.contains("stack 'iscsi' is in use"), "{refused}");
    assert!(all[1].result.as_ref().unwrap().is_clean());
    assert_eq!(host.state.dirs.len(), dirs / 2);
    assert!(host.state.marks.iter().all(|m| m.contains("iscsi")));
    let error = stacks::down("iscsi", &state, &mut host).unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    let status = stacks::status(&state, &mut host).unwrap();
    assert!(status.len() == 1 && status[0].problems.is_empty());
    // Injecting a fault takes an exclusive lock; the refusal names who uses the stack.
    let user = stacks::hold("iscsi", &state, &host.clock).unwrap();
    let error = stacks::hold_alone(&held, "iscsi", &state).unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    drop(held);
    // A process that a parallel test is just starting may share the dropped lock for a moment.
    while let Err(error) = stacks::hold_alone(&user, "iscsi", &state) {
        assert!(host.clock.now() < Duration::from_secs(60), "{error}");
        host.clock.pause(Duration::from_millis(5));
    }
    let error = stacks::hold("iscsi", &state, &host.clock).unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    let status = stacks::status(&state, &mut host).unwrap();
    assert!(status.len() == 1 && status[0].problems.is_empty());
    drop(user);
    assert!(stacks::down("iscsi", &state, &mut host).unwrap().is_clean());
    check_nothing_left(&host, &state, "after it was let go");
    let error = stacks::hold("iscsi", &state, &host.clock).unwrap_err();
    assert!(matches!(error, JournalError::NotStanding { .. }), "{error}");
}

#[test]
fn what_is_left_on_a_node_without_power_is_told_once_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let mut plan = Plan::default();
    for (node, path) in [(HERE, "/here"), ("n1", "/a"), ("n1", "/b")] {
        let undo = Some(PlanAction::RemoveDir(path.into()));
        plan.step_on(
            node,
            "create a directory",
            PlanAction::MakeDir(path.into()),
            undo,
        );
    }
    let mut host = FakeHost::new();
    let standing = raise(
        &plan,
        None,
        &mut host,
        journal(&state, HostProcessId::this()),
    )
    .unwrap();
    host.is_alone = true;
    let razed = raze(standing.journal, &mut host);
    // The two directories, and the commands that may still run there.
    let problems = razed.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    for word in [
        "node n1, 3 actions",
        "does not answer",
        "plimsoll raze --forget-node n1",
    ] {
        assert!(problems[0].contains(word), "{problems:?}");
    }
    assert_eq!(razed.undone, 1);
    assert_eq!(
        state.journal_files().unwrap().len(),
        1,
        "it can be tried again"
    );
}

/// The server of the stack may be dead, and then a process that looks at a file on the stack hangs.
#[test]
fn what_a_killed_run_made_on_a_stack_goes_with_the_stack_after_its_programs_were_ended() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let mut host = machine();
    let mut options = StackUpOptions::new(dir.path().join("base"));
    options.size_bytes = stacks::MIN_SIZE_BYTES;
    let choice = StackConfig::parse("nbd").unwrap();
    let standing = stacks::up(&choice, &options, &state, &mut host).unwrap();
    let mount = standing.made.mount_dir;
    let header = JournalHeader {
        format: FormatVersion::JOURNAL,
        id: "r-1".into(),
        kind: JournalScope::Run("r-1".into()),
        owner: HostProcessId {
            started_ticks: 1,
            ..HostProcessId::this()
        },
        began_at: "2026-01-01T00:00:00Z".into(),
        mount_dir: None,
        ask: None,
        nodes: Vec::new(),
    };
    let mut plan = Plan::default();
    let places = [format!("{mount}/plimsoll-r-1"), "/elsewhere".into()];
    for place in &places {
        let undo = Some(PlanAction::RemoveDir(place.clone()));
        plan.step(
            "create a directory",
            PlanAction::MakeDir(place.clone()),
            undo,
        );
    }
    let run = Journal::create(&state, header).unwrap();
    drop(raise(&plan, None, &mut host, run).unwrap());
    let begun = host.asked.len();
    for razed in raze_all(&state, &mut host).unwrap() {
        assert!(razed.result.unwrap().is_clean());
    }
    check_nothing_left(&host, &state, "both");
    let at = |action: &PlanAction| {
        let text = action.to_string();
        let mut asked = host.asked[begun..].iter();
        let found = asked.position(|one| one.contains(&text));
        found.unwrap_or_else(|| panic!("{text}: {:?}", &host.asked[begun..]))
    };
    let mark = plimsoll_machine::host::command_mark("r-1");
    let order = [
        at(&PlanAction::Stop { mark }),
        at(&PlanAction::RemoveDir(places[1].clone())),
        at(&PlanAction::Unmount(mount.clone())),
        at(&PlanAction::RemoveDir(places[0].clone())),
    ];
    assert!(order.is_sorted(), "{order:?}: {:?}", &host.asked[begun..]);
}

#[test]
fn a_run_that_goes_on_clears_what_killed_ones_left_and_leaves_the_stacks_of_people() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let mut host = machine();
    let dead = HostProcessId {
        started_ticks: 1,
        ..HostProcessId::this()
    };
    let begin = |scope: JournalScope, id: &str, owner: &HostProcessId, host: &mut FakeHost| {
        let header = JournalHeader {
            format: FormatVersion::JOURNAL,
            id: id.into(),
            kind: scope,
            owner: owner.clone(),
            began_at: "2026-01-01T00:00:00Z".into(),
            mount_dir: None,
            ask: None,
            nodes: Vec::new(),
        };
        let mut plan = Plan::default();
        let place = format!("/{id}");
        let undo = Some(PlanAction::RemoveDir(place.clone()));
        plan.step("create a directory", PlanAction::MakeDir(place), undo);
        let journal = Journal::create(&state, header).unwrap();
        drop(raise(&plan, None, host, journal).unwrap());
    };
    let person = HostProcessId {
        started_ticks: 2,
        ..HostProcessId::this()
    };
    begin(JournalScope::Run("r".into()), "r", &dead, &mut host);
    begin(
        JournalScope::Run("alive".into()),
        "alive",
        &HostProcessId::this(),
        &mut host,
    );
    begin(
        JournalScope::Stack("theirs".into()),
        "theirs",
        &dead,
        &mut host,
    );
    begin(
        JournalScope::Stack("persons".into()),
        "persons",
        &person,
        &mut host,
    );
    let razed = raze_dead_runs(&state, &mut host).unwrap();
    assert_eq!(razed.len(), 2);
    let left = |host: &FakeHost| -> Vec<String> { host.state.dirs.keys().cloned().collect() };
    assert_eq!(left(&host), ["/alive", "/persons"]);
    // One that panics takes its own along.
    assert_eq!(raze_own_runs(&state, &mut host).unwrap().len(), 1);
    assert_eq!(left(&host), ["/persons"]);
}
