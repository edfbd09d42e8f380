// SPDX-License-Identifier: Apache-2.0
//! Where the program works: this machine and its nodes, where journals are kept, and the wish to stop.

use crate::failure::{CliError, CliExitCode};
use plimsoll_core::units;
use plimsoll_machine::host::{HostPool, LocalHost, SearchPath};
use plimsoll_machine::journal::StateDir;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

/// Prints what the user should know at once; only the program itself prints.
static NOTICES: OnceLock<fn(&str)> = OnceLock::new();

/// Has notices printed by `say`. Without it they are dropped.
pub fn print_notices_with(say: fn(&str)) {
    // The first one stays: there is one terminal.
    let _ = NOTICES.set(say);
}

/// A variable of the environment; an empty one counts as none.
pub fn variable(name: &str) -> Option<PathBuf> {
    let text = std::env::var_os(name).filter(|text| !text.is_empty());
    text.map(PathBuf::from)
}

/// Where journals and stacks are kept.
pub fn state_dir() -> Result<StateDir, CliError> {
    // A relative directory counts as none, by the specification of XDG.
    let of_xdg = variable("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let path = if let Some(path) = variable("PLIMSOLL_STATE") {
        path
    } else if rustix::process::geteuid().is_root() {
        PathBuf::from("/var/lib/plimsoll")
    } else if let Some(path) = of_xdg {
        path.join("plimsoll")
    } else if let Some(home) = variable("HOME") {
        home.join(".local/state/plimsoll")
    } else {
        return Err(CliError::usage(
            "find a place for the journal: neither HOME nor PLIMSOLL_STATE is set",
        )
        .hint("set PLIMSOLL_STATE to a directory on a disk that is not under test"));
    };
    Ok(StateDir::new(path))
}

/// This machine, with the user's search path.
pub fn host() -> LocalHost {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let host = LocalHost::new(SearchPath::new(&path));
    match state_dir() {
        Ok(state) => host.of_state(state.path()),
        Err(_) => host,
    }
}

/// This machine and the nodes that are reached from it.
pub fn nodes() -> HostPool {
    HostPool::new(host()).telling(|node, copy| {
        let size = units::size(copy.bytes as f64);
        let seconds = copy.took.as_secs_f64();
        if let Some(say) = NOTICES.get() {
            say(&format!(
                "node {node}: copied the agent ({size}) in {seconds:.1} s"
            ));
        }
    })
}

/// A flag that SIGQUIT sets, for who has something to restore before [`die_of_quit`].
pub fn quit_flag() -> Result<Arc<AtomicBool>, CliError> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGQUIT, Arc::clone(&flag)).map_err(
        |error| CliError::new(CliExitCode::Failed, format!("watch for SIGQUIT: {error}")),
    )?;
    Ok(flag)
}

/// Ends the program as the default handler of SIGQUIT does.
pub fn die_of_quit() {
    let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGQUIT);
}

/// A flag that Ctrl-C, SIGTERM and SIGHUP set; everything that waits looks at it.
pub fn stop_flag() -> Result<Arc<AtomicBool>, CliError> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(|error| {
            CliError::new(CliExitCode::Failed, format!("watch for Ctrl-C: {error}"))
        })?;
    }
    Ok(flag)
}
