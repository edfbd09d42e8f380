// SPDX-License-Identifier: Apache-2.0
//! Where the machine is touched without a net: the only `unsafe` and the only system clock.
//!
//! Every unsafe block holds one unsafe operation and says why it is sound.

pub mod clock;
pub(crate) mod sync_range;
pub mod uring;
