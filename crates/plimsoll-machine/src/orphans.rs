// SPDX-License-Identifier: Apache-2.0
//! Resources with our mark that no journal names: those of an undertaking whose journal was lost
//! or damaged.
//!
//! Only what says itself that it belongs to this state directory is looked at: processes that have its name
//! in their environment beside their mark, and marked directories where stacks lie by default. Resources of
//! another state directory, and those without a mark, are left alone.

use plimsoll_core::plan::PlanAction;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::host::{
    Host, STATE_VARIABLE, environ, is_awaited, journal_of, loops, mounts, processes,
};
use crate::journal::{JournalError, StateDir};
use crate::raise::{self, RazeError, RazeReport};

/// How often it is tried: what hangs on a dead server goes once that has been taken away.
const PASSES: usize = 2;

/// The resources of one lost undertaking, and how they are taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanResources {
    /// Its directory, or the mark of its processes.
    pub name: String,
    /// The identifier of its journal, as far as it is known.
    id: String,
    actions: Vec<PlanAction>,
}

impl OrphanResources {
    /// How it is removed, for people.
    pub fn steps(&self) -> Vec<String> {
        self.actions.iter().map(ToString::to_string).collect()
    }
}

/// Looks for it. Journals in `failed` are taken for lost: undoing what they say was not enough. Where there
/// is a journal that cannot be read for another reason than damage, it may own any of the resources, so none
/// is given.
///
/// # Errors
/// When the state directory is not ours or cannot be read.
pub fn find(state: &StateDir, failed: &[PathBuf]) -> io::Result<Vec<OrphanResources>> {
    // Processes first: a journal is there before the processes that it names, so that who begins meanwhile is
    // no orphan.
    let mut marks = marks_of(state)?;
    let mut known = BTreeSet::new();
    for found in raise::list(state)? {
        match found.record {
            _ if failed.contains(&found.path) => {}
            Ok(record) => drop(known.insert(record.header.id)),
            Err(JournalError::Damaged { .. }) => {}
            Err(error) if error.is_absent() => {}
            Err(_) => return Ok(Vec::new()),
        }
    }
    marks.retain(|mark| !known.iter().any(|id| mark.contains(id.as_str())));
    let mut orphans = Vec::new();
    for (dir, id) in marked_directories(state)? {
        if !known.contains(&id) {
            let own = marks.iter().filter(|mark| mark.contains(&id)).cloned();
            let own: Vec<String> = own.collect();
            marks.retain(|mark| !own.contains(mark));
            orphans.push(of_directory(&dir, id, own)?);
        }
    }
    orphans.extend(marks.into_iter().map(|mark| OrphanResources {
        name: mark.clone(),
        id: mark.clone(),
        actions: vec![PlanAction::Stop { mark }],
    }));
    Ok(orphans)
}

/// Takes one away, as far as it goes.
pub fn remove(orphan: &OrphanResources, host: &mut dyn Host) -> RazeReport {
    let mut razed = RazeReport::default();
    for pass in 1..=PASSES {
        for action in &orphan.actions {
            match host.carry_out(&orphan.id, action) {
                Ok(()) => razed.undone += 1,
                Err(source) => razed.errors.push(RazeError {
                    action: action.to_string(),
                    unreached: None,
                    source,
                }),
            }
        }
        if razed.errors.is_empty() || pass == PASSES {
            break;
        }
        razed.undone = 0;
        razed.warnings.append(&mut razed.errors);
    }
    razed
}

/// Marks of living processes of this state directory.
fn marks_of(state: &StateDir) -> io::Result<BTreeSet<String>> {
    let home = std::path::absolute(state.path())?;
    let ourselves = std::process::id();
    let mut marks = BTreeSet::new();
    for pid in processes::all().into_iter().filter(|pid| *pid != ourselves) {
        let is_of_state = environ::variable(pid, STATE_VARIABLE)
            .is_some_and(|found| found == home.as_os_str().as_bytes());
        let Some(mark) = processes::mark_of(pid).filter(|_| is_of_state) else {
            continue;
        };
        // A helper ends by itself, and its starter looks after it: but a starter that was killed does not.
        if mark.starts_with("plimsoll-") && !is_awaited(&mark) {
            marks.insert(mark);
        }
    }
    // Those that have ended by now are no matter.
    marks.retain(|mark| !processes::marked(mark).is_empty());
    Ok(marks)
}

/// Directories with a mark where stacks lie by default, and whose mark that is.
fn marked_directories(state: &StateDir) -> io::Result<Vec<(PathBuf, String)>> {
    let entries = match fs::read_dir(std::path::absolute(state.stacks())?) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        // Not through links.
        if entry.file_type()?.is_dir()
            && let Some(id) = journal_of(&entry.path())
        {
            found.push((entry.path(), id));
        }
    }
    found.sort();
    Ok(found)
}

/// The topmost goes first: mounts in the order opposite to that in which they were made, each with the
/// loop device it is of, then other loop devices, processes, and the directory.
fn of_directory(dir: &Path, id: String, marks: Vec<String>) -> io::Result<OrphanResources> {
    let shown = |path: &Path| path.to_string_lossy().into_owned();
    let mut devices: Vec<(PathBuf, PathBuf)> = loops::below(dir)?;
    devices.extend(loops::unmounted_of(&id)?);
    let detach = |file: &Path| {
        [
            PlanAction::StopArray(vec![shown(file)]),
            PlanAction::DetachLoop(shown(file)),
        ]
    };
    let mut actions = Vec::new();
    for mount in mounts::below(dir)?.iter().rev() {
        actions.push(PlanAction::Unmount(shown(&mount.point)));
        let of_mount = devices
            .iter()
            .filter(|(device, _)| *device == Path::new(&mount.source));
        actions.extend(of_mount.flat_map(|(_, file)| detach(file)));
    }
    for (_, file) in &devices {
        let rest = detach(file);
        actions.extend(
            rest.into_iter()
                .filter(|action| !actions.contains(action))
                .collect::<Vec<_>>(),
        );
    }
    actions.extend(marks.into_iter().map(|mark| PlanAction::Stop { mark }));
    actions.push(PlanAction::RemoveDir(shown(dir)));
    Ok(OrphanResources {
        name: shown(dir),
        id,
        actions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cleanup::raze_all;
    use crate::host::{LocalHost, SearchPath};

    fn host() -> LocalHost {
        LocalHost::new(SearchPath::new("".as_ref()))
    }

    /// A stack's directory and a daemon of it, its journal gone or damaged.
    fn lost(state: &StateDir, id: &str) -> PathBuf {
        let mut host = host().of_state(state.path()).allow("sleep");
        let dir = state.stacks().join(format!("plimsoll-{id}"));
        let text = dir.display().to_string();
        host.carry_out(id, &PlanAction::MakeDir(text)).unwrap();
        start(&mut host, id, &dir, &format!("plimsoll-{id}-daemon"));
        dir
    }

    /// A process that goes on until it is stopped.
    fn start(host: &mut LocalHost, id: &str, dir: &Path, mark: &str) {
        let start = PlanAction::Start {
            cmd: plimsoll_core::plan::PlanCommand::new("sleep", ["600"]),
            mark: mark.into(),
            log: dir.join("log").display().to_string(),
            ready: plimsoll_core::plan::PlanReadinessCheck::Exists("/".into()),
        };
        host.carry_out(id, &start).unwrap();
        assert!(!host.marked(mark).is_empty());
    }

    #[test]
    fn a_helper_is_an_orphan_once_its_starter_is_dead() {
        let place = tempfile::tempdir().unwrap();
        let state = StateDir::new(place.path());
        let mut host = host().of_state(state.path()).allow("sleep");
        let awaited = crate::host::helper_mark();
        // No process has this number.
        let left = "plimsoll-helper-4194305-1".to_string();
        for mark in [&awaited, &left] {
            start(&mut host, "helpers", place.path(), mark);
        }
        let found = find(&state, &[]).unwrap();
        let names: Vec<&str> = found.iter().map(|orphan| orphan.name.as_str()).collect();
        assert_eq!(names, [left.as_str()]);
        assert!(remove(&found[0], &mut host).is_clean());
        assert!(host.marked(&left).is_empty() && !host.marked(&awaited).is_empty());
        processes::stop(&awaited, host.clock()).unwrap();
    }

    #[test]
    fn what_a_lost_journal_made_is_found_by_its_marks_and_taken_away() {
        let place = tempfile::tempdir().unwrap();
        let state = StateDir::new(place.path());
        let other = tempfile::tempdir().unwrap();
        let theirs = lost(&StateDir::new(other.path()), "orphan-other");
        let dir = lost(&state, "orphan-lost");
        let unmarked = state.stacks().join("theirs");
        fs::create_dir(&unmarked).unwrap();
        let found = find(&state, &[]).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        let steps = found[0].steps().join("\n");
        assert!(steps.contains("orphan-lost-daemon"), "{steps}");
        let mut hosts = crate::host::HostPool::new(host());
        let all = raze_all(&state, &mut hosts).unwrap();
        assert!(
            all.iter()
                .all(|one| one.result.as_ref().unwrap().is_clean()),
            "{all:?}"
        );
        assert!(!dir.exists() && unmarked.exists() && theirs.exists());
        assert!(host().marked("plimsoll-orphan-lost-daemon").is_empty());
        assert!(!host().marked("plimsoll-orphan-other-daemon").is_empty());
        raze_all(&StateDir::new(other.path()), &mut hosts).unwrap();
        assert!(!theirs.exists());
    }

    #[test]
    fn what_a_damaged_journal_made_is_taken_away_and_what_a_newer_one_made_is_not() {
        for (text, goes) in [
            ("{\"format\": \"1.0\", \"id\": damaged", true),
            ("{\"format\": \"999.0\"}\n", false),
        ] {
            let place = tempfile::tempdir().unwrap();
            let state = StateDir::new(place.path());
            let id = format!("orphan-damaged-{goes}");
            let dir = lost(&state, &id);
            fs::create_dir(state.journals()).unwrap();
            let journal = state.journals().join("stack-x.jsonl");
            fs::write(&journal, text).unwrap();
            let mut hosts = crate::host::HostPool::new(host());
            let all = raze_all(&state, &mut hosts).unwrap();
            assert!(all.iter().any(|one| one.result.is_err()), "it is told");
            assert_eq!(!dir.exists(), goes);
            // Nothing is lost by a look: it is there for who can read it.
            assert!(journal.exists());
            processes::stop(&format!("plimsoll-{id}-daemon"), host().clock()).unwrap();
        }
    }
}
