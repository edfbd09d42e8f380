// SPDX-License-Identifier: Apache-2.0
//! A recording that is read twice: what of it is short enough is held in between, since taking text
//! or columns apart costs more than anything that is done with the requests.

use std::collections::VecDeque;

use plimsoll_core::units::Nanos;

use plimsoll_trace::requests::TraceRequest;
use plimsoll_trace::{TraceError, TraceReadState, TraceSource};

/// Most requests that are held: 160 MiB of them.
const HELD_MAX: usize = 1 << 22;

/// A recording that holds what is read of it, as long as that is not too much.
pub(crate) struct TraceCache {
    inner: Box<dyn TraceSource>,
    held: VecDeque<Vec<TraceRequest>>,
    /// How many more may be held; `None` when there were too many.
    room: Option<usize>,
    /// Whether it was read to its end, and is read from memory now.
    is_again: bool,
}

impl TraceCache {
    pub(crate) fn new(inner: Box<dyn TraceSource>) -> TraceCache {
        TraceCache::of_at_most(HELD_MAX, inner)
    }

    fn of_at_most(most: usize, inner: Box<dyn TraceSource>) -> TraceCache {
        TraceCache {
            inner,
            held: VecDeque::new(),
            room: Some(most),
            is_again: false,
        }
    }

    /// The recording from its start, once it was read to its end; `open` opens it anew where it was
    /// too long.
    pub(crate) fn again(
        mut self,
        open: impl FnOnce() -> Result<Box<dyn TraceSource>, TraceError>,
    ) -> Result<Box<dyn TraceSource>, TraceError> {
        if self.room.is_none() {
            return open();
        }
        self.is_again = true;
        Ok(Box::new(self))
    }

    fn hold(&mut self, fresh: &[TraceRequest]) {
        self.room = self.room.and_then(|room| room.checked_sub(fresh.len()));
        match self.room {
            Some(_) => self.held.push_back(fresh.to_vec()),
            None => self.held = VecDeque::new(),
        }
    }
}

impl TraceSource for TraceCache {
    fn state(&self) -> &TraceReadState {
        self.inner.state()
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        self.inner.origin_unix_ns()
    }

    fn taken_up_after(&self) -> Nanos {
        self.inner.taken_up_after()
    }

    fn read(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        if self.is_again {
            // A request that was given is no longer held.
            let next = self.held.pop_front().unwrap_or_default();
            into.extend(next);
            return Ok(!self.held.is_empty());
        }
        let known = into.len();
        let more = self.inner.read(into)?;
        self.hold(&into[known..]);
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_trace::RecordingInput;
    use plimsoll_trace::requests::read;

    /// A recording of 10,000 requests with ends.
    fn recording() -> Box<dyn TraceSource> {
        let row = |i: u64| {
            let at = 128_166_385_000_000_000 + i;
            let way = if i.is_multiple_of(3) { "Read" } else { "Write" };
            format!("{at},h,{},{way},{},512,7\n", i % 2, i * 512)
        };
        let text: String = (0..10_000).map(row).collect();
        read(RecordingInput::new("f".into(), Box::new(std::io::Cursor::new(text))).unwrap())
            .unwrap()
    }

    fn all(recording: &mut dyn TraceSource) -> Vec<TraceRequest> {
        let mut found = Vec::new();
        while recording.read(&mut found).unwrap() {}
        found
    }

    #[test]
    fn what_is_read_again_is_the_same_and_from_memory_if_it_fits() {
        for (most, is_opened) in [(10_000, false), (9_999, true)] {
            let mut kept = TraceCache::of_at_most(most, recording());
            let first = all(&mut kept);
            let mut opened = false;
            let mut again = kept
                .again(|| {
                    opened = true;
                    Ok(recording())
                })
                .unwrap();
            assert_eq!(all(&mut *again), first);
            assert_eq!((opened, first.len()), (is_opened, 10_000));
            assert_eq!(again.targets(), ["h,0", "h,1"]);
        }
    }
}
