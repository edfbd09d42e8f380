// SPDX-License-Identifier: Apache-2.0
//! Journals on disk: round trip, torn lines, versions, owners.

use super::*;
use crate::host::SystemClock;
use plimsoll_core::plan::PlanAction;
use std::os::unix::fs::PermissionsExt;

fn header(kind: JournalScope) -> JournalHeader {
    JournalHeader {
        format: FormatVersion::JOURNAL,
        id: "t-1".into(),
        kind,
        owner: HostProcessId::this(),
        began_at: "2026-01-01T00:00:00Z".into(),
        mount_dir: None,
        ask: None,
        nodes: Vec::new(),
    }
}

fn step(name: &str) -> PlanStep {
    PlanStep::on(
        "here",
        "create a directory",
        PlanAction::MakeDir(name.into()),
        Some(PlanAction::RemoveDir(name.into())),
    )
}

fn dead_owner() -> HostProcessId {
    HostProcessId {
        started_ticks: 1,
        ..HostProcessId::this()
    }
}

fn stack() -> JournalScope {
    JournalScope::Stack("local".into())
}

#[test]
fn what_is_written_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let mut journal = Journal::create(&state, header(stack())).unwrap();
    for name in ["/a", "/b"] {
        let n = journal.intend(&step(name)).unwrap();
        journal.done(n).unwrap();
    }
    journal.undone(1).unwrap();
    journal.standing().unwrap();
    let files = state.journal_files().unwrap();
    assert_eq!(files, [journal.path().to_path_buf()]);
    assert_eq!(&JournalContents::read(&files[0]).unwrap(), journal.record());
    assert_eq!(
        journal.record().to_undo(),
        [(0, "here".into(), PlanAction::RemoveDir("/a".into()))]
    );
    assert!(matches!(
        Journal::create(&state, header(stack())),
        Err(JournalError::Exists { .. })
    ));
    journal.remove().unwrap();
    assert_eq!(fs::read_dir(state.journals()).unwrap().count(), 0);
}

#[test]
fn a_torn_last_line_is_tolerated_wherever_it_tears() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let mut first = header(stack());
    first.owner = dead_owner();
    let mut journal = Journal::create(&state, first).unwrap();
    journal.intend(&step("/a")).unwrap();
    journal.done(0).unwrap();
    let path = journal.path().to_path_buf();
    drop(journal);
    let bytes = fs::read(&path).unwrap();
    let header_len = bytes.iter().position(|&b| b == b'\n').unwrap() + 1;
    for cut in (header_len..bytes.len()).step_by(5) {
        fs::write(&path, &bytes[..cut]).unwrap();
        let mut journal = Journal::open(&path, &SystemClock::new()).unwrap();
        journal.intend(&step("/z")).unwrap();
        let again = JournalContents::read(&path).unwrap();
        assert_eq!(
            again.entries.last().unwrap().step,
            step("/z"),
            "cut at {cut}"
        );
    }
}

#[test]
fn damage_in_the_middle_and_newer_formats_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j.jsonl");
    let mut newer = header(stack());
    newer.format.major += 1;
    let newer = serde_json::to_string(&newer).unwrap();
    let ours = serde_json::to_string(&header(stack())).unwrap();
    for (text, expect) in [
        (format!("{newer}\n"), "has format 2."),
        (format!("{ours}\nnonsense\n\"standing\"\n"), "line 2"),
        (format!("{ours}\n{{\"done\":3}}\n"), "no step 3"),
        ("{}\n".into(), "is not a journal"),
        (String::new(), "is not a journal"),
    ] {
        fs::write(&path, text).unwrap();
        let error = JournalContents::read(&path).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
}

#[test]
fn only_the_owner_undoes_what_is_at_work() {
    for (kind, owner, standing, expect_open) in [
        (stack(), HostProcessId::this(), false, false),
        (stack(), HostProcessId::this(), true, true),
        (stack(), dead_owner(), false, true),
        (
            JournalScope::Run("r".into()),
            HostProcessId::this(),
            true,
            false,
        ),
        (JournalScope::Run("r".into()), dead_owner(), true, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut first = header(kind);
        first.owner = owner;
        let mut journal = Journal::create(&StateDir::new(dir.path()), first).unwrap();
        if standing {
            journal.standing().unwrap();
        }
        let path = journal.path().to_path_buf();
        // While it is held, opening it again fails.
        assert!(matches!(
            Journal::open(&path, &SystemClock::new()),
            Err(JournalError::InUse { .. })
        ));
        drop(journal);
        assert_eq!(
            Journal::open(&path, &SystemClock::new()).is_ok(),
            expect_open
        );
    }
}

#[test]
fn journals_others_can_write_are_not_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::create(&StateDir::new(dir.path()), header(stack())).unwrap();
    let path = journal.path().to_path_buf();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let error = JournalContents::read(&path).unwrap_err().to_string();
    assert!(error.contains("not trusted"), "{error}");
}

#[test]
fn temporaries_of_processes_that_are_gone_are_removed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    state.hold_made().unwrap();
    let (gone, ours) = (
        state.temporary(&dead_owner()),
        state.temporary(&HostProcessId::this()),
    );
    let boot = HostProcessId::this().boot;
    let theirs = [
        "thesis.tmp".to_owned(),
        "1_1.tmp".to_owned(),
        "1_1_boot.tmp".to_owned(),
        format!("0_1_{boot}.tmp"),
        format!("1_1_{boot}_1.tmp"),
        format!("1_1_{boot}.tmp.tmp"),
    ]
    .map(|name| state.journals().join(name));
    for path in theirs.iter().chain([&gone, &ours]) {
        fs::write(path, "x").unwrap();
    }
    // A link with the name of one is none.
    let link = state.temporary(&HostProcessId {
        started_ticks: 2,
        ..HostProcessId::this()
    });
    std::os::unix::fs::symlink(&theirs[0], &link).unwrap();
    assert_eq!(state.abandoned().unwrap(), std::slice::from_ref(&gone));
    state.remove_abandoned().unwrap();
    assert!(!gone.exists() && ours.exists() && link.is_symlink());
    assert!(theirs.iter().all(|path| path.exists()));
}

#[test]
fn what_is_no_file_of_its_own_is_no_journal_and_hangs_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let journal = Journal::create(&state, header(stack())).unwrap();
    let whole = journal.path().to_path_buf();
    drop(journal);
    let elsewhere = dir.path().join("elsewhere");
    fs::copy(&whole, &elsewhere).unwrap();
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o600)).unwrap();
    let place = |name: &str| state.journals().join(name);
    let link = place("run-link.jsonl");
    std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
    // Any user can make this out of a program of root's that waits.
    let proc = place("run-proc.jsonl");
    std::os::unix::fs::symlink("/proc/self/cmdline", &proc).unwrap();
    let second = place("run-second.jsonl");
    fs::hard_link(&elsewhere, &second).unwrap();
    let fifo = place("run-fifo.jsonl");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let folder = place("run-folder.jsonl");
    fs::create_dir(&folder).unwrap();
    for path in [link, proc, second, fifo, folder] {
        let read = JournalContents::read(&path).unwrap_err().to_string();
        let opened = Journal::open(&path, &SystemClock::new()).unwrap_err();
        for error in [read, opened.to_string()] {
            assert!(error.contains(path.to_str().unwrap()), "{error}");
        }
    }
    assert!(JournalContents::read(&whole).is_ok());
}

#[test]
fn journals_in_a_place_of_others_are_not_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path().join("state"));
    let journal = Journal::create(&state, header(stack())).unwrap();
    let path = journal.path().to_path_buf();
    drop(journal);
    for at in [state.path().to_path_buf(), state.journals()] {
        fs::set_permissions(&at, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(state.journal_files().is_err() && state.remove_abandoned().is_err());
        assert!(JournalContents::read(&path).is_err());
        assert!(Journal::create(&state, header(JournalScope::Run("r".into()))).is_err());
        fs::set_permissions(&at, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(JournalContents::read(&path).is_ok());
    }
    // The directory of journals may not be led elsewhere.
    let moved = dir.path().join("moved");
    fs::rename(state.journals(), &moved).unwrap();
    std::os::unix::fs::symlink(&moved, state.journals()).unwrap();
    assert!(state.journal_files().is_err());
}

/// A clock whose first pause is the moment in which something happens.
struct Meanwhile(SystemClock, std::cell::RefCell<Option<Box<dyn FnOnce()>>>);

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl HostTimeSource for Meanwhile {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn unix_time(&self) -> Duration {
        self.0.unix_time()
    }

    fn pause(&self, length: Duration) {
        match self.1.take() {
            Some(happens) => happens(),
            None => self.0.pause(length),
        }
    }
}

/// Opens a journal that is locked, while `meanwhile` happens with it and lets go of it.
fn open_while(
    meanwhile: impl FnOnce(Journal) + 'static,
) -> (tempfile::TempDir, Result<Journal, JournalError>) {
    let dir = tempfile::tempdir().unwrap();
    let mut first = header(stack());
    first.owner = dead_owner();
    let mut journal = Journal::create(&StateDir::new(dir.path()), first).unwrap();
    journal.intend(&step("/a")).unwrap();
    let path = journal.path().to_path_buf();
    let happens: Box<dyn FnOnce()> = Box::new(|| meanwhile(journal));
    let clock = Meanwhile(SystemClock::new(), Some(happens).into());
    let opened = Journal::open(&path, &clock);
    (dir, opened)
}

#[test]
fn what_was_written_while_waiting_for_the_lock_is_known() {
    let (_dir, opened) = open_while(|mut journal| {
        journal.undone(0).unwrap();
        journal.intend(&step("/b")).unwrap();
    });
    let opened = opened.unwrap();
    assert_eq!(
        opened.record().to_undo(),
        [(1, "here".into(), PlanAction::RemoveDir("/b".into()))]
    );
    assert_eq!(
        &JournalContents::read(opened.path()).unwrap(),
        opened.record()
    );
}

#[test]
fn a_journal_removed_and_begun_anew_while_waiting_is_not_the_same() {
    let (dir, opened) = open_while(|journal| {
        let path = journal.path().to_path_buf();
        let copy = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, copy).unwrap();
        // The old name belongs to another file now, and the old file has no name.
        drop(journal);
    });
    assert!(opened.unwrap_err().is_absent());
    let files = StateDir::new(dir.path()).journal_files().unwrap();
    assert_eq!(JournalContents::read(&files[0]).unwrap().entries.len(), 1);
}

#[test]
fn an_owner_that_gets_to_work_again_while_waiting_is_respected() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let mut first = header(JournalScope::Run("r".into()));
    first.owner = dead_owner();
    let journal = Journal::create(&state, first).unwrap();
    let path = journal.path().to_path_buf();
    let rewritten = path.clone();
    let happens: Box<dyn FnOnce()> = Box::new(move || {
        let ours = serde_json::to_string(&header(JournalScope::Run("r".into()))).unwrap();
        fs::write(&rewritten, format!("{ours}\n")).unwrap();
        drop(journal);
    });
    let clock = Meanwhile(SystemClock::new(), Some(happens).into());
    let error = Journal::open(&path, &clock).unwrap_err();
    assert!(matches!(error, JournalError::InUse { .. }), "{error}");
}

/// A process that a killed owner had just forked has its lock until it becomes another program, which takes
/// long on a busy machine.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a process that has a lock of one that has ended"
)]
fn the_lock_of_what_a_killed_one_had_forked_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = header(stack());
    first.owner = dead_owner();
    let journal = Journal::create(&StateDir::new(dir.path()), first).unwrap();
    let path = journal.path().to_path_buf();
    drop(journal);
    // flock has ended by then, and sleep has its lock.
    let script = "exec 9<>\"$1\"; flock 9; sleep 4 >/dev/null & exit 0";
    let status = std::process::Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(&path)
        .status();
    assert!(status.unwrap().success());
    let clock = SystemClock::new();
    Journal::open(&path, &clock).unwrap();
    assert!(clock.now() > lock::LOCK_WAIT);
}

#[test]
fn what_is_held_is_not_opened_and_the_holder_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let mut journal = Journal::create(&state, header(stack())).unwrap();
    let path = journal.path().to_path_buf();
    let clock = SystemClock::new();
    let held = || hold(&path, &clock);
    // Not while it is being made.
    assert!(matches!(held(), Err(JournalError::InUse { .. })));
    journal.standing().unwrap();
    drop(journal);
    let (one, other) = (held().unwrap(), held().unwrap());
    drop(one);
    let error = Journal::open(&path, &clock).unwrap_err().to_string();
    let ourselves = format!(
        "stack 'local' is in use by another plimsoll (process {})",
        std::process::id()
    );
    assert!(error.starts_with(&ourselves), "{error}");
    drop(other);
    drop(Journal::open(&path, &clock).unwrap());
}

#[test]
fn what_is_unfinished_cannot_be_held() {
    for standing in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut first = header(stack());
        first.owner = dead_owner();
        let mut journal = Journal::create(&StateDir::new(dir.path()), first).unwrap();
        journal.intend(&step("/a")).unwrap();
        if standing {
            // Stood once, and was being undone when who did it was killed.
            journal.standing().unwrap();
            journal.undone(0).unwrap();
        }
        let path = journal.path().to_path_buf();
        drop(journal);
        let error = hold(&path, &SystemClock::new()).unwrap_err();
        assert!(matches!(error, JournalError::NotStanding { .. }), "{error}");
    }
}

#[test]
fn what_served_only_while_a_stack_was_made_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path());
    let mut journal = Journal::create(&state, header(stack())).unwrap();
    let is = |path: &str| PlanAction::MountIs {
        sources: Vec::new(),
        path: path.into(),
        file_system: "fuse".into(),
    };
    let actions = [
        is("/setup"),
        is("/mnt"),
        PlanAction::Unmount("/setup".into()),
        is("/setup"),
    ];
    for apply in actions {
        let n = journal
            .intend(&PlanStep {
                apply,
                ..step("/a")
            })
            .unwrap();
        journal.done(n).unwrap();
    }
    let over: Vec<bool> = (0..5).map(|n| journal.record().is_over(n)).collect();
    assert_eq!(over, [true, false, false, false, false]);
}
