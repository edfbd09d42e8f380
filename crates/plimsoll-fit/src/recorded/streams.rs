// SPDX-License-Identifier: Apache-2.0
//! Streams: requests that go on where another ended, several at a time.

use plimsoll_core::histogram::Histogram;
use plimsoll_core::num::ratio;
use plimsoll_core::op::{OpKind, TraceAccess};
use plimsoll_core::profile::SequentialRunStats;
use plimsoll_core::units::Nanos;

/// Streams that are remembered: what schedulers and disks that read ahead can follow.
const STREAMS: usize = 64;
/// A later request no longer continues a stream.
const GAP_MAX: Nanos = Nanos::SECOND;

/// A stream that may go on.
#[derive(Debug, Clone, Copy)]
struct SequentialStream {
    kind: OpKind,
    /// Where it ended.
    end: u64,
    /// Its last request's start.
    last: Nanos,
    requests: u64,
}

/// Finds streams in requests that come in the order of their starts.
#[derive(Debug)]
pub(super) struct SequentialStreamFinder {
    open: Vec<SequentialStream>,
    requests: u64,
    bytes: u64,
    continued: u64,
    /// Requests by the length of their stream in requests: a histogram of numbers, not of times.
    lengths: Histogram,
}

impl SequentialStreamFinder {
    pub(super) fn new() -> SequentialStreamFinder {
        SequentialStreamFinder {
            open: Vec::with_capacity(STREAMS),
            requests: 0,
            bytes: 0,
            continued: 0,
            lengths: Histogram::new(),
        }
    }

    pub(super) fn add(&mut self, request: &TraceAccess) {
        if !matches!(request.kind, OpKind::Read | OpKind::Write) {
            return;
        }
        self.requests += 1;
        self.bytes += u64::from(request.bytes);
        let end = request.offset.saturating_add(request.bytes.into());
        let goes_on = |stream: &&mut SequentialStream| {
            stream.end == request.offset
                && stream.kind == request.kind
                && request.at.since(stream.last) < GAP_MAX
        };
        if let Some(stream) = self.open.iter_mut().find(goes_on) {
            stream.end = end;
            stream.last = request.at;
            stream.requests += 1;
            self.continued += 1;
            return;
        }
        let fresh = SequentialStream {
            kind: request.kind,
            end,
            last: request.at,
            requests: 1,
        };
        if self.open.len() < STREAMS {
            self.open.push(fresh);
            return;
        }
        if let Some(oldest) = self.open.iter_mut().min_by_key(|stream| stream.last) {
            let ended = std::mem::replace(oldest, fresh);
            self.count(ended);
        }
    }

    fn count(&mut self, ended: SequentialStream) {
        self.lengths
            .record_many(Nanos(ended.requests), ended.requests);
    }

    /// The findings; `None` without reads and writes.
    pub(super) fn finish(mut self) -> Option<SequentialRunStats> {
        for stream in std::mem::take(&mut self.open) {
            self.count(stream);
        }
        let runs = self.requests - self.continued;
        (runs > 0).then(|| SequentialRunStats {
            sequential_share: ratio(self.continued as f64, self.requests as f64),
            runs,
            run_mean_requests: self.requests as f64 / runs as f64,
            run_median_requests: self.lengths.quantile_ns(0.5),
            run_max_requests: self.lengths.max_ns(),
            run_mean_bytes: self.bytes as f64 / runs as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(requests: impl IntoIterator<Item = (u64, OpKind, u64)>) -> Option<SequentialRunStats> {
        let mut finder = SequentialStreamFinder::new();
        for (at_ms, kind, block) in requests {
            finder.add(&TraceAccess {
                at: Nanos(at_ms * 1_000_000),
                kind,
                offset: block * 4096,
                bytes: 4096,
            });
        }
        finder.finish()
    }

    #[test]
    fn interleaved_streams_are_told_apart() {
        // Two streams of 100 reads, one of writes that begins where a read ends.
        let two = (0..100).flat_map(|i| {
            let write = (i, OpKind::Write, 5_000 + i);
            [(i, OpKind::Read, i), (i, OpKind::Read, 4_900 + i), write]
        });
        let streams = found(two).unwrap();
        assert_eq!(streams.runs, 3);
        assert_eq!(
            (streams.run_median_requests, streams.run_max_requests),
            (100, 100)
        );
        assert!((streams.sequential_share - 0.99).abs() < 1e-9);
        assert!((streams.run_mean_bytes - 409_600.0).abs() < 1e-9);
    }

    #[test]
    fn pauses_other_directions_and_too_many_streams_end_one() {
        let late = [(0, OpKind::Read, 1), (1_000, OpKind::Read, 2)];
        let turned = [(0, OpKind::Read, 1), (1, OpKind::Write, 2)];
        let many = (0..2)
            .flat_map(|round| (0..65).map(move |s| (round * 65 + s, OpKind::Read, s * 10 + round)));
        for (requests, runs) in [
            (late.to_vec(), 2),
            (turned.to_vec(), 2),
            (many.collect(), 130),
        ] {
            assert_eq!(found(requests).unwrap().runs, runs);
        }
        assert_eq!(found([(0, OpKind::Fsync, 0)]), None);
    }
}
