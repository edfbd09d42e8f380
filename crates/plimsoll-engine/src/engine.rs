// SPDX-License-Identifier: Apache-2.0
//! How operations reach a target: the contract of all engines, and the buffers they own.
//!
//! An engine has a fixed number of slots. A slot is free, or holds exactly one operation from
//! [`IoEngine::queue`] until [`IoEngine::reap`] gives it back; its buffer belongs to the engine all
//! the time and may be touched from outside only while the slot is free. Engines of real targets
//! know no clock and draw no random numbers; those of tests and simulations do.

use plimsoll_core::op::{OpKind, OpRequest};
use plimsoll_core::rng::{Rng, Seed};
use plimsoll_core::units::Nanos;

use crate::error::EngineError;

/// One operation has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoCompletion {
    /// Where it was queued.
    pub slot: u32,
    /// Bytes moved (0 for kinds that move none), or the system's error number.
    pub result: Result<u64, i32>,
}

/// The engine cannot do this kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsupportedOp(pub OpKind);

/// Carries out operations.
pub trait IoEngine {
    /// Name for reports, with what could not be used.
    fn describe(&self) -> String;

    /// Number of slots; slots are `0..slots()`.
    fn slots(&self) -> u32;

    /// Whether bytes really move, so that the buffers' contents matter.
    fn moves_data(&self) -> bool {
        true
    }

    /// Threads besides the caller's that work for this engine, by thread id.
    fn helper_threads(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Whether the kernel may make threads that work for the caller or its helpers (`io_uring`
    /// does for what would block).
    fn has_kernel_threads(&self) -> bool {
        false
    }

    /// The buffer of a free slot.
    ///
    /// # Panics
    /// When the slot holds an operation, or does not exist.
    fn buffer(&mut self, slot: u32) -> &mut [u8];

    /// Puts `request` into a free slot, to be carried out at the next [`IoEngine::enter`]. Never
    /// blocks.
    ///
    /// # Errors
    /// [`UnsupportedOp`] when the engine has no such operation; the slot stays free.
    ///
    /// # Panics
    /// When the slot is not free or the request is longer than its buffer.
    fn queue(&mut self, slot: u32, request: &OpRequest) -> Result<(), UnsupportedOp>;

    /// Submits what is queued. With `wait`, returns when an operation has ended or that much
    /// time has passed, whichever is first; without, at once. May return early at any time.
    ///
    /// # Errors
    /// When the engine itself is broken; single operations fail in their [`IoCompletion`].
    fn enter(&mut self, wait: Option<Nanos>) -> Result<(), EngineError>;

    /// Appends the operations that have ended to `done` and frees their slots.
    fn reap(&mut self, done: &mut Vec<IoCompletion>);
}

/// Alignment of all buffers: a page, which satisfies direct I/O on every known device.
pub const BUFFER_ALIGN: usize = 4096;

/// Most memory for the buffers of one worker. When a workload wants more, its depth is lowered
/// and the engine's description says so.
pub const POOL_BYTES_MAX: u64 = 256 << 20;

/// Memory of one slot, aligned to [`BUFFER_ALIGN`], filled with random bytes so that no layer
/// below can compress or deduplicate it.
#[derive(Debug)]
pub struct IoBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl IoBuffer {
    /// `len` bytes of the random sequence of `seed`.
    pub fn random(len: usize, seed: Seed) -> Self {
        let mut buffer = IoBuffer::zeroed(len);
        fill_random(buffer.bytes_mut(), &mut Rng::new(seed));
        buffer
    }

    fn zeroed(len: usize) -> Self {
        // The vector is never resized, so its memory stays where it is.
        let memory = vec![0u8; len + BUFFER_ALIGN];
        let start = memory.as_ptr().align_offset(BUFFER_ALIGN);
        assert!(start <= BUFFER_ALIGN, "a byte pointer can be aligned");
        IoBuffer { memory, start, len }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }

    /// The bytes, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// One buffer of `len` bytes per slot.
pub fn buffers(slots: u32, len: u32, seed: Seed) -> Vec<IoBuffer> {
    let buffer = |slot| IoBuffer::random(len as usize, seed.derive("buffer", u64::from(slot)));
    (0..slots).map(buffer).collect()
}

/// Overwrites `bytes` with random ones.
pub fn fill_random(bytes: &mut [u8], rng: &mut Rng) {
    for piece in bytes.chunks_mut(8) {
        let random = rng.next_u64().to_le_bytes();
        piece.copy_from_slice(&random[..piece.len()]);
    }
}

/// Whether the bytes that `request` moves fit into a buffer of `room` bytes. Those that move none
/// may name any length.
#[inline]
pub fn fits(request: &OpRequest, room: usize) -> bool {
    let moves = request.kind.is_read() || request.kind.is_write();
    !moves || request.len as usize <= room
}

/// How many slots of `len` bytes fit into [`POOL_BYTES_MAX`], at most `wanted`, at least 1.
pub fn affordable_slots(wanted: u32, len: u32) -> u32 {
    let affordable = POOL_BYTES_MAX / u64::from(len.max(1));
    wanted
        .min(plimsoll_core::num::saturating_u32(affordable))
        .max(1)
}

/// Bytes an operation claims to have moved where nothing moves.
pub fn pretended_bytes(request: &OpRequest) -> u64 {
    if request.kind.is_read() || request.kind.is_write() {
        u64::from(request.len)
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_random_and_different() {
        let pool = buffers(3, 5000, Seed(1));
        for buffer in &pool {
            assert_eq!(buffer.bytes().len(), 5000);
            assert_eq!(buffer.bytes().as_ptr().align_offset(BUFFER_ALIGN), 0);
            let zeros = buffer.bytes().split(|b| *b != 0).map(<[u8]>::len).max();
            assert!(zeros.unwrap() < 8);
        }
        assert_ne!(pool[0].bytes(), pool[1].bytes());
    }

    #[test]
    fn depth_is_lowered_to_what_memory_allows() {
        assert_eq!(affordable_slots(256, 4096), 256);
        assert_eq!(affordable_slots(256, 16 << 20), 16);
        assert_eq!(affordable_slots(4, u32::MAX), 1);
    }
}
