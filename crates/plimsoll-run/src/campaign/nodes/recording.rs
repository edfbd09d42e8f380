// SPDX-License-Identifier: Apache-2.0
//! Recordings on nodes: begun at one instant, reported while they go on. The reports are kept by the
//! caller; a node that is lost does not end what the others record.

use super::session::{NodeSession, NodeSessionState, await_any};
use super::{ClientLoadGenerators, attend, lead, measure_clocks};
use plimsoll_console::failure::{CliError, CliExitCode};
use plimsoll_core::load::{AgentEvent, AgentTask};
use plimsoll_core::recording::{CaptureStats, CaptureTask};
use plimsoll_engine::sys::clock::monotonic;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most that is taken of one node before the next one is listened to.
const HEARD_MAX: usize = 64;

/// Result of a node's recording, or why it did not end well.
pub(super) type NodeCaptureResult = Result<CaptureStats, CliError>;

impl ClientLoadGenerators {
    /// Lets all nodes record until their time is over, or `stop` is set. `hear` gets the number of a node
    /// and its event; its failure ends all recordings.
    pub fn record(
        &self,
        task: &CaptureTask,
        stop: &AtomicBool,
        hear: &mut dyn FnMut(usize, AgentEvent) -> Result<(), CliError>,
    ) -> Result<Vec<NodeCaptureResult>, CliError> {
        let mut hosts = self.hosts();
        let mut sessions = self.begin(&mut hosts, |_| AgentTask::Record(task.clone()))?;
        let prepared = attend((&mut sessions, 0), stop, |state| {
            matches!(state, NodeSessionState::Working)
        });
        // Until then, only what was asked for can be wrong.
        prepared.map_err(|failure| CliError {
            code: match failure.code {
                CliExitCode::Failed => CliExitCode::Usage,
                other => other,
            },
            ..failure
        })?;
        measure_clocks(&mut sessions, 0)?;
        let start_at = monotonic() + lead(sessions.len());
        for session in &mut sessions {
            session.start(start_at);
        }
        let heard = hear_all(&mut sessions, stop, hear);
        heard?;
        Ok(sessions.into_iter().map(ended).collect())
    }
}

/// Hears all of them to their ends.
fn hear_all(
    sessions: &mut [NodeSession<'_>],
    stop: &AtomicBool,
    hear: &mut dyn FnMut(usize, AgentEvent) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut result = Ok(());
    let mut is_stopped = false;
    while sessions.iter().any(NodeSession::is_playing) {
        if (stop.load(Ordering::Relaxed) || result.is_err()) && !is_stopped {
            is_stopped = true;
            sessions.iter_mut().for_each(NodeSession::halt);
        }
        let ready = await_any(sessions, NodeSession::is_playing);
        let heard = sessions.iter_mut().enumerate().filter(|(n, _)| ready[*n]);
        for (n, session) in heard {
            for _ in 0..HEARD_MAX {
                let Some(told) = session.is_playing().then(|| session.listen()).flatten() else {
                    break;
                };
                result = result.and_then(|()| hear(n, told));
            }
        }
    }
    result
}

fn ended(session: NodeSession<'_>) -> NodeCaptureResult {
    if let Some(failure) = session.failure() {
        return Err(failure);
    }
    match session.state {
        NodeSessionState::Told(AgentEvent::Ended(tally)) => Ok(*tally),
        other => Err(CliError::sentence(
            CliExitCode::Failed,
            format!("protocol error: a node ended its recording with {other:?}"),
        )),
    }
}
