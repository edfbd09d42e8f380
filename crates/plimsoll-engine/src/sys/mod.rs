// SPDX-License-Identifier: Apache-2.0
//! The only `unsafe` code and the only system clock.
//!
//! Every unsafe block holds one unsafe operation and says why it is sound.

pub mod clock;
pub(crate) mod sync_range;
pub mod uring;
