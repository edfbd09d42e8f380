// SPDX-License-Identifier: Apache-2.0
//! Requests in the order of their starts, whatever the order of the recording.
//!
//! A recording that says it is in that order is only watched, and costs a comparison each; of
//! another, 65,536 requests are held back and the earliest goes first. What is out of order by
//! more than that is given the start of the one before it, and counted.

use plimsoll_core::units::Nanos;

use super::TraceRequest;
use crate::error::TraceError;
use crate::nearly::sort_nearly;
use crate::recording::{RecordingInfo, TraceOrder, TraceReadState, TraceSource};

/// Requests that are held back: more than any device has in flight.
const HELD_MAX: usize = 1 << 16;
/// Requests of one call from those that are held.
const BATCH: usize = 4096;

/// A recording in the order of its requests' starts.
pub struct TraceSorter<R> {
    inner: R,
    about: RecordingInfo,
    /// Requests that were read: `held[given..]` are held, in the order of their starts.
    held: Vec<TraceRequest>,
    given: usize,
    has_more: bool,
    is_ordered: bool,
    last: Nanos,
    late: u64,
    warnings: Vec<String>,
}

impl<R: TraceSource> TraceSorter<R> {
    /// Puts a recording in order.
    pub fn new(inner: R) -> TraceSorter<R> {
        let mut about = inner.about().clone();
        let is_ordered = about.carries.order == TraceOrder::Started;
        about.carries.order = TraceOrder::Started;
        TraceSorter {
            inner,
            about,
            held: Vec::new(),
            given: 0,
            has_more: true,
            is_ordered,
            last: Nanos(0),
            late: 0,
            warnings: Vec::new(),
        }
    }

    /// Requests that were still out of order, so far.
    pub fn late(&self) -> u64 {
        self.late
    }

    fn settle(&mut self, fresh: &mut [TraceRequest]) {
        for request in fresh {
            if request.at < self.last {
                self.late += 1;
                request.at = self.last;
            }
            self.last = request.at;
        }
    }

    fn read_held(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        while self.has_more && self.held.len() - self.given < HELD_MAX {
            self.hold_more()?;
        }
        let to = self.held.len().min(self.given + BATCH);
        into.extend_from_slice(&self.held[self.given..to]);
        self.given = to;
        Ok(self.has_more || to < self.held.len())
    }

    /// Reads on, and puts what it gets in its place among what is held.
    fn hold_more(&mut self) -> Result<(), TraceError> {
        if self.given >= HELD_MAX {
            self.held.drain(..self.given);
            self.given = 0;
        }
        let known = self.held.len();
        self.has_more = self.inner.read(&mut self.held)?;
        let Some(earliest) = self.held[known..].iter().map(|request| request.at).min() else {
            return Ok(());
        };
        // Most recordings are nearly in order, so this is a short part of what is held.
        let held = &self.held[self.given..known];
        let place = self.given + held.partition_point(|request| request.at <= earliest);
        sort_nearly(&mut self.held[place..], known - place, |request| {
            request.at.0
        });
        Ok(())
    }
}

impl<R: TraceSource> TraceSource for TraceSorter<R> {
    fn state(&self) -> &TraceReadState {
        self.inner.state()
    }

    fn about(&self) -> &RecordingInfo {
        &self.about
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        self.inner.origin_unix_ns()
    }

    fn taken_up_after(&self) -> Nanos {
        self.inner.taken_up_after()
    }

    fn read(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        let known = into.len();
        let more = if self.is_ordered {
            self.inner.read(into)?
        } else {
            self.read_held(into)?
        };
        self.settle(&mut into[known..]);
        if !more {
            self.warnings = self.inner.warnings().to_vec();
            if self.late > 0 {
                self.warnings.push(format!(
                    "{} requests were out of order and count as of the instant of the one before",
                    self.late
                ));
            }
        }
        Ok(more)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl<R> std::fmt::Debug for TraceSorter<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceSorter")
            .field("about", &self.about)
            .field("held", &(self.held.len() - self.given))
            .field("late", &self.late)
            .finish_non_exhaustive()
    }
}

impl TraceSource for Box<dyn TraceSource> {
    fn state(&self) -> &TraceReadState {
        (**self).state()
    }

    fn about(&self) -> &RecordingInfo {
        (**self).about()
    }

    fn warnings(&self) -> &[String] {
        (**self).warnings()
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        (**self).origin_unix_ns()
    }

    fn taken_up_after(&self) -> Nanos {
        (**self).taken_up_after()
    }

    fn read(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        (**self).read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use crate::input::RecordingInput;

    /// The starts in microseconds of an MSR trace with these times, sorted; and how many were late.
    fn starts(times_us: impl Iterator<Item = u64>) -> (Vec<u64>, u64, Vec<String>) {
        let row = |us: u64| format!("{},h,0,Read,0,512,1\n", 128_166_385_000_000_000 + us * 10);
        let text: String = times_us.map(row).collect();
        let input = RecordingInput::new("f".into(), Box::new(std::io::Cursor::new(text))).unwrap();
        let mut sorted = TraceSorter::new(read(input).unwrap());
        assert_eq!(sorted.about().carries.order, TraceOrder::Started);
        let mut found = Vec::new();
        while sorted.read(&mut found).unwrap() {}
        let starts = found.iter().map(|request| request.at.0 / 1_000);
        (starts.collect(), sorted.late(), sorted.warnings().to_vec())
    }

    #[test]
    fn neighbours_are_put_in_order() {
        let (found, late, warnings) = starts([5, 3, 4, 0, 9, 7].into_iter());
        assert_eq!(found, [0, 3, 4, 5, 7, 9]);
        assert_eq!((late, warnings.len()), (0, 0));
    }

    #[test]
    fn what_lies_within_what_is_held_is_put_in_order() {
        let part = HELD_MAX as u64 - 4096;
        let backwards = (0..5).flat_map(|chunk| (chunk * part + 1..=(chunk + 1) * part).rev());
        let (found, late, _) = starts([0].into_iter().chain(backwards));
        assert_eq!(late, 0);
        assert!(found.into_iter().eq(0..=5 * part));
    }

    #[test]
    fn what_is_too_late_is_counted_and_the_order_holds() {
        let count = 3 * HELD_MAX as u64;
        let (found, late, warnings) = starts((1_000..1_000 + count).chain([1_500]));
        assert_eq!(found.len() as u64, count + 1);
        assert!(found.is_sorted());
        assert_eq!(late, 1);
        assert!(
            warnings[0].starts_with("1 requests were out of order"),
            "{warnings:?}"
        );
    }
}
