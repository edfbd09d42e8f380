// SPDX-License-Identifier: Apache-2.0
//! Bytes after which a run ends, counted by all of its workers together.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many bytes of the measured part may still be moved.
#[derive(Debug)]
pub struct ByteBudget {
    bytes: u64,
    moved: AtomicU64,
}

impl ByteBudget {
    /// A budget of `bytes` bytes.
    pub fn new(bytes: u64) -> Self {
        ByteBudget {
            bytes,
            moved: AtomicU64::new(0),
        }
    }

    /// Counts bytes that were moved.
    pub(crate) fn add(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether they are spent.
    pub fn is_spent(&self) -> bool {
        self.moved.load(Ordering::Relaxed) >= self.bytes
    }
}
