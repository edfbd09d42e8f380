// SPDX-License-Identifier: Apache-2.0
//! The server behind the live page. It reads run folders, and for all that changes something it starts the
//! measuring program, as a person would type it: `docs/design/0013-pages.md` has its interface.
//!
//! The wall around axum and tokio: nothing of them is seen from outside of this crate.
#![forbid(unsafe_code)]

mod accept;
mod answers;
mod board;
mod caller;
mod catalogue;
mod columns;
mod drawing;
mod error;
mod forms;
mod guard;
mod jobs;
mod metrics;
mod push;
mod routes;
mod runs;
mod secret;
mod seen;
mod session;
mod share;
mod state;
mod sync;
mod team;
mod timed_stream;

pub use drawing::{DRAW_COMMAND, draw_for_server};
pub use error::ServeError;
pub use push::listing::PushLimits;
pub use state::ServeOptions;

use state::ServerState;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often it is looked whether Ctrl-C was pressed.
const POLL: Duration = Duration::from_millis(100);
/// Most runs that are named at the start.
const SAID_MAX: usize = 20;
/// How long jobs that were asked to stop are waited for.
const JOBS_END: Duration = Duration::from_secs(60);

/// How the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeEnd {
    /// Nothing that it started is still running.
    Quiet,
    /// Jobs that were asked to stop had not ended when it went.
    JobsLeft,
}

/// Serves until `options.stop` is set.
///
/// # Errors
/// When it cannot start.
pub fn serve(options: ServeOptions) -> Result<ServeEnd, ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(16)
        .build()
        .map_err(ServeError::System)?;
    let end = runtime.block_on(async {
        let state = Arc::new(ServerState::of(options).await?);
        catch_up(&state).await?;
        let listener = accept::listen(&state).await?;
        let app = routes::router(&state);
        tokio::spawn(accept::accept(listener, app));
        while !state.options.stop.load(Ordering::Relaxed) {
            tokio::time::sleep(POLL).await;
        }
        Ok(stop_jobs(&state).await)
    });
    // Connections and looks into folders end with it.
    runtime.shutdown_background();
    end
}

/// Compares the store with the database before anybody is answered: adds folders without a row, and names
/// rows without a folder, which only who has the run can bring back.
async fn catch_up(state: &ServerState) -> Result<(), ServeError> {
    let Ok(team) = state.team() else {
        return Ok(());
    };
    let (added, left) = team.catch_up().await?;
    let say = state.options.say;
    if added > 0 {
        say(&format!(
            "added to the database from the store: {added} runs"
        ));
    }
    for text in left {
        say(&format!("not added to the database: {text}"));
    }
    let lost = team.lost().await?;
    for run in lost.iter().take(SAID_MAX) {
        say(&format!(
            "in the database, and its folder is not in the store: {} of {}; push it again",
            run.folder, run.owner
        ));
    }
    if lost.len() > SAID_MAX {
        say(&format!("and {} more such runs", lost.len() - SAID_MAX));
    }
    Ok(())
}

/// Asks all jobs to stop, as Ctrl-C does, and waits for them a while.
async fn stop_jobs(state: &ServerState) -> ServeEnd {
    let running = || -> Vec<_> {
        let all = state.jobs.all().into_iter();
        all.filter(|job| job.is_running()).collect()
    };
    let say = state.options.say;
    for job in running() {
        say(&format!(
            "stopping: {}",
            state.jobs.facts(&job).command_line()
        ));
        job.stop();
    }
    let began = tokio::time::Instant::now();
    while began.elapsed() < JOBS_END {
        if running().is_empty() {
            return ServeEnd::Quiet;
        }
        tokio::time::sleep(POLL).await;
    }
    for job in running() {
        say(&format!(
            "still running: {}",
            state.jobs.facts(&job).command_line()
        ));
    }
    ServeEnd::JobsLeft
}
