// SPDX-License-Identifier: Apache-2.0
//! The agent on a load host that a scheduler provides: it goes to the controller, serves it until the
//! connection ends, and leaves nothing.

use crate::context;
use crate::failure::{CliError, CliExitCode, failed};
use crate::raze::{nothing_left, raze_own_parts};
use crate::task::EnginePlayer;
use plimsoll_fleet::{FleetAgent, FleetDial, FleetTicket, dial};
use plimsoll_machine::agent_server::{AgentTaskRunner, serve_channel};
use plimsoll_machine::host::agent::AgentProgram;
use plimsoll_machine::host::{HostPool, SearchPath, carry, facts};
use plimsoll_machine::journal::StateDir;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The longest time between two requests of a controller: it may raise stacks meanwhile, or wait for hosts
/// that are queued. One that is gone is noticed by its connection, much earlier.
const IDLE_LIMIT: Duration = Duration::from_secs(4 * 3600);

/// A directory of ours alone, which goes with us.
struct OwnDirectory(PathBuf);

impl OwnDirectory {
    fn make() -> Result<OwnDirectory, CliError> {
        let base = std::env::temp_dir();
        let base = base.canonicalize().unwrap_or(base);
        let name =
            plimsoll_fleet::private_name("plimsoll-fleet").map_err(failed(CliExitCode::Failed))?;
        let path = base.join(name);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|error| {
            let what = format!("make {}: {error}", path.display());
            CliError::new(CliExitCode::Failed, what)
                .hint("set TMPDIR to a directory that can be written")
        })?;
        Ok(OwnDirectory(path))
    }
}

impl Drop for OwnDirectory {
    fn drop(&mut self) {
        // Each only if it is empty: what could not be undone stays, with its journal.
        let _ = std::fs::remove_dir(StateDir::new(&self.0).journals());
        let _ = std::fs::remove_dir(&self.0);
    }
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
    let dir = own.0.to_string_lossy().into_owned();
    let who = FleetAgent {
        build: &program.build,
        host: &host,
        dir: &dir,
    };
    let joined = dial(&ticket, &who, &stop);
    let joined = joined.map_err(failed(CliExitCode::Failed))?;
    serve_joined(joined, &own.0, &program.build, &stop)
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
    // Nobody else will be here to do it.
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
        Ok(false) => Err(CliError::new(
            CliExitCode::Failed,
            "the carrier's command failed",
        )),
        Err(error) => Err(failed(CliExitCode::Failed)(error)),
    }
}
