// SPDX-License-Identifier: Apache-2.0
//! The engine that does nothing: what is measured on it is the generator itself.
//!
//! Every kind succeeds at once; reads and writes report their length, no byte moves.

use plimsoll_core::op::Request;
use plimsoll_core::units::Nanos;

use crate::engine::{Completion, Engine, Unsupported, pretended_bytes};
use crate::error::Error;
use crate::sys::clock::nap;

/// Completes everything at once.
#[derive(Debug)]
pub struct Null {
    slots: u32,
    done: Vec<Completion>,
}

impl Null {
    /// An engine of `slots` slots.
    #[must_use]
    pub fn new(slots: u32) -> Self {
        Null {
            slots,
            done: Vec::with_capacity(slots as usize),
        }
    }
}

impl Engine for Null {
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
    fn queue(&mut self, slot: u32, request: &Request) -> Result<(), Unsupported> {
        self.done.push(Completion {
            slot,
            result: Ok(pretended_bytes(request)),
        });
        Ok(())
    }

    #[inline]
    fn enter(&mut self, wait: Option<Nanos>) -> Result<(), Error> {
        match wait {
            Some(time) if self.done.is_empty() => nap(time),
            _ => {}
        }
        Ok(())
    }

    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }
}
