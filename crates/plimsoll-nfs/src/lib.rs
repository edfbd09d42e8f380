// SPDX-License-Identifier: Apache-2.0
//! An NFSv3 client without a kernel: addresses, mounts, names, and a pipelined data path.
//!
//! ```text
//! Address ─mount─▶ Share ─session─▶ Session: names and attributes, one call at a time
//!                    └────line────▶ Line: read, write and commit, many calls in flight
//! ```
//!
//! Names and attributes go through a library; the data path is our own, because that library has
//! one call per connection in flight. See `docs/design/0006-nfs-client.md`.
//!
//! Invariants: nothing waits without a limit; what a server says is checked before it is used; no
//! runtime, no threads, no locks. No cache: every call goes to the server.

mod address;
mod dial;
pub mod line;
mod reply;
mod session;
mod share;
pub mod wire;

pub use address::{NfsAddress, NfsAddressError};
pub use line::RpcConnection;
pub use session::{NfsAttributes, NfsExportSpace, NfsSession};
pub use share::{NfsMount, NfsTransferLimits, share_of};
pub use wire::{NfsFileHandle, StableHow};
