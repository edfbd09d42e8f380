// SPDX-License-Identifier: Apache-2.0
//! Pushed runs: which may come, and where they are kept.

pub(crate) mod listing;
pub(crate) mod store;
