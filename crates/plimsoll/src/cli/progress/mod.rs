// SPDX-License-Identifier: Apache-2.0
//! How a run is shown while it goes on, beside its results: a screen on a terminal, lines elsewhere, or JSON.
//!
//! The screen is drawn below earlier output and is erased when the run is over, so that the report takes its
//! place. It changes no state of the terminal: no mode, no alternate screen, no cursor.

mod events;
mod lines;
mod rows;
mod screen;
mod state;
#[cfg(test)]
mod tests;

use lines::ProgressLines;
use plimsoll_console::terminal;
use plimsoll_core::event::{RunEvent, RunListener, RunManifest};
use plimsoll_core::text::printable_json;
use state::{RunProgressState, now};
use std::time::{Duration, Instant};

/// How a run is shown while it goes on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ProgressMode {
    /// Screen on a terminal, lines elsewhere; notes only if results are printed as JSON.
    #[default]
    Auto,
    /// One screen, redrawn in place.
    Screen,
    /// One line per trial, and one every ten seconds.
    Lines,
    /// One line of JSON per event (docs/progress.md).
    Json,
    /// Notes only: facts that matter to readers of the results.
    Off,
}

impl ProgressMode {
    /// Mode in effect, given the terminal and whether results are JSON.
    pub(super) fn resolved(self, prints_json: bool) -> ProgressMode {
        match self {
            ProgressMode::Auto if prints_json => ProgressMode::Off,
            ProgressMode::Auto if terminal::can_redraw() => ProgressMode::Screen,
            ProgressMode::Auto => ProgressMode::Lines,
            // There is nothing that could be drawn over.
            ProgressMode::Screen if !terminal::can_redraw() => ProgressMode::Lines,
            given => given,
        }
    }
}

/// Shortest time between two drawings, except when a trial begins or ends.
const REDRAW: Duration = Duration::from_millis(200);

/// Listens to a run and shows it on the standard error stream.
#[derive(Debug)]
pub(crate) struct RunProgress {
    mode: ProgressMode,
    state: RunProgressState,
    lines: ProgressLines,
    began: Instant,
    drawn: Option<Instant>,
    has_key: bool,
}

impl RunProgress {
    /// Shows the trials of a manifest, of which `done` are already measured.
    pub(super) fn new(
        manifest: &RunManifest,
        done: u64,
        mode: ProgressMode,
        has_key: bool,
    ) -> Self {
        let state = RunProgressState::new(manifest, done, mode == ProgressMode::Screen);
        if mode == ProgressMode::Json {
            say_json(&events::began(manifest, &state));
        }
        RunProgress {
            mode,
            state,
            lines: ProgressLines::new(),
            began: now(),
            drawn: None,
            has_key,
        }
    }

    fn draw(&mut self, event: &RunEvent) {
        let is_second = matches!(event, RunEvent::Interval { .. });
        let is_recent = self.drawn.is_some_and(|at| at.elapsed() < REDRAW);
        if is_second && is_recent {
            return;
        }
        self.drawn = Some(now());
        let size = terminal::size();
        let drawn = screen::drawn(&self.state, self.began.elapsed(), size, self.has_key);
        terminal::draw(rows::rows(&drawn, terminal::may_style()));
    }
}

impl RunListener for RunProgress {
    fn event(&mut self, event: &RunEvent) {
        self.state.event(event);
        match self.mode {
            ProgressMode::Screen if matches!(event, RunEvent::Finished { .. }) => terminal::erase(),
            ProgressMode::Screen => {
                // Events that a reader should know stay above the screen after it is erased.
                if is_lasting(event) {
                    self.lines.event(event, &self.state);
                }
                self.draw(event);
            }
            ProgressMode::Lines => self.lines.event(event, &self.state),
            ProgressMode::Json => {
                if let Some(line) = events::line(event, &self.state) {
                    say_json(&line);
                }
            }
            ProgressMode::Auto | ProgressMode::Off => {
                // Readers of the results need the notes, also if there is no progress display.
                if is_lasting(event) {
                    self.lines.event(event, &self.state);
                }
            }
        }
    }
}

impl Drop for RunProgress {
    fn drop(&mut self) {
        // Also when the run was given up.
        if self.mode == ProgressMode::Screen {
            terminal::erase();
        }
    }
}

/// Events that matter to readers of the results.
fn is_lasting(event: &RunEvent) -> bool {
    matches!(
        event,
        RunEvent::Warning(_)
            | RunEvent::Conditioned(_)
            | RunEvent::Designed(_)
            | RunEvent::BlocksEnded(_)
    )
}

fn say_json(value: &serde_json::Value) {
    terminal::say(&printable_json(&value.to_string()));
}
