// SPDX-License-Identifier: Apache-2.0
//! The engine that does nothing: what is measured on it is the generator itself.
//!
//! Every kind succeeds at once; reads and writes report their length, no byte moves.

use plimsoll_core::op::OpRequest;
use plimsoll_core::units::Nanos;

use crate::engine::{IoCompletion, IoEngine, UnsupportedOp, pretended_bytes};
use crate::error::EngineError;
use crate::sys::clock::nap;

/// Completes everything at once.
#[derive(Debug)]
pub struct NullEngine {
    slots: u32,
    done: Vec<IoCompletion>,
}

impl NullEngine {
    /// An engine of `slots` slots.
    pub fn new(slots: u32) -> Self {
        NullEngine {
            slots,
            done: Vec::with_capacity(slots as usize),
        }
    }
}

impl IoEngine for NullEngine {
    fn describe(&self) -> String {
        "null".into()
    }

    fn slots(&self) -> u32 {
        self.slots
    }

    fn moves_data(&self) -> bool {
        false
    }

    fn buffer(&mut self, _: u32) -> &mut [u8] {
        &mut []
    }

    #[inline]
    fn queue(&mut self, slot: u32, request: &OpRequest) -> Result<(), UnsupportedOp> {
        self.done.push(IoCompletion {
            slot,
            result: Ok(pretended_bytes(request)),
        });
        Ok(())
    }

    #[inline]
    fn enter(&mut self, wait: Option<Nanos>) -> Result<(), EngineError> {
        match wait {
            Some(time) if self.done.is_empty() => nap(time),
            _ => {}
        }
        Ok(())
    }

    #[inline]
    fn reap(&mut self, done: &mut Vec<IoCompletion>) {
        done.append(&mut self.done);
    }
}
