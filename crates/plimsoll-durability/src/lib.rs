// SPDX-License-Identifier: Apache-2.0
//! Whether acknowledged writes survive a power cut, and what a setting that loses them gains.
//!
//! A server works on a disk that logs every write and flush (`disk`), a witness notes what was acknowledged
//! (`witness`), and the disk is cut afterwards at many instants: each crash state is mounted, the server is
//! started on it, and what is there is judged (`judge`). No power is cut, and no hardware needed.
#![forbid(unsafe_code)]

pub mod bench;
mod campaign;
pub mod disk;
mod error;
mod gain;
pub mod judge;
mod loads;
pub mod server_file;
mod shipped;
mod shrink;
pub mod view;
pub mod witness;

pub use campaign::{DurabilityCampaign, DurabilityListener, GainBlocks, LabelledSettings};
pub use error::DurabilityError;
pub use shipped::{read_shipped, shipped_server, shipped_servers};
