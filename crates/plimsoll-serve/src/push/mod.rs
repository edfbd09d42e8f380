// SPDX-License-Identifier: Apache-2.0
//! Pushed runs: what is said of them, how they are sent, and where they are kept.

pub(crate) mod client;
mod files;
pub(crate) mod listing;
pub(crate) mod store;
