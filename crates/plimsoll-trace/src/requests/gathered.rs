// SPDX-License-Identifier: Apache-2.0
//! Requests of recordings that list them file by file: all are held, put in the order of their starts,
//! and given from the earliest on.

use plimsoll_core::op::OpKind;
use plimsoll_core::units::Nanos;

use super::TraceRequest;
use crate::error::TraceError;
use crate::recording::{TraceOrder, TraceReadState, TraceSource};

/// Most requests that are held: some 320 MB.
const HELD_MAX: usize = 8_000_000;
/// Requests of one call.
const BATCH: usize = 4096;
/// The latest time that is believed: 95 years after the start.
const SECONDS_MAX: f64 = 3e9;

/// A request as such recordings list it: times in seconds from the start of the recording.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListedRequest {
    pub(super) kind: OpKind,
    pub(super) offset: i64,
    pub(super) bytes: i64,
    pub(super) start_s: f64,
    pub(super) end_s: f64,
}

/// Collects requests in any order, and gives them in that of their starts.
pub(super) struct TraceGatherer {
    pub(super) state: TraceReadState,
    requests: Vec<TraceRequest>,
    /// Those that were given.
    given: usize,
    origin_unix_ns: Option<u64>,
    empty: u64,
    invalid: u64,
    nameless: u64,
}

impl TraceGatherer {
    /// Of what `state` says.
    pub(super) fn new(mut state: TraceReadState) -> TraceGatherer {
        state.about.carries.order = TraceOrder::Started;
        TraceGatherer {
            state,
            requests: Vec::new(),
            given: 0,
            origin_unix_ns: None,
            empty: 0,
            invalid: 0,
            nameless: 0,
        }
    }

    /// Requests so far, with those that were left out.
    pub(super) fn seen(&self) -> u64 {
        self.requests.len() as u64 + self.empty + self.invalid + self.nameless
    }

    /// Takes a request of the file `target`; `false` when there is no room for more.
    pub(super) fn push(&mut self, target: &[u8], listed: ListedRequest) -> bool {
        if self.requests.len() >= HELD_MAX {
            return false;
        }
        if listed.bytes == 0 {
            self.empty += 1;
            return true;
        }
        let bytes = u32::try_from(listed.bytes).ok();
        let offset = u64::try_from(listed.offset).ok();
        let (Some(bytes), Some(offset), Some(at)) = (bytes, offset, instant(listed.start_s)) else {
            self.invalid += 1;
            return true;
        };
        let Some(target) = self.state.targets.place(target) else {
            self.nameless += 1;
            return true;
        };
        let ended = instant(listed.end_s).filter(|end| *end >= at);
        self.requests.push(TraceRequest {
            at,
            took: ended.map(|end| Nanos(end.0 - at.0)),
            kind: listed.kind,
            target,
            bytes,
            offset,
        });
        true
    }

    /// Puts them in order. `zero_unix_ns` is the instant from which their times count.
    ///
    /// # Errors
    /// When there is none: `nothing` says what to do, unless damage is the reason.
    pub(super) fn finish(
        mut self,
        zero_unix_ns: Option<u64>,
        nothing: &str,
    ) -> Result<Box<dyn TraceSource>, TraceError> {
        if self.requests.is_empty() {
            let nothing = self.state.refused(nothing);
            return Err(self.state.damage.map_or(nothing, TraceError::from));
        }
        self.requests.sort_by_key(|request| request.at);
        let earliest = self.requests[0].at;
        for request in &mut self.requests {
            request.at = Nanos(request.at.0 - earliest.0);
        }
        for (count, what) in [
            (self.empty, "moved no bytes"),
            (
                self.invalid,
                "have no valid place, length (below 4 GiB) or time",
            ),
            (
                self.nameless,
                "are of files beyond the 65,535 that can be told apart",
            ),
        ] {
            if count > 0 {
                self.state
                    .warnings
                    .push(format!("{count} requests {what} and were left out"));
            }
        }
        self.origin_unix_ns = zero_unix_ns.and_then(|zero| zero.checked_add(earliest.0));
        Ok(Box::new(self))
    }
}

/// Seconds from the start of a recording.
fn instant(seconds: f64) -> Option<Nanos> {
    (seconds.is_finite() && (0.0..=SECONDS_MAX).contains(&seconds))
        .then(|| Nanos::from_secs_f64(seconds))
}

impl TraceSource for TraceGatherer {
    fn state(&self) -> &TraceReadState {
        &self.state
    }

    fn origin_unix_ns(&self) -> Option<u64> {
        self.origin_unix_ns
    }

    fn read(&mut self, into: &mut Vec<TraceRequest>) -> Result<bool, TraceError> {
        let to = self.requests.len().min(self.given + BATCH);
        into.extend_from_slice(&self.requests[self.given..to]);
        self.given = to;
        Ok(to < self.requests.len())
    }
}
