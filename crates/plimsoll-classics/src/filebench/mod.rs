// SPDX-License-Identifier: Apache-2.0
//! filebench 1.5: its shipped personalities, its workload language, and its summary.
//!
//! The pages `docs/workloads/<personality>.md` say what each does and what each number means.

pub(crate) mod notes;
mod personalities;
mod text;
pub mod wml;

pub(crate) use personalities::KNOWN;
pub use text::summary;
pub use wml::{WmlScript, parse, rewritten};
