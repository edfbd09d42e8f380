// SPDX-License-Identifier: Apache-2.0
//! Times at which the queue was full, or the workload allowed no request before one in flight had ended, as
//! behind a sync. A request that waited then waited for the target; one that waited while there was room
//! waited for the generator.

use std::collections::VecDeque;

use plimsoll_core::units::Nanos;

/// Two times at which the queue was full count as one when less lies between them: an end makes
/// room, and the next request takes it as soon as it is put together.
const GAP_MAX: Nanos = Nanos(100_000);

/// Most times remembered; with one more the two oldest become one.
const TIMES_MAX: usize = 256;

/// When the queue of one driver was full.
#[derive(Debug, Default)]
pub(crate) struct QueueOccupancy {
    /// Since when it is full, if it is.
    full_since: Option<Nanos>,
    /// When that ends at the latest, where it is the workload that holds requests back.
    held_until: Option<Nanos>,
    /// When it was before, from and to, oldest first.
    full: VecDeque<(Nanos, Nanos)>,
}

impl QueueOccupancy {
    /// No slot is free from `at` on.
    #[inline]
    pub(crate) fn fills(&mut self, at: Nanos) {
        if self.full_since.is_none() {
            self.full_since = Some(match self.full.back() {
                Some((from, to)) if at.since(*to) <= GAP_MAX => {
                    let from = *from;
                    self.full.pop_back();
                    from
                }
                _ => at,
            });
        }
    }

    /// From `at` on no request may be submitted before one in flight has ended, or before `until`, when the
    /// next of another kind is due.
    #[inline]
    pub(crate) fn holds(&mut self, at: Nanos, until: Nanos) {
        self.fills(at);
        self.held_until = Some(until);
    }

    /// The workload is asked again at `at`.
    #[inline]
    pub(crate) fn goes_on(&mut self, at: Nanos) {
        if self.held_until.is_some() {
            self.has_room(at);
        }
    }

    /// A slot is free from `at` on.
    #[inline]
    pub(crate) fn has_room(&mut self, at: Nanos) {
        // A worker that woke late was late by itself.
        let at = self.held_until.take().map_or(at, |until| at.min(until));
        let Some(from) = self.full_since.take() else {
            return;
        };
        self.full.push_back((from, at));
        if self.full.len() > TIMES_MAX
            && let (Some((from, _)), Some(second)) = (self.full.pop_front(), self.full.front_mut())
        {
            second.0 = from;
        }
    }

    /// For how long it was full from `intended`, when a request was due, to `at`. Nothing is forgotten by it:
    /// a sync is due when its write ends, and the next write may have been due long before.
    #[inline]
    pub(crate) fn full_between(&self, intended: Nanos, at: Nanos) -> Nanos {
        let until = self.held_until.map_or(at, |until| at.min(until));
        let now = self.full_since.map(|from| (from, until));
        let before = self.full.iter().rev().copied();
        let late = now.into_iter().chain(before);
        let late = late.take_while(|(_, to)| *to > intended);
        late.fold(Nanos(0), |sum, (from, to)| {
            sum + to.min(at).since(from.max(intended))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Nanos {
        Nanos(ms * MS)
    }

    #[test]
    fn only_the_time_without_room_counts() {
        let mut queue = QueueOccupancy::default();
        assert_eq!(queue.full_between(at(0), at(5)), at(0));
        queue.fills(at(10));
        queue.has_room(at(20));
        queue.fills(at(30));
        // 5 ms of the first time and 4 of the one that goes on.
        assert_eq!(queue.full_between(at(15), at(34)), at(9));
        queue.has_room(at(40));
        assert_eq!(queue.full_between(at(35), at(50)), at(5));
        assert_eq!(queue.full_between(at(45), at(50)), at(0));
    }

    #[test]
    fn a_request_behind_a_sync_waited_for_the_target_and_a_late_worker_was_late() {
        let mut queue = QueueOccupancy::default();
        queue.holds(at(10), at(20));
        assert_eq!(queue.full_between(at(12), at(25)), at(8));
        // It was to wake at 20, and woke at 30.
        queue.goes_on(at(30));
        assert_eq!(queue.full_between(at(12), at(30)), at(8));
        queue.holds(at(30), at(60));
        queue.has_room(at(40));
        queue.goes_on(at(41));
        assert_eq!(queue.full_between(at(25), at(50)), at(10));
    }

    #[test]
    fn a_sync_that_is_due_now_does_not_hide_what_a_late_write_waited_for() {
        let mut queue = QueueOccupancy::default();
        for n in 0..10 {
            queue.fills(at(10 * n));
            queue.has_room(at(10 * n + 10));
            assert_eq!(queue.full_between(at(10 * n + 10), at(10 * n + 10)), at(0));
        }
        assert_eq!(queue.full_between(at(20), at(100)), at(80));
    }

    #[test]
    fn a_queue_that_is_full_again_at_once_was_full_all_the_time() {
        let mut queue = QueueOccupancy::default();
        for n in 0..1_000 {
            queue.fills(Nanos(n * MS));
            queue.has_room(Nanos((n + 1) * MS - 50_000));
        }
        assert_eq!(queue.full.len(), 1);
        assert_eq!(queue.full_between(at(0), at(1_000)).0, 1_000 * MS - 50_000);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut queue = QueueOccupancy::default();
        for n in 0..1_000 {
            queue.fills(at(2 * n));
            queue.has_room(at(2 * n + 1));
        }
        assert!(queue.full.len() <= TIMES_MAX);
    }
}
