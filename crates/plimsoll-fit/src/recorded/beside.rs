// SPDX-License-Identifier: Apache-2.0
//! The same requests looked at on two threads: what is found out about them needs nothing of what is
//! made of them, so a second processor can do it.

use std::mem;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use plimsoll_core::op::TraceAccess;
use plimsoll_core::units::Nanos;

/// Requests that are handed on at once: 40 bytes each, so that a few blocks fit into a cache.
const BLOCK: usize = 1 << 12;
/// Blocks that may wait.
const WAITING_MAX: usize = 4;

type TraceRequestBatch = Vec<(TraceAccess, Option<Nanos>)>;

/// Hands requests on to the other thread.
pub(super) struct TraceFanOut {
    block: TraceRequestBatch,
    give: SyncSender<TraceRequestBatch>,
    empty: Receiver<TraceRequestBatch>,
}

/// Does `work`, and on another thread lets `take` look at every request that `work` hands on, in
/// that order. Returns when both are done; what is not handed on by [`TraceFanOut::finish`] is not seen.
pub(super) fn beside<R>(
    mut take: impl FnMut(&TraceAccess, Option<Nanos>) + Send,
    work: impl FnOnce(TraceFanOut) -> R,
) -> R {
    let (give, filled) = mpsc::sync_channel::<TraceRequestBatch>(WAITING_MAX);
    let (back, empty) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for mut block in filled {
                for (request, took) in block.drain(..) {
                    take(&request, took);
                }
                // Behind the last request the block has no further use, so a failed send is fine.
                let _ = back.send(block);
            }
        });
        work(TraceFanOut {
            block: Vec::with_capacity(BLOCK),
            give,
            empty,
        })
    })
}

impl TraceFanOut {
    pub(super) fn add(&mut self, request: &TraceAccess, took: Option<Nanos>) {
        self.block.push((*request, took));
        if self.block.len() == BLOCK {
            let next = self.empty.try_recv().unwrap_or_default();
            // It only fails where the other thread panicked, which goes on in this one.
            let _ = self.give.send(mem::replace(&mut self.block, next));
        }
    }

    /// There are no more.
    pub(super) fn finish(self) {
        let _ = self.give.send(self.block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::op::OpKind;

    #[test]
    fn every_request_is_seen_once_and_in_order() {
        for count in [0, 1, BLOCK as u64, 20 * BLOCK as u64 + 7] {
            let mut seen = Vec::new();
            let handed = beside(
                |request, took| seen.push((request.at.0, took)),
                |mut other| {
                    for at in 0..count {
                        let request = TraceAccess {
                            at: Nanos(at),
                            kind: OpKind::Read,
                            offset: 0,
                            bytes: 512,
                        };
                        other.add(&request, Some(Nanos(at / 2)));
                    }
                    other.finish();
                    count
                },
            );
            assert_eq!(handed, count);
            let expected = (0..count).map(|at| (at, Some(Nanos(at / 2))));
            assert!(seen.into_iter().eq(expected), "{count}");
        }
    }
}
