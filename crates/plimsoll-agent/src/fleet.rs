// SPDX-License-Identifier: Apache-2.0
//! The agent on a load host that a scheduler provides: it goes to the controller, serves it until the
//! connection ends, and leaves nothing.

use crate::raze::{nothing_left, raze_own_parts};
use crate::task::EnginePlayer;
use plimsoll_console::context;
use plimsoll_console::failure::{CliError, CliExitCode, failed};
use plimsoll_fleet::{FleetAgent, FleetDial, FleetTicket, dial};
use plimsoll_machine::agent_server::{AgentTaskRunner, serve_channel};
use plimsoll_machine::host::agent::AgentProgram;
use plimsoll_machine::host::{HostPool, SearchPath, carry, facts};
use plimsoll_machine::journal::StateDir;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The longest time between two requests of a controller: it may raise stacks meanwhile, or wait for hosts
/// that are queued. One that is gone is noticed by its connection, much earlier.
const IDLE_LIMIT: Duration = Duration::from_secs(4 * 3600);

/// Prefix of the directories of agents.
const NAME: &str = "plimsoll-fleet";

/// How often a directory is made anew, which another agent took for one that was left.
const TRIES: usize = 10;

/// A directory of ours alone, which goes with us. It is locked as long as we live: who finds one that is not
/// knows that its agent was killed.
struct OwnDirectory {
    path: PathBuf,
    _lock: OwnedFd,
}

impl OwnDirectory {
    fn make() -> Result<OwnDirectory, CliError> {
        let base = std::env::temp_dir();
        let base = base.canonicalize().unwrap_or(base);
        sweep(&base);
        for _ in 0..TRIES {
            let name = plimsoll_fleet::private_name(NAME).map_err(failed(CliExitCode::Failed))?;
            let path = base.join(name);
            let made = DirBuilder::new().mode(0o700).create(&path);
            made.map_err(|error| {
                let what = format!("make {}: {error}", path.display());
                CliError::new(CliExitCode::Failed, what)
                    .hint("set TMPDIR to a directory that can be written")
            })?;
            if let Some(lock) = locked(&path).filter(|_| path.exists()) {
                return Ok(OwnDirectory { path, _lock: lock });
            }
        }
        let what = format!("keep a directory in {}", base.display());
        Err(CliError::new(CliExitCode::Failed, what))
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        remove_if_empty(&self.path);
    }
}

/// The locked directory, if it belongs to this user and no living agent holds its lock.
fn locked(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let mine = rustix::fs::fstat(&dir).ok()?.st_uid == rustix::process::geteuid().as_raw();
    let is_free = mine && flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok();
    is_free.then_some(dir)
}

/// Removes what agents of ours left that were killed, and what their journals list.
fn sweep(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_ours = name.to_str().is_some_and(|name| name.starts_with(NAME));
        let dir = entry.path();
        if is_ours && let Some(_lock) = locked(&dir) {
            // A step that cannot be undone stays in its journal.
            let _ = raze_own_parts(&StateDir::new(&dir), &mut context::nodes());
            remove_if_empty(&dir);
        }
    }
}

/// Each only if it is empty: what could not be undone stays, with its journal.
fn remove_if_empty(dir: &Path) {
    let _ = std::fs::remove_dir(StateDir::new(dir).journals());
    let _ = std::fs::remove_dir(dir);
}

/// Goes to the controller of a ticket and serves it.
///
/// # Errors
/// When there is no ticket, no controller, or something of ours is left here in the end.
pub fn dial_out(ticket: Option<&Path>) -> Result<(), CliError> {
    let ticket = FleetTicket::find(ticket).map_err(failed(CliExitCode::Usage))?;
    let program = AgentProgram::this().map_err(failed(CliExitCode::Failed))?;
    let stop = context::stop_flag()?;
    let own = OwnDirectory::make()?;
    let host = facts::machine().host;
    let dir = own.path.to_string_lossy().into_owned();
    let who = FleetAgent {
        build: &program.build,
        host: &host,
        dir: &dir,
    };
    let joined = dial(&ticket, &who, &stop);
    let joined = joined.map_err(failed(CliExitCode::Failed))?;
    serve_joined(joined, &own.path, &program.build, &stop)
}

fn serve_joined(
    mut joined: FleetDial,
    dir: &Path,
    build: &str,
    stop: &AtomicBool,
) -> Result<(), CliError> {
    let state = StateDir::new(dir);
    let player: Arc<dyn AgentTaskRunner> = Arc::new(EnginePlayer {
        state: Some(state.clone()),
    });
    let mut host = context::host().of_state(dir);
    let with = (&player, &state, build);
    let served = serve_channel(&mut joined.channel, &mut host, with, IDLE_LIMIT, stop);
    // The controller cannot clean up here once the connection is gone.
    let mut hosts = HostPool::new(host);
    let razed = raze_own_parts(&state, &mut hosts)?;
    nothing_left(&razed.left)?;
    served.map_err(|error| {
        let what = format!("serve as load host {}: {error}", joined.node);
        CliError::new(CliExitCode::Failed, what)
    })
}

/// Keeps a carrier's command, as the controller asks on standard input.
///
/// # Errors
/// When it cannot be started, or did not do well.
pub fn keep_carrier() -> Result<(), CliError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match carry::keep(&SearchPath::new(&path)) {
        Ok(true) => Ok(()),
        Ok(false) => Err(CliError::sentence(
            CliExitCode::Failed,
            "the carrier's command failed",
        )),
        Err(error) => Err(failed(CliExitCode::Failed)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::format::FormatVersion;
    use plimsoll_core::plan::{HERE, PlanAction, PlanStep};
    use plimsoll_machine::host::{Host as _, HostProcessId};
    use plimsoll_machine::journal::{Journal, JournalHeader, JournalScope};

    #[test]
    fn what_a_killed_agent_left_is_removed_unless_something_is_in_it() {
        let base = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = base.path().join(name);
            DirBuilder::new().create(&path).unwrap();
            path
        };
        let [left, used, alive] = ["1", "2", "3"].map(|n| make(&format!("{NAME}-{n}")));
        let foreign = make("other");
        for dir in [&left, &used] {
            DirBuilder::new()
                .recursive(true)
                .create(StateDir::new(dir).journals())
                .unwrap();
        }
        std::fs::write(StateDir::new(&used).journals().join("j"), "").unwrap();
        let lock = locked(&alive).unwrap();
        sweep(base.path());
        assert!(!left.exists());
        assert!(used.exists() && alive.exists() && foreign.exists());
        drop(lock);
        sweep(base.path());
        assert!(!alive.exists());
    }

    #[test]
    fn what_the_journal_of_a_killed_agent_lists_goes_with_its_directory() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join(format!("{NAME}-killed"));
        DirBuilder::new().mode(0o700).create(&dir).unwrap();
        let made = base.path().join("made");
        let path = made.display().to_string();
        let make = PlanAction::MakeDir(path.clone());
        context::host().carry_out("killed", &make).unwrap();
        let header = JournalHeader {
            format: FormatVersion::JOURNAL,
            id: "killed".into(),
            kind: JournalScope::Run("run".into()),
            owner: HostProcessId::this(),
            began_at: String::new(),
            mount_dir: None,
            ask: None,
            nodes: Vec::new(),
        };
        let mut journal = Journal::create(&StateDir::new(&dir), header).unwrap();
        let step = PlanStep::on(
            HERE,
            "make a directory",
            make,
            Some(PlanAction::RemoveDir(path)),
        );
        journal.intend(&step).unwrap();
        drop(journal);
        sweep(base.path());
        assert!(!made.exists() && !dir.exists());
    }
}
