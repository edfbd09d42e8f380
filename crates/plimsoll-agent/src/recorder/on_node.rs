// SPDX-License-Identifier: Apache-2.0
//! A recording that another machine asked for: what there is goes over the connection to it.

use super::{CaptureSink, record};
use plimsoll_console::failure::CliError;
use plimsoll_core::load::AgentEvent;
use plimsoll_core::recording::{CaptureBatch, CaptureHeader, CaptureStats, CaptureTask};
use plimsoll_core::units::Nanos;
use plimsoll_engine::sys::clock::monotonic;
use plimsoll_machine::agent_server::AgentTaskContext;
use plimsoll_machine::host::{HostTimeSource, SystemClock};
use plimsoll_machine::journal::StateDir;
use std::time::Duration;

/// Messages that may wait to be sent. One of requests is at most what the kernel's buffers held, or
/// [`ROWS_MAX`].
const WAITING_MAX: usize = 64;

/// Requests in a message: some three megabytes, far below what a message may have.
const ROWS_MAX: usize = 1 << 16;

/// Records for the machine that asked, until its time is over or it is halted.
pub fn record_for(
    task: &CaptureTask,
    state: impl FnOnce() -> Result<StateDir, CliError>,
    turn: &AgentTaskContext,
    start_max: Nanos,
) -> Result<AgentEvent, CliError> {
    let mut teller = Teller { turn, start_max };
    let clock = SystemClock::new();
    let tally = record(task, state, (&clock, turn.stop()), &mut teller)?;
    Ok(AgentEvent::Ended(Box::new(tally)))
}

struct Teller<'a> {
    turn: &'a AgentTaskContext,
    /// The furthest start that is waited for.
    start_max: Nanos,
}

impl CaptureSink for Teller<'_> {
    fn ready(&mut self, clock: &dyn HostTimeSource) -> Option<Duration> {
        self.turn.tell(AgentEvent::Prepared { took: Nanos(0) });
        let start_at = self.turn.start_at()?;
        let ahead = start_at.since(monotonic()).min(self.start_max);
        Some(clock.now() + Duration::from_nanos(ahead.0))
    }

    fn begin(&mut self, head: CaptureHeader) -> Result<(), CliError> {
        self.turn.tell(AgentEvent::Recording(Box::new(head)));
        Ok(())
    }

    fn take(&mut self, recorded: CaptureBatch, tally: &CaptureStats) -> Result<(), CliError> {
        let tell = |recorded| {
            let tally = Box::new(tally.clone());
            self.turn
                .tell(AgentEvent::Recorded(Box::new(recorded), tally));
        };
        match recorded {
            CaptureBatch::Requests(requests) => requests
                .chunks(ROWS_MAX)
                .for_each(|rows| tell(CaptureBatch::Requests(rows.to_vec()))),
            counters @ CaptureBatch::Counters(..) => tell(counters),
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.turn.waiting() < WAITING_MAX
    }
}
