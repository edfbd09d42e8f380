// SPDX-License-Identifier: Apache-2.0
//! Recordings on nodes: begun at one instant, told while they go on. What is told is kept by the
//! caller; a node that is lost does not end what the others record.

use super::hand::{Hand, State};
use super::{LEAD, Loaders, attend, measure_clocks};
use crate::failure::{Code, Failure};
use plimsoll_core::load::{Task, Told};
use plimsoll_core::recording::{RecordTask, Tally};
use plimsoll_engine::sys::clock::monotonic;
use std::sync::atomic::{AtomicBool, Ordering};

/// Most that is taken of one node before the next one is listened to.
const HEARD_MAX: usize = 64;

/// What a node's recording came to, or why it did not end well.
pub(crate) type Ended = Result<Tally, Failure>;

impl Loaders {
    /// Lets all of them record until their time is over, or `stop` is set. `hear` is told which
    /// node told what; its failure ends all recordings.
    pub(crate) fn record(
        &self,
        task: &RecordTask,
        stop: &AtomicBool,
        hear: &mut dyn FnMut(usize, Told) -> Result<(), Failure>,
    ) -> Result<Vec<Ended>, Failure> {
        let mut hosts = self.hosts.borrow_mut();
        let mut hands = self.begin(&mut hosts, |_, _| Task::Record(task.clone()))?;
        let prepared = attend(&mut hands, stop, |state| matches!(state, State::Working));
        // Until then, only what was asked for can be wrong.
        prepared.map_err(|failure| Failure {
            code: match failure.code {
                Code::Failed => Code::Usage,
                other => other,
            },
            ..failure
        })?;
        measure_clocks(&mut hands)?;
        let start_at = monotonic() + LEAD;
        for hand in &mut hands {
            hand.start(start_at);
        }
        let heard = hear_all(&mut hands, stop, hear);
        heard?;
        Ok(hands.into_iter().map(ended).collect())
    }
}

/// Hears all of them to their ends.
fn hear_all(
    hands: &mut [Hand<'_>],
    stop: &AtomicBool,
    hear: &mut dyn FnMut(usize, Told) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut result = Ok(());
    let mut is_stopped = false;
    while hands.iter().any(Hand::is_playing) {
        if (stop.load(Ordering::Relaxed) || result.is_err()) && !is_stopped {
            is_stopped = true;
            hands.iter_mut().for_each(Hand::halt);
        }
        for (n, hand) in hands.iter_mut().enumerate() {
            for _ in 0..HEARD_MAX {
                let Some(told) = hand.is_playing().then(|| hand.listen()).flatten() else {
                    break;
                };
                result = result.and_then(|()| hear(n, told));
            }
        }
    }
    result
}

fn ended(hand: Hand<'_>) -> Ended {
    if let Some(failure) = hand.failure() {
        return Err(failure);
    }
    match hand.state {
        State::Told(Told::Ended(tally)) => Ok(*tally),
        other => Err(Failure::new(
            Code::Failed,
            format!("understand a node: its recording ended with {other:?}"),
        )),
    }
}
