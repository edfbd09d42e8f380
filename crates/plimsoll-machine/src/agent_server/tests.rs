// SPDX-License-Identifier: Apache-2.0
//! The agent on a pretended machine: what it notes, what it strikes, what it refuses.

use super::*;
use crate::fake::{FakeHost, FakeWhen};
use crate::host::agent::{AgentFrameParser, framed};
use crate::journal::JournalContents;
use plimsoll_core::load::{AgentEvent, AgentFailure, AgentTask};
use plimsoll_core::rng::Seed;
use plimsoll_core::target::NodeTarget;
use plimsoll_core::units::Nanos;
use std::io::{Read, Write, pipe};

const ID: &str = "nbd-1";

fn pretender() -> Arc<dyn AgentTaskRunner> {
    Arc::new(Pretender)
}

/// Plays nothing: says that it is prepared, waits for its start, and tells what it was given.
struct Pretender;

impl AgentTaskRunner for Pretender {
    fn now(&self) -> Nanos {
        Nanos(7)
    }

    fn play(&self, task: AgentTask, turn: &AgentTaskContext) -> Result<AgentEvent, AgentFailure> {
        let AgentTask::Prove { seed, .. } = task else {
            return Err("it cannot play".into());
        };
        turn.tell(AgentEvent::Prepared { took: Nanos(1) });
        let start = turn.start_at().map(|at| format!("{seed} at {}", at.0));
        Ok(AgentEvent::Proved(start.as_deref().map(Into::into)))
    }
}

fn state(place: &tempfile::TempDir) -> StateDir {
    StateDir::new(place.path())
}

fn step(dir: &str) -> PlanStep {
    PlanStep::on(
        "n1",
        "create a directory",
        PlanAction::MakeDir(dir.into()),
        Some(PlanAction::RemoveDir(dir.into())),
    )
}

fn noted(state: &StateDir) -> Option<JournalContents> {
    JournalContents::read(&journal_path(state, ID)).ok()
}

#[test]
fn a_step_is_noted_before_it_is_done_and_struck_when_it_is_undone() {
    for when in [FakeWhen::Before, FakeWhen::After] {
        let place = tempfile::tempdir().unwrap();
        let state = state(&place);
        let mut host = FakeHost::new().failing_at(1, when);
        apply(&mut host, &state, ID, (&step("/a"), None), &[]).unwrap();
        apply(&mut host, &state, ID, (&step("/b"), None), &[]).unwrap_err();
        let record = noted(&state).unwrap();
        let done: Vec<bool> = record.entries.iter().map(|entry| entry.done).collect();
        assert_eq!(done, [true, false]);
        assert!(record.entries.iter().all(|entry| entry.step.node == HERE));
        for (_, _, action) in record.to_undo() {
            assert!(noted(&state).is_some());
            undo(&mut host, &state, ID, &action).unwrap();
        }
        assert!(noted(&state).is_none() && host.state.is_empty());
        // Once more, with nothing there.
        undo(&mut host, &state, ID, &PlanAction::RemoveDir("/a".into())).unwrap();
    }
}

#[test]
fn carrying_out_what_would_undo_strikes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let state = state(&place);
    let mut host = FakeHost::new();
    apply(&mut host, &state, ID, (&step("/a"), None), &[]).unwrap();
    let remove = Box::new(PlanAction::RemoveDir("/a".into()));
    let request = AgentRequest::CarryOut {
        id: ID.into(),
        action: remove,
    };
    assert_eq!(answer(request, &mut host, &state), AgentResponse::Done);
    assert!(!noted(&state).unwrap().entries[0].undone);
}

#[test]
fn steps_without_undo_leave_no_journal_once_commands_are_ended() {
    let place = tempfile::tempdir().unwrap();
    let state = state(&place);
    let mut host = FakeHost::new();
    let look = PlanStep {
        undo: None,
        apply: PlanAction::PortFree(1),
        ..step("/a")
    };
    apply(&mut host, &state, ID, (&look, None), &[]).unwrap();
    assert!(noted(&state).is_some());
    let mark = command_mark(ID);
    undo(&mut host, &state, ID, &PlanAction::Stop { mark }).unwrap();
    assert!(noted(&state).is_none());
}

#[test]
fn identifiers_that_are_paths_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let mut host = FakeHost::new();
    for id in ["", "../x", "a/b", "A", &"x".repeat(101)] {
        assert!(apply(&mut host, &state(&place), id, (&step("/a"), None), &[]).is_err());
        assert!(undo(&mut host, &state(&place), id, &step("/a").apply).is_err());
    }
    assert!(host.asked.is_empty());
}

#[test]
fn the_copy_stays_while_a_journal_does() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("node");
    let state = StateDir::new(&dir);
    let copy = dir.join(COPY_DIR);
    std::fs::create_dir_all(&copy).unwrap();
    std::fs::write(copy.join(MADE_FILE), "").unwrap();
    std::fs::write(copy.join(MARK_FILE), "plimsoll-agent\n").unwrap();
    let mut host = FakeHost::new();
    apply(&mut host, &state, ID, (&step("/a"), None), &[]).unwrap();
    forget_copy(&state);
    assert!(copy.exists() && copied(&state).is_empty());
    undo(&mut host, &state, ID, &PlanAction::RemoveDir("/a".into())).unwrap();
    let goes = [copy.join(MADE_FILE), copy.join(MARK_FILE), copy.clone()];
    assert_eq!(copied(&state), goes);
    forget_copy(&state);
    assert!(!dir.exists());
}

#[test]
fn what_is_no_copy_of_ours_stays() {
    let place = tempfile::tempdir().unwrap();
    let state = state(&place);
    let copy = place.path().join(COPY_DIR);
    std::fs::create_dir(&copy).unwrap();
    let notes = copy.join("my-own-notes.txt");
    std::fs::write(&notes, "x").unwrap();
    // A directory without our mark belongs to a user who chose the same name.
    std::fs::write(copy.join(MADE_FILE), "").unwrap();
    forget_copy(&state);
    assert!(copy.join(MADE_FILE).exists() && notes.exists());
    std::fs::write(copy.join(MARK_FILE), "plimsoll-agent\n").unwrap();
    let program = copy.join("plimsoll-0123abc");
    std::fs::write(&program, "").unwrap();
    std::fs::write(copy.join("plimsoll-0123abc.77"), "").unwrap();
    let like = copy.join("plimsoll-results");
    std::fs::write(&like, "").unwrap();
    assert!(!copied(&state).contains(&notes));
    forget_copy(&state);
    assert!(!program.exists() && notes.exists() && like.exists());
    assert_eq!(std::fs::read_dir(&copy).unwrap().count(), 3);
}

/// Sends these requests and waits for `count` responses; gives them and how the agent ended.
fn conversed(requests: &[AgentRequest], count: usize) -> (Vec<AgentResponse>, Result<(), String>) {
    let place = tempfile::tempdir().unwrap();
    let (input, mut asked) = pipe().unwrap();
    let (answers, output) = pipe().unwrap();
    asked.write_all(&greeted(requests)).unwrap();
    std::thread::scope(|scope| {
        let agent = scope.spawn(|| {
            let (mut host, go) = (FakeHost::new(), AtomicBool::new(false));
            let streams = (input, output);
            serve(&mut host, &pretender(), &state(&place), "b", streams, &go)
        });
        let (_nobody, unused) = pipe().unwrap();
        let mut channel = AgentChannel::new(answers, unused);
        while channel.line(LONG).unwrap() != READY_LINE {}
        let receive = |_| AgentResponse::read(&channel.receive(LONG, None).unwrap()).unwrap();
        let answers = (0..count).map(receive).collect();
        drop(asked);
        (answers, agent.join().unwrap())
    })
}

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(300);

/// Serves these bytes; gives the answers and how it ended.
fn served(bytes: &[u8]) -> (Vec<AgentResponse>, Result<(), String>) {
    let place = tempfile::tempdir().unwrap();
    let (input, mut asked) = pipe().unwrap();
    let (mut answers, output) = pipe().unwrap();
    asked.write_all(bytes).unwrap();
    drop(asked);
    let go = AtomicBool::new(false);
    let ended = serve(
        &mut FakeHost::new(),
        &pretender(),
        &state(&place),
        "b",
        (input, output),
        &go,
    );
    let mut bytes = Vec::new();
    answers.read_to_end(&mut bytes).unwrap();
    let ready = format!("\n{READY_LINE}\n");
    let bytes = bytes.strip_prefix(ready.as_bytes()).unwrap();
    let mut frames = AgentFrameParser::default();
    frames.push(bytes);
    let mut all = Vec::new();
    while let Some(message) = frames.next_message().unwrap() {
        all.push(AgentResponse::read(&message).unwrap());
    }
    (all, ended)
}

fn stream(requests: &[AgentRequest]) -> Vec<u8> {
    requests
        .iter()
        .flat_map(|request| framed(&written(request)).unwrap())
        .collect()
}

#[test]
fn nothing_is_done_before_the_greeting_or_after_what_is_not_understood() {
    let hello = || AgentRequest::Hello {
        protocol: PROTOCOL,
        build: "b".into(),
    };
    let (answers, ended) = served(&stream(&[
        AgentRequest::IsRoot,
        hello(),
        AgentRequest::IsRoot,
    ]));
    assert!(
        matches!(answers[0], AgentResponse::Failed(_)),
        "{answers:?}"
    );
    assert!(matches!(answers[1], AgentResponse::Hello { .. }));
    assert_eq!(answers[2], AgentResponse::Is(true));
    assert_eq!(ended, Ok(()));
    let (answers, ended) = served(&stream(&[hello(), AgentRequest::Bye, AgentRequest::IsRoot]));
    assert_eq!((answers.len(), ended), (1, Ok(())));
    for bytes in [b"hello\n".to_vec(), framed(b"{}").unwrap()] {
        let (answers, ended) = served(&[stream(&[hello()]), bytes].concat());
        assert_eq!(answers.len(), 1);
        assert!(ended.is_err());
    }
}

fn prove() -> AgentRequest {
    AgentRequest::Begin(Box::new(AgentTask::Prove {
        name: "a".into(),
        target: NodeTarget::Null,
        seed: Seed(5),
    }))
}

/// The same behind a greeting.
fn greeted(requests: &[AgentRequest]) -> Vec<u8> {
    let hello = AgentRequest::Hello {
        protocol: PROTOCOL,
        build: "b".into(),
    };
    [stream(&[hello]), stream(requests)].concat()
}

fn told(told: AgentEvent) -> AgentResponse {
    AgentResponse::Told(Box::new(told))
}

#[test]
fn a_task_is_prepared_started_at_its_instant_and_told_to_its_end() {
    let requests = [
        AgentRequest::Clock,
        prove(),
        AgentRequest::Clock,
        AgentRequest::Start(Nanos(9)),
    ];
    // The connection stays open until the task has told its last.
    let (mut answers, ended) = conversed(&requests, 5);
    assert_eq!(ended, Ok(()));
    answers.remove(0);
    // A question during the preparation is answered before or after it reports that it is prepared.
    let prepared = told(AgentEvent::Prepared { took: Nanos(1) });
    assert!(answers.contains(&prepared), "{answers:?}");
    answers.retain(|answer| *answer != prepared);
    let proved = told(AgentEvent::Proved(Some(
        format!("{} at 9", Seed(5)).as_str().into(),
    )));
    assert_eq!(
        answers,
        [
            AgentResponse::Clock(Nanos(7)),
            AgentResponse::Clock(Nanos(7)),
            proved
        ]
    );
}

#[test]
fn a_task_is_stopped_by_word_and_by_the_end_of_the_connection() {
    let (answers, ended) = conversed(&[prove(), AgentRequest::Halt], 3);
    assert_eq!(ended, Ok(()));
    assert_eq!(answers[2], told(AgentEvent::Proved(None)));
    // A request that does not belong to the task is refused, and ends both.
    let (_, ended) = served(&greeted(&[prove(), AgentRequest::IsRoot]));
    assert!(ended.unwrap_err().contains("request during a task"));
    // Without a word the task ends with its connection.
    assert_eq!(served(&greeted(&[prove()])).1, Ok(()));
}
