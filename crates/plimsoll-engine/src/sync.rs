// SPDX-License-Identifier: Apache-2.0
//! Plain system calls on the driver's own thread: one operation at a time, every kind.
//!
//! The call runs inside [`IoEngine::enter`], so that the submission stamp lies before it.

use plimsoll_core::op::OpRequest;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;

use crate::engine::{IoBuffer, IoCompletion, IoEngine, UnsupportedOp, fits};
use crate::error::EngineError;
use crate::sys::clock::nap;
use crate::target::RequestTarget;

/// One slot, one call at a time.
#[derive(Debug)]
pub struct SyncEngine {
    target: RequestTarget,
    buffer: IoBuffer,
    queued: Option<OpRequest>,
    done: Option<IoCompletion>,
}

impl SyncEngine {
    /// An engine on `target` for requests of at most `len_max` bytes.
    pub fn new(target: RequestTarget, len_max: u32, seed: Seed) -> Self {
        SyncEngine {
            target,
            buffer: IoBuffer::random(len_max as usize, seed.derive("buffer", 0)),
            queued: None,
            done: None,
        }
    }

    fn assert_free(&self, slot: u32) {
        assert_eq!(slot, 0, "there is one slot");
        assert!(
            self.queued.is_none() && self.done.is_none(),
            "the slot is free"
        );
    }
}

impl IoEngine for SyncEngine {
    fn describe(&self) -> String {
        "sync".into()
    }

    fn slots(&self) -> u32 {
        1
    }

    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.assert_free(slot);
        self.buffer.bytes_mut()
    }

    fn queue(&mut self, slot: u32, request: &OpRequest) -> Result<(), UnsupportedOp> {
        self.assert_free(slot);
        if !self.target.supports(request.kind) {
            return Err(UnsupportedOp(request.kind));
        }
        let room = self.buffer.bytes().len();
        assert!(fits(request, room), "the request fits its buffer");
        self.queued = Some(*request);
        Ok(())
    }

    fn enter(&mut self, wait: Option<Nanos>) -> Result<(), EngineError> {
        if let Some(request) = self.queued.take() {
            let result = self.target.perform(&request, self.buffer.bytes_mut());
            self.done = Some(IoCompletion { slot: 0, result });
        } else if let (Some(time), None) = (wait, &self.done) {
            nap(time);
        }
        Ok(())
    }

    fn reap(&mut self, done: &mut Vec<IoCompletion>) {
        done.extend(self.done.take());
    }
}
